//! What `/stats.json` says: the figures of a running server, as types that both ends share.
//!
//! The server writes them, `forerun top` and scripts read them. Sums count since the server began; a reader takes
//! differences. Names are those of every report (blocks of 4 KiB; hit, prefetch hit, late hit, miss). A field is added
//! without a new version, and one that is not there is read as zero; [`VERSION`] changes when one goes or means something else.

pub use crate::behind::{ArrayFigures, BackFigures, WorkFigures};
use crate::live::Asked;
pub use crate::live::{ClientLag, GroupFigures, LagFigures, LagStep, SidesFigures};
use forerun_core::policy::decisions::Told;
use forerun_core::stats::Stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of this shape.
pub const VERSION: u32 = 1;

/// A running server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// [`VERSION`] of the server that wrote it.
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
    /// The most memory that the server takes, bytes: caches, their tables at their largest, and what is beside them.
    pub memory_bound_bytes: u64,
    /// Processor time of the process, nanoseconds, likewise.
    pub cpu_ns: u64,
    /// Messages that were left out, because more came than could be said.
    pub messages_dropped: u64,
    /// Commands of emulated members that their models timed.
    pub emulated_commands: u64,
    /// 99th percentile of how late they came, nanoseconds.
    pub emulated_late_p99_ns: u64,
    /// The exports, in their order.
    pub exports: Vec<ExportFigures>,
}

/// The counters of an export since the server began: what `forerun ctl stats`, `/stats.json` and the summary at the end say
/// alike. In JSON they stand beside the other fields of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// READ requests answered without error.
    pub reads: u64,
    /// WRITE, WRITE_ZEROES and TRIM requests, likewise.
    pub writes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes that READs asked for.
    pub bytes_read: u64,
    /// Bytes that WRITEs brought.
    pub bytes_written: u64,
    /// Blocks that clients read: the sum of the four outcomes.
    pub blocks_read: u64,
    /// Those of them that had been read since they were loaded.
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
    /// Those of them that were read before they left.
    pub used: u64,
    /// Those of them that left unread.
    pub wasted: u64,
}

impl Counters {
    /// Counters made of what clients were answered and of their engine.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for a report")]
    pub(crate) fn new(asked: &Asked, engine: &Stats) -> Self {
        let read = &engine.program;
        let hits = read.cache_hits + read.prefetch_hits;
        Self {
            reads: asked.reads,
            writes: asked.writes,
            errors: asked.errors,
            bytes_read: asked.bytes_read,
            bytes_written: asked.bytes_written,
            blocks_read: read.blocks_read(),
            cache_hits: read.cache_hits,
            prefetch_hits: read.prefetch_hits,
            late_hits: read.late_hits,
            misses: read.misses,
            hit_ratio: hits as f64 / read.blocks_read().max(1) as f64,
            prefetched_blocks: engine.prefetched,
            used: engine.used,
            wasted: engine.wasted,
        }
    }
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
    /// Why nothing of it is answered any more: its members are not what they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// What is not well, in sentences; nothing when all is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// FLUSH and FUA are not offered to clients, since its member has neither.
    pub no_flush: bool,
    /// Blocks that a member could not read; reads of others go round them.
    pub bad_blocks: u64,
    /// Members that owe an answer for 2 s or longer.
    pub hung_members: u64,
    /// Members of which a command took more than 8 times what all but one in a thousand take, in the last 10 s.
    pub slow_members: u64,
    /// How write-back stands, where there is some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_back: Option<BackFigures>,
    /// How its array of our own stands, where it is one with redundancy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<ArrayFigures>,
    /// What clients asked, and what prefetching came to.
    #[serde(flatten)]
    pub counters: Counters,
    /// Bytes of prefetches on their way.
    pub prefetch_in_flight_bytes: u64,
    /// Bytes read from members for reads.
    pub member_bytes_read: u64,
    /// Bytes of the cache in use.
    pub cache_bytes: u64,
    /// Bytes that it may use.
    pub cache_bytes_max: u64,
    /// How reads were answered as a whole, and how long their readers waited. Its name in the file is of the first version.
    #[serde(rename = "fared")]
    pub outcomes: Vec<OutcomeFigures>,
    /// How long reads took.
    pub lag: LagFigures,
    /// How long WRITE, WRITE_ZEROES and TRIM took.
    pub write_lag: LagFigures,
    /// The members.
    pub members: Vec<MemberFigures>,
    /// What the scheme shows, by name.
    pub gauges: BTreeMap<String, f64>,
    /// The last turns of the scheme's switches, oldest first.
    pub decisions: Vec<Told>,
    /// When an operator changed the scheme or a parameter of it, oldest first: the last few.
    pub changes: Vec<ChangeFigures>,
}

/// Another scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeFigures {
    /// Since the server began, nanoseconds; at most half a second late.
    pub at_ns: u64,
    /// The scheme from then on.
    pub scheme: String,
}

/// Reads that were answered alike: by the worst of their blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutcomeFigures {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of an object's fields, in their order.
    fn names(value: &impl Serialize) -> Vec<String> {
        let text = serde_json::to_string(value).expect("json");
        let fields = text.split(['{', ',']).filter_map(|part| part.strip_prefix('"')?.split_once("\":"));
        fields.map(|(name, _)| name.to_owned()).collect()
    }

    const COUNTERS: [&str; 14] = [
        "reads",
        "writes",
        "errors",
        "bytes_read",
        "bytes_written",
        "blocks_read",
        "cache_hits",
        "prefetch_hits",
        "late_hits",
        "misses",
        "hit_ratio",
        "prefetched_blocks",
        "used",
        "wasted",
    ];

    #[test]
    fn the_counters_of_an_export_stand_beside_its_other_fields_in_both_answers() {
        let before = [
            "name",
            "uri",
            "scheme",
            "array",
            "size_bytes",
            "no_flush",
            "bad_blocks",
            "hung_members",
            "slow_members",
        ];
        let after = [
            "prefetch_in_flight_bytes",
            "member_bytes_read",
            "cache_bytes",
            "cache_bytes_max",
            "fared",
            "lag",
            "requests",
            "p50_ns",
            "p95_ns",
            "p99_ns",
            "clients",
            "steps",
            "all",
            "all_waited_ns",
            "write_lag",
            "requests",
            "p50_ns",
            "p95_ns",
            "p99_ns",
            "clients",
            "steps",
            "all",
            "all_waited_ns",
            "members",
            "gauges",
            "decisions",
            "changes",
        ];
        assert_eq!(names(&ExportFigures::default()), [&before[..], &COUNTERS, &after].concat());
        let stats = crate::control::ExportStats::default();
        let ends: [&[&str]; 3] = [&["name", "scheme"], &COUNTERS, &["cache_blocks", "cache_blocks_max"]];
        assert_eq!(names(&stats), ends.concat());
    }

    #[test]
    fn counters_are_read_where_they_stand_and_are_zero_where_they_do_not() {
        let read: ExportFigures =
            serde_json::from_str(r#"{"name":"a","reads":7,"hit_ratio":1,"misses":18446744073709551615}"#)
                .expect("an export");
        assert_eq!((read.counters.reads, read.counters.misses, read.counters.used), (7, u64::MAX, 0));
        assert!((read.counters.hit_ratio - 1.0).abs() < 1e-9 && read.name == "a");
    }
}
