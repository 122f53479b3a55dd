//! `tap`: table-based prefetching with a prefetch cache that finds its size (Li, Varki, Bhatia and Merchant, FAST 2008).
//!
//! **The idea.** Among random readers the predecessor of a sequential miss has left the cache long before the miss, so
//! detection by what is in the cache needs a large cache. A table of *expected addresses* needs none: every miss puts
//! the block behind it there, and a miss on an address of the table is a stream. And what is read ahead lies in a cache
//! of its own, which random blocks cannot push out and which need not be larger than its hits pay for:
//!
//! ```text
//!   a miss on a..=b:  a in the table?   no: b + 1 is expected
//!                                      yes: a stream; d blocks behind b are read with it
//!                          and flagged: they had been read ahead and thrown out unread: one step more for prefetched blocks
//!
//!   prefetch cache    young |..............| old      read: to the demand cache;   out unread: flagged in the table
//!   demand cache      MRU |..............................................| LRU
//!
//!   ...request....|.. d/2 ..trigger.. d/2 ..|next d blocks...   a hit on the trigger has the next d read ahead
//! ```
//!
//! The prefetch cache shrinks by a step when as many blocks as it holds have come into it and no flagged address was
//! missed, as long as at least half of what left it had been read.
//!
//! **It does nothing** for random, strided and reverse reads, and for a file read in one request. Only two misses in a row
//! are a stream: a stream of which every second request hits in the demand cache is found at its next two misses.
//!
//! **Where the source is silent, and deviations.** The published abstract gives the table, the two purposes of it and
//! nothing more; the rules are those of algorithms.md 4.3. The page of docs lists what was chosen.

pub mod table;
#[cfg(test)]
mod tests;

use super::{Fate, Fetched, Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::cache::{Cache, LineId};
use crate::retention::contract::{Afterlife, Retention, Victim};
use crate::retention::list::{FIRST as DEMAND, Lists, SECOND as AHEAD};
use crate::retention::replacement::Key;
use crate::row::{Layer, LayerShape, Make, Param, Role, Row, Values};
use crate::units::{Block, Extent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use table::Table;

/// The size of the prefetch cache changes by one block in this many of the cache: 1%.
const STEP_ONE_IN: u64 = 100;
/// It begins with this many steps: a tenth of the cache. The source is silent; one flagged miss is one step.
const STEPS_FIRST: u64 = 10;
/// It never holds less than this many groups: one that is being read, and the next.
const GROUPS_MIN: u64 = 2;
/// It shrinks only while one block in this many of those that left it had been read (the source's "preset level").
const READ_ONE_IN: u64 = 2;
/// Addresses for each stream that the cache has room for, and the least of them (algorithms.md 4.3).
const ENTRIES_OF_STREAM: u64 = 4;
const ENTRIES_MIN: u64 = 1_024;
/// Most groups planned by one access: its miss and the triggers that it hits. Beyond, a group has no trigger and its
/// stream is found again at the next miss.
const GROUPS_MAX: usize = 16;
/// Bound of d whatever the parameter says, in blocks: 64 MiB.
pub const DEGREE_LIMIT: u64 = 16_384;

/// Parameters of TaP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapConfig {
    /// Blocks of the cache, of both parts together.
    pub cache_blocks: u64,
    /// d: blocks read ahead at a time.
    pub degree: u64,
    /// Addresses in the table; `None` where they follow from the cache.
    pub entries: Option<u64>,
    /// Blocks of the prefetch cache, if its size is not to change.
    pub fixed: Option<u64>,
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "tap",
    layer: Layer::Host,
    role: Role::Owner,
    about: "Sequential misses found in a table of expected addresses, and a prefetch cache apart that finds its size.",
    source: "TaP (Li, Varki, Bhatia and Merchant, FAST 2008)",
    params: &[
        Param::bytes("degree", 32 << 10, "d, what is read ahead at a time, whatever the size of a request."),
        Param::count_or_auto(
            "entries",
            "Addresses in the table; auto: four for each stream of which the cache holds two groups, at least 1,024.",
        ),
        Param::percent_or_auto(
            "size",
            "The prefetch cache; auto begins with 10% and follows what is missed after it was thrown out.",
        ),
    ],
    make: Make::Policy(|values, shape| Box::new(Tap::new(config(values, shape)))),
    ..Row::PLAIN
};

fn config(values: &Values, shape: &LayerShape) -> TapConfig {
    TapConfig {
        cache_blocks: shape.cache_blocks,
        degree: values.blocks("degree").min(DEGREE_LIMIT),
        entries: values.count_or_auto("entries"),
        fixed: values.percent_or_auto("size").map(|percent| (shape.cache_blocks * percent / 100).max(1)),
    }
}

/// Blocks that were wished for.
#[derive(Clone, Copy, Debug)]
struct Group {
    extent: Extent,
    /// One past the last block that this reader may be given.
    limit: u64,
}

/// What happened in the prefetch cache since its size was last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Period {
    came: u64,
    read: u64,
    wasted: u64,
}

/// Policy and retention.
#[derive(Debug)]
pub struct Tap {
    config: TapConfig,
    table: Table,
    lists: Lists,
    /// By line: where the group ends that a hit on it has continued; 0 for lines that trigger nothing.
    triggers: Vec<u64>,
    planned: Vec<Group>,
    /// Wanted size of the prefetch cache, in blocks.
    size: u64,
    period: Period,
    streams: u64,
    groups_ahead: u64,
    grown: u64,
    shrunk: u64,
}

const fn key(line: LineId) -> Key {
    Key(line.0)
}

impl TapConfig {
    fn step(&self) -> u64 {
        (self.cache_blocks / STEP_ONE_IN).max(1)
    }
    /// The largest size leaves a step for what is read on demand.
    fn size_max(&self) -> u64 {
        self.cache_blocks.saturating_sub(self.step()).max(1)
    }
    /// A stream needs two groups in memory, so the cache tells how many streams there can be.
    fn table_entries(&self) -> u64 {
        let streams = self.cache_blocks / (GROUPS_MIN * self.degree).max(1);
        self.entries.unwrap_or((ENTRIES_OF_STREAM * streams).max(ENTRIES_MIN))
    }
    fn size_min(&self) -> u64 {
        (GROUPS_MIN * self.degree).max(self.step()).min(self.size_max())
    }
}

impl Tap {
    /// With an empty cache and an empty table.
    #[must_use]
    pub fn new(config: TapConfig) -> Self {
        let size = config.fixed.unwrap_or(STEPS_FIRST * config.step());
        let least = if config.fixed.is_some() { 1 } else { config.size_min() };
        Self {
            table: Table::new(config.table_entries()),
            lists: Lists::new(),
            triggers: Vec::new(),
            planned: Vec::new(),
            size: size.clamp(least, config.size_max()),
            config,
            period: Period::default(),
            streams: 0,
            groups_ahead: 0,
            grown: 0,
            shrunk: 0,
        }
    }

    /// Sets the triggers of what came of the groups planned last. The block behind each is expected: its reader may come
    /// there before the next group does.
    fn settle(&mut self, cache: &Cache) {
        while let Some(Group { extent, limit }) = self.planned.pop() {
            let came = extent.iter().take_while(|&block| cache.find(block).is_some()).count() as u64;
            let end = extent.start.0 + came;
            if end < limit {
                self.table.expect(end);
            }
            if came > 0
                && let Some(line) = cache.find(extent.start.plus(came / 2))
            {
                self.triggers[line.index()] = end;
            }
        }
    }

    fn group(&mut self, start: u64, limit: u64, when: When, plan: &mut Plan) {
        if start >= limit {
            return;
        }
        let extent = Extent::new(start, self.config.degree.min(limit - start));
        plan.fetch(extent, when);
        if self.planned.len() < GROUPS_MAX {
            self.planned.push(Group { extent, limit });
        }
    }

    /// A hit on a trigger: the group behind it is read ahead. `asked`: what the request itself goes on to miss.
    fn hit(
        &mut self,
        block: Block,
        limit: u64,
        asked: impl Fn(u64) -> bool,
        world: &World<'_>,
        plan: &mut Plan,
    ) {
        let Some(line) = world.cache.find(block) else { return };
        let Some(end) = self.triggers.get_mut(line.index()).map(core::mem::take).filter(|&end| end > 0)
        else {
            return;
        };
        if !asked(end) && end < limit {
            self.table.take(end);
            self.groups_ahead += 1;
            self.group(end, limit, When::Ahead, plan);
        }
    }

    /// The first missing block of a request that ends before `end`.
    fn missed(&mut self, first: u64, end: u64, limit: u64, plan: &mut Plan) {
        match self.table.take(first) {
            Some(flagged) => {
                if flagged {
                    self.grow();
                }
                self.streams += 1;
                self.group(end, limit, When::WithDemand, plan);
            }
            None if end < limit => self.table.expect(end),
            None => {}
        }
    }

    /// A block was missed that had been read ahead: there was too little room.
    fn grow(&mut self) {
        self.period = Period::default();
        if self.config.fixed.is_none() && self.size < self.config.size_max() {
            self.size = (self.size + self.config.step()).min(self.config.size_max());
            self.grown += 1;
        }
    }
    /// As many blocks have come as the prefetch cache holds, and none was missed that had left it unread.
    fn turned_over(&mut self) {
        let Period { read, wasted, .. } = core::mem::take(&mut self.period);
        let pays = read > 0 && read * READ_ONE_IN >= read + wasted;
        if pays && self.config.fixed.is_none() && self.size > self.config.size_min() {
            self.size = self.size.saturating_sub(self.config.step()).max(self.config.size_min());
            self.shrunk += 1;
        }
    }

    /// The oldest block of the prefetch cache, if that holds too much and the block can go.
    fn too_much(&self, cache: &Cache) -> Option<LineId> {
        if self.lists.len(AHEAD) as u64 <= self.size {
            return None;
        }
        let oldest = LineId(self.lists.oldest(AHEAD)?.0);
        let state = cache.line(oldest);
        (state.in_flight == 0 && state.dirty == 0).then_some(oldest)
    }
}

impl Policy for Tap {
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    #[inline(never)]
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.settle(world.cache);
        if access.op == Op::Write {
            return; // writes train nothing (algorithms.md, section 10)
        }
        let limit = access.within.end().min(world.blocks);
        let asked = |block: u64| {
            access.extent.contains(Block(block))
                && lookup.outcomes[(block - access.extent.start.0) as usize].is_miss()
        };
        for (index, outcome) in lookup.outcomes.iter().enumerate() {
            if !outcome.is_miss() {
                self.hit(access.extent.start.plus(index as u64), limit, asked, world, plan);
            }
        }
        if let Some(first) = lookup.outcomes.iter().position(|outcome| outcome.is_miss()) {
            self.missed(access.extent.start.0 + first as u64, access.extent.end(), limit, plan);
        }
    }
    #[inline(never)]
    fn on_fetched(&mut self, _fetched: &Fetched, world: &World<'_>, _plan: &mut Plan) {
        self.settle(world.cache);
    }
    #[inline(never)]
    /// Its own retention sees which blocks are used ([`Retention::on_hit`]).
    fn hears_used(&mut self) -> bool {
        false
    }
    fn on_left(&mut self, extent: Extent, _wasted: Fate) {
        self.period.wasted += extent.blocks;
        extent.iter().for_each(|block| self.table.flag(block.0));
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("tap_size_blocks", self.size as f64),
            ("tap_ahead_blocks", self.lists.len(AHEAD) as f64),
            ("tap_table_entries", self.table.len() as f64),
            ("tap_sequential_misses", self.streams as f64),
            ("tap_groups_ahead", self.groups_ahead as f64),
            ("tap_grown", self.grown as f64),
            ("tap_shrunk", self.shrunk as f64),
        ]);
    }
    fn curves(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "curves for a report")]
        out.push(("tap_size_blocks", self.size as f64));
    }
}

impl Retention for Tap {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        debug_assert_eq!(cache.line_blocks(), 1, "a line is a block");
        self.lists.grow(cache.lines_made());
        if self.triggers.len() < cache.lines_made() {
            self.triggers.resize(cache.lines_made(), 0);
        }
        let known = self.lists.is_resident(key(line));
        if known && ahead {
            return;
        }
        if known {
            self.lists.unlink(key(line));
        }
        self.table.unflag(cache.line(line).number);
        self.lists.push_young(if ahead { AHEAD } else { DEMAND }, key(line));
        if ahead {
            self.period.came += 1;
            if self.period.came >= self.size {
                self.turned_over();
            }
        }
    }
    /// The prefetch cache holds what nobody has read: its first use takes a block to the demand cache.
    fn on_hit(&mut self, line: LineId, _outcome: Outcome, _cache: &Cache) {
        if !self.lists.is_resident(key(line)) {
            return;
        }
        if self.lists.list_of(key(line)) == DEMAND {
            self.lists.refresh(DEMAND, key(line));
        } else {
            self.period.read += 1;
            self.lists.unlink(key(line));
            self.lists.push_young(DEMAND, key(line));
        }
    }
    /// Room that the prefetch cache does not use is lent to the demand cache.
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        let oldest = |list| self.lists.oldest(list).map(|key| LineId(key.0));
        self.too_much(cache).or_else(|| oldest(DEMAND)).or_else(|| oldest(AHEAD)).map(Victim::Whole)
    }
    fn trim(&mut self, cache: &Cache) -> Option<Victim> {
        self.too_much(cache).map(Victim::Whole)
    }
    fn second_chance(&mut self, line: LineId) {
        let list = self.lists.list_of(key(line));
        self.lists.refresh(list, key(line));
    }
    fn on_emptied(&mut self, line: LineId, _cache: &Cache) -> Afterlife {
        self.lists.unlink(key(line));
        self.triggers[line.index()] = 0;
        Afterlife::Forget
    }
}
