//! What was read, in the order in which it was read: logs of runs with one index, in a fixed number of bytes.
//!
//! ```text
//!   segments  | 7..9 | 40..41 | 12..20 | 90..91 |──▶| 31..32 | 7..9 | … of one process; another process has others
//!   index     region of 64 KiB ─▶ its newest run ─▶ the one before
//! ```
//!
//! A log is a chain of segments of [`SEGMENT`] runs, of which one process fills one after the other. A segment whose runs were not met
//! for long makes room for a new one. When the memory is full of segments that are met, what is new is turned away, but for a stretch
//! now and then: of a loop that is longer than the memory a part then stays and is of use each time round, where a plain ring would have
//! forgotten each run just before it comes again. A segment has a number that no other has had, so that what points into one that has been
//! thrown out points nowhere. It does nothing else: when to believe a log is decided above.
//! Source: temporal streams (Wenisch et al., ISCA 2005) for the log, Mithril (Yang et al., SoCC 2017) for the budget.

use crate::hash::SPREAD;
use crate::units::Extent;
use alloc::vec;
use alloc::vec::Vec;

/// Runs of a segment.
pub(super) const SEGMENT: usize = 32;
/// One run in so many is in the index: whoever goes a known way comes to one of them soon.
pub(super) const INDEXED: usize = 2;
/// Bytes of [`INDEXED`] runs: their words, one link, half a place of the index, and their part of what is known of a segment.
const INDEXED_BYTES: u64 = 8 * INDEXED as u64 + 4 + 2 + 2;
/// Longest run, in blocks: just below 4 MiB.
const RUN_MAX: u64 = (1 << BLOCKS_BITS) - 1;
/// Longest run as a share of the cache: one in so many, so that a few runs ahead are not all of it.
const RUN_ONE_IN: u64 = 64;
/// And shortest such longest run.
const RUN_MAX_MIN: u64 = 8;
/// Most segments.
const SEGMENTS_MAX: u64 = 1 << 22;
/// Fewest segments: a cache of a few MiB still learns something.
const SEGMENTS_MIN: u64 = 4;
/// Most runs of one place in the index that are looked at: with two runs a place in the mean, more is bad luck or one
/// region that is read over and over.
const LOOKS_MAX: usize = 8;
/// Segments that are learned in a row although the memory is full: long enough to be worth following.
const STRETCH: u64 = 8;
/// One such stretch in so many is learned then.
const STRETCH_ONE_IN: u64 = 16;
/// An epoch is so many times as many offers as the memory has segments. Segments met in this epoch or the one before stay, so that of
/// a loop three times as long as the memory a memory's worth is kept.
const EPOCH: u64 = 2;
/// Segments that are looked at for one that may go.
const VICTIMS_MAX: usize = 16;
/// log2 of the blocks of a region, 64 KiB.
const REGION_BITS: u32 = 4;
const START_BITS: u32 = 44;
const BLOCKS_BITS: u32 = 10;
const NOWHERE: u32 = u32::MAX;

/// A segment: its place, and the number of what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    place: u32,
    number: u32,
}

impl Segment {
    /// None.
    pub(super) const NONE: Self = Self { place: NOWHERE, number: 0 };
}

/// A run: its segment, and its place in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: Segment,
    pub(super) at: usize,
}

impl Place {
    /// Of no run.
    pub(super) const NONE: Self = Self { segment: Segment::NONE, at: 0 };
}

/// A run in one word: first block and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run(u64);

impl Run {
    const fn of(extent: Extent) -> Self {
        Self(extent.start.0 | extent.blocks << START_BITS)
    }
    const fn extent(self) -> Extent {
        Extent::new(self.0 & ((1 << START_BITS) - 1), self.0 >> START_BITS)
    }
    const fn region(self) -> u64 {
        self.extent().start.0 >> REGION_BITS
    }
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: u32,
    /// Runs in it.
    len: u32,
    /// What the same process read behind it.
    next: Segment,
    /// The epoch in which a run of it was met last, or written.
    met: u32,
}

/// Whether a read is of a run: they have at least half of the shorter one in common. Reads that begin with the last block of the one
/// before are not of its run.
pub(super) fn is_of(run: Extent, read: Extent) -> bool {
    let common = run.intersect(read).blocks;
    common > 0 && 2 * common >= run.blocks.min(read.blocks)
}

/// Logs of runs, and where each run is.
#[derive(Clone, Debug)]
pub(super) struct Log {
    max: usize,
    run_max: u64,
    segments: Vec<Head>,
    runs: Vec<Run>,
    /// Of each run in the index, the one before it at the same place.
    older: Vec<u32>,
    /// The newest run of each place of the index.
    newest: Vec<u32>,
    hand: usize,
    /// Segments asked for while the memory was full.
    offered: u64,
    len: usize,
    /// Runs that are turned away before the next segment is asked for: as many as it would have held.
    turned_away: usize,
}

impl Log {
    /// An empty one that never takes more bytes than these, but for the few of the least one; for a cache of so many blocks.
    #[must_use]
    pub(super) fn new(bytes: u64, cache_blocks: u64) -> Self {
        let max = (bytes * INDEXED as u64 / INDEXED_BYTES / SEGMENT as u64).clamp(SEGMENTS_MIN, SEGMENTS_MAX);
        // Two of those runs a place, or up to four.
        let places = ((max * (SEGMENT / INDEXED) as u64 + 1).next_power_of_two() / 4).max(1);
        let run_max = (cache_blocks / RUN_ONE_IN).clamp(RUN_MAX_MIN, RUN_MAX);
        let (max, newest) = (max as usize, vec![NOWHERE; places as usize]);
        let (segments, runs, older) = (Vec::new(), Vec::new(), Vec::new());
        Self { max, run_max, segments, runs, older, newest, hand: 0, offered: 0, len: 0, turned_away: 0 }
    }
    /// Whether it may grow as far as another, by runs that are as long.
    pub(super) const fn has_room_of(&self, other: &Self) -> bool {
        self.max == other.max && self.run_max == other.run_max
    }
    /// Runs that are known.
    pub(super) const fn len(&self) -> usize {
        self.len
    }
    /// Bytes that they take, with their index.
    pub(super) const fn bytes(&self) -> u64 {
        let segments = self.segments.capacity() * size_of::<Head>();
        let runs = self.runs.capacity() * size_of::<Run>() + self.older.capacity() * size_of::<u32>();
        (segments + runs + self.newest.len() * size_of::<u32>()) as u64
    }
    fn head(&self, segment: Segment) -> Option<&Head> {
        self.segments.get(segment.place as usize).filter(|head| head.number == segment.number)
    }
    /// The blocks of a run; `None` if it has been thrown out, or was never written.
    pub(super) fn run(&self, place: Place) -> Option<Extent> {
        let head = self.head(place.segment)?;
        let known = place.at < head.len as usize;
        known.then(|| self.runs[place.segment.place as usize * SEGMENT + place.at].extent())
    }
    /// The run behind one, of the same process.
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        let head = self.head(place.segment)?;
        let behind = Place { at: place.at + 1, ..place };
        if behind.at < head.len as usize {
            return Some(behind);
        }
        let first = Place { segment: head.next, at: 0 };
        (behind.at == SEGMENT && self.run(first).is_some()).then_some(first)
    }
    fn bucket(&self, region: u64) -> usize {
        (region.wrapping_mul(SPREAD) >> 32) as usize & (self.newest.len() - 1)
    }
    /// The runs in the index that begin in the region of the first of these blocks and have some of them, newest first.
    pub(super) fn find(&self, extent: Extent) -> impl Iterator<Item = Place> + '_ {
        let mut next = self.newest[self.bucket(extent.start.0 >> REGION_BITS)];
        let chain = core::iter::from_fn(move || {
            let at = next as usize;
            next = *self.older.get(at)?;
            Some(at * INDEXED)
        });
        chain
            .take(LOOKS_MAX)
            .filter(move |&at| is_of(self.runs[at].extent(), extent))
            .map(|at| self.place(at))
    }
    fn place(&self, at: usize) -> Place {
        let segment = at / SEGMENT;
        let number = self.segments[segment].number;
        #[expect(clippy::cast_possible_truncation, reason = "at most SEGMENTS_MAX")]
        Place { segment: Segment { place: segment as u32, number }, at: at % SEGMENT }
    }
    const fn epoch(&self) -> u32 {
        (self.offered / (EPOCH * self.max as u64)) as u32
    }
    /// One more run of a process, behind the last of `open`, which is the segment that it fills: the segment that it fills now.
    /// `None` where it is not learned, or lies beyond what a word can say.
    pub(super) fn add(&mut self, open: Segment, extent: Extent) -> Option<Segment> {
        if extent.is_empty() || extent.start.0 >> START_BITS != 0 {
            return None;
        }
        let extent = Extent::new(extent.start.0, extent.blocks.min(self.run_max));
        let segment = match self.head(open) {
            Some(head) if (head.len as usize) < SEGMENT => open,
            _ => self.begin(open)?,
        };
        let epoch = self.epoch();
        let head = &mut self.segments[segment.place as usize];
        let at = segment.place as usize * SEGMENT + head.len as usize;
        (head.len, head.met) = (head.len + 1, epoch);
        self.len += 1;
        let run = Run::of(extent);
        self.runs[at] = run;
        if at.is_multiple_of(INDEXED) {
            let bucket = self.bucket(run.region());
            self.older[at / INDEXED] = self.newest[bucket];
            #[expect(clippy::cast_possible_truncation, reason = "at most 2^27 runs")]
            let newest = (at / INDEXED) as u32;
            self.newest[bucket] = newest;
        }
        Some(segment)
    }
    /// A new segment behind this one.
    fn begin(&mut self, behind: Segment) -> Option<Segment> {
        if self.turned_away > 0 {
            self.turned_away -= 1;
            return None;
        }
        let Some((place, number)) = self.make_room() else {
            self.turned_away = SEGMENT - 1;
            return None;
        };
        let fresh = Segment { place, number };
        self.segments[place as usize] = Head { number, len: 0, next: Segment::NONE, met: self.epoch() };
        if self.head(behind).is_some() {
            self.segments[behind.place as usize].next = fresh;
        }
        Some(fresh)
    }
    /// A free place for a segment, and its number; `None` where nothing may go.
    fn make_room(&mut self) -> Option<(u32, u32)> {
        #[expect(clippy::cast_possible_truncation, reason = "at most SEGMENTS_MAX")]
        if self.segments.len() < self.max {
            if self.segments.len() == self.segments.capacity() {
                let more = self.segments.len().max(SEGMENTS_MIN as usize).min(self.max - self.segments.len());
                self.segments.reserve_exact(more);
                self.runs.reserve_exact(more * SEGMENT);
                self.older.reserve_exact(more * SEGMENT / INDEXED);
            }
            self.segments.push(Head { number: 0, len: 0, next: Segment::NONE, met: 0 });
            self.runs.resize(self.segments.len() * SEGMENT, Run(0));
            self.older.resize(self.segments.len() * SEGMENT / INDEXED, NOWHERE);
            return Some((self.segments.len() as u32 - 1, 0));
        }
        self.offered += 1;
        let stretch = (self.offered / STRETCH) % STRETCH_ONE_IN == STRETCH_ONE_IN - 1;
        for _ in 0..VICTIMS_MAX.min(self.max) {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.max;
            if stretch || self.epoch() - self.segments[place].met > 1 {
                self.throw_out(place);
                #[expect(clippy::cast_possible_truncation, reason = "at most SEGMENTS_MAX")]
                return Some((place as u32, self.segments[place].number.wrapping_add(1)));
            }
        }
        None
    }
    /// Takes the runs of a segment out of the index.
    fn throw_out(&mut self, place: usize) {
        let len = core::mem::take(&mut self.segments[place].len) as usize;
        self.len -= len;
        for run in (place * SEGMENT..place * SEGMENT + len).step_by(INDEXED) {
            let (at, bucket) = (run / INDEXED, self.bucket(self.runs[run].region()));
            let older = self.older[at];
            let mut link = self.newest[bucket] as usize;
            if link == at {
                self.newest[bucket] = older;
                continue;
            }
            while self.older[link] as usize != at {
                link = self.older[link] as usize;
            }
            self.older[link] = older;
        }
    }
    /// The last run of a segment goes on until `end`; `false` if it is gone, ends elsewhere or would be too long.
    pub(super) fn grow(&mut self, open: Segment, extent: Extent) -> bool {
        let Some(last) = self.head(open).and_then(|head| head.len.checked_sub(1)) else { return false };
        let run = &mut self.runs[open.place as usize * SEGMENT + last as usize];
        let known = run.extent();
        let blocks = extent.end() - known.start.0.min(extent.end());
        let fits = extent.start.0 == known.end() && blocks <= self.run_max;
        if fits {
            *run = Run::of(Extent::new(known.start.0, blocks));
        }
        fits
    }
    /// A run of a segment was met again.
    pub(super) fn keep(&mut self, segment: Segment) {
        if self.head(segment).is_some() {
            self.segments[segment.place as usize].met = self.epoch();
        }
    }
    /// All runs: log after log, each from the segment that nothing leads to.
    pub(super) fn ways(&self) -> Vec<Extent> {
        let mut led_to = vec![false; self.segments.len()];
        for head in &self.segments {
            if self.head(head.next).is_some() {
                led_to[head.next.place as usize] = true;
            }
        }
        let mut ways = Vec::with_capacity(self.len);
        for first in (0..self.segments.len()).filter(|&place| !led_to[place]) {
            let mut at = Some(self.place(first * SEGMENT));
            while let Some(place) = at {
                ways.extend(self.run(place));
                at = self.next(place);
            }
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    fn at(start: u64) -> Extent {
        Extent::new(start, 2)
    }
    /// The smallest one.
    fn small() -> Log {
        Log::new(1, 1 << 20)
    }
    fn write(log: &mut Log, open: &mut Segment, runs: impl IntoIterator<Item = Extent>) -> usize {
        let mut written = 0;
        for run in runs {
            let now = log.add(*open, run);
            written += usize::from(now.is_some());
            *open = now.unwrap_or(Segment::NONE);
        }
        written
    }

    #[test]
    fn runs_are_found_by_their_blocks_and_lead_to_what_came_behind() {
        let (mut log, mut open) = (small(), Segment::NONE);
        write(&mut log, &mut open, [100, 7_000, 3].map(at));
        let found = log.find(Extent::new(101, 1)).next().unwrap();
        assert_eq!(log.run(found), Some(at(100)));
        let behind = log.next(found).unwrap();
        assert_eq!(log.run(behind), Some(at(7_000)));
        assert_eq!(log.next(behind).and_then(|last| log.next(last)), None);
        assert_eq!(log.find(Extent::new(102, 1)).next(), None, "a neighbour in its region is not it");
        assert_eq!(log.find(at(7_000)).next(), None, "one run in two is in the index");
    }

    #[test]
    fn a_log_goes_on_in_the_next_segment_of_its_process() {
        let (mut log, mut one, mut other) = (Log::new(8_000, 1 << 20), Segment::NONE, Segment::NONE);
        for n in 0..3 * SEGMENT as u64 {
            write(&mut log, &mut one, [at(1_000 * n)]);
            write(&mut log, &mut other, [at(1_000 * n + 500)]);
        }
        let mut place = log.find(at(0)).next();
        let mut starts = Vec::new();
        while let Some(here) = place {
            starts.extend(log.run(here).map(|run| run.start.0));
            place = log.next(here);
        }
        assert_eq!(starts, (0..3 * SEGMENT as u64).map(|n| 1_000 * n).collect::<Vec<_>>());
    }

    #[test]
    fn the_newest_of_equal_runs_is_found_first() {
        let (mut log, mut open) = (small(), Segment::NONE);
        write(&mut log, &mut open, [at(100), at(5), at(100)]);
        let places: Vec<usize> = log.find(at(100)).map(|place| place.at).collect();
        assert_eq!(places, [2, 0]);
    }

    #[test]
    fn the_last_run_grows_as_long_as_a_word_can_say_how_long_it_is() {
        let (mut log, mut open) = (small(), Segment::NONE);
        assert!(!log.grow(open, at(0)), "there is none");
        write(&mut log, &mut open, [at(100)]);
        assert!(log.grow(open, Extent::new(102, 8)) && !log.grow(open, Extent::new(111, 1)));
        assert!(!log.grow(open, Extent::new(110, RUN_MAX)));
        assert_eq!(log.ways(), [Extent::new(100, 10)]);
        assert_eq!(log.add(open, Extent::new(1 << START_BITS, 1)), None, "too far out");
        assert_eq!(Log::new(1, 640).run_max, 10, "a few runs ahead are not all of a small cache");
    }

    #[test]
    fn the_bytes_are_held_at_every_size() {
        for bytes in [1, 1 << 10, 3_000, 1 << 14, 100_000, 1 << 20] {
            let (mut log, mut open) = (Log::new(bytes, 1 << 20), Segment::NONE);
            let max = bytes.max(SEGMENTS_MIN * SEGMENT as u64 * INDEXED_BYTES / INDEXED as u64);
            write(&mut log, &mut open, (0..(bytes / 8).max(100)).map(|n| Extent::new(n * 97 % 50_000, 1)));
            assert!(log.bytes() <= max, "{} of {max}", log.bytes());
            let least = max.saturating_sub(600) * INDEXED as u64 / (INDEXED_BYTES + 4);
            assert!(log.len() as u64 >= least.min(100), "{} runs in {max}", log.len());
        }
    }

    #[test]
    fn of_a_loop_longer_than_the_memory_a_part_stays_and_what_nobody_comes_back_to_goes() {
        let runs = 32 * SEGMENT as u64;
        let mut log = Log::new(runs * INDEXED_BYTES / INDEXED as u64, 1 << 20);
        let mut open = Segment::NONE;
        // A round in which every run of the index that is met is kept, and what is not known is written.
        let mut round = |log: &mut Log, from: u64, length: u64| {
            let mut met = 0;
            for n in 0..length {
                let found = log.find(at(from + 40 * n)).next();
                if let Some(place) = found {
                    log.keep(place.segment);
                    met += 1;
                } else {
                    write(log, &mut open, [at(from + 40 * n)]);
                }
            }
            met
        };
        round(&mut log, 0, 3 * runs);
        for _ in 0..4 {
            let met = round(&mut log, 0, 3 * runs);
            assert!(met >= runs / 4, "{met} of {runs} remembered ones were met");
        }
        for _ in 0..40 {
            round(&mut log, 1_000_000, runs / 4);
        }
        let known = (0..runs / 4).filter(|n| log.find(at(1_000_000 + 40 * n)).next().is_some()).count();
        assert!(known as u64 >= runs / 16, "the old loop has made room for {known}");
    }

    #[test]
    fn what_is_turned_away_counts_by_segments() {
        let (mut log, mut open) = (small(), Segment::NONE);
        let known = SEGMENTS_MIN * SEGMENT as u64;
        assert_eq!(write(&mut log, &mut open, (0..known).map(|n| at(100 * n))) as u64, known);
        let more = (STRETCH * (STRETCH_ONE_IN - 1) - 1) * SEGMENT as u64;
        // Its segments stand in an epoch that is over soon, unless they are met.
        for n in 0..more {
            for place in 0..SEGMENTS_MIN as usize {
                let segment = log.place(place * SEGMENT).segment;
                log.keep(segment);
            }
            open = log.add(open, at(1_000_000 + 100 * n)).unwrap_or(Segment::NONE);
            assert_eq!(open, Segment::NONE, "run {n} of {more} is turned away");
        }
    }

    #[test]
    fn logs_come_out_in_their_order_and_one_that_was_thrown_out_leads_nowhere() {
        let (mut log, mut open) = (small(), Segment::NONE);
        let runs = (0..SEGMENTS_MIN * SEGMENT as u64).map(|n| at(100 * n));
        write(&mut log, &mut open, runs.clone());
        assert_eq!(log.ways(), runs.collect::<Vec<_>>());
        let first = log.find(at(0)).next().unwrap();
        log.throw_out(0);
        log.segments[0].number += 1;
        assert_eq!((log.run(first), log.next(first), log.find(at(0)).next()), (None, None, None));
    }

    /// Random use beside a list that forgets nothing: whatever is found was there, and chains stay whole.
    #[test]
    fn whatever_is_found_was_added_and_every_run_of_the_index_is_in_one_chain() {
        let mut log = Log::new(6_000, 1 << 20);
        let mut opens = BTreeMap::new();
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let run = at((seed >> 33) % 4_000);
            let open = opens.entry(seed >> 62).or_insert(Segment::NONE);
            let found = log.find(run).next();
            if let Some(found) = found {
                assert!(is_of(log.run(found).unwrap(), run));
                if seed >> 60 & 1 == 0 {
                    log.keep(found.segment);
                }
            }
            *open = log.add(*open, run).unwrap_or(Segment::NONE);
        }
        let mut reached = 0;
        for bucket in 0..log.newest.len() {
            let mut link = log.newest[bucket];
            while let Some(&older) = log.older.get(link as usize) {
                let region = log.runs[link as usize * INDEXED].region();
                assert_eq!(log.bucket(region), bucket);
                (reached, link) = (reached + 1, older);
            }
        }
        let indexed: usize = log.segments.iter().map(|head| (head.len as usize).div_ceil(INDEXED)).sum();
        assert_eq!(reached, indexed);
    }
}
