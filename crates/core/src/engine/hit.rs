//! The short way of a read: one block that is here.
//!
//! Most reads of a layer that prefetches well are of one block that is resident. For them nothing is reserved, fetched
//! or joined, so one look at the block's cell answers all that [`Parts::read_long`] asks step by step. Everybody is
//! told the same things in the same order: the policy of the access, retention of the changed counts, the policy of the
//! proof, retention of the hit; then comes what may leave, then what is wished ahead, then `Ready`. It does nothing for
//! a longer read, for a block that is missing or in flight, or while somebody waits for memory. A host that copies nothing
//! has the answer back in the same call ([`Parts::read_at_once`]). The test at the foot runs all ways side by side.

use super::memory::Here;
use super::messages::Output;
use super::parts::Parts;
use crate::access::Access;
use crate::policy::{Event, Lookup};
use crate::slots::Slot;
use crate::stats::tally;
use crate::units::Nanos;

impl Parts {
    /// Answers a read of one resident block. False, and nothing done, for any other read.
    pub(super) fn read_short(&mut self, now: Nanos, id: u64, access: &Access) -> bool {
        let Some(slot) = self.hit(now, access) else { return false };
        let handle = self.accesses.admit_answered(access.extent, slot);
        self.outputs.push_back(Output::Ready { id, handle, error: false });
        true
    }

    /// The same where nobody copies: what was answered is given back at once, and needs neither a place in the table nor an output.
    pub(super) fn read_at_once(&mut self, now: Nanos, access: &Access) -> bool {
        let Some(slot) = self.hit(now, access) else { return false };
        self.pump(now);
        self.memory.unpin(slot);
        true
    }

    /// Everything of a read of one resident block but its answer. The slot stays pinned.
    #[inline(always)]
    fn hit(&mut self, now: Nanos, access: &Access) -> Option<Slot> {
        if access.extent.blocks != 1 || self.accesses.is_any_starved() {
            return None;
        }
        let block = access.extent.start;
        let here = self.memory.here(block)?;
        let Here { slot, outcome, .. } = here;
        self.tell(now, &Event::Access(access, Lookup { outcomes: &[outcome] }));
        tally(&mut self.memory.stats.all, outcome);
        if access.demand.contains(block) {
            tally(&mut self.memory.stats.program, outcome);
        }
        let victim = self.memory.hit(block, here);
        self.memory.pin(slot);
        if let Some(victim) = victim {
            self.memory.trim_one(victim);
            self.memory.trim();
        }
        self.fulfil_ahead(now, access.context);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use crate::access::{Access, Context};
    use crate::array::Array;
    use crate::engine::{Engine, Input, Output};
    use crate::hand::Hand;
    use crate::registry::SchemeSpec;
    use crate::spec::LayerSpec;
    use crate::units::{Extent, Nanos};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const CACHE_BLOCKS: u64 = 256;
    /// Of both layers, with lines of a strip and of a block, with policies that hear what becomes of prefetched blocks and
    /// such that do not.
    const SCHEMES: &[&str] = &[
        "none",
        "strip",
        "asp",
        "asp+msp",
        "grain+msp",
        "asp(cost=off)",
        "streams(unit=4KiB)",
        "streams(R=16KiB,N=2,unit=4KiB)",
        "arc+strip",
        "linux-2.6",
        "linux-6",
        "amp",
        "sarc",
        "tap(degree=16KiB)",
        "zfetch",
        "rpp(linux-2.4)",
    ];

    fn engine(scheme: &str) -> Engine {
        let array = Array::new("raid5:5x16KiB".parse().expect("valid"), 1 << 10).expect("holds strips");
        let spec = SchemeSpec::parse(scheme).expect("a scheme");
        let layer = if spec.has_host() {
            let single = Array::new("single:16KiB".parse().expect("valid"), array.capacity_blocks());
            LayerSpec::page_cache(spec, single.expect("holds strips"), CACHE_BLOCKS)
        } else {
            LayerSpec::array_cache(spec, array, CACHE_BLOCKS)
        };
        let layer = LayerSpec { ahead_blocks_max: Some(CACHE_BLOCKS / 8), ..layer };
        layer.build().expect("fits")
    }

    /// How a read is asked for.
    #[derive(Clone, Copy, Debug)]
    enum Way {
        /// As an input: the short way where it is open.
        Input,
        /// Without it.
        Long,
        /// By a host that copies nothing.
        AtOnce,
    }

    /// Feeds one read; then lets up to `ends` commands end. Answers are given back at once.
    fn step(host: &mut Hand, now: Nanos, access: Access, way: Way, ends: usize) -> Vec<Output> {
        host.now = now;
        let mut said = match way {
            Way::AtOnce if host.engine.read_at_once(now, &access) => host.listen(),
            Way::AtOnce | Way::Input => host.feed(Input::Read { id: now.0, access }),
            Way::Long => {
                host.engine.read_long(now, now.0, &access);
                host.engine.pump(now);
                host.listen()
            }
        };
        for left in (0..=ends).rev() {
            while let Some(more) = host.release_first() {
                said.extend(more);
            }
            let ended = if left > 0 { host.end_first() } else { None };
            let Some(more) = ended else { break };
            said.extend(more);
        }
        said
    }

    proptest! {
        #[test]
        fn every_way_of_a_read_says_the_same(
            scheme in prop::sample::select(SCHEMES),
            reads in prop::collection::vec((0_u64..4, 0_u64..3, 0_u64..2_000, 0_usize..4), 1..400),
        ) {
            let [mut fast, mut slow, mut prompt] = [(); 3].map(|()| Hand::new(engine(scheme)));
            let mut heads = [0, 500, 1_000, 1_500];
            for (now, (context, jump, far, ends)) in (1..).map(Nanos).zip(reads) {
                // Two steps of three go on, so that there is something to hit.
                let head = &mut heads[context as usize];
                *head = if jump == 0 { far } else { *head + 1 };
                let access = Access::read(Context(context), Extent::new(*head, 1));
                let a = step(&mut fast, now, access, Way::Input, ends);
                let b = step(&mut slow, now, access, Way::Long, ends);
                let c = step(&mut prompt, now, access, Way::AtOnce, ends);
                prop_assert_eq!(&a, &b);
                let starts = |said: &[Output]| {
                    said.iter().filter(|output| !matches!(output, Output::Ready { .. })).copied().collect::<Vec<_>>()
                };
                prop_assert_eq!(starts(&a), starts(&c), "its answers are no outputs");
            }
            let [a, b, c] = [&mut fast, &mut slow, &mut prompt].map(|host| {
                let mut gauges = Vec::new();
                host.engine.gauges(&mut gauges);
                (*host.engine.stats(), gauges)
            });
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(a, c);
        }
    }
}
