//! Misses, where the kernel tells of none: made of the pages that a reader loads, on kernels without the tracepoints of read-ahead.
//!
//! ```text
//!   added 64, added 65, added 66, added 67 ─▶ one run of the thread ──it asks a device──▶ begins where an earlier run of this file ended?
//!                                                     │                                     ├─yes─▶ a window of the kernel's own read-ahead
//!                                                     └─another place, nothing asked:       └─no──▶ a miss of all these pages
//!                                                       written, or a hole                          a page of it faulted before: that was told
//!                                                                                                   faults are not told, and the file is mapped: a fault
//! ```
//!
//! A page is added to the cache in the thread that wants it, page after page, before its device is asked; so what a thread adds in a row until it
//! asks is one read, or one window around a fault. Pages that are written are added too, and nobody is asked for them. What is read ahead in
//! order begins where the last window of that stream ended, and who reads at equal distances never begins there. Our own workers are left out
//! before (`daemon.rs`).

use crate::reads::Sight;
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;

/// Threads whose pages wait for a request at most; who writes leaves some.
const THREADS_MAX: usize = 4_096;
/// Readers of files whose ends are known at most.
const READERS_MAX: usize = 4_096;
/// Ends of each: so many streams may take turns.
const ENDS: usize = 16;
/// Processes whose faults wait for their pages at most, and faults of each.
const FAULTING_MAX: usize = 1_024;
const FAULTS: usize = 4;

/// Pages that a thread has added one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    file: FileId,
    first: u64,
    end: u64,
}

/// The last so many of something, the oldest first.
#[derive(Debug)]
struct Last<T, const N: usize>(Vec<T>);

// Not derived: that would want a default of `T`.
impl<T, const N: usize> Default for Last<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + PartialEq, const N: usize> Last<T, N> {
    fn push(&mut self, value: T) {
        if self.0.len() >= N {
            self.0.remove(0);
        }
        self.0.push(value);
    }

    /// Takes the newest that is like this.
    fn take(&mut self, is: impl Fn(T) -> bool) -> bool {
        let found = self.0.iter().rposition(|&value| is(value));
        found.map(|at| self.0.remove(at)).is_some()
    }
}

/// A process and a file.
#[derive(Debug, Default)]
struct Reader {
    ends: Last<u64, ENDS>,
    /// Runs that it loaded.
    runs: u64,
    /// It has mapped the file.
    mapped: bool,
}

/// Who loads what.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// Whether faults are told.
    faults_told: bool,
    threads: BTreeMap<u32, Run>,
    readers: BTreeMap<(u32, FileId), Reader>,
    faults: BTreeMap<u32, Last<(FileId, u64), FAULTS>>,
}

impl Loads {
    /// With nobody known.
    pub(crate) fn new(faults_told: bool) -> Self {
        Self { faults_told, ..Self::default() }
    }

    /// Puts misses in the place of what was loaded, in events in the order of time; `is_mapped` is asked whether a process has mapped a file,
    /// of those who load again and again.
    pub(crate) fn fold(
        &mut self,
        batch: &mut Vec<(u64, u32, Sight)>,
        is_mapped: &mut dyn FnMut(u32, FileId) -> bool,
    ) {
        batch.retain_mut(|(_, pid, sight)| match *sight {
            Sight::Loads { thread, file, first, pages, .. } => {
                self.load(thread, Run { file, first, end: first.saturating_add(pages) });
                false
            }
            Sight::Sent { thread } => {
                let miss = self.threads.remove(&thread).and_then(|run| self.sent(*pid, run, is_mapped));
                miss.map(|miss| *sight = miss).is_some()
            }
            Sight::Fault { file, page } => {
                room(&mut self.faults, FAULTING_MAX, pid);
                self.faults.entry(*pid).or_default().push((file, page));
                true
            }
            _ => true,
        });
    }

    /// A thread has added pages.
    fn load(&mut self, thread: u32, run: Run) {
        room(&mut self.threads, THREADS_MAX, &thread);
        let known = self.threads.entry(thread).or_insert(run);
        if known.file == run.file && known.end == run.first {
            known.end = run.end;
        } else {
            *known = run;
        }
    }

    /// A device is asked for a run; what that is.
    fn sent(&mut self, pid: u32, run: Run, is_mapped: &mut dyn FnMut(u32, FileId) -> bool) -> Option<Sight> {
        let Run { file, first, end } = run;
        room(&mut self.readers, READERS_MAX, &(pid, file));
        let reader = self.readers.entry((pid, file)).or_default();
        let goes_on = reader.ends.take(|known| known == first);
        reader.ends.push(end);
        reader.runs += 1;
        // Before anything is made of its misses, and ever less often after that.
        if !self.faults_told && reader.runs >= 2 && reader.runs.is_power_of_two() {
            reader.mapped = is_mapped(pid, file);
        }
        let within = |(of, page): (FileId, u64)| of == file && (first..end).contains(&page);
        if self.faults.get_mut(&pid).is_some_and(|faults| faults.take(within)) {
            return None;
        }
        if reader.mapped && !goes_on {
            // The kernel reads as much before it as behind it.
            return Some(Sight::Fault { file, page: first + (end - first) / 2 });
        }
        // Whose window this kernel does not tell.
        Some(Sight::Asked { file, first, pages: end - first, window: 0, missing: !goes_on, idle: false })
    }
}

/// Makes room for one more: where there are many all are forgotten, which costs a run that was begun, or takes a window for a miss.
fn room<K: Ord, V>(of: &mut BTreeMap<K, V>, most: usize, key: &K) {
    if of.len() >= most && !of.contains_key(key) {
        of.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileId = FileId { major: 7, minor: 0, inode: 1 };
    const B: FileId = FileId { major: 7, minor: 0, inode: 2 };

    fn loads(thread: u32, file: FileId, pages: std::ops::Range<u64>) -> Vec<(u32, Sight)> {
        let one = |first| (thread / 10, Sight::Loads { thread, file, first, pages: 1, frame: 0 });
        pages.map(one).collect()
    }

    fn sent(thread: u32) -> Vec<(u32, Sight)> {
        vec![(thread / 10, Sight::Sent { thread })]
    }

    fn read(thread: u32, file: FileId, pages: std::ops::Range<u64>) -> Vec<(u32, Sight)> {
        [loads(thread, file, pages), sent(thread)].concat()
    }

    /// What events come to: process, file, first page, pages and whether they were missed; of others nothing.
    fn fold(known: &mut Loads, events: Vec<Vec<(u32, Sight)>>) -> Vec<(u32, u64, u64, u64, bool)> {
        let events = events.into_iter().flatten().zip(1..);
        let mut batch = events.map(|((pid, sight), time)| (time, pid, sight)).collect();
        known.fold(&mut batch, &mut |_, _| false);
        let asked = |(_, pid, sight)| match sight {
            Sight::Asked { file, first, pages, missing, .. } => {
                Some((pid, file.inode, first, pages, missing))
            }
            _ => None,
        };
        batch.into_iter().filter_map(asked).collect()
    }

    #[test]
    fn pages_that_a_thread_adds_in_a_row_are_one_miss_once_it_asks_for_them() {
        let mut known = Loads::default();
        let told = fold(&mut known, vec![read(10, A, 64..68), read(10, A, 128..132), loads(10, A, 192..194)]);
        assert_eq!(told, [(1, 1, 64, 4, true), (1, 1, 128, 4, true)]);
        // What was begun in one look goes on in the next.
        assert_eq!(fold(&mut known, vec![read(10, A, 194..196)]), [(1, 1, 192, 4, true)]);
        assert_eq!(fold(&mut known, vec![sent(10)]), [], "one run may be several requests");
        let folio = Sight::Loads { thread: 10, file: A, first: 512, pages: 16, frame: 0 };
        assert_eq!(fold(&mut known, vec![vec![(1, folio)], sent(10)]), [(1, 1, 512, 16, true)]);
    }

    #[test]
    fn threads_and_files_are_told_apart() {
        let mixed = [loads(10, A, 0..2), loads(11, A, 2..4), loads(20, A, 9..10), loads(10, A, 2..3)];
        let asked = [sent(11), sent(10), sent(20), loads(10, A, 50..51), read(10, B, 51..52)];
        let told = fold(&mut Loads::default(), [&mixed[..], &asked].concat());
        let expected = [(1, 1, 2, 2, true), (1, 1, 0, 3, true), (2, 1, 9, 1, true), (1, 2, 51, 1, true)];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_written_or_has_no_place_on_the_device_is_no_miss() {
        let told =
            fold(&mut Loads::default(), vec![loads(10, A, 0..9), loads(10, A, 64..70), read(10, B, 4..5)]);
        assert_eq!(told, [(1, 2, 4, 1, true)]);
    }

    #[test]
    fn windows_of_streams_in_turns_are_the_kernels_and_places_of_a_stride_are_not() {
        let mut known = Loads::default();
        let streams =
            |at: u64| (0..8).map(move |stream| read(10, A, stream * 1_000 + at..stream * 1_000 + at + 32));
        let told = fold(&mut known, (0..10).flat_map(|window| streams(window * 32)).collect());
        assert_eq!(told.iter().filter(|(.., missing)| *missing).count(), 8, "{told:?}");
        assert_eq!(told.len(), 80);
        let back = (0..50).rev().map(|at| read(10, B, at * 4..at * 4 + 4)).collect();
        assert!(fold(&mut known, back).iter().all(|(.., missing)| *missing), "backwards is no stream");
        // Another process has streams of its own.
        assert_eq!(fold(&mut known, vec![read(20, A, 320..352)]), [(2, 1, 320, 32, true)]);
    }

    #[test]
    fn what_is_loaded_around_a_fault_was_told_by_the_fault() {
        let mut known = Loads::default();
        let fault = |page| vec![(1, Sight::Fault { file: A, page })];
        let told = fold(&mut known, vec![fault(70), read(10, A, 56..88), read(10, A, 200..204)]);
        assert_eq!(told, [(1, 1, 200, 4, true)]);
        let mut batch = vec![(1, 1, Sight::Fault { file: A, page: 5 })];
        known.fold(&mut batch, &mut |_, _| false);
        assert_eq!(batch.len(), 1, "it is told all the same");
    }

    #[test]
    fn where_faults_are_not_told_what_a_mapping_loads_is_one_from_the_second_on() {
        let mut asked = 0;
        let mut told = |mut known: Loads| {
            let runs = (0..9).map(|at| read(10, A, at * 100..at * 100 + 32)).chain([read(10, A, 832..864)]);
            let mut batch = runs.flatten().map(|(pid, sight)| (1, pid, sight)).collect();
            known.fold(&mut batch, &mut |pid, file| {
                asked += 1;
                (pid, file) == (1, A)
            });
            batch
        };
        let all = told(Loads::default());
        let faults: Vec<u64> = all
            .iter()
            .filter_map(|(.., sight)| match sight {
                Sight::Fault { page, .. } => Some(*page),
                _ => None,
            })
            .collect();
        assert_eq!(faults, (1..9).map(|at| at * 100 + 16).collect::<Vec<_>>());
        let last = Sight::Asked { file: A, first: 832, pages: 32, window: 0, missing: false, idle: false };
        assert_eq!(all.last().map(|(.., sight)| *sight), Some(last), "in order it is the kernel's");
        let is_fault = |(.., sight): &(u64, u32, Sight)| matches!(sight, Sight::Fault { .. });
        assert!(!told(Loads::new(true)).iter().any(is_fault));
        assert_eq!(asked, 3, "of the second, the fourth and the eighth");
    }

    #[test]
    fn nothing_grows_without_a_maximum() {
        let mut known = Loads::default();
        for number in 0..3 * THREADS_MAX as u32 {
            let file = FileId { inode: u64::from(number), ..A };
            fold(&mut known, vec![read(number * 10, file, 0..1), loads(number * 10, file, 7..8)]);
            fold(&mut known, vec![vec![(number, Sight::Fault { file, page: 5 })]]);
        }
        assert!(known.threads.len() <= THREADS_MAX && known.readers.len() <= READERS_MAX);
        assert!(known.faults.len() <= FAULTING_MAX);
    }
}
