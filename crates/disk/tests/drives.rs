//! Properties of the mechanical drive that any host relies on.

use forerun_core::access::{Context, Op};
use forerun_core::units::Nanos;
use forerun_disk::device::{Command, Device};
use forerun_disk::layout::{LayoutSpec, Mapping, Sparing, ZoneSpec};
use forerun_disk::mechanical::Drive;
use forerun_disk::mechanical::spec::{
    CacheSpec, DriveSpec, LinkSpec, OnOff, OverheadSpec, QueuePolicy, QueueSpec, ReadAhead,
};
use forerun_disk::preset::{BuildOptions, Preset};
use forerun_disk::seek::SeekSpec;
use proptest::prelude::*;

const PERIOD: u64 = 4_000_000;

fn spec() -> DriveSpec {
    let zone = |first_cylinder, last_cylinder, sectors_per_track| ZoneSpec {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
        track_skew_sectors: 40.0,
        cylinder_skew_sectors: 60.0,
        ..ZoneSpec::default()
    };
    DriveSpec {
        surfaces: 2,
        cylinders: 2000,
        rpm: 15_000.0,
        head_switch_us: 300.0,
        write_settle_us: 400.0,
        min_write_seek_us: 0.0,
        drive_readahead: OnOff::On,
        seek: SeekSpec::LeeKatz { min_us: 300.0, avg_us: 3000.0, max_us: 6000.0 },
        cache: CacheSpec { segments: 4, segment_sectors: 512, ..CacheSpec::default() },
        overheads: OverheadSpec::default(),
        link: LinkSpec { read_sector_us: 2.0, write_sector_us: 2.0 },
        queue: QueueSpec::default(),
        layout: LayoutSpec::Zones {
            mapping: Mapping::Serpentine,
            sparing: Sparing::None,
            sectors: None,
            zone: vec![zone(0, 999, 500), zone(1000, 1999, 400)],
        },
    }
}

fn uncached() -> DriveSpec {
    let cache = CacheSpec { enabled: false, fast_write: false, write_prebuffer: false, ..spec().cache };
    DriveSpec { cache, ..spec() }
}

fn command(id: u64, op: Op, lba: u64, sectors: u64) -> Command {
    Command { id, op, lba, sectors, context: Context(0), read_ahead: false }
}

/// Ends of all commands in the order of their ends, when `(time, command)` are submitted.
fn run(drive: &mut Drive, submissions: &[(u64, Command)]) -> Vec<(u64, u64)> {
    let mut ends = Vec::new();
    let mut rest = submissions.iter().peekable();
    loop {
        let event = drive.next_event().map(|at| at.0);
        match (event, rest.peek()) {
            (event, Some((at, command))) if event.is_none_or(|event| *at <= event) => {
                drive.submit(Nanos(*at), *command);
                rest.next();
            }
            (Some(event), _) => drive.advance(Nanos(event)),
            (None, _) => break,
        }
        while let Some(done) = drive.pop() {
            ends.push((done.id, done.at.0));
        }
    }
    ends
}

fn alone(drive: &mut Drive, at: u64, op: Op, lba: u64, sectors: u64) -> u64 {
    run(drive, &[(at, command(at, op, lba, sectors))])[0].1
}

#[test]
fn reading_the_same_sector_again_takes_exactly_one_rotation() {
    let mut drive = Drive::new(&uncached()).expect("valid");
    let mut at = alone(&mut drive, 0, Op::Read, 123_456, 8);
    for _ in 0..20 {
        let end = alone(&mut drive, at, Op::Read, 123_456, 8);
        assert!((end - at).abs_diff(PERIOD) <= 400, "{}", end - at);
        at = end;
    }
}

#[test]
fn a_full_track_takes_a_rotation_and_each_next_track_a_skew() {
    let mut drive = Drive::new(&uncached()).expect("valid");
    let start = alone(&mut drive, 0, Op::Read, 0, 1);
    let end = alone(&mut drive, start, Op::Read, 0, 5000);
    // One rotation less a sector to come round, ten tracks, five switches of surface, four of cylinder, the link.
    let expected = PERIOD + 10 * PERIOD + (5 * 40 + 4 * 60) * (PERIOD / 500);
    assert!((end - start).abs_diff(expected) < 20_000, "{} {expected}", end - start);
}

#[test]
fn a_write_that_must_reach_the_platter_takes_longer_than_the_read_by_its_settling_or_rotations() {
    let (mut reader, mut writer) =
        (Drive::new(&uncached()).expect("valid"), Drive::new(&uncached()).expect("valid"));
    let read = alone(&mut reader, 0, Op::Read, 900_000, 8);
    let write = alone(&mut writer, 0, Op::Write, 900_000, 8);
    assert!(
        write >= read && (write - read) % PERIOD < 20_000 || (write - read) % PERIOD > PERIOD - 20_000,
        "{read} {write}"
    );
}

#[test]
fn a_fast_write_ends_in_the_cache_and_is_read_back_from_it() {
    let mut drive = Drive::new(&spec()).expect("valid");
    assert_eq!(alone(&mut drive, 0, Op::Write, 900_000, 8), 16_000);
    let later = 1_000_000_000;
    assert_eq!(alone(&mut drive, later, Op::Read, 900_000, 8), later + 16_000);
    assert_eq!(drive.stats().bytes_from_drive_cache, 4096);
}

#[test]
fn read_ahead_serves_what_comes_next_and_stops_for_what_does_not() {
    let mut drive = Drive::new(&spec()).expect("valid");
    let first = alone(&mut drive, 0, Op::Read, 10_000, 8);
    let hit = first + 2_000_000;
    assert_eq!(alone(&mut drive, hit, Op::Read, 10_008, 8), hit + 16_000);
    let far = alone(&mut drive, hit + 100_000, Op::Read, 800_000, 8);
    assert!(far - hit > 1_000_000);
    let mut still = DriveSpec { drive_readahead: OnOff::Off, ..spec() };
    still.queue.depth = 1;
    let mut drive = Drive::new(&still).expect("valid");
    let first = alone(&mut drive, 0, Op::Read, 10_000, 8);
    let next = first + 2_000_000;
    assert!(alone(&mut drive, next, Op::Read, 10_008, 8) - next > 1_000_000);
}

#[test]
fn more_streams_than_segments_read_slower_than_as_many() {
    let time = |streams: u64| {
        let mut drive = Drive::new(&spec()).expect("valid");
        let (mut at, mut waited) = (0, 0);
        for round in 0..40 {
            for stream in 0..streams {
                let end = alone(&mut drive, at, Op::Read, stream * 200_000 + round * 8, 8);
                waited += end - at;
                at = end + 3_000_000;
            }
        }
        waited / streams
    };
    assert!(time(8) > 3 * time(3), "{} {}", time(8), time(3));
}

#[test]
fn a_drive_that_fills_its_segments_reads_on_although_commands_wait() {
    // All streams have a command at the drive at any time: its read-ahead never has an idle moment.
    let time = |streams: u64, least: u64| {
        let mut spec = spec();
        spec.cache.min_read_ahead_sectors = least;
        let mut drive = Drive::new(&spec).expect("valid");
        let mut next = vec![1_u64; streams as usize];
        for stream in 0..streams {
            drive.submit(Nanos(0), command(stream, Op::Read, stream * 100_000, 8));
        }
        let mut end = 0;
        while let Some(at) = drive.next_event() {
            drive.advance(at);
            while let Some(done) = drive.pop() {
                end = done.at.0;
                let stream = done.id % streams;
                let round = &mut next[stream as usize];
                if *round < 100 {
                    let read = command(*round * streams + stream, Op::Read, stream * 100_000 + *round * 8, 8);
                    drive.submit(done.at, read);
                    *round += 1;
                }
            }
        }
        end / streams
    };
    assert!(time(3, 0) > 3 * time(3, 512), "{} {}", time(3, 0), time(3, 512));
}

#[test]
fn the_three_policies_choose_as_they_say() {
    let order = |policy| {
        let mut spec = uncached();
        spec.queue = QueueSpec { policy, aging: 0.0, ..QueueSpec::default() };
        let mut drive = Drive::new(&spec).expect("valid");
        let lbas = [500_000, 10_000, 1_700_000, 500_100, 900_000];
        let submissions =
            lbas.iter().zip(0..).map(|(&lba, id)| (id, command(id, Op::Read, lba, 8))).collect::<Vec<_>>();
        run(&mut drive, &submissions).into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    assert_eq!(order(QueuePolicy::Fcfs), [0, 1, 2, 3, 4]);
    assert_eq!(order(QueuePolicy::CLook), [0, 3, 4, 2, 1]);
    assert_eq!(order(QueuePolicy::Sptf)[..2], [0, 3]);
}

#[test]
fn shortest_positioning_time_beats_the_sweep_and_the_sweep_beats_arrival() {
    let time = |policy| {
        let mut spec = uncached();
        spec.queue.policy = policy;
        let mut drive = Drive::new(&spec).expect("valid");
        let mut random = forerun_disk::random::SplitMix::new(9);
        let submissions =
            (0..500).map(|id| (0, command(id, Op::Read, random.below(200_000) * 8, 8))).collect::<Vec<_>>();
        run(&mut drive, &submissions).last().expect("all end").1
    };
    let (sptf, sweep, fcfs) = (time(QueuePolicy::Sptf), time(QueuePolicy::CLook), time(QueuePolicy::Fcfs));
    assert!(sptf < sweep && sweep < fcfs, "{sptf} {sweep} {fcfs}");
}

#[test]
fn aging_bounds_how_long_a_distant_command_waits() {
    let wait = |aging| {
        let mut spec = uncached();
        spec.queue = QueueSpec { policy: QueuePolicy::Sptf, aging, ..QueueSpec::default() };
        let mut drive = Drive::new(&spec).expect("valid");
        let mut random = forerun_disk::random::SplitMix::new(9);
        let mut submissions =
            vec![(0, command(0, Op::Read, 0, 3000)), (1, command(1, Op::Read, 1_700_000, 8))];
        submissions
            .extend((2..400).map(|id| (id * 300_000, command(id, Op::Read, random.below(2000) * 8, 8))));
        run(&mut drive, &submissions).into_iter().find(|(id, _)| *id == 1).expect("ends").1
    };
    assert!(wait(0.2) < wait(0.0) / 2, "{} {}", wait(0.2), wait(0.0));
}

fn any_spec() -> impl Strategy<Value = DriveSpec> {
    let ahead = prop_oneof![
        Just(ReadAhead::None),
        Just(ReadAhead::Track),
        Just(ReadAhead::Cylinder),
        Just(ReadAhead::Segment),
        Just(ReadAhead::Stream),
    ];
    let policy = prop_oneof![Just(QueuePolicy::Fcfs), Just(QueuePolicy::CLook), Just(QueuePolicy::Sptf)];
    (ahead, policy, any::<[bool; 8]>(), 1u32..5, 1u32..20, prop_oneof![Just(0), 0u64..2000]).prop_map(
        |(read_ahead, policy, flags, segments, depth, least)| {
            let mut spec = spec();
            spec.cache.min_read_ahead_sectors = least;
            spec.cache.read_ahead = read_ahead;
            spec.cache.segments = segments;
            spec.cache.enabled = flags[0];
            spec.cache.zero_latency_read = flags[1];
            spec.cache.zero_latency_write = flags[1];
            spec.cache.keep_passing_sectors = flags[2];
            spec.cache.separate_write_segment = flags[3];
            spec.cache.fast_write = flags[4];
            spec.cache.write_prebuffer = flags[5];
            spec.queue.overlap_transfer = flags[6];
            spec.queue.serve_hits_while_busy = flags[7];
            spec.queue.policy = policy;
            spec.queue.depth = depth;
            spec
        },
    )
}

proptest! {
    #[test]
    fn every_command_ends_once_and_not_before_its_data_can_have_moved(
        spec in any_spec(),
        requests in prop::collection::vec((0u64..8_000_000, any::<bool>(), 0u64..1_799_000, 1u64..900, any::<bool>()), 1..120),
    ) {
        let mut drive = Drive::new(&spec).expect("valid");
        let (mut at, mut before) = (0, 0);
        let mut submissions = Vec::new();
        for (id, (gap, write, lba, sectors, near)) in (0..).zip(requests) {
            at += gap;
            let lba = if near { before } else { lba };
            before = lba + sectors;
            if before + 900 > drive.sectors() {
                before = 0;
            }
            submissions.push((at, command(id, if write { Op::Write } else { Op::Read }, lba, sectors)));
        }
        let ends = run(&mut drive, &submissions);
        let mut ids = ends.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..submissions.len() as u64).collect::<Vec<_>>());
        prop_assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        for (id, end) in &ends {
            let (at, command) = submissions[usize::try_from(*id).expect("small")];
            prop_assert!(*end >= at + command.sectors * 2000);
        }
        let stats = drive.stats();
        let moved: u64 = submissions.iter().map(|(_, command)| command.sectors * 512).sum();
        prop_assert_eq!(stats.commands, submissions.len() as u64);
        prop_assert_eq!(stats.bytes_read + stats.bytes_written, moved);
        prop_assert!(stats.bytes_from_drive_cache <= stats.bytes_read);
        prop_assert!(stats.busy.0 <= ends.last().expect("one").1.max(1) + 2_000_000_000);
        let mut again = Drive::new(&spec).expect("valid");
        prop_assert_eq!(run(&mut again, &submissions), ends);
    }
}

/// Bytes a second of 600 reads of 4 KiB, one behind the other, of which the host keeps `depth` waiting.
fn sequential_rate(drive: &mut dyn Device, depth: u64) -> u64 {
    const READS: u64 = 600;
    for k in 0..depth {
        drive.submit(Nanos(0), command(k, Op::Read, k * 8, 8));
    }
    let (mut ended, mut last) = (0, 0);
    while ended < READS {
        let event = drive.next_event().expect("commands wait");
        drive.advance(event);
        while let Some(done) = drive.pop() {
            (ended, last) = (ended + 1, done.at.0);
            let next = depth + ended - 1;
            drive.submit(event, command(next, Op::Read, next * 8, 8));
        }
    }
    READS * 4096 * 1_000_000_000 / last
}

/// A command begins in the instant in which the last sector before it has passed. Counted as not passed, that sector made
/// the drive stop reading ahead and wait for a turn, at depths that hung on how periods divide.
#[test]
fn more_sequential_reads_in_the_queue_are_not_slower() {
    for name in ["wd-7200", "hdd-20tb", "cheetah-15k4", "cheetah-9lp", "atlas-10k"] {
        let preset = Preset::load(name).expect("a shipped preset");
        let rate =
            |depth| sequential_rate(&mut *preset.build(&BuildOptions::default()).expect("a drive"), depth);
        let alone = rate(1);
        for depth in 2..=32 {
            assert!(
                rate(depth) * 20 >= alone * 19,
                "{name}: {} B/s at depth {depth}, {alone} alone",
                rate(depth)
            );
        }
    }
}
