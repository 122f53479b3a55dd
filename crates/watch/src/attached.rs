//! The first event of a recording, opened while other things are made ready.
//!
//! Before the kernel counts for a process it looks at every change of process; that is switched on for the first event of any process and
//! off again with the last. Whoever opens the first waits some ten milliseconds, until all processors have heard of it, and a command that
//! is to be recorded waits with him. So a thread of ours opens one that counts nothing, as soon as it is known that there will be a recording.

use crate::ring;
use std::io;
use std::os::fd::OwnedFd;
use std::thread::{Builder, JoinHandle};

/// Begins to open it: the thread that does. What it opens is closed when that has ended and this is gone. None where that cannot be done: the first
/// event of the recording waits instead.
pub(crate) fn begin() -> Option<JoinHandle<io::Result<OwnedFd>>> {
    Builder::new().name("forerun-first".into()).spawn(ring::open_idle).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_counts_nothing_is_opened_where_events_may_be() {
        let opened = begin().expect("a thread").join().expect("no panic");
        match opened {
            Ok(_) => {}
            // No events here, or none for us.
            Err(error) => assert!(
                matches!(
                    error.raw_os_error(),
                    Some(libc::EACCES | libc::EPERM | libc::ENOSYS | libc::ENOENT)
                ),
                "{error}"
            ),
        }
    }
}
