//! Writes: the blocks of one stripe that change, with the parity that goes with them, as one record.
//!
//! What is to be read for that the geometry says ([`forerun_core::array::WritePlan`]): old data and old parity, or the rest of the rows. Where a member
//! fails such a read, the whole stripe is read round it, and parity made anew of all.

use super::{Operation, Parts, Raid, blank, eio, sums};
use crate::back::Group;
use crate::back::format::EXTENTS_MAX;
use crate::backend::{Task, Token};
use crate::planted::{self, Bug};
use crate::sealed::Page;
use forerun_core::array::{Content, DiskSet, ReadPlan, Source, Stripe, WritePlan};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent};
use std::collections::BTreeMap;
use std::io;

/// Writes to a stripe, under way.
pub(super) struct Update {
    stripe: Stripe,
    tasks: Vec<Task>,
    plan: WritePlan,
    /// Instead, all of the stripe is read.
    whole: Option<ReadPlan>,
    /// Blocks of the array that are in memory: what is to be written, and what the stripe holds beside it.
    memory: BTreeMap<u64, Box<Page>>,
    dirty: Vec<u64>,
    pub(super) parts: Parts,
}

fn set(bits: &mut [u64], at: u64) {
    bits[(at / 64) as usize] |= 1 << (at % 64);
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
        let planned = self.array.write_plan_into(stripe, &dirty, &none, &self.standing.out(), &mut plan);
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
        let update = Update { stripe, tasks: own, plan, whole: None, memory, dirty, parts };
        self.operations.insert(number, Operation::Update(update));
        reads.iter().for_each(|read| self.send_part(number, read.disk, read.extent));
        if reads.is_empty() {
            self.update_on(number);
        }
        left
    }

    /// All that an update waits for is here, or cannot be had.
    pub(super) fn update_on(&mut self, number: u32) {
        let Some(Operation::Update(mut update)) = self.operations.remove(&number) else { return };
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
            let out = self.standing.out();
            let (stripe, dirty) = (update.stripe, &update.dirty);
            if self.array.write_plan_into(stripe, dirty, &resident, &out, &mut update.plan).is_err() {
                return self.finish_update(update, Err(eio()));
            }
        }
        let parts = self.group_of(&mut update);
        self.give(std::mem::take(&mut update.parts.got).into_values());
        let below = self.number();
        let sent =
            super::Sent { what: super::What::Group(number), disk: None, start: Block(0), blocks: Vec::new() };
        self.sent.insert(below, sent);
        self.operations.insert(number, Operation::Update(update));
        self.sums.updates += 1;
        self.back.group(self.now, Group { token: Token::Command(below), parts });
    }

    /// Whether a member is out that the plan writes to.
    fn is_planned_for_others(&self, update: &Update) -> bool {
        let out = self.standing.out();
        update.whole.is_none() && update.plan.writes().iter().any(|write| out.contains(write.member.disk))
    }

    /// The stripe is read as a whole, round the members that have failed.
    fn read_whole(&mut self, number: u32, mut update: Update) {
        self.give(std::mem::take(&mut update.parts.got).into_values());
        update.parts.failed = false;
        let not: DiskSet = self.not_read(&update.parts.avoid);
        let extent: Extent = self.array.stripe_extent(update.stripe);
        match self.array.read_plan(extent, &not) {
            Ok(plan) if plan.blocks() <= self.free.len() as u64 && self.may_write() => {
                let reads = plan.reads().to_vec();
                update.whole = Some(plan);
                self.operations.insert(number, Operation::Update(update));
                reads.iter().for_each(|read| self.send_part(number, read.disk, read.extent));
            }
            // Not now: as if they had just come.
            Ok(_) => {
                self.busy.remove(&update.stripe.0);
                self.waiting.extend(update.tasks);
            }
            Err(_) => self.finish_update(update, Err(eio())),
        }
    }

    /// The places that an update changes, and what they will hold.
    fn group_of(&self, update: &mut Update) -> Vec<(u64, Vec<Box<Page>>)> {
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
        let strip = self.rows.strip_blocks();
        let mut parts: Vec<(u64, Vec<Box<Page>>)> = Vec::new();
        for write in update.plan.writes() {
            let (disk, extent) = (write.member.disk, write.member.extent);
            if planted::is(Bug::ParityUnwritten) && !matches!(write.content, Content::Data(_)) {
                continue;
            }
            for (at, block) in (0..).zip(extent.iter()) {
                let page = match write.content {
                    Content::Data(first) => update.memory[&(first.0 + at)].clone(),
                    Content::P | Content::Q => parity[&(disk, block.0)].clone(),
                };
                let place = self.place(disk, block);
                match parts.last_mut() {
                    Some((first, pages))
                        if at > 0 && block.0 % strip > 0 && *first + pages.len() as u64 == place =>
                    {
                        pages.push(page);
                    }
                    _ => parts.push((place, vec![page])),
                }
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
