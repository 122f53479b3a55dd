//! A sweep on this machine: all cores, within a memory, each input read once for the cells that stand together.

use super::results::{Lines, Shard, done, finish, line};
use super::study::{Cell, Study};
use crate::error::StudyError;
use crate::runner::{self, Brought, Unwatched};
use forerun_core::units::BLOCK_BYTES;
use forerun_sim::input::Input;
use forerun_sim::spec::RunSpec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Memory that the books of one cached block take, generously: a run holds numbers, not blocks.
const BLOCK_BOOKS_BYTES: u64 = 256;
/// Memory of a run beside its caches: devices, counters, programs.
const RUN_BYTES: u64 = 32 << 20;
/// Memory of a trace for each byte of its file, before it is read and known: files are packed.
const TRACE_PER_FILE_BYTE: u64 = 16;

/// How a sweep is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where lines and results go.
    pub folder: PathBuf,
    /// Which cells.
    pub shard: Shard,
    /// Cells at a time; 0 is one for each core.
    pub threads: usize,
    /// Memory that cells may take at once, bytes; a cell that takes more runs alone.
    pub memory: Option<u64>,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug)]
pub struct SoFar<'a> {
    /// The cell that has just ended.
    pub cell: &'a Cell,
    /// Cells that are done, those of earlier times included.
    pub done: usize,
    /// All cells of the shard.
    pub all: usize,
    /// Since the sweep began.
    pub took: Duration,
    /// What is left would take so long, at the pace so far.
    pub left: Duration,
    /// What is left would cost so much time of one core, by what cells have taken so far.
    pub cost: Duration,
}

/// How a sweep ended.
#[derive(Clone, Debug)]
pub struct Swept {
    /// Cells of the shard.
    pub cells: usize,
    /// Cells that were run now.
    pub run: usize,
    /// The results, if every cell of the study is done.
    pub results: Option<PathBuf>,
}

/// A sweep before it runs.
#[derive(Debug)]
pub struct Sweep {
    cells: Vec<Cell>,
    /// Numbers of the cells that are to be run.
    open: Vec<usize>,
    options: Options,
    in_shard: usize,
}

impl Sweep {
    /// Looks at what is done, and what is left.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn new(study: &Study, options: Options) -> Result<Self, StudyError> {
        let (cells, done) = (study.cells()?, done(&options.folder)?);
        let in_shard: Vec<usize> = (0..cells.len()).filter(|&cell| options.shard.has(cell)).collect();
        let mut open: Vec<usize> =
            in_shard.iter().copied().filter(|&cell| !done.contains(&cells[cell].id)).collect();
        // Cells of one input stand together, so that few inputs are in memory at once.
        open.sort_by(|&a, &b| (&cells[a].spec.input, a).cmp(&(&cells[b].spec.input, b)));
        Ok(Self { open, options, in_shard: in_shard.len(), cells })
    }

    /// Cells of the shard, and those of them that are not done.
    #[must_use]
    pub const fn counts(&self) -> (usize, usize) {
        (self.in_shard, self.open.len())
    }

    /// Runs what is left. `told` is told of each cell that has ended.
    ///
    /// # Errors
    /// The first error; cells that ended before it are kept.
    pub fn run(&self, told: &(dyn Fn(&SoFar<'_>) + Sync)) -> Result<Swept, StudyError> {
        let lines = Lines::open(&self.options.folder, self.options.shard)?;
        let work = Work {
            sweep: self,
            told,
            started: Instant::now(),
            memory: self.options.memory.unwrap_or(u64::MAX),
            state: Mutex::new(State::new(lines)),
            freed: Condvar::new(),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.options.threads == 0 { cores } else { self.options.threads };
        std::thread::scope(|scope| {
            for _ in 0..threads.min(self.open.len()) {
                scope.spawn(|| work.go());
            }
        });
        let state = work.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = state.problem {
            return Err(problem);
        }
        drop(state.lines);
        let results = finish(&self.options.folder, &self.cells)?;
        Ok(Swept { cells: self.in_shard, run: state.ended, results })
    }
}

/// What the threads share.
struct State {
    lines: Lines,
    next: usize,
    ended: usize,
    /// What the cells that ended took, each on its core.
    spent: Duration,
    /// Memory that is promised to cells that run, and to inputs that they read.
    taken: u64,
    running: usize,
    /// Inputs in memory, with the cells that run over them and what they take.
    inputs: BTreeMap<String, (Option<Input>, usize, u64)>,
    problem: Option<StudyError>,
}

impl State {
    const fn new(lines: Lines) -> Self {
        Self {
            lines,
            next: 0,
            ended: 0,
            spent: Duration::ZERO,
            taken: 0,
            running: 0,
            inputs: BTreeMap::new(),
            problem: None,
        }
    }
}

struct Work<'a> {
    sweep: &'a Sweep,
    told: &'a (dyn Fn(&SoFar<'_>) + Sync),
    started: Instant,
    memory: u64,
    state: Mutex<State>,
    freed: Condvar,
}

impl Work<'_> {
    /// Takes cells until there is none, or one has failed.
    fn go(&self) {
        while let Some((cell, input)) = self.take() {
            let began = Instant::now();
            let ended = self.one(cell, input);
            self.put_back(cell, ended, began.elapsed());
        }
    }

    /// The next cell, when there is memory for it.
    fn take(&self) -> Option<(&Cell, Option<Input>)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let cell = &self.sweep.cells[*self.sweep.open.get(state.next)?];
            if state.problem.is_some() {
                return None;
            }
            let known = state.inputs.contains_key(&cell.spec.input);
            let wants = books(&cell.spec) + if known { 0 } else { of_input(&cell.spec) };
            if state.running == 0 || state.taken.saturating_add(wants) <= self.memory {
                state.next += 1;
                state.running += 1;
                state.taken = state.taken.saturating_add(wants);
                let input = state.inputs.entry(cell.spec.input.clone());
                let input = input.or_insert_with(|| (None, 0, of_input(&cell.spec)));
                input.1 += 1;
                return Some((cell, input.0.clone()));
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Runs a cell: its line.
    fn one(&self, cell: &Cell, input: Option<Input>) -> Result<String, StudyError> {
        let input = match input {
            Some(input) => input,
            None => {
                let input = forerun_sim::run::load(&cell.spec)?;
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(shared) = state.inputs.get_mut(&cell.spec.input) {
                    shared.0.get_or_insert_with(|| input.clone());
                }
                input
            }
        };
        run_cell(cell, input)
    }

    fn put_back(&self, cell: &Cell, ended: Result<String, StudyError>, took: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = ended.and_then(|line| state.lines.append(&line));
        state.running -= 1;
        state.taken -= books(&cell.spec).min(state.taken);
        if let Some(input) = state.inputs.get_mut(&cell.spec.input) {
            input.1 -= 1;
            if input.1 == 0 {
                let held = input.2;
                state.taken -= held.min(state.taken);
                state.inputs.remove(&cell.spec.input);
            }
        }
        match written {
            Ok(()) => {
                state.ended += 1;
                state.spent += took;
                (self.told)(&self.so_far(cell, state.ended, state.spent));
            }
            Err(problem) => drop(state.problem.get_or_insert(problem)),
        }
        self.freed.notify_all();
    }

    fn so_far<'c>(&self, cell: &'c Cell, ended: usize, spent: Duration) -> SoFar<'c> {
        let (took, left) = (self.started.elapsed(), self.sweep.open.len() - ended);
        let of_rest = |all: Duration| {
            let each = all / u32::try_from(ended.max(1)).unwrap_or(u32::MAX);
            each.saturating_mul(u32::try_from(left).unwrap_or(u32::MAX))
        };
        SoFar {
            cell,
            done: self.sweep.in_shard - left,
            all: self.sweep.in_shard,
            took,
            left: of_rest(took),
            cost: of_rest(spent),
        }
    }
}

/// Runs one cell over its input, wherever the sweep's cells are run: its line.
///
/// # Errors
/// See [`StudyError`]; it names the cell.
pub fn run_cell(cell: &Cell, input: Input) -> Result<String, StudyError> {
    let named = |problem: StudyError| {
        let at: Vec<String> = cell.at.iter().map(|(name, word)| format!("{name}={word}")).collect();
        StudyError { place: format!("cell {}: {}", at.join(" "), problem.place), ..problem }
    };
    if cell.spec.input_hash != input.hash {
        return Err(named(StudyError::usage("input", "its content has changed since the sweep began", "")));
    }
    let mut input = input;
    input.given.clone_from(&cell.spec.input);
    let brought = Brought { inputs: &[input], own: &[] };
    let runs = runner::run_all(std::slice::from_ref(&cell.spec), 1, brought, &Unwatched).map_err(named)?;
    match &runs[..] {
        [report] => line(&cell.id, report),
        runs => {
            Err(named(StudyError::usage("map", format!("makes {} runs of it", runs.len()), "use only:DEV")))
        }
    }
}

/// Memory that a run of this spec takes, estimated.
fn books(spec: &RunSpec) -> u64 {
    RUN_BYTES + (spec.cache_bytes + spec.host_cache_bytes) / BLOCK_BYTES * BLOCK_BOOKS_BYTES
}

/// Memory that its input takes, estimated.
fn of_input(spec: &RunSpec) -> u64 {
    std::fs::metadata(Path::new(&spec.input)).map_or(0, |file| file.len().saturating_mul(TRACE_PER_FILE_BYTE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(folder: &Path, shard: Shard, threads: usize) -> Sweep {
        let study = "[fixed]\ndevice = 'wd-7200'\n[matrix]\n\
                     input = ['forward:size=1MiB', 'random:size=1MiB,requests=50']\n\
                     scheme = ['none', 'asp']\ncache = ['16MiB', '64MiB']\n";
        let options = Options { folder: folder.into(), shard, threads, memory: Some(1) };
        Sweep::new(&Study::parse(study).expect("a study"), options).expect("a sweep")
    }

    #[test]
    fn shards_together_give_the_bytes_of_the_whole_and_what_is_done_is_not_run_again() {
        let (whole, parts) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
        let told = |_: &SoFar<'_>| {};
        let costs = Mutex::new(Vec::new());
        let costly = |so_far: &SoFar<'_>| costs.lock().expect("one thread").push((so_far.left, so_far.cost));
        let swept = sweep(whole.path(), Shard::WHOLE, 1).run(&costly).expect("runs");
        assert_eq!((swept.cells, swept.run), (8, 8));
        let costs = costs.into_inner().expect("one thread");
        assert_eq!(costs.last(), Some(&(Duration::ZERO, Duration::ZERO)), "nothing is left");
        assert!(
            costs[..7].iter().all(|(left, cost)| *cost > Duration::ZERO && cost <= left),
            "one core: {costs:?}"
        );
        let first = sweep(parts.path(), Shard { number: 1, of: 2 }, 2).run(&told).expect("runs");
        assert_eq!((first.cells, first.run, first.results), (4, 4, None), "the other half is not done");
        let second = sweep(parts.path(), Shard { number: 2, of: 2 }, 2).run(&told).expect("runs");
        let read = |path: Option<PathBuf>| std::fs::read(path.expect("all is done")).expect("there");
        assert!(read(swept.results) == read(second.results), "the same bytes");
        let again = sweep(whole.path(), Shard::WHOLE, 1);
        assert_eq!(again.counts(), (8, 0));
        assert_eq!(again.run(&told).expect("nothing to run").run, 0);
    }
}
