//! `asp`: adaptive strip prefetching, the ASP paper (Baek and Park, FAST 2008), sections 2.1 to 2.4.
//!
//! **The idea.** Reading a whole strip costs little more than reading one block of it, but most of what it brings may
//! never be read. So read strips, and throw out early what nobody has read: adaptive cache culling (ACC) keeps strips
//! upstream while their unread blocks still earn hits, and only their read blocks downstream:
//!
//! ```text
//!   miss ─▶ MRU [ U: read and unread blocks ...| U_b ] LRU ─ cull unread ─▶ MRU [ D: read blocks ...| G_b ] LRU ─▶ out
//!                 ▲ hits in U stay in U                          hits in D stay in D; a miss in D goes back to U
//! ```
//!
//! N_U, the length of U, follows the slope of the total hit rate (eq. 7): a prefetch hit in U_b says that a longer U
//! would earn more, a cache hit in G_b that a longer D would. An evicted strip whose stripe lives on stays as a ghost
//! that remembers which blocks were read; they are not culled in its next life. Whether to read strips at all is asked
//! of two virtual costs (eq. 8): what the disks would have spent on the blocks now in the cache if strips had always
//! been read (C_sp) and if never (C_n).
//!
//! **It does nothing** until the test says that it pays: for random reads over a space much larger than the cache, C_n
//! falls below C_sp and every miss reads only what was asked.
//!
//! **Where the paper is silent** (algorithms.md 1.3 to 1.5): the global list is U followed by D; "all blocks" of eq. 6
//! are those with memory; N_U is at most the cache; with prefetching off by hysteresis, a miss on an empty block of a
//! strip in U_b counts as the prefetch hit it would have been, or N_U could never grow back; late hits count as
//! prefetch hits. **Patent:** US 7,822,920 covers the two-cost test with strip prefetching; see the README.

mod tiers;

use super::decisions::{Decision, Switch, Way, because};
use super::{Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::cache::{Cache, LineId};
use crate::cost::Head;
use crate::hash::NumberMap;
use crate::retention::contract::{Afterlife, Retention, Victim};
use crate::row::{Layer, LayerShape, Make, Param, Role, Row, Values};
use crate::units::{Block, Disk, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use tiers::{Tier, Tiers};

/// One strip in the fixed point of N_U.
const ONE: i64 = 65_536;
/// S of eq. 7: strips per event ("speculatively chosen as two").
const GAIN: i64 = 2;
/// U_b and G_b hold one in this many strips of the cache (20%).
const BOTTOM_ONE_IN: u64 = 5;

/// Why strips are read, or not (sections 2.3 and 2.4).
const FILLING: Way = Way::on("on", "the cache has not been full yet, so there is nothing to lose");
const COSTS_LESS: Way =
    Way::on("on", "reading whole strips would have cost the disks no more than reading block by block");
const UNASKED: Way = Way::on("on", "the cost test is off");
const COSTS_MORE: Way =
    Way::off("off", "reading whole strips would have cost the disks more than reading block by block");
const NO_USE: Way = Way::off("off", "N_U fell to its bottom: unread blocks have stopped earning hits");

/// What can be left out, to see what it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AspConfig {
    /// Strips that the cache holds when all are full.
    pub cache_strips: u64,
    /// Remember what evicted strips were read for.
    pub ghosts: bool,
    /// Cull unread blocks; without it U and D are one list.
    pub cull: bool,
    /// Ask the two costs; without it every miss reads its strip (unless hysteresis says no).
    pub cost_test: bool,
    /// Keep N_U at this many strips.
    pub fixed_upstream: Option<u64>,
}

impl AspConfig {
    /// As usual, all on.
    const USUAL: Self =
        Self { cache_strips: 0, ghosts: true, cull: true, cost_test: true, fixed_upstream: None };

    /// All on, for a cache of so many strips.
    #[must_use]
    pub const fn new(cache_strips: u64) -> Self {
        Self { cache_strips, ..Self::USUAL }
    }
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "asp",
    layer: Layer::Array,
    role: Role::Owner,
    about: "Adaptive strip prefetching: strips, culled by differential feedback, while two virtual costs say that it pays.",
    source: "ASP paper, sections 2.1 to 2.4, equations 1 to 8",
    params: &[
        Param::switch(
            "ghosts",
            AspConfig::USUAL.ghosts,
            "Remember what evicted strips were read for while a sibling strip lives.",
        ),
        Param::switch("cull", AspConfig::USUAL.cull, "Evict unread blocks early (ACC)."),
        Param::switch(
            "cost",
            AspConfig::USUAL.cost_test,
            "Read strips only while the two-cost test says that it pays.",
        ),
        Param::percent_or_auto(
            "upstream",
            "N_U, the length of the upstream; auto follows the differential feedback.",
        ),
    ],
    make: Make::Policy(make),
    ..Row::PLAIN
};

fn make(values: &Values, shape: &LayerShape) -> Box<dyn Policy> {
    let cache_strips = (shape.cache_blocks / shape.strip_blocks).max(1);
    let fixed = values.percent_or_auto("upstream").map(|percent| (cache_strips * percent / 100).max(1));
    let config = AspConfig {
        cache_strips,
        ghosts: values.switch("ghosts"),
        cull: values.switch("cull"),
        cost_test: values.switch("cost"),
        fixed_upstream: fixed,
    };
    Box::new(Asp::new(config, shape.stripe_strips))
}

/// What is known of a strip beside its place in the tiers.
#[derive(Clone, Copy, Debug, Default)]
struct Strip {
    cost_none: Nanos,
    cost_strip: Nanos,
    /// C_sp was charged for the present stay in U (algorithms.md 1.7).
    charged: bool,
    stripe: u64,
    alive: bool,
    ghost: bool,
    /// Where its first block lies, once that was asked in this life.
    home: Option<(Disk, Block)>,
}

#[derive(Clone, Debug, Default)]
struct Siblings {
    alive: u32,
    ghosts: Vec<LineId>,
}

/// Charges of a strip that has no line yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    strip: u64,
    none: Nanos,
    whole: Nanos,
}

/// The virtual heads of one disk, one for each world.
#[derive(Clone, Copy, Debug, Default)]
struct Heads {
    none: Head,
    strip: Head,
}

/// ACC, the two-cost test and strip prefetching: one object, two views.
#[derive(Debug)]
pub struct Asp {
    config: AspConfig,
    tiers: Tiers,
    strips: Vec<Strip>,
    stripes: NumberMap<Siblings>,
    spare: Vec<Vec<LineId>>,
    doomed: Vec<LineId>,
    pending: Vec<Pending>,
    heads: Vec<Heads>,
    /// One past the block of the present access that was charged last.
    charged_to: Option<Block>,
    /// N_U, in 1/65536 strips.
    upstream: i64,
    /// Hysteresis: N_U fell to n_b and has not come back to 2·n_b.
    off: bool,
    total_none: Nanos,
    total_strip: Nanos,
    stripe_strips: u64,
    reads_of_strips: u64,
    reads_refused: u64,
    feedback_up: u64,
    feedback_down: u64,
    ghosts_reborn: u64,
    switch: Switch,
}

impl Asp {
    /// For a cache of `config.cache_strips` strips in stripes of `stripe_strips`.
    #[must_use]
    pub fn new(config: AspConfig, stripe_strips: u64) -> Self {
        let bottom = (config.cache_strips / BOTTOM_ONE_IN).max(1);
        let start = config.fixed_upstream.unwrap_or(config.cache_strips);
        Self {
            config,
            tiers: Tiers::new(bottom),
            strips: Vec::new(),
            stripes: NumberMap::default(),
            spare: Vec::new(),
            doomed: Vec::new(),
            pending: Vec::new(),
            heads: Vec::new(),
            charged_to: None,
            upstream: (start as i64) * ONE,
            off: false,
            total_none: Nanos::ZERO,
            total_strip: Nanos::ZERO,
            stripe_strips: stripe_strips.max(1),
            reads_of_strips: 0,
            reads_refused: 0,
            feedback_up: 0,
            feedback_down: 0,
            ghosts_reborn: 0,
            switch: Switch::default(),
        }
    }

    /// N_U in whole strips.
    #[must_use]
    pub const fn upstream_max(&self) -> u64 {
        (self.upstream >> ONE.trailing_zeros()) as u64
    }
    /// (C_n, C_sp) of eq. 8.
    #[must_use]
    pub const fn costs(&self) -> (Nanos, Nanos) {
        (self.total_none, self.total_strip)
    }
    /// Whether the hysteresis has strip prefetching off.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.off
    }
    /// The lists, for tests that recount them.
    #[must_use]
    pub const fn tiers(&self) -> &Tiers {
        &self.tiers
    }

    /// (c_n, c_sp) of one strip (section 2.4); zero when it is not alive.
    #[must_use]
    pub fn costs_of(&self, line: LineId) -> (Nanos, Nanos) {
        self.strips.get(line.index()).map_or((Nanos::ZERO, Nanos::ZERO), |s| (s.cost_none, s.cost_strip))
    }
    /// Whether a line is the ghost of an evicted strip (section 2.2.1).
    #[must_use]
    pub fn is_ghost(&self, line: LineId) -> bool {
        self.strips.get(line.index()).is_some_and(|s| s.ghost)
    }
    /// Eq. 7 with ΔP = 1: a prefetch hit in U_b.
    fn feed_up(&mut self) {
        self.feedback_up += 1;
        self.feed(GAIN * ONE);
    }
    /// Eq. 7 with ΔC = 1: a cache hit in G_b. α is clamped to [1/B, B] against transients.
    fn feed_down(&mut self, strip_blocks: u64) {
        self.feedback_down += 1;
        let (occupied, cached) = self.tiers.alpha_counts();
        let alpha = (occupied as i64 * ONE) / (cached.max(1) as i64);
        let alpha = alpha.clamp(ONE / strip_blocks as i64, ONE * strip_blocks as i64);
        self.feed(-GAIN * alpha);
    }
    fn feed(&mut self, change: i64) {
        if self.config.fixed_upstream.is_some() || !self.config.cull {
            return;
        }
        let low = self.tiers.bottom() as i64 * ONE;
        let high = (self.config.cache_strips as i64 * ONE).max(low);
        self.upstream = (self.upstream + change).clamp(low, high);
        if self.upstream == low && low < high {
            self.off = true;
        } else if self.upstream >= 2 * low || self.upstream == high {
            self.off = false;
        }
    }

    /// Whether a miss reads its strip now (section 2.4; forced until the cache has been full once, section 2.3).
    fn permits(&mut self, world: &World<'_>) -> bool {
        let pays = !self.config.cost_test || self.total_none >= self.total_strip;
        let way = match (world.filled, self.off, pays) {
            (false, _, _) => &FILLING,
            (true, true, _) => &NO_USE,
            (true, false, false) => &COSTS_MORE,
            (true, false, true) if self.config.cost_test => &COSTS_LESS,
            (true, false, true) => &UNASKED,
        };
        let (none, whole, upstream) = (self.total_none.0, self.total_strip.0, self.upstream_max());
        self.switch.set(world.now, "asp", way, || {
            because([("cost_none_ns", none), ("cost_strip_ns", whole), ("upstream_max_strips", upstream)])
        });
        way.on
    }

    /// The record of the line, with room made for it.
    fn strip(&mut self, line: LineId) -> &mut Strip {
        if self.strips.len() <= line.index() {
            self.strips.resize(line.index() + 1, Strip::default());
        }
        &mut self.strips[line.index()]
    }

    /// Charges a strip in one or both worlds (section 2.4, rules 1 and 2); a strip without a line is charged when it gets one.
    fn charge(&mut self, line: Option<LineId>, strip: u64, none: Nanos, whole: Nanos) {
        let alive = line.filter(|&l| self.strips.get(l.index()).is_some_and(|s| s.alive));
        if let Some(line) = alive {
            let record = self.strip(line);
            record.cost_none += none;
            record.cost_strip += whole;
            record.charged |= whole > Nanos::ZERO;
        } else if let Some(pending) = self.pending.iter_mut().find(|p| p.strip == strip) {
            pending.none += none;
            pending.whole += whole;
        } else {
            self.pending.push(Pending { strip, none, whole });
        }
        self.total_none += none;
        self.total_strip += whole;
    }

    #[inline(always)]
    fn cost_of_block(&mut self, line: Option<LineId>, block: Block, world: &World<'_>) -> Nanos {
        let (disk, at) = self.locate(line, block, world);
        // Without prefetching, each request is a command of its own on each strip that it touches.
        let same_command = self.charged_to == Some(block) && !world.array.begins_strip(block);
        self.charged_to = Some(block.plus(1));
        self.heads(disk.0).none.read(world.cost, at.0, 1, same_command)
    }
    /// Where a block lies; asked of the geometry once in the life of a strip.
    fn locate(&mut self, line: Option<LineId>, block: Block, world: &World<'_>) -> (Disk, Block) {
        let (_, within) = world.cache.place_in_line(block);
        match line.and_then(|line| self.strips.get(line.index())).and_then(|strip| strip.home) {
            Some((disk, start)) => (disk, start.plus(within)),
            None => self.locate_anew(line, block, world),
        }
    }
    #[inline(never)]
    fn locate_anew(&mut self, line: Option<LineId>, block: Block, world: &World<'_>) -> (Disk, Block) {
        let (disk, at) = world.array.locate(block);
        let (_, within) = world.cache.place_in_line(block);
        let whole = world.array.strip_blocks() == world.cache.line_blocks();
        if let Some(strip) = line.and_then(|line| self.strips.get_mut(line.index()))
            && whole
            && strip.alive
        {
            strip.home = Some((disk, Block(at.0 - within)));
        }
        (disk, at)
    }
    #[inline(never)]
    fn cost_of_strip(&mut self, block: Block, world: &World<'_>) -> Nanos {
        let extent = world.array.strip_extent(world.array.strip_of(block));
        let (disk, at) = world.array.locate(extent.start);
        self.heads(disk.0).strip.read(world.cost, at.0, extent.blocks, false)
    }
    fn heads(&mut self, disk: u16) -> &mut Heads {
        let disk = usize::from(disk);
        if self.heads.len() <= disk {
            self.heads.resize(disk + 1, Heads::default());
        }
        &mut self.heads[disk]
    }

    /// One block of a read, before the cache changes.
    #[inline(always)]
    fn observe(&mut self, block: Block, outcome: Outcome, world: &World<'_>) {
        let strip = world.cache.line_number(block);
        let line = world.cache.find_number(strip);
        match outcome {
            Outcome::CacheHit => {
                if world.filled && line.is_some_and(|l| self.tiers.in_gb(l)) {
                    self.feed_down(world.cache.line_blocks());
                }
            }
            Outcome::PrefetchHit | Outcome::LateHit => {
                let line = line.expect("a block that is here or in flight has a line");
                self.observe_prefetch_hit(line, block, strip, world);
            }
            Outcome::Miss => self.observe_miss(line, block, strip, world),
            Outcome::MergedMiss => {}
        }
    }

    #[inline(always)]
    fn observe_prefetch_hit(&mut self, line: LineId, block: Block, strip: u64, world: &World<'_>) {
        if world.filled {
            match self.tiers.place(line) {
                Tier::Up if self.tiers.in_ub(line) => self.feed_up(),
                // A past cached block was kept as D's decision: for ΔC it is a cache hit (algorithms.md 1.3).
                Tier::Down if self.tiers.in_gb(line) => self.feed_down(world.cache.line_blocks()),
                _ => {}
            }
        }
        let none = self.cost_of_block(Some(line), block, world);
        // Section 2.5: what MSP brought is charged as if it had not been prefetched.
        let mass = !self.strip(line).charged && world.cache.cell(line, block).mass;
        let whole = if mass { self.cost_of_strip(block, world) } else { Nanos::ZERO };
        self.charge(Some(line), strip, none, whole);
    }

    #[inline(never)]
    fn observe_miss(&mut self, line: Option<LineId>, block: Block, strip: u64, world: &World<'_>) {
        let up = line.is_some_and(|l| self.tiers.place(l) == Tier::Up);
        if up && self.off && world.filled && line.is_some_and(|l| self.tiers.in_ub(l)) {
            self.feed_up(); // virtual: strip prefetching would have had it
        }
        let none = self.cost_of_block(line, block, world);
        // Rule 1: in the world of always prefetching, a strip in U would have the block. A strip that this access has
        // just charged is on its way into U, whether it has no line yet or stands in D.
        let charged = self.pending.iter().any(|p| p.strip == strip && p.whole > Nanos::ZERO);
        let down = line.is_some_and(|l| self.tiers.place(l) == Tier::Down && self.strip(l).charged);
        let whole = if up || charged || down { Nanos::ZERO } else { self.cost_of_strip(block, world) };
        self.charge(line, strip, none, whole);
    }

    /// An access of which some block must be fetched: whether with its strip.
    #[inline(never)]
    fn on_misses(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        // The costs speak of "all recent I/Os that have affected the current cache" (section 2.4): this access has not
        // yet. Asked after charging it, a tie would always fall to C_n, which has one block of a new strip where C_sp
        // has all.
        let permitted = self.permits(world);
        let mut last = None;
        for (block, &outcome) in access.extent.iter().zip(lookup.outcomes) {
            self.observe(block, outcome, world);
            if !outcome.is_miss() {
                continue;
            }
            let strip = world.array.strip_of(block);
            if last != Some(strip) {
                last = Some(strip);
                if permitted {
                    self.reads_of_strips += 1;
                    plan.fetch(world.array.strip_extent(strip), When::WithDemand);
                } else {
                    self.reads_refused += 1;
                }
            }
        }
    }

    /// U is too long: its oldest strip moves to D and loses what nobody has read (section 2.2.2).
    #[inline(never)]
    fn send_down(&mut self) -> Option<Victim> {
        let line = self.tiers.up_oldest()?;
        self.tiers.to_mru(line, Tier::Down);
        self.strip(line).charged = false;
        Some(Victim::Unread(line))
    }

    /// A strip comes to life or moves back to U: pending charges become its own.
    fn admit(&mut self, line: LineId, cache: &Cache) {
        let number = cache.line(line).number;
        if let Some(at) = self.pending.iter().position(|p| p.strip == number) {
            let pending = self.pending.swap_remove(at);
            let record = self.strip(line);
            record.cost_none += pending.none;
            record.cost_strip += pending.whole;
            record.charged = pending.whole > Nanos::ZERO;
        }
        if self.strip(line).alive {
            return;
        }
        let stripe = number / self.stripe_strips;
        self.ghosts_reborn += u64::from(self.strip(line).ghost);
        let was_ghost = self.strip(line).ghost;
        let record = self.strip(line);
        record.alive = true;
        record.ghost = false;
        record.stripe = stripe;
        let spare = &mut self.spare;
        let siblings = self
            .stripes
            .entry(stripe)
            .or_insert_with(|| Siblings { alive: 0, ghosts: spare.pop().unwrap_or_default() });
        siblings.alive += 1;
        if was_ghost {
            siblings.ghosts.retain(|&ghost| ghost != line);
        }
    }
}

impl Policy for Asp {
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return; // writes train nothing (algorithms.md, section 10)
        }
        // What an earlier access charged to strips that never came to life.
        while let Some(lost) = self.pending.pop() {
            self.total_none = self.total_none.since(lost.none);
            self.total_strip = self.total_strip.since(lost.whole);
        }
        self.charged_to = None;
        if let [outcome] = *lookup.outcomes
            && !outcome.is_miss()
        {
            self.observe(access.extent.start, outcome, world);
        } else if lookup.any_miss() {
            self.on_misses(access, lookup, world, plan);
        } else {
            for (block, &outcome) in access.extent.iter().zip(lookup.outcomes) {
                self.observe(block, outcome, world);
            }
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("asp_upstream_max_strips", self.upstream as f64 / ONE as f64),
            ("asp_upstream_strips", self.tiers.up_len() as f64),
            ("asp_downstream_strips", self.tiers.down_len() as f64),
            ("asp_cost_none_ns", self.total_none.0 as f64),
            ("asp_cost_strip_ns", self.total_strip.0 as f64),
            ("asp_strip_reads", self.reads_of_strips as f64),
            ("asp_strip_reads_refused", self.reads_refused as f64),
            ("asp_feedback_up", self.feedback_up as f64),
            ("asp_feedback_down", self.feedback_down as f64),
            ("asp_ghosts_reborn", self.ghosts_reborn as f64),
        ]);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}

impl Retention for Asp {
    fn on_insert(&mut self, line: LineId, _ahead: bool, cache: &Cache) {
        self.tiers.reserve(cache.lines_made());
        self.admit(line, cache);
        self.tiers.to_mru(line, Tier::Up);
    }
    fn on_hit(&mut self, line: LineId, _outcome: Outcome, _cache: &Cache) {
        // Section 2.2.2: a hit moves a strip to the young end of the list that it is on, and never from D to U.
        self.tiers.renew(line);
    }
    fn on_counts(&mut self, line: LineId, cached: i32, unread: i32) {
        self.tiers.count(line, cached, unread);
    }
    fn victim(&mut self, _cache: &Cache) -> Option<Victim> {
        self.tiers.oldest().map(Victim::Whole)
    }
    fn trim(&mut self, _cache: &Cache) -> Option<Victim> {
        let fits = !self.config.cull || self.tiers.up_len() <= self.upstream_max();
        if fits { None } else { self.send_down() }
    }
    fn second_chance(&mut self, line: LineId) {
        let place = self.tiers.place(line);
        self.tiers.to_mru(line, place);
    }
    fn on_emptied(&mut self, line: LineId, _cache: &Cache) -> Afterlife {
        self.tiers.take_out(line);
        let ghosts = self.config.ghosts;
        let record = self.strip(line);
        let (none, whole, stripe) = (record.cost_none, record.cost_strip, record.stripe);
        *record = Strip { stripe, ..Strip::default() };
        self.total_none = self.total_none.since(none);
        self.total_strip = self.total_strip.since(whole);
        let Some(siblings) = self.stripes.get_mut(&stripe) else { return Afterlife::Forget };
        siblings.alive -= 1;
        if siblings.alive == 0 {
            // The stripe cache dies, and all its ghosts with it (section 2.2.1).
            let mut dead = self.stripes.remove(&stripe).map(|s| s.ghosts).unwrap_or_default();
            for &ghost in &dead {
                self.strips[ghost.index()].ghost = false;
            }
            self.doomed.append(&mut dead);
            self.spare.push(dead);
            return Afterlife::Forget;
        }
        if !ghosts {
            return Afterlife::Forget;
        }
        siblings.ghosts.push(line);
        self.strip(line).ghost = true;
        Afterlife::Ghost
    }
    fn forgotten(&mut self) -> Option<LineId> {
        self.doomed.pop()
    }
}
