//! Sockets that the service manager opened for us: it hands over file numbers from 3 on, which only an unsafe call
//! turns into owned files. The protocol is three variables of the environment (sd_listen_fds(3)).

use std::os::fd::{FromRawFd as _, OwnedFd};

/// First file number of those handed over.
const FIRST: i32 = 3;
/// Most sockets that are taken over: more than one service listens on.
const SOCKETS_MAX: i32 = 16;

/// The listening sockets that were handed to this process, in order. Empty when there are none. To be called once, before
/// anything else opens a file.
pub(crate) fn inherited_sockets() -> Vec<OwnedFd> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i64>().ok());
    if number("LISTEN_PID") != Some(i64::from(std::process::id())) {
        return Vec::new();
    }
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, i64::from(SOCKETS_MAX)) as i32;
    (FIRST..FIRST + count)
        .filter(|&fd| {
            // SAFETY: asks about a file number; a wrong one is answered with an error.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) == 0 }
        })
        .map(|fd| {
            // SAFETY: the number is open (above), and by the protocol nobody else in this process owns it.
            unsafe { OwnedFd::from_raw_fd(fd) }
        })
        .collect()
}
