//! What becomes of writes that members refuse.

use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::State;
use crate::engine::destage::JOBS_MAX;
use crate::engine::{Engine, Input, Status};
use crate::hand::Hand;
use crate::registry::SchemeSpec;
use crate::spec::LayerSpec;
use crate::units::{Block, Extent, Nanos};
use alloc::vec;
use alloc::vec::Vec;

fn engine() -> Engine {
    engine_on("single:16KiB")
}

fn engine_on(array: &str) -> Engine {
    let array = Array::new(array.parse().expect("valid"), 1 << 12).expect("holds strips");
    let none = SchemeSpec::parse("none").expect("a scheme");
    LayerSpec::array_cache(none, array, 1 << 10).build().expect("fits")
}

/// Hands an input over; returns the answers that come of it, which are given back at once: id, and whether it is an error.
fn feed(host: &mut Hand, at: u64, input: Input<'_>) -> Vec<(u64, bool)> {
    host.now = Nanos(at);
    host.feed(input);
    host.release_all()
}

/// Everything under way ends well.
fn end_all(host: &mut Hand) -> Vec<(u64, bool)> {
    let mut answers = Vec::new();
    while host.end_first().is_some() {
        answers.extend(host.release_all());
    }
    answers
}

#[test]
fn one_failed_write_fails_itself_alone_and_its_blocks_are_read_anew() {
    let mut host = Hand::new(engine());
    let writes = JOBS_MAX as u64 + 8;
    for id in 0..writes {
        host.write(id, id * 16, 2, true);
        assert_eq!(host.release_all(), []);
    }
    let command = host.running[0].command;
    let failed = feed(&mut host, 1, Input::Done { command, status: Status::Short { good: 0 } });
    assert_eq!(failed, [(0, true)], "nobody else hears of it");
    assert_eq!(host.state(0), State::Empty);
    let mut answers = [failed, end_all(&mut host)].concat();
    answers.sort_unstable();
    let all: Vec<_> = (0..writes).map(|id| (id, id == 0)).collect();
    assert_eq!(answers, all);
    assert_eq!(host.state(16), State::Cached);
    assert!(host.engine.is_idle());
    // The next flush says it once more, the one after that does not.
    for (id, error) in [(100, true), (101, false)] {
        assert_eq!(feed(&mut host, 2, Input::Flush { id }), [(id, error)]);
    }
}

#[test]
fn a_write_to_a_wide_stripe_without_parity_holds_what_it_writes_and_nothing_else_of_it() {
    let mut host = Hand::new(engine_on("raid0:4x16KiB"));
    host.read(0, 0, 16);
    let mut answers = end_all(&mut host);
    let write = |id, block| {
        let access = Access::write(Context(0), Extent::new(block, 1));
        Input::Write { id, access, durable: true }
    };
    answers.extend(feed(&mut host, 2, write(1, 9)));
    let held = |engine: &Engine| {
        let is_held = |block: &u64| {
            let (cache, block) = (engine.cache(), Block(*block));
            let line = cache.find(block).expect("the stripe is here");
            cache.slots.is_pinned(cache.cell(line, block).slot)
        };
        (0..16).filter(is_held).collect::<Vec<u64>>()
    };
    assert_eq!((held(&host.engine), host.running.len()), (vec![9], 1));
    // What is written meanwhile waits for the job, and then goes together, whatever lies between.
    answers.extend(feed(&mut host, 3, write(2, 14)));
    answers.extend(feed(&mut host, 3, write(3, 2)));
    assert_eq!(host.running.len(), 1);
    host.now = Nanos(4);
    host.end_first();
    assert_eq!(host.running.len(), 2);
    answers.extend(host.release_all());
    answers.extend(end_all(&mut host));
    answers.sort_unstable();
    assert_eq!(answers, [(0, false), (1, false), (2, false), (3, false)]);
    let engine = &host.engine;
    assert!(engine.is_idle() && held(engine).is_empty() && engine.cache().dirty_blocks == 0);
}
