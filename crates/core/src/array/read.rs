//! Reads: which member blocks give an extent of the volume, with all disks well or with some lost.
//!
//! A plan lists the member commands (each block once, contiguous ones joined, sorted by disk and address) and, for
//! each strip that the extent touches, where its piece comes from: blocks of one member as they are, or a sum of blocks of
//! the surviving ones. A strip is taken from a copy if one is alive; else, with parity, it is computed from the
//! others at the same offsets, by P if possible (XOR only), by Q otherwise, by both when two data strips
//! of its stripe are lost. Survivors that the extent wants for themselves anyway are not read twice.

use super::plan::{Decode, Parts, find};
use super::{Array, DiskSet, MemberExtent, Strip, Stripe, Term, TermRange};
use crate::units::{Block, Disk, Extent};
use alloc::vec::Vec;

/// Where a piece of a read comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the blocks of a member, starting there, inside one of the plan's commands.
    Direct {
        /// The member.
        disk: Disk,
        /// Block of the member.
        start: Block,
    },
    /// From a sum over blocks that the plan reads: [`ReadPlan::terms`].
    Sum(TermRange),
}

/// The part of a read that lies in one strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its blocks of the volume.
    pub extent: Extent,
    /// How to get them.
    pub origin: Origin,
}

/// Why there is no plan for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It leaves the volume.
    #[error("blocks {start} to {end} leave a volume of {capacity} blocks")]
    PastEnd {
        /// First block asked for.
        start: u64,
        /// One past the last (saturated).
        end: u64,
        /// Blocks of the volume.
        capacity: u64,
    },
    /// More members have failed than the strip's redundancy makes up for.
    #[error("block {} is lost: {failed} of {disks} members have failed", .block.0)]
    Lost {
        /// The first block of the extent that cannot be had.
        block: Block,
        /// Failed members.
        failed: usize,
        /// Members.
        disks: u16,
    },
}

/// How to read one extent. A reusable buffer: [`Array::read_plan_into`] allocates only while it grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadPlan {
    parts: Parts,
    pieces: Vec<Piece>,
}

impl ReadPlan {
    /// An empty plan.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// The member commands, sorted by disk and address; disjoint, and none touches the next.
    #[must_use]
    pub fn reads(&self) -> &[MemberExtent] {
        &self.parts.reads
    }
    /// The pieces in address order: together the extent, one for each strip.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
    /// The summands of a piece of this plan; all are [`super::Source::Read`].
    #[must_use]
    pub fn terms(&self, range: TermRange) -> &[Term] {
        self.parts.terms(range)
    }
    /// Which command of [`ReadPlan::reads`] holds block `start` of `disk`, and how many blocks into it.
    #[must_use]
    pub fn find(&self, disk: Disk, start: Block) -> Option<(usize, u64)> {
        find(self.reads(), |read| *read, disk, start)
    }
    /// Blocks read from members.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.reads().iter().map(|read| read.extent.blocks).sum()
    }
    fn clear(&mut self) {
        self.parts.clear();
        self.pieces.clear();
    }
}

impl Array {
    /// How to read `extent` while the disks of `failed` are not to be read: [`Array::read_plan_into`] with a new plan.
    ///
    /// # Errors
    /// As [`Array::read_plan_into`].
    pub fn read_plan(&self, extent: Extent, failed: &DiskSet) -> Result<ReadPlan, ReadError> {
        let mut plan = ReadPlan::new();
        self.read_plan_into(extent, failed, &mut plan)?;
        Ok(plan)
    }

    /// Replaces `out` by the plan to read `extent` while the disks of `failed` are not to be read. An empty extent has an
    /// empty plan. After an error `out` is empty.
    ///
    /// # Errors
    /// [`ReadError::PastEnd`] when the extent leaves the volume, [`ReadError::Lost`] when too many disks failed.
    pub fn read_plan_into(
        &self,
        extent: Extent,
        failed: &DiskSet,
        out: &mut ReadPlan,
    ) -> Result<(), ReadError> {
        out.clear();
        // Nearly every read is small and healthy: no walk, no search for a copy, nothing to sort.
        if let Some(read) = self.direct(extent)
            && !failed.contains(read.disk)
        {
            let origin = Origin::Direct { disk: read.disk, start: read.extent.start };
            out.parts.reads.push(read);
            out.pieces.push(Piece { extent, origin });
            return Ok(());
        }
        let (start, capacity) = (extent.start.0, self.capacity_blocks());
        if start > capacity || extent.blocks > capacity - start {
            let end = start.saturating_add(extent.blocks);
            return Err(ReadError::PastEnd { start, end, capacity });
        }
        let mut at = start;
        while at < extent.end() {
            let (strip, offset) = self.strip.split(at);
            let blocks = (extent.end() - at).min(self.strip_blocks() - offset);
            let piece = Extent::new(at, blocks);
            let Some(origin) = self.read_piece(Strip(strip), offset, blocks, failed, &mut out.parts) else {
                out.clear();
                let (failed, disks) = (failed.len(), self.disks());
                return Err(ReadError::Lost { block: piece.start, failed, disks });
            };
            out.pieces.push(Piece { extent: piece, origin });
            at += blocks;
        }
        out.parts.finish();
        Ok(())
    }

    /// Reads `blocks` blocks of `strip` from `offset`; `None` when they are lost.
    fn read_piece(
        &self,
        strip: Strip,
        offset: u64,
        blocks: u64,
        failed: &DiskSet,
        parts: &mut Parts,
    ) -> Option<Origin> {
        if let Some((disk, first)) = self.copies(strip).find(|(disk, _)| !failed.contains(*disk)) {
            parts.read(disk, first.0 + offset, blocks);
            return Some(Origin::Direct { disk, start: first.plus(offset) });
        }
        let (stripe, x) = self.stripe_of_strip(strip);
        let decode = self.decode(stripe, x, failed)?;
        let mark = parts.mark();
        for (factor, parity) in [(decode.p, self.p_strip(stripe)), (decode.q, self.q_strip(stripe))] {
            if let Some(parity) = parity {
                parts.add_read(factor, parity.disk, parity.extent.start.0 + offset, blocks);
            }
        }
        for i in 0..self.stripe_strips() {
            let (disk, start) = self.strip_start(stripe, i, 0);
            if !failed.contains(disk) {
                parts.add_read(decode.data(i), disk, start + offset, blocks);
            }
        }
        Some(Origin::Sum(parts.since(mark)))
    }

    /// How lost data strip `x` of a stripe follows from the others; `None` when it does not.
    pub(super) fn decode(&self, stripe: Stripe, x: u64, failed: &DiskSet) -> Option<Decode> {
        let alive = |parity: Option<MemberExtent>| parity.is_some_and(|strip| !failed.contains(strip.disk));
        let (p_alive, q_alive) = (alive(self.p_strip(stripe)), alive(self.q_strip(stripe)));
        if !p_alive && !q_alive {
            return None;
        }
        let lost = |i: &u64| *i != x && failed.contains(self.strip_start(stripe, *i, 0).0);
        let mut others = (0..self.stripe_strips()).filter(lost);
        let other = others.next();
        if others.next().is_some() {
            return None;
        }
        Decode::new(x, other, p_alive, q_alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_has_grown_is_filled_again_without_allocation() {
        let array = Array::new("raid6:6x16KiB".parse().expect("valid"), 1 << 10).expect("fits");
        let failed = [Disk(0), Disk(3)].into_iter().collect();
        let mut plan = ReadPlan::new();
        let mut sizes = [(0, 0, 0); 2];
        for size in &mut sizes {
            for stripe in 0..6 {
                let extent = array.stripe_extent(Stripe(stripe));
                array.read_plan_into(extent, &failed, &mut plan).expect("two failures");
            }
            *size = (plan.pieces.capacity(), plan.parts.reads.capacity(), plan.parts.terms.capacity());
        }
        assert_eq!(sizes[0], sizes[1]);
    }
}
