//! Runs: words in, reports out, with the interpreter released while they run.
//!
//! The work is done by a thread of its own while the caller's looks after signals, so that Ctrl-C is heard at once however
//! long a run goes without a word; the runs then end the next time that they tell how far they are.

use crate::arrow;
use crate::errors::{ForerunError, OptionError, json, raised};
use crate::policy::{Given, Mishaps};
use crate::trace::Trace;
use forerun_sim::input::Input;
use forerun_sim::own::Own;
use forerun_sim::progress::Progress;
use forerun_sim::report::Comparison;
use forerun_study::compare::{Asked, Outcome, Planned};
use forerun_study::options::SetupArgs;
use forerun_study::paint::Paint;
use forerun_study::rows::Rows;
use forerun_study::runner::{self, Brought, Ended, Running, Watch};
use forerun_study::{Fault, StudyError, html, table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// How often signals are looked after and progress is shown.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What was measured, and what is remarked on it.
#[pyclass(frozen, module = "forerun._native")]
pub(crate) struct Runs {
    outcome: Outcome,
    failures: Vec<(String, String, Option<Py<PyAny>>)>,
}

#[pymethods]
impl Runs {
    fn __len__(&self) -> usize {
        self.outcome.comparison.runs.len()
    }
    /// As the command prints it with `--json`.
    fn json(&self) -> PyResult<String> {
        json(&self.outcome.comparison)
    }
    /// The command's table, without colour.
    fn table(&self) -> String {
        table::comparison(&self.outcome.comparison.runs, Paint::default(), None)
    }
    /// The command's page.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| html::comparison(&self.outcome.comparison, &self.outcome.remarks))
    }
    /// What was assumed, and what would turn the verdict.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.outcome.remarks.clone()
    }
    /// Runs that failed by themselves: scheme, input, and what was raised.
    #[getter]
    fn failures(&self, py: Python<'_>) -> Vec<(String, String, Option<Py<PyAny>>)> {
        let all = self.failures.iter();
        all.map(|(scheme, input, raised)| {
            (scheme.clone(), input.clone(), raised.as_ref().map(|raised| raised.clone_ref(py)))
        })
        .collect()
    }
    /// A row for each run as an Arrow stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // a wish, which a producer may leave unheard
        let rows = Rows::of(&self.outcome.comparison.runs).map_err(|problem| raised(py, &problem))?;
        arrow::capsule(py, arrow::of_rows(&rows)?)
    }
}

/// What the two threads tell each other.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    told: Mutex<Told>,
    /// Who judges a run before its end, and what came of it.
    judge: Option<Judge>,
    /// What policies in Python raised.
    mishaps: Mishaps,
}

/// Asked by the run itself, so always at the same moments of virtual time.
struct Judge {
    asked: Py<PyAny>,
    verdict: Mutex<Option<PyResult<()>>>,
}

impl Judge {
    /// Ends the run if it is not to go on, or if what was asked raised.
    fn hears(&self, progress: Progress) {
        let given_up = Python::try_attach(|py| {
            let told = (progress.done, progress.total, progress.now.0);
            let goes_on = self.asked.bind(py).call1(told).and_then(|said| said.is_truthy());
            let verdict = match goes_on {
                Ok(true) => return false,
                Ok(false) => Ok(()),
                Err(raised) => Err(raised),
            };
            *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
            true
        });
        if given_up != Some(false) {
            runner::end_run(StudyError::stopped());
        }
    }
}

/// How far the runs are.
#[derive(Default)]
struct Told {
    ended: usize,
    all: usize,
    /// Of the runs under way, the share that is done.
    shares: BTreeMap<usize, f64>,
}

impl Watch for Shared {
    #[expect(clippy::cast_precision_loss, reason = "a share for a bar")]
    fn progress(&self, run: &Running<'_>, progress: Progress) {
        if let Ok(mut told) = self.told.lock() {
            told.shares.insert(run.number, progress.done as f64 / progress.total.max(1) as f64);
        }
        if let Some(judge) = &self.judge {
            judge.hears(progress);
        }
    }
    fn ended(&self, run: &Ended<'_>) {
        if let Ok(mut told) = self.told.lock() {
            told.shares.remove(&run.number);
            (told.ended, told.all) = (run.ended, run.all);
        }
    }
    /// The interpreter knows the thread from before the run to its end: to make itself known for each hook would take longer than
    /// the hook.
    fn around(&self, run: &mut (dyn FnMut() + Send)) {
        let _ = Python::try_attach(|py| py.detach(run));
    }
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.mishaps.exits()
    }
}

/// As [`watched_by`], without a word on how far it is. What cannot stop midway goes on to its end behind a caller who is gone.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&dyn Watch) -> Result<T, StudyError> + Send + 'static,
) -> PyResult<T> {
    watched_by(py, None, &Arc::new(Shared::default()), |shared| work(shared))
}

/// Does the work on a thread of its own, and looks after signals and progress until it is done.
fn watched_by<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared) -> Result<T, StudyError> + Send + 'static,
) -> PyResult<T> {
    let (send, mut receive) = mpsc::channel();
    let theirs = Arc::clone(shared);
    std::thread::spawn(move || drop(send.send(work(&theirs))));
    loop {
        let waiting = &mut receive;
        let heard = match py.detach(move || waiting.recv_timeout(LOOK_EVERY)) {
            Ok(done) => return done.map_err(|problem| raised(py, &problem)),
            Err(mpsc::RecvTimeoutError::Timeout) => tell(py, progress, shared),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(gone()),
        };
        if let Err(raised) = heard {
            shared.stop.store(true, Ordering::Relaxed);
            return Err(raised);
        }
    }
}

fn gone() -> PyErr {
    ForerunError::new_err("the work ended without a word: a bug of Forerun; please report what it printed")
}

fn tell(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, shared: &Shared) -> PyResult<()> {
    py.check_signals()?;
    let Some(progress) = progress else { return Ok(()) };
    let Ok((ended, all, under_way)) =
        shared.told.lock().map(|told| (told.ended, told.all, told.shares.values().sum::<f64>()))
    else {
        return Ok(());
    };
    progress.call1((ended, all, under_way)).map(drop)
}

/// Inputs by word or in memory, each once.
#[derive(FromPyObject)]
pub(crate) enum Asks<'py> {
    Memory(PyRef<'py, Trace>),
    Words(String),
}

fn inputs(asked: &[Asks<'_>]) -> PyResult<(Vec<String>, Vec<Input>)> {
    let mut brought: Vec<Input> = Vec::new();
    let mut name = |asked: &Asks<'_>| match asked {
        Asks::Words(words) => Ok(words.clone()),
        Asks::Memory(trace) => {
            let input = trace.input();
            if brought.iter().any(|other| other.given == input.given && other.hash != input.hash) {
                let what = format!("inputs: two traces are called {:?}; give one another name", input.given);
                return Err(OptionError::new_err(what));
            }
            brought.push(input.clone());
            Ok(input.given)
        }
    };
    let names = asked.iter().map(&mut name).collect::<PyResult<_>>()?;
    Ok((names, brought))
}

/// `forerun compare`: inputs under schemes, once for each seed.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "a call from Python; the first is the interpreter")]
pub(crate) fn compare(
    py: Python<'_>,
    asked: Vec<Asks<'_>>,
    schemes: Vec<String>,
    policies: Vec<Given>,
    bounds: bool,
    threads: usize,
    words: Vec<Vec<String>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Runs> {
    let (names, brought) = inputs(&asked)?;
    let mishaps = Mishaps::default();
    let own: Vec<Own> = policies.into_iter().map(|policy| policy.own(&mishaps)).collect();
    let shared = Arc::new(Shared { mishaps: mishaps.clone(), ..Shared::default() });
    let outcome = watched_by(py, progress, &shared, move |watch| {
        let brought = Brought { inputs: &brought, own: &own };
        study(&names, &schemes, bounds, &words, threads, brought, watch)
    });
    if let Some(raised) = mishaps.exit() {
        return Err(raised);
    }
    let (outcome, failed) = outcome?;
    let failures = failed.into_iter().map(|(scheme, input, place)| {
        let raised = mishaps.take(&place).map(|raised| raised.into_value(py).into_any());
        (scheme, input, raised)
    });
    Ok(Runs { outcome, failures: failures.collect() })
}

/// Runs that failed by themselves: scheme, input, and where.
type Failed = Vec<(String, String, String)>;

fn study(
    names: &[String],
    schemes: &[String],
    bounds: bool,
    words: &[Vec<String>],
    threads: usize,
    brought: Brought<'_>,
    watch: &Shared,
) -> Result<(Outcome, Failed), StudyError> {
    let mut planned: Option<Planned> = None;
    for words in words {
        let setup = SetupArgs::parse(words)?;
        let asked = Asked { inputs: names.to_vec(), schemes: schemes.to_vec(), bounds, setup };
        let more = asked.plan(brought.own)?;
        match &mut planned {
            Some(planned) => planned.specs.extend(more.specs),
            None => planned = Some(more),
        }
    }
    let Some(planned) = planned else {
        return Err(StudyError::usage("seeds", "there is none", "give at least one"));
    };
    planned.check()?;
    if brought.own.is_empty() {
        let runs = runner::run_all(&planned.specs, threads, brought, watch)?;
        return Ok((planned.outcome(runs, threads, brought, watch)?, Vec::new()));
    }
    let (mut runs, mut failed) = (Vec::new(), Vec::new());
    for (spec, report) in runner::run_each(&planned.specs, threads, brought, watch)? {
        match report {
            Ok(report) => runs.push(report),
            Err(problem) if problem.fault == Fault::Own => {
                failed.push((spec.scheme.to_string(), spec.input, problem.place));
            }
            Err(problem) => return Err(problem),
        }
    }
    runner::settle(&mut runs);
    // What a policy of the caller's would do elsewhere is not asked: it would be made and run again unasked.
    let remarks = planned.assumptions(&runs).into_iter().collect();
    Ok((Outcome { comparison: Comparison { runs }, remarks }, failed))
}

/// `forerun sim`: one input under one scheme.
#[pyfunction]
pub(crate) fn sim(
    py: Python<'_>,
    asked: Asks<'_>,
    scheme: String,
    policy: Option<Given>,
    words: Vec<String>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Runs> {
    let policies = policy.into_iter().collect();
    compare(py, vec![asked], vec![scheme], policies, false, 1, vec![words], progress)
}

/// One run that is judged before its end: `judge(requests done, of all, virtual ns)`, every few thousand requests, says whether it
/// goes on. Nothing, if it did not.
#[pyfunction]
pub(crate) fn trial(
    py: Python<'_>,
    asked: Asks<'_>,
    scheme: String,
    words: Vec<String>,
    judge: Py<PyAny>,
) -> PyResult<Option<Runs>> {
    let (names, brought) = inputs(&[asked])?;
    let judge = Some(Judge { asked: judge, verdict: Mutex::default() });
    let shared = Arc::new(Shared { judge, ..Shared::default() });
    let ended = watched_by(py, None, &shared, move |watch| {
        let brought = Brought { inputs: &brought, own: &[] };
        study(&names, &[scheme], false, &[words], 1, brought, watch)
    });
    let verdict = shared.judge.as_ref().and_then(|judge| judge.verdict.lock().ok()?.take());
    match verdict {
        Some(Ok(())) => Ok(None),
        Some(Err(raised)) => Err(raised),
        None => ended.map(|(outcome, _)| Some(Runs { outcome, failures: Vec::new() })),
    }
}
