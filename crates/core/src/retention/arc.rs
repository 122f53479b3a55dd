//! ARC (Megiddo and Modha, FAST 2003): recency and frequency share the cache, and ghosts move the border.
//!
//! T1 holds keys used once of late, T2 keys used at least twice; B1 and B2 remember what each evicted. A miss on
//! a ghost of B1 says that T1 is too small, one of B2 that T2 is: the target p for |T1| moves by the ratio of the ghost
//! lists, at least 1. The paper leaves open whether p is a whole number; published implementations and miss counts take it as
//! a fraction, and so does this one, in fixed point. |T1| + |B1| ≤ c and all four together ≤ 2c. The rules below are
//! those of Fig. 4 of the paper; its cases I to IV are marked. The patent on ARC (US 6,996,676) has expired.
//! A prefetched key enters T1 unread; its first use moves it to the young end of T1 and not to T2 (a block read ahead
//! and then read was used once); evicted unread it leaves no ghost, and a prefetch of a ghost only forgets the ghost.
//!
//! With refused victims (pinned lines), those standing aside count as members of their lists in every size test.

use super::adapter::ByLine;
use super::list::{FIRST as T1, Lists, NONE, SECOND as T2};
use super::replacement::{Arrival, Evicted, Key, Replacement};
use crate::row::{Layer, Make, Role, Row};
use alloc::boxed::Box;

/// Ghosts of T1.
const B1: u8 = 4;
/// Ghosts of T2.
const B2: u8 = 5;
/// Admitted, and was in B1.
const FROM_B1: u8 = 6;
/// Admitted, and was in B2.
const FROM_B2: u8 = 7;

/// Bits of the fraction of p. Ratios are rounded to the nearest; capacities stay below 2^32 entries.
const FRACTION_BITS: u32 = 31;
/// Low bits of p that comparisons round away, so that three times a third is one: roundings of half a unit each may not
/// decide between "equal" and "above".
const NOISE_BITS: u32 = 11;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "arc",
    layer: Layer::Array,
    role: Role::Keep,
    about: "Keeps blocks by recency and frequency, in shares that ghosts adapt.",
    source: "Megiddo and Modha, FAST 2003",
    make: Make::Keep(|lines| Box::new(ByLine::new(Arc::new(lines)))),
    ..Row::PLAIN
};

/// ARC over dense keys.
#[derive(Clone, Debug)]
pub struct Arc {
    lists: Lists,
    /// The paper's p, the target for |T1|: 0 to `capacity`, in units of 2^-`FRACTION_BITS`.
    target: u64,
}

/// A count in fixed point.
const fn fixed(count: usize) -> u64 {
    (count as u64) << FRACTION_BITS
}

/// `others / own`, at least 1, to the nearest in fixed point.
fn ratio(others: usize, own: usize) -> u64 {
    let own = own as u64;
    ((fixed(others) + own / 2) / own).max(fixed(1))
}

impl Arc {
    /// For `capacity` resident keys, at least one and fewer than 2^32.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { lists: Lists::for_cache(capacity), target: 0 }
    }

    fn drop_oldest(&mut self, ghosts: u8) -> Option<Key> {
        let key = self.lists.oldest(ghosts)?;
        self.lists.unlink(key);
        Some(key)
    }

    /// REPLACE of the paper: which list gives a key, and into which ghosts it goes.
    #[inline]
    fn replace(&mut self, incoming_from_b2: bool, dropped: Option<Key>) -> Option<Evicted> {
        let t1 = fixed(self.lists.len_with_aside(T1));
        let target = (self.target + (1 << (NOISE_BITS - 1))) >> NOISE_BITS << NOISE_BITS;
        let prefer_t1 = t1 > target || t1 == target && incoming_from_b2;
        let (first, second) = if prefer_t1 { (T1, T2) } else { (T2, T1) };
        let key = self.lists.oldest(first).or_else(|| self.lists.oldest(second));
        let Some(key) = key else {
            debug_assert!(dropped.is_none(), "a ghost is dropped only for a victim");
            return None;
        };
        let ghosts = if self.lists.list_of(key) == T1 { B1 } else { B2 };
        self.lists.take_victim(key);
        let remembered = !self.lists.is_unread(key);
        if remembered {
            self.lists.push_young(ghosts, key);
        }
        Some(Evicted { key, remembered, dropped })
    }

    fn adapt_up(&mut self) {
        let step = ratio(self.lists.len(B2), self.lists.len(B1));
        self.target = (self.target + step).min(fixed(self.capacity()));
    }
    fn adapt_down(&mut self) {
        let step = ratio(self.lists.len(B1), self.lists.len(B2));
        self.target = self.target.saturating_sub(step);
    }

    /// Whether all resident keys were refused in this round.
    fn nothing_left(&self) -> bool {
        self.lists.len(T1) + self.lists.len(T2) == 0
    }
}

impl Replacement for Arc {
    #[inline]
    fn lists(&self) -> &Lists {
        &self.lists
    }
    #[inline]
    fn lists_mut(&mut self) -> &mut Lists {
        &mut self.lists
    }
    fn max_keys(&self) -> usize {
        2 * self.capacity() + 1
    }
    fn is_remembered(&self, key: Key) -> bool {
        matches!(self.lists.list_of(key), B1 | B2)
    }
    #[inline]
    fn admit(&mut self, key: Key, arrival: Arrival) {
        self.lists.grow(key.index() + 1);
        let demand = arrival == Arrival::Demand;
        let state = match self.lists.list_of(key) {
            B1 => {
                // case II
                if demand {
                    self.adapt_up();
                }
                self.lists.unlink(key);
                FROM_B1
            }
            B2 => {
                // case III
                if demand {
                    self.adapt_down();
                }
                self.lists.unlink(key);
                FROM_B2
            }
            other => {
                debug_assert!(!self.is_resident(key), "a resident key is hit, not admitted");
                debug_assert!(other == NONE, "admitted once");
                NONE
            }
        };
        self.lists.set_state(key, if demand { state } else { NONE }, !demand);
    }
    #[inline]
    fn evict(&mut self, incoming: Option<Key>) -> Option<Evicted> {
        if self.nothing_left() {
            return None;
        }
        let origin = incoming.map_or(NONE, |key| self.lists.list_of(key));
        if origin != NONE {
            return self.replace(origin == FROM_B2, None);
        }
        // case IV
        let (t1, t2) = (self.lists.len_with_aside(T1), self.lists.len_with_aside(T2));
        let (b1, b2) = (self.lists.len(B1), self.lists.len(B2));
        if t1 + b1 >= self.capacity() {
            // A: L1 is full
            if b1 > 0 {
                let dropped = self.drop_oldest(B1);
                return self.replace(false, dropped);
            }
            // B1 is empty, so T1 is the whole cache: its oldest leaves without a ghost
            if let Some(key) = self.lists.oldest(T1) {
                self.lists.take_victim(key);
                return Some(Evicted { key, remembered: false, dropped: None });
            }
            return self.replace(false, None);
        }
        // B: all four lists together are full
        let dropped = if t1 + b1 + t2 + b2 >= 2 * self.capacity() { self.drop_oldest(B2) } else { None };
        self.replace(false, dropped)
    }
    #[inline]
    fn insert(&mut self, key: Key) {
        self.lists.settle();
        let returning = self.lists.list_of(key) != NONE;
        self.lists.push_young(if returning { T2 } else { T1 }, key);
    }
    #[inline]
    fn hit(&mut self, key: Key) {
        // case I
        self.lists.settle();
        if self.lists.list_of(key) == T2 {
            self.lists.take_unread(key);
            self.lists.refresh(T2, key);
        } else if self.lists.take_unread(key) {
            self.lists.refresh(T1, key);
        } else {
            self.lists.unlink(key);
            self.lists.push_young(T2, key);
        }
    }
    fn remove(&mut self, key: Key) {
        match self.lists.list_of(key) {
            NONE => {}
            FROM_B1 | FROM_B2 => self.lists.set_state(key, NONE, false),
            _ => self.lists.unlink(key),
        }
    }
}
