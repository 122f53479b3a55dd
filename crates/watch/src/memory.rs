//! How much memory there is to load files into: what the machine has available, and what the cgroup's limit leaves.
//!
//! Pages of files are charged to the cgroup of whoever loads them, so its limit is the budget. Both generations of
//! cgroups are read, up to the root; where nothing limits, the machine's `MemAvailable` does.

use crate::sys;
use std::fs;
use std::path::{Path, PathBuf};

/// A limit of memory and what is charged against it, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most.
    pub limit: u64,
    /// Charged now, without pages of files that can be dropped at once.
    pub used: u64,
}

/// Bytes that can be loaded without pushing anything out: the least over machine and cgroups.
#[must_use]
pub fn available() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = available_in(&meminfo).unwrap_or(u64::MAX);
    cgroup().map_or(machine, |cgroup| machine.min(cgroup.limit.saturating_sub(cgroup.used)))
}

/// The tightest limit of this process's cgroups.
#[must_use]
pub fn cgroup() -> Option<Limit> {
    of_text(&sys::text("/proc/self/cgroup").unwrap_or_default())
}

/// Pages of files that this process's cgroup had, lost and loaded again, and the bytes of its limit; `None` where it has no limit of its own: what
/// many share is lost and loaded again for many reasons.
pub(crate) fn came_back() -> Option<(u64, u64)> {
    let text = sys::text("/proc/self/cgroup").unwrap_or_default();
    let folder = charged(&text)?;
    let own = [FIRST, SECOND].iter().find_map(|names| limit(&folder, names))?;
    came_back_of(&folder, own.limit)
}

fn came_back_of(folder: &Path, limit: u64) -> Option<(u64, u64)> {
    let stat = fs::read_to_string(folder.join("memory.stat")).ok()?;
    Some((row(&stat, "workingset_refault_file")?, limit))
}

/// The tightest limit of another process, which pays for what the kernel reads ahead of it, and the folder of the cgroup whose limit it is.
pub(crate) fn cgroup_of(pid: u32) -> Option<(PathBuf, Limit)> {
    tightest(&sys::text(format!("/proc/{pid}/cgroup")).unwrap_or_default())
}

/// The cgroup of a process or thread that its memory is charged to, as a folder.
pub(crate) fn folder_of(pid: u32) -> Option<PathBuf> {
    charged(&sys::text(format!("/proc/{pid}/cgroup")).unwrap_or_default())
}

/// Where there are cgroups of both generations, memory is charged in the one that names it.
fn charged(text: &str) -> Option<PathBuf> {
    let of = |generation: fn(&str) -> bool| {
        folders(text).into_iter().find(|(_, _, names)| generation(names[0])).map(|(_, folder, _)| folder)
    };
    of(|limit| limit == FIRST[0]).or_else(|| of(|limit| limit == SECOND[0]))
}

fn of_text(text: &str) -> Option<Limit> {
    tightest(text).map(|(_, limit)| limit)
}

fn tightest(text: &str) -> Option<(PathBuf, Limit)> {
    let all = folders(text).into_iter().flat_map(|(root, folder, names)| {
        let up: Vec<PathBuf> =
            folder.ancestors().take_while(|at| at.starts_with(&root)).map(Into::into).collect();
        up.into_iter().filter_map(move |at| limit(&at, &names).map(|limit| (at, limit)))
    });
    all.min_by_key(|(_, limit)| limit.limit.saturating_sub(limit.used))
}

/// Names of the files with limit, use and statistics.
type Names = [&'static str; 3];
/// Of both generations.
const FIRST: Names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat"];
const SECOND: Names = ["memory.max", "memory.current", "memory.stat"];

/// Root and folder of each hierarchy that limits memory, by the text of `/proc/self/cgroup`.
fn folders(text: &str) -> Vec<(PathBuf, PathBuf, Names)> {
    let folder = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let (root, names) = if controllers.is_empty() {
            ("/sys/fs/cgroup", SECOND)
        } else if controllers.split(',').any(|name| name == "memory") {
            ("/sys/fs/cgroup/memory", FIRST)
        } else {
            return None;
        };
        Some((PathBuf::from(root), Path::new(root).join(path), names))
    };
    text.lines().filter_map(folder).collect()
}

fn limit(folder: &Path, [limit, used, stat]: &Names) -> Option<Limit> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // `max`, and a number beyond all memory, are no limits.
    let limit = number(limit).filter(|&limit| limit < 1 << 60)?;
    let stat = fs::read_to_string(folder.join(stat)).unwrap_or_default();
    let files: u64 =
        ["total_inactive_file", "total_active_file"].iter().filter_map(|name| row(&stat, name)).sum();
    let files = if files > 0 {
        files
    } else {
        ["inactive_file", "active_file"].iter().filter_map(|name| row(&stat, name)).sum()
    };
    Some(Limit { limit, used: number(used)?.saturating_sub(files) })
}

/// The number behind a name.
fn row(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_cgroups_are_found() {
        let text = "12:cpu,cpuacct:/a\n5:memory:/system/db\n0::/unified\n";
        let found: Vec<PathBuf> = folders(text).into_iter().map(|(_, folder, _)| folder).collect();
        assert_eq!(
            found,
            [Path::new("/sys/fs/cgroup/memory/system/db"), Path::new("/sys/fs/cgroup/unified")]
        );
    }

    #[test]
    fn memory_is_charged_in_the_generation_that_names_it() {
        let both = "0::/unified\n5:memory:/system/db\n";
        assert_eq!(charged(both).as_deref(), Some(Path::new("/sys/fs/cgroup/memory/system/db")));
        assert_eq!(charged("0::/db\n").as_deref(), Some(Path::new("/sys/fs/cgroup/db")));
        assert_eq!(charged("3:cpu:/a\n"), None);
    }

    #[test]
    fn a_limit_counts_without_the_pages_that_can_be_dropped() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).expect("room on disk");
        let names = ["memory.max", "memory.current", "memory.stat"];
        write("memory.max", "max\n");
        assert_eq!(limit(root.path(), &names), None);
        write("memory.max", "1000\n");
        write("memory.current", "700\n");
        write("memory.stat", "anon 1\ninactive_file 300\nactive_file 200\n");
        assert_eq!(limit(root.path(), &names), Some(Limit { limit: 1000, used: 200 }));
        assert_eq!(came_back_of(root.path(), 1000), None, "not told");
        write("memory.stat", "workingset_refault_anon 3\nworkingset_refault_file 5\n");
        assert_eq!(came_back_of(root.path(), 1000), Some((5, 1000)));
    }

    #[test]
    fn what_is_available_is_read_in_kib() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available_in("nothing"), None);
        assert!(available() > 0);
    }
}
