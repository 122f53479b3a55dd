//! `recall`: remembers which runs were read behind which, and reads ahead where a reader goes the same way again.
//!
//! Most real reading repeats itself: boots, starts of programs, builds, walks of an index, the same queries. What a read
//! missed is written down as a run, with a link from the run that its process read before (`recall/history.rs`). A reader
//! that meets a known run may be on a known way; two more of its runs must prove it. From then on the way is read ahead:
//!
//! ```text
//!   remembered   7 ─▶ 40 ─▶ 12 ─▶ 90 ─▶ 31 ─▶ 66 ─▶ 18 ─▶ …
//!   reader       7    40    12 ┐
//!                     ✓     ✓  └─ proven: 90, 31, 66, 18 are wished; when half of them are behind the reader,
//!                                 the next ones are; twice as many if it had to wait for one
//! ```
//!
//! A read that is not on the way does not end it: the next runs are looked at, and the way is left after
//! [`STRAYS_MAX`] reads elsewhere. What is on the way but in memory is passed over. What was wished is worth what the cost
//! model charges for reading it apart, if the reader then needed it, and costs as much if not: where less than half was of
//! use lately, nothing is wished, and what would have been of use is counted on, so that it can begin again. Nor is anything
//! wished where what was needed came too late: on one head, reading ahead in the reader's own order only gets in its way. That can
//! be seen by trying alone, so it is tried again now and then.
//!
//! It does nothing on a first pass, for what other schemes have read ahead in time, and for ways longer than what its memory
//! holds. It knows blocks only, so it works over an array and in a page cache alike. Sources: C-Miner (Li et al., FAST 2004), Nexus
//! (Gu et al., CCGRID 2006), Mithril (Yang et al., SoCC 2017), temporal streams (Wenisch et al., ISCA 2005); the wait for
//! proof is RPP's. None is reproduced to the letter.

mod history;

use super::decisions::{Decision, Subject, Switch, Way, because};
use super::{Learned, Lookup, Plan, Policy, WISHES_MAX, When, World};
use crate::access::{Access, Op, Outcome};
use crate::cache::State;
use crate::pattern::Recent;
use crate::row::{Layer, Make, Param, Role, Row};
use crate::units::{BLOCK_BYTES, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use history::{History, Link};

/// Of the cache's bytes one in so many is memory of the past, unless said otherwise.
const MEMORY_ONE_IN: u64 = 256;
/// Most processes followed at once, 80 bytes each: as many as a busy server has that read.
pub const READERS_MAX: usize = 1_024;
/// Runs of a known way that must come in a row before it is believed: one may be chance, as a hot block is.
pub const PROOF: u32 = 2;
/// Runs ahead among which a read is looked for: what lies between was in memory this time, or was left out.
const LOOK_AHEAD: u32 = 8;
/// Reads elsewhere after which a way is left. As many as runs are looked at.
pub const STRAYS_MAX: u32 = 8;
/// Runs that are wished at first.
const DEPTH_MIN: u32 = 4;
/// Most runs ahead of a reader: as many as fit into one plan.
pub const DEPTH_MAX: u32 = WISHES_MAX as u32;
/// Most blocks ahead of one reader: one in so many of the cache.
const AHEAD_ONE_IN: u64 = 8;
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
const PAYS: Way = Way::on("on", "enough of what it recalled was needed");
const LOSES: Way = Way::off("off", "less than half of what it recalled was needed, by what reading it costs");
const LATE: Way = Way::off("off", "too much of what it recalled came no sooner than its reader");
const PROVEN: Way = Way::on("recalling", "its last runs came as they had come before");
const LEFT: Way = Way::off("listening", "its reads are no longer on the way that they had gone before");

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

/// One process, and the way that it is on.
#[derive(Clone, Debug)]
struct Reader {
    /// Its last run.
    last: Link,
    /// Where its last access that was not in memory ended.
    end: u64,
    /// Its place on a known way, and how many runs in a row were on it.
    at: Link,
    met: u32,
    /// Another way that it may be on, likewise.
    other: Link,
    other_met: u32,
    /// Reads elsewhere since it was on its way, and the run of the first of them.
    strays: u32,
    detour: Link,
    /// The last run that was wished, and how many runs and blocks lie between it and the reader.
    ahead: Link,
    ahead_runs: u32,
    ahead_blocks: u64,
    /// Bit k: the run k + 1 ahead of it was not in memory when it was wished.
    wished: u64,
    /// Likewise: and it was asked for as far ahead as can be, so that it is known whether that is far enough.
    tried: u64,
    depth: u32,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            last: Link::NONE,
            end: u64::MAX,
            at: Link::NONE,
            met: 0,
            other: Link::NONE,
            other_met: 0,
            strays: 0,
            detour: Link::NONE,
            ahead: Link::NONE,
            ahead_runs: 0,
            ahead_blocks: 0,
            wished: 0,
            tried: 0,
            depth: DEPTH_MIN,
        }
    }
}

impl Reader {
    /// Leaves its way; returns how many wished runs it never came to.
    fn leave(&mut self) -> u32 {
        let lost = self.wished.count_ones();
        (self.at, self.met, self.strays) = (Link::NONE, 0, 0);
        self.detour = Link::NONE;
        (self.ahead, self.ahead_runs, self.ahead_blocks) = (Link::NONE, 0, 0);
        (self.wished, self.tried) = (0, 0);
        self.depth = (self.depth / 2).max(DEPTH_MIN);
        lost
    }
    /// Goes `steps` runs on; returns how many wished ones it passed over, whether the last was wished, and whether it was tried.
    fn go(&mut self, to: Link, steps: u32, blocks: u64) -> (u32, bool, bool) {
        let last = |marks: u64| marks >> (steps - 1) & 1 == 1;
        let passed = (self.wished & ((1 << (steps - 1)) - 1)).count_ones();
        let was = (passed, last(self.wished), last(self.tried));
        (self.wished, self.tried) = (self.wished >> steps, self.tried >> steps);
        self.at = to;
        (self.strays, self.met) = (0, self.met.saturating_add(1));
        if steps < self.ahead_runs {
            self.ahead_runs -= steps;
            self.ahead_blocks = self.ahead_blocks.saturating_sub(blocks);
        } else {
            (self.ahead, self.ahead_runs, self.ahead_blocks) = (to, 0, 0);
        }
        was
    }
}

/// Costs of runs, in the cost model's time, and how many; older ones count half.
#[derive(Clone, Debug, Default)]
struct Account {
    runs: u64,
    spent: u64,
    earned: u64,
}

impl Account {
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

/// Whether recalling pays: by what was needed of all that was wished, and by what came in time of what was asked for.
#[derive(Clone, Debug)]
struct Judge {
    needed: Account,
    timely: Account,
    /// Runs until it is tried again whether they come in time, and after the next failure.
    rest: u64,
    retry: u64,
}

impl Judge {
    const NEW: Self = Self {
        needed: Account { runs: 0, spent: 0, earned: 0 },
        timely: Account { runs: 0, spent: 0, earned: 0 },
        rest: 0,
        retry: RETRY_RUNS,
    };
    /// A run is about to be wished: the way in which it stands, [`PAYS`] if it is to be asked for.
    fn wish(&mut self) -> &'static Way {
        if self.rest > 0 {
            self.rest -= 1;
            return &LATE;
        }
        if !self.needed.pays() {
            return &LOSES;
        }
        if !self.timely.pays() {
            self.rest = self.retry;
            self.retry = (2 * self.retry).min(RETRY_MAX);
            self.timely = Account::default();
            return &LATE;
        }
        if self.timely.runs >= JUDGED_RUNS / 2 {
            self.retry = RETRY_RUNS;
        }
        &PAYS
    }
    /// So many wished runs were passed over, each about as dear as `cost`.
    fn lost(&mut self, runs: u32, cost: Nanos) {
        self.needed.enter(u64::from(runs), u64::from(runs) * cost.0, 0);
    }
    /// A wished run was needed; of one that was tried it is known whether it came in time.
    const fn used(&mut self, cost: Nanos, tried: bool, late: bool) {
        self.needed.enter(1, cost.0, cost.0);
        if tried {
            self.timely.enter(1, cost.0, if late { cost.0 / LATE_ONE_IN } else { cost.0 });
        }
    }
}

/// Where an access is on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// In the run where the reader is.
    Here,
    /// So many runs on, over so many blocks.
    On(Link, u32, u64),
    /// Not on it.
    Off,
}

/// A history, and the processes that make it and follow it.
#[derive(Clone, Debug)]
pub struct Recall {
    history: History,
    readers: Recent<Reader>,
    judge: Judge,
    ahead_blocks_max: u64,
    /// Runs: wished for, and of them needed.
    wished_runs: u64,
    used_runs: u64,
    proven: u64,
    whole: Switch,
    ways: Switch,
}

impl Recall {
    /// Remembers as much as fits into `bytes`, for a cache of so many blocks.
    #[must_use]
    pub fn new(bytes: u64, cache_blocks: u64) -> Self {
        Self {
            history: History::new(bytes),
            readers: Recent::new(READERS_MAX),
            judge: Judge::NEW,
            ahead_blocks_max: (cache_blocks / AHEAD_ONE_IN).max(1),
            wished_runs: 0,
            used_runs: 0,
            proven: 0,
            whole: Switch::default(),
            ways: Switch::default(),
        }
    }

    /// A read of a process: where it is on a way, what is learned of it, and what is wished because of it.
    fn read(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let cold = lookup.outcomes.iter().any(|outcome| *outcome != Outcome::CacheHit);
        let Self { history, readers, judge, .. } = self;
        let reader = readers.or_default(access.context.process());
        if !cold && reader.met < PROOF {
            return; // nothing to learn, and nothing to follow
        }
        match step(history, reader.at, access.extent) {
            Step::Here => {
                if cold {
                    reader.end = access.extent.end();
                }
            }
            Step::On(link, steps, blocks) => {
                let paid = cost(world, access.extent, reader.end);
                let (passed, wished, tried) = reader.go(link, steps, blocks);
                learn(history, reader, link, access.extent);
                let needed = wished && (cold || tried);
                judge.lost(passed + u32::from(wished && !needed), paid);
                if needed {
                    let waits =
                        |outcome: &Outcome| !matches!(outcome, Outcome::CacheHit | Outcome::PrefetchHit);
                    let late = lookup.outcomes.iter().any(waits);
                    self.used_runs += 1;
                    judge.used(paid, tried, late);
                    if late {
                        reader.depth = (reader.depth * 2).min(DEPTH_MAX);
                    }
                }
            }
            Step::Off if cold => self.stray(access, world),
            Step::Off => {}
        }
        self.recall(access, world, plan);
    }

    /// A read that is not on its reader's way: it may be on another one.
    fn stray(&mut self, access: &Access, world: &World<'_>) {
        let Self { history, readers, .. } = self;
        let (now, extent) = (world.now, access.extent);
        let reader = readers.or_default(access.context.process());
        reader.strays += 1;
        if reader.at != Link::NONE && reader.strays > STRAYS_MAX {
            history.lead(reader.at, reader.detour); // next time it goes there
            let paid = cost(world, extent, reader.end);
            let lost = reader.leave();
            self.judge.lost(lost, paid);
            let numbers = because([("wished_runs_lost", u64::from(lost))]);
            self.ways.turn(now, "recall", &LEFT, Some(of(access)), numbers);
        }
        match step(history, reader.other, extent) {
            Step::Here => {
                reader.end = extent.end();
                return;
            }
            Step::On(link, ..) => {
                (reader.other, reader.other_met) = (link, reader.other_met + 1);
                learn(history, reader, link, extent);
                if reader.other_met < PROOF {
                    return;
                }
                reader.leave();
                (reader.at, reader.met) = (link, reader.other_met);
                (reader.other, reader.other_met) = (Link::NONE, 0);
                reader.ahead = link;
                self.proven += 1;
                let numbers =
                    because([("runs_met", u64::from(reader.met)), ("runs_known", history.len() as u64)]);
                self.ways.turn(now, "recall", &PROVEN, Some(of(access)), numbers);
                return;
            }
            Step::Off => {}
        }
        if extent.start.0 == reader.end && history.grow(reader.last, extent.end()) {
            reader.end = extent.end();
            return;
        }
        let found = history.find(extent);
        match history.add(extent) {
            // A detour from a way that is believed leaves the way as it is.
            Some(added) if reader.strays == 1 && reader.met >= PROOF => {
                (reader.detour, reader.last, reader.end) = (added, added, extent.end());
            }
            Some(added) => learn(history, reader, added, extent),
            None => reader.last = Link::NONE,
        }
        (reader.other, reader.other_met) = (found.unwrap_or(Link::NONE), 0);
    }

    /// Wishes for the runs ahead of a reader on a proven way.
    fn recall(&mut self, access: &Access, world: &World<'_>, plan: &mut Plan) {
        let Some(reader) = self.readers.peek_mut(access.context.process()) else { return };
        if reader.met < PROOF || reader.ahead_runs > reader.depth / 2 {
            return;
        }
        while reader.ahead_runs < reader.depth && reader.ahead_blocks < self.ahead_blocks_max {
            let Some(next) = self.history.next(reader.ahead) else { break };
            if next == reader.at {
                break; // once round a loop
            }
            let run = self.history.run(next).expect("a link was checked");
            reader.ahead = next;
            reader.ahead_blocks += run.blocks;
            let absent = run.iter().any(|block| world.cache.state(block) == State::Empty);
            if absent {
                self.wished_runs += 1;
                reader.wished |= 1 << reader.ahead_runs;
                let far = reader.depth == DEPTH_MAX;
                let way = self.judge.wish();
                if way.on {
                    reader.tried |= u64::from(far) << reader.ahead_runs;
                    plan.fetch(run, When::Ahead);
                }
                let of = &self.judge.needed;
                self.whole.set(world.now, "recall", way, || {
                    because([
                        ("runs", of.runs),
                        ("spent_us", of.spent / 1_000),
                        ("earned_us", of.earned / 1_000),
                    ])
                });
            }
            reader.ahead_runs += 1;
        }
    }
}

/// Where an access is on the way from `at`.
fn step(history: &History, at: Link, extent: Extent) -> Step {
    let Some(here) = history.run(at) else { return Step::Off };
    if !here.intersect(extent).is_empty() {
        return Step::Here;
    }
    let (mut link, mut blocks) = (at, 0);
    for steps in 1..=LOOK_AHEAD {
        let Some(next) = history.next(link) else { return Step::Off };
        let run = history.run(next).expect("a link was checked");
        blocks += run.blocks;
        if !run.intersect(extent).is_empty() {
            return Step::On(next, steps, blocks);
        }
        link = next;
    }
    Step::Off
}

/// A reader has read a run, which it may have known.
fn learn(history: &mut History, reader: &mut Reader, link: Link, extent: Extent) {
    history.follow(reader.last, link);
    history.keep(link);
    reader.last = link;
    reader.end = extent.end();
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
        self.history.ways()
    }
    fn learn(&mut self, way: &[Extent]) {
        let mut last = Link::NONE;
        for &extent in way {
            let Some(added) = self.history.add(extent) else { break };
            self.history.lead(last, added);
            last = added;
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
        let Some(elder) = elder.downcast_ref::<Self>().filter(|it| it.history.len() > self.history.len())
        else {
            return;
        };
        if elder.history.has_room_of(&self.history) {
            self.clone_from(elder);
        } else {
            self.learn(&elder.way());
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        let mut gauge = |name, value: u64| out.push((name, value as f64));
        gauge("recall_runs", self.history.len() as u64);
        gauge("recall_bytes", self.history.bytes());
        gauge("recall_ways", self.proven);
        gauge("recall_wished_runs", self.wished_runs);
        gauge("recall_used_runs", self.used_runs);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.whole.take(out);
        self.ways.take(out);
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
        assert_eq!(rig.policy().readers.peek(2).map(|reader| reader.met), Some(0));
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
            assert_eq!(judge.wish(), &PAYS);
            judge.lost(1, cost);
        }
        assert_eq!(judge.wish(), &LOSES);
        for _ in 0..TRIAL_RUNS {
            judge.used(cost, false, true);
        }
        assert_eq!(judge.wish(), &PAYS, "what would have been of use is counted on");
    }

    #[test]
    fn what_comes_too_late_however_early_it_is_wished_is_tried_again_ever_more_seldom() {
        let cost = Nanos::from_millis(5);
        let mut judge = Judge::NEW;
        let mut asked = Vec::new();
        for n in 0..5_000_u64 {
            let tried = judge.wish() == &PAYS;
            judge.used(cost, tried, true);
            if tried {
                asked.push(n);
            }
        }
        assert!(asked.len() < 150, "{} of 5,000", asked.len());
        assert!(asked.iter().any(|&n| n > 2_000), "it is tried again: {asked:?}");
        let mut judge = Judge::NEW;
        for _ in 0..1_000 {
            assert_eq!(judge.wish(), &PAYS);
            judge.used(cost, true, false);
        }
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
            let known = rig.policy().history.len();
            rig.policy_mut().0.inherit(&Recall::new(bytes, 64) as &dyn Any);
            assert_eq!(rig.policy().history.len(), known, "one that knows nothing teaches nothing");
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
        assert!(rig.policy().history.bytes() <= 4_096);
    }

    #[test]
    fn its_row_gives_it_a_share_of_the_cache() {
        use crate::row::{LayerShape, Values};
        let shape = LayerShape { cache_blocks: 1 << 20, strip_blocks: 32, stripe_strips: 4, disks: 5 };
        let Make::Policy(make) = ROW.make else { panic!("a policy") };
        assert!(!make(&Values::usual(&ROW), &shape).hears_left());
    }
}
