//! The engine of a scheme over the page cache, and the log of what it was told, so that its decisions can be taken apart later.
//!
//! The engine is deterministic: the same inputs give the same outputs, byte for byte. A log is text, a line each: `>` an input with its
//! time, `<` an output in the words of its type. `engine` begins a new one with its scheme and the blocks of its shadow, the last line
//! is `end`; what a watch wrote that was killed is cut, and is replayed up to there. [`verify`] feeds a log to engines made
//! from its own words and compares each output. The server's log is of the same kind, of an engine that owns its cache.

mod given;

use forerun_core::access::{Access, Context};
use forerun_core::array::Array;
use forerun_core::engine::{Observer, Output, Seen, Sight, Status};
use forerun_core::registry::SchemeSpec;
use forerun_core::spec::{LayerError, LayerSpec};
use forerun_core::units::{Block, Extent, Nanos};
use given::{Given, Refused};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::ops::{Deref, RangeInclusive};
use std::path::{Path, PathBuf};

/// Blocks of the volume that files are given places in.
pub(crate) const VOLUME_BLOCKS: u64 = 1 << 40;
/// Strip of the volume, blocks; it only has to divide the volume.
pub(crate) const STRIP_BLOCKS: u64 = 32;
/// Fewest and most blocks that an engine believes to be in memory: 1 MiB to 512 MiB.
pub(crate) const SHADOW_BLOCKS: RangeInclusive<u64> = 8 * STRIP_BLOCKS..=1 << 17;
/// First line of every log; the number is that of the format.
const HEAD: &str = "forerun watched inputs 1";
/// Last line of a log that was ended in order.
const END: &str = "end";
/// Longest line of a log, bytes: an output is some hundred.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// How often what there is goes to the file, nanoseconds.
const FLUSH_EVERY: u64 = 1_000_000_000;

/// A log that is being written. One that cannot be written any more is no reason to stop; the first problem is told at the end.
pub(crate) struct Log {
    out: BufWriter<File>,
    problem: Option<io::Error>,
    flushed: u64,
}

impl Log {
    /// Begins a log.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(1 << 16, forerun_trace::journal::held(path)?);
        writeln!(out, "{HEAD}")?;
        Ok(Self { out, problem: None, flushed: 0 })
    }

    fn write(&mut self, now: u64, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let mut written = write(&mut self.out);
        if written.is_ok() && now.saturating_sub(self.flushed) > FLUSH_EVERY {
            self.flushed = now;
            written = self.out.flush();
        }
        if let Err(problem) = written {
            self.problem.get_or_insert(problem);
        }
    }

    /// Nothing more comes: the log is whole. Says the first problem there was.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        writeln!(self.out, "{END}").and_then(|()| self.out.flush())?;
        self.problem.map_or(Ok(()), Err)
    }
}

/// An observing engine; what it is told and what it answers goes to a log, if there is one.
pub(crate) struct Engine {
    observer: Observer,
    scheme: SchemeSpec,
    shadow: u64,
    log: Option<Log>,
}

impl Deref for Engine {
    type Target = Observer;
    fn deref(&self) -> &Observer {
        &self.observer
    }
}

impl Engine {
    /// One under `scheme` that believes so many blocks to be in memory at most.
    ///
    /// # Errors
    /// [`LayerError`] where the scheme does not go with a page cache.
    pub(crate) fn new(scheme: SchemeSpec, shadow: u64) -> Result<Self, LayerError> {
        let array = Array::new("single:128KiB".parse().expect("a valid name"), VOLUME_BLOCKS)
            .expect("a multiple of the strip");
        assert!(VOLUME_BLOCKS.is_multiple_of(STRIP_BLOCKS), "the volume is whole strips");
        let observer = LayerSpec::page_cache(scheme.clone(), array, shadow).observe()?;
        Ok(Self { observer, scheme, shadow, log: None })
    }

    /// From now on everything is logged; nothing has happened before.
    pub(crate) fn log_to(&mut self, mut log: Log) {
        log.write(0, |out| writeln!(out, "engine {} {}", self.shadow, self.scheme));
        self.log = Some(log);
    }

    /// The log, which another engine may go on with.
    pub(crate) fn take_log(&mut self) -> Option<Log> {
        self.log.take()
    }

    /// Something happened.
    pub(crate) fn handle(&mut self, now: Nanos, sight: Sight<'_>) {
        if let Some(log) = &mut self.log {
            log.write(now.0, |out| write_sight(out, now, &sight));
        }
        self.observer.handle(now, sight);
    }

    /// What came of it.
    pub(crate) fn poll(&mut self) -> Option<Output> {
        let output = self.observer.poll()?;
        if let Some(log) = &mut self.log {
            log.write(0, |out| writeln!(out, "< {output:?}"));
        }
        Some(output)
    }

    /// The engine itself, to be asked what changes nothing in its answers.
    pub(crate) const fn observer(&mut self) -> &mut Observer {
        &mut self.observer
    }
}

/// What may be known of a read.
const SEEN: [Seen; 3] = [Seen::DeviceRead, Seen::Hit, Seen::Unknown];

/// Its word in a log.
const fn word(seen: Seen) -> &'static str {
    match seen {
        Seen::DeviceRead => "missed",
        Seen::Hit => "hit",
        Seen::Unknown => "seen",
    }
}

fn write_sight(out: &mut impl Write, now: Nanos, sight: &Sight<'_>) -> io::Result<()> {
    write!(out, "> {} ", now.0)?;
    match sight {
        Sight::Seen { access: Access { context, extent, demand, within, .. }, seen } => {
            let pair = |extent: &Extent| format!("{} {}", extent.start.0, extent.blocks);
            let (extents, word) = ([extent, demand, within].map(pair).join(" "), word(*seen));
            writeln!(out, "{word} {} {extents}", context.0)
        }
        Sight::Done { command, .. } => writeln!(out, "done {command}"),
        Sight::Wake => writeln!(out, "wake"),
        Sight::Gone { extent } => writeln!(out, "gone {} {}", extent.start.0, extent.blocks),
        // This host never says it.
        Sight::Limits(_) | Sight::Switch { .. } => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn read_sight(line: &str) -> Option<(Nanos, Sight<'static>)> {
    let (now, what) = line.split_once(' ')?;
    let mut words = what.split(' ');
    let kind = words.next()?;
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
    let extent = |start: u64, blocks: u64| Extent { start: Block(start), blocks };
    let sight = match (kind, &numbers[..]) {
        (kind, &[context, start, blocks, demand, demand_blocks, within, within_blocks]) => {
            let read = Access::read(Context(context), extent(start, blocks));
            let (demand, within) = (extent(demand, demand_blocks), extent(within, within_blocks));
            let seen = SEEN.into_iter().find(|seen| word(*seen) == kind)?;
            Sight::Seen { access: Access { demand, within, ..read }, seen }
        }
        ("done", &[command]) => {
            Sight::Done { command: u32::try_from(command).ok()?, status: Status::Unknown }
        }
        ("wake", []) => Sight::Wake,
        ("gone", &[start, blocks]) => Sight::Gone { extent: extent(start, blocks) },
        _ => return None,
    };
    Some((Nanos(now.parse().ok()?), sight))
}

/// What a replay found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Inputs fed.
    pub inputs: u64,
    /// Outputs compared, all equal.
    pub outputs: u64,
    /// Number of the line at which a log is cut that was not ended in order; none of a whole one.
    pub cut: Option<u64>,
}

/// A log that is none, or whose outputs are not those of a replay.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no log of inputs of this version.
    #[error("{}: line {line}: {why}", .path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// Where.
        line: u64,
        /// Why.
        why: String,
    },
    /// The replay gave something else.
    #[error("{}: line {line}: {why}", .path.display())]
    Differs {
        /// Which.
        path: PathBuf,
        /// Where.
        line: u64,
        /// What.
        why: String,
    },
}

/// Replays a log and compares every output.
///
/// # Errors
/// [`LogError::Differs`] with the first output that is not the replay's; others when the file cannot be read or is no log.
pub fn verify(path: &Path) -> Result<Verified, LogError> {
    let read = |source| LogError::Read { path: path.into(), source };
    let mut file = BufReader::new(File::open(path).map_err(read)?);
    let (mut found, mut replay, mut number) = (Verified::default(), Replay::default(), 0);
    loop {
        number += 1;
        let mut line = Vec::new();
        (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(read)?;
        let wrong = |why: String| LogError::Log { path: path.into(), line: number, why };
        let Some(line) = line.strip_suffix(b"\n") else {
            if line.len() as u64 == LINE_BYTES_MAX || number == 1 {
                return Err(wrong(
                    "this is no log of inputs; `forerun watch --log-inputs FILE` writes one".into(),
                ));
            }
            return Ok(Verified { cut: Some(number), ..found });
        };
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(wrong(
                "it is not text, which a log of inputs is; `forerun watch --log-inputs FILE` writes one"
                    .into(),
            ));
        };
        if number == 1 {
            if line != HEAD {
                return Err(wrong(format!(
                    "`{HEAD}` is missing: this is no log of inputs of this version; `forerun watch --log-inputs FILE` writes one"
                )));
            }
            continue;
        }
        if let Some(over) = replay.follow(line, &mut found).map_err(|problem| match problem {
            Problem::Wrong(why) => wrong(why),
            Problem::Differs(why) => LogError::Differs { path: path.into(), line: number, why },
        })? {
            return Ok(over);
        }
    }
}

enum Problem {
    Wrong(String),
    Differs(String),
}

/// An engine that is given what a log has, and what it waits for.
#[derive(Default)]
struct Replay {
    engine: Option<Engine>,
    given: Given,
}

impl Replay {
    /// Takes a line; what was found, if it was the last.
    fn follow(&mut self, line: &str, found: &mut Verified) -> Result<Option<Verified>, Problem> {
        let wrong = || Problem::Wrong(format!("neither input nor output: {}", shown(line)));
        if let Some(rest) = line.strip_prefix("> ") {
            let (now, sight) = read_sight(rest).ok_or_else(wrong)?;
            let engine = self.engine.as_mut().ok_or_else(wrong)?;
            self.given.take(now, &sight).map_err(|refused| match refused {
                Refused::Impossible(why) => Problem::Wrong(format!("{why}: {line}")),
                Refused::NotAsked(why) => Problem::Differs(format!("the log has `{line}`, and {why}")),
            })?;
            engine.handle(now, sight);
            found.inputs += 1;
        } else if line.starts_with("< ") {
            let given = self.left();
            given.iter().for_each(|output| self.given.hear(output));
            let output = given.map_or_else(|| "nothing".into(), |output| format!("< {output:?}"));
            if output != line {
                let line = shown(line);
                return Err(Problem::Differs(format!("the log has `{line}`, the replay `{output}`")));
            }
            found.outputs += 1;
        } else {
            // Where an engine ends nothing of it is left over.
            if let Some(output) = self.left() {
                return Err(Problem::Differs(format!("the replay goes on with `{output:?}`")));
            }
            if line == END {
                return Ok(Some(*found));
            }
            let spec = line.strip_prefix("engine ").and_then(|rest| rest.split_once(' '));
            let (shadow, scheme) = spec.ok_or_else(wrong)?;
            *self = Self { engine: Some(made(shadow, scheme)?), given: Given::default() };
        }
        Ok(None)
    }

    fn left(&mut self) -> Option<Output> {
        self.engine.as_mut().and_then(Engine::poll)
    }
}

/// The engine that a log begins with.
fn made(shadow: &str, scheme: &str) -> Result<Engine, Problem> {
    let shadow = shadow.parse().ok().filter(|shadow| SHADOW_BLOCKS.contains(shadow)).ok_or_else(|| {
        let (least, most) = (SHADOW_BLOCKS.start(), SHADOW_BLOCKS.end());
        Problem::Wrong(format!("an engine believes from {least} to {most} blocks, not {}", shown(shadow)))
    })?;
    let scheme = SchemeSpec::parse(scheme).map_err(|problem| Problem::Wrong(problem.to_string()))?;
    if !scheme.has_host() || scheme.has_array() {
        return Err(Problem::Wrong(format!("{scheme} is no scheme of a page cache")));
    }
    Engine::new(scheme, shadow).map_err(|problem| Problem::Wrong(problem.to_string()))
}

/// As much of a line as a message has room for.
fn shown(line: &str) -> String {
    const SHOWN: usize = 200;
    let mut shown: String =
        line.chars().take(SHOWN).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if line.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::engine::Start;
    use forerun_disk::random::SplitMix;

    /// A log of a reader of every fifth block under two engines, one after the other.
    fn logged(path: &Path) {
        let mut log = Some(Log::create(path).expect("room"));
        for scheme in ["stride", "flashy(poll=1ms)"] {
            let scheme = SchemeSpec::parse(scheme).expect("a scheme");
            let mut engine = Engine::new(scheme, 4_096).expect("of a page cache");
            engine.log_to(log.take().expect("given back"));
            for turn in 0..200_u64 {
                let access = Access::read(Context::new(1, 2), Extent::new(turn * 5, 1));
                engine.handle(Nanos(turn * 100_000), Sight::Seen { access, seen: Seen::Unknown });
                if engine.next_wake().is_some_and(|at| at.0 <= turn * 100_000) {
                    engine.handle(Nanos(turn * 100_000), Sight::Wake);
                }
                let mut ended = Vec::new();
                while let Some(output) = engine.poll() {
                    if let Output::Start(start) = output {
                        ended.push(start.command);
                    }
                }
                for command in ended {
                    let done = Sight::Done { command, status: Status::Unknown };
                    engine.handle(Nanos(turn * 100_000 + 1), done);
                }
            }
            engine.handle(Nanos(30_000_000), Sight::Gone { extent: Extent::new(0, 64) });
            while engine.poll().is_some() {}
            log = engine.take_log();
        }
        log.expect("given back").finish().expect("room");
    }

    /// The lines with one dropped, doubled, moved, or another number in it.
    fn damaged(lines: &[&str], random: &mut SplitMix) -> String {
        let mut lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        for _ in 0..1 + random.below(3) {
            let at = 1 + random.below(lines.len() as u64 - 1) as usize;
            match random.below(5) {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at].clone()),
                2 => {
                    let to = 1 + random.below(lines.len() as u64 - 1) as usize;
                    lines.swap(at, to);
                }
                _ => {
                    let number = match random.below(4) {
                        0 => u64::MAX - random.below(3),
                        1 => random.below(u64::MAX),
                        _ => random.below(300),
                    };
                    let words: Vec<&str> = lines[at].split(' ').collect();
                    let numbers = (0..words.len()).filter(|&word| words[word].parse::<u64>().is_ok());
                    let numbers: Vec<usize> = numbers.collect();
                    if numbers.is_empty() {
                        continue;
                    }
                    let which = numbers[random.below(numbers.len() as u64) as usize];
                    let bent = |(at, word): (usize, &&str)| {
                        if at == which { number.to_string() } else { (*word).to_owned() }
                    };
                    lines[at] = words.iter().enumerate().map(bent).collect::<Vec<_>>().join(" ");
                }
            }
        }
        lines.join("\n") + "\n"
    }

    #[test]
    fn a_damaged_log_ends_with_the_line_at_which_it_is_and_never_in_a_panic() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("log");
        logged(&path);
        let text = std::fs::read_to_string(&path).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let (mut random, mut impossible, mut differs) = (SplitMix::new(1), 0, 0);
        for _ in 0..600 {
            std::fs::write(&path, damaged(&lines, &mut random)).expect("room");
            match verify(&path) {
                Ok(_) => {} // what nothing follows from
                Err(LogError::Log { line, .. }) => {
                    assert!(line > 1);
                    impossible += 1;
                }
                Err(LogError::Differs { line, .. }) => {
                    assert!(line > 1);
                    differs += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(impossible > 60 && differs > 100, "{impossible} {differs}");
    }

    #[test]
    fn what_a_log_claims_is_refused_before_memory_is_taken_for_it() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("log");
        let engine = "engine 4096 stride";
        for (lines, told) in [
            ("engine 18446744073709551615 stride", "from 256 to 131072 blocks"),
            ("engine 4294967295 linux-6", "from 256 to 131072 blocks"),
            ("engine 4096 asp", "no scheme of a page cache"),
            (&format!("{engine}\n> 1 seen 1 0 1099511627776 0 1 0 1099511627776"), "more or fewer blocks"),
            (&format!("{engine}\n> 1 seen 1 1099511627776 1 0 0 0 1"), "beyond the volume's end"),
            (&format!("{engine}\n> 1 seen 1 0 1 0 18446744073709551615 0 1"), "more was asked for"),
            (&format!("{engine}\n> 1 gone 5 18446744073709551615"), "beyond the volume's end"),
            (&format!("{engine}\n> 18446744073709551615 wake"), "not to come"),
            (&format!("{engine}\n> 1 done 7"), "no command 7"),
        ] {
            std::fs::write(&path, format!("{HEAD}\n{lines}\n")).expect("room");
            let said = verify(&path).expect_err("refused").to_string();
            assert!(said.contains(told) && said.contains(": line "), "{said}");
        }
    }

    #[test]
    fn a_file_of_any_size_is_gone_at_once_and_as_if_it_were_gone_piece_by_piece() {
        let outputs = |pieces: &[Extent]| {
            let mut engine =
                Engine::new(SchemeSpec::parse("stride").expect("a scheme"), 4_096).expect("of a page cache");
            let mut outputs = Vec::new();
            for turn in 0..600_u64 {
                // Two readers far apart, again and again from the start; what goes is the first one's.
                let lap = turn / 2 % 150 * 5;
                let at = if turn % 2 == 0 { lap } else { (1 << 39) + lap };
                let access = Access::read(Context::new(1 + turn % 2, turn % 2), Extent::new(at, 1));
                engine.handle(Nanos(turn * 100_000), Sight::Seen { access, seen: Seen::Unknown });
                if turn == 300 || turn == 450 {
                    for &extent in pieces {
                        engine.handle(Nanos(turn * 100_000), Sight::Gone { extent });
                    }
                }
                while let Some(output) = engine.poll() {
                    if let Output::Start(Start { command, .. }) = output {
                        let done = Sight::Done { command, status: Status::Unknown };
                        engine.handle(Nanos(turn * 100_000 + 1), done);
                    }
                    outputs.push(output);
                }
            }
            outputs
        };
        let pieces: Vec<Extent> = (0..64).map(|piece| Extent::new(piece * 64, 64)).collect();
        let (whole, by_pieces, never) = (outputs(&[Extent::new(0, 1 << 39)]), outputs(&pieces), outputs(&[]));
        assert!(whole == by_pieces && whole != never, "{} {} {}", whole.len(), by_pieces.len(), never.len());
    }

    #[test]
    fn a_log_is_replayed_to_the_same_outputs_whole_or_cut_and_another_output_is_found() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("log");
        logged(&path);
        let whole = verify(&path).expect("the same outputs");
        assert!(whole.inputs > 400 && whole.outputs > 100 && whole.cut.is_none(), "{whole:?}");
        let text = std::fs::read_to_string(&path).expect("text");
        let verified = |text: &str| {
            std::fs::write(&path, text).expect("room");
            verify(&path)
        };
        for cut in [text.len() - 1, text.len() / 2, text.len() / 3] {
            let found = verified(&text[..cut]).expect("the same up to there");
            assert!(found.cut.is_some() && found.inputs <= whole.inputs, "{found:?}");
        }
        let bent = text.replacen("< Start(", "< Stop(", 1);
        assert!(matches!(verified(&bent), Err(LogError::Differs { .. })));
        let (before, after) = text.split_once("\n> ").expect("inputs");
        let missing = format!("{before}\n{}", after.split_once('\n').expect("another line").1);
        assert!(matches!(verified(&missing), Err(LogError::Differs { .. })), "an input is missing");
        assert!(matches!(verified(&text[1..]), Err(LogError::Log { line: 1, .. })));
        assert!(matches!(verified(""), Err(LogError::Log { line: 1, .. })));
        assert!(matches!(
            verified("forerun watched inputs 1\n> 1 wake\n"),
            Err(LogError::Log { line: 2, .. })
        ));
    }
}
