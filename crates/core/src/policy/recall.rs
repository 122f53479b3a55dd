//! `recall`: remembers which runs were read behind which, and reads ahead where a reader goes the same way again.
//!
//! Most real reading repeats itself: boots, starts of programs, builds, walks of an index, the same queries. What a process
//! missed is written down as runs, in the order in which it missed them (`recall/log.rs`). A reader that meets a known run may be on a
//! known way; two more of its runs must prove it. From then on the way is read ahead (`recall/way.rs`):
//!
//! ```text
//!   remembered   7 ─▶ 40 ─▶ 12 ─▶ 90 ─▶ 31 ─▶ 66 ─▶ 18 ─▶ …
//!   reader       7    40    12 ┐
//!                     ✓     ✓  └─ proven: 90, 31, 66, 18 are wished, over a head in the order of places; when half of them are
//!                                 behind the reader, the next ones are; twice as many if it had to wait for one
//! ```
//!
//! The order need not be just the same: a run counts as met wherever in the window it is read, a reader has up to [`WAYS_MAX`] ways at
//! once, and one is left after [`STRAYS_MAX`] reads elsewhere. What is on a way but in memory is passed over. What was wished is worth
//! what the cost model charges for reading it apart, if the reader then needed it, and costs as much if not: where less than half was
//! of use lately, nothing is wished, and what would have been of use is counted on, so that it can begin again; and of a way of which
//! more than half is lost only a few runs are. Nor is anything wished where one head serves all and most of what was needed came
//! late: then reading ahead for one reader only gets in the way of others. That can be seen by trying alone, so it is tried again
//! now and then.
//!
//! It does nothing on a first pass, for what other schemes have read ahead in time, and for ways longer than what its memory
//! holds. It knows blocks only, so it works over an array and in a page cache alike. Sources: C-Miner (Li et al., FAST 2004), Nexus
//! (Gu et al., CCGRID 2006), Mithril (Yang et al., SoCC 2017), temporal streams (Wenisch et al., ISCA 2005); the wait for
//! proof is RPP's. None is reproduced to the letter.

mod bits;
mod frame;
mod index;
mod log;
mod way;

use super::decisions::{Decision, Subject, Switch, Way as Turn, because};
use super::{Fetched, Learned, Lookup, Plan, Policy, World};
use crate::access::{Access, Op, Outcome};
use crate::cache::State;
use crate::pattern::Recent;
use crate::row::{Layer, Make, Param, Role, Row};
use crate::units::{BLOCK_BYTES, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use log::{Log, Place, Segment};
use way::{AHEAD_BYTES, Mark, Way};

/// Of the cache's bytes one in so many is memory of the past, unless said otherwise.
const MEMORY_ONE_IN: u64 = 256;
/// Most processes followed at once, 72 bytes each and their ways: as many as a busy server has that read.
pub const READERS_MAX: usize = 1_024;
/// Runs of a known way that must come in a row before it is believed: one may be chance, as a hot block is.
pub const PROOF: u32 = 2;
/// Runs ahead of a way that is not believed yet among which a read is looked for: what lies between was in memory this time.
const LOOK_AHEAD: u32 = 8;
/// Ways of one reader: what it reads the second time is written down apart from what it read the first time, and so is what its
/// threads read.
const WAYS_MAX: usize = 4;
/// Reads elsewhere after which a way is left, for each way of its reader.
pub const STRAYS_MAX: u32 = 16;
/// Runs that are wished at first.
const DEPTH_MIN: u32 = 4;
/// Most runs ahead of a reader.
pub const DEPTH_MAX: u32 = 4_096;
/// Most blocks ahead of all readers: one in so many of the cache.
const AHEAD_ONE_IN: u64 = 8;
/// Of the memory of the past one byte in so many is for runs ahead of readers.
const AHEAD_BYTES_ONE_IN: u64 = 8;
/// Most blocks that are read over.
const GAP_MAX: u64 = 8;
/// Most readers on known ways among which what may be ahead is shared; one more has no more ahead than if there were so many.
const ACTIVE_MAX: usize = 64;
/// Reads of others on their ways after which a reader has no share.
const ACTIVE_READS: u64 = 4_096;
/// Runs that may be wished before their use is judged: four times the first depth.
const TRIAL_RUNS: u64 = 16;
/// Runs after which older ones count half.
const JUDGED_RUNS: u64 = 256;

/// What is saved by a run that its reader still had to wait for: one in so many of what one saves that came in time.
const LATE_ONE_IN: u64 = 4;
/// Runs after which it is tried again whether they come in time; twice as many after each trial that failed.
const RETRY_RUNS: u64 = 256;
/// Most runs until then.
const RETRY_MAX: u64 = 16_384;

/// How it turns, and why.
const PAYS: Turn = Turn::on("on", "enough of what it recalled was needed");
const LOSES: Turn =
    Turn::off("off", "less than half of what it recalled was needed, by what reading it costs");
const LATE: Turn = Turn::off(
    "off",
    "most of what it recalled came no sooner than its reader, on one head that has others to serve",
);
const PROVEN: Turn = Turn::on("recalling", "its last runs came as they had come before");
const LEFT: Turn = Turn::off("listening", "its reads are no longer on the way that they had gone before");

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "recall",
    layer: Layer::Host,
    role: Role::Beside,
    about: "Remembers which runs were read behind which, and reads ahead where a reader goes the same way again.",
    source: "C-Miner (FAST 2004), Mithril (SoCC 2017), temporal streams (ISCA 2005)",
    params: &[Param::bytes_or_auto("memory", "What it may remember; auto is 1/256 of the cache.")],
    make: Make::Policy(|values, shape| {
        let bytes = values.bytes_or_auto("memory");
        let auto = shape.cache_blocks * BLOCK_BYTES / MEMORY_ONE_IN;
        Box::new(Recall::new(bytes.unwrap_or(auto), shape.cache_blocks))
    }),
    either: true,
    ..Row::PLAIN
};

/// One process, and the ways that it is on.
#[derive(Clone, Debug)]
struct Reader {
    /// The segment that it fills.
    open: Segment,
    /// Where its last access that was not in memory ended.
    end: u64,
    /// Ways that are believed, the one met last first.
    ways: Vec<Way>,
    /// A way that it may be on, and how many of its runs came in a row.
    other: Place,
    other_met: u32,
}

impl Default for Reader {
    fn default() -> Self {
        let (open, other) = (Segment::NONE, Place::NONE);
        Self { open, end: u64::MAX, ways: Vec::new(), other, other_met: 0 }
    }
}

/// Costs of runs, in the cost model's time, and how many; older ones count half.
#[derive(Clone, Debug)]
struct Account {
    runs: u64,
    spent: u64,
    earned: u64,
}

impl Account {
    const NONE: Self = Self { runs: 0, spent: 0, earned: 0 };
    const fn enter(&mut self, runs: u64, spent: u64, earned: u64) {
        if self.runs >= JUDGED_RUNS {
            (self.runs, self.spent, self.earned) = (self.runs / 2, self.spent / 2, self.earned / 2);
        }
        self.runs += runs;
        self.spent += spent;
        self.earned += earned;
    }
    const fn pays(&self) -> bool {
        self.runs < TRIAL_RUNS || self.earned.saturating_mul(2) >= self.spent
    }
}

/// Whether recalling pays: by what was needed of all that was wished, and where one head serves all, by what came in time of what was
/// asked for.
#[derive(Clone, Debug)]
struct Judge {
    needed: Account,
    timely: Account,
    /// Runs until it is tried again whether they come in time, and after the next failure.
    rest: u64,
    retry: u64,
}

impl Judge {
    const NEW: Self = Self { needed: Account::NONE, timely: Account::NONE, rest: 0, retry: RETRY_RUNS };
    /// A run is about to be wished: the way in which it stands, [`PAYS`] if it is to be asked for.
    fn wish(&mut self, alone: bool) -> &'static Turn {
        if self.rest > 0 {
            self.rest -= 1;
            return &LATE;
        }
        if !self.needed.pays() {
            return &LOSES;
        }
        if alone && !self.timely.pays() {
            self.rest = self.retry;
            self.retry = (2 * self.retry).min(RETRY_MAX);
            self.timely = Account::NONE;
            return &LATE;
        }
        if self.timely.runs >= JUDGED_RUNS / 2 {
            self.retry = RETRY_RUNS;
        }
        &PAYS
    }
    /// So many wished runs were not needed, each about as dear as `cost`.
    const fn lost(&mut self, runs: u64, cost: Nanos) {
        self.needed.enter(runs, runs * cost.0, 0);
    }
    /// A wished run was needed; of one that was asked for it is known whether it came in time.
    const fn used(&mut self, cost: Nanos, asked: bool, late: bool) {
        self.needed.enter(1, cost.0, cost.0);
        if asked {
            self.timely.enter(1, cost.0, if late { cost.0 / LATE_ONE_IN } else { cost.0 });
        }
    }
}

/// Who is on a known way, among whom memory is shared.
#[derive(Clone, Debug, Default)]
struct Active {
    reads: u64,
    /// Processes, and when they were seen.
    seen: Vec<(u64, u64)>,
}

impl Active {
    /// A reader on a known way reads: among how many memory is shared.
    fn share(&mut self, process: u64) -> u64 {
        self.reads += 1;
        let now = self.reads;
        if let Some((_, at)) = self.seen.iter_mut().find(|(of, _)| *of == process) {
            *at = now;
            return self.seen.len() as u64;
        }
        self.seen.retain(|(_, at)| now - at < ACTIVE_READS);
        if self.seen.len() < ACTIVE_MAX {
            self.seen.push((process, now));
        }
        self.seen.len() as u64
    }
}

/// Logs, and the processes that write and follow them.
#[derive(Clone, Debug)]
pub struct Recall {
    log: Log,
    readers: Recent<Reader>,
    judge: Judge,
    active: Active,
    ahead_blocks_max: u64,
    ahead_runs_max: u64,
    /// Runs: wished for, and of them needed.
    wished_runs: u64,
    used_runs: u64,
    proven: u64,
    whole: Switch,
    turns: Switch,
}

impl Recall {
    /// Remembers as much as fits into `bytes`, for a cache of so many blocks.
    #[must_use]
    pub fn new(bytes: u64, cache_blocks: u64) -> Self {
        let ahead = bytes / AHEAD_BYTES_ONE_IN;
        Self {
            log: Log::new(bytes - ahead, cache_blocks),
            readers: Recent::new(READERS_MAX),
            judge: Judge::NEW,
            active: Active::default(),
            ahead_blocks_max: cache_blocks / AHEAD_ONE_IN,
            ahead_runs_max: ahead / AHEAD_BYTES,
            wished_runs: 0,
            used_runs: 0,
            proven: 0,
            whole: Switch::default(),
            turns: Switch::default(),
        }
    }

    /// A read of a process: where it is on its ways, what is learned of it, and what is wished because of it.
    fn read(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let cold = lookup.outcomes.iter().any(|outcome| *outcome != Outcome::CacheHit);
        let reader = self.readers.or_default(access.context.process());
        if !cold && reader.ways.is_empty() {
            return; // nothing to learn, and nothing to follow
        }
        let found = (0..reader.ways.len())
            .find_map(|turn| reader.ways[turn].find(&self.log, access.extent).map(|index| (turn, index)));
        if let Some((turn, index)) = found {
            reader.ways[..=turn].rotate_right(1);
            self.meet(access, lookup, cold, index, world);
        } else if cold {
            self.leave(access, world);
            self.stray(access, world);
        }
        self.recall(access, world, plan);
    }

    /// A read of a run of the first way of its reader.
    fn meet(&mut self, access: &Access, lookup: &Lookup<'_>, cold: bool, index: usize, world: &World<'_>) {
        let Some(reader) = self.readers.peek_mut(access.context.process()) else { return };
        let paid = cost(world, access.extent, reader.end);
        if cold {
            reader.end = access.extent.end();
        }
        let (mark, lost) = reader.ways[0].go(&mut self.log, index);
        self.judge.lost(lost, paid);
        if !mark.has(Mark::MISSING) {
            return;
        }
        let waits = |outcome: &Outcome| !matches!(outcome, Outcome::CacheHit | Outcome::PrefetchHit);
        let late = lookup.outcomes.iter().any(waits);
        if !cold && !mark.has(Mark::ASKED) {
            self.judge.lost(1, paid); // somebody else has read it, and it would have been for nothing
            return;
        }
        self.used_runs += 1;
        self.judge.used(paid, mark.has(Mark::ASKED), late);
        if late && mark.has(Mark::ASKED) {
            reader.ways[0].reach(DEPTH_MAX);
        }
    }

    /// A read that is on no way of its reader: those that were not met for long are left.
    fn leave(&mut self, access: &Access, world: &World<'_>) {
        let Some(reader) = self.readers.peek_mut(access.context.process()) else { return };
        let most = STRAYS_MAX * reader.ways.len() as u32;
        reader.ways.iter_mut().for_each(|way| way.strays += 1);
        while let Some(way) = reader.ways.last().filter(|way| way.strays > most) {
            let lost = way.lost();
            reader.ways.pop();
            self.judge.lost(lost, cost(world, access.extent, reader.end));
            let numbers = because([("wished_runs_lost", lost)]);
            self.turns.turn(world.now, "recall", &LEFT, Some(of(access)), numbers);
        }
    }

    /// A read that is on no way of its reader: it may be on another one, and is learned if it is not.
    fn stray(&mut self, access: &Access, world: &World<'_>) {
        let Self { log, readers, .. } = self;
        let extent = access.extent;
        let Some(reader) = readers.peek_mut(access.context.process()) else { return };
        if let Some(at) = step(log, reader.other, extent) {
            reader.end = extent.end();
            reader.other_met += u32::from(at != reader.other);
            reader.other = at;
            log.keep(at.segment);
            if reader.other_met >= PROOF {
                self.prove(access, world);
            }
            return;
        }
        let goes_on = extent.start.0 == reader.end;
        reader.end = extent.end();
        if goes_on && log.grow(reader.open, extent) {
            return;
        }
        if let Some(found) = log.find(extent).next() {
            (reader.other, reader.other_met) = (found, 0);
        }
        reader.open = log.add(reader.open, extent).unwrap_or(Segment::NONE);
    }

    /// The other way of a reader is believed.
    fn prove(&mut self, access: &Access, world: &World<'_>) {
        let Some(reader) = self.readers.peek_mut(access.context.process()) else { return };
        if reader.ways.len() == WAYS_MAX
            && let Some(oldest) = reader.ways.pop()
        {
            self.judge.lost(oldest.lost(), cost(world, access.extent, reader.end));
        }
        reader.ways.insert(0, Way::at(reader.other, DEPTH_MIN));
        let met = u64::from(reader.other_met);
        (reader.other, reader.other_met) = (Place::NONE, 0);
        self.proven += 1;
        let numbers = because([("runs_met", met), ("runs_known", self.log.len() as u64)]);
        self.turns.turn(world.now, "recall", &PROVEN, Some(of(access)), numbers);
    }

    /// Looks at the runs ahead of a reader on its first way, and wishes for those that are missing.
    fn recall(&mut self, access: &Access, world: &World<'_>, plan: &mut Plan) {
        let process = access.context.process();
        let Some(reader) = self.readers.peek_mut(process) else { return };
        let ways = reader.ways.len() as u64;
        let Some(way) = reader.ways.first_mut() else { return };
        let share = self.active.share(process) * ways;
        let most = self.ahead_runs_max / share;
        let most = u32::try_from(most).unwrap_or(DEPTH_MAX).clamp(DEPTH_MIN, DEPTH_MAX);
        let blocks_max = self.ahead_blocks_max / share;
        let depth = way.depth().min(most);
        let head = world.cost.has_heads();
        let alone = head && world.array.disks() == 1;
        if way.ahead() > depth as usize / 2 || way.blocks() > blocks_max / 2 {
            way.wish(plan);
            return;
        }
        while way.ahead() < depth as usize
            && way.blocks() < blocks_max
            && let Some((place, run)) = way.next(&self.log)
        {
            let missing = run.iter().any(|block| world.cache.state(block) == State::Empty);
            if !missing {
                way.add((place, run), Mark::default());
                continue;
            }
            self.wished_runs += 1;
            let turn = self.judge.wish(alone);
            let mark = if turn.on { Mark::MISSING.and(Mark::ASKED) } else { Mark::MISSING };
            way.add((place, run), mark);
            let of = &self.judge.needed;
            let (runs, spent, earned) = (of.runs, of.spent / 1_000, of.earned / 1_000);
            self.whole.set(world.now, "recall", turn, || {
                because([("runs", runs), ("spent_us", spent), ("earned_us", earned)])
            });
        }
        if head {
            way.sort(gap(world));
        }
        way.wish(plan);
    }
}

/// Blocks over which to read is believed to cost no more than to go round them.
fn gap(world: &World<'_>) -> u64 {
    let model = world.cost;
    let apart = model.command + model.position(0, model.track_blocks + 1);
    (apart.0 / 2 / model.per_block.0.max(1)).min(GAP_MAX)
}

/// Where a read is on the way from `at`, if it is there or a little ahead.
fn step(log: &Log, at: Place, extent: Extent) -> Option<Place> {
    let mut next = Some(at);
    for _ in 0..=LOOK_AHEAD {
        let place = next?;
        if log::is_of(log.run(place)?, extent) {
            return Some(place);
        }
        next = log.next(place);
    }
    None
}

/// What reading it apart costs, as far as is believed, after a read that ended at `from`.
fn cost(world: &World<'_>, run: Extent, from: u64) -> Nanos {
    let model = world.cost;
    model.command + model.position(from, run.start.0) + Nanos(run.blocks * model.per_block.0)
}

fn of(access: &Access) -> Subject {
    let Access { context, extent, .. } = *access;
    Subject { kind: "reader", number: context.process(), context, extent }
}

impl Learned for Recall {
    fn way(&self) -> Vec<Extent> {
        self.log.ways()
    }
    fn learn(&mut self, way: &[Extent]) {
        let mut open = Segment::NONE;
        for &extent in way {
            let Some(now) = self.log.add(open, extent) else { break };
            open = now;
        }
    }
}

impl Policy for Recall {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Read {
            self.read(access, lookup, world, plan);
        }
    }
    fn learned(&mut self) -> Option<&mut dyn Learned> {
        Some(self)
    }
    /// The one that knows more is believed: a new one that is chosen in the middle of a run has seen nothing.
    fn inherit(&mut self, elder: &dyn Any) {
        let Some(elder) = elder.downcast_ref::<Self>().filter(|it| it.log.len() > self.log.len()) else {
            return;
        };
        if elder.log.has_room_of(&self.log) {
            self.clone_from(elder);
        } else {
            self.learn(&elder.way());
        }
    }
    fn on_fetched(&mut self, fetched: &Fetched, _: &World<'_>, plan: &mut Plan) {
        if let Some(way) = self.readers.peek_mut(fetched.context.process()).and_then(|it| it.ways.first_mut())
        {
            way.wish(plan);
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        let mut gauge = |name, value: u64| out.push((name, value as f64));
        gauge("recall_runs", self.log.len() as u64);
        gauge("recall_bytes", self.log.bytes());
        gauge("recall_bytes_max", self.log.bytes_max());
        gauge("recall_ways", self.proven);
        gauge("recall_wished_runs", self.wished_runs);
        gauge("recall_used_runs", self.used_runs);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.whole.take(out);
        self.turns.take(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::Rig;
    use super::*;
    use crate::access::Context;

    /// Runs that lie apart, the same each time.
    const WAY: [u64; 12] = [700, 40, 12_000, 9_000, 310, 6_600, 1_800, 52_000, 33_000, 2_500, 47_000, 21_000];

    fn rig() -> Rig<Recall> {
        // A cache that has forgotten a way before it is gone a second time.
        Rig::new(Recall::new(4_096, 64), 64)
    }

    /// Reads elsewhere, until nothing else is in memory.
    fn forget(rig: &mut Rig<Recall>, round: u64) {
        for n in 0..64 {
            rig.access(Access::read(Context::new(9, 0), Extent::new(60_000 + 100 * round + n, 1)));
        }
    }

    fn pass(rig: &mut Rig<Recall>, process: u64) -> Vec<Vec<(u64, u64)>> {
        let read = |start| Access::read(Context::new(process, 0), Extent::new(start, 2));
        WAY.map(|start| rig.access(read(start))).to_vec()
    }

    #[test]
    fn what_it_remembers_is_shown_beside_its_most() {
        let mut rig = rig();
        let shown = |rig: &mut Rig<Recall>| {
            let mut out = Vec::new();
            rig.policy().gauges(&mut out);
            ["recall_runs", "recall_bytes", "recall_bytes_max"]
                .map(|name| out.iter().find(|gauge| gauge.0 == name).expect(name).1 as u64)
        };
        let [runs, before, most] = shown(&mut rig);
        pass(&mut rig, 1);
        let [after, bytes, still] = shown(&mut rig);
        assert!((runs, most) == (0, still) && after >= WAY.len() as u64 - 1, "{runs} and {after} runs");
        assert!(before < bytes && bytes <= most && most <= 4_096, "{before}, {bytes} of {most}");
    }

    #[test]
    fn a_way_that_was_gone_before_is_read_ahead_once_it_is_proven() {
        let mut rig = rig();
        let first = pass(&mut rig, 1);
        assert!(
            first.iter().zip(WAY).all(|(fetched, start)| *fetched == [(start, 2)]),
            "nothing is known: {first:?}"
        );
        forget(&mut rig, 0);
        let second = pass(&mut rig, 2);
        assert_eq!(second[0], [(700, 2)]);
        assert_eq!(second[1], [(40, 2)], "one more must come");
        assert_eq!(
            second[2],
            [(310, 2), (1_800, 2), (6_600, 2), (9_000, 2), (12_000, 2)],
            "and four runs ahead of it"
        );
        assert!(
            second[3].is_empty() && second[4].len() == 2,
            "half is behind the reader: two more are wished"
        );
        assert!(second[11].is_empty() && rig.policy().used_runs >= 8);
    }

    #[test]
    fn a_read_elsewhere_does_not_end_a_way_and_many_do() {
        let mut rig = rig();
        pass(&mut rig, 1);
        forget(&mut rig, 0);
        let read = |rig: &mut Rig<Recall>, start| {
            rig.access(Access::read(Context::new(2, 0), Extent::new(start, 2)))
        };
        WAY[..4].iter().for_each(|&start| drop(read(&mut rig, start)));
        assert_eq!(read(&mut rig, 64_000), [(64_000, 2)]);
        assert_eq!(read(&mut rig, WAY[4]).len(), 2, "still on its way");
        for n in 0..=u64::from(STRAYS_MAX) {
            read(&mut rig, 64_100 + 10 * n);
        }
        assert_eq!(rig.policy().readers.peek(2).map(|reader| reader.ways.len()), Some(0));
        let mut told = Vec::new();
        rig.policy_mut().0.decisions(&mut told);
        let turns: Vec<&str> = told.iter().filter(|d| d.of.is_some()).map(|d| d.to).collect();
        assert_eq!(turns, ["recalling", "listening"]);
    }

    #[test]
    fn what_is_never_needed_is_no_longer_wished() {
        let cost = Nanos::from_millis(5);
        let mut judge = Judge::NEW;
        for _ in 0..TRIAL_RUNS {
            assert_eq!(judge.wish(false), &PAYS);
            judge.lost(1, cost);
        }
        assert_eq!(judge.wish(false), &LOSES);
        for _ in 0..TRIAL_RUNS {
            judge.used(cost, false, true);
        }
        assert_eq!(judge.wish(false), &PAYS, "what would have been of use is counted on");
    }

    #[test]
    fn what_comes_late_over_the_only_head_is_tried_again_ever_more_seldom() {
        let cost = Nanos::from_millis(5);
        let asked = |alone: bool, late: bool| {
            let mut judge = Judge::NEW;
            (0..5_000_u64)
                .filter(|_| {
                    let tried = judge.wish(alone) == &PAYS;
                    judge.used(cost, tried, late);
                    tried
                })
                .collect::<Vec<u64>>()
        };
        let few = asked(true, true);
        assert!(few.len() < 150, "{} of 5,000", few.len());
        assert!(few.iter().any(|&n| n > 2_000), "it is tried again: {few:?}");
        assert_eq!(asked(true, false).len(), 5_000);
        assert_eq!(asked(false, true).len(), 5_000, "many heads, or none, are not in one another's way");
    }

    #[test]
    fn memory_is_shared_among_those_who_are_on_their_ways_now() {
        let mut active = Active::default();
        assert_eq!([1, 2, 1, 3].map(|process| active.share(process)), [1, 2, 2, 3]);
        for _ in 0..ACTIVE_READS {
            active.share(2);
        }
        assert_eq!((active.share(4), active.share(2)), (2, 2), "1 and 3 have not read for long");
        let all = (0..2 * ACTIVE_MAX as u64).map(|process| active.share(process)).max();
        assert_eq!(all, Some(ACTIVE_MAX as u64));
    }

    /// Reads of known ways may come in another order, as threads and queues have it.
    #[test]
    fn a_way_is_followed_though_neighbours_change_places() {
        let mut rig = rig();
        pass(&mut rig, 1);
        forget(&mut rig, 0);
        let read = |start| Access::read(Context::new(2, 0), Extent::new(start, 2));
        let order = [0, 1, 2, 4, 3, 6, 5, 8, 7, 10, 9, 11];
        let fetched: Vec<_> = order.map(|n: usize| rig.access(read(WAY[n]))).to_vec();
        assert!(fetched[3..].iter().filter(|fetched| fetched.is_empty()).count() >= 3, "{fetched:?}");
        assert!(rig.policy().used_runs >= 8 && rig.policy().proven == 1);
    }

    #[test]
    fn what_was_learned_is_of_use_to_another_that_begins_cold() {
        let mut first = rig();
        pass(&mut first, 1);
        let way = first.policy().way();
        assert_eq!(way, WAY.map(|start| Extent::new(start, 2)));
        let mut second = rig();
        second.policy_mut().0.learn(&way);
        let fetched = pass(&mut second, 7);
        assert_eq!(fetched[2].len(), 5, "proven on the first pass: {fetched:?}");
        assert!(second.policy().used_runs >= 8);
    }

    #[test]
    fn what_takes_its_place_goes_on_with_what_it_knows() {
        let mut elder = rig();
        pass(&mut elder, 1);
        for bytes in [4_096, 8_192] {
            let mut rig = Rig::new(Recall::new(bytes, 64), 64);
            rig.policy_mut().0.inherit(elder.policy() as &dyn Any);
            assert_eq!(pass(&mut rig, 2)[2].len(), 5, "proven on its first pass, with {bytes} bytes");
            let known = rig.policy().log.len();
            rig.policy_mut().0.inherit(&Recall::new(bytes, 64) as &dyn Any);
            assert_eq!(rig.policy().log.len(), known, "one that knows nothing teaches nothing");
        }
    }

    #[test]
    fn random_reads_prove_nothing() {
        let mut rig = rig();
        for n in 0..5_000_u64 {
            let start = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 49;
            let fetched = rig.read(start, 1);
            assert!(fetched.len() <= 1, "{fetched:?}");
        }
        assert!(rig.policy().log.bytes() <= 4_096);
    }

    #[test]
    fn its_row_gives_it_a_share_of_the_cache() {
        use crate::row::{LayerShape, Values};
        let shape =
            LayerShape { cache_blocks: 1 << 20, strip_blocks: 32, stripe_strips: 4, disks: 5, heads: true };
        let Make::Policy(make) = ROW.make else { panic!("a policy") };
        assert!(!make(&Values::usual(&ROW), &shape).hears_left());
    }
}
