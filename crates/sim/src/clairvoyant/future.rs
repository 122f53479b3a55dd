//! The future as the oracle holds it: every block's accesses to come, in order.
//!
//! A position is one block of one recorded access; positions count up in the order of the recording. Each block has a
//! *head*, its next position that has not happened yet, and each position knows the block's next one, so that an
//! access moves a head along in constant time. In a run with several processes the order is only nearly the recorded
//! one: heads are per block, so what happens early or late moves its own block's head and nothing else.
//!
//! The order is 8 bytes a position and some 14 a block, and all runs share it; of its own a run has the heads, 4 bytes a block, and
//! the blocks that it reads along without their being in the recording.

use super::numbers::Numbers;
use super::record::Accesses;
use forerun_core::access::Op;
use forerun_core::units::Block;
use std::sync::Arc;

/// One block of one recorded access.
pub(super) type Position = u32;
/// Later than every position: never again.
pub(super) const NEVER: Position = Position::MAX;
/// Most positions that are kept; what comes after is not known to the oracle. 2^31: 8 TiB of reads, 16 GiB of table.
const POSITIONS_MAX: usize = 1 << 31;
/// In a word of a position: the content is replaced and not wanted. A key is below it.
const WRITE: u32 = Numbers::MAX;

/// A block's number in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u32);

impl Key {
    /// As an index into a table per block.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What was recorded, the same for all runs.
struct Order {
    numbers: Numbers,
    /// Per position: whose it is, with [`WRITE`].
    whose: Vec<u32>,
    /// Per position: the same block's next one.
    again: Vec<Position>,
}

/// What will be asked for.
#[derive(Clone)]
pub(super) struct Future {
    order: Arc<Order>,
    /// Blocks that are not in the recording; their keys follow those that are.
    others: Numbers,
    /// Per key: its next position. Of those behind the end: never.
    heads: Vec<Position>,
}

impl Future {
    /// The future in which `accesses` happen.
    pub(super) fn of(accesses: &Accesses) -> Self {
        let mut order = Order { numbers: Numbers::default(), whose: Vec::new(), again: Vec::new() };
        'all: for (extent, op) in accesses.iter() {
            for block in extent.iter() {
                if order.whose.len() == POSITIONS_MAX {
                    break 'all;
                }
                let key = order.numbers.intern(block);
                order.whose.push(if op == Op::Write { key | WRITE } else { key });
            }
        }
        order.whose.shrink_to_fit();
        order.again = vec![NEVER; order.whose.len()];
        let mut heads = vec![NEVER; order.numbers.len() as usize];
        for position in (0..order.whose.len()).rev() {
            let head = &mut heads[order.key(position).index()];
            // Below POSITIONS_MAX, hence within 32 bits.
            order.again[position] = core::mem::replace(head, position as Position);
        }
        Self { order: Arc::new(order), others: Numbers::default(), heads }
    }

    /// The key of a block, made if it has none.
    pub(super) fn intern(&mut self, block: Block) -> Key {
        let recorded = self.order.numbers.number(block);
        Key(recorded.unwrap_or_else(|| self.order.numbers.len() + self.others.intern(block)))
    }

    /// The key of a block that is in the recording, or was read along.
    pub(super) fn key(&self, block: Block) -> Option<Key> {
        let recorded = self.order.numbers.number(block);
        recorded.or_else(|| Some(self.order.numbers.len() + self.others.number(block)?)).map(Key)
    }
    /// The block of a key.
    pub(super) fn block(&self, key: Key) -> Block {
        match key.0.checked_sub(self.order.numbers.len()) {
            None => self.order.numbers.block(key.0),
            Some(other) => self.others.block(other),
        }
    }
    /// What a run takes for itself beside the order: heads, where each block is kept, and the list of its requests, bytes.
    pub(super) fn own_bytes(&self) -> usize {
        size_of::<u32>() * (2 * self.heads.len() + self.order.whose.len())
    }
    /// How many positions there are.
    pub(super) fn positions(&self) -> Position {
        self.order.whose.len() as Position
    }
    /// Whose position it is.
    pub(super) fn whose(&self, position: Position) -> Key {
        self.order.key(position as usize)
    }
    fn head(&self, key: Key) -> Position {
        self.heads.get(key.index()).copied().unwrap_or(NEVER)
    }
    /// When the content of this block will be wanted next: [`NEVER`] also if it will be replaced before.
    pub(super) fn next_read(&self, key: Key) -> Position {
        let head = self.head(key);
        if head != NEVER && self.order.whose[head as usize] & WRITE == 0 { head } else { NEVER }
    }
    /// Whether the next thing to happen to the block of `position` is this position.
    pub(super) fn is_head(&self, position: Position) -> bool {
        self.head(self.whose(position)) == position
    }
    /// The next access of this block has happened. False if none was expected.
    pub(super) fn pass(&mut self, key: Key) -> bool {
        let Some(head) = self.heads.get_mut(key.index()).filter(|head| **head != NEVER) else {
            return false;
        };
        *head = self.order.again[*head as usize];
        true
    }
}

impl Order {
    fn key(&self, position: usize) -> Key {
        Key(self.whose[position] & !WRITE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::units::Extent;

    #[test]
    fn a_block_about_to_be_replaced_is_not_wanted_until_it_is_read_again() {
        let order =
            [(Extent::new(7, 2), Op::Read), (Extent::new(7, 1), Op::Write), (Extent::new(7, 1), Op::Read)];
        let mut future = Future::of(&order.into_iter().collect());
        let (seven, eight) = (future.key(Block(7)).unwrap(), future.key(Block(8)).unwrap());
        assert_eq!((future.positions(), future.next_read(seven), future.next_read(eight)), (4, 0, 1));
        assert!(future.pass(seven) && !future.is_head(0) && future.is_head(2));
        assert_eq!(future.next_read(seven), NEVER);
        assert!(future.pass(seven));
        assert_eq!(future.next_read(seven), 3);
        assert!(future.pass(seven) && !future.pass(seven));
    }

    #[test]
    fn runs_share_the_order_and_have_what_they_read_along_for_themselves() {
        let mut future = Future::of(&[(Extent::new(7, 1), Op::Read)].into_iter().collect());
        let mut other = future.clone();
        let fresh = future.intern(Block(99));
        assert_eq!(
            (future.next_read(fresh), future.block(fresh), future.pass(fresh)),
            (NEVER, Block(99), false)
        );
        assert_eq!((future.key(Block(99)), other.key(Block(99))), (Some(fresh), None));
        let seven = other.key(Block(7)).unwrap();
        assert!(other.pass(seven));
        assert_eq!((future.next_read(seven), other.next_read(seven)), (0, NEVER));
        assert_eq!(other.intern(Block(5)), fresh, "each numbers its own");
    }
}
