//! The tracks that are in the cache, in two lists, with what SARC keeps of each.
//!
//! A track is [`Tracks::track_blocks`] blocks, and is here as long as one block of it is. Its place in SEQ or RANDOM, and
//! whether it lies in the bottom of RANDOM, is kept by the two-list structure that [`crate::policy::asp::Tiers`] already
//! is: SEQ takes the place of its upper list and RANDOM that of its lower one. Entries are reused, so there are never
//! more of them than blocks in the cache.
//!
//! ```text
//!   not here ── first block comes ──▶ SEQ or RANDOM ── a sequential read covers it ──▶ SEQ ── last block leaves ──▶ not here
//! ```

use crate::cache::{Cache, LineId};
use crate::hash::NumberMap;
use crate::policy::asp::{Tier, Tiers};
use crate::units::Block;
use alloc::vec::Vec;

/// Most blocks of a track: a bit each in [`Track::here`].
pub const TRACK_BLOCKS_MAX: u64 = 64;
/// No track.
const NIL: u32 = u32::MAX;

/// The list of sequential tracks.
pub const SEQ: Tier = Tier::Up;
/// The list of the others.
pub const RANDOM: Tier = Tier::Down;

/// What is kept of one track.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Track {
    /// Number: block / blocks of a track.
    pub number: u64,
    /// A bit for each block that is here.
    pub here: u64,
    /// Tracks in a row up to this one, at most the threshold; 0 until it is asked for.
    pub counter: u8,
    /// When it was put at the young end, in steps of the lists.
    pub stamp: u64,
    /// A hit on it has the group after this block read.
    pub trigger: Option<u64>,
}

/// All tracks that are here.
#[derive(Clone, Debug)]
pub struct Tracks {
    track_blocks: u64,
    tracks: Vec<Track>,
    free: Vec<u32>,
    map: NumberMap<u32>,
    tiers: Tiers,
    /// The track of each line.
    of_line: Vec<u32>,
    clock: u64,
    seq_blocks: u64,
    random_blocks: u64,
}

const fn id(index: u32) -> LineId {
    LineId(index)
}

impl Tracks {
    /// No track is here. The bottom of RANDOM has `bottom` tracks.
    #[must_use]
    pub fn new(track_blocks: u64, bottom: u64) -> Self {
        Self {
            track_blocks: track_blocks.clamp(1, TRACK_BLOCKS_MAX),
            tracks: Vec::new(),
            free: Vec::new(),
            map: NumberMap::default(),
            tiers: Tiers::new(bottom.max(1)),
            of_line: Vec::new(),
            clock: 0,
            seq_blocks: 0,
            random_blocks: 0,
        }
    }
    /// Blocks of a track.
    #[must_use]
    pub const fn track_blocks(&self) -> u64 {
        self.track_blocks
    }
    /// The number of the track that `block` lies in.
    #[must_use]
    pub const fn number(&self, block: u64) -> u64 {
        block / self.track_blocks
    }
    /// The track with this number, if it is here.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<u32> {
        self.map.get(&number).copied()
    }
    /// The track of a line that is here.
    #[must_use]
    pub fn of_line(&self, line: LineId) -> Option<u32> {
        self.of_line.get(line.index()).copied().filter(|&index| index != NIL)
    }
    /// What is kept of a track.
    #[must_use]
    pub fn get(&self, index: u32) -> &Track {
        &self.tracks[index as usize]
    }
    /// The same, to change.
    pub fn get_mut(&mut self, index: u32) -> &mut Track {
        &mut self.tracks[index as usize]
    }
    /// Blocks in SEQ and in RANDOM.
    #[must_use]
    pub const fn blocks(&self) -> (u64, u64) {
        (self.seq_blocks, self.random_blocks)
    }
    /// Tracks in SEQ and in RANDOM.
    #[must_use]
    pub const fn lens(&self) -> (u64, u64) {
        (self.tiers.up_len(), self.tiers.down_len())
    }
    /// Tracks that the bottom of RANDOM should have.
    #[must_use]
    pub const fn bottom(&self) -> u64 {
        self.tiers.bottom()
    }
    /// Blocks in the bottom of RANDOM, at least one.
    #[must_use]
    pub fn bottom_blocks(&self) -> u64 {
        self.tiers.alpha_counts().1.max(1)
    }
    /// The list of a track.
    #[must_use]
    pub fn place(&self, index: u32) -> Tier {
        self.tiers.place(id(index))
    }
    /// Whether it lies in the bottom of RANDOM.
    #[must_use]
    pub fn in_bottom(&self, index: u32) -> bool {
        self.place(index) == RANDOM && self.tiers.in_gb(id(index))
    }
    /// The oldest track of a list.
    #[must_use]
    pub fn oldest(&self, place: Tier) -> Option<u32> {
        let oldest = if place == SEQ { self.tiers.up_oldest() } else { self.tiers.oldest() };
        oldest.map(|line| line.0).filter(|&index| self.place(index) == place)
    }
    /// Puts a track that is here at the young end of a list.
    pub fn to_mru(&mut self, index: u32, place: Tier) {
        let blocks = u64::from(self.get(index).here.count_ones());
        *self.sum(self.place(index)) -= blocks;
        *self.sum(place) += blocks;
        self.tiers.to_mru(id(index), place);
        self.clock += 1;
        self.tracks[index as usize].stamp = self.clock;
    }
    fn sum(&mut self, place: Tier) -> &mut u64 {
        if place == SEQ { &mut self.seq_blocks } else { &mut self.random_blocks }
    }

    /// A block comes: its track is at the young end of `place` then, or of SEQ where it is there already. Nothing
    /// changes for a block that was here.
    pub fn insert(&mut self, line: LineId, block: u64, place: Tier, counter: u8) {
        if self.of_line.len() <= line.index() {
            self.of_line.resize(line.index() + 1, NIL);
        }
        if self.of_line[line.index()] != NIL {
            return;
        }
        let number = self.number(block);
        let index = self.find(number).unwrap_or_else(|| self.make(number));
        self.of_line[line.index()] = index;
        let now = self.place(index);
        let place = if now == SEQ { SEQ } else { place };
        if now != Tier::Out {
            *self.sum(now) += 1;
        }
        let bit = 1 << (block % self.track_blocks);
        let track = self.get_mut(index);
        track.here |= bit;
        track.counter = track.counter.max(counter);
        self.tiers.count(id(index), 1, 0);
        if now == Tier::Out {
            *self.sum(place) += 1;
            self.tiers.to_mru(id(index), place);
            self.clock += 1;
            self.get_mut(index).stamp = self.clock;
        } else {
            self.to_mru(index, place);
        }
    }

    fn make(&mut self, number: u64) -> u32 {
        let track = Track { number, ..Track::default() };
        let index = if let Some(index) = self.free.pop() {
            self.tracks[index as usize] = track;
            index
        } else {
            self.tracks.push(track);
            u32::try_from(self.tracks.len() - 1).expect("there are no more tracks than lines")
        };
        self.map.insert(number, index);
        index
    }

    /// A block has left, and with the last one its track.
    pub fn remove(&mut self, line: LineId, block: u64) {
        let Some(index) = self.of_line(line) else { return };
        self.of_line[line.index()] = NIL;
        let place = self.place(index);
        *self.sum(place) -= 1;
        self.tiers.count(id(index), -1, 0);
        let bit = 1 << (block % self.track_blocks);
        let track = self.get_mut(index);
        track.here &= !bit;
        let (gone, number) = (track.here == 0, track.number);
        if gone {
            self.tiers.take_out(id(index));
            self.map.remove(&number);
            self.free.push(index);
        }
    }

    /// A line of a track, the first in block order.
    #[must_use]
    pub fn first_line(&self, index: u32, cache: &Cache) -> Option<LineId> {
        let track = self.get(index);
        let block = track.number * self.track_blocks + u64::from(track.here.trailing_zeros());
        cache.find(Block(block))
    }
}
