//! What is known of every block: a table of lines, each of B cells.
//!
//! A line is what retention moves and evicts: a strip in the array layer, one block in the page cache. A cell is one
//! block of a line. States of a cell, and what moves it on:
//!
//! ```text
//!            demand fetch             done                     evict
//!   Empty ------------------> FetchDemand ------> Cached ------------------> Empty
//!     |                          ^  reader joins     ^  first read
//!     |     prefetch             |                   |
//!     +------------------> FetchPrefetch -------> Prefetched --cull/evict--> Empty
//! ```
//!
//! A write makes a cell Cached and dirty from any state; a fetch still in flight for it is then stale. Lines without
//! a resident block may live on as ghosts: numbers and a memory of what was requested in the past life. Source of the
//! states: ASP paper section 2.2, design.md.

use crate::hash::NumberMap;
use crate::slots::{Slot, Slots};
use crate::units::{Block, Extent};
use alloc::vec::Vec;

/// Index of a line in the table. Reused after the line is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub u32);

impl LineId {
    /// As an index into a per-line table.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a fetch in flight.
pub type FetchId = u32;
/// No fetch.
pub const NO_FETCH: FetchId = u32::MAX;

/// Where a block is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Not here; holds no memory.
    #[default]
    Empty,
    /// In flight, and a reader waits for it.
    FetchDemand,
    /// In flight, and nobody has asked for it yet.
    FetchPrefetch,
    /// Here, never read since it was loaded.
    Prefetched,
    /// Here, read or written at least once since it was loaded.
    Cached,
}

/// What is known of one block.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Memory that holds it, or will hold it when the fetch is done.
    pub slot: Slot,
    /// The fetch that will fill it, while in flight.
    pub fetch: FetchId,
    /// Where it is in its life.
    pub state: State,
    /// Newer than the member disks.
    pub dirty: bool,
    /// It was requested in the line's past life (ASP paper section 2.2.1, "past cached block").
    pub past: bool,
    /// A massive stripe prefetch loaded it (ASP paper section 2.5).
    pub mass: bool,
    /// A prefetch loaded it and it has not been read: what `used` and `wasted` are counted from.
    pub unproven: bool,
}

impl Cell {
    /// Whether it has memory and still needs a fetch.
    pub(crate) fn is_waiting(&self) -> bool {
        self.fetch == NO_FETCH && matches!(self.state, State::FetchDemand | State::FetchPrefetch)
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            slot: Slot::NONE,
            fetch: NO_FETCH,
            state: State::Empty,
            dirty: false,
            past: false,
            mass: false,
            unproven: false,
        }
    }
}

/// What is known of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its number: block number / B.
    pub number: u64,
    /// Blocks that were asked for, resident or in flight.
    pub cached: u32,
    /// Blocks that nobody has asked for yet, resident or in flight.
    pub unread: u32,
    /// Blocks in flight, of either kind.
    pub in_flight: u32,
    /// Dirty blocks.
    pub dirty: u32,
    /// In use: alive or a ghost.
    pub used: bool,
}

impl Line {
    /// Blocks that hold memory.
    #[must_use]
    pub const fn occupied(&self) -> u32 {
        self.cached + self.unread
    }
    /// Whether nothing of it holds memory; then it is a ghost or about to go.
    #[must_use]
    pub const fn is_hollow(&self) -> bool {
        self.occupied() == 0
    }
}

/// The table of lines and the slots behind them.
#[derive(Debug)]
pub struct Cache {
    line_blocks: u64,
    map: NumberMap<LineId>,
    lines: Vec<Line>,
    free_lines: Vec<LineId>,
    cells: Vec<Cell>,
    /// The line found last.
    last: core::cell::Cell<LineId>,
    /// The memory.
    pub slots: Slots,
    /// Dirty blocks in all lines.
    pub dirty_blocks: u64,
}

impl Cache {
    /// A table of lines of `line_blocks` blocks over `capacity_blocks` slots.
    ///
    /// # Panics
    /// If a line has no block.
    #[must_use]
    pub fn new(line_blocks: u64, capacity_blocks: u64) -> Self {
        assert!(line_blocks > 0, "a line has at least one block");
        Self {
            line_blocks,
            map: NumberMap::default(),
            lines: Vec::new(),
            free_lines: Vec::new(),
            cells: Vec::new(),
            last: core::cell::Cell::new(LineId(0)),
            slots: Slots::new(capacity_blocks),
            dirty_blocks: 0,
        }
    }
    /// Blocks per line.
    #[must_use]
    pub const fn line_blocks(&self) -> u64 {
        self.line_blocks
    }
    /// Number of the line that holds `block`.
    #[must_use]
    pub const fn line_number(&self, block: Block) -> u64 {
        if self.line_blocks == 1 { block.0 } else { block.0 / self.line_blocks }
    }
    /// The blocks of line `number`.
    #[must_use]
    pub const fn line_extent(&self, number: u64) -> Extent {
        Extent::new(number * self.line_blocks, self.line_blocks)
    }
    /// The line that holds `block`, alive or a ghost.
    #[must_use]
    pub fn find(&self, block: Block) -> Option<LineId> {
        self.find_number(self.line_number(block))
    }
    /// The line with this number, alive or a ghost.
    #[must_use]
    pub fn find_number(&self, number: u64) -> Option<LineId> {
        // One access asks for the same line several times (classify, policy, serve): the last answer is kept.
        let last = self.last.get();
        let line = self.lines.get(last.index());
        if line.is_some_and(|line| line.used && line.number == number) {
            return Some(last);
        }
        let found = self.map.get(&number).copied();
        if let Some(id) = found {
            self.last.set(id);
        }
        found
    }
    /// From block `at` to `end`, the part that lies in one line, and the line's number.
    pub(crate) fn chunk(&self, at: u64, end: u64) -> (u64, Extent) {
        let number = self.line_number(Block(at));
        let line_end = (number + 1) * self.line_blocks;
        (number, Extent::new(at, end.min(line_end) - at))
    }
    /// The cells of `range`, which lies in line `id`.
    pub(crate) fn cells_of(&self, id: LineId, range: Extent) -> &[Cell] {
        let at = self.cell_index(id, range.start);
        &self.cells[at..at + range.blocks as usize]
    }
    fn cells_mut(&mut self, id: LineId, range: Extent) -> &mut [Cell] {
        let at = self.cell_index(id, range.start);
        &mut self.cells[at..at + range.blocks as usize]
    }
    /// Gives memory to the empty cells of `range` in line `id`, at most `want` of them, in block order, for a fetch of
    /// kind `state`. Returns how many.
    pub(crate) fn fill(&mut self, id: LineId, range: Extent, want: u64, state: State, mass: bool) -> u32 {
        let at = self.cell_index(id, range.start);
        let ahead = state == State::FetchPrefetch;
        let mut filled = 0;
        for cell in &mut self.cells[at..at + range.blocks as usize] {
            if u64::from(filled) == want {
                break;
            }
            if cell.state != State::Empty {
                continue;
            }
            let Some(slot) = self.slots.take() else { break };
            *cell = Cell { slot, state, mass, unproven: ahead, past: cell.past, ..Cell::default() };
            filled += 1;
        }
        let line = &mut self.lines[id.index()];
        line.in_flight += filled;
        if ahead {
            line.unread += filled;
        } else {
            line.cached += filled;
        }
        filled
    }
    /// Names the fetch in those cells of `range` that wait for one, and lists their slots (NONE for the others).
    pub(crate) fn assign(&mut self, id: LineId, range: Extent, fetch: FetchId, slots: &mut Vec<Slot>) {
        for cell in self.cells_mut(id, range) {
            if cell.is_waiting() {
                cell.fetch = fetch;
                slots.push(cell.slot);
            } else {
                slots.push(Slot::NONE);
            }
        }
    }
    /// The cells of `range` that `fetch` fills are here. Returns how many of them nobody has asked for.
    pub(crate) fn land(&mut self, id: LineId, range: Extent, fetch: FetchId) -> u32 {
        let (mut landed, mut ahead) = (0, 0);
        for cell in self.cells_mut(id, range).iter_mut().filter(|cell| cell.fetch == fetch) {
            let unread = cell.state == State::FetchPrefetch;
            cell.state = if unread { State::Prefetched } else { State::Cached };
            cell.fetch = NO_FETCH;
            landed += 1;
            ahead += u32::from(unread);
        }
        self.lines[id.index()].in_flight -= landed;
        ahead
    }
    /// Empties the `k`-th cell of line `id`, which is here, clean and not in flight. Its slot is free once nobody copies
    /// from it. Returns what it was.
    pub(crate) fn clear(&mut self, id: LineId, k: u64, past: bool) -> Cell {
        let at = id.index() * self.line_blocks as usize + k as usize;
        let cell = core::mem::replace(&mut self.cells[at], Cell { past, ..Cell::default() });
        let line = &mut self.lines[id.index()];
        match cell.state {
            State::Empty => return cell,
            State::Cached | State::FetchDemand => line.cached -= 1,
            State::Prefetched | State::FetchPrefetch => line.unread -= 1,
        }
        debug_assert!(!cell.dirty && cell.fetch == NO_FETCH, "only what is clean and here leaves");
        self.slots.disown(cell.slot);
        cell
    }
    /// One line.
    #[must_use]
    pub fn line(&self, id: LineId) -> &Line {
        &self.lines[id.index()]
    }
    /// The cells of one line, in block order.
    #[must_use]
    pub fn cells(&self, id: LineId) -> &[Cell] {
        let n = self.line_blocks as usize;
        &self.cells[id.index() * n..(id.index() + 1) * n]
    }
    /// Lines ever made: per-line tables need this many entries.
    #[must_use]
    pub fn lines_made(&self) -> usize {
        self.lines.len()
    }
    /// State of `block` wherever it is.
    #[must_use]
    pub fn state(&self, block: Block) -> State {
        self.find(block).map_or(State::Empty, |id| self.cell(id, block).state)
    }
    /// The cell of `block` in its line.
    #[must_use]
    pub fn cell(&self, id: LineId, block: Block) -> &Cell {
        &self.cells[self.cell_index(id, block)]
    }

    fn cell_index(&self, id: LineId, block: Block) -> usize {
        let within = if self.line_blocks == 1 { 0 } else { (block.0 % self.line_blocks) as usize };
        debug_assert_eq!(self.lines[id.index()].number, self.line_number(block), "the line holds the block");
        id.index() * self.line_blocks as usize + within
    }

    /// The line of `block`, made if absent. Tells whether it was made.
    pub(crate) fn ensure(&mut self, block: Block) -> (LineId, bool) {
        let number = self.line_number(block);
        if let Some(id) = self.find_number(number) {
            return (id, false);
        }
        let id = if let Some(id) = self.free_lines.pop() {
            id
        } else {
            let id = LineId(u32::try_from(self.lines.len()).expect("lines are bounded by slots and ghosts"));
            self.lines.push(Line::default());
            self.cells.resize(self.cells.len() + self.line_blocks as usize, Cell::default());
            id
        };
        self.lines[id.index()] = Line { number, used: true, ..Line::default() };
        self.map.insert(number, id);
        (id, true)
    }

    /// Forgets a hollow line, its past included.
    pub(crate) fn forget(&mut self, id: LineId) {
        let line = self.lines[id.index()];
        assert!(line.used && line.is_hollow(), "only a line without memory is forgotten");
        self.map.remove(&line.number);
        self.lines[id.index()].used = false;
        let n = self.line_blocks as usize;
        self.cells[id.index() * n..(id.index() + 1) * n].fill(Cell::default());
        self.free_lines.push(id);
    }

    /// Changes one cell and keeps the line's counts true. Returns (change of `cached`, change of `unread`).
    pub(crate) fn set(&mut self, id: LineId, block: Block, change: impl FnOnce(&mut Cell)) -> (i32, i32) {
        let at = self.cell_index(id, block);
        let before = Weight::of(&self.cells[at]);
        change(&mut self.cells[at]);
        let after = Weight::of(&self.cells[at]);
        let line = &mut self.lines[id.index()];
        line.cached = line.cached + after.cached - before.cached;
        line.unread = line.unread + after.unread - before.unread;
        line.in_flight = line.in_flight + after.in_flight - before.in_flight;
        line.dirty = line.dirty + after.dirty - before.dirty;
        self.dirty_blocks = self.dirty_blocks + u64::from(after.dirty) - u64::from(before.dirty);
        let delta = |a: u32, b: u32| i32::from(a != 0) - i32::from(b != 0);
        (delta(after.cached, before.cached), delta(after.unread, before.unread))
    }
}

/// What one cell adds to its line's counts.
#[derive(Clone, Copy)]
struct Weight {
    cached: u32,
    unread: u32,
    in_flight: u32,
    dirty: u32,
}

impl Weight {
    fn of(cell: &Cell) -> Self {
        Self {
            cached: u32::from(matches!(cell.state, State::FetchDemand | State::Cached)),
            unread: u32::from(matches!(cell.state, State::FetchPrefetch | State::Prefetched)),
            in_flight: u32::from(matches!(cell.state, State::FetchDemand | State::FetchPrefetch)),
            dirty: u32::from(cell.dirty),
        }
    }
}
