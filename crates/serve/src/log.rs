//! The log of inputs: every input of the engine with its time, and every output, so that a run can be replayed.
//!
//! The engine is deterministic, so the same inputs must give the same outputs, byte for byte; [`verify`] feeds a log to an
//! engine made from the log's own head and compares each output. It is the proof that the server runs the engine of the
//! simulator unchanged, and a way to take a decision apart that a real machine's timing led to. The log is text, one line
//! each: `>` an input, `<` an output in the words of its type. Its head
//! names what the engine was made from, its last line is `end`. It goes to the file every second, so a server that is killed
//! leaves a log that is cut, which is replayed up to there. Writing it costs about as much as the engine itself, so it is for
//! finding out, not for every day.

mod asked;

use crate::error::ServeError;
use crate::spec::EngineSpec;
use asked::{Asked, Refused};
use forerun_core::access::{Access, Advice, Context, Op};
use forerun_core::array::Array;
use forerun_core::engine::{Input, Limits, Output, Status};
use forerun_core::share::Share;
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent, Nanos};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// First line of every log; the number is that of the format.
const HEAD: &str = "forerun inputs 1";

/// Last line of a log that was ended in order.
const END: &str = "end";
/// A limit that is not set.
const NO_LIMIT: &str = "-";
/// Lines of the head.
const HEAD_LINES: u64 = 5;
/// Longest line of a log, bytes: an output is some hundred; a file of one endless line is no log.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// A log that is being written.
pub(crate) struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    /// Why nothing more is written: what would come later is worth nothing without what is missing.
    problem: Option<io::Error>,
    /// Whether that was said.
    told: bool,
}

impl Log {
    /// Starts a log for an engine of this spec over this array. Its head goes to the file at once: a disk that is full is no place for a
    /// log.
    pub(crate) fn create(path: &Path, spec: &EngineSpec, array: &Array) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 16, forerun_trace::journal::held(path)?);
        writeln!(out, "{HEAD}")?;
        writeln!(out, "scheme {}", spec.scheme)?;
        writeln!(out, "cache {}", spec.cache_blocks * BLOCK_BYTES)?;
        writeln!(out, "device {}", spec.device)?;
        writeln!(out, "array {} {}", array.spec(), array.member_blocks())?;
        out.flush()?;
        Ok(Self { path: path.to_owned(), out, problem: None, told: false })
    }

    /// An input is about to be handled.
    pub(crate) fn input(&mut self, now: Nanos, input: &Input<'_>) {
        self.write(|out| write_input(out, now, input));
    }

    /// An output was given.
    pub(crate) fn output(&mut self, output: &Output) {
        self.write(|out| writeln!(out, "< {output:?}"));
    }

    /// A log that cannot be written is no reason to stop serving.
    fn write(&mut self, line: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.problem.is_none() {
            self.problem = line(&mut self.out).err();
        }
    }

    /// A second has passed: what there is goes to the file. Says the first problem once.
    pub(crate) fn tick(&mut self) -> Option<String> {
        self.write(BufWriter::flush);
        // It may have come with a line, not only with the second.
        let problem = self.problem.as_ref().filter(|_| !self.told)?;
        self.told = true;
        Some(format!("--log-inputs {}: {problem}: the log ends here; serving goes on", self.path.display()))
    }

    /// The run is over: the log is whole. Says the first problem there was, and of which file.
    pub(crate) fn finish(&mut self) -> Result<(), (PathBuf, io::Error)> {
        self.write(|out| writeln!(out, "{END}").and_then(|()| out.flush()));
        self.problem.take().map_or(Ok(()), |problem| Err((self.path.clone(), problem)))
    }
}

fn write_input(out: &mut impl io::Write, now: Nanos, input: &Input<'_>) -> io::Result<()> {
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
        Input::Hole { command, extent } => {
            writeln!(out, "hole {command} {} {}", extent.start.0, extent.blocks)
        }
        Input::Release { handle } => writeln!(out, "release {handle}"),
        Input::Member { disk, failed } => writeln!(out, "member {} {}", disk.0, u8::from(*failed)),
        Input::Wake => writeln!(out, "wake"),
        Input::Synced { sync, failed } => writeln!(out, "synced {sync} {}", u8::from(*failed)),
        Input::Gone { extent } => writeln!(out, "gone {} {}", extent.start.0, extent.blocks),
        Input::Ahead { context, extent } => {
            writeln!(out, "ahead {} {} {}", context.0, extent.start.0, extent.blocks)
        }
        Input::Limits(Limits { memory_blocks, ahead_blocks, ahead_bytes_per_s }) => {
            let word = |limit: &Option<u64>| limit.map_or_else(|| NO_LIMIT.into(), |limit| limit.to_string());
            writeln!(out, "limits {} {} {}", word(memory_blocks), word(ahead_blocks), word(ahead_bytes_per_s))
        }
        Input::Switch { scheme, .. } => writeln!(out, "scheme {scheme}"),
        Input::Split { schemes: [before, tried], share, .. } => match share {
            Share::Clients { seed } => writeln!(out, "split clients {seed} {before} | {tried}"),
            Share::Regions => writeln!(out, "split regions 0 {before} | {tried}"),
        },
        Input::Drop => writeln!(out, "drop"),
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
    /// Number of the line at which a log is cut whose server did not end in order; none of a whole log.
    pub cut: Option<u64>,
}

/// The lines of a log.
struct Lines<'a> {
    path: &'a Path,
    file: BufReader<File>,
    /// Number of the line that was read last, from 1.
    number: u64,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self, ServeError> {
        let file = File::open(path).map_err(|e| ServeError::file(path, e))?;
        Ok(Self { path, file: BufReader::new(file), number: 0, line: Vec::new() })
    }

    fn wrong(&self, why: impl std::fmt::Display) -> ServeError {
        ServeError::Log { path: self.path.into(), why: format!("line {}: {why}", self.number) }
    }

    fn differs(&self, why: impl std::fmt::Display) -> ServeError {
        ServeError::Differs { path: self.path.into(), why: format!("line {}: {why}", self.number) }
    }

    /// The next line that is whole; none behind the last, or where the file was cut within one.
    fn next(&mut self) -> Result<Option<String>, ServeError> {
        self.number += 1;
        self.line.clear();
        let mut piece = (&mut self.file).take(LINE_BYTES_MAX);
        piece.read_until(b'\n', &mut self.line).map_err(|e| ServeError::file(self.path, e))?;
        if self.line.len() as u64 == LINE_BYTES_MAX {
            return Err(self.wrong("is too long for a log of inputs"));
        }
        let Some(line) = self.line.strip_suffix(b"\n") else { return Ok(None) };
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line.to_owned())),
            Err(_) => Err(self.wrong("is no text: this is no log of inputs")),
        }
    }

    /// The next line of the head, which begins with a word.
    fn head(&mut self, word: &str) -> Result<String, ServeError> {
        let line = self.next()?.ok_or_else(|| {
            self.wrong(format!("`{word}` is missing: this is no log of inputs, or the head of one"))
        })?;
        let rest = line.strip_prefix(word).map(|rest| rest.trim().to_owned());
        rest.ok_or_else(|| self.wrong(format!("this is no log of inputs: `{word}` is missing")))
    }
}

/// Replays a log and compares every output. One that is cut, as a server leaves it that was killed, is replayed up to there.
///
/// # Errors
/// [`ServeError::Differs`] with the first output that is not the replay's. Others when the file cannot be read or is no log of
/// this version.
pub fn verify(path: &Path) -> Result<Verified, ServeError> {
    let mut lines = Lines::open(path)?;
    lines.head(HEAD)?;
    let scheme = lines.head("scheme ")?;
    let cache = lines.head("cache ")?.parse().map_err(|_| lines.wrong("the cache is no number"))?;
    // Before anything is made of it: a number that a disk has bent may ask for any amount of memory.
    crate::memory::check_tables(cache).map_err(|why| lines.wrong(why))?;
    let device = lines.head("device ")?;
    let array = lines.head("array ")?;
    debug_assert_eq!(lines.number, HEAD_LINES, "the head has been read");
    let array = parse_array(&array).ok_or_else(|| lines.wrong(format!("`{array}` is no array")))?;
    let spec = spec_of(&lines, &scheme, cache, &device)?;
    let mut engine =
        spec.build(array).map_err(|why| lines.wrong(format!("an engine that cannot be made: {why}")))?;
    let mut found = Verified { inputs: 0, outputs: 0, cut: None };
    let mut asked = Asked::default();
    loop {
        let Some(line) = lines.next()? else {
            found.cut = Some(lines.number);
            return Ok(found);
        };
        if let Some(rest) = line.strip_prefix("> ") {
            if let Some(extra) = engine.poll() {
                return Err(lines.differs(format!("the replay goes on with {extra:?}")));
            }
            let entry = parse_entry(rest).ok_or_else(|| lines.wrong(format!("no input: {line}")))?;
            let refused = |why: Refused| match why {
                Refused::Impossible(why) => lines.wrong(format!("{why}: {line}")),
                Refused::NotAsked(why) => lines.differs(format!("the log has `{line}`, and {why}")),
            };
            match entry {
                Entry::Input(now, input) => {
                    asked.at(now).map_err(refused)?;
                    asked.take(engine.array(), &input).map_err(refused)?;
                    engine.handle(now, input);
                }
                Entry::Scheme(now, scheme) => {
                    asked.at(now).map_err(refused)?;
                    let spec = spec_of(&lines, scheme, cache, &device)?;
                    spec.check(engine.array()).map_err(|why| lines.wrong(why))?;
                    engine.handle(now, spec.switch());
                }
                Entry::Split(now, share, [before, tried]) => {
                    asked.at(now).map_err(refused)?;
                    let of = |scheme| spec_of(&lines, scheme, cache, &device);
                    let spec = of(before)?.split(&of(tried)?, share, engine.array());
                    engine.handle(now, spec.map_err(|why| lines.wrong(why))?.switch());
                }
            }
            found.inputs += 1;
        } else if line.starts_with("< ") || line == END {
            let given = engine.poll();
            let output = given.map_or_else(|| END.to_owned(), |output| format!("< {output:?}"));
            if output != line {
                return Err(lines.differs(format!("the log has `{line}`, the replay `{output}`")));
            }
            given.iter().for_each(|output| asked.hear(output));
            if line == END {
                return Ok(found);
            }
            found.outputs += 1;
        } else {
            return Err(lines.wrong(format!("neither input nor output: {line}")));
        }
    }
}

/// The engine that a log names.
fn spec_of(lines: &Lines<'_>, scheme: &str, cache: u64, device: &str) -> Result<EngineSpec, ServeError> {
    EngineSpec::new(scheme, cache, device)
        .map_err(|why| lines.wrong(format!("an engine that cannot be made: {why}")))
}

fn parse_array(text: &str) -> Option<Array> {
    let (spec, blocks) = text.split_once(' ')?;
    Array::new(spec.parse().ok()?, blocks.parse().ok()?).ok()
}

/// What a line with `>` says.
enum Entry<'a> {
    Input(Nanos, Input<'static>),
    Scheme(Nanos, &'a str),
    Split(Nanos, Share, [&'a str; 2]),
}

fn parse_entry(line: &str) -> Option<Entry<'_>> {
    let (now, what) = line.split_once(' ')?;
    let now = Nanos(now.parse().ok()?);
    match what.split_once(' ') {
        Some(("scheme", scheme)) => Some(Entry::Scheme(now, scheme)),
        Some(("split", words)) => {
            parse_split(words).map(|(share, schemes)| Entry::Split(now, share, schemes))
        }
        Some(("limits", words)) => parse_limits(words).map(|limits| Entry::Input(now, Input::Limits(limits))),
        _ => parse_input(what).map(|input| Entry::Input(now, input)),
    }
}

fn parse_split(words: &str) -> Option<(Share, [&str; 2])> {
    let (by, rest) = words.split_once(' ')?;
    let (seed, schemes) = rest.split_once(' ')?;
    let (before, tried) = schemes.split_once(" | ")?;
    let share = match by {
        "clients" => Share::Clients { seed: seed.parse().ok()? },
        "regions" => Share::Regions,
        _ => return None,
    };
    Some((share, [before, tried]))
}

fn parse_limits(words: &str) -> Option<Limits> {
    let limit = |word: &str| if word == NO_LIMIT { Some(None) } else { word.parse().ok().map(Some) };
    let limits: Vec<Option<u64>> = words.split(' ').map(limit).collect::<Option<_>>()?;
    let [memory_blocks, ahead_blocks, ahead_bytes_per_s] = limits[..] else { return None };
    Some(Limits { memory_blocks, ahead_blocks, ahead_bytes_per_s })
}

fn parse_input(what: &str) -> Option<Input<'static>> {
    let mut words = what.split(' ');
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
        ("unknown", [command]) => {
            Input::Done { command: u32::try_from(*command).ok()?, status: Status::Unknown }
        }
        ("hole", [command, first, blocks]) => Input::Hole {
            command: u32::try_from(*command).ok()?,
            extent: Extent { start: Block(*first), blocks: *blocks },
        },
        ("release", [handle]) => Input::Release { handle: u32::try_from(*handle).ok()? },
        ("member", [disk, failed]) => {
            Input::Member { disk: Disk(u16::try_from(*disk).ok()?), failed: *failed == 1 }
        }
        ("wake", []) => Input::Wake,
        ("synced", [sync, failed]) => {
            Input::Synced { sync: u32::try_from(*sync).ok()?, failed: *failed == 1 }
        }
        ("gone", [start, blocks]) => Input::Gone { extent: Extent { start: Block(*start), blocks: *blocks } },
        ("ahead", [context, start, blocks]) => Input::Ahead {
            context: Context(*context),
            extent: Extent { start: Block(*start), blocks: *blocks },
        },
        ("drop", []) => Input::Drop,
        _ => return None,
    };
    Some(input)
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
        // No client of a server says how it will read.
        advice: Advice::Normal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_disk::random::SplitMix;

    fn verified(text: impl AsRef<[u8]>) -> Result<Verified, ServeError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        verify(file.path())
    }

    /// The log of a server that was asked for a flush twice.
    fn log() -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let spec = EngineSpec::new("none", 16 << 20, "cheetah-15k4").expect("valid");
        let array = parse_array("single:128KiB 1024").expect("an array");
        let mut log = Log::create(file.path(), &spec, &array).expect("made");
        let mut engine = spec.build(array).expect("fits");
        for id in 0..2 {
            let input = Input::Flush { id };
            log.input(Nanos(id), &input);
            engine.handle(Nanos(id), input);
            while let Some(output) = engine.poll() {
                log.output(&output);
            }
        }
        log.finish().expect("written");
        std::fs::read_to_string(file.path()).expect("text")
    }

    #[test]
    fn a_whole_log_is_replayed_and_a_cut_one_up_to_where_it_is_cut() {
        let log = log();
        let whole = verified(&log).expect("the same");
        assert_eq!(whole, Verified { inputs: 2, outputs: 2, cut: None });
        let ends: Vec<usize> = log.match_indices('\n').map(|(at, _)| at + 1).collect();
        for cut in ends[HEAD_LINES as usize - 1]..log.len() {
            let found = verified(&log[..cut]).expect("the same up to there");
            let lines = ends.iter().filter(|&&end| end <= cut).count() as u64;
            assert_eq!(found.cut, Some(lines + 1), "cut at byte {cut}");
        }
    }

    #[test]
    fn every_input_is_written_as_it_is_read() {
        let limits = Limits { memory_blocks: Some(4_096), ahead_blocks: None, ahead_bytes_per_s: Some(0) };
        let gone = Input::Gone { extent: Extent::new(3, 4) };
        let ahead = Input::Ahead { context: Context(5), extent: Extent::new(3, 4) };
        let inputs = [
            gone,
            ahead,
            Input::Limits(limits),
            Input::Drop,
            Input::Synced { sync: 2, failed: true },
            Input::Done { command: 3, status: Status::Unknown },
            Input::Wake,
        ];
        for input in inputs {
            let mut line = Vec::new();
            write_input(&mut line, Nanos(7), &input).expect("memory");
            let line = String::from_utf8(line).expect("text");
            let entry = line.trim_end().strip_prefix("> ").and_then(parse_entry);
            let Some(Entry::Input(Nanos(7), read)) = entry else { panic!("{line}") };
            assert_eq!(format!("{read:?}"), format!("{input:?}"));
        }
        let entry = parse_entry("7 split clients 9 linux-6 | regions(linux-6)");
        let Some(Entry::Split(Nanos(7), share, schemes)) = entry else { panic!("a split") };
        assert_eq!((share, schemes), (Share::Clients { seed: 9 }, ["linux-6", "regions(linux-6)"]));
        for wrong in
            ["7 split clients x none | strip", "7 split files 0 none | strip", "7 split regions 0 none"]
        {
            assert!(parse_entry(wrong).is_none(), "{wrong}");
        }
    }

    /// A line behind the head.
    fn line_of(lines: &[String], random: &mut SplitMix) -> usize {
        (HEAD_LINES + random.below(lines.len() as u64 - HEAD_LINES)) as usize
    }

    /// The log of a server whose clients read and write, under a scheme that is changed on the way.
    fn busy_log(scheme: &str, array: &str, seed: u64) -> String {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let spec = EngineSpec::new(scheme, 16 << 20, "cheetah-15k4").expect("valid");
        let array = parse_array(array).expect("an array");
        let mut log = Log::create(file.path(), &spec, &array).expect("made");
        let mut engine = spec.build(array).expect("fits");
        let mut random = SplitMix::new(seed);
        let mut owed: Vec<Output> = Vec::new();
        for step in 0..120_u64 {
            let extent = Extent::new(random.below(200) + step, 1 + random.below(8));
            let access = Access::read(Context(step % 3), Extent::new(8 * step, 8));
            let input = match random.below(16) {
                0..4 if !owed.is_empty() => {
                    match owed.swap_remove(random.below(owed.len() as u64) as usize) {
                        Output::Start(start) if random.below(8) == 0 => {
                            Input::Done { command: start.command, status: Status::Short { good: 0 } }
                        }
                        Output::Start(start) => Input::Done { command: start.command, status: Status::Ok },
                        Output::Ready { handle, .. } => Input::Release { handle },
                        Output::Sync { sync } => Input::Synced { sync, failed: false },
                        other => unreachable!("nothing is owed for {other:?}"),
                    }
                }
                4..9 => Input::Read { id: step, access },
                9..12 => Input::Write { id: step, durable: true, access: Access::write(Context(9), extent) },
                12 => Input::Gone { extent },
                13 => Input::Ahead { context: Context(1), extent },
                14 => Input::Flush { id: step },
                _ => Input::Wake,
            };
            log.input(Nanos(step * 1_000_000), &input);
            engine.handle(Nanos(step * 1_000_000), input);
            while let Some(output) = engine.poll() {
                log.output(&output);
                if matches!(output, Output::Start(_) | Output::Ready { .. } | Output::Sync { .. }) {
                    owed.push(output);
                }
            }
        }
        log.finish().expect("written");
        std::fs::read_to_string(file.path()).expect("text")
    }

    /// The lines with one dropped, doubled, moved, or another number in it.
    fn damaged(lines: &[&str], random: &mut SplitMix) -> String {
        let mut lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        for _ in 0..1 + random.below(3) {
            let at = line_of(&lines, random);
            match random.below(5) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => {
                    let to = line_of(&lines, random);
                    lines.swap(at, to);
                }
                _ => {
                    let numbers = lines[at].split(' ').enumerate().filter(|(_, w)| w.parse::<u64>().is_ok());
                    let numbers: Vec<usize> = numbers.map(|(index, _)| index).collect();
                    if numbers.is_empty() {
                        continue;
                    }
                    let which = numbers[random.below(numbers.len() as u64) as usize];
                    let number = match random.below(4) {
                        0 => u64::MAX - random.below(3),
                        1 => random.below(u64::MAX),
                        _ => random.below(300),
                    };
                    let bent = |(index, word): (usize, &str)| {
                        if index == which { number.to_string() } else { word.to_owned() }
                    };
                    lines[at] = lines[at].split(' ').enumerate().map(bent).collect::<Vec<_>>().join(" ");
                }
            }
        }
        lines.join("\n") + "\n"
    }

    #[test]
    fn a_damaged_log_ends_with_the_line_at_which_it_is_and_never_in_a_panic() {
        let (mut impossible, mut differs) = (0, 0);
        for (seed, (scheme, array)) in
            [("asp", "raid0:2x64KiB 1024"), ("auto", "single:128KiB 2048"), ("asp+msp", "raid5:3x64KiB 1024")]
                .into_iter()
                .enumerate()
        {
            let log = busy_log(scheme, array, seed as u64);
            assert_eq!(verified(&log).expect("the same").cut, None);
            let lines: Vec<&str> = log.lines().collect();
            let mut random = SplitMix::new(seed as u64);
            for _ in 0..400 {
                match verified(damaged(&lines, &mut random)) {
                    Ok(_) => {} // an id, or what nothing follows from
                    Err(ServeError::Differs { why, .. }) => {
                        assert!(why.starts_with("line "), "{why}");
                        differs += 1;
                    }
                    Err(ServeError::Log { why, .. }) => {
                        assert!(why.starts_with("line "), "{why}");
                        impossible += 1;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        }
        assert!(impossible > 100 && differs > 300, "{impossible} {differs}");
    }

    #[test]
    fn a_head_that_claims_a_cache_of_any_size_takes_no_memory_for_it() {
        let claim = |bytes: u64| verified(log().replacen("cache 16777216", &format!("cache {bytes}"), 1));
        for bytes in [u64::MAX, 1 << 60] {
            let why = claim(bytes).expect_err("no machine has it").to_string();
            assert!(why.contains("line 3: ") && why.contains("does not fit into"), "{why}");
        }
        let why = claim(4096).expect_err("no server has it").to_string();
        assert!(why.contains("a cache holds 16MiB to 8TiB"), "{why}");
    }

    #[test]
    fn a_log_on_a_full_disk_is_refused_at_the_start_and_ends_at_once_where_it_fills_later() {
        let spec = EngineSpec::new("none", 16 << 20, "cheetah-15k4").expect("valid");
        let array = parse_array("single:128KiB 1024").expect("an array");
        assert!(Log::create(Path::new("/dev/full"), &spec, &array).is_err());
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut log = Log::create(file.path(), &spec, &array).expect("made");
        let whole = std::fs::read_to_string(file.path()).expect("text");
        log.out = BufWriter::new(File::options().write(true).open("/dev/full").expect("Linux has it"));
        log.input(Nanos(1), &Input::Wake);
        let said = log.tick().expect("it is full");
        let path = file.path().display().to_string();
        assert!(said.contains(&path) && said.contains("serving goes on"), "{said}");
        // There is room again, but what was lost is missing.
        log.out = BufWriter::new(File::options().append(true).open(file.path()).expect("there"));
        log.input(Nanos(2), &Input::Wake);
        assert_eq!(log.tick(), None);
        assert_eq!(log.finish().expect_err("it was full").0, file.path());
        assert_eq!(std::fs::read_to_string(file.path()).expect("text"), whole);
    }

    #[test]
    fn only_another_output_is_a_difference() {
        let log = log();
        for bent in
            [log.replacen("< Ready", "< Steady", 1), log.replacen("< Ready", "> 1 flush 7\n< Ready", 1)]
        {
            let problem = verified(bent).expect_err("bent");
            assert!(matches!(problem, ServeError::Differs { .. }), "{problem}");
        }
        let head: String = log.split_inclusive('\n').take(HEAD_LINES as usize).collect();
        let short: String = head.split_inclusive('\n').take(3).collect();
        let words = head.clone() + "> 1 sing\n";
        let noise = head.clone() + "what\n";
        let scheme = log.replacen("scheme none", "scheme clever", 1);
        let wrong: [&[u8]; 8] = [
            b"",
            b"\n",
            b"t,dev,off\n1,2,3\n",
            &[0xff; 100_000],
            short.as_bytes(),
            words.as_bytes(),
            noise.as_bytes(),
            scheme.as_bytes(),
        ];
        for text in wrong {
            let problem = verified(text).expect_err("no log");
            assert!(matches!(problem, ServeError::Log { .. }), "{problem}");
        }
    }
}
