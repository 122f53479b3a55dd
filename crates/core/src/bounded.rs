//! A bounded table of what is known of things that have a number: files, readers, regions, markers.
//!
//! Linux keeps its read-ahead state in the open file and so need not count files; a policy has to. A map leads from a key to
//! its place among at most `max` entries. When all places are taken, one key makes room for the next, and which one is the table's
//! rule:
//!
//! * [`LeastRecent`]: the one not used for longest, by a list through the places in order of use (eight bytes an entry).
//! * [`SecondChance`]: a hand goes round over the entries and throws out the first that was not used since the hand passed it
//!   last, so that one pass over many files does not push out those that are read all the time. A use sets one bit:
//!
//! ```text
//!   entries  | a* | b  | c* | d* |      * used since the hand passed
//!              ^ hand: spares a, takes b
//! ```
//!
//! It does nothing else: values are not compared, and the order of hashing reaches no decision, because the map is only looked
//! up. After it has grown to `max` entries once, it allocates no more.

use crate::hash::NumberMap;
use alloc::vec::Vec;
use core::fmt::Debug;

/// Most files followed at once, by every scheme that follows files. 65,536: what a busy machine has open, at some
/// 10 MiB of memory.
pub const FILES_MAX: usize = 65_536;

/// "No place" in a link.
const NOWHERE: u32 = u32::MAX;

/// One key with its value, and what the rule notes of it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<V, M> {
    key: u64,
    mark: M,
    value: V,
}

/// Which key makes room when a table is full.
pub trait Rule: Clone + Debug + Default {
    /// What it notes of each key.
    type Mark: Clone + Copy + Debug + Default;
    /// A key has come to this place.
    fn enter<V>(&mut self, entries: &mut [Entry<V, Self::Mark>], place: u32);
    /// The key at this place is used.
    fn touch<V>(&mut self, entries: &mut [Entry<V, Self::Mark>], place: u32);
    /// The key at this place goes because it was asked to.
    fn leave<V>(&mut self, entries: &mut [Entry<V, Self::Mark>], place: u32);
    /// The place of the key that makes room; it has left. Only asked when every place is taken.
    fn make_room<V>(&mut self, entries: &mut [Entry<V, Self::Mark>]) -> u32;
}

/// Values by number, at most so many of them.
#[derive(Clone, Debug)]
pub struct Bounded<V, R: Rule> {
    max: usize,
    places: NumberMap<u32>,
    entries: Vec<Entry<V, R::Mark>>,
    /// Places of keys that were removed.
    free: Vec<u32>,
    rule: R,
}

/// A table in which the key used least recently makes room.
pub type Recent<V> = Bounded<V, LeastRecent>;

impl<V, R: Rule> Bounded<V, R> {
    /// An empty table for at most `max` keys.
    ///
    /// # Panics
    /// If that is none, or more than 2^32 − 2.
    #[must_use]
    pub fn new(max: usize) -> Self {
        assert!((1..NOWHERE as usize).contains(&max), "places are numbered in 32 bits");
        let (places, rule) = (NumberMap::default(), R::default());
        Self { max, places, entries: Vec::new(), free: Vec::new(), rule }
    }
    /// Keys known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether no key is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// The value of a key, which is used now; `fresh` if it was not known.
    pub fn entry(&mut self, key: u64, fresh: impl FnOnce() -> V) -> &mut V {
        let place = match self.places.get(&key) {
            Some(&place) => {
                self.rule.touch(&mut self.entries, place);
                place
            }
            None => self.admit(key, fresh()),
        };
        &mut self.entries[place as usize].value
    }
    /// The value of a key, if it is known, which is used now.
    pub fn get(&mut self, key: u64) -> Option<&mut V> {
        let place = *self.places.get(&key)?;
        self.rule.touch(&mut self.entries, place);
        Some(&mut self.entries[place as usize].value)
    }
    /// The value of a key, if it is known; that is no use of it.
    #[must_use]
    pub fn peek(&self, key: u64) -> Option<&V> {
        self.places.get(&key).map(|&place| &self.entries[place as usize].value)
    }
    /// The same, to change.
    pub fn peek_mut(&mut self, key: u64) -> Option<&mut V> {
        self.places.get(&key).map(|&place| &mut self.entries[place as usize].value)
    }

    /// Finds a place for a key that is not in the table.
    fn admit(&mut self, key: u64, value: V) -> u32 {
        let entry = Entry { key, mark: R::Mark::default(), value };
        let place = if let Some(place) = self.free.pop() {
            self.entries[place as usize] = entry;
            place
        } else if self.entries.len() < self.max {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("bounded by the constructor")
        } else {
            let place = self.rule.make_room(&mut self.entries);
            let old = core::mem::replace(&mut self.entries[place as usize], entry);
            self.places.remove(&old.key);
            place
        };
        self.rule.enter(&mut self.entries, place);
        self.places.insert(key, place);
        place
    }
}

impl<V: Default, R: Rule> Bounded<V, R> {
    /// The value of a key, which is used now; a default one if it was not known.
    pub fn or_default(&mut self, key: u64) -> &mut V {
        self.entry(key, V::default)
    }
}

impl<V: Copy, R: Rule> Bounded<V, R> {
    /// Forgets a key.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let place = self.places.remove(&key)?;
        self.rule.leave(&mut self.entries, place);
        self.free.push(place);
        Some(self.entries[place as usize].value)
    }
}

/// The key used least recently makes room.
#[derive(Clone, Debug)]
pub struct LeastRecent {
    youngest: u32,
    oldest: u32,
}

/// The places of the keys used next after and next before one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Links {
    younger: u32,
    older: u32,
}

impl Default for LeastRecent {
    fn default() -> Self {
        Self { youngest: NOWHERE, oldest: NOWHERE }
    }
}

impl Rule for LeastRecent {
    type Mark = Links;
    fn enter<V>(&mut self, entries: &mut [Entry<V, Links>], place: u32) {
        let older = self.youngest;
        entries[place as usize].mark = Links { younger: NOWHERE, older };
        match older {
            NOWHERE => self.oldest = place,
            _ => entries[older as usize].mark.younger = place,
        }
        self.youngest = place;
    }
    fn touch<V>(&mut self, entries: &mut [Entry<V, Links>], place: u32) {
        if self.youngest != place {
            self.leave(entries, place);
            self.enter(entries, place);
        }
    }
    fn leave<V>(&mut self, entries: &mut [Entry<V, Links>], place: u32) {
        let Links { younger, older } = entries[place as usize].mark;
        match younger {
            NOWHERE => self.youngest = older,
            _ => entries[younger as usize].mark.older = older,
        }
        match older {
            NOWHERE => self.oldest = younger,
            _ => entries[older as usize].mark.younger = younger,
        }
    }
    fn make_room<V>(&mut self, entries: &mut [Entry<V, Links>]) -> u32 {
        let place = self.oldest;
        self.leave(entries, place);
        place
    }
}

/// A key that was used since the hand passed it is spared once.
#[derive(Clone, Debug, Default)]
pub struct SecondChance {
    hand: u32,
}

impl Rule for SecondChance {
    /// Used since the hand passed.
    type Mark = bool;
    fn enter<V>(&mut self, entries: &mut [Entry<V, bool>], place: u32) {
        entries[place as usize].mark = true;
    }
    fn touch<V>(&mut self, entries: &mut [Entry<V, bool>], place: u32) {
        entries[place as usize].mark = true;
    }
    fn leave<V>(&mut self, _: &mut [Entry<V, bool>], _: u32) {}
    fn make_room<V>(&mut self, entries: &mut [Entry<V, bool>]) -> u32 {
        loop {
            let place = self.hand;
            let next = place as usize + 1;
            self.hand = if next == entries.len() { 0 } else { place + 1 };
            if !core::mem::take(&mut entries[place as usize].mark) {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spared<V> = Bounded<V, SecondChance>;

    #[test]
    fn a_full_table_with_a_hand_forgets_what_was_not_used() {
        let mut table = Spared::new(3);
        for key in 0..3 {
            *table.entry(key, || 0) = key * 10;
        }
        table.entry(3, || 30);
        assert_eq!((table.get(0).copied(), table.len()), (None, 3), "all were new; the hand took the first");
        assert_eq!(table.get(2).copied(), Some(20));
        table.entry(4, || 40);
        assert_eq!(table.get(1), None, "1 was not used since the hand passed, 2 and 3 were");
        assert_eq!((table.get(2).copied(), table.get(3).copied()), (Some(20), Some(30)));
    }

    #[test]
    fn the_key_used_least_recently_makes_room_and_comes_back_as_new() {
        let mut table: Recent<u32> = Recent::new(3);
        for key in [1, 2, 3, 1, 4] {
            *table.or_default(key) += 1;
        }
        assert_eq!(table.len(), 3);
        assert_eq!([1, 2, 3, 4].map(|key| table.peek(key).copied()), [Some(2), None, Some(1), Some(1)]);
        *table.or_default(2) += 1;
        assert_eq!([1, 2, 3, 4].map(|key| table.peek(key).copied()), [Some(2), Some(1), None, Some(1)]);
    }

    #[test]
    fn a_table_of_one_keeps_the_last_key() {
        let mut table: Recent<u32> = Recent::new(1);
        for key in 0..5 {
            *table.or_default(key) += 1;
        }
        assert_eq!((table.len(), table.peek(4)), (1, Some(&1)));
    }

    #[test]
    fn a_known_key_keeps_its_value() {
        let mut table = Spared::new(2);
        *table.entry(7, || 1) += 1;
        assert_eq!(*table.entry(7, || 100), 2);
    }

    fn a_removed_entry_is_gone_and_its_place_is_used_again<R: Rule>() {
        let mut table: Bounded<char, R> = Bounded::new(2);
        table.entry(1, || 'a');
        table.entry(2, || 'b');
        assert_eq!((table.remove(1), table.remove(1), table.len()), (Some('a'), None, 1));
        table.entry(3, || 'c');
        assert_eq!([1, 2, 3].map(|key| table.peek(key).copied()), [None, Some('b'), Some('c')]);
        assert_eq!((table.len(), table.is_empty()), (2, false));
    }

    fn entries_never_exceed_the_maximum<R: Rule>() {
        let mut table: Bounded<u64, R> = Bounded::new(16);
        for key in 0..1_000_u64 {
            table.entry(key * 31 % 97, || key);
            if key % 5 == 0 {
                table.remove(key % 97);
            }
            assert!(table.len() <= 16 && table.entries.len() <= 16);
        }
    }

    #[test]
    fn both_rules_remove_and_stay_within_the_maximum() {
        a_removed_entry_is_gone_and_its_place_is_used_again::<SecondChance>();
        a_removed_entry_is_gone_and_its_place_is_used_again::<LeastRecent>();
        entries_never_exceed_the_maximum::<SecondChance>();
        entries_never_exceed_the_maximum::<LeastRecent>();
    }

    #[test]
    fn a_removed_key_is_not_asked_to_make_room_and_the_order_of_the_others_stays() {
        let mut table: Recent<u32> = Recent::new(3);
        for key in [1, 2, 3] {
            table.or_default(key);
        }
        table.remove(2);
        for key in [4, 5] {
            table.or_default(key);
        }
        assert_eq!([1, 2, 3, 4, 5].map(|key| table.peek(key).is_some()), [false, false, true, true, true]);
    }
}
