//! Which write is the last to want a run of blocks: an index by interval, so that whoever comes next finds in the logarithm of
//! the runs whom it has to wait for.
//!
//! A write waits only for the last ones before it, each of which waits for those before itself. So however many writes want one
//! block, each has one to wait for, and one that waits for it.

use forerun_core::units::Extent;
use std::collections::BTreeMap;

/// Runs of blocks that do not overlap, by their first block: where they end, and whose they are.
#[derive(Debug, Default)]
pub(super) struct Claims(BTreeMap<u64, (u64, usize)>);

impl Claims {
    /// `extent` is wanted by `who`. Returns those who were the last to want parts of it, each once.
    pub(super) fn take(&mut self, extent: Extent, who: usize) -> Vec<usize> {
        let (start, end) = (extent.start.0, extent.end());
        if let Some((&first, &(last, whose))) = self.0.range(..start).next_back()
            && last > start
        {
            self.0.insert(first, (start, whose));
            self.0.insert(start, (last, whose));
        }
        let within: Vec<_> =
            self.0.range(start..end).map(|(&first, &(last, whose))| (first, last, whose)).collect();
        let mut before = Vec::with_capacity(within.len());
        for (first, last, whose) in within {
            self.0.remove(&first);
            if last > end {
                self.0.insert(end, (last, whose));
            }
            before.push(whose);
        }
        self.0.insert(start, (end, who));
        before.sort_unstable();
        before.dedup();
        before
    }

    /// `who` wants nothing of its `extent` any more.
    pub(super) fn give_back(&mut self, extent: Extent, who: usize) {
        let own = self.0.range(extent.start.0..extent.end()).filter(|(_, (_, whose))| *whose == who);
        for first in own.map(|(&first, _)| first).collect::<Vec<_>>() {
            self.0.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_waits_for_the_last_of_each_run() {
        let mut claims = Claims::default();
        assert!(claims.take(Extent::new(0, 10), 0).is_empty());
        assert_eq!(claims.take(Extent::new(5, 2), 1), [0]);
        assert_eq!(claims.take(Extent::new(6, 8), 2), [0, 1]);
        assert_eq!(claims.take(Extent::new(0, 20), 3), [0, 1, 2]);
        assert_eq!(claims.take(Extent::new(19, 5), 4), [3]);
        claims.give_back(Extent::new(0, 20), 3);
        assert_eq!(claims.take(Extent::new(0, 30), 5), [4], "what was given back is nobody's");
        claims.give_back(Extent::new(0, 30), 5);
        assert!(claims.0.is_empty());
    }
}
