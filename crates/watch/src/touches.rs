//! The tracepoints of the page cache that tell what a program touched and loaded, and when it slept for it.
//!
//! `mm_filemap_add_to_page_cache` fires when a page is about to be read, in the thread that asked, before it waits; metadata
//! of ext4 is pages of the block device and shows here too. `mm_filemap_get_pages`, `mm_filemap_fault` and
//! `mm_filemap_map_pages` fire for what was touched, here or not. `sched_switch` tells a thread that goes to sleep in a way
//! that signals do not end (state D), which is how the kernel waits for a page. How long is told by the record of its coming back.
//! `writeback_dirty_folio` tells what was added to be written (`written.rs`).

use crate::format::Format;
use crate::sample::{u32_at, u64_at};
use crate::tracefs::{self, TracefsError};
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;

/// Loaded pages: without it nothing can be learnt. Linux has it since 3.9.
pub(crate) const ADD: &str = "filemap/mm_filemap_add_to_page_cache";
/// Touched pages, in the cache or not; Linux 6.12 and later.
pub(crate) const TOUCHES: [&str; 3] = ["filemap/mm_filemap_get_pages", FAULT, "filemap/mm_filemap_map_pages"];
const FAULT: &str = "filemap/mm_filemap_fault";
/// Whether this kernel tells of touches.
pub(crate) fn are_told() -> bool {
    TOUCHES.iter().all(|name| tracefs::load(name).is_ok())
}

/// Threads that go to sleep.
pub(crate) const SLEEP: &str = "sched/sched_switch";
/// Pages that are written, by the name of Linux 5.18 and the one before.
const DIRTY: [&str; 2] = ["writeback/writeback_dirty_folio", "writeback/writeback_dirty_page"];
/// `TASK_UNINTERRUPTIBLE` as `sched_switch` prints it, for waits that a kill may end too.
const SLEEP_FILTER: &str = "prev_state == 2";
/// Bits of a kernel device number that hold the minor number.
const MINOR_BITS: u32 = 20;
/// Most pages that one event tells of; what is longer is cut.
const PAGES_MAX: u64 = 1 << 22;
/// Largest order of a folio.
const ORDER_MAX: u8 = 18;

/// What one event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// Pages are being loaded.
    Loaded(FileId, u64, u64),
    /// Pages were asked for: first and last.
    Asked(FileId, u64, u64),
    /// The same, by a buffered read.
    Read(FileId, u64, u64),
    /// The thread goes to sleep until something has come.
    Asleep,
    /// A page of a file of this number, on some device, is made dirty.
    Dirty(u64, u64),
}

/// Where the fields of one tracepoint are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Loaded { inode: usize, device: usize, first: usize, order: Option<usize>, frame: Option<usize> },
    Asked { inode: usize, device: usize, first: usize, last: Option<usize>, read: bool },
    Asleep,
    Dirty { inode: usize, page: usize },
}

/// The tracepoints of this machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    /// Their numbers.
    pub(crate) ids: Vec<u64>,
    /// Filters of single ones, by place in `ids`.
    pub(crate) narrow: Vec<(usize, String)>,
    /// Those that tell of what is in memory too, by place in `ids`: programs in the kernel may tell of the same (`firsts.rs`).
    pub(crate) hits: Vec<usize>,
    /// Whether touches are seen beside what is loaded.
    pub(crate) touches: bool,
    /// Whether what is written is told apart from what is loaded.
    pub(crate) writes: bool,
    pub(crate) kinds: BTreeMap<u16, Kind>,
}

impl Points {
    /// Those of this machine.
    ///
    /// # Errors
    /// [`TracefsError`] where what is loaded cannot be traced. Touches and sleeps may be missing.
    pub(crate) fn load() -> Result<Self, TracefsError> {
        let mut all = Self { touches: true, ..Self::default() };
        let add = tracefs::load(ADD)?;
        let kind = loaded(&add)?;
        all.insert(&add, kind);
        for name in TOUCHES {
            match tracefs::load(name).and_then(|format| Ok((asked(&format)?, format))) {
                Ok((kind, format)) => {
                    // A fault is one of what is not mapped, and comes before its page is loaded.
                    if name != FAULT {
                        all.hits.push(all.ids.len());
                    }
                    all.insert(&format, kind);
                }
                Err(_) => all.touches = false,
            }
        }
        let told = DIRTY.iter().find_map(|name| tracefs::load(name).ok());
        if let Some((kind, format)) = told.and_then(|format| Some((dirty(&format).ok()?, format))) {
            all.insert(&format, kind);
            all.writes = true;
        }
        if let Ok(sleep) = tracefs::load(SLEEP) {
            all.narrow.push((all.ids.len(), SLEEP_FILTER.to_owned()));
            all.insert(&sleep, Kind::Asleep);
        }
        Ok(all)
    }

    /// The number of the one that tells what is loaded.
    pub(crate) fn loads(&self) -> Vec<u64> {
        self.ids.iter().take(1).copied().collect()
    }

    /// Where the first of loaded pages is in memory, by the raw record that tells of them.
    pub(crate) fn frame(&self, raw: &[u8]) -> Option<u64> {
        let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
        match *self.kinds.get(&id)? {
            Kind::Loaded { frame, .. } => u64_at(raw, frame?),
            _ => None,
        }
    }

    fn insert(&mut self, format: &Format, kind: Kind) {
        // `common_type` has 16 bits, so a larger number never comes.
        if let Ok(id) = u16::try_from(format.id) {
            self.ids.push(format.id);
            self.kinds.insert(id, kind);
        }
    }

    /// What one raw record says; `None` if it is of another tracepoint or shorter than its format says.
    pub(crate) fn read(&self, raw: &[u8]) -> Option<Touch> {
        let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
        match *self.kinds.get(&id)? {
            Kind::Loaded { inode, device, first, order, .. } => {
                let order = order.map_or(Some(0), |at| raw.get(at).copied())?.min(ORDER_MAX);
                Some(Touch::Loaded(file(raw, inode, device)?, u64_at(raw, first)?, 1 << order))
            }
            Kind::Asked { inode, device, first, last, read } => {
                let first = u64_at(raw, first)?;
                let last = last.map_or(Some(first), |at| u64_at(raw, at))?;
                let last = last.clamp(first, first.saturating_add(PAGES_MAX));
                let file = file(raw, inode, device)?;
                Some(if read { Touch::Read(file, first, last) } else { Touch::Asked(file, first, last) })
            }
            Kind::Asleep => Some(Touch::Asleep),
            Kind::Dirty { inode, page } => Some(Touch::Dirty(u64_at(raw, inode)?, u64_at(raw, page)?)),
        }
    }
}

fn file(raw: &[u8], inode: usize, device: usize) -> Option<FileId> {
    let device = u32_at(raw, device)?;
    let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    Some(FileId { major, minor, inode: u64_at(raw, inode)? })
}

fn loaded(format: &Format) -> Result<Kind, TracefsError> {
    Ok(Kind::Loaded {
        inode: format.field("i_ino", 8)?.offset,
        device: format.field("s_dev", 4)?.offset,
        first: format.field("index", 8)?.offset,
        // Before large folios each page had an event of its own.
        order: format.field("order", 1).ok().map(|field| field.offset),
        frame: format.field("pfn", 8).ok().map(|field| field.offset),
    })
}

fn asked(format: &Format) -> Result<Kind, TracefsError> {
    Ok(Kind::Asked {
        inode: format.field("i_ino", 8)?.offset,
        device: format.field("s_dev", 4)?.offset,
        first: format.field("index", 8)?.offset,
        last: format.field("last_index", 8).ok().map(|field| field.offset),
        read: format.name == "mm_filemap_get_pages",
    })
}

fn dirty(format: &Format) -> Result<Kind, TracefsError> {
    Ok(Kind::Dirty { inode: format.field("ino", 8)?.offset, page: format.field("index", 8)?.offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD_6_18: &str = "name: mm_filemap_add_to_page_cache
ID: 611
\tfield:unsigned long pfn;\toffset:8;\tsize:8;\tsigned:0;
\tfield:unsigned long i_ino;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:32;\tsize:4;\tsigned:0;
\tfield:unsigned char order;\toffset:36;\tsize:1;\tsigned:0;
";

    #[test]
    fn a_loaded_folio_is_all_its_pages_and_a_short_record_is_none() {
        let format = Format::parse(ADD_6_18).expect("the kernel's own text");
        let mut points = Points::default();
        points.insert(&format, loaded(&format).expect("all fields"));
        let mut raw = vec![0_u8; 40];
        raw[..2].copy_from_slice(&611_u16.to_ne_bytes());
        raw[8..16].copy_from_slice(&0x2b_440d_u64.to_ne_bytes());
        raw[16..24].copy_from_slice(&77_u64.to_ne_bytes());
        raw[24..32].copy_from_slice(&16_u64.to_ne_bytes());
        raw[32..36].copy_from_slice(&((254_u32 << 20) | 5).to_ne_bytes());
        raw[36] = 3;
        let file = FileId { major: 254, minor: 5, inode: 77 };
        assert_eq!(points.read(&raw), Some(Touch::Loaded(file, 16, 8)));
        assert_eq!((points.frame(&raw), points.frame(&raw[..15])), (Some(0x2b_440d), None));
        for length in 0..37 {
            assert_eq!(points.read(&raw[..length]), None, "cut to {length}");
        }
    }
}
