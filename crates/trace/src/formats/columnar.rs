//! Forerun's own format: an Apache Parquet file, compressed with zstd, under a versioned schema.
//!
//! Columns, one row a request in the order of the source: `time_ns` u64 or null, `process`, `device`, `file` text
//! or null, `offset` u64, `bytes` u64, `op` text `R` or `W`, and since schema 2 `took_ns` u64 or null (how long the
//! program waited) and `file_bytes` u64 or null (size of the file, on the first row of each file that has one). The
//! file metadata carry `forerun.schema` = `2`; files of schema `1` have no such columns and are read as well. What a recording
//! says of its machine stands beside it as `forerun.about.KEY`. Parquet is
//! chosen because everything can read it (DuckDB, polars, pandas, Spark) and nothing of a record is lost: a trace
//! written and read again is the same trace. Times and offsets are delta-encoded, texts are dictionary-encoded, so
//! a request takes a few bytes. Only the column layer of the Parquet library is used, not Arrow: nine flat columns
//! need none, and Arrow would be most of the build. The library trusts some lengths of a damaged file (a page may
//! claim up to 2 GiB) and answers a few contradictions with a panic (`formats/columnar/quiet.rs`); that is turned into the same
//! error as any other malformed input. Damage that the library does not see is found by a sum of all values
//! (`formats/columnar/sum.rs`), which stands in the file metadata as `forerun.crc32`; a file without one, of an older Forerun, and one
//! that somebody else wrote are read as they are.

mod quiet;
mod sum;

use crate::error::{Fault, Place, TraceError};
use crate::record::{Name, Record, Trace};
use crate::sink::Sink;
use crate::source::ByteSource;
use bytes::Bytes;
use forerun_core::access::Op;
use forerun_core::units::Nanos;
use parquet::basic::{Compression, Encoding, Type, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use quiet::quietly;
use std::sync::Arc;
use sum::{ColumnSum, Sum};

/// The first and last bytes of a Parquet file.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";
/// Key of the schema version in the file metadata.
const SCHEMA_KEY: &str = "forerun.schema";
/// The schema that this file writes.
const SCHEMA_VERSION: &str = "2";
/// The schemas that it reads; the first had no `took_ns` and no `file_bytes`.
const SCHEMA_VERSIONS: [&str; 2] = ["1", SCHEMA_VERSION];
/// Who wrote a file, as it says itself.
const CREATED_BY: &str = "forerun";
/// Key of the sum of all values.
const SUM_KEY: &str = "forerun.crc32";
/// What to do about a file of which something is not as it was written.
const DAMAGED: &str = "the file is damaged: fetch or write it again";
/// Before the keys of what the recording says of its machine; so many of them, of so many bytes, are read.
const ABOUT: &str = "forerun.about.";
const ABOUT_MAX: usize = 64;
const ABOUT_BYTES_MAX: usize = 512;
/// Rows in one row group when writing, and in one batch when reading.
const GROUP_ROWS: usize = 1 << 20;
const BATCH_ROWS: usize = 1 << 14;
const ZSTD_LEVEL: i32 = 9;

/// The columns, in the order in which they are written.
const MESSAGE: &str = "message trace {
    optional int64 time_ns (INTEGER(64, false));
    optional binary process (STRING);
    optional binary device (STRING);
    optional binary file (STRING);
    required int64 offset (INTEGER(64, false));
    required int64 bytes (INTEGER(64, false));
    required binary op (STRING);
    optional int64 took_ns (INTEGER(64, false));
    optional int64 file_bytes (INTEGER(64, false));
}";

/// Reads a whole file.
pub(crate) fn read(source: &mut ByteSource<'_>, sink: &mut Sink<'_>) -> Result<(), TraceError> {
    let data = Bytes::from(source.whole()?);
    rows(data, sink).map_err(|(place, fault)| sink.fatal(place, fault))
}

/// What the library answers; its panics are answers too. What it was working on is not used after one.
fn asked<T>(ask: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, (Place, Fault)> {
    let found = match quietly(ask) {
        Some(Ok(answer)) => return Ok(answer),
        Some(Err(error)) => error.to_string(),
        None => "one whose inner lengths contradict each other".to_owned(),
    };
    let fault = Fault::told("a whole Parquet file", found).remedy("fetch or write the file again");
    Err((Place::Byte(0), fault))
}

fn rows(data: Bytes, sink: &mut Sink<'_>) -> Result<(), (Place, Fault)> {
    let file = asked(|| SerializedFileReader::new(data))?;
    check_version(file.metadata())?;
    read_about(file.metadata(), sink);
    let mut check = Check::of(file.metadata());
    let columns = Columns::find(file.metadata()).map_err(|fault| (Place::Byte(0), fault))?;
    let mut row = 0;
    for number in 0..file.num_row_groups() {
        let group = asked(|| file.get_row_group(number))?;
        let mut readers = asked(|| columns.open(&*group))?;
        while !sink.full() {
            let batch = asked(|| columns.batch(&mut readers))?;
            if batch.is_empty() {
                break;
            }
            if let Some(check) = &mut check {
                check.take(&batch);
            }
            let summed = check.is_some();
            batch.take(row, sink).map_err(|(place, fault)| {
                // Forerun writes no bad rows.
                (place, if summed { fault.or_remedy(DAMAGED) } else { fault })
            })?;
            row += batch.bytes.len() as u64;
        }
    }
    match check {
        // Rows behind a limit were not read.
        Some(check) if !sink.full() => check.finish(),
        _ => Ok(()),
    }
}

/// The pairs of the file metadata.
fn pairs(metadata: &ParquetMetaData) -> impl Iterator<Item = &KeyValue> {
    metadata.file_metadata().key_value_metadata().into_iter().flatten()
}

/// The value of a key of the file metadata.
fn value_of<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    pairs(metadata).find(|pair| pair.key == key)?.value.as_deref()
}

/// What a file says of its machine, as it stands there.
fn about(metadata: &ParquetMetaData) -> impl Iterator<Item = (&str, &str)> {
    pairs(metadata).filter_map(|pair| Some((pair.key.strip_prefix(ABOUT)?, pair.value.as_deref()?)))
}

/// The sum that a file states, and that of what was read.
struct Check {
    stated: String,
    sum: Sum,
}

impl Check {
    /// None where the file states none, and where another tool wrote it: it may have changed rows and kept the metadata.
    fn of(metadata: &ParquetMetaData) -> Option<Self> {
        if metadata.file_metadata().created_by() != Some(CREATED_BY) {
            return None;
        }
        let stated = value_of(metadata, SUM_KEY)?.to_owned();
        let mut sum = Sum::default();
        sum.about
            .texts(about(metadata).flat_map(|(key, value)| [key, value]).map(|text| Some(text.as_bytes())));
        Some(Self { stated, sum })
    }
    fn take(&mut self, batch: &Batch) {
        let numbers = [&batch.time, &batch.offset, &batch.bytes, &batch.took, &batch.file_bytes];
        for (sum, values) in self.sum.numbers.iter_mut().zip(numbers) {
            sum.numbers(values);
        }
        for (sum, values) in self.sum.texts.iter_mut().zip(&batch.texts) {
            sum.texts(values.iter().map(|value| value.as_ref().map(ByteArray::data)));
        }
    }
    fn finish(self) -> Result<(), (Place, Fault)> {
        let found = self.sum.finish();
        if found == self.stated {
            return Ok(());
        }
        let expected = format!("rows and file metadata of the sum {:?} ({SUM_KEY})", self.stated);
        let remedy = format!("{DAMAGED} (--limit reads its first rows unchecked)");
        Err((Place::Byte(0), Fault::told(expected, format!("others, of the sum {found:?}")).remedy(remedy)))
    }
}

fn check_version(metadata: &ParquetMetaData) -> Result<(), (Place, Fault)> {
    let version = value_of(metadata, SCHEMA_KEY);
    if version.is_some_and(|version| SCHEMA_VERSIONS.contains(&version)) {
        return Ok(());
    }
    let found = version.map_or_else(|| "no such key".to_owned(), |v| format!("version {v:?}"));
    let fault =
        Fault::told(format!("{SCHEMA_KEY} = {} in the file metadata", SCHEMA_VERSIONS.join(" or ")), found)
            .remedy("read it with the Forerun that wrote it, or export it as CSV and map its columns");
    Err((Place::Byte(0), fault))
}

/// What the recording says of its machine; more than a machine has to say is not taken.
fn read_about(metadata: &ParquetMetaData, sink: &mut Sink<'_>) {
    let short = about(metadata).filter(|(key, value)| key.len() + value.len() <= ABOUT_BYTES_MAX);
    for (key, value) in short.take(ABOUT_MAX) {
        sink.say_about(key, value);
    }
}

/// One column of the file: its index, and whether values may be null.
#[derive(Clone, Copy)]
struct Column {
    index: usize,
    nullable: bool,
}

/// Where the columns stand: time, offset, bytes, took, size of the file; process, device, file, op.
struct Columns {
    numbers: [Option<Column>; 5],
    texts: [Column; 4],
}

impl Columns {
    fn find(metadata: &ParquetMetaData) -> Result<Self, Fault> {
        let schema = metadata.file_metadata().schema_descr();
        let find = |name: &str, kind: Type, words: &str| {
            let at = schema.columns().iter().position(|column| column.path().string() == name);
            let expected = format!("a flat column {name} of {words}");
            let Some(index) = at else {
                return Err(Fault::told(expected, "no such column"));
            };
            let column = schema.column(index);
            let flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
            if column.physical_type() != kind || !flat {
                return Err(Fault::told(expected, format!("one of {}", column.physical_type())));
            }
            Ok(Column { index, nullable: column.max_def_level() == 1 })
        };
        let number = |name: &str| find(name, Type::INT64, "64-bit integers").map(Some);
        let optional = |name: &str| {
            let there = schema.columns().iter().any(|column| column.path().string() == name);
            if there { number(name) } else { Ok(None) }
        };
        let text = |name| find(name, Type::BYTE_ARRAY, "text");
        Ok(Self {
            numbers: [
                number("time_ns")?,
                number("offset")?,
                number("bytes")?,
                optional("took_ns")?,
                optional("file_bytes")?,
            ],
            texts: [text("process")?, text("device")?, text("file")?, text("op")?],
        })
    }

    /// Readers of the columns of one row group: numbers, then texts.
    fn open(&self, group: &dyn RowGroupReader) -> Result<Vec<ColumnReader>, ParquetError> {
        let there = self.numbers.iter().flatten().chain(&self.texts);
        there.map(|column| group.get_column_reader(column.index)).collect()
    }

    /// The next rows, at most [`BATCH_ROWS`]; all columns must have equally many.
    fn batch(&self, readers: &mut [ColumnReader]) -> Result<Batch, ParquetError> {
        let mut numbers = [const { Vec::new() }; 5];
        let mut texts = [const { Vec::new() }; 4];
        let (for_numbers, for_texts) = readers.split_at_mut(self.numbers.iter().flatten().count());
        let there = numbers.iter_mut().zip(&self.numbers).filter_map(|(out, column)| Some((out, (*column)?)));
        for ((out, column), reader) in there.zip(for_numbers) {
            let ColumnReader::Int64ColumnReader(reader) = reader else {
                return Err(ParquetError::General("a column changes its type".to_owned()));
            };
            let mut values = Vec::new();
            let mut levels = Vec::new();
            let wanted = column.nullable.then_some(&mut levels);
            let (read, ..) = reader.read_records(BATCH_ROWS, wanted, None, &mut values)?;
            *out = spread(read, column.nullable.then_some(&levels), values);
        }
        for ((out, column), reader) in texts.iter_mut().zip(&self.texts).zip(for_texts) {
            let ColumnReader::ByteArrayColumnReader(reader) = reader else {
                return Err(ParquetError::General("a column changes its type".to_owned()));
            };
            let mut values = Vec::new();
            let mut levels = Vec::new();
            let wanted = column.nullable.then_some(&mut levels);
            let (read, ..) = reader.read_records(BATCH_ROWS, wanted, None, &mut values)?;
            // A text that the library did not fill panics when it is looked at: better here, where that is an answer.
            values.iter().for_each(|value: &ByteArray| _ = value.data());
            *out = spread(read, column.nullable.then_some(&levels), values);
        }
        let rows = numbers[2].len();
        for (out, column) in numbers.iter_mut().zip(&self.numbers) {
            if column.is_none() {
                out.resize(rows, None);
            }
        }
        let [time, offset, bytes, took, file_bytes] = numbers;
        let lengths = [time.len(), offset.len(), took.len(), file_bytes.len()];
        if lengths != [rows; 4] || texts.iter().any(|text| text.len() != rows) {
            return Err(ParquetError::General("columns of different lengths".to_owned()));
        }
        Ok(Batch { time, offset, bytes, took, file_bytes, texts })
    }
}

/// Values at their rows: a definition level of zero is a null.
fn spread<T>(rows: usize, levels: Option<&Vec<i16>>, values: Vec<T>) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    match levels {
        None => values.take(rows).map(Some).collect(),
        Some(levels) => {
            levels.iter().take(rows).map(|&level| if level > 0 { values.next() } else { None }).collect()
        }
    }
}

/// Some rows, by column; texts are process, device, file, op.
struct Batch {
    time: Vec<Option<i64>>,
    offset: Vec<Option<i64>>,
    bytes: Vec<Option<i64>>,
    took: Vec<Option<i64>>,
    file_bytes: Vec<Option<i64>>,
    texts: [Vec<Option<ByteArray>>; 4],
}

impl Batch {
    const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    fn text(&self, which: usize, i: usize) -> Result<&str, Fault> {
        match &self.texts[which][i] {
            None => Ok(""),
            Some(text) => text.as_utf8().map_err(|_| Fault::told("text in UTF-8", "other bytes")),
        }
    }
    fn record(&self, i: usize, sink: &mut Sink<'_>) -> Result<Record, Fault> {
        let number = |value: Option<i64>, name: &str| {
            value.map(i64::cast_unsigned).ok_or_else(|| Fault::told(format!("a value of {name}"), "null"))
        };
        let nanos = |value: Option<i64>| value.map(|time| Nanos(time.cast_unsigned()));
        let last = sink.last();
        let process = sink.name_like(last.process, self.text(0, i)?)?;
        let device = sink.name_like(last.device, self.text(1, i)?)?;
        let file = sink.name_like(last.file, self.text(2, i)?)?;
        if let Some(bytes) = self.file_bytes[i] {
            sink.know_size(device, file, bytes.cast_unsigned());
        }
        Ok(Record {
            time: nanos(self.time[i]),
            took: nanos(self.took[i]),
            process,
            device,
            file,
            offset: number(self.offset[i], "offset")?,
            bytes: number(self.bytes[i], "bytes")?,
            op: match self.text(3, i)? {
                "R" => Op::Read,
                "W" => Op::Write,
                other => return Err(Fault::new("an operation, R or W", other)),
            },
        })
    }
    /// Hands the rows on; a bad one is counted or ends the reading, as in every format.
    fn take(&self, first_row: u64, sink: &mut Sink<'_>) -> Result<(), (Place, Fault)> {
        for i in 0..self.bytes.len() {
            let result = self.record(i, sink).and_then(|record| sink.push(record));
            if let Err(fault) = result {
                let place = Place::Row(first_row + i as u64);
                if !sink.options.skip_bad {
                    return Err((place, fault));
                }
                sink.skip(place, fault);
            }
        }
        Ok(())
    }
}

fn properties(trace: &Trace) -> Result<WriterProperties, ParquetError> {
    let about = trace.about.iter().map(|(key, value)| KeyValue::new(format!("{ABOUT}{key}"), value.clone()));
    let version = KeyValue::new(SCHEMA_KEY.to_owned(), SCHEMA_VERSION.to_owned());
    let mut builder = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_key_value_metadata(Some(std::iter::once(version).chain(about).collect()));
    for name in ["time_ns", "offset", "took_ns"] {
        let path = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}

/// Writes a whole file.
pub(crate) fn write(out: &mut (impl std::io::Write + Send), trace: &Trace) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(MESSAGE)?);
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties(trace)?))?;
    let names: Vec<ByteArray> = trace.names.iter().map(|name| ByteArray::from(name.as_str())).collect();
    let mut sizes = trace.file_sizes.clone();
    let mut sum = Sum::default();
    let about = trace.about.iter().flat_map(|(key, value)| [key, value]);
    sum.about.texts(about.map(|text| Some(text.as_bytes())));
    for records in trace.records.chunks(GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        let [of_time, of_offset, of_bytes, of_took, of_size] = &mut sum.numbers;
        let [of_names @ .., of_op] = &mut sum.texts;
        let time: Vec<_> = records.iter().map(|r| r.time.map(|t| t.0.cast_signed())).collect();
        numbers(&mut group, of_time, &time)?;
        let pickers: [fn(&Record) -> Name; 3] = [|r| r.process, |r| r.device, |r| r.file];
        for (pick, sum) in pickers.into_iter().zip(of_names) {
            let name =
                |name: Name| (name != Name::ABSENT).then(|| names.get(name.0 as usize).cloned()).flatten();
            texts(&mut group, sum, records.iter().map(|r| name(pick(r))), true)?;
        }
        let offset: Vec<_> = records.iter().map(|r| r.offset.cast_signed()).collect();
        numbers_required(&mut group, of_offset, &offset)?;
        let bytes: Vec<_> = records.iter().map(|r| r.bytes.cast_signed()).collect();
        numbers_required(&mut group, of_bytes, &bytes)?;
        let letter = |op| Some(ByteArray::from(if op == Op::Read { "R" } else { "W" }));
        texts(&mut group, of_op, records.iter().map(|r| letter(r.op)), false)?;
        let took: Vec<_> = records.iter().map(|r| r.took.map(|t| t.0.cast_signed())).collect();
        numbers(&mut group, of_took, &took)?;
        // Once a file: the size stands on its first row.
        let size = |r: &Record| sizes.remove(&(r.device, r.file)).map(u64::cast_signed);
        numbers(&mut group, of_size, &records.iter().map(size).collect::<Vec<_>>())?;
        group.close()?;
    }
    writer.append_key_value_metadata(KeyValue::new(SUM_KEY.to_owned(), sum.finish()));
    writer.close()?;
    Ok(())
}

/// The next column's writer; there are as many as [`MESSAGE`] has.
macro_rules! next_column {
    ($group:expr) => {
        $group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".to_owned()))?
    };
}

fn numbers<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    sum: &mut ColumnSum,
    values: &[Option<i64>],
) -> Result<(), ParquetError> {
    sum.numbers(values);
    let mut column = next_column!(group);
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<i64> = values.iter().copied().flatten().collect();
    column.typed::<Int64Type>().write_batch(&present, Some(&levels), None)?;
    column.close()
}

fn numbers_required<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    sum: &mut ColumnSum,
    values: &[i64],
) -> Result<(), ParquetError> {
    sum.numbers(values);
    let mut column = next_column!(group);
    column.typed::<Int64Type>().write_batch(values, None, None)?;
    column.close()
}

fn texts<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    sum: &mut ColumnSum,
    values: impl Iterator<Item = Option<ByteArray>>,
    nullable: bool,
) -> Result<(), ParquetError> {
    let mut column = next_column!(group);
    let values: Vec<_> = values.collect();
    sum.texts(values.iter().map(|value| value.as_ref().map(ByteArray::data)));
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let present: Vec<ByteArray> = values.into_iter().flatten().collect();
    column.typed::<ByteArrayType>().write_batch(&present, nullable.then_some(levels.as_slice()), None)?;
    column.close()
}
