//! Stand-in for PostMark (flashy slides, "Evaluation Setup": email): a changing pool of small files.
//!
//! PostMark makes a pool of files, then runs transactions, each a pair: a file is created or deleted, and one is read
//! whole or appended to, either with even odds (Katcher, "PostMark: A New File System Benchmark", NetApp TR-3022). The slides do
//! not say how large their pool is. The defaults are those of Auto-pilot's PostMark page, which raises PostMark's own 500
//! files to a pool of 20,000 and 200,000 transactions, with files of 512 bytes to 10 KiB, read and written in pieces of 4
//! KiB; sizes are uniform, as PostMark draws them. Each file has a place of its own, 12 KiB, and a deleted one leaves
//! its place to the next that is created. Directories and inodes are left out, so its metadata costs nothing here.

use super::plan::{Emit, Home, Pace, Plan, whole_blocks};
use super::shape::Values;
use super::{Request, Source};
use crate::random::{MILLION, Rng};
use forerun_core::access::Op;

/// Smallest file (Auto-pilot's MINSIZE).
const SMALLEST: u64 = 512;
/// Largest file, appended to no further (Auto-pilot's MAXSIZE).
const LARGEST: u64 = 10_240;
/// Bytes of one read or write (Auto-pilot's READSIZE and WRITESIZE).
const PIECE: u64 = 4_096;
/// Room of one file.
const PLACE: u64 = whole_blocks(LARGEST);
/// Even odds, in a million.
const HALF: u64 = MILLION / 2;

/// One process and its pool.
#[derive(Debug)]
struct Postmark {
    files: u64,
    transactions: u64,
}

/// Shape `standin-postmark`.
pub(super) fn postmark(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    Ok(Box::new(Postmark { files: values.get("files"), transactions: values.get("transactions") }))
}

impl Postmark {
    /// Places of the volume: the pool may grow by a quarter.
    const fn places(&self) -> u64 {
        self.files + self.files.div_ceil(4)
    }
}

impl Plan for Postmark {
    fn processes(&self) -> u64 {
        1
    }
    fn footprint(&self) -> u64 {
        self.places() * PLACE
    }
    fn files(&self) -> Vec<u64> {
        (0..self.places()).map(|place| place * PLACE).collect()
    }
    fn source(&self, _process: u64, home: Home) -> Box<dyn Source> {
        Box::new(Mail {
            emit: Emit::new(&home, Pace::default()),
            sizes: vec![0; self.places() as usize],
            live: Vec::new(),
            free: (0..self.places()).rev().collect(),
            pool: self.files,
            left: self.transactions,
            second: false,
            task: None,
            rng: home.rng,
        })
    }
}

/// A file on its way through memory.
#[derive(Clone, Copy, Debug)]
struct Task {
    op: Op,
    place: u64,
    from: u64,
    until: u64,
}

/// The process of a [`Postmark`].
struct Mail {
    emit: Emit,
    /// Bytes of the file in each place; 0 where there is none.
    sizes: Vec<u64>,
    /// Places with a file, in no order.
    live: Vec<u64>,
    /// Places without one.
    free: Vec<u64>,
    /// Files of the first pool that are not yet made.
    pool: u64,
    /// Transactions not begun.
    left: u64,
    /// The transaction under way has its second half before it.
    second: bool,
    task: Option<Task>,
    rng: Rng,
}

impl Mail {
    fn create(&mut self) {
        let Some(place) = self.free.pop() else { return };
        let size = SMALLEST + self.rng.below(LARGEST - SMALLEST + 1);
        self.sizes[place as usize] = size;
        self.live.push(place);
        self.task = Some(Task { op: Op::Write, place, from: 0, until: size });
    }

    fn create_or_delete(&mut self) {
        let create = self.rng.chance(HALF);
        // One file at least stays, so that there is one to read.
        if self.live.len() > 1 && (!create || self.free.is_empty()) {
            let number = self.rng.below(self.live.len() as u64) as usize;
            let place = self.live.swap_remove(number);
            self.sizes[place as usize] = 0;
            self.free.push(place);
        } else {
            self.create();
        }
    }

    fn read_or_append(&mut self) {
        let place = self.live[self.rng.below(self.live.len() as u64) as usize];
        let size = self.sizes[place as usize];
        if self.rng.chance(HALF) {
            self.task = Some(Task { op: Op::Read, place, from: 0, until: size });
        } else if size < LARGEST {
            let until = size + 1 + self.rng.below(LARGEST - size);
            self.sizes[place as usize] = until;
            self.task = Some(Task { op: Op::Write, place, from: size, until });
        }
    }

    /// The next piece of the task under way.
    fn piece(&mut self) -> Option<Request> {
        let task = self.task.take().filter(|task| task.from < task.until)?;
        let end = (task.from / PIECE * PIECE + PIECE).min(task.until);
        self.task = Some(Task { from: end, ..task });
        let offset = task.place * PLACE + task.from;
        Some(self.emit.request(task.op, task.place, offset, end - task.from))
    }
}

impl Source for Mail {
    fn next(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.piece() {
                return Some(request);
            }
            if self.pool > 0 {
                self.pool -= 1;
                self.create();
            } else if core::mem::take(&mut self.second) {
                self.read_or_append();
            } else if self.left == 0 {
                return None;
            } else {
                self.left -= 1;
                self.second = true;
                self.create_or_delete();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn the_pool_is_written_first_and_then_read_and_written_by_halves() {
        let workload = Workload::parse("standin-postmark:files=200,transactions=4000").expect("a workload");
        let mut source = workload.sources(1).remove(0);
        let requests: Vec<Request> = core::iter::from_fn(|| source.next()).collect();
        let pool = requests.iter().position(|r| r.op == Op::Read).expect("something is read");
        assert!(pool >= 200, "nothing is read before the pool is there");
        let of = |op: Op| -> u64 { requests[pool..].iter().filter(|r| r.op == op).map(|r| r.bytes).sum() };
        // Half of 4000 transactions read a file whole, half create one, and half append half of what is free.
        let (read, written) = (of(Op::Read) / 2000, of(Op::Write) / 2000);
        assert!((5_000..9_500).contains(&read), "{read} bytes a read: files grow by what is appended");
        assert!((5_000..9_500).contains(&written), "{written}");
        assert!(
            requests.iter().all(|r| r.bytes <= PIECE && r.offset + r.bytes <= workload.footprint_bytes())
        );
    }
}
