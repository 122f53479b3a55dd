//! Tests of the presets: that each loads, means what it says, and reaches the numbers that it cites.

use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;

use super::*;
use crate::device::Command;
use crate::random::SplitMix;

/// Runs `count` commands, `depth` at a time: (end, mean latency), both in nanoseconds.
fn closed_loop(
    device: &mut dyn Device,
    op: Op,
    count: u64,
    depth: u64,
    mut next: impl FnMut(u64) -> (u64, u64),
) -> (u64, u64) {
    let (mut issued, mut ended, mut now, mut waited) = (0, 0, 0, 0);
    let mut since = std::collections::BTreeMap::new();
    while ended < count {
        while issued < count && issued - ended < depth {
            let (lba, sectors) = next(issued);
            since.insert(issued, now);
            let command = Command { id: issued, op, lba, sectors, context: Context(0), read_ahead: false };
            device.submit(Nanos(now), command);
            issued += 1;
        }
        let event = device.next_event().expect("commands are under way");
        device.advance(event);
        now = now.max(event.0);
        while let Some(done) = device.pop() {
            waited += done.at.0 - since.remove(&done.id).expect("each ends once");
            ended += 1;
        }
    }
    (now, waited / count)
}

fn build(name: &str) -> Box<dyn Device> {
    Preset::load(name).expect("shipped").build(&BuildOptions::default()).expect("consistent")
}

fn random_latency_us(name: &str) -> f64 {
    let mut device = build(name);
    let blocks = device.sectors() / 8;
    let mut random = SplitMix::new(7);
    let (_, mean) = closed_loop(&mut *device, Op::Read, 4000, 1, |_| (random.below(blocks) * 8, 8));
    mean as f64 / 1e3
}

/// Megabytes a second of long sequential commands, four at a time.
fn sequential_mb_per_s(name: &str, op: Op) -> f64 {
    let mut device = build(name);
    let (count, sectors) = (2000, 512);
    let (end, _) = closed_loop(&mut *device, op, count, 4, |i| (i * sectors, sectors));
    (count * sectors * 512) as f64 * 1e3 / end as f64
}

fn assert_near(what: &str, value: f64, stated: f64, share: f64) {
    assert!((value / stated - 1.0).abs() <= share, "{what}: {value:.2} against {stated}");
}

#[test]
fn every_shipped_preset_loads_and_builds_and_comes_back_from_its_own_toml() {
    for name in Preset::names() {
        let preset = Preset::load(name).expect("loads");
        assert!(!preset.about().is_empty() && !preset.sources().is_empty(), "{name}");
        let device = preset.build(&BuildOptions::default()).expect("builds");
        assert!(device.sectors() > 1_000_000, "{name}");
        let text = preset.to_toml().expect("writes");
        assert!(text.lines().all(|line| line.len() <= 130 || line.contains('"')), "{name}");
        assert_eq!(Preset::parse(name, &text).expect("reads"), preset, "{name}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_file() {
    let good = Preset::load("cheetah-15k4").expect("loads").to_toml().expect("writes");
    for (from, to, key) in
        [("rpm =", "rpn =", "rpn"), ("segments =", "segmants =", "segmants"), ("depth =", "deep =", "deep")]
    {
        let error =
            Preset::parse("my.toml", &good.replacen(from, to, 1)).expect_err("unknown key").to_string();
        assert!(error.starts_with("my.toml: ") && error.contains(key), "{error}");
    }
    let error = Preset::load("no-such-device").expect_err("unknown").to_string();
    assert!(error.contains("no-such-device") && error.contains("cheetah-15k4"), "{error}");
}

/// Latency, read and write rate as measured by the authors of the flashy slides.
const SLIDES: &[(&str, f64, f64, f64)] = &[
    ("vertex", 100.0, 170.0, 180.0),
    ("vertex2", 100.0, 170.0, 203.0),
    ("x25-m", 65.0, 265.0, 81.0),
    ("intel-510", 65.0, 215.0, 212.0),
];

#[test]
fn the_flash_drives_of_the_slides_have_their_latency_and_measured_rates_within_five_percent() {
    for &(name, latency_us, read, write) in SLIDES {
        assert_near(name, random_latency_us(name), latency_us, 0.05);
        assert_near(name, sequential_mb_per_s(name, Op::Read), read, 0.05);
        assert_near(name, sequential_mb_per_s(name, Op::Write), write, 0.05);
    }
}

#[test]
fn the_flash_drives_have_their_stated_random_rates() {
    for (name, stated) in [("x25-m", 35_000.0), ("vertex", 12_500.0), ("intel-510", 20_000.0)] {
        let mut device = build(name);
        let blocks = device.sectors() / 8;
        let mut random = SplitMix::new(3);
        let (end, _) = closed_loop(&mut *device, Op::Read, 20_000, 32, |_| (random.below(blocks) * 8, 8));
        assert_near(name, 20_000.0 * 1e9 / end as f64, stated, 0.05);
    }
}

/// What vendors state: reads of 4 KiB a second at depth 1 and at depth, MB/s of reads in order.
const STATED: &[(&str, f64, u64, f64, f64)] = &[
    ("hdd-20tb", 83.0, 16, 168.0, 285.0),
    ("sata-qlc", 11_000.0, 32, 98_000.0, 560.0),
    ("nvme-pcie4", 22_000.0, 512, 1_400_000.0, 7_450.0),
    ("nvme-pcie5", 22_000.0, 512, 1_850_000.0, 14_700.0),
];

#[test]
fn the_drives_of_today_have_their_stated_rates() {
    for &(name, alone, depth, stated, in_order) in STATED {
        let rate = |depth: u64| {
            let mut device = build(name);
            let blocks = device.sectors() / 8;
            let mut random = SplitMix::new(3);
            let (end, _) =
                closed_loop(&mut *device, Op::Read, 20_000, depth, |_| (random.below(blocks) * 8, 8));
            20_000.0 * 1e9 / end as f64
        };
        assert_near(name, rate(1), alone, 0.03);
        assert_near(name, rate(depth), stated, 0.05);
        assert_near(name, sequential_mb_per_s(name, Op::Read), in_order, 0.05);
    }
}

#[test]
fn one_request_of_an_object_store_is_slow_and_many_are_not() {
    let run = |count: u64, depth: u64| {
        let mut device = build("object-store");
        // 8 MiB each.
        let (end, _) = closed_loop(&mut *device, Op::Read, count, depth, |i| (i * 16_384, 16_384));
        count as f64 * 8.0 * 1e9 / end as f64
    };
    assert!((30.0..45.0).contains(&run(50, 1)), "8 MiB after 0.1 s at 83 MiB/s: {}", run(50, 1));
    assert_near("MiB/s of many", run(4000, 200), 2_980.0, 0.06);
}

#[test]
fn the_mechanical_drives_meet_the_figures_of_their_class() {
    let latency = random_latency_us("cheetah-15k4");
    assert!((5600.0..5800.0).contains(&latency), "{latency}");
    assert_near("15k4 outer rate", sequential_mb_per_s("cheetah-15k4", Op::Read), 96.0, 0.03);
    assert_near("wd random", random_latency_us("wd-7200"), 13_200.0, 0.02);
    assert_near("wd outer rate", sequential_mb_per_s("wd-7200", Op::Read), 60.0, 0.05);
}

#[test]
fn without_drive_readahead_a_lone_sequential_reader_pays_a_rotation_for_each_block() {
    let preset = Preset::load("cheetah-15k4").expect("loads");
    let time = |drive_readahead| {
        let options = BuildOptions { drive_readahead: Some(drive_readahead), ..BuildOptions::default() };
        let mut device = preset.build(&options).expect("builds");
        closed_loop(&mut *device, Op::Read, 1000, 1, |i| (i * 8, 8)).0
    };
    let (on, off) = (time(true), time(false));
    assert!(on < 1000 * 120_000, "{on}");
    assert!((1000 * 3_900_000..1000 * 4_100_000).contains(&off), "{off}");
}

#[test]
fn the_believed_cost_is_close_to_the_true_mean_and_its_bound_is_never_beaten() {
    for name in ["cheetah-15k4", "wd-7200", "cheetah-15k5", "atlas-10k"] {
        let preset = Preset::load(name).expect("loads");
        let cost = preset.cost_params().expect("consistent");
        let mean_distance = cost.cylinders as f64 / 3.0;
        let root = cost.seek_a_ns * (mean_distance - 1.0).sqrt();
        let seek = cost.seek_min_ns + root + cost.seek_b_ns * (mean_distance - 1.0);
        let believed = seek + (cost.half_rotation_ns + cost.ns_per_block + cost.command_ns) as f64;
        assert_near(name, believed / 1e3, random_latency_us(name), 0.10);
        let outer = preset.outer_rate_bytes_per_s().expect("consistent") as f64 / 1e6;
        assert!(sequential_mb_per_s(name, Op::Read) <= outer, "{name}");
    }
}

#[test]
fn a_cloud_volume_keeps_its_rates_and_its_seed() {
    let run = |seed, count, sectors: u64| {
        let options = BuildOptions { seed, ..BuildOptions::default() };
        let mut device = Preset::load("gp3").expect("loads").build(&options).expect("builds");
        closed_loop(&mut *device, Op::Read, count, 64, |i| ((i * sectors) % 1_000_000, sectors))
    };
    let (end, _) = run(1, 9000, 8);
    assert_near("operations", 9000.0 * 1e9 / end as f64, 3000.0, 0.03);
    let (end, _) = run(1, 2000, 512);
    assert_near("MiB/s", 2000.0 * 0.25 * 1e9 / end as f64, 125.0, 0.03);
    assert_eq!(run(5, 1000, 8), run(5, 1000, 8));
    assert_ne!(run(5, 1000, 8), run(6, 1000, 8));
    let median_near = random_latency_us("gp3");
    assert!((700.0..1000.0).contains(&median_near), "{median_near}");
}

#[test]
fn a_host_queue_can_stand_above_any_preset() {
    for name in Preset::names() {
        let options =
            BuildOptions { host_queue: Some(HostQueueSpec::default()), seed: 1, ..BuildOptions::default() };
        let mut device = Preset::load(name).expect("loads").build(&options).expect("builds");
        let blocks = device.sectors() / 8;
        let mut random = SplitMix::new(1);
        closed_loop(&mut *device, Op::Read, 300, 8, |_| (random.below(blocks) * 8, 8));
    }
}

#[test]
fn a_drive_cache_is_segments_times_a_size_and_only_a_mechanical_drive_has_one() {
    let cache: DriveCache = "64x1MiB,fill".parse().expect("a cache");
    assert_eq!(cache, DriveCache { segments: 64, segment_sectors: 2048, fill: true, off: false });
    assert!(!"16x512KiB".parse::<DriveCache>().expect("a cache").fill);
    for bad in ["", "16", "0x512KiB", "16x0", "16x100B", "5000x512KiB", "16x512KiB,full"] {
        let told = bad.parse::<DriveCache>().expect_err(bad);
        assert!(told.contains("16x512KiB"), "{told}");
    }
    let changed = Preset::load("wd-7200").expect("loads").with_drive_cache(cache).expect("a drive");
    let PresetSpec::Mechanical { drive, .. } = &changed.spec else { panic!("a drive") };
    assert_eq!((drive.cache.segments, drive.cache.min_read_ahead_sectors), (64, 2048));
    let told = Preset::load("nvme").expect("loads").with_drive_cache(cache).expect_err("flash");
    assert!(told.contains("no mechanical drive"), "{told}");
}

#[test]
fn without_its_cache_a_drive_neither_hits_nor_reads_on_and_a_write_ends_on_the_platter() {
    let took = |preset: &Preset, op: Op, lbas: &[u64]| {
        let mut device: Box<dyn Device> = preset.build(&BuildOptions::default()).expect("builds");
        let mut now = Nanos::ZERO;
        for (id, &lba) in (0..).zip(lbas) {
            let command = Command { id, op, lba, sectors: 8, context: Context(0), read_ahead: false };
            device.submit(now, command);
            let mut ended = None;
            while ended.is_none() {
                now = device.next_event().expect("it is outstanding").max(now);
                device.advance(now);
                ended = device.pop();
            }
        }
        now
    };
    let with = Preset::load("wd-7200").expect("loads");
    let off = with.clone().with_drive_cache("off".parse().expect("a cache")).expect("a drive");
    let again = [4_000, 4_000, 4_008];
    assert!(took(&off, Op::Read, &again) > took(&with, Op::Read, &again));
    let through = with.clone().with_write_cache(false).expect("a drive");
    let back = with.clone().with_write_cache(true).expect("a drive");
    assert!(took(&through, Op::Write, &[9_000]) > took(&back, Op::Write, &[9_000]));
    assert!(off.with_write_cache(true).expect_err("there is none").contains("--drive-cache off"));
    let flash = Preset::load("nvme").expect("loads");
    let slow = flash.clone().with_write_cache(false).expect("a buffer to switch off");
    assert!(took(&slow, Op::Write, &[0]) > took(&flash, Op::Write, &[0]));
    assert!(Preset::load("gp3").expect("loads").with_write_cache(false).is_err());
}
