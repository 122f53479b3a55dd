//! The parts of a layer, and how they work together, whoever owns the cache: what [`crate::engine::Engine`] and
//! [`crate::engine::Observer`] share.

use super::accesses::Accesses;
use super::commands::Commands;
use super::config::{Config, WriteMode};
use super::destage::Destager;
use super::fetches::Fetches;
use super::memory::Memory;
use super::messages::{Limits, Output};
use super::pace::Pace;
use super::syncs::Syncs;
use crate::access::Context;
use crate::array::{Array, DiskSet};
use crate::cache::Cache;
use crate::cost::CostModel;
use crate::dispatch::Dispatch;
use crate::policy::decisions::Decision;
use crate::policy::{Event, Outcome, Policy as _, Show};
use crate::scheme::Scheme;
use crate::slots::{Slot, Slots};
use crate::stats::Stats;
use crate::units::{Disk, Extent, Nanos};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// All of a layer but the door: what an engine may be asked, and what it does inside.
pub struct Parts {
    pub(super) config: Config,
    pub(super) array: Array,
    pub(super) memory: Memory,
    pub(super) accesses: Accesses,
    pub(super) fetches: Fetches,
    pub(super) commands: Commands,
    pub(super) destager: Destager,
    pub(super) syncs: Syncs,
    pub(super) outputs: VecDeque<Output>,
    /// What the blocks of the access under way were found to be.
    pub(super) outcomes: Vec<Outcome>,
    /// Members that are out.
    pub(super) failed: DiskSet,
    /// What the host can give now.
    pub(super) limits: Limits,
    pub(super) pace: Pace,
    /// On whose behalf wishes are fulfilled.
    pub(super) ahead_context: Context,
    /// Whether they were made by a policy's timer for a context of its own choice.
    pub(super) ahead_by_timer: bool,
}

impl Parts {
    /// A layer over `array`, of a configuration that has been checked.
    pub(crate) fn new(
        config: Config,
        array: Array,
        cost: CostModel,
        mut scheme: Scheme,
        dispatch: Box<dyn Dispatch>,
    ) -> Self {
        let age = match config.write {
            WriteMode::Back { age, .. } => Some(age),
            WriteMode::Through => None,
        };
        Self {
            config,
            commands: Commands::new(dispatch, scheme.dispatch().is_some()),
            memory: Memory::new(Cache::new(config.line_blocks, config.cache_blocks), scheme, array, cost),
            array,
            accesses: Accesses::default(),
            fetches: Fetches::default(),
            destager: Destager::new(config.staging_blocks, age),
            syncs: Syncs::default(),
            outputs: VecDeque::new(),
            outcomes: Vec::new(),
            failed: DiskSet::default(),
            limits: Limits::default(),
            pace: Pace::default(),
            ahead_context: Context::default(),
            ahead_by_timer: false,
        }
    }

    /// A member has failed, or is back.
    pub(super) fn member(&mut self, disk: Disk, failed: bool) {
        if failed {
            self.failed.insert(disk);
        } else {
            self.failed.remove(disk);
        }
    }

    /// The next output, or `None` when the engine waits.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to say [`crate::engine::Input::Wake`] if nothing happens before.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        [self.memory.next_wake(), self.commands.next_wake(), self.destager.next_wake()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn wake(&mut self, now: Nanos) {
        while let Some(wake) = self.memory.take_due(now) {
            self.tell(now, &Event::Wake(wake));
            self.fulfil_ahead(now, Context::default());
        }
        self.destage_aged(now);
    }

    /// Sends what the dispatch lets go.
    pub(super) fn pump(&mut self, now: Nanos) {
        while let Some(number) = self.commands.pick(now, &mut self.memory) {
            self.start(number);
        }
    }

    /// A member command leaves.
    #[inline(never)]
    fn start(&mut self, number: u32) {
        self.outputs.push_back(Output::Start(self.commands.start(number)));
    }

    /// Tells the scheme what happened; its wishes join those that wait in the plan.
    #[inline(always)]
    pub(super) fn tell(&mut self, now: Nanos, event: &Event<'_>) {
        self.memory.at(now);
        self.memory.tell(event);
    }

    pub(super) fn blocks(&self) -> u64 {
        self.array.capacity_blocks()
    }

    /// Slots of an answered access, one per block, for copying. [`Slot::NONE`] where an error left a hole.
    #[must_use]
    pub fn slots(&self, handle: u32) -> &[Slot] {
        self.accesses.slots(handle)
    }
    /// Blocks of an answered access.
    #[must_use]
    pub fn extent(&self, handle: u32) -> Extent {
        self.accesses.access(handle).extent
    }
    /// The table of lines, for reports and tests.
    #[must_use]
    pub const fn cache(&self) -> &Cache {
        self.memory.cache()
    }
    /// What decides, for tests.
    #[must_use]
    pub const fn scheme(&self) -> &Scheme {
        self.memory.scheme()
    }
    /// The same to change, beside the cache.
    #[cfg(test)]
    pub(crate) const fn scheme_mut(&mut self) -> (&mut Scheme, &Cache) {
        self.memory.scheme_beside_cache()
    }
    /// What its scheme has learned that is of use another time: `None` if it learns nothing.
    #[must_use]
    pub fn learned(&mut self) -> Option<Vec<Extent>> {
        self.memory.scheme_mut().learned().map(|learned| learned.way())
    }
    /// Sums so far.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.memory.stats
    }
    /// The geometry.
    #[must_use]
    pub const fn array(&self) -> &Array {
        &self.array
    }
    /// The shape and budgets.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// Memory for parity and rebuilding, for reports and tests.
    #[must_use]
    pub const fn staging(&self) -> &Slots {
        self.destager.staging()
    }
    /// Members that are out: as told by [`crate::engine::Input::Member`], or because a write to them did not end well.
    #[must_use]
    pub const fn failed_members(&self) -> &DiskSet {
        &self.failed
    }
    /// Numbers that the scheme shows, by name.
    pub fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.memory.scheme_mut().show(&mut Show::Gauges(out));
    }
    /// Numbers of the scheme that are worth a curve, by name.
    pub fn curves(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.memory.scheme_mut().show(&mut Show::Curves(out));
    }
    /// What the scheme has decided since the last call: each turn of a switch, with its reason, in the order of time.
    pub fn decisions(&mut self, out: &mut Vec<Decision>) {
        let first = out.len();
        self.memory.scheme_mut().show(&mut Show::Decisions(out));
        out[first..].sort_by_key(|decision| decision.at);
    }
    /// Keeps from now on which prefetched blocks leave unread, until the host takes them.
    pub fn keep_left_unread(&mut self) {
        self.memory.keep_left_unread();
    }
    /// Moves the extents that have left unread to the end of `into`; none without [`Self::keep_left_unread`].
    pub fn take_left_unread(&mut self, into: &mut Vec<Extent>) {
        self.memory.take_left_unread(into);
    }
    /// Whether nothing is outstanding: no fetch, no access, no dirty stripe on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.fetches.is_idle() && self.accesses.is_idle() && self.destager.is_idle() && self.syncs.is_idle()
    }
    /// Prefetched blocks that are resident and unread, and those still in flight (for the end of a run).
    #[must_use]
    pub fn unproven_blocks(&self) -> (u64, u64) {
        let stats = self.stats();
        let in_flight = stats.ahead_in_flight;
        (stats.prefetched - stats.used - stats.wasted - in_flight, in_flight)
    }
}
