//! A block volume in a cloud: rate limits, and a latency that scatters.
//!
//! Two buckets of tokens, one for operations and one for bytes, hold back what exceeds the provisioned rates; an
//! operation of up to 256 KiB takes one token, a larger one a token for each started 256 KiB. Behind the buckets every
//! operation takes a time drawn from a log-normal distribution, seeded, whatever else is going on: the store is far
//! wider than one volume (algorithms.md 9.6). Of an object store, where one request is a connection of its own, an operation also
//! takes the time of its bytes at the rate of one.
//!
//! The disk of a virtual machine often has one thread that serves it, in rounds: what is in flight together is taken, moved and
//! answered together. There an operation has no tokens to wait for, and takes besides its latency its own time at the full rates
//! and that of all that are in flight when it comes. With N in flight that is latency + N · time: small reads become slow
//! beside large ones, and the rates are reached only by many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forerun_core::units::SECTOR_BYTES;
use serde::{Deserialize, Serialize};

use crate::device::Command;
use crate::mechanical::us_to_ns;
use crate::parallel::{Parallel, Times};
use crate::random::SplitMix;

/// A volume as a preset states it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudSpec {
    /// Capacity in 512-byte sectors.
    pub sectors: u64,
    /// Operations a second.
    pub operations_per_s: u64,
    /// Bytes a second, in MiB.
    pub throughput_mib_per_s: u64,
    /// Bytes a second of one operation, in MiB, where a single one does not get the whole rate; 0: it does.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stream_mib_per_s: u64,
    /// One thread serves all in flight, in rounds: each takes the time of all of them at the full rates.
    #[serde(default, skip_serializing_if = "is_not")]
    pub in_rounds: bool,
    /// What may be used at once after a pause, as time at the full rates; of no meaning in rounds.
    pub burst_ms: u64,
    /// Bytes that one operation may move for one token.
    pub operation_bytes: u64,
    /// Median latency.
    pub latency_median_us: f64,
    /// Latency that 99 of 100 operations do not exceed.
    pub latency_p99_us: f64,
    /// Operations in flight at once.
    pub queue_depth: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_not(said: &bool) -> bool {
    !*said
}

/// Times at which a bucket that leaks at a steady rate would be empty: tokens as one number.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    empty_at: u64,
}

impl Bucket {
    /// Takes tokens worth `cost` nanoseconds at the full rate; returns when they are there.
    fn take(&mut self, now: u64, cost: u64, burst: u64) -> u64 {
        self.empty_at = self.empty_at.max(now) + cost;
        self.empty_at.saturating_sub(burst).max(now)
    }
}

/// A volume.
pub type Cloud = Parallel<Volume>;

/// What is special about volumes.
#[derive(Debug)]
pub struct Volume {
    spec: CloudSpec,
    burst: u64,
    median: f64,
    sigma: f64,
    random: SplitMix,
    operations: Bucket,
    bytes: Bucket,
    /// What runs in rounds: when it ends, and its time at the full rates, the sum of which is `in_flight`.
    running: BinaryHeap<Reverse<(u64, u64)>>,
    in_flight: u64,
}

/// The 99th percentile of the standard normal distribution.
const NORMAL_P99: f64 = 2.326_347_874_040_841;

/// Time of the bytes at the rate of one operation; none where it gets the whole rate.
fn alone(bytes: u64, stream_mib_per_s: u64) -> u64 {
    let rate = u128::from(stream_mib_per_s) << 20;
    let ns = (u128::from(bytes) * 1_000_000_000).checked_div(rate).unwrap_or(0);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

impl Cloud {
    /// Builds a volume with full buckets whose latencies follow from `seed`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "latencies are below 2^53 ns")]
    pub fn new(spec: &CloudSpec, seed: u64) -> Self {
        let median = us_to_ns(spec.latency_median_us.max(1.0)) as f64;
        let sigma = libm::log((spec.latency_p99_us / spec.latency_median_us).max(1.0)) / NORMAL_P99;
        let volume = Volume {
            spec: *spec,
            burst: spec.burst_ms * 1_000_000,
            median,
            sigma,
            random: SplitMix::new(seed),
            operations: Bucket::default(),
            bytes: Bucket::default(),
            running: BinaryHeap::new(),
            in_flight: 0,
        };
        Self::of(volume, spec.queue_depth)
    }
}

impl Volume {
    fn latency(&mut self) -> u64 {
        let ns = self.median * libm::exp(self.sigma * self.random.normal());
        us_to_ns(ns / 1e3)
    }

    /// Time at the full rates of all that run at `now`.
    fn in_flight_at(&mut self, now: u64) -> u64 {
        while let Some(&Reverse((end, cost))) = self.running.peek() {
            if end > now {
                break;
            }
            self.running.pop();
            self.in_flight -= cost;
        }
        self.in_flight
    }
}

impl Times for Volume {
    fn sectors(&self) -> u64 {
        self.spec.sectors
    }

    fn begin(&mut self, now: u64, command: &Command) -> (u64, u64) {
        let bytes = command.sectors * SECTOR_BYTES;
        let tokens = bytes.div_ceil(self.spec.operation_bytes.max(SECTOR_BYTES));
        let operation_cost = tokens * 1_000_000_000 / self.spec.operations_per_s.max(1);
        let rate = u128::from(self.spec.throughput_mib_per_s.max(1)) << 20;
        let byte_cost = u64::try_from(u128::from(bytes) * 1_000_000_000 / rate).unwrap_or(u64::MAX);
        let cost = operation_cost + byte_cost;
        let begun = if self.spec.in_rounds {
            now + self.in_flight_at(now) + cost
        } else {
            let admitted = self.operations.take(now, operation_cost, self.burst);
            admitted.max(self.bytes.take(now, byte_cost, self.burst))
        };
        let end = begun + self.latency() + alone(bytes, self.spec.stream_mib_per_s);
        if self.spec.in_rounds {
            self.in_flight += cost;
            self.running.push(Reverse((end, cost)));
        }
        (begun, end)
    }
}
