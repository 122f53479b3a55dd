//! DiskSim ASCII: the default input of the DiskSim 4.0 simulator (Bucy, Schindler, Schlosser, Ganger, "The DiskSim
//! Simulation Environment Version 4.0 Reference Manual", CMU-PDL-08-101, section on input traces).
//!
//! One request a line, five columns: arrival time in milliseconds (decimal), device number, first block, size in
//! blocks (512 bytes each), and flags in hexadecimal whose lowest bit is set for a read.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use crate::time_unit::TimeUnit;
use forerun_core::access::Op;

const EXPECTED: &str = "arrival_ms device block blocks flags";

/// The flags, which may carry `0x`.
pub(crate) fn flags(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.starts_with('+') {
        return None;
    }
    u32::from_str_radix(digits, 16).ok()
}

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let fields = Fields::blank_separated(line).at_least(5, EXPECTED, line)?;
    let time = field::time(fields.get(0), TimeUnit::Millis.nanos(), "an arrival time in ms")?;
    field::uint(fields.get(1), "a device number")?;
    let offset = sectors_to_bytes(field::uint(fields.get(2), "a block number")?, "a block number")?;
    let bytes = sectors_to_bytes(field::uint(fields.get(3), "a size in blocks")?, "a size")?;
    let flags = flags(fields.get(4)).ok_or_else(|| Fault::new("hexadecimal flags", fields.get(4)))?;
    let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
    let device = sink.name_like(sink.last().device, fields.get(1))?;
    sink.push(Record { time: Some(time), device, offset, bytes, op, ..BLANK })
}
