//! The engine of Forerun: what a prefetching system decides, apart from where the bytes are and what time it is.
//!
//! Sans-io: no clock, no thread, no file, no randomness, no hash-order iteration. A host feeds inputs with the
//! time at which they happened, drains outputs, and comes back at the time the engine asks for. The same inputs
//! give the same outputs, byte for byte, in a simulator, an array server and a page-cache daemon.
#![no_std]
extern crate alloc;
/// Files that unit tests share with those in `tests/` name the crate as these do.
#[cfg(test)]
extern crate self as forerun_core;

#[cfg(test)]
#[path = "../tests/support/hand.rs"]
mod hand;

pub mod access;
pub mod array;
pub mod assemble;
pub mod bounded;
pub mod cache;
pub mod cost;
pub mod dispatch;
pub mod engine;
pub mod filemap;
pub mod hash;
pub mod pattern;
pub mod planted;
pub mod policy;
pub mod registry;
pub mod retention;
pub mod row;
pub mod scheme;
pub mod share;
pub mod size;
pub mod slots;
pub mod spec;
pub mod stats;
pub mod units;
pub mod words;
