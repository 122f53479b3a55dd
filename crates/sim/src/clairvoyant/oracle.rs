//! Clairvoyant prefetching, as a scheme: policy, retention and dispatch over one view of the future.
//!
//! It reads missing blocks in batches that memory holds, each by place (`batch.rs`, `sweep.rs`), and keeps by Belady's rule: what is
//! needed farthest in the future leaves first, and nothing leaves for a block that is needed later than it (`kept.rs`). The rules are
//! those of Cao, Felten, Karlin and Li (SIGMETRICS 1995), but for the order within a batch, in which they have the next use.
//!
//! ```text
//!   future:  … seen ──────────── batch ──────────── scanned …
//!                  └ missing ones, sorted by place ┘
//!   wish ──▶ in flight ──▶ kept, ordered by next use ──▶ read: next use moves ──▶ farthest leaves
//! ```
//!
//! It does nothing when nothing that is read later is missing, or when all that is kept is needed sooner. The order is followed
//! approximately where several processes run: what was expected long ago and did not happen is forgotten.

use super::batch::{Batches, View};
use super::future::{Future, Position};
use super::kept::Kept;
use super::sweep::Sweep;
use forerun_core::access::{Access, Op};
use forerun_core::array::Array;
use forerun_core::cache::{Cache, LineId, State};
use forerun_core::dispatch::Dispatch;
use forerun_core::policy::{Fetched, Lookup, Outcome, Plan, Policy, Wants, World};
use forerun_core::retention::contract::{Afterlife, Retention, Victim};
use forerun_core::units::Extent;

/// An access that is this many windows late will not happen any more.
const LATE_WINDOWS: u64 = 4;

/// How many times its memory, in blocks, it looks ahead at most.
const WINDOWS: u64 = 8;
/// Most blocks of a batch: 4 GiB.
const BATCH_MAX: u64 = 1 << 20;

/// How it goes about it; several are tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Most blocks of a batch.
    pub(super) batch: u64,
    /// A reader that catches up with a prefetch has it at once.
    pub(super) eager: bool,
    /// Gaps of so many blocks are read over.
    pub(super) gap: u64,
    /// Disks of the layer.
    pub(super) disks: usize,
    /// Prefetches that are with a disk.
    pub(super) depth: u32,
}

/// The scheme.
pub(super) struct Oracle {
    future: Future,
    kept: Kept,
    batches: Batches,
    sweep: Sweep,
    /// Accesses that were expected and have happened, in blocks.
    seen: u64,
    /// How many accesses ahead it looks.
    window: u64,
    /// Positions below will not happen any more.
    expired: Position,
}

impl Oracle {
    /// A scheme that knows `future`, for a cache of `cache_blocks` lines of one block above `array`.
    pub(super) fn new(future: Future, array: Array, cache_blocks: u64, manner: &Manner) -> Self {
        let window = WINDOWS * cache_blocks;
        let size = manner.batch.clamp(1, BATCH_MAX);
        Self {
            future,
            kept: Kept::default(),
            batches: Batches::new(array, size, manner.gap, window),
            sweep: Sweep::new(manner.disks, manner.eager, manner.depth),
            seen: 0,
            window: cache_blocks,
            expired: 0,
        }
    }

    /// Forgets what should have happened long ago.
    fn expire(&mut self) {
        let late = self.seen.saturating_sub(LATE_WINDOWS * self.window);
        while u64::from(self.expired) < late.min(u64::from(self.batches.scanned())) {
            let position = self.expired;
            self.expired += 1;
            if self.future.is_head(position) {
                let key = self.future.whose(position);
                self.future.pass(key);
                self.kept.replace(key, self.future.next_read(key));
                if !self.kept.has(key) {
                    self.batches.miss(key, &self.future);
                }
            }
        }
    }

    /// An event: what the last one left open is known by now.
    fn begin(&mut self, cache: &Cache) {
        self.batches.settle(&self.future, &self.kept);
        self.kept.readmit_pinned(|key| self.future.next_read(key));
        self.kept.readmit_clean(cache, |key| self.future.next_read(key));
    }

    fn wish(&mut self, world: &World<'_>, plan: &mut Plan, free: u64, busy: Extent) {
        let Self { future, kept, batches, seen, .. } = self;
        let (cache, in_flight) = (world.cache, world.ahead_in_flight);
        batches.wish(&View { future, kept, cache, busy, free, in_flight, seen: *seen }, plan);
    }

    /// What is read for somebody brings along what lies beside it and is read later.
    fn widen(&self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan, free: u64) {
        let Self { future, kept, seen, .. } = self;
        let (cache, in_flight, busy) = (world.cache, world.ahead_in_flight, access.extent);
        let view = View { future, kept, cache, busy, free, in_flight, seen: *seen };
        let mut missing = access.extent.iter().zip(lookup.outcomes).filter(|(_, outcome)| outcome.is_miss());
        // The blocks between the first and the last are the access's own.
        let first = missing.next().map(|(block, _)| block);
        let last = missing.last().map(|(block, _)| block);
        first.into_iter().chain(last).for_each(|block| self.batches.widen(&view, block, plan));
    }
}

impl Policy for Oracle {
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn own_dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        Some(&mut self.sweep)
    }
    fn wants(&mut self) -> Wants {
        // It keeps books on memory: a batch is never more than there is room for.
        Wants { line_blocks: Some(1), ahead_blocks_max: Some(u64::MAX) }
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.begin(world.cache);
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
        self.widen(access, lookup, world, plan, free);
        self.wish(world, plan, free, access.extent);
    }

    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        self.begin(world.cache);
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
            self.batches.miss(key, &self.future);
        }
        Afterlife::Forget
    }
}
