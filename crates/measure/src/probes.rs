//! What is read to know a device, in an order that does not spoil what comes later: light loads first, heavy ones last.
//!
//! First the same places are read several times, one request in flight. On platters the same sector passes the head once a
//! turn, so the times between its readings are whole turns ([`crate::rotation`]); everywhere else there is no such time. What
//! follows depends on that alone: an arm, a cache and a turn are looked for where there are platters, and rates, sizes and
//! depths where there are none.

use crate::load::{Done, Load, Pattern, Reader, Target};
use crate::rotation::{Turn, turn};
use crate::statistics::{half_interval, mean, quantile};
use forerun_core::units::{BLOCK_BYTES, Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK};
use forerun_disk::random::SplitMix;
use serde::Serialize;
use std::io;

/// Places that are read again and again: more than a drive's cache has segments, so that each is read from the medium.
const PLACES: u64 = 140;
/// How often each.
const CYCLES: u64 = 3;
/// Seed of all places.
const SEED: u64 = 12;
/// Name of the load of several readers.
pub(crate) const READERS: &str = "4 readers of 64 KiB";
/// Most requests of one probe.
const REQUESTS_MAX: u64 = 20_000;

/// What one load showed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What was read.
    pub name: String,
    /// Bytes of a request of the first reader.
    pub bytes: u64,
    /// Requests in flight of all readers.
    pub depth: usize,
    /// Requests a second in the second half, of the first reader.
    pub per_s: f64,
    /// Mean time of a request, ns.
    pub mean_ns: f64,
    /// Half of its 95% interval.
    pub half_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 90th percentile.
    pub p90_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// Requests that ended.
    pub requests: u64,
}

impl Point {
    /// Bytes a second.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.per_s * self.bytes as f64
    }
}

/// A load with a name, and how long the device rests before it.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Name of its point.
    pub name: String,
    /// What is read.
    pub load: Load,
    /// Rest before it, so that a volume's credit is back.
    pub rest: Nanos,
}

/// What is known of a drive's own cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriveCacheSeen {
    /// Time of a read of 4 KiB that the cache serves, ns; none was seen where it is absent.
    pub hit_ns: Option<f64>,
    /// The same of 64 KiB.
    pub long_hit_ns: Option<f64>,
    /// Farthest sector behind a read that the drive had read ahead.
    pub reach_sectors: u64,
    /// Places that it kept at once.
    pub kept: u64,
    /// It goes on reading ahead when a command waits.
    pub fills: bool,
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Probed {
    /// Size of the device.
    pub sectors: u64,
    /// The places, in the order of reading.
    pub places: Vec<Done>,
    /// The turn, where there is one.
    pub turn: Option<Turn>,
    /// The loads.
    pub points: Vec<Point>,
    /// How far a throttled device went ahead of its steady rate in the deepest load, ns of that rate.
    pub ahead_ns: f64,
    /// Reads at short distances from one another.
    pub near: Vec<Done>,
    /// Sequential rate at places over the whole device, bytes a second.
    pub rates: Vec<f64>,
    /// The drive's cache.
    pub cache: DriveCacheSeen,
}

impl Probed {
    /// The point of that name.
    #[must_use]
    pub fn point(&self, name: &str) -> Option<&Point> {
        self.points.iter().find(|point| point.name == name)
    }

    /// Times of the first reading of each place, ns: nothing can have been kept.
    #[must_use]
    pub fn first_readings(&self) -> Vec<f64> {
        self.places.iter().take(PLACES as usize).map(Done::took).collect()
    }
}

/// Says how far the measurement is, from 0 to 1, and what is next.
pub type Progress<'a> = &'a mut dyn FnMut(f64, &str);

/// The point that a run makes of its `reader`.
#[must_use]
pub fn point(name: &str, load: &Load, reader: usize, all: &[Done]) -> Point {
    let own: Vec<&Done> = all.iter().filter(|done| done.reader == reader).collect();
    let took: Vec<f64> = own.iter().map(|done| done.took()).collect();
    let begun = own.iter().map(|done| done.issued).min().unwrap_or(0);
    let half = own.len() / 2;
    let from = if half == 0 { begun } else { own[half - 1].ended };
    let until = own.last().map_or(from, |done| done.ended);
    Point {
        name: name.to_owned(),
        bytes: load.readers[reader].bytes,
        depth: load.readers.iter().map(|of| of.depth).sum(),
        per_s: (own.len() - half) as f64 * 1e9 / until.saturating_sub(from).max(1) as f64,
        mean_ns: mean(&took),
        half_ns: half_interval(&took),
        p50_ns: quantile(&took, 0.5),
        p90_ns: quantile(&took, 0.9),
        p99_ns: quantile(&took, 0.99),
        requests: own.len() as u64,
    }
}

pub(crate) fn whole(sectors: u64) -> Pattern {
    Pattern::Random { first: 0, sectors }
}

pub(crate) fn one(
    pattern: Pattern,
    bytes: u64,
    depth: usize,
    requests: u64,
    seconds: f64,
    seed: u64,
) -> Load {
    let time = Nanos((seconds * 1e9) as u64);
    Load { readers: vec![Reader { pattern, bytes, depth }], requests: requests.min(REQUESTS_MAX), time, seed }
}

/// So many sequential readers of 64 KiB, evenly over the device.
pub(crate) fn streams(sectors: u64, count: u64, requests: u64, seconds: f64) -> Load {
    let bytes = 64 << 10;
    let reader = |number: u64| Reader {
        pattern: Pattern::Strided {
            first: sectors / count * number / SECTORS_PER_BLOCK * SECTORS_PER_BLOCK,
            stride: bytes / SECTOR_BYTES,
        },
        bytes,
        depth: 1,
    };
    let time = Nanos((seconds * 1e9) as u64);
    Load { readers: (0..count).map(reader).collect(), requests, time, seed: SEED }
}

fn sequential(first: u64, bytes: u64) -> Pattern {
    let first = first / SECTORS_PER_BLOCK * SECTORS_PER_BLOCK;
    Pattern::Strided { first, stride: bytes / SECTOR_BYTES }
}

/// How often a device without platters is asked each short load: a virtual disk is another from one second to the next, and whose
/// load meets a bad one would be called slow.
const VISITS: usize = 3;
/// By what an interval of so few is wider than one of many (Student's t of two degrees of freedom beside the normal 1.96).
const FEW: f64 = 4.303 / 1.96;
/// Of a visit's loads those that are short; the others use up what credit there is, and come once.
const SHORT: usize = 12;

/// The loads of a device without platters; `scale` of 1 takes about 25 s on a volume of a few thousand operations a second. The
/// first [`SHORT`] of them leave a volume its credit.
#[must_use]
pub fn flat_plan(sectors: u64, scale: f64, requests: u64) -> Vec<Probe> {
    let kib = |size: u64| size << 10;
    let mut plan = Vec::new();
    let mut add = |name: String, load: Load, rest_ms: f64| {
        plan.push(Probe { name, load, rest: Nanos((rest_ms * scale * 1e6) as u64) });
    };
    add(
        "random 4 KiB, depth 1".into(),
        one(whole(sectors), BLOCK_BYTES, 1, requests, 1.5 * scale, 21),
        100.0,
    );
    for size in [16, 64, 256, 1024] {
        let load = one(whole(sectors), kib(size), 1, requests.min(48), 0.5 * scale, 31 + size);
        add(format!("random {size} KiB, depth 1"), load, 250.0);
    }
    for depth in [2, 4, 8, 16, 32] {
        let load = one(whole(sectors), BLOCK_BYTES, depth, requests, 0.8 * scale, 41 + depth as u64);
        add(format!("random 4 KiB, depth {depth}"), load, 150.0);
    }
    let load = one(sequential(sectors / 3, BLOCK_BYTES), BLOCK_BYTES, 1, requests, 0.4 * scale, SEED);
    add("sequential 4 KiB, depth 1".into(), load, 150.0);
    let load = one(sequential(sectors / 5, kib(128)), kib(128), 1, requests, 1.2 * scale, SEED);
    add("sequential 128 KiB, depth 1".into(), load, 150.0);
    add(READERS.into(), streams(sectors, 4, requests, 1.2 * scale), 0.0);
    add("random 64 KiB, depth 16".into(), one(whole(sectors), kib(64), 16, requests, 1.5 * scale, 51), 0.0);
    add(
        "random 4 KiB, depth 64".into(),
        one(whole(sectors), BLOCK_BYTES, 64, requests, 3.0 * scale, 52),
        400.0,
    );
    let load = one(sequential(sectors / 7, kib(1024)), kib(1024), 16, requests, 2.5 * scale, SEED);
    add("sequential 1 MiB, depth 16".into(), load, 200.0);
    plan
}

/// The loads of a drive with platters whose order of service is looked for.
#[must_use]
pub fn queue_plan(sectors: u64, scale: f64) -> Vec<Probe> {
    let rest = Nanos::from_millis(30);
    let mut plan: Vec<Probe> = [4, 16, 32]
        .into_iter()
        .map(|depth| Probe {
            name: format!("random 4 KiB, depth {depth}"),
            load: one(whole(sectors), BLOCK_BYTES, depth, 400, 2.0 * scale, 41 + depth as u64),
            rest,
        })
        .collect();
    plan.push(Probe { name: READERS.into(), load: streams(sectors, 4, 800, 2.0 * scale), rest });
    plan.push(Probe {
        name: "strided 4 KiB, every 64 KiB".into(),
        load: one(
            Pattern::Strided { first: sectors / 9 / 8 * 8, stride: 128 },
            BLOCK_BYTES,
            1,
            400,
            0.8 * scale,
            SEED,
        ),
        rest,
    });
    plan
}

/// Runs a plan; `say` hears the share that is done.
pub(crate) fn run_plan(
    target: &mut dyn Target,
    plan: &[Probe],
    say: Progress<'_>,
) -> io::Result<(Vec<Point>, f64)> {
    let mut ahead = 0.0;
    let mut points = Vec::new();
    for (number, probe) in plan.iter().enumerate() {
        say(number as f64 / plan.len() as f64, &probe.name);
        target.rest(probe.rest);
        let done = target.run(&probe.load)?;
        let point = point(&probe.name, &probe.load, 0, &done);
        if probe.name == "random 4 KiB, depth 64" {
            ahead = gone_ahead(&done, &point);
        }
        points.push(point);
    }
    Ok((points, ahead))
}

/// The loads of a device without platters, the short ones in as many visits, and each as long in all as it would be in one.
fn visits(target: &mut dyn Target, scale: f64, say: Progress<'_>) -> io::Result<(Vec<Point>, f64)> {
    let sectors = target.sectors();
    let plan = flat_plan(sectors, scale, REQUESTS_MAX);
    let mut visit = flat_plan(sectors, scale / VISITS as f64, REQUESTS_MAX);
    visit.truncate(SHORT);
    let mut seen: Vec<Vec<Point>> = vec![Vec::new(); SHORT];
    for number in 0..VISITS {
        // Other places each time, or a cache below would know them.
        let on = sectors / 16 / SECTORS_PER_BLOCK * SECTORS_PER_BLOCK;
        for probe in visit.iter_mut().filter(|_| number > 0) {
            probe.load.seed = probe.load.seed.wrapping_add(1_000);
            if let Pattern::Strided { first, .. } = &mut probe.load.readers[0].pattern {
                *first += on;
            }
        }
        let begun = number as f64 / VISITS as f64;
        let (points, _) =
            run_plan(target, &visit, &mut |share, what| say(0.5 * (begun + share / VISITS as f64), what))?;
        for (all, point) in seen.iter_mut().zip(points) {
            all.push(point);
        }
    }
    let (lasting, ahead) = run_plan(target, &plan[SHORT..], &mut |share, what| say(0.5 + 0.5 * share, what))?;
    let short = seen.iter().filter_map(|visits| together(visits));
    Ok((short.chain(lasting).collect(), ahead))
}

/// The points of several visits as one: rates and times of all requests, and an interval that holds what differed between the visits.
fn together(visits: &[Point]) -> Option<Point> {
    let requests: u64 = visits.iter().map(|point| point.requests).sum();
    let share = |point: &Point| point.requests as f64 / requests.max(1) as f64;
    let over = |of: fn(&Point) -> f64| visits.iter().map(|point| share(point) * of(point)).sum::<f64>();
    let within = visits.iter().map(|point| (share(point) * point.half_ns).powi(2)).sum::<f64>().sqrt();
    let between = FEW * half_interval(&visits.iter().map(|point| point.mean_ns).collect::<Vec<_>>());
    Some(Point {
        per_s: 1.0 / over(|point| 1.0 / point.per_s.max(1e-9)),
        mean_ns: over(|point| point.mean_ns),
        // A lone read of a visit has no interval of its own.
        half_ns: if within.is_finite() { within.max(between) } else { between },
        p50_ns: over(|point| point.p50_ns),
        p90_ns: over(|point| point.p90_ns),
        p99_ns: over(|point| point.p99_ns),
        requests,
        ..visits.first()?.clone()
    })
}

/// How far the requests of a load are ahead of its steady rate, ns of that rate.
fn gone_ahead(done: &[Done], steady: &Point) -> f64 {
    let begun = done.first().map_or(0, |done| done.issued);
    let Some(last) = done.last() else { return 0.0 };
    let since = last.ended.saturating_sub(begun) as f64;
    (done.len() as f64 * 1e9 / steady.per_s.max(1e-9) - since).max(0.0)
}

/// Places of the first probe, in another order each time: in the same one every place would come after the same time.
fn places(sectors: u64, cycles: u64) -> Load {
    let mut chance = SplitMix::new(SEED);
    let place =
        |chance: &mut SplitMix| chance.below((sectors / SECTORS_PER_BLOCK).max(1)) * SECTORS_PER_BLOCK;
    let mut once: Vec<u64> = (0..PLACES).map(|_| place(&mut chance)).collect();
    let mut list = Vec::new();
    for _ in 0..cycles {
        // What was read last comes late again, so that no cache still has it.
        for half in once.chunks_mut(PLACES as usize / 2) {
            for at in (1..half.len()).rev() {
                half.swap(at, usize::try_from(chance.below(at as u64 + 1)).unwrap_or(0));
            }
        }
        list.extend_from_slice(&once);
    }
    one(Pattern::List(list), BLOCK_BYTES, 1, PLACES * cycles, 8.0, SEED)
}

/// A walk whose steps are short more often than long: evenly by their logarithm.
fn walk(sectors: u64, steps: u64) -> Vec<u64> {
    let mut chance = SplitMix::new(SEED + 1);
    let blocks = (sectors / SECTORS_PER_BLOCK).max(2);
    let (least, most) = (1_024f64.min(blocks as f64 / 8.0).max(1.0), blocks as f64 / 2.0);
    let mut at = blocks / 2;
    let step = |_| {
        let step = (least * (most / least).powf(chance.unit())) as u64;
        let forth = at + step < blocks && (at < step || chance.below(2) == 0);
        at = if forth { at + step } else { at.saturating_sub(step) };
        at * SECTORS_PER_BLOCK
    };
    (0..steps).map(step).collect()
}

/// Reads the device. `scale` is the share of 30 s that it may take.
///
/// # Errors
/// What the device answered to a read.
pub fn probe(target: &mut dyn Target, scale: f64, say: Progress<'_>) -> io::Result<Probed> {
    let sectors = target.sectors();
    say(0.0, "the same places again and again");
    let cycles = if scale < 0.4 { 2 } else { CYCLES };
    let places = target.run(&places(sectors, cycles))?;
    let turn = turn(&places);
    let mut seen = Probed { sectors, places, turn, ..Probed::default() };
    match turn {
        Some(turn) => probe_platters(target, &mut seen, turn, scale, say)?,
        None => {
            (seen.points, seen.ahead_ns) =
                visits(target, scale, &mut |share, what| say(0.1 + 0.9 * share, what))?;
        }
    }
    say(1.0, "done");
    Ok(seen)
}

fn probe_platters(
    target: &mut dyn Target,
    seen: &mut Probed,
    turn: Turn,
    scale: f64,
    say: Progress<'_>,
) -> io::Result<()> {
    let sectors = seen.sectors;
    say(0.25, "short seeks");
    let list = walk(sectors, (260.0 * scale) as u64 + 40);
    let count = list.len() as u64;
    seen.near = target.run(&one(Pattern::List(list), BLOCK_BYTES, 1, count, 4.0 * scale, SEED))?;
    say(0.4, "rates from the outside in");
    seen.rates = zone_rates(target, 8)?;
    say(0.45, "the drive's cache");
    seen.cache = probe_cache(target, turn, quantile(&seen.rates, 0.0))?;
    let plan = queue_plan(sectors, scale);
    (seen.points, _) = run_plan(target, &plan, &mut |share, what| say(0.6 + 0.4 * share, what))?;
    Ok(())
}

/// Bytes a second of 1 MiB reads in the middle of each of `count` parts.
pub(crate) fn zone_rates(target: &mut dyn Target, count: u64) -> io::Result<Vec<f64>> {
    let sectors = target.sectors();
    let bytes = 1 << 20;
    let mut rates = Vec::new();
    for part in 0..count {
        let load =
            one(sequential(sectors / count * part + sectors / count / 2, bytes), bytes, 2, 25, 0.35, SEED);
        let done = target.run(&load)?;
        rates.push(point("rate", &load, 0, &done).bytes_per_s());
    }
    Ok(rates)
}

/// Reads of single places, one after another, with rests between.
struct Steps<'a> {
    target: &'a mut dyn Target,
    chance: SplitMix,
}

impl Steps<'_> {
    /// A place with so many sectors behind it.
    fn somewhere(&mut self, behind: u64) -> u64 {
        let room = self.target.sectors().saturating_sub(behind + 8) / SECTORS_PER_BLOCK;
        self.chance.below(room.max(1)) * SECTORS_PER_BLOCK
    }

    /// Time of one read, ns.
    fn read(&mut self, lba: u64, bytes: u64) -> io::Result<f64> {
        let done = self.target.run(&one(Pattern::List(vec![lba]), bytes, 1, 1, 1.0, SEED))?;
        Ok(done.first().map_or(0.0, Done::took))
    }

    /// Times of reads that should be served from the cache, ns: the second of each pair.
    fn hits(&mut self, bytes: u64, rest: Nanos) -> io::Result<Vec<f64>> {
        let mut took = Vec::new();
        for _ in 0..6 {
            let lba = self.somewhere(4 * bytes / SECTOR_BYTES);
            self.read(lba, bytes)?;
            self.target.rest(rest);
            took.push(self.read(lba, bytes)?);
        }
        Ok(took)
    }
}

fn probe_cache(target: &mut dyn Target, turn: Turn, rate: f64) -> io::Result<DriveCacheSeen> {
    let pause = Nanos((turn.period_ns * 3.0) as u64);
    let mut steps = Steps { target, chance: SplitMix::new(SEED + 2) };
    let mut seen = DriveCacheSeen::default();
    let quick = turn.period_ns / 6.0;
    let short = quantile(&steps.hits(BLOCK_BYTES, pause)?, 0.5);
    let long = quantile(&steps.hits(64 << 10, pause)?, 0.5);
    if short > quick {
        return Ok(seen);
    }
    seen.hit_ns = Some(short);
    seen.long_hit_ns = (long < quick).then_some(long);
    let hit = |took: f64| took < short * 1.5 + 80_000.0;
    for step in 0..9 {
        let reach = 128u64 << step;
        let mut all = true;
        for _ in 0..2 {
            let lba = steps.somewhere(reach);
            steps.read(lba, BLOCK_BYTES)?;
            let reading = reach as f64 * 512e9 / rate.max(1.0);
            steps.target.rest(Nanos(pause.0 + (reading * 1.2) as u64));
            all &= hit(steps.read(lba + reach - 8, BLOCK_BYTES)?);
        }
        if !all || reach * 4 > steps.target.sectors() {
            break;
        }
        seen.reach_sectors = reach;
    }
    for count in [2u64, 4, 8, 16, 32, 64] {
        let list: Vec<u64> = (0..count).map(|_| steps.somewhere(8)).collect();
        for lba in &list {
            steps.read(*lba, BLOCK_BYTES)?;
        }
        if !hit(steps.read(list[0], BLOCK_BYTES)?) {
            break;
        }
        seen.kept = count;
    }
    let half = seen.reach_sectors / 2 / SECTORS_PER_BLOCK * SECTORS_PER_BLOCK;
    let mut filled = 0;
    for _ in 0..4 {
        let (here, there) = (steps.somewhere(half), steps.somewhere(8));
        steps.read(here, BLOCK_BYTES)?;
        steps.read(there, BLOCK_BYTES)?;
        filled += u32::from(half > 0 && hit(steps.read(here + half, BLOCK_BYTES)?));
    }
    seen.fills = filled >= 3;
    Ok(seen)
}
