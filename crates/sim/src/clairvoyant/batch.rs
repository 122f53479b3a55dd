//! What the oracle reads next: batches of missing blocks, each within memory and in the order of places.
//!
//! The future is scanned from where it was left off. A missing block that is read there joins the batch if there is memory for
//! it: a free slot, or that of a block which is needed later (never one that is needed sooner). When the batch is full its
//! blocks are sorted by place, and runs are made of them; where reading over a short gap costs less time than a command of
//! its own, a run goes on behind the gap. The next batch is gathered when half of the last one is here.

use super::future::{Future, Key, NEVER, Position};
use super::kept::Kept;
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::policy::{Plan, WISHES_MAX, When};
use forerun_core::units::{Block, Extent};
use std::collections::VecDeque;

/// A scan that found no memory is tried again after so many accesses, as a share of the batch: one in this many.
const RETRY_ONE_IN: u64 = 8;

/// What decides whether a block may be fetched.
pub(super) struct View<'a> {
    pub(super) future: &'a Future,
    pub(super) kept: &'a Kept,
    pub(super) cache: &'a Cache,
    /// Blocks of the access of this very event: fetched for a reader, if they are not here.
    pub(super) busy: Extent,
    /// Slots that are nobody's.
    pub(super) free: u64,
    /// Prefetched blocks on their way.
    pub(super) in_flight: u64,
    /// Accesses that have happened, in blocks.
    pub(super) seen: u64,
}

/// Memory for a batch: what is free, then what is needed farthest in the future.
struct Room<I> {
    free: u64,
    victims: I,
    /// Blocks of use that may still be pushed out by what is read over.
    harm: u64,
}

impl<I: Iterator<Item = Position>> Room<I> {
    /// Takes memory for a block that is needed at `position`, and does no harm (rule 3).
    fn take(&mut self, position: Position) -> bool {
        if self.free > 0 {
            self.free -= 1;
            return true;
        }
        self.victims.next().is_some_and(|next| next > position)
    }
    /// Takes memory for a block between two that are wanted: it is of no use and leaves first, and may push out what is.
    fn take_between(&mut self) -> bool {
        if self.free > 0 {
            self.free -= 1;
            return true;
        }
        let Some(next) = self.victims.next() else { return false };
        let harms = u64::from(next != NEVER);
        let may = harms <= self.harm;
        self.harm -= if may { harms } else { 0 };
        may
    }
}

/// The batch under way.
pub(super) struct Batches {
    array: Array,
    /// Most blocks of a batch.
    size: u64,
    /// A run goes on over a gap of so many blocks.
    gap: u64,
    /// How many accesses ahead it looks.
    window: u64,
    /// Positions below have been looked at.
    scanned: Position,
    /// Blocks that were to be here and are not: evicted again, or dropped.
    again: Vec<Key>,
    /// Runs that have not been wished for yet, and their blocks.
    ready: VecDeque<Extent>,
    ready_blocks: u64,
    /// No memory was found: no scan until so many accesses have happened.
    retry: u64,
    /// Blocks that may still be pushed out by what is read over, and from how many accesses on it is a whole batch again: each is read again,
    /// over other gaps, and where no access comes for long that would never end.
    harm: (u64, u64),
    /// Wishes of the last event: whether the engine took them is seen at the next.
    unsure: Vec<Extent>,
}

impl Batches {
    pub(super) fn new(array: Array, size: u64, gap: u64, window: u64) -> Self {
        Self {
            array,
            size: size.max(1),
            gap,
            window,
            scanned: 0,
            again: Vec::new(),
            ready: VecDeque::new(),
            ready_blocks: 0,
            retry: 0,
            harm: (0, 0),
            unsure: Vec::new(),
        }
    }

    /// Positions below have been looked at.
    pub(super) const fn scanned(&self) -> Position {
        self.scanned
    }

    /// A block is not here: it is read again if its next use has been looked at already.
    pub(super) fn miss(&mut self, key: Key, future: &Future) {
        if future.next_read(key) < self.scanned {
            self.again.push(key);
        }
    }

    /// Wishes that the engine dropped (no memory) are made again.
    pub(super) fn settle(&mut self, future: &Future, kept: &Kept) {
        for extent in core::mem::take(&mut self.unsure) {
            for key in extent.iter().filter_map(|block| future.key(block)) {
                if !kept.has(key) {
                    self.miss(key, future);
                }
            }
        }
    }

    /// Wishes for as much of the batch as the plan holds; gathers the next one when it is time.
    pub(super) fn wish(&mut self, view: &View<'_>, plan: &mut Plan) {
        if 2 * (self.ready_blocks + view.in_flight) <= self.size && self.may_scan(view) {
            self.gather(view);
        }
        while plan.wishes().len() < WISHES_MAX
            && let Some(extent) = self.ready.pop_front()
        {
            self.ready_blocks -= extent.blocks;
            self.unsure.push(extent);
            plan.fetch(extent, When::Ahead);
        }
    }

    /// A missing block is read for somebody: what lies beside it in its strip and is read later comes along, for which there is
    /// memory. A reader that runs ahead of the order of the recording is served by strips and not by blocks.
    pub(super) fn widen(&self, view: &View<'_>, missing: Block, plan: &mut Plan) {
        let strip = self.array.strip_extent(self.array.strip_of(missing));
        let free = view.free.saturating_sub(self.ready_blocks);
        let promised = usize::try_from(self.ready_blocks.saturating_sub(view.free)).unwrap_or(usize::MAX);
        let victims = view.kept.victims(view.cache, view.busy).skip(promised);
        let mut room = Room { free, victims, harm: 0 };
        let mut joins = |block: u64| {
            let key = view.future.key(Block(block)).filter(|&key| !view.kept.has(key));
            let next = key.map_or(NEVER, |key| view.future.next_read(key));
            view.busy.contains(Block(block)) || (next != NEVER && room.take(next))
        };
        let end = (missing.0 + 1..strip.end()).find(|&block| !joins(block)).unwrap_or(strip.end());
        let start =
            (strip.start.0..missing.0).rev().find(|&block| !joins(block)).map_or(strip.start.0, |b| b + 1);
        plan.fetch(Extent::new(start, end - start), When::WithDemand);
    }

    /// A scan that found no memory is not made at every event: each costs as much as the batch is long.
    fn may_scan(&self, view: &View<'_>) -> bool {
        view.seen >= self.retry || self.ready_blocks + view.in_flight == 0
    }

    /// The next batch.
    fn gather(&mut self, view: &View<'_>) {
        let most = self.size.saturating_sub(self.ready_blocks + view.in_flight);
        // Memory of what is wished for and not under way is spoken for.
        let promised = usize::try_from(self.ready_blocks.saturating_sub(view.free)).unwrap_or(usize::MAX);
        let free = view.free.saturating_sub(self.ready_blocks);
        let victims = view.kept.victims(view.cache, view.busy).skip(promised);
        if self.harm.1 <= view.seen {
            self.harm = (self.size, view.seen + 1);
        }
        let mut room = Room { free, victims, harm: self.harm.0 };
        let mut chosen: Vec<u64> = Vec::new();
        let mut short = self.gather_again(view, most, &mut room, &mut chosen);
        let end = view.seen.saturating_add(self.window).min(u64::from(view.future.positions()));
        while !short && (chosen.len() as u64) < most && u64::from(self.scanned) < end {
            let position = self.scanned;
            let key = view.future.whose(position);
            let block = view.future.block(key);
            let wanted = view.future.next_read(key) == position && !view.kept.has(key);
            if wanted && !view.busy.contains(block) {
                if !room.take(position) {
                    short = true;
                    break;
                }
                chosen.push(block.0);
            }
            self.scanned += 1;
        }
        if short {
            self.retry = view.seen + self.size / RETRY_ONE_IN;
        }
        chosen.sort_unstable();
        chosen.dedup();
        self.make_runs(&chosen, &mut room);
        self.harm.0 = room.harm;
    }

    /// What was to be here and is not, the first needed first. True if memory is short.
    fn gather_again<I: Iterator<Item = Position>>(
        &mut self,
        view: &View<'_>,
        most: u64,
        room: &mut Room<I>,
        chosen: &mut Vec<u64>,
    ) -> bool {
        let mut again: Vec<(Position, Key)> = core::mem::take(&mut self.again)
            .into_iter()
            .map(|key| (view.future.next_read(key), key))
            .filter(|&(next, key)| next != NEVER && !view.kept.has(key))
            .collect();
        again.sort_unstable();
        again.dedup();
        let mut short = false;
        for (next, key) in again {
            short = short || chosen.len() as u64 >= most || !room.take(next);
            if short || view.busy.contains(view.future.block(key)) {
                self.again.push(key);
            } else {
                chosen.push(view.future.block(key).0);
            }
        }
        short
    }

    /// Runs of the chosen blocks, which are in order.
    fn make_runs<I: Iterator<Item = Position>>(&mut self, chosen: &[u64], room: &mut Room<I>) {
        let mut run: Option<Extent> = None;
        for &block in chosen {
            if let Some(open) = &mut run {
                let between = block - open.end();
                let joins = between <= self.gap
                    && self.in_one_strip(open.start, block)
                    && (0..between).all(|_| room.take_between());
                if joins {
                    open.blocks += between + 1;
                    continue;
                }
                self.push(*open);
            }
            run = Some(Extent::new(block, 1));
        }
        run.into_iter().for_each(|open| self.push(open));
    }

    fn in_one_strip(&self, first: Block, last: u64) -> bool {
        self.array.strip_of(first) == self.array.strip_of(Block(last))
    }

    fn push(&mut self, run: Extent) {
        self.ready_blocks += run.blocks;
        self.ready.push_back(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::access::Op;
    use forerun_core::array::ArraySpec;

    fn wished(order: &[u64], size: u64, gap: u64, free: u64) -> Vec<(u64, u64)> {
        let array = Array::new("single:64KiB".parse::<ArraySpec>().unwrap(), 1 << 20).unwrap();
        let order = order.iter().map(|&b| (Extent::new(b, 1), Op::Read)).collect();
        let (future, kept, cache) = (Future::of(&order), Kept::default(), Cache::new(1, 64));
        let view = View {
            future: &future,
            kept: &kept,
            cache: &cache,
            busy: Extent::default(),
            free,
            in_flight: 0,
            seen: 0,
        };
        let (mut batches, mut plan) = (Batches::new(array, size, gap, u64::MAX), Plan::new());
        batches.wish(&view, &mut plan);
        plan.wishes().iter().map(|wish| (wish.extent.start.0, wish.extent.blocks)).collect()
    }

    #[test]
    fn a_batch_goes_by_place_and_reads_over_short_gaps_within_a_strip() {
        let order = [40, 3, 41, 0, 17, 15];
        assert_eq!(wished(&order, 8, 0, 64), [(0, 1), (3, 1), (15, 1), (17, 1), (40, 2)]);
        assert_eq!(
            wished(&order, 8, 2, 64),
            [(0, 4), (15, 1), (17, 1), (40, 2)],
            "strips are 16 blocks long"
        );
    }

    #[test]
    fn what_is_needed_first_comes_into_a_small_batch_or_little_memory() {
        let order = [40, 3, 41, 0];
        assert_eq!(wished(&order, 2, 0, 64), [(3, 1), (40, 1)]);
        assert_eq!(wished(&order, 4, 0, 3), [(3, 1), (40, 2)], "nothing may leave for the fourth");
        assert_eq!(wished(&[9, 9, 9, 5], 4, 0, 64), [(5, 1), (9, 1)], "once");
    }
}
