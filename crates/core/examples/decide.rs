//! How many accesses a second one core decides with `asp+msp`, without a disk model: every command ends as soon as it leaves.
//!
//! `cargo run --release -p forerun-core --example decide -- [ACCESSES [WORKLOAD]]` prints one JSON object a workload: the forward read
//! of four processes (4 KiB each, 2 GiB in all) and a mix of block popularities (Zipf, exponent 1, over 4 GiB). The array and
//! the cache are those of the ASP paper's section 3.1.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the program is its output, and it measures real time"
)]

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::engine::{Engine, Input, WriteMode};
use forerun_core::policy::asp::{Asp, AspConfig};
use forerun_core::policy::msp::Msp;
use forerun_core::registry::{BuiltLayer, SchemeSpec};
use forerun_core::scheme::Scheme;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{Extent, Nanos};
use std::time::Instant;

/// 500 MiB of cache.
const CACHE_BLOCKS: u64 = 128_000;
/// 128 KiB.
const STRIP_BLOCKS: u64 = 32;

fn engine() -> Engine {
    let spec = "raid5:5x128KiB".parse().expect("a valid name");
    let array = Array::new(spec, 1 << 20).expect("members hold strips");
    let asp = Asp::new(AspConfig::new(CACHE_BLOCKS / STRIP_BLOCKS), array.stripe_strips());
    let scheme = Scheme::of(asp).with(Msp::new());
    let built = BuiltLayer { scheme, line_blocks: STRIP_BLOCKS, ahead_blocks_max: CACHE_BLOCKS / 8 };
    let none = SchemeSpec::parse("none").expect("a scheme");
    let layer = LayerSpec {
        write: WriteMode::Back { dirty_percent: 25, age: Nanos::from_secs(30) },
        ..LayerSpec::array_cache(none, array, CACHE_BLOCKS)
    };
    layer.build_with(built).expect("fits")
}

fn read(engine: &mut Engine, now: u64, context: u64, block: u64) {
    let access = Access::read(Context(context), Extent::new(block, 1));
    if !engine.read_at_once(Nanos(now), &access) {
        engine.handle(Nanos(now), Input::Read { id: now, access });
    }
    engine.settle(Nanos(now), |_| {});
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Zipf with exponent 1 by its continuous inverse: rank = n^u, scattered over the volume by an odd multiplier.
fn zipf(state: &mut u64, blocks: u64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "53 random bits are what a double holds")]
    let u = (random(state) >> 11) as f64 / (1_u64 << 53) as f64;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "below 2^21"
    )]
    let rank = (blocks as f64).powf(u) as u64;
    rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) % blocks
}

fn measure(name: &str, reads: &[(u64, u64)]) {
    let mut engine = engine();
    let begin = Instant::now();
    for (now, &(context, block)) in (0..).zip(reads) {
        read(&mut engine, now, context, block);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let stats = engine.stats();
    let hits = stats.all.cache_hits + stats.all.prefetch_hits;
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    let (rate, ratio) = (reads.len() as f64 / seconds, hits as f64 / stats.all.blocks_read() as f64);
    println!(
        "{{\"workload\":\"{name}\",\"accesses\":{},\"seconds\":{seconds:.4},\"accesses_per_second\":{rate:.0},\
         \"hit_ratio\":{ratio:.4},\"prefetched_blocks\":{},\"member_blocks_read\":{}}}",
        reads.len(),
        stats.prefetched,
        stats.member_blocks_read,
    );
}

/// Block by block, four processes in turn, each in its own share of 2 GiB.
fn forward_reads(accesses: u64) -> Vec<(u64, u64)> {
    let share = (2_u64 << 30) / 4_096 / 4;
    (0..accesses).map(|n| (n % 4, (n % 4) * share + n / 4 % share)).collect()
}

fn main() {
    let accesses = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(4_000_000_u64);
    let only = std::env::args().nth(2);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("forward") {
        measure("forward", &forward_reads(accesses));
    }
    if wanted("zipf") {
        let mut state = 7;
        let mixed: Vec<(u64, u64)> = (0..accesses).map(|n| (n % 4, zipf(&mut state, 1 << 20))).collect();
        measure("zipf", &mixed);
    }
}
