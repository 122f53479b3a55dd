//! Two small programs in the kernel that tell of the reads of chosen readers, hits too, and of nobody else's.
//!
//! ```text
//!   mm_filemap_get_pages, mm_filemap_map_pages ─▶ bit of the inode ─▶ (inode, device, process) in the table? ─▶ ring, read when somebody looks
//!                                                      └─no─────────────────┴─no──▶ nothing more
//! ```
//!
//! The same could be had of `perf_event_open` with a filter of files, and is where this is not to be had. But a filter knows no process, so whoever else reads a
//! followed file pays for each read as if it were helped; and an event costs several times what a record of these programs does. The programs are written down here, an instruction a line:
//! no compiler is needed, neither to build nor to run. Where members of the kernel's structures stand is asked of its own types (`btf.rs`), and it checks that the programs end, and
//! read nothing but what they may. They write to the ring and a counter of what it had no room for, wake nobody, and are gone when their descriptors are closed, however this process ends.
//!
//! They are offered under the GPL as well as under the licence of the rest: the kernel lets no others follow its pointers.
#![expect(unsafe_code, reason = "bpf and its shared ring have no safe interface")]

use crate::btf::Btf;
use forerun_trace::assemble::FileId;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Readers that can be chosen: a place in the kernel's table is some hundred bytes.
pub(crate) const READERS_MAX: usize = 1_024;
/// Bytes of the ring: at two million reads a second it lasts more than 30 ms.
const RING_BYTES: u32 = 4 << 20;
/// Commands of `bpf`.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
/// Kinds of maps.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const RING: u32 = 27;
/// `BPF_PROG_TYPE_TRACING`, and `BPF_TRACE_RAW_TP`: a tracepoint whose arguments have types.
const TRACING: u32 = 26;
const TRACE_RAW_TP: u32 = 23;
/// Words of bits of inodes, a power of two.
const BIT_WORDS: usize = 8;
/// Bits of the length of a record in the ring: it is being written, or is to be passed over.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes before a record.
const RECORD_HEADER: u64 = 8;
/// Where the parts of a record stand on the program's stack: time; inode, device and process, which are the key of the table; first page; last; kind.
const TIME: i16 = -48;
const KEY: i16 = -40;
const DEVICE: i16 = -32;
const PROCESS: i16 = -28;
const FIRST: i16 = -24;
const LAST: i16 = -16;
const KIND: i16 = -8;
const RECORD_BYTES: usize = 48;
const KEY_BYTES: u32 = 16;
/// Bits of a kernel device number that hold the minor number.
const MINOR_BITS: u32 = 20;
/// The first namespace of processes: a program in the kernel knows processes by their numbers there.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// What the kernel is told of the licence of the programs.
const LICENCE: &CStr = c"Dual MIT/GPL";

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
    readers: OwnedFd,
    /// A bit for each inode of a reader: most reads need no look at the table.
    bits: OwnedFd,
    chosen: BTreeSet<(u32, FileId)>,
    lost: OwnedFd,
    programs: [OwnedFd; 2],
    /// What holds them to their tracepoints, while somebody is chosen.
    links: Vec<OwnedFd>,
    ring: Shared,
}

impl Sensor {
    /// Loads them; nothing is told yet, and nothing costs anybody anything.
    ///
    /// # Errors
    /// What the system said; [`io::ErrorKind::Unsupported`] where the kernel does not say how it is built, or in a container with processes of its own.
    pub(crate) fn new() -> io::Result<Self> {
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        if cfg!(target_endian = "big") || namespace.as_os_str() != FIRST_NAMESPACE {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let btf = Btf::of_this_kernel()?;
        let readers = map(HASH, KEY_BYTES, 4, READERS_MAX as u32)?;
        let (lost, ring) = (map(ARRAY, 4, 8, 1)?, map(RING, 0, 0, RING_BYTES)?);
        let bits = map(ARRAY, 4, BIT_WORDS as u32 * 8, 1)?;
        let load = |point: &str, kind: i32| {
            let places = Places::of(&btf).zip(btf.typedef(&format!("btf_trace_{point}")));
            let (places, number) = places.ok_or(io::ErrorKind::Unsupported)?;
            let maps = Maps {
                bits: bits.as_raw_fd(),
                readers: readers.as_raw_fd(),
                ring: ring.as_raw_fd(),
                lost: lost.as_raw_fd(),
            };
            let text = program(&places, kind, &maps);
            load(&text, number)
        };
        let programs = [load("mm_filemap_get_pages", 1)?, load("mm_filemap_map_pages", 0)?];
        let ring = Shared::of(ring)?;
        let mut all =
            Self { readers, bits, chosen: BTreeSet::new(), lost, programs, links: Vec::new(), ring };
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
        let (key, value) = (key(pid, file), 1_u32.to_ne_bytes());
        // What is taken out has no value.
        let (command, value) = if on { (MAP_UPDATE, value.as_ptr()) } else { (MAP_DELETE, std::ptr::null()) };
        let attr = Element::of(&self.readers, key.as_ptr(), value);
        // SAFETY: key and value are as long as the map was made with, and live until the call is over; it changes neither.
        unsafe { bpf(command, &attr) }?;
        if on {
            self.chosen.insert((pid, file));
        } else {
            self.chosen.remove(&(pid, file));
        }
        let mut bits = [0_u64; BIT_WORDS];
        for (_, file) in &self.chosen {
            // As the program does it.
            bits[(file.inode >> 6) as usize % BIT_WORDS] |= 1 << (file.inode & 63);
        }
        let first = [0_u8; 4];
        let attr = Element::of(&self.bits, first.as_ptr(), bits.as_ptr().cast());
        // SAFETY: four bytes and as many words as the map was made with, which the call reads.
        unsafe { bpf(MAP_UPDATE, &attr) }.map(drop)
    }

    /// From now on reads are told.
    ///
    /// # Errors
    /// What the system said; then nothing is told.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        if self.links.is_empty() {
            self.links = self.programs.iter().map(hold).collect::<io::Result<_>>()?;
        }
        Ok(())
    }

    /// No more: whoever reads pays nothing.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Hands over what came.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(Touched)) {
        self.ring.drain(&mut |record| take(touched(record)));
    }

    /// Reads for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        let (key, mut value) = ([0_u8; 4], [0_u8; 8]);
        let attr = Element::of(&self.lost, key.as_ptr(), value.as_mut_ptr());
        // SAFETY: the kernel reads four bytes of ours and writes eight.
        let got = unsafe { bpf(MAP_LOOKUP, &attr) };
        got.map_or(0, |_| u64::from_ne_bytes(value))
    }
}

/// The key of the table: as the program puts it on its stack.
fn key(pid: u32, file: FileId) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&file.inode.to_ne_bytes());
    key[8..12].copy_from_slice(&(file.major << MINOR_BITS | file.minor).to_ne_bytes());
    key[12..].copy_from_slice(&pid.to_ne_bytes());
    key
}

fn touched(record: &[u8; RECORD_BYTES]) -> Touched {
    let word = |place: i16| {
        // A place on the stack of the record's length.
        let at = (place + RECORD_BYTES as i16) as usize;
        u64::from_ne_bytes(std::array::from_fn(|byte| record[at + byte]))
    };
    let of = word(DEVICE);
    let (device, pid) = (of as u32, (of >> 32) as u32);
    let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    let file = FileId { major, minor, inode: word(KEY) };
    Touched { time: word(TIME), pid, file, first: word(FIRST), last: word(LAST), read: word(KIND) == 1 }
}

/// Where members stand that the programs go through.
struct Places {
    host: i16,
    inode: i16,
    system: i16,
    device: i16,
}

impl Places {
    fn of(btf: &Btf) -> Option<Self> {
        let place = |structure, member| i16::try_from(btf.member(structure, member)?).ok();
        Some(Self {
            host: place("address_space", "host")?,
            inode: place("inode", "i_ino")?,
            system: place("inode", "i_sb")?,
            device: place("super_block", "s_dev")?,
        })
    }
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// The one that is changed below, the one that is read above.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn ins(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, value }
}

/// Loads of eight and four bytes, stores of eight and four.
const fn load8(to: u8, from: u8, at: i16) -> Instruction {
    ins(0x79, to, from, at, 0)
}
const fn load4(to: u8, from: u8, at: i16) -> Instruction {
    ins(0x61, to, from, at, 0)
}
const fn store8(at: i16, from: u8) -> Instruction {
    ins(0x7b, FRAME, from, at, 0)
}
const fn store4(at: i16, from: u8) -> Instruction {
    ins(0x63, FRAME, from, at, 0)
}
/// A number, a copy of a register, a sum.
const fn set(to: u8, value: i32) -> Instruction {
    ins(0xb7, to, 0, 0, value)
}
const fn copy(to: u8, from: u8) -> Instruction {
    ins(0xbf, to, from, 0, 0)
}
const fn add(to: u8, value: i32) -> Instruction {
    ins(0x07, to, 0, 0, value)
}
const fn call(function: i32) -> Instruction {
    ins(0x85, 0, 0, 0, function)
}
/// A map by its descriptor (1), or the first value of one (2).
const fn map_of(to: u8, kind: u8, fd: i32) -> [Instruction; 2] {
    [ins(0x18, to, kind, 0, fd), ins(0, 0, 0, 0, 0)]
}
/// Zero: over so many.
const fn jump_if_zero(register: u8, over: i16) -> Instruction {
    ins(0x15, register, 0, over, 0)
}
/// The stack.
const FRAME: u8 = 10;
/// Functions of the kernel.
const LOOKUP: i32 = 1;
const CLOCK: i32 = 5;
const WHO: i32 = 14;
const OUTPUT: i32 = 130;
/// `BPF_RB_NO_WAKEUP`.
const QUIET: i32 = 1;

/// Descriptors of what a program uses.
struct Maps {
    bits: i32,
    readers: i32,
    ring: i32,
    lost: i32,
}

/// What is done at a tracepoint whose arguments are mapping, first page and last.
fn program(places: &Places, kind: i32, maps: &Maps) -> Vec<Instruction> {
    let mut text =
        vec![copy(6, 1), load8(1, 6, 0), load8(1, 1, places.host), load8(2, 1, places.inode), copy(3, 2)];
    // The word of the inode's bit, and the bit.
    text.extend([ins(0x77, 3, 0, 0, 6), ins(0x57, 3, 0, 0, BIT_WORDS as i32 - 1), ins(0x67, 3, 0, 0, 3)]);
    text.extend(map_of(4, 2, maps.bits));
    text.extend([ins(0x0f, 4, 3, 0, 0), load8(4, 4, 0), copy(3, 2), ins(0x57, 3, 0, 0, 63)]);
    text.extend([ins(0x7f, 4, 3, 0, 0), ins(0x57, 4, 0, 0, 1)]);
    let rest = look_up(places, kind, maps);
    text.push(jump_if_zero(4, rest.len() as i16));
    text.extend(rest);
    text.extend([set(0, 0), ins(0x95, 0, 0, 0, 0)]);
    text
}

/// What is done for an inode that has its bit.
fn look_up(places: &Places, kind: i32, maps: &Maps) -> Vec<Instruction> {
    let mut text = vec![
        store8(KEY, 2),
        load8(3, 1, places.system),
        load4(3, 3, places.device),
        store4(DEVICE, 3),
        call(WHO),
        ins(0x77, 0, 0, 0, 32), // the process is above, the thread below
        store4(PROCESS, 0),
    ];
    text.extend(map_of(1, 1, maps.readers));
    text.extend([copy(2, FRAME), add(2, i32::from(KEY)), call(LOOKUP)]);
    let mut chosen = vec![
        call(CLOCK),
        store8(TIME, 0),
        load8(1, 6, 8),
        store8(FIRST, 1),
        load8(1, 6, 16),
        store8(LAST, 1),
        ins(0x7a, FRAME, 0, KIND, kind),
    ];
    chosen.extend(map_of(1, 1, maps.ring));
    chosen.extend([
        copy(2, FRAME),
        add(2, i32::from(TIME)),
        set(3, RECORD_BYTES as i32),
        set(4, QUIET),
        call(OUTPUT),
    ]);
    let mut full = Vec::from(map_of(1, 2, maps.lost));
    full.extend([set(2, 1), ins(0xdb, 1, 2, 0, 0)]); // one more, at once for all processors
    chosen.push(jump_if_zero(0, full.len() as i16));
    chosen.extend(full);
    text.push(jump_if_zero(0, chosen.len() as i16));
    text.extend(chosen);
    text
}

/// Parts of `union bpf_attr`, each as far as its command reads it; the kernel takes the rest as zero.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
}
#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    text: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    device: u32,
    attach_kind: u32,
    unused: [u32; 9],
    attach_number: u32,
    attach_program: u32,
    end: u32,
}
const _: () = assert!(
    std::mem::offset_of!(Load, attach_kind) == 68 && std::mem::offset_of!(Load, attach_number) == 108
);
#[repr(C)]
struct Hold {
    name: u64,
    program: u32,
    pad: u32,
}

impl Element {
    fn of(map: &OwnedFd, key: *const u8, value: *const u8) -> Self {
        Self { map: number_of(map), pad: 0, key: key as u64, value: value as u64, flags: 0 }
    }
}

fn number_of(fd: &OwnedFd) -> u32 {
    // Descriptors are not negative.
    fd.as_raw_fd().cast_unsigned()
}

/// The call.
///
/// # Safety
/// `attr` is what the command reads, and what it points to lives and is as long as the command takes it for.
unsafe fn bpf<T>(command: libc::c_long, attr: &T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads so many bytes of `attr`; what they point to is the caller's word.
    let got = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attr), size_of::<T>()) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got) }
}

/// A descriptor that a command gave.
fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).map_err(|_| io::Error::other("a descriptor beyond 32 bits"))?;
    // SAFETY: the call has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn map(kind: u32, key_bytes: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let attr = MapCreate { kind, key_bytes, value_bytes, entries, flags: 0 };
    // SAFETY: the command reads these numbers alone.
    owned(unsafe { bpf(MAP_CREATE, &attr) }?)
}

fn load(text: &[Instruction], number: u32) -> io::Result<OwnedFd> {
    let attr = Load {
        kind: TRACING,
        instructions: text.len() as u32,
        text: text.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        name: *b"forerun\0\0\0\0\0\0\0\0\0",
        attach_kind: TRACE_RAW_TP,
        attach_number: number,
        ..Load::default()
    };
    // SAFETY: the instructions and a string that ends in zero, which are read and outlive the call.
    owned(unsafe { bpf(PROG_LOAD, &attr) }?)
}

/// Holds a program to its tracepoint for as long as what is returned is open.
fn hold(program: &OwnedFd) -> io::Result<OwnedFd> {
    let attr = Hold { name: 0, program: number_of(program), pad: 0 };
    // SAFETY: the command reads these numbers alone; the program says where it belongs.
    owned(unsafe { bpf(RAW_TRACEPOINT_OPEN, &attr) }?)
}

/// The ring: a page with how far we have read, one with how far is written, and its data twice, so that no record wraps.
struct Shared {
    ours: Mapping,
    kernels: Mapping,
    /// It goes with the ring.
    _ring: OwnedFd,
}

struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(ring: &OwnedFd, bytes: usize, write: bool, offset: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours. The result is checked before it is used.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, ring.as_raw_fd(), offset)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("a mapping at address zero"))?;
        Ok(Self { at, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `new` made, in its length, and nothing borrows from it any more.
        let result = unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
        debug_assert_eq!(result, 0, "unmapping our own mapping");
    }
}

impl Shared {
    fn of(ring: OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let ours = Mapping::new(&ring, page, true, 0)?;
        let kernels = Mapping::new(&ring, page + 2 * RING_BYTES as usize, false, page)?;
        Ok(Self { ours, kernels, _ring: ring })
    }

    fn drain(&mut self, take: &mut dyn FnMut(&[u8; RECORD_BYTES])) {
        // SAFETY: the first eight bytes of each mapping, which are aligned to a page; the kernel and we only ever load and store them whole.
        let (read, written) = unsafe {
            (&*self.ours.at.as_ptr().cast::<AtomicU64>(), &*self.kernels.at.as_ptr().cast::<AtomicU64>())
        };
        let data = rustix::param::page_size();
        let mut at = read.load(Ordering::Relaxed);
        while at < written.load(Ordering::Acquire) {
            let place = data + (at % u64::from(RING_BYTES)) as usize;
            // SAFETY: a place in the first copy of the data; headers are aligned to eight, and written whole.
            let header = unsafe { &*self.kernels.at.as_ptr().add(place).cast::<AtomicU32>() };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = header & !DISCARDED;
            if header & DISCARDED == 0 && length as usize == RECORD_BYTES {
                // SAFETY: behind the header, within the two copies of the data; the kernel writes nothing there until we have moved on.
                take(unsafe {
                    &*self
                        .kernels
                        .at
                        .as_ptr()
                        .add(place + RECORD_HEADER as usize)
                        .cast::<[u8; RECORD_BYTES]>()
                });
            }
            at += (u64::from(length) + RECORD_HEADER).next_multiple_of(8);
        }
        read.store(at, Ordering::Release);
    }
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
        let reads = u64::from(RING_BYTES) / (RECORD_BYTES as u64 + RECORD_HEADER) + 1_000;
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
