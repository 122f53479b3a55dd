//! Degraded reads: a fetch whose member is out or could not give its blocks is summed from the other members.
//!
//! The reads of a rebuild go to staging memory, the host combines them into the slots of the fetch, and then the fetch
//! arrives like any other. While a stripe is being destaged its old and new parity must not be mixed, so a rebuild waits for
//! the job of its stripe and a job for the rebuild. A member that fails a read is avoided by this fetch only, one more at each
//! attempt, until the blocks are here or the array cannot make up for so many.

use super::buffer::{Buffer, CombineStep};
use super::messages::Output;
use super::parts::Parts;
use super::tables::{Owner, Waits};
use super::write::REBUILD_JOB;
use crate::array::{DiskSet, Origin, Source};
use crate::units::Nanos;

impl Parts {
    /// Members that a fetch must do without.
    fn lost_to(&self, fetch: u32) -> DiskSet {
        let mut lost = self.failed;
        for disk in self.fetches[fetch].avoid.iter() {
            lost.insert(disk);
        }
        lost
    }

    /// Sends the reads that give a fetch's extent without the failed members, or queues it while its stripe is written.
    pub(super) fn send_rebuild(&mut self, now: Nanos, number: u32) {
        let stripe = self.array.stripe_of(self.fetches[number].extent.start).0;
        if self.destager.is_active(stripe) || self.plan_rebuild(stripe, number) == Waits::Yes {
            self.destager.queue_rebuild(number);
            return;
        }
        let plan = core::mem::take(&mut self.fetches[number].plan);
        for read in plan.reads() {
            let owner =
                if self.fetches[number].rebuilt { Owner::Staged(number) } else { Owner::Fetch(number, 0) };
            self.send(now, number, owner, read.disk, read.extent);
        }
        let lost = plan.reads().is_empty();
        self.fetches[number].plan = plan;
        if lost {
            self.fetches[number].bad = (0, self.fetches[number].extent.blocks);
            self.arrive(now, number);
        }
    }

    /// Plans the reads of a rebuild and takes its staging memory; waits when that is short now. The plan is empty when the
    /// blocks are lost.
    fn plan_rebuild(&mut self, stripe: u64, number: u32) -> Waits {
        let lost = self.lost_to(number);
        let mut plan = core::mem::take(&mut self.fetches[number].plan);
        let planned = self.array.read_plan_into(self.fetches[number].extent, &lost, &mut plan);
        let direct = plan.pieces().iter().all(|p| matches!(p.origin, Origin::Direct { .. }));
        let need = plan.blocks();
        self.fetches[number].rebuilt = planned.is_ok() && !direct;
        self.fetches[number].plan = plan;
        if !self.fetches[number].rebuilt {
            return Waits::No;
        }
        let fetch = &mut self.fetches[number];
        if !self.destager.begin_rebuild(stripe, need, &mut fetch.staging) {
            fetch.rebuilt = false;
            return Waits::Yes;
        }
        Waits::No
    }

    /// Fetches that waited for a stripe or for staging memory try again.
    pub(super) fn retry_rebuilds(&mut self, now: Nanos) {
        for _ in 0..self.destager.rebuilds_queued() {
            if let Some(number) = self.destager.next_rebuild() {
                self.send_rebuild(now, number);
            }
        }
    }

    /// All inputs of a rebuild are here: the host combines them, then they are delivered.
    pub(super) fn finish_rebuild(&mut self, number: u32) {
        let fetch = &mut self.fetches[number];
        fetch.steps.clear();
        if fetch.bad.0 == fetch.bad.1 {
            let piece = fetch.plan.pieces()[0];
            if let Origin::Sum(terms) = piece.origin {
                for k in 0..piece.extent.blocks {
                    let slot = fetch.slots[k as usize];
                    if !slot.is_some() {
                        continue;
                    }
                    let terms = fetch.plan.terms(terms).iter().map(|term| match term.source {
                        Source::Read { disk, start } => (term.factor, fetch.staged(disk, start.plus(k))),
                        Source::Memory(_) => (term.factor, Buffer::Discard),
                    });
                    let step = CombineStep { target: Some(Buffer::Cache(slot)), terms: terms.collect() };
                    fetch.steps.push(step);
                }
            }
            self.outputs.push_back(Output::Combine { job: number | REBUILD_JOB });
        }
        self.leave_rebuild(number);
    }

    /// Gives back what a rebuild holds: staging memory and the stripe.
    fn leave_rebuild(&mut self, number: u32) {
        let stripe = self.array.stripe_of(self.fetches[number].extent.start).0;
        let fetch = &mut self.fetches[number];
        fetch.rebuilt = false;
        self.destager.end_rebuild(stripe, &mut fetch.staging);
    }

    /// A member could not give all of a fetch: tries without it if the array can. Returns whether that is under way.
    pub(super) fn rebuild_bad(&mut self, now: Nanos, number: u32) -> bool {
        if !self.config.strip_aligned || self.array.redundancy() == 0 {
            return false;
        }
        let disk = self.fetches[number].bad_disk;
        if !self.fetches[number].avoid.insert(disk) {
            return false;
        }
        let (extent, lost) = (self.fetches[number].extent, self.lost_to(number));
        let mut plan = core::mem::take(&mut self.fetches[number].plan);
        let hopeless = self.array.read_plan_into(extent, &lost, &mut plan).is_err();
        self.fetches[number].plan = plan;
        if hopeless {
            return false; // what did arrive is delivered
        }
        if self.fetches[number].rebuilt {
            self.leave_rebuild(number);
        }
        self.fetches[number].bad = (0, 0);
        self.fetches[number].commands.clear();
        self.send_rebuild(now, number);
        true
    }

    /// What could start after an end: jobs and rebuilds that waited for memory or for each other.
    pub(super) fn resume_background(&mut self, now: Nanos) {
        if self.destager.has_listed() {
            self.start_jobs(now);
        }
        if self.destager.rebuilds_queued() > 0 {
            self.retry_rebuilds(now);
        }
    }
}
