//! Whether something that was assumed decides who wins: a second, cheap run under another scheduler or on another device.
//!
//! It is made only for what nobody said, only where the first runs were small, and only with the schemes that matter: no
//! prefetching, the winner, and the one behind it. What it finds is a line under the table, not a row in it.

use crate::assumed::Assumed;
use crate::error::StudyError;
use crate::human;
use crate::runner::{self, Brought, Watch};
use crate::words::{self, is_baseline};
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;

/// First runs that read more blocks than this in all are not run again: some seconds. Counted, not timed, so that the same
/// command always says the same.
const BLOCKS_MAX: u64 = 4_000_000;
/// Changes of throughput below this are no difference, as in the verdict.
const NOTICEABLE: f64 = 0.02;
/// Schedulers that a machine may have.
const SCHEDULERS: [&str; 3] = ["none", "clook", "anticipatory"];
/// Devices of three kinds: flash, a network volume, platters.
const DEVICES: [&str; 3] = ["nvme-pcie4", "gp3", "hdd-20tb"];

/// The second runs say nothing and can be stopped.
struct Quiet<'a>(&'a dyn Watch);

impl Watch for Quiet<'_> {
    fn stops(&self) -> bool {
        self.0.stops()
    }
}

/// Lines that warn; none where nothing was assumed or nothing changes.
///
/// # Errors
/// None of these runs': one that cannot be made says nothing.
pub fn warnings(
    runs: &[RunReport],
    assumed: &Assumed,
    threads: usize,
    brought: Brought<'_>,
    watch: &dyn Watch,
) -> Result<Vec<String>, StudyError> {
    let blocks: u64 = runs.iter().map(|run| run.counts.blocks_read).sum();
    if blocks > BLOCKS_MAX || !(assumed.device_is_assumed() || assumed.scheduler_is_assumed()) {
        return Ok(Vec::new());
    }
    let quiet = Quiet(watch);
    let mut lines = Vec::new();
    for group in words::by_input(runs) {
        let Some(of_interest) = leaders(&group) else { continue };
        for (option, other) in others(of_interest[0], assumed) {
            let specs: Vec<RunSpec> = of_interest.iter().map(|run| changed(run, option, other)).collect();
            // A trace that does not fit another device says nothing about it.
            let Ok(again) = runner::run_all(&specs, threads, brought, &quiet) else { continue };
            let line = compared(&of_interest, &again, &format!("--{option} {other}"));
            lines.extend(line.filter(|line| !lines.contains(line)));
        }
    }
    if watch.stops() { Err(StudyError::stopped()) } else { Ok(lines) }
}

/// No prefetching, the winner, and the one behind it.
fn leaders<'a>(group: &[&'a RunReport]) -> Option<Vec<&'a RunReport>> {
    let none = group.iter().find(|run| run.spec.scheme == *"none")?;
    let mut schemes: Vec<&RunReport> = group.iter().copied().filter(|run| !is_baseline(run)).collect();
    schemes.sort_by(|a, b| b.throughput_bytes_per_s.total_cmp(&a.throughput_bytes_per_s));
    let leaders: Vec<&RunReport> = std::iter::once(*none).chain(schemes.into_iter().take(2)).collect();
    (leaders.len() > 1).then_some(leaders)
}

/// What to try instead of what was assumed.
fn others(run: &RunReport, assumed: &Assumed) -> Vec<(&'static str, &'static str)> {
    let mut others = Vec::new();
    if assumed.scheduler_is_assumed() {
        let other = SCHEDULERS.iter().filter(|&&name| run.spec.scheduler != *name);
        others.extend(other.map(|&name| ("scheduler", name)));
    }
    if assumed.device_is_assumed() && assumed.likeness.guessed {
        let other = DEVICES.iter().filter(|&&name| run.spec.device != *name);
        others.extend(other.map(|&name| ("device", name)));
    }
    others
}

fn changed(run: &RunReport, option: &str, other: &str) -> RunSpec {
    let spec = run.spec.clone();
    match option {
        "scheduler" => RunSpec { scheduler: Said::of(other), ..spec },
        _ => RunSpec { device: Said::of(other), ..spec },
    }
}

/// The sentence about one change, where it turns the verdict.
fn compared(before: &[&RunReport], after: &[RunReport], option: &str) -> Option<String> {
    let factor = |run: &RunReport, none: &RunReport| run.throughput_bytes_per_s / none.throughput_bytes_per_s;
    let (winner, then) = (before.get(1)?, factor(before[1], before[0]));
    let now = factor(after.get(1)?, after.first()?);
    let name = &winner.scheme;
    if then > 1.0 + NOTICEABLE && now < 1.0 - NOTICEABLE {
        return Some(format!(
            "With {option} {name} would lose: {} reading without prefetching.",
            human::times(now)
        ));
    }
    if then <= 1.0 + NOTICEABLE && now > 1.0 + 5.0 * NOTICEABLE {
        return Some(format!(
            "With {option} {name} would pay: {} reading without prefetching.",
            human::times(now)
        ));
    }
    let second = after.get(2)?;
    let behind = factor(before[2], before[0]) < then * (1.0 - NOTICEABLE);
    let ahead = factor(second, &after[0]);
    (behind && ahead > now * (1.0 + NOTICEABLE) && ahead > 1.0 + NOTICEABLE).then(|| {
        format!(
            "With {option} {} would win: {} against {} of {name}.",
            second.scheme,
            human::times(ahead),
            human::times(now)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::run;

    fn told(before: [u64; 3], after: [u64; 3]) -> Option<String> {
        let runs = |rates: [u64; 3]| -> Vec<RunReport> {
            ["none", "asp", "strip"].iter().zip(rates).map(|(scheme, rate)| run("x", scheme, rate)).collect()
        };
        let (before, after) = (runs(before), runs(after));
        compared(&before.iter().collect::<Vec<_>>(), &after, "--scheduler anticipatory")
    }

    #[test]
    fn a_winner_that_would_lose_is_told() {
        let line = told([100, 1500, 200], [100, 38, 90]).expect("it turns");
        assert_eq!(line, "With --scheduler anticipatory asp would lose: 0.38× reading without prefetching.");
    }

    #[test]
    fn a_second_that_would_win_and_a_loser_that_would_pay_are_told_and_else_nothing() {
        assert!(
            told([100, 300, 200], [100, 200, 300])
                .expect("turns")
                .contains("strip would win: 3.00× against 2.00×")
        );
        assert!(told([100, 90, 80], [100, 300, 80]).expect("turns").contains("asp would pay: 3.00×"));
        assert_eq!(told([100, 300, 200], [100, 250, 200]), None);
        assert_eq!(told([100, 99, 98], [100, 101, 100]), None);
    }
}
