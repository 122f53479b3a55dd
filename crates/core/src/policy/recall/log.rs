//! What was read, in the order in which it was read: logs of runs with one index, in a fixed number of bytes.
//!
//! ```text
//!   segments  | 7..9 | 40..41 | 12..20 | 90..91 |──▶| 31..32 | 7..9 | … of one process; another process has others
//!   index     region of 64 KiB ─▶ its newest run ─▶ the one before
//! ```
//!
//! A log is a chain of segments of up to [`RUNS_MAX`] runs, of which one process fills one after the other ([`frame`](super::frame) says how they are
//! written). A segment whose runs were not met for long makes room for a new one. When the memory is full of segments that are met, what is new
//! is turned away, but for a stretch now and then: of a loop that is longer than the memory a part then stays and is of use each time round, where
//! a plain ring would have forgotten each run just before it comes again. A segment has a number that none in its place has had for long, so
//! that what points into one that has been thrown out points nowhere. It does nothing else: when to believe a log is decided above.
//! Source: temporal streams (Wenisch et al., ISCA 2005) for the log, Mithril (Yang et al., SoCC 2017) for the budget.

use super::frame::{BLOCKS_BITS, Frame, RUNS_MAX, START_BITS};
use super::index::Index;
use crate::units::Extent;
use alloc::vec;
use alloc::vec::Vec;

/// One run in so many is in the index: whoever goes a known way comes to one of them soon.
pub(super) const INDEXED: usize = 2;
/// Entries of the index for each segment.
const ENTRIES: u64 = (RUNS_MAX / INDEXED) as u64;
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
/// Segments that are learned in a row although the memory is full: long enough to be worth following.
const STRETCH: u64 = 8;
/// One such stretch in so many is learned then.
const STRETCH_ONE_IN: u64 = 16;
/// An epoch is so many times as many offers as the memory has segments. Segments met in this epoch or the one before stay, so that of
/// a loop three times as long as the memory a memory's worth is kept.
const EPOCH: u64 = 2;
/// Segments that are looked at for one that may go.
const VICTIMS_MAX: usize = 16;
const NOWHERE: u32 = u32::MAX;

/// A segment: its place, and the number of what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    place: u32,
    number: u16,
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

/// What is known of a segment.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The place of what the same process read behind it, and the number of that.
    next: u32,
    next_number: u16,
    number: u16,
    /// The epoch in which a run of it was met last, or written; epochs are counted round.
    met: u16,
}

impl Head {
    const fn next(&self) -> Segment {
        Segment { place: self.next, number: self.next_number }
    }
}

/// Bytes of a segment, beside its entries in the index.
const SEGMENT_BYTES: u64 = (size_of::<Head>() + size_of::<Frame>()) as u64;

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
    heads: Vec<Head>,
    frames: Vec<Frame>,
    index: Index,
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
        let most = bytes / SEGMENT_BYTES;
        let entry_bits = u64::from(Index::width(most * ENTRIES));
        let max = (8 * bytes / (8 * SEGMENT_BYTES + ENTRIES * entry_bits)).clamp(SEGMENTS_MIN, SEGMENTS_MAX);
        let run_max = (cache_blocks / RUN_ONE_IN).clamp(RUN_MAX_MIN, RUN_MAX);
        let index = Index::new(max * ENTRIES, max * ENTRIES);
        let (heads, frames) = (Vec::new(), Vec::new());
        Self { max: max as usize, run_max, heads, frames, index, hand: 0, offered: 0, len: 0, turned_away: 0 }
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
        let heads = self.heads.capacity() * size_of::<Head>();
        let frames = self.frames.capacity() * size_of::<Frame>();
        (heads + frames) as u64 + self.index.bytes()
    }
    /// The most that they may ever take.
    pub(super) const fn bytes_max(&self) -> u64 {
        self.max as u64 * SEGMENT_BYTES + self.index.bytes()
    }
    /// The runs of a segment, if it is still there.
    fn frame(&self, segment: Segment) -> Option<&Frame> {
        self.heads.get(segment.place as usize).filter(|head| head.number == segment.number)?;
        self.frames.get(segment.place as usize)
    }
    /// The blocks of a run; `None` if it has been thrown out, or was never written.
    pub(super) fn run(&self, place: Place) -> Option<Extent> {
        self.frame(place.segment)?.get(place.at)
    }
    /// The run behind one, of the same process.
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        let behind = Place { at: place.at + 1, ..place };
        if behind.at < self.frame(place.segment)?.len() {
            return Some(behind);
        }
        let first = Place { segment: self.heads[place.segment.place as usize].next(), at: 0 };
        self.run(first).is_some().then_some(first)
    }
    /// The runs in the index that begin in the region of the first of these blocks and have some of them, newest first.
    pub(super) fn find(&self, extent: Extent) -> impl Iterator<Item = Place> + '_ {
        let places = self.index.find(extent).filter_map(|number| {
            let at = (number % ENTRIES) as usize * INDEXED;
            Some(Place { segment: self.segment((number / ENTRIES) as usize)?, at })
        });
        places.filter(move |&place| self.run(place).is_some_and(|run| is_of(run, extent)))
    }
    /// What stands in a place.
    fn segment(&self, place: usize) -> Option<Segment> {
        let number = self.heads.get(place)?.number;
        #[expect(clippy::cast_possible_truncation, reason = "at most SEGMENTS_MAX")]
        Some(Segment { place: place as u32, number })
    }
    const fn epoch(&self) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "epochs are counted round")]
        let epoch = (self.offered / (EPOCH * self.max as u64)) as u16;
        epoch
    }
    /// One more run of a process, behind the last of `open`, which is the segment that it fills: the segment that it fills now.
    /// `None` where it is not learned, or lies beyond what can be written.
    pub(super) fn add(&mut self, open: Segment, extent: Extent) -> Option<Segment> {
        if extent.is_empty() || extent.start.0 >> START_BITS != 0 {
            return None;
        }
        let run = Extent::new(extent.start.0, extent.blocks.min(self.run_max));
        let mut segment = open;
        let fits = self.frame(open).is_some() && self.frames[open.place as usize].push(run);
        if !fits {
            segment = self.begin(open)?;
            self.frames[segment.place as usize].push(run);
        }
        let place = segment.place as usize;
        self.heads[place].met = self.epoch();
        self.len += 1;
        let at = self.frames[place].len() - 1;
        if at.is_multiple_of(INDEXED) {
            self.index.add(run, entry(place, at));
        }
        Some(segment)
    }
    /// A new segment behind this one.
    fn begin(&mut self, behind: Segment) -> Option<Segment> {
        if self.turned_away > 0 {
            self.turned_away -= 1;
            return None;
        }
        let Some(fresh) = self.make_room() else {
            self.turned_away = (self.len / self.heads.len().max(1)).saturating_sub(1);
            return None;
        };
        let (next, next_number) = (NOWHERE, 0);
        let met = self.epoch();
        self.heads[fresh.place as usize] = Head { next, next_number, number: fresh.number, met };
        if self.frame(behind).is_some() {
            let head = &mut self.heads[behind.place as usize];
            (head.next, head.next_number) = (fresh.place, fresh.number);
        }
        Some(fresh)
    }
    /// A free place for a segment, and its number; `None` where nothing may go.
    fn make_room(&mut self) -> Option<Segment> {
        if self.heads.len() < self.max {
            if self.heads.len() == self.heads.capacity() {
                let more = self.heads.len().max(SEGMENTS_MIN as usize).min(self.max - self.heads.len());
                self.heads.reserve_exact(more);
                self.frames.reserve_exact(more);
            }
            self.heads.push(Head { next: NOWHERE, next_number: 0, number: 0, met: 0 });
            self.frames.push(Frame::EMPTY);
            return self.segment(self.heads.len() - 1);
        }
        self.offered += 1;
        let stretch = (self.offered / STRETCH) % STRETCH_ONE_IN == STRETCH_ONE_IN - 1;
        for _ in 0..VICTIMS_MAX.min(self.max) {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.max;
            if stretch || self.epoch().wrapping_sub(self.heads[place].met) > 1 {
                self.throw_out(place);
                let was = self.segment(place)?;
                return Some(Segment { number: was.number.wrapping_add(1), ..was });
            }
        }
        None
    }
    /// Takes the runs of a segment out of the index.
    fn throw_out(&mut self, place: usize) {
        let frame = core::mem::replace(&mut self.frames[place], Frame::EMPTY);
        self.len -= frame.len();
        for at in (0..frame.len()).step_by(INDEXED) {
            if let Some(run) = frame.get(at) {
                self.index.remove(run, entry(place, at));
            }
        }
    }
    /// The last run of a segment goes on until `end`; `false` if it is gone, ends elsewhere or would be too long.
    pub(super) fn grow(&mut self, open: Segment, extent: Extent) -> bool {
        let Some(frame) = self.frame(open) else { return false };
        let Some(known) = frame.len().checked_sub(1).and_then(|last| frame.get(last)) else { return false };
        let blocks = extent.end() - known.start.0.min(extent.end());
        let fits = extent.start.0 == known.end() && blocks <= self.run_max;
        fits && self.frames[open.place as usize].replace_last(Extent::new(known.start.0, blocks))
    }
    /// A run of a segment was met again.
    pub(super) fn keep(&mut self, segment: Segment) {
        if self.frame(segment).is_some() {
            self.heads[segment.place as usize].met = self.epoch();
        }
    }
    /// All runs: log after log, each from the segment that nothing leads to.
    pub(super) fn ways(&self) -> Vec<Extent> {
        let mut led_to = vec![false; self.heads.len()];
        for next in self.heads.iter().map(Head::next).filter(|&next| self.frame(next).is_some()) {
            led_to[next.place as usize] = true;
        }
        let mut ways = Vec::with_capacity(self.len);
        for first in (0..self.heads.len()).filter(|&place| !led_to[place]) {
            let mut at = self.segment(first).map(|segment| Place { segment, at: 0 });
            while let Some(place) = at {
                ways.extend(self.run(place));
                at = self.next(place);
            }
        }
        ways
    }
}

/// A run of the index, as a number.
const fn entry(place: usize, at: usize) -> u64 {
    place as u64 * ENTRIES + (at / INDEXED) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};

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
        for n in 0..3 * RUNS_MAX as u64 {
            write(&mut log, &mut one, [at(1_000 * n)]);
            write(&mut log, &mut other, [at(1_000 * n + 500)]);
        }
        let mut place = log.find(at(0)).next();
        let mut starts = Vec::new();
        while let Some(here) = place {
            starts.extend(log.run(here).map(|run| run.start.0));
            place = log.next(here);
        }
        assert_eq!(starts, (0..3 * RUNS_MAX as u64).map(|n| 1_000 * n).collect::<Vec<_>>());
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
            let max = bytes.max(SEGMENTS_MIN * (SEGMENT_BYTES + ENTRIES));
            write(&mut log, &mut open, (0..(bytes / 8).max(100)).map(|n| Extent::new(n * 97 % 50_000, 1)));
            let most = log.bytes_max();
            assert!(log.bytes() <= most && most <= max, "{} of {most}, of {max}", log.bytes());
            let least = max.saturating_sub(600) / 5;
            assert!(log.len() as u64 >= least.min(bytes / 8), "{} runs in {max}: five bytes each", log.len());
        }
    }

    #[test]
    fn of_a_loop_longer_than_the_memory_a_part_stays_and_what_nobody_comes_back_to_goes() {
        let runs = 32 * RUNS_MAX as u64;
        let mut log = Log::new(runs / RUNS_MAX as u64 * (SEGMENT_BYTES + 2 * ENTRIES), 1 << 20);
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
        let known = SEGMENTS_MIN * RUNS_MAX as u64;
        assert_eq!(write(&mut log, &mut open, (0..known).map(|n| at(100 * n))) as u64, known);
        let more = (STRETCH * (STRETCH_ONE_IN - 1) - 1) * RUNS_MAX as u64;
        // Its segments stand in an epoch that is over soon, unless they are met.
        for n in 0..more {
            for place in 0..SEGMENTS_MIN as usize {
                let segment = log.segment(place).unwrap();
                log.keep(segment);
            }
            open = log.add(open, at(1_000_000 + 100 * n)).unwrap_or(Segment::NONE);
            assert_eq!(open, Segment::NONE, "run {n} of {more} is turned away");
        }
    }

    #[test]
    fn logs_come_out_in_their_order_and_one_that_was_thrown_out_leads_nowhere() {
        let (mut log, mut open) = (small(), Segment::NONE);
        let runs = (0..SEGMENTS_MIN * RUNS_MAX as u64).map(|n| at(100 * n));
        write(&mut log, &mut open, runs.clone());
        assert_eq!(log.ways(), runs.collect::<Vec<_>>());
        let of_first = |log: &Log| (0..RUNS_MAX as u64).find_map(|n| log.find(at(100 * n)).next());
        let first = of_first(&log).unwrap();
        assert_eq!(first.segment.place, 0);
        log.throw_out(0);
        log.heads[0].number += 1;
        assert_eq!((log.run(first), log.next(first), of_first(&log)), (None, None, None));
    }

    /// Random use beside a list that forgets nothing.
    #[test]
    fn whatever_is_found_was_added_and_stands_where_the_index_says() {
        let mut log = Log::new(6_000, 1 << 20);
        let mut opens = BTreeMap::new();
        let mut added = BTreeSet::new();
        let (mut seed, mut met) = (7_u64, 0);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let run = at((seed >> 33) % 4_000);
            let open = opens.entry(seed >> 62).or_insert(Segment::NONE);
            let found = log.find(run).next();
            if let Some(found) = found {
                let known = log.run(found).unwrap();
                assert!(is_of(known, run) && added.contains(&known.start.0));
                met += 1;
                if seed >> 60 & 1 == 0 {
                    log.keep(found.segment);
                }
            }
            *open = log.add(*open, run).unwrap_or(Segment::NONE);
            added.insert(run.start.0);
        }
        assert!(met > 1_000, "{met}");
        let frames: usize = log.frames.iter().map(Frame::len).sum();
        assert_eq!(log.len(), frames);
    }

    #[test]
    fn a_run_that_does_not_fit_begins_a_segment_and_the_log_goes_on_in_it() {
        let (mut log, mut open) = (Log::new(2_000, 1 << 20), Segment::NONE);
        let runs: Vec<Extent> = (0..60).map(|n| Extent::new(((n % 2) << 40) | n, 1)).collect();
        assert_eq!(write(&mut log, &mut open, runs.clone()), 60, "41 bits each, twelve of them a segment");
        assert_eq!(log.heads.len(), 5);
        assert_eq!(log.ways(), runs);
        assert!(
            !log.grow(open, Extent::new((1 << 40) | 60, 1_000)),
            "nor does a run grow that has no room to"
        );
    }
}
