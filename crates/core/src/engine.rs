//! The engine: one cache layer, fed with inputs, drained of outputs, told the time.
//!
//! A host is a loop: [`Engine::handle`] an input, [`Engine::poll`] until empty, sleep until [`Engine::next_wake`].
//! There is no other way in or out, but for an operator's changes (`change.rs`). A stack of layers is engines joined by the host: the upper's `Start` becomes the
//! lower's access, the lower's `Ready` the upper's `Done`.
//!
//! What happens to a read, in order: memory for its missing blocks is reserved (or the read waits); the policy is told
//! and writes wishes; hits are served and pinned; misses and wishes become fetches, cut at strips; the dispatch sends
//! their member commands; completions fill cells, wake readers and are told to the policy. Writes and destaging are
//! in `write.rs`, fetches in `fetch.rs`, leaving in `evict.rs`.

mod change;
mod evict;
mod fetch;
mod hit;
mod observed;
mod read;
mod rebuild;
mod tables;
mod write;

use crate::access::{Access, Context, Op};
use crate::array::{Array, DiskSet};
use crate::cache::Cache;
use crate::cost::CostModel;
use crate::dispatch::{Class, Dispatch};
use crate::policy::decisions::Decision;
use crate::policy::{Event, Fate, Outcome, Plan, Policy, Show, World};
use crate::scheme::Scheme;
use crate::slots::{Slot, Slots};
use crate::stats::Stats;
use crate::units::{Disk, Extent, Nanos};
use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
pub use observed::Seen;
use tables::{Command, Fetch, Owner, Pending, Slab};
pub use write::{Buffer, CombineStep, WriteMode, member_failed};

/// Most blocks of one access; a host splits longer requests. 4 MiB.
pub const ACCESS_BLOCKS_MAX: u64 = 1024;

/// Who decides what is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residency {
    /// The engine: slots and evictions are its own (simulator, server).
    Owned,
    /// The kernel: the host reports what it saw, the engine keeps a bounded shadow (daemon).
    Observed,
}

/// Shape and budgets of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Who decides what is resident.
    pub residency: Residency,
    /// Budget of the cache, blocks.
    pub cache_blocks: u64,
    /// Blocks of a line: a strip in the array layer, 1 in the page cache.
    pub line_blocks: u64,
    /// Fetches are cut at strips of the array; otherwise only at `command_blocks_max`, and go to disk 0 as they are.
    pub strip_aligned: bool,
    /// Blocks stay after their readers have left. Without it the layer only passes through.
    pub retain: bool,
    /// Most blocks of one fetch.
    pub command_blocks_max: u64,
    /// Most prefetched blocks in flight.
    pub ahead_blocks_max: u64,
    /// Memory for parity and rebuilding, blocks, beside the cache.
    pub staging_blocks: u64,
    /// When writes reach the members.
    pub write: WriteMode,
}

/// How a member command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All blocks moved.
    Ok,
    /// Only the first `good` blocks moved; the member gave up on the rest.
    Short {
        /// Blocks that moved.
        good: u64,
    },
    /// Only observed residency: whether anything was read is not known.
    Unknown,
}

/// What a host tells the engine.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// Somebody wants blocks. Answered by `Ready` with this id.
    Read {
        /// Chosen by the host.
        id: u64,
        /// Who and what.
        access: Access,
    },
    /// Somebody replaces whole blocks. Memory for them is named by [`Output::Fill`], as soon as it can be had;
    /// acknowledged by `Ready`, which may come much later.
    Write {
        /// Chosen by the host.
        id: u64,
        /// Who and what.
        access: Access,
        /// Acknowledge only when it is on the members (force unit access).
        durable: bool,
    },
    /// Acknowledge when everything acknowledged before is on the members.
    Flush {
        /// Chosen by the host.
        id: u64,
    },
    /// A member command has ended.
    Done {
        /// Its number, from `Start`.
        command: u32,
        /// How.
        status: Status,
    },
    /// Blocks of a member command that has not ended could not be read; those around them may come all the same. For fetches of
    /// arrays without redundancy.
    Hole {
        /// Its number, from `Start`.
        command: u32,
        /// Which of its blocks, counted from its first.
        extent: Extent,
    },
    /// The host has copied what `Ready` announced.
    Release {
        /// From `Ready`.
        handle: u32,
    },
    /// Observed residency: an access that the kernel has served, and how.
    Seen {
        /// Who and what.
        access: Access,
        /// What is known about it.
        seen: Seen,
    },
    /// A member has failed (true) or is back (false).
    Member {
        /// Which.
        disk: Disk,
        /// Whether it is out.
        failed: bool,
    },
    /// Time has come for [`Engine::next_wake`].
    Wake,
}

/// A member command leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its number until `Done`.
    pub command: u32,
    /// Which member.
    pub disk: Disk,
    /// Which blocks of the member.
    pub extent: Extent,
    /// Of them, the part that a program waits for or has asked for; the rest carries the read-ahead tag.
    pub demand: Extent,
    /// Read or write.
    pub op: Op,
    /// How urgent.
    pub class: Class,
    /// Who caused it.
    pub context: Context,
    /// No program waits for any of it.
    pub read_ahead: bool,
}

/// What the engine tells a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this to the member; where its data goes is asked by [`Engine::buffers`].
    Start(Start),
    /// A reader has caught up with a prefetch that already left: whoever queues it may hurry it.
    Promote {
        /// Its number.
        command: u32,
    },
    /// A write has its memory: put the data into the slots that [`Engine::slots`] names, now. Outputs are executed in
    /// order, so whoever reads one of these slots (a reader that waited for the block, parity, a member) comes later.
    Fill {
        /// The host's id of the write.
        id: u64,
        /// For [`Engine::slots`].
        handle: u32,
    },
    /// Execute the steps of [`Engine::combine_steps`] for this job on the buffers, now.
    Combine {
        /// What to ask for.
        job: u32,
    },
    /// An access is answered; its slots stay pinned until `Release`.
    Ready {
        /// The host's id.
        id: u64,
        /// For [`Engine::slots`] and `Release`.
        handle: u32,
        /// Some block could not be read or written.
        error: bool,
    },
}

/// One cache layer.
pub struct Engine {
    config: Config,
    array: Array,
    cache: Cache,
    staging: Slots,
    scheme: Scheme,
    dispatch: Box<dyn Dispatch>,
    /// The scheme sends commands in an order of its own.
    own_dispatch: bool,
    cost: CostModel,
    stats: Stats,
    plan: Plan,
    accesses: Slab<Pending>,
    fetches: Slab<Fetch>,
    commands: Slab<Command>,
    outputs: VecDeque<Output>,
    starved: VecDeque<u32>,
    wakes: BinaryHeap<Reverse<(Nanos, u64)>>,
    outcomes: Vec<Outcome>,
    failed: DiskSet,
    filled: bool,
    /// The policy wants to know what becomes of prefetched blocks.
    hears_left: bool,
    /// When the input under way came.
    now: Nanos,
    /// Runs of blocks that leave a line unread, while it is emptied.
    unread_runs: Vec<Extent>,
    destage: write::Destage,
    /// Accesses admitted so far.
    serial: u64,
    /// On whose behalf wishes are fulfilled.
    ahead_context: Context,
    /// Whether they were made by a policy's timer for a context of its own choice.
    ahead_by_timer: bool,
}

impl Engine {
    /// A layer over `array`.
    ///
    /// # Panics
    /// If the configuration contradicts itself: a line of no block, or no memory at all.
    #[must_use]
    pub fn new(
        config: Config,
        array: Array,
        cost: CostModel,
        mut scheme: Scheme,
        dispatch: Box<dyn Dispatch>,
    ) -> Self {
        assert!(config.cache_blocks > 0, "a layer needs memory even to pass blocks through");
        assert!(config.command_blocks_max > 0, "a fetch has at least one block");
        Self {
            cache: Cache::new(config.line_blocks, config.cache_blocks),
            staging: Slots::new(config.staging_blocks),
            config,
            array,
            hears_left: scheme.hears_left(),
            own_dispatch: scheme.dispatch().is_some(),
            scheme,
            dispatch,
            cost,
            stats: Stats::default(),
            plan: Plan::default(),
            accesses: Slab::default(),
            fetches: Slab::default(),
            commands: Slab::default(),
            outputs: VecDeque::new(),
            starved: VecDeque::new(),
            wakes: BinaryHeap::new(),
            outcomes: Vec::new(),
            failed: DiskSet::default(),
            filled: false,
            now: Nanos::ZERO,
            unread_runs: Vec::new(),
            destage: write::Destage::default(),
            serial: 0,
            ahead_context: Context::default(),
            ahead_by_timer: false,
        }
    }

    /// Something happened at `now`, which never runs backwards.
    pub fn handle(&mut self, now: Nanos, input: Input) {
        self.now = now;
        match input {
            Input::Read { id, ref access } => self.read(now, id, access), // by reference: a copy costs a tenth of a hit
            Input::Done { command, status } => self.done(now, command, status),
            Input::Release { handle } => self.release(now, handle),
            rare => self.handle_rare(now, rare),
        }
        self.pump(now);
    }

    /// Inputs that come seldom, out of the way of those that come with every access.
    #[inline(never)]
    fn handle_rare(&mut self, now: Nanos, input: Input) {
        match input {
            Input::Write { id, access, durable } => self.write(now, id, access, durable),
            Input::Flush { id } => self.flush(now, id),
            Input::Seen { access, seen } => self.seen(now, access, seen),
            Input::Hole { command, extent } => self.hole(command, extent),
            Input::Member { disk, failed } => {
                if failed {
                    self.failed.insert(disk);
                } else {
                    self.failed.remove(disk);
                }
            }
            Input::Wake => self.wake(now),
            Input::Read { .. } | Input::Done { .. } | Input::Release { .. } => {
                unreachable!("they come often")
            }
        }
    }

    /// The next output, or `None` when the engine waits.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to say [`Input::Wake`] if nothing happens before.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        let policy = self.wakes.peek().map(|Reverse((at, _))| *at);
        [policy, self.dispatch.next_wake(), self.destage.next_wake()].into_iter().flatten().min()
    }

    fn wake(&mut self, now: Nanos) {
        while let Some(&Reverse((at, token))) = self.wakes.peek() {
            if at > now {
                break;
            }
            self.wakes.pop();
            self.tell(now, &Event::Wake(token));
            self.fulfil_ahead(now, Context::default());
        }
        self.destage_aged(now);
    }

    /// Sends what the dispatch lets go.
    fn pump(&mut self, now: Nanos) {
        while let Some(number) = self.dispatch().pick(now) {
            self.start(number);
        }
    }

    /// Who decides what leaves when: the scheme if it wants to, otherwise the layer's own dispatch.
    #[inline]
    fn dispatch(&mut self) -> &mut dyn Dispatch {
        if self.own_dispatch {
            return self.scheme.dispatch().expect("a scheme that dispatches does so always");
        }
        &mut *self.dispatch
    }

    /// A member command leaves.
    #[inline(never)]
    fn start(&mut self, number: u32) {
        self.commands[number].left = true;
        let command = &self.commands[number];
        let demand = self.demand_part(command);
        self.outputs.push_back(Output::Start(Start {
            command: number,
            disk: command.disk,
            extent: command.extent,
            demand,
            op: command.op,
            class: command.class,
            context: command.context,
            read_ahead: command.read_ahead,
        }));
    }

    /// The blocks of a command that some program asked for, for a layer below that keeps them apart.
    fn demand_part(&self, command: &Command) -> Extent {
        match command.owner {
            Owner::Fetch(fetch, _) if !self.config.strip_aligned => self.fetches[fetch].demand,
            Owner::Fetch(..) | Owner::Staged(_) | Owner::Destage(_) => command.extent,
        }
    }

    /// Tells the scheme what happened; its wishes join those that wait in the plan.
    fn tell(&mut self, now: Nanos, event: &Event<'_>) {
        let world = World {
            now,
            cache: &self.cache,
            array: &self.array,
            cost: &self.cost,
            filled: self.filled,
            blocks: self.blocks(),
            ahead_in_flight: self.stats.ahead_in_flight,
        };
        self.scheme.tell(event, &world, &mut self.plan);
        if !self.plan.wakes.is_empty() {
            self.wakes.extend(self.plan.wakes.drain(..).map(Reverse));
        }
        self.stats.wishes_dropped += core::mem::take(&mut self.plan.overflow);
    }

    /// Tells the scheme, if it listens, how prefetched blocks ended. It is amid other work, so nothing is wished.
    fn tell_left(&mut self, extent: Extent, fate: Fate) {
        if self.hears_left {
            let wished = self.plan.wishes.len();
            self.tell(self.now, &Event::Left(extent, fate));
            self.plan.wishes.truncate(wished);
        }
    }

    fn blocks(&self) -> u64 {
        self.array.capacity_blocks()
    }

    /// Slots of an answered access, one per block, for copying. [`Slot::NONE`] where an error left a hole.
    #[must_use]
    pub fn slots(&self, handle: u32) -> &[Slot] {
        &self.accesses[handle].slots
    }
    /// Blocks of an answered access.
    #[must_use]
    pub fn extent(&self, handle: u32) -> Extent {
        self.accesses[handle].access.extent
    }
    /// The table of lines, for reports and tests.
    #[must_use]
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }
    /// What decides, for tests.
    #[must_use]
    pub const fn scheme(&self) -> &Scheme {
        &self.scheme
    }
    /// The same to change, beside the cache.
    #[cfg(test)]
    pub(crate) const fn scheme_mut(&mut self) -> (&mut Scheme, &Cache) {
        (&mut self.scheme, &self.cache)
    }
    /// Sums so far.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
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
        &self.staging
    }
    /// Members that are out: as told by [`Input::Member`], or because a write to them did not end well.
    #[must_use]
    pub const fn failed_members(&self) -> &DiskSet {
        &self.failed
    }
    /// Numbers that the scheme shows, by name.
    pub fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.scheme.show(&mut Show::Gauges(out));
    }
    /// Numbers of the scheme that are worth a curve, by name.
    pub fn curves(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.scheme.show(&mut Show::Curves(out));
    }
    /// What the scheme has decided since the last call: each turn of a switch, with its reason, in the order of time.
    pub fn decisions(&mut self, out: &mut Vec<Decision>) {
        let first = out.len();
        self.scheme.show(&mut Show::Decisions(out));
        out[first..].sort_by_key(|decision| decision.at);
    }
    /// Whether nothing is outstanding: no fetch, no access, no dirty stripe on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.fetches.live() == 0 && self.accesses.live() == 0 && self.destage.is_idle()
    }
    /// Prefetched blocks that are resident and unread, and those still in flight (for the end of a run).
    #[must_use]
    pub fn unproven_blocks(&self) -> (u64, u64) {
        let in_flight = self.stats.ahead_in_flight;
        (self.stats.prefetched - self.stats.used - self.stats.wasted - in_flight, in_flight)
    }
}
