//! Files of a btrfs by their number, without a walk over all of it.
//!
//! Each subvolume counts its inodes anew, and an event tells the number alone. So a file is looked up by handle in each subvolume
//! (`FILEID_BTRFS_WITHOUT_PARENT`: number, subvolume, and generation 0, which is any), and the one is taken of which pages are in memory, since it was
//! just read. Which subvolumes there are the file system tells whoever administers it (`CAP_SYS_ADMIN`); to others those are known that are mounted by
//! themselves. Where there are more than [`SUBVOLUMES_MAX`] it is those as well, since each look may have to read: then a walk has to tell of what is
//! found in none of them, or in several (`names::walk_subvolumes`), and a namesake that is in memory too would be taken for a file in one of the rest.

use crate::names::Mounts;
use crate::volumes::{self, FIRST_FILE};
use crate::{snapshot, sys};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// `FILEID_BTRFS_WITHOUT_PARENT`.
const HANDLE_BTRFS: i32 = 0x4d;
/// The one that each btrfs has (`BTRFS_FS_TREE_OBJECTID`).
const TOP: u64 = 5;
/// Files that are looked up like this where that may not be all of them: each takes some ten calls of the kernel, and of many a walk is quicker.
const FILES_MAX: usize = 1_024;
/// Subvolumes of a file system in which they are looked up.
const SUBVOLUMES_MAX: usize = 8;

/// The subvolumes of one file system. Their folders are open for as long as this is kept, which keeps it from being unmounted.
pub(crate) struct Subvolumes {
    /// Those that are mounted by themselves, and where.
    mounted: Vec<(u64, OwnedFd)>,
    /// Others.
    inner: Vec<u64>,
    /// There are no more.
    all: bool,
}

impl Subvolumes {
    /// Those of a device.
    pub(crate) fn of(device: (u32, u32), mounts: &Mounts) -> Self {
        let open = |at: &Path| sys::open(at, libc::O_RDONLY | libc::O_DIRECTORY).ok();
        let mounted = mounts.subvolumes(device).into_iter().take(SUBVOLUMES_MAX);
        let mounted: Vec<_> = mounted.filter_map(|(number, at)| Some((number, open(at)?))).collect();
        // Whoever may not open by handle finds nothing, in however many.
        let mut of = Self { mounted, inner: Vec::new(), all: false };
        let may = of.mounted.first().filter(|_| of.are_open());
        let told = may.and_then(|(_, root)| sys::btrfs_subvolumes(root.as_fd(), SUBVOLUMES_MAX).ok());
        // The top one is one of them, and not told.
        let told = told.filter(|told| told.len() < SUBVOLUMES_MAX);
        of.all = told.is_some();
        let is_mounted = |number: &u64| of.mounted.iter().any(|(mounted, _)| mounted == number);
        let inner = told.into_iter().flat_map(|told| std::iter::once(TOP).chain(told));
        of.inner = inner.filter(|number| !is_mounted(number)).collect();
        of
    }

    /// Whether files are found by their numbers.
    pub(crate) fn are_open(&self) -> bool {
        self.mounted.first().is_some_and(|(number, root)| by_number(*number, root, FIRST_FILE).is_some())
    }

    /// The path of the regular file with this number of which pages are in memory, if it is one.
    pub(crate) fn path(&self, inode: u64) -> Option<PathBuf> {
        self.only(inode).map(|(_, path)| path)
    }

    /// The one in which that file lies.
    pub(crate) fn holding(&self, inode: u64) -> Option<Subvolume<'_>> {
        self.only(inode).map(|(subvolume, _)| subvolume)
    }

    fn only<'a>(&'a self, inode: u64) -> Option<(Subvolume<'a>, PathBuf)> {
        let within = |subvolume: Subvolume<'a>| subvolume.path(inode).map(|path| (subvolume, path));
        let mounted = self.mounted.iter().map(|(number, root)| within(Subvolume { number: *number, root }));
        // Of one that is not mounted by itself the path leads through the one in which it lies.
        let through = |&number| self.mounted.iter().find_map(|(_, root)| within(Subvolume { number, root }));
        let mut here = mounted.chain(self.inner.iter().map(through)).flatten();
        here.next().filter(|_| here.next().is_none())
    }
}

/// One of them, and a folder below which its files have their paths.
#[derive(Clone, Copy)]
pub(crate) struct Subvolume<'a> {
    number: u64,
    root: &'a OwnedFd,
}

impl Subvolume<'_> {
    /// The regular file with this number in it, to be read.
    pub(crate) fn open(&self, inode: u64) -> Option<OwnedFd> {
        volumes::to_read(&self.place(inode)?).ok()
    }

    fn place(&self, inode: u64) -> Option<OwnedFd> {
        let place = fs::File::from(by_number(self.number, self.root, inode)?);
        let is_it = place.metadata().is_ok_and(|data| data.is_file() && data.ino() == inode);
        is_it.then(|| place.into())
    }

    /// Its path, if pages of it are in memory.
    fn path(&self, inode: u64) -> Option<PathBuf> {
        let place = self.place(inode)?;
        let path = fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
        // A file that is nowhere in the tree, or no more, has no path that another could open.
        let which = |data: &fs::Metadata| (data.dev(), data.ino());
        let own = fs::File::from(place.try_clone().ok()?).metadata().ok()?;
        let is_there = fs::symlink_metadata(&path).is_ok_and(|there| which(&there) == which(&own));
        (is_there && is_in_memory(&place, &path)).then_some(path)
    }
}

/// Paths of those of `wanted` that can be told like this, and those of which a walk might tell more.
pub(crate) fn find(
    wanted: &BTreeSet<FileId>,
    mounts: &Mounts,
) -> (BTreeMap<FileId, PathBuf>, BTreeSet<FileId>) {
    let devices: BTreeSet<(u32, u32)> = wanted.iter().map(|file| (file.major, file.minor)).collect();
    let (mut found, mut left) = (BTreeMap::new(), BTreeSet::new());
    for device in devices {
        let subvolumes = Subvolumes::of(device, mounts);
        let of_it = wanted.iter().filter(|file| (file.major, file.minor) == device);
        if !subvolumes.all && of_it.clone().count() > FILES_MAX {
            left.extend(of_it.copied());
            continue;
        }
        for file in of_it {
            match subvolumes.path(file.inode) {
                Some(path) => drop(found.insert(*file, path)),
                None if subvolumes.all => {}
                None => drop(left.insert(*file)),
            }
        }
    }
    (found, left)
}

/// Whatever has this number in a subvolume: the least of all is its folder.
fn by_number(subvolume: u64, root: &OwnedFd, inode: u64) -> Option<OwnedFd> {
    let handle = [&inode.to_ne_bytes()[..], &subvolume.to_ne_bytes(), &[0; 4]].concat();
    sys::open_by_handle(root.as_fd(), HANDLE_BTRFS, &handle, libc::O_PATH).ok()
}

/// Whether pages of a file are in memory: by one call, where the kernel has it.
fn is_in_memory(place: &OwnedFd, path: &Path) -> bool {
    let here = volumes::to_read(place).and_then(|open| sys::cached(open.as_fd(), 0, u64::MAX));
    here.map_or_else(|_| snapshot::is_in_memory(path), |pages| pages > 0)
}
