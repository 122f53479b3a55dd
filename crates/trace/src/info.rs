//! What is in a trace: the figures of `forerun trace info`, and the small questions that callers ask a trace.
//!
//! The footprint is the number of distinct 4 KiB blocks touched, counted by merging the sorted ranges (`footprint`), so that a
//! request of a gigabyte costs as much as one of a block. Sequential means: begins at the byte after the previous
//! request to the same device and file ended. Sizes are binned by powers of two. All of it is counted while records come
//! ([`Tally`]).

use crate::footprint::Footprint;
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
        let mut tally = Tally::default();
        tally.take(&self.records);
        tally.finish(self)
    }
}

/// The figures of records while they come, so that nobody need keep a trace for them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    requests: u64,
    reads: u64,
    empty: u64,
    with_duration: u64,
    bytes_read: u64,
    bytes_written: u64,
    /// The earliest and the latest.
    times: Option<(Nanos, Nanos)>,
    devices: Names,
    processes: Names,
    /// Files among the places.
    files: u64,
    places: Places,
    sequential: u64,
    /// Requests by bytes.
    sizes: BTreeMap<u64, u64>,
    read: Footprint,
    written: Footprint,
}

/// Distinct names, without the absent one.
#[derive(Clone, Debug, Default)]
struct Names {
    all: BTreeSet<Name>,
    last: Name,
}

impl Names {
    fn note(&mut self, name: Name) {
        if name != self.last && name != Name::ABSENT {
            self.all.insert(name);
        }
        self.last = name;
    }
}

/// Devices and files by number, each with the end of its last request.
#[derive(Clone, Debug, Default)]
struct Places {
    numbers: HashMap<(Name, Name), u32>,
    ends: Vec<Option<u64>>,
    /// That of the last request: the next one is often of the same.
    last: Option<((Name, Name), u32)>,
}

impl Places {
    /// The number of a device and file.
    fn number(&mut self, of: (Name, Name)) -> u32 {
        if let Some((last, number)) = self.last
            && last == of
        {
            return number;
        }
        let next = u32::try_from(self.ends.len()).expect("names are numbered by 32 bits");
        let number = *self.numbers.entry(of).or_insert(next);
        if number == next {
            self.ends.push(None);
        }
        self.last = Some((of, number));
        number
    }
}

impl Tally {
    /// The next records.
    ///
    /// # Panics
    /// At 2^32 devices and files.
    pub fn take(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.take_one(record));
    }

    fn take_one(&mut self, record: &Record) {
        let bytes = record.bytes;
        self.requests += 1;
        self.empty += u64::from(bytes == 0);
        self.with_duration += u64::from(record.took.is_some());
        if let Some(time) = record.time {
            let (earliest, latest) = self.times.unwrap_or((time, time));
            self.times = Some((earliest.min(time), latest.max(time)));
        }
        self.devices.note(record.device);
        self.processes.note(record.process);
        *self.sizes.entry(bytes).or_insert(0) += 1;
        let known = self.places.ends.len();
        let place = self.places.number((record.device, record.file));
        let is_new = self.places.ends.len() > known;
        self.files += u64::from(is_new && record.file != Name::ABSENT);
        let (sum, footprint) = match record.op {
            Op::Read => (&mut self.bytes_read, &mut self.read),
            Op::Write => (&mut self.bytes_written, &mut self.written),
        };
        self.reads += u64::from(record.op == Op::Read);
        *sum = sum.saturating_add(bytes);
        if bytes > 0 {
            let extent = Extent::covering(record.offset, bytes);
            footprint.add(place, (extent.start.0, extent.end()));
            // Readers check that a range ends below 2^64; a record made otherwise wraps to no match.
            let end = record.offset.saturating_add(bytes);
            let before = self.places.ends[place as usize].replace(end);
            self.sequential += u64::from(before == Some(record.offset));
        }
    }

    /// All came; `trace` is what else is known of them.
    #[must_use]
    pub fn finish(self, trace: &Trace) -> TraceInfo {
        let Self { requests, reads, bytes_read, bytes_written, sequential, .. } = self;
        let bytes = bytes_read.saturating_add(bytes_written);
        let (mut footprint, written) = (self.read, self.written);
        let read_footprint_blocks = footprint.blocks();
        footprint.add_all(written);
        let footprint_blocks = footprint.blocks();
        TraceInfo {
            about: trace.about.clone(),
            format: trace.format.clone(),
            assumed: trace.assumed.clone(),
            requests,
            reads,
            writes: requests - reads,
            empty: self.empty,
            skipped: trace.skipped,
            passed_over: trace.passed_over,
            with_duration: self.with_duration,
            files_with_size: trace.file_sizes.len() as u64,
            bytes,
            bytes_read,
            bytes_written,
            footprint_blocks,
            footprint_bytes: footprint_blocks.saturating_mul(BLOCK_BYTES),
            read_footprint_blocks,
            duration_ns: self.times.map(|(earliest, latest)| latest.since(earliest).0),
            devices: self.devices.all.len() as u64,
            processes: self.processes.all.len() as u64,
            files: self.files,
            sequential,
            sequential_share: share(sequential, requests),
            sizes: sizes(&self.sizes, requests, bytes),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share is for reading, not for deciding")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Of requests by bytes, of which there are `count`, with so many bytes together.
fn sizes(counts: &BTreeMap<u64, u64>, count: u64, bytes: u64) -> Sizes {
    let (Some((&min, _)), Some((&max, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return Sizes::default();
    };
    let mut bins = BTreeMap::new();
    for (&bytes, &requests) in counts {
        *bins.entry(bytes.checked_next_power_of_two().unwrap_or(u64::MAX)).or_insert(0) += requests;
    }
    // The size of a request, by its number in the order of sizes.
    let nth = |number: u64| {
        let mut before = 0;
        let mut sizes = counts.iter().map(|(&bytes, &requests)| {
            before += requests;
            (bytes, before)
        });
        sizes.find(|&(_, before)| before > number).map_or(max, |(bytes, _)| bytes)
    };
    Sizes {
        min,
        mean: bytes / count,
        p50: nth((count - 1) / 2),
        p95: nth((count - 1) * 95 / 100),
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
