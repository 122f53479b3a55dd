//! What new users got wrong, and what they are told: one line that names the place and the way out.

use super::{SMALL, fails, output};

#[test]
fn a_cache_without_a_unit_is_asked_about() {
    let said = fails(&["compare", SMALL, "--scheme", "asp", "--cache", "500"], 2);
    assert!(said.contains("did you mean 500M?"), "{said}");
    let said = fails(&["compare", SMALL, "--scheme", "asp", "--cache", "64T"], 2);
    assert!(said.contains("at most 8TiB"), "{said}");
}

#[test]
fn a_device_that_nothing_is_called_is_answered_with_the_nearest() {
    let said = fails(&["compare", SMALL, "--scheme", "asp", "--device", "wd-720"], 2);
    assert!(said.contains("did you mean `wd-7200`"), "{said}");
}

#[test]
fn cache_blocks_take_a_size_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.csv");
    let trace = trace.to_str().expect("UTF-8");
    output(&["trace", "synth", "zipf:size=4MiB,requests=500", "-o", trace, "--quiet"]);
    let both = output(&["mrc", trace, "--cache-blocks", "256,1M", "--json"]);
    assert_eq!(both.matches("\"cache_blocks\": 256").count(), 2, "1 MiB is 256 blocks: {both}");
    assert!(fails(&["mrc", trace, "--cache-blocks", "10 parsecs"], 2).contains("10M"));
}

#[test]
fn a_recording_of_nothing_names_both_ways_and_a_missing_device_is_no_fault_of_the_kernel() {
    let said = fails(&["trace", "record", "-o", "x.parquet"], 2);
    assert!(said.contains("--device DEV") && said.contains("-- CMD"), "{said}");
    let said = fails(&["trace", "record", "-o", "x.parquet", "--device", "/dev/no-such-device-here"], 1);
    assert!(said.contains("/dev/no-such-device-here") && !said.contains("tracefs"), "{said}");
}

#[test]
fn a_dash_is_no_file_and_a_file_that_is_no_trace_has_no_records_to_pass_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("text");
    std::fs::write(&file, "garbage line\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let said = fails(&["trace", "info", file], 1);
    assert!(!said.contains("--skip-bad"), "{said}");
    let said = fails(&["trace", "convert", file, "-", "--to", "csv"], 2);
    assert!(said.contains("/dev/stdout") && !std::path::Path::new("-").exists(), "{said}");
}

#[test]
fn what_is_served_and_where_is_asked_for_in_its_own_words() {
    let said = fails(&["serve", "disk.img"], 2);
    assert!(said.contains("--over disk.img"), "{said}");
    let said = fails(&["serve", "--over", "ftp://far/disk"], 2);
    assert!(said.contains("ftp:// is no way") && said.contains("s3://"), "{said}");
    let said = fails(&["serve", "--over", "disk.img", "--socket", "/no-such-folder/s.sock"], 1);
    assert!(said.contains("the folder /no-such-folder is not there"), "{said}");
}

#[test]
fn help_begins_with_what_it_is_for() {
    let text = output(&["--help"]);
    assert!(text.starts_with("Forerun reads storage ahead"), "{text}");
}
