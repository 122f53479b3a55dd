//! What `flashy` wishes for, poll by poll: without an engine, then in one that owns its cache and in one that observes the
//! kernel's.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::cache::Cache;
use forerun_core::cost::CostModel;
use forerun_core::dispatch::DemandFirst;
use forerun_core::engine::{Config, Engine, Input, Output, Residency, Seen, Start, Status, WriteMode};
use forerun_core::policy::flashy::{
    AHEAD_WANTS, Flashy, FlashyConfig, SCALE_MAX, SCALE_MIN, SCALE_ONE, Thresholds,
};
use forerun_core::policy::{DeviceRead, Fate, Lookup, Outcome, Plan, Policy, World};
use forerun_core::retention::adapter::ByLine;
use forerun_core::retention::lru::Lru;
use forerun_core::scheme::Split;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use proptest::prelude::*;
use support::Rng;

/// A poll of the default configuration.
const POLL: Nanos = Nanos::from_millis(250);
/// Blocks a poll that the rate of [`config`] allows.
const BUDGET: u64 = 1_000;

fn config() -> FlashyConfig {
    FlashyConfig { max_rate: Some(4 * BUDGET * BLOCK_BYTES), ..FlashyConfig::default() }
}

/// The policy over an empty cache: whatever it wishes for never arrives, so that every wish is visible.
struct Bench {
    policy: Flashy,
    array: Array,
    cache: Cache,
    now: Nanos,
    wakes: Vec<(Nanos, u64)>,
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
            let read = DeviceRead { context: access.context, extent: access.extent, was_prefetched };
            self.tell(|policy, world, plan| policy.on_device_read(&read, world, plan));
        }
    }
    /// Lets time pass to the next poll; its wishes, all events of it together.
    fn poll(&mut self) -> Vec<Extent> {
        let Some(at) = self.wakes.iter().map(|wake| wake.0).min() else { return Vec::new() };
        self.now = at;
        let mut wishes = Vec::new();
        while let Some(due) = self.wakes.iter().position(|wake| wake.0 <= self.now) {
            let (_, token) = self.wakes.remove(due);
            wishes.extend(self.tell(|policy, world, plan| policy.on_wake(token, world, plan)));
        }
        wishes
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
    assert_eq!(bench.gauge("flashy_prefetch_rate"), 1_600.0 * BLOCK_BYTES as f64);
    for i in 100..200 {
        bench.read(1, i * 4, 4, Outcome::PrefetchHit);
    }
    assert_eq!(bench.poll(), [Extent::new(800, 400)], "from where it stopped");
}

#[test]
fn reverse_and_strided_readers_are_prefetched_in_their_own_pattern() {
    let mut bench = Bench::new(config());
    for i in 0..60 {
        bench.read(1, 10_000 - i * 4, 4, Outcome::CacheHit);
    }
    let wishes = bench.poll();
    assert_eq!(wishes, [Extent::new(9_764 - 128, 128), Extent::new(9_764 - 240, 112)]);
    let mut bench = Bench::new(config());
    for i in 0..20 {
        bench.read(1, i * 100, 4, Outcome::CacheHit);
    }
    let wishes = bench.poll();
    assert_eq!(wishes, (20..40).map(|i| Extent::new(i * 100, 4)).collect::<Vec<_>>());
}

#[test]
fn more_pieces_than_a_plan_holds_follow_in_events_of_their_own() {
    let mut bench = Bench::new(config());
    for i in 0..300 {
        bench.read(1, i * 50, 1, Outcome::CacheHit);
    }
    let wishes = bench.poll();
    assert_eq!(wishes, (300..600).map(|i| Extent::new(i * 50, 1)).collect::<Vec<_>>());
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
        let mut bench = Bench::new(config());
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
        assert!(before < SCALE_MAX, "{outcome:?}");
    }
}

#[test]
fn much_waste_halves_the_scale() {
    let mut bench = Bench::new(config());
    for i in 0..100 {
        bench.read(1, i * 4, 4, Outcome::CacheHit);
    }
    bench.poll();
    bench.policy.on_left(Extent::new(400, 100), Fate::Wasted);
    for i in 100..200 {
        bench.read(1, i * 4, 4, Outcome::CacheHit);
    }
    bench.poll();
    assert_eq!(bench.scale(), SCALE_ONE, "a quarter was wasted");
    bench.policy.on_left(Extent::new(500, 200), Fate::Wasted);
    for i in 200..300 {
        bench.read(1, i * 4, 4, Outcome::CacheHit);
    }
    bench.poll();
    assert_eq!(bench.scale(), SCALE_ONE / 2);
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
        let mut bench = Bench::new(FlashyConfig { max_rate, thresholds, ..FlashyConfig::default() });
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
            if rng.percent(10) {
                bench.policy.on_left(Extent::new(0, rng.below(300)), Fate::Wasted);
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
        let mut bench = Bench::new(FlashyConfig { max_rate: Some(1 << 40), ..FlashyConfig::default() });
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

fn engine(residency: Residency) -> Engine {
    let shape = Config {
        residency,
        cache_blocks: 8_192,
        line_blocks: 1,
        strip_aligned: false,
        retain: true,
        command_blocks_max: 128,
        ahead_blocks_max: 2_048,
        staging_blocks: 64,
        write: WriteMode::Through,
    };
    let array = support::schemes::array("single:128KiB", 1 << 20);
    let scheme = Box::new(Split { policy: Flashy::new(config()), retention: ByLine::new(Lru::new(8_192)) });
    Engine::new(shape, array, CostModel::default(), scheme, Box::new(DemandFirst::new(1)))
}

fn drain(engine: &mut Engine, now: Nanos) -> Vec<Start> {
    let mut starts = Vec::new();
    while let Some(output) = engine.poll() {
        match output {
            Output::Start(start) => {
                starts.push(start);
                engine.handle(now, Input::Done { command: start.command, status: Status::Ok });
            }
            Output::Ready { handle, .. } => engine.handle(now, Input::Release { handle }),
            _ => {}
        }
    }
    starts
}

/// Reads the first 400 blocks, 4 at a time, and lets the first poll come.
fn first_poll(residency: Residency) -> Vec<(Extent, Context, bool)> {
    let mut engine = engine(residency);
    let context = Context::new(5, 2);
    for i in 0..100 {
        let access = Access::read(context, Extent::new(i * 4, 4));
        let now = Nanos::from_millis(i);
        engine.handle(
            now,
            match residency {
                Residency::Owned => Input::Read { id: i, access },
                Residency::Observed => Input::Seen { access, seen: Seen::DeviceRead },
            },
        );
        drain(&mut engine, now);
    }
    assert_eq!(engine.next_wake(), Some(POLL));
    engine.handle(POLL, Input::Wake);
    let starts = drain(&mut engine, POLL);
    starts.iter().map(|start| (start.extent, start.context, start.read_ahead)).collect()
}

#[test]
fn it_wishes_the_same_whether_the_engine_owns_the_cache_or_observes_the_kernels() {
    let owned = first_poll(Residency::Owned);
    // 400 blocks at a scale of 1 1/8, since all of them reached the device, in commands of 128 blocks.
    let extents: Vec<Extent> = owned.iter().map(|start| start.0).collect();
    assert_eq!(
        extents,
        [Extent::new(400, 128), Extent::new(528, 128), Extent::new(656, 128), Extent::new(784, 66)]
    );
    assert!(owned.iter().all(|start| start.1 == Context::new(5, 2) && start.2));
    assert_eq!(first_poll(Residency::Observed), owned);
}
