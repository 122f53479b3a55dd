//! The few calls to the kernel that no crate wraps: reading ahead, handles of files, what a file system says of itself.
//!
//! Each function is one call with its memory; what the answers mean stands with the callers. Numbers and layouts are those
//! of Linux's ABI (include/uapi/linux/fs.h, fiemap.h), which is stable.
#![expect(unsafe_code, reason = "these calls have no safe interface")]

use crate::sample::{u32_at, u64_at};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::RwLock;

/// `FS_IOC_GETVERSION`: `_IOR('v', 1, long)`.
const IOC_GETVERSION: libc::c_ulong = 0x8000_7601 | (size_of::<libc::c_long>() as libc::c_ulong) << 16;
/// `FS_IOC_GETFSUUID`: `_IOR(0x15, 0, struct fsuuid2)`, Linux 6.9.
const IOC_GETFSUUID: libc::c_ulong = 0x8011_1500;
/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
/// `XFS_IOC_BULKSTAT`: `_IOR('X', 127, struct xfs_bulkstat_req)`, Linux 5.3.
const IOC_XFS_BULKSTAT: libc::c_ulong = 0x8040_587F;
/// `BTRFS_IOC_TREE_SEARCH`: `_IOWR(0x94, 17, struct btrfs_ioctl_search_args)`.
const IOC_BTRFS_SEARCH: libc::c_ulong = 0xD000_9411;
/// The tree of all trees of a btrfs, and the kind of its items that say in which subvolume another one lies.
const BTRFS_ROOTS: u64 = 1;
const BTRFS_ROOT_BACKREF: u32 = 144;
/// The least and the largest number of a subvolume but the top one.
const BTRFS_NUMBERS: [u64; 2] = [256, u64::MAX - 255];
/// Bytes of the head of what a search found.
const BTRFS_FOUND_HEAD: usize = 32;
/// Searches for subvolumes at most, each of which finds six or more.
const BTRFS_SEARCHES_MAX: usize = 16;
/// `cachestat`, the same number on every architecture but alpha.
const SYS_CACHESTAT: libc::c_long = 451;
/// Largest handle (`MAX_HANDLE_SZ`).
const HANDLE_BYTES: usize = 128;
/// Extents that one call of [`first_extents`] is told.
const EXTENTS: usize = 32;

/// `struct file_handle` with room for the largest.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; HANDLE_BYTES],
}

/// `struct fsuuid2`.
#[repr(C)]
#[derive(Default)]
struct FsUuid {
    length: u8,
    uuid: [u8; 16],
}

/// `struct xfs_bulkstat_req` with room for one `struct xfs_bulkstat`.
#[repr(C)]
#[derive(Default)]
struct XfsBulkstat {
    inode: u64,
    flags: u32,
    count: u32,
    told: u32,
    group: u32,
    reserved: [u64; 5],
    answer_inode: u64,
    /// Size, blocks, flags, and four times.
    answer_sizes: [u64; 7],
    answer_generation: u32,
    /// Owners, parts of seconds, counts, mode.
    answer_words: [u32; 17],
    answer_reserved: [u64; 7],
}
const _: () = assert!(size_of::<XfsBulkstat>() == 64 + 192);

/// `struct btrfs_ioctl_search_args`.
#[repr(C)]
struct BtrfsSearch {
    tree: u64,
    objects: [u64; 2],
    offsets: [u64; 2],
    transactions: [u64; 2],
    kinds: [u32; 2],
    items: u32,
    unused: u32,
    reserved: [u64; 4],
    found: [u8; 3_992],
}
const _: () = assert!(size_of::<BtrfsSearch>() == 4_096);

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}
const _: () = assert!(size_of::<FiemapExtent>() == 56);

/// `struct fiemap` with room for some extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// Where a stretch of a file lies on its device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// In the file.
    pub(crate) logical: u64,
    /// On the device.
    pub(crate) physical: u64,
    /// How many.
    pub(crate) length: u64,
}

/// Starts reading pages that are not in memory, and does not wait for them.
///
/// # Errors
/// What the system said.
pub(crate) fn readahead(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (libc::off64_t::try_from(offset), usize::try_from(bytes)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: the call takes the number of an open descriptor and no memory.
    match unsafe { libc::readahead(file.as_raw_fd(), offset, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Who makes a copy of this process holds it to write, so that the copy has no mapping of [`Together`], which would keep a file system busy.
pub(crate) static COPYING: RwLock<()> = RwLock::new(());

/// Stretches of files, one behind the other in memory, without any right to their bytes: to be asked for as one.
///
/// A `readahead` each would send each to the device before the next is known; what one `madvise` asks for is put together first, and
/// what lies side by side on the device becomes one request of it. The files need not stay open; dropping it ends the mapping.
pub(crate) struct Together {
    base: *mut libc::c_void,
    room: usize,
}

impl Together {
    /// Maps stretches: file, offset and bytes, both of them whole pages.
    ///
    /// # Errors
    /// What the system said, of the first that cannot be mapped.
    pub(crate) fn of<'a>(
        stretches: impl Iterator<Item = (BorrowedFd<'a>, u64, u64)> + Clone,
    ) -> io::Result<Self> {
        let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
        let sizes = stretches.clone().map(|(_, _, bytes)| usize::try_from(bytes).ok());
        let room =
            sizes.clone().try_fold(0_usize, |sum, size| sum.checked_add(size?)).ok_or_else(too_long)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let _until_it_is_marked = COPYING.read();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours; the result is checked.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let together = Self { base, room };
        let mut at = 0;
        for ((file, offset, _), size) in stretches.zip(sizes.flatten()) {
            let offset = libc::off_t::try_from(offset).map_err(|_| too_long())?;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: `at + size` lies within the `room` bytes that were just reserved and that nobody else knows of.
            let mapped = unsafe {
                libc::mmap(base.byte_add(at), size, libc::PROT_NONE, flags, file.as_raw_fd(), offset)
            };
            if mapped == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            at += size;
        }
        // SAFETY: the call is about the mapping that was just made, and changes no byte of it.
        match unsafe { libc::madvise(base, room, libc::MADV_DONTFORK) } {
            0 => Ok(together),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Address and bytes, for whoever may ask for what another process maps.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.base as u64, self.room as u64)
    }

    /// Starts reading all that is not in memory, and does not wait for it.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn readahead(&self) -> io::Result<()> {
        // SAFETY: the call is about a mapping of ours, of whose bytes no reference was ever made, and changes none.
        match unsafe { libc::madvise(self.base, self.room, libc::MADV_WILLNEED) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `of` made, in its length, and nothing borrows from it.
        unsafe { libc::munmap(self.base, self.room) };
    }
}

/// Opens a file of a file system by its handle.
///
/// # Errors
/// What the system said: ESTALE where that file is no more, EPERM without `CAP_DAC_READ_SEARCH`.
pub(crate) fn open_by_handle(
    mount: BorrowedFd<'_>,
    kind: i32,
    bytes: &[u8],
    flags: i32,
) -> io::Result<OwnedFd> {
    let mut handle = Handle { bytes: 0, kind, data: [0; HANDLE_BYTES] };
    let room = handle.data.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidInput)?;
    room.copy_from_slice(bytes);
    handle.bytes = bytes.len() as u32;
    // SAFETY: the kernel reads one handle of ours, which says its own length and outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw mut handle,
            flags | libc::O_CLOEXEC,
        )
    };
    owned(fd)
}

/// The handle of an open file (or of one opened with `O_PATH`).
///
/// # Errors
/// What the system said: `EOPNOTSUPP` where the file system has none.
pub(crate) fn handle_of(file: BorrowedFd<'_>) -> io::Result<(i32, Vec<u8>)> {
    let mut handle = Handle { bytes: HANDLE_BYTES as u32, kind: 0, data: [0; HANDLE_BYTES] };
    let mut mount = 0_i32;
    // SAFETY: the path is an empty string; the kernel writes one handle, as long as it says there is room, and one number.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            file.as_raw_fd(),
            c"".as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((handle.kind, handle.data[..(handle.bytes as usize).min(HANDLE_BYTES)].to_vec()))
}

/// The generation of an inode; 0 where the file system does not tell.
pub(crate) fn generation(file: BorrowedFd<'_>) -> u32 {
    let mut value: libc::c_long = 0;
    // SAFETY: the kernel writes a number no longer than ours.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), IOC_GETVERSION as _, &raw mut value) };
    // File systems write four bytes, in the order of the machine.
    let bytes = value.to_ne_bytes();
    if result == 0 { u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) } else { 0 }
}

/// The generation of the inode of XFS that has this number; `None` where none has it. `root` is any file of the file system.
///
/// # Errors
/// What the system said: `EPERM` without `CAP_SYS_ADMIN`, `ENOTTY` where it is no XFS or one before Linux 5.3.
pub(crate) fn xfs_generation(root: BorrowedFd<'_>, inode: u64) -> io::Result<Option<u32>> {
    let mut ask = XfsBulkstat { inode, count: 1, ..XfsBulkstat::default() };
    // SAFETY: the kernel reads the head of one request of ours, and writes it and as many answers as the head has room for: one.
    if unsafe { libc::ioctl(root.as_raw_fd(), IOC_XFS_BULKSTAT as _, &raw mut ask) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // It answers with the first that is in use from there on.
    let is_it = ask.told == 1 && ask.answer_inode == inode;
    Ok(is_it.then_some(ask.answer_generation))
}

/// Numbers of the subvolumes of a btrfs, without the top one, `most` and one at most. `root` is any file of it.
///
/// # Errors
/// What the system said: `EPERM` without `CAP_SYS_ADMIN`, `ENOTTY` where it is no btrfs.
pub(crate) fn btrfs_subvolumes(root: BorrowedFd<'_>, most: usize) -> io::Result<Vec<u64>> {
    let mut ask = BtrfsSearch {
        tree: BTRFS_ROOTS,
        objects: BTRFS_NUMBERS,
        offsets: [0, u64::MAX],
        transactions: [0, u64::MAX],
        kinds: [BTRFS_ROOT_BACKREF; 2],
        items: 0,
        unused: 0,
        reserved: [0; 4],
        found: [0; 3_992],
    };
    let mut told = BTreeSet::new();
    for _ in 0..BTRFS_SEARCHES_MAX {
        ask.items = u32::MAX;
        // SAFETY: the kernel reads one request of ours and writes no more than it has room for.
        if unsafe { libc::ioctl(root.as_raw_fd(), IOC_BTRFS_SEARCH as _, &raw mut ask) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let Some(next) = take_found(&ask.found, ask.items, &mut told) else {
            return Ok(told.into_iter().collect());
        };
        if told.len() > most {
            return Ok(told.into_iter().take(most + 1).collect());
        }
        ask.objects[0] = next;
    }
    Err(io::ErrorKind::Unsupported.into())
}

/// Takes the numbers of subvolumes from what a search found; returns where the next one begins, or `None` where nothing was found.
fn take_found(mut rest: &[u8], items: u32, told: &mut BTreeSet<u64>) -> Option<u64> {
    let mut next = None;
    for _ in 0..items {
        let (head, behind) = rest.split_at_checked(BTRFS_FOUND_HEAD)?;
        let number = u64_at(head, 8)?;
        // Items of other kinds lie between those of two numbers, and are told too. Each number has one of ours.
        let kind = u32_at(head, 24)?;
        if kind == BTRFS_ROOT_BACKREF {
            told.insert(number);
        }
        next = Some(if kind < BTRFS_ROOT_BACKREF { number } else { number + 1 });
        rest = behind.get(u32_at(head, 28)? as usize..)?;
    }
    next
}

/// The UUID of the file system that holds an open file; `None` where it does not tell.
pub(crate) fn fs_uuid(file: BorrowedFd<'_>) -> Option<[u8; 16]> {
    let mut answer = FsUuid::default();
    // SAFETY: the kernel writes one `fsuuid2` of ours.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), IOC_GETFSUUID as _, &raw mut answer) };
    (result == 0 && answer.length == 16).then_some(answer.uuid)
}

/// Where a stretch of a file lies, as far as its first extents tell. Nothing is written back for it.
///
/// # Errors
/// What the system said: `EOPNOTSUPP` where the file system does not tell.
pub(crate) fn first_extents(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<Vec<Placed>> {
    let mut map = Fiemap {
        start: offset,
        length: bytes,
        flags: 0,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); EXTENTS],
    };
    // SAFETY: the kernel reads and writes one `fiemap` of ours, with room for as many extents as it says.
    if unsafe { libc::ioctl(file.as_raw_fd(), IOC_FIEMAP as _, &raw mut map) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let told = map.extents.iter().take(map.mapped as usize);
    Ok(told.map(|e| Placed { logical: e.logical, physical: e.physical, length: e.length }).collect())
}

/// Pages of a stretch of a file that the page cache has or is getting.
///
/// # Errors
/// What the system said; `ENOSYS` before Linux 6.5, `EOPNOTSUPP` of a file of an overlay, whose pages are those of another.
pub(crate) fn cached(file: BorrowedFd<'_>, offset: u64, bytes: u64) -> io::Result<u64> {
    if rustix::fs::fstatfs(file)?.f_type == libc::OVERLAYFS_SUPER_MAGIC {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    let range = [offset, bytes];
    let mut stat = [0_u64; 5];
    // SAFETY: the kernel reads one `cachestat_range` (two numbers) and writes one `cachestat` (five), both ours.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), stat.as_mut_ptr(), 0_u32) };
    if result == 0 { Ok(stat[0]) } else { Err(io::Error::last_os_error()) }
}

/// A text of the kernel's. Names of others in it, of programs and of files, need not be text: what is none of theirs is marked, and hides nothing else.
pub(crate) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned())
}

/// Processor time that this process has used, nanoseconds.
pub(crate) fn own_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` of ours.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Bytes that the children of this process that have ended had devices read, and theirs; 0 where the kernel does not count them.
pub(crate) fn children_read() -> u64 {
    // SAFETY: all zero is a value of it, as the kernel's own are numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `rusage` of ours.
    if unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) } != 0 {
        return 0;
    }
    // In sectors, whatever the device's are.
    u64::try_from(usage.ru_inblock).unwrap_or(0) * 512
}

/// Whether there is a process or thread of this number, be it another's.
pub(crate) fn lives(number: u32) -> bool {
    let number = i32::try_from(number).ok().and_then(rustix::process::Pid::from_raw);
    number.is_some_and(|number| rustix::process::test_kill_process(number) != Err(rustix::io::Errno::SRCH))
}

/// The monotonic clock, which the times of events are of, nanoseconds.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec` of ours.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// From now on sleeps of this thread end a microsecond late at most, not the usual fifty, as far as the machine's timer allows.
pub(crate) fn wake_on_time() {
    const NANOS: libc::c_ulong = 1_000;
    // SAFETY: the call takes numbers and no memory. Where it is refused sleeps are as long as before.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, NANOS, 0, 0, 0) };
}

/// Opens a path with flags that the standard library has no words for.
///
/// # Errors
/// What the system said.
pub(crate) fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the call reads a string that ends in zero and outlives it.
    owned(libc::c_long::from(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) }))
}

/// Opens anew what a descriptor of `O_PATH` stands for.
///
/// # Errors
/// What the system said.
pub(crate) fn reopen(file: &OwnedFd, flags: i32) -> io::Result<OwnedFd> {
    open(Path::new(&format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())), flags)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(fd) {
        // SAFETY: the call has just given us this descriptor, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn subvolumes_are_taken_from_among_what_else_a_search_finds_and_the_next_one_misses_none() {
        // Number, kind, and bytes of each.
        let found = |items: &[(u64, u32, u32)]| {
            let item = |&(number, kind, bytes): &(u64, u32, u32)| {
                let head =
                    [&[1; 8][..], &number.to_ne_bytes(), &[2; 8], &kind.to_ne_bytes(), &bytes.to_ne_bytes()];
                [head.concat(), vec![3; bytes as usize]].concat()
            };
            items.iter().flat_map(item).collect::<Vec<u8>>()
        };
        let take = |bytes: &[u8], items: u32| {
            let mut told = BTreeSet::new();
            (take_found(bytes, items, &mut told), told.into_iter().collect::<Vec<_>>())
        };
        let all = found(&[(256, 144, 21), (256, 156, 21), (257, 132, 439), (257, 144, 30)]);
        assert_eq!(take(&all, 4), (Some(258), vec![256, 257]));
        // What there was no room for comes next.
        assert_eq!(take(&all, 3), (Some(257), vec![256]));
        assert_eq!(take(&all, 0), (None, vec![]));
        // An answer that is shorter than it says is no list.
        for bytes in 0..all.len() {
            assert_eq!(take(&all[..bytes], 4).0, None, "{bytes}");
        }
    }

    #[test]
    fn a_handle_opens_the_file_it_was_taken_of_where_one_may() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("a");
        std::fs::write(&path, b"here").expect("room on disk");
        let file = open(&path, libc::O_PATH).expect("just written");
        let Ok((kind, bytes)) = handle_of(file.as_fd()) else { return };
        let mount = open(root.path(), libc::O_RDONLY | libc::O_DIRECTORY).expect("it is there");
        match open_by_handle(mount.as_fd(), kind, &bytes, libc::O_PATH) {
            Ok(again) => {
                let again = std::fs::File::from(reopen(&again, libc::O_RDONLY).expect("ours"));
                let mut content = [0; 4];
                again.read_exact_at(&mut content, 0).expect("four bytes");
                assert_eq!(&content, b"here");
            }
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EPERM), "not root: {error}"),
        }
    }

    #[test]
    fn stretches_of_several_files_are_asked_for_at_once_though_the_files_are_closed() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = |number: usize| root.path().join(number.to_string());
        let cold = |number| {
            std::fs::write(path(number), vec![1; 9_000]).expect("room on disk");
            let file = std::fs::File::open(path(number)).expect("just written");
            file.sync_all().expect("room");
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("a file");
            file
        };
        let files: Vec<std::fs::File> = (0..3).map(cold).collect();
        let together = Together::of(files.iter().map(|file| (file.as_fd(), 0, 12_288))).expect("files");
        drop(files);
        together.readahead().expect("a stretch may end behind its file");
        for number in 0..3 {
            let file = std::fs::File::open(path(number)).expect("still there");
            // Before Linux 6.5 nothing tells.
            assert!(
                cached(file.as_fd(), 0, 12_288).is_ok_and(|pages| pages == 3)
                    || cached(file.as_fd(), 0, 1).is_err()
            );
        }
        let maps = || std::fs::read_to_string("/proc/self/maps").expect("ours");
        let name = root.path().display().to_string();
        assert_eq!(maps().matches(&name).count(), 3);
        let all = std::fs::read_to_string("/proc/self/smaps").expect("ours");
        let mut ours =
            all.split("VmFlags:").zip(all.split("VmFlags:").skip(1)).filter(|(of, _)| of.contains(&name));
        let not_copied =
            |(_, flags): (&str, &str)| flags.lines().next().is_some_and(|line| line.contains(" dc"));
        assert!(ours.all(not_copied), "a process that is left behind would hold it for longer");
        drop(together);
        assert_eq!(maps().matches(&name).count(), 0, "a mapping holds its file system");
        let folder = open(Path::new("/"), libc::O_RDONLY | libc::O_DIRECTORY).expect("there is a root");
        assert!(Together::of([(folder.as_fd(), 0, 4096)].into_iter()).is_err(), "a folder has no bytes");
        assert!(
            Together::of([(folder.as_fd(), 0, u64::MAX); 2].into_iter()).is_err(),
            "more than memory has addresses"
        );
    }

    #[test]
    fn a_handle_longer_than_any_is_refused() {
        let folder = open(Path::new("/"), libc::O_RDONLY | libc::O_DIRECTORY).expect("there is a root");
        let error = open_by_handle(folder.as_fd(), 1, &[0; 129], 0).expect_err("too long");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn extents_of_a_written_file_cover_it() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[1; 40_000], 0).expect("room");
        file.sync_all().expect("room");
        let Ok(extents) = first_extents(file.as_fd(), 0, 40_000) else { return };
        assert!(extents.iter().map(|e| e.length).sum::<u64>() >= 40_000, "{extents:?}");
    }
}
