//! Which candidate's readers wait least: sums over spans of some batches of accesses, compared pair by pair.
//!
//! All shadows are given the same accesses, so the difference of two in a span owes nothing to which accesses these were. A
//! candidate is believed to be better than the present one when the mean of the differences is larger than chance and the
//! gain larger than a change is worth: over the last [`KEPT`] spans, or, where the gain is large, over the last [`LATELY`] spans.
//!
//! A shadow may be wrong. While a scheme decides, what real readers wait is compared with what those of its shadow do, and
//! the ratio corrects what the shadow says later. Changes are damped: after each comes a pause, twice as long where a scheme is
//! left soon after it was chosen.

use crate::policy::decisions::{Because, because};
use crate::units::Nanos;
use alloc::vec::Vec;

/// Spans that are compared.
const KEPT: usize = 64;
/// Spans over which a large gain is believed.
const LATELY: usize = 12;
/// A span is of whole batches and lasts at least so long, twenty seconds over [`KEPT`]; in the beginning a share of the time that has
/// passed, so that the first choice does not wait for that.
const SPAN: Nanos = Nanos::from_millis(320);
const SPAN_ONE_IN: u64 = 16;
/// In a long run a span is this share of it, at most so long: what has held for long is believed for long.
const SPAN_OF_LONG_ONE_IN: u64 = 128;
const SPAN_MAX: Nanos = Nanos::from_secs(1);
/// Least spans before anything is believed.
const LEAST: usize = 4;
/// Least gain, in percent of what readers wait now; and over the last few spans.
const GAIN_PERCENT: i128 = 3;
const GAIN_LATELY_PERCENT: i128 = 25;
/// And so much more for each doubling by which the shadow of the present scheme is off, in percent.
const DOUBT_PERCENT: i128 = 10;
/// The same where the present scheme says that it loses before it gains.
const INVESTS_PERCENT: i128 = 40;
/// How many standard errors the mean difference must be from none, squared.
const CERTAIN: i128 = 4;
const CERTAIN_LATELY: i128 = 9;
/// Spans after a change in which nothing is changed again, and at most.
const PAUSE: u64 = 4;
const PAUSE_MAX: u64 = 64;
/// Spans without a change after which the next pause is half as long.
const CALM: u64 = 64;
/// Spans after a change that say nothing of how well a shadow foretells: the cache is still the one before's.
const SETTLING: u64 = 4;
/// Spans after which a ratio is believed, and after which its sums are halved.
const RATIO_LEAST: u64 = 4;
const RATIO_MAX: u64 = 128;
/// A ratio in fixed point, and its bounds.
const ONE: i128 = 1_024;
const RATIO_BOUNDS: (i128, i128) = (ONE / 4, ONE * 4);

/// What real readers waited under a candidate, and those of its shadow.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    real: u64,
    shadow: u64,
    spans: u64,
}

impl Ratio {
    fn add(&mut self, real: u64, shadow: u64) {
        if self.spans >= RATIO_MAX {
            *self = Self { real: self.real / 2, shadow: self.shadow / 2, spans: self.spans / 2 };
        }
        self.real += real;
        self.shadow += shadow;
        self.spans += 1;
    }
    fn value(&self) -> Option<i128> {
        let known = self.spans >= RATIO_LEAST && self.shadow > 0;
        known.then(|| {
            (i128::from(self.real) * ONE / i128::from(self.shadow)).clamp(RATIO_BOUNDS.0, RATIO_BOUNDS.1)
        })
    }
}

/// Another scheme is better.
pub(super) struct Verdict {
    /// Which.
    pub(super) candidate: usize,
    /// By the last few spans only.
    pub(super) lately: bool,
    /// The numbers.
    pub(super) because: Because,
}

/// Sums by span and candidate.
pub(super) struct Judge {
    candidates: usize,
    /// The last spans, [`KEPT`] rows of one wait a candidate, ns.
    waits: Vec<u64>,
    /// Reads of each of them.
    reads: [u64; KEPT],
    /// Spans so far.
    spans: u64,
    live: usize,
    real: u64,
    ratios: Vec<Ratio>,
    /// When the first batch ended, and when the span under way began.
    start: Nanos,
    began: Nanos,
    /// All that real readers waited, all that those of each shadow did, and those of the shadows of what was live, ns.
    real_sum: u64,
    sums: Vec<u64>,
    live_sum: u64,
    read_sum: u64,
    /// Number of the span of the last change, and the pause after it.
    changed: u64,
    pause: u64,
    changes: u64,
    /// A span has ended since the last verdict.
    fresh: bool,
}

impl Judge {
    pub(super) fn new(candidates: usize, now: Nanos) -> Self {
        Self {
            candidates,
            waits: [0].repeat(KEPT * candidates),
            reads: [0; KEPT],
            spans: 0,
            live: 0,
            real: 0,
            ratios: [Ratio::default()].repeat(candidates),
            start: now,
            began: now,
            real_sum: 0,
            sums: [0].repeat(candidates),
            live_sum: 0,
            read_sum: 0,
            changed: 0,
            pause: PAUSE,
            changes: 0,
            fresh: false,
        }
    }

    const fn row(&self, span: u64) -> usize {
        span as usize % KEPT * self.candidates
    }

    /// A batch is over: what real readers waited under the candidate that decided.
    pub(super) const fn begin(&mut self, real: u64, live: usize) {
        self.real += real;
        self.real_sum += real;
        self.live = live;
    }
    /// What the readers of one shadow waited in it.
    pub(super) fn waited(&mut self, candidate: usize, ns: u64) {
        let row = self.row(self.spans);
        self.waits[row + candidate] += ns;
        self.sums[candidate] += ns;
        if candidate == self.live {
            self.live_sum += ns;
        }
    }
    /// That was all of the batch, and so many of its accesses were reads.
    pub(super) fn end(&mut self, now: Nanos, reads: u64) {
        self.read_sum += reads;
        self.reads[self.spans as usize % KEPT] += reads;
        let passed = now.since(self.start).0;
        let long = SPAN_MAX.0.min(passed / SPAN_OF_LONG_ONE_IN);
        let least = SPAN.0.min(passed / SPAN_ONE_IN).max(long);
        if now.since(self.began).0 < least {
            return;
        }
        let shadow = self.waits[self.row(self.spans) + self.live];
        if self.spans >= self.changed + SETTLING {
            self.ratios[self.live].add(self.real, shadow);
        }
        self.real = 0;
        self.began = now;
        self.spans += 1;
        self.fresh = true;
        let row = self.row(self.spans);
        self.waits[row..row + self.candidates].fill(0);
        self.reads[self.spans as usize % KEPT] = 0;
    }

    /// By how much what a shadow says is corrected.
    fn ratio(&self, candidate: usize) -> i128 {
        let own = self.ratios[candidate].value();
        own.or_else(|| self.ratios[self.live].value()).unwrap_or(ONE)
    }

    /// How much more a shadow must promise because shadows are off, in percent.
    fn doubt(&self) -> i128 {
        let ratio = self.ratios[self.live].value().unwrap_or(ONE);
        let off = ratio.max(ONE * ONE / ratio);
        // Between two powers of two on a straight line.
        let doublings = i128::from(off.ilog2() - ONE.ilog2());
        let whole = ONE << doublings;
        doublings * DOUBT_PERCENT + (off - whole) * DOUBT_PERCENT / whole
    }

    /// What readers wait less under a candidate than under the live one over the last `spans`, ns; none if that is by
    /// chance, or not enough.
    fn gain(&self, candidate: usize, spans: usize, percent: i128, certain: i128) -> Option<i128> {
        let (ours, its) = (self.ratio(self.live), self.ratio(candidate));
        let (mut sum, mut squares, mut now) = (0_i128, 0_i128, 0_i128);
        for span in self.spans - spans as u64..self.spans {
            let row = self.row(span);
            let live = i128::from(self.waits[row + self.live]) * ours / ONE;
            let difference = live - i128::from(self.waits[row + candidate]) * its / ONE;
            sum += difference;
            squares += difference * difference;
            now += live;
        }
        let n = spans as i128;
        // Of n differences with mean m: m² n² against certain · n · variance.
        let variance_n = (squares - sum * sum / n).max(0);
        (sum * 100 > now * percent && sum * sum > certain * variance_n).then_some(sum)
    }

    /// Whether a span has ended since the last verdict.
    pub(super) const fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether another candidate should decide. Asked after each batch.
    pub(super) fn verdict(&mut self, live: usize, invests: bool) -> Option<Verdict> {
        if !core::mem::take(&mut self.fresh) {
            return None;
        }
        self.live = live;
        let kept = (self.spans as usize).min(KEPT - 1);
        if kept < LEAST || self.spans < self.changed + self.pause {
            return None;
        }
        let others = (0..self.candidates).filter(|&candidate| candidate != live);
        let best = |spans: usize, percent, certain| {
            let gains = others.clone().filter_map(|at| Some((self.gain(at, spans, percent, certain)?, at)));
            gains.max_by_key(|&(gain, at)| (gain, core::cmp::Reverse(at)))
        };
        let patience = if invests { INVESTS_PERCENT } else { 0 };
        let doubt = self.doubt();
        let steady = best(kept, (GAIN_PERCENT + doubt).max(patience), CERTAIN);
        let lately = || best(kept.min(LATELY), (GAIN_LATELY_PERCENT + doubt).max(patience), CERTAIN_LATELY);
        let (candidate, is_lately) = match steady {
            Some((_, at)) => (at, false),
            None => (lately()?.1, true),
        };
        let spans = if is_lately { kept.min(LATELY) } else { kept };
        let verdict = Verdict { candidate, lately: is_lately, because: self.numbers(candidate, spans) };
        // Twice as long after each change, and half as long for each while without one.
        let quiet = (self.spans - self.changed) / CALM;
        self.pause = ((2 * self.pause) >> quiet.min(8)).clamp(PAUSE, PAUSE_MAX);
        (self.changed, self.changes) = (self.spans, self.changes + 1);
        Some(verdict)
    }

    /// What is said of a change.
    fn numbers(&self, candidate: usize, spans: usize) -> Because {
        let kept = self.spans - spans as u64..self.spans;
        let reads: u64 = kept.clone().map(|span| self.reads[span as usize % KEPT]).sum();
        let a_read = |candidate: usize| {
            let sum: u64 = kept.clone().map(|span| self.waits[self.row(span) + candidate]).sum();
            (i128::from(sum) * self.ratio(candidate) / ONE / i128::from(reads.max(1))) as u64
        };
        because([
            ("wait_a_read_ns", a_read(candidate)),
            ("wait_a_read_before_ns", a_read(self.live)),
            ("reads", reads),
        ])
    }

    pub(super) fn gauges(&self, none: usize, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("auto_changes", self.changes as f64),
            ("auto_reads", self.read_sum as f64),
            ("auto_wait_ns", self.real_sum as f64),
            ("auto_wait_foretold_ns", self.live_sum as f64),
            ("auto_wait_without_ns", self.sums[none] as f64),
        ]);
    }
}
