//! One I/O of a trace, whatever format it came from, and a whole trace in memory.
//!
//! A record is what a program (or, in a block trace, a file system) asked for: bytes as asked, when, by whom, of which
//! device or file. Two things are known to some sources only and are optional: how long the request took (`took`, from
//! which a replay learns how long the program computed between two requests), and how large each file was (a prefetcher
//! stops at the end of a file, and the end is not where a program happened to stop reading).

use forerun_core::access::Op;
use forerun_core::units::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// Number of an interned string of a [`Trace`]. Zero is the empty string: "not in the source".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u32);

impl Name {
    /// The source said nothing.
    pub const ABSENT: Self = Self(0);
}

/// The name of a file as a trace has it: text, and where it is none each byte as `\xNN`, so that two files never have one name for that.
#[must_use]
pub fn file_name(bytes: &[u8]) -> String {
    let mut name = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        name.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| name.push_str(&format!("\\x{byte:02x}")));
    }
    name
}

/// One request as the source recorded it: bytes as asked, not yet cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was issued, from the trace's own zero; `None` where the source has no times.
    pub time: Option<Nanos>,
    /// How long the program waited for its answer; `None` where the source has no completions.
    pub took: Option<Nanos>,
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

impl Record {
    /// A read of no bytes of nothing by nobody, to fill in.
    pub const BLANK: Self = Self {
        time: None,
        took: None,
        device: Name::ABSENT,
        process: Name::ABSENT,
        file: Name::ABSENT,
        offset: 0,
        bytes: 0,
        op: Op::Read,
    };
}

/// A whole trace: records in the order of the source, and the strings that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// `names[i]` is the string of `Name(i)`; `names[0]` is empty.
    pub names: Vec<String>,
    /// The requests, in the order of the source.
    pub records: Vec<Record>,
    /// Bytes of each file (device, file) whose size the source told; a record may still reach beyond it, where a
    /// file grew.
    pub file_sizes: BTreeMap<(Name, Name), u64>,
    /// What the recording says of the machine on which it was made, by key; empty where it says nothing.
    pub about: BTreeMap<String, String>,
    /// Records that `--skip-bad` passed over.
    pub skipped: u64,
    /// Events of the source that are well formed and no request for a file's or device's data: other system calls,
    /// reads of pipes, tracepoints of other kinds. They are not in the trace.
    pub passed_over: u64,
    /// Short name of the format it was read from, e.g. `msr`.
    pub format: String,
    /// In which units its numbers were taken to be, and how to say otherwise, where nothing in the file says so.
    pub assumed: Option<String>,
}

/// Key of [`Trace::about`]: how long the recorded command ran, from its start to its end, ns.
pub const COMMAND_NS: &str = "command_ns";

impl Trace {
    /// How long the recorded command ran before its first request and after the answer to its last one: time that no way of
    /// reading makes shorter. Zero where the recording does not say how long it ran, or not when all requests were made.
    #[must_use]
    pub fn outside(&self) -> Nanos {
        let ran = self.about.get(COMMAND_NS).and_then(|text| text.parse().ok()).map(Nanos);
        let times: Option<Vec<Nanos>> = self.records.iter().map(|record| record.time).collect();
        let (Some(ran), Some(times)) = (ran, times) else { return Nanos::ZERO };
        let answers =
            self.records.iter().zip(&times).map(|(record, &time)| time + record.took.unwrap_or(Nanos::ZERO));
        let span =
            answers.max().zip(times.iter().min()).map_or(Nanos::ZERO, |(end, &start)| end.since(start));
        ran.since(span)
    }

    /// Notes that a file has at least `bytes`.
    pub fn know_size(&mut self, device: Name, file: Name, bytes: u64) {
        let known = self.file_sizes.entry((device, file)).or_default();
        *known = bytes.max(*known);
    }

    /// The devices of which some request moves a byte, in the order in which they first appear.
    #[must_use]
    pub fn devices(&self) -> Vec<Name> {
        let mut seen = BTreeSet::new();
        let moving = self.records.iter().filter(|record| record.bytes > 0);
        moving.map(|record| record.device).filter(|&device| seen.insert(device)).collect()
    }
}
