//! Learns from the events of a run what it touched and loaded, in which order, and how long its threads slept for it.
//!
//! Pages are kept as sets of bits by file, and each stretch that is new gets the next rank. Touches go into the ledger of a
//! replay at once; the rest waits for the next look at the rings, because rings are emptied one after another: only
//! events from before the last look are complete over all processors, and those are taken in the order of time.
//!
//! A sleep begins with a thread's `sched_switch` in state D and ends when it gets a processor back.

use crate::ahead::Ahead;
use crate::density::Density;
use crate::firsts::Firsts;
use crate::frames::Parts;
use crate::ledger::Ledger;
use crate::mapped::Mapped;
use crate::naming::{self, Naming};
use crate::neighbours::Neighbours;
use crate::outcome::RecordError;
use crate::reads;
use crate::sample::{self, Sample, SampleError};
use crate::sensor::Touched;
use crate::session::{Collect, Tally};
use crate::sys;
use crate::touches::{Points, Touch};
use crate::unnamed::{Elsewhere, Unnamed};
use crate::volumes::{self, Volume, Volumes};
use crate::written::{self, Added, Written};
use forerun_core::engine::Seen;
use forerun_manifest::run::pack;
use forerun_manifest::{File, FileSystem, Key, Manifest, Run};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pages of a chunk of bits.
const CHUNK: u64 = 512;
/// Most stretches that are kept; what comes later is not learnt.
const STRETCHES_MAX: usize = 4 << 20;
/// Threads whose state is kept; beyond, those that are awake are forgotten.
const THREADS_MAX: usize = 1 << 16;
/// Threads that look files up at the end at most, and files for which one more is worth it.
const HELPERS_MAX: usize = 8;
const FILES_A_HELPER: usize = 128;
/// A stretch grows at its end only while no more than this many others began since.
const FRESH: u32 = 4;

/// The pages of one file, or of one block device.
#[derive(Debug, Default)]
struct Known {
    chunks: BTreeMap<u64, [u64; 8]>,
    stretches: Vec<Run>,
    shown: Shown,
}

/// What the scheme that reads ahead by patterns was shown of a file.
#[derive(Clone, Copy, Debug, Default)]
enum Shown {
    #[default]
    Nothing,
    /// Its first read, or place of it where it is mapped, waits for a second: time, thread, first page and the one behind the last.
    Waits(u64, u32, u64, u64),
    All,
}

impl Known {
    /// Notes `first..end`; returns how many stretches began.
    fn note(&mut self, first: u64, end: u64, rank: u32) -> u32 {
        let mut began = 0;
        let mut page = first;
        while page < end {
            let chunk = self.chunks.entry(page / CHUNK).or_default();
            let until = end.min((page / CHUNK + 1) * CHUNK);
            while page < until {
                let (word, bit) = ((page % CHUNK / 64) as usize, page % 64);
                if chunk[word] >> bit & 1 == 0 {
                    chunk[word] |= 1 << bit;
                    match self.stretches.last_mut() {
                        Some(last) if last.end() == page && rank.saturating_sub(last.rank) <= FRESH => {
                            last.pages += 1
                        }
                        _ => {
                            self.stretches.push(Run { first: page, pages: 1, rank: rank + began, seen: 1 });
                            began += 1;
                        }
                    }
                }
                page += 1;
            }
        }
        began
    }
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    asleep: Option<u64>,
    /// The read whose end it was last asked of: a long read is told once for each part.
    asked: Option<(FileId, u64)>,
    /// The page that it faulted on, until that is loaded.
    wants: Option<(FileId, u64)>,
    /// What it loaded since it asked last: a buffered read is told when its pages are there.
    loads: Option<(FileId, u64, u64)>,
}

impl Thread {
    /// It asks for a page; whether it had to load that itself, as far as is known by now.
    fn asks(&mut self, file: FileId, page: u64, read: bool) -> bool {
        self.wants = (!read).then_some((file, page));
        let loads = self.loads.take();
        read && loads.is_some_and(|(of, first, end)| of == file && (first..end).contains(&page))
    }

    /// It loads pages; the one that it had faulted on, if that is among them. What is loaded ahead of a reader is not.
    fn loads(&mut self, file: FileId, first: u64, end: u64) -> Option<u64> {
        self.loads = match self.loads {
            Some((of, begun, until)) if of == file && until == first => Some((file, begun, end)),
            _ => Some((file, first, end)),
        };
        let wanted = self.wants.filter(|&(of, page)| of == file && (first..end).contains(&page));
        self.wants = self.wants.filter(|_| wanted.is_none());
        wanted.map(|(_, page)| page)
    }
}

/// All threads of a command are one reader of a file.
const COMMAND: u32 = 0;

#[derive(Clone, Copy, Debug)]
enum What {
    Touch(Touch),
    Back,
    /// We loaded metadata of a file that lies beside others: the command will find it there.
    Beside(FileId, u64, u64),
}

/// Learns.
pub(crate) struct Learner {
    points: Points,
    volumes: Volumes,
    ledger: Option<Arc<Ledger>>,
    pub(crate) ahead: Option<Ahead>,
    /// No scheme was named. One read of a file makes no pattern: a file is shown to the scheme with its second, since most have none.
    pub(crate) patient: bool,
    /// Places of mapped files.
    mapped: Mapped,
    /// Whole strips for who comes back to them, where nothing is known of the command yet.
    pub(crate) density: Option<Density>,
    /// Small files beside those that it reads one after the other, where nothing is known of it yet.
    pub(crate) neighbours: Option<Neighbours>,
    /// What of the replay was touched, where touches are not told.
    pub(crate) parts: Option<Parts>,
    /// Programs in the kernel that tell of touches when there are many.
    pub(crate) firsts: Option<Firsts>,
    /// Names files meanwhile.
    pub(crate) naming: Option<Naming>,
    /// What that has named.
    named: BTreeMap<FileId, File>,
    /// Events of a look, while both tell: in the order of time before anything is made of them.
    both: Vec<(u64, u32, Touch)>,
    own: u32,
    batch: Vec<(u64, u32, What)>,
    complete_until: u64,
    known: BTreeMap<FileId, Known>,
    paths: BTreeMap<FileId, String>,
    threads: BTreeMap<u32, Thread>,
    /// What it writes.
    written: Written,
    /// Of file systems that are not read ahead of.
    elsewhere: Elsewhere,
    rank: u32,
    stretches: usize,
    /// How long threads slept, all together, nanoseconds.
    pub(crate) waited: u64,
    /// Pages that the program loaded itself.
    pub(crate) loaded: u64,
    seen: u64,
    lost: u64,
}

impl Learner {
    /// One that knows nothing.
    pub(crate) fn new(points: Points, volumes: Volumes, ledger: Option<Arc<Ledger>>) -> Self {
        Self {
            points,
            volumes,
            ledger,
            ahead: None,
            patient: false,
            mapped: Mapped::default(),
            density: None,
            neighbours: None,
            parts: None,
            firsts: None,
            naming: None,
            named: BTreeMap::new(),
            both: Vec::new(),
            own: std::process::id(),
            batch: Vec::new(),
            complete_until: 0,
            known: BTreeMap::new(),
            paths: BTreeMap::new(),
            threads: BTreeMap::new(),
            written: Written::default(),
            elsewhere: Elsewhere::default(),
            rank: 0,
            stretches: 0,
            waited: 0,
            loaded: 0,
            seen: 0,
            lost: 0,
        }
    }

    /// An event of perf: at once, or with what the programs tell.
    fn came(&mut self, process: u32, time: u64, thread: u32, touch: Touch) {
        let Some(firsts) = &mut self.firsts else { return self.told(time, thread, touch) };
        firsts.process(process);
        if matches!(touch, Touch::Asked(..) | Touch::Read(..)) {
            firsts.told();
        }
        self.both.push((time, thread, touch));
    }

    /// What perf and the programs told since the last look.
    fn merge(&mut self) {
        let Some(firsts) = &mut self.firsts else { return };
        let mut both = std::mem::take(&mut self.both);
        firsts.look(&mut |Touched { time, pid: thread, file, first, last, read }| {
            let (first, last) = reads::within(first, last);
            let touch = if read { Touch::Read(file, first, last) } else { Touch::Asked(file, first, last) };
            both.push((time, thread, touch));
        });
        both.sort_by_key(|&(time, ..)| time);
        both.drain(..).for_each(|(time, thread, touch)| self.told(time, thread, touch));
        self.both = both;
    }

    /// An event of the command. What it adds is known to be read once it does something else.
    fn told(&mut self, time: u64, thread: u32, touch: Touch) {
        match touch {
            Touch::Loaded(file, first, pages) if self.points.writes => {
                let read = self.written.add(Added { time, thread, file, first, pages });
                self.loads(read);
            }
            Touch::Dirty(inode, page) => self.written.dirty(thread, inode, page),
            other => {
                let read = self.written.read_by(thread);
                self.loads(read);
                self.event(time, thread, other);
            }
        }
    }

    fn loads(&mut self, read: Vec<Added>) {
        read.iter().for_each(|added| self.event(added.time, added.thread, added.loaded()));
    }

    fn event(&mut self, time: u64, thread: u32, touch: Touch) {
        if let (Touch::Asked(file, first, last) | Touch::Read(file, first, last), Some(ledger)) =
            (touch, &self.ledger)
        {
            ledger.touch(file, first, last.saturating_add(1));
        }
        if let (Touch::Loaded(file, first, pages), Some(ledger), false) =
            (touch, &self.ledger, self.points.touches)
        {
            // What it has loaded itself nobody has to load for it.
            ledger.touch(file, first, first.saturating_add(pages));
        }
        if let (Touch::Loaded(file, 0, _), Some(neighbours)) = (touch, &mut self.neighbours) {
            // At once: the next files are opened soon. Of a command nothing is told before its end.
            let _ = neighbours.opened(time, COMMAND, file);
        }
        self.batch.push((time, thread, What::Touch(touch)));
    }

    /// Takes all events up to a time, in order.
    fn settle(&mut self, until: u64) {
        let mut batch = std::mem::take(&mut self.batch);
        batch.sort_by_key(|&(time, ..)| time);
        let later = batch.split_off(batch.partition_point(|&(time, ..)| time <= until));
        for (time, thread, what) in batch {
            self.take_one(time, thread, what);
        }
        self.batch = later;
        if self.threads.len() > THREADS_MAX {
            self.threads.retain(|_, thread| thread.asleep.is_some());
        }
    }

    fn take_one(&mut self, time: u64, number: u32, what: What) {
        let thread = self.threads.entry(number).or_default();
        match what {
            What::Touch(Touch::Dirty(..)) => {}
            What::Touch(Touch::Asleep) => thread.asleep = Some(time),
            What::Back => {
                if let Some(since) = thread.asleep.take() {
                    self.waited += time.saturating_sub(since);
                }
            }
            What::Touch(touch @ (Touch::Asked(file, first, last) | Touch::Read(file, first, last))) => {
                if first < last && thread.asked == Some((file, last)) {
                    return;
                }
                thread.asked = Some((file, last));
                let end = last.saturating_add(1);
                if self.volumes.by_device(file.major, file.minor).is_none() {
                    self.elsewhere.touched(file, end - first);
                }
                let read = matches!(touch, Touch::Read(..));
                let missed = thread.asks(file, first, read);
                self.dense(time, file, first, missed);
                if read {
                    self.show(time, number, file, first..end);
                } else if self.patient
                    && self.ahead.is_some()
                    && let Some(place) = self.mapped.touched(number, file, first..end)
                {
                    self.show(time, number, file, place);
                }
                for part in self.written.others(file, first..end) {
                    self.note(file, part.start, part.end);
                }
            }
            What::Beside(file, first, end) => self.note(file, first, end),
            What::Touch(Touch::Loaded(file, first, pages)) => {
                let end = first.saturating_add(pages);
                if let Some(page) = thread.loads(file, first, end) {
                    self.dense(time, file, page, true);
                }
                let file = self.volumes.of_block_device(file).map_or(file, Volume::metadata_file);
                if self.volumes.by_device(file.major, file.minor).is_none() {
                    self.elsewhere.loaded(file, pages);
                }
                self.loaded += pages;
                self.note(file, first, end);
            }
        }
    }

    /// Something that we loaded: of metadata nothing tells later that the command used it.
    fn ours(&mut self, time: u64, touch: Touch, frame: Option<u64>) {
        let Touch::Loaded(file, first, pages) = touch else { return };
        if let Some(parts) = &mut self.parts {
            // A replay's metadata is known.
            let is_planned = self.ledger.as_ref().is_some_and(|ledger| ledger.plans(file));
            if let Some(frame) = frame.filter(|_| is_planned) {
                parts.loaded(file, first, pages, frame);
            }
            return;
        }
        let Some(volume) = self.volumes.of_block_device(file) else { return };
        let what = What::Beside(volume.metadata_file(), first, first.saturating_add(pages));
        self.batch.push((time, 0, what));
    }

    /// Shows a page that was touched, there or not, to what reads whole strips.
    fn dense(&mut self, time: u64, file: FileId, page: u64, missed: bool) {
        let Some(density) = &mut self.density else { return };
        if missed {
            let _ = density.missed(time, COMMAND, file, page);
        } else {
            density.touched(time, COMMAND, file, page);
        }
    }

    /// Shows a read to the scheme that reads ahead by patterns, and the one before it that waited for that.
    fn show(&mut self, time: u64, thread: u32, file: FileId, pages: Range<u64>) {
        let Some(ahead) = &mut self.ahead else { return };
        if self.patient {
            let shown = &mut self.known.entry(file).or_default().shown;
            match std::mem::replace(shown, Shown::All) {
                Shown::Nothing => {
                    *shown = Shown::Waits(time, thread, pages.start, pages.end);
                    return;
                }
                Shown::Waits(time, thread, first, end) => {
                    ahead.see(time, thread, file, first..end, Seen::Unknown);
                }
                Shown::All => {}
            }
        }
        ahead.see(time, thread, file, pages, Seen::Unknown);
    }

    fn note(&mut self, file: FileId, first: u64, end: u64) {
        if self.stretches >= STRETCHES_MAX {
            return;
        }
        let known = self.known.entry(file).or_default();
        if known.stretches.is_empty()
            && let Some(naming) = &self.naming
        {
            naming.ask(file, self.paths.get(&file).map(PathBuf::from));
        }
        let began = known.note(first, end, self.rank);
        self.rank += began;
        self.stretches += began as usize;
    }

    /// What was learnt, as one recording. Entries of `trusted` files are taken as they are; others are looked up.
    pub(crate) fn into_manifest(mut self, key: Key, trusted: &BTreeMap<FileId, File>) -> Manifest {
        let mut manifest = Manifest::new(key);
        manifest.recordings = 1;
        let mut places: BTreeMap<FileId, u32> = BTreeMap::new();
        let known = std::mem::take(&mut self.known).into_iter();
        let known: Vec<_> = known.filter(|(_, known)| !known.stretches.is_empty()).collect();
        let entries = self.entries(&known.iter().map(|(id, _)| *id).collect::<Vec<_>>(), trusted);
        for ((id, known), entry) in known.into_iter().zip(entries) {
            let Some(volume) = self.volumes.by_device(id.major, id.minor) else { continue };
            let device = FileId { inode: 0, ..id };
            let at = *places.entry(device).or_insert_with(|| {
                manifest.file_systems.push(volume.entry());
                u32::try_from(manifest.file_systems.len() - 1).expect("a few file systems")
            });
            if id == volume.metadata_file() {
                let fs: &mut FileSystem = &mut manifest.file_systems[at as usize];
                fs.metadata = pack(known.stretches);
            } else if let Some(mut file) = entry {
                file.file_system = at;
                file.runs = clipped(pack(known.stretches), file.state.size);
                manifest.files.push(file);
            }
        }
        manifest.tidy();
        manifest
    }

    /// What is to be kept of these files, looked up by all processors: whoever waits for the command waits for that. What was named while it ran
    /// is looked at once more.
    fn entries(&self, ids: &[FileId], trusted: &BTreeMap<FileId, File>) -> Vec<Option<File>> {
        let (volumes, paths, named) = (&self.volumes, &self.paths, &self.named);
        let roots: BTreeMap<FileId, Option<OwnedFd>> = ids
            .iter()
            .map(|id| FileId { inode: 0, ..*id })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .map(|id| (id, volumes.by_device(id.major, id.minor).and_then(|of| volumes::root(of).ok())))
            .collect();
        let entry = |id: &FileId| {
            let volume = volumes.by_device(id.major, id.minor).filter(|of| of.metadata_file() != *id)?;
            let root = roots.get(&FileId { inode: 0, ..*id }).and_then(Option::as_ref).map(OwnedFd::as_fd);
            let named = named.get(id);
            // It was there a moment ago, whatever has been done to it since.
            let path = paths.get(id).map(Path::new).or_else(|| named.map(|file| file.path.as_path()));
            let known = trusted.get(id).or_else(|| named.filter(|file| naming::is_so(file))).cloned();
            known.or_else(|| volumes::identify_below(volume, root, id.inode, path))
        };
        let all = |part: &[FileId]| part.iter().map(entry).collect::<Vec<_>>();
        let helpers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(HELPERS_MAX);
        let parts = ids.chunks(ids.len().div_ceil(helpers).max(FILES_A_HELPER)).collect::<Vec<_>>();
        std::thread::scope(|scope| {
            let look = &all;
            let others = parts.iter().skip(1).copied();
            let begun = others
                .map(|part| (part, std::thread::Builder::new().spawn_scoped(scope, move || look(part)).ok()));
            // The first is looked up here, and what nobody could be found for.
            let begun: Vec<_> = begun.collect();
            let mut found = parts.first().map_or_else(Vec::new, |part| all(part));
            for (part, helper) in begun {
                found.extend(helper.and_then(|helper| helper.join().ok()).unwrap_or_else(|| all(part)));
            }
            found
        })
    }

    /// Files that cannot be found by their number alone, for a search by name.
    pub(crate) fn nameless(&self) -> Vec<FileId> {
        let nameless = |id: &FileId| {
            let volume = self.volumes.by_device(id.major, id.minor);
            !self.paths.contains_key(id)
                && !self.named.contains_key(id)
                && volume.is_some_and(|volume| !volume.finds_by_inode() && volume.may_be_a_file(id.inode))
        };
        self.known.keys().filter(|id| nameless(id)).copied().collect()
    }

    /// What was loaded from file systems that are not read ahead of.
    pub(crate) fn unnamed(&self) -> Vec<Unnamed> {
        self.elsewhere.list(&self.volumes, self.points.touches)
    }

    /// Whether several files of a file system may have one number.
    pub(crate) fn has_subvolumes(&self, file: FileId) -> bool {
        self.volumes.by_device(file.major, file.minor).is_some_and(Volume::has_subvolumes)
    }

    /// Takes paths that were found.
    pub(crate) fn name(&mut self, paths: impl IntoIterator<Item = (FileId, String)>) {
        self.paths.extend(paths);
    }

    /// The end: everything that came is in order now.
    pub(crate) fn close(&mut self) {
        self.merge();
        self.named = self.naming.take().map(Naming::end).unwrap_or_default();
        let read = self.written.read_until(u64::MAX);
        self.loads(read);
        self.settle(u64::MAX);
        if let (Some(parts), Some(ledger)) = (&mut self.parts, &self.ledger) {
            parts.close(ledger);
        }
    }
}

/// Without what lies behind the end of the file: a read may ask for more than there is.
fn clipped(mut runs: Vec<Run>, size: u64) -> Vec<Run> {
    let end = size.div_ceil(forerun_manifest::manifest::PAGE_BYTES);
    runs.retain(|run| run.first < end);
    runs.iter_mut().for_each(|run| run.pages = run.pages.min(end - run.first));
    runs
}

impl Collect for Learner {
    fn take(&mut self, record: &[u8]) -> Result<(), RecordError> {
        match sample::parse(record)? {
            Sample::Event { pid, thread, time, raw } => {
                let touch = self.points.read(raw).ok_or(SampleError { kind: 0, size: raw.len() })?;
                if pid == self.own {
                    self.ours(time, touch, self.points.frame(raw));
                } else {
                    self.seen += 1;
                    self.came(pid, time, thread, touch);
                }
            }
            Sample::Made { process, .. } => self.firsts.iter_mut().for_each(|firsts| firsts.process(process)),
            Sample::Switched { thread, time, out: false } => self.batch.push((time, thread, What::Back)),
            Sample::Mapped { major, minor, inode, path }
                if path.starts_with(b"/") && !path.starts_with(b"//") =>
            {
                let path = String::from_utf8_lossy(path).into_owned();
                self.paths.insert(FileId { major, minor, inode }, path);
            }
            Sample::Lost(events) => self.lost += events,
            _ => {}
        }
        Ok(())
    }

    fn look(&mut self) {
        self.merge();
        let until = self.complete_until;
        let read = self.written.read_until(until.saturating_sub(written::HELD));
        self.loads(read);
        self.settle(until);
        if let (Some(parts), Some(ledger)) = (&mut self.parts, &self.ledger) {
            parts.look(ledger, until);
        }
        self.complete_until = sys::now();
        if let Some(ahead) = &mut self.ahead {
            ahead.turn(self.complete_until);
        }
        if let Some(density) = &mut self.density {
            density.tick(self.complete_until);
            // All touches of the command are seen anyway.
            drop(density.follows());
        }
    }

    fn urgent(&self) -> bool {
        let now = sys::now();
        self.ahead.as_ref().is_some_and(|ahead| ahead.is_at_work(now))
            || self.density.as_ref().is_some_and(|density| density.is_urgent(now))
            || self.neighbours.as_ref().is_some_and(|neighbours| neighbours.is_urgent(now))
    }

    fn full(&self) -> bool {
        false
    }

    fn is_told_otherwise(&self) -> bool {
        self.firsts.as_ref().is_some_and(Firsts::is_at_work)
    }

    fn tally(&self) -> Tally {
        let lost = self.lost + self.firsts.as_ref().map_or(0, Firsts::lost);
        Tally { records: self.stretches as u64, seen: self.seen, lost, ..Tally::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bio::DeviceNumber;
    use crate::payers::Charge;

    fn learner() -> Learner {
        let points = Points { touches: true, ..Points::default() };
        Learner::new(points, Volumes::default(), None)
    }

    fn volume() -> Volume {
        Volume {
            device: DeviceNumber::new(7, 0).expect("fits"),
            kind: "ext4".into(),
            uuid: [0; 16],
            mount: "/nowhere".into(),
            rotational: false,
            chunk_pages: 32,
            block_device: None,
            tells_generations: false,
        }
    }

    const A: FileId = FileId { major: 7, minor: 0, inode: 1 };
    const B: FileId = FileId { major: 7, minor: 0, inode: 2 };

    #[test]
    fn stretches_get_the_rank_of_their_first_touch_whatever_ring_they_came_through() {
        let mut learner = learner();
        learner.event(30, 1, Touch::Asked(A, 0, 3));
        learner.event(10, 2, Touch::Loaded(B, 8, 4));
        learner.event(20, 2, Touch::Asked(B, 8, 11));
        learner.event(40, 1, Touch::Loaded(A, 4, 4));
        learner.close();
        assert_eq!(learner.known[&B].stretches, [Run { first: 8, pages: 4, rank: 0, seen: 1 }]);
        assert_eq!(learner.known[&A].stretches, [Run { first: 0, pages: 8, rank: 1, seen: 1 }]);
    }

    #[test]
    fn what_is_written_is_neither_loaded_nor_needed_when_it_is_read_again() {
        let mut learner = learner();
        learner.points.writes = true;
        for (time, thread, touch) in [
            (10, 1, Touch::Loaded(A, 0, 4)),
            (11, 2, Touch::Loaded(B, 0, 1)),
            (12, 1, Touch::Dirty(A.inode, 0)),
            (13, 2, Touch::Asleep),
            (14, 1, Touch::Loaded(A, 4, 1)),
            (20, 2, Touch::Read(A, 0, 6)),
            (30, 1, Touch::Read(A, 4, 4)),
        ] {
            learner.told(time, thread, touch);
        }
        learner.close();
        assert_eq!(learner.known[&B].stretches, [Run { first: 0, pages: 1, rank: 0, seen: 1 }]);
        // Only what another has read of it, and what it has read itself and not written.
        assert_eq!(learner.known[&A].stretches, [Run { first: 4, pages: 3, rank: 1, seen: 1 }]);
        assert_eq!(learner.loaded, 2);
    }

    #[test]
    fn only_events_that_are_complete_over_all_rings_are_taken() {
        let mut learner = learner();
        learner.batch = vec![(50, 1, What::Back), (40, 1, What::Touch(Touch::Asleep))];
        learner.settle(45);
        assert_eq!((learner.waited, learner.batch.len()), (0, 1));
        learner.close();
        assert_eq!(learner.waited, 10);
    }

    #[test]
    fn sleep_counts_from_state_d_until_the_thread_is_back() {
        let mut learner = learner();
        let asleep = What::Touch(Touch::Asleep);
        learner.batch = vec![
            (5, 1, What::Back),
            (10, 1, asleep),
            (15, 2, asleep),
            (25, 1, What::Back),
            (40, 2, What::Back),
        ];
        learner.close();
        assert_eq!(learner.waited, 40);
    }

    #[test]
    fn a_page_is_missed_where_its_thread_loads_it_and_not_where_it_loads_ahead() {
        let mut thread = Thread::default();
        // A fault is told before its page is loaded, with what lies around it.
        assert!(!thread.asks(A, 40, false));
        assert_eq!(
            [thread.loads(A, 32, 36), thread.loads(B, 40, 44), thread.loads(A, 36, 64)],
            [None, None, Some(40)]
        );
        assert!(!thread.asks(A, 40, false), "the same fault, once its page is there");
        assert_eq!(thread.loads(A, 64, 96), None, "ahead of the next");
        // A buffered read is told after.
        assert_eq!([thread.loads(A, 100, 104), thread.loads(A, 104, 132)], [None, None]);
        assert!(thread.asks(A, 100, true));
        assert!(!thread.asks(A, 104, true), "what came with it");
        assert_eq!(thread.loads(A, 132, 164), None);
        assert!(!thread.asks(A, 108, true), "ahead of the reader");
    }

    #[test]
    fn small_files_that_are_missed_one_after_the_other_are_a_trail_and_what_is_there_is_none() {
        let volumes = Volumes::of(vec![volume()]);
        let of = |inodes: Range<u64>, loaded: bool| {
            let mut learner = learner();
            learner.neighbours = Some(Neighbours::new(&volumes, true, &Charge::default()));
            for inode in inodes {
                let file = FileId { inode, ..A };
                learner.event(
                    inode,
                    1,
                    if loaded { Touch::Loaded(file, 0, 4) } else { Touch::Read(file, 0, 3) },
                );
            }
            learner.neighbours.map(|neighbours| neighbours.sums.files)
        };
        assert_eq!((of(100..110, false), of(100..103, true)), (Some(0), Some(16)));
        assert!(of(100..110, true) > Some(16));
    }

    #[test]
    fn metadata_that_we_loaded_for_it_is_learnt_and_its_pages_are_not() {
        let mut learner = learner();
        let volume = Volume { block_device: Some("/dev/loop0".into()), ..volume() };
        let device = FileId { major: 0, minor: 3, inode: u64::from(volume.device.0) };
        let metadata = volume.metadata_file();
        learner.volumes = Volumes::of(vec![volume]);
        learner.ours(5, Touch::Loaded(device, 40, 1), None);
        learner.ours(6, Touch::Loaded(A, 0, 4), None);
        learner.close();
        assert_eq!(learner.known.keys().copied().collect::<Vec<_>>(), [metadata]);
        assert_eq!(learner.known[&metadata].stretches, [Run { first: 40, pages: 1, rank: 0, seen: 1 }]);
        assert_eq!(learner.loaded, 0, "it did not wait for them");
    }

    #[test]
    fn many_files_are_looked_up_in_their_order_whoever_does_it() {
        let root = tempfile::tempdir().expect("a folder");
        let Some(volume) = Volumes::now().holding(root.path()) else { return };
        let device = volume.device;
        let mut learner = learner();
        let mut ids = Vec::new();
        for number in 0..2 * FILES_A_HELPER {
            let path = root.path().join(format!("{number}"));
            std::fs::write(&path, vec![1; 1 + number]).expect("room on disk");
            let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).expect("just made"));
            let id = FileId { major: device.major(), minor: device.minor(), inode };
            learner.paths.insert(id, path.to_string_lossy().into_owned());
            ids.push(id);
        }
        learner.volumes = Volumes::of(vec![volume]);
        let none = BTreeMap::new();
        let found = learner.entries(&ids, &none);
        let sizes = found.iter().map(|file| file.as_ref().map(|file| (file.inode, file.state.size)));
        let wanted = ids.iter().zip(1..).map(|(id, size)| Some((id.inode, size)));
        assert_eq!(sizes.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        // What was named before counts where it is still so.
        let before = |(id, file): (&FileId, &Option<File>)| {
            let size = file.as_ref().map_or(0, |file| file.state.size);
            let state = forerun_manifest::FileState { size: size - size % 2, ..file.as_ref()?.state };
            Some((
                *id,
                File { runs: vec![Run { first: 0, pages: 1, rank: 0, seen: 1 }], state, ..file.clone()? },
            ))
        };
        learner.named = ids.iter().zip(&found).filter_map(before).collect();
        let again = learner.entries(&ids, &none).into_iter().flatten();
        let kept = again.filter(|file| !file.runs.is_empty()).map(|file| file.state.size);
        assert_eq!(
            kept.collect::<Vec<_>>(),
            (1..=ids.len() as u64).filter(|size| size % 2 == 0).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_long_read_is_walked_once() {
        let mut learner = learner();
        for part in 0..10 {
            learner.event(part, 1, Touch::Asked(A, part * 31, 1000));
        }
        learner.close();
        assert_eq!(learner.known[&A].stretches, [Run { first: 0, pages: 1001, rank: 0, seen: 1 }]);
        assert_eq!(clipped(learner.known[&A].stretches.clone(), 4097)[0].pages, 2);
    }
}
