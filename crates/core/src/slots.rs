//! The one ledger of memory: every block that is cached, in flight or staged holds a slot, and no other memory exists.
//!
//! A slot is a number; the host may keep a buffer behind it. It is taken when a fetch is issued (not when it
//! completes) and comes back when its block has left *and* nobody pins it, so a reader that still copies from an
//! evicted block never sees another block's bytes. Each reuse raises the slot's generation.

use crate::planted::{self, Bug};
use alloc::vec::Vec;

/// Number of a slot: an index into the host's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// No slot.
    pub const NONE: Self = Self(u32::MAX);
    /// Whether it is a slot at all.
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
    fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct SlotState {
    generation: u32,
    pins: u32,
    /// A block (or a staging job) owns it.
    owned: bool,
}

/// The ledger. `capacity` is the hard budget in blocks.
#[derive(Debug)]
#[cfg_attr(any(test, kani), derive(Clone))]
pub struct Slots {
    states: Vec<SlotState>,
    free: Vec<Slot>,
    capacity: u64,
}

impl Slots {
    /// A ledger of `capacity` slots, all free. At most 2^32 − 2, 16 TiB of cache.
    ///
    /// # Panics
    /// Above that.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        assert!(capacity < u64::from(u32::MAX), "a cache has at most 2^32 - 2 blocks");
        Self { states: Vec::new(), free: Vec::new(), capacity }
    }
    /// The budget, in blocks.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }
    /// Slots that are owned or pinned.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.states.len() as u64 - self.free.len() as u64
    }
    /// Most slots that were ever taken at once.
    #[must_use]
    pub const fn peak(&self) -> u64 {
        self.states.len() as u64 // one is made only when none is free
    }
    /// Slots that can be taken now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.capacity.saturating_sub(self.taken())
    }
    /// Changes the budget; what is taken beyond it comes back as it is freed.
    pub(crate) fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }
    /// Whether more is taken than the budget, which was lowered.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.taken() > self.capacity
    }
    /// Takes a free slot for an owner. `None` when the budget is spent.
    #[inline]
    pub fn take(&mut self) -> Option<Slot> {
        if self.taken() >= self.capacity {
            return None;
        }
        let slot = if let Some(slot) = self.free.pop() {
            slot
        } else {
            let next = u32::try_from(self.states.len()).ok()?;
            self.states.push(SlotState::default());
            Slot(next)
        };
        let state = &mut self.states[slot.index()];
        debug_assert!(!state.owned && state.pins == 0, "a free slot has no owner");
        state.owned = true;
        state.generation = state.generation.wrapping_add(1);
        Some(slot)
    }
    /// Its owner gives it up; it is free once nobody pins it.
    #[inline]
    pub fn disown(&mut self, slot: Slot) {
        let state = &mut self.states[slot.index()];
        assert!(state.owned, "a slot is given up once");
        state.owned = false;
        if planted::is(Bug::ReleasePinned) {
            state.pins = 0;
        }
        if state.pins == 0 {
            self.free.push(slot);
        }
    }
    /// Somebody reads from it: it must not be reused before [`Slots::unpin`].
    #[inline]
    pub fn pin(&mut self, slot: Slot) {
        self.states[slot.index()].pins += 1;
    }
    /// One reader less. Returns whether that freed the slot.
    #[inline]
    pub fn unpin(&mut self, slot: Slot) -> bool {
        let state = &mut self.states[slot.index()];
        if planted::is(Bug::ReleasePinned) && state.pins == 0 {
            return false;
        }
        assert!(state.pins > 0, "a pin is taken back once");
        state.pins -= 1;
        let freed = state.pins == 0 && !state.owned;
        if freed {
            self.free.push(slot);
        }
        freed
    }
    /// Whether somebody reads from it.
    #[must_use]
    pub fn is_pinned(&self, slot: Slot) -> bool {
        self.states[slot.index()].pins > 0
    }
    /// How often the slot has been taken: a reader that remembers it can tell a reuse.
    #[must_use]
    pub fn generation(&self, slot: Slot) -> u32 {
        self.states[slot.index()].generation
    }
}

/// What must hold of the ledger after any step: the tests below go through all short histories, and a verifier proves it.
#[cfg(any(test, kani))]
mod properties {
    use super::*;

    /// Slots of the ledgers that are looked at, at most.
    pub(super) const SLOTS: usize = 3;
    /// Things that may be done: one is taken, or one of them is given up, pinned or unpinned.
    pub(super) const STEPS: usize = 1 + 3 * SLOTS;

    /// What a slot should be: who owns it, and who reads it.
    #[derive(Clone, Copy, Default)]
    struct Model {
        owned: bool,
        pins: u32,
    }

    /// A ledger beside what it should be.
    #[derive(Clone)]
    pub(super) struct Pair {
        slots: Slots,
        model: [Model; SLOTS],
    }

    impl Pair {
        pub(super) fn new(capacity: u64) -> Self {
            Self { slots: Slots::new(capacity), model: [Model::default(); SLOTS] }
        }
        /// Does step number `step` and compares. Whether a caller may do it now; nothing was done if not.
        pub(super) fn step(&mut self, step: usize) -> bool {
            let taken = self.model.iter().filter(|it| it.owned || it.pins > 0).count() as u64;
            let Some(step) = step.checked_sub(1) else {
                match self.slots.take() {
                    None => {
                        assert_eq!(taken, self.slots.capacity, "a slot is refused only when all are taken");
                    }
                    Some(slot) => {
                        let it = &mut self.model[slot.index()];
                        assert!(!it.owned && it.pins == 0, "what is given out belongs to nobody");
                        it.owned = true;
                    }
                }
                self.compare();
                return true;
            };
            let (it, slot) = (&mut self.model[step / 3], Slot((step / 3) as u32));
            match step % 3 {
                0 if it.owned => {
                    self.slots.disown(slot);
                    it.owned = false;
                }
                1 if it.owned && it.pins < 2 => {
                    self.slots.pin(slot);
                    it.pins += 1;
                }
                2 if it.pins > 0 => {
                    it.pins -= 1;
                    assert_eq!(self.slots.unpin(slot), !it.owned && it.pins == 0);
                }
                _ => return false,
            }
            self.compare();
            true
        }
        fn compare(&self) {
            let taken = self.model.iter().filter(|it| it.owned || it.pins > 0).count() as u64;
            let slots = &self.slots;
            assert_eq!((slots.taken(), slots.available()), (taken, slots.capacity - taken));
            assert!(slots.taken() <= slots.peak() && slots.peak() <= slots.capacity);
            for (at, it) in self.model.iter().enumerate().take(slots.states.len()) {
                assert_eq!(slots.is_pinned(Slot(at as u32)), it.pins > 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::properties::*;
    use super::*;

    #[test]
    fn a_pinned_slot_comes_back_only_after_its_last_reader() {
        let mut slots = Slots::new(1);
        let slot = slots.take().unwrap();
        let before = slots.generation(slot);
        slots.pin(slot);
        slots.disown(slot);
        assert_eq!(slots.take(), None, "the evicted block is still being copied");
        assert!(slots.unpin(slot));
        assert_eq!(slots.take(), Some(slot));
        assert_ne!(slots.generation(slot), before);
    }

    #[test]
    fn the_budget_is_held_and_its_peak_is_shown() {
        let mut slots = Slots::new(2);
        let a = slots.take().unwrap();
        slots.take().unwrap();
        assert_eq!(slots.take(), None);
        slots.disown(a);
        assert_eq!((slots.available(), slots.peak()), (1, 2));
    }

    #[test]
    fn what_is_taken_beyond_a_lowered_budget_is_not_used_again() {
        let mut slots = Slots::new(2);
        let (a, b) = (slots.take().unwrap(), slots.take().unwrap());
        slots.set_capacity(1);
        assert!(slots.is_over());
        slots.disown(a);
        assert!(slots.take().is_none() && !slots.is_over());
        slots.disown(b);
        assert!(slots.take().is_some());
    }

    /// Goes on from here in every way that a caller may, `more` steps deep.
    fn every_way(pair: &Pair, more: u32) -> u64 {
        if more == 0 {
            return 1;
        }
        let histories = (0..STEPS).map(|step| {
            let mut pair = pair.clone();
            if pair.step(step) { every_way(&pair, more - 1) } else { 0 }
        });
        histories.sum()
    }

    #[test]
    fn every_history_of_eight_steps_over_three_slots_keeps_the_ledger() {
        let histories: Vec<u64> =
            (0..=SLOTS as u64).map(|capacity| every_way(&Pair::new(capacity), 8)).collect();
        assert!(histories[0] == 1 && histories.is_sorted_by(|a, b| a < b), "{histories:?}");
    }
}

#[cfg(kani)]
mod proofs {
    use super::properties::*;
    use kani::any;

    /// Any six steps over any ledger of up to three slots.
    #[kani::proof]
    #[kani::unwind(7)]
    fn histories() {
        let mut pair = Pair::new(u64::from(any::<u8>() % (SLOTS as u8 + 1)));
        for _ in 0..6 {
            pair.step(usize::from(any::<u8>() % STEPS as u8));
        }
    }
}
