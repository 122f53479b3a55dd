//! The simulator: drives the engine in virtual time over device models, and reports what it measured.

pub mod advised;
pub mod clairvoyant;
pub mod cpu;
pub mod error;
pub mod host;
pub mod input;
pub mod layout;
pub mod mrc;
pub mod own;
mod placed;
pub mod progress;
pub mod random;
pub mod replay;
pub mod report;
pub mod run;
pub mod said;
pub mod spec;
pub mod student;
pub mod workload;
