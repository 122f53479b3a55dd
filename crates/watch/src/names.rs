//! Which path an inode has.
//!
//! Tracepoints name a file by device and inode. Paths come from three places, each when it is at hand: the kernel's own
//! record of a mapped file; the open files of a process that has just read (`/proc/PID/fd`); and, when the command has
//! ended, a walk of the folders in question, which reads folders only (an entry's inode stands in it). Devices are those of
//! the kernel: `stat` shows other numbers on btrfs, so a folder's device is that of its mount in `/proc/self/mountinfo`.

use crate::layers;
use forerun_trace::assemble::FileId;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Most entries of folders that a walk looks at: a large server's file system.
const ENTRIES_MAX: u64 = 100_000_000;
/// Open files of one process that are looked at.
const OPEN_MAX: usize = 4096;

/// Bytes of the list of mappings of one process that are looked at.
const MAPS_MAX: u64 = 1 << 20;

/// File systems of other machines. All whose names begin with `fuse` are programs', those of a desktop too, which may stand still like any.
const OTHERS: [&str; 12] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "afs", "lustre", "glusterfs", "beegfs", "gpfs"];

/// What the kernel knows of a file without asking anybody for it.
///
/// # Errors
/// What the system said.
pub(crate) fn known(path: &Path) -> io::Result<Statx> {
    let what = StatxFlags::INO | StatxFlags::TYPE | StatxFlags::MNT_ID;
    Ok(statx(CWD, path, AtFlags::STATX_DONT_SYNC, what)?)
}

/// Whether to open a file might take for ever, since a program or another machine has it.
pub(crate) fn asks_others(about: &Statx) -> bool {
    // Those have no device.
    about.stx_dev_major == 0 && Mounts::of_this_process().asks_others(about)
}

/// One line of `mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The file system's device, as tracepoints print it.
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) at: PathBuf,
    /// `ext4`, say.
    pub(crate) kind: String,
    /// By which `statx` names it.
    id: u64,
    /// Number of the subvolume of a btrfs.
    subvolume: Option<u64>,
    /// Of an overlay, the uppermost first.
    layers: Vec<PathBuf>,
}

/// The mounts of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts(Vec<Mount>);

impl Mounts {
    /// As they are now; none where `/proc` is not there.
    pub(crate) fn of_this_process() -> Self {
        Self::parse(fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Of the bytes of a list: places may have names that are no text.
    pub(crate) fn parse(list: impl AsRef<[u8]>) -> Self {
        let mount = |line: &[u8]| {
            let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
            let text = |at: usize| std::str::from_utf8(fields.get(at)?).ok();
            let (major, minor) = text(2)?.split_once(':')?;
            // Behind the options of the mount come fields that there need not be, and a dash.
            let dash = 6 + fields.get(6..)?.iter().position(|field| *field == b"-")?;
            let mut options = text(dash + 3).unwrap_or_default().split(',');
            Some(Mount {
                id: text(0)?.parse().ok()?,
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
                at: unescaped(fields[4]).into(),
                kind: text(dash + 1)?.to_owned(),
                layers: match text(dash + 1)? {
                    layers::KIND => {
                        // Of a folder of it that is mounted by itself.
                        let root = PathBuf::from(unescaped(fields[3]));
                        let within = root.strip_prefix("/").ok()?;
                        let all = layers::layers(unescaped(fields.get(dash + 3)?).as_bytes());
                        all.iter().map(|layer| layer.join(within)).collect()
                    }
                    _ => Vec::new(),
                },
                subvolume: options.find_map(|option| option.strip_prefix("subvolid=")?.parse().ok()),
            })
        };
        Self(list.as_ref().split(|&byte| byte == b'\n').filter_map(mount).collect())
    }

    /// All of them, the outer before the inner.
    pub(crate) fn all(&self) -> &[Mount] {
        &self.0
    }

    /// The device of the file system that a folder lies in: of the last mount among the longest that hold it.
    pub(crate) fn device(&self, folder: &Path) -> Option<(u32, u32)> {
        self.holding(folder).map(|mount| (mount.major, mount.minor))
    }

    /// Where the overlay is mounted that a file lies in, and its layers.
    pub(crate) fn overlay(&self, file: &Path) -> Option<(&Path, &[PathBuf])> {
        let mount = self.holding(file).filter(|mount| mount.kind == layers::KIND)?;
        Some((&mount.at, &mount.layers))
    }

    /// The kind of that file system.
    pub(crate) fn kind(&self, folder: &Path) -> Option<&str> {
        self.holding(folder).map(|mount| mount.kind.as_str())
    }

    fn holding(&self, folder: &Path) -> Option<&Mount> {
        let holding = self.0.iter().filter(|mount| folder.starts_with(&mount.at));
        holding.max_by_key(|mount| mount.at.as_os_str().len())
    }

    /// Whether a file may lie with a program or another machine, which may not answer: then it is not opened here. Of mounts that this process does not
    /// see, those without a device are taken for such.
    fn asks_others(&self, about: &Statx) -> bool {
        let mount = self.0.iter().find(|mount| mount.id == about.stx_mnt_id);
        mount.map_or(about.stx_dev_major == 0, |mount| {
            mount.kind.starts_with("fuse") || OTHERS.contains(&mount.kind.as_str())
        })
    }

    /// Numbers of the subvolumes of a device that are mounted, and one place of each.
    pub(crate) fn subvolumes(&self, (major, minor): (u32, u32)) -> BTreeMap<u64, &Path> {
        let of = |mount: &&Mount| (mount.major, mount.minor) == (major, minor);
        self.0.iter().filter(of).filter_map(|mount| Some((mount.subvolume?, mount.at.as_path()))).collect()
    }

    /// Where a device is mounted.
    fn places(&self, major: u32, minor: u32) -> impl Iterator<Item = &Path> {
        let of = move |mount: &&Mount| mount.major == major && mount.minor == minor;
        self.0.iter().filter(of).map(|mount| mount.at.as_path())
    }
}

/// `\040` and its kin as the bytes they stand for.
fn unescaped(name: &[u8]) -> OsString {
    let mut parts = name.split(|&byte| byte == b'\\');
    let mut plain = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = part.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                plain.extend_from_slice(&part[3..]);
            }
            None => {
                plain.push(b'\\');
                plain.extend_from_slice(part);
            }
        }
    }
    OsString::from_vec(plain)
}

/// The path of an open file of a process, if it is one of `wanted`; all of those found.
pub(crate) fn open_files(process: u32, wanted: &BTreeSet<FileId>) -> Vec<(FileId, PathBuf)> {
    let Ok(folder) = fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in folder.flatten().take(OPEN_MAX) {
        // Who has a file of a server that does not answer is named all the same.
        let Ok(data) = known(&entry.path()) else { continue };
        let is_file = FileType::from_raw_mode(data.stx_mode.into()) == FileType::RegularFile;
        // The device may have another number here (btrfs), so the inode decides among the few that are wanted.
        if let Some(&file) = wanted.iter().find(|file| file.inode == data.stx_ino && is_file)
            && let Ok(path) = fs::read_link(entry.path())
            && path.is_absolute()
        {
            let name = path.as_os_str().as_bytes();
            let name = name.strip_suffix(b" (deleted)").unwrap_or(name);
            found.push((file, OsStr::from_bytes(name).into()));
        }
    }
    found
}

/// Whether a process has mapped a file, as far as its list of mappings is looked at.
pub(crate) fn is_mapped(process: u32, file: FileId) -> bool {
    let Ok(maps) = fs::File::open(format!("/proc/{process}/maps")) else { return false };
    let mut text = Vec::new();
    let _ = maps.take(MAPS_MAX).read_to_end(&mut text);
    // Names of files need not be text, and are not looked at.
    has_mapping(&String::from_utf8_lossy(&text), file)
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

/// Paths of files by whose numbers there may be several: of those in the subvolumes of a btrfs, which each have numbers of their own, the one of
/// which `is_read` says that it was read. None where that is said of several.
pub(crate) fn walk_subvolumes(
    wanted: &BTreeSet<FileId>,
    mounts: &Mounts,
    is_read: &dyn Fn(&Path) -> bool,
) -> BTreeMap<FileId, PathBuf> {
    // By the file that it is: one may be below several mounts.
    let mut found: BTreeMap<FileId, BTreeMap<(u32, u32), PathBuf>> = BTreeMap::new();
    let devices: BTreeSet<(u32, u32)> = wanted.iter().map(|file| (file.major, file.minor)).collect();
    let mut left = ENTRIES_MAX;
    for (major, minor) in devices {
        for place in mounts.places(major, minor) {
            let Ok(mount) = known(place).map(|about| about.stx_mnt_id) else { continue };
            let mut folders = vec![place.to_owned()];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                    left = left.saturating_sub(1);
                    let Ok(kind) = entry.file_type() else { continue };
                    let within = || known(&entry.path()).ok().filter(|about| about.stx_mnt_id == mount);
                    let file = FileId { major, minor, inode: entry.ino() };
                    if left == 0 || !(kind.is_dir() || kind.is_file() && wanted.contains(&file)) {
                        continue;
                    }
                    match within() {
                        Some(_) if kind.is_dir() => folders.push(entry.path()),
                        Some(about) if is_read(&entry.path()) => {
                            let subvolume = (about.stx_dev_major, about.stx_dev_minor);
                            found.entry(file).or_default().entry(subvolume).or_insert_with(|| entry.path());
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    let only = |(file, paths): (FileId, BTreeMap<_, PathBuf>)| {
        let mut paths = paths.into_values();
        let first = paths.next()?;
        paths.next().is_none().then_some((file, first))
    };
    found.into_iter().filter_map(only).collect()
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
    fn files_of_programs_and_other_machines_are_known_by_their_mount() {
        let mounts = Mounts::parse(
            "22 1 0:30 / / rw - btrfs /dev/sda rw\n30 22 0:40 / /srv rw - fuse.sshfs x rw\n31 22 0:41 / /n rw - nfs4 y:/ rw\n",
        );
        let own = known(Path::new("/proc/self/exe")).expect("this program");
        let of = |mount, major| {
            let mut about = own;
            (about.stx_mnt_id, about.stx_dev_major) = (mount, major);
            mounts.asks_others(&about)
        };
        assert_eq!([of(22, 0), of(30, 0), of(31, 0), of(99, 0), of(99, 8)], [false, true, true, true, false]);
    }

    #[test]
    fn a_folder_belongs_to_the_innermost_mount() {
        let text = "22 1 254:0 / / rw - ext4 /dev/root rw\n\
                    30 22 0:40 /sub /srv/a\\040b rw shared:1 - btrfs /dev/sdb rw,space_cache=v2,subvolid=257,subvol=/sub\nbroken\n";
        let mounts = Mounts::parse(text);
        assert_eq!(mounts.device(Path::new("/srv/a b/c")), Some((0, 40)));
        assert_eq!(mounts.device(Path::new("/srv/a")), Some((254, 0)));
        assert_eq!(mounts.places(0, 40).collect::<Vec<_>>(), [Path::new("/srv/a b")]);
        assert_eq!(mounts.subvolumes((0, 40)), BTreeMap::from([(257, Path::new("/srv/a b"))]));
        assert!(mounts.subvolumes((254, 0)).is_empty());
    }

    #[test]
    fn a_place_whose_name_is_no_text_hides_no_other() {
        let list = b"22 1 254:0 / / rw - ext4 /dev/root rw\n23 22 0:40 / /srv/a\xff\\040b rw master:1 - tmpfs none\xfe rw\n24 22 254:3 / /last rw - xfs x rw\n";
        let mounts = Mounts::parse(list);
        let place = OsStr::from_bytes(b"/srv/a\xff b");
        assert_eq!(mounts.all().len(), 3, "{mounts:?}");
        assert_eq!(
            (mounts.device(Path::new(place)), mounts.kind(Path::new("/last/x"))),
            (Some((0, 40)), Some("xfs"))
        );
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(OsStr::from_bytes(b"b\xffd"));
        fs::write(&path, b"1").expect("room on disk");
        let file = fs::File::open(&path).expect("just written");
        let inode = file.metadata().expect("open").ino();
        let wanted = FileId { major: 0, minor: 0, inode };
        assert_eq!(open_files(std::process::id(), &BTreeSet::from([wanted])), [(wanted, path)]);
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
