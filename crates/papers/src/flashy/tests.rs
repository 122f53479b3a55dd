//! Every number of the slides' text has a row, and rows of one drive average as they should.

use super::super::{Reproduction, reproduce};
use super::*;

#[test]
fn every_number_of_the_slides_has_a_row_and_threads_change_nothing() {
    let quick = |threads| {
        let options = Options { quick: true, threads, ..Options::default() };
        reproduce(&STUDY, &options, &|_| {}).expect("it runs")
    };
    let done: Reproduction = quick(1);
    let has = |figure: &str, paper: f64| {
        done.rows.iter().any(|row| row.figure == figure && row.paper == Some(Paper::Number(paper)))
    };
    for paper in [170.0, 265.0, 215.0, 180.0, 203.0, 81.0, 212.0, 100.0, 65.0] {
        assert!(has("drives", paper), "{paper}");
    }
    assert!(has("speedup", 1.2) && has("speedup", 2.02));
    for figure in STUDY.figures {
        let rows = done.rows.iter().any(|row| row.figure == *figure);
        let charts = done.charts.iter().any(|chart| chart.figure == *figure);
        assert!(rows || charts, "nothing about {figure}");
    }
    assert!(done.rows.iter().all(|row| row.holds.is_none()), "a run of test size claims nothing");
    let text = |done: &Reproduction| serde_json::to_string(done).expect("it prints");
    assert!(text(&done) == text(&quick(2)), "two threads give the same bytes");
}

fn report(input: &str, device: &str, seconds: u64, coverage: f64) -> RunReport {
    let scale = Scale { quick: true };
    let line = "random:size=4MiB,requests=10";
    let setup = setup(&scale, device, line, "none");
    let loaded =
        forerun_sim::input::Input::load(line, &forerun_trace::ReadOptions::default()).expect("a workload");
    let mut report = forerun_sim::run::run(&loaded, &setup.spec, &|_| {}).expect("it runs");
    report.input = input.into();
    report.elapsed_ns = seconds;
    report.coverage = coverage;
    report
}

#[test]
fn three_queries_count_as_one_work_and_postmark_counts_for_nothing() {
    let mut runs = Vec::new();
    // Speed-ups over the kernel: LFS 1, TPC-H 2 and 4, PostMark 10.
    for (input, kernel) in
        [("forward:x", 10), ("standin-tpch:a", 20), ("standin-tpch:b", 40), ("standin-postmark:", 100)]
    {
        runs.push(report(input, "x25-m", 10, 0.5));
        runs.push(report(input, "x25-m", kernel, 0.0));
        runs.push(report(input, "x25-m", 100, 0.0));
    }
    let runs: Vec<&RunReport> = runs.iter().collect();
    let verdict = judge::mean_speedup(&runs);
    assert_eq!((verdict.ours, verdict.holds), (Some(2.0), Some(true)), "(1 + 3) / 2");
    let slowest = judge::slowest(&runs);
    assert_eq!((slowest.ours, slowest.said.as_str()), (Some(1.0), "LFS (forward:x)"));
    assert_eq!(judge::mean_coverage(&runs).ours, Some(0.5));
    assert_eq!(judge::kernel_coverage(&runs).ours, Some(0.0));
    assert_eq!(judge::own_coverage(&runs).holds, Some(false), "none of it was flashy's own");
}

#[test]
fn a_mean_has_blast_in_one_way_only_and_a_query_that_is_slower_is_not_hidden() {
    let mut runs = Vec::new();
    // Speed-ups over the kernel: BLAST mapped 4, by calls 1, as four processes 1/2; one query 3, another 0.9.
    for (input, scheme, both, kernel) in [
        ("standin-blast:processes=1,x", "k(mapped=on)", 10, 40),
        ("standin-blast:processes=1,x", "k", 10, 10),
        ("standin-blast:processes=4,x", "k", 20, 10),
        ("standin-tpch:a", "k", 10, 30),
        ("standin-tpch:b", "k", 10, 9),
    ] {
        for seconds in [both, kernel, 100] {
            let mut of = report(input, "x25-m", seconds, 0.0);
            of.scheme = scheme.into();
            runs.push(of);
        }
    }
    let runs: Vec<&RunReport> = runs.iter().collect();
    let tpch = (3.0 + 0.9) / 2.0;
    let near = |verdict: Verdict, ours: f64| verdict.ours.is_some_and(|of| (of - ours).abs() < 1e-9);
    assert!(near(judge::mean_speedup(&runs), (4.0 + tpch) / 2.0));
    assert!(near(judge::mean_with_calls(&runs), (1.0 + tpch) / 2.0));
    assert!(near(judge::mean_with_four(&runs), (0.5 + tpch) / 2.0));
    let slowest = judge::slowest(&runs);
    assert_eq!((slowest.ours, slowest.holds), (Some(0.5), Some(false)));
}

#[test]
fn the_disk_is_compared_with_the_best_of_the_others() {
    let mut runs = Vec::new();
    for (device, kernel) in [("x25-m", 12), ("vertex", 15), (DISK, 30)] {
        runs.extend([10, kernel, 50].map(|seconds| report("forward:x", device, seconds, 0.0)));
    }
    let runs: Vec<&RunReport> = runs.iter().collect();
    assert_eq!(judge::disk_gains_most(&runs).ours, Some(2.0));
    assert_eq!(judge::largest_of_web(&runs).ours, Some(0.0), "there is no web search in it");
}
