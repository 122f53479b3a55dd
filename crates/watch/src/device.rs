//! Which device is meant, and what a device number is called.
//!
//! The kernel's tracepoint names the whole disk and counts sectors from its start, also when a program asked a
//! partition. A user says `/dev/sda2`, or just `sda2`. This module translates both ways with sysfs. It also knows
//! which stretches of disks are merely the ground of a device stacked upon them (LVM, md, dm-crypt): a request
//! to such a device shows up once for it and once more for the disk below.

use crate::bio::DeviceNumber;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where sysfs keeps one link per block device, named by its numbers.
const BY_NUMBER: &str = "/sys/dev/block";
/// Where sysfs keeps one link per block device, named by its name.
const BY_NAME: &str = "/sys/class/block";

/// A disk or a partition, as a range of sectors of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name without `/dev/`, e.g. `sda2`.
    pub name: String,
    /// The whole disk.
    pub disk: DeviceNumber,
    /// First sector of 512 bytes on the disk: 0 for a whole disk.
    pub start: u64,
    /// Sectors of a partition; `None` for a whole disk.
    pub sectors: Option<u64>,
}

/// Why a device could not be found.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing of that name.
    #[error("{path}: {source}")]
    Open {
        /// As the user wrote it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or folder.
    #[error("{path} is not a block device; `lsblk` lists them, `findmnt -T FILE` tells the device of a file")]
    NotABlockDevice {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// sysfs does not describe it.
    #[error("the kernel does not describe {path}: {what}")]
    Sysfs {
        /// As the user wrote it.
        path: PathBuf,
        /// What was looked for.
        what: String,
    },
}

impl Device {
    /// Finds a device by path (`/dev/sda2`) or by name (`sda2`).
    ///
    /// # Errors
    /// [`DeviceError`] if it is not there, or not a block device, or sysfs does not tell its place.
    pub fn find(path: &Path) -> Result<Self, DeviceError> {
        let in_dev = Path::new("/dev").join(path);
        let path = if path.components().count() == 1 && in_dev.exists() { &in_dev } else { path };
        let metadata =
            std::fs::metadata(path).map_err(|source| DeviceError::Open { path: path.to_owned(), source })?;
        if !metadata.file_type().is_block_device() {
            return Err(DeviceError::NotABlockDevice { path: path.to_owned() });
        }
        let number = format!("{}:{}", libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
        let folder = Path::new(BY_NUMBER).join(number);
        Self::of_folder(&folder)
            .map_err(|what| DeviceError::Sysfs { path: path.to_owned(), what: what.to_owned() })
    }

    /// Reads the folder of a device in sysfs.
    fn of_folder(folder: &Path) -> Result<Self, &'static str> {
        let folder = folder.canonicalize().map_err(|_| "no folder in /sys/dev/block")?;
        let name = name_of(&folder).ok_or("a folder without a name")?;
        if !folder.join("partition").exists() {
            let disk = number_in(&folder.join("dev")).ok_or("no number in dev")?;
            return Ok(Self { name, disk, start: 0, sectors: None });
        }
        let parent = folder.parent().ok_or("a partition without a disk")?;
        Ok(Self {
            name,
            disk: number_in(&parent.join("dev")).ok_or("no number in the disk's dev")?,
            start: integer_in(&folder.join("start")).ok_or("no number in start")?,
            sectors: Some(integer_in(&folder.join("size")).ok_or("no number in size")?),
        })
    }

    /// The expression by which the kernel lets through this device's requests only.
    #[must_use]
    pub fn filter(&self) -> String {
        match self.sectors {
            None => format!("dev=={}", self.disk.0),
            Some(sectors) => format!(
                "dev=={} && sector>={} && sector<{}",
                self.disk.0,
                self.start,
                self.start.saturating_add(sectors)
            ),
        }
    }
}

/// Names of whole disks by number, looked up once each. Bounded by the number of disks of the machine.
#[derive(Debug, Default)]
pub struct DiskNames(BTreeMap<DeviceNumber, String>);

impl DiskNames {
    /// The name of a disk, or its numbers as `7:0` if it is gone.
    pub fn get(&mut self, number: DeviceNumber) -> &str {
        self.0.entry(number).or_insert_with(|| {
            let numbers = format!("{}:{}", number.major(), number.minor());
            let folder = Path::new(BY_NUMBER).join(&numbers).canonicalize();
            folder.ok().and_then(|folder| name_of(&folder)).unwrap_or(numbers)
        })
    }
}

/// Stretches of disks that other block devices are built upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grounds(Vec<(DeviceNumber, u64, u64)>);

impl Grounds {
    /// Those of this machine, now; none where sysfs is missing.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let entries = std::fs::read_dir(BY_NAME).into_iter().flatten().flatten();
        let held = entries.map(|entry| entry.path()).filter(|folder| has_holders(folder));
        let mut grounds: Vec<_> = held
            .filter_map(|folder| Device::of_folder(&folder).ok())
            .map(|d| (d.disk, d.start, d.sectors.map_or(u64::MAX, |sectors| d.start.saturating_add(sectors))))
            .collect();
        grounds.sort_unstable();
        Self(grounds)
    }

    /// Whether a request that starts at `sector` of `disk` goes to the ground of another device.
    #[must_use]
    pub fn contain(&self, disk: DeviceNumber, sector: u64) -> bool {
        self.0.iter().any(|&(held, start, end)| held == disk && start <= sector && sector < end)
    }
}

fn has_holders(folder: &Path) -> bool {
    std::fs::read_dir(folder.join("holders")).is_ok_and(|mut holders| holders.next().is_some())
}

/// Name of a device from its folder in sysfs, where a slash is written `!`.
fn name_of(folder: &Path) -> Option<String> {
    folder.file_name()?.to_str().map(|name| name.replace('!', "/"))
}

fn integer_in(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Reads `7:0`.
fn number_in(file: &Path) -> Option<DeviceNumber> {
    let text = std::fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    DeviceNumber::new(major.parse().ok()?, minor.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysfs_of_a_partitioned_disk() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        let disk = root.path().join("sda");
        for (file, text) in [
            ("dev", "8:0\n"),
            ("sda2/dev", "8:2\n"),
            ("sda2/partition", "2\n"),
            ("sda2/start", "2048\n"),
            ("sda2/size", "1000\n"),
        ] {
            let path = disk.join(file);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("room on disk");
            std::fs::write(path, text).expect("room on disk");
        }
        root
    }

    #[test]
    fn a_partition_is_a_range_of_its_disk_and_so_is_its_filter() {
        let root = sysfs_of_a_partitioned_disk();
        let device = Device::of_folder(&root.path().join("sda/sda2")).expect("complete");
        let disk = DeviceNumber::new(8, 0).expect("fits");
        assert_eq!(device, Device { name: "sda2".into(), disk, start: 2048, sectors: Some(1000) });
        assert_eq!(device.filter(), "dev==8388608 && sector>=2048 && sector<3048");
        let whole = Device::of_folder(&root.path().join("sda")).expect("complete");
        assert_eq!((whole.filter().as_str(), whole.sectors), ("dev==8388608", None));
    }

    #[test]
    fn an_incomplete_description_is_an_error() {
        let root = sysfs_of_a_partitioned_disk();
        std::fs::remove_file(root.path().join("sda/sda2/start")).expect("it is there");
        assert_eq!(Device::of_folder(&root.path().join("sda/sda2")), Err("no number in start"));
        assert!(Device::of_folder(&root.path().join("sdb")).is_err());
    }

    #[test]
    fn files_and_missing_paths_are_told_apart() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        assert!(matches!(Device::find(file.path()), Err(DeviceError::NotABlockDevice { .. })));
        let missing = Device::find(Path::new("/dev/no-such-device-here"));
        assert!(matches!(missing, Err(DeviceError::Open { .. })));
    }

    #[test]
    fn only_the_held_stretch_of_a_disk_is_ground() {
        let disk = DeviceNumber::new(8, 0).expect("fits");
        let grounds = Grounds(vec![(disk, 2048, 3048)]);
        assert!(grounds.contain(disk, 2048) && grounds.contain(disk, 3047));
        assert!(!grounds.contain(disk, 3048) && !grounds.contain(DeviceNumber(1), 2048));
    }
}
