//! What a host says to an engine and hears from it. Plain data below everything that handles it.

use crate::access::{Access, Context, Op};
use crate::dispatch::Class;
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
    /// A member has failed (true) or is back (false).
    Member {
        /// Which.
        disk: Disk,
        /// Whether it is out.
        failed: bool,
    },
    /// Time has come for [`crate::engine::Engine::next_wake`].
    Wake,
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
pub enum Sight {
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
    /// Time has come for [`crate::engine::Observer::next_wake`].
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
