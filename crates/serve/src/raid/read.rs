//! Reads: from the member that has a block, or summed up from those that are left.

use super::{Operation, Parts, Raid, blank, eio, sums};
use crate::backend::Task;
use crate::sealed::Page;
use forerun_core::array::{DiskSet, Origin, ReadPlan, Source, Stripe};
use forerun_core::units::{BLOCK_BYTES, Extent};

/// A read of the volume.
pub(super) struct Read {
    task: Option<Task>,
    extent: Extent,
    stripe: Stripe,
    plan: ReadPlan,
    /// It sums up, and holds its stripe for that.
    holds: bool,
    pub(super) parts: Parts,
}

/// Whether a plan needs other blocks than those that are asked for.
fn is_summed(plan: &ReadPlan) -> bool {
    plan.pieces().iter().any(|piece| matches!(piece.origin, Origin::Sum(_)))
}

impl Raid {
    /// The members that are not read in a stripe: those that have nothing of it, and others.
    pub(super) fn not_read(&self, stripe: Stripe, others: &DiskSet) -> DiskSet {
        self.standing.lacking(stripe.0, true).iter().chain(others.iter()).collect()
    }

    /// A read begins, unless it has to wait: then it comes back.
    pub(super) fn begin_read(&mut self, task: Task, extent: Extent, stripe: Stripe) -> Option<Task> {
        let Ok(plan) = self.array.read_plan(extent, &self.not_read(stripe, &DiskSet::EMPTY)) else {
            self.end(task.token, Err(eio()), task.lease);
            return None;
        };
        let holds = is_summed(&plan);
        if (holds && self.is_busy(stripe)) || plan.blocks() > self.free.len() as u64 {
            return Some(task);
        }
        let number = self.number();
        if holds {
            self.busy.insert(stripe.0, number);
        }
        let read = Read { task: Some(task), extent, stripe, plan, holds, parts: Parts::default() };
        self.operations.insert(number, Operation::Read(read));
        self.send_read(number);
        None
    }

    fn send_read(&mut self, number: u32) {
        let Some(Operation::Read(read)) = self.operations.get(&number) else { return };
        let reads = read.plan.reads().to_vec();
        for member in reads {
            self.send_part(number, member.disk, member.extent);
        }
    }

    /// Reads blocks of a member for an operation.
    pub(super) fn send_part(&mut self, number: u32, disk: forerun_core::units::Disk, extent: Extent) {
        let strip = self.rows.strip_blocks();
        let mut at = extent.start.0;
        while at < extent.end() {
            let many = (extent.end() - at).min(strip - at % strip);
            let awaited = (disk, forerun_core::units::Block(at));
            match self.operations.get_mut(&number) {
                Some(Operation::Read(read)) => read.parts.awaited.push(awaited),
                Some(Operation::Update(update)) => update.parts.awaited.push(awaited),
                None => return,
            }
            self.read_member(number, disk, Extent::new(at, many));
            at += many;
        }
    }

    /// All that a read waits for is here, or cannot be had.
    pub(super) fn read_on(&mut self, number: u32) {
        let Some(Operation::Read(mut read)) = self.operations.remove(&number) else { return };
        if !read.parts.failed {
            if read.holds {
                self.sums.rebuilt_reads += 1;
            }
            let pages = self.pages(&read.plan, &read.parts);
            self.finish_read(read, Some(pages));
            return;
        }
        // In another way, if there is one: all of it anew, since what was read before and what comes may be of two times.
        let got = std::mem::take(&mut read.parts.got);
        self.give(got.into_values());
        read.parts.failed = false;
        let not = self.not_read(read.stripe, &read.parts.avoid);
        match self.array.read_plan(read.extent, &not) {
            Ok(plan) if plan.blocks() <= self.free.len() as u64 => {
                let held = self.busy.get(&read.stripe.0).is_some_and(|&by| by != number);
                if is_summed(&plan) && held {
                    // Somebody else is at it: from the beginning, behind that.
                    return self.wait_again(read);
                }
                if is_summed(&plan) {
                    read.holds = true;
                    self.busy.insert(read.stripe.0, number);
                }
                read.plan = plan;
                self.operations.insert(number, Operation::Read(read));
                self.send_read(number);
            }
            Ok(_) => self.wait_again(read),
            Err(_) => self.finish_read(read, None),
        }
    }

    /// A read waits as if it had just come. What a member failed it will fail again, and then the stripe may be free.
    fn wait_again(&mut self, mut read: Read) {
        if read.holds {
            self.busy.remove(&read.stripe.0);
        }
        self.waiting.extend(read.task.take());
    }

    /// The blocks of a plan, in their order.
    pub(super) fn pages(&self, plan: &ReadPlan, parts: &Parts) -> Vec<Box<Page>> {
        let mut pages = Vec::new();
        for piece in plan.pieces() {
            for at in 0..piece.extent.blocks {
                let mut page = blank();
                match piece.origin {
                    Origin::Direct { disk, start } => {
                        page.copy_from_slice(self.page(parts.got[&(disk, start.plus(at))]));
                    }
                    Origin::Sum(terms) => {
                        for term in plan.terms(terms) {
                            let Source::Read { disk, start } = term.source else {
                                unreachable!("reads sum up what they read")
                            };
                            let from = self.page(parts.got[&(disk, start.plus(at))]);
                            sums::add(&mut page[..], from, term.factor);
                        }
                    }
                }
                pages.push(page);
            }
        }
        pages
    }

    /// A read ends, with its blocks or without.
    fn finish_read(&mut self, read: Read, pages: Option<Vec<Box<Page>>>) {
        let Read { task, stripe, holds, parts, .. } = read;
        self.give(parts.got.into_values());
        if holds {
            self.busy.remove(&stripe.0);
        }
        let Some(mut task) = task else { return };
        let result = match (&pages, &mut task.lease) {
            (Some(pages), Some(lease)) => {
                for (at, page) in (0..).zip(pages) {
                    lease.copy_from(at * BLOCK_BYTES, &page[..]);
                }
                Ok(task.len)
            }
            _ => Err(eio()),
        };
        self.end(task.token, result, task.lease);
    }
}
