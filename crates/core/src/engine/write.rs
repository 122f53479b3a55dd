//! Writes: how one is taken into the cache, acknowledged, and brought to the members by whole stripes.
//!
//! A write fills cells and marks them dirty; in write-back mode it is acknowledged at once. What is too old, too much or waited for is
//! destaged (`destage.rs`), those stripes first that were written longest ago (ASP paper section 2.2.1; WOW).

use super::accesses::Waiter;
use super::buffer::{Buffer, CombineStep};
use super::commands::{Command, Owner};
use super::config::WriteMode;
use super::destage::{Begun, Ended};
use super::memory::Written;
use super::messages::Output;
use super::parts::Parts;
use crate::access::{Access, Context, Op};
use crate::array::{MemberExtent, Stripe};
use crate::planted::{self, Bug};
use crate::policy::{Event, Lookup};
use crate::slots::Slot;
use crate::units::{Block, Disk, Extent, Nanos};
use alloc::vec::Vec;

impl Parts {
    pub(super) fn write(&mut self, now: Nanos, id: u64, access: Access, durable: bool) {
        let number = self.admit(id, &access, durable || self.config.write == WriteMode::Through);
        if self.accesses.is_any_starved() || !self.start_write(now, number) {
            self.starve(number);
        }
    }

    /// Takes the blocks of a write into the cache if memory can be had; otherwise changes nothing.
    pub(super) fn start_write(&mut self, now: Nanos, number: u32) -> bool {
        let access = *self.accesses.access(number);
        loop {
            let needed = self.memory.needed(access.extent);
            if self.memory.available() >= needed {
                break;
            }
            if !self.make_room(now, needed) {
                self.destage_more(now);
                return false;
            }
        }
        self.tell(now, &Event::Access(&access, Lookup { outcomes: &[] }));
        // Ahead of every output that reads what it brings: a reader may have waited for one of these blocks.
        self.outputs.push_back(Output::Fill { id: self.accesses.id(number), handle: number });
        let mut line = None;
        for block in access.extent.iter() {
            let Written { line: id, slot, overtaken } = self.memory.write(block);
            if let Some(fetch) = overtaken {
                self.overtake(fetch, block, slot);
            }
            self.hand_over(number, block, slot);
            if line != Some(id) {
                line = Some(id);
                self.memory.insert(id, false);
            }
        }
        self.memory.stats.blocks_written += access.extent.blocks;
        self.mark_dirty(now, number, access.extent);
        self.memory.trim();
        self.fulfil_ahead(now, access.context);
        true
    }

    /// Readers that wait for a block of a fetch which a write has overtaken get the written content.
    fn overtake(&mut self, fetch: u32, block: Block, slot: Slot) {
        let mut index = 0;
        while let Some((waiter, extent)) = self.fetches.waiter_at(fetch, index) {
            index += 1;
            if extent.contains(block) && self.accesses.is_waiting(waiter) {
                self.hand_over(waiter.access, block, slot);
                self.ready_if_complete(waiter.access);
            }
        }
    }

    /// Notes the dirty stripes of a write and acknowledges it, at once or when they are on the members.
    fn mark_dirty(&mut self, now: Nanos, number: u32, extent: Extent) {
        let (first, last) = self.stripes_of(extent);
        for stripe in first..=last {
            let part = self.array.stripe_extent(Stripe(stripe)).intersect(extent);
            self.destager.touch(now, stripe, part.start, Block(part.end() - 1));
        }
        if self.accesses.is_durable(number) {
            let waiter = self.accesses.waiter(number);
            self.accesses.expect(number, last - first + 1);
            for stripe in first..=last {
                self.destager.wait(stripe, waiter);
                self.want(now, stripe, true);
            }
        } else {
            self.ready_if_complete(number);
        }
        if self.is_too_dirty() {
            self.destage_more(now);
        }
    }

    /// More of the cache is dirty than may be.
    fn is_too_dirty(&self) -> bool {
        let WriteMode::Back { dirty_percent, .. } = self.config.write else { return false };
        self.cache().dirty_blocks * 100 > self.config.cache_blocks * dirty_percent
    }

    fn stripes_of(&self, extent: Extent) -> (u64, u64) {
        let first = self.array.stripe_of(extent.start).0;
        (first, self.array.stripe_of(Block(extent.end() - 1)).0)
    }

    /// Everything acknowledged so far must reach the members before this is answered.
    pub(super) fn flush(&mut self, now: Nanos, id: u64) {
        let number = self.accesses.admit_flush(id);
        let waiter = self.accesses.waiter(number);
        for stripe in self.destager.dirty_stripes() {
            self.destager.wait(stripe, waiter);
            self.accesses.expect(number, 1);
            self.want(now, stripe, true);
        }
        // Stripes already at work: their job covers what was acknowledged before it began.
        let jobs = self.destager.wait_for_jobs(waiter);
        self.accesses.expect(number, jobs);
        self.accesses.blame(number, self.destager.take_lost());
        self.accesses.got(number); // the list of what it waits for
        self.ready_if_complete(number);
    }

    /// A line in the way of memory is dirty.
    pub(super) fn destage_line(&mut self, now: Nanos, line: crate::cache::LineId) {
        let cache = self.cache();
        let extent = cache.line_extent(cache.line(line).number);
        let (first, last) = self.stripes_of(extent);
        for stripe in first..=last {
            if self.destager.is_dirty(stripe) {
                self.want(now, stripe, true);
            }
        }
    }

    /// Destages stripes that are older than the limit.
    pub(super) fn destage_aged(&mut self, now: Nanos) {
        while let Some(stripe) = self.destager.take_aged(now) {
            self.want(now, stripe, false);
        }
    }

    /// Destages the stripes that were written longest ago, as many as may work at once.
    fn destage_more(&mut self, now: Nanos) {
        while let Some(stripe) = self.destager.take_oldest() {
            self.want(now, stripe, true);
        }
    }

    fn want(&mut self, now: Nanos, stripe: u64, urgent: bool) {
        self.destager.list(stripe, urgent);
        self.start_jobs(now);
    }

    /// Starts wanted jobs while places and staging memory last.
    pub(super) fn start_jobs(&mut self, now: Nanos) {
        let mut passed = 0;
        while let Some((stripe, urgent)) = self.destager.next_listed(&mut passed) {
            match self.destager.begin((stripe, urgent), &self.array, &self.failed, &mut self.memory) {
                Begun::Job(number) => self.send_job(now, number),
                Begun::Short => self.destager.put_back(&mut passed, stripe, urgent),
                Begun::Lost => self.give_up(stripe),
            }
        }
    }

    /// Sends the reads of a job, or its writes once nothing is left to read.
    fn send_job(&mut self, now: Nanos, number: u32) {
        if self.destager.reads_first(number) {
            self.memory.stats.member_blocks_read_for_writes += self.send_members(now, number, Op::Read);
            return;
        }
        let sums = self.destager.begin_writing(number);
        if planted::is(Bug::CleanEarly) {
            self.destager.clean(number, &mut self.memory);
        }
        if sums {
            self.outputs.push_back(Output::Combine { job: number });
        }
        self.memory.stats.member_blocks_written += self.send_members(now, number, Op::Write);
        if self.destager.has_ended(number) {
            self.finish_job(now, number);
        }
    }

    /// Sends the reads or the writes of a job. Returns how many blocks they move.
    fn send_members(&mut self, now: Nanos, job: u32, op: Op) -> u64 {
        let (mut index, mut blocks) = (0, 0);
        while let Some((MemberExtent { disk, extent }, class)) = self.destager.send(job, op, &mut index) {
            let (owner, context, volume) = (Owner::Destage(job), Context::default(), Extent::default());
            let command = Command {
                owner,
                disk,
                extent,
                demand: extent,
                volume,
                op,
                class,
                context,
                read_ahead: false,
            };
            self.commands.enqueue(now, command, &mut self.memory);
            blocks += extent.blocks;
        }
        blocks
    }

    /// A command of a job has ended.
    pub(super) fn destage_done(&mut self, now: Nanos, number: u32, disk: Disk, good: bool) {
        let redundant = self.array.redundancy() > 0;
        // Where the others cannot stand in for it, to take the member out would only refuse what it may still do.
        if !good && redundant {
            self.failed.insert(disk);
        }
        match self.destager.ended(number, good) {
            Ended::Waits => {}
            Ended::Read => self.send_job(now, number),
            Ended::Written => self.finish_job(now, number),
            // The blocks are dirty as before, and it is planned again without the member.
            Ended::Failed if redundant => {
                let stripe = self.destager.restart(now, number, &mut self.memory);
                self.want(now, stripe, true);
            }
            Ended::Failed => self.abandon_job(now, number),
        }
    }

    /// A write of the job failed and no other member can make up for it: those who wait for this job get an error, or else
    /// the next flush.
    fn abandon_job(&mut self, now: Nanos, number: u32) {
        self.destager.abandon(number, &mut self.memory);
        let waiters = self.destager.leave(number, &mut self.memory);
        self.answer_written(&waiters, true);
        self.start_jobs(now);
        self.retry_rebuilds(now);
    }

    /// A stripe that these wait for is on the members, or never will be.
    fn answer_written(&mut self, waiters: &[Waiter], failed: bool) {
        for &waiter in waiters {
            if self.accesses.is_waiting(waiter) {
                self.accesses.blame(waiter.access, failed);
                self.accesses.got(waiter.access);
                self.ready_if_complete(waiter.access);
            }
        }
    }

    /// The stripe is on the members: what was not rewritten meanwhile is clean.
    fn finish_job(&mut self, now: Nanos, number: u32) {
        self.destager.clean(number, &mut self.memory);
        let extent = self.array.stripe_extent(Stripe(self.destager.stripe(number)));
        let waiters = self.destager.leave(number, &mut self.memory);
        self.answer_written(&waiters, false);
        if !self.config.retain {
            self.memory.drop_unpinned(extent);
        }
        let short = matches!(self.config.write, WriteMode::Back { .. }) && self.accesses.is_any_starved();
        if short || self.is_too_dirty() {
            self.destage_more(now);
        }
        self.start_jobs(now);
        self.retry_rebuilds(now);
    }

    /// More members are lost than the array can bear: those who wait get an error, and if nobody waits the next flush
    /// does. The blocks leave: a read must not be told now what no member will say later.
    fn give_up(&mut self, stripe: u64) {
        let waiters = self.destager.give_up(stripe);
        self.memory.give_up(self.array.stripe_extent(Stripe(stripe)));
        self.answer_written(&waiters, true);
    }

    /// The sums of a job or of a rebuilt fetch, valid until the next input.
    #[must_use]
    pub fn combine_steps(&self, job: u32) -> &[CombineStep] {
        if job & REBUILD_JOB != 0 { self.fetches.steps(job & !REBUILD_JOB) } else { self.destager.steps(job) }
    }

    /// Where the bytes of each block of a member command are, in block order.
    pub fn buffers(&self, command: u32, out: &mut Vec<Buffer>) {
        out.clear();
        let command = self.commands.command(command);
        match command.owner {
            Owner::Fetch(_) | Owner::Staged(_) => self.fetches.buffers(command, out),
            Owner::Destage(job) => {
                let member = MemberExtent { disk: command.disk, extent: command.extent };
                out.extend(self.destager.buffers(job, command.op, member));
            }
        }
    }
}

/// Marks the job number of a rebuilt fetch in [`Output::Combine`].
pub(super) const REBUILD_JOB: u32 = 1 << 31;

#[cfg(test)]
mod tests;
