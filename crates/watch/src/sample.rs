//! Cuts the bytes of a perf ring into records.
//!
//! A perf record is a header of 8 bytes (type, flags, size) and a body. These types matter here: a sample, which
//! carries process, thread, time and the tracepoint's raw record; a note that records were lost because nobody
//! read them in time; and, where they were asked for, that a thread got a name, was made, or mapped a file. Everything else is passed over by its size. The bytes come from the kernel, but they are
//! read as carefully as a file: a size that does not add up is an error and never a panic.

/// `PERF_RECORD_LOST` of the perf ABI.
const TYPE_LOST: u32 = 2;
/// `PERF_RECORD_COMM` of the perf ABI.
const TYPE_COMM: u32 = 3;
/// `PERF_RECORD_FORK` of the perf ABI.
const TYPE_FORK: u32 = 7;
/// `PERF_RECORD_MMAP2` of the perf ABI.
const TYPE_MMAP2: u32 = 10;
/// Bytes of thread and time at the end of the records that are no samples.
const TRAILER_BYTES: usize = 16;
/// `PERF_RECORD_SAMPLE` of the perf ABI.
const TYPE_SAMPLE: u32 = 9;
/// `PERF_RECORD_SWITCH` of the perf ABI.
const TYPE_SWITCH: u32 = 14;
/// `PERF_RECORD_MISC_SWITCH_OUT`: the thread leaves; else it comes back.
const MISC_SWITCH_OUT: u16 = 1 << 13;
/// Bytes of `struct perf_event_header`.
pub const HEADER_BYTES: usize = 8;

/// One record of interest, borrowed from the bytes of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// A tracepoint fired.
    Event {
        /// Process (thread group) that ran when it did.
        pid: u32,
        /// Thread of it that ran.
        thread: u32,
        /// When, in nanoseconds of the monotonic clock.
        time: u64,
        /// The tracepoint's record, to be read with its [`crate::format::Format`].
        raw: &'a [u8],
    },
    /// A thread has a name from now on.
    Named {
        /// Which.
        thread: u32,
        /// When, as of an event.
        time: u64,
        /// Up to 15 bytes.
        name: &'a [u8],
    },
    /// A thread was made.
    Made {
        /// Its process.
        process: u32,
        /// The new one.
        thread: u32,
        /// Who made it.
        parent: u32,
        /// When, as of an event.
        time: u64,
    },
    /// A file was mapped.
    Mapped {
        /// Major number of the device of its file system.
        major: u32,
        /// Minor number of it.
        minor: u32,
        /// Number of the inode.
        inode: u64,
        /// Its path as the process sees it.
        path: &'a [u8],
    },
    /// A thread left its processor, or got one back.
    Switched {
        /// Which.
        thread: u32,
        /// When, as of an event.
        time: u64,
        /// Whether it left.
        out: bool,
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
        TYPE_COMM => parse_comm(record).ok_or(error),
        TYPE_FORK => parse_fork(record).ok_or(error),
        TYPE_MMAP2 => parse_mmap2(record).ok_or(error),
        TYPE_SWITCH => parse_switch(record).ok_or(error),
        _ => Ok(Sample::Other),
    }
}

fn parse_event(record: &[u8]) -> Option<Sample<'_>> {
    let (pid, thread) = (u32_at(record, 8)?, u32_at(record, 12)?);
    let time = u64_at(record, 16)?;
    let bytes = usize::try_from(u32_at(record, 24)?).ok()?;
    let raw = record.get(28..28usize.checked_add(bytes)?)?;
    Some(Sample::Event { pid, thread, time, raw })
}

/// The bytes before the first zero.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn parse_comm(record: &[u8]) -> Option<Sample<'_>> {
    let name = record.get(16..record.len().checked_sub(TRAILER_BYTES)?)?;
    let time = u64_at(record, record.len() - 8)?;
    Some(Sample::Named { thread: u32_at(record, 12)?, time, name: text(name) })
}

fn parse_fork(record: &[u8]) -> Option<Sample<'_>> {
    let (process, thread) = (u32_at(record, 8)?, u32_at(record, 16)?);
    Some(Sample::Made { process, thread, parent: u32_at(record, 20)?, time: u64_at(record, 24)? })
}

fn parse_mmap2(record: &[u8]) -> Option<Sample<'_>> {
    let path = record.get(72..record.len().checked_sub(TRAILER_BYTES)?)?;
    let (major, minor, inode) = (u32_at(record, 40)?, u32_at(record, 44)?, u64_at(record, 48)?);
    Some(Sample::Mapped { major, minor, inode, path: text(path) })
}

fn parse_switch(record: &[u8]) -> Option<Sample<'_>> {
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    let out = misc & MISC_SWITCH_OUT != 0;
    Some(Sample::Switched { thread: u32_at(record, 12)?, time: u64_at(record, 16)?, out })
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
        assert_eq!(
            parse(&bytes),
            Ok(Sample::Event { pid: 42, thread: 42, time: 7_000_000_001, raw: b"abcd" })
        );
        assert_eq!(record_bytes(bytes[..8].try_into().expect("eight")), bytes.len());
    }

    #[test]
    fn lost_events_are_counted_and_other_records_passed_over() {
        let mut body = 1u64.to_ne_bytes().to_vec();
        body.extend(17u64.to_ne_bytes());
        assert_eq!(parse(&record(TYPE_LOST, &body)), Ok(Sample::Lost(17)));
        assert_eq!(parse(&record(5, &[0; 24])), Ok(Sample::Other));
    }

    #[test]
    fn names_births_and_mappings_are_read_with_their_trailer() {
        let trailer = |time: u64| {
            [42u32.to_ne_bytes().to_vec(), 43u32.to_ne_bytes().to_vec(), time.to_ne_bytes().to_vec()].concat()
        };
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let comm = [words(&[42, 43]), b"cc1\0\0\0\0\0".to_vec(), trailer(9)].concat();
        assert_eq!(parse(&record(3, &comm)), Ok(Sample::Named { thread: 43, time: 9, name: b"cc1" }));
        let fork = [words(&[50, 42, 51, 43]), 8u64.to_ne_bytes().to_vec(), trailer(8)].concat();
        assert_eq!(
            parse(&record(7, &fork)),
            Ok(Sample::Made { process: 50, thread: 51, parent: 43, time: 8 })
        );
        let mut mapped = words(&[42, 43]);
        mapped.extend([0; 24]);
        mapped.extend(words(&[254, 1, 77, 0, 5, 0, 1, 2]));
        mapped.extend(b"/lib/x\0\0");
        mapped.extend(trailer(7));
        let expected = Sample::Mapped { major: 254, minor: 1, inode: 77, path: b"/lib/x" };
        assert_eq!(parse(&record(10, &mapped)), Ok(expected));
        for kind in [3, 7, 10] {
            assert!(parse(&record(kind, &[0; 8])).is_err());
        }
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
