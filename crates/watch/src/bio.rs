//! Reads the tracepoint `block:block_bio_queue`: one request as a program or file system handed it to a device.
//!
//! This tracepoint is chosen over `block_rq_issue` because it fires in the context of whoever asks (a request
//! is often issued to the hardware by a kernel worker), before requests are merged or split for the hardware,
//! and once per request. The letters in its field `rwbs` say what the request does. Buffered reads carry the
//! letter A (read-ahead) even when a program waits for them, so that letter says nothing and is not used.

use crate::format::{Field, Format, FormatError};
use crate::sample::{u32_at, u64_at};
use forerun_core::access::Op;

/// Bits of a kernel device number that hold the minor number (`MINORBITS` in include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// The kernel's number of a device, as tracepoints print it: major and minor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber(pub u32);

impl DeviceNumber {
    /// From the two numbers that `ls -l /dev` shows; `None` if they do not fit.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Option<Self> {
        if major >= 1 << (32 - MINOR_BITS) || minor >= 1 << MINOR_BITS {
            return None;
        }
        Some(Self(major << MINOR_BITS | minor))
    }
    /// The driver's number.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.0 >> MINOR_BITS
    }
    /// The device among those of its driver.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.0 & ((1 << MINOR_BITS) - 1)
    }
}

/// What one request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Moves data.
    Data(Op),
    /// A flush, a discard, zeroes to write, a zone command: moves no data of a program.
    NoData,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bio<'a> {
    /// The whole disk, also when a partition was asked.
    pub device: DeviceNumber,
    /// First sector of 512 bytes, from the start of the disk.
    pub sector: u64,
    /// How many sectors.
    pub sectors: u32,
    /// Read, write or neither.
    pub action: Action,
    /// Name of the thread that asked (`comm`: up to 15 bytes), without the trailing zeros.
    pub comm: &'a [u8],
}

/// Where the fields of the tracepoint are on this kernel.
#[derive(Clone, Debug)]
pub struct BioLayout {
    dev: usize,
    sector: usize,
    nr_sector: usize,
    rwbs: Field,
    comm: Field,
}

impl BioLayout {
    /// The tracepoint, as `group/name` in tracefs.
    pub const EVENT: &'static str = "block/block_bio_queue";

    /// Finds the fields.
    ///
    /// # Errors
    /// [`FormatError::NoField`] if the kernel's record lacks one or has it in another size.
    pub fn new(format: &Format) -> Result<Self, FormatError> {
        Ok(Self {
            dev: format.field("dev", 4)?.offset,
            sector: format.field("sector", 8)?.offset,
            nr_sector: format.field("nr_sector", 4)?.offset,
            rwbs: format.field("rwbs", 0)?.clone(),
            comm: format.field("comm", 0)?.clone(),
        })
    }

    /// Reads one raw record; `None` if it is shorter than its format says.
    #[must_use]
    pub fn read<'a>(&self, raw: &'a [u8]) -> Option<Bio<'a>> {
        let sectors = u32_at(raw, self.nr_sector)?;
        let action = if sectors == 0 { Action::NoData } else { action(text(raw, &self.rwbs)?) };
        Some(Bio {
            device: DeviceNumber(u32_at(raw, self.dev)?),
            sector: u64_at(raw, self.sector)?,
            sectors,
            action,
            comm: text(raw, &self.comm)?,
        })
    }
}

/// Sectors of a whole disk that a device has done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The whole disk, also when a partition was asked.
    pub device: DeviceNumber,
    /// First sector of 512 bytes, from the start of the disk.
    pub sector: u64,
    /// How many sectors.
    pub sectors: u32,
    /// Read, write or neither.
    pub action: Action,
}

/// Where the fields of an answer's tracepoint are on this kernel.
#[derive(Clone, Debug)]
pub struct AnswerLayout {
    dev: usize,
    sector: usize,
    nr_sector: usize,
    rwbs: Field,
}

impl AnswerLayout {
    /// The tracepoints: of what the hardware did, and of what a device did that is stacked on others or has no queue.
    pub const EVENTS: [&'static str; 2] = ["block/block_rq_complete", "block/block_bio_complete"];

    /// Finds the fields.
    ///
    /// # Errors
    /// [`FormatError::NoField`] if the kernel's record lacks one or has it in another size.
    pub fn new(format: &Format) -> Result<Self, FormatError> {
        Ok(Self {
            dev: format.field("dev", 4)?.offset,
            sector: format.field("sector", 8)?.offset,
            nr_sector: format.field("nr_sector", 4)?.offset,
            rwbs: format.field("rwbs", 0)?.clone(),
        })
    }

    /// Reads one raw record; `None` if it is shorter than its format says.
    #[must_use]
    pub fn read(&self, raw: &[u8]) -> Option<Answer> {
        let sectors = u32_at(raw, self.nr_sector)?;
        let action = if sectors == 0 { Action::NoData } else { action(text(raw, &self.rwbs)?) };
        let (device, sector) = (DeviceNumber(u32_at(raw, self.dev)?), u64_at(raw, self.sector)?);
        Some(Answer { device, sector, sectors, action })
    }
}

/// The bytes of a fixed array of characters before its first zero.
fn text<'a>(raw: &'a [u8], field: &Field) -> Option<&'a [u8]> {
    let whole = raw.get(field.offset..field.offset.checked_add(field.size)?)?;
    whole.split(|&byte| byte == 0).next()
}

/// What the letters of `rwbs` say: `[F]` preflush, then the operation, then flags (`blk_fill_rwbs` in the kernel).
fn action(rwbs: &[u8]) -> Action {
    match rwbs.iter().find(|&&letter| letter != b'F') {
        Some(b'R') => Action::Data(Op::Read),
        Some(b'W') => Action::Data(Op::Write),
        _ => Action::NoData,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::BIO_QUEUE_6_18;

    fn raw(dev: u32, sector: u64, sectors: u32, rwbs: &[u8], comm: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; 56];
        bytes[8..12].copy_from_slice(&dev.to_ne_bytes());
        bytes[16..24].copy_from_slice(&sector.to_ne_bytes());
        bytes[24..28].copy_from_slice(&sectors.to_ne_bytes());
        bytes[28..28 + rwbs.len()].copy_from_slice(rwbs);
        bytes[38..38 + comm.len()].copy_from_slice(comm);
        bytes
    }

    fn layout() -> BioLayout {
        BioLayout::new(&Format::parse(BIO_QUEUE_6_18).expect("the kernel's own text")).expect("all fields")
    }

    #[test]
    fn a_buffered_read_of_loop0_is_read_whole() {
        let bytes = raw(7 << 20, 278_528, 8, b"RA", b"python3");
        let bio = layout().read(&bytes).expect("long enough");
        assert_eq!((bio.device.major(), bio.device.minor()), (7, 0));
        assert_eq!((bio.sector, bio.sectors, bio.comm), (278_528, 8, b"python3".as_slice()));
        assert_eq!(bio.action, Action::Data(Op::Read));
    }

    #[test]
    fn the_letters_of_rwbs_tell_data_from_flushes_and_discards() {
        let cases: [(&[u8], Action); 8] = [
            (b"R", Action::Data(Op::Read)),
            (b"RSM", Action::Data(Op::Read)),
            (b"WS", Action::Data(Op::Write)),
            (b"FWFSM", Action::Data(Op::Write)),
            (b"FF", Action::NoData),
            (b"DS", Action::NoData),
            (b"N", Action::NoData),
            (b"", Action::NoData),
        ];
        for (letters, wanted) in cases {
            assert_eq!(action(letters), wanted, "{}", String::from_utf8_lossy(letters));
        }
        let flush = raw(7 << 20, u64::MAX, 0, b"FWS", b"jbd2");
        assert_eq!(layout().read(&flush).expect("long enough").action, Action::NoData);
    }

    #[test]
    fn a_name_that_fills_its_field_and_a_short_record_are_safe() {
        let bytes = raw(1, 0, 8, b"R", b"exactly_16_bytes");
        assert_eq!(layout().read(&bytes).expect("long enough").comm, b"exactly_16_bytes");
        for length in 0..54 {
            assert!(layout().read(&bytes[..length]).is_none(), "cut to {length}");
        }
    }

    #[test]
    fn device_numbers_are_those_of_the_kernel() {
        assert_eq!(DeviceNumber::new(7, 0), Some(DeviceNumber(7_340_032)));
        assert_eq!(DeviceNumber::new(1 << 12, 0), None);
        assert_eq!(DeviceNumber::new(1, 1 << 20), None);
    }
}
