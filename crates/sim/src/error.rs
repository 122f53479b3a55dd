//! Why a run cannot be made. Every part of the simulator refuses with this one error, which names the place and the remedy.

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
