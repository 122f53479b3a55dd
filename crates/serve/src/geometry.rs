//! Where the strips of a block device lie, as far as the kernel says it: `--over /dev/md0` needs no `--array`.
//!
//! Striped devices tell their geometry as two I/O hints: `minimum_io_size` is the strip, `optimal_io_size` the stripe
//! without parity. md sets both, so does a striped volume of LVM, and so do hardware arrays. Sizes that are no geometry (a
//! disk that likes 1 MiB, strips beyond what is served) give none, and the device is served as one disk.

use crate::source::{MEMBERS_MAX, STRIP_BYTES_MAX};
use forerun_core::array::{ArraySpec, Level};
use forerun_core::units::BLOCK_BYTES;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Smallest strip that is one: smaller hints are the physical sectors of a single disk.
const STRIP_BYTES_MIN: u64 = 2 * BLOCK_BYTES;

/// The geometry of a device, from the kernel's hints.
pub(crate) fn of_device(path: &Path) -> Option<ArraySpec> {
    let about = std::fs::metadata(path).ok().filter(|about| about.file_type().is_block_device())?;
    let number = about.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    of_queue(&Path::new("/sys/dev/block").join(format!("{major}:{minor}")))
}

/// The same from the device's folder; a partition has its hints with the whole device.
fn of_queue(folder: &Path) -> Option<ArraySpec> {
    let read = |name: &str| -> Option<u64> {
        let text = std::fs::read_to_string(folder.join("queue").join(name))
            .or_else(|_| std::fs::read_to_string(folder.join("../queue").join(name)));
        text.ok()?.trim().parse().ok()
    };
    spec(read("minimum_io_size")?, read("optimal_io_size")?)
}

fn spec(strip: u64, stripe: u64) -> Option<ArraySpec> {
    let sane = (STRIP_BYTES_MIN..=STRIP_BYTES_MAX).contains(&strip) && strip.is_multiple_of(BLOCK_BYTES);
    if !sane || !stripe.is_multiple_of(strip) {
        return None;
    }
    let disks = stripe / strip;
    if !(2..=MEMBERS_MAX as u64).contains(&disks) {
        return None;
    }
    ArraySpec::new(Level::Raid0, disks as u16, strip).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(strip: &str, stripe: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("md0");
        let queue = device.join("queue");
        std::fs::create_dir_all(&queue).expect("made");
        std::fs::create_dir_all(device.join("md0p1")).expect("made");
        std::fs::write(queue.join("minimum_io_size"), format!("{strip}\n")).expect("written");
        std::fs::write(queue.join("optimal_io_size"), format!("{stripe}\n")).expect("written");
        let whole = of_queue(&device).map(|spec| spec.to_string());
        let part = of_queue(&device.join("md0p1")).map(|spec| spec.to_string());
        assert_eq!(whole, part, "a partition lies on the same strips");
        whole
    }

    #[test]
    fn hints_of_striped_devices_are_their_geometry() {
        // A RAID-5 of five disks with chunks of 512 KiB; a volume of LVM over three with 64 KiB.
        assert_eq!(folder("524288", "2097152").as_deref(), Some("raid0:4x512KiB"));
        assert_eq!(folder("65536", "196608").as_deref(), Some("raid0:3x64KiB"));
    }

    #[test]
    fn hints_of_other_devices_are_none() {
        for (strip, stripe) in [
            ("512", "0"),
            ("4096", "1048576"),
            ("65536", "65536"),
            ("65536", "100000"),
            ("8388608", "33554432"),
            ("x", "1"),
        ] {
            assert_eq!(folder(strip, stripe), None, "{strip} {stripe}");
        }
    }
}
