//! The runs behind the row `oracle`: one that records the order of reads, and others that read ahead by it.
//!
//! Which batch is best depends on the load: a long one has short ways between its places, a short one has what is needed next
//! sooner; a drive that reads on by itself wants one command after the other, one that chooses wants many. So several are tried
//! in each layer that has a cache, several at once where their memory allows, and the fastest is kept. Where both layers have one, the best of the page cache is run again with foresight below it too, by the order that it
//! asked in.

use super::best::is_better;
use super::future::Future;
use super::oracle::{Manner, Oracle};
use super::record::{Log, Recorder};
use crate::error::RunError;
use crate::host::{self, Hardware, Layers};
use crate::input::Input;
use crate::progress::Progress;
use crate::report::RunReport;
use crate::spec::RunSpec;
use forerun_core::registry::BuiltLayer;
use forerun_core::scheme::Scheme;
use forerun_core::units::BLOCK_BYTES;
use forerun_disk::mechanical::us_to_ns;
use forerun_disk::preset::PresetSpec;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Prefetches that are with a disk at once: so few that they follow one another as the drive reads on by itself, enough for a
/// drive to choose among, or as many as a device that works on all at once takes.
const DEPTHS: [u32; 3] = [2, 16, 64];
/// Sizes of a batch that are tried: one in so many blocks of the cache. And, of a cache of which the first is more, so many blocks: 256 KiB. Where
/// reads come at times that are given, a reader waits for what is read before his, and more memory is no reason to let him.
const BATCHES_ONE_IN: [u64; 3] = [64, 8, 2];
const BATCH_LEAST: u64 = 64;

/// Runs that are tried side by side may take so much for what each knows of a recording. One of more than some five million reads is
/// alone: it waits for nothing that way but a processor.
const SIDE_BY_SIDE_BYTES: usize = 64 << 20;

/// A layer that may foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Host,
    Array,
}

/// A layer with its future, and how it reads ahead.
#[derive(Clone, Copy)]
struct Foresight<'a> {
    place: Place,
    future: &'a Future,
    manner: Manner,
}

/// A run, and what led to it.
struct Found<'a> {
    run: RunReport,
    /// What the array was asked for, where only the page cache foresaw.
    log: Log,
    foresights: Vec<Foresight<'a>>,
}

/// A try by its number, and what came of it.
type Tried<'a> = (usize, Result<Found<'a>, RunError>);

/// Of two tries an error, else the better run; the earlier one where neither is first by that.
fn better<'a>(one: Tried<'a>, other: Tried<'a>) -> Tried<'a> {
    let (first, second) = if one.0 < other.0 { (one, other) } else { (other, one) };
    match (&first.1, &second.1) {
        (Ok(early), Ok(late)) if is_better(&late.run, &early.run) => second,
        (Ok(_), Err(_)) => second,
        _ => first,
    }
}

/// What all runs of one row share.
struct Rig<'a> {
    input: &'a Input,
    spec: &'a RunSpec,
    hardware: Hardware,
    progress: &'a (dyn Fn(Progress) + Sync),
}

/// Runs `spec` under clairvoyant prefetching, after a run without any that tells it the future: in each layer that has a cache,
/// with batches of several sizes, the fastest of which is reported. Where no layer has one there is nothing to prefetch into,
/// and the row equals `none`. `progress` is told of all runs.
///
/// # Errors
/// See [`RunError`].
pub fn run_oracle(
    input: &Input,
    spec: &RunSpec,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    let rig = Rig { input, spec, hardware: host::hardware(spec)?, progress };
    let (host, array) = (Log::default(), Log::default());
    // `oracle` names no part of either layer: both are those of `none`.
    let plain = Layers::new(&rig.hardware, spec);
    let layers =
        Layers { host: heard(plain.host, &host), array: heard(plain.array, &array), in_flight: None };
    let mut best = host::run_layers(input, spec, &rig.hardware, layers, progress)?;
    best.found_by = Some("none".into());
    let host = (spec.host_cache_bytes > 0).then(|| Future::of(&host.take()));
    let array = (spec.cache_bytes > 0).then(|| Future::of(&array.take()));
    if let Some(future) = &array {
        keep(&mut best, rig.search(Place::Array, future)?.run);
    }
    if let Some(future) = &host {
        let above = rig.search(Place::Host, future)?;
        if spec.cache_bytes > 0 {
            let below = Future::of(&above.log.take());
            keep(&mut best, rig.below(above.foresights[0], &below)?.run);
        }
        keep(&mut best, above.run);
    }
    Ok(best)
}

fn keep(best: &mut RunReport, run: RunReport) {
    if is_better(&run, best) {
        *best = run;
    }
}

impl Rig<'_> {
    /// The best of one layer: first by the size of a batch, then by who goes first and how much is with a disk at once.
    fn search<'a>(&self, place: Place, future: &'a Future) -> Result<Found<'a>, RunError> {
        let one = |manner| vec![Foresight { place, future, manner }];
        let cache_blocks = self.cache_bytes(place) / BLOCK_BYTES;
        let shares = BATCHES_ONE_IN.map(|one_in| cache_blocks / one_in);
        let least = Some(BATCH_LEAST).filter(|&least| least < shares[0]);
        let sizes = least.into_iter().chain(shares);
        let mut best =
            self.best_of(sizes.map(|batch| one(Manner { batch, ..self.usual(place) })).collect())?;
        let base = best.foresights[0].manner;
        let mut others = vec![one(Manner { eager: true, ..base })];
        others.extend(
            self.depths(place).filter(|&d| d != base.depth).map(|depth| one(Manner { depth, ..base })),
        );
        let other = self.best_of(others)?;
        if is_better(&other.run, &best.run) {
            best = other;
        }
        Ok(best)
    }

    /// The best below a page cache that foresees.
    fn below<'a>(&self, above: Foresight<'a>, future: &'a Future) -> Result<Found<'a>, RunError> {
        let place = Place::Array;
        let cache_blocks = self.cache_bytes(place) / BLOCK_BYTES;
        let with = |one_in, depth| {
            let manner = Manner { batch: cache_blocks / one_in, depth, ..self.usual(place) };
            vec![above, Foresight { place, future, manner }]
        };
        let depths = self.depths(place);
        self.best_of(depths.flat_map(|depth| [8, 2].map(|size| with(size, depth))).collect())
    }

    /// Runs all of `tries`, on as many threads as there are processors and memory is meant for; the best, of equals the first. The others are let go as soon
    /// as they are not the best: each may hold a recording.
    fn best_of<'a>(&self, tries: Vec<Vec<Foresight<'a>>>) -> Result<Found<'a>, RunError> {
        let own = tries.iter().flatten().map(|foresight| foresight.future.own_bytes()).max().unwrap_or(0);
        let side_by_side = (SIDE_BY_SIDE_BYTES / own.max(1)).max(1);
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = threads.min(tries.len()).min(side_by_side);
        let left = Mutex::new(tries.into_iter().enumerate());
        let best = Mutex::new(None);
        let worker = || {
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, foresights)) = next else { return };
                let done = (at, self.run(foresights));
                let mut best = best.lock().unwrap_or_else(PoisonError::into_inner);
                *best = Some(match best.take() {
                    Some(before) => better(before, done),
                    None => done,
                });
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            for worker in workers {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
        let (_, best) =
            best.into_inner().unwrap_or_else(PoisonError::into_inner).expect("something is tried");
        best
    }

    /// One run that knows the future of these layers.
    fn run<'a>(&self, foresights: Vec<Foresight<'a>>) -> Result<Found<'a>, RunError> {
        let log = Log::default();
        let mut layers = Layers::new(&self.hardware, self.spec);
        let mut told = Vec::new();
        for foresight in &foresights {
            let built = self.knowing(foresight);
            told.push(self.told(foresight));
            match foresight.place {
                Place::Host => layers.host = built,
                Place::Array => layers.array = built,
            }
        }
        if let [Foresight { place: Place::Host, .. }] = &foresights[..] {
            layers.array = heard(layers.array, &log);
        }
        let mut run = host::run_layers(self.input, self.spec, &self.hardware, layers, self.progress)?;
        run.found_by = Some(format!("foresight in {}", told.join(" and in ")));
        Ok(Found { run, log, foresights })
    }

    fn knowing(&self, foresight: &Foresight<'_>) -> BuiltLayer {
        let layer = match foresight.place {
            Place::Host => host::host_layer(&self.hardware, self.spec),
            Place::Array => host::array_layer(&self.hardware, self.spec),
        };
        let oracle =
            Oracle::new(foresight.future.clone(), layer.array, layer.cache_blocks, &foresight.manner);
        // It keeps books on memory: a batch is never more than there is room for.
        BuiltLayer { scheme: Scheme::of(oracle), line_blocks: 1, ahead_blocks_max: layer.cache_blocks }
    }

    fn told(&self, foresight: &Foresight<'_>) -> String {
        let place = match foresight.place {
            Place::Host => "the page cache",
            Place::Array => "the array's cache",
        };
        let size = forerun_core::size::format_size(foresight.manner.batch.max(1) * BLOCK_BYTES);
        let Manner { eager, depth, .. } = foresight.manner;
        let order = if eager { ", readers first" } else { "" };
        format!("{place} (batches of {size}, {depth} at once{order})")
    }

    /// What is with a disk at once, and the like for a page cache, to which all disks are one.
    fn depths(&self, place: Place) -> impl Iterator<Item = u32> {
        let disks = if place == Place::Host { u32::from(self.hardware.array.disks()) } else { 1 };
        let head = self.hardware.cost.half_rotation.0 > 0;
        let depths = if head { &DEPTHS[..2] } else { &DEPTHS[1..] };
        depths.iter().map(move |depth| depth * disks)
    }

    fn usual(&self, place: Place) -> Manner {
        let disks = if place == Place::Host { 1 } else { usize::from(self.hardware.array.disks()) };
        let depth = self.depths(place).last().expect("there are two");
        let batch = self.cache_bytes(place) / BLOCK_BYTES / BATCHES_ONE_IN[1];
        Manner { batch, eager: false, gap: gap_blocks(&self.hardware), disks, depth }
    }

    const fn cache_bytes(&self, place: Place) -> u64 {
        match place {
            Place::Host => self.spec.host_cache_bytes,
            Place::Array => self.spec.cache_bytes,
        }
    }
}

/// Up to how many blocks take less time to be read over than a command of their own, by what the device is known for.
fn gap_blocks(hardware: &Hardware) -> u64 {
    let cost = &hardware.cost;
    let saved = match &hardware.preset.spec {
        // Reading over a gap is waiting until it has passed, and that is all.
        PresetSpec::Mechanical { .. } => cost.half_rotation.0 + cost.command.0,
        PresetSpec::Ssd { ssd, .. } => us_to_ns(ssd.command_interval_us),
        PresetSpec::Cloud { volume, .. } => 1_000_000_000 / volume.operations_per_s.max(1),
    };
    saved / cost.per_block.0.max(1)
}

/// A layer that writes down what it is asked for.
fn heard(built: BuiltLayer, log: &Log) -> BuiltLayer {
    BuiltLayer { scheme: Scheme::of(Recorder::around(built.scheme, log)), ..built }
}
