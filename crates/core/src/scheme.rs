//! A scheme: one object that may answer several of the five questions over shared state.
//!
//! ASP's cost test needs the tiers that its retention keeps, so policy and retention are two views of one object, and
//! a scheme hands out each view. `+` composes policies; the part that owns retention is named in the registry row.

use crate::access::Access;
use crate::dispatch::Dispatch;
use crate::policy::decisions::Decision;
use crate::policy::{DeviceRead, Fate, Fetched, Lookup, Plan, Policy, World};
use crate::retention::keep::Retention;
use crate::units::Extent;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Policy and retention of one layer.
pub trait Scheme: Send {
    /// The view that detects, permits and sizes.
    fn policy(&mut self) -> &mut dyn Policy;
    /// The view that keeps.
    fn retention(&mut self) -> &mut dyn Retention;
    /// The view that decides what leaves when, if the scheme has one; otherwise the layer's own dispatch does. Whether
    /// there is one never changes.
    fn dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        None
    }
    /// What it asks of its layer instead of the usual.
    fn wants(&self) -> Wants {
        Wants::default()
    }
    /// Numbers worth showing at the end of a run, by name, of all its parts.
    fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.policy().gauges(out);
    }
    /// Numbers worth a curve over the run, by name, of all its parts.
    fn curves(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.policy().curves(out);
    }
}

/// What a scheme asks of its layer; `None` leaves what is usual there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Blocks of a line.
    pub line_blocks: Option<u64>,
    /// Most prefetched blocks in flight: a scheme that keeps books on memory needs no other bound.
    pub ahead_blocks_max: Option<u64>,
}

/// What a controller can wrap: a policy alone, or one that comes with its retention.
pub trait Controlled: Send {
    /// The view that is controlled.
    fn policy(&mut self) -> &mut dyn Policy;
    /// Numbers of a policy alone; those of a whole scheme come by [`Scheme::gauges`].
    fn policy_gauges(&self, out: &mut Vec<(&'static str, f64)>);
}

impl Controlled for Box<dyn Policy> {
    fn policy(&mut self) -> &mut dyn Policy {
        &mut **self
    }
    fn policy_gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        (**self).gauges(out);
    }
}

impl Controlled for Box<dyn Scheme> {
    fn policy(&mut self) -> &mut dyn Policy {
        (**self).policy()
    }
    fn policy_gauges(&self, _out: &mut Vec<(&'static str, f64)>) {}
}

/// A controller over a scheme that owns retention too: all but its policy and its own gauges is the inner scheme's.
pub trait Controller: Policy {
    /// The scheme that is controlled.
    fn inner(&self) -> &dyn Scheme;
    /// The same, to change.
    fn inner_mut(&mut self) -> &mut dyn Scheme;
}

impl<C: Controller> Scheme for C {
    fn policy(&mut self) -> &mut dyn Policy {
        self
    }
    fn retention(&mut self) -> &mut dyn Retention {
        self.inner_mut().retention()
    }
    fn dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        self.inner_mut().dispatch()
    }
    fn wants(&self) -> Wants {
        self.inner().wants()
    }
    fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        Policy::gauges(self, out);
        self.inner_mut().gauges(out);
    }
}

/// A policy and a retention that share nothing.
pub struct Split<P, R> {
    /// Detect, permit, size.
    pub policy: P,
    /// Keep.
    pub retention: R,
}

impl<P: Policy, R: Retention> Scheme for Split<P, R> {
    fn policy(&mut self) -> &mut dyn Policy {
        &mut self.policy
    }
    fn retention(&mut self) -> &mut dyn Retention {
        &mut self.retention
    }
}

/// `inner + beside`: a scheme with one more policy that is told everything after it.
pub struct Joined {
    /// Owns retention; its policy is asked first.
    pub owner: Box<dyn Scheme>,
    /// Only wishes.
    pub beside: Box<dyn Policy>,
}

impl Scheme for Joined {
    fn policy(&mut self) -> &mut dyn Policy {
        self
    }
    fn retention(&mut self) -> &mut dyn Retention {
        self.owner.retention()
    }
    fn dispatch(&mut self) -> Option<&mut dyn Dispatch> {
        self.owner.dispatch()
    }
    fn wants(&self) -> Wants {
        self.owner.wants()
    }
    fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.owner.gauges(out);
        self.beside.gauges(out);
    }
    fn curves(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.owner.curves(out);
        self.beside.curves(out);
    }
}

impl Policy for Joined {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.owner.policy().on_access(access, lookup, world, plan);
        self.beside.on_access(access, lookup, world, plan);
    }
    fn on_fetched(&mut self, fetched: &Fetched, world: &World<'_>, plan: &mut Plan) {
        self.owner.policy().on_fetched(fetched, world, plan);
        self.beside.on_fetched(fetched, world, plan);
    }
    fn on_device_read(&mut self, read: &DeviceRead, world: &World<'_>, plan: &mut Plan) {
        self.owner.policy().on_device_read(read, world, plan);
        self.beside.on_device_read(read, world, plan);
    }
    fn on_left(&mut self, extent: Extent, fate: Fate) {
        self.owner.policy().on_left(extent, fate);
        self.beside.on_left(extent, fate);
    }
    fn hears_left(&mut self) -> bool {
        self.owner.policy().hears_left() || self.beside.hears_left()
    }
    fn on_wake(&mut self, token: u64, world: &World<'_>, plan: &mut Plan) {
        self.owner.policy().on_wake(token, world, plan);
        self.beside.on_wake(token, world, plan);
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.owner.policy().decisions(out);
        self.beside.decisions(out);
    }
}
