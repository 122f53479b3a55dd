//! What a host can give: memory, prefetches in flight, and bytes a second for them.
//!
//! A host under pressure lowers them and the engine obeys at once: blocks leave, and wishes beyond the limits are dropped as they are
//! beyond any budget. What is dirty, in flight or being copied leaves as soon as it can, and its memory is not used again.

use super::messages::{ACCESS_BLOCKS_MAX, Limits};
use super::parts::Parts;
use crate::access::Context;
use crate::units::{Extent, Nanos};

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
    #[must_use]
    pub fn ahead_budget(&self, now: Nanos) -> u64 {
        let most = self.config.ahead_blocks_max;
        let most = self.limits.ahead_blocks.map_or(most, |limit| limit.min(most));
        let left = most.saturating_sub(self.stats().ahead_in_flight);
        self.limits.ahead_bytes_per_s.map_or(left, |rate| left.min(self.pace.blocks(now, rate)))
    }

    /// The host knows what will be wanted.
    pub(super) fn ahead(&mut self, now: Nanos, context: Context, extent: Extent) {
        self.memory.plan.fetch_for(context, extent);
        self.fulfil_ahead(now, context);
    }

    /// So many have been issued.
    pub(super) fn spend_ahead(&mut self, now: Nanos, blocks: u64) {
        if let Some(rate) = self.limits.ahead_bytes_per_s {
            self.pace.spend(now, rate, blocks);
        }
    }

    /// Blocks are no longer what they were.
    pub(super) fn gone(&mut self, now: Nanos, extent: Extent) {
        self.memory.gone(extent.intersect(Extent::new(0, self.blocks())));
        self.retry_starved(now);
    }
}
