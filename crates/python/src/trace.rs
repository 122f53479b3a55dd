//! Traces: opened from files, made of arrays, described, and handed on.

use crate::errors::{OptionError, json, raised};
use crate::watching::watched;
use crate::{arrow, arrow_in};
use forerun_sim::input::Input;
use forerun_study::StudyError;
use forerun_study::traces::{self, Classes, Columns, Info};
use forerun_trace::cut::Cut;
use forerun_trace::patterns::GroupBy;
use forerun_trace::record::Trace as Records;
use forerun_trace::{ColumnMapping, Format, ReadOptions, WriteError};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::path::PathBuf;
use std::sync::Arc;

/// Requests of programs, in memory.
#[pyclass(frozen, module = "forerun")]
pub(crate) struct Trace {
    /// As it was named.
    #[pyo3(get)]
    name: String,
    records: Arc<Records>,
    sha256: String,
}

/// The numbers of a column.
pub(crate) fn numbers(what: &str, column: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let wrong = |problem: PyErr| {
        OptionError::new_err(format!(
            "{what}: {problem} (give one dimension of unsigned integers of 64 bits)"
        ))
    };
    if column.len().is_ok_and(|values| values == 0) {
        return Ok(Vec::new()); // an empty buffer has no address that would be aligned
    }
    PyBuffer::<u64>::get(column).and_then(|buffer| buffer.to_vec(column.py())).map_err(wrong)
}

#[pymethods]
impl Trace {
    /// Reads a file of any format, by its content.
    #[staticmethod]
    #[pyo3(signature = (path, *, format=None, columns=None, skip_bad=false, limit=None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        columns: Option<&str>,
        skip_bad: bool,
        limit: Option<u64>,
    ) -> PyResult<Self> {
        let wrong = |problem: &dyn std::fmt::Display| OptionError::new_err(problem.to_string());
        let format = format.map(str::parse::<Format>).transpose().map_err(|problem| wrong(&problem))?;
        let columns =
            columns.map(str::parse::<ColumnMapping>).transpose().map_err(|problem| wrong(&problem))?;
        let options = ReadOptions { format, skip_bad, csv_mapping: columns, limit, ..ReadOptions::default() };
        let name = path.display().to_string();
        let opened = watched(py, move |watch| {
            let opened = traces::open(&path, &options, watch)?;
            Ok((Arc::new(opened.trace), opened.hash_hex))
        });
        opened.map(|(records, sha256)| Self { name, records, sha256 })
    }

    /// Makes one of columns; see `forerun.Trace.from_arrays`.
    #[staticmethod]
    fn from_columns(
        name: &str,
        offset: &Bound<'_, PyAny>,
        size: &Bound<'_, PyAny>,
        time: Option<&Bound<'_, PyAny>>,
        write: Option<&Bound<'_, PyAny>>,
        context: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = offset.py();
        let columns = Columns {
            offset: numbers("offset", offset)?,
            size: numbers("size", size)?,
            time: time.map(|column| numbers("time", column)).transpose()?,
            write: write.map(|column| numbers("op", column)).transpose()?,
            context: context.map(|column| numbers("context", column)).transpose()?,
        };
        let made = py.detach(|| columns.into_trace()).map_err(|problem| raised(py, &problem))?;
        Ok(Self { name: name.to_owned(), records: Arc::new(made.0), sha256: made.1 })
    }

    /// Makes one of a table's rows; see `forerun.Trace.from_arrow`.
    #[staticmethod]
    fn from_table(name: &str, table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (schema, batches) = arrow_in::batches(table)?;
        let made = table.py().detach(|| {
            let trace = arrow_in::trace(&schema, &batches)?;
            let sha256 = traces::content_hash(&trace);
            Ok::<_, PyErr>((trace, sha256))
        })?;
        Ok(Self { name: name.to_owned(), records: Arc::new(made.0), sha256: made.1 })
    }

    /// The same under another name.
    fn named(&self, name: String) -> Self {
        Self { name, records: Arc::clone(&self.records), sha256: self.sha256.clone() }
    }

    fn __len__(&self) -> usize {
        self.records.records.len()
    }

    fn __repr__(&self) -> String {
        format!("<forerun.Trace {}: {} requests>", self.name, self.records.records.len())
    }

    /// Hash of the content.
    #[getter]
    fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Bad records that were passed over.
    #[getter]
    fn skipped(&self) -> u64 {
        self.records.skipped
    }

    /// As `forerun trace info --json`.
    fn info_json(&self, py: Python<'_>) -> PyResult<String> {
        let records = Arc::clone(&self.records);
        let info = watched(py, move |watch| traces::info(&records, watch))?;
        json(&Info { file: self.name.clone(), sha256: &self.sha256, info: &info })
    }

    /// As `forerun trace patterns --json`.
    fn patterns_json(&self, py: Python<'_>, by: Option<&str>, threshold: Option<u64>) -> PyResult<String> {
        let by = match by {
            None => None,
            Some("process") => Some(GroupBy::Process),
            Some("file") => Some(GroupBy::File),
            Some(other) => {
                return Err(OptionError::new_err(format!("by: {other:?} is none of process, file")));
            }
        };
        let threshold = threshold.unwrap_or(forerun_core::pattern::THRESHOLD_DEFAULT);
        let records = Arc::clone(&self.records);
        let found = watched(py, move |watch| traces::read_how(&records, threshold, by, watch))?;
        json(&Classes::new(self.name.clone(), &self.sha256, by, &found))
    }

    /// As `forerun trace cut`.
    #[pyo3(signature = (name, *, from_s=None, until_s=None, process=Vec::new(), sample=None, seed=1))]
    #[expect(clippy::too_many_arguments, reason = "a call from Python, where they have names")]
    fn cut(
        &self,
        py: Python<'_>,
        name: String,
        from_s: Option<f64>,
        until_s: Option<f64>,
        process: Vec<String>,
        sample: Option<f64>,
        seed: u64,
    ) -> PyResult<Self> {
        let wrong = |what: &str, why: &str| OptionError::new_err(format!("{what}: {why}"));
        let moment = |what: &str, seconds: Option<f64>| {
            seconds.map(|seconds| traces::moment(seconds).map_err(|why| wrong(what, &why))).transpose()
        };
        let (from, until) = (moment("from_", from_s)?, moment("until", until_s)?);
        let sample =
            sample.map(|share| traces::share(share).map_err(|why| wrong("sample", &why))).transpose()?;
        let what = Cut { from, until, processes: process, sample, seed };
        let part = py.detach(|| traces::part(&self.records, &what));
        let part = part.map_err(|problem| raised(py, &problem))?;
        let sha256 = traces::part_hash(&self.sha256, &what);
        Ok(Self { name, records: Arc::new(part), sha256 })
    }

    /// The requests from one to before another.
    fn stretch(&self, py: Python<'_>, from: usize, until: usize) -> Self {
        let (part, sha256) = py.detach(|| traces::stretch(&self.records, &self.sha256, from, until));
        Self { name: format!("{}[{from}:{until}]", self.name), records: Arc::new(part), sha256 }
    }

    /// Writes it: the format by name, or by the ending of the file. What that does not hold.
    fn write(&self, py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<Vec<String>> {
        let format = format.map(str::parse::<Format>).transpose();
        let format = format.map_err(|problem| OptionError::new_err(format!("format: {problem}")))?;
        let format = traces::target(&path, format).map_err(|problem| raised(py, &problem))?;
        let records = Arc::clone(&self.records);
        let written = watched(py, move |_| {
            forerun_trace::write(&path, format, &records).map_err(|problem| match problem {
                WriteError::NotWritten { .. } => StudyError::usage("format", problem, ""),
                other => StudyError::failure("", other),
            })
        })?;
        Ok(written.losses.iter().map(ToString::to_string).collect())
    }

    /// The requests as an Arrow stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // a wish, which a producer may leave unheard
        let table = py.detach(|| arrow::of_trace(&self.records))?;
        arrow::capsule(py, table)
    }
}

impl Trace {
    /// As an input of runs, under its name.
    pub(crate) fn input(&self) -> Input {
        let mut input = Input::of_shared(&self.name, &self.sha256, &self.records);
        short(&self.name).clone_into(&mut input.name);
        input
    }
}

/// As `forerun mrc --json`: of a trace, or of the path of a file, which is read through and not kept.
#[pyfunction]
pub(crate) fn mrc(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    retentions: Vec<String>,
    cache_blocks: Vec<String>,
    map: &str,
) -> PyResult<String> {
    let wrong = |what: &str, why: String| OptionError::new_err(format!("{what}: {why}"));
    let map = traces::map(map).map_err(|why| wrong("map", why))?;
    let kept = retentions.iter().map(|name| traces::kept_by(name).map_err(|why| wrong("retention", why)));
    let kept = kept.collect::<PyResult<Vec<_>>>()?;
    let sizes =
        cache_blocks.iter().map(|text| traces::blocks(text).map_err(|why| wrong("cache_blocks", why)));
    let sizes = sizes.collect::<PyResult<Vec<_>>>()?;
    let source = match trace.cast::<Trace>() {
        Ok(trace) => Source::Memory(trace.get().name.clone(), Arc::clone(&trace.get().records)),
        Err(_) => Source::File(trace.extract()?),
    };
    let misses = watched(py, move |watch| {
        let (file, references) = match &source {
            Source::Memory(name, records) => (name.clone(), traces::references(name, records, &map, watch)?),
            Source::File(path) => {
                let options = ReadOptions::default();
                (path.display().to_string(), traces::references_in(path, &options, &map, watch)?)
            }
        };
        traces::misses((&file, short(&file)), &references, &kept, &sizes, watch)
    });
    json(&misses?)
}

/// What `mrc` counts.
enum Source {
    Memory(String, Arc<Records>),
    File(PathBuf),
}

/// As reports call a file: its name without its folders.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
