//! The pictures of one input: each takes the runs and gives one figure.

use super::charts::{self, Bar, Dots, Label, Stack};
use super::esc;
use crate::human::{self, float};
use crate::words;
use forerun_sim::report::{RunReport, ratio};
use std::fmt::Write as _;

/// Most curves of schemes that are drawn at first.
const CURVES_MAX: usize = 5;

/// The runs of one input and which of them won.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) runs: &'a [&'a RunReport],
    pub(super) winner: Option<usize>,
}

impl Group<'_> {
    /// The classes that colour a run's curve: greys for the baselines, colours for the schemes. Of more than five schemes the best
    /// five have colours; the others, and the baselines but `none`, are grey and wait until they are asked for (`rest`).
    pub(super) fn stroke(&self, run: usize) -> String {
        let mut schemes: Vec<usize> =
            (0..self.runs.len()).filter(|&index| !words::is_baseline(self.runs[index])).collect();
        let many = schemes.len() > CURVES_MAX;
        if words::is_baseline(self.runs[run]) {
            let rest = if many && self.runs[run].spec.scheme != *"none" { " rest" } else { "" };
            return format!("s-{}{rest}", self.runs[run].spec.scheme);
        }
        let rate = |index: usize| self.runs[index].throughput_bytes_per_s;
        schemes.sort_by(|&a, &b| rate(b).total_cmp(&rate(a)));
        schemes.truncate(CURVES_MAX);
        schemes.sort_unstable();
        match schemes.iter().position(|&index| index == run) {
            Some(place) => format!("s{place}"),
            None => "s-rest rest".into(),
        }
    }
    pub(super) fn label(&self, run: usize) -> Label {
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
                value: words::rate(run),
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
    // The bound is no run: nobody counted for it.
    let rows: Vec<Bar> = (0..group.runs.len())
        .filter(|&index| group.runs[index].scheme != "bound")
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
