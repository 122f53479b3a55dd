//! A tiny host without input or output, for tests of the engine: members, slots and staging memory hold one word a block.
//!
//! A word says which block it is and which write made it, so every answer can be judged. Parity is computed in those
//! words byte by byte over GF(2^8), with a multiplication of its own. Whatever may happen in any order is drawn from one
//! seeded generator: when a command ends, whether its data moves when it leaves or when it ends, when an answer is
//! released, which member fails. [`host`] executes outputs, [`model`] knows what may be answered, [`schemes`] builds layers. Where bytes do not matter a test has
//! its engine by [`hand`].
#![allow(dead_code, reason = "each test binary uses its part of the support")]

pub(crate) mod assembly;
pub(crate) mod hand;
pub(crate) mod host;
pub(crate) mod model;
pub(crate) mod runs;
pub(crate) mod schemes;

/// Seeded generator (SplitMix64): the same seed, the same run.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    pub(crate) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Memory that holds nothing yet.
pub(crate) const POISON: u64 = u64::MAX;

/// Content of `block` as made by write number `version` (0: as it was before all writes).
pub(crate) const fn word(block: u64, version: u32) -> u64 {
    (block + 1) << 32 | version as u64
}

/// `factor · word` over GF(2^8), byte by byte: shift and add, unlike the tables under test.
pub(crate) fn scaled(factor: u8, word: u64) -> u64 {
    let mut bytes = word.to_le_bytes();
    for byte in &mut bytes {
        let (mut a, mut b, mut sum) = (factor, *byte, 0);
        while a != 0 {
            if a & 1 != 0 {
                sum ^= b;
            }
            b = b << 1 ^ if b & 0x80 != 0 { 0x1d } else { 0 };
            a >>= 1;
        }
        *byte = sum;
    }
    u64::from_le_bytes(bytes)
}
