//! What the journal holds of the device: for each block with a record in the ring where its newest content is in memory, and
//! whether the device has it.

use std::collections::{BTreeMap, BTreeSet};

/// How far a block is on its way home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// On the journal alone.
    Dirty,
    /// A write of it to the device is under way.
    Flying,
    /// The device has it, and no sync has covered that.
    Written,
}

/// A block with a record in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Where its bytes are.
    pub(super) slot: u32,
    /// The record that brought them.
    pub(super) seq: u64,
    pub(super) state: State,
}

/// All of them, by block.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<u64, Entry>);

impl Held {
    /// A record has brought a block. Returns the memory of what it replaces.
    pub(super) fn put(&mut self, block: u64, slot: u32, seq: u64) -> Option<u32> {
        self.0.insert(block, Entry { slot, seq, state: State::Dirty }).map(|old| old.slot)
    }

    /// Those from `first` to before `end`.
    pub(super) fn range(&self, first: u64, end: u64) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.0.range(first..end).map(|(&block, &entry)| (block, entry))
    }

    /// Those of an extent that may be written to the device: up to this record.
    pub(super) fn dirty(&self, first: u64, end: u64, upto: u64) -> Vec<(u64, u32)> {
        let dirty = |&(_, entry): &(u64, Entry)| entry.state == State::Dirty && entry.seq <= upto;
        self.range(first, end).filter(dirty).map(|(block, entry)| (block, entry.slot)).collect()
    }

    /// A block is further on its way, unless it was replaced meanwhile.
    pub(super) fn go(&mut self, block: u64, slot: u32, state: State) {
        if let Some(entry) = self.0.get_mut(&block).filter(|entry| entry.slot == slot) {
            entry.state = state;
        }
    }

    /// The stripes that hold what is dirty up to a record; `stripe` says which a block lies in.
    pub(super) fn stripes(&self, upto: u64, stripe: impl Fn(u64) -> u64) -> BTreeSet<u64> {
        let dirty = self.0.iter().filter(|(_, entry)| entry.state == State::Dirty && entry.seq <= upto);
        dirty.map(|(&block, _)| stripe(block)).collect()
    }

    /// The device keeps all up to a record: returns the memory of what is not needed any more.
    pub(super) fn forget(&mut self, upto: u64) -> Vec<u32> {
        let home = |_: &u64, entry: &mut Entry| entry.state == State::Written && entry.seq <= upto;
        self.0.extract_if(.., home).map(|(_, entry)| entry.slot).collect()
    }

    /// Whether none of these blocks has a record in the ring.
    pub(super) fn is_clear(&self, first: u64, end: u64) -> bool {
        self.0.range(first..end).next().is_none()
    }
}
