//! What `msp` and `linux-2.6` wish for, access by access, without an engine.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::cost::CostModel;
use forerun_core::policy::linux26::Linux26;
use forerun_core::policy::msp::Msp;
use forerun_core::policy::{Lookup, Outcome, Plan, Policy, World};
use forerun_core::units::{Extent, Nanos};
use std::collections::BTreeSet;
use support::Rng;

/// A policy over a volume in which whatever it wished for is there at the next access.
struct Bench<P> {
    policy: P,
    array: Array,
    cache: Cache,
    here: BTreeSet<u64>,
}

impl<P: Policy> Bench<P> {
    /// The array of the ASP paper, a quarter of a GiB of each disk, and a cache of 500 MiB.
    fn new(policy: P) -> Self {
        let array = support::schemes::array("raid5:5x128KiB", 1 << 16);
        Self { policy, array, cache: Cache::new(32, 128_000), here: BTreeSet::new() }
    }
    /// The wishes for one read.
    fn read(&mut self, start: u64, blocks: u64) -> Vec<Extent> {
        let access = Access::read(Context(0), Extent::new(start, blocks));
        let outcome = |b: u64| if self.here.contains(&b) { Outcome::PrefetchHit } else { Outcome::Miss };
        let outcomes: Vec<Outcome> = (start..start + blocks).map(outcome).collect();
        let cost = CostModel::default();
        let (cache, array, blocks_all) = (&self.cache, &self.array, self.array.capacity_blocks());
        let world = World {
            now: Nanos(0),
            cache,
            array,
            cost: &cost,
            filled: true,
            blocks: blocks_all,
            ahead_in_flight: 0,
        };
        let mut plan = Plan::new();
        self.policy.on_access(&access, &Lookup { outcomes: &outcomes }, &world, &mut plan);
        let wishes: Vec<Extent> = plan.wishes().iter().map(|w| w.extent).collect();
        self.here.extend(start..start + blocks);
        self.here.extend(wishes.iter().flat_map(|w| w.start.0..w.end()));
        wishes
    }
    fn wishes(&mut self, reads: impl IntoIterator<Item = u64>) -> Vec<(u64, Extent)> {
        reads.into_iter().flat_map(|at| self.read(at, 1).into_iter().map(move |w| (at, w))).collect()
    }
}

/// Blocks of a stripe of the bench: four strips of 128 KiB.
const STRIPE: u64 = 128;

#[test]
fn msp_reads_whole_aligned_stripes_ahead_of_one_sequential_reader() {
    let mut bench = Bench::new(Msp::new());
    let wishes = bench.wishes(STRIPE / 2..20 * STRIPE);
    assert!(wishes.iter().all(|(_, w)| w.start.0 % STRIPE == 0 && w.blocks % STRIPE == 0));
    let sizes: Vec<u64> = wishes.iter().map(|(_, w)| w.blocks / STRIPE).collect();
    assert_eq!(sizes[..4], [1, 2, 4, 4], "the level doubles up to four stripes");
    assert_eq!(wishes[0].0, 2 * STRIPE, "on entering the third stripe, two are behind");
    let mut next = wishes[0].1.start.0;
    for (at, wish) in &wishes {
        assert!(wish.start.0 == next && wish.start.0 > *at, "each window begins where the last one ended");
        next = wish.end();
    }
    assert!(next >= 20 * STRIPE, "the reader never overtakes it");
}

#[test]
fn msp_is_not_reset_by_reads_of_metadata_in_between() {
    let mut bench = Bench::new(Msp::new());
    let mut rng = Rng::new(1);
    let far = 1_000 * STRIPE;
    let reads: Vec<u64> = (0..16 * STRIPE)
        .flat_map(|b| if b % 16 == 7 { vec![b, far + rng.below(STRIPE)] } else { vec![b] })
        .collect();
    let wishes = bench.wishes(reads);
    assert!(wishes.len() >= 5, "{wishes:?}");
    assert!(wishes.iter().all(|(_, w)| w.start.0 < far));
}

#[test]
fn msp_is_on_for_four_streams_and_off_for_sixteen() {
    for (streams, on) in [(2, true), (4, true), (16, false)] {
        let mut bench = Bench::new(Msp::new());
        let reads = (0..12 * STRIPE).flat_map(|b| (0..streams).map(move |s| s * 100 * STRIPE + b));
        let count = bench.wishes(reads).len();
        assert_eq!(count > 0, on, "{streams} streams: {count} windows");
    }
}

#[test]
fn msp_wishes_nothing_for_random_and_reverse_reads() {
    let mut rng = Rng::new(2);
    let blocks = Bench::new(Msp::new()).array.capacity_blocks();
    let random: Vec<u64> = (0..20_000).map(|_| rng.below(blocks)).collect();
    assert_eq!(Bench::new(Msp::new()).wishes(random), []);
    assert_eq!(Bench::new(Msp::new()).wishes((0..30 * STRIPE).rev()), []);
}

#[test]
fn msp_is_on_for_a_stride_of_three_blocks_and_off_for_one_of_a_strip() {
    assert!(!Bench::new(Msp::new()).wishes((0..20 * STRIPE).step_by(3)).is_empty());
    assert_eq!(Bench::new(Msp::new()).wishes((0..20 * STRIPE).step_by(32)), []);
}

#[test]
fn two_window_read_ahead_of_single_blocks_grows_as_in_the_golden_vector() {
    // algorithms.md 3.2: S 4@0; A 8@4 (trigger 1), 16@12 (4), 32@28 (12), 32@60 (28), ...
    let mut bench = Bench::new(Linux26::new(32));
    let windows: Vec<(u64, u64, u64)> =
        bench.wishes(0..100).into_iter().map(|(at, w)| (at, w.start.0, w.blocks)).collect();
    assert_eq!(
        windows,
        [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32), (92, 124, 32)]
    );
}

#[test]
fn two_window_read_ahead_of_large_reads_issues_the_ahead_window_at_once() {
    // algorithms.md 3.2: S 32@0 and A 32@32 immediately; then 32@64 when block 32 is read.
    let mut bench = Bench::new(Linux26::new(32));
    assert_eq!(bench.read(0, 32), [Extent::new(0, 32), Extent::new(32, 32)]);
    assert_eq!(bench.read(32, 32), [Extent::new(64, 32)]);
    assert_eq!(bench.read(64, 32), [Extent::new(96, 32)]);
}

#[test]
fn two_window_read_ahead_wishes_nothing_for_random_reverse_and_strided_reads() {
    let mut rng = Rng::new(3);
    let random: Vec<u64> = (0..2_000).map(|_| 8 + rng.below(100_000)).collect();
    let apart: Vec<u64> = random.windows(2).filter(|w| w[0] + 1 != w[1]).map(|w| w[1]).collect();
    assert!(Bench::new(Linux26::new(32)).wishes(apart).len() < 5, "only by chance");
    assert_eq!(Bench::new(Linux26::new(32)).wishes((1..2_000).rev()), []);
    assert_eq!(Bench::new(Linux26::new(32)).wishes((3..2_000).step_by(3)), []);
}
