//! Where the files that an observer watches lie in its volume.
//!
//! A page cache knows (file, block); an engine knows blocks of one volume. A [`FileMap`] gives each file extents of the volume as
//! it grows: the first holds what was seen of it, each further one as much again as the file has, and where the volume goes on free
//! behind the last it is made longer instead. So a file of n blocks lies in few extents, blocks that follow each other in the file do
//! so in the volume, and [`FileMap::within`] tells a policy how far it may read. The volume is numbers only, so what a file has left
//! is not used again: a map over 2^40 blocks outlives its machine. [`FileMap::forget`] says what is to be
//! [`crate::engine::Sight::Gone`].

use crate::hash::NumberMap;
use crate::units::{Block, Extent};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Blocks of the smallest extent: 128 KiB, what a kernel reads ahead by default, so that small files are one extent.
const EXTENT_BLOCKS_MIN: u64 = 32;

/// Why a file has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileMapError {
    /// As many files as may be.
    #[error("{most} files are mapped, which is the most: forget one that is closed")]
    Files {
        /// The bound.
        most: usize,
    },
    /// The volume has been given away.
    #[error("the volume has no {blocks} blocks left: make the map anew over a larger one")]
    Volume {
        /// What was asked for.
        blocks: u64,
    },
}

/// Part of a file, in one run of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// First block of the file.
    first: u64,
    volume: Extent,
}

/// Files over one volume.
#[derive(Debug)]
pub struct FileMap {
    /// Pieces of each file, in file order.
    files: NumberMap<Vec<Piece>>,
    /// File and first block of it, by first block of the volume.
    back: BTreeMap<u64, (u64, Piece)>,
    files_max: usize,
    volume_blocks: u64,
    /// Blocks of the volume given away.
    given: u64,
}

impl FileMap {
    /// Over a volume of so many blocks, for at most `files_max` files at once.
    #[must_use]
    pub fn new(volume_blocks: u64, files_max: usize) -> Self {
        Self { files: NumberMap::default(), back: BTreeMap::new(), files_max, volume_blocks, given: 0 }
    }

    /// Gives a file room for its first `blocks` blocks: as many as it is known to have, or as have been read of it.
    ///
    /// # Errors
    /// [`FileMapError`], with the remedy; nothing has changed then.
    pub fn grow(&mut self, file: u64, blocks: u64) -> Result<(), FileMapError> {
        let known = self.files.get(&file);
        if known.is_none() && self.files.len() == self.files_max {
            return Err(FileMapError::Files { most: self.files_max });
        }
        let last = known.and_then(|pieces| pieces.last()).copied();
        let has = last.map_or(0, |piece| piece.first + piece.volume.blocks);
        if blocks <= has {
            return Ok(());
        }
        let more = (blocks - has).max(has).max(EXTENT_BLOCKS_MIN);
        if self.volume_blocks - self.given < more {
            return Err(FileMapError::Volume { blocks: more });
        }
        let pieces = self.files.entry(file).or_default();
        let piece = match pieces.last_mut().filter(|piece| piece.volume.end() == self.given) {
            Some(last) => {
                last.volume.blocks += more;
                *last
            }
            None => {
                let piece = Piece { first: has, volume: Extent::new(self.given, more) };
                pieces.push(piece);
                piece
            }
        };
        self.given += more;
        self.back.insert(piece.volume.start.0, (file, piece));
        Ok(())
    }

    /// Where blocks of a file lie, run by run in file order. What the file has no room for is left out.
    pub fn places(&self, file: u64, blocks: Extent) -> impl Iterator<Item = Extent> {
        let pieces = self.files.get(&file).map_or(&[][..], Vec::as_slice);
        pieces.iter().filter_map(move |piece| {
            let part = Extent::new(piece.first, piece.volume.blocks).intersect(blocks);
            let start = piece.volume.start.0 + (part.start.0 - piece.first.min(part.start.0));
            (!part.is_empty()).then(|| Extent::new(start, part.blocks))
        })
    }

    /// The run of the volume around a block in which the same file lies: as far as a policy may read ahead.
    #[must_use]
    pub fn within(&self, block: Block) -> Option<Extent> {
        self.piece(block).map(|(_, piece)| piece.volume)
    }

    /// Which file a block of the volume is of, and which block of it.
    #[must_use]
    pub fn file(&self, block: Block) -> Option<(u64, Block)> {
        let (file, piece) = self.piece(block)?;
        Some((file, Block(piece.first + (block.0 - piece.volume.start.0))))
    }

    fn piece(&self, block: Block) -> Option<(u64, Piece)> {
        let (_, &(file, piece)) = self.back.range(..=block.0).next_back()?;
        piece.volume.contains(block).then_some((file, piece))
    }

    /// A file is unmounted, deleted or closed for long: what it had is gone, and its number is free.
    pub fn forget(&mut self, file: u64) -> impl Iterator<Item = Extent> {
        let pieces = self.files.remove(&file).unwrap_or_default();
        for piece in &pieces {
            self.back.remove(&piece.volume.start.0);
        }
        pieces.into_iter().map(|piece| piece.volume)
    }

    /// Files that have room.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_that_grows_alone_stays_in_one_run_and_among_others_in_few() {
        let mut map = FileMap::new(1 << 40, 8);
        for blocks in 1..=1_000 {
            map.grow(1, blocks).expect("room");
        }
        assert_eq!(map.places(1, Extent::new(0, 1_000)).count(), 1);
        for blocks in 1..=1_000 {
            map.grow(2, blocks).expect("room");
            map.grow(3, blocks).expect("room");
        }
        assert!(map.places(2, Extent::new(0, 1_000)).count() <= 6, "each extent doubles the file");
    }

    #[test]
    fn bounds_are_errors_that_name_the_remedy_and_change_nothing() {
        let mut map = FileMap::new(64, 2);
        map.grow(1, 1).expect("room");
        assert_eq!(map.grow(2, 40), Err(FileMapError::Volume { blocks: 40 }));
        assert_eq!(map.files(), 1);
        map.grow(2, 1).expect("room");
        assert_eq!(map.grow(3, 1), Err(FileMapError::Files { most: 2 }));
        assert_eq!(map.forget(1).collect::<Vec<_>>(), [Extent::new(0, 32)]);
        assert_eq!((map.file(Block(3)), map.within(Block(40))), (None, Some(Extent::new(32, 32))));
    }

    proptest! {
        #[test]
        fn every_block_of_a_file_has_one_place_and_the_way_back_finds_it(
            steps in prop::collection::vec((0_u64..5, 1_u64..400, prop::bool::weighted(0.1)), 1..60),
        ) {
            let mut map = FileMap::new(1 << 40, 5);
            let mut sizes = [0_u64; 5];
            for (file, blocks, forgets) in steps {
                if forgets {
                    let had: u64 = map.forget(file).map(|extent| extent.blocks).sum();
                    prop_assert!(had >= sizes[file as usize]);
                    sizes[file as usize] = 0;
                } else {
                    map.grow(file, blocks).expect("room");
                    sizes[file as usize] = sizes[file as usize].max(blocks);
                }
                for (file, &size) in (0..).zip(&sizes) {
                    let mut next = 0;
                    for place in map.places(file, Extent::new(0, size)) {
                        prop_assert!(map.within(place.start).expect("mapped").end() >= place.end());
                        for block in place.iter() {
                            prop_assert_eq!(map.file(block), Some((file, Block(next))));
                            next += 1;
                        }
                    }
                    prop_assert_eq!(next, size);
                }
            }
        }
    }
}
