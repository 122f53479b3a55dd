//! A table of reusable entries, so that nothing is allocated per access once it has grown to the depth that the host keeps
//! outstanding: what accesses, fetches, member commands and destage jobs lie in.

use alloc::vec::Vec;

/// A table of reusable entries.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// A free entry; the caller fills it and may find the buffers of an earlier one in it.
    pub(super) fn take(&mut self) -> u32 {
        if let Some(at) = self.free.pop() {
            return at;
        }
        let at = u32::try_from(self.entries.len()).expect("outstanding work is bounded by the host");
        self.entries.push(T::default());
        at
    }
    pub(super) fn give_back(&mut self, at: u32) {
        self.free.push(at);
    }
    /// Entries ever made, free ones included.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).expect("entries are numbered in 32 bits")
    }
    /// The entries in use, in the order of their numbers.
    pub(super) fn alive(&self) -> Vec<u32> {
        let mut free = Vec::new();
        free.resize(self.entries.len(), false);
        self.free.iter().for_each(|&at| free[at as usize] = true);
        (0..self.len()).filter(|&at| !free[at as usize]).collect()
    }
    pub(super) fn live(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, at: u32) -> &T {
        &self.entries[at as usize]
    }
}
impl<T> core::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.entries[at as usize]
    }
}
