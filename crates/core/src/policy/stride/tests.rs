//! Tests of `stride`: what proves a distance, what is wished and how it grows, and when it stops.

use super::*;
use crate::policy::rig::Rig;

fn rig() -> Rig<Stride> {
    Rig::new(Stride::new(StrideConfig::USUAL), 32_768)
}

/// What was asked for by prefetches, when reads of `blocks` begin at these places.
fn wishes(rig: &mut Rig<Stride>, starts: impl IntoIterator<Item = u64>, blocks: u64) -> Vec<Vec<u64>> {
    let of = |start: u64, fetched: Vec<(u64, u64)>| {
        fetched.into_iter().map(|(at, _)| at).filter(|&at| at != start).collect()
    };
    starts.into_iter().map(|start| of(start, rig.read(start, blocks))).collect()
}

#[test]
fn three_equal_distances_prove_a_stride_and_batches_double_as_half_of_them_is_read() {
    let mut rig = rig();
    let asked = wishes(&mut rig, (0..8).map(|k| k * 64), 4);
    let places = |from: u64, to: u64| (from..=to).map(|k| k * 64).collect::<Vec<_>>();
    assert_eq!(asked[..3], [const { Vec::new() }; 3], "nothing before the proof");
    assert_eq!(asked[3], places(4, 7));
    assert!(asked[4].is_empty(), "three of four are ahead");
    assert_eq!(asked[5], places(8, 13), "half is read: eight ahead");
    assert!(asked[6].is_empty() && asked[7].is_empty());
    let rest = wishes(&mut rig, (8..1000).map(|k| k * 64), 4);
    assert_eq!(rest.iter().map(Vec::len).max(), Some(64), "at most half of the most pieces at once");
    let gauge = |name| {
        let mut all = Vec::new();
        rig.policy().gauges(&mut all);
        all.into_iter().find(|(is, _)| *is == name).map(|(_, value)| value)
    };
    assert_eq!(gauge("stride_read_pieces"), Some(996.0), "all but those of the proof");
}

#[test]
fn a_file_that_is_read_from_its_end_is_read_ahead_of_in_joined_extents_and_not_before_its_start() {
    let mut rig = rig();
    let (mut fetched, mut most) = (Vec::new(), Vec::new());
    for start in (0..256).rev().map(|k| k * 4) {
        let here = rig.read(start, 4);
        let ahead = here.iter().filter(|&&(at, _)| at != start).map(|&(_, blocks)| blocks);
        most.extend(ahead.max());
        fetched.extend(here);
    }
    assert_eq!(most[..6], [4, 8, 16, 32, 64, 128], "it waits for the whole of one: short ones first");
    let blocks: u64 = fetched.iter().map(|(_, blocks)| blocks).sum();
    assert_eq!(blocks, 1024, "each block once");
    assert!(fetched.len() < 36, "{} fetches", fetched.len());
    assert!(fetched.iter().all(|&(_, blocks)| blocks <= JOINED_MAX));
}

#[test]
fn no_piece_lies_outside_of_the_file() {
    let mut rig = rig();
    let file = Extent::new(1000, 210);
    for start in (1000..1210).step_by(30) {
        for (at, blocks) in rig.read_of(start, 4, file) {
            assert!(at >= 1000 && at + blocks <= 1210, "{at}+{blocks}");
        }
    }
    assert!(rig.policy().wished == 3, "1120, 1150 and 1180 are wished, 1210 is not: {}", rig.policy().wished);
}

#[test]
fn two_columns_in_turns_are_two_streams() {
    let mut rig = rig();
    let asked = wishes(&mut rig, (0..40).flat_map(|k| [k * 100, 10_000 + k * 70]), 2);
    assert!(asked[6].contains(&400) && asked[7].contains(&10_280), "{:?}", &asked[..8]);
    assert!(asked[8..].iter().flatten().all(|at| at % 100 == 0 || (at - 10_000) % 70 == 0));
    assert_eq!(rig.policy().used, 2 * 36);
}

#[test]
fn sequential_reads_and_reads_at_random_are_left_alone() {
    let mut rig = rig();
    assert!(wishes(&mut rig, (0..500).map(|k| k * 4), 4).iter().all(Vec::is_empty));
    let mut chance = 1_u64;
    let random = core::iter::repeat_with(|| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        chance >> 49
    });
    let asked = wishes(&mut rig, random.take(5_000), 1);
    assert!(asked.iter().flatten().count() < 50, "{}", asked.iter().flatten().count());
}

#[test]
fn a_read_that_is_told_twice_or_left_out_breaks_nothing() {
    let mut rig = rig();
    let twice = (0..12).flat_map(|k| [k * 64, k * 64]);
    assert!(!wishes(&mut rig, twice, 4).concat().is_empty());
    let used = rig.policy().used;
    assert!(wishes(&mut rig, [14 * 64], 4).concat().iter().all(|at| at % 64 == 0));
    assert_eq!(rig.policy().used, used + 1, "two were left out, the third is still of the stream");
}

#[test]
fn a_program_that_does_not_read_what_was_wished_is_left_alone_and_its_long_strides_bring_it_back() {
    let mut rig = rig();
    // Four equal steps in each of many places, and never a fifth.
    let mut asked = Vec::new();
    for place in 0..60_u64 {
        let at = place * 1_000 + place * place % 7;
        asked.push(wishes(&mut rig, (0..4).map(|k| at + k * 9), 1).concat().len());
    }
    assert_eq!(asked[..16].iter().sum::<usize>(), 64);
    assert!(asked[18..].iter().sum::<usize>() == 0, "{asked:?}");
    assert!(rig.policy().refused > 0);
    // It is followed on paper, which shows that it pays again.
    let long = wishes(&mut rig, (0..1_500).map(|k| k * 41), 1);
    assert!(long[..10].iter().all(Vec::is_empty), "not at once");
    assert!(long[40..].concat().len() > 500);
    let mut decisions = Vec::new();
    rig.policy_mut().0.decisions(&mut decisions);
    let programs: Vec<_> = decisions.iter().filter(|d| d.switch == "stride program").map(|d| d.to).collect();
    assert_eq!(programs, ["off", "on"]);
}

#[test]
fn long_pieces_are_held_to_the_bytes_that_may_be_ahead() {
    let config = StrideConfig { ahead: 256, ..StrideConfig::USUAL };
    let mut rig = Rig::new(Stride::new(config), 32_768);
    rig.held = true;
    for k in 0..8 {
        rig.read(k * 1_000, 128);
    }
    let ahead = rig.flying().into_iter().filter(|&at| at > 7_000).count();
    assert!(ahead <= 2, "{ahead} pieces of 512 KiB are ahead of 1 MiB");
}

#[test]
fn without_gaps_only_who_goes_back_by_about_the_length_of_the_reads_is_read_ahead_of() {
    let config = StrideConfig { gaps: false, ..StrideConfig::USUAL };
    let ahead = |step: i64, blocks: u64| {
        let mut rig = Rig::new(Stride::new(config), 32_768);
        rig.held = true;
        (0..8).for_each(|k| _ = rig.read((16_000 + k * step) as u64, blocks));
        rig.flying().into_iter().filter(|&at| !(0..8).any(|k| at == (16_000 + k * step) as u64)).count()
    };
    for (step, blocks) in [(-1, 1), (-4, 4), (-3, 4), (-2, 1), (-5, 4)] {
        assert!(ahead(step, blocks) > 0, "{blocks} blocks every {step}");
    }
    for (step, blocks) in [(-3, 1), (-6, 4), (-50, 4), (3, 1), (50, 2), (8, 4)] {
        assert_eq!(ahead(step, blocks), 0, "{blocks} blocks every {step}");
    }
}
