//! Means over works: what the rows about a drive compare.
//!
//! A row's runs come in threes: with both, with the kernel's read-ahead alone, with none. Runs of one work are averaged
//! first, so that three queries of TPC-H weigh as much as one BLAST, and PostMark is told but not counted.

use super::super::claim::{Verdict, against};
use super::{BLAST, BLAST_CALLS, BLAST_FOUR, DISK, DRIVES, NEWER, POSTMARK, TPCH, WEB};
use forerun_core::units::BLOCK_BYTES;
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
    /// Flashy's own part of it, and the kernel's where it is alone.
    own: f64,
    kernel: f64,
    precision: f64,
    cost: f64,
}

/// Share of what was read that flashy itself had wished for, by its own books.
fn own(run: &RunReport) -> f64 {
    let Some(layer) = run.layers.first() else { return 0.0 };
    let served = layer.gauges.iter().find(|(name, _)| name == "flashy_served_bytes").map_or(0.0, |(_, v)| *v);
    served / ((layer.counts.blocks_read * BLOCK_BYTES).max(1) as f64)
}

fn work(run: &RunReport) -> &'static str {
    if run.input.starts_with("standin-blast") {
        return match (run.input.contains("processes=1,"), run.scheme.contains("mapped=on")) {
            (false, _) => BLAST_FOUR,
            (true, false) => BLAST_CALLS,
            (true, true) => BLAST,
        };
    }
    let shapes = [("standin-tpch", TPCH), ("standin-postmark", POSTMARK), ("forward", "LFS")];
    shapes.iter().find(|(shape, _)| run.input.starts_with(shape)).map_or(WEB, |(_, work)| work)
}

/// Share of the elapsed time in which the drive worked.
pub(super) fn busy(run: &RunReport) -> f64 {
    run.devices.first().map_or(0.0, |drive| drive.busy_ns as f64 / run.elapsed_ns.max(1) as f64)
}

/// The three ways in which BLAST stands.
const BLASTS: [&str; 3] = [BLAST, BLAST_CALLS, BLAST_FOUR];

/// Whether a work counts in means that take BLAST this way.
fn counts(of: &Of, blast: &str) -> bool {
    of.work == blast || of.work != POSTMARK && !BLASTS.contains(&of.work)
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
        add(&mut of.own, own(both));
        add(&mut of.kernel, kernel.coverage);
        add(&mut of.precision, both.precision);
        add(&mut of.cost, both.cost);
    }
    works.into_iter().map(|(of, _)| of).collect()
}

/// Mean over the works that count with BLAST this way, and all of them in words.
fn mean(runs: &[&RunReport], blast: &str, value: fn(&Of) -> f64, words: fn(&Of) -> String) -> (f64, String) {
    let works = works(runs);
    let counting = || works.iter().filter(|of| counts(of, blast));
    let sum: f64 = counting().map(value).sum();
    let said: Vec<String> = counting().map(|of| format!("{} {}", of.work, words(of))).collect();
    (sum / counting().count().max(1) as f64, said.join(", "))
}

fn speeds(of: &Of) -> String {
    format!("{:.2}", of.over_kernel)
}

/// Speed-up over the kernel's read-ahead alone.
pub(super) fn mean_speedup(runs: &[&RunReport]) -> Verdict {
    speedup(runs, BLAST)
}
/// The same with BLAST as one process that reads by calls.
pub(super) fn mean_with_calls(runs: &[&RunReport]) -> Verdict {
    speedup(runs, BLAST_CALLS)
}
/// The same with BLAST as four of them.
pub(super) fn mean_with_four(runs: &[&RunReport]) -> Verdict {
    speedup(runs, BLAST_FOUR)
}

fn speedup(runs: &[&RunReport], blast: &str) -> Verdict {
    let (ours, said) = mean(runs, blast, |of| of.over_kernel, speeds);
    let (_, busy) = mean(runs, blast, |of| of.busy, |of| format!("{:.0}%", 100.0 * of.busy));
    let said = format!("{said}; the drive is busy without flashy: {busy}");
    Verdict { ours: Some(ours), holds: Some(ours >= SPEEDUP), said }
}

/// The least speed-up of a run: of each query by itself, and of what has no bar too.
pub(super) fn slowest(runs: &[&RunReport]) -> Verdict {
    let speed = |three: &[&RunReport]| three[1].elapsed_ns as f64 / three[0].elapsed_ns.max(1) as f64;
    let least = runs.chunks_exact(3).min_by(|a, b| speed(a).total_cmp(&speed(b)));
    let ours = least.map(speed);
    let said = least.map_or_else(String::new, |three| format!("{} ({})", work(three[0]), three[0].input));
    Verdict { ours, holds: ours.map(|ours| ours >= AS_FAST), said }
}

/// The slides' accuracy, flashy's own part: of what was read, how much it had wished for before.
pub(super) fn own_coverage(runs: &[&RunReport]) -> Verdict {
    let words =
        |of: &Of| format!("{:.2} (precision of all {:.2}, cost {:.2})", of.own, of.precision, of.cost);
    let (ours, said) = mean(runs, BLAST, |of| of.own, words);
    Verdict { ours: Some(ours), holds: Some(ours >= COVERAGE), said }
}

/// What the kernel's read-ahead covers where it is alone.
pub(super) fn kernel_coverage(runs: &[&RunReport]) -> Verdict {
    let (ours, said) = mean(runs, BLAST, |of| of.kernel, |of| format!("{:.2}", of.kernel));
    Verdict { ours: Some(ours), holds: None, said }
}

/// What both cover together.
pub(super) fn mean_coverage(runs: &[&RunReport]) -> Verdict {
    let (ours, said) = mean(runs, BLAST, |of| of.coverage, |of| format!("{:.2}", of.coverage));
    Verdict { ours: Some(ours), holds: None, said }
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
    across(runs, BLAST)
}
/// The same with BLAST as one process that reads by calls.
pub(super) fn across_drives_by_calls(runs: &[&RunReport]) -> Verdict {
    across(runs, BLAST_CALLS)
}

/// Each drive's mean speed-up.
fn gains(runs: &[&RunReport], blast: &str) -> Vec<(&'static str, f64)> {
    let of = |(drive, runs): (&'static str, Vec<&RunReport>)| {
        (drive, mean(&runs, blast, |of| of.over_kernel, speeds).0)
    };
    by_drive(runs).into_iter().map(of).collect()
}

fn in_words(gains: &[(&str, f64)]) -> String {
    gains.iter().map(|(drive, gain)| format!("{drive} {gain:.2}")).collect::<Vec<_>>().join(", ")
}

fn across(runs: &[&RunReport], blast: &str) -> Verdict {
    let gains: Vec<(&str, f64)> =
        gains(runs, blast).into_iter().filter(|(drive, _)| *drive != NEWER).collect();
    let ours = gains.iter().map(|(_, gain)| gain).sum::<f64>() / gains.len().max(1) as f64;
    Verdict { ours: Some(ours), holds: Some(ours >= SPEEDUP), said: in_words(&gains) }
}

/// The disk's mean speed-up over the largest of an SSD.
pub(super) fn disk_gains_most(runs: &[&RunReport]) -> Verdict {
    let gains = gains(runs, BLAST);
    let disk = gains.iter().find(|(drive, _)| *drive == DISK).map_or(0.0, |(_, gain)| *gain);
    let best = gains.iter().filter(|(drive, _)| *drive != DISK).map(|(_, gain)| *gain).fold(0.0, f64::max);
    let ours = if best > 0.0 { disk / best } else { 0.0 };
    Verdict { ours: Some(ours), holds: Some(ours > 1.0), said: in_words(&gains) }
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
