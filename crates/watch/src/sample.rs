//! Cuts the bytes of a perf ring into records.
//!
//! A perf record is a header of 8 bytes (type, flags, size) and a body. Two types matter here: a sample, which
//! carries process, time and the tracepoint's raw record, and a note that records were lost because nobody
//! read them in time. Everything else is passed over by its size. The bytes come from the kernel, but they are
//! read as carefully as a file: a size that does not add up is an error and never a panic.

/// `PERF_RECORD_LOST` of the perf ABI.
const TYPE_LOST: u32 = 2;
/// `PERF_RECORD_SAMPLE` of the perf ABI.
const TYPE_SAMPLE: u32 = 9;
/// Bytes of `struct perf_event_header`.
pub const HEADER_BYTES: usize = 8;

/// One record of interest, borrowed from the bytes of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// A tracepoint fired.
    Event {
        /// Process (thread group) that ran when it did.
        pid: u32,
        /// When, in nanoseconds of the monotonic clock.
        time: u64,
        /// The tracepoint's record, to be read with its [`crate::format::Format`].
        raw: &'a [u8],
    },
    /// This many events did not fit into the ring.
    Lost(u64),
    /// A record of another kind.
    Other,
}

/// A record whose sizes contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a perf record of type {kind} and {size} bytes is too short for what it should hold")]
pub struct SampleError {
    /// Type in its header.
    pub kind: u32,
    /// Size in its header, or the bytes at hand if less.
    pub size: usize,
}

/// Size in bytes of the record whose first [`HEADER_BYTES`] bytes are `header`.
#[must_use]
pub fn record_bytes(header: [u8; HEADER_BYTES]) -> usize {
    usize::from(u16::from_ne_bytes([header[6], header[7]]))
}

/// Reads one whole record, header included. Samples must be of the kind that `ring` asks for: TID, TIME, RAW.
///
/// # Errors
/// [`SampleError`] if the record is shorter than its type needs.
pub fn parse(record: &[u8]) -> Result<Sample<'_>, SampleError> {
    let kind = u32_at(record, 0).unwrap_or(0);
    let error = SampleError { kind, size: record.len() };
    if record.len() < HEADER_BYTES {
        return Err(error);
    }
    match kind {
        TYPE_LOST => u64_at(record, 16).map(Sample::Lost).ok_or(error),
        TYPE_SAMPLE => parse_event(record).ok_or(error),
        _ => Ok(Sample::Other),
    }
}

fn parse_event(record: &[u8]) -> Option<Sample<'_>> {
    let pid = u32_at(record, 8)?;
    let time = u64_at(record, 16)?;
    let bytes = usize::try_from(u32_at(record, 24)?).ok()?;
    let raw = record.get(28..28usize.checked_add(bytes)?)?;
    Some(Sample::Event { pid, time, raw })
}

/// The 32-bit number at `offset`, in the machine's byte order.
#[must_use]
pub fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let four = bytes.get(offset..offset.checked_add(4)?)?;
    four.try_into().ok().map(u32::from_ne_bytes)
}

/// The 64-bit number at `offset`, in the machine's byte order.
#[must_use]
pub fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let eight = bytes.get(offset..offset.checked_add(8)?)?;
    eight.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + body.len()).expect("short");
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(size.to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    fn event(pid: u32, time: u64, raw: &[u8]) -> Vec<u8> {
        let mut body = pid.to_ne_bytes().to_vec();
        body.extend(pid.to_ne_bytes());
        body.extend(time.to_ne_bytes());
        body.extend(u32::try_from(raw.len()).expect("short").to_ne_bytes());
        body.extend(raw);
        record(TYPE_SAMPLE, &body)
    }

    #[test]
    fn a_sample_gives_process_time_and_raw_record() {
        let bytes = event(42, 7_000_000_001, b"abcd");
        assert_eq!(parse(&bytes), Ok(Sample::Event { pid: 42, time: 7_000_000_001, raw: b"abcd" }));
        assert_eq!(record_bytes(bytes[..8].try_into().expect("eight")), bytes.len());
    }

    #[test]
    fn lost_events_are_counted_and_other_records_passed_over() {
        let mut body = 1u64.to_ne_bytes().to_vec();
        body.extend(17u64.to_ne_bytes());
        assert_eq!(parse(&record(TYPE_LOST, &body)), Ok(Sample::Lost(17)));
        assert_eq!(parse(&record(3, &[0; 24])), Ok(Sample::Other));
    }

    #[test]
    fn every_truncation_is_an_error_and_never_a_panic() {
        let whole = event(42, 1, b"abcd");
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).is_err(), "cut to {length} bytes");
        }
        let mut huge = event(42, 1, b"abcd");
        huge[24..28].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(parse(&huge).is_err());
    }
}
