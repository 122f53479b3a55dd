//! What a device did not read of a replay that somebody waits for: the first file, and how much in all.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What was not read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct Unread {
    /// The first file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
    /// Pages of requests that failed, of all files.
    pub pages: u64,
}

/// Where workers say it.
#[derive(Debug, Default)]
pub(super) struct Troubles(Mutex<Option<Unread>>);

impl Troubles {
    /// So many pages of a file could not be read.
    pub(super) fn note(&self, file: &OwnedFd, pages: u64, source: io::Error) {
        let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let path = std::fs::read_link(name).unwrap_or_default();
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(Unread { path, source, pages: 0 }).pages += pages;
    }

    /// All of it.
    pub(super) fn take(&self) -> Option<Unread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
