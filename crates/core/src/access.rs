//! What a host tells the engine that somebody wants: an access, and who wants it.

use crate::units::Extent;

/// Who reads: a process, a file, a connection. The host interns names to numbers; the engine only compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(pub u64);

/// Bits of a [`Context`] that number the file; the process is numbered above them. 2^40 files, 2^24 processes.
pub const FILE_BITS: u32 = 40;

impl Context {
    /// A process that reads a file: what Linux keeps its read-ahead state for. A host that knows neither leaves both 0,
    /// and numbers connections or clients as processes.
    #[must_use]
    pub const fn new(process: u64, file: u64) -> Self {
        Self((process << FILE_BITS) | (file & ((1 << FILE_BITS) - 1)))
    }
    /// Number of the process.
    #[must_use]
    pub const fn process(self) -> u64 {
        self.0 >> FILE_BITS
    }
    /// Number of the file, the same for every process that reads it.
    #[must_use]
    pub const fn file(self) -> u64 {
        self.0 & ((1 << FILE_BITS) - 1)
    }
}

/// What an access does to its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Wants the last acknowledged content.
    Read,
    /// Replaces the content.
    Write,
}

/// What a program has said of how it will read a file (`posix_fadvise`). Only what models a kernel's read-ahead hears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Advice {
    /// Nothing, or that it is as usual.
    #[default]
    Normal,
    /// In no order: `POSIX_FADV_RANDOM`.
    Random,
    /// From its beginning to its end: `POSIX_FADV_SEQUENTIAL`.
    Sequential,
}

/// One request of a host to a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who asks.
    pub context: Context,
    /// Read or write.
    pub op: Op,
    /// All blocks touched.
    pub extent: Extent,
    /// The part that a program asked for. A layer above may have added read-ahead: the rest of `extent`
    /// carries the read-ahead tag down to the device's scheduler. Equal to `extent` for a plain request.
    pub demand: Extent,
    /// The file that it lies in: read-ahead on its behalf never leaves it. The whole volume where not known.
    pub within: Extent,
    /// What the program has said of the file.
    pub advice: Advice,
}

/// No file is known: everything.
const ANYWHERE: Extent = Extent::new(0, u64::MAX);

impl Access {
    /// A read in which every block was asked for by a program.
    #[must_use]
    pub const fn read(context: Context, extent: Extent) -> Self {
        Self { context, op: Op::Read, extent, demand: extent, within: ANYWHERE, advice: Advice::Normal }
    }
    /// A write of whole blocks.
    #[must_use]
    pub const fn write(context: Context, extent: Extent) -> Self {
        Self { context, op: Op::Write, extent, demand: extent, within: ANYWHERE, advice: Advice::Normal }
    }
}

/// How the cache answered one block of a read (design.md, "Words").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Had been read since it was loaded.
    CacheHit,
    /// Loaded by a prefetch, first use.
    PrefetchHit,
    /// A prefetch of it is still in flight.
    LateHit,
    /// Not here.
    Miss,
    /// Not here, but another reader's fetch of it is in flight.
    MergedMiss,
}

impl Outcome {
    /// Whether the block must be fetched for this access.
    #[must_use]
    pub const fn is_miss(self) -> bool {
        matches!(self, Self::Miss)
    }
}

/// How the cache answered a whole access.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// One per block of the access, in block order. Empty for a write.
    pub outcomes: &'a [Outcome],
}

impl Lookup<'_> {
    /// Whether any block must be fetched.
    #[must_use]
    pub fn any_miss(&self) -> bool {
        self.outcomes.iter().any(|o| o.is_miss())
    }
}
