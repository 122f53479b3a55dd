//! Degraded reads: a fetch whose member is out or could not give its blocks is summed from the other members.
//!
//! The reads of a rebuild go to staging memory, the host combines them into the slots of the fetch, and then the fetch
//! arrives like any other. While a stripe is being destaged its old and new parity must not be mixed, so a rebuild waits for
//! the job of its stripe and a job for the rebuild. A member that fails a read is avoided by this fetch only, one more at each
//! attempt, until the blocks are here or the array cannot make up for so many.

use super::fetches::Waits;
use super::messages::Output;
use super::parts::Parts;
use super::write::REBUILD_JOB;
use crate::units::Nanos;

impl Parts {
    /// The stripe in which a fetch lies.
    fn stripe_of_fetch(&self, number: u32) -> u64 {
        self.array.stripe_of(self.fetches.extent(number).start).0
    }

    /// Sends the reads that give a fetch's extent without the failed members, or queues it while its stripe is written.
    pub(super) fn send_rebuild(&mut self, now: Nanos, number: u32) {
        let stripe = self.stripe_of_fetch(number);
        if self.destager.is_active(stripe) || self.plan_rebuild(stripe, number) == Waits::Yes {
            self.destager.queue_rebuild(number);
            return;
        }
        let mut sent = 0;
        while let Some(command) = self.fetches.rebuild_read(number, sent) {
            self.send(now, number, command);
            sent += 1;
        }
        if sent == 0 {
            self.fetches.lose(number);
            self.arrive(now, number);
        }
    }

    fn plan_rebuild(&mut self, stripe: u64, number: u32) -> Waits {
        self.fetches.plan_rebuild(number, stripe, (&self.array, &self.failed), &mut self.destager)
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
        if self.fetches.make_sums(number) {
            self.outputs.push_back(Output::Combine { job: number | REBUILD_JOB });
        }
        self.leave_rebuild(number);
    }

    fn leave_rebuild(&mut self, number: u32) {
        let stripe = self.stripe_of_fetch(number);
        self.fetches.leave_rebuild(number, stripe, &mut self.destager);
    }

    /// A member could not give all of a fetch: tries without it if the array can. Returns whether that is under way.
    pub(super) fn rebuild_bad(&mut self, now: Nanos, number: u32) -> bool {
        if !self.config.strip_aligned || self.array.redundancy() == 0 {
            return false;
        }
        if !self.fetches.do_without(number, &self.array, &self.failed) {
            return false; // what did arrive is delivered
        }
        if self.fetches.is_rebuilt(number) {
            self.leave_rebuild(number);
        }
        self.fetches.begin_again(number);
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
