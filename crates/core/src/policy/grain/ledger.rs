//! A ledger: what a cache would hold if one grain had always been read. Names only, in the order of use.

use crate::pattern::Recent;
use crate::units::Extent;

/// The grains of a cache that holds so many of them, by recency.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    blocks: u64,
    held: Recent<bool>,
}

impl Ledger {
    /// Of grains of `blocks`, at most `max`.
    pub(super) fn new(blocks: u64, max: usize) -> Self {
        Self { blocks, held: Recent::new(max) }
    }

    /// Blocks of one strip are read. `missed` is told of each command that would be needed: its blocks, and whether it is the first.
    pub(super) fn read(&mut self, run: Extent, mut missed: impl FnMut(u64, bool)) {
        let (mut commands, mut open) = (0_u64, 0_u64);
        for number in run.start.0 / self.blocks..=(run.end() - 1) / self.blocks {
            let held = core::mem::replace(self.held.or_default(number), true);
            if !held {
                open += self.blocks;
            } else if open > 0 {
                missed(core::mem::take(&mut open), commands == 0);
                commands += 1;
            }
        }
        if open > 0 {
            missed(open, commands == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn read(ledger: &mut Ledger, start: u64, blocks: u64) -> Vec<(u64, bool)> {
        let mut commands = Vec::new();
        ledger.read(Extent::new(start, blocks), |blocks, first| commands.push((blocks, first)));
        commands
    }

    #[test]
    fn a_grain_that_is_held_costs_nothing_and_what_is_missing_beside_it_is_one_command() {
        let mut ledger = Ledger::new(8, 4);
        assert_eq!(read(&mut ledger, 3, 2), [(8, true)]);
        assert_eq!(read(&mut ledger, 0, 8), []);
        assert_eq!(read(&mut ledger, 6, 12), [(16, true)], "8 to 23 are not held");
        let mut blocks = Ledger::new(1, 2);
        read(&mut blocks, 5, 1);
        assert_eq!(read(&mut blocks, 4, 3), [(1, true), (1, false)], "around a block that is held");
        read(&mut blocks, 100, 2);
        assert_eq!(read(&mut blocks, 5, 1), [(1, true)], "two others were used since");
    }
}
