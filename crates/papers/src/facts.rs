//! A run in one line: the numbers from which a cause can be read, for the `why` of a row.
//!
//! All of them are the run's own: how fast, how many commands of what size and service time, how many of them
//! moved the head, how much was read for each byte asked, who hit, and what the schemes say of themselves.

use forerun_core::units::BLOCK_BYTES;
use forerun_sim::report::{LayerReport, RunReport, ratio};

/// The array layer's counts.
pub(super) fn array(run: &RunReport) -> Option<&LayerReport> {
    run.layers.iter().find(|layer| layer.layer == "array")
}

/// A gauge of the array layer's scheme.
pub(super) fn gauge(run: &RunReport, name: &str) -> Option<f64> {
    array(run)?.gauges.iter().find(|(gauge, _)| gauge == name).map(|(_, value)| *value)
}

/// MB/s (10^6) of what programs asked for.
pub(super) fn megabytes_per_s(run: &RunReport) -> f64 {
    run.throughput_bytes_per_s / 1e6
}

/// Most bytes that its layers held at once: cached, staged and in flight.
pub(super) fn memory_peak(run: &RunReport) -> u64 {
    run.layers.iter().map(|layer| layer.slots_peak * BLOCK_BYTES).sum()
}

/// Sums over all members: commands, seeks, busy ns, bytes.
fn members(run: &RunReport) -> (u64, u64, u64, u64) {
    run.devices.iter().fold((0, 0, 0, 0), |sum, d| {
        (sum.0 + d.commands, sum.1 + d.seeks, sum.2 + d.busy_ns, sum.3 + d.bytes)
    })
}

/// Scheme and speed.
pub(super) fn speed(run: &RunReport) -> String {
    format!("{}: {:.2} MB/s", run.scheme, megabytes_per_s(run))
}

/// Everything that a cause may be read from.
pub(super) fn facts(run: &RunReport) -> String {
    let (commands, seeks, busy, bytes) = members(run);
    let drives = run.devices.len() as u64;
    let mut text = format!(
        "{}, {commands} commands of {:.0} KiB and {:.2} ms mean service, {:.0}% with a seek, drives {:.0}% busy, \
         {:.2} bytes read per byte asked",
        speed(run),
        ratio(bytes, commands) / 1024.0,
        ratio(busy, commands) / 1e6,
        100.0 * ratio(seeks, commands),
        100.0 * ratio(busy, run.elapsed_ns * drives),
        run.amplification,
    );
    // Without a cache the array serves nothing by itself; then the page cache tells more.
    let cached = if run.cache_bytes > 0 { array(run) } else { run.layers.first() };
    if let Some(layer) = cached {
        let c = &layer.counts;
        let share = |n| 100.0 * ratio(n, c.blocks_read);
        text += &format!(
            ", {} served {:.1}% from cache, {:.1}% by prefetch, {:.1}% late, {:.1}% missed",
            layer.layer,
            share(c.cache_hits),
            share(c.prefetch_hits),
            share(c.late_hits),
            share(c.misses)
        );
    }
    let gauges = [
        ("msp_stripes", "stripes by MSP"),
        ("msp_gated", "times MSP was gated"),
        ("asp_strip_reads", "misses read a strip"),
        ("asp_strip_reads_refused", "were refused one"),
        ("asp_feedback_up", "prefetch hits in U_b"),
        ("asp_feedback_down", "cache hits in G_b"),
        ("asp_upstream_max_strips", "strips of N_U at the end"),
    ];
    for (name, words) in gauges {
        if let Some(value) = gauge(run, name) {
            text += &format!(", {value:.0} {words}");
        }
    }
    text += &format!(", CPU model {:.0}% of elapsed", 100.0 * run.cpu_share);
    text
}
