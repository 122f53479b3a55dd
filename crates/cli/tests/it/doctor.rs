//! `doctor` from outside, on machines that were made up and on this one.

use super::{fails, forerun};
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// A machine with one disk, of the given window.
fn machine(window: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    put("proc/sys/kernel/osrelease", "6.18.1\n");
    put("sys/block/vda/size", "2097152\n");
    put("sys/block/vda/dev", "254:0\n");
    put("sys/block/vda/queue/rotational", "1\n");
    put("sys/block/vda/queue/max_sectors_kb", "4096\n");
    put("sys/block/vda/queue/read_ahead_kb", window);
    folder
}

fn run(root: &Path, options: &[&str], code: i32) -> String {
    let root = root.to_str().expect("UTF-8");
    let output =
        forerun(&["doctor", "--sysroot", root]).args(options).assert().code(code).get_output().clone();
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn a_finding_says_what_why_what_shows_it_and_the_way_back_and_ends_with_0() {
    let ill = machine("8192\n");
    let text = run(ill.path(), &[], 0);
    for word in ["vda reads 8192 KiB ahead", "why", "seen", "https://", "fix", "undo", "1 warning, 0 notes"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.lines().any(|line| line.trim() == "echo 128 | sudo tee /sys/block/vda/queue/read_ahead_kb"));
}

#[test]
fn a_check_ends_with_3_on_a_warning_and_a_monitor_gets_its_own_codes() {
    let (ill, well) = (machine("8192\n"), machine("128\n"));
    run(ill.path(), &["--check"], 3);
    run(well.path(), &["--check"], 0);
    let line = run(ill.path(), &["--nagios"], 1);
    assert!(line.starts_with("FORERUN WARNING - 1 warning: vda reads 8192 KiB ahead"), "{line}");
    assert_eq!((line.lines().count(), line.matches('|').count()), (1, 1), "{line}");
    assert!(run(well.path(), &["--nagios"], 0).starts_with("FORERUN OK - "));
    let empty = tempfile::tempdir().expect("a folder");
    assert!(run(empty.path(), &["--nagios"], 3).starts_with("FORERUN UNKNOWN - "));
    let bare = tempfile::tempdir().expect("a folder");
    for folder in ["sys/block", "proc"] {
        std::fs::create_dir_all(bare.path().join(folder)).expect("a folder");
    }
    run(bare.path(), &["--check"], 1);
    let line = fails(&["doctor", "--sysroot", empty.path().to_str().expect("UTF-8")], 4);
    assert!(line.contains("sys/block is not there"), "{line}");
}

#[test]
fn the_same_is_told_as_json_and_nothing_is_changed() {
    let ill = machine("8192\n");
    let json: Value = serde_json::from_str(&run(ill.path(), &["--json"], 0)).expect("one object");
    assert_eq!(json["warnings"], 1);
    assert_eq!(json["findings"][0]["id"], "read-ahead-virtual-rotational");
    assert_eq!(json["machine"]["devices"][0]["read_ahead_kib"], 8192);
    let window = std::fs::read_to_string(ill.path().join("sys/block/vda/queue/read_ahead_kb"));
    assert_eq!(window.expect("still there"), "8192\n");
}
