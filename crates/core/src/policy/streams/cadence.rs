//! `cadence`: turns by the clock. Not in the slides; their turns are as long as throughput wants.
//!
//! A wait is promised. A stream of v blocks a second needs v·T blocks in a round of T in which every stream has one turn, and the
//! shortest round that the disk can keep is
//!
//! ```text
//!   T = S · switch / (92% − Σ v / bandwidth − greedy)
//! ```
//!
//! where `greedy` is the share of streams that take what they can get: each is promised a first turn in every wait. A turn fills a
//! stream up to v·F, the reach, on top of what its reader has missed while it waited. Memory decides F: with much of it two
//! rounds, so that nobody runs dry; with little each stream runs dry in every round, and waits up to half of what is promised. Nobody
//! holds memory for a reader that waits, so a promise of a second serves more streams than memory could hold.
//!
//! The stream that has run dry first, or will, has the next turn; while nobody is late it goes on in the order of addresses, for shorter
//! seeks. First turns are short: twice what a stream has read.
//!
//! A new stream is refused when there is no such T, or when memory passes M with the shortest F. A refused stream is not turned
//! away: it gets what it asks for and nothing ahead, when no other stream waits, and once in sixteen turns in any case. All
//! are looked at again twenty times a second: rates become known, others leave, and what turns cost is [learned](super::learn).
//!
//! Rates are [measured](super::pace), or given. A stream without one is believed to be like the mean of those that have one, and
//! greedy where there are none. The turns of the greedy grow with what they have read, from a first one of 512 KiB: a paced reader
//! shows its pace after the first, and memory is for whoever keeps coming back for more.

use super::Streams;
use super::sizes::{FIRST_REQUESTS, Load, Missing};
use super::table::{LaneId, State, StreamId};
use crate::units::Nanos;

/// Between two looks at the load: a look goes through all streams.
pub(super) const JUDGE_EVERY: Nanos = Nanos::from_millis(50);
/// A turn reads ahead at most so many times what its stream has read in sequence.
const BELIEVED: u64 = 4;
/// Streams that are refused which a look goes through: with thousands of them it would take longer than the time between two.
const AGAIN_MAX: u32 = 256;
/// Looks in a row at too much load after which streams are refused that were not: a second.
const OVERLOADED_LOOKS: u32 = 20;
/// And where a wait is promised, so many times.
const GROWTH: u64 = 2;

impl Streams {
    /// Blocks a second that a stream is believed to read; `None` for one that takes what it can get.
    fn rate_of(&self, id: StreamId) -> Option<u64> {
        let given = self.sizes.cadence.and_then(|cadence| cadence.rate);
        let measured = self.table.stream(id).pace.rate;
        given
            .or(if measured > 0 { Some(measured) } else { self.peers })
            .filter(|rate| self.sizes.is_rate(*rate))
    }
    /// Blocks that a stream holds after its turn, and on how many disks they lie.
    fn need(&self, rate: u64) -> (u64, u64) {
        let blocks = self.sizes.reads_in(rate, self.rhythm.reach);
        let strip = self.array.as_ref().map_or(u64::MAX, crate::array::Array::strip_blocks);
        (blocks, blocks.div_ceil(strip).clamp(1, self.sizes.disks))
    }
    /// Blocks staged below which a lane queues: R, or what its reader needs until its turn comes.
    pub(super) fn low_water(&self, lane: LaneId) -> u64 {
        let rate = self.sizes.cadence.and_then(|_| self.rate_of(self.table.stream_of(lane)));
        let Some(rate) = rate else { return self.sizes.r };
        let (_, spread) = self.need(rate);
        (self.sizes.reads_in(rate, self.rhythm.low()) / spread).max(self.sizes.r)
    }
    /// When the reader of a lane that queues now will have nothing staged, as far as is known.
    pub(super) fn runs_dry(&self, lane: LaneId) -> Nanos {
        let state = &self.table.lanes[lane as usize];
        if !state.held.is_empty() {
            return state.since;
        }
        let id = self.table.stream_of(lane);
        let rate = self.rate_of(id).unwrap_or(0);
        let unread: u64 = self.table.lanes_of(id).map(|lane| self.table.lanes[lane as usize].unread).sum();
        Nanos(self.now.0.saturating_add(unread.saturating_mul(1_000_000_000) / rate.max(1)))
    }
    /// Blocks that a turn of a lane should issue.
    pub(super) fn wanted(&self, lane: LaneId) -> u64 {
        let (r, live) = (self.sizes.r, self.table.live() as u64);
        let id = self.table.stream_of(lane);
        let proven = self.table.stream(id).proven;
        if self.sizes.cadence.is_none() {
            let want = r * self.sizes.requests(live, self.staging.lanes);
            // With N = auto a stream is not believed further than a few times as far as it has come: many stop or seek.
            let believed = proven.saturating_mul(BELIEVED).next_multiple_of(r);
            return if self.sizes.n_auto { want.min(believed).max(r) } else { want };
        }
        let Some(rate) = self.rate_of(id) else {
            let grown = proven.saturating_mul(GROWTH).next_multiple_of(r);
            return self.greedy_turn.min(grown).max(FIRST_REQUESTS * r);
        };
        let (reach, spread) = self.need(rate);
        let state = &self.table.lanes[lane as usize];
        let missed = if state.held.is_empty() {
            0
        } else {
            let late = self.now.since(state.since);
            self.sizes.reads_in(rate, late.min(self.rhythm.round.max(self.promised())))
        };
        let proven = proven.saturating_mul(GROWTH).max(FIRST_REQUESTS * r);
        let fill = reach.min(proven).min(self.bearable(lane, rate)) + missed;
        (fill / spread).saturating_sub(state.unread).next_multiple_of(r).max(2 * r)
    }
    /// Where somebody has run dry, a turn fills up to a round and a quarter, less what the first of them has waited already: so
    /// waits that a rush of newcomers has brought grow shorter from round to round. A wait's worth is read in any case.
    fn bearable(&self, lane: LaneId, rate: u64) -> u64 {
        let waited = self.first_dry(self.table.disk_of(lane)).map_or(Nanos::ZERO, |dry| self.now.since(dry));
        if waited == Nanos::ZERO {
            return u64::MAX;
        }
        let round = self.rhythm.round.0;
        self.sizes.reads_in(rate, Nanos((round + round / 4).saturating_sub(waited.0)).max(self.promised()))
    }
    /// The wait that is promised.
    pub(super) fn promised(&self) -> Nanos {
        self.sizes.wait.unwrap_or(Nanos::ZERO)
    }
    /// What a stream costs the disks.
    fn load_of(&self, id: StreamId) -> Load {
        let unsettled = u64::from(!self.table.stream(id).settled);
        match self.rate_of(id) {
            Some(rate) => Load { blocks_per_s: rate, switches: self.need(rate).1, greedy: 0, unsettled },
            None => Load { greedy: 1, unsettled, ..Load::default() },
        }
    }
    /// What the streams that are not refused cost the disks.
    fn load(&self) -> Load {
        let admitted = |id: &StreamId| self.table.stream(*id).alive && !self.table.stream(*id).refused;
        self.table.all().filter(admitted).fold(Load::default(), |load, id| load + self.load_of(id))
    }
    /// Mean of the rates that were measured.
    fn mean_rate(&self) -> Option<u64> {
        let (mut sum, mut count) = (0_u64, 0);
        for id in self.table.all() {
            let stream = self.table.stream(id);
            if stream.alive && self.sizes.is_rate(stream.pace.rate) {
                sum += stream.pace.rate;
                count += 1;
            }
        }
        (count > 0).then(|| sum / count)
    }
    /// Looks at the load again: who is refused, the round, and the turn of a stream that takes what it can get.
    pub(super) fn keep_time(&mut self) {
        if self.sizes.cadence.is_none() || self.now.since(self.judged) < JUDGE_EVERY {
            return;
        }
        self.judged = self.now;
        self.peers = self.mean_rate();
        let mut load = self.load();
        if self.table.refused > 0 {
            load = self.look_again(load);
        }
        self.relieve(&load);
        self.set_rhythm(&load);
        // What the others leave of a wait, shared evenly.
        let rated = Load { greedy: 0, ..load };
        let left = self.sizes.left(&rated, self.rhythm.round);
        let share = u128::from(self.promised().0) * u128::from(left) / 1_000_000_000;
        let each = (share / u128::from(load.greedy.max(1))) as u64;
        let transfer = each.saturating_sub(self.sizes.device.switch.0) / self.sizes.device.per_block.0;
        let memory = self.sizes.m / (2 * (load.greedy + load.switches).max(1));
        let r = self.sizes.r;
        self.greedy_turn = (transfer.min(memory) / r * r).max(r);
    }
    /// Looks at streams that are refused, from where the last look ended: some of them may be let in beside such a load.
    /// Returns the load with those.
    fn look_again(&mut self, mut load: Load) -> Load {
        let mut looks = AGAIN_MAX;
        for id in self.again..self.table.all().end {
            if !(self.table.stream(id).alive && self.table.stream(id).refused) {
                continue;
            }
            if looks == 0 {
                self.again = id;
                return load;
            }
            looks -= 1;
            load = self.admit_stream(id, load);
        }
        self.again = 0;
        load
    }
    /// Lets a stream in if it can have its turns in time beside a load; returns the load with or without it.
    fn admit_stream(&mut self, id: StreamId, load: Load) -> Load {
        let with = load + self.load_of(id);
        let judged = self.sizes.rhythm(&with);
        if judged.is_err() {
            return load;
        }
        self.table.refuse(id, false);
        self.was_judged(id, &with, judged);
        for lane in self.table.lanes_of(id) {
            if self.table.lanes[lane as usize].state == State::Waiting {
                self.queue_by_time_at(lane, self.now);
            }
        }
        with
    }
    /// Where streams have turned out to cost more than the disks have, for a second, the youngest is refused: a promise to some
    /// is kept rather than none to all.
    fn relieve(&mut self, load: &Load) {
        self.overloaded = if self.sizes.bears(load) { 0 } else { self.overloaded + 1 };
        if self.overloaded <= OVERLOADED_LOOKS {
            return;
        }
        let admitted = |id: &StreamId| self.table.stream(*id).alive && !self.table.stream(*id).refused;
        let youngest = self.table.all().filter(admitted).max_by_key(|id| self.table.stream(*id).born);
        if let Some(id) = youngest {
            self.table.refuse(id, true);
            self.refused[0] += 1;
            self.was_refused_later(id, load);
        }
    }
    fn set_rhythm(&mut self, load: &Load) {
        self.rhythm = self.sizes.rhythm(load).unwrap_or(self.rhythm);
    }
    /// Whether a new stream can have its turns in time, and is admitted or refused from now on.
    pub(super) fn judge(&mut self, id: StreamId) {
        if self.sizes.cadence.is_none() {
            return;
        }
        let load = self.load();
        let judged = self.sizes.rhythm(&load);
        self.was_judged(id, &load, judged);
        match judged {
            Ok(_) => self.set_rhythm(&load),
            Err(missing) => {
                self.table.refuse(id, true);
                self.refused[usize::from(missing == Missing::Memory)] += 1;
            }
        }
    }
}
