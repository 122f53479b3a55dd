//! What a server counts: the engine's own counters, and what only a host can see.

use crate::backend::Lateness;
use crate::volume::Volume;
use forerun_core::stats::Stats;

/// Sums since the server began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Clients that came in, whether or not they got as far as an export.
    pub clients: u64,
    /// READ requests answered without error.
    pub reads: u64,
    /// WRITE requests, likewise.
    pub writes: u64,
    /// FLUSH requests, likewise.
    pub flushes: u64,
    /// CACHE requests that were taken as hints.
    pub hints: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes that READs asked for.
    pub bytes_read: u64,
    /// Bytes that WRITEs brought.
    pub bytes_written: u64,
    /// Reads sent to members.
    pub member_reads: u64,
    /// Writes sent to members.
    pub member_writes: u64,
    /// Member commands and syncs that failed.
    pub member_errors: u64,
    /// Failed reads that succeeded block by block.
    pub rescued: u64,
    /// Syncs of all members.
    pub syncs: u64,
    /// The engine's counters.
    pub engine: Stats,
    /// What the scheme shows, by name.
    pub gauges: Vec<(&'static str, f64)>,
    /// How late emulated members were; none where there are none.
    pub lateness: Option<Lateness>,
    /// Blocks of the cache that are in use, and its size.
    pub cache_blocks: (u64, u64),
}

impl Metrics {
    /// Takes the volume's figures over.
    pub(crate) fn take(&mut self, volume: &mut Volume) {
        let counts = volume.counts;
        self.member_reads = counts.member_reads;
        self.member_writes = counts.member_writes;
        self.member_errors = counts.member_errors;
        self.rescued = counts.rescued;
        self.syncs = counts.syncs;
        self.engine = *volume.engine().stats();
        let slots = &volume.engine().cache().slots;
        self.cache_blocks = (slots.taken(), slots.capacity());
        self.lateness = volume.lateness();
        self.gauges.clear();
        volume.gauges(&mut self.gauges);
    }

    /// Share of the blocks read that were here: (cache hits + prefetch hits) / blocks read; 0 before the first read.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    pub fn hit_ratio(&self) -> f64 {
        let outcomes = &self.engine.program;
        (outcomes.cache_hits + outcomes.prefetch_hits) as f64 / outcomes.blocks_read().max(1) as f64
    }
}
