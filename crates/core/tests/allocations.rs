//! No allocation for an access once the tables have grown: hits, misses of `asp` and `asp+msp` on a healthy array, and
//! sequential and jumping readers under every prefetcher of the page cache.

#![allow(
    unsafe_code,
    reason = "a global allocator is the only way to count allocations; it only forwards and counts"
)]

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::engine::{Engine, Input, WriteMode};
use forerun_core::policy::asp::{Asp, AspConfig};
use forerun_core::policy::decisions::TURNS_MAX;
use forerun_core::policy::msp::Msp;
use forerun_core::registry::{Layer, ROWS, Role, SchemeSpec};
use forerun_core::scheme::Scheme;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{Extent, Nanos};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::Rng;
use support::schemes::{lines, none};

thread_local! {
    /// Allocations of this thread: the test harness has threads of its own.
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator, which keeps the contract; counting touches a
// thread-local without a destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn engine(with_msp: bool) -> Engine {
    let array: Array = support::schemes::array("raid5:5x128KiB", 32 * 512);
    let asp = Asp::new(AspConfig::new(256), array.stripe_strips());
    let scheme = Scheme::of(asp);
    let scheme = if with_msp { scheme.with(Msp::new()) } else { scheme };
    let spec = LayerSpec {
        write: WriteMode::Back { dirty_percent: 25, age: Nanos::from_secs(30) },
        ..LayerSpec::array_cache(none(), array, 256 * 32)
    };
    spec.build_with(lines(scheme, 32, 2_048)).expect("fits")
}

/// One read of a block, whose commands end at once.
fn read(engine: &mut Engine, now: u64, block: u64) {
    let time = Nanos::from_millis(now);
    let access = Access::read(Context(0), Extent::new(block, 1));
    engine.handle(time, Input::Read { id: now, access });
    engine.settle(time, |_| {});
}

/// Allocations of `count` reads after as many to grow the tables.
fn allocations(engine: &mut Engine, count: u64, mut next: impl FnMut() -> u64) -> u64 {
    for now in 0..count {
        read(engine, now, next());
    }
    let before = COUNT.get();
    for now in count..2 * count {
        read(engine, now, next());
    }
    COUNT.get() - before
}

#[test]
fn hits_allocate_nothing() {
    let mut rng = Rng::new(1);
    let mut engine = engine(false);
    assert_eq!(allocations(&mut engine, 50_000, || rng.below(4_000)), 0);
    assert!(engine.stats().all.cache_hits > 90_000);
}

#[test]
fn misses_of_asp_on_a_healthy_array_allocate_nothing() {
    let mut rng = Rng::new(2);
    let mut engine = engine(false);
    let blocks = engine.array().capacity_blocks();
    assert_eq!(allocations(&mut engine, 400_000, || rng.below(blocks)), 0);
    assert!(engine.stats().all.misses > 100_000);
}

#[test]
fn sequential_readers_under_asp_and_msp_allocate_nothing() {
    let mut engine = engine(true);
    let share = engine.array().capacity_blocks() / 4;
    let mut step = 0;
    let mut next = || {
        step += 1;
        (step % 4) * share + (step / 4) % share
    };
    assert_eq!(allocations(&mut engine, 600_000, &mut next), 0);
    assert!(engine.stats().prefetched > 10_000);
}

/// Places that tables may still gain in 150,000 accesses, when more is in flight than ever before.
const NEW_PEAKS_MAX: u64 = 8;

/// A page cache of 64 MiB under a scheme of the registry.
fn page_cache(scheme: &str) -> Engine {
    let array = support::schemes::array("single:128KiB", 1 << 18);
    let scheme = SchemeSpec::parse(scheme).expect("a scheme");
    let spec = LayerSpec { ahead_blocks_max: Some(2_048), ..LayerSpec::page_cache(scheme, array, 16_384) };
    spec.build().expect("fits")
}

#[test]
fn readers_of_a_page_cache_allocate_nothing_under_any_of_its_prefetchers() {
    let schemes = ROWS.iter().filter(|row| row.layer == Layer::Host && row.role == Role::Prefetch);
    for row in schemes {
        let mut engine = page_cache(row.name);
        let blocks = engine.array().capacity_blocks();
        let (mut rng, mut at) = (Rng::new(3), 0);
        let mut next = || {
            at = if rng.percent(2) { rng.below(blocks) } else { (at + 1) % blocks };
            at
        };
        // A new peak of what is in flight takes a place in a table; nothing is allocated for each access.
        let count = allocations(&mut engine, 150_000, &mut next);
        assert!(count <= NEW_PEAKS_MAX, "{}: {count} allocations", row.name);
        assert!(engine.stats().prefetched > 10_000, "{}", row.name);
    }
}

#[test]
fn a_file_whose_pattern_turns_all_the_time_has_its_turns_noted_without_an_allocation() {
    for scheme in ["rpp(linux-2.6)", "regions(linux-2.6)"] {
        let mut engine = page_cache(scheme);
        let blocks = engine.array().capacity_blocks();
        let (mut rng, mut at, mut turns) = (Rng::new(3), 0, Vec::new());
        let mut next = || {
            at = if rng.percent(5) { rng.below(blocks) } else { (at + 1) % blocks };
            at
        };
        let count = allocations(&mut engine, 150_000, &mut next);
        assert!(count <= NEW_PEAKS_MAX, "{scheme}: {count} allocations");
        engine.decisions(&mut turns);
        let last = turns.last().expect("it turned");
        assert!(last.turn > 5_000 && turns.len() == TURNS_MAX, "{scheme}: {last:?}");
    }
}
