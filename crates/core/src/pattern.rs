//! What pattern a file is read in: random, sequential or looping, by the runs of consecutive blocks in it.
//!
//! A file is random until a run of consecutive blocks has become longer than a threshold; then it is sequential, until
//! it jumps. A proven run that comes back to its first block is a loop, and where it ended is known. So is a run whose
//! start comes back later: the last few proven runs of a file are remembered.
//!
//! ```text
//!              longer than the threshold                back at the start
//!   RANDOM ──────────────────────────────▶ SEQUENTIAL ──────────────────────▶ LOOPING ◀─┐ back at
//!     ▲ │                                       │                              │   └─────┘ the start
//!     │ │            jump: the run is remembered│                              │
//!     │ └──────── jump to a remembered start ───┼──────────────────────────────┼──▶ LOOPING
//!     └─────────────────────────────────────────┴──────────────────────────────┘
//! ```
//!
//! Nothing is decided here: [`Runs`] says what a request is, [`crate::policy::rpp`] what may be read because of it, and the
//! statistics of a trace count it. It says "random" for strided and reverse reads and for files no longer than the
//! threshold. Source: RPP paper (Lee, Doh, Kim and Noh, IEICE E92-D, 2009), sections 3.1 and 3.2, and the classes of
//! UBM (Kim et al., OSDI 2000) that it builds on; the paper gives neither the threshold's value nor what a jump does to
//! what was known, nor does it say how a loop is told from a block that is read twice (docs/schemes/rpp.md).

pub use crate::bounded::{FILES_MAX, Recent};

use crate::units::{Block, Extent};
use alloc::vec::Vec;

/// Blocks that a run must exceed to be proven; the paper does not print its value. Four, as many as the smallest window
/// of any read-ahead here: less would prove before one window's worth of evidence, and the drive's own cache covers them.
pub const THRESHOLD_DEFAULT: u64 = 4;
/// Finished runs that a file remembers; the paper remembers none. 32: programs that read a file in passes of several runs
/// (an index, then a part of the data, again and again) come back after more than four (DECISIONS.md); half a KiB at most.
pub const REMEMBERED_MAX: usize = 32;

/// What a file is being read as (RPP paper, section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Neither of the others; every file at first.
    #[default]
    Random,
    /// Consecutive blocks, for longer than the threshold, as far as is known for the first time.
    Sequential,
    /// A sequential run that is being repeated.
    Looping,
}

impl Pattern {
    /// As in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
            Self::Looping => "looping",
        }
    }
}

/// A proven run that ended: from its first block to the last one ever read in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Finished {
    start: u64,
    end: u64,
}

/// What one request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The pattern after it.
    pub pattern: Pattern,
    /// It did not go on where the last request of the file ended; also the first one of a file.
    pub jumped: bool,
    /// Its part, from some block to its end, that belongs to a proven run. Empty while the pattern is random.
    pub proven: Extent,
    /// The proven part is the first of its run (the proof itself), or of a pass of a loop.
    pub begins: bool,
    /// Its blocks, counted from its first, that repeat the last block of the request before (reads of less than a block):
    /// 0 or 1. They are no references of their own.
    pub again: u64,
    /// Where the loop ended last time, as the first block behind it; `None` outside of loops and once the reader has gone on
    /// beyond that end.
    pub loop_end: Option<u64>,
}

impl Reading {
    /// Blocks of the request that were read before anything was proven.
    #[must_use]
    pub const fn unproven(&self, extent: Extent) -> u64 {
        extent.blocks - self.again - self.proven_references()
    }
    /// References of the proven part; a repeated block is none.
    #[must_use]
    pub const fn proven_references(&self) -> u64 {
        // A repeated block belongs to the proven part if the run was proven before.
        if self.begins { self.proven.blocks } else { self.proven.blocks.saturating_sub(self.again) }
    }
}

/// The runs of one file (RPP paper, section 3.2: start, end and most recent block, and the pattern).
#[derive(Clone, Debug, Default)]
pub struct Runs {
    start: u64,
    end: u64,
    last: Option<u64>,
    pattern: Pattern,
    /// The pass of a loop has not gone beyond the loop's end.
    inside: bool,
    /// At most [`REMEMBERED_MAX`], oldest first.
    remembered: Vec<Finished>,
}

impl Runs {
    /// Takes a request of at least one block; its blocks after the first are consecutive by themselves.
    ///
    /// # Panics
    /// If the request is empty.
    pub fn read(&mut self, extent: Extent, threshold: u64) -> Reading {
        assert!(!extent.is_empty(), "an access has a block");
        let (first, end) = (extent.start.0, extent.end());
        let was_proven = self.pattern != Pattern::Random;
        // Rule 1: the block read last, read again, is no reference (the paper is silent).
        let again = u64::from(self.last == Some(first));
        // Rule 2: "adjacent to the block accessed last in the file".
        let goes_on = again == 1 || self.last.is_some_and(|last| last + 1 == first);
        let returned = !goes_on && self.turn(first);
        self.last = Some(end - 1);
        if self.inside && end - 1 > self.end {
            self.inside = false; // The loop got longer; its old end holds nothing back in this pass.
        }
        self.end = self.end.max(end - 1);
        let mut from = if goes_on && was_proven || returned { first } else { end };
        let mut begins = returned;
        // "When the length of the sequence exceeds a specific threshold".
        if self.pattern == Pattern::Random && self.end - self.start + 1 > threshold {
            self.pattern = Pattern::Sequential;
            from = (self.start + threshold).max(first);
            begins = true;
        }
        Reading {
            pattern: self.pattern,
            jumped: !goes_on,
            proven: Extent { start: Block(from), blocks: end - from },
            begins,
            again,
            loop_end: self.inside.then_some(self.end + 1),
        }
    }

    /// A block that does not follow the last one. Whether it is the start of a proven run: a loop.
    fn turn(&mut self, block: u64) -> bool {
        // Rule 3: "the start block of the sequence"; only of a proven one, or two reads of one block were a loop.
        if self.pattern != Pattern::Random && block == self.start {
            self.pattern = Pattern::Looping;
            self.inside = true;
            return true;
        }
        // Rule 4: what was proven is remembered, then begins anew.
        if self.pattern != Pattern::Random {
            self.remember(Finished { start: self.start, end: self.end });
        }
        let known = self.remembered.iter().find(|run| run.start == block).copied();
        self.start = block;
        self.end = known.map_or(block, |run| run.end);
        self.inside = known.is_some();
        self.pattern = if known.is_some() { Pattern::Looping } else { Pattern::Random };
        known.is_some()
    }

    /// Puts a run at the young end; an older one with the same start, or else the oldest, makes room.
    fn remember(&mut self, run: Finished) {
        let same = self.remembered.iter().position(|old| old.start == run.start);
        let full = self.remembered.len() >= REMEMBERED_MAX;
        if let Some(place) = same.or(full.then_some(0)) {
            self.remembered.remove(place);
        }
        self.remembered.push(run);
    }

    /// Forgets finished runs until `most` are left, oldest first: after each read, so that no more are ever remembered.
    pub fn remember_at_most(&mut self, most: usize) {
        let over = self.remembered.len().saturating_sub(most);
        self.remembered.drain(..over);
    }

    /// First block of the current run.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }
    /// The current run, or pass of a loop, from its first block to the one read last; empty before the first request.
    #[must_use]
    pub fn run(&self) -> Extent {
        Extent::new(self.start, self.last.map_or(0, |last| last + 1 - self.start))
    }
    /// From the current run's first block to the furthest one ever read in it; of a loop, all of the loop.
    #[must_use]
    pub const fn reach(&self) -> Extent {
        Extent::new(self.start, self.end + 1 - self.start)
    }
    /// The block that would go on; `None` before the first request.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.last.map(|last| last + 1)
    }
    /// The pattern after the last request.
    #[must_use]
    pub const fn pattern(&self) -> Pattern {
        self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(blocks: impl IntoIterator<Item = u64>) -> Vec<Pattern> {
        let mut runs = Runs::default();
        blocks.into_iter().map(|b| runs.read(Extent::new(b, 1), 4).pattern).collect()
    }
    fn last(blocks: impl IntoIterator<Item = u64>) -> Reading {
        let mut runs = Runs::default();
        let all: Vec<Reading> = blocks.into_iter().map(|b| runs.read(Extent::new(b, 1), 4)).collect();
        *all.last().expect("at least one request")
    }

    use Pattern::{Looping as L, Random as R, Sequential as S};

    #[test]
    fn a_run_is_proven_by_its_fifth_block_and_a_jump_makes_it_random_again() {
        assert_eq!(patterns([7, 8, 9, 10, 11, 12, 40, 41]), [R, R, R, R, S, S, R, R]);
    }

    #[test]
    fn a_proven_run_that_comes_back_to_its_start_is_a_loop_at_once_and_its_end_is_known() {
        let two = last((0..9).chain(0..2));
        assert_eq!((two.pattern, two.loop_end, two.begins), (L, Some(9), false));
        let back = last((0..9).chain([0]));
        assert_eq!((back.begins, back.jumped, back.proven), (true, true, Extent::new(0, 1)));
    }

    #[test]
    fn a_run_that_was_not_proven_is_no_loop() {
        assert_eq!(patterns([0, 1, 2, 0, 1, 2]), [R; 6]);
        assert_eq!(patterns([5, 5, 5]), [R; 3]);
    }

    #[test]
    fn a_start_that_comes_back_after_other_runs_is_recognised_until_too_many_have_ended_since() {
        let run = |at: u64| at..at + 6;
        let again = last(run(0).chain(run(100)).chain([0]));
        assert_eq!((again.pattern, again.loop_end), (L, Some(6)));
        let runs = |count: u64| (0..count).flat_map(|k| run(k * 100)).chain([0]).collect::<Vec<u64>>();
        let max = REMEMBERED_MAX as u64;
        assert_eq!(last(runs(max)).pattern, L, "so many runs are remembered");
        assert_eq!(
            last(runs(max + 1)).pattern,
            R,
            "one more, remembered by the jump itself, pushed the first one out"
        );
    }

    #[test]
    fn a_loop_that_goes_on_beyond_its_end_is_held_back_no_more_and_is_longer_next_time() {
        let beyond = last((0..6).chain(0..8));
        assert_eq!((beyond.pattern, beyond.loop_end), (L, None));
        assert_eq!(last((0..6).chain(0..8).chain([0])).loop_end, Some(8));
    }

    #[test]
    fn a_loop_left_half_way_keeps_its_end() {
        assert_eq!(last((0..10).chain(0..3).chain([0])).loop_end, Some(10));
        assert_eq!(last((0..10).chain(0..3).chain([77, 0])).loop_end, Some(10));
    }

    #[test]
    fn a_large_request_is_proven_from_the_block_that_exceeds_the_threshold() {
        let mut runs = Runs::default();
        let reading = runs.read(Extent::new(100, 32), 4);
        assert_eq!((reading.proven, reading.begins), (Extent::new(104, 28), true));
        assert_eq!(reading.unproven(Extent::new(100, 32)), 4);
        let next = runs.read(Extent::new(132, 32), 4);
        assert_eq!((next.proven, next.begins), (Extent::new(132, 32), false));
    }

    #[test]
    fn reads_of_less_than_a_block_do_not_break_a_run_and_are_counted_once() {
        let mut runs = Runs::default();
        let mut references = 0;
        for at in 0..20_u64 {
            let extent = Extent::covering(at * 3_000, 3_000);
            let reading = runs.read(extent, 4);
            references += reading.unproven(extent) + reading.proven_references();
        }
        assert_eq!((runs.pattern(), references), (S, 15), "60,000 bytes are 15 blocks");
    }

    #[test]
    fn strided_and_reverse_reads_stay_random() {
        assert!(patterns((0..100).map(|k| k * 3)).iter().all(|p| *p == R));
        assert!(patterns((0..100).rev()).iter().all(|p| *p == R));
    }
}
