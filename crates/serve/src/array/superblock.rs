//! What stands on each member of an array: two superblocks, one of which is always whole.
//!
//! ```text
//!   block 0  superblock (even turns)     each 4 KiB: magic, version, which array, which member of how many, its geometry,
//!   block 1  superblock (odd turns)      the epoch and the one before it, which members are out; a CRC at its end
//!   1 MiB    data
//! ```
//!
//! Members that belong together say the same epoch: a number drawn when it began. A new epoch begins at each start that writes, and when
//! a member is lost; nothing is written in it before every member that is in has it. So of two members with different epochs either one has the epoch
//! before that of the other, and a crash came in between; or they were used apart. When all have it they say a second time that it *stands*: then
//! whoever has the one before was away. A program that does not know of that writes zeros there, which is what a new epoch begins with. The magic,
//! the version and the place of the CRC stay where they are in every version.

use crate::sealed::{Page, Reader, Unread, Writer, is_whole};
use forerun_core::array::{ArraySpec, DISKS_MAX, DiskSet, Level};
use forerun_core::units::Disk;

/// Where data begins on a member, bytes: whole strips of flash and of arrays below.
pub(crate) const DATA_AT: u64 = 1 << 20;
/// Blocks that superblocks take.
pub(crate) const SUPERS: u64 = 2;
/// The version that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;
/// Where it says which members are out: a bit each, of more members than an array may have today.
const OUT_BYTES: usize = 32;
/// How every superblock begins.
pub(crate) const MAGIC: [u8; 8] = *b"forerunA";

/// When members were in use together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// One more with each.
    pub(crate) generation: u64,
    /// Drawn for it.
    pub(crate) number: u64,
    /// The number of the one before.
    pub(crate) before: u64,
}

impl Epoch {
    /// As the journal of an array says it.
    pub(crate) fn told(&self) -> String {
        format!("epoch {} {:016x}", self.generation, self.number)
    }

    /// Whether a member of this epoch was there when the journal said that one; one that says none was written by an older program.
    pub(crate) fn has_seen(&self, told: &str) -> bool {
        let told = told.strip_prefix("epoch ").and_then(|told| told.split_once(' '));
        let Some((generation, number)) = told else { return true };
        let number = u64::from_str_radix(number, 16).ok();
        generation.parse().is_ok_and(|generation| {
            self.generation > generation || (self.generation == generation && Some(self.number) == number)
        })
    }
}

/// A member that is being rebuilt while the array is served: it is out for whoever does not know of rebuilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebuilding {
    /// Which one.
    pub(crate) member: u16,
    /// Stripes that are on it for good, from the first on: as its own superblock says it, and no other.
    pub(crate) upto: u64,
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Drawn when the array was made.
    pub(crate) id: u128,
    pub(crate) spec: ArraySpec,
    /// Which member this is.
    pub(crate) index: u16,
    /// Blocks of data on each member.
    pub(crate) blocks: u64,
    /// One more with each superblock of this member.
    pub(crate) turn: u64,
    pub(crate) epoch: Epoch,
    /// Members that are not written to any more.
    pub(crate) out: DiskSet,
    /// The journal that belongs to it; 0 of an array that has none.
    pub(crate) journal: u128,
    /// The generation of that journal when it began to be written to.
    pub(crate) journal_generation: u64,
    /// The member that is being rebuilt, which is one of those that are out.
    pub(crate) rebuilding: Option<Rebuilding>,
    /// Its epoch is on all members that are in, said by a start before it writes anything. Epochs of while an array is served, and those
    /// that an older program began, have this nowhere.
    pub(crate) stands: bool,
}

const LEVELS: [Level; 5] = [Level::Raid0, Level::Raid1, Level::Raid5, Level::Raid6, Level::Raid10];

impl Superblock {
    /// Which of the two places it is written to.
    pub(crate) const fn place(&self) -> u64 {
        self.turn % SUPERS
    }

    /// How far this member is rebuilt, if it is one that is not whole: then it says nothing of the array that others do not.
    pub(crate) fn rebuilt(&self) -> Option<u64> {
        self.rebuilding.filter(|one| one.member == self.index).map(|one| one.upto)
    }

    /// As it is written.
    pub(crate) fn encode(&self) -> Box<Page> {
        let mut page = Writer::new(MAGIC);
        let level = LEVELS.iter().position(|&level| level == self.spec.level());
        let level = u32::try_from(level.expect("an array of several members")).expect("few levels");
        for field in [VERSION, level, u32::from(self.spec.disks()), u32::from(self.index)] {
            page.bytes(&field.to_le_bytes());
        }
        page.bytes(&self.id.to_le_bytes());
        page.bytes(&self.journal.to_le_bytes());
        let Epoch { generation, number, before } = self.epoch;
        for field in [self.spec.strip_bytes(), self.blocks, self.turn, generation, number, before] {
            page.bytes(&field.to_le_bytes());
        }
        let mut out = [0; OUT_BYTES];
        self.out.iter().for_each(|disk| out[usize::from(disk.0 / 8)] |= 1 << (disk.0 % 8));
        page.bytes(&out);
        page.bytes(&self.journal_generation.to_le_bytes());
        let (member, upto) = self.rebuilding.map_or((0, 0), |one| (u64::from(one.member) + 1, one.upto));
        page.bytes(&member.to_le_bytes());
        page.bytes(&upto.to_le_bytes());
        page.bytes(&u64::from(self.stands).to_le_bytes());
        page.finish()
    }

    /// What a block says, if it is a superblock.
    pub(crate) fn decode(page: &Page) -> Result<Self, Unread> {
        let mut fields = Reader::new(page);
        if fields.bytes() != MAGIC {
            return Err(Unread::Foreign);
        }
        if !is_whole(page) {
            return Err(Unread::Torn);
        }
        let version = fields.u32();
        if version != VERSION {
            return Err(Unread::Newer(version));
        }
        let [level, disks, index] = std::array::from_fn(|_| fields.u32());
        let [id, journal] = std::array::from_fn(|_| u128::from_le_bytes(fields.bytes()));
        let [strip, blocks, turn, generation, number, before] = std::array::from_fn(|_| fields.u64());
        let bits: [u8; OUT_BYTES] = fields.bytes();
        let [journal_generation, rebuilt, upto, stands] = std::array::from_fn(|_| fields.u64());
        let level = LEVELS.get(level as usize).copied().ok_or(Unread::Torn)?;
        let spec = u16::try_from(disks).ok().and_then(|disks| ArraySpec::new(level, disks, strip).ok());
        let spec = spec.ok_or(Unread::Torn)?;
        let inside = |disk: &u16| *disk < spec.disks();
        let index = u16::try_from(index).ok().filter(inside).ok_or(Unread::Torn)?;
        let is_out = |disk: &u16| bits[usize::from(disk / 8)] >> (disk % 8) & 1 == 1;
        let out = (0..DISKS_MAX).filter(is_out).map(Disk).collect();
        // Numbers at their end cannot be counted on from.
        if turn == u64::MAX || generation == u64::MAX {
            return Err(Unread::Torn);
        }
        let epoch = Epoch { generation, number, before };
        let rebuilding = match rebuilt.checked_sub(1) {
            None => None,
            Some(member) => {
                let member = u16::try_from(member).ok().filter(inside).ok_or(Unread::Torn)?;
                Some(Rebuilding { member, upto })
            }
        };
        let stands = stands == 1;
        Ok(Self {
            id,
            spec,
            index,
            blocks,
            turn,
            epoch,
            out,
            journal,
            journal_generation,
            rebuilding,
            stands,
        })
    }

    /// The newer of the two.
    ///
    /// # Errors
    /// Why there is none, of the one that says more.
    pub(crate) fn newest(pages: [&Page; SUPERS as usize]) -> Result<Self, Unread> {
        match pages.map(Self::decode) {
            [Ok(one), Ok(other)] => Ok(if other.turn > one.turn { other } else { one }),
            [Err(Unread::Newer(version)), _] | [_, Err(Unread::Newer(version))] => {
                Err(Unread::Newer(version))
            }
            [Ok(one), Err(_)] | [Err(_), Ok(one)] => Ok(one),
            [Err(Unread::Foreign), Err(Unread::Foreign)] => Err(Unread::Foreign),
            [Err(_), Err(_)] => Err(Unread::Torn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::BLOCK;

    fn any(turn: u64) -> Superblock {
        Superblock {
            id: 0x1234_5678_9abc_def0_1122_3344_5566_7788,
            spec: "raid6:7x64KiB".parse().expect("valid"),
            index: 5,
            blocks: 1 << 20,
            turn,
            epoch: Epoch { generation: 7, number: 8, before: 9 },
            out: [Disk(1), Disk(6)].into_iter().collect(),
            journal: 77,
            journal_generation: 78,
            rebuilding: None,
            stands: false,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for text in ["raid0:2", "raid1:3x64K", "raid5:5x128K", "raid6:8x4K", "raid10:5x1M"] {
            let one = Superblock { spec: text.parse().expect("valid"), index: 1, ..any(3) };
            assert_eq!(Superblock::decode(&one.encode()), Ok(one.clone()));
            let one = Superblock { rebuilding: Some(Rebuilding { member: 1, upto: 9 }), ..one };
            assert_eq!(Superblock::decode(&one.encode()), Ok(one.clone()));
            assert_eq!(one.rebuilt(), Some(9));
            let one = Superblock { stands: true, ..one };
            assert_eq!(Superblock::decode(&one.encode()), Ok(one.clone()));
            assert_eq!(Superblock { index: 0, ..one }.rebuilt(), None, "the others are whole");
        }
    }

    #[test]
    fn every_mix_of_sectors_of_every_write_opens_to_old_or_new() {
        let (old, new) = (any(4), Superblock { out: DiskSet::EMPTY, ..any(5) });
        let older = Superblock { index: 2, ..any(3) };
        // The new one is written where the older of the two stands.
        let (before, after) = (older.encode(), new.encode());
        for mix in 0..1_u32 << (BLOCK / 512) {
            let mut page = before.clone();
            for sector in (0..BLOCK / 512).filter(|sector| mix >> sector & 1 == 1) {
                page[sector * 512..][..512].copy_from_slice(&after[sector * 512..][..512]);
            }
            let found = Superblock::newest([&old.encode(), &page]).expect("one of them is whole");
            assert!(found == old || found == new, "{mix:x}: {found:?}");
        }
    }

    #[test]
    fn bits_that_flip_and_other_versions_are_seen() {
        let page = any(1).encode();
        for at in 0..BLOCK * 8 {
            let mut other = page.clone();
            other[at / 8] ^= 1 << (at % 8);
            assert!(Superblock::decode(&other).is_err(), "bit {at}");
        }
        let mut newer = page;
        newer[8] = 9;
        let sum = crate::sealed::sum(&newer[..BLOCK - 4]);
        newer[BLOCK - 4..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Superblock::decode(&newer), Err(Unread::Newer(9)));
        assert_eq!(Superblock::decode(&[0; BLOCK]), Err(Unread::Foreign));
    }
}
