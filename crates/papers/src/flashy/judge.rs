//! Means over works: what the rows about a drive compare.
//!
//! A row's runs come in threes: with both, with the kernel's read-ahead alone, with none. Runs of one work are averaged
//! first, so that three queries of TPC-H weigh as much as one BLAST, and PostMark is told but not counted.

use super::super::claim::{Verdict, against};
use super::{BLAST, BLAST_FOUR, DISK, DRIVES, NEWER, POSTMARK, TPCH, WEB};
use forerun_sim::report::RunReport;

/// The slides' average speed-up.
const SPEEDUP: f64 = 1.2;
/// The slides' average accuracy, lower end.
const COVERAGE: f64 = 0.65;
/// A work is not slower at this share of the speed without.
const AS_FAST: f64 = 0.98;

/// One work on one drive.
#[derive(Default)]
struct Of {
    work: &'static str,
    /// Means over its runs.
    over_kernel: f64,
    over_none: f64,
    /// How busy the drive is with the kernel's read-ahead alone.
    busy: f64,
    coverage: f64,
    precision: f64,
    cost: f64,
}

fn work(run: &RunReport) -> &'static str {
    if run.input.starts_with("standin-blast") && !run.input.contains("processes=1,") {
        return BLAST_FOUR;
    }
    let shapes = [
        ("standin-tpch", TPCH),
        ("standin-blast", BLAST),
        ("standin-postmark", POSTMARK),
        ("forward", "LFS"),
    ];
    shapes.iter().find(|(shape, _)| run.input.starts_with(shape)).map_or(WEB, |(_, work)| work)
}

/// Share of the elapsed time in which the drive worked.
pub(super) fn busy(run: &RunReport) -> f64 {
    run.devices.first().map_or(0.0, |drive| drive.busy_ns as f64 / run.elapsed_ns.max(1) as f64)
}

/// Whether a work counts in means.
fn counts(of: &Of) -> bool {
    of.work != POSTMARK && of.work != BLAST_FOUR
}

/// The mean speed-up if BLAST had stayed four processes that read by calls: how much of the mean hangs on that choice.
pub(super) fn mean_with_four(runs: &[&RunReport]) -> Verdict {
    let works = works(runs);
    let counted: Vec<f64> = works
        .iter()
        .filter(|of| of.work == BLAST_FOUR || counts(of) && of.work != BLAST)
        .map(|of| of.over_kernel)
        .collect();
    let ours = counted.iter().sum::<f64>() / counted.len().max(1) as f64;
    Verdict { ours: Some(ours), holds: None, said: String::new() }
}

/// Means of each work, in the order of the runs.
fn works(runs: &[&RunReport]) -> Vec<Of> {
    let mut works: Vec<(Of, f64)> = Vec::new();
    for three in runs.chunks_exact(3) {
        let [both, kernel, none] = [three[0], three[1], three[2]];
        let speed = |than: &RunReport| than.elapsed_ns as f64 / both.elapsed_ns.max(1) as f64;
        let name = work(both);
        let at = works.iter().position(|(of, _)| of.work == name).unwrap_or_else(|| {
            let of = Of { work: name, ..Of::default() };
            works.push((of, 0.0));
            works.len() - 1
        });
        let (of, count) = &mut works[at];
        *count += 1.0;
        let add = |mean: &mut f64, value: f64| *mean += (value - *mean) / *count;
        add(&mut of.over_kernel, speed(kernel));
        add(&mut of.over_none, speed(none));
        add(&mut of.busy, busy(kernel));
        add(&mut of.coverage, both.coverage);
        add(&mut of.precision, both.precision);
        add(&mut of.cost, both.cost);
    }
    works.into_iter().map(|(of, _)| of).collect()
}

/// Mean over the works that count, and all of them in words.
fn mean(runs: &[&RunReport], value: fn(&Of) -> f64, words: fn(&Of) -> String) -> (f64, String) {
    let works = works(runs);
    let counted: Vec<f64> = works.iter().filter(|of| counts(of)).map(value).collect();
    let counting = works.iter().filter(|of| counts(of));
    let said: Vec<String> = counting.map(|of| format!("{} {}", of.work, words(of))).collect();
    (counted.iter().sum::<f64>() / counted.len().max(1) as f64, said.join(", "))
}

fn speeds(of: &Of) -> String {
    format!("{:.2}", of.over_kernel)
}

/// Speed-up over the kernel's read-ahead alone.
pub(super) fn mean_speedup(runs: &[&RunReport]) -> Verdict {
    let (ours, said) = mean(runs, |of| of.over_kernel, speeds);
    let (_, busy) = mean(runs, |of| of.busy, |of| format!("{:.0}%", 100.0 * of.busy));
    let said = format!("{said}; the drive is busy without flashy: {busy}");
    Verdict { ours: Some(ours), holds: Some(ours >= SPEEDUP), said }
}

/// The least speed-up of a work.
pub(super) fn slowest(runs: &[&RunReport]) -> Verdict {
    let works = works(runs);
    let counted = works.iter().filter(|of| counts(of));
    let least = counted.min_by(|a, b| a.over_kernel.total_cmp(&b.over_kernel));
    let ours = least.map(|of| of.over_kernel);
    let said = least.map_or_else(String::new, |of| of.work.into());
    Verdict { ours, holds: ours.map(|ours| ours >= AS_FAST), said }
}

/// The slides' accuracy: of what was read, how much a prefetch had brought or was bringing.
pub(super) fn mean_coverage(runs: &[&RunReport]) -> Verdict {
    let words = |of: &Of| format!("{:.2} (precision {:.2}, cost {:.2})", of.coverage, of.precision, of.cost);
    let (ours, said) = mean(runs, |of| of.coverage, words);
    Verdict { ours: Some(ours), holds: Some(ours >= COVERAGE), said }
}

/// Runs by drive, in the order of [`DRIVES`].
fn by_drive<'a>(runs: &[&'a RunReport]) -> Vec<(&'static str, Vec<&'a RunReport>)> {
    let of = |preset: &'static str| {
        (preset, runs.iter().copied().filter(|run| run.spec.device == *preset).collect::<Vec<_>>())
    };
    DRIVES.iter().map(|drive| of(drive.preset)).collect()
}

/// "An average 20% speedup [on four works] across various storage drives": the mean of the means of the slides' five.
pub(super) fn across_drives(runs: &[&RunReport]) -> Verdict {
    let gains: Vec<(&str, f64, f64)> = by_drive(runs)
        .into_iter()
        .filter(|(drive, _)| *drive != NEWER)
        .map(|(drive, runs)| {
            let four = mean_with_four(&runs).ours.unwrap_or(0.0);
            (drive, mean(&runs, |of| of.over_kernel, speeds).0, four)
        })
        .collect();
    let mean_of =
        |gain: fn(&(&str, f64, f64)) -> f64| gains.iter().map(gain).sum::<f64>() / gains.len().max(1) as f64;
    let (ours, four) = (mean_of(|of| of.1), mean_of(|of| of.2));
    let said: Vec<String> = gains.iter().map(|(drive, gain, _)| format!("{drive} {gain:.2}")).collect();
    let said = format!("{}; {four:.2} with BLAST as four processes that read by calls", said.join(", "));
    Verdict { ours: Some(ours), holds: Some(ours >= SPEEDUP), said }
}

/// The disk's mean speed-up over the largest of an SSD.
pub(super) fn disk_gains_most(runs: &[&RunReport]) -> Verdict {
    let gains: Vec<(&str, f64)> = by_drive(runs)
        .into_iter()
        .map(|(drive, runs)| (drive, mean(&runs, |of| of.over_kernel, speeds).0))
        .collect();
    let disk = gains.iter().find(|(drive, _)| *drive == DISK).map_or(0.0, |(_, gain)| *gain);
    let best = gains.iter().filter(|(drive, _)| *drive != DISK).map(|(_, gain)| *gain).fold(0.0, f64::max);
    let ours = if best > 0.0 { disk / best } else { 0.0 };
    let said: Vec<String> = gains.iter().map(|(drive, gain)| format!("{drive} {gain:.2}")).collect();
    Verdict { ours: Some(ours), holds: Some(ours > 1.0), said: said.join(", ") }
}

/// The largest speed-up of web search: the slides name one of 2.02 and not its drive.
pub(super) fn largest_of_web(runs: &[&RunReport]) -> Verdict {
    let gains: Vec<(&str, f64)> = by_drive(runs)
        .into_iter()
        .filter_map(|(drive, runs)| {
            works(&runs).into_iter().find(|of| of.work == WEB).map(|of| (drive, of.over_kernel))
        })
        .collect();
    let best = gains.iter().map(|(_, gain)| *gain).fold(0.0, f64::max);
    let said: Vec<String> = gains.iter().map(|(drive, gain)| format!("{drive} {gain:.2}")).collect();
    Verdict { ours: Some(best), holds: Some(against(best, 2.02).1), said: said.join(", ") }
}
