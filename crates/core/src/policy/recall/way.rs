//! One reader on one known way: a window over a log, and what of it is still to be wished.
//!
//! ```text
//!   log      | 7 | 40 | 12 | 90 | 31 | 66 | 18 | 5 | …
//!   window         used ·    used │ asked asked ·        a mark each; · is one that was passed over
//!                                 └ front: the reader is here
//!   pending                         18 ─▶ 31 ─▶ 66       by place, as an elevator goes
//! ```
//!
//! A reader seldom comes to all runs in just the order of the last time: several of its requests are under way at once, and what
//! is in memory is another part each time. So a run counts as met when it is read anywhere in the window. The front goes on with reads
//! that are a little ahead of it; a read far ahead moves it only if more follow there. A run that has been passed by [`SLACK`]
//! others and was not read is lost.

use super::log::{Log, Place, Segment, is_of};
use crate::policy::{Plan, WISHES_MAX, When};
use crate::units::Extent;
use alloc::collections::VecDeque;
use core::ops::Range;

/// Bytes of a run ahead: its mark, and itself until it is wished.
pub(super) const AHEAD_BYTES: u64 = 1 + size_of::<Extent>() as u64;
/// Runs behind the front that may still be read.
const SLACK: usize = 32;
/// Runs ahead of the front that are compared with each read, and of which one moves it.
const NEAR: usize = 32;
/// Reads far ahead in a row that move the front there.
const LEAPS: u32 = 3;
/// Runs that were missing, after which older ones count half in what is said of a way.
const TRIED_MAX: u32 = 64;
/// A way goes deeper while at most one in so many of its runs is lost.
const DEEPER_ONE_IN: u32 = 8;
/// And is begun anew where more than one in so many is.
const ANEW_ONE_IN: u32 = 2;
/// Longest command that is made of runs that lie close together, in blocks: 1 MiB.
const MERGED_MAX: u64 = 256;

/// How a run on the way stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark(u8);

impl Mark {
    /// It was not in memory when it was looked at.
    pub(super) const MISSING: Self = Self(1);
    /// And it was asked for.
    pub(super) const ASKED: Self = Self(1 << 1);
    /// The reader has come to it.
    const USED: Self = Self(1 << 2);
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    const fn is_lost(self) -> bool {
        self.has(Self::MISSING) && !self.has(Self::USED)
    }
}

/// A window over a log.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The segments of the window, each with the count of runs of the way before it; a way that begins amid its first one counts from where
    /// that begins.
    segments: VecDeque<(Segment, u64)>,
    /// The count of runs before the window.
    begin: u64,
    marks: VecDeque<Mark>,
    /// Runs of the window that the reader has come to or passed.
    front: usize,
    /// Blocks of the others.
    blocks: u64,
    pending: VecDeque<Extent>,
    /// Where the last wish ended.
    hand: u64,
    /// Where the last read far ahead was, and how many in a row were there.
    leap: usize,
    leaps: u32,
    /// Runs to be ahead of the reader.
    depth: u32,
    least: u32,
    /// Of the runs that were missing lately, how many the reader came to, and how many it did not.
    met: u32,
    missed: u32,
    /// Reads of its reader since it was met.
    pub(super) strays: u32,
}

impl Way {
    /// A reader has just come to this run; so many are to be ahead of it at first.
    pub(super) fn at(place: Place, depth: u32) -> Self {
        Self {
            segments: VecDeque::from([(place.segment, 0)]),
            begin: place.at as u64,
            marks: VecDeque::from([Mark::USED]),
            front: 1,
            blocks: 0,
            pending: VecDeque::new(),
            hand: 0,
            leap: 0,
            leaps: 0,
            depth,
            least: depth,
            met: 0,
            missed: 0,
            strays: 0,
        }
    }
    /// Runs ahead of the reader.
    pub(super) fn ahead(&self) -> usize {
        self.marks.len() - self.front
    }
    /// Their blocks.
    pub(super) const fn blocks(&self) -> u64 {
        self.blocks
    }
    /// How many runs are to be ahead of the reader.
    pub(super) const fn depth(&self) -> u32 {
        self.depth
    }
    /// The reader had to wait for what was asked for: it is asked for sooner, while nearly all of it is needed.
    pub(super) fn reach(&mut self, most: u32) {
        if self.missed * DEEPER_ONE_IN <= self.met {
            self.depth = (2 * self.depth).min(most);
        }
    }
    /// Some runs that were missing were needed, or were not.
    fn judge(&mut self, met: u32, missed: u32) {
        if self.met + self.missed >= TRIED_MAX {
            (self.met, self.missed) = (self.met / 2, self.missed / 2);
        }
        (self.met, self.missed) = (self.met + met, self.missed + missed);
        if self.missed * ANEW_ONE_IN > self.met + self.missed {
            self.depth = self.least;
        }
    }
    /// Runs that were missing and that the reader has not come to.
    pub(super) fn lost(&self) -> u64 {
        self.marks.iter().filter(|mark| mark.is_lost()).count() as u64
    }
    fn place(&self, index: usize) -> Place {
        let count = self.begin + index as u64;
        let behind = self.segments.partition_point(|&(_, before)| before <= count);
        let (segment, before) = behind.checked_sub(1).map_or((Segment::NONE, 0), |at| self.segments[at]);
        Place { segment, at: (count - before) as usize }
    }
    fn index(&self, place: Place) -> Option<usize> {
        let (_, before) = self.segments.iter().find(|(segment, _)| *segment == place.segment)?;
        let index = (before + place.at as u64).checked_sub(self.begin)? as usize;
        (index < self.marks.len()).then_some(index)
    }
    /// Where in the window a read is.
    pub(super) fn find(&self, log: &Log, extent: Extent) -> Option<usize> {
        let near = self.front - 1..self.marks.len().min(self.front + NEAR);
        let here = |index: &usize| log.run(self.place(*index)).is_some_and(|run| is_of(run, extent));
        let behind = 0..near.start;
        let find = |mut runs: Range<usize>| runs.find(here);
        find(near).or_else(|| find(behind)).or_else(|| log.find(extent).find_map(|place| self.index(place)))
    }
    /// The reader has come to a run of the window: how that stood, and how many that were missing it has left behind for good.
    pub(super) fn go(&mut self, log: &mut Log, index: usize) -> (Mark, u64) {
        let known = self.marks[index];
        let mark = if known.has(Mark::USED) { Mark::default() } else { known };
        self.marks[index] = known.and(Mark::USED);
        self.strays = 0;
        self.judge(u32::from(mark.has(Mark::MISSING)), 0);
        log.keep(self.place(index).segment);
        if index >= self.front + NEAR {
            let follows = index.abs_diff(self.leap) <= NEAR;
            self.leaps = if follows { self.leaps + 1 } else { 1 };
            self.leap = index;
            if self.leaps < LEAPS {
                return (mark, 0);
            }
        }
        self.leaps = 0;
        for passed in self.front..=index {
            let run = log.run(self.place(passed));
            self.blocks = self.blocks.saturating_sub(run.map_or(0, |run| run.blocks));
        }
        self.front = self.front.max(index + 1);
        (mark, self.forget())
    }
    /// Lets go of what is too far behind.
    fn forget(&mut self) -> u64 {
        let mut lost: u32 = 0;
        while self.front > SLACK {
            lost += u32::from(self.marks.pop_front().is_some_and(Mark::is_lost));
            self.front -= 1;
            self.leap = self.leap.saturating_sub(1);
            self.begin += 1;
            if self.segments.get(1).is_some_and(|&(_, before)| before <= self.begin) {
                self.segments.pop_front();
            }
        }
        self.judge(0, lost);
        u64::from(lost)
    }
    /// The run behind the window.
    pub(super) fn next(&self, log: &Log) -> Option<(Place, Extent)> {
        let next = log.next(self.place(self.marks.len() - 1))?;
        Some((next, log.run(next)?))
    }
    /// That joins the window.
    pub(super) fn add(&mut self, (place, run): (Place, Extent), mark: Mark) {
        if self.segments.back().is_none_or(|(last, _)| *last != place.segment) {
            self.segments.push_back((place.segment, self.begin + self.marks.len() as u64));
        }
        self.blocks += run.blocks;
        self.marks.push_back(mark);
        if mark.has(Mark::ASKED) {
            self.pending.push_back(run);
        }
    }
    /// Puts what is to be wished in the order of places, from where the last wish ended and then from the beginning; what has at
    /// most `gap` blocks between it becomes one.
    pub(super) fn sort(&mut self, gap: u64) {
        let hand = self.hand;
        let all = self.pending.make_contiguous();
        all.sort_unstable_by_key(|run| (run.start.0 < hand, run.start));
        let mut kept: usize = 0;
        for at in 0..all.len() {
            let run = all[at];
            if let Some(last) = kept.checked_sub(1).map(|last| &mut all[last]) {
                let whole = Extent::new(last.start.0, run.end().max(last.end()).saturating_sub(last.start.0));
                let close = run.start >= last.start && run.start.0 <= last.end() + gap;
                if close && whole.blocks <= MERGED_MAX {
                    *last = whole;
                    continue;
                }
            }
            all[kept] = run;
            kept += 1;
        }
        self.pending.truncate(kept);
    }
    /// Wishes for as much as the plan has room for.
    pub(super) fn wish(&mut self, plan: &mut Plan) {
        while plan.wishes().len() < WISHES_MAX
            && let Some(run) = self.pending.pop_front()
        {
            self.hand = run.end();
            plan.fetch(run, When::Ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A log of so many runs of two blocks, 1,000 blocks apart.
    fn log(runs: u64) -> Log {
        let (mut log, mut open) = (Log::new(1 << 14, 1 << 20), Segment::NONE);
        for n in 0..runs {
            open = log.add(open, run(n)).unwrap();
        }
        log
    }
    fn run(n: u64) -> Extent {
        Extent::new(1_000 * n, 2)
    }
    /// A way from its first run on, with so many runs ahead that are asked for.
    fn way(log: &Log, ahead: u64) -> Way {
        let mut way = Way::at(log.find(run(0)).next().unwrap(), 4);
        for _ in 0..ahead {
            let next = way.next(log).unwrap();
            way.add(next, Mark::MISSING.and(Mark::ASKED));
        }
        way
    }
    fn go(way: &mut Way, log: &mut Log, n: u64) -> u64 {
        let index = way.find(log, run(n)).expect("in the window");
        way.go(log, index).1
    }

    #[test]
    fn runs_in_another_order_are_all_met() {
        let mut log = log(100);
        let mut way = way(&log, 60);
        for n in [2, 1, 4, 3, 7, 5, 6, 9, 8] {
            assert_eq!(go(&mut way, &mut log, n), 0);
        }
        assert_eq!((way.ahead(), way.blocks(), way.lost()), (51, 102, 51));
        assert_eq!(way.find(&log, run(70)), None, "beyond the window");
    }

    #[test]
    fn a_run_that_was_passed_by_many_and_not_read_is_lost() {
        let mut log = log(100);
        let mut way = way(&log, 90);
        let lost: u64 = (1..80).filter(|n| n % 10 != 5).map(|n| go(&mut way, &mut log, n)).sum();
        assert_eq!(lost, 5, "5, 15, 25, 35 and 45; the others may still be read");
        assert_eq!(way.find(&log, run(5)), None);
    }

    #[test]
    fn one_read_far_ahead_does_not_move_the_front_and_several_do() {
        let mut log = log(200);
        let mut way = way(&log, 150);
        go(&mut way, &mut log, 102);
        assert_eq!(way.ahead(), 150);
        go(&mut way, &mut log, 1);
        assert_eq!(way.ahead(), 149);
        for n in [122, 124, 126] {
            go(&mut way, &mut log, n);
        }
        assert_eq!(way.ahead(), 24);
    }

    #[test]
    fn it_goes_deeper_while_what_it_asks_for_is_needed_and_begins_anew_when_it_is_not() {
        let mut log = log(300);
        let mut way = way(&log, 250);
        for n in 1..20 {
            go(&mut way, &mut log, n);
            way.reach(64);
        }
        assert_eq!(way.depth(), 64);
        for n in (20..240).step_by(10) {
            go(&mut way, &mut log, n);
        }
        way.reach(64);
        assert_eq!(way.depth(), 4);
    }

    #[test]
    fn what_is_wished_goes_by_place_from_the_hand_on_and_what_is_close_is_one() {
        let mut way = Way::at(Place { segment: Segment::NONE, at: 0 }, 4);
        let wish = |way: &mut Way, runs: &[(u64, u64)]| {
            for &(start, blocks) in runs {
                let place = Place { segment: Segment::NONE, at: 0 };
                way.add((place, Extent::new(start, blocks)), Mark::MISSING.and(Mark::ASKED));
            }
            way.sort(8);
            let mut plan = Plan::new();
            way.wish(&mut plan);
            plan.wishes().iter().map(|wish| (wish.extent.start.0, wish.extent.blocks)).collect::<Vec<_>>()
        };
        assert_eq!(
            wish(&mut way, &[(500, 4), (100, 2), (508, 1), (300, 203)]),
            [(100, 2), (300, 209)],
            "overlapping"
        );
        assert_eq!(wish(&mut way, &[(700, 1), (50, 1), (600, 2)]), [(600, 2), (700, 1), (50, 1)]);
        assert_eq!(
            wish(&mut way, &[(800, 200), (1_004, 200)]),
            [(800, 200), (1_004, 200)],
            "no longer than MERGED_MAX"
        );
    }
}
