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
use std::collections::{BinaryHeap, VecDeque};

use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use serde::{Deserialize, Serialize};

use crate::device::{Command, Completion, Device, DeviceStats};
use crate::mechanical::us_to_ns;
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

/// The volume.
#[derive(Debug)]
pub struct Cloud {
    spec: CloudSpec,
    burst: u64,
    median: f64,
    sigma: f64,
    random: SplitMix,
    operations: Bucket,
    bytes: Bucket,
    waiting: VecDeque<Command>,
    running: BinaryHeap<Reverse<Running>>,
    /// Time at the full rates of all that run.
    in_flight: u64,
    sequence: u64,
    ended: VecDeque<Completion>,
    stats: DeviceStats,
    counted_until: u64,
    clock: u64,
}

/// An operation on its way, in order of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    end: u64,
    sequence: u64,
    id: u64,
    begun: u64,
    /// Its time at the full rates.
    cost: u64,
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
        Self {
            spec: *spec,
            burst: spec.burst_ms * 1_000_000,
            median,
            sigma,
            random: SplitMix::new(seed),
            operations: Bucket::default(),
            bytes: Bucket::default(),
            waiting: VecDeque::new(),
            running: BinaryHeap::new(),
            in_flight: 0,
            sequence: 0,
            ended: VecDeque::new(),
            stats: DeviceStats::default(),
            counted_until: 0,
            clock: 0,
        }
    }

    fn latency(&mut self) -> u64 {
        let ns = self.median * libm::exp(self.sigma * self.random.normal());
        us_to_ns(ns / 1e3)
    }

    fn start(&mut self, now: u64, command: &Command) {
        let bytes = command.sectors * SECTOR_BYTES;
        let tokens = bytes.div_ceil(self.spec.operation_bytes.max(SECTOR_BYTES));
        let operation_cost = tokens * 1_000_000_000 / self.spec.operations_per_s.max(1);
        let rate = u128::from(self.spec.throughput_mib_per_s.max(1)) << 20;
        let byte_cost = u64::try_from(u128::from(bytes) * 1_000_000_000 / rate).unwrap_or(u64::MAX);
        let cost = operation_cost + byte_cost;
        let begun = if self.spec.in_rounds {
            now + self.in_flight + cost
        } else {
            let admitted = self.operations.take(now, operation_cost, self.burst);
            admitted.max(self.bytes.take(now, byte_cost, self.burst))
        };
        let end = begun + self.latency() + alone(bytes, self.spec.stream_mib_per_s);
        self.stats.commands += 1;
        match command.op {
            Op::Read => self.stats.bytes_read += bytes,
            Op::Write => self.stats.bytes_written += bytes,
        }
        self.stats.busy += Nanos(end.saturating_sub(now.max(self.counted_until)));
        self.counted_until = self.counted_until.max(end);
        self.sequence += 1;
        self.in_flight += cost;
        self.running.push(Reverse(Running { end, sequence: self.sequence, id: command.id, begun, cost }));
    }
}

impl Device for Cloud {
    fn sectors(&self) -> u64 {
        self.spec.sectors
    }

    fn submit(&mut self, now: Nanos, command: Command) {
        self.advance(now);
        if self.running.len() < self.spec.queue_depth.max(1) as usize {
            self.start(now.0.max(self.clock), &command);
        } else {
            self.waiting.push_back(command);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.running.peek().map(|Reverse(next)| Nanos(next.end))
    }

    fn advance(&mut self, now: Nanos) {
        while let Some(&Reverse(Running { end: at, id, begun, cost, .. })) = self.running.peek() {
            if at > now.0 {
                break;
            }
            self.running.pop();
            self.in_flight -= cost;
            self.clock = self.clock.max(at);
            self.ended.push_back(Completion { id, at: Nanos(at), begun: Nanos(begun) });
            if let Some(next) = self.waiting.pop_front() {
                self.start(at, &next);
            }
        }
        self.clock = self.clock.max(now.0);
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    fn stats(&self) -> DeviceStats {
        self.stats
    }
}
