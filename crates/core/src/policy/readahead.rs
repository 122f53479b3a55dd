//! What the generations of Linux read-ahead share: sizes of windows, marker pages, and one walk over a request.
//!
//! Since 2.6.23 the kernel has kept one window for each open file and set a mark on one of its pages; it decides
//! anew only when a reader misses a page (synchronous) or touches a marked one (asynchronous):
//!
//! ```text
//!   |<----------------- size ---------------->|
//!   |========================#================|
//!   ^ start                  ^ marked: size - async_size pages from the start
//! ```
//!
//! The kernel looks at the pages of a request one after the other, and a window read for the first is there when it
//! comes to the second. [`Request`] is that walk for a policy, which decides before anything is read: what has been
//! wished for counts as present. A marker goes only onto a block that is not here yet, is cleared by the first touch,
//! and is void once its block has left unread; the kernel has the mark in the page itself. Sources: torvalds/linux
//! mm/readahead.c of 2.6.15, 2.6.25, 5.18 and 6.17 and mm/filemap.c, described in algorithms.md section 3. Nothing
//! here decides by itself: the rules of a generation are in its own file.

use super::{Lookup, Plan, When, World};
use crate::access::Access;
use crate::bounded::{Bounded, FILES_MAX, SecondChance};
use crate::cache::State;
use crate::row::Param;
use crate::units::{Block, Extent};

/// Most marked blocks. One for each file that is followed; a forgotten mark costs its reader one miss.
const MARKERS_MAX: usize = FILES_MAX;

/// What the rows of all generations share.
pub(super) const MAX: Param = Param::bytes("max", 128 << 10, "Largest window.");

/// First window for a request of `blocks`, in blocks (`get_init_ra_size`, the same in all generations since 2.6.11).
pub(crate) const fn init_size(blocks: u64, max: u64) -> u64 {
    let size = blocks.next_power_of_two();
    if size <= max / 32 {
        size * 4
    } else if size <= max / 4 {
        size * 2
    } else {
        max
    }
}

/// The window after one of `size` blocks (`get_next_ra_size`; until 2.6.x it had no middle case, with the same result).
pub(crate) const fn next_size(size: u64, max: u64) -> u64 {
    if size < max / 16 {
        size * 4
    } else if size <= max / 2 {
        size * 2
    } else {
        max
    }
}

/// The marked blocks of all files. A mark may cover several blocks that the kernel holds in one folio.
#[derive(Debug)]
pub(crate) struct Markers {
    /// By first block of the folio; the logarithm of its blocks.
    table: Bounded<u32, SecondChance>,
    /// Largest folio marked so far, as a logarithm.
    order_max: u32,
}

impl Markers {
    pub(crate) fn new() -> Self {
        Self { table: Bounded::new(MARKERS_MAX), order_max: 0 }
    }
    /// Marks the folio of `2^order` blocks that begins at `block`.
    pub(crate) fn set(&mut self, block: u64, order: u32) {
        self.order_max = self.order_max.max(order);
        *self.table.entry(block, || order) = order;
    }
    /// Clears the mark of the folio that `block` lies in; its first block, if there was one. Folios lie at multiples of
    /// their size from the start of the file, `base`.
    pub(crate) fn take(&mut self, block: u64, base: u64) -> Option<(u64, u32)> {
        if self.table.is_empty() {
            return None;
        }
        for order in 0..=self.order_max {
            let first = base + ((block - base) >> order << order);
            if self.table.get(first).is_some_and(|marked| *marked == order) {
                self.table.remove(first);
                return Some((first, order));
            }
        }
        None
    }
    /// Marks on blocks that left unread are void.
    pub(crate) fn drop_in(&mut self, extent: Extent) {
        if !self.table.is_empty() {
            for block in extent.iter() {
                self.table.remove(block.0);
            }
        }
    }
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

/// One request of a reader, and what its policy may look at and wish for.
pub(crate) struct Request<'a, 'w> {
    pub(crate) access: &'a Access,
    pub(crate) lookup: &'a Lookup<'a>,
    pub(crate) world: &'a World<'w>,
    pub(crate) plan: &'a mut Plan,
    pub(crate) markers: &'a mut Markers,
    /// Windows wished for.
    pub(crate) windows: u64,
}

/// What a generation decides at the two calls of the kernel. `blocks` is the rest of the request from `block`.
pub(crate) trait Generation {
    /// A block of the request is not here (`page_cache_sync_readahead`). Returns how many blocks from `block` are read
    /// for the request without a window (a small random read), 0 where a window was made.
    fn miss(&mut self, block: u64, blocks: u64, request: &mut Request<'_, '_>) -> u64;
    /// A reader touched the marked folio of `2^order` blocks that begins at `block` (`page_cache_async_readahead`).
    fn marked(&mut self, block: u64, order: u32, blocks: u64, request: &mut Request<'_, '_>);
}

impl Request<'_, '_> {
    /// First block of the file.
    pub(crate) const fn base(&self) -> u64 {
        self.access.within.start.0
    }
    fn planned(&self, block: u64) -> bool {
        self.plan.wishes.iter().any(|wish| wish.extent.contains(Block(block)))
    }
    /// Whether a block is not here, not in flight, and not wished for.
    pub(crate) fn is_missing(&self, block: u64) -> bool {
        let extent = self.access.extent;
        let empty = if extent.contains(Block(block)) {
            // In range: the lookup has one outcome for each block of the access.
            self.lookup.outcomes[(block - extent.start.0) as usize].is_miss()
        } else {
            self.world.cache.state(Block(block)) == State::Empty
        };
        empty && !self.planned(block)
    }
    /// Blocks without a gap that are here before `block`, at most `max` (`page_cache_prev_miss`).
    pub(crate) fn here_before(&self, block: u64, max: u64) -> u64 {
        let reach = max.min(block - self.base());
        (1..=reach).take_while(|back| !self.is_missing(block - back)).count() as u64
    }
    /// The first missing block of the `max` after `block` (`page_cache_next_miss`). Beyond the file all are missing.
    pub(crate) fn next_missing(&self, block: u64, max: u64) -> Option<u64> {
        let end = self.end();
        (block + 1..=block + max).find(|&b| b >= end || self.is_missing(b))
    }
    /// One past the last block that may be read for this file.
    pub(crate) fn end(&self) -> u64 {
        self.access.within.end().min(self.world.blocks)
    }
    /// Wishes for a window, as much of it as lies in the file. The caller has set the marker before.
    pub(crate) fn window(&mut self, start: u64, size: u64, when: When) {
        let window = Extent::new(start, (start + size).min(self.end()).saturating_sub(start));
        if !window.is_empty() {
            self.windows += 1;
            self.plan.fetch(window, when);
        }
    }
    /// Marks one block of a window that is about to be wished for, if it will be read.
    pub(crate) fn mark(&mut self, block: u64) {
        if block < self.end() && self.is_missing(block) {
            self.markers.set(block, 0);
        }
    }
    /// The kernel's way through the pages of a read (`filemap_read`).
    pub(crate) fn walk(&mut self, generation: &mut impl Generation) {
        let extent = self.access.extent;
        let mut read_up_to = extent.start.0;
        for block in extent.start.0..extent.end() {
            let missing = block >= read_up_to && self.is_missing(block);
            read_up_to = read_up_to.max(self.step(block, missing, generation));
        }
    }
    /// One page of it. Returns up to which block is read without a window.
    pub(crate) fn step(&mut self, block: u64, missing: bool, generation: &mut impl Generation) -> u64 {
        let (base, end) = (self.base(), self.access.extent.end());
        let mut read_up_to = 0;
        if missing {
            self.markers.take(block, base); // of a life before; its block is gone
            read_up_to = block + generation.miss(block, end - block, self).max(1);
        }
        if let Some((first, order)) = self.markers.take(block, base) {
            generation.marked(first, order, end - first, self);
        }
        read_up_to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_windows_are_those_of_the_table_in_the_reference() {
        // algorithms.md 3.4: by requests of 1, 2, 4, 8, 16, 32 and 64 blocks.
        let sizes = |max| [1, 2, 3, 4, 5, 8, 9, 16, 17, 32].map(|blocks| init_size(blocks, max));
        assert_eq!(sizes(32), [4, 4, 8, 8, 16, 16, 32, 32, 32, 32]);
        assert_eq!(sizes(128), [4, 8, 16, 16, 16, 16, 32, 32, 64, 64]);
        assert_eq!(sizes(256), [4, 8, 16, 16, 32, 32, 32, 32, 64, 64]);
    }

    #[test]
    fn windows_double_and_quadruple_up_to_the_maximum() {
        let grown = |first: u64, max: u64| {
            let sizes = core::iter::successors(Some(first), |size| Some(next_size(*size, max)));
            sizes.take(6).collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(grown(4, 32), [4, 8, 16, 32, 32, 32]);
        assert_eq!(grown(4, 2_048), [4, 16, 64, 256, 512, 1_024]);
        assert_eq!(grown(3, 10), [3, 6, 10, 10, 10, 10]);
        assert_eq!(grown(1, 1), [1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn a_mark_on_a_folio_is_found_from_each_of_its_blocks_and_cleared() {
        let mut markers = Markers::new();
        markers.set(103, 0);
        markers.set(108, 3);
        assert_eq!(
            markers.take(107, 100),
            None,
            "the folio of eight begins at 108, counted from the file's 100"
        );
        assert_eq!(markers.take(115, 100), Some((108, 3)));
        assert_eq!((markers.take(115, 100), markers.len()), (None, 1));
        markers.drop_in(Extent::new(100, 10));
        assert_eq!(markers.len(), 0);
    }
}
