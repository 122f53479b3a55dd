//! What a scheme says about its own switches: which way, when, and from which numbers.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::engine::{Engine, Input, WriteMode};
use forerun_core::policy::decisions::Decision;
use forerun_core::registry::{Layer, SchemeSpec};
use forerun_core::spec::LayerSpec;
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
    engine.settle(time, |_| {});
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
    let [(none, cost_none), (whole, cost_strip), (upstream, _), _] = off.because;
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

/// A layer of 256 MiB under a scheme of the registry, whose device answers at once.
fn layer(scheme: &str, layer: Layer, cache_blocks: u64) -> Engine {
    let (scheme, array) = (SchemeSpec::parse(scheme).expect("a scheme"), array("single:128KiB", 1 << 16));
    let spec = LayerSpec {
        layer,
        strip_aligned: layer == Layer::Array,
        ..LayerSpec::page_cache(scheme, array, cache_blocks)
    };
    spec.build().expect("fits")
}

/// Blocks of a file of these tests.
const FILE: u64 = 4_096;

/// A process reads `blocks` blocks of a file, from its block `at`; what was to wake up before wakes up.
fn ask(engine: &mut Engine, now: Nanos, process: u64, file: u64, at: u64, blocks: u64) {
    while let Some(wake) = engine.next_wake().filter(|&wake| wake <= now) {
        engine.handle(wake, Input::Wake);
        engine.settle(wake, |_| {});
    }
    let within = Extent::new(file * FILE, FILE);
    let extent = Extent::new(within.start.0 + at, blocks);
    let access = Access { within, ..Access::read(Context::new(process, file), extent) };
    engine.handle(now, Input::Read { id: now.0, access });
    engine.settle(now, |_| {});
}

/// Switch, what it turned to, and of which number.
fn turns(seen: &[Decision]) -> Vec<(&'static str, &'static str, Option<u64>)> {
    seen.iter().map(|d| (d.switch, d.to, d.of.map(|of| of.number))).collect()
}

fn number(decision: &Decision, name: &str) -> u64 {
    let found = decision.because.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no {name} in {decision:?}")).1
}

#[test]
fn rpp_says_when_a_file_turns_from_random_to_sequential_to_looping_and_back() {
    let mut engine = layer("rpp(linux-2.6)", Layer::Host, 16_384);
    let mut now = 0;
    let mut at = |engine: &mut Engine, file, block| {
        now += 1;
        ask(engine, Nanos::from_millis(now), 7, file, block, 1);
    };
    for block in [900, 100, 2_000, 500] {
        at(&mut engine, 3, block);
    }
    (0..40).chain(0..10).for_each(|block| at(&mut engine, 3, block));
    at(&mut engine, 3, 1_000);
    (0..10).for_each(|block| at(&mut engine, 5, block));
    let seen = decisions(&mut engine);
    let three = [
        ("rpp", "random", Some(3)),
        ("rpp", "sequential", Some(3)),
        ("rpp", "looping", Some(3)),
        ("rpp", "random", Some(3)),
    ];
    assert_eq!(turns(&seen), [&three[..], &[("rpp", "sequential", Some(5))]].concat());
    assert!(!seen[0].on && seen[1].on && seen[2].on && !seen[3].on);
    let of = seen[0].of.expect("a file");
    assert_eq!(
        (of.kind, of.context, of.extent),
        ("file", Context::new(7, 3), Extent::new(3 * FILE + 100, 1))
    );
    assert_eq!((number(&seen[0], "run_blocks"), number(&seen[0], "jump_blocks")), (1, 801));
    assert_eq!((number(&seen[1], "run_blocks"), number(&seen[1], "threshold_blocks")), (5, 4));
    assert_eq!(number(&seen[2], "loop_blocks"), 40);
    assert_eq!((number(&seen[3], "run_blocks"), number(&seen[3], "jump_blocks")), (10, 990));
}

#[test]
fn regions_says_what_becomes_of_streams_strides_and_scattered_reads() {
    let mut engine = layer("regions(linux-2.6)", Layer::Host, 16_384);
    let mut now = 0;
    let mut at = |engine: &mut Engine, process, block| {
        now += 1;
        ask(engine, Nanos::from_millis(now), process, 0, block, 1);
    };
    // Two scans interleave: each is a stream of its own.
    for step in 0..8 {
        at(&mut engine, 1, 100 + step);
        at(&mut engine, 1, 3_000 + step);
    }
    let seen = decisions(&mut engine);
    assert_eq!(
        turns(&seen),
        [("regions", "sequential", Some(0)), ("regions", "sequential", Some(1))],
        "the jumps between them are no stride"
    );
    // Equal jumps, then one that is not.
    (0..8).for_each(|step| at(&mut engine, 2, 100 + step * 50));
    at(&mut engine, 2, 3_333);
    let seen = decisions(&mut engine);
    let of = seen[0].of.expect("a reader");
    assert_eq!((of.kind, of.context.process(), of.number), ("reader", 2, 0));
    assert_eq!((seen[0].to, seen[0].on, number(&seen[0], "step_blocks")), ("strided", true, 50));
    assert_eq!((seen[1].to, seen[1].on), ("random", false));
    // Reads at random: said once, however many.
    let mut rng = Rng::new(9);
    (0..500).for_each(|_| at(&mut engine, 3, rng.below(FILE / 32) * 32));
    let seen: Vec<Decision> =
        decisions(&mut engine).into_iter().filter(|d| d.of.is_some_and(|of| of.kind == "reader")).collect();
    assert_eq!(turns(&seen), [("regions", "random", Some(0))]);
}

#[test]
fn flashy_says_whom_it_prefetches_for_and_which_way_its_scale_turns() {
    let mut engine = layer("flashy", Layer::Host, 16_384);
    // 40 MB/s for two seconds, then nothing but one read a second elsewhere.
    for step in 0..200 {
        ask(&mut engine, Nanos::from_millis(10 * step), 1, 0, step * 20, 20);
    }
    let first = decisions(&mut engine);
    let of =
        |switch: &str| first.iter().filter(|d| d.switch == switch).map(|d| (d.to, d.on)).collect::<Vec<_>>();
    assert_eq!(of("flashy"), [("on", true)]);
    assert_eq!(of("flashy region"), [("sequential", true)]);
    let fed = first.iter().find(|d| d.switch == "flashy region").expect("seen above");
    let rate = number(fed, "read_bytes_per_s");
    assert!((7_000_000..9_000_000).contains(&rate), "80 KiB every 10 ms is 8 MB/s, not {rate}");
    for second in 3..8 {
        ask(&mut engine, Nanos::from_secs(second), 2, 9, second * 100, 1);
    }
    let then = decisions(&mut engine);
    let ended = then.iter().find(|d| d.switch == "flashy region").expect("the reader has gone");
    assert_eq!((ended.to, ended.on, ended.of.map(|of| of.number)), ("asleep", false, Some(0)));
    assert!(then.iter().any(|d| d.switch == "flashy" && !d.on), "{then:?}");
}

#[test]
fn flashy_says_that_what_it_read_was_in_vain() {
    let mut engine = layer("flashy", Layer::Host, 16_384);
    let mut now = 0;
    for visit in 0..40_u64 {
        // A run long enough to be believed, and then the reader is elsewhere.
        for step in 0..60 {
            now += 10;
            ask(&mut engine, Nanos::from_millis(now), 1, visit % 12, visit / 12 * 1_300 + step * 20, 20);
        }
    }
    let seen = decisions(&mut engine);
    let halved = seen.iter().find(|d| d.to == "halved").unwrap_or_else(|| panic!("{:?}", turns(&seen)));
    assert_eq!((halved.switch, halved.on), ("flashy scale", false));
    assert!(number(halved, "lost_bytes") > number(halved, "used_bytes"));
}

#[test]
fn streams_says_which_streams_it_follows_and_which_are_none() {
    let mut engine = layer("streams(R=128KiB,N=2)", Layer::Array, 4_096);
    let mut now = 0;
    let mut at = |engine: &mut Engine, process, block| {
        now += 1;
        ask(engine, Nanos::from_millis(now), process, 0, block, 16);
    };
    (0..8).for_each(|step| at(&mut engine, 4, step * 16));
    let seen = decisions(&mut engine);
    let of = seen[0].of.expect("a stream");
    assert_eq!(
        (seen[0].switch, seen[0].to, of.kind, of.context.process()),
        ("streams", "admitted", "stream", 4)
    );
    // Requests that stay in its region and go on nowhere.
    for step in 0..40 {
        at(&mut engine, 4, 300 + step * 7 % 13 * 40);
    }
    let seen = decisions(&mut engine);
    let none = seen.iter().find(|d| d.to == "random").unwrap_or_else(|| panic!("{seen:?}"));
    assert!(!none.on && number(none, "sequential_requests") * 4 < number(none, "last_requests"));
    // Another one that nobody asks for any more.
    (0..8).for_each(|step| at(&mut engine, 5, FILE / 2 + step * 16));
    ask(&mut engine, Nanos::from_secs(600), 6, 9, 0, 1);
    let seen = decisions(&mut engine);
    let ended = seen.last().expect("it ended");
    assert!(!ended.on && ["ended", "given up"].contains(&ended.to), "{ended:?}");
    assert!(number(ended, "idle_ns") > 10_000_000_000);
}

#[test]
fn cadence_says_whom_it_refuses_for_time_and_whom_for_memory() {
    let begun = |scheme: &str, cache_blocks, streams| {
        let mut engine = layer(scheme, Layer::Array, cache_blocks);
        for step in 0..8 {
            for stream in 0..streams {
                let now = Nanos::from_millis(step * 100 + stream);
                ask(&mut engine, now, stream, stream, step * 16, 16);
            }
        }
        decisions(&mut engine)
    };
    let seen = begun("cadence(wait=1s,rate=30MiB)", 16_384, 10);
    let refused: Vec<&Decision> = seen.iter().filter(|d| d.to == "refused").collect();
    assert!(seen[0].to == "admitted" && seen[0].on && !refused.is_empty(), "{seen:?}");
    assert_eq!(seen[0].switch, "cadence");
    for decision in &refused {
        assert!(!decision.on && decision.reason.contains("92%"), "{decision:?}");
        assert!(number(decision, "disk_time_percent") >= number(decision, "disk_time_max_percent"));
        let asked = number(decision, "asked_bytes_per_s");
        assert_eq!(
            asked,
            number(decision, "streams") * (30 << 20),
            "the one refused is counted: {decision:?}"
        );
    }
    let seen = begun("cadence(wait=1s,rate=100KiB)", 256, 10);
    let refused = seen.iter().find(|d| d.to == "refused").unwrap_or_else(|| panic!("{seen:?}"));
    assert!(refused.reason.contains("fit in M"), "{refused:?}");
    assert!(number(refused, "memory_bytes") > number(refused, "memory_max_bytes"));
}
