//! Block devices of the kernel whose requests a program answers (ublk): the commands to its control device and the queue of
//! requests of one device, as far as they have no safe interface.
//!
//! Source: `include/uapi/linux/ublk_cmd.h` and `Documentation/block/ublk.rst` of Linux 6.12. The data of a request is copied by
//! `preadv` and `pwritev` on the device's own file (`UBLK_F_USER_COPY`), so the kernel is told no address of ours but those of
//! buffers that a call borrows until it has ended.

use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::ptr::NonNull;

/// Bytes of a description of a request (`struct ublksrv_io_desc`).
const DESCRIPTION: usize = 24;
/// Commands of a queue: `_IOWR('u', 0x20, struct ublksrv_io_cmd)` and the next.
const FETCH: u32 = 0xc010_7520;
const COMMIT_AND_FETCH: u32 = 0xc010_7521;
/// Where the data of requests is in the device's file: from here on, 32 MiB for each tag.
const DATA_AT: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;

/// Of `prctl`; musl's headers do not have it.
const PR_SET_IO_FLUSHER: i32 = 57;

/// The control device, by which devices are made and ended.
pub(crate) struct Control {
    ring: IoUring<squeue::Entry128>,
    file: File,
}

impl Control {
    /// Over the control device's file.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        Ok(Self { ring: IoUring::builder().build(2)?, file })
    }

    /// One command (`struct ublksrv_ctrl_cmd`) to its end; `buffer` is what the kernel reads or fills.
    pub(crate) fn call(&mut self, command: u32, id: u32, word: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&id.to_ne_bytes());
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes()); // of no queue
        if !buffer.is_empty() {
            let length = u16::try_from(buffer.len()).map_err(io::Error::other)?;
            bytes[6..8].copy_from_slice(&length.to_ne_bytes());
            bytes[8..16].copy_from_slice(&(buffer.as_mut_ptr() as u64).to_ne_bytes());
        }
        bytes[16..24].copy_from_slice(&word.to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command).cmd(bytes).build();
        // SAFETY: the file and the buffer are there until the command has ended, which is waited for below.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            let waited = self.ring.submit_and_wait(1);
            if let Some(end) = self.ring.completion().next() {
                return match end.result() {
                    ..0 => Err(io::Error::from_raw_os_error(-end.result())),
                    _ => Ok(()),
                };
            }
            match waited {
                Err(problem) if problem.kind() != io::ErrorKind::Interrupted => {
                    // The command may still be under way: its buffer must stay.
                    panic!("the kernel takes no more waits for a command that it has: {problem}")
                }
                _ => {}
            }
        }
    }
}

/// What the kernel says of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// Kind and flags.
    pub(crate) flags: u32,
    pub(crate) sectors: u32,
    pub(crate) first: u64,
}

/// What has come of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// A request.
    Request(u16, Description),
    /// No more requests: the device ends.
    End,
}

/// The requests of a device, of its one queue.
pub(crate) struct Queue {
    /// Goes before the file: its end takes back what waits for requests.
    ring: IoUring,
    descriptions: NonNull<u8>,
    mapped: usize,
    file: File,
    depth: u16,
    unsubmitted: bool,
}

// SAFETY: the descriptions are a mapping of its own, which belongs to no thread.
unsafe impl Send for Queue {}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("file", &self.file).field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Queue {
    /// Of the device whose file this is.
    pub(crate) fn new(file: File, depth: u16) -> io::Result<Self> {
        let ring = IoUring::builder().setup_clamp().build(u32::from(depth).next_power_of_two())?;
        // SAFETY: a question about a constant.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let mapped = (usize::from(depth) * DESCRIPTION).next_multiple_of(page);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_READ, flags, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let descriptions =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { ring, descriptions, mapped, file, depth, unsubmitted: false })
    }

    pub(crate) const fn depth(&self) -> u16 {
        self.depth
    }

    /// Takes requests from now on, all by this thread: the kernel takes answers from no other.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        // SAFETY: the call takes numbers alone. Memory that this program asks for must not wait for what it serves; without the
        // privilege the kernel refuses, and it is as it is with every server of the same machine.
        let _ = unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
        for tag in 0..self.depth {
            self.command(FETCH, tag, 0);
        }
        self.push()
    }

    fn command(&mut self, command: u32, tag: u16, result: i32) {
        let mut bytes = [0; 16];
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, command).cmd(bytes).build().user_data(u64::from(tag));
        // SAFETY: the command names no memory, and its file lives longer than the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the ring has a place for each tag");
        self.unsubmitted = true;
    }

    /// A request is answered: the bytes that were moved, or the negative number of an error.
    pub(crate) fn answer(&mut self, tag: u16, result: i32) {
        self.command(COMMIT_AND_FETCH, tag, result);
    }

    /// Sends the answers.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        while self.unsubmitted {
            match self.ring.submit() {
                Ok(_) => self.unsubmitted = false,
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(())
    }

    /// Whether something has come, as far as that can be seen without a call of the kernel.
    pub(crate) fn has_come(&self) -> bool {
        // SAFETY: there is no other view of the completions: those that take some borrow `self` alone.
        !unsafe { self.ring.completion_shared() }.is_empty()
    }

    /// What has come next.
    pub(crate) fn next(&mut self) -> Option<Came> {
        let end = self.ring.completion().next()?;
        let tag = end.user_data() as u16;
        if end.result() != 0 || tag >= self.depth {
            return Some(Came::End);
        }
        Some(Came::Request(tag, self.description(tag)))
    }

    fn description(&self, tag: u16) -> Description {
        let mut bytes = [0; DESCRIPTION];
        // SAFETY: within the mapping, which has a description for each tag. The kernel has written it before the end was seen, and
        // writes it again when this one was answered.
        unsafe {
            let from = self.descriptions.as_ptr().add(usize::from(tag) * DESCRIPTION);
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), DESCRIPTION);
        }
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = bytes;
        Description {
            flags: u32::from_ne_bytes([a, b, c, d]),
            sectors: u32::from_ne_bytes([e, f, g, h]),
            first: u64::from_ne_bytes([i, j, k, l, m, n, o, p]),
        }
    }

    /// Takes data of a write, from its byte `at` on.
    pub(crate) fn take(&self, tag: u16, at: u64, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.file, into, data_at(tag, at))?)
    }

    /// Gives data of a read, from its byte `at` on.
    pub(crate) fn give(&self, tag: u16, at: u64, from: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::pwritev(&self.file, from, data_at(tag, at))?)
    }
}

fn data_at(tag: u16, at: u64) -> u64 {
    DATA_AT + (u64::from(tag) << TAG_SHIFT) + at
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's file is open as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: base and length are those that `mmap` gave, and nobody else unmaps them or has a reference into them.
        let result = unsafe { libc::munmap(self.descriptions.as_ptr().cast(), self.mapped) };
        debug_assert_eq!(result, 0, "a mapping that was made can be taken back");
    }
}
