//! Loads whole files into the page cache, in windows, for a program that will read them or is reading them.
//!
//! The files become a manifest of all their pages, in the order in which they were named, and the replay does the rest:
//! requests of what one command moves, as many in flight as fill the device, each waited for. What is in flight never
//! exceeds a quarter of what the cgroup's limit leaves: pages are charged to whoever loads them, and a window beyond the limit
//! pushes out what nobody has read yet. With a command the replay stays so close before its reads; without, files are
//! loaded up to the budget and no further.

use crate::names::Mounts;
use crate::overlay;
use crate::volumes::{self, Volumes};
use forerun_manifest::manifest::PAGE_BYTES;
use forerun_manifest::{File, Key, Manifest, Run};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Parts between holes of a file that are looked for.
const PARTS_MAX: usize = 65_536;

/// What is to be loaded.
#[derive(Clone, Debug)]
pub struct Files {
    /// As a manifest.
    pub manifest: Manifest,
    /// The file systems that hold them.
    pub volumes: Volumes,
    /// Pages of all files.
    pub pages: u64,
    /// Pages that the budget leaves out.
    pub beyond: u64,
    mounts: Mounts,
    /// Which they are: device and inode.
    taken: BTreeSet<(u64, u64)>,
}

/// A path that cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct LoadError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Plans files, in their order, up to `pages_max`.
///
/// # Errors
/// [`LoadError`] for what is not there, may not be read, or is not a file.
pub fn files(paths: &[PathBuf], pages_max: u64) -> Result<Files, LoadError> {
    let key = Key::Named { kind: "load".into(), name: "files".into() };
    let mut files = Files {
        manifest: Manifest::new(key),
        volumes: Volumes::now(),
        pages: 0,
        beyond: 0,
        mounts: Mounts::of_this_process(),
        taken: BTreeSet::new(),
    };
    files.manifest.recordings = 1;
    for path in paths {
        files.take(path, pages_max).map_err(|source| LoadError { path: path.clone(), source })?;
    }
    files.manifest.tidy();
    Ok(files)
}

impl Files {
    fn take(&mut self, path: &Path, pages_max: u64) -> io::Result<()> {
        // Before it is opened, which waits for a pipe's other end.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file; name files, as in DIR/*"));
        }
        // Opened once, so that what may not be read is said now and not left out.
        let open = std::fs::File::open(path)?;
        let path = path.canonicalize()?;
        let below = overlay::below(&path, &self.mounts).filter(|below| *below != path);
        // Where this user may open that too.
        let below = below.and_then(|below| Some((std::fs::File::open(&below).ok()?, below)));
        let (open, path) = below.unwrap_or((open, path));
        let data = open.metadata()?;
        // Another name of the same file is the same pages.
        if !self.taken.insert((data.dev(), data.ino())) {
            return Ok(());
        }
        let volume =
            self.volumes.holding(&path).ok_or_else(|| io::Error::other("on no mounted file system"))?;
        if volumes::is_never_cached(&volume.kind) {
            return Err(io::Error::other(format!(
                "a file of {} is never in memory; name files of a disk",
                volume.kind
            )));
        }
        let rank = u32::try_from(self.manifest.files.len()).unwrap_or(u32::MAX);
        let left = pages_max.saturating_sub(self.pages);
        let (runs, pages, within) = cut(&written(&open, data.len()), left, rank);
        self.pages += pages;
        self.beyond += pages - within;
        if within == 0 {
            return Ok(());
        }
        let entry = volume.entry();
        let file = volumes::identify(&volume, data.ino(), Some(&path));
        let file = file.ok_or_else(|| io::Error::other("it changed while it was looked at"))?;
        let systems = &mut self.manifest.file_systems;
        let at = systems.iter().position(|known| *known == entry).unwrap_or_else(|| {
            systems.push(entry);
            systems.len() - 1
        });
        // A few file systems.
        self.manifest.files.push(File { file_system: at as u32, path, runs, ..file });
        Ok(())
    }
}

/// Runs of the first `left` pages of those that there are, how many there are, and how many those are.
fn cut(written: &[Range<u64>], left: u64, rank: u32) -> (Vec<Run>, u64, u64) {
    let (mut runs, mut pages, mut within) = (Vec::new(), 0, 0);
    for part in written {
        let whole = part.end - part.start;
        let taken = whole.min(left.saturating_sub(pages));
        pages += whole;
        within += taken;
        if taken > 0 {
            runs.push(Run { first: part.start, pages: taken, rank, seen: 1 });
        }
    }
    (runs, pages, within)
}

/// The pages of a file in which something was written: who reads a hole waits for nothing. All of them where the file system does not tell, and behind the
/// last part that is looked for.
fn written(file: &std::fs::File, bytes: u64) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < bytes {
        let data = match seek(file, SeekFrom::Data(at)) {
            _ if parts.len() >= PARTS_MAX => at,
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let hole = if parts.len() >= PARTS_MAX { Ok(bytes) } else { seek(file, SeekFrom::Hole(data)) };
        let end = hole.ok().filter(|&end| end > data).unwrap_or(bytes).min(bytes);
        let pages = data / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        match parts.last_mut().filter(|last| last.end >= pages.start) {
            Some(last) => last.end = pages.end,
            None => parts.push(pages),
        }
        at = end;
    }
    parts
}

/// Pages that may be in flight, or issued and unread: a quarter of what the cgroup's limit leaves, if it has one.
#[must_use]
pub fn window_pages() -> u64 {
    window_within(crate::memory::cgroup())
}

/// The same of what a limit leaves.
pub(crate) fn window_within(limit: Option<crate::memory::Limit>) -> u64 {
    let free = limit.map(|cgroup| cgroup.limit.saturating_sub(cgroup.used));
    free.map_or(u64::MAX, |free| (free / 4 / PAGE_BYTES).max(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_not_loaded_and_cost_nothing_of_the_budget() {
        use std::os::unix::fs::FileExt as _;
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = root.path().join("sparse");
        let file = std::fs::File::create(&path).expect("room on disk");
        file.set_len(16 << 20).expect("a hole");
        for at in [1 << 20, 9 << 20] {
            file.write_all_at(&[1; 8192], at).expect("room on disk");
        }
        file.sync_all().expect("written");
        let parts = written(&file, 16 << 20);
        if parts.len() == 1 && parts[0] == (0..4096) {
            return; // a file system that does not tell
        }
        let pages = parts.iter().map(|part| part.end - part.start).sum::<u64>();
        // Whatever grain the file system tells them in.
        assert!(
            parts.len() == 2 && pages < 1024 && parts[0].contains(&256) && parts[1].contains(&2304),
            "{parts:?}"
        );
        let planned = files(std::slice::from_ref(&path), pages - 1).expect("there");
        let loaded: u64 = planned.manifest.files[0].runs.iter().map(|run| run.pages).sum();
        assert_eq!((planned.pages, planned.beyond, loaded), (pages, 1, pages - 1));
        file.set_len(0).and_then(|()| file.set_len(1 << 20)).expect("nothing but a hole");
        assert_eq!(files(&[path], 1024).expect("there").pages, 0);
    }

    #[test]
    fn files_are_planned_in_their_order_up_to_the_budget() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| root.path().join(name);
        for (name, bytes) in [("a", 10_000), ("b", 9_000), ("c", 1)] {
            std::fs::write(path(name), vec![1; bytes]).expect("room on disk");
        }
        let planned = files(&[path("b"), path("a"), path("c"), path("b")], 4).expect("all there");
        let mut sizes: Vec<_> =
            planned.manifest.files.iter().map(|f| (f.runs[0].rank, f.runs[0].pages)).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [(0, 3), (1, 1)], "b whole, the first page of a, nothing of c");
        assert_eq!((planned.pages, planned.beyond), (7, 3), "b counts once");
        let error = files(&[path("none")], 4).expect_err("not there").to_string();
        assert!(error.contains("none: No such file"), "{error}");
        let error = files(&[root.path().to_owned()], 4).expect_err("a folder").to_string();
        assert!(error.contains("not a regular file"), "{error}");
        let error = files(&["/proc/self/status".into()], 4).expect_err("no page cache").to_string();
        assert!(error.contains("a file of proc is never in memory"), "{error}");
    }
}
