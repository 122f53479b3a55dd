//! How much memory there is for caches: asked before one is made, because a program that takes more is killed without a word.
//!
//! A cache is touched bit by bit (or at once, where a ring pins it), so making one that is too large succeeds, and the end
//! comes later, from the kernel. Two things say how much there is: what the machine has left (`MemAvailable` counts what the
//! page cache would give back), and what the control groups of this process allow beside what their programs hold already
//! (version 2 `memory.max`, version 1 `memory.limit_in_bytes`; each group up to the root has a say).

use crate::error::ServeError;
use forerun_core::size::format_size;
use forerun_core::units::BLOCK_BYTES;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Memory for data of writes on their way in, of all exports together, bytes: see `INTAKE_BLOCKS` of the volume.
const INTAKE_BYTES: u64 = 8193 * BLOCK_BYTES;
/// What a server has beside caches, tables and intake with one export and the usual number of connections, bytes: inboxes and lists of
/// clients, threads, the samples of the live page, and what the allocator keeps.
const REST_BYTES: u64 = 12 << 20;
/// And for each connection beyond the usual number: an inbox of 128 KiB, and lists of answers.
const CONNECTION_BYTES: u64 = 192 << 10;
/// And for each export beyond the first: threads or a ring, samples, lists.
const EXPORT_BYTES: u64 = 2 << 20;
/// One in so many bytes of a cache beside it: marks, slots, lists by slot.
const BESIDE_ONE_IN: u64 = 100;

/// Beside each block that is held back from a member: its entry in the list of those, with what the list leaves empty, its marks and
/// its places in lists, bytes.
const HELD_BESIDE_BYTES: u64 = 128;
/// What write-back has beside those: threads or a ring for its journal, the list of its records, what it reads at the start, bytes.
const JOURNAL_BYTES: u64 = 6 << 20;

/// The most memory that a server with these caches takes, bytes: each cache with its table at its largest, and what is beside them.
/// `held_back` is what each export with write-back may hold back, and `more` how many connections there may be beyond the usual number.
pub(crate) fn bound(caches: &[u64], held_back: &[u64], more: u32) -> u64 {
    let of_export = |&cache: &u64| {
        let table = forerun_core::cache::table_bytes_max(cache / BLOCK_BYTES);
        cache.saturating_add(cache / BESIDE_ONE_IN).saturating_add(table)
    };
    let exports = caches.iter().map(of_export).fold(0, u64::saturating_add);
    let of_journal = |&bytes: &u64| {
        bytes.saturating_add(bytes / BLOCK_BYTES * HELD_BESIDE_BYTES).saturating_add(JOURNAL_BYTES)
    };
    let exports = held_back.iter().map(of_journal).fold(exports, u64::saturating_add);
    let more = u64::from(more) * CONNECTION_BYTES;
    let further = (caches.len() as u64).saturating_sub(1) * EXPORT_BYTES;
    exports.saturating_add(INTAKE_BYTES + REST_BYTES + more + further)
}

/// A limit of a control group of version 1 that is none, bytes: its default is the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// What there is, and who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Room {
    bytes: u64,
    who: String,
}

/// Refuses caches that may come to so many bytes, with all that belongs to them, if there is no room for that.
pub(crate) fn check(bound: u64) -> Result<(), ServeError> {
    match room(Path::new("/")) {
        Some(room) if bound > room.bytes => Err(ServeError::option("--cache", refusal(bound, &room))),
        _ => Ok(()),
    }
}

/// Refuses a cache of which there are no bytes, only the tables that an engine keeps of it, if there is no room for those.
pub(crate) fn check_tables(cache: u64) -> Result<(), String> {
    tables_fit(cache, room(Path::new("/")))
}

fn tables_fit(cache: u64, room: Option<Room>) -> Result<(), String> {
    let table = forerun_core::cache::table_bytes_max(cache / BLOCK_BYTES);
    let tables = table.saturating_add(cache / BESIDE_ONE_IN);
    match room {
        Some(room) if tables > room.bytes => Err(format!(
            "what an engine keeps of a cache of {} ({}) does not fit into {}, which is what {}: the head is damaged, or the log is of a \
             larger machine",
            format_size(cache),
            format_size(tables >> 20 << 20),
            format_size(room.bytes >> 20 << 20),
            room.who
        )),
        _ => Ok(()),
    }
}

fn refusal(bound: u64, room: &Room) -> String {
    // Whole MiB, as a person would write them.
    let round = |bytes: u64| format_size(bytes >> 20 << 20);
    format!(
        "{} that caches (of all exports together) and what belongs to them may take do not fit into {}, which is what {}: \
         give less cache (the dirty= of --write back counts too), or free memory",
        round(bound),
        round(room.bytes),
        room.who
    )
}

/// The least that anybody says there is, below this root; nothing where nobody says.
fn room(root: &Path) -> Option<Room> {
    let machine = read_to_string(root.join("proc/meminfo")).ok().and_then(|text| available(&text));
    let machine = machine.map(|bytes| Room { bytes, who: "this machine has left (MemAvailable)".into() });
    // Where /proc shows processes only (ProcSubset=pid of a unit) the kernel still says how much there is in all.
    let machine = machine.or_else(|| total(root));
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().filter_map(|line| group_of(root, line));
    groups.chain(machine).min_by_key(|room| room.bytes)
}

/// All memory of the machine that this process runs on; nothing for a root that is another's.
fn total(root: &Path) -> Option<Room> {
    let about = (root == Path::new("/")).then(rustix::system::sysinfo)?;
    // The type of its fields differs between machines.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "64 bits here, 32 elsewhere")]
    let bytes = (about.totalram as u64).checked_mul(u64::from(about.mem_unit))?;
    Some(Room { bytes, who: "this machine has in all".into() })
}

/// `MemAvailable:   12345 kB`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The room in a group and those above it: `HIERARCHY:CONTROLLERS:/PATH`, of version 2 without controllers.
fn group_of(root: &Path, line: &str) -> Option<Room> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (mount, limit, held) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "anon"),
        names if names.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    // In a container the path may be the host's, of which nothing is to be seen; the mount itself is the group then.
    let inner = mount.join(path.trim_start_matches('/'));
    let groups = inner.ancestors().take_while(|folder| folder.starts_with(&mount)).map(PathBuf::from);
    groups.filter_map(|folder| room_in(&folder, limit, held)).min_by_key(|room| room.bytes)
}

/// The limit of one group less what its programs hold; page cache makes room.
fn room_in(folder: &Path, limit: &str, held: &str) -> Option<Room> {
    // No limit is the word `max`, or a number that means none.
    let limit: u64 = read_to_string(folder.join(limit)).ok()?.trim().parse().ok()?;
    if limit >= NO_LIMIT {
        return None;
    }
    let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let held = stat.lines().find_map(|line| line.strip_prefix(held)?.strip_prefix(' ')?.parse::<u64>().ok());
    let bytes = limit.saturating_sub(held.unwrap_or(0));
    Some(Room { bytes, who: format!("its control group has left of {}", format_size(limit)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root of our own with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("in a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        folder
    }

    fn room_of(files: &[(&str, &str)]) -> Option<(u64, String)> {
        room(root(files).path()).map(|room| (room.bytes >> 20, room.who))
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal: 99 kB\nMemAvailable:    4194304 kB\nMemFree: 1 kB\n");

    #[test]
    fn a_machine_without_groups_has_what_it_has_left() {
        let (bytes, who) = room_of(&[MACHINE]).expect("it says so");
        assert_eq!(bytes, 4096);
        assert!(who.contains("MemAvailable"), "{who}");
        assert_eq!(room_of(&[]), None, "nobody says");
        // Of the machine that this is the kernel says at least what it has in all, also where /proc does not.
        let all = total(Path::new("/")).expect("it says so").bytes;
        assert!(all >= room(Path::new("/")).expect("it says so").bytes && all < 1 << 50, "{all}");
    }

    #[test]
    fn the_tightest_group_up_to_the_root_counts_less_what_it_holds() {
        let at = |name| format!("sys/fs/cgroup/{name}");
        let files = [
            ("proc/self/cgroup".to_owned(), "0::/a/b\n"),
            (at("a/memory.max"), "629145600\n"),
            (at("a/memory.stat"), "anon_thp 5\nanon 104857600\nfile 400000000\n"),
            (at("a/b/memory.max"), "max\n"),
        ];
        let mut files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        files.push(MACHINE);
        let (bytes, who) = room_of(&files).expect("it says so");
        assert_eq!(bytes, 500);
        assert!(who.contains("control group") && who.contains("600MiB"), "{who}");
    }

    #[test]
    fn groups_of_version_1_and_of_containers_are_found() {
        let limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        let files = [MACHINE, ("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/not-to-be-seen\n"), limit];
        assert_eq!(room_of(&files).map(|room| room.0), Some(1024));
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let files = [MACHINE, ("proc/self/cgroup", "4:memory:/\n"), none];
        assert_eq!(room_of(&files).map(|room| room.0), Some(4096));
    }

    #[test]
    fn the_bound_counts_caches_tables_and_what_is_beside_them() {
        let one = bound(&[64 << 20], &[], 0);
        assert!((64 << 20..=(64 << 20) + (64 << 20) / 100 + (65 << 20)).contains(&one), "{one}");
        let large = bound(&[1 << 30], &[], 0);
        assert!(large - (1 << 30) > 64 << 20, "the table of a large cache is not forgotten: {large}");
        let held = bound(&[64 << 20], &[64 << 20; 2], 0) - one;
        assert!((128 << 20..150 << 20).contains(&held), "what is held back counts: {held}");
        assert!(bound(&[64 << 20; 4], &[], 0) > 4 * (64 << 20) + 4 * (20 << 20));
        assert!(bound(&[64 << 20], &[], 448) > one && bound(&[u64::MAX; 2], &[], 0) == u64::MAX);
    }

    #[test]
    fn tables_of_a_cache_that_only_a_log_has_must_fit_too() {
        let room = || Some(Room { bytes: 8 << 30, who: "somebody has".into() });
        let why = tables_fit(8 << 40, room()).expect_err("no room");
        assert!(why.contains("a cache of 8TiB") && why.contains("8GiB, which is what somebody has"), "{why}");
        tables_fit(16 << 30, room()).expect("there is room");
        tables_fit(8 << 40, None).expect("nobody says");
    }

    #[test]
    fn the_refusal_names_both_sizes() {
        let why = refusal(2 << 30, &Room { bytes: 500 << 20, who: "somebody has".into() });
        assert!(why.contains("2GiB") && why.contains("500MiB"), "{why}");
        let why = check(u64::MAX).expect_err("no machine has it").to_string();
        assert!(why.starts_with("--cache: "), "{why}");
        check(1 << 20).expect("every machine has it");
    }
}
