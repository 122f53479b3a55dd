//! A scheme over the page cache that the kernel owns: reads are shown to an observing engine, its wishes become `readahead`.
//!
//! ```text
//!   mm_filemap_get_pages ─▶ FileMap ─▶ Observer (scheme) ─▶ Start ─▶ worker: open, readahead, wait ─▶ Done
//! ```
//!
//! The same schemes decide as in the simulator and the server. A file's blocks have a place in the engine's volume
//! ([`FileMap`]); its size is asked once, so that nothing is wished beyond its end. Only buffered reads are shown: what is
//! mapped around a fault says more of the kernel than of the program. Events come in the order of time and a moment late
//! (`learn.rs`), so a scheme that works by a timer is at home here.

use crate::volumes::{self, Volume, Volumes};
use crate::{load, sys};
use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::engine::{Observer, Output, Seen, Sight, Start, Status};
use forerun_core::filemap::FileMap;
use forerun_core::registry::SchemeSpec;
use forerun_core::spec::{LayerError, LayerSpec};
use forerun_core::units::{Extent, Nanos};
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks of the volume that files are given places in.
const VOLUME_BLOCKS: u64 = 1 << 40;
/// Files that are followed at once.
const FILES_MAX: usize = 1 << 16;
/// Blocks that the engine believes to be in memory, at most: 512 MiB.
const SHADOW_BLOCKS: u64 = 1 << 17;
/// Strip of the volume, blocks; it only has to divide the volume.
const STRIP_BLOCKS: u64 = 32;
/// Requests in flight at most, each by a worker of its own.
const WORKERS: usize = 64;
/// Requests that wait for a worker; what comes when they are many is not read ahead.
const WAITING_MAX: usize = 1_024;
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

/// What a worker does.
struct Request {
    command: u32,
    volume: Arc<Volume>,
    inode: u64,
    first: u64,
    pages: u64,
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
    observer: Observer,
    map: FileMap,
    files: BTreeMap<FileId, Option<Followed>>,
    by_number: Vec<FileId>,
    volumes: BTreeMap<(u32, u32), Arc<Volume>>,
    requests: SyncSender<Request>,
    done: Receiver<u32>,
    /// Requests that workers have, or that wait for one.
    in_flight: usize,
    wished: Wished,
}

impl Ahead {
    /// An engine under `scheme`, with its workers.
    ///
    /// # Errors
    /// [`AheadError`] for a scheme that is none of a page cache.
    pub(crate) fn new(scheme: SchemeSpec, volumes: &Volumes) -> Result<Self, AheadError> {
        if !scheme.has_host() || scheme.has_array() {
            return Err(AheadError::Array { scheme: scheme.to_string() });
        }
        let array = Array::new("single:128KiB".parse().expect("a valid name"), VOLUME_BLOCKS)
            .expect("a multiple of the strip");
        assert!(VOLUME_BLOCKS.is_multiple_of(STRIP_BLOCKS), "the volume is whole strips");
        let shadow = SHADOW_BLOCKS.min(load::window_pages().saturating_mul(4)).max(STRIP_BLOCKS * 8);
        let layer = LayerSpec::page_cache(scheme, array, shadow);
        let (requests, queue) = sync_channel(WAITING_MAX);
        let (say, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..WORKERS {
            let (queue, say) = (Arc::clone(&queue), say.clone());
            let named = std::thread::Builder::new().name("forerun-ahead".into()).stack_size(STACK_BYTES);
            // With fewer workers less is in flight.
            drop(named.spawn(move || work(&queue, &say)));
        }
        // Only file systems whose files are opened by number: a path would have to be found first.
        let by_number = volumes.all().iter().filter(|volume| volume.finds_by_inode());
        let key = |volume: &Volume| (volume.device.major(), volume.device.minor());
        Ok(Self {
            observer: layer.observe()?,
            map: FileMap::new(VOLUME_BLOCKS, FILES_MAX),
            files: BTreeMap::new(),
            by_number: Vec::new(),
            volumes: by_number.map(|volume| (key(volume), Arc::new(volume.clone()))).collect(),
            requests,
            done,
            in_flight: 0,
            wished: Wished::default(),
        })
    }

    /// A thread has read pages `first..end` of a file.
    pub(crate) fn see(&mut self, time: u64, thread: u32, file: FileId, first: u64, end: u64) {
        let Some(followed) = self.follow(file) else { return };
        let extent = Extent::new(first, end.min(followed.blocks).saturating_sub(first));
        let context = Context::new(u64::from(thread) % PROCESSES, followed.number);
        let places: Vec<Extent> = self.map.places(followed.number, extent).collect();
        for place in places.into_iter().filter(|place| !place.is_empty()) {
            let Some(within) = self.map.within(place.start) else { continue };
            let access = Access { within, ..Access::read(context, place) };
            self.observer.handle(Nanos(time), Sight::Seen { access, seen: Seen::Unknown });
            self.send(time);
        }
    }

    /// What has ended meanwhile, and whose time has come.
    pub(crate) fn turn(&mut self, now: u64) {
        while let Ok(command) = self.done.try_recv() {
            self.ended(now, command);
        }
        if self.observer.next_wake().is_some_and(|at| at.0 <= now) {
            self.observer.handle(Nanos(now), Sight::Wake);
        }
        self.send(now);
    }

    /// A worker has done a request.
    fn ended(&mut self, now: u64, command: u32) {
        self.in_flight -= 1;
        self.observer.handle(Nanos(now), Sight::Done { command, status: Status::Unknown });
    }

    /// What has come of it.
    pub(crate) fn wished(&self) -> Wished {
        Wished { used: self.observer.stats().used.min(self.wished.pages), ..self.wished }
    }

    fn follow(&mut self, file: FileId) -> Option<Followed> {
        if let Some(known) = self.files.get(&file) {
            return *known;
        }
        let number = self.by_number.len() as u64;
        let volume = self.volumes.get(&(file.major, file.minor));
        let found = volume.filter(|volume| volume.metadata_file() != file && self.files.len() < FILES_MAX);
        let size = found.and_then(|volume| Some(volumes::identify(volume, file.inode, None)?.state.size));
        let followed = size.map(|size| Followed { number, blocks: size.div_ceil(4096) });
        let followed = followed.filter(|followed| self.map.grow(number, followed.blocks).is_ok());
        if followed.is_some() {
            self.by_number.push(file);
        }
        if self.files.len() < FILES_MAX {
            self.files.insert(file, followed);
        }
        followed
    }

    /// Hands what the engine starts to workers.
    fn send(&mut self, now: u64) {
        while let Some(output) = self.observer.poll() {
            let Output::Start(start) = output else { continue };
            let Some(request) = self.request(&start) else {
                self.observer
                    .handle(Nanos(now), Sight::Done { command: start.command, status: Status::Unknown });
                continue;
            };
            let pages = request.pages;
            match self.requests.try_send(request) {
                Ok(()) => {
                    self.wished.pages += pages;
                    self.in_flight += 1;
                }
                Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) => {
                    self.wished.dropped += 1;
                    let ended = Sight::Done { command: request.command, status: Status::Unknown };
                    self.observer.handle(Nanos(now), ended);
                }
            }
        }
    }

    fn request(&self, start: &Start) -> Option<Request> {
        let (number, block) = self.map.file(start.extent.start)?;
        let file = *self.by_number.get(usize::try_from(number).ok()?)?;
        let followed = (*self.files.get(&file)?)?;
        let pages = start.extent.blocks.min(followed.blocks.saturating_sub(block.0));
        let volume = Arc::clone(self.volumes.get(&(file.major, file.minor))?);
        (pages > 0).then_some(Request {
            command: start.command,
            volume,
            inode: file.inode,
            first: block.0,
            pages,
        })
    }
}

fn work(queue: &Mutex<Receiver<Request>>, say: &Sender<u32>) {
    loop {
        // One worker waits for the next request, the others for it.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return };
        read(&request);
        if say.send(request.command).is_err() {
            return;
        }
    }
}

/// Reads ahead and waits for the last page of each part.
fn read(request: &Request) {
    let Ok(file) = volumes::open_number(&request.volume, request.inode) else { return };
    let end = request.first + request.pages;
    let mut at = request.first;
    while at < end {
        let until = end.min(at + request.volume.chunk_pages);
        if sys::readahead(file.as_fd(), at * 4096, (until - at) * 4096).is_err() {
            return;
        }
        at = until;
    }
    // What cannot be read here is a later miss of the reader, who is told why.
    let _ = fs::File::from(file).read_at(&mut [0], (end - 1) * 4096);
}

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
        if !volume.finds_by_inode() || volumes::open_number(&volume, inode).is_err() {
            return; // not ext4, or not root
        }
        let id = FileId { major: volume.device.major(), minor: volume.device.minor(), inode };
        let scheme = SchemeSpec::parse("flashy(poll=1ms)").expect("a scheme");
        let mut ahead = Ahead::new(scheme, &volumes).expect("fits");
        // Times are made up: a read of 16 KiB every 100 us, 256 KiB apart.
        for turn in 0..200_u64 {
            ahead.see(turn * 100_000, 1, id, turn * 64, turn * 64 + 4);
            ahead.turn(turn * 100_000 + 50_000);
            // Made-up time is quick: what is under way has ended before it goes on.
            while ahead.in_flight > 0 {
                let command = ahead.done.recv().expect("workers live");
                ahead.ended(turn * 100_000 + 60_000, command);
            }
        }
        let wished = ahead.wished();
        assert!(wished.pages > 200 && wished.used > 200 && wished.dropped == 0, "{wished:?}");
        let here = sys::cached(file.as_fd(), 0, 64 << 20).unwrap_or(wished.pages);
        assert!(here >= wished.pages, "what was wished for is in memory: {here} of {wished:?}");
    }

    #[test]
    fn a_scheme_of_an_array_is_refused() {
        let scheme = SchemeSpec::parse("msp").expect("a scheme");
        assert!(Ahead::new(scheme, &Volumes::default()).is_err());
    }
}
