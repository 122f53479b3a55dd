//! Runs: words in, reports out, with the interpreter released while they run ([`crate::watching`]).

use crate::arrow;
use crate::errors::{OptionError, json, raised};
use crate::policy::{Given, Mishaps};
use crate::trace::Trace;
use crate::watching::{Shared, watched_by};
use forerun_sim::input::Input;
use forerun_sim::own::Own;
use forerun_sim::report::Comparison;
use forerun_study::compare::{Asked, Outcome, Planned};
use forerun_study::options::SetupArgs;
use forerun_study::paint::Paint;
use forerun_study::rows::Rows;
use forerun_study::runner::{self, Brought};
use forerun_study::{Fault, StudyError, html, table};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

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
        table::comparison(&self.outcome.comparison, Paint::default(), None)
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
    let shared = Arc::new(Shared::stopped_by(mishaps.stop()));
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
    Ok((Outcome { comparison: Comparison::of(runs), remarks }, failed))
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
    let shared = Arc::new(Shared::judged_by(judge));
    let ended = watched_by(py, None, &shared, move |watch| {
        let brought = Brought { inputs: &brought, own: &[] };
        study(&names, &[scheme], false, &[words], 1, brought, watch)
    });
    match shared.verdict() {
        Some(Ok(())) => Ok(None),
        Some(Err(raised)) => Err(raised),
        None => ended.map(|(outcome, _)| Some(Runs { outcome, failures: Vec::new() })),
    }
}
