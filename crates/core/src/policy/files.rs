//! A bounded table of what a policy remembers of each file, marker or other thing that has a number.
//!
//! Linux keeps its read-ahead state in the open file and so need not count files; a policy has to. The table holds at
//! most `max` entries. When it is full, a hand goes round over the entries and throws out the first that was not
//! looked up since the hand passed it last (second chance), so that one pass over many files does not push out those
//! that are read all the time:
//!
//! ```text
//!   entries  | a* | b  | c* | d* |      * looked up since the hand passed
//!              ^ hand: spares a, takes b
//! ```
//!
//! It does nothing else: values are not compared, and the order of hashing reaches no decision, because the map is
//! only looked up. After it has grown to `max` entries once, it allocates no more.

use crate::hash::NumberMap;
use alloc::vec::Vec;

/// Most files followed at once, by every scheme that follows files. 65,536: what a busy machine has open, at some
/// 10 MiB of memory.
pub const FILES_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Entry<V> {
    key: u64,
    /// Whether it is in the map; a removed one waits in `free`.
    live: bool,
    /// Looked up since the hand passed.
    used: bool,
    value: V,
}

/// Values by number, at most `max` of them.
#[derive(Clone, Debug)]
pub struct Table<V> {
    max: usize,
    places: NumberMap<u32>,
    entries: Vec<Entry<V>>,
    free: Vec<u32>,
    hand: usize,
}

impl<V: Copy> Table<V> {
    /// An empty table for at most `max` entries.
    ///
    /// # Panics
    /// If that is none, or more than 32 bits can number.
    #[must_use]
    pub fn new(max: usize) -> Self {
        assert!(
            max > 0 && u32::try_from(max).is_ok(),
            "a table has room for at least one and at most 2^32 entries"
        );
        Self { max, places: NumberMap::default(), entries: Vec::new(), free: Vec::new(), hand: 0 }
    }
    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }
    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
    /// The value of `key`, if it is known.
    pub fn get(&mut self, key: u64) -> Option<&mut V> {
        let place = *self.places.get(&key)?;
        let entry = &mut self.entries[place as usize];
        entry.used = true;
        Some(&mut entry.value)
    }
    /// The value of `key`; `fresh` if it was not known.
    pub fn entry(&mut self, key: u64, fresh: impl FnOnce() -> V) -> &mut V {
        let place = match self.places.get(&key) {
            Some(&place) => place as usize,
            None => self.admit(key, fresh()),
        };
        let entry = &mut self.entries[place];
        entry.used = true;
        &mut entry.value
    }
    /// Forgets `key`.
    pub fn remove(&mut self, key: u64) -> Option<V> {
        let place = self.places.remove(&key)?;
        let entry = &mut self.entries[place as usize];
        entry.live = false;
        self.free.push(place);
        Some(entry.value)
    }

    /// Finds a place for a key that is not in the table.
    fn admit(&mut self, key: u64, value: V) -> usize {
        let entry = Entry { key, live: true, used: true, value };
        let place = if let Some(place) = self.free.pop() {
            place as usize
        } else if self.entries.len() < self.max {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            self.evict()
        };
        self.entries[place] = entry;
        #[expect(clippy::cast_possible_truncation, reason = "below `max`, which fits")]
        self.places.insert(key, place as u32);
        place
    }

    /// Throws out the first entry that the hand finds not looked up since it passed. Only called when all are live.
    fn evict(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[place];
            if !core::mem::take(&mut entry.used) {
                entry.live = false;
                self.places.remove(&entry.key);
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_forgets_what_was_not_looked_up() {
        let mut table = Table::new(3);
        for key in 0..3 {
            *table.entry(key, || 0) = key * 10;
        }
        table.entry(3, || 30);
        assert_eq!((table.get(0).copied(), table.len()), (None, 3), "all were new; the hand took the first");
        assert_eq!(table.get(2).copied(), Some(20));
        table.entry(4, || 40);
        assert_eq!(table.get(1), None, "1 was not looked up since the hand passed, 2 and 3 were");
        assert_eq!((table.get(2).copied(), table.get(3).copied()), (Some(20), Some(30)));
    }

    #[test]
    fn a_removed_entry_is_gone_and_its_place_is_used_again() {
        let mut table = Table::new(2);
        table.entry(1, || 'a');
        table.entry(2, || 'b');
        assert_eq!((table.remove(1), table.remove(1), table.len()), (Some('a'), None, 1));
        table.entry(3, || 'c');
        assert_eq!([1, 2, 3].map(|key| table.get(key).copied()), [None, Some('b'), Some('c')]);
        assert_eq!((table.len(), table.is_empty()), (2, false));
    }

    #[test]
    fn a_known_key_keeps_its_value() {
        let mut table = Table::new(2);
        *table.entry(7, || 1) += 1;
        assert_eq!(*table.entry(7, || 100), 2);
    }

    #[test]
    fn entries_never_exceed_the_maximum() {
        let mut table = Table::new(16);
        for key in 0..1_000_u64 {
            table.entry(key * 31 % 97, || key);
            if key % 5 == 0 {
                table.remove(key % 97);
            }
            assert!(table.len() <= 16 && table.entries.len() <= 16);
        }
    }
}
