//! Seeded runs: a layer, its faults and its workload drawn from one number.

use super::Rng;
use super::host::{Chances, Host};
use super::model::Members;
use super::schemes::{Layout, SCHEMES, STRIP, array};
use forerun_core::engine::WriteMode;
use forerun_core::units::Nanos;

pub(crate) const ARRAYS: &[&str] = &[
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
    let back =
        WriteMode::Back { dirty_percent: rng.pick(&[5, 25, 60]), age: Nanos(rng.pick(&[1_000, 20_000])) };
    Layout {
        array: if super::schemes::is_host(scheme) { "single:16KiB" } else { on }, // a page cache sees one volume
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
pub(crate) fn run(seed: u64, scheme: &'static str, on: &'static str, stacked: bool) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let lower = layout(&mut rng, scheme, on);
    let members = Members::new(array(lower.array, lower.member_blocks));
    let chances = chances(&mut rng, members.array.redundancy(), lower.cache_blocks);
    let stacked = stacked && !super::schemes::is_host(scheme); // that is the upper layer
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

/// How many runs make one round of the swarm.
pub(crate) const fn swarm_runs() -> u64 {
    (SCHEMES.len() * ARRAYS.len()) as u64
}

/// The run that a seed of the swarm stands for: every scheme on every array, each fourth round with a layer above.
pub(crate) fn swarm_run(seed: u64) -> Result<(), String> {
    let index = (seed % 10_000) as usize;
    run(seed, SCHEMES[index / ARRAYS.len()], ARRAYS[index % ARRAYS.len()], seed / 10_000 % 4 == 3)
}
