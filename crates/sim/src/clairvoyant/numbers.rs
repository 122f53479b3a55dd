//! Blocks by dense numbers, in the order in which they first appear: what the tables of both references are indexed by.
//!
//! Traces of millions of reads touch millions of blocks, and both references number all of them. A hash map of block and number takes
//! 17 bytes a place and up to 40 a block; here a place holds the number alone, and the block is looked up in the list that exists anyway.

use forerun_core::hash::NumberMap;
use forerun_core::units::Block;
use std::hash::BuildHasher;

/// A place that nothing is in.
const EMPTY: u32 = u32::MAX;
/// Places at first.
const PLACES_MIN: usize = 64;

/// Numbers, each in as many bytes as the largest needs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
}

impl Default for Column {
    fn default() -> Self {
        Self::Two(Vec::new())
    }
}

impl Column {
    fn push(&mut self, value: u64) {
        match self {
            Self::Two(list) => match u16::try_from(value) {
                Ok(value) => return list.push(value),
                Err(_) => *self = Self::Four(list.iter().map(|&value| value.into()).collect()),
            },
            Self::Four(list) => match u32::try_from(value) {
                Ok(value) => return list.push(value),
                Err(_) => *self = Self::Eight(list.iter().map(|&value| value.into()).collect()),
            },
            Self::Eight(list) => return list.push(value),
        }
        self.push(value);
    }

    fn len(&self) -> usize {
        match self {
            Self::Two(list) => list.len(),
            Self::Four(list) => list.len(),
            Self::Eight(list) => list.len(),
        }
    }

    fn get(&self, at: usize) -> u64 {
        match self {
            Self::Two(list) => list[at].into(),
            Self::Four(list) => list[at].into(),
            Self::Eight(list) => list[at],
        }
    }

    /// How many bytes its numbers take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let each = match self {
            Self::Two(_) => 2,
            Self::Four(_) => 4,
            Self::Eight(_) => 8,
        };
        each * self.len()
    }
}

/// Numbers of blocks, below 2^31 of them.
#[derive(Clone, Default)]
pub(super) struct Numbers {
    /// Per number its block.
    blocks: Column,
    /// By hash, the nearest free place behind it; a power of two of places, or none at all.
    places: Vec<u32>,
}

impl Numbers {
    /// Most blocks that are numbered: a bit of a word of 32 is left for others.
    pub(super) const MAX: u32 = 1 << 31;

    /// How many blocks have a number.
    pub(super) fn len(&self) -> u32 {
        // Fewer than MAX, which `intern` asserts.
        self.blocks.len() as u32
    }

    /// The block of a number.
    pub(super) fn block(&self, number: u32) -> Block {
        Block(self.blocks.get(number as usize))
    }

    /// The number of a block, if it has one.
    pub(super) fn number(&self, block: Block) -> Option<u32> {
        let number = *self.places.get(self.place(block)?)?;
        (number != EMPTY).then_some(number)
    }

    /// The number of a block, the next one if it has none.
    ///
    /// # Panics
    /// At [`Self::MAX`] blocks: 8 TiB.
    pub(super) fn intern(&mut self, block: Block) -> u32 {
        // At most three places in four are taken.
        if (self.blocks.len() + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        let place = self.place(block).expect("there are places");
        if self.places[place] == EMPTY {
            let next = self.len();
            assert!(next < Self::MAX, "fewer than 2^31 blocks are ever touched");
            self.blocks.push(block.0);
            self.places[place] = next;
        }
        self.places[place]
    }

    /// Where a block is, or would be.
    fn place(&self, block: Block) -> Option<usize> {
        let last = self.places.len().checked_sub(1)?;
        let hash = NumberMap::<()>::default().hasher().hash_one(block.0);
        // Masked at once.
        let mut place = hash as usize & last;
        loop {
            match self.places[place] {
                EMPTY => return Some(place),
                number if self.blocks.get(number as usize) == block.0 => return Some(place),
                _ => place = (place + 1) & last,
            }
        }
    }

    /// Twice the places. The old ones go first: the list of blocks is enough to make them anew.
    fn grow(&mut self) {
        let places = (2 * self.places.len()).max(PLACES_MIN);
        self.places = Vec::new();
        self.places = vec![EMPTY; places];
        for number in 0..self.len() {
            let place = self.place(self.block(number)).expect("there are places");
            self.places[place] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn numbers_are_given_in_the_order_of_first_appearance(
            blocks in prop::collection::vec(prop_oneof![0_u64..300, 0_u64..1 << 40], 0..600),
        ) {
            let (mut numbers, mut known) = (Numbers::default(), BTreeMap::new());
            for block in blocks {
                let next = known.len() as u32;
                prop_assert_eq!(numbers.number(Block(block)), known.get(&block).copied());
                let expected = *known.entry(block).or_insert(next);
                prop_assert_eq!(numbers.intern(Block(block)), expected);
                prop_assert_eq!(numbers.block(expected), Block(block));
            }
            prop_assert_eq!(numbers.len() as usize, known.len());
        }
    }

    #[test]
    fn a_block_of_a_disk_takes_at_most_fifteen_bytes() {
        let mut numbers = Numbers::default();
        (0..1_000_000_u64).for_each(|at| {
            numbers.intern(Block(at * 37 % (1 << 31)));
        });
        let bytes = numbers.blocks.bytes() + 4 * numbers.places.len();
        assert!(bytes <= 15 * 1_000_000, "{bytes}");
    }
}
