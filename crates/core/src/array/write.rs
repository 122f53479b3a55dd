//! Writes: what a stripe's dirty blocks cost to put on disk, with their parity, with all disks well or with some lost.
//!
//! The input is one stripe of a write-back cache: which of its data blocks are dirty, and which others are resident.
//! The plan is three lists to be executed in order: member reads, sums that make new parity, member writes.
//! Blocks of the stripe at one offset (a row of blocks) share their parity and nothing else, so a plan touches exactly the
//! rows that hold a dirty block. Rows with the same pattern of dirty and resident blocks form a *band*, computed alike.
//!
//! Two methods lead to new parity. *Read-modify-write* reads the old content of the dirty blocks and the old parity, and
//! adds the change. *Reconstruct* reads the blocks that are neither dirty nor resident, and adds up everything.
//! A band that reconstructs from memory alone does so; over the other bands of the stripe the
//! method that reads fewer blocks wins, and a tie goes to reconstruct, which does not lean on old parity
//! (md compares the same two counts in `handle_stripe_dirtying`, but for each 4 KiB row alone, which cuts commands up).
//!
//! A failed member takes choices away. Its own dirty blocks have no old content to subtract, so parity must be
//! reconstructed, and so carries them; its clean ones are missing from a reconstruction, so parity must be modified. If a band
//! has one of each (two failed data members of RAID-6), the clean one is computed from the survivors and
//! substituted in the reconstruction (*decode*). Failed parity is not updated. Mirrors write every living copy.

use super::plan::{Parts, find};
use super::{Array, DiskSet, MemberExtent, Stripe, Term, TermRange, bits, gf};
use crate::units::{Block, Disk, Extent};
use alloc::vec::Vec;

/// What a member write puts on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content {
    /// Blocks of the volume, from this one on, out of memory.
    Data(Block),
    /// New P, made by the plan's steps.
    P,
    /// New Q, made by the plan's steps.
    Q,
}

/// One write command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberWrite {
    /// Where.
    pub member: MemberExtent,
    /// What.
    pub content: Content,
}

/// How a band's new parity is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Old parity plus the change of the dirty blocks.
    ReadModifyWrite,
    /// The sum over all data blocks.
    Reconstruct,
    /// As reconstruct, with a lost clean block computed from the survivors.
    Decode,
}

/// One sum: `blocks` blocks of new parity, inside one of the plan's P or Q writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The member that will hold it.
    pub disk: Disk,
    /// First block of the member.
    pub start: Block,
    /// How many blocks.
    pub blocks: u64,
    /// How it was chosen to be made.
    pub method: Method,
    /// The summands: [`WritePlan::terms`].
    pub terms: TermRange,
}

/// Why there is no plan for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is no such stripe.
    #[error("stripe {} is beyond the volume's {stripes} stripes", .stripe.0)]
    PastEnd {
        /// Asked for.
        stripe: Stripe,
        /// Stripes of the volume.
        stripes: u64,
    },
    /// The content would not survive: no living copy and not enough parity.
    #[error("stripe {} cannot be written: {failed} of {disks} members have failed", .stripe.0)]
    Lost {
        /// The stripe.
        stripe: Stripe,
        /// Failed members.
        failed: usize,
        /// Members.
        disks: u16,
    },
}

/// How to write the dirty blocks of one stripe. A reusable buffer: [`Array::write_plan_into`] allocates only while it grows.
///
/// To execute: read [`reads`](Self::reads); compute each of [`steps`](Self::steps) into the buffer of its parity write; then do
/// all of [`writes`](Self::writes). The sums refer to disks as they were before any of the writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritePlan {
    parts: Parts,
    steps: Vec<Step>,
    writes: Vec<MemberWrite>,
}

impl WritePlan {
    /// An empty plan.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// The member reads, sorted by disk and address; disjoint, and none touches the next.
    #[must_use]
    pub fn reads(&self) -> &[MemberExtent] {
        &self.parts.reads
    }
    /// The sums that make new parity.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
    /// The summands of a step of this plan.
    #[must_use]
    pub fn terms(&self, range: TermRange) -> &[Term] {
        self.parts.terms(range)
    }
    /// The member writes, sorted by disk and address; disjoint, contiguous ones of one content joined.
    #[must_use]
    pub fn writes(&self) -> &[MemberWrite] {
        &self.writes
    }
    /// Which command of [`WritePlan::reads`] holds block `start` of `disk`, and how many blocks into it.
    #[must_use]
    pub fn find_read(&self, disk: Disk, start: Block) -> Option<(usize, u64)> {
        find(self.reads(), |read| *read, disk, start)
    }
    /// Which command of [`WritePlan::writes`] holds block `start` of `disk`, and how many blocks into it.
    #[must_use]
    pub fn find_write(&self, disk: Disk, start: Block) -> Option<(usize, u64)> {
        find(&self.writes, |write| write.member, disk, start)
    }
    /// Blocks read from members.
    #[must_use]
    pub fn blocks_read(&self) -> u64 {
        self.reads().iter().map(|read| read.extent.blocks).sum()
    }
    /// Blocks written to members, parity and copies included.
    #[must_use]
    pub fn blocks_written(&self) -> u64 {
        self.writes.iter().map(|write| write.member.extent.blocks).sum()
    }
    fn clear(&mut self) {
        self.parts.clear();
        self.steps.clear();
        self.writes.clear();
    }
    fn write(&mut self, disk: Disk, start: u64, blocks: u64, content: Content) {
        let member = MemberExtent { disk, extent: Extent::new(start, blocks) };
        self.writes.push(MemberWrite { member, content });
    }
    fn finish(&mut self) {
        self.parts.finish();
        self.writes.sort_unstable();
        self.writes.dedup_by(|next, last| {
            let touches = next.member.disk == last.member.disk
                && next.member.extent.start.0 == last.member.extent.end();
            let continues = match (last.content, next.content) {
                (Content::Data(a), Content::Data(b)) => b == a.plus(last.member.extent.blocks),
                (a, b) => a == b,
            };
            if touches && continues {
                last.member.extent.blocks += next.member.extent.blocks;
            }
            touches && continues
        });
    }
}

/// Consecutive rows of blocks in which every strip has the same state.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// First offset in the strips.
    start: u64,
    /// One past the last.
    end: u64,
}

impl Band {
    const fn blocks(self) -> u64 {
        self.end - self.start
    }
}

/// Blocks that each method would read in one row; `None` where it cannot work.
#[derive(Clone, Copy, Debug)]
struct Costs {
    modify: Option<u64>,
    reconstruct: Option<u64>,
}

/// State of a strip's blocks in a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Dirty,
    Resident,
    Absent,
}

/// One stripe to be written: the input of a plan.
struct Job<'a> {
    array: &'a Array,
    stripe: Stripe,
    dirty: &'a [u64],
    resident: &'a [u64],
    failed: &'a DiskSet,
    /// Living parity: its strip, and whether it is P or Q.
    parities: [Option<(MemberExtent, Content)>; 2],
}

impl Array {
    /// Replaces `out` by the plan to write the dirty blocks of `stripe` while the disks of `failed` are neither read nor written.
    ///
    /// `dirty` and `resident` are bitmaps over the stripe's data blocks: bit `k` (bit `k % 64` of word `k / 64`) is the `k`-th in
    /// address order. Dirty blocks differ from disk and are in memory; resident ones equal the disk and are in memory, and a dirty
    /// block may be marked resident or not. No dirty block, empty plan. After an error `out` is empty.
    ///
    /// # Errors
    /// [`WriteError::PastEnd`] when there is no such stripe; [`WriteError::Lost`] when a dirty block would have no place:
    /// all its copies failed, or more members failed than the stripe has parity for.
    ///
    /// # Panics
    /// When a bitmap is shorter than [`Array::stripe_blocks`], or a dirty bit lies beyond the volume's end.
    pub fn write_plan_into(
        &self,
        stripe: Stripe,
        dirty: &[u64],
        resident: &[u64],
        failed: &DiskSet,
        out: &mut WritePlan,
    ) -> Result<(), WriteError> {
        out.clear();
        if stripe.0 >= self.stripes() {
            return Err(WriteError::PastEnd { stripe, stripes: self.stripes() });
        }
        let bits = self.stripe_blocks();
        assert!(dirty.len().min(resident.len()) as u64 >= bits.div_ceil(64), "bitmaps cover the stripe");
        let inside = self.stripe_extent(stripe).blocks;
        assert!(bits::next_set(dirty, inside, bits) == bits, "dirty blocks lie in the volume");
        let done = if self.spec().level().parities() == 0 {
            self.write_copies(stripe, dirty, failed, out)
        } else {
            Job::new(self, stripe, dirty, resident, failed).and_then(|job| job.plan(out))
        };
        match done {
            Some(()) => out.finish(),
            None => out.clear(),
        }
        let (failed, disks) = (failed.len(), self.disks());
        done.ok_or(WriteError::Lost { stripe, failed, disks })
    }

    /// Writes without parity: each dirty run of each strip to every living copy. `None` when it has none.
    fn write_copies(
        &self,
        stripe: Stripe,
        dirty: &[u64],
        failed: &DiskSet,
        out: &mut WritePlan,
    ) -> Option<()> {
        let (strip_blocks, bits) = (self.strip_blocks(), self.stripe_blocks());
        let first_block = stripe.0 * bits;
        let mut at = bits::next_set(dirty, 0, bits);
        while at < bits {
            let (index, offset) = self.strip.split(at);
            let end = bits::run_end(dirty, at, (index + 1) * strip_blocks);
            let mut alive = false;
            for copy in 0..u64::from(self.copies_per_block()) {
                let (disk, start) = self.strip_start(stripe, index, copy);
                if !failed.contains(disk) {
                    alive = true;
                    out.write(disk, start + offset, end - at, Content::Data(Block(first_block + at)));
                }
            }
            if !alive {
                return None;
            }
            at = bits::next_set(dirty, end, bits);
        }
        Some(())
    }
}

impl<'a> Job<'a> {
    /// `None` when something is dirty and more members have failed than parity makes up for.
    fn new(
        array: &'a Array,
        stripe: Stripe,
        dirty: &'a [u64],
        resident: &'a [u64],
        failed: &'a DiskSet,
    ) -> Option<Self> {
        let bits = array.stripe_blocks();
        let writes = bits::next_set(dirty, 0, bits) < bits;
        let lost = (0..array.disks()).filter(|&disk| failed.contains(Disk(disk))).count();
        if writes && lost > usize::from(array.redundancy()) {
            return None;
        }
        let alive = |strip: MemberExtent| !failed.contains(strip.disk);
        let p = array.p_strip(stripe).filter(|&strip| alive(strip)).map(|strip| (strip, Content::P));
        let q = array.q_strip(stripe).filter(|&strip| alive(strip)).map(|strip| (strip, Content::Q));
        Some(Self { array, stripe, dirty, resident, failed, parities: [p, q] })
    }

    fn strips(&self) -> u64 {
        self.array.stripe_strips()
    }
    /// Bit of the block at `offset` of strip `index`.
    fn bit(&self, index: u64, offset: u64) -> u64 {
        index * self.array.strip_blocks() + offset
    }
    /// The block of the volume at `offset` of strip `index`.
    fn block(&self, index: u64, offset: u64) -> Block {
        Block(self.stripe.0 * self.array.stripe_blocks() + self.bit(index, offset))
    }
    fn cell(&self, index: u64, band: Band) -> Cell {
        let bit = self.bit(index, band.start);
        match (bits::get(self.dirty, bit), bits::get(self.resident, bit)) {
            (true, _) => Cell::Dirty,
            (false, true) => Cell::Resident,
            (false, false) => Cell::Absent,
        }
    }
    /// The member and its first block of the band, and whether it is alive.
    fn member(&self, index: u64, band: Band) -> (Disk, u64, bool) {
        let (disk, start) = self.array.strip_start(self.stripe, index, 0);
        (disk, start + band.start, !self.failed.contains(disk))
    }

    /// The bands that hold a dirty block, in order.
    fn bands(&self) -> impl Iterator<Item = Band> + '_ {
        let strip = self.array.strip_blocks();
        let mut at = 0;
        core::iter::from_fn(move || {
            while at < strip {
                let (mut end, mut any_dirty) = (strip, false);
                for index in 0..self.strips() {
                    let (from, limit, base) = (self.bit(index, at), self.bit(index, end), self.bit(index, 0));
                    let is_dirty = bits::get(self.dirty, from);
                    any_dirty |= is_dirty;
                    end = bits::run_end(self.dirty, from, limit) - base;
                    if !is_dirty {
                        end = bits::run_end(self.resident, from, base + end) - base;
                    }
                }
                let band = Band { start: at, end };
                at = end;
                if any_dirty {
                    return Some(band);
                }
            }
            None
        })
    }

    fn costs(&self, band: Band) -> Costs {
        let parities = self.parities.iter().flatten().count() as u64;
        let mut costs = Costs { modify: Some(parities), reconstruct: Some(0) };
        for index in 0..self.strips() {
            let alive = self.member(index, band).2;
            let cost = match self.cell(index, band) {
                Cell::Dirty => &mut costs.modify,
                Cell::Absent => &mut costs.reconstruct,
                Cell::Resident => continue,
            };
            *cost = if alive { cost.map(|blocks| blocks + 1) } else { None };
        }
        costs
    }

    /// The method for the bands that leave a choice: the one that reads fewer blocks over all of them.
    fn preferred(&self) -> Method {
        let (mut modify, mut reconstruct) = (0, 0);
        for band in self.bands() {
            if let Costs { modify: Some(m), reconstruct: Some(r) } = self.costs(band)
                && r != 0
            {
                modify += m * band.blocks();
                reconstruct += r * band.blocks();
            }
        }
        if modify < reconstruct { Method::ReadModifyWrite } else { Method::Reconstruct }
    }

    fn plan(&self, out: &mut WritePlan) -> Option<()> {
        let preferred = self.preferred();
        for band in self.bands() {
            for index in 0..self.strips() {
                let (disk, start, alive) = self.member(index, band);
                if alive && self.cell(index, band) == Cell::Dirty {
                    let content = Content::Data(self.block(index, band.start));
                    out.write(disk, start, band.blocks(), content);
                }
            }
            let method = match self.costs(band) {
                Costs { reconstruct: Some(0), .. } => Method::Reconstruct,
                Costs { modify: Some(_), reconstruct: Some(_) } => preferred,
                Costs { modify: Some(_), reconstruct: None } => Method::ReadModifyWrite,
                Costs { modify: None, reconstruct: Some(_) } => Method::Reconstruct,
                Costs { modify: None, reconstruct: None } => Method::Decode,
            };
            for &(strip, content) in self.parities.iter().flatten() {
                let start = strip.extent.start.0 + band.start;
                let mark = out.parts.mark();
                match method {
                    Method::ReadModifyWrite => self.modify(band, strip.disk, start, content, &mut out.parts),
                    Method::Reconstruct => self.reconstruct(band, content, None, &mut out.parts),
                    Method::Decode => self.decode(band, content, &mut out.parts)?,
                }
                let (terms, blocks) = (out.parts.since(mark), band.blocks());
                out.steps.push(Step { disk: strip.disk, start: Block(start), blocks, method, terms });
                out.write(strip.disk, start, blocks, content);
            }
        }
        Some(())
    }

    /// Factor of data strip `index` in a parity.
    fn factor(content: Content, index: u64) -> u8 {
        match content {
            Content::Q => gf::exp(index),
            Content::P | Content::Data(_) => 1,
        }
    }

    fn modify(&self, band: Band, disk: Disk, start: u64, content: Content, parts: &mut Parts) {
        parts.add_read(1, disk, start, band.blocks());
        for index in 0..self.strips() {
            if self.cell(index, band) == Cell::Dirty {
                let factor = Self::factor(content, index);
                let (disk, start, _) = self.member(index, band);
                parts.add_memory(factor, self.block(index, band.start));
                parts.add_read(factor, disk, start, band.blocks());
            }
        }
    }

    /// Sums up all data; `lost` adds the blocks of a strip that is neither readable nor in memory, by
    /// their own sum over the survivors as the disks hold them.
    fn reconstruct(&self, band: Band, content: Content, lost: Option<Lost>, parts: &mut Parts) {
        let blocks = band.blocks();
        let scale = lost.map_or(0, |lost| Self::factor(content, lost.index));
        for index in (0..self.strips()).filter(|&index| lost.is_none_or(|lost| lost.index != index)) {
            let (disk, start, alive) = self.member(index, band);
            let factor = Self::factor(content, index);
            let in_lost = match lost {
                Some(lost) if alive => gf::mul(scale, lost.decode.data(index)),
                _ => 0,
            };
            let memory = self.block(index, band.start);
            match self.cell(index, band) {
                Cell::Dirty => {
                    parts.add_memory(factor, memory);
                    parts.add_read(in_lost, disk, start, blocks);
                }
                Cell::Resident => parts.add_memory(factor ^ in_lost, memory),
                Cell::Absent => parts.add_read(factor ^ in_lost, disk, start, blocks),
            }
        }
        let Some(lost) = lost else { return };
        for &(strip, content) in self.parities.iter().flatten() {
            let in_lost = if content == Content::Q { lost.decode.q } else { lost.decode.p };
            parts.add_read(gf::mul(scale, in_lost), strip.disk, strip.extent.start.0 + band.start, blocks);
        }
    }

    /// A reconstruction around the failed, clean and absent strip. `None` if the survivors do not determine it.
    fn decode(&self, band: Band, content: Content, parts: &mut Parts) -> Option<()> {
        let is_lost = |&index: &u64| self.cell(index, band) == Cell::Absent && !self.member(index, band).2;
        let index = (0..self.strips()).find(is_lost)?;
        let decode = self.array.decode(self.stripe, index, self.failed)?;
        self.reconstruct(band, content, Some(Lost { index, decode }), parts);
        Some(())
    }
}

/// A strip that is neither readable nor in memory, and how it follows from the others.
#[derive(Clone, Copy, Debug)]
struct Lost {
    index: u64,
    decode: super::plan::Decode,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_has_grown_is_filled_again_without_allocation() {
        let array = Array::new("raid6:6x16KiB".parse().expect("valid"), 1 << 10).expect("fits");
        let mut plan = WritePlan::new();
        let mut sizes = [(0, 0, 0); 2];
        for size in &mut sizes {
            for stripe in 0..6 {
                for dirty in [0x8421, 0xffff, 0x0f33, 1] {
                    array
                        .write_plan_into(Stripe(stripe), &[dirty], &[0x0a50], &DiskSet::EMPTY, &mut plan)
                        .expect("healthy");
                }
            }
            *size = (plan.steps.capacity(), plan.writes.capacity(), plan.parts.reads.capacity());
        }
        assert_eq!(sizes[0], sizes[1]);
    }
}
