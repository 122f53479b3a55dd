//! S3-FIFO (Yang et al., SOSP 2023): a small queue on probation, a main queue, and a queue of ghosts.
//!
//! Most blocks are read once; the small queue (a tenth of the cache) lets them pass through quickly. Keys used
//! at least twice while in it move to the main queue, a FIFO with a two-bit counter (a used key is inserted
//! again with its counter less one). The others leave a ghost, and a key that returns while its ghost lives goes to main at
//! once. Sizes and details are the defaults of libCacheSim, whose miss counts this file reproduces: small = c/10,
//! main = the rest, ghosts = 9c/10; threshold 2; the counter starts at zero in main; main evicts when it exceeds its share, or
//! when the small queue is empty; until the first eviction a full small queue passes new keys on to main; keys
//! evicted from main leave no ghost. Where it differs: caches under 20 blocks get a small queue of one block
//! that works (there, libCacheSim caches nothing). First use of a prefetched key is not counted; evicted unread it leaves no ghost.

use super::adapter::ByLine;
use super::list::{FIRST as SMALL, Lists, NONE, SECOND as MAIN};
use super::replacement::{Arrival, Evicted, Key, Replacement};
use crate::row::{Layer, Make, Role, Row};
use alloc::boxed::Box;

/// Keys evicted from the small queue, remembered.
const GHOST: u8 = 4;
/// Admitted, and was a ghost: goes to main.
const RECALLED: u8 = 5;
/// Uses after insertion that prove a key in the small queue.
const PROOF_USES: u8 = 2;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "s3fifo",
    layer: Layer::Array,
    role: Role::Keep,
    about: "Keeps blocks in a small, a main and a ghost queue.",
    source: "Yang et al., SOSP 2023",
    make: Make::Keep(|lines| Box::new(ByLine::new(S3Fifo::new(lines)))),
    ..Row::PLAIN
};

/// S3-FIFO over dense keys.
#[derive(Clone, Debug)]
pub struct S3Fifo {
    lists: Lists,
    small_share: usize,
    ghosts_max: usize,
    has_evicted: bool,
}

impl S3Fifo {
    /// For `capacity` resident keys, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            lists: Lists::for_cache(capacity),
            small_share: (capacity / 10).max(1),
            ghosts_max: capacity - capacity.div_ceil(10),
            has_evicted: false,
        }
    }

    /// Remembers `key`; the ghost that had to go for it.
    fn remember(&mut self, key: Key) -> Option<Key> {
        let full = self.lists.len(GHOST) >= self.ghosts_max;
        let dropped = if full { self.lists.oldest(GHOST) } else { None };
        if let Some(old) = dropped {
            self.lists.unlink(old);
        }
        self.lists.push_young(GHOST, key);
        dropped
    }

    /// Moves the proven from the old end of the small queue to main, and takes the first that is not.
    fn evict_small(&mut self) -> Option<Evicted> {
        while let Some(key) = self.lists.oldest(SMALL) {
            if self.lists.count(key) >= PROOF_USES {
                self.lists.unlink(key);
                self.lists.set_count(key, 0);
                self.lists.push_young(MAIN, key);
                continue;
            }
            self.lists.take_victim(key);
            let remembered = self.ghosts_max > 0 && !self.lists.is_unread(key);
            let dropped = if remembered { self.remember(key) } else { None };
            return Some(Evicted { key, remembered, dropped });
        }
        None
    }

    /// Takes the oldest key of main that was not used since it passed here last.
    fn evict_main(&mut self) -> Option<Evicted> {
        while let Some(key) = self.lists.oldest(MAIN) {
            match self.lists.count(key) {
                0 => {
                    self.lists.take_victim(key);
                    return Some(Evicted { key, remembered: false, dropped: None });
                }
                uses => {
                    self.lists.set_count(key, uses - 1);
                    self.lists.refresh(MAIN, key);
                }
            }
        }
        None
    }
}

impl Replacement for S3Fifo {
    #[inline]
    fn lists(&self) -> &Lists {
        &self.lists
    }
    #[inline]
    fn lists_mut(&mut self) -> &mut Lists {
        &mut self.lists
    }
    fn max_keys(&self) -> usize {
        self.capacity() + self.ghosts_max + 1
    }
    fn is_remembered(&self, key: Key) -> bool {
        self.lists.list_of(key) == GHOST
    }
    #[inline]
    fn admit(&mut self, key: Key, arrival: Arrival) {
        self.lists.grow(key.index() + 1);
        debug_assert!(!self.is_resident(key), "a resident key is hit, not admitted");
        let was_ghost = self.is_remembered(key);
        if was_ghost {
            self.lists.unlink(key);
        }
        let demand = arrival == Arrival::Demand;
        self.lists.set_state(key, if was_ghost && demand { RECALLED } else { NONE }, !demand);
    }
    #[inline]
    fn evict(&mut self, _incoming: Option<Key>) -> Option<Evicted> {
        self.has_evicted = true;
        let main_share = self.capacity() - self.small_share;
        if self.lists.len(MAIN) > main_share {
            return self.evict_main();
        }
        self.evict_small().or_else(|| self.evict_main())
    }
    #[inline]
    fn insert(&mut self, key: Key) {
        self.lists.settle();
        let recalled = self.lists.list_of(key) == RECALLED;
        let small_is_full = self.lists.len(SMALL) >= self.small_share;
        let to_main = recalled || !self.has_evicted && small_is_full;
        self.lists.push_young(if to_main { MAIN } else { SMALL }, key);
    }
    #[inline]
    fn hit(&mut self, key: Key) {
        if !self.lists.take_unread(key) {
            let uses = self.lists.count(key);
            self.lists.set_count(key, uses + 1);
        }
    }
    fn remove(&mut self, key: Key) {
        match self.lists.list_of(key) {
            NONE => {}
            RECALLED => self.lists.set_state(key, NONE, false),
            _ => self.lists.unlink(key),
        }
    }
}
