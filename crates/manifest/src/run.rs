//! Stretches of pages or blocks, with their place in the order of first touch and how often they were seen.
//!
//! A list of runs is sorted by page, its runs do not overlap and none is empty: [`is_proper`] says whether that holds, the
//! decoder refuses what does not, and everything here keeps it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Two stretches side by side become one where their ranks differ by no more than this: what lies together and was
/// touched at nearly the same time is read together anyway, and the list stays short.
const RANK_GAP_MAX: u32 = 16;

/// One stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// First page of 4 KiB (of an export: first block).
    pub first: u64,
    /// How many; never zero.
    pub pages: u64,
    /// Place in the order of first touch, over all entries of the manifest. Several runs may share one.
    pub rank: u32,
    /// Recordings that saw it.
    pub seen: u16,
}

impl Run {
    /// The page behind the last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.first.saturating_add(self.pages)
    }
}

/// Whether a list is sorted, without overlap and without empty runs.
#[must_use]
pub fn is_proper(runs: &[Run]) -> bool {
    runs.iter().all(|run| run.pages > 0 && run.first.checked_add(run.pages).is_some())
        && runs.windows(2).all(|two| two[0].end() <= two[1].first)
}

/// Pages of a list.
#[must_use]
pub fn pages(runs: &[Run]) -> u64 {
    runs.iter().map(|run| run.pages).sum()
}

/// Makes a proper list of stretches in any order that may overlap: the first touch of a page counts.
#[must_use]
pub fn pack(stretches: Vec<Run>) -> Vec<Run> {
    packed(stretches, Some(RANK_GAP_MAX))
}

/// The same for whoever wants to know in which order stretches were read: what lies side by side stays apart.
#[must_use]
pub fn in_order(stretches: Vec<Run>) -> Vec<Run> {
    packed(stretches, None)
}

/// What lies side by side becomes one where ranks differ by no more than `gap`.
fn packed(mut stretches: Vec<Run>, gap: Option<u32>) -> Vec<Run> {
    stretches.retain(|run| run.pages > 0 && run.first.checked_add(run.pages).is_some());
    stretches.sort_by_key(|run| (run.first, run.rank));
    let mut packed: Vec<Run> = Vec::with_capacity(stretches.len());
    // Ends of runs cut off by an earlier one that begins later come back here.
    let mut rest: BinaryHeap<Reverse<(u64, u32, u64, u16)>> = BinaryHeap::new();
    let mut source = stretches.into_iter().peekable();
    loop {
        let from_rest = match (rest.peek(), source.peek()) {
            (None, None) => return packed,
            (Some(Reverse((first, rank, ..))), Some(next)) => (*first, *rank) <= (next.first, next.rank),
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        let run = if from_rest {
            let Some(Reverse((first, rank, pages, seen))) = rest.pop() else { return packed };
            Run { first, pages, rank, seen }
        } else {
            let Some(run) = source.next() else { return packed };
            run
        };
        let back = place(&mut packed, run, gap);
        rest.extend(back.map(|run| Reverse((run.first, run.rank, run.pages, run.seen))));
    }
}

/// Puts a run behind those that are there, which begin no later; what has to be looked at again is handed back.
fn place(packed: &mut Vec<Run>, mut run: Run, gap: Option<u32>) -> Option<Run> {
    let mut back = None;
    if let Some(last) = packed.last_mut()
        && last.end() > run.first
    {
        if run.rank >= last.rank {
            // What overlaps was touched before.
            let end = run.end();
            if end <= last.end() {
                return None;
            }
            let first = last.end();
            return Some(Run { first, pages: end - first, ..run });
        }
        // The newcomer is the earlier touch: the last one is cut, and its end comes again.
        if last.end() > run.end() {
            back = Some(Run { first: run.end(), pages: last.end() - run.end(), ..*last });
        }
        last.pages = run.first - last.first;
        if last.pages == 0 {
            packed.pop();
        }
    }
    if let Some(last) = packed.last_mut()
        && last.end() == run.first
        && last.seen == run.seen
        && gap.is_some_and(|gap| last.rank.abs_diff(run.rank) <= gap)
    {
        run = Run { first: last.first, pages: last.pages + run.pages, rank: last.rank.min(run.rank), ..run };
        packed.pop();
    }
    packed.push(run);
    back
}

/// The pages of both lists: seen as often as in both together, in the newer one's order where it has them.
#[must_use]
pub fn union(old: &[Run], new: &[Run]) -> Vec<Run> {
    let mut bounds: Vec<u64> = old.iter().chain(new).flat_map(|run| [run.first, run.end()]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut out: Vec<Run> = Vec::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    for two in bounds.windows(2) {
        let covering = |runs: &mut std::iter::Peekable<std::slice::Iter<'_, Run>>| {
            while runs.next_if(|run| run.end() <= two[0]).is_some() {}
            runs.peek().filter(|run| run.first <= two[0]).map(|run| **run)
        };
        let (was, is) = (covering(&mut old), covering(&mut new));
        let Some(base) = is.or(was) else { continue };
        let seen = was.map_or(0, |run| run.seen).saturating_add(is.map_or(0, |run| run.seen));
        let run = Run { first: two[0], pages: two[1] - two[0], rank: base.rank, seen };
        match out.last_mut() {
            Some(last) if last.end() == run.first && last.seen == run.seen && last.rank == run.rank => {
                last.pages += run.pages;
            }
            _ => out.push(run),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn run(first: u64, pages: u64, rank: u32, seen: u16) -> Run {
        Run { first, pages, rank, seen }
    }

    #[test]
    fn neighbours_in_place_and_time_become_one() {
        assert_eq!(pack(vec![run(4, 4, 3, 1), run(0, 4, 2, 1)]), [run(0, 8, 2, 1)]);
        assert_eq!(pack(vec![run(4, 4, 99, 1), run(0, 4, 2, 1)]).len(), 2, "touched much later");
        assert_eq!(pack(vec![run(0, 0, 1, 1), run(u64::MAX, 2, 1, 1)]), [], "empty, and beyond the end");
    }

    #[test]
    fn an_early_touch_in_the_middle_of_a_late_stretch_keeps_its_rank() {
        let packed = pack(vec![run(0, 30, 500, 1), run(10, 5, 0, 1)]);
        assert_eq!(packed, [run(0, 10, 500, 1), run(10, 5, 0, 1), run(15, 15, 500, 1)]);
    }

    fn stretches() -> impl Strategy<Value = Vec<Run>> {
        let one = (0..200_u64, 0..20_u64, 0..2_000_u32).prop_map(|(f, p, r)| run(f, p, r * 40, 1));
        proptest::collection::vec(one, 0..30)
    }

    fn by_page(runs: &[Run]) -> BTreeMap<u64, (u32, u16)> {
        runs.iter().flat_map(|r| (r.first..r.end()).map(|page| (page, (r.rank, r.seen)))).collect()
    }

    proptest! {
        #[test]
        fn what_is_kept_in_order_has_the_pages_and_ranks_of_what_is_packed(list in stretches()) {
            let (apart, packed) = (in_order(list.clone()), pack(list.clone()));
            proptest::prop_assert!(is_proper(&apart) && apart.len() >= packed.len());
            proptest::prop_assert_eq!(pages(&apart), pages(&packed));
            // Each page has the rank of its first touch, which merging may make earlier.
            for run in &apart {
                for page in run.first..run.end() {
                    let first = list.iter().filter(|of| (of.first..of.end()).contains(&page)).map(|of| of.rank).min();
                    proptest::prop_assert_eq!(first, Some(run.rank));
                }
            }
        }

        #[test]
        fn packing_keeps_every_page_with_its_first_touch(list in stretches()) {
            let mut naive: BTreeMap<u64, u32> = BTreeMap::new();
            for r in &list {
                for page in r.first..r.end() {
                    let rank = naive.entry(page).or_insert(r.rank);
                    *rank = r.rank.min(*rank);
                }
            }
            let packed = pack(list);
            prop_assert!(is_proper(&packed), "{packed:?}");
            let found: BTreeMap<u64, u32> = by_page(&packed).into_iter().map(|(p, (r, _))| (p, r)).collect();
            prop_assert_eq!(found, naive);
        }

        #[test]
        fn a_union_counts_both_and_orders_by_the_newer(old in stretches(), new in stretches()) {
            let (old, new) = (pack(old), pack(new));
            let both = union(&old, &new);
            prop_assert!(is_proper(&both), "{both:?}");
            let (was, is, all) = (by_page(&old), by_page(&new), by_page(&both));
            for (page, (rank, seen)) in &all {
                let (before, now) = (was.get(page), is.get(page));
                let counted = before.map_or(0, |x| x.1) + now.map_or(0, |x| x.1);
                prop_assert_eq!(*seen, counted);
                prop_assert_eq!(Some(*rank), now.or(before).map(|x| x.0));
            }
            prop_assert!(was.keys().chain(is.keys()).all(|page| all.contains_key(page)));
        }
    }
}
