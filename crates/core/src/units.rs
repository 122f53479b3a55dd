//! Units are types, so that a block number, a byte count and a time can never be mixed up.
//!
//! Everything is 64 bits wide: a volume of 2^64 bytes and a trace of centuries fit. Arithmetic that could
//! wrap asserts instead (debug and release), because a wrapped address is a wrong answer.

/// Bytes in one block: the unit of caching everywhere (design: "block (4 KiB)").
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes in one device sector, the unit in which device commands are addressed.
pub const SECTOR_BYTES: u64 = 512;
/// Sectors in one block.
pub const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// A point in time or a duration, in nanoseconds. The origin is whatever the host calls zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Time zero, or no time at all.
    pub const ZERO: Self = Self(0);
    /// Later than every event.
    pub const NEVER: Self = Self(u64::MAX);

    /// Whole microseconds as nanoseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }
    /// Whole milliseconds as nanoseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// Whole seconds as nanoseconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }
    /// `self - earlier`, or zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
    /// This duration in seconds, for reports only: decisions stay in integers.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a report prints at most 15 digits")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl core::ops::Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl core::ops::AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl core::ops::Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        debug_assert!(self >= other, "time runs forward");
        self.since(other)
    }
}

/// Number of a block in the address space of the layer that speaks (volume, or one member disk).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(pub u64);

impl Block {
    /// The block `n` further on.
    #[must_use]
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

/// Number of a member disk of an array, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Disk(pub u16);

/// A run of consecutive blocks: `[start, start + blocks)`. May be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// First block.
    pub start: Block,
    /// How many blocks.
    pub blocks: u64,
}

impl Extent {
    /// The run of `blocks` blocks from `start`.
    #[must_use]
    pub const fn new(start: u64, blocks: u64) -> Self {
        Self { start: Block(start), blocks }
    }
    /// The blocks that the bytes `[offset, offset + bytes)` touch.
    #[must_use]
    pub const fn covering(offset: u64, bytes: u64) -> Self {
        if bytes == 0 {
            return Self::new(offset / BLOCK_BYTES, 0);
        }
        let first = offset / BLOCK_BYTES;
        let last = (offset + (bytes - 1)) / BLOCK_BYTES;
        Self::new(first, last - first + 1)
    }
    /// First block after the run.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start.0 + self.blocks
    }
    /// Whether no block is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.blocks == 0
    }
    /// Whether `block` is in it.
    #[must_use]
    pub const fn contains(self, block: Block) -> bool {
        self.start.0 <= block.0 && block.0 < self.end()
    }
    /// The blocks in both.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.0.max(other.start.0);
        let end = self.end().min(other.end());
        Self::new(start, end.saturating_sub(start))
    }
    /// Its length in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.blocks * BLOCK_BYTES
    }
    /// Itself cut from its start on into parts of at most `blocks_max` blocks.
    pub fn parts(self, blocks_max: u64) -> impl Iterator<Item = Self> {
        let starts = (self.start.0..self.end()).step_by(blocks_max as usize);
        starts.map(move |start| Self::new(start, blocks_max.min(self.end() - start)))
    }
    /// Its blocks, in order.
    pub fn iter(self) -> impl Iterator<Item = Block> {
        (self.start.0..self.end()).map(Block)
    }
}

/// A divisor without a division: blocks of a strip or of a line nearly always are a power of two, and a product with
/// the reciprocal serves the others as long as both numbers fit 32 bits (exact then: Lemire, Kaser and Kurz, "Faster
/// remainder by direct computation", 2019).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    pub(crate) by: u64,
    /// log2 of `by`, or [`Divisor::NO_SHIFT`].
    shift: u32,
    /// ceil(2^64 / by), or 0 where that does not apply.
    reciprocal: u64,
}

impl Divisor {
    const NO_SHIFT: u32 = 64;

    pub(crate) const fn new(by: u64) -> Self {
        let shift = if by.is_power_of_two() { by.trailing_zeros() } else { Self::NO_SHIFT };
        let narrow = by >> 32 == 0 && shift == Self::NO_SHIFT;
        Self { by, shift, reciprocal: if narrow { u64::MAX / by + 1 } else { 0 } }
    }
    /// Quotient and remainder of `n`.
    #[inline]
    pub(crate) const fn split(self, n: u64) -> (u64, u64) {
        if self.shift < Self::NO_SHIFT {
            (n >> self.shift, n & (self.by - 1))
        } else if self.reciprocal != 0 && n >> 32 == 0 {
            let quotient = ((self.reciprocal as u128 * n as u128) >> 64) as u64;
            (quotient, n - quotient * self.by)
        } else {
            (n / self.by, n % self.by)
        }
    }
}

/// What must hold of the arithmetic here, for any numbers: the tests below go through their boundaries, and a verifier proves it.
#[cfg(any(test, kani))]
mod properties {
    use super::*;

    pub(super) fn a_divisor_divides(by: u64, n: u64) {
        assert_eq!(Divisor::new(by).split(n), (n / by, n % by), "{n} / {by}");
    }

    /// Bytes that end within 64 bits touch a run of blocks that begins and ends with them.
    pub(super) fn bytes_touch_their_blocks(offset: u64, bytes: u64) {
        let blocks = Extent::covering(offset, bytes);
        assert_eq!(blocks.start.0, offset / BLOCK_BYTES);
        match bytes.checked_sub(1) {
            None => assert!(blocks.is_empty()),
            Some(more) => assert_eq!(blocks.end() - 1, (offset + more) / BLOCK_BYTES),
        }
    }
}

#[cfg(kani)]
mod proofs {
    use super::properties::*;
    use kani::any;

    /// The way by a shift and the one by a reciprocal, which is where a mistake could hide; 16 bits are what a solver multiplies.
    #[kani::proof]
    fn divisors() {
        a_divisor_divides(u64::from(any::<u16>().max(1)), u64::from(any::<u16>()));
    }

    #[kani::proof]
    fn bytes() {
        let offset: u64 = any();
        bytes_touch_their_blocks(offset, any::<u64>().min(u64::MAX - offset));
    }
}

#[cfg(test)]
mod tests {
    use super::properties::*;
    use super::*;

    #[test]
    fn an_unaligned_byte_range_touches_the_blocks_at_both_ends() {
        assert_eq!(Extent::covering(4095, 2), Extent::new(0, 2));
        assert_eq!(Extent::covering(4096, 4096), Extent::new(1, 1));
        assert_eq!(Extent::covering(8192, 0), Extent::new(2, 0));
    }

    #[test]
    fn a_divisor_divides_as_division_does() {
        let edges = [
            0,
            1,
            2,
            3,
            4,
            5,
            7,
            31,
            32,
            33,
            100,
            (1 << 32) - 1,
            1 << 32,
            (1 << 32) + 1,
            u64::MAX - 1,
            u64::MAX,
        ];
        for by in edges.into_iter().filter(|&by| by != 0) {
            for n in
                edges.into_iter().flat_map(|n| [n, n.wrapping_mul(by), n.wrapping_mul(by).wrapping_sub(1)])
            {
                a_divisor_divides(by, n);
            }
        }
        for (by, n) in (1..300).flat_map(|by| (0..1_000).map(move |n| (by, n))) {
            a_divisor_divides(by, n);
        }
    }

    #[test]
    fn any_bytes_touch_the_blocks_that_they_begin_and_end_in() {
        let near = |at: u64| at.saturating_sub(2)..=at.saturating_add(2);
        for offset in [0, 4096, 8192, 1 << 40, u64::MAX - 4096, u64::MAX - 2].into_iter().flat_map(near) {
            for bytes in [0, 4096, 8192, u64::from(u32::MAX), u64::MAX - 2].into_iter().flat_map(near) {
                bytes_touch_their_blocks(offset, bytes.min(u64::MAX - offset));
            }
        }
    }

    #[test]
    fn disjoint_extents_meet_in_nothing() {
        assert!(Extent::new(0, 4).intersect(Extent::new(9, 2)).is_empty());
        assert_eq!(Extent::new(0, 4).intersect(Extent::new(2, 9)), Extent::new(2, 2));
    }
}
