//! How fast the simulator runs on one core: block accesses a second with five mechanical disks and all features on,
//! and disk commands a second of one drive under SPTF.
//!
//! `cargo run --release -p forerun-sim --example bench_sim` prints one JSON object a line; `make bench-sim` calls it.
//! Every figure is the median of [`ROUNDS`] runs; hit ratio and command count stand beside it, so that a faster run
//! that simulates less is seen. pcmark_a is used where the folder of shared traces is present (FORERUN_SHARED).
#![allow(clippy::print_stdout, reason = "the program is its output")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;
use forerun_disk::device::Command;
use forerun_disk::preset::{BuildOptions, Preset};
use forerun_sim::input::Input;
use forerun_sim::random::Rng;
use forerun_sim::report::RunReport;
use forerun_sim::run::run;
use forerun_sim::said::Said;
use forerun_sim::spec::{RunSpec, SPEC_VERSION};
use forerun_trace::ReadOptions;
use serde_json::json;
use std::time::Instant;

/// Runs of each figure.
const ROUNDS: usize = 5;
/// Commands outstanding at the drive.
const DEPTH: u64 = 32;
/// Commands of one round.
const COMMANDS: u64 = 200_000;

fn spec(input: &str, scheme: &str) -> RunSpec {
    RunSpec {
        spec_version: SPEC_VERSION,
        forerun: env!("CARGO_PKG_VERSION").into(),
        input: input.into(),
        input_hash: String::new(),
        skip_bad: false,
        map: Said::of("concat"),
        fit: Said::of(""),
        repeat: 1,
        scheme: Said::of(scheme),
        array: Said::of("raid5:5x128KiB"),
        device: Said::of("cheetah-15k4"),
        drive_readahead: None,
        scheduler: Said::of("anticipatory"),
        cache_bytes: 500 << 20,
        host_cache_bytes: 0,
        mode: Said::of("closed:1"),
        seed: 1,
        write: Said::of("back(dirty=25%,age=30s)"),
        cpu: Said::of("xeon-2005"),
        bus_bytes_per_s: 640_000_000,
        failed: Vec::new(),
        ..RunSpec::default()
    }
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// One input under one scheme, over and over.
fn bench_run(input: &Input, scheme: &str) {
    let spec = spec(&input.given, scheme);
    let mut seconds = Vec::new();
    let mut last: Option<RunReport> = None;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        last = Some(run(input, &spec, &|_| {}).expect("the benchmark's spec is sound"));
        seconds.push(start.elapsed().as_secs_f64());
    }
    let report = last.expect("there is at least one round");
    let seconds = median(seconds);
    let commands: u64 = report.devices.iter().map(|d| d.commands).sum();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = |n: u64| (n as f64 / seconds).round();
    println!(
        "{}",
        json!({
            "bench": "run", "input": input.name, "scheme": scheme, "median_s": seconds,
            "block_accesses_per_s": rate(report.counts.blocks_read), "blocks_read": report.counts.blocks_read,
            "hit_ratio": report.hit_ratio, "device_commands": commands, "device_commands_per_s": rate(commands),
        })
    );
}

/// Random 4 KiB reads at one drive, [`DEPTH`] outstanding, picked by shortest positioning time.
fn bench_sptf() {
    let preset = Preset::load("cheetah-15k4").expect("a shipped preset");
    let mut seconds = Vec::new();
    let mut virtual_s = 0.0;
    for _ in 0..ROUNDS {
        let mut drive = preset.build(&BuildOptions::default()).expect("a shipped preset builds");
        let mut random = Rng::new(1);
        let blocks = drive.sectors() / 8;
        let mut command = |id| Command {
            id,
            op: Op::Read,
            lba: random.below(blocks) * 8,
            sectors: 8,
            context: Context(0),
            read_ahead: false,
        };
        let start = Instant::now();
        let mut issued = 0;
        while issued < DEPTH {
            drive.submit(Nanos::ZERO, command(issued));
            issued += 1;
        }
        let mut now = Nanos::ZERO;
        while let Some(next) = drive.next_event() {
            now = next;
            drive.advance(now);
            while drive.pop().is_some() {
                if issued < COMMANDS {
                    drive.submit(now, command(issued));
                    issued += 1;
                }
            }
        }
        seconds.push(start.elapsed().as_secs_f64());
        virtual_s = now.as_secs_f64();
    }
    let seconds = median(seconds);
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let rate = |s: f64| (COMMANDS as f64 / s).round();
    println!(
        "{}",
        json!({
            "bench": "sptf", "depth": DEPTH, "commands": COMMANDS, "median_s": seconds,
            "commands_per_s": rate(seconds), "iops_in_virtual_time": rate(virtual_s),
        })
    );
}

/// Peak resident memory of this process, from the kernel.
fn peak_memory() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let kib: Option<u64> = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|n| n.parse().ok());
    println!("{}", json!({ "bench": "peak_memory", "kib": kib }));
}

fn main() {
    let forward = Input::load("forward:processes=4,size=2GiB,block=4KiB", &ReadOptions::default());
    let forward = forward.expect("the benchmark's workload is sound");
    for scheme in ["none", "asp+msp"] {
        bench_run(&forward, scheme);
    }
    let shared = std::env::var("FORERUN_SHARED").unwrap_or_else(|_| "../shared".into());
    let trace = format!("{shared}/traces/block/pcmark_a.csv.gz");
    if let Ok(trace) = Input::load(&trace, &ReadOptions::default()) {
        for scheme in ["none", "asp+msp"] {
            bench_run(&trace, scheme);
        }
    }
    bench_sptf();
    peak_memory();
}
