//! The runs behind the row `oracle`: one that records the order of reads, and others that read ahead by it.
//!
//! Which batch is best depends on the load: a long one has short ways between its places, a short one has what is needed next
//! sooner. So several are tried in each layer that has a cache, on as many threads as there are processors, and the fastest is
//! kept. Where both layers have one, the best of the page cache is run again with foresight below it too, by the order that it
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

/// Prefetches that are with a disk which has a head: enough for its own choice among them.
const DEPTH_HEAD: u32 = 16;
/// The same for a device that works on many at once.
const DEPTH_PARALLEL: u32 = 64;
/// Sizes of a batch that are tried: one in so many blocks of the cache.
const BATCHES_ONE_IN: [u64; 3] = [64, 8, 2];

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
    let layers = Layers { host: heard(plain.host, &host), array: heard(plain.array, &array) };
    let mut best = host::run_layers(input, spec, &rig.hardware, layers, progress)?;
    best.found_by = Some("none".into());
    let host = (spec.host_cache_bytes > 0).then(|| Future::of(&host.take()));
    let array = (spec.cache_bytes > 0).then(|| Future::of(&array.take()));
    let places = [(Place::Host, &host), (Place::Array, &array)];
    let tries: Vec<Foresight<'_>> = places
        .into_iter()
        .filter_map(|(place, future)| Some((place, future.as_ref()?)))
        .flat_map(|(place, future)| {
            let one = move |manner| Foresight { place, future, manner };
            rig.manners(place).into_iter().map(one)
        })
        .collect();
    let runs = rig.all(&tries.iter().map(|&foresight| vec![foresight]).collect::<Vec<_>>())?;
    let above = (0..tries.len()).filter(|&at| tries[at].place == Place::Host);
    let above = above.reduce(|best, at| if is_better(&runs[at].0, &runs[best].0) { at } else { best });
    if let (Some(above), true) = (above, spec.cache_bytes > 0) {
        let below = Future::of(&runs[above].1.take());
        let (place, future) = (Place::Array, &below);
        let pair = |manner| vec![tries[above], Foresight { place, future, manner }];
        let pairs: Vec<_> = rig.manners(place).into_iter().filter(|m| !m.eager).map(pair).collect();
        rig.all(&pairs)?.into_iter().for_each(|(run, _)| keep(&mut best, run));
    }
    runs.into_iter().for_each(|(run, _)| keep(&mut best, run));
    Ok(best)
}

fn keep(best: &mut RunReport, run: RunReport) {
    if is_better(&run, best) {
        *best = run;
    }
}

impl Rig<'_> {
    /// Runs all of `tries`, on as many threads as there are processors; reports in order, each with what the array was asked for.
    fn all(&self, tries: &[Vec<Foresight<'_>>]) -> Result<Vec<(RunReport, Log)>, RunError> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(tries.len());
        let left = Mutex::new(tries.iter().enumerate());
        let worker = || {
            let mut mine = Vec::new();
            loop {
                let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((at, foresights)) = next else { return mine };
                mine.push((at, self.run(foresights)));
            }
        };
        let mut done = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            let mut done = Vec::with_capacity(tries.len());
            for worker in workers {
                done.extend(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            done
        });
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, run)| run).collect()
    }

    /// One run that knows the future of these layers.
    fn run(&self, foresights: &[Foresight<'_>]) -> Result<(RunReport, Log), RunError> {
        let log = Log::default();
        let mut layers = Layers::new(&self.hardware, self.spec);
        let mut told = Vec::new();
        for foresight in foresights {
            let built = self.knowing(foresight);
            told.push(self.told(foresight));
            match foresight.place {
                Place::Host => layers.host = built,
                Place::Array => layers.array = built,
            }
        }
        if let [Foresight { place: Place::Host, .. }] = foresights {
            layers.array = heard(layers.array, &log);
        }
        let mut run = host::run_layers(self.input, self.spec, &self.hardware, layers, self.progress)?;
        run.found_by = Some(format!("foresight in {}", told.join(" and in ")));
        Ok((run, log))
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
        let (place, bytes) = match foresight.place {
            Place::Host => ("the page cache", self.spec.host_cache_bytes),
            Place::Array => ("the array's cache", self.spec.cache_bytes),
        };
        let blocks = (bytes / BLOCK_BYTES / foresight.manner.batch_one_in).max(1);
        let size = forerun_core::size::format_size(blocks * BLOCK_BYTES);
        let order = if foresight.manner.eager { ", readers first" } else { "" };
        format!("{place} (batches of {size}{order})")
    }

    /// What is tried in a layer.
    fn manners(&self, place: Place) -> Vec<Manner> {
        let disks = self.hardware.array.disks();
        let each = if self.hardware.cost.half_rotation.0 > 0 { DEPTH_HEAD } else { DEPTH_PARALLEL };
        // To the page cache all disks are one.
        let (lanes, depth) = match place {
            Place::Host => (1, each * u32::from(disks)),
            Place::Array => (usize::from(disks), each),
        };
        let gap = gap_blocks(&self.hardware);
        let both = |batch_one_in| [true, false].map(|eager| Manner { batch_one_in, eager, gap, lanes, depth });
        BATCHES_ONE_IN.into_iter().flat_map(both).collect()
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
