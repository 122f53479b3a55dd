//! How many requests a second one core schedules with each scheme of sequential streams, at 100, 1,000 and 10,000 of them.
//!
//! `cargo run --release -p forerun-core --example decide_streams -- [--json] [--requests N] [SCHEME…]` reads in turn from that
//! many titles, 64 KiB at a time, one request outstanding for each, through a whole engine over one disk that ends
//! commands in the order in which they leave and takes no time. A decision is a request with all that follows from it:
//! classifying, queueing, turns, wishes, memory, and the commands that leave. The row `none` is the engine without a scheduler.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "the program is its output, and it measures real time"
)]

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::engine::{Engine, Input, Output, Status};
use forerun_core::registry::SchemeSpec;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{Extent, Nanos};
use std::collections::VecDeque;
use std::time::Instant;

/// Numbers of streams.
const STREAMS: [u64; 3] = [100, 1_000, 10_000];
/// Blocks of a request: 64 KiB.
const REQUEST: u64 = 16;
/// Blocks of a title: 64 MiB.
const TITLE: u64 = 16_384;
/// Blocks of the cache: 4 GiB, so that the largest number of streams has room.
const CACHE: u64 = 1 << 20;
/// Requests of one measurement unless given.
const REQUESTS: u64 = 1_000_000;
/// Measurements of which the best counts.
const ROUNDS: u32 = 3;
/// Virtual time between two requests: 64 KiB at 55 MB/s.
const STEP: u64 = 1_200_000;

fn engine(scheme: &str, streams: u64) -> Engine {
    let array = Array::new("single:128KiB".parse().expect("valid"), streams * TITLE).expect("holds strips");
    let scheme = SchemeSpec::parse(scheme).expect("a scheme of the registry");
    LayerSpec::array_cache(scheme, array, CACHE).build().expect("fits")
}

/// Ends commands until no reader that could ask is missing, or nothing is under way.
fn drain(engine: &mut Engine, now: Nanos, running: &mut VecDeque<u32>, ready: &mut VecDeque<u64>) {
    loop {
        while let Some(output) = engine.poll() {
            match output {
                Output::Start(start) => running.push_back(start.command),
                Output::Ready { id, handle, .. } => {
                    ready.push_back(id);
                    engine.handle(now, Input::Release { handle });
                }
                _ => {}
            }
        }
        if !ready.is_empty() {
            return;
        }
        let Some(command) = running.pop_front() else { return };
        engine.handle(now, Input::Done { command, status: Status::Ok });
    }
}

/// Nanoseconds of real time for each request.
fn measure(scheme: &str, streams: u64, requests: u64) -> f64 {
    let mut engine = engine(scheme, streams);
    let mut next: Vec<u64> = (0..streams).map(|stream| stream * TITLE).collect();
    let (mut running, mut ready): (VecDeque<u32>, VecDeque<u64>) = (VecDeque::new(), (0..streams).collect());
    let begin = Instant::now();
    let mut asked = 0;
    while asked < requests {
        let now = Nanos(asked * STEP);
        if engine.next_wake().is_some_and(|at| at <= now) {
            engine.handle(now, Input::Wake);
        }
        drain(&mut engine, now, &mut running, &mut ready);
        let stream = ready.pop_front().expect("somebody is answered: nobody starves");
        let at = &mut next[usize::try_from(stream).expect("10,000 at most")];
        let access = Access::read(Context::new(stream, 0), Extent::new(*at, REQUEST));
        *at += REQUEST;
        if *at == (stream + 1) * TITLE {
            *at = stream * TITLE;
        }
        engine.handle(now, Input::Read { id: stream, access });
        asked += 1;
    }
    #[expect(clippy::cast_precision_loss, reason = "a report")]
    let each = begin.elapsed().as_secs_f64() * 1e9 / requests as f64;
    each
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut as_json, mut requests, mut schemes) = (false, REQUESTS, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => as_json = true,
            "--requests" => {
                requests = arguments.next().and_then(|n| n.parse().ok()).expect("--requests takes a number");
            }
            _ => schemes.push(argument),
        }
    }
    if schemes.is_empty() {
        schemes = ["none", "streams", "streams(D=1,R=512KiB,N=128)", "cadence"].map(String::from).to_vec();
    }
    if !as_json {
        println!("{:<30}{:>8}{:>16}{:>10}", "scheme", "streams", "decisions/s", "ns each");
    }
    for scheme in &schemes {
        for streams in STREAMS {
            let rounds = (0..ROUNDS).map(|_| measure(scheme, streams, requests));
            let nanos = rounds.min_by(f64::total_cmp).expect("at least one round");
            let rate = 1e9 / nanos;
            if as_json {
                println!(
                    "{{\"scheme\":\"{scheme}\",\"streams\":{streams},\"decisions_per_second\":{rate:.0},\"ns_per_decision\":{nanos:.1}}}"
                );
            } else {
                println!("{scheme:<30}{streams:>8}{rate:>16.0}{nanos:>10.1}");
            }
        }
    }
}
