//! Observed residency: the kernel owns the cache, and the engine keeps a bounded shadow of what it believes.
//!
//! The host reports accesses that were served without asking us, and how much it knows about each. Policies see the
//! same hooks as with owned residency; wishes become fetches whose memory is the kernel's. The shadow's slots only
//! bound its size: a block that falls out of it is simply no longer believed, and nothing is evicted for real.

use super::messages::Seen;
use super::parts::Parts;
use crate::access::{Access, Op};
use crate::cache::State;
use crate::policy::{Event, Lookup, Outcome};
use crate::units::{Block, Extent, Nanos};

impl Parts {
    /// An access that has already been served.
    pub(super) fn seen(&mut self, now: Nanos, access: Access, seen: Seen) {
        let mut outcomes = core::mem::take(&mut self.outcomes);
        outcomes.clear();
        if access.op == Op::Read {
            outcomes.extend(access.extent.iter().map(|block| believed(self.cache().state(block), seen)));
        }
        self.tell(now, &Event::Access(&access, Lookup { outcomes: &outcomes }));
        self.count(&access, &outcomes);
        for (block, &outcome) in access.extent.iter().zip(&outcomes) {
            if outcome.is_miss() {
                self.memory.disprove(block);
            }
            self.believe(now, block, outcome);
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

    /// The block is in the kernel's cache now: so it is in the shadow, if the shadow has room.
    fn believe(&mut self, now: Nanos, block: Block, outcome: Outcome) {
        let line = self.cache().find(block);
        match (line, self.cache().state(block)) {
            (Some(line), State::Prefetched) => self.memory.prove(line, block, State::Cached),
            (Some(line), State::FetchPrefetch) => {
                self.memory.stats.ahead_in_flight -= 1;
                self.memory.prove(line, block, State::FetchDemand);
            }
            (None, _) | (_, State::Empty) => {
                if self.memory.available() > 0 || self.make_room(now, 1) {
                    self.memory.take_in(block);
                }
                return;
            }
            (_, State::Cached | State::FetchDemand) => {}
        }
        if let Some(line) = line {
            self.memory.touch(line, outcome);
        }
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
