//! How fast a reader reads when nobody makes it wait, from the gaps between its requests.
//!
//! What a reader took is what it was given as long as it waits for the disk. Once data is staged for it, it first catches
//! up, as fast as it is answered, and then falls into its own pace: the first gap that is much longer than those since it
//! was last made to wait ends the catching up, and its rate is what it reads from there on. So a rate is known a quarter
//! of a second after a stream's first turn, and a stream may run dry in every round and still be measured. A reader that shows no
//! such gap takes what it can get.
//!
//! A player that fetches in bursts shows long gaps too: measuring begins after one, and a burst and the gap behind it are
//! one whole period.

use crate::units::Nanos;

/// A gap at least so long, and so many times as long as any since the reader last waited, ends its catching up: a network's
/// round trip and a slow client are shorter.
const PAUSE_MIN: Nanos = Nanos::from_millis(5);
const PAUSE_TIMES: u64 = 4;
/// A rate is taken over at least so long: several requests of a slow media stream. The first one over half of it.
const MEASURE: Nanos = Nanos::from_millis(500);
/// Waits in a row without a pause between them after which a measured rate is forgotten: the reader has become faster.
const UNPAUSED_MAX: u8 = 4;
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The measure of one reader.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Blocks a second, as last measured; 0 before.
    pub(super) rate: u64,
    /// When it last asked.
    asked: Nanos,
    /// Since when blocks are counted, and how many it has asked for since.
    since: Nanos,
    blocks: u64,
    /// Longest gap since it last waited.
    longest: Nanos,
    /// Its last request was not here.
    stalled: bool,
    /// A request of it has waited for its turn since it last asked.
    waited: bool,
    /// It has paused since it last waited.
    paused: bool,
    /// Waits in a row before which it has not paused.
    unpaused: u8,
}

impl Pace {
    /// Of a reader that asks for the first time.
    pub(super) const fn new(now: Nanos) -> Self {
        Self {
            rate: 0,
            asked: now,
            since: now,
            blocks: 0,
            longest: Nanos::ZERO,
            stalled: false,
            waited: false,
            paused: false,
            unpaused: 0,
        }
    }
    /// It asks for so many blocks, which are `here` or have to be waited for.
    pub(super) fn read(&mut self, blocks: u64, here: bool, now: Nanos) {
        let gap = now.since(self.asked);
        self.asked = now;
        let stalled = core::mem::replace(&mut self.stalled, !here);
        if core::mem::take(&mut self.waited) {
            // That gap was the scheduler's.
            (self.longest, self.paused) = (Nanos::ZERO, false);
            return;
        }
        if stalled {
            (self.since, self.blocks) = (now, 0); // and that one the disk's
            return;
        }
        if gap >= PAUSE_MIN && gap.0 > self.longest.0.saturating_mul(PAUSE_TIMES) {
            (self.since, self.blocks) = (now, 0);
            (self.longest, self.paused) = (gap, true);
            return;
        }
        if !self.paused {
            return;
        }
        self.longest = self.longest.max(gap);
        self.blocks += blocks;
        let took = now.since(self.since);
        let least = if self.rate == 0 { Nanos(MEASURE.0 / 2) } else { MEASURE };
        if took >= least {
            let rate = self.blocks.saturating_mul(SECOND) / took.0;
            self.rate = if self.rate == 0 { rate } else { self.rate.midpoint(rate) };
            (self.since, self.blocks, self.unpaused) = (now, 0, 0);
        }
    }
    /// A request of it waits for its turn.
    pub(super) const fn wait(&mut self) {
        if self.waited {
            return;
        }
        self.waited = true;
        if self.paused {
            self.unpaused = 0;
            return;
        }
        self.unpaused = self.unpaused.saturating_add(1);
        if self.unpaused >= UNPAUSED_MAX {
            self.rate = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_late_reader_is_measured_by_its_pace_and_not_by_how_fast_it_catches_up() {
        let mut pace = Pace::new(Nanos(0));
        pace.wait();
        let mut now = 900 * MS;
        for _ in 0..7 {
            pace.read(16, true, Nanos(now)); // at once
            now += MS / 10;
        }
        assert_eq!(pace.rate, 0);
        for _ in 0..4 {
            now += 131 * MS;
            pace.read(16, true, Nanos(now));
        }
        assert_eq!(pace.rate, 16 * 1_000 / 131, "16 blocks each 131 ms");
    }

    #[test]
    fn a_reader_that_fetches_in_bursts_is_measured_over_whole_bursts() {
        let mut pace = Pace::new(Nanos(0));
        let mut now = 0;
        for _ in 0..6 {
            for _ in 0..8 {
                now += MS / 10;
                pace.read(16, true, Nanos(now));
            }
            now += 1_000 * MS;
        }
        assert!((110..=128).contains(&pace.rate), "128 blocks each second, not {}", pace.rate);
    }

    #[test]
    fn waits_for_the_disk_are_not_its_pace() {
        let mut pace = Pace::new(Nanos(0));
        let mut now = 0;
        for n in 0..40 {
            let here = n % 5 != 0;
            pace.read(16, here, Nanos(now));
            now += if here { 131 * MS } else { 900 * MS };
        }
        assert_eq!(pace.rate, 16 * 1_000 / 131, "16 blocks each 131 ms");
    }

    #[test]
    fn a_reader_that_never_pauses_has_no_rate_and_one_that_becomes_such_loses_it() {
        let mut pace = Pace::new(Nanos(0));
        for n in 1..10 {
            pace.read(16, true, Nanos(n * 131 * MS));
        }
        assert!(pace.rate > 0);
        let mut now = 1_500 * MS;
        for _ in 0..=UNPAUSED_MAX {
            pace.wait();
            now += 400 * MS;
            for _ in 0..100 {
                pace.read(16, true, Nanos(now));
                now += MS / 10;
            }
        }
        assert_eq!(pace.rate, 0);
    }
}
