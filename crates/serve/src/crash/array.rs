//! Arrays with redundancy under the same weather: the product's way to members and journal, over members and a journal made of bytes, any of which fail,
//! stop answering, or are gone at the very moment at which power goes.
//!
//! What is above does what the volume does: reads, writes that never overlap, flushes. After each step that changed something the moment is a crash point:
//! power goes, or the process is killed, one image of every member and of the journal that there could be is drawn, and as many members as the array can do
//! without are lost with it. A start replays (perhaps after power went while another did), and then every sector is judged, as a plain model of the geometry
//! reads it, and so is all parity. Members that were put out are offered to each start again, which must leave them out.
//!
//! In some runs a new member comes in the place of one that is out, blank but for what nobody wrote, and is rebuilt while all that goes on; a crash must find that
//! it goes on where superblocks say, and that what they say is on it is. At times copies and parity are compared meanwhile, and nothing may differ.

mod model;
mod weather;

use self::model::{decode, encode};
use self::weather::Mood;
use super::back::disk::{Disk, Faults, SECTOR, Wire};
use super::back::shadow::{Shadow, stamped};
use super::back::{fresh, poll};
use super::draw::Draw;
use super::{Run, Tally};
use crate::array::superblock::Rebuilding;
use crate::array::superblock::{Epoch, Superblock};
use crate::back::format::{BLOCK, Blocks as _};
use crate::back::open::Mark;
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::{Backend, Done, Kind, Task, Token, Zeroes};
use crate::behind::{ArrayOrder, Behind as _, Files};
use crate::raid::flat::Flat;
use crate::raid::standing::Standing;
use crate::raid::start::{NoStart, Started, look, rows, start};
use crate::raid::{Pace, Raid, flat};
use crate::raw::{Arena, Lend};
use forerun_core::access::Context;
use forerun_core::array::{Array, ArraySpec, DiskSet, Role};
use forerun_core::units::{Block, Disk as Member, Extent, Nanos};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What is simulated: level, members, blocks of a strip.
const LAYOUTS: &[&str] = &[
    "raid5:3x4096",
    "raid1:2x4096",
    "raid5:4x8192",
    "raid6:4x4096",
    "raid10:4x4096",
    "raid6:5x8192",
    "raid1:3x8192",
    "raid10:3x4096",
];
/// Blocks before the data of a member: what there is of its first MiB here.
pub(super) const BASE: u64 = 2;
/// Commands of the volume at once.
const OPS_MAX: usize = 8;
/// Longest command, blocks.
const BLOCKS_MAX: usize = 4;
/// One in so many steps the process ends, by power or by a kill.
const ENDS: u64 = 70;
/// How long nothing happens, mostly and at times.
const SHORT: Nanos = Nanos::from_millis(20);
const LONG: Nanos = Nanos::from_secs(8);
/// How long a member may owe an answer.
const TIMEOUT: Nanos = Nanos::from_secs(10);
/// Lines of what happened last that a failure shows.
const STORY_MAX: usize = 400;
/// How fast a member is rebuilt, and how often superblocks say how far it is, milliseconds: mostly several times while that lasts.
const RATE: u64 = 1 << 20;
const KEEPS: &[u64] = &[2, 10, 30];
/// How long anything may take when nothing fails any more.
const ANSWER: Nanos = Nanos::from_secs(200);

/// A command of the volume.
struct Op {
    kind: Kind,
    first: usize,
    blocks: usize,
    slots: Vec<u32>,
    version: u32,
    floors: Vec<u32>,
}

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

/// One run.
pub(super) struct World {
    draw: Draw,
    now: Nanos,
    array: Array,
    members: Vec<Wire>,
    journal: Wire,
    limits: Limits,
    /// Blocks of the array, and bytes.
    blocks: usize,
    raid: Option<Raid>,
    standing: Standing,
    arena: Arena,
    free: Vec<u32>,
    ops: BTreeMap<u32, Op>,
    number: u32,
    shadow: Shadow,
    /// Members that may fail in this run, together no more than the array can do without.
    victims: DiskSet,
    /// The one of them that does not answer.
    hung: Option<usize>,
    /// Those of them that are gone for good.
    gone: DiskSet,
    faulty: bool,
    /// Members may have no space left.
    full: bool,
    few: usize,
    /// New members come in this run.
    mends: bool,
    mood: Mood,
    changes: u64,
    tally: Tally,
    story: Option<VecDeque<String>>,
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

impl World {
    pub(super) fn new(seed: u64, told: bool) -> Self {
        let mut draw = Draw::new(seed);
        let spec: ArraySpec = Mood::of(seed).layout(seed).parse().expect("an array");
        let strip = spec.strip_bytes() / BLOCK as u64;
        let array = Array::new(spec, strip * (3 + draw.below(4))).expect("it fits");
        let blocks = array.capacity_blocks() as usize;
        let sectors = blocks * BLOCK / SECTOR;
        let image: Vec<u8> = (0..sectors).flat_map(|sector| stamped(sector, 0)).collect();
        let id = u128::from(seed) + 1;
        let mut members = Vec::new();
        for (index, data) in (0..).zip(encode(&array, &image)) {
            let bytes = [vec![0; BASE as usize * BLOCK], data].concat();
            let mut disk = Disk::new(Draw::new(draw.below(u64::MAX)), bytes).punching();
            let epoch = Epoch { generation: 1, number: 1, before: 0 };
            let head = Superblock {
                id,
                spec,
                index,
                blocks: array.member_blocks(),
                turn: 0,
                epoch,
                out: DiskSet::EMPTY,
                journal: id,
                journal_generation: 1,
                rebuilding: None,
            };
            disk.write(head.place(), &head.encode()[..]).and_then(|()| disk.sync()).expect("memory");
            members.push(Wire::new(disk, poll()));
        }
        let slots = 24 + draw.index(20);
        let ring = (slots + 2 + draw.index(12)) as u64;
        let limits = Limits { blocks: slots, age: Mood::of(seed).age(&mut draw) };
        let places = array.member_blocks() * u64::from(array.disks()) * BLOCK as u64;
        let mut none = Disk::new(Draw::new(1), vec![0; places as usize]);
        let (journal, _) = fresh(id, places, ring, &mut none);
        let victims = losable(&array, &DiskSet::EMPTY, &mut draw);
        let few = draw.index(blocks);
        let first = || format!("{spec}, {blocks} blocks, {limits:?}, ring {ring}, {victims:?}");
        let story = told.then(|| VecDeque::from([first()]));
        let mut world = Self {
            draw,
            now: Nanos::from_secs(1),
            array,
            members,
            journal: Wire::new(journal, poll()),
            limits,
            blocks,
            raid: None,
            standing: Standing::new(array, DiskSet::EMPTY, None),
            free: (0..(OPS_MAX * BLOCKS_MAX) as u32).collect(),
            arena: Arena::new(0, OPS_MAX * BLOCKS_MAX).expect("memory"),
            ops: BTreeMap::new(),
            number: 0,
            shadow: Shadow::new(sectors),
            victims,
            hung: None,
            gone: DiskSet::EMPTY,
            faulty: false,
            full: false,
            few,
            mends: !(seed / 2).is_multiple_of(3) || Mood::of(seed) != Mood::Usual,
            mood: Mood::of(seed),
            changes: 0,
            tally: Tally::default(),
            story,
        };
        world.begin().expect("a first start");
        world.fail(seed);
        world
    }

    fn tell(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            if story.len() == STORY_MAX {
                story.remove(1);
            }
            story.push_back(format!("{:.6} s: {}", self.now.0 as f64 / 1e9, what()));
        }
    }

    /// A process begins.
    fn begin(&mut self) -> Result<(), String> {
        let mut there: Vec<Option<Disk>> = Vec::new();
        for (at, wire) in self.members.iter().enumerate() {
            let gone = self.gone.contains(Member(at as u16)) || !is_member(&wire.disk());
            there.push(
                (!gone).then(|| std::mem::replace(&mut *wire.disk(), Disk::new(Draw::new(0), Vec::new()))),
            );
        }
        let number = self.draw.below(u64::MAX);
        let started = start(&self.array, &mut there, &mut *self.journal.disk(), number, BASE);
        for (wire, disk) in self.members.iter().zip(there) {
            if let Some(disk) = disk {
                *wire.disk() = disk;
            }
        }
        let Started { about, heads, out, rebuilding, replayed } =
            started.map_err(|why| format!("a start is refused: {why:?}"))?;
        self.tell(|| format!("{replayed} blocks are brought home, {out:?} are out, {rebuilding:?}"));
        self.standing = Standing::new(self.array, out, rebuilding);
        let numbers = self.draw.below(u64::MAX);
        let mut draw = Draw::new(numbers);
        let wires = Wires { wires: self.members.clone(), poll: Arc::new(poll()) };
        let all = rows(*self.array.spec(), self.array.member_blocks());
        let paths = vec![Files::default(); self.members.len()];
        let ways = flat::Ways { paths, heads, base: BASE * BLOCK as u64, timeout: TIMEOUT, read_only: false };
        let flat = Flat::new(
            Box::new(wires),
            all,
            ways,
            self.standing.clone(),
            Box::new(move || draw.below(u64::MAX)),
        );
        let journal = Box::new(self.journal.clone());
        let mut back = WriteBack::new(
            Box::new(flat.expect("memory")),
            journal,
            Paths::default(),
            all,
            (about, Mark::none()),
            self.limits,
        )
        .expect("memory");
        back.over_members();
        let raid = Raid::new(self.array, all, back, self.standing.clone(), 128);
        let mut raid = raid.expect("memory");
        let usual = self.mood == Mood::Usual;
        let keeps = if usual { KEEPS } else { &KEEPS[..1] };
        let keep = Nanos::from_millis(self.draw.pick(keeps));
        raid.goes_on(Pace { rate: if usual { RATE } else { 8 * RATE }, keep });
        self.raid = Some(raid);
        Ok(())
    }

    fn raid(&mut self) -> &mut Raid {
        self.raid.as_mut().expect("a process runs")
    }

    /// The members that answer and have something to do.
    fn held(&self) -> Vec<usize> {
        let works = |&at: &usize| self.hung != Some(at) && self.members[at].disk().held() > 0;
        (0..self.members.len()).filter(works).collect()
    }

    fn step(&mut self) -> Result<(), String> {
        let what = self.draw.below(100);
        let (held, logs) = (self.held(), self.journal.disk().held());
        let (mends_in, log_ends) = self.mood.steps();
        if self.draw.one_in(ENDS) {
            self.end()?;
        } else if self.draw.one_in(90) && self.hung.is_none() {
            self.hung =
                self.victims.iter().next().map(|disk| usize::from(disk.0)).filter(|_| self.draw.one_in(3));
            let hung = self.hung;
            self.tell(|| format!("member {hung:?} stops answering"));
        } else if self.mends && self.draw.one_in(mends_in) {
            self.mend();
        } else if what < 40 && self.ops.len() < OPS_MAX {
            self.ask();
        } else if what < log_ends && logs > 0 {
            self.complete(None);
        } else if what < 92 && !held.is_empty() {
            let member = self.draw.pick(&held);
            self.complete(Some(member));
        } else {
            // What may end ends before time goes on: nothing waits for seconds but on a member that does not answer.
            let most = if held.is_empty() && logs == 0 && self.draw.one_in(3) { LONG } else { SHORT };
            self.now = Nanos(self.now.0 + self.draw.below(most.0));
        }
        self.after()
    }

    /// A command of a member, or of the journal, ends.
    fn complete(&mut self, member: Option<usize>) {
        let wire = member.map_or(&self.journal, |at| &self.members[at]).clone();
        let mut disk = wire.disk();
        let index = self.draw.index(disk.held());
        let told = disk.complete(index);
        drop(disk);
        self.tell(|| format!("{}: {told}", member.map_or("journal".into(), |at| format!("member {at}"))));
    }

    /// The volume asks for something.
    fn ask(&mut self) {
        let few = !self.draw.one_in(3);
        let first = if few { self.few + self.draw.index(5) } else { self.draw.index(self.blocks) };
        let first = first.min(self.blocks - 1);
        let stripe = self.array.stripe_extent(self.array.stripe_of(Block(first as u64)));
        let blocks = (1 + self.draw.index(BLOCKS_MAX)).min(stripe.end() as usize - first);
        let kind = self.draw.pick(&[Kind::Read, Kind::Write, Kind::Write, Kind::Write, Kind::Sync]);
        let apart =
            |op: &Op| op.kind != Kind::Write || op.first + op.blocks <= first || first + blocks <= op.first;
        if kind == Kind::Write && !self.ops.values().all(apart) {
            return;
        }
        let blocks = if kind == Kind::Sync { 0 } else { blocks };
        let slots: Vec<u32> = self.free.split_off(self.free.len() - blocks);
        let mut op = Op { kind, first, blocks, slots, version: 0, floors: Vec::new() };
        let zeroes = (kind == Kind::Write && self.draw.one_in(3)).then_some(Zeroes::Hole);
        match kind {
            Kind::Write => self.fill(&mut op, zeroes.is_some()),
            Kind::Read => op.floors = self.shadow.acked()[sectors(&op)].to_vec(),
            Kind::Sync => op.floors = self.shadow.acked().to_vec(),
        }
        let how = if kind == Kind::Read { Lend::Fill } else { Lend::Drain };
        let lease = (kind != Kind::Sync).then(|| self.arena.lend(op.slots.iter().copied().map(Some), how));
        self.number += 1;
        let (number, now) = (self.number, self.now);
        let told = (op.version, op.first, op.blocks);
        self.ops.insert(number, op);
        self.tell(|| format!("{number}: {kind:?} of {} blocks at {}, write {}", told.2, told.1, told.0));
        let task = Task {
            token: Token::Command(number),
            kind,
            member: 0,
            ahead: false,
            context: Context::default(),
            file: None,
            offset: (first * BLOCK) as u64,
            len: (blocks * BLOCK) as u64,
            lease,
            zeroes,
        };
        self.raid().submit(now, task);
    }

    /// What a write brings: zeros, or bytes that say which write it was.
    fn fill(&mut self, op: &mut Op, zeroes: bool) {
        self.shadow.last += 1;
        op.version = self.shadow.last;
        if zeroes {
            self.shadow.zeroed(sectors(op), op.version);
        }
        for (at, &slot) in op.slots.iter().enumerate() {
            for (sector, bytes) in self.arena.block_mut(slot).chunks_mut(SECTOR).enumerate() {
                let stamp = stamped((op.first + at) * (BLOCK / SECTOR) + sector, op.version);
                bytes.copy_from_slice(if zeroes { &[0; SECTOR] } else { &stamp });
            }
        }
    }

    /// A block that the journal is said not to have is asked of its member, as who wants to know where holes are does.
    fn ask_member(&mut self) -> Result<(), String> {
        let block = self.draw.index(self.blocks);
        let raid = self.raid.as_ref().expect("a process runs");
        let extent = Extent { start: Block(block as u64), blocks: 1 };
        let written = |op: &Op| op.kind == Kind::Write && (op.first..op.first + op.blocks).contains(&block);
        let Some((member, start)) = raid.place_of_data(extent.start) else { return Ok(()) };
        if !raid.held(extent).is_empty() || self.ops.values().any(written) {
            return Ok(());
        }
        let disk = self.members[usize::from(member.0)].disk();
        let bytes = &disk.view()[(BASE + start.0) as usize * BLOCK..][..BLOCK];
        let first = block * (BLOCK / SECTOR);
        let floors = &self.shadow.acked()[first..first + BLOCK / SECTOR];
        let found = self.shadow.check_read(first, bytes, floors);
        found.map_err(|why| {
            format!("{member:?} is asked for a block that the journal is said not to have: {why}")
        })
    }

    /// Answers are taken, and the moment is judged.
    fn after(&mut self) -> Result<(), String> {
        let now = self.now;
        let mut done = Vec::new();
        let raid = self.raid();
        raid.launch();
        raid.reap(now, &mut done);
        let said = raid.take_said();
        let figures = raid.array_figures();
        if let Some(scrub) = figures.scrub.filter(|scrub| scrub.wrong > 0) {
            return Err(format!("a scrub finds what nobody did: {scrub:?}"));
        }
        self.tally.rebuilds += said.iter().filter(|line| line.ends_with("is rebuilt, and in")).count() as u64;
        for said in said {
            self.tell(|| said);
        }
        let answered = !done.is_empty();
        for done in done {
            self.answered(done)?;
        }
        let members: u64 = self.members.iter().map(|wire| wire.disk().changes).sum();
        let changes = members + self.journal.disk().changes;
        if std::mem::replace(&mut self.changes, changes) != changes || answered {
            self.ask_member()?;
            self.judge()?;
        }
        Ok(())
    }

    fn answered(&mut self, done: Done) -> Result<(), String> {
        let Token::Command(number) = done.token else { return Err("nobody asked for that".into()) };
        let op = self.ops.remove(&number).ok_or("a command has ended twice")?;
        self.tally.answers += 1;
        let told = format!("{number}: {:?}", done.result);
        self.tell(|| told);
        if let Some(lease) = done.lease {
            self.arena.take_back(lease);
        }
        match (&done.result, op.kind) {
            (Err(problem), _) => {
                self.tally.errors += 1;
                let full = self.full && problem.raw_os_error() == Some(libc::ENOSPC);
                if !(self.faulty || full) || op.kind == Kind::Read {
                    return Err(format!("{number} failed without a cause: {problem}"));
                }
            }
            (Ok(_), Kind::Write) => self.shadow.acknowledge(sectors(&op), op.version),
            (Ok(_), Kind::Read) => {
                let bytes: Vec<u8> =
                    op.slots.iter().flat_map(|&slot| self.arena.block(slot).to_vec()).collect();
                let read = self.shadow.check_read(sectors(&op).start, &bytes, &op.floors);
                read.map_err(|why| format!("read {number}: {why}"))?;
            }
            (Ok(_), Kind::Sync) => self.shadow.flushed(&op.floors),
        }
        self.free.extend(op.slots);
        Ok(())
    }

    /// Whether a failed sync has lost something that a member still shows: then only power ends the process, since the next one could not know.
    fn has_lost(&self) -> bool {
        self.members.iter().any(|wire| !wire.disk().lost().is_empty())
    }

    /// What if the process ended now, and members with it?
    fn judge(&mut self) -> Result<(), String> {
        self.tally.points += 1;
        let power = !self.draw.one_in(4) || self.has_lost();
        let lost: DiskSet = self.standing.lost().iter().chain(self.gone.iter()).collect();
        let mut drop =
            if self.draw.one_in(3) { DiskSet::EMPTY } else { losable(&self.array, &lost, &mut self.draw) };
        // One that is not whole may be lost beside all that the array can do without.
        let growing = self.standing.rebuilding().map(|(member, _)| Member(member));
        self.tally.rebuilding += u64::from(growing.is_some());
        if let Some(member) = growing.filter(|_| self.draw.one_in(4)) {
            drop.insert(member);
        }
        let goes_on = growing.filter(|&member| self.raid().is_rebuild_known() && !drop.contains(member));
        let draw = &mut self.draw;
        let mut image = |wire: &Wire| {
            let disk = wire.disk();
            let bytes = if power { disk.cut_image(draw) } else { disk.kill_image(draw) };
            Disk::new(Draw::new(draw.below(u64::MAX)), bytes)
        };
        let mut members: Vec<Option<Disk>> = Vec::new();
        for (at, wire) in self.members.iter().enumerate() {
            let there = !drop.contains(Member(at as u16)) && !self.gone.contains(Member(at as u16));
            members.push(there.then(|| image(wire)).filter(is_member));
        }
        let mut journal = image(&self.journal);
        if self.draw.one_in(6) {
            self.cut_start(&mut journal, &mut members);
        }
        let kind = if power { "power cut" } else { "kill" };
        let why = |why: String| format!("after a {kind} with {drop:?} lost: {why}");
        self.look(&mut members, &mut journal, power).map_err(|told| why(format!("read-only: {told}")))?;
        let number = self.draw.below(u64::MAX);
        let started = start(&self.array, &mut members, &mut journal, number, BASE);
        let started = started.map_err(|refused: NoStart| why(format!("a start is refused: {refused:?}")))?;
        let Started { out, rebuilding, .. } = started;
        if let Some(member) = goes_on.filter(|&member| out.contains(member)) {
            return Err(why(format!("the rebuild of {member:?} does not go on")));
        }
        let found = self.found(&members, &out, rebuilding).map_err(why)?;
        self.shadow.check_image(&found, power).map_err(why)?;
        Ok(())
    }

    /// A start that is to write nothing: either it is refused, since the journal holds something, or members have everything as they are.
    fn look(&self, members: &mut [Option<Disk>], journal: &mut Disk, power: bool) -> Result<(), String> {
        match look(&self.array, members, journal) {
            Ok(Started { out, rebuilding, .. }) => {
                let found = self.found(members, &out, rebuilding)?;
                self.shadow.check_image(&found, power).map(drop)
            }
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
        let data = |at: usize, disk: &Disk| {
            let not = rebuilding.is_some_and(|one| usize::from(one.member) == at);
            let is_in = !not && !out.contains(Member(at as u16));
            is_in.then(|| disk.view()[BASE as usize * BLOCK..].to_vec())
        };
        let whole: Vec<Option<Vec<u8>>> = members
            .iter()
            .enumerate()
            .map(|(at, disk)| disk.as_ref().and_then(|disk| data(at, disk)))
            .collect();
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
                self.stripe_of(at as u16, block).is_some() && is[bytes.clone()] != ought[bytes]
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
    fn cut_start(&mut self, journal: &mut Disk, members: &mut [Option<Disk>]) {
        for disk in members.iter_mut().flatten() {
            disk.fuse = Some(self.draw.below(12));
        }
        journal.fuse = Some(self.draw.below(3));
        let number = self.draw.below(u64::MAX);
        drop(start(&self.array, members, journal, number, BASE));
        for disk in members.iter_mut().flatten().chain(std::iter::once(journal)) {
            let image = disk.cut_image(&mut self.draw);
            *disk = Disk::new(Draw::new(self.draw.below(u64::MAX)), image);
        }
    }

    /// The process ends, and another begins on what is there; at times a member is gone for good.
    fn end(&mut self) -> Result<(), String> {
        let power = self.draw.one_in(2) || self.has_lost();
        self.tell(|| format!("the process ends, {}", if power { "with power" } else { "killed" }));
        self.raid = None;
        self.hung = None;
        for (_, op) in std::mem::take(&mut self.ops) {
            self.free.extend(op.slots);
        }
        // Leases that went with it never come back: their memory is another's now.
        self.arena = Arena::new(0, OPS_MAX * BLOCKS_MAX).expect("memory");
        for wire in self.members.iter().chain(std::iter::once(&self.journal)) {
            let mut disk = wire.disk();
            disk.kill();
            if power {
                let image = disk.cut_image(&mut self.draw);
                let faults = disk.faults;
                *disk = Disk::new(Draw::new(self.draw.below(u64::MAX)), image).punching();
                disk.faults = faults;
            }
        }
        if power {
            self.tally.cuts += 1;
        } else {
            self.tally.kills += 1;
        }
        if self.draw.one_in(3) {
            self.gone = self.victims;
        }
        let lost = self.standing.lost();
        self.begin()?;
        // Who was out stays out, and so does whoever was not there.
        let out = self.standing.out();
        let members: Vec<Option<Disk>> = self
            .members
            .iter()
            .enumerate()
            .map(|(at, wire)| {
                (!out.contains(Member(at as u16)))
                    .then(|| Disk::new(Draw::new(0), wire.disk().view().to_vec()))
            })
            .collect();
        let rebuilding = self.standing.rebuilding().map(|(member, upto)| Rebuilding { member, upto });
        let image = self
            .found(&members, &out, rebuilding)
            .map_err(|why| format!("a start leaves ({lost:?} were lost): {why}"))?;
        let there = self.shadow.check_image(&image, power)?;
        self.shadow.begin(there, &[], power);
        Ok(())
    }

    /// Nothing fails any more: everything is answered, and goes home.
    fn finish(&mut self) -> Result<(), String> {
        for wire in self.members.iter().chain(std::iter::once(&self.journal)) {
            wire.disk().faults = Faults::default();
        }
        self.hung = None;
        let end = Nanos(self.now.0 + ANSWER.0);
        while !self.ops.is_empty() {
            self.settle(end, "something is not answered")?;
        }
        while self.standing.rebuilding().is_some() && !self.raid().figures().broken {
            // What could not be read before is read now; that it goes on already is no matter.
            drop(self.raid().order(ArrayOrder::GoOn));
            self.settle(end, "a rebuild does not end")?;
        }
        self.raid().go_home();
        while !self.raid().is_home() || !self.standing.going().is_empty() {
            self.settle(end, "something does not go home")?;
        }
        if self.raid().figures().broken {
            return Ok(());
        }
        let out: DiskSet = self.standing.out().iter().chain(self.gone.iter()).collect();
        let rebuilding = self.standing.rebuilding().map(|(member, upto)| Rebuilding { member, upto });
        for (kept, power) in [(false, false), (true, true)] {
            let of = |(at, wire): (usize, &Wire)| {
                let disk = wire.disk();
                let bytes = if kept { disk.durable() } else { disk.view() };
                (!out.contains(Member(at as u16))).then(|| Disk::new(Draw::new(0), bytes.to_vec()))
            };
            let members: Vec<Option<Disk>> = self.members.iter().enumerate().map(of).collect();
            let image = self.found(&members, &out, rebuilding);
            let judged = image.and_then(|image| self.shadow.check_image(&image, power).map(drop));
            judged.map_err(|why| format!("everything is home, and {why}"))?;
        }
        Ok(())
    }

    fn settle(&mut self, end: Nanos, what: &str) -> Result<(), String> {
        let held = self.held();
        if self.journal.disk().held() > 0 {
            self.complete(None);
        } else if let Some(&member) = held.first() {
            self.complete(Some(member));
        } else {
            let wake = self.raid().next_wake().filter(|&at| at > self.now);
            self.now = wake.unwrap_or(Nanos(self.now.0 + 100_000_000));
        }
        if self.now > end {
            return Err(format!("at the end {what}"));
        }
        self.after()
    }
}

fn sectors(op: &Op) -> std::ops::Range<usize> {
    op.first * (BLOCK / SECTOR)..(op.first + op.blocks) * (BLOCK / SECTOR)
}

impl Run for World {
    fn run(&mut self, points: u64) -> Result<(), String> {
        while self.tally.points < points {
            self.step()?;
        }
        self.finish()
    }
    fn tally(&self) -> Tally {
        self.tally
    }
    fn story(&self) -> String {
        self.story.iter().flatten().fold(String::new(), |all, line| all + line + "\n")
    }
}
