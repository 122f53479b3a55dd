//! How late the daemon comes: from a read of somebody who is read ahead of to the moment at which is decided what to read for it.

/// Bits of a time behind its highest that tell buckets apart: of each, the largest time is a thirty-second part more than the smallest.
const FINE_BITS: u32 = 5;
/// One bucket for each such part of each power of two of 64 bits.
const BUCKETS: usize = 64 << FINE_BITS;

/// Times, as far as they are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Reads that were counted.
    pub reads: u64,
    /// Half of them were at most so late, nanoseconds.
    pub median: u64,
    /// Ninety-nine of a hundred were at most so late, nanoseconds.
    pub slow: u64,
}

/// Times of reads, in buckets.
#[derive(Debug)]
pub(crate) struct Lags {
    buckets: Box<[u64; BUCKETS]>,
    reads: u64,
}

impl Default for Lags {
    fn default() -> Self {
        Self { buckets: Box::new([0; BUCKETS]), reads: 0 }
    }
}

impl Lags {
    /// One read that was so late, nanoseconds.
    pub(crate) fn note(&mut self, late: u64) {
        self.buckets[bucket(late)] += 1;
        self.reads += 1;
    }

    pub(crate) fn told(&self) -> Lag {
        let at_most = |percent: u64| {
            let wanted = (self.reads * percent).div_ceil(100);
            let mut so_far = 0;
            let found = self.buckets.iter().position(|reads| {
                so_far += reads;
                so_far >= wanted
            });
            found.filter(|_| wanted > 0).map_or(0, largest)
        };
        Lag { reads: self.reads, median: at_most(50), slow: at_most(99) }
    }
}

/// Where a time is counted: small ones each for itself, others by their highest bits.
fn bucket(late: u64) -> usize {
    let high = u64::BITS - late.leading_zeros();
    let over = high.saturating_sub(FINE_BITS + 1);
    // Below 64 << FINE_BITS, since `over` is at most 60.
    ((u64::from(over) << FINE_BITS) + (late >> over)) as usize
}

/// The largest time of a bucket.
fn largest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let over = (bucket >> FINE_BITS).saturating_sub(1);
    let first = (bucket - (over << FINE_BITS)) << over;
    first + ((1 << over) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_to_an_eighth_and_none_falls_out() {
        for late in (0..200).chain([1_000, 16_383, 16_384, 250_000, u64::MAX / 3, u64::MAX]) {
            let told = largest(bucket(late));
            assert!(told >= late && told - late <= late / 8, "{late} is told as {told}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        let mut lags = Lags::default();
        assert_eq!(lags.told(), Lag::default());
        (0..98).for_each(|_| lags.note(100));
        (0..2).for_each(|_| lags.note(1_000_000));
        let Lag { reads, median, slow } = lags.told();
        assert_eq!(reads, 100);
        assert!((100..=103).contains(&median) && (1_000_000..=1_032_000).contains(&slow), "{median} {slow}");
    }
}
