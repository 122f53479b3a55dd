//! `trace`, `mrc` and `device`: commands about files.

use super::{fails, json, output, shared};

fn text(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

fn synth(dir: &tempfile::TempDir, name: &str) -> String {
    let path = text(dir, name);
    output(&["trace", "synth", "forward:processes=2,size=1MiB,block=4KiB", "-o", &path]);
    path
}

#[test]
fn a_workload_becomes_a_trace_of_any_written_format() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in ["a.parquet", "a.csv", "a.csv.gz", "a.csv.zst"] {
        let path = synth(&dir, name);
        let info = json(&["trace", "info", &path, "--json"]);
        assert_eq!(info["requests"], 256, "{name}");
        assert_eq!(info["footprint_bytes"], 1 << 20, "{name}");
    }
}

#[test]
fn conversion_keeps_the_requests_and_says_what_is_lost() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let from = synth(&dir, "a.parquet");
    let to = dir.path().join("b.lirs").display().to_string();
    let said =
        super::forerun(&["trace", "convert", &from, &to]).assert().success().get_output().stderr.clone();
    assert!(String::from_utf8_lossy(&said).contains("256 records written as lirs"));
    assert_eq!(json(&["trace", "info", &to, "--format", "lirs", "--json"])["requests"], 256);
}

#[test]
fn a_malformed_trace_is_one_error_with_its_place_and_can_be_passed_over() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("bad.csv");
    std::fs::write(
        &path,
        "t,dev,off,bytes,op,pid,file\n0.1,0,0,4096,R,1,\n0.2,0,x,4096,R,1,\n0.3,0,8192,4096,R,1,\n",
    )
    .expect("a temporary file");
    let path = path.display().to_string();
    let line = fails(&["trace", "info", &path], 1);
    assert!(line.contains("bad.csv") && line.contains('3') && line.contains("--skip-bad"), "{line}");
    let info = json(&["trace", "info", &path, "--skip-bad", "--json"]);
    assert_eq!((info["requests"].as_u64(), info["skipped"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn cache_only_runs_count_misses() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = synth(&dir, "a.parquet");
    let report = json(&["mrc", &path, "--retention", "lru,arc", "--cache-blocks", "16,512", "--json"]);
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4);
    for run in runs {
        // Every block is read once: nothing can hit.
        assert_eq!((run["requests"].as_u64(), run["misses"].as_u64()), (Some(256), Some(256)));
    }
    assert!(fails(&["mrc", &path, "--retention", "fifo", "--cache-blocks", "1"], 2).contains("lru, arc"));
}

#[test]
fn presets_are_listed_and_shown_as_files_that_can_be_used() {
    let names: Vec<String> = json(&["device", "list", "--json"])["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|device| device["name"].as_str().expect("a name").to_owned())
        .collect();
    for name in ["cheetah-15k4", "nvme", "x25-m"] {
        assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mine = dir.path().join("mine.toml");
    std::fs::write(&mine, output(&["device", "show", "cheetah-15k4"])).expect("a temporary file");
    assert_eq!(
        output(&["device", "show", &mine.display().to_string()]),
        output(&["device", "show", "cheetah-15k4"])
    );
    assert!(fails(&["device", "show", "no-such-disk"], 2).contains("no-such-disk"));
}

#[test]
fn the_issues_command_lines_work_where_the_files_are() {
    if let Some(trace) = shared("traces/native/cs.lirs.gz") {
        let path = trace.display().to_string();
        let report = json(&["mrc", &path, "--retention", "lru,arc", "--cache-blocks", "500,1000", "--json"]);
        assert_eq!(report["runs"].as_array().map(Vec::len), Some(4));
    }
    if let Some(trace) = shared("disk/cheetah9LP.trace.gz") {
        let report = json(&["device", "validate", "cheetah-9lp", &trace.display().to_string(), "--json"]);
        assert!(report["demerit_ns"].as_f64().is_some_and(|demerit| demerit > 0.0));
    }
}

#[test]
fn patterns_of_a_trace_add_up_and_have_a_page() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = synth(&dir, "a.parquet");
    let page = dir.path().join("patterns.html").display().to_string();
    let found = json(&["trace", "patterns", &path, "--by", "process", "--html", &page, "--json"]);
    let total = &found["total"];
    // Two processes read a share each, block by block: two files where the workload knows them, one volume here.
    let sum: u64 = ["sequential", "looping", "strided", "reverse", "random"]
        .iter()
        .map(|class| total[class].as_u64().expect("a count"))
        .sum();
    assert_eq!((sum, total["references"].as_u64()), (256, Some(256)));
    assert_eq!(found["groups"].as_array().expect("rows").len(), 2);
    let html = std::fs::read_to_string(page).expect("the page was written");
    assert!(html.contains("Where it reads, and when") && !html.contains("NaN"));
    let text = output(&["trace", "patterns", &path, "--threshold", "2"]);
    assert!(text.contains("% of seq") && text.contains("more than 2 is proven"), "{text}");
    assert!(fails(&["trace", "patterns", &path, "--threshold", "0"], 2).contains("threshold"));
}

#[test]
fn what_a_command_reads_of_files_is_recorded_and_replayed_or_refused_with_the_way_to_strace() {
    let program = std::env::current_exe().expect("a test has a program");
    let dir = tempfile::tempdir_in(program.parent().expect("in a folder")).expect("room on disk");
    let (data, out) = (dir.path().join("data"), dir.path().join("out.parquet"));
    std::fs::write(&data, vec![1; 100_000]).expect("room on disk");
    let (folder, data, out) =
        (dir.path().display().to_string(), data.display().to_string(), out.display().to_string());
    let words =
        ["trace", "record", "--files", "--dir", &folder, "-o", &out, "--", "dd", "of=/dev/null", "bs=10000"];
    let input = format!("if={data}");
    let run = super::forerun(&[&words[..], &[&input]].concat()).assert();
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    if run.get_output().status.code() == Some(4) {
        assert!(said.contains("strace -f -ttt -T -y -o OUT CMD"), "{said}");
        return;
    }
    run.success();
    let info = json(&["trace", "info", &out, "--json"]);
    assert_eq!((info["files"].as_u64(), info["files_with_size"].as_u64()), (Some(1), Some(1)), "{said}");
    assert_eq!(info["bytes_read"], 100_000);
    let report = json(&["sim", &out, "--mode", "paced", "--host-cache", "16MiB", "--json"]);
    assert_eq!(report["runs"][0]["blocks_read"].as_u64().map(|blocks| blocks >= 25), Some(true));
}

#[test]
fn a_recording_of_files_says_the_file_system_of_the_files_and_not_of_the_folder_it_was_begun_in() {
    let program = std::env::current_exe().expect("a test has a program");
    let dir = tempfile::tempdir_in(program.parent().expect("in a folder")).expect("room on disk");
    let (data, out) = (dir.path().join("data"), dir.path().join("out.csv"));
    std::fs::write(&data, vec![1; 4 << 20]).expect("room on disk");
    let (data, out) = (data.display().to_string(), out.display().to_string());
    let words = ["trace", "record", "--files", "-o", &out, "--", "dd", "of=/dev/null", "bs=64k"];
    let input = format!("if={data}");
    let run = super::forerun(&[&words[..], &[&input]].concat()).current_dir("/proc").assert();
    if run.get_output().status.code() == Some(4) {
        return; // What cannot be had here is in the test above.
    }
    run.success();
    let df =
        std::process::Command::new("df").args(["--output=fstype", &data]).output().expect("of coreutils");
    let kind = String::from_utf8_lossy(&df.stdout).lines().last().expect("a kind").trim().to_owned();
    let info = json(&["trace", "info", &out, "--json"]);
    assert_eq!(info["about"]["file_system"], kind.as_str(), "{info}");
    assert!(output(&["trace", "info", &out]).contains(&format!("file_system    {kind}")));
}

#[test]
fn files_and_a_device_are_not_recorded_at_once() {
    let line = fails(&["trace", "record", "--files", "--device", "/dev/null", "-o", "x", "--", "true"], 2);
    assert!(line.contains("--device"), "{line}");
    assert!(fails(&["trace", "record", "--dir", "/", "-o", "x", "--", "true"], 2).contains("--files"));
}

#[test]
fn nothing_is_written_over_what_it_is_made_of() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let trace = synth(&dir, "a.csv");
    let before = std::fs::read(&trace).expect("there");
    let array = ["--array", super::ARRAY, "--no-bounds", "--scheme", "none"];
    for option in ["--csv", "--html", "--save-spec"] {
        let said = fails(&[&["compare", &trace], &array[..], &[option, &trace]].concat(), 2);
        assert!(said.contains(option) && said.contains("is read"), "{said}");
    }
    fails(&["trace", "patterns", &trace, "--html", &trace], 2);
    fails(&["trace", "convert", &trace, &trace], 2);
    fails(&["trace", "record", "-o", &dir.path().display().to_string(), "--", "true"], 2);
    // Nor over what is read beside the trace: a key, a preset, what was learned before.
    let (key, preset) = (&text(&dir, "key"), &text(&dir, "disk.toml"));
    std::fs::write(key, [7; 32]).expect("written");
    std::fs::write(preset, output(&["device", "show", "wd-7200"])).expect("written");
    let learned = &text(&dir, "learned.manifest");
    let sim = ["sim", &trace, "--array", super::ARRAY, "--scheme", "recall"];
    output(&[&sim[..], &["--learn", learned]].concat());
    let read = [key, preset, learned].map(|path| std::fs::read(path).expect("there"));
    for words in [
        &["trace", "anonymize", &trace, key, "--key-file", key, "--to", "csv"][..],
        &[&sim[..], &["--manifest", learned, "--csv", learned]].concat(),
        &[&sim[..], &["--device", preset, "--learn", preset]].concat(),
        &["advise", &trace, "--device", preset, "--html", preset],
        &["device", "measure", "--model", preset, "-o", preset],
        &["manifest", "merge", learned, learned, "-o", learned],
    ] {
        let said = fails(words, 2);
        assert!(said.contains("is read"), "{words:?}: {said}");
    }
    assert_eq!([key, preset, learned].map(|path| std::fs::read(path).expect("still there")), read);
    assert_eq!(std::fs::read(&trace).expect("still there"), before);
    // A device is no file that could be replaced.
    output(&["trace", "convert", &trace, "/dev/null", "--to", "csv"]);
    use std::os::unix::fs::FileTypeExt as _;
    assert!(std::fs::metadata("/dev/null").expect("there").file_type().is_char_device());
}
