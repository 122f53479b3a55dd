//! Writing a trace in another format, and saying what that format cannot hold.
//!
//! Only Forerun's own Parquet and CSV keep everything. The others are written for other tools, so what they lose is
//! a typed list ([`Loss`]) that `trace convert` prints, found by looking at this trace: a format without processes
//! loses nothing of a trace that names none. A format of block numbers (LIRS, oracleGeneral) gets the devices end to
//! end, as [`mapping::lay`](crate::mapping::lay) does, and one record for each 4 KiB block touched, because that is what its readers count.
//! A file appears under its name only when it is whole; `.gz`, `.xz` and `.zst` at the end of the name compress it.

use crate::beside::{Beside, PARTIAL};
use crate::format::Format;
use crate::formats::oracle_general::Packed;
use crate::formats::{columnar, csv, fio};
use crate::mapping::{Layout, MapError, MapRule, lay};
use crate::record::{Name, Record, Trace};
use forerun_core::access::Op;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos, SECTOR_BYTES};
use parquet::errors::ParquetError;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Most blocks that a trace may be split into when a format of single blocks is written.
const BLOCKS_MAX: u64 = 1 << 32;
/// The file time of 1970-01-01, in 100 ns: time zero of an MSR file that Forerun writes.
const MSR_ZERO_TICKS: u64 = 116_444_736_000_000_000;
const XZ_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 9;

/// Something that the trace has and the written file has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// The format has no times.
    Times,
    /// The format needs times and the trace has none (or not for all): zero, or the time before, was written.
    TimesInvented,
    /// Times were cut to the format's resolution.
    TimeResolution,
    /// Readers take the earliest request as time zero, and here it is later.
    TimeOrigin,
    /// Requests that were not in order of time now have the latest time before them.
    TimeOrder,
    /// The format has no processes.
    Processes,
    /// Devices were laid end to end, or a file's device was dropped.
    Devices,
    /// Devices have other names, or a device was named that had no name.
    DeviceNames,
    /// The format has no files: each became a device, or was laid end to end.
    Files,
    /// Characters of a name were replaced.
    NameCharacters,
    /// The format has no operation: writes became reads.
    Operations,
    /// Ranges were widened to whole sectors.
    Alignment,
    /// Requests became one record for each block touched.
    Requests,
    /// Requests of no bytes were left out.
    EmptyRequests,
    /// The format does not say how long a request took.
    Durations,
    /// The format does not say how large a file is.
    FileSizes,
    /// Only our own formats say on what machine a trace was recorded.
    Machine,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Times => "times: the format has none",
            Self::TimesInvented => "times: the format needs them and the trace has none; zero was written",
            Self::TimeResolution => "times: cut to the resolution of the format",
            Self::TimeOrigin => "times: the earliest request becomes time zero",
            Self::TimeOrder => "times: requests out of order got the latest time before them",
            Self::Processes => "processes: the format has none",
            Self::Devices => "devices: laid end to end, or dropped beside a file",
            Self::DeviceNames => "device names: replaced",
            Self::Files => "files: became devices, or were laid end to end",
            Self::NameCharacters => "names: characters that the format cannot hold were replaced",
            Self::Operations => "operations: the format has none, writes became reads",
            Self::Alignment => "alignment: ranges were widened to whole sectors of 512 bytes",
            Self::Requests => "requests: split into one record for each 4 KiB block touched",
            Self::EmptyRequests => "requests of no bytes: left out",
            Self::Durations => "how long requests took: the format has no durations",
            Self::FileSizes => "sizes of files: the format has none",
            Self::Machine => "the machine on which it was recorded: only parquet and csv say it",
        })
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Records in the file (more than requests where these were split).
    pub records: u64,
    /// What the file does not hold, in a fixed order.
    pub losses: Vec<Loss>,
}

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refused.
    #[error("cannot write {file}: {source}")]
    Io {
        /// Path of the file.
        file: String,
        /// What it said.
        source: io::Error,
    },
    /// Forerun reads this format but does not write it.
    #[error("the format {format} is read but not written; written are: {known}")]
    NotWritten {
        /// The format asked for.
        format: Format,
        /// Those that are written.
        known: String,
    },
    /// A value that the format cannot hold.
    #[error("request {request}: {what} does not fit into {format}; cut the trace or write parquet")]
    DoesNotFit {
        /// Index of the record in the trace.
        request: u64,
        /// What is too large.
        what: &'static str,
        /// The format asked for.
        format: Format,
    },
    /// Devices could not be laid end to end.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The Parquet library refused.
    #[error("cannot write Parquet: {0}")]
    Parquet(String),
}

/// What the Parquet library says; what the operating system told it is said as such.
fn of_parquet(error: ParquetError) -> WriteError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => (*source).into(),
            Err(inner) => WriteError::Parquet(inner.to_string()),
        },
        other => WriteError::Parquet(other.to_string()),
    }
}

impl From<io::Error> for WriteError {
    fn from(source: io::Error) -> Self {
        Self::Io { file: "the output".to_owned(), source }
    }
}

/// Writes `trace` to `path` in `format`; an existing file is replaced, and only by a whole one.
///
/// # Errors
/// See [`WriteError`].
pub fn write(path: impl AsRef<Path>, format: Format, trace: &Trace) -> Result<Written, WriteError> {
    let path = path.as_ref();
    // A link stays a link: the file that it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let sink = sink_of(&target);
    let to = |file, sink| {
        let mut out = Output::new(path, file)?;
        let written = write_to(&mut out, format, trace)?;
        out.finish(sink)?;
        Ok(written)
    };
    let result = sink.map_err(WriteError::from).and_then(|sink| match sink {
        Sink::Stream => to(File::create(&target)?, sink),
        Sink::File => {
            let beside = Beside::begin(&target, PARTIAL)?;
            let written = to(beside.file().try_clone()?, sink)?;
            beside.take_place()?;
            Ok(written)
        }
    });
    result.map_err(|error| match error {
        WriteError::Io { source, .. } => WriteError::Io { file: path.display().to_string(), source },
        other => other,
    })
}

/// What a trace is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sink {
    /// A file, there or not yet.
    File,
    /// A pipe, a terminal, `/dev/null`: nothing that could be replaced.
    Stream,
}

/// A name of the file system is replaced only where it is a file's: a device node or a folder is not.
fn sink_of(path: &Path) -> io::Result<Sink> {
    use std::os::unix::fs::FileTypeExt as _;
    let Ok(about) = fs::metadata(path) else { return Ok(Sink::File) };
    let kind = about.file_type();
    if kind.is_file() {
        Ok(Sink::File)
    } else if kind.is_char_device() || kind.is_fifo() {
        Ok(Sink::Stream)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "there is something that is no file: name a file"))
    }
}

/// A file, compressed by the end of its name.
enum Output {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Xz(liblzma::write::XzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn new(named: &Path, file: File) -> io::Result<Self> {
        let file = BufWriter::new(file);
        Ok(match named.extension().and_then(|end| end.to_str()) {
            Some("gz") => Self::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
            Some("xz") => Self::Xz(liblzma::write::XzEncoder::new(file, XZ_LEVEL)),
            Some("zst") => {
                let mut encoder = zstd::stream::write::Encoder::new(file, ZSTD_LEVEL)?;
                // gzip and xz have a sum of what they hold; zstd only if asked to.
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            _ => Self::Plain(file),
        })
    }
    fn finish(self, sink: Sink) -> io::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Xz(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if sink == Sink::File { file.sync_all() } else { Ok(()) }
    }
    fn inner(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
            Self::Xz(out) => out,
            Self::Zstd(out) => out,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner().flush()
    }
}

/// Writes `trace` to a stream in `format`, uncompressed.
///
/// # Errors
/// See [`WriteError`].
pub fn write_to(out: &mut (impl Write + Send), format: Format, trace: &Trace) -> Result<Written, WriteError> {
    let mut job = Job { trace, format, losses: BTreeSet::new(), records: trace.records.len() as u64 };
    if !matches!(format, Format::Parquet | Format::Csv) {
        job.lose_if(job.any(|r| r.took.is_some()), Loss::Durations);
        job.lose_if(!trace.file_sizes.is_empty(), Loss::FileSizes);
    }
    job.lose_if(!matches!(format, Format::Parquet | Format::Csv) && !trace.about.is_empty(), Loss::Machine);
    match format {
        Format::Parquet => {
            columnar::write(out, trace).map_err(of_parquet)?;
        }
        Format::Csv => job.csv(out)?,
        Format::FioV2 => job.fio_v2(out)?,
        Format::FioV3 => job.fio_v3(out)?,
        Format::Msr => job.msr(out)?,
        Format::Spc => job.spc(out)?,
        Format::OracleGeneral => job.oracle_general(out)?,
        Format::Lirs => job.lirs(out)?,
        _ => {
            let known: Vec<_> =
                Format::all().into_iter().filter(|f| f.is_written()).map(Format::name).collect();
            return Err(WriteError::NotWritten { format, known: known.join(", ") });
        }
    }
    out.flush()?;
    Ok(Written { records: job.records, losses: job.losses.into_iter().collect() })
}

/// One trace on its way into one format.
struct Job<'t> {
    trace: &'t Trace,
    format: Format,
    losses: BTreeSet<Loss>,
    records: u64,
}

impl Job<'_> {
    fn lose_if(&mut self, lost: bool, loss: Loss) {
        if lost {
            self.losses.insert(loss);
        }
    }
    fn any(&self, question: impl Fn(&Record) -> bool) -> bool {
        self.trace.records.iter().any(question)
    }
    /// What all formats but our own lose.
    fn common(&mut self, resolution_ns: u64) {
        self.lose_if(self.any(|r| r.process != Name::ABSENT), Loss::Processes);
        self.lose_if(self.any(|r| r.time.is_none()), Loss::TimesInvented);
        self.lose_if(self.any(|r| r.time.is_some_and(|t| t.0 % resolution_ns != 0)), Loss::TimeResolution);
    }
    fn does_not_fit(&self, request: usize, what: &'static str) -> WriteError {
        WriteError::DoesNotFit { request: request as u64, what, format: self.format }
    }

    fn csv(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        let trace = self.trace;
        self.lose_if(trace.names.iter().any(|name| name.contains(['\n', '\r'])), Loss::NameCharacters);
        let names: Vec<String> = trace.names.iter().map(|name| csv::quote(name)).collect();
        let name = |name: Name| names.get(name.0 as usize).map_or("", String::as_str);
        let (timed, sized) = (self.any(|r| r.took.is_some()), !trace.file_sizes.is_empty());
        let optional = (if timed { ",took" } else { "" }, if sized { ",size" } else { "" });
        writeln!(out, "{}{}{}", csv::HEADING, optional.0, optional.1)?;
        let mut said = String::new();
        csv::say_about(&mut said, &trace.about);
        out.write_all(said.as_bytes())?;
        let mut sizes = trace.file_sizes.clone();
        for r in &trace.records {
            let (device, process, file) = (name(r.device), name(r.process), name(r.file));
            write!(out, "{},{device},{},{}", seconds(r.time), r.offset, r.bytes)?;
            write!(out, ",{},{process},{file}", letter(r.op))?;
            if timed {
                write!(out, ",{}", seconds(r.took))?;
            }
            if sized {
                // Once a file: the size stands on its first row.
                let size = sizes.remove(&(r.device, r.file)).map(|size| size.to_string());
                write!(out, ",{}", size.unwrap_or_default())?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// The name of each record's device or file in a fio iolog, by (device, file).
    fn fio_names(&mut self) -> HashMap<(Name, Name), String> {
        let trace = self.trace;
        let spaces = spaces(trace);
        let mut wanted = Vec::with_capacity(spaces.len());
        for &(device, file) in &spaces {
            let (plain, own) = if file == Name::ABSENT {
                let known = trace.name(device);
                let own = known.starts_with("/dev/");
                self.lose_if(!own, Loss::DeviceNames);
                let plain = match known {
                    "" => "/dev/unnamed".to_owned(),
                    known if own => known.to_owned(),
                    known => format!("/dev/{known}"),
                };
                (plain, own)
            } else {
                let device_like = trace.name(file).starts_with("/dev/");
                self.lose_if(device != Name::ABSENT, Loss::Devices);
                self.lose_if(device_like, Loss::Files);
                (trace.name(file).to_owned(), device == Name::ABSENT && !device_like)
            };
            let clean = plain.replace(|c: char| c.is_ascii_whitespace(), "_");
            self.lose_if(clean != plain, Loss::NameCharacters);
            let own = own && clean == plain;
            wanted.push((clean, own));
        }
        spaces.into_iter().zip(fio::distinct(&wanted)).collect()
    }

    fn fio_v2(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        let names = self.fio_names();
        let timed = self.any(|r| r.time.is_some());
        self.common(1_000);
        if !timed {
            self.losses.remove(&Loss::TimesInvented);
        }
        writeln!(out, "{}", fio::HEADING_V2)?;
        let spaces = spaces(self.trace);
        for space in &spaces {
            writeln!(out, "{0} add\n{0} open", names[space])?;
        }
        let mut clock = 0;
        let mut waited = false;
        for r in &self.trace.records {
            let name = &names[&(r.device, r.file)];
            let micros = r.time.map_or(clock, |time| time.0 / 1_000);
            if micros < clock {
                self.losses.insert(Loss::TimeOrder);
            }
            if timed && (micros > clock || !waited) {
                writeln!(out, "{name} wait {} 0", micros.saturating_sub(clock))?;
                waited = true;
            }
            clock = clock.max(micros);
            writeln!(out, "{name} {} {} {}", word(r.op), r.offset, r.bytes)?;
        }
        for space in &spaces {
            writeln!(out, "{} close", names[space])?;
        }
        Ok(())
    }

    fn fio_v3(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        let names = self.fio_names();
        self.common(1_000);
        writeln!(out, "{}", fio::HEADING_V3)?;
        let spaces = spaces(self.trace);
        for space in &spaces {
            writeln!(out, "0 {0} add\n0 {0} open", names[space])?;
        }
        let mut last = 0;
        for r in &self.trace.records {
            let micros = r.time.map_or(0, |time| time.0 / 1_000);
            last = last.max(micros);
            let name = &names[&(r.device, r.file)];
            writeln!(out, "{micros} {name} {} {} {}", word(r.op), r.offset, r.bytes)?;
        }
        for space in &spaces {
            writeln!(out, "{last} {} close", names[space])?;
        }
        Ok(())
    }

    fn msr(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        self.common(100);
        self.lose_if(self.any(|r| r.file != Name::ABSENT), Loss::Files);
        let first = self.trace.records.iter().filter_map(|r| r.time).min();
        self.lose_if(first.is_some_and(|time| time.0 != 0), Loss::TimeOrigin);
        let mut hosts = HashMap::new();
        let spaces = spaces(self.trace);
        // A host of which the trace has a disk is not the one of names that MSR cannot hold.
        let mut other = "space_".to_owned();
        while spaces.iter().any(|&(device, _)| self.trace.name(device).starts_with(&other)) {
            other.insert(0, '~');
        }
        let other = other.trim_end_matches('_');
        for (number, (device, file)) in spaces.into_iter().enumerate() {
            let name = self.trace.name(device);
            let split = name.rsplit_once('_').filter(|(host, disk)| {
                file == Name::ABSENT
                    && crate::field::is_uint(disk)
                    && !host.contains([',', '"', '\n', '\r'])
                    && host.trim() == *host
            });
            self.lose_if(split.is_none(), Loss::DeviceNames);
            let host =
                split.map_or_else(|| format!("{other},{number}"), |(host, disk)| format!("{host},{disk}"));
            hosts.insert((device, file), host);
        }
        for (i, r) in self.trace.records.iter().enumerate() {
            let ticks = r.time.map_or(0, |time| time.0 / 100);
            let stamp = MSR_ZERO_TICKS + ticks; // below 2^59
            stamp.checked_mul(100).ok_or_else(|| self.does_not_fit(i, "the time"))?;
            let op = if r.op == Op::Read { "Read" } else { "Write" };
            writeln!(out, "{stamp},{},{op},{},{},0", hosts[&(r.device, r.file)], r.offset, r.bytes)?;
        }
        Ok(())
    }

    fn spc(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        self.common(1);
        self.lose_if(self.any(|r| r.file != Name::ABSENT), Loss::Files);
        self.lose_if(self.any(|r| r.offset % SECTOR_BYTES != 0), Loss::Alignment);
        let spaces = spaces(self.trace);
        let numbered = spaces
            .iter()
            .all(|&(device, file)| file == Name::ABSENT && crate::field::is_uint(self.trace.name(device)));
        self.lose_if(!numbered && !spaces.is_empty(), Loss::DeviceNames);
        let units: HashMap<_, _> = (0..)
            .zip(&spaces)
            .map(|(number, &(device, file))| {
                let unit: String =
                    if numbered { self.trace.name(device).to_owned() } else { format!("{number}") };
                ((device, file), unit)
            })
            .collect();
        for (i, r) in self.trace.records.iter().enumerate() {
            let time = r.time.unwrap_or_default().0;
            let bytes = r
                .bytes
                .checked_add(r.offset % SECTOR_BYTES)
                .ok_or_else(|| self.does_not_fit(i, "the size"))?;
            let (unit, lba, op) = (&units[&(r.device, r.file)], r.offset / SECTOR_BYTES, letter(r.op));
            writeln!(out, "{unit},{lba},{bytes},{op},{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)?;
        }
        Ok(())
    }

    /// What a format of block numbers loses, and where the blocks are.
    fn lay_blocks(&mut self) -> Result<Layout, WriteError> {
        self.lose_if(self.any(|r| r.op == Op::Write), Loss::Operations);
        self.lose_if(self.any(|r| r.device != Name::ABSENT), Loss::Devices);
        self.lose_if(self.any(|r| r.file != Name::ABSENT), Loss::Files);
        self.lose_if(self.any(|r| r.bytes == 0), Loss::EmptyRequests);
        let split = self.any(|r| r.bytes != 0 && (r.bytes != BLOCK_BYTES || r.offset % BLOCK_BYTES != 0));
        self.lose_if(split, Loss::Requests);
        let layout = lay(self.trace, &MapRule::Concat)?;
        self.records = 0;
        for (i, r) in self.trace.records.iter().enumerate() {
            self.records += Extent::covering(r.offset, r.bytes).blocks; // each below 2^52, and the sum stops early
            if self.records > BLOCKS_MAX {
                return Err(self.does_not_fit(i, "a number of blocks beyond 2^32"));
            }
        }
        Ok(layout)
    }

    fn lirs(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        self.lose_if(self.any(|r| r.time.is_some()), Loss::Times);
        self.lose_if(self.any(|r| r.process != Name::ABSENT), Loss::Processes);
        let layout = self.lay_blocks()?;
        for r in &self.trace.records {
            for block in blocks(&layout, r) {
                writeln!(out, "{block}")?;
            }
        }
        Ok(())
    }

    fn oracle_general(&mut self, out: &mut impl Write) -> Result<(), WriteError> {
        self.common(1_000_000_000);
        let layout = self.lay_blocks()?;
        // Requests count from 1; next[i] is the number of the request for the same block after request i + 1.
        let all: Vec<u64> = self.trace.records.iter().flat_map(|r| blocks(&layout, r)).collect();
        let mut next = vec![-1; all.len()];
        let mut seen: HashMap<u64, i64> = HashMap::new();
        let mut number = all.len() as u64;
        for (block, next) in all.iter().zip(&mut next).rev() {
            *next = seen.insert(*block, number.cast_signed()).unwrap_or(-1); // at most 2^32 blocks
            number -= 1;
        }
        let mut at = 0;
        for (i, r) in self.trace.records.iter().enumerate() {
            let secs = r.time.unwrap_or_default().0 / 1_000_000_000;
            let time = u32::try_from(secs).map_err(|_| self.does_not_fit(i, "the time"))?;
            for object in blocks(&layout, r) {
                let size = 4096;
                out.write_all(&Packed { time, object, size, next: next[at] }.bytes())?;
                at += 1;
            }
        }
        Ok(())
    }
}

/// Seconds with nine decimals, or nothing.
pub(crate) fn seconds(time: Option<Nanos>) -> String {
    time.map_or_else(String::new, |t| format!("{}.{:09}", t.0 / 1_000_000_000, t.0 % 1_000_000_000))
}

/// The volume's blocks that a record touches.
fn blocks(layout: &Layout, record: &Record) -> std::ops::Range<u64> {
    // Every record of the trace that was laid out has a place under `concat`.
    let offset = layout.locate(record).map_or(0, |(_, offset)| offset);
    let extent = Extent::covering(offset, record.bytes);
    extent.start.0..extent.end()
}

/// Every (device, file) of the trace, in order of first appearance.
fn spaces(trace: &Trace) -> Vec<(Name, Name)> {
    let mut seen = BTreeSet::new();
    trace.records.iter().map(|r| (r.device, r.file)).filter(|&space| seen.insert(space)).collect()
}

pub(crate) const fn letter(op: Op) -> char {
    match op {
        Op::Read => 'R',
        Op::Write => 'W',
    }
}

const fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
    }
}
