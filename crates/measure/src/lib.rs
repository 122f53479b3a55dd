//! A device measured by reading it, and described as a preset.
//!
//! ```text
//!   Target ──Done──▶ probes ──Probed──▶ estimate ──▶ preset, intervals, what could not be told
//!     │ device: threads that read past the page cache
//!     └ simulated: a model of crates/disk in virtual time
//! ```
//!
//! The probes know nothing of what they read. So the estimator is tested on every preset in virtual time, where the truth is
//! known, and the same code then reads a device. What the probes see of a candidate model is what decides between candidates:
//! an estimate is a preset whose own probes look like the device's.

pub mod device;
pub mod estimate;
pub mod found;
pub mod load;
pub mod probes;
pub mod rows;
pub mod simulated;

mod fit;
mod flat;
mod platters;
mod rotation;
mod statistics;
