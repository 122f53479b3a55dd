//! What the harnesses use of Kani where Kani is not: values are drawn instead of meant all at once. This proves nothing. It shows that the
//! harnesses compile, and that what they claim is so for the values that were drawn (`scripts/prove.sh`).

use std::cell::Cell;

pub use kani_macros::{proof, unwind};

/// Runs of each harness.
const RUNS: u32 = 20_000;

thread_local!(static STATE: Cell<u64> = const { Cell::new(1) });

/// SplitMix64.
fn random() -> u64 {
    let state = STATE.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
    STATE.set(state);
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Runs a harness as often as it takes to see something.
pub fn often(harness: fn()) {
    for _ in 0..RUNS {
        harness();
    }
}

/// A type that can be drawn.
pub trait Drawn {
    fn drawn() -> Self;
}

macro_rules! drawn {
    ($($number:ty)*) => {$(
        impl Drawn for $number {
            /// Of any length in bits, and one in four counted from the largest down, so that boundaries come.
            fn drawn() -> Self {
                let kept = (random() % u64::from(Self::BITS)) as u32;
                let value = (random() as Self) >> kept;
                if random() % 4 == 0 { Self::MAX - value } else { value }
            }
        }
    )*};
}
drawn!(u8 u16 u32 u64);

/// Any value.
pub fn any<T: Drawn>() -> T {
    T::drawn()
}
