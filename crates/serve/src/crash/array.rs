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

mod failing;
pub(super) mod members;
mod model;
pub(super) mod weather;

use self::members::{BASE, Members};
use self::weather::Mood;
use super::back::disk::SECTOR;
use super::back::shadow::{Shadow, stamped};
use super::draw::Draw;
use super::{Run, Tally};
use crate::back::format::BLOCK;
use crate::backend::{Backend as _, Done, Kind, Task, Token, Zeroes};
use crate::behind::{ArrayOrder, Behind as _};
use crate::raid::Raid;
use crate::raw::{Arena, Lend};
use forerun_core::access::Context;
use forerun_core::array::{Array, ArraySpec};
use forerun_core::units::{Block, Extent, Nanos};
use std::collections::{BTreeMap, VecDeque};

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
/// Commands of the volume at once.
const OPS_MAX: usize = 8;
/// Longest command, blocks.
const BLOCKS_MAX: usize = 4;
/// One in so many steps the process ends, by power or by a kill.
const ENDS: u64 = 70;
/// How long nothing happens, mostly and at times.
const SHORT: Nanos = Nanos::from_millis(20);
const LONG: Nanos = Nanos::from_secs(8);
/// Lines of what happened last that a failure shows.
const STORY_MAX: usize = 400;
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

/// One run.
pub(super) struct World {
    draw: Draw,
    now: Nanos,
    members: Members,
    /// Blocks of the array.
    blocks: usize,
    raid: Option<Raid>,
    arena: Arena,
    free: Vec<u32>,
    ops: BTreeMap<u32, Op>,
    number: u32,
    shadow: Shadow,
    few: usize,
    changes: u64,
    tally: Tally,
    story: Option<VecDeque<String>>,
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
        let members = Members::new(seed, &mut draw, array, &image);
        let few = draw.index(blocks);
        let story = told.then(|| VecDeque::from([members.told()]));
        let mut world = Self {
            draw,
            now: Nanos::from_secs(1),
            members,
            blocks,
            raid: None,
            free: (0..(OPS_MAX * BLOCKS_MAX) as u32).collect(),
            arena: Arena::new(0, OPS_MAX * BLOCKS_MAX).expect("memory"),
            ops: BTreeMap::new(),
            number: 0,
            shadow: Shadow::new(sectors),
            few,
            changes: 0,
            tally: Tally::default(),
            story,
        };
        world.begin().expect("a first start");
        world.members.fail(seed);
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
        let (raid, told) = self.members.begin(&mut self.draw)?;
        self.raid = Some(raid);
        self.tell(|| told);
        Ok(())
    }

    fn raid(&mut self) -> &mut Raid {
        self.raid.as_mut().expect("a process runs")
    }

    fn step(&mut self) -> Result<(), String> {
        let what = self.draw.below(100);
        let (held, logs) = (self.members.held(), self.members.journal.disk().held());
        let (mends_in, log_ends) = self.members.mood.steps();
        if self.draw.one_in(ENDS) {
            self.end()?;
        } else if self.draw.one_in(90) && !self.members.is_hung() {
            let told = self.members.hang(3, &mut self.draw);
            self.tell(|| told);
        } else if self.members.mends && self.draw.one_in(mends_in) {
            let raid = self.raid.as_mut().expect("a process runs");
            let told = self.members.mend(raid, &mut self.draw);
            told.into_iter().for_each(|told| self.tell(|| told));
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
        let told = self.members.complete(member, &mut self.draw);
        self.tell(|| told);
    }

    /// The volume asks for something.
    fn ask(&mut self) {
        let few = !self.draw.one_in(3);
        let first = if few { self.few + self.draw.index(5) } else { self.draw.index(self.blocks) };
        let first = first.min(self.blocks - 1);
        let array = &self.members.array;
        let stripe = array.stripe_extent(array.stripe_of(Block(first as u64)));
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
        let disk = self.members.wires[usize::from(member.0)].disk();
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
        let changes = self.members.changes();
        if std::mem::replace(&mut self.changes, changes) != changes || answered {
            self.ask_member()?;
            self.tally.points += 1;
            self.tally.rebuilding += u64::from(self.members.is_rebuilding());
            let shadow = &self.shadow;
            let check = |image: &[u8], power| shadow.check_image(image, power).map(drop);
            self.members.judge(&mut self.draw, &check)?;
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
                let full = self.members.full && problem.raw_os_error() == Some(libc::ENOSPC);
                if !(self.members.faulty || full) || op.kind == Kind::Read {
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

    /// The process ends, and another begins on what is there.
    fn end(&mut self) -> Result<(), String> {
        let power = self.draw.one_in(2) || self.members.has_lost();
        self.tell(|| format!("the process ends, {}", if power { "with power" } else { "killed" }));
        self.raid = None;
        for (_, op) in std::mem::take(&mut self.ops) {
            self.free.extend(op.slots);
        }
        // Leases that went with it never come back: their memory is another's now.
        self.arena = Arena::new(0, OPS_MAX * BLOCKS_MAX).expect("memory");
        self.members.end(power, &mut self.draw);
        if power {
            self.tally.cuts += 1;
        } else {
            self.tally.kills += 1;
        }
        let lost = self.members.standing.lost();
        self.begin()?;
        let image = self.members.begun();
        let image = image.map_err(|why| format!("a start leaves ({lost:?} were lost): {why}"))?;
        let there = self.shadow.check_image(&image, power)?;
        self.shadow.begin(there, &[], power);
        Ok(())
    }

    /// Nothing fails any more: everything is answered, and goes home.
    fn finish(&mut self) -> Result<(), String> {
        self.members.clear_up();
        let end = Nanos(self.now.0 + ANSWER.0);
        while !self.ops.is_empty() {
            self.settle(end, "something is not answered")?;
        }
        while self.members.is_rebuilding() && !self.raid().figures().broken {
            // What could not be read before is read now; that it goes on already is no matter.
            drop(self.raid().order(ArrayOrder::GoOn));
            self.settle(end, "a rebuild does not end")?;
        }
        self.raid().go_home();
        while !self.raid().is_home() || !self.members.standing.going().is_empty() {
            self.settle(end, "something does not go home")?;
        }
        if self.raid().figures().broken {
            return Ok(());
        }
        let shadow = &self.shadow;
        self.members.is_home(&|image, power| shadow.check_image(image, power).map(drop))
    }

    fn settle(&mut self, end: Nanos, what: &str) -> Result<(), String> {
        let held = self.members.held();
        if self.members.journal.disk().held() > 0 {
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
