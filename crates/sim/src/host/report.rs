//! From the sums of a run to its report.

use super::meter::{Meter, layer_counts, program_counts};
use super::stack::Stack;
use super::streams::StreamMeter;
use crate::input::Input;
use crate::report::{BlameReport, Counts, DeviceReport, LayerReport, RunReport, StallReport, ratio};
use crate::spec::RunSpec;
use forerun_core::engine::Engine;
use forerun_core::units::{BLOCK_BYTES, Nanos, SECTOR_BYTES};

/// The report of a run whose programs have their last answer at `end`.
pub(super) fn draft(
    stack: &mut Stack,
    meter: &Meter,
    end: Nanos,
    input: &Input,
    spec: &RunSpec,
) -> RunReport {
    let counts = program_counts(stack.host.as_ref(), &stack.array);
    assert_eq!(
        counts.cache_hits + counts.prefetch_hits + counts.late_hits + counts.misses,
        counts.blocks_read,
        "every block that a program read has exactly one outcome"
    );
    let stats = *stack.array.stats();
    let requested = meter.bytes_read + meter.bytes_written;
    let [unread, unwritten] =
        stack.sectors.as_ref().map_or([0; 2], |sectors| sectors.spared.map(|spared| spared * SECTOR_BYTES));
    let from_devices = stats.member_blocks_read * BLOCK_BYTES - unread;
    let unused = counts.prefetched_unused_resident;
    let cpu = [stack.cpu_host, stack.cpu_array];
    let mut layers = Vec::new();
    if let Some(host) = &mut stack.host {
        layers.push(layer("host", host, spec.host_cache_bytes, cpu[0]));
    }
    let mut array = layer("array", &mut stack.array, spec.cache_bytes, cpu[1]);
    array.gauges.extend(refusal(meter));
    layers.push(array);
    layers[0].curves.clone_from(&meter.curves);
    for (layer, turns) in layers.iter_mut().rev().zip(&meter.turns) {
        layer.decisions = turns.told();
    }
    RunReport {
        scheme: spec.scheme.to_string(),
        input: input.name_under(spec),
        array: spec.array.to_string(),
        cache_bytes: spec.cache_bytes,
        host_cache_bytes: spec.host_cache_bytes,
        elapsed_ns: end.0,
        destage_left_ns: 0,
        bytes_requested: requested,
        bytes_read_requested: meter.bytes_read,
        bytes_from_devices: from_devices,
        bytes_from_devices_for_writes: stats.member_blocks_read_for_writes * BLOCK_BYTES,
        bytes_to_devices: stats.member_blocks_written * BLOCK_BYTES - unwritten,
        throughput_bytes_per_s: per_second(requested, end),
        hit_ratio: ratio(counts.cache_hits + counts.prefetch_hits, counts.blocks_read),
        precision: ratio(counts.prefetched_used, counts.prefetched_used + counts.prefetched_wasted + unused),
        coverage: ratio(counts.prefetch_hits + counts.late_hits, counts.blocks_read),
        cost: ratio(counts.prefetched_blocks * BLOCK_BYTES, meter.bytes_read),
        amplification: ratio(from_devices, meter.bytes_read),
        latency_ns: meter.latency(),
        stall: stall(stack, meter),
        blame: blame(stack, meter),
        devices: stack.members.stats().iter().map(device).collect(),
        time: meter.time(),
        streams: meter.streams.as_ref().map(StreamMeter::report),
        cpu_share: ratio(cpu[0].0 + cpu[1].0, end.0),
        counts,
        layers,
        share_of_clairvoyant: None,
        found_by: None,
        input_assumed: input.assumed.clone(),
        input_skipped: input.skipped,
        timeline: meter.timeline.clone(),
        marks: meter.marks.shown(),
        seed: spec.seed,
        spec: RunSpec { input_hash: input.hash.clone(), ..spec.clone() },
    }
}

fn stall(stack: &Stack, meter: &Meter) -> StallReport {
    StallReport {
        miss_ns: meter.stall_miss.0,
        late_prefetch_ns: meter.stall_late.0,
        behind_prefetch_ns: stack.members.behind_prefetch.0,
    }
}

/// The causes, and what the devices worked on.
fn blame(stack: &Stack, meter: &Meter) -> BlameReport {
    let worked = stack.members.worked;
    BlameReport {
        spindle_demand_ns: worked.demand.0,
        spindle_ahead_ns: worked.ahead.0,
        spindle_writes_ns: worked.writes.0,
        ..meter.blame
    }
}

/// When ASP first refused a miss its strip, where it did.
#[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
fn refusal(meter: &Meter) -> impl Iterator<Item = (String, f64)> {
    let gauges = |(at, bytes): (Nanos, u64)| {
        [("first_refusal_ns".into(), at.0 as f64), ("first_refusal_bytes".into(), bytes as f64)]
    };
    meter.first_refusal.into_iter().flat_map(gauges)
}

#[expect(clippy::cast_precision_loss, reason = "a rate for a report")]
fn per_second(bytes: u64, elapsed: Nanos) -> f64 {
    if elapsed == Nanos::ZERO { 0.0 } else { bytes as f64 / elapsed.as_secs_f64() }
}

fn layer(name: &str, engine: &mut Engine, cache_bytes: u64, cpu: Nanos) -> LayerReport {
    let counts: Counts = layer_counts(engine, &engine.stats().all);
    let mut gauges = Vec::new();
    engine.gauges(&mut gauges);
    LayerReport {
        layer: name.into(),
        cache_bytes,
        hit_ratio: ratio(counts.cache_hits + counts.prefetch_hits, counts.blocks_read),
        counts,
        slots_peak: engine.cache().slots.peak(),
        slots_max: engine.cache().slots.capacity(),
        cpu_ns: cpu.0,
        gauges: gauges.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        curves: Vec::new(),
        decisions: Vec::new(),
    }
}

fn device(stats: &forerun_disk::device::DeviceStats) -> DeviceReport {
    DeviceReport {
        commands: stats.commands,
        seeks: stats.seeks,
        busy_ns: stats.busy.0,
        bytes: stats.bytes_read + stats.bytes_written,
    }
}
