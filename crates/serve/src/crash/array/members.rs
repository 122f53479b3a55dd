//! The members of an array and its journal, made of bytes: how a process begins on them, what fails of them, and what is left when it ends.

use super::model::{decode, encode};
use super::weather::Mood;
use crate::array::superblock::{Epoch, Rebuilding, Superblock};
use crate::back::format::{BLOCK, Blocks as _};
use crate::back::open::Mark;
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::{Backend, Done, Task};
use crate::behind::Files;
use crate::crash::back::disk::{Disk, Faults, Wire};
use crate::crash::back::{fresh, poll};
use crate::crash::draw::Draw;
use crate::raid::flat::{self, Flat};
use crate::raid::standing::Standing;
use crate::raid::start::{NoStart, Started, look, rows, start};
use crate::raid::{Pace, Raid};
use forerun_core::array::{Array, DiskSet, Role};
use forerun_core::units::{Block, Disk as Member, Nanos};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Blocks before the data of a member: what there is of its first MiB here.
pub(in crate::crash) const BASE: u64 = 2;
/// How long a member may owe an answer.
const TIMEOUT: Nanos = Nanos::from_secs(10);
/// How fast a member is rebuilt, and how often superblocks say how far it is, milliseconds: mostly several times while that lasts.
const RATE: u64 = 1 << 20;
const KEEPS: &[u64] = &[2, 10, 30];
/// Blocks that the array may read at once.
const MEMORY: usize = 128;

/// The way to all members.
struct Wires {
    wires: Vec<Wire>,
    poll: Arc<OwnedFd>,
}

impl Backend for Wires {
    fn submit(&mut self, now: Nanos, task: Task) {
        self.wires[usize::from(task.member)].submit(now, task);
    }
    fn launch(&mut self) {}
    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.wires.iter_mut().for_each(|wire| wire.reap(now, out));
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

/// Whether an image of the array is what may be found, after power went or after a kill.
pub(in crate::crash) type Check<'a> = &'a dyn Fn(&[u8], bool) -> Result<(), String>;

/// They.
pub(in crate::crash) struct Members {
    pub(in crate::crash) array: Array,
    pub(in crate::crash) wires: Vec<Wire>,
    pub(in crate::crash) journal: Wire,
    pub(in crate::crash) standing: Standing,
    limits: Limits,
    ring: u64,
    /// Members that may fail in this run, together no more than the array can do without.
    pub(super) victims: DiskSet,
    /// The one of them that does not answer.
    pub(super) hung: Option<usize>,
    /// Those of them that are gone for good.
    pub(super) gone: DiskSet,
    /// The journal may fail.
    pub(in crate::crash) faulty: bool,
    /// Members may have no space left.
    pub(in crate::crash) full: bool,
    /// New members come in this run.
    pub(in crate::crash) mends: bool,
    pub(in crate::crash) mood: Mood,
}

/// Whether it says that it is a member: a new one whose first superblock has not come, or not as a whole, is left out by whoever starts the array.
fn is_member(disk: &Disk) -> bool {
    let page = |at: usize| disk.view()[at * BLOCK..].first_chunk().expect("whole blocks");
    Superblock::newest([page(0), page(1)]).is_ok()
}

/// Members that may be lost together: a set that the array bears, as large as may be, beside those that are lost.
fn losable(array: &Array, lost: &DiskSet, draw: &mut Draw) -> DiskSet {
    let mut set = DiskSet::EMPTY;
    for _ in 0..4 {
        let disk = Member(draw.below(u64::from(array.disks())) as u16);
        let mut all: DiskSet = lost.iter().chain(set.iter()).collect();
        all.insert(disk);
        if array.bears(&all) && !lost.contains(disk) {
            set.insert(disk);
        }
    }
    set
}

impl Members {
    /// Those of an array that holds these bytes, as they are when it was made.
    pub(in crate::crash) fn new(seed: u64, draw: &mut Draw, array: Array, image: &[u8]) -> Self {
        let id = u128::from(seed) + 1;
        let mut wires = Vec::new();
        for (index, data) in (0..).zip(encode(&array, image)) {
            let bytes = [vec![0; BASE as usize * BLOCK], data].concat();
            let mut disk = Disk::new(Draw::new(draw.below(u64::MAX)), bytes).punching();
            let epoch = Epoch { generation: 1, number: 1, before: 0 };
            let head = Superblock {
                id,
                spec: *array.spec(),
                index,
                blocks: array.member_blocks(),
                turn: 0,
                epoch,
                out: DiskSet::EMPTY,
                journal: id,
                journal_generation: 1,
                rebuilding: None,
                stands: true,
            };
            disk.write(head.place(), &head.encode()[..]).and_then(|()| disk.sync()).expect("memory");
            wires.push(Wire::new(disk, poll()));
        }
        let slots = 24 + draw.index(20);
        let ring = (slots + 2 + draw.index(12)) as u64;
        let mood = Mood::of(seed);
        let limits = Limits { blocks: slots, age: mood.age(draw) };
        let places = array.member_blocks() * u64::from(array.disks()) * BLOCK as u64;
        let mut none = Disk::new(Draw::new(1), vec![0; places as usize]);
        let (journal, _) = fresh(id, places, ring, &mut none);
        let victims = losable(&array, &DiskSet::EMPTY, draw);
        Self {
            array,
            wires,
            journal: Wire::new(journal, poll()),
            standing: Standing::new(array, DiskSet::EMPTY, None),
            limits,
            ring,
            victims,
            hung: None,
            gone: DiskSet::EMPTY,
            faulty: false,
            full: false,
            mends: !(seed / 2).is_multiple_of(3) || mood != Mood::Usual,
            mood,
        }
    }

    /// What they are, for those who read what happened.
    pub(in crate::crash) fn told(&self) -> String {
        let Self { array, limits, ring, victims, .. } = self;
        format!("{}, {} blocks, {limits:?}, ring {ring}, {victims:?}", array.spec(), array.capacity_blocks())
    }

    /// A process begins; this is its way to them, and what it has found.
    pub(in crate::crash) fn begin(&mut self, draw: &mut Draw) -> Result<(Raid, String), String> {
        let mut there: Vec<Option<Disk>> = Vec::new();
        for (at, wire) in self.wires.iter().enumerate() {
            let gone = self.gone.contains(Member(at as u16)) || !is_member(&wire.disk());
            there.push(
                (!gone).then(|| std::mem::replace(&mut *wire.disk(), Disk::new(Draw::new(0), Vec::new()))),
            );
        }
        let number = draw.below(u64::MAX);
        let started = start(&self.array, &mut there, &mut *self.journal.disk(), number, BASE);
        for (wire, disk) in self.wires.iter().zip(there) {
            if let Some(disk) = disk {
                *wire.disk() = disk;
            }
        }
        let Started { about, heads, out, rebuilding, replayed, hole: _ } =
            started.map_err(|why| format!("a start is refused: {why:?}"))?;
        let told = format!("{replayed} blocks are brought home, {out:?} are out, {rebuilding:?}");
        self.standing = Standing::new(self.array, out, rebuilding);
        let numbers = draw.below(u64::MAX);
        let mut numbers = Draw::new(numbers);
        let wires = Wires { wires: self.wires.clone(), poll: Arc::new(poll()) };
        let all = rows(*self.array.spec(), self.array.member_blocks());
        let paths = vec![Files::default(); self.wires.len()];
        let ways = flat::Ways { paths, heads, base: BASE * BLOCK as u64, timeout: TIMEOUT, read_only: false };
        let next = Box::new(move || numbers.below(u64::MAX));
        let flat = Flat::new(Box::new(wires), all, ways, self.standing.clone(), next).expect("memory");
        let (journal, about) = (Box::new(self.journal.clone()), (about, Mark::none()));
        let back = WriteBack::new(Box::new(flat), journal, Paths::default(), all, about, self.limits);
        let mut back = back.expect("memory");
        back.over_members(self.standing.epoch());
        let raid = Raid::new(self.array, all, back, self.standing.clone(), MEMORY);
        let mut raid = raid.expect("memory");
        let usual = self.mood == Mood::Usual;
        let keeps = if usual { KEEPS } else { &KEEPS[..1] };
        let keep = Nanos::from_millis(draw.pick(keeps));
        raid.goes_on(Pace { rate: if usual { RATE } else { 8 * RATE }, keep });
        Ok((raid, told))
    }

    /// Members and journal.
    fn all(&self) -> impl Iterator<Item = &Wire> {
        self.wires.iter().chain(std::iter::once(&self.journal))
    }

    /// Changes so far.
    pub(in crate::crash) fn changes(&self) -> u64 {
        self.all().map(|wire| wire.disk().changes).sum()
    }

    /// The members that answer and have something to do.
    pub(in crate::crash) fn held(&self) -> Vec<usize> {
        let works = |&at: &usize| self.hung != Some(at) && self.wires[at].disk().held() > 0;
        (0..self.wires.len()).filter(works).collect()
    }

    /// A command of a member, or of the journal, ends.
    pub(in crate::crash) fn complete(&self, member: Option<usize>, draw: &mut Draw) -> String {
        let mut disk = member.map_or(&self.journal, |at| &self.wires[at]).disk();
        let index = draw.index(disk.held());
        let told = disk.complete(index);
        format!("{}: {told}", member.map_or("journal".into(), |at| format!("member {at}")))
    }

    /// One of the members that may fail stops answering, one time in so many.
    pub(in crate::crash) fn hang(&mut self, one_in: u64, draw: &mut Draw) -> String {
        self.hung =
            self.victims.iter().next().map(|disk| usize::from(disk.0)).filter(|_| draw.one_in(one_in));
        format!("member {:?} stops answering", self.hung)
    }

    /// Whether one of them does not answer.
    pub(in crate::crash) const fn is_hung(&self) -> bool {
        self.hung.is_some()
    }

    /// All of them answer.
    pub(in crate::crash) const fn come_back(&mut self) {
        self.hung = None;
    }

    /// Nothing fails any more.
    pub(in crate::crash) fn clear_up(&mut self) {
        self.all().for_each(|wire| wire.disk().faults = Faults::default());
        self.hung = None;
    }

    /// Whether a failed sync has lost something that a member still shows: then only power ends the process, since the next one could not know.
    pub(in crate::crash) fn has_lost(&self) -> bool {
        self.wires.iter().any(|wire| !wire.disk().lost().is_empty())
    }

    /// The process ends, by power or by a kill; at times members are gone for good.
    pub(in crate::crash) fn end(&mut self, power: bool, draw: &mut Draw) {
        self.hung = None;
        for wire in self.all() {
            let mut disk = wire.disk();
            disk.kill();
            if power {
                let (image, faults) = (disk.cut_image(draw), disk.faults);
                *disk = Disk::new(Draw::new(draw.below(u64::MAX)), image).punching();
                disk.faults = faults;
            }
        }
        if draw.one_in(3) {
            self.gone = self.victims;
        }
    }

    /// What is there once a process has begun: who was out stays out, and so does whoever was not there.
    pub(in crate::crash) fn begun(&self) -> Result<Vec<u8>, String> {
        self.at_rest(&self.standing.out(), |disk| disk.view().to_vec())
    }

    /// What is there when nothing is under way, without these.
    fn at_rest(&self, out: &DiskSet, bytes: impl Fn(&Disk) -> Vec<u8>) -> Result<Vec<u8>, String> {
        let of = |(at, wire): (usize, &Wire)| {
            (!out.contains(Member(at as u16))).then(|| Disk::new(Draw::new(0), bytes(&wire.disk())))
        };
        let members: Vec<Option<Disk>> = self.wires.iter().enumerate().map(of).collect();
        let rebuilding = self.standing.rebuilding().map(|(member, upto)| Rebuilding { member, upto });
        self.found(&members, out, rebuilding)
    }

    /// Everything is home: without the journal members have what was acknowledged, and keep what was flushed.
    pub(in crate::crash) fn is_home(&self, check: Check<'_>) -> Result<(), String> {
        let out: DiskSet = self.standing.out().iter().chain(self.gone.iter()).collect();
        let home = |why: String| format!("everything is home, and {why}");
        let shown = self.at_rest(&out, |disk| disk.view().to_vec());
        shown.and_then(|image| check(&image, false)).map_err(home)?;
        let kept = self.at_rest(&out, |disk| disk.durable().to_vec());
        kept.and_then(|image| check(&image, true)).map_err(home)
    }

    /// Whether a member is being rebuilt.
    pub(in crate::crash) fn is_rebuilding(&self) -> bool {
        self.standing.rebuilding().is_some()
    }

    /// What if the process ended now, and members with it?
    pub(in crate::crash) fn judge(&self, draw: &mut Draw, check: Check<'_>) -> Result<(), String> {
        let power = !draw.one_in(4) || self.has_lost();
        let lost: DiskSet = self.standing.lost().iter().chain(self.gone.iter()).collect();
        let mut drop = if draw.one_in(3) { DiskSet::EMPTY } else { losable(&self.array, &lost, draw) };
        // One that is not whole may be lost beside all that the array can do without.
        let growing = self.standing.rebuilding().map(|(member, _)| Member(member));
        if let Some(member) = growing.filter(|_| draw.one_in(4)) {
            drop.insert(member);
        }
        let goes_on = growing.filter(|&member| self.standing.is_rebuild_known() && !drop.contains(member));
        let image = |wire: &Wire, draw: &mut Draw| {
            let disk = wire.disk();
            let bytes = if power { disk.cut_image(draw) } else { disk.kill_image(draw) };
            Disk::new(Draw::new(draw.below(u64::MAX)), bytes)
        };
        let mut members: Vec<Option<Disk>> = Vec::new();
        for (at, wire) in self.wires.iter().enumerate() {
            let there = !drop.contains(Member(at as u16)) && !self.gone.contains(Member(at as u16));
            members.push(there.then(|| image(wire, draw)).filter(is_member));
        }
        if draw.one_in(3) {
            self.apart(|wire| image(wire, draw), |image| check(image, power))?;
        }
        let mut journal = image(&self.journal, draw);
        if draw.one_in(6) {
            self.cut_start(&mut journal, &mut members, draw);
        }
        let kind = if power { "power cut" } else { "kill" };
        let why = |why: String| format!("after a {kind} with {drop:?} lost: {why}");
        let check = |image: &[u8]| check(image, power);
        self.look(&mut members, &mut journal, check).map_err(|told| why(format!("read-only: {told}")))?;
        let number = draw.below(u64::MAX);
        let started = start(&self.array, &mut members, &mut journal, number, BASE);
        let started = started.map_err(|refused: NoStart| why(format!("a start is refused: {refused:?}")))?;
        let Started { out, rebuilding, .. } = started;
        if let Some(member) = goes_on.filter(|&member| out.contains(member)) {
            return Err(why(format!("the rebuild of {member:?} does not go on")));
        }
        let found = self.found(&members, &out, rebuilding).map_err(why)?;
        check(&found).map_err(why)
    }

    /// A start with those alone that the others went on without: either it is refused, or what they lack is on the journal.
    fn apart(
        &self,
        mut image: impl FnMut(&Wire) -> Disk,
        check: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        let out = self.standing.out();
        let others: DiskSet =
            (0..self.wires.len() as u16).map(Member).filter(|&disk| !out.contains(disk)).collect();
        if !self.array.bears(&others) {
            return Ok(());
        }
        let mut members: Vec<Option<Disk>> = Vec::new();
        for (at, wire) in self.wires.iter().enumerate() {
            members.push(out.contains(Member(at as u16)).then(|| image(wire)).filter(is_member));
        }
        let mut journal = image(&self.journal);
        let Ok(started) = start(&self.array, &mut members, &mut journal, 1, BASE) else { return Ok(()) };
        let found = self.found(&members, &started.out, started.rebuilding);
        found.and_then(|image| check(&image)).map_err(|why| format!("{out:?} without the others: {why}"))
    }

    /// A start that is to write nothing: either it is refused, since the journal holds something, or members have everything as they are.
    fn look(
        &self,
        members: &mut [Option<Disk>],
        journal: &mut Disk,
        check: impl Fn(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        match look(&self.array, members, journal) {
            Ok(Started { out, rebuilding, .. }) => check(&self.found(members, &out, rebuilding)?),
            Err(NoStart::NotHome(_)) => Ok(()),
            Err(why) => Err(format!("a start is refused: {why:?}")),
        }
    }

    /// What members hold together; all parity and all copies must be of it, and of one that is rebuilt as far as that is said.
    fn found(
        &self,
        members: &[Option<Disk>],
        out: &DiskSet,
        rebuilding: Option<Rebuilding>,
    ) -> Result<Vec<u8>, String> {
        let bytes = |at: usize| members[at].as_ref().map(|disk| &disk.view()[BASE as usize * BLOCK..]);
        let is_in = |at: usize| {
            let not = rebuilding.is_some_and(|one| usize::from(one.member) == at);
            !not && !out.contains(Member(at as u16))
        };
        let whole: Vec<Option<&[u8]>> =
            (0..members.len()).map(|at| bytes(at).filter(|_| is_in(at))).collect();
        let image = decode(&self.array, &whole)?;
        let all = encode(&self.array, &image);
        if let Some(Rebuilding { member, upto }) = rebuilding {
            let at = usize::from(member);
            let is = bytes(at).ok_or("a member that is not there is said to be rebuilt")?;
            for (block, (is, ought)) in is.chunks(BLOCK).zip(all[at].chunks(BLOCK)).enumerate() {
                if self.stripe_of(member, block).is_some_and(|stripe| stripe < upto) && is != ought {
                    return Err(format!(
                        "block {block} of member {at}, rebuilt up to stripe {upto}, is something else"
                    ));
                }
            }
        }
        for (at, (is, ought)) in whole.iter().zip(all).enumerate() {
            let Some(is) = is else { continue };
            // What belongs to nobody, behind the last copies of an odd number of members, may hold anything.
            let differs = |&block: &usize| {
                let bytes = block * BLOCK..(block + 1) * BLOCK;
                is[bytes.clone()] != ought[bytes] && self.stripe_of(at as u16, block).is_some()
            };
            if let Some(block) = (0..is.len() / BLOCK).find(differs) {
                return Err(format!("block {block} of member {at} is not what the others say"));
            }
        }
        Ok(image)
    }

    /// The stripe that a block of a member is of.
    fn stripe_of(&self, member: u16, block: usize) -> Option<u64> {
        match self.array.logical(Member(member), Block(block as u64)) {
            Role::Data(block) | Role::Mirror { block, .. } => Some(self.array.stripe_of(block).0),
            Role::P { stripe, .. } | Role::Q { stripe, .. } => Some(stripe.0),
            Role::Unused => None,
        }
    }

    /// Power goes while a start replays.
    fn cut_start(&self, journal: &mut Disk, members: &mut [Option<Disk>], draw: &mut Draw) {
        for disk in members.iter_mut().flatten() {
            disk.fuse = Some(draw.below(12));
        }
        journal.fuse = Some(draw.below(3));
        let number = draw.below(u64::MAX);
        drop(start(&self.array, members, journal, number, BASE));
        for disk in members.iter_mut().flatten().chain(std::iter::once(journal)) {
            let image = disk.cut_image(draw);
            *disk = Disk::new(Draw::new(draw.below(u64::MAX)), image);
        }
    }
}
