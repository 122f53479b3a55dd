//! Readers over a device that takes the same time for each command, however many there are, in virtual time.

use super::*;
use forerun_core::array::Array;
use forerun_core::engine::{Engine, Input, Output, Status};
use forerun_core::registry::{BuiltLayer, Layer, SchemeSpec};
use forerun_core::spec::LayerSpec;
use std::collections::BTreeSet;

/// Blocks of the file, 64 MiB, which is all there is.
const BLOCKS: u64 = 16_384;
const MILLI: u64 = 1_000_000;
const THINKS: u64 = 3_000;

/// A page cache under [`Foretell`], the device below it, and what happened.
struct Bench {
    engine: Engine,
    takes: u64,
    /// What the program does between two reads.
    thinks: u64,
    now: u64,
    ends: BTreeSet<(u64, u32)>,
    /// What went to the device, and when, without what somebody waited for.
    ahead: Vec<(u64, Extent)>,
    deepest: usize,
}

impl Bench {
    fn new(takes: u64) -> Self {
        let scheme = SchemeSpec::parse("none").expect("a scheme");
        let volume = Array::new("single:128KiB".parse().expect("valid"), BLOCKS).expect("holds strips");
        let layer = LayerSpec::page_cache(scheme, volume, BLOCKS);
        let layer = LayerSpec { in_flight: Some(IN_FLIGHT), ..layer };
        let shape = layer.shape();
        let built = BuiltLayer::under(Box::new(Foretell::new(&shape)), Layer::Host, &shape);
        let engine = layer.build_with(built).expect("a layer");
        Self { engine, takes, thinks: THINKS, now: 0, ends: BTreeSet::new(), ahead: Vec::new(), deepest: 0 }
    }

    /// Reads so many blocks from one on, and waits for them; how long that took.
    fn read(&mut self, start: u64, blocks: u64) -> u64 {
        let (id, begun) = (start, self.now);
        let extent = Extent::new(start, blocks);
        let access = Access { within: Extent::new(0, BLOCKS), ..Access::read(Context::new(3, 7), extent) };
        self.engine.handle(Nanos(self.now), Input::Read { id, access });
        while !self.carry() {
            assert!(self.step(u64::MAX), "a reader waits and nothing is going to happen");
        }
        self.now += self.thinks;
        self.now - begun
    }

    /// Nobody reads for so long.
    fn rest(&mut self, nanos: u64) {
        let until = self.now + nanos;
        while self.step(until) {
            self.carry();
        }
        self.now = until;
    }

    /// Takes what came of it; whether a reader is answered.
    fn carry(&mut self) -> bool {
        let mut answered = false;
        while let Some(output) = self.engine.poll() {
            match output {
                Output::Start(start) => {
                    self.ends.insert((self.now + self.takes, start.command));
                    self.deepest = self.deepest.max(self.ends.len());
                    if start.demand.is_empty() {
                        self.ahead.push((self.now, start.extent));
                    }
                }
                Output::Ready { handle, .. } => {
                    self.engine.handle(Nanos(self.now), Input::Release { handle });
                    answered = true;
                }
                _ => {}
            }
        }
        answered
    }

    /// The next thing happens, if one does until then.
    fn step(&mut self, until: u64) -> bool {
        let wake = self.engine.next_wake().map_or(u64::MAX, |at| at.0.max(self.now));
        let end = self.ends.first().copied();
        let ends = end.map_or(u64::MAX, |(at, _)| at.max(self.now));
        if wake.min(ends) > until || wake.min(ends) == u64::MAX {
            return false;
        }
        self.now = wake.min(ends);
        let input = match end {
            Some((_, command)) if ends < wake => {
                self.ends.pop_first();
                Input::Done { command, status: Status::Ok }
            }
            _ => Input::Wake,
        };
        self.engine.handle(Nanos(self.now), input);
        true
    }

    fn gauge(&mut self, name: &str) -> f64 {
        let mut gauges = Vec::new();
        self.engine.gauges(&mut gauges);
        gauges.iter().find(|(is, _)| *is == name).expect("a gauge").1
    }
}

#[test]
fn a_stride_is_read_ahead_of_after_four_places_and_with_more_in_flight_than_a_disk_takes() {
    let mut bench = Bench::new(5 * MILLI);
    let took: Vec<u64> = (0..256).map(|n| bench.read(n * 64, 4)).collect();
    assert!(took[..4].iter().all(|took| *took >= 5 * MILLI), "nothing is known yet: {:?}", &took[..4]);
    let first = bench.ahead.first().expect("read ahead of").1.start.0;
    assert_eq!(first, 4 * 64, "the first that is wished is the fifth place");
    assert!(bench.deepest > 32, "{} in flight", bench.deepest);
    // 4, 6, 12, … 64 pieces in 5 ms: with 16 in flight it would be sixteen rounds and more.
    let all: u64 = took[4..].iter().sum();
    assert!((6..12).contains(&(all / (5 * MILLI))), "{all} ns");
}

#[test]
fn what_is_wished_goes_out_when_the_daemon_has_looked_and_a_worker_has_it() {
    let mut bench = Bench::new(5 * MILLI);
    for n in 0..4 {
        bench.read(n * 64, 4);
    }
    let fourth_miss = 3 * (5 * MILLI + THINKS);
    let went = bench.ahead.first().expect("read ahead of").0;
    assert!(went >= fourth_miss + rhythm::WAKES + HANDED, "{went} after {fourth_miss}");
    assert!(went < fourth_miss + MILLI, "{went} after {fourth_miss}");
}

#[test]
fn a_read_that_waits_for_a_piece_is_known_when_that_is_there() {
    let mut bench = Bench::new(5 * MILLI);
    for n in 0..8 {
        bench.read(n * 64, 4);
    }
    // Nobody waits, so nobody wakes the daemon: it looks when it looks.
    bench.rest(4 * MILLI);
    // Six more are on their way. With the third of them there are so few ahead that more are wished, as soon as it is known.
    let begun = bench.now;
    assert_eq!(bench.ahead.last().expect("read ahead of").1.start.0, 13 * 64);
    bench.read(10 * 64, 4);
    let there = bench.now - THINKS;
    assert!(there > begun + MILLI / 2, "it waited");
    bench.rest(4 * MILLI);
    let (went, next) =
        *bench.ahead.iter().find(|(_, piece)| piece.start.0 == 14 * 64).expect("more was wished");
    assert!(went > there, "{next:?} at {went}, and the read was there at {there}");
}

#[test]
fn a_larger_window_is_tried_after_eight_marks_and_kept_where_it_pays() {
    let mut bench = Bench::new(5 * MILLI);
    let took: Vec<u64> = (0..BLOCKS / 16).map(|n| bench.read(n * 16, 16)).collect();
    assert_eq!(
        (bench.gauge("watch_windows"), bench.gauge("watch_windows_now")),
        (1.0, 1.0),
        "tried, and not taken back"
    );
    assert!(
        took[..128].iter().sum::<u64>() >= 8 * 5 * MILLI,
        "as the kernel alone, until the marks are counted"
    );
    let (_, longest) = bench.ahead.iter().max_by_key(|(_, extent)| extent.blocks).expect("read ahead of");
    assert_eq!(longest.blocks, 128, "the longest command there is");
    let last: u64 = took[took.len() - 512..].iter().sum();
    assert!(last < 16 * 5 * MILLI, "half of the file in {last} ns: windows of 128 KiB take 256 times 5 ms");
    // Where the program is slower than the device there is nothing to earn, and what was tried is taken back.
    let mut near = Bench { thinks: MILLI / 10, ..Bench::new(10_000) };
    for n in 0..BLOCKS / 16 {
        near.read(n * 16, 16);
    }
    assert_eq!((near.gauge("watch_windows"), near.gauge("watch_windows_now")), (1.0, 0.0));
}

#[test]
fn streams_in_turns_are_let_alone_by_patterns() {
    let mut bench = Bench::new(MILLI);
    let each = BLOCKS / 8;
    for at in (0..each).step_by(16) {
        for stream in 0..8 {
            bench.read(stream * each + at, 16);
        }
    }
    let pieces = bench.gauge("watch_pieces");
    assert!(pieces > 0.0 && pieces < 100.0, "taken for a stride at first, and no more: {pieces}");
}
