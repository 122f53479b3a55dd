//! From what the kernel tells of page-cache reads to the reads that programs made.
//!
//! The kernel's tracepoints see a buffered read in pieces: `sys_enter_read` and `sys_exit_read` around it (if they are
//! recorded), and between them `mm_filemap_get_pages` with the inode and the pages, once per batch of some thirty
//! folios, all of one read with the same last page. A fault of a mapped file is one event and one page, or, where the
//! pages around it were there already, one event for the range that was mapped. This module puts them together; the
//! reader of `perf script` text and the live recorder both feed it.
//!
//! ```text
//!   enter(count) ── pages(file, 3..=6) ── pages(file, 5..=6) ── exit(13,000)      one read, exact bytes, and how long
//!   pages(file, 3..=6) ── pages(file, 5..=6)            ── pages(other, …)         one read of whole pages
//!   fault(file, 7)                                                                 one page
//! ```
//!
//! A position that is not in the call (`read`, `readv`) is known from the thread's last read, seek or open of the same
//! descriptor if that lies in the first page asked for; else it is the earliest byte that fits pages and count.

use forerun_core::units::BLOCK_BYTES;
use std::collections::BTreeMap;

/// Threads that are followed at once; beyond, the one with the smallest number is given up. A number per live thread.
const THREADS_MAX: usize = 1 << 16;
/// Descriptors of a thread whose position is remembered; beyond, all are forgotten and found again by their pages.
const POSITIONS_MAX: usize = 256;
/// Pages of a folio that are more than a fault maps around itself, up to what one entry of a page table's upper level maps.
const FOLIO_PAGES: std::ops::RangeInclusive<u64> = 32..=512;

/// A file as the kernel knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Major number of its file system's device.
    pub major: u32,
    /// Minor number of it.
    pub minor: u32,
    /// Number of the inode there.
    pub inode: u64,
}

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It entered a call that reads.
    Enter {
        /// Of this descriptor.
        descriptor: u64,
        /// So many bytes at most, where the call says it in one number.
        count: Option<u64>,
        /// From this byte on, where the call says it.
        offset: Option<u64>,
    },
    /// It entered a call that moves a descriptor's position; the result is the new one.
    Seek {
        /// Of this descriptor.
        descriptor: u64,
    },
    /// It entered a call that opens a file; the result is a descriptor at the file's beginning.
    Open,
    /// It asked the page cache for pages.
    Pages {
        /// Of this file.
        file: FileId,
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// It touched pages of a mapped file.
    Mapped {
        /// Of this file.
        file: FileId,
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Its call ended.
    Exit {
        /// With this: bytes, or an error below zero.
        result: i64,
    },
}

/// One read that a program made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// Who.
    pub thread: u32,
    /// When it began, ns.
    pub time: u64,
    /// How long it took, ns, where its end was seen.
    pub took: Option<u64>,
    /// Which file it read.
    pub file: FileId,
    /// From which byte.
    pub offset: u64,
    /// How many bytes; of whole pages where the call's own count was not seen, perhaps beyond the end of the file.
    pub bytes: u64,
}

/// Pages asked for, by a call or outside of any that was seen.
#[derive(Clone, Copy, Debug)]
struct Asked {
    time: u64,
    /// When a fault that waited tried again for the last time.
    until: Option<u64>,
    file: FileId,
    first: u64,
    last: u64,
}

/// Where a thread touches a mapped file after it has touched it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Around the same pages: a fault that waits is told when it begins, and with the pages around it whenever it tries again.
    Same,
    /// On at the end of pages that were mapped with the ones before and told nothing.
    Onwards,
    /// Anywhere else.
    Elsewhere,
}

impl Asked {
    /// Since Linux 6.18 a fault maps the whole of a large folio and tells of the 16 pages around it only, so that a thread that
    /// goes through a file touches only the beginning of each folio as far as events say. Folios begin at a multiple of their
    /// size, which is a power of two.
    fn then(&self, next: &Self) -> Then {
        if self.file != next.file {
            Then::Elsewhere
        } else if next.first <= self.first && self.last <= next.last {
            Then::Same
        } else {
            let step = next.first.wrapping_sub(self.first);
            let folio =
                step.is_power_of_two() && FOLIO_PAGES.contains(&step) && self.first.is_multiple_of(step);
            if folio && self.last < next.first { Then::Onwards } else { Then::Elsewhere }
        }
    }
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Call {
    entered: u64,
    descriptor: u64,
    count: Option<u64>,
    offset: Option<u64>,
    asked: Option<Asked>,
}

/// A call under way that places a descriptor.
#[derive(Clone, Copy, Debug)]
enum Placing {
    Seek { descriptor: u64 },
    Open,
}

#[derive(Debug, Default)]
struct Thread {
    call: Option<Call>,
    placing: Option<Placing>,
    /// A read without a call, which further events may continue.
    open: Option<Asked>,
    /// What it touched last of a mapped file: how far that goes shows when it touches on.
    mapped: Option<Asked>,
    /// By descriptor: where its last read ended, and of which file; not of which, after a seek or an open.
    positions: BTreeMap<u64, (Option<FileId>, u64)>,
}

/// Puts events together. Feed each thread's events in order of time; threads may be mixed.
#[derive(Debug, Default)]
pub struct Assembler {
    threads: BTreeMap<u32, Thread>,
    /// Events that belong to no read of a file: calls that asked no page, ends without a beginning.
    idle: u64,
}

impl Assembler {
    /// Takes one event; reads that it completes go to `out`.
    pub fn take(&mut self, thread: u32, time: u64, event: Event, out: &mut impl FnMut(FileRead)) {
        if !self.threads.contains_key(&thread) && self.threads.len() >= THREADS_MAX {
            let given_up = self.threads.pop_first();
            if let Some((number, mut state)) = given_up {
                state.flush(number, out);
            }
        }
        let state = self.threads.entry(thread).or_default();
        match event {
            Event::Enter { descriptor, count, offset } => {
                state.flush(thread, out);
                self.idle += u64::from(state.call.is_some());
                state.call = Some(Call { entered: time, descriptor, count, offset, asked: None });
            }
            Event::Seek { descriptor } => state.placing = Some(Placing::Seek { descriptor }),
            Event::Open => state.placing = Some(Placing::Open),
            Event::Pages { file, first, last } => {
                let asked = Asked { time, until: None, file, first, last };
                flush(Some((thread, state.mapped.take())), out);
                if let Some(call) = &mut state.call {
                    call.asked.get_or_insert(asked);
                    return;
                }
                let same = state.open.is_some_and(|o| o.file == file && o.last == last && o.first < first);
                if !same {
                    flush(Some((thread, state.open.replace(asked))), out);
                }
            }
            Event::Mapped { file, first, last } => {
                flush(Some((thread, state.open.take())), out);
                let mut touched = Asked { time, until: None, file, first, last };
                if let Some(before) = state.mapped.take() {
                    match before.then(&touched) {
                        Then::Same => (touched.time, touched.until) = (before.time, Some(time)),
                        Then::Onwards => {
                            flush(Some((thread, Some(Asked { last: first - 1, ..before }))), out)
                        }
                        Then::Elsewhere => flush(Some((thread, Some(before))), out),
                    }
                }
                state.mapped = Some(touched);
            }
            Event::Exit { result } if state.placing.is_some() => state.placed(result),
            Event::Exit { result } => match state.call.take() {
                Some(call) => match state.end(thread, time, &call, result) {
                    Some(read) => out(read),
                    None => self.idle += 1,
                },
                None => self.idle += 1,
            },
        }
    }

    /// The reads that nothing continues any more. A call whose end was not seen is a read of the pages it asked for.
    pub fn finish(&mut self, out: &mut impl FnMut(FileRead)) {
        for (number, mut state) in std::mem::take(&mut self.threads) {
            state.flush(number, out);
            flush(Some((number, state.call.and_then(|call| call.asked))), out);
        }
    }

    /// Calls and ends of calls that were no read of a file's bytes.
    #[must_use]
    pub const fn idle(&self) -> u64 {
        self.idle
    }
}

/// Whole pages, as a read.
fn flush(asked: Option<(u32, Option<Asked>)>, out: &mut impl FnMut(FileRead)) {
    let Some((thread, Some(Asked { time, until, file, first, last }))) = asked else { return };
    let pages = last.saturating_sub(first).saturating_add(1);
    let (offset, bytes) = (first.saturating_mul(BLOCK_BYTES), pages.saturating_mul(BLOCK_BYTES));
    if offset.checked_add(bytes).is_some() {
        let took = until.map(|until| until.saturating_sub(time));
        out(FileRead { thread, time, took, file, offset, bytes });
    }
}

impl Thread {
    /// The reads without a call, which nothing continues any more.
    fn flush(&mut self, number: u32, out: &mut impl FnMut(FileRead)) {
        flush(Some((number, self.open.take())), out);
        flush(Some((number, self.mapped.take())), out);
    }

    /// The read that a call was, if it was one.
    fn end(&mut self, thread: u32, time: u64, call: &Call, result: i64) -> Option<FileRead> {
        let asked = call.asked?;
        let bytes = u64::try_from(result).ok().filter(|&bytes| bytes > 0)?;
        let offset = call.offset.or_else(|| self.position(call, &asked)).unwrap_or_else(|| {
            let start = asked.first.saturating_mul(BLOCK_BYTES);
            let least =
                |count: u64| asked.last.saturating_mul(BLOCK_BYTES).saturating_add(1).saturating_sub(count);
            call.count.map_or(start, |count| start.max(least(count)))
        });
        let end = offset.checked_add(bytes)?;
        if call.offset.is_none() {
            self.place(call.descriptor, Some(asked.file), end);
        }
        let took = Some(time.saturating_sub(call.entered));
        Some(FileRead { thread, time: call.entered, took, file: asked.file, offset, bytes })
    }

    /// Where the descriptor stands, if this read can begin there.
    fn position(&self, call: &Call, asked: &Asked) -> Option<u64> {
        let &(file, end) = self.positions.get(&call.descriptor)?;
        (file.is_none_or(|file| file == asked.file) && end / BLOCK_BYTES == asked.first).then_some(end)
    }

    fn place(&mut self, descriptor: u64, file: Option<FileId>, position: u64) {
        if self.positions.len() >= POSITIONS_MAX {
            self.positions.clear();
        }
        self.positions.insert(descriptor, (file, position));
    }

    /// A seek or an open has ended.
    fn placed(&mut self, result: i64) {
        let Some((placing, result)) = self.placing.take().zip(u64::try_from(result).ok()) else { return };
        match placing {
            Placing::Seek { descriptor } => self.place(descriptor, None, result),
            Placing::Open => self.place(result, None, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { major: 8, minor: 1, inode: 77 };

    fn reads(events: &[(u32, Event)]) -> Vec<FileRead> {
        let mut reads = Vec::new();
        let mut assembler = Assembler::default();
        for (time, &(thread, event)) in (0..).zip(events) {
            assembler.take(thread, time * 100, event, &mut |read| reads.push(read));
        }
        assembler.finish(&mut |read| reads.push(read));
        reads
    }

    const fn pages(first: u64, last: u64) -> Event {
        Event::Pages { file: FILE, first, last }
    }

    const fn enter(count: u64, offset: Option<u64>) -> Event {
        Event::Enter { descriptor: 3, count: Some(count), offset }
    }

    fn places(reads: &[FileRead]) -> Vec<(u64, u64, Option<u64>)> {
        reads.iter().map(|r| (r.offset, r.bytes, r.took)).collect()
    }

    #[test]
    fn a_call_gives_exact_bytes_and_how_long_it_took() {
        let exit = |result| Event::Exit { result };
        let events = [
            (1, enter(1000, Some(5000))),
            (1, pages(1, 1)),
            (1, exit(1000)),
            (1, enter(1 << 20, None)),
            (1, pages(0, 255)),
            (1, pages(31, 255)),
            (1, exit(10_000)),
            (1, enter(500, None)),
            (1, pages(2, 2)),
            (1, exit(500)),
        ];
        let expected = [(5000, 1000, Some(200)), (0, 10_000, Some(300)), (10_000, 500, Some(200))];
        assert_eq!(places(&reads(&events)), expected);
    }

    #[test]
    fn a_call_that_fails_reads_nothing_or_asks_no_page_is_no_read() {
        let mut assembler = Assembler::default();
        let mut none = |read: FileRead| panic!("{read:?}");
        for (time, event) in (0..).zip([
            enter(10, None),
            Event::Exit { result: 10 },
            enter(10, None),
            pages(0, 0),
            Event::Exit { result: 0 },
            enter(10, None),
            pages(0, 0),
            Event::Exit { result: -5 },
            Event::Exit { result: 7 },
        ]) {
            assembler.take(1, time, event, &mut none);
        }
        assembler.finish(&mut none);
        assert_eq!(assembler.idle(), 4);
    }

    #[test]
    fn without_calls_the_batches_of_one_read_are_one_read_of_whole_pages() {
        let events = [
            (1, pages(0, 255)),
            (2, pages(9, 9)),
            (1, pages(31, 255)),
            (1, pages(62, 255)),
            (1, pages(256, 300)),
        ];
        let expected = [(0, 256 * 4096, None), (256 * 4096, 45 * 4096, None), (9 * 4096, 4096, None)];
        assert_eq!(places(&reads(&events)), expected);
    }

    #[test]
    fn a_touched_page_of_a_mapped_file_is_a_read_of_its_own() {
        let touched = |first| Event::Mapped { file: FILE, first, last: first + 15 };
        let again = [(1, touched(16)), (1, touched(16)), (1, touched(48)), (1, touched(16))];
        assert_eq!(
            places(&reads(&again)),
            [(65_536, 65_536, Some(100)), (196_608, 65_536, None), (65_536, 65_536, None)]
        );
    }

    #[test]
    fn a_walk_through_a_mapped_file_reads_large_folios_to_their_end() {
        // What Linux 6.18 tells of a walk through folios of 128 KiB: a fault that waits, the pages around it, the next fault.
        let touched = |first, last| Event::Mapped { file: FILE, first, last };
        let walk = [touched(64, 64), touched(64, 79), touched(96, 96), touched(96, 111), touched(128, 143)];
        let places = |events: &[Event]| {
            let events: Vec<(u32, Event)> = events.iter().map(|&event| (1, event)).collect();
            reads(&events).iter().map(|read| (read.offset / 4096, read.bytes / 4096)).collect::<Vec<_>>()
        };
        // A fault that waited took until it tried again.
        let waited: Vec<(u32, Event)> = walk.iter().map(|&event| (1, event)).collect();
        let took: Vec<Option<u64>> = reads(&waited).iter().map(|read| read.took).collect();
        assert_eq!(took, [Some(100), Some(100), None]);
        assert_eq!(places(&walk), [(64, 32), (96, 32), (128, 16)]);
        // Not so far as a folio, not from where one begins, back, and in another file: touched as told.
        let others = [touched(0, 15), touched(16, 31), touched(48, 63), touched(80, 95), touched(0, 15)];
        assert_eq!(places(&others), [(0, 16), (16, 16), (48, 16), (80, 16), (0, 16)]);
        let far = [touched(0, 15), touched(1024, 1039)];
        assert_eq!(places(&far), [(0, 16), (1024, 16)]);
    }

    #[test]
    fn a_first_read_in_the_middle_of_a_page_begins_where_count_and_pages_say() {
        // 8000 bytes that reach into page 2 cannot begin before byte 193.
        let events = [(1, enter(8000, None)), (1, pages(0, 2)), (1, Event::Exit { result: 8000 })];
        assert_eq!(places(&reads(&events)), [(193, 8000, Some(200))]);
    }

    #[test]
    fn a_seek_and_an_open_say_where_the_next_read_begins() {
        let exit = |result| Event::Exit { result };
        let events = [
            (1, Event::Seek { descriptor: 3 }),
            (1, exit(7000)),
            (1, enter(1000, None)),
            (1, pages(1, 1)),
            (1, exit(1000)),
            (1, Event::Open),
            (1, exit(3)),
            (1, enter(1000, None)),
            (1, pages(0, 0)),
            (1, exit(100)),
            (1, Event::Seek { descriptor: 3 }),
            (1, exit(-22)),
            (1, enter(1000, None)),
            (1, pages(0, 0)),
            (1, exit(50)),
        ];
        assert_eq!(
            places(&reads(&events)),
            [(7000, 1000, Some(200)), (0, 100, Some(200)), (100, 50, Some(200))]
        );
    }

    #[test]
    fn addresses_beyond_64_bits_are_dropped_and_do_not_wrap() {
        let far = u64::MAX / 4096;
        let events = [(1, pages(far, far + 7)), (1, pages(u64::MAX - 1, u64::MAX)), (1, pages(0, 0))];
        assert_eq!(places(&reads(&events)), [(0, 4096, None)]);
    }
}
