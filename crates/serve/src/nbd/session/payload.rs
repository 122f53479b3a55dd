//! The data of a WRITE on its way in: where its next byte goes, in memory that the session was granted.

use crate::nbd::wire::Request;
use crate::planted::{self, Bug};
use forerun_core::units::BLOCK_BYTES;

const BLOCK: usize = BLOCK_BYTES as usize;
/// Blocks of one receive into memory: 1 MiB.
const RECEIVE_BLOCKS: usize = 256;

/// The memory that sessions are granted, by block.
pub trait Memory {
    /// The bytes of a block.
    fn block_mut(&mut self, at: u32) -> &mut [u8];
}

/// Where received bytes go.
#[derive(Debug)]
pub enum Room<'a> {
    /// Here.
    Inbox(&'a mut [u8]),
    /// To `bytes` bytes from the byte `first` of these blocks on.
    Memory {
        /// Blocks of the memory that was granted, as they follow.
        blocks: &'a [u32],
        /// Where in the first of them.
        first: usize,
        /// Most that are taken.
        bytes: usize,
    },
}

/// The data of one WRITE.
#[derive(Debug)]
pub(super) struct Payload {
    request: Request,
    /// Where it goes; none until it was granted.
    memory: Option<Vec<u32>>,
    /// Bytes that are here.
    got: usize,
}

/// A WRITE whose data is here.
pub(super) struct Whole {
    pub(super) request: Request,
    pub(super) memory: Vec<u32>,
}

impl Payload {
    pub(super) const fn new(request: Request) -> Self {
        Self { request, memory: None, got: 0 }
    }

    /// Blocks of memory that it needs. The bytes will stand in them as they will stand in the volume.
    pub(super) const fn blocks(&self) -> usize {
        let within = self.request.offset as usize % BLOCK;
        (within + self.request.length as usize).div_ceil(BLOCK)
    }

    pub(super) const fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(super) fn grant(&mut self, blocks: Vec<u32>) {
        assert_eq!(blocks.len(), self.blocks(), "as much as was asked for");
        self.memory = Some(blocks);
    }

    /// All bytes, and those that are here.
    pub(super) const fn progress(&self) -> (u64, u64) {
        (self.request.length as u64, self.got as u64)
    }

    const fn missing(&self) -> usize {
        self.request.length as usize - self.got
    }

    pub(super) fn is_whole(&self) -> bool {
        let enough = if planted::is(Bug::LastSectorUnawaited) { 512 } else { 0 };
        self.memory.is_some() && self.missing() <= enough
    }

    /// Block (by index) and byte in it where the next byte goes.
    const fn position(&self) -> (usize, usize) {
        let at = self.request.offset as usize % BLOCK + self.got;
        (at / BLOCK, at % BLOCK)
    }

    /// Where the next bytes go, once there is memory.
    pub(super) fn room(&self) -> Option<Room<'_>> {
        let memory = self.memory.as_ref()?;
        let (index, first) = self.position();
        let blocks = &memory[index..(index + RECEIVE_BLOCKS).min(memory.len())];
        let bytes = self.missing().min(blocks.len() * BLOCK - first);
        Some(Room::Memory { blocks, first, bytes })
    }

    /// So many bytes have come to that room.
    pub(super) fn got(&mut self, bytes: usize) {
        self.got += bytes;
        debug_assert!(self.got <= self.request.length as usize, "no more than there is room for");
    }

    /// Copies what is here of `input`; returns how much of it was.
    pub(super) fn put(&mut self, input: &[u8], memory: &mut impl Memory) -> usize {
        let mut moved = 0;
        while self.missing() > 0 && moved < input.len() {
            let (index, within) = self.position();
            let Some(block) = self.memory.as_ref().map(|memory| memory[index]) else { break };
            let take = (BLOCK - within).min(self.missing()).min(input.len() - moved);
            memory.block_mut(block)[within..within + take].copy_from_slice(&input[moved..moved + take]);
            self.got += take;
            moved += take;
        }
        moved
    }

    pub(super) fn into_memory(self) -> Option<Vec<u32>> {
        self.memory
    }

    pub(super) fn into_whole(self) -> Whole {
        Whole { request: self.request, memory: self.memory.expect("data was received into memory") }
    }
}
