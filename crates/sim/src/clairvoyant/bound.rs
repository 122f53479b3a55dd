//! `bound`: a time that nothing on this hardware can beat, computed and not simulated.
//!
//! It is the longest of lower bounds. *Compute*: a process waits at least for its own think times and for the top layer's CPU delay of
//! each of its requests, in the order in which it may have them outstanding; in `open` mode the last recorded time stands in its
//! place. *Devices*: each disk must read the blocks that have to be loaded from it, in the least time that its mechanism needs for
//! them in any order ([`Floor`]: passing, gaps, seeks; dies and channels; tokens). *Bus*, where it is limited: all loads over it.
//!
//! What must be loaded is where validity is decided. Every first read of a block is a load, whatever the scheme. More
//! than that is claimed only where the order of reads does not depend on service (one process, or recorded times):
//! then the loads of Belady's MIN, for each disk over its own subsequence with all memory of the stack for itself
//! (both caches and the drive's own), and over all disks together, with the drives' memories too; and of each *phase* of the order,
//! in which so many different blocks are read that memory cannot hold most of them, the least time of those that it cannot,
//! whichever they are. Phases follow one another: what one of them loads is not loaded in another, since what memory brings from
//! before is what it held at the turn. This holds for
//! prefetching as well: an engine gives an access all its slots in the order in which accesses arrive, a block in a
//! slot or a drive's segment was transferred once since it last was nowhere, and MIN is minimal over all ways to
//! choose what is somewhere. A block that is written is taken out: from its first write on where one request ends
//! before the next begins, else altogether, since a write may answer a read whose fetch the run then never waits for.
//! So are blocks of failed members, which may be computed from others.

use super::numbers::Numbers;
use crate::error::RunError;
use crate::host::{self, Hardware, STAGING_STRIPES, TRANSIT_BLOCKS};
use crate::input::{Input, Programs};
use crate::layout::Placement;
use crate::replay::Drive;
use crate::report::{BlameReport, Counts, DeviceReport, LatencyReport, RunReport, StallReport};
use crate::said::Said;
use crate::spec::RunSpec;
use crate::workload::Request;
use forerun_core::access::Op;
use forerun_core::assemble::PART_BLOCKS;
use forerun_core::retention::Key;
use forerun_core::retention::belady::min_loads;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK};
use forerun_disk::floor::Floor;
use forerun_disk::preset::PresetSpec;
use forerun_trace::packed::{Bits, Packed};

/// Asserts that no run of a comparison is faster than the row `bound` of the same input and hardware.
///
/// # Panics
/// If one is: then the bound or the simulator is wrong, and the message names both times.
pub fn assert_bound(runs: &[RunReport]) {
    let hardware = |run: &RunReport| RunSpec { scheme: Said::of("none"), ..run.spec.clone() };
    for bound in runs.iter().filter(|run| run.scheme == "bound") {
        let same = hardware(bound);
        for run in runs.iter().filter(|run| hardware(run) == same) {
            assert!(
                run.elapsed_ns >= bound.elapsed_ns,
                "{} took {} ns on {}, which cannot be done in less than {} ns: one of the two is wrong",
                run.scheme,
                run.elapsed_ns,
                run.input,
                bound.elapsed_ns
            );
        }
    }
}

/// The row `bound`: elapsed time, throughput, bytes, and for each disk its minimal transfer (`bytes`, `busy_ns`).
/// Whatever means nothing for it is 0. The layers' caches are those of the spec, its scheme does not matter.
///
/// # Errors
/// See [`RunError`].
pub fn bound(input: &Input, spec: &RunSpec) -> Result<RunReport, RunError> {
    let hardware = host::hardware(spec)?;
    let programs = input.programs(spec, hardware.array.capacity_blocks() * BLOCK_BYTES)?;
    let placement = host::placement(&hardware, spec, &programs)?;
    let asked = Asked::of(programs, spec, &placement);
    let loads = Loads::of(&asked, &hardware, spec, &placement)?;
    let free = burst_ns(&hardware);
    let sectors = asked.sectors_of_a_block();
    let block_ns = hardware.outer_ns_per_block * sectors / SECTORS_PER_BLOCK;
    let transfer = |blocks: u64| blocks.saturating_mul(block_ns).saturating_sub(free);
    let per_disk: Vec<u64> =
        loads.disks.iter().zip(&loads.least).map(|(&n, &least)| transfer(n).max(least)).collect();
    let shared = transfer(loads.all.div_ceil(loads.disks.len().max(1) as u64));
    let block_bytes = sectors * SECTOR_BYTES;
    let bus = (block_bytes * 1_000_000_000).checked_div(spec.bus_bytes_per_s).unwrap_or(0);
    let elapsed = asked
        .compute
        .max(per_disk.iter().copied().max().unwrap_or(0))
        .max(shared)
        .max(loads.all.saturating_mul(bus));
    let device = |(&blocks, &busy_ns): (&u64, &u64)| DeviceReport {
        bytes: blocks * block_bytes,
        busy_ns,
        ..DeviceReport::default()
    };
    Ok(RunReport {
        elapsed_ns: elapsed,
        bytes_requested: asked.bytes_read + asked.bytes_written,
        bytes_read_requested: asked.bytes_read,
        bytes_from_devices: loads.all * block_bytes,
        throughput_bytes_per_s: per_second(asked.bytes_read + asked.bytes_written, elapsed),
        devices: loads.disks.iter().zip(&per_disk).map(device).collect(),
        ..empty(input, spec)
    })
}

#[expect(clippy::cast_precision_loss, reason = "a rate for a report")]
fn per_second(bytes: u64, elapsed: u64) -> f64 {
    if elapsed == 0 { 0.0 } else { bytes as f64 / Nanos(elapsed).as_secs_f64() }
}

/// A report that says only what was asked.
fn empty(input: &Input, spec: &RunSpec) -> RunReport {
    RunReport {
        scheme: "bound".into(),
        input: input.name_under(spec),
        array: spec.array.to_string(),
        cache_bytes: spec.cache_bytes,
        host_cache_bytes: spec.host_cache_bytes,
        elapsed_ns: 0,
        destage_left_ns: 0,
        bytes_requested: 0,
        bytes_read_requested: 0,
        bytes_from_devices: 0,
        bytes_from_devices_for_writes: 0,
        bytes_to_devices: 0,
        throughput_bytes_per_s: 0.0,
        counts: Counts::default(),
        hit_ratio: 0.0,
        precision: 0.0,
        coverage: 0.0,
        cost: 0.0,
        amplification: 0.0,
        latency_ns: LatencyReport::default(),
        stall: StallReport::default(),
        blame: BlameReport::default(),
        devices: Vec::new(),
        layers: Vec::new(),
        cpu_share: 0.0,
        time: None,
        streams: None,
        share_of_clairvoyant: None,
        found_by: None,
        input_assumed: input.assumed.clone(),
        input_skipped: input.skipped,
        marks: Vec::new(),
        timeline: Vec::new(),
        spec: RunSpec { input_hash: input.hash.clone(), ..spec.clone() },
        seed: spec.seed,
    }
}

/// What a device may move at once beyond its rate, as time at that rate.
fn burst_ns(hardware: &Hardware) -> u64 {
    match &hardware.preset.spec {
        PresetSpec::Cloud { volume, .. } => volume.burst_ms * 1_000_000,
        PresetSpec::Mechanical { .. } | PresetSpec::Ssd { .. } => 0,
    }
}

/// Blocks that a drive's own cache may hold; one segment more than it has, for what is being filled.
fn drive_cache_blocks(hardware: &Hardware) -> u64 {
    match &hardware.preset.spec {
        PresetSpec::Mechanical { drive, .. } => {
            let segments = u64::from(drive.cache.segments.max(2)) + 1;
            (segments * drive.cache.segment_sectors.max(1)).div_ceil(SECTORS_PER_BLOCK)
        }
        PresetSpec::Ssd { .. } | PresetSpec::Cloud { .. } => 0,
    }
}

/// What the programs ask for, walked once.
#[derive(Default)]
struct Asked {
    /// At least this long the programs take by themselves, ns.
    compute: u64,
    bytes_read: u64,
    bytes_written: u64,
    /// Blocks by key.
    numbers: Numbers,
    /// Per key: nothing is claimed of it.
    exempt: Bits,
    /// Blocks read in the order of arrival; empty where that order is not known.
    reads: Vec<Key>,
    /// Per key: it was read before it was exempt.
    read: Bits,
    any_write: bool,
    /// Some read names only a part of a block, and no layer reads the rest: of a block at least a sector is read.
    in_parts: bool,
}

/// How far the order of requests is known beforehand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// One request ends before the next begins.
    Serial,
    /// Requests arrive in this order, and overlap.
    Arrivals,
    /// It depends on service.
    Open,
}

/// When the requests of one process can leave at the earliest, were the storage to take no time, ns.
#[derive(Default)]
struct Chain {
    /// By request.
    issued: Packed,
    /// The last of them.
    latest: u64,
    /// The last answer so far.
    answered: u64,
}

impl Chain {
    /// The next request, whose answer takes at least `delay` ns. It waits for all earlier answers, or for as many as leave
    /// `overlap` of them out: they are so many only once so many requests have left.
    fn push(&mut self, request: &Request, delay: u64) {
        let count = self.issued.len();
        let ready = match usize::try_from(request.overlap) {
            Ok(0) => self.answered,
            Ok(overlap) if overlap < count => self.issued.get(count - overlap - 1),
            _ => 0,
        };
        let at = ready.saturating_add(request.think.0).max(self.latest);
        self.latest = at;
        self.issued.push(at);
        self.answered = self.answered.max(at.saturating_add(delay));
    }
}

impl Asked {
    fn of(programs: Programs, spec: &RunSpec, placement: &Placement) -> Self {
        let mut asked = Self::default();
        let cpu = if spec.host_cache_bytes > 0 { spec.cpu.host } else { spec.cpu.array };
        // A long request goes down in parts that are answered side by side: the longest of them counts, and of a
        // file in pieces that may be one block.
        let whole = spec.host_cache_bytes > 0 || placement.is_identity();
        let longest = if whole { PART_BLOCKS } else { 1 };
        let delay = |request: &Request| {
            let blocks = Extent::covering(request.offset, request.bytes).blocks.min(longest);
            cpu.delay(blocks * BLOCK_BYTES, Some(Nanos::ZERO)).0
        };
        let order = match programs.drive {
            Drive::Timed(timed) => {
                for next in timed.iter() {
                    asked.compute = asked.compute.max(next.at.0 + delay(&next.request));
                    asked.take(&next.request, Order::Arrivals);
                }
                Order::Arrivals
            }
            Drive::Sources { sources, outstanding } => {
                let mut order = if sources.len() > 1 {
                    Order::Open
                } else if outstanding == 1 {
                    Order::Serial
                } else {
                    Order::Arrivals
                };
                let mut thinks = None;
                for mut source in sources {
                    let mut own = Chain::default();
                    while let Some(request) = source.next() {
                        own.push(&request, delay(&request));
                        // Requests side by side arrive as they were made only if all think alike.
                        if outstanding > 1
                            && order == Order::Arrivals
                            && *thinks.get_or_insert(request.think) != request.think
                        {
                            order = Order::Open;
                            asked.reads = Vec::new();
                        }
                        // Recorded ones that overlap keep their order.
                        if order == Order::Serial && request.overlap > 0 {
                            order = Order::Arrivals;
                        }
                        asked.take(&request, order);
                    }
                    asked.compute = asked.compute.max(own.answered / outstanding.max(1));
                }
                order
            }
        };
        if order == Order::Arrivals {
            let exempt = &asked.exempt;
            asked.reads.retain(|key| !exempt.has(key.index()));
        }
        if order != Order::Serial {
            asked.read.clear(&asked.exempt);
        }
        asked.in_parts &= spec.moves_sectors();
        asked
    }

    /// Of each block that is read at least so much.
    const fn sectors_of_a_block(&self) -> u64 {
        if self.in_parts { 1 } else { SECTORS_PER_BLOCK }
    }

    fn take(&mut self, request: &Request, order: Order) {
        let extent = Extent::covering(request.offset, request.bytes);
        match request.op {
            Op::Read => {
                self.bytes_read += request.bytes;
                self.in_parts |= extent.bytes() != request.bytes;
            }
            Op::Write => {
                self.bytes_written += request.bytes;
                self.any_write = true;
            }
        }
        for block in extent.iter() {
            let key = Key(self.numbers.intern(block));
            if request.op == Op::Write {
                self.exempt.set(key.index());
            } else if !self.exempt.has(key.index()) {
                self.read.set(key.index());
                if order != Order::Open {
                    self.reads.push(key);
                }
            }
        }
    }
}

/// Blocks that must cross from the media.
struct Loads {
    /// By each disk.
    disks: Vec<u64>,
    /// The least time in which each disk can read what it must, ns.
    least: Vec<u64>,
    /// By all of them together: at least the sum of `disks`.
    all: u64,
}

/// Belongs to no disk.
const NO_DISK: u16 = u16::MAX;

/// A phase reads so many times as many different blocks as memory holds: of them memory may hold as many from before as it can,
/// and as many may be under way at its end.
const PHASE_MEMORIES: u64 = 6;

/// Where each block lies, per key: its disk, and its number there.
#[derive(Default)]
struct Homes {
    disks: Packed,
    places: Packed,
}

impl Homes {
    fn of(asked: &Asked, hardware: &Hardware, spec: &RunSpec, placement: &Placement) -> Self {
        let mut homes = Self::default();
        for key in 0..asked.numbers.len() {
            let place = placement.place(asked.numbers.block(key));
            let direct =
                hardware.array.direct(Extent::new(place.0, 1)).expect("requests lie within the volume");
            let disk = if spec.failed.contains(&direct.disk.0) { NO_DISK } else { direct.disk.0 };
            homes.disks.push(disk.into());
            homes.places.push(direct.extent.start.0);
        }
        homes
    }
    fn disk(&self, key: Key) -> u16 {
        // As it was when it was taken.
        self.disks.get(key.index()) as u16
    }
    /// The numbers of these blocks on their disk, ascending.
    fn places(&self, keys: impl Iterator<Item = Key>) -> Vec<u64> {
        let mut places: Vec<u64> = keys.map(|key| self.places.get(key.index())).collect();
        places.sort_unstable();
        places
    }
}

impl Loads {
    fn of(
        asked: &Asked,
        hardware: &Hardware,
        spec: &RunSpec,
        placement: &Placement,
    ) -> Result<Self, RunError> {
        let array = &hardware.array;
        let homes = Homes::of(asked, hardware, spec, placement);
        let wrong =
            |why: forerun_disk::preset::PresetError| RunError::Spec { field: "device", why: why.to_string() };
        let longest = array.strip_blocks().max(spec.cluster_blocks);
        let floor =
            Floor::new(&hardware.preset, longest).map_err(wrong)?.of_sectors(asked.sectors_of_a_block());
        let (mut disks, mut least) = (Vec::new(), Vec::new());
        for disk in 0..array.disks() {
            let read = (0..asked.numbers.len()).map(Key).filter(|key| asked.read.has(key.index()));
            let own = homes.places(read.filter(|&key| homes.disk(key) == disk));
            disks.push(own.len() as u64);
            least.push(floor.all(&own));
        }
        let mut all = disks.iter().sum();
        if !asked.reads.is_empty() {
            let own = drive_cache_blocks(hardware);
            let layers = layers_blocks(asked, hardware, spec);
            for disk in 0..array.disks() {
                let at = usize::from(disk);
                let mine = |key: Key| homes.disk(key) == disk;
                disks[at] = loads(&asked.reads, mine, disks[at], layers + own);
                least[at] = least[at].max(phases(&asked.reads, &homes, disk, &floor, layers + own));
            }
            let memory = layers + own * u64::from(array.disks());
            all = loads(&asked.reads, |key| homes.disk(key) != NO_DISK, all, memory);
        }
        Ok(Self { all: all.max(disks.iter().sum()), disks, least })
    }
}

/// The least time of a disk over the phases of the order: in each, of its blocks of the phase, all must be read but as many as
/// memory held at its beginning and as many as are under way at its end.
fn phases(reads: &[Key], homes: &Homes, disk: u16, floor: &Floor, memory: u64) -> u64 {
    let (most, held) = (memory.saturating_mul(PHASE_MEMORIES), 2 * memory);
    let (most, held) =
        (usize::try_from(most).unwrap_or(usize::MAX), usize::try_from(held).unwrap_or(usize::MAX));
    let mut phase: Vec<Key> = Vec::new();
    // Per key: the number of the phase that read it last, from 1.
    let mut read_in = vec![0_u32; homes.disks.len()];
    let (mut number, mut time) = (1, 0);
    let end = |phase: &[Key]| floor.all_but(&homes.places(phase.iter().copied()), held);
    for &key in reads.iter().filter(|&&key| homes.disk(key) == disk) {
        if read_in[key.index()] != number {
            read_in[key.index()] = number;
            phase.push(key);
            if phase.len() >= most {
                time += end(&phase);
                number += 1;
                phase.clear();
            }
        }
    }
    time + end(&phase)
}

/// All memory above the drives in which a block may be, in blocks.
fn layers_blocks(asked: &Asked, hardware: &Hardware, spec: &RunSpec) -> u64 {
    let array = match spec.cache_bytes {
        0 => TRANSIT_BLOCKS,
        bytes => bytes / BLOCK_BYTES,
    };
    // Parity and rebuilding have memory of their own, which holds blocks of data for a while.
    let stripes = if asked.any_write || !spec.failed.is_empty() { STAGING_STRIPES + 1 } else { 0 };
    let staging = stripes * u64::from(hardware.array.disks()) * hardware.array.strip_blocks();
    array + spec.host_cache_bytes / BLOCK_BYTES + staging
}

/// Loads of MIN with room for `memory` blocks over those of `reads` that are `mine`, `distinct` different ones.
fn loads(reads: &[Key], mine: impl Fn(Key) -> bool, distinct: u64, memory: u64) -> u64 {
    if distinct <= memory {
        return distinct;
    }
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    let count = |own: &[Key]| min_loads(own, memory).count();
    if reads.iter().all(|&key| mine(key)) {
        return count(reads);
    }
    count(&reads.iter().copied().filter(|&key| mine(key)).collect::<Vec<_>>())
}
