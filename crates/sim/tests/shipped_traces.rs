//! The traces of files that the project ships: each is what `traces/files.md` says, and replays with computing.

use forerun_sim::input::Input;
use forerun_sim::run::run;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;
use forerun_trace::ReadOptions;
use std::path::PathBuf;

const NAMES: [&str; 8] =
    ["cscope", "ripgrep", "gcc", "tpch-index", "tpch-scan", "view", "mix-seq", "mix-random"];
/// Largest file that is shipped, bytes.
const BYTES_MAX: u64 = 330_000;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(format!("{name}.parquet"))
}

#[test]
fn every_read_knows_its_time_its_file_and_nearly_every_one_how_long_it_took() {
    for name in NAMES {
        let bytes = std::fs::metadata(path(name)).expect(name).len();
        assert!(bytes <= BYTES_MAX, "{name}: {bytes} bytes");
        let trace = forerun_trace::open(path(name), &ReadOptions::default()).expect(name).trace;
        let info = trace.info();
        assert!(info.requests > 5_000 && info.writes == 0, "{name}: {} requests", info.requests);
        assert!(info.with_duration * 10 >= info.requests * 9, "{name}: {} durations", info.with_duration);
        for record in &trace.records {
            assert!(record.time.is_some() && record.bytes > 0, "{name}");
            let file = trace.name(record.file);
            assert!(file.starts_with("/mnt/forerun/") || file.starts_with("inode:"), "{name}: {file}");
        }
        assert!(trace.records.is_sorted_by_key(|record| record.time), "{name}");
    }
}

#[test]
fn a_recorded_trace_replays_with_computing_and_waiting() {
    let given = path("gcc").display().to_string();
    let input = Input::load(&given, &ReadOptions::default()).expect("shipped");
    let spec = RunSpec {
        input: given,
        mode: Said::of("paced"),
        host_cache_bytes: 16 << 20,
        cluster_blocks: 32,
        scheme: Said::of("linux-2.4"),
        ..RunSpec::default()
    };
    let report = run(&input, &spec, &|_| {}).expect("a run");
    let time = report.time.expect("compilers compute");
    assert!(time.compute_ns > 0 && time.stall_ns > 0);
    assert!(report.counts.cache_hits > 0, "headers are read again and again");
}
