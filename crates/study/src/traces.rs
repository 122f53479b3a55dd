//! What is said of a trace, as plain data: what is in it, how it is read, what misses in caches of given sizes.

use crate::error::{Fault, StudyError};
use crate::runner::{self, Watch};
use forerun_core::access::Op;
use forerun_core::retention::{self, BASELINES, Baseline};
use forerun_core::size::parse_size;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use forerun_core::words::{did_you_mean, nearest};
use forerun_sim::mrc::{MrcError, MrcRow, Numbering, Sequence, mrc_until};
use forerun_sim::replay::Map;
use forerun_sim::workload::Workload;
use forerun_trace::cut::{Cut, cut};
use forerun_trace::patterns::{Finder, GroupBy, PatternOptions, Patterns, Shares, THRESHOLD_MAX};
use forerun_trace::record::{Name, Record, Trace};
use forerun_trace::{Format, Malformed, Opened, ReadOptions, Tally, TraceError, TraceInfo};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Records between two looks at whether anybody waits for the rest: some milliseconds of work.
const PART: usize = 1 << 16;

/// What is in a trace.
#[derive(Debug, Serialize)]
pub struct Info<'a> {
    /// As it was named.
    pub file: String,
    /// Hash of the file's content.
    pub sha256: &'a str,
    /// The figures.
    #[serde(flatten)]
    pub info: &'a TraceInfo,
}

/// The classes of one group, or of all.
#[derive(Debug, Serialize)]
pub struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(flatten)]
    shares: &'a Shares,
    seq_share: f64,
    loop_share: f64,
}

impl<'a> Row<'a> {
    fn new(name: Option<&'a str>, shares: &'a Shares) -> Self {
        Self { name, shares, seq_share: shares.seq_share(), loop_share: shares.loop_share() }
    }
}

/// How a trace is read.
#[derive(Debug, Serialize)]
pub struct Classes<'a> {
    file: String,
    sha256: &'a str,
    threshold: u64,
    by: Option<GroupBy>,
    total: Row<'a>,
    groups: Vec<Row<'a>>,
}

impl<'a> Classes<'a> {
    /// What was found, with rows where they were asked for.
    #[must_use]
    pub fn new(file: String, sha256: &'a str, by: Option<GroupBy>, found: &'a Patterns) -> Self {
        let groups = found.groups.iter().filter(|_| by.is_some());
        Self {
            file,
            sha256,
            threshold: found.threshold,
            by,
            total: Row::new(None, &found.total),
            groups: groups.map(|group| Row::new(Some(&group.name), &group.shares)).collect(),
        }
    }
}

/// What cannot be read, with the remedy that its reader knows: to pass over a record is one only where there are others.
#[must_use]
pub fn unreadable(problem: &TraceError) -> StudyError {
    let bad = match problem {
        TraceError::Malformed(bad) => bad,
        TraceError::Io { file, source } => {
            if source.kind() != io::ErrorKind::NotFound || Workload::parse(file).is_err() {
                return StudyError { fault: Fault::Input, ..StudyError::usage("", problem, "") };
            }
            let remedy = format!("`forerun trace synth '{file}' -o FILE` makes one of it");
            let what = "that is a workload, and here a trace is wanted";
            return StudyError { fault: Fault::Input, ..StudyError::usage(file, what, &remedy) };
        }
    };
    let place = format!("{}: {} ({})", bad.file, bad.place, bad.format);
    let what = format!("expected {}, found {}", bad.expected, bad.found);
    StudyError { fault: Fault::Input, ..StudyError::usage(&place, what, &bad.remedy) }
}

/// The format that was asked for, or that the file's ending means; a name without one means Parquet.
///
/// # Errors
/// [`StudyError`] for an ending that means none that is written.
pub fn target(path: &Path, asked: Option<Format>) -> Result<Format, StudyError> {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let bare = [".gz", ".xz", ".zst"].iter().find_map(|packed| name.strip_suffix(packed)).unwrap_or(&name);
    match (asked, Path::new(bare).extension().map(|ending| ending.to_string_lossy())) {
        (Some(asked), _) => Ok(asked),
        (None, None) => Ok(Format::Parquet),
        (None, Some(ending)) => match ending.as_ref() {
            "parquet" => Ok(Format::Parquet),
            "csv" => Ok(Format::Csv),
            "lirs" => Ok(Format::Lirs),
            "spc" => Ok(Format::Spc),
            _ => Err(StudyError::usage(
                &path.display().to_string(),
                format!("`.{ending}` is the ending of no format that is written"),
                "endings are .parquet, .csv, .lirs and .spc, with .gz, .xz or .zst behind them; other formats are \
                 written by `forerun trace convert IN OUT --to FORMAT`",
            )),
        },
    }
}

/// A file that ends with an error once nobody waits for the rest.
struct Watched<'a> {
    file: File,
    watch: &'a dyn Watch,
}

impl Read for Watched<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.watch.stops() { Err(io::Error::other("stopped")) } else { self.file.read(into) }
    }
}

/// Reads a trace file, unless who watches stops it; what is read whole before it is understood (Parquet) is then understood to its end.
///
/// # Errors
/// As [`forerun_trace::open`], and where it is stopped.
pub fn open(path: &Path, options: &ReadOptions, watch: &dyn Watch) -> Result<Opened, StudyError> {
    let opened = match File::open(path) {
        Ok(file) => forerun_trace::read_from(&path.display().to_string(), Watched { file, watch }, options),
        // Several files may be meant that are read as one; else it says why there is none.
        Err(_) => forerun_trace::open(path, options),
    };
    opened.map_err(|problem| if watch.stops() { StudyError::stopped() } else { unreadable(&problem) })
}

/// The figures of a trace, unless who watches stops it.
///
/// # Errors
/// [`StudyError`] where that is so.
pub fn info(trace: &Trace, watch: &dyn Watch) -> Result<TraceInfo, StudyError> {
    let mut tally = Tally::default();
    in_parts(&trace.records, watch, |records| tally.take(records))?;
    Ok(tally.finish(trace))
}

/// How a trace is read, without points of a picture, unless who watches stops it.
///
/// # Errors
/// [`StudyError`] where that is so, for a threshold that none can be, and for files that are too large together.
pub fn read_how(
    trace: &Trace,
    threshold: u64,
    by: Option<GroupBy>,
    watch: &dyn Watch,
) -> Result<Patterns, StudyError> {
    if !(1..=THRESHOLD_MAX).contains(&threshold) {
        return Err(StudyError::usage("threshold", format!("from 1 to {THRESHOLD_MAX} blocks"), ""));
    }
    let mut finder = Finder::new(&PatternOptions { threshold, by, points_max: 0 }, 0);
    in_parts(&trace.records, watch, |records| finder.take(records))?;
    finder.finish(trace).map_err(|problem| StudyError::usage("", problem, ""))
}

/// Hands records on in parts, until who watches stops it.
fn in_parts(
    records: &[Record],
    watch: &dyn Watch,
    mut take: impl FnMut(&[Record]),
) -> Result<(), StudyError> {
    for part in records.chunks(PART) {
        if watch.stops() {
            return Err(StudyError::stopped());
        }
        take(part);
    }
    Ok(())
}

/// A time in a trace, of seconds.
///
/// # Errors
/// What can be.
pub fn moment(seconds: f64) -> Result<Nanos, String> {
    let fits = (0.0..=1e9).contains(&seconds);
    fits.then_some(Nanos((seconds * 1e9) as u64)).ok_or_else(|| "from 0 to 1000000000 seconds".to_owned())
}

/// A share of all places.
///
/// # Errors
/// What can be.
pub fn share(value: f64) -> Result<f64, String> {
    (value > 0.0 && value <= 1.0).then_some(value).ok_or_else(|| "above 0 and at most 1".to_owned())
}

/// Whether something says which part of a trace is wanted.
///
/// # Errors
/// [`StudyError`] where all of it would be kept.
pub fn names_a_part(what: &Cut) -> Result<(), StudyError> {
    if what.from.is_some() || what.until.is_some() || !what.processes.is_empty() || what.sample.is_some() {
        return Ok(());
    }
    let remedy = "--from, --until, --process or --sample says which part";
    Err(StudyError::usage("trace cut", "nothing says what to keep", remedy))
}

/// The part of a trace that is wanted.
///
/// # Errors
/// [`StudyError`] where nothing says which it is, or it is empty.
pub fn part(trace: &Trace, what: &Cut) -> Result<Trace, StudyError> {
    names_a_part(what)?;
    let kept = cut(trace, what);
    let known: BTreeSet<&str> = trace.records.iter().map(|record| trace.name(record.process)).collect();
    if let Some(process) = what.processes.iter().find(|&name| !known.contains(name.as_str())) {
        let near = did_you_mean(nearest(process, known));
        let remedy = "`forerun trace patterns` names the processes of a trace";
        return Err(StudyError::usage(
            "--process",
            format!("no process is called {process:?}{near}"),
            remedy,
        ));
    }
    if kept.records.is_empty() {
        let remedy =
            "`forerun trace info` says how long the trace is, and `trace patterns` which processes it has";
        return Err(StudyError::usage("trace cut", "no request is in this part", remedy));
    }
    Ok(kept)
}

/// The requests from one to before another, counted in the order of the trace, and the hash of that part; its times begin where
/// it does.
#[must_use]
pub fn stretch(trace: &Trace, whole: &str, from: usize, until: usize) -> (Trace, String) {
    let until = until.min(trace.records.len());
    let mut records = trace.records[from.min(until)..until].to_vec();
    let zero = records.iter().filter_map(|record| record.time).min().unwrap_or(Nanos::ZERO);
    for record in &mut records {
        record.time = record.time.map(|time| time.since(zero));
    }
    let mut hash = Sha256::new();
    hash.update(format!("{whole} {from}..{until}"));
    let (names, file_sizes) = (trace.names.clone(), trace.file_sizes.clone());
    let (about, format) = (trace.about.clone(), trace.format.clone());
    let part = Trace { names, records, file_sizes, about, format, ..Trace::default() };
    (part.compacted(), hex(&hash.finalize()))
}

/// The hash of a part, of that of the whole and of what was kept: the same part of the same trace is the same input.
#[must_use]
pub fn part_hash(whole: &str, what: &Cut) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{whole} {what:?}"));
    hex(&hash.finalize())
}

/// The hash of a trace that comes from no file: of what its requests say, names by their words, and of what is known of its files and of
/// the machine, where anything is.
#[must_use]
pub fn content_hash(trace: &Trace) -> String {
    let mut hash = Sha256::new();
    for record in &trace.records {
        // A moment that is not known is no moment: all are below 2^64 - 1.
        let moment = |time: Option<Nanos>| time.map_or(u64::MAX, |time| time.0);
        let numbers = [moment(record.time), moment(record.took), record.offset, record.bytes];
        numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
        hash.update([u8::from(record.op == Op::Write)]);
        for name in [record.device, record.process, record.file] {
            hash.update(trace.name(name).as_bytes());
            hash.update([0]);
        }
    }
    // In the order of their words: the numbers of names are those of one reading.
    let named = |(device, file): &(Name, Name)| (trace.name(*device), trace.name(*file));
    let sizes: BTreeMap<_, _> = trace.file_sizes.iter().map(|(of, bytes)| (named(of), bytes)).collect();
    sizes.iter().for_each(|size| hash.update(format!("{size:?}")));
    trace.about.iter().for_each(|said| hash.update(format!("{said:?}")));
    hex(&hash.finalize())
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number of blocks; with a unit, so many bytes in blocks.
///
/// # Errors
/// What was expected.
pub fn blocks(text: &str) -> Result<u64, String> {
    let wrong = || "expected blocks (1000) or a size of at least a block (10M)".to_owned();
    let blocks = match text.parse() {
        Ok(blocks) => blocks,
        Err(_) => parse_size(text).map_err(|_| wrong())? / BLOCK_BYTES,
    };
    if blocks == 0 { Err(wrong()) } else { Ok(blocks) }
}

/// A retention of `mrc`.
///
/// # Errors
/// Those that there are.
pub fn kept_by(name: &str) -> Result<&'static Baseline, String> {
    retention::by_name(name).map_err(|_| {
        let known: Vec<&str> = BASELINES.iter().map(|row| row.name).collect();
        format!("there are: {}", known.join(", "))
    })
}

/// Misses of a trace under retentions at sizes.
#[derive(Debug, Serialize)]
pub struct Misses {
    /// A row for each cache, retention and size.
    pub runs: Vec<MrcRow>,
    /// Blocks that are referred to, of all caches together: the size beyond which nothing is missed twice.
    pub footprint_blocks: u64,
    /// In which units the trace's numbers were taken to be, where nothing in its file says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<String>,
    /// Bad records of the trace that were passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
}

/// Why a map that somebody wrote is refused: it is to keep one device and names none. In a spec it is the device without a name, of a
/// trace where each has an array of its own.
#[must_use]
pub fn map_names_nothing(map: &str) -> Option<&'static str> {
    (map == "only:").then_some("`only:` names no device")
}

/// A map, as it is written on a command line.
///
/// # Errors
/// What is none, in words.
pub fn map(text: &str) -> Result<Map, String> {
    match map_names_nothing(text) {
        Some(why) => Err(format!("{why}: write concat, one-array-each or only:DEVICE")),
        None => text.parse().map_err(|problem: forerun_sim::replay::ReplayError| problem.to_string()),
    }
}

/// The references of a trace to blocks, for each cache that a map gives: what [`misses`] needs of it.
#[derive(Clone, Debug)]
pub struct References {
    /// With the device that the cache serves; no device for a cache that serves all.
    caches: Vec<(String, Sequence)>,
    /// Distinct blocks of the whole trace.
    pub footprint: u64,
    /// Bad records that were passed over, and the first of them.
    pub skipped: u64,
    /// At most 16.
    pub bad: Vec<Malformed>,
    /// In which units the trace's numbers were taken to be, where nothing in its file says so.
    pub assumed: Option<String>,
}

/// Numbers blocks for each cache.
struct Numberings<'a> {
    map: &'a Map,
    /// By device, in the order in which they first move a byte; where one cache serves all, under the first name.
    each: Vec<(Name, Numbering)>,
    at: HashMap<Name, usize>,
    /// Records so far.
    seen: u64,
}

impl<'a> Numberings<'a> {
    fn new(map: &'a Map) -> Self {
        let all = matches!(map, Map::Concat).then(|| (Name::ABSENT, Numbering::default()));
        Self { map, each: all.into_iter().collect(), at: HashMap::new(), seen: 0 }
    }

    fn take(&mut self, records: &[Record]) {
        if matches!(self.map, Map::Concat) {
            self.each[0].1.take(records);
            return;
        }
        for (number, record) in (self.seen + 1..).zip(records).filter(|(_, record)| record.bytes > 0) {
            let at = *self.at.entry(record.device).or_insert_with(|| {
                self.each.push((record.device, Numbering::default()));
                self.each.len() - 1
            });
            self.each[at].1.take_one(number, record);
        }
        self.seen += records.len() as u64;
    }

    /// With the names of the trace; `place` stands for it in errors.
    fn finish(self, trace: &Trace, bad: Vec<Malformed>, place: &str) -> Result<References, StudyError> {
        let mut caches = Vec::new();
        for (device, numbering) in self.each {
            let sequence = numbering.finish().map_err(|problem| StudyError::failure(place, problem))?;
            let name = if matches!(self.map, Map::Concat) { "" } else { trace.name(device) };
            caches.push((name.to_owned(), sequence));
        }
        let footprint = caches.iter().map(|(_, sequence)| sequence.footprint() as u64).sum();
        let wanted = if let Map::Only(wanted) = self.map { Some(wanted.as_str()) } else { None };
        let known: Vec<String> = caches.iter().map(|(name, _)| name.clone()).collect();
        caches.retain(|(name, _)| wanted.is_none_or(|wanted| name == wanted));
        if caches.is_empty() {
            let near = did_you_mean(nearest(wanted.unwrap_or_default(), known.iter().map(String::as_str)));
            let what =
                format!("no request on such a device moves a byte; devices: {}{near}", known.join(", "));
            return Err(StudyError::usage("--map", what, "use concat, one-array-each or only:DEV"));
        }
        Ok(References { caches, footprint, skipped: trace.skipped, bad, assumed: trace.assumed.clone() })
    }
}

/// The references of a trace in memory; `file` stands for it in errors.
///
/// # Errors
/// See [`StudyError`]; also if who watches stops it.
pub fn references(file: &str, trace: &Trace, map: &Map, watch: &dyn Watch) -> Result<References, StudyError> {
    let mut numberings = Numberings::new(map);
    in_parts(&trace.records, watch, |records| numberings.take(records))?;
    numberings.finish(trace, Vec::new(), file)
}

/// The references of a trace file, which is read through and not kept; `-` is standard input.
///
/// # Errors
/// As reading the trace, and as [`references`].
pub fn references_in(
    file: &Path,
    options: &ReadOptions,
    map: &Map,
    watch: &dyn Watch,
) -> Result<References, StudyError> {
    let mut numberings = Numberings::new(map);
    // A reader that hands records on is stopped by unwinding, as a run is.
    let mut take = |records: &[Record]| {
        if watch.stops() {
            runner::end_run(StudyError::stopped());
        }
        numberings.take(records);
    };
    let passed = runner::stoppable(|| {
        let passed = if file.as_os_str() == "-" {
            forerun_trace::pass_from("standard input", io::stdin().lock(), options, &mut take)
        } else {
            forerun_trace::pass(file, options, &mut take)
        };
        passed.map_err(|problem| unreadable(&problem))
    })?;
    numberings.finish(&passed.trace, passed.bad, &file.display().to_string())
}

/// Runs all sizes and retentions over each cache; `file` stands for the trace in errors, `name` in rows.
///
/// # Errors
/// See [`StudyError`]; also if who watches stops it, after the passes that are under way.
pub fn misses(
    (file, name): (&str, &str),
    references: &References,
    retentions: &[&'static Baseline],
    cache_blocks: &[u64],
    watch: &dyn Watch,
) -> Result<Misses, StudyError> {
    let mut runs = Vec::new();
    for (device, sequence) in &references.caches {
        let input = if device.is_empty() { name.to_owned() } else { format!("{name}, device {device}") };
        let rows = mrc_until(&input, sequence, retentions, cache_blocks, &|| watch.stops());
        runs.extend(rows.map_err(|problem| match problem {
            MrcError::Stopped => StudyError::stopped(),
            other => StudyError::failure(file, other),
        })?);
    }
    let (footprint_blocks, assumed) = (references.footprint, references.assumed.clone());
    let skipped = Some(references.skipped).filter(|&skipped| skipped > 0);
    Ok(Misses { runs, footprint_blocks, assumed, skipped })
}

/// The requests of a trace as columns of numbers, all as long as `offset`.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// First byte of each request.
    pub offset: Vec<u64>,
    /// Bytes of each.
    pub size: Vec<u64>,
    /// When each was issued, ns.
    pub time: Option<Vec<u64>>,
    /// Whether each writes: anything but 0.
    pub write: Option<Vec<u64>>,
    /// Who issued each, as a number.
    pub context: Option<Vec<u64>>,
}

impl Columns {
    /// The trace that they are, and the hash of their numbers.
    ///
    /// # Errors
    /// [`StudyError`] for columns of different lengths, and for a request that ends where 64 bits cannot address.
    pub fn into_trace(self) -> Result<(Trace, String), StudyError> {
        let mut hash = Sha256::new();
        let all = [
            Some(&self.offset),
            Some(&self.size),
            self.time.as_ref(),
            self.write.as_ref(),
            self.context.as_ref(),
        ];
        for (name, column) in ["offset", "size", "time", "op", "context"].iter().zip(all) {
            let Some(column) = column else { continue };
            if column.len() != self.offset.len() {
                let what = format!("has {} values, and offset {}", column.len(), self.offset.len());
                return Err(StudyError::usage(name, what, "give columns of one length"));
            }
            hash.update(name);
            column.iter().for_each(|number| hash.update(number.to_le_bytes()));
        }
        let mut ranges = self.offset.iter().zip(&self.size);
        if let Some(at) = ranges.position(|(offset, &size)| offset.checked_add(size).is_none()) {
            return Err(StudyError::usage("offset", format!("row {at} ends beyond 2^64 bytes"), ""));
        }
        let hash = hex(&hash.finalize());
        Ok((self.records(), hash))
    }

    fn records(&self) -> Trace {
        let mut names = vec![String::new()];
        let mut known: HashMap<u64, Name> = HashMap::new();
        let mut process = |context: u64| {
            *known.entry(context).or_insert_with(|| {
                names.push(context.to_string());
                Name(u32::try_from(names.len() - 1).unwrap_or(u32::MAX))
            })
        };
        let records = (0..self.offset.len()).map(|at| Record {
            time: self.time.as_ref().map(|time| Nanos(time[at])),
            process: self.context.as_ref().map_or(Name::ABSENT, |context| process(context[at])),
            offset: self.offset[at],
            bytes: self.size[at],
            op: if self.write.as_ref().is_some_and(|write| write[at] != 0) { Op::Write } else { Op::Read },
            ..Record::BLANK
        });
        let records = records.collect();
        Trace { names, records, format: "arrays".into(), ..Trace::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::Unwatched;

    #[test]
    fn a_malformed_trace_is_told_as_the_reader_tells_it() {
        let options = ReadOptions::default();
        let bad = forerun_trace::read_bytes("x", b"nonsense\n", &options).expect_err("no trace");
        let said = unreadable(&bad);
        let TraceError::Malformed(told) = &bad else { panic!("{bad}") };
        assert_eq!((said.place.as_str(), &said.remedy), ("x: byte 0 (unknown)", &told.remedy));
        assert_eq!(
            said.to_string().replace([';', '(', ')'], ""),
            bad.to_string().replace([';', '(', ')'], "")
        );
    }

    #[test]
    fn only_of_a_bad_record_it_is_said_and_once_that_it_can_be_passed_over() {
        let options = ReadOptions::default();
        let said = |bytes: &[u8]| {
            unreadable(&forerun_trace::read_bytes("x", bytes, &options).expect_err("bad")).to_string()
        };
        let head = "t,dev,off,bytes,op,pid,file\n1,a,0,4096,R,,\n";
        let record = said(format!("{head}2,a,0,many,R,,\n").as_bytes());
        assert_eq!(record.matches("--skip-bad").count(), 1, "{record}");
        // The head of a gzip stream that is cut in its first block.
        let packed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b];
        for cut in [&packed[..], b"PAR1 and no more", b"nonsense\n"] {
            let said = said(cut);
            assert!(!said.contains("--skip-bad"), "{said}");
        }
    }

    #[test]
    fn the_ending_of_a_name_says_what_is_written() {
        let target = |name: &str, asked| target(Path::new(name), asked);
        for (name, format) in [("x", Format::Parquet), ("d.x/x.csv.gz", Format::Csv), ("x.spc", Format::Spc)]
        {
            assert_eq!(target(name, None), Ok(format), "{name}");
        }
        assert_eq!(target("x.bin", Some(Format::Msr)), Ok(Format::Msr));
        let refused = target("x.bin", None).expect_err("no format").to_string();
        assert!(
            refused.starts_with("x.bin: `.bin` is the ending of no format that is written ("),
            "{refused}"
        );
    }

    #[test]
    fn a_stretch_is_counted_in_requests_and_begins_at_its_own_zero() {
        let columns = Columns {
            offset: vec![0, 4096, 8192],
            size: vec![512; 3],
            time: Some(vec![5, 9, 20]),
            ..Columns::default()
        };
        let (trace, hash) = columns.into_trace().expect("columns");
        let (part, of_part) = stretch(&trace, &hash, 1, 99);
        let times: Vec<_> = part.records.iter().map(|record| (record.offset, record.time)).collect();
        assert_eq!(times, [(4096, Some(Nanos(0))), (8192, Some(Nanos(11)))]);
        assert_eq!(stretch(&trace, &hash, 1, 3).1, of_part, "the same requests");
        assert_ne!(stretch(&trace, &hash, 0, 3).1, of_part);
        assert!(stretch(&trace, &hash, 3, 1).0.records.is_empty());
    }

    #[test]
    fn what_nobody_waits_for_is_not_counted_to_its_end() {
        struct Gone;
        impl Watch for Gone {
            fn stops(&self) -> bool {
                true
            }
        }
        let columns = Columns { offset: vec![0, 4096], size: vec![4096; 2], ..Columns::default() };
        let (trace, _) = columns.into_trace().expect("columns");
        let of_file = || {
            let file = std::env::temp_dir().join(format!("forerun-gone-{}.csv", std::process::id()));
            forerun_trace::write(&file, Format::Csv, &trace).expect("written");
            let stopped = references_in(&file, &ReadOptions::default(), &Map::Concat, &Gone).map(drop);
            std::fs::remove_file(&file).expect("removed");
            stopped
        };
        let whole = references("t", &trace, &Map::Concat, &Unwatched).expect("references");
        let lru = [kept_by("lru").expect("one")];
        let stopped = [
            open(Path::new("Cargo.toml"), &ReadOptions::default(), &Gone).map(drop),
            info(&trace, &Gone).map(drop),
            read_how(&trace, 16, None, &Gone).map(drop),
            references("t", &trace, &Map::Concat, &Gone).map(drop),
            of_file(),
            misses(("t", "t"), &whole, &lru, &[1], &Gone).map(drop),
        ];
        assert!(stopped.iter().all(|ended| *ended == Err(StudyError::stopped())), "{stopped:?}");
        assert_eq!(info(&trace, &Unwatched).expect("figures"), trace.info());
        assert!(
            read_how(&trace, 0, None, &Unwatched).expect_err("none").to_string().contains("from 1 to 1024")
        );
    }

    #[test]
    fn traces_that_know_other_sizes_or_machines_have_other_hashes() {
        let columns = Columns { offset: vec![0], size: vec![512], ..Columns::default() };
        let (bare, _) = columns.into_trace().expect("columns");
        let (mut sized, mut placed) = (bare.clone(), bare.clone());
        sized.know_size(Name::ABSENT, Name::ABSENT, 4096);
        placed.about.insert("kernel".into(), "6.12".into());
        let hashes: BTreeSet<_> = [&bare, &sized, &placed].map(content_hash).into();
        assert_eq!(hashes.len(), 3);
        assert_eq!(content_hash(&sized.clone()), content_hash(&sized));
    }

    #[test]
    fn a_part_is_named_and_holds_something() {
        let columns = Columns {
            offset: vec![0, 4096],
            size: vec![512; 2],
            time: Some(vec![0, 9]),
            ..Columns::default()
        };
        let (trace, hash) = columns.into_trace().expect("columns");
        let all = Cut::default();
        assert!(part(&trace, &all).expect_err("all of it").to_string().contains("nothing says what to keep"));
        let late = Cut { from: Some(moment(1.0).expect("a second")), ..all.clone() };
        assert!(part(&trace, &late).expect_err("nothing").to_string().contains("no request"));
        let early = Cut { until: Some(Nanos(5)), ..all };
        assert_eq!(part(&trace, &early).expect("one").records.len(), 1);
        assert_ne!(part_hash(&hash, &early), part_hash(&hash, &late));
        assert!(moment(-1.0).is_err() && share(0.0).is_err() && share(1.0).is_ok());
    }

    #[test]
    fn columns_are_a_trace_whose_hash_is_that_of_their_numbers() {
        let columns = Columns {
            offset: vec![0, 4096, 0],
            size: vec![4096; 3],
            write: Some(vec![0, 0, 1]),
            context: Some(vec![7, 8, 7]),
            ..Columns::default()
        };
        let (trace, hash) = columns.clone().into_trace().expect("columns");
        assert_eq!(trace.names, ["", "7", "8"]);
        assert_eq!((trace.records[2].op, trace.records[2].process), (Op::Write, Name(1)));
        assert_eq!(columns.clone().into_trace().expect("columns").1, hash);
        let other = Columns { write: None, ..columns.clone() }.into_trace().expect("columns");
        assert_ne!(other.1, hash);
        let short = Columns { size: vec![1], ..columns.clone() }.into_trace().expect_err("short");
        assert_eq!(short.to_string(), "size: has 1 values, and offset 3 (give columns of one length)");
        let beyond = Columns { size: vec![1, u64::MAX, 1], ..columns }.into_trace().expect_err("beyond");
        assert_eq!(beyond.to_string(), "offset: row 1 ends beyond 2^64 bytes");
    }
}
