//! Opening a trace: the one way in.
//!
//! A file is hashed, decompressed and recognised (see `source` and `detect`), then handed to its format's reader.
//! The two loops that drive readers are here: one for lines, one call for binary formats. A blktrace recording is a
//! file per processor; a path that does not exist but has siblings `path.blktrace.0`, `path.blktrace.1`, … means
//! them all together, as for blkparse.

use crate::detect::{bare_lines, detect, hindrance, is_not_in_sectors};
use crate::error::{Fault, Malformed, Place, TraceError, excerpt};
use crate::format::Format;
use crate::formats::{
    LineReader, alibaba, arc, blkparse, blktrace, columnar, columns, csv, disksim, fio, lirs, mqsim, msr,
    oracle_general, perf, spc, strace, tencent, vscsi,
};
use crate::options::ReadOptions;
use crate::record::{Record, Trace};
use crate::sink::{Sink, Taker};
use crate::source::{ByteSource, Chained, Hashed, LINE_BYTES_MAX, decompressed, stream_error};
use crate::units;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A trace and what was learned while reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The records; `trace.skipped` counts bad ones that were passed over.
    pub trace: Trace,
    /// SHA-256 of the file as it stands (compressed, where it is), in hexadecimal. For several files read as one,
    /// of their contents one after another.
    pub hash_hex: String,
    /// The format that was found or named.
    pub format: Format,
    /// The first bad records that were passed over, at most 16.
    pub bad: Vec<Malformed>,
}

/// Reads the trace at `path`.
///
/// # Errors
/// [`TraceError::Io`] when the file cannot be read; [`TraceError::Malformed`] at the first record that does not follow
/// its format (unless `skip_bad`), when no format claims the content, or when a compressed stream is broken.
pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Opened, TraceError> {
    let (name, bytes) = file(path.as_ref())?;
    read_from(&name, bytes, options)
}

/// The bytes of the trace at `path`, and what stands for it in messages.
fn file(path: &Path) -> Result<(String, Box<dyn Read>), TraceError> {
    let name = path.display().to_string();
    let failed = |source| TraceError::Io { file: name.clone(), source };
    match File::open(path) {
        Ok(file) => Ok((name, Box::new(file))),
        Err(error) => {
            let parts = processor_files(path);
            if parts.is_empty() {
                return Err(failed(error));
            }
            let files = parts.iter().map(File::open).collect::<Result<Vec<_>, _>>().map_err(failed)?;
            Ok((format!("{name}.blktrace.*"), Box::new(Chained::new(files))))
        }
    }
}

/// What was learned of a trace whose records were handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The names of the records; it has none of these itself.
    pub trace: Trace,
    /// The first bad records that were passed over, at most 16.
    pub bad: Vec<Malformed>,
}

/// Reads the trace at `path` without keeping it: `take` is given its records in parts and in order, as they are read. Of each the
/// device, file, offset, length and operation are as [`open`] gives them; times may have another zero, and processes no name.
/// The file is not hashed.
///
/// # Errors
/// As [`open`]; what was read before was handed on.
pub fn pass(
    path: impl AsRef<Path>,
    options: &ReadOptions,
    take: &mut dyn FnMut(&[Record]),
) -> Result<Passed, TraceError> {
    let (name, bytes) = file(path.as_ref())?;
    pass_from(&name, bytes, options, take)
}

/// The same of a stream; `name` stands for it in messages.
///
/// # Errors
/// As [`pass`].
pub fn pass_from(
    name: &str,
    raw: impl Read,
    options: &ReadOptions,
    take: &mut dyn FnMut(&[Record]),
) -> Result<Passed, TraceError> {
    let (_, trace, bad) = decode(name, raw, options, Hand::Early(take))?;
    Ok(Passed { trace, bad })
}

/// Reads the trace at `path` as [`open`] does, and hands its records on in parts and in order instead of keeping them: `trace.records` is
/// empty then. Times may have another zero. Formats that know what a record is only at their end (strace, perf, logs of fio without
/// times) are kept until then, in few bytes.
///
/// # Errors
/// As [`open`]; what was read before was handed on.
pub fn through(
    path: impl AsRef<Path>,
    options: &ReadOptions,
    take: &mut dyn FnMut(&[Record]),
) -> Result<Opened, TraceError> {
    let (name, bytes) = file(path.as_ref())?;
    through_from(&name, bytes, options, take)
}

/// The same of a stream; `name` stands for it in messages.
///
/// # Errors
/// As [`through`].
pub fn through_from(
    name: &str,
    raw: impl Read,
    options: &ReadOptions,
    take: &mut dyn FnMut(&[Record]),
) -> Result<Opened, TraceError> {
    let mut hashed = Hashed::new(raw);
    let (format, trace, bad) = decode(name, &mut hashed, options, Hand::Exact(take))?;
    let hash_hex = hashed.finish().map_err(|error| stream_error(name, error, 0))?;
    Ok(Opened { trace, hash_hex, format, bad })
}

/// Where records go.
enum Hand<'a> {
    /// Into the trace.
    Keep,
    /// To this taker as they come, whatever is learned of them later.
    Early(Taker<'a>),
    /// To this taker as they come, where nothing is learned of them later; else at the end.
    Exact(Taker<'a>),
}

/// Whether a format says only at its end whose a request is, or that it has no times.
const fn knows_late(format: Format) -> bool {
    matches!(format, Format::Strace | Format::Perf | Format::FioV2)
}

/// The files of a blktrace recording: `base.blktrace.0` and so on, without a gap.
fn processor_files(base: &Path) -> Vec<std::path::PathBuf> {
    let nth = |cpu: usize| {
        let mut name = base.as_os_str().to_owned();
        name.push(format!(".blktrace.{cpu}"));
        std::path::PathBuf::from(name)
    };
    (0..).map(nth).take_while(|path| path.is_file()).collect()
}

/// Reads the trace in `bytes`; `name` stands for it in messages.
///
/// # Errors
/// As [`open`], without the errors of files.
pub fn read_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Opened, TraceError> {
    read_from(name, bytes, options)
}

/// Reads the trace in a stream; `name` stands for it in messages.
///
/// # Errors
/// As [`open`].
pub fn read_from(name: &str, raw: impl Read, options: &ReadOptions) -> Result<Opened, TraceError> {
    let mut hashed = Hashed::new(raw);
    let (format, trace, bad) = decode(name, &mut hashed, options, Hand::Keep)?;
    let hash_hex = hashed.finish().map_err(|error| stream_error(name, error, 0))?;
    Ok(Opened { trace, hash_hex, format, bad })
}

/// Unpacks, recognises and reads a stream; who takes its records, where they are not kept.
fn decode(
    name: &str,
    raw: impl Read,
    options: &ReadOptions,
    hand: Hand<'_>,
) -> Result<(Format, Trace, Vec<Malformed>), TraceError> {
    let stream = decompressed(raw).map_err(|error| stream_error(name, error, 0))?;
    let mut source = ByteSource::new(name, stream)?;
    let format = choose(name, source.peek(), options)?;
    let found = options.format.is_none() && options.csv_mapping.is_none();
    let bare = if found { bare_lines(source.peek()) } else { None };
    let assumed = bare.and_then(|lines| units::assumed(format, &lines, name));
    let mut sink = Sink::new(name, format, options);
    match hand {
        Hand::Early(take) => sink = sink.handing_on(take),
        Hand::Exact(take) if knows_late(format) => sink = sink.handing_on_at_the_end(take),
        Hand::Exact(take) => sink = sink.handing_on(take),
        Hand::Keep => {}
    }
    drive(format, &mut source, &mut sink)?;
    let (mut trace, bad) = sink.finish(is_rebased(format, options))?;
    trace.assumed = assumed;
    Ok((format, trace, bad))
}

/// The format named, meant by a mapping, or found.
fn choose(name: &str, head: &[u8], options: &ReadOptions) -> Result<Format, TraceError> {
    if let Some(format) = options.format {
        return Ok(format);
    }
    if options.csv_mapping.is_some() {
        return Ok(Format::Columns);
    }
    detect(head, name).ok_or_else(|| {
        if let Some(likely) = hindrance(head) {
            let ((claimed, lines), (number, line)) = (likely.claimed, likely.line);
            let expected = format!("a line of {} as {claimed} of the first {lines} are", likely.format);
            let fault = Fault::new(expected, line).remedy("repair it, or name its `format` or its `columns`");
            return fault.at(name, "unknown", Place::Line(number)).into();
        }
        if let Some((expected, remedy)) = is_not_in_sectors(head).and_then(units::refusal) {
            let line = bare_lines(head).and_then(|lines| lines.first().copied()).unwrap_or_default();
            let found =
                format!("numbers too large, or of too many whole sectors, to be that: {}", excerpt(line));
            return Fault::told(expected, found).remedy(remedy).at(name, "unknown", Place::Byte(0)).into();
        }
        let first = head.split(|&b| b == b'\n').next().unwrap_or_default();
        let found = if head.is_empty() {
            "an empty file".to_owned()
        } else {
            excerpt(&String::from_utf8_lossy(&first[..first.len().min(256)]))
        };
        let known = format!("the beginning of a trace in one of: {}", Format::names());
        let fault = Fault::told(known, found).remedy("name its `format` or its `columns`");
        fault.at(name, "unknown", Place::Byte(0)).into()
    })
}

/// Whether a format records an absolute clock, so that the earliest request becomes time zero.
fn is_rebased(format: Format, options: &ReadOptions) -> bool {
    match format {
        Format::Blktrace | Format::Msr | Format::Vscsi | Format::Alibaba | Format::Tencent => true,
        Format::Strace | Format::Perf => true,
        Format::Columns => options.csv_mapping.as_ref().is_some_and(|mapping| mapping.rebase),
        _ => false,
    }
}

/// Hands the source to the format's reader.
fn drive(format: Format, source: &mut ByteSource<'_>, sink: &mut Sink<'_>) -> Result<(), TraceError> {
    let reader: Box<dyn LineReader> = match format {
        Format::Parquet => return columnar::read(source, sink),
        Format::Blktrace => return blktrace::read(source, sink),
        Format::Vscsi => return vscsi::read(source, sink),
        Format::OracleGeneral => return oracle_general::read(source, sink),
        Format::Columns => match &sink.options.csv_mapping {
            Some(mapping) => Box::new(columns::Reader::new(mapping.clone())),
            None => {
                let fault = Fault::told("a column mapping for the format columns", "none")
                    .remedy("give one, e.g. time=0:us,offset=3:sectors,bytes=4,op=2");
                return Err(sink.fatal(Place::Line(1), fault));
            }
        },
        Format::Csv => Box::new(csv::Reader::default()),
        Format::Blkparse => Box::new(blkparse::Reader::default()),
        Format::FioV2 => Box::new(fio::Reader::new(2)),
        Format::FioV3 => Box::new(fio::Reader::new(3)),
        Format::Msr => Box::new(msr::Reader::default()),
        Format::Spc => Box::new(spc::line),
        Format::Disksim => Box::new(disksim::line),
        Format::Mqsim => Box::new(mqsim::line),
        Format::Lirs => Box::new(lirs::line),
        Format::Arc => Box::new(arc::line),
        Format::Alibaba => Box::new(alibaba::line),
        Format::Tencent => Box::new(tencent::line),
        Format::Strace => Box::new(strace::Reader::default()),
        Format::Perf => Box::new(perf::Reader::default()),
    };
    lines(reader, source, sink)
}

/// Feeds a text format line by line.
fn lines(
    mut reader: Box<dyn LineReader>,
    source: &mut ByteSource<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), TraceError> {
    let mut line = Vec::new();
    let mut number = 0;
    while !sink.full() {
        let Some(fits) = source.line(&mut line)? else {
            break;
        };
        number += 1;
        if source.is_torn() && reader.may_be_torn() {
            break;
        }
        let result = if fits {
            one_line(&mut *reader, &line, number, sink)
        } else {
            Err(Fault::told(format!("a line of at most {LINE_BYTES_MAX} bytes"), "a longer one"))
        };
        if let Err(fault) = result {
            sink.bad(Place::Line(number), fault)?;
        }
    }
    reader.finish(sink).map_err(|fault| sink.fatal(Place::Line(number), fault))
}

fn one_line(reader: &mut dyn LineReader, line: &[u8], number: u64, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let text = std::str::from_utf8(line)
        .map_err(|error| Fault::told("text in UTF-8", format!("byte 0x{:02x}", line[error.valid_up_to()])))?;
    let text = if number == 1 { text.trim_start_matches('\u{feff}') } else { text };
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.trim().is_empty() { Ok(()) } else { reader.line(text, sink) }
}
