//! The scheme that only listens: what a layer is asked for, in order.
//!
//! It stands around the scheme of a run without prefetching, writes down every access that the layer admits, and
//! leaves everything else to what it stands around. Writes are written down too, because a block that is about to be
//! replaced is not worth reading.

use forerun_core::access::{Access, Op};
use forerun_core::policy::{Event, Plan, Policy, World};
use forerun_core::scheme::Scheme;
use forerun_core::units::Extent;
use forerun_trace::packed::{Bits, Packed};
use std::sync::{Arc, Mutex, PoisonError};

/// Accesses in order, four bytes each where they are at random places and of one length.
#[derive(Clone, Default)]
pub(super) struct Accesses {
    start: Packed,
    blocks: Packed,
    writes: Bits,
}

impl Accesses {
    /// One more.
    pub(super) fn push(&mut self, extent: Extent, op: Op) {
        if op == Op::Write {
            self.writes.set(self.start.len());
        }
        self.start.push(extent.start.0);
        self.blocks.push(extent.blocks);
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Extent, Op)> + '_ {
        (0..self.start.len()).map(|at| {
            let op = if self.writes.has(at) { Op::Write } else { Op::Read };
            (Extent::new(self.start.get(at), self.blocks.get(at)), op)
        })
    }
}

impl FromIterator<(Extent, Op)> for Accesses {
    fn from_iter<I: IntoIterator<Item = (Extent, Op)>>(all: I) -> Self {
        let mut accesses = Self::default();
        all.into_iter().for_each(|(extent, op)| accesses.push(extent, op));
        accesses
    }
}

/// What was recorded, shared between the scheme inside the engine and the one who reads it afterwards.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Accesses>>);

impl Log {
    fn push(&self, access: &Access) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(access.extent, access.op);
    }
    /// Everything recorded so far.
    pub(super) fn take(&self) -> Accesses {
        core::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Records what `inner`'s layer is asked for.
pub(super) struct Recorder {
    inner: Scheme,
    log: Log,
}

impl Recorder {
    /// A recorder around a scheme that prefetches nothing; it writes into `log`.
    pub(super) fn around(inner: Scheme, log: &Log) -> Self {
        Self { inner, log: log.clone() }
    }
}

impl Policy for Recorder {
    fn inner(&mut self) -> Option<&mut dyn Policy> {
        Some(&mut self.inner)
    }
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        if let Event::Access(access, _) = event {
            self.log.push(access);
        }
        self.inner.tell(event, world, plan);
    }
}
