//! Finds the kernel's list of tracepoints.
//!
//! tracefs is a small file system with one folder for each tracepoint. It is mounted at a well-known place on
//! most systems, below debugfs on older ones, and not at all in many containers and minimal images. We only
//! read from it. Where it is not mounted, root gets a mount of its own that no other process sees and that is gone with
//! this one (`fsmount`, Linux 5.2); others are told how to mount it.

use crate::format::{Format, FormatError};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where distributions mount it, in the order in which they are tried before `/proc/self/mounts`.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Why a tracepoint could not be looked up.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// No tracefs is mounted, or the kernel has none.
    #[error("tracefs is not mounted; as root: mount -t tracefs tracefs /sys/kernel/tracing")]
    NotMounted,
    /// There is no `/proc`, by which a mount of our own would be reached.
    #[error("/proc is not mounted; as root: mount -t proc proc /proc")]
    NoProc,
    /// It is there, but not for us.
    #[error("no permission to read {path}; run as root")]
    Denied {
        /// The file or folder.
        path: PathBuf,
    },
    /// This kernel does not have the tracepoint.
    #[error("this kernel has no tracepoint {event}")]
    NoEvent {
        /// `group/name`.
        event: String,
    },
    /// Its description could not be read.
    #[error("reading {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its description makes no sense to us.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Tracepoints that this process does without, by the beginning of their names; and the variable of the environment that names some, between commas.
static WITHOUT: Mutex<&[&str]> = Mutex::new(&[]);
const WITHOUT_VARIABLE: &str = "FORERUN_WITHOUT_TRACEPOINTS";

/// While there is one, this process has no tracepoints whose names begin so: tests see what an older kernel tells without having one.
#[doc(hidden)]
#[derive(Debug)]
pub struct Without(());

impl Without {
    /// What Linux 6.18 has and 6.12 has not.
    pub const OF_6_12: &[&str] = &["readahead/"];
    /// What Linux 6.12 has and 6.1 has not, beside.
    pub const OF_6_1: &[&str] = &[
        "readahead/",
        "filemap/mm_filemap_fault",
        "filemap/mm_filemap_get_pages",
        "filemap/mm_filemap_map_pages",
    ];

    /// From now on, for the whole process.
    #[must_use]
    pub fn names(begin: &'static [&'static str]) -> Self {
        *WITHOUT.lock().unwrap_or_else(PoisonError::into_inner) = begin;
        Self(())
    }
}

impl Drop for Without {
    fn drop(&mut self) {
        *WITHOUT.lock().unwrap_or_else(PoisonError::into_inner) = &[];
    }
}

/// Looks up tracepoint `event`, as `group/name`, in the tracefs of this machine.
///
/// # Errors
/// See [`TracefsError`]; each one says what to do.
pub fn load(event: &str) -> Result<Format, TracefsError> {
    if is_left_out(event) {
        return Err(TracefsError::NoEvent { event: event.to_owned() });
    }
    load_from(&root()?, event)
}

/// Whether this process does without a tracepoint.
pub(crate) fn is_left_out(event: &str) -> bool {
    static NAMED: OnceLock<String> = OnceLock::new();
    let named = NAMED.get_or_init(|| std::env::var(WITHOUT_VARIABLE).unwrap_or_default());
    let named = named.split(',').filter(|name| !name.is_empty());
    let without = *WITHOUT.lock().unwrap_or_else(PoisonError::into_inner);
    without.iter().copied().chain(named).any(|name| event.starts_with(name))
}

/// The folder where tracefs is mounted. Where it was found once, it is.
fn root() -> Result<PathBuf, TracefsError> {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(found.clone());
    }
    look_for_root().inspect(|found| _ = FOUND.set(found.clone()))
}

fn look_for_root() -> Result<PathBuf, TracefsError> {
    let mounts = crate::sys::text("/proc/self/mounts").unwrap_or_default();
    let places = PLACES.iter().map(PathBuf::from).chain(mounted(&mounts));
    let mut denied = None;
    for place in places {
        match std::fs::metadata(place.join("events")) {
            Ok(_) => return Ok(place),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = Some(place),
            Err(_) => {}
        }
    }
    if let Some(place) = detached() {
        let is_there = place.join("events").exists();
        return if is_there { Ok(place) } else { Err(no_events(Path::new("/proc/self/fd"))) };
    }
    Err(denied.map_or(TracefsError::NotMounted, |path| TracefsError::Denied { path }))
}

/// Why a mount of our own has no list.
fn no_events(descriptors: &Path) -> TracefsError {
    if descriptors.exists() { TracefsError::NotMounted } else { TracefsError::NoProc }
}

/// A mount that only this process has, and that ends with it; `None` where the kernel or a privilege is missing.
fn detached() -> Option<PathBuf> {
    static MOUNT: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let mount = MOUNT.get_or_init(|| {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
        fsconfig_create(&context).ok()?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).ok()
    });
    mount.as_ref().map(|mount| PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())))
}

/// The mount points of tracefs in the text of a mounts file.
fn mounted(mounts: &str) -> Vec<PathBuf> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|f| f.len() > 2 && f[2] == "tracefs").map(|f| PathBuf::from(f[1])).collect()
}

fn load_from(root: &Path, event: &str) -> Result<Format, TracefsError> {
    let path = root.join("events").join(event).join("format");
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Format::parse(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(TracefsError::NoEvent { event: event.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(TracefsError::Denied { path }),
        Err(source) => Err(TracefsError::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::BIO_QUEUE_6_18;

    #[test]
    fn a_tracepoint_is_read_from_its_folder_and_a_missing_one_is_named() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("events/block/block_bio_queue");
        std::fs::create_dir_all(&folder).expect("room on disk");
        std::fs::write(folder.join("format"), BIO_QUEUE_6_18).expect("room on disk");
        assert_eq!(load_from(root.path(), "block/block_bio_queue").map(|f| f.id).ok(), Some(2097));
        let error = load_from(root.path(), "block/nothing").expect_err("not there");
        assert!(error.to_string().contains("no tracepoint block/nothing"), "{error}");
    }

    #[test]
    fn a_mount_of_our_own_that_cannot_be_reached_says_that_there_is_no_proc() {
        assert!(matches!(no_events(Path::new("/proc/self/fd")), TracefsError::NotMounted));
        assert!(no_events(Path::new("/nowhere/self/fd")).to_string().contains("mount -t proc"));
    }

    #[test]
    fn a_tracefs_mounted_in_an_unusual_place_is_found() {
        let mounts = "proc /proc proc rw 0 0\nnone /mnt/t tracefs rw 0 0\nbroken\n";
        assert_eq!(mounted(mounts), vec![PathBuf::from("/mnt/t")]);
    }
}
