//! Contexts of `flashy`: who reads where, in what pattern, how fast, and how far that has been prefetched.
//!
//! A context is a process in a region of the device (slides: "process id, device id, block id"; one policy watches one
//! device). Each keeps three counters of consecutive matches (slides, "Trace Collection"), the bytes asked for in its pattern
//! since the last poll, a frontier up to which that has been prefetched, and what became of the blocks wished for: read
//! after all, gone before they were read, or left behind by a reader that went elsewhere. A stream that crosses into the next region
//! takes its context along. The table is bounded and forgets, clock-wise, the context that has not read for longest.
//!
//! ```text
//!            start = last end (+ gap)            end = last start             same distance as before
//!   counters:   sequential + 1                     reverse + 1                   strided + 1
//!            anything else: all three are halved, so that one read out of order does not end a stream
//! ```

use crate::access::{self, Access};
use crate::hash::NumberMap;
use crate::policy::{Lookup, Outcome};
use crate::units::{BLOCK_BYTES, Extent, Nanos};
use alloc::vec::Vec;

/// Most contexts. 1024: a hundred processes in ten regions each; one takes some 130 bytes.
pub const CONTEXTS_MAX: usize = 1024;
/// Blocks of a region, 128 MiB (algorithms.md 6.2).
pub const REGION_BLOCKS: u64 = 1 << 15;
/// Blocks that a sequential reader may leave out: 64 KiB, what a disk reads over sooner than it seeks (algorithms.md 6.2).
pub const GAP_BLOCKS: u64 = 16;
/// Counters, and so thresholds, go no further: a few halvings end the longest stream.
pub const MATCHES_MAX: u64 = 16;
/// Bits of a key that number the region: 2^40 regions of 128 MiB are more than 2^64 bytes.
const REGION_BITS: u32 = 40;

/// A pattern that can be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Onwards, with gaps of at most [`GAP_BLOCKS`].
    Sequential,
    /// Pieces at a constant distance.
    Strided,
    /// Backwards, without a gap.
    Reverse,
}

/// Consecutive matches after which a pattern is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Of sequential reads.
    pub sequential: u64,
    /// Of strided reads.
    pub strided: u64,
    /// Of reverse reads.
    pub reverse: u64,
}

/// How long nothing is read until a reader counts for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct After {
    /// It will not come to what was wished for.
    pub(super) silent: Nanos,
    /// It is forgotten.
    pub(super) idle: Nanos,
}

/// One reader in one region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    key: u64,
    /// How many contexts there had been when it began: its number, wherever it goes.
    pub(super) number: u64,
    /// On whose behalf to read.
    pub(super) reader: access::Context,
    /// Its last read.
    pub(super) last: Extent,
    /// The file that it lies in.
    pub(super) within: Extent,
    /// From the start of the read before to the start of the last one, blocks.
    delta: i64,
    /// The last distance that came twice in a row, blocks; 0 only while nothing is strided.
    pub(super) stride: i64,
    sequential: u64,
    strided: u64,
    reverse: u64,
    /// Bytes asked for in a pattern since the last poll.
    window: u64,
    /// Bytes a poll: mean of the last window and the mean before it.
    pub(super) pace: u64,
    /// Whether it has read in its pattern since the poll before.
    pub(super) awake: bool,
    /// Blocks that it may still have prefetched in this poll.
    pub(super) grant: u64,
    /// The pattern for which it was prefetched at the last poll, as noted.
    pub(super) fed: Option<Pattern>,
    /// Polls in a row in which it was granted nothing.
    pub(super) hungry: u64,
    /// First block that its pattern has not been prefetched to (the last one, going backwards).
    pub(super) frontier: Option<(Pattern, u64)>,
    /// From the first to the last block that was wished for and whose end is not known.
    ahead: Extent,
    /// Blocks of them, at most.
    wished: u64,
    seen: Nanos,
    polled: bool,
    used: bool,
}

impl Pattern {
    /// As in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Strided => "strided",
            Self::Reverse => "reverse",
        }
    }
}

impl Context {
    fn new(key: u64, reader: access::Context, last: Extent, within: Extent, now: Nanos) -> Self {
        Self {
            key,
            number: 0,
            reader,
            last,
            within,
            delta: 0,
            stride: 0,
            grant: 0,
            fed: None,
            hungry: 0,
            sequential: 0,
            strided: 0,
            reverse: 0,
            window: last.bytes(),
            pace: 0,
            awake: false,
            frontier: None,
            ahead: Extent::new(0, 0),
            wished: 0,
            seen: now,
            polled: false,
            used: true,
        }
    }

    /// The pattern that it is believed to follow. A constant distance says more than small gaps do.
    #[must_use]
    pub(super) const fn pattern(&self, thresholds: &Thresholds) -> Option<Pattern> {
        if self.strided >= thresholds.strided {
            Some(Pattern::Strided)
        } else if self.sequential >= thresholds.sequential {
            Some(Pattern::Sequential)
        } else if self.reverse >= thresholds.reverse {
            Some(Pattern::Reverse)
        } else {
            None
        }
    }

    /// Whether a read at `extent` goes on with what was read last.
    fn continues(&self, extent: Extent) -> bool {
        let onward = extent.start.0 >= self.last.end() && extent.start.0 - self.last.end() <= GAP_BLOCKS;
        let backward = extent.end() == self.last.start.0;
        let strided = self.strided > 0 && distance(self.last, extent) == self.stride;
        onward || backward || strided
    }

    /// Counts a read (algorithms.md 6.2, "Per event"). Returns the bytes that are new to the reader.
    fn count(&mut self, extent: Extent) -> u64 {
        let (start, end) = (extent.start.0, extent.end());
        let (before, behind) = (self.last.start.0, self.last.end());
        if end == behind && start + 1 >= behind {
            return 0; // less than a block at a time: the last block again
        }
        let delta = distance(self.last, extent);
        let (from, until) = (behind - 1, behind + GAP_BLOCKS);
        let steady = delta != 0 && delta == self.delta;
        let mut fresh = extent.blocks;
        if start >= from && start <= until {
            self.sequential = (self.sequential + 1).min(MATCHES_MAX);
            self.reverse = 0;
            // Without a gap a constant distance is only a constant size.
            let apart = steady && start > behind;
            self.strided = if apart { (self.strided + 1).min(MATCHES_MAX) } else { 0 };
            self.stride = delta;
            fresh = end - start.max(behind);
        } else if end == before {
            self.reverse = (self.reverse + 1).min(MATCHES_MAX);
            (self.sequential, self.strided) = (0, 0);
        } else if steady {
            self.strided = (self.strided + 1).min(MATCHES_MAX);
            (self.sequential, self.reverse) = (0, 0);
            self.stride = delta;
        } else {
            self.sequential /= 2;
            self.strided /= 2;
            self.reverse /= 2;
            self.delta = delta;
            self.last = extent;
            return fresh * BLOCK_BYTES;
        }
        self.delta = delta;
        self.last = extent;
        // Only what goes on with a pattern is the pattern's rate.
        self.window += fresh * BLOCK_BYTES;
        fresh * BLOCK_BYTES
    }

    /// Notes a wish on its behalf.
    pub(super) fn wished(&mut self, extent: Extent) {
        let (start, end) = if self.ahead.is_empty() {
            (extent.start.0, extent.end())
        } else {
            (self.ahead.start.0.min(extent.start.0), self.ahead.end().max(extent.end()))
        };
        self.ahead = Extent::new(start, end - start);
        self.wished += extent.blocks;
    }

    /// Whether the end of some block that was wished for is not known.
    pub(super) const fn awaits(&self) -> bool {
        self.wished > 0
    }

    /// What a read says of the blocks that were wished for: (served, not there any more), blocks.
    #[inline(never)]
    pub(super) fn settle(&mut self, access: &Access, lookup: &Lookup<'_>) -> (u64, u64) {
        let (mut served, mut gone) = (0, 0);
        for (block, outcome) in access.extent.iter().zip(lookup.outcomes) {
            if self.ahead.contains(block) {
                match outcome {
                    Outcome::PrefetchHit | Outcome::LateHit => served += 1,
                    Outcome::Miss => gone += 1,
                    Outcome::CacheHit | Outcome::MergedMiss => {}
                }
            }
        }
        served = served.min(self.wished);
        gone = gone.min(self.wished - served);
        self.wished -= served + gone;
        (served, gone)
    }

    /// At a poll: whether the reader still comes towards what was wished for. Returns the blocks that it has turned
    /// away from, or has not come to since it last read before `silent`, and forgets them.
    fn abandon(&mut self, silent: Nanos, thresholds: &Thresholds) -> u64 {
        let reach = GAP_BLOCKS.max(self.delta.unsigned_abs()) + self.last.blocks;
        let near = self.last.start.0 <= self.ahead.end().saturating_add(reach)
            && self.last.end().saturating_add(reach) >= self.ahead.start.0;
        if self.pattern(thresholds).is_some() && near && self.seen >= silent {
            return 0;
        }
        self.frontier = None;
        self.ahead = Extent::new(0, 0);
        core::mem::take(&mut self.wished)
    }

    /// A poll: the window's bytes join the pace (algorithms.md 6.2: half old, half new).
    const fn poll(&mut self) {
        self.pace = if self.polled { self.pace / 2 + self.window / 2 } else { self.window };
        self.polled = true;
        self.awake = self.window > 0;
        self.window = 0;
    }
}

/// Blocks from the start of one read to that of another; they lie in one volume.
#[expect(clippy::cast_possible_wrap, reason = "block numbers are below 2^52")]
const fn distance(from: Extent, to: Extent) -> i64 {
    to.start.0 as i64 - from.start.0 as i64
}

fn key(process: u64, region: u64) -> u64 {
    (process << REGION_BITS) | (region & ((1 << REGION_BITS) - 1))
}

/// All contexts of a device.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Context>,
    places: NumberMap<usize>,
    /// Place of the context that read last, which is most often the one that reads next.
    latest: usize,
    hand: usize,
    /// Contexts that there have been.
    made: u64,
    /// Blocks wished for on behalf of contexts that had to go since the last poll.
    abandoned: u64,
}

impl Table {
    /// Counts a read of `reader`; returns its context and the bytes that are new to it.
    pub(super) fn read(
        &mut self,
        reader: access::Context,
        extent: Extent,
        within: Extent,
        now: Nanos,
    ) -> (&mut Context, u64) {
        let region = extent.start.0 / REGION_BLOCKS;
        let own = key(reader.process(), region);
        if self.entries.get(self.latest).is_none_or(|context| context.key != own) {
            let place = self.places.get(&own).copied().or_else(|| self.crossed(reader, region, extent));
            let Some(place) = place else {
                self.latest = self.insert(Context::new(own, reader, extent, within, now));
                return (&mut self.entries[self.latest], extent.bytes());
            };
            self.latest = place;
        }
        let context = &mut self.entries[self.latest];
        let fresh = context.count(extent);
        (context.reader, context.within, context.seen, context.used) = (reader, within, now, true);
        (context, fresh)
    }

    /// A stream of this process that comes out of a neighbouring region takes its context along.
    #[inline(never)]
    fn crossed(&mut self, reader: access::Context, region: u64, extent: Extent) -> Option<usize> {
        let before = region.checked_sub(1);
        let from = [before, Some(region + 1)].into_iter().flatten().find_map(|neighbour| {
            let place = *self.places.get(&key(reader.process(), neighbour))?;
            self.entries[place].continues(extent).then_some(place)
        })?;
        let (old, new) = (self.entries[from].key, key(reader.process(), region));
        self.places.remove(&old);
        self.places.insert(new, from);
        self.entries[from].key = new;
        Some(from)
    }

    fn insert(&mut self, context: Context) -> usize {
        let context = Context { number: self.made, ..context };
        self.made += 1;
        let place = if self.entries.len() < CONTEXTS_MAX {
            self.entries.push(context);
            self.entries.len() - 1
        } else {
            let place = self.unused();
            self.places.remove(&self.entries[place].key);
            self.abandoned += self.entries[place].wished;
            self.entries[place] = context;
            place
        };
        self.places.insert(context.key, place);
        place
    }

    /// Place of a context that has not read since the hand came by last.
    fn unused(&mut self) -> usize {
        loop {
            let place = self.hand % self.entries.len();
            self.hand = place + 1;
            if !core::mem::take(&mut self.entries[place].used) {
                return place;
            }
        }
    }

    /// A poll at `now`: forgets contexts that have been idle, and takes everybody's pace. Returns the blocks
    /// that were wished for and that nobody comes towards any more.
    pub(super) fn poll(&mut self, now: Nanos, after: &After, thresholds: &Thresholds) -> u64 {
        let silent = Nanos(now.0.saturating_sub(after.silent.0));
        let (mut place, mut abandoned) = (0, core::mem::take(&mut self.abandoned));
        while place < self.entries.len() {
            if now.since(self.entries[place].seen) <= after.idle {
                self.entries[place].poll();
                abandoned += self.entries[place].abandon(silent, thresholds);
                place += 1;
                continue;
            }
            let gone = self.entries.swap_remove(place);
            abandoned += gone.wished;
            self.places.remove(&gone.key);
            if let Some(moved) = self.entries.get(place) {
                self.places.insert(moved.key, place);
            }
        }
        abandoned
    }

    /// All contexts, in a fixed order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        self.entries.iter_mut()
    }
    /// The context at a place below [`Table::len`].
    pub(super) fn get_mut(&mut self, place: usize) -> Option<&mut Context> {
        self.entries.get_mut(place)
    }
    /// How many there are.
    #[must_use]
    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether there is none.
    #[must_use]
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TH: Thresholds = Thresholds { sequential: 3, strided: 4, reverse: 3 };
    const ALL: Extent = Extent::new(0, u64::MAX);

    fn after(reads: impl IntoIterator<Item = (u64, u64)>) -> Option<Pattern> {
        let mut table = Table::default();
        let mut pattern = None;
        for (start, blocks) in reads {
            let reader = access::Context::new(7, 1);
            pattern = table.read(reader, Extent::new(start, blocks), ALL, Nanos(0)).0.pattern(&TH);
        }
        pattern
    }

    #[test]
    fn the_third_match_makes_a_sequential_or_reverse_stream_and_the_fourth_a_strided_one() {
        assert_eq!(after((0..3).map(|i| (i * 4, 4))), None);
        assert_eq!(after((0..4).map(|i| (i * 4, 4))), Some(Pattern::Sequential));
        assert_eq!(after((0..4).rev().map(|i| (i * 4, 4))), Some(Pattern::Reverse));
        assert_eq!(after((0..5).map(|i| (i * 100, 4))), None, "the first distance matches nothing");
        assert_eq!(after((0..6).map(|i| (i * 100, 4))), Some(Pattern::Strided));
        assert_eq!(after((0..6).map(|i| (1_000 - i * 100, 4))), Some(Pattern::Strided), "downwards too");
    }

    #[test]
    fn gaps_are_sequential_and_gaps_of_one_size_are_a_stride() {
        assert_eq!(after([(0, 1), (3, 1), (5, 1), (20, 1)]), Some(Pattern::Sequential));
        assert_eq!(after((0..6).map(|i| (i * 3, 1))), Some(Pattern::Strided));
        assert_eq!(after([(0, 1), (3, 1), (5, 1), (40, 1)]), None);
    }

    #[test]
    fn one_read_out_of_order_does_not_end_a_stream_and_noise_does() {
        let run = (0..12).map(|i| (i * 2, 2));
        assert_eq!(after(run.clone().chain([(400, 2)])), Some(Pattern::Sequential));
        assert_eq!(after(run.chain([(400, 2), (900, 2), (100, 2)])), None);
    }

    #[test]
    fn reading_less_than_a_block_at_a_time_is_sequential_and_counts_each_block_once() {
        let mut table = Table::default();
        let mut bytes = 0;
        for offset in (0..32_768).step_by(1_000) {
            let reader = access::Context::new(7, 1);
            bytes += table.read(reader, Extent::covering(offset, 1_000), ALL, Nanos(0)).1;
        }
        assert_eq!(bytes, 9 * BLOCK_BYTES);
        assert_eq!(table.entries[0].pattern(&TH), Some(Pattern::Sequential));
    }

    #[test]
    fn what_was_wished_for_is_served_gone_or_left_behind() {
        let mut table = Table::default();
        let after = After { silent: Nanos(4), idle: Nanos(12) };
        let mut read = |start: u64, outcome: Outcome, now: u64| {
            let reader = access::Context::new(7, 1);
            let access = Access::read(reader, Extent::new(start, 4));
            let (context, _) = table.read(reader, access.extent, ALL, Nanos(now));
            let ends = context.settle(&access, &Lookup { outcomes: &[outcome; 4] });
            if start == 16 {
                context.wished(Extent::new(20, 40));
            }
            (ends, table.poll(Nanos(now), &after, &TH))
        };
        for start in [0, 4, 8, 12, 16] {
            assert_eq!(read(start, Outcome::Miss, 0), ((0, 0), 0), "nothing had been wished for");
        }
        assert_eq!(read(20, Outcome::PrefetchHit, 1), ((4, 0), 0));
        assert_eq!(read(24, Outcome::LateHit, 1), ((4, 0), 0));
        assert_eq!(read(28, Outcome::Miss, 1), ((0, 4), 0), "it had left before it was read");
        assert_eq!(read(28, Outcome::CacheHit, 1), ((0, 0), 0), "each block ends once");
        assert_eq!(read(9_000, Outcome::Miss, 2), ((0, 0), 28), "the reader went elsewhere");
        assert_eq!(read(9_004, Outcome::Miss, 2), ((0, 0), 0), "and that is told once");
    }

    #[test]
    fn a_reader_that_says_nothing_leaves_behind_what_was_wished_for_it() {
        let mut table = Table::default();
        let after = After { silent: Nanos(4), idle: Nanos(12) };
        for start in 0..5 {
            let reader = access::Context::new(7, 1);
            let (context, _) = table.read(reader, Extent::new(start * 4, 4), ALL, Nanos(0));
            if start == 4 {
                context.wished(Extent::new(20, 40));
            }
        }
        let polls = [1, 4, 5, 6, 13].map(|now| table.poll(Nanos(now), &after, &TH));
        assert_eq!(polls, [0, 0, 40, 0, 0]);
        assert!(table.is_empty());
    }

    #[test]
    fn a_stream_that_crosses_into_the_next_region_takes_its_context_along() {
        let at = REGION_BLOCKS;
        assert_eq!(after((0..4).map(|i| (at - 12 + i * 4, 4))), Some(Pattern::Sequential));
        assert_eq!(after((0..4).rev().map(|i| (at - 8 + i * 4, 4))), Some(Pattern::Reverse));
        let mut table = Table::default();
        for start in [at - 4, at, at + 4, 0] {
            table.read(access::Context::new(1, 0), Extent::new(start, 4), ALL, Nanos(0));
        }
        assert_eq!(table.len(), 2, "the stream's context has moved, and block 0 has one of its own");
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_idle() {
        let mut table = Table::default();
        for process in 0..3 * CONTEXTS_MAX as u64 {
            let reader = access::Context::new(process, 0);
            table.read(reader, Extent::new(process, 1), ALL, Nanos(process));
            table.read(access::Context::new(9_999_999, 0), Extent::new(0, 1), ALL, Nanos(process));
        }
        assert_eq!(table.len(), CONTEXTS_MAX);
        assert!(table.places.contains_key(&key(9_999_999, 0)), "a context that reads stays");
        assert_eq!(table.places.len(), CONTEXTS_MAX);
        let last = Nanos(3 * CONTEXTS_MAX as u64 - 1);
        let after = After { silent: Nanos(4), idle: Nanos(12) };
        table.poll(last + Nanos(10), &after, &TH);
        assert_eq!(table.len(), 4, "the last three and the one that reads all the time");
        for place in 0..table.len() {
            assert_eq!(table.places[&table.entries[place].key], place);
        }
        table.poll(last + Nanos(100), &after, &TH);
        assert!(table.is_empty() && table.places.is_empty());
    }
}
