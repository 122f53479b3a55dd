//! Trials: a candidate decides for a moment, so that what its readers really wait is known.
//!
//! Shadows know nothing of schedulers that wait for a reader's next request, of what a drive reads by itself, or of what a link
//! carries, and may be wrong about one scheme and right about another. So a candidate is tried whose readers wait less than
//! [`OFF_PERCENT`] more by its shadow. What a trial may lose is bounded: what its shadow says that it loses, with what
//! earlier trials have really lost, is at most one in [`LOST_ONE_IN`] of all that readers have waited. A trial that loses more is
//! broken off. Trials of a candidate become more seldom.
//!
//! A *hold-out* is a trial of `none` in spite of its shadow: a shadow may be wrong by more than that, and whoever reads ahead owes the proof
//! that readers would wait longer without. Its spans are shorter, so that one whose readers do wait longer is broken off after some hundred
//! reads, and none begins while hold-outs have lost more than one in [`HELD_LOST_ONE_IN`] of all that readers have waited.
//!
//! ```text
//!   spans    ……│ live │ tried │ tried │ tried │ live or tried: the one whose readers wait less, each corrected by
//!                        └ the cache is still the one before's         what its shadow was seen to be off
//! ```

use alloc::vec::Vec;

/// Shadows are not believed to tell schemes apart that differ by less than this, in percent of what readers of the present one wait.
const OFF_PERCENT: i128 = 25;
/// Spans of a trial; what is measured begins after the first.
pub(super) const SPANS: u64 = 3;
const LOST_ONE_IN: i128 = 64;
/// What a trial may lose before it is broken off, in what all of them may.
const BROKEN_OFF: i128 = 2;
/// Most spans of a hold-out, each this share of the time that has passed; the first ones say nothing: their reads were asked before it began.
const HELD_SPANS: u64 = 12;
const HELD_SPAN_ONE_IN: u64 = 256;
const HELD_UNCOUNTED: u64 = 3;
/// Least spans of a hold-out that is won, in a quarter of which its readers may have waited longer.
const HELD_LEAST: u64 = 4;
const HELD_WORSE_ONE_IN: u64 = 4;
const HELD_LOST_ONE_IN: i128 = 128;
/// Reads until a hold-out can be broken off.
const HELD_READS: i128 = 96;
/// Spans of a trial are this share of the time that has passed.
const SPAN_ONE_IN: u64 = 64;
/// Spans before a candidate is tried again, and twice as many after each trial.
const REST: u64 = 64;
const REST_MAX: u64 = 1 << 16;

/// A trial under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// Who decided before.
    pub(super) before: usize,
    /// Number of its first span.
    pub(super) since: u64,
    /// What it has lost so far, ns.
    pub(super) lost: i128,
    /// It is `none`, in spite of its shadow.
    held: bool,
    /// Spans that count, and those in which its readers waited longer.
    counted: u64,
    worse: u64,
}

impl Trial {
    /// What its spans last, as a share of the time that has passed, and, of a hold-out, that they are no longer in a long run.
    pub(super) const fn span_one_in(&self) -> (u64, bool) {
        if self.held { (HELD_SPAN_ONE_IN, false) } else { (SPAN_ONE_IN, true) }
    }
    /// Whether its spans leave no doubt of its sums.
    pub(super) const fn is_clear(&self) -> bool {
        !self.held || self.counted >= HELD_LEAST && self.worse * HELD_WORSE_ONE_IN <= self.counted
    }
}

/// What is seen in a span of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Its number.
    pub(super) span: u64,
    /// What real readers waited, ns, and would have waited under who decided before.
    pub(super) real: i128,
    pub(super) expected: i128,
    /// What real ones would have waited without what the scheme before had read for them.
    pub(super) alone: i128,
}

/// When a candidate may be tried again.
#[derive(Clone, Copy, Debug)]
struct Tried {
    due: u64,
    rest: u64,
}

/// What was tried, and what that has cost.
#[derive(Debug)]
pub(super) struct Trials {
    now: Option<Trial>,
    tried: Vec<Tried>,
    /// What all have lost, and hold-outs among them, ns.
    lost: i128,
    held_lost: i128,
    count: u64,
}

/// What a choice of a trial is made from: over the spans that are compared, what readers of each shadow wait, corrected; nothing
/// of those who do what the present one does.
pub(super) struct Outlook<'a> {
    pub(super) waits: &'a [Option<i128>],
    pub(super) live: usize,
    pub(super) none: usize,
    /// Spans so far, and how many of them are compared.
    pub(super) span: u64,
    pub(super) compared: u64,
    /// Reads in those.
    pub(super) reads: u64,
    /// All that real readers have waited.
    pub(super) waited: i128,
}

impl Trials {
    pub(super) fn new(candidates: usize) -> Self {
        let tried = [Tried { due: 0, rest: REST }].repeat(candidates);
        Self { now: None, tried, lost: 0, held_lost: 0, count: 0 }
    }
    pub(super) const fn under_way(&self) -> Option<Trial> {
        self.now
    }
    pub(super) const fn count(&self) -> u64 {
        self.count
    }
    /// What they have lost, ns.
    pub(super) const fn lost(&self) -> i128 {
        self.lost
    }

    /// The candidate that should be tried now, if one should.
    pub(super) fn choose(&self, look: &Outlook<'_>) -> Option<usize> {
        let live = look.waits[look.live]?;
        let may_lose = look.waited / LOST_ONE_IN - (self.lost - self.held_lost).max(0);
        let worth_it = |&at: &usize| {
            let Some(wait) = look.waits[at] else { return false };
            let loses = (wait - live).max(0) * i128::from(SPANS) / i128::from(look.compared.max(1));
            at != look.live
                && self.tried[at].due <= look.span
                && wait * 100 < live * (100 + OFF_PERCENT)
                && loses <= may_lose
        };
        // Above all nobody should wait longer than without any scheme.
        (0..look.waits.len()).filter(worth_it).min_by_key(|&at| (at != look.none, look.waits[at], at))
    }

    /// Whether `none` should be tried in spite of its shadow.
    pub(super) fn is_held_out(&self, look: &Outlook<'_>) -> bool {
        let (Some(without), Some(live)) = (look.waits[look.none], look.waits[look.live]) else {
            return false;
        };
        let may_lose = look.waited / HELD_LOST_ONE_IN;
        let loses = (without - live) * HELD_READS / i128::from(look.reads.max(1));
        look.live != look.none
            && self.tried[look.none].due <= look.span
            && loses <= may_lose
            && self.held_lost <= may_lose
    }

    pub(super) fn begin(&mut self, candidate: usize, before: usize, span: u64, held: bool) {
        let Tried { due, rest } = &mut self.tried[candidate];
        *due = span + *rest;
        *rest = (2 * *rest).min(REST_MAX);
        self.count += 1;
        self.now = Some(Trial { before, since: span, lost: 0, held, counted: 0, worse: 0 });
    }

    /// A span of the trial is over. Whether what was measured counts.
    pub(super) const fn span(&mut self, seen: &Seen) -> bool {
        let Some(trial) = &mut self.now else { return true };
        let lost = seen.real - seen.expected;
        trial.lost += lost;
        self.lost += lost;
        if !trial.held {
            return seen.span > trial.since;
        }
        self.held_lost += lost;
        if seen.span < trial.since + HELD_UNCOUNTED {
            return false;
        }
        trial.counted += 1;
        trial.worse += if seen.alone >= seen.expected { 1 } else { 0 };
        true
    }

    /// Whether the trial is over: it has lasted, or lost too much.
    pub(super) fn is_over(&self, span: u64, waited: i128) -> bool {
        self.now.is_some_and(|trial| {
            let (spans, may_lose) = if trial.held {
                (HELD_SPANS, waited / HELD_LOST_ONE_IN)
            } else {
                (SPANS, BROKEN_OFF * waited / LOST_ONE_IN)
            };
            span >= trial.since + spans || trial.lost > may_lose
        })
    }
    pub(super) const fn end(&mut self) {
        self.now = None;
    }
}
