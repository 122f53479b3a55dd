//! SIEVE (Zhang et al., NSDI 2024): a queue in order of insertion, one bit per key, and a hand.
//!
//! A hit sets the bit and moves nothing, which makes hits as cheap as they can be. To evict, the hand walks from
//! where it stopped towards the young end: it clears the bits it finds set and takes the first key without one;
//! past the youngest it starts again at the oldest. Survivors keep their places, so new keys and proven keys
//! are sorted apart by the hand itself. As in libCacheSim, a new key enters at the young end with its bit clear.
//! No ghosts. A prefetched key's first use leaves the bit clear: it is then what a demanded key is when new.

use super::adapter::ByLine;
use super::list::{FIRST as QUEUE, Lists};
use super::replacement::{Arrival, Evicted, Key, Replacement};
use crate::row::{Layer, Make, Role, Row};
use alloc::boxed::Box;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "sieve",
    layer: Layer::Array,
    role: Role::Keep,
    about: "Keeps blocks in one queue with a hand that passes over what was used.",
    source: "Zhang et al., NSDI 2024",
    make: Make::Keep(|lines| Box::new(ByLine::new(Sieve::new(lines)))),
    ..Row::PLAIN
};

/// SIEVE over dense keys.
#[derive(Clone, Debug)]
pub struct Sieve {
    lists: Lists,
    /// Where the next search starts; `None` is the oldest key.
    hand: Option<Key>,
}

impl Sieve {
    /// For `capacity` resident keys, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { lists: Lists::for_cache(capacity), hand: None }
    }
}

impl Replacement for Sieve {
    #[inline]
    fn lists(&self) -> &Lists {
        &self.lists
    }
    #[inline]
    fn lists_mut(&mut self) -> &mut Lists {
        &mut self.lists
    }
    #[inline]
    fn admit(&mut self, key: Key, arrival: Arrival) {
        self.lists.enter(key, arrival == Arrival::Prefetch);
    }
    #[inline]
    fn evict(&mut self, _incoming: Option<Key>) -> Option<Evicted> {
        let mut key = self.hand.or_else(|| self.lists.oldest(QUEUE))?;
        while self.lists.count(key) != 0 {
            self.lists.set_count(key, 0);
            key = self.lists.younger(key).or_else(|| self.lists.oldest(QUEUE))?;
        }
        self.hand = self.lists.younger(key);
        self.lists.take_victim(key);
        Some(Evicted { key, remembered: false, dropped: None })
    }
    #[inline]
    fn insert(&mut self, key: Key) {
        self.lists.settle();
        self.lists.push_young(QUEUE, key);
    }
    #[inline]
    fn hit(&mut self, key: Key) {
        if !self.lists.take_unread(key) {
            self.lists.set_count(key, 1);
        }
    }
    fn remove(&mut self, key: Key) {
        if !self.lists.is_resident(key) {
            return;
        }
        if self.hand == Some(key) {
            self.hand = self.lists.younger(key);
        }
        self.lists.unlink(key);
    }
}
