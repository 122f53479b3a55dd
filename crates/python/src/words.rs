//! What there is to choose from, as JSON: the same listings as the command's.

use crate::errors::{DeviceError, json, raised};
use forerun_disk::preset::Preset;
use forerun_study::listing;
use forerun_study::options::SetupArgs;
use pyo3::prelude::*;

/// The version of Forerun.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// All schemes, as `forerun schemes --json`.
#[pyfunction]
pub(crate) fn schemes() -> PyResult<String> {
    json(&listing::schemes())
}

/// All presets, as `forerun device list --json`.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<String> {
    json(&listing::devices().map_err(|problem| raised(py, &problem))?)
}

/// One preset by its name or file, as `forerun device show --json`.
#[pyfunction]
pub(crate) fn device(name: &str) -> PyResult<String> {
    let preset = Preset::load(name).map_err(|problem| DeviceError::new_err(problem.to_string()))?;
    json(&preset.spec)
}

/// The options of a run by their names in Python, and whether each is a switch that stands alone.
#[pyfunction]
pub(crate) fn options() -> Vec<(String, bool)> {
    let all = SetupArgs::names().into_iter();
    all.map(|(name, alone)| (name.replace('-', "_"), alone)).collect()
}
