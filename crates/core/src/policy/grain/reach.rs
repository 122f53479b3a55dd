//! Reach: how far what is read is spread, guessed after few reads.
//!
//! Of n reads at random over m regions, some fall into a region that was read before; how many says how large m is, once m is not
//! much larger than n. So regions of several sizes are counted, and the smallest size of which enough have been met twice is
//! believed. It is a guess of where reads may go next, not of which blocks they touch.

use crate::hash::NumberMap;

/// Blocks of a region, of each size, as powers of two: 128 KiB, 1 MiB, 8 MiB, 64 MiB, 512 MiB, 4 GiB, 32 GiB.
const SIZES: [u32; 7] = [5, 8, 11, 14, 17, 20, 23];
/// Reads after which the counting begins anew.
const READS_MAX: u64 = 1_024;
/// A size is believed when at most this share of the reads, in percent, met a region for the first time.
const NEW_PERCENT: u64 = 70;

/// Regions met.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    met: [NumberMap<()>; SIZES.len()],
    reads: u64,
    /// What the reads before these came to.
    before: u64,
}

impl Reach {
    /// A read of blocks from `block` on.
    pub(super) fn note(&mut self, block: u64) {
        if self.reads == READS_MAX {
            self.before = self.blocks();
            self.met.iter_mut().for_each(NumberMap::clear);
            self.reads = 0;
        }
        self.reads += 1;
        for (met, bits) in self.met.iter_mut().zip(SIZES) {
            met.insert(block >> bits, ());
        }
    }

    /// Blocks over which reads are spread.
    pub(super) fn blocks(&self) -> u64 {
        self.counted().unwrap_or(u64::MAX >> 8).max(self.before)
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
        let mut reach = Reach::default();
        for n in 1..=reads {
            let random = n.wrapping_mul(SPREAD) ^ n.wrapping_mul(SPREAD).rotate_left(29);
            reach.note(((u128::from(random.wrapping_mul(SPREAD)) * u128::from(blocks)) >> 64) as u64);
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
    fn one_reader_in_sequence_reaches_little() {
        let mut reach = Reach::default();
        (0..100).for_each(|n| reach.note(n * 4));
        assert!(reach.blocks() <= 512, "{}", reach.blocks());
    }
}
