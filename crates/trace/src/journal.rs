//! A recording as it comes: lines of the plain CSV, whole ones only, in a file that is a trace at every moment.
//!
//! Parquet and packed files are worth nothing without their end, and a recorder may be killed or its disk be full at any
//! time. So it writes lines while it records. What is known of the machine stands in lines that begin with `#`, and so
//! does the end: a recording that begins with [`OPEN`] and does not end with [`END`] was cut short, and its reader says so. A line that
//! the disk did not take whole is taken away again.

use crate::formats::csv;
pub use crate::formats::csv::{CUT_SHORT, END, OPEN};
use crate::record::Record;
use crate::write::{letter, seconds};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;

/// Text that is written at once, bytes.
const TEXT_BYTES: usize = 64 << 10;

/// Why a file that another recording writes is not begun anew.
pub const HELD: &str = "it is being recorded by another process";

/// Whether a recording is writing this file now.
#[must_use]
pub fn is_held(path: &Path) -> bool {
    let tried = File::open(path).map(|file| file.try_lock());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// An empty file that is ours alone until it is closed. Where locks are not to be had, as on some network file systems, and for
/// what is no file, it is not held.
///
/// # Errors
/// What the system says of the file, or [`HELD`].
pub fn held(path: &Path) -> io::Result<File> {
    // What another one writes is not emptied before it is known to be free.
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(file);
    }
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        return Err(io::Error::new(io::ErrorKind::WouldBlock, HELD));
    }
    file.set_len(0)?;
    Ok(file)
}

/// A file of lines that is being written.
#[derive(Debug)]
pub struct Journal {
    out: File,
    text: String,
    /// Bytes of the file that are whole lines.
    whole: u64,
    /// Why no more is written.
    problem: Option<io::Error>,
}

impl Journal {
    /// Begins one, in place of what was there, and holds it: as long as it is written, [`is_held`] says so.
    ///
    /// # Errors
    /// What the system says of the file or of its first lines, or that another recording is writing it.
    pub fn create(path: &Path, about: &BTreeMap<String, String>) -> io::Result<Self> {
        let mut text = format!("{},took,size\n{OPEN}\n", csv::HEADING);
        csv::say_about(&mut text, about);
        let mut journal = Self { out: held(path)?, text, whole: 0, problem: None };
        journal.send();
        match journal.problem.take() {
            None => Ok(journal),
            Some(problem) => {
                // A file without its first lines is no trace.
                if journal.out.metadata().is_ok_and(|about| about.is_file()) {
                    drop(std::fs::remove_file(path));
                }
                Err(problem)
            }
        }
    }

    /// Notes a request of a device, a process and a file by name, and the size of what it reads where that is said.
    pub fn note(&mut self, record: &Record, names: [&str; 3], size: Option<u64>) {
        let [device, process, file] = names.map(csv::quote);
        let Record { time, took, offset, bytes, op, .. } = *record;
        // Writing to a string cannot fail.
        let _ =
            write!(self.text, "{},{device},{offset},{bytes},{},{process},{file}", seconds(time), letter(op));
        let _ = write!(self.text, ",{},", seconds(took));
        if let Some(size) = size {
            let _ = write!(self.text, "{size}");
        }
        self.text.push('\n');
        if self.text.len() >= TEXT_BYTES {
            self.send();
        }
    }

    /// What was noted goes to the file. After the first problem nothing more is written.
    pub fn send(&mut self) {
        if self.problem.is_none() && !self.text.is_empty() {
            match self.out.write_all(self.text.as_bytes()) {
                Ok(()) => self.whole += self.text.len() as u64,
                Err(problem) => {
                    self.keep_whole_lines();
                    self.problem = Some(problem);
                }
            }
        }
        self.text.clear();
    }

    /// As much as the disk took of the last text, up to its last whole line.
    fn keep_whole_lines(&mut self) {
        let taken = self.out.metadata().map_or(self.whole, |about| about.len()).saturating_sub(self.whole);
        let taken = usize::try_from(taken).unwrap_or(usize::MAX).min(self.text.len());
        let lines =
            self.text.as_bytes()[..taken].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        self.whole += lines as u64;
        // Where even this fails, the reader passes over the torn line.
        drop(self.out.set_len(self.whole));
    }

    /// Why no more is written, if that is so.
    #[must_use]
    pub const fn problem(&self) -> Option<&io::Error> {
        self.problem.as_ref()
    }

    /// The recording has ended in order.
    ///
    /// # Errors
    /// The first problem there was.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.push_str(END);
        self.text.push('\n');
        self.send();
        self.problem.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ReadOptions;
    use forerun_core::units::Nanos;

    fn about() -> BTreeMap<String, String> {
        BTreeMap::from([("device".into(), "vda".into()), ("kernel".into(), "6.18\n7".into())])
    }

    #[test]
    fn a_file_that_is_being_recorded_is_not_begun_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let mut first = journal(&path);
        let problem = Journal::create(&path, &about()).expect_err("it is held");
        assert!(is_held(&path) && problem.to_string() == HELD, "{problem}");
        first.note(&record(3), ["vda", "a", ""], None);
        first.finish().expect("ended");
        assert!(!is_held(&path));
        let text = std::fs::read_to_string(&path).expect("there");
        assert_eq!(text.lines().filter(|line| line.contains("vda")).count(), 5, "{text}");
        drop(Journal::create(&path, &about()).expect("it is free"));
    }

    fn record(at: u64) -> Record {
        Record {
            time: Some(Nanos(at)),
            took: Some(Nanos(500)),
            offset: at * 4096,
            bytes: 4096,
            ..Record::BLANK
        }
    }

    fn journal(path: &Path) -> Journal {
        let mut journal = Journal::create(path, &about()).expect("a temporary file");
        for at in 0..3 {
            journal.note(&record(at), ["vda", "a, b", ""], (at == 0).then_some(1 << 30));
        }
        journal.send();
        journal
    }

    #[test]
    fn a_journal_is_a_trace_at_every_moment_and_says_that_it_was_cut_short() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let journal = journal(&path);
        let open = crate::open(&path, &ReadOptions::default()).expect("a trace").trace;
        assert_eq!(
            (open.records.len(), open.names[open.records[0].process.0 as usize].as_str()),
            (3, "a, b")
        );
        assert_eq!(open.records[2].took, Some(Nanos(500)));
        assert_eq!(open.about["device"], "vda");
        assert_eq!(open.about["kernel"], "6.18 7");
        assert!(open.about[CUT_SHORT].contains("did not end in order"), "{:?}", open.about);
        journal.finish().expect("room");
        let whole = crate::open(&path, &ReadOptions::default()).expect("a trace").trace;
        assert_eq!((whole.records.len(), whole.about.get(CUT_SHORT)), (3, None));
        assert_eq!(whole.file_sizes.values().collect::<Vec<_>>(), [&(1 << 30)]);
    }

    #[test]
    fn wherever_a_recording_is_torn_its_whole_lines_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        drop(journal(&path));
        let text = std::fs::read(&path).expect("written");
        let rows: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'\n').map(|at| at + 1).collect();
        for length in rows[4]..text.len() {
            let torn =
                crate::read_bytes("t.csv", &text[..length], &ReadOptions::default()).expect("a trace").trace;
            let whole = rows[4..].iter().filter(|&&end| end <= length).count();
            assert_eq!(torn.records.len(), whole, "cut to {length} bytes");
            assert!(torn.about.contains_key(CUT_SHORT));
        }
    }

    #[test]
    fn what_a_full_disk_takes_ends_at_a_whole_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        let mut journal = journal(&path);
        let before = journal.whole;
        // As if the disk had taken some bytes of two lines, and no more.
        journal.note(&record(3), ["vda", "x", ""], None);
        let line = journal.text.len() as u64;
        journal.note(&record(4), ["vda", "x", ""], None);
        let text = std::mem::take(&mut journal.text);
        journal.out.write_all(&text.as_bytes()[..text.len() - 5]).expect("room");
        journal.text = text;
        journal.keep_whole_lines();
        assert_eq!(std::fs::metadata(&path).expect("there").len(), before + line);
        journal.out = File::open("/dev/null").expect("there");
        journal.send();
        assert!(journal.problem().is_some());
        assert!(journal.finish().is_err(), "the first problem is told at the end too");
    }

    #[test]
    fn a_file_that_cannot_be_begun_is_not_left_behind() {
        let problem = Journal::create(Path::new("/dev/full"), &about());
        assert!(problem.is_err());
    }
}
