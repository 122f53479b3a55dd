//! What a run measured, in the words of the design; the JSON of `sim`, `compare` and `reproduce`.
//!
//! Counts are exact; ratios are computed from them here, in one place, so that no two commands can disagree.

use crate::spec::{RunSpec, is_zero};
use forerun_core::policy::decisions::Told;
use serde::{Deserialize, Serialize};

/// Outcome of every block that was read from a layer, and what prefetching did there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Blocks read: the sum of the four outcomes.
    pub blocks_read: u64,
    /// The block had been read before since it was loaded.
    pub cache_hits: u64,
    /// Loaded by a prefetch, first use.
    pub prefetch_hits: u64,
    /// A prefetch of it was still in flight.
    pub late_hits: u64,
    /// None of these; includes `merged_misses`.
    pub misses: u64,
    /// Misses that joined another's demand read.
    pub merged_misses: u64,
    /// Blocks whose prefetch was issued: used + wasted + unused_resident + in_flight.
    pub prefetched_blocks: u64,
    /// Prefetched blocks that were read before they left.
    pub prefetched_used: u64,
    /// Prefetched blocks that left unread.
    pub prefetched_wasted: u64,
    /// Prefetched blocks still resident and unread at the end.
    pub prefetched_unused_resident: u64,
    /// Prefetched blocks still in flight at the end.
    pub prefetched_in_flight: u64,
}

/// First decisions of a layer that a report keeps, of those that hold for all and of those that hold for one file, stream or reader: how its scheme came
/// to where it is.
pub const DECISIONS_FIRST: usize = 8;
/// Last decisions that it keeps.
pub const DECISIONS_LAST: usize = 24;

/// Counts of one layer, as it saw its own requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerReport {
    /// `host` or `array`.
    pub layer: String,
    /// Bytes of its cache.
    pub cache_bytes: u64,
    /// All counts of this layer.
    #[serde(flatten)]
    pub counts: Counts,
    /// (cache_hits + prefetch_hits) / blocks_read.
    pub hit_ratio: f64,
    /// Most slots that were ever taken, in blocks, and the budget.
    pub slots_peak: u64,
    /// The slot budget, in blocks.
    pub slots_max: u64,
    /// CPU time of this layer in the model.
    pub cpu_ns: u64,
    /// Gauges that the scheme reports at the end (N_U, costs, switches), by name.
    pub gauges: Vec<(String, f64)>,
    /// Gauges of the scheme over virtual time, where it has any that are worth it (`flashy`); only in the top layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// Turns of the scheme's switches, oldest first: the first [`DECISIONS_FIRST`] and the last [`DECISIONS_LAST`] of those that hold for all, and as many of the others. `turn`
    /// tells how many lie between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Told>,
}

/// A gauge of a scheme over virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The gauge.
    pub name: String,
    /// (virtual time in ns, value), at most a few hundred.
    pub points: Vec<(u64, f64)>,
}

/// Distribution of response times of the programs' requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Mean, ns.
    pub mean: f64,
    /// Median, ns.
    pub p50: u64,
    /// 95th percentile, ns.
    pub p95: u64,
    /// 99th percentile, ns.
    pub p99: u64,
    /// Longest, ns.
    pub max: u64,
}

/// Where the time of the processes went, summed over them: computing between requests, or waiting for answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeReport {
    /// Computing, ns: the think times of all requests; of those that overlap others, only where nothing was outstanding.
    pub compute_ns: u64,
    /// Waiting, ns: from each request to its answer; of requests of a recorded process that overlap, counted once.
    pub stall_ns: u64,
    /// compute / (compute + stall).
    pub compute_share: f64,
    /// stall / (compute + stall).
    pub stall_share: f64,
}

/// Time readers waited, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallReport {
    /// Waiting for a demand read.
    pub miss_ns: u64,
    /// Waiting for a prefetch in flight.
    pub late_prefetch_ns: u64,
    /// Waiting in a disk's queue while prefetches held the disk.
    pub behind_prefetch_ns: u64,
}

/// Time of the programs' reads, each from being asked for to its answer, by cause: the causes sum to `reads_ns`. Beside it what the
/// devices worked on meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlameReport {
    /// Reads that were answered.
    pub reads: u64,
    /// All of their time. Reads of one process that overlap count each.
    pub reads_ns: u64,
    /// Nobody had asked for the block before its reader.
    pub no_prediction_ns: u64,
    /// A prefetch was under way and had not come.
    pub late_ns: u64,
    /// The block had been here and read; or no memory was free for it.
    pub memory_ns: u64,
    /// A prefetch had brought the block, and it had left before its reader came.
    pub evicted_ns: u64,
    /// In line at a device while it served prefetches.
    pub behind_prefetch_ns: u64,
    /// In line at a device while it served others, or was kept idle by its scheduler.
    pub device_ns: u64,
    /// Handed over from memory: the processor's time.
    pub handing_ns: u64,
    /// Time in which the devices worked on reads that somebody waited for.
    pub spindle_demand_ns: u64,
    /// On reads ahead.
    pub spindle_ahead_ns: u64,
    /// On writes.
    pub spindle_writes_ns: u64,
}

impl BlameReport {
    /// The causes with their names, those first against which a scheme can do most.
    #[must_use]
    pub const fn causes(&self) -> [(&'static str, u64); 7] {
        [
            ("no prediction", self.no_prediction_ns),
            ("late", self.late_ns),
            ("too little memory", self.memory_ns),
            ("evicted before use", self.evicted_ns),
            ("queue behind prefetch", self.behind_prefetch_ns),
            ("device", self.device_ns),
            ("handing over", self.handing_ns),
        ]
    }
}

/// What one member device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    /// Commands executed.
    pub commands: u64,
    /// Commands that moved the head to another cylinder.
    pub seeks: u64,
    /// Time in service.
    pub busy_ns: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// The least, the middle and the most of a number that each stream has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Least.
    pub least: f64,
    /// Median; the upper of two in the middle.
    pub median: f64,
    /// Most.
    pub most: f64,
}

impl Spread {
    /// Of these numbers, in any order; zeros where there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        Self { least: at(0), median: at(values.len() / 2), most: at(values.len().saturating_sub(1)) }
    }
}

/// What the streams of a workload of streams had, one by one. A wait counts from when a request was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamsReport {
    /// Streams that had an answer and are measured one by one: of the first 16,384.
    pub streams: u64,
    /// Streams beyond these that had an answer: nothing below counts them.
    #[serde(default)]
    pub left_out: u64,
    /// Jain's fairness index of the streams' rates: 1 when all are equal, 1/streams when one has everything.
    pub fairness: f64,
    /// Bytes per second of each, from its first request to its last answer.
    pub rate_bytes_per_s: Spread,
    /// Mean wait of each, ns.
    pub wait_mean_ns: Spread,
    /// 99th percentile of the waits of each, ns, to one in a hundred.
    pub wait_p99_ns: Spread,
    /// Longest wait of each, ns, to one in a hundred.
    pub wait_max_ns: Spread,
    /// Requests that had a deadline.
    pub deadlines: u64,
    /// Requests answered after it.
    pub late: u64,
    /// Streams of which at least 99% of the requests were answered by their deadlines.
    pub served: u64,
}

/// One point of the curves that a picture shows, sampled over virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Virtual time, ns.
    pub at_ns: u64,
    /// Bytes that programs had received by then.
    pub bytes_delivered: u64,
    /// Counts by then.
    pub counts: Counts,
    /// Time in which devices had worked by then, summed over them.
    #[serde(default)]
    pub worked_ns: u64,
}

/// How a read was served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Served {
    /// From memory.
    #[default]
    Hit,
    /// By a prefetch that was under way.
    Late,
    /// From a device.
    Miss,
}

/// A read of a program, for a picture of offset against time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// When it was asked for, ns.
    pub at_ns: u64,
    /// Where, in the volume.
    pub offset: u64,
    /// How.
    pub served: Served,
}

/// One run's result. Field names are the public JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Scheme, canonical form.
    pub scheme: String,
    /// The input's short name.
    pub input: String,
    /// Array, canonical form.
    pub array: String,
    /// Bytes of the array layer's cache.
    pub cache_bytes: u64,
    /// Bytes of the host layer's cache.
    pub host_cache_bytes: u64,
    /// Virtual time until the last program request ended.
    pub elapsed_ns: u64,
    /// Virtual time of destaging what was left dirty, after the last program request.
    pub destage_left_ns: u64,
    /// Bytes that programs asked for, reads and writes.
    pub bytes_requested: u64,
    /// Bytes of reads that programs asked for.
    pub bytes_read_requested: u64,
    /// Bytes read from devices for reads (parity and write-induced reads apart).
    pub bytes_from_devices: u64,
    /// Bytes read from devices for parity updates.
    pub bytes_from_devices_for_writes: u64,
    /// Bytes written to devices, data and parity.
    pub bytes_to_devices: u64,
    /// bytes_requested / elapsed.
    pub throughput_bytes_per_s: f64,
    /// Outcome counts over all layers: each program block once, by the layer that served it.
    #[serde(flatten)]
    pub counts: Counts,
    /// (cache_hits + prefetch_hits) / blocks_read.
    pub hit_ratio: f64,
    /// used / (used + wasted + unused_resident).
    pub precision: f64,
    /// (prefetch_hits + late_hits) / blocks_read.
    pub coverage: f64,
    /// Bytes prefetched / bytes that programs asked to read.
    pub cost: f64,
    /// bytes_from_devices / bytes that programs asked to read.
    pub amplification: f64,
    /// Response times of the programs' requests.
    pub latency_ns: LatencyReport,
    /// Waiting time by cause.
    pub stall: StallReport,
    /// Reads' time by cause.
    #[serde(default)]
    pub blame: BlameReport,
    /// One per member device.
    pub devices: Vec<DeviceReport>,
    /// Each layer's own counts.
    pub layers: Vec<LayerReport>,
    /// Share of elapsed that the CPU model explains (cpu time / elapsed).
    pub cpu_share: f64,
    /// Computing and waiting; only of inputs whose processes compute (`paced`, and workloads that think).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeReport>,
    /// The streams one by one; only of workloads with the shape `streams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsReport>,
    /// Curves over virtual time, at most a few hundred points.
    pub timeline: Vec<Sample>,
    /// Some of the reads, spread evenly: at most a thousand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<Mark>,
    /// How near the run came to the best that was found offline, the row `oracle`: its time over that of this run (`open`: by the
    /// mean response). Only where that row was run too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_clairvoyant: Option<f64>,
    /// Of the row `oracle`: what found it, foresight or a scheme that was run beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// In which units the numbers of the input were taken to be, where nothing in its file says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_assumed: Option<String>,
    /// Bad records of the input that were passed over, as was asked for (`skip_bad`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_skipped: u64,
    /// Everything that determined this run.
    pub spec: RunSpec,
    /// The seed, repeated from the spec.
    pub seed: u64,
}

/// What `compare` and `sim` print.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// One per input and scheme, in the order asked, `none`, `bound` and `oracle` included.
    pub runs: Vec<RunReport>,
    /// The scheme that the kernel of this machine is as it is set, where the runs are of this machine. Not printed: runs are the same wherever they are made.
    #[serde(skip)]
    pub kernel: Option<String>,
}

impl Comparison {
    /// Of these runs, wherever they were made.
    #[must_use]
    pub const fn of(runs: Vec<RunReport>) -> Self {
        Self { runs, kernel: None }
    }
}

/// `a / b`, and 0 where nothing was counted.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a ratio for a report")]
pub fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
