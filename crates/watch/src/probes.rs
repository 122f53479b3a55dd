//! Small programs at the functions of the kernel's own read-ahead, which tell what its tracepoints tell since Linux 6.18, on kernels before that.
//!
//! ```text
//!   page_cache_sync_ra    a page is missing       ─┐
//!   page_cache_async_ra   a mark was reached      ─┼─▶ inode, device, process, page, window of the open file ─▶ ring, which wakes who has read all of it
//!   page_cache_ra_order   a window goes out       ─┤
//!   filemap_fault         a mapped page is not there (before Linux 6.12, which has a tracepoint)
//! ```
//!
//! Each is at the entry of its function (tried on Linux 6.1 and 6.12; wants a kernel that can be traced by function), which is where the tracepoints are that came later, and tells the
//! same: so all behind `reads.rs` is as it is there. None of the functions is called for what is in memory. What the kernel does not have, or takes no program for, is found out before
//! anything is changed, and then misses are made of what is loaded (`loads.rs`).

use crate::bpf::{
    self, At, CLOCK, Instruction, Places, Records, Wake, call, copy, load4, load8, store_number, store4,
    store8,
};
use crate::btf::Btf;
use crate::reads::{PAGES_MAX, Sight};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of the ring: of some twenty thousand misses.
const RING_BYTES: u32 = 2 << 20;
/// Where the parts of a record stand on the program's stack: time; inode, device and process; first page; pages; window and size of the last window; kind.
const TIME: i16 = -64;
const FILE: i16 = -56;
const FIRST: i16 = -40;
const PAGES: i16 = -32;
const WINDOW: i16 = -24;
const SIZE: i16 = -16;
const KIND: i16 = -8;
const RECORD_BYTES: usize = 64;
/// Kinds of records.
const MISSING: i32 = 0;
const MARK: i32 = 1;
const ORDER: i32 = 2;
const FAULT: i32 = 3;

/// The programs, at work until this is dropped.
pub(crate) struct Probes {
    records: Records<RECORD_BYTES>,
    /// They tell of faults.
    faults: bool,
    _held: Vec<(OwnedFd, OwnedFd)>,
}

impl Probes {
    /// Loads them and sets them to work; `faults`: those of faults too, which this kernel has no tracepoint of.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::Unsupported`] where the kernel does not say how it is built, is built otherwise, or in a container with processes of its own.
    pub(crate) fn new(faults: bool) -> io::Result<Self> {
        let btf = bpf::types()?;
        let records = Records::new(RING_BYTES)?;
        let mut held = Vec::new();
        let mut hold = |number: Option<u32>, text: Option<Vec<Instruction>>| {
            let (number, text) = number.zip(text).ok_or(io::ErrorKind::Unsupported)?;
            let program = bpf::load(&text, At::Entry(number))?;
            let link = bpf::hold(&program)?;
            held.push((program, link));
            io::Result::Ok(())
        };
        let control = "readahead_control";
        let asked = |kind, pages| program_asked(&btf, kind, pages, &records);
        hold(btf.function("page_cache_sync_ra", 2, control), asked(MISSING, Some(1)))?;
        hold(btf.function("page_cache_async_ra", 3, control), asked(MARK, Some(2)))?;
        // Its parameters have become fewer by and by, and the first is what is asked for.
        let order = [3, 2].into_iter().find_map(|count| btf.function("page_cache_ra_order", count, control));
        // Without it no window around a fault is known, and so none is changed.
        drop(hold(order, asked(ORDER, None)));
        let faults = faults
            && hold(btf.function("filemap_fault", 1, "vm_fault"), program_fault(&btf, &records)).is_ok();
        Ok(Self { records, faults, _held: held })
    }

    /// Whether they tell of faults.
    pub(crate) const fn tells_faults(&self) -> bool {
        self.faults
    }

    /// Hands over what came: time, process and what was seen.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(u64, u32, Sight)) {
        self.records.drain(&mut |record| {
            if let Some((time, pid, sight)) = seen(record) {
                take(time, pid, sight);
            }
        });
    }

    /// What there was no room for.
    pub(crate) fn lost(&self) -> u64 {
        self.records.lost()
    }
}

/// Readable when something came.
impl AsFd for Probes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.records.as_fd()
    }
}

fn seen(record: &[u8; RECORD_BYTES]) -> Option<(u64, u32, Sight)> {
    let word = |place: i16| bpf::word(record, place);
    let (pid, file) = bpf::noted(word(FILE), word(FILE + 8));
    let (first, window) = (word(FIRST), word(WINDOW) as u32);
    let sight = match i32::try_from(word(KIND)).ok()? {
        kind @ (MISSING | MARK) => {
            let pages = word(PAGES).clamp(1, PAGES_MAX);
            Sight::Asked { file, first, pages, window, missing: kind == MISSING, idle: word(SIZE) == 0 }
        }
        ORDER => Sight::Window { file, window },
        FAULT => Sight::Fault { file, page: first },
        _ => return None,
    };
    Some((word(TIME), pid, sight))
}

/// What is done where the first argument is what the kernel reads ahead (`readahead_control`), and the one of number `pages` how many pages are wanted.
fn program_asked(
    btf: &Btf,
    kind: i32,
    pages: Option<i16>,
    records: &Records<RECORD_BYTES>,
) -> Option<Vec<Instruction>> {
    let control = |member| bpf::place(btf, "readahead_control", member);
    let state = |member| bpf::place(btf, "file_ra_state", member);
    let places = Places::of(btf)?;
    let mut text = vec![copy(6, 1), load8(7, 6, 0), load8(8, 7, control("ra")?)];
    text.push(load8(1, 7, control("mapping")?));
    text.extend(places.inode());
    text.extend(places.note(FILE));
    text.extend([load8(3, 7, control("_index")?), store8(FIRST, 3)]);
    // The upper halves stay zero.
    text.extend([store_number(PAGES, 0), store_number(WINDOW, 0), store_number(SIZE, 0)]);
    if let Some(argument) = pages {
        text.extend([load8(3, 6, argument * 8), store8(PAGES, 3)]);
    }
    text.extend([load4(3, 8, state("ra_pages")?), store4(WINDOW, 3)]);
    text.extend([load4(3, 8, state("size")?), store4(SIZE, 3)]);
    text.extend(finish(kind, records));
    Some(text)
}

/// What is done where the only argument is a fault.
fn program_fault(btf: &Btf, records: &Records<RECORD_BYTES>) -> Option<Vec<Instruction>> {
    let mut text = vec![load8(7, 1, 0), load8(1, 7, bpf::place(btf, "vm_fault", "vma")?)];
    text.push(load8(1, 1, bpf::place(btf, "vm_area_struct", "vm_file")?));
    text.push(load8(1, 1, bpf::place(btf, "file", "f_mapping")?));
    let places = Places::of(btf)?;
    text.extend(places.inode());
    text.extend(places.note(FILE));
    text.extend([load8(3, 7, bpf::place(btf, "vm_fault", "pgoff")?), store8(FIRST, 3)]);
    text.extend([store_number(PAGES, 0), store_number(WINDOW, 0), store_number(SIZE, 0)]);
    text.extend(finish(FAULT, records));
    Some(text)
}

/// The record goes out.
fn finish(kind: i32, records: &Records<RECORD_BYTES>) -> Vec<Instruction> {
    let mut text = vec![store_number(KIND, kind), call(CLOCK), store8(TIME, 0)];
    text.extend(records.output(TIME, Wake::Reader));
    text.extend(bpf::END);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_trace::assemble::FileId;

    /// A record as a program lays it down.
    fn record(kind: i32, words: [u64; 6]) -> [u8; RECORD_BYTES] {
        let [time, inode, of, first, pages, window] = words;
        let all = [time, inode, of, first, pages, window, 0, kind as u64];
        let mut record = [0; RECORD_BYTES];
        for (to, word) in record.as_chunks_mut().0.iter_mut().zip(all) {
            *to = word.to_ne_bytes();
        }
        record
    }

    #[test]
    fn records_are_read_as_the_programs_lay_them_down() {
        let file = FileId { major: 254, minor: 7, inode: 99 };
        let of = 12 << 32 | u64::from(bpf::number_of_device(file));
        let told = |kind| seen(&record(kind, [5, 99, of, 64, 4, 32]));
        let asked = |missing| Sight::Asked { file, first: 64, pages: 4, window: 32, missing, idle: true };
        assert_eq!(told(MISSING), Some((5, 12, asked(true))));
        assert_eq!(told(MARK), Some((5, 12, asked(false))));
        assert_eq!(told(ORDER), Some((5, 12, Sight::Window { file, window: 32 })));
        assert_eq!(told(FAULT), Some((5, 12, Sight::Fault { file, page: 64 })));
        assert_eq!(told(4), None);
    }

    #[test]
    fn the_programs_can_be_written_for_this_kernel_and_are_told_of_a_miss_where_it_takes_them() {
        let Ok(btf) = bpf::types() else { return };
        let Ok(records) = Records::new(RING_BYTES) else { return };
        assert!(
            program_fault(&btf, &records).is_some(),
            "this kernel's types have all that is asked of them"
        );
        assert!(program_asked(&btf, MARK, Some(2), &records).is_some());
        assert!(btf.function("page_cache_async_ra", 3, "readahead_control").is_some());
        assert!(btf.function("page_cache_async_ra", 3, "file_ra_state").is_none(), "another structure");
        // A kernel that is not built for it takes none.
        let Ok(mut probes) = Probes::new(true) else { return };
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [1; 8 * 4096]).expect("room on disk");
        file.as_file().sync_all().expect("written");
        rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).expect("ours");
        std::fs::read(file.path()).expect("it is there");
        let inode = std::os::unix::fs::MetadataExt::ino(&file.as_file().metadata().expect("ours"));
        let mut told = Vec::new();
        probes.drain(&mut |_, pid, sight| told.push((pid, sight)));
        let own = (std::process::id(), Some(inode));
        let missed = told.iter().any(|(pid, sight)| {
            matches!(sight, Sight::Asked { missing: true, first: 0, .. })
                && (*pid, sight.file().map(|file| file.inode)) == own
        });
        assert!(missed || crate::sensor::tests::is_in_memory(file.as_file()), "{told:?}");
        assert_eq!(probes.lost(), 0);
    }
}
