//! `forerun._native`: what the Python module `forerun` is made over, and no logic of its own.
//!
//! Words and arrays come in, the study crate and its neighbours do the work with the interpreter released, and JSON, Arrow and
//! typed exceptions go out. What is pleasant to call stands in `python/forerun/`.

mod arrow;
mod arrow_in;
mod errors;
mod policy;
mod runs;
mod sweep;
mod trace;
mod watching;
mod words;

/// The native part of `forerun`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::errors::{
        DeviceError, ForerunError, OptionError, PolicyError, SchemeError, TraceError, UnsupportedError,
    };
    #[pymodule_export]
    use crate::policy::{Access, Batch, Fetched, Wishes};
    #[pymodule_export]
    use crate::runs::{Runs, compare, sim, trial};
    #[pymodule_export]
    use crate::sweep::{Sweep, sweep_cells};
    #[pymodule_export]
    use crate::trace::{Trace, mrc};
    #[pymodule_export]
    use crate::words::{device, devices, options, schemes, version};
}
