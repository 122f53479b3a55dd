//! Neighbours: programs that read one small file after the other, numbered as they lie, get the others around them before they open them.
//!
//! A tree that was unpacked or checked out has the files of a folder side by side in number, and `grep -r` reads them folder by folder, in
//! some order. There is no pattern within a file to see; but files in a row that are near each other are one among files:
//!
//! ```text
//!   first page of a file is missing ──near the last, twice more than not──▶ its group of 16 numbers, then 2, 4 groups around
//!        ▲                                                                        │ each eighth file is left out: a mark
//!        │                                                                        ▼
//!        └───────── a mark is missed: somebody came there, so more may be asked for; else nothing more is
//! ```
//!
//! What was read ahead is no miss, so nobody would tell where the reader is, nor whether it wants what it gets: that is what marks
//! are for. They are a sample of the files, and the cost test: eight marks may be out that nobody came to, and two more for
//! each that was come to. Each of them is waited for, so where nearly all are come to only one file in sixteen is left out. Only files of up to 256 KiB with the owner and mode of the one that was seen are read. Files are opened by number (ext4,
//! XFS, btrfs in the subvolume of the one that was seen), by workers, which do not wait for what they ask for. The upper half decides, its workers act; nothing is kept open.

use crate::mounted::{self, ByDevice, News};
use crate::names::Mounts;
use crate::payers::Charge;
use crate::subvolume::Subvolumes;
use crate::volumes::{self, Volume, Volumes};
use forerun_trace::assemble::FileId;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Processes that are looked at at once.
pub(crate) const TRAILS_MAX: usize = 256;
/// A program that opened nothing for so long is forgotten, nanoseconds.
const SILENT: u64 = 2_000_000_000;
/// How long the next file is waited for without a pause, nanoseconds.
const URGENT: u64 = 20_000_000;
/// Numbers apart that are near.
const NEAR: u64 = 16;
/// Files near the last one, less those that are not, before anything is asked for; and the most that counts.
const PROOF: u32 = 2;
const NEAR_MAX: u32 = 8;
/// Numbers of a group: what one block of inodes holds.
const GROUP: u64 = 16;
/// Most groups that are asked for at once: 64 files.
const BATCH_MAX: usize = 4;
/// Groups that are remembered as asked for.
const ASKED_MAX: usize = 4_096;
/// One file in so many is left out.
const MARK: u64 = 8;
/// The same for a reader that came to 32 of them, and to three of four that were set.
const MARK_SURE: u64 = 16;
const SURE: u32 = 32;
const SURE_PERCENT: u32 = 75;
/// Marks that may be out before one was come to: with four a tree whose folders are read here and there never gets further.
const OUT: u32 = 8;
/// Marks that may be set for each that was come to: where a third of small files is of use, the waits that are saved are worth the rest.
const PAYS: u32 = 3;
/// Marks after which all are halved, so that old ones count less.
const MARKS_MAX: u32 = 1_024;
/// Files that a program has opened without coming to a mark, after which it is told that it is let alone.
const LET_ALONE: u32 = 64;
/// Largest file that is read, bytes.
const FILE_MAX: u64 = 256 << 10;
/// Workers, and jobs that wait for one; beyond, files are left out.
const WORKERS: usize = 16;
const WAITING_MAX: usize = 64;
/// What workers are called, by which the kernel tells what they load.
pub(crate) const WORKER: &str = "forerun-beside";
/// Stack of a worker.
const STACK_BYTES: usize = 256 << 10;

/// A process on a file system.
#[derive(Debug, Default)]
struct Trail {
    seen: u64,
    last: u64,
    near: u32,
    /// Groups that were asked for, and files of them that were left out.
    asked: BTreeSet<u64>,
    marks: BTreeSet<u64>,
    batch: usize,
    /// Marks that were set, and come to.
    set: u32,
    hit: u32,
    /// Files opened since something was asked for, or come to.
    idle: u32,
    on: bool,
}

/// What is to be told of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Files beside those that it reads are read ahead.
    On,
    /// It does not read them.
    Off { hit: u32, set: u32 },
}

/// Files to be read.
#[derive(Debug)]
struct Job {
    volume: Arc<Volume>,
    /// A file like which they are to be.
    like: u64,
    inodes: Range<u64>,
    /// Those that are left out.
    marks_apart: u64,
    /// Whose wish it is, and who pays.
    reader: u32,
    charge: Charge,
}

/// What it came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmallFiles {
    /// Processes that were read ahead of.
    pub readers: u64,
    /// Numbers of files that were asked for.
    pub files: u64,
    /// Marks: files that were left out, to see whether a reader comes to them.
    pub marks: u64,
    /// How many of them a reader came to.
    pub marks_hit: u64,
}

/// Processes that read small files.
pub(crate) struct Neighbours {
    trails: BTreeMap<(u32, (u32, u32)), Trail>,
    volumes: ByDevice,
    charge: Charge,
    /// The workers, who are not made before there is something for them to do.
    jobs: Option<LazyCell<SyncSender<Job>>>,
    /// When a file was last opened by somebody who is, or may be, read ahead of.
    busy: u64,
    pub(crate) sums: SmallFiles,
}

impl Trail {
    /// A file was opened whose beginning was not there; the groups that are to be asked for now, without one file in [`Trail::apart`].
    fn open(&mut self, inode: u64, marks_apart: u64) -> Vec<u64> {
        let apart = inode.abs_diff(std::mem::replace(&mut self.last, inode));
        if self.marks.remove(&inode) {
            self.hit += 1;
            self.idle = 0;
            self.near = (self.near + 2).min(NEAR_MAX);
        } else if apart <= NEAR && apart > 0 {
            self.near = (self.near + 1).min(NEAR_MAX);
        } else {
            self.near = self.near.saturating_sub(1);
        }
        self.idle += 1;
        let left = self.left(marks_apart);
        if self.near < PROOF || left == 0 {
            return Vec::new();
        }
        self.batch = (self.batch * 2).clamp(1, BATCH_MAX);
        let group = inode / GROUP;
        let ways = (0..=BATCH_MAX as u64).flat_map(|far| [group.checked_add(far), group.checked_sub(far)]);
        let mut wanted: Vec<u64> = Vec::new();
        for group in ways.flatten().filter(|group| !self.asked.contains(group)) {
            if wanted.len() < self.batch.min(left as usize) && !wanted.contains(&group) {
                wanted.push(group);
            }
        }
        for &group in &wanted {
            self.ask(group, marks_apart);
        }
        wanted
    }

    /// Groups that may still be asked for: what was come to pays for what is out.
    const fn left(&self, marks_apart: u64) -> u32 {
        (OUT + PAYS * self.hit).saturating_sub(self.set) / (GROUP / marks_apart) as u32
    }

    /// What it opens next may be one to ask for more by.
    const fn is_hopeful(&self) -> bool {
        self.near >= PROOF && self.left(self.apart()) > 0
    }

    /// One file in so many is left out.
    const fn apart(&self) -> u64 {
        let is_sure = self.hit >= SURE && self.hit * 100 >= self.set * SURE_PERCENT;
        if is_sure { MARK_SURE } else { MARK }
    }

    /// Notes a group and its marks.
    fn ask(&mut self, group: u64, apart: u64) {
        self.idle = 0;
        self.asked.insert(group);
        let marks = numbers(group).filter(|inode| inode.is_multiple_of(apart) && *inode != self.last);
        for mark in marks {
            self.set += u32::from(self.marks.insert(mark));
        }
        if self.asked.len() > ASKED_MAX {
            // Those that are furthest down: a tree is read on, more often than back.
            self.asked.pop_first();
            self.marks.pop_first();
        }
        if self.set > MARKS_MAX {
            (self.set, self.hit) = (self.set / 2, self.hit / 2);
        }
    }

    /// What is to be told: that it begins, or that nobody came to what was left out.
    fn turn(&mut self, asked: bool) -> Option<Turn> {
        if asked && !self.on {
            self.on = true;
            return Some(Turn::On);
        }
        if self.on && self.idle > LET_ALONE {
            self.on = false;
            return Some(Turn::Off { hit: self.hit, set: self.set });
        }
        None
    }
}

/// Numbers of a group.
const fn numbers(group: u64) -> Range<u64> {
    group * GROUP..(group + 1) * GROUP
}

impl Neighbours {
    /// With nobody known; with `observe` nothing is read.
    pub(crate) fn new(volumes: &Volumes, observe: bool, charge: &Charge) -> Self {
        Self {
            trails: BTreeMap::new(),
            volumes: mounted::by_number_beside(volumes),
            charge: charge.clone(),
            jobs: (!observe).then_some(LazyCell::new(workers)),
            busy: 0,
            sums: SmallFiles::default(),
        }
    }

    /// Other file systems are mounted.
    pub(crate) fn mounted(&mut self, news: &News) {
        self.volumes = mounted::by_number_beside(&news.volumes);
        self.trails.retain(|(_, device), _| !news.others.contains(device));
    }

    /// Processes that are looked at.
    pub(crate) fn trails(&self) -> usize {
        self.trails.len()
    }

    /// Somebody opens files faster than a pause is long, and may be read ahead of. Whoever came to none of what was left out is not: to look for each of
    /// its files at once costs a processor as much as a reader of small files does.
    pub(crate) const fn is_urgent(&self, now: u64) -> bool {
        now.saturating_sub(self.busy) < URGENT
    }

    /// The first page of a file was missing; what is to be told.
    pub(crate) fn opened(&mut self, time: u64, pid: u32, file: FileId) -> Option<Turn> {
        let device = (file.major, file.minor);
        let volume = self.volumes.get(&device)?;
        if self.trails.len() >= TRAILS_MAX && !self.trails.contains_key(&(pid, device)) {
            self.trails.retain(|_, trail| time.saturating_sub(trail.seen) < SILENT);
            if self.trails.len() >= TRAILS_MAX {
                return None;
            }
        }
        let trail = self.trails.entry((pid, device)).or_default();
        trail.seen = time;
        let (hit, set) = (trail.hit, trail.set);
        let marks_apart = trail.apart();
        let groups = trail.open(file.inode, marks_apart);
        self.sums.marks_hit += u64::from(trail.hit.saturating_sub(hit));
        self.sums.marks += u64::from(trail.set.saturating_sub(set));
        self.sums.files += groups.len() as u64 * GROUP;
        if trail.is_hopeful() || !groups.is_empty() {
            self.busy = time;
        }
        let turn = trail.turn(!groups.is_empty());
        self.sums.readers += u64::from(turn == Some(Turn::On));
        if let Some(jobs) = &self.jobs {
            for group in groups {
                let (volume, charge) = (Arc::clone(volume), self.charge.clone());
                let inodes = numbers(group);
                let job = Job { volume, like: file.inode, inodes, marks_apart, reader: pid, charge };
                // Where all are busy the reader is as fast as we are.
                drop(jobs.try_send(job));
            }
        }
        turn
    }
}

fn workers() -> SyncSender<Job> {
    let (jobs, queue) = sync_channel(WAITING_MAX);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..WORKERS {
        let queue = Arc::clone(&queue);
        let named = std::thread::Builder::new().name(WORKER.into()).stack_size(STACK_BYTES);
        // With fewer workers less is in flight.
        drop(named.spawn(move || work(&queue)));
    }
    jobs
}

fn work(queue: &Mutex<Receiver<Job>>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        read(&job);
    }
}

/// Asks for whole files that are like one.
fn read(job: &Job) {
    let device = (job.volume.device.major(), job.volume.device.minor());
    let has_subvolumes = job.volume.has_subvolumes();
    let subvolumes = has_subvolumes.then(|| Subvolumes::of(device, &Mounts::of_this_process()));
    // Its first page is being loaded, by which it is told from its namesakes.
    let subvolume = subvolumes.as_ref().and_then(|all| all.holding(job.like));
    let open = |inode: u64| match &subvolume {
        Some(of) => of.open(inode),
        None if has_subvolumes => None,
        None => volumes::open_number(&job.volume, inode, None).ok(),
    };
    let kind = |inode: u64| {
        let file = fs::File::from(open(inode)?);
        let data = file.metadata().ok()?;
        Some((file, (data.uid(), data.gid(), data.mode()), data.len()))
    };
    let Some((_, like, _)) = kind(job.like) else { return };
    let bill = job.charge.bill(job.reader);
    let is_left_out = |inode: u64| inode == job.like || inode.is_multiple_of(job.marks_apart);
    for inode in job.inodes.clone().filter(|inode| !is_left_out(*inode)) {
        let Some((file, of, bytes)) = kind(inode) else { continue };
        if of == like && (1..=FILE_MAX).contains(&bytes) {
            // What cannot be read here is a later miss of the reader, who is told why.
            drop(bill.readahead(file.as_fd(), &[(0, bytes)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    /// Opens files by number as a program that reads all of them would: what was asked for is missed only if it is a mark.
    fn walk(trail: &mut Trail, inodes: impl IntoIterator<Item = u64>) -> (u64, u64, Vec<Turn>) {
        let (mut missed, mut asked, mut turns) = (0, BTreeSet::new(), Vec::new());
        let mut left_out = BTreeSet::new();
        for inode in inodes {
            if asked.contains(&inode) && !left_out.contains(&inode) {
                continue;
            }
            missed += 1;
            let marks_apart = trail.apart();
            let groups = trail.open(inode, marks_apart);
            turns.extend(trail.turn(!groups.is_empty()));
            let numbers: Vec<u64> = groups.into_iter().flat_map(numbers).collect();
            left_out.extend(numbers.iter().copied().filter(|inode| inode.is_multiple_of(marks_apart)));
            asked.extend(numbers);
        }
        (missed, asked.len() as u64, turns)
    }

    #[test]
    fn files_in_the_order_of_their_numbers_are_asked_for_and_one_in_eight_is_missed_then_one_in_sixteen() {
        let mut trail = Trail::default();
        let (missed, asked, turns) = walk(&mut trail, 1_000..5_000);
        assert!((270..300).contains(&missed), "{missed}");
        assert!((3_900..4_200).contains(&asked), "{asked}");
        assert_eq!((trail.batch, turns), (BATCH_MAX, vec![Turn::On]));
    }

    #[test]
    fn folders_in_any_order_are_as_good() {
        let mut trail = Trail::default();
        // 37 folders of 11 folders of 10 files each, all of them in some order.
        let files = |folder: u64| (0..10).map(move |file| 1_000 + folder * 11 + file * 7 % 10);
        let folders = (0..37).flat_map(|top| (0..11).map(move |sub| top * 15 % 37 * 11 + sub * 4 % 11));
        let (missed, asked, _) = walk(&mut trail, folders.flat_map(files));
        assert!(missed < 1_400, "{missed} of 4,070");
        assert!(asked < 5_000, "{asked}");
    }

    #[test]
    fn who_comes_to_two_of_three_that_are_left_out_misses_no_fewer_of_them() {
        let of = |set, hit| Trail { set, hit, ..Trail::default() }.apart();
        assert_eq!([of(0, 0), of(31, 31), of(48, 32), of(40, 32), of(900, 700)], [8, 8, 8, 16, 16]);
    }

    #[test]
    fn a_program_that_reads_one_file_of_many_costs_a_few_and_is_let_alone() {
        let mut trail = Trail::default();
        // Three near each other, and then far away.
        let places = (0..400).flat_map(|k| [k * 500 + 1, k * 500 + 3, k * 500 + 5]);
        let (missed, asked, turns) = walk(&mut trail, places);
        assert!(missed > 1_190, "{missed}");
        assert!(asked <= 128, "{asked}");
        assert!(matches!(turns[..], [Turn::On, Turn::Off { hit: 0, .. }]), "{turns:?}");
    }

    #[test]
    fn who_may_be_asked_for_is_looked_at_at_once_and_who_has_no_credit_left_is_not() {
        let mut reads_all = Trail::default();
        walk(&mut reads_all, 1_000..2_000);
        let mut imports = Trail::default();
        // Near each other, and none of them is one that was left out.
        walk(&mut imports, (0..200).map(|k| k * 16 + 1));
        assert!(imports.near >= PROOF, "by its numbers alone it might be");
        assert_eq!([reads_all.is_hopeful(), imports.is_hopeful()], [true, false]);
    }

    #[test]
    fn files_that_are_far_apart_are_no_neighbours() {
        let mut trail = Trail::default();
        assert_eq!(walk(&mut trail, (0..500).map(|k| k * 40)), (500, 0, vec![]));
    }

    #[test]
    fn only_small_files_of_the_same_owner_and_mode_are_read() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let make = |name: &str, bytes: usize| {
            let path = root.path().join(name);
            fs::write(&path, vec![1; bytes]).expect("room on disk");
            let file = fs::File::open(&path).expect("just written");
            file.sync_all().expect("room on disk");
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            file
        };
        let files = [("a", 9_000), ("b", 9_000), ("large", 300 << 10), ("other", 9_000)];
        let files = files.map(|(name, bytes)| make(name, bytes));
        fs::set_permissions(root.path().join("other"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("ours");
        let Some(volume) = Volumes::now().holding(root.path()) else { return };
        let inodes = files.each_ref().map(|file| file.metadata().expect("open").ino());
        if !volume.finds_by_inode() || volumes::open_number(&volume, inodes[0], None).is_err() {
            return; // not ext4, or not root
        }
        if files.iter().any(|file| sys::cached(file.as_fd(), 0, 1 << 20).unwrap_or(1) > 0) {
            return; // what cannot be dropped is no test
        }
        let like = inodes[0];
        for inode in inodes {
            // One job for each: their numbers need not follow each other.
            let (volume, charge) = (Arc::new(volume.clone()), Charge::default());
            let inodes = inode..inode + 1;
            read(&Job { volume, like, inodes, marks_apart: MARK, reader: 1, charge });
        }
        let here = files.each_ref().map(|file| sys::cached(file.as_fd(), 0, 1 << 20).unwrap_or(0) > 0);
        assert_eq!(
            here,
            [false, !inodes[1].is_multiple_of(MARK), false, false],
            "the first is the example, not read"
        );
    }
}
