//! A seedless hasher for block and line numbers, so that a map behaves alike on every machine and in every run.
//!
//! Maps keyed by numbers are only ever looked up, never iterated: hash order must not reach a decision.

use core::hash::{BuildHasherDefault, Hasher};

/// Odd multiplier, 2^64 divided by the golden ratio: spreads consecutive numbers over the high bits.
pub(crate) const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hashes one integer by multiply and fold.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, n: u64) {
        let wide = u128::from(n ^ self.0.rotate_left(23)) * u128::from(SPREAD);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are folded together")]
        let folded = (wide as u64) ^ ((wide >> 64) as u64);
        self.0 = folded;
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
}

/// A map from numbers; never iterate it where the order could reach an output.
pub type NumberMap<V> = hashbrown::HashMap<u64, V, BuildHasherDefault<NumberHasher>>;
