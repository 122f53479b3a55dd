//! Every counter of a layer, each with its definition (design.md, "Words").

use crate::access::Outcome;

/// How blocks read from a layer were served, and what prefetching did there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Had been read by the layer's clients since they were loaded.
    pub cache_hits: u64,
    /// Loaded by a prefetch, first use.
    pub prefetch_hits: u64,
    /// A prefetch of it was still in flight.
    pub late_hits: u64,
    /// None of these; includes `merged_misses`.
    pub misses: u64,
    /// Misses that joined another's demand read.
    pub merged_misses: u64,
}

impl Outcomes {
    /// Blocks read: every block has exactly one outcome.
    #[must_use]
    pub const fn blocks_read(&self) -> u64 {
        self.cache_hits + self.prefetch_hits + self.late_hits + self.misses
    }

    /// Adds the counts of another layer.
    pub const fn add(&mut self, other: &Self) {
        let Self { cache_hits, prefetch_hits, late_hits, misses, merged_misses } = other;
        self.cache_hits += *cache_hits;
        self.prefetch_hits += *prefetch_hits;
        self.late_hits += *late_hits;
        self.misses += *misses;
        self.merged_misses += *merged_misses;
    }
}

/// Counts one block.
#[inline]
pub(crate) fn tally(outcomes: &mut Outcomes, outcome: Outcome) {
    match outcome {
        Outcome::CacheHit => outcomes.cache_hits += 1,
        Outcome::PrefetchHit => outcomes.prefetch_hits += 1,
        Outcome::LateHit => outcomes.late_hits += 1,
        Outcome::Miss => outcomes.misses += 1,
        Outcome::MergedMiss => {
            outcomes.misses += 1;
            outcomes.merged_misses += 1;
        }
    }
}

/// Sums since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// All blocks read from this layer, read-ahead of a layer above included.
    pub all: Outcomes,
    /// Only the blocks that a program asked for.
    pub program: Outcomes,
    /// Blocks written by clients.
    pub blocks_written: u64,
    /// Blocks whose prefetch was issued.
    pub prefetched: u64,
    /// Those of them that were read before they left (late hits included).
    pub used: u64,
    /// Those of them that left unread, were overwritten unread, or failed to arrive.
    pub wasted: u64,
    /// Blocks read from members for reads.
    pub member_blocks_read: u64,
    /// Blocks read from members to update parity.
    pub member_blocks_read_for_writes: u64,
    /// Blocks written to members, data and parity.
    pub member_blocks_written: u64,
    /// Wishes that a full plan, a spent budget or missing memory dropped, in events.
    pub wishes_dropped: u64,
    /// Accesses that had to wait for memory.
    pub starved: u64,
    /// Blocks whose fetch failed.
    pub blocks_failed: u64,
    /// Blocks of fetches that a write overtook.
    pub stale_blocks: u64,
    /// Prefetched blocks in flight now.
    pub ahead_in_flight: u64,
    /// Most of them at once.
    pub ahead_in_flight_peak: u64,
}

impl Stats {
    /// Adds the counters of another engine, for a host that has several. The peak becomes the sum of the peaks, which the
    /// engines need not have reached at once.
    pub const fn add(&mut self, other: &Self) {
        self.all.add(&other.all);
        self.program.add(&other.program);
        self.blocks_written += other.blocks_written;
        self.prefetched += other.prefetched;
        self.used += other.used;
        self.wasted += other.wasted;
        self.member_blocks_read += other.member_blocks_read;
        self.member_blocks_read_for_writes += other.member_blocks_read_for_writes;
        self.member_blocks_written += other.member_blocks_written;
        self.wishes_dropped += other.wishes_dropped;
        self.starved += other.starved;
        self.blocks_failed += other.blocks_failed;
        self.stale_blocks += other.stale_blocks;
        self.ahead_in_flight += other.ahead_in_flight;
        self.ahead_in_flight_peak += other.ahead_in_flight_peak;
    }
}
