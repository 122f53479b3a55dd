//! From a spec to the objects of a run: geometry, devices, layers.

use super::members::Members;
use super::sectors::Sectors;
use super::stack::Stack;
use crate::error::RunError;
use crate::input::Programs;
use crate::layout::{Apart, Ground, LayoutError, LayoutSpec, Placement};
use crate::replay::Fit;
use crate::spec::{RunSpec, SPEC_VERSION};
use forerun_core::array::{Array, ArraySpec, Level};
use forerun_core::assemble::PART_BLOCKS;
use forerun_core::cost::CostModel;
use forerun_core::engine::{ACCESS_BLOCKS_MAX, Engine, Input, WriteMode};
use forerun_core::registry::{BuiltLayer, Explained, Grounds, SchemeSpec};
use forerun_core::spec::LayerSpec;
use forerun_core::units::{BLOCK_BYTES, Disk, Nanos, SECTORS_PER_BLOCK};
use forerun_disk::device::Device;
use forerun_disk::host_queue::{HostPolicy, HostQueueSpec};
use forerun_disk::preset::{BuildOptions, Preset};

/// Memory of a layer that only passes blocks through, in blocks: 64 MiB.
pub(crate) const TRANSIT_BLOCKS: u64 = 16_384;
/// Largest cache: beyond it slots have no numbers of 32 bits. 8 TiB, and as much again for what is staged.
const CACHE_BYTES_MAX: u64 = 8 << 40;
/// Smallest cache.
const CACHE_BYTES_MIN: u64 = 2 * PART_BLOCKS * BLOCK_BYTES;
/// Stripes for which staging memory is kept.
pub(crate) const STAGING_STRIPES: u64 = 32;
/// The page cache writes back after 30 s or at 40% dirty (Linux 2.6.18's defaults).
const HOST_WRITE: WriteMode = WriteMode::Back { dirty_percent: 40, age: Nanos::from_secs(30) };

/// What a spec's hardware comes to.
pub struct Hardware {
    /// Geometry over the members.
    pub array: Array,
    /// The member device, with the cache that the spec gives it.
    pub preset: Preset,
    /// Time of a block at the outer zone's rate.
    pub outer_ns_per_block: u64,
    /// What schemes believe that reads cost.
    pub cost: CostModel,
}

fn wrong(field: &'static str, why: impl ToString) -> RunError {
    RunError::Spec { field, why: why.to_string() }
}

/// Puts the hardware of a spec together.
///
/// # Errors
/// [`RunError::Spec`] with the field that does not fit.
pub fn hardware(spec: &RunSpec) -> Result<Hardware, RunError> {
    if spec.spec_version != SPEC_VERSION {
        let why =
            format!("version {} is not known; this Forerun reads version {SPEC_VERSION}", spec.spec_version);
        return Err(wrong("spec_version", why));
    }
    let mut preset = Preset::clone(&spec.device);
    if let Some(cache) = *spec.drive_cache {
        preset = preset.with_drive_cache(cache).map_err(|e| wrong("drive-cache", e))?;
    }
    if spec.drive_readahead.is_some() && !preset.is_mechanical() {
        let why = format!("{} is no mechanical drive: it does not read ahead by itself", preset.name);
        return Err(wrong("drive-readahead", why));
    }
    if let Some(on) = spec.drive_write_cache {
        preset = preset.with_write_cache(on).map_err(|e| wrong("drive-write-cache", e))?;
    }
    let member = preset.build(&options(spec, None)).map_err(|e| wrong("device", e))?;
    let array =
        Array::new(*spec.array, member.sectors() / SECTORS_PER_BLOCK).map_err(|e| wrong("array", e))?;
    let believed = preset.cost_params().map_err(|e| wrong("device", e))?;
    for &disk in &spec.failed {
        if disk >= array.disks() {
            let why = format!("there is no member {disk} in an array of {}", array.disks());
            return Err(wrong("failed", why));
        }
    }
    if !array.bears(&spec.failed.iter().map(|&disk| Disk(disk)).collect()) {
        let why = format!(
            "{} has lost data without them: name fewer members, or a level with more redundancy",
            array.spec()
        );
        return Err(wrong("failed", why));
    }
    if !(1..=ACCESS_BLOCKS_MAX).contains(&spec.cluster_blocks) {
        let why = format!("a command has from 1 to {ACCESS_BLOCKS_MAX} blocks, not {}", spec.cluster_blocks);
        return Err(wrong("cluster", why));
    }
    check_cache("cache", "a cache", spec.cache_bytes)?;
    check_cache("host-cache", "a page cache", spec.host_cache_bytes)?;
    let (outer_ns_per_block, cost) = (believed.outer_ns_per_block, believed.into());
    let hardware = Hardware { array, outer_ns_per_block, cost, preset };
    let checked = |layer: LayerSpec| layer.scheme.check(layer.layer, &layer.shape());
    checked(array_layer(&hardware, spec)).map_err(|e| wrong("scheme", e))?;
    checked(host_layer(&hardware, spec)).map_err(|e| wrong("scheme", e))?;
    Ok(hardware)
}

/// A cache that slots can number and that two of the longest accesses fit in, or none.
fn check_cache(field: &'static str, what: &str, bytes: u64) -> Result<(), RunError> {
    let said = forerun_core::size::format_size;
    if bytes > CACHE_BYTES_MAX {
        return Err(wrong(field, format!("a cache holds at most {}", said(CACHE_BYTES_MAX))));
    }
    if bytes > 0 && bytes < CACHE_BYTES_MIN {
        let least = said(CACHE_BYTES_MIN);
        return Err(wrong(field, format!("{what} holds at least {least}; give 0 for none")));
    }
    Ok(())
}

/// The numbers that the scheme of a spec chooses.
pub(crate) fn explain(spec: &RunSpec, streams: u64) -> Result<Vec<Explained>, RunError> {
    let hardware = hardware(spec)?;
    let shape = array_layer(&hardware, spec).shape();
    let member_blocks = hardware.array.member_blocks();
    let grounds = Grounds { shape: &shape, cost: &hardware.cost, member_blocks, streams };
    Ok(spec.scheme.explain(&grounds))
}

fn options(spec: &RunSpec, queue: Option<HostPolicy>) -> BuildOptions {
    BuildOptions {
        drive_readahead: spec.drive_readahead,
        host_queue: queue.map(|policy| HostQueueSpec {
            policy,
            merge_sectors_max: spec.cluster_blocks * SECTORS_PER_BLOCK,
            // A schedule of one command at a time is for a head. Above other devices a scheduler of Linux only merges and sorts what waits, and they have
            // as many commands at once as they take.
            device_commands_max: if spec.device.is_mechanical() { 1 } else { u32::MAX },
            ..HostQueueSpec::default()
        }),
        seed: spec.seed,
    }
}

/// Where the files of a spec's programs lie.
pub(crate) fn placement(
    hardware: &Hardware,
    spec: &RunSpec,
    programs: &Programs,
) -> Result<Placement, RunError> {
    if *spec.layout != LayoutSpec::Contiguous && *spec.fit == Fit::Modulo {
        return Err(wrong("layout", LayoutError::Fitted));
    }
    let files: Vec<u64> = programs.files.iter().map(|bytes| bytes / BLOCK_BYTES).collect();
    let ground = Ground {
        files: &files,
        blocks: programs.footprint_bytes.div_ceil(BLOCK_BYTES),
        capacity: hardware.array.capacity_blocks(),
        seed: spec.seed,
    };
    Placement::new(*spec.layout, &ground).map_err(|e| wrong("layout", e))
}

/// Starts of the files, in blocks, with the end of the last where it is known.
pub(super) fn files(programs: &Programs) -> Vec<u64> {
    programs.files.iter().chain(&programs.files_end).map(|bytes| bytes / BLOCK_BYTES).collect()
}

/// The schemes of both layers, ready for their engines.
pub(crate) struct Layers {
    /// Of the page cache; not used where the spec has none.
    pub(crate) host: BuiltLayer,
    /// Of the array's cache.
    pub(crate) array: BuiltLayer,
    /// Most commands outstanding at one disk of each; none is the usual depth.
    pub(crate) in_flight: Option<u32>,
}

impl Layers {
    /// What the spec's scheme makes of each layer.
    pub(crate) fn new(hardware: &Hardware, spec: &RunSpec) -> Self {
        let (host, array) = (host_layer(hardware, spec).built(), array_layer(hardware, spec).built());
        Self { host, array, in_flight: None }
    }
}

/// The array's layer of a spec whose hardware has been checked.
#[must_use]
pub fn array_layer(hardware: &Hardware, spec: &RunSpec) -> LayerSpec {
    let array = hardware.array;
    let retain = spec.cache_bytes > 0;
    let cache_blocks = if retain { spec.cache_bytes / BLOCK_BYTES } else { TRANSIT_BLOCKS };
    LayerSpec {
        retain,
        staging_blocks: STAGING_STRIPES * u64::from(array.disks()) * array.strip_blocks(),
        write: *spec.write,
        cost: hardware.cost,
        ..LayerSpec::array_cache(SchemeSpec::clone(&spec.scheme), array, cache_blocks)
    }
}

/// The host's layer of a spec, over a volume of the array's size.
pub(crate) fn host_layer(hardware: &Hardware, spec: &RunSpec) -> LayerSpec {
    // To the host the array is one device of strips as long as the array's; its blocks are the volume's.
    let strip_bytes = hardware.array.strip_blocks() * BLOCK_BYTES;
    let single = ArraySpec::new(Level::Single, 1, strip_bytes).expect("one disk of the array's strips");
    let volume = Array::new(single, hardware.array.capacity_blocks()).expect("an array holds a strip");
    LayerSpec {
        command_blocks_max: spec.cluster_blocks,
        write: HOST_WRITE,
        cost: hardware.cost,
        ..LayerSpec::page_cache(SchemeSpec::clone(&spec.scheme), volume, spec.host_cache_bytes / BLOCK_BYTES)
    }
}

/// Layers and devices of a spec; the layers may run schemes that the registry does not make (the oracle).
pub(super) fn stack(
    hardware: &Hardware,
    spec: &RunSpec,
    layers: Layers,
    placement: Placement,
    apart: Option<Apart>,
) -> Result<Stack, RunError> {
    let in_flight = layers.in_flight;
    let layer = LayerSpec { in_flight, ..array_layer(hardware, spec) };
    let mut array = engine(layer, layers.array, "cache")?;
    for &disk in &spec.failed {
        array.handle(Nanos::ZERO, Input::Member { disk: Disk(disk), failed: true });
    }
    let host = (spec.host_cache_bytes > 0)
        .then(|| {
            let mut layer = LayerSpec { in_flight, ..host_layer(hardware, spec) };
            let blocks = placement.blocks_above(hardware.array.capacity_blocks());
            let blocks = apart.as_ref().map_or(blocks, |apart| apart.blocks(blocks));
            layer.array = Array::new(*layer.array.spec(), blocks).map_err(|e| wrong("array", e))?;
            engine(layer, layers.host, "host-cache")
        })
        .transpose()?;
    let queue = scheduler(spec);
    let devices: Result<Vec<Box<dyn Device>>, _> =
        (0..hardware.array.disks()).map(|_| hardware.preset.build(&options(spec, queue))).collect();
    let devices = devices.map_err(|e| wrong("device", e))?;
    let members = Members::new(devices, spec.bus_bytes_per_s, Nanos(spec.buffer_cost_ns));
    let mut stack = Stack::new(host, array, members, *spec.cpu, placement);
    stack.keep_left_unread();
    stack.apart = apart;
    stack.sectors = spec.moves_sectors().then(|| Sectors::new(hardware.array));
    Ok(stack)
}

/// The scheduler above each member.
fn scheduler(spec: &RunSpec) -> Option<HostPolicy> {
    if spec.waits_in_vain() { None } else { *spec.scheduler }
}

/// The engine of a layer whose memory is given by `field` of a spec.
fn engine(layer: LayerSpec, built: BuiltLayer, field: &'static str) -> Result<Engine, RunError> {
    layer.build_with(built).map_err(|e| wrong(field, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::Said;

    /// Bytes that small writes to one file read from the disk, where each begins.
    fn read_for(offsets: impl Iterator<Item = u64>) -> u64 {
        use crate::input::Input;
        use forerun_core::access::Op;
        use forerun_trace::record::{Name, Record, Trace};
        let write = |offset| Record { file: Name(1), op: Op::Write, offset, bytes: 700, ..Record::BLANK };
        let names = vec![String::new(), "log".into()];
        let records = offsets.map(write).collect();
        let trace = Trace { names, records, format: "test".into(), ..Trace::default() };
        let spec = RunSpec { cache_bytes: 2 << 20, host_cache_bytes: 2 << 20, ..RunSpec::default() };
        let run = crate::run::run(&Input::of_trace("log", "", trace), &spec, &|_| {}).expect("runs");
        run.bytes_from_devices + run.bytes_from_devices_for_writes
    }

    #[test]
    fn small_appends_fetch_nothing_and_small_writes_into_the_middle_fetch_their_blocks() {
        assert_eq!(read_for((0..400).map(|n| n * 700)), 0);
        assert!(read_for((0..400).map(|n| (399 - n) * 9_000)) >= 400 * BLOCK_BYTES);
    }

    #[test]
    fn small_writes_behind_the_end_of_a_file_that_the_trace_made_fetch_nothing() {
        // Each leaves a hole; or goes over the end.
        assert_eq!(read_for((0..400).map(|n| n * 9_000)), 0);
        assert_eq!(read_for((0..400).map(|n| n * 600)), 0);
        assert!(read_for((1..400).map(|n| n * 9_000)) >= 399 * BLOCK_BYTES, "what lies before nobody knows");
    }

    #[test]
    fn nobody_waits_for_a_near_request_above_a_device_without_a_head() {
        for (device, waits) in [("nvme", false), ("gp3", false), ("wd-7200", true)] {
            let spec = RunSpec { device: Said::of(device), ..RunSpec::default() };
            assert_eq!(scheduler(&spec).is_some(), waits, "{device}");
            let words = if waits { "anticipatory" } else { "none (anticipatory is for devices with a head)" };
            assert_eq!(spec.scheduler_in_words(), words, "{device}");
            let sweep = RunSpec { scheduler: Said::of("clook"), ..spec };
            assert_eq!(scheduler(&sweep), Some(HostPolicy::CLook));
            assert_eq!(sweep.scheduler_in_words(), "clook");
            let commands =
                options(&sweep, scheduler(&sweep)).host_queue.map(|queue| queue.device_commands_max);
            assert_eq!(commands, Some(if waits { 1 } else { u32::MAX }), "{device}");
        }
    }
}
