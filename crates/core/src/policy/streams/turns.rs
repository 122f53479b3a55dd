//! Turns: who may read from a disk now, and what leaves because of it.
//!
//! Every disk has a scheduler of its own: a queue of lanes that wait, first come first served, and at most D lanes that
//! have a turn. Demand of a lane without a turn is kept here, as commands; everything else (demand of no stream, writes,
//! rebuilding, read-ahead that was wished for) goes straight on to the usual order, demand first.
//!
//! A turn: what was kept leaves first, in the order of addresses; then requests of R blocks follow, two outstanding, until
//! N of them, the kept ones included, have been issued; the turn ends when all of it has come back. The slides let a
//! stream leave when it *has issued* N; waiting for the end costs nothing, because the disk has work until then, and
//! without it the drive would seek to and fro between the last request of one stream and the first of the next.
//!
//! Turns begin where wishes can be made, in the policy's events. That they end and begin there is a matter of speed
//! only: [`Streams::resume`] runs before every command that leaves, ends a turn of which nothing is under way and lets
//! the next kept command go. So no failure of a disk, no dropped wish and no lost event leaves anybody waiting: as long
//! as something is kept for a disk, something of it is under way, and that is asserted.

use super::Streams;
use super::learn::Meter;
use super::table::{LaneId, NONE, State};
use crate::dispatch::{Class, Dispatch, Queued};
use crate::policy::{Plan, WISHES_MAX, World};
use crate::units::{Block, Disk, Extent, Nanos};
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// Pieces that are here already and are passed over in one event, before the rest waits for the next.
const PASS_MAX: u32 = 64;
/// Commands of turns that may be beyond this queue for one disk, where positioning costs. Two: the next lies at the drive
/// when one ends. More would only be merged and reordered there.
const AHEAD_COMMANDS: u32 = 2;
/// Or more of them, while they have together no more than so many blocks, 256 KiB: small strips make small commands.
const AHEAD_BLOCKS: u64 = 64;
/// Of so many turns one is for streams that were refused, if any of them waits: nobody starves.
const REFUSED_ONE_IN: u32 = 16;
/// Where a wait is promised, one part in so many of it is patience: a lane that has been dry for longer has the next turn.
const PATIENCE_PARTS: u64 = 8;
/// Of the lanes that wait so many, those that run dry first, have their turns in the order of addresses.
const SWEEP_MAX: usize = 64;
/// Rows of an array that are looked through for the next strip on a disk; parity moves on by one disk a row.
const ROWS: u64 = 3;

/// The scheduler of one disk.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Lanes that wait for a turn, and the number of the wait; some have stopped waiting since.
    waiting: VecDeque<(LaneId, u64)>,
    /// Where a wait is promised: when a stream runs dry, the lane, and the number of the wait.
    by_time: BTreeSet<(Nanos, LaneId, u64)>,
    /// Where the last turn began, as a block of the volume.
    head: u64,
    /// What is learned from its commands.
    meter: Meter,
    /// Lanes of streams that were refused, which have a turn after the others.
    refused: VecDeque<(LaneId, u64)>,
    /// Turns of others since one of these had one.
    since_refused: u32,
    /// Those that wait and whose memory is reserved: they go first.
    admitted: VecDeque<LaneId>,
    /// Lanes that have one.
    turns: Vec<LaneId>,
    /// Commands kept for lanes without one.
    pub(super) held: u64,
    /// Commands of lanes that have one, in the order of leaving.
    ready: VecDeque<Queued>,
    /// Commands of turns that have left this queue and not ended, and their blocks.
    left: u32,
    left_blocks: u64,
}

/// Whether a lane may have a turn.
enum Admission {
    /// Yes, with the quota noted.
    Granted,
    /// Memory is short, and will be there when turns under way have ended.
    Later,
    /// Memory is short, and nobody waits yet.
    Refused,
}

/// Whose a command under way is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned {
    lane: LaneId,
    blocks: u64,
    /// When it left for the disk.
    left: Nanos,
    /// Somebody waited for it when it was made.
    demand: bool,
}
const NOBODY: Owned = Owned { lane: NONE, blocks: 0, left: Nanos::ZERO, demand: false };

/// What is counted of turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) turns: u64,
    pub(super) requests: u64,
    pub(super) held_max: u64,
    /// Longest time that a lane with somebody waiting has waited for its turn.
    pub(super) wait_max: Nanos,
    /// Turns that nobody waited for yet and that found no memory.
    pub(super) refused: u64,
}

impl Streams {
    /// The lane on whose behalf these blocks were wished for in this event.
    pub(super) fn wishing_lane(&self, extent: Extent) -> Option<LaneId> {
        let found = self.wishing.iter().find(|(wished, _)| !wished.intersect(extent).is_empty());
        found.map(|&(_, lane)| lane)
    }
    /// The wishes of the last event have become commands, or have not: memory was short, or somebody above clamped them.
    pub(super) fn conclude_wishes(&mut self) {
        for at in 0..self.wishing.len() {
            let id = self.wishing[at].1;
            let lane = self.table.lane(id);
            lane.pending = false;
            if lane.reached < lane.wished_to {
                (lane.cursor, lane.wished_to) = (lane.reached, lane.reached);
                self.close(id);
                self.look |= self.short;
            }
        }
        self.wishing.clear();
        self.staging.wished = 0;
    }
    /// Of a turn's reservation at most so much is still needed.
    fn keep_reserved(&mut self, id: LaneId, most: u64) {
        let lane = self.table.lane(id);
        let surplus = lane.reserved.saturating_sub(most);
        lane.reserved -= surplus;
        self.staging.reserved -= surplus;
    }
    /// A turn issues nothing more.
    fn close(&mut self, id: LaneId) {
        if self.table.lane(id).state == State::Running {
            self.table.lane(id).state = State::Closing;
            self.keep_reserved(id, 0);
        }
        self.mark(self.table.disk_of(id));
    }
    /// A disk is to be looked at in the next event, and before the next command leaves.
    pub(super) fn mark(&mut self, disk: u16) {
        self.due |= 1 << disk;
        self.look |= 1 << disk;
    }
    fn queue(&mut self, disk: u16) -> &mut Queue {
        let disk = usize::from(disk);
        if disk >= self.queues.len() {
            self.queues.resize_with(disk + 1, Queue::default);
        }
        &mut self.queues[disk]
    }

    /// A lane waits for its turn from now on.
    pub(super) fn wait(&mut self, id: LaneId) {
        let disk = self.table.disk_of(id);
        let lane = self.table.lane(id);
        debug_assert_eq!(lane.state, State::Idle, "a lane waits once");
        lane.state = State::Waiting;
        lane.waits += 1;
        let waits = lane.waits;
        let refused = self.table.stream(self.table.stream_of(id)).refused;
        if refused {
            self.queue(disk).refused.push_back((id, waits));
        } else if self.sizes.cadence.is_some() {
            self.queue_by_time(id);
        } else {
            self.queue(disk).waiting.push_back((id, waits));
        }
        self.mark(disk);
    }
    /// A lane that waits has its turn when it runs dry.
    pub(super) fn queue_by_time(&mut self, id: LaneId) {
        self.queue_by_time_at(id, self.runs_dry(id));
    }
    /// Or at this time.
    pub(super) fn queue_by_time_at(&mut self, id: LaneId, dry: Nanos) {
        let (disk, waits) = (self.table.disk_of(id), self.table.lane(id).waits);
        self.queue(disk).by_time.insert((dry, id, waits));
    }
    /// When the first of the lanes that wait ran dry, or will.
    pub(super) fn first_dry(&self, disk: u16) -> Option<Nanos> {
        let queue = self.queues.get(usize::from(disk))?;
        queue.by_time.iter().find(|at| self.still_waits(at.1, at.2)).map(|at| at.0)
    }
    /// The lane whose wait this is, if it still waits.
    fn still_waits(&self, id: LaneId, waits: u64) -> bool {
        let lane = &self.table.lanes[id as usize];
        lane.state == State::Waiting && lane.waits == waits && !lane.admitted
    }
    /// Takes the next lane from a queue: the first that came, or by the clock.
    ///
    /// By the clock: whoever has run dry longer ago than is patient; else of the first that will run dry the next one
    /// in the order of addresses from where the last turn began, and then from the beginning.
    fn pop_waiting(&mut self, disk: u16) -> Option<(Nanos, LaneId, u64)> {
        if self.sizes.cadence.is_none() {
            let (id, waits) = self.queue(disk).waiting.pop_front()?;
            return Some((Nanos::ZERO, id, waits));
        }
        while let Some(&(_, id, waits)) = self.queue(disk).by_time.first()
            && !self.still_waits(id, waits)
        {
            self.queue(disk).by_time.pop_first();
        }
        let late = Nanos(self.promised().0 / PATIENCE_PARTS);
        let queue = &self.queues[usize::from(disk)];
        let first = *queue.by_time.first()?;
        let mut next = first;
        if first.0 + late > self.now {
            let place =
                |id: LaneId| self.table.stream(self.table.stream_of(id)).next.wrapping_sub(queue.head);
            let waits = queue.by_time.iter().take(SWEEP_MAX).filter(|at| self.still_waits(at.1, at.2));
            next = *waits.min_by_key(|at| place(at.1))?;
        }
        self.queue(disk).by_time.remove(&next);
        Some(next)
    }
    /// Ends the turns that have nothing more to issue and nothing under way; with `all`, those too that have not issued
    /// all.
    fn end_turns(&mut self, disk: u16, all: bool) {
        let mut at = 0;
        while at < self.queue(disk).turns.len() {
            let id = self.queue(disk).turns[at];
            let lane = self.table.lane(id);
            let ends = lane.outstanding == 0 && !lane.pending && (all || lane.state == State::Closing);
            if !ends {
                at += 1;
                continue;
            }
            lane.state = State::Idle;
            let waits = !lane.held.is_empty();
            self.keep_reserved(id, 0);
            self.queue(disk).turns.remove(at);
            let stream = self.table.stream_of(id);
            self.table.touch(stream, self.now);
            self.turn_is_over(id);
            if waits {
                self.wait(id);
            }
        }
    }
    /// The next lane to have a turn: one whose memory is reserved, or one for which it can be.
    fn next_lane(&mut self, disk: u16) -> Option<LaneId> {
        if self.queue(disk).since_refused >= REFUSED_ONE_IN
            && let Some(id) = self.next_refused(disk)
        {
            return Some(id);
        }
        self.queue(disk).since_refused += 1;
        self.next_admitted(disk).or_else(|| self.next_refused(disk))
    }
    /// The next lane of a stream that was refused: it gets what it waits for, and nothing ahead.
    fn next_refused(&mut self, disk: u16) -> Option<LaneId> {
        self.queue(disk).since_refused = 0;
        while let Some((id, waits)) = self.queue(disk).refused.pop_front() {
            let lane = self.table.lane(id);
            if lane.state == State::Waiting && lane.waits == waits && !lane.admitted {
                lane.quota = 0;
                return Some(id);
            }
        }
        None
    }
    /// The next lane of a stream that was not refused.
    fn next_admitted(&mut self, disk: u16) -> Option<LaneId> {
        if let Some(id) = self.queue(disk).admitted.pop_front() {
            return Some(id);
        }
        let by_time = self.sizes.cadence.is_some();
        while let Some(next) = self.pop_waiting(disk) {
            let (_, id, waits) = next;
            if !self.still_waits(id, waits) {
                continue;
            }
            match self.admit(id) {
                Admission::Granted => {
                    let others = &mut self.queue(disk).admitted;
                    others.retain(|&other| other != id);
                    return Some(id);
                }
                Admission::Refused => {
                    self.table.lane(id).state = State::Idle; // its reader asks again before it runs dry
                    self.counts.refused += 1;
                }
                Admission::Later => {
                    let queue = self.queue(disk);
                    if by_time {
                        queue.by_time.insert(next);
                    } else {
                        queue.waiting.push_front((id, waits));
                    }
                    self.short |= 1 << disk;
                    return None;
                }
            }
        }
        None
    }
    /// Reserves memory for a turn of a lane, and of all lanes of its stream that wait with it: what is read ahead on one disk
    /// is of use only with what lies between it on the others.
    fn admit(&mut self, id: LaneId) -> Admission {
        let stream = self.table.stream_of(id);
        let lanes = self.table.lanes_of(stream);
        let new = |lane: &LaneId| {
            let lane = &self.table.lanes[*lane as usize];
            lane.state == State::Waiting && !lane.admitted
        };
        let together = lanes.clone().filter(new).count() as u64;
        let r = self.sizes.r;
        let want = self.wanted(id);
        let least = together * if self.sizes.n_auto { r } else { want };
        if !self.table.keeps_waiting(stream) {
            if self.free_memory() < least {
                return Admission::Refused;
            }
        } else if self.free_memory() < least && !self.table.stream(stream).owes {
            if self.under_way > 0 || !self.wishing.is_empty() {
                return Admission::Later; // what is under way will be consumed
            }
            self.give_up_until(together * r);
        }
        // For one in debt nothing more is read ahead.
        let most = if self.table.stream(stream).owes { 0 } else { self.free_memory() };
        let quota = want.min(most / together / r * r);
        if quota == 0 {
            // Nothing can be read ahead: what is waited for goes on alone.
            let waits = !self.table.lane(id).held.is_empty();
            self.table.lane(id).quota = 0;
            return if waits { Admission::Granted } else { Admission::Refused };
        }
        for lane in lanes {
            let entry = self.table.lane(lane);
            if entry.state == State::Waiting && !entry.admitted {
                (entry.quota, entry.reserved, entry.admitted) = (quota, quota, true);
                self.staging.reserved += quota;
                let disk = self.table.disk_of(lane);
                self.queue(disk).admitted.push_back(lane);
                self.mark(disk);
            }
        }
        self.assert_memory();
        Admission::Granted
    }
    /// A lane has its turn: what was kept for it leaves.
    fn begin(&mut self, disk: u16, id: LaneId) {
        self.counts.turns += 1;
        let (now, stream) = (self.now, self.table.stream_of(id));
        let next = self.table.stream(stream).next;
        // Read ahead from the reader on; from further on where data is staged up to there.
        let far = next + self.sizes.m * self.sizes.disks;
        let lane = self.table.lane(id);
        if !(next..far).contains(&lane.cursor) {
            lane.cursor = next;
        }
        lane.state = State::Running;
        (lane.issued, lane.admitted) = (0, false);
        let quota = lane.quota;
        (lane.reached, lane.wished_to) = (lane.cursor, lane.cursor);
        lane.held.make_contiguous().sort_by_key(|queued| queued.volume.start);
        let waited = if lane.held.is_empty() { Nanos::ZERO } else { now.since(lane.since) };
        self.counts.wait_max = self.counts.wait_max.max(waited);
        self.table.stream_mut(stream).settled = waited <= self.promised();
        let queue = self.queue(disk);
        queue.turns.push(id);
        queue.head = next;
        self.table.touch(stream, now);
        while let Some(queued) = self.table.lane(id).held.pop_front() {
            self.queue(disk).held -= 1;
            self.forward(id, queued);
        }
        if quota == 0 {
            self.close(id);
        }
        self.mark(disk);
    }
    /// Demand of a lane that has its turn goes on.
    fn forward(&mut self, id: LaneId, queued: Queued) {
        let lane = self.table.lane(id);
        lane.issued += queued.blocks;
        let (issued, quota) = (lane.issued, lane.quota);
        self.keep_reserved(id, quota.saturating_sub(issued));
        self.track(id, queued);
        if issued >= quota {
            self.close(id);
        }
    }
    /// A command of a lane is under way.
    fn track(&mut self, id: LaneId, queued: Queued) {
        let at = queued.command as usize;
        if at >= self.owners.len() {
            self.owners.resize(at + 1, NOBODY);
        }
        let demand = queued.class == Class::Demand;
        self.owners[at] = Owned { lane: id, blocks: queued.blocks, left: self.now, demand };
        let lane = self.table.lane(id);
        lane.outstanding += queued.blocks;
        self.under_way += queued.blocks;
        let lane = self.table.lane(id);
        lane.reached = lane.reached.max(queued.volume.end());
        self.queue(queued.disk.0).ready.push_back(queued);
        self.release(queued.disk.0);
    }
    /// Lets go what is next of the turns of a disk. Beyond demand of no stream and urgent writes, the order of turns
    /// is the order of leaving: a reader that has caught up with its read-ahead does not overtake the stream before it.
    fn release(&mut self, disk: u16) {
        let (now, positions) = (self.now, self.sizes.device.positions);
        let queue = &mut self.queues[usize::from(disk)];
        while let Some(next) = queue.ready.front() {
            let room = queue.left < AHEAD_COMMANDS || queue.left_blocks + next.blocks <= AHEAD_BLOCKS;
            if positions && !room {
                break;
            }
            let Some(next) = queue.ready.pop_front() else { break };
            queue.left += 1;
            queue.left_blocks += next.blocks;
            self.owners[next.command as usize].left = now;
            let class = if positions { Class::Prefetch } else { next.class };
            self.inner.enqueue(now, Queued { class, ..next });
        }
    }

    /// Ends and begins turns of the disks where something has changed, and wishes ahead for those that run.
    pub(super) fn advance(&mut self, world: &World<'_>, plan: &mut Plan) {
        let mut unfinished = 0;
        while self.due != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
            let disk = self.due.trailing_zeros() as u16;
            self.due &= !(1 << disk);
            self.end_turns(disk, false);
            while (self.queue(disk).turns.len() as u64) < self.sizes.d {
                let Some(id) = self.next_lane(disk) else { break };
                self.begin(disk, id);
                self.due &= !(1 << disk);
            }
            let mut at = 0;
            while at < self.queue(disk).turns.len() {
                let id = self.queue(disk).turns[at];
                at += 1;
                if !self.refill(id, world, plan) {
                    unfinished |= 1 << disk;
                }
            }
        }
        self.due = unfinished;
        if unfinished != 0 && !self.resuming {
            self.resuming = true;
            plan.wake_at(world.now, super::RESUME);
        }
    }
    /// Keeps requests of R blocks outstanding for a turn. False where the plan is full and the rest must wait.
    fn refill(&mut self, id: LaneId, world: &World<'_>, plan: &mut Plan) -> bool {
        let (r, limit) = (self.sizes.r, self.limit(id, world));
        let mut under_way = self.table.lane(id).outstanding;

        let mut passed = 0;
        while self.table.lane(id).state == State::Running && under_way + r <= super::sizes::OUTSTANDING * r {
            let room = WISHES_MAX - plan.wishes().len();
            if (room as u64) < self.pieces_max || passed == PASS_MAX {
                return false;
            }
            match self.request(id, limit, world, plan) {
                Some(0) => passed += 1,
                Some(blocks) => under_way += blocks,
                None if self.coming(id) > 0 => break, // what its reader misses now belongs to the turn
                None => self.close(id),
            }
        }
        true
    }
    /// Blocks of the request that is being answered which will be this lane's demand.
    fn coming(&self, id: LaneId) -> u64 {
        self.coming.iter().filter(|(lane, _)| *lane == id).map(|(_, blocks)| blocks).sum()
    }
    /// Where read-ahead of a lane ends: the file, or the volume.
    pub(super) fn limit(&self, id: LaneId, world: &World<'_>) -> u64 {
        self.table.stream(self.table.stream_of(id)).within.end().min(world.blocks)
    }
    /// Wishes for the next request of a turn: up to the next multiple of R on the disk. How many blocks it has, 0 if all
    /// were here; `None` if there is nothing more to read or the turn has nothing left.
    fn request(&mut self, id: LaneId, limit: u64, world: &World<'_>, plan: &mut Plan) -> Option<u64> {
        let disk = self.table.disk_of(id);
        let cursor = self.table.lane(id).cursor;
        let first = self.next_piece(disk, cursor, limit)?;
        let member = world.array.direct(Extent { blocks: 1, ..first })?.extent.start.0;
        let aligned = self.sizes.r - member % self.sizes.r;
        let (mut left, mut wished) = (aligned, 0);
        let coming = self.coming(id);
        let context = self.table.stream(self.table.stream_of(id)).context;
        while left > 0 && plan.wishes().len() < WISHES_MAX {
            let lane = self.table.lane(id);
            let (cursor, budget) = (lane.cursor, lane.quota.saturating_sub(lane.issued + coming));
            let Some(piece) = self.next_piece(disk, cursor, limit) else { break };
            if self.is_of_another(id, piece.start.0) {
                return (wished > 0).then_some(wished);
            }
            // Whole lines are charged, for a line is staged as a whole.
            let begun = piece.start.0 % self.line_blocks;
            let most = (budget / self.line_blocks * self.line_blocks).saturating_sub(begun);
            if most == 0 {
                return (wished > 0).then_some(wished);
            }
            let piece = Extent { blocks: piece.blocks.min(left).min(most), ..piece };
            left -= piece.blocks;
            if let Some(last) = last_empty(world, piece) {
                let charge = (begun + piece.blocks).next_multiple_of(self.line_blocks);
                let lane = self.table.lane(id);
                lane.issued += charge;
                lane.reserved -= charge;
                self.staging.reserved -= charge;
                self.staging.wished += charge;
                (lane.pending, lane.wished_to) = (true, last + 1);
                plan.fetch_for(context, piece);
                self.wishing.push((piece, id));
                wished += piece.blocks;
            } else if self.sizes.cadence.is_some() {
                // What is here already is not read, and the turn goes no further than it would have.
                let lane = self.table.lane(id);
                lane.issued += piece.blocks;
                let rest = lane.quota.saturating_sub(lane.issued);
                self.keep_reserved(id, rest);
            }
            self.table.lane(id).cursor = piece.end();
        }
        self.counts.requests += u64::from(wished > 0);
        Some(wished)
    }
    /// Whether a turn has come to where another stream's reader is. Where nothing says how long files are it would read on for that one, who
    /// waits meanwhile for the turn of its own.
    fn is_of_another(&self, id: LaneId, block: u64) -> bool {
        self.sizes.cadence.is_some() && self.table.is_of_another(self.table.stream_of(id), block)
    }
    /// From block `at` the next run of blocks of the volume that lies on `disk`, within one strip if there are several disks.
    pub(super) fn next_piece(&self, disk: u16, at: u64, limit: u64) -> Option<Extent> {
        if self.sizes.disks == 1 {
            return (at < limit).then(|| Extent::new(at, limit - at));
        }
        let array = self.array.as_ref()?;
        let (strip, mut at) = (array.strip_blocks(), at);
        for _ in 0..ROWS * self.sizes.disks {
            if at >= limit {
                return None;
            }
            let blocks = (strip - at % strip).min(limit - at);
            if array.direct(Extent::new(at, 1)).is_some_and(|place| place.disk == Disk(disk)) {
                return Some(Extent::new(at, blocks));
            }
            at += blocks;
        }
        None
    }

    /// The next lane that keeps somebody waiting, at a time when nothing can be wished for.
    fn next_kept(&mut self, disk: u16) -> Option<LaneId> {
        let lanes = &self.table.lanes;
        let kept = |id: LaneId| {
            let lane = &lanes[id as usize];
            lane.state == State::Waiting && !lane.held.is_empty()
        };
        let queue = &mut self.queues[usize::from(disk)];
        if let Some(at) = queue.admitted.iter().position(|&id| kept(id)) {
            return queue.admitted.remove(at);
        }
        let now = |&(id, waits): &(LaneId, u64)| lanes[id as usize].waits == waits && kept(id);
        if let Some(&at) = queue.by_time.iter().find(|(_, id, waits)| now(&(*id, *waits))) {
            queue.by_time.remove(&at);
            queue.waiting.push_front((at.1, at.2));
        }
        let Some(at) = queue.waiting.iter().position(now) else {
            let at = queue.refused.iter().position(now)?;
            let id = queue.refused.remove(at)?.0;
            self.table.lane(id).quota = 0;
            return Some(id);
        };
        let id = queue.waiting[at].0;
        match self.admit(id) {
            Admission::Granted => {
                let queue = self.queue(disk);
                queue.waiting.remove(at);
                queue.admitted.retain(|&other| other != id);
                Some(id)
            }
            Admission::Later | Admission::Refused => {
                self.short |= 1 << disk;
                None
            }
        }
    }
    /// Before a command leaves: whatever happened, as long as something is kept for a disk, something of it is under way.
    #[inline(never)]
    fn resume(&mut self, now: Nanos) {
        self.now = now;
        self.conclude_wishes();
        while self.look != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "at most 63")]
            let disk = self.look.trailing_zeros() as u16;
            if self.queue(disk).held > 0 {
                self.end_turns(disk, true);
                while (self.queue(disk).turns.len() as u64) < self.sizes.d {
                    let Some(id) = self.next_kept(disk) else { break };
                    self.begin(disk, id);
                }
                let held = self.queue(disk).held;
                assert!(held == 0 || self.under_way > 0, "kept demand has something to wait for");
            }
            self.look &= !(1 << disk);
        }
    }
}

/// The last block of an extent that is not here and not on its way.
fn last_empty(world: &World<'_>, extent: Extent) -> Option<u64> {
    let is_empty = |block: &u64| world.cache.state(Block(*block)) == crate::cache::State::Empty;
    (extent.start.0..extent.end()).rev().find(is_empty)
}

impl Dispatch for Streams {
    fn enqueue(&mut self, now: Nanos, queued: Queued) {
        self.now = now;
        let disk = queued.disk.0;
        if queued.class == Class::Prefetch && !queued.volume.is_empty() {
            if let Some(id) = self.wishing_lane(queued.volume) {
                return self.track(id, queued);
            }
            return self.inner.enqueue(now, queued);
        }
        let asked = self.current.filter(|(extent, _)| !extent.intersect(queued.volume).is_empty());
        let (Some((_, stream)), Class::Demand) = (asked, queued.class) else {
            return self.inner.enqueue(now, queued);
        };
        let id = self.table.lane_of(stream, disk);
        if !self.sizes.device.positions {
            return self.inner.enqueue(now, queued); // nothing is gained by making a reader wait
        }
        self.demanded += queued.blocks;
        if self.table.lane(id).state == State::Running {
            return self.forward(id, queued);
        }
        if self.table.lane(id).state == State::Idle {
            self.wait(id);
        }
        let lane = self.table.lane(id);
        let first = lane.held.is_empty();
        if first {
            lane.since = now;
        }
        let hurries = first && lane.state == State::Waiting && self.sizes.cadence.is_some();
        self.table.lane(id).held.push_back(queued);
        if hurries && !self.table.stream(stream).refused {
            self.queue_by_time(id); // its other entry in the queue is void when its turn comes
        }
        self.table.stream_mut(stream).pace.wait();
        let queue = self.queue(disk);
        queue.held += 1;
        let held = queue.held;
        self.counts.held_max = self.counts.held_max.max(held);
        self.mark(disk);
    }
    fn promote(&mut self, command: u32, disk: Disk) {
        let of_a_turn = self.owners.get(command as usize).is_some_and(|owned| owned.lane != NONE);
        if !(of_a_turn && self.sizes.device.positions) {
            self.inner.promote(command, disk);
        }
    }
    fn pick(&mut self, now: Nanos) -> Option<u32> {
        if self.look != 0 {
            self.resume(now);
        }
        self.inner.pick(now)
    }
    fn complete(&mut self, now: Nanos, disk: Disk, command: u32) {
        self.now = now;
        self.inner.complete(now, disk, command);
        let entry = self.owners.get_mut(command as usize);
        let owned = entry.map_or(NOBODY, |entry| core::mem::replace(entry, NOBODY));
        let Owned { lane: id, blocks, left, demand } = owned;
        if self.sizes.cadence.is_some()
            && let Some(lesson) = self.queue(disk.0).meter.ended(id, blocks, left, now)
        {
            self.sizes.device.learn(lesson, &mut self.learned);
        }
        if id != NONE {
            self.table.lane(id).outstanding -= blocks;
            self.under_way -= blocks;
            // Where memory was short there may be some now.
            self.look |= self.short;
            self.due |= core::mem::take(&mut self.short);
            self.demanded -= if demand { blocks } else { 0 };
            let queue = self.queue(disk.0);
            queue.left -= 1;
            queue.left_blocks -= blocks;
            self.release(disk.0);
            self.mark(self.table.disk_of(id));
        }
    }
}
