//! `--record`: what clients ask for, as a trace that `compare` replays.
//!
//! The plain CSV of this project, `t,dev,off,bytes,op,pid,file,took,size`: seconds since the server began, the export as the
//! device, the number of the client as the process, how long it waited for the answer, and on an export's first row its
//! size. So a replay knows who read beside whom, and how long each client thought between an answer and its next request
//! (`--mode paced`). Only READs and WRITEs that were not refused; hints and flushes are no accesses.
//!
//! Rows stand in the order of asking, so a row waits here for its answer. It waits no longer than [`PATIENCE`], nor behind
//! more than [`ROWS_MAX`] others; then it is written without. Only whole lines go to the file, every second: a server that is
//! killed leaves a trace that ends a second early.

use forerun_core::units::Nanos;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Rows that wait for an answer: more than all clients may have in flight on a busy day, 300 KiB.
const ROWS_MAX: usize = 4096;
/// How long a row waits. A client that left is never answered.
const PATIENCE: Nanos = Nanos::from_secs(10);
/// Text that is written at once, bytes.
const TEXT_BYTES: usize = 64 << 10;

/// A request, as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Number of the client.
    pub(crate) client: u64,
    /// By which the client knows the answer.
    pub(crate) cookie: u64,
    /// Number of the export.
    pub(crate) export: usize,
    /// First byte.
    pub(crate) offset: u64,
    /// How many.
    pub(crate) bytes: u32,
    /// WRITE, not READ.
    pub(crate) write: bool,
}

/// A request that may still be answered.
#[derive(Clone, Copy, Debug)]
struct Row {
    request: Request,
    at: Nanos,
    took: Option<Nanos>,
}

/// A trace that is being written.
pub(crate) struct Record {
    out: File,
    rows: VecDeque<Row>,
    text: String,
    /// Name and size of each export, and whether its size was written.
    exports: Vec<(String, u64, bool)>,
    problem: Option<io::Error>,
}

impl Record {
    /// Starts a trace of exports with these names and sizes.
    pub(crate) fn create(path: &Path, exports: impl Iterator<Item = (String, u64)>) -> io::Result<Self> {
        let exports = exports.map(|(name, size)| (quote(&name), size, false)).collect();
        let text = "t,dev,off,bytes,op,pid,file,took,size\n".to_owned();
        Ok(Self { out: File::create(path)?, rows: VecDeque::new(), text, exports, problem: None })
    }

    /// A client asks.
    pub(crate) fn asked(&mut self, now: Nanos, request: Request) {
        if self.rows.len() == ROWS_MAX {
            self.write_first();
        }
        self.rows.push_back(Row { request, at: now, took: None });
    }

    /// It is answered.
    pub(crate) fn answered(&mut self, now: Nanos, client: u64, cookie: u64) {
        let waits = |row: &&mut Row| {
            row.took.is_none() && row.request.client == client && row.request.cookie == cookie
        };
        if let Some(row) = self.rows.iter_mut().find(waits) {
            row.took = Some(now.since(row.at));
        }
        while self.rows.front().is_some_and(|row| row.took.is_some()) {
            self.write_first();
        }
    }

    /// A second has passed: what is known goes to the file. Says the first problem once.
    pub(crate) fn tick(&mut self, now: Nanos) -> Option<String> {
        while self.rows.front().is_some_and(|row| now.since(row.at) > PATIENCE) {
            self.write_first();
        }
        let before = self.problem.is_some();
        self.send();
        let problem = self.problem.as_ref().filter(|_| !before)?;
        Some(format!("--record: {problem}: the trace ends here; serving goes on"))
    }

    /// The last rows; says the first problem there was.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        while !self.rows.is_empty() {
            self.write_first();
        }
        self.send();
        self.problem.take().map_or(Ok(()), Err)
    }

    fn write_first(&mut self) {
        let Some(Row { request, at, took }) = self.rows.pop_front() else { return };
        let (name, size) = match self.exports.get_mut(request.export) {
            Some((name, size, said)) => (name.as_str(), (!std::mem::replace(said, true)).then_some(*size)),
            None => ("", None),
        };
        let Request { offset, bytes, client, .. } = request;
        let op = if request.write { 'W' } else { 'R' };
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{},{name},{offset},{bytes},{op},{client},,", Seconds(at));
        if let Some(took) = took {
            let _ = write!(self.text, "{}", Seconds(took));
        }
        self.text.push(',');
        if let Some(size) = size {
            let _ = write!(self.text, "{size}");
        }
        self.text.push('\n');
        if self.text.len() >= TEXT_BYTES {
            self.send();
        }
    }

    /// Whole lines only. A trace that cannot be written is no reason to stop serving.
    fn send(&mut self) {
        if self.problem.is_none()
            && let Err(problem) = self.out.write_all(self.text.as_bytes())
        {
            self.problem = Some(problem);
        }
        self.text.clear();
    }
}

/// A time with all its nanoseconds.
struct Seconds(Nanos);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0.0 / 1_000_000_000, self.0.0 % 1_000_000_000)
    }
}

/// A name as a field of the trace (RFC 4180); line ends become blanks.
fn quote(name: &str) -> String {
    if !name.contains([',', '"', '\n', '\r']) && name.trim() == name {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace(['\n', '\r'], " ").replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn record(names: &[&str]) -> (TempDir, std::path::PathBuf, Record) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.csv");
        let exports = names.iter().map(|name| ((*name).to_owned(), 1 << 20));
        let record = Record::create(&path, exports).expect("made");
        (folder, path, record)
    }

    fn read(client: u64, cookie: u64, offset: u64) -> Request {
        Request { client, cookie, export: 0, offset, bytes: 4096, write: false }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("written");
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn rows_stand_in_the_order_of_asking_with_what_each_answer_took() {
        let (_folder, path, mut record) = record(&[""]);
        record.asked(Nanos(1_000_000_000), read(1, 7, 0));
        record.asked(Nanos(1_000_000_500), read(2, 7, 4096));
        record.answered(Nanos(1_000_000_900), 2, 7);
        assert_eq!(record.tick(Nanos(1_000_001_000)), None);
        assert!(lines(&path).is_empty(), "the first is not answered yet");
        record.answered(Nanos(1_000_002_000), 1, 7);
        record.finish().expect("written");
        let expected =
            ["1.000000000,,0,4096,R,1,,0.000002000,1048576", "1.000000500,,4096,4096,R,2,,0.000000400,"];
        assert_eq!(lines(&path), expected);
    }

    #[test]
    fn a_request_that_is_never_answered_holds_up_nobody_for_long() {
        let (_folder, path, mut record) = record(&["a,b", "c"]);
        record.asked(Nanos(5), Request { write: true, ..read(1, 1, 0) });
        record.asked(Nanos(6), Request { export: 1, ..read(2, 2, 8) });
        record.answered(Nanos(7), 2, 2);
        record.tick(Nanos::from_secs(11));
        let expected =
            ["0.000000005,\"a,b\",0,4096,W,1,,,1048576", "0.000000006,c,8,4096,R,2,,0.000000001,1048576"];
        assert_eq!(lines(&path), expected);
        for cookie in 0..2 * ROWS_MAX as u64 {
            record.asked(Nanos::from_secs(12), read(1, cookie, 0));
        }
        assert_eq!(record.rows.len(), ROWS_MAX);
        record.finish().expect("written");
        assert_eq!(lines(&path).len(), 2 + 2 * ROWS_MAX);
    }

    #[test]
    fn a_trace_that_cannot_be_written_is_said_once_and_at_the_end() {
        let (_folder, _path, mut record) = record(&[""]);
        record.out = File::open("/dev/null").expect("there");
        record.asked(Nanos(1), read(1, 1, 0));
        record.answered(Nanos(2), 1, 1);
        assert!(record.tick(Nanos(3)).is_some_and(|said| said.contains("serving goes on")));
        assert_eq!(record.tick(Nanos(4)), None);
        assert!(record.finish().is_err());
    }
}
