//! `strip`: strip prefetching, ASP paper section 2.1.
//!
//! On a miss, all blocks of the strip are read in the one command that the miss needs anyway, on one disk only. So a
//! prefetch never splits over two disks (independency loss), and neighbours of what was asked for come for the price of
//! their transfer. It does nothing for blocks that are already here, and it is never wrong to be late: it always is
//! in the same command. It wastes memory and transfer when neighbours are not read; [`super::asp`] answers that.

use super::{Lookup, Plan, Policy, When, World};
use crate::access::{Access, Op};
use crate::row::{Layer, Make, Role, Row};
use crate::units::Block;
use alloc::boxed::Box;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "strip",
    layer: Layer::Array,
    role: Role::Prefetch,
    about: "Strip prefetching: a miss reads its whole strip, from one disk.",
    source: "ASP paper (Baek and Park, FAST 2008), section 2.1",
    make: Make::Policy(|_, _| Box::new(Strip)),
    ..Row::PLAIN
};

/// Widens every miss to its strip.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strip;

impl Policy for Strip {
    fn hears_left(&mut self) -> bool {
        false
    }
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Read {
            for strip in missing_strips(access, lookup, world) {
                plan.fetch(world.array.strip_extent(world.array.strip_of(strip)), When::WithDemand);
            }
        }
    }
}

/// The first missing block of each strip in which a block is missing.
pub fn missing_strips<'a>(
    access: &'a Access,
    lookup: &'a Lookup<'_>,
    world: &'a World<'_>,
) -> impl Iterator<Item = Block> + 'a {
    let mut last = None;
    access.extent.iter().zip(lookup.outcomes).filter_map(move |(block, outcome)| {
        if !outcome.is_miss() {
            return None;
        }
        let strip = world.array.strip_of(block);
        let new = last != Some(strip);
        last = Some(strip);
        new.then_some(block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::WISHES_MAX;
    use crate::policy::rig::Rig;

    #[test]
    fn as_many_strips_as_a_plan_holds_are_widened_and_more_are_counted() {
        let mut rig = Rig::new(Strip, 4_096);
        rig.read(2, 4 * WISHES_MAX as u64 - 3);
        assert_eq!(rig.hand.engine.stats().wishes_dropped, 0, "1 MiB less 12 KiB on strips of 16 KiB");
        let here = |rig: &Rig<Strip>, block| rig.hand.engine.cache().find(Block(block)).is_some();
        assert!(here(&rig, 0) && here(&rig, 1) && here(&rig, 255), "the first and the last strip are whole");
        rig.read(1_026, 4 * WISHES_MAX as u64);
        assert_eq!(rig.hand.engine.stats().wishes_dropped, 1, "the sixty-fifth strip");
        assert!(here(&rig, 1_024) && !here(&rig, 1_282), "its rest is not read");
    }
}
