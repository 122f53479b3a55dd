//! The disks of a shadow: they take the times that the real ones have been seen to take.
//!
//! One turn after the other, demand first, upwards from where the head is. The real ones may have a scheduler that knows more.

use crate::access::Op;
use crate::cost::times::Times;
use crate::cost::trail::Trail;
use crate::dispatch::Class;
use crate::engine::messages::Start;
use crate::units::Nanos;
use alloc::vec::Vec;

/// Most commands of a disk that are followed while they are under way; an engine sends 32.
const FOLLOWED_MAX: usize = 64;

/// A command that a real disk works at.
#[derive(Clone, Copy, Debug)]
struct Followed {
    command: u32,
    disk: u16,
    at: u64,
    blocks: u64,
    left: Nanos,
}

/// The real disks: what leaves for them and ends there is what is learned from.
#[derive(Debug)]
pub(super) struct Real {
    pub(super) times: Times,
    followed: Vec<Followed>,
    followed_max: usize,
    /// Commands that have ended since somebody asked, and how long they took, ns.
    lately: (u64, u64),
}

impl Real {
    pub(super) fn new(times: Times, disks: usize) -> Self {
        Self { times, followed: Vec::new(), followed_max: disks * FOLLOWED_MAX, lately: (0, 0) }
    }
    /// A command left for a disk.
    pub(super) fn left(&mut self, now: Nanos, start: &Start) {
        if self.followed.len() < self.followed_max {
            let (command, disk, extent) = (start.command, start.disk.0, start.extent);
            self.followed.push(Followed {
                command,
                disk,
                at: extent.start.0,
                blocks: extent.blocks,
                left: now,
            });
        }
    }
    /// A command has ended.
    pub(super) fn ended(&mut self, now: Nanos, command: u32) {
        if let Some(place) = self.followed.iter().position(|followed| followed.command == command) {
            let Followed { disk, at, blocks, left, .. } = self.followed.swap_remove(place);
            self.times.ended(now, disk, at, blocks, left);
            self.lately = (self.lately.0 + 1, self.lately.1 + now.since(left).0);
        }
    }
    /// How long a command took in the mean since this was asked last; nothing where there was none.
    pub(super) fn mean_lately(&mut self) -> Nanos {
        let (count, ns) = core::mem::take(&mut self.lately);
        Nanos(ns / count.max(1))
    }
}

/// A command that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: u32,
    at: u64,
    blocks: u64,
    class: Class,
}

/// A disk of a shadow: one turn after the other, demand first, upwards from where the head is.
#[derive(Clone, Debug, Default)]
pub(super) struct Spindle {
    waiting: Vec<Waiting>,
    trail: Trail,
    busy: bool,
}

/// What a disk does next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) command: u32,
    /// When the disk can take up another command.
    pub(super) free: Nanos,
    /// When the command has ended.
    pub(super) done: Nanos,
}

impl Spindle {
    pub(super) fn submit(&mut self, start: &Start) {
        let class = match (start.op, start.class) {
            (Op::Read, Class::Demand) => Class::Demand,
            (_, class) => class,
        };
        let (command, at, blocks) = (start.command, start.extent.start.0, start.extent.blocks);
        self.waiting.push(Waiting { command, at, blocks, class });
    }
    /// A reader waits for this command now.
    pub(super) fn promote(&mut self, command: u32) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.command == command) {
            waiting.class = Class::Demand;
        }
    }
    /// Its turn is over.
    pub(super) const fn free(&mut self) {
        self.busy = false;
    }
    /// The next turn, if the disk is free and something waits.
    pub(super) fn next(&mut self, now: Nanos, times: &Times) -> Option<Turn> {
        if self.busy || self.waiting.is_empty() {
            return None;
        }
        let head = self.trail.head().unwrap_or(0);
        let order = |waiting: &Waiting| (waiting.class, waiting.at < head, waiting.at);
        let next = (0..self.waiting.len()).min_by_key(|&at| order(&self.waiting[at]))?;
        let Waiting { command, at, blocks, .. } = self.waiting.swap_remove(next);
        let (turn, latency) = times.times(&self.trail, at, blocks);
        self.trail.note(at, blocks);
        self.busy = true;
        Some(Turn { command, free: now + turn, done: now + latency })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Context;
    use crate::cost::CostModel;
    use crate::units::{Disk, Extent};

    fn start(command: u32, at: u64, blocks: u64) -> Start {
        let extent = Extent::new(at, blocks);
        let (op, class, context) = (Op::Read, Class::Demand, Context(0));
        Start { command, disk: Disk(0), extent, demand: extent, op, class, context, read_ahead: false }
    }

    #[test]
    fn a_spindle_serves_demand_first_and_goes_upwards() {
        let times = Times::new(CostModel::default(), 1);
        let mut spindle = Spindle::default();
        spindle.trail.note(99, 1);
        for (command, at) in [(1, 50), (2, 300), (3, 200)] {
            spindle.submit(&start(command, at, 1));
        }
        spindle.submit(&Start { class: Class::Prefetch, ..start(4, 101, 1) });
        let mut served = Vec::new();
        while let Some(turn) = spindle.next(Nanos(0), &times) {
            assert!(spindle.next(Nanos(0), &times).is_none(), "one at a time");
            spindle.free();
            served.push(turn.command);
        }
        assert_eq!(served, [3, 2, 1, 4]);
    }
}
