//! Belady's MIN: what a cache that knows the future must still load.
//!
//! Evict the block whose next use is farthest away. No demand-paging policy of the same size misses less, so MIN
//! is the floor in every table of misses, and the set of its loads is what `bound` charges to the disks. Each
//! position of a sequence is the next use of at most one resident block, so the resident set is a set of
//! *positions*: a reference is a hit exactly if its own position is in the set, and the victim is the set's maximum.
//! The set is a tree of 64-bit words, each bit of a level saying "a word of the level below is not empty": all
//! operations walk at most five or six words, and no block ever has a state of its own. Blocks that are never used again are
//! only counted; they leave first. Every reference is brought into the cache (there is no bypass).

use alloc::vec;
use alloc::vec::Vec;

use super::replacement::Key;

/// Marks "never used again" in the table of next uses. Positions are kept in 32 bits, so that millions of references take tens of
/// megabytes.
const NEVER: u32 = u32::MAX;

/// Which references of a sequence MIN had to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loads {
    words: Vec<u64>,
    references: usize,
    count: u64,
}

impl Loads {
    /// How many references were loads: MIN's misses, first references included.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
    /// How many references the sequence has.
    #[must_use]
    pub const fn references(&self) -> usize {
        self.references
    }
    /// Whether the reference at `position` (from 0) was a load; false past the end.
    #[must_use]
    pub fn is_load(&self, position: usize) -> bool {
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }
    /// Positions of the loads, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.references).filter(|&position| self.is_load(position))
    }
}

/// Runs MIN over `keys`, fewer than 2^32 - 1 of them, with room for `capacity` blocks, at least one. Linear in the length.
///
/// # Panics
/// If `keys` are too many, or `capacity` is 0.
#[must_use]
pub fn min_loads(keys: &[Key], capacity: usize) -> Loads {
    assert!(capacity > 0, "a cache has room for a block");
    let next = next_uses(keys);
    let mut upcoming = PositionSet::new(keys.len());
    let mut loads = Loads { words: vec![0; keys.len().div_ceil(64)], references: keys.len(), count: 0 };
    let (mut resident, mut dead) = (0_usize, 0_usize);
    for (position, &again) in next.iter().enumerate() {
        if !upcoming.remove(position) {
            loads.words[position / 64] |= 1 << (position % 64);
            loads.count += 1;
            if resident < capacity {
                resident += 1;
            } else if dead > 0 {
                dead -= 1;
            } else {
                upcoming.remove_max();
            }
        }
        if again == NEVER {
            dead += 1;
        } else {
            upcoming.insert(again as usize);
        }
    }
    loads
}

/// For each position the next position of the same key, or `NEVER`.
fn next_uses(keys: &[Key]) -> Vec<u32> {
    let positions = u32::try_from(keys.len()).ok().filter(|&positions| positions < NEVER);
    let positions = positions.expect("fewer than 2^32 - 1 references");
    let footprint = keys.iter().map(|key| key.index() + 1).max().unwrap_or(0);
    let mut seen = vec![NEVER; footprint];
    let mut next = vec![NEVER; keys.len()];
    for (position, key) in (0..positions).zip(keys).rev() {
        next[position as usize] = core::mem::replace(&mut seen[key.index()], position);
    }
    next
}

/// A set of positions with a cheap maximum.
#[derive(Debug)]
struct PositionSet {
    /// `levels[0]` has a bit for each position; the last level is one word.
    levels: Vec<Vec<u64>>,
}

impl PositionSet {
    fn new(positions: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = positions.max(1);
        loop {
            let words = bits.div_ceil(64);
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            bits = words;
        }
    }
    fn insert(&mut self, position: usize) {
        let mut at = position;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                return;
            }
            at /= 64;
        }
    }
    /// Whether it was in the set.
    fn remove(&mut self, position: usize) -> bool {
        let mut at = position;
        for (depth, level) in self.levels.iter_mut().enumerate() {
            let word = &mut level[at / 64];
            let bit = 1 << (at % 64);
            if depth == 0 && *word & bit == 0 {
                return false;
            }
            *word &= !bit;
            if *word != 0 {
                return true;
            }
            at /= 64;
        }
        true
    }
    /// Removes the farthest position, if there is one.
    fn remove_max(&mut self) {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            let word = level[at];
            if word == 0 {
                return;
            }
            at = at * 64 + 63 - word.leading_zeros() as usize;
        }
        self.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// MIN as the textbook says it: look ahead for each resident block.
    fn naive(keys: &[u32], capacity: usize) -> Vec<usize> {
        let mut cache: Vec<u32> = Vec::new();
        let mut loads = Vec::new();
        for (position, &key) in keys.iter().enumerate() {
            if cache.contains(&key) {
                continue;
            }
            loads.push(position);
            if cache.len() == capacity {
                let farthest = cache
                    .iter()
                    .enumerate()
                    .max_by_key(|(_, held)| {
                        keys[position..].iter().position(|k| k == *held).unwrap_or(usize::MAX)
                    })
                    .map(|(index, _)| index);
                cache.swap_remove(farthest.expect("a full cache is not empty"));
            }
            cache.push(key);
        }
        loads
    }

    #[test]
    fn a_loop_one_block_too_long_costs_one_load_a_round_and_not_all() {
        let keys: Vec<Key> = (0..12).map(|i| Key(i % 4)).collect();
        let loads = min_loads(&keys, 3);
        assert_eq!(loads.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 6, 9]);
        assert_eq!((loads.count(), loads.references(), loads.is_load(12)), (6, 12, false));
    }

    proptest! {
        #[test]
        fn loads_are_those_of_the_textbook(keys in prop::collection::vec(0_u32..12, 0..200), capacity in 1_usize..9) {
            let dense: Vec<Key> = keys.iter().copied().map(Key).collect();
            let got: Vec<usize> = min_loads(&dense, capacity).iter().collect();
            prop_assert_eq!(got, naive(&keys, capacity));
        }

        #[test]
        fn the_position_set_is_a_set(steps in prop::collection::vec((0_u8..3, 0_usize..9000), 1..300)) {
            let mut set = PositionSet::new(9000);
            let mut model = BTreeMap::new();
            for (what, position) in steps {
                match what {
                    0 => { set.insert(position); model.insert(position, ()); }
                    1 => prop_assert_eq!(set.remove(position), model.remove(&position).is_some()),
                    _ => {
                        set.remove_max();
                        let farthest = model.pop_last();
                        if let Some((position, ())) = farthest { prop_assert!(!set.remove(position)); }
                    }
                }
            }
        }
    }
}
