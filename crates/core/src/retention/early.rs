//! `early`: by recency; but where most is read again later than the cache is large, what is new leaves early, so that some of the old is still there.
//!
//! A loop over more than the cache is the worst of recency: whatever is read leaves just before it is read again. Whoever gives up what came lately
//! keeps a part of the loop and finds that part each time round:
//!
//! ```text
//!             young                     early                        old
//!   by age    | b b b b b b b b b b b b | b b b b b b b b b b b b b b b |
//!                                       ▲ leaves                      ▲ leaves instead, once it is older than `late`
//! ```
//!
//! Whether that pays, and where the two points are, is asked of how far apart reads of the same block are (`early/distances.rs`); where it does not, strips
//! leave by recency. Age is what has come since, in blocks. What was read of a strip in one visit (`early/visits.rs`) leaves together: of a strip that was read as a whole all
//! of it; of one that is read here and there the blocks of that visit, while what was read of it before stays. A strip read as a whole costs its readers one
//! positioning, a block alone as much: so those leave first.
//!
//! Source: EELRU (Smaragdakis, Kaplan and Wilson, SIGMETRICS 1999). It does nothing where blocks are read again while they are here, never, or
//! after more than 17 times the cache. Deviations are on docs/schemes/early.md.

mod distances;
mod visits;

use super::contract::{Afterlife, Retention, Victim};
use crate::access::Outcome;
use crate::cache::{Cache, LineId, State};
use crate::row::{Layer, Make, Role, Row};
use crate::units::Block;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use distances::{Distances, PARTS};
use visits::Visits;

/// A strip was read as a whole if one in so many of its blocks or more was in one visit.
const WHOLE_ONE_IN: u64 = 4;
/// Oldest strips that are looked at for one that was read as a whole.
const LOOKS_MAX: u32 = 8;
/// So many parts behind the early point what has not had to leave is old.
const PAST: u64 = 1;
const NOBODY: u32 = u32::MAX;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "early",
    layer: Layer::Array,
    role: Role::Keep,
    about: "Keeps by recency, or lets what is new leave early where most is read again later than the cache is large.",
    source: "EELRU (Smaragdakis, Kaplan and Wilson, SIGMETRICS 1999)",
    make: Make::KeepLines(|shape| Box::new(Early::new(shape.cache_blocks))),
    ..Row::PLAIN
};

/// One strip in the order of age.
#[derive(Clone, Copy, Debug)]
struct Node {
    younger: u32,
    older: u32,
    /// When it came or was read last, in blocks.
    at: u64,
    /// It was read as a whole in its last visit.
    whole: bool,
}

const UNLISTED: Node = Node { younger: NOBODY, older: NOBODY, at: u64::MAX, whole: false };

impl Node {
    const fn is_listed(self) -> bool {
        self.at != u64::MAX
    }
}

/// Strips by age, what was read of them lately, and how far apart reads of a block are.
#[derive(Debug)]
pub struct Early {
    /// Blocks that have come, those that were old and are young again among them.
    clock: u64,
    nodes: Vec<Node>,
    youngest: u32,
    oldest: u32,
    /// Refused in this round.
    aside: Vec<u32>,
    visits: Visits,
    /// Of the visit that is leaving, what has not yet.
    leaving: Vec<Block>,
    distances: Distances,
}

impl Early {
    /// For a cache of so many blocks.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        let (nodes, aside, leaving) = (Vec::new(), Vec::new(), Vec::new());
        let (youngest, oldest) = (NOBODY, NOBODY);
        let (visits, distances) = (Visits::default(), Distances::new(blocks));
        Self { clock: 0, nodes, youngest, oldest, aside, visits, leaving, distances }
    }
    fn reserve(&mut self, cache: &Cache) {
        if self.nodes.len() < cache.lines_made() {
            self.nodes.resize(cache.lines_made(), UNLISTED);
            self.visits.reserve(cache.lines_made(), cache.line_blocks());
        }
    }
    fn unlink(&mut self, line: u32) {
        let Node { younger, older, .. } = core::mem::replace(&mut self.nodes[line as usize], UNLISTED);
        match self.nodes.get_mut(younger as usize) {
            Some(node) => node.older = older,
            None => self.youngest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.younger = younger,
            None => self.oldest = younger,
        }
    }
    fn link(&mut self, line: u32, whole: bool) {
        let older = core::mem::replace(&mut self.youngest, line);
        self.nodes[line as usize] = Node { younger: NOBODY, older, at: self.clock, whole };
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.younger = line,
            None => self.oldest = line,
        }
    }
    /// Those that were refused are young again.
    fn settle(&mut self) {
        while let Some(line) = self.aside.pop() {
            if !self.nodes[line as usize].is_listed() {
                self.link(line, false);
            }
        }
    }
    /// A strip is young again.
    fn touch(&mut self, line: u32) {
        if line == self.youngest {
            self.nodes[line as usize].at = self.clock;
        } else {
            let whole = self.nodes[line as usize].whole;
            self.unlink(line);
            self.link(line, whole);
        }
    }
    /// The blocks of so many parts of the cache.
    const fn parts(&self, parts: u64) -> u64 {
        parts * self.distances.capacity() / PARTS
    }
    /// The oldest visit is over: its strip, and whether that was read as a whole.
    fn end_visit(&mut self, line_blocks: u64) -> Option<(u32, bool)> {
        let (line, blocks) = self.visits.end(self.clock)?;
        let whole = blocks * WHOLE_ONE_IN >= line_blocks;
        self.nodes[line as usize].whole = whole;
        Some((line, whole))
    }
    /// What is well past the early point and has not had to leave is old.
    fn grow_old(&mut self, cache: &Cache) {
        let most = self.parts(self.distances.points().early.max(1) + PAST);
        while self.visits.oldest().is_some_and(|since| since + most < self.clock) {
            self.end_visit(cache.line_blocks());
        }
    }
    /// What lies at the early point, where things leave there.
    fn leaves_early(&mut self, cache: &Cache) -> Option<Victim> {
        let points = self.distances.points();
        let (early, late) = (self.parts(points.early), self.parts(points.late));
        let oldest = self.nodes.get(self.oldest as usize)?;
        if early == 0 || oldest.at + late < self.clock {
            return None;
        }
        loop {
            while let Some(block) = self.leaving.pop() {
                let there = cache.find(block).filter(|&line| {
                    let cell = cache.cell(line, block);
                    cell.state == State::Cached && !cell.dirty
                });
                if there.is_some_and(|line| !self.visits.has(line.0, place(cache, block))) {
                    return Some(Victim::Block(block));
                }
            }
            self.visits.oldest().filter(|since| since + early <= self.clock)?;
            let (line, whole) = self.end_visit(cache.line_blocks())?;
            if whole {
                if is_idle(cache, line) && cache.line(LineId(line)).unread == 0 {
                    return Some(Victim::Whole(LineId(line)));
                }
            } else if let Some(line) = self.old_whole(cache).or_else(|| self.young_whole(early, cache)) {
                return Some(Victim::Whole(LineId(line)));
            } else {
                let start = cache.line_extent(cache.line(LineId(line)).number).start;
                self.leaving.extend(self.visits.ended().map(|place| start.plus(place)));
            }
        }
    }
    /// Or a strip that is read as a whole and will soon be at the early point.
    fn young_whole(&self, early: u64, cache: &Cache) -> Option<u32> {
        let least = cache.line_blocks().div_ceil(WHOLE_ONE_IN);
        let until = self.clock.saturating_sub(early / 2);
        let idle = |&line: &u32| is_idle(cache, line) && cache.line(LineId(line)).unread == 0;
        self.visits.whole(LOOKS_MAX as usize, until, least).find(idle)
    }
    /// One of the oldest strips that was read as a whole.
    fn old_whole(&self, cache: &Cache) -> Option<u32> {
        let mut line = self.oldest;
        for _ in 0..LOOKS_MAX {
            let node = self.nodes.get(line as usize)?;
            if node.whole && is_idle(cache, line) {
                return Some(line);
            }
            line = node.younger;
        }
        None
    }
}

/// How many blocks of its strip come before a block.
fn place(cache: &Cache, block: Block) -> u64 {
    cache.place_in_line(block).1
}

/// Whether a strip may leave as a whole.
fn is_idle(cache: &Cache, line: u32) -> bool {
    let state = cache.line(LineId(line));
    state.in_flight == 0 && state.dirty == 0
}

impl Retention for Early {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        self.reserve(cache);
        self.settle();
        if !self.nodes[line.index()].is_listed() {
            self.link(line.0, false);
        } else if !ahead {
            self.touch(line.0);
        }
    }
    fn on_introduced(&mut self, line: LineId, cache: &Cache) {
        self.clock -= u64::from(cache.line(line).occupied()); // they have not just come
        self.reserve(cache);
        self.link(line.0, false);
    }
    fn inherit(&mut self, elder: &dyn Any) {
        if let Some(elder) = elder.downcast_ref::<Self>()
            && elder.clock > self.clock
            && elder.distances.capacity() == self.distances.capacity()
        {
            self.clock = elder.clock;
            self.distances = elder.distances.clone();
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        let (points, [numbers, numbers_max]) = (self.distances.points(), self.distances.numbers());
        let [visits, visits_max] = self.visits.count();
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("early_point_blocks", self.parts(points.early) as f64),
            ("late_point_blocks", self.parts(points.late) as f64),
            ("early_numbers", numbers as f64),
            ("early_numbers_max", numbers_max as f64),
            ("early_visits", visits as f64),
            ("early_visits_max", visits_max as f64),
        ]);
    }
    fn hears_reads(&mut self) -> bool {
        true
    }
    fn on_read(&mut self, line: LineId, block: Block, first: bool, cache: &Cache) {
        let place = place(cache, block);
        if !first && !self.visits.has(line.0, place) {
            self.clock += 1;
        }
        self.distances.read(block.0, self.clock);
        self.visits.read(line.0, place, self.clock);
        self.grow_old(cache);
    }
    fn on_hit(&mut self, line: LineId, _: Outcome, _: &Cache) {
        self.settle();
        self.touch(line.0);
    }
    fn on_counts(&mut self, _: LineId, cached: i32, unread: i32) {
        self.clock += u64::try_from(cached + unread).unwrap_or(0);
    }
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        if let Some(victim) = self.leaves_early(cache) {
            return Some(victim);
        }
        if self.oldest == NOBODY {
            self.settle();
            return None;
        }
        Some(Victim::Whole(LineId(self.oldest)))
    }
    fn second_chance(&mut self, line: LineId) {
        if self.nodes[line.index()].is_listed() {
            self.unlink(line.0);
            self.aside.push(line.0);
        }
    }
    fn on_emptied(&mut self, line: LineId, _: &Cache) -> Afterlife {
        if self.nodes[line.index()].is_listed() {
            self.unlink(line.0);
        }
        self.visits.forget(line.0);
        self.aside.retain(|&aside| aside != line.0);
        Afterlife::Forget
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Array;
    use crate::cache::State;
    use crate::hand::Hand;
    use crate::registry::SchemeSpec;
    use crate::spec::LayerSpec;
    use crate::units::Nanos;

    /// Strips of four blocks, of which the cache holds 64.
    const STRIPS: u64 = 64;

    struct Reader(Hand, u64);

    impl Reader {
        fn under(scheme: &str) -> Self {
            Self::over("single:16KiB", scheme, 4 * STRIPS)
        }
        fn over(array: &str, scheme: &str, cache: u64) -> Self {
            let array = Array::new(array.parse().unwrap(), 1 << 18).unwrap();
            let scheme = SchemeSpec::parse(scheme).unwrap();
            let layer = LayerSpec::array_cache(scheme, array, cache);
            Self(Hand::ticking(layer.build().unwrap(), Nanos(1_000)), 0)
        }
        /// Reads one block; whether it was here.
        fn read(&mut self, block: u64) -> bool {
            let here = self.0.state(block) != State::Empty;
            self.1 += 1;
            self.0.read(self.1, block, 1);
            while self.0.end_first().is_some() {}
            self.0.release_all();
            here
        }
        /// Reads whole strips; how many of them were here.
        fn strips(&mut self, strips: impl IntoIterator<Item = u64>) -> u64 {
            let strip = |strip: u64| (0..4).filter(|block| self.read(4 * strip + block)).count() == 4;
            strips.into_iter().map(strip).filter(|here| *here).count() as u64
        }
    }

    #[test]
    fn of_a_loop_longer_than_the_cache_a_part_is_found_each_time_round() {
        let (mut early, mut usual) = (Reader::under("early"), Reader::under("none"));
        let round = |reader: &mut Reader| reader.strips(0..96);
        assert_eq!((round(&mut early), round(&mut usual)), (0, 0));
        for _ in 0..2 {
            round(&mut early);
        }
        for n in 0..5 {
            let (here, by_recency) = (round(&mut early), round(&mut usual));
            assert_eq!(by_recency, 0, "each is gone just before it is read again");
            assert!(here >= 45, "round {n}: {here} of 96; seven eighths of the cache are 56");
        }
    }

    #[test]
    fn what_is_read_again_while_it_is_here_stays_as_by_recency() {
        let mut reader = Reader::under("early");
        let mut seed = 3_u64;
        let mut usual = Reader::under("none");
        for _ in 0..4_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (seed >> 33) % (4 * (STRIPS - 2));
            assert_eq!(reader.read(block), usual.read(block));
        }
    }

    #[test]
    fn a_loop_that_is_over_makes_room_for_what_is_read_now() {
        let mut reader = Reader::under("early");
        for _ in 0..6 {
            reader.strips(0..96);
        }
        let rounds = (0..12).map(|_| reader.strips(200..250)).collect::<Vec<_>>();
        assert_eq!(rounds.last(), Some(&50), "{rounds:?}");
    }

    #[test]
    fn what_is_older_than_the_late_point_makes_room_for_a_loop_elsewhere() {
        let mut reader = Reader::under("early");
        for _ in 0..6 {
            reader.strips(0..96);
        }
        let rounds = (0..8).map(|_| reader.strips(200..296)).collect::<Vec<_>>();
        assert!(rounds[6..].iter().all(|&here| here >= 40), "{rounds:?} of 96");
    }

    #[test]
    fn a_strip_that_was_read_ahead_and_not_yet_read_stays_until_it_is_old() {
        let mut reader = Reader::under("early+strip");
        for _ in 0..6 {
            reader.strips(0..96);
        }
        // A block of each strip: the other three come with it, and are read much later than an eighth of the cache.
        for strip in 200..220 {
            reader.read(4 * strip);
        }
        let here = (200..220).filter(|strip| reader.0.state(4 * strip + 3) != State::Empty).count();
        assert_eq!(here, 20);
    }

    #[test]
    fn what_it_remembers_is_shown_beside_its_most() {
        let mut reader = Reader::under("early");
        let shown = |reader: &mut Reader| {
            let mut out = Vec::new();
            reader.0.engine.gauges(&mut out);
            ["early_point_blocks", "early_numbers", "early_numbers_max", "early_visits", "early_visits_max"]
                .map(|name| out.iter().find(|gauge| gauge.0 == name).expect(name).1 as u64)
        };
        assert_eq!(shown(&mut reader)[..2], [0, 0]);
        for _ in 0..6 {
            reader.strips(0..96);
        }
        let [early, numbers, numbers_max, visits, visits_max] = shown(&mut reader);
        assert_eq!(early, 4 * STRIPS / 8, "an eighth of the cache");
        assert!((1..=numbers_max).contains(&numbers), "{numbers} of {numbers_max}");
        assert!((1..=visits_max).contains(&visits) && visits_max <= 96, "{visits} of {visits_max}");
    }

    #[test]
    fn what_takes_its_place_knows_how_far_apart_reads_are() {
        let mut reader = Reader::under("early");
        for _ in 0..4 {
            reader.strips(0..96);
        }
        let elder: &dyn Any = reader.0.engine.scheme_mut().0.retention();
        let elder = elder.downcast_ref::<Early>().unwrap();
        let mut next = Early::new(4 * STRIPS);
        next.inherit(elder);
        assert_eq!((next.clock, next.distances.points()), (elder.clock, elder.distances.points()));
        assert_eq!(next.distances.points().early, 1);
        let mut smaller = Early::new(2 * STRIPS);
        smaller.inherit(elder);
        assert_eq!(smaller.clock, 0, "distances are in eighths of another cache");
    }

    #[test]
    fn of_blocks_read_here_and_there_a_part_is_found_though_their_strips_are_read_all_the_time() {
        // 384 blocks of 32 strips, where 256 blocks can be kept, in an order of their own and the same each time.
        let mut order: Vec<u64> = (0..512).filter(|block| block % 4 != 3).collect();
        order.sort_by_key(|block| block.wrapping_mul(crate::hash::SPREAD).rotate_left(23));
        let round = |reader: &mut Reader| order.iter().filter(|&&block| reader.read(block)).count();
        let [mut early, mut usual] =
            ["early", "none"].map(|scheme| Reader::over("single:64KiB", scheme, 256));
        for _ in 0..3 {
            round(&mut early);
            round(&mut usual);
        }
        for n in 0..5 {
            let (here, by_recency) = (round(&mut early), round(&mut usual));
            assert!(here >= 190, "round {n}: {here} of 384; seven eighths of the cache are 224");
            assert!(by_recency < 130, "round {n}: {by_recency}");
        }
    }

    #[test]
    fn strips_that_were_read_as_a_whole_leave_before_blocks_that_were_read_alone() {
        let mut reader = Reader::over("single:64KiB", "early", 2_048);
        let mut strips = 768..;
        let round = |reader: &mut Reader, strips: &mut dyn Iterator<Item = u64>| {
            let each = |alone: u64| {
                let here = reader.read(16 * alone);
                // Nobody comes back to what is read as a whole.
                let strip = strips.next().filter(|_| alone.is_multiple_of(4));
                let blocks = strip.map(|strip| 16 * strip..16 * strip + 16);
                blocks.into_iter().flatten().for_each(|block| _ = reader.read(block));
                here
            };
            (0..768).map(each).filter(|here| *here).count()
        };
        for _ in 0..6 {
            round(&mut reader, &mut strips);
        }
        let found = round(&mut reader, &mut strips);
        assert!(found >= 600, "{found} of 768 blocks, though 3,840 came between two reads of each");
    }

    #[test]
    fn strips_that_were_read_as_a_whole_and_grew_old_leave_before_blocks_that_are_read_alone() {
        let mut reader = Reader::over("single:64KiB", "early", 2_048);
        let alone = |at: u64| 16 * at;
        for _ in 0..6 {
            (0..2_400).for_each(|at| _ = reader.read(alone(at)));
        }
        let burst = 3_000..3_016_u64;
        burst.clone().flat_map(|strip| 16 * strip..16 * strip + 16).for_each(|block| _ = reader.read(block));
        // Nothing has to leave while what is here is read, so the burst grows old.
        let here = |reader: &Reader, at: u64| reader.0.state(alone(at)) != State::Empty;
        let (found, missing): (Vec<u64>, Vec<u64>) = (0..2_400).partition(|&at| here(&reader, at));
        found.iter().for_each(|&at| _ = reader.read(alone(at)));
        missing.iter().take(200).for_each(|&at| _ = reader.read(alone(at)));
        let stayed = found.iter().filter(|&&at| here(&reader, at)).count();
        let of_burst = burst.filter(|&strip| here(&reader, strip)).count();
        assert_eq!((stayed, of_burst), (found.len(), 3), "200 blocks are thirteen strips of 16");
    }
}
