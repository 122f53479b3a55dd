//! Runs many specs in parallel, and tells whoever watches how far they are.
//!
//! Each run is deterministic by itself and the reports are collected in the order asked, so the number of threads
//! changes nothing but the waiting. Who watches may stop the runs: the next time that a run tells how far it is, it ends
//! by unwinding to here, through code that knows nothing of it, and the study is an error of the kind [`Fault::Stopped`].

use crate::error::{Fault, StudyError};
use forerun_core::units::Extent;
use forerun_sim::input::Input;
use forerun_sim::own::Own;
use forerun_sim::progress::Progress;
use forerun_sim::report::RunReport;
use forerun_sim::run;
use forerun_sim::spec::RunSpec;
use rayon::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A run that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// Its number among the runs.
    pub number: usize,
    /// What it runs.
    pub spec: &'a RunSpec,
    /// When it began.
    pub started: Instant,
}

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Its number among the runs.
    pub number: usize,
    /// What it measured; none where it failed.
    pub report: Option<&'a RunReport>,
    /// How many have ended, this one with them.
    pub ended: usize,
    /// How many there are.
    pub all: usize,
    /// How long it took.
    pub took: Duration,
}

/// Who is told how far the runs are. Nothing has to be heard.
pub trait Watch: Sync {
    /// Something worth a remark.
    fn say(&self, _line: &str) {}
    /// How far a run is, now and then.
    fn progress(&self, _run: &Running<'_>, _progress: Progress) {}
    /// A run has ended.
    fn ended(&self, _run: &Ended<'_>) {}
    /// Does a run on the thread that it is called on, with whatever the caller's own policies need around it.
    fn around(&self, run: &mut (dyn FnMut() + Send)) {
        run();
    }
    /// Whether nobody wants the rest.
    fn stops(&self) -> bool {
        false
    }
}

/// Hears nothing and stops nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// What a caller brings that no word names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Brought<'a> {
    /// Inputs in memory; a spec names one by the text that it was [given](Input::given) as.
    pub inputs: &'a [Input],
    /// Policies of its own; a spec names one by [its scheme](Own::scheme).
    pub own: &'a [Own],
}

/// A run, and what came of it.
pub type Each = (RunSpec, Result<RunReport, StudyError>);

/// Unwinds to the runner that started this run, which then fails with this error alone. Only a thread on which a run runs may
/// call it: who watches, or a policy of the caller's that cannot go on.
pub fn end_run(why: StudyError) -> ! {
    resume_unwind(Box::new(why))
}

/// A run, or another work that [`end_run`] unwinds, until it ends or is stopped.
pub(crate) fn stoppable<T>(run: impl FnOnce() -> Result<T, StudyError>) -> Result<T, StudyError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|problem| {
        problem.downcast::<StudyError>().map_or_else(|other| resume_unwind(other), |why| Err(*why))
    })
}

/// Runs all, on `threads` threads (0: one for each core). The first error in the order asked is returned.
///
/// # Errors
/// See [`StudyError`].
pub fn run_all(
    specs: &[RunSpec],
    threads: usize,
    brought: Brought<'_>,
    watch: &dyn Watch,
) -> Result<Vec<RunReport>, StudyError> {
    let each = run_each(specs, threads, brought, watch)?.into_iter();
    let mut reports = each.map(|(_, report)| report).collect::<Result<Vec<_>, _>>()?;
    settle(&mut reports);
    Ok(reports)
}

/// What is known of runs only beside one another: shares of the clairvoyant; and that none beats the bound.
pub fn settle(reports: &mut [RunReport]) {
    forerun_sim::clairvoyant::settle(reports);
    // No scheme may beat the bound; one that does shows a bug of ours.
    forerun_sim::clairvoyant::assert_bound(reports);
}

/// Each run with its report or error: one that fails ends no other. The reports are not [settled](settle).
///
/// # Errors
/// See [`StudyError`]: of inputs that cannot be loaded, and if nobody wants the rest.
pub fn run_each(
    specs: &[RunSpec],
    threads: usize,
    brought: Brought<'_>,
    watch: &dyn Watch,
) -> Result<Vec<Each>, StudyError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|problem| StudyError::failure("threads", problem))?;
    let (specs, inputs) = each_device(specs, load(specs, brought, watch)?)?;
    let ended = AtomicUsize::new(0);
    let reports: Vec<Result<RunReport, StudyError>> = pool.install(|| {
        specs
            .par_iter()
            .zip(&inputs)
            .enumerate()
            .map(|(number, (spec, input))| {
                let running = Running { number, spec, started: Instant::now() };
                let report = one(&running, input, brought.own, watch);
                watch.ended(&Ended {
                    number,
                    report: report.as_ref().ok(),
                    ended: ended.fetch_add(1, Ordering::Relaxed) + 1,
                    all: specs.len(),
                    took: running.started.elapsed(),
                });
                report
            })
            .collect()
    });
    if watch.stops() {
        return Err(StudyError::stopped());
    }
    Ok(specs.into_iter().zip(reports).collect())
}

fn one(
    running: &Running<'_>,
    input: &Input,
    own: &[Own],
    watch: &dyn Watch,
) -> Result<RunReport, StudyError> {
    if watch.stops() {
        return Err(StudyError::stopped());
    }
    let (spec, progress) = (running.spec, |progress| told(running, progress, watch));
    let Some(own) = own.iter().find(|own| own.name == spec.scheme.text()) else {
        return stoppable(|| Ok(run::run(input, spec, &progress)?));
    };
    let mut done = Err(StudyError::stopped());
    watch.around(&mut || done = stoppable(|| Ok(run::run_own(input, spec, own, &progress)?)));
    done
}

fn told(running: &Running<'_>, progress: Progress, watch: &dyn Watch) {
    if watch.stops() {
        end_run(StudyError::stopped());
    }
    watch.progress(running, progress);
}

/// One run of a scheme that begins with what was learned before, and what it has learned then.
///
/// # Errors
/// See [`StudyError`].
pub fn run_learned(
    spec: &RunSpec,
    before: &[Extent],
    watch: &dyn Watch,
) -> Result<(RunReport, Vec<Extent>), StudyError> {
    let one = std::slice::from_ref(spec);
    let (specs, inputs) = each_device(one, load(one, Brought::default(), watch)?)?;
    let [spec] = &specs[..] else {
        return Err(StudyError::usage(
            "--map",
            "many arrays have no one volume to learn of",
            "use --map only:DEV",
        ));
    };
    let running = Running { number: 0, spec, started: Instant::now() };
    let done = stoppable(|| {
        let progress = |progress| told(&running, progress, watch);
        Ok(run::run_learned(&inputs[0], spec, before, &progress)?)
    });
    let (report, took) = (done.as_ref().ok().map(|(report, _)| report), running.started.elapsed());
    watch.ended(&Ended { number: 0, report, ended: 1, all: 1, took });
    done
}

/// With `one-array-each`, each device of a trace is an input of its own: the runs of one device stand together.
fn each_device(specs: &[RunSpec], inputs: Vec<Input>) -> Result<(Vec<RunSpec>, Vec<Input>), StudyError> {
    let mut all = (Vec::with_capacity(specs.len()), Vec::with_capacity(specs.len()));
    let mut at = 0;
    while at < specs.len() {
        let first = &specs[at];
        let same = |spec: &&RunSpec| (&spec.input, &spec.map) == (&first.input, &first.map);
        let end = at + specs[at..].iter().take_while(same).count();
        let runs: Vec<Vec<RunSpec>> =
            (at..end).map(|n| inputs[n].each_device(&specs[n])).collect::<Result<_, _>>()?;
        for device in 0..runs[0].len() {
            for (n, run) in runs.iter().enumerate() {
                all.0.push(run[device].clone());
                all.1.push(inputs[at + n].clone());
            }
        }
        at = end;
    }
    Ok(all)
}

/// The input of each spec, in order; each is read once and shared.
fn load(specs: &[RunSpec], brought: Brought<'_>, watch: &dyn Watch) -> Result<Vec<Input>, StudyError> {
    let same = |a: &RunSpec, b: &RunSpec| {
        (&a.input, a.skip_bad, &a.input_hash) == (&b.input, b.skip_bad, &b.input_hash)
    };
    let mut inputs: Vec<Input> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let input = if let Some(before) = specs[..index].iter().position(|other| same(other, spec)) {
            inputs[before].clone()
        } else if let Some(here) = brought.inputs.iter().find(|input| input.given == spec.input) {
            here.clone()
        } else {
            let input = run::load(spec)?;
            if input.skipped > 0 {
                let skipped = crate::human::count(input.skipped);
                watch.say(&format!("{}: {skipped} bad records passed over", spec.input));
            }
            if let Some(assumed) = &input.assumed {
                watch.say(&format!("{}: {assumed}", spec.input));
            }
            input
        };
        inputs.push(input);
    }
    Ok(inputs)
}

/// Whether an error only says that nobody wanted the rest.
#[must_use]
pub fn was_stopped(problem: &StudyError) -> bool {
    problem.fault == Fault::Stopped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stops after so many words on progress.
    struct Impatient(AtomicUsize);

    impl Watch for Impatient {
        fn progress(&self, _run: &Running<'_>, _progress: Progress) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn stops(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
    }

    #[test]
    fn runs_that_nobody_wants_end_where_they_are() {
        let spec = RunSpec { input: "random:size=1GiB,requests=1000000".into(), ..RunSpec::default() };
        let watch = Impatient(AtomicUsize::new(0));
        let problem = run_all(&[spec.clone(), spec], 1, Brought::default(), &watch).expect_err("stopped");
        assert!(was_stopped(&problem));
        assert_eq!(watch.0.into_inner(), 1, "told once, and then never again");
    }

    #[test]
    fn an_input_in_memory_is_run_by_its_name() {
        let brought = Input::load("forward:size=64KiB", &forerun_trace::ReadOptions::default()).expect("one");
        let here = {
            let mut input = brought;
            input.given = "mine".into();
            input
        };
        let spec = RunSpec { input: "mine".into(), ..RunSpec::default() };
        let one = std::slice::from_ref(&spec);
        assert!(run_all(one, 1, Brought::default(), &Unwatched).is_err(), "no file has this name");
        let runs = run_all(one, 1, Brought { inputs: &[here], own: &[] }, &Unwatched).expect("runs");
        assert_eq!(runs[0].bytes_requested, 64 << 10);
    }
}
