//! Alibaba block traces: a month of 1,000 cloud volumes (Li et al., IISWC 2020; the layout is in the README of the
//! alibaba/block-traces repository).
//!
//! One request a line: `device_id,opcode,offset,length,timestamp`: a number, `R` or `W`, bytes, bytes,
//! microseconds since 1970. A heading line is passed over; the earliest request is time zero.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink};
use crate::time_unit::TimeUnit;

const EXPECTED: &str = "device_id,opcode,offset,length,timestamp";

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    if line.starts_with("device_id,") && sink.is_empty() {
        return Ok(());
    }
    let fields = Fields::separated(line, ',').at_least(5, EXPECTED, line)?;
    field::uint(fields.get(0), "a device number")?;
    let op = field::op(fields.get(1))?;
    let offset = field::uint(fields.get(2), "an offset in bytes")?;
    let bytes = field::uint(fields.get(3), "a length in bytes")?;
    let time = field::time(fields.get(4), TimeUnit::Micros.nanos(), "a time in microseconds")?;
    let device = sink.name_like(sink.last().device, fields.get(0))?;
    sink.push(Record { time: Some(time), device, offset, bytes, op, ..BLANK })
}
