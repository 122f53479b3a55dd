//! LRU misses of every cache size in one pass: stack depths (Mattson et al., IBM Systems Journal 1970).
//!
//! A reference hits in an LRU cache of n blocks exactly if fewer than n distinct other blocks were used since its block was used
//! last; that number plus one is its depth. The histogram of depths therefore answers all sizes. Each block
//! that was used owns one slot, in order of last use, and a Fenwick tree counts the owned slots after a given one.
//! Slots are given out upwards; when they run out (twice the number of blocks) the owned ones are
//! renumbered from zero, so that the tree stays as small as the footprint, however long the trace.

use alloc::vec;
use alloc::vec::Vec;

use super::replacement::Key;

/// Slot of a block that was not used yet.
const UNUSED: usize = usize::MAX;

/// How many references had each stack depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths {
    /// `hits[d]`: references at depth d + 1, so that a cache of more than d blocks hits.
    hits: Vec<u64>,
    references: u64,
}

impl Depths {
    /// The depths of all references of `keys`.
    #[must_use]
    pub fn of(keys: &[Key]) -> Self {
        let footprint = keys.iter().map(|key| key.index() + 1).max().unwrap_or(0);
        let mut stack = Stack::new(footprint);
        let mut hits = vec![0; footprint];
        for &key in keys {
            if let Some(depth) = stack.touch(key) {
                hits[depth] += 1;
            }
        }
        Self { hits, references: keys.len() as u64 }
    }

    /// Misses of an LRU cache of `capacity` blocks, first references included.
    #[must_use]
    pub fn misses(&self, capacity: usize) -> u64 {
        let reach = capacity.min(self.hits.len());
        self.references - self.hits[..reach].iter().sum::<u64>()
    }
}

struct Stack {
    /// Fenwick tree over slots, index from 1.
    tree: Vec<u32>,
    slot_of: Vec<usize>,
    /// The block that owned a slot last; stale once the block has moved on.
    owner: Vec<u32>,
    next_slot: usize,
    owned: usize,
}

impl Stack {
    fn new(footprint: usize) -> Self {
        let slots = 2 * footprint;
        Self {
            tree: vec![0; slots + 1],
            slot_of: vec![UNUSED; footprint],
            owner: vec![0; slots],
            next_slot: 0,
            owned: 0,
        }
    }

    /// Uses `key`; how many distinct others were used since its last use, if it was used before.
    fn touch(&mut self, key: Key) -> Option<usize> {
        if self.next_slot == self.owner.len() {
            self.renumber();
        }
        let slot = core::mem::replace(&mut self.slot_of[key.index()], self.next_slot);
        let depth = (slot != UNUSED).then(|| {
            let younger = self.owned - self.owned_up_to(slot);
            self.add(slot, u32::MAX);
            self.owned -= 1;
            younger
        });
        self.owner[self.next_slot] = key.0;
        self.add(self.next_slot, 1);
        self.owned += 1;
        self.next_slot += 1;
        depth
    }

    /// Adds `change` (modulo 2^32, so `u32::MAX` takes one away) at `slot`.
    fn add(&mut self, slot: usize, change: u32) {
        let mut at = slot + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }
    /// Owned slots from 0 to `slot`, both included.
    fn owned_up_to(&self, slot: usize) -> usize {
        let mut at = slot + 1;
        let mut sum = 0_u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum as usize
    }

    /// Moves the owned slots together at the low end, in order. At least half of all slots come free.
    fn renumber(&mut self) {
        let mut free = 0;
        for slot in 0..self.owner.len() {
            let key = self.owner[slot] as usize;
            if self.slot_of[key] == slot {
                self.slot_of[key] = free;
                self.owner[free] = self.owner[slot];
                free += 1;
            }
        }
        self.next_slot = free;
        self.tree.fill(0);
        for at in 1..self.tree.len() {
            self.tree[at] += u32::from(at <= free);
            let parent = at + (at & at.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[at];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lru::Lru;
    use super::super::{Replacement, count_misses};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_sequence_misses_nothing() {
        assert_eq!(Depths::of(&[]).misses(4), 0);
    }

    proptest! {
        #[test]
        fn one_pass_agrees_with_a_cache_of_each_size(keys in prop::collection::vec(0_u32..20, 0..400)) {
            let keys: Vec<Key> = keys.into_iter().map(Key).collect();
            let depths = Depths::of(&keys);
            for capacity in 1..=22 {
                let mut lru = Lru::new(capacity);
                lru.reserve(20);
                prop_assert_eq!(depths.misses(capacity), count_misses(&mut lru, &keys));
            }
        }
    }
}
