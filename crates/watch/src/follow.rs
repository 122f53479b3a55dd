//! One run of a command, read ahead of by what its last runs taught, and learnt from for the next.
//!
//! ```text
//!   key ─▶ manifest? ──no──▶ run, learn ─────────────────────────────────▶ keep
//!             │ yes
//!             ├─ decide: replay · hold this run out · leave it alone, it does not pay (`worth.rs`)
//!             └─▶ replay beside the run, learn, measure ─▶ merge ─▶ keep
//! ```
//!
//! What a run waited is how long its threads slept in state D. What it would have waited without is an estimate: what the last run that was
//! not read ahead of waited for each page that it loaded, times the pages that this one needed, and no more than whole runs took that were left
//! alone. One run in twenty is held out for that, so that the figure does not grow old.

use crate::ahead::{Ahead, AheadError, Wished};
use crate::density::{Dense, Density};
use crate::firsts::Firsts;
use crate::frames::{Frames, Parts};
use crate::learn::Learner;
use crate::naming::Naming;
use crate::neighbours::{self, Neighbours, SmallFiles};
use crate::outcome::{Ended, Progress, RecordError};
use crate::payers::Charge;
use crate::pressure::Gate;
use crate::record::unsupported;
use crate::replay::{Budget, Pacing, Planned, Replay, Replayed};
use crate::ring::{Beside, Scope};
use crate::session::{self, Collect as _, Plan, RING_BYTES, RING_BYTES_OF_OURS};
use crate::store::Store;
use crate::touches::Points;
use crate::unnamed::Unnamed;
use crate::volumes::Volumes;
pub use crate::worth::Decision;
use crate::{attached, crew, names, snapshot, subvolume, sys, touches, worth};
use forerun_core::registry::SchemeSpec;
use forerun_manifest::{File, FileSystem, History, Key, Manifest, Run, Timed, Times, run};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Shortest sleep of the loop: how far behind the pacing may be.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The same where a scheme may have to be quick; once it has asked for something it is looked at sooner (`session.rs`).
const LOOK_EVERY_AHEAD: Duration = Duration::from_millis(2);
/// The part that knows patterns that the kernel does not.
pub(crate) const PATTERNS: &str = "stride";
/// Of a command that was in memory, one run in so many is watched all the same: it may want something new.
const HERE_AGAIN: u32 = 8;
/// Files without a name are searched for where they are more than one in so many.
const UNFOUND_ONE_IN: usize = 8;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// A process that somebody else has started, instead of a command.
    pub process: Option<Process>,
    /// What of its budgets a replay may use.
    pub gate: Arc<Gate>,
    /// Whose cgroup pays for what is read ahead of such a process.
    pub charge: Charge,
    /// Where manifests are kept; `None`: the run is recorded, and nothing kept.
    pub store: Option<Store>,
    /// Another key than the program's.
    pub key: Option<Key>,
    /// What is read ahead, instead of what is known of the key.
    pub given: Option<(Manifest, Volumes)>,
    /// A scheme that reads ahead by patterns, beside the replay.
    pub scheme: Option<SchemeSpec>,
    /// Without one, strides and reverse reads are read ahead of, unless the run is held out.
    pub patterns: bool,
    /// Whether a manifest that is there is replayed.
    pub replay: bool,
    /// Programs in the kernel may tell of what a command touches.
    pub bpf: bool,
    /// End the command when somebody sets this.
    pub stop: Option<Arc<AtomicBool>>,
}

/// A process that is followed for a while, with all that it starts.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Only files on these devices are read ahead; empty: all.
    pub devices: BTreeSet<(u32, u32)>,
    /// How long it is learnt from at most.
    pub most: Duration,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was decided.
    pub decision: Decision,
    /// What is known now.
    pub manifest: Manifest,
    /// Bytes of the manifest's file; `None` if none was kept.
    pub kept: Option<u64>,
    /// Why it could not be kept: that is no failure of the command.
    pub unkept: Option<String>,
    /// What was read ahead.
    pub replayed: Replayed,
    /// What the scheme read ahead, if there was one.
    pub wished: Option<Wished>,
    /// Whole strips that were read where most of each was wanted, if any were.
    pub dense: Option<Dense>,
    /// Small files that were read beside those that it read, if any were.
    pub beside: Option<SmallFiles>,
    /// A device among those that were read ahead of turns.
    pub rotating: bool,
    /// How the run went.
    pub run: History,
    /// Whether there is a run to compare with, so that `run.without` says something.
    pub estimated: bool,
    /// What was loaded from file systems that are not read ahead of.
    pub unnamed: Vec<Unnamed>,
    /// Whether all that a process had started before it was followed was found: else what was waited and used is more than is told.
    pub all_followed: bool,
    /// Processor time of Forerun, nanoseconds.
    pub cpu: u64,
    /// Events that did not fit into the ring.
    pub lost: u64,
    /// Whether touches were seen, not only what was loaded.
    pub touches: bool,
    /// Where they were not, whether what was read ahead was looked for in memory: else a replay ends after [`crate::replay::AHEAD_PAGES`].
    pub looked_for: bool,
    /// Programs in the kernel told of touches in the end.
    pub bpf: bool,
    /// Why it ended.
    pub ended: Ended,
    /// What was wrong with the manifest that was there.
    pub damaged: Option<String>,
}

/// Why there was no run, or none that was kept.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The run could not be watched.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The scheme is none of a page cache.
    #[error(transparent)]
    Scheme(#[from] AheadError),
}

/// The key of a command: the file that would be run, where, with which arguments.
#[must_use]
pub fn key_of(command: &[OsString]) -> Option<Key> {
    let (program, arguments) = command.split_first()?;
    let path = session::program_path(Path::new(program))?.canonicalize().ok()?;
    // To open a pipe is to wait for its other end.
    let inode = fs::metadata(&path).ok().filter(fs::Metadata::is_file)?.ino();
    let file = sys::open(&path, libc::O_RDONLY).ok();
    let uuid = file.and_then(|file| sys::fs_uuid(std::os::fd::AsFd::as_fd(&file))).unwrap_or_default();
    let folder = std::env::current_dir().ok()?;
    Some(Key::Program { path, uuid, inode, folder, arguments: arguments.to_vec() })
}

/// The key under which a run of the program that a process has just begun would be kept; of a script it is that of its interpreter.
#[must_use]
pub fn key_of_process(pid: u32) -> Option<Key> {
    let at = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let path = fs::read_link(at("exe")).ok()?;
    // Whoever begins a program of a server that does not answer holds nobody up here.
    let about = names::known(&at("exe")).ok()?;
    let file = (!names::asks_others(&about)).then(|| sys::open(&at("exe"), libc::O_RDONLY));
    let file = file.transpose().ok()?;
    let uuid = file.and_then(|file| sys::fs_uuid(std::os::fd::AsFd::as_fd(&file))).unwrap_or_default();
    let inode = about.stx_ino;
    let folder = fs::read_link(at("cwd")).ok()?;
    // For a moment of its start a process has its program and not yet its arguments.
    let words = fs::read(at("cmdline")).ok().filter(|words| !words.is_empty())?;
    let words = words.strip_suffix(b"\0").unwrap_or(&words);
    let arguments = words.split(|&byte| byte == 0).skip(1).map(|word| OsString::from_vec(word.to_vec()));
    Some(Key::Program { path, uuid, inode, folder, arguments: arguments.collect() })
}

/// Runs a command as [`FollowOptions`] say.
///
/// # Errors
/// [`FollowError::Record`] where the kernel or a privilege is missing, or the command cannot be started.
pub fn follow(options: &FollowOptions, progress: &mut dyn FnMut(Progress)) -> Result<Report, FollowError> {
    let begun = Begun::now(options);
    let known = what_is_known(options);
    let mut decision = decision(options, known.known.as_ref());
    let first = (!decision.leaves_alone()).then(attached::begin);
    // Before the events are opened: they are inherited by whatever this thread starts afterwards.
    let planned = known.known.as_ref().filter(|_| decision == Decision::Replay).map(|manifest| {
        Planned::new(manifest, &replayable(options, &known.volumes), Pacing::On, &budget(options))
    });
    if may_leave_alone(options)
        && planned.as_ref().is_some_and(Planned::is_here)
        && !lot().is_multiple_of(HERE_AGAIN)
    {
        decision = Decision::Here;
    }
    match known.known {
        Some(manifest) if decision.leaves_alone() => {
            drop(first);
            leave_alone(options, manifest, decision, &begun)
        }
        _ => {
            let report = watched(options, known, decision, planned.map(Planned::start), &begun, progress);
            drop(first);
            report
        }
    }
}

/// What a replay may use.
fn budget(options: &FollowOptions) -> Budget {
    // Whose own cgroup pays has processes of its own load it, whose pages are not told.
    let by_frames = !options.charge.is_reader() && !touches::are_told() && Frames::open().is_ok();
    let usual = Budget { gate: Arc::clone(&options.gate), by_frames, ..Budget::default() };
    let Some(Process { pid, .. }) = options.process else { return usual };
    Budget { window: options.charge.window_pages(pid), bill: options.charge.bill(pid), ..usual }
}

/// What there was before a run.
struct Begun {
    at: Instant,
    /// Bytes that children had devices read.
    read: u64,
    /// Processor time that was used before, ns: none of the run of a command, for which alone we are here.
    cpu: u64,
}

impl Begun {
    fn now(options: &FollowOptions) -> Self {
        let cpu = options.process.as_ref().map_or(0, |_| sys::own_cpu());
        Self { at: Instant::now(), read: sys::children_read(), cpu }
    }

    /// Processor time that was used since; of a daemon all of it, whatever it did meanwhile.
    fn cpu(&self) -> u64 {
        sys::own_cpu().saturating_sub(self.cpu)
    }

    /// How long it took, and what it loaded beside `pages` that were loaded for it.
    fn timed(&self, pages: u64) -> Timed {
        let elapsed = u64::try_from(self.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Timed { elapsed, pages: pages + (sys::children_read() - self.read) / 4096 }
    }
}

/// Whether a run may be left wholly alone: a command of which something is kept, and nothing else is asked for.
fn may_leave_alone(options: &FollowOptions) -> bool {
    options.process.is_none()
        && options.store.is_some()
        && options.given.is_none()
        && options.scheme.is_none()
}

/// A number of even chance.
fn lot() -> u32 {
    // Each of these has keys of its own, by chance of the system.
    std::hash::RandomState::new().build_hasher().finish() as u32
}

fn decision(options: &FollowOptions, known: Option<&Manifest>) -> Decision {
    match known {
        _ if !options.replay => Decision::NotAsked,
        None => Decision::Record,
        Some(known) if may_leave_alone(options) => worth::decide(known, lot()),
        Some(known) => worth::decide_beside(known),
    }
}

/// Keeps what was learnt: bytes of the manifest's file, or why there is none.
fn keep(store: Option<&Store>, manifest: &Manifest) -> (Option<u64>, Option<String>) {
    match store.map(|store| store.keep(manifest)) {
        None => (None, None),
        Some(Ok(bytes)) => (Some(bytes), None),
        Some(Err(problem)) => (None, Some(problem.to_string())),
    }
}

/// A run of which nothing is watched.
fn leave_alone(
    options: &FollowOptions,
    mut manifest: Manifest,
    decision: Decision,
    begun: &Begun,
) -> Result<Report, FollowError> {
    let ended = session::run_alone(&options.command, options.stop.as_deref())?;
    let timed = begun.timed(0);
    let (mut kept, mut unkept) = (None, None);
    if decision == Decision::Alone && !ended.is_stopped() {
        manifest.remember_times(Times { alone: vec![timed], ..Times::default() });
        worth::learn(&mut manifest.times, decision);
        (kept, unkept) = keep(options.store.as_ref(), &manifest);
    }
    Ok(Report {
        decision,
        manifest,
        kept,
        unkept,
        replayed: Replayed::default(),
        wished: None,
        dense: None,
        beside: None,
        rotating: false,
        run: History { elapsed: timed.elapsed, ..History::default() },
        estimated: false,
        unnamed: Vec::new(),
        all_followed: true,
        cpu: begun.cpu(),
        lost: 0,
        touches: true,
        looked_for: false,
        bpf: false,
        ended,
        damaged: None,
    })
}

/// A run that is watched, and perhaps read ahead of.
fn watched(
    options: &FollowOptions,
    known: Known,
    decision: Decision,
    mut replay: Option<Replay>,
    begun: &Begun,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, FollowError> {
    let Known { key, known, volumes, damaged } = known;
    let points = Points::load().map_err(unsupported)?;
    let touches = points.touches;
    let (ids, narrow, loads) = (points.ids.clone(), points.narrow.clone(), points.loads());
    let hits = points.hits.clone();
    let learner = learner(options, decision, points, volumes, replay.as_ref())?;
    let ours = ours(&learner);
    let everyone: &[u64] = if ours.is_some() { &loads } else { &[] };
    let plan = plan(options, &ids, &narrow, learner.ahead.is_some());
    let plan = Plan { everyone, of_everyone: ours.as_deref(), hits: &hits, ..plan };
    let by_frames = learner.parts.is_some();
    let done = session::run(&plan, learner, progress);
    if let Some(replay) = &replay {
        replay.stop();
    }
    let done = done?;
    let (lost, ended, all_followed) = (done.lost, done.ended, done.whole);
    let (learner, bpf) = closed(done.collector, wants_names(options, decision, ended));
    let is_unseen = replay.as_ref().is_some_and(Replay::is_unseen);
    let replayed = sums(replay.as_ref(), (touches || by_frames) && !is_unseen);
    let unnamed = learner.unnamed();
    // What was waited by some of it alone is compared with nothing, nor what was waited for what nobody reads ahead.
    let elsewhere: u64 = unnamed.iter().map(|unnamed| unnamed.pages).sum();
    let is_ours = all_followed && elsewhere <= replayed.used + replayed.metadata_pages;
    let past = known.as_ref().filter(|_| is_ours);
    let (run, estimate) = how_it_went(&learner, replay.as_ref().map(|_| &replayed), past, done.elapsed);
    let wished = learner.ahead.as_ref().map(Ahead::wished);
    let wished = wished.filter(|wished| options.scheme.is_some() || wished.pages > 0);
    let dense = learner.density.as_ref().map(Density::sums).filter(|dense| dense.strips > 0);
    let beside = learner.neighbours.as_ref().map(|of| of.sums).filter(|sums| sums.files > 0);
    let rotating = replay.as_ref().is_some_and(|replay| replay.rotating);
    let mut manifest = combine(known, learner, replay.take(), key, (run, all_followed), touches);
    // Part of a run is not to be compared with whole ones.
    let whole = !ended.is_stopped();
    if whole && options.process.is_none() {
        time(&mut manifest.times, decision, run.replayed, begun.timed(replayed.pages), &options.scheme);
    }
    let whole = whole || options.process.is_none();
    let (kept, unkept) = keep(options.store.as_ref().filter(|_| whole), &manifest);
    Ok(Report {
        decision,
        manifest,
        kept,
        unkept,
        replayed,
        wished,
        dense,
        beside,
        rotating,
        run,
        estimated: estimate.is_some(),
        unnamed,
        all_followed,
        cpu: begun.cpu(),
        lost,
        touches,
        looked_for: by_frames,
        bpf,
        ended,
        damaged,
    })
}

/// All that was told is taken, and files without a name are looked for where that is wanted; whether programs in the kernel told in the end.
fn closed(mut learner: Learner, wants_names: bool) -> (Learner, bool) {
    learner.close();
    let bpf = learner.is_told_otherwise();
    if wants_names {
        find_names(&mut learner);
    }
    (learner, bpf)
}

/// Whose loads of ours are to be told, as a filter of the kernel: of files beside each other, or of a replay whose touches are not told.
fn ours(learner: &Learner) -> Option<String> {
    let beside = learner.neighbours.as_ref().map(|_| neighbours::WORKER);
    let worker = learner.parts.as_ref().map(|_| crew::WORKER).or(beside);
    worker.map(|name| format!("comm == \"{name}\""))
}

/// Who learns from a run, and reads ahead of what no replay knows: of patterns, and where nothing is known, of whole MiB and of small files
/// beside each other.
fn learner(
    options: &FollowOptions,
    decision: Decision,
    points: Points,
    volumes: Volumes,
    replay: Option<&Replay>,
) -> Result<Learner, FollowError> {
    let (scheme, tells_touches) = (by_patterns(options, decision), points.touches);
    // What a replay reads ahead is not missed, and who knows no touches takes what is there for missed.
    let strips = scheme.is_some() && options.scheme.is_none() && replay.is_none();
    let unknown = strips && points.touches && options.process.is_none();
    let ahead = scheme.map(|scheme| Ahead::new(scheme, &volumes, &Charge::default())).transpose()?;
    let density = unknown.then(|| Density::new(&volumes, false, &Charge::default()));
    let neighbours = unknown.then(|| Neighbours::new(&volumes, false, &Charge::default()));
    let ledger = replay.map(Replay::ledger);
    let by_frames = ledger.as_ref().is_some_and(|ledger| ledger.tells_asked());
    let parts = if by_frames { Frames::open().ok().map(Parts::new) } else { None };
    let naming = if options.process.is_none() { Naming::begin(volumes.clone()) } else { None };
    let mut learner = Learner::new(points, volumes, ledger);
    (learner.parts, learner.naming) = (parts, naming);
    learner.firsts = (tells_touches && options.bpf && options.process.is_none()).then(Firsts::begin);
    (learner.ahead, learner.patient) = (ahead, options.scheme.is_none());
    (learner.density, learner.neighbours) = (density, neighbours);
    Ok(learner)
}

/// What a replay did, if there was one. Where nothing tells what is used it counts as used, and waits say whether it earns anything.
fn sums(replay: Option<&Replay>, uses_are_told: bool) -> Replayed {
    let did = replay.map(Replay::sums).unwrap_or_default();
    if uses_are_told { did } else { Replayed { used: did.pages - did.metadata_pages, ..did } }
}

/// What a run took and waited, and what it would have waited without being read ahead of.
fn how_it_went(
    learner: &Learner,
    replayed: Option<&Replayed>,
    known: Option<&Manifest>,
    elapsed: Duration,
) -> (History, Option<u64>) {
    // What read nothing ahead has spared nothing.
    let did = replayed.filter(|did| did.pages > 0);
    let needed = did.map(|did| learner.loaded + did.used + did.metadata_pages);
    let estimate = needed.and_then(|needed| {
        let known = known?;
        without(&known.history, &known.times.alone, needed)
    });
    let run = History {
        replayed: replayed.is_some(),
        elapsed: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
        waited: learner.waited,
        without: estimate.unwrap_or(0),
        loaded: replayed.map_or(learner.loaded, |did| did.pages),
        used: replayed.map_or(0, |did| did.used),
    };
    (run, estimate)
}

/// Remembers what a run took, unless a scheme was to be tried on it.
fn time(times: &mut Times, decision: Decision, replayed: bool, timed: Timed, scheme: &Option<SchemeSpec>) {
    if scheme.is_some() {
        return;
    }
    let list = if replayed { &mut times.ahead } else { &mut times.watched };
    list.push(timed);
    list.drain(..list.len().saturating_sub(forerun_manifest::manifest::TIMES_MAX));
    worth::learn(times, decision);
}

/// The scheme that reads ahead by patterns, if there is one. A run that is held out is left alone.
fn by_patterns(options: &FollowOptions, decision: Decision) -> Option<SchemeSpec> {
    let usual = || SchemeSpec::parse(PATTERNS).expect("a scheme of the registry");
    let wanted = options.patterns && decision != Decision::HoldOut;
    options.scheme.clone().or_else(|| wanted.then(usual))
}

/// Whose events are taken, and until when.
fn plan<'a>(
    options: &'a FollowOptions,
    ids: &'a [u64],
    narrow: &'a [(usize, String)],
    quick: bool,
) -> Plan<'a> {
    let process = options.process.as_ref();
    Plan {
        ids,
        everyone: &[],
        of_everyone: None,
        ring_bytes: [RING_BYTES, RING_BYTES_OF_OURS],
        scope: process.map_or(Scope::StartedByThisThread, |process| Scope::Process(process.pid)),
        beside: Beside::TasksAndSwitches,
        filter: None,
        narrow,
        hits: &[],
        argv: process.is_none().then_some(&options.command[..]),
        duration: process.map(|process| process.most),
        stop: options.stop.as_deref(),
        look_every: if quick { LOOK_EVERY_AHEAD } else { LOOK_EVERY },
    }
}

/// File systems that a replay may read of.
fn replayable(options: &FollowOptions, volumes: &Volumes) -> Volumes {
    let within = |process: &Process| volumes.within(&process.devices);
    options.process.as_ref().map_or_else(|| volumes.clone(), within)
}

/// What there is before a run.
struct Known {
    key: Key,
    known: Option<Manifest>,
    volumes: Volumes,
    damaged: Option<String>,
}

/// The key of a command, its manifest, or what was given in the place of one.
fn what_is_known(options: &FollowOptions) -> Known {
    let key = options.key.clone().or_else(|| key_of(&options.command)).unwrap_or_else(|| {
        let name = options.command.first().map(|name| name.to_string_lossy().into_owned());
        Key::Named { kind: "program".into(), name: name.unwrap_or_default() }
    });
    if let Some((given, volumes)) = options.given.clone() {
        return Known { key, known: Some(given), volumes, damaged: None };
    }
    let (known, damaged) = match options.store.as_ref().map(|store| store.load(&key)) {
        Some(Ok(known)) => (known, None),
        Some(Err(error)) => (None, Some(error.to_string())),
        None => (None, None),
    };
    Known { key, known, volumes: Volumes::now(), damaged }
}

/// What a run that needed so many pages would have waited, about: by the page, as the last run waited that was not read ahead of and loaded
/// something. No more than whole runs took that were not read ahead of and loaded about as much; of a run that waited in several threads at once
/// as many times that as it waited at once.
fn without(history: &[History], left_alone: &[Timed], needed: u64) -> Option<u64> {
    let like = history.iter().rev().find(|run| !run.replayed && run.loaded > 0)?;
    let times = |of: u64, parts: u64, all: u64| u128::from(of) * u128::from(parts) / u128::from(all.max(1));
    let waited = times(like.waited, needed, like.loaded);
    let timed = left_alone.iter().filter(|run| run.pages >= needed / 2).map(|run| run.elapsed);
    let watched = history.iter().filter(|run| !run.replayed && run.loaded >= needed / 4 * 3);
    let longest = timed.chain(watched.map(|run| run.elapsed)).max();
    let most = longest.map(|longest| times(longest, like.waited, like.elapsed).max(u128::from(longest)));
    u64::try_from(waited.min(most.unwrap_or(u128::MAX))).ok()
}

/// Whether files without a name are looked for. Of a process whose manifest is known most have one, and whoever watches all programs has other
/// things to do; who is stopped has somebody wait for it, and keeps nothing of a process.
fn wants_names(options: &FollowOptions, decision: Decision, ended: Ended) -> bool {
    options.process.is_none() || decision == Decision::Record && !ended.is_stopped()
}

/// Paths of files that no number opens (btrfs, and XFS for whoever may not ask it), by handle or by a walk over their file systems.
fn find_names(learner: &mut Learner) {
    let wanted = learner.nameless().into_iter().collect::<BTreeSet<_>>();
    if wanted.is_empty() {
        return;
    }
    let mounts = names::Mounts::of_this_process();
    let (numbered_anew, wanted): (BTreeSet<_>, BTreeSet<_>) =
        wanted.into_iter().partition(|file| learner.has_subvolumes(*file));
    let mut found = names::walk(&[], &wanted, &mounts);
    // What was just read is in memory, and its namesake in another subvolume is not.
    let (by_handle, left) = subvolume::find(&numbered_anew, &mounts);
    found.extend(by_handle);
    // A few that are nowhere are files that are no more: they are not worth a walk.
    if left.len() * UNFOUND_ONE_IN > numbered_anew.len() {
        found.extend(names::walk_subvolumes(&left, &mounts, &snapshot::is_in_memory));
    }
    learner.name(found.into_iter().map(|(file, path)| (file, path.to_string_lossy().into_owned())));
}

/// The old manifest without what is stale, and the new recording in it. Of a run of which not all was followed no figure is kept, and what it was
/// not seen to use is not taken for unused.
fn combine(
    known: Option<Manifest>,
    learner: Learner,
    replay: Option<Replay>,
    key: Key,
    (run, all_followed): (History, bool),
    touches: bool,
) -> Manifest {
    let (standing, stale) = replay.as_ref().map(Replay::verdicts).unwrap_or_default();
    let mut new = learner.into_manifest(key, &standing);
    new.history.extend(all_followed.then_some(run));
    let Some(mut manifest) = known else { return new };
    let mut number = 0;
    manifest.files.retain(|_| {
        number += 1;
        !stale.contains(&(number - 1))
    });
    if run.replayed {
        metadata_again(&manifest, &mut new);
    }
    if run.replayed && !(touches && all_followed) {
        files_again(&manifest, &mut new);
    }
    manifest.take_in(new);
    manifest
}

/// The same pages, seen in one run.
fn once(runs: &[Run]) -> impl Iterator<Item = Run> {
    runs.iter().map(|run| Run { seen: 1, ..*run })
}

/// Where the file system of an entry stands in another manifest.
fn place_in(other: &Manifest, fs: &FileSystem) -> Option<usize> {
    other.file_systems.iter().position(|known| known.uuid == fs.uuid && known.mount == fs.mount)
}

/// Metadata that was read ahead cannot be seen to be used: it counts as seen for as long as the rest is.
fn metadata_again(known: &Manifest, new: &mut Manifest) {
    for old in &known.file_systems {
        if let Some(at) = place_in(new, old) {
            let fs = &mut new.file_systems[at];
            fs.metadata = run::pack(fs.metadata.iter().copied().chain(once(&old.metadata)).collect());
        }
    }
}

/// Where no touches are seen, files that were read ahead cannot be seen to be used either: their pages count as seen, for as long as each
/// file is the same.
fn files_again(known: &Manifest, new: &mut Manifest) {
    let places = known.file_systems.iter().map(|fs| {
        place_in(new, fs).unwrap_or_else(|| {
            new.file_systems.push(FileSystem { metadata: Vec::new(), ..fs.clone() });
            new.file_systems.len() - 1
        })
    });
    // A manifest has a few file systems.
    let places: Vec<u32> = places.map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect();
    let seen: BTreeMap<(u32, u64), usize> =
        new.files.iter().enumerate().map(|(at, file)| ((file.file_system, file.inode), at)).collect();
    for old in &known.files {
        let Some(&at) = places.get(old.file_system as usize) else { continue };
        match seen.get(&(at, old.inode)).map(|&number| &mut new.files[number]) {
            None => {
                let runs = once(&old.runs).collect();
                new.files.push(File { file_system: at, runs, ..old.clone() });
            }
            Some(file) if old.stale(&file.state).is_none() => {
                file.runs = run::pack(file.runs.iter().copied().chain(once(&old.runs)).collect());
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
