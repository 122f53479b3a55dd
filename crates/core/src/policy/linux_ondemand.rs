//! `linux-ondemand`: read-ahead of Linux 2.6.23 to 6.10: one window per file, and a marker in it.
//!
//! A window is read when a sequential reader misses; when it touches the marked block the next window is read, larger
//! up to the maximum, and marked at its first block:
//!
//! ```text
//!   (0, 4, async 3)      marked at 1         |0 #1 2 3|
//!   touch of 1           (4, 8, async 8)     |0 1 2 3|#4 ......... 11|
//!   touch of 4           (12, 16, async 16)  |4 ......... 11|#12 ................. 27|
//! ```
//!
//! Interleaved readers of one file share the state but not the markers: a marked block that the state does not expect
//! is believed, and the window goes on from the first block missing after it. It reads just what was asked for, and
//! leaves the state alone, at a miss that is neither sequential nor larger than the maximum. With `context` on (the
//! rules from 2.6.31 on) such a miss is still believed when more blocks before it are here than it asks for, a read of
//! the first block always starts a window, and a window that would meet its own marker at once is lengthened.
//! With `mapped` on, every read is the touch of a page of a mapped file that nobody has advised about. A fault then reads as
//! many blocks *around* the page as a window has, half of them before it, which a reader that goes onwards has already; and
//! gives up where the pages of a file are missed a hundred times more often than found:
//!
//! ```text
//!   fault at 100         |84 .... 99 *100 .... 115|          the reader waits for all of it
//!   fault at 116         (100 to 115 are here) |*116 .. 131| half a window a time, and nothing is read meanwhile
//! ```
//!
//! The rules from 2.6.39 on mark a block a quarter of the window behind the fault, so that touching it reads the next
//! window; those before mark none.
//! Source: torvalds/linux mm/readahead.c and mm/filemap.c of 2.6.25 and 5.18, in the rules of algorithms.md 3.3. The tests for a congested
//! queue and for pages under writeback are left out: the layer below takes what it is given.

use super::readahead::{Generation, MAX, Markers, Request, init_size, next_size};
use super::{Fate, Lookup, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::bounded::{Bounded, FILES_MAX, SecondChance};
use crate::row::{Layer, Make, Param, Role, Row};
use crate::units::Extent;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Parameters of [`LinuxOndemand`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OndemandConfig {
    /// Largest window, blocks.
    pub max: u64,
    /// The rules from 2.6.31 on: context read-ahead, start of file first, no window that meets its own marker.
    pub context: bool,
    /// What is read is touched in a mapping and not asked for by a call: read-around at faults.
    pub mapped: bool,
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "linux-ondemand",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "Read-ahead of Linux 2.6.23 to 6.10: one window per file and a marker in it.",
    source: "torvalds/linux mm/readahead.c, 2.6.25 and 5.18",
    params: &[
        MAX,
        Param::switch(
            "context",
            true,
            "The rules from 2.6.31 on: believe the trail of blocks before a miss; no window that meets its own marker.",
        ),
        Param::switch(
            "mapped",
            false,
            "All reads are touches of mapped files: a fault reads half a window before the page and half behind it.",
        ),
    ],
    make: Make::Policy(|values, _| {
        let (context, mapped) = (values.switch("context"), values.switch("mapped"));
        Box::new(LinuxOndemand::new(OndemandConfig { max: values.blocks("max"), context, mapped }))
    }),
    ..Row::PLAIN
};

/// Misses that a file may have more than hits before its faults read nothing around (2.6.25: `MMAP_LOTSAMISS`).
const MISSES_MORE_MAX: i64 = 100;
/// The newer rules count misses up to this many, and each hit takes one off (5.18: ten times as many).
const MISSES_COUNTED_MAX: i64 = 10 * MISSES_MORE_MAX;

#[derive(Clone, Copy, Debug)]
struct File {
    start: u64,
    size: u64,
    async_size: u64,
    /// One past the last block of the last read (`prev_pos`); a file begins as if the block before its first was read.
    next: u64,
    /// Pages that were touched in a mapping and missing, less those that were here.
    misses_more: i64,
}

impl File {
    const fn new(start: u64) -> Self {
        Self { start, size: 0, async_size: 0, next: start, misses_more: 0 }
    }
}

/// A window and a marker per file.
#[derive(Debug)]
pub struct LinuxOndemand {
    config: OndemandConfig,
    files: Bounded<File, SecondChance>,
    markers: Markers,
    windows: u64,
}

impl LinuxOndemand {
    /// With this configuration.
    ///
    /// # Panics
    /// If a window could have no block.
    #[must_use]
    pub fn new(config: OndemandConfig) -> Self {
        assert!(config.max > 0, "a window has at least one block");
        Self { config, files: Bounded::new(FILES_MAX), markers: Markers::new(), windows: 0 }
    }
}

/// `ondemand_readahead` for one open file.
struct Call<'a> {
    file: &'a mut File,
    config: OndemandConfig,
}

impl Call<'_> {
    /// Sequential: the read begins in or right after the last block read.
    const fn is_sequential(&self, block: u64) -> bool {
        block == self.file.next || block + 1 == self.file.next
    }
    /// A touch or a miss where the state expects the reader (rule 1).
    const fn is_expected(&self, block: u64, base: u64) -> bool {
        let end = self.file.start + self.file.size;
        block != base && (block == end - self.file.async_size || block == end)
    }
    fn advance(&mut self) {
        self.file.start += self.file.size;
        self.file.size = next_size(self.file.size, self.config.max);
        self.file.async_size = self.file.size;
    }
    /// A first window (rule 4).
    fn initial(&mut self, block: u64, blocks: u64) {
        let size = init_size(blocks, self.config.max);
        let async_size = if size > blocks { size - blocks } else { size };
        (self.file.start, self.file.size, self.file.async_size) = (block, size, async_size);
    }
    /// Reads the window of the state, and marks it.
    fn submit(&mut self, block: u64, when: When, request: &mut Request<'_, '_>) {
        let max = self.config.max;
        let file = &mut *self.file;
        if self.config.context && block == file.start && file.size == file.async_size {
            let add = next_size(file.size, max);
            if file.size + add <= max {
                file.async_size = add;
                file.size += add;
            } else {
                file.size = max;
                file.async_size = max / 2;
            }
        }
        request.mark(file.start + file.size - file.async_size);
        request.window(file.start, file.size, when);
    }
    /// Whether the blocks before a miss look like the trail of a reader (`try_context_readahead`).
    fn follows_trail(&mut self, block: u64, blocks: u64, request: &Request<'_, '_>) -> bool {
        let here = request.here_before(block, self.config.max);
        if here <= blocks {
            return false;
        }
        let from_the_start = here >= block - request.base();
        let here = if from_the_start { 2 * here } else { here };
        self.file.start = block;
        self.file.size = (here + blocks).min(self.config.max);
        self.file.async_size = 1;
        true
    }
}

/// The same for a mapping: the kernel's way through touched pages (`filemap_fault`).
struct Fault<'a>(Call<'a>);

impl Fault<'_> {
    /// Counts a page that was here, or not.
    fn count(&mut self, missing: bool) {
        let more = &mut self.0.file.misses_more;
        *more += if missing { 1 } else { -1 };
        if self.0.config.context {
            *more = (*more).clamp(0, MISSES_COUNTED_MAX);
        }
    }
}

impl Generation for Fault<'_> {
    fn miss(&mut self, block: u64, _blocks: u64, request: &mut Request<'_, '_>) -> u64 {
        let Call { file, config } = &mut self.0;
        if file.misses_more > MISSES_MORE_MAX {
            return 1;
        }
        let start = block.saturating_sub(config.max / 2).max(request.base());
        if config.context {
            (file.start, file.size, file.async_size) = (start, config.max, config.max / 4);
            request.mark(start + file.size - file.async_size);
        }
        request.window(start, config.max, When::WithDemand);
        0
    }
    fn marked(&mut self, block: u64, order: u32, blocks: u64, request: &mut Request<'_, '_>) {
        self.0.marked(block, order, blocks, request);
    }
}

impl Generation for Call<'_> {
    fn miss(&mut self, block: u64, blocks: u64, request: &mut Request<'_, '_>) -> u64 {
        let base = request.base();
        let context = self.config.context;
        if context && block == base {
            self.initial(block, blocks);
        } else if self.is_expected(block, base) {
            self.advance();
        } else if blocks > self.config.max || self.is_sequential(block) {
            self.initial(block, blocks);
        } else if !(context && self.follows_trail(block, blocks, request)) {
            return blocks; // rule 2: read as it is
        }
        self.submit(block, When::WithDemand, request);
        0
    }
    fn marked(&mut self, block: u64, _order: u32, blocks: u64, request: &mut Request<'_, '_>) {
        let base = request.base();
        if self.config.context && block == base {
            self.initial(block, blocks);
        } else if self.is_expected(block, base) {
            self.advance();
        } else {
            // Rule 3: interleaved readers.
            let Some(start) = request.next_missing(block, self.config.max) else { return };
            let behind = start - block + if self.config.context { blocks } else { 0 };
            self.file.start = start;
            self.file.size = next_size(behind, self.config.max);
            self.file.async_size = self.file.size;
        }
        self.submit(block, When::Ahead, request);
    }
}

impl Policy for LinuxOndemand {
    #[inline(never)]
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        let start = access.within.start.0;
        let file = self.files.entry(access.context.0, || File::new(start));
        let mut request = Request { access, lookup, world, plan, markers: &mut self.markers, windows: 0 };
        let mut call = Call { file, config: self.config };
        if self.config.mapped {
            let mut fault = Fault(call);
            for block in access.extent.start.0..access.extent.end() {
                let missing = request.is_missing(block);
                fault.count(missing);
                request.step(block, missing, &mut fault);
            }
        } else {
            request.walk(&mut call);
        }
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

    fn bench(context: bool) -> Bench<LinuxOndemand> {
        Bench::new(LinuxOndemand::new(OndemandConfig { max: 32, context, mapped: false }))
    }

    #[test]
    fn single_blocks_from_the_start_grow_as_in_the_golden_vector() {
        // algorithms.md 3.3: S(0,4,a3); A at 1: (4,8,8); at 4: (12,16,16); at 12: (28,32,32); at 28: (60,32,32).
        for context in [false, true] {
            assert_eq!(
                bench(context).reads(0..60),
                [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32)]
            );
            let mut elsewhere = bench(context).of(1_000, 5_000);
            assert_eq!(
                elsewhere.reads(1_000..1_005),
                [(1_000, 1_000, 4), (1_001, 1_004, 8), (1_004, 1_012, 16)]
            );
        }
    }

    #[test]
    fn a_request_as_large_as_the_maximum_has_the_next_window_read_at_once() {
        for context in [false, true] {
            let mut bench = bench(context);
            assert_eq!(bench.read(0, 32), [(0, 0, 32), (0, 32, 32)], "marked at 0, or, with context, at 16");
            assert_eq!(bench.read(32, 32), [(32, 64, 32)]);
        }
    }

    #[test]
    fn a_request_above_the_maximum_is_read_window_by_window() {
        assert_eq!(bench(true).read(500, 50), [(500, 500, 32), (500, 532, 32), (500, 564, 32)]);
    }

    #[test]
    fn a_reader_that_starts_in_the_middle_is_believed_at_its_second_block() {
        for context in [false, true] {
            assert_eq!(bench(context).reads(100..104), [(101, 101, 4), (102, 105, 8)]);
        }
    }

    #[test]
    fn random_reverse_and_strided_reads_are_read_as_they_are() {
        for context in [false, true] {
            assert_eq!(bench(context).reads([700, 90, 4_000, 17]), []);
            assert_eq!(bench(context).reads((1..50).rev()), []);
            assert_eq!(bench(context).reads((3..300).step_by(2)), []);
        }
    }

    #[test]
    fn with_context_the_trail_of_another_reader_is_followed() {
        let mut bench = bench(true);
        assert_eq!(bench.by(1).read(100, 4), []);
        assert_eq!(bench.by(2).reads(104..109), [(104, 104, 5), (108, 109, 10)], "four before it and itself");
        let mut bench = self::bench(false);
        bench.by(1).read(100, 4);
        assert_eq!(bench.by(2).reads([104]), []);
    }

    #[test]
    fn a_trail_from_the_start_of_the_file_counts_twice() {
        let mut bench = bench(true).of(1_000, 1_000);
        bench.by(1).read(1_002, 2);
        bench.by(1).read(1_000, 1);
        // 1000 to 1003 are here: the first block had a window of four.
        assert_eq!(bench.by(2).read(1_004, 1), [(1_004, 1_004, 9)], "2 x 4 + 1");
    }

    /// Two sequential readers through one open file, block by block in turn.
    fn interleaved(context: bool) -> Vec<(u64, u64, u64)> {
        bench(context).reads((0..6).flat_map(|n| [n, 1_000 + n]))
    }

    #[test]
    fn interleaved_readers_go_on_by_their_markers() {
        let expected = [
            (0, 0, 4),
            (1, 4, 8),
            (1_002, 1_002, 3), // two blocks before it are here
            (4, 12, 18), // the state is the other reader's: from the first missing block on, 8 + 1, doubled
            (1_004, 1_005, 4),
            (1_005, 1_009, 8),
        ];
        assert_eq!(interleaved(true), expected);
        assert_eq!(
            interleaved(false),
            [(0, 0, 4), (1, 4, 8), (4, 12, 16)],
            "without context one of them has none"
        );
    }

    #[test]
    fn a_window_is_cut_at_the_end_of_the_file_and_nothing_follows_it() {
        assert_eq!(bench(true).of(0, 10).reads(0..10), [(0, 0, 4), (1, 4, 6)]);
    }

    fn mapping(context: bool) -> Bench<LinuxOndemand> {
        Bench::new(LinuxOndemand::new(OndemandConfig { max: 32, context, mapped: true }))
    }

    #[test]
    fn a_fault_reads_around_and_a_reader_that_goes_onwards_gets_half_a_window_a_time() {
        let around = [(100, 84, 32), (116, 100, 32), (132, 116, 32)];
        assert_eq!(mapping(false).reads(100..148), around);
        assert_eq!(mapping(false).of(96, 1_000).read(100, 1), [(100, 96, 32)], "not before its file");
    }

    #[test]
    fn the_newer_rules_read_on_when_the_last_quarter_of_a_window_is_touched() {
        assert_eq!(mapping(true).reads(100..148), [(100, 84, 32), (108, 116, 32), (116, 148, 32)]);
    }

    #[test]
    fn a_file_of_which_pages_are_mostly_missing_is_no_longer_read_around() {
        for context in [false, true] {
            let mut bench = mapping(context);
            let windows = bench.reads((0..150).map(|n| 1_000 + n * 100));
            assert_eq!(windows.len(), 100, "after a hundred misses");
            bench.reads((0..60).map(|n| 1_001 + n % 4 + n / 4 * 100));
            assert_eq!(bench.read(900_000, 1).len(), 1, "150 misses, 60 hits");
        }
    }

    #[test]
    fn the_mark_of_a_block_that_left_is_void() {
        let mut bench = bench(true);
        bench.reads(0..2);
        bench.evict(4);
        assert_eq!(bench.read(1_000, 4), []);
        bench.by(2).read(4, 1);
        assert_eq!(bench.by(1).read(4, 1), [], "4 is here again, but it is another page without a mark");
    }
}
