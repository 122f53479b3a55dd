//! What stays: staged data of each stream apart, everything that has been read in one list, and the books of memory.
//!
//! A line with blocks that were read ahead and not asked for belongs to the lane that had them read; once all of it has
//! been asked for it joins the list of what has been read, which leaves first and in order of use. Staged lines leave
//! when their time is over, when a turn that somebody waits for finds no memory (the stream that asked longest ago
//! gives its own, rule 7), and when nothing else is left for a request that needs memory.
//!
//! The books: `unread` blocks read ahead, in flight or staged, and `reserved` blocks that running turns may still
//! issue (with those that they wish for in this very event). Their sum never exceeds M; that is asserted wherever either grows.

use super::Streams;
use super::table::{LaneId, Lines, NONE};
use crate::cache::{Cache, LineId};
use crate::policy::Outcome;
use crate::retention::contract::{Afterlife, Retention, Victim};
use crate::units::{Block, Extent};
use alloc::vec::Vec;

/// Lines looked at for one that is not in flight before the stream's next lane is asked.
const LOOK_MAX: u32 = 64;
/// Owner of a line whose blocks have all been read.
const READ: u32 = NONE - 1;

/// One line's place.
#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    /// A lane, `READ`, or `NONE` while it is in no list.
    owner: u32,
    /// Blocks of it that nobody has asked for.
    unread: u32,
    /// Its first block, as it was when it was read ahead.
    start: u64,
}

/// Lists and books.
#[derive(Debug)]
pub(super) struct Staging {
    nodes: Vec<Node>,
    read: Lines,
    /// Blocks read ahead and not asked for, of all lanes.
    pub(super) unread: u64,
    /// Blocks that running turns may still issue.
    pub(super) reserved: u64,
    /// Blocks that they have issued in this event and that have no memory yet.
    pub(super) wished: u64,
    /// Most of all together.
    pub(super) peak: u64,
    /// Lanes that hold staged data.
    pub(super) lanes: u64,
    /// Blocks given up unread: time-outs, and turns that found no memory.
    pub(super) given_up: u64,
}

impl Staging {
    pub(super) const fn new() -> Self {
        let read = Lines::new();
        Self { nodes: Vec::new(), read, unread: 0, reserved: 0, wished: 0, peak: 0, lanes: 0, given_up: 0 }
    }
    /// Blocks that are in use or promised.
    const fn used(&self) -> u64 {
        self.unread + self.wished + self.reserved
    }
    fn node(&mut self, line: u32) -> &mut Node {
        let at = line as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, Node { older: NONE, newer: NONE, owner: NONE, unread: 0, start: 0 });
        }
        &mut self.nodes[at]
    }
}

impl Streams {
    fn list(&mut self, owner: u32) -> &mut Lines {
        if owner == READ { &mut self.staging.read } else { &mut self.table.lanes[owner as usize].staged }
    }
    /// Takes a line off its list; returns whose it was.
    fn unlink(&mut self, line: u32) -> u32 {
        let Node { older, newer, owner, .. } = *self.staging.node(line);
        if owner == NONE {
            return NONE;
        }
        let mut list = *self.list(owner);
        match older {
            NONE => list.oldest = newer,
            older => self.staging.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => list.newest = older,
            newer => self.staging.nodes[newer as usize].older = older,
        }
        *self.list(owner) = list;
        self.staging.nodes[line as usize].owner = NONE;
        owner
    }
    fn link(&mut self, owner: u32, line: u32, at_old_end: bool) {
        let mut list = *self.list(owner);
        let (older, newer) = if at_old_end { (NONE, list.oldest) } else { (list.newest, NONE) };
        let node = self.staging.node(line);
        debug_assert_eq!(node.owner, NONE, "a line is in one list");
        (node.older, node.newer, node.owner) = (older, newer, owner);
        match older {
            NONE => list.oldest = line,
            older => self.staging.nodes[older as usize].newer = line,
        }
        match newer {
            NONE => list.newest = line,
            newer => self.staging.nodes[newer as usize].older = line,
        }
        *self.list(owner) = list;
    }
    /// It becomes the youngest of its list.
    fn refresh(&mut self, line: u32) {
        let owner = self.unlink(line);
        if owner != NONE {
            self.link(owner, line, false);
        }
    }
    /// A line changes its owner, and with it the books.
    fn give(&mut self, line: u32, to: u32, at_old_end: bool) {
        let from = self.unlink(line);
        let unread = i64::from(self.staging.node(line).unread);
        if from != NONE {
            self.count(from, -unread);
        }
        if to != NONE {
            self.link(to, line, at_old_end);
            let wished = self.staging.wished;
            self.count(to, unread);
            if from < READ {
                self.staging.wished = wished; // it was counted when it came to the other lane
            }
        }
    }
    /// Unread blocks of an owner change by so many.
    fn count(&mut self, owner: u32, by: i64) {
        if owner == READ || by == 0 {
            return;
        }
        let lane = &mut self.table.lanes[owner as usize];
        let before = lane.unread;
        lane.unread = before.strict_add_signed(by);
        self.staging.lanes = self.staging.lanes + u64::from(lane.unread > 0) - u64::from(before > 0);
        self.staging.unread = self.staging.unread.strict_add_signed(by);
        if by > 0 {
            // What comes was wished for, and has been counted since.
            self.staging.wished -= self.staging.wished.min(by.unsigned_abs());
            self.assert_memory();
        }
    }
    /// The invariant of memory: reserved + in flight + staged ≤ M.
    pub(super) fn assert_memory(&mut self) {
        let used = self.staging.used();
        assert!(used <= self.sizes.m, "read-ahead holds {used} blocks of M = {}", self.sizes.m);
        self.staging.peak = self.staging.peak.max(used);
    }
    /// Blocks that a turn could reserve now: M less what is promised or staged, and no more than the cache has beside
    /// what readers and writers hold.
    pub(super) fn free_memory(&self) -> u64 {
        let used = self.staging.used();
        let cache = self.config.cache_blocks.saturating_sub(self.dirty + self.demanded);
        self.sizes.m.min(cache).saturating_sub(used)
    }

    /// Gives up what a lane has staged: its lines are the next to leave.
    pub(super) fn give_up(&mut self, lane: LaneId) {
        while !self.table.lanes[lane as usize].staged.is_empty() {
            self.give_up_last(lane);
        }
    }
    /// Gives up the line that was read ahead last, which its reader would ask for last.
    fn give_up_last(&mut self, lane: LaneId) {
        let line = self.table.lanes[lane as usize].staged.newest;
        let Node { unread, start, .. } = *self.staging.node(line);
        self.staging.given_up += u64::from(unread);
        let entry = self.table.lane(lane);
        entry.cursor = entry.cursor.min(start);
        self.give(line, READ, true);
    }
    /// Gives up staged data until so many blocks could be reserved: that of the stream which asked longest ago first, and
    /// nothing of streams that have a turn or wait for one: their reader will ask for it. What was read ahead last goes first.
    pub(super) fn give_up_until(&mut self, blocks: u64) {
        let mut at = self.table.oldest();
        while let Some(id) = at.filter(|_| self.free_memory() < blocks) {
            at = self.table.newer(id);
            let busy = |lane: LaneId| {
                let lane = &self.table.lanes[lane as usize];
                lane.has_turn() || lane.admitted || !lane.held.is_empty()
            };
            if self.table.lanes_of(id).any(busy) {
                continue;
            }
            let before = self.staging.given_up;
            for lane in self.table.lanes_of(id) {
                while self.free_memory() < blocks && !self.table.lanes[lane as usize].staged.is_empty() {
                    self.give_up_last(lane);
                }
            }
            self.has_yielded(id, self.staging.given_up - before);
        }
    }

    /// A fetch has ended: its lines may leave from now on.
    pub(super) fn landed(&mut self, extent: Extent, cache: &Cache) {
        let mut at = extent.start.0;
        while at < extent.end() {
            if let Some(line) = cache.find(Block(at))
                && self.staging.node(line.0).owner == NONE
            {
                self.give(line.0, READ, false);
            }
            at = (at / self.line_blocks + 1) * self.line_blocks;
        }
    }
    /// The oldest line of a list that is not in flight; those in flight that it passes become the youngest.
    fn oldest_here(&mut self, owner: u32, cache: &Cache) -> Option<LineId> {
        let last = self.list(owner).newest;
        for _ in 0..LOOK_MAX {
            let line = self.list(owner).oldest;
            if line == NONE {
                return None;
            }
            if cache.line(LineId(line)).in_flight == 0 {
                return Some(LineId(line));
            }
            self.refresh(line);
            if line == last {
                return None;
            }
        }
        None
    }
    /// Where nothing that has been read is left: a line of the stream that asked longest ago.
    fn staged_victim(&mut self, cache: &Cache) -> Option<LineId> {
        let mut at = self.table.oldest();
        while let Some(id) = at {
            at = self.table.newer(id);
            for lane in self.table.lanes_of(id) {
                if self.table.lanes[lane as usize].staged.is_empty() {
                    continue;
                }
                if let Some(line) = self.oldest_here(lane, cache) {
                    return Some(line);
                }
            }
        }
        None
    }
}

impl Retention for Streams {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        let owner = self.staging.node(line.0).owner;
        let lane = if ahead { self.wishing_lane(cache.line_extent(cache.line(line).number)) } else { None };
        match lane {
            Some(lane) if owner == lane => {}
            Some(lane) => {
                self.staging.node(line.0).start = cache.line_extent(cache.line(line).number).start.0;
                self.give(line.0, lane, false);
            }
            // Demand on its way, perhaps kept for long, is listed when it is here: hundreds of such lines would hide what may leave.
            None if owner == NONE && cache.line(line).in_flight == 0 => self.give(line.0, READ, false),
            None => {}
        }
    }
    fn on_hit(&mut self, line: LineId, _outcome: Outcome, _cache: &Cache) {
        if self.staging.node(line.0).owner == READ {
            self.refresh(line.0);
        }
    }
    fn on_counts(&mut self, line: LineId, cached: i32, unread: i32) {
        if unread == 0 {
            return;
        }
        let node = self.staging.node(line.0);
        node.unread = node.unread.strict_add_signed(unread);
        let (owner, left) = (node.owner, node.unread);
        if owner == NONE {
            return;
        }
        if owner != READ && cached > 0 && unread < 0 {
            self.was_asked_for(owner, unread.unsigned_abs().into());
        }
        self.count(owner, i64::from(unread));
        if owner != READ && left == 0 {
            self.give(line.0, READ, false);
        }
    }
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        let line = self.oldest_here(READ, cache).or_else(|| self.staged_victim(cache))?;
        Some(Victim::Whole(line))
    }
    fn second_chance(&mut self, line: LineId) {
        self.refresh(line.0);
    }
    fn on_emptied(&mut self, line: LineId, _cache: &Cache) -> Afterlife {
        self.give(line.0, NONE, false);
        debug_assert_eq!(self.staging.node(line.0).unread, 0, "a empty line has nothing unread");
        Afterlife::Forget
    }
}

impl Streams {
    /// Streams whose data nobody has asked for in time, and those that are no more.
    pub(super) fn collect(&mut self) {
        let timeout = self.staged_timeout();
        for id in self.table.all() {
            let stream = self.table.stream(id);
            if !stream.alive {
                continue;
            }
            let idle = self.now.since(stream.active);
            let before = self.staging.given_up;
            if idle > timeout && self.can_go(id) {
                for lane in self.table.lanes_of(id) {
                    self.give_up(lane);
                }
            }
            if idle > super::IDLE && self.table.at_rest(id) {
                self.has_ended(id, idle, self.staging.given_up - before);
                self.table.forget(id);
            }
        }
    }
}
