//! Memory for what the journal holds: blocks that are given back when the last who uses them is done.

use super::format::BLOCK;
use crate::raw::{Arena, Lease, Lend};
use std::io;

/// Blocks of memory, each with the number of those who use it beside its owner.
#[derive(Debug)]
pub(super) struct Slots {
    arena: Arena,
    free: Vec<u32>,
    pins: Vec<u16>,
    /// Its owner is done with it.
    left: Vec<bool>,
    /// It holds zeros, and nobody needs room for them where they go.
    hollow: Vec<bool>,
    all: usize,
}

impl Slots {
    /// So many, all free, behind `fixed` ones that belong to their user for good: the first of the arena.
    pub(super) fn new(fixed: usize, many: usize) -> io::Result<Self> {
        let blocks = fixed + many;
        // None of it is pinned by a ring of the kernel, which knows the memory of the volume.
        let arena = Arena::new(0, blocks)?;
        let free = (fixed as u32..blocks as u32).rev().collect();
        Ok(Self {
            arena,
            free,
            pins: vec![0; blocks],
            left: vec![false; blocks],
            hollow: vec![false; blocks],
            all: many,
        })
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// How many there are.
    pub(super) const fn all(&self) -> usize {
        self.all
    }

    /// Takes one.
    pub(super) fn take(&mut self) -> Option<u32> {
        let slot = self.free.pop()?;
        self.hollow[slot as usize] = false;
        Some(slot)
    }

    /// Its owner is done with it.
    pub(super) fn give(&mut self, slot: u32) {
        let at = slot as usize;
        self.left[at] = true;
        self.let_go(at);
    }

    /// Somebody else uses it.
    pub(super) fn pin(&mut self, slot: u32) {
        self.pins[slot as usize] += 1;
    }

    /// And does no more.
    pub(super) fn unpin(&mut self, slot: u32) {
        let at = slot as usize;
        self.pins[at] -= 1;
        self.let_go(at);
    }

    fn let_go(&mut self, at: usize) {
        if self.left[at] && self.pins[at] == 0 {
            self.left[at] = false;
            self.free.push(at as u32);
        }
    }

    /// Its bytes.
    pub(super) fn bytes(&self, slot: u32) -> &[u8] {
        self.arena.block(slot)
    }

    /// Its bytes, to be written.
    pub(super) fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        self.arena.block_mut(slot)
    }

    /// Fills it from the byte `skip` of a lease on.
    pub(super) fn fill(&mut self, slot: u32, lease: &Lease, skip: u64) {
        let got = lease.copy_to(skip, self.arena.block_mut(slot));
        debug_assert_eq!(got, BLOCK as u64, "a lease holds whole blocks");
    }

    /// What it holds are zeros that may become a hole.
    pub(super) fn hollow(&mut self, slot: u32) {
        self.hollow[slot as usize] = true;
    }

    /// Whether it does.
    pub(super) fn is_hollow(&self, slot: u32) -> bool {
        self.hollow[slot as usize]
    }

    /// Lends them to a write.
    pub(super) fn lend(&mut self, slots: impl Iterator<Item = u32>) -> Lease {
        self.arena.lend(slots.map(Some), Lend::Drain)
    }

    /// The write has ended.
    pub(super) fn take_back(&mut self, lease: Lease) {
        self.arena.take_back(lease);
    }
}
