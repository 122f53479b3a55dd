//! Leaving: making room, culling, and what becomes of lines whose last block has gone.

use super::Memory;
use crate::cache::{Cell, LineId, State};
use crate::policy::{Fate, Outcome};
use crate::retention::contract::{Afterlife, Victim};
use crate::units::{Block, Extent};
use alloc::vec::Vec;

/// Most victims proposed for one need before the need has to wait. Lines in flight or dirty are refused; more
/// refusals than this in a row mean that nearly everything is in flight or dirty.
const PROPOSALS_MAX: u32 = 256;

/// Times that a retention may run out of victims before the need has to wait.
const LAPS_MAX: u32 = 2;

/// Whether there is room.
pub(in crate::engine) enum Room {
    /// So many slots are free.
    Made,
    /// That cannot be had now.
    Short,
    /// This line is in the way and dirty: ask again once it was told to go to the members ([`Memory::stays`]).
    Dirty(LineId),
}

/// How far the search for victims has come, for one need.
#[derive(Default)]
pub(in crate::engine) struct Search {
    proposals: u32,
    laps: u32,
}

impl Memory {
    /// Evicts until `need` slots are free.
    pub(in crate::engine) fn make_room(&mut self, need: u64, search: &mut Search) -> Room {
        self.filled = true;
        while self.cache.slots.available() < need || self.cache.slots.is_over() {
            if search.proposals == PROPOSALS_MAX {
                return Room::Short;
            }
            search.proposals += 1;
            let Some(victim) = self.scheme.retention().victim(&self.cache) else {
                // Lines refused for an earlier need stand aside until a lap ends; by now they may be willing.
                search.laps += 1;
                if search.laps == LAPS_MAX {
                    return Room::Short;
                }
                continue;
            };
            match victim {
                Victim::Block(block) => {
                    search.proposals -= 1; // it is never refused
                    self.leave(block);
                }
                Victim::Unread(line) => self.cull(line),
                Victim::Whole(line) => {
                    let state = self.cache.line(line);
                    if state.dirty > 0 {
                        return Room::Dirty(line);
                    }
                    if state.in_flight > 0 {
                        self.refuse(line);
                    } else {
                        self.evict(line);
                    }
                }
            }
        }
        Room::Made
    }

    /// A dirty line in the way has been told to go to the members; unless that was given up it stays for now.
    pub(in crate::engine) fn stays(&mut self, line: LineId) {
        let state = self.cache.line(line);
        if state.used && !state.is_empty() {
            self.refuse(line);
        }
    }

    /// A proposed victim cannot leave now.
    fn refuse(&mut self, line: LineId) {
        self.scheme.retention().second_chance(line);
        self.forget_ghosts();
    }

    /// Lets the retention cull what should leave without pressure.
    pub(in crate::engine) fn trim(&mut self) {
        while let Some(victim) = self.scheme.retention().trim(&self.cache) {
            self.trim_one(victim);
        }
        if self.cache.is_table_full() {
            self.thin_table();
        }
    }

    /// Lines leave until the table is within its memory: slots do not bound it where long lines hold few blocks each. What
    /// is in flight or dirty stays for now, so that the bound may be passed by as many lines as that is.
    #[cold]
    fn thin_table(&mut self) {
        self.filled = true;
        let (mut refused, mut laps) = (0, 0);
        while self.cache.is_table_full() && refused < PROPOSALS_MAX && laps < LAPS_MAX {
            match self.scheme.retention().victim(&self.cache) {
                None => laps += 1,
                Some(Victim::Block(block)) => self.leave(block),
                Some(Victim::Unread(line)) => {
                    refused += 1;
                    self.cull(line);
                }
                Some(Victim::Whole(line)) => {
                    let state = *self.cache.line(line);
                    if state.dirty > 0 || state.in_flight > 0 {
                        refused += 1;
                        self.refuse(line);
                    } else {
                        self.evict(line);
                    }
                }
            }
        }
    }

    pub(in crate::engine) fn trim_one(&mut self, victim: Victim) {
        match victim {
            Victim::Block(block) => self.leave(block),
            Victim::Unread(line) => self.cull(line),
            Victim::Whole(line) => {
                let state = self.cache.line(line);
                if state.dirty == 0 && state.in_flight == 0 {
                    self.evict(line);
                }
            }
        }
    }

    /// Empties a line; remembers in each cell whether it was requested in the life that ends.
    pub(super) fn evict(&mut self, line: LineId) {
        let remembers = self.cache.line(line).cached > 0;
        self.clear_cells(
            line,
            |_| true,
            |cell| if remembers { cell.state == State::Cached } else { cell.past },
        );
        self.emptied(line);
    }

    /// Evicts a block that was read; one that is dirty stays.
    fn leave(&mut self, block: Block) {
        if self
            .here(block)
            .is_some_and(|here| here.outcome == Outcome::CacheHit && !self.cache.at(here.place).dirty)
        {
            self.drop_block(block);
        }
    }

    /// Evicts the blocks that nobody has read and that were not read in the past life either.
    fn cull(&mut self, line: LineId) {
        if self.cache.line(line).unread == 0 {
            return;
        }
        let goes = |cell: &Cell| cell.state == State::Prefetched && !cell.past && !cell.dirty;
        self.clear_cells(line, goes, |cell| cell.past);
        if self.cache.line(line).is_empty() {
            self.emptied(line);
        }
    }

    /// Empties the cells that go, keeps in them what is said of their past, and tells retention and policy once a line
    /// and once a run.
    fn clear_cells(&mut self, line: LineId, goes: impl Fn(&Cell) -> bool, past: impl Fn(&Cell) -> bool) {
        let start = self.cache.line_extent(self.cache.line(line).number).start;
        let mut runs = core::mem::take(&mut self.unread_runs);
        let counts = self.cache.clear(line, goes, past, |k| match runs.last_mut() {
            Some(run) if run.end() == start.0 + k => run.blocks += 1,
            _ => runs.push(Extent { start: start.plus(k), blocks: 1 }),
        });
        for run in runs.drain(..) {
            self.stats.wasted += run.blocks;
            self.tell_left(run, Fate::Wasted);
        }
        self.unread_runs = runs;
        self.recount(line, counts);
    }

    /// One block leaves. Its slot is free once nobody copies from it.
    fn empty_cell(&mut self, line: LineId, block: Block) {
        let cell = *self.cache.cell(line, block);
        if cell.state == State::Empty {
            return;
        }
        if cell.slot.is_some() {
            self.cache.slots.disown(cell.slot);
        }
        self.change(line, block, |cell| *cell = Cell { past: cell.past, ..Cell::default() });
        if cell.unproven {
            self.waste(block, cell.state);
        }
    }

    /// A prefetched block ends unread.
    pub(super) fn waste(&mut self, block: Block, state: State) {
        self.stats.wasted += 1;
        if state == State::FetchPrefetch {
            self.stats.ahead_in_flight -= 1;
        }
        self.tell_left(Extent { start: block, blocks: 1 }, Fate::Wasted);
    }

    /// The last block of a line has gone.
    fn emptied(&mut self, line: LineId) {
        if self.scheme.retention().on_emptied(line, &self.cache) == Afterlife::Forget {
            self.cache.forget(line);
        }
        self.forget_ghosts();
    }

    /// Ghosts are forgotten as soon as retention says so: later their line may be alive again.
    fn forget_ghosts(&mut self) {
        while let Some(ghost) = self.scheme.retention().forgotten() {
            self.cache.forget(ghost);
        }
    }

    /// A block that is clean or was never here leaves, and its line if it was the last.
    pub(super) fn drop_block(&mut self, block: Block) {
        if let Some(line) = self.cache.find(block) {
            self.empty_cell(line, block);
            if self.cache.line(line).is_empty() {
                self.emptied(line);
            }
        }
    }

    /// A layer that keeps nothing drops what nobody uses any more.
    pub(in crate::engine) fn drop_unpinned(&mut self, extent: Extent) {
        for block in extent.iter() {
            if let Some(here) = self.here(block)
                && !self.cache.at(here.place).dirty
                && !self.cache.slots.is_pinned(here.slot)
            {
                self.drop_block(block);
            }
        }
    }

    /// The blocks of an extent that are clean leave, and those in flight that nobody waits for are expected no more.
    pub(in crate::engine) fn gone(&mut self, extent: Extent) {
        let lines = self.cache.lines_made();
        if extent.blocks / self.cache.line_extent(0).blocks <= lines as u64 {
            let mut at = extent.start.0;
            while at < extent.end() {
                let range = self.cache.chunk(at, extent.end()).1;
                at = range.end();
                self.range_gone(range);
            }
            return;
        }
        // Fewer lines than the extent has places for, as of a large sparse file: they are gone through, in the same order.
        let all =
            (0..lines).map(|index| LineId(u32::try_from(index).expect("lines are numbered in 32 bits")));
        let there = all.map(|line| *self.cache.line(line)).filter(|line| line.used && !line.is_empty());
        let mut ranges: Vec<Extent> =
            there.map(|line| self.cache.line_extent(line.number).intersect(extent)).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.into_iter().filter(|range| !range.is_empty()).for_each(|range| self.range_gone(range));
    }

    /// The same of a range that lies in one line.
    fn range_gone(&mut self, range: Extent) {
        // A ghost has nothing to lose.
        let line = self.cache.find(range.start).filter(|&line| !self.cache.line(line).is_empty());
        let Some(line) = line else { return };
        for block in range.iter() {
            self.block_gone(line, block);
        }
        if self.cache.line(line).is_empty() {
            self.emptied(line);
        }
    }

    fn block_gone(&mut self, line: LineId, block: Block) {
        let cell = *self.cache.cell(line, block);
        match cell.state {
            State::Cached | State::Prefetched if !cell.dirty => self.empty_cell(line, block),
            // Its slot is the fetch's until that ends: it is stale like one that a write has overtaken.
            State::FetchPrefetch => {
                self.change(line, block, |cell| *cell = Cell { past: cell.past, ..Cell::default() });
                if cell.unproven {
                    self.waste(block, cell.state);
                }
            }
            State::Cached | State::Prefetched | State::FetchDemand | State::Empty => {}
        }
    }

    /// Everything that can leave leaves: what is in flight, or written and not on the members yet, stays.
    pub(in crate::engine) fn drop_all(&mut self) {
        for index in 0..self.cache.lines_made() {
            let line = LineId(u32::try_from(index).expect("lines are numbered in 32 bits"));
            let state = *self.cache.line(line);
            if state.used && !state.is_empty() && state.dirty == 0 && state.in_flight == 0 {
                self.evict(line);
            }
        }
    }
}
