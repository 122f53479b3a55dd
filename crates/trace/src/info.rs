//! What is in a trace: the figures of `forerun trace info`, and the small questions that callers ask a trace.
//!
//! The footprint is the number of distinct 4 KiB blocks touched, counted by merging the sorted ranges, so that a
//! request of a gigabyte costs as much as one of a block. Sequential means: begins at the byte after the previous
//! request to the same device and file ended. Sizes are binned by powers of two.

use crate::record::{Name, Record, Trace};
use forerun_core::access::{Context, Op};
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One bin of the request sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBin {
    /// Largest size in the bin, in bytes: a power of two. The smallest in it is one byte more than the bin before.
    pub up_to_bytes: u64,
    /// Requests in it.
    pub requests: u64,
}

/// Sizes of the requests of a trace, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// The smallest.
    pub min: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// Half of the requests are no larger.
    pub p50: u64,
    /// 95 of 100 requests are no larger.
    pub p95: u64,
    /// The largest.
    pub max: u64,
    /// Requests by size, bins without requests left out.
    pub bins: Vec<SizeBin>,
}

/// What is in a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceInfo {
    /// Format it was read from.
    pub format: String,
    /// In which units its numbers were taken to be, where nothing in the file says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
    /// All requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Requests of no bytes among them.
    pub empty: u64,
    /// Bad records that were passed over.
    pub skipped: u64,
    /// Well-formed events of the source that are no request for data.
    pub passed_over: u64,
    /// Requests of which it is known how long they took.
    pub with_duration: u64,
    /// Files whose size is known.
    pub files_with_size: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes of the reads.
    pub bytes_read: u64,
    /// Bytes of the writes.
    pub bytes_written: u64,
    /// Distinct 4 KiB blocks touched.
    pub footprint_blocks: u64,
    /// The same in bytes.
    pub footprint_bytes: u64,
    /// Distinct 4 KiB blocks touched by reads.
    pub read_footprint_blocks: u64,
    /// From the earliest to the latest request; null where the source has no times.
    pub duration_ns: Option<u64>,
    /// Distinct devices named.
    pub devices: u64,
    /// Distinct processes named.
    pub processes: u64,
    /// Distinct files named (a file name on two devices is two files).
    pub files: u64,
    /// Requests that begin where the previous one to the same device and file ended.
    pub sequential: u64,
    /// Their share of all requests, 0 to 1.
    pub sequential_share: f64,
    /// Request sizes.
    pub sizes: Sizes,
    /// What the recording says of its machine.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub about: BTreeMap<String, String>,
}

impl Trace {
    /// The string of `name`; empty for [`Name::ABSENT`] and for a name of another trace.
    #[must_use]
    pub fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("", String::as_str)
    }
    /// Who issued `record`: its process, where the source names none its device (design, "Traces onto arrays"), where
    /// it names neither its file.
    #[must_use]
    pub fn context(&self, record: &Record) -> Context {
        let known =
            [record.process, record.device, record.file].into_iter().find(|&name| name != Name::ABSENT);
        Context(u64::from(known.unwrap_or(Name::ABSENT).0))
    }
    /// From the earliest to the latest request; `None` where the source has no times.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        let times = || self.records.iter().filter_map(|record| record.time);
        Some(times().max()?.since(times().min()?))
    }
    /// What is in it.
    #[must_use]
    pub fn info(&self) -> TraceInfo {
        let requests = self.records.len() as u64;
        let of = |op: Op| self.records.iter().filter(move |record| record.op == op);
        let (bytes_read, bytes_written) = (sum(of(Op::Read)), sum(of(Op::Write)));
        let footprint_blocks = footprint(self.records.iter());
        let distinct = |pick: fn(&Record) -> (Name, Name)| {
            let names: BTreeSet<_> = self.records.iter().map(pick).collect();
            names.iter().filter(|names| names.1 != Name::ABSENT).count() as u64
        };
        let sequential = sequential(&self.records);
        TraceInfo {
            about: self.about.clone(),
            format: self.format.clone(),
            assumed: self.assumed.clone(),
            requests,
            reads: of(Op::Read).count() as u64,
            writes: of(Op::Write).count() as u64,
            empty: self.records.iter().filter(|record| record.bytes == 0).count() as u64,
            skipped: self.skipped,
            passed_over: self.passed_over,
            with_duration: self.records.iter().filter(|record| record.took.is_some()).count() as u64,
            files_with_size: self.file_sizes.len() as u64,
            bytes: bytes_read.saturating_add(bytes_written),
            bytes_read,
            bytes_written,
            footprint_blocks,
            footprint_bytes: footprint_blocks.saturating_mul(BLOCK_BYTES),
            read_footprint_blocks: footprint(of(Op::Read)),
            duration_ns: self.duration().map(|duration| duration.0),
            devices: distinct(|record| (Name::ABSENT, record.device)),
            processes: distinct(|record| (Name::ABSENT, record.process)),
            files: distinct(|record| (record.device, record.file)),
            sequential,
            sequential_share: share(sequential, requests),
            sizes: sizes(&self.records),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is for reading, not for deciding")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn sum<'r>(records: impl Iterator<Item = &'r Record>) -> u64 {
    records.fold(0, |sum, record| sum.saturating_add(record.bytes))
}

/// Distinct blocks that the records touch.
fn footprint<'r>(records: impl Iterator<Item = &'r Record>) -> u64 {
    let mut ranges: Vec<_> = records
        .filter(|record| record.bytes > 0)
        .map(|record| {
            let extent = Extent::covering(record.offset, record.bytes);
            (record.device, record.file, extent.start.0, extent.end())
        })
        .collect();
    ranges.sort_unstable();
    let mut blocks: u64 = 0;
    let mut place = None;
    let mut counted_to = 0;
    for (device, file, start, end) in ranges {
        if place != Some((device, file)) {
            place = Some((device, file));
            counted_to = 0;
        }
        blocks += end.saturating_sub(start.max(counted_to));
        counted_to = counted_to.max(end);
    }
    blocks
}

fn sequential(records: &[Record]) -> u64 {
    let mut ends: HashMap<(Name, Name), u64> = HashMap::new();
    let mut count = 0;
    for record in records.iter().filter(|record| record.bytes > 0) {
        // Readers check that a range ends below 2^64; a record made otherwise wraps to no match.
        let end = record.offset.saturating_add(record.bytes);
        let before = ends.insert((record.device, record.file), end);
        count += u64::from(before == Some(record.offset));
    }
    count
}

fn sizes(records: &[Record]) -> Sizes {
    let mut all: Vec<u64> = records.iter().map(|record| record.bytes).collect();
    all.sort_unstable();
    let (Some(&min), Some(&max)) = (all.first(), all.last()) else {
        return Sizes::default();
    };
    let mut bins = BTreeMap::new();
    for &bytes in &all {
        *bins.entry(bytes.checked_next_power_of_two().unwrap_or(u64::MAX)).or_insert(0) += 1;
    }
    let count = all.len() as u64;
    Sizes {
        min,
        mean: sum(records.iter()) / count,
        p50: all[(all.len() - 1) / 2],
        p95: all[(all.len() - 1) * 95 / 100],
        max,
        bins: bins.into_iter().map(|(up_to_bytes, requests)| SizeBin { up_to_bytes, requests }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::BLANK;

    fn trace(parts: &[(u64, u64, Op)]) -> Trace {
        let records =
            parts.iter().map(|&(offset, bytes, op)| Record { offset, bytes, op, ..BLANK }).collect();
        Trace { names: vec![String::new()], records, ..Trace::default() }
    }

    #[test]
    fn the_footprint_counts_a_block_once_however_requests_overlap() {
        let trace = trace(&[
            (0, 8192, Op::Read),
            (4095, 2, Op::Write),
            (40960, 1, Op::Read),
            (4096, 8192, Op::Write),
        ]);
        let info = trace.info();
        assert_eq!((info.footprint_blocks, info.read_footprint_blocks), (4, 3));
        assert_eq!((info.reads, info.writes, info.bytes), (2, 2, 8192 + 2 + 1 + 8192));
    }

    #[test]
    fn a_request_that_begins_where_the_last_ended_is_sequential() {
        let info =
            trace(&[(0, 10, Op::Read), (10, 5, Op::Read), (16, 4, Op::Read), (20, 4, Op::Write)]).info();
        assert_eq!(info.sequential, 2);
        assert_eq!(info.sequential_share, 0.5);
        assert_eq!(info.duration_ns, None);
    }

    #[test]
    fn sizes_are_binned_by_powers_of_two() {
        let sizes = trace(&[(0, 512, Op::Read), (0, 513, Op::Read), (0, 1024, Op::Read)]).info().sizes;
        let bins: Vec<_> = sizes.bins.iter().map(|bin| (bin.up_to_bytes, bin.requests)).collect();
        assert_eq!(bins, [(512, 1), (1024, 2)]);
        assert_eq!((sizes.min, sizes.p50, sizes.max), (512, 513, 1024));
    }

    #[test]
    fn an_empty_trace_has_no_duration_and_no_sizes() {
        let info = trace(&[]).info();
        assert_eq!((info.requests, info.duration_ns, info.sizes.max), (0, None, 0));
    }
}
