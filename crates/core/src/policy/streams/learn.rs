//! What turns cost a disk, learned from their commands: the switch from one stream to the next, and a block's transfer.
//!
//! The cost model believes in a seek over a third of the disk and in the mean transfer rate; a working set in the outer quarter has shorter
//! seeks and faster tracks, a worn or busy drive longer ones. What is promised should rest on what the drive does. The first
//! command of another stream pays for the switch, those that follow it for their transfer; while a disk is never idle
//! within a turn the time from one end to the next is theirs.

use super::sizes::Device;
use super::table::{LaneId, NONE};
use crate::units::Nanos;

/// Blocks over which a block's transfer is taken: 4 MiB, several tracks and the skews between them.
const TRANSFER_BLOCKS: u64 = 1_024;
/// Share of the newest measure: 1 in so many. A switch varies with where the next stream lies, so it is taken over more.
const SWITCH_PARTS: u64 = 32;
const TRANSFER_PARTS: u64 = 8;
/// What is learned is at most so many times more, or less, than what was believed first: one stall of a minute is no switch.
const TIMES: u64 = 4;

/// The measure of one disk, or of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    /// When a command last ended.
    ended: Nanos,
    /// Whose that was.
    lane: Option<LaneId>,
    /// Transfer since the last measure of it.
    took: u64,
    blocks: u64,
}

/// What a command of a turn tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// Time and blocks of a command that began elsewhere.
    Switched(u64, u64),
    /// Time and blocks of commands that went on.
    Went(u64, u64),
}

impl Meter {
    /// A command that left at `left` has ended; `lane` is `NONE` where it belongs to no turn.
    pub(super) fn ended(&mut self, lane: LaneId, blocks: u64, left: Nanos, now: Nanos) -> Option<Lesson> {
        let took = now.since(self.ended.max(left)).0;
        self.ended = now;
        let before = self.lane;
        self.lane = (lane != NONE).then_some(lane);
        if lane == NONE {
            return None;
        }
        if before != Some(lane) {
            return Some(Lesson::Switched(took, blocks));
        }
        self.took += took;
        self.blocks += blocks;
        (self.blocks >= TRANSFER_BLOCKS)
            .then(|| Lesson::Went(core::mem::take(&mut self.took), core::mem::take(&mut self.blocks)))
    }
}

/// From how much it was learned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learned {
    /// What was believed first; counts as one measure.
    first: Device,
    /// Measures of each kind so far, up to their parts.
    switches: u64,
    transfers: u64,
}

impl Learned {
    /// Nothing yet.
    pub(super) const fn nothing(first: Device) -> Self {
        Self { first, switches: 1, transfers: 1 }
    }
}

impl Device {
    /// Believes a little more of what was seen, within bounds of what was believed first.
    pub(super) fn learn(&mut self, lesson: Lesson, learned: &mut Learned) {
        let towards = |old: u64, new: u64, parts: u64, first: u64| {
            (old * (parts - 1) / parts + new / parts).clamp(first / TIMES, first.saturating_mul(TIMES))
        };
        let first = learned.first;
        match lesson {
            Lesson::Switched(took, blocks) => {
                learned.switches = (learned.switches + 1).min(SWITCH_PARTS);
                let switch = took.saturating_sub(blocks * self.per_block.0);
                self.switch = Nanos(towards(self.switch.0, switch, learned.switches, first.switch.0));
            }
            Lesson::Went(took, blocks) => {
                learned.transfers = (learned.transfers + 1).min(TRANSFER_PARTS);
                let block = took / blocks.max(1);
                let per_block = towards(self.per_block.0, block, learned.transfers, first.per_block.0);
                self.per_block = Nanos(per_block.max(1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_switches_and_transfers_faster_than_believed_is_found_out() {
        let first = Device { switch: Nanos(13_000_000), per_block: Nanos(90_000), positions: true };
        let (switch, per_block) = (8_000_000, 70_000);
        let (mut device, mut learned) = (first, Learned::nothing(first));
        let (mut meter, mut now) = (Meter::default(), 0);
        for turn in 0..400 {
            let left = now;
            for command in 0..6 {
                now += 32 * per_block + if command == 0 { switch } else { 0 };
                if let Some(lesson) = meter.ended(turn % 7, 32, Nanos(left), Nanos(now)) {
                    device.learn(lesson, &mut learned);
                }
            }
            now += 3_000_000; // idle, which is nobody's cost
            meter.ended(NONE, 1, Nanos(now), Nanos(now));
        }
        assert!(device.switch.0.abs_diff(switch) < switch / 20, "{}", device.switch.0);
        assert!(device.per_block.0.abs_diff(per_block) < per_block / 20, "{}", device.per_block.0);
    }

    #[test]
    fn a_stall_is_not_believed_beyond_four_times() {
        let first = Device { switch: Nanos(13_000_000), per_block: Nanos(90_000), positions: true };
        let (mut device, mut learned) = (first, Learned::nothing(first));
        for _ in 0..100 {
            device.learn(Lesson::Switched(60_000_000_000, 32), &mut learned);
        }
        assert_eq!(device.switch.0, 4 * first.switch.0);
    }
}
