//! Aggressive clairvoyant prefetching, as a scheme: policy and retention over one view of the future.
//!
//! The rules are those of Cao, Felten, Karlin and Li (SIGMETRICS 1995), per disk as in Kimbrel et al. (OSDI 1996):
//! fetch the next missing block in order of use; evict the block whose next use is farthest; never evict a block that
//! is needed before the one fetched; do so whenever a disk is free. How far ahead it looks is bounded by the cache:
//! a window of as many block accesses as it holds blocks.
//!
//! ```text
//!   future:  … seen ──────────── window ──────────── scanned …
//!                  └ missing ones wait, per disk, ordered by use ┘
//!   wish ──▶ in flight ──▶ kept, ordered by next use ──▶ read: next use moves ──▶ farthest leaves
//! ```
//!
//! It does nothing when the window holds no missing block, when every disk has its batch, or when all that is kept
//! is needed sooner. The order is followed approximately where several processes run: what was expected long ago and
//! did not happen is forgotten.

use super::ahead::{Ahead, View};
use super::future::{Future, Position};
use super::kept::Kept;
use forerun_core::access::{Access, Op};
use forerun_core::array::Array;
use forerun_core::cache::{Cache, LineId, State};
use forerun_core::policy::{Fetched, Lookup, Outcome, Plan, Policy, World};
use forerun_core::retention::contract::{Afterlife, Retention, Victim};
use forerun_core::units::Extent;

/// An access that is this many windows late will not happen any more.
const LATE_WINDOWS: u64 = 4;

/// The scheme.
pub(super) struct Oracle {
    future: Future,
    kept: Kept,
    ahead: Ahead,
    /// Accesses that were expected and have happened, in blocks.
    seen: u64,
    /// How many accesses ahead it looks.
    window: u64,
    /// Positions below will not happen any more.
    expired: Position,
}

impl Oracle {
    /// A scheme that knows `future`, for a cache of `cache_blocks` lines of one block above `array`.
    pub(super) fn new(future: Future, array: Array, cache_blocks: u64) -> Self {
        let ahead = Ahead::new(array, cache_blocks);
        Self { future, kept: Kept::default(), ahead, seen: 0, window: cache_blocks, expired: 0 }
    }

    /// Forgets what should have happened long ago.
    fn expire(&mut self) {
        let late = self.seen.saturating_sub(LATE_WINDOWS * self.window);
        while u64::from(self.expired) < late.min(u64::from(self.ahead.scanned())) {
            let position = self.expired;
            self.expired += 1;
            if self.future.is_head(position) {
                let key = self.future.whose(position);
                self.future.pass(key);
                self.kept.replace(key, self.future.next_read(key));
                if !self.kept.has(key) {
                    self.ahead.miss(key, &self.future);
                }
            }
        }
    }

    /// An event: what the last one left open is known by now.
    fn begin(&mut self) {
        self.ahead.settle(&self.future, &self.kept);
        self.kept.readmit_pinned(|key| self.future.next_read(key));
    }

    fn wish(&mut self, world: &World<'_>, plan: &mut Plan, free: u64, busy: Extent) {
        self.ahead.scan(self.seen.saturating_add(self.window), &self.future, &self.kept);
        let view = View { future: &self.future, kept: &self.kept, busy, free };
        self.ahead.wish(&view, world.cache, plan);
    }
}

impl Policy for Oracle {
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.begin();
        for block in access.extent.iter() {
            if let Some(key) = self.future.key(block)
                && self.future.pass(key)
            {
                self.seen += 1;
                self.kept.replace(key, self.future.next_read(key));
            }
        }
        self.expire();
        // The access takes its memory after this: a read for what it misses, a write for all of it at most.
        let takes = match access.op {
            Op::Read => lookup.outcomes.iter().filter(|outcome| outcome.is_miss()).count() as u64,
            Op::Write => access.extent.blocks,
        };
        let free = world.cache.slots.available().saturating_sub(takes);
        self.wish(world, plan, free, access.extent);
    }

    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        self.begin();
        if fetched.was_prefetch {
            self.ahead.arrived(fetched);
        }
        for block in fetched.extent.iter() {
            if let Some(key) = self.future.key(block)
                && self.kept.has(key)
            {
                self.kept.place(key, self.future.next_read(key));
            }
        }
        self.wish(world, plan, world.cache.slots.available(), Extent::default());
    }
}

impl Retention for Oracle {
    fn on_insert(&mut self, line: LineId, _ahead: bool, cache: &Cache) {
        let block = cache.line_extent(cache.line(line).number).start;
        let key = self.future.intern(block);
        self.kept.enter(key, line);
        let in_flight = matches!(cache.cell(line, block).state, State::FetchDemand | State::FetchPrefetch);
        if !in_flight {
            self.kept.place(key, self.future.next_read(key));
        }
    }
    /// A use has moved the block already: [`Policy::on_access`] comes first.
    fn on_hit(&mut self, _line: LineId, _outcome: Outcome, _cache: &Cache) {}
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        let farthest = self.kept.farthest(cache);
        if farthest.is_none() {
            // The engine asks once more, or later without another event: whoever is willing by then is proposed.
            self.kept.readmit(|key| self.future.next_read(key));
            self.kept.readmit_pinned(|key| self.future.next_read(key));
        }
        farthest.map(Victim::Whole)
    }
    fn second_chance(&mut self, line: LineId) {
        self.kept.put_aside(line);
    }
    fn on_emptied(&mut self, line: LineId, _cache: &Cache) -> Afterlife {
        if let Some(key) = self.kept.leave(line) {
            self.ahead.miss(key, &self.future);
        }
        Afterlife::Forget
    }
}
