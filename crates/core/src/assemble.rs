//! Ranges of bytes as blocks: which blocks a request touches, which of them it covers only in part (its edges), in what parts it goes
//! to an engine, and which writes must wait for one another.
//!
//! An engine knows whole blocks. So a write that covers a part of a block needs the rest of it: the block is read first, and goes to
//! the engine with the bytes of the write in it. Until all of a write is in the engine's hands, no other write that touches
//! one of its blocks begins: its edges would be read too early, and bring back what the first one replaced. A write
//! waits only for the last ones before it that want one of its blocks, each of which waits for those before itself. So however many
//! writes want one block, each has one to wait for and one that waits for it.
//!
//! ```text
//!   add --nobody before it wants its blocks--> begins --edges are read--> parts are handed over --last part--> forgotten here
//!    `--somebody does: waits ------------------^                                                      `--> others begin
//! ```
//!
//! Reads need nothing of this but [`ByteRange`] and [`Extent::parts`]: a read beside a write of the same block may see it or not.

use crate::planted::{self, Bug};
use crate::units::{BLOCK_BYTES, Block, Extent};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;

/// Most blocks of a part of a request: 1 MiB, as a block layer cuts them.
pub const PART_BLOCKS: u64 = 256;

/// A run of bytes: `[offset, offset + bytes)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// First byte.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
}

impl ByteRange {
    /// So many bytes from `offset` on.
    #[must_use]
    pub const fn new(offset: u64, bytes: u64) -> Self {
        Self { offset, bytes }
    }
    /// First byte after the run.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset + self.bytes
    }
    /// The blocks that it touches.
    #[must_use]
    pub const fn blocks(self) -> Extent {
        Extent::covering(self.offset, self.bytes)
    }
    /// What of it lies in these blocks.
    #[must_use]
    pub fn within(self, blocks: Extent) -> Self {
        let offset = self.offset.max(blocks.start.0 * BLOCK_BYTES);
        let end = self.end().min(blocks.end() * BLOCK_BYTES);
        Self { offset, bytes: end.saturating_sub(offset) }
    }
}

/// What a write leaves of the block that it begins or ends in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block.
    pub block: Block,
    /// The bytes of the block that are the write's own; the others must be read.
    pub own: Range<usize>,
}

impl Edge {
    /// The block as an extent.
    #[must_use]
    pub const fn extent(&self) -> Extent {
        Extent { start: self.block, blocks: 1 }
    }
}

/// A write as the blocks that it touches and those of its ends that it covers in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The blocks.
    pub extent: Extent,
    /// Where it begins in its first block.
    head: usize,
    /// Where it ends in its last one.
    tail: usize,
}

impl Outline {
    /// Of a write of `bytes`, at least one. `is_end`: nothing lies behind them (a file or a volume ends there), so that of their last
    /// block nothing need be read behind them.
    #[must_use]
    pub fn new(bytes: ByteRange, is_end: bool) -> Self {
        assert!(bytes.bytes > 0, "a write has a byte");
        let whole = BLOCK_BYTES as usize;
        let head = (bytes.offset % BLOCK_BYTES) as usize;
        let tail = ((bytes.end() - 1) % BLOCK_BYTES) as usize + 1;
        Self { extent: bytes.blocks(), head, tail: if is_end { whole } else { tail } }
    }
    /// Of a write that needs nothing of the blocks that it touches beyond its own bytes.
    #[must_use]
    pub const fn of_blocks(extent: Extent) -> Self {
        Self { extent, head: 0, tail: BLOCK_BYTES as usize }
    }
    /// The first block, if it must be read.
    #[must_use]
    pub fn first(&self) -> Option<Edge> {
        let tail = if self.extent.blocks == 1 { self.tail } else { BLOCK_BYTES as usize };
        Self::edge(self.extent.start, self.head..tail)
    }
    /// The last block, if it must be read and is not the first one.
    #[must_use]
    pub fn last(&self) -> Option<Edge> {
        let block = Block(self.extent.end() - 1);
        if self.extent.blocks == 1 { None } else { Self::edge(block, 0..self.tail) }
    }
    /// Both, if there are two.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.first().into_iter().chain(self.last())
    }

    fn edge(block: Block, own: Range<usize>) -> Option<Edge> {
        (own.len() < BLOCK_BYTES as usize).then_some(Edge { block, own })
    }
}

/// A write that is not wholly in the engine's hands.
#[derive(Debug)]
struct Write {
    outline: Outline,
    /// Writes before it that must be in the engine's hands first.
    waits_for: u32,
    /// Writes that wait for it, in order.
    awaited_by: Vec<usize>,
    /// Edges that are not here.
    edges_left: u32,
    /// Blocks that the engine has.
    handed: u64,
}

/// The writes of one engine that are not wholly in its hands. A host gives each a number: small, and used again only when the write
/// is forgotten here.
#[derive(Debug, Default)]
pub struct Assembler {
    writes: Vec<Option<Write>>,
    claims: Claims,
    begins: VecDeque<usize>,
}

impl Assembler {
    /// A write comes. [`Assembler::begin`] says when it may begin: at once, if nobody is before it.
    pub fn add(&mut self, who: usize, outline: Outline) {
        let mut before = self.claims.take(outline.extent, who);
        if planted::is(Bug::OverlapsIgnored) {
            before.clear();
        }
        for &earlier in &before {
            self.get(earlier).awaited_by.push(who);
        }
        if before.is_empty() {
            self.begins.push_back(who);
        }
        if self.writes.len() <= who {
            self.writes.resize_with(who + 1, || None);
        }
        assert!(self.writes[who].is_none(), "a number is one write's");
        self.writes[who] = Some(Write {
            outline,
            waits_for: before.len() as u32,
            awaited_by: Vec::new(),
            edges_left: outline.edges().count() as u32,
            handed: 0,
        });
    }

    /// A write that may begin now: its edges are to be read, or, if it has none, its parts handed over.
    pub fn begin(&mut self) -> Option<usize> {
        let who = self.begins.pop_front()?;
        if planted::is(Bug::NextBeginsEarly) {
            self.let_others_begin(who);
        }
        Some(who)
    }

    /// What a write touches.
    #[must_use]
    pub fn outline(&mut self, who: usize) -> Outline {
        self.get(who).outline
    }

    /// An edge of a write is here. Says whether all of them are: then its parts can be handed over.
    pub fn edge_here(&mut self, who: usize) -> bool {
        let write = self.get(who);
        write.edges_left -= 1;
        write.edges_left == 0
    }

    /// The part of a write that is to be handed over next, of at most so many blocks.
    pub fn next(&mut self, who: usize, blocks_max: u64) -> Extent {
        let Write { outline: Outline { extent, .. }, handed, .. } = *self.get(who);
        Extent::new(extent.start.0 + handed, (extent.blocks - handed).min(blocks_max))
    }

    /// The engine has that part. Says whether it was the last one: then the write is forgotten, and those that waited for it may begin.
    pub fn handed(&mut self, who: usize, part: Extent) -> bool {
        let write = self.get(who);
        assert_eq!(part.start.0, write.outline.extent.start.0 + write.handed, "parts go in order");
        write.handed += part.blocks;
        let last = write.handed == write.outline.extent.blocks;
        if last {
            self.forget(who);
        }
        last
    }

    /// No more of a write goes to the engine: it has all, or never will. Those that waited for it may begin.
    pub fn forget(&mut self, who: usize) {
        self.let_others_begin(who);
        self.writes[who] = None;
    }

    /// Whether no write is here.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.claims.0.is_empty()
    }

    fn let_others_begin(&mut self, who: usize) {
        let write = self.get(who);
        let (extent, others) = (write.outline.extent, core::mem::take(&mut write.awaited_by));
        self.claims.give_back(extent, who);
        for other in others {
            let write = self.get(other);
            write.waits_for -= 1;
            if write.waits_for == 0 {
                self.begins.push_back(other);
            }
        }
    }

    fn get(&mut self, who: usize) -> &mut Write {
        self.writes[who].as_mut().expect("a write is here until the engine has all of it")
    }
}

/// Which write is the last to want a run of blocks: an index by interval, so that whoever comes next finds in the logarithm of
/// the runs whom it has to wait for. Runs do not overlap; by their first block: where they end, and whose they are.
#[derive(Debug, Default)]
struct Claims(BTreeMap<u64, (u64, usize)>);

impl Claims {
    /// `extent` is wanted by `who`. Returns those who were the last to want parts of it, each once.
    fn take(&mut self, extent: Extent, who: usize) -> Vec<usize> {
        let (start, end) = (extent.start.0, extent.end());
        if let Some((&first, &(last, whose))) = self.0.range(..start).next_back()
            && last > start
        {
            self.0.insert(first, (start, whose));
            self.0.insert(start, (last, whose));
        }
        let within: Vec<_> =
            self.0.range(start..end).map(|(&first, &(last, whose))| (first, last, whose)).collect();
        let mut before = Vec::with_capacity(within.len());
        for (first, last, whose) in within {
            self.0.remove(&first);
            if last > end {
                self.0.insert(end, (last, whose));
            }
            before.push(whose);
        }
        self.0.insert(start, (end, who));
        before.sort_unstable();
        before.dedup();
        before
    }

    /// `who` wants nothing of its `extent` any more.
    fn give_back(&mut self, extent: Extent, who: usize) {
        let own = self.0.range(extent.start.0..extent.end()).filter(|(_, (_, whose))| *whose == who);
        for first in own.map(|(&first, _)| first).collect::<Vec<_>>() {
            self.0.remove(&first);
        }
    }
}

/// What must hold of a write's outline, for any bytes: the tests below go through all boundaries, and a verifier proves it.
#[cfg(any(test, kani))]
mod properties {
    use super::*;

    /// What a write owns of its edges and of the blocks between them is as many bytes as it has, and an edge lies in a block of it.
    pub(super) fn a_write_is_its_edges_and_the_blocks_between(write: ByteRange) {
        let outline = Outline::new(write, false);
        let (mut bytes, mut whole) = (0, outline.extent.blocks);
        for edge in outline.edges() {
            assert!(outline.extent.contains(edge.block) && edge.own.end <= BLOCK_BYTES as usize, "{write:?}");
            bytes += edge.own.len() as u64;
            whole -= 1;
        }
        assert_eq!(bytes + whole * BLOCK_BYTES, write.bytes, "{write:?}");
    }
}

#[cfg(kani)]
mod proofs {
    use super::properties::*;
    use super::*;
    use kani::any;

    /// Any write of a byte to 4 GiB, anywhere.
    #[kani::proof]
    #[kani::unwind(4)]
    fn writes() {
        let bytes = u64::from(any::<u32>().max(1));
        a_write_is_its_edges_and_the_blocks_between(ByteRange::new(
            any::<u64>().min(u64::MAX - bytes),
            bytes,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::properties::*;
    use super::*;

    #[test]
    fn who_comes_waits_for_the_last_of_each_run() {
        let mut claims = Claims::default();
        assert!(claims.take(Extent::new(0, 10), 0).is_empty());
        assert_eq!(claims.take(Extent::new(5, 2), 1), [0]);
        assert_eq!(claims.take(Extent::new(6, 8), 2), [0, 1]);
        assert_eq!(claims.take(Extent::new(0, 20), 3), [0, 1, 2]);
        assert_eq!(claims.take(Extent::new(19, 5), 4), [3]);
        claims.give_back(Extent::new(0, 20), 3);
        assert_eq!(claims.take(Extent::new(0, 30), 5), [4], "what was given back is nobody's");
        claims.give_back(Extent::new(0, 30), 5);
        assert!(claims.0.is_empty());
    }

    #[test]
    fn a_range_has_the_edges_and_the_bytes_of_its_blocks_that_counting_bytes_finds() {
        // Every range whose ends lie within two bytes of an end or the middle of one of three blocks.
        let near = |middle: u64| middle.saturating_sub(2)..=middle + 2;
        let ends: Vec<u64> = (0..=6).flat_map(|half| near(half * BLOCK_BYTES / 2)).collect();
        for (&from, &to) in ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to))) {
            if from >= to {
                continue;
            }
            let range = ByteRange::new(from, to - from);
            a_write_is_its_edges_and_the_blocks_between(range);
            let own = |block: u64| {
                let part = range.within(Extent::new(block, 1));
                assert!(part.bytes == 0 || (part.offset >= from && part.end() <= to));
                let counted =
                    (block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES).filter(|b| (from..to).contains(b));
                assert_eq!(part.bytes, counted.count() as u64, "{range:?} in block {block}");
                part
            };
            for is_end in [false, true] {
                let outline = Outline::new(range, is_end);
                let touched: Vec<u64> = (0..4).filter(|&block| own(block).bytes > 0).collect();
                assert!(outline.extent.iter().map(|block| block.0).eq(touched.iter().copied()), "{range:?}");
                let wanted = touched.iter().filter_map(|&block| {
                    let part = own(block);
                    let start = (part.offset - block * BLOCK_BYTES) as usize;
                    let last = is_end && part.end() == to;
                    let end = if last { BLOCK_BYTES as usize } else { start + part.bytes as usize };
                    (end - start < BLOCK_BYTES as usize)
                        .then_some(Edge { block: Block(block), own: start..end })
                });
                assert!(outline.edges().eq(wanted), "{range:?}, {is_end}");
            }
        }
    }

    #[test]
    fn a_write_begins_when_those_before_it_are_handed_over_or_forgotten() {
        let mut writes = Assembler::default();
        let whole =
            |first, blocks| Outline::new(ByteRange::new(first * BLOCK_BYTES, blocks * BLOCK_BYTES), false);
        writes.add(0, Outline::new(ByteRange::new(100, 2 * BLOCK_BYTES), false));
        writes.add(1, whole(1, 4));
        writes.add(2, whole(9, 1));
        assert_eq!((writes.begin(), writes.begin(), writes.begin()), (Some(0), Some(2), None));
        assert!(!writes.edge_here(0) && writes.edge_here(0), "it ends within a block, too");
        assert_eq!(writes.next(0, 2), Extent::new(0, 2));
        assert!(!writes.handed(0, Extent::new(0, 2)));
        assert_eq!(writes.begin(), None, "a part is not all");
        assert_eq!(writes.next(0, 2), Extent::new(2, 1));
        assert!(writes.handed(0, Extent::new(2, 1)));
        assert_eq!((writes.begin(), writes.begin()), (Some(1), None));
        writes.forget(1);
        writes.forget(2);
        assert!(writes.is_idle());
    }
}
