//! TaP by its rules, with groups of four blocks, worked out by hand, and what holds after any events.

use super::*;
use crate::cache::State;
use crate::policy::rig::{Rig, VOLUME};
use proptest::prelude::*;

fn config(cache_blocks: u64) -> TapConfig {
    TapConfig { cache_blocks, degree: 4, entries: Some(64), fixed: None }
}

fn rig(cache_blocks: u64) -> Rig<Tap> {
    Rig::new(Tap::new(config(cache_blocks)), cache_blocks)
}

fn fixed(cache_blocks: u64, size: u64) -> Rig<Tap> {
    Rig::new(Tap::new(TapConfig { fixed: Some(size), ..config(cache_blocks) }), cache_blocks)
}

impl Rig<Tap> {
    fn state(&self, block: u64) -> State {
        self.hand.state(block)
    }
    /// Blocks below `end` that are here.
    fn here(&self, end: u64) -> Vec<u64> {
        (0..end).filter(|&block| self.state(block) != State::Empty).collect()
    }
    /// Blocks of the demand cache and of the prefetch cache.
    fn lens(&self) -> (usize, usize) {
        let tap = self.policy();
        (tap.lists.len(DEMAND), tap.lists.len(AHEAD))
    }
    /// Wanted size of the prefetch cache, and how often it grew and shrank.
    fn size(&self) -> (u64, u64, u64) {
        let tap = self.policy();
        (tap.size, tap.grown, tap.shrunk)
    }
}

#[test]
fn the_second_miss_in_a_row_is_a_stream_and_triggers_keep_it_the_last() {
    let mut rig = rig(200);
    assert_eq!(rig.read(0, 1), [(0, 1)]);
    assert_eq!(rig.read(1, 1), [(1, 5)]); // and four blocks, 2 to 5
    let fetches: Vec<_> = (2..20).map(|block| rig.read(block, 1)).collect();
    let led: Vec<_> = (2..20).zip(fetches).filter(|(_, fetches)| !fetches.is_empty()).collect();
    let expected: Vec<(u64, Vec<(u64, u64)>)> =
        [(4, 6), (8, 10), (12, 14), (16, 18)].map(|(at, from)| (at, Vec::from([(from, 4)]))).into();
    assert_eq!(led, expected, "the third block of each group has the next group read");
    let tap = rig.policy();
    assert_eq!((tap.streams, tap.groups_ahead), (1, 4));
}

#[test]
fn a_stream_is_found_although_its_history_has_left_the_cache() {
    let mut rig = rig(20);
    rig.read(0, 1);
    for n in 1..=30 {
        rig.read(n * 1_000, 1);
    }
    assert_eq!(rig.state(0), State::Empty);
    assert_eq!(rig.read(1, 1), [(1, 5)]);
}

#[test]
fn a_full_table_forgets_what_was_expected_longest() {
    for (others, fetched) in [(63, 5), (64, 1)] {
        let mut rig = rig(400);
        rig.read(0, 1);
        for n in 1..=others {
            rig.read(n * 100, 1);
        }
        assert_eq!(rig.read(1, 1), [(1, fetched)], "{others} others");
    }
}

#[test]
fn the_table_has_four_addresses_for_each_stream_that_the_cache_has_room_for() {
    let of = |cache_blocks, entries| TapConfig { entries, ..config(cache_blocks) }.table_entries();
    assert_eq!((of(200, None), of(1 << 17, None), of(200, Some(7))), (1_024, 1 << 16, 7));
}

#[test]
fn a_request_that_reads_through_a_group_and_beyond_is_still_the_stream() {
    let mut rig = rig(200);
    assert_eq!(rig.read(0, 8), [(0, 8)]);
    assert_eq!(rig.read(8, 8), [(8, 12)]);
    assert_eq!(
        rig.read(16, 8),
        [(20, 8)],
        "16 to 19 are here; 20 to 23 are missed, and 24 to 27 go with them"
    );
    assert_eq!(rig.policy().streams, 2);
}

#[test]
fn what_is_read_leaves_the_prefetch_cache() {
    let mut rig = rig(200);
    rig.read(0, 1);
    rig.read(1, 1);
    assert_eq!(rig.lens(), (2, 4));
    rig.read(2, 2);
    assert_eq!(rig.lens(), (4, 2));
}

#[test]
fn random_reads_do_not_push_out_what_is_read_ahead_nor_what_is_read_ahead_more_than_its_share() {
    let mut rig = fixed(20, 8);
    rig.read(0, 1);
    rig.read(1, 1); // 2 to 5 ahead
    for n in 1..=40 {
        rig.read(n * 1_000, 1);
    }
    assert_eq!(rig.lens(), (16, 4));
    assert_eq!(rig.here(10), [2, 3, 4, 5]);
    for stream in 1..=3_u64 {
        rig.read(stream * 100, 1);
        rig.read(stream * 100 + 1, 1);
    }
    assert_eq!(rig.lens().1, 8, "the first two groups have left");
    assert_eq!(
        (rig.state(5), rig.state(102), rig.state(202)),
        (State::Empty, State::Empty, State::Prefetched)
    );
}

#[test]
fn a_miss_of_what_was_thrown_out_unread_is_a_stream_and_makes_the_prefetch_cache_grow() {
    let mut rig = rig(200);
    rig.policy_mut().0.size = 8;
    for stream in 0..3_u64 {
        rig.read(stream * 100, 1);
        rig.read(stream * 100 + 1, 1);
    }
    assert_eq!(rig.here(10), [0, 1], "2 to 5 had to leave");
    assert_eq!(rig.size(), (8, 0, 0));
    assert_eq!(rig.read(2, 1), [(2, 5)]);
    assert_eq!(rig.size(), (10, 1, 0), "a step is 1% of 200 blocks");
    assert_eq!(rig.policy_mut().0.table.take(3), None, "3 is here again, so nobody misses it");
}

#[test]
fn a_turnover_without_such_a_miss_makes_it_shrink_while_what_comes_is_read() {
    let mut rig = rig(200);
    assert_eq!(rig.size(), (20, 0, 0));
    (0..23).for_each(|block| drop(rig.read(block, 1))); // four groups and the sixteenth block of them
    assert_eq!(rig.size(), (18, 0, 1), "20 blocks came when the fifth group was read ahead");
    (23..400).for_each(|block| drop(rig.read(block, 1)));
    assert_eq!(rig.size().0, 8, "never less than two groups");
    let mut wasteful = fixed(400, 20);
    wasteful.policy_mut().0.config.fixed = None;
    for file in 0..200_u64 {
        wasteful.read(file * 100, 1);
        wasteful.read(file * 100 + 1, 1); // four blocks that nobody reads
    }
    assert_eq!(wasteful.size(), (20, 0, 0));
}

#[test]
fn a_size_that_is_given_stays() {
    let mut rig = fixed(200, 8);
    for round in 0..4_u64 {
        for stream in 0..6_u64 {
            (0..12).for_each(|n| drop(rig.read(stream * 1_000 + round * 12 + n, 1)));
        }
    }
    assert_eq!(rig.size(), (8, 0, 0));
}

#[test]
fn random_strided_and_reverse_reads_cause_no_prefetch_and_files_are_borders() {
    let mut rig = rig(400);
    for n in 0..300_u64 {
        let block = (n * 7_919) % (VOLUME / 2);
        assert_eq!(rig.read(block, 1), [(block, 1)]);
    }
    for block in (60_000..60_100).rev().chain((40_000..41_000).step_by(7)) {
        assert_eq!(rig.read(block, 1), [(block, 1)]);
    }
    let file = Extent::new(50_000, 4);
    assert_eq!(rig.read_of(50_000, 1, file), [(50_000, 1)]);
    assert_eq!(rig.read_of(50_001, 1, file), [(50_001, 3)]);
    assert_eq!(rig.read_of(50_002, 2, file), []);
    assert_eq!(
        rig.read_of(50_004, 1, Extent::new(50_004, 4)),
        [(50_004, 1)],
        "nobody expected the next file"
    );
}

/// Of a hundred reads ten go on in one of sixteen streams and ninety are random: how many sequential reads find their block
/// read ahead, in a cache of 160 blocks.
fn sequential_hits(policy: impl Policy) -> usize {
    let mut rig = Rig::new(policy, 160);
    let mut random = 1_u64;
    let mut hits = 0;
    for n in 0..1_600_u64 {
        for _ in 0..9 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            rig.read(VOLUME / 2 + (random >> 33) % (VOLUME / 2), 1);
        }
        let block = (n % 16) * 1_000 + n / 16;
        hits += usize::from(rig.hand.engine.cache().state(Block(block)) == State::Prefetched);
        rig.read(block, 1);
    }
    hits
}

#[test]
fn among_nine_random_reads_in_ten_streams_are_found_whose_history_no_longer_fits() {
    let tap = sequential_hits(Tap::new(TapConfig { entries: None, ..config(160) }));
    let amp = sequential_hits(crate::policy::amp::Amp::new(crate::policy::amp::AmpConfig::USUAL));
    // Each stream is missed twice, and again while the prefetch cache grows from 16 blocks to four for each stream.
    assert!(tap >= 1_200, "{tap} of 1,600");
    assert!(amp * 20 <= tap, "{amp}: between two reads of a stream 159 others fill the cache");
}

proptest! {
    #[test]
    fn lists_table_and_size_agree_with_the_cache(
        degree in 1u64..6, entries in 1u64..20, cache in 24u64..90,
        steps in proptest::collection::vec((0u8..10, 0u64..160, 1u64..10, any::<bool>()), 1..200),
    ) {
        let config = TapConfig { cache_blocks: cache, degree, entries: Some(entries), fixed: None };
        let mut rig = Rig::new(Tap::new(config), cache);
        rig.held = true;
        let mut at = 0;
        for (kind, place, blocks, end) in steps {
            at = if kind < 7 { at } else { place };
            rig.read(at, blocks);
            at = (at + blocks) % 160;
            let flying = rig.flying();
            let settled = flying.is_empty(); // what is in flight cannot leave
            if end || flying.len() > 3 {
                for start in flying {
                    rig.done(start);
                }
            }
            let here = rig.here(400);
            let (demand, ahead) = rig.lens();
            prop_assert_eq!(demand + ahead, here.len());
            let tap = rig.policy();
            for &block in &here {
                let line = rig.hand.engine.cache().find(Block(block)).expect("it is here");
                let unread = matches!(rig.state(block), State::Prefetched | State::FetchPrefetch);
                prop_assert_eq!(tap.lists.list_of(key(line)) == AHEAD, unread, "block {}", block);
            }
            prop_assert!(tap.size >= config.size_min() && tap.size <= config.size_max());
            prop_assert!(!settled || ahead as u64 <= tap.size, "{} of {}", ahead, tap.size);
            prop_assert!(tap.table.len() as u64 <= entries);
        }
    }
}
