//! A drive with platters: the turn is known; the arm, the zones, the cache and the queue follow.
//!
//! From outside, the places of sectors are known but for a stretch: surfaces and cylinders appear only as their product. So
//! the layout is an effective one, whose tracks pass at the measured rates, and the arm's curve is a table over it. A lone
//! read takes handling, a seek over its distance, and a wait that is spread evenly over a turn; a line through root and
//! distance takes the first two out of many reads. What this leaves (read-ahead shifts the arm, tracks have borders) is taken
//! out by probing the candidate and moving its curve by the difference.

use crate::fit::{candidate, distance};
use crate::found::{Estimate, Value};
use crate::load::{Done, Load, Pattern, Reader, Target as _};
use crate::probes::{Probed, queue_plan, zone_rates};
use crate::rotation::Turn;
use crate::simulated::Simulated;
use crate::statistics::{half_interval, mean};
use forerun_core::units::{BLOCK_BYTES, Nanos, SECTOR_BYTES};
use forerun_disk::layout::{LayoutSpec, Mapping, Sparing, ZoneSpec};
use forerun_disk::mechanical::spec::{
    CacheSpec, DriveSpec, LinkSpec, OnOff, OverheadSpec, QueuePolicy, QueueSpec, ReadAhead,
};
use forerun_disk::preset::PresetSpec;
use forerun_disk::seek::SeekSpec;

/// Switch between tracks as a share of a turn: assumed, since rates show it only together with the sectors of a track.
const SWITCH: f64 = 0.09;
/// Cylinders above which the effective drive gets more surfaces.
const CYLINDERS_MAX: f64 = 300_000.0;

/// The arm's curve over the share of the device between two reads: `c + a*sqrt(x) + b*x`, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    c: f64,
    a: f64,
    b: f64,
}

impl Curve {
    fn at(&self, x: f64) -> f64 {
        (self.c + self.a * x.sqrt() + self.b * x).max(20_000.0)
    }
}

/// Sectors per track and cylinders of each part, and the distances that follow.
struct Zones {
    per_track: Vec<f64>,
    surfaces: u32,
    /// First cylinder of each part, and of what is behind the last.
    first: Vec<f64>,
    sectors: u64,
}

impl Zones {
    fn new(sectors: u64, per_track: Vec<f64>) -> Self {
        let part = sectors as f64 / per_track.len() as f64;
        let tracks: f64 = per_track.iter().map(|count| part / count).sum();
        let surfaces = (tracks / CYLINDERS_MAX).ceil().max(4.0) as u32;
        let mut first = vec![0.0];
        for count in &per_track {
            let cylinders = (part / count / f64::from(surfaces)).ceil().max(1.0);
            first.push(first[first.len() - 1] + cylinders);
        }
        Self { per_track, surfaces, first, sectors }
    }

    fn cylinder(&self, lba: u64) -> f64 {
        let part = self.sectors as f64 / self.per_track.len() as f64;
        let zone = ((lba as f64 / part) as usize).min(self.per_track.len() - 1);
        let into = (lba as f64 - part * zone as f64) / self.per_track[zone] / f64::from(self.surfaces);
        self.first[zone] + into
    }

    fn cylinders(&self) -> f64 {
        self.first[self.first.len() - 1]
    }

    /// Share of the arm's whole way between two places.
    fn share(&self, from: u64, to: u64) -> f64 {
        (self.cylinder(from) - self.cylinder(to)).abs() / self.cylinders()
    }

    /// Tracks turned so that neither a switch nor the shortest seek, as shares of a turn, misses the next track's start.
    fn layout(&self, switch: f64, shortest: f64) -> LayoutSpec {
        let zone = |(number, count): (usize, &f64)| ZoneSpec {
            first_cylinder: self.first[number] as u32,
            last_cylinder: self.first[number + 1] as u32 - 1,
            sectors_per_track: count.round().max(1.0) as u32,
            track_skew_sectors: (count * switch).ceil() + 1.0,
            cylinder_skew_sectors: (count * switch.max(shortest)).ceil() + 1.0,
            ..ZoneSpec::default()
        };
        LayoutSpec::Zones {
            mapping: Mapping::Serpentine,
            sparing: Sparing::None,
            sectors: None,
            zone: self.per_track.iter().enumerate().map(zone).collect(),
        }
    }
}

/// Reads with the share of the arm's way before each: `(share, ns)`. What a cache served is left out.
fn moves(zones: &Zones, reads: &[Done], quick: f64) -> Vec<(f64, f64)> {
    let pairs = reads.windows(2).map(|pair| (zones.share(pair[0].lba, pair[1].lba), pair[1].took()));
    pairs.filter(|(share, took)| *took > quick && *share > 0.0).collect()
}

/// Least squares through `(x, y)` with the basis 1, root, line; a negative part is left out.
fn fit(points: &[(f64, f64)]) -> Curve {
    let solve = |used: [bool; 3]| {
        let mut m = [[0.0f64; 4]; 3];
        for &(x, y) in points {
            let basis = [1.0, x.sqrt(), x];
            for row in 0..3 {
                for column in 0..3 {
                    m[row][column] += basis[row] * basis[column];
                }
                m[row][3] += basis[row] * y;
            }
        }
        for row in 0..3 {
            if !used[row] {
                m[row] = [0.0; 4];
                m.iter_mut().for_each(|other| other[row] = 0.0);
                m[row][row] = 1.0;
            }
        }
        for pivot in 0..3 {
            for row in 0..3 {
                if row != pivot && m[pivot][pivot].abs() > 1e-12 {
                    let factor = m[row][pivot] / m[pivot][pivot];
                    let by = m[pivot];
                    m[row].iter_mut().zip(by).for_each(|(value, other)| *value -= factor * other);
                }
            }
        }
        let value = |row: usize| if m[row][row].abs() > 1e-12 { m[row][3] / m[row][row] } else { 0.0 };
        Curve { c: value(0), a: value(1), b: value(2) }
    };
    let all = solve([true; 3]);
    match (all.a < 0.0, all.b < 0.0) {
        (false, false) => all,
        (true, _) => solve([true, false, true]),
        (_, true) => solve([true, true, false]),
    }
}

/// A table of the curve, denser where it is steep. `lifts` are added: at the short end and at the long one.
fn table(curve: &Curve, cylinders: f64, command: f64, lifts: (f64, f64)) -> SeekSpec {
    let mut points_us = Vec::new();
    let mut distance = 1.0;
    let mut before = 0.0f64;
    while distance < cylinders {
        let x = distance / cylinders;
        let lift = lifts.0 + (lifts.1 - lifts.0) * x.sqrt().min(0.55) / 0.55;
        let time = ((curve.at(x) - command + lift) / 1e3).max(50.0).max(before);
        before = time;
        points_us.push((distance as u32, (time * 10.0).round() / 10.0));
        distance = (distance * 1.4).ceil();
    }
    SeekSpec::Table { points_us }
}

/// How the drive reads ahead.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// On, although a command waits.
    fills: bool,
    /// Only when none waits.
    idle_only: bool,
    /// A command joins what is being read.
    joins: bool,
}

/// A drive under construction.
struct Draft<'a> {
    seen: &'a Probed,
    turn: Turn,
    zones: Zones,
    curve: Curve,
    lifts: (f64, f64),
    queue: QueueSpec,
    manner: Manner,
}

impl Draft<'_> {
    fn quick(&self) -> f64 {
        self.seen.cache.hit_ns.map_or(0.0, |hit| hit * 1.5 + 80_000.0)
    }

    /// Time to the host of a sector, and handling of a hit, ns.
    fn link(&self) -> (f64, f64) {
        let fastest = self.seen.rates.iter().copied().fold(1.0, f64::max);
        let at_rate = SECTOR_BYTES as f64 * 1e9 / fastest * 0.9;
        match (self.seen.cache.hit_ns, self.seen.cache.long_hit_ns) {
            (Some(short), Some(long)) if long > short => {
                let step = ((long - short) / 120.0).min(at_rate);
                (step, (short - 8.0 * step).max(1_000.0))
            }
            (Some(short), _) => (at_rate, (short - 8.0 * at_rate).max(1_000.0)),
            _ => (at_rate, 50_000.0),
        }
    }

    fn drive(&self) -> DriveSpec {
        let (step, handling) = self.link();
        let us = |ns: f64| (ns / 10.0).round() / 100.0;
        let cache = &self.seen.cache;
        let command = us(handling);
        let segment = cache.reach_sectors.max(128);
        let seek = table(&self.curve, self.zones.cylinders(), handling, self.lifts);
        let shortest = match &seek {
            SeekSpec::Table { points_us } => points_us.first().map_or(0.0, |point| point.1),
            _ => 0.0,
        };
        DriveSpec {
            surfaces: self.zones.surfaces,
            cylinders: self.zones.cylinders() as u32,
            rpm: (60e9 / self.turn.period_ns * 100.0).round() / 100.0,
            head_switch_us: us(self.turn.period_ns * SWITCH),
            write_settle_us: 500.0,
            min_write_seek_us: 0.0,
            drive_readahead: if cache.reach_sectors > 0 { OnOff::On } else { OnOff::Off },
            seek,
            cache: CacheSpec {
                enabled: cache.hit_ns.is_some(),
                segments: cache.kept.max(1) as u32,
                segment_sectors: segment,
                write_segments: (cache.kept / 2).max(1) as u32,
                read_ahead: ReadAhead::Segment,
                min_read_ahead_sectors: if self.manner.fills { segment } else { 0 },
                read_ahead_only_when_idle: self.manner.idle_only,
                join_read_ahead: self.manner.joins,
                ..CacheSpec::default()
            },
            overheads: OverheadSpec {
                read_hit_after_read_us: command,
                read_hit_after_write_us: command,
                read_miss_after_read_us: command,
                read_miss_after_write_us: command,
                write_hit_after_read_us: command,
                write_hit_after_write_us: command,
                write_miss_after_read_us: command,
                write_miss_after_write_us: command,
                ..OverheadSpec::default()
            },
            link: LinkSpec { read_sector_us: us(step).max(0.01), write_sector_us: us(step).max(0.01) },
            queue: self.queue,
            layout: self.zones.layout(SWITCH, shortest * 1e3 / self.turn.period_ns),
        }
    }

    fn spec(&self) -> PresetSpec {
        PresetSpec::Mechanical { about: String::new(), sources: Vec::new(), drive: Box::new(self.drive()) }
    }

    fn model(&self) -> Option<Simulated> {
        Simulated::new(&candidate(self.spec()), 3).ok()
    }

    /// Makes the candidate's rates the measured ones.
    fn match_rates(&mut self) {
        for _ in 0..1 {
            let Some(mut model) = self.model() else { return };
            let Ok(rates) = zone_rates(&mut model, self.zones.per_track.len() as u64) else { return };
            let counts = self.zones.per_track.iter().zip(self.seen.rates.iter().zip(rates));
            let counts = counts.map(|(count, (seen, own))| count * (seen / own.max(1.0)).clamp(0.5, 2.0));
            self.zones = Zones::new(self.seen.sectors, counts.collect());
        }
    }

    /// Mean time of the same reads on the candidate, ns.
    fn mean_of(&self, reads: &[Done]) -> Option<f64> {
        let list: Vec<u64> = reads.iter().map(|done| done.lba).collect();
        let reader = Reader { pattern: Pattern::List(list), bytes: BLOCK_BYTES, depth: 1 };
        let load = Load {
            readers: vec![reader],
            requests: reads.len() as u64,
            time: Nanos::from_millis(3_600_000),
            seed: 1,
        };
        let own = self.model()?.run(&load).ok()?;
        Some(mean(&own.iter().map(Done::took).filter(|took| *took > self.quick()).collect::<Vec<_>>()))
    }

    /// Moves the curve by what is left between the device's reads and the candidate's.
    fn match_seeks(&mut self) {
        let of = |reads: &[Done], quick: f64| {
            mean(&reads.iter().map(Done::took).filter(|took| *took > quick).collect::<Vec<_>>())
        };
        for _ in 0..2 {
            let (far, near) = (&self.seen.places, &self.seen.near);
            let (Some(own_far), Some(own_near)) = (self.mean_of(far), self.mean_of(near)) else { return };
            let (lift_far, lift_near) = (of(far, self.quick()) - own_far, of(near, self.quick()) - own_near);
            // Short walks have a few long steps, which the long end moves too.
            self.lifts.1 += lift_far;
            self.lifts.0 += lift_near * 1.3 - lift_far * 0.3;
        }
    }

    /// The order of service and the manner of reading ahead that look most like what was seen.
    fn match_queue(&mut self) -> f64 {
        let plan = queue_plan(self.seen.sectors, 1.0);
        let policy = |policy| QueueSpec { policy, ..QueueSpec::default() };
        let sptf = [4, 8, 16, 32, 64].map(|depth| QueueSpec { depth, ..QueueSpec::default() });
        let queues = [policy(QueuePolicy::Fcfs), policy(QueuePolicy::CLook)].into_iter().chain(sptf);
        let mut least = f64::INFINITY;
        let mut best = self.queue;
        for queue in queues {
            self.queue = queue;
            let found = distance(&candidate(self.spec()), &plan, &self.seen.points);
            if found < least {
                (least, best) = (found, queue);
            }
        }
        self.queue = best;
        let mut manner = self.manner;
        for fills in [self.seen.cache.fills, !self.seen.cache.fills] {
            for idle_only in [false, true] {
                for joins in [true, false] {
                    self.manner = Manner { fills, idle_only, joins };
                    let found = distance(&candidate(self.spec()), &plan, &self.seen.points);
                    // What explains no more than the usual does is not taken.
                    if found < least * 0.97 {
                        (least, manner) = (found, self.manner);
                    }
                }
            }
        }
        self.manner = manner;
        least
    }
}

fn values(draft: &Draft<'_>) -> Vec<Value> {
    let turn = draft.turn.period_ns / 1e6;
    let longest = draft.seen.places.last().map_or(1.0, |done| done.ended as f64);
    // The phase of the longest time between readings is known to a twentieth of a turn.
    let off = turn * draft.turn.period_ns / longest.max(1.0) / 20.0;
    let random = draft.seen.first_readings();
    let (at, half) = (mean(&random) / 1e6, half_interval(&random) / 1e6);
    let rate = |name, value: f64| Value { name, value, low: value * 0.98, high: value * 1.02, unit: "MB/s" };
    let rates = &draft.seen.rates;
    vec![
        Value { name: "a turn", value: turn, low: turn - off, high: turn + off, unit: "ms" },
        Value { name: "a random read of 4 KiB", value: at, low: at - half, high: at + half, unit: "ms" },
        rate("rate outside", rates.first().copied().unwrap_or(0.0) / 1e6),
        rate("rate inside", rates.last().copied().unwrap_or(0.0) / 1e6),
    ]
}

fn unknown(seen: &Probed) -> Vec<String> {
    let mut unknown = vec![
        "writes: nothing was written, so what the preset says of them is assumed".to_owned(),
        "surfaces and cylinders: only their product is seen; the layout is an effective one".to_owned(),
        "the switch between tracks and the sectors of a track: rates show them together; the switch is assumed".to_owned(),
        "handling of a read and the shortest seek: only their sum is seen".to_owned(),
    ];
    if seen.cache.hit_ns.is_none() {
        unknown.push("the drive's cache: no read was served by it".into());
    }
    if seen.cache.kept >= 64 {
        unknown.push("how many places the drive's cache keeps: 64 or more".into());
    }
    unknown
}

/// The drive that fits.
pub(crate) fn estimate(seen: &Probed, turn: Turn) -> Estimate {
    let per_track = |rate: &f64| rate * turn.period_ns * (1.0 + SWITCH) / 1e9 / SECTOR_BYTES as f64;
    let zones = Zones::new(seen.sectors, seen.rates.iter().map(per_track).collect());
    let mut draft = Draft {
        seen,
        turn,
        zones,
        curve: Curve::default(),
        lifts: (0.0, 0.0),
        queue: QueueSpec::default(),
        manner: Manner { fills: seen.cache.fills, idle_only: false, joins: true },
    };
    let mut points = moves(&draft.zones, &seen.places, draft.quick());
    points.extend(moves(&draft.zones, &seen.near, draft.quick()));
    points.iter_mut().for_each(|(_, took)| *took -= turn.period_ns / 2.0);
    draft.curve = fit(&points);
    for _ in 0..2 {
        draft.match_rates();
        draft.match_seeks();
    }
    draft.match_rates();
    let distance = draft.match_queue();
    Estimate {
        spec: draft.spec(),
        what: "drive with platters",
        distance,
        values: values(&draft),
        unknown: unknown(seen),
    }
}
