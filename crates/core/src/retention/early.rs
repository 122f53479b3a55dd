//! `early`: strips by recency; but where most is read again later than the cache is large, new ones leave early, so that some of the old are still there.
//!
//! A loop over more than the cache is the worst of recency: whatever is read leaves just before it is read again. Whoever gives up what came lately
//! keeps a part of the loop and finds that part each time round:
//!
//! ```text
//!             young                     early                        old
//!   by age    | s s s s s s s s s s s s | s s s s s s s s s s s s s s s |
//!                                       ▲ leaves                      ▲ leaves instead, once it is older than `late`
//! ```
//!
//! Whether that pays, and where the two points are, is asked of how far apart reads of the same strip are (`early/distances.rs`); where it does not, it is
//! recency. Age is what has come since a strip was read, in blocks. A strip with blocks that nobody has read stays until it is the oldest: they were read
//! ahead, and are believed to be read yet.
//!
//! Source: EELRU (Smaragdakis, Kaplan and Wilson, SIGMETRICS 1999). It does nothing where strips are read again while they are here, never, or
//! after more than 17 times the cache. Deviations are on docs/schemes/early.md.

mod distances;

use super::contract::{Afterlife, Retention, Victim};
use crate::access::Outcome;
use crate::cache::{Cache, LineId};
use crate::row::{Layer, Make, Role, Row};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use distances::{Distances, PARTS};

/// A read is another visit of its strip once so much has come since the last one: one in so many of the cache.
const VISIT_ONE_IN: u64 = 32;
/// Strips behind the early point that are looked at for one that was read whole.
const LOOKS_MAX: u32 = 32;
const NOBODY: u32 = u32::MAX;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "early",
    layer: Layer::Array,
    role: Role::Keep,
    about: "Keeps strips by recency, or lets new ones leave early where most is read again later than the cache is large.",
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
}

const UNLISTED: Node = Node { younger: NOBODY, older: NOBODY, at: u64::MAX };

impl Node {
    const fn is_listed(self) -> bool {
        self.at != u64::MAX
    }
}

/// Strips by age, and how far apart reads of them are.
#[derive(Debug)]
pub struct Early {
    /// Blocks that have come, those of strips that were old and are young again among them.
    clock: u64,
    nodes: Vec<Node>,
    youngest: u32,
    oldest: u32,
    /// A strip near the early point.
    hand: u32,
    /// Refused in this round.
    aside: Vec<u32>,
    /// Of each strip, whether no reader has come to it since it came.
    unvisited: Vec<bool>,
    distances: Distances,
}

impl Early {
    /// For a cache of so many blocks.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        let (nodes, aside, unvisited) = (Vec::new(), Vec::new(), Vec::new());
        let (youngest, oldest, hand) = (NOBODY, NOBODY, NOBODY);
        Self { clock: 0, nodes, youngest, oldest, hand, aside, unvisited, distances: Distances::new(blocks) }
    }
    fn reserve(&mut self, lines: usize) {
        if self.nodes.len() < lines {
            self.nodes.resize(lines, UNLISTED);
            self.unvisited.resize(lines, false);
        }
    }
    fn age(&self, line: u32) -> u64 {
        self.clock - self.nodes[line as usize].at
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
        if self.hand == line {
            self.hand = if older == NOBODY { younger } else { older };
        }
    }
    fn link(&mut self, line: u32) {
        let older = core::mem::replace(&mut self.youngest, line);
        self.nodes[line as usize] = Node { younger: NOBODY, older, at: self.clock };
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.younger = line,
            None => self.oldest = line,
        }
    }
    /// Those that were refused are young again.
    fn settle(&mut self) {
        while let Some(line) = self.aside.pop() {
            if !self.nodes[line as usize].is_listed() {
                self.link(line);
            }
        }
    }
    /// A reader asks for blocks of a strip that is here.
    fn read(&mut self, line: LineId, cache: &Cache) {
        let age = self.age(line.0);
        let visits = core::mem::take(&mut self.unvisited[line.index()]);
        if age > self.distances.capacity() / VISIT_ONE_IN || visits {
            self.distances.read(cache.line(line).number, self.clock);
            if !visits {
                self.clock += u64::from(cache.line(line).occupied());
            }
        }
        if line.0 != self.youngest {
            self.unlink(line.0);
            self.link(line.0);
        } else {
            self.nodes[line.index()].at = self.clock;
        }
    }
    /// The strip at the early point, where strips leave there.
    fn leaves_early(&mut self, cache: &Cache) -> Option<u32> {
        let points = self.distances.points();
        let bin = |bin: u64| bin * self.distances.capacity() / PARTS;
        let (early, late) = (bin(points.early), bin(points.late));
        if early == 0 || self.oldest == NOBODY || self.age(self.oldest) > late {
            return None;
        }
        let mut hand = if self.hand == NOBODY { self.oldest } else { self.hand };
        while hand != NOBODY && self.age(hand) < early {
            hand = self.nodes[hand as usize].older;
        }
        while hand != NOBODY && self.nodes[hand as usize].younger != NOBODY {
            let younger = self.nodes[hand as usize].younger;
            if self.age(younger) < early {
                break;
            }
            hand = younger;
        }
        self.hand = hand;
        for _ in 0..LOOKS_MAX {
            if hand == NOBODY || cache.line(LineId(hand)).unread == 0 {
                break;
            }
            hand = self.nodes[hand as usize].older;
        }
        (hand != NOBODY && cache.line(LineId(hand)).unread == 0).then_some(hand)
    }
}

impl Retention for Early {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        self.reserve(cache.lines_made());
        self.settle();
        if !self.nodes[line.index()].is_listed() {
            self.link(line.0);
            self.unvisited[line.index()] = true;
        }
        if !ahead {
            self.read(line, cache);
        }
    }
    fn on_introduced(&mut self, line: LineId, cache: &Cache) {
        let state = cache.line(line);
        self.clock -= u64::from(state.occupied()); // they have not just come
        self.reserve(cache.lines_made());
        self.link(line.0);
        self.unvisited[line.index()] = state.cached == 0;
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
    fn on_hit(&mut self, line: LineId, _: Outcome, cache: &Cache) {
        self.settle();
        self.read(line, cache);
    }
    fn on_counts(&mut self, _: LineId, cached: i32, unread: i32) {
        self.clock += u64::try_from(cached + unread).unwrap_or(0);
    }
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        let line = self.leaves_early(cache).unwrap_or(self.oldest);
        if line == NOBODY {
            self.settle();
            return None;
        }
        Some(Victim::Whole(LineId(line)))
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
        self.aside.retain(|&aside| aside != line.0);
        Afterlife::Forget
    }
}

#[cfg(test)]
mod tests {
    use super::distances::Points;
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
            let array = Array::new("single:16KiB".parse().unwrap(), 1 << 16).unwrap();
            let scheme = SchemeSpec::parse(scheme).unwrap();
            let layer = LayerSpec::array_cache(scheme, array, 4 * STRIPS);
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
    fn a_strip_that_was_read_ahead_and_not_yet_read_stays_until_it_is_old() {
        let mut reader = Reader::under("early+strip");
        for _ in 0..6 {
            reader.strips(0..96);
        }
        // A block of each strip: the other three come with it, and are read much later than an eighth of the cache.
        for strip in 200..220 {
            reader.read(4 * strip);
        }
        assert!((200..220).filter(|strip| reader.0.state(4 * strip + 3) != State::Empty).count() >= 8);
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

    /// Beside a look at all strips.
    #[test]
    fn the_hand_finds_the_youngest_that_is_old_enough_and_was_read_whole() {
        let mut reader = Reader::under("early+strip");
        let (mut seed, mut early) = (11_u64, 0);
        for n in 0..3_000_u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let strip = if seed >> 62 == 0 { (seed >> 33) % 150 } else { n % 90 };
            if seed >> 32 & 7 == 0 {
                reader.read(4 * strip + (seed >> 20) % 4); // the others come with it, and stay unread
            } else {
                reader.strips([strip]);
            }
            let (scheme, cache) = reader.0.engine.scheme_mut();
            let keeps: &mut dyn Any = scheme.retention();
            let keeps = keeps.downcast_mut::<Early>().unwrap();
            let Points { early: from, late } = keeps.distances.points();
            let bin = |points: u64| points * 4 * STRIPS / PARTS;
            let listed = (0..keeps.nodes.len() as u32).filter(|&line| keeps.nodes[line as usize].is_listed());
            let ages = listed.map(|line| (keeps.age(line), cache.line(LineId(line)).unread == 0));
            let ages = ages.collect::<Vec<_>>();
            let oldest = ages.iter().map(|(age, _)| *age).max().unwrap();
            let youngest =
                ages.iter().filter(|(age, read)| *age >= bin(from) && *read).map(|(age, _)| *age).min();
            let expected = youngest.filter(|_| from > 0 && oldest <= bin(late));
            let found = keeps.leaves_early(cache).map(|line| keeps.age(line));
            assert_eq!(found, expected, "read {n}");
            early += u64::from(found.is_some());
        }
        assert!(early > 1_000, "{early}");
    }
}
