//! The order in which the oracle's reads leave: by place, from the lowest to the highest and then from the lowest again.
//!
//! What a reader waits for and nobody has asked for before goes first, as usual. A reader that catches up with a prefetch either
//! takes it out of the order (*eager*), or waits until its turn comes (*patient*): where readers do nothing but read, the
//! time of all is that of the disk, and a head that leaves its sweep for one of them makes all wait longer.

use forerun_core::dispatch::{Class, DEPTH_MAX, Dispatch, Queued};
use forerun_core::hash::NumberMap;
use forerun_core::units::{Disk, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// One disk's commands that have not left.
#[derive(Default)]
struct Backlog {
    demand: VecDeque<u32>,
    urgent: VecDeque<u32>,
    ahead: BTreeMap<(u64, u32), ()>,
    background: VecDeque<u32>,
    outstanding: u32,
    /// Where the last prefetch began.
    at: u64,
}

/// Prefetches by place, everything else as usual.
pub(super) struct Sweep {
    backlogs: Vec<Backlog>,
    /// Where a waiting prefetch begins.
    starts: NumberMap<u64>,
    eager: bool,
    depth: u32,
}

impl Sweep {
    /// For `disks` disks; so many prefetches at most are with a disk.
    pub(super) fn new(disks: usize, eager: bool, depth: u32) -> Self {
        let mut backlogs = Vec::new();
        backlogs.resize_with(disks, Backlog::default);
        Self { backlogs, starts: NumberMap::default(), eager, depth }
    }
}

impl Backlog {
    fn pick(&mut self, depth: u32, starts: &mut NumberMap<u64>) -> Option<u32> {
        if self.outstanding >= depth.max(DEPTH_MAX) {
            return None;
        }
        let first = self.demand.pop_front().or_else(|| self.urgent.pop_front());
        let room = self.outstanding < depth;
        let picked = first
            .or_else(|| if room { self.next_ahead(starts) } else { None })
            .or_else(|| if room { self.background.pop_front() } else { None })?;
        self.outstanding += 1;
        Some(picked)
    }

    fn next_ahead(&mut self, starts: &mut NumberMap<u64>) -> Option<u32> {
        let next = self.ahead.range((self.at, 0)..).next().or_else(|| self.ahead.iter().next());
        let (&(at, command), ()) = next?;
        self.ahead.remove(&(at, command));
        starts.remove(&u64::from(command));
        self.at = at;
        Some(command)
    }
}

impl Dispatch for Sweep {
    fn enqueue(&mut self, _now: Nanos, queued: Queued) {
        let backlog = &mut self.backlogs[usize::from(queued.disk.0)];
        let command = queued.command;
        match queued.class {
            Class::Demand => backlog.demand.push_back(command),
            Class::Urgent => backlog.urgent.push_back(command),
            Class::Background => backlog.background.push_back(command),
            Class::Prefetch => {
                backlog.ahead.insert((queued.volume.start.0, command), ());
                self.starts.insert(u64::from(command), queued.volume.start.0);
            }
        }
    }
    fn promote(&mut self, command: u32, disk: Disk) {
        let backlog = &mut self.backlogs[usize::from(disk.0)];
        if !self.eager {
            return;
        }
        if let Some(start) = self.starts.remove(&u64::from(command)) {
            backlog.ahead.remove(&(start, command));
            backlog.demand.push_back(command);
        }
    }
    fn pick(&mut self, _now: Nanos) -> Option<u32> {
        self.backlogs.iter_mut().find_map(|backlog| backlog.pick(self.depth, &mut self.starts))
    }
    fn complete(&mut self, _now: Nanos, disk: Disk, _command: u32) {
        self.backlogs[usize::from(disk.0)].outstanding -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::Context;
    use forerun_core::units::Extent;

    fn queued(command: u32, class: Class, start: u64) -> Queued {
        let volume = Extent::new(start, 1);
        Queued { command, disk: Disk(0), class, context: Context(0), blocks: 1, volume }
    }

    #[test]
    fn prefetches_leave_by_place_and_a_patient_reader_waits_for_its_turn() {
        for (eager, order) in [(false, [9, 2, 3, 1]), (true, [9, 1, 2, 3])] {
            let mut sweep = Sweep::new(1, eager, 2);
            for (command, start) in [(1, 70), (2, 10), (3, 40)] {
                sweep.enqueue(Nanos(0), queued(command, Class::Prefetch, start));
            }
            sweep.enqueue(Nanos(0), queued(9, Class::Demand, 99));
            sweep.promote(1, Disk(0));
            let left: Vec<u32> = order
                .iter()
                .map(|_| {
                    let picked = sweep.pick(Nanos(0)).unwrap();
                    sweep.complete(Nanos(0), Disk(0), picked);
                    picked
                })
                .collect();
            assert_eq!(left, order, "eager: {eager}");
        }
    }
}
