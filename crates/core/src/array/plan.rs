//! What read plans and write plans are made of: member extents, and sums whose terms name blocks.
//!
//! Every computation in an array is linear over GF(2^8): parity from data, parity from its old value and a
//! change, a lost strip from the others. So a plan needs one form only: *target = Σ factor · source*, over equal
//! runs of blocks. A factor of 1 is an XOR. Sources are addresses, not indices: blocks of a member
//! that the plan reads, or blocks of the volume that are in memory. The host finds the buffer of a member address by
//! binary search in the plan's sorted commands ([`super::ReadPlan::find`], [`super::WritePlan::find_read`]).

use super::gf;
use crate::units::{Block, Disk, Extent};
use alloc::vec::Vec;

/// A run of blocks on one member disk: one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberExtent {
    /// The member.
    pub disk: Disk,
    /// Blocks of the member.
    pub extent: Extent,
}

/// Where the first block of a term is; the others follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Inside one of the plan's member reads, that is: as the disk had it before the plan writes anything.
    Read {
        /// The member.
        disk: Disk,
        /// Block of the member.
        start: Block,
    },
    /// The current content of this block of the volume, in memory: dirty or resident.
    Memory(Block),
}

/// One summand: `factor · source`, block by block, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// What is added.
    pub source: Source,
    /// Its coefficient, an element of GF(2^8) (see [`gf`]); never 0. With 1 the term is simply XORed.
    pub factor: u8,
}

/// Which of a plan's terms make one sum. Only the plan that it came from can resolve it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermRange {
    first: u32,
    count: u32,
}

/// Commands and terms under construction, shared by both kinds of plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// Member reads: raw wishes at first, sorted and merged by [`Parts::finish`].
    pub(super) reads: Vec<MemberExtent>,
    pub(super) terms: Vec<Term>,
}

impl Parts {
    pub(super) fn clear(&mut self) {
        self.reads.clear();
        self.terms.clear();
    }
    /// Wishes for a member read.
    pub(super) fn read(&mut self, disk: Disk, start: u64, blocks: u64) {
        self.reads.push(MemberExtent { disk, extent: Extent::new(start, blocks) });
    }
    /// Adds a term of which the source must be read; one without effect is left out, and not read for.
    pub(super) fn add_read(&mut self, factor: u8, disk: Disk, start: u64, blocks: u64) {
        if factor != 0 {
            self.read(disk, start, blocks);
            self.terms.push(Term { source: Source::Read { disk, start: Block(start) }, factor });
        }
    }
    /// Adds a term of which the source is in memory.
    pub(super) fn add_memory(&mut self, factor: u8, block: Block) {
        if factor != 0 {
            self.terms.push(Term { source: Source::Memory(block), factor });
        }
    }
    /// Where the next term will stand: to be handed to [`Parts::since`] when the sum is complete.
    pub(super) fn mark(&self) -> u32 {
        self.terms.len() as u32
    }
    /// The terms added since `mark`.
    pub(super) fn since(&self, mark: u32) -> TermRange {
        TermRange { first: mark, count: self.mark() - mark }
    }
    pub(super) fn terms(&self, range: TermRange) -> &[Term] {
        &self.terms[range.first as usize..][..range.count as usize]
    }
    /// Sorts the reads by disk and address and joins those that touch or overlap.
    pub(super) fn finish(&mut self) {
        if self.reads.len() < 2 {
            return;
        }
        self.reads.sort_unstable();
        self.reads.dedup_by(|next, last| {
            let joins = next.disk == last.disk && next.extent.start.0 <= last.extent.end();
            if joins {
                let end = last.extent.end().max(next.extent.end());
                last.extent.blocks = end - last.extent.start.0;
            }
            joins
        });
    }
}

/// Which of `commands` (sorted, disjoint) holds block `start` of `disk`, and how many blocks into it.
pub(super) fn find<T>(
    commands: &[T],
    member: impl Fn(&T) -> MemberExtent,
    disk: Disk,
    start: Block,
) -> Option<(usize, u64)> {
    let key = (disk, start);
    let after = commands.partition_point(|c| (member(c).disk, member(c).extent.start) <= key);
    let index = after.checked_sub(1)?;
    let found = member(&commands[index]);
    (found.disk == disk && found.extent.contains(start)).then(|| (index, start.0 - found.extent.start.0))
}

/// How one lost data strip follows from what is left: D_x = p·P + q·Q + Σ (p + q·g^i)·D_i over the surviving
/// data strips i ("The mathematics of RAID-6", section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decode {
    /// Factor of P; 0 when P is not needed.
    pub(super) p: u8,
    /// Factor of Q; 0 when Q is not needed.
    pub(super) q: u8,
}

impl Decode {
    /// For data strip `x` when P and Q are alive as told and data strip `other` is lost as well (if any).
    /// `None` when the survivors do not determine it.
    pub(super) fn new(x: u64, other: Option<u64>, p_alive: bool, q_alive: bool) -> Option<Self> {
        match other {
            None if p_alive => Some(Self { p: 1, q: 0 }),
            None if q_alive => Some(Self { p: 0, q: gf::inv(gf::exp(x)) }),
            Some(y) if p_alive && q_alive => {
                // g^y·P' + Q' = (g^y + g^x)·D_x, where ' adds the surviving data.
                let q = gf::inv(gf::exp(x) ^ gf::exp(y));
                Some(Self { p: gf::mul(gf::exp(y), q), q })
            }
            _ => None,
        }
    }
    /// Factor of surviving data strip `i`.
    pub(super) fn data(self, i: u64) -> u8 {
        self.p ^ gf::mul(self.q, gf::exp(i))
    }
}
