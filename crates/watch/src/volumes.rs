//! File systems that are mounted here, and how to come from an entry of a manifest to an open file and back.
//!
//! A file is found by its handle where one may (root, or `CAP_DAC_READ_SEARCH`), which neither a rename nor another mount
//! namespace disturbs, else by its path. It is first opened as a mere place (`O_PATH`), judged, and only then opened
//! to be read: an inode that was used again may be a FIFO. Nothing is kept open, not even a mount, so that unmounting always works.

use crate::bio::DeviceNumber;
use crate::names::Mounts;
use crate::sys;
use forerun_manifest::{File, FileState, FileSystem, Stale};
use forerun_trace::assemble::FileId;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The least number that a file of a btrfs can have; under those below it keeps the pages of its trees (`BTRFS_FIRST_FREE_OBJECTID`).
pub(crate) const FIRST_FILE: u64 = 256;
/// Kinds of file systems whose files are worth reading ahead and whose mounts answer at once.
const KINDS: [&str; 7] = ["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs", "erofs"];
/// Kinds whose files the kernel makes up as they are read: no page of them is ever kept.
const NEVER_CACHED: [&str; 19] = [
    "proc",
    "sysfs",
    "debugfs",
    "tracefs",
    "securityfs",
    "configfs",
    "cgroup",
    "cgroup2",
    "bpf",
    "pstore",
    "efivarfs",
    "binfmt_misc",
    "selinuxfs",
    "smackfs",
    "fusectl",
    "mqueue",
    "nfsd",
    "rpc_pipefs",
    "resctrl",
];
/// Kinds whose handles are an inode and a generation of 32 bits (`FILEID_INO32_GEN`), where 0 is any generation.
const EXT: [&str; 3] = ["ext4", "ext3", "ext2"];
/// `FILEID_INO32_GEN`.
const HANDLE_INO32_GEN: i32 = 1;
/// The kind whose handles want the very generation, which it tells by number to whoever administers the system.
const XFS: &str = "xfs";
/// `FILEID_INO32_GEN` with inodes of 64 bits, as XFS has it (`fs/xfs/xfs_export.h`).
const HANDLE_INO64_GEN_XFS: i32 = 0x81;
/// What one `readahead` loads at most where the device does not say: the kernel's usual read-ahead.
const CHUNK_KIB: u64 = 128;
/// And where it says more than this, no more: larger ones teach nothing and hold a worker.
const CHUNK_KIB_MAX: u64 = 1_280;

/// A file system that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// As tracepoints print it.
    pub device: DeviceNumber,
    /// `ext4`, say.
    pub kind: String,
    /// Zero where it does not tell.
    pub uuid: [u8; 16],
    /// One of the places where it is mounted.
    pub mount: PathBuf,
    /// Its device turns.
    pub rotational: bool,
    /// What one `readahead` may ask for, pages.
    pub chunk_pages: u64,
    /// The device it lies on, where it is one.
    pub block_device: Option<PathBuf>,
    /// It tells us generations by number (XFS, `CAP_SYS_ADMIN`).
    pub tells_generations: bool,
}

impl Volume {
    /// Whether its metadata is pages of its block device, so that reading those ahead helps.
    #[must_use]
    pub fn has_metadata_pages(&self) -> bool {
        EXT.contains(&self.kind.as_str()) && self.block_device.is_some()
    }

    /// Whether a number of an inode is enough to open it.
    #[must_use]
    pub fn finds_by_inode(&self) -> bool {
        EXT.contains(&self.kind.as_str()) || self.tells_generations
    }

    /// Whether it may have subvolumes, each with numbers of its own.
    #[must_use]
    pub fn has_subvolumes(&self) -> bool {
        self.kind == "btrfs"
    }

    /// Whether a file may have this number.
    pub(crate) fn may_be_a_file(&self, inode: u64) -> bool {
        inode != u64::MAX && !(self.has_subvolumes() && inode < FIRST_FILE)
    }

    /// Whether its files are worth reading ahead.
    pub(crate) fn is_local(&self) -> bool {
        KINDS.contains(&self.kind.as_str())
    }

    /// The number under which pages of its block device are kept: no file has it.
    #[must_use]
    pub fn metadata_file(&self) -> FileId {
        FileId { major: self.device.major(), minor: self.device.minor(), inode: u64::MAX }
    }

    /// As a manifest knows it.
    #[must_use]
    pub fn entry(&self) -> FileSystem {
        FileSystem {
            uuid: self.uuid,
            kind: self.kind.clone(),
            mount: self.mount.clone(),
            metadata: Vec::new(),
        }
    }

    fn of(device: DeviceNumber, kind: &str, mount: &Path) -> Self {
        let folder = PathBuf::from(format!("/sys/dev/block/{}:{}", device.major(), device.minor()));
        // A partition has the settings of its disk.
        let queue = [folder.join("queue"), folder.join("../queue")].into_iter().find(|at| at.exists());
        let number = |at: PathBuf| fs::read_to_string(at).ok()?.trim().parse::<u64>().ok();
        let of_queue = |name: &str| queue.as_ref().and_then(|queue| number(queue.join(name)));
        let of_bdi =
            || number(format!("/sys/class/bdi/{}:{}/read_ahead_kb", device.major(), device.minor()).into());
        let kib = of_queue("max_sectors_kb").max(of_queue("read_ahead_kb")).or_else(of_bdi);
        let uevent = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
        let name = uevent.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let root = sys::open(mount, libc::O_RDONLY | libc::O_DIRECTORY).ok();
        let (uuid, tells_generations) = root.map_or((None, false), |root| {
            (sys::fs_uuid(root.as_fd()), kind == XFS && sys::xfs_generation(root.as_fd(), 0).is_ok())
        });
        Self {
            device,
            kind: kind.to_owned(),
            uuid: uuid.unwrap_or_default(),
            mount: mount.to_owned(),
            rotational: of_queue("rotational") == Some(1),
            chunk_pages: kib.unwrap_or(CHUNK_KIB).clamp(4, CHUNK_KIB_MAX) / 4,
            block_device: name.map(|name| Path::new("/dev").join(name)),
            tells_generations,
        }
    }
}

/// An open file that is what its entry says.
#[derive(Debug)]
pub struct Opened {
    /// To be read ahead.
    pub file: OwnedFd,
    /// What it is like.
    pub state: FileState,
}

/// The file systems that are mounted now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes(Vec<Volume>);

impl Volumes {
    /// As they are now.
    #[must_use]
    pub fn now() -> Self {
        let mounts = Mounts::of_this_process();
        let mut known = BTreeSet::new();
        let local = mounts.all().iter().filter(|mount| KINDS.contains(&mount.kind.as_str()));
        let volume = |mount: &crate::names::Mount| {
            let device = DeviceNumber::new(mount.major, mount.minor)?;
            known.insert(device).then(|| Volume::of(device, &mount.kind, &mount.at))
        };
        Self(local.filter_map(volume).collect())
    }

    /// These.
    #[cfg(test)]
    pub(crate) const fn of(volumes: Vec<Volume>) -> Self {
        Self(volumes)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Volume] {
        &self.0
    }

    /// Those of these devices; all, where none is named.
    #[must_use]
    pub(crate) fn within(&self, devices: &BTreeSet<(u32, u32)>) -> Self {
        let is = |volume: &&Volume| {
            devices.is_empty() || devices.contains(&(volume.device.major(), volume.device.minor()))
        };
        Self(self.0.iter().filter(is).cloned().collect())
    }

    /// The one that holds a path, of whatever kind it is; one that was not known is known from then on.
    pub fn holding(&mut self, path: &Path) -> Option<Volume> {
        let mounts = Mounts::of_this_process();
        // Of several at one place the last covers the others.
        let holding = mounts.all().iter().filter(|mount| path.starts_with(&mount.at));
        let mount = holding.max_by_key(|mount| mount.at.as_os_str().len())?;
        if let Some(known) = self.by_device(mount.major, mount.minor) {
            return Some(known.clone());
        }
        let device = DeviceNumber::new(mount.major, mount.minor)?;
        self.0.push(Volume::of(device, &mount.kind, &mount.at));
        self.0.last().cloned()
    }

    /// The one that events call by this number.
    #[must_use]
    pub fn by_device(&self, major: u32, minor: u32) -> Option<&Volume> {
        let device = DeviceNumber::new(major, minor)?;
        self.0.iter().find(|volume| volume.device == device)
    }

    /// The one that a manifest means: by UUID, else by kind and place.
    #[must_use]
    pub fn meant(&self, entry: &FileSystem) -> Option<&Volume> {
        self.0.iter().find(|volume| {
            if entry.uuid == [0; 16] {
                (&volume.kind, &volume.mount) == (&entry.kind, &entry.mount)
            } else {
                volume.uuid == entry.uuid
            }
        })
    }

    /// The file system whose block device an event of pages is about, if it is about one.
    #[must_use]
    pub fn of_block_device(&self, file: FileId) -> Option<&Volume> {
        // Block devices have a file system of their own, which is not mounted; its inodes are numbers of devices.
        if file.major != 0 || self.by_device(file.major, file.minor).is_some() {
            return None;
        }
        let device = DeviceNumber(u32::try_from(file.inode).ok()?);
        self.0.iter().find(|volume| volume.device == device && volume.has_metadata_pages())
    }
}

/// Whether file systems of a kind are.
pub(crate) fn is_kind_read_ahead(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// Whether files of a kind of file system are never in memory.
pub(crate) fn is_never_cached(kind: &str) -> bool {
    NEVER_CACHED.contains(&kind)
}

/// Whether events of a device are of files that are worth reading ahead.
pub(crate) fn are_local((major, minor): (u32, u32)) -> bool {
    let mounts = Mounts::of_this_process();
    let is_it = |mount: &crate::names::Mount| (mount.major, mount.minor) == (major, minor);
    mounts.all().iter().any(|mount| is_it(mount) && KINDS.contains(&mount.kind.as_str()))
}

/// What a file is like.
pub(crate) fn state_of(generation: u32, data: &fs::Metadata) -> FileState {
    let ctime_nanos = u32::try_from(data.ctime_nsec()).unwrap_or(0);
    FileState { generation, size: data.len(), ctime: data.ctime(), ctime_nanos }
}

fn state(file: &OwnedFd, data: &fs::Metadata) -> FileState {
    state_of(sys::generation(file.as_fd()), data)
}

/// Opens what a place stands for, to be read, without changing its time of access where one may.
///
/// # Errors
/// What the system said.
pub(crate) fn to_read(place: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK;
    sys::reopen(place, flags | libc::O_NOATIME).or_else(|_| sys::reopen(place, flags))
}

fn handle(volume: &Volume, file: &File) -> Option<(i32, Vec<u8>)> {
    if let Some(handle) = &file.handle {
        return Some(handle.clone());
    }
    if !EXT.contains(&volume.kind.as_str()) {
        return None;
    }
    let inode = u32::try_from(file.inode).ok()?;
    Some((HANDLE_INO32_GEN, [inode.to_ne_bytes(), file.state.generation.to_ne_bytes()].concat()))
}

/// A handle made of a number alone, on a file system that tells its generation.
fn numbered(volume: &Volume, root: Option<BorrowedFd<'_>>, inode: u64) -> Option<(i32, Vec<u8>)> {
    if !volume.tells_generations || inode == 0 {
        return None;
    }
    let own = if root.is_none() { Some(self::root(volume).ok()?) } else { None };
    let root = root.or_else(|| own.as_ref().map(OwnedFd::as_fd))?;
    let generation = sys::xfs_generation(root, inode).ok()??;
    Some((HANDLE_INO64_GEN_XFS, [&inode.to_ne_bytes()[..], &generation.to_ne_bytes()].concat()))
}

/// The folder where a file system is mounted, by which handles are opened.
///
/// # Errors
/// What the system said.
pub fn root(volume: &Volume) -> io::Result<OwnedFd> {
    sys::open(&volume.mount, libc::O_RDONLY | libc::O_DIRECTORY)
}

/// Opens by handle below `root`, or below one that is opened for it; `None` where handles open nothing here.
fn by_handle(
    volume: &Volume,
    root: Option<BorrowedFd<'_>>,
    (kind, bytes): &(i32, Vec<u8>),
    flags: i32,
) -> Option<io::Result<OwnedFd>> {
    let own = match root {
        Some(_) => None,
        None => Some(self::root(volume).ok()?),
    };
    let root = root.or_else(|| own.as_ref().map(OwnedFd::as_fd))?;
    match sys::open_by_handle(root, *kind, bytes, flags) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EOPNOTSUPP)) => None,
        found => Some(found),
    }
}

/// The place of a file, by handle or by path.
fn place(volume: &Volume, root: Option<BorrowedFd<'_>>, file: &File) -> io::Result<OwnedFd> {
    let handle = handle(volume, file).or_else(|| numbered(volume, root, file.inode));
    let found = handle.and_then(|handle| by_handle(volume, root, &handle, libc::O_PATH));
    if let Some(found) = found {
        return found;
    }
    if file.path.as_os_str().is_empty() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    sys::open(&file.path, libc::O_PATH)
}

/// Opens a file to be read by a handle that names its inode's present life: `None` where there is no such handle, or none may be used.
/// What was a file when it was recorded is one for as long as that life lasts, so it need not be judged first.
fn at_once(volume: &Volume, root: BorrowedFd<'_>, file: &File) -> Option<io::Result<Result<Opened, Stale>>> {
    if file.state.generation == 0 {
        return None;
    }
    let handle = handle(volume, file)?;
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOATIME;
    let found = match by_handle(volume, Some(root), &handle, flags)? {
        Ok(found) => fs::File::from(found),
        Err(error) => return Some(refused(error, file)),
    };
    let Ok(data) = found.metadata() else { return Some(Ok(Err(Stale::Gone))) };
    if !data.is_file() || data.ino() != file.inode {
        return Some(Ok(Err(Stale::Generation)));
    }
    let state = state_of(file.state.generation, &data);
    Some(Ok(file.stale(&state).map_or(Ok(Opened { file: found.into(), state }), Err)))
}

/// What a refusal says of a file: that it is gone, or another in its place, or that this user cannot open it; nothing where this process or the
/// machine has no room for one more.
fn refused(error: io::Error, file: &File) -> io::Result<Result<Opened, Stale>> {
    Ok(Err(match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => return Err(error),
        Some(libc::EACCES | libc::EPERM) => Stale::Denied,
        // None there is, or one that is longer than the kernel takes.
        Some(libc::ENAMETOOLONG) => Stale::Unnamed,
        _ if error.kind() == io::ErrorKind::Unsupported => Stale::Unnamed,
        // What was written anew beside it has its name.
        _ if !file.path.as_os_str().is_empty() && is_another(&file.path, error.raw_os_error()) => {
            Stale::Generation
        }
        _ => Stale::Gone,
    }))
}

/// Whether something is in the place of a file of which a handle says that it is no more.
fn is_another(path: &Path, error: Option<i32>) -> bool {
    error == Some(libc::ESTALE) && fs::symlink_metadata(path).is_ok()
}

/// Opens the file of an entry, if it is still the one that was recorded.
///
/// # Errors
/// Why it is not, or why this user cannot tell.
pub fn open(volume: &Volume, file: &File) -> Result<Opened, Stale> {
    open_below(volume, None, file).unwrap_or(Err(Stale::Gone))
}

/// The same for several files one after the other: `root` is [`root`] of the file system.
///
/// # Errors
/// Where there is no room for one more open file, which says nothing of this one. Within: as of [`open`].
pub fn open_below(
    volume: &Volume,
    root: Option<BorrowedFd<'_>>,
    file: &File,
) -> io::Result<Result<Opened, Stale>> {
    if let Some(found) = root.and_then(|root| at_once(volume, root, file)) {
        return found;
    }
    let place = match place(volume, root, file) {
        Ok(place) => place,
        Err(error) => return refused(error, file),
    };
    let data = fs::File::from(place.try_clone()?).metadata()?;
    if !data.is_file() || data.ino() != file.inode {
        return Ok(Err(Stale::Generation));
    }
    let opened = match to_read(&place) {
        Ok(opened) => opened,
        Err(error) => return refused(error, file),
    };
    let state = state(&opened, &data);
    Ok(file.stale(&state).map_or(Ok(Opened { file: opened, state }), Err))
}

/// Opens a file by its number, or where that opens nothing by its path, whatever it is like, if it is a regular one of that number.
///
/// # Errors
/// What the system said; `NotFound` where that number is no regular file, `Unsupported` where numbers open nothing here.
pub fn open_number(volume: &Volume, inode: u64, path: Option<&Path>) -> io::Result<OwnedFd> {
    let path = path.map_or_else(PathBuf::new, Path::to_owned);
    let place = place(volume, None, &File { inode, path, ..File::default() })?;
    let data = fs::File::from(place.try_clone()?).metadata()?;
    if !data.is_file() || data.ino() != inode {
        return Err(io::ErrorKind::NotFound.into());
    }
    to_read(&place)
}

/// Bytes of the file of a number, where that opens it: `root` is [`root`] of the file system.
pub(crate) fn size_below(volume: &Volume, root: BorrowedFd<'_>, inode: u64) -> Option<u64> {
    let place = place(volume, Some(root), &File { inode, ..File::default() }).ok()?;
    let data = fs::File::from(place).metadata().ok()?;
    (data.is_file() && data.ino() == inode).then_some(data.len())
}

/// Makes the entry of a file that was just touched: by inode alone where the file system can, else by `path`.
#[must_use]
pub fn identify(volume: &Volume, inode: u64, path: Option<&Path>) -> Option<File> {
    identify_below(volume, None, inode, path)
}

/// The same for several files one after the other: `root` is [`root`] of the file system.
#[must_use]
pub fn identify_below(
    volume: &Volume,
    root: Option<BorrowedFd<'_>>,
    inode: u64,
    path: Option<&Path>,
) -> Option<File> {
    let blank = File { inode, path: path.map_or_else(PathBuf::new, Path::to_owned), ..File::default() };
    let place = fs::File::from(place(volume, root, &blank).ok()?);
    let data = place.metadata().ok()?;
    if !data.is_file() || data.ino() != inode || data.len() == 0 {
        return None;
    }
    let told = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&place))).ok();
    // A file that is nowhere in the tree, or no more, has no path that another could open.
    let found = told.filter(|path| fs::symlink_metadata(path).is_ok_and(|there| there.ino() == inode));
    let exact = sys::handle_of(place.as_fd()).ok();
    let state = match exact.as_ref().and_then(|handle| generation_in(volume, handle)) {
        Some(generation) => state_of(generation, &data),
        None => state(&to_read(&place.into()).ok()?, &data),
    };
    let file = File { state, path: found.or_else(|| path.map(Path::to_owned)).unwrap_or_default(), ..blank };
    let derived = handle(volume, &file);
    Some(File { handle: exact.filter(|exact| derived.as_ref() != Some(exact)), ..file })
}

/// The generation that stands in a handle of ext4, which need not be opened to be asked for it then.
fn generation_in(volume: &Volume, (kind, bytes): &(i32, Vec<u8>)) -> Option<u32> {
    let is_plain = *kind == HANDLE_INO32_GEN && bytes.len() == 8 && EXT.contains(&volume.kind.as_str());
    is_plain.then(|| bytes[4..].try_into().ok().map(u32::from_ne_bytes)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> (tempfile::TempDir, Volume, u64) {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("a");
        fs::write(&path, vec![1; 10_000]).expect("room on disk");
        let inode = fs::metadata(&path).expect("just written").ino();
        let volume = Volume {
            device: DeviceNumber(0),
            kind: "any".into(),
            uuid: [0; 16],
            mount: root.path().to_owned(),
            rotational: false,
            chunk_pages: 32,
            block_device: None,
            tells_generations: false,
        };
        (root, volume, inode)
    }

    #[test]
    fn an_entry_opens_its_file_until_that_is_another() {
        let (root, volume, inode) = here();
        let path = root.path().join("a");
        let mut entry = identify(&volume, inode, Some(&path)).expect("it is there");
        assert_eq!((entry.state.size, entry.path.as_path()), (10_000, path.as_path()));
        entry.handle = None;
        assert!(open(&volume, &entry).is_ok());
        fs::write(&path, b"shorter").expect("room on disk");
        assert_eq!(open(&volume, &entry).err(), Some(Stale::Size));
        fs::remove_file(&path).expect("it is there");
        assert_eq!(open(&volume, &entry).err(), Some(Stale::Gone));
    }

    #[test]
    fn one_root_opens_what_a_root_for_each_opens_and_refuses_what_is_another() {
        let (_folder, volume, inode) = here();
        let path = volume.mount.join("a");
        let entry = identify(&volume, inode, Some(&path)).expect("it is there");
        let root = root(&volume).expect("a folder");
        let below = |entry: &File| open_below(&volume, Some(root.as_fd()), entry).expect("few are open");
        assert_eq!(
            below(&entry).map(|opened| opened.state),
            open(&volume, &entry).map(|opened| opened.state)
        );
        fs::write(&path, b"shorter").expect("room on disk");
        assert_eq!(below(&entry).err(), Some(Stale::Size));
        fs::remove_file(&path).expect("it is there");
        assert_eq!(below(&entry).err(), Some(Stale::Gone));
    }

    #[test]
    fn a_refusal_says_gone_only_of_what_is_no_more_and_has_nothing_in_its_place() {
        let (_folder, volume, inode) = here();
        let path = volume.mount.join("a");
        let entry = identify(&volume, inode, Some(&path)).expect("it is there");
        let says = |error, entry: &File| {
            refused(io::Error::from_raw_os_error(error), entry).map(|said| said.expect_err("it is refused"))
        };
        assert!(says(libc::EMFILE, &entry).is_err(), "no fault of the file");
        assert_eq!(says(libc::ESTALE, &entry).ok(), Some(Stale::Generation), "its name is another's");
        assert_eq!(says(libc::EACCES, &entry).ok(), Some(Stale::Denied));
        assert_eq!(says(libc::ENAMETOOLONG, &entry).ok(), Some(Stale::Unnamed));
        let nameless = File { path: PathBuf::new(), handle: None, ..entry.clone() };
        assert_eq!(open(&volume, &nameless).err(), Some(Stale::Unnamed), "no number opens anything here");
        assert_eq!(says(libc::ESTALE, &nameless).ok(), Some(Stale::Gone));
        fs::remove_file(&path).expect("it is there");
        assert_eq!(says(libc::ESTALE, &entry).ok(), Some(Stale::Gone));
        assert_eq!(says(libc::ENOENT, &entry).ok(), Some(Stale::Gone));
    }

    #[test]
    fn a_file_in_the_place_of_one_that_a_handle_names_is_another() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let Some(volume) = Volumes::now().holding(root.path()).filter(Volume::finds_by_inode) else { return };
        let path = root.path().join("a");
        fs::write(&path, vec![1; 10_000]).expect("room on disk");
        let inode = fs::metadata(&path).expect("just written").ino();
        let entry = identify(&volume, inode, Some(&path)).expect("it is there");
        fs::write(root.path().join("b"), vec![1; 10_000]).expect("room on disk");
        fs::rename(root.path().join("b"), &path).expect("beside it");
        assert_eq!(open(&volume, &entry).err(), Some(Stale::Generation), "by handle, or by path");
        fs::remove_file(&path).expect("it is there");
        assert_eq!(open(&volume, &entry).err(), Some(Stale::Gone));
    }

    #[test]
    fn the_generation_that_a_handle_of_ext4_holds_is_the_one_that_an_open_file_tells() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let Some(volume) = Volumes::now().holding(root.path()).filter(Volume::finds_by_inode) else { return };
        let file = tempfile::tempfile_in(&root).expect("room on disk");
        let handle = sys::handle_of(file.as_fd()).expect("ext4 has them");
        assert_eq!(generation_in(&volume, &handle), Some(sys::generation(file.as_fd())));
        assert_eq!(generation_in(&Volume { kind: "xfs".into(), ..volume }, &handle), None);
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_is_not_opened() {
        let (root, volume, inode) = here();
        let path = root.path().join("a");
        let mut entry = identify(&volume, inode, Some(&path)).expect("it is there");
        entry.handle = None;
        fs::remove_file(&path).expect("it is there");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a folder of ours");
        entry.inode = fs::symlink_metadata(&path).expect("just made").ino();
        // Opening it to read would wait for a writer for ever.
        assert_eq!(open(&volume, &entry).err(), Some(Stale::Generation));
    }

    #[test]
    fn pages_of_a_block_device_are_those_of_the_file_system_on_it() {
        let (_root, volume, _) = here();
        let device = DeviceNumber::new(7, 3).expect("fits");
        let volume =
            Volume { device, kind: "ext4".into(), block_device: Some("/dev/loop3".into()), ..volume };
        let volumes = Volumes(vec![volume.clone()]);
        let page = |major, inode| FileId { major, minor: 5, inode };
        assert_eq!(volumes.of_block_device(page(0, u64::from(device.0))), Some(&volume));
        assert_eq!(volumes.of_block_device(page(0, 99)), None, "another device");
        assert_eq!(volumes.of_block_device(page(7, u64::from(device.0))), None, "a file of a file system");
    }
}
