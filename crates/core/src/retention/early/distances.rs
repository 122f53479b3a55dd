//! After how much else a block is read again: a histogram of distances, in eighths of the cache, and what it says of when blocks should leave.
//!
//! ```text
//!   reads                   ▂             ▁ ▇ ▂
//!             |-------- cache --------|----------------------|
//!             0         early         1          late        17   times the cache
//!
//!   by recency      what lies before 1 is still here when it is read again
//!   left early      what lies before `early` is, and of what lies before `late` a part: (1 - early) of (late - early)
//! ```
//!
//! Blocks that have left must be known to be counted, so their numbers are kept for 17 times the cache; of many, one in two, four, … by a hash of the
//! number, so that what is kept takes a 256th of the cache at most, or as much as the fewest numbers do. Source: EELRU (Smaragdakis, Kaplan and Wilson, SIGMETRICS 1999), section 3.

use crate::hash::{NumberMap, SPREAD};
use crate::units::BLOCK_BYTES;

/// Bins of a cache.
pub(super) const PARTS: u64 = 8;
/// Bins in all: 17 caches.
const BINS: usize = 136;
/// A read in its bin, so that it can be halved and halved again.
const READ: u64 = 256;
/// At each look one in so many of what is counted is forgotten; looks are a bin apart.
const FORGET_ONE_IN: u64 = 32;
/// What is gained must be so many reads at least, and one in so many of those that recency serves.
const GAIN_READS: u64 = 4;
const GAIN_ONE_IN: u64 = 8;
/// What the numbers may take of the cache: one byte in so many, and each of them this many.
const MEMORY_ONE_IN: u64 = 256;
const NUMBER_BYTES: u64 = 24;
/// Least and most numbers.
const NUMBERS_MIN: u64 = 256;
const NUMBERS_MAX: u64 = 4_096;

/// When blocks leave: in bins, those that come back after `early` and not before `late` leave early. Both 0: by recency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Points {
    pub(super) early: u64,
    pub(super) late: u64,
}

/// How far apart the reads of a block are.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    /// Blocks of the cache.
    capacity: u64,
    /// When blocks were read last, in blocks that came since the beginning.
    seen: NumberMap<u64>,
    numbers_max: usize,
    /// Numbers are kept whose hash ends in so many zeros.
    zeros: u32,
    bins: [u64; BINS],
    looked: u64,
    points: Points,
}

impl Distances {
    /// For a cache of so many blocks.
    pub(super) fn new(capacity: u64) -> Self {
        let numbers = capacity * BLOCK_BYTES / MEMORY_ONE_IN / NUMBER_BYTES;
        Self {
            capacity: capacity.max(PARTS),
            seen: NumberMap::default(),
            numbers_max: numbers.clamp(NUMBERS_MIN, NUMBERS_MAX) as usize,
            zeros: 0,
            bins: [0; BINS],
            looked: 0,
            points: Points::default(),
        }
    }
    /// Blocks of the cache.
    pub(super) const fn capacity(&self) -> u64 {
        self.capacity
    }
    /// When blocks should leave.
    pub(super) const fn points(&self) -> Points {
        self.points
    }
    /// Blocks whose last read is kept, and how many may be.
    pub(super) fn numbers(&self) -> [usize; 2] {
        [self.seen.len(), self.numbers_max]
    }
    fn is_kept(number: u64, zeros: u32) -> bool {
        number.wrapping_mul(SPREAD).rotate_left(32).trailing_zeros() >= zeros
    }
    /// A block is read, when so many have come.
    pub(super) fn read(&mut self, number: u64, clock: u64) {
        if Self::is_kept(number, self.zeros) {
            if let Some(before) = self.seen.insert(number, clock) {
                let bin = ((clock - before) * PARTS / self.capacity) as usize;
                if let Some(bin) = self.bins.get_mut(bin).filter(|_| bin > 0) {
                    *bin += READ;
                }
            } else if self.seen.len() > self.numbers_max {
                self.thin(clock);
            }
        }
        if clock - self.looked >= self.capacity / PARTS {
            self.looked = clock;
            self.points = self.best();
            self.bins.iter_mut().for_each(|bin| *bin -= *bin / FORGET_ONE_IN);
        }
    }
    /// Fewer numbers: those that were read too long ago, and half of the others if that is not enough.
    fn thin(&mut self, clock: u64) {
        let far = self.capacity * BINS as u64 / PARTS;
        self.seen.retain(|_, at| clock - *at < far);
        while self.seen.len() * 4 > self.numbers_max * 3 {
            self.zeros += 1;
            let zeros = self.zeros;
            self.seen.retain(|number, _| Self::is_kept(*number, zeros));
        }
    }
    fn best(&self) -> Points {
        let mut before = [0; BINS + 1];
        for (bin, reads) in self.bins.iter().enumerate() {
            before[bin + 1] = before[bin] + reads;
        }
        let recent = before[PARTS as usize];
        let mut best = (recent + recent / GAIN_ONE_IN + GAIN_READS * READ, Points::default());
        for early in 1..PARTS {
            for late in PARTS + 1..=BINS as u64 {
                let (near, far) = (before[early as usize], before[late as usize]);
                let worth = near + (far - near) * (PARTS - early) / (late - early);
                if worth > best.0 {
                    best = (worth, Points { early, late });
                }
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a block each, read in this order over a cache of so many.
    fn of(capacity: u64, numbers: impl IntoIterator<Item = u64>) -> Distances {
        let mut distances = Distances::new(capacity);
        for (clock, number) in (1..).zip(numbers) {
            distances.read(number, clock);
        }
        distances
    }

    #[test]
    fn a_loop_longer_than_the_cache_says_that_lines_should_leave_early() {
        let points = of(800, (0..8_000).map(|n| n % 1_200)).points();
        assert_eq!(points.early, 1, "{points:?}");
        assert!((13..=14).contains(&points.late), "twelve eighths and what lies in that bin: {points:?}");
    }

    #[test]
    fn what_comes_back_while_it_is_here_says_nothing_and_so_does_what_never_does() {
        assert_eq!(of(800, (0..8_000).map(|n| n % 700)).points(), Points::default());
        assert_eq!(of(800, 0..8_000).points(), Points::default());
        assert_eq!(of(800, (0..80_000).map(|n| n % 14_000)).points(), Points::default(), "too far away");
    }

    #[test]
    fn a_loop_that_ends_is_forgotten() {
        let looped = (0..8_000).map(|n| n % 1_200);
        let near = (0..40_000).map(|n| 100_000 + n % 600);
        assert_eq!(of(800, looped.chain(near)).points(), Points::default());
    }

    #[test]
    fn of_many_lines_a_part_says_the_same() {
        let cache = 1 << 18;
        let distances = of(cache, (0..3 * cache).map(|n| n % (cache * 3 / 2)));
        assert!(distances.numbers()[0] <= NUMBERS_MAX as usize && distances.zeros > 0);
        let points = distances.points();
        assert_eq!((points.early, points.late), (1, 13), "{points:?}");
    }
}
