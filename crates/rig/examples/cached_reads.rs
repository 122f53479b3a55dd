//! What a read of 4 KiB costs that is in memory: one thread or more read the first page of a file again and again.
//!
//! ```text
//! cached_reads FILE SECONDS [THREADS]
//! ```
//!
//! Prints one line of JSON: how many reads there were, and the nanoseconds that each took its thread. `scripts/bench-watch-costs.py` runs
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
/// Reads between two looks at the clock.
const READS: u64 = 1_024;
/// Most threads: there are machines with so many processors, and no more is meant.
const THREADS_MAX: usize = 1_024;

/// Reads until the time is over; reads and nanoseconds.
fn read(path: &Path, time: Duration) -> io::Result<(u64, u64)> {
    let file = File::open(path)?;
    let mut page = [0; BYTES];
    // The first one may wait for the device.
    file.read_exact_at(&mut page, 0)?;
    let (begun, mut reads) = (Instant::now(), 0);
    while begun.elapsed() < time {
        for _ in 0..READS {
            file.read_exact_at(&mut page, 0)?;
        }
        reads += READS;
    }
    Ok((reads, u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)))
}

fn run(path: &Path, time: Duration, threads: usize) -> io::Result<(u64, u64)> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| read(path, time))).collect();
        all.into_iter().try_fold((0, 0), |(reads, nanos), thread| {
            let (more, took) = thread.join().map_err(|_| io::Error::other("a reader panicked"))??;
            Ok((reads + more, nanos + took))
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
        Ok((reads, nanos)) => {
            println!("{{\"reads\":{reads},\"ns\":{:.1}}}", nanos as f64 / reads as f64);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("cached_reads: {path}: {problem}");
            ExitCode::FAILURE
        }
    }
}
