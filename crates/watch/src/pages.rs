//! Which pages of a file the page cache holds, asked from the kernel without touching them.
//!
//! `mincore` on a mapping tells for each page whether its content is here; it needs no privilege for a file of one's
//! own, reads nothing and disturbs no read-ahead, because the mapping is never accessed. A page whose read is still under
//! way is not reported by it but is counted by `cachestat` (Linux 6.5), so the two agree exactly when everything
//! that the kernel has asked for has arrived: that is how [`Pages::settled`] waits for read-ahead without a clock.
#![expect(unsafe_code, reason = "mmap, mincore and cachestat have no safe interface")]

use crate::sys;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// `cachestat`, the same number on every architecture but alpha.
const SYS_CACHESTAT: libc::c_long = 451;
/// How often the two answers are compared before giving up. Each takes microseconds at least: seconds, not minutes.
const SETTLE_TRIES_MAX: u32 = 1_000_000;

/// How long it is waited before it is looked again whether a page has come: twice as long each time, up to a most, and so many times at most.
const WAIT: Duration = Duration::from_micros(50);
const WAIT_MAX: Duration = Duration::from_micros(800);
const WAIT_TRIES_MAX: u32 = 128;

/// `struct cachestat_range`: bytes of a file.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`: pages of a file, by state.
#[repr(C)]
#[derive(Default)]
struct Stat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// A file, mapped only to be asked about.
#[derive(Debug)]
pub struct Pages {
    file: File,
    map: NonNull<libc::c_void>,
    bytes: usize,
    here: Vec<u8>,
}

impl Pages {
    /// Maps a file, which must not be empty and must not be shortened while it is mapped. Its pages are not touched.
    ///
    /// # Errors
    /// What the system said.
    pub fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours; the descriptor is open,
        // and the result is checked before it is used. It is never read through.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map).ok_or_else(|| io::Error::other("a mapping at address zero"))?;
        let pages = bytes.div_ceil(rustix::param::page_size());
        Ok(Self { file, map, bytes, here: vec![0; pages] })
    }

    /// For each page, whether its content is in memory now.
    ///
    /// # Errors
    /// What the system said.
    pub fn resident(&mut self) -> io::Result<Vec<bool>> {
        // SAFETY: the range is the mapping that `of` made, in its length, and the vector has a byte for each of its pages.
        let result = unsafe { libc::mincore(self.map.as_ptr(), self.bytes, self.here.as_mut_ptr()) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(self.here.iter().map(|byte| byte & 1 == 1).collect())
    }

    /// How many pages the page cache has, those included whose read is under way.
    ///
    /// # Errors
    /// What the system said; `Unsupported` before Linux 6.5.
    pub fn cached(&self) -> io::Result<u64> {
        let range = Range { offset: 0, bytes: self.bytes as u64 };
        let mut stat = Stat::default();
        // SAFETY: the kernel reads one `cachestat_range` and writes one `cachestat`, both ours and of the ABI's layout.
        let result = unsafe {
            libc::syscall(SYS_CACHESTAT, self.file.as_raw_fd(), &raw const range, &raw mut stat, 0u32)
        };
        if result == 0 { Ok(stat.cached) } else { Err(io::Error::last_os_error()) }
    }

    /// For each page, whether it is in memory, once nothing is under way any more.
    ///
    /// # Errors
    /// What the system said; `TimedOut` if reads do not come to an end.
    pub fn settled(&mut self) -> io::Result<Vec<bool>> {
        for _ in 0..SETTLE_TRIES_MAX {
            let cached = self.cached()?;
            let resident = self.resident()?;
            if resident.iter().filter(|here| **here).count() as u64 == cached {
                return Ok(resident);
            }
            std::thread::yield_now();
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `of` made, in its length, and nothing borrows from it.
        let result = unsafe { libc::munmap(self.map.as_ptr(), self.bytes) };
        debug_assert_eq!(result, 0, "unmapping our own mapping");
    }
}

/// Waits until a page of a file is in memory, without touching it; a tenth of a second at most.
///
/// # Errors
/// What the system said.
pub(crate) fn until_here(file: BorrowedFd<'_>, page: u64) -> io::Result<()> {
    let bytes = rustix::param::page_size();
    let offset = libc::off_t::try_from(page.saturating_mul(bytes as u64)).map_err(io::Error::other)?;
    let until_it_is_marked = sys::COPYING.read();
    // SAFETY: as in `Pages::of`, of one page, which is never read through.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), offset)
    };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // What is mapped keeps a file system from being unmounted: not in a process that is left behind. Where it cannot be marked it is there a moment longer.
    // SAFETY: the call is about the mapping that was just made, and changes no byte of it.
    unsafe { libc::madvise(map, bytes, libc::MADV_DONTFORK) };
    drop(until_it_is_marked);
    let (mut here, mut wait) = (0_u8, WAIT);
    for _ in 0..WAIT_TRIES_MAX {
        // SAFETY: the range is the mapping of one page, and there is a byte for it.
        if unsafe { libc::mincore(map, bytes, &raw mut here) } != 0 || here & 1 == 1 {
            break;
        }
        std::thread::sleep(wait);
        wait = (wait * 2).min(WAIT_MAX);
    }
    // SAFETY: the mapping that was made above, in its length.
    unsafe { libc::munmap(map, bytes) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_page_that_is_there_is_not_waited_for_and_one_that_is_nowhere_not_for_ever() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[1; 4_096], 0).expect("room");
        until_here(std::os::fd::AsFd::as_fd(&file), 0).expect("can be mapped");
        // Behind its end there is none.
        until_here(std::os::fd::AsFd::as_fd(&file), 9).expect("can be mapped");
        assert!(until_here(std::os::fd::AsFd::as_fd(&file), u64::MAX).is_err());
    }

    #[test]
    fn a_file_just_written_is_in_memory_page_by_page() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(8 * 4_096).expect("room");
        file.write_all_at(&[1; 4_096], 3 * 4_096).expect("room");
        let mut pages = Pages::of(&file).expect("can be mapped");
        let resident = pages.resident().expect("our own file");
        assert!(resident.len() == 8 && resident[3], "{resident:?}");
        if let Ok(cached) = pages.cached() {
            assert!(cached >= 1, "{cached}");
        }
    }
}
