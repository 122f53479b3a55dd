//! Where runs are, by the region in which they begin: a table of as many places as there are runs to be found, a few bits each.
//!
//! ```text
//!   region of 64 KiB ─▶ a row of eight: the newest run of the regions that share it, the one before, …
//! ```
//!
//! A row that is full forgets its oldest. What stands there is believed by nobody before he has looked at the run itself.

use super::bits::{bits, get, put};
use crate::hash::SPREAD;
use crate::units::Extent;
use alloc::vec;
use alloc::vec::Vec;

/// Entries of a row.
const ROW: usize = 8;
/// log2 of the blocks of a region, 64 KiB.
const REGION_BITS: u32 = 4;

/// A table of rows.
#[derive(Clone, Debug)]
pub(super) struct Index {
    words: Vec<u64>,
    rows: u64,
    width: u32,
}

impl Index {
    /// Bits of an entry that is one of so many numbers.
    pub(super) const fn width(numbers: u64) -> u32 {
        bits(numbers) // and one more, for none
    }
    /// With room for so many entries at least, each one of so many numbers.
    pub(super) fn new(entries: u64, numbers: u64) -> Self {
        let (rows, width) = (entries.div_ceil(ROW as u64).max(1), Self::width(numbers));
        let bits = rows * ROW as u64 * u64::from(width);
        Self { words: vec![u64::MAX; bits.div_ceil(u64::from(u64::BITS)) as usize], rows, width }
    }
    /// Bytes that it takes.
    pub(super) const fn bytes(&self) -> u64 {
        (self.words.capacity() * size_of::<u64>()) as u64
    }
    const fn none(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.width)
    }
    /// The bit at which the row of a run begins.
    const fn row(&self, run: Extent) -> usize {
        let region = run.start.0 >> REGION_BITS;
        let row = ((region.wrapping_mul(SPREAD) >> 32) * self.rows) >> 32;
        row as usize * ROW * self.width as usize
    }
    fn entry(&self, row: usize, at: usize) -> u64 {
        get(&self.words, row + at * self.width as usize, self.width)
    }
    fn set(&mut self, row: usize, at: usize, number: u64) {
        put(&mut self.words, row + at * self.width as usize, self.width, number);
    }
    /// The numbers of runs that may begin where this one does, newest first.
    pub(super) fn find(&self, run: Extent) -> impl Iterator<Item = u64> + '_ {
        let (row, none) = (self.row(run), self.none());
        (0..ROW).map(move |at| self.entry(row, at)).take_while(move |&number| number != none)
    }
    /// One more.
    pub(super) fn add(&mut self, run: Extent, number: u64) {
        let row = self.row(run);
        for at in (1..ROW).rev() {
            self.set(row, at, self.entry(row, at - 1));
        }
        self.set(row, 0, number);
    }
    /// One fewer, if it is there.
    pub(super) fn remove(&mut self, run: Extent, number: u64) {
        let row = self.row(run);
        let Some(found) = (0..ROW).find(|&at| self.entry(row, at) == number) else { return };
        for at in found..ROW - 1 {
            self.set(row, at, self.entry(row, at + 1));
        }
        self.set(row, ROW - 1, self.none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(index: &Index, start: u64) -> Vec<u64> {
        index.find(Extent::new(start, 1)).collect()
    }

    #[test]
    fn the_newest_is_found_first_and_what_was_taken_out_is_not() {
        let mut index = Index::new(8, 100);
        for number in [7, 0, 99] {
            index.add(Extent::new(32, 4), number);
        }
        assert_eq!(find(&index, 47), [99, 0, 7], "of one region");
        index.remove(Extent::new(32, 4), 0);
        index.remove(Extent::new(32, 4), 5);
        assert_eq!(find(&index, 32), [99, 7]);
    }

    #[test]
    fn a_full_row_forgets_its_oldest() {
        let mut index = Index::new(8, 100);
        (0..20).for_each(|number| index.add(Extent::new(0, 1), number));
        assert_eq!(find(&index, 0), [19, 18, 17, 16, 15, 14, 13, 12]);
    }

    #[test]
    fn regions_are_spread_over_all_rows_and_the_bytes_are_as_many_as_entries_take() {
        let mut index = Index::new(4_096, 4_096);
        (0..4_096).for_each(|number| index.add(Extent::new(number << REGION_BITS, 1), number));
        let known =
            (0..4_096).filter(|&number| find(&index, number << REGION_BITS).contains(&number)).count();
        assert!(known > 3_600, "{known}");
        assert_eq!(index.bytes(), 4_096 * 13 / 8);
    }
}
