//! An emulated array: the timing of RAID over disk models, in front of one file that has the bytes.
//!
//! `emulate(raid5:5x128K,cheetah-15k4):FILE` is what a driver like md makes of five such drives, with its reads and writes of parity: what is served
//! sees one device, as it does of md. The plans are those of the engine's geometry (`forerun_core::array`). A write of a part
//! of a stripe reads what parity needs, then writes. What is written to a stripe at one moment goes together, and of one stripe one job is
//! under way; what is written to it meanwhile goes together in the next. So md does it, which waits for more while requests still come (plugging) and has
//! a stripe cache, so a sequential writer gets whole stripes here too. What is written is not kept in memory: a job reads anew.

use forerun_core::access::{Context, Op};
use forerun_core::array::{Array, ArraySpec, DiskSet, MemberExtent, Stripe, WritePlan};
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos, SECTOR_BYTES};
use forerun_disk::device::{Command, Completion, Device, DeviceStats};
use forerun_disk::preset::{BuildOptions, Preset};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;

/// The preset in what is emulated, behind the array if there is one.
pub(crate) fn preset_of(text: &str) -> &str {
    parts(text).1
}

fn parts(text: &str) -> (Option<ArraySpec>, &str) {
    let array = text.split_once(',').and_then(|(array, preset)| Some((array.parse().ok()?, preset)));
    array.map_or((None, text), |(array, preset)| (Some(array), preset))
}

/// The model of a preset, or of an array of such.
pub(crate) fn build(text: &str) -> Result<Box<dyn Device>, String> {
    let (array, preset) = parts(text);
    let preset = Preset::load(preset).map_err(|why| why.to_string())?;
    let member = || preset.build(&BuildOptions::default()).map_err(|why| why.to_string());
    let Some(spec) = array else { return member() };
    let members: Vec<Box<dyn Device>> = (0..spec.disks()).map(|_| member()).collect::<Result<_, _>>()?;
    let array = Array::new(spec, members[0].sectors() / SECTORS).map_err(|why| why.to_string())?;
    Ok(Box::new(Disks {
        array,
        members,
        hosts: BTreeMap::new(),
        jobs: BTreeMap::new(),
        parts: BTreeMap::new(),
        stripes: BTreeMap::new(),
        new: BTreeSet::new(),
        came: Nanos::ZERO,
        number: 0,
        ended: VecDeque::new(),
        plan: WritePlan::new(),
    }))
}

/// A command of the host.
struct Host {
    /// Jobs of it that have not ended.
    left: u32,
    begun: Option<Nanos>,
}

/// Commands to members that are waited for together.
struct Job {
    hosts: Vec<u64>,
    left: usize,
    /// What is written when they have ended, and the stripe that is free then.
    then: Vec<MemberExtent>,
    stripe: Option<u64>,
}

/// The array.
struct Disks {
    array: Array,
    members: Vec<Box<dyn Device>>,
    hosts: BTreeMap<u64, Host>,
    jobs: BTreeMap<u64, Job>,
    /// Commands to members, by their number: which job.
    parts: BTreeMap<u64, u64>,
    /// Stripes with a job under way, or that have none yet, and the writes that wait for it.
    stripes: BTreeMap<u64, Vec<(u64, Extent)>>,
    /// Those that have none yet, and since when.
    new: BTreeSet<u64>,
    came: Nanos,
    number: u64,
    ended: VecDeque<Completion>,
    plan: WritePlan,
}

impl Disks {
    fn send(&mut self, now: Nanos, op: Op, extents: &[MemberExtent], job: u64) {
        for part in extents {
            self.number += 1;
            self.parts.insert(self.number, job);
            let command = Command {
                id: self.number,
                op,
                lba: part.extent.start.0 * SECTORS,
                sectors: part.extent.blocks * SECTORS,
                context: Context::default(),
                read_ahead: false,
            };
            self.members[usize::from(part.disk.0)].submit(now, command);
        }
    }

    fn job(&mut self, job: Job) -> u64 {
        self.number += 1;
        self.jobs.insert(self.number, job);
        self.number
    }

    /// Writes to one stripe go together.
    fn write(&mut self, now: Nanos, stripe: u64, writes: &[(u64, Extent)]) {
        let all = self.array.stripe_extent(Stripe(stripe));
        let mut dirty = vec![0; self.array.stripe_blocks().div_ceil(64) as usize];
        for block in writes.iter().flat_map(|(_, extent)| extent.intersect(all).iter()) {
            let bit = block.0 - all.start.0;
            dirty[(bit / 64) as usize] |= 1_u64 << (bit % 64);
        }
        let none = vec![0; dirty.len()];
        let mut plan = std::mem::take(&mut self.plan);
        let planned =
            self.array.write_plan_into(Stripe(stripe), &dirty, &none, &DiskSet::default(), &mut plan);
        debug_assert!(planned.is_ok(), "no disk has failed, and the stripe is there");
        let writes_home: Vec<MemberExtent> = plan.writes().iter().map(|write| write.member).collect();
        let reads = plan.reads().to_vec();
        self.plan = plan;
        let hosts = writes.iter().map(|(host, _)| *host).collect();
        let (op, first, then) = if reads.is_empty() {
            (Op::Write, writes_home, Vec::new())
        } else {
            (Op::Read, reads, writes_home)
        };
        let job = self.job(Job { hosts, left: first.len(), then, stripe: Some(stripe) });
        self.send(now, op, &first, job);
    }

    /// A member has ended a command.
    fn landed(&mut self, done: Completion) {
        let Some(number) = self.parts.remove(&done.id) else { return };
        let Some(job) = self.jobs.get_mut(&number) else { return };
        for host in &job.hosts {
            if let Some(host) = self.hosts.get_mut(host) {
                host.begun.get_or_insert(done.begun);
            }
        }
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        let then = std::mem::take(&mut job.then);
        if !then.is_empty() {
            job.left = then.len();
            return self.send(done.at, Op::Write, &then, number);
        }
        let Some(Job { hosts, stripe, .. }) = self.jobs.remove(&number) else { return };
        for id in hosts {
            let Some(host) = self.hosts.get_mut(&id) else { continue };
            host.left -= 1;
            if host.left == 0 {
                let begun = host.begun.unwrap_or(done.at);
                self.hosts.remove(&id);
                self.ended.push_back(Completion { id, at: done.at, begun });
            }
        }
        if let Some(stripe) = stripe {
            let waiting = self.stripes.remove(&stripe).unwrap_or_default();
            if !waiting.is_empty() {
                self.stripes.insert(stripe, Vec::new());
                self.write(done.at, stripe, &waiting);
            }
        }
    }
}

impl Device for Disks {
    fn sectors(&self) -> u64 {
        self.array.capacity_blocks() * SECTORS
    }

    fn submit(&mut self, now: Nanos, command: Command) {
        let Command { id, op, lba, sectors, .. } = command;
        let (first, end) =
            (lba / SECTORS, (lba + sectors).div_ceil(SECTORS).min(self.array.capacity_blocks()));
        let extent = Extent::new(first, end - first);
        if op == Op::Read {
            let plan = self.array.read_plan(extent, &DiskSet::default());
            let reads = plan.map_or_else(|_| Vec::new(), |plan| plan.reads().to_vec());
            self.hosts.insert(id, Host { left: 1, begun: None });
            let job = self.job(Job { hosts: vec![id], left: reads.len(), then: Vec::new(), stripe: None });
            return self.send(now, Op::Read, &reads, job);
        }
        let (from, to) = (
            self.array.stripe_of(extent.start).0,
            self.array.stripe_of(forerun_core::units::Block(extent.end() - 1)).0,
        );
        self.hosts.insert(id, Host { left: (to - from + 1) as u32, begun: None });
        for stripe in from..=to {
            if !self.stripes.contains_key(&stripe) {
                self.new.insert(stripe);
                self.came = now;
            }
            self.stripes.entry(stripe).or_default().push((id, extent));
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let came = (!self.new.is_empty()).then_some(self.came);
        self.members.iter().filter_map(|member| member.next_event()).chain(came).min()
    }

    fn advance(&mut self, now: Nanos) {
        // One moment after the other: what a job writes leaves when its reads are here, not when somebody looks.
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            for stripe in std::mem::take(&mut self.new) {
                let writes = self.stripes.insert(stripe, Vec::new()).unwrap_or_default();
                self.write(at, stripe, &writes);
            }
            let mut done = Vec::new();
            for member in &mut self.members {
                member.advance(at);
                done.extend(std::iter::from_fn(|| member.pop()));
            }
            done.into_iter().for_each(|done| self.landed(Completion { at: done.at.max(at), ..done }));
        }
    }

    fn pop(&mut self) -> Option<Completion> {
        self.ended.pop_front()
    }

    fn stats(&self) -> DeviceStats {
        let add = |sum: DeviceStats, one: DeviceStats| DeviceStats {
            commands: sum.commands + one.commands,
            seeks: sum.seeks + one.seeks,
            busy: Nanos(sum.busy.0 + one.busy.0),
            bytes_read: sum.bytes_read + one.bytes_read,
            bytes_written: sum.bytes_written + one.bytes_written,
            bytes_from_drive_cache: sum.bytes_from_drive_cache + one.bytes_from_drive_cache,
        };
        self.members.iter().map(|member| member.stats()).fold(DeviceStats::default(), add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(id: u64, op: Op, block: u64, blocks: u64) -> Command {
        let (lba, sectors) = (block * SECTORS, blocks * SECTORS);
        Command { id, op, lba, sectors, context: Context::default(), read_ahead: false }
    }

    /// When commands that are sent at once end, by their number, and what the members did.
    fn ends(commands: &[Command]) -> (Vec<(u64, Nanos)>, DeviceStats) {
        let mut array = build("raid5:5x128K,cheetah-15k4").expect("an array");
        commands.iter().for_each(|&command| array.submit(Nanos::ZERO, command));
        let mut ended = Vec::new();
        while let Some(at) = array.next_event() {
            array.advance(at);
            ended.extend(std::iter::from_fn(|| array.pop()).map(|done| (done.id, done.at)));
        }
        (ended, array.stats())
    }

    #[test]
    fn a_small_write_reads_and_writes_data_and_parity_and_a_whole_stripe_writes_alone() {
        let (ended, stats) = ends(&[command(7, Op::Write, 100, 1)]);
        assert_eq!((ended.len(), ended[0].0), (1, 7));
        assert_eq!((stats.bytes_read, stats.bytes_written), (2 * BLOCK_BYTES, 2 * BLOCK_BYTES));
        let (read, _) = ends(&[command(7, Op::Read, 100, 1)]);
        assert!(ended[0].1 > read[0].1, "it writes when it has read: {ended:?} {read:?}");
        let (ended, stats) = ends(&[command(7, Op::Write, 128, 128)]);
        assert_eq!((ended.len(), stats.bytes_read, stats.bytes_written), (1, 0, 160 * BLOCK_BYTES));
    }

    #[test]
    fn what_is_written_to_a_stripe_while_it_is_busy_goes_together_and_every_command_ends_once() {
        let commands: Vec<Command> =
            (0..100).map(|n| command(n, if n % 10 == 9 { Op::Read } else { Op::Write }, n % 20, 2)).collect();
        let (mut ended, stats) = ends(&commands);
        ended.sort_unstable();
        assert_eq!(ended.iter().map(|(id, _)| *id).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        assert!(stats.commands < 40, "{stats:?}");
        let far: Vec<Command> = (0..50).map(|n| command(n, Op::Write, n * 1000 + 120, 20)).collect();
        assert_eq!(ends(&far).0.len(), 50, "over the ends of stripes");
    }

    #[test]
    fn the_preset_stands_behind_the_array() {
        assert_eq!(preset_of("raid5:5x128K,cheetah-15k4"), "cheetah-15k4");
        assert_eq!(preset_of("cheetah-15k4"), "cheetah-15k4");
        assert!(build("raid5:2x128K,cheetah-15k4").is_err() && build("raid5:5x128K,nonesuch").is_err());
    }
}
