//! `sim`, `compare` and what they leave: JSON, CSV, HTML, spec files, thresholds.

use super::{ARRAY, SMALL, fails, json, output, shared};
use serde_json::Value;

const FIELDS: &[&str] = &[
    "scheme",
    "input",
    "array",
    "cache_bytes",
    "elapsed_ns",
    "bytes_requested",
    "bytes_from_devices",
    "throughput_bytes_per_s",
    "blocks_read",
    "cache_hits",
    "prefetch_hits",
    "late_hits",
    "misses",
    "prefetched_blocks",
    "prefetched_used",
    "prefetched_wasted",
    "hit_ratio",
    "precision",
    "coverage",
    "cost",
    "amplification",
    "latency_ns",
    "devices",
    "spec",
    "seed",
    "layers",
];

#[test]
fn a_wrong_field_or_workload_is_refused_before_anything_runs() {
    // Larger than the disk: a run would say that.
    let huge = "forward:size=1TiB";
    let said = fails(
        &["compare", huge, "--device", "wd-7200", "--scheme", "asp", "--fail-if", "asp.nofield < 1"],
        2,
    );
    assert!(said.contains("--fail-if") && said.contains("no field `nofield`"), "{said}");
    let all = "asp.latency_ns.p99 > 50ms && asp.layers.array.misses < 0 || asp.time.stall_ns == 1 || \
               speedup(asp) < 0 && miss_coverage(asp) < 0 && asp.devices.0.seeks < 0";
    output(&[
        "compare",
        SMALL,
        "--scheme",
        "asp",
        "--cache",
        "8MiB",
        "--fail-if",
        "asp.latency_ns.p99 > 50s",
    ]);
    let said = fails(&["compare", huge, "--device", "wd-7200", "--scheme", "asp", "--fail-if", all], 2);
    assert!(said.contains("1TiB"), "the condition is fine, the run is not: {said}");
    let said = fails(&["compare", "forwrd:size=1MiB", "--scheme", "asp"], 2);
    assert!(said.contains("did you mean `forward`"), "{said}");
    let said = fails(&["compare", "nowhere.csv", "--scheme", "asp"], 1);
    assert!(said.contains("no such file"), "{said}");
}

#[test]
fn a_study_without_its_traces_says_where_it_looked() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("a name in UTF-8");
    let said = fails(&["reproduce", "rpp", "--figure", "table1", "--own-traces", place], 1);
    assert!(said.contains(place) && said.contains("--own-traces"), "{said}");
}

#[test]
fn what_writes_a_trace_says_so_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a name in UTF-8").to_owned();
    let made = json(&["trace", "synth", "forward:size=64KiB,block=4KiB", "-o", &path("a.csv"), "--json"]);
    assert_eq!((made["records"].as_u64(), made["format"].as_str()), (Some(16), Some("csv")));
    let made = json(&["trace", "convert", &path("a.csv"), &path("a.lirs"), "--json"]);
    assert_eq!((made["format"].as_str(), made["file"].as_str()), (Some("lirs"), Some(&*path("a.lirs"))));
    assert!(made["losses"].as_array().is_some_and(|losses| !losses.is_empty()), "{made}");
}

fn compare(more: &[&str]) -> Vec<String> {
    ["compare", SMALL, "--array", ARRAY, "--cache", "4MiB", "--scheme", "asp", "--scheme", "strip"]
        .iter()
        .chain(more)
        .map(|&word| word.to_owned())
        .collect()
}

fn words(owned: &[String]) -> Vec<&str> {
    owned.iter().map(String::as_str).collect()
}

fn schemes(report: &Value) -> Vec<&str> {
    report["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["scheme"].as_str().expect("a name"))
        .collect()
}

#[test]
fn an_input_that_is_named_twice_is_refused() {
    let said = fails(&["compare", SMALL, SMALL, "--scheme", "asp"], 2);
    assert!(said.contains("is named twice") && said.contains("name each input once"), "{said}");
}

#[test]
fn json_has_every_promised_field_and_the_asked_order() {
    let report = json(&words(&compare(&["--json"])));
    assert_eq!(schemes(&report), ["none", "bound", "oracle", "auto", "asp", "strip"]);
    for run in report["runs"].as_array().expect("runs") {
        for field in FIELDS {
            assert!(run.get(field).is_some_and(|value| !value.is_null()), "{}: {field}", run["scheme"]);
        }
        for field in ["mean", "p50", "p95", "p99", "max"] {
            assert!(run["latency_ns"][field].is_number(), "{field}");
        }
        for field in ["commands", "seeks", "busy_ns", "bytes"] {
            assert!(
                run["devices"].as_array().expect("devices").iter().all(|device| device[field].is_number())
            );
        }
        let count = |name: &str| run[name].as_u64().expect("a count");
        assert_eq!(
            count("cache_hits") + count("prefetch_hits") + count("late_hits") + count("misses"),
            count("blocks_read")
        );
        assert_eq!(count("seed"), 1);
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_byte() {
    let one = output(&words(&compare(&["--json", "--threads", "1"])));
    assert_eq!(one, output(&words(&compare(&["--json", "--threads", "4"]))));
}

#[test]
fn a_saved_spec_runs_again_to_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let spec = dir.path().join("again.toml").display().to_string();
    let first = output(&words(&compare(&["--json", "--save-spec", &spec])));
    assert_eq!(first, output(&["compare", "--spec", &spec, "--json"]));
}

#[test]
fn one_run_is_the_same_alone_as_in_a_comparison() {
    let many = json(&words(&compare(&["--json", "--no-bounds"])));
    let one = json(&["sim", SMALL, "--array", ARRAY, "--cache", "4MiB", "--scheme", "asp", "--json"]);
    assert_eq!(schemes(&many), ["asp", "strip"]);
    assert_eq!(many["runs"][0], one["runs"][0]);
}

/// A trace of two devices: eight blocks of `a`, one of `b` read twice.
fn two_devices(dir: &tempfile::TempDir) -> String {
    let mut text = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..8 {
        text += &format!("{n}.0,a,{},4096,R,1,\n", n * 4096);
    }
    text += "8.0,b,65536,4096,R,1,\n9.0,b,65536,4096,R,1,\n";
    let path = dir.path().join("two.csv");
    std::fs::write(&path, text).expect("a temporary file");
    path.display().to_string()
}

#[test]
fn one_array_each_runs_every_device_as_an_input_of_its_own() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (trace, spec) = (two_devices(&dir), dir.path().join("again.toml").display().to_string());
    let each = ["--map", "one-array-each", "--array", ARRAY, "--cache", "4MiB", "--json"];
    let compare = ["compare", &trace, "--scheme", "asp", "--save-spec", &spec];
    let first = output(&[&compare[..], &each[..]].concat());
    let report: Value = serde_json::from_str(&first).expect("--json prints one JSON object");
    let runs = report["runs"].as_array().expect("runs");
    let named: Vec<(&str, &str, u64)> = runs
        .iter()
        .map(|run| {
            let text = |key: &str| run[key].as_str().expect("a text");
            (text("input"), text("scheme"), run["blocks_read"].as_u64().expect("a count"))
        })
        .collect();
    let (a, b) = ("two.csv, device a", "two.csv, device b");
    let all = |of, blocks| {
        [("none", blocks), ("bound", 0), ("oracle", blocks), ("auto", blocks), ("asp", blocks)]
            .map(|(scheme, blocks)| (of, scheme, blocks))
    };
    assert_eq!(named[..5], all(a, 8));
    assert_eq!(named[5..], all(b, 2));
    assert_eq!(first, output(&["compare", "--spec", &spec, "--json"]));
    let one = json(&[&["sim", &trace, "--scheme", "asp"], &each[..]].concat());
    assert_eq!(one["runs"].as_array().expect("runs").len(), 2);
    // A run alone has nothing beside it to be a share of.
    for (alone, beside) in [(0, 4), (1, 9)] {
        let mut beside = runs[beside].clone();
        beside.as_object_mut().and_then(|run| run.remove("share_of_clairvoyant")).expect("a share");
        assert_eq!(one["runs"][alone], beside);
    }
    let table = output(&["sim", &trace, "--map", "one-array-each", "--array", ARRAY]);
    assert!(table.contains(a) && table.contains(b), "{table}");
}

#[test]
fn one_cache_for_each_device_counts_as_one_for_all_where_nothing_is_evicted() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let trace = two_devices(&dir);
    let misses = |map: &str| -> Vec<u64> {
        let report = json(&["mrc", &trace, "--cache-blocks", "100", "--map", map, "--json"]);
        let runs = report["runs"].as_array().expect("runs").clone();
        runs.iter().map(|run| run["misses"].as_u64().expect("a count")).collect()
    };
    assert_eq!(misses("concat"), [9]);
    assert_eq!(misses("one-array-each"), [8, 1]);
    assert_eq!(misses("only:b"), [1]);
    assert!(fails(&["mrc", &trace, "--cache-blocks", "9", "--map", "only:c"], 2).contains("a, b"));
}

#[test]
fn csv_has_a_row_for_each_run() {
    let text = output(&words(&compare(&["--csv"])));
    assert_eq!(text.lines().count(), 7);
    assert!(text.lines().next().expect("a header").split(',').any(|name| name == "latency_ns.p99"));
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("runs.csv");
    let table = output(&words(&compare(&["--csv", &file.display().to_string()])));
    assert!(table.contains("throughput"), "the table is printed as well");
    assert_eq!(std::fs::read_to_string(file).expect("it was written"), text);
}

#[test]
fn the_page_is_one_file_that_asks_for_nothing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("report.html");
    output(&words(&compare(&["--html", &file.display().to_string()])));
    let page = std::fs::read_to_string(file).expect("it was written");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("asp") && page.contains("<svg"));
    for outside in ["http://", "https://", "src=", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_threshold_that_is_met_exits_with_3() {
    let line = fails(&words(&compare(&["--fail-if", "speedup(asp) > 0 && asp.misses >= 0"])), 3);
    assert!(line.contains("is true on"), "{line}");
    output(&words(&compare(&["--fail-if", "asp.hit_ratio > 100% || speedup(asp, strip) < 0"])));
}

#[test]
fn misuse_is_told_before_anything_runs() {
    assert!(fails(&words(&compare(&["--fail-if", "asp.hit_ratio <"])), 2).contains("--fail-if: column"));
    assert!(
        fails(&words(&compare(&["--fail-if", "msp.hit_ratio < 1"])), 2)
            .contains("none, bound, oracle, auto, asp")
    );
    for told in ["bound.latency_ns.p99", "bound.hit_ratio", "bound.layers.array.misses"] {
        let said = fails(&words(&compare(&["--fail-if", &format!("{told} < 1ms")])), 2);
        assert!(said.contains(told) && said.contains("elapsed_ns"), "{said}");
    }
    assert!(
        fails(&words(&compare(&["--fail-if", "miss_coverage(bound) > 0"])), 2).contains("no such number")
    );
    assert!(fails(&words(&compare(&["--fail-if", "1/0 > 1"])), 2).contains("division by 0"));
    output(&words(&compare(&[
        "--fail-if",
        "bound.elapsed_ns > asp.elapsed_ns || bound.devices.0.bytes < 0",
    ])));
    assert!(fails(&["compare", SMALL, "--scheme", "apsd"], 2).contains("apsd"));
    assert!(fails(&["compare", SMALL, "--scheme", "asp", "--cache", "12 parsecs"], 2).contains("--cache"));
    assert!(fails(&["compare", SMALL, "--scheme", "asp", "--array", "raid5:2x1"], 2).contains("array"));
    assert!(
        fails(&["compare", SMALL, "--scheme", "asp", "--device", "no-such-disk"], 2).contains("no-such-disk")
    );
    assert!(fails(&["compare", SMALL, "--scheme", "asp", "--mode", "closed:0"], 2).contains("mode"));
}

#[test]
fn an_unknown_field_in_a_threshold_lists_what_there_is() {
    assert!(fails(&words(&compare(&["--fail-if", "asp.hit_rato < 1"])), 2).contains("hit_ratio"));
}

#[test]
fn an_input_that_is_not_there_is_a_failure() {
    assert!(fails(&["sim", "no/such/file.csv"], 1).contains("no/such/file.csv"));
}

#[test]
fn what_watch_would_do_is_named_like_a_scheme() {
    let stride = "stride:size=64MiB,block=16KiB,stride=16,wrap=false";
    let words = [
        "compare",
        stride,
        "--device",
        "object-store",
        "--json",
        "--no-bounds",
        "--scheme",
        "linux-6",
        "--scheme",
        "watch",
    ];
    let report = json(&words);
    assert_eq!(schemes(&report), ["linux-6", "watch"]);
    let elapsed = |run: usize| report["runs"][run]["elapsed_ns"].as_u64().expect("a number");
    assert!(elapsed(0) > 5 * elapsed(1), "{} for {}", elapsed(0), elapsed(1));
    assert_eq!(output(&words), output(&[&words[..], &["--threads", "1"]].concat()), "the same on every run");
    let folder = tempfile::tempdir().expect("a folder");
    let spec = folder.path().join("watch.toml").to_str().expect("UTF-8").to_owned();
    assert_eq!(output(&[&words[..], &["--save-spec", &spec]].concat()), output(&words));
    assert_eq!(json(&["compare", "--spec", &spec, "--json"])["runs"], report["runs"], "the file runs again");
    let said = fails(&["sim", stride, "--scheme", "watch"], 2);
    assert!(said.contains("watch"), "it is no scheme of the registry: {said}");
}

#[test]
fn the_table_is_plain_where_no_terminal_is() {
    let text = output(&words(&compare(&[])));
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(output(&words(&compare(&["--color", "always"]))).contains('\u{1b}'));
    assert!(text.lines().any(|line| line.contains("× none")), "{text}");
}

#[test]
fn schemes_are_listed_with_parameters_and_sources() {
    let report = json(&["schemes", "--json"]);
    let rows = report["schemes"].as_array().expect("schemes");
    for name in ["none", "strip", "asp", "msp", "seqp", "oracle", "bound"] {
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} is listed"));
        assert!(row["source"].as_str().is_some_and(|source| !source.is_empty()), "{name}");
    }
    assert!(output(&["schemes"]).contains("asp"));
}

#[test]
fn the_issues_command_lines_work_where_the_traces_are() {
    let Some(trace) = shared("traces/block/pcmark_a.csv.gz") else { return };
    let trace = trace.display().to_string();
    let report = json(&[
        "compare",
        &trace,
        "--array",
        ARRAY,
        "--device",
        "cheetah-15k4",
        "--cache",
        "500MiB",
        "--scheme",
        "none",
        "--scheme",
        "seqp:128KiB",
        "--scheme",
        "strip",
        "--scheme",
        "asp",
        "--scheme",
        "msp",
        "--scheme",
        "asp+msp",
        "--mode",
        "closed:1",
        "--json",
    ]);
    assert_eq!(schemes(&report).len(), 9);
    let bound = report["runs"].as_array().expect("runs").iter().find(|run| run["scheme"] == "bound");
    let floor = bound.expect("it is added")["elapsed_ns"].as_u64().expect("a time");
    for run in report["runs"].as_array().expect("runs") {
        assert!(run["elapsed_ns"].as_u64().expect("a time") >= floor, "{}", run["scheme"]);
    }
}

#[test]
fn without_hardware_or_schemes_this_machine_is_taken_and_a_sensible_set_and_both_are_said() {
    let text = output(&["compare", SMALL, "--quiet"]);
    for word in [
        "scheduler ",
        "CPU vm-2026",
        "regions(linux-6)",
        "Assumed: ",
        "--device and --scheduler say otherwise",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let said = ["compare", SMALL, "--device", "gp3", "--scheduler", "none", "--scheme", "amp"];
    let text = output(&said);
    assert!(
        !text.contains("Assumed") && text.contains("of gp3") && text.contains("scheduler none"),
        "{text}"
    );
    // A disk with platters gets what a current kernel puts before it, flash gets none.
    let scheduler =
        |device| json(&["sim", SMALL, "--device", device, "--json"])["runs"][0]["spec"]["scheduler"].clone();
    assert_eq!((scheduler("wd-7200"), scheduler("nvme")), ("clook".into(), "none".into()));
}

#[test]
fn a_trace_of_a_device_gets_schemes_of_an_array() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let trace = dir.path().join("blocks.csv");
    std::fs::write(&trace, "t,dev,off,bytes,op,pid,file\n0,sda,0,4096,R,1,\n1,sda,4096,4096,R,1,\n")
        .expect("written");
    let report = json(&["compare", trace.to_str().expect("UTF-8"), "--json"]);
    assert!(
        schemes(&report).contains(&"asp+msp") && !schemes(&report).contains(&"linux-6"),
        "{:?}",
        schemes(&report)
    );
}

#[test]
fn of_a_list_of_caches_each_has_a_table_of_its_own() {
    let line =
        ["compare", SMALL, "--array", ARRAY, "--device", "nvme", "--scheme", "asp", "--cache", "4MiB,16MiB"];
    let text = output(&line);
    assert!(text.contains("4.00 MiB array cache") && text.contains("16.0 MiB array cache"), "{text}");
    assert_eq!(text.matches(" was fastest").count() + text.matches("No scheme beat").count(), 2, "{text}");
    assert!(fails(&["sim", SMALL, "--cache", "4MiB,16MiB"], 2).contains("takes a list"));
}

#[test]
fn a_scheduler_is_tried_otherwise_only_where_nobody_said_it() {
    let line = [
        "compare",
        "random:size=512MiB,requests=300,processes=2",
        "--device",
        "wd-7200",
        "--scheme",
        "strip",
    ];
    let told = output(&[&line[..], &["--cache", "64MiB", "--array", "raid0:2x128KiB"]].concat());
    let said = output(
        &[&line[..], &["--scheduler", "clook", "--cache", "64MiB", "--array", "raid0:2x128KiB"]].concat(),
    );
    assert!(told.contains("Assumed: scheduler clook"), "{told}");
    assert!(!said.contains("Assumed") && !said.contains("With --"), "{said}");
}

#[test]
fn what_a_spec_file_leaves_out_means_the_same_on_every_machine() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let spec = dir.path().join("one.toml");
    std::fs::write(&spec, format!("[[runs]]\ninput = '{SMALL}'\n")).expect("written");
    let report = json(&["compare", "--spec", spec.to_str().expect("UTF-8"), "--json"]);
    let spec = &report["runs"][0]["spec"];
    assert_eq!((&spec["device"], &spec["scheduler"]), (&"cheetah-15k4".into(), &"anticipatory".into()));
}

#[test]
fn what_was_learned_in_one_run_is_kept_for_the_next_and_bound_to_its_volume() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("learned.manifest");
    let path = path.to_str().expect("a path");
    let how = |scheme, device, option| {
        // Twice as much as the cache holds, and twice the same.
        let work = "zipf:requests=2000,size=64MiB,theta=0.1";
        let hardware =
            ["--array", "single", "--device", device, "--host-cache", "4MiB", "--scheduler", "none"];
        let mut args = vec!["sim", work, "--scheme", scheme, option, path];
        args.extend(hardware);
        args.push("--json");
        args
    };
    let ways = |run: &Value| {
        let gauges = run["runs"][0]["layers"][0]["gauges"].as_array().expect("gauges").clone();
        gauges.iter().find(|gauge| gauge[0] == "recall_used_runs").expect("a gauge")[1]
            .as_f64()
            .expect("a number")
    };
    let first = json(&how("recall(memory=1MiB)", "gp3", "--learn"));
    let second = json(&how("recall(memory=1MiB)", "gp3", "--manifest"));
    assert!(ways(&first) == 0.0 && ways(&second) > 100.0, "{} and {}", ways(&first), ways(&second));
    let said = fails(&how("linux-6", "gp3", "--learn"), 2);
    assert!(said.contains("linux-6 learns nothing"), "{said}");
    let said = fails(&how("recall", "wd-7200", "--manifest"), 1);
    assert!(said.contains("learned on a volume of"), "{said}");
    std::fs::write(path, "no manifest").expect("written");
    let said = fails(&how("recall", "gp3", "--manifest"), 1);
    assert!(said.contains(path) && said.contains("--learn FILE"), "{said}");
}

#[test]
fn a_second_cold_start_is_faster_by_what_the_first_has_learned() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m").display().to_string();
    for (trace, scheme) in [("gcc", "auto"), ("gcc", "linux-6+recall"), ("cscope", "auto")] {
        let trace = format!("{}/../../traces/{trace}.parquet", env!("CARGO_MANIFEST_DIR"));
        let elapsed = |option: &str| {
            let words = ["sim", &trace, "--array", "single", "--device", "nvme", "--host-cache", "32MiB"];
            let run = json(&[&words[..], &["--scheme", scheme, option, &path, "--json"]].concat());
            run["runs"][0]["elapsed_ns"].as_u64().expect("a time")
        };
        let (first, second) = (elapsed("--learn"), elapsed("--manifest"));
        assert!(second * 10 < first * 9, "{trace} {scheme}: {first} ns, and then {second}");
    }
}

#[test]
fn a_recording_says_its_machine_and_a_comparison_takes_it() {
    use forerun_trace::record::{Record, Trace};
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.parquet");
    let pairs = [
        ("device", "sdq"),
        ("like.device", "hdd-20tb"),
        ("like.array", "raid5:5x64KiB"),
        ("like.scheduler", "clook"),
        ("kernel_read_ahead", "8192 KiB"),
    ];
    let about = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
    let records = (0..50).map(|at| Record { offset: at * 4096, bytes: 4096, ..Record::BLANK }).collect();
    let trace = Trace { names: vec![String::new()], records, about, ..Trace::default() };
    forerun_trace::write(&file, forerun_trace::Format::Parquet, &trace).expect("written");
    let path = file.to_str().expect("text");
    let info = output(&["trace", "info", path]);
    assert!(info.contains("like.device") && info.contains("8192 KiB"), "{info}");
    let copy = folder.path().join("copy.parquet");
    output(&["--quiet", "trace", "convert", path, copy.to_str().expect("text")]);
    let table = output(&["compare", copy.to_str().expect("text"), "--scheme", "strip", "--no-bounds"]);
    for part in ["hdd-20tb", "raid5:5x64KiB", "recorded on sdq"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let csv = folder.path().join("t.csv");
    let csv = csv.to_str().expect("text");
    output(&["--quiet", "trace", "convert", path, csv]);
    let info = output(&["trace", "info", csv]);
    assert!(info.contains("like.device") && info.contains("8192 KiB"), "lines of text say it too: {info}");
}
