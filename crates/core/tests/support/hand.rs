//! A host by hand: an engine, and what is under way between it and whoever tests it.
//!
//! It does what a test asks for and nothing else. An input goes in, and everything that the engine says comes back in order; what has
//! left is listed until the test ends it, what was answered until the test gives it back. Unit tests and those in `tests/` share this
//! file. Runs with data in the blocks, judged by a model, are in `host.rs`; where nothing is under way, `Engine::settle` is enough.

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use forerun_core::access::{Access, Context};
use forerun_core::cache::State;
use forerun_core::engine::{Engine, Input, Output, Parts, Start, Status};
use forerun_core::units::{Block, Extent, Nanos};

/// Everything that an engine or an observer has to say now.
pub(crate) fn outputs(parts: &mut Parts) -> Vec<Output> {
    core::iter::from_fn(|| parts.poll()).collect()
}

/// The commands that leave.
pub(crate) fn starts(outputs: &[Output]) -> Vec<Start> {
    let start = |o: &Output| if let Output::Start(start) = o { Some(*start) } else { None };
    outputs.iter().filter_map(start).collect()
}

/// (id, handle, error) of every answer.
pub(crate) fn answers(outputs: &[Output]) -> Vec<(u64, u32, bool)> {
    let ready = |o: &Output| match *o {
        Output::Ready { id, handle, error } => Some((id, handle, error)),
        _ => None,
    };
    outputs.iter().filter_map(ready).collect()
}

/// Takes the first such entry out, which is mostly the first of all.
fn forget<T>(list: &mut VecDeque<T>, is_it: impl Fn(&T) -> bool) {
    if let Some(at) = list.iter().position(is_it) {
        list.remove(at);
    }
}

/// An engine in the hand of a test.
pub(crate) struct Hand {
    pub(crate) engine: Engine,
    /// When the last input came, or the next one comes where time does not pass by itself.
    pub(crate) now: Nanos,
    /// What passes before each input.
    tick: Nanos,
    /// Commands that have left and not ended.
    pub(crate) running: VecDeque<Start>,
    /// (id, handle, error) of answers that were not given back.
    pub(crate) answered: VecDeque<(u64, u32, bool)>,
}

impl Hand {
    /// Inputs come when the test says so.
    pub(crate) fn new(engine: Engine) -> Self {
        Self::ticking(engine, Nanos::ZERO)
    }
    /// Inputs come `tick` one after the other.
    pub(crate) fn ticking(engine: Engine, tick: Nanos) -> Self {
        Self { engine, now: Nanos::ZERO, tick, running: VecDeque::new(), answered: VecDeque::new() }
    }
    /// Hands an input over; returns what the engine says.
    pub(crate) fn feed(&mut self, input: Input<'_>) -> Vec<Output> {
        match input {
            Input::Done { command, .. } => forget(&mut self.running, |start| start.command == command),
            Input::Release { handle } => forget(&mut self.answered, |answer| answer.1 == handle),
            _ => {}
        }
        self.now += self.tick;
        self.engine.handle(self.now, input);
        self.listen()
    }
    /// What the engine says now.
    pub(crate) fn listen(&mut self) -> Vec<Output> {
        let said = outputs(&mut self.engine);
        self.running.extend(starts(&said));
        self.answered.extend(answers(&said));
        said
    }
    /// A read of a reader without a file.
    pub(crate) fn read(&mut self, id: u64, start: u64, blocks: u64) -> Vec<Output> {
        self.feed(Input::Read { id, access: Access::read(Context(1), Extent::new(start, blocks)) })
    }
    /// A write of the same.
    pub(crate) fn write(&mut self, id: u64, start: u64, blocks: u64, durable: bool) -> Vec<Output> {
        let access = Access::write(Context(1), Extent::new(start, blocks));
        self.feed(Input::Write { id, access, durable })
    }
    /// A command ends well.
    pub(crate) fn done(&mut self, command: u32) -> Vec<Output> {
        self.feed(Input::Done { command, status: Status::Ok })
    }
    /// The command that left first ends well, if there is one.
    pub(crate) fn end_first(&mut self) -> Option<Vec<Output>> {
        let command = self.running.front()?.command;
        Some(self.done(command))
    }
    /// The first answer is given back, if there is one.
    pub(crate) fn release_first(&mut self) -> Option<Vec<Output>> {
        let handle = self.answered.front()?.1;
        Some(self.feed(Input::Release { handle }))
    }
    /// What is known of a block.
    pub(crate) fn state(&self, block: u64) -> State {
        self.engine.cache().state(Block(block))
    }
    /// All answers are given back; returns (id, error) of each.
    pub(crate) fn release_all(&mut self) -> Vec<(u64, bool)> {
        let mut all = Vec::new();
        while let Some(&(id, _, error)) = self.answered.front() {
            all.push((id, error));
            self.release_first();
        }
        all
    }
}
