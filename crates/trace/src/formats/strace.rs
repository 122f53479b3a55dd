//! Text of `strace`: the system calls of a program and its children, and from them its reads and writes of files.
//!
//! Any of `-f`, `-t`, `-tt`, `-ttt`, `-T`, `-y`, `-Y`, `-o FILE` (strace(1)): lines begin with a thread's number or
//! `[pid N]`, then a time of day or of the epoch, then `call(arguments) = result <seconds>`; a call that another
//! thread's line cut in two stands as `<unfinished ...>` and `<... call resumed>`. `formats/strace/line.rs` cuts lines,
//! `formats/strace/world.rs` follows descriptors (open, dup, fork, exec, close), positions and working directories. A
//! read or write that moved bytes of a file becomes a record: the file's path, the byte it began at, the bytes it
//! moved, and with `-T` how long it took. `fstat` and its kin tell sizes of files. Pipes, sockets, terminals and what
//! lies below `/dev`, `/proc` and `/sys` are no files. Of a mapped file strace does not see which pages are touched, so a
//! mapping is no read unless it is populated at once (`MAP_POPULATE`). Everything else is passed over and counted.
//!
//! The best text for a replay is made by `strace -f -ttt -T -y -o OUT CMD`.

mod line;
mod world;

use super::LineReader;
use crate::chains::{Thread, Threads};
use crate::error::Fault;
use crate::kept::Kept;
use crate::record::{Name, Record};
use crate::sink::Sink;
use forerun_core::access::Op;
use forerun_core::units::Nanos;
use line::{Call, Line, What};
use std::collections::BTreeMap;
use world::World;

/// Calls that are cut in two at once: one per thread, and no machine has more threads.
const UNFINISHED_MAX: usize = 1 << 22;
/// Nanoseconds of a day, after which a time of day begins anew.
const DAY: u64 = 86_400_000_000_000;

/// What stands in a line.
const EXPECTED: &str = "[pid] [time] call(arguments) = result, or a line of strace about signals and exits";

/// Whether a line could be one of strace's.
pub(crate) fn is_line(text: &str) -> bool {
    Line::cut(text).is_some()
}

/// Bytes of a file that a call moved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Moved {
    path: String,
    offset: u64,
    bytes: u64,
    op: Op,
}

/// Reads the text.
#[derive(Default)]
pub(crate) struct Reader {
    world: World,
    /// By thread: the first part of its call, and when it began.
    unfinished: BTreeMap<u32, (String, Option<Nanos>)>,
    /// Days that times of day have gone through, and the last time.
    clock: (u64, u64),
    /// What was moved, in the order in which calls ended; by whom stands in the place of a process.
    done: Kept,
    threads: Threads,
}

impl Reader {
    /// A time from the text: of the epoch as it stands, of day with the days before it.
    fn time(&mut self, stamp: Option<line::Stamp>) -> Option<Nanos> {
        match stamp? {
            line::Stamp::Epoch(time) => Some(time),
            line::Stamp::Day(time) => {
                let (days, last) = &mut self.clock;
                // Lines are written in order; hours back means that midnight has passed.
                if time.0 + DAY / 2 < *last {
                    *days += DAY;
                }
                *last = time.0;
                Some(Nanos(days.saturating_add(time.0)))
            }
        }
    }

    fn call(
        &mut self,
        thread: u32,
        time: Option<Nanos>,
        call: &Call<'_>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Fault> {
        let mut moved = Vec::new();
        self.world.call(thread, call, &mut moved)?;
        if moved.is_empty() {
            sink.pass_over(1);
        }
        for moved in moved {
            let who = Thread { number: thread, program: self.world.program(thread).to_owned() };
            let (process, file) = (Name(self.threads.number(&who)), sink.name(&moved.path)?);
            let Moved { offset, bytes, op, .. } = moved;
            let record = Record { time, took: call.took, process, file, offset, bytes, op, ..Record::BLANK };
            self.done.take(&[record]);
        }
        Ok(())
    }
}

impl LineReader for Reader {
    fn line(&mut self, text: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let line = Line::cut(text).ok_or_else(|| Fault::new(EXPECTED, text))?;
        let time = self.time(line.time);
        let thread = line.thread;
        if let Some(program) = line.program {
            self.world.name(thread, program);
        }
        match line.what {
            What::Beside => sink.pass_over(1),
            What::Exited => {
                sink.pass_over(1);
                self.unfinished.remove(&thread);
                self.world.exited(thread);
            }
            What::Unfinished(text) => {
                if self.unfinished.len() >= UNFINISHED_MAX {
                    return Err(Fault::told(
                        format!("at most {UNFINISHED_MAX} unfinished calls"),
                        "one more",
                    ));
                }
                self.world.begins(thread, text);
                self.unfinished.insert(thread, (text.to_owned(), time));
            }
            What::Resumed(rest) => {
                // Its beginning is missing where strace was attached in the middle of it.
                let Some((begun, began)) = self.unfinished.remove(&thread) else {
                    sink.pass_over(1);
                    return Ok(());
                };
                let whole = format!("{begun}{rest}");
                let call = Call::cut(&whole).ok_or_else(|| Fault::new("call(arguments) = result", &whole))?;
                self.call(thread, began, &call, sink)?;
            }
            What::Call(call) => self.call(thread, time, &call, sink)?,
        }
        Ok(())
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let done = std::mem::take(&mut self.done);
        for at in done.in_order_of_time() {
            let record = done.get(at);
            sink.push_of(self.threads.get(record.process.0), record)?;
            if let Some(size) = self.world.size(sink.text(record.file)) {
                sink.know_size(record.device, record.file, size);
            }
        }
        Ok(())
    }
}
