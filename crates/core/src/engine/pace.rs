//! A rate, as a time: how many blocks may be issued now so that no more than so many bytes a second are.

use crate::units::{BLOCK_BYTES, Nanos};

/// Prefetches may run ahead of their rate by what it moves in this time: a wish is not cut because it is a burst.
const BURST: Nanos = Nanos::from_millis(100);

/// Bytes a second, as a time before which what has been issued should not have been.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    due: Nanos,
}

impl Pace {
    /// Blocks that may be issued at `now`.
    pub(super) fn blocks(&self, now: Nanos, bytes_per_s: u64) -> u64 {
        let room = (now + BURST).since(self.due.max(now));
        u64::try_from(u128::from(room.0) * u128::from(bytes_per_s) / SECOND_OF_BLOCKS).unwrap_or(u64::MAX)
    }
    /// So many have been.
    pub(super) fn spend(&mut self, now: Nanos, bytes_per_s: u64, blocks: u64) {
        let took = u128::from(blocks) * SECOND_OF_BLOCKS / u128::from(bytes_per_s.max(1));
        self.due = self.due.max(now) + Nanos(u64::try_from(took).unwrap_or(u64::MAX));
    }
}

/// Bytes of a block times nanoseconds of a second.
const SECOND_OF_BLOCKS: u128 = BLOCK_BYTES as u128 * 1_000_000_000;
