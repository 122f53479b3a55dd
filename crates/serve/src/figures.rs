//! What `/stats.json` says: the figures of a running server, as types that both ends share.
//!
//! The server writes them, `forerun top` and scripts read them. Sums count since the server began; a reader takes
//! differences. Names are those of every report (blocks of 4 KiB; hit, prefetch hit, late hit, miss). A field is added
//! without a new version, and one that is not there is read as zero; [`VERSION`] changes when one goes or means something else.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of this shape.
pub const VERSION: u32 = 1;

/// A running server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// [`VERSION`] of who wrote it.
    pub version: u32,
    /// Version of the server's program.
    pub forerun: String,
    /// Nanoseconds since the server began.
    pub now_ns: u64,
    /// Clients that came in so far.
    pub clients: u64,
    /// Clients that are served now.
    pub connections: u64,
    /// Resident memory of the process, bytes; 0 where the system does not say.
    pub resident_bytes: u64,
    /// Processor time of the process, nanoseconds, likewise.
    pub cpu_ns: u64,
    /// Commands of emulated members that their models timed.
    pub emulated_commands: u64,
    /// 99th percentile of how late they came, nanoseconds.
    pub emulated_late_p99_ns: u64,
    /// The exports, in their order.
    pub exports: Vec<ExportFigures>,
}

/// One export.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportFigures {
    /// Its name; the first export's may be empty.
    pub name: String,
    /// What clients are to be told.
    pub uri: String,
    /// Its scheme, in the grammar of every command.
    pub scheme: String,
    /// Its geometry, likewise.
    pub array: String,
    /// Bytes of its volume.
    pub size_bytes: u64,
    /// READ requests answered without error.
    pub reads: u64,
    /// WRITE requests, likewise.
    pub writes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes that READs asked for.
    pub bytes_read: u64,
    /// Bytes that WRITEs brought.
    pub bytes_written: u64,
    /// Blocks that clients read: the sum of the four outcomes.
    pub blocks_read: u64,
    /// Of them, had been read since they were loaded.
    pub cache_hits: u64,
    /// Loaded by a prefetch, first use.
    pub prefetch_hits: u64,
    /// Their prefetch was still in flight.
    pub late_hits: u64,
    /// None of these.
    pub misses: u64,
    /// (cache hits + prefetch hits) / blocks read; 0 before the first read.
    pub hit_ratio: f64,
    /// Blocks whose prefetch was issued.
    pub prefetched_blocks: u64,
    /// Of them, read before they left.
    pub used: u64,
    /// Of them, left unread.
    pub wasted: u64,
    /// Of them, on their way, bytes.
    pub prefetch_in_flight_bytes: u64,
    /// Bytes read from members for reads.
    pub member_bytes_read: u64,
    /// Bytes of the cache in use.
    pub cache_bytes: u64,
    /// Bytes that it may use.
    pub cache_bytes_max: u64,
    /// How reads fared as a whole, and how long their readers waited.
    pub fared: Vec<FaredFigures>,
    /// The members.
    pub members: Vec<MemberFigures>,
    /// What the scheme shows, by name.
    pub gauges: BTreeMap<String, f64>,
    /// The last turns of the scheme's switches, oldest first.
    pub decisions: Vec<DecisionFigures>,
}

/// Reads that fared alike: by the worst of their blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaredFigures {
    /// `cache_hit`, `prefetch_hit`, `late_hit`, `miss`, or `starved`: waited for memory before anything was looked up.
    pub how: String,
    /// Reads; a request over 1 MiB is several.
    pub reads: u64,
    /// From asking to answer, summed over readers, nanoseconds. The loop's time: an answer of the same turn took none.
    pub waited_ns: u64,
}

/// One member: a disk as the geometry has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberFigures {
    /// Where its bytes are.
    pub name: String,
    /// The preset whose timing it has, if it is emulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulates: Option<String>,
    /// Commands in flight.
    pub queue: u64,
    /// Reads that have ended.
    pub reads: u64,
    /// Writes, likewise.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Of an emulated member, commands whose first cylinder differed from the head's; of another, commands that did not
    /// begin where the one before ended.
    pub seeks: u64,
    /// Time with a command in flight, nanoseconds.
    pub busy_ns: u64,
    /// From leaving to end, summed over commands, nanoseconds.
    pub took_ns: u64,
}

/// A turn of a switch of the scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DecisionFigures {
    /// When, nanoseconds since the server began.
    pub at_ns: u64,
    /// Which part of the scheme.
    pub switch: String,
    /// How often it had turned, this turn included.
    pub turn: u64,
    /// Whether it prefetches from now on.
    pub on: bool,
    /// Why.
    pub reason: String,
    /// From which numbers.
    pub because: BTreeMap<String, u64>,
}
