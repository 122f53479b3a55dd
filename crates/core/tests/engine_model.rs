//! The engine against a naive model: whatever the order of completions, evictions, culls and failures, an answered read
//! delivers the last acknowledged content, and after a flush the members alone hold it.
//!
//! Each run draws its layer (scheme, array, sizes, write mode) and its workload from one seed, so a failure is reproduced by
//! its seed. The swarm leaves options out at random: a run without writes, or with nothing but writes, finds what a mixture hides.

mod support;

use forerun_core::engine::WriteMode;
use forerun_core::units::Nanos;
use proptest::prelude::*;
use support::Rng;
use support::host::{Chances, Host};
use support::model::Members;
use support::schemes::{Layout, SCHEMES, STRIP, array};

const ARRAYS: &[&str] = &[
    "single:16KiB",
    "raid0:3x16KiB",
    "raid1:3x16KiB",
    "raid5:4x16KiB",
    "raid6:5x16KiB",
    "raid10:4x16KiB",
    "raid10:3x16KiB",
];

fn layout(rng: &mut Rng, scheme: &'static str, on: &'static str) -> Layout {
    let cache_blocks = rng.pick(&[16, 24, 40, 96]);
    let back = WriteMode::Back { dirty_percent: rng.pick(&[5, 25, 60]), age: Nanos(rng.pick(&[1_000, 20_000])) };
    Layout {
        array: if scheme == "linux-2.6" { "single:16KiB" } else { on }, // a page cache sees one volume
        member_blocks: 16 + rng.below(5) * 6,
        scheme,
        cache_blocks,
        ahead_blocks_max: rng.pick(&[4, 16, 1_000]),
        command_blocks_max: rng.pick(&[2, STRIP, 64]),
        retain: !rng.percent(10),
        write: if rng.percent(20) { WriteMode::Through } else { back },
    }
}

fn chances(rng: &mut Rng, redundancy: u16, cache_blocks: u64) -> Chances {
    let faults = rng.percent(60);
    Chances {
        ops: 150 + rng.below(150) as u32,
        depth: rng.pick(&[1, 3, 8, 20]),
        writes: rng.pick(&[0, 10, 40, 90]),
        durable: rng.pick(&[0, 20, 100]),
        flushes: rng.pick(&[0, 2, 10]),
        sequential: rng.pick(&[0, 50, 95]),
        extent_max: rng.pick(&[1, 4, 12]).min(cache_blocks / 2),
        early: rng.pick(&[0, 50, 100]),
        short: if faults { rng.pick(&[0, 3, 30]) } else { 0 },
        fail: if faults && redundancy > 0 { rng.pick(&[0, 1]) } else { 0 },
        flaky: if faults { redundancy.max(1) } else { 0 },
        may_fail: faults && redundancy == 0,
    }
}

/// One seeded run of a scheme on an array; with a host layer over it where asked.
fn run(seed: u64, scheme: &'static str, on: &'static str, stacked: bool) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let lower = layout(&mut rng, scheme, on);
    let members = Members::new(array(lower.array, lower.member_blocks));
    let chances = chances(&mut rng, members.array.redundancy(), lower.cache_blocks);
    let stacked = stacked && scheme != "linux-2.6"; // that is the upper layer
    let mut engines = vec![lower.engine(seed)];
    let mut told = format!("{lower:?} {chances:?}");
    if stacked {
        let mut upper = layout(&mut rng, "linux-2.6", "single:16KiB");
        upper.member_blocks = members.array.capacity_blocks();
        upper.command_blocks_max = upper.command_blocks_max.min(lower.cache_blocks / 2);
        told = format!("{upper:?} over {told}");
        engines.insert(0, upper.engine(seed));
    }
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Host::new(engines, members, chances, seed).run()
    }));
    let outcome = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
    });
    outcome.map_err(|error| format!("seed {seed}: {error}\n{told}"))
}

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

/// The run that a seed of the swarm stands for.
fn swarm_run(seed: u64) -> Result<(), String> {
    let index = (seed % 10_000) as usize;
    run(seed, SCHEMES[index / ARRAYS.len()], ARRAYS[index % ARRAYS.len()], seed / 10_000 % 4 == 3)
}

/// Set `FORERUN_SWARM` to a number of rounds for a longer run, or `FORERUN_SEED` to repeat one.
#[test]
fn swarm_of_every_scheme_on_every_array() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds: Vec<u64> = match number("FORERUN_SEED") {
        Some(seed) => vec![seed],
        None => {
            let runs = (SCHEMES.len() * ARRAYS.len()) as u64;
            (0..number("FORERUN_SWARM").unwrap_or(4)).flat_map(|r| (0..runs).map(move |k| r * 10_000 + k)).collect()
        }
    };
    let failures: Vec<String> = seeds.into_iter().filter_map(|seed| swarm_run(seed).err()).collect();
    assert!(failures.is_empty(), "{} runs failed:\n{}", failures.len(), failures.join("\n\n"));
}
