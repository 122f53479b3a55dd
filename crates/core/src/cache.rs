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
//! The cells of a line lie in leaves of a few blocks, and a leaf exists only while one of its cells has something to say: a
//! line of a long strip that holds one block costs little more than that block's leaf. Reading a cell is one step
//! through the line's list of leaves; those that do not exist are all leaf 0, which is empty and never written.
//!
//! A write makes a cell Cached and dirty from any state; a fetch still in flight for it is then stale. Lines without
//! a resident block may live on as ghosts: numbers and a memory of what was requested in the past life. Source of the
//! states: ASP paper section 2.2, design.md.

use crate::hash::{NumberMap, SPREAD};
use crate::slots::{Slot, Slots};
use crate::units::{Block, Divisor, Extent};
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

/// Answers of [`Cache::find`] that are kept, a power of two: 64, for a handful of readers not to meet in one entry.
const LATELY: usize = 64;

/// Blocks of a leaf for lines of so many, as a power of two: near the root, 8 of 32. A line that holds one block costs 4 B
/// for each leaf of the line and 16 B for each block of the leaf; half the root would be the least, a fifth to a third
/// less, and twice the steps through a whole line.
const fn leaf_bits(line_blocks: u64) -> u32 {
    (u64::BITS - line_blocks.leading_zeros()) / 2
}

/// The leaf that is always empty.
const NO_LEAF: u32 = 0;

/// What a line costs beside its leaves and the list of them, bytes: 32 of it here, the rest its place in the map and what
/// retention and policy keep of it.
const LINE_BYTES: u64 = 96;
/// Most memory of the table for each block of the cache, bytes. A block alone in its line of 128 KiB costs 240, and the two
/// lines of one block that ARC and its like remember for each block they hold 232.
const TABLE_BYTES_A_SLOT_MAX: u64 = 256;
/// Added to it, bytes: small caches may have long strips. 16 MiB.
const TABLE_BYTES_FLOOR: u64 = 16 << 20;

/// Most memory, in bytes, of the table of a cache of `capacity_blocks`: lines, cells and what is kept of each line. Beyond
/// it lines leave although there are slots.
#[must_use]
pub const fn table_bytes_max(capacity_blocks: u64) -> u64 {
    capacity_blocks * TABLE_BYTES_A_SLOT_MAX + TABLE_BYTES_FLOOR
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
    /// Whether it differs from a cell of which nothing is known.
    fn says_something(&self) -> bool {
        self.state != State::Empty || self.past
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
    pub const fn is_empty(&self) -> bool {
        self.occupied() == 0
    }
}

/// The table of lines and the slots behind them.
#[derive(Debug)]
pub struct Cache {
    line_blocks: Divisor,
    map: NumberMap<LineId>,
    lines: Vec<Line>,
    free_lines: Vec<LineId>,
    /// For each line, its leaves in block order: the numbers of runs of cells in `cells`.
    leaves: Vec<u32>,
    leaves_of_line: usize,
    leaf_bits: u32,
    cells: Vec<Cell>,
    free_leaves: Vec<u32>,
    /// Lines found lately, by a hash of their number: a shortcut, checked before it is believed.
    lately: [core::cell::Cell<LineId>; LATELY],
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
        let leaf_bits = leaf_bits(line_blocks);
        Self {
            line_blocks: Divisor::new(line_blocks),
            map: NumberMap::default(),
            lines: Vec::new(),
            free_lines: Vec::new(),
            leaves: Vec::new(),
            leaves_of_line: (line_blocks as usize).div_ceil(1 << leaf_bits),
            leaf_bits,
            cells: [Cell::default()].repeat(1 << leaf_bits),
            free_leaves: Vec::new(),
            lately: [const { core::cell::Cell::new(LineId(0)) }; LATELY],
            slots: Slots::new(capacity_blocks),
            dirty_blocks: 0,
        }
    }
    /// Blocks per line.
    #[must_use]
    pub const fn line_blocks(&self) -> u64 {
        self.line_blocks.by
    }
    /// Number of the line that holds `block`.
    #[must_use]
    pub const fn line_number(&self, block: Block) -> u64 {
        self.line_blocks.split(block.0).0
    }
    /// Number of the line that holds `block`, and how many of its blocks come before it.
    #[must_use]
    pub(crate) const fn place_in_line(&self, block: Block) -> (u64, u64) {
        self.line_blocks.split(block.0)
    }
    /// The blocks of line `number`.
    #[must_use]
    pub const fn line_extent(&self, number: u64) -> Extent {
        Extent::new(number * self.line_blocks.by, self.line_blocks.by)
    }
    /// The line that holds `block`, alive or a ghost.
    #[must_use]
    #[inline]
    pub fn find(&self, block: Block) -> Option<LineId> {
        self.find_number(self.line_number(block))
    }
    /// The line with this number, alive or a ghost.
    #[must_use]
    #[inline]
    pub fn find_number(&self, number: u64) -> Option<LineId> {
        // One access asks for the same line several times (classify, policy, serve), and a sequential reader for each
        // line as often as it has blocks: the last answers are kept.
        let lately = &self.lately[(number.wrapping_mul(SPREAD) >> (64 - LATELY.trailing_zeros())) as usize];
        let id = lately.get();
        match self.lines.get(id.index()) {
            Some(line) if line.number == number && line.used => Some(id),
            _ => self.look_up(number, lately),
        }
    }
    #[inline(never)]
    fn look_up(&self, number: u64, lately: &core::cell::Cell<LineId>) -> Option<LineId> {
        let found = self.map.get(&number).copied()?;
        lately.set(found);
        Some(found)
    }
    /// From block `at` to `end`, the part that lies in one line, and the line's number.
    pub(crate) fn chunk(&self, at: u64, end: u64) -> (u64, Extent) {
        let number = self.line_number(Block(at));
        let line_end = (number + 1) * self.line_blocks.by;
        (number, Extent::new(at, end.min(line_end) - at))
    }
    /// The cells of `range`, which lies in line `id`.
    #[inline]
    pub(crate) fn cells_of(&self, id: LineId, range: Extent) -> impl Iterator<Item = &Cell> {
        self.runs_of(id, range).flatten()
    }
    /// The same, leaf by leaf.
    #[inline]
    pub(crate) fn runs_of(&self, id: LineId, range: Extent) -> impl Iterator<Item = &[Cell]> {
        let (first, size) = (self.within(id, range.start), self.leaf_size());
        let end = first + range.blocks as usize;
        let line = id.index() * self.leaves_of_line;
        let (from, to) = (first >> self.leaf_bits, (end + size - 1) >> self.leaf_bits);
        (from..to).map(move |index| {
            let (start, from) = (self.start(self.leaves[line + index]), index * size);
            &self.cells[start + first.saturating_sub(from)..start + size.min(end - from)]
        })
    }
    /// Where a leaf begins in `cells`.
    #[inline]
    const fn start(&self, leaf: u32) -> usize {
        (leaf as usize) << self.leaf_bits
    }
    /// Gives memory to the empty cells of `range` in line `id`, at most `want` of them, in block order, for a fetch of
    /// kind `state`. Returns how many.
    pub(crate) fn fill(&mut self, id: LineId, range: Extent, want: u64, state: State, mass: bool) -> u32 {
        let (first, size) = (self.within(id, range.start), self.leaf_size());
        let end = first + range.blocks as usize;
        let ahead = state == State::FetchPrefetch;
        let (mut filled, mut at) = (0, first);
        'leaves: while at < end && u64::from(filled) < want {
            let to = end.min((at | (size - 1)) + 1);
            let start = self.own(id, at);
            for cell in &mut self.cells[start..start + (to - at)] {
                if u64::from(filled) == want {
                    break;
                }
                if cell.state != State::Empty {
                    continue;
                }
                let Some(slot) = self.slots.take() else { break 'leaves };
                *cell = Cell { slot, state, mass, unproven: ahead, past: cell.past, ..Cell::default() };
                filled += 1;
            }
            at = to;
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
        self.change_each(id, range, |cell| {
            if cell.is_waiting() {
                cell.fetch = fetch;
                slots.push(cell.slot);
            } else {
                slots.push(Slot::NONE);
            }
        });
    }
    /// The cells of `range` that `fetch` fills are here. Returns how many of them nobody has asked for.
    pub(crate) fn land(&mut self, id: LineId, range: Extent, fetch: FetchId) -> u32 {
        let (mut landed, mut ahead) = (0, 0);
        self.change_each(id, range, |cell| {
            if cell.fetch == fetch {
                let unread = cell.state == State::FetchPrefetch;
                cell.state = if unread { State::Prefetched } else { State::Cached };
                cell.fetch = NO_FETCH;
                landed += 1;
                ahead += u32::from(unread);
            }
        });
        self.lines[id.index()].in_flight -= landed;
        ahead
    }
    /// Changes cells of `range` that are not empty, and shows the empty ones.
    #[inline]
    fn change_each(&mut self, id: LineId, range: Extent, mut change: impl FnMut(&mut Cell)) {
        let (first, size) = (self.within(id, range.start), self.leaf_size());
        let end = first + range.blocks as usize;
        let line = id.index() * self.leaves_of_line;
        for index in first >> self.leaf_bits..(end + size - 1) >> self.leaf_bits {
            let (start, from) = (self.start(self.leaves[line + index]), index * size);
            self.cells[start + first.saturating_sub(from)..start + size.min(end - from)]
                .iter_mut()
                .for_each(&mut change);
        }
    }
    /// Empties those cells of line `id` that `goes` names: they are empty already, or here, clean and not in flight. Their
    /// slots are free once nobody copies from them. `past` says what each is to remember, and `unproven` is told which
    /// of them (by their place in the line) a prefetch had loaded in vain. Returns (change of `cached`, of `unread`).
    pub(crate) fn clear(
        &mut self,
        id: LineId,
        goes: impl Fn(&Cell) -> bool,
        past: impl Fn(&Cell) -> bool,
        mut unproven: impl FnMut(u64),
    ) -> (i32, i32) {
        let (mut cached, mut unread) = (0, 0);
        for index in 0..self.leaves_of_line {
            let at = id.index() * self.leaves_of_line + index;
            let leaf = self.leaves[at];
            if leaf == NO_LEAF {
                continue;
            }
            let (size, mut lives) = (self.leaf_size(), false);
            for (k, cell) in (index * size..).zip(&mut self.cells[leaf as usize * size..][..size]) {
                if goes(cell) {
                    let past = past(cell);
                    let was = core::mem::replace(cell, Cell { past, ..Cell::default() });
                    match was.state {
                        State::Empty => {}
                        State::Cached | State::FetchDemand => cached += 1,
                        State::Prefetched | State::FetchPrefetch => unread += 1,
                    }
                    if was.state != State::Empty {
                        debug_assert!(
                            !was.dirty && was.fetch == NO_FETCH,
                            "only what is clean and here leaves"
                        );
                        self.slots.disown(was.slot);
                    }
                    if was.unproven {
                        unproven(k as u64);
                    }
                }
                lives |= cell.says_something();
            }
            if !lives {
                self.leaves[at] = NO_LEAF;
                self.free_leaves.push(leaf);
            }
        }
        let line = &mut self.lines[id.index()];
        line.cached -= cached;
        line.unread -= unread;
        (-(cached as i32), -(unread as i32))
    }
    /// A block that was prefetched, and is here, is read for the first time. Returns whether it was unproven.
    /// `at` is its place, from [`Cache::place`].
    pub(crate) fn first_read(&mut self, id: LineId, at: usize) -> bool {
        let cell = &mut self.cells[at];
        debug_assert_eq!(
            cell.state,
            State::Prefetched,
            "only what is here unread is read for the first time"
        );
        cell.state = State::Cached;
        let line = &mut self.lines[id.index()];
        line.unread -= 1;
        line.cached += 1;
        core::mem::take(&mut cell.unproven)
    }
    /// One line.
    #[must_use]
    pub fn line(&self, id: LineId) -> &Line {
        &self.lines[id.index()]
    }
    /// The cells of one line, in block order.
    pub fn cells(&self, id: LineId) -> impl Iterator<Item = &Cell> {
        self.cells_of(id, self.line_extent(self.lines[id.index()].number))
    }
    /// Memory of the lines that are in use and of their cells, bytes.
    #[must_use]
    pub fn table_bytes(&self) -> u64 {
        let lines = (self.lines.len() - self.free_lines.len()) as u64;
        let leaves = (self.cells.len() >> self.leaf_bits) - 1 - self.free_leaves.len();
        lines * self.line_bytes() + leaves as u64 * self.leaf_bytes()
    }
    /// Most lines that hold one block each for which the table has memory.
    pub(crate) fn sparse_lines_max(&self) -> u64 {
        table_bytes_max(self.slots.capacity()) / (self.line_bytes() + self.leaf_bytes())
    }
    /// Whether the table has more than its memory, [`table_bytes_max`].
    #[must_use]
    pub fn is_table_full(&self) -> bool {
        self.table_bytes() > table_bytes_max(self.slots.capacity())
    }
    const fn line_bytes(&self) -> u64 {
        LINE_BYTES + self.leaves_of_line as u64 * size_of::<u32>() as u64
    }
    const fn leaf_bytes(&self) -> u64 {
        (self.leaf_size() * size_of::<Cell>()) as u64
    }
    /// Lines ever made: per-line tables need this many entries.
    #[must_use]
    pub fn lines_made(&self) -> usize {
        self.lines.len()
    }
    /// The cell at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &Cell {
        &self.cells[place]
    }
    /// State of `block` wherever it is.
    #[must_use]
    pub fn state(&self, block: Block) -> State {
        self.find(block).map_or(State::Empty, |id| self.cell(id, block).state)
    }
    /// The cell of `block` in its line.
    #[must_use]
    #[inline]
    pub fn cell(&self, id: LineId, block: Block) -> &Cell {
        &self.cells[self.place(id, block)]
    }

    /// Blocks of a leaf.
    #[inline]
    const fn leaf_size(&self) -> usize {
        1 << self.leaf_bits
    }
    /// Which cell of line `id` is that of `block`.
    #[inline]
    fn within(&self, id: LineId, block: Block) -> usize {
        let (number, within) = self.line_blocks.split(block.0);
        debug_assert_eq!(self.lines[id.index()].number, number, "the line holds the block");
        within as usize
    }
    /// Where cell `within` of line `id` can be read.
    #[inline]
    fn index(&self, id: LineId, within: usize) -> usize {
        let leaf = self.leaves[id.index() * self.leaves_of_line + (within >> self.leaf_bits)];
        self.start(leaf) | within & (self.leaf_size() - 1)
    }
    /// Where the cell of `block`, which lies in line `id`, is until the table changes.
    #[inline]
    pub(crate) fn place(&self, id: LineId, block: Block) -> usize {
        self.index(id, self.within(id, block))
    }
    /// Where cell `within` of line `id` can be written: its leaf is made if there is none.
    #[inline]
    fn own(&mut self, id: LineId, within: usize) -> usize {
        let at = id.index() * self.leaves_of_line + (within >> self.leaf_bits);
        let mut leaf = self.leaves[at];
        if leaf == NO_LEAF {
            leaf = self.make_leaf();
            self.leaves[at] = leaf;
        }
        self.start(leaf) | within & (self.leaf_size() - 1)
    }
    fn make_leaf(&mut self) -> u32 {
        self.free_leaves.pop().unwrap_or_else(|| {
            let leaf = self.cells.len() >> self.leaf_bits;
            self.cells.resize(self.cells.len() + self.leaf_size(), Cell::default());
            u32::try_from(leaf).expect("leaves are bounded by slots and ghosts")
        })
    }
    /// Gives back the leaf of cell `within` of line `id` if none of its cells says anything.
    fn drop_leaf_if_idle(&mut self, id: LineId, within: usize) {
        let at = id.index() * self.leaves_of_line + (within >> self.leaf_bits);
        let leaf = self.leaves[at];
        let start = (leaf as usize) << self.leaf_bits;
        let idle = !self.cells[start..start + self.leaf_size()].iter().any(Cell::says_something);
        if leaf != NO_LEAF && idle {
            self.leaves[at] = NO_LEAF;
            self.free_leaves.push(leaf);
        }
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
            self.leaves.resize(self.leaves.len() + self.leaves_of_line, NO_LEAF);
            id
        };
        self.lines[id.index()] = Line { number, used: true, ..Line::default() };
        self.map.insert(number, id);
        (id, true)
    }

    /// Forgets an empty line, its past included.
    pub(crate) fn forget(&mut self, id: LineId) {
        let line = self.lines[id.index()];
        assert!(line.used && line.is_empty(), "only a line without memory is forgotten");
        self.map.remove(&line.number);
        self.lines[id.index()].used = false;
        let (n, size) = (self.leaves_of_line, self.leaf_size());
        for at in id.index() * n..(id.index() + 1) * n {
            let leaf = core::mem::replace(&mut self.leaves[at], NO_LEAF);
            if leaf != NO_LEAF {
                self.cells[leaf as usize * size..][..size].fill(Cell::default());
                self.free_leaves.push(leaf);
            }
        }
        self.free_lines.push(id);
    }

    /// Changes one cell and keeps the line's counts true. Returns (change of `cached`, change of `unread`).
    pub(crate) fn set(&mut self, id: LineId, block: Block, change: impl FnOnce(&mut Cell)) -> (i32, i32) {
        let within = self.within(id, block);
        let at = self.own(id, within);
        let before = Weight::of(&self.cells[at]);
        change(&mut self.cells[at]);
        let after = Weight::of(&self.cells[at]);
        if after.cached + after.unread == 0 {
            self.drop_leaf_if_idle(id, within);
        }
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
