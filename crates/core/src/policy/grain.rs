//! `grain`: how much of the surroundings of a miss is read: the block, a part of its strip, the strip; whichever would have cost least.
//!
//! It has the questions of [`super::asp`] and other answers. What each grain would have cost is asked of *ledgers*: tables of
//! names without blocks, one for each grain, that hold what a cache of this size would hold if that grain had always been
//! read. A miss in a ledger is charged what the command takes, by what commands have been seen to take on this device. So
//! it does not matter what is really read: a grain that was given up is judged as well as the one in use, from the first
//! read on and not from when the cache is full.
//!
//! ```text
//!   read ──┬─▶ ledger of blocks   miss: 1 block    far: 5.4 ms   near: 0.1 ms ──▶ cost of blocks
//!          ├─▶ ledger of parts    miss: 8 blocks   far: 5.8 ms                ──▶ cost of parts    least? that one is read
//!          └─▶ ledger of strips   miss: 32 blocks  far: 7.1 ms                ──▶ cost of strips
//! ```
//!
//! A strip may pay only later, when others of its blocks are read, and by then much would be lost. So in the beginning
//! strips are read on trust, as a *stake* ([`reach`]): as long as what is being read seems small enough that its strips are
//! all read once within [`STAKE_READS`], and those that do not fit cost no more than blocks would. Otherwise trust ends after [`TRIAL_STRIPS`] strips.
//!
//! It does nothing for reads at random over more than the cache, and for writes. Retention is by recency of strips. Source: none;
//! what it answers is measured on docs/schemes/grain.md. Ledgers are known from caches as shadow directories.

mod company;
mod ledger;
mod reach;

use super::decisions::{Decision, Switch, Way, because};
use super::{Fetched, Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::cost::times::Times;
use crate::hash::SPREAD;
use crate::row::{Layer, LayerShape, Make, Param, Role, Row, Values};
use crate::units::{Block, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;
use company::Company;
use core::any::Any;
use ledger::Ledger;
use reach::Reach;

/// Parts of a strip, in one of which a part lies.
const PARTS: u64 = 4;
/// Of large caches, one strip in so many is entered in the ledgers, at most; the smallest has this many strips then.
const SAMPLE_MAX: u64 = 8;
const LEDGER_STRIPS_LEAST: u64 = 256;
/// Charged reads after which sums are halved; and while strips are read on trust, whose price is a stake and no cost of going on.
const MEMORY_READS: u64 = 1_024;
const STAKE_MEMORY_READS: u64 = 128;
/// Charged reads between two looks at the sums.
const LOOK_EVERY: u64 = 16;
/// A change must save at least this share of the cost, in percent.
const GAIN_PERCENT: u64 = 3;
/// Strips read on trust before it is asked whether that may pay, and blocks at most.
const TRIAL_STRIPS: u64 = 64;
const TRIAL_BLOCKS: u64 = 2_048;
/// What these strips may cost beyond what has been asked for since, all together, in reads of a block far away. Behind a head there is room for
/// nearly all of them; flash reads four to eight blocks in the time of a strip, and a short run would pay for little else.
const TRIAL_BLOCK_READS: u64 = 32;
/// Misses between two questions while strips are read on trust.
const TRUST_EVERY: u64 = 32;
/// Misses up to which trust that was lost may come back.
const ASKED_MAX: u64 = 512;
/// Of so many strips at least one has to be missed for the others to be a stake; nothing is asked before that many times as many have passed.
const OTHERS_READ: u64 = 2;
const STAKED_LEAST: u64 = 8;
/// Reads within which a stake must come back.
const STAKE_READS: u64 = 8_192;

/// What is read for a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    Block,
    Part,
    Strip,
}

const GRAINS: [Grain; 3] = [Grain::Block, Grain::Part, Grain::Strip];

const BLOCK: Way = Way::off("blocks", "each block by itself would have cost the disks least");
const PART: Way = Way::on("parts", "parts of strips would have cost the disks least");
const STRIP: Way = Way::on("strips", "whole strips would have cost the disks least");
const TRUST: Way = Way::on("strips", "what is read seems small enough for its strips to pay soon");
const TRIAL: Way = Way::on("strips", "nothing is known yet");

impl Grain {
    /// Blocks of one.
    const fn blocks(self, strip_blocks: u64) -> u64 {
        match self {
            Self::Block => 1,
            Self::Part => {
                let blocks = strip_blocks / PARTS;
                if blocks == 0 { 1 } else { blocks }
            }
            Self::Strip => strip_blocks,
        }
    }
    const fn way(self) -> &'static Way {
        match self {
            Self::Block => &BLOCK,
            Self::Part => &PART,
            Self::Strip => &STRIP,
        }
    }
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "grain",
    layer: Layer::Array,
    role: Role::Lead,
    about: "A miss reads its block, a part of its strip or the strip: what would have cost least, by ledgers and learned times.",
    source: "beyond the ASP paper: what its sections 2.3 and 2.4 ask",
    params: &[Param::switch("trust", true, "Read strips in the beginning while they may pay soon.")],
    make: Make::Policy(make),
    ..Row::PLAIN
};

fn make(values: &Values, shape: &LayerShape) -> Box<dyn Policy> {
    Box::new(Grains::new(shape, values.switch("trust")))
}

/// Ledgers, and what they came to.
#[derive(Clone, Debug)]
pub struct Grains {
    strip_blocks: u64,
    cache_strips: u64,
    ledgers: [Ledger; 3],
    /// What each grain has cost lately, ns.
    costs: [u64; 3],
    /// Reads that were charged since the sums were halved, and in all.
    charged: u64,
    charged_all: u64,
    sample: u64,
    times: Option<Times>,
    /// One past the block of each disk that was read last.
    ends: Vec<u64>,
    company: Company,
    reach: Reach,
    /// Strips are read on trust.
    trusts: bool,
    /// They may be again: the first guesses are rough.
    asks: bool,
    missed_strips: u64,
    /// Strips that would be missed if strips alone were read, whoever has really read them.
    passed_strips: u64,
    /// What the first of them cost beyond what was asked for with them and has been since, ns.
    staked: u64,
    grain: Grain,
    reads: [u64; 3],
    switch: Switch,
}

impl Grains {
    /// For a layer of this shape.
    #[must_use]
    pub fn new(shape: &LayerShape, trust: bool) -> Self {
        let strip_blocks = shape.strip_blocks.max(1);
        let cache_strips = (shape.cache_blocks / strip_blocks).max(1);
        let sample = (cache_strips / LEDGER_STRIPS_LEAST).clamp(1, SAMPLE_MAX);
        let sample = 1 << sample.ilog2();
        let ledger = |grain: Grain| {
            let blocks = grain.blocks(strip_blocks);
            Ledger::new(blocks, (shape.cache_blocks / blocks / sample).max(1) as usize)
        };
        Self {
            strip_blocks,
            cache_strips,
            ledgers: GRAINS.map(ledger),
            costs: [0; 3],
            charged: 0,
            charged_all: 0,
            sample,
            times: None,
            ends: [u64::MAX].repeat(usize::from(shape.disks.max(1))),
            company: Company::default(),
            reach: Reach::new(),
            trusts: trust,
            asks: trust,
            missed_strips: 0,
            passed_strips: 0,
            staked: 0,
            grain: Grain::Strip,
            reads: [0; 3],
            switch: Switch::default(),
        }
    }

    /// A read of blocks that lie in one strip: charges every ledger. Whether it goes on behind the last one of its disk.
    fn charge(&mut self, run: Extent, world: &World<'_>) -> bool {
        let (disk, at) = world.array.locate(run.start);
        let Some(end) = self.ends.get_mut(usize::from(disk.0)) else { return false };
        let goes_on = core::mem::replace(end, at.0 + run.blocks) == at.0;
        let strip = world.array.strip_of(run.start).0;
        if self.sample > 1 && !(strip.wrapping_mul(SPREAD) >> 40).is_multiple_of(self.sample) {
            return goes_on;
        }
        let times = self.times.as_ref().expect("made before the first charge");
        // So often somebody else reads from this disk meanwhile.
        let disturbed = (self.company.others() / self.ends.len() as u64).min(company::WHOLE);
        let mut commands = [0_u64; 3];
        for ((ledger, cost), commands) in self.ledgers.iter_mut().zip(&mut self.costs).zip(&mut commands) {
            ledger.read(run, |blocks, first| {
                *commands += 1;
                *cost += if first && !goes_on {
                    times.charge(false, blocks)
                } else {
                    let (near, behind) = (times.charge(true, blocks), times.charge_behind(blocks));
                    (near * (company::WHOLE - disturbed) + behind * disturbed) / company::WHOLE
                };
            });
        }
        self.passed_strips += commands[Grain::Strip as usize] * self.sample;
        self.charged += 1;
        self.charged_all += 1;
        if self.charged >= if self.trusts { STAKE_MEMORY_READS } else { MEMORY_READS } {
            self.charged /= 2;
            self.costs.iter_mut().for_each(|cost| *cost /= 2);
        }
        goes_on
    }

    /// Whether a stake in strips is likely to come back soon.
    fn may_pay(&self) -> bool {
        let Some(times) = &self.times else { return true };
        let strips = self.reach.blocks() / self.strip_blocks + 1;
        let fit = strips.min(self.cache_strips);
        let (one, strip) = (times.charge(false, 1), times.charge(false, self.strip_blocks));
        // Of those that do not fit, so many reads miss, if all are read alike; where some are read more, it is fewer.
        let missing = u128::from(strips - fit) * u128::from(strip) <= u128::from(strips) * u128::from(one);
        missing && u128::from(fit) * u128::from(strip) <= u128::from(STAKE_READS) * u128::from(one)
    }

    /// Looks at the sums, and chooses.
    fn look(&mut self, now: Nanos) {
        let least = GRAINS.into_iter().min_by_key(|&grain| self.costs[grain as usize]).expect("three");
        let (cost, present) = (self.costs[least as usize], self.costs[self.grain as usize]);
        if cost * 100 <= present * (100 - GAIN_PERCENT) {
            self.grain = least;
        }
        let [block, part, strip] = self.costs.map(|cost| cost / self.charged.max(1));
        let reads = self.charged_all;
        let way = if self.trusts { &TRUST } else { self.grain.way() };
        self.switch.set(now, "grain", way, || {
            because([("block_ns", block), ("part_ns", part), ("strip_ns", strip), ("reads", reads)])
        });
    }

    /// Strips of which it is not asked whether they may pay.
    fn trial_strips(&self) -> u64 {
        TRIAL_STRIPS.min(TRIAL_BLOCKS / self.strip_blocks).max(1)
    }

    /// So many blocks of a strip that is read on trust are missed: whether the stake of the beginning has room for the others.
    fn has_room(&mut self, near: bool, missed: u64) -> bool {
        if self.missed_strips >= self.trial_strips() {
            return true;
        }
        let times = self.times.as_ref().expect("made before the first charge");
        let more = times.charge(near, self.strip_blocks).saturating_sub(times.charge(near, missed));
        let room = self.staked + more <= TRIAL_BLOCK_READS * times.charge(false, 1);
        self.staked += if room { more } else { 0 };
        room
    }

    /// Blocks are read that a strip brought, or a scheme beside this one: nobody is told which. What they alone would have taken at least
    /// is at stake no more.
    fn take_back(&mut self, outcomes: &[Outcome]) {
        if self.staked == 0 || self.missed_strips >= self.trial_strips() {
            return;
        }
        let brought = |outcome: &&Outcome| matches!(outcome, Outcome::PrefetchHit | Outcome::LateHit);
        let blocks = outcomes.iter().filter(brought).count() as u64;
        if blocks > 0 {
            let times = self.times.as_ref().expect("made before the first stake");
            self.staked = self.staked.saturating_sub(times.charge(true, blocks));
        }
    }

    /// A strip is missed: whether it is read on trust.
    fn trusts(&mut self, world: &World<'_>) -> bool {
        if !self.trusts && !self.asks {
            return false;
        }
        self.missed_strips += 1;
        let trial = self.trial_strips();
        if self.missed_strips < trial {
            self.switch.set(world.now, "grain", &TRIAL, || because([]));
            return true;
        }
        if self.missed_strips.is_multiple_of(TRUST_EVERY) || self.missed_strips == trial {
            let strips = self.reach.blocks() / self.strip_blocks + 1;
            // Once all could have been read, the ledgers know.
            let over = self.missed_strips > 2 * strips.min(self.cache_strips);
            self.trusts = !over && self.may_pay();
            self.asks = !over && self.missed_strips < ASKED_MAX;
            if !self.trusts {
                let costs = self.costs;
                let least = GRAINS.into_iter().min_by_key(|&grain| costs[grain as usize]).expect("three");
                self.grain = least;
            }
            self.look(world.now);
        }
        self.trusts
    }
}

impl Policy for Grains {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        if self.times.is_none() {
            self.times = Some(Times::new(*world.cost, self.ends.len()));
        }
        let (mut at, mut index) = (access.extent.start.0, 0_usize);
        while at < access.extent.end() {
            let strip = world.array.strip_extent(world.array.strip_of(Block(at)));
            let run = Extent::new(at, strip.end().min(access.extent.end()) - at);
            let outcomes = &lookup.outcomes[index..index + run.blocks as usize];
            (at, index) = (run.end(), index + run.blocks as usize);
            self.reach.note(access.context.process(), run);
            self.company.note(access.context.process());
            let near = self.charge(run, world);
            self.take_back(outcomes);
            let missed = |outcome: &Outcome| outcome.is_miss();
            let Some(first) = outcomes.iter().position(missed) else { continue };
            let last = outcomes.iter().rposition(missed).unwrap_or(first);
            let grain = match self.trusts(world) {
                true if self.has_room(near, (last - first + 1) as u64) => Grain::Strip,
                true => Grain::Block,
                false => self.grain,
            };
            self.reads[grain as usize] += 1;
            if grain != Grain::Block {
                let blocks = grain.blocks(strip.blocks);
                let from = (run.start.0 + first as u64 - strip.start.0) / blocks * blocks;
                let to = ((run.start.0 + last as u64 - strip.start.0) / blocks + 1) * blocks;
                let wish = Extent::new(strip.start.0 + from, to - from).intersect(strip);
                plan.fetch(wish, When::WithDemand);
            }
        }
        if !self.trusts && self.charged_all.is_multiple_of(LOOK_EVERY) {
            self.look(world.now);
        }
    }
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, _plan: &mut Plan) {
        let (disk, at) = world.array.locate(fetched.extent.start);
        let left = world.now.since(fetched.took);
        if let Some(times) = &mut self.times {
            times.ended(world.now, disk.0, at.0, fetched.extent.blocks, left);
        }
    }
    fn invests(&mut self) -> bool {
        // Nothing is staked where others read ahead what it would have. Strips of readers in sequence pay at once or never.
        let stakes = self.passed_strips <= OTHERS_READ * self.missed_strips.max(STAKED_LEAST * self.sample);
        self.trusts && stakes && self.reach.is_jumped_about()
    }
    fn inherit(&mut self, elder: &dyn Any) {
        let Some(elder) = elder.downcast_ref::<Self>() else { return };
        if elder.cache_strips == self.cache_strips {
            self.clone_from(elder);
            return;
        }
        // The ledgers of a smaller cache, as that of a shadow may be, say nothing of this one. The device and the readers are the same.
        self.times.clone_from(&elder.times);
        self.reach.clone_from(&elder.reach);
        (self.trusts, self.asks) = (elder.trusts, elder.asks);
        (self.missed_strips, self.passed_strips, self.staked) =
            (elder.missed_strips, elder.passed_strips, elder.staked);
        self.grain = elder.grain;
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("grain_block_cost_ns", self.costs[0] as f64),
            ("grain_part_cost_ns", self.costs[1] as f64),
            ("grain_strip_cost_ns", self.costs[2] as f64),
            ("grain_block_reads", self.reads[0] as f64),
            ("grain_part_reads", self.reads[1] as f64),
            ("grain_strip_reads", self.reads[2] as f64),
            ("grain_reach_blocks", self.reach.blocks() as f64),
        ]);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostModel;

    /// Strips among the first that there is room for, on a device of this model.
    fn staked(model: CostModel) -> usize {
        let shape =
            LayerShape { cache_blocks: 8_192, strip_blocks: 32, stripe_strips: 1, disks: 1, heads: true };
        let mut grains = Grains::new(&shape, true);
        grains.times = Some(Times::new(model, 1));
        let next = |missed| {
            grains.missed_strips = missed;
            grains.has_room(false, 1)
        };
        (1..TRIAL_STRIPS).map(next).filter(|&room| room).count()
    }

    #[test]
    fn what_has_been_read_of_a_strip_is_at_stake_no_more() {
        let shape =
            LayerShape { cache_blocks: 8_192, strip_blocks: 32, stripe_strips: 1, disks: 1, heads: true };
        let mut grains = Grains::new(&shape, true);
        let flash = CostModel { half_rotation: Nanos::ZERO, ..CostModel::default() };
        grains.times = Some(Times::new(flash, 1));
        grains.missed_strips = 1;
        assert!(grains.has_room(true, 16));
        let staked = grains.staked;
        grains.take_back(&[Outcome::CacheHit, Outcome::Miss, Outcome::MergedMiss]);
        assert_eq!(grains.staked, staked, "the strip brought none of these");
        grains.take_back(&[Outcome::PrefetchHit; 8]);
        assert!(grains.staked < staked && grains.staked > 0, "half of them are still unread");
        grains.take_back(&[Outcome::LateHit; 16]);
        assert_eq!(grains.staked, 0);
    }

    #[test]
    fn the_stake_of_the_beginning_is_bounded_by_what_it_costs() {
        assert!(staked(CostModel::default()) >= 60, "a disk reads a strip in half as long again as a block");
        let seeks = CostModel { seek_min_ns: 0.0, seek_a_ns: 0.0, seek_b_ns: 0.0, ..CostModel::default() };
        let flash = CostModel {
            half_rotation: Nanos::ZERO,
            command: Nanos(80_000),
            per_block: Nanos(20_000),
            ..seeks
        };
        // 32 turns, each a quarter of 100 us until some were seen; and 620 us more for each strip.
        assert_eq!(staked(flash), 1);
    }

    #[test]
    fn what_others_read_ahead_is_no_stake() {
        let shape =
            LayerShape { cache_blocks: 8_192, strip_blocks: 32, stripe_strips: 1, disks: 1, heads: true };
        let mut grains = Grains::new(&shape, true);
        (0..64_u64).for_each(|k| grains.reach.note(1, Extent::new(k * 7_919 % 64 * 1_000, 1)));
        for (passed, missed, invests) in [(16, 0, true), (17, 0, false), (100, 50, true), (101, 50, false)] {
            (grains.passed_strips, grains.missed_strips) = (passed, missed);
            assert_eq!(grains.invests(), invests, "{missed} of {passed}");
        }
    }
}
