//! Trace formats to and from [`record::Record`]; nothing else in Forerun knows a format.
//!
//! [`read::open`] finds out what a file is, by its content, and gives its requests as records: bytes as the source
//! recorded them, times in integer nanoseconds, names interned. [`info`] says what is in a trace, [`mapping`] lays
//! its devices and files end to end on volumes, [`write()`](write::write) turns it into another format and says what that
//! format cannot hold. Every reader is bounded: no length in a file decides an allocation, and no input makes one panic.

pub mod anonymize;
pub mod assemble;
pub mod beside;
pub mod bounded;
pub mod chains;
pub mod columns;
pub mod cut;
pub mod detect;
pub mod error;
mod field;
mod footprint;
pub mod format;
pub mod formats;
pub mod info;
pub mod journal;
pub mod kept;
pub mod mapping;
pub mod options;
pub mod packed;
pub mod patterns;
pub mod read;
pub mod record;
mod sink;
mod source;
pub mod time_unit;
mod units;
pub mod write;

pub use columns::ColumnMapping;
pub use detect::detect;
pub use error::{Malformed, Place, TraceError};
pub use format::Format;
pub use info::{Tally, TraceInfo};
pub use journal::Journal;
pub use options::{BlkEvent, ReadOptions};
pub use read::{Opened, Passed, open, pass, pass_from, read_bytes, read_from, through, through_from};
pub use time_unit::TimeUnit;
pub use write::{Loss, WriteError, Written, write, write_to};
