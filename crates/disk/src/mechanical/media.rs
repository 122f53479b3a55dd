//! The mechanism: where the head is, and what passes under it when.
//!
//! A media operation is planned as *runs*: stretches of logical sectors that pass the head without a gap. Between
//! two runs lie a seek or head switch and a rotational wait, both computed from the true angle at that instant. A
//! read stream keeps its last runs, so that at any later time one can ask how far it has read, when a given sector
//! arrives, and where the head stands if the stream is stopped; read-ahead is planned only as far as somebody asks.

use std::collections::VecDeque;

use crate::layout::{Layout, Place};
use crate::seek::SeekTable;

/// Angles are whole nanoseconds, so a run that follows on without a gap may seem to start a few nanoseconds too
/// early; a wait that is short of a full turn by no more than this is no wait.
const ANGLE_SLACK_NS: u64 = 200;
/// Runs that a stream remembers behind its planned end. Fewer would forget what is on the link.
const RUNS_KEPT_MAX: usize = 64;

/// Cylinder and surface under the arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) cylinder: u32,
    pub(super) surface: u32,
}

/// The moving parts, without state.
#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub(super) layout: Layout,
    pub(super) seeks: SeekTable,
    pub(super) period: u64,
    pub(super) head_switch: u64,
    pub(super) write_settle: u64,
}

/// Consecutive sectors that pass the head without a gap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) lbn: u64,
    pub(super) sectors: u64,
    /// When the first sector begins to pass.
    pub(super) start: u64,
    /// When the arm had arrived.
    pub(super) settled: u64,
    spt: u32,
    head: Head,
    /// The head landed in the middle: it is done when this many sectors have passed (zero-latency access).
    pub(super) done_after: u64,
}

impl Mechanism {
    /// Time for the arm to go from `from` to `to`, with settling for a write; zero if it is there.
    pub(super) fn seek_ns(&self, from: Head, to: Head, write: bool) -> u64 {
        if from == to {
            return 0;
        }
        let switch = if from.surface == to.surface { 0 } else { self.head_switch };
        let time = self.seeks.get(from.cylinder, to.cylinder).max(switch);
        if write && time > 0 { time + self.write_settle } else { time }
    }

    /// Rotational wait at `now` for the angle `angle_ns`.
    pub(super) fn wait_ns(&self, now: u64, angle_ns: u32) -> u64 {
        let phase = now % self.period;
        let angle = u64::from(angle_ns);
        let wait = if angle >= phase { angle - phase } else { angle + self.period - phase };
        if wait + ANGLE_SLACK_NS >= self.period { 0 } else { wait }
    }

    /// Plans the run that starts with `lbn` for an arm that leaves `from` at `at`.
    pub(super) fn run(&self, at: u64, from: Head, lbn: u64, write: bool, min_seek: u64) -> (Run, Place) {
        let place = self.layout.place(lbn);
        let head = Head { cylinder: place.cylinder, surface: place.surface };
        let settled = at + self.seek_ns(from, head, write).max(min_seek);
        let start = settled + self.wait_ns(settled, place.angle_ns);
        let sectors = u64::from(place.run);
        (Run { lbn, sectors, start, settled, spt: place.sectors_per_track, head, done_after: sectors }, place)
    }
}

impl Run {
    pub(super) const fn end_lbn(&self) -> u64 {
        self.lbn + self.sectors
    }

    /// Keeps the first `sectors` sectors.
    pub(super) fn cut(&mut self, sectors: u64) {
        self.sectors = self.sectors.min(sectors);
        self.done_after = self.done_after.min(self.sectors);
    }

    /// When the arm is free to go on.
    pub(super) fn end(&self, layout: &Layout) -> u64 {
        self.start + layout.pass_ns(self.done_after, self.spt)
    }

    /// When the last byte of `lbn` has passed.
    pub(super) fn arrival(&self, lbn: u64, layout: &Layout) -> u64 {
        self.start + layout.pass_ns((lbn - self.lbn + 1).min(self.done_after), self.spt)
    }

    /// Turns by which the run must be put off so that a link which delivers sector `k` at `first + k*step` is never
    /// behind.
    pub(super) fn turns_behind(&self, first: u64, step: u64, period: u64, layout: &Layout) -> u64 {
        let last = self.sectors - 1;
        let late = first.saturating_sub(self.start);
        let late_last = (first + last * step).saturating_sub(self.start + layout.pass_ns(last, self.spt));
        late.max(late_last).div_ceil(period)
    }

    /// Sectors that have passed by `ns`: the most for which [`Layout::pass_ns`], which rounds down, is not later. A sector that
    /// has just arrived has passed; counted as still to come, it would cost the next command a turn.
    pub(super) const fn passed(ns: u64, spt: u32, period: u64) -> u64 {
        ((ns + 1) * spt as u64 - 1) / period
    }
}

/// A read that goes on until `limit`, or until it is stopped.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Cache segment that it fills.
    pub(super) segment: usize,
    /// Reads up to here, exclusive.
    pub(super) limit: u64,
    runs: VecDeque<Run>,
    next: u64,
    free: u64,
    head: Head,
}

/// Where a stopped stream left things.
pub(super) struct Stopped {
    /// Read up to here.
    pub(super) end: u64,
    /// Where the arm is.
    pub(super) head: Head,
    /// When it can be sent elsewhere.
    pub(super) free: u64,
}

impl Stream {
    /// A stream that starts reading at `lbn` with an arm that leaves `head` at `at`.
    pub(super) fn new(segment: usize, head: Head, at: u64, lbn: u64, limit: u64) -> Self {
        Self { segment, limit, runs: VecDeque::with_capacity(4), next: lbn, free: at, head }
    }

    fn push(&mut self, run: Run, m: &Mechanism) {
        self.next = run.end_lbn();
        self.free = run.end(&m.layout);
        self.head = run.head;
        if self.runs.len() == RUNS_KEPT_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }

    /// Adds the first run, which the caller has shaped.
    pub(super) fn begin(&mut self, run: Run, m: &Mechanism) {
        self.push(run, m);
    }

    fn plan_one(&mut self, m: &Mechanism) {
        let (mut run, _) = m.run(self.free, self.head, self.next, false, 0);
        run.cut(self.limit - self.next);
        self.push(run, m);
    }

    /// When the last byte of `lbn`, which lies below the limit, is read.
    pub(super) fn arrival(&mut self, lbn: u64, m: &Mechanism) -> u64 {
        while self.next <= lbn && self.next < self.limit {
            self.plan_one(m);
        }
        let run = self.runs.iter().rev().find(|run| run.lbn <= lbn);
        run.map_or(0, |run| run.arrival(lbn, &m.layout))
    }

    /// Latest end of a transfer that starts at `bus` with `lba`, takes `step` per sector and never overtakes the head.
    pub(super) fn transfer_end(&self, bus: u64, lba: u64, end: u64, step: u64, m: &Mechanism) -> u64 {
        let mut finish = bus + (end - lba) * step;
        for run in self.runs.iter().rev() {
            let (first, last) = (run.lbn.max(lba), run.end_lbn().min(end));
            if first < last {
                let middle = (run.lbn + run.done_after).min(last).max(first + 1) - 1;
                for lbn in [first, middle, last - 1] {
                    finish = finish.max(run.arrival(lbn, &m.layout) + (end - lbn) * step);
                }
            }
            if run.lbn <= lba {
                break;
            }
        }
        finish
    }

    /// Everything up to the limit has been read by `now`.
    pub(super) fn over(&mut self, now: u64, m: &Mechanism) -> bool {
        self.progress(now, m);
        self.next >= self.limit && self.free <= now
    }

    /// Read up to where, exclusive, by `now`.
    pub(super) fn progress(&mut self, now: u64, m: &Mechanism) -> u64 {
        while self.free <= now && self.next < self.limit {
            self.plan_one(m);
        }
        for run in self.runs.iter().rev() {
            if run.start <= now {
                if run.done_after < run.sectors && now < run.end(&m.layout) {
                    return run.lbn
                        + Run::passed(now - run.start, run.spt, m.period)
                            .min(run.done_after.saturating_sub(1));
                }
                return run.lbn + Run::passed(now - run.start, run.spt, m.period).min(run.sectors);
            }
        }
        self.runs.front().map_or(self.next, |run| run.lbn)
    }

    /// Stops it at `now`. A seek under way is finished; so is a wait or a sector unless `at_once`.
    pub(super) fn stop(&mut self, now: u64, at_once: bool, m: &Mechanism) -> Stopped {
        let end = self.progress(now, m);
        let mut head = self.head;
        let mut free = now;
        for run in self.runs.iter().rev() {
            head = run.head;
            if run.start <= now {
                let into = now - run.start;
                if !at_once && now < run.end(&m.layout) {
                    let begun = into.checked_sub(1).map_or(0, |ns| Run::passed(ns, run.spt, m.period) + 1);
                    free = run.start + m.layout.pass_ns(begun, run.spt);
                }
                break;
            }
            if now >= run.settled {
                free = if at_once { now } else { run.start };
                break;
            }
            let begun = self
                .runs
                .iter()
                .rev()
                .find(|other| other.lbn < run.lbn)
                .map_or(0, |other| other.end(&m.layout));
            if begun <= now {
                free = run.settled;
                break;
            }
        }
        Stopped { end, head, free: free.max(now) }
    }
}
