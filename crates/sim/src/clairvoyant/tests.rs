//! What the two lines promise, on specs small enough to run in a moment.

use super::{assert_best, assert_bound, bound, settle};
use crate::input::Input;
use crate::report::RunReport;
use crate::run::run;
use crate::said::Said;
use crate::spec::{RunSpec, SPEC_VERSION};
use crate::workload::Workload;
use forerun_core::access::Op;
use forerun_core::units::Nanos;
use forerun_trace::record::{Name, Record, Trace};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};

fn spec(scheme: &str) -> RunSpec {
    RunSpec {
        spec_version: SPEC_VERSION,
        forerun: "test".into(),
        input: "test".into(),
        input_hash: String::new(),
        map: Said::of("concat"),
        fit: Said::of(""),
        repeat: 1,
        scheme: Said::of(scheme),
        array: Said::of("raid0:3x64KiB"),
        device: Said::of("cheetah-15k4"),
        drive_readahead: None,
        drive_cache: Said::of(""),
        scheduler: Said::of("none"),
        cache_bytes: 8 << 20,
        host_cache_bytes: 0,
        mode: Said::of("closed:1"),
        seed: 1,
        write: Said::of("back"),
        cpu: Said::of("xeon-2005"),
        bus_bytes_per_s: 0,
        buffer_cost_ns: 0,
        failed: Vec::new(),
        skip_bad: false,
        ..RunSpec::default()
    }
}

fn input(line: &str) -> Input {
    Input::of_workload(line, Workload::parse(line).unwrap())
}

fn took(line: &str, spec: &RunSpec) -> RunReport {
    run(&input(line), spec, &|_| {}).unwrap()
}

/// `bound` and all of `schemes` on one input, checked against each other.
fn compared(line: &str, with: &RunSpec, schemes: &[&str]) -> Vec<RunReport> {
    let all = std::iter::once(&"bound").chain(schemes);
    let mut runs: Vec<RunReport> =
        all.map(|scheme| took(line, &RunSpec { scheme: Said::of(scheme), ..with.clone() })).collect();
    settled(&mut runs);
    runs
}

/// Checks runs of one comparison against its two references.
fn settled(runs: &mut [RunReport]) {
    assert_bound(runs);
    settle(runs);
    assert_best(runs);
    assert_bound(runs);
}

const SCHEMES: &[&str] = &["none", "strip", "asp", "msp", "asp+msp", "oracle"];

#[test]
fn no_scheme_beats_the_bound_and_the_oracle_beats_none_where_there_is_something_to_foresee() {
    // Sequential; a loop over more than the cache; several readers; random reads of a small set.
    for line in [
        "forward:processes=1,size=16MiB,block=4KiB",
        "forward:processes=1,size=16MiB,block=64KiB,passes=4",
        "forward:processes=4,size=32MiB,block=16KiB",
        "reverse:processes=2,size=8MiB,block=8KiB",
    ] {
        let runs = compared(line, &spec("none"), SCHEMES);
        let (none, oracle) = (&runs[1], &runs[6]);
        assert!(oracle.elapsed_ns <= none.elapsed_ns, "{line}: {} > {}", oracle.elapsed_ns, none.elapsed_ns);
        assert!(oracle.precision > 0.99, "{line}: what is foreseen is used: {:?}", oracle.counts);
    }
}

#[test]
fn the_same_spec_gives_the_same_oracle_and_the_same_bound() {
    let line = "random:processes=3,size=16MiB,block=8KiB,requests=300";
    for scheme in ["oracle", "bound"] {
        assert_eq!(took(line, &spec(scheme)), took(line, &spec(scheme)));
    }
}

#[test]
fn where_only_the_page_cache_has_memory_the_oracle_works_there() {
    let with = RunSpec { cache_bytes: 0, host_cache_bytes: 8 << 20, ..spec("none") };
    let runs = compared("forward:processes=2,size=16MiB,block=4KiB", &with, &["none", "seqp", "oracle"]);
    assert!(runs[3].elapsed_ns < runs[1].elapsed_ns);
    assert_eq!(runs[3].layers[0].counts.prefetched_wasted, 0);
    let without = RunSpec { cache_bytes: 0, ..spec("none") };
    let runs = compared("forward:processes=1,size=1MiB,block=4KiB", &without, &["none", "oracle"]);
    assert_eq!(runs[1].elapsed_ns, runs[2].elapsed_ns, "nowhere to prefetch into");
}

#[test]
fn on_every_device_no_scheme_beats_the_oracle_and_foresight_alone_beats_reading_on_demand() {
    for device in forerun_disk::preset::Preset::names() {
        for (line, least) in [
            ("random:processes=2,size=8MiB,block=4KiB,requests=400", 1.2),
            ("zipf:processes=4,size=8MiB,block=4KiB,requests=400,writes=20%", 1.0),
            ("forward:processes=2,size=8MiB,block=16KiB", 1.0),
        ] {
            let with = RunSpec {
                device: Said::of(device),
                cache_bytes: 2 << 20,
                host_cache_bytes: 2 << 20,
                ..spec("none")
            };
            let alone = took(line, &RunSpec { scheme: Said::of("oracle"), ..with.clone() });
            let runs = compared(line, &with, &["none", "strip", "asp+msp+linux-6", "oracle"]);
            let none = &runs[1];
            let times = |run: &RunReport| none.elapsed_ns as f64 / run.elapsed_ns as f64;
            assert!(times(&alone) >= least, "{line} on {device}: {} × none", times(&alone));
            assert!(runs[4].elapsed_ns <= alone.elapsed_ns, "{line} on {device}");
        }
    }
}

#[test]
fn a_scheme_that_was_faster_than_foresight_becomes_the_reference_and_is_named() {
    let line = "forward:processes=1,size=1MiB,block=4KiB";
    let mut runs = compared(line, &spec("none"), &["none", "strip", "oracle"]);
    runs[2].elapsed_ns = runs[0].elapsed_ns.max(runs[3].elapsed_ns / 2);
    settle(&mut runs);
    let (strip, oracle) = (&runs[2], &runs[3]);
    assert_eq!((oracle.found_by.as_deref(), oracle.scheme.as_str()), (Some("strip"), "oracle"));
    assert_eq!((oracle.elapsed_ns, strip.share_of_clairvoyant), (strip.elapsed_ns, Some(1.0)));
    assert!(runs[1].share_of_clairvoyant.is_some_and(|share| share < 1.0));
    assert_eq!(runs[0].share_of_clairvoyant, None, "a bound is no run");
}

#[test]
fn what_is_dirty_is_not_pushed_out_for_what_is_read_ahead() {
    // Under write-back; a clairvoyant that evicts its own prefetches reads everything several times.
    let line = "zipf:processes=4,size=32MiB,block=4KiB,requests=4000,writes=40%";
    let run = took(line, &RunSpec { cache_bytes: 4 << 20, ..spec("oracle") });
    assert!(run.found_by.as_deref().is_some_and(|by| by.starts_with("foresight")), "{:?}", run.found_by);
    assert!(run.amplification < 2.0, "it reads {} × what is asked for", run.amplification);
}

#[test]
fn thinking_bounds_a_run_that_reads_little() {
    let line = "forward:processes=1,size=1MiB,block=4KiB,think=10ms";
    let bound = bound(&input(line), &spec("bound")).unwrap();
    assert!(bound.elapsed_ns >= 2_550_000_000, "{}", bound.elapsed_ns);
    assert_eq!(bound.bytes_from_devices, 1 << 20);
    assert_eq!((bound.counts.blocks_read, bound.layers.len(), bound.devices.len()), (0, 0, 3));
}

/// One-line workloads of all kinds, over a few MiB.
fn lines() -> impl Strategy<Value = String> {
    let shape = prop_oneof![Just("forward"), Just("reverse"), Just("stride"), Just("random"), Just("zipf")];
    let sizes = (1_u64..4, 1_u64..12, prop_oneof![Just("4KiB"), Just("12KiB"), Just("64KiB"), Just("3MiB")]);
    (shape, sizes, prop_oneof![Just("0%"), Just("20%")], 1_u64..4, prop_oneof![Just("0us"), Just("200us")])
        .prop_map(|(shape, (processes, size, block), writes, passes, think)| {
            let tail = if matches!(shape, "random" | "zipf") {
                let requests = if block == "3MiB" { 12 } else { 200 };
                format!("requests={requests}")
            } else {
                format!("passes={passes}")
            };
            let size = size.max(if block == "3MiB" { 3 * processes } else { 1 });
            format!(
                "{shape}:processes={processes},size={size}MiB,block={block},writes={writes},think={think},{tail}"
            )
        })
}

fn machines() -> impl Strategy<Value = RunSpec> {
    let array =
        prop_oneof![Just("single"), Just("raid0:2x64KiB"), Just("raid5:3x32KiB"), Just("raid1:2x64KiB")];
    let device = prop_oneof![Just("cheetah-15k4"), Just("wd-7200"), Just("x25-m"), Just("gp3")];
    let caches = prop_oneof![Just((2_u64, 0_u64)), Just((4, 2)), Just((0, 2)), Just((0, 0))];
    let rest = (prop_oneof![Just("closed:1"), Just("closed:3")], any::<bool>(), 0_u64..2, any::<bool>());
    (array, device, caches, rest).prop_map(|(array, device, (cache, host), (mode, through, bus, failed))| {
        RunSpec {
            array: Said::of(array),
            device: Said::of(device),
            cache_bytes: cache << 20,
            host_cache_bytes: host << 20,
            mode: Said::of(mode),
            write: Said::of(if through { "through" } else { "back" }),
            bus_bytes_per_s: bus * 50_000_000,
            failed: if failed && array.starts_with("raid5") { vec![1] } else { Vec::new() },
            ..spec("none")
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_scheme_on_any_hardware_beats_the_bound(line in lines(), with in machines()) {
        compared(&line, &with, SCHEMES);
    }
}

#[test]
fn memory_that_readers_held_is_found_again_without_another_event() {
    let with =
        RunSpec { cache_bytes: 0, host_cache_bytes: 2 << 20, array: Said::of("single"), ..spec("none") };
    compared("random:processes=1,size=3MiB,block=3MiB,writes=20%,requests=12", &with, &["none", "oracle"]);
}

/// A recorded trace of two processes that read and now and then write a small file.
fn trace(requests: &[(u64, u64, u64, bool)]) -> Input {
    let mut now = 0;
    let record = |&(gap, block, blocks, write): &(u64, u64, u64, bool)| {
        now += gap;
        Record {
            time: Some(Nanos::from_micros(now)),
            took: Some(Nanos::from_micros(gap * 2 + block)),
            process: Name(u32::from(block % 2 == 1)),
            offset: block * 4096 + 512 * (gap % 2),
            bytes: blocks * 4096,
            op: if write { Op::Write } else { Op::Read },
            ..Record::BLANK
        }
    };
    let records = requests.iter().map(record).collect();
    let names = vec![String::new(), "other".into()];
    Input::of_trace("trace", "", Trace { names, records, format: "test".into(), ..Trace::default() })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_scheme_beats_the_bound_of_a_trace_in_any_mode(
        requests in vec((0_u64..3000, 0_u64..4096, 1_u64..64, (0_u8..8).prop_map(|w| w == 0)), 1..300),
        mode in prop_oneof![Just("open"), Just("paced"), Just("closed:4")],
        with in machines(),
    ) {
        let input = trace(&requests);
        let run = |scheme: &&str| {
            let with = RunSpec { scheme: Said::of(scheme), mode: Said::of(mode), ..with.clone() };
            run(&input, &with, &|_| {}).unwrap()
        };
        let mut runs: Vec<RunReport> = ["bound"].iter().chain(SCHEMES).map(run).collect();
        settled(&mut runs);
    }
}

#[test]
fn while_nobody_reads_for_long_what_is_read_over_does_not_push_out_the_same_blocks_again_and_again() {
    // Every third block of more than memory holds, twice, with two minutes after the first of them.
    let places = (0..4_000_u64).map(|k| k % 2_000 * 3);
    let requests: Vec<_> = places
        .enumerate()
        .map(|(k, block)| (if k == 1 { 120_000_000 } else { 100 }, block, 1, false))
        .collect();
    let with = RunSpec { cache_bytes: 2 << 20, mode: Said::of("open"), ..spec("oracle") };
    let oracle = run(&trace(&requests), &with, &|_| {}).expect("it ends");
    assert!(oracle.elapsed_ns > 120_000_000_000, "{}", oracle.elapsed_ns);
    assert!(oracle.amplification < 8.0, "{}", oracle.amplification);
}

#[test]
fn where_reads_come_at_times_that_are_given_more_memory_is_no_reason_to_wait() {
    // Every 12 ms eight reads in order, elsewhere.
    let requests: Vec<_> = (0..1_600_u64)
        .map(|k| (if k % 8 == 0 { 12_000 } else { 8 }, k / 8 * 7_919 % 4_096 * 64 + k % 8 * 4, 4, false))
        .collect();
    let waited = |cache: u64| {
        let with = RunSpec {
            cache_bytes: cache,
            array: Said::of("single"),
            mode: Said::of("open"),
            ..spec("oracle")
        };
        run(&trace(&requests), &with, &|_| {}).expect("it ends").latency_ns.mean
    };
    let (little, much) = (waited(4 << 20), waited(512 << 20));
    assert!(much <= little * 1.05, "{much} ns with 512 MiB, {little} with 4");
}

#[test]
fn where_memory_is_small_each_phase_of_the_order_costs_its_positionings() {
    let line = "random:processes=1,size=256MiB,block=4KiB,requests=30000";
    let with = RunSpec {
        cache_bytes: 2 << 20,
        array: Said::of("single"),
        drive_cache: Said::of("2x64KiB"),
        ..spec("none")
    };
    let runs = compared(line, &with, &["none", "strip", "oracle"]);
    let (bound, oracle) = (&runs[0], &runs[3]);
    // The bare transfer at the outer rate.
    let transfer = bound.devices[0].bytes / 4096 * crate::host::hardware(&with).unwrap().outer_ns_per_block;
    assert!(bound.elapsed_ns > 2 * transfer, "{} against {transfer}", bound.elapsed_ns);
    assert!(bound.elapsed_ns * 30 > oracle.elapsed_ns, "{} and {}", bound.elapsed_ns, oracle.elapsed_ns);
}
