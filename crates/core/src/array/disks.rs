//! A set of member disks: those that have failed, or are to be avoided.
//!
//! Plans take such a set by reference at every call, so the host's view of its members is never copied into the
//! geometry and never stale. It is a fixed bitmap: no allocation, and iteration is in disk order.

use super::DISKS_MAX;
use crate::units::Disk;

const WORDS: usize = DISKS_MAX as usize / 64;

/// A set of member disks with numbers below [`DISKS_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiskSet {
    words: [u64; WORDS],
}

impl DiskSet {
    /// No disk.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    fn word(disk: Disk) -> (usize, u64) {
        assert!(disk.0 < DISKS_MAX, "a disk's number is below DISKS_MAX");
        (usize::from(disk.0 / 64), 1 << (disk.0 % 64))
    }
    /// Adds `disk`; says whether it was not in yet.
    ///
    /// # Panics
    /// When its number is not below [`DISKS_MAX`].
    pub fn insert(&mut self, disk: Disk) -> bool {
        let (word, bit) = Self::word(disk);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }
    /// Takes `disk` out; says whether it was in.
    ///
    /// # Panics
    /// When its number is not below [`DISKS_MAX`].
    pub fn remove(&mut self, disk: Disk) -> bool {
        let (word, bit) = Self::word(disk);
        let was = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        was
    }
    /// Whether `disk` is in.
    ///
    /// # Panics
    /// When its number is not below [`DISKS_MAX`].
    #[must_use]
    pub fn contains(&self, disk: Disk) -> bool {
        let (word, bit) = Self::word(disk);
        self.words[word] & bit != 0
    }
    /// Whether none is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == [0; WORDS]
    }
    /// How many are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }
    /// Those in it, by number.
    pub fn iter(&self) -> impl Iterator<Item = Disk> + '_ {
        (0..DISKS_MAX).map(Disk).filter(|&disk| self.contains(disk))
    }
}

impl FromIterator<Disk> for DiskSet {
    fn from_iter<I: IntoIterator<Item = Disk>>(disks: I) -> Self {
        let mut set = Self::EMPTY;
        for disk in disks {
            set.insert(disk);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_set_holds_what_was_put_in_and_lists_it_in_order() {
        let mut set: DiskSet = [Disk(DISKS_MAX - 1), Disk(0), Disk(32)].into_iter().collect();
        assert!(!set.insert(Disk(32)));
        assert_eq!(set.iter().collect::<Vec<_>>(), [Disk(0), Disk(32), Disk(DISKS_MAX - 1)]);
        assert!(set.remove(Disk(0)) && !set.remove(Disk(0)));
        assert_eq!(set.len(), 2);
        assert!(!set.contains(Disk(0)) && set.contains(Disk(DISKS_MAX - 1)) && !set.is_empty());
    }
}
