//! Tables into Rust without a copy: whoever has Arrow's C stream (pandas, polars, DuckDB, pyarrow) hands one over in a capsule, and its
//! rows become the requests of a trace. The inverse of what [`crate::arrow`] does with a trace.

use crate::arrow::{ABOUT, NAME};
use crate::errors::OptionError;
use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader as _};
use arrow_schema::{DataType, SchemaRef};
use forerun_core::access::Op;
use forerun_core::units::Nanos;
use forerun_trace::record::{Name, Record, Trace};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::{BTreeMap, HashMap};

/// Whole numbers up to here are exact in 64 bits of a float.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// What a recording says of its machine is so many short texts, as in Parquet; what is more is not taken.
const ABOUT_MAX: usize = 64;
const ABOUT_BYTES_MAX: usize = 512;

fn wrong(column: &str, what: impl std::fmt::Display) -> PyErr {
    OptionError::new_err(format!("{column}: {what}"))
}

/// The schema and the batches of a table that has Arrow's C stream.
pub(crate) fn batches(table: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let none = |_| wrong("table", "wants a table with Arrow's stream (__arrow_c_stream__)");
    let capsule = table.call_method0("__arrow_c_stream__").map_err(none)?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(NAME))?;
    #[expect(unsafe_code, reason = "a capsule of this name holds such a stream, which from here on is ours")]
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast()) };
    let read = RecordBatchStreamReader::try_new(stream).and_then(|reader| {
        let schema = reader.schema();
        Ok((schema, reader.collect::<Result<_, _>>()?))
    });
    read.map_err(|problem| wrong("table", problem))
}

/// What the metadata of a schema say of the machine on which it was recorded, as a trace's table has it.
fn about(schema: &SchemaRef) -> BTreeMap<String, String> {
    let own = schema.metadata().iter().filter_map(|(key, value)| Some((key.strip_prefix(ABOUT)?, value)));
    let short = own.filter(|(key, value)| key.len() + value.len() <= ABOUT_BYTES_MAX);
    let sorted: BTreeMap<_, _> = short.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    sorted.into_iter().take(ABOUT_MAX).collect()
}

/// The requests of batches, under the column names of a trace's table: `offset` and `bytes` must be there.
pub(crate) fn trace(schema: &SchemaRef, batches: &[RecordBatch]) -> PyResult<Trace> {
    let mut names = Names::default();
    let mut trace = Trace { about: about(schema), format: "arrow".into(), ..Trace::default() };
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name);
        let required = |name: &str| {
            let column = column(name).ok_or_else(|| wrong(name, "the table has no such column"))?;
            whole(name, column, numbers(name, column)?)
        };
        let optional = |name: &str| column(name).map(|column| numbers(name, column)).transpose();
        let (offset, bytes) = (required("offset")?, required("bytes")?);
        let (time, took) = (optional("time_ns")?, optional("took_ns")?);
        let file_bytes = optional("file_bytes")?;
        let mut of = |name: &str| column(name).map(|column| names.column(name, column)).transpose();
        let (device, process, file) = (of("device")?, of("process")?, of("file")?);
        let op = column("op").map(ops).transpose()?;
        let moment = |of: &Option<Vec<Option<u64>>>, at: usize| of.as_ref().and_then(|of| of[at]).map(Nanos);
        let name = |of: &Option<Vec<Name>>, at: usize| of.as_ref().map_or(Name::ABSENT, |of| of[at]);
        for (at, bytes) in file_bytes.iter().flatten().enumerate() {
            if let Some(bytes) = *bytes {
                trace.know_size(name(&device, at), name(&file, at), bytes);
            }
        }
        trace.records.extend((0..batch.num_rows()).map(|at| Record {
            time: moment(&time, at),
            took: moment(&took, at),
            device: name(&device, at),
            process: name(&process, at),
            file: name(&file, at),
            offset: offset[at],
            bytes: bytes[at],
            op: op.as_ref().map_or(Op::Read, |op| op[at]),
        }));
    }
    if let Some(at) =
        trace.records.iter().position(|record| record.offset.checked_add(record.bytes).is_none())
    {
        return Err(wrong("offset", format_args!("row {at} ends beyond 2^64 bytes")));
    }
    Ok(Trace { names: names.list, ..trace })
}

/// A column that has a number in each row.
fn whole(name: &str, column: &ArrayRef, numbers: Vec<Option<u64>>) -> PyResult<Vec<u64>> {
    let nulls = || wrong(name, format_args!("{} of {} rows have none", column.null_count(), column.len()));
    numbers.into_iter().collect::<Option<Vec<u64>>>().ok_or_else(nulls)
}

/// Whole numbers from 0, of any width.
fn numbers(name: &str, column: &ArrayRef) -> PyResult<Vec<Option<u64>>> {
    macro_rules! of {
        ($width:ty) => {
            column
                .as_primitive::<$width>()
                .iter()
                .map(|number| number.map(u64::try_from).transpose().ok())
                .collect()
        };
    }
    if column.logical_null_count() == column.len() {
        return Ok(vec![None; column.len()]); // of whatever type a table gives a column without values
    }
    let read: Option<Vec<Option<u64>>> = match column.data_type() {
        DataType::UInt64 => return Ok(column.as_primitive::<UInt64Type>().iter().collect()),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::Int32 => of!(Int32Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::Int16 => of!(Int16Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::Int8 => of!(Int8Type),
        // What pandas makes of whole numbers where some rows have none.
        DataType::Float64 => column
            .as_primitive::<Float64Type>()
            .iter()
            .map(|number| number.map_or(Some(None), |number| exact(number).map(Some)))
            .collect(),
        _ => None,
    };
    let what = || wrong(name, format_args!("wants whole numbers from 0, not all of {}", column.data_type()));
    read.ok_or_else(what)
}

/// A whole number as it was before it was made a float.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in the range")]
fn exact(number: f64) -> Option<u64> {
    let whole = number.fract() == 0.0 && (0.0..=EXACT_MAX).contains(&number);
    whole.then_some(number as u64)
}

/// The word of each row, none where there is none.
fn words<'a>(name: &str, column: &'a ArrayRef) -> PyResult<Vec<Option<&'a str>>> {
    Ok(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().collect(),
        DataType::Utf8View => column.as_string_view().iter().collect(),
        DataType::Null => vec![None; column.len()],
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            if dictionary.values().is_empty() {
                return Ok(vec![None; column.len()]);
            }
            let known = words(name, dictionary.values())?;
            let keys = dictionary.normalized_keys().into_iter().enumerate();
            keys.map(|(at, key)| known[key].filter(|_| !column.is_null(at))).collect()
        }
        other => return Err(wrong(name, format_args!("wants text, not {other}"))),
    })
}

fn ops(column: &ArrayRef) -> PyResult<Vec<Op>> {
    let one = |word: Option<&str>| match word {
        Some("R") | None => Ok(Op::Read),
        Some("W") => Ok(Op::Write),
        Some(other) => Err(wrong("op", format_args!("{other:?} is none of \"R\", \"W\""))),
    };
    words("op", column)?.into_iter().map(one).collect()
}

/// Words as numbers of names, in the order in which they first appear.
struct Names {
    list: Vec<String>,
    index: HashMap<String, Name>,
}

impl Default for Names {
    fn default() -> Self {
        Self { list: vec![String::new()], index: HashMap::new() }
    }
}

impl Names {
    fn column(&mut self, name: &str, column: &ArrayRef) -> PyResult<Vec<Name>> {
        words(name, column)?.into_iter().map(|word| self.number(name, word.unwrap_or_default())).collect()
    }

    fn number(&mut self, column: &str, word: &str) -> PyResult<Name> {
        if word.is_empty() {
            return Ok(Name::ABSENT);
        }
        if let Some(&known) = self.index.get(word) {
            return Ok(known);
        }
        let many = u32::try_from(self.list.len()).map_err(|_| wrong(column, "more than 2^32 names"))?;
        self.list.push(word.to_owned());
        self.index.insert(word.to_owned(), Name(many));
        Ok(Name(many))
    }
}
