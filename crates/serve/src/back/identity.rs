//! Who a block device is, wherever and under whatever name it is plugged in.
//!
//! A journal of last week must not be brought home onto the disk that has last week's name. A file bears a mark of ours; a block
//! device has no room for one, so the journal says who it is, in the words of the kernel: the UUID of a device mapper or md device, the
//! worldwide name or the serial number of a disk, and of a partition those of its disk with its own UUID, or number and place. A name
//! like `/dev/sdb` or a number is nobody's own and never counts.
//!
//! What this cannot tell: two devices that say the same of themselves (a snapshot that has its origin's UUID, a virtual disk that was
//! copied, partitions of a copied disk), and a device that was used without its journal in between. The sums of the
//! device's first blocks are there for these (`open`).

use super::format::TEXT_MAX;
use std::fs::{File, read_link, read_to_string};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Where a superblock of md of version 1.2 lies on its members, and how it begins.
const MD_AT: u64 = 4096;
const MD_MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
/// Where in it the UUID of the array lies.
const MD_UUID: std::ops::Range<usize> = 16..32;
/// Most members of an array that are asked.
const MEMBERS_MAX: usize = 64;

/// Who a device says it is; none for a file, and for a device that says nothing.
pub(crate) fn identity(device: &File) -> Option<String> {
    let about = device.metadata().ok()?;
    if !about.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}"));
    of(&folder.canonicalize().ok()?, Path::new("/dev"))
}

/// One word of a device's folder in sysfs; blanks within become one, and what says nothing is nothing.
fn word(folder: &Path, name: &str) -> Option<String> {
    let mut text = String::new();
    File::open(folder.join(name)).ok()?.take(4096).read_to_string(&mut text).ok()?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = text.chars().any(|c| c.is_ascii_alphanumeric() && c != '0');
    (says && text != "none").then_some(text)
}

/// The same from its folder.
fn of(folder: &Path, dev: &Path) -> Option<String> {
    let found = if folder.join("partition").exists() { partition(folder)? } else { whole(folder, dev)? };
    // One that is cut short could be another's.
    (found.len() <= TEXT_MAX).then_some(found)
}

fn whole(folder: &Path, dev: &Path) -> Option<String> {
    let named = |key: &str, name: &str| Some(format!("{key}:{}", word(folder, name)?));
    named("dm", "dm/uuid")
        .or_else(|| md(folder, dev))
        .or_else(|| named("wwid", "wwid"))
        .or_else(|| named("wwid", "device/wwid"))
        .or_else(|| named("uuid", "uuid"))
        .or_else(|| named("serial", "serial"))
        .or_else(|| named("serial", "device/serial"))
        .or_else(|| loops(folder))
}

/// A partition: its disk, and which of it.
fn partition(folder: &Path) -> Option<String> {
    let disk = folder.parent()?;
    let whole = whole(disk, Path::new("/dev"))?;
    let event = read_to_string(folder.join("uevent")).unwrap_or_default();
    let uuid = event.lines().find_map(|line| line.strip_prefix("PARTUUID="));
    let place = || Some(format!("{}@{}", word(folder, "partition")?, word(folder, "start")?));
    Some(format!("{whole}/{}", uuid.map_or_else(place, |uuid| Some(uuid.to_owned()))?))
}

/// An array of md: its UUID as the kernel says it, or as its superblock on a member does.
fn md(folder: &Path, dev: &Path) -> Option<String> {
    let array = folder.join("md");
    if !array.exists() {
        return None;
    }
    if let Some(uuid) = word(&array, "uuid") {
        return Some(format!("md:{}", uuid.replace([':', '-'], "")));
    }
    let members = std::fs::read_dir(folder.join("slaves")).ok()?.flatten().take(MEMBERS_MAX);
    let mut members: Vec<PathBuf> = members.map(|member| dev.join(member.file_name())).collect();
    members.sort();
    let uuid = members.iter().find_map(|member| {
        let mut head = [0; 32];
        File::open(member).ok()?.read_exact_at(&mut head, MD_AT).ok()?;
        (head[..4] == MD_MAGIC)
            .then(|| head[MD_UUID].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    });
    Some(format!("md:{}", uuid?))
}

/// A loop device is its file: by file system and number, since names of files change.
fn loops(folder: &Path) -> Option<String> {
    let file = read_to_string(folder.join("loop/backing_file")).ok()?;
    let about = std::fs::metadata(file.trim_end_matches('\n')).ok()?;
    let offset = word(folder, "loop/offset").unwrap_or_else(|| "0".into());
    Some(format!("loop:{}:{}@{offset}", about.ino(), born(&about)?))
}

/// When a file was made: a number of a file is used again, and not at the same instant.
fn born(about: &std::fs::Metadata) -> Option<u128> {
    Some(about.created().ok()?.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?.as_nanos())
}

/// The whole disks under a device, by their folders' names: a journal on one of them is on the same disk.
pub(crate) fn disks_under(number: u64) -> Vec<String> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let folder = Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize();
    let (mut found, mut open) = (Vec::new(), folder.into_iter().collect::<Vec<_>>());
    while let Some(folder) = open.pop() {
        if folder.join("partition").exists() {
            open.extend(folder.parent().map(Path::to_path_buf));
            continue;
        }
        let below = std::fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        let below: Vec<PathBuf> = below
            .filter_map(|slave| read_link(slave.path()).ok().and_then(|_| slave.path().canonicalize().ok()))
            .collect();
        if below.is_empty() {
            found.extend(folder.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        open.extend(below);
        if found.len() > MEMBERS_MAX {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    /// A folder of sysfs, and one of devices, made up.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = root.path().join(name);
            create_dir_all(path.parent().expect("in the root")).expect("made");
            write(path, text).expect("written");
        }
        root
    }

    fn who(files: &[(&str, &str)], folder: &str) -> Option<String> {
        let root = tree(files);
        of(&root.path().join(folder), &root.path().join("dev"))
    }

    #[test]
    fn devices_say_who_they_are_by_what_stays_their_own() {
        let wwid = ("sda/device/wwid", "t10.ATA     ST4000  Z30\n");
        assert_eq!(who(&[wwid], "sda").expect("known"), "wwid:t10.ATA ST4000 Z30");
        assert_eq!(who(&[("vda/serial", "disk-7")], "vda").expect("known"), "serial:disk-7");
        let lvm = [("dm-0/dm/uuid", "LVM-abc\n"), ("dm-0/dm/name", "vg-lv\n")];
        assert_eq!(who(&lvm, "dm-0").expect("known"), "dm:LVM-abc");
        let md = [("md0/md/uuid", "0a1b2c3d-4e5f\n")];
        assert_eq!(who(&md, "md0").expect("known"), "md:0a1b2c3d4e5f");
    }

    #[test]
    fn a_partition_is_of_its_disk_and_one_of_them() {
        let disk = ("sda/wwid", "naa.5000\n");
        let uuid = ("sda/sda1/uevent", "DEVNAME=sda1\nPARTUUID=1122-33\n");
        let number = [("sda/sda1/partition", "1\n"), ("sda/sda1/start", "2048\n")];
        assert_eq!(
            who(&[disk, uuid, number[0], number[1]], "sda/sda1").expect("known"),
            "wwid:naa.5000/1122-33"
        );
        assert_eq!(who(&[disk, number[0], number[1]], "sda/sda1").expect("known"), "wwid:naa.5000/1@2048");
        assert_eq!(who(&number, "sda/sda1"), None, "a place on a disk that nobody knows");
    }

    #[test]
    fn an_array_of_md_whose_kernel_says_no_uuid_has_the_one_on_its_members() {
        let root = tree(&[("md0/md/level", "raid5\n"), ("md0/slaves/sdb/x", ""), ("md0/slaves/sdc/x", "")]);
        let mut head = vec![0; 8192];
        head[4096..4100].copy_from_slice(&MD_MAGIC);
        head[4112..4128].fill(0xab);
        create_dir_all(root.path().join("dev")).expect("made");
        // The first member is away, as of an array that is degraded.
        write(root.path().join("dev/sdc"), &head).expect("written");
        let who = of(&root.path().join("md0"), &root.path().join("dev"));
        assert_eq!(who.expect("known"), format!("md:{}", "ab".repeat(16)));
    }

    #[test]
    fn what_says_nothing_is_nobody() {
        assert_eq!(who(&[("sdb/size", "2048\n"), ("sdb/dev", "8:16\n")], "sdb"), None);
        assert_eq!(who(&[("sdb/serial", "0000 0000\n")], "sdb"), None, "a serial of zeros is nobody's own");
        assert_eq!(who(&[("sdb/serial", &"x".repeat(300))], "sdb"), None, "and one too long to be kept");
    }
}
