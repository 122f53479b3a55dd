//! The TaP table: addresses at which somebody is expected to miss next, in least recently used order.
//!
//! An address comes in two ways. Behind a miss, or behind what was read ahead, the next block is *expected*: a miss there
//! is a stream. And a block that was read ahead and left unread is *flagged*: a miss there is a reader who came too late,
//! so the prefetch cache was too small. Detection thus needs no history in the cache, only twenty-odd bytes an address.
//!
//! ```text
//!   not here ── expected, or flagged ──▶ here ── a miss on it, or the oldest of a full table ──▶ not here
//! ```
//!
//! Source: TaP (Li, Varki, Bhatia and Merchant, FAST 2008); algorithms.md 4.3.

use crate::hash::NumberMap;
use crate::retention::list::{FIRST as QUEUE, Lists};
use crate::retention::replacement::Key;
use alloc::vec::Vec;
use hashbrown::hash_map::Entry as MapEntry;

/// Bound of the entries whatever the parameter says: with their links and the map, 40 MiB.
pub const ENTRIES_LIMIT: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
struct Entry {
    block: u64,
    flagged: bool,
}

/// Expected addresses, never more than given.
#[derive(Clone, Debug)]
pub struct Table {
    max: usize,
    entries: Vec<Entry>,
    /// How many of them are flagged.
    flagged: usize,
    free: Vec<u32>,
    map: NumberMap<u32>,
    order: Lists,
}

impl Table {
    /// Empty, for at most `max` addresses, at least one.
    #[must_use]
    pub fn new(max: u64) -> Self {
        let max = max.clamp(1, ENTRIES_LIMIT) as usize;
        let (entries, free) = (Vec::new(), Vec::new());
        Self { max, entries, flagged: 0, free, map: NumberMap::default(), order: Lists::new() }
    }
    /// Addresses in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }
    /// Whether no address is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }
    /// Somebody may miss on `block` next: it becomes the youngest. A flag that it has stays.
    pub fn expect(&mut self, block: u64) {
        self.put(block, false);
    }
    /// `block` was read ahead and left unread: it becomes the youngest.
    pub fn flag(&mut self, block: u64) {
        self.put(block, true);
    }
    /// A miss on `block`: whether it was expected, and if so whether it was flagged. It is not expected any more.
    pub fn take(&mut self, block: u64) -> Option<bool> {
        let index = self.map.remove(&block)?;
        self.order.unlink(Key(index));
        self.free.push(index);
        let flagged = self.entries[index as usize].flagged;
        self.flagged -= usize::from(flagged);
        Some(flagged)
    }
    /// `block` is in the cache again: that it once left too early is over.
    pub fn unflag(&mut self, block: u64) {
        if self.flagged > 0 && self.map.get(&block).is_some_and(|&index| self.entries[index as usize].flagged)
        {
            self.take(block);
        }
    }

    fn put(&mut self, block: u64, flagged: bool) {
        if self.map.len() == self.max
            && !self.map.contains_key(&block)
            && let Some(oldest) = self.order.oldest(QUEUE)
        {
            self.take(self.entries[oldest.index()].block);
        }
        let new = match self.map.entry(block) {
            MapEntry::Occupied(known) => {
                let index = *known.get();
                let known = &mut self.entries[index as usize].flagged;
                self.flagged += usize::from(flagged && !*known);
                *known |= flagged;
                return self.order.refresh(QUEUE, Key(index));
            }
            MapEntry::Vacant(new) => new,
        };
        self.flagged += usize::from(flagged);
        let entry = Entry { block, flagged };
        let index = if let Some(index) = self.free.pop() {
            self.entries[index as usize] = entry;
            index
        } else {
            self.entries.push(entry);
            self.order.grow(self.entries.len());
            u32::try_from(self.entries.len() - 1).expect("ENTRIES_LIMIT is far below")
        };
        new.insert(index);
        self.order.push_young(QUEUE, Key(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same with a list that is searched from end to end: the youngest last.
    #[derive(Default)]
    struct Naive(Vec<(u64, bool)>);

    impl Naive {
        fn take(&mut self, block: u64) -> Option<bool> {
            let at = self.0.iter().position(|entry| entry.0 == block)?;
            Some(self.0.remove(at).1)
        }
        fn put(&mut self, block: u64, flagged: bool, max: usize) {
            let flagged = self.take(block).unwrap_or(false) || flagged;
            if self.0.len() == max {
                self.0.remove(0);
            }
            self.0.push((block, flagged));
        }
    }

    proptest! {
        #[test]
        fn it_answers_as_a_list_searched_from_end_to_end(
            max in 1usize..12, steps in proptest::collection::vec((0u8..4, 0u64..24), 1..300),
        ) {
            let (mut table, mut naive) = (Table::new(max as u64), Naive::default());
            for (kind, block) in steps {
                match kind {
                    0 => {
                        table.expect(block);
                        naive.put(block, false, max);
                    }
                    1 => {
                        table.flag(block);
                        naive.put(block, true, max);
                    }
                    2 => prop_assert_eq!(table.take(block), naive.take(block)),
                    _ => {
                        table.unflag(block);
                        naive.0.retain(|&entry| entry != (block, true));
                    }
                }
                prop_assert_eq!(table.len(), naive.0.len());
                prop_assert_eq!(table.is_empty(), naive.0.is_empty());
                prop_assert!(table.entries.len() <= max, "entries are reused");
            }
        }
    }
}
