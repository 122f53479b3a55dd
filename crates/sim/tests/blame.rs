//! Readers' waiting by cause: the causes sum to it, on every kind of load and stack; and each is named where it is the one.

#![allow(missing_docs)]

use forerun_sim::input::Input;
use forerun_sim::report::{BlameReport, RunReport};
use forerun_sim::run::run;
use forerun_sim::said::Said;
use forerun_sim::spec::{RunSpec, SPEC_VERSION};
use forerun_sim::workload::Workload;
use proptest::prelude::{ProptestConfig, any, prop, proptest};

fn spec(scheme: &str) -> RunSpec {
    RunSpec {
        spec_version: SPEC_VERSION,
        forerun: "test".into(),
        input: "test".into(),
        map: Said::of("concat"),
        fit: Said::of(""),
        repeat: 1,
        scheme: Said::of(scheme),
        array: Said::of("raid0:3x64KiB"),
        device: Said::of("cheetah-15k4"),
        scheduler: Said::of("none"),
        cache_bytes: 8 << 20,
        mode: Said::of("closed:1"),
        seed: 1,
        write: Said::of("back"),
        cpu: Said::of("xeon-2005"),
        ..RunSpec::default()
    }
}

fn took(line: &str, spec: &RunSpec) -> RunReport {
    run(&Input::of_workload(line, Workload::parse(line).expect("a workload")), spec, &|_| {}).expect("runs")
}

fn sum(blame: &BlameReport) -> u64 {
    blame.causes().iter().map(|(_, ns)| ns).sum()
}

/// The share of the readers' time that a cause has.
fn share(run: &RunReport, cause: &str) -> f64 {
    let (_, ns) = run.blame.causes().into_iter().find(|(name, _)| *name == cause).expect("a cause");
    forerun_sim::report::ratio(ns, run.blame.reads_ns)
}

const LOADS: [&str; 5] = [
    "forward:processes=4,size=8MiB,block=4KiB",
    "random:requests=600,size=64MiB",
    "random:requests=600,size=16MiB,processes=3",
    "forward:processes=2,size=6MiB,block=64KiB and random:requests=300,size=32MiB",
    "forward:processes=1,size=3MiB,block=2MiB",
];
const SCHEMES: [&str; 8] =
    ["none", "strip", "asp", "msp", "asp+msp", "linux-6", "asp+msp+seqp:128KiB", "grain"];
const DEVICES: [&str; 3] = ["cheetah-15k4", "nvme-pcie4", "gp3"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_causes_sum_to_what_readers_waited(
        load in prop::sample::select(&LOADS[..]),
        scheme in prop::sample::select(&SCHEMES[..]),
        device in prop::sample::select(&DEVICES[..]),
        host in any::<bool>(),
        cache in prop::sample::select(&[0_u64, 2 << 20, 64 << 20][..]),
        depth in 1_u64..5,
    ) {
        let spec = RunSpec {
            device: Said::of(device),
            host_cache_bytes: if host || scheme.contains("linux") || scheme.contains("seqp") { 4 << 20 } else { 0 },
            cache_bytes: cache,
            mode: Said::of(&format!("closed:{depth}")),
            ..spec(scheme)
        };
        let run = took(load, &spec);
        assert_eq!(sum(&run.blame), run.blame.reads_ns, "{:?}", run.blame);
        // Nothing is written, so what readers waited is the time of all requests.
        let all = run.latency_ns.mean * run.blame.reads as f64;
        let reads = run.blame.reads_ns as f64;
        assert!((reads - all).abs() <= reads * 1e-6, "{reads} of {all}");
        // Devices work no longer than they are busy.
        let worked = run.blame.spindle_demand_ns + run.blame.spindle_ahead_ns + run.blame.spindle_writes_ns;
        assert!(worked <= run.devices.iter().map(|device| device.busy_ns).sum::<u64>(), "{worked}");
    }
}

#[test]
fn what_is_read_for_the_first_time_was_not_foreseen_and_what_is_read_again_had_no_memory() {
    let once = took("forward:processes=1,size=16MiB,block=64KiB", &spec("none"));
    assert!(share(&once, "no prediction") > 0.8, "{:?}", once.blame);
    let twice = took("forward:processes=1,size=16MiB,block=64KiB,passes=2", &spec("none"));
    assert!((0.3..0.7).contains(&share(&twice, "too little memory")), "{:?}", twice.blame);
    let kept = took("forward:processes=1,size=4MiB,block=64KiB,passes=2", &spec("none"));
    assert_eq!(kept.blame.memory_ns, 0, "what stays in memory is not missed");
}

#[test]
fn strips_that_memory_cannot_hold_are_evicted_before_they_are_used() {
    // Every sixteenth block in turn: each strip is come back to after all the others.
    let load = "stride:size=16MiB,block=4KiB,stride=16";
    let tight = took(load, &RunSpec { cache_bytes: 4 << 20, ..spec("strip") });
    assert!(share(&tight, "evicted before use") > 0.7, "{:?}", tight.blame);
    let roomy = took(load, &RunSpec { cache_bytes: 64 << 20, ..spec("strip") });
    assert_eq!(roomy.blame.evicted_ns, 0, "{:?}", roomy.blame);
}

#[test]
fn who_finds_no_memory_free_waits_for_memory() {
    let run = took(
        "forward:processes=128,size=16MiB,block=4KiB",
        &RunSpec { cache_bytes: 2 << 20, ..spec("strip") },
    );
    assert!(share(&run, "too little memory") > share(&run, "no prediction"), "{:?}", run.blame);
}

#[test]
fn many_readers_of_one_disk_wait_for_the_device() {
    let one = RunSpec { array: Said::of("single:64KiB"), ..spec("none") };
    let run = took("random:requests=1600,size=512MiB,processes=16", &one);
    assert!(share(&run, "device") > 0.8, "{:?}", run.blame);
    let alone = took("random:requests=200,size=512MiB,processes=1", &one);
    assert_eq!(alone.blame.device_ns, 0, "{:?}", alone.blame);
}

#[test]
fn a_reader_that_catches_up_with_its_read_ahead_finds_it_late() {
    let cached = RunSpec { host_cache_bytes: 16 << 20, cache_bytes: 0, ..spec("linux-6") };
    let run = took("forward:processes=1,size=32MiB,block=64KiB", &cached);
    assert!(share(&run, "late") > share(&run, "no prediction"), "{:?}", run.blame);
    assert!(run.blame.spindle_ahead_ns > run.blame.spindle_demand_ns, "{:?}", run.blame);
}
