//! A replay for nobody in particular: all of a manifest, or as much of it as may be loaded, as fast as its devices are.
//!
//! ```text
//!   all that can be loaded, in the order of first touch ─▶ as much as the budget allows ─▶ load ─▶ is something left of the budget?
//!                                                                  ▲                               │ stale, or in memory already
//!                                                                  └─ next, of what is missing ◀───┘
//! ```
//!
//! The first pass asks nobody what is missing: where all is cold, to look would cost what to load does. Those after it look at
//! each request before they plan it, so that they are few and none loads more than is left.

use super::{
    Budget, FRESH, Pacing, Part, Planned, REASONS, Replayed, Unread, cached, code, cut, request_pages,
};
use crate::sys;
use crate::volumes::{self, Volume, Volumes};
use forerun_manifest::{File, Manifest, Run};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often whoever waits is told how far it is, and looks whether it is to stop.
const TOLD_EVERY: Duration = Duration::from_millis(20);

/// How a replay by itself went.
#[derive(Debug, Default)]
pub struct Alone {
    /// What it did; `files` are those of which something is in memory now.
    pub done: Replayed,
    /// What could not be read.
    pub unread: Option<Unread>,
    /// Pages that the budget leaves out, of what was not found to be stale.
    pub beyond: u64,
    /// It was stopped before all was done.
    pub interrupted: bool,
}

/// Replays a manifest by itself, until all of it is loaded or `stop` is set; pacing is off, because nobody's touches are seen:
/// `pages_max` bounds it instead, of which metadata has half where not all fits. What is stale, in memory already or cannot be
/// loaded takes nothing of that. `progress` is told the sums so far.
#[must_use]
pub fn replay(
    manifest: &Manifest,
    volumes: &Volumes,
    pages_max: u64,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Replayed),
) -> Alone {
    let (mut rest, mut alone, mut left) = (Rest::of(manifest, volumes), Alone::default(), pages_max);
    let mut plan = rest.first(left);
    while !plan.is_empty() && !alone.interrupted {
        let before = alone.done.pages;
        rest.load(&plan, volumes, &mut alone, stop, progress);
        left = left.saturating_sub(alone.done.pages - before);
        plan = if alone.interrupted { Plan::default() } else { rest.missing(left, stop, &mut alone.done) };
    }
    alone.interrupted |= left > 0 && rest.is_left() && stop.load(Ordering::Relaxed);
    alone.done.files = rest.reached.iter().filter(|reached| **reached).count() as u64;
    let stale = |reason| rest.verdicts.iter().filter(|verdict| **verdict == code(reason)).count() as u64;
    alone.done.stale = REASONS.map(stale);
    alone.beyond = rest.pages();
    // What was asked for and did not come is not loaded; what was there before and cannot be read did not count.
    let unread = alone.unread.as_ref().map_or(0, |unread| unread.pages);
    alone.done.pages = alone.done.pages.saturating_sub(unread);
    alone
}

/// Stretches, each of a file or of the device of a file system, by number.
type Stretches = Vec<(usize, Run)>;

/// What is loaded at a time.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) metadata: Stretches,
    pub(super) files: Stretches,
}

impl Plan {
    const fn is_empty(&self) -> bool {
        self.metadata.is_empty() && self.files.is_empty()
    }
}

/// What was not planned yet, in the order of first touch, and what came of the files so far.
pub(super) struct Rest<'a> {
    manifest: &'a Manifest,
    /// Of each of its file systems.
    meant: Vec<Option<&'a Volume>>,
    metadata: VecDeque<(usize, Run)>,
    files: VecDeque<(usize, Run)>,
    verdicts: Vec<u8>,
    reached: Vec<bool>,
}

impl<'a> Rest<'a> {
    /// All of a manifest that can be loaded: what is mounted, and metadata of devices that may be read.
    pub(super) fn of(manifest: &'a Manifest, volumes: &'a Volumes) -> Self {
        let meant: Vec<Option<&Volume>> = manifest.file_systems.iter().map(|fs| volumes.meant(fs)).collect();
        let is_read = |volume: &&Volume| volume.has_metadata_pages() && device(volume).is_some();
        let metadata = manifest.file_systems.iter().zip(&meant).map(|(fs, volume)| {
            let is_read = !fs.metadata.is_empty() && volume.as_ref().is_some_and(is_read);
            if is_read { &fs.metadata[..] } else { &[] }
        });
        let files = manifest.files.iter().map(|file| match meant.get(file.file_system as usize) {
            Some(Some(_)) => &file.runs[..],
            _ => &[],
        });
        Self {
            metadata: in_order(metadata),
            files: in_order(files),
            verdicts: vec![0; manifest.files.len()],
            reached: vec![false; manifest.files.len()],
            manifest,
            meant,
        }
    }

    /// The first pages of it. Metadata has half, and what files leave.
    pub(super) fn first(&mut self, pages: u64) -> Plan {
        let files: u64 = self.files.iter().map(|(_, run)| run.pages).sum();
        let metadata = take(&mut self.metadata, (pages / 2).max(pages.saturating_sub(files)));
        let left = pages - metadata.iter().map(|(_, run)| run.pages).sum::<u64>();
        Plan { metadata, files: take(&mut self.files, left) }
    }

    /// What comes next and has to be loaded, as much as may be; what is in memory is counted. Metadata comes last: files are there for their readers.
    fn missing(&mut self, left: u64, stop: &AtomicBool, done: &mut Replayed) -> Plan {
        let Self { manifest, meant, metadata, files, verdicts, reached } = self;
        let volume = |system: usize| meant.get(system).copied().flatten();
        let open = |number: usize| {
            let file = &manifest.files[number];
            let volume = volume(file.file_system as usize).filter(|_| verdicts[number] <= FRESH)?;
            match volumes::open_below(volume, None, file).ok()? {
                Ok(opened) => Some((opened.file, request_pages(volume))),
                Err(reason) => {
                    verdicts[number] = code(reason);
                    None
                }
            }
        };
        let files = missing(files, left, stop, open, |number, pages| {
            reached[number] = true;
            done.here += pages;
        });
        let left = left - files.iter().map(|(_, run)| run.pages).sum::<u64>();
        let open = |system: usize| volume(system).and_then(|of| Some((device(of)?, request_pages(of))));
        let metadata = missing(metadata, left, stop, open, |_, pages| done.here += pages);
        Plan { metadata, files }
    }

    /// Loads a part of it.
    fn load(
        &mut self,
        plan: &Plan,
        volumes: &Volumes,
        alone: &mut Alone,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Replayed),
    ) {
        let (within, numbers) = within(self.manifest, plan);
        let mut replay = Planned::new(&within, volumes, Pacing::Off, &Budget::default()).start();
        let mut is_over = false;
        while !is_over && !stop.load(Ordering::Relaxed) {
            progress(&sum(&alone.done, &replay.sums()));
            is_over = replay.is_over_within(TOLD_EVERY);
        }
        alone.interrupted = !is_over && !replay.is_over_within(Duration::ZERO);
        replay.stop();
        replay.finish();
        alone.done = sum(&alone.done, &replay.sums());
        let shared = &replay.shared;
        for ((&number, verdict), reached) in numbers.iter().zip(&shared.verdicts).zip(&shared.reached) {
            self.verdicts[number] = self.verdicts[number].max(verdict.load(Ordering::Relaxed));
            self.reached[number] |= reached.load(Ordering::Relaxed);
        }
        match (&mut alone.unread, shared.troubles.take()) {
            (Some(first), Some(more)) => first.pages += more.pages,
            (first, more) => *first = first.take().or(more),
        }
    }

    fn is_left(&self) -> bool {
        !self.files.is_empty() || !self.metadata.is_empty()
    }

    /// Pages that were not planned, but of files that are not what was recorded.
    fn pages(&self) -> u64 {
        let files = self.files.iter().filter(|(number, _)| self.verdicts[*number] <= FRESH);
        files.chain(&self.metadata).map(|(_, run)| run.pages).sum()
    }
}

/// The device that holds metadata, if it may be read.
fn device(volume: &Volume) -> Option<OwnedFd> {
    volume.block_device.as_deref().and_then(|at| sys::open(at, libc::O_RDONLY).ok())
}

/// Stretches of several lists in the order of first touch.
fn in_order<'a>(lists: impl Iterator<Item = &'a [Run]>) -> VecDeque<(usize, Run)> {
    let numbered = |(number, runs): (usize, &'a [Run])| runs.iter().map(move |run| (number, *run));
    let mut all: Stretches = lists.enumerate().flat_map(numbered).collect();
    all.sort_unstable_by_key(|&(number, run)| (run.rank, number, run.first));
    all.into()
}

/// Takes so many pages off the front of a list.
fn take(list: &mut VecDeque<(usize, Run)>, pages: u64) -> Stretches {
    let (mut taken, mut left) = (Vec::new(), pages);
    while left > 0
        && let Some((number, run)) = list.pop_front()
    {
        let pages = run.pages.min(left);
        taken.push((number, Run { pages, ..run }));
        put_back(list, number, run, pages);
        left -= pages;
    }
    taken
}

/// What is behind the first pages of a run comes next.
fn put_back(list: &mut VecDeque<(usize, Run)>, number: usize, run: Run, pages: u64) {
    if run.pages > pages {
        list.push_front((number, Run { first: run.first + pages, pages: run.pages - pages, ..run }));
    }
}

/// The same of pages that are not in memory, as they would be asked for: `open` opens what a number means, with the pages of a request;
/// `here` is told what is in memory. What cannot be opened is dropped.
fn missing(
    list: &mut VecDeque<(usize, Run)>,
    pages: u64,
    stop: &AtomicBool,
    mut open: impl FnMut(usize) -> Option<(OwnedFd, u64)>,
    mut here: impl FnMut(usize, u64),
) -> Stretches {
    let (mut taken, mut left) = (Vec::new(), pages);
    let mut last: Option<(usize, OwnedFd, u64)> = None;
    while left > 0
        && !stop.load(Ordering::Relaxed)
        && let Some((number, run)) = list.pop_front()
    {
        if last.as_ref().is_none_or(|(known, ..)| *known != number) {
            last = open(number).map(|(file, most)| (number, file, most));
        }
        let Some((_, file, most)) = &last else { continue };
        let Some(part) = cut(0, &run, *most).next() else { continue };
        let (mut pages, is_here) = (part.end - part.first, is_here(file, &part));
        if is_here {
            here(number, pages);
        } else {
            pages = pages.min(left);
            taken.push((number, Run { pages, ..run }));
            left -= pages;
        }
        put_back(list, number, run, pages);
    }
    taken
}

/// Whether a part is in memory, and could be read.
fn is_here(file: &OwnedFd, part: &Part) -> bool {
    cached(file, part) == Some(true) && rustix::io::pread(file, &mut [0_u8], (part.end - 1) * 4096).is_ok()
}

/// A plan as a manifest, and the number of each of its files in the whole.
fn within(manifest: &Manifest, plan: &Plan) -> (Manifest, Vec<usize>) {
    let mut within = Manifest::new(manifest.key.clone());
    within.recordings = manifest.recordings;
    within.file_systems.clone_from(&manifest.file_systems);
    within.file_systems.iter_mut().for_each(|fs| fs.metadata.clear());
    for (system, runs) in by_number(&plan.metadata) {
        within.file_systems[system].metadata = runs;
    }
    let files = by_number(&plan.files);
    let numbers = files.keys().copied().collect();
    let file = |(number, runs): (usize, Vec<Run>)| File { runs, ..manifest.files[number].clone() };
    within.files = files.into_iter().map(file).collect();
    (within, numbers)
}

/// The runs of each number, in the order of their pages; those that follow each other are one.
fn by_number(stretches: &[(usize, Run)]) -> BTreeMap<usize, Vec<Run>> {
    let mut all: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
    let mut sorted = stretches.to_vec();
    sorted.sort_unstable_by_key(|&(number, run)| (number, run.first));
    for (number, run) in sorted {
        let runs = all.entry(number).or_default();
        match runs.last_mut().filter(|last| last.end() == run.first && last.rank == run.rank) {
            Some(last) => last.pages += run.pages,
            None => runs.push(run),
        }
    }
    all
}

/// What two passes did; which files are stale is not a sum.
fn sum(one: &Replayed, other: &Replayed) -> Replayed {
    Replayed {
        pages: one.pages + other.pages,
        used: one.used + other.used,
        metadata_pages: one.metadata_pages + other.metadata_pages,
        metadata_requests: one.metadata_requests + other.metadata_requests,
        requests: one.requests + other.requests,
        here: one.here + other.here,
        untold: one.untold + other.untold,
        paced: one.paced || other.paced,
        files: other.files,
        stale: other.stale,
        refused: other.refused,
    }
}
