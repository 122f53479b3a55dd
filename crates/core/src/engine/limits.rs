//! What a host can give: memory, prefetches in flight, and bytes a second for them.
//!
//! A host under pressure lowers them and the engine obeys at once: blocks leave, and wishes beyond the limits are dropped as they are
//! beyond any budget. What is dirty, in flight or being copied leaves as soon as it can, and its memory is not used again.

use super::messages::{ACCESS_BLOCKS_MAX, Limits};
use super::parts::Parts;
use crate::units::{BLOCK_BYTES, Extent, Nanos};

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

impl Parts {
    /// From now on the host gives this much.
    pub(super) fn limit(&mut self, now: Nanos, limits: Limits) {
        self.limits = limits;
        let made = self.config.cache_blocks;
        let least = made.min(2 * ACCESS_BLOCKS_MAX);
        let memory = limits.memory_blocks.map_or(made, |most| most.clamp(least, made));
        self.memory.set_capacity(memory);
        self.make_room(now, 0);
        self.retry_starved(now);
    }

    /// Prefetched blocks that may be issued now.
    pub(super) fn ahead_budget(&self, now: Nanos) -> u64 {
        let most = self.config.ahead_blocks_max;
        let most = self.limits.ahead_blocks.map_or(most, |limit| limit.min(most));
        let left = most.saturating_sub(self.stats().ahead_in_flight);
        self.limits.ahead_bytes_per_s.map_or(left, |rate| left.min(self.pace.blocks(now, rate)))
    }

    /// So many have been issued.
    pub(super) fn spend_ahead(&mut self, now: Nanos, blocks: u64) {
        if let Some(rate) = self.limits.ahead_bytes_per_s {
            self.pace.spend(now, rate, blocks);
        }
    }

    /// Blocks are no more what they were.
    pub(super) fn gone(&mut self, now: Nanos, extent: Extent) {
        self.memory.gone(extent.intersect(Extent::new(0, self.blocks())));
        self.retry_starved(now);
    }
}
