//! Lets Ctrl-C end a recording instead of losing it.
//!
//! The first SIGINT, SIGTERM or SIGHUP (the terminal was closed) sets a flag that [`mod@crate::record`] looks at; a second one
//! ends the process as usual, so that nobody is ever stuck. A hangup that is ignored, as under nohup(1), stays so.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// The last signal to end that came; 0 = none.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// A flag for [`crate::record::RecordOptions::stop`] that the next signal to end sets.
///
/// # Errors
/// What the system said when the handler was put in place.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in end_signals() {
        // In this order: the second signal finds the flag already set.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&CAME), number)?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Becomes readable whenever a signal to end comes; [`came`] says which. No signal ends the process any more.
///
/// # Errors
/// What the system said when the handler was put in place.
pub fn announced() -> io::Result<UnixStream> {
    let (told, tell) = UnixStream::pair()?;
    told.set_nonblocking(true)?;
    tell.set_nonblocking(true)?;
    for signal in end_signals() {
        // In this order: whoever is woken finds the number.
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&CAME), number)?;
        signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
    }
    Ok(told)
}

/// The last signal to end that came, if one did.
#[must_use]
pub fn came() -> Option<rustix::process::Signal> {
    let number = i32::try_from(CAME.load(Ordering::Relaxed)).ok()?;
    rustix::process::Signal::from_named_raw(number)
}

/// The signals that ask a program to end: SIGINT and SIGTERM, and SIGHUP unless whoever started it said that it is to stay.
#[must_use]
pub fn end_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hangup = (!is_ignored(&status, SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hangup).collect()
}

/// Whether a process ignores a signal, by its `/proc/PID/status`: `SigIgn` is a mask in hexadecimal, bit 0 is signal 1.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignores_stays_ignored() {
        let status = |mask: &str| format!("Name:\tforerun\nSigBlk:\tffffffffffffffff\nSigIgn:\t{mask}\n");
        assert!(is_ignored(&status("0000000000000001"), SIGHUP));
        assert!(is_ignored(&status("0000000000001001"), SIGHUP));
        assert!(!is_ignored(&status("0000000000001000"), SIGHUP));
        assert!(is_ignored(&status("0000000000004000"), SIGTERM));
        assert!(!is_ignored("", SIGHUP), "where the system does not say");
    }
}
