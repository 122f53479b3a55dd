//! Small programs in the kernel: how they are written down, loaded, held where they belong, and what they share with us.
//!
//! The programs are written down in instructions, one a line: no compiler is needed, neither to build nor to run. Where members of the kernel's structures stand is
//! asked of its own types (`btf.rs`), and it checks that the programs end, and read nothing but what they may. Each writes records to a ring and counts in a
//! counter what that had no room for; all are gone when their descriptors are closed, however this process ends. `sensor.rs` has those that tell of the reads of chosen readers,
//! `probes.rs` those that stand in for tracepoints that a kernel has not.
//!
//! They are offered under the GPL as well as under the licence of the rest: the kernel lets no others follow its pointers.
#![expect(unsafe_code, reason = "bpf and its shared ring have no safe interface")]

use crate::btf::Btf;
use forerun_trace::assemble::FileId;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Commands of `bpf`.
const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_DELETE: libc::c_long = 3;
const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
/// Kinds of maps.
pub(crate) const HASH: u32 = 1;
pub(crate) const ARRAY: u32 = 2;
const RING: u32 = 27;
/// `BPF_PROG_TYPE_TRACING`, and `BPF_TRACE_RAW_TP`: a tracepoint whose arguments have types.
const TRACING: u32 = 26;
const TRACE_RAW_TP: u32 = 23;
/// `BPF_TRACE_FENTRY`: the entry of a function, whose arguments have types.
const TRACE_ENTRY: u32 = 24;
/// `BPF_TRACE_FEXIT`: where it returns.
const TRACE_EXIT: u32 = 25;
/// Bits of the length of a record in the ring: it is being written, or is to be passed over.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Bytes before a record.
pub(crate) const RECORD_HEADER: u64 = 8;
/// Bits of a kernel device number that hold the minor number.
const MINOR_BITS: u32 = 20;
/// The first namespace of processes: a program in the kernel knows processes by their numbers there.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";
/// What the kernel is told of the licence of the programs.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    code: u8,
    /// The one that is changed below, the one that is read above.
    registers: u8,
    offset: i16,
    value: i32,
}

pub(crate) const fn ins(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, value }
}

/// Loads of eight and four bytes, stores of eight and four.
pub(crate) const fn load8(to: u8, from: u8, at: i16) -> Instruction {
    ins(0x79, to, from, at, 0)
}
pub(crate) const fn load4(to: u8, from: u8, at: i16) -> Instruction {
    ins(0x61, to, from, at, 0)
}
pub(crate) const fn store8(at: i16, from: u8) -> Instruction {
    ins(0x7b, FRAME, from, at, 0)
}
pub(crate) const fn store4(at: i16, from: u8) -> Instruction {
    ins(0x63, FRAME, from, at, 0)
}
/// A number into eight bytes of the stack.
pub(crate) const fn store_number(at: i16, value: i32) -> Instruction {
    ins(0x7a, FRAME, 0, at, value)
}
/// A number, a copy of a register, a sum.
pub(crate) const fn set(to: u8, value: i32) -> Instruction {
    ins(0xb7, to, 0, 0, value)
}
pub(crate) const fn copy(to: u8, from: u8) -> Instruction {
    ins(0xbf, to, from, 0, 0)
}
pub(crate) const fn add(to: u8, value: i32) -> Instruction {
    ins(0x07, to, 0, 0, value)
}
/// The sum of two, what both have set, what one of them has, what only one of them has.
pub(crate) const fn add_register(to: u8, from: u8) -> Instruction {
    ins(0x0f, to, from, 0, 0)
}
pub(crate) const fn and_register(to: u8, from: u8) -> Instruction {
    ins(0x5f, to, from, 0, 0)
}
pub(crate) const fn or_register(to: u8, from: u8) -> Instruction {
    ins(0x4f, to, from, 0, 0)
}
pub(crate) const fn xor_register(to: u8, from: u8) -> Instruction {
    ins(0xaf, to, from, 0, 0)
}
/// What a register has set of this number; a product; to the left by so many bits.
pub(crate) const fn and(to: u8, value: i32) -> Instruction {
    ins(0x57, to, 0, 0, value)
}
pub(crate) const fn multiply(to: u8, value: i32) -> Instruction {
    ins(0x27, to, 0, 0, value)
}
pub(crate) const fn shift_left(register: u8, bits: i32) -> Instruction {
    ins(0x67, register, 0, 0, bits)
}
/// To the left and to the right by as many bits as another register says.
pub(crate) const fn shift_left_by(register: u8, by: u8) -> Instruction {
    ins(0x6f, register, by, 0, 0)
}
pub(crate) const fn shift_right_by(register: u8, by: u8) -> Instruction {
    ins(0x7f, register, by, 0, 0)
}
/// To the right by so many bits, zeros come after.
pub(crate) const fn shift_right(register: u8, bits: i32) -> Instruction {
    ins(0x77, register, 0, 0, bits)
}
pub(crate) const fn call(function: i32) -> Instruction {
    ins(0x85, 0, 0, 0, function)
}
/// A map by its descriptor (1), or the first value of one (2).
pub(crate) const fn map_of(to: u8, kind: u8, fd: i32) -> [Instruction; 2] {
    [ins(0x18, to, kind, 0, fd), ins(0, 0, 0, 0, 0)]
}
/// Zero: over so many; the same if two differ, and always.
pub(crate) const fn jump_if_zero(register: u8, over: i16) -> Instruction {
    ins(0x15, register, 0, over, 0)
}
pub(crate) const fn jump_if_other(one: u8, other: u8, over: i16) -> Instruction {
    ins(0x5d, one, other, over, 0)
}
pub(crate) const fn jump(over: i16) -> Instruction {
    ins(0x05, 0, 0, over, 0)
}
/// Eight bytes to where a register points.
pub(crate) const fn store_in(pointer: u8, at: i16, from: u8) -> Instruction {
    ins(0x7b, pointer, from, at, 0)
}
/// The end of a program.
pub(crate) const END: [Instruction; 2] = [set(0, 0), ins(0x95, 0, 0, 0, 0)];
/// The stack.
pub(crate) const FRAME: u8 = 10;
/// Functions of the kernel.
pub(crate) const LOOKUP: i32 = 1;
pub(crate) const INSERT: i32 = 2;
pub(crate) const REMOVE: i32 = 3;
pub(crate) const CLOCK: i32 = 5;
pub(crate) const PROCESSOR: i32 = 8;
pub(crate) const WHO: i32 = 14;
pub(crate) const TICKS: i32 = 118;
const OUTPUT: i32 = 130;

/// Whether a record wakes who reads the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// If all before it was read.
    Reader = 0,
    /// `BPF_RB_NO_WAKEUP`.
    Nobody = 1,
}

/// Where members stand by which a program comes from a mapping to its file.
pub(crate) struct Places {
    host: i16,
    inode: i16,
    system: i16,
    device: i16,
}

impl Places {
    pub(crate) fn of(btf: &Btf) -> Option<Self> {
        Some(Self {
            host: place(btf, "address_space", "host")?,
            inode: place(btf, "inode", "i_ino")?,
            system: place(btf, "inode", "i_sb")?,
            device: place(btf, "super_block", "s_dev")?,
        })
    }

    /// From the mapping in register 1 to its inode in 1, whose number comes into 2.
    pub(crate) const fn inode(&self) -> [Instruction; 2] {
        [load8(1, 1, self.host), load8(2, 1, self.inode)]
    }

    /// Puts the number in 2 and the device of the inode in 1 on the stack: eight bytes and four.
    pub(crate) const fn file(&self, at: i16) -> [Instruction; 4] {
        [store8(at, 2), load8(3, 1, self.system), load4(3, 3, self.device), store4(at + 8, 3)]
    }

    /// The same, and the process behind it: four bytes.
    pub(crate) fn note(&self, at: i16) -> Vec<Instruction> {
        let mut text = Vec::from(self.file(at));
        text.extend([call(WHO), shift_right(0, 32), store4(at + 12, 0)]); // the process is above, the thread below
        text
    }
}

/// Where a member of a structure stands, for an instruction.
pub(crate) fn place(btf: &Btf, structure: &str, member: &str) -> Option<i16> {
    i16::try_from(btf.member(structure, member)?).ok()
}

/// What [`Places::note`] has put down: process and file.
pub(crate) fn noted(inode: u64, of: u64) -> (u32, FileId) {
    let (device, pid) = (of as u32, (of >> 32) as u32);
    let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    (pid, FileId { major, minor, inode })
}

/// A device as the kernel numbers it.
pub(crate) const fn number_of_device(file: FileId) -> u32 {
    file.major << MINOR_BITS | file.minor
}

/// The eight bytes of a record that a program had at a place of its stack, which the record reaches to the end of.
pub(crate) fn word(record: &[u8], place: i16) -> u64 {
    let at = record.len().saturating_add_signed(isize::from(place));
    u64::from_ne_bytes(std::array::from_fn(|byte| record.get(at + byte).copied().unwrap_or(0)))
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

/// A table that programs in the kernel look into, keys and values of these lengths.
pub(crate) struct Table<const KEY: usize, const VALUE: usize>(OwnedFd);

impl<const KEY: usize, const VALUE: usize> Table<KEY, VALUE> {
    /// An empty one: `HASH`, or `ARRAY`, whose keys are the numbers of its places.
    pub(crate) fn new(kind: u32, entries: u32) -> io::Result<Self> {
        map(kind, KEY as u32, VALUE as u32, entries).map(Self)
    }

    pub(crate) fn insert(&self, key: &[u8; KEY], mut value: [u8; VALUE]) -> io::Result<()> {
        self.call(MAP_UPDATE, key, Some(&mut value))
    }

    pub(crate) fn remove(&self, key: &[u8; KEY]) -> io::Result<()> {
        self.call(MAP_DELETE, key, None)
    }

    pub(crate) fn get(&self, key: &[u8; KEY]) -> io::Result<[u8; VALUE]> {
        let mut value = [0; VALUE];
        self.call(MAP_LOOKUP, key, Some(&mut value)).map(|()| value)
    }

    /// Its descriptor, as instructions have it.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    fn call(
        &self,
        command: libc::c_long,
        key: &[u8; KEY],
        value: Option<&mut [u8; VALUE]>,
    ) -> io::Result<()> {
        let value = value.map_or(0, |value| value.as_mut_ptr() as u64);
        let attr = Element { map: number_of(&self.0), pad: 0, key: key.as_ptr() as u64, value, flags: 0 };
        // SAFETY: key and value are as long as the map was made with and live until the call is over, and a value that it writes is ours alone; what is taken out has none.
        unsafe { bpf(command, &attr) }.map(drop)
    }
}

/// Memory of programs in the kernel, zeros at first.
pub(crate) struct Space(OwnedFd);

impl Space {
    pub(crate) fn new(bytes: u32) -> io::Result<Self> {
        map(ARRAY, 4, bytes, 1).map(Self)
    }

    /// Its descriptor, as instructions have it.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

fn map(kind: u32, key_bytes: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let attr = MapCreate { kind, key_bytes, value_bytes, entries, flags: 0 };
    // SAFETY: the command reads these numbers alone.
    owned(unsafe { bpf(MAP_CREATE, &attr) }?)
}

/// Where a program is held: its number among the kernel's types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// A tracepoint.
    Tracepoint(u32),
    /// The entry of a function.
    Entry(u32),
    /// Where a function returns: what it returns is one argument more.
    Exit(u32),
}

pub(crate) fn load(text: &[Instruction], at: At) -> io::Result<OwnedFd> {
    let (attach_kind, attach_number) = match at {
        At::Tracepoint(number) => (TRACE_RAW_TP, number),
        At::Entry(number) => (TRACE_ENTRY, number),
        At::Exit(number) => (TRACE_EXIT, number),
    };
    let attr = Load {
        kind: TRACING,
        instructions: text.len() as u32,
        text: text.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        name: *b"forerun\0\0\0\0\0\0\0\0\0",
        attach_kind,
        attach_number,
        ..Load::default()
    };
    // SAFETY: the instructions and a string that ends in zero, which are read and outlive the call.
    owned(unsafe { bpf(PROG_LOAD, &attr) }?)
}

/// Holds a program where it belongs for as long as what is returned is open.
pub(crate) fn hold(program: &OwnedFd) -> io::Result<OwnedFd> {
    let attr = Hold { name: 0, program: number_of(program), pad: 0 };
    // SAFETY: the command reads these numbers alone; the program says where it belongs.
    owned(unsafe { bpf(RAW_TRACEPOINT_OPEN, &attr) }?)
}

/// A ring to which programs write records of one length: a page with how far we have read, one with how far is written, and its data twice, so that no
/// record wraps. What it had no room for is counted.
pub(crate) struct Records<const BYTES: usize> {
    ours: Mapping,
    kernels: Mapping,
    ring: OwnedFd,
    ring_bytes: u32,
    lost: Table<4, 8>,
}

struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it is memory of the process, whichever thread looks at it, and one at a time does.
unsafe impl Send for Mapping {}

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

impl<const BYTES: usize> Records<BYTES> {
    /// With room for so many bytes, a power of two of whole pages.
    pub(crate) fn new(ring_bytes: u32) -> io::Result<Self> {
        let (lost, ring) = (Table::new(ARRAY, 1)?, map(RING, 0, 0, ring_bytes)?);
        let page = rustix::param::page_size();
        let ours = Mapping::new(&ring, page, true, 0)?;
        let kernels = Mapping::new(&ring, page + 2 * ring_bytes as usize, false, page)?;
        Ok(Self { ours, kernels, ring, ring_bytes, lost })
    }

    /// Instructions that write the record at a place of the stack.
    pub(crate) fn output(&self, at: i16, wake: Wake) -> Vec<Instruction> {
        let mut text = Vec::from(map_of(1, 1, self.ring.as_raw_fd()));
        text.extend([copy(2, FRAME), add(2, i32::from(at)), set(3, BYTES as i32), set(4, wake as i32)]);
        text.push(call(OUTPUT));
        let full = self.one_lost();
        text.push(jump_if_zero(0, full.len() as i16));
        text.extend(full);
        text
    }

    /// Instructions that count something as lost.
    pub(crate) fn one_lost(&self) -> Vec<Instruction> {
        let mut text = Vec::from(map_of(1, 2, self.lost.number()));
        text.extend([set(2, 1), ins(0xdb, 1, 2, 0, 0)]); // one more, at once for all processors
        text
    }

    /// Records for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.get(&[0; 4]).map_or(0, u64::from_ne_bytes)
    }

    /// Hands over what came.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(&[u8; BYTES])) {
        // SAFETY: the first eight bytes of each mapping, which are aligned to a page; the kernel and we only ever load and store them whole.
        let (read, written) = unsafe {
            (&*self.ours.at.as_ptr().cast::<AtomicU64>(), &*self.kernels.at.as_ptr().cast::<AtomicU64>())
        };
        let data = rustix::param::page_size();
        let mut at = read.load(Ordering::Relaxed);
        while at < written.load(Ordering::Acquire) {
            let place = data + (at % u64::from(self.ring_bytes)) as usize;
            // SAFETY: a place in the first copy of the data; headers are aligned to eight, and written whole.
            let header = unsafe { &*self.kernels.at.as_ptr().add(place).cast::<AtomicU32>() };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = header & !DISCARDED;
            if header & DISCARDED == 0 && length as usize == BYTES {
                let record = place + RECORD_HEADER as usize;
                // SAFETY: behind the header, within the two copies of the data; the kernel writes nothing there until we have moved on.
                take(unsafe { &*self.kernels.at.as_ptr().add(record).cast::<[u8; BYTES]>() });
            }
            at += (u64::from(length) + RECORD_HEADER).next_multiple_of(8);
        }
        read.store(at, Ordering::Release);
    }
}

impl<const BYTES: usize> AsFd for Records<BYTES> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

/// The types of this kernel, by which programs can be written for it.
///
/// # Errors
/// What the system said; [`io::ErrorKind::Unsupported`] where the kernel does not say how it is built, or in a container with processes of its own.
pub(crate) fn types() -> io::Result<Btf> {
    let namespace = std::fs::read_link("/proc/self/ns/pid")?;
    if cfg!(target_endian = "big") || namespace.as_os_str() != FIRST_NAMESPACE {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Btf::of_this_kernel()
}
