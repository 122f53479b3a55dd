//! oracleGeneral: the binary format in which libCacheSim distributes traces (its `traceReader/customizedReader/
//! oracle/oracleGeneralBin.h`).
//!
//! Packed little-endian records of 24 bytes: time u32 (seconds), object id u64, object size u32 (bytes), and the
//! number of the request that asks for the same object next, i64: requests count from 1, and −1 or the largest
//! number says "never". The format knows objects, not addresses, and no operation: an object becomes a read at
//! `id × object_bytes`. The writer gives one record for each 4 KiB block touched, with the block number as id, so
//! that a cache simulator counts what Forerun's caches count.

use crate::error::{Fault, Place, TraceError};
use crate::sink::Sink;
use crate::source::ByteSource;
use crate::time_unit::TimeUnit;
use forerun_core::units::{BLOCK_BYTES, Nanos};

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 24;

/// No trace has so many requests: a larger "next" is not one.
const NEXT_MAX: i64 = 1 << 48;

/// The four numbers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) time: u32,
    pub(crate) object: u64,
    pub(crate) size: u32,
    pub(crate) next: i64,
}

impl Packed {
    /// From its bytes.
    pub(crate) fn parse(b: &[u8; RECORD_BYTES]) -> Self {
        Self {
            time: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            object: u64::from_le_bytes(std::array::from_fn(|i| b[4 + i])),
            size: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
            next: i64::from_le_bytes(std::array::from_fn(|i| b[16 + i])),
        }
    }
    /// Its bytes.
    pub(crate) fn bytes(self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..4].copy_from_slice(&self.time.to_le_bytes());
        out[4..12].copy_from_slice(&self.object.to_le_bytes());
        out[12..16].copy_from_slice(&self.size.to_le_bytes());
        out[16..].copy_from_slice(&self.next.to_le_bytes());
        out
    }
}

/// Whether the stream may begin so: times that do not run back, sizes, and next requests that lie ahead.
pub(crate) fn plausible(head: &[u8]) -> bool {
    let mut before = 0;
    let mut count = 0;
    for (number, chunk) in (1_i64..).zip(head.as_chunks::<RECORD_BYTES>().0.iter().take(64)) {
        let record = Packed::parse(chunk);
        let next_ok = matches!(record.next, -2 | -1 | i64::MAX) || (number..NEXT_MAX).contains(&record.next);
        let size_ok = (1..1 << 31).contains(&record.size);
        if record.time < before || !size_ok || !next_ok {
            return false;
        }
        before = record.time;
        count += 1;
    }
    count > 0
}

/// Reads a whole stream.
pub(crate) fn read(source: &mut ByteSource<'_>, sink: &mut Sink<'_>) -> Result<(), TraceError> {
    let unit = sink.options.object_bytes.unwrap_or(BLOCK_BYTES);
    while !sink.full() {
        let taken = source.each_at_hand(|at, bytes| {
            if let Err(fault) = take(Packed::parse(bytes), unit, sink) {
                sink.bad(Place::Byte(at), fault)?;
            }
            Ok(!sink.full())
        })?;
        if taken == 0 && !across(source, unit, sink)? {
            break;
        }
    }
    Ok(())
}

/// Reads the next record, wherever its bytes are; whether there was one.
fn across(source: &mut ByteSource<'_>, unit: u64, sink: &mut Sink<'_>) -> Result<bool, TraceError> {
    let mut record = [0; RECORD_BYTES];
    let place = Place::Byte(source.at());
    let result = match source.fill(&mut record)? {
        0 => return Ok(false),
        RECORD_BYTES => take(Packed::parse(&record), unit, sink),
        got => Err(Fault::told("a record of 24 bytes", format!("{got} bytes before the end"))),
    };
    if let Err(fault) = result {
        sink.bad(place, fault)?;
    }
    Ok(true)
}

#[inline]
fn take(packed: Packed, unit: u64, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let offset = packed.object.checked_mul(unit).ok_or_else(|| too_large(packed.object, unit))?;
    let time = Nanos(u64::from(packed.time) * TimeUnit::Secs.nanos());
    sink.push_read(time, offset, u64::from(packed.size))
}

#[cold]
fn too_large(object: u64, unit: u64) -> Fault {
    let wanted = format!("an object id that is below 2^64 when multiplied by {unit}");
    Fault::told(wanted, object.to_string())
        .remedy("if the ids are hashes rather than block numbers, say that an object is 1 byte")
}
