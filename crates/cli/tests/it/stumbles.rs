//! What new users got wrong, and what they are told: one line that names the place and the way out.

use super::{ARRAY, SMALL, fails, forerun, output};

#[test]
fn whoever_has_seen_enough_of_a_trace_ends_it_quietly() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    output(&["trace", "synth", "random:size=1GiB,requests=60000", "-o", path.to_str().expect("UTF-8")]);
    let binary = assert_cmd::cargo::cargo_bin("forerun").display().to_string();
    for (what, to) in [("convert", "csv"), ("anonymize", "csv"), ("convert", "parquet"), ("convert", "lirs")]
    {
        let line = format!(
            "{{ '{binary}' trace {what} - - --to {to} < {}; echo $? >&2; }} | head -c 4",
            path.display()
        );
        let done = std::process::Command::new("sh").args(["-c", &line]).output().expect("sh");
        assert_eq!(String::from_utf8_lossy(&done.stderr), "0\n", "{what} {to}");
    }
}

#[test]
fn a_line_of_a_trace_that_was_cut_is_told_with_its_number_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv").display().to_string();
    let heading = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    std::fs::write(&path, format!("{heading}\n1,h,0,Read,0,4096,5\n2,h,0,Read,4096,40\n")).expect("written");
    for command in ["info", "patterns"] {
        let said = fails(&["trace", command, &path], 1);
        assert!(said.contains("line 3 (msr): expected 7 fields") && said.contains("--skip-bad"), "{said}");
    }
    output(&["trace", "info", &path, "--skip-bad"]);
}

#[test]
fn numbers_that_nothing_says_the_unit_of_are_told_for_what_they_were_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.txt").display().to_string();
    std::fs::write(&path, "0.0 0 1048576 100 1\n0.5 0 2097152 200 1\n").expect("written");
    for (line, key) in [
        (vec!["sim", &path, "--device", "nvme", "--json"], "input_assumed"),
        (vec!["mrc", &path, "--json"], "assumed"),
        (vec!["trace", "info", &path, "--json"], "assumed"),
        (vec!["trace", "patterns", &path], ""),
    ] {
        let done = forerun(&line).output().expect("it runs");
        let [said, out] = [&done.stderr, &done.stdout].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(said.contains("are taken for sectors of 512 bytes, as disksim has them"), "{line:?}: {said}");
        assert!(said.contains("--columns 'sep=space"), "{line:?}: {said}");
        assert!(key.is_empty() || out.contains(&format!("\"{key}\": \"offsets")), "{line:?}: {out}");
    }
    let done = forerun(&["trace", "info", &path, "--format", "disksim"]).output().expect("it runs");
    assert!(done.stderr.is_empty(), "who names the format is told nothing");
}

#[test]
fn a_pipe_that_nobody_writes_is_refused_or_told_and_nothing_is_no_device_and_no_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for command in ["sim", "compare"] {
        assert!(fails(&[command, &pipe], 1).contains("it is a pipe, which can be read only once"));
    }
    for line in [["trace", "info"].as_slice(), &["mrc"]] {
        use std::io::{BufRead as _, BufReader};
        use std::process::{Command, Stdio};
        let binary = assert_cmd::cargo::cargo_bin("forerun");
        let mut waiting =
            Command::new(binary).args(line).arg(&pipe).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut said = String::new();
        let stderr = waiting.stderr.take().expect("it is piped");
        BufReader::new(stderr).read_line(&mut said).expect("it says something");
        waiting.kill().expect("it waits");
        waiting.wait().expect("it ends");
        assert!(said.contains("is a pipe: waiting for somebody to write into it"), "{said}");
    }
    fails(&["mrc", &pipe, "--limit", "0"], 2);
    for line in [["mrc", &pipe], ["sim", SMALL]] {
        let said = fails(&[line[0], line[1], "--map", "only:"], 2);
        assert!(said.contains("`only:` names no device"), "{said}");
    }
}

#[test]
fn a_page_and_a_spec_are_files_and_no_standard_output() {
    for option in ["--html", "--save-spec"] {
        let said = fails(&["sim", SMALL, "--scheme", "asp", "--array", ARRAY, option, "-"], 2);
        assert!(
            said.starts_with(&format!("forerun: {option} -: ")) && said.contains("name a file"),
            "{said}"
        );
    }
    assert!(!std::path::Path::new("-").exists());
}

#[test]
fn a_manifest_of_an_export_is_not_replayed_as_one_of_no_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let learned = folder.path().join("learned.manifest").display().to_string();
    output(&["sim", SMALL, "--array", ARRAY, "--scheme", "recall", "--learn", &learned]);
    for what in ["replay", "verify"] {
        let said = fails(&["manifest", what, &learned], 2);
        assert!(said.contains("of an export") && said.contains("forerun serve --manifest"), "{said}");
    }
}

#[test]
fn small_troubles_name_the_command_and_the_path_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file").display().to_string();
    std::fs::write(&file, "text").expect("written");
    let said = fails(&["manifest", "snapshot", "-o", &format!("{file}.manifest"), "/nonexistent"], 1);
    assert!(said.starts_with("forerun: snapshot: /nonexistent: "), "{said}");
    let said = fails(&["top", &file], 1);
    assert_eq!(said.matches(&file).count(), 1, "{said}");
    let study = folder.path().join("s.toml");
    let text = format!("[fixed]\ndevice = 'wd-7200'\n[matrix]\nscheme = ['none']\ninput = ['{SMALL}']\n");
    std::fs::write(&study, text).expect("written");
    let said = fails(&["sweep", study.to_str().expect("UTF-8"), "-o", &file], 2);
    assert!(said.starts_with(&format!("forerun: {file}: it is a file")), "{said}");
    let said = fails(&["load", &file, "/nonexistent", &file], 1);
    assert!(
        said.ends_with(
            "No such file or directory (os error 2); nothing was loaded (give files that are there)\n"
        ),
        "{said}"
    );
    let said = fails(&["load", "/sys/kernel/mm/transparent_hugepage/enabled"], 1);
    assert!(said.contains("nothing was loaded"), "{said}");
    let pipe = folder.path().join("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|made| made.success()));
    for path in [&pipe, "/dev/null", "/proc/self"] {
        let said = fails(&["manifest", "snapshot", "-o", &format!("{file}.manifest"), path], 1);
        assert!(said.contains(path) && said.contains("give files and folders of a disk"), "{said}");
    }
    let done = forerun(&["load", &file, "--", "/nonexistent"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.starts_with("forerun: load: "), "{said}");
}

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
    let both = output(&["mrc", trace, "--cache-blocks", "256,2M,1M", "--json"]);
    let sizes = [256, 512].map(|blocks| both.matches(&format!("\"cache_blocks\": {blocks}")).count());
    assert_eq!(sizes, [1, 1], "1 MiB is 256 blocks, which is said already: {both}");
    assert!(fails(&["mrc", trace, "--cache-blocks", "10 parsecs"], 2).contains("10M"));
    assert!(fails(&["mrc", trace, "--cache", "0%"], 2).contains("such as 10%"));
    // Shares of the footprint, and without a word the whole curve, drawn.
    let half = output(&["mrc", trace, "--cache", "50%", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&half).expect("JSON");
    let info: serde_json::Value =
        serde_json::from_str(&output(&["trace", "info", trace, "--json"])).expect("JSON");
    let footprint =
        info["info"]["footprint_blocks"].as_u64().or(info["footprint_blocks"].as_u64()).expect("known");
    assert_eq!(
        report["runs"][0]["cache_blocks"].as_u64(),
        Some((footprint as f64 / 2.0).round() as u64),
        "{info}"
    );
    assert_eq!(report["footprint_blocks"], footprint);
    let drawn = output(&["mrc", trace, "--retention", "lru,arc"]);
    assert!(drawn.contains("100% │") && drawn.contains("● lru") && drawn.contains("+ arc"), "{drawn}");
    assert!(drawn.lines().all(|line| line.chars().count() <= 80), "{drawn}");
}

#[test]
fn a_recording_of_nothing_names_both_ways_and_a_missing_device_is_no_fault_of_the_kernel() {
    let said = fails(&["trace", "record", "-o", "x.parquet"], 2);
    assert!(said.contains("--device DEV") && said.contains("-- CMD"), "{said}");
    let said = fails(&["trace", "record", "-o", "x.parquet", "--device", "/dev/no-such-device-here"], 1);
    assert!(said.contains("/dev/no-such-device-here") && !said.contains("tracefs"), "{said}");
}

#[test]
fn a_file_that_is_no_trace_has_no_records_to_pass_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("text");
    std::fs::write(&file, "garbage line\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let said = fails(&["trace", "info", file], 1);
    assert!(!said.contains("--skip-bad"), "{said}");
}

#[test]
fn more_failed_members_than_an_array_can_lose_are_refused_and_not_simulated() {
    for (array, failed) in
        [("raid0:2x64KiB", "0"), ("raid5:3x64KiB", "0,1"), ("single:128KiB", "0"), ("raid10:4x64KiB", "0,1")]
    {
        for scheme in ["none", "auto"] {
            let words = ["compare", SMALL, "--scheme", scheme, "--array", array, "--failed", failed];
            let said = fails(&words, 2);
            assert!(said.contains("failed: ") && said.contains("name fewer members"), "{said}");
        }
    }
    output(&["compare", SMALL, "--scheme", "none", "--array", "raid10:4x64KiB", "--failed", "0,2"]);
}

#[test]
fn a_cache_that_is_too_small_is_refused_before_anything_is_computed_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = folder.path().join("s.toml");
    let spec = spec.to_str().expect("UTF-8");
    for bytes in ["1", "4095", "4096"] {
        let text = format!("[[runs]]\ninput = '{SMALL}'\ncache_bytes = {bytes}\n");
        std::fs::write(spec, text).expect("written");
        let said = fails(&["compare", "--spec", spec], 2);
        assert!(said.contains("a cache holds at least 2MiB"), "{said}");
    }
}

#[test]
fn what_is_there_and_no_file_is_called_what_it_is_and_a_csv_of_ones_own_is_to_be_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().to_str().expect("UTF-8");
    for (path, what) in [(name, "a folder"), ("/dev/null", "a device")] {
        let said = fails(&["compare", path, "--scheme", "none"], 1);
        assert!(said.contains(&format!("it is {what}")) && !said.contains("no such file"), "{said}");
    }
    let file = folder.path().join("own.csv");
    std::fs::write(&file, "when;where\n1;2\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    for command in ["compare", "sim"] {
        let said = fails(&[command, file, "--scheme", "none"], 1);
        assert!(
            said.contains("forerun trace convert FILE OUT.parquet") && said.contains("--columns"),
            "{said}"
        );
    }
}

#[test]
fn a_request_of_more_than_can_be_is_refused_by_mrc() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.csv");
    for (offset, bytes, told) in [
        ("4096", "18446744073709551615", "ends below 2^64"),
        ("0", "18446744073709551615", "in one request is more than the 16GiB"),
        ("0", "498216206336", "record 1: 464GiB"),
    ] {
        std::fs::write(&file, format!("t,dev,off,bytes,op,pid,file\n1,a,{offset},{bytes},R,,\n"))
            .expect("written");
        for map in ["concat", "one-array-each"] {
            let said = fails(&["mrc", file.to_str().expect("UTF-8"), "--map", map], 1);
            assert!(said.contains(told), "{said}");
        }
    }
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

/// Three requests, as CSV.
const LINES: &str =
    "t,dev,off,bytes,op,pid,file\n0,sda,0,4096,R,a,\n1,sda,4096,4096,R,b,\n2,sda,1048576,4096,R,a,\n";

#[test]
fn a_dash_is_standard_input_and_standard_output() {
    let done = forerun(&["--quiet", "trace", "convert", "-", "-"]).write_stdin(LINES).assert().success();
    let told = String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8");
    assert_eq!(told.lines().count(), 4, "{told}");
    assert!(told.contains("1048576") && !std::path::Path::new("-").exists(), "{told}");
    let done = forerun(&["trace", "info", "-", "--json"]).write_stdin(told).assert().success();
    let info: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).expect("JSON");
    assert_eq!(info["requests"], 3);
}

#[test]
fn a_part_of_a_run_that_nothing_is_called_is_answered_with_the_nearest() {
    let said = |option: &str, word: &str| fails(&["sim", SMALL, "--scheme", "asp", option, word], 2);
    let scheme = fails(&["sim", SMALL, "--scheme", "apsd"], 2);
    assert!(scheme.contains("did you mean `asp`"), "{scheme}");
    let scheduler = said("--scheduler", "anticipatry");
    assert!(scheduler.contains("did you mean `anticipatory`"), "{scheduler}");
    let cpu = said("--cpu", "xeon-2006");
    assert!(cpu.contains("did you mean `xeon-2005`"), "{cpu}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    std::fs::write(&file, "t,dev,off,bytes,op,pid,file\n0,,0,4096,R,a,\n").expect("written");
    let part = fails(&["sim", file.to_str().expect("UTF-8"), "--scheme", "asp", "--map", "only:sda"], 2);
    assert!(part.contains("it names none: leave --map out"), "{part}");
    for (option, word, meant) in [
        ("--array", "riad5:5", "raid5"),
        ("--mode", "pacd", "paced"),
        ("--map", "contact", "concat"),
        ("--layout", "fragmentd(spread=2)", "fragmented"),
        ("--write", "thruogh", "through"),
    ] {
        let told = said(option, word);
        assert!(told.contains(&format!("did you mean `{meant}`?")), "{option} {word}: {told}");
    }
}

#[test]
fn a_part_of_a_trace_that_nothing_is_called_is_answered_with_the_nearest() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    let lines = "t,dev,off,bytes,op,pid,file\n0,nvme0n1,0,4096,R,sqlite3,\n1,nvme1n1,0,4096,R,postgres,\n";
    std::fs::write(&file, lines).expect("written");
    let file = file.to_str().expect("UTF-8");
    for words in [
        &["sim", file, "--scheme", "asp", "--map", "only:nvme0n"][..],
        &["mrc", file, "--cache", "1M", "--map", "only:nvme0n"],
    ] {
        let said = fails(words, 2);
        assert!(said.contains("did you mean `nvme0n1`?"), "{said}");
    }
    let said = fails(&["trace", "cut", file, "-", "--process", "sqlite"], 2);
    assert!(said.contains("no process is called \"sqlite\"; did you mean `sqlite3`?"), "{said}");
    let said = fails(&["trace", "convert", file, "-", "--to", "parqet"], 2);
    assert!(said.contains("did you mean `parquet`?"), "{said}");
}

#[test]
fn the_table_says_what_to_do_first_right_below_who_won() {
    let text = output(&["--quiet", "compare", SMALL, "--scheme", "asp"]);
    let at = |word: &str| {
        text.lines().position(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{word}: {text}"))
    };
    let verdict =
        text.lines().position(|line| line.contains("was fastest") || line.starts_with("No scheme beat"));
    assert_eq!(Some(at("To do first: ")), verdict.map(|line| line + 1), "{text}");
}

#[test]
fn what_takes_no_time_is_not_said_to_take_a_nanosecond() {
    let words =
        ["--quiet", "sim", "forward:size=1MiB,passes=3", "--scheme", "asp", "--cpu", "none", "--json"];
    let report: serde_json::Value = serde_json::from_str(&output(&words)).expect("JSON");
    assert_eq!(report["runs"][0]["latency_ns"]["p50"], 0, "memory without a processor's time");
}

#[test]
fn a_terminal_of_80_columns_gets_a_table_that_fits_and_is_told_what_is_left_out() {
    let told = |columns: &str| {
        let words = ["--quiet", "compare", SMALL, "--scheme", "asp", "--scheme", "asp+msp+seqp:128KiB"];
        let done = forerun(&words).env("COLUMNS", columns).assert().success();
        String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
    };
    let table = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("scheme"));
        lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    let narrow = told("80");
    assert!(table(&narrow).iter().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("No room for ") && narrow.contains("--csv"), "{narrow}");
    assert!(table(&narrow)[0].contains("× none") && !table(&narrow)[0].contains("amplif."), "{narrow}");
    let wide = told("200");
    assert!(table(&wide)[0].contains("amplif.") && !wide.contains("No room"), "{wide}");
    let one = ["--quiet", "sim", SMALL, "--scheme", "asp"];
    let done = forerun(&one).env("COLUMNS", "60").assert().success();
    let one = String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8");
    assert!(table(&one).len() > 1 && table(&one).iter().all(|line| line.chars().count() <= 60), "{one}");
}

#[test]
fn more_requests_than_anybody_can_wait_for_are_refused() {
    let said = fails(&["sim", "random:requests=99999999999999", "--scheme", "none"], 2);
    assert!(said.contains("requests") && said.contains("1000000000"), "{said}");
}

#[test]
fn a_part_of_a_trace_is_cut_and_a_trace_to_be_shown_names_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.csv");
    std::fs::write(&file, LINES).expect("written");
    let file = file.to_str().expect("UTF-8");
    let part = output(&["--quiet", "trace", "cut", file, "-", "--process", "a", "--from", "1"]);
    assert_eq!(part.lines().count(), 2, "{part}");
    let said = fails(&["trace", "cut", file, "-", "--from", "100"], 2);
    assert!(said.contains("no request is in this part"), "{said}");
    fails(&["trace", "cut", file, "-"], 2);
    let key = folder.path().join("key");
    std::fs::write(&key, "a secret of sixteen").expect("written");
    let hidden = |words: &[&str]| {
        let all: Vec<&str> =
            ["--quiet", "trace", "anonymize", file, "-"].iter().chain(words).copied().collect();
        output(&all)
    };
    let keyed = ["--key-file", key.to_str().expect("UTF-8")];
    assert_eq!(hidden(&keyed), hidden(&keyed));
    assert_ne!(hidden(&[]), hidden(&[]));
    assert!(!hidden(&[]).contains("sda") && hidden(&[]).lines().count() == 4);
}

#[test]
fn an_array_of_more_disks_than_can_be_simulated_is_refused_with_the_number() {
    let line = ["--array", "raid0:65x64KiB", "--device", "nvme"];
    for command in [&["sim", SMALL][..], &["compare", SMALL], &["explain", "asp"]] {
        let said = fails(&[command, &line[..]].concat(), 2);
        assert!(said.contains("raid0 takes 2 to 64 disks, not 65: use fewer disks"), "{said}");
    }
    output(&["--quiet", "sim", SMALL, "--array", "raid0:64x64KiB", "--device", "nvme"]);
}

#[test]
fn the_keys_of_columns_stand_in_the_help_and_the_guide_and_a_wrong_cut_names_its_own() {
    let guide = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide.md"))
        .expect("the guide");
    let help = output(&["trace", "info", "--help"]);
    for key in forerun_trace::columns::KEYS {
        assert!(help.contains(&format!("{key}=")) && guide.contains(&format!("`{key}=")), "{key}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.txt").display().to_string();
    std::fs::write(&path, "when;where;long\n0;0;4096\n1;4096;4096\n").expect("written");
    let said = |columns: &str| fails(&["trace", "info", &path, "--columns", columns], 1);
    assert!(said("offset=1,bytes=2").contains("add sep=semicolon,header=1 to the column mapping"));
    assert!(said("offset=1,bytes=2,header=1").contains("add sep=semicolon to the column mapping"));
    assert!(said("offset=1,bytes=2,sep=semicolon").contains("add header=1 to the column mapping"));
    output(&["trace", "info", &path, "--columns", "offset=where,bytes=long,sep=semicolon"]);
}

#[test]
fn a_workload_in_a_file_stands_wherever_one_in_a_line_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.toml").display().to_string();
    std::fs::write(&path, "[workload]\nshape = 'random'\nsize = '64MiB'\nrequests = 10\n").expect("written");
    let line = "random:size=64MiB,requests=10";
    let times = |input: &str, command: &[&str]| {
        let words = [command, &[input, "--device", "nvme", "--json"]].concat();
        let runs = super::json(&words)["runs"].as_array().expect("runs").clone();
        runs.iter().map(|run| (run["input"].clone(), run["elapsed_ns"].clone())).collect::<Vec<_>>()
    };
    for command in [&["sim"][..], &["compare", "--scheme", "linux-6"]] {
        assert_eq!(times(&path, command), times(line, command));
    }
    let spec = folder.path().join("again.toml").display().to_string();
    output(&["--quiet", "sim", &path, "--device", "nvme", "--save-spec", &spec]);
    output(&["--quiet", "sim", "--spec", &spec]);
    std::fs::write(&path, "[workload]\nshape = 'random'\nsise = '64MiB'\n").expect("written");
    let said = fails(&["sim", &path], 2);
    assert!(said.contains(&path) && said.contains("no key `sise`"), "{said}");
}

#[test]
fn what_would_be_passed_over_without_a_word_is_refused() {
    let said =
        fails(&["sim", "random:size=1MiB,requests=9", "--device", "gp3", "--drive-readahead", "on"], 2);
    assert!(said.contains("drive-readahead: gp3 is no mechanical drive"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv").display().to_string();
    std::fs::write(&path, "off,bytes\n0,8192\n").expect("written");
    for columns in
        ["offset=off,size=512,bytes=bytes", "offset=off,bytes=bytes,size=512", "offset=off,offset=0,size=9"]
    {
        let said = fails(&["trace", "info", &path, "--columns", columns], 2);
        assert!(said.contains("each key once, and bytes or size"), "{columns}: {said}");
    }
    let said =
        fails(&["trace", "convert", &path, "-", "--to", "disksim", "--columns", "offset=off,bytes=bytes"], 2);
    assert!(said.contains("is read but not written"), "{said}");
    let said = fails(&["sim", "random:size=1MiB,requests=9", "--bus", "1"], 2);
    assert!(said.contains("1 bytes a second are not one block of 4 KiB"), "{said}");
    let said = fails(&["explain", "streams(R=0)"], 2);
    assert!(said.starts_with("forerun: SCHEME: "), "{said}");
}

#[test]
fn a_request_of_more_than_can_be_is_no_end_of_advise() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv").display().to_string();
    for bytes in [u64::MAX, u64::MAX / 2 - 4_095] {
        let line = format!("t,dev,off,bytes,op,pid,file\n0,sda,0,{bytes},R,1,\n");
        std::fs::write(&path, line).expect("written");
        let done = forerun(&["advise", &path, "--device", "gp3"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(matches!(done.status.code(), Some(1 | 2)) && said.contains("record 1: "), "{said}");
    }
}

#[test]
fn a_pipe_that_nobody_reads_is_waited_for_with_a_word_and_the_first_signal_ends_that() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (pipe, html) = (at("t.csv"), at("page"));
    for path in [&pipe, &html] {
        assert!(std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    }
    let reads = "random:size=1MiB,requests=9";
    for words in [
        &["trace", "synth", reads, "-o", &pipe][..],
        &["sim", reads, "--device", "nvme", "--html", &html],
        &["try", "--keep", &pipe, "--", "true"],
        &["trace", "record", "--files", "-o", &pipe, "--", "true"],
    ] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_forerun"))
            .args(words)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = std::io::BufReader::new(child.stderr.take().expect("piped"));
        let waits = |line: &String| line.contains("is a pipe: waiting for somebody to read it");
        assert!(std::io::BufRead::lines(said).map_while(Result::ok).any(|line| waits(&line)), "{words:?}");
        let sent = std::process::Command::new("kill").arg(child.id().to_string()).status();
        assert!(sent.expect("kill").success());
        assert_eq!(child.wait().expect("ours").code(), None, "{words:?}: ended by the signal");
    }
}

#[test]
fn what_is_no_member_no_text_no_folder_or_no_trace_is_refused_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo").success());
    assert!(fails(&["array", "status", &at("pipe")], 1).contains("neither a file nor a block device"));
    std::fs::write(at("bytes"), [0xff; 64]).expect("written");
    assert!(fails(&["compare", "--spec", &at("bytes")], 2).contains("it is not text"));
    assert!(fails(&["man", &at("bytes")], 2).contains("name a folder"));
    let said = fails(&["mrc", "forward:size=1MiB"], 1);
    assert!(said.contains("that is a workload") && said.contains("forerun trace synth"), "{said}");
    std::fs::write(at("head.csv"), "t,dev,off,bytes,op,pid,file\n").expect("written");
    assert!(fails(&["mrc", &at("head.csv")], 1).contains("no request"));
}

#[test]
fn a_condition_may_name_what_the_report_has_and_what_it_lacks_is_told_with_the_remedy() {
    let runs = ["compare", "forward:size=1MiB", "--device", "gp3", "--scheme", "asp", "--fail-if"];
    output(&[&runs[..], &["asp.share_of_clairvoyant < 0"]].concat());
    fails(&[&runs[..], &["asp.share_of_clairvoyant <= 1"]].concat(), 3);
    let said = fails(&[&runs[..], &["speedup(asp) < 2", "--no-bounds"]].concat(), 2);
    assert!(said.contains("with --scheme none"), "{said}");
}

#[test]
fn foresight_alone_has_a_cache() {
    let report = output(&["--json", "sim", "forward:size=1MiB", "--device", "gp3", "--scheme", "oracle"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("one object");
    assert_eq!(report["runs"][0]["cache_bytes"], 500 << 20);
}

#[test]
fn a_snapshot_that_leaves_all_files_out_is_an_error_and_writes_nothing() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return crate::skipped("needs a file system in memory");
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a"), "a").expect("room");
    let said = fails(&["manifest", "snapshot", "-o", &path("now.manifest"), &path("a")], 1);
    assert!(said.contains("nothing was written") && said.contains("files of a disk"), "{said}");
    assert!(!folder.path().join("now.manifest").exists());
}
