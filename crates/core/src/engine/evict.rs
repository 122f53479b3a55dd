//! Leaving: making room, culling, and what becomes of lines whose last block has gone.

use super::Engine;
use crate::cache::{Cell, LineId, State};
use crate::policy::Fate;
use crate::retention::keep::{Afterlife, Victim};
use crate::slots::Slot;
use crate::units::{Block, Extent, Nanos};

/// Most victims proposed for one need before the need has to wait. Lines in flight or dirty are refused; more
/// refusals than this in a row mean that nearly everything is in flight or dirty.
const PROPOSALS_MAX: u32 = 256;

/// Times that a retention may run out of victims before the need has to wait.
const LAPS_MAX: u32 = 2;

impl Engine {
    /// Evicts until `need` slots are free. False when that cannot be had now.
    pub(super) fn make_room(&mut self, now: Nanos, need: u64) -> bool {
        self.filled = true;
        let mut proposals = 0;
        let mut laps = 0;
        while self.cache.slots.available() < need {
            if proposals == PROPOSALS_MAX {
                return false;
            }
            proposals += 1;
            let Some(victim) = self.scheme.retention().victim(&self.cache) else {
                // Lines refused for an earlier need stand aside until a lap ends; by now they may be willing.
                laps += 1;
                if laps == LAPS_MAX {
                    return false;
                }
                continue;
            };
            match victim {
                Victim::Unread(line) => self.cull(line),
                Victim::Whole(line) => {
                    let state = *self.cache.line(line);
                    if state.dirty > 0 {
                        self.destage_line(now, line);
                        if !self.cache.line(line).used || self.cache.line(line).is_hollow() {
                            continue; // it was given up
                        }
                    }
                    if state.dirty > 0 || state.in_flight > 0 {
                        self.scheme.retention().second_chance(line);
                        self.forget_ghosts();
                    } else {
                        self.evict(line);
                    }
                }
            }
        }
        true
    }

    /// Lets the retention cull what should leave without pressure.
    pub(super) fn trim(&mut self) {
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
                Some(Victim::Unread(line)) => {
                    refused += 1;
                    self.cull(line);
                }
                Some(Victim::Whole(line)) => {
                    let state = *self.cache.line(line);
                    if state.dirty > 0 || state.in_flight > 0 {
                        refused += 1;
                        self.scheme.retention().second_chance(line);
                        self.forget_ghosts();
                    } else {
                        self.evict(line);
                    }
                }
            }
        }
    }

    pub(super) fn trim_one(&mut self, victim: Victim) {
        match victim {
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
        self.hollow(line);
    }

    /// Evicts the blocks that nobody has read and that were not read in the past life either.
    fn cull(&mut self, line: LineId) {
        if self.cache.line(line).unread == 0 {
            return;
        }
        let goes = |cell: &Cell| cell.state == State::Prefetched && !cell.past && !cell.dirty;
        self.clear_cells(line, goes, |cell| cell.past);
        if self.cache.line(line).is_hollow() {
            self.hollow(line);
        }
    }

    /// Empties the cells that go, keeps in them what is said of their past, and tells retention and policy once a line
    /// and once a run.
    fn clear_cells(&mut self, line: LineId, goes: impl Fn(&Cell) -> bool, past: impl Fn(&Cell) -> bool) {
        let start = self.cache.line_extent(self.cache.line(line).number).start;
        let mut runs = core::mem::take(&mut self.unread_runs);
        let (cached, unread) = self.cache.clear(line, goes, past, |k| match runs.last_mut() {
            Some(run) if run.end() == start.0 + k => run.blocks += 1,
            _ => runs.push(Extent { start: start.plus(k), blocks: 1 }),
        });
        for run in runs.drain(..) {
            self.stats.wasted += run.blocks;
            self.tell_left(run, Fate::Wasted);
        }
        self.unread_runs = runs;
        self.scheme.retention().on_counts(line, cached, unread);
    }

    /// One block leaves. Its slot is free once nobody copies from it.
    pub(super) fn empty_cell(&mut self, line: LineId, block: Block) {
        let cell = *self.cache.cell(line, block);
        if cell.state == State::Empty {
            return;
        }
        if cell.slot.is_some() {
            self.cache.slots.disown(cell.slot);
        }
        let (cached, unread) =
            self.cache.set(line, block, |cell| *cell = Cell { past: cell.past, ..Cell::default() });
        self.scheme.retention().on_counts(line, cached, unread);
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
    pub(super) fn hollow(&mut self, line: LineId) {
        if self.scheme.retention().on_hollow(line, &self.cache) == Afterlife::Forget {
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

    /// A layer without memory drops what nobody uses any more.
    pub(super) fn drop_unpinned(&mut self, extent: Extent) {
        for block in extent.iter() {
            let Some(line) = self.cache.find(block) else { continue };
            let cell = *self.cache.cell(line, block);
            let here = matches!(cell.state, State::Cached | State::Prefetched);
            if here && !cell.dirty && cell.slot != Slot::NONE && !self.cache.slots.is_pinned(cell.slot) {
                self.empty_cell(line, block);
                if self.cache.line(line).is_hollow() {
                    self.hollow(line);
                }
            }
        }
    }
}
