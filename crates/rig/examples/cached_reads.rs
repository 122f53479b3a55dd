//! What a read of 4 KiB costs that is in memory: one thread or more read the first pages of a file in turn, again and again.
//!
//! ```text
//! cached_reads FILE SECONDS [THREADS]
//! ```
//!
//! Prints one line of JSON: how many reads there were, the nanoseconds of processor time that each took its thread, which other work on the
//! machine changes little, and those from one to the next. `scripts/bench-watch-costs.py` runs
//! it beside `forerun watch`, as a flood of events too.

#![expect(clippy::print_stdout, reason = "an example that prints its result")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Bytes of a read.
const BYTES: usize = 4_096;
/// Pages that are read in turn, between two looks at the clock.
const PAGES: u64 = 256;
/// Most threads: there are machines with so many processors, and no more is meant.
const THREADS_MAX: usize = 1_024;

/// What a thread did.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    reads: u64,
    /// On the processor, nanoseconds.
    busy: u64,
    /// From the first to the last, nanoseconds.
    took: u64,
}

/// Nanoseconds that this thread was on a processor.
fn busy() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    text.split_whitespace().next().and_then(|word| word.parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
}

/// Reads until the time is over.
fn read(path: &Path, time: Duration) -> io::Result<Done> {
    let file = File::open(path)?;
    let mut page = [0; BYTES];
    let mut all = || (0..PAGES).try_for_each(|at| file.read_exact_at(&mut page, at * BYTES as u64));
    // The first time they may wait for the device.
    all()?;
    let (begun, before, mut reads) = (Instant::now(), busy()?, 0);
    while begun.elapsed() < time {
        all()?;
        reads += PAGES;
    }
    let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Done { reads, busy: busy()? - before, took })
}

fn run(path: &Path, time: Duration, threads: usize) -> io::Result<Done> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| read(path, time))).collect();
        all.into_iter().try_fold(Done::default(), |sum, thread| {
            let done = thread.join().map_err(|_| io::Error::other("a reader panicked"))??;
            Ok(Done {
                reads: sum.reads + done.reads,
                busy: sum.busy + done.busy,
                took: sum.took.max(done.took),
            })
        })
    })
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<f64>().ok());
    let seconds = number(1).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let threads = words.get(2).map_or(Some(1), |word| word.parse().ok());
    let (Some(path), Some(time), Some(threads @ 1..=THREADS_MAX)) = (words.first(), seconds, threads) else {
        println!("usage: cached_reads FILE SECONDS [THREADS]");
        return ExitCode::from(2);
    };
    match run(Path::new(path), time, threads) {
        Ok(Done { reads, busy, took }) => {
            let each = |nanos: u64| nanos as f64 / reads as f64;
            println!("{{\"reads\":{reads},\"ns\":{:.1},\"apart_ns\":{:.1}}}", each(busy), each(took));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("cached_reads: {path}: {problem}");
            ExitCode::FAILURE
        }
    }
}
