//! What `flashy` wishes for, poll by poll: without an engine, then in one that owns its cache and in one that observes the
//! kernel's.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::cost::CostModel;
use forerun_core::engine::{Input, Output, Seen, Sight, Start, Status};
use forerun_core::policy::flashy::{
    AHEAD_WANTS, FLIGHT_MAX, FLIGHT_MIN, Flashy, FlashyConfig, SCALE_MAX, SCALE_MIN, SCALE_ONE, Thresholds,
};
use forerun_core::policy::{DeviceRead, Fetched, Lookup, Outcome, Plan, Policy, Wake, World};
use forerun_core::registry::BuiltLayer;
use forerun_core::retention::adapter::ByLine;
use forerun_core::retention::lru::Lru;
use forerun_core::scheme::Scheme;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use proptest::prelude::*;
use support::Rng;
use support::hand::outputs;
use support::schemes::{lines, none};

/// A poll of the default configuration.
const POLL: Nanos = Nanos::from_millis(250);
/// Blocks a poll that the rate of [`config`] allows.
const BUDGET: u64 = 1_000;

fn config() -> FlashyConfig {
    FlashyConfig { max_rate: Some(4 * BUDGET * BLOCK_BYTES), ..FlashyConfig::USUAL }
}

/// The policy over an empty cache: whatever it wishes for never arrives, so that every wish is visible.
struct Bench {
    policy: Flashy,
    array: Array,
    cache: Cache,
    now: Nanos,
    wakes: Vec<Wake>,
}

impl Bench {
    fn new(config: FlashyConfig) -> Self {
        let array = support::schemes::array("single:128KiB", 1 << 22);
        Self {
            policy: Flashy::new(config),
            array,
            cache: Cache::new(1, 1 << 16),
            now: Nanos(0),
            wakes: Vec::new(),
        }
    }
    fn tell(&mut self, call: impl FnOnce(&mut Flashy, &World<'_>, &mut Plan)) -> Vec<Extent> {
        let (cost, blocks) = (CostModel::default(), self.array.capacity_blocks());
        let (cache, array, now) = (&self.cache, &self.array, self.now);
        let world = World { now, cache, array, cost: &cost, filled: true, blocks, ahead_in_flight: 0 };
        let mut plan = Plan::new();
        call(&mut self.policy, &world, &mut plan);
        self.wakes.extend(plan.wakes());
        plan.wishes().iter().map(|wish| wish.extent).collect()
    }
    fn read(&mut self, process: u64, start: u64, blocks: u64, outcome: Outcome) {
        let access = Access::read(Context::new(process, 0), Extent::new(start, blocks));
        let outcomes = vec![outcome; blocks as usize];
        let wishes = self.tell(|policy, world, plan| {
            policy.on_access(&access, &Lookup { outcomes: &outcomes }, world, plan);
        });
        assert_eq!(wishes, [], "nothing is wished for on an access");
        if outcome == Outcome::Miss || outcome == Outcome::LateHit {
            let was_prefetched = outcome == Outcome::LateHit;
            let read = DeviceRead {
                context: access.context,
                extent: access.extent,
                ahead_blocks: 0,
                was_prefetched,
            };
            self.tell(|policy, world, plan| policy.on_device_read(&read, world, plan));
        }
    }
    /// Lets time pass to the next poll; its wishes, all events of it together, those that adjoin as one.
    fn poll(&mut self) -> Vec<Extent> {
        let Some(at) = self.wakes.iter().map(|wake| wake.at).min() else { return Vec::new() };
        self.now = at;
        let mut wishes = Vec::new();
        while let Some(due) = self.wakes.iter().position(|wake| wake.at <= self.now) {
            let token = self.wakes.remove(due).token;
            let mut more = self.tell(|policy, world, plan| policy.on_wake(token, world, plan));
            while let Some(wish) = more.last() {
                let fetched = arrived(*wish);
                wishes.append(&mut more);
                more = self.tell(|policy, world, plan| policy.on_fetched(&fetched, world, plan));
            }
        }
        merged(wishes)
    }
    fn gauge(&self, name: &str) -> f64 {
        let mut gauges = Vec::new();
        self.policy.gauges(&mut gauges);
        gauges.iter().find(|(gauge, _)| *gauge == name).expect("the gauge exists").1
    }
    /// The scale in its fixed-point parts.
    fn scale(&self) -> u64 {
        (self.gauge("flashy_scale") * SCALE_ONE as f64) as u64
    }
}

fn arrived(extent: Extent) -> Fetched {
    let (context, took) = (Context::new(1, 0), Nanos(1));
    Fetched { context, extent, took, was_prefetch: true, reader_waiting: false }
}

/// Extents one after the other, upwards or downwards, as one.
fn merged(wishes: impl IntoIterator<Item = Extent>) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    for wish in wishes {
        match merged.last_mut() {
            Some(last) if last.end() == wish.start.0 => last.blocks += wish.blocks,
            Some(last) if wish.end() == last.start.0 => {
                *last = Extent::new(wish.start.0, wish.blocks + last.blocks);
            }
            _ => merged.push(wish),
        }
    }
    merged
}

fn blocks(wishes: &[Extent]) -> u64 {
    wishes.iter().map(|wish| wish.blocks).sum()
}

#[test]
fn a_sequential_reader_is_prefetched_at_its_rate_behind_its_last_read() {
    let mut bench = Bench::new(config());
    for i in 0..100 {
        bench.read(1, i * 4, 4, Outcome::CacheHit);
    }
    assert_eq!(bench.now, Nanos(0));
    assert_eq!(bench.poll(), [Extent::new(400, 400)], "as much as it has read, at a scale of 1");
    assert_eq!(bench.now, POLL);
    assert_eq!(bench.gauge("flashy_read_rate"), 1_600.0 * BLOCK_BYTES as f64);
    assert_eq!(bench.gauge("flashy_prefetch_rate"), 0.0);
    for i in 100..200 {
        bench.read(1, i * 4, 4, Outcome::PrefetchHit);
    }
    assert_eq!(bench.poll(), [Extent::new(800, 400)], "from where it stopped");
    assert_eq!(
        bench.gauge("flashy_prefetch_rate"),
        1_600.0 * BLOCK_BYTES as f64,
        "in the poll that has ended"
    );
}

#[test]
fn reverse_and_strided_readers_are_prefetched_in_their_own_pattern() {
    let mut bench = Bench::new(config());
    for i in 0..60 {
        bench.read(1, 10_000 - i * 4, 4, Outcome::CacheHit);
    }
    let wishes = bench.poll();
    assert_eq!(wishes, [Extent::new(9_764 - 240, 240)]);
    let mut bench = Bench::new(config());
    for i in 0..20 {
        bench.read(1, i * 100, 4, Outcome::CacheHit);
    }
    let wishes = bench.poll();
    assert_eq!(wishes, (20..39).map(|i| Extent::new(i * 100, 4)).collect::<Vec<_>>());
}

#[test]
fn more_pieces_than_a_plan_holds_follow_in_events_of_their_own() {
    let mut bench = Bench::new(config());
    for i in 0..300 {
        bench.read(1, i * 50, 1, Outcome::CacheHit);
    }
    let wishes = bench.poll();
    assert_eq!(wishes, (300..599).map(|i| Extent::new(i * 50, 1)).collect::<Vec<_>>());
    assert_eq!(bench.now, POLL);
}

#[test]
fn it_does_nothing_for_random_reads_and_writes() {
    let mut rng = Rng::new(1);
    let mut bench = Bench::new(config());
    for _ in 0..50 {
        for _ in 0..200 {
            bench.read(1, rng.below(1 << 21) * 2, 1, Outcome::Miss);
        }
        assert!(blocks(&bench.poll()) < 20, "only by chance");
    }
    assert_eq!(bench.scale(), SCALE_ONE);
    let mut bench = Bench::new(config());
    for i in 0..100 {
        let access = Access::write(Context::new(1, 0), Extent::new(i * 4, 4));
        bench.tell(|policy, world, plan| policy.on_access(&access, &Lookup { outcomes: &[] }, world, plan));
    }
    assert!(bench.wakes.is_empty(), "the timer is not armed");
}

#[test]
fn linear_reads_that_reach_the_device_raise_the_scale_to_four_and_unasked_data_lowers_it_to_a_quarter() {
    for outcome in [Outcome::Miss, Outcome::LateHit] {
        // Where every read misses, no budget is left and nothing is wished for.
        let max_rate = if outcome == Outcome::Miss { Some(1) } else { config().max_rate };
        let mut bench = Bench::new(FlashyConfig { max_rate, ..config() });
        let mut at = 0;
        for step in 0..40 {
            for _ in 0..10 {
                bench.read(1, at, 4, outcome);
                at += 4;
            }
            bench.poll();
            assert_eq!(bench.scale(), (SCALE_ONE + 8 * (step + 1)).min(SCALE_MAX), "{outcome:?}");
        }
        let mut before = bench.scale();
        for step in 0..40 {
            // The reader slows down to a tenth: the pace follows by halves, so each poll asks for more than is read.
            for _ in 0..if step < 3 { 1 } else { 0 } {
                bench.read(1, at, 4, Outcome::PrefetchHit);
                at += 4;
            }
            bench.poll();
            assert!(bench.scale() <= before && bench.scale() >= SCALE_MIN);
            before = bench.scale();
        }
        assert_eq!(before < SCALE_MAX, outcome == Outcome::LateHit, "nothing was prefetched at the misses");
    }
}

/// A poll in which a reader, whose next block is `at`, reads 400 blocks that were prefetched for it.
fn served(bench: &mut Bench, at: u64) -> u64 {
    for i in 0..100 {
        bench.read(1, at + i * 4, 4, Outcome::PrefetchHit);
    }
    bench.poll();
    at + 400
}

#[test]
fn the_scale_is_halved_where_more_was_in_vain_than_of_use_and_not_raised_until_that_is_old() {
    let mut bench = Bench::new(config());
    let at = served(&mut bench, 0);
    assert_eq!(bench.scale(), SCALE_ONE, "400 blocks are on their way");
    // The reader goes elsewhere, in the same region; what it reads there reaches the device.
    for i in 0..100 {
        bench.read(1, 10_000 + i * 4, 4, Outcome::Miss);
    }
    bench.poll();
    assert_eq!(bench.scale(), SCALE_ONE / 2, "nobody will read on from {at}");
    let mut at = 10_400;
    for poll in 0..7 {
        // Ten blocks a poll reach the device: linear, and yet no reason to raise the scale.
        for _ in 0..3 {
            bench.read(1, at, 4, Outcome::LateHit);
            at += 4;
        }
        bench.poll();
        assert_eq!(bench.scale(), SCALE_ONE / 2, "{poll}");
    }
    bench.read(1, at, 4, Outcome::LateHit);
    bench.poll();
    assert_eq!(bench.scale(), SCALE_ONE / 2 + 8);
}

#[test]
fn what_is_of_use_to_one_reader_outweighs_what_another_leaves_behind() {
    let mut bench = Bench::new(config());
    for i in 0..50 {
        bench.read(2, 500_000 + i * 4, 4, Outcome::CacheHit);
    }
    let mut at = served(&mut bench, 0);
    for _ in 0..8 {
        at = served(&mut bench, at);
    }
    assert_eq!(bench.scale(), SCALE_ONE - 8, "600 wished for at first and 400 asked for; not halved");
}

#[test]
fn less_than_a_gap_a_poll_is_not_worth_a_command_and_a_stride_is() {
    let mut bench = Bench::new(config());
    for i in 0..15 {
        bench.read(1, i, 1, Outcome::CacheHit);
    }
    assert_eq!(bench.poll(), []);
    for i in 15..60 {
        bench.read(1, i, 1, Outcome::CacheHit);
    }
    assert_eq!(bench.poll(), [Extent::new(60, 30)], "the mean of 15 and 45");
    let mut bench = Bench::new(config());
    for i in 0..10 {
        bench.read(1, i * 100, 1, Outcome::CacheHit);
    }
    assert_eq!(blocks(&bench.poll()), 9, "the first distance matches nothing");
}

#[test]
fn no_more_is_on_its_way_at_once_than_a_positioning_takes() {
    let mut bench = Bench::new(config());
    for i in 0..200 {
        bench.read(1, i * 4, 4, Outcome::CacheHit);
    }
    bench.now = POLL;
    let token = bench.wakes.remove(0).token;
    let flight = bench.tell(|policy, world, plan| policy.on_wake(token, world, plan));
    assert!((FLIGHT_MIN..=FLIGHT_MAX).contains(&blocks(&flight)), "{flight:?}");
    let next = bench.tell(|policy, world, plan| policy.on_fetched(&arrived(flight[0]), world, plan));
    assert_eq!(next, [Extent::new(flight[0].end(), flight[0].blocks)], "the rest follows as it arrives");
    let busy = bench.tell(|policy, world, plan| {
        policy.on_fetched(&arrived(next[0]), &World { ahead_in_flight: FLIGHT_MAX, ..*world }, plan);
    });
    assert_eq!(busy, [], "others' prefetches count");
}

#[test]
fn plain_neither_halves_the_scale_nor_leaves_small_pieces_nor_limits_what_is_on_its_way() {
    let plain = || Bench::new(FlashyConfig { plain: true, ..config() });
    let mut bench = plain();
    served(&mut bench, 0);
    for i in 0..100 {
        bench.read(1, 10_000 + i * 4, 4, Outcome::Miss);
    }
    bench.poll();
    assert_eq!(bench.scale(), SCALE_ONE + 8, "not halved, though all 400 were in vain");
    let mut bench = plain();
    for i in 0..15 {
        bench.read(1, i, 1, Outcome::CacheHit);
    }
    assert_eq!(blocks(&bench.poll()), 15, "less than a gap, and wished for all the same");
    let mut bench = plain();
    for i in 0..200 {
        bench.read(1, i * 4, 4, Outcome::CacheHit);
    }
    bench.now = POLL;
    let token = bench.wakes.remove(0).token;
    let flight = bench.tell(|policy, world, plan| policy.on_wake(token, world, plan));
    assert_eq!(blocks(&flight), 800, "all of the poll at once");
}

#[test]
fn the_rate_of_the_device_is_shared_and_demand_comes_first() {
    let mut bench = Bench::new(config());
    for process in 1..=4 {
        for i in 0..100 {
            bench.read(process, process * 100_000 + i * 4, 4, Outcome::CacheHit);
        }
    }
    let wishes = bench.poll();
    assert_eq!(wishes.len(), 4);
    assert!(wishes.iter().all(|wish| wish.blocks == BUDGET / 4), "1600 wanted, 1000 allowed: {wishes:?}");
    for i in 0..225 {
        bench.read(9, 900_000 + i * 4, 4, Outcome::Miss);
    }
    assert!(blocks(&bench.poll()) <= 100, "900 of the 1000 blocks went to demand");
}

#[test]
fn nothing_is_prefetched_beyond_the_file() {
    let mut bench = Bench::new(config());
    for i in 0..100 {
        let mut access = Access::read(Context::new(1, 3), Extent::new(1_000 + i * 4, 4));
        access.within = Extent::new(1_000, 450);
        let outcomes = [Outcome::CacheHit; 4];
        bench.tell(|policy, world, plan| {
            policy.on_access(&access, &Lookup { outcomes: &outcomes }, world, plan)
        });
    }
    assert_eq!(bench.poll(), [Extent::new(1_400, 50)]);
}

#[test]
fn the_timer_stops_ten_seconds_after_the_last_read() {
    let mut bench = Bench::new(config());
    bench.read(1, 0, 4, Outcome::Miss);
    let mut polls = 0;
    while !bench.wakes.is_empty() {
        bench.poll();
        polls += 1;
        assert!(polls < 100);
    }
    assert_eq!(bench.now, Nanos::from_millis(10_250));
    assert_eq!(bench.gauge("flashy_contexts"), 0.0);
    bench.read(1, 4, 4, Outcome::Miss);
    assert_eq!(bench.wakes.len(), 1, "and starts again with the next");
}

proptest! {
    #[test]
    fn rate_and_scale_stay_in_bounds_whatever_is_read(
        seed in 0_u64..1 << 48,
        processes in 1_u64..6,
        max_blocks in 1_u64..4_000,
    ) {
        let mut rng = Rng::new(seed);
        let max_rate = Some(4 * max_blocks * BLOCK_BYTES);
        let thresholds = Thresholds { sequential: 1 + rng.below(3), strided: 1 + rng.below(4), reverse: 1 + rng.below(3) };
        let mut bench = Bench::new(FlashyConfig { max_rate, thresholds, ..FlashyConfig::USUAL });
        let mut heads: Vec<i64> = (0..processes).map(|p| 100_000 * (p as i64 + 2)).collect();
        let mut strides: Vec<i64> = heads.iter().map(|_| [4, -4, 50, -70, 6][rng.below(5) as usize]).collect();
        for _ in 0..30 {
            let mut device = 0;
            for _ in 0..rng.below(150) {
                let who = rng.below(processes) as usize;
                heads[who] = (heads[who] + strides[who]).clamp(0, 4_000_000);
                if rng.percent(2) {
                    heads[who] = rng.below(4_000_000) as i64;
                    strides[who] = [4, -4, 50, -70, 6][rng.below(5) as usize];
                }
                let outcome = rng.pick(&[Outcome::Miss, Outcome::LateHit, Outcome::CacheHit, Outcome::PrefetchHit]);
                bench.read(who as u64 + 1, heads[who] as u64, 4, outcome);
                device += if outcome == Outcome::Miss { 4 } else { 0 };
            }
            let wishes = bench.poll();
            let scale = bench.scale();
            prop_assert!((SCALE_MIN..=SCALE_MAX).contains(&scale));
            prop_assert!(blocks(&wishes) <= max_blocks.saturating_sub(device), "{wishes:?}");
            for wish in &wishes {
                prop_assert!(wish.end() <= bench.array.capacity_blocks());
            }
        }
    }

    #[test]
    fn a_lone_sequential_reader_is_never_prefetched_further_than_four_wants(seed in 0_u64..1 << 48) {
        let mut rng = Rng::new(seed);
        let mut bench = Bench::new(FlashyConfig { max_rate: Some(1 << 40), ..FlashyConfig::USUAL });
        let (mut at, mut largest) = (0, 0);
        for _ in 0..40 {
            let reads = rng.below(60);
            for _ in 0..reads {
                bench.read(1, at, 4, rng.pick(&[Outcome::Miss, Outcome::PrefetchHit]));
                at += 4;
            }
            largest = (reads * 4).max(largest);
            let wishes = bench.poll();
            let most = AHEAD_WANTS * largest * bench.scale() / SCALE_ONE;
            prop_assert!(wishes.iter().all(|wish| wish.end() <= at + most));
        }
    }
}

fn layer() -> (LayerSpec, BuiltLayer) {
    let array = support::schemes::array("single:128KiB", 1 << 20);
    let scheme = Scheme::split(Flashy::new(config()), ByLine::new(Lru::new(8_192)));
    (LayerSpec::page_cache(none(), array, 8_192), lines(scheme, 1, 2_048))
}

/// The first 400 blocks, 4 at a time.
fn reads() -> impl Iterator<Item = (u64, Access)> {
    (0..100).map(|i| (i, Access::read(Context::new(5, 2), Extent::new(i * 4, 4))))
}

/// What is read ahead at the first poll of an engine that owns its cache.
fn first_poll_owned() -> Vec<(Extent, Context, bool)> {
    let (spec, built) = layer();
    let mut engine = spec.build_with(built).expect("fits");
    for (id, access) in reads() {
        engine.handle(Nanos::from_millis(id), Input::Read { id, access });
        engine.settle(Nanos::from_millis(id), |_| {});
    }
    assert_eq!(engine.next_wake(), Some(POLL));
    let mut starts = Vec::new();
    engine.handle(POLL, Input::Wake);
    engine.settle(POLL, |output| starts.extend(started(output)));
    starts
}

/// The same of one that watches the kernel's.
fn first_poll_observed() -> Vec<(Extent, Context, bool)> {
    let (spec, built) = layer();
    let mut observer = spec.observe_with(built).expect("fits");
    for (id, access) in reads() {
        observer.handle(Nanos::from_millis(id), Sight::Seen { access, seen: Seen::DeviceRead });
    }
    assert_eq!(observer.next_wake(), Some(POLL));
    let mut starts = Vec::new();
    observer.handle(POLL, Sight::Wake);
    loop {
        let said = outputs(&mut observer);
        starts.extend(said.iter().filter_map(started));
        if said.is_empty() {
            return starts;
        }
        for Start { command, .. } in support::hand::starts(&said) {
            observer.handle(POLL, Sight::Done { command, status: Status::Ok });
        }
    }
}

fn started(output: &Output) -> Option<(Extent, Context, bool)> {
    let Output::Start(start) = output else { return None };
    Some((start.extent, start.context, start.read_ahead))
}

#[test]
fn it_wishes_the_same_whether_the_engine_owns_the_cache_or_observes_the_kernels() {
    let owned = first_poll_owned();
    // 400 blocks at a scale of 1 1/8, since all of them reached the device.
    let extents = merged(owned.iter().map(|start| start.0));
    assert_eq!(extents, [Extent::new(400, 450)]);
    assert!(owned.iter().all(|start| start.1 == Context::new(5, 2) && start.2));
    assert_eq!(first_poll_observed(), owned);
}
