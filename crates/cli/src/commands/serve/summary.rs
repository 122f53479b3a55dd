//! What a server did, said when it ends: a line for each export where there are several, and one for all.
//!
//! Shares are shares of the blocks that clients read, so that they can be added; amounts have a rate and the time in which they
//! came about.

use forerun_core::units::BLOCK_BYTES;
use forerun_serve::{ExportMetrics, Metrics};
use forerun_study::human::{self, float};
use forerun_study::reasons::Without;
use serde::Serialize;
use std::time::Duration;

/// All of it, for `--json` too.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    /// Since clients could come.
    elapsed_ns: u64,
    clients: u64,
    flushes: u64,
    hints: u64,
    errors: u64,
    #[serde(flatten)]
    all: Counted,
    member_reads: u64,
    member_writes: u64,
    member_blocks_read: u64,
    member_errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    emulated_late_p99_us: Option<u64>,
    /// Each export by itself, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exports: Vec<Named>,
}

/// One export.
#[derive(Debug, Serialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    counted: Counted,
}

/// What clients asked of one export or of all, and what prefetching came to.
#[derive(Debug, Default, Serialize)]
struct Counted {
    reads: u64,
    writes: u64,
    bytes_read: u64,
    bytes_written: u64,
    blocks_read: u64,
    cache_hits: u64,
    prefetch_hits: u64,
    late_hits: u64,
    misses: u64,
    hit_ratio: f64,
    prefetched_blocks: u64,
    used: u64,
    wasted: u64,
    /// Where `auto` serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    without: Option<Without>,
}

impl Summary {
    pub(super) fn new(metrics: &Metrics, elapsed: Duration) -> Self {
        let engine = &metrics.engine;
        let outcomes = &engine.program;
        let named =
            |export: &ExportMetrics| Named { name: export.name.clone(), counted: Counted::of(export) };
        let several = metrics.exports.len() > 1;
        Self {
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            clients: metrics.clients,
            flushes: metrics.flushes,
            hints: metrics.hints,
            errors: metrics.errors,
            all: Counted {
                reads: metrics.reads,
                writes: metrics.writes,
                bytes_read: metrics.bytes_read,
                bytes_written: metrics.bytes_written,
                blocks_read: outcomes.blocks_read(),
                cache_hits: outcomes.cache_hits,
                prefetch_hits: outcomes.prefetch_hits,
                late_hits: outcomes.late_hits,
                misses: outcomes.misses,
                hit_ratio: metrics.hit_ratio(),
                prefetched_blocks: engine.prefetched,
                used: engine.used,
                wasted: engine.wasted,
                without: Without::of(metrics.gauges.iter().copied()).filter(|_| !several),
            },
            member_reads: metrics.member_reads,
            member_writes: metrics.member_writes,
            member_blocks_read: engine.member_blocks_read,
            member_errors: metrics.member_errors,
            emulated_late_p99_us: metrics.lateness.map(|late| late.p99.0 / 1000),
            exports: if several { metrics.exports.iter().map(named).collect() } else { Vec::new() },
        }
    }

    /// The same for a person.
    pub(super) fn lines(&self) -> Vec<String> {
        let seconds = float(self.elapsed_ns) / 1e9;
        let mut lines: Vec<String> = self
            .exports
            .iter()
            .map(|Named { name, counted }| {
                let name = if name.is_empty() { "(default)" } else { name };
                format!("{name}: {}", counted.line(seconds))
            })
            .collect();
        let all = if lines.is_empty() { "" } else { "all: " };
        lines.push(format!(
            "{all}in {}: {}; {} and {} of members, {}{}",
            human::duration(float(self.elapsed_ns)),
            self.all.line(seconds),
            counted(self.member_reads, "read"),
            counted(self.member_writes, "write"),
            counted(self.member_errors, "error"),
            if self.errors > 0 {
                format!(", {} to clients", counted(self.errors, "error"))
            } else {
                String::new()
            },
        ));
        lines
    }
}

impl Counted {
    fn of(export: &ExportMetrics) -> Self {
        let it = &export.counters;
        Self {
            reads: it.reads,
            writes: it.writes,
            bytes_read: it.bytes_read,
            bytes_written: it.bytes_written,
            blocks_read: it.blocks_read,
            cache_hits: it.cache_hits,
            prefetch_hits: it.prefetch_hits,
            late_hits: it.late_hits,
            misses: it.misses,
            hit_ratio: it.hit_ratio,
            prefetched_blocks: it.prefetched_blocks,
            used: it.used,
            wasted: it.wasted,
            without: Without::of(export.gauges.iter().copied()),
        }
    }

    fn line(&self, seconds: f64) -> String {
        let moved = |bytes: u64| {
            let rate = human::rate(float(bytes) / seconds.max(1e-9));
            format!("{}, {rate}", human::bytes(float(bytes)))
        };
        let mut text = format!("{} ({})", counted(self.reads, "read"), moved(self.bytes_read));
        let share = |blocks: u64, of: u64| human::percent(float(blocks) / float(of.max(1)));
        if self.blocks_read > 0 {
            let of = |blocks| share(blocks, self.blocks_read);
            text.push_str(&format!(
                ": {} from the cache, {} read ahead, {} late, {} missed",
                of(self.cache_hits),
                of(self.prefetch_hits),
                of(self.late_hits),
                of(self.misses)
            ));
        }
        if self.writes > 0 {
            text.push_str(&format!("; {} ({})", counted(self.writes, "write"), moved(self.bytes_written)));
        }
        if self.prefetched_blocks > 0 {
            text.push_str(&format!(
                "; prefetched {}, {} used, {} wasted",
                human::bytes(float(self.prefetched_blocks * BLOCK_BYTES)),
                share(self.used, self.prefetched_blocks),
                share(self.wasted, self.prefetched_blocks)
            ));
        }
        if let Some(without) = &self.without {
            text.push_str(&format!("; {}", without.words()));
        }
        text
    }
}

fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", human::count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(exports: &[&str]) -> Summary {
        let mut metrics =
            Metrics { reads: 100, bytes_read: 100 << 20, member_reads: 1, ..Metrics::default() };
        metrics.engine.program.cache_hits = 64;
        metrics.engine.program.prefetch_hits = 128;
        metrics.engine.program.misses = 64;
        metrics.engine.prefetched = 256;
        metrics.engine.used = 128;
        metrics.exports = exports
            .iter()
            .map(|name| ExportMetrics { name: (*name).into(), ..ExportMetrics::default() })
            .collect();
        Summary::new(&metrics, Duration::from_secs(10))
    }

    #[test]
    fn amounts_have_a_rate_and_a_time_and_the_shares_add_up() {
        let lines = summary(&[""]).lines();
        let expected = "in 10.0 s: 100 reads (100 MiB, 10.0 MiB/s): 25.0% from the cache, 50.0% read ahead, 0.0% late, 25.0% missed; prefetched \
                        1.00 MiB, 50.0% used, 0.0% wasted; 1 read and 0 writes of members, 0 errors";
        assert_eq!(lines, [expected]);
        // One member that failed may be an error to several clients, or to none.
        let failed = Summary { member_errors: 256, errors: 1, ..summary(&[""]) }.lines();
        assert!(failed[0].ends_with("0 writes of members, 256 errors, 1 error to clients"), "{failed:?}");
    }

    #[test]
    fn under_auto_the_end_tells_what_readers_would_have_waited_without_prefetching() {
        let gauges =
            vec![("auto_wait_ns", 2e9), ("auto_wait_foretold_ns", 1.9e9), ("auto_wait_without_ns", 5e9)];
        let metrics = Metrics { gauges, ..Metrics::default() };
        let line = Summary::new(&metrics, Duration::from_secs(1)).lines().remove(0);
        assert!(
            line.contains(
                "; without prefetching readers would have waited 5.00 s by auto's shadows; they waited 2.00 s"
            ),
            "{line}"
        );
    }

    #[test]
    fn of_several_exports_each_has_its_totals() {
        let lines = summary(&["a", ""]).lines();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("a: 0 reads") && lines[1].starts_with("(default): "), "{lines:?}");
        assert!(lines[2].starts_with("all: in 10.0 s: 100 reads"), "{lines:?}");
    }
}
