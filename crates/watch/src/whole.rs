//! Whole files: a mapped file of which windows would have loaded half is loaded to its end.
//!
//! A reader by chance that gets a page at a time (`govern.rs`) comes sooner than one with windows to few places of a file, and later
//! to all of them. Where a file is small that is soon: then one long read in order costs less than the faults to come, of single pages
//! or of windows. Nobody knows how many are to come, so what was spent decides: the file is read once the windows that the kernel would have loaded by now make up half
//! of it, which moves at most twice what the kernel would have moved, whenever the reader stops; and once single pages have taken a quarter
//! of the time that all of its windows would take, so that a large file is not read for a few pages of it.
//!
//! ```text
//!   single pages ─▶ half of the file by windows, and a quarter of its time? ──yes──▶ fits a quarter of free memory? ──yes──▶ read in order
//! ```
//!
//! One file is read at a time, a MiB after the other, by a thread that opens it by number (ext4) and keeps nothing open.

use crate::memory;
use crate::mounted::{self, ByDevice, News};
use crate::payers::{Bill, Charge};
use crate::volumes::{self, Volume, Volumes};
use forerun_trace::assemble::FileId;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Bytes of a page.
const PAGE: u64 = 4_096;
/// Bytes that are asked for before the last of them is waited for.
const STEP: u64 = 1 << 20;
/// A file may be one part in so many of the memory that is free.
const MEMORY_PARTS: u64 = 4;
/// Stack of the thread.
const STACK_BYTES: usize = 256 << 10;

/// A file to be read.
struct Job {
    volume: Arc<Volume>,
    inode: u64,
    bill: Bill,
}

/// Reads files as a whole, one at a time.
pub(crate) struct Whole {
    volumes: ByDevice,
    /// None while only observing, or where there is no thread.
    jobs: Option<SyncSender<Job>>,
    charge: Charge,
    hold: Arc<AtomicBool>,
}

impl Whole {
    /// With `observe` nothing is read.
    pub(crate) fn new(volumes: &Volumes, observe: bool, charge: &Charge) -> Self {
        let hold = Arc::new(AtomicBool::new(false));
        Self {
            volumes: mounted::by_number(volumes),
            charge: charge.clone(),
            jobs: if observe { None } else { worker(&hold) },
            hold,
        }
    }

    /// Other file systems are mounted.
    pub(crate) fn mounted(&mut self, news: &News) {
        self.volumes = mounted::by_number(&news.volumes);
    }

    /// Nothing more is read while this is so; what is under way ends.
    pub(crate) fn hold(&self, on: bool) {
        self.hold.store(on, Ordering::Relaxed);
    }

    /// A file of at most so many pages is worth it: the bytes of the file if it is read as a whole from now on.
    pub(crate) fn wish(&self, pid: u32, file: FileId, most: u64) -> Option<u64> {
        let volume = self.volumes.get(&(file.major, file.minor))?;
        let jobs = self.jobs.as_ref().filter(|_| !self.hold.load(Ordering::Relaxed))?;
        let open = fs::File::from(volumes::open_number(volume, file.inode, None).ok()?);
        let bytes = open.metadata().ok()?.len();
        let pays = is_within(most, bytes) && bytes <= memory::available() / MEMORY_PARTS;
        // Where another file is being read this one has to wait for its next turn.
        let job = || Job { volume: Arc::clone(volume), inode: file.inode, bill: self.charge.bill(pid) };
        let begun = || jobs.try_send(job()).is_ok();
        (pays && begun()).then_some(bytes)
    }
}

/// Whether a file that has bytes has no more than so many pages.
const fn is_within(most: u64, bytes: u64) -> bool {
    bytes > 0 && bytes.div_ceil(PAGE) <= most
}

fn worker(hold: &Arc<AtomicBool>) -> Option<SyncSender<Job>> {
    // No place in the queue: a file is taken only by a thread that waits for one.
    let (jobs, queue) = sync_channel(0);
    let hold = Arc::clone(hold);
    let named = std::thread::Builder::new().name("forerun-whole".into()).stack_size(STACK_BYTES);
    named.spawn(move || work(&queue, &hold)).ok()?;
    Some(jobs)
}

fn work(queue: &Receiver<Job>, hold: &AtomicBool) {
    while let Ok(job) = queue.recv() {
        // What cannot be read ahead is a fault of the reader, who is told why.
        let _ = read(&job, hold);
    }
}

/// Reads a file to its end, a step after the other.
fn read(job: &Job, hold: &AtomicBool) -> std::io::Result<()> {
    let file = fs::File::from(volumes::open_number(&job.volume, job.inode, None)?);
    let (end, chunk) = (file.metadata()?.len(), job.volume.chunk_pages * PAGE);
    let mut at = 0;
    while at < end && !hold.load(Ordering::Relaxed) {
        let until = end.min(at + STEP);
        while at < until {
            let bytes = chunk.min(until - at);
            job.bill.readahead(file.as_fd(), &[(at, bytes)])?;
            at += bytes;
        }
        file.read_at(&mut [0], until - 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_pages_that_it_may_have() {
        assert!(is_within(8, 32 << 10) && is_within(8, (28 << 10) + 1));
        assert!(!is_within(8, (32 << 10) + 1), "a byte more");
        assert!(!is_within(8, 0) && is_within(u64::MAX, u64::MAX));
    }

    #[test]
    fn while_observing_or_held_or_on_an_unknown_device_nothing_is_read() {
        let volumes = Volumes::now();
        let file = FileId { major: 0, minor: 0, inode: 1 };
        assert_eq!(Whole::new(&volumes, true, &Charge::default()).wish(1, file, u64::MAX), None);
        let whole = Whole::new(&volumes, false, &Charge::default());
        assert_eq!(whole.wish(1, file, u64::MAX), None, "no file system has that number");
        whole.hold(true);
        for volume in volumes.all().iter().filter(|volume| volume.finds_by_inode()) {
            let file = FileId { major: volume.device.major(), minor: volume.device.minor(), inode: 2 };
            assert_eq!(whole.wish(1, file, u64::MAX), None);
        }
    }
}
