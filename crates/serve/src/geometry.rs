//! Where the strips of a block device lie, as far as the kernel says it: `--over /dev/md0` needs no `--array`.
//!
//! Asked in this order, the first that knows answers:
//!
//! 1. md says level, chunk, disks and layout in sysfs (`md/level` …);
//! 2. a mapped device (LVM) has a table (`dmsetup table`): one striped or raid target is a geometry, one linear piece is
//!    that of the device below, as far into it as the piece begins;
//! 3. else the two hints of the queue: `minimum_io_size` is the strip, `optimal_io_size` the stripe without parity.
//!
//! What is found is said in the array grammar (`raid5:5x64KiB`). What is *served* is where data lies, which is all that a scheme
//! needs: parity and mirrors are below, so a RAID-5 of five disks is four data disks. A partition or a volume that does
//! not begin at a strip has its strips elsewhere than the blocks say, and a geometry that is unknown to the grammar or
//! larger than what is served is none; then the device is served as one disk.

use crate::source::{MEMBERS_MAX, STRIP_BYTES_MAX};
use forerun_core::array::{ArraySpec, Level};
use forerun_core::size::format_size;
use forerun_core::units::{BLOCK_BYTES, SECTOR_BYTES};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Smallest strip that is one: smaller hints are the physical sectors of a single disk.
const STRIP_BYTES_MIN: u64 = 2 * BLOCK_BYTES;
/// Devices one below the other that are asked: a volume on a mapped device on a partition of an array, and one more.
const DEPTH_MAX: u32 = 4;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Where data lies.
    pub(crate) data: ArraySpec,
    /// What the device is, in the array grammar where that has it, and who said so.
    pub(crate) words: String,
}

/// Major and minor number.
type Number = (u32, u32);

/// Where the kernel is asked; a test has its own.
struct Kernel<'a> {
    /// `/sys`.
    sys: PathBuf,
    /// The table of a mapped device.
    table: &'a dyn Fn(Number) -> Option<String>,
}

/// The geometry of a device.
pub(crate) fn of_device(path: &Path) -> Option<Geometry> {
    let about = std::fs::metadata(path).ok().filter(|about| about.file_type().is_block_device())?;
    let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
    let kernel = Kernel { sys: "/sys".into(), table: &table_of };
    kernel.geometry(number, 0, 0)
}

/// Asks the tool of the device mapper; where it is missing or may not, nobody knows.
fn table_of((major, minor): Number) -> Option<String> {
    let (major, minor) = (major.to_string(), minor.to_string());
    let done = std::process::Command::new("dmsetup").args(["table", "-j", &major, "-m", &minor]).output();
    let done = done.ok().filter(|done| done.status.success())?;
    String::from_utf8(done.stdout).ok()
}

impl Kernel<'_> {
    /// The geometry of what begins `start` bytes into a device.
    fn geometry(&self, number: Number, start: u64, depth: u32) -> Option<Geometry> {
        if depth == DEPTH_MAX {
            return None;
        }
        let link = self.sys.join("dev/block").join(format!("{}:{}", number.0, number.1));
        // The link leads to the device's own folder, whose parent is the whole device of a partition.
        let mut folder = link.canonicalize().ok()?;
        let mut start = start;
        if folder.join("partition").exists() {
            start += number_in(&folder.join("start"))? * SECTOR_BYTES;
            folder = folder.parent()?.to_path_buf();
        }
        if folder.join("md").exists() {
            return of_md(&folder.join("md")).filter(|found| begins_at_a_strip(found, start));
        }
        if folder.join("dm").exists()
            && let Some(table) = (self.table)(number)
        {
            return match of_table(&table)? {
                Mapped::Array(found) => Some(found).filter(|found| begins_at_a_strip(found, start)),
                Mapped::Within(below, at) => self.geometry(below, start + at, depth + 1),
            };
        }
        of_queue(&folder.join("queue")).filter(|found| begins_at_a_strip(found, start))
    }
}

fn begins_at_a_strip(found: &Geometry, start: u64) -> bool {
    start.is_multiple_of(found.data.strip_bytes())
}

fn text_in(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number_in(path: &Path) -> Option<u64> {
    text_in(path)?.parse().ok()
}

/// An array of md, from its folder.
fn of_md(folder: &Path) -> Option<Geometry> {
    let level = text_in(&folder.join("level"))?;
    let (disks, chunk) = (number_in(&folder.join("raid_disks"))?, number_in(&folder.join("chunk_size"))?);
    let layout = number_in(&folder.join("layout")).unwrap_or(0);
    of_level(&level, layout, disks, chunk, "md")
}

/// A level in the words of md: what it is, and where its data lies.
fn of_level(level: &str, layout: u64, disks: u64, chunk: u64, who: &str) -> Option<Geometry> {
    let size = format_size(chunk);
    let whole = |kind: &str| format!("{kind}:{disks}x{size}");
    // Numbers of the layouts of RAID-5 and RAID-6, and of the copies of RAID-10 (md(4)).
    let turn = ["left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric"];
    let turn = usize::try_from(layout).ok().and_then(|at| turn.get(at)).map_or("", |turn| turn);
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let (data, what) = match level {
        "raid0" => (disks, whole("raid0")),
        "raid4" => (disks.checked_sub(1)?, format!("raid4 of {disks} disks")),
        "raid5" => (disks.checked_sub(1)?, format!("{} {turn}", whole("raid5"))),
        "raid6" => (disks.checked_sub(2)?, format!("{} {turn}", whole("raid6"))),
        "raid10" if near == 2 && far == 1 && disks.is_multiple_of(2) => (disks / 2, whole("raid10")),
        // Far copies lie behind the first, which are striped over all disks.
        "raid10" if near == 1 => (disks, format!("{} with far copies", whole("raid10"))),
        _ => return None, // mirrors, chains, and copies that do not fill a row
    };
    Some(Geometry { data: striped(data, chunk)?, words: format!("{} (says {who})", what.trim()) })
}

/// What the table of a mapped device says.
#[derive(Debug, PartialEq, Eq)]
enum Mapped {
    /// It is an array itself.
    Array(Geometry),
    /// It is a piece of another device, from this byte on.
    Within(Number, u64),
}

/// A table of one line: `START LENGTH TARGET …` in sectors (the kernel's device-mapper documentation).
fn of_table(table: &str) -> Option<Mapped> {
    let mut lines = table.lines().filter(|line| !line.trim().is_empty());
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [_, _, "linear", below, at] => {
            let (major, minor) = below.split_once(':')?;
            let below = (major.parse().ok()?, minor.parse().ok()?);
            Some(Mapped::Within(below, at.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?))
        }
        [_, _, "striped", disks, chunk, ..] => {
            let chunk = chunk.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?;
            of_level("raid0", 0, disks.parse().ok()?, chunk, "the device mapper").map(Mapped::Array)
        }
        // raid TYPE PARAMETERS CHUNK … DISKS …
        [_, _, "raid", kind, count, chunk, ref rest @ ..] => {
            let behind = count.parse::<usize>().ok()?.checked_sub(1)?;
            let disks = rest.get(behind)?.parse().ok()?;
            let chunk = chunk.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?;
            let (level, layout) = raid_type(kind)?;
            of_level(level, layout, disks, chunk, "the device mapper").map(Mapped::Array)
        }
        _ => None,
    }
}

/// The types of the raid target that stripe, in the words and numbers of md.
fn raid_type(kind: &str) -> Option<(&'static str, u64)> {
    Some(match kind {
        "raid0" | "raid0_meta" => ("raid0", 0),
        "raid4" => ("raid4", 0),
        "raid5_la" => ("raid5", 0),
        "raid5_ra" => ("raid5", 1),
        "raid5_ls" => ("raid5", 2),
        "raid5_rs" => ("raid5", 3),
        // Parity alone on the last disk.
        "raid5_n" | "raid6_n_6" => return Some((if kind == "raid5_n" { "raid4" } else { "raid6" }, 4)),
        "raid6_zr" => ("raid6", 0),
        "raid6_nr" => ("raid6", 1),
        "raid6_nc" => ("raid6", 2),
        "raid10" => ("raid10", 0x102),
        _ => return None,
    })
}

/// The hints of a queue: what hardware arrays have, and whatever else says how it is striped.
fn of_queue(folder: &Path) -> Option<Geometry> {
    let strip = number_in(&folder.join("minimum_io_size"))?;
    let stripe = number_in(&folder.join("optimal_io_size"))?;
    if strip == 0 || !stripe.is_multiple_of(strip) {
        return None;
    }
    let data = striped(stripe / strip, strip)?;
    Some(Geometry { data, words: format!("{data} (says its queue)") })
}

/// Data disks with strips of this size, if that can be served.
fn striped(disks: u64, strip: u64) -> Option<ArraySpec> {
    let sane = (STRIP_BYTES_MIN..=STRIP_BYTES_MAX).contains(&strip) && strip.is_multiple_of(BLOCK_BYTES);
    if !sane || !(2..=MEMBERS_MAX as u64).contains(&disks) {
        return None;
    }
    ArraySpec::new(Level::Raid0, disks as u16, strip).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A `/sys` of our own.
    struct Sys(TempDir);

    impl Sys {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        /// A device with files in its folder.
        fn device(&self, number: &str, name: &str, files: &[(&str, &str)]) {
            let folder = self.0.path().join("devices").join(name);
            std::fs::create_dir_all(&folder).expect("made");
            for (file, text) in files {
                let path = folder.join(file);
                std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
                std::fs::write(path, format!("{text}\n")).expect("written");
            }
            let links = self.0.path().join("dev/block");
            std::fs::create_dir_all(&links).expect("made");
            symlink(&folder, links.join(number)).expect("linked");
        }

        /// What is found, as (served, found), with these tables.
        fn ask(&self, number: Number, tables: &[(Number, &str)]) -> Option<(String, String)> {
            let table = |of| tables.iter().find(|(n, _)| *n == of).map(|(_, table)| (*table).to_owned());
            let kernel = Kernel { sys: self.0.path().into(), table: &table };
            kernel.geometry(number, 0, 0).map(|found| (found.data.to_string(), found.words))
        }
    }

    fn md(level: &str, disks: &str, chunk: &str, layout: &str) -> Option<(String, String)> {
        let sys = Sys::new();
        sys.device(
            "9:0",
            "md0",
            &[
                ("md/level", level),
                ("md/raid_disks", disks),
                ("md/chunk_size", chunk),
                ("md/layout", layout),
                ("queue/minimum_io_size", "4096"),
                ("queue/optimal_io_size", "0"),
            ],
        );
        sys.ask((9, 0), &[])
    }

    fn found(served: &str, words: &str) -> Option<(String, String)> {
        Some((served.into(), words.into()))
    }

    #[test]
    fn md_says_its_level_chunk_and_disks() {
        assert_eq!(md("raid0", "4", "131072", "0"), found("raid0:4x128KiB", "raid0:4x128KiB (says md)"));
        assert_eq!(
            md("raid5", "5", "65536", "2"),
            found("raid0:4x64KiB", "raid5:5x64KiB left-symmetric (says md)")
        );
        assert_eq!(
            md("raid6", "6", "524288", "0"),
            found("raid0:4x512KiB", "raid6:6x512KiB left-asymmetric (says md)")
        );
        assert_eq!(md("raid4", "3", "65536", "0"), found("raid0:2x64KiB", "raid4 of 3 disks (says md)"));
        assert_eq!(md("raid10", "4", "65536", "258"), found("raid0:2x64KiB", "raid10:4x64KiB (says md)"));
        assert_eq!(
            md("raid10", "3", "65536", "513"),
            found("raid0:3x64KiB", "raid10:3x64KiB with far copies (says md)")
        );
    }

    #[test]
    fn arrays_that_are_no_stripes_or_cannot_be_served_have_no_geometry() {
        for (level, disks, chunk, layout) in [
            ("raid1", "2", "0", "0"),
            ("linear", "3", "65536", "0"),
            ("raid10", "3", "65536", "258"),
            ("raid5", "2", "65536", "2"),
            ("raid5", "0", "65536", "2"),
            ("raid0", "4", "16777216", "0"),
            ("raid0", "100", "65536", "0"),
            ("raid0", "four", "65536", "0"),
        ] {
            assert_eq!(md(level, disks, chunk, layout), None, "{level} {disks} {chunk} {layout}");
        }
    }

    #[test]
    fn a_partition_of_an_array_has_its_strips_if_it_begins_at_one() {
        let sys = Sys::new();
        let files =
            [("md/level", "raid5"), ("md/raid_disks", "5"), ("md/chunk_size", "65536"), ("md/layout", "2")];
        sys.device("9:1", "md1", &files);
        sys.device("259:0", "md1/md1p1", &[("partition", "1"), ("start", "2048")]);
        sys.device("259:1", "md1/md1p2", &[("partition", "2"), ("start", "2056")]);
        assert_eq!(sys.ask((259, 0), &[]).map(|found| found.0).as_deref(), Some("raid0:4x64KiB"));
        assert_eq!(sys.ask((259, 1), &[]), None);
    }

    #[test]
    fn a_striped_volume_of_lvm_says_it_in_its_table() {
        let sys = Sys::new();
        sys.device("253:0", "dm-0", &[("dm/name", "vg-fast")]);
        let ask = |table: &str| sys.ask((253, 0), &[((253, 0), table)]);
        assert_eq!(
            ask("0 25165824 striped 3 128 8:16 2048 8:32 2048 8:48 2048\n"),
            found("raid0:3x64KiB", "raid0:3x64KiB (says the device mapper)")
        );
        assert_eq!(
            ask("0 8388608 raid raid5_ls 3 128 region_size 8192 3 253:1 253:2 253:3 253:4 253:5 253:6"),
            found("raid0:2x64KiB", "raid5:3x64KiB left-symmetric (says the device mapper)")
        );
        for table in [
            "0 100 striped 3 128 8:16 0 8:32 0 8:48 0\n100 100 linear 8:16 100\n",
            "0 100 thin 253:2 1",
            "0 100 striped 3",
            "0 100 raid raid1 3 0 region_size 1024 2 253:1 253:2",
            "0 100 raid raid5_ls 9 128",
            "",
        ] {
            assert_eq!(ask(table), None, "{table}");
        }
    }

    #[test]
    fn a_volume_that_lies_on_an_array_has_its_strips_if_it_begins_at_one() {
        let sys = Sys::new();
        sys.device(
            "9:0",
            "md0",
            &[("md/level", "raid0"), ("md/raid_disks", "4"), ("md/chunk_size", "131072")],
        );
        sys.device("253:0", "dm-0", &[("dm/name", "vg-home")]);
        let ask = |table: &str| sys.ask((253, 0), &[((253, 0), table)]).map(|found| found.0);
        assert_eq!(ask("0 4096 linear 9:0 2048").as_deref(), Some("raid0:4x128KiB"));
        assert_eq!(ask("0 4096 linear 9:0 2049"), None);
        assert_eq!(ask("0 4096 linear 9:7 2048"), None, "a device that is not there");
        assert_eq!(ask("0 4096 linear 253:0 0"), None, "a table that leads to itself");
    }

    fn hints(strip: &str, stripe: &str) -> Option<(String, String)> {
        let sys = Sys::new();
        sys.device("8:0", "sda", &[("queue/minimum_io_size", strip), ("queue/optimal_io_size", stripe)]);
        sys.device("8:1", "sda/sda1", &[("partition", "1"), ("start", "8192")]);
        let whole = sys.ask((8, 0), &[]);
        assert_eq!(whole, sys.ask((8, 1), &[]), "a partition lies on the same strips");
        whole
    }

    #[test]
    fn hints_of_striped_devices_are_their_geometry() {
        // A hardware array of five data disks and one parity; a volume over three.
        assert_eq!(hints("524288", "2097152").map(|found| found.0).as_deref(), Some("raid0:4x512KiB"));
        assert_eq!(hints("65536", "196608"), found("raid0:3x64KiB", "raid0:3x64KiB (says its queue)"));
    }

    #[test]
    fn hints_of_other_devices_are_none() {
        for (strip, stripe) in [
            ("512", "0"),
            ("0", "0"),
            ("4096", "1048576"),
            ("65536", "65536"),
            ("65536", "100000"),
            ("8388608", "33554432"),
            ("x", "1"),
        ] {
            assert_eq!(hints(strip, stripe), None, "{strip} {stripe}");
        }
    }
}
