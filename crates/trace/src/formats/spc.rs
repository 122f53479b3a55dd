//! SPC: the ASCII trace format of the Storage Performance Council ("SPC Trace File Format Specification",
//! revision 1.0.1; used by the Financial and WebSearch traces of the UMass repository).
//!
//! One request a line: `ASU,LBA,Size,Opcode,Timestamp` and optional further fields: the application storage
//! unit, the address in blocks of 512 bytes, the size in bytes, `R` or `W`, seconds since the start with a
//! fraction. The ASU is the device.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use crate::time_unit::TimeUnit;

const EXPECTED: &str = "ASU,LBA,Size,Opcode,Timestamp";

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let fields = Fields::separated(line, ',').at_least(5, EXPECTED, line)?;
    field::uint(fields.get(0), "an application storage unit")?;
    let offset = sectors_to_bytes(field::uint(fields.get(1), "an LBA")?, "an LBA")?;
    let bytes = field::uint(fields.get(2), "a size in bytes")?;
    let op = field::op(fields.get(3))?;
    let time = field::time(fields.get(4), TimeUnit::Secs.nanos(), "a time in seconds")?;
    let device = sink.name_like(sink.last().device, fields.get(0))?;
    sink.push(Record { time: Some(time), device, offset, bytes, op, ..BLANK })
}
