//! What stands on a journal, byte by byte: two superblocks, and behind them a ring of records.
//!
//! ```text
//!   block 0  superblock (even turns)      each 4 KiB: magic, version, whose journal it is, where the ring begins to count
//!   block 1  superblock (odd turns)       (tail), its generation, sums of the device's first blocks; a CRC at its end
//!   block 2  ring: records, each one block of header (magic, generation, sequence number, extents, CRC of the payload; a CRC at its
//!            end) and its payload, whole blocks in the order of the extents
//! ```
//!
//! A superblock is written where the older one stands, so a write of it that is torn leaves the newer one. A record is what it says if
//! both sums are right, its generation is the superblock's and its number is the one that follows; anything else is the end of
//! the ring. All numbers are little-endian. The magic, the version and the place of the CRC stay where they are in
//! every version, so an older program can say that a journal is newer than itself.

pub(crate) use crate::sealed::{BLOCK, Page, TEXT_MAX, Unread, sum};
use crate::sealed::{Reader, Writer, is_whole};
use std::io;

/// Blocks before the ring.
pub(crate) const SUPERS: u64 = 2;
/// Most extents of a record: what its header holds.
pub(crate) const EXTENTS_MAX: usize = 256;
/// Most blocks of a record's payload: the longest write of a strip.
pub(crate) const PAYLOAD_MAX: usize = 1024;
/// First blocks of the device whose sums a superblock keeps: where file systems, volume managers and partitions have their heads.
pub(crate) const PRINTS: usize = 16;
/// The version that is written, and the newest that is read. Version 1 did not say who the device is.
pub(crate) const VERSION: u32 = 2;
/// The oldest that is read.
const VERSION_OLDEST: u32 = 1;

const SUPER_MAGIC: [u8; 8] = *b"forerunJ";
const RECORD_MAGIC: [u8; 8] = *b"forerunR";
/// Where the extents of a record begin, and bytes of each.
const EXTENTS_AT: usize = 64;
const EXTENT_BYTES: usize = 12;

/// Where a record begins or will begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Block of the ring.
    pub(crate) block: u64,
    /// Its number.
    pub(crate) seq: u64,
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Super {
    /// Drawn when the journal was made.
    pub(crate) id: u128,
    /// Bytes of the device that it belongs to.
    pub(crate) size: u64,
    /// How that was called.
    pub(crate) name: String,
    /// One more with each start: records of an earlier one are nobody's.
    pub(crate) generation: u64,
    /// One more with each superblock.
    pub(crate) turn: u64,
    /// The oldest record that is not known to be on the device.
    pub(crate) tail: Position,
    /// Blocks of the ring.
    pub(crate) ring: u64,
    /// Sums of the device's first blocks.
    pub(crate) prints: [u32; PRINTS],
    /// The device bears a mark while the journal may hold what it lacks.
    pub(crate) marked: bool,
    /// Who the device is, if it says so wherever it is plugged in: a block device does, a file bears the mark instead. Of an array, the epoch of its
    /// members ([`Epoch::told`](crate::array::superblock::Epoch::told)).
    pub(crate) identity: String,
}

impl Super {
    /// Which of the two places it is written to.
    pub(crate) const fn place(&self) -> u64 {
        self.turn % SUPERS
    }

    /// As it is written.
    pub(crate) fn encode(&self) -> Box<Page> {
        let mut page = Writer::new(SUPER_MAGIC);
        page.bytes(&VERSION.to_le_bytes());
        page.bytes(&u32::from(self.marked).to_le_bytes());
        page.bytes(&self.id.to_le_bytes());
        for field in [self.size, self.generation, self.turn, self.tail.block, self.tail.seq, self.ring] {
            page.bytes(&field.to_le_bytes());
        }
        for print in self.prints {
            page.bytes(&print.to_le_bytes());
        }
        page.text(&self.name);
        page.text(&self.identity);
        page.finish()
    }

    /// What a block says, if it is a superblock.
    pub(crate) fn decode(page: &Page) -> Result<Self, Unread> {
        let mut fields = Reader::new(page);
        if fields.bytes() != SUPER_MAGIC {
            return Err(Unread::Foreign);
        }
        if !is_whole(page) {
            return Err(Unread::Torn);
        }
        let version = fields.u32();
        if !(VERSION_OLDEST..=VERSION).contains(&version) {
            return Err(Unread::Newer(version));
        }
        let marked = fields.u32() != 0;
        let id = u128::from_le_bytes(fields.bytes());
        let [size, generation, turn, block, seq, ring] = std::array::from_fn(|_| fields.u64());
        let prints = std::array::from_fn(|_| fields.u32());
        let name = fields.text();
        let identity = if version == VERSION_OLDEST { Some(String::new()) } else { fields.text() };
        let (Some(name), Some(identity)) = (name, identity) else { return Err(Unread::Torn) };
        // Numbers at their end cannot be counted on from.
        if ring == 0 || block > ring || turn == u64::MAX || seq == u64::MAX {
            return Err(Unread::Torn);
        }
        let tail = Position { block, seq };
        Ok(Self { id, size, name, generation, turn, tail, ring, prints, marked, identity })
    }

    /// The newer of the two.
    ///
    /// # Errors
    /// Why there is none, of the one that says more.
    pub(crate) fn newest(pages: [&Page; SUPERS as usize]) -> Result<Self, Unread> {
        let [one, other] = pages.map(Self::decode);
        match (one, other) {
            (Ok(one), Ok(other)) => Ok(if other.turn > one.turn { other } else { one }),
            // A program that is older than one of them knows nothing of either.
            (Err(Unread::Newer(version)), _) | (_, Err(Unread::Newer(version))) => {
                Err(Unread::Newer(version))
            }
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(Unread::Foreign), Err(Unread::Foreign)) => Err(Unread::Foreign),
            (Err(_), Err(_)) => Err(Unread::Torn),
        }
    }
}

/// Blocks of the device, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first.
    pub(crate) first: u64,
    /// How many.
    pub(crate) blocks: u32,
}

/// What the header of a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of the start that wrote it.
    pub(crate) generation: u64,
    /// Its number.
    pub(crate) seq: u64,
    /// All records up to this one had been synced when it was made: if one of those cannot be read, it was lost by the medium.
    pub(crate) synced: u64,
    /// Sum of the payload.
    pub(crate) sum: u32,
    /// Of an array, the generation of the epoch in which it was written: it holds nothing of members that this is without. 0 where nobody said it.
    pub(crate) epoch: u64,
    /// Where its blocks belong, in their order.
    pub(crate) spans: Vec<Span>,
}

impl Header {
    /// Blocks of its payload.
    pub(crate) fn payload(&self) -> u64 {
        self.spans.iter().map(|span| u64::from(span.blocks)).sum()
    }

    /// Blocks of the record.
    pub(crate) fn blocks(&self) -> u64 {
        1 + self.payload()
    }

    /// As it is written.
    pub(crate) fn encode(&self) -> Box<Page> {
        assert!(self.spans.len() <= EXTENTS_MAX, "a header holds so many extents");
        let mut page = Writer::new(RECORD_MAGIC);
        for field in [self.generation, self.seq, self.synced] {
            page.bytes(&field.to_le_bytes());
        }
        page.bytes(&self.sum.to_le_bytes());
        page.bytes(&(self.spans.len() as u32).to_le_bytes());
        page.bytes(&self.epoch.to_le_bytes());
        page.skip_to(EXTENTS_AT);
        for span in &self.spans {
            page.bytes(&span.first.to_le_bytes());
            page.bytes(&span.blocks.to_le_bytes());
        }
        page.finish()
    }

    /// What a block says, if it is the header of a record that could be.
    pub(crate) fn decode(page: &Page) -> Option<Self> {
        let mut fields = Reader::new(page);
        if fields.bytes() != RECORD_MAGIC || !is_whole(page) {
            return None;
        }
        let [generation, seq, synced] = std::array::from_fn(|_| fields.u64());
        let (sum, many) = (fields.u32(), fields.u32() as usize);
        if many == 0 || many > EXTENTS_MAX {
            return None;
        }
        let epoch = fields.u64();
        let mut fields = Reader::new(&page[EXTENTS_AT..EXTENTS_AT + many * EXTENT_BYTES]);
        let spans: Vec<Span> =
            (0..many).map(|_| Span { first: fields.u64(), blocks: fields.u32() }).collect();
        let can_be =
            |span: &Span| span.blocks > 0 && span.first.checked_add(u64::from(span.blocks)).is_some();
        let header = Self { generation, seq, synced, sum, epoch, spans };
        let fits = header.spans.iter().all(can_be) && header.payload() <= PAYLOAD_MAX as u64;
        fits.then_some(header)
    }
}

/// Reads and writes whole blocks: a file, a device, or what a test makes of memory.
pub(crate) trait Blocks {
    /// Fills `bytes` from the block `at` on.
    fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes `bytes` from the block `at` on.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// What was written stays.
    fn sync(&mut self) -> io::Result<()>;
}

#[cfg(test)]
mod tests;
