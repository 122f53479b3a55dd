//! Which blocks requests touch, kept while the requests come: as ranges, of each place a list in order.
//!
//! A range that goes on where the last one ended makes that one longer; others wait until there are many, and are then sorted and merged
//! into the lists at once. So a request of a gigabyte takes as much as one of a block, a file that is read in order takes one range,
//! and blocks that all lie apart take 16 bytes each and what waits beside them.

/// Ranges that wait, at least, before they are merged; more where there are many: an eighth of those that are kept.
const WAITING_MIN: usize = 1 << 16;
/// So that merging takes a bounded share of the time: one in this many waits.
const WAITING_ONE_IN: usize = 8;

/// From a first block to before an end.
type Range = (u64, u64);

/// Blocks of several places, which are numbered from 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    /// Of each place: ranges in order, of which no two touch.
    places: Vec<Vec<Range>>,
    /// How many these are.
    ranges: usize,
    /// Ranges that came last, by place.
    waiting: Vec<(u32, Range)>,
}

impl Footprint {
    /// Adds the blocks from `start` to before `end`.
    pub(crate) fn add(&mut self, place: u32, (start, end): Range) {
        if let Some((last_place, last)) = self.waiting.last_mut()
            && *last_place == place
            && (last.0..=last.1).contains(&start)
        {
            last.1 = last.1.max(end);
            return;
        }
        self.waiting.push((place, (start, end)));
        if self.waiting.len() >= WAITING_MIN.max(self.ranges / WAITING_ONE_IN) {
            self.settle();
        }
    }

    /// Adds all that another one has.
    pub(crate) fn add_all(&mut self, mut other: Self) {
        self.settle();
        other.settle();
        for (place, ranges) in other.places.into_iter().enumerate() {
            self.merge(place, &ranges);
        }
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&mut self) -> u64 {
        self.settle();
        self.places.iter().flatten().fold(0, |sum, &(start, end)| sum.saturating_add(end - start))
    }

    /// Merges those that wait.
    fn settle(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable();
        let mut ranges: Vec<Range> = Vec::new();
        for of_place in waiting.chunk_by(|one, next| one.0 == next.0) {
            ranges.clear();
            ranges.extend(of_place.iter().map(|&(_, range)| range));
            join(&mut ranges, 0);
            self.merge(of_place[0].0 as usize, &ranges);
        }
        waiting.clear();
        self.waiting = waiting;
    }

    /// Merges ranges that are in order, from the last one on: only what lies behind the first of them is moved.
    fn merge(&mut self, place: usize, more: &[Range]) {
        if self.places.len() <= place {
            self.places.resize(place + 1, Vec::new());
        }
        let kept = &mut self.places[place];
        let (mut old, mut new) = (kept.len(), more.len());
        self.ranges -= old;
        // No more than that: of many ranges, those that double would be most of the memory.
        kept.reserve_exact(new);
        kept.resize(old + new, (0, 0));
        while new > 0 {
            let from_old = old > 0 && kept[old - 1] > more[new - 1];
            kept[old + new - 1] = if from_old { kept[old - 1] } else { more[new - 1] };
            if from_old {
                old -= 1;
            } else {
                new -= 1;
            }
        }
        join(kept, old.saturating_sub(1));
        self.ranges += kept.len();
    }
}

/// Makes one of ranges that touch; they are in order, and those before `from` touch no other.
fn join(ranges: &mut Vec<Range>, from: usize) {
    let mut last = from;
    for at in from + 1..ranges.len() {
        let (start, end) = ranges[at];
        if start <= ranges[last].1 {
            ranges[last].1 = ranges[last].1.max(end);
        } else {
            last += 1;
            ranges[last] = (start, end);
        }
    }
    ranges.truncate(last + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_block_counts_once_however_ranges_come(
            ranges in prop::collection::vec((0..3_u32, 0..200_u64, 1..9_u64, any::<bool>()), 0..300),
            pause in 1..20_usize,
        ) {
            let (mut all, mut some) = (Footprint::default(), Footprint::default());
            let (mut known, mut known_of_some) = (BTreeSet::new(), BTreeSet::new());
            for (number, &(place, start, blocks, in_some)) in ranges.iter().enumerate() {
                let known = if in_some { &mut known_of_some } else { &mut known };
                known.extend((start..start + blocks).map(|block| (place, block)));
                let footprint = if in_some { &mut some } else { &mut all };
                footprint.add(place, (start, start + blocks));
                if number % pause == 0 {
                    footprint.settle();
                }
            }
            prop_assert_eq!(some.blocks(), known_of_some.len() as u64);
            prop_assert_eq!(all.blocks(), known.len() as u64);
            known.extend(known_of_some);
            all.add_all(some);
            prop_assert_eq!(all.blocks(), known.len() as u64);
        }
    }

    #[test]
    fn what_is_read_in_order_is_one_range_and_what_lies_apart_takes_few_bytes_each() {
        let mut footprint = Footprint::default();
        (0..1_000_000).for_each(|at| footprint.add(0, (at, at + 2)));
        assert_eq!((footprint.waiting.len(), footprint.blocks(), footprint.ranges), (1, 1_000_001, 1));
        let mut apart = Footprint::default();
        (0..1_000_000_u64).for_each(|at| {
            let start = at * 999_983 % 1_000_000 * 2;
            apart.add(0, (start, start + 1));
        });
        let waiting = apart.waiting.capacity() * size_of::<(u32, Range)>();
        assert_eq!(apart.blocks(), 1_000_000);
        let bytes = apart.places[0].capacity() * size_of::<Range>() + waiting;
        assert!(bytes <= 24 * 1_000_000, "{bytes}");
    }
}
