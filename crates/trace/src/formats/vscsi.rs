//! vscsi: what VMware's vscsiStats recorded for CloudPhysics (Waldspurger et al., "SHARDS", FAST 2015; the two
//! layouts are public in the reader of libCacheSim, `traceReader/customizedReader/vscsi.h`).
//!
//! Little-endian records without a heading. Version 1, 32 bytes: serial u32, length u32 (bytes), number of
//! scatter-gather entries u32, SCSI command u16, version u16, block u64 (512 bytes each), time u64 (microseconds).
//! Version 2, 40 bytes: command u16, version u16, serial, length, entries u32 each, block, time, response time
//! u64. The version is in the high byte of its field. READ and WRITE of 6, 10, 12 and 16 bytes, and WRITE AND
//! VERIFY, become records; other commands move no data. The earliest request is time zero.

use crate::error::{Fault, Place, TraceError};
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use crate::source::ByteSource;
use crate::time_unit::TimeUnit;
use forerun_core::access::Op;
use forerun_core::units::Nanos;

/// Bytes of a record of version 1.
pub(crate) const V1_BYTES: usize = 32;
/// Bytes of a record of version 2.
pub(crate) const V2_BYTES: usize = 40;

/// Where the fields of a version stand, in bytes from the record's start.
struct Layout {
    size: usize,
    command: usize,
    version: usize,
    length: usize,
    block: usize,
    time: usize,
    number: u8,
}

const V1: Layout =
    Layout { size: V1_BYTES, length: 4, command: 12, version: 14, block: 16, time: 24, number: 1 };
const V2: Layout =
    Layout { size: V2_BYTES, command: 0, version: 2, length: 8, block: 16, time: 24, number: 2 };

/// What a SCSI operation code does; `None` for those that move no data of the volume.
pub(crate) const fn data_op(command: u16) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        _ => None,
    }
}

/// Which version the stream begins with: 1 or 2, `None` when neither.
pub(crate) fn version(head: &[u8]) -> Option<u8> {
    let whole = |layout: &Layout| {
        let mut records = head.chunks_exact(layout.size).take(64);
        head.len() >= layout.size
            && records.all(|r| r[layout.version + 1] == layout.number && r[layout.command + 1] == 0)
    };
    if whole(&V1) {
        Some(1)
    } else if whole(&V2) {
        Some(2)
    } else {
        None
    }
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    // Every offset is a constant inside the record.
    u64::from_le_bytes(std::array::from_fn(|i| record[at + i]))
}

fn take(layout: &Layout, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Fault> {
    let version = bytes[layout.version + 1];
    if version != layout.number {
        return Err(Fault::told(
            format!("version {} in the record", layout.number),
            format!("version {version}"),
        ));
    }
    let command = u16::from_le_bytes([bytes[layout.command], bytes[layout.command + 1]]);
    let Some(op) = data_op(command) else {
        return Ok(());
    };
    let length = u64_at(bytes, layout.length) & 0xffff_ffff;
    let micros = u64_at(bytes, layout.time);
    let time = micros
        .checked_mul(TimeUnit::Micros.nanos())
        .ok_or_else(|| Fault::told("a time below 2^64 ns", format!("{micros} us")))?;
    let offset = sectors_to_bytes(u64_at(bytes, layout.block), "a block number")?;
    sink.push(Record { time: Some(Nanos(time)), offset, bytes: length, op, ..BLANK })
}

/// Reads a whole stream.
pub(crate) fn read(source: &mut ByteSource<'_>, sink: &mut Sink<'_>) -> Result<(), TraceError> {
    let layout = match version(source.peek()) {
        Some(2) => &V2,
        _ => &V1,
    };
    let mut record = [0; V2_BYTES];
    while !sink.full() {
        let place = Place::Byte(source.at());
        let got = source.fill(&mut record[..layout.size])?;
        if got == 0 {
            break;
        }
        let result = if got < layout.size {
            Err(Fault::told(
                format!("a record of {} bytes", layout.size),
                format!("{got} bytes before the end"),
            ))
        } else {
            take(layout, &record[..layout.size], sink)
        };
        if let Err(fault) = result {
            sink.bad(place, fault)?;
        }
    }
    Ok(())
}
