//! One I/O of a trace, whatever format it came from, and a whole trace in memory.

use forerun_core::access::Op;
use forerun_core::units::Nanos;

/// Number of an interned string of a [`Trace`]. Zero is the empty string: "not in the source".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

impl Name {
    /// The source said nothing.
    pub const ABSENT: Self = Self(0);
}

/// One request as the source recorded it: bytes as asked, not yet cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was issued, from the trace's own zero; `None` where the source has no times.
    pub time: Option<Nanos>,
    /// Device it went to.
    pub device: Name,
    /// Who issued it: a process, a client.
    pub process: Name,
    /// File it belongs to; offsets are then within that file.
    pub file: Name,
    /// First byte, on the device or in the file.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Read or write.
    pub op: Op,
}

/// A whole trace: records in the order of the source, and the strings that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// `names[i]` is the string of `Name(i)`; `names[0]` is empty.
    pub names: Vec<String>,
    /// The requests, in the order of the source.
    pub records: Vec<Record>,
    /// Records that `--skip-bad` passed over.
    pub skipped: u64,
    /// Short name of the format it was read from, e.g. `msr`.
    pub format: String,
}
