//! `/live.json`: the samples of one export after a number, for the page.
//!
//! Short keys and lists, because a page asks twice a second; the names stand here and in `web/live.js` only. Scripts
//! read `/stats.json`. Text is made straight from the samples, without a tree of values in between, which would
//! be twenty times their size.

use crate::live::{Dash, EVERY, MemberSums, READ_OUTCOMES, Sample};
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// The text.
pub(super) fn json(samples: &[Arc<Sample>]) -> String {
    let samples = samples.iter().map(|sample| Shown::of(sample)).collect();
    // Numbers and names always have a text.
    serde_json::to_string(&Answer { every_ns: EVERY.0, samples }).unwrap_or_default()
}

#[derive(Serialize)]
struct Answer<'s> {
    every_ns: u64,
    samples: Vec<Shown<'s>>,
}

#[derive(Serialize)]
struct Shown<'s> {
    n: u64,
    t: u64,
    asked: [u64; 4],
    blocks: [u64; 4],
    ahead: [u64; 4],
    member_blocks: u64,
    cache: (u64, u64),
    outcomes: [[u64; READ_OUTCOMES.len()]; 2],
    members: Members<'s>,
    gauges: Gauges<'s>,
    one_in: u64,
    read_dashes: Dashes<'s>,
    ahead_dashes: Dashes<'s>,
}

impl<'s> Shown<'s> {
    fn of(sample: &'s Sample) -> Self {
        let (asked, engine, read) = (&sample.asked, &sample.engine, &sample.engine.program);
        Self {
            n: sample.number,
            t: sample.at.0,
            asked: [asked.reads, asked.writes, asked.bytes_read, asked.bytes_written],
            blocks: [read.cache_hits, read.prefetch_hits, read.late_hits, read.misses],
            ahead: [engine.prefetched, engine.used, engine.wasted, engine.ahead_in_flight],
            member_blocks: engine.member_blocks_read,
            cache: sample.cache_blocks,
            outcomes: [sample.waits.reads, sample.waits.waited.map(|waited| waited.0)],
            members: Members(&sample.members),
            gauges: Gauges(&sample.gauges),
            one_in: sample.one_in,
            read_dashes: Dashes(&sample.reads),
            ahead_dashes: Dashes(&sample.ahead),
        }
    }
}

struct Members<'s>(&'s [MemberSums]);

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(
            self.0.iter().map(|sums| {
                let MemberSums {
                    queue,
                    queue_peak,
                    reads,
                    writes,
                    bytes_read,
                    bytes_written,
                    seeks,
                    busy,
                    took,
                } = *sums;
                [queue, queue_peak, reads, writes, bytes_read, bytes_written, seeks, busy.0, took.0]
            }),
        )
    }
}

struct Gauges<'s>(&'s [(&'static str, f64)]);

impl Serialize for Gauges<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().copied().filter(|(_, value)| value.is_finite()))
    }
}

struct Dashes<'s>(&'s [Dash]);

impl Serialize for Dashes<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(|dash| {
            let Dash { from_us, to_us, first, blocks, kind, down } = *dash;
            (from_us, to_us, first, blocks, kind, u8::from(down))
        }))
    }
}
