//! What is asked of a target: readers, each with a pattern, a request size and a depth.

use forerun_core::units::{Nanos, SECTOR_BYTES, SECTORS_PER_BLOCK};
use forerun_disk::random::SplitMix;
use std::io;

/// Where a reader reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Blocks anywhere in `sectors` from `first` on.
    Random {
        /// First sector.
        first: u64,
        /// Sectors of the range.
        sectors: u64,
    },
    /// One request every `stride` sectors; as long as the request, it is sequential.
    Strided {
        /// First sector.
        first: u64,
        /// Sectors from one start to the next.
        stride: u64,
    },
    /// These sectors, one after another, and again.
    List(Vec<u64>),
}

/// One reader: as soon as a request ends it issues the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Where.
    pub pattern: Pattern,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight.
    pub depth: usize,
}

impl Reader {
    /// Sectors of a request.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.bytes.div_ceil(SECTOR_BYTES)
    }

    /// First sector of its request number `index`, on a device of `sectors`.
    #[must_use]
    pub fn at(&self, index: u64, seed: u64, sectors: u64) -> u64 {
        let last = sectors.saturating_sub(self.sectors());
        let at = match &self.pattern {
            Pattern::Random { first, sectors: range } => {
                let range = (*range).min(sectors.saturating_sub(*first)).saturating_sub(self.sectors());
                // Each place is a function of its number, so that many threads need no common generator.
                let mut chance = SplitMix::new(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                first + chance.below((range / SECTORS_PER_BLOCK).max(1)) * SECTORS_PER_BLOCK
            }
            Pattern::Strided { first, stride } => {
                let room = ((last + 1) / SECTORS_PER_BLOCK * SECTORS_PER_BLOCK).max(1);
                (first + index * stride) % room / SECTORS_PER_BLOCK * SECTORS_PER_BLOCK
            }
            Pattern::List(list) => {
                let place = usize::try_from(index % list.len().max(1) as u64).unwrap_or(0);
                list.get(place).copied().unwrap_or(0)
            }
        };
        at.min(last)
    }
}

/// Readers that run together until one of the limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The readers.
    pub readers: Vec<Reader>,
    /// Requests of all readers together, at most.
    pub requests: u64,
    /// No request begins after this time.
    pub time: Nanos,
    /// Seed of the random places.
    pub seed: u64,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of its reader.
    pub reader: usize,
    /// Its first sector.
    pub lba: u64,
    /// When it was issued, ns of the target's clock.
    pub issued: u64,
    /// When it ended.
    pub ended: u64,
}

impl Done {
    /// How long it took, ns.
    #[must_use]
    pub fn took(&self) -> f64 {
        self.ended.saturating_sub(self.issued) as f64
    }
}

/// What can be read: a device, or a model of one.
pub trait Target {
    /// Its size in 512-byte sectors.
    fn sectors(&self) -> u64;

    /// Runs a load to its end; what has ended, in the order of ending.
    ///
    /// # Errors
    /// What the device answered to a read.
    fn run(&mut self, load: &Load) -> io::Result<Vec<Done>>;

    /// Leaves it alone for a while.
    fn rest(&mut self, time: Nanos);
}
