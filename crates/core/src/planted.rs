//! Bugs planted on purpose, to see that the model test finds them. Only with the feature `planted-bugs`, which nothing
//! but `cargo test -p forerun-core --features planted-bugs --test planted_bugs` turns on; without it every question is
//! answered "no" at compile time, and nothing of this is in a product.

/// What can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// An evicted block's slot is free although somebody still copies from it.
    ReleasePinned = 1,
    /// What a write has overtaken enters the cache all the same.
    KeepStale = 2,
    /// Read-modify-write writes data and leaves parity as it was.
    SkipParity = 3,
    /// A destaged block is clean when its write leaves, whether it ends well or not.
    CleanEarly = 4,
    /// Writes of parts of one block do not wait for each other.
    OverlapsIgnored = 5,
    /// A write that waits for another begins when that one begins.
    NextBeginsEarly = 6,
}

#[cfg(feature = "planted-bugs")]
mod choice {
    use super::Bug;
    use core::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// Plants a bug in every engine of this process, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(0, |bug| bug as u8), Ordering::SeqCst);
    }
    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.load(Ordering::SeqCst) == bug as u8
    }
}

#[cfg(not(feature = "planted-bugs"))]
mod choice {
    pub(crate) const fn is(_bug: super::Bug) -> bool {
        false
    }
}

pub(crate) use choice::is;
#[cfg(feature = "planted-bugs")]
pub use choice::plant;
