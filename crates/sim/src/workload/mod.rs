//! Workloads: programs that exist only as the requests they make.
//!
//! A workload is one line (`forward:processes=4,size=2GiB,block=4KiB`) or a `[workload]` table of a spec file. A
//! part of it is a *shape* with keys; parts joined by `then` are phases that the same processes go through one
//! after another over the same data, and parts joined by `and` are streams: other processes with data of their
//! own, side by side. Each process becomes one [`Source`], which yields its requests one by one: the host issues
//! a request, waits for it, lets the think time pass and asks for the next, so there is one request outstanding
//! per process (design, "Workload words"). What a process asks for never depends on the others or on the time,
//! only on the line and the seed; what lies where on the volume depends on the line alone. The shapes are rows
//! of one table (`shapes.rs`), which also feeds the help texts; shapes that stand for a program that we cannot
//! run in virtual time are called `standin-…`, and their documentation cites where each number comes from.

mod boot;
mod dbench;
mod grammar;
mod linear;
mod link;
mod plan;
mod postmark;
mod scatter;
mod shape;
mod shapes;
mod streams;
mod tpch;
mod tree;
mod value;

use crate::random::Rng;
use forerun_core::access::{Context, FILE_BITS, Op};
use forerun_core::units::Nanos;
use forerun_trace::record::{Name, Record, Trace};
use plan::{Chain, Home, Plan};
use std::sync::Arc;

pub use shape::{KeyInfo, ShapeInfo};

/// Bit of a [`Context`] at which the number of the process starts; below it is the file within the process's
/// stream, because a host keeps the state of its read-ahead per open file.
pub(crate) const PROCESS_SHIFT: u32 = FILE_BITS;
/// Requests of a process that are compared between two seeds.
const LOOKED_AT: usize = 4096;
/// Processes of one workload, all streams together: their number must fit above [`PROCESS_SHIFT`].
pub const PROCESSES_MAX: u64 = 1 << 20;

/// One request of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How long the process computes before it issues this, counted from the completion of its previous request.
    pub think: Nanos,
    /// The process and the file it reads: see [`process_of`].
    pub context: Context,
    /// Read or write.
    pub op: Op,
    /// First byte, in the volume: the files of a workload lie one after another.
    pub offset: u64,
    /// How many bytes, at least one.
    pub bytes: u64,
    /// Not issued before this instant of virtual time, whatever its think time; zero where there is no such instant.
    pub due: Nanos,
    /// An answer after this instant is late; `None` where nobody counts.
    pub deadline: Option<Nanos>,
    /// How many earlier requests of the process may be without an answer when this one is issued, beyond those that
    /// the drive lets through anyway. Its think time counts from the answer that leaves so many. Zero in workloads.
    pub overlap: u64,
    /// A write that reaches the end of its file: nothing is stored where it ends.
    pub appends: bool,
    /// A write to blocks in which nothing is stored: they lie behind the end of its file.
    pub fresh: bool,
}

/// The requests of one process, in its order.
pub trait Source: Send {
    /// The next request, to be issued [`Request::think`] after the previous one completed; `None` at the end,
    /// and from then on.
    fn next(&mut self) -> Option<Request>;
}

/// The number of the process in a context that a workload made.
#[must_use]
pub const fn process_of(context: Context) -> u64 {
    context.process()
}

/// Why a text is not a workload. Each message says what would be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// Nothing where a shape should stand.
    #[error("a workload starts with a shape, as in `forward:size=1GiB`; shapes: {known}")]
    NoShape {
        /// All shapes.
        known: String,
    },
    /// A shape that does not exist.
    #[error("there is no workload shape `{name}`{hint}; shapes: {known}")]
    Shape {
        /// What was written.
        name: String,
        /// `; did you mean …?` or nothing.
        hint: String,
        /// All shapes.
        known: String,
    },
    /// A key that the shape does not have.
    #[error("`{shape}` has no key `{key}`{hint}; its keys: {known}")]
    Key {
        /// The shape.
        shape: String,
        /// What was written.
        key: String,
        /// `; did you mean …?` or nothing.
        hint: String,
        /// Its keys with their defaults.
        known: String,
    },
    /// A key without a value, or given twice.
    #[error("`{shape}`: `{part}` {problem}; write key=value once, keys separated by commas")]
    Pair {
        /// The shape.
        shape: String,
        /// What was written.
        part: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A value that the key cannot have.
    #[error("`{shape}`: `{key}={value}`: expected {expected}")]
    Value {
        /// The shape.
        shape: String,
        /// The key.
        key: String,
        /// What was written.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// Values that are possible alone and impossible together.
    #[error("`{shape}`: {reason}")]
    Together {
        /// The shape.
        shape: String,
        /// Which values, and the remedy.
        reason: String,
    },
    /// A TOML document without a workload, or with one of another form.
    #[error("{reason}")]
    Toml {
        /// What was expected, with the line where the parser knows it.
        reason: String,
    },
}

/// A shape with all its keys set.
#[derive(Clone, Debug)]
struct Part {
    row: &'static shape::Row,
    /// One number per key of the row, in its order and the key's own unit.
    values: Vec<u64>,
    plan: Arc<dyn Plan>,
}

/// A parsed workload. [`Display`](std::fmt::Display) prints it as one line with every default filled in, which
/// parses to the same workload again.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Streams side by side; each a list of phases, one after another.
    streams: Vec<Vec<Part>>,
}

impl PartialEq for Workload {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}
impl Eq for Workload {}

/// The extent of one stream on the volume.
struct Region {
    base: u64,
    bytes: u64,
    processes: u64,
}

impl Workload {
    /// Reads the one-line form: `shape:key=value,…`, phases joined by `then`, streams by `and`.
    ///
    /// # Errors
    /// [`WorkloadError`], which names what is wrong and lists what exists.
    pub fn parse(line: &str) -> Result<Self, WorkloadError> {
        grammar::parse_line(line)
    }

    /// Reads the `workload` of a TOML document: a table (`shape = "forward"` and its keys), an array of tables
    /// (streams side by side), or the one-line form as a string. A table may have `then = [{shape = …}, …]`, its
    /// later phases. Other keys of the document are not looked at.
    ///
    /// # Errors
    /// [`WorkloadError`], as for [`Workload::parse`].
    pub fn from_toml(document: &str) -> Result<Self, WorkloadError> {
        grammar::parse_toml(document)
    }

    /// The same workload as `[[workload]]` tables, every key written out.
    #[must_use]
    pub fn to_toml(&self) -> String {
        grammar::print_toml(&self.streams)
    }

    /// Every shape with its keys, for help texts.
    #[must_use]
    pub fn shapes() -> Vec<ShapeInfo> {
        shapes::ROWS.iter().map(shape::Row::info).collect()
    }

    /// Bytes of the volume that the workload needs: every request lies below it.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        self.regions().last().map_or(0, |r| r.base + r.bytes)
    }

    /// Whether a part of it is made of client streams (`streams`), of which each is worth a measure of its own.
    #[must_use]
    pub fn is_of_streams(&self) -> bool {
        self.streams.iter().flatten().any(|part| part.row.name == streams::NAME)
    }

    /// Processes, all streams together: the length of [`Workload::sources`].
    #[must_use]
    pub fn processes(&self) -> u64 {
        self.regions().iter().map(|r| r.processes).sum()
    }

    /// First byte of each file in the volume, ascending from 0. A stream whose phases cut its data into
    /// different files counts as one file.
    #[must_use]
    pub fn files(&self) -> Vec<u64> {
        let mut starts = Vec::new();
        for (stream, region) in self.streams.iter().zip(self.regions()) {
            let first = stream[0].plan.files();
            let same = stream.iter().all(|part| part.plan.files() == first);
            let local = if same { first } else { vec![0] };
            starts.extend(local.iter().map(|at| region.base + at));
        }
        starts
    }

    /// The requests of each process, for one seed.
    #[must_use]
    pub fn sources(&self, seed: u64) -> Vec<Box<dyn Source>> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for ((number, stream), region) in self.streams.iter().enumerate().zip(self.regions()) {
            let root = Rng::new(seed).split(number as u64);
            for process in 0..region.processes {
                let context = (sources.len() as u64) << PROCESS_SHIFT;
                let phases = stream.iter().enumerate().filter(|(_, part)| process < part.plan.processes());
                let chain = phases.map(|(phase, part)| {
                    let common = root.split(phase as u64);
                    let rng = common.split(process);
                    part.plan.source(process, Home { base: region.base, context, rng, common })
                });
                sources.push(Chain::over(chain.collect()));
            }
        }
        sources
    }

    /// Whether another seed makes other requests, told by the first [`LOOKED_AT`] of each process.
    #[must_use]
    pub fn follows_seed(&self) -> bool {
        let mut pairs = self.sources(1).into_iter().zip(self.sources(2));
        pairs.any(|(mut one, mut other)| (0..LOOKED_AT).any(|_| one.next() != other.next()))
    }

    /// All requests as a trace without times: processes take turns, one request each, and each request names
    /// its process (`p0`, `p1`, …) and its file (`f0`, …), with the offset within that file.
    #[must_use]
    pub fn to_trace(&self, seed: u64) -> Trace {
        let files = self.files();
        let mut sources = self.sources(seed);
        let mut names = vec![String::new()];
        let process_base = 1_u32;
        names.extend((0..sources.len()).map(|i| format!("p{i}")));
        let file_base = process_base + sources.len() as u32;
        names.extend((0..files.len()).map(|i| format!("f{i}")));
        let mut records = Vec::new();
        let mut live: Vec<usize> = (0..sources.len()).collect();
        while !live.is_empty() {
            live.retain(|&process| {
                let Some(request) = sources[process].next() else { return false };
                let file = files.partition_point(|&start| start <= request.offset) - 1;
                records.push(Record {
                    process: Name(process_base + process as u32),
                    file: Name(file_base + file as u32),
                    offset: request.offset - files[file],
                    bytes: request.bytes,
                    op: request.op,
                    ..Record::BLANK
                });
                true
            });
        }
        Trace { names, records, format: "workload".into(), ..Trace::default() }
    }

    /// Where each stream lies: one after another.
    fn regions(&self) -> Vec<Region> {
        let mut base = 0;
        let of = |stream: &Vec<Part>| {
            let bytes = stream.iter().map(|part| part.plan.footprint()).max().unwrap_or(0);
            let processes = stream.iter().map(|part| part.plan.processes()).max().unwrap_or(0);
            let region = Region { base, bytes, processes };
            base += bytes;
            region
        };
        self.streams.iter().map(of).collect()
    }
}

impl std::fmt::Display for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&grammar::print_line(&self.streams))
    }
}

impl std::str::FromStr for Workload {
    type Err = WorkloadError;
    fn from_str(line: &str) -> Result<Self, WorkloadError> {
        Self::parse(line)
    }
}

#[cfg(test)]
mod tests;
