//! Files of a btrfs by their number, in the subvolumes that are mounted, without a walk over all of it.
//!
//! Each subvolume counts its inodes anew, and an event tells the number alone. So a file is looked up by handle in each subvolume that is mounted
//! (`FILEID_BTRFS_WITHOUT_PARENT`: number, subvolume, and generation 0, which is any), and the one is taken of which pages are in memory, since it was
//! just read. Where that is none, or several, a walk has to tell (`names::walk_subvolumes`). Of a file in a subvolume that is not mounted by itself a
//! namesake that is in memory too would be taken: what is read ahead for it then is read for nothing.

use crate::names::Mounts;
use crate::{snapshot, sys};
use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// `FILEID_BTRFS_WITHOUT_PARENT`.
const HANDLE_BTRFS: i32 = 0x4d;
/// Files that are looked up like this: each takes some ten calls of the kernel for each subvolume, and of many a walk is quicker.
const FILES_MAX: usize = 1_024;
/// Subvolumes of a file system in which they are looked up.
const SUBVOLUMES_MAX: usize = 8;

/// Paths of those of `wanted` that can be told like this.
pub(crate) fn find(wanted: &BTreeSet<FileId>, mounts: &Mounts) -> BTreeMap<FileId, PathBuf> {
    if wanted.len() > FILES_MAX {
        return BTreeMap::new();
    }
    let devices: BTreeSet<(u32, u32)> = wanted.iter().map(|file| (file.major, file.minor)).collect();
    let mut found = BTreeMap::new();
    for device in devices {
        let open = |at: &Path| sys::open(at, libc::O_RDONLY | libc::O_DIRECTORY).ok();
        let mounted = mounts.subvolumes(device);
        let roots: Vec<(u64, OwnedFd)> = mounted
            .into_iter()
            .take(SUBVOLUMES_MAX)
            .filter_map(|(number, at)| Some((number, open(at)?)))
            .collect();
        for file in wanted.iter().filter(|file| (file.major, file.minor) == device) {
            let mut here = roots.iter().filter_map(|(number, root)| within(*number, root, file.inode));
            if let (Some(path), None) = (here.next(), here.next()) {
                found.insert(*file, path);
            }
        }
    }
    found
}

/// The path of a regular file with this number in a subvolume, if pages of it are in memory.
fn within(subvolume: u64, root: &OwnedFd, inode: u64) -> Option<PathBuf> {
    let handle = [&inode.to_ne_bytes()[..], &subvolume.to_ne_bytes(), &[0; 4]].concat();
    let place = fs::File::from(sys::open_by_handle(root.as_fd(), HANDLE_BTRFS, &handle, libc::O_PATH).ok()?);
    if !place.metadata().is_ok_and(|data| data.is_file() && data.ino() == inode) {
        return None;
    }
    let path = fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
    // A file that is nowhere in the tree, or no more, has no path that another could open.
    let is_there = fs::symlink_metadata(&path).is_ok_and(|there| there.is_file() && there.ino() == inode);
    (is_there && snapshot::is_in_memory(&path)).then_some(path)
}
