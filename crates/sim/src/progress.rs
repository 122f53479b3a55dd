//! How far a run is, for whoever watches it.

/// How far a run is, for a progress bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests of the programs that have ended.
    pub done: u64,
    /// All requests of the input, where known.
    pub total: u64,
}
