//! `device measure` from outside: a model in virtual time, and a file for a second.

use super::{fails, forerun, output};
use std::io::Write as _;

#[test]
fn a_measured_model_becomes_a_preset_that_a_run_takes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("mine.toml");
    let path = file.to_str().expect("text");
    let told = output(&["device", "measure", "--model", "x25-m", "--check", "-o", path]);
    for part in ["a flash drive", "reads a second: 35", "Not told apart:", "random 4 KiB, depth 32", "mixed"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let text = std::fs::read_to_string(&file).expect("the preset");
    assert!(
        text.starts_with("# Measured with `forerun device measure`") && text.contains("kind = \"ssd\""),
        "{text}"
    );
    let run =
        output(&["sim", "forward:processes=1,size=1MiB,block=4KiB", "--scheme", "none", "--device", path]);
    assert!(run.contains(path), "{run}");
}

#[test]
fn a_file_is_measured_past_the_page_cache_and_left_as_it_is() {
    // A folder of the build: a temporary one may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = folder.path().join("image");
    let bytes: Vec<u8> = (0..16u32 << 20).map(|at| (at % 251) as u8).collect();
    let mut out = std::fs::File::create(&file).expect("a file");
    out.write_all(&bytes).expect("its bytes");
    out.sync_all().expect("on the disk");
    let path = file.to_str().expect("text");
    let done = forerun(&["device", "measure", path, "--time", "1", "--json"]).output().expect("it runs");
    if done.status.code() == Some(4) {
        return; // This file system cannot be read past the page cache.
    }
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert!(told["values"][0]["value"].as_f64().is_some_and(|value| value > 0.0), "{told}");
    assert!(told["unknown"].as_array().is_some_and(|lines| lines.len() >= 3), "{told}");
    assert!(!told["unknown"].to_string().contains("holes"), "{told}");
    assert_eq!(std::fs::read(&file).expect("still there"), bytes);
    // Twice as long without another block.
    out.set_len(32 << 20).expect("a longer file");
    let told = output(&["device", "measure", path, "--time", "1", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert!(told["unknown"].to_string().contains("is holes"), "{told}");
}

#[test]
fn what_cannot_be_measured_says_what_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = folder.path().join("small");
    std::fs::write(&small, [0; 8192]).expect("a file");
    let small = small.to_str().expect("text");
    let told = fails(&["device", "measure", small], 2);
    assert!(told.contains("16777216"), "{told}");
    let told = fails(&["device", "measure", folder.path().to_str().expect("text")], 2);
    assert!(told.contains("a folder cannot be read"), "{told}");
}
