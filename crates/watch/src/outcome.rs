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
    #[error("{}: not on a file system of a device; `forerun watch --check` lists those that are", .path.display())]
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
