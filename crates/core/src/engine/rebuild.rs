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
            self.arrive_lost(now, number);
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

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::engine::{Input, Output};
    use crate::hand::Hand;
    use crate::registry::{Layer, SchemeSpec};
    use crate::spec::LayerSpec;
    use crate::units::{Disk, Nanos};

    /// Schemes that wish for more when something has come, or when their time has.
    const SCHEMES: &[&str] = &[
        "none",
        "strip",
        "asp",
        "asp+msp",
        "auto",
        "amp",
        "sarc",
        "linux-6",
        "zfetch",
        "tap(degree=16KiB)",
        "streams",
    ];

    #[test]
    fn where_more_members_are_out_than_the_array_can_lose_reads_end_with_an_error_under_every_scheme() {
        for array in ["single:64KiB", "raid0:2x64KiB", "raid5:3x64KiB", "raid1:2"] {
            for name in SCHEMES {
                let scheme = SchemeSpec::parse(name).expect("a scheme");
                let layer = if scheme.has_host() { Layer::Host } else { Layer::Array };
                let array = Array::new(array.parse().expect("valid"), 1 << 12).expect("holds strips");
                let spec = LayerSpec { layer, ..LayerSpec::array_cache(scheme, array, 2_048) };
                let mut hand = Hand::ticking(spec.build().expect("fits"), Nanos::from_millis(2));
                // Until it has something to wish for, all is well.
                let reads = 200;
                let mut failed = 0;
                for id in 0..reads {
                    if id == reads / 4 {
                        for disk in 0..array.disks() {
                            hand.feed(Input::Member { disk: Disk(disk), failed: true });
                        }
                    }
                    // Behind what was read ahead while all was well.
                    let behind = if id < reads / 4 { 0 } else { 2_048 };
                    let mut said = hand.read(id, behind + 4 * id, 4);
                    while let Some(more) = hand.end_first() {
                        said.extend(more);
                    }
                    failed += said.iter().filter(|o| matches!(o, Output::Ready { error: true, .. })).count();
                    hand.release_all();
                    if hand.engine.next_wake().is_some_and(|at| at <= hand.now) {
                        hand.feed(Input::Wake);
                    }
                }
                assert!(failed > 100, "{array:?} {name}: {failed}");
                assert!(hand.engine.is_idle() && hand.answered.is_empty(), "{array:?} {name}");
            }
        }
    }
}
