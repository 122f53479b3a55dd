//! The least time in which a device can read given blocks, whatever the order and whoever chooses it.
//!
//! A lower bound, for references that must hold for everything that could be done: each term is work that cannot be avoided and
//! that one part of the device does alone.
//!
//! *A drive with a head.* Every block must pass under the head once. Between two blocks of a track the head either waits until
//! what lies between has passed, or leaves and comes back, which is a move more; so each gap costs the cheaper of the two, and
//! one gap of each track is free, since a turn may begin behind it. From track to track it moves: a tour over tracks is at least
//! their least spanning tree, and that is the seeks over neighbouring cylinders, and a head switch (or the shortest seek) for each
//! further track. Beside the head, the link must move all bytes.
//!
//! *A flash drive.* Each page occupies its die until it is on its channel, and its channel; the link moves all bytes; commands, none
//! longer than a host makes them, start at least an interval apart.
//!
//! *A cloud volume.* Tokens for bytes and for operations, less those that a burst gives at once.

use crate::cloud::CloudSpec;
use crate::layout::Layout;
use crate::mechanical::spec::DriveSpec;
use crate::mechanical::us_to_ns;
use crate::preset::{Preset, PresetError, PresetSpec};
use crate::seek::SeekTable;
use crate::ssd::SsdSpec;
use forerun_core::units::{BLOCK_BYTES, SECTOR_BYTES, SECTORS_PER_BLOCK};

/// What the simulated angle may be off by, ns: waits that are short of a turn by so much are none.
const ANGLE_SLACK_NS: u64 = 400;

/// A device, as far as its least times go.
pub struct Floor {
    kind: Kind,
    /// Blocks of the longest command that a host makes.
    command_blocks: u64,
    /// Of each block at least so many sectors are read.
    sectors: u64,
}

enum Kind {
    Head(Box<Arm>),
    Flash(SsdSpec),
    Volume(CloudSpec),
}

struct Arm {
    layout: Layout,
    /// Least time of a seek over at least so many cylinders.
    seeks: Vec<u64>,
    /// Least time to another track.
    hop: u64,
    link_sector: u64,
}

impl Floor {
    /// Of a preset under a host whose commands have at most `command_blocks` blocks.
    ///
    /// # Errors
    /// [`PresetError`] as when it is built.
    pub fn new(preset: &Preset, command_blocks: u64) -> Result<Self, PresetError> {
        let kind = match &preset.spec {
            PresetSpec::Mechanical { drive, .. } => {
                let wrong = |source| PresetError::Drive { name: preset.name.clone(), source };
                Kind::Head(Box::new(Arm::new(drive).map_err(wrong)?))
            }
            PresetSpec::Ssd { ssd, .. } => Kind::Flash(*ssd),
            PresetSpec::Cloud { volume, .. } => Kind::Volume(*volume),
        };
        Ok(Self { kind, command_blocks: command_blocks.max(1), sectors: SECTORS_PER_BLOCK })
    }

    /// The same where of each block perhaps no more than `sectors` are read, nobody knows which.
    #[must_use]
    pub fn of_sectors(self, sectors: u64) -> Self {
        Self { sectors: sectors.clamp(1, SECTORS_PER_BLOCK), ..self }
    }

    /// Least time, ns, to read `blocks`, which ascend.
    #[must_use]
    pub fn all(&self, blocks: &[u64]) -> u64 {
        match &self.kind {
            Kind::Head(arm) => {
                arm.all(blocks, self.sectors).max(blocks.len() as u64 * self.sectors * arm.link_sector)
            }
            Kind::Flash(ssd) => flash(ssd, blocks, self.sectors, self.command_blocks),
            Kind::Volume(volume) => cloud(volume, blocks, self.sectors),
        }
    }

    /// Least time, ns, to read all of `blocks`, which ascend, but any `held` of them.
    #[must_use]
    pub fn all_but(&self, blocks: &[u64], held: usize) -> u64 {
        match &self.kind {
            Kind::Head(arm) => arm.all_but(blocks, self.sectors, held),
            // For these a block is as good as any other, but for how it joins others in a command or a page.
            Kind::Flash(_) | Kind::Volume(_) => 0,
        }
    }
}

impl Arm {
    fn new(spec: &DriveSpec) -> Result<Self, crate::mechanical::DriveError> {
        let period = us_to_ns(60e6 / spec.rpm.max(1e-3));
        let layout = Layout::new(&spec.layout, spec.surfaces, period)?;
        let table = SeekTable::new(&spec.seek, spec.cylinders);
        let mut seeks: Vec<u64> = (0..spec.cylinders.max(1)).map(|distance| table.get(0, distance)).collect();
        let mut least = u64::MAX;
        for seek in seeks.iter_mut().rev() {
            least = least.min(*seek);
            *seek = least;
        }
        let shortest = seeks.get(1).copied().unwrap_or(0);
        let hop = shortest.min(us_to_ns(spec.head_switch_us));
        let link_sector = us_to_ns(spec.link.read_sector_us);
        Ok(Self { layout, seeks, hop, link_sector })
    }

    fn seek(&self, cylinders: u32) -> u64 {
        let last = self.seeks.len() - 1;
        self.seeks[(cylinders as usize).min(last)]
    }

    /// What each block costs, of which at least `least` sectors are read: its passing and the gap before it, of the first of a track the way to it instead; and for each
    /// track its dearest gap.
    fn costs(&self, blocks: &[u64], least: u64) -> Costs {
        let mut costs = Costs { blocks: Vec::with_capacity(blocks.len()), free: Vec::new(), longest: 0 };
        let mut tracks: Vec<(u32, usize)> = Vec::new();
        let mut last: Option<(u32, u32, u64)> = None;
        for (at, &block) in blocks.iter().enumerate() {
            let lbn = block * SECTORS_PER_BLOCK;
            let place = self.layout.place(lbn);
            let sectors = u64::from(place.run).min(SECTORS_PER_BLOCK);
            let pass = |sectors| self.layout.pass_ns(sectors, place.sectors_per_track);
            let mut cost = pass(sectors.min(least));
            match (last, costs.free.last_mut()) {
                (Some((cylinder, surface, end)), Some(dearest))
                    if (cylinder, surface) == (place.cylinder, place.surface) =>
                {
                    let gap = pass(lbn.saturating_sub(end)).saturating_sub(ANGLE_SLACK_NS).min(self.hop);
                    *dearest = gap.max(*dearest);
                    cost += gap;
                }
                _ => {
                    costs.free.push(0);
                    tracks.push((place.cylinder, at));
                }
            }
            last = Some((place.cylinder, place.surface, lbn + sectors));
            costs.blocks.push(cost);
        }
        tracks.sort_unstable();
        for pair in tracks.windows(2) {
            let apart = pair[1].0 - pair[0].0;
            let way = if apart == 0 { self.hop } else { self.seek(apart) };
            costs.longest = costs.longest.max(way);
            costs.blocks[pair[1].1] += way;
        }
        costs
    }

    fn all(&self, blocks: &[u64], least: u64) -> u64 {
        let costs = self.costs(blocks, least);
        costs.blocks.iter().sum::<u64>() - costs.free.iter().sum::<u64>()
    }

    /// Without a block the gaps around it become one, which costs at least as much as the dearer of them, and another may be its
    /// track's free one: at most a hop a track more is saved. Without a track the ways around it become one in the same manner,
    /// but for the first, behind which one way more is saved.
    fn all_but(&self, blocks: &[u64], least: u64, held: usize) -> u64 {
        let Costs { blocks: mut costs, free, longest } = self.costs(blocks, least);
        if held >= costs.len() {
            return 0;
        }
        let left = costs.len() - held;
        if held > 0 {
            costs.select_nth_unstable(left);
        }
        let slack = free.len() as u64 * self.hop + longest;
        costs[..left].iter().sum::<u64>().saturating_sub(slack)
    }
}

/// What blocks cost a drive with a head at least, ns.
struct Costs {
    /// Each block.
    blocks: Vec<u64>,
    /// The dearest gap of each track.
    free: Vec<u64>,
    /// The longest way between neighbouring cylinders.
    longest: u64,
}

/// Fewest stretches of `length` that cover all of `places`, which ascend.
fn stretches(places: impl Iterator<Item = u64>, length: u64) -> u64 {
    let (mut count, mut end) = (0, 0);
    for place in places {
        if count == 0 || place >= end {
            count += 1;
            end = place + length;
        }
    }
    count
}

fn moving(bytes: u64, bytes_per_s: f64) -> u64 {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rounded down"
    )]
    let ns = (bytes as f64 * 1e9 / bytes_per_s.max(1.0)) as u64;
    ns.saturating_sub(1)
}

fn flash(ssd: &SsdSpec, blocks: &[u64], sectors: u64, command_blocks: u64) -> u64 {
    let page_sectors = (ssd.page_bytes / SECTOR_BYTES).max(1);
    let channels = u64::from(ssd.channels.max(1));
    let dies = channels * u64::from(ssd.dies_per_channel.max(1));
    let (mut on_die, mut on_channel) = (vec![0_u64; dies as usize], vec![0_u64; channels as usize]);
    let mut next = 0;
    // Of a block that lies in several pages and is read in part nobody knows which.
    let known = sectors == SECTORS_PER_BLOCK || page_sectors >= SECTORS_PER_BLOCK;
    for &block in blocks.iter().filter(|_| known) {
        let first = block * SECTORS_PER_BLOCK / page_sectors;
        let last = ((block + 1) * SECTORS_PER_BLOCK - 1) / page_sectors;
        for page in first.max(next)..=last {
            on_die[(page % dies) as usize] += 1;
            on_channel[(page % channels) as usize] += 1;
        }
        next = last + 1;
    }
    let most = |pages: &[u64], each: u64| pages.iter().max().copied().unwrap_or(0) * each;
    let (read, transfer) = (us_to_ns(ssd.page_read_us), us_to_ns(ssd.page_transfer_us));
    let commands = stretches(blocks.iter().copied(), command_blocks);
    let starts = commands.saturating_sub(1) * us_to_ns(ssd.command_interval_us);
    // What passes the link of each page rounds down once.
    let pieces = blocks.len() as u64 * SECTORS_PER_BLOCK.div_ceil(page_sectors);
    let link = moving(blocks.len() as u64 * sectors * SECTOR_BYTES, ssd.read_link_mb_per_s * 1e6)
        .saturating_sub(pieces);
    most(&on_die, read + transfer).max(most(&on_channel, transfer)).max(starts).max(link)
}

fn cloud(volume: &CloudSpec, blocks: &[u64], sectors: u64) -> u64 {
    let operation_blocks = (volume.operation_bytes.max(SECTOR_BYTES) / BLOCK_BYTES).max(1);
    let tokens = stretches(blocks.iter().copied(), operation_blocks);
    let operations = tokens * (1_000_000_000 / volume.operations_per_s.max(1));
    let rate = u128::from(volume.throughput_mib_per_s.max(1)) << 20;
    let bytes = u128::from(blocks.len() as u64 * sectors * SECTOR_BYTES) * 1_000_000_000 / rate;
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    // Each command rounds down once.
    let bytes = bytes.saturating_sub(blocks.len() as u64);
    operations.max(bytes).saturating_sub(volume.burst_ms * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Command, Device};
    use crate::preset::BuildOptions;
    use forerun_core::access::{Context, Op};
    use forerun_core::units::Nanos;

    /// Reads `blocks` in the order given, `depth` outstanding.
    fn took(preset: &Preset, blocks: &[u64], depth: usize) -> u64 {
        took_each(preset, blocks, 1, depth)
    }

    /// The same with commands of `each` blocks that begin at `blocks`.
    fn took_each(preset: &Preset, blocks: &[u64], each: u64, depth: usize) -> u64 {
        let mut device: Box<dyn Device> = preset.build(&BuildOptions::default()).unwrap();
        let (mut now, mut sent, mut done) = (0, 0, 0);
        while done < blocks.len() {
            while sent < blocks.len() && sent - done < depth {
                let lba = blocks[sent] * SECTORS_PER_BLOCK;
                let (id, context) = (sent as u64, Context(0));
                let sectors = each * SECTORS_PER_BLOCK;
                let command = Command { id, op: Op::Read, lba, sectors, context, read_ahead: false };
                device.submit(Nanos(now), command);
                sent += 1;
            }
            now = device.next_event().expect("something is outstanding").0.max(now);
            device.advance(Nanos(now));
            while let Some(ended) = device.pop() {
                now = now.max(ended.at.0);
                done += 1;
            }
        }
        now
    }

    #[test]
    fn no_order_and_no_depth_reads_blocks_in_less_than_their_floor() {
        for name in Preset::names() {
            let preset = Preset::load(name).unwrap();
            let floor = Floor::new(&preset, 1).unwrap();
            for step in [1, 3, 17, 400] {
                let blocks: Vec<u64> = (0..300).map(|n| 1_000 + n * step).collect();
                let least = floor.all(&blocks);
                let mut scattered = blocks.clone();
                scattered.sort_by_key(|block| block.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
                for (order, depth) in [(&blocks, 1), (&blocks, 32), (&scattered, 1), (&scattered, 64)] {
                    let took = took(&preset, order, depth);
                    assert!(took >= least, "{name}, every {step}, {depth} at once: {took} < {least}");
                }
                assert!(floor.all_but(&blocks, 0) <= least && floor.all_but(&blocks, 300) == 0);
                assert!(floor.all_but(&blocks, 150) <= least / 2 + 1);
            }
        }
    }

    #[test]
    fn a_long_run_is_read_in_no_less_than_its_floor() {
        for name in Preset::names() {
            let preset = Preset::load(name).unwrap();
            let floor = Floor::new(&preset, 128).unwrap();
            let run: Vec<u64> = (0..64 * 1_024).collect();
            let commands: Vec<u64> = (0..512).map(|n| n * 128).collect();
            let (took, least) = (took_each(&preset, &commands, 128, 8), floor.all(&run));
            assert!(took >= least, "{name}: {took} < {least}");
        }
    }

    #[test]
    fn scattered_blocks_cost_a_head_more_than_their_passing() {
        let preset = Preset::load("cheetah-15k4").unwrap();
        let floor = Floor::new(&preset, 128).unwrap();
        let run: Vec<u64> = (0..1_000).collect();
        let scattered: Vec<u64> = (0..1_000).map(|n| n * 7).collect();
        let (together, apart) = (floor.all(&run), floor.all(&scattered));
        assert!(apart > 3 * together, "{apart} and {together}");
    }

    #[test]
    fn stretches_cover_with_as_few_as_can_be() {
        assert_eq!(stretches([0, 3, 4, 9].into_iter(), 4), 3);
        assert_eq!(stretches(std::iter::empty(), 4), 0);
    }
}
