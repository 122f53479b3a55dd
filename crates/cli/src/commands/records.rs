//! Reads of files of ZFS as ZFS makes them: a record is read whole, whatever of it is asked for.
//!
//! So the first read that touches a record is made one of all of it, and what is read of it later finds it in memory. A file that fits into one
//! record is one. How many streams a file may have goes by its size, so that is taken of the file itself where it is here, and is the same in
//! every part of a trace.

use forerun_core::access::Op;
use forerun_machine::{Root, mounts, pools};
use forerun_trace::record::{Name, Record, Trace};
use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The usual size of a record, bytes.
const USUAL: u64 = 128 << 10;
/// A read of more records than this is none of a file that is there.
const MOST: u64 = 1 << 20;

/// A file, by device and name.
type File = (Name, Name);

/// What is known of the files of a trace.
pub(super) struct Records {
    /// The trace, which knows how large each file is.
    pub(super) sized: Trace,
    /// Bytes of a record, of files where they are not the usual ones.
    sizes: BTreeMap<File, u64>,
}

impl Records {
    /// Of a trace whose files may be here: below this root.
    pub(super) fn of(trace: &Trace, here: Option<&Root>) -> Self {
        let mut ends: BTreeMap<File, u64> = BTreeMap::new();
        for record in &trace.records {
            let end = ends.entry((record.device, record.file)).or_default();
            *end = record.offset.saturating_add(record.bytes).max(*end);
        }
        let mounts = here.map(mounts::read).unwrap_or_default();
        let (mut sized, mut sizes) = (trace.clone(), BTreeMap::new());
        for ((device, file), end) in ends {
            sized.know_size(device, file, end);
            let path = Path::new(&trace.names[file.0 as usize]);
            let Some(mount) = mounts::holding(&mounts, path) else { continue };
            let Some(about) = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else {
                continue;
            };
            sized.know_size(device, file, about.len());
            if mount.kind == pools::KIND {
                // ZFS says the size of a file's records as its block size.
                sizes.insert((device, file), about.blksize().max(512));
            }
        }
        Self { sized, sizes }
    }

    /// The reads, each grown to the records that nothing before it has touched.
    pub(super) fn whole(&self, records: &[Record]) -> Vec<Record> {
        let mut touched: HashSet<(File, u64)> = HashSet::new();
        let grown = |record: &Record| {
            let file = (record.device, record.file);
            let unit = self.sizes.get(&file).copied().unwrap_or(USUAL);
            let end = record.offset.saturating_add(record.bytes);
            let (first, last) = (record.offset / unit, end.div_ceil(unit));
            if record.op != Op::Read || record.bytes == 0 || last - first > MOST {
                return *record;
            }
            let new: Vec<u64> = (first..last).filter(|&at| touched.insert((file, at))).collect();
            let (Some(&from), Some(&to)) = (new.first(), new.last()) else { return *record };
            let size = self.sized.file_sizes.get(&file).copied().unwrap_or(end);
            let offset = record.offset.min(from * unit);
            let until = end.max(((to + 1) * unit).min(size));
            Record { offset, bytes: until - offset, ..*record }
        };
        records.iter().map(grown).collect()
    }

    /// Bytes that are read at least once.
    pub(super) fn footprint(&self) -> u64 {
        Trace { records: self.whole(&self.sized.records), ..self.sized.clone() }.info().footprint_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn read(offset: u64, bytes: u64) -> Record {
        Record { file: Name(1), offset, bytes, ..Record::BLANK }
    }

    fn places(records: &[Record]) -> Vec<(u64, u64)> {
        records.iter().map(|record| (record.offset / KIB, record.bytes / KIB)).collect()
    }

    #[test]
    fn the_first_read_of_a_record_is_of_all_of_it_and_the_next_is_as_it_was() {
        let write = Record { op: Op::Write, ..read(640 * KIB, 4 * KIB) };
        let records = vec![
            read(300 * KIB, 4 * KIB),
            read(304 * KIB, 4 * KIB),
            read(380 * KIB, 8 * KIB),
            write,
            read(600 * KIB, 100 * KIB),
        ];
        let trace = Trace { names: vec![String::new(), "/a".into()], records, ..Trace::default() };
        let zfs = Records::of(&trace, None);
        let whole = zfs.whole(&trace.records);
        // The third ends in a record that nothing has touched; the file ends at 700 KiB.
        assert_eq!(places(&whole), [(256, 128), (304, 4), (380, 132), (640, 4), (512, 188)]);
        assert_eq!(zfs.footprint(), (128 + 128 + 188) * KIB);
        // A part of it knows of nothing before it, and how large the file is.
        assert_eq!(places(&zfs.whole(&trace.records[1..2])), [(256, 128)]);
        assert_eq!(zfs.sized.file_sizes[&(Name::ABSENT, Name(1))], 700 * KIB);
        assert_eq!(zfs.whole(&[read(0, u64::MAX)]), [read(0, u64::MAX)]);
    }

    #[test]
    fn a_file_that_is_here_says_how_large_it_is_and_its_records_are() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        std::fs::write(&path, vec![1; 300_000]).expect("written");
        let block = std::fs::metadata(&path).expect("there").blksize();
        let name = path.to_str().expect("UTF-8").to_owned();
        let trace = Trace { names: vec![String::new(), name], records: vec![read(1, 1)], ..Trace::default() };
        let file = (Name::ABSENT, Name(1));
        let mounted = |kind: &str| {
            let root = folder.path().join(kind);
            std::fs::create_dir_all(root.join("proc/self")).expect("made");
            let text = format!("27 1 0:27 / / rw - {kind} rpool rw\n");
            std::fs::write(root.join("proc/self/mountinfo"), text).expect("written");
            Records::of(&trace, Some(&Root::at(&root)))
        };
        let (of_zfs, of_another) = (mounted("zfs"), mounted("ext4"));
        assert_eq!((of_zfs.sized.file_sizes[&file], of_another.sized.file_sizes[&file]), (300_000, 300_000));
        assert_eq!(of_zfs.whole(&trace.records)[0].bytes, block.min(300_000));
        assert_eq!(of_another.whole(&trace.records)[0].bytes, USUAL);
        let elsewhere = Records::of(&trace, None);
        assert_eq!(elsewhere.sized.file_sizes[&file], 2);
        assert_eq!(elsewhere.whole(&trace.records)[0].bytes, 2);
    }
}
