//! The judge over loads of a few numbers: what shadows say readers wait, and what real ones do.

use super::*;

const NS_A_READ: u64 = 1_000_000;

/// What readers wait for a read under each of three schemes, ns: by shadows, and really.
struct Load {
    shadows: [u64; 3],
    real: [u64; 3],
}

fn run(load: &Load, seconds: u64) -> (Judge, Vec<usize>) {
    run_by(|live| (load.shadows, load.real[live]), seconds)
}

/// The same of a load that hangs on who decides; what is read ahead costs disks.
fn run_by(waits: impl Fn(usize) -> ([u64; 3], u64), seconds: u64) -> (Judge, Vec<usize>) {
    let works = [2, 2, 1].map(|n| n * NS_A_READ);
    run_over(Judge::new(3, true, Nanos(0)), works, |live, _| waits(live), seconds)
}

/// So many seconds of a load, with the first scheme in the beginning: who decided in each batch of a tenth of a second. What shadows and
/// real readers wait may hang on who decides and on the number of the batch.
fn run_over(
    judge: Judge,
    works: [u64; 3],
    waits: impl Fn(usize, u64) -> ([u64; 3], u64),
    seconds: u64,
) -> (Judge, Vec<usize>) {
    run_beside(judge, works, waits, seconds, |_| false)
}

/// The same, where some candidates say that they lose before they gain.
fn run_beside(
    mut judge: Judge,
    works: [u64; 3],
    waits: impl Fn(usize, u64) -> ([u64; 3], u64),
    seconds: u64,
    invests: impl Fn(usize) -> bool,
) -> (Judge, Vec<usize>) {
    let (mut live, mut lived) = (0, Vec::new());
    for batch in 1..=seconds * 10 {
        // Loads are never quite even.
        let reads = 28 + batch % 9;
        let (shadows, real) = waits(live, batch);
        judge.begin(real * reads, live);
        for (at, (wait, work)) in shadows.iter().zip(works).enumerate() {
            judge.waited(at, wait * reads, work * reads);
        }
        judge.end(Nanos(batch * 100_000_000), reads);
        lived.push(live);
        if let Some(verdict) = judge.verdict(live, 2, invests(live)) {
            live = verdict.candidate;
        }
    }
    (judge, lived)
}

#[test]
fn a_scheme_whose_shadow_seems_no_better_is_tried_and_stays_where_its_readers_wait_less() {
    let shadows = [10, 11, 12].map(|n| n * NS_A_READ);
    let (judge, lived) = run(&Load { shadows, real: [30, 31, 10].map(|n| n * NS_A_READ) }, 30);
    assert_eq!(lived.last(), Some(&2), "changes {}", judge.changes);
    assert!(lived[100..].iter().all(|&at| at == 2), "it has found that within ten seconds");
}

#[test]
fn what_loses_before_it_gains_is_left_for_what_has_gained_already() {
    for (shadows, last) in [([40, 10, 40], 1), ([40, 20, 40], 0), ([40, 40, 10], 0), ([40, 10, 12], 0)] {
        let waits = |live: usize, _| (shadows.map(|n| n * NS_A_READ), shadows[live] * NS_A_READ);
        let judge = Judge::new(3, true, Nanos(0));
        let (_, lived) = run_beside(judge, [2, 2, 1], waits, 5, |live| live == 0);
        assert_eq!(lived.last(), Some(&last), "{shadows:?}");
    }
}

#[test]
fn none_is_held_out_in_spite_of_its_shadow_and_stays_where_readers_wait_less() {
    let shadows = [10, 11, 20].map(|n| n * NS_A_READ);
    let (judge, lived) = run(&Load { shadows, real: [30, 31, 10].map(|n| n * NS_A_READ) }, 120);
    assert_eq!(lived.last(), Some(&2), "changes {}", judge.changes);
    assert!(lived[600..].iter().all(|&at| at == 2), "it has found that within a minute");
}

#[test]
fn a_hold_out_that_loses_costs_little() {
    for longer in [2, 4, 60] {
        let shadows = [10, 11, 10 * longer].map(|n| n * NS_A_READ);
        let (judge, lived) = run(&Load { shadows, real: shadows }, 200);
        assert_eq!(lived.last(), Some(&0), "{longer} times as long");
        let held = lived.iter().filter(|&&at| at == 2).count();
        assert_eq!(held > 0, longer < 60, "it is proved, unless that would cost too much: {longer}");
        assert!(judge.trials.lost() < i128::from(judge.real_sum) / 32, "{longer}: {}", judge.trials.lost());
    }
}

#[test]
fn trials_that_lose_are_broken_off_and_cost_a_share_of_what_is_waited() {
    let shadows = [10, 11, 12].map(|n| n * NS_A_READ);
    let (judge, lived) = run(&Load { shadows, real: [10, 100, 100].map(|n| n * NS_A_READ) }, 120);
    assert_eq!(lived.last(), Some(&0));
    let elsewhere = lived.iter().filter(|&&at| at != 0).count();
    assert!(elsewhere > 0 && elsewhere < 40, "{elsewhere} of 1,200 batches");
    assert!(judge.trials.lost() < i128::from(judge.real_sum) / 8, "{}", judge.trials.lost());
}

#[test]
fn who_does_the_same_is_not_tried_and_without_any_nobody_waits_longer() {
    let (judge, lived) = run(&Load { shadows: [NS_A_READ; 3], real: [NS_A_READ; 3] }, 60);
    assert_eq!((judge.trials.count(), judge.changes), (0, 1));
    assert_eq!(lived.last(), Some(&2));
}

#[test]
fn what_gains_less_than_a_change_is_worth_is_not_read_ahead_and_what_gains_more_is() {
    for (gain, last) in [(101, 2), (102, 2), (106, 0), (120, 0)] {
        let shadows = [100, 200, gain].map(|n| n * NS_A_READ / 100);
        let (judge, lived) = run(&Load { shadows, real: shadows }, 30);
        assert_eq!((lived.last(), judge.changes), (Some(&last), u64::from(last == 2)), "none at {gain}");
    }
}

#[test]
fn what_costs_the_disks_no_more_need_not_be_earned() {
    let stays = |works: [u64; 3]| {
        let judge = Judge::new(3, true, Nanos(0));
        let (_, lived) = run_over(judge, works, |_, _| ([NS_A_READ; 3], NS_A_READ), 30);
        lived.last() == Some(&0)
    };
    assert!(stays([100, 100, 100]) && stays([102, 102, 100]) && !stays([110, 110, 100]));
}

#[test]
fn above_a_layer_of_ours_a_trial_at_a_lucky_time_is_not_won() {
    // Reads come from the memory below for a third of the time and from its disks for the rest, whoever decides.
    let stays = |over_devices: bool, period: u64| {
        let waits = |_, batch| {
            let real = if batch % period < period / 3 { NS_A_READ } else { 30 * NS_A_READ };
            ([10, 30, 12].map(|n| n * NS_A_READ), real)
        };
        let judge = Judge::new(3, over_devices, Nanos(0));
        let (judge, _) = run_over(judge, [NS_A_READ; 3], waits, 60);
        assert!(judge.trials.count() > 0);
        judge.changes == 0
    };
    let all = |over_devices| (9..90).filter(|&period| !stays(over_devices, period)).count();
    let (above_ours, over_devices) = (all(false), all(true));
    assert!(above_ours <= 2 && over_devices > 20, "{above_ours} and {over_devices} of 81");
}

#[test]
fn above_a_layer_of_ours_a_trial_of_what_is_better_is_won() {
    let real = [30, 31, 10].map(|n| n * NS_A_READ);
    let judge = Judge::new(3, false, Nanos(0));
    let waits = |live: usize, _| ([10, 11, 12].map(|n| n * NS_A_READ), real[live]);
    let (_, lived) = run_over(judge, [NS_A_READ; 3], waits, 30);
    assert_eq!(lived.last(), Some(&2));
}

#[test]
fn who_begins_anew_is_not_turned_to_in_the_beginning() {
    // A batch takes a hundred milliseconds.
    let first = |late: bool| {
        let judge = Judge::new(3, true, Nanos(0)).with_late([false, late, false].into());
        let waits = |_, _| ([10, 3, 30].map(|n| n * NS_A_READ), 10 * NS_A_READ);
        run_over(judge, [NS_A_READ; 3], waits, 60).1.iter().position(|&at| at == 1).expect("it is better")
    };
    let (soon, late) = (first(false), first(true));
    assert!(soon < 10 && (10..20).contains(&late), "{soon} and {late}");
}

#[test]
fn shadows_that_are_alike_are_off_alike() {
    let mut judge = Judge::new(2, true, Nanos(0));
    // The first was seen to wait three times what its shadow does, and the other at another time a third.
    for _ in 0..32 {
        judge.ratios[0].add(3 * NS_A_READ, NS_A_READ);
        judge.ratios[1].add(NS_A_READ, 3 * NS_A_READ);
    }
    let spans = |judge: &mut Judge, other: u64| {
        judge.waits.chunks_mut(2).for_each(|row| row.copy_from_slice(&[NS_A_READ, other]));
        judge.spans = 40;
        judge.gain(1, 40, GAIN_PERCENT, CERTAIN).is_some()
    };
    assert!(!spans(&mut judge, NS_A_READ * 99 / 100), "a hundredth less is no gain");
    assert!(spans(&mut judge, NS_A_READ * 96 / 100), "what shadows say themselves counts");
    assert!(spans(&mut judge, NS_A_READ * 2), "and what they were off, where they differ");
}

#[test]
fn a_scheme_that_keeps_not_what_its_shadow_promised_is_left_for_one_that_did() {
    let shadows = [10, 3, 30].map(|n| n * NS_A_READ);
    let (judge, lived) = run(&Load { shadows, real: [10, 20, 30].map(|n| n * NS_A_READ) }, 60);
    assert!(lived.contains(&1), "it seems much better");
    assert_eq!(lived.last(), Some(&0), "and is not");
    assert!(judge.changes <= 6, "{} changes", judge.changes);
}

#[test]
fn who_seems_better_only_on_the_reads_of_another_is_left_at_once_and_seldom_comes_back() {
    // Each shadow is right about its own scheme, and promises much of the reads that the other one makes.
    let waits = |live| match live {
        1 => ([4, 20, 30].map(|n| n * NS_A_READ), 20 * NS_A_READ),
        _ => ([10, 3, 30].map(|n| n * NS_A_READ), 10 * NS_A_READ),
    };
    let (judge, lived) = run_by(waits, 240);
    let spent = lived.iter().filter(|&&at| at == 1).count();
    assert!(spent > 0 && spent < lived.len() / 12, "{spent} of {} batches", lived.len());
    assert_eq!(lived.last(), Some(&0), "{} changes", judge.changes);
}
