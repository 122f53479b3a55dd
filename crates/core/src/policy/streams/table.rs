//! Streams, and their lanes: what a stream has queued, under way and staged on one disk.
//!
//! A stream is found by the region that its reader is in, or by the region before that (algorithms.md 5.2, rule 2 b), so a
//! request costs one or two lookups however many streams there are. Streams lie in one table, their lanes in another,
//! a stream's lanes side by side; both grow to the number of streams alive at once and are used again.

use super::classifier::{REGION_UNITS, STEP_UNITS};
use super::pace::Pace;
use crate::access::{Access, Context};
use crate::dispatch::Queued;
use crate::hash::NumberMap;
use crate::units::{Extent, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Most streams at once: 16 Ki, as many as regions are remembered.
pub(super) const STREAMS_MAX: usize = 16 * 1024;
/// Requests of a stream that are remembered for judging it.
pub(super) const HISTORY: u32 = 16;
/// Fewer sequential ones than this among them and it is no stream: 25% (algorithms.md 5.2, rule 8).
const HISTORY_LEAST: u32 = 4;
/// No stream, lane, line or region.
pub(super) const NONE: u32 = u32::MAX;
const NO_REGION: u64 = u64::MAX;

/// Index of a stream.
pub(super) type StreamId = u32;
/// Index of a lane: stream × disks + disk.
pub(super) type LaneId = u32;

/// One sequential reader.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) alive: bool,
    /// Who read last.
    pub(super) context: Context,
    /// The file that it reads in.
    pub(super) within: Extent,
    /// The block after the furthest sequential request.
    pub(super) next: u64,
    /// When it last asked, or was last given a turn.
    pub(super) active: Nanos,
    /// Blocks that it has read in sequence.
    pub(super) proven: u64,
    /// How fast it reads.
    pub(super) pace: Pace,
    /// Its number in the order in which streams began: the youngest are refused first.
    pub(super) born: u64,
    /// Its last turn came in time.
    pub(super) settled: bool,
    /// A scheme that promises a wait has refused it: it gets what it asks for, after the others.
    pub(super) refused: bool,
    /// It has lost staged data to another stream.
    pub(super) yielded: bool,
    /// Blocks read ahead for it that it has asked for.
    pub(super) used: u64,
    /// Its first turn is over and has not paid.
    pub(super) owes: bool,
    /// The regions that lead to it: where its reader is, and the one before.
    regions: [u64; 2],
    /// Whether its last requests were sequential, the newest in bit 0.
    history: u32,
    /// Requests so far, up to `HISTORY`.
    seen: u32,
    newer: u32,
    older: u32,
}

impl Stream {
    /// What it has read in sequence, up to where it is.
    pub(super) fn read_so_far(&self) -> Extent {
        let blocks = self.proven.min(self.next);
        Extent::new(self.next - blocks, blocks)
    }
    /// How many of its last [`HISTORY`] requests were sequential.
    pub(super) const fn sequential_lately(&self) -> u32 {
        (self.history & ((1 << HISTORY) - 1)).count_ones()
    }
}

/// Where a lane is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing queued; data may be staged.
    Idle,
    /// In its disk's queue for a turn.
    Waiting,
    /// Has a turn.
    Running,
    /// Its turn has issued all; what is under way has to end.
    Closing,
}

/// The ends of a list of lines of memory: `staging` links what lies between them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    pub(super) oldest: u32,
    pub(super) newest: u32,
}

impl Lines {
    pub(super) const fn new() -> Self {
        Self { oldest: NONE, newest: NONE }
    }
    pub(super) const fn is_empty(&self) -> bool {
        self.oldest == NONE
    }
}

/// A stream on one disk.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) state: State,
    /// How often it has waited: tells its place in a queue from an old one.
    pub(super) waits: u64,
    /// Since when it waits.
    pub(super) since: Nanos,
    /// The block of the volume from which it is read ahead next.
    pub(super) cursor: u64,
    /// Blocks that its turn may issue, and has issued.
    pub(super) quota: u64,
    pub(super) issued: u64,
    /// Of the quota, blocks for which memory is reserved.
    pub(super) reserved: u64,
    /// Blocks of its commands at the layer's queue or the disk.
    pub(super) outstanding: u64,
    /// That memory is reserved, and the turn is to come.
    pub(super) admitted: bool,
    /// Wishes of this event have not become commands yet.
    pub(super) pending: bool,
    /// Ends of the last block wished for in this turn, and of the last one that became a command.
    pub(super) wished_to: u64,
    pub(super) reached: u64,
    /// Blocks read ahead and not asked for yet, in flight or staged.
    pub(super) unread: u64,
    /// Lines that hold them.
    pub(super) staged: Lines,
    /// Demand that waits for the turn.
    pub(super) held: VecDeque<Queued>,
}

impl Lane {
    const fn new() -> Self {
        Self {
            state: State::Idle,
            waits: 0,
            since: Nanos::ZERO,
            cursor: 0,
            quota: 0,
            issued: 0,
            reserved: 0,
            admitted: false,
            outstanding: 0,
            pending: false,
            wished_to: 0,
            reached: 0,
            unread: 0,
            staged: Lines::new(),
            held: VecDeque::new(),
        }
    }
    /// Whether it has a turn.
    pub(super) const fn has_turn(&self) -> bool {
        matches!(self.state, State::Running | State::Closing)
    }
}

/// All streams.
#[derive(Debug)]
pub(super) struct Table {
    streams: Vec<Stream>,
    pub(super) lanes: Vec<Lane>,
    disks: u32,
    /// Blocks of a unit of the classifier, and of a region.
    unit: u64,
    region: u64,
    free: Vec<StreamId>,
    /// From region number to the stream whose reader is there. Looked up, never iterated.
    map: NumberMap<StreamId>,
    newest: u32,
    oldest: u32,
    /// Streams that are refused now.
    pub(super) refused: u64,
    /// Streams so far.
    born: u64,
}

impl Table {
    pub(super) fn new(disks: u16, unit: u64) -> Self {
        Self {
            streams: Vec::new(),
            lanes: Vec::new(),
            disks: u32::from(disks.max(1)),
            unit,
            region: unit * REGION_UNITS,
            free: Vec::new(),
            map: NumberMap::default(),
            newest: NONE,
            oldest: NONE,
            refused: 0,
            born: 0,
        }
    }
    /// Streams alive.
    pub(super) fn live(&self) -> usize {
        self.streams.len() - self.free.len()
    }
    pub(super) fn stream(&self, id: StreamId) -> &Stream {
        &self.streams[id as usize]
    }
    pub(super) fn stream_mut(&mut self, id: StreamId) -> &mut Stream {
        &mut self.streams[id as usize]
    }
    pub(super) fn lane(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id as usize]
    }
    pub(super) const fn lane_of(&self, stream: StreamId, disk: u16) -> LaneId {
        stream * self.disks + disk as u32
    }
    pub(super) const fn stream_of(&self, lane: LaneId) -> StreamId {
        lane / self.disks
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than the number of disks")]
    pub(super) const fn disk_of(&self, lane: LaneId) -> u16 {
        (lane % self.disks) as u16
    }
    /// The lanes of a stream.
    pub(super) const fn lanes_of(&self, stream: StreamId) -> core::ops::Range<LaneId> {
        stream * self.disks..(stream + 1) * self.disks
    }
    /// Every stream that may be alive, by number.
    pub(super) fn all(&self) -> core::ops::Range<StreamId> {
        0..u32::try_from(self.streams.len()).unwrap_or(NONE)
    }
    /// The stream that asked longest ago, and from any the next newer one.
    pub(super) const fn oldest(&self) -> Option<StreamId> {
        if self.oldest == NONE { None } else { Some(self.oldest) }
    }
    pub(super) fn newer(&self, id: StreamId) -> Option<StreamId> {
        let newer = self.streams[id as usize].newer;
        (newer != NONE).then_some(newer)
    }
    /// Whether nothing of a stream waits, runs or is staged.
    pub(super) fn at_rest(&self, id: StreamId) -> bool {
        let mut lanes = self.lanes_of(id);
        lanes.all(|l| self.lanes[l as usize].state == State::Idle && self.lanes[l as usize].unread == 0)
    }

    /// Whether somebody waits for a stream's turn.
    pub(super) fn keeps_waiting(&self, id: StreamId) -> bool {
        self.lanes_of(id).any(|lane| !self.lanes[lane as usize].held.is_empty())
    }

    /// The stream whose reader a request from block `start` comes from.
    pub(super) fn find(&mut self, start: u64) -> Option<StreamId> {
        let region = start / self.region;
        if let Some(&id) = self.map.get(&region) {
            return Some(id);
        }
        let id = *self.map.get(&region.checked_sub(1)?)?;
        // "or just after the stream's region": it goes on there without being classified again.
        let next = self.streams[id as usize].next;
        (start.abs_diff(next) <= self.region).then(|| {
            self.enter(id, region);
            id
        })
    }

    /// Whether another stream's reader is in the region of a block, or was when it stopped.
    pub(super) fn is_of_another(&self, id: StreamId, block: u64) -> bool {
        self.map.get(&(block / self.region)).is_some_and(|&other| other != id)
    }

    fn enter(&mut self, id: StreamId, region: u64) {
        let [newer, older] = self.streams[id as usize].regions;
        if older != NO_REGION && self.map.get(&older) == Some(&id) {
            self.map.remove(&older);
        }
        self.streams[id as usize].regions = [region, newer];
        self.map.insert(region, id);
    }

    /// A new stream whose reader has just asked for `access`. `None` when there is no place.
    pub(super) fn create(&mut self, access: &Access, now: Nanos) -> Option<StreamId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.streams.len() < STREAMS_MAX => {
                let id = u32::try_from(self.streams.len()).ok()?;
                self.lanes.resize_with(self.lanes.len() + self.disks as usize, Lane::new);
                self.streams.push(Stream {
                    alive: false,
                    context: Context(0),
                    within: Extent::default(),
                    next: 0,
                    active: now,
                    proven: 0,
                    pace: Pace::new(now),
                    born: 0,
                    settled: false,
                    refused: false,
                    yielded: false,
                    used: 0,
                    owes: false,
                    regions: [NO_REGION; 2],
                    history: 0,
                    seen: 0,
                    newer: NONE,
                    older: NONE,
                });
                id
            }
            None => return None,
        };
        let stream = &mut self.streams[id as usize];
        stream.alive = true;
        stream.next = access.extent.start.0;
        (stream.context, stream.within) = (access.context, access.within);
        (stream.history, stream.seen) = (0, 0);
        (stream.pace, stream.born) = (Pace::new(now), self.born);
        self.born += 1;
        (stream.settled, stream.proven, stream.yielded) = (false, 0, false);
        (stream.used, stream.owes) = (0, false);
        stream.regions = [NO_REGION; 2];
        for lane in self.lanes_of(id) {
            self.lanes[lane as usize].cursor = 0;
        }
        self.link(id);
        self.enter(id, access.extent.start.0 / self.region);
        Some(id)
    }

    /// A stream asks for what is `here` or not; returns whether it goes on sequentially.
    pub(super) fn read(&mut self, id: StreamId, access: &Access, here: bool, now: Nanos, reach: u64) -> bool {
        let stream = &mut self.streams[id as usize];
        let (start, end) = (access.extent.start.0, access.extent.end());
        // As far behind as the classifier's steps go: requests overtake each other.
        let behind = u64::from(STEP_UNITS) * self.unit;
        let sequential = start + behind >= stream.next && start <= stream.next + reach;
        if sequential {
            stream.next = stream.next.max(end);
            stream.proven += access.extent.blocks;
        }
        stream.pace.read(access.extent.blocks, here, now);
        stream.history = stream.history << 1 | u32::from(sequential);
        stream.seen = (stream.seen + 1).min(HISTORY);
        stream.context = access.context;
        stream.within = access.within;
        // The last block may lie in the next region already.
        let region = (end - 1) / self.region;
        if sequential && region != stream.regions[0] && !self.map.contains_key(&region) {
            self.enter(id, region);
        }
        self.touch(id, now);
        sequential
    }
    /// Whether its last requests say that it is no stream.
    pub(super) fn is_refuted(&self, id: StreamId) -> bool {
        let stream = &self.streams[id as usize];
        stream.seen == HISTORY && stream.sequential_lately() < HISTORY_LEAST
    }

    /// It is the most recently active stream.
    pub(super) fn touch(&mut self, id: StreamId, now: Nanos) {
        self.streams[id as usize].active = now;
        if self.newest != id {
            self.unlink(id);
            self.link(id);
        }
    }
    fn link(&mut self, id: StreamId) {
        let older = self.newest;
        let stream = &mut self.streams[id as usize];
        (stream.newer, stream.older) = (NONE, older);
        match self.streams.get_mut(older as usize) {
            Some(older) => older.newer = id,
            None => self.oldest = id,
        }
        self.newest = id;
    }
    fn unlink(&mut self, id: StreamId) {
        let Stream { newer, older, .. } = self.streams[id as usize];
        match self.streams.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.streams.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// A stream is refused, or not any more.
    pub(super) fn refuse(&mut self, id: StreamId, refused: bool) {
        let stream = &mut self.streams[id as usize];
        self.refused = self.refused + u64::from(refused) - u64::from(stream.refused);
        stream.refused = refused;
    }

    /// A stream that is at rest is no more.
    pub(super) fn forget(&mut self, id: StreamId) {
        debug_assert!(self.at_rest(id), "nobody waits for a stream that is forgotten");
        for region in self.streams[id as usize].regions {
            if region != NO_REGION && self.map.get(&region) == Some(&id) {
                self.map.remove(&region);
            }
        }
        self.unlink(id);
        self.refuse(id, false);
        self.streams[id as usize].alive = false;
        self.free.push(id);
    }
}
