//! The pictures of one input: each takes the runs and gives one figure.

use super::charts::{self, Bar, Dots, Label, Line, Stack};
use super::esc;
use crate::human::{self, float};
use crate::words;
use forerun_sim::report::{RunReport, Sample, ratio};
use std::fmt::Write as _;

/// Most points that a curve is drawn with; more cannot be told apart.
const CURVE_POINTS_MAX: usize = 160;

/// The runs of one input and which of them won.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) runs: &'a [&'a RunReport],
    pub(super) winner: Option<usize>,
}

impl Group<'_> {
    fn label(&self, run: usize) -> Label {
        let name = self.runs[run].scheme.clone();
        let factor = words::speedup(self.runs[run], self.runs).unwrap_or(1.0);
        let class = if words::is_baseline(self.runs[run]) {
            "base"
        } else if self.winner == Some(run) && factor > 1.0 {
            "best"
        } else if factor < 0.98 {
            "worse"
        } else {
            ""
        };
        Label { run, name, class }
    }
    fn largest(&self, of: impl Fn(&RunReport) -> f64) -> f64 {
        self.runs.iter().map(|run| of(run)).fold(0.0, f64::max)
    }
}

/// The class that colours a run's curve: greys for the baselines, else seven colours, then the same ones dashed,
/// then dotted, so that neighbours differ in more than hue.
pub(super) fn stroke(runs: &[&RunReport], run: usize) -> String {
    if words::is_baseline(runs[run]) {
        return format!("s-{}", runs[run].spec.scheme);
    }
    let before = runs[..run].iter().filter(|other| !words::is_baseline(other)).count();
    format!("s{} d{}", before % 7, (before / 7).min(2))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Throughput, with how many times that of `none`.
pub(super) fn throughput(group: Group<'_>) -> String {
    // The bound is often a hundred times faster than any run and would flatten their bars: its own is cut.
    let full = group.largest(|run| if run.scheme == "bound" { 0.0 } else { run.throughput_bytes_per_s });
    let rows: Vec<Bar> = (0..group.runs.len())
        .map(|index| {
            let run = group.runs[index];
            let factor = words::speedup(run, group.runs).map_or_else(String::new, human::times);
            Bar {
                label: group.label(index),
                share: share(run.throughput_bytes_per_s, full).min(1.0),
                value: human::rate(run.throughput_bytes_per_s),
                tip: format!(
                    "{}: {} in {}, {factor} none",
                    run.scheme,
                    human::bytes(float(run.bytes_requested)),
                    human::duration(float(run.elapsed_ns)),
                ),
                note: factor,
            }
        })
        .collect();
    let none = group.runs.iter().find(|run| run.spec.scheme == *"none");
    let marks: Vec<(f64, &str)> =
        none.map(|run| (share(run.throughput_bytes_per_s, full), "none")).into_iter().collect();
    charts::figure(
        "Throughput",
        "Bytes that the programs got per second of virtual time; longer is better. The dashed line is reading without prefetching; the bar of the bound is cut.",
        "",
        &charts::bars(&rows, &marks),
    )
}

/// What became of each block that was read.
pub(super) fn outcomes(group: Group<'_>) -> String {
    let rows: Vec<Stack> = (0..group.runs.len())
        .filter(|&index| group.runs[index].counts.blocks_read > 0)
        .map(|index| {
            let run = group.runs[index];
            let counts = run.counts;
            let part = |class, name, blocks: u64| {
                let part = ratio(blocks, counts.blocks_read);
                (
                    class,
                    name,
                    part,
                    format!(
                        "{} of {} blocks ({})",
                        human::count(blocks),
                        human::count(counts.blocks_read),
                        human::percent(part)
                    ),
                )
            };
            Stack {
                label: group.label(index),
                parts: vec![
                    part("o-cache", "cache hits", counts.cache_hits),
                    part("o-prefetch", "prefetch hits", counts.prefetch_hits),
                    part("o-late", "late hits", counts.late_hits),
                    part("o-miss", "misses", counts.misses),
                ],
                value: human::percent(run.hit_ratio),
            }
        })
        .collect();
    charts::figure(
        "How each block read was served",
        "From memory because it was read before, from memory because a prefetch had brought it, by waiting for a prefetch under way, or from disk. The figure is the hit ratio.",
        &charts::legend(&[
            ("o-cache", "cache hit"),
            ("o-prefetch", "prefetch hit"),
            ("o-late", "late hit"),
            ("o-miss", "miss"),
        ]),
        &charts::stacks(&rows),
    )
}

/// What became of the blocks that were prefetched.
pub(super) fn precision(group: Group<'_>) -> String {
    let rows: Vec<Stack> = (0..group.runs.len())
        .filter(|&index| group.runs[index].counts.prefetched_blocks > 0)
        .map(|index| {
            let run = group.runs[index];
            let counts = run.counts;
            let full = group.largest(|run| float(run.counts.prefetched_blocks));
            let part = |class, name, blocks: u64| {
                (class, name, share(float(blocks), full), format!("{} blocks", human::count(blocks)))
            };
            Stack {
                label: group.label(index),
                parts: vec![
                    part("o-prefetch", "used", counts.prefetched_used),
                    part("o-wasted", "left unread", counts.prefetched_wasted),
                    part(
                        "o-unread",
                        "unread at the end",
                        counts.prefetched_unused_resident + counts.prefetched_in_flight,
                    ),
                ],
                value: human::percent(run.precision),
            }
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    charts::figure(
        "What became of prefetched blocks",
        "Length is how much was prefetched. The figure is precision: the share that was read before it left.",
        &charts::legend(&[
            ("o-prefetch", "used"),
            ("o-wasted", "left unread"),
            ("o-unread", "unread at the end"),
        ]),
        &charts::stacks(&rows),
    )
}

/// Bytes from the devices for each byte asked for.
pub(super) fn amplification(group: Group<'_>) -> String {
    let full = group.largest(|run| run.amplification).max(1.0);
    let rows: Vec<Bar> = (0..group.runs.len())
        .map(|index| {
            let run = group.runs[index];
            Bar {
                label: Label {
                    class: if words::is_baseline(run) { "base" } else { "" },
                    ..group.label(index)
                },
                share: run.amplification / full,
                value: human::digits(run.amplification),
                note: String::new(),
                tip: format!(
                    "{}: {} read from the devices for {} asked for",
                    run.scheme,
                    human::bytes(float(run.bytes_from_devices)),
                    human::bytes(float(run.bytes_read_requested)),
                ),
            }
        })
        .collect();
    charts::figure(
        "Amplification",
        "Bytes read from the devices for each byte that programs asked to read. The dashed line is one for one; below it the cache helps, above it prefetching reads too much.",
        "",
        &charts::bars(&rows, &[(1.0 / full, "1")]),
    )
}

/// Response times on a logarithmic axis.
pub(super) fn latency(group: Group<'_>) -> String {
    let timed: Vec<usize> =
        (0..group.runs.len()).filter(|&index| group.runs[index].latency_ns.max > 0).collect();
    let low = timed
        .iter()
        .map(|&index| float(group.runs[index].latency_ns.p50))
        .fold(f64::MAX, f64::min)
        .max(100.0);
    let high = timed.iter().map(|&index| float(group.runs[index].latency_ns.max)).fold(0.0, f64::max);
    if timed.is_empty() {
        return String::new();
    }
    let (from, to) = (low.log10().floor(), high.max(low * 10.0).log10().ceil());
    let place = |ns: f64| ((ns.max(low).log10() - from) / (to - from)).clamp(0.0, 1.0);
    let rows: Vec<Dots> = timed
        .iter()
        .map(|&index| {
            let latency = group.runs[index].latency_ns;
            let dot = |name, ns: f64| (name, place(ns), human::duration(ns));
            let mut dots = vec![
                dot("p50", float(latency.p50)),
                dot("mean", latency.mean),
                dot("p95", float(latency.p95)),
                dot("p99", float(latency.p99)),
                dot("max", float(latency.max)),
            ];
            dots.sort_by(|a, b| a.1.total_cmp(&b.1));
            Dots { label: group.label(index), dots, value: human::duration(float(latency.p99)) }
        })
        .collect();
    charts::figure(
        "Response time of a request",
        "On a logarithmic scale; further left is better. The figure is the 99th percentile.",
        &charts::legend(&[
            ("dot p50", "half below"),
            ("dot mean", "mean"),
            ("dot p95", "95%"),
            ("dot p99", "99%"),
            ("dot max", "longest"),
        ]),
        &charts::dots(&rows, &decades(from, to)),
    )
}

#[expect(clippy::cast_possible_truncation, reason = "powers of ten of a 64-bit number of nanoseconds")]
fn decades(from: f64, to: f64) -> Vec<(f64, String)> {
    let step = if to - from > 6.0 { 2 } else { 1 };
    let ticks = (from as i32..=to as i32).step_by(step);
    ticks.map(|power| ((f64::from(power) - from) / (to - from), human::tick(10f64.powi(power)))).collect()
}

/// What readers waited for.
pub(super) fn stall(group: Group<'_>) -> String {
    let total = |run: &RunReport| {
        float(run.stall.miss_ns) + float(run.stall.late_prefetch_ns) + float(run.stall.behind_prefetch_ns)
    };
    let full = group.largest(total);
    if full == 0.0 {
        return String::new();
    }
    let rows: Vec<Stack> = (0..group.runs.len())
        .filter(|&index| total(group.runs[index]) > 0.0)
        .map(|index| {
            let run = group.runs[index];
            let part = |class, name, ns: u64| (class, name, float(ns) / full, human::duration(float(ns)));
            Stack {
                label: group.label(index),
                parts: vec![
                    part("o-miss", "for a read from disk", run.stall.miss_ns),
                    part("o-late", "for a prefetch under way", run.stall.late_prefetch_ns),
                    part("o-behind", "in a queue behind prefetches", run.stall.behind_prefetch_ns),
                ],
                value: human::duration(total(run)),
            }
        })
        .collect();
    charts::figure(
        "What readers waited for",
        "Summed over all readers; shorter is better.",
        &charts::legend(&[
            ("o-miss", "a read from disk"),
            ("o-late", "a prefetch under way"),
            ("o-behind", "a queue behind prefetches"),
        ]),
        &charts::stacks(&rows),
    )
}

/// Throughput and hit ratio over virtual time: two figures.
pub(super) fn timelines(group: Group<'_>) -> String {
    let curves = |of: &dyn Fn(&Sample, &Sample) -> Option<f64>| -> Vec<Line> {
        (0..group.runs.len())
            .filter(|&index| group.runs[index].timeline.len() > 1)
            .map(|index| Line {
                label: group.label(index),
                stroke: stroke(group.runs, index),
                points: curve(&group.runs[index].timeline, of),
            })
            .collect()
    };
    let rates = curves(&|before, after| {
        let seconds = float(after.at_ns.saturating_sub(before.at_ns)) / 1e9;
        (seconds > 0.0).then(|| float(after.bytes_delivered.saturating_sub(before.bytes_delivered)) / seconds)
    });
    let hits = curves(&|before, after| {
        let hits = |sample: &Sample| sample.counts.cache_hits + sample.counts.prefetch_hits;
        let blocks = after.counts.blocks_read.saturating_sub(before.counts.blocks_read);
        (blocks > 0).then(|| ratio(hits(after).saturating_sub(hits(before)), blocks))
    });
    if rates.is_empty() {
        return String::new();
    }
    let seconds = rates.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max);
    let (top, cut) = rate_top(&rates);
    let x_ticks: Vec<(f64, String)> =
        [0.0, 0.25, 0.5, 0.75, 1.0].iter().map(|&at| (at, human::tick(at * seconds * 1e9))).collect();
    let rate_ticks: Vec<(f64, String)> =
        [0.0, 0.25, 0.5, 0.75, 1.0].iter().map(|&at| (at, human::rate(at * top))).collect();
    let hit_ticks: Vec<(f64, String)> =
        [0.0, 0.25, 0.5, 0.75, 1.0].iter().map(|&at| (at, format!("{:.0}%", at * 100.0))).collect();
    let first = charts::figure(
        "Throughput over time",
        if cut {
            "Virtual time; a curve ends where its run ends. Short bursts from memory reach beyond the picture. Point at it for figures."
        } else {
            "Virtual time; a curve ends where its run ends. Point at it for figures."
        },
        "",
        &charts::lines(&rates, (seconds, top), &x_ticks, &rate_ticks, "rate"),
    );
    let second = charts::figure(
        "Hit ratio over time",
        "Share of blocks served from memory in each slice of time.",
        "",
        &charts::lines(&hits, (seconds, 1.0), &x_ticks, &hit_ticks, "share"),
    );
    first + &second
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
fn curve(samples: &[Sample], of: &dyn Fn(&Sample, &Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let step = samples.len().div_ceil(CURVE_POINTS_MAX).max(1);
    let mut kept: Vec<&Sample> = samples.iter().step_by(step).collect();
    if let (Some(last), Some(kept_last)) = (samples.last(), kept.last())
        && last != *kept_last
    {
        kept.push(last);
    }
    let pairs = kept.windows(2);
    pairs.filter_map(|pair| of(pair[0], pair[1]).map(|y| (float(pair[1].at_ns) / 1e9, y))).collect()
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

/// Busy share and seeks of every member device under every scheme.
pub(super) fn disks(group: Group<'_>) -> String {
    let disks = group.runs.iter().map(|run| run.devices.len()).max().unwrap_or(0);
    if disks == 0 {
        return String::new();
    }
    let mut text = String::from("<div class=\"scroll\"><table class=\"disks\"><thead><tr><th>scheme</th>");
    for disk in 0..disks {
        // Writing to a string cannot fail, here and below.
        let _ = write!(text, "<th>disk {disk}</th>");
    }
    text.push_str("<th>commands</th><th>seeks</th></tr></thead><tbody>");
    for index in (0..group.runs.len()).filter(|&index| !group.runs[index].devices.is_empty()) {
        text.push_str(&disk_row(group.runs[index], &group.label(index)));
    }
    text.push_str("</tbody></table></div>");
    charts::figure(
        "What the disks did",
        "The bar is the share of elapsed time in which the disk was busy; below it the commands that moved its head.",
        "",
        &text,
    )
    .replace("<figure>", "<figure class=\"wide\">")
}

fn disk_row(run: &RunReport, label: &Label) -> String {
    let mut text =
        format!("<tr class=\"{}\" data-run=\"{}\"><td>{}</td>", label.class, label.run, esc(&run.scheme));
    for (number, device) in run.devices.iter().enumerate() {
        let busy = ratio(device.busy_ns, run.elapsed_ns);
        let tip = format!(
            "{}, disk {number}: {} busy, {} commands, {} seeks, {}",
            run.scheme,
            human::percent(busy),
            human::count(device.commands),
            human::count(device.seeks),
            human::bytes(float(device.bytes)),
        );
        let _ = write!(
            text,
            "<td><span class=\"cell\" data-tip=\"{}\">{}<svg><rect class=\"track\" width=\"100%\" height=\"100%\" rx=\"2\"/>\
             <rect class=\"fill\" width=\"{:.1}%\" height=\"100%\" rx=\"2\"/></svg><small>{} seeks</small></span></td>",
            esc(&tip),
            human::percent(busy),
            busy.clamp(0.0, 1.0) * 100.0,
            human::count(device.seeks),
        );
    }
    let sum = |of: fn(&forerun_sim::report::DeviceReport) -> u64| run.devices.iter().map(of).sum::<u64>();
    let _ = write!(
        text,
        "<td>{}</td><td>{}</td></tr>",
        human::count(sum(|device| device.commands)),
        human::count(sum(|device| device.seeks))
    );
    text
}
