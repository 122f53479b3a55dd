//! `amp`: adaptive multi-stream prefetching (Gill and Bathen, FAST 2007): how much, and when, for each stream apart.
//!
//! **The idea.** A stream of rate r in a cache whose unread pages live for a time T should have p = r·T pages read ahead:
//! more are thrown out unread, fewer waste seeks. And the next p should be asked for g pages before the last ones are
//! used up, g being just what the stream reads while a prefetch is on its way. Neither r nor T is measured; both p and
//! g are learned from what happens to pages:
//!
//! ```text
//!                 |<------------- p ------------>|
//!   ...request....|................. tag ...g... last|next set of p pages...
//!                                     ^ a hit here has the next set read (rule 2)
//!                                                ^ a hit here: p grows (rule 4)
//!   a reader waits for the first page of a set that has just arrived: g grows (rule 6)
//!   an unread page reaches the LRU end: it gets a second chance, p and g shrink (rules 5 and 7)
//! ```
//!
//! There is no table of streams, hence no limit to their number: all of it is metadata of pages in the cache (see
//! [`pages`]). The retention is one LRU list in which the first use of a prefetched page is no reason to keep it longer
//! (rule 8), and the second chance.
//!
//! **It does nothing** for reads whose predecessor page is not in the cache, so random reads cost nothing until the
//! cache holds so much that neighbours meet by chance; nor for reverse or strided reads.
//!
//! **Where the source is silent** (its figures 3 and 4 are images; algorithms.md 4.1 lists what is known of them): a hit
//! makes p grow only when it is the page's first use, or a page read over and over would drive p up without a stream;
//! the pages of a request count as one set with what is prefetched for them; only the missing run at the end of a
//! request is followed by a prefetch, a hole in its middle is just read.

pub mod pages;
#[cfg(test)]
mod tests;

use super::{Fetched, Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::cache::{Cache, LineId, State};
use crate::retention::contract::{Afterlife, Retention, Victim};
use crate::retention::list::{FIRST as LRU, Lists};
use crate::retention::replacement::Key;
use crate::row::{Layer, Make, Param, Role, Row, Values};
use crate::units::{Block, Extent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use pages::{Pages, Planned};

/// Bound of p and APT whatever the parameters say, in pages: 256 MiB, beyond what may be in flight in most caches.
pub const DEGREE_LIMIT: u32 = 65_536;

/// Parameters of AMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmpConfig {
    /// APT: the p above which the next set is read ahead of need, in pages.
    pub threshold: u32,
    /// Largest p, in pages.
    pub degree_max: u32,
    /// K: pages before a miss that must be in the cache for it to be sequential.
    pub predecessors: u64,
}

impl AmpConfig {
    /// APT = 4 as in the paper; p up to 256 pages (1 MiB) and K = 1 as in its only public port.
    pub const USUAL: Self = Self { threshold: 4, degree_max: 256, predecessors: 1 };
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "amp",
    layer: Layer::Host,
    role: Role::Owner,
    about: "Adaptive multi-stream prefetching: how much and how early, learned for each stream from its pages.",
    source: "AMP (Gill and Bathen, FAST 2007), section \"AMP Algorithm\"",
    params: &[
        Param::count(
            "apt",
            AmpConfig::USUAL.threshold as u64,
            "Blocks: the degree above which the next set is read ahead of need.",
        ),
        Param::count("p_max", AmpConfig::USUAL.degree_max as u64, "Blocks: the largest degree."),
        Param::count(
            "k",
            AmpConfig::USUAL.predecessors,
            "Blocks before a miss that must be here for it to be sequential.",
        ),
    ],
    make: Make::Policy(|values, _| Box::new(Amp::new(config(values)))),
    ..Row::PLAIN
};

fn config(values: &Values) -> AmpConfig {
    let pages = |name| u32::try_from(values.count(name)).unwrap_or(DEGREE_LIMIT).min(DEGREE_LIMIT);
    AmpConfig { threshold: pages("apt"), degree_max: pages("p_max"), predecessors: values.count("k") }
}

/// Policy and retention over the metadata of pages.
#[derive(Debug)]
pub struct Amp {
    config: AmpConfig,
    pages: Pages,
    list: Lists,
    /// (p, g) set or adapted last, for whoever looks on.
    shown: (u32, u32),
    sets_on_miss: u64,
    sets_ahead: u64,
    late_sets: u64,
    second_chances: u64,
}

const fn key(line: LineId) -> Key {
    Key(line.0)
}

/// A read, and what may be looked at to answer it.
struct Event<'a, 'w> {
    access: &'a Access,
    lookup: &'a Lookup<'a>,
    world: &'a World<'w>,
}

impl Event<'_, '_> {
    /// Pages of the request: an access has at most [`crate::engine::ACCESS_BLOCKS_MAX`].
    fn request(&self) -> u32 {
        u32::try_from(self.access.extent.blocks).unwrap_or(u32::MAX)
    }
    /// One past the last page that may be read on behalf of this access.
    fn limit(&self) -> u64 {
        self.access.within.end().min(self.world.blocks)
    }
    /// Whether `block` is asked for by this very request and not there.
    fn misses(&self, block: u64) -> bool {
        self.access.extent.contains(Block(block))
            && self.lookup.outcomes[(block - self.access.extent.start.0) as usize].is_miss()
    }
    /// Whether the `k` pages before `block` are in the cache, none of them outside the file.
    fn follows(&self, block: u64, k: u64) -> bool {
        block >= self.access.within.start.0.saturating_add(k)
            && (block - k..block).all(|before| self.world.cache.state(Block(before)) != State::Empty)
    }
}

impl Amp {
    /// With an empty cache.
    #[must_use]
    pub fn new(config: AmpConfig) -> Self {
        Self {
            config,
            pages: Pages::default(),
            list: Lists::new(),
            shown: (0, 0),
            sets_on_miss: 0,
            sets_ahead: 0,
            late_sets: 0,
            second_chances: 0,
        }
    }

    fn plan(&mut self, set: Planned) {
        self.shown = (set.degree, set.trigger);
        self.pages.plan(set);
    }
    fn adapt(&mut self, last: u64, cache: &Cache, change: impl FnOnce(u32, u32) -> (u32, u32)) {
        if let Some(newest) = self.pages.newest(last, cache) {
            self.shown = self.pages.adapt(newest, change);
        }
    }

    /// Rule 1: a run of missing pages, read with the request. When it is sequential, p pages more go with it.
    fn missed(&mut self, run: Extent, event: &Event<'_, '_>, plan: &mut Plan) {
        let request = event.request();
        let alone = Planned { extent: run, ahead: run.end(), degree: 0, trigger: 0, request, tagged: false };
        let ends = run.end() == event.access.extent.end();
        if !ends || !event.follows(run.start.0, self.config.predecessors) {
            self.pages.plan(alone);
            return;
        }
        let max = self.config.degree_max;
        let before = self.pages.of(run.start.0 - 1, event.world.cache).map_or(0, |page| page.degree);
        let length = if before == 0 { request.min(max) } else { before };
        let degree = before.saturating_add(request).min(max);
        let tagged = degree > self.config.threshold;
        let trigger = if tagged { (self.config.threshold / 2).min(degree - 1) } else { 0 };
        let end = (run.end() + u64::from(length)).min(event.limit()).max(run.end());
        plan.fetch(Extent::new(run.end(), end - run.end()), When::WithDemand);
        self.sets_on_miss += 1;
        let extent = Extent::new(run.start.0, end - run.start.0);
        self.plan(Planned { extent, degree, trigger, tagged, ..alone });
    }

    /// Rules 2 and 4: a page that is in the cache is read. `first`: for the first time since it came.
    fn hit(&mut self, block: Block, first: bool, event: &Event<'_, '_>, plan: &mut Plan) {
        let Some(line) = event.world.cache.find(block) else { return };
        let page = self.pages.get(line);
        if page.tag {
            self.pages.get_mut(line).tag = false;
            self.triggered(page.last, event, plan);
        }
        if first && block.0 == page.last && !page.old {
            let (request, max) = (event.request(), self.config.degree_max);
            self.adapt(page.last, event.world.cache, |p, g| (p.saturating_add(request).min(max), g));
        }
    }

    /// Rules 2 and 3: the set after the one that ends at `last` is read ahead of need.
    fn triggered(&mut self, last: u64, event: &Event<'_, '_>, plan: &mut Plan) {
        let (next, limit) = (last + 1, event.limit());
        // Where this very request goes on to the missing next page, rule 1 sees to it.
        if next >= limit || event.misses(next) {
            return;
        }
        // The last page left unread: the cache is too short for this stream, and nobody knows its p any more.
        let Some(end) = self.pages.end(last, event.world.cache) else { return };
        let request = event.request();
        // Rule 3; a last page that was never given a p says nothing of its stream.
        let (length, degree, trigger) = if end.degree == 0 {
            let p = request.min(self.config.degree_max);
            (p, p, (p / 2).min(p - 1))
        } else {
            (end.degree, end.degree.max(end.trigger + 1), end.trigger)
        };
        let extent = Extent::new(next, u64::from(length).min(limit - next));
        plan.fetch(extent, When::Ahead);
        self.sets_ahead += 1;
        self.plan(Planned { extent, ahead: next, degree, trigger, request, tagged: true });
    }
}

impl Policy for Amp {
    fn hears_left(&mut self) -> bool {
        false
    }
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.pages.settle(world.cache);
        if access.op == Op::Write {
            return; // writes train nothing (algorithms.md, section 10)
        }
        let event = Event { access, lookup, world };
        let mut index = 0;
        while index < lookup.outcomes.len() {
            let block = access.extent.start.plus(index as u64);
            let outcome = lookup.outcomes[index];
            if outcome.is_miss() {
                let run = lookup.outcomes[index..].iter().take_while(|o| o.is_miss()).count();
                self.missed(Extent { start: block, blocks: run as u64 }, &event, plan);
                index += run;
            } else {
                let first = matches!(outcome, Outcome::PrefetchHit | Outcome::LateHit);
                self.hit(block, first, &event, plan);
                index += 1;
            }
        }
    }
    /// Rule 6: a reader waits for the first page of a set that has just arrived.
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, _plan: &mut Plan) {
        self.pages.settle(world.cache);
        if !fetched.was_prefetch || !fetched.reader_waiting {
            return;
        }
        let start = fetched.extent.start;
        let Some(page) = self.pages.of(start.0, world.cache) else { return };
        // A page that came by a prefetch is read already only if somebody waited for it.
        if !page.first || world.cache.state(start) != State::Cached {
            return;
        }
        let request = self.pages.end(page.last, world.cache).map_or(1, |last| last.request);
        self.late_sets += 1;
        self.adapt(page.last, world.cache, |p, g| (p, g.saturating_add(request).min(p.saturating_sub(1))));
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("amp_degree", f64::from(self.shown.0)),
            ("amp_trigger", f64::from(self.shown.1)),
            ("amp_sets_on_miss", self.sets_on_miss as f64),
            ("amp_sets_ahead", self.sets_ahead as f64),
            ("amp_late_sets", self.late_sets as f64),
            ("amp_second_chances", self.second_chances as f64),
        ]);
    }
}

impl Retention for Amp {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        debug_assert_eq!(cache.line_blocks(), 1, "a line is a page");
        self.list.grow(cache.lines_made());
        if !self.list.is_resident(key(line)) {
            self.pages.admit(line, cache.line(line).number, cache.lines_made());
            self.list.push_young(LRU, key(line));
        } else if !ahead {
            self.list.refresh(LRU, key(line));
        }
    }
    /// Rule 8: the first use of a prefetched page does not make it young.
    fn on_hit(&mut self, line: LineId, outcome: Outcome, _cache: &Cache) {
        if !matches!(outcome, Outcome::PrefetchHit | Outcome::LateHit) {
            self.list.refresh(LRU, key(line));
        }
    }
    /// Rules 5 and 7. Every page has one second chance in its life, so this ends.
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        loop {
            let oldest = LineId(self.list.oldest(LRU)?.0);
            let state = cache.line(oldest);
            // What is still in flight has not had its chance: the engine refuses it.
            let unread = state.unread > 0 && state.in_flight == 0;
            let page = self.pages.get_mut(oldest);
            if !unread || page.old {
                return Some(Victim::Whole(oldest));
            }
            page.old = true;
            page.tag = false;
            let last = page.last;
            self.second_chances += 1;
            self.list.refresh(LRU, key(oldest));
            self.adapt(last, cache, |p, g| {
                let p = p.saturating_sub(1).max(p.min(1));
                (p, g.saturating_sub(1).min(p.saturating_sub(1)))
            });
        }
    }
    fn second_chance(&mut self, line: LineId) {
        self.list.refresh(LRU, key(line));
    }
    fn on_emptied(&mut self, line: LineId, _cache: &Cache) -> Afterlife {
        self.list.unlink(key(line));
        self.pages.forget(line);
        Afterlife::Forget
    }
}
