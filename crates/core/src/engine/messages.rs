//! What a host says to an engine and hears from it. Plain data below everything that handles it.

use crate::access::{Access, Context, Op};
use crate::dispatch::Class;
use crate::registry::{Layer, SchemeSpec};
use crate::share::Share;
use crate::units::{Disk, Extent};

/// Most blocks of one access; a host splits longer requests. 4 MiB.
pub const ACCESS_BLOCKS_MAX: u64 = 1024;

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
pub enum Input<'a> {
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
    /// A member has failed (true) or is back (false).
    Member {
        /// Which.
        disk: Disk,
        /// Whether it is out.
        failed: bool,
    },
    /// Time has come for [`crate::engine::Parts::next_wake`].
    Wake,
    /// What members were told to keep by [`Output::Sync`] they keep, or do not.
    Synced {
        /// Its number, from `Sync`.
        sync: u32,
        /// Some member could not.
        failed: bool,
    },
    /// These blocks are no longer what they were: truncated, discarded. What is clean leaves, and a prefetch in flight brings
    /// nothing; what is dirty, or on its way to a reader, stays.
    Gone {
        /// Which.
        extent: Extent,
    },
    /// The host has less to give, or more again. Obeyed at once, as far as nothing is dirty, in flight or being copied.
    Limits(Limits),
    /// The host knows of blocks that will be wanted: they are read behind all that somebody waits for, as far as the budget of what may be
    /// read ahead goes ([`crate::engine::Parts::ahead_budget`]), and nobody is told.
    Ahead {
        /// On whose behalf.
        context: Context,
        /// Which.
        extent: Extent,
    },
    /// From now on another scheme decides, which the host has checked for this layer. The cache keeps what it holds.
    Switch {
        /// Which.
        scheme: &'a SchemeSpec,
        /// The layer whose parts of it decide.
        layer: Layer,
    },
    /// From now on two schemes decide, each for its share, which the host has checked for this layer ([`crate::registry::check_split`]).
    Split {
        /// The one that there was, and the one that is tried.
        schemes: [&'a SchemeSpec; 2],
        /// The layer whose parts of them decide.
        layer: Layer,
        /// Who is whose.
        share: Share,
    },
    /// Everything that can leave the cache leaves: what is in flight, or written and not on the members yet, stays. Blocks that a
    /// host still copies from are gone from the cache, and their memory is free when they are released.
    Drop,
}

/// What a host can give at most, until it says otherwise; none is what the layer was made with, and more than that is that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory, blocks. Never less than the two longest accesses, [`ACCESS_BLOCKS_MAX`] each, or what the layer was made with.
    pub memory_blocks: Option<u64>,
    /// Prefetched blocks in flight.
    pub ahead_blocks: Option<u64>,
    /// Bytes that prefetches may read in a second.
    pub ahead_bytes_per_s: Option<u64>,
}

/// What a host knows of an access that the kernel served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// From memory.
    Hit,
    /// It reached the device.
    DeviceRead,
    /// Not known.
    Unknown,
}

/// What a host tells an observing engine.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// An access that the kernel has served, and how.
    Seen {
        /// Who and what.
        access: Access,
        /// What is known about it.
        seen: Seen,
    },
    /// A fetch has ended.
    Done {
        /// Its number, from `Start`.
        command: u32,
        /// How.
        status: Status,
    },
    /// Time has come for [`crate::engine::Parts::next_wake`].
    Wake,
    /// These blocks are in memory no more, as far as the host knows: truncated, unmounted, evicted.
    Gone {
        /// Which.
        extent: Extent,
    },
    /// The host has less to give, or more again.
    Limits(Limits),
    /// From now on another scheme decides, which the host has checked for this layer.
    Switch {
        /// Which.
        scheme: &'a SchemeSpec,
        /// The layer whose parts of it decide.
        layer: Layer,
    },
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
    /// The part of them that a program waits for or has asked for; the rest carries the read-ahead tag.
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
    /// Send this to the member; where its data goes is asked by [`crate::engine::Parts::buffers`].
    Start(Start),
    /// A reader has caught up with a prefetch that already left: whoever queues it may hurry it.
    Promote {
        /// Its number.
        command: u32,
    },
    /// A write has its memory: put the data into the slots that [`crate::engine::Parts::slots`] names, now. Outputs are executed in
    /// order, so whoever reads one of these slots (a reader that waited for the block, parity, a member) comes later.
    Fill {
        /// The host's id of the write.
        id: u64,
        /// For [`crate::engine::Parts::slots`].
        handle: u32,
    },
    /// Make the members keep all that they have been sent and have ended, and answer with [`Input::Synced`]. Said only in a
    /// layer whose members forget what they have not been told to keep ([`crate::engine::Config::syncs`]).
    Sync {
        /// Its number.
        sync: u32,
    },
    /// Execute the steps of [`crate::engine::Parts::combine_steps`] for this job on the buffers, now.
    Combine {
        /// What to ask for.
        job: u32,
    },
    /// An access is answered; its slots stay pinned until `Release`.
    Ready {
        /// The host's id.
        id: u64,
        /// For [`crate::engine::Parts::slots`] and `Release`.
        handle: u32,
        /// Some block could not be read or written.
        error: bool,
    },
}
