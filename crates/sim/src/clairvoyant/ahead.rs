//! The fetching half of the oracle: which missing blocks wait for which disk, and what is under way.
//!
//! Positions in the window whose blocks are missing wait per disk, ordered by use. A free disk (fewer than [`BATCH`]
//! commands of ours) takes the one needed first, with the run of its strip that is missing and in the window too:
//! one command costs one positioning. Entries are not taken out when they stop being true (the block was read, or a
//! neighbour's run brought it): they are dropped when they come up.

use super::future::{Future, Key, Position};
use super::kept::Kept;
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::policy::{Fetched, Plan, WISHES_MAX, When};
use forerun_core::units::{Block, Extent};
use std::collections::BTreeSet;

/// Prefetch commands outstanding at a disk. 16, as in algorithms.md 7.12; also what the dispatch lets through.
const BATCH: u32 = 16;
/// Most blocks of one wish: what the host layer reads with one command, 512 KiB.
const RUN_BLOCKS_MAX: u64 = 128;
/// Share of the cache that may be in flight ahead of need, one in so many: the budget that hosts give the engine.
const AHEAD_ONE_IN: u64 = 4;

/// What decides whether a block may be fetched.
pub(super) struct View<'a> {
    pub(super) future: &'a Future,
    pub(super) kept: &'a Kept,
    /// Blocks of the access of this very event: fetched for a reader, if they are not here.
    pub(super) busy: Extent,
    /// Slots that are nobody's.
    pub(super) free: u64,
}

/// Memory for the wishes of one event: what is free, then what is needed farthest in the future.
struct Room<I> {
    free: u64,
    victims: I,
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
}

/// What waits and what is under way, per disk.
pub(super) struct Ahead {
    array: Array,
    /// Positions below have been looked at.
    scanned: Position,
    waiting: Vec<BTreeSet<Position>>,
    outstanding: Vec<u32>,
    in_flight: u64,
    in_flight_max: u64,
    /// Wishes of the last event: whether the engine took them is seen at the next.
    unsure: Vec<(usize, Extent)>,
}

impl Ahead {
    pub(super) fn new(array: Array, cache_blocks: u64) -> Self {
        let disks = usize::from(array.disks());
        Self {
            array,
            scanned: 0,
            waiting: vec![BTreeSet::new(); disks],
            outstanding: vec![0; disks],
            in_flight: 0,
            in_flight_max: cache_blocks / AHEAD_ONE_IN,
            unsure: Vec::new(),
        }
    }

    fn disk(&self, block: Block) -> usize {
        let direct = self.array.direct(Extent { start: block, blocks: 1 });
        usize::from(direct.expect("a recorded block lies within the volume").disk.0)
    }

    /// Positions below have been looked at.
    pub(super) const fn scanned(&self) -> Position {
        self.scanned
    }

    /// A block is not here: it waits if its next use has been looked at already.
    pub(super) fn miss(&mut self, key: Key, future: &Future) {
        let next = future.next_read(key);
        if next < self.scanned {
            let disk = self.disk(future.block(key));
            self.waiting[disk].insert(next);
        }
    }

    /// Looks at the positions below `end`.
    pub(super) fn scan(&mut self, end: u64, future: &Future, kept: &Kept) {
        while u64::from(self.scanned) < end.min(u64::from(future.positions())) {
            let position = self.scanned;
            self.scanned += 1;
            let key = future.whose(position);
            if !kept.has(key) && future.next_read(key) == position {
                self.miss(key, future);
            }
        }
    }

    /// Wishes that the engine dropped (no memory) wait again.
    pub(super) fn settle(&mut self, future: &Future, kept: &Kept) {
        for (disk, extent) in core::mem::take(&mut self.unsure) {
            let mut landed = false;
            for key in extent.iter().filter_map(|block| future.key(block)) {
                if kept.has(key) {
                    landed = true;
                } else {
                    self.in_flight -= 1;
                    self.miss(key, future);
                }
            }
            if !landed {
                self.outstanding[disk] -= 1;
            }
        }
    }

    /// One of our commands has ended.
    pub(super) fn arrived(&mut self, fetched: &Fetched) {
        let disk = self.disk(fetched.extent.start);
        self.outstanding[disk] = self.outstanding[disk].saturating_sub(1);
        self.in_flight = self.in_flight.saturating_sub(fetched.extent.blocks);
    }

    /// Wishes for as much as disks, memory and the plan allow.
    pub(super) fn wish(&mut self, view: &View<'_>, cache: &Cache, plan: &mut Plan) {
        let mut room = Room { free: view.free, victims: view.kept.victims(cache, view.busy) };
        while plan.wishes().len() < WISHES_MAX && self.in_flight < self.in_flight_max {
            let Some((disk, position, block)) = self.first(view) else { break };
            if !room.take(position) {
                break;
            }
            self.waiting[disk].remove(&position);
            let extent = self.run(disk, block, view, &mut room);
            self.outstanding[disk] += 1;
            self.in_flight += extent.blocks;
            self.unsure.push((disk, extent));
            plan.fetch(extent, When::Ahead);
        }
    }

    /// The next use of a block, if it may be fetched now.
    fn candidate(&self, block: Block, view: &View<'_>) -> Option<Position> {
        let key = view.future.key(block)?;
        let next = view.future.next_read(key);
        (next < self.scanned && !view.kept.has(key) && !view.busy.contains(block)).then_some(next)
    }

    /// Of the blocks that come first on their free disks, the one needed first of all.
    fn first(&mut self, view: &View<'_>) -> Option<(usize, Position, Block)> {
        let mut best: Option<(usize, Position, Block)> = None;
        for disk in 0..self.waiting.len() {
            if self.outstanding[disk] >= BATCH {
                continue;
            }
            while let Some(&position) = self.waiting[disk].first() {
                let block = view.future.block(view.future.whose(position));
                if self.candidate(block, view) == Some(position) {
                    if best.is_none_or(|(_, other, _)| position < other) {
                        best = Some((disk, position, block));
                    }
                    break;
                }
                self.waiting[disk].pop_first();
            }
        }
        best
    }

    /// The run around `block` within its strip that may be fetched too. What joins it waits no longer.
    fn run<I: Iterator<Item = Position>>(
        &mut self,
        disk: usize,
        block: Block,
        view: &View<'_>,
        room: &mut Room<I>,
    ) -> Extent {
        let strip = self.array.strip_extent(self.array.strip_of(block));
        let longest = RUN_BLOCKS_MAX.min(self.in_flight_max - self.in_flight);
        let (mut start, mut end) = (block.0, block.0 + 1);
        let mut join = |ahead: &mut Self, block: u64| {
            let Some(next) = ahead.candidate(Block(block), view) else { return false };
            // Another wish of this event has it already unless it still waits.
            ahead.waiting[disk].contains(&next) && room.take(next) && ahead.waiting[disk].remove(&next)
        };
        while end < strip.end() && end - start < longest && join(self, end) {
            end += 1;
        }
        while start > strip.start.0 && end - start < longest && join(self, start - 1) {
            start -= 1;
        }
        Extent::new(start, end - start)
    }
}
