//! Doubly linked lists threaded through vectors: the one data structure of every replacement policy here.
//!
//! A key is in at most one list at a time. Links live in one vector (eight bytes a key, with one sentinel for
//! each list, so that linking has no special cases) and a byte of state lives in another: residency tests, and
//! the hits of policies that only count, touch nothing but that byte, and the bytes of 64 keys share a cache line.
//! Lists are numbered so that residency is a comparison: 0 is "no list", 1 to 3 hold resident keys, the others
//! are memories (ghosts) or mere states of keys that are on their way in.

use alloc::vec::Vec;

/// Number that the owner gave to a block or cache line. Dense, from 0: policies index vectors by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u32);

impl Key {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a list, or of a state without a list.
pub(crate) type ListId = u8;

/// In no list: unknown, or admitted and new.
pub(crate) const NONE: ListId = 0;
/// Victims that the owner refused, until the round ends.
pub(crate) const ASIDE: ListId = 1;
/// First of a policy's two lists of resident keys.
pub(crate) const FIRST: ListId = 2;
/// Second of a policy's two lists of resident keys.
pub(crate) const SECOND: ListId = 3;

/// List numbers fit in three bits of the state byte.
const LISTS_MAX: usize = 8;
/// Keys end where sentinels would make a link overflow 32 bits.
const KEY_MAX: u32 = u32::MAX - 8;

/// Bits of the state byte.
const LIST_BITS: u8 = 0b0000_0111;
const UNREAD: u8 = 0b0000_1000;
const COUNT_BITS: u8 = 0b0011_0000;
const COUNT_SHIFT: u32 = 4;
/// Largest value of the use counter.
pub(crate) const COUNT_MAX: u8 = COUNT_BITS >> COUNT_SHIFT;
/// Set when the list that the key was last evicted from is `SECOND`.
const HOME_SECOND: u8 = 0b0100_0000;

#[derive(Clone, Copy, Debug)]
struct Node {
    younger: u32,
    older: u32,
}

/// The lists of one policy, and the state byte of each key.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Sentinels first; the node of key k is at k + `LISTS_MAX`. A sentinel's `older` is the list's head (youngest).
    nodes: Vec<Node>,
    tags: Vec<u8>,
    lens: [usize; LISTS_MAX],
    /// Keys that may be resident at once, where the owner asks for a bound.
    capacity: usize,
    /// How many keys aside belong to `FIRST` and to `SECOND`.
    aside: [usize; 2],
}

#[expect(clippy::cast_possible_truncation, reason = "KEY_MAX is asserted where a key enters")]
const fn node_of(key: Key) -> u32 {
    key.0 + LISTS_MAX as u32
}

impl Lists {
    #[expect(clippy::cast_possible_truncation, reason = "eight sentinels")]
    pub(crate) fn new() -> Self {
        let nodes = (0..LISTS_MAX as u32).map(|s| Node { younger: s, older: s }).collect();
        Self { nodes, tags: Vec::new(), lens: [0; LISTS_MAX], capacity: usize::MAX, aside: [0; 2] }
    }

    /// The same for a policy of at most `capacity` resident keys, at least one and fewer than 2^32.
    pub(crate) fn for_cache(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache has room for a block");
        assert!(u32::try_from(capacity).is_ok(), "keys are 32 bits wide");
        Self { capacity, ..Self::new() }
    }
    /// Keys that may be resident at once.
    #[inline]
    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes room for the keys `0..keys`.
    #[inline]
    pub(crate) fn grow(&mut self, keys: usize) {
        if keys > self.tags.len() {
            self.grow_to(keys);
        }
    }
    #[cold]
    fn grow_to(&mut self, keys: usize) {
        assert!(keys <= KEY_MAX as usize, "keys fit in 32 bits");
        self.tags.resize(keys, NONE);
        self.nodes.resize(keys + LISTS_MAX, Node { younger: 0, older: 0 });
    }

    #[inline]
    pub(crate) fn list_of(&self, key: Key) -> ListId {
        self.tags.get(key.index()).map_or(NONE, |tag| tag & LIST_BITS)
    }
    #[inline]
    pub(crate) fn is_resident(&self, key: Key) -> bool {
        (ASIDE..=SECOND).contains(&self.list_of(key))
    }
    #[inline]
    pub(crate) fn len(&self, list: ListId) -> usize {
        self.lens[list as usize]
    }
    /// Keys of `FIRST` or `SECOND`, those set aside included.
    #[inline]
    pub(crate) fn len_with_aside(&self, list: ListId) -> usize {
        self.lens[list as usize] + self.aside[(list - FIRST) as usize]
    }
    /// Resident keys.
    #[inline]
    pub(crate) fn resident(&self) -> usize {
        self.lens[ASIDE as usize] + self.lens[FIRST as usize] + self.lens[SECOND as usize]
    }

    #[inline]
    pub(crate) fn is_unread(&self, key: Key) -> bool {
        self.tags[key.index()] & UNREAD != 0
    }
    /// Clears the mark of a prefetched key; whether it was set.
    #[inline]
    pub(crate) fn take_unread(&mut self, key: Key) -> bool {
        let tag = &mut self.tags[key.index()];
        let unread = *tag & UNREAD != 0;
        *tag &= !UNREAD;
        unread
    }
    #[inline]
    pub(crate) fn count(&self, key: Key) -> u8 {
        (self.tags[key.index()] & COUNT_BITS) >> COUNT_SHIFT
    }
    #[inline]
    pub(crate) fn set_count(&mut self, key: Key, count: u8) {
        let tag = &mut self.tags[key.index()];
        *tag = *tag & !COUNT_BITS | count.min(COUNT_MAX) << COUNT_SHIFT;
    }
    /// Gives an unlinked key a fresh state: `state` is no list that has members.
    pub(crate) fn set_state(&mut self, key: Key, state: ListId, unread: bool) {
        self.tags[key.index()] = state | if unread { UNREAD } else { 0 };
    }

    /// A key that is not resident is on its way in: it is in no list, and a prefetched one is unread.
    #[inline]
    pub(crate) fn enter(&mut self, key: Key, unread: bool) {
        self.grow(key.index() + 1);
        debug_assert!(!self.is_resident(key), "a resident key is hit, not admitted");
        self.set_state(key, NONE, unread);
    }

    /// Links an unlinked key at the young end of `list`.
    #[inline]
    pub(crate) fn push_young(&mut self, list: ListId, key: Key) {
        let node = node_of(key);
        let sentinel = usize::from(list);
        let head = self.nodes[sentinel].older;
        self.nodes[node as usize] = Node { younger: u32::from(list), older: head };
        self.nodes[head as usize].younger = node;
        self.nodes[sentinel].older = node;
        self.lens[sentinel] += 1;
        let tag = &mut self.tags[key.index()];
        *tag = *tag & !LIST_BITS | list;
    }
    /// Takes a linked key out of its list; the rest of its state stays.
    #[inline]
    pub(crate) fn unlink(&mut self, key: Key) {
        let tag = &mut self.tags[key.index()];
        let list = *tag & LIST_BITS;
        debug_assert!(list != NONE, "a linked key");
        if list == ASIDE {
            self.aside[usize::from(*tag & HOME_SECOND != 0)] -= 1;
        }
        *tag &= !LIST_BITS;
        self.lens[usize::from(list)] -= 1;
        let Node { younger, older } = self.nodes[node_of(key) as usize];
        self.nodes[younger as usize].older = older;
        self.nodes[older as usize].younger = younger;
    }
    /// Moves a key of `list` to its young end.
    #[inline]
    pub(crate) fn refresh(&mut self, list: ListId, key: Key) {
        let node = node_of(key);
        let sentinel = usize::from(list);
        let head = self.nodes[sentinel].older;
        if head == node {
            return;
        }
        let Node { younger, older } = self.nodes[node as usize];
        self.nodes[younger as usize].older = older;
        self.nodes[older as usize].younger = younger;
        self.nodes[node as usize] = Node { younger: u32::from(list), older: head };
        self.nodes[head as usize].younger = node;
        self.nodes[sentinel].older = node;
    }

    #[expect(clippy::cast_possible_truncation, reason = "eight sentinels")]
    fn key_at(node: u32) -> Option<Key> {
        node.checked_sub(LISTS_MAX as u32).map(Key)
    }
    /// The oldest key of `list`.
    #[inline]
    pub(crate) fn oldest(&self, list: ListId) -> Option<Key> {
        Self::key_at(self.nodes[usize::from(list)].younger)
    }
    /// The key inserted next after `key` in its list, if there is one.
    #[inline]
    pub(crate) fn younger(&self, key: Key) -> Option<Key> {
        Self::key_at(self.nodes[node_of(key) as usize].younger)
    }

    /// Takes a resident key out of `FIRST` or `SECOND` as a victim, so that `set_aside` can take it back.
    #[inline]
    pub(crate) fn take_victim(&mut self, key: Key) {
        let second = self.list_of(key) == SECOND;
        self.unlink(key);
        let tag = &mut self.tags[key.index()];
        *tag = *tag & !HOME_SECOND | if second { HOME_SECOND } else { 0 };
    }
    /// Makes the last victim resident again, out of reach until `settle`.
    pub(crate) fn set_aside(&mut self, key: Key) {
        debug_assert!(!self.is_resident(key), "only a victim can be put back");
        if self.list_of(key) != NONE {
            self.unlink(key);
        }
        self.aside[usize::from(self.tags[key.index()] & HOME_SECOND != 0)] += 1;
        self.push_young(ASIDE, key);
    }
    /// Brings the keys set aside back to the young ends of their lists, in the order in which they were refused.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.lens[usize::from(ASIDE)] != 0 {
            self.settle_all();
        }
    }
    #[cold]
    fn settle_all(&mut self) {
        while let Some(key) = self.oldest(ASIDE) {
            let home = if self.tags[key.index()] & HOME_SECOND == 0 { FIRST } else { SECOND };
            self.unlink(key);
            self.push_young(home, key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leave_a_list_oldest_first_and_refreshing_makes_young() {
        let mut lists = Lists::new();
        lists.grow(3);
        for k in 0..3 {
            lists.push_young(FIRST, Key(k));
        }
        lists.refresh(FIRST, Key(0));
        let mut order = Vec::new();
        while let Some(key) = lists.oldest(FIRST) {
            lists.unlink(key);
            order.push(key.0);
        }
        assert_eq!(order, [1, 2, 0]);
        assert_eq!(lists.resident(), 0);
    }

    #[test]
    fn refused_victims_come_back_young_in_their_own_lists() {
        let mut lists = Lists::new();
        lists.grow(4);
        for (list, k) in [(FIRST, 0), (SECOND, 1), (FIRST, 2), (SECOND, 3)] {
            lists.push_young(list, Key(k));
        }
        for k in [0, 1] {
            lists.take_victim(Key(k));
            lists.set_aside(Key(k));
        }
        assert_eq!((lists.len(FIRST), lists.len_with_aside(FIRST), lists.resident()), (1, 2, 4));
        lists.settle();
        assert_eq!((lists.oldest(FIRST), lists.oldest(SECOND)), (Some(Key(2)), Some(Key(3))));
        assert_eq!((lists.younger(Key(2)), lists.younger(Key(3))), (Some(Key(0)), Some(Key(1))));
    }
}
