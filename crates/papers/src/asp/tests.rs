//! Every row that the paper's text and the project's own expectations name is there, whatever the threads; and the
//! arithmetic of a row.

use super::{STUDY, decide, fig8};
use crate::claim::{against, factor};
use crate::setup;
use crate::{Kind, Options, Paper, Reproduction, reproduce, wanted};
use forerun_sim::input::Input;
use forerun_sim::run;
use forerun_trace::ReadOptions;
use std::sync::atomic::Ordering;

fn quick(threads: usize) -> Reproduction {
    let options = Options { quick: true, threads, ..Options::default() };
    reproduce(&STUDY, &options, &|_| {}).unwrap()
}

fn has(done: &Reproduction, figure: &str, paper: f64) -> bool {
    done.rows.iter().any(|r| r.figure == figure && r.paper == Some(Paper::Number(paper)))
}

#[test]
fn every_number_of_the_text_has_a_row_and_threads_change_nothing() {
    let done = quick(1);
    let numbers = [
        ("6", 2.0),
        ("6", 2.2),
        ("7", 1.20),
        ("7", 2.0),
        ("7", 2.3),
        ("7", 1.67),
        ("7", 1.04),
        ("7", 1.15),
        ("7", 1.14),
        ("7", 11.0),
        ("7", 7.6),
        ("9a", 5.8),
        ("9a", 1.76),
        ("9a", 2.34),
        ("9a", 4.79),
        ("9a", 1.33),
        ("9b", 41.0),
        ("9c", 84.6),
        ("9d", 9.44),
        ("10", 1.7),
        ("10", 2.2),
        ("10", 8.1),
        ("11", 1.0065),
        ("11", 1.012),
        ("11", 2.1),
        ("11", 1.38),
        ("11", 1.41),
        ("12", 2.06),
        ("12", 1.10),
        ("13", 1.46),
        ("13", 1.34),
    ];
    for (figure, paper) in numbers {
        assert!(has(&done, figure, paper), "no row for {paper} of Fig. {figure}");
    }
    for figure in STUDY.figures {
        assert!(done.rows.iter().any(|r| r.figure == *figure), "no row of Fig. {figure}");
    }
    assert!(done.rows.iter().all(|r| r.holds.is_none()), "a run of test size claims nothing");
    for (figure, expected) in [("7", 1), ("8a", 13), ("9a", 4), ("9b", 2), ("9c", 2), ("9d", 2)] {
        let rows = done.rows.iter().filter(|r| r.figure == figure && r.kind == Kind::Expected);
        assert_eq!(rows.count(), expected, "expected rows of Fig. {figure}");
    }
    let other = quick(2);
    let text = |r: &Reproduction| serde_json::to_string(r).unwrap();
    assert!(text(&done) == text(&other), "two threads give the same bytes");
}

#[test]
fn a_figure_is_asked_for_by_name_or_number_and_an_unknown_one_is_refused() {
    let only = |figure: &str| Options { figures: vec![figure.into()], ..Options::default() };
    assert!(wanted(&only("9"), "9c") && wanted(&only("9c"), "9c") && !wanted(&only("9c"), "9d"));
    assert!(wanted(&Options::default(), "13"));
    let error = reproduce(&STUDY, &only("14"), &|_| {}).unwrap_err();
    assert!(error.to_string().contains("9c"), "{error}");
}

#[test]
fn a_number_holds_on_its_side_of_one_and_within_a_third() {
    assert!(against(1.3, 1.2).1);
    assert!(against(1.01, 1.2).1, "a sixth below, and still above one");
    assert!(!against(0.95, 1.2).1, "within a third and on the other side");
    assert!(against(4.0, 5.8).1);
    assert!(!against(3.8, 5.8).1);
    assert!(!against(8.0, 5.8).1);
    assert!((against(2.9, 5.8).0 - 0.5).abs() < 1e-12);
}

#[test]
fn a_factor_is_the_worst_on_the_left_over_the_best_on_the_right() {
    assert!((factor(&[6.0, 4.0, 1.0, 2.0], 2) - 2.0).abs() < 1e-12);
    assert!((factor(&[6.0, 0.0], 1)).abs() < 1e-12, "nothing to compare with");
}

#[test]
fn the_time_at_which_bytes_were_delivered_lies_between_two_samples() {
    let setup = setup::Scale { quick: true }.setup("random:size=4MiB,requests=500", "none");
    let input = Input::load(&setup.spec.input, &ReadOptions::default()).unwrap();
    let mut report = run::run(&input, &setup.spec, &|_| {}).unwrap();
    report.timeline.truncate(2);
    report.timeline[0].at_ns = 100;
    report.timeline[0].bytes_delivered = 1_000;
    report.timeline[1].at_ns = 300;
    report.timeline[1].bytes_delivered = 2_000;
    assert_eq!(fig8::time_at(&report, 500.0), Some(50.0));
    assert_eq!(fig8::time_at(&report, 1_500.0), Some(200.0));
    assert_eq!(fig8::time_at(&report, 3_000.0), None);
}

#[test]
fn a_clock_fills_the_measured_rows_and_no_other() {
    fn clock() -> u64 {
        static TICKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        TICKS.fetch_add(1_000_000, Ordering::Relaxed)
    }
    let options =
        Options { quick: true, figures: vec!["8c".into()], clock: Some(clock), ..Options::default() };
    let done = reproduce(&STUDY, &options, &|_| {}).unwrap();
    let measured = done.rows.iter().filter(|r| r.measured_ns_per_access.is_some());
    assert_eq!(measured.count(), decide::SCHEMES.len());
}
