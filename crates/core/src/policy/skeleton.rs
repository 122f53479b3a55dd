//! `next`: the skeleton of a scheme, and the example of docs/first-scheme.md. A miss behind the last read reads on.
//!
//! ```text
//!   read 6 ─▶ read 7: missed, and 6 was read just before ─▶ 8 to 15 are wished with it
//! ```
//!
//! It does nothing for reads that do not go on where the last one of the same file ended, for writes, and at the end of a
//! file. Source: none, it is here to be copied. Compiled for tests alone, so no registry lists it.

use super::{Lookup, Plan, Policy, When, World};
use crate::access::{Access, Context, Op};
use crate::row::{Layer, Make, Param, Role, Row};
use crate::units::Extent;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "next",
    layer: Layer::Host,
    role: Role::Prefetch,
    about: "Reads on behind a miss that follows the last read.",
    source: "docs/first-scheme.md",
    params: &[Param::bytes("ahead", 32 << 10, "What is read ahead at a time.")],
    make: Make::Policy(|values, _shape| Box::new(Next::new(values.blocks("ahead")))),
    ..Row::PLAIN
};

/// What the last read was.
#[derive(Debug)]
pub struct Next {
    ahead: u64,
    last: Option<(Context, u64)>,
    wished: u64,
}

impl Next {
    /// Reads so many blocks ahead.
    #[must_use]
    pub const fn new(ahead: u64) -> Self {
        Self { ahead, last: None, wished: 0 }
    }
}

impl Policy for Next {
    fn on_access(&mut self, access: &Access, lookup: &Lookup<'_>, _world: &World<'_>, plan: &mut Plan) {
        if access.op == Op::Write {
            return;
        }
        let last = self.last.replace((access.context, access.extent.end()));
        if last == Some((access.context, access.extent.start.0)) && lookup.any_miss() {
            let ahead = Extent::new(access.extent.end(), self.ahead).intersect(access.within);
            plan.fetch(ahead, When::WithDemand);
            self.wished += ahead.blocks;
        }
    }
    fn hears_left(&mut self) -> bool {
        false
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "a gauge for a report")]
        out.push(("next_wished_blocks", self.wished as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rig::Rig;
    use crate::row::{LayerShape, Values};

    #[test]
    fn a_read_that_goes_on_reads_ahead_and_what_is_here_does_not() {
        let mut rig = Rig::new(Next::new(8), 256);
        assert_eq!(rig.read(0, 1), [(0, 1)]);
        assert_eq!(rig.read(1, 1), [(1, 9)], "1 is missed, 2 to 9 come with it");
        assert_eq!(rig.read(2, 1), []);
        assert_eq!(rig.read(100, 1), [(100, 1)]);
        assert_eq!(rig.read_of(101, 1, Extent::new(101, 4)), [(101, 1)], "another file");
        assert_eq!(rig.policy().wished, 8);
    }

    #[test]
    fn its_row_makes_it_with_its_defaults() {
        let shape =
            LayerShape { cache_blocks: 256, strip_blocks: 4, stripe_strips: 1, disks: 1, heads: true };
        let Make::Policy(make) = ROW.make else { panic!("a policy") };
        assert!(!make(&Values::usual(&ROW), &shape).hears_left());
    }
}
