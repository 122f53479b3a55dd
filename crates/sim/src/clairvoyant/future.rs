//! The future as the oracle holds it: every block's accesses to come, in order.
//!
//! A position is one block of one recorded access; positions count up in the order of the recording. Each block has a
//! *head*, its next position that has not happened yet, and each position knows the block's next one, so that an
//! access moves a head along in constant time. In a run with several processes the order is only nearly the recorded
//! one: heads are per block, so what happens early or late moves its own block's head and nothing else.

use forerun_core::access::Op;
use forerun_core::hash::NumberMap;
use forerun_core::units::{Block, Extent};

/// One block of one recorded access.
pub(super) type Position = u32;
/// Later than every position: never again.
pub(super) const NEVER: Position = Position::MAX;
/// Most positions that are kept; what comes after is not known to the oracle. 2^31: 8 TiB of reads, 18 GiB of table.
const POSITIONS_MAX: usize = 1 << 31;

/// A block's number in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u32);

impl Key {
    /// As an index into a table per block.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What will be asked for.
#[derive(Clone)]
pub(super) struct Future {
    keys: NumberMap<Key>,
    /// Per key.
    blocks: Vec<Block>,
    /// Per key: its next position.
    heads: Vec<Position>,
    /// Per position: whose it is, the same block's next one, and whether it wants the content.
    whose: Vec<Key>,
    again: Vec<Position>,
    reads: Vec<bool>,
}

impl Future {
    /// The future in which `order` happens.
    pub(super) fn of(order: &[(Extent, Op)]) -> Self {
        let mut future = Self {
            keys: NumberMap::default(),
            blocks: Vec::new(),
            heads: Vec::new(),
            whose: Vec::new(),
            again: Vec::new(),
            reads: Vec::new(),
        };
        'all: for (extent, op) in order {
            for block in extent.iter() {
                if future.whose.len() == POSITIONS_MAX {
                    break 'all;
                }
                let key = future.intern(block);
                future.whose.push(key);
                future.reads.push(*op == Op::Read);
            }
        }
        future.again = vec![NEVER; future.whose.len()];
        for position in (0..future.whose.len()).rev() {
            let head = &mut future.heads[future.whose[position].index()];
            // Below POSITIONS_MAX, hence within 32 bits.
            future.again[position] = core::mem::replace(head, position as Position);
        }
        future
    }

    /// The key of a block, made if it has none.
    pub(super) fn intern(&mut self, block: Block) -> Key {
        let fresh = Key(u32::try_from(self.blocks.len()).expect("fewer than 2^32 blocks are ever touched"));
        let key = *self.keys.entry(block.0).or_insert(fresh);
        if key == fresh {
            self.blocks.push(block);
            self.heads.push(NEVER);
        }
        key
    }

    /// The key of a block that is in the recording.
    pub(super) fn key(&self, block: Block) -> Option<Key> {
        self.keys.get(&block.0).copied()
    }
    /// The block of a key.
    pub(super) fn block(&self, key: Key) -> Block {
        self.blocks[key.index()]
    }
    /// How many positions there are.
    pub(super) fn positions(&self) -> Position {
        self.whose.len() as Position
    }
    /// Whose position it is.
    pub(super) fn whose(&self, position: Position) -> Key {
        self.whose[position as usize]
    }
    /// When the content of this block will be wanted next: [`NEVER`] also if it will be replaced before.
    pub(super) fn next_read(&self, key: Key) -> Position {
        let head = self.heads[key.index()];
        if head != NEVER && self.reads[head as usize] { head } else { NEVER }
    }
    /// Whether the next thing to happen to the block of `position` is this position.
    pub(super) fn is_head(&self, position: Position) -> bool {
        self.heads[self.whose(position).index()] == position
    }
    /// The next access of this block has happened. False if none was expected.
    pub(super) fn pass(&mut self, key: Key) -> bool {
        let head = &mut self.heads[key.index()];
        if *head == NEVER {
            return false;
        }
        *head = self.again[*head as usize];
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_about_to_be_replaced_is_not_wanted_until_it_is_read_again() {
        let order =
            [(Extent::new(7, 2), Op::Read), (Extent::new(7, 1), Op::Write), (Extent::new(7, 1), Op::Read)];
        let mut future = Future::of(&order);
        let (seven, eight) = (future.key(Block(7)).unwrap(), future.key(Block(8)).unwrap());
        assert_eq!((future.positions(), future.next_read(seven), future.next_read(eight)), (4, 0, 1));
        assert!(future.pass(seven) && !future.is_head(0) && future.is_head(2));
        assert_eq!(future.next_read(seven), NEVER);
        assert!(future.pass(seven));
        assert_eq!(future.next_read(seven), 3);
        assert!(future.pass(seven) && !future.pass(seven));
        let fresh = future.intern(Block(99));
        assert_eq!((future.next_read(fresh), future.block(fresh)), (NEVER, Block(99)));
    }
}
