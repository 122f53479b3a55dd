//! Which path an inode has.
//!
//! Tracepoints name a file by device and inode. Paths come from three places, each when it is at hand: the kernel's own
//! record of a mapped file; the open files of a process that has just read (`/proc/PID/fd`); and, when the command has
//! ended, a walk of the folders in question, which reads folders only (an entry's inode stands in it). Devices are those of
//! the kernel: `stat` shows other numbers on btrfs, so a folder's device is that of its mount in `/proc/self/mountinfo`.

use forerun_trace::assemble::FileId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most entries of folders that a walk looks at: a large server's file system.
const ENTRIES_MAX: u64 = 100_000_000;
/// Open files of one process that are looked at.
const OPEN_MAX: usize = 4096;

/// Bytes of the list of mappings of one process that are looked at.
const MAPS_MAX: u64 = 1 << 20;

/// One line of `mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The file system's device, as tracepoints print it.
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) at: PathBuf,
    /// `ext4`, say.
    pub(crate) kind: String,
}

/// The mounts of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

impl Mounts {
    /// As they are now; none where `/proc` is not there.
    pub(crate) fn of_this_process() -> Self {
        Self::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mount = |line: &str| {
            let mut fields = line.split(' ').skip(2);
            let (major, minor) = fields.next()?.split_once(':')?;
            let at = unescaped(fields.nth(1)?).into();
            let kind = line.split_once(" - ")?.1.split(' ').next()?.to_owned();
            Some(Mount { major: major.parse().ok()?, minor: minor.parse().ok()?, at, kind })
        };
        Self(text.lines().filter_map(mount).collect())
    }

    /// All of them, the outer before the inner.
    pub(crate) fn all(&self) -> &[Mount] {
        &self.0
    }

    /// The device of the file system that a folder lies in: of the last mount among the longest that hold it.
    fn device(&self, folder: &Path) -> Option<(u32, u32)> {
        let holding = self.0.iter().filter(|mount| folder.starts_with(&mount.at));
        let mount = holding.max_by_key(|mount| mount.at.as_os_str().len())?;
        Some((mount.major, mount.minor))
    }

    /// Where a device is mounted.
    fn places(&self, major: u32, minor: u32) -> impl Iterator<Item = &Path> {
        let of = move |mount: &&Mount| mount.major == major && mount.minor == minor;
        self.0.iter().filter(of).map(|mount| mount.at.as_path())
    }
}

/// `\040` and its kin as the characters they stand for.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

/// The path of an open file of a process, if it is one of `wanted`; all of those found.
pub(crate) fn open_files(process: u32, wanted: &BTreeSet<FileId>) -> Vec<(FileId, String)> {
    let Ok(folder) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in folder.flatten().take(OPEN_MAX) {
        let Ok(data) = fs::metadata(entry.path()) else { continue };
        // The device may have another number here (btrfs), so the inode decides among the few that are wanted.
        if let Some(&file) = wanted.iter().find(|file| file.inode == data.ino() && data.is_file())
            && let Ok(path) = fs::read_link(entry.path())
            && let Some(path) = path.to_str().filter(|path| path.starts_with('/'))
        {
            found.push((file, path.trim_end_matches(" (deleted)").to_owned()));
        }
    }
    found
}

/// Whether a process has mapped a file, as far as its list of mappings is looked at.
pub(crate) fn is_mapped(process: u32, file: FileId) -> bool {
    let Ok(maps) = fs::File::open(format!("/proc/{process}/maps")) else { return false };
    let mut text = String::new();
    // What is cut in the midst of a letter is not looked at.
    let _ = maps.take(MAPS_MAX).read_to_string(&mut text);
    has_mapping(&text, file)
}

/// Whether the text of a list of mappings has one of a file.
fn has_mapping(maps: &str, file: FileId) -> bool {
    let is = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(3);
        let (major, minor) = fields.next()?.split_once(':')?;
        let device = [major, minor].map(|number| u32::from_str_radix(number, 16).ok());
        Some(device == [Some(file.major), Some(file.minor)] && fields.next()?.parse() == Ok(file.inode))
    };
    maps.lines().any(|line| is(line).unwrap_or(false))
}

/// Walks `folders`, or where there are none the mounts of the devices of `wanted`, and names what is wanted there;
/// with `everything`, whatever is there.
pub(crate) fn walk(
    folders: &[PathBuf],
    wanted: &BTreeSet<FileId>,
    mounts: &Mounts,
) -> BTreeMap<FileId, PathBuf> {
    let mut found = BTreeMap::new();
    let mut left = ENTRIES_MAX;
    if folders.is_empty() {
        let devices: BTreeSet<(u32, u32)> = wanted.iter().map(|file| (file.major, file.minor)).collect();
        for (major, minor) in devices {
            for place in mounts.places(major, minor) {
                let mine: BTreeSet<FileId> =
                    wanted.iter().filter(|f| (f.major, f.minor) == (major, minor)).copied().collect();
                walk_one(place, (major, minor), &mine, &mut left, &mut found);
            }
        }
    }
    for folder in folders {
        if let Some(device) = mounts.device(folder) {
            walk_one(folder, device, wanted, &mut left, &mut found);
        }
    }
    found
}

/// One tree, without the mounts in it; ends when nothing is wanted any more.
fn walk_one(
    root: &Path,
    (major, minor): (u32, u32),
    wanted: &BTreeSet<FileId>,
    left: &mut u64,
    found: &mut BTreeMap<FileId, PathBuf>,
) {
    let Ok(device) = fs::metadata(root).map(|data| data.dev()) else { return };
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        if wanted.iter().all(|file| found.contains_key(file)) {
            return;
        }
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            if *left == 0 {
                return;
            }
            *left -= 1;
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if fs::symlink_metadata(entry.path()).is_ok_and(|data| data.dev() == device) {
                    folders.push(entry.path());
                }
            } else if kind.is_file() {
                let file = FileId { major, minor, inode: entry.ino() };
                if wanted.contains(&file) {
                    found.entry(file).or_insert_with(|| entry.path());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_known_by_device_and_number_and_not_by_its_name() {
        let maps = "7f01000-7f02000 r--p 00000000 fe:01 77                         /srv/a b\n7f02000-7f03000 rw-p 00000000 00:00 0 \n";
        let file = FileId { major: 254, minor: 1, inode: 77 };
        assert!(has_mapping(maps, file));
        assert!(
            !has_mapping(maps, FileId { minor: 2, ..file })
                && !has_mapping(maps, FileId { inode: 7, ..file })
        );
        assert!(!has_mapping("", file) && !is_mapped(u32::MAX, file));
    }

    #[test]
    fn a_folder_belongs_to_the_innermost_mount() {
        let text = "22 1 254:0 / / rw - ext4 /dev/root rw\n\
                    30 22 0:40 /sub /srv/a\\040b rw shared:1 - btrfs /dev/sdb rw\nbroken\n";
        let mounts = Mounts::parse(text);
        assert_eq!(mounts.device(Path::new("/srv/a b/c")), Some((0, 40)));
        assert_eq!(mounts.device(Path::new("/srv/a")), Some((254, 0)));
        assert_eq!(mounts.places(0, 40).collect::<Vec<_>>(), [Path::new("/srv/a b")]);
    }

    #[test]
    fn a_walk_names_the_inodes_that_are_wanted_and_no_others() {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(root.path().join("sub")).expect("room on disk");
        let path = root.path().join("sub/wanted");
        fs::write(&path, b"1").expect("room on disk");
        fs::write(root.path().join("other"), b"2").expect("room on disk");
        let folder = root.path().canonicalize().expect("it is there");
        let mounts = Mounts::of_this_process();
        let (major, minor) = mounts.device(&folder).expect("some mount holds it");
        let file = FileId { major, minor, inode: fs::metadata(&path).expect("just written").ino() };
        let found = walk(std::slice::from_ref(&folder), &BTreeSet::from([file]), &mounts);
        assert_eq!(found, BTreeMap::from([(file, folder.join("sub/wanted"))]));
    }
}
