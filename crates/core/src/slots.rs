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
#[cfg_attr(test, derive(Clone))]
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

#[cfg(test)]
mod tests {
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

    /// What a slot should be: who owns it, who reads it, and whether anything of it is left.
    #[derive(Clone, Copy, Default)]
    struct Model {
        owned: bool,
        pins: u32,
    }

    /// Goes on from here in every way that a caller may, `more` steps deep, and compares after each.
    fn every_way(slots: &Slots, model: &[Model], more: u32) {
        let taken = model.iter().filter(|slot| slot.owned || slot.pins > 0).count() as u64;
        assert_eq!((slots.taken(), slots.available()), (taken, slots.capacity - taken));
        assert!(slots.taken() <= slots.peak() && slots.peak() <= slots.capacity);
        if more == 0 {
            return;
        }
        let step = |act: &dyn Fn(&mut Slots, &mut Vec<Model>)| {
            let (mut slots, mut model) = (slots.clone(), model.to_vec());
            act(&mut slots, &mut model);
            every_way(&slots, &model, more - 1);
        };
        step(&|slots, model| match slots.take() {
            None => assert_eq!(taken, slots.capacity, "a slot is refused only when all are taken"),
            Some(slot) => {
                model.resize(model.len().max(slot.index() + 1), Model::default());
                let it = &mut model[slot.index()];
                assert!(!it.owned && it.pins == 0, "what is given out belongs to nobody");
                it.owned = true;
            }
        });
        for (at, it) in model.iter().enumerate() {
            let slot = Slot(at as u32);
            assert_eq!(slots.is_pinned(slot), it.pins > 0);
            if it.owned {
                step(&|slots, model| {
                    slots.disown(slot);
                    model[at].owned = false;
                });
            }
            if it.owned && it.pins < 2 {
                step(&|slots, model| {
                    slots.pin(slot);
                    model[at].pins += 1;
                });
            }
            if it.pins > 0 {
                step(&|slots, model| {
                    model[at].pins -= 1;
                    assert_eq!(slots.unpin(slot), !model[at].owned && model[at].pins == 0);
                });
            }
        }
    }

    #[test]
    fn every_history_of_eight_steps_over_three_slots_keeps_the_ledger() {
        for capacity in 0..=3 {
            every_way(&Slots::new(capacity), &[], 8);
        }
    }
}
