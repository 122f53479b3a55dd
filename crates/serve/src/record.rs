//! `--record`: what clients ask for, as a trace that `compare` replays.
//!
//! The plain CSV of this project, `t,dev,off,bytes,op,pid,file`: seconds since the server began, the number of the client
//! as the process. Only READs and WRITEs that were not refused; hints and flushes are no accesses.

use forerun_core::units::Nanos;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// A trace that is being written.
pub(crate) struct Record {
    out: BufWriter<File>,
    problem: Option<io::Error>,
}

impl Record {
    /// Starts a trace.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 16, File::create(path)?);
        writeln!(out, "t,dev,off,bytes,op,pid,file")?;
        Ok(Self { out, problem: None })
    }

    /// A client asks for bytes, or brings them.
    pub(crate) fn access(&mut self, now: Nanos, client: u64, offset: u64, bytes: u32, write: bool) {
        let (seconds, rest) = (now.0 / 1_000_000_000, now.0 % 1_000_000_000);
        let op = if write { 'W' } else { 'R' };
        if let Err(problem) = writeln!(self.out, "{seconds}.{rest:09},,{offset},{bytes},{op},{client},") {
            // A trace that cannot be written is no reason to stop serving; the first problem is said at the end.
            self.problem.get_or_insert(problem);
        }
    }

    /// Everything is on its way to the disk; says the first problem there was.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.problem.take().map_or(Ok(()), Err)
    }
}
