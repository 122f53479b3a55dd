//! Runs many specs in parallel and says how far they are.
//!
//! Each run is deterministic by itself and the reports are collected in the order asked, so the number of threads
//! changes nothing but the waiting. Progress is for people only: a bar for each run that takes over a second when
//! stderr is a terminal, else one plain line when a run ends.

use crate::error::CliError;
use crate::human;
use crate::ui::Ui;
use forerun_core::units::Extent;
use forerun_sim::input::Input;
use forerun_sim::progress::Progress;
use forerun_sim::replay::Map;
use forerun_sim::report::RunReport;
use forerun_sim::run;
use forerun_sim::spec::RunSpec;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rayon::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A run shorter than this shows no bar.
const BAR_AFTER: Duration = Duration::from_secs(1);

/// Runs all, on `threads` threads (0: one for each core). The first error in the order asked is returned.
pub(crate) fn run_all(specs: &[RunSpec], threads: usize, ui: &Ui) -> Result<Vec<RunReport>, CliError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|problem| CliError::failure("threads", problem))?;
    let (specs, inputs) = each_device(specs, load(specs, ui)?)?;
    let bars = MultiProgress::new();
    let ended = AtomicUsize::new(0);
    let reports: Vec<Result<RunReport, CliError>> = pool.install(|| {
        specs
            .par_iter()
            .zip(&inputs)
            .map(|(spec, input)| {
                let started = Instant::now();
                let bar = Bar::new(spec, started, &bars, ui.bars);
                let report = run::run(input, spec, &|progress| bar.show(progress));
                bar.end();
                let number = ended.fetch_add(1, Ordering::Relaxed) + 1;
                if let Ok(report) = &report {
                    announce(report, number, specs.len(), started.elapsed(), ui);
                }
                report.map_err(CliError::from)
            })
            .collect()
    });
    let mut reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    forerun_sim::clairvoyant::settle(&mut reports);
    // No scheme may beat the bound; one that does shows a bug of ours.
    forerun_sim::clairvoyant::assert_bound(&reports);
    Ok(reports)
}

/// One run of a scheme that begins with what was learned before, and what it has learned then.
pub(crate) fn run_learned(
    spec: &RunSpec,
    before: &[Extent],
    ui: &Ui,
) -> Result<(RunReport, Vec<Extent>), CliError> {
    let (specs, inputs) = each_device(std::slice::from_ref(spec), load(std::slice::from_ref(spec), ui)?)?;
    let [spec] = &specs[..] else {
        return Err(CliError::usage(
            "--map",
            "many arrays have no one volume to learn of",
            "use --map only:DEV",
        ));
    };
    let (started, bars) = (Instant::now(), MultiProgress::new());
    let bar = Bar::new(spec, started, &bars, ui.bars);
    let done = run::run_learned(&inputs[0], spec, before, &|progress| bar.show(progress));
    bar.end();
    let (report, after) = done?;
    announce(&report, 1, 1, started.elapsed(), ui);
    Ok((report, after))
}

/// With `one-array-each`, each device of a trace is an input of its own: the runs of one device stand together.
fn each_device(specs: &[RunSpec], inputs: Vec<Input>) -> Result<(Vec<RunSpec>, Vec<Input>), CliError> {
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
fn load(specs: &[RunSpec], ui: &Ui) -> Result<Vec<Input>, CliError> {
    let same = |a: &RunSpec, b: &RunSpec| {
        (&a.input, a.skip_bad, &a.input_hash) == (&b.input, b.skip_bad, &b.input_hash)
    };
    let mut inputs: Vec<Input> = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        let input = match specs[..index].iter().position(|other| same(other, spec)) {
            Some(before) => inputs[before].clone(),
            None => {
                let input = run::load(spec)?;
                if input.skipped > 0 {
                    ui.say(&format!(
                        "{}: {} bad records passed over",
                        spec.input,
                        human::count(input.skipped)
                    ));
                }
                input
            }
        };
        inputs.push(input);
    }
    Ok(inputs)
}

fn announce(report: &RunReport, number: usize, all: usize, took: Duration, ui: &Ui) {
    if ui.bars && ui.verbose == 0 {
        return;
    }
    ui.say(&format!(
        "[{number}/{all}] {} on {}: {}, hit ratio {}, {} of virtual time in {:.1} s",
        report.scheme,
        report.input,
        human::rate(report.throughput_bytes_per_s),
        human::percent(report.hit_ratio),
        human::duration(human::float(report.elapsed_ns)),
        took.as_secs_f64(),
    ));
}

/// The bar of one run, drawn once it has taken long enough.
struct Bar<'a> {
    wanted: bool,
    started: Instant,
    label: String,
    all: &'a MultiProgress,
    drawn: Mutex<Option<ProgressBar>>,
}

impl<'a> Bar<'a> {
    fn new(spec: &RunSpec, started: Instant, all: &'a MultiProgress, wanted: bool) -> Self {
        let device = match &*spec.map {
            Map::Only(device) => format!(", device {device}"),
            Map::Concat | Map::OneArrayEach => String::new(),
        };
        let label = format!("{} on {}{device}", spec.scheme, spec.input);
        Self { wanted, started, label, all, drawn: Mutex::new(None) }
    }
    fn show(&self, progress: Progress) {
        if !self.wanted || self.started.elapsed() < BAR_AFTER {
            return;
        }
        // A poisoned lock means another thread panicked: that panic is the news, not the bar.
        let Ok(mut drawn) = self.drawn.lock() else { return };
        let bar = drawn.get_or_insert_with(|| self.all.add(new_bar(&self.label)));
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    }
    fn end(&self) {
        if let Ok(mut drawn) = self.drawn.lock()
            && let Some(bar) = drawn.take()
        {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(label: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    // The template is a constant; a mistake in it falls back to the plain bar.
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {percent:>3}% {eta:>4} {msg}") {
        bar.set_style(style);
    }
    bar.with_message(label.to_owned())
}
