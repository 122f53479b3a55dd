//! Dispatch: what leaves for a disk, in what order, how fast.
//!
//! A dispatch owns the member commands that have not left yet, per disk, and may hold even demand back (a stream that
//! waits for its turn). The default sends demand first, prefetches behind it, destaging last, and never more than a
//! bounded number per disk; the host's own scheduler and the drive sort what has left.

use crate::access::Context;
use crate::array::DISKS_MAX;
use crate::units::{Disk, Extent, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How urgent a member command is; the order of the variants is the order of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A reader waits for it.
    Demand,
    /// A writer waits for it, or memory is short.
    Urgent,
    /// Nobody waits yet.
    Prefetch,
    /// Writing back what is old.
    Background,
}

/// What a dispatch needs to know of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The engine's number of the command.
    pub command: u32,
    /// Where it goes.
    pub disk: Disk,
    /// How urgent it is.
    pub class: Class,
    /// Who caused it.
    pub context: Context,
    /// Blocks it moves.
    pub blocks: u64,
    /// The blocks of the volume that it reads for somebody; empty for a write and for input of parity.
    pub volume: Extent,
}

/// Order and pace of leaving.
pub trait Dispatch: Send {
    /// A command wants to leave.
    fn enqueue(&mut self, now: Nanos, queued: Queued);
    /// A reader has caught up with a queued command: it is now demand. Unknown or gone commands are ignored.
    fn promote(&mut self, command: u32, disk: Disk);
    /// The next command that may leave now, for any disk. Asked until `None`.
    fn pick(&mut self, now: Nanos) -> Option<u32>;
    /// A command that left has ended.
    fn complete(&mut self, now: Nanos, disk: Disk, command: u32);
    /// When it wants to be asked again without any other event. A scheme's own dispatch is not asked: its policy has
    /// wake-ups.
    fn next_wake(&self) -> Option<Nanos> {
        None
    }
}

/// Most commands outstanding at one disk. 32, as NCQ; more would only queue inside the device.
pub const DEPTH_MAX: u32 = 32;
/// Most of them that nobody waits for, so that demand finds room.
pub const AHEAD_DEPTH_MAX: u32 = 16;
/// Most prefetches outstanding where the commands of programs go past the engine, and the kernel's queue lies below: what a wide device takes
/// at once. With the depth of a disk a reader of storage 5 ms away would get 16 pieces in 5 ms, however far ahead its scheme is.
pub const OBSERVED_DEPTH_MAX: u32 = 256;

#[derive(Debug, Default)]
struct DiskQueues {
    queues: [VecDeque<Queued>; 4],
    outstanding: u32,
}

/// Demand first, then urgent writes, prefetches, background.
#[derive(Debug)]
pub struct DemandFirst {
    by_disk: Vec<DiskQueues>,
    /// Disks that may have something to send, so that `pick` does not look at all.
    ready: u64,
    /// Most commands outstanding at one disk, and most of them that nobody waits for.
    depth: (u32, u32),
}

impl DemandFirst {
    /// For `disks` disks, at most [`DISKS_MAX`].
    ///
    /// # Panics
    /// Above that.
    #[must_use]
    pub fn new(disks: usize) -> Self {
        assert!(disks <= usize::from(DISKS_MAX), "an array has at most {DISKS_MAX} disks");
        let mut by_disk = Vec::new();
        by_disk.resize_with(disks, DiskQueues::default);
        Self { by_disk, ready: 0, depth: (DEPTH_MAX, AHEAD_DEPTH_MAX) }
    }

    /// For a volume whose cache the kernel owns: it only ever sees prefetches.
    #[must_use]
    pub fn observed() -> Self {
        Self::wide(1, OBSERVED_DEPTH_MAX)
    }

    /// With so many outstanding at each disk, of demand and of prefetches alike: what keeps demand apart, if anything, lies below.
    ///
    /// # Panics
    /// As [`DemandFirst::new`].
    #[must_use]
    pub fn wide(disks: usize, depth: u32) -> Self {
        Self { depth: (depth, depth), ..Self::new(disks) }
    }
}

impl DiskQueues {
    fn pop(&mut self, (depth, ahead): (u32, u32)) -> Option<Queued> {
        if self.outstanding >= depth {
            return None;
        }
        let limit = if self.outstanding >= ahead { 2 } else { self.queues.len() };
        let queued = self.queues[..limit].iter_mut().find_map(VecDeque::pop_front)?;
        self.outstanding += 1;
        Some(queued)
    }
}

impl Dispatch for DemandFirst {
    fn enqueue(&mut self, _now: Nanos, queued: Queued) {
        let disk = queued.disk.0 as usize;
        self.by_disk[disk].queues[queued.class as usize].push_back(queued);
        self.ready |= 1 << disk;
    }
    fn promote(&mut self, command: u32, disk: Disk) {
        let of_disk = &mut self.by_disk[disk.0 as usize];
        for class in [Class::Prefetch as usize, Class::Background as usize] {
            if let Some(at) = of_disk.queues[class].iter().position(|q| q.command == command) {
                if let Some(mut queued) = of_disk.queues[class].remove(at) {
                    queued.class = Class::Demand;
                    of_disk.queues[Class::Demand as usize].push_back(queued);
                }
                return;
            }
        }
    }
    fn pick(&mut self, _now: Nanos) -> Option<u32> {
        // Asked after every input: the usual answer, "nothing", costs one comparison.
        if self.ready == 0 { None } else { self.pick_ready() }
    }
    fn complete(&mut self, _now: Nanos, disk: Disk, _command: u32) {
        let of_disk = &mut self.by_disk[disk.0 as usize];
        assert!(of_disk.outstanding > 0, "a command ends once");
        of_disk.outstanding -= 1;
        self.ready |= 1 << disk.0;
    }
}

impl DemandFirst {
    #[inline(never)]
    fn pick_ready(&mut self) -> Option<u32> {
        while self.ready != 0 {
            let disk = self.ready.trailing_zeros() as usize;
            if let Some(queued) = self.by_disk[disk].pop(self.depth) {
                return Some(queued.command);
            }
            self.ready &= !(1 << disk);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(command: u32, class: Class) -> Queued {
        Queued { command, disk: Disk(0), class, context: Context(0), blocks: 1, volume: Extent::default() }
    }

    #[test]
    fn demand_leaves_before_a_prefetch_that_came_first() {
        let mut dispatch = DemandFirst::new(1);
        dispatch.enqueue(Nanos(0), queued(1, Class::Prefetch));
        dispatch.enqueue(Nanos(1), queued(2, Class::Demand));
        assert_eq!(dispatch.pick(Nanos(2)), Some(2));
        assert_eq!(dispatch.pick(Nanos(2)), Some(1));
    }

    #[test]
    fn a_prefetch_that_a_reader_caught_up_with_overtakes_the_others() {
        let mut dispatch = DemandFirst::new(1);
        dispatch.enqueue(Nanos(0), queued(1, Class::Prefetch));
        dispatch.enqueue(Nanos(0), queued(2, Class::Prefetch));
        dispatch.promote(2, Disk(0));
        assert_eq!(dispatch.pick(Nanos(1)), Some(2));
    }

    #[test]
    fn an_observer_lets_as_many_prefetches_go_as_a_wide_device_takes() {
        let mut dispatch = DemandFirst::observed();
        for n in 0..2 * OBSERVED_DEPTH_MAX {
            dispatch.enqueue(Nanos(0), queued(n, Class::Prefetch));
        }
        assert_eq!(
            (0..).take_while(|_| dispatch.pick(Nanos(0)).is_some()).count(),
            OBSERVED_DEPTH_MAX as usize
        );
        dispatch.complete(Nanos(1), Disk(0), 0);
        assert_eq!(dispatch.pick(Nanos(1)), Some(OBSERVED_DEPTH_MAX));
    }

    #[test]
    fn of_a_wide_disk_prefetches_may_have_all_there_is() {
        let mut dispatch = DemandFirst::wide(1, 100);
        (0..200).for_each(|n| dispatch.enqueue(Nanos(0), queued(n, Class::Prefetch)));
        assert_eq!((0..).take_while(|_| dispatch.pick(Nanos(0)).is_some()).count(), 100);
    }

    #[test]
    fn prefetches_leave_room_for_demand() {
        let mut dispatch = DemandFirst::new(1);
        for n in 0..DEPTH_MAX {
            dispatch.enqueue(Nanos(0), queued(n, Class::Prefetch));
        }
        let mut left = 0;
        while dispatch.pick(Nanos(0)).is_some() {
            left += 1;
        }
        assert_eq!(left, AHEAD_DEPTH_MAX);
        dispatch.enqueue(Nanos(1), queued(99, Class::Demand));
        assert_eq!(dispatch.pick(Nanos(1)), Some(99));
    }
}
