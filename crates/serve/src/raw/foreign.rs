//! Who else writes a file, and who has locked which byte of it: calls of the kernel that have no safe interface.
//!
//! The kernel tells whoever watches a file of each write to it and of the process that wrote (fanotify), so a write of ours is told from
//! another's while both go on, which no time of change can. Without the right to watch (or where a file system cannot be watched) there
//! is nothing of this, and the time of change has to do. Locks are those of an open file (OFD), as qemu takes them.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes that are taken from the kernel at once: some hundred events.
const EVENTS_BYTES: usize = 16 << 10;

/// A watch for the writes of others.
#[derive(Debug)]
pub(crate) struct Foreign(OwnedFd);

impl Foreign {
    /// Watches the file that has this name now.
    pub(crate) fn watch(path: &Path) -> io::Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_FID | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // SAFETY: takes two numbers, gives a file or an error.
        let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this file to us alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends in a zero and lives during the call.
        let marked = unsafe {
            libc::fanotify_mark(
                fd.as_raw_fd(),
                libc::FAN_MARK_ADD,
                libc::FAN_MODIFY,
                libc::AT_FDCWD,
                name.as_ptr(),
            )
        };
        if marked < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(fd)) }
    }

    /// Whether somebody else has written since the last call.
    pub(crate) fn has_written(&self) -> bool {
        let own = std::process::id() as i32;
        let mut events = [0_u8; EVENTS_BYTES];
        let mut foreign = false;
        while let Ok(bytes @ 1..) = rustix::io::read(&self.0, &mut events) {
            let mut left = &events[..bytes];
            // Length, and the process at the end of the head, as fanotify(7) has them.
            while let Some(head) = left.get(..size_of::<libc::fanotify_event_metadata>()) {
                let number =
                    |at: usize| i32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
                let pid = std::mem::offset_of!(libc::fanotify_event_metadata, pid);
                foreign |= number(pid) != own;
                left = left.get(number(0) as usize..).unwrap_or_default();
            }
        }
        foreign
    }
}

fn lock_of(byte: i64, bytes: i64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte,
        l_len: bytes,
        l_pid: 0,
    }
}

/// Gives back all locks of bytes that this open file has.
pub(crate) fn unlock_bytes(file: BorrowedFd<'_>) {
    let lock = lock_of(0, 0, libc::F_UNLCK);
    // SAFETY: the structure lives during the call, which only reads it. What is not locked cannot fail to be unlocked.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
}

/// Takes a shared lock of one byte for this open file.
pub(crate) fn lock_byte(file: BorrowedFd<'_>, byte: i64) -> io::Result<()> {
    let lock = lock_of(byte, 1, libc::F_RDLCK);
    // SAFETY: the structure lives during the call, which only reads it.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether another open file has a lock of that byte.
pub(crate) fn is_byte_locked(file: BorrowedFd<'_>, byte: i64) -> io::Result<bool> {
    let mut lock = lock_of(byte, 1, libc::F_WRLCK);
    // SAFETY: the structure lives during the call and is ours to be written.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(i32::from(lock.l_type) != libc::F_UNLCK) }
}
