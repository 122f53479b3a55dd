//! The simulator: drives the engine in virtual time over device models, and reports what it measured.

pub mod mrc;
pub mod report;
pub mod spec;
