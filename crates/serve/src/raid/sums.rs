//! Sums over GF(2^8), block by block: what parity is made of, and what is lost made of the rest.
//!
//! A sum has terms `factor · block` ([`forerun_core::array`]); a factor of 1 is XOR. Multiplication goes bit by bit of the factor, over runs of eight
//! bytes each, which a compiler makes wide instructions of. It does so for several kinds of processors, and the first call looks which one this is: the same
//! lines for all, and none written for one.

/// The polynomial of the field without its highest term, in each of eight bytes.
const POLYNOMIAL: u64 = 0x1d1d_1d1d_1d1d_1d1d;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// Words that are multiplied together: what registers and the nearest cache take.
const RUN: usize = 64;

/// Eight elements doubled.
const fn double(eight: u64) -> u64 {
    let carries = (eight & HIGH) >> 7;
    // 0xff in each byte that carries.
    let mask = (carries << 8).wrapping_sub(carries);
    ((eight & !HIGH) << 1) ^ (mask & POLYNOMIAL)
}

/// Adds `factor · source` to `target`; both are as long, a multiple of eight.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn add(target: &mut [u8], source: &[u8], factor: u8) {
    add_anywhere(target, source, factor);
}

/// The same by the instructions of whoever calls it.
#[inline(always)]
fn add_anywhere(target: &mut [u8], source: &[u8], factor: u8) {
    let (to, _) = target.as_chunks_mut::<8>();
    let (from, _) = source.as_chunks::<8>();
    if factor == 1 {
        for (to, from) in to.iter_mut().zip(from) {
            *to = (u64::from_ne_bytes(*to) ^ u64::from_ne_bytes(*from)).to_ne_bytes();
        }
        return;
    }
    let bits = 8 - factor.leading_zeros();
    for (to, from) in to.chunks_mut(RUN).zip(from.chunks(RUN)) {
        let mut products = [0_u64; RUN];
        for bit in (0..bits).rev() {
            let mask = 0_u64.wrapping_sub(u64::from(factor >> bit & 1));
            for (product, from) in products.iter_mut().zip(from) {
                *product = double(*product) ^ (u64::from_ne_bytes(*from) & mask);
            }
        }
        for (to, product) in to.iter_mut().zip(products) {
            *to = (u64::from_ne_bytes(*to) ^ product).to_ne_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::array::gf::mul;

    /// Gigabytes a second of a sum over blocks of 64 KiB that stay in the nearest caches.
    fn rate(factor: u8, add: impl Fn(&mut [u8], &[u8], u8)) -> f64 {
        let (mut target, source) = (vec![0_u8; 64 << 10], vec![7_u8; 64 << 10]);
        let begun = std::time::Instant::now();
        let mut bytes = 0_u64;
        while begun.elapsed().as_millis() < 300 {
            (0..64).for_each(|_| add(std::hint::black_box(&mut target), &source, factor));
            bytes += 64 * source.len() as u64;
        }
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let bytes = bytes as f64;
        bytes / begun.elapsed().as_secs_f64() / 1e9
    }

    /// What the choice of instructions earns.
    #[test]
    #[ignore = "a measurement: cargo test --release -p forerun-serve how_fast -- --ignored --nocapture"]
    #[expect(clippy::print_stderr, reason = "figures are for whoever asked for them")]
    fn how_fast_sums_are() {
        for (what, factor) in [("XOR", 1), ("times 2", 2), ("times 0x8e", 0x8e)] {
            let (chosen, plain) = (rate(factor, add), rate(factor, add_anywhere));
            eprintln!("{what:<10} {chosen:6.1} GB/s, {plain:6.1} by what every processor of this kind has");
        }
    }

    #[test]
    fn sums_are_those_of_the_field_for_every_factor_and_byte() {
        let source: Vec<u8> = (0..=255).collect();
        for factor in 0..=255 {
            let mut target: Vec<u8> = (0..=255).rev().collect();
            add(&mut target, &source, factor);
            for (at, &sum) in target.iter().enumerate() {
                assert_eq!(sum, (255 - at as u8) ^ mul(factor, at as u8), "{factor} * {at}");
            }
        }
    }
}
