//! Numbers in few bytes: groups of them, each number as far above the least of its group as it lies, in as many bytes as the farthest
//! needs.
//!
//! ```text
//!   1,000,007  1,000,250  1,000,007  …        least 1,000,007, a byte each:  0  243  0  …
//! ```
//!
//! Times of requests that follow one another take three or four bytes, numbers that are all the same none. Any of them is found at once.

/// Numbers of a group: few enough to lie near one another, enough that what is noted of a group is a tenth of a byte for each.
const GROUP: usize = 256;
/// What a number is read with, at once: so many bytes stand behind the last one.
const WORD: usize = size_of::<u64>();

/// A group that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    least: u64,
    /// Its first byte.
    start: usize,
    /// Bytes of each number, 0 to 8.
    width: u8,
}

/// By that, the bits of a number.
const MASKS: [u64; WORD + 1] = {
    let mut masks = [u64::MAX; WORD + 1];
    let mut width = 0;
    while width < WORD {
        masks[width] = (1 << (8 * width)) - 1;
        width += 1;
    }
    masks
};

/// Numbers in the order in which they came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    groups: Vec<Group>,
    /// Their numbers, little-endian, and a word of nothing.
    bytes: Vec<u8>,
    /// The group that is not full.
    last: Vec<u64>,
}

impl Default for Packed {
    fn default() -> Self {
        Self { groups: Vec::new(), bytes: vec![0; WORD], last: Vec::new() }
    }
}

impl Packed {
    /// One more.
    #[inline]
    pub fn push(&mut self, value: u64) {
        self.last.push(value);
        if self.last.len() == GROUP {
            self.seal();
        }
    }

    fn seal(&mut self) {
        let (mut least, mut most) = (u64::MAX, 0);
        for &value in &self.last {
            least = if value < least { value } else { least };
            most = if value > most { value } else { most };
        }
        // At most 8.
        let width = (u64::BITS - (most - least).leading_zeros()).div_ceil(8) as u8;
        let start = self.bytes.len() - WORD;
        self.bytes.resize(start + GROUP * usize::from(width) + WORD, 0);
        let mut from = start;
        for &value in &self.last {
            // A whole word each: the next one begins within the nothing above it.
            self.bytes[from..from + WORD].copy_from_slice(&(value - least).to_le_bytes());
            from += usize::from(width);
        }
        self.last.clear();
        self.groups.push(Group { least, start, width });
    }

    /// How many there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.groups.len() * GROUP + self.last.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        let Some(group) = self.groups.get(at / GROUP) else { return self.last[at % GROUP] };
        let width = usize::from(group.width);
        let from = group.start + at % GROUP * width;
        let word = self.bytes[from..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        group.least + (word & MASKS[width])
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }

    /// Gives back what was taken for growing.
    pub fn fit(&mut self) {
        self.groups.shrink_to_fit();
        self.bytes.shrink_to_fit();
        self.last.shrink_to_fit();
    }

    /// How many bytes its numbers take.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.len() + size_of_val(&self.groups[..]) + size_of_val(&self.last[..])
    }
}

/// A bit for each number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// Sets a bit; those that never were are not set.
    pub fn set(&mut self, at: usize) {
        let word = at / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (at % 64);
    }

    /// Clears those that are set in another list.
    pub fn clear(&mut self, of: &Self) {
        self.0.iter_mut().zip(&of.0).for_each(|(word, gone)| *word &= !gone);
    }

    /// Whether it is set.
    #[must_use]
    #[inline]
    pub fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_out_as_they_went_in(
            runs in prop::collection::vec((any::<u64>(), 0..=64_u32, 1..400_usize), 0..6),
        ) {
            let far = |least: u64, bits: u32, at: u64| {
                let mixed = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                least.saturating_add(mixed.checked_shr(u64::BITS - bits).unwrap_or(0))
            };
            let numbers: Vec<u64> = runs
                .iter()
                .flat_map(|&(least, bits, count)| (0..count as u64).map(move |at| far(least, bits, at)))
                .collect();
            let mut packed = Packed::default();
            numbers.iter().for_each(|&number| packed.push(number));
            packed.fit();
            prop_assert_eq!(packed.len(), numbers.len());
            prop_assert_eq!(packed.iter().collect::<Vec<u64>>(), numbers);
        }
    }

    #[test]
    fn what_lies_near_takes_few_bytes_and_what_is_the_same_none() {
        let bytes = |of: fn(u64) -> u64| {
            let mut packed = Packed::default();
            (0..256_000).for_each(|at| packed.push(of(at)));
            packed.held() as f64 / 256_000.0
        };
        assert!(bytes(|_| u64::MAX) < 0.11);
        assert!(bytes(|at| (1 << 60) + at * 200_000) < 4.11, "a request each fifth of a millisecond");
        assert!(bytes(|at| at) < 1.11);
        assert!(bytes(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15)) < 8.11);
    }
}
