//! `streams`: hundreds of sequential readers at the speed of one (Panagiotakis, Flouris and Bilas, ICDCS 2009; slides).
//!
//! **The idea.** A disk that is asked by many sequential readers in turn spends its time seeking. Let one reader have
//! the disk for a while instead: read far ahead for it in large requests, keep what it has not asked for yet in
//! memory, then let the next one have its turn. Four numbers say how: D streams have a turn at the same time, R is the size
//! of every request, N the requests of a turn, M the memory for all of it, M ≥ D·R·N.
//!
//! ```text
//!                         sequential                                         N requests of R issued
//!   request ─▶ classifier ───────────▶ lane: Idle ──misses, or runs dry──▶ Waiting ──turn──▶ Running ──▶ Closing
//!                  │                     ▲                                    ▲                            │
//!                  │ otherwise           └──────────── nobody waits ──────────┴── somebody waits ──────────┘
//!                  ▼                                                                        all has come back
//!            straight on, demand first
//! ```
//!
//! It is one object with three views. The [policy](Policy) classifies, finds the stream of a request and wishes ahead for
//! whoever has a turn; the [dispatch](Dispatch) keeps the demand commands of streams that wait ([`turns`]); the
//! [retention](Retention) keeps staged data apart from what has been read and the books of memory ([`staging`]).
//! On an array every disk has its own scheduler: a stream has a *lane* on each disk, with its own queue, turn and
//! staged data, and R is cut at strips, so disks do not wait for each other.
//!
//! **When it does nothing.** Requests that are not sequential are never kept back. On a device that positions for nothing
//! (an SSD) nobody is kept back either, and what remains is read-ahead.
//!
//! **Where the slides are silent** (they name D, R, N, M, round-robin turns, the buffered set with a time-out and the
//! bitmap classifier; numbers are algorithms.md 5.2 and 10, unless said otherwise here): a waiting stream's requests wait as
//! commands, so their own few blocks of memory are held beside M; a turn for which memory is short is cut down to what is
//! free, in requests of R, and a stream for which not even one request's memory is free gets only what it waits for;
//! a stream queues for its next turn at the first request that finds less than R staged.

mod cadence;
mod classifier;
mod explain;
mod learn;
mod pace;
mod proof;
mod reasons;
pub mod rows;
pub mod sizes;
mod staging;
mod table;
mod turns;

use super::decisions::{Decision, Switch};
use super::{Fetched, Lookup, Outcome, Plan, Policy, Wants, World};
use crate::access::{Access, Op};
use crate::array::Array;
use crate::dispatch::{DemandFirst, Dispatch};
use crate::retention::contract::Retention;
use crate::units::{BLOCK_BYTES, Extent, Nanos};
use alloc::vec::Vec;
use classifier::{Classifier, RUN_UNITS, RUN_UNITS_HASTY};
use learn::Learned;
use proof::{PAYS_ONE_IN, Proof};
pub use sizes::{Cadence, StreamsConfig};
use sizes::{Device, Rhythm, Sizes};
use staging::Staging;
use table::{State, StreamId, Table};
use turns::{Counts, Owned, Queue};

/// Largest unit of the classifier: 4 MiB, the longest access.
pub const UNIT_BLOCKS_MAX: u64 = 1024;
/// Shortest wait that is promised: what one seek and one turn of a disk take.
pub const WAIT_MIN: Nanos = Nanos::from_millis(10);
/// Between two rounds of collecting what nobody uses.
const COLLECT_EVERY: Nanos = Nanos::from_secs(1);
/// A stream without staged data that has not asked for so long is no more (algorithms.md 5.2, rule 8).
const IDLE: Nanos = Nanos::from_secs(10);
/// Staged data is kept at least so long (the same rule).
const STAGED: Nanos = Nanos::from_secs(30);
/// And so many rounds of turns, where that is longer (the same rule).
const STAGED_ROUNDS: u64 = 4;
/// Wake-ups: to collect, and to go on where a plan was full.
const COLLECT: u64 = 0;
const RESUME: u64 = 1;

/// The scheme.
#[derive(Debug)]
pub struct Streams {
    config: StreamsConfig,
    sizes: Sizes,
    /// Blocks of a line: a unit of the classifier, or what of it a strip is a multiple of.
    line_blocks: u64,
    /// Known from the first event on.
    array: Option<Array>,
    /// Wishes that one request may take: strips of R.
    pieces_max: u64,
    now: Nanos,
    classifier: Classifier,
    table: Table,
    staging: Staging,
    queues: Vec<Queue>,
    /// The order of what is not kept back.
    inner: DemandFirst,
    /// By number of a command: whose it is.
    owners: Vec<Owned>,
    /// The request that is being answered, if it is of a stream.
    current: Option<(Extent, StreamId)>,
    /// What was wished for in this event, and for whom.
    wishing: Vec<(Extent, table::LaneId)>,
    /// Blocks of that request that will be demand of these lanes, and count against their turns.
    coming: Vec<(table::LaneId, u64)>,
    /// Disks where something has changed since turns were last looked at by the policy, and by the dispatch.
    due: u64,
    look: u64,
    /// Disks where a lane that keeps somebody waiting has found too little memory.
    short: u64,
    /// Blocks of commands of turns that have not ended.
    under_way: u64,
    /// A wake-up to go on has been asked for; one to collect.
    resuming: bool,
    collecting: bool,
    /// Blocks of requests of streams that are kept or under way, and dirty blocks of the cache.
    demanded: u64,
    dirty: u64,
    counts: Counts,
    classified: u64,
    refuted: u64,
    /// Streams that have not paid for their first turn.
    proof: Proof,
    /// Streams that were refused for the disk's time, and for memory.
    refused: [u64; 2],
    /// When the load was last looked at; the rhythm that follows from it, and the blocks of a turn of those that take
    /// what they can get.
    judged: Nanos,
    rhythm: Rhythm,
    greedy_turn: u64,
    /// Mean of the rates that were measured.
    peers: Option<u64>,
    /// Looks in a row at which streams cost more than the disks have.
    overloaded: u32,
    /// The stream from which those that are refused are looked at next.
    again: StreamId,
    /// From how much it was learned what turns cost the device.
    learned: Learned,
    switch: Switch,
}

impl Streams {
    /// For a layer with strips of so many blocks. What `config` leaves open is chosen at the first access, from what is
    /// believed of the device then.
    #[must_use]
    pub fn new(config: StreamsConfig, strip_blocks: u64) -> Self {
        let disks = u16::try_from(config.disks).unwrap_or(u16::MAX);
        let unknown = Device { switch: Nanos::ZERO, per_block: Nanos(1), positions: true };
        let run = if config.cadence.is_some() { RUN_UNITS_HASTY } else { RUN_UNITS };
        Self {
            config,
            sizes: Sizes::choose(&config, &unknown),
            line_blocks: common(strip_blocks, config.unit),
            array: None,
            pieces_max: 1,
            now: Nanos::ZERO,
            classifier: Classifier::new(config.unit, run),
            table: Table::new(disks, config.unit),
            staging: Staging::new(),
            queues: Vec::new(),
            inner: DemandFirst::new(usize::from(disks)),
            owners: Vec::new(),
            current: None,
            wishing: Vec::new(),
            coming: Vec::new(),
            due: 0,
            look: 0,
            short: 0,
            under_way: 0,
            resuming: false,
            collecting: false,
            demanded: 0,
            dirty: 0,
            counts: Counts::default(),
            classified: 0,
            refuted: 0,
            proof: Proof::default(),
            refused: [0; 2],
            judged: Nanos::ZERO,
            rhythm: Rhythm::default(),
            greedy_turn: 1,
            peers: None,
            overloaded: 0,
            again: 0,
            learned: Learned::nothing(unknown),
            switch: Switch::default(),
        }
    }
    /// The numbers in use.
    #[must_use]
    pub const fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// An event begins.
    fn begin_event(&mut self, world: &World<'_>) {
        if self.array.is_none() {
            self.line_blocks = world.cache.line_blocks();
            let array = *world.array;
            self.array = Some(array);
            self.sizes = Sizes::choose(&self.config, &Device::believed(world.cost, array.member_blocks()));
            self.learned = Learned::nothing(self.sizes.device);
            self.greedy_turn = self.sizes.r;
            if self.sizes.disks > 1 {
                self.pieces_max = self.sizes.r.div_ceil(array.strip_blocks()).min(super::WISHES_MAX as u64);
            }
        }
        self.now = world.now;
        self.dirty = world.cache.dirty_blocks;
        self.current = None;
        self.coming.clear();
        self.conclude_wishes();
    }

    /// A read: of a stream, or perhaps the beginning of one.
    fn follow(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>) {
        let known = self.table.find(access.extent.start.0);
        if known.is_none() {
            if self.config.cadence.is_none() {
                self.classifier.require(self.proof.run(self.now));
            }
            if !self.classifier.see(access.extent) {
                return;
            }
        }
        let Some(id) = known.or_else(|| self.take_in(access)) else { return };
        let here = lookup.outcomes.iter().all(|it| matches!(it, Outcome::CacheHit | Outcome::PrefetchHit));
        let sequential = self.table.read(id, access, here, self.now, self.sizes.r);
        let unpaid = self.table.stream(id).owes && self.table.at_rest(id);
        if unpaid || self.table.is_refuted(id) && self.can_go(id) {
            self.is_no_stream(id, unpaid);
            self.drop_stream(id);
            self.refuted += 1;
            return;
        }
        // By the clock, who reads elsewhere in the stream's region waits for no turn of it: that would read on from where its reader is.
        if sequential || self.config.cadence.is_none() {
            self.current = Some((access.extent, id));
        }
        self.keep_time();
        if sequential && !self.table.stream(id).refused {
            self.run_dry(id, access.extent, lookup, world);
        }
    }
    /// A new stream. Where the table is full, the one that asked longest ago makes room if nobody waits for it.
    fn take_in(&mut self, access: &Access) -> Option<StreamId> {
        let made = self.table.create(access, self.now).or_else(|| {
            let oldest = self.table.oldest().filter(|&id| self.can_go(id))?;
            self.is_replaced(oldest);
            self.drop_stream(oldest);
            self.table.create(access, self.now)
        });
        self.classified += u64::from(made.is_some());
        if let Some(id) = made {
            self.has_begun(id);
            self.judge(id);
        }
        made
    }
    /// A lane's turn is over: its stream is in debt where some of what was read ahead for it is here and hardly any was asked
    /// for. Nothing more is read ahead for it until it pays, and if all of it leaves before, it was no stream.
    /// Of one disk only: on an array a reader that waits for the next disk would seem to be in debt.
    fn turn_is_over(&mut self, lane: table::LaneId) {
        let staged = self.table.lanes[lane as usize].unread > 0;
        let enough = self.pays();
        let stream = self.table.stream_mut(self.table.stream_of(lane));
        if self.config.cadence.is_none()
            && self.sizes.disks == 1
            && staged
            && stream.used < enough
            && !core::mem::replace(&mut stream.owes, true)
        {
            self.proof.owes(self.now);
        }
    }
    /// Blocks of what was read ahead that a stream has to ask for.
    const fn pays(&self) -> u64 {
        self.sizes.r / PAYS_ONE_IN
    }
    /// Blocks that were read ahead for a lane were asked for.
    fn was_asked_for(&mut self, lane: table::LaneId, blocks: u64) {
        let enough = self.pays();
        let stream = self.table.stream_mut(self.table.stream_of(lane));
        stream.used += blocks;
        if stream.used >= enough && core::mem::take(&mut stream.owes) {
            self.proof.paid();
        }
    }
    /// Whether a stream neither waits nor has a turn.
    fn can_go(&self, id: StreamId) -> bool {
        self.table.lanes_of(id).all(|lane| self.table.lanes[lane as usize].state == State::Idle)
    }
    /// Forgets a stream that [can go](Self::can_go), and gives up its data.
    fn drop_stream(&mut self, id: StreamId) {
        for lane in self.table.lanes_of(id) {
            self.give_up(lane);
        }
        self.table.forget(id);
    }
    /// A sequential request that finds less than R staged on its disk has the stream queue for a turn (rule 6): there, and on
    /// every other disk that holds some of what follows. So a stream has its turns on all of them at about the same time,
    /// and no disk fills memory with what its reader cannot reach yet.
    fn run_dry(&mut self, id: StreamId, extent: Extent, lookup: &Lookup<'_>, world: &World<'_>) {
        let strip = world.array.strip_blocks();
        let mut at = extent.start.0;
        while at < extent.end() {
            let (from, place) = (at, world.array.direct(Extent::new(at, 1)));
            at =
                if self.sizes.disks == 1 { extent.end() } else { extent.end().min((at / strip + 1) * strip) };
            let Some(place) = place else { continue };
            let lane = self.table.lane_of(id, place.disk.0);
            let outcomes = lookup.outcomes.iter().skip((from - extent.start.0) as usize);
            let misses = outcomes.take((at - from) as usize).filter(|outcome| outcome.is_miss()).count();
            self.coming.push((lane, misses as u64));
            if self.is_dry(lane, u64::MAX, world) {
                self.wait(lane);
                if self.sizes.disks > 1 {
                    self.queue_beside(id, world);
                }
            }
        }
    }
    /// The lanes that hold some of what the reader will ask for in its next turn queue with the one that is dry.
    fn queue_beside(&mut self, id: StreamId, world: &World<'_>) {
        let reach = self.sizes.r * self.sizes.n;
        for lane in self.table.lanes_of(id) {
            if self.is_dry(lane, reach, world) {
                self.wait(lane);
            }
        }
    }
    /// Whether a lane does nothing, holds less than R, and has something to read within `reach` of its reader.
    fn is_dry(&self, lane: table::LaneId, reach: u64, world: &World<'_>) -> bool {
        let state = &self.table.lanes[lane as usize];
        if state.state != State::Idle || state.unread >= self.low_water(lane) {
            return false;
        }
        let next = self.table.stream(self.table.stream_of(lane)).next;
        let limit = self.limit(lane, world).min(next.saturating_add(reach));
        self.next_piece(self.table.disk_of(lane), state.cursor.max(next), limit).is_some()
    }

    /// How long staged data is kept.
    fn staged_timeout(&self) -> Nanos {
        let round = self.sizes.turn(self.sizes.n).0.saturating_mul(self.table.live() as u64);
        STAGED.max(Nanos(round.saturating_mul(STAGED_ROUNDS)))
    }
    fn arm(&mut self, plan: &mut Plan) {
        if !self.collecting && self.table.live() > 0 {
            self.collecting = true;
            plan.wake_at(self.now + COLLECT_EVERY, COLLECT);
        }
    }
}

/// Greatest common divisor.
const fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

impl Policy for Streams {
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn own_dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        Some(self)
    }
    fn wants(&mut self) -> Wants {
        Wants { line_blocks: Some(self.line_blocks), ahead_blocks_max: Some(self.config.cache_blocks) }
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.begin_event(world);
        if access.op == Op::Read {
            self.follow(access, lookup, world);
            self.arm(plan);
        }
        self.advance(world, plan);
    }
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        self.begin_event(world);
        self.landed(fetched.extent, world.cache);
        self.advance(world, plan);
    }
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        self.begin_event(world);
        if token == RESUME {
            self.resuming = false;
        } else {
            self.collecting = false;
            self.collect();
            self.arm(plan);
        }
        self.advance(world, plan);
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        let mut say = |name, value: u64| out.push((name, value as f64));
        say("streams_live", self.table.live() as u64);
        say("streams_begun", self.classified);
        say("streams_refuted", self.refuted);
        say("streams_turns", self.counts.turns);
        say("streams_requests", self.counts.requests);
        say("streams_r_bytes", self.sizes.r * BLOCK_BYTES);
        say("streams_n", self.sizes.n);
        say("streams_memory_peak_bytes", self.staging.peak * BLOCK_BYTES);
        say("streams_given_up_bytes", self.staging.given_up * BLOCK_BYTES);
        say("streams_turns_refused", self.counts.refused);
        say("streams_held_max", self.counts.held_max);
        if self.sizes.cadence.is_none() {
            say("streams_in_debt", self.proof.debtors().into());
        } else {
            say("cadence_round_ms", self.rhythm.round.0 / 1_000_000);
            say("cadence_reach_ms", self.rhythm.reach.0 / 1_000_000);
            say("cadence_switch_us", self.sizes.device.switch.0 / 1_000);
            say("cadence_block_ns", self.sizes.device.per_block.0);
            say("cadence_refused_for_time", self.refused[0]);
            say("cadence_refused_for_memory", self.refused[1]);
            say("cadence_refused_now", self.table.refused);
        }
        say("streams_wait_max_ms", self.counts.wait_max.0 / 1_000_000);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}
