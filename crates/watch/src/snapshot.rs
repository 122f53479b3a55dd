//! What of some files is in memory now, as a manifest; and which entries of a manifest are stale.
//!
//! Which pages are here the kernel tells only of files that one owns or may write (`cachestat` says so, `mincore` answers
//! that all is here): others are counted and left out. Nothing is read or disturbed.

use crate::names::Mounts;
use crate::pages::Pages;
use crate::sys;
use crate::volumes::{self, Volume, Volumes};
use forerun_manifest::{File, Key, Manifest, Run, Stale};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Files and folders that are looked at, at most.
const ENTRIES_MAX: u64 = 100_000_000;

/// What is in memory.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The pages.
    pub manifest: Manifest,
    /// Files that were looked at.
    pub files: u64,
    /// Files that the kernel tells nothing of.
    pub not_ours: u64,
    /// Files on file systems that no manifest names: in memory, of programs, of other machines, laid over others.
    pub elsewhere: u64,
}

/// Looks at files, and at all files below folders, but for what is to be written. Links are not followed.
///
/// # Errors
/// What the system said of a path that was named.
pub fn snapshot(paths: &[PathBuf], name: &str, output: &Path) -> io::Result<Snapshot> {
    let key = Key::Named { kind: "snapshot".into(), name: name.to_owned() };
    let mut snapshot = Snapshot { manifest: Manifest::new(key), files: 0, not_ours: 0, elsewhere: 0 };
    snapshot.manifest.recordings = 1;
    let (volumes, mut known, mut left) = (Volumes::now(), BTreeSet::new(), ENTRIES_MAX);
    // What is to be written over is no more what it is now.
    known.extend(fs::metadata(output).ok().map(|about| (about.dev(), about.ino())));
    let mounts = Mounts::of_this_process();
    for path in paths {
        let path = path
            .canonicalize()
            .map_err(|problem| io::Error::new(problem.kind(), format!("{}: {problem}", path.display())))?;
        let mut folders = vec![path.clone()];
        while let Some(at) = folders.pop() {
            let Ok(data) = fs::symlink_metadata(&at) else { continue };
            left = left.saturating_sub(1);
            if data.is_dir() && left > 0 {
                let entries = fs::read_dir(&at).into_iter().flatten().flatten();
                let mut inside: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
                inside.sort_unstable_by(|a, b| b.cmp(a));
                folders.extend(inside);
            } else if data.is_file() && data.len() > 0 && known.insert((data.dev(), data.ino())) {
                match holding(&volumes, &mounts, &at) {
                    Some(volume) => snapshot.take(volume, &at, data.ino()),
                    None => snapshot.elsewhere += 1,
                }
            }
        }
    }
    snapshot.manifest.tidy();
    Ok(snapshot)
}

/// The file system that holds a path, of whatever mounts there are the innermost, if a manifest can name its files.
fn holding<'a>(volumes: &'a Volumes, mounts: &Mounts, path: &Path) -> Option<&'a Volume> {
    let (major, minor) = mounts.device(path)?;
    volumes.by_device(major, minor)
}

/// Whether pages of a file are in memory, as far as the kernel tells us.
pub(crate) fn is_in_memory(path: &Path) -> bool {
    resident(path).is_ok_and(|here| here.contains(&true))
}

/// Runs of pages that are here, all of one rank.
fn runs(resident: &[bool], rank: u32) -> Vec<Run> {
    let mut first = 0;
    let mut runs = Vec::new();
    for same in resident.chunk_by(|a, b| a == b) {
        let pages = same.len() as u64;
        if same[0] {
            runs.push(Run { first, pages, rank, seen: 1 });
        }
        first += pages;
    }
    runs
}

impl Snapshot {
    fn take(&mut self, volume: &Volume, path: &Path, inode: u64) {
        let Some(mut file) = volumes::identify(volume, inode, Some(path)) else { return };
        self.files += 1;
        let rank = u32::try_from(self.files).unwrap_or(u32::MAX);
        match resident(path) {
            Ok(here) => file.runs = runs(&here, rank),
            Err(_) => self.not_ours += 1,
        }
        if file.runs.is_empty() {
            return;
        }
        let systems = &mut self.manifest.file_systems;
        let entry = volume.entry();
        let at = systems.iter().position(|known| *known == entry).unwrap_or_else(|| {
            systems.push(entry);
            systems.len() - 1
        });
        file.file_system = u32::try_from(at).expect("a few file systems");
        self.manifest.files.push(file);
    }
}

fn resident(path: &Path) -> io::Result<Vec<bool>> {
    // Who owns the folder may put a FIFO there at any time, and that would be waited for.
    let file = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match sys::cached(file.as_fd(), 0, 0) {
        Ok(0) => return Ok(Vec::new()),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
        // Before Linux 6.5 there is only the other call.
        _ => {}
    }
    Pages::of(&file)?.resident()
}

/// One entry, and why it does not speak of the file that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Fresh,
    /// It does not.
    Stale(Stale),
    /// Its file system is not mounted.
    NotMounted,
}

/// Judges all files of a manifest, in their order.
#[must_use]
pub fn verify(manifest: &Manifest) -> Vec<(&File, Verdict)> {
    let volumes = Volumes::now();
    let meant: Vec<_> = manifest.file_systems.iter().map(|fs| volumes.meant(fs)).collect();
    let judge = |file: &File| match meant.get(file.file_system as usize) {
        Some(Some(volume)) => volumes::open(volume, file).map_or_else(Verdict::Stale, |_| Verdict::Fresh),
        _ => Verdict::NotMounted,
    };
    manifest.files.iter().map(|file| (file, judge(file))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_becomes_runs() {
        let here = |text: &str| text.bytes().map(|b| b == b'x').collect::<Vec<_>>();
        let run = |first, pages| Run { first, pages, rank: 7, seen: 1 };
        assert_eq!(runs(&here("xx--x"), 7), [run(0, 2), run(4, 1)]);
        assert_eq!(runs(&here("---"), 7), []);
        assert_eq!(runs(&[], 7), []);
    }

    #[test]
    fn what_lies_on_no_device_is_counted_and_taken_for_nothing_else() {
        // Everywhere a file system in memory.
        let Ok(root) = tempfile::tempdir_in("/dev/shm") else { return };
        fs::write(root.path().join("a"), vec![1; 20_000]).expect("room in memory");
        let taken = snapshot(&[root.path().to_owned()], "test", Path::new("/none")).expect("it is there");
        assert_eq!((taken.files, taken.elsewhere, taken.manifest.files.len()), (0, 1, 0));
    }

    #[test]
    fn a_file_just_written_is_in_the_snapshot_and_stale_once_changed() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("a");
        fs::write(&path, vec![1; 20_000]).expect("room on disk");
        let taken = snapshot(&[root.path().to_owned()], "test", Path::new("/none")).expect("it is there");
        if taken.manifest.files.is_empty() {
            return; // a file system that is not read ahead of
        }
        assert_eq!((taken.files, taken.manifest.file_pages()), (1, 5));
        assert_eq!(verify(&taken.manifest)[0].1, Verdict::Fresh);
        fs::write(&path, vec![1; 30_000]).expect("room on disk");
        assert_eq!(verify(&taken.manifest)[0].1, Verdict::Stale(Stale::Size));
    }
}
