//! Writes: the blocks of one stripe that change, with the parity that goes with them, as one record.
//!
//! What is to be read for that the geometry says ([`forerun_core::array::WritePlan`]): old data and old parity, or the rest of the rows. Where a member
//! fails such a read, the whole stripe is read round it, and parity made anew of all.
//!
//! What goes over all stripes ([`super::work`]) reads them so from the first, and then writes one member's places alone, or none.

use super::{Operation, Parts, Raid, blank, eio, sums};
use crate::back::Group;
use crate::back::format::EXTENTS_MAX;
use crate::backend::{Task, Token, Zeroes};
use crate::planted::{self, Bug};
use crate::sealed::Page;
use forerun_core::array::{Content, DiskSet, ReadPlan, Source, Stripe, WritePlan};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent};
use std::collections::BTreeMap;
use std::io;

/// What a stripe is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// Writes of the volume.
    Write,
    /// All that this member lacks of it.
    Rebuild(Disk),
    /// To see whether all members hold what they should.
    Compare,
}

/// What members ought to hold of a stripe.
pub(super) type Places = BTreeMap<(Disk, Block), Box<Page>>;

/// Why a stripe of work that goes over all of them is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Something came between.
    Later,
    /// Nothing is written now.
    Refused,
    /// It cannot be read.
    Unread,
}

/// What was found where members were compared.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Blocks that were compared.
    pub(super) blocks: u64,
    /// Those that are something else than they ought to be.
    pub(super) differ: Vec<(Disk, Block)>,
    /// A member could not read its part.
    pub(super) unread: bool,
    /// Blocks that were written anew.
    pub(super) mended: u64,
}

/// Writes to a stripe, under way.
pub(super) struct Update {
    stripe: Stripe,
    goal: Goal,
    /// Number of the work that goes over all stripes, where this is of one.
    work: u32,
    /// What members ought to hold, where that is read and compared.
    ought: Option<Places>,
    seen: Seen,
    tasks: Vec<Task>,
    plan: WritePlan,
    /// Instead, all of the stripe is read.
    whole: Option<ReadPlan>,
    /// Blocks of the array that are in memory: what is to be written, and what the stripe holds beside it.
    memory: BTreeMap<u64, Box<Page>>,
    dirty: Vec<u64>,
    /// Whoever writes needs no room for zeros.
    hollow: bool,
    pub(super) parts: Parts,
}

fn set(bits: &mut [u64], at: u64) {
    bits[(at / 64) as usize] |= 1 << (at % 64);
}

impl Update {
    /// For a stripe that is read as a whole, of so many blocks, of which as many are there.
    pub(super) fn whole(
        (stripe, work): (Stripe, u32),
        plan: ReadPlan,
        goal: Goal,
        blocks: u64,
        inside: u64,
    ) -> Self {
        let mut dirty = vec![0; blocks.div_ceil(64) as usize];
        (0..inside).for_each(|at| set(&mut dirty, at));
        Self {
            stripe,
            goal,
            work,
            ought: None,
            seen: Seen::default(),
            tasks: Vec::new(),
            plan: WritePlan::new(),
            whole: Some(plan),
            memory: BTreeMap::new(),
            dirty,
            hollow: false,
            parts: Parts::default(),
        }
    }
}

impl Raid {
    /// Writes to a stripe begin, as many as are one record; those that do not come back.
    pub(super) fn begin_update(&mut self, stripe: Stripe, tasks: Vec<Task>) -> Vec<Task> {
        // Each run makes as many extents as there are copies, or parity beside it.
        let most = EXTENTS_MAX / usize::from(self.array.copies_per_block().max(3));
        let (mut own, mut left) = (Vec::<Task>::new(), Vec::new());
        for task in tasks {
            let extent = Self::extent(&task);
            let over = own.iter().any(|other| !Self::extent(other).intersect(extent).is_empty());
            if over || own.len() >= most { left.push(task) } else { own.push(task) }
        }
        let words = self.array.stripe_blocks().div_ceil(64) as usize;
        let (mut dirty, mut memory) = (vec![0; words], BTreeMap::new());
        let first = self.array.stripe_extent(stripe).start.0;
        for task in &own {
            let Some(lease) = &task.lease else { continue };
            for (at, block) in (0..).zip(Self::extent(task).iter()) {
                let mut page = blank();
                lease.copy_to(at * BLOCK_BYTES, &mut page[..]);
                memory.insert(block.0, page);
                set(&mut dirty, block.0 - first);
            }
        }
        let mut plan = WritePlan::new();
        let none = vec![0; words];
        let planned = self.array.write_plan_into(stripe, &dirty, &none, &self.not_written(stripe), &mut plan);
        if planned.is_err() {
            own.into_iter().for_each(|task| self.end(task.token, Err(eio()), task.lease));
            return left;
        }
        let reads = plan.reads().to_vec();
        let blocks: u64 = reads.iter().map(|read| read.extent.blocks).sum();
        if blocks > self.free.len() as u64 {
            own.append(&mut left);
            return own;
        }
        let number = self.number();
        self.busy.insert(stripe.0, number);
        let parts = Parts::default();
        let (goal, seen) = (Goal::Write, Seen::default());
        let hollow = own.iter().all(|task| task.zeroes == Some(Zeroes::Hole));
        let update = Update {
            stripe,
            goal,
            work: 0,
            ought: None,
            seen,
            tasks: own,
            plan,
            whole: None,
            memory,
            dirty,
            hollow,
            parts,
        };
        self.operations.insert(number, Operation::Update(update));
        reads.iter().for_each(|read| self.send_part(number, read.disk, read.extent));
        if reads.is_empty() {
            self.update_on(number);
        }
        left
    }

    /// The members that are not written to in a stripe.
    fn not_written(&self, stripe: Stripe) -> DiskSet {
        if planted::is(Bug::RebuildUnwritten) {
            return self.standing.lacking(u64::MAX - 1, false);
        }
        self.standing.lacking(stripe.0, false)
    }

    /// All that an update waits for is here, or cannot be had.
    pub(super) fn update_on(&mut self, number: u32) {
        let Some(Operation::Update(mut update)) = self.operations.remove(&number) else { return };
        if update.ought.is_some() {
            return self.compare(number, update);
        }
        // Who is in may have changed while it was read: what is written is planned for those who are.
        if update.parts.failed || !self.may_write() || self.is_planned_for_others(&update) {
            return self.read_whole(number, update);
        }
        if let Some(whole) = &update.whole {
            let pages = self.pages(whole, &update.parts);
            let extent = self.array.stripe_extent(update.stripe);
            for (block, page) in (extent.start.0..).zip(pages) {
                update.memory.entry(block).or_insert(page);
            }
            let words = update.dirty.len();
            let mut resident = vec![0; words];
            (0..extent.blocks).for_each(|at| set(&mut resident, at));
            let mut out = self.not_written(update.stripe);
            if let Goal::Rebuild(disk) = update.goal {
                out.remove(disk);
            }
            let (stripe, dirty) = (update.stripe, &update.dirty);
            if self.array.write_plan_into(stripe, dirty, &resident, &out, &mut update.plan).is_err() {
                return self.finish_update(update, Err(eio()));
            }
        }
        if update.goal == Goal::Compare {
            return self.read_to_compare(number, update);
        }
        let places = self.places_of(&update);
        self.give(std::mem::take(&mut update.parts.got).into_values());
        self.write(number, update, places);
    }

    /// The places that change are one record.
    fn write(&mut self, number: u32, update: Update, places: Vec<(Disk, Block, Box<Page>)>) {
        if places.is_empty() {
            return self.finish_update(update, Ok(0));
        }
        let (parts, hollow) = (self.runs(places), update.hollow);
        let below = self.number();
        let sent =
            super::Sent { what: super::What::Group(number), disk: None, start: Block(0), blocks: Vec::new() };
        self.sent.insert(below, sent);
        self.operations.insert(number, Operation::Update(update));
        self.sums.updates += 1;
        self.back.group(self.now, Group { token: Token::Command(below), parts, hollow });
    }

    /// Whether a member is out that the plan writes to.
    fn is_planned_for_others(&self, update: &Update) -> bool {
        let out = self.not_written(update.stripe);
        update.whole.is_none() && update.plan.writes().iter().any(|write| out.contains(write.member.disk))
    }

    /// The stripe is read as a whole, round the members that have failed.
    fn read_whole(&mut self, number: u32, mut update: Update) {
        self.give(std::mem::take(&mut update.parts.got).into_values());
        update.parts.failed = false;
        let not: DiskSet = self.not_read(update.stripe, &update.parts.avoid);
        let extent: Extent = self.array.stripe_extent(update.stripe);
        match self.array.read_plan(extent, &not) {
            Ok(plan) if plan.blocks() <= self.free.len() as u64 && self.may_write() => {
                let reads = plan.reads().to_vec();
                update.whole = Some(plan);
                self.operations.insert(number, Operation::Update(update));
                reads.iter().for_each(|read| self.send_part(number, read.disk, read.extent));
            }
            Ok(_) if update.goal != Goal::Write => self.finish_work(update, Err(Ended::Later)),
            // Not now: as if they had just come.
            Ok(_) => {
                self.busy.remove(&update.stripe.0);
                self.waiting.extend(update.tasks);
            }
            Err(_) if update.goal != Goal::Write => self.finish_work(update, Err(Ended::Unread)),
            Err(_) => self.finish_update(update, Err(eio())),
        }
    }

    /// What members ought to hold is known: what they hold is read.
    fn read_to_compare(&mut self, number: u32, mut update: Update) {
        let ought = self.places_of(&update).into_iter().map(|(disk, block, page)| ((disk, block), page));
        update.ought = Some(ought.collect());
        self.give(std::mem::take(&mut update.parts.got).into_values());
        let writes = update.plan.writes().iter().filter(|write| self.is_compared(write.content));
        let reads: Vec<_> = writes.map(|write| write.member).collect();
        let blocks: u64 = reads.iter().map(|read| read.extent.blocks).sum();
        if blocks > self.free.len() as u64 {
            return self.finish_work(update, Err(Ended::Later));
        }
        self.operations.insert(number, Operation::Update(update));
        reads.iter().for_each(|read| self.send_part(number, read.disk, read.extent));
        if reads.is_empty() {
            self.update_on(number);
        }
    }

    /// What members hold is known, too. If it is to agree, whoever differs or cannot read its part gets all of that anew.
    fn compare(&mut self, number: u32, mut update: Update) {
        // Nobody has failed a read where somebody has gone.
        if update.parts.failed && (update.parts.avoid.is_empty() || !self.may_write()) {
            return self.finish_work(update, Err(Ended::Later));
        }
        let ought = update.ought.take().unwrap_or_default();
        let differ = self.differ(&ought, &update.parts.got);
        let unread = !update.parts.avoid.is_empty();
        self.give(std::mem::take(&mut update.parts.got).into_values());
        let bad: DiskSet = differ.iter().map(|(disk, _)| *disk).chain(update.parts.avoid.iter()).collect();
        let anew = ought.iter().filter(|((disk, _), _)| self.mends() && bad.contains(*disk));
        let anew: Vec<_> = anew.map(|(&(disk, block), page)| (disk, block, page.clone())).collect();
        update.seen = Seen { blocks: ought.len() as u64, differ, unread, mended: anew.len() as u64 };
        self.write(number, update, anew);
    }

    /// A stripe of what goes over all of them has ended.
    fn finish_work(&mut self, update: Update, ended: Result<(), Ended>) {
        let Update { stripe, goal, work, parts, seen, .. } = update;
        self.give(parts.got.into_values());
        self.busy.remove(&stripe.0);
        self.stripe_ended((stripe, work), goal, seen, ended);
    }

    /// The places that an update changes, and what they will hold.
    fn places_of(&self, update: &Update) -> Vec<(Disk, Block, Box<Page>)> {
        let mut parity: BTreeMap<(Disk, u64), Box<Page>> = BTreeMap::new();
        for step in update.plan.steps() {
            for at in 0..step.blocks {
                let mut page = blank();
                for term in update.plan.terms(step.terms) {
                    let from = match term.source {
                        Source::Read { disk, start } => self.page(update.parts.got[&(disk, start.plus(at))]),
                        Source::Memory(block) => &update.memory[&(block.0 + at)][..],
                    };
                    sums::add(&mut page[..], from, term.factor);
                }
                parity.insert((step.disk, step.start.0 + at), page);
            }
        }
        let mut places = Vec::new();
        for write in update.plan.writes() {
            let (disk, extent) = (write.member.disk, write.member.extent);
            let other = matches!(update.goal, Goal::Rebuild(one) if one != disk);
            if other || (planted::is(Bug::ParityUnwritten) && !matches!(write.content, Content::Data(_))) {
                continue;
            }
            for (at, block) in (0..).zip(extent.iter()) {
                let page = match write.content {
                    Content::Data(first) => update.memory[&(first.0 + at)].clone(),
                    Content::P | Content::Q => parity[&(disk, block.0)].clone(),
                };
                places.push((disk, block, page));
            }
        }
        places
    }

    /// Places in runs that lie beside each other.
    fn runs(&self, places: Vec<(Disk, Block, Box<Page>)>) -> Vec<(u64, Vec<Box<Page>>)> {
        let strip = self.rows.strip_blocks();
        let mut parts: Vec<(u64, Vec<Box<Page>>)> = Vec::new();
        for (disk, block, page) in places {
            let place = self.place(disk, block);
            match parts.last_mut() {
                Some((first, pages)) if block.0 % strip > 0 && *first + pages.len() as u64 == place => {
                    pages.push(page);
                }
                _ => parts.push((place, vec![page])),
            }
        }
        parts
    }

    /// The record of an update stands, or does not.
    pub(super) fn group_ended(&mut self, number: u32, result: io::Result<u64>) {
        let Some(Operation::Update(update)) = self.operations.remove(&number) else { return };
        self.finish_update(update, result);
    }

    fn finish_update(&mut self, update: Update, result: io::Result<u64>) {
        if update.goal != Goal::Write {
            return self.finish_work(update, result.map(drop).map_err(|_| Ended::Refused));
        }
        let Update { stripe, tasks, parts, .. } = update;
        self.give(parts.got.into_values());
        self.busy.remove(&stripe.0);
        let code = result.err().map(|problem| problem.raw_os_error().unwrap_or(libc::EIO));
        for task in tasks {
            let result = code.map_or(Ok(task.len), |code| Err(io::Error::from_raw_os_error(code)));
            self.end(task.token, result, task.lease);
        }
    }
}
