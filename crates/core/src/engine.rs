//! The engine: one cache layer, fed with inputs, drained of outputs, told the time.
//!
//! A host is a loop: `handle` an input, `poll` until empty, sleep until `next_wake`, before which it may let the engine `catch_up`. There is no other way in or out. A
//! stack of layers is engines joined by the host: the upper's `Start` becomes the lower's access, the lower's `Ready` the
//! upper's `Done`.
//!
//! There are two kinds, over the same parts (`parts.rs`). An [`Engine`] owns its cache: it is asked to read and to write, and slots
//! and evictions are its own (simulator, server). An [`Observer`] keeps a bounded shadow of a cache that the kernel owns: it
//! is told what was served (`observed.rs`), and only ever reads ahead. What one cannot be told does not compile.
//!
//! What happens to a read, in order: memory for its missing blocks is reserved (or the read waits); the policy is told
//! and writes wishes; hits are served and pinned; misses and wishes become fetches, cut at strips; the dispatch sends
//! their member commands; completions fill cells, wake readers and are told to the policy.
//!
//! What is true is known by parts whose state is their own: `memory.rs` (cells, and their leaving), `accesses.rs`, `fetches.rs`,
//! `commands.rs`, `destage.rs`, `syncs.rs`. They return values. What follows from one for another is routed by `read.rs`, `hit.rs`,
//! `write.rs`, `fetch.rs`, `rebuild.rs`, `sync.rs`, `limits.rs` and `change.rs`, in the order above.

mod accesses;
mod buffer;
mod change;
mod choose;
mod commands;
mod config;
mod destage;
mod fetch;
mod fetches;
mod hit;
mod limits;
mod memory;
mod messages;
mod observed;
mod pace;
mod parts;
mod read;
mod rebuild;
mod slab;
mod sync;
mod syncs;
mod write;

use crate::access::Access;
use crate::policy::decisions::Decision;
use crate::registry::{Layer, SchemeSpec};
use crate::units::Nanos;
use alloc::boxed::Box;
use alloc::vec::Vec;
pub use buffer::{Buffer, CombineStep};
use choose::Chooser;
pub(crate) use config::shape;
pub use config::{Config, WriteMode};
use core::ops::{Deref, DerefMut};
pub use messages::{ACCESS_BLOCKS_MAX, Input, Limits, Output, Seen, Sight, Start, Status};
pub use parts::Parts;

/// One cache layer that owns its cache. Made by [`crate::spec::LayerSpec::build`].
pub struct Engine {
    parts: Parts,
    /// Where the scheme chooses among others.
    chooser: Option<Box<Chooser>>,
}

impl Engine {
    pub(crate) const fn over(parts: Parts) -> Self {
        Self { parts, chooser: None }
    }

    /// The same under a scheme that chooses among others, if it is one.
    pub(crate) fn choosing(mut self, scheme: &SchemeSpec, layer: Layer) -> Self {
        self.chooser = Chooser::new(scheme, layer, &self.parts, Nanos::ZERO);
        self
    }

    /// Something happened at `now`, which never runs backwards.
    #[inline]
    pub fn handle(&mut self, now: Nanos, input: Input<'_>) {
        if self.chooser.is_some() {
            return self.handle_choosing(now, input);
        }
        self.act(now, input);
    }

    /// A read by a host that copies nothing, as a simulator: if it is of one block that is here, it is answered and given back now, as
    /// by [`Input::Read`], its `Ready` and [`Input::Release`], and this is all of it. False, and nothing done, for any other read.
    /// No log of inputs has it.
    #[inline]
    pub fn read_at_once(&mut self, now: Nanos, access: &Access) -> bool {
        // Whoever chooses among schemes listens to inputs and outputs; a layer without memory drops what is given back.
        if self.chooser.is_some() || !self.parts.config.retain {
            return false;
        }
        self.parts.memory.at(now);
        self.parts.read_at_once(now, access)
    }

    #[inline]
    fn act(&mut self, now: Nanos, input: Input<'_>) {
        self.parts.memory.at(now);
        match input {
            Input::Read { id, ref access } => self.parts.read(now, id, access), // by reference: a copy costs a tenth of a hit
            Input::Done { command, status } => self.parts.done(now, command, status),
            Input::Release { handle } => self.parts.release(now, handle),
            rare => self.handle_rare(now, rare),
        }
        self.parts.pump(now);
    }

    /// The same, with a chooser that listens to what is said on both sides.
    #[inline(never)]
    fn handle_choosing(&mut self, now: Nanos, input: Input<'_>) {
        let mut chooser = self.chooser.take().expect("somebody chooses");
        chooser.hear(now, &input);
        let said = self.parts.outputs.len();
        let other = matches!(input, Input::Switch { .. } | Input::Split { .. });
        self.act(now, input);
        if other {
            return; // whoever chooses from now on has been made
        }
        for output in self.parts.outputs.iter().skip(said) {
            chooser.saw(now, output, &self.parts);
        }
        if chooser.has_news() {
            let said = self.parts.outputs.len();
            if let Some(built) = chooser.decide(now, &mut self.parts) {
                chooser.keep(self.parts.switch_to(now, built));
                self.parts.pump(now);
            }
            for output in self.parts.outputs.iter().skip(said) {
                chooser.saw(now, output, &self.parts);
            }
        }
        self.chooser = Some(chooser);
    }

    /// Does what was put off, for a host that has nothing else to do; else it is done before the next input, and whoever sent that waits for it. Outputs and
    /// decisions are the same whenever it is called, or never.
    pub fn catch_up(&mut self) {
        self.chooser.iter_mut().for_each(|chooser| chooser.catch_up());
    }

    /// Numbers that the scheme shows, by name, and first those of whoever chose it.
    pub fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        if let Some(chooser) = &self.chooser {
            chooser.gauges(out);
        }
        self.parts.gauges(out);
    }

    /// What has been decided since the last call: each turn of a switch, with its reason, in the order of time.
    pub fn decisions(&mut self, out: &mut Vec<Decision>) {
        let first = out.len();
        if let Some(chooser) = &mut self.chooser {
            chooser.decisions(out);
        }
        self.parts.decisions(out);
        out[first..].sort_by_key(|decision| decision.at);
    }

    /// Inputs that come seldom, out of the way of those that come with every access.
    #[inline(never)]
    fn handle_rare(&mut self, now: Nanos, input: Input<'_>) {
        match input {
            Input::Write { id, access, durable } => self.parts.write(now, id, access, durable),
            Input::Flush { id } => self.parts.flush(now, id),
            Input::Hole { command, extent } => self.parts.hole(command, extent),
            Input::Member { disk, failed } => self.parts.member(disk, failed),
            Input::Wake => self.parts.wake(now),
            Input::Synced { sync, failed } => self.parts.synced(sync, failed),
            Input::Gone { extent } => self.parts.gone(now, extent),
            Input::Ahead { context, extent } => self.parts.ahead(now, context, extent),
            Input::Limits(limits) => self.parts.limit(now, limits),
            Input::Switch { scheme, layer } => {
                self.parts.switch(now, scheme, layer);
                self.chooser = Chooser::new(scheme, layer, &self.parts, now);
            }
            Input::Split { schemes, layer, share } => {
                self.parts.split(now, schemes, layer, share);
                self.chooser = None;
            }
            Input::Drop => self.parts.drop_cache(now),
            Input::Read { .. } | Input::Done { .. } | Input::Release { .. } => {
                unreachable!("they come often")
            }
        }
    }

    /// Plays a host without devices or time, for models, measurements and tests: every command ends as soon as it leaves,
    /// every answer is given back at once. `seen` is shown the outputs in order.
    pub fn settle(&mut self, now: Nanos, mut seen: impl FnMut(&Output)) {
        while let Some(output) = self.poll() {
            seen(&output);
            match output {
                Output::Start(Start { command, .. }) => {
                    self.handle(now, Input::Done { command, status: Status::Ok });
                }
                Output::Ready { handle, .. } => self.handle(now, Input::Release { handle }),
                Output::Sync { sync } => self.handle(now, Input::Synced { sync, failed: false }),
                Output::Promote { .. } | Output::Fill { .. } | Output::Combine { .. } => {}
            }
        }
    }
}

impl Deref for Engine {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl DerefMut for Engine {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }
}

/// One cache layer that watches a cache which the kernel owns. Made by [`crate::spec::LayerSpec::observe`].
///
/// It owns no memory that a reader could be given, so what an engine does with its own does not compile here. It is told what was seen:
///
/// ```
/// # use forerun_core::{access::Access, engine::{Observer, Seen, Sight}, units::Nanos};
/// fn tell(observer: &mut Observer, access: Access) {
///     observer.handle(Nanos(1), Sight::Seen { access, seen: Seen::Hit });
/// }
/// ```
///
/// and asked for nothing:
///
/// ```compile_fail,E0308
/// # use forerun_core::{access::Access, engine::{Input, Observer}, units::Nanos};
/// fn read(observer: &mut Observer, access: Access) {
///     observer.handle(Nanos(1), Input::Read { id: 7, access });
/// }
/// ```
pub struct Observer(Parts);

impl Observer {
    pub(crate) const fn over(parts: Parts) -> Self {
        Self(parts)
    }

    /// Something happened at `now`, which never runs backwards.
    pub fn handle(&mut self, now: Nanos, sight: Sight<'_>) {
        self.0.memory.at(now);
        match sight {
            Sight::Seen { access, seen } => self.0.seen(now, access, seen),
            Sight::Done { command, status } => self.0.done(now, command, status),
            Sight::Wake => self.0.wake(now),
            Sight::Gone { extent } => self.0.gone(now, extent),
            Sight::Limits(limits) => self.0.limit(now, limits),
            Sight::Switch { scheme, layer } => self.0.switch(now, scheme, layer),
        }
        self.0.pump(now);
    }
}

impl Deref for Observer {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl DerefMut for Observer {
    fn deref_mut(&mut self) -> &mut Parts {
        &mut self.0
    }
}
