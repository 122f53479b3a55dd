//! What happened when: throughput, hit ratio and the devices' work over virtual time, and where it was read. A range of time that is
//! dragged out in one of them is shown by all, with what each scheme did in it.

use super::charts::{self, Line};
use super::esc;
use super::figures::Group;
use crate::human::{self, float};
use forerun_sim::report::{Mark, RunReport, Sample, Served, ratio};
use std::fmt::Write as _;

/// Most points that a curve is drawn with; more cannot be told apart.
const CURVE_POINTS_MAX: usize = 160;

/// Parts of an axis that have a word.
const QUARTERS: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];

/// A number of each slice of time between two samples.
type Of<'a> = &'a dyn Fn(&RunReport, &Sample, &Sample) -> Option<f64>;

fn curves(group: Group<'_>, of: Of<'_>) -> Vec<Line> {
    let some = (0..group.runs.len()).filter(|&index| group.runs[index].timeline.len() > 1);
    some.map(|index| Line {
        label: group.label(index),
        stroke: group.stroke(index),
        points: curve(group.runs[index], of),
    })
    .collect()
}

fn seconds_between(before: &Sample, after: &Sample) -> f64 {
    float(after.at_ns.saturating_sub(before.at_ns)) / 1e9
}

fn rate(_: &RunReport, before: &Sample, after: &Sample) -> Option<f64> {
    let seconds = seconds_between(before, after);
    (seconds > 0.0).then(|| float(after.bytes_delivered.saturating_sub(before.bytes_delivered)) / seconds)
}

fn hit_ratio(_: &RunReport, before: &Sample, after: &Sample) -> Option<f64> {
    let hits = |sample: &Sample| sample.counts.cache_hits + sample.counts.prefetch_hits;
    let blocks = after.counts.blocks_read.saturating_sub(before.counts.blocks_read);
    (blocks > 0).then(|| ratio(hits(after).saturating_sub(hits(before)), blocks))
}

fn busy(run: &RunReport, before: &Sample, after: &Sample) -> Option<f64> {
    let all = seconds_between(before, after) * float(run.devices.len() as u64);
    (all > 0.0).then(|| (float(after.worked_ns.saturating_sub(before.worked_ns)) / 1e9 / all).min(1.0))
}

/// All pictures over time; nothing where no run has any.
pub(super) fn figures(group: Group<'_>) -> String {
    let rates = curves(group, &rate);
    if rates.is_empty() {
        return String::new();
    }
    let longest = |run: &&RunReport| run.timeline.last().map_or(0, |sample| sample.at_ns);
    let seconds = float(group.runs.iter().map(longest).max().unwrap_or(0)) / 1e9;
    let (top, cut) = rate_top(&rates);
    let note = if cut {
        "Virtual time; a curve ends where its run ends. Short bursts from memory reach beyond the picture. Drag over a range to \
         look at it in all pictures."
    } else {
        "Virtual time; a curve ends where its run ends. Drag over a range to look at it in all pictures."
    };
    let rate_ticks: Vec<(f64, String)> = QUARTERS.iter().map(|&at| (at, human::rate(at * top))).collect();
    let share_ticks: Vec<(f64, String)> =
        QUARTERS.iter().map(|&at| (at, format!("{:.0}%", at * 100.0))).collect();
    let figure =
        |title: &str, note: &str, curves: &[Line], y_max: f64, ticks: &[(f64, String)], unit: &str| {
            let drawn = charts::lines(curves, (seconds, y_max), &time_ticks(seconds), ticks, unit);
            charts::figure(title, note, &others(curves), &drawn)
        };
    let mut text = figure("Throughput over time", note, &rates, top, &rate_ticks, "rate");
    let hits = curves(group, &hit_ratio);
    let share = "Share of blocks served from memory in each slice of time.";
    text.push_str(&figure("Hit ratio over time", share, &hits, 1.0, &share_ticks, "share"));
    let busy = curves(group, &busy);
    let share = "Share of each slice of time in which a device worked, in the mean of all devices.";
    text.push_str(&figure("Devices over time", share, &busy, 1.0, &share_ticks, "share"));
    text.push_str(&picture(group, seconds));
    text.push_str("<figure class=\"wide range\" hidden><figcaption><h3></h3><p>What each scheme did in the range that was dragged \
                   out. <button type=\"button\">Show all of the time</button></p></figcaption><div class=\"scroll\"></div></figure>\n");
    text
}

fn time_ticks(seconds: f64) -> Vec<(f64, String)> {
    QUARTERS.iter().map(|&at| (at, human::tick(at * seconds * 1e9))).collect()
}

/// A switch for the curves that are not drawn at first; works without a script.
fn others(curves: &[Line]) -> String {
    let rest: Vec<&str> = curves
        .iter()
        .filter(|line| line.stroke.contains("rest"))
        .map(|line| line.label.name.as_str())
        .collect();
    if rest.is_empty() {
        return String::new();
    }
    format!(
        "<label class=\"more\" title=\"{}\"><input type=\"checkbox\"> and the other {}, in grey</label>",
        esc(&rest.join(", ")),
        rest.len()
    )
}

/// The end of the axis of rates, and whether some points lie beyond it: a few bursts served from memory must not
/// flatten everything that the disks did.
fn rate_top(rates: &[Line]) -> (f64, bool) {
    let mut all: Vec<f64> = rates.iter().flat_map(|line| &line.points).map(|point| point.1).collect();
    all.sort_by(f64::total_cmp);
    let most = all.last().copied().unwrap_or(0.0);
    let usual = all.get(all.len().saturating_sub(1) * 9 / 10).copied().unwrap_or(0.0);
    if usual > 0.0 && most > usual * 3.0 { (nice(usual * 1.5), true) } else { (nice(most), false) }
}

/// Differences between samples, thinned to at most [`CURVE_POINTS_MAX`] points.
fn curve(run: &RunReport, of: Of<'_>) -> Vec<(f64, f64)> {
    let samples = &run.timeline;
    let step = samples.len().div_ceil(CURVE_POINTS_MAX).max(1);
    let mut kept: Vec<&Sample> = samples.iter().step_by(step).collect();
    if let (Some(last), Some(kept_last)) = (samples.last(), kept.last())
        && last != *kept_last
    {
        kept.push(last);
    }
    let pairs = kept.windows(2);
    pairs.filter_map(|pair| of(run, pair[0], pair[1]).map(|y| (float(pair[1].at_ns) / 1e9, y))).collect()
}

/// The next larger 1, 2 or 5 times a power of two thousand-odd: a round end for an axis of bytes per second.
fn nice(value: f64) -> f64 {
    let mut unit = 1.0;
    while value / unit >= 1024.0 {
        unit *= 1024.0;
    }
    let steps = [
        1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0, 40.0, 60.0, 80.0, 100.0, 120.0, 160.0,
        200.0, 240.0, 320.0, 400.0, 600.0, 800.0, 1024.0,
    ];
    unit * steps.iter().copied().find(|&step| step * unit >= value).unwrap_or(1024.0)
}

/// Offset against time, of the run that won, or of the last that has reads.
fn picture(group: Group<'_>, seconds: f64) -> String {
    let of = |index: &usize| !group.runs[*index].marks.is_empty();
    let Some(run) = group.winner.filter(of).or_else(|| (0..group.runs.len()).rev().find(of)) else {
        return String::new();
    };
    let run = group.runs[run];
    let low = run.marks.iter().map(|mark| mark.offset).min().unwrap_or(0);
    let high = run.marks.iter().map(|mark| mark.offset).max().unwrap_or(0);
    let place = |mark: &Mark| {
        let x = float(mark.at_ns) / 1e9 / seconds.max(f64::MIN_POSITIVE);
        let y = 1.0 - ratio(mark.offset - low, (high - low).max(1));
        (charts::SPACE.0 * x, charts::SPACE.1 * y)
    };
    let kinds = [(Served::Hit, "p-hit"), (Served::Late, "p-late"), (Served::Miss, "p-miss")];
    let mut drawing = String::new();
    for (kind, class) in kinds {
        let mut path = String::new();
        for mark in run.marks.iter().filter(|mark| mark.served == kind) {
            let (x, y) = place(mark);
            // Writing to a string cannot fail.
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        }
        if !path.is_empty() {
            let _ = write!(drawing, "<path class=\"points {class}\" d=\"{path}\"/>");
        }
    }
    let ticks: Vec<(f64, String)> =
        QUARTERS.iter().map(|&at| (at, human::bytes(float(low) + float(high - low) * at))).collect();
    charts::figure(
        &format!("Where it was read, under {}", run.scheme),
        &format!(
            "Upwards the offset in the volume. {} of its reads, spread evenly.",
            human::count(run.marks.len() as u64)
        ),
        &charts::legend(&[
            ("p-hit", "from memory"),
            ("p-late", "a prefetch under way"),
            ("p-miss", "from disk"),
        ]),
        &charts::plot(&drawing, seconds, &time_ticks(seconds), &ticks, "none"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::run;
    use forerun_sim::report::Counts;

    fn timed(scheme: &str, rate: u64) -> RunReport {
        let mut run = run("x", scheme, rate);
        run.timeline = (0..4)
            .map(|k| Sample {
                at_ns: k * 1_000_000_000,
                bytes_delivered: k * (rate << 20),
                counts: Counts { blocks_read: k * 100, cache_hits: k * 50, ..Counts::default() },
                worked_ns: k * 250_000_000,
            })
            .collect();
        run.marks = vec![Mark { at_ns: 10, offset: 4096, served: Served::Miss }];
        run
    }

    #[test]
    fn of_more_than_five_schemes_the_best_five_are_drawn_and_the_others_asked_for() {
        let mut runs = vec![timed("none", 10), timed("oracle", 90)];
        runs.extend(
            ["strip", "asp", "msp", "asp+msp", "grain", "auto", "sieve"]
                .iter()
                .zip(20..)
                .map(|(s, r)| timed(s, r)),
        );
        let runs: Vec<&RunReport> = runs.iter().collect();
        let group = Group { runs: &runs, winner: Some(8) };
        let rest: Vec<&str> = (0..9)
            .filter(|&index| group.stroke(index).contains("rest"))
            .map(|index| runs[index].scheme.as_str())
            .collect();
        assert_eq!(rest, ["oracle", "strip", "asp"]);
        let text = figures(group);
        assert_eq!(text.matches("class=\"more\" title=\"oracle, strip, asp\"").count(), 3);
        let few = Group { runs: &runs[..4], winner: Some(3) };
        assert!((0..4).all(|index| !few.stroke(index).contains("rest")));
        assert!(!figures(few).contains("class=\"more\""));
    }

    #[test]
    fn a_device_that_worked_a_quarter_of_the_time_is_drawn_there() {
        let (run, sample) = (timed("asp", 10), timed("asp", 10).timeline);
        assert_eq!(busy(&run, &sample[0], &sample[1]), Some(0.25));
        assert_eq!(hit_ratio(&run, &sample[0], &sample[1]), Some(0.5));
        assert_eq!(rate(&run, &sample[0], &sample[1]), Some(f64::from(10 << 20)));
    }
}
