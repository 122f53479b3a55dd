//! Text of `perf script`: tracepoints of the page cache, with the calls around them where they were recorded.
//!
//! A line is `command thread [cpu] seconds: group:event: fields` (perf-script(1), "default output"). From
//! `filemap:mm_filemap_get_pages`, `mm_filemap_fault` and `mm_filemap_map_pages` come inode, device and pages; with
//! `syscalls:sys_enter_read`, `pread64`, `readv`, `preadv`, `preadv2` and their `sys_exit_` beside them, exact bytes and
//! how long each call took (see [`crate::assemble`]); `lseek` and `openat`, where they are there, say where reads begin. Every other event (`readahead:*`, pages entering and leaving the
//! cache) is passed over and counted; so are comments and call chains. The kernel names no paths here: a file is
//! `inode:NUMBER` on the device `major:minor`. Record such a text with
//!
//! ```text
//! perf record -o p.data -e 'filemap:mm_filemap_get_pages,filemap:mm_filemap_fault,filemap:mm_filemap_map_pages' \
//!   -e 'syscalls:sys_enter_read,syscalls:sys_exit_read,syscalls:sys_enter_pread64,syscalls:sys_exit_pread64' CMD
//! perf script -i p.data > p.txt
//! ```

use super::LineReader;
use crate::assemble::{Assembler, Event, FileId, FileRead};
use crate::chains::{Thread, Threads};
use crate::error::Fault;
use crate::field;
use crate::kept::Kept;
use crate::record::{Name, Record};
use crate::sink::Sink;
use crate::time_unit::TimeUnit;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use std::collections::BTreeMap;

/// What stands in a line.
const EXPECTED: &str = "command thread [cpu] seconds: group:event: fields";
/// Calls that read.
const READS: [&str; 5] = ["read", "pread64", "readv", "preadv", "preadv2"];
/// Calls that place a descriptor.
const PLACES: [&str; 5] = ["lseek", "open", "openat", "openat2", "creat"];

/// Reads the text.
#[derive(Default)]
pub(crate) struct Reader {
    assembler: Assembler,
    /// Program of each thread, as last seen.
    programs: BTreeMap<u32, String>,
    /// What was read, in the order in which it was known whole; by whom stands in the place of a process.
    done: Kept,
    threads: Threads,
    /// Those of one line; empty between lines.
    reads: Vec<FileRead>,
}

/// One line, cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line<'a> {
    program: &'a str,
    thread: &'a str,
    time: &'a str,
    event: &'a str,
    fields: &'a str,
}

/// Cuts a line; `None` for one of another shape.
fn cut(line: &str) -> Option<Line<'_>> {
    let text = line.trim_start();
    let offset_of = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let words: Vec<&str> = text.split_ascii_whitespace().take(16).collect();
    let is_time =
        |word: &str| word.strip_suffix(':').is_some_and(|t| t.contains('.') && field::is_decimal(t));
    let at = words.iter().position(|word| is_time(word))?;
    let before = &words[..at];
    let is_cpu =
        |word: &str| word.strip_prefix('[').and_then(|w| w.strip_suffix(']')).is_some_and(field::is_uint);
    let before = match before.split_last() {
        Some((last, rest)) if is_cpu(last) => rest,
        _ => before,
    };
    let (last, command) = before.split_last()?;
    let thread = last.rsplit('/').next().filter(|number| field::is_uint(number))?;
    let program = if command.is_empty() { "" } else { text[..offset_of(last)].trim_end() };
    // A period may stand before the event.
    let event_at = at + 1 + usize::from(words.get(at + 1).is_some_and(|word| field::is_uint(word)));
    let event = words.get(event_at)?.strip_suffix(':').filter(|event| event.contains(':'))?;
    let fields = text[offset_of(event) + event.len() + 1..].trim();
    Some(Line { program, thread, time: words[at].trim_end_matches(':'), event, fields })
}

/// Whether a line could be one of such a text.
pub(crate) fn is_line(line: &str) -> bool {
    cut(line).is_some()
}

/// Whether a line carries no event: a comment, or a link of a call chain.
pub(crate) fn is_beside(line: &str) -> bool {
    line.starts_with('#') || line.starts_with('\t')
}

/// Value of `key=value` or `key: value` or `key value`, up to a comma or blank.
fn value<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    let mut from = 0;
    while let Some(at) = fields[from..].find(key) {
        let start = from + at;
        let rest = &fields[start + key.len()..];
        let begins = start == 0 || fields[..start].ends_with([' ', ',']);
        if begins && let Some(rest) = rest.strip_prefix(['=', ':', ' ']) {
            return rest.trim_start().split([' ', ',']).next();
        }
        from = start + key.len();
    }
    None
}

/// A number in hexadecimal with or without `0x`.
fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The file and its first and last page.
fn pages(fields: &str) -> Option<(FileId, u64, u64)> {
    let (major, minor) = value(fields, "dev")?.split_once(':')?;
    let inode = hex(value(fields, "ino")?)?;
    let range = value(fields, "ofs")?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let file = FileId { major: major.parse().ok()?, minor: minor.parse().ok()?, inode };
    (first <= last).then_some((file, first / BLOCK_BYTES, last / BLOCK_BYTES))
}

/// The event that a line says; `None` for one of another kind.
fn event(line: &Line<'_>) -> Result<Option<Event>, Fault> {
    let wrong =
        |expected: &str| Fault::new(format!("{expected} in the fields of {}", line.event), line.fields);
    if let Some(call) = line.event.strip_prefix("syscalls:sys_enter_") {
        let number = |key| value(line.fields, key).and_then(hex);
        let descriptor = || number("fd").ok_or_else(|| wrong("fd: 0x…"));
        if PLACES.contains(&call) {
            return if call == "lseek" {
                Ok(Some(Event::Seek { descriptor: descriptor()? }))
            } else {
                Ok(Some(Event::Open))
            };
        }
        if !READS.contains(&call) {
            return Ok(None);
        }
        let descriptor = descriptor()?;
        let offset = match call {
            "pread64" => Some(number("pos").ok_or_else(|| wrong("pos: 0x…"))?),
            // A position of -1 means the descriptor's own.
            "preadv" | "preadv2" => number("pos_l").filter(|&pos| pos <= i64::MAX.cast_unsigned()),
            _ => None,
        };
        return Ok(Some(Event::Enter { descriptor, count: number("count"), offset }));
    }
    if let Some(call) = line.event.strip_prefix("syscalls:sys_exit_") {
        if !READS.contains(&call) && !PLACES.contains(&call) {
            return Ok(None);
        }
        let result = hex(line.fields).ok_or_else(|| wrong("a result 0x…"))?;
        return Ok(Some(Event::Exit { result: result.cast_signed() }));
    }
    let of_pages = || pages(line.fields).ok_or_else(|| wrong("dev=major:minor ino=… ofs=first-last"));
    match line.event {
        "filemap:mm_filemap_get_pages" => {
            of_pages().map(|(file, first, last)| Some(Event::Pages { file, first, last }))
        }
        "filemap:mm_filemap_fault" | "filemap:mm_filemap_map_pages" => {
            of_pages().map(|(file, first, last)| Some(Event::Mapped { file, first, last }))
        }
        _ => Ok(None),
    }
}

impl LineReader for Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if is_beside(line) {
            return Ok(());
        }
        let line = cut(line).ok_or_else(|| Fault::new(EXPECTED, line))?;
        let thread =
            line.thread.parse().map_err(|_| Fault::new("a thread number below 2^32", line.thread))?;
        let time = field::time(line.time, TimeUnit::Secs.nanos(), "a time in seconds")?;
        let Some(event) = event(&line)? else {
            sink.pass_over(1);
            return Ok(());
        };
        let program = self.programs.entry(thread).or_default();
        if program != line.program {
            line.program.clone_into(program);
        }
        let mut reads = std::mem::take(&mut self.reads);
        self.assembler.take(thread, time.0, event, &mut |read| reads.push(read));
        let done = reads.drain(..).try_for_each(|read| self.ended(&read, sink));
        self.reads = reads;
        done
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let mut reads = std::mem::take(&mut self.reads);
        self.assembler.finish(&mut |read| reads.push(read));
        reads.iter().try_for_each(|read| self.ended(read, sink))?;
        sink.pass_over(self.assembler.idle());
        let done = std::mem::take(&mut self.done);
        for at in done.in_order_of_time() {
            let record = done.get(at);
            sink.push_of(self.threads.get(record.process.0), record)?;
        }
        Ok(())
    }
}

impl Reader {
    /// A read whose end is known.
    fn ended(&mut self, read: &FileRead, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let program = self.programs.get(&read.thread).cloned().unwrap_or_default();
        let process = Name(self.threads.number(&Thread { number: read.thread, program }));
        let device = sink.name(&format!("{}:{}", read.file.major, read.file.minor))?;
        let file = sink.name(&format!("inode:{}", read.file.inode))?;
        let (time, took) = (Some(Nanos(read.time)), read.took.map(Nanos));
        let &FileRead { offset, bytes, .. } = read;
        self.done.take(&[Record { time, took, device, process, file, offset, bytes, ..Record::BLANK }]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_whatever_the_command_is_called() {
        let text = "  Web Content [1] 17831/17835 [001] 11891.711147: filemap:mm_filemap_fault: dev=254:0 ino=4fa7d ofs=0";
        let line = cut(text).expect("a line");
        assert_eq!((line.program, line.thread, line.time), ("Web Content [1]", "17835", "11891.711147"));
        assert_eq!((line.event, line.fields), ("filemap:mm_filemap_fault", "dev=254:0 ino=4fa7d ofs=0"));
        let text = "cat 7 5.000001:     1 syscalls:sys_exit_read: 0x340";
        assert_eq!(
            cut(text).map(|line| (line.event, line.fields)),
            Some(("syscalls:sys_exit_read", "0x340"))
        );
        for text in ["", "cat 7 [001] 5.1", "cat [001] 5.1: a:b: c", "5.1: a:b: c", "x 1 5.1: cycles: ffff"] {
            assert_eq!(cut(text), None, "{text}");
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let fields = "fd: 0x00000003, buf: 0x7f, count: 0x00000310, pos: 0x00000040";
        assert_eq!(value(fields, "count").and_then(hex), Some(0x310));
        assert_eq!(value(fields, "pos").and_then(hex), Some(0x40));
        assert_eq!((value(fields, "os"), value("vpos: 1", "pos")), (None, None));
        let old = "dev 254:0 ino 4fa7d ofs=4096";
        let file = FileId { major: 254, minor: 0, inode: 0x4fa7d };
        assert_eq!(pages(old), Some((file, 1, 1)));
        assert_eq!(pages("dev=254:0 ino=4fa7d ofs=8192-4095"), None);
    }
}
