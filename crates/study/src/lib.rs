//! Studies: from the words that ask for runs to the runs, and to what is said of them.
//!
//! The command line and the Python module are two fronts of this crate: both hand over words and get reports, so that they
//! have the same defaults and the same numbers. Nothing here prints.

pub mod assumed;
pub mod claims;
pub mod compare;
pub mod csv;
pub mod curve;
pub mod error;
pub mod fit;
pub mod flips;
pub mod html;
pub mod human;
pub mod listing;
pub mod options;
pub mod paint;
pub mod plan;
pub mod reasons;
pub mod rows;
pub mod runner;
#[cfg(test)]
mod sample;
pub mod spec_file;
pub mod sweep;
pub mod table;
pub mod text;
pub mod traces;
pub mod words;

pub use error::{Fault, StudyError};
