//! Gives the open files of other processes a window of read-ahead, and takes it back.
//!
//! `pidfd_getfd` shares the reader's own open file, and `POSIX_FADV_NORMAL` on it sets its window to what the device's is at that
//! moment. So any window is given by setting the device's for some microseconds:
//!
//! ```text
//!   note it in the books ─▶ read_ahead_kb = window ─▶ fadvise(NORMAL) on each open file ─▶ read_ahead_kb as before
//! ```
//!
//! A file that somebody opens in between has that window too; windows that are given are odd numbers of pages, so it is known when
//! it is read (`govern.rs`). To take a window back is `NORMAL` alone. The books are a file: should this process be killed, the next
//! takes back what stands in them, and sets right a device that was left in between. They say which disk each device was: where another
//! has come under its number, nothing of it is taken back. No descriptor is kept.
//!
//! A window is memory of whoever reads: all together may be half of what the machine has left, and those of one cgroup half of what its limit leaves.

use crate::bio::DeviceNumber;
use crate::govern::{RUNGS, SMALL};
use crate::memory;
use crate::store;
use forerun_trace::assemble::FileId;
use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// First word of the books, and their version.
const HEAD: &str = "forerun-windows 1";
/// Open files of one process that are looked at, and that are changed.
const OPEN_MAX: usize = 4_096;
const SAME_MAX: usize = 16;
/// Flags of open files that are never read through the page cache, or not read at all.
const O_ACCMODE: u32 = 0o3;
const O_WRONLY: u32 = 0o1;
/// Bytes of a page.
const PAGE_KIB: u32 = 4;
const PAGE: u64 = 4_096;
/// All windows together are at most one part in so many of what memory is left.
pub(crate) const PARTS: u64 = 2;
/// Where the kernel shows its devices.
const SYS: &str = "/sys";

/// A file that sysfs has of a disk, or of the disk of a partition.
fn of_disk(sys: &Path, (major, minor): (u32, u32), name: &str) -> Option<PathBuf> {
    let folder = sys.join(format!("dev/block/{major}:{minor}"));
    [folder.join(name), folder.join("..").join(name)].into_iter().find(|at| at.exists())
}

/// The kernel's number of the disk behind a device (Linux 5.15): no other disk of this boot has it.
fn diskseq(sys: &Path, device: (u32, u32)) -> Option<u64> {
    fs::read_to_string(of_disk(sys, device, "diskseq")?).ok()?.trim().parse().ok()
}

/// The device's own setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Knob(PathBuf);

impl Knob {
    /// Of a file system's device; `None` where it has none, as those that span several.
    pub(crate) fn of(major: u32, minor: u32) -> Option<Self> {
        Self::below(Path::new(SYS), (major, minor))
    }

    fn below(sys: &Path, device: (u32, u32)) -> Option<Self> {
        of_disk(sys, device, "bdi/read_ahead_kb").map(Self)
    }

    /// KiB.
    pub(crate) fn get(&self) -> io::Result<u32> {
        fs::read_to_string(&self.0)?.trim().parse().map_err(io::Error::other)
    }

    fn set(&self, kib: u32) -> io::Result<()> {
        fs::write(&self.0, format!("{kib}\n"))
    }
}

/// The device's setting is another until this is dropped.
struct Raised<'a>(&'a Knob, u32);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        // What cannot be written back now was written a moment ago; the books keep it for the next run.
        let _ = self.0.set(self.1);
    }
}

/// A process that was not replaced by another of its number.
type Process = (u32, u64);

/// Bytes that are left for files.
#[derive(Clone, Debug)]
pub(crate) struct Left {
    /// Of the machine, or of our own cgroup where that is less.
    pub(crate) machine: u64,
    /// Of the reader's cgroup or of one above it, where one has a limit: that one's folder.
    pub(crate) cgroup: Option<(PathBuf, u64)>,
}

/// What was changed.
#[derive(Debug)]
pub(crate) struct Windows {
    books: Option<PathBuf>,
    boot: String,
    sys: PathBuf,
    given: BTreeMap<(Process, FileId), Given>,
    /// The folder of the books, locked: two would take back each other's windows, and take a setting of a moment for the device's own.
    lock: fs::File,
    /// Each device whose setting was changed for a moment.
    devices: BTreeMap<(u32, u32), Before>,
}

impl Drop for Windows {
    /// A program that is being started has a copy of the lock until it runs, and would hold it for the next who wants the books.
    fn drop(&mut self) {
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// A window that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Given {
    /// Pages, of all its open files together.
    pages: u64,
    /// The cgroup whose memory it is.
    payer: Option<PathBuf>,
}

/// A device as it was.
#[derive(Clone, Copy, Debug)]
struct Before {
    kib: u32,
    /// Which disk it was, where the kernel tells.
    disk: Option<u64>,
}

impl Before {
    /// Whether another disk is known to have the number now.
    fn is_past(&self, sys: &Path, device: (u32, u32)) -> bool {
        self.disk.zip(diskseq(sys, device)).is_some_and(|(then, now)| then != now)
    }
}

impl Windows {
    /// With books in `folder`, after what a killed run left there is taken back; returns how many open files that were.
    ///
    /// # Errors
    /// If the books cannot be read or removed: then nothing should be changed. `WouldBlock` where somebody else has them.
    pub(crate) fn new(folder: &Path) -> io::Result<(Self, usize)> {
        Self::below(Path::new(SYS), folder)
    }

    fn below(sys: &Path, folder: &Path) -> io::Result<(Self, usize)> {
        let books = folder.join("windows");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        store::make_folder(folder)?;
        let lock = fs::File::open(folder)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let (given, devices) = (BTreeMap::new(), BTreeMap::new());
        let mut windows = Self { books: None, boot, sys: sys.to_owned(), given, devices, lock };
        let found = match fs::read_to_string(&books) {
            Ok(text) => windows.take_back(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        windows.books = Some(books);
        windows.write()?;
        Ok((windows, found))
    }

    /// Gives the open files of a process that are `file` a window of `pages`, or their device's; returns how many they are.
    ///
    /// # Errors
    /// What the system said: EPERM without `CAP_SYS_PTRACE`, `NotFound` where the process is no more or the file is not open.
    pub(crate) fn give(&mut self, pid: u32, file: FileId, pages: Option<u32>) -> io::Result<usize> {
        let process = (pid, start_of(pid)?);
        let open = open_files(pid, file)?;
        if open.is_empty() {
            self.forget(process, file)?;
            return Err(io::ErrorKind::NotFound.into());
        }
        let Some(pages) = pages else {
            open.iter().try_for_each(usual)?;
            self.forget(process, file)?;
            return Ok(open.len());
        };
        let device = (file.major, file.minor);
        let knob = Knob::below(&self.sys, device).ok_or(io::ErrorKind::Unsupported)?;
        let before = knob.get()?;
        let given = Given { pages: u64::from(pages) * open.len() as u64, payer: memory::folder_of(pid) };
        self.given.insert((process, file), given);
        self.devices.insert(device, Before { kib: before, disk: diskseq(&self.sys, device) });
        self.write()?;
        let raised = Raised(&knob, before);
        knob.set(pages * PAGE_KIB)?;
        let done = open.iter().try_for_each(usual);
        drop(raised);
        done.map(|()| open.len())
    }

    /// Takes everything back, and the books away.
    pub(crate) fn end(&mut self) {
        let devices = std::mem::take(&mut self.devices);
        for ((process, file), _) in std::mem::take(&mut self.given) {
            let device = (file.major, file.minor);
            if !devices.get(&device).is_some_and(|before| before.is_past(&self.sys, device)) {
                take_one(process, file);
            }
        }
        if let Some(books) = &self.books {
            // What is left there names nothing that is still ours.
            let _ = fs::remove_file(books);
        }
    }

    /// The process no longer has it open, or has its device's window.
    fn forget(&mut self, process: Process, file: FileId) -> io::Result<()> {
        if self.given.remove(&(process, file)).is_some() { self.write() } else { Ok(()) }
    }

    /// Pages of all windows.
    pub(crate) fn pages(&self) -> u64 {
        self.given.values().map(|given| given.pages).sum()
    }

    /// Whether a reader may have a window of so many pages beside those that there are. `left` is what there is for files, bytes.
    pub(crate) fn fits(&self, pid: u32, file: FileId, pages: u32, left: &Left) -> bool {
        let pages = u64::from(pages) * open_files(pid, file).map_or(1, |open| open.len().max(1)) as u64;
        let others = |of: &dyn Fn(&Given) -> bool| -> u64 {
            let others = self.given.iter().filter(|((process, of), _)| (process.0, *of) != (pid, file));
            others.filter(|(_, given)| of(given)).map(|(_, given)| given.pages).sum()
        };
        let fits = |others: u64, left: u64| (others + pages).saturating_mul(PAGE) <= left / PARTS;
        let below =
            |folder: &Path| others(&|given| given.payer.as_ref().is_some_and(|at| at.starts_with(folder)));
        fits(others(&|_| true), left.machine)
            && left.cgroup.as_ref().is_none_or(|(folder, left)| fits(below(folder), *left))
    }

    /// Those of processes that are no more are no memory, and nothing to be taken back.
    pub(crate) fn forget_ended(&mut self) -> io::Result<()> {
        let before = self.given.len();
        self.given.retain(|((pid, start), _), _| start_of(*pid).is_ok_and(|now| now == *start));
        if self.given.len() < before { self.write() } else { Ok(()) }
    }

    fn write(&self) -> io::Result<()> {
        let Some(books) = &self.books else { return Ok(()) };
        let mut text = format!("{HEAD} {}\n", self.boot);
        for ((major, minor), Before { kib, disk }) in &self.devices {
            let disk = disk.map_or_else(String::new, |disk| format!(" {disk}"));
            text.push_str(&format!("device {major} {minor} {kib}{disk}\n"));
        }
        for ((pid, start), file) in self.given.keys() {
            let FileId { major, minor, inode } = file;
            text.push_str(&format!("file {pid} {start} {major} {minor} {inode}\n"));
        }
        if let Some(folder) = books.parent() {
            store::make_folder(folder)?;
        }
        store::replace_own(books, text.as_bytes())
    }

    /// Takes back what the books of a killed run name.
    fn take_back(&self, text: &str) -> usize {
        let mut lines = text.lines();
        // Another boot has other processes, and devices begin anew.
        if lines.next() != Some(&format!("{HEAD} {}", self.boot)) {
            return 0;
        }
        let mut found = 0;
        // Devices stand before the files on them.
        let mut replaced = BTreeSet::new();
        for line in lines {
            let mut words = line.split(' ');
            let kind = words.next();
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let small = |at: usize| u32::try_from(numbers[at]).unwrap_or(u32::MAX);
            match (kind, numbers.len()) {
                (Some("device"), 3 | 4) => {
                    let device = (small(0), small(1));
                    let before = Before { kib: small(2), disk: numbers.get(3).copied() };
                    if before.is_past(&self.sys, device) {
                        replaced.insert(device);
                    } else {
                        set_right(&self.sys, device, before.kib);
                    }
                }
                (Some("file"), 5) if !replaced.contains(&(small(2), small(3))) => {
                    let file = FileId { major: small(2), minor: small(3), inode: numbers[4] };
                    found += take_one((small(0), numbers[1]), file);
                }
                _ => {}
            }
        }
        found
    }
}

/// A device that was left with a window of ours gets back its own.
fn set_right(sys: &Path, device: (u32, u32), before: u32) {
    let ours = |kib: u32| RUNGS.iter().chain([&SMALL]).any(|pages| pages * PAGE_KIB == kib);
    if let Some(knob) = Knob::below(sys, device)
        && knob.get().is_ok_and(ours)
    {
        // It is root's setting; who may not write it could not have changed it.
        let _ = knob.set(before);
    }
}

fn take_one((pid, start): Process, file: FileId) -> usize {
    if start_of(pid).ok() != Some(start) {
        return 0;
    }
    let open = open_files(pid, file).unwrap_or_default();
    open.iter().filter(|file| usual(file).is_ok()).count()
}

/// The open file gets its device's window.
fn usual(file: &OwnedFd) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::Normal)?)
}

/// When a process began, in ticks since the machine did.
fn start_of(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold anything; behind it fields 3 and following.
    let start =
        text.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19)?.parse().ok());
    start.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The open files of a process that are `file` and that are read through the page cache, shared with it.
fn open_files(pid: u32, file: FileId) -> io::Result<Vec<OwnedFd>> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(number, PidfdFlags::empty())?;
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))?.flatten().take(OPEN_MAX) {
        // Not the file itself: a stat of another may wait for a server that does not answer.
        let Ok(told) = fs::read_to_string(entry.path()) else { continue };
        let name = entry.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if found.len() < SAME_MAX && is_read(&told, file.inode) {
            let shared = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty())?;
            if is_it(&shared, file) {
                found.push(shared);
            }
        }
    }
    Ok(found)
}

/// Whether an open file is of this inode and read through the page cache, by its `fdinfo`.
fn is_read(told: &str, inode: u64) -> bool {
    let row = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = row("flags:").and_then(|flags| u32::from_str_radix(flags, 8).ok());
    let past = libc::O_DIRECT.cast_unsigned() | libc::O_PATH.cast_unsigned();
    row("ino:").and_then(|number| number.parse().ok()) == Some(inode)
        && flags.is_some_and(|flags| flags & O_ACCMODE != O_WRONLY && flags & past == 0)
}

fn is_it(shared: &OwnedFd, file: FileId) -> bool {
    let Ok(data) = shared.try_clone().map(fs::File::from).and_then(|file| file.metadata()) else {
        return false;
    };
    let device = DeviceNumber::new(libc::major(data.dev()), libc::minor(data.dev()));
    data.is_file() && data.ino() == file.inode && device == DeviceNumber::new(file.major, file.minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_read_through_the_cache_are_shared() {
        let told = |flags: &str, inode: u64| {
            is_read(&format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t9\nino:\t{inode}\n"), 12)
        };
        assert!(told("0100000", 12) && told("02", 12));
        assert!(!told("0100001", 12), "only written");
        assert!(!told("0140000", 12), "past the cache");
        assert!(!told("010000000", 12), "a mere place");
        assert!(!told("0100000", 13));
        assert!(!is_read("pos: 0", 12));
    }

    #[test]
    fn two_do_not_have_the_same_books() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (mut first, _) = Windows::new(root.path()).expect("nobody has them");
        assert_eq!(
            Windows::new(root.path()).err().map(|error| error.kind()),
            Some(io::ErrorKind::WouldBlock)
        );
        // As a program that is being started has it for a moment.
        let copy = first.lock.try_clone().expect("there is room for one more");
        first.end();
        drop(first);
        assert!(Windows::new(root.path()).is_ok());
        drop(copy);
    }

    #[test]
    fn books_of_another_boot_or_of_a_process_that_is_gone_change_nothing() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let own = std::process::id();
        let start = start_of(own).expect("this process lives");
        // Of its own: nobody else of these tests opens it meanwhile.
        let path = root.path().join("file");
        fs::write(&path, "x").expect("room on disk");
        let file = fs::File::open(&path).expect("it is there");
        let data = file.metadata().expect("open");
        let (major, minor) = (libc::major(data.dev()), libc::minor(data.dev()));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let line = |start: u64| format!("file {own} {start} {major} {minor} {}\n", data.ino());
        let found = |text: String| {
            fs::write(root.path().join("windows"), text).expect("room on disk");
            let (mut windows, found) = Windows::new(root.path()).expect("readable");
            windows.end();
            assert!(!root.path().join("windows").exists(), "the books are away at the end");
            found
        };
        assert_eq!(found(format!("{HEAD} another\n{}", line(start))), 0);
        assert_eq!(found(format!("{HEAD} {}\n{}", boot.trim(), line(start + 1))), 0);
        assert_eq!(found(format!("{HEAD} {}\nfile 1\nnonsense\n", boot.trim())), 0);
        // Our own open file, as another process would see it; without the right to share there is none.
        let shared = open_files(own, FileId { major, minor, inode: data.ino() }).map_or(0, |open| open.len());
        // Other tests of this process share all that it has open for a moment, and then it has this one more than once.
        let taken_back = found(format!("{HEAD} {}\n{}", boot.trim(), line(start)));
        assert_eq!(taken_back > 0, shared > 0, "{taken_back} of {shared}");
    }

    #[test]
    fn a_device_gets_back_its_own_window_unless_another_disk_has_its_number_now() {
        let sys = tempfile::tempdir().expect("a temporary folder");
        let state = sys.path().join("state");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let disk = sys.path().join("dev/block/7:0");
        fs::create_dir_all(disk.join("bdi")).expect("made");
        fs::create_dir_all(&state).expect("made");
        let left = RUNGS[0] * PAGE_KIB;
        // What the books say, the disk that is there now, and the window that it has then.
        for (line, now, window) in [
            ("device 7 0 128 11", Some("11\n"), 128),
            ("device 7 0 128 11", Some("12\n"), left),
            ("device 7 0 128", Some("12\n"), 128),
            ("device 7 0 128 11", None, 128),
        ] {
            fs::write(disk.join("bdi/read_ahead_kb"), format!("{left}\n")).expect("set");
            let told = disk.join("diskseq");
            match now {
                Some(now) => fs::write(&told, now).expect("told"),
                None => fs::remove_file(&told).expect("an old kernel"),
            }
            fs::write(state.join("windows"), format!("{HEAD} {}\n{line}\n", boot.trim())).expect("books");
            let (mut windows, _) = Windows::below(sys.path(), &state).expect("readable");
            let knob = Knob::below(sys.path(), (7, 0)).expect("it has one");
            assert_eq!(knob.get().expect("a number"), window, "{line}, {now:?}");
            windows.end();
        }
    }

    #[test]
    fn files_on_a_device_that_another_disk_has_replaced_are_not_taken_back() {
        let sys = tempfile::tempdir().expect("a temporary folder");
        let own = std::process::id();
        let start = start_of(own).expect("this process lives");
        let path = sys.path().join("file");
        fs::write(&path, "x").expect("room on disk");
        let file = fs::File::open(&path).expect("it is there");
        let data = file.metadata().expect("open");
        let device = (libc::major(data.dev()), libc::minor(data.dev()));
        let disk = sys.path().join(format!("dev/block/{}:{}", device.0, device.1));
        fs::create_dir_all(&disk).expect("made");
        fs::write(disk.join("diskseq"), "4\n").expect("told");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux");
        let head = format!("{HEAD} {}", boot.trim());
        let line = format!("file {own} {start} {} {} {}", device.0, device.1, data.ino());
        let found = |seq: u64| {
            let books = format!("{head}\ndevice {} {} 128 {seq}\n{line}\n", device.0, device.1);
            fs::write(sys.path().join("windows"), books).expect("room on disk");
            let (mut windows, found) = Windows::below(sys.path(), sys.path()).expect("readable");
            windows.end();
            found
        };
        // Other tests look at what this process has open, and have a copy of it for a moment.
        assert_ne!(found(4), 0);
        assert_eq!(found(3), 0);
    }

    #[test]
    fn all_windows_together_are_half_of_the_memory_that_is_left_and_those_of_a_cgroup_half_of_its_own() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (mut windows, _) = Windows::new(root.path()).expect("nobody has them");
        let own = std::process::id();
        let file = |inode| FileId { major: 7, minor: 0, inode };
        let of = |pages, payer: Option<&str>| Given { pages, payer: payer.map(PathBuf::from) };
        let process = (own, start_of(own).expect("this process lives"));
        windows.given.insert((process, file(1)), of(100, Some("/limit/one")));
        windows.given.insert(((u32::MAX, 1), file(2)), of(50, Some("/elsewhere")));
        assert_eq!(windows.pages(), 150);
        let left = |machine: u64, cgroup: Option<u64>| Left {
            machine: machine * PAGE,
            cgroup: cgroup.map(|pages| ("/limit".into(), pages * PAGE)),
        };
        let fits = |windows: &Windows, inode, pages, left: Left| windows.fits(own, file(inode), pages, &left);
        assert!(fits(&windows, 3, 50, left(400, None)), "200 pages of 400");
        assert!(!fits(&windows, 3, 51, left(400, None)));
        assert!(fits(&windows, 1, 150, left(400, None)), "in the place of its own");
        assert!(fits(&windows, 3, 100, left(10_000, Some(400))), "what is elsewhere is charged elsewhere");
        assert!(
            !fits(&windows, 3, 101, left(10_000, Some(400))),
            "what is below the one with the limit counts"
        );
        windows.forget_ended().expect("room on disk");
        assert_eq!(windows.pages(), 100, "no process has that number");
        windows.given.clear();
        windows.end();
    }

    #[test]
    fn the_books_say_which_disk_a_device_was() {
        let sys = tempfile::tempdir().expect("a temporary folder");
        let (mut windows, _) = Windows::below(sys.path(), sys.path()).expect("readable");
        windows.devices.insert((7, 0), Before { kib: 128, disk: Some(11) });
        windows.devices.insert((8, 0), Before { kib: 256, disk: None });
        windows.write().expect("room on disk");
        let books = fs::read_to_string(sys.path().join("windows")).expect("there");
        assert!(books.ends_with("\ndevice 7 0 128 11\ndevice 8 0 256\n"), "{books}");
    }
}
