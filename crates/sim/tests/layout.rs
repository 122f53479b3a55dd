//! Files in pieces, files whose end is known, clustered commands and recorded think times, through whole runs.

use forerun_core::access::Op;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use forerun_sim::input::Input;
use forerun_sim::layout::LayoutSpec;
use forerun_sim::report::RunReport;
use forerun_sim::run::run;
use forerun_sim::said::{FileSizes, Part as _, Said};
use forerun_sim::spec::RunSpec;
use forerun_trace::record::{Name, Record, Trace};

const MIB: u64 = 1 << 20;

/// A request: (time in us, took in us, process, file, offset in blocks, blocks).
type Row = (u64, Option<u64>, u32, u32, u64, u64);

/// A trace of these requests, with sizes of files in blocks.
fn trace(rows: &[Row], sizes: &[(u32, u64)]) -> Input {
    let record = |&(time, took, process, file, offset, blocks): &Row| Record {
        time: Some(Nanos::from_micros(time)),
        took: took.map(Nanos::from_micros),
        process: Name(process),
        file: Name(file),
        offset: offset * BLOCK_BYTES,
        bytes: blocks * BLOCK_BYTES,
        op: Op::Read,
        ..Record::BLANK
    };
    let names = ["", "a", "b", "c", "d"].map(String::from).to_vec();
    let records = rows.iter().map(record).collect();
    let mut trace = Trace { names, records, ..Trace::default() };
    for &(file, blocks) in sizes {
        trace.know_size(Name::ABSENT, Name(file), blocks * BLOCK_BYTES);
    }
    Input::of_trace("test", "", trace)
}

/// One process that reads files `a` and `b` of 256 blocks, 8 at a time, one after the other.
fn two_files() -> Input {
    let rows: Vec<_> = (0..64).map(|i| (i, None, 1, 1 + (i / 32) as u32, i % 32 * 8, 8)).collect();
    trace(&rows, &[(1, 256), (2, 256)])
}

fn spec(scheme: &str) -> RunSpec {
    RunSpec {
        scheme: Said::of(scheme),
        host_cache_bytes: 8 * MIB,
        cpu: Said::of("none"),
        ..RunSpec::default()
    }
}

fn report(input: &Input, spec: &RunSpec) -> RunReport {
    run(input, spec, &|_| {}).expect("a run")
}

fn seeks(report: &RunReport) -> u64 {
    report.devices.iter().map(|device| device.seeks).sum()
}

#[test]
fn a_file_in_pieces_costs_seeks_and_changes_nothing_above() {
    let input = two_files();
    for scheme in ["none", "linux-2.6"] {
        let whole = report(&input, &spec(scheme));
        let layout = Said::of("fragmented(extent=16KiB,spread=200)");
        let pieces = report(&input, &RunSpec { layout, ..spec(scheme) });
        assert_eq!(pieces.counts.blocks_read, 512);
        assert_eq!(pieces.bytes_from_devices, 512 * BLOCK_BYTES, "{scheme}: each block once");
        assert_eq!(whole.bytes_from_devices, pieces.bytes_from_devices);
        assert!(seeks(&pieces) > 10 * seeks(&whole).max(1), "{} against {}", seeks(&pieces), seeks(&whole));
        assert!(pieces.elapsed_ns > 3 * whole.elapsed_ns, "{} {}", pieces.elapsed_ns, whole.elapsed_ns);
    }
}

#[test]
fn a_layout_is_the_same_for_the_same_seed_and_another_for_another() {
    let input = two_files();
    let with = |seed| {
        let layout = Said::of("fragmented(extent=32KiB,spread=8)");
        report(&input, &RunSpec { layout, seed, ..spec("linux-2.6") }).elapsed_ns
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn without_a_page_cache_programs_ask_the_places_at_once() {
    let layout = Said::of("fragmented(extent=4KiB,spread=50)");
    let pieces = report(&two_files(), &RunSpec { layout, host_cache_bytes: 0, ..spec("none") });
    assert_eq!((pieces.counts.blocks_read, pieces.counts.misses), (512, 512));
    assert_eq!(pieces.devices[0].bytes, 512 * BLOCK_BYTES);
}

#[test]
fn pieces_that_do_not_fit_and_words_that_are_none_are_errors() {
    let input = two_files();
    let told = |spec: RunSpec| run(&input, &spec, &|_| {}).expect_err("refused").to_string();
    assert!(LayoutSpec::read("scattered").expect_err("no layout").contains("contiguous or fragmented"));
    let mut wrong = RunSpec { layout: Said::of("fragmented"), fit: Said::of("modulo"), ..spec("none") };
    assert!(told(wrong.clone()).contains("fit = modulo"));
    assert!(FileSizes::read("guessed").expect_err("neither").contains("known nor unknown"));
    wrong = RunSpec { cache_bytes: 64 << 40, ..spec("none") };
    assert!(told(wrong.clone()).contains("at most 8TiB"));
    wrong = RunSpec { cluster_blocks: 0, ..spec("none") };
    assert!(told(wrong).contains("from 1 to"));
}

#[test]
fn read_ahead_stops_at_the_end_of_a_file_only_where_the_end_is_known() {
    // Two files of 5 blocks, read whole: whatever is read beyond is of no use.
    let rows: Vec<_> = (0..10).map(|i| (i, None, 1, 1 + (i / 5) as u32, i % 5, 1)).collect();
    let input = trace(&rows, &[(1, 5), (2, 5)]);
    let known = report(&input, &spec("linux-2.6"));
    assert_eq!(known.bytes_from_devices, 10 * BLOCK_BYTES);
    let unknown = report(&input, &RunSpec { file_sizes: Said::of("unknown"), ..spec("linux-2.6") });
    assert!(unknown.bytes_from_devices > 10 * BLOCK_BYTES, "{}", unknown.bytes_from_devices);
    // A file of known size takes its room even where nobody reads to its end.
    let rows: Vec<_> = (0..10).map(|i| (i, None, 1, 1, i, 1)).collect();
    let long = report(&trace(&rows, &[(1, 500)]), &spec("linux-2.6"));
    assert!(long.bytes_from_devices > 10 * BLOCK_BYTES, "the file goes on and is read ahead");
}

#[test]
fn commands_of_the_page_cache_are_clustered_to_a_given_length() {
    let rows: Vec<_> = (0..2).map(|i| (i, None, 1, 1, i * 128, 128)).collect();
    let input = trace(&rows, &[(1, 256)]);
    let commands = |cluster_blocks: u64| {
        let array = Said::of("single:512KiB");
        let spec = RunSpec { cluster_blocks, array, ..spec("none") };
        report(&input, &spec).devices[0].commands
    };
    assert_eq!((commands(128), commands(32), commands(1)), (2, 8, 256));
}

#[test]
fn a_process_computes_from_the_answer_to_the_next_request_where_the_trace_knows_the_answer() {
    // A request every 10 ms that took 4 ms: 6 ms of computing between two.
    let rows =
        |took: Option<u64>| -> Vec<_> { (0..5).map(|i| (i * 10_000, took, 1, 1, i * 50, 1)).collect() };
    let paced = RunSpec { mode: Said::of("paced"), ..spec("none") };
    let with = report(&trace(&rows(Some(4_000)), &[]), &paced);
    let without = report(&trace(&rows(None), &[]), &paced);
    let time = |report: &RunReport| report.time.expect("the process computes");
    assert_eq!((time(&with).compute_ns, time(&without).compute_ns), (24_000_000, 40_000_000));
    for report in [&with, &without] {
        let time = time(report);
        assert_eq!(
            report.elapsed_ns,
            time.compute_ns + time.stall_ns,
            "one process either computes or waits"
        );
        assert!((time.compute_share + time.stall_share - 1.0).abs() < 1e-9);
    }
    assert_eq!(
        report(&trace(&rows(None), &[]), &spec("none")).time,
        None,
        "a closed replay does not compute"
    );
}

#[test]
fn a_client_that_kept_four_requests_outstanding_keeps_them_when_it_is_paced() {
    // Four at once; each answer, every 2.5 ms, lets the next leave: what `closed:4` does by itself.
    let issue = |i: u64| i.saturating_sub(3) * 2_500 + if i < 4 { 0 } else { 7_500 };
    let took = |i: u64| if i < 4 { 10_000 + i * 2_500 } else { 10_000 };
    let rows: Vec<_> = (0..64).map(|i| (issue(i), Some(took(i)), 1, 1, i * 37 % 64 * 1000, 1)).collect();
    let input = trace(&rows, &[]);
    let run = |mode: &str| {
        report(&input, &RunSpec { mode: Said::of(mode), scheduler: Said::of("clook"), ..spec("none") })
    };
    let (paced, four, one) = (run("paced"), run("closed:4"), run("closed:1"));
    assert_eq!(paced.elapsed_ns, four.elapsed_ns);
    assert_eq!(paced.latency_ns, four.latency_ns);
    assert_eq!(paced.time, None, "it never computed");
    assert!(paced.elapsed_ns < one.elapsed_ns, "the disk's queue is of use");
}

#[test]
fn overlapping_requests_count_as_one_wait_of_their_process() {
    // Pairs side by side, and 20 ms of computing after each.
    let rows: Vec<_> = (0..8).map(|i| (i / 2 * 30_000, Some(10_000), 1, 1, i * 1000, 1)).collect();
    let report = report(&trace(&rows, &[]), &RunSpec { mode: Said::of("paced"), ..spec("none") });
    let time = report.time.expect("it computes");
    assert_eq!(time.compute_ns, 60_000_000);
    assert_eq!(report.elapsed_ns, time.compute_ns + time.stall_ns);
}

#[test]
fn processes_start_when_they_were_recorded_to_and_share_the_cache() {
    let rows = [(0, Some(10), 1, 1, 0, 1), (50_000, Some(10), 2, 1, 0, 1)];
    let paced = RunSpec { mode: Said::of("paced"), ..spec("none") };
    let report = report(&trace(&rows, &[]), &paced);
    assert_eq!((report.counts.misses, report.counts.cache_hits), (1, 1));
    assert_eq!(report.elapsed_ns, 50_000_000);
}
