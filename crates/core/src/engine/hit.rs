//! The short way of a read: one block that is here.
//!
//! Most reads of a layer that prefetches well are of one block that is resident. For them nothing is reserved, fetched
//! or joined, so one look at the block's cell answers all that [`Engine::read_long`] asks step by step. Everybody is
//! told the same things in the same order: the policy of the access, retention of the changed counts, the policy of the
//! proof, retention of the hit; then comes what may leave, then what is wished ahead, then `Ready`. It does nothing for
//! a longer read, for a block that is missing or in flight, or while somebody waits for memory. The test at the foot
//! runs both ways side by side.

use super::{Engine, Output};
use crate::access::Access;
use crate::cache::{LineId, State};
use crate::policy::{Event, Fate, Lookup, Outcome};
use crate::retention::keep::Victim;
use crate::slots::Slot;
use crate::stats::tally;
use crate::units::{Block, Extent, Nanos};

impl Engine {
    /// Answers a read of one resident block. False, and nothing done, for any other read.
    pub(super) fn read_short(&mut self, now: Nanos, id: u64, access: &Access) -> bool {
        if access.extent.blocks != 1 || !self.starved.is_empty() {
            return false;
        }
        let block = access.extent.start;
        let Some(line) = self.cache.find(block) else { return false };
        let place = self.cache.place(line, block);
        let cell = self.cache.at(place);
        let slot = cell.slot;
        let outcome = match cell.state {
            State::Cached => Outcome::CacheHit,
            State::Prefetched => Outcome::PrefetchHit,
            State::Empty | State::FetchDemand | State::FetchPrefetch => return false,
        };
        let number = self.admit_answered(access.extent, slot);
        self.tell(now, &Event::Access(access, Lookup { outcomes: &[outcome] }));
        tally(&mut self.stats.all, outcome);
        if access.demand.contains(block) {
            tally(&mut self.stats.program, outcome);
        }
        let victim = self.tell_hit(line, block, place, outcome);
        self.cache.slots.pin(slot);
        if let Some(victim) = victim {
            self.trim_one(victim);
            self.trim();
        }
        self.fulfil_ahead(now, access.context);
        self.outputs.push_back(Output::Ready { id, handle: number, error: false });
        true
    }

    /// Tells of a hit on a block of `line`, whose cell is at `place`; returns what retention would cull now.
    fn tell_hit(&mut self, line: LineId, block: Block, place: usize, outcome: Outcome) -> Option<Victim> {
        if outcome == Outcome::PrefetchHit && self.cache.first_read(line, place) {
            self.stats.used += 1;
            if self.hears_left {
                self.scheme.retention().on_counts(line, 1, -1);
                self.tell_left(Extent { start: block, blocks: 1 }, Fate::Used);
                let keep = self.scheme.retention();
                keep.on_hit(line, outcome, &self.cache);
                return keep.trim(&self.cache);
            }
        }
        self.scheme.retention().on_hit_here(line, outcome, &self.cache)
    }

    /// Puts an access that is answered as it comes into the table; only its slot and extent are ever asked for.
    fn admit_answered(&mut self, extent: Extent, slot: Slot) -> u32 {
        let number = self.accesses.take();
        self.serial += 1;
        let pending = &mut self.accesses[number];
        pending.access.extent = extent;
        pending.serial = 0;
        pending.slots.push(slot);
        pending.ready = true;
        number
    }
}

#[cfg(test)]
mod tests {
    use crate::access::{Access, Context};
    use crate::array::Array;
    use crate::cost::CostModel;
    use crate::dispatch::DemandFirst;
    use crate::engine::{Config, Engine, Input, Output, Residency, Status, WriteMode};
    use crate::registry::{Layer, LayerShape, SchemeSpec};
    use crate::units::{Extent, Nanos};
    use alloc::boxed::Box;
    use alloc::collections::VecDeque;
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
        let shape = LayerShape {
            cache_blocks: CACHE_BLOCKS,
            strip_blocks: array.strip_blocks(),
            stripe_strips: array.stripe_strips(),
            disks: array.disks(),
        };
        let spec = SchemeSpec::parse(scheme).expect("a scheme");
        let layer = if spec.has_host() { Layer::Host } else { Layer::Array };
        let built = spec.build(layer, &shape);
        let config = Config {
            residency: Residency::Owned,
            cache_blocks: CACHE_BLOCKS,
            line_blocks: built.line_blocks,
            strip_aligned: layer == Layer::Array,
            retain: true,
            command_blocks_max: array.strip_blocks(),
            ahead_blocks_max: CACHE_BLOCKS / 8,
            staging_blocks: 64,
            write: WriteMode::Through,
        };
        Engine::new(config, array, CostModel::default(), built.scheme, Box::new(DemandFirst::new(5)))
    }

    /// Feeds one read, the short way where it is open or never; then lets up to `ends` commands end.
    fn step(
        engine: &mut Engine,
        now: Nanos,
        access: Access,
        short: bool,
        running: &mut VecDeque<u32>,
        ends: usize,
    ) -> Vec<Output> {
        if short {
            engine.handle(now, Input::Read { id: now.0, access });
        } else {
            engine.read_long(now, now.0, &access);
            engine.pump(now);
        }
        let mut said = Vec::new();
        let mut left = ends;
        loop {
            while let Some(output) = engine.poll() {
                said.push(output);
                match output {
                    Output::Start(start) => running.push_back(start.command),
                    Output::Ready { handle, .. } => engine.handle(now, Input::Release { handle }),
                    _ => {}
                }
            }
            if left == 0 {
                return said;
            }
            let Some(command) = running.pop_front() else { return said };
            left -= 1;
            engine.handle(now, Input::Done { command, status: Status::Ok });
        }
    }

    proptest! {
        #[test]
        fn the_short_way_and_the_long_way_say_the_same(
            scheme in prop::sample::select(SCHEMES),
            reads in prop::collection::vec((0_u64..4, 0_u64..3, 0_u64..2_000, 0_usize..4), 1..400),
        ) {
            let (mut fast, mut slow) = (engine(scheme), engine(scheme));
            let (mut fast_running, mut slow_running) = (VecDeque::new(), VecDeque::new());
            let mut heads = [0, 500, 1_000, 1_500];
            for (now, (context, jump, far, ends)) in (1..).map(Nanos).zip(reads) {
                // Two steps of three go on, so that there is something to hit.
                let head = &mut heads[context as usize];
                *head = if jump == 0 { far } else { *head + 1 };
                let access = Access::read(Context(context), Extent::new(*head, 1));
                let a = step(&mut fast, now, access, true, &mut fast_running, ends);
                let b = step(&mut slow, now, access, false, &mut slow_running, ends);
                prop_assert_eq!(a, b);
            }
            prop_assert_eq!(fast.stats(), slow.stats());
            let (mut a, mut b) = (Vec::new(), Vec::new());
            fast.gauges(&mut a);
            slow.gauges(&mut b);
            prop_assert_eq!(a, b);
        }
    }
}
