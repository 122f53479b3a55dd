//! What a server counts: the engine's own counters, and what only a host can see. Plain data: `server` fills it in, reports and
//! the control socket read it.

use crate::backend::Lateness;
use crate::behind::{ArrayFigures, BackFigures};
use crate::figures::{Counters, LagFigures, SidesFigures};
use forerun_core::stats::Stats;

/// What one export counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportMetrics {
    /// Its name.
    pub name: String,
    /// Its scheme, in the grammar of every command.
    pub scheme: String,
    /// Its geometry, likewise.
    pub array: String,
    /// Bytes of its volume.
    pub size: u64,
    /// Why it answers with errors only, if it does.
    pub changed: Option<String>,
    /// What its clients asked, and what prefetching came to.
    pub counters: Counters,
    /// What its scheme shows, by name.
    pub gauges: Vec<(&'static str, f64)>,
    /// Blocks of its cache that are in use, and its size.
    pub cache_blocks: (u64, u64),
    /// How its write-back stands, where there is some.
    pub write_back: Option<BackFigures>,
    /// How its array of our own stands, where it is one with redundancy.
    pub raid: Option<ArrayFigures>,
    /// How long reads took, and writes, where there is a live page.
    pub lags: Option<(LagFigures, LagFigures)>,
    /// What readers waited under each of two schemes, where they are tried side by side.
    pub sides: Option<SidesFigures>,
}

/// Sums since the server began, over all exports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Clients that came in, whether or not they got as far as an export.
    pub clients: u64,
    /// Messages that were left out, because more came than could be said.
    pub messages_dropped: u64,
    /// READ requests answered without error.
    pub reads: u64,
    /// WRITE, WRITE_ZEROES and TRIM requests, likewise.
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
    /// The engines' counters.
    pub engine: Stats,
    /// What the scheme of the first export shows, by name.
    pub gauges: Vec<(&'static str, f64)>,
    /// How late emulated members were (of several exports the latest); none where there are none.
    pub lateness: Option<Lateness>,
    /// Blocks of the caches that are in use, and their size.
    pub cache_blocks: (u64, u64),
    /// Each export by itself.
    pub exports: Vec<ExportMetrics>,
}

impl Metrics {
    /// Share of the blocks read that were here: (cache hits + prefetch hits) / blocks read; 0 before the first read.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    pub fn hit_ratio(&self) -> f64 {
        let outcomes = &self.engine.program;
        (outcomes.cache_hits + outcomes.prefetch_hits) as f64 / outcomes.blocks_read().max(1) as f64
    }
}
