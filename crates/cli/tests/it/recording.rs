//! Recordings of `serve` go through `compare`, also those of a server that was killed.

use crate::{forerun, json};
use std::path::Path;

/// A client that reads everything; without it these tests pass. `scripts/install-deps.sh` installs it.
fn has_nbdcopy() -> bool {
    let there = std::process::Command::new("sh").args(["-c", "command -v nbdcopy"]).output();
    there.is_ok_and(|output| output.status.success())
}

fn image(folder: &Path) -> String {
    let path = folder.join("disk.img");
    std::fs::write(&path, vec![7; 8 << 20]).expect("written");
    path.to_str().expect("a name in UTF-8").to_owned()
}

/// Bytes that the programs of a trace read, as a comparison says.
fn compared(trace: &Path) -> u64 {
    let trace = trace.to_str().expect("a name in UTF-8");
    let array = "raid0:2x128KiB";
    let report = json(&["compare", trace, "--scheme", "asp", "--cache", "4MiB", "--array", array, "--json"]);
    report["runs"][0]["bytes_read_requested"].as_u64().expect("a number")
}

#[test]
fn a_recording_is_a_trace_in_the_format_of_its_name_that_compare_replays() {
    if !has_nbdcopy() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let disk = image(folder.path());
    let mut found = Vec::new();
    for name in ["t.csv", "t.parquet", "t.csv.zst"] {
        let trace = folder.path().join(name);
        let record = trace.to_str().expect("a name in UTF-8");
        let words = ["serve", "--over", &disk, "--record", record, "--run", "nbdcopy \"$uri\" null:"];
        forerun(&words).assert().success();
        found.push(compared(&trace));
        assert!(!folder.path().join(format!("{name}.partial.csv")).exists());
    }
    assert_eq!(found, [8 << 20; 3]);
}

#[test]
fn a_file_that_a_server_records_to_is_not_taken_by_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = image(folder.path());
    let binary = assert_cmd::cargo::cargo_bin("forerun").display().to_string();
    for (option, name) in [("--record", "t.csv"), ("--record", "t.parquet"), ("--log-inputs", "log")] {
        let file = folder.path().join(name).display().to_string();
        // The first server's command is the second server, and the first ends with its code.
        let second =
            format!("'{binary}' serve --read-only --over {disk} {option} {file} --run true 2> {disk}.said");
        let words = ["serve", "--read-only", "--over", &disk, option, &file, "--run", &second];
        let code = forerun(&words).output().expect("it runs").status.code();
        let said = std::fs::read_to_string(format!("{disk}.said")).expect("written");
        assert!(code != Some(0) && said.contains("being recorded by another process"), "{code:?} {said}");
        forerun(&["serve", "--over", &disk, option, &file, "--run", "true"]).assert().success();
    }
}

#[test]
fn a_command_that_cannot_be_started_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet").display().to_string();
    for more in [&[][..], &["--files"]] {
        let words = [&["trace", "record", "-o", &file], more, &["--", "/nonexistent"]].concat();
        let said = forerun(&words).output().expect("it runs");
        assert!(matches!(said.status.code(), Some(127 | 4)), "{said:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "{more:?}");
    }
}

#[test]
fn a_recording_that_is_running_is_not_called_left_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let binary = assert_cmd::cargo::cargo_bin("forerun").display().to_string();
    let file = folder.path().join("t.parquet").display().to_string();
    let second = format!("'{binary}' trace record -o {file} -- true 2> {file}.said; exit 0");
    let first = forerun(&["trace", "record", "-o", &file, "--", "sh", "-c", &second]).output().expect("runs");
    if first.status.code() == Some(4) {
        return crate::skipped("nothing is recorded here");
    }
    assert!(first.status.success(), "{first:?}");
    let said = std::fs::read_to_string(format!("{file}.said")).expect("written");
    assert!(said.contains("being recorded by another process"), "{said}");
}

#[test]
fn the_recording_of_a_server_that_was_killed_is_a_trace_up_to_then() {
    if !has_nbdcopy() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, trace) = (image(folder.path()), folder.path().join("t.parquet"));
    let lines = folder.path().join("t.parquet.partial.csv");
    // The shell's parent is the server.
    let run = format!(
        "nbdcopy \"$uri\" null:; until grep -q '^[0-9]' {}; do sleep 0.1; done; kill -9 $PPID",
        lines.display()
    );
    let record = trace.to_str().expect("a name in UTF-8");
    forerun(&["serve", "--over", &disk, "--record", record, "--run", &run]).assert().failure();
    assert!(compared(&lines) > 0);
    let told = crate::output(&["trace", "info", lines.to_str().expect("UTF-8")]);
    assert!(told.contains("cut_short") && told.contains("export.0.member.0"), "{told}");
    let again = ["serve", "--over", &disk, "--record", record, "--run", "true"];
    let said = forerun(&again).assert().code(2).get_output().stderr.clone();
    let said = String::from_utf8(said).expect("text");
    assert!(said.contains("trace convert"), "{said}");
}
