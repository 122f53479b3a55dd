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
//!
//! What a program has said of a file counts as in mm/fadvise.c: of one that is read at random a miss reads what was asked for and
//! nothing else, of one that is read in order the largest window is twice as large. A marker counts for both, whoever set it.

use super::readahead::{Generation, MAX, Markers, Request, init_size, next_size};
use super::{Fate, Lookup, Plan, Policy, When, World};
use crate::access::{Access, Advice, Context, Op};
use crate::bounded::{Bounded, FILES_MAX, SecondChance};
use crate::row::{Layer, Make, Param, Role, Row};
use crate::units::Extent;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Largest folio of a page cache with pages of 4 KiB, as a logarithm of blocks: 2 MiB (`MAX_PAGECACHE_ORDER` on x86-64).
const ORDER_MAX: u32 = 9;
/// Most ends of windows remembered with the size of their last folio; a forgotten one makes a trail look longer.
const ENDS_MAX: usize = 4_096;
/// Blocks of one node of the kernel's page cache tree (`XA_CHUNK_SIZE`).
const NODE: u64 = 64;
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

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "linux-6",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "Read-ahead of Linux 6.11 and later: a marker, and windows that may end at folios.",
    source: "torvalds/linux mm/readahead.c, 6.12 and 6.17",
    params: &[
        MAX,
        Param::bytes_or_auto(
            "io",
            "Largest request of the device: a larger read than max raises its window up to this; auto: never.",
        ),
        Param::switch(
            "align",
            false,
            "Windows end at multiples of the folio size, as since 6.17 with large folios.",
        ),
    ],
    make: Make::Policy(|values, _| {
        let (max, io) = (values.blocks("max"), values.blocks_or_auto("io").unwrap_or(0));
        Box::new(Linux6::new(Linux6Config { max, io, align: values.switch("align") }))
    }),
    ..Row::PLAIN
};

#[derive(Clone, Copy, Debug)]
struct File {
    start: u64,
    size: u64,
    async_size: u64,
    /// One past the last block read (`prev_pos` in pages). A fresh file has no last read.
    next: u64,
    /// Logarithm of the folios of the last window.
    order: u32,
    /// Its own largest window, blocks, where it has one.
    max: Option<u64>,
}

impl File {
    const fn new(start: u64) -> Self {
        Self { start, size: 0, async_size: 0, next: u64::MAX, order: 0, max: None }
    }
}

/// A window, a marker and a folio size per file.
#[derive(Debug)]
pub struct Linux6 {
    config: Linux6Config,
    files: Bounded<File, SecondChance>,
    markers: Markers,
    /// By one past the last block of a window, the logarithm of its last folio; folios of one block are left out.
    ends: Bounded<u32, SecondChance>,
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
        let (files, ends) = (Bounded::new(FILES_MAX), Bounded::new(ENDS_MAX));
        Self { config, files, markers: Markers::new(), ends, windows: 0 }
    }

    /// From now on the largest window of a file that a reader has open is this one, blocks, or everybody's again. Of a file that
    /// was not read yet nothing is changed: the kernel keeps it with the open file.
    pub fn give_window(&mut self, context: Context, max: Option<u64>) {
        if let Some(file) = self.files.peek_mut(context.0) {
            file.max = max.filter(|max| *max > 0);
        }
    }
}

/// Blocks inside a folio behind its first block. The tree keeps folios up to half a node page by page.
const fn inside(order: u32) -> u64 {
    if 1 << order < NODE { (1 << order) - 1 } else { 0 }
}

/// A scan of the page cache that begins inside a folio. The kernel counts the folio as one page, so the block that it
/// looks at and the one that it believes to look at differ, until the scan changes nodes, where its place in the next
/// node is taken from the latter. Both count from the start of the file. Seen on 6.18; without folios the two are one.
struct Scan {
    looks_at: u64,
    believes: u64,
}

impl Scan {
    fn back(&mut self) -> Option<()> {
        self.believes = self.believes.checked_sub(1)?;
        if !self.looks_at.is_multiple_of(NODE) {
            self.looks_at -= 1;
        } else if !self.believes.is_multiple_of(NODE) {
            let node = self.looks_at.checked_sub(NODE)?;
            self.looks_at = node + self.believes % NODE;
        }
        Some(())
    }
    const fn forth(&mut self) {
        self.believes += 1;
        if self.looks_at % NODE != NODE - 1 {
            self.looks_at += 1;
        } else if self.believes % NODE != NODE - 1 {
            self.looks_at += 1 + self.believes % NODE;
        }
    }
}

/// Blocks before `block` that the kernel takes for a trail, at most `max`, and whether they begin with the file
/// (`page_cache_prev_miss`). The folio that ends before `block` has `2^order` blocks.
fn trail(request: &Request<'_, '_>, block: u64, order: u32, max: u64) -> (u64, bool) {
    let base = request.base();
    let last = block - base - 1;
    let mut scan = Scan { looks_at: last.saturating_sub(inside(order)), believes: last };
    for counted in 0..max {
        if request.is_missing(base + scan.looks_at) {
            return (counted, false);
        }
        if scan.believes == 0 {
            return (counted + 1, true);
        }
        if scan.back().is_none() {
            return (counted + 1, false);
        }
    }
    (max, false)
}

/// Where the kernel finds the first missing block of the `max` after `block`, where a folio of `2^order` begins
/// (`page_cache_next_miss`).
fn missing_after(request: &Request<'_, '_>, block: u64, order: u32, max: u64) -> Option<u64> {
    let base = request.base();
    let late = u64::from(inside(order) > 0);
    let mut scan = Scan { looks_at: block - base + 1 - late, believes: block - base + 1 };
    for _ in 0..max {
        let at = base + scan.looks_at;
        if at >= request.end() || request.is_missing(at) {
            return Some(base + scan.believes);
        }
        scan.forth();
    }
    None
}

/// The two calls of the kernel for one open file.
struct Call<'a> {
    file: &'a mut File,
    ends: &'a mut Bounded<u32, SecondChance>,
    config: Linux6Config,
    /// The program has said that it reads at random (`FMODE_RANDOM`).
    random: bool,
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
            if at == end && order > 0 {
                *self.ends.entry(end, || order) = order;
            }
        }
        request.window(start, size, when);
    }
}

impl Generation for Call<'_> {
    fn miss(&mut self, block: u64, blocks: u64, request: &mut Request<'_, '_>) -> u64 {
        if self.random {
            return blocks; // no window, no mark, and the state stays (`force_page_cache_ra`)
        }
        let max = self.max(blocks);
        let file = &mut *self.file;
        let since_last = block.wrapping_sub(file.next);
        if block == request.base() || blocks > max || since_last <= 1 {
            let size = init_size(blocks, max);
            file.size = size;
            file.async_size = if size > blocks { size - blocks } else { size / 2 };
        } else {
            let order = self.ends.get(block).map_or(0, |order| *order);
            let (here, from_the_start) = trail(request, block, order, max);
            if here <= blocks {
                return blocks;
            }
            let trail = if from_the_start { 2 * here } else { here };
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
            let Some(start) = missing_after(request, block, order, max) else { return };
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
    #[inline(never)]
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        let start = access.within.start.0;
        let file = self.files.entry(access.context.0, || File::new(start));
        let mut request = Request { access, lookup, world, plan, markers: &mut self.markers, windows: 0 };
        let config = Linux6Config { max: file.max.unwrap_or(self.config.max), ..self.config };
        let config = match access.advice {
            Advice::Sequential => Linux6Config { max: 2 * config.max, ..config },
            Advice::Normal | Advice::Random => config,
        };
        let random = access.advice == Advice::Random;
        request.walk(&mut Call { file, ends: &mut self.ends, config, random });
        self.windows += request.windows;
        file.next = access.extent.end();
    }
    fn hears_used(&mut self) -> bool {
        false
    }
    #[inline(never)]
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
    fn two_readers_of_one_file_leave_out_the_blocks_that_linux_6_18_was_seen_to_leave_out() {
        // Recorded on Linux 6.18, ext4, read_ahead_kb 128: the windows as the page cache showed them after each read.
        let recorded = [
            (0, 0, 4),
            (1, 4, 8),
            (4_098, 4_098, 3),
            (4, 13, 19), // 12 is left out
            (4_100, 4_101, 4),
            (4_101, 4_105, 7),
            (4_105, 4_112, 14),
            (12, 12, 10), // a trail of 12 counts as 9: its last folio has four blocks
            (13, 32, 32),
            (4_112, 4_127, 17), // 4,126 is left out
        ];
        let windows = with(|config| config.align = true).reads((0..17).flat_map(|n| [n, 4_096 + n]));
        assert_eq!(windows, recorded);
    }

    #[test]
    fn of_a_file_that_is_said_to_be_read_at_random_only_what_is_asked_for_is_read() {
        let mut random = bench().advised(Advice::Random);
        assert_eq!(random.read(1_000, 100), [], "larger than the maximum, too");
        assert_eq!(random.reads(0..40), []);
        assert_eq!(random.policy.markers.len(), 0);
        let mut usual = random.advised(Advice::Normal);
        assert_eq!(usual.reads([40, 41]), [(40, 40, 4), (41, 44, 8)], "the last read is known");
    }

    #[test]
    fn a_mark_that_somebody_else_has_set_counts_for_who_reads_at_random() {
        let mut bench = bench();
        assert_eq!(bench.by(1).reads([0]), [(0, 0, 4)]);
        let mut random = bench.advised(Advice::Random);
        assert_eq!(random.by(2).reads([1, 2]), [(1, 4, 8)], "1 is marked");
        assert_eq!(random.reads(100..104), [], "and misses are read as they are");
    }

    #[test]
    fn of_a_file_that_is_said_to_be_read_in_order_the_largest_window_is_twice_as_large() {
        let mut said = bench().advised(Advice::Sequential);
        let mut twice = with(|config| config.max = 64);
        let reads = || (0..300).chain([5_000, 5_001]).chain(9_000..9_010);
        assert_eq!(said.reads(reads()), twice.reads(reads()));
        let mut back = said.advised(Advice::Normal);
        assert_eq!(back.reads([20_000, 20_001, 20_002])[0], (20_001, 20_001, 4), "as ever");
        assert_eq!(bench().advised(Advice::Normal).reads(0..300), bench().reads(0..300));
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

    #[test]
    fn an_open_file_that_was_given_a_window_has_it_and_no_other_does() {
        let context = Context(0);
        let mut bench = bench();
        bench.policy().give_window(context, Some(128));
        assert_eq!(bench.reads(0..1), [(0, 0, 4)], "it was not open yet");
        bench.policy().give_window(context, Some(128));
        // From the next mark on windows double, up to what was given.
        assert_eq!(bench.reads(1..60), [(1, 4, 16), (4, 20, 32), (20, 52, 64), (52, 116, 128)]);
        bench.policy().give_window(context, None);
        assert_eq!(
            bench.reads(60..117),
            [(116, 244, 128)],
            "a window does not become smaller while marks are come to"
        );
        let of_another = [
            (5_001, 5_001, 4),
            (5_002, 5_005, 8),
            (5_005, 5_013, 16),
            (5_013, 5_029, 32),
            (5_029, 5_061, 32),
        ];
        assert_eq!(bench.by(1).reads(5_000..5_030), of_another);
    }
}
