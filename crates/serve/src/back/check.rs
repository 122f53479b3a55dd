//! Checkpoints: what the journal holds goes home, stripe by stripe, and its room becomes free.
//!
//! One at a time, each for the records up to one. It begins when half of the ring or of the memory is used, when the oldest record is
//! too old, or when everything is to go home. Stripes go in the device's order, each with all its blocks that may go, so that an
//! array below sees whole stripes where there are any, and a disk short ways where there are none.

use super::format::BLOCK;
use super::held::State;
use super::{Flight, RETRY, WriteBack};
use crate::backend::{Done, Kind};
use crate::planted::{self, Bug};
use forerun_core::array::{Array, Stripe};
use forerun_core::units::{Block, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Stripes that go home at once, where they are parts: their blocks lie anywhere, and a disk with many of them at hand goes short ways. A
/// whole stripe goes alone: it has work for all disks, and of several the disks take parts out of their order.
const JOBS: usize = 64;
/// Most blocks of one write home: what one transfer takes.
const RUN_MAX: usize = 1024;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The journal keeps what goes home: it waits for its turn there, or is under way.
    Keep,
    /// Stripes go home.
    Home,
    /// The device is synced.
    Device,
    /// The journal is: what replaces older records must be kept before those are given up.
    Replaced,
    /// The superblock with the new tail is written.
    Super,
}

/// A checkpoint.
#[derive(Debug)]
pub(super) struct Check {
    /// The last record that it is for.
    upto: u64,
    step: Step,
    /// Its part of the journal's work is under way.
    logging: bool,
    /// Stripes that have not begun.
    todo: BTreeSet<u64>,
    /// Writes under way, by stripe.
    jobs: BTreeMap<u64, u32>,
    /// Whole stripes of them.
    wholes: u32,
}

/// Whether a write of so many blocks is a whole stripe of several disks, or the most of it that is one write.
fn is_whole(array: &Array, blocks: usize) -> bool {
    let stripe = array.stripe_blocks() as usize;
    array.strip_blocks() < array.stripe_blocks() && blocks >= stripe.min(RUN_MAX)
}

impl WriteBack {
    /// When a checkpoint is to begin, or to go on, although nothing happens.
    pub(super) fn next_check(&self) -> Option<Nanos> {
        if self.broken {
            return None;
        }
        match (&self.check, self.stuck) {
            (Some(_), stuck) => stuck.map(|(_, at)| at),
            (None, _) if !self.log.is_idle() => None,
            (None, _) => self.log.made.front().map(|(_, made)| *made + self.limits.age),
        }
    }

    fn is_due(&self) -> bool {
        let half = self.ring.is_half_full() || self.slots.free() * 2 < self.slots.all();
        let old = self.log.made.front().is_some_and(|(_, made)| *made + self.limits.age <= self.now);
        let full = self.is_full() || self.ring.room(1 + self.log.batch_blocks() as u64).is_none();
        !self.broken && !self.ring.is_empty() && (half || full || old || self.leaving)
    }

    /// Whether the checkpoint takes the journal now.
    pub(super) fn check_uses_log(&mut self) -> bool {
        let Some(check) = &mut self.check else { return false };
        if check.logging {
            return false;
        }
        match check.step {
            Step::Keep | Step::Replaced => {
                check.logging = true;
                self.sync_log();
            }
            Step::Super => {
                check.logging = true;
                self.about.tail = self.ring.behind(check.upto);
                self.about.prints = self.prints;
                self.say_epoch();
                self.write_super();
            }
            Step::Home | Step::Device => return false,
        }
        true
    }

    /// Begins a checkpoint that is due, and lets stripes go home.
    pub(super) fn check_on(&mut self) {
        if self.check.is_none() && self.is_due() && self.log.is_idle() {
            let (todo, jobs) = (BTreeSet::new(), BTreeMap::new());
            let upto = self.ring.next() - 1;
            self.check = Some(Check { upto, step: Step::Keep, logging: false, todo, jobs, wholes: 0 });
        }
        if self.stuck.is_some_and(|(_, at)| at > self.now) {
            return;
        }
        loop {
            let Some(check) = self.check.as_mut().filter(|check| check.step == Step::Home) else { return };
            if check.jobs.len() >= JOBS || check.wholes > 0 {
                return;
            }
            // A stripe of which a write has failed is to go again, but not beside another write of it: the older could end last.
            let twice = planted::is(Bug::StripeTwice);
            let Check { todo, jobs, .. } = check;
            let next = todo.iter().copied().find(|stripe| twice || !jobs.contains_key(stripe));
            let Some(stripe) = next else { break };
            check.todo.remove(&stripe);
            self.bring_home(stripe);
        }
        let Some(check) = self.check.as_mut() else { return };
        if check.jobs.is_empty() && check.todo.is_empty() {
            self.home();
        }
    }

    /// All stripes are home.
    fn home(&mut self) {
        if self.broken {
            self.check = None;
            return;
        }
        let Some(check) = self.check.as_mut() else { return };
        if planted::is(Bug::TailBeforeDevice) {
            check.step = Step::Replaced;
            return;
        }
        check.step = Step::Device;
        self.send(Kind::Sync, (0, 0), None, Flight::Check);
    }

    /// A stripe's blocks go home, as far as the journal keeps them.
    fn bring_home(&mut self, stripe: u64) {
        let extent = self.array.stripe_extent(Stripe(stripe));
        let keeps = if planted::is(Bug::HomeBeforeJournal) { u64::MAX } else { self.log.synced };
        let dirty = self.held.dirty(extent.start.0, extent.end(), keeps);
        let array = self.array;
        let strip = if self.by_strip { array.strip_blocks() } else { u64::MAX };
        let hollow: BTreeSet<u32> =
            dirty.iter().map(|(_, slot)| *slot).filter(|&slot| self.slots.is_hollow(slot)).collect();
        let together = |one: &(u64, u32), next: &(u64, u32)| {
            let alike = hollow.contains(&one.1) == hollow.contains(&next.1);
            one.0 + 1 == next.0 && !next.0.is_multiple_of(strip) && alike
        };
        for run in dirty.chunk_by(together).flat_map(|run| run.chunks(RUN_MAX)) {
            for &(block, slot) in run {
                self.held.go(block, slot, State::Flying);
                self.slots.pin(slot);
            }
            let lease = self.slots.lend(run.iter().map(|(_, slot)| *slot));
            let offset = run[0].0 * BLOCK as u64;
            let len = self.inside(offset, lease.bytes());
            if let Some(check) = &mut self.check {
                *check.jobs.entry(stripe).or_default() += 1;
                check.wholes += u32::from(is_whole(&array, run.len()));
            }
            let flight = Flight::Home { stripe, blocks: run.to_vec(), hollow: hollow.contains(&run[0].1) };
            self.send(Kind::Write, (offset, len), Some(lease), flight);
        }
    }

    /// Blocks of a stripe are home, or not.
    pub(super) fn home_ended(&mut self, number: u32, stripe: u64, blocks: &[(u64, u32)], done: Done) {
        self.wrote = true;
        let offset = blocks[0].0 * BLOCK as u64;
        let len = self.inside(offset, (blocks.len() * BLOCK) as u64);
        let free = done.lease.is_some();
        match done.lease {
            Some(lease) => self.slots.take_back(lease),
            // Whoever has it may answer for ever never: nobody else uses that memory before.
            None => drop(self.kept.insert(number, blocks.iter().map(|(_, slot)| *slot).collect())),
        }
        let short = || io::Error::other("only a part was written");
        let result = done.result.and_then(|moved| if moved < len { Err(short()) } else { Ok(()) });
        let good = result.is_ok() || planted::is(Bug::HomeUnread);
        self.mark(blocks, if good { State::Written } else { State::Dirty }, free);
        match result {
            Ok(()) => {
                self.stuck = None;
                self.sums.home += len;
                self.sums.home_writes += 1;
            }
            Err(problem) => self.sticks(&problem),
        }
        let array = self.array;
        let Some(check) = &mut self.check else { return };
        check.wholes -= u32::from(is_whole(&array, blocks.len()));
        if !good {
            check.todo.insert(stripe);
        }
        if let Some(left) = check.jobs.get_mut(&stripe) {
            *left -= 1;
            if *left == 0 {
                check.jobs.remove(&stripe);
            }
        }
    }

    /// The device refuses what is to go home.
    fn sticks(&mut self, problem: &io::Error) {
        if self.stuck.is_none() {
            self.said.push(format!(
                "write-back: writing the device: {problem}; writes are refused until it takes what the journal holds, which is tried \
                 every {} s",
                RETRY.0 / 1_000_000_000
            ));
        }
        self.stuck = Some((problem.raw_os_error().unwrap_or(libc::EIO), self.now + RETRY));
    }

    /// The device was synced for the checkpoint.
    pub(super) fn device_synced(&mut self, result: io::Result<()>) {
        if let Err(problem) = &result {
            self.fail("a sync of the device", problem);
        }
        if self.broken {
            self.check = None;
            return;
        }
        let Some(check) = &mut self.check else { return };
        check.step = if planted::is(Bug::TailBeforeJournal) { Step::Super } else { Step::Replaced };
        check.logging = false;
    }

    /// The journal has done the checkpoint's part.
    pub(super) fn checked(&mut self, result: io::Result<()>) {
        if let Err(problem) = &result {
            self.fail("writing the journal", problem);
        }
        if self.broken {
            self.check = None;
            return;
        }
        let array = self.array;
        let Some(check) = &mut self.check else { return };
        check.logging = false;
        match check.step {
            Step::Keep => {
                let stripe = |block| array.stripe_of(Block(block)).0;
                check.todo = self.held.stripes(check.upto, stripe);
                check.step = Step::Home;
            }
            Step::Replaced => check.step = Step::Super,
            Step::Home | Step::Device => unreachable!("the journal has no part in these"),
            Step::Super => {
                self.make_room();
                self.check = None;
            }
        }
    }

    /// What the superblock's tail has passed is nobody's any more.
    pub(super) fn make_room(&mut self) {
        let tail = self.about.tail;
        self.ring.free_to(tail);
        for slot in self.held.forget(tail.seq - 1) {
            self.slots.give(slot);
        }
        while self.log.made.front().is_some_and(|(seq, _)| *seq < tail.seq) {
            self.log.made.pop_front();
        }
    }
}
