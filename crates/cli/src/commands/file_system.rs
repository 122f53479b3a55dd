//! On which file system what was read lies: as it is said, as its recording says, or as the mounts of this machine say.

use forerun_machine::mounts::{self, Mount};
use forerun_machine::{Root, pools, recorded};
use forerun_trace::record::{Name, Trace};
use std::collections::BTreeMap;
use std::path::Path;

/// Names of `--file-system`: those whose files read alike have one word for them all.
pub(super) const KINDS: [&str; 5] = ["zfs", "ext4", "xfs", "btrfs", "other"];
/// So many files, those of which most was read, are looked for on this machine.
const LOOKED_FOR: usize = 64;

/// Whether it is ZFS: by what was said, else by the recording, else by the mount.
pub(super) fn is_zfs(said: Option<&str>, trace: &Trace, mount: Option<&Mount>) -> bool {
    let recorded = trace.about.get(recorded::FILE_SYSTEM).map(String::as_str);
    said.or(recorded).or_else(|| mount.map(|mount| mount.kind.as_str())) == Some(pools::KIND)
}

/// The mount that holds the files of which most was read, if they are here; else that of the current folder.
pub(super) fn mount(root: &Root, trace: &Trace) -> Option<Mount> {
    let mounts = mounts::read(root);
    let mut files = bytes(trace);
    files.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let here = files.iter().take(LOOKED_FOR).filter(|(path, _)| path.is_absolute() && path.exists());
    let mut by_place: BTreeMap<&str, (u64, &Mount)> = BTreeMap::new();
    for (path, bytes) in here {
        if let Some(mount) = mounts::holding(&mounts, path) {
            by_place.entry(&mount.place).or_insert((0, mount)).0 += bytes;
        }
    }
    let most = by_place.into_values().max_by_key(|&(bytes, _)| bytes).map(|(_, mount)| mount.clone());
    most.or_else(|| of_folder(&mounts))
}

/// The mount of the current folder.
fn of_folder(mounts: &[Mount]) -> Option<Mount> {
    mounts::holding(mounts, &std::env::current_dir().ok()?).cloned()
}

/// Whether a folder, or the current one, is of ZFS.
pub(super) fn folder_is_zfs(root: &Root, folder: Option<&Path>) -> bool {
    let Ok(folder) = folder.unwrap_or(Path::new(".")).canonicalize() else { return false };
    mounts::holding(&mounts::read(root), &folder).is_some_and(|mount| mount.kind == pools::KIND)
}

/// Notes the file system of the files that were read, where that is known.
pub(super) fn note(root: &Root, trace: &mut Trace) {
    if let Some(kind) = recorded::file_system(root, bytes(trace).into_iter()) {
        trace.about.insert(recorded::FILE_SYSTEM.into(), kind);
    }
}

/// The files and how much was read of each.
fn bytes(trace: &Trace) -> Vec<(&Path, u64)> {
    let mut bytes: BTreeMap<Name, u64> = BTreeMap::new();
    for record in trace.records.iter().filter(|record| record.file != Name::ABSENT) {
        *bytes.entry(record.file).or_default() += record.bytes;
    }
    let path = |name: Name| Path::new(trace.names[name.0 as usize].as_str());
    bytes.into_iter().map(|(name, bytes)| (path(name), bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_trace::record::Record;

    /// A trace that read 100 bytes of each of these.
    fn trace(files: &[&Path]) -> Trace {
        let mut trace = Trace { names: vec![String::new()], ..Trace::default() };
        for path in files {
            let file = Name(u32::try_from(trace.names.len()).expect("few"));
            trace.names.push(path.to_str().expect("UTF-8").to_owned());
            trace.records.push(Record { file, bytes: 100, ..Record::BLANK });
        }
        trace
    }

    #[test]
    fn what_is_said_goes_before_what_was_recorded_and_that_before_the_mount() {
        let mut trace = trace(&[]);
        let zfs = Mount { kind: "zfs".into(), ..mount_of("tank") };
        assert!(is_zfs(None, &trace, Some(&zfs)) && !is_zfs(None, &trace, None));
        trace.about.insert("file_system".into(), "ext4".into());
        assert!(!is_zfs(None, &trace, Some(&zfs)) && is_zfs(Some("zfs"), &trace, None));
        trace.about.insert("file_system".into(), "zfs".into());
        assert!(is_zfs(None, &trace, None) && !is_zfs(Some("ext4"), &trace, Some(&zfs)));
    }

    fn mount_of(source: &str) -> Mount {
        Mount {
            number: "0:40".into(),
            place: "/".into(),
            kind: String::new(),
            source: source.into(),
            options: Vec::new(),
            read_ahead_kib: None,
        }
    }

    #[test]
    fn the_mount_is_that_of_the_files_wherever_somebody_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().canonicalize().expect("there");
        let (file, gone) = (place.join("data"), place.join("gone"));
        std::fs::write(&file, "x").expect("written");
        let text = format!(
            "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 27 0:40 / {} rw - zfs tank/a rw\n",
            place.display()
        );
        std::fs::create_dir_all(place.join("root/proc/self")).expect("made");
        std::fs::write(place.join("root/proc/self/mountinfo"), text).expect("written");
        let root = Root::at(&place.join("root"));
        let found = mount(&root, &trace(&[&file])).expect("mounted");
        assert_eq!((found.kind.as_str(), pools::pool(&found)), ("zfs", Some("tank")));
        assert!(folder_is_zfs(&root, Some(&place)) && !folder_is_zfs(&root, Some(Path::new("/"))));
        assert_eq!(mount(&root, &trace(&[&gone])).expect("of the folder").kind, "ext4");
        let mut recorded = trace(&[&file, &gone]);
        note(&root, &mut recorded);
        assert_eq!(recorded.about.get("file_system").map(String::as_str), Some("zfs"));
    }
}
