//! The engine against a naive model: whatever the order of completions, evictions, culls and failures, an answered read
//! delivers the last acknowledged content, and after a flush the members alone hold it.
//!
//! Each run draws its layer (scheme, array, sizes, write mode) and its workload from one seed, so a failure is reproduced by
//! its seed. The swarm leaves options out at random: a run without writes, or with nothing but writes, finds what a mixture hides.

mod support;

use proptest::prelude::*;
use support::runs::{ARRAYS, run, swarm_run, swarm_runs};
use support::schemes::SCHEMES;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_read_delivers_the_last_acknowledged_content(
        seed in 0_u64..1 << 48,
        scheme in proptest::sample::select(SCHEMES),
        on in proptest::sample::select(ARRAYS),
    ) {
        prop_assert_eq!(run(seed, scheme, on, false), Ok(()));
    }

    #[test]
    fn a_stack_of_two_layers_delivers_it_too(
        seed in 0_u64..1 << 48,
        scheme in proptest::sample::select(SCHEMES),
        on in proptest::sample::select(ARRAYS),
    ) {
        prop_assert_eq!(run(seed, scheme, on, true), Ok(()));
    }
}

/// Set `FORERUN_SWARM` to a number of rounds for a longer run, or `FORERUN_SEED` to repeat one.
#[test]
fn swarm_of_every_scheme_on_every_array() {
    #[expect(
        clippy::disallowed_methods,
        reason = "a longer run is asked for from outside; what a seed does is fixed"
    )]
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("FORERUN_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("FORERUN_SWARM").unwrap_or(4))
            .flat_map(|r| (0..swarm_runs()).map(move |k| r * 10_000 + k))
            .collect(),
    };
    let failures: Vec<String> = seeds.into_iter().filter_map(|seed| swarm_run(seed).err()).collect();
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n\n"));
}
