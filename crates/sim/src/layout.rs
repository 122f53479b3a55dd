//! Where the blocks of files lie on the volume.
//!
//! A page cache addresses files: the simulator gives it one address space in which the files of an input stand end to
//! end, each from a block of its own, and read-ahead there never leaves a file. Devices address places. This module is
//! between the two: `contiguous` (the default) puts every file where its addresses say, so that the two address spaces
//! are one; `fragmented(extent=64KiB,spread=4)` cuts every file into pieces of `extent` and scatters the pieces, in an
//! order that the seed decides, over `spread` times the room that they need. A command of the page cache that crosses
//! pieces becomes several accesses below; a run without a page cache is translated where its programs ask.
//!
//! ```text
//!   page cache   | file a      | file b | file c        |      blocks, end to end
//!                  1   2   3     4   5    6   7   8             pieces of at most `extent`
//!   volume       | 5 |   | 2 | 7 |   | 1 | 8 | 4 | 6 |   | 3 |  slots of `extent`, `spread` times as many as pieces
//! ```
//!
//! Where read-ahead does not know the ends of files (`--file-sizes unknown`), the page cache's files have room behind them
//! ([`Apart`]): what is read beyond an end comes from where the next file lies, and is of no use to it.
//!
//! The last piece of a file may be short; its slot is not shared. Nothing is drawn in advance: a piece's slot is a
//! keyed permutation of its number, so a layout takes no memory beside one number per file.

use crate::random::scramble;
use forerun_core::size::{format_size, parse_size};
use forerun_core::units::{BLOCK_BYTES, Block, Extent};
use forerun_core::words::{did_you_mean, nearest};
use std::fmt;
use std::str::FromStr;

/// Piece of a fragmented file where none is given: 64 KiB.
const EXTENT_BLOCKS: u64 = 16;
/// Times the room needed over which pieces are scattered where it is not given.
const SPREAD: u64 = 1;
/// Most times the room needed: a thousand footprints fill any device.
const SPREAD_MAX: u64 = 1000;
/// Rounds of the permutation; three make a Feistel network a good one, and the fourth costs nothing.
const ROUNDS: u64 = 4;

/// Blocks of room behind each file where read-ahead does not know its end, 4 MiB: more than any window but one that grows
/// to tens of megabytes.
const BEHIND_BLOCKS: u64 = 1024;

/// How files lie, as a spec says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutSpec {
    /// Each file in one piece, one after the other.
    #[default]
    Contiguous,
    /// In pieces, scattered.
    Fragmented {
        /// Blocks of a piece.
        extent_blocks: u64,
        /// The pieces lie in this many times the room that they need.
        spread: u64,
    },
}

/// A layout that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not a layout.
    #[error(
        "`{text}` is not a layout: write contiguous or fragmented(extent=64KiB,spread=1); {why}{}",
        did_you_mean(nearest(text.split('(').next().unwrap_or(text), ["contiguous", "fragmented"]).filter(|word| !text.starts_with(word)))
    )]
    Text {
        /// What was written.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Pieces of this length need more room than there is.
    #[error(
        "{pieces} pieces of {} need {}, and the volume holds {}: use larger or more disks, or a shorter extent",
        format_size(*extent), format_size(pieces.saturating_mul(*extent)), format_size(*capacity)
    )]
    Room {
        /// Pieces of all files.
        pieces: u64,
        /// Bytes of each.
        extent: u64,
        /// Bytes of the volume.
        capacity: u64,
    },
    /// Where requests were wrapped around the volume, there are no files to lay.
    #[error(
        "a fragmented layout needs an input that fits the volume; leave out fit = modulo, or use larger disks"
    )]
    Fitted,
}

impl FromStr for LayoutSpec {
    type Err = LayoutError;
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let wrong = |why| LayoutError::Text { text: text.into(), why };
        if text == "contiguous" {
            return Ok(Self::Contiguous);
        }
        let rest = text.strip_prefix("fragmented").ok_or_else(|| wrong("there are these two"))?;
        let (mut extent_blocks, mut spread) = (EXTENT_BLOCKS, SPREAD);
        if !rest.is_empty() {
            let inside = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            let inside = inside.ok_or_else(|| wrong("parameters stand in brackets"))?;
            for pair in inside.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
                match pair.split_once('=') {
                    Some(("extent", value)) => {
                        let bytes = parse_size(value).map_err(|_| wrong("extent is a size"))?;
                        if bytes == 0 || bytes % BLOCK_BYTES != 0 {
                            return Err(wrong("extent is a multiple of 4KiB"));
                        }
                        extent_blocks = bytes / BLOCK_BYTES;
                    }
                    Some(("spread", value)) => {
                        spread = value.parse().unwrap_or(0);
                        if !(1..=SPREAD_MAX).contains(&spread) {
                            return Err(wrong("spread is a number from 1 to 1000"));
                        }
                    }
                    _ => return Err(wrong("its parameters are extent and spread")),
                }
            }
        }
        Ok(Self::Fragmented { extent_blocks, spread })
    }
}

impl fmt::Display for LayoutSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contiguous => f.write_str("contiguous"),
            Self::Fragmented { extent_blocks, spread } => {
                write!(f, "fragmented(extent={},spread={spread})", format_size(extent_blocks * BLOCK_BYTES))
            }
        }
    }
}

/// What a layout is made for.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// First block of each file in the page cache's address space, ascending. Before the first there is nothing;
    /// an empty list is one file from block 0.
    pub files: &'a [u64],
    /// Blocks that the files take there.
    pub blocks: u64,
    /// Blocks of the volume below.
    pub capacity: u64,
    /// Seed of the scattering.
    pub seed: u64,
}

/// A layout, ready to say where a block lies.
#[derive(Clone, Debug)]
pub enum Placement {
    /// Every block lies at its address.
    Identity,
    /// Pieces in slots.
    Scattered(Scattered),
}

/// Pieces of files in slots of the volume.
#[derive(Clone, Debug)]
pub struct Scattered {
    /// First block of each file, and the number of its first piece; ascending.
    files: Vec<(u64, u64)>,
    extent: u64,
    slots: u64,
    /// Half the bits of the smallest even power of two that holds all slots.
    half_bits: u32,
    key: u64,
    /// Blocks of the upper address space.
    blocks: u64,
}

impl Placement {
    /// The placement of `spec` on `ground`.
    ///
    /// # Errors
    /// [`LayoutError::Room`] when the volume is too small for the pieces.
    pub fn new(spec: LayoutSpec, ground: &Ground<'_>) -> Result<Self, LayoutError> {
        let LayoutSpec::Fragmented { extent_blocks, spread } = spec else {
            return Ok(Self::Identity);
        };
        let starts = if ground.files.is_empty() { &[0][..] } else { ground.files };
        let mut files = Vec::with_capacity(starts.len());
        let mut pieces = 0_u64;
        for (i, &start) in starts.iter().enumerate() {
            let end = starts.get(i + 1).copied().unwrap_or(ground.blocks).max(start);
            files.push((start, pieces));
            pieces += (end - start).div_ceil(extent_blocks);
        }
        let room = ground.capacity / extent_blocks;
        if pieces > room {
            return Err(LayoutError::Room {
                pieces,
                extent: extent_blocks * BLOCK_BYTES,
                capacity: ground.capacity * BLOCK_BYTES,
            });
        }
        let slots = pieces.saturating_mul(spread).min(room).max(1);
        let half_bits = (64 - (slots - 1).leading_zeros()).div_ceil(2).max(1);
        let (key, blocks, extent) = (ground.seed, ground.blocks, extent_blocks);
        Ok(Self::Scattered(Scattered { files, extent, slots, half_bits, key, blocks }))
    }

    /// Blocks of the address space above: of a scattered volume only what files take, since nothing lies elsewhere.
    #[must_use]
    pub const fn blocks_above(&self, capacity: u64) -> u64 {
        match self {
            Self::Identity => capacity,
            Self::Scattered(scattered) => scattered.blocks,
        }
    }

    /// Whether the two address spaces are one.
    #[must_use]
    pub const fn is_identity(&self) -> bool {
        matches!(self, Self::Identity)
    }

    /// Where `block` lies.
    #[must_use]
    pub fn place(&self, block: Block) -> Block {
        match self {
            Self::Identity => block,
            Self::Scattered(scattered) => Block(scattered.piece(block.0).1),
        }
    }

    /// Cuts `extent` where its pieces end: `take` is given each run that lies in one place, as the addresses above
    /// and below. Pieces that happen to lie one behind the other stay one run.
    pub fn cut(&self, extent: Extent, mut take: impl FnMut(Extent, Block)) {
        let Self::Scattered(scattered) = self else {
            take(extent, extent.start);
            return;
        };
        let mut run: Option<(Extent, u64)> = None;
        let mut at = extent.start.0;
        while at < extent.end() {
            let (end, place) = scattered.piece(at);
            let blocks = end.min(extent.end()) - at;
            run = match run {
                Some((above, below)) if below + above.blocks == place => {
                    Some((Extent::new(above.start.0, above.blocks + blocks), below))
                }
                before => {
                    if let Some((above, below)) = before {
                        take(above, Block(below));
                    }
                    Some((Extent::new(at, blocks), place))
                }
            };
            at += blocks;
        }
        if let Some((above, below)) = run {
            take(above, Block(below));
        }
    }
}

/// Files in the page cache's address space with room behind each, for read-ahead that does not know where a file ends.
///
/// Without it what is read beyond an end would be the start of the next file, and in memory when that is opened: a page
/// cache knows blocks by file, and such blocks are of no use to another file, although the device reads what lies there.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    /// First block of each file where files stand end to end, ascending; at least one.
    files: Vec<u64>,
    /// The same with room behind each.
    roomy: Vec<u64>,
    /// Blocks of the volume below.
    capacity: u64,
}

impl Apart {
    pub(crate) fn new(files: Vec<u64>, capacity: u64) -> Self {
        let roomy = (0_u64..).zip(&files).map(|(number, start)| start + number * BEHIND_BLOCKS).collect();
        Self { files, roomy, capacity }
    }
    /// Blocks of the address space with room, above one of `blocks` without.
    pub(crate) const fn blocks(&self, blocks: u64) -> u64 {
        blocks + self.files.len() as u64 * BEHIND_BLOCKS
    }
    /// The same blocks of a file in the address space with room.
    pub(crate) fn above(&self, extent: Extent) -> Extent {
        if extent.is_empty() {
            return extent;
        }
        let number = self.files.partition_point(|&start| start <= extent.start.0).saturating_sub(1);
        Extent::new(extent.start.0 + number as u64 * BEHIND_BLOCKS, extent.blocks)
    }
    /// Cuts `extent` of the address space with room into runs that lie end to end without: addresses above and below.
    pub(crate) fn cut(&self, extent: Extent, mut take: impl FnMut(Extent, Block)) {
        let mut at = extent.start.0;
        while at < extent.end() {
            let after = self.roomy.partition_point(|&start| start <= at);
            let room = after.saturating_sub(1) as u64 * BEHIND_BLOCKS;
            // What is read beyond the volume's end wraps: a device has no blocks there.
            let below = at.saturating_sub(room) % self.capacity;
            let next = self.roomy.get(after).copied().unwrap_or(u64::MAX);
            let end = next.min(extent.end()).min(at + self.capacity - below);
            take(Extent::new(at, end - at), Block(below));
            at = end;
        }
    }
}

impl Scattered {
    /// End of the piece that a block is in, and where the block lies.
    fn piece(&self, block: u64) -> (u64, u64) {
        let after = self.files.partition_point(|&(start, _)| start <= block);
        let (start, first) = self.files[after.saturating_sub(1)];
        let within = block.saturating_sub(start);
        let number = first + within / self.extent;
        let end = start + (within / self.extent + 1) * self.extent;
        let end = self.files.get(after).map_or(end, |&(next, _)| end.min(next));
        (end, self.slot(number) * self.extent + within % self.extent)
    }

    /// The slot of a piece: a Feistel network over a power of two, walked until it falls among the slots.
    fn slot(&self, piece: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut number = piece;
        loop {
            let (mut left, mut right) = (number >> self.half_bits & mask, number & mask);
            for round in 0..ROUNDS {
                let scrambled = scramble(self.key ^ scramble(round << 32 | right)) & mask;
                (left, right) = (right, left ^ scrambled);
            }
            number = left << self.half_bits | right;
            if number < self.slots {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn files_apart_have_room_behind_them_and_lie_where_they_did() {
        let apart = Apart::new(vec![0, 10, 30], 100);
        assert_eq!(apart.blocks(100), 100 + 3 * BEHIND_BLOCKS);
        assert_eq!(apart.above(Extent::new(4, 3)), Extent::new(4, 3));
        assert_eq!(apart.above(Extent::new(12, 3)), Extent::new(12 + BEHIND_BLOCKS, 3));
        let cut = |start: u64, blocks: u64| {
            let mut runs = Vec::new();
            apart.cut(Extent::new(start, blocks), |above, below| {
                runs.push((above.start.0, above.blocks, below.0))
            });
            runs
        };
        assert_eq!(cut(4, 10), [(4, 10, 4)], "beyond the end of the first file lies the second");
        let second = 10 + BEHIND_BLOCKS;
        assert_eq!(cut(second - 2, 4), [(second - 2, 2, (second - 2) % 100), (second, 2, 10)]);
        let third = 30 + 2 * BEHIND_BLOCKS;
        assert_eq!(
            cut(third + 60, 20),
            [(third + 60, 10, 90), (third + 70, 10, 0)],
            "and behind the volume its start"
        );
    }

    proptest! {
        #[test]
        fn every_block_of_a_file_comes_back_to_its_place(starts in prop::collection::btree_set(1_u64..5_000, 1..20)) {
            let files: Vec<u64> = std::iter::once(0).chain(starts).collect();
            let apart = Apart::new(files.clone(), 6_000);
            for block in 0..5_500 {
                let above = apart.above(Extent::new(block, 1));
                let mut places = Vec::new();
                apart.cut(above, |_, below| places.push(below.0));
                prop_assert_eq!(places, vec![block]);
            }
        }
    }

    fn scattered(files: &[u64], blocks: u64, extent: u64, spread: u64) -> Placement {
        let spec = LayoutSpec::Fragmented { extent_blocks: extent, spread };
        let ground = Ground { files, blocks, capacity: 1 << 20, seed: 7 };
        Placement::new(spec, &ground).expect("there is room")
    }

    fn runs(placement: &Placement, extent: Extent) -> Vec<(Extent, u64)> {
        let mut runs = Vec::new();
        placement.cut(extent, |above, below| runs.push((above, below.0)));
        runs
    }

    #[test]
    fn layouts_are_read_as_they_are_printed() {
        for text in ["contiguous", "fragmented(extent=64KiB,spread=1)", "fragmented(extent=4KiB,spread=40)"] {
            assert_eq!(text.parse::<LayoutSpec>().expect(text).to_string(), text);
        }
        assert_eq!("fragmented".parse(), Ok(LayoutSpec::Fragmented { extent_blocks: 16, spread: 1 }));
        for text in
            ["", "compact", "fragmented(", "fragmented(extent=5)", "fragmented(spread=0)", "fragmented(x)"]
        {
            let told = text.parse::<LayoutSpec>().expect_err(text).to_string();
            assert!(told.contains("contiguous or fragmented"), "{told}");
        }
    }

    #[test]
    fn a_contiguous_file_lies_at_its_addresses() {
        let ground = Ground { files: &[0, 8], blocks: 20, capacity: 100, seed: 1 };
        let placement = Placement::new(LayoutSpec::Contiguous, &ground).expect("always");
        assert_eq!(runs(&placement, Extent::new(3, 9)), [(Extent::new(3, 9), 3)]);
        assert_eq!((placement.blocks_above(100), placement.place(Block(5))), (100, Block(5)));
    }

    #[test]
    fn a_request_is_cut_at_pieces_and_at_files_and_keeps_its_order_within_them() {
        let placement = scattered(&[0, 10], 30, 4, 50);
        let cut = runs(&placement, Extent::new(2, 12));
        let above: Vec<_> = cut.iter().map(|(above, _)| (above.start.0, above.blocks)).collect();
        assert_eq!(above, [(2, 2), (4, 4), (8, 2), (10, 4)]);
        assert!(cut.iter().all(|&(above, below)| placement.place(above.start) == Block(below)));
        assert_eq!(cut[0].1 % 4, 2, "within a piece nothing moves");
    }

    #[test]
    fn pieces_beyond_the_volume_are_an_error_that_names_both_sizes() {
        let files: Vec<u64> = (0..100).collect();
        let ground = Ground { files: &files, blocks: 100, capacity: 1000, seed: 1 };
        let spec = LayoutSpec::Fragmented { extent_blocks: 16, spread: 1 };
        let told = Placement::new(spec, &ground).expect_err("1600 blocks").to_string();
        assert!(told.contains("6400KiB") && told.contains("4000KiB"), "{told}");
    }

    proptest! {
        #[test]
        fn no_two_blocks_share_a_place_and_none_leaves_its_room(
            sizes in proptest::collection::vec(0_u64..40, 1..30),
            extent in 1_u64..20, spread in 1_u64..5, seed in any::<u64>(),
        ) {
            let mut files = Vec::new();
            let mut blocks = 0;
            for size in &sizes {
                files.push(blocks);
                blocks += size;
            }
            let spec = LayoutSpec::Fragmented { extent_blocks: extent, spread };
            let ground = Ground { files: &files, blocks, capacity: 1 << 16, seed };
            let placement = Placement::new(spec, &ground).unwrap();
            let places: BTreeSet<u64> = (0..blocks).map(|block| placement.place(Block(block)).0).collect();
            prop_assert_eq!(places.len() as u64, blocks);
            let pieces: u64 = sizes.iter().map(|size| size.div_ceil(extent)).sum();
            prop_assert!(places.last().is_none_or(|&last| last < pieces * spread * extent));
            let again: u64 = runs(&placement, Extent::new(0, blocks)).iter().map(|(above, _)| above.blocks).sum();
            prop_assert_eq!(again, blocks);
        }
    }
}
