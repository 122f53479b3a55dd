//! Bitmaps over the data blocks of one stripe, as plain slices of words.
//!
//! Bit `k` of a stripe's bitmap stands for its `k`-th data block in address order, so strip `i` owns the bits
//! `[i·B, (i+1)·B)` for B blocks per strip. Callers keep the words (a cache line's own state); this module only finds
//! runs in them, a word at a time.

/// Whether bit `at` is set.
pub(super) fn get(words: &[u64], at: u64) -> bool {
    words[(at / 64) as usize] >> (at % 64) & 1 != 0
}

/// The first bit at or after `from` that is set (`value`) or clear, or `limit` when there is none before it.
fn find(words: &[u64], value: bool, from: u64, limit: u64) -> u64 {
    let flip = if value { 0 } else { u64::MAX };
    let mut at = from;
    while at < limit {
        let rest = (words[(at / 64) as usize] ^ flip) >> (at % 64);
        if rest != 0 {
            return limit.min(at + u64::from(rest.trailing_zeros()));
        }
        at = (at / 64 + 1) * 64;
    }
    limit
}

/// The first set bit in `[from, limit)`, or `limit`.
pub(super) fn next_set(words: &[u64], from: u64, limit: u64) -> u64 {
    find(words, true, from, limit)
}

/// The end of the run of bits equal to bit `from`, at most `limit`. `from < limit`.
pub(super) fn run_end(words: &[u64], from: u64, limit: u64) -> u64 {
    find(words, !get(words, from), from, limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_found_as_bit_by_bit(words in prop::collection::vec(prop_oneof![Just(0), Just(u64::MAX), any::<u64>()], 1..4),
                                        from in 0_u64..256, limit in 0_u64..256) {
            let limit = limit.min(words.len() as u64 * 64);
            let from = from.min(limit);
            let bits: Vec<bool> = (0..limit).map(|k| get(&words, k)).collect();
            let naive = (from..limit).find(|&k| bits[k as usize]).unwrap_or(limit);
            prop_assert_eq!(next_set(&words, from, limit), naive);
            if from < limit {
                let naive = (from..limit).find(|&k| bits[k as usize] != bits[from as usize]).unwrap_or(limit);
                prop_assert_eq!(run_end(&words, from, limit), naive);
            }
        }
    }
}
