//! Options that do not go together, and words that are no text: refused by name, never passed over.

use super::{SMALL, fails, forerun, json, output};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A trace of three requests.
fn trace(folder: &tempfile::TempDir) -> String {
    let path = folder.path().join("t.csv");
    let text = "t,dev,off,bytes,op,pid,file\n0,sda,0,4096,R,a,\n1,sda,4096,4096,R,b,\n2,sda,8192,4096,R,a,\n";
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

#[test]
fn two_that_would_both_have_stdout_are_refused_and_both_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = trace(&folder);
    let lines: [(&[&str], &str); 10] = [
        (&["doctor", "--nagios"], "--nagios"),
        (&["compare", SMALL, "--scheme", "none", "--csv"], "--csv"),
        (&["sim", SMALL, "--csv", "-"], "--csv"),
        (&["reproduce", "asp", "--quick", "--figure", "6", "--csv"], "--csv"),
        (&["trace", "convert", &trace, "-"], "'-'"),
        (&["trace", "cut", &trace, "-", "--until", "1"], "'-'"),
        (&["trace", "anonymize", &trace, "-"], "'-'"),
        (&["trace", "synth", SMALL, "-o", "-"], "'-'"),
        (&["completions", "bash"], "completions"),
        (&["man"], "man"),
    ];
    for (line, other) in lines {
        // Before and behind the subcommand.
        for line in [[&["--json"], line].concat(), [line, &["--json"]].concat()] {
            let said = fails(&line, 2);
            assert!(said.contains("'--json'") && said.contains(other), "{line:?}: {said}");
        }
    }
    let rows = folder.path().join("rows.csv").display().to_string();
    let report = json(&["compare", SMALL, "--scheme", "none", "--no-bounds", "--json", "--csv", &rows]);
    assert_eq!(report["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(std::fs::read_to_string(&rows).expect("there").lines().count(), 2);
}

#[test]
fn a_file_of_specs_has_no_hardware_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = folder.path().join("s.toml").display().to_string();
    output(&["--quiet", "sim", SMALL, "--save-spec", &spec]);
    for beside in [["--device", "wd-7200"], ["--cache", "64M"], ["--seed", "1"], ["--mode", "open"]] {
        for command in ["compare", "sim"] {
            let said = fails(&[&[command, "--spec", &spec], &beside[..]].concat(), 2);
            assert!(said.contains("--spec") && said.contains(beside[0]), "{said}");
        }
    }
    let said = fails(&["sim", "--spec", &spec, "--scheme", "asp"], 2);
    assert!(said.contains("--spec") && said.contains("--scheme"), "{said}");
    output(&["--quiet", "sim", "--spec", &spec]);
}

#[test]
fn what_changes_nothing_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, out) = (trace(&folder), folder.path().join("out.csv").display().to_string());
    let said = fails(&["trace", "cut", &trace, &out, "--until", "2", "--seed", "7"], 2);
    assert!(said.contains("--sample"), "{said}");
    for option in ["--limit", "--format"] {
        let said = fails(&["advise", "--undo", option, "1"], 2);
        assert!(said.contains(option), "{said}");
    }
    let explain = ["explain", "streams", "--device", "wd-7200"];
    for beside in [["--cache", "128M,256M"], ["--mode", "open"], ["--scheduler", "none"], ["--seed", "2"]] {
        let said = fails(&[&explain[..], &beside].concat(), 2);
        assert!(said.contains(beside[0]), "{said}");
    }
    let of = |cache: &str| output(&[&explain[..], &["--cache", cache]].concat());
    assert_ne!(of("128M"), of("1G"));
}

#[test]
fn an_imported_preset_is_written_and_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(from) = super::shared("disk/atlas10k.parv") else { return super::skipped("no parameter file") };
    let from = from.to_str().expect("UTF-8");
    let to = folder.path().join("p.toml").display().to_string();
    let told = json(&["--quiet", "device", "import", from, "-o", &to, "--json"]);
    assert_eq!(told, json(&["device", "show", &to, "--json"]));
}

#[test]
fn a_name_that_is_no_text_is_told_by_its_bytes_or_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = OsStr::from_bytes(b"a\xff.csv");
    std::fs::copy(trace(&folder), folder.path().join(name)).expect("copied");
    let run = |words: &[&str], last: &[&OsStr]| {
        let mut command = forerun(words);
        let done = command.current_dir(folder.path()).args(last).output().expect("it runs");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    for words in [&["compare"][..], &["sim"], &["compare", SMALL, "--device"], &["array", "create"]] {
        let (code, said) = run(words, &[name]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("a\\xff.csv") && said.contains("ln -s"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for words in
        [&["trace", "info"][..], &["trace", "patterns"], &["mrc"], &["manifest", "snapshot", "-o", "m"]]
    {
        let (code, said) = run(words, &[name]);
        assert_eq!(code, Some(0), "{words:?}: {said}");
    }
    let to = OsStr::from_bytes(b"b\xff.parquet");
    let (code, said) = run(&["trace", "convert"], &[name, to]);
    assert_eq!(code, Some(0), "{said}");
    assert!(folder.path().join(to).exists());
}

#[test]
fn a_number_that_is_none_is_told_so() {
    for option in ["--seed", "--repeat", "--failed", "--cluster"] {
        for value in ["", "-1", "1e30", "NaN", "x"] {
            let word = format!("{option}={value}");
            let said = fails(&["sim", SMALL, &word], 2);
            assert!(said.contains(option) && !said.contains("digit") && !said.contains("parse"), "{said}");
        }
    }
}

#[test]
fn help_that_cannot_be_printed_says_why() {
    for words in [&["--help"][..], &["compare", "--help"], &["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("there");
        let binary = assert_cmd::cargo::cargo_bin("forerun");
        let done = std::process::Command::new(binary).args(words).stdout(full).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1));
        assert!(said.starts_with("forerun: output: "), "{said}");
    }
}

#[test]
fn absurd_numbers_of_threads_are_refused_and_a_pipe_is_not_waited_for() {
    for words in [&["compare", SMALL, "--scheme", "none"][..], &["sweep", "s.toml"], &["reproduce", "asp"]] {
        for number in ["1025", "4000000000", "18446744073709551615", "-1", "x"] {
            let said = fails(&[words, &[&format!("--threads={number}")]].concat(), 2);
            assert!(said.contains("--threads") && said.contains("from 1 to 1024"), "{said}");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let done =
        forerun(&["load", &pipe]).timeout(std::time::Duration::from_secs(20)).output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("not a regular file"), "{said}");
}

#[test]
fn a_snapshot_is_not_written_over_what_it_looks_at_but_over_the_one_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::write(&data, vec![7; 50_000]).expect("written");
    for words in [&["data"][..], &["."], &["../.", "data"]] {
        let words = [&["manifest", "snapshot", "-o", "data"], words].concat();
        let done = forerun(&words).current_dir(folder.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("would be written over") && said.contains("name another file"), "{said}");
        assert_eq!(std::fs::read(&data).expect("there"), vec![7; 50_000]);
    }
    for _ in 0..2 {
        let words = ["manifest", "snapshot", "-o", "m", ".", "--json"];
        let done = forerun(&words).current_dir(folder.path()).output().expect("it runs");
        let told: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let looked = told["files"].as_u64().unwrap_or(0);
        assert!(done.status.success() && looked <= 1, "itself is no part of it: {told}");
    }
}

#[test]
fn a_dash_is_no_file_where_standard_output_is_not_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    for words in [
        &["manifest", "snapshot", ".", "-o", "-"][..],
        &["manifest", "merge", "a", "b", "-o", "-"],
        &["device", "import", "x.parv", "-o", "-"],
        &["device", "measure", "--model", "gp3", "-o", "-"],
        &["sim", SMALL, "--scheme", "recall", "--learn", "-"],
    ] {
        let done = forerun(words).current_dir(folder.path()).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("name a file; ./- is one"), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
}

#[test]
fn what_does_not_fit_a_run_is_told_with_the_name_of_its_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = |name: &str, row: &str| {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, format!("t,dev,off,bytes,op,pid,file\n{row}")).expect("written");
        path
    };
    let far = written("far.csv", "0,sda,18446744073709551000,4096,R,a,\n");
    for line in
        [&["sim", &far, "--device", "nvme"][..], &["compare", &far], &["mrc", &far], &["trace", "info", &far]]
    {
        let said = fails(line, 1);
        assert!(said.contains("far.csv"), "{line:?}: {said}");
    }
    let long = written("long.csv", "0,sda,0,4398046511104,R,a,\n");
    let said = fails(&["sim", &long, "--device", "nvme", "--fit", "modulo"], 2);
    assert!(said.contains("long.csv: record 1: one request of 4") && !said.contains("--fit"), "{said}");
    let said = fails(&["sim", &long, "--device", "nvme"], 2);
    assert!(said.contains("long.csv: the trace spans 4") && said.contains("--fit modulo"), "{said}");
    let one = trace(&folder);
    let said = fails(&["sim", &one, "--map", "only:zz"], 2);
    assert!(
        said.contains("map: ") && said.contains("t.csv: the trace has no device `zz`; it has: sda"),
        "{said}"
    );
    let said = fails(&["sim", SMALL, "--map", "only:zz"], 2);
    assert!(said.contains("a workload has no devices: leave --map out"), "{said}");
    for command in ["sim", "compare"] {
        assert!(fails(&[command, "-"], 2).contains("name a trace file"));
    }
    let said = fails(&["sim", "random:size=64MiB,requests=0"], 2);
    assert!(said.contains("`requests=0`: expected"), "{said}");
}

#[test]
fn who_passes_over_bad_records_is_not_told_to_do_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("bad.csv").display().to_string();
    let heading = "t,dev,off,bytes,op,pid,file\n";
    std::fs::write(&path, format!("{heading}0,sda,x,4096,R,a,\n")).expect("written");
    assert!(fails(&["trace", "info", &path], 1).contains("--skip-bad"));
    let said = fails(&["trace", "info", &path, "--skip-bad"], 1);
    assert!(said.contains("no record of the file is whole") && !said.contains("--skip-bad"), "{said}");
    std::fs::write(&path, format!("{heading}0,sda,x,4096,R,a,\n0,sda,0,4096,R,a,\n")).expect("written");
    let done = forerun(&["trace", "info", &path, "--skip-bad"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("it was passed over"), "{said}");
}

#[test]
fn what_is_named_twice_is_counted_once_and_a_number_below_zero_is_told_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = trace(&folder);
    let report = json(&["mrc", &one, "--retention", "lru,arc,lru", "--cache", "2,1,2", "--json"]);
    let runs = report["runs"].as_array().expect("runs").iter();
    let rows: Vec<_> =
        runs.map(|run| (run["retention"].to_string(), run["cache_blocks"].to_string())).collect();
    let expected = [("lru", "2"), ("lru", "1"), ("arc", "2"), ("arc", "1")];
    assert_eq!(rows, expected.map(|(name, blocks)| (format!("\"{name}\""), blocks.to_owned())));
    assert!(output(&["mrc", "--help"]).contains("[alias: --cache]"));
    let said = fails(&["sim", SMALL, "--seed", "-1"], 2);
    assert!(said.contains("as in --NAME=-1") && !said.contains("'-- -1'"), "{said}");
}
