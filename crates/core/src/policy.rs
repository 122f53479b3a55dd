//! Detect, permit, size: what a prefetching scheme decides about every access.
//!
//! A policy is hooks with empty defaults. It is told what happened, sees a read-only world, and writes wishes into a
//! bounded plan; it never reads, waits, evicts or asks the time. The engine clips the wishes, drops what is resident
//! or in flight, splits them by the array and obeys the budgets.

use crate::access::{Access, Context};
use crate::array::Array;
use crate::cache::Cache;
use crate::cost::CostModel;
use crate::units::{Extent, Nanos};
use alloc::vec::Vec;

pub mod amp;
pub mod asp;
#[cfg(test)]
mod bench;
pub mod decisions;
pub mod files;
pub mod flashy;
pub mod linux24;
pub mod linux26;
pub mod linux6;
pub mod linux_ondemand;
pub mod msp;
pub mod none;
mod readahead;
pub mod regions;
#[cfg(test)]
pub(crate) mod rig;
pub mod rpp;
pub mod sarc;
pub mod streams;
pub mod strip;
pub mod tap;
pub mod zfetch;

/// How the cache answered one block of a read (design.md, "Words").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Had been read since it was loaded.
    CacheHit,
    /// Loaded by a prefetch, first use.
    PrefetchHit,
    /// A prefetch of it is still in flight.
    LateHit,
    /// Not here.
    Miss,
    /// Not here, but another reader's fetch of it is in flight.
    MergedMiss,
}

impl Outcome {
    /// Whether the block must be fetched for this access.
    #[must_use]
    pub const fn is_miss(self) -> bool {
        matches!(self, Self::Miss)
    }
}

/// How the cache answered a whole access.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// One per block of the access, in block order. Empty for a write.
    pub outcomes: &'a [Outcome],
}

impl Lookup<'_> {
    /// Whether any block must be fetched.
    #[must_use]
    pub fn any_miss(&self) -> bool {
        self.outcomes.iter().any(|o| o.is_miss())
    }
}

/// What a policy may look at.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// When the event happened.
    pub now: Nanos,
    /// Blocks and lines, before the event changed them.
    pub cache: &'a Cache,
    /// How blocks lie on the disks.
    pub array: &'a Array,
    /// What a read is believed to cost.
    pub cost: &'a CostModel,
    /// Whether the cache has been full once.
    pub filled: bool,
    /// Blocks that this layer may address; wishes beyond are clipped.
    pub blocks: u64,
    /// Prefetched blocks on their way.
    pub ahead_in_flight: u64,
}

/// When a wished extent should be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In the same command as the missing blocks of this access, where they lie in the same strip.
    WithDemand,
    /// On its own, behind demand.
    Ahead,
}

/// One extent that a policy would like to have in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Which blocks.
    pub extent: Extent,
    /// In which command.
    pub when: When,
    /// Marks its blocks as loaded by a massive stripe prefetch.
    pub mass: bool,
    /// On whose behalf; `None` is whoever made the access, if there is one.
    pub context: Option<Context>,
}

/// Most wishes of one event. 64: a 1 MiB access that widens each of its 4 KiB-apart strips still fits.
pub const WISHES_MAX: usize = 64;
/// Most wake-ups asked for in one event.
pub const WAKES_MAX: usize = 8;

/// The bounded list of wishes that the engine executes or drops.
#[derive(Debug, Default)]
pub struct Plan {
    pub(crate) wishes: Vec<Wish>,
    pub(crate) wakes: Vec<(Nanos, u64)>,
    pub(crate) overflow: u64,
}

impl Plan {
    /// An empty plan, for tests of a policy on its own.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Wishes for an extent. A full plan ignores it and counts.
    pub fn fetch(&mut self, extent: Extent, when: When) {
        self.push(Wish { extent, when, mass: false, context: None });
    }
    /// Wishes for whole stripes ahead of a single sequential reader (MSP).
    pub fn fetch_mass(&mut self, extent: Extent) {
        self.push(Wish { extent, when: When::Ahead, mass: true, context: None });
    }
    /// Wishes for an extent ahead of `context`, at a time when nobody asks (a wake-up).
    pub fn fetch_for(&mut self, context: Context, extent: Extent) {
        self.push(Wish { extent, when: When::Ahead, mass: false, context: Some(context) });
    }
    fn push(&mut self, wish: Wish) {
        if wish.extent.is_empty() {
            return;
        }
        if self.wishes.len() < WISHES_MAX {
            self.wishes.push(wish);
        } else {
            self.overflow += 1;
        }
    }
    /// Keeps of the wishes from number `first` on what lies within `limit`: how a controller clamps what another wished.
    pub fn clamp_from(&mut self, first: usize, limit: Extent) {
        let mut kept = first;
        for at in first..self.wishes.len() {
            let extent = self.wishes[at].extent.intersect(limit);
            if !extent.is_empty() {
                self.wishes[kept] = Wish { extent, ..self.wishes[at] };
                kept += 1;
            }
        }
        self.wishes.truncate(kept);
    }
    /// Asks for [`Policy::on_wake`] with `token` at `at`.
    pub fn wake_at(&mut self, at: Nanos, token: u64) {
        if self.wakes.len() < WAKES_MAX {
            self.wakes.push((at, token));
        } else {
            self.overflow += 1;
        }
    }
    /// What has been wished so far.
    #[must_use]
    pub fn wishes(&self) -> &[Wish] {
        &self.wishes
    }
    /// What wake-ups have been asked for so far: when, and their tokens.
    #[must_use]
    pub fn wakes(&self) -> &[(Nanos, u64)] {
        &self.wakes
    }
    /// Forgets all wishes and wake-ups, and keeps the memory.
    pub fn clear(&mut self) {
        self.wishes.clear();
        self.wakes.clear();
    }
}

/// A fetch that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    /// Who caused it.
    pub context: Context,
    /// What arrived.
    pub extent: Extent,
    /// From issue to arrival.
    pub took: Nanos,
    /// Nobody had asked for any of it when it was issued.
    pub was_prefetch: bool,
    /// A reader was waiting when it arrived.
    pub reader_waiting: bool,
}

/// A read that reached a device although a policy might have prefetched it: all reads but those of wishes made for a
/// context by a timer ([`Plan::fetch_for`]).
#[derive(Clone, Copy, Debug)]
pub struct DeviceRead {
    /// Who asked.
    pub context: Context,
    /// What was asked for; empty where nobody asked and somebody's read-ahead went down alone.
    pub extent: Extent,
    /// Blocks that another policy's read-ahead brings along, or alone.
    pub ahead_blocks: u64,
    /// A prefetch of it was issued too late to save the wait.
    pub was_prefetched: bool,
}

/// How a prefetched block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was read.
    Used,
    /// It left unread.
    Wasted,
}

/// Detect, permit, size. Source: design.md, "The central types, in words".
pub trait Policy: Send {
    /// An access and the cache's answer, before the answer changes the cache.
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let _ = (access, lookup, world, plan);
    }
    /// A fetch arrived.
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        let _ = (fetched, world, plan);
    }
    /// A read reached the device.
    fn on_device_read(&mut self, read: &DeviceRead, world: &World<'_>, plan: &mut Plan) {
        let _ = (read, world, plan);
    }
    /// Blocks that a prefetch loaded have left, or were used.
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        let _ = (extent, fate);
    }
    /// Whether [`Policy::on_left`] listens at all. Asked once: who does not is not told of every block.
    fn hears_left(&mut self) -> bool {
        true
    }
    /// A wake-up asked for by [`Plan::wake_at`].
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        let _ = (token, world, plan);
    }
    /// Numbers worth showing at the end of a run, by name.
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        let _ = out;
    }
    /// Numbers worth a curve over the run, by name.
    fn curves(&self, out: &mut Vec<(&'static str, f64)>) {
        let _ = out;
    }
    /// Hands over the turns of its switches since the last call: when, on or off, and why.
    fn decisions(&mut self, out: &mut Vec<decisions::Decision>) {
        let _ = out;
    }
}
