//! Adaptive cache culling: the arithmetic of its feedback, step by step, and its invariants recounted on real runs.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::cache::{Cache, LineId};
use forerun_core::engine::{Engine, Input, WriteMode};
use forerun_core::policy::asp::{Asp, AspConfig, Tier};
use forerun_core::scheme::Scheme;
use forerun_core::units::{Block, Extent, Nanos};
use proptest::prelude::*;
use std::collections::BTreeSet;
use support::Rng;
use support::host::{Chances, Host};
use support::model::Members;
use support::schemes::{Layout, STRIP, Wild, array};

/// The `asp` that an engine runs.
fn asp(engine: &Engine) -> &Asp {
    engine.scheme().part().expect("the engine runs asp")
}
/// (N_U in strips, whether strips are off).
fn border(engine: &Engine) -> (u64, bool) {
    (asp(engine).upstream_max(), asp(engine).is_off())
}
/// (|U|, |D|).
fn lens(engine: &Engine) -> (u64, u64) {
    (asp(engine).tiers().up_len(), asp(engine).tiers().down_len())
}
fn alpha(engine: &Engine) -> (u64, u64) {
    asp(engine).tiers().alpha_counts()
}

fn layout(cache_blocks: u64) -> Layout {
    Layout {
        array: "raid5:5x16KiB",
        member_blocks: 64,
        scheme: "asp",
        cache_blocks,
        ahead_blocks_max: 1_000,
        command_blocks_max: 64,
        retain: true,
        write: WriteMode::Back { dirty_percent: 25, age: Nanos(1_000_000) },
    }
}

/// A read whose commands end at once and whose answer is released.
fn read(engine: &mut Engine, block: u64) {
    let access = Access::read(Context(0), Extent::new(block, 1));
    engine.handle(Nanos(0), Input::Read { id: block, access });
    engine.settle(Nanos(0), |_| {});
}

/// Ten strips in a cache of ten, two blocks of each read, and the cache has been full: N_U = 10, n_b = 2.
fn filled() -> Engine {
    let config = AspConfig { cost_test: false, ..AspConfig::new(10) };
    let mut engine = layout(10 * STRIP).engine_with(Scheme::of(Asp::new(config, 4)));
    for strip in 0..11 {
        read(&mut engine, strip * STRIP);
        read(&mut engine, strip * STRIP + 1);
    }
    assert_eq!((border(&engine).0, lens(&engine).0), (10, 10));
    engine
}

/// Brings N_U down to n_b: the steps of the micro-test in algorithms.md, section 12.
fn culled_to_the_bottom() -> Engine {
    let mut engine = filled();
    read(&mut engine, STRIP + 2); // prefetch hit in U_b: 12, and no more than the cache
    assert_eq!(border(&engine).0, 10);
    assert_eq!(alpha(&engine), (8, 4));
    read(&mut engine, 2 * STRIP); // cache hit in G_b with alpha = 8 / 4
    assert_eq!(border(&engine), (6, false));
    assert_eq!(lens(&engine), (6, 4));
    assert_eq!(alpha(&engine), (8, 4));
    read(&mut engine, 3 * STRIP); // one more: N_U = n_b, and strips are not read any more
    assert_eq!(border(&engine), (2, true));
    engine
}

#[test]
fn the_feedback_moves_the_border_by_exactly_what_equation_7_says() {
    let mut engine = culled_to_the_bottom();
    read(&mut engine, 2 * STRIP + 3); // prefetch hit in U_b: 4 = 2 n_b
    assert_eq!(border(&engine), (4, false));
}

#[test]
fn with_strips_off_a_miss_that_a_strip_would_have_saved_brings_them_back() {
    let mut engine = culled_to_the_bottom();
    read(&mut engine, 30 * STRIP);
    assert_eq!(engine.cache().state(Block(30 * STRIP + 1)), forerun_core::cache::State::Empty, "off");
    read(&mut engine, 30 * STRIP + 1); // the virtual prefetch hit
    assert_eq!(border(&engine), (4, false));
    read(&mut engine, 31 * STRIP);
    assert_ne!(engine.cache().state(Block(31 * STRIP + 1)), forerun_core::cache::State::Empty, "on again");
}

#[test]
fn culling_leaves_what_was_read_and_a_hit_downstream_stays_downstream() {
    let mut engine = culled_to_the_bottom();
    let line = engine.cache().find(Block(5 * STRIP)).expect("downstream, not evicted");
    assert_eq!(asp(&engine).tiers().place(line), Tier::Down);
    assert_eq!((engine.cache().line(line).cached, engine.cache().line(line).unread), (2, 0));
    read(&mut engine, 5 * STRIP + 1);
    assert_eq!(asp(&engine).tiers().place(line), Tier::Down);
    read(&mut engine, 5 * STRIP + 3); // a miss brings it up
    assert_eq!(asp(&engine).tiers().place(line), Tier::Up);
}

#[test]
fn a_reborn_strip_keeps_what_was_read_in_its_past_life() {
    let config = AspConfig { cost_test: false, fixed_upstream: Some(2), ..AspConfig::new(4) };
    let mut engine = layout(4 * STRIP).engine_with(Scheme::of(Asp::new(config, 4)));
    let strips = |engine: &mut Engine, list: &[u64]| list.iter().for_each(|s| read(engine, s * STRIP));
    strips(&mut engine, &[0]);
    read(&mut engine, 2);
    // A sibling lives on while strip 0 is pushed out.
    for other in 8..30 {
        strips(&mut engine, &[1, other]);
    }
    let ghost = engine.cache().find(Block(0)).expect("remembered");
    assert!(asp(&engine).is_ghost(ghost) && engine.cache().line(ghost).is_empty());
    read(&mut engine, 1); // born again: blocks 0 and 2 were read in the past life, 3 was not
    strips(&mut engine, &[40, 44, 48]); // pushed downstream and culled
    assert_eq!(asp(&engine).tiers().place(ghost), Tier::Down);
    let here: Vec<bool> = engine.cache().cells(ghost).map(|c| c.slot.is_some()).collect();
    assert_eq!(here, [true, true, true, false]);
}

/// What must hold after every input.
fn invariants(asp: &Asp, cache: &Cache, stripe_strips: u64) -> Result<(), String> {
    let tiers = asp.tiers();
    let (up, down): (Vec<LineId>, Vec<LineId>) =
        (tiers.strips(Tier::Up).collect(), tiers.strips(Tier::Down).collect());
    if (up.len() as u64, down.len() as u64) != (tiers.up_len(), tiers.down_len())
        || tiers.up_len() > asp.upstream_max()
    {
        return Err(format!("|U| = {} of {}, N_U = {}", up.len(), tiers.up_len(), asp.upstream_max()));
    }
    let bottom = tiers.bottom() as usize;
    let ub: BTreeSet<LineId> = up.iter().rev().take(bottom).copied().collect();
    let gb: BTreeSet<LineId> = up.iter().chain(&down).rev().take(bottom).copied().collect();
    let occupied: u64 = ub.iter().map(|&l| u64::from(cache.line(l).occupied())).sum();
    let cached: u64 = gb.iter().map(|&l| u64::from(cache.line(l).cached)).sum();
    if tiers.alpha_counts() != (occupied, cached) {
        return Err(format!("alpha {:?}, a recount {occupied} {cached}", tiers.alpha_counts()));
    }
    let (mut none, mut strip) = (0, 0);
    let mut alive = BTreeSet::new();
    for id in (0..cache.lines_made() as u32).map(LineId) {
        let listed = tiers.place(id) != Tier::Out;
        if tiers.in_ub(id) != ub.contains(&id) || tiers.in_gb(id) != gb.contains(&id) {
            return Err(format!("segments of {id:?}"));
        }
        let line = cache.line(id);
        if listed != (line.used && !line.is_empty()) {
            return Err(format!("{id:?} is listed: {listed}, {line:?}"));
        }
        if listed {
            alive.insert(line.number / stripe_strips);
        }
        none += asp.costs_of(id).0.0;
        strip += asp.costs_of(id).1.0;
    }
    if asp.costs() != (Nanos(none), Nanos(strip)) {
        return Err(format!("costs {:?}, a recount {none} {strip}", asp.costs()));
    }
    for id in (0..cache.lines_made() as u32).map(LineId) {
        let line = cache.line(id);
        let ghost = line.used && line.is_empty();
        if ghost != asp.is_ghost(id) || ghost && !alive.contains(&(line.number / stripe_strips)) {
            return Err(format!("{id:?} is a ghost: {ghost}, {}", asp.is_ghost(id)));
        }
    }
    Ok(())
}

fn watched(seed: u64, cache_strips: u64, ablation: u8, beside: bool) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut config = AspConfig::new(cache_strips);
    match ablation {
        1 => config.ghosts = false,
        2 => config.cost_test = false,
        3 => config.fixed_upstream = Some(2),
        _ => {}
    }
    let layout = layout(cache_strips * STRIP);
    let members = Members::new(array(layout.array, layout.member_blocks));
    let stripe_strips = members.array.stripe_strips();
    let scheme = Scheme::of(Asp::new(config, stripe_strips));
    let scheme = if beside { scheme.with(Wild(Rng::new(seed))) } else { scheme };
    let chances = Chances {
        ops: 300,
        depth: rng.pick(&[1, 4, 12]),
        writes: rng.pick(&[0, 20]),
        durable: 10,
        flushes: 1,
        sequential: rng.pick(&[0, 60, 95]),
        extent_max: rng.pick(&[1, 6]),
        early: 50,
        short: rng.pick(&[0, 5]),
        fail: rng.pick(&[0, 1]),
        flaky: 1,
        may_fail: false,
    };
    let engine = layout.engine_with(scheme);
    let check = move |engine: &Engine| invariants(asp(engine), engine.cache(), stripe_strips);
    Host::new(vec![engine], members, chances, seed).with_check(check).run()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn lists_segments_costs_and_ghosts_equal_a_recount_after_every_input(
        seed in 0_u64..1 << 48,
        cache_strips in 3_u64..24,
        ablation in 0_u8..4,
        beside in any::<bool>(),
    ) {
        prop_assert_eq!(watched(seed, cache_strips, ablation, beside), Ok(()));
    }
}
