//! Claims: what a shadow promised, held against what came of it.
//!
//! Shadows are given the accesses that come while another scheme decides, and which those are depends on it: the faster one reader is served,
//! the more of them are his. So the shadow of a scheme that would let a scan run ahead of all others sees the few reads of that scan which
//! the present scheme lets through, has a disk with little else to do, and promises much. No ratio corrects it: once the scheme decides, all
//! reads are as it makes them, and its shadow is right. What tells is experience: readers waited so long before, and wait so long now.
//!
//! ```text
//!   better by its shadow ─▶ decides, on probation ─▶ readers wait a quarter longer than before, and longer than by the shadow of the one before
//!                                    │                 └─▶ back; for a while its shadow counts as much more as it was wrong
//!                                    └─ twelve spans without that ─▶ it stays
//! ```
//!
//! A load that became another one proves nothing: where the shadow of the scheme before says that reads became dearer, so much more may be waited.

use alloc::vec::Vec;
use core::ops::Range;

/// Spans of a probation that say nothing: their reads were asked before it.
const UNCOUNTED: u64 = 1;
/// Least spans, and reads in them, by which it is lost; and most spans.
const LEAST: u64 = 4;
const LEAST_READS: u64 = 128;
const MOST: u64 = 12;
/// Lost by readers who wait so much longer than before, in percent, and than the shadow of the scheme before says.
const WORSE_PERCENT: i128 = 25;
const BELIEVED_PERCENT: i128 = 10;
/// Spans for which a claim that did not hold counts, and twice as many after each one more.
const REST: u64 = 64;
const REST_MAX: u64 = 1 << 16;
/// What is made of a claim: so many parts of this.
pub(super) const ONE: i128 = 1_024;
const FACTOR_MAX: i128 = 16 * ONE;

/// What readers wait for a read, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ARead {
    /// Real ones.
    pub(super) real: i128,
    /// Those of the shadow of the scheme before.
    pub(super) shadow: i128,
}

/// What is found in the spans that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Reads in them, and what was waited for each.
    pub(super) reads: u64,
    pub(super) waits: ARead,
    /// What would have been waited under the scheme before, by its shadow, corrected, ns a read.
    pub(super) expected: i128,
    /// By how much the shadow of the one that decides is corrected, of [`ONE`].
    pub(super) ratio: i128,
}

/// A scheme that decides because of what its shadow promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probation {
    /// Who decided before.
    pub(super) before: usize,
    /// Number of its first span.
    pub(super) since: u64,
    /// What was waited before it, and what its shadow waited then, ns a read.
    pub(super) waited: ARead,
    pub(super) promised: i128,
}

impl Probation {
    /// The spans by which it is judged, as soon as there are enough.
    pub(super) fn counted(&self, spans: u64) -> Option<Range<u64>> {
        let first = self.since + UNCOUNTED;
        (spans >= first + LEAST).then_some(first..spans)
    }
}

/// What is known of the claims of a candidate.
#[derive(Clone, Copy, Debug)]
struct Known {
    factor: i128,
    until: u64,
    rest: u64,
}

/// Of all candidates.
#[derive(Debug)]
pub(super) struct Claims {
    now: Option<Probation>,
    of: Vec<Known>,
}

impl Claims {
    pub(super) fn new(candidates: usize) -> Self {
        Self { now: None, of: [Known { factor: ONE, until: 0, rest: REST }].repeat(candidates) }
    }

    /// How much more what the shadow of a candidate says counts, of [`ONE`].
    pub(super) fn factor(&self, candidate: usize, span: u64) -> i128 {
        let known = &self.of[candidate];
        if span < known.until { known.factor } else { ONE }
    }

    pub(super) const fn under_way(&self) -> Option<Probation> {
        self.now
    }
    pub(super) const fn begin(&mut self, probation: Probation) {
        self.now = Some(probation);
    }
    /// Another scheme decides, which promised nothing.
    pub(super) const fn end(&mut self) {
        self.now = None;
    }

    /// Whether the probation of `live` is lost by what is found in the spans that count.
    pub(super) fn is_lost(&mut self, live: usize, spans: &Range<u64>, found: &Found) -> bool {
        let Some(probation) = self.now else { return false };
        let over = spans.end - spans.start >= MOST;
        if over {
            self.now = None;
        }
        if found.reads < LEAST_READS {
            return false;
        }
        let Probation { waited, promised, .. } = probation;
        let Found { waits, expected, ratio, .. } = *found;
        // As much more as reads became dearer by themselves.
        let before = waited.real * waits.shadow.max(waited.shadow) / waited.shadow.max(1);
        let longer = |than: i128, percent: i128| waits.real * 100 > than * (100 + percent);
        let lost = longer(before, WORSE_PERCENT) && longer(expected, BELIEVED_PERCENT);
        if lost {
            self.now = None;
            let known = &mut self.of[live];
            known.factor = (waits.real * ONE / (promised * ratio / ONE).max(1)).clamp(ONE, FACTOR_MAX);
            known.until = spans.end + known.rest;
            known.rest = (2 * known.rest).min(REST_MAX);
        } else if over {
            self.kept(live);
        }
        lost
    }

    /// Readers were found to wait no longer under a candidate: what its shadow says counts as it is.
    pub(super) fn kept(&mut self, candidate: usize) {
        self.of[candidate] = Known { factor: ONE, until: 0, rest: REST };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probation in which readers waited 10 a read before, by the shadow of that scheme too, and were promised 5.
    fn claims() -> Claims {
        let mut claims = Claims::new(2);
        let waited = ARead { real: 10, shadow: 10 };
        claims.begin(Probation { before: 0, since: 100, waited, promised: 5 });
        claims
    }

    fn found(real: i128, shadow: i128, reads: u64, expected: i128) -> Found {
        Found { reads, waits: ARead { real, shadow }, expected, ratio: ONE }
    }

    #[test]
    fn what_is_not_kept_counts_for_a_while_by_as_much_as_it_was_wrong_and_longer_each_time() {
        let mut claims = claims();
        let probation = claims.under_way().expect("it has begun");
        assert_eq!((probation.counted(104), probation.counted(105)), (None, Some(101..105)));
        let lost = found(20, 8, 200, 8);
        assert!(claims.is_lost(1, &(101..105), &lost) && claims.under_way().is_none());
        let factors = [105, 168, 169].map(|span| claims.factor(1, span) / ONE);
        assert_eq!((factors, claims.factor(0, 105)), ([4, 4, 1], ONE));
        claims.begin(Probation { since: 200, ..probation });
        assert!(claims.is_lost(1, &(201..205), &Found { ratio: 2 * ONE, ..lost }));
        let factors = [205 + 127, 205 + 128].map(|span| claims.factor(1, span) / ONE);
        assert_eq!(factors, [2, 1], "what its ratio corrects is not counted twice");
        claims.kept(1);
        assert_eq!(claims.factor(1, 206), ONE);
    }

    #[test]
    fn neither_dearer_reads_nor_few_of_them_nor_what_the_one_before_would_not_do_better_is_blamed() {
        let lost =
            |reads, shadow, expected| claims().is_lost(1, &(101..105), &found(20, shadow, reads, expected));
        assert!(lost(200, 10, 10));
        assert!(!lost(100, 10, 10), "of a few reads");
        assert!(!lost(200, 20, 10), "the shadow of the scheme before waits twice as long as it did, too");
        assert!(!lost(200, 10, 19), "and corrected it is hardly better");
    }

    #[test]
    fn who_was_not_found_wrong_in_twelve_spans_stays() {
        let mut claims = claims();
        let found = found(12, 8, 900, 8);
        assert!(!claims.is_lost(1, &(101..112), &found) && claims.under_way().is_some());
        assert!(!claims.is_lost(1, &(101..113), &found) && claims.under_way().is_none());
    }
}
