//! The formats: one file each; their names stand in the table of [`crate::format`].
//!
//! A text format is a [`LineReader`]: it is handed one line at a time and never sees the file, so all of them
//! share one bounded line loop. A binary format is a function over a [`ByteSource`](crate::source::ByteSource)
//! that hands out fixed-size pieces, so that no length in a file decides an allocation.

use crate::error::Fault;
use crate::sink::Sink;

pub(crate) mod alibaba;
pub(crate) mod arc;
pub(crate) mod blkparse;
pub(crate) mod blktrace;
pub(crate) mod columnar;
pub(crate) mod columns;
pub(crate) mod csv;
pub(crate) mod disksim;
pub(crate) mod fio;
pub(crate) mod lirs;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod oracle_general;
pub(crate) mod perf;
pub(crate) mod spc;
pub(crate) mod strace;
pub(crate) mod tencent;
pub(crate) mod vscsi;

/// Reads a text format, line by line.
pub(crate) trait LineReader {
    /// Takes one line, without its end; never empty.
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault>;
    /// Whether a last line without its end is one that a recorder could not finish.
    fn may_be_torn(&self) -> bool {
        false
    }
    /// After the last line.
    fn finish(&mut self, _sink: &mut Sink<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

impl<F: FnMut(&str, &mut Sink<'_>) -> Result<(), Fault>> LineReader for F {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        self(line, sink)
    }
}
