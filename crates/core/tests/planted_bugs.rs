//! The model test finds bugs: each planted one makes some run of the swarm fail, and without one none fails.
//!
//! `cargo test -p forerun-core --features planted-bugs --test planted_bugs`. The choice is global, so all is one test.

mod support;

use forerun_core::planted::{Bug, plant};
use support::assembly;
use support::runs::{swarm_run, swarm_runs};

/// Rounds after which an unfound bug counts as missed.
const ROUNDS_MAX: u64 = 12;
/// Runs of writes that are assembled.
const ASSEMBLIES: u64 = 100;

fn first_failure() -> Option<String> {
    let seeds = (0..ROUNDS_MAX).flat_map(|round| (0..swarm_runs()).map(move |k| round * 10_000 + k));
    seeds.into_iter().find_map(|seed| swarm_run(seed).err())
}

#[test]
fn every_planted_bug_is_found_and_without_one_nothing_is() {
    for bug in [Bug::ReleasePinned, Bug::KeepStale, Bug::SkipParity, Bug::CleanEarly] {
        plant(Some(bug));
        let found = first_failure();
        assert!(found.is_some(), "{bug:?} was not found in {ROUNDS_MAX} rounds");
    }
    for bug in [Bug::OverlapsIgnored, Bug::NextBeginsEarly] {
        plant(Some(bug));
        assert!((0..ASSEMBLIES).any(|seed| assembly::run(seed).is_err()), "{bug:?} was not found");
    }
    plant(None);
    assert_eq!((0..ASSEMBLIES).find_map(|seed| assembly::run(seed).err()), None);
    let sound: Vec<String> = (0..swarm_runs()).filter_map(|seed| swarm_run(seed).err()).collect();
    assert!(sound.is_empty(), "{sound:?}");
}
