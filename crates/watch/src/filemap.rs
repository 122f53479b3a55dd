//! The tracepoints of the page cache, and of the calls that read, as events for [`forerun_trace::assemble`].
//!
//! `filemap:mm_filemap_get_pages` fires for every buffered read, whether or not its pages are in the cache;
//! `mm_filemap_fault` when a mapped page is not, `mm_filemap_map_pages` when pages around a fault are. Linux has had them
//! since 6.12 (6.1 has none of the three). The calls (`syscalls:sys_enter_read` and its kin) add exact bytes and the time
//! a read took; a kernel built without them still gives reads in whole pages. Fields are found by name, as everywhere in
//! this crate, and all events share one ring, so each record's `common_type` says what it is.

use crate::format::Format;
use crate::sample::{u32_at, u64_at};
use crate::tracefs::{self, TracefsError};
use forerun_trace::assemble::{Event, FileId};
use std::collections::BTreeMap;
use std::ops::Range;

/// The tracepoint without which nothing can be recorded.
pub(crate) const PAGES: &str = "filemap/mm_filemap_get_pages";
/// Calls that read, and those that place a descriptor; those that this kernel does not trace are left out.
const CALLS: [&str; 10] =
    ["read", "pread64", "readv", "preadv", "preadv2", "lseek", "open", "openat", "openat2", "creat"];
/// Bits of a kernel device number that hold the minor number.
const MINOR_BITS: u32 = 20;

/// Where the fields of one tracepoint are.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Pages(Pages),
    Mapped(Pages),
    Enter { fd: usize, count: Option<usize>, offset: Option<usize> },
    Seek { fd: usize },
    Open,
    Exit { result: usize },
}

/// A file and a run of its pages.
#[derive(Clone, Copy, Debug)]
struct Pages {
    inode: usize,
    device: usize,
    first: usize,
    /// `None`: one page.
    last: Option<usize>,
}

/// The tracepoints that are recorded.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    /// Their numbers.
    pub(crate) ids: Vec<u64>,
    /// Whether calls are among them: reads then have exact bytes and a duration.
    pub(crate) calls: bool,
    /// Places in `ids` of those that tell of pages.
    pub(crate) of_pages: Range<usize>,
    kinds: BTreeMap<u16, Kind>,
}

/// A device as the kernel's filters know it.
pub(crate) const fn number(major: u32, minor: u32) -> u32 {
    major << MINOR_BITS | minor
}

impl Tracepoints {
    /// Those of this machine.
    ///
    /// # Errors
    /// [`TracefsError`] where the page cache cannot be traced.
    pub(crate) fn load() -> Result<Self, TracefsError> {
        let mut all = Self { ids: Vec::new(), calls: false, of_pages: 0..0, kinds: BTreeMap::new() };
        all.take(PAGES, |format| Ok(Kind::Pages(Pages::new(format, true)?)))?;
        all.take("filemap/mm_filemap_fault", |format| Ok(Kind::Mapped(Pages::new(format, false)?)))?;
        all.take("filemap/mm_filemap_map_pages", |format| Ok(Kind::Mapped(Pages::new(format, true)?)))?;
        all.of_pages = 0..all.ids.len();
        for call in CALLS {
            let enter = tracefs::load(&format!("syscalls/sys_enter_{call}"));
            let exit = tracefs::load(&format!("syscalls/sys_exit_{call}"));
            // An entry is of use only with its end.
            if let (Ok(enter), Ok(exit)) = (enter, exit)
                && let (Some(entered), Ok(result)) = (entered(&enter, call), exit.field("ret", 8))
            {
                all.calls = true;
                all.insert(&enter, entered);
                all.insert(&exit, Kind::Exit { result: result.offset });
            }
        }
        Ok(all)
    }

    fn take(
        &mut self,
        event: &str,
        kind: impl FnOnce(&Format) -> Result<Kind, TracefsError>,
    ) -> Result<(), TracefsError> {
        let format = tracefs::load(event)?;
        let kind = kind(&format)?;
        self.insert(&format, kind);
        Ok(())
    }

    fn insert(&mut self, format: &Format, kind: Kind) {
        // `common_type` has 16 bits, so a larger number never comes.
        if let Ok(id) = u16::try_from(format.id) {
            self.ids.push(format.id);
            self.kinds.insert(id, kind);
        }
    }

    /// What one raw record says; `None` if it is of another tracepoint or shorter than its format says.
    pub(crate) fn read(&self, raw: &[u8]) -> Option<Event> {
        let id = u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?);
        match *self.kinds.get(&id)? {
            Kind::Pages(range) => {
                range.read(raw).map(|(file, first, last)| Event::Pages { file, first, last })
            }
            Kind::Mapped(range) => {
                range.read(raw).map(|(file, first, last)| Event::Mapped { file, first, last })
            }
            Kind::Enter { fd, count, offset } => {
                // The inner nothing: this call has no such field. The outer: the record ends before it.
                let number = |at: Option<usize>| match at {
                    Some(at) => u64_at(raw, at).map(Some),
                    None => Some(None),
                };
                // An offset of -1 means the descriptor's own (preadv2).
                let offset = number(offset)?.filter(|&offset| offset <= i64::MAX.cast_unsigned());
                Some(Event::Enter { descriptor: u64_at(raw, fd)?, count: number(count)?, offset })
            }
            Kind::Seek { fd } => Some(Event::Seek { descriptor: u64_at(raw, fd)? }),
            Kind::Open => Some(Event::Open),
            Kind::Exit { result } => Some(Event::Exit { result: u64_at(raw, result)?.cast_signed() }),
        }
    }
}

/// The fields of a call's entry.
fn entered(format: &Format, call: &str) -> Option<Kind> {
    let field = |name| format.field(name, 8).ok().map(|field| field.offset);
    let offset = match call {
        "pread64" => Some(field("pos")?),
        "preadv" | "preadv2" => Some(field("pos_l")?),
        "lseek" => return Some(Kind::Seek { fd: field("fd")? }),
        "open" | "openat" | "openat2" | "creat" => return Some(Kind::Open),
        _ => None,
    };
    Some(Kind::Enter { fd: field("fd")?, count: field("count"), offset })
}

impl Pages {
    fn new(format: &Format, ends: bool) -> Result<Self, TracefsError> {
        Ok(Self {
            inode: format.field("i_ino", 8)?.offset,
            device: format.field("s_dev", 4)?.offset,
            first: format.field("index", 8)?.offset,
            last: if ends { Some(format.field("last_index", 8)?.offset) } else { None },
        })
    }

    fn read(&self, raw: &[u8]) -> Option<(FileId, u64, u64)> {
        let device = u32_at(raw, self.device)?;
        let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
        let file = FileId { major, minor, inode: u64_at(raw, self.inode)? };
        let first = u64_at(raw, self.first)?;
        let last = self.last.map_or(Some(first), |at| u64_at(raw, at))?;
        Some((file, first, last.max(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET_PAGES_6_18: &str = "name: mm_filemap_get_pages
ID: 599
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:unsigned long i_ino;\toffset:8;\tsize:8;\tsigned:0;
\tfield:dev_t s_dev;\toffset:16;\tsize:4;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long last_index;\toffset:32;\tsize:8;\tsigned:0;
";
    const ENTER_PREAD: &str = "name: sys_enter_pread64
ID: 838
\tfield:unsigned int fd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:size_t count;\toffset:32;\tsize:8;\tsigned:0;
\tfield:loff_t pos;\toffset:40;\tsize:8;\tsigned:0;
";

    fn tracepoints() -> Tracepoints {
        let mut all = Tracepoints { ids: Vec::new(), calls: false, of_pages: 0..0, kinds: BTreeMap::new() };
        let pages = Format::parse(GET_PAGES_6_18).expect("the kernel's own text");
        all.insert(&pages, Kind::Pages(Pages::new(&pages, true).expect("all fields")));
        let enter = Format::parse(ENTER_PREAD).expect("the kernel's own text");
        all.insert(&enter, entered(&enter, "pread64").expect("all fields"));
        all
    }

    #[test]
    fn pages_and_calls_are_told_apart_by_their_number() {
        let all = tracepoints();
        let mut raw = vec![0u8; 48];
        raw[..2].copy_from_slice(&599u16.to_ne_bytes());
        for (at, value) in [(8, 77u64), (24, 3), (32, 9)] {
            raw[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        raw[16..20].copy_from_slice(&((254u32 << 20) | 5).to_ne_bytes());
        let file = FileId { major: 254, minor: 5, inode: 77 };
        assert_eq!(all.read(&raw), Some(Event::Pages { file, first: 3, last: 9 }));
        let mut raw = vec![0u8; 48];
        raw[..2].copy_from_slice(&838u16.to_ne_bytes());
        for (at, value) in [(16, 4u64), (32, 100), (40, 4096)] {
            raw[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let enter = Event::Enter { descriptor: 4, count: Some(100), offset: Some(4096) };
        assert_eq!(all.read(&raw), Some(enter));
        for length in 0..48 {
            assert_eq!(all.read(&raw[..length]), None, "cut to {length}");
        }
        raw[0] = 1;
        assert_eq!(all.read(&raw), None);
    }
}
