//! A bounded table of what is known of the most recently seen keys: files, streams, readers.
//!
//! A map from key to place, and a doubly linked list through the places in order of use. When the table is full, the key
//! not used for longest makes room. Nothing iterates in hash order; a lookup allocates nothing once the table is full.

use crate::hash::NumberMap;
use alloc::vec::Vec;

/// "No place" in a link.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Entry<V> {
    key: u64,
    value: V,
    younger: u32,
    older: u32,
}

/// At most a fixed number of keys with a value each.
#[derive(Clone, Debug)]
pub struct Recent<V> {
    max: usize,
    places: NumberMap<u32>,
    entries: Vec<Entry<V>>,
    youngest: u32,
    oldest: u32,
}

impl<V: Default> Recent<V> {
    /// A table of at most `max` keys.
    ///
    /// # Panics
    /// If that is none, or more than 2^32 − 2.
    #[must_use]
    pub fn new(max: usize) -> Self {
        assert!((1..NOWHERE as usize).contains(&max), "places are numbered in 32 bits");
        let (youngest, oldest) = (NOWHERE, NOWHERE);
        Self { max, places: NumberMap::default(), entries: Vec::new(), youngest, oldest }
    }

    /// The value of a key, which becomes the most recently used; a default one if it was not known. When the table is
    /// full, the key used least recently is forgotten.
    pub fn entry(&mut self, key: u64) -> &mut V {
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None => self.admit(key),
        };
        if self.youngest != place {
            self.unlink(place);
            self.link_young(place);
        }
        &mut self.entries[place as usize].value
    }

    /// The value of a key, if it is known; its age stays.
    #[must_use]
    pub fn peek(&self, key: u64) -> Option<&V> {
        self.places.get(&key).map(|&place| &self.entries[place as usize].value)
    }

    /// The same, to change.
    pub fn peek_mut(&mut self, key: u64) -> Option<&mut V> {
        self.places.get(&key).map(|&place| &mut self.entries[place as usize].value)
    }

    /// Keys known.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }
    /// Whether no key is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A place for a new key; it is linked at the old end if it is new, or where the forgotten key was.
    fn admit(&mut self, key: u64) -> u32 {
        let place = if self.entries.len() < self.max {
            let place = u32::try_from(self.entries.len()).expect("bounded by the constructor");
            self.entries.push(Entry { key, value: V::default(), younger: NOWHERE, older: NOWHERE });
            self.link_young(place);
            place
        } else {
            let place = self.oldest;
            let entry = &mut self.entries[place as usize];
            self.places.remove(&entry.key);
            entry.key = key;
            entry.value = V::default();
            place
        };
        self.places.insert(key, place);
        place
    }

    fn link_young(&mut self, place: u32) {
        let older = self.youngest;
        let entry = &mut self.entries[place as usize];
        (entry.younger, entry.older) = (NOWHERE, older);
        match older {
            NOWHERE => self.oldest = place,
            _ => self.entries[older as usize].younger = place,
        }
        self.youngest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Entry { younger, older, .. } = self.entries[place as usize];
        match younger {
            NOWHERE => self.youngest = older,
            _ => self.entries[younger as usize].older = older,
        }
        match older {
            NOWHERE => self.oldest = younger,
            _ => self.entries[older as usize].younger = younger,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_used_least_recently_makes_room_and_comes_back_as_new() {
        let mut table: Recent<u32> = Recent::new(3);
        for key in [1, 2, 3, 1, 4] {
            *table.entry(key) += 1;
        }
        assert_eq!(table.len(), 3);
        assert_eq!([1, 2, 3, 4].map(|key| table.peek(key).copied()), [Some(2), None, Some(1), Some(1)]);
        *table.entry(2) += 1;
        assert_eq!([1, 2, 3, 4].map(|key| table.peek(key).copied()), [Some(2), Some(1), None, Some(1)]);
    }

    #[test]
    fn a_table_of_one_keeps_the_last_key() {
        let mut table: Recent<u32> = Recent::new(1);
        for key in 0..5 {
            *table.entry(key) += 1;
        }
        assert_eq!((table.len(), table.peek(4)), (1, Some(&1)));
    }
}
