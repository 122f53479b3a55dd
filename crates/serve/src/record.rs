//! `--record`: what clients ask for, as a trace that `compare` replays.
//!
//! The plain CSV of this project, `t,dev,off,bytes,op,pid,file,took,size`: seconds since the server began, the export as the
//! device, the number of the client as the process, how long it waited for the answer, and on an export's first row its
//! size. So a replay knows who read beside whom, and how long each client thought between an answer and its next request
//! (`--mode paced`). Only READs and WRITEs that were not refused; hints and flushes are no accesses.
//!
//! Rows stand in the order of asking, so a row waits here for its answer. It waits no longer than [`PATIENCE`], nor behind
//! more than [`ROWS_MAX`] others; then it is written without. Only whole lines go to the file, every second: a server that is
//! killed leaves a trace that ends a second early ([`forerun_trace::journal`]: it says what the members are, and whether it was cut short).

use forerun_core::access::Op;
use forerun_core::units::Nanos;
use forerun_trace::Journal;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};

/// Rows that wait for an answer: more than all clients may have in flight on a busy day, 300 KiB.
const ROWS_MAX: usize = 4096;
/// How long a row waits. A client that left is never answered.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// A request, as the trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
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
    request: Recorded,
    at: Nanos,
    took: Option<Nanos>,
}

/// A trace that is being written.
pub(crate) struct Record {
    path: PathBuf,
    journal: Journal,
    /// Whether it was said that it has ended before its time.
    told: bool,
    rows: VecDeque<Row>,
    /// Name and size of each export, and whether its size was written.
    exports: Vec<(String, u64, bool)>,
}

impl Record {
    /// Starts a trace of exports with these names and sizes.
    /// Its first lines go to the file at once: a disk that is full is no place for a recording.
    pub(crate) fn create(
        path: &Path,
        exports: impl Iterator<Item = (String, u64)>,
        about: &BTreeMap<String, String>,
    ) -> io::Result<Self> {
        let exports = exports.map(|(name, size)| (name, size, false)).collect();
        let journal = Journal::create(path, about)?;
        Ok(Self { path: path.to_owned(), journal, told: false, rows: VecDeque::new(), exports })
    }

    /// A client asks.
    pub(crate) fn asked(&mut self, now: Nanos, request: Recorded) {
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
        self.journal.send();
        // It may have come with a row, not only with the second.
        let problem = self.journal.problem().filter(|_| !self.told)?;
        self.told = true;
        Some(format!("--record {}: {problem}: the trace ends here; serving goes on", self.path.display()))
    }

    /// The last rows; says the first problem there was, and of which file.
    pub(crate) fn finish(mut self) -> Result<(), (PathBuf, io::Error)> {
        while !self.rows.is_empty() {
            self.write_first();
        }
        self.journal.finish().map_err(|problem| (self.path, problem))
    }

    fn write_first(&mut self) {
        let Some(Row { request, at, took }) = self.rows.pop_front() else { return };
        let (name, size) = match self.exports.get_mut(request.export) {
            Some((name, size, said)) => (name.as_str(), (!std::mem::replace(said, true)).then_some(*size)),
            None => ("", None),
        };
        let record = forerun_trace::record::Record {
            time: Some(at),
            took,
            offset: request.offset,
            bytes: request.bytes.into(),
            op: if request.write { Op::Write } else { Op::Read },
            ..forerun_trace::record::Record::BLANK
        };
        self.journal.note(&record, [name, &request.client.to_string(), ""], size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn record(names: &[&str]) -> (TempDir, PathBuf, Record) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.csv");
        let exports = names.iter().map(|name| ((*name).to_owned(), 1 << 20));
        let about = BTreeMap::from([("device".to_owned(), "sda".to_owned())]);
        let record = Record::create(&path, exports, &about).expect("made");
        (folder, path, record)
    }

    fn read(client: u64, cookie: u64, offset: u64) -> Recorded {
        Recorded { client, cookie, export: 0, offset, bytes: 4096, write: false }
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("written");
        text.lines().skip(1).filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
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
    fn a_recording_says_what_its_members_are_and_whether_it_was_cut_short() {
        let (_folder, path, mut record) = record(&["a"]);
        record.asked(Nanos(1), read(1, 1, 0));
        record.answered(Nanos(2), 1, 1);
        assert_eq!(record.tick(Nanos(3)), None);
        let read =
            || forerun_trace::open(&path, &forerun_trace::ReadOptions::default()).expect("a trace").trace;
        let open = read();
        assert_eq!((open.records.len(), open.about["device"].as_str()), (1, "sda"));
        assert!(open.about.contains_key(forerun_trace::journal::CUT_SHORT));
        record.finish().expect("room");
        assert!(!read().about.contains_key(forerun_trace::journal::CUT_SHORT));
        let full = Record::create(Path::new("/dev/full"), std::iter::empty(), &BTreeMap::new());
        assert!(full.is_err(), "a full disk is found out before anybody is served");
    }

    #[test]
    fn a_request_that_is_never_answered_holds_up_nobody_for_long() {
        let (_folder, path, mut record) = record(&["a,b", "c"]);
        record.asked(Nanos(5), Recorded { write: true, ..read(1, 1, 0) });
        record.asked(Nanos(6), Recorded { export: 1, ..read(2, 2, 8) });
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
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
        // A few rows are written with the second, many before it is over.
        for rows in [1, 100_000] {
            let reader = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
            let mut record =
                Record::create(&path, std::iter::empty(), &BTreeMap::new()).expect("somebody reads");
            drop(reader);
            for row in 0..rows {
                record.asked(Nanos(1), read(1, row, 0));
                record.answered(Nanos(2), 1, row);
            }
            let said = record.tick(Nanos(3)).unwrap_or_default();
            assert!(said.contains("pipe") && said.contains("serving goes on"), "{rows}: {said}");
            assert_eq!(record.tick(Nanos(4)), None);
            assert_eq!(record.finish().expect_err("nobody reads").0, path);
        }
    }
}
