//! Reach: how far what is read is spread, guessed after few reads.
//!
//! Of n reads at random over m regions, some fall into a region that was read before; how many says how large m is, once m is not
//! much larger than n. So regions of several sizes are counted, and the smallest size of which enough have been met twice is
//! believed. It is a guess of where reads may go next, not of which blocks they touch. A read that goes on where the last one of its
//! process ended is no such read: a reader in sequence meets its region again and again, however far it will go.

use crate::bounded::Recent;
use crate::hash::NumberMap;
use crate::units::Extent;

/// Blocks of a region, of each size, as powers of two: 128 KiB, 1 MiB, 8 MiB, 64 MiB, 512 MiB, 4 GiB, 32 GiB.
const SIZES: [u32; 7] = [5, 8, 11, 14, 17, 20, 23];
/// Reads after which the counting begins anew.
const READS_MAX: u64 = 1_024;
/// A size is believed when at most this share of the reads, in percent, met a region for the first time.
const NEW_PERCENT: u64 = 70;
/// Reads jump about when at least one in so many does not go on where its process was.
const JUMPS_ONE_IN: u64 = 4;
/// Blocks of a reach of which nothing is known: more than any layer has.
const UNKNOWN: u64 = u64::MAX >> 8;

/// Processes of which it is known where their last read ended.
const PROCESSES_MAX: usize = 1_024;

/// Regions met.
#[derive(Clone, Debug)]
pub(super) struct Reach {
    /// One past the last block that a process read, and one more; 0 is none.
    ends: Recent<u64>,
    met: [NumberMap<()>; SIZES.len()],
    reads: u64,
    /// Reads that went on, since then.
    going_on: u64,
    /// What the reads before these came to.
    before: u64,
}

impl Reach {
    pub(super) fn new() -> Self {
        Self { ends: Recent::new(PROCESSES_MAX), met: Default::default(), reads: 0, going_on: 0, before: 0 }
    }

    /// A read of a process.
    pub(super) fn note(&mut self, process: u64, read: Extent) {
        let end = core::mem::replace(self.ends.entry(process, u64::default), read.end() + 1);
        if end == read.start.0 + 1 {
            self.going_on += 1;
            return;
        }
        let block = read.start.0;
        if self.reads == READS_MAX {
            self.before = self.blocks();
            self.met.iter_mut().for_each(NumberMap::clear);
            (self.reads, self.going_on) = (0, 0);
        }
        self.reads += 1;
        for (met, bits) in self.met.iter_mut().zip(SIZES) {
            met.insert(block >> bits, ());
        }
    }

    /// Whether so many reads jump about that it matters where they may go next.
    pub(super) const fn is_jumped_about(&self) -> bool {
        self.reads * JUMPS_ONE_IN >= self.reads + self.going_on
    }

    /// Blocks over which reads are spread.
    pub(super) fn blocks(&self) -> u64 {
        match self.reads {
            0 if self.before > 0 => self.before,
            0 => UNKNOWN,
            _ => self.counted().unwrap_or(UNKNOWN).max(self.before),
        }
    }

    fn counted(&self) -> Option<u64> {
        let n = self.reads;
        let known = self.met.iter().zip(SIZES).find(|(met, _)| met.len() as u64 * 100 <= n * NEW_PERCENT)?;
        let new = known.0.len() as u64;
        // Pairs of reads in one region: n² / 2m of them; and there are at least as many regions as were met.
        let regions = (new * n / (2 * (n - new)).max(1)).max(new);
        Some(regions << known.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::SPREAD;

    /// The guess after so many reads at random over so many blocks.
    fn guess(reads: u64, blocks: u64) -> u64 {
        let mut reach = Reach::new();
        for n in 1..=reads {
            let random = n.wrapping_mul(SPREAD) ^ n.wrapping_mul(SPREAD).rotate_left(29);
            let block = ((u128::from(random.wrapping_mul(SPREAD)) * u128::from(blocks)) >> 64) as u64;
            reach.note(n % 3, Extent::new(block, 1));
        }
        reach.blocks()
    }

    #[test]
    fn the_reach_of_random_reads_is_guessed_within_twice_after_few() {
        for bits in [16, 18, 20, 22, 24] {
            let blocks = 1 << bits;
            for reads in [64, 96, 500] {
                let guess = guess(reads, blocks);
                assert!(guess >= blocks / 2 && guess <= blocks * 2, "{reads} of {blocks}: {guess}");
            }
        }
    }

    #[test]
    fn readers_in_sequence_say_nothing_of_reach_and_those_who_jump_about_do() {
        let mut reach = Reach::new();
        for n in 0..400 {
            reach.note(n % 4, Extent::new(n % 4 * 100_000 + n / 4 * 4, 4));
        }
        assert!(reach.blocks() >= 1 << 18 && !reach.is_jumped_about(), "{}", reach.blocks());
        (0..200).for_each(|n| reach.note(9, Extent::new(n * 7_919 % 512, 1)));
        assert!(reach.blocks() <= 1_024 && reach.is_jumped_about(), "{}", reach.blocks());
    }
}
