//! `streams` and `cadence` in an engine over one disk with a head: nobody starves, memory is never exceeded whatever fails,
//! and a promise of a wait is kept or refused.

mod support;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::cost::CostModel;
use forerun_core::engine::{Input, Start, Status};
use forerun_core::registry::SchemeSpec;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use proptest::prelude::*;
use std::collections::BTreeSet;
use support::Rng;
use support::hand::Hand;

/// From one stream's end to another's beginning, and a block's transfer: 12 ms and 55 MB/s.
const SWITCH: u64 = 12_000_000;
const PER_BLOCK: u64 = 75_000;
/// Blocks of a request.
const REQUEST: u64 = 4;
/// Blocks of a reader's title.
const TITLE: u64 = 16_384;

/// One reader: asks for the next request when the last is answered, or by a clock.
struct Reader {
    next: u64,
    left: u64,
    asked: Nanos,
    /// Time between two requests; 0 asks at once.
    every: u64,
}

/// What a run has seen.
#[derive(Default)]
struct Seen {
    /// Waits of requests that were asked after the warm-up, by reader.
    waits: Vec<(usize, u64)>,
    answered: u64,
    errors: u64,
    elapsed: u64,
}

/// An engine over one disk that serves commands in the order in which they leave.
struct Host {
    hand: Hand,
    busy_until: u64,
    head: u64,
    readers: Vec<Reader>,
    /// When readers ask next.
    asks: BTreeSet<(u64, usize)>,
    rng: Rng,
    /// Percent of commands that end short.
    short: u64,
    warm_up: u64,
    seen: Seen,
}

fn cost() -> CostModel {
    CostModel {
        seek_min_ns: (SWITCH / 2) as f64,
        seek_a_ns: 0.0,
        seek_b_ns: 0.0,
        half_rotation: Nanos(SWITCH / 2),
        per_block: Nanos(PER_BLOCK),
        ..CostModel::default()
    }
}

impl Host {
    fn new(scheme: &str, readers: usize, requests: u64, cache_blocks: u64) -> Self {
        let array = Array::new("single:128KiB".parse().expect("valid"), readers as u64 * TITLE)
            .expect("holds strips");
        let scheme = SchemeSpec::parse(scheme).expect("a scheme");
        let layer = LayerSpec { cost: cost(), ..LayerSpec::array_cache(scheme, array, cache_blocks) };
        let engine = layer.build().expect("fits");
        let one = |n: usize| Reader { next: n as u64 * TITLE, left: requests, asked: Nanos(0), every: 0 };
        Self {
            hand: Hand::new(engine),
            busy_until: 0,
            head: 0,
            readers: (0..readers).map(one).collect(),
            asks: (0..readers).map(|n| (n as u64, n)).collect(),
            rng: Rng::new(7),
            short: 0,
            warm_up: 0,
            seen: Seen::default(),
        }
    }
    fn gauge(&mut self, name: &str) -> u64 {
        let mut gauges = Vec::new();
        self.hand.engine.gauges(&mut gauges);
        gauges.iter().find(|(n, _)| *n == name).expect("such a gauge").1 as u64
    }
    fn feed(&mut self, input: Input<'_>) {
        // The head goes to the next command when there was none or the last one has ended.
        let is_free = self.hand.running.is_empty() || matches!(input, Input::Done { .. });
        self.hand.feed(input);
        while let Some(&(id, handle, error)) = self.hand.answered.front() {
            self.answered(id as usize, error);
            self.hand.feed(Input::Release { handle });
        }
        if let Some(first) = self.hand.running.front().copied().filter(|_| is_free) {
            self.busy_until = self.now() + self.service(&first);
        }
    }
    const fn now(&self) -> u64 {
        self.hand.now.0
    }
    fn service(&mut self, start: &Start) -> u64 {
        let seek = if self.head == start.extent.start.0 { 0 } else { SWITCH };
        self.head = start.extent.end();
        seek + start.extent.blocks * PER_BLOCK
    }
    fn answered(&mut self, reader: usize, error: bool) {
        self.seen.answered += 1;
        self.seen.errors += u64::from(error);
        let Reader { asked, every, left, .. } = self.readers[reader];
        if asked.0 >= self.warm_up {
            self.seen.waits.push((reader, self.now() - asked.0));
        }
        if left > 0 {
            self.asks.insert((self.now().max(asked.0 + every), reader));
        }
    }
    /// Runs until every reader has read all.
    fn run(&mut self) -> &Seen {
        loop {
            let ask = self.asks.first().map(|ask| ask.0);
            let end = self.hand.running.front().map(|_| self.busy_until);
            let wake = self.hand.engine.next_wake().map(|at| at.0.max(self.now()));
            if ask.is_none() && end.is_none() {
                break; // only the collector still wants to be woken
            }
            self.hand.now =
                Nanos([ask, end, wake].into_iter().flatten().min().expect("something is to come"));
            if end == Some(self.now()) {
                let ended = self.hand.running[0];
                let short = self.rng.percent(self.short);
                let status = if short {
                    Status::Short { good: self.rng.below(ended.extent.blocks) }
                } else {
                    Status::Ok
                };
                self.feed(Input::Done { command: ended.command, status });
            } else if ask == Some(self.now()) {
                let (_, reader) = self.asks.pop_first().expect("somebody asks");
                let one = &mut self.readers[reader];
                let extent = Extent::new(one.next, REQUEST);
                one.next += REQUEST;
                one.left -= 1;
                one.asked = self.hand.now;
                let access = Access::read(Context::new(reader as u64, 0), extent);
                self.feed(Input::Read { id: reader as u64, access });
            } else {
                self.feed(Input::Wake);
            }
        }
        self.seen.elapsed = self.now();
        &self.seen
    }
}

/// The bound of the page: at most S − 1 others are before it, each turn reads N·R blocks and a request, switches to
/// it and back, and the last request of a turn may be cut at a strip.
fn bound(streams: u64, n: u64, r: u64) -> u64 {
    let turn = 2 * SWITCH + (n * r + REQUEST) * PER_BLOCK;
    streams * turn
}

#[test]
fn nobody_waits_longer_than_a_round_of_turns() {
    for (streams, requests) in [(1, 400), (16, 400), (256, 400), (4_096_usize, 100)] {
        let (n, r) = (2, 32);
        let cache = streams as u64 * REQUEST + 8 * n * r;
        let mut host = Host::new("streams(D=1,R=128KiB,N=2,unit=16KiB)", streams, requests, cache);
        // Before they are streams, readers ask four times each, nobody orders that, and it goes before turns.
        let round = bound(streams as u64, n, r);
        host.warm_up =
            4 * streams as u64 * (SWITCH + REQUEST * PER_BLOCK) + if streams > 16 { round } else { 0 };
        let seen = host.run();
        assert_eq!((seen.answered, seen.errors), (requests * streams as u64, 0));
        assert!(streams == 1 || !seen.waits.is_empty(), "something was measured");
        let longest = seen.waits.iter().map(|wait| wait.1).max().unwrap_or(0);
        assert!(longest <= round, "{streams} streams: {longest} ns");
        assert_eq!(host.gauge("streams_begun"), streams as u64);
    }
}

#[test]
fn turns_make_many_streams_nearly_as_fast_as_one() {
    let elapsed =
        |scheme: &str, streams: usize| Host::new(scheme, streams, 512, 32_768).run().elapsed / streams as u64;
    let alone = elapsed("streams", 1);
    let together = elapsed("streams", 64);
    let without = elapsed("none", 64);
    assert!(together * 100 <= alone * 130, "{together} ns a stream against {alone} alone");
    assert!(without >= together * 4, "{without} ns a stream without turns against {together}");
}

#[test]
fn a_stream_is_promised_its_wait_or_refused() {
    // 1 MiB/s each: the disk transfers for 52 of them at the very most, and 64 begin in the same instant. It takes several
    // rounds until those that are let in are in step.
    let rate = 256;
    for (streams, served) in [(16, 16..=16), (64, 36..=52)] {
        let mut host = Host::new("cadence(wait=1s,rate=1MiB,unit=16KiB)", streams, 2_000, 65_536);
        for reader in &mut host.readers {
            reader.every = 1_000_000_000 * REQUEST / rate;
        }
        host.warm_up = 6_000_000_000;
        host.run();
        let late: BTreeSet<usize> =
            host.seen.waits.iter().filter(|wait| wait.1 > 1_000_000_000).map(|wait| wait.0).collect();
        let refused = host.gauge("cadence_refused_for_time") + host.gauge("cadence_refused_for_memory");
        let in_time = streams - late.len();
        assert!(served.contains(&in_time), "{in_time} of {streams} in time, {refused} refused");
        assert!(late.len() as u64 <= refused, "{} late, {refused} refused", late.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_never_exceeded_and_everybody_is_answered(
        scheme in prop::sample::select(vec![
            "streams(unit=16KiB,M=2MiB)",
            "streams(D=1,R=128KiB,N=4,M=512KiB,unit=16KiB)",
            "streams(D=3,R=64KiB,N=2,M=1MiB,unit=16KiB)",
            "streams(D=64,R=64KiB,N=1,M=2MiB,unit=16KiB)",
            "cadence(wait=200ms,unit=16KiB,M=1MiB)",
            "cadence(wait=1s,rate=512KiB,unit=16KiB,M=2MiB)",
        ]),
        streams in 1_usize..80,
        short in prop::sample::select(vec![0_u64, 0, 5, 60]),
        every in prop::sample::select(vec![0_u64, 1_000_000, 30_000_000]),
        seed in any::<u64>(),
    ) {
        let mut host = Host::new(scheme, streams, 60, 1_024);
        (host.short, host.rng) = (short, Rng::new(seed));
        for reader in &mut host.readers {
            reader.every = every;
        }
        let answered = host.run().answered;
        prop_assert_eq!(answered, 60 * streams as u64);
        prop_assert!(host.hand.engine.is_idle());
        let limit = 2 << 20;
        let peak = host.gauge("streams_memory_peak_bytes");
        prop_assert!(peak <= limit, "{peak} bytes");
        prop_assert!(host.hand.engine.cache().slots.peak() * BLOCK_BYTES <= 4 << 20);
    }
}
