//! Every number of the slides has a row, every row tells its memory, and the controller is what slows eight disks.

use super::super::{Kind, Paper, Reproduction, reproduce};
use super::*;

fn quick(figures: &[&str], threads: usize) -> Reproduction {
    let figures = figures.iter().map(|&figure| figure.to_owned()).collect();
    let options = Options { quick: true, threads, figures, ..Options::default() };
    reproduce(&STUDY, &options, &|_| {}).expect("it runs")
}

#[test]
fn every_number_of_the_slides_has_a_row_and_every_row_tells_its_memory() {
    let scale = Scale { quick: true };
    let claims = claims(&Options::default(), &scale);
    let has = |figure: &str, paper: f64| {
        claims.iter().any(|claim| claim.figure == figure && claim.paper == Some(Paper::Number(paper)))
    };
    assert!(has("3", 60.0) && has("23", 4.0));
    for memory in [12.0, 50.0, 100.0, 200.0, 800.0] {
        assert!(has("17", memory), "{memory}");
    }
    for figure in STUDY.figures {
        assert!(
            claims.iter().any(|claim| claim.figure == *figure && claim.kind != Kind::Point),
            "no row about {figure}"
        );
    }
    assert!(claims.iter().all(|claim| claim.tell.is_some()));
}

#[test]
fn what_was_changed_after_the_first_runs_stands_in_every_row_that_it_concerns() {
    let claims = claims(&Options::default(), &Scale::default());
    let with_scheme =
        |claim: &&Claim| claim.needs.iter().any(|setup| setup.spec.scheme.text().starts_with("streams("));
    let slides: Vec<&Claim> = claims.iter().filter(|claim| claim.figure.parse::<u32>().is_ok()).collect();
    for claim in slides.iter().copied().filter(with_scheme) {
        assert!(claim.changed_after.contains("memory beside M"), "slide {}: {}", claim.figure, claim.case);
    }
    let marked = |what: &str| slides.iter().filter(|claim| claim.changed_after == what).count();
    assert_eq!([HELD_AFTER, PAIRS_AFTER, TITLES_AFTER].map(marked), [5, 6, 1]);
    // What runs without the scheme was never changed.
    assert!(slides.iter().filter(|claim| !with_scheme(claim)).all(|claim| claim.changed_after.is_empty()));
}

#[test]
fn small_runs_of_a_slide_give_the_same_bytes_on_two_threads_and_claim_nothing() {
    let one = quick(&["21", "3"], 1);
    assert!(one.rows.iter().all(|row| row.holds.is_none() && row.memory_peak_bytes > Some(0)));
    assert!(one.charts.iter().any(|chart| chart.figure == "21" && chart.series.len() == 3));
    let text = |done: &Reproduction| serde_json::to_string(done).expect("it prints");
    assert!(text(&one) == text(&quick(&["21", "3"], 2)));
}

#[test]
fn the_load_is_that_of_the_slides() {
    let scale = Scale::default();
    let eight = Rig { disks: 8, ..Rig::of(&scale, 100) };
    assert_eq!(eight.load(), "streams:streams=100,disks=8,titles=256,title=256MiB,length=128MiB,block=64KiB");
    let spec = eight.turns().controlled().spec;
    assert_eq!((spec.array.text(), spec.bus_bytes_per_s), ("raid0:8x256MiB", 450_000_000));
    assert_eq!(spec.scheme.text(), "streams(D=1,R=512KiB,N=128,M=1GiB)");
    assert_eq!(spec.cache_bytes, 8 * (128 * MIB + 400 * (64 << 10)), "what waits is held beside M");
}

#[test]
fn with_all_streams_dispatched_in_just_enough_memory_nothing_is_read_twice() {
    let scale = Scale::default();
    for (streams, r) in [(10, 512 << 10), (30, MIB)] {
        let setup = Rig { length_mib: SHORT_MIB, ..Rig::of(&scale, streams) }.all_dispatched(r);
        let run = |spec: &RunSpec| {
            let input = forerun_sim::input::Input::load(&spec.input, &forerun_trace::ReadOptions::default());
            forerun_sim::run::run(&input.expect("a workload"), spec, &|_| {}).expect("it runs")
        };
        let (all, direct) = (run(&setup.spec), run(&Rig::of(&scale, streams).direct().spec));
        let given_up = super::super::facts::gauge(&all, "streams_given_up_bytes");
        assert_eq!(given_up, Some(0.0), "{streams} streams of {r}");
        assert!(
            all.amplification < 1.05,
            "what lies behind the clients' ends is read once: {}",
            all.amplification
        );
        assert!(THROUGHPUT(&all) > 2.0 * THROUGHPUT(&direct));
    }
}

#[test]
fn a_turn_that_finds_no_memory_takes_none_of_what_waiting_streams_have_staged() {
    // With eight of a hundred streams dispatched and memory for just these, 13.6 GB were given up and read again in a cache
    // of 76.5 MiB: what streams had staged that waited for their next turn.
    let scale = Scale::default();
    let dispatched = Rig { length_mib: SHORT_MIB, ..Rig::of(&scale, 100) }.dispatched(8, 8 * MIB, 64 * MIB);
    for beside in [50, 100, 200, 208] {
        let spec = RunSpec { cache_bytes: 64 * MIB + beside * REQUEST, ..dispatched.spec.clone() };
        let input = forerun_sim::input::Input::load(&spec.input, &forerun_trace::ReadOptions::default());
        let run = forerun_sim::run::run(&input.expect("a workload"), &spec, &|_| {}).expect("it runs");
        let given_up = super::super::facts::gauge(&run, "streams_given_up_bytes").expect("a gauge");
        assert!(given_up < 8e6, "{beside} requests beside M: {given_up} bytes given up");
        assert!(run.amplification < 1.05, "{beside} requests beside M: {}", run.amplification);
    }
}
