//! Exceptions: one type for each thing that can be at fault, each with its place and its remedy as attributes.

use forerun_study::{Fault, StudyError};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;

create_exception!(
    forerun,
    ForerunError,
    PyException,
    "Something went wrong; `place` says where and `remedy` what to do."
);
create_exception!(forerun, TraceError, ForerunError, "An input cannot be read or understood.");
create_exception!(
    forerun,
    OptionError,
    ForerunError,
    "An option does not exist, or does not fit the others."
);
create_exception!(forerun, SchemeError, OptionError, "A scheme does not exist, or does not fit here.");
create_exception!(forerun, DeviceError, OptionError, "A device does not exist, or cannot be built.");
create_exception!(
    forerun,
    PolicyError,
    ForerunError,
    "A policy written in Python failed; `__cause__` is what it raised."
);

create_exception!(
    forerun,
    UnsupportedError,
    ForerunError,
    "The kernel lacks a feature, or the user a right."
);

/// The exception of a study's error.
pub(crate) fn raised(py: Python<'_>, problem: &StudyError) -> PyErr {
    let message = problem.to_string();
    let error = match (problem.fault, problem.place.trim_start_matches('-')) {
        (Fault::Stopped, _) => return PyKeyboardInterrupt::new_err(()),
        (Fault::Own, _) => PolicyError::new_err(message),
        (Fault::Input, _) | (Fault::Words, "input") => TraceError::new_err(message),
        (Fault::Words, "scheme") => SchemeError::new_err(message),
        (Fault::Words, "device") => DeviceError::new_err(message),
        (Fault::Words, _) => OptionError::new_err(message),
        (Fault::Failure, _) => ForerunError::new_err(message),
    };
    // A plain object takes attributes; if this one did not, its message would still say both.
    drop(error.value(py).setattr("place", &problem.place));
    drop(error.value(py).setattr("remedy", &problem.remedy));
    error
}

/// Anything as JSON text, as the command prints it.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n").map_err(|problem| ForerunError::new_err(problem.to_string()))
}
