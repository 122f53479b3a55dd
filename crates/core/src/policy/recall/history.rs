//! What was read, and what was read behind it: a log of runs with an index, in a fixed number of bytes.
//!
//! ```text
//!   runs     | 7..9 | 40..41 | 12..20 | 40..41 | …      the same blocks may stand there often, each time with
//!                 └──────▶└───────▶└───────▶              what came behind them that time
//!   index    region of 64 KiB ─▶ its newest run ─▶ the one before
//! ```
//!
//! A run that was not met for long makes room for a new one. When the memory is full of runs that are met, what is new is
//! turned away, but for a stretch now and then: of a loop that is longer than the memory a part then stays and is of use each
//! time round, where a plain log would have forgotten each run just before it comes again. A link names the place of a run
//! and its generation, so that one to a run that has been thrown out leads nowhere. A successor that has come twice is
//! replaced only when it was wrong twice. It does nothing else: when to believe a succession is decided above.
//! Source: temporal streams (Wenisch et al., ISCA 2005) for the log, Mithril (Yang et al., SoCC 2017) for the budget.

use crate::hash::SPREAD;
use crate::units::Extent;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a run: its entry, and its part of the index.
pub(super) const RUN_BYTES: u64 = 18;
/// Longest run, in blocks: just below 4 MiB.
pub(super) const RUN_MAX: u64 = (1 << BLOCKS_BITS) - 1;
/// Most runs: places are numbered in 24 bits.
const RUNS_MAX: u64 = (1 << PLACE_BITS) - 1;
/// Fewest runs: a cache of 64 KiB still learns something.
const RUNS_MIN: u64 = 16;
/// Most runs of one place in the index that are looked at: with two runs a place in the mean, more is bad luck or one
/// region that is read over and over.
const LOOKS_MAX: usize = 8;
/// Runs of a stretch that is learned although the memory is full: long enough to be worth following.
const STRETCH: u64 = 256;
/// One stretch in so many is learned then.
const STRETCH_ONE_IN: u64 = 16;
/// An epoch is so many times as many offers as the memory has runs. Runs met in this epoch or the one before stay, so that of
/// a loop three times as long as the memory a memory's worth is kept.
const EPOCH: u64 = 2;
/// Places that are looked at for a run that may go.
const VICTIMS_MAX: usize = 16;
/// log2 of the blocks of a region, 64 KiB.
const REGION_BITS: u32 = 4;
const PLACE_BITS: u32 = 24;
const START_BITS: u32 = 44;
const BLOCKS_BITS: u32 = 10;
const GENERATION_BITS: u32 = 7;
const EPOCH_BITS: u32 = 2;
const EPOCH_SHIFT: u32 = START_BITS + BLOCKS_BITS + GENERATION_BITS;

/// Which run: its place, and the generation of what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    /// To no run.
    pub(super) const NONE: Self = Self(u32::MAX);
    fn new(place: u32, generation: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a generation has 7 bits")]
        Self(place | (generation as u32) << PLACE_BITS)
    }
    const fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
    const fn generation(self) -> u64 {
        (self.0 >> PLACE_BITS) as u64
    }
}

/// A run in one word: first block, blocks, generation, the epoch in which it was met last, and whether its link is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run(u64);

impl Run {
    const TRUSTED: u64 = 1 << (EPOCH_SHIFT + EPOCH_BITS);
    const EPOCHS: u64 = (1 << EPOCH_BITS) - 1;
    const MARKS: u64 = Self::TRUSTED | Self::EPOCHS << EPOCH_SHIFT;
    fn new(extent: Extent, generation: u64) -> Self {
        let generation = generation & ((1 << GENERATION_BITS) - 1);
        Self(extent.start.0 | extent.blocks << START_BITS | generation << (START_BITS + BLOCKS_BITS))
    }
    const fn extent(self) -> Extent {
        let blocks = (self.0 >> START_BITS) & ((1 << BLOCKS_BITS) - 1);
        Extent::new(self.0 & ((1 << START_BITS) - 1), blocks)
    }
    const fn generation(self) -> u64 {
        (self.0 >> (START_BITS + BLOCKS_BITS)) & ((1 << GENERATION_BITS) - 1)
    }
    /// The same, met in this epoch.
    const fn met(self, epoch: u64) -> Self {
        Self(self.0 & !(Self::EPOCHS << EPOCH_SHIFT) | (epoch & Self::EPOCHS) << EPOCH_SHIFT)
    }
    /// Whether it was met neither in this epoch nor in the one before.
    const fn is_stale(self, epoch: u64) -> bool {
        epoch.wrapping_sub(self.0 >> EPOCH_SHIFT) & Self::EPOCHS > 1
    }
    const fn region(self) -> u64 {
        self.extent().start.0 >> REGION_BITS
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    run: Run,
    /// What was read behind it.
    next: Link,
    /// The run before it at the same place of the index.
    older: u32,
}

/// Runs and their successors.
#[derive(Clone, Debug)]
pub(super) struct History {
    max: usize,
    entries: Vec<Entry>,
    /// Place of the newest run of each bucket.
    heads: Vec<u32>,
    hand: usize,
    /// Runs offered while the memory was full.
    offered: u64,
}

impl History {
    /// An empty one that never takes more bytes than these, but for the few of the least one.
    #[must_use]
    pub(super) fn new(bytes: u64) -> Self {
        let max = (bytes / RUN_BYTES).clamp(RUNS_MIN, RUNS_MAX);
        // Two runs a bucket or more: 2 bytes of each run.
        let buckets = (max / 2).next_power_of_two() / if (max / 2).is_power_of_two() { 1 } else { 2 };
        #[expect(clippy::cast_possible_truncation, reason = "below 2^24")]
        let (max, heads) = (max as usize, vec![u32::MAX; buckets as usize]);
        Self { max, entries: Vec::new(), heads, hand: 0, offered: 0 }
    }
    /// Whether it may grow as far as another.
    pub(super) const fn has_room_of(&self, other: &Self) -> bool {
        self.max == other.max
    }
    /// Runs that are known.
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }
    /// Bytes that they take, with their index.
    pub(super) const fn bytes(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>() + self.heads.len() * size_of::<u32>()) as u64
    }
    fn live(&self, link: Link) -> Option<&Entry> {
        self.entries.get(link.place()).filter(|entry| entry.run.generation() == link.generation())
    }
    /// The blocks of a run; `None` if it has been thrown out.
    pub(super) fn run(&self, link: Link) -> Option<Extent> {
        self.live(link).map(|entry| entry.run.extent())
    }
    /// What was read behind a run.
    pub(super) fn next(&self, link: Link) -> Option<Link> {
        let next = self.live(link)?.next;
        self.live(next).map(|_| next)
    }
    fn bucket(&self, region: u64) -> usize {
        (region.wrapping_mul(SPREAD) >> 32) as usize & (self.heads.len() - 1)
    }
    /// The newest run that begins in the region of the first of these blocks and has some of them.
    pub(super) fn find(&self, extent: Extent) -> Option<Link> {
        let mut place = self.heads[self.bucket(extent.start.0 >> REGION_BITS)];
        for _ in 0..LOOKS_MAX {
            let entry = self.entries.get(place as usize)?;
            if !entry.run.extent().intersect(extent).is_empty() {
                return Some(Link::new(place, entry.run.generation()));
            }
            place = entry.older;
        }
        None
    }
    const fn epoch(&self) -> u64 {
        self.offered / (EPOCH * self.max as u64)
    }
    /// One more run; `None` where it is not learned, or lies beyond what a word can say.
    pub(super) fn add(&mut self, extent: Extent) -> Option<Link> {
        if extent.is_empty() || extent.start.0 >> START_BITS != 0 {
            return None;
        }
        let extent = Extent::new(extent.start.0, extent.blocks.min(RUN_MAX));
        let (place, generation) = self.make_room()?;
        let run = Run::new(extent, generation).met(self.epoch());
        let bucket = self.bucket(run.region());
        self.entries[place] = Entry { run, next: Link::NONE, older: self.heads[bucket] };
        #[expect(clippy::cast_possible_truncation, reason = "below 2^24")]
        let place = place as u32;
        self.heads[bucket] = place;
        Some(Link::new(place, run.generation()))
    }
    /// A free place, and the generation of what will stand there; `None` where nothing may go.
    fn make_room(&mut self) -> Option<(usize, u64)> {
        if self.entries.len() < self.max {
            if self.entries.len() == self.entries.capacity() {
                let more = self.entries.len().max(RUNS_MIN as usize).min(self.max - self.entries.len());
                self.entries.reserve_exact(more);
            }
            self.entries.push(Entry { run: Run(0), next: Link::NONE, older: u32::MAX });
            return Some((self.entries.len() - 1, 0));
        }
        self.offered += 1;
        let stretch = (self.offered / STRETCH) % STRETCH_ONE_IN == STRETCH_ONE_IN - 1;
        for _ in 0..VICTIMS_MAX {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.max;
            let run = self.entries[place].run;
            if stretch || run.is_stale(self.epoch()) {
                self.unlink(place);
                return Some((place, run.generation() + 1));
            }
        }
        None
    }
    /// Takes a run out of its bucket.
    fn unlink(&mut self, place: usize) {
        let Entry { run, older, .. } = self.entries[place];
        let bucket = self.bucket(run.region());
        let mut at = self.heads[bucket];
        if at as usize == place {
            self.heads[bucket] = older;
            return;
        }
        while let Some(entry) = self.entries.get_mut(at as usize) {
            if entry.older as usize == place {
                entry.older = older;
                return;
            }
            at = entry.older;
        }
    }
    /// A run goes on behind its end; `false` if it is gone or would be too long.
    pub(super) fn grow(&mut self, link: Link, end: u64) -> bool {
        let Some(run) = self.run(link) else { return false };
        if end <= run.end() {
            return true;
        }
        let grown = Extent::new(run.start.0, end - run.start.0);
        let entry = &mut self.entries[link.place()];
        let fits = grown.blocks <= RUN_MAX;
        if fits {
            let marks = entry.run.0 & Run::MARKS;
            entry.run = Run(Run::new(grown, entry.run.generation()).0 | marks);
        }
        fits
    }
    /// All runs: way after way, each from the run that nothing leads to; a loop begins anywhere.
    pub(super) fn ways(&self) -> Vec<Extent> {
        const TAKEN: u8 = 1;
        const LED_TO: u8 = 2;
        let mut marks = vec![0_u8; self.entries.len()];
        for entry in &self.entries {
            if self.live(entry.next).is_some() {
                marks[entry.next.place()] |= LED_TO;
            }
        }
        let mut ways = Vec::with_capacity(self.entries.len());
        for begins in [true, false] {
            for place in 0..self.entries.len() {
                let mut at = place;
                if begins && marks[at] & LED_TO != 0 {
                    continue;
                }
                while marks[at] & TAKEN == 0 {
                    marks[at] |= TAKEN;
                    let entry = &self.entries[at];
                    ways.push(entry.run.extent());
                    if self.live(entry.next).is_none() {
                        break;
                    }
                    at = entry.next.place();
                }
            }
        }
        ways
    }
    /// A run was met again.
    pub(super) fn keep(&mut self, link: Link) {
        if self.live(link).is_some() {
            let epoch = self.epoch();
            let run = &mut self.entries[link.place()].run;
            *run = run.met(epoch);
        }
    }
    /// `then` was read behind `first`.
    pub(super) fn follow(&mut self, first: Link, then: Link) {
        if first == then || self.live(first).is_none() {
            return;
        }
        let known = self.next(first);
        let entry = &mut self.entries[first.place()];
        if known == Some(then) {
            entry.run.0 |= Run::TRUSTED;
        } else if known.is_some() && entry.run.0 & Run::TRUSTED != 0 {
            entry.run.0 &= !Run::TRUSTED;
        } else {
            entry.next = then;
        }
    }
    /// `then` is read behind `first` from now on.
    pub(super) fn lead(&mut self, first: Link, then: Link) {
        if first != then && self.live(first).is_some() {
            let entry = &mut self.entries[first.place()];
            entry.next = then;
            entry.run.0 &= !Run::TRUSTED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64) -> Extent {
        Extent::new(start, 2)
    }

    #[test]
    fn runs_are_found_by_their_blocks_and_lead_to_what_came_behind() {
        let mut history = History::new(1 << 10);
        let links: Vec<Link> = [100, 7_000, 3].map(|start| history.add(at(start)).unwrap()).to_vec();
        history.follow(links[0], links[1]);
        history.follow(links[1], links[2]);
        let found = history.find(Extent::new(101, 1)).unwrap();
        assert_eq!((found, history.run(found)), (links[0], Some(at(100))));
        let behind = history.next(found).and_then(|link| history.next(link)).unwrap();
        assert_eq!((history.run(behind), history.next(behind)), (Some(at(3)), None));
        assert_eq!(history.find(Extent::new(102, 1)), None, "a neighbour in its region is not it");
    }

    #[test]
    fn the_newest_of_equal_runs_is_found() {
        let mut history = History::new(1 << 10);
        history.add(at(100));
        let second = history.add(at(100)).unwrap();
        assert_eq!(history.find(at(100)), Some(second));
    }

    #[test]
    fn a_run_grows_until_a_word_cannot_say_how_long_it_is() {
        let mut history = History::new(1 << 10);
        let link = history.add(at(100)).unwrap();
        assert!(history.grow(link, 110) && history.grow(link, 105));
        assert_eq!(history.run(link), Some(Extent::new(100, 10)));
        assert!(!history.grow(link, 100 + RUN_MAX + 1));
        assert_eq!(history.run(link), Some(Extent::new(100, 10)));
        assert_eq!(history.add(Extent::new(1 << START_BITS, 1)), None, "too far out");
    }

    #[test]
    fn a_successor_is_replaced_when_it_was_wrong_twice() {
        let mut history = History::new(1 << 10);
        let [a, b, c] = [1, 1_000, 2_000].map(|start| history.add(at(start)).unwrap());
        history.follow(a, b);
        history.follow(a, b);
        history.follow(a, c);
        assert_eq!(history.next(a), Some(b), "one detour");
        history.follow(a, c);
        assert_eq!(history.next(a), Some(c));
        history.follow(a, a);
        assert_eq!(history.next(a), Some(c), "a run is not its own successor");
    }

    #[test]
    fn what_is_found_again_stays_and_what_is_read_once_goes() {
        let mut history = History::new(RUN_BYTES * RUNS_MIN);
        let kept = history.add(at(5)).unwrap();
        let lost = history.add(at(1_000_005)).unwrap();
        history.follow(kept, lost);
        for n in 0..STRETCH {
            history.keep(kept);
            history.add(at(1_000 * (n % 50)));
        }
        assert_eq!((history.run(kept), history.run(lost)), (Some(at(5)), None));
        assert_eq!((history.next(kept), history.len()), (None, RUNS_MIN as usize));
        assert_eq!(history.find(at(1_000_005)), None);
    }

    #[test]
    fn the_bytes_are_held_at_every_size() {
        for bytes in [1, 1 << 10, 3_000, 1 << 14, 100_000, 1 << 20] {
            let mut history = History::new(bytes);
            let max = bytes.max(RUN_BYTES * RUNS_MIN);
            for n in 0..(bytes / 8).max(100) {
                history.add(Extent::new(n * 97 % 50_000, 1));
                assert!(history.bytes() <= max, "{} of {max}", history.bytes());
            }
            assert!(history.len() as u64 >= max / (RUN_BYTES + 2), "{} runs in {max}", history.len());
        }
    }

    #[test]
    fn of_a_loop_longer_than_the_memory_a_part_stays_and_what_nobody_comes_back_to_goes() {
        let runs = 1_000_u64;
        let mut history = History::new(RUN_BYTES * runs);
        let round = |history: &mut History, from: u64, length: u64| {
            let mut met = 0;
            for n in 0..length {
                let extent = at(from + 40 * n);
                match history.find(extent) {
                    Some(link) => (history.keep(link), met += 1).1,
                    None => drop(history.add(extent)),
                }
            }
            met
        };
        round(&mut history, 0, 3 * runs);
        for _ in 0..4 {
            let met = round(&mut history, 0, 3 * runs);
            assert!(met >= runs / 2, "{met} of {runs} remembered ones were met");
        }
        let elsewhere = 1_000_000;
        for _ in 0..12 {
            round(&mut history, elsewhere, runs / 2);
        }
        assert_eq!(round(&mut history, elsewhere, runs / 2), runs / 2, "the old loop has made room");
    }

    #[test]
    fn ways_come_out_in_their_order_and_loops_once() {
        let mut history = History::new(1 << 10);
        let links: Vec<Link> = [9, 5_000, 70, 800, 30].map(|start| history.add(at(start)).unwrap()).to_vec();
        // 70 ─▶ 9 ─▶ 30, and the loop 5000 ─▶ 800 ─▶ 5000.
        for (first, then) in [(2, 0), (0, 4), (1, 3), (3, 1)] {
            history.lead(links[first], links[then]);
        }
        assert_eq!(history.ways(), [70, 9, 30, 5_000, 800].map(at));
    }

    /// Random use beside a list that forgets nothing: whatever is found and linked was there, and buckets stay whole.
    #[test]
    fn whatever_is_found_was_added_and_links_never_lead_to_another_run() {
        let mut history = History::new(RUN_BYTES * 64);
        let mut names: Vec<(Link, Extent)> = Vec::new();
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = (seed >> 33) % 4_000;
            if let Some(found) = history.find(at(start)) {
                assert!(!history.run(found).unwrap().intersect(at(start)).is_empty());
                history.keep(found);
            }
            let Some(link) = history.add(at(start)) else {
                names.clear();
                continue;
            };
            if let Some((before, _)) = names.last().copied() {
                history.follow(before, link);
                assert_eq!(history.next(before), Some(link));
            }
            names.push((link, at(start)));
            if names.len() > 200 {
                names.remove(0);
            }
            for &(link, extent) in &names[names.len().saturating_sub(3)..] {
                assert_eq!(history.run(link), Some(extent));
            }
        }
        let reached: usize = (0..history.heads.len())
            .map(|bucket| {
                let mut place = history.heads[bucket];
                let mut count = 0;
                while let Some(entry) = history.entries.get(place as usize) {
                    assert_eq!(history.bucket(entry.run.region()), bucket);
                    (count, place) = (count + 1, entry.older);
                }
                count
            })
            .sum();
        assert_eq!(reached, history.len(), "every run is in one bucket");
    }
}
