//! Who is whose where two schemes share a layer: a share of the readers, or of the places ([`crate::policy::split`]).

use crate::access::Context;
use crate::units::Block;

/// Blocks of a region, 64 MiB: much longer than what a scheme reads ahead, and short enough that a volume has many.
pub const REGION_BLOCKS: u64 = 16_384;
/// Into so many groups regions are sorted, half of them for each arm: as many as an interval needs to be narrow.
pub const GROUPS: u64 = 64;
/// Which arm an access belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// By who reads; another seed shares them out otherwise.
    Clients {
        /// Any number.
        seed: u64,
    },
    /// By the region in which is read.
    Regions,
}

impl Share {
    /// The group of an access, of which all are for one arm: the reader's number, or that of the regions that are counted together.
    #[must_use]
    pub fn group(self, context: Context, first: Block) -> u64 {
        match self {
            Self::Clients { .. } => context.process(),
            Self::Regions => mixed(first.0 / REGION_BLOCKS) % GROUPS,
        }
    }

    /// The arm of a group, 0 or 1.
    #[must_use]
    pub fn arm_of(self, group: u64) -> usize {
        match self {
            Self::Clients { seed } => (mixed(group ^ mixed(seed)) & 1) as usize,
            Self::Regions => (group & 1) as usize,
        }
    }

    /// The arm of an access.
    #[must_use]
    pub fn arm(self, context: Context, first: Block) -> usize {
        self.arm_of(self.group(context, first))
    }
}

/// Numbers that follow one another become numbers that have nothing to do with one another (the finish of SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_has_about_half_and_a_group_is_of_one_arm() {
        for share in [Share::Clients { seed: 0 }, Share::Clients { seed: 7 }, Share::Regions] {
            let mut of_tried = 0;
            for number in 0..1_000 {
                let (context, block) = (Context::new(number, 3), Block(number * REGION_BLOCKS + 17));
                let group = share.group(context, block);
                assert_eq!(share.arm(context, block), share.arm_of(group));
                of_tried += share.arm(context, block);
            }
            assert!((400..600).contains(&of_tried), "{share:?}: {of_tried}");
        }
        let of = |seed| {
            (0..64).map(|client| Share::Clients { seed }.arm_of(client)).collect::<alloc::vec::Vec<_>>()
        };
        assert_ne!(of(1), of(2), "another seed shares them out otherwise");
    }
}
