//! Devices that work on several commands at once and know of each, as it begins, when it will end: flash drives and volumes.
//!
//! Commands begin in the order in which they came, so many at once as the device takes; the others stand in line. What one takes is all that
//! a kind of device says ([`Times`]).

use crate::device::{Command, Completion, Device, DeviceStats};
use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What is special about a kind of device.
pub trait Times: Send {
    /// Addressable sectors.
    fn sectors(&self) -> u64;
    /// A command begins at `now`, nanoseconds: when the device begins with it, and when it ends.
    fn begin(&mut self, now: u64, command: &Command) -> (u64, u64);
}

/// A device of this kind.
#[derive(Debug)]
pub struct Parallel<T> {
    times: T,
    depth: usize,
    waiting: VecDeque<Command>,
    /// (end, order of beginning, id, begun).
    running: BinaryHeap<Reverse<(u64, u64, u64, u64)>>,
    sequence: u64,
    ended: VecDeque<Completion>,
    stats: DeviceStats,
    counted_until: u64,
    clock: u64,
}

impl<T: Times> Parallel<T> {
    /// An idle one that takes `depth` commands at once; none counts as one.
    pub(crate) fn of(times: T, depth: u32) -> Self {
        Self {
            times,
            depth: depth.max(1) as usize,
            waiting: VecDeque::new(),
            running: BinaryHeap::new(),
            sequence: 0,
            ended: VecDeque::new(),
            stats: DeviceStats::default(),
            counted_until: 0,
            clock: 0,
        }
    }

    fn start(&mut self, now: u64, command: &Command) {
        let (begun, end) = self.times.begin(now, command);
        self.stats.commands += 1;
        match command.op {
            Op::Read => self.stats.bytes_read += command.sectors * SECTOR_BYTES,
            Op::Write => self.stats.bytes_written += command.sectors * SECTOR_BYTES,
        }
        self.stats.busy += Nanos(end.saturating_sub(now.max(self.counted_until)));
        self.counted_until = self.counted_until.max(end);
        self.sequence += 1;
        self.running.push(Reverse((end, self.sequence, command.id, begun)));
    }
}

impl<T: Times> Device for Parallel<T> {
    fn sectors(&self) -> u64 {
        self.times.sectors()
    }

    fn submit(&mut self, now: Nanos, command: Command) {
        self.advance(now);
        if self.running.len() < self.depth {
            self.start(now.0.max(self.clock), &command);
        } else {
            self.waiting.push_back(command);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.running.peek().map(|Reverse((at, ..))| Nanos(*at))
    }

    fn advance(&mut self, now: Nanos) {
        while let Some(&Reverse((at, _, id, begun))) = self.running.peek() {
            if at > now.0 {
                break;
            }
            self.running.pop();
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
