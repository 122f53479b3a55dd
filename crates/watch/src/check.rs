//! What of `forerun watch` works on this machine for this user, and what is missing where it does not.
//!
//! Everything is tried and nothing inferred from versions: a tracepoint is opened, a handle is made and opened again, a range
//! of a file is asked about. Nothing is changed, and nothing stays.

use crate::daemon::{self, Sees};
use crate::frames::Frames;
use crate::layers;
use crate::names::Mounts;
use crate::outcome::RecordError;
use crate::reads::ReadPoints;
use crate::record::unsupported;
use crate::sees;
use crate::sensor::Sensor;
use crate::session;
use crate::sys;
use crate::touches::Points;
use crate::tracefs::{self, TracefsError};
use crate::volumes::{Volume, Volumes};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

/// Kinds of mounts that hold files of users and are not file systems of a device of ours: no event names their files, so they can be loaded and no more.
const TO_LOAD: [&str; 8] = ["nfs", "nfs4", "cifs", "9p", "virtiofs", "zfs", "bcachefs", "ceph"];
/// How files of those are found, where one has a device and no handles, and of an overlay.
const LOAD_ONLY: &str = "for load only";
const PATH_ONLY: &str = "by path only";
const LAYERS: &str = "by its layers";
/// Rights that matter, by number, and what each is for.
const RIGHTS: [(u32, &str, &str); 6] = [
    (38, "CAP_PERFMON", "tracepoints"),
    (39, "CAP_BPF", "reads of those who are helped, at less cost; before Linux 6.18 windows"),
    (2, "CAP_DAC_READ_SEARCH", "files by handle, and files of others"),
    (19, SHARES, "windows of open files of other programs"),
    (1, "CAP_DAC_OVERRIDE", "the device's setting, which is changed for some microseconds to give a window"),
    (3, "CAP_FOWNER", "what is cached of files of others; no change of access times"),
];
/// The right by which an open file of another process is shared.
const SHARES: &str = "CAP_SYS_PTRACE";
/// `CAP_SYS_ADMIN`, which contains the first two.
const SYS_ADMIN: u32 = 21;

/// Whether something works; if not, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What.
    pub name: &'static str,
    /// Whether it works.
    pub works: bool,
    /// How, or why not.
    pub detail: String,
}

/// How the files of one mount are found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// `ext4`, say.
    pub kind: String,
    /// `by inode`, `by bulkstat`, `by handle`, `by path only`, `by its layers` or `for load only`.
    pub by: &'static str,
    /// Whether its metadata can be read ahead through its device.
    pub metadata: bool,
    /// Whether its device turns.
    pub rotational: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Release of the kernel.
    pub kernel: String,
    /// What tells of reads.
    pub sensors: Vec<Item>,
    /// What can be done about them.
    pub actions: Vec<Item>,
    /// Where.
    pub places: Vec<Place>,
    /// Rights that this process has not, and what each would allow.
    pub missing: Vec<(&'static str, &'static str)>,
}

impl Check {
    /// Whether anything at all can be done here.
    #[must_use]
    pub fn anything(&self) -> bool {
        self.actions.iter().any(|item| item.works)
    }
}

/// Tries everything.
#[must_use]
pub fn check() -> Check {
    let (touches, refusal) = match Points::load() {
        Err(error) => (false, Some(unsupported(error))),
        Ok(points) => (points.touches, session::probe(&points.ids).err()),
    };
    let places = places();
    let missing = missing(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let shares = !missing.iter().any(|&(right, _)| right == SHARES);
    Check {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        sensors: sensors(touches, refusal.as_ref()),
        actions: actions(touches, refusal.as_ref(), &places, shares),
        places,
        missing,
    }
}

fn item(name: &'static str, works: bool, yes: &str, no: &str) -> Item {
    Item { name, works, detail: if works { yes } else { no }.to_owned() }
}

fn sensors(touches: bool, refusal: Option<&RecordError>) -> Vec<Item> {
    let (watch, why) = (refusal.is_none(), refusal.map_or_else(String::new, ToString::to_string));
    let read_ahead = read_ahead(refusal);
    let own = std::env::current_exe().and_then(fs::File::open);
    let cached = own.and_then(|file| sys::cached(file.as_fd(), 0, 4096));
    // EPERM is about that file, which is another's: the call is there.
    let cachestat = cached.is_ok() || cached.is_err_and(|error| error.raw_os_error() == Some(libc::EPERM));
    vec![
        item("tracepoints", watch, "of the page cache, by perf_event_open", &why),
        item(
            "touches",
            watch && touches,
            "what is touched is seen, not only what is loaded",
            match watch {
                true if Frames::open().is_ok() => {
                    "not on this kernel (Linux 6.12 has them): what was read ahead is looked for in memory (/proc/kpageflags)"
                }
                true => "not on this kernel (Linux 6.12 has them): only what is loaded is seen",
                false => "no tracepoints",
            },
        ),
        read_ahead.0,
        in_kernel(watch, touches, read_ahead.1),
        item(
            "cachestat",
            cachestat,
            "what is in memory is not read again",
            "Linux 6.5 has it; all is asked for, and the kernel passes over what is there",
        ),
    ]
}

/// Decisions of the kernel's own read-ahead, and whether programs in the kernel tell of them.
fn read_ahead(refusal: Option<&RecordError>) -> (Item, bool) {
    let it = |works, detail: &str| item("readahead group", works, detail, detail);
    if let Some(refusal) = refusal {
        return (it(false, &refusal.to_string()), false);
    }
    // Of an event that is not there the kernel is told apart from the user.
    match tracefs::load("readahead/page_cache_sync_ra") {
        Ok(_) => (it(true, "decisions of the kernel's own read-ahead"), false),
        Err(TracefsError::NoEvent { .. }) => match sees::by_probes(false) {
            Ok(_) => (it(true, "by programs in the kernel (Linux 6.18 has tracepoints of it)"), true),
            Err(error) => {
                let why = if ReadPoints::is_without() {
                    "left out here".to_owned()
                } else {
                    why_no_program(&error)
                };
                let no = format!(
                    "not on this kernel (Linux 6.18 has it), nor by programs in it ({why}): misses are made of what is loaded, and no windows are given"
                );
                (it(false, &no), false)
            }
        },
        Err(other) => (it(false, &other.to_string()), false),
    }
}

/// Programs in the kernel that tell of the reads of those who are helped; and of its read-ahead (`ahead`) where nothing else does.
fn in_kernel(watch: bool, touches: bool, ahead: bool) -> Item {
    let (works, detail) = match Sensor::new() {
        _ if !watch => (false, "no tracepoints".to_owned()),
        Ok(_) => (true, "reads of those who are helped, and of nobody else".to_owned()),
        Err(_) if ahead => (true, "decisions of the kernel's own read-ahead".to_owned()),
        Err(_) if !touches => (false, "no touches to be told of".to_owned()),
        Err(error) => {
            (false, format!("{}; perf events do it instead, which cost more", why_no_program(&error)))
        }
    };
    Item { name: "BPF", works, detail }
}

/// Why the kernel has no program of ours.
fn why_no_program(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => {
            "needs CAP_BPF and CAP_PERFMON, as root has them".to_owned()
        }
        io::ErrorKind::Unsupported | io::ErrorKind::NotFound | io::ErrorKind::InvalidData => {
            "this kernel tells nothing of its types (CONFIG_DEBUG_INFO_BTF), or these processes are numbered anew (a container)".to_owned()
        }
        _ => format!("the kernel does not take them ({error})"),
    }
}

fn actions(touches: bool, refusal: Option<&RecordError>, places: &[Place], shares: bool) -> Vec<Item> {
    let (watch, why) = (refusal.is_none(), refusal.map_or_else(String::new, ToString::to_string));
    let all = daemon::would_see();
    let not_all = all.as_ref().err().map_or_else(String::new, ToString::to_string);
    let seen = match all {
        Ok(Sees::Programs) => "programs that are known, whenever they start; patterns need touches, or root",
        Ok(Sees::Loads) => {
            "all programs: those that are known, patterns; windows need Linux 6.18, or programs in the kernel"
        }
        _ if !shares => "all programs: those that are known, patterns; windows want CAP_SYS_PTRACE",
        _ => "all programs: those that are known, windows of the kernel's own read-ahead, patterns",
    };
    let none = "no file system of a device is mounted here";
    let handles = places.iter().any(|place| ![PATH_ONLY, LOAD_ONLY, LAYERS].contains(&place.by));
    let replay = if handles { "files by handle" } else { "files by path" };
    let readahead = try_readahead();
    let refused = readahead.as_ref().err().map_or_else(String::new, ToString::to_string);
    vec![
        item(
            "watch -- COMMAND",
            watch && !places.is_empty(),
            if touches || Frames::open().is_ok() {
                "records, and reads ahead from the second run on"
            } else {
                "records, and reads ahead from the second run on, 32 MiB at most: touches are not seen"
            },
            if watch { none } else { &why },
        ),
        item("watch", all.is_ok(), seen, &not_all),
        item("manifest replay", readahead.is_ok() && !places.is_empty(), replay, none),
        item("load", readahead.is_ok(), "files that may be read", &refused),
    ]
}

/// Whether the kernel takes the call, on a page that is in memory: of this program.
fn try_readahead() -> io::Result<()> {
    let file = fs::File::open(std::env::current_exe()?)?;
    sys::readahead(file.as_fd(), 0, 4096)
}

fn places() -> Vec<Place> {
    let volumes = Volumes::now();
    let mut places: Vec<Place> = volumes.all().iter().map(place).collect();
    let mounts = Mounts::of_this_process();
    let mut known = BTreeSet::new();
    for mount in mounts.all() {
        if let Some(by) = by_of_others(&mount.kind)
            && known.insert(mount.at.clone())
        {
            places.push(Place {
                mount: mount.at.clone(),
                kind: mount.kind.clone(),
                by,
                metadata: false,
                rotational: false,
            });
        }
    }
    places
}

/// How files are found on a mount that is no file system of a device of ours, where it holds any.
fn by_of_others(kind: &str) -> Option<&'static str> {
    // `fusectl` is no file system that is served.
    let is_fuse = kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.");
    match kind {
        layers::KIND => Some(LAYERS),
        kind => (is_fuse || TO_LOAD.contains(&kind)).then_some(LOAD_ONLY),
    }
}

fn place(volume: &Volume) -> Place {
    let handles = opens_by_handle(volume).is_ok();
    let by = match (handles, volume.finds_by_inode()) {
        (true, true) if volume.tells_generations => "by bulkstat",
        (true, true) => "by inode",
        (true, false) => "by handle",
        (false, _) => PATH_ONLY,
    };
    let device = volume.block_device.as_deref().filter(|_| volume.has_metadata_pages());
    Place {
        mount: volume.mount.clone(),
        kind: volume.kind.clone(),
        by,
        metadata: device.is_some_and(|device| sys::open(device, libc::O_RDONLY).is_ok()),
        rotational: volume.rotational,
    }
}

/// Makes a handle of the root of a mount and opens it again.
fn opens_by_handle(volume: &Volume) -> io::Result<()> {
    let root = sys::open(&volume.mount, libc::O_RDONLY | libc::O_DIRECTORY)?;
    let (kind, bytes) = sys::handle_of(root.as_fd())?;
    sys::open_by_handle(root.as_fd(), kind, &bytes, libc::O_PATH).map(drop)
}

/// Rights that a process has not, by its `/proc/PID/status`.
fn missing(status: &str) -> Vec<(&'static str, &'static str)> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let has = |right: u32| {
        mask >> right & 1 == 1 || ([RIGHTS[0].0, RIGHTS[1].0].contains(&right) && mask >> SYS_ADMIN & 1 == 1)
    };
    RIGHTS.iter().filter(|(right, ..)| !has(*right)).map(|&(_, name, what)| (name, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_without_a_device_of_ours_are_told_by_what_can_be_done_with_their_files() {
        let by =
            ["overlay", "nfs4", "fuse", "fuse.sshfs", "fuseblk", "fusectl", "proc", "ext4"].map(by_of_others);
        let load = Some(LOAD_ONLY);
        assert_eq!(by, [Some(LAYERS), load, load, load, load, None, None, None]);
    }

    #[test]
    fn rights_are_read_from_the_status_of_the_process() {
        let names =
            |mask: &str| missing(&format!("CapEff:\t{mask}\n")).iter().map(|m| m.0).collect::<Vec<_>>();
        assert_eq!(names("000001ffffffffff"), [""; 0]);
        let all = [
            "CAP_PERFMON",
            "CAP_BPF",
            "CAP_DAC_READ_SEARCH",
            "CAP_SYS_PTRACE",
            "CAP_DAC_OVERRIDE",
            "CAP_FOWNER",
        ];
        assert_eq!(names("0000000000000000"), all);
        assert_eq!(names("0000004000080002"), ["CAP_BPF", "CAP_DAC_READ_SEARCH", "CAP_FOWNER"]);
        assert_eq!(names("000000000028000e"), [""; 0], "CAP_SYS_ADMIN traces too");
        assert_eq!(missing("").len(), 6);
    }

    #[test]
    fn what_it_says_works_is_what_the_recorder_can() {
        let check = check();
        let of = |name: &str| check.sensors.iter().find(|item| item.name == name).expect("listed").works;
        let recorded = crate::follow::follow(
            &crate::follow::FollowOptions {
                command: vec!["true".into()],
                process: None,
                gate: std::sync::Arc::default(),
                charge: crate::payers::Charge::default(),
                store: None,
                key: None,
                given: None,
                scheme: None,
                patterns: false,
                replay: false,
                bpf: true,
                stop: None,
            },
            &mut |_| {},
        );
        assert_eq!(of("tracepoints"), recorded.is_ok());
        assert!(check.sensors.iter().chain(&check.actions).all(|item| !item.detail.is_empty()), "{check:?}");
    }
}
