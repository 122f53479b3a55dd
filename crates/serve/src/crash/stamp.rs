//! What the bytes of the simulated volume say: each grain of 256 bytes tells which grain it is and which write brought it.
//!
//! So bytes at a wrong place, bytes of a write that was overtaken, half of one write and half of another, and memory that nobody
//! filled are all seen for what they are, and an image of a member is a list of numbers.

/// Bytes of a grain: what a client writes begins and ends at grains, two to a sector, so that edges lie within blocks and within sectors.
pub(super) const GRAIN: usize = 256;
/// Grains of a block.
pub(super) const BLOCK_GRAINS: usize = 4096 / GRAIN;
/// Grains of a sector, which a member writes as a whole or not at all.
pub(super) const SECTOR_GRAINS: usize = 512 / GRAIN;
/// No grain that was ever written.
pub(super) const GARBAGE: u64 = u64::MAX;

/// A grain of nothing but zeros. It does not say whose they are: of writes of zeroes there is no other trace.
pub(super) const ZERO: u64 = 0;

/// The stamp of a grain of the volume as a write of this version brings it. Version 0 is what lay there at first.
pub(super) const fn stamp(grain: u32, version: u32) -> u64 {
    (grain as u64 + 1) << 32 | version as u64
}

/// Which grain a stamp is of.
pub(super) const fn grain_of(stamp: u64) -> u32 {
    (stamp >> 32) as u32 - 1
}

/// Which write.
pub(super) const fn version_of(stamp: u64) -> u32 {
    stamp as u32
}

/// Writes grains.
pub(super) fn encode(stamps: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    for stamp in stamps {
        if stamp == ZERO {
            out.extend_from_slice(&[0; GRAIN]);
            continue;
        }
        for word in 0..(GRAIN / 8) as u64 {
            // A number of the word in the top byte shows shifts within a grain.
            out.extend_from_slice(&(stamp | word << 56).to_le_bytes());
        }
    }
}

/// Reads a grain; [`ZERO`] if it is zeros, [`GARBAGE`] if it is none.
pub(super) fn decode(bytes: &[u8]) -> u64 {
    if bytes.iter().all(|&byte| byte == 0) {
        return ZERO;
    }
    let word = |index: usize| u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight"));
    let stamp = word(0);
    let whole = (1..GRAIN / 8).all(|index| word(index) == stamp | (index as u64) << 56);
    if whole && stamp >> 32 > 0 && stamp >> 56 == 0 { stamp } else { GARBAGE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grain_says_where_it_belongs_and_who_wrote_it_and_a_torn_one_says_nothing() {
        let mut bytes = Vec::new();
        encode([stamp(7, 3), stamp(8, 0)].into_iter(), &mut bytes);
        let seen = decode(&bytes[..GRAIN]);
        assert_eq!((grain_of(seen), version_of(seen)), (7, 3));
        assert_eq!(decode(&bytes[GRAIN..]), stamp(8, 0));
        assert_eq!(decode(&bytes[8..8 + GRAIN]), GARBAGE, "shifted");
        assert_eq!(decode(&[0; GRAIN]), ZERO);
        bytes.truncate(2 * GRAIN);
        bytes[100] ^= 1;
        assert_eq!(decode(&bytes[..GRAIN]), GARBAGE);
    }
}
