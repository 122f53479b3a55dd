//! Which candidate's readers wait least: sums over spans of some batches of accesses, compared pair by pair.
//!
//! All shadows are given the same accesses, so the difference of two in a span owes nothing to which accesses these were. A
//! candidate is believed to be better than the present one when the mean of the differences is larger than chance and the
//! gain larger than a change is worth: over the last [`KEPT`] spans, or, where the gain is large, over the last [`LATELY`] spans.
//!
//! A shadow may be wrong. While a scheme decides, what real readers wait is compared with what those of its shadow do, and
//! the ratio corrects what the shadow says later; what one promised and did not keep is held against it (`claim.rs`). Changes are damped: after each comes a pause, twice as long where a scheme is
//! left soon after it was chosen.

use super::claim::{ARead, Claims, Found, ONE, Probation};
use super::trial::{Outlook, Seen, Trial, Trials};
use crate::policy::decisions::{Because, because};
use crate::units::Nanos;
use alloc::vec::Vec;
use core::ops::Range;

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
/// The time in which candidates that begin anew are not turned to.
const BEGINNING: Nanos = Nanos::from_secs(1);
/// And least time, spans and reads before anything is tried.
const TRIAL_AFTER: Nanos = Nanos::from_secs(1);
const TRIAL_LEAST: usize = 16;
const TRIAL_LEAST_READS: u64 = 256;
/// A trial is won by this gain, in percent.
const WON_PERCENT: i128 = 10;
/// And above a layer of ours only if readers waited as little in at most one span in so many before it.
const RARE_ONE_IN: u64 = 32;
/// Shadows whose readers wait alike by less than this share do the same.
const SAME_ONE_IN: i128 = 256;
/// Least gain, in percent of what readers wait now; and over the last few spans.
const GAIN_PERCENT: i128 = 3;
const GAIN_LATELY_PERCENT: i128 = 25;
/// Disks that work so much longer than under `none`, in percent, do it for what was read ahead for nothing.
const DEAR_PERCENT: u64 = 3;
/// Shadows whose readers wait alike by less than this, in percent, are corrected alike: what was off by more was off at another time, of other reads.
const ALIKE_PERCENT: i128 = 5;
/// And so much more for each doubling by which the shadow of the present scheme is off, in percent.
const DOUBT_PERCENT: i128 = 10;
/// How many standard errors the mean difference must be from none, squared.
const CERTAIN: i128 = 4;
const CERTAIN_LATELY: i128 = 9;
/// Of few spans it must be as much more as if there were so many more errors; there are several candidates, and many looks.
const CERTAIN_OF_FEW: i128 = 12;
/// A scheme that loses before it gains is left for one whose readers wait so many times less than its own and those of `none`.
const FAR_BETTER: i128 = 3;
/// Spans after a change in which nothing is changed again, and at most.
const PAUSE: u64 = 4;
const PAUSE_MAX: u64 = 64;
/// Spans without a change after which the next pause is half as long.
const CALM: u64 = 64;
/// Spans after a change that say nothing of how well a shadow foretells: the cache is still the one before's.
const SETTLING: u64 = 4;
/// Spans after which a ratio is believed, and after which its sums are halved.
const RATIO_LEAST: u64 = 2;
const RATIO_MAX: u64 = 128;
/// A ratio of so many spans is half believed.
const RATIO_HALF: i128 = 4;
/// Bounds of a ratio.
const RATIO_BOUNDS: (i128, i128) = (ONE / 16, ONE * 16);

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

/// Why another scheme decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its readers wait less.
    Steady,
    /// By the last few spans only.
    Lately,
    /// Hardly anybody would wait longer without any scheme.
    Unearned,
    /// To see what its readers really wait.
    Trial,
    /// That of `none`, whose readers wait longer by its shadow.
    HeldOut,
    /// That was seen, and it was more.
    Back,
    /// It was less, as it had been by chance before.
    Luck,
    /// The one before, whose readers really waited less than those of the one that seemed better.
    Broken,
}

/// Another scheme is better, or to be tried.
pub(super) struct Verdict {
    /// Which.
    pub(super) candidate: usize,
    pub(super) why: Why,
    /// The numbers.
    pub(super) because: Because,
}

/// Sums by span and candidate.
pub(super) struct Judge {
    candidates: usize,
    /// The last spans, [`KEPT`] rows of one wait a candidate, ns.
    waits: Vec<u64>,
    /// The same of how long the disks of the shadows worked, ns.
    works: Vec<u64>,
    /// Reads of each of them, and what real readers waited for these, ns.
    reads: [u64; KEPT],
    reals: [u64; KEPT],
    /// Spans so far.
    spans: u64,
    live: usize,
    none: usize,
    real: u64,
    /// What readers of the live shadow waited in the span under way for what real ones found: the scheme before had read it.
    inherited: u64,
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
    trials: Trials,
    claims: Claims,
    /// Below lie devices, and not another layer of ours.
    over_devices: bool,
    /// Of each candidate, that it is not turned to in the beginning.
    late: Vec<bool>,
}

impl Judge {
    pub(super) fn new(candidates: usize, over_devices: bool, now: Nanos) -> Self {
        Self {
            candidates,
            waits: [0].repeat(KEPT * candidates),
            works: [0].repeat(KEPT * candidates),
            reads: [0; KEPT],
            reals: [0; KEPT],
            spans: 0,
            live: 0,
            none: 0,
            real: 0,
            inherited: 0,
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
            trials: Trials::new(candidates),
            claims: Claims::new(candidates),
            over_devices,
            late: [false].repeat(candidates),
        }
    }

    /// These candidates are not turned to in the first second.
    pub(super) fn with_late(self, late: Vec<bool>) -> Self {
        Self { late, ..self }
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
    /// What the readers of one shadow waited in it, and how long its disks worked.
    pub(super) fn waited(&mut self, candidate: usize, ns: u64, worked: u64) {
        let row = self.row(self.spans);
        self.waits[row + candidate] += ns;
        self.works[row + candidate] += worked;
        self.sums[candidate] += ns;
        if candidate == self.live {
            self.live_sum += ns;
        }
    }
    pub(super) const fn inherited(&mut self, ns: u64) {
        self.inherited += ns;
    }
    /// That was all of the batch, and so many of its accesses were reads.
    pub(super) fn end(&mut self, now: Nanos, reads: u64) {
        self.read_sum += reads;
        self.reads[self.spans as usize % KEPT] += reads;
        let passed = now.since(self.start).0;
        if now.since(self.began).0 < self.least(passed) {
            return;
        }
        self.compare();
        self.reals[self.spans as usize % KEPT] = self.real;
        self.real = 0;
        self.began = now;
        self.spans += 1;
        self.fresh = true;
        let row = self.row(self.spans);
        self.waits[row..row + self.candidates].fill(0);
        self.works[row..row + self.candidates].fill(0);
        self.reads[self.spans as usize % KEPT] = 0;
    }

    /// What a span lasts at least, when so much time has passed.
    fn least(&self, passed: u64) -> u64 {
        let under_way = self.trials.under_way();
        let (one_in, grows) = under_way.map_or((SPAN_ONE_IN, true), |trial| trial.span_one_in());
        let long = if grows { SPAN_MAX.0.min(passed / SPAN_OF_LONG_ONE_IN) } else { 0 };
        SPAN.0.min(passed / one_in).max(long)
    }

    /// The span that ends now: what real readers waited in it beside what those of shadows did.
    fn compare(&mut self) {
        let row = self.row(self.spans);
        let inherited = core::mem::take(&mut self.inherited);
        let mut shadow = self.waits[row + self.live];
        let counts = match self.trials.under_way() {
            Some(trial) => {
                let whole = i128::from(shadow);
                shadow = shadow.saturating_sub(inherited);
                let real = i128::from(self.real);
                let expected = i128::from(self.waits[row + trial.before]) * self.ratio(trial.before) / ONE;
                // Of what waited for nothing by itself, nothing is known.
                let alone = if shadow == 0 { expected } else { real * whole / i128::from(shadow) };
                self.trials.span(&Seen { span: self.spans, real, expected, alone })
            }
            // The first scheme began with an empty cache, like its shadow.
            None => self.changes == 0 || self.spans >= self.changed + SETTLING,
        };
        if counts {
            self.ratios[self.live].add(self.real, shadow);
        }
    }

    /// How much what a shadow says is corrected: by its own ratio, and as long as little is known of that, by the harmonic mean
    /// of those that are known. That of the present scheme alone may be its own fault.
    fn ratio(&self, candidate: usize) -> i128 {
        let known = self.ratios.iter().filter_map(Ratio::value);
        let (sum, count) = known.fold((0, 0), |(sum, count), value| (sum + ONE * ONE / value, count + 1));
        let general = if count > 0 { ONE * ONE * count / sum } else { ONE };
        let n = i128::from(self.ratios[candidate].spans);
        let own = self.ratios[candidate].value();
        own.map_or(general, |own| (own * n + general * RATIO_HALF) / (n + RATIO_HALF))
    }

    /// How much more the shadow of a candidate that has never decided must promise because shadows are off, in percent.
    fn doubt(&self, candidate: usize) -> i128 {
        if self.ratios[candidate].value().is_some() {
            return 0;
        }
        let ratio = self.ratios[self.live].value().unwrap_or(ONE);
        let off = ratio.max(ONE * ONE / ratio);
        // Between two powers of two on a straight line.
        let doublings = i128::from(off.ilog2() - ONE.ilog2());
        let whole = ONE << doublings;
        doublings * DOUBT_PERCENT + (off - whole) * DOUBT_PERCENT / whole
    }

    /// Whether readers of the shadow of a candidate wait as long as those of the live one, give or take so many percent.
    fn is_alike(&self, candidate: usize, spans: usize, percent: i128) -> bool {
        let (live, other) = (self.foretold(self.live, spans), self.foretold(candidate, spans));
        (live - other).abs() * 100 <= live * percent
    }

    /// What readers wait less under a candidate than under the live one over the last `spans`, ns; none if that is by
    /// chance, or not enough.
    fn gain(&self, candidate: usize, spans: usize, percent: i128, certain: i128) -> Option<i128> {
        let (sum, now) = self.less(candidate, spans, 0, certain)?;
        (sum * 100 > now * percent).then_some(sum)
    }

    /// Whether the live one costs more than `none`: the disks of its shadow work longer.
    fn is_dear(&self, spans: usize) -> bool {
        let worked = |candidate: usize| -> u64 {
            (self.spans - spans as u64..self.spans).map(|span| self.works[self.row(span) + candidate]).sum()
        };
        worked(self.live) * 100 > worked(self.none) * (100 + DEAR_PERCENT)
    }

    /// Whether the live one has not earned what it reads: readers of the shadow of `none` surely wait less than [`GAIN_PERCENT`] longer,
    /// and its disks work less.
    fn is_unearned(&self, spans: usize) -> bool {
        let none = self.none;
        none != self.live
            && self.is_dear(spans)
            && spans >= TRIAL_LEAST
            && self.is_alike(none, spans, GAIN_PERCENT)
            && self.less(none, spans, GAIN_PERCENT, CERTAIN).is_some()
    }

    /// What readers wait less under a candidate than under the live one, if these waited `slack` percent longer, beside what they wait
    /// then; none if that is by chance.
    fn less(&self, candidate: usize, spans: usize, slack: i128, certain: i128) -> Option<(i128, i128)> {
        let (ours, its) = (self.ratio(self.live), self.ratio_beside(candidate, spans));
        let (mut sum, mut now) = (0_i128, 0_i128);
        // Of each span the difference as a share, so that one long or bad span says no more than another.
        let (mut shares, mut squares) = (0_i128, 0_i128);
        for span in self.spans - spans as u64..self.spans {
            let row = self.row(span);
            let live = i128::from(self.waits[row + self.live]) * ours / ONE * (100 + slack) / 100;
            let other = i128::from(self.waits[row + candidate]) * its / ONE;
            let share = (live - other) * ONE / live.max(other).max(1);
            (sum, now) = (sum + live - other, now + live);
            (shares, squares) = (shares + share, squares + share * share);
        }
        let n = spans as i128;
        // Of n shares with mean m: m² n² against certain · n · variance.
        let variance_n = (squares - shares * shares / n).max(0);
        let sure = shares > 0 && shares * shares * n > certain * (n + CERTAIN_OF_FEW) * variance_n;
        sure.then_some((sum, now))
    }

    /// By how much what the shadow of a candidate says is corrected where it is held against that of the live one: those that are alike are off alike.
    fn ratio_beside(&self, candidate: usize, spans: usize) -> i128 {
        let alike = self.is_alike(candidate, spans, ALIKE_PERCENT);
        let ratio = self.ratio(if alike { self.live } else { candidate });
        ratio * self.factor(candidate) / ONE
    }

    /// Whether a span has ended since the last verdict.
    pub(super) const fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether another candidate should decide. Asked after each batch.
    pub(super) fn verdict(&mut self, live: usize, none: usize, invests: bool) -> Option<Verdict> {
        if !core::mem::take(&mut self.fresh) {
            return None;
        }
        (self.live, self.none) = (live, none);
        let kept = (self.spans as usize).min(KEPT - 1);
        if let Some(trial) = self.trials.under_way() {
            return self.trial_verdict(&trial, kept);
        }
        // A scheme that loses before it gains is left alone: what it may lose is its own to bound, and half of it is all loss.
        if !invests && let Some(broken) = self.broken() {
            return Some(broken);
        }
        if kept < LEAST || self.spans < self.changed + self.pause {
            return None;
        }
        if invests {
            return self.far_better(kept.min(LATELY));
        }
        let better = self.better(kept);
        let is_known = self.ratios[live].value().is_some() && self.claims.under_way().is_none();
        if better.is_none() && is_known {
            return self.trial(none, kept);
        }
        better
    }

    /// What readers of a shadow wait over the last `spans`.
    fn foretold(&self, candidate: usize, spans: usize) -> i128 {
        let kept = self.spans - spans as u64..self.spans;
        kept.map(|span| i128::from(self.waits[self.row(span) + candidate])).sum()
    }
    /// The same, corrected.
    fn corrected(&self, candidate: usize, spans: usize) -> i128 {
        self.foretold(candidate, spans) * self.ratio(candidate) / ONE * self.factor(candidate) / ONE
    }
    /// How much more what the shadow of a candidate says counts, since it did not hold when that decided.
    fn factor(&self, candidate: usize) -> i128 {
        if candidate == self.live { ONE } else { self.claims.factor(candidate, self.spans) }
    }
    fn reads_in(&self, spans: usize) -> u64 {
        (self.spans - spans as u64..self.spans).map(|span| self.reads[span as usize % KEPT]).sum()
    }

    /// What readers waited for a read over some spans, real ones and those of the shadow of a candidate.
    fn a_read(&self, candidate: usize, spans: Range<u64>) -> ARead {
        let places = || spans.clone().map(|span| span as usize % KEPT);
        let reads = i128::from(places().map(|at| self.reads[at]).sum::<u64>().max(1));
        let real: u64 = places().map(|at| self.reals[at]).sum();
        let shadow: u64 = spans.clone().map(|span| self.waits[self.row(span) + candidate]).sum();
        ARead { real: i128::from(real) / reads, shadow: i128::from(shadow) / reads }
    }

    /// A candidate is to decide because of what its shadow promises: for a while on probation.
    fn claim(&mut self, candidate: usize) {
        let lately = self.spans.saturating_sub(LATELY as u64)..self.spans;
        let promised = self.a_read(candidate, lately.clone()).shadow;
        let waited = self.a_read(self.live, lately);
        self.claims.begin(Probation { before: self.live, since: self.spans, waited, promised });
    }

    /// Whether what was promised did not come, and who decided before is to decide again.
    fn broken(&mut self) -> Option<Verdict> {
        let probation = self.claims.under_way()?;
        let spans = probation.counted(self.spans)?;
        let before = probation.before;
        let waits = self.a_read(before, spans.clone());
        let expected = waits.shadow * self.ratio(before) / ONE;
        let reads = self.reads_in((spans.end - spans.start) as usize);
        let found = Found { reads, waits, expected, ratio: self.ratio(self.live) };
        if !self.claims.is_lost(self.live, &spans, &found) {
            return None;
        }
        (self.changed, self.changes) = (self.spans, self.changes + 1);
        let [was, is] = [probation.waited.real, waits.real].map(|ns| ns as u64);
        let because = because([("wait_a_read_ns", was), ("wait_a_read_before_ns", is), ("reads", reads)]);
        Some(Verdict { candidate: before, why: Why::Broken, because })
    }

    /// Shadows begin anew: what was promised by those before is not held against these.
    pub(super) const fn anew(&mut self) {
        self.claims.end();
    }

    /// A candidate that should be tried.
    fn trial(&mut self, none: usize, kept: usize) -> Option<Verdict> {
        let passed = self.began.since(self.start);
        if passed < TRIAL_AFTER || kept < TRIAL_LEAST || self.reads_in(kept) < TRIAL_LEAST_READS {
            return None;
        }
        let live = self.foretold(self.live, kept);
        // A scheme that does the same has nothing to show.
        let other = |at: usize| (self.foretold(at, kept) - live).abs() * SAME_ONE_IN > live;
        let wait = |at: usize| (other(at) || at == self.live).then(|| self.corrected(at, kept));
        let waits: Vec<Option<i128>> = (0..self.candidates).map(wait).collect();
        let (span, compared, reads) = (self.spans, kept as u64, self.reads_in(kept));
        let waited = i128::from(self.real_sum);
        let look = Outlook { waits: &waits, live: self.live, none, span, compared, reads, waited };
        let (candidate, why) = match self.trials.choose(&look) {
            Some(candidate) => (candidate, Why::Trial),
            None if self.over_devices && self.trials.is_held_out(&look) => (none, Why::HeldOut),
            None => return None,
        };
        let because = self.numbers(candidate, kept);
        self.trials.begin(candidate, self.live, span, why == Why::HeldOut);
        self.ratios[candidate] = Ratio::default();
        Some(Verdict { candidate, why, because })
    }

    /// Whether a trial is over and lost; a candidate that has won it stays.
    fn trial_verdict(&mut self, trial: &Trial, kept: usize) -> Option<Verdict> {
        let before = trial.before;
        if !self.trials.is_over(self.spans, i128::from(self.real_sum)) {
            return None;
        }
        self.trials.end();
        // Whether that one kept its promises is another question.
        let ours = self.foretold(before, kept) * self.ratio(before) / ONE;
        let its = self.corrected(self.live, kept);
        let won = trial.lost < 0 && its * 100 <= ours * (100 - WON_PERCENT) && trial.is_clear();
        let believed = self.over_devices || self.is_rare(trial);
        if won && believed && self.ratios[self.live].value().is_some() {
            (self.changed, self.changes) = (self.spans, self.changes + 1);
            self.claims.kept(self.live);
            return None;
        }
        let mut why = Why::Back;
        if its < ours && !believed {
            // What its shadow seems to be off by was luck, too.
            self.ratios[self.live] = Ratio::default();
            why = Why::Luck;
        }
        // Both have decided, so each is off by its own.
        Some(Verdict { candidate: before, why, because: self.numbers_by(before, kept, self.ratio(before)) })
    }

    /// Whether real readers waited less in a trial, beside those of the shadow of the scheme before it, than in nearly every span that is still
    /// known, whoever decided there: in none of up to 31, in one of up to 63. Of a layer of ours that lies below, reads come now from its memory and
    /// now from its disks, so spans of one scheme differ manifold.
    fn is_rare(&self, trial: &Trial) -> bool {
        let share = |spans: Range<u64>| {
            let real: u64 = spans.clone().map(|span| self.reals[span as usize % KEPT]).sum();
            let shadow: u64 = spans.map(|span| self.waits[self.row(span) + trial.before]).sum();
            i128::from(real) * ONE / i128::from(shadow.max(1))
        };
        let tried = share(trial.since..self.spans);
        let before = self.spans.saturating_sub(KEPT as u64 - 1)..trial.since;
        let spans = before.end - before.start;
        before.filter(|&span| share(span..span + 1) <= tried).count() as u64 * RARE_ONE_IN <= spans
    }

    /// Whether another candidate is better.
    fn better(&mut self, kept: usize) -> Option<Verdict> {
        let best = |spans: usize, percent, certain| {
            let gain = |at| self.gain(at, spans, percent + self.doubt(at), certain);
            let gains = self.others().filter_map(|at| Some((gain(at)?, at)));
            gains.max_by_key(|&(gain, at)| (gain, core::cmp::Reverse(at)))
        };
        let steady = best(kept, GAIN_PERCENT, CERTAIN);
        let unearned = || self.is_unearned(kept).then_some((self.none, Why::Unearned, kept));
        let lately = || best(kept.min(LATELY), GAIN_LATELY_PERCENT, CERTAIN_LATELY);
        let (candidate, why, spans) = match steady {
            Some((_, at)) => (at, Why::Steady, kept),
            None => match unearned() {
                Some(none) => none,
                None => (lately()?.1, Why::Lately, kept.min(LATELY)),
            },
        };
        let verdict = Verdict { candidate, why, because: self.numbers(candidate, spans) };
        if why == Why::Unearned {
            self.claims.end();
        } else {
            self.claim(candidate);
        }
        // Twice as long after each change, and half as long for each while without one.
        let quiet = (self.spans - self.changed) / CALM;
        self.pause = ((2 * self.pause) >> quiet.min(8)).clamp(PAUSE, PAUSE_MAX);
        (self.changed, self.changes) = (self.spans, self.changes + 1);
        Some(verdict)
    }

    /// A candidate whose readers already wait so much less than those of `none` that the present scheme, which loses before it gains,
    /// can hardly come to as little.
    fn far_better(&mut self, spans: usize) -> Option<Verdict> {
        let waits = |candidate| self.corrected(candidate, spans);
        let least = waits(self.live).min(waits(self.none));
        let is_sure =
            |at| self.gain(at, spans, GAIN_LATELY_PERCENT + self.doubt(at), CERTAIN_LATELY).is_some();
        let is_far = |&at: &usize| waits(at) * FAR_BETTER < least && is_sure(at);
        let candidate = self.others().filter(is_far).min_by_key(|&at| waits(at))?;
        let verdict = Verdict { candidate, why: Why::Lately, because: self.numbers(candidate, spans) };
        self.claim(candidate);
        (self.changed, self.changes) = (self.spans, self.changes + 1);
        Some(verdict)
    }

    /// What may be turned to.
    fn others(&self) -> impl Iterator<Item = usize> {
        let is_early = self.began.since(self.start) < BEGINNING;
        (0..self.candidates).filter(move |&at| at != self.live && !(is_early && self.late[at]))
    }

    /// What is said of a change.
    fn numbers(&self, candidate: usize, spans: usize) -> Because {
        self.numbers_by(candidate, spans, self.ratio_beside(candidate, spans))
    }

    fn numbers_by(&self, candidate: usize, spans: usize, ratio: i128) -> Because {
        let reads = self.reads_in(spans);
        // As they were compared.
        let a_read = |of: usize, ratio: i128| {
            (self.foretold(of, spans) * ratio / ONE / i128::from(reads.max(1))) as u64
        };
        because([
            ("wait_a_read_ns", a_read(candidate, ratio)),
            ("wait_a_read_before_ns", a_read(self.live, self.ratio(self.live))),
            ("reads", reads),
        ])
    }

    /// All that real readers waited of what was compared, ns.
    pub(super) const fn waited_really(&self) -> u64 {
        self.real_sum
    }

    pub(super) fn gauges(&self, none: usize, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("auto_changes", self.changes as f64),
            ("auto_trials", self.trials.count() as f64),
            ("auto_trials_lost_ns", self.trials.lost() as f64),
            ("auto_reads", self.read_sum as f64),
            ("auto_wait_foretold_ns", self.live_sum as f64),
            ("auto_wait_without_ns", self.sums[none] as f64),
        ]);
    }
}

#[cfg(test)]
mod tests;
