//! The model test finds bugs: each planted one makes some run of the swarm fail, and without one none fails.
//!
//! `cargo test -p forerun-core --features planted-bugs --test planted_bugs`. The choice is global, so all is one test.

mod support;

use forerun_core::planted::{Bug, plant};
use support::runs::{swarm_run, swarm_runs};

/// Rounds after which an unfound bug counts as missed.
const ROUNDS_MAX: u64 = 12;

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
    plant(None);
    let sound: Vec<String> = (0..swarm_runs()).filter_map(|seed| swarm_run(seed).err()).collect();
    assert!(sound.is_empty(), "{sound:?}");
}
