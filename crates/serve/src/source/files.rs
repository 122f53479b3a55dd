//! A member that is a file or a device of this machine: opened so that nobody else changes it, and watched in case somebody does.
//!
//! A block device is opened exclusively, which the kernel refuses for one that is mounted or held by another driver. A file
//! is locked in the two ways that programs lock files (flock, and single bytes as qemu does), refused while a loop device stands on it, and
//! watched: writes of others at once where the kernel tells of them ([`Foreign`]), and every second its size, its name, and its
//! time of change while we ourselves do not write. Looking may take for ever where a file system does not answer, so a
//! thread looks, and what it has seen is judged when it comes.

use crate::backend::{Holes, Reach, Zeroes};
use crate::error::ServeError;
use crate::options::Direct;
use crate::raw::{Foreign, is_byte_locked, lock_byte, unlock_bytes};
use forerun_core::units::BLOCK_BYTES;
use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, flock};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The option that names a journal, which is always written.
pub(super) const JOURNAL: &str = "--journal";
/// Bytes of a file that qemu locks to say what it does with it, and behind them what others must not do: of each the number of
/// the permission is added.
const DOES: i64 = 100;
const FORBIDS: i64 = 200;
/// Numbers of permissions: reading what stays, writing, and changing the size.
const READS: i64 = 0;
const WRITES: i64 = 1;
const RESIZES: i64 = 3;

/// How long a lock may be that of a server that was killed: the kernel ends what that had in hand.
const GONE_SOON: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A member that is a file or a device of this machine.
#[derive(Debug)]
pub(crate) struct Files {
    path: PathBuf,
    /// Through the page cache; for the bytes behind the last whole sector, and for syncs.
    pub(crate) plain: Arc<File>,
    /// Around it.
    pub(crate) direct: Option<Arc<File>>,
    seen: Seen,
    pub(super) holes: Holes,
    pub(crate) reach: Reach,
    /// Looks from now on whose time of change says nothing, because we wrote: a write of ours may have come before or after the
    /// look that is judged next.
    pub(super) excused: u8,
    /// Tells of the writes of others.
    foreign: Option<Foreign>,
}

/// File systems that ask somebody else, by their numbers in `statfs`: FUSE, NFS, SMB (three numbers of it), Ceph, 9p, AFS (two) and Coda.
const ASKING: [u32; 10] = [
    0x6573_5546,
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x517b,
    0x00c3_6400,
    0x0102_1997,
    0x5346_414f,
    0x6b41_4653,
    0x7375_7245,
];

/// What must stay as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
    is_block: bool,
}

/// What a look has seen.
#[derive(Debug)]
pub(super) struct Look {
    /// Bytes, and time of change.
    file: std::io::Result<(u64, (i64, i64))>,
    /// Device and number of what has its name.
    name: std::io::Result<(u64, u64)>,
}

/// Looks at a file and at what has its name.
pub(super) fn look_at(plain: &File, path: &Path) -> Look {
    let mut file = plain;
    let sized = file.metadata().and_then(|about| {
        let size =
            if about.file_type().is_block_device() { file.seek(SeekFrom::End(0))? } else { about.size() };
        Ok((size, (about.mtime(), about.mtime_nsec())))
    });
    Look { file: sized, name: std::fs::metadata(path).map(|there| (there.dev(), there.ino())) }
}

/// Whether a file can be made zero without being sent zeros: a hole behind its end changes nothing but its time, and a device
/// says so.
fn holes_of(plain: &File, size: u64) -> Holes {
    let Ok(about) = plain.metadata() else { return Holes::No };
    let can = if about.file_type().is_block_device() {
        let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
        let limit = |above: &str| {
            let path = format!("/sys/dev/block/{major}:{minor}/{above}queue/write_zeroes_max_bytes");
            std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        };
        // A partition has the queue of its disk.
        limit("").or_else(|| limit("../")).is_some_and(|most| most > 0)
    } else {
        let behind = size.next_multiple_of(BLOCK_BYTES);
        rustix::fs::fallocate(plain, Zeroes::Hole.flags(), behind, BLOCK_BYTES).is_ok()
    };
    if can { Holes::Fast } else { Holes::No }
}

impl Files {
    /// Opens a file or a device that `option` has named.
    pub(crate) fn open(
        option: &'static str,
        path: &Path,
        read_only: bool,
        direct: Direct,
    ) -> Result<(Self, u64), ServeError> {
        let about = std::fs::metadata(path).map_err(|e| ServeError::file(path, e))?;
        let is_block = about.file_type().is_block_device();
        if !is_block && !about.is_file() {
            let why = format!("{} is neither a file nor a block device", path.display());
            return Err(ServeError::option(option, why));
        }
        let exclusive = if is_block { OFlags::EXCL } else { OFlags::empty() };
        let plain = open_with(path, read_only, exclusive)?;
        if !is_block {
            let how = if read_only {
                FlockOperation::NonBlockingLockShared
            } else {
                FlockOperation::NonBlockingLockExclusive
            };
            lock_soon(&plain, how).map_err(|e| ServeError::File {
                path: path.into(),
                source: e.into(),
                remedy: if read_only {
                    " (a program that writes to it has locked it: stop that program)"
                } else if option == JOURNAL {
                    " (another program has locked it: stop that program)"
                } else {
                    " (another program has locked it: stop that program; one that only reads lets us serve with --read-only)"
                },
            })?;
            lock_as_qemu_does(&plain, path, read_only)?;
            refuse_under_loop(option, path, &about, read_only)?;
        }
        // The exclusive claim is held by the first; a second claim of the same process is refused too, so it has none.
        let around = match direct {
            Direct::Auto => open_direct(path, read_only),
            Direct::Off => None,
        };
        // Commands that the kernel still works at when a server was killed hold this file and not the other: whoever starts next waits for them.
        if let Some(around) = around.as_ref().filter(|_| !is_block) {
            own_bytes(read_only).for_each(|byte| drop(lock_byte(around.as_fd(), byte)));
        }
        let size = (&plain).seek(SeekFrom::End(0)).map_err(|e| ServeError::file(path, e))?;
        if size == 0 {
            return Err(ServeError::option(option, format!("{} is empty", path.display())));
        }
        let holes = if read_only { Holes::No } else { holes_of(&plain, size) };
        let seen = look(&plain, size).map_err(|e| ServeError::file(path, e))?;
        // A file system that has nothing to do at a close says so at the first: then the last one never waits for it.
        drop(plain.try_clone());
        let foreign = if is_block { None } else { Foreign::watch(path).ok() };
        // The number of a file system is one of 32 bits, whatever holds it.
        let asks = !is_block
            && rustix::fs::fstatfs(&plain).is_ok_and(|about| ASKING.contains(&(about.f_type as u32)));
        let reach = Reach { direct: around.is_some(), asks };
        let (plain, direct) = (Arc::new(plain), around.map(Arc::new));
        Ok((Self { path: path.into(), plain, direct, seen, excused: 0, foreign, holes, reach }, size))
    }

    /// How it was named.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A write of ours has ended, or is under way.
    pub(crate) const fn wrote(&mut self) {
        self.excused = 2;
    }

    /// What a thread needs to look at it.
    pub(super) fn to_look_at(&self) -> (Arc<File>, PathBuf) {
        (Arc::clone(&self.plain), self.path.clone())
    }

    /// Whether somebody else writes to it, as far as the kernel tells.
    pub(super) fn is_spoiled(&self) -> Option<String> {
        let foreign = self.foreign.as_ref()?.has_written();
        foreign.then(|| format!("{}: somebody has written to it while it was served", self.path.display()))
    }

    /// Whether it was what it was when it was looked at; `writing` says that writes of ours are in flight.
    pub(super) fn judge(&mut self, look: Look, writing: bool) -> Result<(), String> {
        if writing {
            self.wrote();
        }
        let wrote = self.excused > 0;
        self.excused = self.excused.saturating_sub(1);
        let changed = |what: &str| Err(format!("{}: {what} while it was served", self.path.display()));
        let Ok((size, time)) = look.file else { return changed("it could not be looked at") };
        if size != self.seen.size {
            return changed("its size has changed");
        }
        if self.seen.is_block {
            return Ok(()); // it is held exclusively; only its driver can change it
        }
        match look.name {
            Ok(there) if there == (self.seen.device, self.seen.inode) => {}
            Ok(_) => return changed("another file took its place"),
            Err(_) => return changed("it was removed or renamed"),
        }
        if time != self.seen.changed && !wrote {
            return changed("somebody has written to it");
        }
        self.seen.changed = time;
        Ok(())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // A ring of the kernel lets go of files a little later than of everything else, and so does the thread that looks; locks go now.
        self.direct.iter().chain([&self.plain]).for_each(|file| unlock_bytes(file.as_fd()));
        let _ = flock(&self.plain, FlockOperation::Unlock);
    }
}

fn open_with(path: &Path, read_only: bool, flags: OFlags) -> Result<File, ServeError> {
    OpenOptions::new().read(true).write(!read_only).custom_flags(flags.bits() as i32).open(path).map_err(
        |source| {
            let remedy = match source.raw_os_error() {
                Some(libc::EBUSY) => " (it is mounted or another driver holds it: unmount it first)",
                Some(libc::EACCES | libc::EROFS) if !read_only => " (or serve it with --read-only)",
                _ => "",
            };
            ServeError::File { path: path.into(), source, remedy }
        },
    )
}

/// The file around the page cache, if its file system can do that with whole blocks.
fn open_direct(path: &Path, read_only: bool) -> Option<File> {
    let file = open_with(path, read_only, OFlags::DIRECT).ok()?;
    fcntl_getfl(&file).ok()?.contains(OFlags::DIRECT).then_some(file)
}

fn look(file: &File, size: u64) -> std::io::Result<Seen> {
    let about = file.metadata()?;
    Ok(Seen {
        device: about.dev(),
        inode: about.ino(),
        size,
        changed: (about.mtime(), about.mtime_nsec()),
        is_block: about.file_type().is_block_device(),
    })
}

/// What we do with a file.
const fn does(read_only: bool) -> &'static [i64] {
    if read_only { &[READS] } else { &[READS, WRITES] }
}

/// What we want nobody else to do with it.
const FORBIDDEN: [i64; 2] = [WRITES, RESIZES];

/// The bytes that say both.
fn own_bytes(read_only: bool) -> impl Iterator<Item = i64> {
    does(read_only).iter().map(|what| DOES + what).chain(FORBIDDEN.map(|what| FORBIDS + what))
}

/// Locks a file; what a server that was killed has held is free a moment after its end.
fn lock_soon(file: &File, how: FlockOperation) -> Result<(), Errno> {
    let begin = Instant::now();
    loop {
        match flock(file, how) {
            Err(Errno::WOULDBLOCK) if begin.elapsed() < GONE_SOON => std::thread::sleep(LOOK_AGAIN),
            locked => return locked,
        }
    }
}

/// Says to programs that lock as qemu does (qemu itself, qemu-nbd, qemu-img, and us) what we do with a file and what they must not, and
/// finds those who do it or forbid ours. Where there are no such locks there is nobody to be found.
fn lock_as_qemu_does(file: &File, path: &Path, read_only: bool) -> Result<(), ServeError> {
    if own_bytes(read_only).any(|byte| lock_byte(file.as_fd(), byte).is_err()) {
        return Ok(());
    }
    let theirs = does(read_only).iter().map(|what| FORBIDS + what).chain(FORBIDDEN.map(|what| DOES + what));
    let begin = Instant::now();
    for byte in theirs {
        while is_byte_locked(file.as_fd(), byte).unwrap_or(false) {
            if begin.elapsed() < GONE_SOON {
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
            return Err(ServeError::File {
                path: path.into(),
                source: std::io::ErrorKind::ResourceBusy.into(),
                remedy: " (another program has locked it, as qemu does: a machine or a tool that uses it. Stop that; one that only \
                         reads lets us serve with --read-only)",
            });
        }
    }
    Ok(())
}

/// Refuses a file that a loop device stands on: what is written there we would not see, nor it what we write.
fn refuse_under_loop(
    option: &'static str,
    path: &Path,
    about: &std::fs::Metadata,
    read_only: bool,
) -> Result<(), ServeError> {
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return Ok(()) };
    for device in devices.flatten() {
        let read = |name: &str| std::fs::read_to_string(device.path().join(name)).unwrap_or_default();
        let backing = read("loop/backing_file");
        let there = std::fs::metadata(backing.trim_end_matches('\n'));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (about.dev(), about.ino())) {
            continue;
        }
        if read_only && read("ro").trim() == "1" {
            continue;
        }
        let name = device.file_name();
        let name = name.to_string_lossy();
        let why = format!(
            "{} is under /dev/{name}: detach that (losetup -d /dev/{name}), or serve the device",
            path.display()
        );
        return Err(ServeError::option(option, why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_server_still_has_in_hand_keeps_the_next_one_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![0; 1 << 20]).expect("written");
        let open = || Files::open("--over", &path, false, Direct::Auto);
        let (killed, _) = open().expect("nobody has it");
        // Where the file cannot be opened around the page cache there is one file, and its lock goes with the last command.
        let Some(in_hand) = killed.direct.clone() else { return };
        unlock_bytes(killed.plain.as_fd());
        flock(&killed.plain, FlockOperation::Unlock).expect("it was locked");
        let refused = open().expect_err("a command is under way").to_string();
        assert!(refused.contains("another program has locked it"), "{refused}");
        drop((killed, in_hand));
        assert!(open().is_ok(), "it has ended");
    }
}
