//! A scheme under test in a real engine: reads go in, fetches come out and end when the test says so, and the scheme
//! stays within reach, so that what it keeps can be looked at after each event.

use super::Policy;
use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::Cache;
use crate::engine::{Input, Status};
use crate::hand::{Hand, starts};
use crate::registry::{BuiltLayer, SchemeSpec};
use crate::retention::adapter::ByLine;
use crate::retention::contract::Retention;
use crate::retention::lru::Lru;
use crate::scheme::Scheme;
use crate::spec::LayerSpec;
use crate::units::{Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// Blocks of the volume of a rig.
pub(crate) const VOLUME: u64 = 1 << 16;

/// A page cache under a scheme.
pub(crate) struct Rig<P> {
    policy: PhantomData<P>,
    pub(crate) hand: Hand,
    /// Fetches end when [`Rig::done`] says so; otherwise at once.
    pub(crate) held: bool,
    reads: u64,
}

impl<P: Policy> Rig<P> {
    /// A page cache of so many blocks.
    pub(crate) fn new(policy: P, cache_blocks: u64) -> Self {
        let array = Array::new("single:16KiB".parse().expect("a geometry"), VOLUME).expect("holds a strip");
        let none = SchemeSpec::parse("none").expect("a scheme");
        let layer = LayerSpec {
            ahead_blocks_max: Some(cache_blocks),
            ..LayerSpec::page_cache(none, array, cache_blocks)
        };
        let lru = || Box::new(ByLine::new(Lru::new(cache_blocks as usize))) as Box<dyn Retention>;
        let scheme = Scheme::new(Vec::from([Box::new(policy) as Box<dyn Policy>]), lru);
        let built = BuiltLayer { scheme, line_blocks: 1, ahead_blocks_max: cache_blocks };
        let hand = Hand::ticking(layer.build_with(built).expect("fits"), Nanos(1_000));
        Self { policy: PhantomData, hand, held: false, reads: 0 }
    }
    /// The policy, to look at.
    pub(crate) fn policy(&self) -> &P {
        self.hand.engine.scheme().part().expect("the policy is what the rig was made with")
    }
    /// The same, to change, beside the cache that it works with.
    pub(crate) fn policy_mut(&mut self) -> (&mut P, &Cache) {
        let (scheme, cache) = self.hand.engine.scheme_mut();
        (scheme.part_mut().expect("the policy is what the rig was made with"), cache)
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
        let fetch = self.hand.running.iter().find(|f| f.extent.start.0 == start);
        let command = fetch.expect("such a fetch is in flight").command;
        self.feed(Input::Done { command, status: Status::Ok });
    }
    /// Fetches in flight, by first block.
    pub(crate) fn flying(&self) -> Vec<u64> {
        self.hand.running.iter().map(|f| f.extent.start.0).collect()
    }
    fn feed(&mut self, input: Input<'_>) -> Vec<(u64, u64)> {
        let mut said = self.hand.feed(input);
        loop {
            let given_back = self.hand.release_first();
            let ended = if given_back.is_none() && !self.held { self.hand.end_first() } else { None };
            let Some(more) = given_back.or(ended) else { break };
            said.extend(more);
        }
        let mut started: Vec<(u64, u64)> =
            starts(&said).iter().map(|s| (s.extent.start.0, s.extent.blocks)).collect();
        started.sort_unstable();
        started
    }
}
