//! What was read, kept for the next time: the manifest.
//!
//! A manifest says what one program, unit, boot, image or export reads: of files the pages that were loaded, of file
//! systems the blocks of metadata that had to be read on the way, of exports their blocks, each stretch with its place in
//! the order of first touch and the number of recordings that saw it. Whoever knows it can read ahead of the next run
//! without guessing. Here is the plain data, its one file format, what becomes of two recordings of the same thing, and
//! the judgement whether an entry still speaks of the file that is there. Nothing here asks the system anything: what
//! records and what replays are hosts.
//!
//! ```text
//!   recorder ─▶ Pieces ─▶ Manifest ─encode─▶ file ─decode─▶ Manifest ─▶ replay
//!                             ▲ merge                          │ state
//!                             └── the next recording           └── stale entries are skipped
//! ```
//!
//! [`run`] has the stretches and how they combine, [`manifest`] the whole, [`merge`] two of them, [`mod@format`] the bytes,
//! described for other readers in docs/manifest.md.

pub mod format;
pub mod manifest;
pub mod merge;
pub mod run;
mod wire;

pub use manifest::{
    Export, File, FileState, FileSystem, History, Key, Manifest, Sample, Stale, Timed, Times,
};
pub use run::Run;
