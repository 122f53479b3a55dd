//! Numbers of a few bits each, one behind the other in words.

/// Bits of a word.
pub(super) const WORD: u32 = u64::BITS;

/// How many bits a number takes.
pub(super) const fn bits(number: u64) -> u32 {
    WORD - number.leading_zeros()
}

/// The lowest `width` bits.
const fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (WORD - width) }
}

/// The number of `width` bits that begins at a bit.
pub(super) const fn get(words: &[u64], bit: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (word, shift) = (bit / WORD as usize, bit as u32 % WORD);
    let low = words[word] >> shift;
    let high = if shift + width > WORD { words[word + 1] << (WORD - shift) } else { 0 };
    (low | high) & mask(width)
}

/// Writes it there; it must fit.
pub(super) const fn put(words: &mut [u64], bit: usize, width: u32, number: u64) {
    if width == 0 {
        return;
    }
    let (word, shift) = (bit / WORD as usize, bit as u32 % WORD);
    words[word] = words[word] & !(mask(width) << shift) | number << shift;
    if shift + width > WORD {
        let over = WORD - shift;
        words[word + 1] = words[word + 1] & !(mask(width) >> over) | number >> over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_is_put_is_got_and_neighbours_stay() {
        for width in 0..=WORD {
            let count = 3 * WORD as usize;
            let mut words = vec![0; (count * width as usize).div_ceil(WORD as usize) + 1];
            let number = |n: usize| (n as u64).wrapping_mul(crate::hash::SPREAD) & mask(width);
            for n in (0..count).rev() {
                put(&mut words, n * width as usize, width, mask(width));
            }
            for n in 0..count {
                put(&mut words, n * width as usize, width, number(n));
            }
            for n in 0..count {
                assert_eq!(get(&words, n * width as usize, width), number(n), "{n} of {width} bits");
            }
        }
        assert_eq!([0, 1, 255, 256, u64::MAX].map(bits), [0, 1, 8, 9, 64]);
    }
}
