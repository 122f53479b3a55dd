//! Tables out of Rust without a copy: Arrow's C stream in a capsule, which pandas, polars, DuckDB and pyarrow take.

use crate::errors::ForerunError;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::UInt32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use forerun_core::access::Op;
use forerun_study::rows::{Column, Rows};
use forerun_trace::record::{Name, Record, Trace};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::sync::Arc;

/// Before the keys of what a recording says of its machine, as in the file metadata of Forerun's Parquet.
pub(crate) const ABOUT: &str = "forerun.about.";

/// What the consumer looks for.
pub(crate) const NAME: &std::ffi::CStr = c"arrow_array_stream";

/// A table as a capsule that holds a stream of its one batch.
pub(crate) fn capsule<'py>(py: Python<'py>, batch: RecordBatch) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = batch.schema();
    let reader = RecordBatchIterator::new([Ok(batch)], schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), NAME)
}

fn batch(columns: Vec<(String, ArrayRef)>) -> PyResult<RecordBatch> {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|problem| wrong(&problem))
}

fn wrong(problem: &ArrowError) -> PyErr {
    ForerunError::new_err(format!("arrow: {problem}"))
}

/// Rows of reports.
pub(crate) fn of_rows(rows: &Rows) -> PyResult<RecordBatch> {
    batch(rows.columns().map(|(name, column)| (name.to_owned(), array(column))).collect())
}

fn array(column: Column) -> ArrayRef {
    match column {
        Column::Counts(cells) => Arc::new(UInt64Array::from(cells)),
        Column::Numbers(cells) => Arc::new(Float64Array::from(cells)),
        Column::Switches(cells) => Arc::new(BooleanArray::from(cells)),
        Column::Words(cells) => Arc::new(StringArray::from(cells)),
    }
}

/// The requests of a trace, under the names that its Parquet form has; what it says of its machine is metadata of the schema.
pub(crate) fn of_trace(trace: &Trace) -> PyResult<RecordBatch> {
    let numbers = |of: fn(&Record) -> Option<u64>| -> ArrayRef {
        Arc::new(trace.records.iter().map(of).collect::<UInt64Array>())
    };
    // Once a file: the size stands on its first row.
    let mut sizes = trace.file_sizes.clone();
    let size = |record: &Record| sizes.remove(&(record.device, record.file));
    let sizes: UInt64Array = trace.records.iter().map(size).collect();
    let requests = batch(vec![
        ("time_ns".into(), numbers(|record| record.time.map(|time| time.0))),
        ("process".into(), names(trace, |record| record.process)?),
        ("device".into(), names(trace, |record| record.device)?),
        ("file".into(), names(trace, |record| record.file)?),
        ("offset".into(), numbers(|record| Some(record.offset))),
        ("bytes".into(), numbers(|record| Some(record.bytes))),
        ("op".into(), ops(trace)?),
        ("took_ns".into(), numbers(|record| record.took.map(|took| took.0))),
        ("file_bytes".into(), Arc::new(sizes)),
    ])?;
    let about = trace.about.iter().map(|(key, value)| (format!("{ABOUT}{key}"), value.clone()));
    let schema = requests.schema().as_ref().clone().with_metadata(about.collect::<HashMap<_, _>>());
    requests.with_schema(Arc::new(schema)).map_err(|problem| wrong(&problem))
}

fn names(trace: &Trace, of: fn(&Record) -> Name) -> PyResult<ArrayRef> {
    let key = |record: &Record| Some(of(record).0).filter(|&name| name != Name::ABSENT.0);
    let keys: UInt32Array = trace.records.iter().map(key).collect();
    dictionary(keys, trace.names.iter().map(String::as_str).collect())
}

fn ops(trace: &Trace) -> PyResult<ArrayRef> {
    let key = |record: &Record| Some(u32::from(record.op == Op::Write));
    dictionary(trace.records.iter().map(key).collect(), vec!["R", "W"])
}

fn dictionary(keys: UInt32Array, words: Vec<&str>) -> PyResult<ArrayRef> {
    DictionaryArray::<UInt32Type>::try_new(keys, Arc::new(StringArray::from(words)))
        .map(|column| Arc::new(column) as ArrayRef)
        .map_err(|problem| wrong(&problem))
}
