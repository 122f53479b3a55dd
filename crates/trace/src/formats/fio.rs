//! fio iolog, versions 2 and 3: what fio writes with `write_iolog` and replays with `read_iolog` (fio
//! documentation, chapter "Trace file format").
//!
//! Version 2: the line `fio version 2 iolog`, then `file add|open|close`, and `file action offset length`; the
//! action `wait` lets its offset in microseconds pass since the previous action. A file without any `wait` has no
//! times; otherwise a request's time is the sum of the waits before it. Version 3: the line
//! `fio version 3 iolog`, and a time stamp in front of every line instead of waits. fio writes microseconds; some
//! converters write milliseconds, so the unit is an option. Reads and writes become records; sync, datasync, trim
//! and the file actions do not. A name below `/dev/` is a device, any other a file. A name cannot hold a blank, and that
//! of a file holds no device: what would be called as something else is called, is written with a number ([`distinct`]).

use super::LineReader;
use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink};
use crate::time_unit::TimeUnit;
use forerun_core::access::Op;
use forerun_core::units::Nanos;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// First line of version 2.
pub(crate) const HEADING_V2: &str = "fio version 2 iolog";
/// First line of version 3.
pub(crate) const HEADING_V3: &str = "fio version 3 iolog";

/// Names under which nothing is taken for something else: of those that would be called the same all but one get `~2`, `~3` and so on behind
/// it, which nobody is called. With each name it is told whether it stands just so in the trace: who has it from there keeps it, else the first.
pub(crate) fn distinct(wanted: &[(String, bool)]) -> Vec<String> {
    let mut keepers = HashMap::new();
    for (at, (name, own)) in wanted.iter().enumerate() {
        match keepers.entry(name) {
            Entry::Vacant(free) => _ = free.insert((at, *own)),
            Entry::Occupied(mut first) if *own && !first.get().1 => _ = first.insert((at, true)),
            Entry::Occupied(_) => {}
        }
    }
    let mut taken: HashSet<String> = wanted.iter().map(|(name, _)| name.clone()).collect();
    let mut last: HashMap<&str, u64> = HashMap::new();
    let mut names = Vec::with_capacity(wanted.len());
    for (at, (name, _)) in wanted.iter().enumerate() {
        if keepers[name].0 == at {
            names.push(name.clone());
            continue;
        }
        let number = last.entry(name).or_insert(1);
        let mut other;
        loop {
            *number += 1;
            other = format!("{name}~{number}");
            if taken.insert(other.clone()) {
                break;
            }
        }
        names.push(other);
    }
    names
}

/// Reads both versions.
pub(crate) struct Reader {
    version: u8,
    begun: bool,
    waited: bool,
    clock: u64,
}

impl Reader {
    /// For `version` 2 or 3.
    pub(crate) const fn new(version: u8) -> Self {
        Self { version, begun: false, waited: false, clock: 0 }
    }

    fn wait(&mut self, micros: &str) -> Result<(), Fault> {
        let waited = field::time(micros, TimeUnit::Micros.nanos(), "a wait in microseconds")?;
        self.waited = true;
        self.clock = self
            .clock
            .checked_add(waited.0)
            .ok_or_else(|| Fault::new("waits of less than 2^64 ns in all", micros))?;
        Ok(())
    }

    fn transfer(time: Nanos, op: Op, parts: [&str; 3], sink: &mut Sink<'_>) -> Result<(), Fault> {
        let [name, offset, bytes] = parts;
        let offset = field::uint(offset, "an offset in bytes")?;
        let bytes = field::uint(bytes, "a length in bytes")?;
        let record = Record { time: Some(time), offset, bytes, op, ..BLANK };
        let last = sink.last();
        if name.starts_with("/dev/") {
            let device = sink.name_like(last.device, name)?;
            sink.push(Record { device, ..record })
        } else {
            let file = sink.name_like(last.file, name)?;
            sink.push(Record { file, ..record })
        }
    }
}

impl LineReader for Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if !self.begun {
            self.begun = true;
            let heading = if self.version == 2 { HEADING_V2 } else { HEADING_V3 };
            if line.trim() == heading {
                return Ok(());
            }
            return Err(Fault::new(format!("the line {heading:?}"), line));
        }
        let fields = Fields::blank_separated(line);
        let skip = usize::from(self.version == 3);
        let expected =
            if skip == 1 { "timestamp file action [offset length]" } else { "file action [offset length]" };
        let fields = fields.at_least(2 + skip, expected, line)?;
        let time = if skip == 1 {
            let unit = sink.options.fio_time.unwrap_or(TimeUnit::Micros).nanos();
            field::time(fields.get(0), unit, "a time stamp")?
        } else {
            Nanos(self.clock)
        };
        let parts = [fields.get(skip), fields.get(skip + 2), fields.get(skip + 3)];
        match fields.get(skip + 1) {
            "read" => Self::transfer(time, Op::Read, parts, sink),
            "write" => Self::transfer(time, Op::Write, parts, sink),
            "wait" if self.version == 2 => self.wait(parts[1]),
            "add" | "open" | "close" => Ok(()),
            "trim" | "sync" | "datasync" | "sync_file_range" | "syncfs" => {
                sink.pass_over(1);
                Ok(())
            }
            other => {
                Err(Fault::new("an action: add, open, close, read, write, sync, datasync, trim, wait", other))
            }
        }
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if self.version == 2 && !self.waited {
            sink.forget_times();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wanted: &[(&str, bool)]) -> Vec<String> {
        distinct(&wanted.iter().map(|&(name, own)| (name.to_owned(), own)).collect::<Vec<_>>())
    }

    #[test]
    fn a_name_that_somebody_has_already_gets_a_number_that_nobody_has() {
        assert_eq!(told(&[("/a", true), ("/b", false)]), ["/a", "/b"]);
        assert_eq!(told(&[("/a", false), ("/a", false), ("/a", false)]), ["/a", "/a~2", "/a~3"]);
        assert_eq!(told(&[("/a", false), ("/a", true), ("/a", false)]), ["/a~2", "/a", "/a~3"]);
        assert_eq!(told(&[("/a", true), ("/a", false), ("/a~2", true)]), ["/a", "/a~3", "/a~2"]);
        assert_eq!(
            told(&[("/a~2", false), ("/a", true), ("/a", false), ("/a~2", true)]),
            ["/a~2~2", "/a", "/a~3", "/a~2"]
        );
    }
}
