//! What was loaded from file systems that are not read ahead of: their files cannot be opened by what events tell of them, or are not to be.
//!
//! Squashfs, FUSE and those of other machines, what is mounted in another namespace alone, and what was mounted while the run went on. What is
//! only written comes into memory as well; it is never touched as what is read is, so the smaller of both counts.

use crate::bio::DeviceNumber;
use crate::names::Mounts;
use crate::volumes::{self, Volumes};
use forerun_trace::assemble::FileId;
use std::collections::BTreeMap;
use std::fs;

/// Files without a device that are told apart: a block device is one of them.
const FILES_MAX: usize = 4_096;

/// Pages that a run loaded of one file system that is not read ahead of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unnamed {
    /// Which, in words.
    pub what: String,
    /// How many.
    pub pages: u64,
}

/// Pages that came into memory, and that were asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    loaded: u64,
    touched: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(BTreeMap<FileId, Pages>);

impl Elsewhere {
    /// Pages of a file come into memory.
    pub(crate) fn loaded(&mut self, file: FileId, pages: u64) {
        self.of(file).loaded += pages;
    }

    /// Pages of a file are asked for.
    pub(crate) fn touched(&mut self, file: FileId, pages: u64) {
        self.of(file).touched += pages;
    }

    fn of(&mut self, file: FileId) -> &mut Pages {
        let is_told_apart = file.major == 0 && (self.0.contains_key(&file) || self.0.len() < FILES_MAX);
        self.0.entry(if is_told_apart { file } else { FileId { inode: 0, ..file } }).or_default()
    }

    /// By file system, most first. Where touches are not `told` all that came counts.
    pub(crate) fn list(&self, volumes: &Volumes, told: bool) -> Vec<Unnamed> {
        self.listed(volumes, told, &Mounts::of_this_process())
    }

    fn listed(&self, volumes: &Volumes, told: bool, mounts: &Mounts) -> Vec<Unnamed> {
        let (mut files, mut devices) = (BTreeMap::<_, Pages>::new(), BTreeMap::<_, Pages>::new());
        for (file, pages) in &self.0 {
            let device = block_device(*file, mounts);
            let sums = match device {
                Some(device) => devices.entry(device),
                None => files.entry((file.major, file.minor)),
            };
            let sums = sums.or_default();
            sums.loaded += pages.loaded;
            sums.touched += pages.touched;
        }
        // Metadata, of file systems that are known or are told of anyway.
        devices.retain(|&(major, minor), _| {
            volumes.by_device(major, minor).is_none() && !files.contains_key(&(major, minor))
        });
        let least = |pages: Pages| if told { pages.loaded.min(pages.touched) } else { pages.loaded };
        let of_files = files.into_iter().map(|(device, pages)| (name(device, mounts), least(pages)));
        let of_devices = devices.into_iter().map(|(device, pages)| (own_name(device), least(pages)));
        let all = of_files.chain(of_devices).map(|(what, pages)| Unnamed { what, pages });
        let mut all: Vec<Unnamed> = all.filter(|unnamed| unnamed.pages > 0).collect();
        all.sort_by_key(|unnamed| std::cmp::Reverse(unnamed.pages));
        all
    }
}

/// The device whose own pages a file is: those have a file system of their own, which is not mounted.
fn block_device(file: FileId, mounts: &Mounts) -> Option<(u32, u32)> {
    let is_mounted = || mounts.all().iter().any(|mount| (mount.major, mount.minor) == (0, file.minor));
    if file.major != 0 || file.inode == 0 || is_mounted() {
        return None;
    }
    let device = DeviceNumber(u32::try_from(file.inode).ok()?);
    let device = (device.major(), device.minor());
    path(device).map(|_| device)
}

/// Where a block device is.
fn path((major, minor): (u32, u32)) -> Option<String> {
    let about = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).ok()?;
    about.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| format!("/dev/{name}"))
}

fn own_name(device: (u32, u32)) -> String {
    path(device).map_or_else(|| "a device that is gone".into(), |path| format!("{path} itself"))
}

/// A file system in words.
fn name(device: (u32, u32), mounts: &Mounts) -> String {
    let mount = mounts.all().iter().find(|mount| (mount.major, mount.minor) == device);
    // A FUSE may have any name.
    let kind = mount.map(|mount| mount.kind.replace(|letter: char| letter.is_control(), "?"));
    match (kind, path(device)) {
        (Some(kind), Some(path)) if volumes::is_kind_read_ahead(&kind) => {
            format!("{kind} on {path}, mounted meanwhile")
        }
        (Some(kind), Some(path)) => format!("{kind} on {path}"),
        (Some(kind), None) => kind,
        (None, Some(path)) => format!("{path}, not mounted here"),
        (None, None) => format!("device {}:{}, not mounted here", device.0, device.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(major: u32, minor: u32, inode: u64) -> FileId {
        FileId { major, minor, inode }
    }

    #[test]
    fn what_is_loaded_and_read_counts_by_file_system_and_what_is_only_written_does_not() {
        let text = "31 1 0:77 / /f rw - fuse.odd\u{1b}[1m x rw\n32 1 0:78 / /n rw - nfs4 x rw\n";
        let mounts = Mounts::parse(text);
        let mut elsewhere = Elsewhere::default();
        for inode in 1..=3 {
            elsewhere.loaded(file(0, 77, inode), 10);
            elsewhere.touched(file(0, 77, inode), 8);
            elsewhere.loaded(file(4_000, 5, inode), 9);
            elsewhere.touched(file(4_000, 5, inode), 100);
        }
        elsewhere.loaded(file(0, 78, 9), 500);
        let list = |told| {
            let list = elsewhere.listed(&Volumes::default(), told, &mounts).into_iter();
            list.map(|unnamed| (unnamed.what, unnamed.pages)).collect::<Vec<_>>()
        };
        let [fuse, away, nfs] = ["fuse.odd?[1m", "device 4000:5, not mounted here", "nfs4"].map(String::from);
        assert_eq!(list(true), [(away.clone(), 27), (fuse.clone(), 24)]);
        assert_eq!(list(false), [(nfs, 500), (fuse, 30), (away, 27)]);
    }

    #[test]
    fn of_many_files_without_a_device_the_last_are_one() {
        let mut elsewhere = Elsewhere::default();
        for inode in 1..3 * FILES_MAX as u64 {
            elsewhere.loaded(file(0, 77, inode), 1);
            elsewhere.touched(file(0, 77, inode), 1);
        }
        assert_eq!(elsewhere.0.len(), FILES_MAX + 1);
        let list = elsewhere.listed(&Volumes::default(), true, &Mounts::default());
        assert_eq!(list.iter().map(|unnamed| unnamed.pages).sum::<u64>(), 3 * FILES_MAX as u64 - 1);
    }
}
