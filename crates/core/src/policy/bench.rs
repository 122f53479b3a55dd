//! A bench for tests of a policy on its own: a page cache in which whatever was wished for is there at the next access.
//!
//! It has no engine, no device and no time: what a policy sees is exactly what the test says.

use super::{Fate, Lookup, Outcome, Plan, Policy, World};
use crate::access::{Access, Advice, Context};
use crate::array::Array;
use crate::cache::{Cache, State};
use crate::cost::CostModel;
use crate::units::{Block, Extent, Nanos};
use alloc::vec::Vec;

/// What one access led to: first block of the access, first block and length of each wish.
pub(crate) type Windows = Vec<(u64, u64, u64)>;

/// A policy and what is in memory.
pub(crate) struct Bench<P> {
    pub(crate) policy: P,
    array: Array,
    cache: Cache,
    within: Extent,
    context: Context,
    advice: Advice,
}

impl<P: Policy> Bench<P> {
    /// A volume of 4 GiB, all of it one file.
    pub(crate) fn new(policy: P) -> Self {
        let array =
            Array::new("single:128KiB".parse().expect("a valid name"), 1 << 20).expect("holds strips");
        let cache = Cache::new(1, 1 << 20);
        Self {
            policy,
            array,
            cache,
            within: Extent::new(0, u64::MAX),
            context: Context(0),
            advice: Advice::Normal,
        }
    }
    /// From here on the reads are of this file.
    pub(crate) fn of(mut self, start: u64, blocks: u64) -> Self {
        self.within = Extent::new(start, blocks);
        self
    }
    /// From here on this was said of what is read.
    pub(crate) fn advised(mut self, advice: Advice) -> Self {
        self.advice = advice;
        self
    }
    /// From here on somebody else reads.
    pub(crate) fn by(&mut self, context: u64) -> &mut Self {
        self.context = Context(context);
        self
    }
    /// The policy, to be told what no access tells.
    pub(crate) const fn policy(&mut self) -> &mut P {
        &mut self.policy
    }
    /// Reads, and returns the wishes.
    pub(crate) fn read(&mut self, start: u64, blocks: u64) -> Windows {
        let extent = Extent::new(start, blocks);
        let access =
            Access { within: self.within, advice: self.advice, ..Access::read(self.context, extent) };
        let outcome = |block| match self.cache.state(block) {
            State::Empty => Outcome::Miss,
            State::Cached => Outcome::CacheHit,
            State::Prefetched => Outcome::PrefetchHit,
            State::FetchPrefetch => Outcome::LateHit,
            State::FetchDemand => Outcome::MergedMiss,
        };
        let outcomes: Vec<Outcome> = extent.iter().map(outcome).collect();
        let (cost, mut plan) = (CostModel::default(), Plan::new());
        let world = World {
            now: Nanos::ZERO,
            cache: &self.cache,
            array: &self.array,
            cost: &cost,
            filled: true,
            blocks: self.array.capacity_blocks(),
            ahead_in_flight: 0,
        };
        self.policy.on_access(&access, &Lookup { outcomes: &outcomes }, &world, &mut plan);
        extent.iter().for_each(|block| self.put(block, State::Cached));
        for wish in plan.wishes() {
            for block in wish.extent.iter() {
                if self.cache.state(block) == State::Empty {
                    self.put(block, State::Prefetched);
                }
            }
        }
        plan.wishes().iter().map(|wish| (start, wish.extent.start.0, wish.extent.blocks)).collect()
    }
    /// Reads single blocks.
    pub(crate) fn reads(&mut self, blocks: impl IntoIterator<Item = u64>) -> Windows {
        blocks.into_iter().flat_map(|block| self.read(block, 1)).collect()
    }
    /// A block leaves.
    pub(crate) fn evict(&mut self, block: u64) {
        let unread = self.cache.state(Block(block)) == State::Prefetched;
        self.put(Block(block), State::Empty);
        if unread {
            self.policy.on_left(Extent::new(block, 1), Fate::Wasted);
        }
    }
    fn put(&mut self, block: Block, state: State) {
        let (line, _) = self.cache.ensure(block);
        self.cache.set(line, block, |cell| cell.state = state);
    }
}
