//! Evidence: the figures of the papers in virtual time, and how far they agree with their prose.
//!
//! A paper is a [`Study`], one row of [`STUDIES`]. Papers give no data behind their curves, only numbers and orders in
//! their text. Each of these is one [`Row`] here, contradictory pairs as two rows; beside them stand what the project
//! itself expects to hold, and the points of the curves, which the papers do not give. The way from paper to row is one
//! way only: a study's folder holds claims as data (which set-ups, which measure, what the paper says), every distinct
//! set-up is run once and shared by all claims that need it, and `claim.rs` judges. Where a row does not hold, its
//! ablation runs follow in a second round and their numbers stand in the row's `why`. Nothing here has a knob that could
//! make a row hold: devices, workloads and schemes are those of every other command. The result depends on neither
//! threads nor time; what is measured by a clock needs a clock from the caller and has a field of its own.

mod asp;
mod cause;
mod chart;
mod claim;
mod facts;
mod flashy;
mod grid;
mod row;
mod rpp;
mod seeds;
mod setup;
mod streams;

use claim::Claim;
use forerun_sim::error::RunError;
use forerun_sim::input::Input;
use forerun_sim::report::RunReport;
use forerun_sim::run;
use forerun_trace::ReadOptions;
use rayon::prelude::*;
use serde::Serialize;
use setup::Setup;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use chart::{Chart, Series};
pub use grid::{Grid, GridLine};
pub use seeds::{SEEDS_MAX, Spread};

/// The studies that can be reproduced: adding one is a folder and a row here.
pub static STUDIES: &[&Study] = &[&asp::STUDY, &rpp::STUDY, &flashy::STUDY, &streams::STUDY];

/// A paper, and how its figures are made.
pub struct Study {
    /// As asked for: `reproduce NAME`.
    pub name: &'static str,
    /// Head line of its page.
    pub title: &'static str,
    /// The paper, and what its rows are.
    pub source: &'static str,
    /// What a figure is called there: `Fig.`, `slide`.
    pub word: &'static str,
    /// Figures that can be asked for, in the paper's order. A number alone stands for all its parts.
    pub figures: &'static [&'static str],
    /// Those of them whose points stand for something with a name (a program, a query): drawn as bars.
    pub bars: &'static [&'static str],
    /// Axes (x, y) of a figure's curves.
    axes: fn(&str) -> (&'static str, &'static str),
    /// Every claim, expectation and point, figure by figure.
    claims: fn(&Options, &setup::Scale) -> Vec<Claim>,
    /// Adds what follows from the rows and the runs: findings, charts over time, notes.
    finish: fn(&Options, &Reports, &mut Reproduction) -> Result<(), ReproduceError>,
}

/// The study of this name.
#[must_use]
pub fn study(name: &str) -> Option<&'static Study> {
    STUDIES.iter().copied().find(|study| study.name == name)
}

/// What to reproduce.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names of [`Study::figures`], or their numbers alone; empty for all.
    pub figures: Vec<String>,
    /// Folder of traces that others recorded, such as `block/pcmark_a.csv.gz`, the desktop trace of the ASP paper's Fig. 6.
    pub shared_traces: Option<PathBuf>,
    /// Folder of the traces that this project records itself (`make record-traces`).
    pub own_traces: Option<PathBuf>,
    /// A trace that stands in for that one where it is missing, and is named as such.
    pub demo_trace: Option<PathBuf>,
    /// Threads; 0 is one for each core. Changes nothing but the waiting.
    pub threads: usize,
    /// Under how many seeds the rows are run, from 1 to [`SEEDS_MAX`]; 0 is one.
    pub seeds: u64,
    /// Sizes of a test: rows are computed, and none claims to hold.
    pub quick: bool,
    /// Nanoseconds from any fixed instant. With it Fig. 8c's core nanoseconds per access are measured.
    pub clock: Option<fn() -> u64>,
}

/// What the paper says, where it says anything.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Paper {
    /// A factor (`+20%` is 1.2).
    Number(f64),
    /// An order or a property, in our words.
    Text(String),
}

/// What kind of row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A number or an order of the paper's text.
    Claim,
    /// What this project expects to hold.
    Expected,
    /// What follows from the rows.
    Finding,
    /// Said by the paper, and not to be run in virtual time.
    NotReproducible,
    /// A point of a curve: the paper prints the curve and no number.
    Point,
}

/// One line of the table paper | ours | ratio | holds?
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// As in [`Study::figures`].
    pub figure: String,
    /// What is compared.
    pub case: String,
    /// What kind of row it is.
    pub kind: Kind,
    /// What the paper says; null where it says nothing.
    pub paper: Option<Paper>,
    /// What we have, in the unit that `case` names; a factor without unit; over several seeds their mean. Null where nothing
    /// could be run.
    pub ours: Option<f64>,
    /// ours / paper, where the paper gives a number.
    pub ratio: Option<f64>,
    /// A number holds when it lies on the paper's side of 1 and within a third of it; an order when it is ours. Over several
    /// seeds it does so all over the interval; null too where the seeds do not decide ([`Spread::unclear`]).
    pub holds: Option<bool>,
    /// Where it does not hold, its cause, and the numbers in short: a line or two.
    pub brief: String,
    /// The runs' own numbers behind the row, and where it does not hold, its cause.
    pub why: String,
    /// What of it was changed after its results had been seen; empty where nothing was.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub changed: String,
    /// The row under each seed; null where no seed changes it, or one was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Spread>,
    /// Core nanoseconds per access by the caller's clock: the one number that no two runs share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_ns_per_access: Option<f64>,
    /// Most bytes of memory that one of its runs held: cached, staged and in flight; only where the study tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
}

/// A run, and which figures need it. Its timeline is left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelledRun {
    /// The figures whose rows it stands behind.
    pub figures: Vec<String>,
    /// Its set-up in words.
    pub case: String,
    /// All of its report.
    #[serde(flatten)]
    pub report: RunReport,
}

/// The whole result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reproduction {
    /// The study's name.
    pub study: &'static str,
    /// What stood in for what, and what else a reader should know.
    pub notes: Vec<String>,
    /// The table, figure by figure.
    pub rows: Vec<Row>,
    /// The curves of the figures as we have them.
    pub charts: Vec<Chart>,
    /// Tables of numbers that many rows stand on.
    pub tables: Vec<Grid>,
    /// Every run, in a fixed order.
    pub runs: Vec<LabelledRun>,
}

/// How far a reproduction is: told before the first run and after each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Runs that have ended.
    pub done: usize,
    /// Runs of this round; ablations make a second round.
    pub total: usize,
    /// The run that has ended last.
    pub case: String,
}

/// Why a reproduction could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// A figure that does not exist.
    #[error("there is no figure {name:?} to reproduce; figures: {known}")]
    Figure {
        /// What was asked.
        name: String,
        /// All there are.
        known: String,
    },
    /// A run failed.
    #[error("{case}: {error}")]
    Run {
        /// Which one.
        case: String,
        /// Why.
        error: RunError,
    },
    /// No thread pool.
    #[error("threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Reports of all set-ups that were run, by set-up.
type Reports = BTreeMap<Setup, RunReport>;

/// Whether `figure` was asked for: by name, by number, or by asking for nothing in particular.
fn wanted(options: &Options, figure: &str) -> bool {
    let number = figure.trim_end_matches(char::is_alphabetic);
    options.figures.is_empty() || options.figures.iter().any(|f| f == figure || f == number)
}

/// Reproduces a study.
///
/// # Errors
/// [`ReproduceError`]: an unknown figure, or a run that could not be made.
pub fn reproduce(
    study: &Study,
    options: &Options,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<Reproduction, ReproduceError> {
    for name in &options.figures {
        let known = |f: &&str| f == name || f.trim_end_matches(char::is_alphabetic) == name;
        if !study.figures.iter().any(known) {
            return Err(ReproduceError::Figure { name: name.clone(), known: study.figures.join(", ") });
        }
    }
    let scale = setup::Scale { quick: options.quick };
    let claims: Vec<Claim> =
        (study.claims)(options, &scale).into_iter().filter(|claim| wanted(options, claim.figure)).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    let mut reports = Reports::new();
    let needed: BTreeSet<Setup> = claims.iter().flat_map(|c| c.needs.iter().cloned()).collect();
    pool.install(|| run_all(&needed, &mut reports, progress))?;
    let others = pool.install(|| other_seeds(&claims, options, progress))?;
    let mut rounds = seeds::Rounds { first: reports, others };
    let fails = |verdict: &claim::Verdict| verdict.holds == Some(false);
    let broken = |claim: &&Claim| !options.quick && rounds.verdicts(claim).iter().any(fails);
    let ablations: BTreeSet<Setup> = claims
        .iter()
        .filter(broken)
        .flat_map(|c| c.ablations.iter().flat_map(|a| a.setups.iter().cloned()))
        .filter(|setup| !rounds.first.contains_key(setup))
        .collect();
    pool.install(|| run_all(&ablations, &mut rounds.first, progress))?;
    let reports = &rounds.first;
    let mut done = Reproduction {
        study: study.name,
        rows: claims.iter().map(|claim| claim.row(&rounds, options.quick)).collect(),
        charts: chart::charts(study, &claims, reports),
        ..Reproduction::default()
    };
    (study.finish)(options, reports, &mut done)?;
    done.rows.sort_by_key(|row| study.figures.iter().position(|f| *f == row.figure));
    done.runs = labelled(&claims, rounds.first);
    Ok(done)
}

/// What the claims stand on, once more under each of the other seeds, where a seed changes it.
fn other_seeds(
    claims: &[Claim],
    options: &Options,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<Vec<Reports>, ReproduceError> {
    let mut moved: BTreeSet<Setup> = BTreeSet::new();
    if options.seeds > 1 {
        let needed = seeds::needed(claims);
        let inputs = inputs(&needed)?;
        moved = needed.into_iter().filter(|s| seeds::follows(s, &inputs[s.spec.input.as_str()])).collect();
    }
    let setups = |seed: u64| moved.iter().map(move |setup| (setup, setup.seeded(seed)));
    let all: BTreeSet<Setup> = (2..=options.seeds).flat_map(|seed| setups(seed).map(|(_, of)| of)).collect();
    let mut reports = Reports::new();
    run_all(&all, &mut reports, progress)?;
    let mut of_seed = |seed: u64| -> Reports {
        setups(seed).filter_map(|(first, of)| Some((first.clone(), reports.remove(&of)?))).collect()
    };
    Ok((2..=options.seeds).map(&mut of_seed).collect())
}

/// Each input once.
fn inputs(setups: &BTreeSet<Setup>) -> Result<BTreeMap<String, Input>, ReproduceError> {
    let mut inputs: BTreeMap<String, Input> = BTreeMap::new();
    for setup in setups {
        if !inputs.contains_key(&setup.spec.input) {
            let input = Input::load(&setup.spec.input, &ReadOptions::default())
                .map_err(|error| ReproduceError::Run { case: setup.label(), error })?;
            inputs.insert(setup.spec.input.clone(), input);
        }
    }
    Ok(inputs)
}

/// Runs each set-up once; results go in under their set-ups, so the order in which they end is of no account.
fn run_all(
    setups: &BTreeSet<Setup>,
    reports: &mut Reports,
    progress: &(dyn Fn(Step) + Sync),
) -> Result<(), ReproduceError> {
    let inputs = inputs(setups)?;
    let done = AtomicUsize::new(0);
    progress(Step { done: 0, total: setups.len(), case: String::new() });
    let list: Vec<&Setup> = setups.iter().collect();
    let ran: Vec<Result<RunReport, ReproduceError>> = list
        .par_iter()
        .with_max_len(1)
        .map(|setup| {
            let report = run::run(&inputs[setup.spec.input.as_str()], &setup.spec, &|_| {})
                .map_err(|error| ReproduceError::Run { case: setup.label(), error });
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress(Step { done, total: setups.len(), case: setup.label() });
            report
        })
        .collect();
    for (setup, report) in setups.iter().zip(ran) {
        reports.insert(setup.clone(), report?);
    }
    Ok(())
}

/// The runs in the order of their set-ups, each with the figures that need it.
fn labelled(claims: &[Claim], reports: Reports) -> Vec<LabelledRun> {
    let mut figures: BTreeMap<Setup, Vec<String>> = BTreeMap::new();
    for claim in claims {
        for setup in claim.needs.iter().chain(claim.ablations.iter().flat_map(|a| &a.setups)) {
            let of = figures.entry(setup.clone()).or_default();
            if !of.iter().any(|f| f == claim.figure) {
                of.push(claim.figure.to_string());
            }
        }
    }
    let label = |(setup, mut report): (Setup, RunReport)| {
        report.timeline.clear();
        LabelledRun { figures: figures.remove(&setup).unwrap_or_default(), case: setup.label(), report }
    };
    reports.into_iter().map(label).collect()
}
