//! `linux-6`: read-ahead of Linux 6.11 and later: a marker as in `linux-ondemand`, and windows that end at folios.
//!
//! A miss makes a first window, of which half or more is asynchronous; a touch of the marker makes the next one, twice
//! or four times as large. A miss far from the last read is believed only when more blocks before it are here than it
//! asks for; otherwise just the request is read and the state left alone:
//!
//! ```text
//!    miss: first block of the file, larger than the maximum, or after the last read --> first window
//!    miss: a trail of blocks before it is here                                     --> trail + request, marked at its end
//!    miss: anything else                                                           --> the request as it is
//!    marker, where the state expects it                                            --> next window, behind this one
//!    marker, elsewhere (interleaved readers)                                       --> from the first missing block
//! ```
//!
//! `align=on` is 6.17 on a file system with large folios: each next window's end is cut down to a multiple of the folio
//! size, which grows by two orders with every window, so sizes waver before they are steady. A mark then covers a
//! whole folio. `align=off`, the default, is 6.12 to 6.16, and the right choice where memory is in blocks. It does
//! nothing for random reads, and unlike `linux-2.6` it takes a stride of two for sequential, because the kernel compares
//! with the end of the last read. Source: torvalds/linux mm/readahead.c of 6.12 and 6.17, in the rules of
//! algorithms.md 3.4; compared with a running kernel by `forerun-watch`'s test `kernel_readahead`.

use super::files::{FILES_MAX, Table};
use super::readahead::{Generation, Markers, Request, init_size, next_size};
use super::{Fate, Lookup, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::units::Extent;
use alloc::vec::Vec;

/// Largest folio of a page cache with pages of 4 KiB, as a logarithm of blocks: 2 MiB (`MAX_PAGECACHE_ORDER` on x86-64).
const ORDER_MAX: u32 = 9;
/// Orders by which folios grow from window to window.
const ORDER_STEP: u32 = 2;

/// Parameters of [`Linux6`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linux6Config {
    /// Largest window, blocks (`ra_pages`).
    pub max: u64,
    /// Largest request that the device takes at once, blocks (`io_pages`): a request larger than `max` raises the
    /// window up to this.
    pub io: u64,
    /// Windows end at multiples of the folio size, and marks cover folios.
    pub align: bool,
}

#[derive(Clone, Copy, Debug)]
struct File {
    start: u64,
    size: u64,
    async_size: u64,
    /// One past the last block read (`prev_pos` in pages). A fresh file has no last read.
    next: u64,
    /// Logarithm of the folios of the last window.
    order: u32,
}

impl File {
    const fn new(start: u64) -> Self {
        Self { start, size: 0, async_size: 0, next: u64::MAX, order: 0 }
    }
}

/// A window, a marker and a folio size per file.
#[derive(Debug)]
pub struct Linux6 {
    config: Linux6Config,
    files: Table<File>,
    markers: Markers,
    windows: u64,
}

impl Linux6 {
    /// With this configuration.
    ///
    /// # Panics
    /// If a window could have no block.
    #[must_use]
    pub fn new(config: Linux6Config) -> Self {
        assert!(config.max > 0, "a window has at least one block");
        Self { config, files: Table::new(FILES_MAX), markers: Markers::new(), windows: 0 }
    }
}

/// The two calls of the kernel for one open file.
struct Call<'a> {
    file: &'a mut File,
    config: Linux6Config,
}

impl Call<'_> {
    /// Largest window for this request (`ractl_max_pages`).
    fn max(&self, blocks: u64) -> u64 {
        let Linux6Config { max, io, .. } = self.config;
        if blocks > max && io > max { blocks.min(io) } else { max }
    }
    /// Reads the window of the state in blocks, and marks one (`do_page_cache_ra`).
    fn submit_blocks(&self, when: When, request: &mut Request<'_, '_>) {
        let file = &self.file;
        request.mark(file.start + file.size - file.async_size);
        request.window(file.start, file.size, when);
    }
    /// Reads the window of the state in folios, and marks the one that the asynchronous part begins in
    /// (`page_cache_ra_order`). From the first block that is here already it goes on block by block.
    fn submit(&mut self, when: When, request: &mut Request<'_, '_>) {
        if !self.config.align {
            self.file.order = 0;
            return self.submit_blocks(when, request);
        }
        let File { start, size, async_size, .. } = *self.file;
        let base = request.base();
        let order_max = self.file.order.min(ORDER_MAX).min(size.ilog2());
        self.file.order = order_max;
        let end = request.end().min(start + size);
        let (mut at, mark) = (start, start + size - async_size);
        while at < end {
            let mut order = order_max.min((at - base).trailing_zeros());
            while at + (1 << order) > end {
                order -= 1;
            }
            if (at..at + (1 << order)).any(|block| !request.is_missing(block)) {
                if mark >= at {
                    request.mark(mark);
                }
                break;
            }
            if at == base + ((mark - base) >> order << order) {
                request.markers.set(at, order);
            }
            at += 1 << order;
        }
        request.window(start, size, when);
    }
}

impl Generation for Call<'_> {
    fn miss(&mut self, block: u64, blocks: u64, request: &mut Request<'_, '_>) -> u64 {
        let max = self.max(blocks);
        let file = &mut *self.file;
        let since_last = block.wrapping_sub(file.next);
        if block == request.base() || blocks > max || since_last <= 1 {
            let size = init_size(blocks, max);
            file.size = size;
            file.async_size = if size > blocks { size - blocks } else { size / 2 };
        } else {
            let trail = request.here_before(block, max);
            if trail <= blocks {
                return blocks;
            }
            let from_the_start = trail == block - request.base();
            let trail = if from_the_start { 2 * trail } else { trail };
            file.size = (trail + blocks).min(max);
            file.async_size = 1;
        }
        file.start = block;
        file.order = 0;
        self.submit(When::WithDemand, request);
        0
    }
    fn marked(&mut self, block: u64, order: u32, blocks: u64, request: &mut Request<'_, '_>) {
        let max = self.max(blocks);
        let base = request.base();
        let file = &mut *self.file;
        let expected = (file.start + file.size - file.async_size).checked_sub(base);
        if expected.is_some_and(|blocks| base + (blocks >> order << order) == block) {
            file.start += file.size;
            file.size = file.size.max(next_size(file.size, max));
        } else {
            let Some(start) = request.next_missing(block, max) else { return };
            file.start = start;
            file.size = next_size(start - block + blocks, max);
        }
        if self.config.align {
            // Large folios need windows that end where they do.
            file.order += ORDER_STEP;
            let align = file.order.min(max.trailing_zeros());
            let end = file.start + file.size - base;
            let aligned = end >> align << align;
            if base + aligned > file.start {
                file.size -= end - aligned;
            }
        }
        file.async_size = file.size;
        self.submit(When::Ahead, request);
    }
}

impl Policy for Linux6 {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        let start = access.within.start.0;
        let file = self.files.entry(access.context.0, || File::new(start));
        let mut request = Request { access, lookup, world, plan, markers: &mut self.markers, windows: 0 };
        request.walk(&mut Call { file, config: self.config });
        self.windows += request.windows;
        file.next = access.extent.end();
    }
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        if fate == Fate::Wasted {
            self.markers.drop_in(extent);
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("readahead_windows", self.windows as f64),
            ("readahead_markers", self.markers.len() as f64),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    fn with(change: impl FnOnce(&mut Linux6Config)) -> Bench<Linux6> {
        let mut config = Linux6Config { max: 32, io: 0, align: false };
        change(&mut config);
        Bench::new(Linux6::new(config))
    }
    fn bench() -> Bench<Linux6> {
        with(|_| {})
    }

    #[test]
    fn single_blocks_from_the_start_grow_as_in_the_golden_vector() {
        // algorithms.md 3.4: without alignment as in 3.3.
        assert_eq!(bench().reads(0..60), [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32)]);
    }

    #[test]
    fn with_alignment_windows_end_at_folios_as_in_the_golden_vector() {
        // algorithms.md 3.4: (0,4,a3) (4,8) (12,4) (16,8) (24,8) (32,16) (48,16) (64,32) (96,32).
        let golden = [
            (0, 0, 4),
            (1, 4, 8),
            (4, 12, 4),
            (12, 16, 8),
            (16, 24, 8),
            (24, 32, 16),
            (32, 48, 16),
            (48, 64, 32),
            (64, 96, 32),
        ];
        assert_eq!(with(|config| config.align = true).reads(0..96), golden);
        let elsewhere = with(|config| config.align = true).of(1_003, 5_000).reads(1_003..1_099);
        let shifted = golden.map(|(at, start, size)| (at + 1_003, start + 1_003, size));
        assert_eq!(elsewhere, shifted, "folios count from the start of the file");
    }

    #[test]
    fn with_alignment_any_block_of_the_marked_folio_triggers() {
        let mut bench = with(|config| config.align = true);
        assert_eq!(bench.reads([0, 1, 6]), [(0, 0, 4), (1, 4, 8), (6, 12, 4)], "4 to 7 are one folio");
        let mut bench = self::bench();
        assert_eq!(bench.reads([0, 1, 6]), [(0, 0, 4), (1, 4, 8)], "of single blocks only 4 is marked");
    }

    #[test]
    fn a_request_as_large_as_the_maximum_is_marked_in_its_middle() {
        let mut bench = bench();
        assert_eq!(bench.read(0, 32), [(0, 0, 32), (0, 32, 32)]);
        assert_eq!(bench.read(32, 32), [(32, 64, 32)]);
    }

    #[test]
    fn a_request_above_the_maximum_may_be_read_at_once_where_the_device_takes_it() {
        assert_eq!(bench().read(500, 50), [(500, 500, 32), (500, 532, 32), (500, 564, 32)], "mark by mark");
        let device = || with(|config| config.io = 320);
        assert_eq!(device().read(500, 50), [], "no longer above the maximum, so it is read as it is");
        assert_eq!(device().read(0, 50), [(0, 0, 50), (0, 50, 50)]);
    }

    #[test]
    fn a_reader_that_starts_in_the_middle_is_believed_at_its_second_block() {
        assert_eq!(bench().reads(100..104), [(101, 101, 4), (102, 105, 8)]);
    }

    #[test]
    fn random_and_reverse_reads_are_read_as_they_are() {
        assert_eq!(bench().reads([700, 90, 4_000, 17]), []);
        assert_eq!(bench().reads((1..50).rev()), []);
    }

    #[test]
    fn a_stride_of_two_counts_as_sequential_and_one_of_three_does_not() {
        let windows = bench().reads((0..10).step_by(2));
        assert_eq!(windows, [(0, 0, 4), (4, 4, 4), (8, 8, 4)], "the marks lie between the reads");
        assert_eq!(bench().reads((3..300).step_by(3)), []);
    }

    #[test]
    fn interleaved_readers_go_on_by_their_markers() {
        let windows = bench().reads((0..6).flat_map(|n| [n, 1_000 + n]));
        let expected =
            [(0, 0, 4), (1, 4, 8), (1_002, 1_002, 3), (4, 12, 18), (1_004, 1_005, 4), (1_005, 1_009, 8)];
        assert_eq!(windows, expected);
    }

    #[test]
    fn the_window_of_the_state_is_not_cut_with_the_wish() {
        let mut bench = bench().of(0, 10);
        assert_eq!(bench.reads(0..4), [(0, 0, 4), (1, 4, 6)]);
        bench = bench.of(0, 100);
        assert_eq!(
            bench.reads([4]),
            [(4, 12, 16)],
            "the file has grown; its window was 4 to 11 and is doubled"
        );
    }

    #[test]
    fn a_mark_is_not_set_on_what_is_here_and_is_void_when_its_block_leaves() {
        let mut bench = bench();
        bench.by(1).read(4, 1);
        assert_eq!(bench.by(2).reads(0..3), [(0, 0, 4), (1, 4, 8)]);
        assert_eq!(bench.reads(3..8), [], "block 4 was here and has no mark");
        let mut bench = self::bench();
        bench.reads(0..1);
        bench.evict(1);
        assert_eq!(
            bench.reads([1, 2, 3, 4, 5]),
            [(1, 1, 4), (5, 5, 4)],
            "2 was here and could not be marked"
        );
    }
}
