//! What a recording tells while it runs and when it ends, of blocks and of files alike, and why there may be none.

use crate::ahead::AheadError;
use crate::device::DeviceError;
use crate::sample::SampleError;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// How far a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests so far.
    pub records: u64,
    /// Events that the kernel had to drop so far, as far as it has said so.
    pub lost: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Why what is recorded is no longer kept in a file beside, if that is so ([`crate::rescue`]).
    pub unkept: Option<io::ErrorKind>,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The command ended, with this status.
    Command(ExitStatus),
    /// A process that somebody else had started is no more.
    Gone,
    /// Somebody set the stop flag. A command was ended, and this is its own status.
    Stopped(Option<ExitStatus>),
    /// The time was over.
    Duration,
    /// [`RecordOptions::records_max`](crate::record::RecordOptions::records_max) requests were recorded.
    Full,
}

impl Ended {
    /// How the command ended, where it did so by itself or by what a user asked for.
    #[must_use]
    pub const fn status(&self) -> Option<ExitStatus> {
        match *self {
            Self::Command(status) => Some(status),
            Self::Stopped(status) => status,
            Self::Gone | Self::Duration | Self::Full => None,
        }
    }

    /// Whether the stop flag ended it.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// This kernel, or this user on it, cannot trace.
    #[error("cannot record: {what}; {remedy}")]
    Unsupported {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The command has no program.
    #[error("no command given after `--`")]
    NoCommand,
    /// The device is not there or not a device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A folder whose files are to be recorded is not there.
    #[error("{folder}: {source}")]
    Folder {
        /// As given.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file that keeps the recording while it is made cannot be written.
    #[error("{path}: {source}")]
    Rescue {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("starting {program}: {source}")]
    Start {
        /// As given.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// A call to the kernel failed while recording.
    #[error("reading events from the kernel: {0}")]
    Ring(#[from] io::Error),
    /// The kernel's record is not what its format says.
    #[error("reading events from the kernel: {0}")]
    Sample(#[from] SampleError),
}

/// What is to be done by root of a name space of users, to whom "run as root" says nothing.
pub(crate) const ROOT_OF_OTHERS: &str = "root of a name space of users (unshare -r, a rootless container) has no such right: run it outside of that, as root of the machine";

/// Whether this process is root, but of a name space of users and not of the machine.
pub(crate) fn is_root_of_others() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && is_of_others(&map)
}

/// Whether a list of users (`uid_map`) is of such a name space: the machine's has all of them, each under its own number.
fn is_of_others(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    !words.is_empty() && words != ["0", "0", "4294967295"]
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The kernel or a privilege is missing.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What knows patterns could not be made.
    #[error(transparent)]
    Patterns(#[from] AheadError),
    /// A path whose file system was to be watched holds none that can be.
    #[error("{}: not on a file system of a device; `forerun watch --check` says of each how its files are found", .path.display())]
    Place {
        /// As given.
        path: PathBuf,
    },
    /// Readers cannot be charged.
    #[error(
        "--charge reader: processes of ours cannot join cgroups: {0}; run it as root, or charge itself (--charge own)"
    )]
    Charge(#[source] io::Error),
    /// The log of inputs cannot be written.
    #[error("{}: {source}", .path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else gives windows from the same books.
    #[error("another forerun watch is at work with {}; end it first (forerun watch --observe may run beside it)", .folder.display())]
    Another {
        /// Where the books are.
        folder: PathBuf,
    },
    /// The books cannot be kept, so nothing is changed.
    #[error("the books of windows in {}: {source}; --state DIR puts them elsewhere, --observe needs none", .folder.display())]
    Books {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_a_name_space_of_users_is_told_from_the_machines() {
        assert!(!is_of_others("         0          0 4294967295\n"));
        assert!(is_of_others("         0       1000          1\n"));
        assert!(is_of_others("0 1000 1\n1 100000 65536\n"), "a rootless container");
        assert!(!is_of_others(""), "nobody tells");
    }
}
