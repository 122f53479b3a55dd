//! MQSim ASCII: the input traces of the MQSim SSD simulator (Tavakkol et al., FAST 2018; the columns are in its
//! README, "Trace-based workload").
//!
//! One request a line, five columns: arrival time in nanoseconds, device number, first sector (512 bytes), size in
//! sectors, and the type, 0 for a write and 1 for a read.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use forerun_core::access::Op;
use forerun_core::units::Nanos;

const EXPECTED: &str = "arrival_ns device sector sectors type";

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let fields = Fields::blank_separated(line).at_least(5, EXPECTED, line)?;
    let time = Nanos(field::uint(fields.get(0), "an arrival time in ns")?);
    field::uint(fields.get(1), "a device number")?;
    let offset = sectors_to_bytes(field::uint(fields.get(2), "a sector number")?, "a sector number")?;
    let bytes = sectors_to_bytes(field::uint(fields.get(3), "a size in sectors")?, "a size")?;
    let op = match fields.get(4) {
        "0" => Op::Write,
        "1" => Op::Read,
        other => return Err(Fault::new("a request type, 0 (write) or 1 (read)", other)),
    };
    let device = sink.name_like(sink.last().device, fields.get(1))?;
    sink.push(Record { time: Some(time), device, offset, bytes, op, ..BLANK })
}
