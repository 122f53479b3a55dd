//! SARC by its rules, with tracks of four blocks and groups of four tracks, worked out by hand, and what holds after any
//! events.

use super::*;
use crate::policy::rig::{Rig, VOLUME};
use proptest::prelude::*;

fn config(cache_blocks: u64) -> SarcConfig {
    SarcConfig { cache_blocks, track_blocks: 4, degree: 4, threshold: 3, whole: false }
}

fn rig(cache_blocks: u64) -> Rig<Sarc> {
    Rig::new(Sarc::new(config(cache_blocks)), cache_blocks)
}

impl Rig<Sarc> {
    fn settled(&mut self) {
        let (sarc, cache) = self.policy_mut();
        sarc.settle(cache);
    }
    /// Numbers of the tracks that have a trigger, and where their groups end.
    fn triggers(&mut self) -> Vec<(u64, u64)> {
        self.settled();
        let sarc = self.policy();
        let find = |number| sarc.tracks.find(number).map(|index| sarc.tracks.get(index));
        (0..100).filter_map(|n| find(n).and_then(|track| track.trigger.map(|end| (n, end)))).collect()
    }
    fn place(&self, number: u64) -> Option<tracks::Track> {
        let sarc = self.policy();
        sarc.tracks.find(number).map(|index| *sarc.tracks.get(index))
    }
    /// Wanted size of SEQ, and sequential misses since the last comparison.
    fn wanted(&self) -> (u64, u64) {
        let sarc = self.policy();
        (sarc.desired, sarc.misses)
    }
    fn is_here(&self, block: u64) -> bool {
        self.hand.state(block) != State::Empty
    }
}

#[test]
fn the_third_track_in_a_row_is_a_sequential_miss_and_triggers_keep_it_the_last() {
    let mut rig = rig(200);
    for block in 0..8 {
        assert_eq!(rig.read(block, 1), [(block, 1)], "tracks 0 and 1: what was asked");
    }
    assert_eq!(rig.read(8, 1), [(8, 20)]); // the rest of track 2, and tracks 3 to 6
    assert_eq!(rig.triggers(), [(5, 28)]); // m/2 tracks before the end
    assert_eq!(rig.policy().tracks.blocks(), (20, 8));
    let fetches: Vec<(u64, u64)> = (9..60).flat_map(|block| rig.read(block, 1)).collect();
    assert_eq!(fetches, [(28, 16), (44, 16), (60, 16)]);
    assert_eq!((rig.triggers(), rig.policy().misses_all), (Vec::from([(17, 76)]), 1));
}

#[test]
fn requests_of_whole_tracks_count_from_the_first() {
    let mut rig = rig(200);
    assert_eq!(rig.read(0, 8), [(0, 8)]);
    assert_eq!(rig.read(8, 4), [(8, 20)]);
}

#[test]
fn a_track_that_is_not_entered_at_its_first_block_follows_nobody() {
    let mut rig = rig(200);
    rig.read(0, 4);
    rig.read(5, 3);
    rig.read(8, 4);
    assert_eq!((rig.place(1).map(|t| t.counter), rig.place(2).map(|t| t.counter)), (Some(1), Some(2)));
    assert_eq!(rig.read(12, 1), [(12, 20)]);
}

#[test]
fn the_unread_rest_of_a_group_is_younger_than_what_was_read_when_the_next_group_comes() {
    let mut rig = rig(200);
    rig.read(0, 4);
    rig.read(4, 4);
    rig.read(8, 12); // sequential: 20 to 35 are read along
    assert_eq!(rig.triggers(), [(7, 36)]);
    rig.read(20, 8);
    let before = rig.place(8).expect("prefetched").stamp;
    assert!(before < rig.place(6).expect("read").stamp);
    rig.read(28, 1); // the trigger
    let (rest, read) = (rig.place(8).expect("prefetched").stamp, rig.place(6).expect("read").stamp);
    let next = rig.place(9).expect("the next group").stamp;
    assert!(read < rest && rest < next);
}

#[test]
fn equation_6_moves_a_track_to_the_list_that_gains_more() {
    let mut rig = rig(200);
    rig.read(1_000, 1);
    rig.read(2_000, 1);
    rig.read(3_000, 1);
    rig.read(4_000, 1);
    assert_eq!(rig.wanted(), (100, 0));
    rig.read(4_000, 1); // a hit, but not in the bottom
    assert_eq!(rig.wanted().0, 100);
    rig.read(1_000, 1); // in the bottom, and no sequential miss since: 0 < 1
    assert_eq!(rig.wanted().0, 96);
    rig.policy_mut().0.misses = 1;
    rig.read(2_000, 1); // 2 · 1 · 1 / 1 > 1
    assert_eq!(rig.wanted(), (100, 0));
}

#[test]
fn a_sequential_miss_alone_lengthens_seq_while_it_is_short() {
    let mut rig = rig(200);
    rig.read(0, 8);
    rig.read(8, 1); // SEQ is empty: 2 · 1 · 4 > 1
    assert_eq!(rig.wanted(), (104, 0));
}

#[test]
fn the_longer_list_pays_for_memory() {
    let mut rig = rig(32);
    rig.read(0, 4);
    rig.read(4, 4);
    rig.read(8, 4); // SEQ 20 blocks, wanted 16 + 4; RANDOM 8
    rig.read(1_000, 4);
    assert_eq!(rig.policy().tracks.blocks(), (20, 12));
    assert_eq!(rig.wanted().0, 20);
    rig.read(2_000, 1); // SEQ is not longer than wanted: the oldest block of RANDOM goes
    assert!(!rig.is_here(0) && rig.is_here(1) && rig.is_here(8));
    rig.read(1, 1); // in the bottom: SEQ is to be 16
    rig.read(3_000, 1);
    assert!(rig.is_here(1) && !rig.is_here(8) && rig.is_here(9));
}

#[test]
fn a_list_shorter_than_the_bottom_leaves_the_choice_to_age() {
    for (bottom, evicted) in [(1, 1_000), (8, 8)] {
        let mut rig = rig(40);
        rig.policy_mut().0.tracks = Tracks::new(4, bottom);
        rig.read(0, 8);
        rig.read(8, 1); // SEQ has tracks 2 to 6
        for far in 1..=3 {
            rig.read(far * 1_000, 4); // RANDOM has five tracks, and the cache is full
        }
        rig.read(0, 8);
        rig.policy_mut().0.desired = 40; // SEQ is not longer than wanted, so RANDOM would have to pay
        rig.read(4_000, 1);
        let gone: Vec<u64> = [0, 8, 1_000].into_iter().filter(|&block| !rig.is_here(block)).collect();
        assert_eq!(gone, [evicted], "a bottom of {bottom} tracks");
    }
}

#[test]
fn whole_reads_the_track_of_a_miss_and_no_other_file() {
    let mut rig = Rig::new(Sarc::new(SarcConfig { whole: true, ..config(200) }), 200);
    assert_eq!(rig.read(101, 1), [(100, 4)]);
    assert_eq!(rig.read_of(202, 1, Extent::new(202, 1)), [(202, 1)]);
}

#[test]
fn random_and_reverse_reads_cause_no_prefetch_and_files_are_borders() {
    let mut rig = rig(400);
    for n in 0..300_u64 {
        let block = (n * 7_919) % (VOLUME / 2);
        assert_eq!(rig.read(block, 1), [(block, 1)]);
    }
    let back: Vec<u64> = (60_000..60_100).rev().flat_map(|b| rig.read(b, 1)).map(|(_, n)| n).collect();
    assert!(back.iter().all(|&blocks| blocks == 1));
    let file = Extent::new(40_004, 10);
    rig.read(40_000, 4);
    let fetches: Vec<(u64, u64)> = (40_004..40_014).flat_map(|b| rig.read_of(b, 1, file)).collect();
    assert_eq!(fetches.len(), 9, "two tracks block by block, then the rest of the file: {fetches:?}");
    assert_eq!(fetches.last(), Some(&(40_012, 2)));
}

proptest! {
    #[test]
    fn lists_and_sums_agree_with_the_cache(
        degree in 1u64..6, threshold in 1u8..4, whole in any::<bool>(), cache in 24u64..90,
        steps in proptest::collection::vec((0u8..10, 0u64..160, 1u64..10, any::<bool>()), 1..200),
    ) {
        let config = SarcConfig { cache_blocks: cache, track_blocks: 4, degree, threshold, whole };
        let mut rig = Rig::new(Sarc::new(config), cache);
        rig.held = true;
        let mut at = 0;
        for (kind, place, blocks, end) in steps {
            at = if kind < 7 { at } else { place };
            rig.read(at, blocks);
            at = (at + blocks) % 160;
            let flying = rig.flying();
            if end || flying.len() > 3 {
                for start in flying {
                    rig.done(start);
                }
            }
            rig.settled();
            let sarc = rig.policy();
            let here: Vec<u64> = (0..400).filter(|&block| rig.is_here(block)).collect();
            let (seq, random) = sarc.tracks.blocks();
            prop_assert_eq!(seq + random, here.len() as u64);
            for &block in &here {
                let track = *sarc.tracks.get(sarc.tracks.find(block / 4).expect("its track is here"));
                prop_assert!(track.here & (1 << (block % 4)) != 0);
                prop_assert!(track.counter <= threshold);
            }
            let mut numbers: Vec<u64> = here.iter().map(|block| block / 4).collect();
            numbers.dedup();
            let (seq, random) = sarc.tracks.lens();
            prop_assert_eq!(seq + random, numbers.len() as u64, "a track is on one list");
            prop_assert!(sarc.desired <= cache && sarc.groups.is_empty());
        }
    }
}
