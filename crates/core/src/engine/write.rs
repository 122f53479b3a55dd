//! Writes and destaging: how an acknowledged write reaches the members, by whole stripes.
//!
//! A write fills cells and marks them dirty; in write-back mode it is acknowledged at once. A destage job takes all
//! dirty blocks of one stripe, pins what it will use (a rewrite meanwhile goes to a new slot and stays dirty), reads
//! what the plan of [`crate::array`] asks for, lets the host combine parity, writes, and only then marks the blocks
//! clean. At most one job works on a stripe, and rebuilding a lost block of that stripe waits for it, so old and new
//! parity never mix. Jobs start with the stripe that was written longest ago (ASP paper section 2.2.1; WOW).

use super::tables::{Command, Owner, Slab};
use super::{Engine, Input, Output};
use crate::access::{Access, Context, Op};
use crate::array::{Content, Source, Stripe, WritePlan};
use crate::cache::{NO_FETCH, State};
use crate::dispatch::Class;
use crate::hash::NumberMap;
use crate::planted::{self, Bug};
use crate::policy::{Event, Lookup};
use crate::slots::Slot;
use crate::units::{Block, Disk, Extent, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Most stripes being destaged at once. 8 keeps every disk of a small array busy.
const JOBS_MAX: usize = 8;

/// Entries of stripes already taken that the list of dirty stripes may hold beside as many as there are dirty ones.
const ORDER_SLACK: usize = 64;

/// When writes reach the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Acknowledged from memory; destaged when too much is dirty or too old.
    Back {
        /// Share of the cache that may be dirty, in percent.
        dirty_percent: u64,
        /// Age at which a dirty stripe is destaged.
        age: Nanos,
    },
    /// Acknowledged when on the members.
    Through,
}

/// Where the bytes of one block of a member command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// A block of the cache.
    Cache(Slot),
    /// Working memory for parity and rebuilding.
    Staging(Slot),
    /// Nobody wants it.
    Discard,
}

/// `target = Σ factor · source` over GF(2^8), one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CombineStep {
    /// Where the sum goes.
    pub target: Option<Buffer>,
    /// Factor and source of each summand; a factor of 1 is an XOR.
    pub terms: Vec<(u8, Buffer)>,
}

#[derive(Debug, Default)]
struct Job {
    stripe: u64,
    /// Dirty blocks taken, with the slots that hold them.
    taken: Vec<(Block, Slot)>,
    /// Slots pinned for the job: those of `taken` and what the plan's terms name.
    pinned: Vec<(Block, Slot)>,
    plan: WritePlan,
    /// Slots of the plan's reads, in its order, then of its parity writes.
    staging: Vec<Slot>,
    commands: Vec<(u32, usize)>,
    left: u32,
    writing: bool,
    failed: bool,
    urgent: bool,
    /// Accesses (number, serial) that wait for what this job takes.
    waiters: Vec<(u32, u64)>,
    steps: Vec<CombineStep>,
}

/// Dirty stripes, jobs, and who waits for them.
#[derive(Debug, Default)]
pub(super) struct Destage {
    jobs: Slab<Job>,
    /// Job of each stripe at work.
    active: NumberMap<u32>,
    /// When each dirty stripe not taken by a job was written last.
    written: NumberMap<Nanos>,
    /// Dirty stripes that nobody has asked for yet, about in the order of writing. Entries of stripes that a job has
    /// taken meanwhile are passed over, and cleared away when they are more than half.
    order: VecDeque<(Nanos, u64)>,
    /// Stripes that should be destaged now.
    pub(super) wanted: VecDeque<(u64, bool)>,
    /// The stripes in `wanted`, for a look-up.
    listed: NumberMap<()>,
    waiting: Vec<(u64, u32, u64)>,
    age: Option<Nanos>,
    /// Stripes of which a lost block is being rebuilt.
    pub(super) rebuilding: Vec<u64>,
    /// Fetches that wait to be rebuilt.
    pub(super) rebuild_queue: VecDeque<u32>,
    /// Acknowledged writes were given up since the last flush: it is the flush that says so.
    lost: bool,
    dirty: Vec<u64>,
    resident: Vec<u64>,
}

impl Destage {
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        let age = self.age?;
        self.order.front().map(|(at, _)| *at + age)
    }
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_empty() && self.wanted.is_empty() && self.rebuild_queue.is_empty()
    }
    pub(super) fn is_active(&self, stripe: u64) -> bool {
        self.active.contains_key(&stripe)
    }
    fn touch(&mut self, now: Nanos, stripe: u64) {
        if self.written.insert(stripe, now).is_some() {
            return;
        }
        self.order.push_back((now, stripe));
        if self.order.len() > 2 * self.written.len() + ORDER_SLACK {
            let written = &self.written;
            self.order.retain(|(_, stripe)| written.contains_key(stripe));
            for entry in &mut self.order {
                entry.0 = written.get(&entry.1).copied().unwrap_or(entry.0);
            }
            self.order.make_contiguous().sort_unstable();
            let mut last = None;
            self.order.retain(|entry| last.replace(*entry) != Some(*entry));
        }
    }
    /// Stripes with dirty blocks that no job has taken, in their own order.
    fn dirty_stripes(&self) -> Vec<u64> {
        let listed = self.order.iter().map(|(_, stripe)| *stripe);
        let mut stripes: Vec<u64> = listed.chain(self.wanted.iter().map(|(stripe, _)| *stripe)).collect();
        stripes.retain(|stripe| self.written.contains_key(stripe));
        stripes.sort_unstable();
        stripes.dedup();
        stripes
    }
    /// The dirty stripe that was written longest ago.
    fn oldest(&mut self) -> Option<u64> {
        while let Some((at, stripe)) = self.order.pop_front() {
            match self.written.get(&stripe) {
                Some(&last) if last > at => self.order.push_back((last, stripe)),
                Some(_) => {
                    self.order.push_front((at, stripe));
                    return Some(stripe);
                }
                None => {}
            }
        }
        None
    }
}

impl Engine {
    pub(super) fn write(&mut self, now: Nanos, id: u64, access: Access, durable: bool) {
        let number = self.admit(now, id, &access);
        self.accesses[number].slots.resize(access.extent.blocks as usize, Slot::NONE);
        self.accesses[number].durable = durable || self.config.write == WriteMode::Through;
        if !self.starved.is_empty() || !self.start_write(now, number) {
            self.stats.starved += 1;
            self.starved.push_back(number);
        }
    }

    /// Takes the blocks of a write into the cache if memory can be had; otherwise changes nothing.
    pub(super) fn start_write(&mut self, now: Nanos, number: u32) -> bool {
        let access = self.accesses[number].access;
        loop {
            let needed = access.extent.iter().filter(|&b| self.needs_slot(b)).count() as u64;
            if self.cache.slots.available() >= needed {
                break;
            }
            if !self.make_room(now, needed) {
                self.destage_more(now);
                return false;
            }
        }
        self.tell(now, &Event::Access(&access, Lookup { outcomes: &[] }));
        // Ahead of every output that reads what it brings: a reader may have waited for one of these blocks.
        self.outputs.push_back(Output::Fill { id: self.accesses[number].id, handle: number });
        let mut line = None;
        for block in access.extent.iter() {
            let slot = self.write_block(block);
            self.hand_over(number, block, slot);
            let id = self.cache.find(block).expect("a written block has a line");
            if line != Some(id) {
                line = Some(id);
                self.scheme.retention().on_insert(id, false, &self.cache);
            }
        }
        self.stats.blocks_written += access.extent.blocks;
        self.mark_dirty(now, number, access.extent);
        self.trim();
        self.fulfil_ahead(now, access.context);
        true
    }

    fn needs_slot(&self, block: Block) -> bool {
        self.cache.find(block).is_none_or(|line| {
            let cell = self.cache.cell(line, block);
            let here = matches!(cell.state, State::Cached | State::Prefetched);
            !here || self.cache.slots.is_pinned(cell.slot)
        })
    }

    /// One block is replaced. In flight: the fetch is stale for it, and whoever waits for it gets the new content.
    fn write_block(&mut self, block: Block) -> Slot {
        let fresh = self.needs_slot(block);
        let (line, _) = self.cache.ensure(block);
        let old = *self.cache.cell(line, block);
        let slot = if fresh { self.cache.slots.take().expect("room was made") } else { old.slot };
        if old.unproven {
            self.waste(block, old.state);
        }
        let (cached, unread) = self.cache.set(line, block, |cell| {
            cell.slot = slot;
            cell.state = State::Cached;
            cell.fetch = NO_FETCH;
            cell.dirty = true;
            cell.mass = false;
            cell.unproven = false;
        });
        self.scheme.retention().on_counts(line, cached, unread);
        match old.state {
            State::FetchDemand | State::FetchPrefetch => self.overtake(old.fetch, block, slot),
            State::Cached | State::Prefetched if fresh => self.cache.slots.disown(old.slot),
            _ => {}
        }
        slot
    }

    /// Readers that wait for a block of a fetch which a write has overtaken get the written content.
    fn overtake(&mut self, fetch: u32, block: Block, slot: Slot) {
        for index in 0..self.fetches[fetch].waiters.len() {
            let waiter = self.fetches[fetch].waiters[index];
            if waiter.extent.contains(block) && self.accesses[waiter.access].serial == waiter.serial {
                self.hand_over(waiter.access, block, slot);
                self.ready_if_complete(waiter.access);
            }
        }
    }

    /// Notes the dirty stripes of a write and acknowledges it, at once or when they are on the members.
    fn mark_dirty(&mut self, now: Nanos, number: u32, extent: Extent) {
        let (first, last) = self.stripes_of(extent);
        for stripe in first..=last {
            self.destage.touch(now, stripe);
        }
        if self.accesses[number].durable {
            let serial = self.accesses[number].serial;
            self.accesses[number].missing = last - first + 1;
            for stripe in first..=last {
                self.destage.waiting.push((stripe, number, serial));
                self.want(now, stripe, true);
            }
        } else {
            self.ready_if_complete(number);
        }
        if let WriteMode::Back { dirty_percent, age } = self.config.write {
            self.destage.age = Some(age);
            if self.cache.dirty_blocks * 100 > self.config.cache_blocks * dirty_percent {
                self.destage_more(now);
            }
        }
    }

    fn stripes_of(&self, extent: Extent) -> (u64, u64) {
        let first = self.array.stripe_of(extent.start).0;
        (first, self.array.stripe_of(Block(extent.end() - 1)).0)
    }

    /// Everything acknowledged so far must reach the members before this is answered.
    pub(super) fn flush(&mut self, now: Nanos, id: u64) {
        let number = self.admit(now, id, &Access::write(Context::default(), Extent::new(0, 1)));
        let serial = self.accesses[number].serial;
        self.accesses[number].access.extent = Extent::default();
        for stripe in self.destage.dirty_stripes() {
            self.destage.waiting.push((stripe, number, serial));
            self.accesses[number].missing += 1;
            self.want(now, stripe, true);
        }
        // Stripes already at work: their job covers what was acknowledged before it began.
        for entry in 0..self.destage.jobs.len() {
            if self.destage.active.get(&self.destage.jobs[entry].stripe) == Some(&entry) {
                let waiter = (number, serial);
                if !self.destage.jobs[entry].waiters.contains(&waiter) {
                    self.destage.jobs[entry].waiters.push(waiter);
                    self.accesses[number].missing += 1;
                }
            }
        }
        self.accesses[number].error |= core::mem::take(&mut self.destage.lost);
        self.accesses[number].missing -= 1; // the block that `admit` counted
        self.ready_if_complete(number);
    }

    /// A line in the way of memory is dirty.
    pub(super) fn destage_line(&mut self, now: Nanos, line: crate::cache::LineId) {
        let extent = self.cache.line_extent(self.cache.line(line).number);
        let (first, last) = self.stripes_of(extent);
        for stripe in first..=last {
            if self.destage.written.contains_key(&stripe) {
                self.want(now, stripe, true);
            }
        }
    }

    /// Destages stripes that are older than the limit.
    pub(super) fn destage_aged(&mut self, now: Nanos) {
        while self.destage.next_wake().is_some_and(|at| at <= now) {
            let Some(stripe) = self.destage.oldest() else { break };
            let last = self.destage.written.get(&stripe).copied().unwrap_or(now);
            if self.destage.age.is_some_and(|age| last + age > now) {
                break;
            }
            self.destage.order.pop_front();
            self.want(now, stripe, false);
        }
    }

    /// Destages the stripes that were written longest ago, as many as may work at once.
    fn destage_more(&mut self, now: Nanos) {
        while self.destage.active.len() + self.destage.wanted.len() < JOBS_MAX {
            let Some(stripe) = self.destage.oldest() else { break };
            self.destage.order.pop_front();
            self.want(now, stripe, true);
        }
    }

    fn want(&mut self, now: Nanos, stripe: u64, urgent: bool) {
        if self.destage.listed.insert(stripe, ()).is_none() {
            self.destage.wanted.push_back((stripe, urgent));
        }
        self.start_jobs(now);
    }

    /// Starts wanted jobs while places and staging memory last.
    pub(super) fn start_jobs(&mut self, now: Nanos) {
        let mut passed = 0;
        while self.destage.active.len() < JOBS_MAX && passed < self.destage.wanted.len() {
            let (stripe, urgent) = self.destage.wanted[passed];
            let busy = self.destage.is_active(stripe) || self.destage.rebuilding.contains(&stripe);
            if busy {
                passed += 1;
                continue;
            }
            // Off the list first: a job may end at once, and then others start from here.
            self.destage.wanted.remove(passed);
            self.destage.listed.remove(&stripe);
            if !self.start_job(now, stripe, urgent) {
                self.destage.wanted.insert(passed, (stripe, urgent));
                self.destage.listed.insert(stripe, ());
                passed += 1;
            }
        }
    }

    /// Takes the dirty blocks of a stripe and begins. False when staging memory is short.
    fn start_job(&mut self, now: Nanos, stripe: u64, urgent: bool) -> bool {
        self.map_stripe(stripe);
        let number = self.destage.jobs.take();
        let planned = {
            let Self { destage, array, failed, .. } = self;
            let plan = &mut destage.jobs[number].plan;
            array.write_plan_into(Stripe(stripe), &destage.dirty, &destage.resident, failed, plan)
        };
        if planned.is_err() {
            // Too many members are lost: nothing can be kept.
            self.destage.jobs.give_back(number);
            self.give_up(stripe);
            return true;
        }
        let plan = &self.destage.jobs[number].plan;
        let parity: u64 =
            plan.writes().iter().filter(|w| is_parity(w.content)).map(|w| w.member.extent.blocks).sum();
        let need = plan.blocks_read() + parity;
        assert!(need <= self.config.staging_blocks, "staging memory holds a stripe's job");
        if self.staging.available() < need {
            self.destage.jobs.give_back(number);
            return false;
        }
        let job = &mut self.destage.jobs[number];
        job.staging.clear();
        job.staging.extend((0..need).map_while(|_| self.staging.take()));
        job.stripe = stripe;
        job.writing = false;
        job.failed = false;
        job.urgent = urgent;
        self.take_dirty(number);
        self.send_job(now, number);
        true
    }

    /// Bitmaps of the stripe's dirty and resident blocks.
    fn map_stripe(&mut self, stripe: u64) {
        let words = self.array.stripe_blocks().div_ceil(64) as usize;
        let mut dirty = core::mem::take(&mut self.destage.dirty);
        let mut resident = core::mem::take(&mut self.destage.resident);
        for map in [&mut dirty, &mut resident] {
            map.clear();
            map.resize(words, 0);
        }
        for (bit, block) in self.array.stripe_extent(Stripe(stripe)).iter().enumerate() {
            let Some(line) = self.cache.find(block) else { continue };
            let cell = self.cache.cell(line, block);
            if matches!(cell.state, State::Cached | State::Prefetched) {
                resident[bit / 64] |= 1 << (bit % 64);
                if cell.dirty {
                    dirty[bit / 64] |= 1 << (bit % 64);
                }
            }
        }
        self.destage.dirty = dirty;
        self.destage.resident = resident;
    }

    /// Pins the stripe's resident blocks for the job, and moves those who wait for the stripe to it.
    fn take_dirty(&mut self, number: u32) {
        let stripe = self.destage.jobs[number].stripe;
        let mut pinned = core::mem::take(&mut self.destage.jobs[number].pinned);
        let mut taken = core::mem::take(&mut self.destage.jobs[number].taken);
        pinned.clear();
        taken.clear();
        for block in self.array.stripe_extent(Stripe(stripe)).iter() {
            let Some(line) = self.cache.find(block) else { continue };
            let cell = *self.cache.cell(line, block);
            if matches!(cell.state, State::Cached | State::Prefetched) {
                self.cache.slots.pin(cell.slot);
                pinned.push((block, cell.slot));
                if cell.dirty {
                    taken.push((block, cell.slot));
                }
            }
        }
        let destage = &mut self.destage;
        destage.written.remove(&stripe);
        destage.active.insert(stripe, number);
        let job = &mut destage.jobs[number];
        job.pinned = pinned;
        job.taken = taken;
        job.waiters.clear();
        let waiters = &mut job.waiters;
        destage.waiting.retain(|&(s, access, serial)| {
            if s == stripe {
                waiters.push((access, serial));
            }
            s != stripe
        });
    }

    /// Sends the reads of a job, or its writes once nothing is left to read.
    fn send_job(&mut self, now: Nanos, number: u32) {
        let job = &mut self.destage.jobs[number];
        job.commands.clear();
        let reads = if job.writing { 0 } else { job.plan.reads().len() };
        if reads > 0 {
            for index in 0..reads {
                let member = self.destage.jobs[number].plan.reads()[index];
                self.stats.member_blocks_read_for_writes += member.extent.blocks;
                self.send_member(now, number, index, member.disk, member.extent, Op::Read);
            }
            return;
        }
        self.make_steps(number);
        self.destage.jobs[number].writing = true;
        if planted::is(Bug::CleanEarly) {
            self.clean_taken(number);
        }
        if !self.destage.jobs[number].steps.is_empty() {
            self.outputs.push_back(Output::Combine { job: number });
        }
        for index in 0..self.destage.jobs[number].plan.writes().len() {
            let write = self.destage.jobs[number].plan.writes()[index];
            let member = write.member;
            let modifies = !self.destage.jobs[number].plan.reads().is_empty();
            if planted::is(Bug::SkipParity) && modifies && is_parity(write.content) {
                continue;
            }
            self.stats.member_blocks_written += member.extent.blocks;
            self.send_member(now, number, index, member.disk, member.extent, Op::Write);
        }
        if self.destage.jobs[number].left == 0 {
            self.finish_job(now, number);
        }
    }

    fn send_member(&mut self, now: Nanos, job: u32, index: usize, disk: Disk, extent: Extent, op: Op) {
        let class = if self.destage.jobs[job].urgent { Class::Urgent } else { Class::Background };
        let owner = Owner::Destage(job);
        let context = Context::default();
        let command = Command { owner, disk, extent, op, class, context, ..Command::default() };
        let number = self.enqueue(now, command);
        self.destage.jobs[job].commands.push((number, index));
        self.destage.jobs[job].left += 1;
    }

    /// Turns the plan's sums into sums of buffers, block by block.
    fn make_steps(&mut self, number: u32) {
        let mut steps = core::mem::take(&mut self.destage.jobs[number].steps);
        steps.clear();
        let job = &self.destage.jobs[number];
        for step in job.plan.steps() {
            for k in 0..step.blocks {
                let terms = job.plan.terms(step.terms).iter().map(|term| {
                    let source = match term.source {
                        Source::Read { disk, start } => job.read_buffer(disk, start.plus(k)),
                        Source::Memory(block) => job.memory_buffer(block.plus(k)),
                    };
                    (term.factor, source)
                });
                let target = Some(job.parity_buffer(step.disk, step.start.plus(k)));
                steps.push(CombineStep { target, terms: terms.collect() });
            }
        }
        self.destage.jobs[number].steps = steps;
    }

    /// A command of a job has ended.
    pub(super) fn destage_done(&mut self, now: Nanos, number: u32, command: u32, good: bool) {
        if !good {
            let disk = self.commands[command].disk;
            // Where the others cannot stand in for it, to take the member out would only refuse what it may still do.
            if self.array.redundancy() > 0 {
                self.failed.insert(disk);
            }
            self.destage.jobs[number].failed = true;
        }
        self.destage.jobs[number].left -= 1;
        if self.destage.jobs[number].left > 0 {
            return;
        }
        if self.destage.jobs[number].failed && self.array.redundancy() == 0 {
            self.abandon_job(now, number);
        } else if self.destage.jobs[number].failed {
            self.restart_job(now, number);
        } else if self.destage.jobs[number].writing {
            self.finish_job(now, number);
        } else {
            self.destage.jobs[number].writing = true;
            self.send_job(now, number);
        }
    }

    /// A member failed under the job: its blocks are dirty as before, and it is planned again without the member.
    fn restart_job(&mut self, now: Nanos, number: u32) {
        let stripe = self.destage.jobs[number].stripe;
        let waiters = core::mem::take(&mut self.destage.jobs[number].waiters);
        self.destage.waiting.extend(waiters.iter().map(|&(access, serial)| (stripe, access, serial)));
        self.leave_job(number);
        self.destage.touch(now, stripe);
        self.want(now, stripe, true);
    }

    /// A write of the job failed and no other member can make up for it: those who wait for this job get an error, or else
    /// the next flush. What the member holds there now only the member knows, so the blocks leave.
    fn abandon_job(&mut self, now: Nanos, number: u32) {
        self.destage.lost = true;
        self.clean_taken(number);
        for index in 0..self.destage.jobs[number].taken.len() {
            let (block, slot) = self.destage.jobs[number].taken[index];
            if self.cache.find(block).is_some_and(|line| self.cache.cell(line, block).slot == slot) {
                self.drop_block(block);
            }
        }
        let waiters = core::mem::take(&mut self.destage.jobs[number].waiters);
        self.leave_job(number);
        for &(access, serial) in &waiters {
            if self.accesses[access].serial == serial {
                self.accesses[access].error = true;
                self.accesses[access].missing -= 1;
                self.ready_if_complete(access);
            }
        }
        self.destage.jobs[number].waiters = waiters;
        self.start_jobs(now);
        self.retry_rebuilds(now);
    }

    /// A clean block leaves, and its line if it was the last.
    fn drop_block(&mut self, block: Block) {
        if let Some(line) = self.cache.find(block) {
            self.empty_cell(line, block);
            if self.cache.line(line).is_hollow() {
                self.hollow(line);
            }
        }
    }

    /// The stripe is on the members: what was not rewritten meanwhile is clean.
    fn finish_job(&mut self, now: Nanos, number: u32) {
        self.clean_taken(number);
        let extent = self.array.stripe_extent(Stripe(self.destage.jobs[number].stripe));
        let waiters = core::mem::take(&mut self.destage.jobs[number].waiters);
        self.leave_job(number);
        for &(access, serial) in &waiters {
            if self.accesses[access].serial == serial {
                self.accesses[access].missing -= 1;
                self.ready_if_complete(access);
            }
        }
        self.destage.jobs[number].waiters = waiters;
        if !self.config.retain {
            self.drop_unpinned(extent);
        }
        if let WriteMode::Back { dirty_percent, .. } = self.config.write
            && (self.cache.dirty_blocks * 100 > self.config.cache_blocks * dirty_percent
                || !self.starved.is_empty())
        {
            self.destage_more(now);
        }
        self.start_jobs(now);
        self.retry_rebuilds(now);
    }

    /// What a job has taken is clean, but for what was rewritten meanwhile (into another slot).
    fn clean_taken(&mut self, number: u32) {
        for index in 0..self.destage.jobs[number].taken.len() {
            let (block, slot) = self.destage.jobs[number].taken[index];
            let Some(line) = self.cache.find(block) else { continue };
            if self.cache.cell(line, block).slot == slot {
                self.cache.set(line, block, |cell| cell.dirty = false);
            }
        }
    }

    fn leave_job(&mut self, number: u32) {
        let pinned = core::mem::take(&mut self.destage.jobs[number].pinned);
        for &(_, slot) in &pinned {
            self.cache.slots.unpin(slot);
        }
        self.destage.jobs[number].pinned = pinned;
        for index in 0..self.destage.jobs[number].staging.len() {
            self.staging.disown(self.destage.jobs[number].staging[index]);
        }
        self.destage.jobs[number].staging.clear();
        self.destage.active.remove(&self.destage.jobs[number].stripe);
        self.destage.jobs.give_back(number);
    }

    /// More members are lost than the array can bear: those who wait get an error, and if nobody waits the next flush
    /// does. The blocks leave: a read must not be told now what no member will say later.
    fn give_up(&mut self, stripe: u64) {
        self.destage.written.remove(&stripe);
        self.destage.lost = true;
        for block in self.array.stripe_extent(Stripe(stripe)).iter() {
            if let Some(line) = self.cache.find(block).filter(|&line| self.cache.cell(line, block).dirty) {
                self.cache.set(line, block, |cell| cell.dirty = false);
                self.drop_block(block);
            }
        }
        let mut waiting = core::mem::take(&mut self.destage.waiting);
        waiting.retain(|&(s, access, serial)| {
            if s == stripe && self.accesses[access].serial == serial {
                self.accesses[access].error = true;
                self.accesses[access].missing -= 1;
                self.ready_if_complete(access);
            }
            s != stripe
        });
        self.destage.waiting = waiting;
    }

    /// The sums of a job or of a rebuilt fetch, valid until the next input.
    #[must_use]
    pub fn combine_steps(&self, job: u32) -> &[CombineStep] {
        if job & REBUILD_JOB != 0 {
            &self.fetches[job & !REBUILD_JOB].steps
        } else {
            &self.destage.jobs[job].steps
        }
    }

    /// Where the bytes of each block of a member command are, in block order.
    pub fn buffers(&self, command: u32, out: &mut Vec<Buffer>) {
        out.clear();
        let info = &self.commands[command];
        match info.owner {
            Owner::Fetch(fetch, offset) => {
                let slots = &self.fetches[fetch].slots[offset as usize..];
                let buffer = |s: &Slot| if s.is_some() { Buffer::Cache(*s) } else { Buffer::Discard };
                out.extend(slots.iter().take(info.extent.blocks as usize).map(buffer));
            }
            Owner::Staged(fetch) => {
                let fetch = &self.fetches[fetch];
                let find = |b: Block| fetch.staged(info.disk, b);
                out.extend(info.extent.iter().map(find));
            }
            Owner::Destage(job) => {
                let job = &self.destage.jobs[job];
                if info.op == Op::Read {
                    out.extend(info.extent.iter().map(|b| job.read_buffer(info.disk, b)));
                } else {
                    out.extend(info.extent.iter().map(|b| job.write_buffer(info.disk, b)));
                }
            }
        }
    }
}

/// Marks the job number of a rebuilt fetch in [`Output::Combine`].
pub(super) const REBUILD_JOB: u32 = 1 << 31;

const fn is_parity(content: Content) -> bool {
    matches!(content, Content::P | Content::Q)
}

impl Job {
    /// Staging slot of a block that the plan reads.
    fn read_buffer(&self, disk: Disk, start: Block) -> Buffer {
        let (index, within) = self.plan.find_read(disk, start).expect("a plan reads what its terms name");
        let before: u64 = self.plan.reads()[..index].iter().map(|read| read.extent.blocks).sum();
        Buffer::Staging(self.staging[(before + within) as usize])
    }
    fn memory_buffer(&self, block: Block) -> Buffer {
        let at = self.pinned.binary_search_by_key(&block, |(b, _)| *b).expect("terms in memory are pinned");
        Buffer::Cache(self.pinned[at].1)
    }
    /// Staging slot of a block of new parity: behind those of the reads.
    fn parity_buffer(&self, disk: Disk, start: Block) -> Buffer {
        let (index, within) = self.plan.find_write(disk, start).expect("a plan writes the parity it makes");
        let parity = self.plan.writes()[..index].iter().filter(|w| is_parity(w.content));
        let before: u64 = self.plan.blocks_read() + parity.map(|w| w.member.extent.blocks).sum::<u64>();
        Buffer::Staging(self.staging[(before + within) as usize])
    }
    fn write_buffer(&self, disk: Disk, start: Block) -> Buffer {
        let (index, within) =
            self.plan.find_write(disk, start).expect("a command writes what the plan writes");
        match self.plan.writes()[index].content {
            Content::Data(first) => self.memory_buffer(first.plus(within)),
            Content::P | Content::Q => self.parity_buffer(disk, start),
        }
    }
}

/// A shorthand for hosts and tests: a member has failed.
#[must_use]
pub const fn member_failed(disk: Disk) -> Input {
    Input::Member { disk, failed: true }
}

#[cfg(test)]
mod tests;
