//! How much memory it takes to read a long trace through: of what is in it, of its patterns, and of the trace in columns that a run keeps.

#![allow(
    unsafe_code,
    reason = "a global allocator is the only way to count allocations; it only forwards and counts"
)]

use forerun_trace::kept::Kept;
use forerun_trace::patterns::{Finder, GroupBy, PatternOptions};
use forerun_trace::record::Record;
use forerun_trace::{Opened, ReadOptions, Tally, through_from};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;

thread_local! {
    /// Bytes that this thread has, and the most that it has had: the test harness has threads of its own.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(more: usize, less: usize) {
    // What another thread gave to this one is below nothing.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        let now = (now + more).saturating_sub(less);
        held.set((now, most.max(now)));
    });
}

// SAFETY: every call is forwarded unchanged to the system's allocator, which keeps the contract; counting touches a
// thread-local without a destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Lines that are made while they are read.
struct Lines<F> {
    line: F,
    next: u64,
    end: u64,
    text: Vec<u8>,
    at: usize,
}

impl<F: Fn(u64) -> String> Read for Lines<F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.text.len() && self.next < self.end {
            self.text = (self.line)(self.next).into_bytes();
            (self.next, self.at) = (self.next + 1, 0);
        }
        let got = (&self.text[self.at..]).read(buffer)?;
        self.at += got;
        Ok(got)
    }
}

/// The most bytes that it took to read so many lines behind a heading through into `state`, and to make of it what was asked.
fn most<S, T>(
    heading: &str,
    line: impl Fn(u64) -> String,
    mut state: S,
    take: impl Fn(&mut S, &[Record]),
    finish: impl FnOnce(S, &Opened) -> T,
) -> (usize, T) {
    let lines = Lines { line, next: 0, end: READS, text: heading.as_bytes().to_vec(), at: 0 };
    HELD.with(|held| held.set((0, 0)));
    let opened =
        through_from("lines", lines, &ReadOptions::default(), &mut |records| take(&mut state, records));
    let done = finish(state, &opened.expect("a trace"));
    (HELD.with(Cell::get).1, done)
}

/// Of a trace of reads.
const CSV: &str = "t,dev,off,bytes,op,pid,file\n";
/// How many reads: enough to tell what grows with them, few enough for a build without optimisation.
const READS: u64 = 400_000;
/// What a reader needs beside what it keeps: the beginning of the stream, buffers, and ranges that wait.
const BESIDE: usize = 4 << 20;

/// Sixteen readers of as many files in turn, each in order.
fn in_order(at: u64) -> String {
    let (reader, block) = (at % 16, at / 16);
    format!("{}.{:06},sda,{},4096,R,p{reader},f{reader}\n", at / 10_000, at % 10_000 * 100, block * 4096)
}

/// Reads that lie apart and never again in the same place.
fn apart(at: u64) -> String {
    let block = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 34;
    format!("{}.{:06},sda,{},4096,R,p{},\n", at / 10_000, at % 10_000 * 100, block * 8192, at % 16)
}

/// Calls of four threads as strace tells them.
fn calls(at: u64) -> String {
    let (thread, block) = (at % 4 + 100, at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
    let time = format!("{}.{:06}", 1_700_000_000 + at / 10_000, at % 10_000 * 100);
    format!(
        "{thread} {time} pread64(3</srv/data>, \"\"..., 4096, {}) = 4096 <0.000{}>\n",
        block * 8192,
        at % 800 + 100
    )
}

fn of_info(heading: &str, line: fn(u64) -> String) -> usize {
    let finish = |tally: Tally, opened: &Opened| tally.finish(&opened.trace);
    let (most, info) = most(heading, line, Tally::default(), Tally::take, finish);
    assert_eq!(info.requests, READS);
    assert!(info.footprint_blocks > READS * 9 / 10, "{}", info.footprint_blocks);
    most
}

fn of_patterns(line: fn(u64) -> String) -> usize {
    let options = PatternOptions { by: Some(GroupBy::Process), ..PatternOptions::default() };
    let finish = |finder: Finder, opened: &Opened| finder.finish(&opened.trace).expect("it fits");
    let (most, found) = most(CSV, line, Finder::new(&options, 0), Finder::take, finish);
    assert_eq!((found.total.references, found.groups.len()), (READS, 16));
    most
}

fn a_read(bytes: usize) -> usize {
    bytes.saturating_sub(BESIDE) / usize::try_from(READS).expect("few")
}

#[test]
fn what_is_read_in_order_takes_no_more_memory_however_long_it_is() {
    for bytes in [of_info(CSV, in_order), of_patterns(in_order), of_patterns(apart)] {
        assert_eq!(a_read(bytes), 0, "{bytes}");
    }
}

#[test]
fn the_footprint_of_reads_that_lie_apart_takes_some_twenty_bytes_each() {
    let bytes = of_info(CSV, apart);
    assert!(a_read(bytes) <= 24, "{bytes}");
}

#[test]
fn a_trace_in_columns_takes_a_dozen_bytes_a_read() {
    let finish = |kept: Kept, opened: &Opened| {
        kept.finish(opened.trace.names.clone(), opened.trace.file_sizes.clone())
    };
    for (line, each) in [(in_order as fn(u64) -> String, 16), (apart, 16)] {
        let (bytes, kept) = most(CSV, line, Kept::default(), Kept::take, finish);
        assert_eq!(kept.len() as u64, READS);
        assert!(a_read(bytes) <= each, "{bytes}");
    }
}

#[test]
fn a_format_that_is_known_only_at_its_end_is_kept_in_few_bytes() {
    let bytes = of_info("", calls);
    assert!(a_read(bytes) <= 64, "{bytes}");
}
