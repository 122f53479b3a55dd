//! Dirty stripes, the jobs that bring them to the members, and the working memory for parity and rebuilding.
//!
//! A destage job takes all dirty blocks of one stripe, pins what it will use (a rewrite meanwhile goes to a new slot and stays dirty), reads
//! what the plan of [`crate::array`] asks for, lets the host combine parity, writes, and only then are the blocks clean. At most one job
//! works on a stripe, and rebuilding a lost block of that stripe waits for it, so old and new parity never mix. When jobs begin and who is
//! answered is decided in `write.rs`; here is what is true of each stripe, and it is returned as values.

use super::accesses::Waiter;
use super::buffer::{Buffer, CombineStep};
use super::memory::Memory;
use super::slab::Slab;
use crate::access::Op;
use crate::array::{Array, Content, DiskSet, MemberExtent, Source, Stripe, WritePlan};
use crate::dispatch::Class;
use crate::hash::NumberMap;
use crate::planted::{self, Bug};
use crate::slots::{Slot, Slots};
use crate::units::{Block, Disk, Extent, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Most stripes being destaged at once. 8 keeps every disk of a small array busy.
pub(super) const JOBS_MAX: usize = 8;

/// Entries of stripes already taken that the list of dirty stripes may hold beside as many as there are dirty ones.
const ORDER_SLACK: usize = 64;

/// What a job is doing. When the last command of a phase has ended, the next begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Brings what parity is computed from.
    #[default]
    Reading,
    /// Sends data and parity; then the blocks are clean.
    Writing,
    /// A command did not end well: the rest is awaited, and then the job is given up or planned anew.
    Failing,
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
    /// Commands that have not ended.
    left: u32,
    phase: Phase,
    urgent: bool,
    /// Accesses that wait for what this job takes.
    waiters: Vec<Waiter>,
    steps: Vec<CombineStep>,
}

/// How the beginning of a job went.
pub(super) enum Begun {
    /// It has this number.
    Job(u32),
    /// Working memory is short now.
    Short,
    /// Too many members are lost: nothing can be kept.
    Lost,
}

/// What the end of a command means for its job.
pub(super) enum Ended {
    /// Others have not ended.
    Waits,
    /// What parity is computed from is here.
    Read,
    /// The stripe is on the members.
    Written,
    /// A member did not do its part.
    Failed,
}

/// Dirty stripes, jobs, and who waits for them.
#[derive(Debug)]
pub(super) struct Destager {
    jobs: Slab<Job>,
    /// Job of each stripe at work.
    active: NumberMap<u32>,
    /// When each dirty stripe not taken by a job was written last.
    written: NumberMap<Nanos>,
    /// The blocks between which all of such a stripe lie that are dirty.
    spans: NumberMap<(Block, Block)>,
    /// Dirty stripes that nobody has asked for yet, about in the order of writing. Entries of stripes that a job has
    /// taken meanwhile are passed over, and cleared away when they are more than half.
    order: VecDeque<(Nanos, u64)>,
    /// Stripes that should be destaged now, and whether urgently.
    wanted: VecDeque<(u64, bool)>,
    /// The stripes in `wanted`, for a look-up.
    listed: NumberMap<()>,
    waiting: Vec<(u64, Waiter)>,
    age: Option<Nanos>,
    /// Stripes of which a lost block is being rebuilt.
    rebuilding: Vec<u64>,
    /// Fetches that wait to be rebuilt.
    rebuild_queue: VecDeque<u32>,
    /// Acknowledged writes were given up since the last flush: it is the flush that says so.
    lost: bool,
    staging: Slots,
    dirty: Vec<u64>,
    resident: Vec<u64>,
}

impl Destager {
    /// With so many blocks of working memory; dirty stripes are aged when they have not been written for `age`.
    pub(super) fn new(staging_blocks: u64, age: Option<Nanos>) -> Self {
        Self {
            jobs: Slab::default(),
            active: NumberMap::default(),
            written: NumberMap::default(),
            spans: NumberMap::default(),
            order: VecDeque::new(),
            wanted: VecDeque::new(),
            listed: NumberMap::default(),
            waiting: Vec::new(),
            age,
            rebuilding: Vec::new(),
            rebuild_queue: VecDeque::new(),
            lost: false,
            staging: Slots::new(staging_blocks),
            dirty: Vec::new(),
            resident: Vec::new(),
        }
    }
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        let age = self.age?;
        self.order.front().map(|(at, _)| *at + age)
    }
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_empty() && self.wanted.is_empty() && self.rebuild_queue.is_empty()
    }
    pub(super) const fn staging(&self) -> &Slots {
        &self.staging
    }

    // Dirty stripes.

    /// Blocks of a stripe were written, from `first` to `last`.
    pub(super) fn touch(&mut self, now: Nanos, stripe: u64, first: Block, last: Block) {
        let span = self.spans.get(&stripe).copied().unwrap_or((first, last));
        self.spans.insert(stripe, (span.0.min(first), span.1.max(last)));
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
    /// Whether a stripe has dirty blocks that no job has taken.
    pub(super) fn is_dirty(&self, stripe: u64) -> bool {
        self.written.contains_key(&stripe)
    }
    /// Stripes with dirty blocks that no job has taken, in their own order.
    pub(super) fn dirty_stripes(&self) -> Vec<u64> {
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
    /// Takes the dirty stripe that was written longest ago off the order, if jobs have a place for it.
    pub(super) fn take_oldest(&mut self) -> Option<u64> {
        if self.active.len() + self.wanted.len() >= JOBS_MAX {
            return None;
        }
        let stripe = self.oldest()?;
        self.order.pop_front();
        Some(stripe)
    }
    /// The same of the stripes that are older than the limit.
    pub(super) fn take_aged(&mut self, now: Nanos) -> Option<u64> {
        self.next_wake().filter(|&at| at <= now)?;
        let stripe = self.oldest()?;
        let last = self.written.get(&stripe).copied().unwrap_or(now);
        if self.age.is_some_and(|age| last + age > now) {
            return None;
        }
        self.order.pop_front();
        Some(stripe)
    }
    /// An access waits until a stripe is on the members.
    pub(super) fn wait(&mut self, stripe: u64, waiter: Waiter) {
        self.waiting.push((stripe, waiter));
    }
    /// An access waits for every job at work: it covers what was acknowledged before the job began. Returns how many.
    pub(super) fn wait_for_jobs(&mut self, waiter: Waiter) -> u64 {
        let mut joined = 0;
        for number in 0..self.jobs.len() {
            let job = &mut self.jobs[number];
            if self.active.get(&job.stripe) == Some(&number) && !job.waiters.contains(&waiter) {
                job.waiters.push(waiter);
                joined += 1;
            }
        }
        joined
    }
    /// Whether writes were given up that nobody waited for; says so once.
    pub(super) fn take_lost(&mut self) -> bool {
        core::mem::take(&mut self.lost)
    }

    // Jobs.

    /// A stripe should be destaged now.
    pub(super) fn list(&mut self, stripe: u64, urgent: bool) {
        if self.listed.insert(stripe, ()).is_none() {
            self.wanted.push_back((stripe, urgent));
        }
    }
    pub(super) fn has_listed(&self) -> bool {
        !self.wanted.is_empty()
    }
    /// Takes the next listed stripe off the list that may begin now, behind the first `passed`; those that may not are passed too. Off the list
    /// first: a job may end at once, and then others are asked for before this one is done with.
    pub(super) fn next_listed(&mut self, passed: &mut usize) -> Option<(u64, bool)> {
        while self.active.len() < JOBS_MAX && *passed < self.wanted.len() {
            let (stripe, urgent) = self.wanted[*passed];
            if self.active.contains_key(&stripe) || self.rebuilding.contains(&stripe) {
                *passed += 1;
                continue;
            }
            self.wanted.remove(*passed);
            self.listed.remove(&stripe);
            return Some((stripe, urgent));
        }
        None
    }
    /// A stripe could not begin: it stays where it was.
    pub(super) fn put_back(&mut self, passed: &mut usize, stripe: u64, urgent: bool) {
        self.wanted.insert(*passed, (stripe, urgent));
        self.listed.insert(stripe, ());
        *passed += 1;
    }

    /// Takes the dirty blocks of a stripe.
    pub(super) fn begin(
        &mut self,
        (stripe, urgent): (u64, bool),
        array: &Array,
        failed: &DiskSet,
        memory: &mut Memory,
    ) -> Begun {
        let extent = array.stripe_extent(Stripe(stripe));
        for map in [&mut self.dirty, &mut self.resident] {
            map.clear();
            map.resize(array.stripe_blocks().div_ceil(64) as usize, 0);
        }
        // Where nothing is computed from the rest of the stripe, only what may be dirty is looked at: a stripe may be wide.
        let span = self.spans.get(&stripe).filter(|_| array.redundancy() == 0);
        let look = span.map_or(extent, |&(first, last)| Extent::new(first.0, last.0 + 1 - first.0));
        memory.map(look, look.start.0 - extent.start.0, &mut self.dirty, &mut self.resident);
        let number = self.jobs.take();
        let job = &mut self.jobs[number];
        if array.write_plan_into(Stripe(stripe), &self.dirty, &self.resident, failed, &mut job.plan).is_err()
        {
            self.jobs.give_back(number);
            return Begun::Lost;
        }
        let parity = job.plan.writes().iter().filter(|w| is_parity(w.content));
        let need = job.plan.blocks_read() + parity.map(|w| w.member.extent.blocks).sum::<u64>();
        assert!(need <= self.staging.capacity(), "staging memory holds a stripe's job");
        if self.staging.available() < need {
            self.jobs.give_back(number);
            return Begun::Short;
        }
        job.staging.clear();
        job.staging.extend((0..need).map_while(|_| self.staging.take()));
        (job.stripe, job.phase, job.urgent) = (stripe, Phase::Reading, urgent);
        job.pinned.clear();
        job.taken.clear();
        memory.pin_stripe(look, &mut job.pinned, &mut job.taken);
        job.waiters.clear();
        let waiters = &mut job.waiters;
        self.waiting.retain(|&(of, waiter)| {
            if of == stripe {
                waiters.push(waiter);
            }
            of != stripe
        });
        self.written.remove(&stripe);
        self.spans.remove(&stripe);
        self.active.insert(stripe, number);
        Begun::Job(number)
    }

    /// Whether a job has to read before it writes, and has not.
    pub(super) fn reads_first(&self, job: u32) -> bool {
        let job = &self.jobs[job];
        job.phase == Phase::Reading && !job.plan.reads().is_empty()
    }
    /// A job writes now: makes its sums. Returns whether there are any.
    pub(super) fn begin_writing(&mut self, number: u32) -> bool {
        self.make_steps(number);
        let job = &mut self.jobs[number];
        job.phase = Phase::Writing;
        !job.steps.is_empty()
    }
    /// The commands of a job's reads or writes, one by one; none behind the last. A command counts as sent.
    pub(super) fn send(&mut self, number: u32, op: Op, index: &mut usize) -> Option<(MemberExtent, Class)> {
        let job = &mut self.jobs[number];
        let member = loop {
            let at = *index;
            *index += 1;
            match op {
                Op::Read => break *job.plan.reads().get(at)?,
                Op::Write => {
                    let write = job.plan.writes().get(at)?;
                    let modifies = !job.plan.reads().is_empty();
                    if !(planted::is(Bug::SkipParity) && modifies && is_parity(write.content)) {
                        break write.member;
                    }
                }
            }
        };
        job.left += 1;
        Some((member, if job.urgent { Class::Urgent } else { Class::Background }))
    }
    /// Whether nothing that a job has sent is under way.
    pub(super) fn has_ended(&self, job: u32) -> bool {
        self.jobs[job].left == 0
    }
    /// A command of a job has ended.
    pub(super) fn ended(&mut self, job: u32, good: bool) -> Ended {
        let job = &mut self.jobs[job];
        job.left -= 1;
        if !good {
            job.phase = Phase::Failing;
        }
        if job.left > 0 {
            return Ended::Waits;
        }
        match job.phase {
            Phase::Failing => Ended::Failed,
            Phase::Writing => Ended::Written,
            Phase::Reading => {
                job.phase = Phase::Writing;
                Ended::Read
            }
        }
    }
    pub(super) fn stripe(&self, job: u32) -> u64 {
        self.jobs[job].stripe
    }
    /// What a job has taken is clean, but for what was rewritten meanwhile (into another slot).
    pub(super) fn clean(&self, job: u32, memory: &mut Memory) {
        for &(block, slot) in &self.jobs[job].taken {
            memory.clean(block, slot);
        }
    }
    /// A write of a job failed and nobody can make up for it. What the member holds there now only the member knows, so the blocks leave.
    pub(super) fn abandon(&mut self, job: u32, memory: &mut Memory) {
        self.lost = true;
        self.clean(job, memory);
        for &(block, slot) in &self.jobs[job].taken {
            memory.drop_slot(block, slot);
        }
    }
    /// A member failed under a job: it ends, and those who wait for it wait for its stripe again.
    pub(super) fn restart(&mut self, now: Nanos, job: u32, memory: &mut Memory) -> u64 {
        let stripe = self.jobs[job].stripe;
        let blocks = || self.jobs[job].taken.iter().map(|&(block, _)| block);
        let span = blocks().min().zip(blocks().max());
        let waiters = self.leave(job, memory);
        self.waiting.extend(waiters.into_iter().map(|waiter| (stripe, waiter)));
        let (first, last) = span.expect("a job has taken what is dirty");
        self.touch(now, stripe, first, last);
        stripe
    }
    /// A job is over: gives back what it holds. Returns who waits for it.
    pub(super) fn leave(&mut self, number: u32, memory: &mut Memory) -> Vec<Waiter> {
        let job = &mut self.jobs[number];
        for &(_, slot) in &job.pinned {
            memory.unpin(slot);
        }
        for slot in job.staging.drain(..) {
            self.staging.disown(slot);
        }
        self.active.remove(&job.stripe);
        let waiters = core::mem::take(&mut job.waiters);
        self.jobs.give_back(number);
        waiters
    }
    /// A stripe cannot be kept: nobody wants it any more. Returns who waits for it.
    pub(super) fn give_up(&mut self, stripe: u64) -> Vec<Waiter> {
        self.written.remove(&stripe);
        self.spans.remove(&stripe);
        self.lost = true;
        let mut waiters = Vec::new();
        self.waiting.retain(|&(of, waiter)| {
            if of == stripe {
                waiters.push(waiter);
            }
            of != stripe
        });
        waiters
    }

    // Rebuilding.

    /// Begins to rebuild in a stripe with `need` blocks of working memory. False while a job works there or memory is short.
    pub(super) fn begin_rebuild(&mut self, stripe: u64, need: u64, staging: &mut Vec<Slot>) -> bool {
        assert!(need <= self.staging.capacity(), "staging memory holds a rebuild");
        if self.staging.available() < need {
            return false;
        }
        staging.clear();
        staging.extend((0..need).map_while(|_| self.staging.take()));
        self.rebuilding.push(stripe);
        true
    }
    pub(super) fn end_rebuild(&mut self, stripe: u64, staging: &mut Vec<Slot>) {
        for slot in staging.drain(..) {
            self.staging.disown(slot);
        }
        if let Some(at) = self.rebuilding.iter().position(|&of| of == stripe) {
            self.rebuilding.swap_remove(at);
        }
    }
    pub(super) fn is_active(&self, stripe: u64) -> bool {
        self.active.contains_key(&stripe)
    }
    /// A fetch waits to be rebuilt.
    pub(super) fn queue_rebuild(&mut self, fetch: u32) {
        self.rebuild_queue.push_back(fetch);
    }
    pub(super) fn rebuilds_queued(&self) -> usize {
        self.rebuild_queue.len()
    }
    pub(super) fn next_rebuild(&mut self) -> Option<u32> {
        self.rebuild_queue.pop_front()
    }

    // Buffers.

    /// Turns the plan's sums into sums of buffers, block by block.
    fn make_steps(&mut self, number: u32) {
        let mut steps = core::mem::take(&mut self.jobs[number].steps);
        steps.clear();
        let job = &self.jobs[number];
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
        self.jobs[number].steps = steps;
    }
    /// The sums of a job.
    pub(super) fn steps(&self, job: u32) -> &[CombineStep] {
        &self.jobs[job].steps
    }
    /// Where the bytes of a command of a job are.
    pub(super) fn buffers(&self, job: u32, op: Op, member: MemberExtent) -> impl Iterator<Item = Buffer> {
        let job = &self.jobs[job];
        member.extent.iter().map(move |block| match op {
            Op::Read => job.read_buffer(member.disk, block),
            Op::Write => job.write_buffer(member.disk, block),
        })
    }
}

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
