//! A scheme under test in a real engine: reads go in, fetches come out and end when the test says so, and the scheme
//! stays within reach, so that what it keeps can be looked at after each event.

extern crate std;

use super::{Fate, Fetched, Lookup, Outcome, Plan, Policy, World};
use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::{Cache, LineId};
use crate::engine::{Engine, Input, Output, Start, Status};
use crate::registry::{BuiltLayer, SchemeSpec};
use crate::retention::keep::{Afterlife, Retention, Victim};
use crate::scheme::Scheme;
use crate::spec::LayerSpec;
use crate::units::{Extent, Nanos};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::sync::{Mutex, MutexGuard};

/// Blocks of the volume of a rig.
pub(crate) const VOLUME: u64 = 1 << 16;

/// The engine's handle on a scheme that the test holds too.
struct Shared<S>(Arc<Mutex<S>>);

impl<S: Scheme> Shared<S> {
    fn with<T>(&self, call: impl FnOnce(&mut S) -> T) -> T {
        call(&mut self.0.lock().expect("no test panics while it looks"))
    }
}

impl<S: Scheme> Policy for Shared<S> {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.with(|s| s.policy().on_access(access, lookup, world, plan));
    }
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        self.with(|s| s.policy().on_fetched(fetched, world, plan));
    }
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        self.with(|s| s.policy().on_left(extent, fate));
    }
}

impl<S: Scheme> Retention for Shared<S> {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        self.with(|s| s.retention().on_insert(line, ahead, cache));
    }
    fn on_hit(&mut self, line: LineId, outcome: Outcome, cache: &Cache) {
        self.with(|s| s.retention().on_hit(line, outcome, cache));
    }
    fn on_counts(&mut self, line: LineId, cached: i32, unread: i32) {
        self.with(|s| s.retention().on_counts(line, cached, unread));
    }
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        self.with(|s| s.retention().victim(cache))
    }
    fn trim(&mut self, cache: &Cache) -> Option<Victim> {
        self.with(|s| s.retention().trim(cache))
    }
    fn second_chance(&mut self, line: LineId) {
        self.with(|s| s.retention().second_chance(line));
    }
    fn on_hollow(&mut self, line: LineId, cache: &Cache) -> Afterlife {
        self.with(|s| s.retention().on_hollow(line, cache))
    }
    fn forgotten(&mut self) -> Option<LineId> {
        self.with(|s| s.retention().forgotten())
    }
}

impl<S: Scheme> Scheme for Shared<S> {
    fn policy(&mut self) -> &mut dyn Policy {
        self
    }
    fn retention(&mut self) -> &mut dyn Retention {
        self
    }
}

/// A page cache under a scheme.
pub(crate) struct Rig<S> {
    scheme: Arc<Mutex<S>>,
    pub(crate) engine: Engine,
    /// Fetches that have left and not ended.
    flying: Vec<Start>,
    /// Fetches end when [`Rig::done`] says so; otherwise at once.
    pub(crate) held: bool,
    pub(crate) now: Nanos,
    reads: u64,
}

impl<S: Scheme + 'static> Rig<S> {
    /// A page cache of so many blocks.
    pub(crate) fn new(scheme: S, cache_blocks: u64) -> Self {
        let scheme = Arc::new(Mutex::new(scheme));
        let array = Array::new("single:16KiB".parse().expect("a geometry"), VOLUME).expect("holds a strip");
        let none = SchemeSpec::parse("none").expect("a scheme");
        let layer = LayerSpec {
            ahead_blocks_max: Some(cache_blocks),
            ..LayerSpec::page_cache(none, array, cache_blocks)
        };
        let shared = Box::new(Shared(Arc::clone(&scheme)));
        let built = BuiltLayer { scheme: shared, line_blocks: 1, ahead_blocks_max: cache_blocks };
        let engine = layer.build_with(built).expect("fits");
        Self { scheme, engine, flying: Vec::new(), held: false, now: Nanos::ZERO, reads: 0 }
    }
    /// The scheme, to look at.
    pub(crate) fn scheme(&self) -> MutexGuard<'_, S> {
        self.scheme.lock().expect("no test panics while it looks")
    }
    /// One read; returns the fetches that leave because of it.
    pub(crate) fn read(&mut self, start: u64, blocks: u64) -> Vec<(u64, u64)> {
        self.read_of(start, blocks, Extent::new(0, VOLUME))
    }
    /// One read of a file.
    pub(crate) fn read_of(&mut self, start: u64, blocks: u64, within: Extent) -> Vec<(u64, u64)> {
        let context = Context::new(1, within.start.0);
        self.access(Access { within, ..Access::read(context, Extent::new(start, blocks)) })
    }
    /// Any read.
    pub(crate) fn access(&mut self, access: Access) -> Vec<(u64, u64)> {
        self.reads += 1;
        let id = self.reads;
        self.feed(Input::Read { id, access })
    }
    /// The fetch that begins with this block ends.
    pub(crate) fn done(&mut self, start: u64) {
        let place = self.flying.iter().position(|f| f.extent.start.0 == start);
        let command = self.flying.remove(place.expect("such a fetch is in flight")).command;
        self.feed(Input::Done { command, status: Status::Ok });
    }
    /// Fetches in flight, by first block.
    pub(crate) fn flying(&self) -> Vec<u64> {
        self.flying.iter().map(|f| f.extent.start.0).collect()
    }
    fn feed(&mut self, input: Input<'_>) -> Vec<(u64, u64)> {
        let mut started = Vec::new();
        let mut inputs = Vec::from([input]);
        while !inputs.is_empty() {
            for input in core::mem::take(&mut inputs) {
                self.now += Nanos(1_000);
                self.engine.handle(self.now, input);
            }
            while let Some(output) = self.engine.poll() {
                match output {
                    Output::Start(start) => {
                        started.push((start.extent.start.0, start.extent.blocks));
                        self.flying.push(start);
                    }
                    Output::Ready { handle, .. } => inputs.push(Input::Release { handle }),
                    Output::Promote { .. }
                    | Output::Fill { .. }
                    | Output::Combine { .. }
                    | Output::Sync { .. } => {}
                }
            }
            if !self.held {
                let ended = self.flying.drain(..);
                inputs.extend(ended.map(|f| Input::Done { command: f.command, status: Status::Ok }));
            }
        }
        started.sort_unstable();
        started
    }
}
