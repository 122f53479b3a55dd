//! What becomes of writes that members refuse.

use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::State;
use crate::engine::destage::JOBS_MAX;
use crate::engine::{Engine, Input, Output, Status};
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

/// Takes the outputs: commands that left, and answers with whether they are errors.
fn drain(engine: &mut Engine, started: &mut Vec<u32>, answers: &mut Vec<(u64, bool)>) {
    while let Some(output) = engine.poll() {
        match output {
            Output::Start(start) => started.push(start.command),
            Output::Ready { id, handle, error } => {
                answers.push((id, error));
                engine.handle(Nanos(1), Input::Release { handle });
            }
            _ => {}
        }
    }
}

#[test]
fn one_failed_write_fails_itself_alone_and_its_blocks_are_read_anew() {
    let mut engine = engine();
    let (mut started, mut answers) = (Vec::new(), Vec::new());
    let writes = JOBS_MAX as u64 + 8;
    for id in 0..writes {
        let access = Access::write(Context(0), Extent::new(id * 16, 2));
        engine.handle(Nanos(1), Input::Write { id, access, durable: true });
        drain(&mut engine, &mut started, &mut answers);
    }
    assert!(answers.is_empty() && !started.is_empty());
    engine.handle(Nanos(1), Input::Done { command: started.remove(0), status: Status::Short { good: 0 } });
    drain(&mut engine, &mut started, &mut answers);
    assert_eq!(answers, [(0, true)], "nobody else hears of it");
    assert_eq!(engine.cache().state(Block(0)), State::Empty);
    while let Some(command) = started.pop() {
        engine.handle(Nanos(1), Input::Done { command, status: Status::Ok });
        drain(&mut engine, &mut started, &mut answers);
    }
    answers.sort_unstable();
    let all: Vec<_> = (0..writes).map(|id| (id, id == 0)).collect();
    assert_eq!(answers, all);
    assert_eq!(engine.cache().state(Block(16)), State::Cached);
    assert!(engine.is_idle());
    // The next flush says it once more, the one after that does not.
    for (id, error) in [(100, true), (101, false)] {
        answers.clear();
        engine.handle(Nanos(2), Input::Flush { id });
        drain(&mut engine, &mut started, &mut answers);
        assert_eq!(answers, [(id, error)]);
    }
}

#[test]
fn a_write_to_a_wide_stripe_without_parity_holds_what_it_writes_and_nothing_else_of_it() {
    let mut engine = engine_on("raid0:4x16KiB");
    let (mut started, mut answers) = (Vec::new(), Vec::new());
    let read = Access::read(Context(0), Extent::new(0, 16));
    engine.handle(Nanos(1), Input::Read { id: 0, access: read });
    drain(&mut engine, &mut started, &mut answers);
    for command in core::mem::take(&mut started) {
        engine.handle(Nanos(1), Input::Done { command, status: Status::Ok });
    }
    drain(&mut engine, &mut started, &mut answers);
    let write = |id, block| {
        let access = Access::write(Context(0), Extent::new(block, 1));
        Input::Write { id, access, durable: true }
    };
    engine.handle(Nanos(2), write(1, 9));
    drain(&mut engine, &mut started, &mut answers);
    let held = |engine: &Engine| {
        let is_held = |block: &u64| {
            let (cache, block) = (engine.cache(), Block(*block));
            let line = cache.find(block).expect("the stripe is here");
            cache.slots.is_pinned(cache.cell(line, block).slot)
        };
        (0..16).filter(is_held).collect::<Vec<u64>>()
    };
    assert_eq!((held(&engine), started.len()), (vec![9], 1));
    // What is written meanwhile waits for the job, and then goes together, whatever lies between.
    engine.handle(Nanos(3), write(2, 14));
    engine.handle(Nanos(3), write(3, 2));
    drain(&mut engine, &mut started, &mut answers);
    assert_eq!(started.len(), 1);
    engine.handle(Nanos(4), Input::Done { command: started.remove(0), status: Status::Ok });
    drain(&mut engine, &mut started, &mut answers);
    assert_eq!(started.len(), 2);
    for command in core::mem::take(&mut started) {
        engine.handle(Nanos(5), Input::Done { command, status: Status::Ok });
    }
    drain(&mut engine, &mut started, &mut answers);
    answers.sort_unstable();
    assert_eq!(answers, [(0, false), (1, false), (2, false), (3, false)]);
    assert!(engine.is_idle() && held(&engine).is_empty() && engine.cache().dirty_blocks == 0);
}
