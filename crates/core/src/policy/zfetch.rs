//! `zfetch`: the file-level prefetcher of OpenZFS: up to eight streams a file, which tolerate reordering and holes.
//!
//! A stream is the block that it expects next. An access that begins there advances it; one that lies further on, but not
//! too far, is kept as a *future range*, and when the ranges up to one of them have filled so well that at most a quarter
//! is holes, the stream jumps there. So several threads that read one file in pieces are one stream, and so is a stride
//! that leaves little out. What lies a little behind was skipped by such a jump, and is ignored.
//!
//! ```text
//!            expected
//!   ...read...|      [future]  [future]      |.. issued ..|.. wanted
//!             |<------- max_reorder ------->|
//!             |<---------------- distance ---------------->|
//! ```
//!
//! The distance begins with the size of an access, doubles with each up to `min_distance`, and grows beyond by an eighth
//! only when a prefetch has arrived after its reader, up to `max_distance`. While a sixteenth of the cache is on its way
//! already, nothing doubles.
//!
//! **It does nothing** at the first access of a stream, at the first block of a file that has no stream (one-block files
//! are common), for a stream that has never met a miss, for reverse reads, and for random reads that do not land on what
//! another one expects. Policy only: retention is the layer's.
//!
//! Source: openzfs/zfs `module/zfs/dmu_zfetch.c`, described in algorithms.md 7.1. Its unit is the record of a file; here
//! it is the block. What it reads ahead of indirect blocks has no counterpart.

use super::{Fetched, Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Context, Op};
use crate::hash::NumberMap;
use crate::row::{Layer, Make, Param, Role, Row, Value};
use crate::units::{Extent, Nanos};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::hash_map::Entry;

/// Future ranges of a stream (`ZFETCH_RANGES`).
const RANGES_MAX: usize = 9;
/// Files followed at once; the one followed for longest is forgotten. With 8 streams of 9 ranges each, 120 MiB.
const FILES_MAX: usize = 16_384;
/// Bound of streams of one file whatever the parameter says: all are looked at on each access.
pub const STREAMS_LIMIT: u64 = 64;
/// A jump may leave out one block in 2 to this power (`zfetch_hole_shift`).
const HOLE_SHIFT: u32 = 2;
/// A stream without hit for this long may be reused when the table is full (`zfetch_min_sec_reap`).
const IDLE_REUSE: Nanos = Nanos::from_secs(1);
/// A stream without hit for this long is dropped (`zfetch_max_sec_reap`).
const IDLE_DROP: Nanos = Nanos::from_secs(2);
/// Nothing doubles while one block in this many of the cache is being prefetched.
const ACTIVE_ONE_IN: u64 = 16;
/// At most one block in this many of the cache is asked for at once. A layer refuses what exceeds its budget, and what was
/// refused would be a hole that nobody asks for again; the rest of the distance is asked for with the next accesses.
const ASKED_ONE_IN: u64 = 8;
/// What all streams at work keep ahead of their readers is at most one block in this many of the cache: the memory of this layer
/// does not grow with what is asked for, as the target of the ARC does.
const AHEAD_ONE_IN: u64 = 4;
/// The files of so many advances are at work.
const ADVANCES_MAX: u64 = u64::BITS as u64;
/// Smallest file, in blocks, that is worth a stream.
const FILE_BLOCKS_MIN: u64 = 3;

/// Parameters of zfetch, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZfetchConfig {
    /// The distance up to which it doubles.
    pub min_distance: u64,
    /// The largest distance.
    pub max_distance: u64,
    /// How far ahead of (or behind) a stream an access may lie and still belong to it.
    pub max_reorder: u64,
    /// Most streams of one file.
    pub max_streams: u64,
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "zfetch",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "The prefetcher of OpenZFS: streams of a file that tolerate reordering and holes, with a growing distance.",
    source: "openzfs/zfs module/zfs/dmu_zfetch.c",
    params: &[
        Param::bytes("min_distance", 4 << 20, "The distance ahead of a stream up to which it doubles."),
        Param::bytes("max_distance", 64 << 20, "The largest distance."),
        Param::bytes(
            "max_reorder",
            16 << 20,
            "How far from a stream an access may lie and still belong to it.",
        ),
        Param::count("max_streams", 8, "Most streams of one file, up to 64.")
            .within(Value::Count(1), Value::Count(STREAMS_LIMIT)),
    ],
    make: Make::Policy(|values, _| {
        Box::new(Zfetch::new(ZfetchConfig {
            min_distance: values.blocks("min_distance"),
            max_distance: values.blocks("max_distance"),
            max_reorder: values.blocks("max_reorder"),
            max_streams: values.count("max_streams"),
        }))
    }),
    ..Row::PLAIN
};

/// Ranges of a stream, in place: a stream that comes and goes allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ranges {
    items: [Extent; RANGES_MAX],
    count: usize,
}

impl Ranges {
    fn get(&self) -> &[Extent] {
        &self.items[..self.count]
    }
    /// Takes the first `count` out.
    fn drop_first(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.items.copy_within(count..self.count, 0);
        self.count -= count;
    }
    /// Puts one in the place of those from `first` to before `last`; there is room.
    fn put(&mut self, first: usize, last: usize, range: Extent) {
        if first == last {
            self.items.copy_within(first..self.count, first + 1);
            self.count += 1;
        } else {
            self.items.copy_within(last..self.count, first + 1);
            self.count -= last - first - 1;
        }
        self.items[first] = range;
    }
}

/// One stream of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stream {
    expected: u64,
    /// Read out of turn: sorted, apart, all beyond `expected`.
    ranges: Ranges,
    distance: u64,
    /// All up to here has been wished for.
    issued: u64,
    /// Up to here should be wished for once the stream has met a miss.
    wanted: u64,
    used: Nanos,
    /// An access has belonged to it since it was made.
    hit: bool,
    missed: bool,
    /// A prefetch has arrived after its reader.
    more: bool,
}

impl Stream {
    fn new(expected: u64, now: Nanos) -> Self {
        Self {
            expected,
            ranges: Ranges::default(),
            distance: 0,
            issued: expected,
            wanted: expected,
            used: now,
            hit: false,
            missed: false,
            more: false,
        }
    }
    /// How long it has been without hit; one that never had any may be reused at once.
    fn idle(&self, now: Nanos) -> Nanos {
        now.since(self.used) + if self.hit { Nanos::ZERO } else { IDLE_REUSE }
    }
    /// Everything up to `to` has been read, and the future ranges that it meets. Returns by how much it advanced.
    fn advance(&mut self, to: u64) -> u64 {
        let mut to = to.max(self.expected);
        let met = self.ranges.get().iter().take_while(|range| range.start.0 <= to).count();
        for range in &self.ranges.get()[..met] {
            to = to.max(range.end());
        }
        self.ranges.drop_first(met);
        let by = to - self.expected;
        self.expected = to;
        by
    }
    /// Keeps a range that was read out of turn; advances over holes that are few enough. Returns by how much.
    fn keep(&mut self, range: Extent) -> u64 {
        let first = self.ranges.get().partition_point(|other| other.end() < range.start.0);
        let last = self.ranges.get().partition_point(|other| other.start.0 <= range.end());
        if first == last && self.ranges.count == RANGES_MAX {
            return 0;
        }
        let joined = self.ranges.get()[first..last].iter().fold(range, |joined, other| {
            let start = joined.start.0.min(other.start.0);
            Extent::new(start, joined.end().max(other.end()) - start)
        });
        self.ranges.put(first, last, joined);
        let (mut holes, mut at, mut to) = (0, self.expected, self.expected);
        for range in self.ranges.get() {
            holes += range.start.0 - at;
            at = range.end();
            if holes <= (at - self.expected) >> HOLE_SHIFT {
                to = at;
            }
        }
        self.advance(to)
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    /// The newest first.
    streams: Vec<Stream>,
    /// Number of the last advance of one of them; 0 before the first.
    advanced: u64,
}

/// What an access is to the streams of its file.
enum Match {
    /// It advances this stream by so many blocks.
    Advance(usize, u64),
    /// It belongs to a stream and moves nothing.
    Known,
    /// No stream expects it.
    New,
}

impl File {
    fn find(&mut self, read: Extent, now: Nanos, max_reorder: u64) -> Match {
        let (start, end) = (read.start.0, read.end());
        // Readers that are not aligned read the block at the border twice.
        let exact = |s: &Stream| start == s.expected || start + 1 == s.expected;
        if let Some(at) = self.streams.iter().position(exact) {
            return self.move_on(at, end, now);
        }
        for at in 0..self.streams.len() {
            let stream = &mut self.streams[at];
            let expected = stream.expected;
            if start > expected {
                if end <= expected + max_reorder {
                    let by = stream.keep(read);
                    stream.used = now;
                    stream.hit = true;
                    return if by > 0 { Match::Advance(at, by) } else { Match::Known };
                }
            } else if end >= expected {
                return self.move_on(at, end, now);
            } else if end + max_reorder > expected && stream.idle(now) <= IDLE_DROP {
                stream.used = now;
                return Match::Known;
            }
        }
        Match::New
    }
    fn move_on(&mut self, at: usize, to: u64, now: Nanos) -> Match {
        let stream = &mut self.streams[at];
        stream.used = now;
        stream.hit = true;
        let by = stream.advance(to);
        if by > 0 { Match::Advance(at, by) } else { Match::Known }
    }
    /// A new stream, in the place of an idle one where there are `max` already. False when all are busy.
    fn start(&mut self, expected: u64, now: Nanos, max: usize) -> bool {
        self.streams.retain(|stream| stream.idle(now) <= IDLE_DROP);
        while self.streams.len() >= max {
            let oldest = (0..self.streams.len()).max_by_key(|&at| self.streams[at].idle(now));
            let Some(at) = oldest.filter(|&at| self.streams[at].idle(now) >= IDLE_REUSE) else {
                return false;
            };
            self.streams.remove(at);
        }
        self.streams.reserve_exact(max - self.streams.len()); // once: a busy file allocates nothing later
        self.streams.insert(0, Stream::new(expected, now));
        true
    }
}

/// In how many files the last advances of streams were.
///
/// Each advance has a number, and each file the number of its last one. A bit for each of the latest advances says whether its
/// file has had none since, so there are as many files as bits that are set. A file that was forgotten and comes back within
/// so few advances is another one.
#[derive(Debug, Default)]
struct Advances {
    /// How many there were.
    count: u64,
    /// Of the advance with number n, bit n modulo [`ADVANCES_MAX`].
    last_of_its_file: u64,
}

impl Advances {
    /// A stream of this file advances.
    fn note(&mut self, file: &mut File) {
        let bit = |number: u64| 1 << (number % ADVANCES_MAX);
        self.count += 1;
        self.last_of_its_file |= bit(self.count);
        if file.advanced > 0 && self.count - file.advanced < ADVANCES_MAX {
            self.last_of_its_file &= !bit(file.advanced);
        }
        file.advanced = self.count;
    }
    /// Files at work.
    const fn files(&self) -> usize {
        self.last_of_its_file.count_ones() as usize
    }
}

/// Streams of files.
#[derive(Debug)]
pub struct Zfetch {
    config: ZfetchConfig,
    files: NumberMap<File>,
    order: VecDeque<u64>,
    advances: Advances,
    issued: u64,
    jumps: u64,
    refused: u64,
}

/// What streams are kept for: the file, whoever reads it; where none is known, the reader.
const fn file_of(context: Context) -> u64 {
    if context.file() == 0 { context.0 } else { context.file() }
}

impl Zfetch {
    /// With no file known.
    #[must_use]
    pub fn new(config: ZfetchConfig) -> Self {
        Self {
            config,
            files: NumberMap::default(),
            order: VecDeque::new(),
            advances: Advances::default(),
            issued: 0,
            jumps: 0,
            refused: 0,
        }
    }

    /// Forgets the file followed for longest where the last access brought one too many.
    fn make_room(&mut self) {
        if self.files.len() > FILES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.files.remove(&oldest);
        }
    }
}

impl ZfetchConfig {
    /// A stream has advanced by `by` blocks while streams of `files` files are at work: how far ahead of it should be read, and what of
    /// that is due?
    fn extend(
        &self,
        streams: &mut Vec<Stream>,
        (at, by, missed): (usize, u64, bool),
        files: usize,
        world: &World<'_>,
        file_end: u64,
    ) -> Extent {
        let (cache_blocks, flying) = (world.cache.slots.capacity(), world.ahead_in_flight);
        let busy = flying >= cache_blocks / ACTIVE_ONE_IN;
        let share = cache_blocks / AHEAD_ONE_IN / files.max(streams.len()).max(1) as u64;
        let most = self.max_distance.min(share).max(by);
        let stream = &mut streams[at];
        stream.missed |= missed;
        if stream.expected + 1 >= file_end {
            streams.remove(at);
            return Extent::default();
        }
        if stream.distance < by {
            stream.distance = by;
        } else if stream.distance < self.min_distance.min(most) && !busy {
            stream.distance *= 2;
        } else if stream.more {
            stream.distance += stream.distance / 8;
        }
        stream.more = false;
        stream.distance = stream.distance.min(most);
        stream.issued = stream.issued.max(stream.expected);
        stream.wanted = stream.wanted.max(stream.expected + stream.distance);
        if !stream.missed {
            return Extent::default();
        }
        let room = (cache_blocks / ASKED_ONE_IN).saturating_sub(flying);
        let blocks = stream.wanted.min(file_end).saturating_sub(stream.issued).min(room);
        let due = Extent::new(stream.issued, blocks);
        stream.issued = due.end();
        due
    }
}

impl Policy for Zfetch {
    fn hears_left(&mut self) -> bool {
        false
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let within = access.within.intersect(Extent::new(0, world.blocks));
        if access.op == Op::Write || within.blocks < FILE_BLOCKS_MIN {
            return;
        }
        self.make_room();
        let number = file_of(access.context);
        let (config, read, now) = (self.config, access.extent, world.now);
        let file = match self.files.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.order.push_back(number);
                new.insert(File::default())
            }
        };
        if read.start == within.start && file.streams.is_empty() {
            return;
        }
        match file.find(read, now, config.max_reorder) {
            Match::Known => {}
            Match::New => {
                // Fewer streams for small files, so that they need not overlap.
                let max = (within.blocks / config.max_distance.max(1)).clamp(1, config.max_streams.max(1));
                if read.end() + 1 < within.end() && !file.start(read.end(), now, max as usize) {
                    self.refused += 1;
                }
            }
            Match::Advance(at, by) => {
                self.jumps += u64::from(by > read.blocks);
                let here = |o: &Outcome| matches!(o, Outcome::CacheHit | Outcome::PrefetchHit);
                let missed = !lookup.outcomes.iter().all(here);
                self.advances.note(file);
                let (streams, files) = (&mut file.streams, self.advances.files());
                let due = config.extend(streams, (at, by, missed), files, world, within.end());
                self.issued += due.blocks;
                plan.fetch(due, When::Ahead);
            }
        }
    }
    /// A prefetch that arrives behind its reader asks its stream for more distance.
    fn on_fetched(&mut self, fetched: &Fetched, _world: &World<'_>, _plan: &mut Plan) {
        if !fetched.was_prefetch {
            return;
        }
        let (start, reach) = (fetched.extent.start.0, self.config.max_distance);
        let Some(file) = self.files.get_mut(&file_of(fetched.context)) else { return };
        let passed = |s: &&mut Stream| {
            start < s.expected && s.expected - start <= reach && fetched.extent.end() <= s.issued
        };
        if let Some(stream) = file.streams.iter_mut().filter(passed).min_by_key(|s| s.expected) {
            stream.more = true;
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("zfetch_blocks", self.issued as f64),
            ("zfetch_jumps", self.jumps as f64),
            ("zfetch_streams_refused", self.refused as f64),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rig::{Rig, VOLUME};
    use crate::units::Block;
    use alloc::vec;
    use proptest::prelude::*;

    fn rig(min_distance: u64, max_distance: u64) -> Rig<Zfetch> {
        let config = ZfetchConfig { min_distance, max_distance, max_reorder: 64, max_streams: 8 };
        Rig::new(Zfetch::new(config), 4096)
    }

    impl Rig<Zfetch> {
        fn streams(&self) -> Vec<Stream> {
            self.policy().files.values().flat_map(|file| file.streams.clone()).collect()
        }
        fn expected(&self) -> Vec<u64> {
            self.streams().iter().map(|stream| stream.expected).collect()
        }
    }

    #[test]
    fn a_file_read_from_its_start_is_read_ahead_from_its_third_access() {
        let mut rig = rig(16, 64);
        let file = Extent::new(1_000, 1_000);
        assert_eq!(rig.read_of(1_000, 1, file), [(1_000, 1)]); // the first block of a file without stream
        assert_eq!(rig.read_of(1_001, 1, file), [(1_001, 1)]); // makes a stream that expects 1002
        assert_eq!(rig.read_of(1_002, 1, file), [(1_002, 1), (1_003, 1)]); // distance 1
        assert_eq!(rig.read_of(1_003, 1, file), [(1_004, 2)]); // 2: up to 1006
        assert_eq!(rig.read_of(1_004, 1, file), [(1_006, 3)]); // 4: up to 1009
        assert_eq!(rig.read_of(1_005, 1, file), [(1_009, 5)]); // 8: up to 1014
        assert_eq!(rig.read_of(1_006, 1, file), [(1_014, 9)]); // 16: up to 1023
        assert_eq!(rig.read_of(1_007, 1, file), [(1_023, 1)]); // 16 is min_distance: no doubling, and nothing late
        assert_eq!(rig.streams()[0].distance, 16);
    }

    #[test]
    fn a_prefetch_that_arrives_after_its_reader_buys_an_eighth_more() {
        let mut rig = rig(8, 64);
        for block in 9..=13 {
            rig.read(block, 1); // a stream at 10, distances 1, 2, 4, 8
        }
        assert_eq!((rig.streams()[0].distance, rig.streams()[0].issued), (8, 22));
        rig.held = true;
        assert_eq!(rig.read(14, 1), [(22, 1)]);
        for block in 15..=22 {
            rig.read(block, 1);
        }
        rig.done(22); // its reader has passed
        assert!(rig.streams()[0].more);
        rig.read(23, 1);
        assert_eq!(rig.streams()[0].distance, 9);
    }

    #[test]
    fn nothing_is_wished_for_a_stream_that_has_met_no_miss() {
        let mut rig = rig(16, 64);
        rig.read(100, 40);
        let mut read = |block| rig.access(Access::read(Context::new(1, 9), Extent::new(block, 1)));
        assert_eq!((101..140).flat_map(&mut read).collect::<Vec<_>>(), []);
        assert_eq!(read(140), [(140, 1), (141, 16)]);
    }

    #[test]
    fn reads_out_of_turn_are_one_stream_and_a_jump_leaves_few_holes() {
        let mut rig = rig(16, 64);
        rig.read(9, 1); // expects 10
        assert_eq!(rig.read(14, 4), [(14, 4)]); // 4 of 8 are holes: kept
        assert_eq!(
            (rig.expected(), rig.streams()[0].ranges.get().to_vec()),
            (vec![10], vec![Extent::new(14, 4)])
        );
        assert_eq!(rig.read(18, 6), [(18, 6)]); // joined: 14 to 23, 4 holes of 14
        assert_eq!(rig.streams()[0].ranges.get(), [Extent::new(14, 10)]);
        assert_eq!(rig.read(24, 2), [(24, 2), (26, 16)]); // 4 of 16 is a quarter: advances by 16
        assert_eq!((rig.expected(), rig.streams()[0].ranges.count), (vec![26], 0));
        assert_eq!(rig.read(11, 1), [(11, 1)]); // skipped by the jump: known, and moves nothing
        assert_eq!(rig.expected(), [26]);
    }

    #[test]
    fn the_missing_piece_takes_the_stream_over_what_was_read_out_of_turn() {
        let mut rig = rig(16, 64);
        rig.read(9, 1);
        rig.read(15, 5);
        assert_eq!(rig.expected(), [10]);
        rig.read(10, 5);
        assert_eq!(rig.expected(), [20]);
    }

    #[test]
    fn two_processes_that_read_one_file_in_turns_are_one_stream() {
        let mut rig = rig(16, 64);
        for (process, block) in [(1, 11), (2, 12), (1, 13)] {
            let context = Context::new(process, 7);
            rig.access(Access::read(context, Extent::new(block, 1)));
        }
        assert_eq!(rig.expected(), [14]);
    }

    #[test]
    fn a_full_table_takes_a_stream_only_in_the_place_of_an_idle_one() {
        let mut rig = rig(1, 8);
        for n in 0..8 {
            rig.read(1 + n * 1_000, 1);
            rig.read(2 + n * 1_000, 1); // a hit: busy from now on
        }
        rig.read(9_001, 1);
        assert!(!rig.expected().contains(&9_002));
        assert_eq!(rig.policy().refused, 1);
        rig.hand.now += IDLE_REUSE;
        rig.read(9_001, 1);
        assert!(
            rig.expected().contains(&9_002) && !rig.expected().contains(&3),
            "the first was idle longest"
        );
        assert_eq!(rig.expected().len(), 8);
        rig.hand.now += IDLE_DROP + IDLE_REUSE;
        rig.read(20_001, 1);
        assert_eq!(rig.expected(), [20_002], "after two seconds idle streams are dropped");
    }

    #[test]
    fn a_small_file_has_one_stream_and_its_end_ends_it() {
        let mut rig = rig(16, 64);
        let file = Extent::new(1_000, 100);
        rig.read_of(1_010, 1, file);
        rig.read_of(1_011, 1, file);
        rig.read_of(1_090, 1, file); // too far ahead for a reordered one, and there is room for one stream
        assert_eq!(rig.expected(), [1_012]);
        let fetched: u64 = (1_012..1_099).flat_map(|b| rig.read_of(b, 1, file)).map(|(_, n)| n).sum();
        assert!(fetched <= 88, "nothing beyond the file");
        assert_eq!(rig.expected(), []);
    }

    #[test]
    fn what_does_not_fit_an_eighth_of_the_cache_is_asked_for_later_and_leaves_no_hole() {
        let mut rig = rig(2_048, 2_048);
        rig.held = true;
        rig.read(9, 1);
        rig.read(10, 200); // a distance of 200, then 400, 800: more than 512 blocks are in flight at no time
        rig.read(210, 200);
        assert_eq!((rig.streams()[0].wanted, rig.streams()[0].issued), (810, 722));
        assert_eq!(rig.hand.engine.unproven_blocks().1, 312);
        for start in rig.flying() {
            rig.done(start);
        }
        rig.read(410, 200);
        let stream = rig.streams()[0].clone();
        assert_eq!((stream.wanted, stream.issued), (1_410, 1_234));
        let cache = rig.hand.engine.cache();
        assert!((10..stream.issued).all(|block| cache.find(Block(block)).is_some()));
        assert_eq!(rig.hand.engine.stats().wishes_dropped, 0);
    }

    #[test]
    fn random_and_reverse_reads_cause_no_prefetch() {
        let mut rig = rig(16, 64);
        for n in 0..300_u64 {
            let block = (n * 7_919) % (VOLUME / 2) + 1;
            assert!(rig.read(block, 1).iter().all(|&(start, _)| start == block));
        }
        let back: Vec<_> = (60_000..60_300).rev().flat_map(|block| rig.read(block, 1)).collect();
        assert!(back.iter().all(|&(_, blocks)| blocks == 1));
    }

    proptest! {
        #[test]
        fn streams_stay_within_their_bounds(
            steps in proptest::collection::vec((0u8..8, 1u64..400, 1u64..12), 1..200),
        ) {
            let mut rig = rig(16, 64);
            let mut at = 1;
            for (kind, place, blocks) in steps {
                at = match kind { 0 => place, 1 => at + place % 40, 2 => at.saturating_sub(place % 40).max(1), _ => at };
                rig.read(at, blocks);
                at += blocks;
                for stream in rig.streams() {
                    prop_assert!(stream.distance <= 64 && stream.ranges.count <= RANGES_MAX);
                    prop_assert!(stream.issued <= stream.wanted);
                    let mut before = stream.expected;
                    for range in stream.ranges.get() {
                        prop_assert!(range.start.0 > before, "sorted, apart, all ahead");
                        before = range.end();
                    }
                }
                prop_assert!(rig.streams().len() <= 8);
            }
            let cache = rig.hand.engine.cache();
            prop_assert!((0..VOLUME).filter(|&b| cache.find(Block(b)).is_some()).count() <= 4096);
        }
    }
}
