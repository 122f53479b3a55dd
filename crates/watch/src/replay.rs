//! Reads ahead what a manifest knows, beside the run that will ask for it.
//!
//! One feeder for each file system, each with a thread that decides what comes next and workers that ask the device for it
//! and wait for the last page of each request, which bounds what is in flight (`pace.rs`) and is how the device is learnt.
//!
//! ```text
//!   metadata, sorted, through the block device ─▶ (xfs, btrfs: open all) ─▶ pages of files
//!                                                   rotating: 32 MiB of first touches, then 64 at a time, in the order of the disk
//!                                                   else: 32 MiB at a time, what most recordings saw first, and in the
//!                                                   order of first touch, each with what lies beside it on the device
//! ```
//!
//! Small files cost calls and requests, not bytes. So what one worker asks for at a time is as much as one request may have, of however many
//! files, in the order of the device: what lies side by side there goes out as one request ([`sys::Together`]), and only its end is waited for.
//!
//! What is issued and not yet touched is bounded ([`AHEAD_PAGES`]): a manifest of something else loads that much and stops. A
//! file that is not the one that was recorded is skipped. Nothing is written, nothing evicted, and no descriptor outlives a request.

use crate::crew::{Crew, Work};
use crate::layers;
use crate::ledger::{Ledger, Sums};
use crate::load;
use crate::pace::Depth;
use crate::pages;
use crate::payers::Bill;
use crate::pressure::Gate;
use crate::sys;
use crate::volumes::{self, Volume, Volumes};
use forerun_manifest::{File, Manifest, Run, Stale};
use forerun_trace::assemble::FileId;
use pieces::{Part, Piece, cut, join, joined_pages, request_pages, requests, together};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use unread::Troubles;

mod alone;
mod pieces;
mod unread;

pub use alone::{Alone, replay};
pub use unread::Unread;

/// Pages that may be issued and untouched: 32 MiB.
pub const AHEAD_PAGES: u64 = 8_192;
/// On a rotating disk, once a sixteenth of what was issued was touched: two batches.
const AHEAD_PAGES_ROTATING: u64 = 2 * BATCH_PAGES;
/// Pages that are sorted by their place at a time on a rotating disk: 64 MiB. The first of them are no more than may be unread before
/// anything was touched: if a larger batch stopped there, its reader would come to what lies in the other half of the disk alone.
const BATCH_PAGES: u64 = 16_384;
const BATCH_PAGES_FIRST_ROTATING: u64 = AHEAD_PAGES;
/// The same elsewhere: what may be unread, since that bounds how much earlier than it is wanted anything is loaded.
const BATCH_PAGES_SOLID: u64 = AHEAD_PAGES;
/// The first of them, which is on its way while the places of the next are looked up: 1 MiB.
const BATCH_PAGES_FIRST: u64 = 256;
/// Requests in flight at most: what the block layer queues, and what a disk sorts.
const DEPTH_MAX: u32 = 128;
const DEPTH_MAX_ROTATING: u32 = 16;
/// Requests that are looked at before a replay of what is in memory already is given up.
const SAMPLES: usize = 48;
/// What `verdicts` say beside the reasons of [`Stale`].
const UNKNOWN: u8 = 0;
const FRESH: u8 = 1;
const REFUSED: u8 = 6;

/// What one worker does at a time.
#[derive(Clone, Debug)]
enum Job {
    /// Pages of the block device.
    Metadata(Vec<Part>),
    /// Only opens: that loads its inode.
    Open(usize),
    /// Pages of files.
    Data(Vec<Piece>),
}

impl Job {
    /// Commands of a disk that turns: what lies side by side is one.
    fn commands(&self) -> u32 {
        let gaps = |pieces: &[Piece]| pieces.windows(2).filter(|two| !two[0].touches(&two[1])).count();
        match self {
            Self::Metadata(_) | Self::Open(_) => 1,
            // At most as many as there are places.
            Self::Data(pieces) => 1 + gaps(pieces) as u32,
        }
    }

    /// As how many requests of so many pages it counts among those in flight.
    fn requests(&self, pages: u64) -> u32 {
        match self {
            Self::Metadata(_) | Self::Open(_) => 1,
            Self::Data(pieces) => {
                let all: u64 = pieces.iter().map(|piece| piece.part.end - piece.part.first).sum();
                u32::try_from(all.div_ceil(pages)).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

/// What one file system's thread works through.
#[derive(Debug)]
struct Feeder {
    volume: Volume,
    metadata: Vec<Part>,
    /// Numbers of files, in order.
    files: Vec<usize>,
    /// File and part, in the order in which they are to be read, requests' sizes kept.
    parts: Vec<(usize, Part)>,
}

/// Whether touches are seen, so that a replay stays close before its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pacing {
    On,
    Off,
}

/// What all threads see.
#[derive(Debug)]
struct Shared {
    files: Vec<File>,
    ledger: Arc<Ledger>,
    stop: AtomicBool,
    verdicts: Vec<AtomicU8>,
    /// Files of which something was asked for, or was in memory.
    reached: Vec<AtomicBool>,
    requests: AtomicU64,
    metadata_requests: AtomicU64,
    metadata_pages: AtomicU64,
    here: AtomicU64,
    untold: AtomicU64,
    paced: AtomicBool,
    pacing: Pacing,
    /// What it reads of a file system is not seen to be used.
    is_unseen: bool,
    troubles: Troubles,
    /// Pages that the memory of the cgroup allows in flight, or issued and unread.
    window: u64,
    /// Less, where memory is short.
    gate: Arc<Gate>,
    bill: Bill,
}

/// A replay under way.
#[derive(Debug)]
pub(crate) struct Replay {
    shared: Arc<Shared>,
    feeders: Vec<JoinHandle<()>>,
    /// Nobody sends: it is closed when the last feeder has ended.
    ended: Receiver<Infallible>,
    systems: Vec<Option<FileId>>,
    pub(crate) rotating: bool,
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Pages of files and of metadata that were asked of devices.
    pub pages: u64,
    /// Those of them that were touched; metadata is not seen to be touched and does not count.
    pub used: u64,
    /// Pages of metadata among them.
    pub metadata_pages: u64,
    /// Requests for metadata.
    pub metadata_requests: u64,
    /// Requests in all.
    pub requests: u64,
    /// Pages that were in memory already.
    pub here: u64,
    /// Pages that were asked for and of which the kernel does not tell whether they were: of others' files, and before Linux 6.5.
    pub untold: u64,
    /// Files that were opened and are what was recorded.
    pub files: u64,
    /// Files that are not, by reason: gone, another file, another size, changed.
    pub stale: [u64; 4],
    /// Files that this user cannot open, as they are or not.
    pub refused: u64,
    /// It was held back at least once because too much had not been touched.
    pub paced: bool,
}

impl Replayed {
    /// Files that were not what was recorded.
    #[must_use]
    pub fn stale_files(&self) -> u64 {
        self.stale.iter().sum()
    }
}

/// What a replay may use, and who pays for it.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pub(crate) gate: Arc<Gate>,
    /// Pages that may be issued and untouched.
    pub(crate) window: u64,
    pub(crate) bill: Bill,
    /// Touches are not told, and looked for in memory (`frames.rs`).
    pub(crate) by_frames: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self { gate: Arc::default(), window: load::window_pages(), bill: Bill::default(), by_frames: false }
    }
}

/// A replay that has not begun.
pub(crate) struct Planned {
    shared: Arc<Shared>,
    feeders: Vec<Feeder>,
    systems: Vec<Option<FileId>>,
    rotating: bool,
}

impl Planned {
    /// Plans a manifest.
    pub(crate) fn new(manifest: &Manifest, volumes: &Volumes, pacing: Pacing, budget: &Budget) -> Self {
        let meant: Vec<Option<&Volume>> = manifest.file_systems.iter().map(|fs| volumes.meant(fs)).collect();
        let mut ledger = Ledger::default();
        let mut feeders: Vec<Option<Feeder>> = meant.iter().map(|volume| volume.map(Feeder::new)).collect();
        for (fs, feeder) in manifest.file_systems.iter().zip(&mut feeders) {
            if let Some(feeder) = feeder.as_mut().filter(|feeder| feeder.volume.has_metadata_pages()) {
                let at = ledger.add(feeder.volume.metadata_file(), &fs.metadata, false);
                feeder.take_metadata(at, &fs.metadata);
            }
        }
        for (number, file) in manifest.files.iter().enumerate() {
            if let Some(Some(feeder)) = feeders.get_mut(file.file_system as usize) {
                let id = FileId { inode: file.inode, ..feeder.volume.metadata_file() };
                let at = ledger.add(id, &file.runs, true);
                feeder.take_file(number, at, &file.runs);
            }
        }
        ledger.seal();
        if budget.by_frames {
            ledger.tell_asked();
        }
        let mut feeders: Vec<Feeder> = feeders.into_iter().flatten().collect();
        feeders.iter_mut().for_each(|feeder| feeder.put_in_order(manifest));
        let largest = feeders.iter().max_by_key(|feeder| feeder.parts.len());
        let rotating = largest.is_some_and(|feeder| feeder.volume.rotational);
        let is_unseen = feeders.iter().any(|feeder| is_unseen(&feeder.volume.kind));
        let shared = Arc::new(Shared { is_unseen, ..Shared::new(manifest, ledger, pacing, budget) });
        let device = |volume: &Volume| FileId { inode: 0, ..volume.metadata_file() };
        let systems = meant.iter().map(|volume| volume.map(device)).collect();
        Self { shared, feeders, systems, rotating }
    }

    /// Whether samples of everything are in memory already, and nothing among them has changed. Only where metadata can be looked for
    /// first: else to open a file may take long, and the command waits.
    pub(crate) fn is_here(&self) -> bool {
        let here = |feeder: &Feeder| feeder.volume.has_metadata_pages() && feeder.is_here(&self.shared);
        !self.feeders.is_empty()
            && self.feeders.iter().all(here)
            && self.shared.verdicts.iter().all(|verdict| verdict.load(Ordering::Relaxed) <= FRESH)
    }

    /// Begins.
    pub(crate) fn start(self) -> Replay {
        let Self { shared, feeders, systems, rotating } = self;
        let (at_work, ended) = mpsc::channel();
        let start = |feeder: Feeder| {
            let (shared, at_work) = (Arc::clone(&shared), at_work.clone());
            let named = std::thread::Builder::new().name("forerun-replay".into());
            let drive = move || {
                feeder.drive(&shared);
                drop(at_work);
            };
            named.spawn(drive).ok()
        };
        let feeders = feeders.into_iter().filter_map(start).collect();
        Replay { shared, feeders, ended, systems, rotating }
    }
}

impl Replay {
    /// The bits, for the part that sees touches.
    pub(crate) fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.shared.ledger)
    }

    /// The run has ended: nothing more is begun. What is in flight is not waited for.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
    }

    /// Waits until everything is loaded.
    pub(crate) fn finish(&mut self) {
        for feeder in self.feeders.drain(..) {
            drop(feeder.join());
        }
    }

    /// Whether everything has been begun, as soon as it has, or after so long.
    fn is_over_within(&self, longest: Duration) -> bool {
        self.ended.recv_timeout(longest) == Err(RecvTimeoutError::Disconnected)
    }

    /// Whether what it reads of a file system is not seen to be used.
    pub(crate) fn is_unseen(&self) -> bool {
        self.shared.is_unseen
    }

    /// What it did so far.
    pub(crate) fn sums(&self) -> Replayed {
        let shared = &self.shared;
        let Sums { issued, used } = shared.ledger.sums();
        let count = |wanted: u8| {
            let is = |verdict: &&AtomicU8| verdict.load(Ordering::Relaxed) == wanted;
            shared.verdicts.iter().filter(is).count() as u64
        };
        Replayed {
            pages: issued,
            used,
            metadata_pages: shared.metadata_pages.load(Ordering::Relaxed),
            metadata_requests: shared.metadata_requests.load(Ordering::Relaxed),
            requests: shared.requests.load(Ordering::Relaxed),
            here: shared.here.load(Ordering::Relaxed),
            untold: shared.untold.load(Ordering::Relaxed),
            files: count(FRESH),
            stale: REASONS.map(|reason| count(code(reason))),
            refused: count(REFUSED),
            paced: shared.paced.load(Ordering::Relaxed),
        }
    }

    /// The entries that stand, without their runs, and the numbers of those that are not what was recorded. One that was not looked at, or
    /// could not be, stands too: if its file has changed, the next replay looks.
    pub(crate) fn verdicts(&self) -> (BTreeMap<FileId, File>, BTreeSet<usize>) {
        let (mut fresh, mut stale) = (BTreeMap::new(), BTreeSet::new());
        for (number, (file, verdict)) in self.shared.files.iter().zip(&self.shared.verdicts).enumerate() {
            match verdict.load(Ordering::Relaxed) {
                UNKNOWN | FRESH | REFUSED => {
                    if let Some(Some(system)) = self.systems.get(file.file_system as usize) {
                        fresh.insert(FileId { inode: file.inode, ..*system }, file.clone());
                    }
                }
                _ => {
                    stale.insert(number);
                }
            }
        }
        (fresh, stale)
    }
}

/// Whether nothing tells what is used of a file system: the events of an overlay are of the files below it.
fn is_unseen(kind: &str) -> bool {
    kind == layers::KIND
}

/// In the order of [`Replayed::stale`].
const REASONS: [Stale; 4] = [Stale::Gone, Stale::Generation, Stale::Size, Stale::Changed];

const fn code(reason: Stale) -> u8 {
    match reason {
        Stale::Gone => 2,
        Stale::Generation => 3,
        Stale::Size => 4,
        Stale::Changed => 5,
        Stale::Denied | Stale::Unnamed => REFUSED,
    }
}

impl Drop for Replay {
    /// Whoever no longer waits for it wants nothing more of it.
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn new(manifest: &Manifest, ledger: Ledger, pacing: Pacing, budget: &Budget) -> Self {
        let bare = |file: &File| File { runs: Vec::new(), ..file.clone() };
        Self {
            files: manifest.files.iter().map(bare).collect(),
            ledger: Arc::new(ledger),
            stop: AtomicBool::new(false),
            verdicts: manifest.files.iter().map(|_| AtomicU8::new(UNKNOWN)).collect(),
            reached: manifest.files.iter().map(|_| AtomicBool::new(false)).collect(),
            requests: AtomicU64::new(0),
            metadata_requests: AtomicU64::new(0),
            metadata_pages: AtomicU64::new(0),
            here: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            paced: AtomicBool::new(false),
            pacing,
            is_unseen: false,
            troubles: Troubles::default(),
            window: budget.window,
            gate: Arc::clone(&budget.gate),
            bill: budget.bill.clone(),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Opens a file for its entry, and remembers what came of it; `root` is that of its file system.
    fn open(&self, volume: &Volume, root: Option<&OwnedFd>, number: usize) -> Option<OwnedFd> {
        let verdict = &self.verdicts[number];
        if verdict.load(Ordering::Relaxed) > FRESH {
            return None;
        }
        match volumes::open_below(volume, root.map(OwnedFd::as_fd), &self.files[number]) {
            Ok(Ok(opened)) => {
                verdict.store(FRESH, Ordering::Relaxed);
                Some(opened.file)
            }
            Ok(Err(reason)) => {
                verdict.store(code(reason), Ordering::Relaxed);
                None
            }
            // Too much is open just now: the reader reads this one.
            Err(_) => None,
        }
    }

    /// Does one job; returns the pages that were asked of the device.
    fn work(&self, volume: &Volume, job: Job) -> u64 {
        match job {
            Job::Metadata(parts) => {
                let device = volume.block_device.as_deref();
                let Some(Ok(device)) = device.map(|at| sys::open(at, libc::O_RDONLY)) else { return 0 };
                let device = Arc::new(device);
                let pages = self.read(parts.into_iter().map(|part| (Arc::clone(&device), part)).collect());
                self.metadata_requests.fetch_add(u64::from(pages > 0), Ordering::Relaxed);
                self.metadata_pages.fetch_add(pages, Ordering::Relaxed);
                pages
            }
            Job::Open(number) => {
                drop(self.open(volume, None, number));
                0
            }
            Job::Data(pieces) => {
                let root = volumes::root(volume).ok();
                let mut last: Option<(usize, Arc<OwnedFd>)> = None;
                let open = |piece: Piece| {
                    let known = last.as_ref().filter(|(number, _)| *number == piece.number);
                    let known = known.map(|(_, file)| Arc::clone(file));
                    let opened = || self.open(volume, root.as_ref(), piece.number).map(Arc::new);
                    let file = known.or_else(opened)?;
                    self.reached[piece.number].store(true, Ordering::Relaxed);
                    last = Some((piece.number, Arc::clone(&file)));
                    Some((file, piece.part))
                };
                let opened = pieces.into_iter().filter_map(open).collect();
                drop(last);
                self.read(opened)
            }
        }
    }

    /// Reads parts ahead, and waits for the last page of the last; returns the pages that were asked of the device.
    fn read(&self, mut parts: Vec<(Arc<OwnedFd>, Part)>) -> u64 {
        parts.retain(|(file, part)| {
            let pages = part.end - part.first;
            // A page that is counted may have failed to be read. Whoever is read ahead of finds that himself; it is not worth a call, nor a wait for what is on its way.
            let told = cached(file, part);
            self.untold.fetch_add(if told.is_none() { pages } else { 0 }, Ordering::Relaxed);
            let here = told == Some(true) && (self.pacing == Pacing::On || self.is_read(file, part));
            self.here.fetch_add(if here { pages } else { 0 }, Ordering::Relaxed);
            !here && self.ledger.issue(part.stretch, part.first, part.end)
        });
        let bytes = |part: &Part| (part.first * 4096, (part.end - part.first) * 4096);
        let asked = parts.iter().map(|(_, part)| part.end - part.first).sum();
        let told: Vec<Part> = parts.iter().map(|(_, part)| *part).collect();
        let each = parts.iter().map(|(file, part)| (file.as_fd(), bytes(part).0, bytes(part).1));
        let paid = self.bill.is_of_another();
        // Not every kernel lets another process ask for what is mapped here.
        let together = |all: &sys::Together| !paid || self.bill.readahead_together(all).is_ok();
        let all = if parts.len() > 1 { sys::Together::of(each.clone()).ok().filter(together) } else { None };
        if all.is_none() {
            // One, or a file system that maps nothing. What cannot be read here is a later miss of the reader, who is told why.
            each.for_each(|(file, offset, bytes)| drop(self.bill.readahead(file, &[(offset, bytes)])));
        }
        let Some((file, part)) = self.last(&mut parts) else { return 0 };
        // The device may be full for a while: until then nothing is kept open but what is mapped.
        drop(parts);
        if let Some(all) = all.filter(|_| !paid) {
            drop(all.readahead());
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.ledger.tells_asked() {
            let now = sys::now();
            told.iter().for_each(|part| self.ledger.was_asked(now, part.stretch, part.first, part.end));
        }
        if self.ledger.tells_asked() && part.end - part.first == 1 {
            drop(pages::until_here(file.as_fd(), part.first));
        } else {
            self.is_read(&file, &part);
        }
        asked
    }

    /// Waits for the last page of a part. What cannot be read is told where nobody else will read it.
    fn is_read(&self, file: &OwnedFd, part: &Part) -> bool {
        let read = rustix::io::pread(file, &mut [0_u8], (part.end - 1) * 4096);
        if let Err(problem) = read
            && self.pacing == Pacing::Off
        {
            self.troubles.note(file, part.end - part.first, problem.into());
        }
        read.is_ok()
    }

    /// The part that is waited for: the last, but none whose only page is looked at.
    fn last(&self, parts: &mut Vec<(Arc<OwnedFd>, Part)>) -> Option<(Arc<OwnedFd>, Part)> {
        let is_long = |(_, part): &(Arc<OwnedFd>, Part)| part.end - part.first > 1;
        let long = parts.iter().rposition(is_long).filter(|_| self.ledger.tells_asked());
        if let Some(at) = long { Some(parts.remove(at)) } else { parts.pop() }
    }

    /// Whether the reader has all of it already.
    fn is_late(&self, part: &Part) -> bool {
        self.ledger.is_touched(part.stretch, part.first, part.end)
    }

    /// Pages that may be issued and untouched now.
    fn ahead_max(&self, volume: &Volume) -> u64 {
        if self.pacing == Pacing::Off || is_unseen(&volume.kind) {
            return u64::MAX;
        }
        if !volume.rotational {
            return self.gate.share(AHEAD_PAGES.min(self.window));
        }
        // In the order of the disk much is unread for long. That some of it is used tells the manifest is right.
        let Sums { issued, used } = self.ledger.sums();
        let ahead = if used * 16 >= issued { AHEAD_PAGES_ROTATING } else { AHEAD_PAGES };
        self.gate.share(ahead.min(self.window))
    }
}

/// What the workers of a file system's feeder do.
struct OnVolume {
    shared: Arc<Shared>,
    volume: Volume,
}

impl Work for OnVolume {
    type Job = Job;

    fn stopped(&self) -> bool {
        self.shared.stopped()
    }

    fn unread(&self) -> u64 {
        self.shared.ledger.unread()
    }

    fn held_back(&self) {
        self.shared.paced.store(true, Ordering::Relaxed);
    }

    fn commands(&self, job: &Job) -> u32 {
        if self.volume.rotational { job.commands() } else { 0 }
    }

    fn requests(&self, job: &Job) -> u32 {
        job.requests(request_pages(&self.volume))
    }

    fn work(&self, job: Job) -> u64 {
        self.shared.work(&self.volume, job)
    }
}

impl Feeder {
    fn new(volume: &Volume) -> Self {
        Self { volume: volume.clone(), metadata: Vec::new(), files: Vec::new(), parts: Vec::new() }
    }

    fn take_metadata(&mut self, at: usize, runs: &[Run]) {
        let pages = request_pages(&self.volume);
        self.metadata.extend(runs.iter().zip(at..).flat_map(|(run, stretch)| cut(stretch, run, pages)));
    }

    fn take_file(&mut self, number: usize, at: usize, runs: &[Run]) {
        let pages = request_pages(&self.volume);
        self.files.push(number);
        let parts = runs.iter().zip(at..).flat_map(|(run, stretch)| cut(stretch, run, pages));
        self.parts.extend(parts.map(|part| (number, part)));
    }

    /// What most recordings saw first, then in the order of first touch. On a rotating disk only the latter: sorting by place
    /// comes with each batch.
    fn put_in_order(&mut self, manifest: &Manifest) {
        let key = |&(number, part): &(usize, Part)| {
            let runs = &manifest.files[number].runs;
            let at = runs.partition_point(|run| run.end() <= part.first).min(runs.len() - 1);
            let rare = !self.volume.rotational && runs[at].seen * 2 < manifest.recordings;
            (rare, runs[at].rank, number, part.first)
        };
        self.parts.sort_by_cached_key(key);
    }

    /// Works through it.
    fn drive(self, shared: &Arc<Shared>) {
        let max = if self.volume.rotational { DEPTH_MAX_ROTATING } else { DEPTH_MAX };
        let (pages, joined) = (request_pages(&self.volume), joined_pages(&self.volume));
        let max = u32::try_from(shared.window / pages).map_or(max, |fits| max.min(fits.max(1)));
        // Who waits until all is in memory is not served by samples.
        if shared.stopped() || shared.pacing == Pacing::On && self.is_here(shared) {
            return;
        }
        let does = OnVolume { shared: Arc::clone(shared), volume: self.volume.clone() };
        let crew = Crew::new(does, Depth::new(max, self.volume.rotational, sys::now()));
        for parts in together(self.metadata.iter().copied(), pages, |part| part, |_, _| true) {
            crew.push(Job::Metadata(parts), u64::MAX);
        }
        crew.drain();
        if !self.volume.has_metadata_pages() {
            self.files.iter().for_each(|&number| crew.push(Job::Open(number), u64::MAX));
            crew.drain();
        }
        let (first, later) = batches(self.volume.rotational);
        let (mut rest, mut batch_pages) = (&self.parts[..], first);
        while !rest.is_empty() && !shared.stopped() {
            let (batch, after) = rest.split_at(batch_length(rest, batch_pages));
            (rest, batch_pages) = (after, later);
            let mut ready = requests(self.in_place(batch, shared), pages, self.volume.rotational).into_iter();
            while let Some(mut pieces) = ready.next() {
                // The reader may have come further than we: what it passed is not worth a call.
                pieces.retain(|piece| !shared.is_late(&piece.part));
                while crew.is_deep()
                    && ready.as_slice().first().is_some_and(|next| join(&mut pieces, next, joined))
                {
                    ready.next();
                }
                if !pieces.is_empty() {
                    crew.push(Job::Data(pieces), shared.ahead_max(&self.volume));
                }
            }
        }
        crew.drain();
    }

    /// Whether samples of everything are in memory already. The first that is not ends the search, so it costs little.
    fn is_here(&self, shared: &Shared) -> bool {
        if !self.metadata.is_empty() {
            let device = self.volume.block_device.as_deref().map(|at| sys::open(at, libc::O_RDONLY));
            let Some(Ok(device)) = device else { return false };
            let every = self.metadata.len().div_ceil(SAMPLES);
            let here = |part: &Part| cached(&device, part) == Some(true);
            if !self.metadata.iter().step_by(every).all(here) {
                return false;
            }
        }
        let every = self.parts.len().div_ceil(SAMPLES).max(1);
        let here = |(number, part): &(usize, Part)| {
            shared.open(&self.volume, None, *number).is_none_or(|file| cached(&file, part) == Some(true))
        };
        let all = self.parts.iter().step_by(every).all(here);
        if all {
            let pages = self.parts.iter().map(|(_, part)| part.end - part.first).sum();
            shared.here.fetch_add(pages, Ordering::Relaxed);
        }
        all
    }

    /// A batch in the order in which it lies on the device, as far as that tells; else in its own.
    fn in_place(&self, batch: &[(usize, Part)], shared: &Shared) -> Vec<Piece> {
        let root = volumes::root(&self.volume).ok();
        let piece = |(rank, &(number, part)): (usize, &_)| Piece { number, part, rank, place: u64::MAX };
        let mut by_file: Vec<Piece> = batch.iter().enumerate().map(piece).collect();
        by_file.sort_by_key(|piece| (piece.number, piece.part.first));
        let mut placed: Vec<Piece> = Vec::with_capacity(batch.len());
        for parts in by_file.chunk_by(|a, b| a.number == b.number) {
            if shared.stopped() {
                break;
            }
            if parts.iter().all(|piece| shared.is_late(&piece.part)) {
                continue;
            }
            let Some(file) = shared.open(&self.volume, root.as_ref(), parts[0].number) else { continue };
            let (first, end) = (parts[0].part.first, parts[parts.len() - 1].part.end);
            let extents = sys::first_extents(file.as_fd(), first * 4096, (end - first) * 4096);
            let extents = extents.unwrap_or_default();
            let place = |part: &Part| {
                let at = part.first * 4096;
                let holding = extents.iter().find(|e| e.logical <= at && at < e.logical + e.length);
                holding.map_or(u64::MAX, |e| e.physical + at - e.logical)
            };
            placed.extend(parts.iter().map(|piece| Piece { place: place(&piece.part), ..*piece }));
        }
        placed.sort_by_key(|piece| (piece.place, piece.rank));
        placed
    }
}

/// Pages of the first batch and of those after it.
const fn batches(rotational: bool) -> (u64, u64) {
    if rotational {
        (BATCH_PAGES_FIRST_ROTATING, BATCH_PAGES)
    } else {
        (BATCH_PAGES_FIRST, BATCH_PAGES_SOLID)
    }
}

/// How many parts make a batch.
fn batch_length(parts: &[(usize, Part)], pages_max: u64) -> usize {
    let mut pages = 0;
    let fits = |(_, part): &&(usize, Part)| {
        pages += part.end - part.first;
        pages <= pages_max
    };
    parts.iter().take_while(fits).count().max(1)
}

/// Whether a part is in memory; none where the kernel does not tell.
fn cached(file: &OwnedFd, part: &Part) -> Option<bool> {
    let pages = part.end - part.first;
    sys::cached(file.as_fd(), part.first * 4096, pages * 4096).ok().map(|here| here >= pages)
}

#[cfg(test)]
mod tests;
