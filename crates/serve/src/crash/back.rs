//! Write-back under the same weather: its way to the device and its journal, the product's, over a device and a journal made of bytes.
//!
//! What is above it does what the volume does: reads, writes that never overlap, flushes. After each step that changed something the
//! moment is a crash point: power goes, or the process is killed, one image of device and journal that there could be is drawn, a start
//! replays it (perhaps after power went while another did), and every sector is judged. Now and then the run goes on from such an image.

pub(super) mod disk;
pub(super) mod shadow;

use self::disk::{Disk, Faults, SECTOR, Wire};
use self::shadow::{Shadow, stamped};
use super::draw::Draw;
use super::{Run, Tally};
use crate::back::format::{BLOCK, Blocks, PRINTS, Page, Position, SUPERS, Super};
use crate::back::open::Mark;
use crate::back::replay::{Found, Stop, begin, bring_home, check_device, prints, scan, write_super};
use crate::back::{Limits, Paths, WriteBack};
use crate::backend::{Backend as _, Done, Kind, Task, Token, Zeroes};
use crate::behind::Behind as _;
use crate::raw::{Arena, Lend};
use forerun_core::access::Context;
use forerun_core::array::{Array, ArraySpec};
use forerun_core::units::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, VecDeque};

/// Commands of the volume at once.
const OPS_MAX: usize = 10;
/// Longest command, blocks.
const BLOCKS_MAX: usize = 4;
/// One in so many steps the process ends, by power or by a kill.
const ENDS: u64 = 70;
/// How long nothing happens, mostly and at times.
const SHORT: Nanos = Nanos::from_millis(20);
const LONG: Nanos = Nanos::from_secs(8);
/// Lines of what happened last that a failure shows.
const STORY_MAX: usize = 300;
/// How long anything may take when nothing fails any more.
const ANSWER: Nanos = Nanos::from_secs(100);

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
    device: Wire,
    journal: Wire,
    array: Array,
    limits: Limits,
    size: usize,
    back: Option<WriteBack>,
    arena: Arena,
    free: Vec<u32>,
    ops: BTreeMap<u32, Op>,
    number: u32,
    shadow: Shadow,
    faulty: bool,
    /// One in so many commands lies anywhere, the others in a few blocks from here on.
    spread: u64,
    few: usize,
    changes: u64,
    tally: Tally,
    story: Option<VecDeque<String>>,
}

pub(super) fn poll() -> std::os::fd::OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd")
}

/// What fails in a run: by its seed, so few runs have seen all of it.
fn faults(seed: u64) -> [Faults; 2] {
    let none = Faults::default();
    match seed % 10 {
        0 | 4 | 7 => [Faults { writes: 5, ..none }, none],
        2 => [Faults { syncs: 6, ..none }, none],
        5 => [none, Faults { writes: 25, ..none }],
        8 => [none, Faults { syncs: 12, ..none }],
        _ => [none; 2],
    }
}

/// A journal without records, of a device.
pub(super) fn fresh(seed: u128, size: u64, ring: u64, device: &mut impl Blocks) -> (Disk, Super) {
    let mut journal = Disk::new(Draw::new(seed as u64 ^ 0x109), vec![0; (SUPERS + ring) as usize * BLOCK]);
    let mut about = Super {
        id: seed,
        size,
        name: "simulated".into(),
        generation: 1,
        turn: 0,
        tail: Position { block: 0, seq: 1 },
        ring,
        prints: prints(device, size).expect("memory"),
        marked: false,
        identity: String::new(),
    };
    write_super(&mut journal, &mut about).expect("memory");
    (journal, about)
}

/// A start: what the journal holds goes home, and the journal begins anew.
pub(super) fn start(
    journal: &mut impl Blocks,
    device: &mut impl Blocks,
    size: usize,
) -> Result<(Super, Found), Stop> {
    let io = |problem| Stop::Io("starting", problem);
    let mut pages: [Box<Page>; SUPERS as usize] = [Box::new([0; BLOCK]), Box::new([0; BLOCK])];
    for (page, at) in pages.iter_mut().zip(0..) {
        journal.read(at, &mut page[..]).map_err(io)?;
    }
    let mut about = Super::newest([&pages[0], &pages[1]])
        .map_err(|why| Stop::Io("no superblock", std::io::Error::other(format!("{why:?}"))))?;
    let found = scan(journal, &about)?;
    check_device(device, &about, &found)?;
    bring_home(journal, device, &about, &found)?;
    about.prints = prints(device, size as u64).map_err(io)?;
    begin(journal, &mut about)?;
    Ok((about, found))
}

impl World {
    pub(super) fn new(seed: u64, told: bool) -> Self {
        let mut draw = Draw::new(seed);
        let blocks = PRINTS + 4 + draw.index(20);
        let size = blocks * BLOCK + draw.pick(&[0, 0, 512, 1536]);
        let text = draw.pick(&["single:16384", "raid0:2x8192", "raid0:3x16384", "single:4096"]);
        let spec: ArraySpec = text.parse().expect("an array");
        let strip = spec.strip_bytes() * u64::from(spec.disks());
        let rows = (size as u64).div_ceil(strip) * (spec.strip_bytes() / BLOCK as u64);
        let array = Array::new(spec, rows).expect("it fits");
        let slots = BLOCKS_MAX + draw.index(14);
        // Little more than the longest record, so that room is used again soon.
        let ring = (slots + 2 + draw.index(8)) as u64;
        let limits = Limits { blocks: slots, age: Nanos::from_millis(draw.pick(&[5, 50, 5000])) };
        let shadow = Shadow::new(size.div_ceil(SECTOR));
        let bytes: Vec<u8> = (0..size / SECTOR).flat_map(|sector| stamped(sector, 0)).collect();
        let mut device = Disk::new(Draw::new(seed ^ 0xd15c), bytes);
        let (journal, about) = fresh(u128::from(seed), size as u64, ring, &mut device);
        let weather = faults(seed);
        let (spread, few) = (draw.pick(&[1, 2, 8]), draw.index(blocks));
        let story = told
            .then(|| VecDeque::from([format!("{text}, {size} bytes, {limits:?}, ring {ring}, {weather:?}")]));
        let arena = Arena::new(0, OPS_MAX * BLOCKS_MAX).expect("memory");
        let mut world = Self {
            draw,
            now: Nanos::from_secs(1),
            device: Wire::new(device, poll()),
            journal: Wire::new(journal, poll()),
            array,
            limits,
            size,
            back: None,
            free: (0..(OPS_MAX * BLOCKS_MAX) as u32).collect(),
            arena,
            ops: BTreeMap::new(),
            number: 0,
            shadow,
            faulty: weather.iter().any(|faults| faults.writes + faults.syncs > 0),
            spread,
            few,
            changes: 0,
            tally: Tally::default(),
            story,
        };
        world.begin(&about);
        [world.device.disk().faults, world.journal.disk().faults] = weather;
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

    fn begin(&mut self, about: &Super) {
        let (device, journal) = (self.device.clone(), self.journal.clone());
        let whose = (about.clone(), Mark::none());
        let back = WriteBack::new(
            Box::new(device),
            Box::new(journal),
            Paths::default(),
            self.array,
            whose,
            self.limits,
        );
        self.back = Some(back.expect("memory"));
    }

    fn back(&mut self) -> &mut WriteBack {
        self.back.as_mut().expect("a process runs")
    }

    fn step(&mut self) -> Result<(), String> {
        let what = self.draw.below(100);
        let held = (self.device.disk().held(), self.journal.disk().held());
        if self.draw.one_in(ENDS) {
            let power = self.draw.one_in(2);
            self.end(power)?;
        } else if what < 40 && self.ops.len() < OPS_MAX {
            self.ask();
        } else if what < 65 && held.1 > 0 {
            self.complete(false, held.1);
        } else if what < 90 && held.0 > 0 {
            self.complete(true, held.0);
        } else {
            // A device that has refused a write is left alone for seconds: whoever waits for that in small steps sees nothing else.
            let most = if self.draw.one_in(8) { LONG } else { SHORT };
            self.now = Nanos(self.now.0 + self.draw.below(most.0));
        }
        self.after()
    }

    /// Commands end.
    fn complete(&mut self, device: bool, held: usize) {
        let index = self.draw.index(held);
        let wire = if device { &self.device } else { &self.journal };
        let told = wire.disk().complete(index);
        let name = if device { "device" } else { "journal" };
        self.tell(|| format!("{name}: {told}"));
    }

    /// The volume asks for something.
    fn ask(&mut self) {
        let all = self.size.div_ceil(BLOCK);
        let blocks = 1 + self.draw.index(BLOCKS_MAX);
        // What is asked for lies in a few blocks, in some runs most of it, so that they are written again and again.
        let few = !self.draw.one_in(self.spread);
        let first = if few { self.few + self.draw.index(5) } else { self.draw.index(all) };
        let first = first.min(all - blocks);
        let kind = self.draw.pick(&[Kind::Read, Kind::Write, Kind::Write, Kind::Write, Kind::Sync]);
        let apart =
            |op: &Op| op.kind != Kind::Write || op.first + op.blocks <= first || first + blocks <= op.first;
        if kind == Kind::Write && !self.ops.values().all(apart) {
            return;
        }
        let blocks = if kind == Kind::Sync { 0 } else { blocks };
        let slots: Vec<u32> = self.free.split_off(self.free.len() - blocks);
        let mut op = Op { kind, first, blocks, slots, version: 0, floors: Vec::new() };
        let offset = first * BLOCK;
        let len = (self.size - offset).min(blocks * BLOCK);
        match kind {
            Kind::Write => {
                self.shadow.last += 1;
                op.version = self.shadow.last;
                for (at, &slot) in op.slots.iter().enumerate() {
                    let block = self.arena.block_mut(slot);
                    block.fill(0);
                    for (sector, bytes) in block.chunks_mut(SECTOR).enumerate() {
                        let sector = (first + at) * (BLOCK / SECTOR) + sector;
                        if sector * SECTOR < self.size {
                            bytes.copy_from_slice(&stamped(sector, op.version));
                        }
                    }
                }
            }
            Kind::Read => op.floors = self.shadow.acked()[self.sectors(&op)].to_vec(),
            Kind::Sync => op.floors = self.shadow.acked().to_vec(),
        }
        let zeroes = self.draw.one_in(5);
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
            offset: offset as u64,
            len: if kind == Kind::Sync { 0 } else { len as u64 },
            lease,
            // What is called zeroes takes other ways; here it has bytes that say who wrote them all the same.
            zeroes: (kind == Kind::Write && zeroes).then_some(Zeroes::Hole),
        };
        self.back().submit(now, task);
    }

    fn sectors(&self, op: &Op) -> std::ops::Range<usize> {
        let end = ((op.first + op.blocks) * BLOCK).min(self.size);
        op.first * (BLOCK / SECTOR)..end.div_ceil(SECTOR)
    }

    /// Answers are taken, and the moment is judged.
    fn after(&mut self) -> Result<(), String> {
        let now = self.now;
        let mut done = Vec::new();
        let back = self.back();
        back.launch();
        back.reap(now, &mut done);
        let (said, wrote) = (back.take_said(), back.wrote());
        for said in said.into_iter().chain(wrote.then(|| "blocks go home".into())) {
            self.tell(|| said);
        }
        let answered = !done.is_empty();
        for done in done {
            self.answered(done)?;
        }
        let changes = self.device.disk().changes + self.journal.disk().changes;
        if std::mem::replace(&mut self.changes, changes) != changes || answered {
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
        let sectors = self.sectors(&op);
        match (&done.result, op.kind) {
            (Err(problem), _) => {
                self.tally.errors += 1;
                if !self.faulty || op.kind == Kind::Read {
                    return Err(format!("{number} failed without a cause: {problem}"));
                }
            }
            (Ok(moved), Kind::Write) => {
                if !self.faulty && (*moved as usize) < (sectors.len() * SECTOR).min(self.size) {
                    return Err(format!("{number} was written in part: {moved}"));
                }
                // What passed by the journal tells of its end itself, as a device does.
                if *moved as usize >= sectors.len() * SECTOR {
                    self.shadow.acknowledge(sectors, op.version);
                }
            }
            (Ok(_), Kind::Read) => {
                let bytes: Vec<u8> =
                    op.slots.iter().flat_map(|&slot| self.arena.block(slot).to_vec()).collect();
                let bytes = &bytes[..sectors.len() * SECTOR];
                self.shadow
                    .check_read(sectors.start, bytes, &op.floors)
                    .map_err(|why| format!("read {number}: {why}"))?;
            }
            (Ok(_), Kind::Sync) => self.shadow.flushed(&op.floors),
        }
        self.free.extend(op.slots);
        Ok(())
    }

    /// What if the process ended now?
    fn judge(&mut self) -> Result<(), String> {
        self.tally.points += 1;
        let power = !self.draw.one_in(4);
        let image = |wire: &Wire, draw: &mut Draw| {
            let disk = wire.disk();
            let bytes = if power { disk.cut_image(draw) } else { disk.kill_image(draw) };
            drop(disk);
            Disk::new(Draw::new(draw.below(u64::MAX)), bytes)
        };
        let mut device = image(&self.device, &mut self.draw);
        let mut journal = image(&self.journal, &mut self.draw);
        if self.draw.one_in(6) {
            self.cut_start(&mut journal, &mut device);
        }
        let kind = if power { "power cut" } else { "kill" };
        start(&mut journal, &mut device, self.size)
            .map_err(|stop| format!("after a {kind} a start is refused: {stop:?}"))?;
        self.shadow.check_image(device.view(), power).map_err(|why| format!("after a {kind}: {why}"))?;
        Ok(())
    }

    /// Power goes while a start replays.
    fn cut_start(&mut self, journal: &mut Disk, device: &mut Disk) {
        device.fuse = Some(self.draw.below(6));
        journal.fuse = Some(self.draw.below(3));
        drop(start(journal, device, self.size));
        for disk in [journal, device] {
            let image = disk.cut_image(&mut self.draw);
            *disk = Disk::new(Draw::new(self.draw.below(u64::MAX)), image);
        }
    }

    /// The process ends, and another begins on what is there.
    fn end(&mut self, power: bool) -> Result<(), String> {
        self.tell(|| format!("the process ends, {}", if power { "with power" } else { "killed" }));
        self.back = None;
        for (_, op) in std::mem::take(&mut self.ops) {
            self.free.extend(op.slots);
        }
        // Leases that went with it never come back: their memory is another's now.
        self.arena = Arena::new(0, OPS_MAX * BLOCKS_MAX).expect("memory");
        for wire in [&self.device, &self.journal] {
            let mut disk = wire.disk();
            disk.kill();
            if power {
                let image = disk.cut_image(&mut self.draw);
                let faults = disk.faults;
                *disk = Disk::new(Draw::new(self.draw.below(u64::MAX)), image);
                disk.faults = faults;
            }
        }
        if power {
            self.tally.cuts += 1;
        } else {
            self.tally.kills += 1;
        }
        let started = start(&mut *self.journal.disk(), &mut *self.device.disk(), self.size);
        let (about, found) = started.map_err(|stop| format!("a start is refused: {stop:?}"))?;
        self.tell(|| format!("{} records are replayed", found.records));
        let there = self.shadow.check_image(self.device.disk().view(), power)?;
        let lost = self.device.disk().lost();
        self.shadow.begin(there, &lost, power);
        self.begin(&about);
        Ok(())
    }

    /// Nothing fails any more: everything is answered, and goes home.
    fn finish(&mut self) -> Result<(), String> {
        [self.device.disk().faults, self.journal.disk().faults] = [Faults::default(); 2];
        let end = Nanos(self.now.0 + ANSWER.0);
        while !self.ops.is_empty() {
            self.settle(end, "something is not answered")?;
        }
        self.back().go_home();
        while !self.back().is_home() {
            self.settle(end, "something does not go home")?;
        }
        if !self.back().is_broken() {
            let device = self.device.disk();
            let why = |why| format!("everything is home, and {why}");
            // Without its journal, the device has what was acknowledged, and keeps what was flushed.
            self.shadow.check_image(device.view(), false).map_err(why)?;
            self.shadow.check_image(device.durable(), true).map_err(why)?;
        }
        Ok(())
    }

    fn settle(&mut self, end: Nanos, what: &str) -> Result<(), String> {
        let held = (self.device.disk().held(), self.journal.disk().held());
        match held {
            (0, 0) => {
                let wake = self.back().next_wake().filter(|&at| at > self.now);
                self.now = wake.unwrap_or(Nanos(self.now.0 + 100_000_000));
            }
            (0, held) => self.complete(false, held),
            (held, _) => self.complete(true, held),
        }
        if self.now > end {
            return Err(format!("at the end {what}"));
        }
        self.after()
    }
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
