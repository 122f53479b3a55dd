//! Accesses of the host, from `Read`, `Write` or `Flush` to `Release`: which blocks have their memory, what is still waited for,
//! and who waits for memory at all.
//!
//! An entry is used again as soon as its access is released, while fetches and jobs may still name it; so they name it by a
//! [`Waiter`], which tells one access from others in the same entry.

use super::memory::Memory;
use super::messages::Output;
use super::slab::Slab;
use crate::access::{Access, Context, Op};
use crate::slots::Slot;
use crate::units::{Block, Extent};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// An access that waits for blocks of a fetch, or for a stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiter {
    /// Its number.
    pub(super) access: u32,
    /// Tells it from others that used the same entry.
    serial: u64,
}

/// Whether an access has all that it waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complete {
    /// Not yet, or it has been said before.
    No,
    /// It can be answered.
    Yes,
    /// It can be answered as soon as the members keep it.
    Durable,
}

#[derive(Debug)]
struct Pending {
    id: u64,
    /// Tells this access from others that used the same entry; 0 when it waits for nothing.
    serial: u64,
    access: Access,
    /// Blocks that have no slot yet; of a durable one, stripes that are not on the members.
    missing: u64,
    /// One per block; pinned once it is some.
    slots: Vec<Slot>,
    error: bool,
    /// Nothing is missing: it waits for `Release`, or for a sync first.
    ready: bool,
    /// A write that must be on the members before it is acknowledged, or a flush.
    durable: bool,
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

/// All accesses that are not released.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    table: Slab<Pending>,
    /// Accesses admitted so far.
    serial: u64,
    /// Those that wait for memory, in the order of their coming.
    starved: VecDeque<u32>,
}

impl Accesses {
    pub(super) fn is_idle(&self) -> bool {
        self.table.live() == 0
    }

    /// Puts an access of the host into the table: nothing of it is here.
    pub(super) fn admit(&mut self, id: u64, access: &Access, durable: bool) -> u32 {
        let number = self.table.take();
        self.serial += 1;
        let pending = &mut self.table[number];
        pending.id = id;
        pending.serial = self.serial;
        pending.access = *access;
        pending.missing = access.extent.blocks;
        pending.slots.clear();
        pending.slots.resize(access.extent.blocks as usize, Slot::NONE);
        pending.error = false;
        pending.ready = false;
        pending.durable = durable;
        number
    }

    /// The same of a flush, which has no blocks. It waits for one thing more than it is told to ([`Self::expect`]), so that it is
    /// not complete before all of them are known: that has come with [`Self::got`].
    pub(super) fn admit_flush(&mut self, id: u64) -> u32 {
        let number = self.admit(id, &Access::write(Context::default(), Extent::default()), true);
        self.table[number].missing = 1;
        number
    }

    /// The same of a read that is answered as it comes; only its slot and extent are ever asked for.
    #[inline]
    pub(super) fn admit_answered(&mut self, extent: Extent, slot: Slot) -> u32 {
        let number = self.table.take();
        self.serial += 1;
        let pending = &mut self.table[number];
        pending.access.extent = extent;
        pending.serial = 0;
        pending.slots.push(slot);
        pending.ready = true;
        number
    }

    pub(super) fn access(&self, number: u32) -> &Access {
        &self.table[number].access
    }
    /// The host's id of it.
    pub(super) fn id(&self, number: u32) -> u64 {
        self.table[number].id
    }
    /// One per block: [`Slot::NONE`] where it has no memory.
    pub(super) fn slots(&self, number: u32) -> &[Slot] {
        &self.table[number].slots
    }
    pub(super) fn waiter(&self, number: u32) -> Waiter {
        Waiter { access: number, serial: self.table[number].serial }
    }
    /// Whether an access is still the one that began to wait.
    pub(super) fn is_waiting(&self, waiter: Waiter) -> bool {
        self.table[waiter.access].serial == waiter.serial
    }
    pub(super) fn is_durable(&self, number: u32) -> bool {
        self.table[number].durable
    }
    pub(super) fn has_failed(&self, number: u32) -> bool {
        self.table[number].error
    }
    pub(super) fn is_missing_some(&self, number: u32) -> bool {
        self.table[number].missing > 0
    }

    /// Gives one block of an access its memory. Returns whether it had none.
    pub(super) fn hand_over(&mut self, number: u32, block: Block, slot: Slot) -> bool {
        let pending = &mut self.table[number];
        let at = (block.0 - pending.access.extent.start.0) as usize;
        if pending.slots[at].is_some() {
            return false;
        }
        pending.slots[at] = slot;
        pending.missing -= 1;
        true
    }
    /// A block of an access cannot be had.
    pub(super) fn fail_block(&mut self, number: u32, block: Block) {
        let pending = &mut self.table[number];
        let at = (block.0 - pending.access.extent.start.0) as usize;
        if !pending.slots[at].is_some() {
            pending.error = true;
            pending.missing -= 1;
        }
    }
    /// Something that an access waits for did not end well, if it `failed`.
    pub(super) fn blame(&mut self, number: u32, failed: bool) {
        self.table[number].error |= failed;
    }
    /// An access waits for so many things more.
    pub(super) fn expect(&mut self, number: u32, more: u64) {
        self.table[number].missing += more;
    }
    /// An access has one of the things that it waited for.
    pub(super) fn got(&mut self, number: u32) {
        self.table[number].missing -= 1;
    }
    /// Whether an access has all now; says so once.
    pub(super) fn complete(&mut self, number: u32) -> Complete {
        let pending = &mut self.table[number];
        if pending.missing > 0 || pending.ready {
            return Complete::No;
        }
        pending.ready = true;
        if pending.durable { Complete::Durable } else { Complete::Yes }
    }
    /// What the host is told.
    pub(super) fn answer(&self, number: u32) -> Output {
        let Pending { id, error, .. } = self.table[number];
        Output::Ready { id, handle: number, error }
    }
    /// The host has copied: nothing is pinned for it any more. Returns its blocks.
    pub(super) fn release(&mut self, number: u32, memory: &mut Memory) -> Extent {
        let pending = &mut self.table[number];
        assert!(pending.ready, "only an answered access is released");
        for &slot in pending.slots.iter().filter(|s| s.is_some()) {
            memory.unpin(slot);
        }
        pending.slots.clear();
        let extent = pending.access.extent;
        // Fetches and jobs that still name this access must not take it for one that waits.
        pending.serial = 0;
        self.table.give_back(number);
        extent
    }

    // Memory.

    /// An access waits for memory, behind those that do so already.
    pub(super) fn starve(&mut self, number: u32) {
        self.starved.push_back(number);
    }
    #[inline]
    pub(super) fn is_any_starved(&self) -> bool {
        !self.starved.is_empty()
    }
    /// The first that waits for memory, and what it does.
    pub(super) fn first_starved(&self) -> Option<(u32, Op)> {
        self.starved.front().map(|&number| (number, self.table[number].access.op))
    }
    /// The first has got its memory.
    pub(super) fn feed(&mut self) {
        self.starved.pop_front();
    }
}
