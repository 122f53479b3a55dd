//! A scheme over the page cache that the kernel owns: reads are shown to an observing engine, its wishes become `readahead`.
//!
//! ```text
//!   mm_filemap_get_pages ─▶ FileMap ─▶ Observer (scheme) ─▶ Start ─▶ worker: open, readahead × n, wait ─▶ Done × n
//! ```
//!
//! What the engine starts in one turn goes to workers by file, many pieces at a time: a file is opened once for all of them, they are
//! all asked for before the first is waited for, and a batch of small pieces does not cost a thread each. Workers are made as they
//! are needed. A piece whose reader has come to it before it went out is not asked for, nor one whose reader has ended; what such a one has on its way is
//! not waited for.
//!
//! The same schemes decide as in the simulator and the server. A file's blocks have a place in the engine's volume
//! ([`FileMap`]); its size is asked once, so that nothing is wished beyond its end. Buffered reads are shown, and
//! those places of mapped files that are the program's and not the kernel's (`mapped.rs`). Events come in the order of time and a moment late
//! (`learn.rs`), so a scheme that works by a timer is at home here.

use crate::inputs::{Engine, Log, SHADOW_BLOCKS, VOLUME_BLOCKS};
use crate::mounted::{self, ByDevice, News};
use crate::payers::{Charge, Stretch};
use crate::volumes::{self, Volume, Volumes};
use crate::{load, names, pages, sys};
use forerun_core::access::{Access, Context};
use forerun_core::cache::State;
use forerun_core::engine::{Output, Seen, Sight, Start, Status};
use forerun_core::filemap::FileMap;
use forerun_core::policy::decisions::Decision;
use forerun_core::registry::SchemeSpec;
use forerun_core::spec::LayerError;
use forerun_core::units::{Block, Extent, Nanos};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are followed at once.
const FILES_MAX: usize = 1 << 16;
/// Requests in flight at most, each by a worker of its own.
const WORKERS: usize = 64;
/// Pieces of one request: so few that a far device gets a batch from several workers at once, which may wait for extents of the file.
const PIECES_MAX: usize = 32;
/// Pages of one request, 8 MiB, unless one piece is longer.
const REQUEST_PAGES_MAX: u64 = 2_048;
/// Requests that wait for a worker; what comes when they are many is not read ahead.
const WAITING_MAX: usize = 1_024;
/// How long a reader who was read ahead of is looked at without a pause, nanoseconds.
pub(crate) const AT_WORK: u64 = 50_000_000;
/// Pieces that may have been asked for and not have come.
pub(crate) const PIECES_IN_FLIGHT_MAX: usize = (WAITING_MAX + WORKERS) * PIECES_MAX;
/// Stack of a worker.
const STACK_BYTES: usize = 256 << 10;
/// Processes that an engine tells apart.
const PROCESSES: u64 = 1 << 24;

/// A file that is followed.
#[derive(Clone, Copy, Debug)]
struct Followed {
    number: u64,
    blocks: u64,
}

/// What is read ahead as a whole.
#[derive(Clone, Copy, Debug)]
struct Piece {
    command: u32,
    first: u64,
    pages: u64,
}

/// What a worker does.
struct Request {
    volume: Arc<Volume>,
    file: FileId,
    /// Where it is, if no number opens it.
    path: Option<Arc<Path>>,
    /// Whose wish it is, whether it lived when this was made, and who pays.
    reader: u32,
    lived: bool,
    charge: Charge,
    pieces: Vec<Piece>,
    /// Not to touch any of their pages.
    by_frames: bool,
}

impl Request {
    fn pages(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.pages).sum()
    }

    /// Its reader has ended since: nobody waits for it, and whoever unmounts is not to find a file open. One that was unknown before is of another
    /// name space of processes.
    fn is_called_off(&self) -> bool {
        self.lived && !sys::lives(self.reader)
    }
}

/// Blocks that were asked for, and what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wished {
    /// Pages that the scheme wished for and that were asked of the device.
    pub pages: u64,
    /// Of what the scheme wished for, the pages that a reader then used, as the engine counts.
    pub used: u64,
    /// Requests that found no worker.
    pub dropped: u64,
}

/// A scheme that cannot decide here.
#[derive(Debug, thiserror::Error)]
pub enum AheadError {
    /// It is of another layer.
    #[error(
        "{scheme} is no scheme of a page cache; `forerun schemes` names the layer of each, flashy(poll=20ms,max_rate=2G) knows strides"
    )]
    Array {
        /// As given.
        scheme: String,
    },
    /// It does not go with the engine.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

/// The engine and its workers.
pub(crate) struct Ahead {
    engine: Engine,
    map: FileMap,
    files: BTreeMap<FileId, Option<Followed>>,
    by_number: Vec<FileId>,
    /// Where files are that no number opens, as a reader of theirs has them open.
    paths: BTreeMap<FileId, Arc<Path>>,
    volumes: ByDevice,
    charge: Charge,
    crew: Crew,
    /// Pieces that workers have, or that wait for one.
    pub(crate) in_flight: usize,
    wished: Wished,
    /// Nothing is really asked for.
    pub(crate) only_say: bool,
    /// When something was asked for last.
    asked: u64,
    /// Whom something was asked for since it was last taken: process and file.
    helped: BTreeSet<(u32, FileId)>,
    /// What was asked for since it was last taken, of whom, where that is what tells of touches (`frames.rs`).
    by_frames: bool,
    told: Vec<Told>,
}

/// Pages that are read ahead of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) pid: u32,
    pub(crate) file: FileId,
    pub(crate) first: u64,
    pub(crate) pages: u64,
    /// Pages of each of its reads, as far as that is known: several may be asked for together.
    pub(crate) unit: u64,
    /// It goes backwards.
    pub(crate) back: bool,
}

/// The workers.
struct Crew {
    requests: SyncSender<Request>,
    queue: Arc<Mutex<Receiver<Request>>>,
    say: Sender<u32>,
    done: Receiver<u32>,
    made: usize,
    /// Workers that wait for a request.
    idle: Arc<AtomicUsize>,
}

impl Crew {
    fn new() -> Self {
        let (requests, queue) = sync_channel(WAITING_MAX);
        let (say, done) = channel();
        Self { requests, queue: Arc::new(Mutex::new(queue)), say, done, made: 0, idle: Arc::default() }
    }

    /// Gives a request to whoever is free, or gets free first; back where too many wait.
    fn give(&mut self, request: Request) -> Result<(), Request> {
        match self.requests.try_send(request) {
            Ok(()) => {}
            Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) => return Err(request),
        }
        if self.idle.load(Ordering::Relaxed) == 0 && self.made < WORKERS {
            let (queue, say, idle) = (Arc::clone(&self.queue), self.say.clone(), Arc::clone(&self.idle));
            let named = std::thread::Builder::new().name("forerun-ahead".into()).stack_size(STACK_BYTES);
            // With fewer workers less is in flight.
            self.made += usize::from(named.spawn(move || work(&queue, &say, &idle)).is_ok());
        } else {
            // Taken by the one that it was meant for, even before that one wakes.
            let less = |idle: usize| idle.checked_sub(1);
            let _ = self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        Ok(())
    }
}

impl Ahead {
    /// An engine under `scheme`, with its workers.
    ///
    /// # Errors
    /// [`AheadError`] for a scheme that is none of a page cache.
    pub(crate) fn new(scheme: SchemeSpec, volumes: &Volumes, charge: &Charge) -> Result<Self, AheadError> {
        if !scheme.has_host() || scheme.has_array() {
            return Err(AheadError::Array { scheme: scheme.to_string() });
        }
        let shadow =
            load::window_pages().saturating_mul(4).clamp(*SHADOW_BLOCKS.start(), *SHADOW_BLOCKS.end());
        Ok(Self {
            engine: Engine::new(scheme, shadow)?,
            map: FileMap::new(VOLUME_BLOCKS, FILES_MAX),
            files: BTreeMap::new(),
            by_number: Vec::new(),
            paths: BTreeMap::new(),
            volumes: mounted::all(volumes),
            charge: charge.clone(),
            crew: Crew::new(),
            in_flight: 0,
            wished: Wished::default(),
            only_say: false,
            asked: 0,
            helped: BTreeSet::new(),
            by_frames: false,
            told: Vec::new(),
        })
    }

    /// Touches are not told, and looked for in memory: what is asked for is told, and our own workers do not touch it.
    pub(crate) const fn by_frames(&mut self, on: bool) {
        self.by_frames = on;
    }

    /// What was asked for since the last call.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// From now on everything that the engine is told goes to a log; nothing has happened yet.
    pub(crate) fn log_to(&mut self, log: Log) {
        self.engine.log_to(log);
    }

    /// The log, for the next engine or to be ended.
    pub(crate) fn take_log(&mut self) -> Option<Log> {
        self.engine.take_log()
    }

    /// When the scheme wants to be woken.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.engine.next_wake().map(|at| at.0)
    }

    /// A thread has read pages `pages` of a file, and so much is known of it. What comes of it goes out with the next turn.
    pub(crate) fn see(&mut self, time: u64, thread: u32, file: FileId, pages: Range<u64>, seen: Seen) {
        let (first, end) = (pages.start, pages.end);
        let Some(followed) = self.follow(file, thread) else { return };
        let extent = Extent::new(first, end.min(followed.blocks).saturating_sub(first));
        let context = Context::new(u64::from(thread) % PROCESSES, followed.number);
        let places: Vec<Extent> = self.map.places(followed.number, extent).collect();
        for place in places.into_iter().filter(|place| !place.is_empty()) {
            let Some(within) = self.map.within(place.start) else { continue };
            let access = Access { within, ..Access::read(context, place) };
            self.engine.handle(Nanos(time), Sight::Seen { access, seen });
        }
    }

    /// What has ended meanwhile, and whose time has come.
    pub(crate) fn turn(&mut self, now: u64) {
        while let Ok(command) = self.crew.done.try_recv() {
            self.ended(now, command);
        }
        if self.engine.next_wake().is_some_and(|at| at.0 <= now) {
            self.engine.handle(Nanos(now), Sight::Wake);
        }
        self.send(now);
    }

    /// A worker has done a request.
    fn ended(&mut self, now: u64, command: u32) {
        self.in_flight -= 1;
        self.engine.handle(Nanos(now), Sight::Done { command, status: Status::Unknown });
    }

    /// What has come of it.
    pub(crate) fn wished(&self) -> Wished {
        Wished { used: self.engine.stats().used.min(self.wished.pages), ..self.wished }
    }

    fn follow(&mut self, file: FileId, thread: u32) -> Option<Followed> {
        if let Some(known) = self.files.get(&file) {
            return *known;
        }
        let number = self.by_number.len() as u64;
        let is_room = self.files.len() < FILES_MAX && self.by_number.len() < FILES_MAX;
        let followed = if is_room { self.size(file, thread) } else { None };
        let followed = followed.map(|size| Followed { number, blocks: size.div_ceil(4096) });
        let followed = followed.filter(|followed| self.map.grow(number, followed.blocks).is_ok());
        if followed.is_some() {
            self.by_number.push(file);
        }
        if self.files.len() < FILES_MAX {
            self.files.insert(file, followed);
        }
        followed
    }

    /// Bytes of a file, if it can be opened: by its number, or where that opens nothing by the path of which its reader has it open.
    fn size(&mut self, file: FileId, thread: u32) -> Option<u64> {
        let volume =
            self.volumes.get(&(file.major, file.minor)).filter(|volume| volume.metadata_file() != file)?;
        if volume.finds_by_inode() {
            return Some(volumes::identify(volume, file.inode, None)?.state.size);
        }
        let paths: BTreeSet<PathBuf> =
            names::open_files(thread, &BTreeSet::from([file])).into_iter().map(|(_, path)| path).collect();
        // Of several subvolumes it may have a file of this number in each.
        let path = paths.first().filter(|_| paths.len() == 1)?;
        let path: Arc<Path> = path.as_path().into();
        // A reader that sees other mounts may mean another file by it.
        if names::Mounts::of_this_process().device(&path) != Some((file.major, file.minor)) {
            return None;
        }
        let size = volumes::identify(volume, file.inode, Some(&path))?.state.size;
        self.paths.insert(file, path);
        Some(size)
    }

    /// Hands what the engine starts to workers.
    fn send(&mut self, now: u64) {
        loop {
            let mut starts: Vec<Start> = Vec::new();
            while let Some(output) = self.engine.poll() {
                if let Output::Start(start) = output {
                    starts.push(start);
                }
            }
            if starts.is_empty() {
                return;
            }
            for request in self.requests(now, starts) {
                self.give(now, request);
            }
        }
    }

    /// What was started, by file; what needs no reading has ended.
    fn requests(&mut self, now: u64, starts: Vec<Start>) -> Vec<Request> {
        let mut requests: Vec<Request> = Vec::new();
        for start in starts {
            // Whoever has come to the last block of it meanwhile reads it without us.
            let last = self.engine.cache().state(Block(start.extent.end() - 1));
            let found = self.piece(&start).filter(|_| last != State::FetchDemand);
            let Some((file, piece)) = found else {
                let ended = Sight::Done { command: start.command, status: Status::Unknown };
                self.engine.handle(Nanos(now), ended);
                continue;
            };
            let Some(volume) = self.volumes.get(&(file.major, file.minor)) else { continue };
            // Processes are numbered by 24 bits.
            let reader = start.context.process() as u32;
            self.helped.insert((reader, file));
            let fits = |request: &&mut Request| {
                (request.file, request.reader) == (file, reader)
                    && request.pieces.len() < PIECES_MAX
                    && request.pages() + piece.pages <= REQUEST_PAGES_MAX
            };
            match requests.last_mut().filter(fits) {
                Some(request) => request.pieces.push(piece),
                None => {
                    let (volume, charge) = (Arc::clone(volume), self.charge.clone());
                    let (pieces, by_frames) = (Vec::from([piece]), self.by_frames);
                    let (path, lived) = (self.paths.get(&file).cloned(), sys::lives(reader));
                    requests.push(Request { volume, file, path, reader, lived, charge, pieces, by_frames });
                }
            }
        }
        requests
    }

    fn give(&mut self, now: u64, request: Request) {
        let (pages, pieces) = (request.pages(), request.pieces.len());
        if self.by_frames && !self.only_say {
            let (pid, file) = (request.reader, request.file);
            let told = |&Piece { first, pages, .. }: &Piece| Told {
                pid,
                file,
                first,
                pages,
                unit: pages,
                back: false,
            };
            self.told.extend(request.pieces.iter().map(told));
        }
        match if self.only_say { Err(request) } else { self.crew.give(request) } {
            Ok(()) => {
                self.asked = now;
                self.wished.pages += pages;
                self.in_flight += pieces;
            }
            Err(request) => {
                self.wished.dropped += if self.only_say { 0 } else { pieces as u64 };
                for piece in request.pieces {
                    let ended = Sight::Done { command: piece.command, status: Status::Unknown };
                    self.engine.handle(Nanos(now), ended);
                }
            }
        }
    }

    /// Where in which file a fetch reads.
    fn piece(&self, start: &Start) -> Option<(FileId, Piece)> {
        let (number, block) = self.map.file(start.extent.start)?;
        let file = *self.by_number.get(usize::try_from(number).ok()?)?;
        let followed = (*self.files.get(&file)?)?;
        let pages = start.extent.blocks.min(followed.blocks.saturating_sub(block.0));
        let known = self.volumes.contains_key(&(file.major, file.minor));
        (pages > 0 && known).then_some((file, Piece { command: start.command, first: block.0, pages }))
    }

    /// Nothing is believed of a file any more: nobody reads it now, and what is in memory of it later nobody knows.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.paths.remove(&file);
        let Some(Some(followed)) = self.files.remove(&file) else { return };
        for extent in self.map.forget(followed.number).collect::<Vec<_>>() {
            self.engine.handle(Nanos(sys::now()), Sight::Gone { extent });
        }
    }

    /// Other file systems are mounted: of files of those that are gone, or are others now, nothing is believed.
    pub(crate) fn mounted(&mut self, news: &News) {
        self.volumes = mounted::all(&news.volumes);
        let is_other = |file: &&FileId| news.others.contains(&(file.major, file.minor));
        let files: Vec<FileId> = self.files.keys().filter(is_other).copied().collect();
        files.into_iter().for_each(|file| self.forget(file));
    }

    /// So many files were followed that no number is left for half as many more.
    pub(crate) fn is_worn(&self) -> bool {
        self.by_number.len().max(self.files.len()) > FILES_MAX / 2
    }

    /// Something is on its way, or was asked for a moment ago: what is read next is wanted at once.
    pub(crate) fn is_at_work(&self, now: u64) -> bool {
        self.in_flight > 0 || now.saturating_sub(self.asked) < AT_WORK
    }

    /// Whom something was asked for since the last call: process (of 24 bits) and file.
    pub(crate) fn helped(&mut self) -> BTreeSet<(u32, FileId)> {
        std::mem::take(&mut self.helped)
    }

    /// The turns of the scheme's switches since the last call.
    pub(crate) fn decisions(&mut self) -> Vec<(FileId, Decision)> {
        let mut decisions = Vec::new();
        self.engine.observer().decisions(&mut decisions);
        let file = |decision: &Decision| {
            let number = usize::try_from(decision.of?.context.file()).ok()?;
            self.by_number.get(number).copied()
        };
        decisions.into_iter().filter_map(|decision| Some((file(&decision)?, decision))).collect()
    }
}

fn work(queue: &Mutex<Receiver<Request>>, say: &Sender<u32>, idle: &AtomicUsize) {
    loop {
        // One worker waits for the next request, the others for it.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return };
        if !read(&request, say) {
            return;
        }
        idle.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads pieces ahead, and says of each when its last page is there; false if nobody listens any more.
fn read(request: &Request, say: &Sender<u32>) -> bool {
    let nothing = || request.pieces.iter().all(|piece| say.send(piece.command).is_ok());
    if request.is_called_off() {
        return nothing();
    }
    let file = volumes::open_number(&request.volume, request.file.inode, request.path.as_deref());
    let Ok(file) = file else { return nothing() };
    let stretches = |piece: &Piece| {
        let (first, end) = (piece.first, piece.first + piece.pages);
        let chunk = request.volume.chunk_pages;
        let starts = (0..piece.pages.div_ceil(chunk)).map(move |number| first + number * chunk);
        starts.map(move |at| (at * 4096, (end.min(at + chunk) - at) * 4096))
    };
    let stretches: Vec<Stretch> = request.pieces.iter().flat_map(stretches).collect();
    // What cannot be read ahead here is a later miss of the reader, who is told why.
    drop(request.charge.bill(request.reader).readahead(file.as_fd(), &stretches));
    let file = fs::File::from(file);
    request.pieces.iter().all(|piece| {
        let last = piece.first + piece.pages - 1;
        // What nobody waits for any more comes without us.
        let is_wanted = !request.is_called_off();
        if is_wanted && request.by_frames {
            drop(pages::until_here(file.as_fd(), last));
        } else if is_wanted {
            let _ = file.read_at(&mut [0], last * 4096);
        }
        say.send(piece.command).is_ok()
    })
}

#[cfg(test)]
mod scenarios;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_strided_reader_is_read_ahead_of_on_the_real_page_cache() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("data");
        fs::write(&path, vec![7; 64 << 20]).expect("room on disk");
        let file = fs::File::open(&path).expect("just written");
        file.sync_all().expect("room on disk");
        if rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).is_err() {
            return;
        }
        let mut volumes = Volumes::now();
        let Some(volume) = volumes.holding(&path) else { return };
        let inode = file.metadata().expect("ours").ino();
        if !volume.finds_by_inode() || volumes::open_number(&volume, inode, None).is_err() {
            return; // not ext4, or not root
        }
        let id = FileId { major: volume.device.major(), minor: volume.device.minor(), inode };
        let scheme = SchemeSpec::parse("flashy(poll=1ms)").expect("a scheme");
        let mut ahead = Ahead::new(scheme, &volumes, &Charge::default()).expect("fits");
        // Times are made up: a read of 16 KiB every 100 us, 256 KiB apart.
        for turn in 0..200_u64 {
            ahead.see(turn * 100_000, 1, id, turn * 64..turn * 64 + 4, Seen::Unknown);
            ahead.turn(turn * 100_000 + 50_000);
            // Made-up time is quick: what is under way has ended before it goes on.
            while ahead.in_flight > 0 {
                let command = ahead.crew.done.recv().expect("workers live");
                ahead.ended(turn * 100_000 + 60_000, command);
            }
        }
        let wished = ahead.wished();
        assert!(wished.pages > 200 && wished.used > 200 && wished.dropped == 0, "{wished:?}");
        let here = sys::cached(file.as_fd(), 0, 64 << 20).unwrap_or(wished.pages);
        assert!(here >= wished.pages, "what was wished for is in memory: {here} of {wished:?}");
    }

    #[test]
    fn a_request_is_called_off_when_its_reader_has_ended_and_not_when_it_was_never_known() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let Some(volume) = Volumes::now().holding(root.path()) else { return };
        let mut child = std::process::Command::new("cat");
        let child = child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn();
        let mut child = child.expect("coreutils");
        let mut request = Request {
            volume: Arc::new(volume),
            file: FileId { major: 0, minor: 0, inode: 0 },
            path: None,
            reader: child.id(),
            lived: sys::lives(child.id()),
            charge: Charge::default(),
            pieces: Vec::from([1, 2].map(|command| Piece { command, first: 0, pages: 1 })),
            by_frames: false,
        };
        assert!(request.lived && !request.is_called_off());
        drop(child.stdin.take());
        child.wait().expect("ours");
        assert!(request.is_called_off());
        let (say, done) = channel();
        assert!(read(&request, &say), "somebody listens");
        assert_eq!(done.try_iter().collect::<Vec<_>>(), [1, 2], "the engine is told all the same");
        request.lived = false;
        assert!(!request.is_called_off(), "of a name space that is not ours");
        assert!(!sys::lives(0) && !sys::lives(u32::MAX) && sys::lives(1));
    }

    #[test]
    fn a_scheme_of_an_array_is_refused() {
        let scheme = SchemeSpec::parse("msp").expect("a scheme");
        assert!(Ahead::new(scheme, &Volumes::default(), &Charge::default()).is_err());
    }
}
