//! The controllers: `rpp` over schemes that wish at every chance, against the letter's rules written down block by block;
//! `regions` where the letter sees nothing.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::cost::CostModel;
use forerun_core::pattern::Pattern;
use forerun_core::policy::linux26::Linux26;
use forerun_core::policy::regions::Regions;
use forerun_core::policy::rpp::Rpp;
use forerun_core::policy::{DeviceRead, Event, Fetched, Lookup, Outcome, Plan, Policy, Wake, When, World};
use forerun_core::registry::{Layer, LayerShape, SchemeSpec};
use forerun_core::units::{Extent, Nanos};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Blocks of each file of the tests.
const FILE: u64 = 4_096;

/// A policy over a volume of files in which whatever it wished for is there at the next access.
struct Bench<P> {
    policy: P,
    array: Array,
    cache: Cache,
    here: BTreeSet<u64>,
    /// Whether files are known to end.
    files_end: bool,
}

impl<P: Policy> Bench<P> {
    fn new(policy: P) -> Self {
        let array = support::schemes::array("single:16KiB", 1 << 16);
        Self { policy, array, cache: Cache::new(1, 128_000), here: BTreeSet::new(), files_end: false }
    }
    fn tell(&mut self, event: &Event<'_>) -> Vec<Extent> {
        let (cost, blocks) = (CostModel::default(), self.array.capacity_blocks());
        let (cache, array) = (&self.cache, &self.array);
        let world =
            World { now: Nanos(0), cache, array, cost: &cost, filled: true, blocks, ahead_in_flight: 0 };
        let mut plan = Plan::new();
        self.policy.tell(event, &world, &mut plan);
        plan.wishes().iter().map(|wish| wish.extent).collect()
    }
    /// The wishes for one read of a file.
    fn read_of(&mut self, file: u64, start: u64, blocks: u64) -> Vec<Extent> {
        self.read_by(1, file, start, blocks)
    }
    /// The same by another process.
    fn read_by(&mut self, process: u64, file: u64, start: u64, blocks: u64) -> Vec<Extent> {
        let mut access = Access::read(Context::new(process, file), Extent::new(file * FILE + start, blocks));
        if self.files_end {
            access.within = Extent::new(file * FILE, FILE);
        }
        let outcome = |b| if self.here.contains(&b) { Outcome::PrefetchHit } else { Outcome::Miss };
        let outcomes: Vec<Outcome> = access.extent.iter().map(|b| outcome(b.0)).collect();
        let wishes = self.tell(&Event::Access(&access, Lookup { outcomes: &outcomes }));
        self.here.extend(access.extent.iter().map(|b| b.0));
        self.here.extend(wishes.iter().flat_map(|w| w.start.0..w.end()));
        wishes
    }
    /// (block read, first block and number of blocks wished), of file 0.
    fn windows(&mut self, reads: impl IntoIterator<Item = u64>) -> Vec<(u64, u64, u64)> {
        let mut windows = Vec::new();
        for at in reads {
            windows.extend(self.read_of(0, at, 1).iter().map(|w| (at, w.start.0, w.blocks)));
        }
        windows
    }
}

/// `linux-2.6` with 32 blocks, under the controller.
fn linux(threshold: u64) -> Rpp {
    Rpp::new(Box::new(Linux26::new(32)), threshold)
}

#[test]
fn a_proven_run_gets_the_windows_that_the_start_of_a_file_gets() {
    // algorithms.md 3.2: 4@0, 8@4 (at 1), 16@12 (4), 32@28 (12), 32@60 (28); here from the proof, block 4, on.
    assert_eq!(
        Bench::new(linux(4)).windows(0..50),
        [(4, 4, 4), (5, 8, 8), (8, 16, 16), (16, 32, 32), (32, 64, 32)]
    );
    assert_eq!(Bench::new(linux(16)).windows(0..50)[..2], [(16, 16, 4), (17, 20, 8)]);
}

#[test]
fn a_loop_is_read_ahead_at_once_and_never_beyond_its_end() {
    let mut bench = Bench::new(linux(4));
    bench.windows(0..40);
    bench.here.clear();
    assert_eq!(
        bench.windows(0..40),
        [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 12)],
        "the last window would be 28 to 59; the loop ends with 39"
    );
}

#[test]
fn a_start_that_comes_back_later_is_a_loop_only_where_runs_are_remembered() {
    let again = |rpp: Rpp| {
        let mut bench = Bench::new(rpp);
        bench.windows((0..40).chain(1_000..1_040));
        bench.here.clear();
        bench.windows(0..2)
    };
    assert_eq!(again(linux(4)), [(0, 0, 4), (1, 4, 8)]);
    assert_eq!(again(linux(4).remembering(1)), [(0, 0, 4), (1, 4, 8)]);
    assert_eq!(again(linux(4).remembering(0)), [], "the letter remembers none: it must be proven anew");
    let mut looping = Bench::new(linux(4).remembering(0));
    looping.windows(0..40);
    looping.here.clear();
    assert_eq!(
        looping.windows(0..2),
        [(0, 0, 4), (1, 4, 8)],
        "back at the start at once is the letter's loop"
    );
}

#[test]
fn a_loop_that_goes_on_beyond_its_end_is_met_with_the_unclamped_window() {
    let mut bench = Bench::new(linux(4));
    bench.windows(0..40);
    bench.here.clear();
    let windows = bench.windows(0..100);
    // What was held back, the rest of 28 to 59 and all of 60 to 91, comes at once; to linux-2.6 block 40 is a miss in
    // its window, which makes the next one two shorter.
    assert_eq!(windows[3..], [(12, 28, 12), (40, 40, 52), (60, 92, 30), (92, 122, 32)]);
}

#[test]
fn every_read_ahead_begins_at_the_proof_and_at_once_when_the_loop_begins_again() {
    let shape = LayerShape { cache_blocks: 4_096, strip_blocks: 32, stripe_strips: 1, disks: 1, heads: true };
    for inner in ["linux-2.4", "linux-2.6", "linux-ondemand", "linux-6", "seqp:64KiB"] {
        let spec = SchemeSpec::parse(&format!("rpp({inner})")).expect("a scheme");
        let mut bench = Bench::new(spec.build(Layer::Host, &shape).scheme);
        let first = bench.windows(0..40);
        assert_eq!(first[0].0, 4, "{inner}: {first:?}");
        assert_eq!(bench.windows([900, 300, 700]), [], "{inner}");
        bench.here.clear();
        let again = bench.windows(0..40);
        assert_eq!(again[0].0, 0, "{inner}: {again:?}");
        assert!(again.iter().all(|w| w.1 + w.2 <= 40), "{inner}: {again:?}");
    }
}

#[test]
fn a_large_read_is_handed_over_from_the_block_that_proves_it() {
    let mut bench = Bench::new(linux(4));
    assert_eq!(bench.read_of(0, 0, 36), [Extent::new(4, 32), Extent::new(36, 32)]);
    let mut bench = Bench::new(linux(4));
    assert_eq!(bench.read_of(0, 0, 4), []);
}

#[test]
fn strided_reverse_and_short_runs_are_left_alone_however_long_it_goes_on() {
    assert_eq!(Bench::new(linux(4)).windows((0..2_000).step_by(3)), []);
    assert_eq!(Bench::new(linux(4)).windows((0..2_000).rev()), []);
    assert_eq!(Bench::new(linux(4)).windows((0..2_000).filter(|b| b % 5 != 4)), []);
}

#[test]
fn each_file_is_proven_for_itself() {
    let mut bench = Bench::new(linux(4));
    for at in 0..4 {
        assert_eq!([bench.read_of(0, at, 1), bench.read_of(1, at, 1)], [[], []]);
    }
    assert_eq!(bench.read_of(0, 4, 1), [Extent::new(4, 4)]);
    assert_eq!(bench.read_of(1, 900, 1), []);
    assert_eq!(bench.read_of(1, 4, 1), []);
}

/// Wishes for everything near at every event, and notes what it is told.
struct Greedy(Arc<Mutex<Vec<Access>>>);

impl Greedy {
    fn wish(near: u64, plan: &mut Plan) {
        plan.fetch(Extent::new(near.saturating_sub(9), 60), When::Ahead);
        plan.fetch(Extent::new(near, 1), When::WithDemand);
        plan.fetch_mass(Extent::new(near + 3, 4_000));
    }
}

impl Policy for Greedy {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, _: &World<'_>, plan: &mut Plan) {
        assert_eq!(lookup.outcomes.len() as u64, access.extent.blocks, "an outcome for each block");
        assert!(access.within.intersect(access.extent) == access.extent, "an access lies in its file");
        self.0.lock().expect("one thread").push(*access);
        Self::wish(access.extent.start.0, plan);
    }
    fn on_fetched(&mut self, fetched: &Fetched, _: &World<'_>, plan: &mut Plan) {
        Self::wish(fetched.extent.start.0, plan);
    }
    fn hears_device_reads(&mut self) -> bool {
        true
    }
    fn on_device_read(&mut self, read: &DeviceRead, _: &World<'_>, plan: &mut Plan) {
        Self::wish(read.extent.start.0, plan);
    }
    fn on_wake(&mut self, token: u64, _: &World<'_>, plan: &mut Plan) {
        Self::wish(token, plan);
    }
}

/// The letter's sections 3.2 and 3.3 for one file, one block at a time, everything kept.
#[derive(Default)]
struct Letter {
    start: u64,
    end: u64,
    last: Option<u64>,
    pattern: Pattern,
    /// Proven runs that ended, oldest first.
    ended: Vec<(u64, u64)>,
    /// The loop's end, until the reader has passed it.
    hold: Option<u64>,
}

impl Letter {
    fn block(&mut self, block: u64, threshold: u64) {
        if self.last == Some(block) {
            return;
        }
        if self.last.is_some_and(|last| last + 1 == block) {
            self.end = self.end.max(block);
            self.hold = self.hold.filter(|&hold| block <= hold);
            if self.pattern == Pattern::Random && self.end - self.start + 1 > threshold {
                self.pattern = Pattern::Sequential;
            }
        } else if self.pattern != Pattern::Random && block == self.start {
            self.pattern = Pattern::Looping;
            self.hold = Some(self.end);
        } else {
            if self.pattern != Pattern::Random {
                self.ended.retain(|run| run.0 != self.start);
                self.ended.push((self.start, self.end));
            }
            let recent = self.ended.iter().rev().take(4).find(|run| run.0 == block).copied();
            (self.start, self.end) = recent.unwrap_or((block, block));
            self.hold = recent.map(|run| run.1);
            self.pattern = if recent.is_some() { Pattern::Looping } else { Pattern::Random };
            if self.ended.len() > 4 {
                self.ended.remove(0);
            }
        }
        self.last = Some(block);
    }
}

/// Requests that make runs, loops, jumps and re-reads likely: (file, kind, blocks).
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    proptest::collection::vec((0_u64..2, 0_u64..12, 1_u64..12), 1..160)
}

proptest! {
    #[test]
    fn nothing_is_wished_before_the_proof_nor_beyond_a_loop_nor_at_random(
        reads in requests(), threshold in 1_u64..9,
    ) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut bench = Bench::new(Rpp::new(Box::new(Greedy(Arc::clone(&told))), threshold));
        bench.files_end = true;
        let mut letters: BTreeMap<u64, Letter> = BTreeMap::new();
        for (file, kind, blocks) in reads {
            let letter = letters.entry(file).or_default();
            let next = letter.last.map_or(0, |last| last - file * FILE + 1);
            let at = match kind {
                0..=5 => next.min(FILE - 12),
                6 => next.saturating_sub(1),
                7 | 8 => letter.start.saturating_sub(file * FILE),
                9 => 0,
                k => k * 97 % 64,
            };
            told.lock().expect("one thread").clear();
            let wishes = bench.read_of(file, at, blocks);
            for block in at..at + blocks {
                letter.block(file * FILE + block, threshold);
            }
            let told_of = told.lock().expect("one thread").clone();
            if letter.pattern == Pattern::Random {
                prop_assert!(wishes.is_empty() && told_of.is_empty(), "at random");
                let fetched = Fetched {
                    context: Context::new(1, file), extent: Extent::new(file * FILE + at, blocks),
                    took: Nanos(1), was_prefetch: false, reader_waiting: true,
                };
                prop_assert!(bench.tell(&Event::Fetched(&fetched)).is_empty());
                continue;
            }
            prop_assert_eq!(told_of.len(), 1);
            prop_assert!(!wishes.is_empty(), "a proven run is handed over");
            let end = letter.hold.unwrap_or((file + 1) * FILE - 1);
            let proof = if letter.pattern == Pattern::Sequential { letter.start + threshold } else { letter.start };
            for wish in wishes {
                prop_assert!(wish.start.0 >= proof && wish.end() <= end + 1, "{wish:?} of {proof} to {end}");
            }
            let woken = bench.tell(&Event::Wake(Wake::new(Nanos(at), at)));
            prop_assert!(woken.is_empty(), "a wake-up proves nothing");
        }
    }
}

/// `linux-2.6` with 32 blocks, under `regions`.
fn regions() -> Bench<Regions> {
    let mut bench = Bench::new(Regions::new(Box::new(Linux26::new(32)), 4));
    bench.files_end = true;
    bench
}

#[test]
fn two_readers_of_one_file_are_two_streams() {
    let (mut ours, mut letter) = (regions(), Bench::new(linux(4)));
    let mut wished = [0_usize; 4];
    for k in 0..40 {
        wished[0] += ours.read_by(1, 0, k, 1).len();
        wished[1] += ours.read_by(2, 0, 2_000 + k, 1).len();
        wished[2] += letter.read_by(1, 0, k, 1).len();
        wished[3] += letter.read_by(2, 0, 2_000 + k, 1).len();
    }
    assert_eq!(
        wished,
        [5, 5, 0, 0],
        "the windows of a proven run for either; to the letter it is all random"
    );
}

#[test]
fn a_scan_goes_on_among_look_ups_in_the_same_file() {
    let mut bench = regions();
    let mut windows = Vec::new();
    for k in 0..50_u64 {
        windows.extend(bench.read_of(0, 100 + k, 1));
        assert_eq!(bench.read_of(0, 1_000 + k * k % 2_999, 1), [], "look-up {k}");
    }
    let expected = [(104, 4), (108, 8), (116, 16), (132, 32), (164, 32)].map(|(at, n)| Extent::new(at, n));
    assert_eq!(windows, expected);
}

#[test]
fn single_reads_at_random_wish_for_nothing() {
    let mut bench = regions();
    let mut rng = support::Rng::new(5);
    for _ in 0..3_000 {
        assert_eq!(bench.read_of(0, 40 + 8 * rng.below(500) * 7 % 4_000, 1).len(), 0);
    }
}

#[test]
fn equal_steps_are_wished_ahead_forwards_and_backwards_within_the_file() {
    let mut bench = regions();
    let wishes: Vec<(u64, u64, u64)> = bench.windows((0..12).map(|k| 100 + 50 * k));
    let first = wishes[0];
    assert_eq!(first, (300, 350, 1), "four equal steps: the next target");
    assert!(wishes.iter().all(|&(at, start, blocks)| start > at && (start - 100) % 50 == 0 && blocks == 1));
    assert_eq!(wishes.iter().map(|w| w.1).max(), Some(650 + 50 * 8), "eight steps at most");
    let back = regions().windows((0..100).rev());
    assert!(!back.is_empty() && back.iter().all(|&(at, start, blocks)| start + blocks <= at), "{back:?}");
    let edge = regions().windows((0..6).map(|k| 50 * (5 - k)));
    assert!(edge.iter().all(|&(at, start, _)| start < at), "nothing lies before the file: {edge:?}");
}

#[test]
fn a_fault_that_maps_what_follows_is_no_break() {
    let mut bench = regions();
    bench.windows(0..10);
    // Sixteen pages are mapped around each fault, so the next fault is behind them.
    let windows = bench.windows([16, 32, 48, 64, 80]);
    assert!(windows.iter().all(|&(at, start, blocks)| start + blocks > at), "{windows:?}");
    assert!(windows.len() >= 3, "{windows:?}");
}

#[test]
fn one_request_proves_nothing_by_its_length_and_a_stream_that_was_hardly_read_on_has_no_holes() {
    let mut bench = regions();
    assert_eq!(bench.read_of(0, 100, 8), [], "eight blocks in one request");
    assert_eq!(bench.read_of(0, 112, 8), [], "four blocks behind them");
    assert_eq!(bench.read_of(0, 120, 8), [Extent::new(120, 16)], "the second request goes on: proven");
    assert_eq!(bench.read_of(0, 140, 8), [], "no hole yet: a stream of its own");
    let mut used_to = regions();
    let mut wished = 0;
    for at in (0..40).step_by(8) {
        used_to.read_of(0, 100 + at, 8);
    }
    let mut at = 140;
    for hole in [4, 9, 2, 7, 11, 3, 8, 5] {
        at += hole;
        wished += used_to.read_of(0, at, 8).len();
        at += 8;
    }
    assert!(wished > 0, "four requests went on, so what lies between two others is a hole");
}

#[test]
fn a_process_that_reads_files_from_their_start_need_not_prove_each() {
    let mut bench = regions();
    let mut first_wish = Vec::new();
    for file in 0..6 {
        first_wish.push((0..8).find(|&at| !bench.read_of(file, at, 1).is_empty()));
    }
    assert_eq!(first_wish, [Some(4), Some(4), Some(4), Some(0), Some(0), Some(0)]);
    for file in 6..9 {
        bench.read_of(file, 0, 1);
        bench.read_of(file, 700, 1);
    }
    assert_eq!((0..8).find(|&at| !bench.read_of(9, at, 1).is_empty()), Some(4), "the habit is gone");
}

#[test]
fn loops_are_clamped_in_a_stream_as_in_a_file() {
    let mut bench = regions();
    bench.windows((0..40).chain([900, 300, 700]));
    bench.here.clear();
    assert_eq!(bench.windows(0..40), [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 12)]);
}
