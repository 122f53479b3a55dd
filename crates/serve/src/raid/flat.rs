//! All members as one run of blocks, row of strips after row, parity and copies included; and what becomes of a member that fails.
//!
//! What is above writes and reads places, not data: block `b` of it lies where striping over all members puts it. A member whose write or sync
//! fails, or that owes an answer for too long, is put out if the others can do without it: an epoch begins without it, and only when
//! that stands on all others do commands that wait for it end, as if it had taken them. From then on nothing is sent to it, and whoever plans knows
//! by [`Standing`]. A member that the others cannot do without keeps its errors, and so does one that has no space left.

use super::standing::Standing;
use crate::array::superblock::{Epoch, Rebuilding, Superblock};
use crate::backend::{Backend, Done, Kind, Lateness, Task, Token};
use crate::behind::Files;
use crate::planted::{self, Bug};
use crate::raw::{Arena, Lend};
use crate::sealed::BLOCK;
use forerun_core::access::Context;
use forerun_core::array::{Array, DiskSet};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Nanos};
use forerun_disk::device::DeviceStats;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

/// The members, by number.
pub(crate) struct Ways {
    pub(crate) paths: Vec<Files>,
    /// Of those that are in.
    pub(crate) heads: Vec<Option<Superblock>>,
    /// Bytes before the data of each.
    pub(crate) base: u64,
    /// How long each may owe an answer.
    pub(crate) timeout: Nanos,
    /// Nothing is written, so nobody need say durably who is out.
    pub(crate) read_only: bool,
}

/// What a command is for.
enum Flight {
    /// A read, or a write of so many bytes.
    Move {
        token: Token,
        write: Option<u64>,
    },
    /// Of the sync with this number.
    Sync(u64),
    /// The superblock of a new epoch.
    Head,
    HeadSync,
    /// Whoever waited for it has been answered; what was lent comes back with it.
    Late {
        token: Token,
    },
}

struct Sent {
    flight: Flight,
    member: u16,
    since: Nanos,
    writes: bool,
}

/// A sync of all members for one above.
struct Sync {
    token: Token,
    left: u32,
    /// The first error of a member that cannot be done without.
    error: Option<i32>,
}

/// The way.
pub(crate) struct Flat {
    inner: Box<dyn Backend>,
    /// Striping over all members.
    rows: Array,
    ways: Ways,
    standing: Standing,
    arena: Arena,
    flights: BTreeMap<u32, Sent>,
    number: u32,
    syncs: BTreeMap<u64, Sync>,
    next_sync: u64,
    /// Ends that wait for the epoch: of members that are going.
    held: Vec<(u16, Done)>,
    /// Members whose part of the epoch that begins has not ended, and what it says: whom it is without, and who is being rebuilt.
    epoch: Option<(DiskSet, (DiskSet, Option<Rebuilding>))>,
    /// A number for each epoch.
    draw: Box<dyn FnMut() -> u64 + Send>,
    now: Nanos,
    ended: Vec<Done>,
    /// Members that had no space left at their last write.
    full: DiskSet,
}

fn is_full(problem: &io::Error) -> bool {
    matches!(problem.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

fn short() -> io::Error {
    io::Error::other("only a part was written")
}

impl Flat {
    /// Over members by number, those that are there with their superblocks; `draw` gives numbers of epochs.
    pub(crate) fn new(
        inner: Box<dyn Backend>,
        rows: Array,
        ways: Ways,
        standing: Standing,
        draw: Box<dyn FnMut() -> u64 + Send>,
    ) -> io::Result<Self> {
        let arena = Arena::new(0, ways.heads.len())?;
        if let Some(head) = ways.heads.iter().flatten().next() {
            standing.tell(head.epoch);
        }
        Ok(Self {
            inner,
            rows,
            ways,
            standing,
            arena,
            flights: BTreeMap::new(),
            number: 0,
            syncs: BTreeMap::new(),
            next_sync: 0,
            held: Vec::new(),
            epoch: None,
            draw,
            now: Nanos::ZERO,
            ended: Vec::new(),
            full: DiskSet::EMPTY,
        })
    }

    fn send(&mut self, member: u16, mut task: Task, flight: Flight) {
        while self.flights.contains_key(&self.number) {
            self.number = self.number.wrapping_add(1);
        }
        let paths = &self.ways.paths[usize::from(member)];
        let direct = if task.kind == Kind::Sync { None } else { paths.direct.clone() };
        task.file = direct.or_else(|| paths.plain.clone());
        task.member = member;
        task.token = Token::Command(self.number);
        let writes = task.kind == Kind::Write;
        if writes {
            self.standing.writes(true);
        }
        self.flights.insert(self.number, Sent { flight, member, since: self.now, writes });
        self.number = self.number.wrapping_add(1);
        self.inner.submit(self.now, task);
    }

    fn sync_task() -> Task {
        Task {
            token: Token::Sync(0),
            kind: Kind::Sync,
            member: 0,
            ahead: false,
            context: Context::default(),
            file: None,
            offset: 0,
            len: 0,
            lease: None,
            zeroes: None,
        }
    }

    fn end(&mut self, token: Token, result: io::Result<u64>, lease: Option<crate::raw::Lease>) {
        self.ended.push(Done { token, result, lease });
    }

    fn start_sync(&mut self, token: Token) {
        self.next_sync += 1;
        let number = self.next_sync;
        let members: Vec<u16> = (0..self.rows.disks()).filter(|&m| !self.standing.is_gone(m)).collect();
        self.syncs.insert(number, Sync { token, left: members.len() as u32, error: None });
        for member in members {
            self.send(member, Self::sync_task(), Flight::Sync(number));
        }
    }

    /// A member's part of a sync has ended.
    fn sync_part(&mut self, number: u64, error: Option<i32>) {
        let Some(sync) = self.syncs.get_mut(&number) else { return };
        sync.left -= 1;
        sync.error = sync.error.or(error);
        if sync.left > 0 {
            return;
        }
        let Some(Sync { token, error, .. }) = self.syncs.remove(&number) else { return };
        let result = error.map_or(Ok(0), |code| Err(io::Error::from_raw_os_error(code)));
        let done = Done { token, result, lease: None };
        // What one that is going has not kept counts when the others say that it is out.
        if self.standing.going().is_empty() {
            self.ended.push(done)
        } else {
            self.held.push((u16::MAX, done))
        }
    }

    fn move_ended(&mut self, member: u16, token: Token, write: Option<u64>, done: Done) {
        let Some(len) = write else { return self.ended.push(Done { token, ..done }) };
        let result = done.result.and_then(|moved| if moved < len { Err(short()) } else { Ok(len) });
        match result {
            Ok(_) if !self.standing.is_gone(member) => {
                if self.full.contains(Disk(member)) {
                    self.full.remove(Disk(member));
                    self.standing.full(member, None);
                }
                self.end(token, Ok(len), done.lease);
            }
            // One that is full is as whole as before: whoever writes hears of it, and it is tried again.
            Err(problem)
                if !self.standing.is_gone(member)
                    && (is_full(&problem) || !self.leave(member, &format!("write: {problem}"))) =>
            {
                if is_full(&problem) && !self.full.contains(Disk(member)) {
                    self.full.insert(Disk(member));
                    self.standing.full(member, Some(&problem));
                }
                self.end(token, Err(problem), done.lease);
            }
            _ => {
                let end = Done { token, result: Ok(len), lease: done.lease };
                if self.standing.is_out(member) {
                    self.ended.push(end)
                } else {
                    self.held.push((member, end))
                }
            }
        }
    }

    /// A member goes, if the others can do without it; whether it does.
    fn leave(&mut self, member: u16, why: &str) -> bool {
        if self.standing.is_gone(member) {
            return true;
        }
        if !self.standing.leave(member, why) {
            return false;
        }
        if self.ways.read_only || planted::is(Bug::OutUnsaid) {
            let late = self.ways.read_only && self.flights.values().any(|sent| sent.member == member);
            self.standing.set_late(member, late);
            self.standing.gone_unsaid();
            self.release();
            return true;
        }
        if let Some((waits, _)) = &mut self.epoch {
            waits.remove(Disk(member));
            self.epoch_on();
        } else {
            self.begin_epoch();
        }
        // What it has in hand is nobody's any more.
        let own: Vec<u32> = self
            .flights
            .iter()
            .filter(|(_, sent)| sent.member == member)
            .map(|(&number, _)| number)
            .collect();
        self.standing.set_late(member, !own.is_empty());
        for number in own {
            let Some(sent) = self.flights.get_mut(&number) else { continue };
            match sent.flight {
                Flight::Move { token, write: Some(len) } => {
                    sent.flight = Flight::Late { token };
                    self.held.push((member, Done { token, result: Ok(len), lease: None }));
                }
                Flight::Sync(of) => {
                    sent.flight = Flight::Late { token: Token::Sync(0) };
                    self.sync_part(of, None);
                }
                Flight::Move { write: None, .. } | Flight::Head | Flight::HeadSync | Flight::Late { .. } => {}
            }
        }
        true
    }

    /// A new member; and one that nothing is asked of any more is not held.
    fn take_files(&mut self) {
        if let Some((member, paths)) = self.standing.take_files() {
            // What one that is out says is of the time at which it went.
            let others =
                (0..).zip(&self.ways.heads).filter(|&(at, _)| at != member && !self.standing.is_gone(at));
            let other = others.map(|(_, head)| head).find_map(Clone::clone);
            self.ways.paths[usize::from(member)] = paths;
            self.ways.heads[usize::from(member)] =
                other.map(|head| Superblock { index: member, turn: 0, ..head }); // its first is that of a new epoch
        }
        for member in self.standing.forgone().iter() {
            self.ways.paths[usize::from(member.0)] = Files::default();
        }
    }

    /// A new member, and what superblocks are to say although nobody is going. Only when the time is known: what leaves now is late some day.
    fn take_orders(&mut self) {
        self.take_files();
        if self.epoch.is_none() && self.standing.take_epoch_wanted() {
            self.begin_epoch();
        }
    }

    /// An epoch without those who are going.
    fn begin_epoch(&mut self) {
        if self.standing.is_stopped() {
            return self.stop();
        }
        // One that has come since somebody asked last is meant too: nothing is written to it before it says what it is.
        self.take_files();
        let (out, rebuilding) = self.standing.next();
        let number = (self.draw)();
        let mut waits = DiskSet::EMPTY;
        let gone = self.standing.gone();
        for member in (0..self.rows.disks()).filter(|&member| !gone.contains(Disk(member))) {
            let Some(head) = &mut self.ways.heads[usize::from(member)] else { continue };
            let epoch = Epoch { generation: head.epoch.generation + 1, number, before: head.epoch.number };
            *head = Superblock { epoch, out, rebuilding, stands: false, turn: head.turn + 1, ..head.clone() };
            let (page, place) = (head.encode(), head.place());
            self.arena.block_mut(u32::from(member)).copy_from_slice(&page[..]);
            let lease = self.arena.lend(std::iter::once(Some(u32::from(member))), Lend::Drain);
            let offset = place * BLOCK_BYTES;
            let task = Task {
                kind: Kind::Write,
                offset,
                len: BLOCK as u64,
                lease: Some(lease),
                ..Self::sync_task()
            };
            waits.insert(Disk(member));
            self.send(member, task, Flight::Head);
        }
        self.epoch = Some((waits, (out, rebuilding)));
        self.epoch_on();
    }

    /// A member has its superblock, or has not.
    fn head_ended(&mut self, member: u16, synced: bool, done: Done) {
        let good = match (&done.result, &done.lease) {
            (Ok(moved), Some(lease)) => *moved >= lease.bytes(),
            (result, _) => result.is_ok(),
        };
        if let Some(lease) = done.lease {
            self.arena.take_back(lease);
        }
        if self.standing.is_gone(member) {
            return;
        }
        if !good {
            if !self.leave(member, "its superblock cannot be written") {
                self.stop();
            }
        } else if !synced {
            self.send(member, Self::sync_task(), Flight::HeadSync);
        } else if let Some((waits, _)) = &mut self.epoch {
            waits.remove(Disk(member));
            self.epoch_on();
        }
    }

    /// The others cannot say that those who are going are out: nothing may be written any more.
    fn stop(&mut self) {
        self.standing.stop("a superblock cannot be written, and no member more can be done without");
        self.epoch = None;
        for (_, done) in self.held.drain(..) {
            self.ended.push(Done { result: Err(io::Error::from_raw_os_error(libc::EIO)), ..done });
        }
    }

    /// Whether the epoch stands everywhere: then whom it is without is out.
    fn epoch_on(&mut self) {
        let Some((_, said)) = self.epoch.take_if(|(waits, _)| waits.is_empty()) else { return };
        if !self.standing.stands(said) {
            // More are going: they are not out before the others say so.
            return self.begin_epoch();
        }
        let gone = self.standing.gone();
        let heads = (0..).zip(&self.ways.heads).filter(|&(at, _)| !gone.contains(Disk(at)));
        // Before anybody hears of it: a tail of the journal that moves behind what one that is out lacks says it too.
        if let Some(head) = heads.filter_map(|(_, head)| head.as_ref()).next() {
            self.standing.tell(head.epoch);
        }
        self.release();
    }

    fn release(&mut self) {
        self.ended.extend(self.held.drain(..).map(|(_, done)| done));
    }

    fn landed(&mut self, done: Done) {
        let Token::Command(number) = done.token else { unreachable!("commands of ours have numbers") };
        let Some(sent) = self.flights.remove(&number) else { unreachable!("what was sent ends once") };
        let member = sent.member;
        if sent.writes {
            self.standing.writes(false);
        }
        if self.standing.is_gone(member) {
            let late = self.flights.values().any(|sent| sent.member == member);
            self.standing.set_late(member, late);
        }
        match sent.flight {
            Flight::Move { token, write } => self.move_ended(member, token, write, done),
            Flight::Sync(of) => {
                let error = done.result.err().filter(|_| !self.standing.is_gone(member));
                let error = error.filter(|problem| !self.leave(member, &format!("sync: {problem}")));
                self.sync_part(of, error.map(|problem| problem.raw_os_error().unwrap_or(libc::EIO)));
            }
            Flight::Head => self.head_ended(member, false, done),
            Flight::HeadSync => self.head_ended(member, true, done),
            Flight::Late { token } => {
                let held = self.held.iter_mut().find(|(of, end)| *of == member && end.token == token);
                match held {
                    // Not too late for whoever waits for it.
                    Some((_, end)) => end.lease = done.lease,
                    None if done.lease.is_some() => self.end(token, Ok(0), done.lease),
                    None => {}
                }
            }
        }
    }

    /// Members that owe an answer for too long go.
    fn look(&mut self) {
        let late = |sent: &&Sent| self.now.since(sent.since) >= self.ways.timeout;
        let late: Vec<u16> = self.flights.values().filter(late).map(|sent| sent.member).collect();
        for member in late {
            if !self.standing.is_gone(member) {
                self.leave(member, "it does not answer");
            }
        }
    }
}

impl Backend for Flat {
    fn submit(&mut self, now: Nanos, mut task: Task) {
        self.now = now;
        self.take_files();
        if task.kind == Kind::Sync {
            return self.start_sync(task.token);
        }
        let first = Block(task.offset / BLOCK_BYTES);
        let (disk, block) = self.rows.locate(first);
        let (token, write) = (task.token, task.kind == Kind::Write);
        if self.standing.is_gone(disk.0) {
            let result = if write && !self.standing.is_stopped() {
                Ok(task.len)
            } else {
                Err(io::Error::from_raw_os_error(libc::EIO))
            };
            let waits = result.is_ok() && !self.standing.is_out(disk.0);
            let end = Done { token, result, lease: task.lease };
            return if waits { self.held.push((disk.0, end)) } else { self.ended.push(end) };
        }
        task.offset = self.ways.base + block.0 * BLOCK_BYTES;
        let write = write.then_some(task.len);
        self.send(disk.0, task, Flight::Move { token, write });
    }

    fn launch(&mut self) {
        self.inner.launch();
    }

    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>) {
        self.now = now;
        let mut done = Vec::new();
        self.inner.reap(now, &mut done);
        for done in done {
            self.landed(done);
        }
        self.look();
        self.take_orders();
        self.inner.launch();
        out.append(&mut self.ended);
    }

    fn woken(&mut self) {
        self.inner.woken();
    }

    fn has_ended(&mut self) -> bool {
        !self.ended.is_empty() || self.inner.has_ended()
    }

    fn next_wake(&self) -> Option<Nanos> {
        let at_once = (!self.ended.is_empty()).then_some(self.now);
        let waits = self.flights.values().filter(|sent| !self.standing.is_gone(sent.member));
        let oldest = waits.map(|sent| sent.since).min();
        let late = oldest.map(|since| since + self.ways.timeout).filter(|&at| at > self.now);
        [at_once, self.inner.next_wake(), late].into_iter().flatten().min()
    }

    fn lateness(&self) -> Option<Lateness> {
        self.inner.lateness()
    }

    fn model(&self, member: usize) -> Option<DeviceStats> {
        self.inner.model(member)
    }

    fn changed(&mut self) -> Option<String> {
        self.inner.changed()
    }

    fn forsake(&mut self) {
        self.inner.forsake();
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.inner.poll_fd()
    }
}

#[cfg(test)]
mod tests;
