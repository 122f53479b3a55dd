//! `cadence`: turns by the clock. Not in the slides; their turns are as long as throughput wants.
//!
//! A wait is promised. A stream of v blocks a second needs v·T blocks in a round of T in which every stream has one turn. It
//! queues when it holds less than half of that, and its turn fills it up to one and a half times as much; between these all
//! streams together hold one round's worth in the mean. Memory is least when the round is the shortest that the disk can keep,
//!
//! ```text
//!   T = S · switch / (80% − Σ v / bandwidth − greedy)
//! ```
//!
//! where `greedy` is the share of streams that take what they can get: each is promised a turn of at least one request in every
//! wait. A new stream is refused when there is no such T, or when 1.25 · Σ v·T passes M; it is looked at again when it
//! asks, for others leave. A refused stream is not turned away: it gets what it asks for and nothing ahead, when no other
//! stream waits, and once in sixteen turns in any case.
//!
//! Whoever keeps a reader waiting goes before those that only run low, so a new stream waits for turns of others that wait, not
//! for a round. Rates are measured, or given. A stream that had to wait lately was measured by what it was given and not by
//! what it wants: it is believed to be like the mean of those that did not wait, and greedy where there are none.

use super::Streams;
use super::sizes::Load;
use super::table::{LaneId, StreamId};
use crate::units::Nanos;

/// Between two looks at the load: a look goes through all streams.
pub(super) const JUDGE_EVERY: Nanos = Nanos::from_millis(50);
/// A turn reads ahead at most so many times what its stream has read in sequence.
const BELIEVED: u64 = 4;
/// Longest round; a stream with less memory than that needs no finer measure.
const ROUND_MAX: Nanos = Nanos::from_secs(60);

impl Streams {
    /// Whether a stream has not waited lately, so that what was measured is what it wants.
    fn is_content(&self, id: StreamId) -> bool {
        let stream = self.table.stream(id);
        let lately = self.round + self.sizes.wait.unwrap_or(Nanos::ZERO);
        stream.rate > 0 && stream.dry.is_none_or(|dry| self.now.since(dry) > lately)
    }
    /// Blocks a second that a stream is believed to read; `None` for one that takes what it can get.
    fn rate_of(&self, id: StreamId) -> Option<u64> {
        let given = self.sizes.cadence.and_then(|cadence| cadence.rate);
        given.or_else(|| {
            let measured = self.table.stream(id).rate;
            if self.is_content(id) { Some(measured) } else { self.peers.map(|peers| peers.max(measured)) }
        })
    }
    /// Blocks that a stream needs in a round, and on how many disks what it holds lies.
    fn need(&self, id: StreamId) -> (u64, u64) {
        let blocks = self.sizes.per_round(self.rate_of(id).unwrap_or(0), self.round);
        let strip = self.array.as_ref().map_or(u64::MAX, crate::array::Array::strip_blocks);
        (blocks, (blocks + blocks / 2).div_ceil(strip).clamp(1, self.sizes.disks))
    }
    /// Blocks staged below which a lane queues: R, or what its reader needs in half a round.
    pub(super) fn low_water(&self, lane: LaneId) -> u64 {
        if self.sizes.cadence.is_none() {
            return self.sizes.r;
        }
        let (blocks, spread) = self.need(self.table.stream_of(lane));
        (blocks / spread / 2).max(self.sizes.r)
    }
    /// Blocks that a turn of a lane should issue.
    pub(super) fn wanted(&self, lane: LaneId) -> u64 {
        let (r, live) = (self.sizes.r, self.table.live() as u64);
        if self.sizes.cadence.is_none() {
            let want = r * self.sizes.requests(live, self.staging.lanes);
            // With N = auto a stream is not believed further than a few times as far as it has come: many stop or seek.
            let proven = self.table.stream(self.table.stream_of(lane)).proven;
            let believed = proven.saturating_mul(BELIEVED).next_multiple_of(r);
            return if self.sizes.n_auto { want.min(believed).max(r) } else { want };
        }
        let id = self.table.stream_of(lane);
        if self.rate_of(id).is_none() {
            return self.greedy_turn;
        }
        let (blocks, spread) = self.need(id);
        let fill = ((blocks + blocks / 2) / spread).saturating_sub(self.table.lanes[lane as usize].unread);
        fill.next_multiple_of(r).max(2 * r)
    }
    /// What the streams that are not refused cost the disks, and `also`.
    fn load(&self, also: Option<StreamId>) -> Load {
        let mut load = Load::default();
        for id in self.table.all() {
            let stream = self.table.stream(id);
            if !stream.alive || (stream.refused && also != Some(id)) {
                continue;
            }
            match self.rate_of(id) {
                Some(rate) => {
                    load.blocks_per_s += rate;
                    load.switches += self.need(id).1;
                }
                None => load.greedy += 1,
            }
        }
        load
    }
    /// Mean rate of the streams that have not waited lately.
    fn mean_of_content(&self) -> Option<u64> {
        let content = |id: &StreamId| self.table.stream(*id).alive && self.is_content(*id);
        let (mut sum, mut count) = (0, 0);
        for id in self.table.all().filter(content) {
            sum += self.table.stream(id).rate;
            count += 1;
        }
        (count > 0).then(|| sum / count)
    }
    /// Looks at the load again: the round, and the turn of a stream that takes what it can get.
    pub(super) fn keep_time(&mut self) {
        if self.sizes.cadence.is_none() || self.now.since(self.judged) < JUDGE_EVERY {
            return;
        }
        self.judged = self.now;
        self.peers = self.mean_of_content();
        let load = self.load(None);
        self.round = self.sizes.round(&load).unwrap_or(ROUND_MAX).min(ROUND_MAX);
        // What the others leave of a wait, shared evenly.
        let rated = Load { greedy: 0, ..load };
        let wait = self.sizes.wait.unwrap_or(Nanos::ZERO).0;
        let left = self.sizes.left(&rated, self.round);
        let each =
            (u128::from(wait) * u128::from(left) / 1_000_000_000 / u128::from(load.greedy.max(1))) as u64;
        let transfer = each.saturating_sub(self.sizes.device.switch.0) / self.sizes.device.per_block.0;
        let memory = self.sizes.m / (2 * (load.greedy + load.switches).max(1));
        let r = self.sizes.r;
        self.greedy_turn = (transfer.min(memory) / r * r).max(r);
    }
    /// Whether a stream can have its turns in time, and is welcome or refused from now on.
    pub(super) fn judge(&mut self, id: StreamId, new: bool) {
        if self.sizes.cadence.is_none() {
            return;
        }
        let load = self.load(Some(id));
        let round = self.sizes.round(&load);
        let memory = round.map(|round| self.sizes.memory(&load, round));
        let fits = memory.is_some_and(|memory| memory <= self.sizes.m);
        let was = self.table.stream(id).refused;
        self.table.refuse(id, !fits);
        if new || was == fits {
            self.was_judged(id, &load, round, memory);
        }
        if let Some(round) = round.filter(|_| fits) {
            self.round = round.min(ROUND_MAX);
        }
        if !was {
            self.refused[0] += u64::from(round.is_none());
            self.refused[1] += u64::from(round.is_some() && !fits);
        }
    }
}
