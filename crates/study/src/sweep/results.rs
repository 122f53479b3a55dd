//! Results of a sweep: lines that only grow, and the one file that comes of them.
//!
//! A folder holds a file of lines for each shard, `cells.jsonl` or `cells-2of3.jsonl`, and in the end `results.parquet`. A line is
//! written with one call, so that what a kill leaves torn is at most the last line, which the next sweep takes away. Whoever writes a
//! file of lines holds its lock.

use super::parquet;
use super::study::Cell;
use crate::error::StudyError;
use crate::rows::Rows;
use forerun_sim::report::RunReport;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// The end of a sweep.
pub const RESULTS: &str = "results.parquet";

/// Which part of a study a sweep runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: usize,
    /// Of so many.
    pub of: usize,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// `2/3`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("expected I/N with I from 1 to N, such as 2/3".into()),
        }
    }

    /// Whether the cell with this number is in it. Neighbours are in different shards, so that long inputs are shared out.
    #[must_use]
    pub const fn has(self, cell: usize) -> bool {
        cell % self.of == self.number - 1
    }

    fn file(self) -> String {
        if self == Self::WHOLE {
            "cells.jsonl".into()
        } else {
            format!("cells-{}of{}.jsonl", self.number, self.of)
        }
    }
}

/// What a cell measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    cell: String,
    report: RunReport,
}

/// What stands behind a line: the CRC-32 of the text before it. Lines of before there was one are taken as they are.
const SUM: &str = ",\"crc32\":";

/// The line of a cell, with its line end.
///
/// # Errors
/// [`StudyError`] for a report that is no plain data, which would be a mistake of ours.
pub fn line(id: &str, report: &RunReport) -> Result<String, StudyError> {
    let line = Line { cell: id.into(), report: report.clone() };
    let text = serde_json::to_string(&line).map_err(|problem| StudyError::failure("results", problem))?;
    let open = text.strip_suffix('}').unwrap_or(&text);
    Ok(format!("{open}{SUM}{}}}\n", crc32fast::hash(open.as_bytes())))
}

/// Whether a line is as it was written, as far as it says.
fn check_sum(line: &str) -> Result<(), String> {
    let Some((open, sum)) = line.rsplit_once(SUM) else { return Ok(()) };
    let sum = sum.trim_end().strip_suffix('}').and_then(|sum| sum.parse::<u32>().ok());
    if sum == Some(crc32fast::hash(open.as_bytes())) {
        return Ok(());
    }
    Err("it is not as it was written: its sum says so".into())
}

/// A file of lines that is written to.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    /// Opens the file of a shard, alone, and takes away a torn last line.
    ///
    /// # Errors
    /// [`StudyError`] if it cannot be opened, or another sweep writes it.
    pub fn open(folder: &Path, shard: Shard) -> Result<Self, StudyError> {
        let path = folder.join(shard.file());
        let failed = |problem: &std::io::Error| StudyError::file(&path, problem);
        if folder.exists() && !folder.is_dir() {
            let (place, remedy) = (folder.display().to_string(), "a sweep writes into a folder: name one");
            return Err(StudyError::usage(&place, "it is a file", remedy));
        }
        std::fs::create_dir_all(folder).map_err(|problem| StudyError::file(folder, &problem))?;
        let file = File::options().read(true).append(true).create(true).open(&path);
        let mut file = file.map_err(|problem| failed(&problem))?;
        if file.try_lock().is_err() {
            let (place, remedy) =
                (path.display().to_string(), "wait for it, or give each a --shard of its own");
            return Err(StudyError::usage(&place, "another sweep is writing it", remedy));
        }
        let whole = whole_lines(&mut file).map_err(|problem| failed(&problem))?;
        file.set_len(whole).map_err(|problem| failed(&problem))?;
        Ok(Self { path, file })
    }

    /// Appends a line of [`line()`].
    ///
    /// # Errors
    /// [`StudyError`] if it cannot be written.
    pub fn append(&mut self, line: &str) -> Result<(), StudyError> {
        self.file.write_all(line.as_bytes()).map_err(|problem| StudyError::file(&self.path, &problem))
    }
}

/// Bytes up to and with the last line end.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let (mut end, mut part) = (file.seek(SeekFrom::End(0))?, vec![0; 1 << 16]);
    while end > 0 {
        let from = end.saturating_sub(part.len() as u64);
        let part = &mut part[..usize::try_from(end - from).unwrap_or(0)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|&byte| byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

/// The files of lines in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, StudyError> {
    let failed = |problem| StudyError::file(folder, &problem);
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if name.starts_with("cells") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Each whole line of each file of a folder.
fn each_line(folder: &Path, mut take: impl FnMut(&str) -> Result<(), String>) -> Result<(), StudyError> {
    for path in files(folder)? {
        let text = std::fs::read_to_string(&path).map_err(|problem| StudyError::file(&path, &problem))?;
        for (number, line) in text.split_inclusive('\n').enumerate().filter(|(_, line)| line.ends_with('\n'))
        {
            check_sum(line).and_then(|()| take(line)).map_err(|why| {
                let place = format!("{}: line {}", path.display(), number + 1);
                StudyError::usage(&place, why, "take the line away; its cell runs again")
            })?;
        }
    }
    Ok(())
}

/// The ids of the cells that are done.
///
/// # Errors
/// [`StudyError`] with the line that is none.
pub fn done(folder: &Path) -> Result<BTreeSet<String>, StudyError> {
    #[derive(Deserialize)]
    struct Only {
        cell: String,
    }
    let mut ids = BTreeSet::new();
    each_line(folder, |line| {
        let only: Only = serde_json::from_str(line).map_err(|problem| problem.to_string())?;
        ids.insert(only.cell);
        Ok(())
    })?;
    Ok(ids)
}

/// Writes the results, in the order of the cells, if every cell has its line: their path.
///
/// # Errors
/// [`StudyError`] for a line that is none, or a file that cannot be written.
pub fn finish(folder: &Path, cells: &[Cell]) -> Result<Option<PathBuf>, StudyError> {
    let mut reports: BTreeMap<String, RunReport> = BTreeMap::new();
    each_line(folder, |line| {
        let line: Line = serde_json::from_str(line).map_err(|problem| problem.to_string())?;
        reports.insert(line.cell, line.report);
        Ok(())
    })?;
    let in_order: Option<Vec<RunReport>> = cells.iter().map(|cell| reports.remove(&cell.id)).collect();
    let Some(in_order) = in_order else { return Ok(None) };
    let mut rows = Rows::of(&in_order)?;
    name_cells(&mut rows, cells);
    let path = folder.join(RESULTS);
    parquet::write(&path, &rows)?;
    Ok(Some(path))
}

/// Puts the id and the place of each cell before what it measured.
fn name_cells(rows: &mut Rows, cells: &[Cell]) {
    let axes = cells.first().map_or(&[][..], |cell| &cell.at);
    let mut header = vec!["cell".to_owned()];
    header.extend(axes.iter().map(|(name, _)| format!("at.{name}")));
    header.append(&mut rows.header);
    rows.header = header;
    for (row, cell) in rows.rows.iter_mut().zip(cells) {
        let mut named = vec![Value::from(cell.id.clone())];
        named.extend(cell.at.iter().map(|(_, word)| Value::from(word.clone())));
        named.append(row);
        *row = named;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::run;

    #[test]
    fn a_torn_last_line_is_taken_away_and_only_one_sweep_writes() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cells.jsonl");
        let whole = line("a", &run("x", "none", 10)).expect("plain data");
        std::fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).expect("written");
        let mut lines = Lines::open(folder.path(), Shard::WHOLE).expect("alone");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), whole);
        let second = Lines::open(folder.path(), Shard::WHOLE).expect_err("locked").to_string();
        assert!(second.contains("another sweep is writing it"), "{second}");
        lines.append(&line("b", &run("x", "asp", 10)).expect("plain data")).expect("written");
        assert_eq!(done(folder.path()).expect("lines").into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_line_that_was_changed_is_refused_and_one_without_a_sum_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cells.jsonl");
        let whole = line("a", &run("x", "none", 10)).expect("plain data");
        let at = whole.find("\"x\"").expect("its input") + 1;
        std::fs::write(&path, format!("{}y{}", &whole[..at], &whole[at + 1..])).expect("written");
        let said = done(folder.path()).expect_err("changed").to_string();
        assert!(said.contains("line 1") && said.contains("not as it was written"), "{said}");
        let (before, _) = whole.rsplit_once(SUM).expect("a sum");
        std::fs::write(&path, format!("{before}}}\n")).expect("written");
        assert_eq!(done(folder.path()).expect("lines").len(), 1);
    }

    #[test]
    fn shards_share_out_every_cell_once() {
        let shards: Vec<Shard> =
            ["1/3", "2/3", "3/3"].iter().map(|text| Shard::parse(text).expect("a shard")).collect();
        for cell in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(cell)).count(), 1);
        }
        assert!(["0/3", "4/3", "3", "a/b"].iter().all(|text| Shard::parse(text).is_err()));
    }
}
