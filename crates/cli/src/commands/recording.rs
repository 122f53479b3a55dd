//! Recordings while they are made: the lines of `serve --record` and `trace record`, and the file that was asked for.
//!
//! A recorder may be killed at any time, and Parquet and packed files are worth nothing without their end. So it writes
//! plain lines: a server into the file itself if that is to be plain CSV, else into FILE.partial.csv, which becomes FILE in its format
//! when the recording has ended. After a kill the lines are still there and are a trace like any other, which says that it was cut short.

use super::writing;
use crate::error::CliError;
use crate::ui::Ui;
use forerun_trace::record::{COMMAND_NS, Trace};
use forerun_trace::{Format, ReadOptions, journal};
use forerun_watch::outcome::Ended;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a recording goes, and by which way.
#[derive(Debug)]
pub(crate) struct Recording {
    file: PathBuf,
    lines: PathBuf,
}

impl Recording {
    /// Decides by the name.
    ///
    /// # Errors
    /// When the lines of a server that was killed would be lost, or the name means no format.
    pub(crate) fn to(file: &Path) -> Result<Self, CliError> {
        let packed =
            ["gz", "xz", "zst"].iter().any(|end| file.extension().is_some_and(|other| other == *end));
        if writing::target(file, None)? == Format::Csv && !packed {
            return Ok(Self { file: file.to_owned(), lines: file.to_owned() });
        }
        Ok(Self { file: file.to_owned(), lines: lines_of(file, "--record")? })
    }

    /// The file that the server is to write.
    pub(crate) fn lines(&self) -> &Path {
        &self.lines
    }

    /// The server has ended: its lines become the file.
    ///
    /// # Errors
    /// When it can not be written; the lines stay.
    pub(crate) fn finish(&self, ui: &Ui) -> Result<(), CliError> {
        if self.lines == self.file {
            return Ok(());
        }
        let opened = forerun_trace::open(&self.lines, &ReadOptions::of(Format::Csv))
            .map_err(|problem| CliError::failure("--record", problem))?;
        let _ = writing::write(&self.file, None, &opened.trace, ui)?;
        std::fs::remove_file(&self.lines).map_err(|problem| CliError::file(&self.lines, &problem))
    }
}

/// Notes how long the recorded command ran, if a command was recorded to its end.
pub(crate) fn note_command(trace: &mut Trace, ended: &Ended, took: Duration) {
    if matches!(ended, Ended::Command(_)) {
        trace.about.insert(COMMAND_NS.into(), took.as_nanos().to_string());
    }
}

/// Where the lines of a recording are that `option` asked for.
///
/// # Errors
/// When those of one that was killed would be lost.
pub(crate) fn lines_of(file: &Path, option: &str) -> Result<PathBuf, CliError> {
    let mut lines = file.as_os_str().to_owned();
    lines.push(".partial.csv");
    let lines = PathBuf::from(lines);
    if journal::is_held(&lines) {
        let why = format!("{} is being recorded by another process: name another file", file.display());
        return Err(CliError::usage(option, why, ""));
    }
    if lines.exists() {
        let why = format!(
            "{0} was left by a recording that did not end in order: keep it with `forerun trace convert {0} {1}`, \
             then remove it",
            lines.display(),
            file.display()
        );
        return Err(CliError::usage(option, why, ""));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_csv_is_written_as_it_comes() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, direct) in
            [("t.csv", true), ("t.csv.gz", false), ("t.parquet", false), ("t", false), ("t.spc", false)]
        {
            let file = folder.path().join(name);
            let recording = Recording::to(&file).expect("nothing is there");
            assert_eq!(recording.lines() == file, direct, "{name}");
        }
    }

    #[test]
    fn a_name_that_means_no_format_is_refused_with_those_that_do() {
        let said = Recording::to(Path::new("/tmp/out.xyz")).expect_err("no format").to_string();
        assert!(said.contains("`.xyz`") && said.contains(".parquet, .csv"), "{said}");
    }

    #[test]
    fn lines_of_a_server_that_was_killed_are_not_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("t.parquet");
        std::fs::write(folder.path().join("t.parquet.partial.csv"), "t,dev,off,bytes,op,pid,file\n")
            .expect("written");
        let problem = Recording::to(&file).expect_err("left over").to_string();
        assert!(problem.contains("trace convert") && problem.contains("t.parquet.partial.csv"), "{problem}");
    }
}
