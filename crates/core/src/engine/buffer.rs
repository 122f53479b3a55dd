//! What a host is told about bytes: where those of a member command are, and which sums of buffers make parity or a
//! lost block. Plain data below all that names it: fetches, rebuilds and destage jobs.

use crate::slots::Slot;
use alloc::vec::Vec;

/// Where the bytes of one block of a member command are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// A block of the cache.
    Cache(Slot),
    /// Working memory for parity and rebuilding.
    Staging(Slot),
    /// Nobody wants it.
    Discard,
}

/// `target = Σ factor · source` over GF(2^8), one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CombineStep {
    /// Where the sum goes.
    pub target: Option<Buffer>,
    /// Factor and source of each summand; a factor of 1 is an XOR.
    pub terms: Vec<(u8, Buffer)>,
}
