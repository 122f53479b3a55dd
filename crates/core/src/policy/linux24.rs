//! `linux-2.4`: read-ahead of Linux 2.4, as AccuSim models it; what the RPP paper runs under its controller.
//!
//! Each open file has a group (what the last read-ahead asked for) and a window (that group and the one before it).
//! Reads inside the window are sequential enough; a read outside starts over:
//!
//! ```text
//!   |---- group before ----|------- group -------|
//!   |<------------------ window ---------------->|
//!                           ^ a block of the group is here: the next group, twice as large, is read
//!    a block is not here, outside the window: it and what follows are read together, as a new first group
//! ```
//!
//! So one group is always on its way ahead of a sequential reader. It never does nothing: a lone random read of one
//! block reads three, which is what RPP's controller saves. Source: torvalds/linux mm/filemap.c of 2.4, in the rules of
//! algorithms.md 3.1, whose numbers stand beside the lines; Butt, Gniady and Hu, SIGMETRICS 2005. A block in
//! flight counts as locked, so it is not yet here. The kernel reads nothing ahead for the first half page of a file; a
//! block layer sees no half pages. Where a group would pass the end of the file only its wish is cut.

use super::readahead::MAX;
use super::{Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::bounded::{Bounded, FILES_MAX, SecondChance};
use crate::row::{Layer, Make, Role, Row};
use crate::units::Extent;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Least number of blocks read ahead of a sequential reader (`MIN_READAHEAD`).
const MIN_BLOCKS: u64 = 3;

#[derive(Clone, Copy, Debug)]
struct File {
    /// One past the last block of the group (`f_raend`).
    end: u64,
    /// Length of the group (`f_ralen`).
    group: u64,
    /// Length of the window (`f_rawin`).
    window: u64,
    /// Length of the next group (`f_ramax`).
    next: u64,
}

impl File {
    /// Nothing read ahead yet, in a file that begins at `start`.
    const fn new(start: u64) -> Self {
        Self { end: start, group: 0, window: 0, next: 0 }
    }
    /// Whether `block` lies beyond the group or before the window.
    const fn is_outside(&self, block: u64) -> bool {
        block > self.end || block + self.window < self.end
    }
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "linux-2.4",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "Read-ahead of Linux 2.4 as AccuSim models it: a group and a window per file, at random reads too.",
    source: "Butt, Gniady and Hu, SIGMETRICS 2005; torvalds/linux mm/filemap.c, 2.4",
    params: &[MAX],
    make: Make::Policy(|values, _| Box::new(Linux24::new(values.blocks("max")))),
    ..Row::PLAIN
};

/// A group and a window per file.
#[derive(Debug)]
pub struct Linux24 {
    /// Longest group less the block that it is read for (`MAX_READAHEAD`).
    ahead_max: u64,
    files: Bounded<File, SecondChance>,
    groups: u64,
}

impl Linux24 {
    /// With groups of at most `max` blocks.
    ///
    /// # Panics
    /// If that is no block.
    #[must_use]
    pub fn new(max: u64) -> Self {
        assert!(max > 0, "a group has at least one block");
        Self { ahead_max: max - 1, files: Bounded::new(FILES_MAX), groups: 0 }
    }
}

/// Where the blocks of one access are judged: the file begins and ends here.
struct Call {
    start: u64,
    end: u64,
    ahead_max: u64,
    /// The access began inside the window.
    near: bool,
}

impl Call {
    /// Rule 3 for one block. The wish, if there is one.
    fn block(&self, file: &mut File, block: u64, here: bool) -> Option<(Extent, When)> {
        let (base, ahead, when);
        if !here {
            // Synchronous: with it, what follows. Inside the window it is on its way already.
            if file.group != 0 && block < file.end && block + file.window >= file.end {
                return None;
            }
            (base, ahead, when) = (block, file.next, When::WithDemand);
            (file.window, file.group) = (0, 1);
        } else {
            // Asynchronous: a block of the group is touched.
            let in_group = file.end > self.start && block <= file.end && block + file.group >= file.end;
            if !self.near || file.next == 0 || !in_group || file.end >= self.end {
                return None;
            }
            (base, ahead, when) = (file.end - 1, file.next + 1, When::Ahead);
            (file.window, file.group) = (file.group, 0);
        }
        file.group += ahead;
        file.window += file.group;
        file.end = base + ahead + 1;
        file.next = (2 * file.next).min(self.ahead_max);
        let first = if here { base + 1 } else { base };
        Some((Extent::new(first, file.end.min(self.end).saturating_sub(first)), when))
    }
}

impl Policy for Linux24 {
    fn hears_left(&mut self) -> bool {
        false
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        let start = access.within.start.0;
        let file = self.files.entry(access.context.0, || File::new(start));
        let near = !file.is_outside(access.extent.start.0); // rule 1
        if !near {
            *file = File::new(start);
        }
        file.next = file.next.max(access.extent.blocks + 1); // rule 2
        if near {
            file.next = file.next.max(MIN_BLOCKS);
        }
        file.next = file.next.min(self.ahead_max);
        let end = access.within.end().min(world.blocks);
        let call = Call { start, end, ahead_max: self.ahead_max, near };
        for (block, outcome) in access.extent.iter().zip(lookup.outcomes) {
            let here = matches!(outcome, Outcome::CacheHit | Outcome::PrefetchHit);
            if let Some((group, when)) = call.block(file, block.0, here) {
                self.groups += 1;
                plan.fetch(group, when);
            }
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge for a report")]
        out.push(("readahead_windows", self.groups as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::Bench;
    use super::*;

    fn bench() -> Bench<Linux24> {
        Bench::new(Linux24::new(32))
    }

    #[test]
    fn single_blocks_from_the_start_grow_as_in_the_golden_vector() {
        // algorithms.md 3.1: S[0..3], then 7 @4, 13 @11, 25 @24, 32 @49, 32 @81, at 1, 4, 11, 24, 49.
        assert_eq!(
            bench().reads(0..81),
            [(0, 0, 4), (1, 4, 7), (4, 11, 13), (11, 24, 25), (24, 49, 32), (49, 81, 32)]
        );
    }

    #[test]
    fn a_file_that_begins_anywhere_is_read_alike() {
        let mut bench = bench().of(1_000, 5_000);
        assert_eq!(bench.reads(1_000..1_011), [(1_000, 1_000, 4), (1_001, 1_004, 7), (1_004, 1_011, 13)]);
    }

    #[test]
    fn a_lone_read_of_one_block_reads_three() {
        assert_eq!(bench().reads([700, 90, 4_000]), [(700, 700, 3), (90, 90, 3), (4_000, 4_000, 3)]);
        assert_eq!(bench().read(700, 8), [(700, 700, 10)], "and one of eight reads ten");
    }

    #[test]
    fn large_reads_have_their_groups_read_once_and_ahead() {
        let mut bench = bench();
        assert_eq!(bench.read(0, 8), [(0, 0, 10)], "eight, one, and the block itself");
        assert_eq!(bench.read(8, 8), [(8, 10, 19)], "what is on its way is inside the window");
        assert_eq!(bench.read(16, 8), [(16, 29, 32)]);
        assert_eq!(bench.read(24, 4), []);
    }

    #[test]
    fn a_group_is_cut_at_the_end_of_the_file_and_nothing_follows_it() {
        let mut bench = bench().of(0, 9);
        assert_eq!(bench.reads(0..9), [(0, 0, 4), (1, 4, 5)]);
    }

    #[test]
    fn a_jump_starts_over_and_readers_do_not_disturb_each_other() {
        let mut bench = bench();
        assert_eq!(bench.by(1).reads(0..5).len(), 3);
        assert_eq!(bench.by(2).reads([500, 501]), [(500, 500, 3), (501, 503, 5)]);
        assert_eq!(bench.by(1).reads(5..12), [(11, 24, 25)], "reader 1 goes on where it was");
        assert_eq!(bench.by(1).reads([900]), [(900, 900, 3)], "a jump, and MIN does not apply");
    }

    #[test]
    fn blocks_that_are_here_far_from_the_window_trigger_nothing() {
        let mut bench = bench();
        bench.by(1).read(2_000, 20);
        assert_eq!(bench.by(2).reads(2_000..2_010), []);
    }
}
