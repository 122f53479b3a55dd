//! The member devices in virtual time: commands go down, completions come back at their time, over a shared bus.

use forerun_core::access::{Context, Op};
use forerun_core::engine::Start;
use forerun_core::units::{Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK};
use forerun_disk::device::{Command, Device, DeviceStats};

/// A command that a device works on, as the array's engine knows it.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    command: u32,
    submitted: Nanos,
    /// Nobody waits for it.
    ahead: bool,
    /// A reader waits, and prefetches that were here first held the disk until then.
    behind_until: Nanos,
    bytes: u64,
    op: Op,
    /// Nobody waited for it when it was handed over.
    was_ahead: bool,
    /// Up to when somebody has been named for its waiting.
    told: Nanos,
    /// Waiting while prefetches ended before it, and while others did.
    weights: [u64; 2],
}

struct Member {
    device: Box<dyn Device>,
    /// When the event queue will look at it next; a later look-up at another time is stale.
    looked_at: Option<Nanos>,
    outstanding: Vec<Outstanding>,
    /// When its last command ended.
    last_end: Nanos,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) command: u32,
    pub(super) at: Nanos,
    pub(super) spent: Spent,
}

/// What the time of a command consisted of.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    /// From when the device began with it.
    pub(super) own: Nanos,
    /// Until then.
    pub(super) in_line: Nanos,
    /// How that divides: while prefetches ended that it stood behind, and while others did.
    pub(super) weight_ahead: u64,
    pub(super) weight_others: u64,
    /// Nobody waited for it when it was handed over.
    pub(super) ahead: bool,
}

/// What the members worked on, so that the sums are the time in which they worked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worked {
    pub(super) demand: Nanos,
    pub(super) ahead: Nanos,
    pub(super) writes: Nanos,
}

impl Worked {
    /// The time in which they worked.
    pub(super) fn all(self) -> Nanos {
        self.demand + self.ahead + self.writes
    }
}

/// All members, and the bus that they share.
pub(super) struct Members {
    members: Vec<Member>,
    bus_bytes_per_s: u64,
    /// What the controller takes for each buffer that it holds, when one of them passes.
    buffer_cost: Nanos,
    /// Buffers held: commands that have left, whose data has not passed.
    held: u64,
    bus_free: Nanos,
    /// Time that demand commands stood behind prefetches.
    pub(super) behind_prefetch: Nanos,
    pub(super) worked: Worked,
}

impl Members {
    pub(super) fn new(devices: Vec<Box<dyn Device>>, bus_bytes_per_s: u64, buffer_cost: Nanos) -> Self {
        let member =
            |device| Member { device, looked_at: None, outstanding: Vec::new(), last_end: Nanos::ZERO };
        Self {
            members: devices.into_iter().map(member).collect(),
            bus_bytes_per_s,
            buffer_cost,
            held: 0,
            bus_free: Nanos::ZERO,
            behind_prefetch: Nanos::ZERO,
            worked: Worked::default(),
        }
    }

    /// Hands a command of the array's engine to its device, without the sectors at its beginning and end that nobody asked for.
    /// `context` is who the device's scheduler should know it by.
    pub(super) fn submit(&mut self, now: Nanos, start: &Start, [lead, tail]: [u64; 2], context: Context) {
        let member = &mut self.members[usize::from(start.disk.0)];
        let sectors = start.extent.blocks * SECTORS_PER_BLOCK - lead - tail;
        member.device.submit(
            now,
            Command {
                id: u64::from(start.command),
                op: start.op,
                lba: start.extent.start.0 * SECTORS_PER_BLOCK + lead,
                sectors,
                context,
                read_ahead: start.read_ahead,
            },
        );
        self.held += 1;
        let ahead = start.read_ahead || start.op == Op::Write;
        let bytes = sectors * SECTOR_BYTES;
        member.outstanding.push(Outstanding {
            command: start.command,
            submitted: now,
            ahead,
            behind_until: Nanos::ZERO,
            bytes,
            op: start.op,
            was_ahead: start.read_ahead,
            told: now,
            weights: [0; 2],
        });
    }

    /// A reader has caught up with a prefetch: it waits for it from now on.
    pub(super) fn promote(&mut self, command: u32) {
        for member in &mut self.members {
            if let Some(found) = member.outstanding.iter_mut().find(|o| o.command == command) {
                found.ahead = false;
            }
        }
    }

    /// When the event queue must look at `disk`, if that is not already arranged.
    pub(super) fn arrange(&mut self, disk: usize) -> Option<Nanos> {
        let member = &mut self.members[disk];
        let next = member.device.next_event();
        if next.is_none() || next == member.looked_at {
            return None;
        }
        member.looked_at = next;
        next
    }

    /// The event queue looks at `disk`: completions go to `ended`. False when the look is stale.
    pub(super) fn look(&mut self, disk: usize, now: Nanos, ended: &mut Vec<Ended>) -> bool {
        if self.members[disk].looked_at != Some(now) {
            return false;
        }
        self.members[disk].looked_at = None;
        self.members[disk].device.advance(now);
        while let Some(completion) = self.members[disk].device.pop() {
            let command = u32::try_from(completion.id).expect("ids are the engine's command numbers");
            let (bytes, spent) = self.finish(disk, command, now, completion.begun);
            let at = self.over_bus(completion.at.max(now), bytes);
            ended.push(Ended { command, at, spent });
        }
        true
    }

    /// Takes a command off the list and notes who stood behind it. Returns its bytes, and what its time consisted of.
    fn finish(&mut self, disk: usize, command: u32, now: Nanos, begun: Nanos) -> (u64, Spent) {
        let member = &mut self.members[disk];
        let worked = now.since(begun.max(member.last_end));
        member.last_end = now;
        let list = &mut member.outstanding;
        let at = list.iter().position(|o| o.command == command).expect("a device ends what it was given");
        let ended = list.swap_remove(at);
        if ended.ahead {
            for waiting in list.iter_mut().filter(|o| !o.ahead && o.submitted >= ended.submitted) {
                waiting.behind_until = now;
            }
        } else {
            self.behind_prefetch += ended.behind_until.since(ended.submitted);
        }
        let (kind, sum) = match (ended.op, ended.was_ahead) {
            (Op::Write, _) => (1, &mut self.worked.writes),
            (Op::Read, true) => (0, &mut self.worked.ahead),
            (Op::Read, false) => (1, &mut self.worked.demand),
        };
        *sum += worked;
        for waiting in list.iter_mut() {
            waiting.weights[kind] += now.since(waiting.told).0;
            waiting.told = now;
        }
        let begun = begun.max(ended.submitted).min(now);
        let spent = Spent {
            own: now.since(begun),
            in_line: begun.since(ended.submitted),
            weight_ahead: ended.weights[0],
            weight_others: ended.weights[1],
            ahead: ended.was_ahead,
        };
        (ended.bytes, spent)
    }

    /// The transfer of `bytes` shares the controller with those before it: it moves them at the bus's rate, and first
    /// looks through the buffers that it holds.
    fn over_bus(&mut self, at: Nanos, bytes: u64) -> Nanos {
        let moving = (bytes * 1_000_000_000).checked_div(self.bus_bytes_per_s).unwrap_or(0);
        let takes = Nanos(moving + self.buffer_cost.0 * self.held);
        self.held -= 1;
        if takes == Nanos::ZERO {
            return at;
        }
        // The bus worked while the medium did: only what it is behind with delays the end.
        let start = self.bus_free.max(at.since(takes));
        self.bus_free = start + takes;
        self.bus_free.max(at)
    }

    pub(super) fn stats(&self) -> Vec<DeviceStats> {
        self.members.iter().map(|m| m.device.stats()).collect()
    }
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_takes_time_for_every_buffer_that_it_holds() {
        let mut members = Members::new(Vec::new(), 1_000_000_000, Nanos(100));
        members.held = 3;
        // 4,000 bytes take 4,000 ns; three buffers, then two, then one cost 300, 200 and 100 ns.
        assert_eq!(members.over_bus(Nanos(10_000), 4_000), Nanos(10_000), "it worked while the medium did");
        assert_eq!(members.over_bus(Nanos(10_000), 4_000), Nanos(14_200));
        assert_eq!(members.over_bus(Nanos(10_000), 4_000), Nanos(18_300));
        assert_eq!(members.held, 0);
    }

    #[test]
    fn without_a_limit_and_a_cost_data_passes_at_once() {
        let mut members = Members::new(Vec::new(), 0, Nanos::ZERO);
        members.held = 2;
        assert_eq!(members.over_bus(Nanos(7), 1 << 20), Nanos(7));
        assert_eq!(members.over_bus(Nanos(7), 1 << 20), Nanos(7));
    }
}
