//! Every number of the paper's table and text has a row, missing recordings are named, and threads change nothing.

use super::STUDY;
use crate::{Kind, Options, Paper, Reproduction, reproduce};
use forerun_core::units::Nanos;
use forerun_trace::record::{Name, Record, Trace};
use forerun_trace::{Format, write};
use std::path::Path;

fn quick(own: Option<&Path>, threads: usize) -> Reproduction {
    let options =
        Options { quick: true, threads, own_traces: own.map(Path::to_path_buf), ..Options::default() };
    reproduce(&STUDY, &options, &|_| {}).unwrap()
}

/// A recording in which a loop of eight blocks is read five times, between random reads.
fn write_trace(folder: &Path, name: &str) {
    let names = ["", "a", "1"].map(String::from).to_vec();
    let (file, process) = (Name(1), Name(2));
    let mut records = Vec::new();
    for pass in 0..5_u64 {
        for block in 0..8_u64 {
            for offset in [block * 4096, (1000 + (pass * 8 + block) * 37 % 500) * 4096] {
                let time = Some(Nanos(records.len() as u64 * 1_000_000));
                records.push(Record { time, process, file, offset, bytes: 4096, ..Record::BLANK });
            }
        }
    }
    let trace = Trace { names, records, ..Trace::default() };
    write(folder.join(format!("{name}.parquet")), Format::Parquet, &trace).unwrap();
}

#[test]
fn every_number_of_the_table_and_the_text_has_a_row_even_without_recordings() {
    let done = quick(None, 1);
    let has = |figure: &str, paper: f64| {
        done.rows.iter().any(|r| r.figure == figure && r.paper == Some(Paper::Number(paper)))
    };
    for share in [66.0, 84.0, 99.0, 58.0, 5.0, 75.0, 15.0, 72.0] {
        assert!(has("table1", share), "no row for {share}% of Table 1");
    }
    for figure in ["1", "2", "3"] {
        let rows = done.rows.iter().filter(|r| r.figure == figure);
        assert!(rows.clone().count() > 0, "no row of Fig. {figure}");
        assert!(rows.clone().all(|r| r.kind == Kind::NotReproducible && !r.why.is_empty()));
    }
    assert!(has("1", 1.0 / 1.673));
}

#[test]
fn a_recording_that_cannot_be_read_is_not_called_missing() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tpch-index.parquet"), "PAR1 and then nothing of the kind").unwrap();
    let done = quick(Some(folder.path()), 1);
    let note = done.notes.iter().find(|note| note.starts_with("tpch-index")).unwrap();
    assert!(note.contains("cannot be read") && note.contains("tpch-index.parquet"), "{note}");
    assert!(!note.contains("not found"), "{note}");
    for row in done.rows.iter().filter(|row| row.case.contains("tpch-index")) {
        assert!(row.why.contains("cannot be read") && !row.why.contains("missing"), "{}", row.why);
    }
    assert!(done.notes.iter().any(|note| note.contains("not found")), "the others are");
}

#[test]
fn a_recording_gives_runs_and_two_threads_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    write_trace(folder.path(), "tpch-index");
    let one = quick(Some(folder.path()), 1);
    assert!(one.rows.iter().any(|r| r.figure == "1" && r.ours.is_some()));
    assert!(one.rows.iter().any(|r| r.figure == "loss" && !r.why.is_empty()));
    assert!(one.charts.iter().any(|chart| chart.figure == "threshold"));
    assert!(one.rows.iter().all(|r| r.holds.is_none()), "a run of test size claims nothing");
    let two = quick(Some(folder.path()), 2);
    let text = |r: &Reproduction| serde_json::to_string(r).unwrap();
    assert!(text(&one) == text(&two));
}
