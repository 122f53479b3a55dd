//! Sectors, where no layer keeps anything: a request for a part of a block then moves the sectors that it names and not the block.
//!
//! Engines know whole blocks, as caches do. Where both layers only pass blocks through, nobody has use for the rest of a block, and
//! a host would ask the device for what the program asked. So this remembers which sectors of their blocks requests want, and
//! shortens the first and the last block of a member command to them. A write that covers sectors as a whole needs no edge read then,
//! unless parity is made of whole blocks.
//!
//! Two requests for one block that are under way together share one command, which has the sectors of both if both came
//! before it left; what the later one adds otherwise is not moved.

use forerun_core::access::{Access, Op};
use forerun_core::array::{Array, Role};
use forerun_core::assemble::ByteRange;
use forerun_core::engine::Start;
use forerun_core::units::{BLOCK_BYTES, Block, Extent, SECTOR_BYTES, SECTORS_PER_BLOCK};
use std::collections::BTreeMap;

/// Sectors of a block, a bit each, the first one lowest.
type Mask = u8;
/// All of them.
const WHOLE: Mask = Mask::MAX;
const _: () = assert!(Mask::BITS as u64 == SECTORS_PER_BLOCK, "a bit a sector");

/// What of a block readers want that are under way.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    mask: Mask,
    readers: u32,
}

/// What requests under way want of the blocks that they touch in part.
pub(super) struct Sectors {
    array: Array,
    /// By block of the volume; blocks that are wanted as a whole are not in it, unless someone wants only a part.
    wanted: BTreeMap<u64, Wanted>,
    /// By block of the volume: what of it is written, and how many members have yet to get it.
    dirty: BTreeMap<u64, (Mask, u16)>,
    /// By number of a request: the blocks that it wants in part.
    ends: Vec<[Option<u64>; 2]>,
    /// Sectors of read and of written blocks that were not moved.
    pub(super) spared: [u64; 2],
}

/// The sectors of `block` that a range touches.
fn mask(bytes: ByteRange, block: u64) -> Mask {
    let within = bytes.within(Extent::new(block, 1));
    let first = (within.offset - block * BLOCK_BYTES) / SECTOR_BYTES;
    let count = (within.end() - block * BLOCK_BYTES).div_ceil(SECTOR_BYTES) - first;
    let run = if count == SECTORS_PER_BLOCK { WHOLE } else { (1 << count) - 1 };
    run << first
}

impl Sectors {
    pub(super) fn new(array: Array) -> Self {
        Self { array, wanted: BTreeMap::new(), dirty: BTreeMap::new(), ends: Vec::new(), spared: [0; 2] }
    }

    /// Whether a write needs nothing of the blocks that it covers in part.
    pub(super) fn writes_alone(&self, bytes: ByteRange) -> bool {
        let aligned = bytes.offset.is_multiple_of(SECTOR_BYTES) && bytes.bytes.is_multiple_of(SECTOR_BYTES);
        aligned && self.array.spec().level().parities() == 0
    }

    /// A request of a program sets out, in these parts, which have places in the volume.
    pub(super) fn sets_out(&mut self, id: u64, op: Op, bytes: ByteRange, parts: &[Access]) {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return };
        let blocks = bytes.blocks();
        let ends = [
            (first.extent.start.0, mask(bytes, blocks.start.0)),
            (last.extent.end() - 1, mask(bytes, blocks.end() - 1)),
        ];
        match op {
            Op::Read => self.read(id, ends, parts),
            Op::Write => self.write(ends, parts, self.writes_alone(bytes)),
        }
    }

    fn read(&mut self, id: u64, ends: [(u64, Mask); 2], parts: &[Access]) {
        for part in parts {
            let here = part.extent.start.0..part.extent.end();
            for (block, wanted) in self.wanted.range_mut(here) {
                if ends.iter().all(|(end, _)| end != block) {
                    wanted.mask = WHOLE;
                }
            }
        }
        let mut own = [None; 2];
        for (at, &(block, mask)) in ends.iter().enumerate() {
            if at == 1 && block == ends[0].0 {
                continue;
            }
            let wanted = self.wanted.entry(block).or_default();
            wanted.mask |= mask;
            wanted.readers += 1;
            own[at] = Some(block);
        }
        let number = id as usize;
        if self.ends.len() <= number {
            self.ends.resize(number + 1, [None; 2]);
        }
        self.ends[number] = own;
    }

    fn write(&mut self, ends: [(u64, Mask); 2], parts: &[Access], alone: bool) {
        for part in parts {
            for block in part.extent.start.0..part.extent.end() {
                let end = ends.iter().find(|(end, _)| alone && *end == block);
                let (mask, copies) = self.dirty.entry(block).or_default();
                *mask |= end.map_or(WHOLE, |end| end.1);
                *copies = self.array.copies_per_block();
            }
        }
    }

    /// A request is answered.
    pub(super) fn answered(&mut self, id: u64) {
        let Some(own) = self.ends.get_mut(id as usize) else { return };
        for block in std::mem::take(own).into_iter().flatten() {
            let Some(wanted) = self.wanted.get_mut(&block) else { continue };
            wanted.readers -= 1;
            if wanted.readers == 0 {
                self.wanted.remove(&block);
            }
        }
    }

    /// A member command leaves: how many sectors at its beginning and at its end nobody has asked for.
    pub(super) fn cut(&mut self, start: &Start) -> [u64; 2] {
        let (first, last) = (start.extent.start.0, start.extent.end() - 1);
        let masks = match start.op {
            Op::Read => [first, last].map(|at| self.data(start, at).and_then(|block| self.reads(block))),
            Op::Write => {
                let mut masks = [None; 2];
                for at in first..=last {
                    let left = self.data(start, at).and_then(|block| self.leaves(block));
                    if at == first {
                        masks[0] = left;
                    }
                    if at == last {
                        masks[1] = left;
                    }
                }
                masks
            }
        };
        let lead = masks[0].map_or(0, |mask| u64::from(mask.trailing_zeros()));
        let tail = masks[1].map_or(0, |mask| u64::from(mask.leading_zeros()));
        self.spared[usize::from(start.op == Op::Write)] += lead + tail;
        [lead, tail]
    }

    /// What of a written block goes to a member now.
    fn leaves(&mut self, block: u64) -> Option<Mask> {
        let (mask, copies) = self.dirty.get_mut(&block)?;
        let mask = *mask;
        *copies -= 1;
        if *copies == 0 {
            self.dirty.remove(&block);
        }
        Some(mask)
    }

    fn reads(&self, block: u64) -> Option<Mask> {
        self.wanted.get(&block).map(|wanted| wanted.mask)
    }

    /// The block of the volume that a member's block holds.
    fn data(&self, start: &Start, at: u64) -> Option<u64> {
        match self.array.logical(start.disk, Block(at)) {
            Role::Data(block) | Role::Mirror { block, .. } => Some(block.0),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_the_sectors_that_a_range_touches() {
        // By the definition: a sector is touched if one of its bytes is.
        for offset in (0..2 * BLOCK_BYTES).step_by(300) {
            for bytes in [1, 511, 512, 513, 1_024, 4_096, 9_000] {
                let range = ByteRange::new(offset, bytes);
                for block in range.blocks().start.0..range.blocks().end() {
                    let touched = |sector: u64| {
                        let from = block * BLOCK_BYTES + sector * SECTOR_BYTES;
                        from < range.end() && range.offset < from + SECTOR_BYTES
                    };
                    let wanted =
                        (0..SECTORS_PER_BLOCK).filter(|&s| touched(s)).fold(0, |mask, s| mask | 1 << s);
                    assert_eq!(mask(range, block), wanted, "{bytes} at {offset}, block {block}");
                }
            }
        }
    }
}
