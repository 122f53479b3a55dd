//! Text of blkparse in its default layout (blktrace user guide, "Default output"; `-f` format
//! `%D %2c %8s %5T.%9t %5p %2a %3d` and, for a request, `%S + %n [%C]`).
//!
//! An event a line: `major,minor cpu sequence seconds.nanoseconds pid action rwbs sector + sectors [command]`. One
//! of a request's events becomes the record, `Q` unless the caller says `D` or `C`; all others are passed over.
//! Flushes, discards and packet commands move no data of the volume and are passed over too. The process is
//! `command/pid`; completions run in whatever context the interrupt met, so `C` has no process. Everything after
//! the first line of the closing summary is ignored.

use super::LineReader;
use crate::error::Fault;
use crate::field::{self, Fields};
use crate::options::BlkEvent;
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use crate::time_unit::TimeUnit;
use forerun_core::access::Op;

/// Every action that blkparse prints.
pub(crate) const ACTIONS: [&str; 19] =
    ["Q", "G", "I", "D", "C", "M", "F", "S", "P", "U", "UT", "T", "X", "A", "B", "R", "m", "DC", "Z"];

/// What stands in front of the action.
const EXPECTED: &str = "major,minor cpu sequence time pid action rwbs [sector + sectors] [command]";

/// Reads the text.
#[derive(Default)]
pub(crate) struct Reader {
    in_summary: bool,
    other_events: u64,
}

/// What a request does to data, from the letters of RWBS; `None` for flushes, discards and empty requests.
fn data_op(rwbs: &str) -> Option<Op> {
    if rwbs.contains('D') {
        None
    } else if rwbs.contains('R') {
        Some(Op::Read)
    } else if rwbs.contains('W') {
        Some(Op::Write)
    } else {
        None
    }
}

/// Whether `text` is `major,minor`.
pub(crate) fn is_device(text: &str) -> bool {
    text.split_once(',').is_some_and(|(major, minor)| field::is_uint(major) && field::is_uint(minor))
}

/// Whether a line is the first of the closing summary.
pub(crate) fn begins_summary(line: &str) -> bool {
    line.starts_with("CPU") || line.starts_with("Total (")
}

/// The command in the last brackets of the line.
fn command(line: &str) -> &str {
    match (line.find('['), line.rfind(']')) {
        (Some(open), Some(close)) if open < close => &line[open + 1..close],
        _ => "",
    }
}

impl Reader {
    fn request(fields: &Fields<'_>, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        // What is there at least: of a request without data the command, or the error.
        if fields.len() < 8 {
            return Err(Fault::new(EXPECTED, line));
        }
        let first = fields.get(7);
        // No data, or a packet command.
        let is_bare = first.starts_with(['[', '(']) || fields.get(8).starts_with(['(', '[']);
        let Some(op) = data_op(fields.get(6)).filter(|_| !is_bare) else {
            sink.pass_over(1);
            return Ok(());
        };
        if fields.get(8) != "+" {
            return Err(Fault::new("sector + sectors", line));
        }
        let offset = sectors_to_bytes(field::uint(first, "a sector")?, "a sector")?;
        let bytes = sectors_to_bytes(field::uint(fields.get(9), "a number of sectors")?, "a length")?;
        if bytes == 0 {
            sink.pass_over(1);
            return Ok(());
        }
        let time = field::time(fields.get(3), TimeUnit::Secs.nanos(), "a time in seconds")?;
        let pid = field::uint(fields.get(4), "a process id")?;
        let last = sink.last();
        let device = sink.name_like(last.device, fields.get(0))?;
        let process = if sink.options.event == BlkEvent::Complete {
            String::new()
        } else {
            process_name(command(line), pid)
        };
        let process = sink.name_like(last.process, &process)?;
        sink.push(Record { time: Some(time), device, process, offset, bytes, op, ..BLANK })
    }
}

/// How blkparse and blktrace name a process: two of the same program are two readers.
pub(crate) fn process_name(command: &str, pid: u64) -> String {
    if command.is_empty() || command == "(null)" { pid.to_string() } else { format!("{command}/{pid}") }
}

impl LineReader for Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        self.in_summary |= begins_summary(line);
        if self.in_summary || line.starts_with("Input file ") {
            return Ok(());
        }
        let fields = Fields::blank_separated(line).at_least(6, EXPECTED, line)?;
        if !is_device(fields.get(0)) {
            return Err(Fault::new(EXPECTED, line));
        }
        let action = fields.get(5);
        if action == sink.options.event.letter() {
            return Self::request(&fields, line, sink);
        }
        if !ACTIONS.contains(&action) {
            return Err(Fault::new("an action such as Q, D or C", action));
        }
        self.other_events += u64::from(matches!(action, "Q" | "D" | "C"));
        Ok(())
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        no_such_event(sink, self.other_events)
    }
}

/// A trace without the chosen event, but with others, is not an empty trace.
pub(crate) fn no_such_event(sink: &Sink<'_>, others: u64) -> Result<(), Fault> {
    if !sink.is_empty() || others == 0 || sink.options.limit == Some(0) {
        return Ok(());
    }
    let letter = sink.options.event.letter();
    Err(Fault::told(
        format!("a {letter} event that moves data"),
        format!("{others} other events and none of these"),
    )
    .remedy("choose another event (Q, D or C)"))
}
