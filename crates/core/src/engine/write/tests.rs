//! What becomes of writes that members refuse.

use super::{JOBS_MAX, WriteMode};
use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::State;
use crate::cost::CostModel;
use crate::dispatch::DemandFirst;
use crate::engine::{Config, Engine, Input, Output, Residency, Status};
use crate::registry::{Layer, LayerShape, SchemeSpec};
use crate::units::{Block, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;

fn engine() -> Engine {
    let array = Array::new("single:16KiB".parse().expect("valid"), 1 << 12).expect("holds strips");
    let shape = LayerShape { cache_blocks: 1 << 10, strip_blocks: 4, stripe_strips: 4, disks: 1 };
    let built = SchemeSpec::parse("none").expect("a scheme").build(Layer::Array, &shape);
    let config = Config {
        residency: Residency::Owned,
        cache_blocks: shape.cache_blocks,
        line_blocks: built.line_blocks,
        strip_aligned: true,
        retain: true,
        command_blocks_max: 4,
        ahead_blocks_max: 8,
        staging_blocks: 0,
        write: WriteMode::Through,
    };
    Engine::new(config, array, CostModel::default(), built.scheme, Box::new(DemandFirst::new(1)))
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
