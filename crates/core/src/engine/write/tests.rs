//! What becomes of writes that members refuse.

use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::State;
use crate::engine::destage::JOBS_MAX;
use crate::engine::{Engine, Input, Output, Status};
use crate::registry::SchemeSpec;
use crate::spec::LayerSpec;
use crate::units::{Block, Extent, Nanos};
use alloc::vec::Vec;

fn engine() -> Engine {
    let array = Array::new("single:16KiB".parse().expect("valid"), 1 << 12).expect("holds strips");
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
