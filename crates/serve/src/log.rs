//! The log of inputs: every input of the engine with its time, and every output, so that a run can be replayed.
//!
//! The engine is deterministic, so the same inputs must give the same outputs, byte for byte; [`verify`] feeds a log to an
//! engine made from the log's own head and compares each output. It is the proof that the server runs the engine of the
//! simulator unchanged, and a way to take a decision apart that a real machine's timing led to. The log is text, one line
//! each: `>` an input (or a change of scheme or cache, which is one to a replay), `<` an output in the words of its type. Its head names what the engine was made from. Writing it
//! costs about as much as the engine itself, so it is for finding out, not for every day.

use crate::error::ServeError;
use crate::volume::{Change, EngineSpec};
use forerun_core::access::{Access, Context, Op};
use forerun_core::array::Array;
use forerun_core::engine::{Input, Output, Status};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent, Nanos};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;

/// First line of every log; the number is that of the format.
const HEAD: &str = "forerun inputs 1";

/// A log that is being written.
pub(crate) struct Log {
    out: BufWriter<File>,
    problem: Option<io::Error>,
}

impl Log {
    /// Starts a log for an engine of this spec over this array.
    pub(crate) fn create(path: &Path, spec: &EngineSpec, array: &Array) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 16, File::create(path)?);
        writeln!(out, "{HEAD}")?;
        writeln!(out, "scheme {}", spec.scheme)?;
        writeln!(out, "cache {}", spec.cache_blocks * BLOCK_BYTES)?;
        writeln!(out, "device {}", spec.device)?;
        writeln!(out, "array {} {}", array.spec(), array.member_blocks())?;
        Ok(Self { out, problem: None })
    }

    /// An input is about to be handled.
    pub(crate) fn input(&mut self, now: Nanos, input: &Input) {
        let written = write_input(&mut self.out, now, input);
        self.note(written);
    }

    /// A change is about to be made.
    pub(crate) fn change(&mut self, now: Nanos, change: &Change) {
        let written = match change {
            Change::Scheme(spec) => writeln!(self.out, "> {} scheme {}", now.0, spec.scheme),
            Change::Drop => writeln!(self.out, "> {} drop", now.0),
        };
        self.note(written);
    }

    /// An output was given.
    pub(crate) fn output(&mut self, output: &Output) {
        let written = writeln!(self.out, "< {output:?}");
        self.note(written);
    }

    /// A log that cannot be written is no reason to stop serving; the first problem is said at the end.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(problem) = written {
            self.problem.get_or_insert(problem);
        }
    }

    /// Everything is on its way to the disk; says the first problem there was.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.problem.take().map_or(Ok(()), Err)
    }
}

fn write_input(out: &mut impl io::Write, now: Nanos, input: &Input) -> io::Result<()> {
    write!(out, "> {} ", now.0)?;
    match input {
        Input::Read { id, access } => {
            write!(out, "read {id} ")?;
            write_access(out, access)
        }
        Input::Write { id, access, durable } => {
            write!(out, "write {id} {} ", u8::from(*durable))?;
            write_access(out, access)
        }
        Input::Flush { id } => writeln!(out, "flush {id}"),
        Input::Done { command, status } => match status {
            Status::Ok => writeln!(out, "done {command}"),
            Status::Short { good } => writeln!(out, "short {command} {good}"),
            Status::Unknown => writeln!(out, "unknown {command}"),
        },
        Input::Release { handle } => writeln!(out, "release {handle}"),
        Input::Member { disk, failed } => writeln!(out, "member {} {}", disk.0, u8::from(*failed)),
        Input::Wake => writeln!(out, "wake"),
        Input::Seen { .. } => unreachable!("a server owns its cache"),
    }
}

fn write_access(out: &mut impl io::Write, access: &Access) -> io::Result<()> {
    let Access { context, extent, demand, within, .. } = access;
    writeln!(
        out,
        "{} {} {} {} {} {} {}",
        context.0,
        extent.start.0,
        extent.blocks,
        demand.start.0,
        demand.blocks,
        within.start.0,
        within.blocks
    )
}

/// What a replay found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Inputs fed.
    pub inputs: u64,
    /// Outputs compared, all equal.
    pub outputs: u64,
}

/// Replays a log and compares every output.
///
/// # Errors
/// When the file cannot be read, is no log of this version, or the first output that differs.
pub fn verify(path: &Path) -> Result<Verified, ServeError> {
    let file = File::open(path).map_err(|e| ServeError::file(path, e))?;
    let wrong = |why: String| ServeError::Log { path: path.into(), why };
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    let mut head = |word: &str| {
        let line = lines.next().unwrap_or_default();
        line.strip_prefix(word)
            .map(|rest| rest.trim().to_owned())
            .ok_or_else(|| wrong(format!("has no `{word}`")))
    };
    head(HEAD)?;
    let scheme = head("scheme ")?;
    let cache = head("cache ")?.parse().map_err(|_| wrong("its cache is no number".into()))?;
    let device = head("device ")?;
    let array = head("array ")?;
    let array = parse_array(&array).ok_or_else(|| wrong(format!("`{array}` is no array")))?;
    let mut engine = EngineSpec::new(&scheme, cache, &device)?.build(array);
    let mut found = Verified { inputs: 0, outputs: 0 };
    for (number, line) in lines.enumerate() {
        let place = number + 6;
        if let Some(rest) = line.strip_prefix("> ") {
            if let Some(extra) = engine.poll() {
                return Err(wrong(format!("line {place}: the replay goes on with {extra:?}")));
            }
            let none = || wrong(format!("line {place} is no input: {line}"));
            match parse_entry(rest).ok_or_else(none)? {
                Entry::Input(now, input) => engine.handle(now, input),
                Entry::Drop(now) => engine.drop_cache(now),
                Entry::Scheme(now, scheme) => {
                    EngineSpec::new(scheme, cache, &device)?.reshape(now, &mut engine)
                }
            }
            found.inputs += 1;
        } else {
            let output = engine.poll().map(|output| format!("< {output:?}")).unwrap_or_default();
            if output != line {
                return Err(wrong(format!("line {place}: the log has `{line}`, the replay `{output}`")));
            }
            found.outputs += 1;
        }
    }
    Ok(found)
}

fn parse_array(text: &str) -> Option<Array> {
    let (spec, blocks) = text.split_once(' ')?;
    Array::new(spec.parse().ok()?, blocks.parse().ok()?).ok()
}

/// What a line with `>` says.
enum Entry<'a> {
    Input(Nanos, Input),
    Scheme(Nanos, &'a str),
    Drop(Nanos),
}

fn parse_entry(line: &str) -> Option<Entry<'_>> {
    let (now, what) = line.split_once(' ')?;
    let now = || now.parse().ok().map(Nanos);
    match what.strip_prefix("scheme ") {
        Some(scheme) => Some(Entry::Scheme(now()?, scheme)),
        None if what == "drop" => Some(Entry::Drop(now()?)),
        None => parse_input(line).map(|(now, input)| Entry::Input(now, input)),
    }
}

fn parse_input(line: &str) -> Option<(Nanos, Input)> {
    let mut words = line.split(' ');
    let now = Nanos(words.next()?.parse().ok()?);
    let kind = words.next()?;
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let input = match (kind, &numbers[..]) {
        ("read", [id, rest @ ..]) => Input::Read { id: *id, access: parse_access(rest, Op::Read)? },
        ("write", [id, durable, rest @ ..]) => {
            Input::Write { id: *id, durable: *durable == 1, access: parse_access(rest, Op::Write)? }
        }
        ("flush", [id]) => Input::Flush { id: *id },
        ("done", [command]) => Input::Done { command: u32::try_from(*command).ok()?, status: Status::Ok },
        ("short", [command, good]) => {
            Input::Done { command: u32::try_from(*command).ok()?, status: Status::Short { good: *good } }
        }
        ("release", [handle]) => Input::Release { handle: u32::try_from(*handle).ok()? },
        ("member", [disk, failed]) => {
            Input::Member { disk: Disk(u16::try_from(*disk).ok()?), failed: *failed == 1 }
        }
        ("wake", []) => Input::Wake,
        _ => return None,
    };
    Some((now, input))
}

fn parse_access(numbers: &[u64], op: Op) -> Option<Access> {
    let [context, start, blocks, demand_start, demand_blocks, within_start, within_blocks] = numbers[..]
    else {
        return None;
    };
    let extent = |start, blocks| Extent { start: Block(start), blocks };
    Some(Access {
        context: Context(context),
        op,
        extent: extent(start, blocks),
        demand: extent(demand_start, demand_blocks),
        within: extent(within_start, within_blocks),
    })
}
