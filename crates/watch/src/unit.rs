//! Units and cgroups by name, and the boot: whatever starts in one of them is read ahead of by what starts of it loaded before.
//!
//! A program is known by its arguments and the folder it is started in, and a service may have others each time: a new port, a new
//! release, a temporary folder. Its unit stays. A start of a unit is a program that somebody outside of it has started inside: what
//! its own processes start belongs to it. The boot is what the machine's first process starts in its first minutes; nobody starts that,
//! so it begins with the daemon.
//!
//! ```text
//!   exec ─▶ /proc/PID/cgroup: in a unit that was named? ─▶ its parent, too? ─▶ part of a start that is known already
//!                                       └─ no: a program alone      └─ no: a start of the unit
//! ```

use crate::sys;
use forerun_manifest::Key;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The machine's first process, or the container's.
pub(crate) const FIRST_PROCESS: u32 = 1;

/// Units and cgroups that can be named: each program that starts is held against all of them.
pub const UNITS_MAX: usize = 64;

/// What a unit's kind is taken for where its name has none.
const KIND: &str = ".service";

/// What units that hold others end with, in the tree of the service manager.
const SLICE: &str = ".slice";

/// Where the service manager looks for units, below the root.
const UNIT_FOLDERS: [&str; 9] = [
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "run/systemd/generator.early",
    "run/systemd/generator.late",
    "run/systemd/transient",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Where cgroups are mounted: the only hierarchy, or one folder for each of several.
const CGROUPS: &str = "/sys/fs/cgroup/";

/// A unit of the service manager, a cgroup, or the boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// By name, with its kind: `postgresql.service`, of the system's own manager.
    Named(String),
    /// By its path below the root of cgroups, without slashes at its ends; what is below it belongs to it.
    Cgroup(String),
    /// All that is started so long after the machine's first process was.
    Boot(Duration),
}

impl Unit {
    /// A unit by its name; without a kind it is a service. `None` where that is no name of one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name = if name.contains('.') { name.to_owned() } else { format!("{name}{KIND}") };
        let is_name = !name.starts_with('.') && !name.contains('/') && !name.contains(char::is_whitespace);
        is_name.then_some(Self::Named(name))
    }

    /// A cgroup by its path. `None` for the root, in which everything is.
    #[must_use]
    pub fn cgroup(path: &str) -> Option<Self> {
        // As a path of files it is known too: that of the only hierarchy, or of one of several.
        let path = path.strip_prefix(CGROUPS).unwrap_or(path).trim_matches('/');
        let is_plain = !path.is_empty() && path.split('/').all(|part| !part.is_empty() && part != "..");
        is_plain.then(|| Self::Cgroup(path.to_owned()))
    }

    /// What is told of it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::Cgroup(name) => name,
            Self::Boot(_) => "boot",
        }
    }

    /// Whether the service manager below `root` knows a unit of this name: as it is, or as an instance of a template; of a cgroup, whether it is there.
    /// Others may be made later. Where there is no such manager nothing is known.
    #[must_use]
    pub fn is_known(&self, root: &Path) -> bool {
        let name = match self {
            Self::Named(name) => name,
            Self::Cgroup(path) => return has_cgroup(&root.join(&CGROUPS[1..]), path),
            Self::Boot(_) => return true,
        };
        // These are made without a file, by their name or by programs.
        if name.ends_with(SLICE) || name.ends_with(".scope") {
            return true;
        }
        let template =
            name.split_once('@').and_then(|(of, rest)| Some(format!("{of}@{}", &rest[rest.rfind('.')?..])));
        let folders: Vec<_> =
            UNIT_FOLDERS.iter().map(|folder| root.join(folder)).filter(|folder| folder.is_dir()).collect();
        // A link to nothing, as of a unit that is masked, is one too.
        let has = |name: &String| folders.iter().any(|folder| folder.join(name).symlink_metadata().is_ok());
        folders.is_empty() || has(name) || template.as_ref().is_some_and(has)
    }

    /// How much is left of a boot; `None` where it is over, or nothing tells when it began, or this is none.
    #[must_use]
    pub fn boot_left(&self) -> Option<Duration> {
        let Self::Boot(most) = self else { return None };
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        most.checked_sub(age(&first_process()?, &uptime, rustix::param::clock_ticks_per_second())?)
    }

    /// The key of its manifest.
    #[must_use]
    pub fn key(&self) -> Key {
        let kind = match self {
            Self::Named(_) => "unit",
            Self::Cgroup(_) => "cgroup",
            Self::Boot(_) => return Key::Named { kind: "boot".into(), name: "system".into() },
        };
        Key::Named { kind: kind.into(), name: self.name().to_owned() }
    }

    /// Whether a process is in it, by the text of its `/proc/PID/cgroup`: in any hierarchy, since each may have other places.
    fn holds(&self, text: &str) -> bool {
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.map(|path| path.trim_matches('/')).any(|path| match self {
            // A user's own services are below a service of that user, and may have any name.
            Self::Named(name) => {
                path.split('/').find(|part| part == name || !part.ends_with(SLICE)) == Some(name)
            }
            Self::Cgroup(of) => {
                path.strip_prefix(of.as_str()).is_some_and(|below| !below.starts_with(|c| c != '/'))
            }
            Self::Boot(_) => false,
        })
    }
}

/// The unit that a process which has just begun its program starts; by place in `units`.
pub(crate) fn begun(pid: u32, units: &[Unit]) -> Option<usize> {
    if units.is_empty() {
        return None;
    }
    let text = |pid: u32| sys::text(format!("/proc/{pid}/cgroup")).ok();
    let own = text(pid)?;
    let at = units.iter().position(|unit| unit.holds(&own))?;
    let parent = parent_of(pid).and_then(text).unwrap_or_default();
    (!units[at].holds(&parent)).then_some(at)
}

/// Which boot this is: of the machine by its own number, of a container in it by when that began.
pub(crate) fn boot_id() -> Option<String> {
    let machine = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{} {}\n", machine.trim(), began(&first_process()?)?))
}

fn first_process() -> Option<String> {
    sys::text(format!("/proc/{FIRST_PROCESS}/stat")).ok()
}

/// When a process began, by its `stat`, in ticks since the machine's start. Behind the name, which may hold anything, the twentieth word is the 22nd field.
fn began(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// How long ago a process began, by its `stat`, the system's `uptime`, and ticks of a second.
fn age(stat: &str, uptime: &str, ticks: u64) -> Option<Duration> {
    let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "a hundred ticks or so a second")]
    let (began, tick) = (began(stat)? as f64 / ticks as f64, 1.0 / ticks as f64);
    // Both are cut to ticks. More than that ahead, the two are of different clocks, as in containers whose uptime is made up.
    (now + tick >= began).then(|| Duration::try_from_secs_f64((now - began).max(0.0)).ok())?
}

/// Who has started a process.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let status = sys::text(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}

/// Whether a cgroup is there, in any hierarchy.
fn has_cgroup(all: &Path, path: &str) -> bool {
    // The root of the second generation has this, and is the only one.
    if !all.is_dir() || all.join("cgroup.controllers").exists() {
        return !all.is_dir() || all.join(path).is_dir();
    }
    let mut hierarchies = fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path());
    hierarchies.any(|one| one.join(path).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_known_if_it_is_there_in_any_hierarchy_and_by_its_path_of_files() {
        let root = tempfile::tempdir().expect("a folder");
        let known = |path: &str| Unit::cgroup(path).expect("a path").is_known(root.path());
        assert!(known("a"), "where there are none nothing is known");
        fs::create_dir_all(root.path().join("sys/fs/cgroup/memory/a/b")).expect("made");
        assert!(known("a/b") && known("/sys/fs/cgroup/a/b/") && !known("b") && !known("memory/a"));
        fs::write(root.path().join("sys/fs/cgroup/cgroup.controllers"), "memory").expect("written");
        assert!(!known("a/b") && known("memory/a/b"));
        assert_eq!(Unit::cgroup("/sys/fs/cgroup/a"), Unit::cgroup("a"));
    }

    #[test]
    fn a_unit_is_known_by_its_file_a_link_or_a_template() {
        let root = tempfile::tempdir().expect("a folder");
        let known = |name: &str| Unit::named(name).expect("a name").is_known(root.path());
        assert!(known("db"), "without a service manager nothing is known");
        let folder = root.path().join("etc/systemd/system");
        fs::create_dir_all(&folder).expect("made");
        fs::write(folder.join("db.service"), "").expect("written");
        fs::write(folder.join("job@.service"), "").expect("written");
        std::os::unix::fs::symlink("/nowhere", folder.join("alias.service")).expect("linked");
        assert!(known("db") && known("alias") && known("job@one.two.service") && known("a.slice"));
        assert!(!known("bd") && !known("jbo@one.service") && !known("job.service"));
    }

    #[test]
    fn a_unit_is_a_part_of_the_path_of_a_cgroup_and_a_cgroup_is_a_beginning_of_it() {
        let unit = Unit::named("db").expect("a name");
        assert_eq!((unit.name(), &unit), ("db.service", &Unit::Named("db.service".into())));
        assert!(
            unit.holds("0::/system.slice/db.service\n")
                && unit.holds("1:name=systemd:/a.slice/a-b.slice/db.service/x\n0::/\n")
        );
        let own = "0::/user.slice/user-7.slice/user@7.service/app.slice/db.service\n";
        assert!(!unit.holds(own), "anybody may have one of that name");
        assert!(Unit::named("a.slice").is_some_and(|slice| slice.holds("0::/a.slice/db.service\n")));
        assert!(
            !unit.holds("0::/system.slice/db.service2\n") && !unit.holds("0::/system.slice/old-db.service\n")
        );
        let group = Unit::cgroup("/jobs/nightly/").expect("a path");
        assert!(group.holds("0::/jobs/nightly\n") && group.holds("5:memory:/jobs/nightly/one\n0::/\n"));
        assert!(!group.holds("0::/jobs/nightly2\n") && !group.holds("0::/jobs\n") && !group.holds(""));
        assert_eq!(Unit::named("user@1000.service"), Some(Unit::Named("user@1000.service".into())));
        for bad in ["", ".", ".service", "a/b", "a b"] {
            assert_eq!(Unit::named(bad), None, "{bad}");
        }
        for bad in ["", "/", "a/../b", "a//b"] {
            assert_eq!(Unit::cgroup(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_unit_and_a_cgroup_of_one_name_have_manifests_of_their_own() {
        let (unit, group) = (Unit::Named("a.slice".into()), Unit::Cgroup("a.slice".into()));
        assert_ne!(unit.key(), group.key());
        assert_eq!(unit.key(), Key::Named { kind: "unit".into(), name: "a.slice".into() });
    }

    #[test]
    fn a_boot_is_as_old_as_the_first_process_whatever_that_is_called() {
        let stat = format!("1 (a) b) S {} 700 0 1", ["0"; 18].join(" "));
        assert_eq!(age(&stat, "127.25 9.00\n", 100), Some(Duration::from_millis(120_250)));
        assert_eq!(age(&stat, "6.99 0\n", 100), Some(Duration::ZERO), "within a tick");
        assert_eq!(age(&stat, "6.5 0\n", 100), None, "of another clock");
        assert_eq!((age("1 (a) S 0", "6 0", 100), age(&stat, "", 100)), (None, None));
        let boot = Unit::Boot(Duration::MAX);
        assert!(boot.boot_left().is_some() && !boot.holds("0::/init.scope\n"), "nobody starts it");
        assert_eq!(Unit::Boot(Duration::ZERO).boot_left().unwrap_or_default(), Duration::ZERO);
        assert_eq!(Unit::Named("a".into()).boot_left(), None);
    }

    #[test]
    fn who_is_started_by_one_of_its_own_starts_no_unit() {
        let own = fs::read_to_string("/proc/self/cgroup").expect("of this process");
        let path = own.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find_map(Unit::cgroup);
        let Some(unit) = path else { return }; // all is in the root here
        let pid = std::process::id();
        let child = std::process::Command::new("sleep").arg("60").spawn();
        let Ok(mut child) = child else { return };
        assert_eq!(parent_of(child.id()), Some(pid));
        assert_eq!(begun(child.id(), &[unit]), None, "this process is in it, too");
        let elsewhere = Unit::Cgroup("nowhere/at/all".into());
        assert_eq!(begun(child.id(), &[elsewhere]), None);
        child.kill().and_then(|()| child.wait()).expect("ours");
    }
}
