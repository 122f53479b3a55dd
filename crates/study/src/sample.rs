//! Made-up reports for the tests of this crate: enough of a run to write sentences and pages about.

use crate::plan::default_spec;
use forerun_sim::report::RunReport;
use forerun_sim::said::Said;
use serde_json::json;

/// A run of `scheme` on `input` that delivered `rate` MiB/s; half of its blocks were prefetch hits, unless it is
/// `none`.
pub(crate) fn run(input: &str, scheme: &str, rate: u64) -> RunReport {
    let mut spec = default_spec();
    spec.input = input.into();
    spec.scheme = Said::of(scheme);
    let bytes = 1_u64 << 30;
    let hits = if scheme == "none" { 0 } else { 131_072 };
    let elapsed = bytes * 1000 / (rate << 20) * 1_000_000;
    let report = json!({
        "scheme": scheme, "input": input, "array": "raid5:5x128KiB",
        "cache_bytes": 500 << 20, "host_cache_bytes": 0, "elapsed_ns": elapsed, "destage_left_ns": 0,
        "bytes_requested": bytes, "bytes_read_requested": bytes, "bytes_from_devices": bytes,
        "bytes_from_devices_for_writes": 0, "bytes_to_devices": 0,
        "throughput_bytes_per_s": rate << 20,
        "blocks_read": 262_144, "cache_hits": 0, "prefetch_hits": hits, "late_hits": 0, "misses": 262_144 - hits,
        "merged_misses": 0, "prefetched_blocks": hits, "prefetched_used": hits, "prefetched_wasted": 0,
        "prefetched_unused_resident": 0, "prefetched_in_flight": 0,
        "hit_ratio": 0.5, "precision": 1.0, "coverage": 0.5, "cost": 0.5, "amplification": 1.0,
        "latency_ns": {"mean": 1e6, "p50": 900_000, "p95": 3_000_000, "p99": 9_000_000_000_u64 / rate, "max": 90_000_000},
        "stall": {"miss_ns": elapsed / 2, "late_prefetch_ns": 0, "behind_prefetch_ns": 0},
        "devices": [{"commands": 1000, "seeks": 500, "busy_ns": elapsed / 2, "bytes": bytes}],
        "layers": [], "cpu_share": 0.01,
        "timeline": [], "spec": spec, "seed": 1,
    });
    serde_json::from_value(report).expect("the sample has every field of a report")
}
