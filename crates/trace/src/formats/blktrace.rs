//! Binary records of blktrace, version 7 (Linux `include/uapi/linux/blktrace_api.h`, `struct blk_io_trace`).
//!
//! A record is 48 bytes in the byte order of the machine that recorded it, then `pdu_len` bytes of payload: magic
//! `0x65617400 | version`, sequence, time (ns), sector, bytes, action, pid, device, cpu, error, pdu_len. The magic
//! tells the byte order, record by record. The kernel writes a file per processor, each in its own order; all events
//! are put in order of time here, then of processor and sequence, as blkparse does, and the earliest record is time
//! zero. The low half of `action` says what happened (queue, issue, complete), the high half is a set of
//! categories. Notify records give the names of processes, time stamps and messages; only the names are used.

use super::blkparse::{no_such_event, process_name};
use crate::error::{Fault, Place, TraceError};
use crate::options::BlkEvent;
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};
use crate::source::ByteSource;
use forerun_core::access::Op;
use forerun_core::units::Nanos;
use std::collections::HashMap;

/// The upper 24 bits of every record's first word.
const MAGIC: u32 = 0x6561_7400;
/// The layout that this file reads.
const VERSION: u32 = 7;
/// Bytes of one record without payload.
const RECORD_BYTES: usize = 48;
/// Categories in the upper half of `action` (`BLK_TC_*`).
const TC_WRITE: u32 = 1 << 1;
const TC_PC: u32 = 1 << 9;
const TC_NOTIFY: u32 = 1 << 10;
const TC_DISCARD: u32 = 1 << 13;
/// What happened, in the low byte of `action` (`__BLK_TA_*`).
const TA_QUEUE: u32 = 1;
const TA_ISSUE: u32 = 7;
const TA_COMPLETE: u32 = 8;
/// Bits of a device number that are the minor (`MINORBITS`).
const MINOR_BITS: u32 = 20;

/// Byte order of a record, told by its magic.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Little,
    Big,
}

/// Byte order and version of the record that begins with these four bytes, if they are a magic.
pub(crate) fn magic(word: [u8; 4]) -> Option<(Order, u32)> {
    let (little, big) = (u32::from_le_bytes(word), u32::from_be_bytes(word));
    if little & !0xff == MAGIC {
        Some((Order::Little, little & 0xff))
    } else if big & !0xff == MAGIC {
        Some((Order::Big, big & 0xff))
    } else {
        None
    }
}

/// An event that counts, before merging.
struct Event {
    time: u64,
    cpu: u32,
    sequence: u32,
    pid: u32,
    device: u32,
    offset: u64,
    bytes: u64,
    op: Op,
}

/// All that is gathered before the merge.
#[derive(Default)]
struct Gathered {
    events: Vec<Event>,
    commands: HashMap<u32, String>,
    others: u64,
    /// Events that were asked for and move no data.
    bare: u64,
}

/// Reads the integers of one record.
struct Words<'a> {
    bytes: &'a [u8; RECORD_BYTES],
    order: Order,
}

impl Words<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        // Every offset below is a constant inside the record.
        std::array::from_fn(|i| self.bytes[at + i])
    }
    fn u16(&self, at: usize) -> u16 {
        match self.order {
            Order::Little => u16::from_le_bytes(self.array(at)),
            Order::Big => u16::from_be_bytes(self.array(at)),
        }
    }
    fn u32(&self, at: usize) -> u32 {
        match self.order {
            Order::Little => u32::from_le_bytes(self.array(at)),
            Order::Big => u32::from_be_bytes(self.array(at)),
        }
    }
    fn u64(&self, at: usize) -> u64 {
        match self.order {
            Order::Little => u64::from_le_bytes(self.array(at)),
            Order::Big => u64::from_be_bytes(self.array(at)),
        }
    }
}

/// Reads a whole stream, which may be the files of several processors one after another.
pub(crate) fn read(source: &mut ByteSource<'_>, sink: &mut Sink<'_>) -> Result<(), TraceError> {
    let mut gathered = Gathered::default();
    let mut record = [0; RECORD_BYTES];
    let mut payload = vec![0; usize::from(u16::MAX)];
    loop {
        let place = Place::Byte(source.at());
        let got = source.fill(&mut record)?;
        if got == 0 {
            break;
        }
        if got < RECORD_BYTES {
            sink.bad(place, Fault::told("a record of 48 bytes", format!("{got} bytes before the end")))?;
            break;
        }
        let Some((order, VERSION)) = magic([record[0], record[1], record[2], record[3]]) else {
            sink.bad(place, wrong_magic(&record))?;
            if !resynchronise(source, &mut record)? {
                break;
            }
            continue;
        };
        let words = Words { bytes: &record, order };
        let length = usize::from(words.u16(46));
        let got = source.fill(&mut payload[..length])?;
        if got < length {
            sink.bad(
                place,
                Fault::told(format!("{length} bytes of payload"), format!("{got} before the end")),
            )?;
            break;
        }
        if let Err(fault) = gathered.take(&words, &payload[..length], sink.options.event) {
            sink.bad(place, fault)?;
        }
    }
    let end = Place::Byte(source.at());
    gathered.merge(sink, end)
}

fn wrong_magic(record: &[u8; RECORD_BYTES]) -> Fault {
    let word = [record[0], record[1], record[2], record[3]];
    match magic(word) {
        Some((_, version)) => Fault::told("records of version 7", format!("version {version}"))
            .remedy("let blkparse of the same age turn it into text, and read that"),
        None => Fault::told("the magic 0x65617407 in either byte order", format!("{word:02x?}")),
    }
}

/// After a bad record: moves the source to the next whole magic. False at the end of the input.
fn resynchronise(source: &mut ByteSource<'_>, record: &mut [u8; RECORD_BYTES]) -> Result<bool, TraceError> {
    let mut from = 1;
    loop {
        let found = (from..=RECORD_BYTES - 4).find(|&i| {
            matches!(magic([record[i], record[i + 1], record[i + 2], record[i + 3]]), Some((_, VERSION)))
        });
        if let Some(i) = found {
            source.give_back(&record[i..]);
            return Ok(true);
        }
        // A magic may begin in the last three bytes.
        record.copy_within(RECORD_BYTES - 3.., 0);
        if source.fill(&mut record[3..])? < RECORD_BYTES - 3 {
            return Ok(false);
        }
        from = 0;
    }
}

impl Gathered {
    /// Takes one record: an event that counts, the name of a process, or neither.
    fn take(&mut self, words: &Words<'_>, payload: &[u8], event: BlkEvent) -> Result<(), Fault> {
        let action = words.u32(28);
        let categories = action >> 16;
        let pid = words.u32(32);
        if categories & TC_NOTIFY != 0 {
            if action & 0xff == 0 {
                let name = payload.split(|&b| b == 0).next().unwrap_or_default();
                self.commands.insert(pid, String::from_utf8_lossy(name).into_owned());
            }
            return Ok(());
        }
        let wanted = match event {
            BlkEvent::Queue => TA_QUEUE,
            BlkEvent::Issue => TA_ISSUE,
            BlkEvent::Complete => TA_COMPLETE,
        };
        let happened = action & 0xff;
        let bytes = words.u32(24);
        if categories & (TC_PC | TC_DISCARD) != 0 || bytes == 0 {
            self.bare += u64::from(happened == wanted);
            return Ok(());
        }
        if happened != wanted {
            self.others += u64::from(matches!(happened, TA_QUEUE | TA_ISSUE | TA_COMPLETE));
            return Ok(());
        }
        self.events.push(Event {
            time: words.u64(8),
            cpu: words.u32(40),
            sequence: words.u32(4),
            pid: if event == BlkEvent::Complete { 0 } else { pid },
            device: words.u32(36),
            offset: sectors_to_bytes(words.u64(16), "a sector")?,
            bytes: u64::from(bytes),
            op: if categories & TC_WRITE != 0 { Op::Write } else { Op::Read },
        });
        Ok(())
    }

    /// Hands everything on in order of time.
    fn merge(mut self, sink: &mut Sink<'_>, end: Place) -> Result<(), TraceError> {
        sink.pass_over(self.bare);
        self.events.sort_by_key(|e| (e.time, e.cpu, e.sequence));
        for event in &self.events {
            if let Err(fault) = self.push(event, sink) {
                sink.bad(end, fault)?;
            }
        }
        no_such_event(sink, self.others).map_err(|fault| sink.fatal(end, fault))
    }

    fn push(&self, event: &Event, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let last = sink.last();
        let device = format!("{},{}", event.device >> MINOR_BITS, event.device & ((1 << MINOR_BITS) - 1));
        let device = sink.name_like(last.device, &device)?;
        let process = if sink.options.event == BlkEvent::Complete {
            String::new()
        } else {
            process_name(self.commands.get(&event.pid).map_or("", String::as_str), u64::from(event.pid))
        };
        let process = sink.name_like(last.process, &process)?;
        let Event { offset, bytes, op, .. } = *event;
        sink.push(Record { time: Some(Nanos(event.time)), device, process, offset, bytes, op, ..BLANK })
    }
}
