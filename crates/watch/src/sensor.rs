//! Two small programs in the kernel that tell of the reads of chosen readers, hits too, and of nobody else's.
//!
//! ```text
//!   mm_filemap_get_pages, mm_filemap_map_pages ─▶ bit of the inode ─▶ (inode, device, process) in the table? ─▶ ring, read when somebody looks
//!                                                      └─no─────────────────┴─no──▶ nothing more
//! ```
//!
//! Before Linux 6.12 there are no such tracepoints, and the programs are at `filemap_read` and at the end of `filemap_map_pages`, where the kernel lets programs be at functions.
//!
//! The same could be had of `perf_event_open` with a filter of files, and is where this is not to be had. But a filter knows no process, so whoever else reads a
//! followed file pays for each read as if it were helped; and an event costs several times what a record of these programs does. They wake nobody (`bpf.rs` has what
//! all programs share).

use crate::bpf::{
    self, At, CLOCK, FRAME, Instruction, LOOKUP, Places, Records, Table, Wake, add, add_register, and, call,
    copy, jump_if_zero, load8, map_of, shift_left, shift_right, shift_right_by, store_number, store8,
};
use crate::btf::Btf;
use crate::reads::ReadPoints;
use forerun_trace::assemble::FileId;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

/// Readers that can be chosen: a place in the kernel's table is some hundred bytes.
pub(crate) const READERS_MAX: usize = 1_024;
/// Bytes of the ring: at two million reads a second it lasts more than 30 ms.
const RING_BYTES: u32 = 4 << 20;
/// Words of bits of inodes, a power of two.
const BIT_WORDS: usize = 8;
/// Where the parts of a record stand on the program's stack: time; inode, device and process, which are the key of the table; first page; last; kind.
pub(crate) const TIME: i16 = -48;
pub(crate) const KEY: i16 = -40;
pub(crate) const FIRST: i16 = -24;
pub(crate) const LAST: i16 = -16;
pub(crate) const KIND: i16 = -8;
pub(crate) const RECORD_BYTES: usize = 48;
/// Kinds of records.
pub(crate) const MAPPED: i32 = 0;
pub(crate) const READ: i32 = 1;
/// Bits of a place within a page, and what a fault returns whose page was there.
const PAGE_BITS: i32 = 12;
const VM_FAULT_NOPAGE: i32 = 0x100;
const KEY_BYTES: usize = 16;

/// One read of a reader that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    /// When, on the monotonic clock.
    pub(crate) time: u64,
    pub(crate) pid: u32,
    pub(crate) file: FileId,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// A read; else pages that were there were mapped.
    pub(crate) read: bool,
}

/// The programs, and what they share with us.
pub(crate) struct Sensor {
    readers: Table<KEY_BYTES, 4>,
    /// A bit for each inode of a reader: most reads need no look at the table.
    bits: Table<4, { BIT_WORDS * 8 }>,
    records: Records<RECORD_BYTES>,
    chosen: BTreeSet<(u32, FileId)>,
    programs: [OwnedFd; 2],
    /// What holds them to their tracepoints, while somebody is chosen.
    links: Vec<OwnedFd>,
}

impl Sensor {
    /// Loads them; nothing is told yet, and nothing costs anybody anything.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::Unsupported`] where the kernel does not say how it is built, or in a container with processes of its own.
    pub(crate) fn new() -> io::Result<Self> {
        // Who does without these tracepoints is to see what such a kernel tells by itself.
        if ReadPoints::is_without_touches() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let btf = bpf::types()?;
        let readers = Table::new(bpf::HASH, READERS_MAX as u32)?;
        let (bits, records) = (Table::new(bpf::ARRAY, 1)?, Records::new(RING_BYTES)?);
        let shared = Shared { bits: &bits, readers: &readers, records: &records };
        let places = Places::of(&btf).ok_or(io::ErrorKind::Unsupported)?;
        let load = |kind: i32| {
            let (at, touch) = Touch::of(&btf, kind).ok_or(io::ErrorKind::Unsupported)?;
            bpf::load(&touch.program(told(&places, &touch, kind, &shared)), at)
        };
        let programs = [load(READ)?, load(MAPPED)?];
        let mut all = Self { readers, bits, records, chosen: BTreeSet::new(), programs, links: Vec::new() };
        // A kernel that loads them and does not hold them at their places is told now, while there is another way.
        all.attach()?;
        all.detach();
        Ok(all)
    }

    /// A process and a file whose reads are told, or no longer.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn choose(&mut self, pid: u32, file: FileId, on: bool) -> io::Result<()> {
        let key = key(pid, file);
        if on {
            self.readers.insert(&key, 1_u32.to_ne_bytes())?;
            self.chosen.insert((pid, file));
        } else {
            self.readers.remove(&key)?;
            self.chosen.remove(&(pid, file));
        }
        let mut bits = [0_u64; BIT_WORDS];
        for (_, file) in &self.chosen {
            // As the program does it.
            bits[(file.inode >> 6) as usize % BIT_WORDS] |= 1 << (file.inode & 63);
        }
        let mut bytes = [0; BIT_WORDS * 8];
        for (word, bits) in bytes.as_chunks_mut().0.iter_mut().zip(bits) {
            *word = bits.to_ne_bytes();
        }
        self.bits.insert(&[0; 4], bytes)
    }

    /// From now on reads are told.
    ///
    /// # Errors
    /// What the system said; then nothing is told.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        if self.links.is_empty() {
            self.links = self.programs.iter().map(bpf::hold).collect::<io::Result<_>>()?;
        }
        Ok(())
    }

    /// No more: whoever reads pays nothing.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Hands over what came.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Touched)) {
        self.records.drain(&mut |record| take(touched(record)));
    }

    /// Reads for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.records.lost()
    }
}

/// The key of the table: as the program puts it on its stack.
fn key(pid: u32, file: FileId) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&file.inode.to_ne_bytes());
    key[8..12].copy_from_slice(&bpf::number_of_device(file).to_ne_bytes());
    key[12..].copy_from_slice(&pid.to_ne_bytes());
    key
}

/// What a record says.
pub(crate) fn touched(record: &[u8; RECORD_BYTES]) -> Touched {
    let word = |place: i16| bpf::word(record, place);
    let (pid, file) = bpf::noted(word(KEY), word(KEY + 8));
    Touched {
        time: word(TIME),
        pid,
        file,
        first: word(FIRST),
        last: word(LAST),
        read: word(KIND) == READ as u64,
    }
}

/// What a program uses.
struct Shared<'a> {
    bits: &'a Table<4, { BIT_WORDS * 8 }>,
    readers: &'a Table<KEY_BYTES, 4>,
    records: &'a Records<RECORD_BYTES>,
}

/// How a program comes to what it tells of; the arguments are where register 6 points to.
pub(crate) struct Touch {
    /// Whether there is something to be told: over the rest if it is zero in register 1. Nothing: always.
    pub(crate) is: Vec<Instruction>,
    /// The mapping, into register 1.
    pub(crate) mapping: Vec<Instruction>,
    /// First page and last, onto the stack.
    pub(crate) pages: Vec<Instruction>,
}

impl Touch {
    /// At its tracepoint (Linux 6.12), or at the function that a kernel before that has there.
    pub(crate) fn of(btf: &Btf, kind: i32) -> Option<(At, Self)> {
        let point = if kind == READ { "mm_filemap_get_pages" } else { "mm_filemap_map_pages" };
        let of_point = btf.typedef(&format!("btf_trace_{point}"));
        of_point
            .map(|number| (At::Tracepoint(number), Self::at_tracepoint()))
            .or_else(|| if kind == READ { Self::at_read(btf) } else { Self::at_map(btf) })
    }

    /// A program that does this where there is something to be told.
    pub(crate) fn program(&self, rest: Vec<Instruction>) -> Vec<Instruction> {
        let mut text = vec![copy(6, 1)];
        text.extend(&self.is);
        if !self.is.is_empty() {
            text.push(jump_if_zero(1, rest.len() as i16));
        }
        text.extend(rest);
        text.extend(bpf::END);
        text
    }

    /// Arguments are mapping, first page and last.
    fn at_tracepoint() -> Self {
        let pages = vec![load8(1, 6, 8), store8(FIRST, 1), load8(1, 6, 16), store8(LAST, 1)];
        Self { is: Vec::new(), mapping: vec![load8(1, 6, 0)], pages }
    }

    /// A read as a whole, before it is done: arguments are what is read, and where to.
    fn at_read(btf: &Btf) -> Option<(At, Self)> {
        let number = btf.function("filemap_read", 3, "kiocb")?;
        let mut mapping = vec![load8(1, 6, 0), load8(1, 1, bpf::place(btf, "kiocb", "ki_filp")?)];
        mapping.push(load8(1, 1, bpf::place(btf, "file", "f_mapping")?));
        let mut pages = vec![load8(1, 6, 0), load8(1, 1, bpf::place(btf, "kiocb", "ki_pos")?)];
        pages.extend([load8(2, 6, 8), load8(2, 2, bpf::place(btf, "iov_iter", "count")?)]);
        // The last byte that is wanted; of nothing the first page is told.
        pages.extend([add_register(2, 1), add(2, -1), shift_right(1, PAGE_BITS), store8(FIRST, 1)]);
        pages.extend([shift_right(2, PAGE_BITS), store8(LAST, 2)]);
        Some((At::Entry(number), Self { is: Vec::new(), mapping, pages }))
    }

    /// Pages around a fault, once they are mapped: arguments are the fault, first page and last, and what came of it.
    fn at_map(btf: &Btf) -> Option<(At, Self)> {
        let number = btf.function("filemap_map_pages", 3, "vm_fault")?;
        // The page of the fault itself was there.
        let is = vec![load8(1, 6, 24), and(1, VM_FAULT_NOPAGE)];
        let mut mapping = vec![load8(1, 6, 0), load8(1, 1, bpf::place(btf, "vm_fault", "vma")?)];
        mapping.push(load8(1, 1, bpf::place(btf, "vm_area_struct", "vm_file")?));
        mapping.push(load8(1, 1, bpf::place(btf, "file", "f_mapping")?));
        let Self { pages, .. } = Self::at_tracepoint();
        Some((At::Exit(number), Self { is, mapping, pages }))
    }
}

/// What is done where there is something to be told.
fn told(places: &Places, touch: &Touch, kind: i32, shared: &Shared<'_>) -> Vec<Instruction> {
    let mut text = touch.mapping.clone();
    text.extend(places.inode());
    // The word of the inode's bit, and the bit.
    text.extend([copy(3, 2), shift_right(3, 6)]);
    text.extend([and(3, BIT_WORDS as i32 - 1), shift_left(3, 3)]);
    text.extend(map_of(4, 2, shared.bits.number()));
    text.extend([add_register(4, 3), load8(4, 4, 0), copy(3, 2), and(3, 63)]);
    text.extend([shift_right_by(4, 3), and(4, 1)]);
    let rest = look_up(places, touch, kind, shared);
    text.push(jump_if_zero(4, rest.len() as i16));
    text.extend(rest);
    text
}

/// What is done for an inode that has its bit.
fn look_up(places: &Places, touch: &Touch, kind: i32, shared: &Shared<'_>) -> Vec<Instruction> {
    let mut text = places.note(KEY);
    text.extend(map_of(1, 1, shared.readers.number()));
    text.extend([copy(2, FRAME), add(2, i32::from(KEY)), call(LOOKUP)]);
    let mut chosen = vec![call(CLOCK), store8(TIME, 0), store_number(KIND, kind)];
    chosen.extend(&touch.pages);
    chosen.extend(shared.records.output(TIME, Wake::Nobody));
    text.push(jump_if_zero(0, chosen.len() as i16));
    text.extend(chosen);
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    /// File systems in memory have no such reads.
    pub(crate) fn is_in_memory(file: &File) -> bool {
        rustix::fs::fstatfs(file)
            .is_ok_and(|about| [0x0102_1994, 0x8584_58f6].contains(&(about.f_type as u64)))
    }

    #[test]
    fn reads_of_who_was_chosen_are_told_and_of_nobody_else() {
        // Without the rights, or without a kernel that says how it is built, there is nothing to be told.
        let Ok(mut sensor) = Sensor::new() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, [1; 3 * 4096]).expect("room on disk");
            let file = File::open(path).expect("just made");
            let data = file.metadata().expect("ours");
            let (major, minor) = (libc::major(data.dev()), libc::minor(data.dev()));
            (file, FileId { major, minor, inode: data.ino() })
        };
        let ((chosen, id), (other, _)) = (make("a"), make("b"));
        let read = |file: &File| file.read_exact_at(&mut [0; 4096], 2 * 4096).expect("it is there");
        let own = std::process::id();
        sensor.choose(own, id, true).expect("room");
        sensor.attach().expect("as it was loaded");
        read(&other);
        read(&chosen);
        sensor.choose(own, id, false).expect("it is there");
        // The same file, and another process.
        sensor.choose(own + 1, id, true).expect("room");
        read(&chosen);
        let mut told = Vec::new();
        sensor.drain(&mut |touched| told.push(touched));
        told.retain(|touched| touched.read);
        let seen: Vec<_> = told.iter().map(|touched| (touched.pid, touched.file, touched.first)).collect();
        assert!(is_in_memory(&chosen) && seen.is_empty() || seen == [(own, id, 2)], "{told:?}");
        sensor.detach();
        sensor.choose(own, id, true).expect("room");
        read(&chosen);
        sensor.drain(&mut |touched| panic!("{touched:?}"));
        assert_eq!(sensor.lost(), 0);
        assert!(sensor.choose(own + 2, id, false).is_err(), "nobody chose that one");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let Ok(mut sensor) = Sensor::new() else { return };
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), [1; 4096]).expect("room on disk");
        let data = file.as_file().metadata().expect("ours");
        let id = FileId { major: libc::major(data.dev()), minor: libc::minor(data.dev()), inode: data.ino() };
        sensor.choose(std::process::id(), id, true).expect("room");
        sensor.attach().expect("as it was loaded");
        let reads = u64::from(RING_BYTES) / (RECORD_BYTES as u64 + bpf::RECORD_HEADER) + 1_000;
        for _ in 0..reads {
            file.as_file().read_exact_at(&mut [0; 4096], 0).expect("it is there");
        }
        let (mut told, lost) = (0, sensor.lost());
        sensor.drain(&mut |_| told += 1);
        assert!(
            is_in_memory(file.as_file()) && told == 0 || told + lost == reads && lost >= 1_000 - 1,
            "{told} told, {lost} lost of {reads}"
        );
    }

    #[test]
    fn a_record_is_read_as_the_program_lays_it_down() {
        let mut record = [0; RECORD_BYTES];
        let file = FileId { major: 254, minor: 7, inode: 99 };
        record[8..24].copy_from_slice(&key(12, file));
        for (at, value) in [(0, 5_u64), (24, 3), (32, 4), (40, 1)] {
            record[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let wanted = Touched { time: 5, pid: 12, file, first: 3, last: 4, read: true };
        assert_eq!(touched(&record), wanted);
    }
}
