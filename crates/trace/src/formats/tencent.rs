//! Tencent CBS: nine days of a warehouse of cloud block storage (Zhang et al., USENIX ATC 2020; SNIA IOTTA set
//! 27917).
//!
//! One request a line: `Timestamp,Offset,Size,IOType,VolumeID`: seconds since 1970, offset and size in sectors of
//! 512 bytes, 0 for a read and 1 for a write, the volume. A heading line is passed over; the earliest request is
//! time zero.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use crate::time_unit::TimeUnit;
use forerun_core::access::Op;

const EXPECTED: &str = "Timestamp,Offset,Size,IOType,VolumeID";

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    if line.starts_with("Timestamp,") && sink.is_empty() {
        return Ok(());
    }
    let fields = Fields::separated(line, ',').at_least(5, EXPECTED, line)?;
    let time = field::time(fields.get(0), TimeUnit::Secs.nanos(), "a time in seconds")?;
    let offset = sectors_to_bytes(field::uint(fields.get(1), "an offset in sectors")?, "an offset")?;
    let bytes = sectors_to_bytes(field::uint(fields.get(2), "a size in sectors")?, "a size")?;
    let op = match fields.get(3) {
        "0" => Op::Read,
        "1" => Op::Write,
        other => return Err(Fault::new("an I/O type, 0 (read) or 1 (write)", other)),
    };
    field::uint(fields.get(4), "a volume number")?;
    let device = sink.name_like(sink.last().device, fields.get(4))?;
    sink.push(Record { time: Some(time), device, offset, bytes, op, ..BLANK })
}
