//! Pools of ZFS: which devices of a machine are theirs, and whether the machine itself starts from one.
//!
//! A file system of ZFS has no device of its own: its number is nobody's, and sysfs knows nothing of pools. What is left is the name of the
//! pool, with which its mounts begin, and what udev has found on disks.

use crate::device::BlockDevice;
use crate::machine::Machine;
use crate::mounts::{self, Mount};
use crate::root::Root;

/// How its mounts are called.
pub const KIND: &str = "zfs";

/// The pool of a mount: `tank` of `tank/home`.
#[must_use]
pub fn pool(mount: &Mount) -> Option<&str> {
    (mount.kind == KIND).then(|| mount.source.split('/').next().unwrap_or_default())
}

/// Devices that belong to a pool, as udev has found; none where it does not say. A partition says more than the whole disk, whose end may be
/// the end of a partition.
#[must_use]
pub fn members<'a>(root: &Root, machine: &'a Machine, pool: &str) -> Vec<&'a BlockDevice> {
    let says = |number: &String| {
        let told = root.text(&format!("run/udev/data/b{number}")).unwrap_or_default();
        let has = |key: &str, value: &str| {
            let of =
                |line: &str| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
            told.lines().filter_map(of).any(|found| found == value)
        };
        has("ID_FS_TYPE", "zfs_member") && has("ID_FS_LABEL", pool)
    };
    let member = |device: &&BlockDevice| {
        let parts = &device.partitions;
        if parts.is_empty() { says(&device.number) } else { parts.iter().any(|part| says(&part.number)) }
    };
    machine.devices.iter().filter(member).collect()
}

/// The command that takes options of the module into what the machine starts from; none where the root is not of ZFS: then the module is
/// loaded from the root.
#[must_use]
pub fn initramfs(root: &Root) -> Option<&'static str> {
    const MAKERS: [(&str, &str); 3] = [
        ("update-initramfs", "sudo update-initramfs -u"),
        ("dracut", "sudo dracut --force"),
        ("mkinitcpio", "sudo mkinitcpio -P"),
    ];
    mounts::read(root).iter().rfind(|mount| mount.place == "/").filter(|mount| mount.kind == KIND)?;
    let there = |name: &str| {
        ["usr/sbin", "usr/bin", "sbin", "bin"].iter().any(|at| root.has(&format!("{at}/{name}")))
    };
    Some(MAKERS.iter().find(|(name, _)| there(name)).unwrap_or(&MAKERS[0]).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &std::path::Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn members_of_a_pool_are_what_udev_has_found_on_partitions_or_on_whole_disks() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        for (disk, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")] {
            put(at, &format!("sys/block/{disk}/dev"), number);
            put(at, &format!("sys/block/{disk}/size"), "4096");
        }
        put(at, "sys/block/sda/sda1/partition", "1");
        put(at, "sys/block/sda/sda1/dev", "8:1");
        // A whole disk whose label is that of its last partition, a partition of the pool, a disk of another one.
        put(at, "run/udev/data/b8:1", "S:x\nE:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n");
        put(at, "run/udev/data/b8:16", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank\n");
        put(at, "run/udev/data/b8:32", "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=tank2\n");
        let root = Root::at(at);
        let machine = Machine::read(&root).expect("a machine");
        let names = |pool| {
            members(&root, &machine, pool).iter().map(|device| device.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("tank"), ["sda", "sdb"]);
        assert_eq!(names("other"), [""; 0]);
    }

    #[test]
    fn a_root_of_zfs_starts_from_what_has_to_be_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        put(
            folder.path(),
            "proc/self/mountinfo",
            "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 27 0:40 / /tank rw - zfs tank rw\n",
        );
        assert_eq!(initramfs(&root), None);
        let mounts = mounts::read(&root);
        assert_eq!((pool(&mounts[0]), pool(&mounts[1])), (None, Some("tank")));
        put(folder.path(), "proc/self/mountinfo", "27 1 0:27 / / rw - zfs rpool/ROOT/debian rw\n");
        assert_eq!(initramfs(&root), Some("sudo update-initramfs -u"));
        put(folder.path(), "usr/bin/dracut", "");
        assert_eq!(initramfs(&root), Some("sudo dracut --force"));
    }
}
