//! What the daemon is told of all programs: where the kernel decides on read-ahead, and, of followed files only, every read.
//!
//! `readahead:page_cache_sync_ra` fires when a read finds its page missing, before the reader waits; `page_cache_async_ra` when a
//! reader comes to the mark in pages that were read ahead; `page_cache_ra_order` when a window goes out, those around a fault too;
//! `mm_filemap_fault` when a mapped page is not there. None of them fires on a cached read, so a program whose data is in memory
//! pays nothing. Each tells the window of the open file (`ra_pages`), which is how a window that the program chose itself is known.
//!
//! `mm_filemap_get_pages` and `mm_filemap_map_pages` fire on hits too. Programs in the kernel (`sensor.rs`) look at them while there is somebody to follow; where that
//! is not to be had these events are switched on meanwhile, and the kernel drops what is of other files (`i_ino==…`).
//!
//! Before Linux 6.18 there is no such group. There programs in the kernel tell the same (`probes.rs`). Where it takes none `mm_filemap_add_to_page_cache` tells each page that
//! somebody loads, and `block_bio_queue` that the thread asks a device for what it has loaded; `loads.rs` makes misses of both. Pages that are added wake nobody: their request does.

use crate::format::Format;
use crate::sample::{u32_at, u64_at};
use crate::tracefs::{self, TracefsError};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The tracepoint without which the daemon sees no reads (Linux 6.18).
const SYNC: &str = "readahead/page_cache_sync_ra";
/// The others that are always on.
const ASYNC: &str = "readahead/page_cache_async_ra";
const ORDER: &str = "readahead/page_cache_ra_order";
const FAULT: &str = "filemap/mm_filemap_fault";
const EXEC: &str = "sched/sched_process_exec";
/// Those that are on for followed files.
const GET: &str = "filemap/mm_filemap_get_pages";
const MAP: &str = "filemap/mm_filemap_map_pages";
/// Where there is no group of read-ahead: pages that are loaded, and requests of devices.
const ADD: &str = "filemap/mm_filemap_add_to_page_cache";
const SENT: &str = "block/block_bio_queue";
/// Requests that may be for such pages: reads through the page cache, and neither metadata nor those past it; and not what Forerun reads ahead,
/// whichever process of it.
const SENT_FILTER: &str = "(rwbs == \"R\" || rwbs == \"RA\") && !(comm ~ \"forerun*\")";
/// What we load ourselves, whichever process of Forerun.
const OURS_FILTER: &str = "comm ~ \"forerun*\"";
/// Where every record holds the thread that made it.
const THREAD_AT: usize = 4;
/// Bits of a kernel device number that hold the minor number.
const MINOR_BITS: u32 = 20;
/// Largest order of a folio.
const ORDER_MAX: u8 = 18;
/// Most pages that one event tells of.
pub(crate) const PAGES_MAX: u64 = 1 << 22;

/// What one event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// A read of `pages` from `first` on: its first page is missing, or (`missing` false) carries the mark. `idle`: this open file
    /// was never read ahead of by the kernel.
    Asked { file: FileId, first: u64, pages: u64, window: u32, missing: bool, idle: bool },
    /// The kernel asks for a window.
    Window { file: FileId, window: u32 },
    /// A mapped page is not there.
    Fault { file: FileId, page: u64 },
    /// Pages of a followed file that are there were mapped: first and last.
    Mapped { file: FileId, first: u64, last: u64 },
    /// Pages of a followed file were read: first and last.
    Read { file: FileId, first: u64, last: u64 },
    /// The process has started a program.
    Started,
    /// Pages are being loaded into the cache, the first of them in the frame `frame` of memory.
    Loads { thread: u32, file: FileId, first: u64, pages: u64, frame: u64 },
    /// A thread asks a device for pages.
    Sent { thread: u32 },
}

impl Sight {
    /// The file that it is about.
    pub(crate) const fn file(&self) -> Option<FileId> {
        match *self {
            Self::Asked { file, .. }
            | Self::Window { file, .. }
            | Self::Fault { file, .. }
            | Self::Mapped { file, .. }
            | Self::Read { file, .. }
            | Self::Loads { file, .. } => Some(file),
            Self::Started | Self::Sent { .. } => None,
        }
    }
}

/// Where the fields of one tracepoint are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Asked { at: PageFields, pages: usize, window: usize, size: usize, missing: bool },
    Window { at: PageFields, window: usize },
    Fault(PageFields),
    Touched { at: PageFields, last: usize, read: bool },
    Started,
    Loads { at: PageFields, order: Option<usize>, frame: usize },
    Sent,
}

/// Where file and page stand.
#[derive(Clone, Copy, Debug)]
struct PageFields {
    inode: usize,
    device: usize,
    page: usize,
}

/// The tracepoints of this machine.
#[derive(Clone, Debug)]
pub(crate) struct ReadPoints {
    /// Their numbers; those that are about pages come first.
    pub(crate) ids: Vec<u64>,
    /// Places in `ids` of those that are always on and tell a device.
    pub(crate) always: Range<usize>,
    /// Places in `ids` of those that are on for followed files.
    pub(crate) followed: Range<usize>,
    /// Place in `ids` of what tells that a program was started.
    pub(crate) started: Range<usize>,
    /// Place in `ids` of what tells of loaded pages, where that is needed: always on, and wakes nobody.
    pub(crate) loads: Range<usize>,
    /// Places in `ids` of those that are always on, once more: in the place of the first they wake nobody (`hush.rs`).
    pub(crate) again: Range<usize>,
    /// Whether this kernel tells of touches, and of faults.
    pub(crate) touches: bool,
    pub(crate) faults: bool,
    /// What is loaded is told of what we load only.
    ours_only: bool,
    kinds: BTreeMap<u16, Kind>,
}

impl ReadPoints {
    /// Those of this machine; those of followed files only where nothing else tells of them.
    ///
    /// # Errors
    /// [`TracefsError`] where one is missing.
    pub(crate) fn load(followed: bool) -> Result<Self, TracefsError> {
        let mut all = Self::none();
        for (name, missing) in [(SYNC, true), (ASYNC, false)] {
            let format = tracefs::load(name)?;
            let kind = asked(&format, missing)?;
            all.insert(&format, kind);
        }
        let format = tracefs::load(ORDER)?;
        let window = format.field("ra_pages", 4)?.offset;
        all.insert(&format, Kind::Window { at: page_fields(&format)?, window });
        let format = tracefs::load(FAULT)?;
        all.insert(&format, Kind::Fault(page_fields(&format)?));
        all.faults = true;
        all.end_of_always()?;
        all.take_touches(followed)?;
        all.loads = all.followed.end..all.followed.end;
        all.twice();
        Ok(all)
    }

    /// Those beside programs in the kernel that stand in for the group of read-ahead, and for faults where `faults` are told so. Where touches are to be told
    /// (`followed`) and there are none, what we load ourselves.
    ///
    /// # Errors
    /// [`TracefsError`] where one is missing.
    pub(crate) fn by_probes(followed: bool, faults: bool) -> Result<Self, TracefsError> {
        let mut all = Self::none();
        if !faults {
            let format = tracefs::load(FAULT)?;
            all.insert(&format, Kind::Fault(page_fields(&format)?));
        }
        all.faults = true;
        all.end_of_always()?;
        all.take_touches_if_any(followed)?;
        if !all.touches && followed {
            all.insert_loads()?;
            all.ours_only = true;
        }
        all.loads = all.followed.end..all.ids.len();
        all.twice();
        Ok(all)
    }

    /// Whether this process does without the group of read-ahead, whatever the kernel has.
    pub(crate) fn is_without() -> bool {
        tracefs::is_left_out(SYNC)
    }

    /// The same of touches.
    pub(crate) fn is_without_touches() -> bool {
        tracefs::is_left_out(GET)
    }

    /// Whether this kernel has a tracepoint of faults.
    pub(crate) fn tells_faults() -> bool {
        tracefs::load(FAULT).is_ok()
    }

    /// Those of a kernel without the group of read-ahead: what is loaded, and what devices are asked for. Touches and faults where there are any.
    ///
    /// # Errors
    /// [`TracefsError`] where what is loaded cannot be traced.
    pub(crate) fn by_loads(followed: bool) -> Result<Self, TracefsError> {
        let mut all = Self::none();
        all.insert(&tracefs::load(SENT)?, Kind::Sent);
        if let Ok(format) = tracefs::load(FAULT) {
            all.insert(&format, Kind::Fault(page_fields(&format)?));
            all.faults = true;
        }
        all.end_of_always()?;
        all.take_touches_if_any(followed)?;
        all.insert_loads()?;
        all.loads = all.followed.end..all.ids.len();
        all.twice();
        Ok(all)
    }

    /// What was inserted so far is always on; what tells of programs comes behind it.
    fn end_of_always(&mut self) -> Result<(), TracefsError> {
        self.always = 0..self.ids.len();
        self.insert(&tracefs::load(EXEC)?, Kind::Started);
        self.started = self.always.end..self.ids.len();
        Ok(())
    }

    /// What tells of loaded pages.
    fn insert_loads(&mut self) -> Result<(), TracefsError> {
        let format = tracefs::load(ADD)?;
        let order = format.field("order", 1).ok().map(|field| field.offset);
        let frame = format.field("pfn", 8)?.offset;
        self.insert(&format, Kind::Loads { at: page_fields(&format)?, order, frame });
        Ok(())
    }

    /// What tells of touches, where this kernel does.
    fn take_touches_if_any(&mut self, wanted: bool) -> Result<(), TracefsError> {
        match self.take_touches(wanted) {
            Err(TracefsError::NoEvent { .. }) => self.followed = self.started.end..self.started.end,
            other => other?,
        }
        Ok(())
    }

    /// What tells of touches; as events only where they are wanted.
    fn take_touches(&mut self, wanted: bool) -> Result<(), TracefsError> {
        let formats = [(GET, true), (MAP, false)].map(|(name, read)| Ok((tracefs::load(name)?, read)));
        let formats = formats.into_iter().collect::<Result<Vec<_>, TracefsError>>()?;
        for (format, read) in formats.into_iter().filter(|_| wanted) {
            let last = format.field("last_index", 8)?.offset;
            self.insert(&format, Kind::Touched { at: page_fields(&format)?, last, read });
        }
        self.followed = self.started.end..self.ids.len();
        self.touches = true;
        Ok(())
    }

    /// Those that are always on, once more.
    fn twice(&mut self) {
        self.ids.extend_from_within(self.always.clone());
        self.again = self.loads.end..self.ids.len();
    }

    /// By which the kernel drops what does not matter of an event that is always on: what is not `only` on these devices, if there are any.
    pub(crate) fn filter(&self, at: usize, only: &BTreeSet<(u32, u32)>) -> Option<String> {
        let kind = self.ids.get(at).and_then(|&id| self.kinds.get(&u16::try_from(id).ok()?))?;
        let devices: Vec<String> =
            only.iter().map(|(major, minor)| format!("s_dev=={}", major << MINOR_BITS | minor)).collect();
        match kind {
            Kind::Sent => Some(SENT_FILTER.to_owned()),
            Kind::Loads { .. } if self.ours_only => Some(OURS_FILTER.to_owned()),
            // Metadata, and files that are on no device.
            Kind::Loads { .. } if devices.is_empty() => Some(format!("s_dev>={}", 1_u32 << MINOR_BITS)),
            _ => (!devices.is_empty()).then(|| devices.join("||")),
        }
    }

    /// Of programs that are started only, which every kernel tells.
    ///
    /// # Errors
    /// [`TracefsError`] where it does not.
    pub(crate) fn of_programs() -> Result<Self, TracefsError> {
        let mut all = Self::none();
        all.insert(&tracefs::load(EXEC)?, Kind::Started);
        all.started = 0..all.ids.len();
        let none = all.started.end..all.started.end;
        (all.followed, all.loads, all.again) = (none.clone(), none.clone(), none);
        Ok(all)
    }

    const fn none() -> Self {
        Self {
            ids: Vec::new(),
            always: 0..0,
            followed: 0..0,
            started: 0..0,
            loads: 0..0,
            again: 0..0,
            touches: false,
            faults: false,
            ours_only: false,
            kinds: BTreeMap::new(),
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
    pub(crate) fn read(&self, raw: &[u8]) -> Option<Sight> {
        let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
        Some(match *self.kinds.get(&id)? {
            Kind::Asked { at, pages, window, size, missing } => Sight::Asked {
                file: at.file(raw)?,
                first: u64_at(raw, at.page)?,
                pages: u64_at(raw, pages)?.clamp(1, PAGES_MAX),
                window: u32_at(raw, window)?,
                missing,
                idle: u32_at(raw, size)? == 0,
            },
            Kind::Window { at, window } => {
                Sight::Window { file: at.file(raw)?, window: u32_at(raw, window)? }
            }
            Kind::Fault(at) => Sight::Fault { file: at.file(raw)?, page: u64_at(raw, at.page)? },
            Kind::Touched { at, last, read } => {
                let (file, first) = (at.file(raw)?, u64_at(raw, at.page)?);
                let (first, last) = within(first, u64_at(raw, last)?);
                if read { Sight::Read { file, first, last } } else { Sight::Mapped { file, first, last } }
            }
            Kind::Started => Sight::Started,
            Kind::Sent => Sight::Sent { thread: u32_at(raw, THREAD_AT)? },
            Kind::Loads { at, order, frame } => {
                let order = order.map_or(Some(0), |at| raw.get(at).copied())?.min(ORDER_MAX);
                let (file, first, frame) = (at.file(raw)?, u64_at(raw, at.page)?, u64_at(raw, frame)?);
                Sight::Loads { thread: u32_at(raw, THREAD_AT)?, file, first, pages: 1 << order, frame }
            }
        })
    }
}

/// First and last page of a read, as far as one may tell of.
pub(crate) fn within(first: u64, last: u64) -> (u64, u64) {
    (first, last.clamp(first, first.saturating_add(PAGES_MAX)))
}

impl PageFields {
    fn file(self, raw: &[u8]) -> Option<FileId> {
        let device = u32_at(raw, self.device)?;
        let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
        Some(FileId { major, minor, inode: u64_at(raw, self.inode)? })
    }
}

fn page_fields(format: &Format) -> Result<PageFields, TracefsError> {
    let inode = format.field("i_ino", 8)?.offset;
    Ok(PageFields { inode, device: format.field("s_dev", 4)?.offset, page: format.field("index", 8)?.offset })
}

fn asked(format: &Format, missing: bool) -> Result<Kind, TracefsError> {
    Ok(Kind::Asked {
        at: page_fields(format)?,
        pages: format.field("req_count", 8)?.offset,
        window: format.field("ra_pages", 4)?.offset,
        size: format.field("size", 4)?.offset,
        missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC_6_18: &str = "name: page_cache_sync_ra
ID: 617
\tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned int size;\toffset:36;\tsize:4;\tsigned:0;
\tfield:unsigned int ra_pages;\toffset:44;\tsize:4;\tsigned:0;
\tfield:unsigned long req_count;\toffset:64;\tsize:8;\tsigned:0;
";

    #[test]
    fn a_decision_of_the_kernel_tells_the_window_of_the_open_file() {
        let format = Format::parse(SYNC_6_18).expect("the kernel's own text");
        let mut points = ReadPoints::none();
        points.insert(&format, asked(&format, true).expect("all fields"));
        let mut raw = vec![0_u8; 72];
        raw[..2].copy_from_slice(&617_u16.to_ne_bytes());
        for (at, value) in [(8, 77_u64), (24, 16), (64, 4)] {
            raw[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        raw[16..20].copy_from_slice(&((254_u32 << 20) | 5).to_ne_bytes());
        raw[44..48].copy_from_slice(&32_u32.to_ne_bytes());
        let file = FileId { major: 254, minor: 5, inode: 77 };
        let asked = Sight::Asked { file, first: 16, pages: 4, window: 32, missing: true, idle: true };
        assert_eq!(points.read(&raw), Some(asked));
        for length in 0..72 {
            assert_eq!(points.read(&raw[..length]), None, "cut to {length}");
        }
    }
}
