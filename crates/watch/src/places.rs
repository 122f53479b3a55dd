//! How fast a reader comes to its places: before it is read ahead of, and then.
//!
//! Before, only what it missed is seen; then each of its reads is, also of what was in memory already. So a place is at least as far from the one
//! before as those were that it missed: else a reader in order, of whose reads one in thirty missed, would be said to be thirty times as fast
//! when it comes to all of them.

/// Longest time between two places that counts: a reader that sleeps is not slow.
pub(crate) const PAUSE: u64 = 200_000_000;
/// Distances between misses that are remembered.
const DISTANCES: usize = 8;

/// Times between places.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    pub(crate) last: u64,
    pub(crate) places: u64,
    spent: u64,
    /// The longest of them.
    longest: u64,
    /// Page of the last place.
    at: Option<u64>,
    /// Pages between the last places that were learnt, the newest first; 0 where there is none yet.
    distances: [u64; DISTANCES],
    /// Pages from the last place before which there is no other.
    apart: u64,
}

impl Pace {
    /// Nothing is counted yet, and it was here last then.
    pub(crate) fn since(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// It missed a place, of a pattern that is not known yet.
    pub(crate) fn learn(&mut self, time: u64, page: u64) {
        if let Some(distance) = self.at.map(|at| at.abs_diff(page)).filter(|distance| *distance > 0) {
            self.distances.rotate_right(1);
            self.distances[0] = distance;
        }
        self.place(time, page);
    }

    /// It has read here: another place, or a part of the last one.
    pub(crate) fn place(&mut self, time: u64, page: u64) {
        if self.at.is_some_and(|at| at.abs_diff(page) < self.apart) {
            return;
        }
        self.at = Some(page);
        let took = time.saturating_sub(self.last);
        if self.last > 0 && took < PAUSE {
            self.spent += took;
            self.places += 1;
            self.longest = self.longest.max(took);
        }
        self.last = self.last.max(time);
    }

    /// With nothing counted yet, of places as far from each other as these: the least distance that came twice, as the only small one may be that
    /// from a header, or the least of all.
    pub(crate) fn go_on(&self) -> Self {
        let known = || self.distances.iter().copied().filter(|distance| *distance > 0);
        let twice = known().filter(|one| known().filter(|other| other == one).count() > 1).min();
        let apart = twice.or_else(|| known().min()).unwrap_or(0);
        Self { last: self.last, at: self.at, apart, ..Self::default() }
    }

    /// What the others come to without the longest: of the few places before a reader is known, one waited for metadata too, or for a
    /// disk that was asleep, and the others would be told to have been as slow.
    fn but_the_longest(&self) -> Self {
        if self.places < 2 {
            return *self;
        }
        Self { spent: self.spent - self.longest, places: self.places - 1, ..*self }
    }

    /// How much faster `now` is than this, percent.
    pub(crate) fn percent(&self, now: &Self) -> u64 {
        let before = self.but_the_longest();
        let each = |pace: &Self| u128::from(pace.spent) * 1_000 / u128::from(pace.places.max(1));
        u64::try_from(each(&before) * 100 / each(now).max(1)).unwrap_or(u64::MAX)
    }

    /// Time that these places would have taken at the pace of `before`, less what they took.
    pub(crate) fn earned(&self, before: &Self) -> u64 {
        let before = before.but_the_longest();
        let without = u128::from(before.spent) * u128::from(self.places) / u128::from(before.places.max(1));
        u64::try_from(without).unwrap_or(u64::MAX).saturating_sub(self.spent)
    }
}

#[cfg(test)]
impl Pace {
    /// Four places of a microsecond each, wherever they were.
    pub(crate) fn of_four() -> Self {
        Self { last: 1, places: 4, spent: 4_000, longest: 1_000, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_earned_is_the_time_of_its_places_before_less_what_they_take_now() {
        let mut before = Pace::default();
        (1..=5).for_each(|k| before.place(k * 1_000_000, k));
        let mut now = Pace { last: 5_000_000, ..Pace::default() };
        (1..=100).for_each(|k| now.place(5_000_000 + k * 100_000, k));
        assert_eq!(before.percent(&now), 1_000, "ten times as fast");
        assert_eq!(now.earned(&before), 90_000_000);
        now.place(now.last + PAUSE, 0);
        assert_eq!((now.places, now.earned(&before)), (100, 90_000_000), "sleep is not slowness");
        let mut slow = Pace::default();
        [1, 150, 151, 152].iter().for_each(|k| slow.place(k * 1_000_000, *k));
        assert_eq!(
            (slow.percent(&now), now.earned(&slow)),
            (1_000, 90_000_000),
            "one wait for metadata says nothing"
        );
    }

    #[test]
    fn reads_between_two_places_are_none_and_nobody_is_faster_by_them() {
        // It reads 4 pages in order, and the first of 128 each was missed: 128 pages take 5 ms, before and then.
        let mut before = Pace::default();
        (0..4).for_each(|k| before.learn(1 + k * 5_000_000, k * 128));
        let mut now = before.go_on();
        (1..=320).for_each(|k| now.place(15_000_001 + k * 156_250, 384 + k * 4));
        assert_eq!((now.places, before.percent(&now), now.earned(&before)), (10, 100, 0));
        // Backwards, and with a header before the first place.
        let mut before = Pace::default();
        [0, 1, 1000, 936, 872, 808].iter().zip(1..).for_each(|(page, k)| before.learn(k * 1_000_000, *page));
        let mut now = before.go_on();
        (1..=5).for_each(|k| now.place(6_000_000 + k * 500_000, 808 - k * 64));
        assert_eq!((now.places, before.percent(&now), now.earned(&before)), (5, 200, 2_500_000));
        // Two strides in turns: each place of both is one.
        let mut before = Pace::default();
        (0..8).for_each(|k| before.learn(1 + k * 1_000_000, k / 2 * 64 + k % 2 * 10));
        let mut now = before.go_on();
        (8..28).for_each(|k| now.place(1 + k * 1_000_000, k / 2 * 64 + k % 2 * 10));
        assert_eq!((now.places, before.percent(&now)), (20, 100));
    }
}
