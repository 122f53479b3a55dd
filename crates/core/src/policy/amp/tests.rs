//! AMP by its rules: (p, g) and the trigger after each event, worked out by hand from the rules of algorithms.md 4.1, and
//! what holds after any events.

use super::pages::Page;
use super::*;
use crate::policy::rig::Rig;
use proptest::prelude::*;

fn rig(cache_blocks: u64) -> Rig<Amp> {
    Rig::new(Amp::new(AmpConfig::USUAL), cache_blocks)
}

impl Rig<Amp> {
    /// Metadata of a page, planned sets settled.
    fn page(&mut self, block: u64) -> Option<Page> {
        let (amp, cache) = self.policy_mut();
        amp.pages.settle(cache);
        amp.pages.of(block, cache)
    }
    /// (p, g) on a page.
    fn pg(&mut self, block: u64) -> (u32, u32) {
        self.page(block).map(|page| (page.degree, page.trigger)).expect("the page is here")
    }
    /// Tagged pages of a range.
    fn tags(&mut self, range: core::ops::Range<u64>) -> Vec<u64> {
        range.filter(|&block| self.page(block).is_some_and(|page| page.tag)).collect()
    }
    /// A reader of single pages, up to where its first set ahead of need is due: 6 to 10 is there, 8 triggers.
    fn warm(&mut self) {
        assert_eq!(self.read(0, 1), [(0, 1)]);
        assert_eq!(self.read(1, 1), [(1, 2)]); // rule 1: p unset, so as much as the request
        assert_eq!((self.pg(2), self.tags(0..3)), ((1, 0), Vec::new()));
        assert_eq!(self.read(2, 1), []);
        assert_eq!(self.pg(2), (2, 0)); // rule 4
        assert_eq!(self.read(3, 1), [(3, 3)]);
        assert_eq!(self.pg(5), (3, 0));
        self.read(4, 1);
        self.read(5, 1);
        assert_eq!(self.pg(5), (4, 0));
        assert_eq!(self.read(6, 1), [(6, 5)]);
        assert_eq!((self.pg(10), self.tags(0..11)), ((5, 2), Vec::from([8]))); // p > APT
        assert_eq!(self.read(7, 1), []);
    }
}

#[test]
fn a_reader_of_single_pages_meets_no_miss_once_p_has_passed_apt() {
    let mut rig = rig(256);
    rig.warm();
    assert_eq!(rig.read(8, 1), [(11, 5)]); // rule 2: p(10) pages from 11
    assert_eq!((rig.pg(15), rig.tags(0..16)), ((5, 2), Vec::from([13]))); // rule 3
    rig.read(9, 1);
    rig.read(10, 1); // rule 4: lands on the newest set
    assert_eq!((rig.pg(10), rig.pg(15)), ((5, 2), (6, 2)));
    rig.read(11, 1);
    rig.read(12, 1);
    assert_eq!(rig.read(13, 1), [(16, 6)]);
    assert_eq!((rig.pg(21), rig.tags(0..22)), ((6, 2), Vec::from([19])));
    let fetches: Vec<(u64, u64)> = (14..40).flat_map(|block| rig.read(block, 1)).collect();
    assert_eq!(fetches, [(22, 7), (29, 8), (37, 9)], "a page more each time");
}

#[test]
fn a_set_that_comes_late_moves_the_trigger_of_the_next_one_forward() {
    let mut rig = rig(256);
    rig.warm();
    rig.held = true;
    assert_eq!(rig.read(8, 1), [(11, 5)]);
    rig.read(9, 1);
    rig.read(10, 1);
    rig.read(11, 1); // late: the set is in flight
    assert_eq!(rig.pg(15), (6, 2));
    rig.done(11);
    assert_eq!((rig.pg(15), rig.tags(11..16)), ((6, 3), Vec::from([13]))); // rule 6
    rig.read(12, 1);
    assert_eq!(rig.read(13, 1), [(16, 6)]);
    assert_eq!((rig.pg(21), rig.tags(16..22)), ((6, 3), Vec::from([18])));
}

#[test]
fn only_a_reader_that_waits_for_the_first_page_of_a_set_makes_g_grow() {
    let mut rig = rig(256);
    rig.warm();
    rig.held = true;
    rig.read(8, 1);
    rig.read(12, 1); // not the first page of 11 to 15
    rig.done(11);
    assert_eq!(rig.pg(15), (5, 2));
}

#[test]
fn g_stays_below_p() {
    let mut rig = rig(256);
    rig.warm();
    rig.held = true;
    rig.read(8, 1);
    for block in 9..=11 {
        rig.read(block, 1);
    }
    let (amp, cache) = rig.policy_mut();
    amp.pages.get_mut(cache.find(Block(15)).expect("in flight")).request = 64;
    rig.done(11);
    assert_eq!(rig.pg(15), (6, 5));
}

#[test]
fn unread_pages_at_the_old_end_stay_once_and_make_p_and_g_shrink() {
    let mut rig = rig(8);
    for block in 0..4 {
        rig.read(block, 1); // 0, 1-2 and 3-5; 4 and 5 are unread, p(5) = 3
    }
    assert_eq!(rig.pg(5), (3, 0));
    for far in 1..=6 {
        rig.read(far * 1_000, 1); // two fill the cache, four take the places of 0 to 3
    }
    assert_eq!((rig.page(3), rig.pg(5)), (None, (3, 0)));
    rig.read(7_000, 1); // rule 5: 4 and 5 are old now and young again; 1000 goes in their place
    assert_eq!((rig.page(1_000), rig.pg(5)), (None, (1, 0)));
    assert!(rig.page(4).is_some_and(|page| page.old));
    assert_eq!(rig.read(5, 1), []);
    assert_eq!(rig.pg(5), (1, 0), "rule 4 does not count a page that has needed its second chance");
    for far in 8..=14 {
        rig.read(far * 1_000, 1);
    }
    assert_eq!(rig.page(4), None, "there is no third chance");
}

#[test]
fn a_second_chance_takes_the_tag_and_keeps_g_below_p() {
    let mut rig = rig(12);
    rig.warm();
    for far in 1..=9 {
        rig.read(far * 1_000, 1); // 12 pages hold 0 to 10 and one more: from the second on, pages leave
    }
    assert_eq!((rig.pg(10), rig.tags(8..11)), ((5, 2), Vec::from([8])));
    rig.read(10_000, 1); // 8, 9 and 10 are unread: p = 5 - 3, and g may be p - 1 at most
    assert_eq!((rig.pg(10), rig.tags(8..11)), ((2, 0), Vec::new()));
}

#[test]
fn the_first_use_of_a_prefetched_page_does_not_make_it_young_and_the_second_does() {
    for (uses, stays) in [(1, false), (2, true)] {
        let mut rig = rig(4);
        rig.read(0, 1);
        rig.read(1, 1); // brings 2
        rig.read(1_000, 1);
        for _ in 0..uses {
            rig.read(2, 1);
        }
        for far in 2..=4 {
            rig.read(far * 1_000, 1); // in the places of 0, 1 and the next oldest
        }
        assert_eq!(rig.page(2).is_some(), stays, "{uses} uses");
    }
}

#[test]
fn pages_read_over_and_over_do_not_make_p_grow() {
    let mut rig = rig(64);
    for _ in 0..100 {
        rig.read(500, 1);
    }
    assert_eq!(rig.read(501, 1), [(501, 2)]);
}

#[test]
fn a_request_over_trigger_and_last_page_adapts_the_set_that_it_has_just_asked_for() {
    let mut rig = rig(256);
    rig.warm();
    assert_eq!(rig.read(8, 3), [(11, 5)]);
    assert_eq!((rig.pg(10), rig.pg(15)), ((5, 2), (8, 2)));
}

#[test]
fn a_request_that_runs_over_the_end_of_its_set_is_a_sequential_miss() {
    let mut rig = rig(256);
    rig.warm();
    // 8 triggers, but 11 is asked for by the same request: rule 4 makes p(10) = 5 + 5, rule 1 reads 13 to 22 along.
    assert_eq!(rig.read(8, 5), [(11, 12)]);
    assert_eq!((rig.pg(22), rig.tags(8..23)), ((15, 2), Vec::from([20])));
}

#[test]
fn nothing_is_read_beyond_the_end_of_the_file_or_because_of_what_lies_before_it() {
    let file = Extent::new(100, 10);
    let mut rig = rig(256);
    rig.read(99, 1);
    assert_eq!(rig.read_of(100, 1, file), [(100, 1)], "99 is in another file");
    let fetches: Vec<(u64, u64)> = (101..110).flat_map(|block| rig.read_of(block, 1, file)).collect();
    assert_eq!(fetches, [(101, 2), (103, 3), (106, 4)]);
}

#[test]
fn a_larger_k_waits_for_more_pages_in_a_row() {
    let config = AmpConfig { predecessors: 3, ..AmpConfig::USUAL };
    let mut rig = Rig::new(Amp::new(config), 64);
    for block in 0..3 {
        assert_eq!(rig.read(block, 1), [(block, 1)]);
    }
    assert_eq!(rig.read(3, 1), [(3, 2)]);
}

#[test]
fn p_is_capped() {
    let config = AmpConfig { degree_max: 6, ..AmpConfig::USUAL };
    let mut rig = Rig::new(Amp::new(config), 256);
    let longest = (0..200).flat_map(|block| rig.read(block, 1)).map(|(_, blocks)| blocks).max();
    assert_eq!(longest, Some(6));
}

proptest! {
    #[test]
    fn after_any_reads_g_is_below_p_and_p_within_its_bound(
        threshold in 1u32..12, degree_max in 1u32..40, predecessors in 1u64..4, cache in 12u64..80,
        steps in proptest::collection::vec((0u8..10, 0u64..120, 1u64..9, any::<bool>()), 1..250),
    ) {
        let config = AmpConfig { threshold, degree_max, predecessors };
        let mut rig = Rig::new(Amp::new(config), cache);
        rig.held = true;
        let mut at = 0;
        for (kind, place, blocks, end) in steps {
            at = if kind < 7 { at } else { place };
            rig.read(at, blocks);
            at = (at + blocks) % 120;
            let flying = rig.flying();
            if end || flying.len() > 3 {
                for start in flying {
                    rig.done(start);
                }
            }
            let mut here = 0;
            for block in 0..200 {
                if rig.hand.engine.cache().find(Block(block)).is_none() {
                    continue;
                }
                here += 1;
                let page = rig.page(block).expect("it is in the cache");
                prop_assert!(page.degree <= degree_max);
                prop_assert!(page.trigger <= page.degree.saturating_sub(1));
                prop_assert!(page.degree == 0 || page.last == block, "p and g stand on last pages only");
            }
            let amp = rig.policy();
            prop_assert_eq!(amp.list.resident(), here, "every page is listed once");
            prop_assert!(here as u64 <= rig.hand.engine.cache().slots.capacity());
        }
    }
}
