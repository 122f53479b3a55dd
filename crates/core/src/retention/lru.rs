//! Least recently used: one list, every use moves to its young end, the oldest leaves.
//!
//! The baseline of everything, and the block-granular LRU of an array cache. It keeps no ghosts, so a key is
//! free again as soon as it is evicted. LRU is a *stack* algorithm: what a cache of n entries holds, a cache of
//! n + 1 holds too, which is why [`super::depth`] gets the misses of all sizes in one pass; this file is for a cache
//! that exists, and for one size. A prefetched key enters at the young end like a demanded one.

use super::adapter::ByLine;
use super::list::{FIRST as QUEUE, Lists};
use super::replacement::{Arrival, Evicted, Key, Replacement};
use crate::row::{Layer, Make, Role, Row};
use alloc::boxed::Box;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "lru",
    layer: Layer::Array,
    role: Role::Keep,
    about: "Keeps blocks by recency, one by one; without it the array keeps whole strips by recency.",
    source: "base line",
    make: Make::Keep(|lines| Box::new(ByLine::new(Lru::new(lines)))),
    ..Row::PLAIN
};

/// LRU over dense keys.
#[derive(Clone, Debug)]
pub struct Lru {
    lists: Lists,
}

impl Lru {
    /// For `capacity` resident keys, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { lists: Lists::for_cache(capacity) }
    }
}

impl Replacement for Lru {
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
        let key = self.lists.oldest(QUEUE)?;
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
        self.lists.settle();
        self.lists.take_unread(key);
        self.lists.refresh(QUEUE, key);
    }
    fn remove(&mut self, key: Key) {
        if self.lists.is_resident(key) {
            self.lists.unlink(key);
        }
    }
}
