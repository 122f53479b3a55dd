//! The rings through which the kernel hands over events, and the unsafe code that they need.
//!
//! One ring is one or more file descriptors of `perf_event_open`, one for each tracepoint, on one processor, and the
//! memory that they share with the kernel: a page of control numbers and a power of two of data pages. Events of several
//! tracepoints go into one ring (`PERF_EVENT_IOC_SET_OUTPUT`), so that they stay in order. The kernel writes
//! records and moves `data_head`; we read them and move `data_tail`. What the kernel has written and we have not
//! yet given back is never touched by it, so a record may be lent out as a plain slice while it is read. If we
//! are too slow the kernel drops events and counts them; it never waits for us. Layouts and numbers are those
//! of the perf ABI (include/uapi/linux/perf_event.h), which is stable.
#![expect(unsafe_code, reason = "perf_event_open and its shared ring have no safe interface")]

use crate::sample::{HEADER_BYTES, record_bytes};
use std::ffi::{CStr, CString};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `PERF_TYPE_TRACEPOINT`.
const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_TYPE_SOFTWARE`, and of those the one that counts nothing, `PERF_COUNT_SW_DUMMY`.
const TYPE_SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// `PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`: what [`crate::sample::parse`] expects.
const SAMPLE_TYPE: u64 = 1 << 1 | 1 << 2 | 1 << 10;
/// Bits of `struct perf_event_attr`: start switched off.
const FLAG_DISABLED: u64 = 1;
/// Children of the traced thread are traced too.
const FLAG_INHERIT: u64 = 1 << 1;
/// The kernel switches the event on when a traced thread executes a program.
const FLAG_ENABLE_ON_EXEC: u64 = 1 << 12;
/// Programs started, processes made, files mapped (for data too) are told in records of their own, with thread and time.
const FLAGS_TASKS: u64 = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 17 | 1 << 18 | 1 << 23;
/// A thread that leaves its processor, or gets it back, is told.
const FLAG_SWITCHES: u64 = 1 << 26;
/// `wakeup` counts bytes, not events.
const FLAG_WATERMARK: u64 = 1 << 14;
/// Times are those of the clock in `clockid`.
const FLAG_USE_CLOCKID: u64 = 1 << 25;
/// `PERF_FLAG_FD_CLOEXEC` of the call itself.
const OPEN_CLOEXEC: libc::c_ulong = 8;
/// `PERF_EVENT_IOC_ENABLE`.
const IOC_ENABLE: libc::c_ulong = 0x2400;
/// `PERF_EVENT_IOC_DISABLE`.
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// `PERF_EVENT_IOC_SET_OUTPUT`.
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// `PERF_EVENT_IOC_SET_FILTER`: `_IOW('$', 6, char *)` with the pointer's size of this machine.
const IOC_SET_FILTER: libc::c_ulong = 0x4000_2406 | (size_of::<usize>() as libc::c_ulong) << 16;
/// Where `data_head` and `data_tail` are in the control page, in bytes.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

/// `struct perf_event_attr`, as far as version 3 of it (96 bytes); the kernel takes the rest as zero.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
}
const _: () = assert!(size_of::<Attr>() == 96);

/// Whose events a ring takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everybody's, from [`Ring::enable`] on.
    Everyone,
    /// Those of chosen events, from [`Ring::switch`] on, and each of them makes the ring readable but those at places `quiet.0..quiet.1`:
    /// where there are many a second to wake for each costs whoever reads a hundred times what the event does.
    EveryoneAtOnce {
        /// Places among those that the ring is opened with.
        quiet: (usize, usize),
    },
    /// Those of this process and of all that it starts, or has started: of each that is attached ([`Ring::attach`]), from [`Ring::switch`] on,
    /// and of all that those start from then on.
    Process(u32),
    /// Those of programs that the opening thread starts later, from their `exec` on, and of their children.
    StartedByThisThread,
}

/// What is recorded beside the tracepoints themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing.
    Nothing,
    /// Which programs are started, which processes made, which files mapped.
    Tasks,
    /// That, and when threads leave their processor and get it back.
    TasksAndSwitches,
}

/// What a thread is attached by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Tracepoints.
    pub(crate) ids: &'a [u64],
    pub(crate) beside: Beside,
    /// Expressions by which the kernel drops what does not matter: of all, and of single ones by their place in `ids`.
    pub(crate) filter: Option<&'a CStr>,
    pub(crate) narrow: &'a [(usize, CString)],
}

/// Some tracepoints on one processor.
#[derive(Debug)]
pub(crate) struct Ring {
    cpu: i32,
    /// The event whose memory it is.
    fd: OwnedFd,
    /// Further events that write into it.
    others: Vec<OwnedFd>,
    map: NonNull<u8>,
    page: usize,
    data_bytes: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// What is open.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        [&self.fd].into_iter().chain(&self.others).map(AsRawFd::as_raw_fd).collect()
    }

    /// Opens the tracepoints `ids` (one at least) on processor `cpu`, switched off, with `pages` data pages (a power of
    /// two).
    ///
    /// # Errors
    /// What the system said, of the open or of the mapping.
    pub(crate) fn open(
        ids: &[u64],
        cpu: i32,
        scope: Scope,
        beside: Beside,
        pages: usize,
    ) -> io::Result<Self> {
        assert!(pages.is_power_of_two(), "the perf ABI wants a power of two of data pages");
        let page = rustix::param::page_size();
        let data_bytes = pages * page;
        let (&first, rest) = ids.split_first().expect("a ring has a tracepoint");
        let is_attached = matches!(scope, Scope::Process(_));
        let wakes = |at: usize| match scope {
            Scope::EveryoneAtOnce { quiet } => !(quiet.0..quiet.1).contains(&at),
            _ => false,
        };
        // Those who are attached come and go, and what has the memory stays.
        let fd = if is_attached {
            open_holder(cpu, data_bytes)?
        } else {
            open_event(first, cpu, scope, beside, (!wakes(0)).then_some(data_bytes))?
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours, and the
        // descriptor is open. The result is checked before it is used.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page + data_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast()).ok_or_else(|| io::Error::other("a mapping at address zero"))?;
        let mut ring = Self { cpu, fd, others: Vec::new(), map, page, data_bytes, scratch: Vec::new() };
        for (&id, at) in rest.iter().zip(1..).take_while(|_| !is_attached) {
            ring.add(open_event(id, cpu, scope, Beside::Nothing, (!wakes(at)).then_some(data_bytes))?)?;
        }
        Ok(ring)
    }

    /// Takes an event in that writes into this ring.
    fn add(&mut self, event: OwnedFd) -> io::Result<()> {
        // SAFETY: the call takes the number of an open descriptor and no memory.
        check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT as _, self.fd.as_raw_fd()) })?;
        self.others.push(event);
        Ok(())
    }

    /// Opens tracepoints of a thread that is there, and of all that it starts from now on, switched off.
    ///
    /// # Errors
    /// What the system said; then some may be open.
    pub(crate) fn attach(&mut self, wanted: &Wanted<'_>, thread: u32) -> io::Result<()> {
        let first = self.len();
        for (&id, at) in wanted.ids.iter().zip(0..) {
            let beside = if at == 0 { wanted.beside } else { Beside::Nothing };
            self.add(open_event(id, self.cpu, Scope::Process(thread), beside, Some(self.data_bytes))?)?;
            wanted.filter.iter().try_for_each(|filter| self.filter_one(first + at, filter))?;
        }
        wanted.narrow.iter().try_for_each(|(at, text)| self.filter_one(first + at, text))
    }

    /// How many events it has.
    pub(crate) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Closes all of its events but so many, the first of which has the memory; those of whoever was started since go with them.
    pub(crate) fn close_behind(&mut self, left: usize) {
        self.others.truncate(left.max(1) - 1);
    }

    /// All its events.
    fn events(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.fd).chain(&self.others)
    }

    /// Lets the kernel drop every event that does not match, e.g. `dev==7340032`, before it costs anything.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn filter(&self, expression: &CStr) -> io::Result<()> {
        self.events().try_for_each(|event| {
            // SAFETY: the call reads a string that ends in zero and outlives it.
            check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, expression.as_ptr()) })
        })
    }

    /// The same for one of its events, by its place among those it was opened with.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn filter_one(&self, at: usize, expression: &CStr) -> io::Result<()> {
        let event = self.events().nth(at).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the call reads a string that ends in zero and outlives it.
        check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER as _, expression.as_ptr()) })
    }

    /// Switches the event on.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: the call takes a number and no memory.
        self.events()
            .try_for_each(|event| check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_ENABLE as _, 0) }))
    }

    /// Switches some of its events on or off, by their places among those it was opened with.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn switch(&self, which: Range<usize>, on: bool) -> io::Result<()> {
        let request = if on { IOC_ENABLE } else { IOC_DISABLE };
        let mut events = self.events().skip(which.start).take(which.len());
        // SAFETY: the call takes a number and no memory.
        events.try_for_each(|event| check(unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) }))
    }

    /// Switches the event off, in children too.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn disable(&self) -> io::Result<()> {
        // SAFETY: the call takes a number and no memory.
        self.events()
            .try_for_each(|event| check(unsafe { libc::ioctl(event.as_raw_fd(), IOC_DISABLE as _, 0) }))
    }

    /// How many events passed the filter since the ring was opened, whether or not they fitted into it.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn count(&self) -> io::Result<u64> {
        self.events().try_fold(0, |sum, event| {
            let mut value = 0u64;
            // SAFETY: the buffer is eight bytes of ours, and that many are asked for.
            let got = unsafe { libc::read(event.as_raw_fd(), (&raw mut value).cast(), size_of::<u64>()) };
            match got {
                8 => Ok(sum + value),
                -1 => Err(io::Error::last_os_error()),
                _ => Err(io::Error::other("a perf counter shorter than eight bytes")),
            }
        })
    }

    /// Hands every record that is in the ring to `take`, whole and in order, and gives its room back.
    ///
    /// # Errors
    /// What `take` said; or a record size that the ABI does not allow, after which the ring is not usable.
    pub(crate) fn drain<E: From<io::Error>>(
        &mut self,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let head = self.control(HEAD_OFFSET).load(Ordering::Acquire);
        let mut tail = self.control(TAIL_OFFSET).load(Ordering::Relaxed);
        while tail < head {
            let mut header = [0u8; HEADER_BYTES];
            header.copy_from_slice(self.bytes(tail, HEADER_BYTES));
            let size = record_bytes(header);
            if size < HEADER_BYTES || size as u64 > head - tail {
                return Err(io::Error::other(format!("a perf record of {size} bytes")).into());
            }
            let record = if self.at(tail) + size <= self.data_bytes {
                self.bytes(tail, size)
            } else {
                self.unwrapped(tail, size)
            };
            take(record)?;
            tail += size as u64;
        }
        self.control(TAIL_OFFSET).store(tail, Ordering::Release);
        Ok(())
    }

    /// Place of a running byte number in the data pages.
    #[expect(clippy::cast_possible_truncation, reason = "less than data_bytes, a usize")]
    fn at(&self, position: u64) -> usize {
        (position % self.data_bytes as u64) as usize
    }

    /// `size` bytes from `position`, which must not wrap and must lie between tail and head.
    fn bytes(&self, position: u64, size: usize) -> &[u8] {
        let start = self.at(position);
        assert!(start + size <= self.data_bytes, "records and headers of 8 bytes are aligned to 8");
        // SAFETY: the range is inside the mapping (asserted), which lives as long as `self`, and between tail and
        // head, where the kernel writes nothing until the tail has moved past it.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(self.page + start), size) }
    }

    /// A record that wraps around the end of the ring, put together in a buffer.
    fn unwrapped(&mut self, position: u64, size: usize) -> &[u8] {
        let first = self.data_bytes - self.at(position);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        scratch.extend_from_slice(self.bytes(position, first));
        scratch.extend_from_slice(self.bytes(position + first as u64, size - first));
        self.scratch = scratch;
        &self.scratch
    }

    /// One of the two running byte numbers of the control page.
    fn control(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are inside the first page of the mapping and aligned to eight; the kernel and we
        // only ever load and store them whole.
        unsafe { &*self.map.as_ptr().add(offset).cast::<AtomicU64>() }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `open` made, in its length, and nothing borrows from it any more.
        let result = unsafe { libc::munmap(self.map.as_ptr().cast(), self.page + self.data_bytes) };
        debug_assert_eq!(result, 0, "unmapping our own mapping");
    }
}

/// An event of the calling thread that counts nothing and has a ring that others write into, which wakes when a quarter of it is full.
fn open_holder(cpu: i32, data_bytes: usize) -> io::Result<OwnedFd> {
    let attr = Attr {
        kind: TYPE_SOFTWARE,
        size: 96,
        config: DUMMY,
        sample_type: SAMPLE_TYPE,
        flags: FLAG_DISABLED | FLAG_WATERMARK | FLAG_USE_CLOCKID,
        wakeup: u32::try_from(data_bytes / 4).unwrap_or(u32::MAX),
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open_attr(&attr, 0, cpu)
}

/// Opens one tracepoint; it makes its ring readable at each event, or when a quarter of so many bytes is full.
fn open_event(
    id: u64,
    cpu: i32,
    scope: Scope,
    beside: Beside,
    data_bytes: Option<usize>,
) -> io::Result<OwnedFd> {
    let (pid, scope_flags) = match scope {
        Scope::Everyone | Scope::EveryoneAtOnce { .. } => (-1, 0),
        Scope::Process(pid) => (libc::pid_t::try_from(pid).unwrap_or(0), FLAG_INHERIT),
        Scope::StartedByThisThread => (0, FLAG_INHERIT | FLAG_ENABLE_ON_EXEC),
    };
    let beside_flags = match beside {
        Beside::Nothing => 0,
        Beside::Tasks => FLAGS_TASKS,
        Beside::TasksAndSwitches => FLAGS_TASKS | FLAG_SWITCHES,
    };
    let (wake_flag, wakeup) = match data_bytes {
        None => (0, 1),
        Some(bytes) => (FLAG_WATERMARK, u32::try_from(bytes / 4).unwrap_or(u32::MAX)),
    };
    let attr = Attr {
        kind: TYPE_TRACEPOINT,
        size: 96,
        config: id,
        sample_period: 1,
        sample_type: SAMPLE_TYPE,
        flags: FLAG_DISABLED | wake_flag | FLAG_USE_CLOCKID | scope_flags | beside_flags,
        wakeup,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    open_attr(&attr, pid, cpu)
}

/// An event of the calling thread that counts nothing.
///
/// # Errors
/// What the system said.
pub(crate) fn open_idle() -> io::Result<OwnedFd> {
    let attr = Attr { kind: TYPE_SOFTWARE, size: 96, config: DUMMY, flags: FLAG_DISABLED, ..Attr::default() };
    open_attr(&attr, 0, -1)
}

fn open_attr(attr: &Attr, pid: libc::pid_t, cpu: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size` bytes of `attr`, which has that size (asserted above), and keeps no pointer.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, std::ptr::from_ref(attr), pid, cpu, -1i32, OPEN_CLOEXEC)
    };
    let fd = i32::try_from(fd).map_err(|_| io::Error::other("a descriptor beyond 32 bits"))?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::ffi::CString;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    /// Reads of a file of ours, through a ring on each processor: events that were counted, and whether somebody would have been woken.
    fn reads(quiet: (usize, usize)) -> Option<(u64, bool)> {
        let never = tracefs::load("sched/sched_process_exec").ok()?;
        let read = tracefs::load("filemap/mm_filemap_get_pages").ok()?;
        let mut file = tempfile::NamedTempFile::new().ok()?;
        io::Write::write_all(&mut file, &[1; 4096]).ok()?;
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let filter = CString::new(format!("i_ino=={}", file.as_file().metadata().ok()?.ino())).ok()?;
        let mut rings = Vec::new();
        for cpu in crate::session::cpu_list(&online)? {
            let scope = Scope::EveryoneAtOnce { quiet };
            let ring = Ring::open(&[never.id, read.id], cpu, scope, Beside::Nothing, 16).ok()?;
            ring.filter_one(0, c"pid==0").and_then(|()| ring.filter_one(1, &filter)).ok()?;
            ring.enable().ok()?;
            rings.push(ring);
        }
        for _ in 0..100 {
            file.as_file().read_exact_at(&mut [0; 4096], 0).ok()?;
        }
        let mut fds: Vec<_> = rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        let woken = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).ok()? > 0;
        let counted = rings.iter().map(|ring| ring.count().unwrap_or(0)).sum();
        Some((counted, woken)).filter(|(counted, _)| *counted > 0)
    }

    #[test]
    fn events_that_are_quiet_are_counted_and_wake_nobody_and_others_do() {
        // Without the rights, or with temporary files in memory, there are none.
        let Some(loud) = reads((0, 0)) else { return };
        assert_eq!((loud, reads((1, 2))), ((100, true), Some((100, false))));
    }
}
