//! Which of two runs is better, and how far each run of a comparison is from the best that was found.

use crate::replay::Mode;
use crate::report::RunReport;
use crate::said::Said;
use crate::spec::RunSpec;

/// The row that knows the future.
const ORACLE: &str = "oracle";

/// Whether a run is better than another of the same input: faster, or with shorter waits where time was given (`open`).
pub(super) fn is_better(run: &RunReport, than: &RunReport) -> bool {
    let waits = run.latency_ns.mean.total_cmp(&than.latency_ns.mean);
    let elapsed = run.elapsed_ns.cmp(&than.elapsed_ns);
    let order = if is_open(run) { waits.then(elapsed) } else { elapsed.then(waits) };
    order.is_lt()
}

fn is_open(run: &RunReport) -> bool {
    *run.spec.mode == Mode::Open
}

/// `best`'s time over that of `run`: 1 for as good as the best.
#[expect(clippy::cast_precision_loss, reason = "a ratio for a report")]
fn share(run: &RunReport, best: &RunReport) -> f64 {
    let (own, least) = if is_open(run) {
        (run.latency_ns.mean, best.latency_ns.mean)
    } else {
        (run.elapsed_ns as f64, best.elapsed_ns as f64)
    };
    if own > 0.0 { least / own } else { 1.0 }
}

/// All that two runs have in common if only their schemes differ.
fn hardware(run: &RunReport) -> RunSpec {
    RunSpec { scheme: Said::of("none"), ..run.spec.clone() }
}

/// Makes each row `oracle` the best of all runs of its input on its hardware, and tells every run how near it came: an offline
/// best is a reference too. Where there is no such row nothing changes.
pub fn settle(runs: &mut [RunReport]) {
    let places: Vec<RunSpec> = runs.iter().map(hardware).collect();
    for at in 0..runs.len() {
        if runs[at].scheme != ORACLE {
            continue;
        }
        let same = |other: &usize| places[*other] == places[at] && runs[*other].scheme != "bound";
        let beside: Vec<usize> = (0..runs.len()).filter(same).collect();
        let best = beside
            .iter()
            .copied()
            .fold(at, |best, other| if is_better(&runs[other], &runs[best]) { other } else { best });
        if best != at {
            let (found, row) = (runs[best].clone(), &mut runs[at]);
            let (scheme, spec) = (row.scheme.clone(), row.spec.clone());
            *row = RunReport { found_by: Some(found.scheme.clone()), scheme, spec, ..found };
        }
        let reference = runs[at].clone();
        for other in beside {
            runs[other].share_of_clairvoyant = Some(share(&runs[other], &reference));
        }
    }
}

/// Asserts that no run of a comparison is better than its row `oracle`.
///
/// # Panics
/// If one is: then the row was not settled.
pub fn assert_best(runs: &[RunReport]) {
    for run in runs {
        let share = run.share_of_clairvoyant.unwrap_or(0.0);
        assert!(share <= 1.0, "{} on {} is better than oracle: {share}", run.scheme, run.input);
    }
}
