//! Detect, permit, size: what a prefetching scheme decides about every access.
//!
//! A policy is told what happened ([`Event`]), sees a read-only world, and writes wishes into a bounded plan; it has a hook
//! with an empty default for each event. It never reads, waits, evicts or asks the time. The engine clips the wishes, drops what is resident
//! or in flight, splits them by the array and obeys the budgets.

use crate::access::{Access, Context};
pub use crate::access::{Lookup, Outcome};
use crate::array::Array;
use crate::cache::Cache;
use crate::cost::CostModel;
use crate::dispatch::Dispatch;
use crate::retention::contract::Retention;
use crate::units::{Extent, Nanos};
use alloc::vec::Vec;
use core::any::Any;

pub mod amp;
pub mod asp;
pub mod auto;
#[cfg(test)]
mod bench;
pub mod decisions;
pub mod flashy;
pub mod grain;
pub mod linux24;
pub mod linux26;
pub mod linux6;
pub mod linux_ondemand;
pub mod msp;
pub mod none;
mod readahead;
pub mod recall;
pub mod regions;
#[cfg(test)]
pub(crate) mod rig;
pub mod rpp;
pub mod sarc;
#[cfg(test)]
pub mod skeleton;
pub mod split;
pub mod streams;
pub mod stride;
pub mod strip;
pub mod tap;
pub mod zfetch;

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

/// Most wishes of one event. 64: an access of 1 MiB that widens each of its strips of 16 KiB still fits, and the longest one,
/// of 4 MiB, on strips of 64 KiB. On smaller strips those behind are not widened, which is counted; all but the first and the
/// last are read whole anyway, so that no more than the last strip's rest is lost.
pub const WISHES_MAX: usize = 64;
/// Most wake-ups asked for in one event.
pub const WAKES_MAX: usize = 8;

/// A wake-up that somebody has asked for, and whom it wakes.
///
/// Whoever asks chooses a token for itself alone. A scheme adds which of its parts it was, on the way out, and takes that off again on
/// the way back, so that two parts may use the same token. What wraps a policy and what it wraps are one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake {
    /// When.
    pub at: Nanos,
    /// What for, to the one who asked.
    pub token: u64,
    /// The number of its part in the outermost scheme in the lowest byte, and those of the schemes in that above it. A scheme of
    /// one part adds nothing.
    part: u64,
}

impl Wake {
    /// Asked for by the only policy that there is, for tests of a policy on its own.
    #[must_use]
    pub const fn new(at: Nanos, token: u64) -> Self {
        Self { at, token, part: 0 }
    }
    /// The part that it is for, and what to tell that part.
    pub(crate) const fn for_part(self) -> (usize, Self) {
        ((self.part % PARTS_MAX as u64) as usize, Self { part: self.part / PARTS_MAX as u64, ..self })
    }
}

/// Most parts of one scheme.
pub(crate) const PARTS_MAX: usize = 1 << 8;

/// The bounded list of wishes that the engine executes or drops.
#[derive(Debug, Default)]
pub struct Plan {
    pub(crate) wishes: Vec<Wish>,
    pub(crate) wakes: Vec<Wake>,
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
            self.wakes.push(Wake::new(at, token));
        } else {
            self.overflow += 1;
        }
    }
    /// What has been wished so far.
    #[must_use]
    pub fn wishes(&self) -> &[Wish] {
        &self.wishes
    }
    /// What wake-ups have been asked for so far.
    #[must_use]
    pub fn wakes(&self) -> &[Wake] {
        &self.wakes
    }
    /// The wake-ups behind the first `asked` are for this part of a scheme.
    #[inline(never)]
    pub(crate) fn name_wakes(&mut self, asked: usize, part: usize) {
        for wake in self.wakes.iter_mut().skip(asked) {
            wake.part = wake.part * PARTS_MAX as u64 + part as u64;
        }
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

/// What a policy is told.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// An access and the cache's answer, before the answer changes the cache.
    Access(&'a Access, Lookup<'a>),
    /// A fetch arrived.
    Fetched(&'a Fetched),
    /// A read reached the device.
    DeviceRead(&'a DeviceRead),
    /// Blocks that a prefetch loaded have left, or were used. It comes in the middle of other work: nothing that is
    /// wished then is heard.
    Left(Extent, Fate),
    /// A wake-up asked for by [`Plan::wake_at`]. Only the part of a scheme that asked for it is told.
    Wake(Wake),
}

/// Where a policy puts what it has to show.
#[derive(Debug)]
pub enum Show<'a> {
    /// Numbers worth showing at the end of a run, by name.
    Gauges(&'a mut Vec<(&'static str, f64)>),
    /// Numbers worth a curve over the run, by name.
    Curves(&'a mut Vec<(&'static str, f64)>),
    /// The turns of its switches since it was last asked: when, on or off, and why.
    Decisions(&'a mut Vec<decisions::Decision>),
}

/// What a scheme asks of its layer; `None` leaves what is usual there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Blocks of a line.
    pub line_blocks: Option<u64>,
    /// Most prefetched blocks in flight: a scheme that keeps books on memory needs no other bound.
    pub ahead_blocks_max: Option<u64>,
}

/// What a policy has learned that is of use another time: the runs of blocks that it knows, in the order in which they are
/// read. A host may keep it and give it to the next policy of this kind over the same volume.
pub trait Learned {
    /// All of it, as one way; each block of a run once.
    fn way(&self) -> Vec<Extent>;
    /// Takes over what was learned before, as far as it has room.
    fn learn(&mut self, way: &[Extent]);
}

/// Detect, permit, size; and keep and dispatch, where these share its state. Source: design.md, "The central types, in
/// words".
///
/// Everything that happens comes through [`Policy::tell`], and everything that is shown goes through [`Policy::show`]. A
/// plain policy leaves both as they are and fills in hooks. One that wraps another names it ([`Policy::inner`]), changes in
/// `tell` what the other hears and wishes, and forwards nothing else: what it does not answer itself is the inner one's.
pub trait Policy: Any + Send {
    /// Something happened. Writes wishes into the plan.
    #[inline]
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        match *event {
            Event::Access(access, ref lookup) => self.on_access(access, lookup, world, plan),
            Event::Fetched(fetched) => self.on_fetched(fetched, world, plan),
            Event::DeviceRead(read) => self.on_device_read(read, world, plan),
            Event::Left(extent, fate) => self.on_left(extent, fate),
            Event::Wake(wake) => self.on_wake(wake.token, world, plan),
        }
    }
    /// Shows its own numbers or decisions, then those of the one it wraps.
    fn show(&mut self, sink: &mut Show<'_>) {
        match sink {
            Show::Gauges(out) => self.gauges(out),
            Show::Curves(out) => self.curves(out),
            Show::Decisions(out) => self.decisions(out),
        }
        if let Some(inner) = self.inner() {
            inner.show(sink);
        }
    }
    /// The policy that it wraps.
    fn inner(&mut self) -> Option<&mut dyn Policy> {
        None
    }
    /// The retention that shares its state, if it has one. Whether there is one never changes.
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        self.inner()?.own_retention()
    }
    /// The dispatch that shares its state, if it has one; otherwise the layer's own decides what leaves when. Whether there
    /// is one never changes.
    fn own_dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        self.inner()?.own_dispatch()
    }
    /// What it asks of its layer instead of the usual.
    fn wants(&mut self) -> Wants {
        self.inner().map_or_else(Wants::default, Policy::wants)
    }
    /// Whether what it reads now is for later: it knows that it loses before it gains.
    fn invests(&mut self) -> bool {
        self.inner().is_some_and(Policy::invests)
    }
    /// Takes over what another of its kind has learned of how readers read, when it is chosen in place of that one. Nothing that
    /// is cached is handed over so.
    fn inherit(&mut self, elder: &dyn Any) {
        if let Some(inner) = self.inner() {
            inner.inherit(elder);
        }
    }
    /// Whether it listens to [`Event::Left`] at all. Asked once: a policy that does not is not told of every block.
    fn hears_left(&mut self) -> bool {
        self.inner().is_none_or(Policy::hears_left)
    }
    /// Whether it listens to blocks that were used, too, and not only to those that left unread. Asked once, as well.
    fn hears_used(&mut self) -> bool {
        match self.inner() {
            Some(inner) => inner.hears_used(),
            None => self.hears_left(),
        }
    }

    /// Whether it listens to [`Event::DeviceRead`]. Asked once, as well: a policy is told of none unless it says so.
    fn hears_device_reads(&mut self) -> bool {
        self.inner().is_some_and(Policy::hears_device_reads)
    }

    /// What it learns, if it learns anything that is of use another time.
    fn learned(&mut self) -> Option<&mut dyn Learned> {
        self.inner()?.learned()
    }

    /// [`Event::Access`].
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let _ = (access, lookup, world, plan);
    }
    /// [`Event::Fetched`].
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        let _ = (fetched, world, plan);
    }
    /// [`Event::DeviceRead`], if [`Policy::hears_device_reads`].
    fn on_device_read(&mut self, read: &DeviceRead, world: &World<'_>, plan: &mut Plan) {
        let _ = (read, world, plan);
    }
    /// [`Event::Left`].
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        let _ = (extent, fate);
    }
    /// [`Event::Wake`], with the token that it asked with.
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        let _ = (token, world, plan);
    }
    /// [`Show::Gauges`].
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        let _ = out;
    }
    /// [`Show::Curves`].
    fn curves(&self, out: &mut Vec<(&'static str, f64)>) {
        let _ = out;
    }
    /// [`Show::Decisions`].
    fn decisions(&mut self, out: &mut Vec<decisions::Decision>) {
        let _ = out;
    }
}
