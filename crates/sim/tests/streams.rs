//! `streams` through whole runs: readers that only look like streams for a moment have little read ahead, and real ones
//! behind them are still found.

use forerun_core::units::BLOCK_BYTES;
use forerun_sim::input::Input;
use forerun_sim::report::RunReport;
use forerun_sim::run::run;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;
use forerun_trace::record::{Record, Trace};

/// Blocks of a request: a unit of the classifier.
const REQUEST: u64 = 16;

fn read(block: u64) -> Record {
    Record { offset: block * BLOCK_BYTES, bytes: REQUEST * BLOCK_BYTES, ..Record::BLANK }
}

/// Five requests in a row, at a place by chance: long enough to look like a stream, and then it is over.
fn short_run(n: u64) -> impl Iterator<Item = Record> {
    let place = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 43) * 4;
    (0..5).map(move |at| read(place + at * REQUEST))
}

/// Eight readers of 32 MiB in turns, far apart.
fn readers() -> impl Iterator<Item = Record> {
    (0..512).flat_map(|at| (0..8).map(move |reader| read((1 << 24) + (reader << 22) + at * REQUEST)))
}

fn ran(records: Vec<Record>, device: &str, cache_mib: u64, scheme: &str) -> RunReport {
    let input = Input::of_trace("short runs", "", Trace { records, ..Trace::default() });
    let spec = RunSpec {
        scheme: Said::of(scheme),
        device: Said::of(device),
        scheduler: Said::of("none"),
        array: Said::of("single"),
        cache_bytes: cache_mib << 20,
        host_cache_bytes: 0,
        ..RunSpec::default()
    };
    run(&input, &spec, &|_| {}).expect("fits")
}

#[test]
fn short_runs_at_random_places_are_taken_for_streams_for_a_moment_only() {
    for (device, cache) in [("wd-7200", 64), ("wd-7200", 1024), ("nvme", 64)] {
        let records = || (0..1000).flat_map(short_run).collect();
        let [none, streams] = ["none", "streams"].map(|scheme| ran(records(), device, cache, scheme));
        assert!(streams.amplification < 1.3, "{device}, {cache} MiB: {}", streams.amplification);
        let slower = streams.elapsed_ns as f64 / none.elapsed_ns as f64;
        assert!(slower < 1.08, "{device}, {cache} MiB: {slower}");
    }
}

#[test]
fn readers_behind_many_short_runs_are_found_a_little_later_and_are_as_fast() {
    let seconds = |records, scheme: &str| ran(records, "wd-7200", 64, scheme).elapsed_ns as f64 / 1e9;
    let runs = || (0..1000).flat_map(short_run);
    let behind =
        |scheme| seconds(runs().chain(readers()).collect(), scheme) - seconds(runs().collect(), scheme);
    let alone = seconds(readers().collect(), "streams");
    let (none, streams) = (behind("none"), behind("streams"));
    assert!(streams < 0.4 * none && streams < 1.5 * alone, "{streams} behind, {alone} alone, {none} without");
}
