//! Accesses, fetches and member commands in flight: slabs whose entries are reused, so that nothing is allocated
//! per access once the tables have grown to the depth that the host keeps outstanding.

use super::buffer::{Buffer, CombineStep};
use crate::access::{Access, Context, Op};
use crate::array::{DiskSet, ReadPlan};
use crate::dispatch::Class;
use crate::slots::Slot;
use crate::units::{Block, Disk, Extent, Nanos};
use alloc::vec::Vec;

/// A table of reusable entries.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// A free entry; the caller fills it and may find the buffers of an earlier one in it.
    pub(super) fn take(&mut self) -> u32 {
        if let Some(at) = self.free.pop() {
            return at;
        }
        let at = u32::try_from(self.entries.len()).expect("outstanding work is bounded by the host");
        self.entries.push(T::default());
        at
    }
    pub(super) fn give_back(&mut self, at: u32) {
        self.free.push(at);
    }
    /// Entries ever made, free ones included.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("entries are numbered in 32 bits")
    }
    /// The entries in use, in the order of their numbers.
    pub(super) fn alive(&self) -> Vec<u32> {
        let mut free = Vec::new();
        free.resize(self.entries.len(), false);
        self.free.iter().for_each(|&at| free[at as usize] = true);
        (0..self.len()).filter(|&at| !free[at as usize]).collect()
    }
    pub(super) fn live(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.entries[at as usize]
    }
}
impl<T> core::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.entries[at as usize]
    }
}

/// One access of the host, from `Read`/`Write` to `Release`.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: u64,
    /// Tells this access from others that used the same entry.
    pub(super) serial: u64,
    pub(super) access: Access,
    /// Blocks that have no slot yet.
    pub(super) missing: u64,
    /// One per block; pinned once it is some.
    pub(super) slots: Vec<Slot>,
    pub(super) error: bool,
    /// Nothing is missing: it waits for `Release`, or for a sync first.
    pub(super) ready: bool,
    /// A write that must be on the members before it is acknowledged, or a flush.
    pub(super) durable: bool,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            id: 0,
            serial: 0,
            access: Access::read(Context(0), Extent::default()),
            missing: 0,
            slots: Vec::new(),
            error: false,
            ready: false,
            durable: false,
        }
    }
}

/// A reader that waits for blocks of a fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) access: u32,
    pub(super) serial: u64,
    pub(super) extent: Extent,
}

/// One logical fetch: contiguous blocks, one or more member commands, perhaps a combine step.
#[derive(Debug, Default)]
pub(super) struct Fetch {
    pub(super) context: Context,
    pub(super) extent: Extent,
    /// Of it, what the access's program asked for; empty for a prefetch.
    pub(super) demand: Extent,
    /// One per block; NONE where the block was resident and is read over.
    pub(super) slots: Vec<Slot>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) issued: Nanos,
    /// Issued with nobody waiting.
    pub(super) ahead: bool,
    /// A reader that came later waits now.
    pub(super) joined: bool,
    pub(super) commands: Vec<u32>,
    pub(super) commands_left: u32,
    /// Blocks of `extent` (by index) that could not be read: `[from, to)`; empty when all is well.
    pub(super) bad: (u64, u64),
    /// Runs of blocks (by index) that could not be read although those around them may have come.
    pub(super) holes: Vec<Extent>,
    /// Staging memory of the inputs of a combine step, in the order of the read plan's reads.
    pub(super) staging: Vec<Slot>,
    /// It is summed from other members' blocks.
    pub(super) rebuilt: bool,
    /// Members that could not give it.
    pub(super) avoid: DiskSet,
    /// The member that failed last.
    pub(super) bad_disk: Disk,
    /// How it is rebuilt.
    pub(super) plan: ReadPlan,
    /// The sums of the rebuild.
    pub(super) steps: Vec<CombineStep>,
    pub(super) read_ahead: bool,
}

impl Fetch {
    /// Staging slot of a member block that the rebuild reads.
    pub(super) fn staged(&self, disk: Disk, start: Block) -> Buffer {
        let (index, within) = self.plan.find(disk, start).expect("a rebuild reads what its terms name");
        let before: u64 = self.plan.reads()[..index].iter().map(|read| read.extent.blocks).sum();
        Buffer::Staging(self.staging[(before + within) as usize])
    }
}

/// Whether something must wait for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    Yes,
    No,
}

/// Whose command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Data of a fetch; the offset of the command's first block in the fetch.
    Fetch(u32, u64),
    /// Data of a fetch that is only input of a combine step.
    Staged(u32),
    /// Reads or writes of a destage job.
    Destage(u32),
}

/// One command to one member.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) owner: Owner,
    pub(super) disk: Disk,
    pub(super) extent: Extent,
    pub(super) op: Op,
    pub(super) class: Class,
    pub(super) context: Context,
    pub(super) read_ahead: bool,
    pub(super) left: bool,
    /// It left by a dispatch that decides no more.
    pub(super) of_another_dispatch: bool,
}

impl Default for Command {
    fn default() -> Self {
        Self {
            owner: Owner::Staged(0),
            disk: Disk(0),
            extent: Extent::default(),
            op: Op::Read,
            class: Class::Demand,
            context: Context(0),
            read_ahead: false,
            left: false,
            of_another_dispatch: false,
        }
    }
}
