//! Programs of which a manifest is known, and units that were named, the boot among them: a run that begins is read ahead of by what its last runs taught, in
//! a thread of its own.
//!
//! ```text
//!   exec ─▶ key: of its unit, else of the process ─▶ manifest? ─▶ decide: replay · hold out · off ─▶ follow.rs, attached to the process
//!                                                       │ no
//!                                                       └─▶ a unit's first start is recorded; a program is not known
//!   the daemon begins, and the boot is not over ─▶ the same of the machine's first process
//! ```
//!
//! So a run has its own events, is paced by its own touches, and what it earned is measured by its own waits, as under
//! `forerun watch -- COMMAND`, which is also how a program becomes known. Where the daemon ends before a run, nothing is kept of it.

use crate::follow::{self, Decision, FollowError, FollowOptions, Process, Report};
use crate::payers::Charge;
use crate::pressure::Gate;
use crate::store::{Store, StoreError};
use crate::unit::{self, Unit};
use crate::volumes::Volumes;
use crate::worth;
use forerun_manifest::{Key, Manifest};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// File that says which boot was followed last.
const FOLLOWED: &str = "boot-followed";

/// How long a process that somebody else started is learnt from: a start, not a life.
const PROCESS_MAX: Duration = Duration::from_secs(120);

/// Runs that are followed at once: each has rings of its own.
pub(crate) const RUNS_MAX: usize = 4;

/// Programs of which is said that what is kept of them is damaged.
const DAMAGED_MAX: usize = 1_024;

/// A run of a known program.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its process.
    pub pid: u32,
    /// Its program, or the name of the unit that it starts.
    pub program: PathBuf,
    /// What of it.
    pub what: RunWhat,
}

/// What is told of a run.
#[derive(Clone, Debug)]
pub enum RunWhat {
    /// It has begun.
    Begun {
        /// What was decided.
        decision: Decision,
        /// Pages of files that are known of it.
        pages: u64,
        /// How many runs that is of.
        runs: u16,
    },
    /// It is over, or as old as a start may be.
    Ended(Box<Report>),
    /// It could not be followed.
    Failed(String),
}

/// The runs.
pub(crate) struct Runs {
    store: Store,
    /// Devices whose files are read ahead; none: all.
    devices: BTreeSet<(u32, u32)>,
    gate: Arc<Gate>,
    charge: Charge,
    stop: Arc<AtomicBool>,
    observe: bool,
    units: Vec<Unit>,
    /// Keys of programs of which was said that what is kept of them is damaged.
    damaged: BTreeSet<String>,
    /// Those that are followed: which of the units each is, its process, and who follows it.
    threads: Vec<(Option<usize>, u32, JoinHandle<()>)>,
    tell: Sender<Run>,
    told: Receiver<Run>,
}

impl Runs {
    pub(crate) fn new(
        store: Store,
        devices: BTreeSet<(u32, u32)>,
        gate: Arc<Gate>,
        charge: &Charge,
        stop: Arc<AtomicBool>,
        observe: bool,
        units: Vec<Unit>,
    ) -> Self {
        let (tell, told) = channel();
        let charge = charge.clone();
        let (damaged, threads) = (BTreeSet::new(), Vec::new());
        Self { store, devices, gate, charge, stop, observe, units, damaged, threads, tell, told }
    }

    /// The daemon begins; what is to be told of the boot, if that was named, is not over, and is not followed for the second time: a daemon that
    /// is started again would take the end of a boot for a whole one.
    pub(crate) fn boot(&mut self) -> Option<Run> {
        let left = |unit: &Unit| unit.boot_left();
        let (at, most) = (0..).zip(&self.units).find_map(|(at, unit)| Some((at, left(unit)?)))?;
        let id = unit::boot_id()?;
        if self.store.has_noted(FOLLOWED, &id) {
            return None;
        }
        if !self.observe {
            // Where that cannot be written nothing of the boot can be kept either.
            drop(self.store.note(FOLLOWED, &id));
        }
        let (key, program) = (self.units[at].key(), PathBuf::from(self.units[at].name()));
        let known = self.store.load(&key).ok().flatten();
        let process = Process { pid: unit::FIRST_PROCESS, devices: self.devices.clone(), most };
        Some(self.begin(Some(at), process, program, key, known))
    }

    /// A process has begun a program; what is to be told, if it is a known one or starts a unit.
    pub(crate) fn started(&mut self, pid: u32) -> Option<Run> {
        self.threads.retain(|(.., thread)| !thread.is_finished());
        // All that the first process starts belongs to the boot, and would be read ahead of twice.
        let boots = |of: &Option<usize>| of.is_some_and(|at| matches!(self.units[at], Unit::Boot(_)));
        if self.threads.iter().any(|(of, ..)| boots(of)) {
            return None;
        }
        let unit = unit::begun(pid, &self.units);
        let key = unit.map_or_else(|| follow::key_of_process(pid), |at| Some(self.units[at].key()))?;
        let known = match self.store.load(&key) {
            Ok(known) => known,
            // What is damaged is recorded anew: of a unit now, of a program by the next run under `watch -- COMMAND`.
            Err(_) if unit.is_some() => None,
            Err(problem) => return self.damaged(pid, &key, &problem),
        };
        // One whose process has ended is being kept, while the next of its unit may begin.
        let goes_on = unit.is_some() && self.threads.iter().any(|(of, pid, _)| *of == unit && is_there(*pid));
        if goes_on || self.threads.len() >= RUNS_MAX || is_followed_already(pid) {
            return None;
        }
        let program = match (&key, &known) {
            (Key::Program { path, .. }, Some(_)) => path.clone(),
            (Key::Named { name, .. }, _) => name.into(),
            _ => return None,
        };
        let process = Process { pid, devices: self.devices.clone(), most: PROCESS_MAX };
        Some(self.begin(unit, process, program, key, known))
    }

    /// What is kept of a program cannot be read, and it is not read ahead of: that is to be told, once.
    fn damaged(&mut self, pid: u32, key: &Key, problem: &StoreError) -> Option<Run> {
        let Key::Program { path, .. } = key else { return None };
        if self.damaged.len() >= DAMAGED_MAX || !self.damaged.insert(key.file_name()) {
            return None;
        }
        let what = format!("not read ahead of: {problem}, by `forerun watch -- COMMAND`");
        Some(Run { pid, program: path.clone(), what: RunWhat::Failed(what) })
    }

    /// Follows a run, unless only observing; what is to be told of it.
    fn begin(
        &mut self,
        unit: Option<usize>,
        process: Process,
        program: PathBuf,
        key: Key,
        known: Option<Manifest>,
    ) -> Run {
        let decision = known.as_ref().map_or(Decision::Record, worth::decide_beside);
        let (pages, runs) = known.as_ref().map_or((0, 0), |known| (known.file_pages(), known.recordings));
        let pid = process.pid;
        let begun = Run { pid, program: program.clone(), what: RunWhat::Begun { decision, pages, runs } };
        if self.observe {
            return begun;
        }
        let options = FollowOptions {
            command: Vec::new(),
            process: Some(process),
            gate: Arc::clone(&self.gate),
            charge: self.charge.clone(),
            store: Some(self.store.clone()),
            key: Some(key),
            given: known.map(|manifest| (manifest, Volumes::now())),
            scheme: None,
            patterns: false,
            replay: true,
            bpf: true,
            stop: Some(Arc::clone(&self.stop)),
        };
        let tell = self.tell.clone();
        let run = move || {
            let what = match follow::follow(&options, &mut |_| {}) {
                Ok(report) => RunWhat::Ended(Box::new(report)),
                Err(problem) => RunWhat::Failed(failure(pid, &problem)),
            };
            // Nobody listens any more once the daemon ends.
            drop(tell.send(Run { pid, program, what }));
        };
        // Without a thread it is not read ahead of.
        let thread = std::thread::Builder::new().name("forerun-run".into()).spawn(run);
        self.threads.extend(thread.ok().map(|thread| (unit, pid, thread)));
        begun
    }

    /// Runs that are followed.
    pub(crate) fn going(&self) -> usize {
        self.threads.iter().filter(|(.., thread)| !thread.is_finished()).count()
    }

    /// Runs that are over.
    pub(crate) fn ended(&self) -> impl Iterator<Item = Run> {
        self.told.try_iter()
    }

    /// Waits for those that go on; `stop` is set.
    pub(crate) fn finish(&mut self) {
        for (.., thread) in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Why a run could not be followed: mostly because it is over.
fn failure(pid: u32, problem: &FollowError) -> String {
    if is_there(pid) { problem.to_string() } else { "it ended before it was followed".into() }
}

/// Whether a process has not ended.
fn is_there(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Whether another Forerun has started the process, and follows it.
fn is_followed_already(pid: u32) -> bool {
    let exe = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
    let own = std::process::id();
    unit::parent_of(pid)
        .is_some_and(|parent| parent != own && exe(parent).is_some() && exe(parent) == exe(own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::RecordError;
    use std::time::{Duration, Instant};

    /// Runs that only observe, of a folder, with a boot that is not over.
    fn observing(folder: &Path) -> Runs {
        let (gate, stop) = (Arc::default(), Arc::default());
        let units = vec![Unit::Boot(Duration::MAX)];
        let store = Store::new(folder.to_owned());
        Runs::new(store, BTreeSet::new(), gate, &Charge::default(), stop, true, units)
    }

    #[test]
    fn a_boot_is_followed_once_and_another_one_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runs = observing(folder.path());
        let first = runs.boot().expect("nothing is noted");
        let RunWhat::Begun { decision: Decision::Record, pages: 0, runs: 0 } = first.what else {
            panic!("{first:?}")
        };
        assert_eq!((first.pid, first.program), (1, "boot".into()));
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "who observes notes nothing");
        let id = unit::boot_id().expect("of this machine");
        runs.store.note(FOLLOWED, &id).expect("room");
        assert!(runs.boot().is_none());
        runs.store.note(FOLLOWED, &format!("another {id}")).expect("room");
        assert!(runs.boot().is_some());
        runs.units.clear();
        assert!(runs.boot().is_none(), "it was not named");
    }

    #[test]
    fn while_a_boot_is_followed_no_program_is_by_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut runs = observing(folder.path());
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("a program");
        let begun = Instant::now();
        let key = loop {
            let key = follow::key_of_process(child.id());
            let known = key.filter(|key| matches!(key, Key::Program { path, .. } if path.ends_with("sleep")));
            if known.is_some() || begun.elapsed() > Duration::from_secs(20) {
                break known;
            }
        };
        if let Some(key) = key {
            runs.store.keep(&Manifest::new(key)).expect("room");
            assert!(runs.started(child.id()).is_some(), "it is known");
            let (end, ended) = channel::<()>();
            let goes_on = std::thread::spawn(move || ended.recv().unwrap_or_default());
            runs.threads.push((Some(0), unit::FIRST_PROCESS, goes_on));
            assert!(runs.started(child.id()).is_none());
            drop(end);
            runs.finish();
            assert!(runs.started(child.id()).is_some(), "it is over");
            let key = follow::key_of_process(child.id()).expect("it goes on");
            let path = runs.store.path(&key);
            let kept = fs::read(&path).expect("kept");
            fs::write(&path, &kept[..kept.len() - 1]).expect("room");
            let told = runs.started(child.id()).expect("it is said").what;
            let RunWhat::Failed(problem) = told else { panic!("{told:?}") };
            assert!(problem.contains("sleep") && problem.contains("record again"), "{problem}");
            assert!(runs.started(child.id()).is_none(), "once");
        }
        child.kill().and_then(|()| child.wait()).expect("ours");
    }

    #[test]
    fn a_run_that_is_over_before_it_is_followed_is_told_as_that() {
        let store = Store::new(PathBuf::from("/nonexistent"));
        let (gate, stop) = (Arc::default(), Arc::default());
        let mut runs = Runs::new(store, BTreeSet::new(), gate, &Charge::default(), stop, false, Vec::new());
        let mut child = std::process::Command::new("true").spawn().expect("a program");
        let pid = child.id();
        child.wait().expect("ours");
        let key = Key::Named { kind: "program".into(), name: "true".into() };
        let process = Process { pid, devices: BTreeSet::new(), most: PROCESS_MAX };
        runs.begin(None, process, PathBuf::from("/bin/true"), key.clone(), Some(Manifest::new(key)));
        let begun = Instant::now();
        let mut told = Vec::new();
        while told.is_empty() && begun.elapsed() < Duration::from_secs(20) {
            told.extend(runs.ended());
            std::thread::yield_now();
        }
        let Some(Run { what: RunWhat::Failed(problem), .. }) = told.pop() else { panic!("told within time") };
        // Where nothing is traced that is said of it; no number of a process that is no more is taken for one that is.
        let of = FollowError::Record(RecordError::NoCommand);
        assert_eq!(problem, failure(pid, &of));
        assert_eq!(failure(std::process::id(), &of), of.to_string());
    }
}
