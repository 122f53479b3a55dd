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
    /// Files and folders that could not be looked at.
    pub unreached: u64,
    /// The first of them, and why.
    pub first_unreached: Option<String>,
}

/// Characters of a path that are said: those that are too long for the system are too long to be read.
const SAID_MAX: usize = 200;

/// Looks at files, and at all files below folders, but for what is to be written. Links are not followed.
///
/// # Errors
/// What the system said of a path that was named, or that it is nothing that is ever in memory.
pub fn snapshot(paths: &[PathBuf], name: &str, output: &Path) -> io::Result<Snapshot> {
    let key = Key::Named { kind: "snapshot".into(), name: name.to_owned() };
    let mut snapshot = Snapshot {
        manifest: Manifest::new(key),
        files: 0,
        not_ours: 0,
        elsewhere: 0,
        unreached: 0,
        first_unreached: None,
    };
    snapshot.manifest.recordings = 1;
    let (volumes, mut known, mut left) = (Volumes::now(), BTreeSet::new(), ENTRIES_MAX);
    // What is to be written over is no more what it is now.
    known.extend(fs::metadata(output).ok().map(|about| (about.dev(), about.ino())));
    let mounts = Mounts::of_this_process();
    for path in paths {
        let path = named(path, &mounts)
            .map_err(|problem| io::Error::new(problem.kind(), format!("{}: {problem}", path.display())))?;
        let mut folders = vec![path];
        while let Some(at) = folders.pop() {
            let data = match fs::symlink_metadata(&at) {
                Ok(data) => data,
                Err(problem) => {
                    snapshot.leave_out(&at, &problem);
                    continue;
                }
            };
            left = left.saturating_sub(1);
            if data.is_dir() && left == 0 {
                snapshot.leave_out(&at, &io::Error::other("more files than are looked at"));
            } else if data.is_dir() {
                folders.extend(snapshot.inside(&at));
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

/// A path that was named, if it is one of files that may be in memory.
fn named(path: &Path, mounts: &Mounts) -> io::Result<PathBuf> {
    let path = path.canonicalize()?;
    let data = fs::metadata(&path)?;
    if !data.is_file() && !data.is_dir() {
        return Err(io::Error::other("neither a regular file nor a folder"));
    }
    match mounts.kind(&path).filter(|kind| volumes::is_never_cached(kind)) {
        Some(kind) => Err(io::Error::other(format!("files of {kind} are never in memory"))),
        None => Ok(path),
    }
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
    /// Something could not be looked at; what is gone by now is no loss.
    fn leave_out(&mut self, path: &Path, why: &io::Error) {
        if why.kind() == io::ErrorKind::NotFound {
            return;
        }
        self.unreached += 1;
        if self.first_unreached.is_none() {
            let name = path.display().to_string();
            let end = if name.chars().nth(SAID_MAX).is_some() { "…" } else { "" };
            let name: String = name.chars().take(SAID_MAX).collect();
            self.first_unreached = Some(format!("{name}{end}: {why}"));
        }
    }

    /// What is in a folder, the last first.
    fn inside(&mut self, folder: &Path) -> Vec<PathBuf> {
        let mut inside = Vec::new();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(problem) => {
                self.leave_out(folder, &problem);
                return inside;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) => inside.push(entry.path()),
                Err(problem) => self.leave_out(folder, &problem),
            }
        }
        inside.sort_unstable_by(|a, b| b.cmp(a));
        inside
    }

    fn take(&mut self, volume: &Volume, path: &Path, inode: u64) {
        let Some(mut file) = volumes::identify(volume, inode, Some(path)) else {
            // Else it has changed meanwhile.
            if let Err(problem) = resident(path) {
                self.leave_out(path, &problem);
            }
            return;
        };
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
    fn what_is_never_in_memory_is_refused_and_what_cannot_be_reached_is_counted() {
        let taken = |path: &Path| snapshot(&[path.to_owned()], "test", Path::new("/none"));
        for (path, why) in [
            ("/dev/null", "/dev/null: neither a regular file nor a folder"),
            ("/proc/self", "/proc/self: files of proc are never in memory"),
            ("/proc/version", "/proc/version: files of proc are never in memory"),
        ] {
            assert_eq!(taken(Path::new(path)).expect_err(path).to_string(), why);
        }
        let root = tempfile::tempdir().expect("a temporary folder");
        // Deeper than a path may be long, one name after the other; what made it takes it away.
        let name = "n".repeat(250);
        let script = r#"i=0; while [ $i -lt 18 ]; do mkdir "$1" && cd -P "$1" || exit 1; i=$((i+1)); done"#;
        let made = std::process::Command::new("bash")
            .args(["-c", script, "bash", &name])
            .current_dir(root.path())
            .stderr(std::process::Stdio::null())
            .status();
        let taken = taken(root.path()).expect("a folder");
        if made.is_ok_and(|status| status.success()) {
            assert_eq!(taken.unreached, 1);
            let first = taken.first_unreached.expect("one");
            assert!(first.contains("…: File name too long") && first.len() < 300, "{first}");
        }
        let gone = std::process::Command::new("rm").arg("-rf").arg(root.path()).status();
        assert!(gone.expect("rm").success());
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
