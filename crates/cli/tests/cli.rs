//! The binary from outside: what it prints, where, and with which exit code.
//!
//! Inputs are workloads of a few thousand requests, so that the whole file runs in seconds. Where the shared traces
//! are present (`FORERUN_SHARED`, else `../shared` beside the workspace), the command lines of the first issue are
//! run on them too.

#[path = "it/arrays.rs"]
mod arrays;
#[path = "it/attempt.rs"]
mod attempt;
#[path = "it/by_file.rs"]
mod by_file;
#[path = "it/client.rs"]
mod client;
#[path = "it/crash_binary.rs"]
mod crash_binary;
#[path = "it/devices.rs"]
mod devices;
#[path = "it/doctor.rs"]
mod doctor;
#[path = "it/ending.rs"]
mod ending;
#[path = "it/files.rs"]
mod files;
#[path = "it/guide.rs"]
mod guide;
#[path = "it/help.rs"]
mod help;
#[path = "it/hung.rs"]
mod hung;
#[path = "it/interrupted.rs"]
mod interrupted;
#[path = "it/journal.rs"]
mod journal;
#[path = "it/kernels.rs"]
mod kernels;
#[path = "it/lossy.rs"]
mod lossy;
#[path = "it/measuring.rs"]
mod measuring;
#[path = "it/models.rs"]
mod models;
#[path = "it/narrow.rs"]
mod narrow;
#[path = "it/on_disks.rs"]
mod on_disks;
#[path = "it/options.rs"]
mod options;
#[path = "it/power.rs"]
mod power;
#[path = "it/reasons.rs"]
mod reasons;
#[path = "it/recording.rs"]
mod recording;
#[path = "it/runs.rs"]
mod runs;
#[cfg(feature = "objects")]
#[path = "it/s3.rs"]
mod s3;
#[path = "it/serve.rs"]
mod serve;
#[path = "it/serve_limits.rs"]
mod serve_limits;
#[path = "../../serve/tests/it/shaken.rs"]
mod shaken;
#[path = "it/stumbles.rs"]
mod stumbles;
#[path = "it/sweep.rs"]
mod sweep;
#[path = "it/texts.rs"]
mod texts;
#[path = "it/top.rs"]
mod top;
#[path = "it/trial.rs"]
mod trial;
#[path = "it/two_writers.rs"]
mod two_writers;
#[path = "it/ublk.rs"]
mod ublk;
#[path = "it/watching.rs"]
mod watching;
#[path = "it/write_back.rs"]
mod write_back;

use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A small workload that every test may run.
const SMALL: &str = "forward:processes=2,size=8MiB,block=4KiB";
/// A small array for it.
const ARRAY: &str = "raid5:5x128KiB";

fn forerun(words: &[&str]) -> Command {
    let mut command = Command::cargo_bin("forerun").expect("the binary is built with its tests");
    command.args(words).env_remove("NO_COLOR");
    command
}

/// Runs it to success and returns stdout.
fn output(words: &[&str]) -> String {
    let output = forerun(words).assert().success().get_output().stdout.clone();
    String::from_utf8(output).expect("output is UTF-8")
}

fn json(words: &[&str]) -> Value {
    serde_json::from_str(&output(words)).expect("--json prints one JSON object")
}

/// Runs it, expects the exit code and one line on stderr that starts with `forerun: `; returns the line.
fn fails(words: &[&str], code: i32) -> String {
    let output = forerun(words).arg("--quiet").assert().code(code).get_output().clone();
    let line = String::from_utf8(output.stderr).expect("stderr is UTF-8");
    assert!(line.starts_with("forerun: "), "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "one line: {line}");
    line
}

fn shared(path: &str) -> Option<PathBuf> {
    let base = std::env::var_os("FORERUN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = base.join(path);
    path.exists().then_some(path)
}

#[expect(clippy::print_stderr, reason = "whoever reads the test's output must see that nothing was tested")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
