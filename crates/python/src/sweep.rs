//! Sweeps for an engine that spreads them over machines: the cells, their lines, and what is done. Which cell runs where is the
//! engine's business.

use crate::errors::{ForerunError, raised};
use forerun_sim::input::Input;
use forerun_sim::spec::RunSpec;
use forerun_study::StudyError;
use forerun_study::sweep::local::run_cell;
use forerun_study::sweep::results::{Lines, Shard, done, finish};
use forerun_study::sweep::study::{Cell, Study, Words};
use forerun_trace::ReadOptions;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A cell in words: its id, its place on the axes, and its spec as JSON.
type Told = (String, Words, String);

/// A study, its cells, and the file of lines that this process writes.
#[pyclass(frozen, module = "forerun._native")]
pub(crate) struct Sweep {
    cells: Vec<Cell>,
    folder: PathBuf,
    lines: Mutex<Lines>,
}

fn told(cell: &Cell) -> PyResult<Told> {
    let spec =
        serde_json::to_string(&cell.spec).map_err(|problem| ForerunError::new_err(problem.to_string()))?;
    Ok((cell.id.clone(), cell.at.clone(), spec))
}

#[pymethods]
impl Sweep {
    /// Opens a study and its folder.
    #[new]
    fn new(py: Python<'_>, study: PathBuf, folder: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| {
            let cells = Study::read(&study)?.cells()?;
            let lines = Mutex::new(Lines::open(&folder, Shard::WHOLE)?);
            Ok(Self { cells, folder, lines })
        });
        opened.map_err(|problem: StudyError| raised(py, &problem))
    }

    /// How many cells there are.
    fn __len__(&self) -> usize {
        self.cells.len()
    }

    /// The cells that are not done, each with the path of its input.
    fn open_cells(&self, py: Python<'_>) -> PyResult<Vec<(String, Told)>> {
        let done = py.detach(|| done(&self.folder)).map_err(|problem| raised(py, &problem))?;
        let open = self.cells.iter().filter(|cell| !done.contains(&cell.id));
        open.map(|cell| Ok((cell.spec.input.clone(), told(cell)?))).collect()
    }

    /// Appends lines that came back.
    fn append(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<()> {
        let mut file = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().try_for_each(|line| file.append(line)).map_err(|problem| raised(py, &problem))
    }

    /// Writes the results, if every cell is done: their path.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<PathBuf>> {
        py.detach(|| finish(&self.folder, &self.cells)).map_err(|problem| raised(py, &problem))
    }
}

/// Runs cells of one input, one after the other: their lines. `data` are the bytes of its file; without them it is a workload, or
/// a path that this machine has too.
#[pyfunction]
pub(crate) fn sweep_cells(py: Python<'_>, cells: Vec<Told>, data: Option<&[u8]>) -> PyResult<Vec<String>> {
    let cell = |(id, at, spec): Told| {
        let spec: RunSpec = serde_json::from_str(&spec)
            .map_err(|problem| ForerunError::new_err(format!("cell {id}: {problem}")))?;
        Ok(Cell { id, at, spec })
    };
    let cells = cells.into_iter().map(cell).collect::<PyResult<Vec<_>>>()?;
    let lines = py.detach(|| {
        let Some(first) = cells.first() else { return Ok(Vec::new()) };
        let input = load(&first.spec, data)?;
        cells.iter().map(|cell| run_cell(cell, input.clone())).collect::<Result<_, _>>()
    });
    lines.map_err(|problem| raised(py, &problem))
}

fn load(spec: &RunSpec, data: Option<&[u8]>) -> Result<Input, StudyError> {
    let Some(data) = data else { return Ok(forerun_sim::run::load(spec)?) };
    let options = ReadOptions { skip_bad: spec.skip_bad, ..ReadOptions::default() };
    let opened = forerun_trace::read_bytes(&spec.input, data, &options)
        .map_err(|problem| forerun_study::traces::unreadable(&problem))?;
    let mut input = Input::of_trace(&spec.input, &opened.hash_hex, opened.trace);
    spec.input.rsplit('/').next().unwrap_or_default().clone_into(&mut input.name);
    Ok(input)
}
