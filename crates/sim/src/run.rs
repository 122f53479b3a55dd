//! The door of the simulator: an input and a spec go in, a report comes out.

use crate::report::RunReport;
use crate::spec::RunSpec;

/// Why a run could not be made; each names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The input could not be read or understood.
    #[error("input {input}: {why}")]
    Input {
        /// As given on the command line.
        input: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// A part of the spec does not fit.
    #[error("{field}: {why}")]
    Spec {
        /// The spec's field or option.
        field: &'static str,
        /// What is wrong and what to do.
        why: String,
    },
}

/// How far a run is, for a progress bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests of the programs that have ended.
    pub done: u64,
    /// All requests of the input, where known.
    pub total: u64,
}

/// Runs `spec` to its end in virtual time. `progress` is called now and then, never for a decision.
///
/// # Errors
/// See [`RunError`].
pub fn run(spec: &RunSpec, progress: &(dyn Fn(Progress) + Sync)) -> Result<RunReport, RunError> {
    crate::host::run(spec, progress)
}
