//! Progress on a terminal: a bar for each run that takes over a second when stderr is one, else a plain line when a run
//! ends. For people only; results do not depend on it.

use crate::ui::Ui;
use forerun_sim::progress::Progress;
use forerun_sim::replay::Map;
use forerun_sim::spec::RunSpec;
use forerun_study::human;
use forerun_study::runner::{Ended, Running, Watch};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A run shorter than this shows no bar.
const BAR_AFTER: Duration = Duration::from_secs(1);

/// The bars of all runs.
pub(crate) struct Bars<'a> {
    ui: &'a Ui,
    all: MultiProgress,
    drawn: Mutex<BTreeMap<usize, ProgressBar>>,
    /// Of runs that are steps of one thing: what stands for their inputs, which are files of ours, and when it began.
    steps: Option<(&'a str, Instant)>,
}

impl<'a> Bars<'a> {
    pub(crate) fn new(ui: &'a Ui) -> Self {
        Self { ui, all: MultiProgress::new(), drawn: Mutex::default(), steps: None }
    }

    /// Of runs that are steps of one thing: a bar for each once all have taken a second, and no line at its end. Where nobody sees
    /// bars, one line says what is begun.
    pub(crate) fn of_steps(ui: &'a Ui, what: &'a str) -> Self {
        if !ui.bars {
            ui.say(&format!("{what}: simulated as it is, and under each change that could be made"));
        }
        Self { steps: Some((what, Instant::now())), ..Self::new(ui) }
    }
}

impl Watch for Bars<'_> {
    fn say(&self, line: &str) {
        self.ui.say(line);
    }
    fn progress(&self, run: &Running<'_>, progress: Progress) {
        let since = self.steps.map_or(run.started, |(_, begun)| begun);
        if !self.ui.bars || since.elapsed() < BAR_AFTER {
            return;
        }
        // A poisoned lock means another thread panicked: that panic is the news, not the bar.
        let Ok(mut drawn) = self.drawn.lock() else { return };
        let bar = drawn.entry(run.number).or_insert_with(|| self.all.add(new_bar(&self.label(run.spec))));
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    }
    fn ended(&self, run: &Ended<'_>) {
        if let Ok(mut drawn) = self.drawn.lock()
            && let Some(bar) = drawn.remove(&run.number)
        {
            bar.finish_and_clear();
        }
        let shown = self.steps.is_none() && (!self.ui.bars || self.ui.verbose > 0);
        let Some(report) = run.report.filter(|_| shown) else { return };
        // The bound is no run, and has none.
        let hits = match &*report.scheme {
            "bound" => String::new(),
            _ => format!(", hit ratio {}", human::percent(report.hit_ratio)),
        };
        self.ui.say(&format!(
            "[{}/{}] {} on {}: {}{hits}, {} of virtual time in {:.1} s",
            run.ended,
            run.all,
            report.scheme,
            report.input,
            human::rate(report.throughput_bytes_per_s),
            human::duration(human::float(report.elapsed_ns)),
            run.took.as_secs_f64(),
        ));
    }
}

impl Bars<'_> {
    fn label(&self, spec: &RunSpec) -> String {
        let device = match &*spec.map {
            Map::Only(device) => format!(", device {device}"),
            Map::Concat | Map::OneArrayEach => String::new(),
        };
        format!("{} on {}{device}", spec.scheme, self.steps.map_or(spec.input.as_str(), |(what, _)| what))
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
