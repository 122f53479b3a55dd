//! MSR Cambridge CSV: the block traces of 36 volumes of a data centre (Narayanan, Donnelly, Rowstron, "Write
//! off-loading", FAST 2008; the layout is in the README of the SNIA IOTTA set).
//!
//! One request a line: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, the time stamp a Windows
//! file time (100 ns since 1601), `Type` the word Read or Write, offset and size in bytes, the response time in
//! 100 ns (not kept). A heading line, which some copies have, says how many columns there are: a line of fewer was cut. The device is `host_disk`, as the
//! volumes of the set are called; the earliest request is time zero.

use super::LineReader;
use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink};
use crate::time_unit::TimeUnit;

const EXPECTED: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size[,ResponseTime]";

/// Reads the text; without a heading line the response time may be missing.
#[derive(Default)]
pub(crate) struct Reader {
    columns: usize,
}

impl LineReader for Reader {
    fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if line.starts_with("Timestamp,") && sink.is_empty() {
            self.columns = Fields::separated(line, ',').len();
            return Ok(());
        }
        let fields =
            Fields::separated(line, ',').at_least(6, EXPECTED, line)?.at_least_headed(self.columns, line)?;
        let time = field::time(fields.get(0), TimeUnit::Ticks100.nanos(), "a Windows file time")?;
        field::uint(fields.get(2), "a disk number")?;
        let op = field::op(fields.get(3))?;
        let offset = field::uint(fields.get(4), "an offset in bytes")?;
        let bytes = field::uint(fields.get(5), "a size in bytes")?;
        let device = format!("{}_{}", fields.get(1), fields.get(2));
        let device = sink.name_like(sink.last().device, &device)?;
        sink.push(Record { time: Some(time), device, offset, bytes, op, ..BLANK })
    }
}
