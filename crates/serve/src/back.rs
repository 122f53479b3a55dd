//! Write-back over one device: a write is acknowledged when it is on a journal, and goes home later, by whole stripes.
//!
//! ```text
//!   Volume --write--> waiting --> batch --> record on the journal --> acknowledged        held in memory, read from there
//!                                                    |
//!   checkpoint: journal synced -> stripes home -> device synced -> journal synced -> superblock with the new tail -> room
//! ```
//!
//! [`WriteBack`] is a [`Backend`] before another, so the volume above is the one of write-through, word for word. What stands on the journal is
//! said in `format`, how it is brought home after a crash in `replay`, how a journal is made, opened and bound to its device in `open`.
//!
//! What is promised, and why it holds:
//!
//! - *Acknowledged is on the journal.* Records are written one after the other, so those before an acknowledged one are there too. A kill loses
//!   nothing; a power cut nothing that a FLUSH or FUA has covered, since those sync the journal.
//! - *Home after the journal.* Nothing goes to the device that the journal does not keep: a record that power takes away was never
//!   half at home.
//! - *The tail moves last.* It passes a record when the device has been synced with its blocks, or the journal with records that replace
//!   them; and room is used again when the superblock that says so has been synced.
//! - *Failures lose nothing.* A write to the device that fails is tried again while the journal keeps it, and new writes are refused meanwhile.
//!   A journal that fails, or a sync of either that fails, ends writing until the next start, which replays.

mod check;
mod figures;
pub(crate) mod format;
mod group;
mod held;
pub(crate) mod identity;
mod log;
pub(crate) mod open;
pub(crate) mod parse;
pub(crate) mod replay;
mod ring;
mod slots;
#[cfg(test)]
mod speed;

use crate::array::superblock::Epoch;
use crate::backend::{Backend, Done, Kind, Lateness, Mapped, Question, Task, Token, Zeroes};
use crate::behind::Behind;
use crate::planted::{self, Bug};
use crate::raw::Lease;
use check::Check;
use figures::Sums;
use forerun_core::access::Context;
use forerun_core::array::Array;
use forerun_core::units::Nanos;
use forerun_disk::device::DeviceStats;
use format::{BLOCK, EXTENTS_MAX, PAYLOAD_MAX, PRINTS, Super};
pub(crate) use group::Group;
use held::{Held, State};
use log::{FIXED, Log, Taken};
use open::Mark;
use ring::Ring;
use rustix::event::epoll::{self, EventData, EventFlags};
use slots::Slots;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// How many of the last writes are known by where they ended.
const TAILS: usize = 16;
/// How long a device that refuses a write is left alone.
const RETRY: Nanos = Nanos::from_secs(5);

/// Files of the device and of the journal; none where a test has made them of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths {
    /// For whole blocks.
    pub(crate) direct: Option<Arc<File>>,
    /// For a last block that is not whole, and for syncs.
    pub(crate) plain: Option<Arc<File>>,
    /// The journal, for whole blocks and for syncs.
    pub(crate) log: Option<Arc<File>>,
}

/// How much may be held back, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Blocks of memory for what the journal holds.
    pub(crate) blocks: usize,
    /// What has been on the journal for so long goes home.
    pub(crate) age: Nanos,
}

/// A command to the device, and when it left.
struct Sent {
    flight: Flight,
    since: Nanos,
}

/// What it is for.
enum Flight {
    /// A read from a byte on, with what of it memory has: block of the lease, and where.
    Read { token: Token, at: u64, over: Vec<(u64, u32)> },
    /// A write that passes by the journal.
    Through { token: Token, first: u64, end: u64 },
    /// A part of a group that passes by it (a planted bug).
    Bare { token: Token, slots: Vec<u32> },
    /// Blocks of a stripe go home.
    Home { stripe: u64, blocks: Vec<(u64, u32)>, hollow: bool },
    /// The sync of a checkpoint.
    Check,
    /// The sync of a flush.
    Flush,
}

/// The way.
pub(crate) struct WriteBack {
    device: Box<dyn Backend>,
    log: Log,
    files: Paths,
    epoll: OwnedFd,
    array: Array,
    about: Super,
    limits: Limits,
    slots: Slots,
    held: Held,
    ring: Ring,
    /// Writes that wait for memory or for room.
    waiting: VecDeque<Task>,
    /// Groups of blocks that do.
    groups: VecDeque<Group>,
    /// A write home goes no further than a strip: what is below are members, and not one device.
    by_strip: bool,
    /// The epoch of those members that stands.
    epoch: Arc<Mutex<Option<Epoch>>>,
    /// Memory that commands have kept although whoever waited for them was answered, by their number.
    kept: BTreeMap<u32, Vec<u32>>,
    flights: BTreeMap<u32, Sent>,
    number: u32,
    ended: Vec<Done>,
    now: Nanos,
    check: Option<Check>,
    /// Some write that passed by the journal is not covered by a sync of the device.
    through_unsynced: bool,
    /// Sums of the device's first blocks, as they were last sent there.
    prints: [u32; PRINTS],
    /// Nothing is written any more: what cannot be known to be kept.
    broken: bool,
    /// The device refuses writes: with which error, and when it is tried again.
    stuck: Option<(i32, Nanos)>,
    /// Everything is to go home.
    leaving: bool,
    /// Blocks behind the last writes: what begins at one of them continues that.
    tails: VecDeque<u64>,
    said: Vec<String>,
    /// The device was written to since somebody asked.
    wrote: bool,
    sums: Sums,
    /// On the device, while the journal may hold what it lacks.
    mark: Mark,
}

impl WriteBack {
    /// Before `device`; `about` is the superblock that was written last, of a journal without records.
    pub(crate) fn new(
        device: Box<dyn Backend>,
        log: Box<dyn Backend>,
        files: Paths,
        array: Array,
        (about, mark): (Super, Mark),
        limits: Limits,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for backend in [&device, &log] {
            epoll::add(&epoll, backend.poll_fd(), EventData::new_u64(0), EventFlags::IN)?;
        }
        let ring = Ring::new(about.ring, about.tail);
        Ok(Self {
            device,
            log: Log::new(log, files.log.clone()),
            files,
            epoll,
            array,
            limits,
            slots: Slots::new(FIXED, limits.blocks)?,
            held: Held::default(),
            ring,
            waiting: VecDeque::new(),
            groups: VecDeque::new(),
            by_strip: false,
            epoch: Arc::default(),
            kept: BTreeMap::new(),
            flights: BTreeMap::new(),
            number: 0,
            ended: Vec::new(),
            now: Nanos::ZERO,
            check: None,
            through_unsynced: false,
            prints: about.prints,
            about,
            broken: false,
            stuck: None,
            leaving: false,
            tails: VecDeque::new(),
            said: Vec::new(),
            wrote: false,
            sums: Sums::default(),
            mark,
        })
    }

    /// Bytes of `len` from a byte of the device on that lie before its end.
    fn inside(&self, offset: u64, len: u64) -> u64 {
        self.about.size.saturating_sub(offset).min(len)
    }

    /// Sends a command to the device.
    fn send(&mut self, kind: Kind, (offset, len): (u64, u64), lease: Option<Lease>, flight: Flight) {
        let whole = len.is_multiple_of(BLOCK as u64) && kind != Kind::Sync;
        let file = if whole { self.files.direct.clone() } else { None };
        let file = file.or_else(|| self.files.plain.clone());
        let task = Task {
            token: Token::Sync(0),
            kind,
            member: 0,
            ahead: false,
            context: Context::default(),
            file,
            offset,
            len,
            lease,
            zeroes: matches!(flight, Flight::Home { hollow: true, .. }).then_some(Zeroes::Hole),
        };
        self.pass(task, flight);
    }

    /// Sends a command of the volume to the device, under a number of ours.
    fn pass(&mut self, mut task: Task, flight: Flight) {
        while self.flights.contains_key(&self.number) || self.kept.contains_key(&self.number) {
            self.number = self.number.wrapping_add(1);
        }
        task.token = Token::Command(self.number);
        self.flights.insert(self.number, Sent { flight, since: self.now });
        self.number = self.number.wrapping_add(1);
        self.device.submit(self.now, task);
    }

    fn end(&mut self, token: Token, result: io::Result<u64>, lease: Option<Lease>) {
        self.ended.push(Done { token, result, lease });
    }

    fn read(&mut self, mut task: Task) {
        let first = task.offset / BLOCK as u64;
        let end = (task.offset + task.len).div_ceil(BLOCK as u64);
        let over: Vec<(u64, u32)> = if planted::is(Bug::ReadPastJournal) {
            Vec::new()
        } else {
            self.held.range(first, end).map(|(block, entry)| (block - first, entry.slot)).collect()
        };
        if over.len() as u64 == end - first
            && let Some(mut lease) = task.lease.take()
        {
            for (block, slot) in over {
                lease.copy_from(block * BLOCK as u64, self.slots.bytes(slot));
            }
            let len = self.inside(task.offset, task.len);
            return self.end(task.token, Ok(len), Some(lease));
        }
        over.iter().for_each(|(_, slot)| self.slots.pin(*slot));
        let (token, at) = (task.token, task.offset);
        self.pass(task, Flight::Read { token, at, over });
    }

    /// A read of the device has ended: what memory has of it is newer. One that failed, of blocks that were all written meanwhile, wants nothing
    /// of the device any more: who is told that they are bad would leave them alone, and nobody would tell it when they went home.
    fn read_ended(&mut self, (token, at): (Token, u64), over: Vec<(u64, u32)>, done: Done) {
        let Done { mut result, mut lease, .. } = done;
        let len = lease.as_ref().map_or(0, Lease::bytes);
        let first = at / BLOCK as u64;
        if result.is_err() && self.holds_all(first, len / BLOCK as u64) {
            for (block, entry) in self.held.range(first, first + len / BLOCK as u64) {
                if let Some(lease) = &mut lease {
                    lease.copy_from((block - first) * BLOCK as u64, self.slots.bytes(entry.slot));
                }
            }
            result = Ok(self.inside(at, len));
        }
        for (block, slot) in over {
            if let Some(lease) = &mut lease {
                lease.copy_from(block * BLOCK as u64, self.slots.bytes(slot));
            }
            self.slots.unpin(slot);
        }
        self.end(token, result, lease);
    }

    /// Whether memory has all of these blocks.
    fn holds_all(&self, first: u64, blocks: u64) -> bool {
        blocks > 0 && self.held.range(first, first + blocks).count() as u64 == blocks
    }

    /// With which error a write is refused now.
    fn refuses(&self) -> Option<i32> {
        if self.broken { Some(libc::EIO) } else { self.stuck.map(|(code, _)| code) }
    }

    /// Takes writes into the next record, as many as it and memory hold.
    fn admit(&mut self) {
        while let Some(task) = self.waiting.front() {
            if self.passes_by(task) {
                let Some(task) = self.waiting.pop_front() else { break };
                self.pass_by(task);
                continue;
            }
            let blocks = task.len.div_ceil(BLOCK as u64) as usize;
            let record =
                self.log.batch_blocks() + blocks <= PAYLOAD_MAX && self.log.batch.len() < EXTENTS_MAX;
            if self.refuses().is_none() && (!record || self.slots.free() < blocks) {
                break;
            }
            let Some(task) = self.waiting.pop_front() else { break };
            match self.refuses() {
                Some(code) => self.end(task.token, Err(io::Error::from_raw_os_error(code)), task.lease),
                None => self.take(task, blocks),
            }
        }
        self.admit_groups();
        if self.is_full() {
            self.write_through();
        }
    }

    fn take(&mut self, task: Task, blocks: usize) {
        let Task { token, offset, len, lease, .. } = task;
        self.ends_at(offset / BLOCK as u64 + blocks as u64);
        let slots: Vec<u32> = (0..blocks).filter_map(|_| self.slots.take()).collect();
        if let Some(lease) = &lease {
            for (&slot, at) in slots.iter().zip(0..) {
                self.slots.fill(slot, lease, at * BLOCK as u64);
            }
        }
        if planted::is(Bug::AnsweredBeforeJournal) {
            self.end(token, Ok(len), lease);
            return self.log.batch.push(Taken {
                token: None,
                first: offset / BLOCK as u64,
                len,
                slots,
                lease: None,
            });
        }
        self.log.batch.push(Taken { token: Some(token), first: offset / BLOCK as u64, len, slots, lease });
    }

    /// Whether the next write cannot be taken before something has gone home.
    fn is_full(&self) -> bool {
        let task = self.waiting.front().map(|task| task.len.div_ceil(BLOCK as u64) as usize);
        let Some(wanted) = task.or_else(|| self.groups.front().map(Group::blocks)) else { return false };
        let memory = self.slots.free() < wanted;
        let blocks = self.log.batch_blocks() as u64;
        memory || (blocks > 0 && self.log.is_idle() && self.ring.room(1 + blocks).is_none())
    }

    /// Lets writes that wait pass by the journal, which has no room, if it holds nothing of their blocks: a replay brings nothing over
    /// them. The device's first blocks stay what the superblock says of them. What continues another write waits: it makes whole stripes with
    /// that, and would only draw the disks away from those that go home.
    fn write_through(&mut self) {
        for task in std::mem::take(&mut self.waiting) {
            let first = task.offset / BLOCK as u64;
            let end = first + task.len.div_ceil(BLOCK as u64);
            let clear = self.held.is_clear(first, end) && !self.log.touches(first, end);
            let clear = clear || planted::is(Bug::ThroughOverRecord);
            let before = self.waiting.iter().any(|task| {
                let one = task.offset / BLOCK as u64;
                one < end && first < one + task.len.div_ceil(BLOCK as u64)
            });
            if clear
                && self.is_apart(first, end)
                && !before
                && first >= PRINTS as u64
                && !self.continues(&task)
            {
                self.pass_by(task);
            } else {
                self.waiting.push_back(task);
            }
        }
    }

    /// A write ends before this block.
    fn ends_at(&mut self, end: u64) {
        if self.tails.len() == TAILS {
            self.tails.pop_front();
        }
        self.tails.push_back(end);
    }

    /// Whether a write begins where one of the last has ended, or one that waits, and will have room.
    fn continues(&self, task: &Task) -> bool {
        let (first, blocks) = (task.offset / BLOCK as u64, task.len.div_ceil(BLOCK as u64));
        let fits = blocks <= self.slots.all() as u64 && blocks < self.about.ring;
        let behind = |task: &Task| task.offset / BLOCK as u64 + task.len.div_ceil(BLOCK as u64) == first;
        fits && (self.tails.contains(&first) || self.waiting.iter().any(behind))
    }

    /// Whether nothing that passes by the journal is under way to these blocks.
    fn is_apart(&self, first: u64, end: u64) -> bool {
        let passes = |sent: &Sent| matches!(&sent.flight, Flight::Through { first: one, end: other, .. } if *one < end && first < *other);
        !self.flights.values().any(passes)
    }

    /// A write goes to the device alone.
    fn pass_by(&mut self, task: Task) {
        let (token, first) = (task.token, task.offset / BLOCK as u64);
        let end = first + task.len.div_ceil(BLOCK as u64);
        self.sums.through += task.len;
        self.ends_at(end);
        self.pass(task, Flight::Through { token, first, end });
    }

    /// Zeroes pass by a journal that has nothing of their blocks, as a full one is passed by: a TRIM of a whole disk would fill it with
    /// zeros, and the device makes holes of them. Whatever is not clear is written as zeros like other bytes.
    fn passes_by(&self, task: &Task) -> bool {
        let first = task.offset / BLOCK as u64;
        let end = first + task.len.div_ceil(BLOCK as u64);
        task.zeroes.is_some()
            && self.refuses().is_none()
            && first >= PRINTS as u64
            && self.held.is_clear(first, end)
            && !self.log.touches(first, end)
            && self.is_apart(first, end)
    }

    fn landed(&mut self, done: Done) {
        let Token::Command(number) = done.token else { unreachable!("commands of ours have numbers") };
        let Some(sent) = self.flights.remove(&number) else { return self.given_back(number, done) };
        match sent.flight {
            Flight::Bare { token, slots } => self.bare_ended(token, &slots, done),
            Flight::Read { token, at, over } => self.read_ended((token, at), over, done),
            Flight::Through { token, .. } => {
                self.wrote = true;
                self.through_unsynced |= !planted::is(Bug::ThroughUnsynced);
                self.end(token, done.result, done.lease);
            }
            Flight::Home { stripe, blocks, .. } => self.home_ended(number, stripe, &blocks, done),
            Flight::Check => self.device_synced(done.result.map(drop)),
            Flight::Flush => self.flush_part_ended(done.result.map(drop)),
        }
    }

    /// Nothing can be promised any more.
    fn fail(&mut self, what: &str, problem: &io::Error) {
        if !self.broken {
            self.said.push(format!(
                "write-back: {what}: {problem}; nothing is written any more: start the server anew, which replays the journal"
            ));
        }
        self.broken = true;
    }

    /// Everything that may happen now happens.
    fn advance(&mut self) {
        self.admit();
        self.check_on();
        self.use_log();
        // What the log has taken has left room for more.
        self.admit();
        self.device.launch();
        self.log.backend.launch();
    }

    /// A block of the device holds these bytes now.
    fn note_print(&mut self, block: u64, slot: u32) {
        if let Some(print) = self.prints.get_mut(block as usize) {
            let inside = self.about.size.saturating_sub(block * BLOCK as u64).min(BLOCK as u64) as usize;
            *print = format::sum(&self.slots.bytes(slot)[..inside]);
        }
    }

    /// Marks what a write home has brought, or has not; whether its memory is free of it.
    fn mark(&mut self, blocks: &[(u64, u32)], state: State, free: bool) {
        for &(block, slot) in blocks {
            if state == State::Written {
                self.note_print(block, slot);
            }
            self.held.go(block, slot, state);
            if free {
                self.slots.unpin(slot);
            }
        }
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        if !self.broken && !self.works() {
            self.mark.take_off(self.about.clone());
        }
    }
}

impl Backend for WriteBack {
    fn submit(&mut self, now: Nanos, task: Task) {
        self.now = now;
        match task.kind {
            Kind::Read => self.read(task),
            Kind::Write => self.waiting.push_back(task),
            Kind::Sync => self.log.flushes.push(task.token),
        }
    }

    fn launch(&mut self) {
        self.advance();
    }

    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.now = now;
        let mut done = Vec::new();
        self.device.reap(now, &mut done);
        for end in done.drain(..) {
            self.landed(end);
        }
        self.log.backend.reap(now, &mut done);
        for end in done {
            self.logged(end);
        }
        self.advance();
        self.sums.tick(now);
        out.append(&mut self.ended);
    }

    fn woken(&mut self) {
        self.device.woken();
        self.log.backend.woken();
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || self.device.has_ended() || self.log.backend.has_ended()
    }

    fn next_wake(&self) -> Option<Nanos> {
        let at_once = (!self.ended.is_empty()).then_some(self.now);
        let below = [self.device.next_wake(), self.log.backend.next_wake()];
        below.into_iter().chain([at_once, self.next_check()]).flatten().min()
    }

    fn lateness(&self) -> Option<Lateness> {
        self.device.lateness()
    }

    fn model(&self, member: usize) -> Option<DeviceStats> {
        self.device.model(member)
    }

    /// What is a hole on the device may be data on the journal.
    fn map(&mut self, _now: Nanos, _question: Question) -> bool {
        false
    }

    fn mapped(&mut self, _out: &mut Vec<Mapped>) {}

    fn changed(&mut self) -> Option<String> {
        self.device.changed()
    }

    fn forsake(&mut self) {
        self.device.forsake();
        self.log.backend.forsake();
    }

    fn behind(&self) -> Option<&dyn Behind> {
        Some(self)
    }

    fn behind_mut(&mut self) -> Option<&mut dyn Behind> {
        Some(self)
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
