//! Sockets that the service manager opened for us: it hands over file numbers from 3 on, which only an unsafe call
//! turns into owned files. The protocol is three variables of the environment (sd_listen_fds(3)).
//!
//! The numbers are ours by promise alone. A manager (or a script that plays one) that promises more than it opened would have us
//! take numbers that belong to files of our own. So they are taken before anything is opened, and each is
//! looked at: it must be there, and be a stream socket that listens.

use rustix::net::{AddressFamily, SocketType, getsockname, sockopt};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// First file number of those handed over.
const FIRST: i32 = 3;
/// Most sockets that are taken over: more than one service listens on.
const SOCKETS_MAX: i64 = 16;

/// What was taken, until somebody listens on it.
static TAKEN: Mutex<Option<Result<Vec<OwnedFd>, String>>> = Mutex::new(None);

/// Takes the sockets that were handed to this process. To be called before anything else opens a file; what is wrong
/// with them is said to whoever wants to listen on them.
pub fn take_inherited_sockets() {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.is_none() {
        *taken = Some(take());
    }
}

/// The listening sockets that were handed to this process, in order. Empty when there are none, or they were given out already.
pub(crate) fn inherited_sockets() -> Result<Vec<OwnedFd>, String> {
    take_inherited_sockets();
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    taken.replace(Ok(Vec::new())).unwrap_or_else(|| Ok(Vec::new()))
}

fn take() -> Result<Vec<OwnedFd>, String> {
    let said = |name: &str| std::env::var(name).ok();
    let count = promised(said("LISTEN_PID").as_deref(), said("LISTEN_FDS").as_deref(), std::process::id())?;
    (FIRST..FIRST + count).map(adopt).collect()
}

/// How many sockets are promised to the process of this number.
fn promised(pid: Option<&str>, count: Option<&str>, own: u32) -> Result<i32, String> {
    if pid.and_then(|text| text.parse::<u32>().ok()) != Some(own) {
        return Ok(0);
    }
    let text = count.unwrap_or("0");
    match text.parse::<i64>() {
        Ok(count) if (0..=SOCKETS_MAX).contains(&count) => Ok(count as i32),
        _ => Err(format!("LISTEN_FDS is `{text}`: it must be a number from 0 to {SOCKETS_MAX}")),
    }
}

/// Makes a file number ours, if it is a socket that listens.
fn adopt(number: i32) -> Result<OwnedFd, String> {
    // SAFETY: asks about a file number; a wrong one is answered with an error.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return Err(format!("file number {number} was promised (LISTEN_FDS) and is not open"));
    }
    // SAFETY: the number is open (above), and by the protocol nobody else in this process owns it: nothing was opened before.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    let stream = sockopt::socket_type(&file).is_ok_and(|kind| kind == SocketType::STREAM);
    let family = getsockname(&file).map(|name| name.address_family());
    let known = matches!(family, Ok(AddressFamily::UNIX | AddressFamily::INET | AddressFamily::INET6));
    if stream && known && sockopt::socket_acceptconn(&file).unwrap_or(false) {
        return Ok(file);
    }
    let kind = "a socket on which one can listen (ListenStream= of the .socket unit)";
    Err(format!("file number {number}, which was handed over, is not {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_promised_to_others_is_not_ours_and_nonsense_is_refused() {
        assert_eq!(promised(None, Some("1"), 7), Ok(0));
        assert_eq!(promised(Some("8"), Some("1"), 7), Ok(0));
        assert_eq!(promised(Some("7"), Some("2"), 7), Ok(2));
        assert_eq!(promised(Some("7"), None, 7), Ok(0));
        for wrong in ["-1", "17", "x", "", "99999999999999999999"] {
            assert!(promised(Some("7"), Some(wrong), 7).is_err(), "{wrong}");
        }
    }
}
