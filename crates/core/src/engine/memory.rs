//! Memory: the table of lines with its slots, and the scheme that is told of every change in it.
//!
//! Nobody else changes a cell, so whoever looks for "who tells retention" finds it here: [`Memory::change`] for one cell,
//! [`Memory::recount`] behind the passes over a range. What a change means outside (a reader to wake, a fetch that was overtaken)
//! is returned as a value. Leaving is in `memory/leave.rs`, a change of scheme in `memory/relay.rs`.

mod leave;
mod relay;

use crate::array::Array;
use crate::cache::{Cache, Cell, LineId, NO_FETCH, State};
use crate::cost::CostModel;
use crate::planted::{self, Bug};
use crate::policy::{DeviceRead, Event, Fate, Outcome, Plan, Policy as _, Wake, World};
use crate::retention::contract::Victim;
use crate::scheme::Scheme;
use crate::slots::Slot;
use crate::stats::Stats;
use crate::units::{Block, Extent, Nanos};
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
pub(super) use leave::{Room, Search};

/// Cells, slots, and the scheme that keeps them in order.
pub(super) struct Memory {
    cache: Cache,
    scheme: Scheme,
    /// What the scheme listens to.
    hears: Hears,
    /// What the scheme sees of the layer beside the memory.
    array: Array,
    cost: CostModel,
    /// When the input under way came.
    now: Nanos,
    /// What the scheme wishes.
    pub(super) plan: Plan,
    /// When its parts want to be woken.
    wakes: BinaryHeap<Reverse<Wake>>,
    /// Memory has been short once.
    filled: bool,
    /// Runs of blocks that leave a line unread, while it is emptied.
    unread_runs: Vec<Extent>,
    /// What has left unread since the host last took it; only for a host that asks why readers wait.
    left_unread: Option<Vec<Extent>>,
    /// Sums of the layer: every part counts here.
    pub(super) stats: Stats,
}

/// Events of which a scheme is told only if it listens.
#[derive(Clone, Copy)]
struct Hears {
    /// Which prefetched blocks have left unread.
    left: bool,
    /// And which were used.
    used: bool,
    /// What reached a device.
    device_reads: bool,
    /// And the retention: which blocks are read.
    reads: bool,
}

impl Hears {
    fn of(scheme: &mut Scheme) -> Self {
        Self {
            left: scheme.hears_left(),
            used: scheme.hears_used(),
            device_reads: scheme.hears_device_reads(),
            reads: scheme.retention().hears_reads(),
        }
    }
}

/// A block that is here.
#[derive(Clone, Copy)]
pub(super) struct Here {
    line: LineId,
    /// Where its cell is.
    place: usize,
    pub(super) slot: Slot,
    pub(super) outcome: Outcome,
}

/// Where a block that is no miss is to be had.
pub(super) enum Served {
    /// In this slot.
    Slot(Slot),
    /// This fetch brings it.
    Fetch(u32),
}

/// What became of a cell that was written.
pub(super) struct Written {
    pub(super) line: LineId,
    pub(super) slot: Slot,
    /// The fetch in flight that is stale for this block now.
    pub(super) overtaken: Option<u32>,
}

impl Memory {
    pub(super) fn new(cache: Cache, mut scheme: Scheme, array: Array, cost: CostModel) -> Self {
        Self {
            cache,
            hears: Hears::of(&mut scheme),
            scheme,
            array,
            cost,
            now: Nanos::ZERO,
            plan: Plan::default(),
            wakes: BinaryHeap::new(),
            filled: false,
            unread_runs: Vec::new(),
            left_unread: None,
            stats: Stats::default(),
        }
    }
    /// An input has come.
    #[inline]
    pub(super) const fn at(&mut self, now: Nanos) {
        self.now = now;
    }
    pub(super) const fn cache(&self) -> &Cache {
        &self.cache
    }
    /// What reads are believed to cost.
    pub(super) const fn cost(&self) -> &CostModel {
        &self.cost
    }
    /// The scheme, for what concerns neither cells nor their order: its dispatch, and what it shows.
    pub(super) const fn scheme_mut(&mut self) -> &mut Scheme {
        &mut self.scheme
    }
    pub(super) const fn scheme(&self) -> &Scheme {
        &self.scheme
    }
    #[cfg(test)]
    pub(super) const fn scheme_beside_cache(&mut self) -> (&mut Scheme, &Cache) {
        (&mut self.scheme, &self.cache)
    }
    pub(super) fn available(&self) -> u64 {
        self.cache.slots.available()
    }
    /// Memory from now on; what is taken beyond it is not used again.
    pub(super) fn set_capacity(&mut self, blocks: u64) {
        self.cache.slots.set_capacity(blocks);
    }
    pub(super) fn pin(&mut self, slot: Slot) {
        self.cache.slots.pin(slot);
    }
    pub(super) fn unpin(&mut self, slot: Slot) {
        self.cache.slots.unpin(slot);
    }

    /// Tells the scheme what happened; its wishes join those that wait in the plan.
    #[inline(always)]
    pub(super) fn tell(&mut self, event: &Event<'_>) {
        let world = World {
            now: self.now,
            cache: &self.cache,
            array: &self.array,
            cost: &self.cost,
            filled: self.filled,
            blocks: self.array.capacity_blocks(),
            ahead_in_flight: self.stats.ahead_in_flight,
        };
        self.scheme.tell(event, &world, &mut self.plan);
        if !self.plan.wakes.is_empty() {
            self.wakes.extend(self.plan.wakes.drain(..).map(Reverse));
        }
        self.stats.wishes_dropped += core::mem::take(&mut self.plan.overflow);
    }

    /// Tells the scheme, if it listens, of a read that reaches a device.
    pub(super) fn tell_device(&mut self, read: &DeviceRead) {
        if self.hears.device_reads {
            self.tell(&Event::DeviceRead(read));
        }
    }

    /// When a part of the scheme wants to be woken next.
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.wakes.peek().map(|Reverse(wake)| wake.at)
    }
    /// The next wake-up that is due.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Wake> {
        self.next_wake().filter(|&at| at <= now)?;
        self.wakes.pop().map(|Reverse(wake)| wake)
    }

    /// Keeps from now on what leaves unread, for [`Memory::take_left_unread`].
    pub(super) fn keep_left_unread(&mut self) {
        self.left_unread.get_or_insert_default();
    }
    /// Moves what has left unread to the end of `into`.
    pub(super) fn take_left_unread(&mut self, into: &mut Vec<Extent>) {
        if let Some(left) = &mut self.left_unread {
            into.append(left);
        }
    }

    /// Tells the scheme, if it listens, how prefetched blocks ended. It is amid other work, so nothing is wished.
    fn tell_left(&mut self, extent: Extent, fate: Fate) {
        if let (Fate::Wasted, Some(left)) = (fate, &mut self.left_unread) {
            left.push(extent);
        }
        if self.hears.left && (fate == Fate::Wasted || self.hears.used) {
            let wished = self.plan.wishes.len();
            self.tell(&Event::Left(extent, fate));
            self.plan.wishes.truncate(wished);
        }
    }

    /// Changes one cell, and tells retention if the counts of its line are others now.
    fn change(&mut self, line: LineId, block: Block, change: impl FnOnce(&mut Cell)) {
        let counts = self.cache.set(line, block, change);
        self.recount(line, counts);
    }

    /// Tells retention of a change of a line's counts of cached and unread blocks.
    #[inline]
    fn recount(&mut self, line: LineId, (cached, unread): (i32, i32)) {
        if (cached, unread) != (0, 0) {
            self.scheme.retention().on_counts(line, cached, unread);
        }
    }

    /// Blocks of a line were given memory.
    pub(super) fn insert(&mut self, line: LineId, ahead: bool) {
        self.scheme.retention().on_insert(line, ahead, &self.cache);
    }

    /// A block that is here, and as what a read finds it.
    #[inline(always)]
    pub(super) fn here(&self, block: Block) -> Option<Here> {
        let line = self.cache.find(block)?;
        let place = self.cache.place(line, block);
        let cell = self.cache.at(place);
        let outcome = match cell.state {
            State::Cached => Outcome::CacheHit,
            State::Prefetched => Outcome::PrefetchHit,
            State::Empty | State::FetchDemand | State::FetchPrefetch => return None,
        };
        Some(Here { line, place, slot: cell.slot, outcome })
    }

    /// Tells of a hit on a block that is here; returns what retention would cull now.
    #[inline(always)]
    pub(super) fn hit(&mut self, block: Block, here: Here) -> Option<Victim> {
        let Here { line, place, outcome, .. } = here;
        self.tell_read(line, block, outcome == Outcome::PrefetchHit);
        if outcome == Outcome::PrefetchHit && self.cache.first_read(line, place) {
            self.stats.used += 1;
            if self.hears.used {
                self.recount(line, (1, -1));
                self.tell_left(Extent { start: block, blocks: 1 }, Fate::Used);
                let keep = self.scheme.retention();
                keep.on_hit(line, outcome, &self.cache);
                return keep.trim(&self.cache);
            }
        }
        self.scheme.retention().on_hit_here(line, outcome, &self.cache)
    }

    /// Fills `outcomes` for an extent; returns how many blocks must be fetched.
    pub(super) fn classify(&self, extent: Extent, outcomes: &mut Vec<Outcome>) -> u64 {
        outcomes.clear();
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            at = range.end();
            let Some(line) = self.cache.find(range.start) else {
                outcomes.resize(outcomes.len() + range.blocks as usize, Outcome::Miss);
                continue;
            };
            outcomes.extend(self.cache.cells_of(line, range).map(|cell| match cell.state {
                State::Empty => Outcome::Miss,
                State::Cached => Outcome::CacheHit,
                State::Prefetched => Outcome::PrefetchHit,
                State::FetchPrefetch => Outcome::LateHit,
                State::FetchDemand => Outcome::MergedMiss,
            }));
        }
        outcomes.iter().filter(|outcome| outcome.is_miss()).count() as u64
    }

    /// Shows the state of each block of an extent, line by line.
    pub(super) fn states(&self, extent: Extent, mut show: impl FnMut(State)) {
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            at = range.end();
            match self.cache.find(range.start) {
                Some(line) => self.cache.cells_of(line, range).for_each(|cell| show(cell.state)),
                None => (0..range.blocks).for_each(|_| show(State::Empty)),
            }
        }
    }

    /// A block that is no miss is asked for.
    pub(super) fn serve(&mut self, block: Block, outcome: Outcome) -> Served {
        let line = self.cache.find(block).expect("a block that is not a miss has a line");
        match outcome {
            Outcome::PrefetchHit => self.prove(line, block, State::Cached),
            Outcome::LateHit => {
                self.stats.ahead_in_flight -= 1;
                self.prove(line, block, State::FetchDemand);
            }
            Outcome::CacheHit | Outcome::MergedMiss | Outcome::Miss => {}
        }
        if outcome != Outcome::MergedMiss {
            self.tell_read(line, block, outcome != Outcome::CacheHit);
        }
        self.touch(line, outcome);
        let cell = self.cache.cell(line, block);
        match outcome {
            Outcome::LateHit | Outcome::MergedMiss => Served::Fetch(cell.fetch),
            _ => Served::Slot(cell.slot),
        }
    }

    /// Tells retention, if it listens, that a block is read.
    #[inline(always)]
    fn tell_read(&mut self, line: LineId, block: Block, first: bool) {
        if self.hears.reads {
            self.scheme.retention().on_read(line, block, first, &self.cache);
        }
    }

    /// Retention hears of a hit.
    pub(super) fn touch(&mut self, line: LineId, outcome: Outcome) {
        self.scheme.retention().on_hit(line, outcome, &self.cache);
    }

    /// A prefetched block is asked for.
    pub(super) fn prove(&mut self, line: LineId, block: Block, state: State) {
        let mut proved = false;
        self.change(line, block, |cell| {
            proved = core::mem::take(&mut cell.unproven);
            cell.state = state;
        });
        if proved {
            self.stats.used += 1;
            self.tell_left(Extent { start: block, blocks: 1 }, Fate::Used);
        }
    }

    /// A prefetched block turns out to be gone unread, though its cell still says that it is here.
    pub(super) fn disprove(&mut self, line: LineId, block: Block) {
        let cell = *self.cache.cell(line, block);
        if cell.state == State::Prefetched && cell.unproven {
            self.change(line, block, |cell| cell.unproven = false);
            self.waste(block, cell.state);
        }
    }

    /// Memory for every empty block of an extent, for a fetch that a reader waits for; there is enough.
    pub(super) fn fill_demand(&mut self, extent: Extent) {
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            at = range.end();
            let empty = |cell: &Cell| cell.state == State::Empty;
            if self.cache.find(range.start).is_none_or(|line| self.cache.cells_of(line, range).any(empty)) {
                let line = self.cache.ensure(range.start).0;
                let filled = self.cache.fill(line, range, range.blocks, State::FetchDemand, false);
                self.recount(line, (filled as i32, 0));
                self.insert(line, false);
                self.tell_misses(line, range);
            }
        }
    }

    /// Tells retention, if it listens, of the blocks of a range that were just given memory because a reader wants them.
    fn tell_misses(&mut self, line: LineId, range: Extent) {
        if !self.hears.reads {
            return;
        }
        for block in range.iter() {
            let cell = self.cache.cell(line, block);
            if cell.state == State::FetchDemand && cell.is_waiting() {
                self.tell_read(line, block, true);
            }
        }
    }

    /// Memory for the first `want` empty blocks of a range that lies in one line, for a prefetch.
    pub(super) fn fill_ahead(&mut self, range: Extent, want: u64, mass: bool) {
        let line = self.cache.ensure(range.start).0;
        let filled = self.cache.fill(line, range, want, State::FetchPrefetch, mass);
        self.stats.prefetched += u64::from(filled);
        self.stats.ahead_in_flight += u64::from(filled);
        self.stats.ahead_in_flight_peak = self.stats.ahead_in_flight_peak.max(self.stats.ahead_in_flight);
        self.recount(line, (0, filled as i32));
        self.insert(line, true);
    }

    /// From block `at` to `end`, the part that lies in one line, and how many of its blocks are empty.
    pub(super) fn empty_from(&self, at: u64, end: u64) -> (Extent, u64) {
        let range = self.cache.chunk(at, end).1;
        let Some(line) = self.cache.find(range.start) else { return (range, range.blocks) };
        let empty = |cells: &[Cell]| cells.iter().filter(|cell| cell.state == State::Empty).count();
        (range, self.cache.runs_of(line, range).map(empty).sum::<usize>() as u64)
    }

    /// A block that was not here is, without a fetch of ours; there is a free slot.
    pub(super) fn take_in(&mut self, block: Block) {
        let slot = self.cache.slots.take().expect("room was made");
        let line = self.cache.ensure(block).0;
        self.change(line, block, |cell| {
            *cell =
                Cell { slot, state: State::Cached, past: cell.past, dirty: cell.dirty, ..Cell::default() };
        });
        self.insert(line, false);
    }

    /// Whether a block has memory and still needs a fetch.
    pub(super) fn is_waiting(&self, block: Block) -> bool {
        self.cache.find(block).is_some_and(|line| self.cache.cell(line, block).is_waiting())
    }

    /// The span from the first to the last block of `piece` that waits for a fetch, and how many in it do.
    pub(super) fn waiting_in(&self, piece: Extent) -> (Extent, u64) {
        let (mut first, mut last, mut wanted) = (None, 0, 0);
        let mut at = piece.start.0;
        while at < piece.end() {
            let range = self.cache.chunk(at, piece.end()).1;
            at = range.end();
            let Some(line) = self.cache.find(range.start) else { continue };
            for (block, cell) in (range.start.0..).zip(self.cache.cells_of(line, range)) {
                if cell.is_waiting() {
                    first = first.or(Some(block));
                    last = block;
                    wanted += 1;
                }
            }
        }
        let span = first.map_or(Extent::default(), |first| Extent::new(first, last - first + 1));
        (span, wanted)
    }

    /// Names the fetch in those cells of `span` that wait for one, and lists their slots (NONE for the others).
    pub(super) fn assign(&mut self, span: Extent, fetch: u32, slots: &mut Vec<Slot>) {
        let mut at = span.start.0;
        while at < span.end() {
            let range = self.cache.chunk(at, span.end()).1;
            at = range.end();
            match self.cache.find(range.start) {
                Some(line) => self.cache.assign(line, range, fetch, slots),
                None => slots.resize(slots.len() + range.blocks as usize, Slot::NONE),
            }
        }
    }

    /// What a fetch brought is here: what a write overtook enters nothing, and neither do the blocks that did not come (by index: a
    /// range, and runs).
    pub(super) fn land(
        &mut self,
        fetch: u32,
        extent: Extent,
        slots: &[Slot],
        (bad, holes): ((u64, u64), &[Extent]),
    ) {
        if bad.0 >= bad.1 && holes.is_empty() && self.land_all(fetch, extent, slots) {
            return;
        }
        for (index, (block, &slot)) in (0..).zip(extent.iter().zip(slots)) {
            if slot.is_some() {
                let hole = holes.iter().any(|hole| hole.contains(Block(index)));
                let good = !(hole || (bad.0..bad.1).contains(&index));
                self.land_block(fetch, block, slot, good);
            }
        }
    }

    /// The plain case: all blocks of a fetch came and no write overtook any. False, and nothing done, otherwise.
    fn land_all(&mut self, fetch: u32, extent: Extent, slots: &[Slot]) -> bool {
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            let slots = &slots[(at - extent.start.0) as usize..][..range.blocks as usize];
            at = range.end();
            let current = match self.cache.find(range.start) {
                Some(line) => {
                    let mut left = slots;
                    self.cache.runs_of(line, range).all(|cells| {
                        let (these, rest) = left.split_at(cells.len());
                        left = rest;
                        these.iter().zip(cells).all(|(slot, cell)| !slot.is_some() || cell.fetch == fetch)
                    })
                }
                None => slots.iter().all(|slot| !slot.is_some()),
            };
            if !current {
                return false;
            }
        }
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            at = range.end();
            if let Some(line) = self.cache.find(range.start) {
                self.stats.ahead_in_flight -= u64::from(self.cache.land(line, range, fetch));
            }
        }
        true
    }

    /// One block of a fetch: it fills its cell, unless a write has overtaken it or it failed.
    fn land_block(&mut self, fetch: u32, block: Block, slot: Slot, good: bool) {
        let line = self.cache.find(block).filter(|&line| self.cache.cell(line, block).fetch == fetch);
        let Some(line) = line else {
            // A write replaced the cell while this was in flight: what came is stale and enters nothing.
            self.stats.stale_blocks += 1;
            if planted::is(Bug::KeepStale) && self.keep_stale(block, slot) {
                return;
            }
            self.cache.slots.disown(slot);
            return;
        };
        if !good {
            self.stats.blocks_failed += 1;
            self.drop_block(block);
            return;
        }
        let prefetched = self.cache.cell(line, block).state == State::FetchPrefetch;
        self.change(line, block, |cell| {
            cell.state = if prefetched { State::Prefetched } else { State::Cached };
            cell.fetch = NO_FETCH;
        });
        if prefetched {
            self.stats.ahead_in_flight -= 1;
        }
    }

    /// The planted bug: what is stale replaces a clean block that is here.
    fn keep_stale(&mut self, block: Block, slot: Slot) -> bool {
        let Some(line) = self.cache.find(block) else { return false };
        let cell = *self.cache.cell(line, block);
        let here = cell.state == State::Cached && !self.cache.slots.is_pinned(cell.slot);
        if here {
            self.cache.slots.disown(cell.slot);
            self.change(line, block, |cell| cell.slot = slot);
        }
        here
    }

    /// Slots that a write of `extent` needs.
    pub(super) fn needed(&self, extent: Extent) -> u64 {
        extent.iter().filter(|&block| self.needs_slot(block)).count() as u64
    }

    fn needs_slot(&self, block: Block) -> bool {
        self.cache.find(block).is_none_or(|line| {
            let cell = self.cache.cell(line, block);
            let here = matches!(cell.state, State::Cached | State::Prefetched);
            !here || self.cache.slots.is_pinned(cell.slot)
        })
    }

    /// One block is replaced; there are slots. A fetch in flight for it is stale.
    pub(super) fn write(&mut self, block: Block) -> Written {
        let fresh = self.needs_slot(block);
        let (line, _) = self.cache.ensure(block);
        let old = *self.cache.cell(line, block);
        let slot = if fresh { self.cache.slots.take().expect("room was made") } else { old.slot };
        if old.unproven {
            self.waste(block, old.state);
        }
        self.change(line, block, |cell| {
            *cell = Cell { slot, state: State::Cached, dirty: true, past: cell.past, ..Cell::default() };
        });
        let overtaken = match old.state {
            State::FetchDemand | State::FetchPrefetch => Some(old.fetch),
            State::Cached | State::Prefetched => {
                if fresh {
                    self.cache.slots.disown(old.slot);
                }
                None
            }
            State::Empty => None,
        };
        Written { line, slot, overtaken }
    }

    /// Bitmaps of the dirty and the resident blocks of a part of a stripe that begins so many blocks after it.
    pub(super) fn map(&self, part: Extent, begins: u64, dirty: &mut [u64], resident: &mut [u64]) {
        for (bit, block) in (begins as usize..).zip(part.iter()) {
            let Some(here) = self.here(block) else { continue };
            resident[bit / 64] |= 1 << (bit % 64);
            if self.cache.at(here.place).dirty {
                dirty[bit / 64] |= 1 << (bit % 64);
            }
        }
    }

    /// Pins and lists the blocks of a stripe, or of a part of it, that are here, and lists the dirty ones of them.
    pub(super) fn pin_stripe(
        &mut self,
        stripe: Extent,
        pinned: &mut Vec<(Block, Slot)>,
        dirty: &mut Vec<(Block, Slot)>,
    ) {
        for block in stripe.iter() {
            let Some(here) = self.here(block) else { continue };
            self.cache.slots.pin(here.slot);
            pinned.push((block, here.slot));
            if self.cache.at(here.place).dirty {
                dirty.push((block, here.slot));
            }
        }
    }

    /// A block is on the members, unless it was rewritten meanwhile into another slot.
    pub(super) fn clean(&mut self, block: Block, slot: Slot) {
        if let Some(line) = self.cache.find(block)
            && self.cache.cell(line, block).slot == slot
        {
            self.change(line, block, |cell| cell.dirty = false);
        }
    }

    /// A block leaves whose write failed, unless it was rewritten meanwhile into another slot.
    pub(super) fn drop_slot(&mut self, block: Block, slot: Slot) {
        if self.cache.find(block).is_some_and(|line| self.cache.cell(line, block).slot == slot) {
            self.drop_block(block);
        }
    }

    /// The dirty blocks of a stripe leave, unwritten.
    pub(super) fn give_up(&mut self, stripe: Extent) {
        for block in stripe.iter() {
            if let Some(line) = self.cache.find(block).filter(|&line| self.cache.cell(line, block).dirty) {
                self.change(line, block, |cell| cell.dirty = false);
                self.drop_block(block);
            }
        }
    }
}
