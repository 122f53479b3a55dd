//! Seeded randomness of the simulator: one tiny generator, and the draws that workloads need.
//!
//! The generator is `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): eight bytes of state, a few instructions
//! per draw, and any two streams split off with different tags are unrelated for our purposes. It is here and
//! not a dependency because the stream is part of the contract: the same seed must give the same requests in
//! every version and on every machine. Integer draws are exact (rejection, no modulo bias); the few continuous
//! ones go through `libm`, which is software and so the same everywhere.

/// Increment of the generator: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// What a probability is counted in: parts of a million.
pub const MILLION: u64 = 1_000_000;

/// A stream of random numbers. Cloning it clones the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

/// The output function of `SplitMix64`.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number that looks unrelated to `number`, the same on every machine.
pub(crate) const fn scramble(number: u64) -> u64 {
    mix(number.wrapping_add(GOLDEN))
}

impl Rng {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream of its own for `tag`, which does not disturb this one.
    #[must_use]
    pub const fn split(&self, tag: u64) -> Self {
        Self { state: mix(self.state ^ mix(tag.wrapping_add(GOLDEN))) }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number in `[0, n)`, each equally likely (Lemire's multiply and reject).
    ///
    /// # Panics
    /// When `n` is zero: there is no such number.
    pub const fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a draw needs something to draw from");
        loop {
            let product = self.next_u64() as u128 * n as u128;
            let low = product as u64;
            // Reject the first 2^64 mod n of each bucket; the cheap test spares the division nearly always.
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 64) as u64;
            }
        }
    }

    /// True `millionths` times in a million. Draws nothing for a certainty, so that an unused option leaves
    /// the stream as it was.
    pub const fn chance(&mut self, millionths: u64) -> bool {
        match millionths {
            0 => false,
            MILLION.. => true,
            _ => self.below(MILLION) < millionths,
        }
    }

    /// A number in `(0, 1]`, a multiple of 2^-53.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A draw from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

/// Draws ranks `0..n` with probability proportional to `1 / (rank + 1)^theta`, in constant time and memory, by
/// rejection-inversion (Hörmann and Derflinger, ACM TOMACS 6(3), 1996).
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    /// `H(1.5) - 1`, the upper end of the area drawn from.
    area_high: f64,
    /// `H(n + 1/2)`, its lower end (H grows with x; the draw runs from here).
    area_low: f64,
    /// Ranks this close to their x are accepted without evaluating h.
    squeeze: f64,
}

/// `ln(1 + x) / x`, continuous at 0.
fn log1p_over(x: f64) -> f64 {
    if libm::fabs(x) > 1e-8 { libm::log1p(x) / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

/// `(e^x - 1) / x`, continuous at 0.
fn expm1_over(x: f64) -> f64 {
    if libm::fabs(x) > 1e-8 { libm::expm1(x) / x } else { 1.0 + x * 0.5 * (1.0 + x / 3.0) }
}

/// Integral of `h` from 1 to `x`.
fn area(x: f64, theta: f64) -> f64 {
    let log = libm::log(x);
    expm1_over((1.0 - theta) * log) * log
}

/// Where the integral of `h` is `y`.
fn area_inverse(y: f64, theta: f64) -> f64 {
    let t = (y * (1.0 - theta)).max(-1.0);
    libm::exp(log1p_over(t) * y)
}

/// The density before it is normalised: `x^-theta`.
fn h(x: f64, theta: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

#[expect(clippy::cast_precision_loss, reason = "ranks are block counts, far below 2^53")]
impl Zipf {
    /// The distribution over `n` ranks with exponent `theta` in thousandths (990 = 0.99; 0 = uniform).
    ///
    /// # Panics
    /// When `n` is zero.
    #[must_use]
    pub fn new(n: u64, theta_milli: u64) -> Self {
        assert!(n > 0, "a draw needs something to draw from");
        let theta = theta_milli as f64 / 1000.0;
        Self {
            n,
            theta,
            area_high: area(1.5, theta) - 1.0,
            area_low: area(n as f64 + 0.5, theta),
            squeeze: 2.0 - area_inverse(area(2.5, theta) - h(2.0, theta), theta),
        }
    }

    /// The next rank, 0 the most frequent.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 1..=n")]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        if self.theta == 0.0 {
            return rng.below(self.n);
        }
        loop {
            let u = self.area_low + rng.unit() * (self.area_high - self.area_low);
            let x = area_inverse(u, self.theta);
            let k = libm::floor(x + 0.5).clamp(1.0, self.n as f64);
            if k - x <= self.squeeze || u >= area(k + 0.5, self.theta) - h(k, self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn a_draw_below_n_reaches_every_number_about_equally_often() {
        let mut rng = Rng::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
    }

    #[test]
    fn certainties_leave_the_stream_alone() {
        let mut rng = Rng::new(7);
        assert!(!rng.chance(0) && rng.chance(MILLION));
        assert_eq!(rng, Rng::new(7));
    }

    #[test]
    fn streams_of_different_tags_differ_and_splitting_draws_nothing() {
        let rng = Rng::new(1);
        let (mut a, mut b) = (rng.split(0), rng.split(1));
        assert_ne!(a.next_u64(), b.next_u64());
        assert_eq!(rng, Rng::new(1));
    }

    #[test]
    fn zipf_ranks_follow_the_power_law() {
        for theta in [500_u64, 990, 1000, 1500] {
            let zipf = Zipf::new(1000, theta);
            let mut rng = Rng::new(3);
            let mut counts = vec![0_f64; 1000];
            for _ in 0..200_000 {
                counts[zipf.draw(&mut rng) as usize] += 1.0;
            }
            let s = theta as f64 / 1000.0;
            let norm: f64 = (1..=1000).map(|k| libm::pow(f64::from(k), -s)).sum();
            for rank in [1_u32, 2, 3, 10] {
                let expected = 200_000.0 * libm::pow(f64::from(rank), -s) / norm;
                let got = counts[rank as usize - 1];
                assert!(
                    (got - expected).abs() < 5.0 * libm::sqrt(expected),
                    "{theta} {rank} {got} {expected}"
                );
            }
        }
    }

    #[test]
    fn normal_draws_have_mean_zero_and_variance_one() {
        let mut rng = Rng::new(11);
        let draws: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
