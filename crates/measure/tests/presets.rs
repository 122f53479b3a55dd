//! The estimator against every kind of preset, in virtual time: what it finds must predict loads that it never saw.

use forerun_core::units::Nanos;
use forerun_disk::preset::{Preset, PresetSpec};
use forerun_measure::estimate::estimate;
use forerun_measure::found::Estimate;
use forerun_measure::load::{Done, Load, Target};
use forerun_measure::probes::probe;
use forerun_measure::rows;
use forerun_measure::simulated::Simulated;

/// Measures a model, and compares rows of the finding with rows of the model: `(name, truth, predicted)`.
fn judged(truth: &Preset) -> (Estimate, Vec<(&'static str, f64, f64)>) {
    let mut target = Simulated::new(truth, 5).expect("a model");
    let seen = probe(&mut target, 1.0, &mut |_, _| {}).expect("models do not fail");
    let found = estimate(&seen).expect("a preset");
    let preset = Preset { name: "found".into(), spec: found.spec.clone() };
    let rows_of = |preset: &Preset| {
        rows::run(&mut Simulated::new(preset, 9).expect("a model"), 1_500, 20.0).expect("models do not fail")
    };
    let (real, own) = (rows_of(truth), rows_of(&preset));
    let rows = rows::ROWS.into_iter().zip(real.iter().zip(&own));
    (found, rows.map(|(name, (a, b))| (name, a.per_s, b.per_s)).collect())
}

/// Rows of presets that are farther off than a tenth, with what the finding cannot know.
const FARTHER: [(&str, &str, f64); 12] = [
    // Links of 5 MB/s and less, and read-ahead of their time, in DiskSim's own terms.
    ("atlas-10k", "strided", 0.30),
    ("atlas-10k", "4 readers", 0.35),
    ("cheetah-9lp", "strided", 0.25),
    ("hp-c2247a", "4 readers", 0.30),
    ("hp-c2247a", "mixed", 0.20),
    // Which waiting read is served next decides, and its ageing is not seen.
    ("cheetah-15k4", "random 4 KiB, depth 32", 0.14),
    ("cheetah-15k4", "mixed", 0.15),
    // Times scatter six-fold, and the credit returns between probes.
    ("azure-p30", "mixed", 0.13),
    // Dies that wait for one another at random.
    ("nvme", "random 4 KiB, depth 32", 0.15),
    // Fifteen reads of 100 ms are too few for a mean.
    ("object-store", "", 0.20),
    ("nvme-pcie5", "random 4 KiB, depth 32", 0.12),
    ("gp3", "mixed", 0.12),
];

fn allowed(name: &str, row: &str) -> f64 {
    let own = FARTHER.iter().filter(|(preset, start, _)| *preset == name && row.starts_with(start));
    own.map(|(_, _, most)| *most).fold(0.10, f64::max)
}

fn hold(names: impl Iterator<Item = &'static str>, what: &str) {
    for name in names {
        let (found, rows) = judged(&Preset::load(name).expect("a preset"));
        assert_eq!(found.what, what, "{name}");
        for (row, truth, own) in rows {
            let error = own / truth - 1.0;
            assert!(error.abs() <= allowed(name, row), "{name}, {row}: {:+.1}%", error * 100.0);
        }
        let text = found.to_toml("a device", "a test").expect("a file");
        assert_eq!(Preset::parse("its file", &text).expect("a preset").about(), "a device", "{text}");
    }
}

fn of(what: &'static str) -> impl Iterator<Item = &'static str> {
    Preset::names().filter(move |name| {
        let preset = Preset::load(name).expect("a preset");
        let kind = match preset.spec {
            PresetSpec::Mechanical { .. } => "drive with platters",
            PresetSpec::Ssd { .. } => "flash drive",
            PresetSpec::Cloud { .. } => "volume behind a queue",
        };
        kind == what
    })
}

#[test]
fn platters_are_found_and_predict_loads_that_were_not_probed() {
    hold(of("drive with platters"), "drive with platters");
}

#[test]
fn flash_is_found_and_predicts_loads_that_were_not_probed() {
    hold(of("flash drive"), "flash drive");
}

#[test]
fn volumes_are_found_and_predict_loads_that_were_not_probed() {
    hold(of("volume behind a queue"), "volume behind a queue");
}

#[test]
fn a_disk_that_one_thread_serves_in_rounds_is_found_and_small_reads_beside_large_ones_are_predicted() {
    // As the disk of a virtual machine: 60 us a read, 12 us of a thread, 2 GiB a second.
    let text = "kind = \"cloud\"\nabout = \"a disk\"\nsources = []\n[volume]\nsectors = 536870912\noperations_per_s = 83000\n\
                throughput_mib_per_s = 2000\nstream_mib_per_s = 4000\nin_rounds = true\nburst_ms = 0\noperation_bytes = 1048576\n\
                latency_median_us = 58.0\nlatency_p99_us = 90.0\nqueue_depth = 256\n";
    let truth = Preset::parse("rounds", text).expect("a preset");
    let (found, rows) = judged(&truth);
    for (row, truth, own) in rows {
        assert!((own / truth - 1.0).abs() <= 0.10, "{row}: {own:.0} for {truth:.0}");
    }
    let PresetSpec::Cloud { volume, .. } = &found.spec else { panic!("{}", found.what) };
    assert!(volume.in_rounds, "{volume:?}");
}

#[test]
fn the_turn_is_exact_and_the_cache_is_found() {
    let truth = Preset::load("wd-7200").expect("a preset");
    let mut target = Simulated::new(&truth, 5).expect("a model");
    let seen = probe(&mut target, 1.0, &mut |_, _| {}).expect("models do not fail");
    let turn = seen.turn.expect("it turns").period_ns;
    assert!((turn / 8_333_333.0 - 1.0).abs() < 1e-4, "{turn}");
    assert_eq!((seen.cache.reach_sectors, seen.cache.kept, seen.cache.fills), (1024, 16, false));
}

/// A flash drive of 50 us a read on which somebody else is busy for a while: its reads take twice as long.
struct Shared {
    now: u64,
    busy: std::ops::Range<u64>,
}

const QUIET_NS: u64 = 50_000;

impl Target for Shared {
    fn sectors(&self) -> u64 {
        1 << 24
    }

    fn run(&mut self, load: &Load) -> std::io::Result<Vec<Done>> {
        let begun = self.now;
        let lanes =
            load.readers.iter().enumerate().flat_map(|(reader, of)| (0..of.depth).map(move |_| reader));
        let lanes: Vec<usize> = lanes.collect();
        let mut ended = Vec::new();
        while self.now < begun + load.time.0 && (ended.len() as u64) < load.requests {
            let took = if self.busy.contains(&self.now) { 2 * QUIET_NS } else { QUIET_NS };
            let done = |&reader: &usize| Done { reader, lba: 0, issued: self.now, ended: self.now + took };
            ended.extend(lanes.iter().map(done));
            self.now += took;
        }
        Ok(ended)
    }

    fn rest(&mut self, time: Nanos) {
        self.now += time.0;
    }
}

#[test]
fn a_bad_moment_is_one_of_several_and_stands_in_the_interval() {
    let mut target = Shared { now: 0, busy: 0..2_000_000_000 };
    let seen = probe(&mut target, 1.0, &mut |_, _| {}).expect("it does not fail");
    let lone = seen.point("random 4 KiB, depth 1").expect("a point");
    let quiet = QUIET_NS as f64;
    assert!(lone.mean_ns < 1.5 * quiet, "{} ns", lone.mean_ns);
    assert!(lone.mean_ns - lone.half_ns <= quiet, "{} ± {} ns", lone.mean_ns, lone.half_ns);
}
