//! `sarc`: sequential prefetching in an adaptive replacement cache (Gill and Modha, USENIX 2005).
//!
//! **The idea.** The cache is two LRU lists of tracks, SEQ for what sequential readers bring and RANDOM for the rest, and
//! memory goes to the list that gains more from another track. What SEQ would gain is known from a model, twice the rate
//! of sequential misses divided by its length; what RANDOM would gain is measured, as hits in its bottom. Between two
//! such hits the two are compared (equation 6), and the wanted size of SEQ moves by a track:
//!
//! ```text
//!   SEQ     MRU |............................| LRU      2 · sequential misses · ΔL / L > 1: SEQ should be longer
//!   RANDOM  MRU |................==bottom ΔL=| LRU      a hit in the bottom: compare; otherwise SEQ should be shorter
//! ```
//!
//! Sequential is a track whose predecessors were in the cache when they were asked for, three in a row. A sequential miss
//! reads m tracks along; a hit on the trigger, m/2 tracks before the end of a group, has the next m read ahead. What is
//! still unread of the old group becomes young before the new one comes, or the old group would be evicted under its
//! reader's nose (the anomaly of LRU with prefetching that the paper describes).
//!
//! **It does nothing** before three tracks in a row have been read, so for random, reverse and strided reads, and for
//! files shorter than that.
//!
//! **Deviations.** The paper's requests are tracks; those of a page cache are not. A track may be here in part, a miss
//! reads what was asked for (unless `whole=on`), lengths are counted in blocks, and a track follows its predecessor only
//! if it is entered at its first block while the last block of the predecessor is here, or scattered reads in a warm cache
//! would look sequential. For requests of whole tracks this is the paper's rule. Source: the paper's sections on
//! detection, on the anomaly, and "Equalizing Marginal Utilities"; algorithms.md 4.2.

#[cfg(test)]
mod tests;
pub mod tracks;

use super::{Fetched, Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::cache::{Cache, LineId, State};
use crate::retention::contract::{Afterlife, Retention, Victim};
use crate::row::{Layer, LayerShape, Make, Param, Role, Row, Value, Values};
use crate::units::{BLOCK_BYTES, Block, Extent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use tracks::{RANDOM, SEQ, Tracks};

/// The bottom of RANDOM holds one in this many tracks of the cache (2%: the paper's "small constant fraction").
const BOTTOM_ONE_IN: u64 = 50;
/// Most groups planned by one access: its sequential miss and the triggers that it hits.
const GROUPS_MAX: usize = 8;
/// Bound of the degree whatever the parameter says, in tracks.
pub const DEGREE_LIMIT: u64 = 4_096;

/// Parameters of SARC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarcConfig {
    /// Blocks of the cache.
    pub cache_blocks: u64,
    /// Blocks of a track.
    pub track_blocks: u64,
    /// m: tracks of a group.
    pub degree: u64,
    /// Tracks in a row before a miss is sequential.
    pub threshold: u8,
    /// A miss reads its whole track.
    pub whole: bool,
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "sarc",
    layer: Layer::Host,
    role: Role::Owner,
    about: "Sequential prefetching in a cache of two lists, sequential and random, that share memory by what they gain.",
    source: "SARC (Gill and Modha, USENIX 2005)",
    params: &[
        Param::bytes("track", 64 << 10, "Unit of detection and of the lists, up to 256 KiB.")
            .within(Value::Bytes(BLOCK_BYTES), Value::Bytes(tracks::TRACK_BLOCKS_MAX * BLOCK_BYTES)),
        Param::count("degree", 16, "Tracks read along or ahead at a time."),
        Param::count("threshold", 3, "Tracks in a row before a miss is sequential, up to 255.")
            .within(Value::Count(1), Value::Count(u8::MAX as u64)),
        Param::switch("whole", false, "A miss reads its whole track."),
    ],
    make: Make::Policy(|values, shape| Box::new(Sarc::new(config(values, shape)))),
    ..Row::PLAIN
};

fn config(values: &Values, shape: &LayerShape) -> SarcConfig {
    SarcConfig {
        cache_blocks: shape.cache_blocks,
        track_blocks: values.blocks("track"),
        degree: values.count("degree").min(DEGREE_LIMIT),
        threshold: u8::try_from(values.count("threshold")).expect("within its bounds"),
        whole: values.switch("whole"),
    }
}

/// Sequential blocks that were wished for.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// Blocks that belong into SEQ.
    extent: Extent,
    /// The first that nobody has asked for.
    ahead: u64,
}

/// Tracks in two lists, policy and retention.
#[derive(Debug)]
pub struct Sarc {
    config: SarcConfig,
    tracks: Tracks,
    /// Of the access that is being answered.
    groups: Vec<Group>,
    /// Counters of its tracks, ascending by track.
    counters: Vec<(u64, u8)>,
    /// Wanted size of SEQ, in blocks.
    desired: u64,
    /// Sequential misses since the last comparison.
    misses: u64,
    misses_all: u64,
    bottom_hits: u64,
    groups_ahead: u64,
}

impl Sarc {
    /// With an empty cache, half of it wanted for SEQ.
    #[must_use]
    pub fn new(config: SarcConfig) -> Self {
        let tracks = config.cache_blocks / config.track_blocks.max(1);
        Self {
            tracks: Tracks::new(config.track_blocks, tracks / BOTTOM_ONE_IN),
            desired: config.cache_blocks / 2,
            config,
            groups: Vec::new(),
            counters: Vec::new(),
            misses: 0,
            misses_all: 0,
            bottom_hits: 0,
            groups_ahead: 0,
        }
    }

    /// Sets the triggers of what came of the groups planned last.
    fn settle(&mut self, cache: &Cache) {
        while let Some(group) = self.groups.pop() {
            let came = group.extent.iter().take_while(|&block| cache.find(block).is_some()).count() as u64;
            let end = group.extent.start.0 + came;
            if end <= group.ahead {
                continue; // nothing was read ahead
            }
            // m/2 tracks before the end of the group, but not on what the request itself asks for.
            let at = self.tracks.number(end - 1).saturating_sub((self.config.degree / 2).saturating_sub(1));
            let at = at.max(self.tracks.number(group.ahead));
            if let Some(index) = self.tracks.find(at) {
                self.tracks.get_mut(index).trigger = Some(end);
            }
        }
        self.counters.clear();
    }

    /// Detection: tracks in a row up to `number`, counted when it is first asked for in its stay.
    fn counter(&mut self, number: u64, access: &Access, cache: &Cache) -> u8 {
        if let Some(index) = self.tracks.find(number)
            && self.tracks.get(index).counter > 0
        {
            return self.tracks.get(index).counter;
        }
        let first = number * self.tracks.track_blocks();
        let before = first.checked_sub(1).filter(|&block| block >= access.within.start.0);
        let entered = access.extent.contains(Block(first));
        let follows =
            |block: u64| access.extent.contains(Block(block)) || cache.state(Block(block)) != State::Empty;
        let row = match before.filter(|&block| entered && follows(block)) {
            Some(_) => self.known_counter(number - 1).max(1).saturating_add(1).min(self.config.threshold),
            None => 1,
        };
        if let Some(index) = self.tracks.find(number) {
            self.tracks.get_mut(index).counter = row;
        }
        self.counters.push((number, row));
        row
    }
    /// The counter of a track that was asked for by this access or is here; 0 where there is none.
    fn known_counter(&self, number: u64) -> u8 {
        let asked = self.counters.iter().rev().find(|(other, _)| *other == number);
        let here = || self.tracks.find(number).map_or(0, |index| self.tracks.get(index).counter);
        asked.map_or_else(here, |(_, counter)| *counter)
    }

    /// "Equalizing Marginal Utilities", equation 6: whether SEQ gains more than RANDOM from another track.
    fn seq_gains(&self) -> bool {
        2 * self.misses * self.tracks.bottom_blocks() > self.tracks.blocks().0.max(1)
    }
    /// Two hits in the bottom of RANDOM lie behind us: the wanted size of SEQ moves by a track.
    fn adapt(&mut self, longer: bool) {
        let step = self.tracks.track_blocks();
        self.desired = if longer {
            (self.desired + step).min(self.config.cache_blocks)
        } else {
            self.desired.saturating_sub(step)
        };
        self.misses = 0;
    }

    /// Wishes for m tracks after `start`; `asked`: what of them, or before them, belongs to the request itself.
    fn group(&mut self, asked: Extent, start: u64, limit: u64, when: When, plan: &mut Plan) {
        let size = self.tracks.track_blocks();
        let end = ((start.div_ceil(size) + self.config.degree) * size).min(limit).max(start);
        plan.fetch(Extent::new(start, end - start), when);
        if self.groups.len() < GROUPS_MAX {
            let from = asked.start.0.min(start);
            self.groups.push(Group { extent: Extent::new(from, end - from), ahead: start });
        }
    }

    /// A hit on a trigger: the rest of the group that ends at `end` becomes young, and the next one is wished for.
    fn triggered(&mut self, number: u64, end: u64, limit: u64, plan: &mut Plan) {
        for other in number..=self.tracks.number(end - 1) {
            if let Some(index) = self.tracks.find(other) {
                self.tracks.to_mru(index, SEQ);
            }
        }
        if end < limit {
            self.groups_ahead += 1;
            self.group(Extent::new(end, 0), end, limit, When::Ahead, plan);
        }
    }

    fn read(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let size = self.tracks.track_blocks();
        let limit = access.within.end().min(world.blocks);
        let (start, end) = (access.extent.start.0, access.extent.end());
        let outcome = |block: u64| lookup.outcomes[(block - start) as usize];
        let mut sequential = None;
        for number in self.tracks.number(start)..=self.tracks.number(end - 1) {
            let part = Extent::new(number * size, size).intersect(access.extent);
            let counter = self.counter(number, access, world.cache);
            let found = self.tracks.find(number);
            if let Some(index) = found
                && let Some(next) = self.tracks.get_mut(index).trigger.take()
                && !(access.extent.contains(Block(next)) && outcome(next).is_miss())
            {
                self.triggered(number, next, limit, plan);
            }
            if !part.iter().any(|block| outcome(block.0).is_miss()) {
                continue;
            }
            if counter >= self.config.threshold {
                sequential = sequential.or(Some(part.start.0));
            } else if self.config.whole {
                let whole = Extent::new(number * size, size).intersect(access.within);
                plan.fetch(whole, When::WithDemand);
            }
        }
        if let Some(from) = sequential {
            self.misses += 1;
            self.misses_all += 1;
            self.group(Extent::new(from, end - from), end, limit, When::WithDemand, plan);
            // Hits in the bottom may stop altogether; then this is the only sign.
            if self.seq_gains() {
                self.adapt(true);
            }
        }
    }
}

impl Policy for Sarc {
    fn hears_left(&mut self) -> bool {
        false
    }
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.settle(world.cache);
        if access.op == Op::Read {
            self.read(access, lookup, world, plan);
        }
    }
    fn on_fetched(&mut self, _fetched: &Fetched, world: &World<'_>, _plan: &mut Plan) {
        self.settle(world.cache);
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        let (seq, random) = self.tracks.blocks();
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("sarc_seq_blocks", seq as f64),
            ("sarc_random_blocks", random as f64),
            ("sarc_desired_blocks", self.desired as f64),
            ("sarc_sequential_misses", self.misses_all as f64),
            ("sarc_bottom_hits", self.bottom_hits as f64),
            ("sarc_groups_ahead", self.groups_ahead as f64),
        ]);
    }
}

impl Retention for Sarc {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        debug_assert_eq!(cache.line_blocks(), 1, "a line is a block of a track");
        let block = cache.line(line).number;
        let sequential = self.groups.iter().any(|group| group.extent.contains(Block(block)));
        let counter = if ahead { 0 } else { self.known_counter(self.tracks.number(block)) };
        self.tracks.insert(line, block, if sequential { SEQ } else { RANDOM }, counter);
    }
    fn on_hit(&mut self, line: LineId, _outcome: Outcome, _cache: &Cache) {
        let Some(index) = self.tracks.of_line(line) else { return };
        if self.tracks.in_bottom(index) {
            self.bottom_hits += 1;
            self.adapt(self.seq_gains());
        }
        self.tracks.to_mru(index, self.tracks.place(index));
    }
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        let (seq, random) = (self.tracks.oldest(SEQ), self.tracks.oldest(RANDOM));
        let (seq_len, random_len) = self.tracks.lens();
        let bottom = self.tracks.bottom();
        let index = match (seq, random) {
            (Some(seq), Some(random)) => {
                let from_seq = if seq_len < bottom || random_len < bottom {
                    self.tracks.get(seq).stamp < self.tracks.get(random).stamp
                } else {
                    self.tracks.blocks().0 > self.desired
                };
                if from_seq { seq } else { random }
            }
            (seq, random) => seq.or(random)?,
        };
        self.tracks.first_line(index, cache).map(Victim::Whole)
    }
    fn second_chance(&mut self, line: LineId) {
        if let Some(index) = self.tracks.of_line(line) {
            self.tracks.to_mru(index, self.tracks.place(index));
        }
    }
    fn on_emptied(&mut self, line: LineId, cache: &Cache) -> Afterlife {
        self.tracks.remove(line, cache.line(line).number);
        Afterlife::Forget
    }
}
