//! How far a run is, for whoever watches it.

use forerun_core::units::Nanos;

/// How far a run is, for a progress bar, and for whoever judges it before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests of the programs that have ended.
    pub done: u64,
    /// All requests of the input, where known.
    pub total: u64,
    /// Virtual time that has passed.
    pub now: Nanos,
}
