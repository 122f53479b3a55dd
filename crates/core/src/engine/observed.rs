//! Observed residency: the kernel owns the cache, and the engine keeps a bounded shadow of what it believes.
//!
//! The host reports accesses that were served without asking us, and how much it knows about each. Policies see the
//! same hooks as with owned residency; wishes become fetches whose memory is the kernel's. The shadow's slots only
//! bound its size: a block that falls out of it is simply no longer believed, and nothing is evicted for real.

use super::messages::Seen;
use super::parts::Parts;
use crate::access::{Access, Op};
use crate::cache::{LineId, State};
use crate::policy::{Event, Lookup, Outcome};
use crate::units::{Block, Extent, Nanos};

impl Parts {
    /// An access that has already been served.
    pub(super) fn seen(&mut self, now: Nanos, access: Access, seen: Seen) {
        let mut outcomes = core::mem::take(&mut self.outcomes);
        outcomes.clear();
        if access.op == Op::Read {
            self.memory.states(access.extent, |state| outcomes.push(believed(state, seen)));
        }
        self.tell(now, &Event::Access(&access, Lookup { outcomes: &outcomes }));
        self.count(&access, &outcomes);
        if access.op == Op::Read {
            self.believe_all(now, access.extent, &outcomes);
        }
        self.outcomes = outcomes;
        if seen == Seen::DeviceRead && access.op == Op::Read {
            self.tell_late_reads(now, &access);
            self.tell_missed_reads(now, &access);
        }
        self.memory.trim();
        self.fulfil_ahead(now, access.context);
    }

    /// Tells the policy which blocks of an access reached the device without a prefetch on its way, in runs.
    fn tell_missed_reads(&mut self, now: Nanos, access: &Access) {
        let mut at = 0;
        while at < self.outcomes.len() {
            let run = self.outcomes[at..].iter().take_while(|o| **o != Outcome::LateHit).count();
            if run > 0 {
                let extent = Extent::new(access.extent.start.0 + at as u64, run as u64);
                self.tell_device_read(now, access, extent, false);
            }
            at += run.max(1);
        }
    }

    /// The blocks of an access are in the kernel's cache now. Each line is looked up once, and again where memory was taken, which
    /// moves lines.
    fn believe_all(&mut self, now: Nanos, extent: Extent, outcomes: &[Outcome]) {
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache().chunk(at, extent.end()).1;
            let mut line = self.cache().find(range.start);
            for block in range.iter() {
                let outcome = outcomes[(block.0 - extent.start.0) as usize];
                match line.filter(|&line| self.cache().cell(line, block).state != State::Empty) {
                    Some(line) => self.believe(line, block, outcome),
                    None => {
                        if self.memory.available() > 0 || self.make_room(now, 1) {
                            self.memory.take_in(block);
                        }
                        line = self.cache().find(block);
                    }
                }
            }
            at = range.end();
        }
    }

    /// A block that the shadow has, or waits for, was asked for.
    fn believe(&mut self, line: LineId, block: Block, outcome: Outcome) {
        if outcome.is_miss() {
            self.memory.disprove(line, block);
        }
        match self.cache().cell(line, block).state {
            State::Prefetched => self.memory.prove(line, block, State::Cached),
            State::FetchPrefetch => {
                self.memory.stats.ahead_in_flight -= 1;
                self.memory.prove(line, block, State::FetchDemand);
            }
            State::Cached | State::FetchDemand | State::Empty => {}
        }
        self.memory.touch(line, outcome);
    }
}

/// The outcome of a block: what the host saw corrects what the shadow believes.
const fn believed(state: State, seen: Seen) -> Outcome {
    match (seen, state) {
        (Seen::DeviceRead, State::FetchPrefetch) | (Seen::Unknown, State::FetchPrefetch) => Outcome::LateHit,
        (Seen::DeviceRead, _) | (Seen::Unknown, State::Empty) => Outcome::Miss,
        (_, State::Prefetched | State::FetchPrefetch) => Outcome::PrefetchHit,
        (_, State::Cached | State::FetchDemand | State::Empty) => Outcome::CacheHit,
    }
}
