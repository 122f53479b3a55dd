//! What a scheme says about its own switches: which way, when, and from which numbers.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::engine::{Engine, Input, Output, Status, WriteMode};
use forerun_core::policy::decisions::Decision;
use forerun_core::units::{Extent, Nanos};
use support::Rng;
use support::schemes::{Layout, array, build};

fn engine(scheme: &str) -> Engine {
    let layout = Layout {
        array: "raid0:4x16KiB",
        member_blocks: 1024,
        scheme: "asp+msp",
        cache_blocks: 128,
        ahead_blocks_max: 1_000,
        command_blocks_max: 64,
        retain: true,
        write: WriteMode::Through,
    };
    layout.engine_with(build(scheme, 128, &array(layout.array, 1024), 1))
}

fn read(engine: &mut Engine, now: u64, block: u64) {
    let time = Nanos::from_millis(now);
    let access = Access::read(Context(0), Extent::new(block, 1));
    engine.handle(time, Input::Read { id: now, access });
    while let Some(output) = engine.poll() {
        match output {
            Output::Start(start) => {
                engine.handle(time, Input::Done { command: start.command, status: Status::Ok });
            }
            Output::Ready { handle, .. } => engine.handle(time, Input::Release { handle }),
            _ => {}
        }
    }
}

fn decisions(engine: &mut Engine) -> Vec<Decision> {
    let mut seen = Vec::new();
    engine.decisions(&mut seen);
    seen
}

#[test]
fn asp_says_that_random_reads_made_strips_dearer_than_blocks() {
    let mut engine = engine("asp");
    let (blocks, mut rng) = (engine.array().capacity_blocks(), Rng::new(3));
    for now in 0..2_000 {
        read(&mut engine, now, rng.below(blocks));
    }
    let seen = decisions(&mut engine);
    assert!(seen[0].on && seen[0].reason.contains("not been full"), "{:?}", seen[0]);
    let off = seen.iter().find(|decision| !decision.on).expect("random reads switch strips off");
    assert_eq!(off.switch, "asp");
    assert!(off.at > Nanos::ZERO && off.at < Nanos::from_millis(2_000));
    let [(none, cost_none), (whole, cost_strip), (upstream, _)] = off.because;
    assert_eq!((none, whole, upstream), ("cost_none_ns", "cost_strip_ns", "upstream_max_strips"));
    if off.reason.contains("more than") {
        assert!(cost_none < cost_strip, "the numbers are those of the moment: {off:?}");
    }
    assert!(decisions(&mut engine).is_empty(), "each is handed over once");
}

#[test]
fn every_part_of_a_sum_is_heard_and_a_forward_reader_switches_stripes_on() {
    let mut engine = engine("asp+msp");
    for now in 0..512 {
        read(&mut engine, now, now);
    }
    let seen = decisions(&mut engine);
    let of = |part: &str| seen.iter().filter(|d| d.switch == part).copied().collect::<Vec<_>>();
    assert!(of("asp").iter().all(|decision| decision.on), "{seen:?}");
    let msp = of("msp");
    assert!(msp.first().is_some_and(|d| d.on && d.reason.contains("few")), "{seen:?}");
}

#[test]
fn a_scheme_without_a_switch_says_nothing() {
    let mut engine = engine("strip");
    for now in 0..100 {
        read(&mut engine, now, now * 7);
    }
    assert!(decisions(&mut engine).is_empty());
}
