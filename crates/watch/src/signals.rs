//! Lets Ctrl-C end a recording instead of losing it.
//!
//! The first SIGINT, SIGTERM or SIGHUP (the terminal was closed) sets a flag that [`mod@crate::record`] looks at; a second one, half a second
//! later or more, ends the process as usual, so that nobody is ever stuck. What comes sooner is the first once more: timeout(1) sends each signal twice,
//! to the process and to its group. A hangup that is ignored, as under nohup(1), stays so.
//!
//! What asks a program for something else (SIGQUIT, SIGUSR1, SIGUSR2) is passed on to the command while one runs, so that nobody loses
//! it by being watched. Of a terminal's the command has got it by itself.
#![expect(unsafe_code, reason = "signal, sigaction and kill in a handler have no safe interface")]

use libc::SIGXFSZ;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once};

/// The last signal to end that came; 0 = none.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// The command that signals are passed on to; 0 = none.
static COMMAND: AtomicI32 = AtomicI32::new(0);

/// Signals that came before there was a command to pass them on to: bit 0 is signal 1.
static WAITING: AtomicU64 = AtomicU64::new(0);

/// When the first signal to end came, in nanoseconds of the clock that never goes back; 0 = none has.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// Signals to end that come within so many nanoseconds are one.
const TOGETHER: u64 = 500_000_000;

/// Signals that are for the command.
const PASSED_ON: [i32; 3] = [SIGQUIT, SIGUSR1, SIGUSR2];

/// From now on the end of a child is told to us, whatever whoever started us said: where SIGCHLD is ignored, nobody learns how a child ended.
pub(crate) fn wait_for_children() {
    // SAFETY: the default action, before there is a child.
    unsafe { libc::signal(SIGCHLD, libc::SIG_DFL) };
}

/// From now on signals that ask a program for something other than its end are for a command that is about to begin, unless we are to ignore
/// them. It begins with what they do by default, as a handler does not outlive an exec.
pub(crate) fn keep_for_command() {
    static ONCE: Once = Once::new();
    WAITING.store(0, Ordering::SeqCst);
    ONCE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        for signal in PASSED_ON.into_iter().filter(|&signal| !is_ignored(&status, signal)) {
            // SAFETY: all zero is no flag, no mask and no handler, which are set below.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = keep as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: the action outlives the call, and its handler takes what SA_SIGINFO gives it. Where the system refuses it, the signal does what it did.
            unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        }
    });
}

/// The command has begun: it gets what came since [`keep_for_command`], and what comes.
pub(crate) fn pass_on_to(child: &Child) {
    COMMAND.store(child.id().cast_signed(), Ordering::SeqCst);
    pass_on_waiting();
}

/// Keeps a signal for the command, unless a terminal gave it to the command as well, and passes on what waits.
extern "C" fn keep(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler of SA_SIGINFO what it is about, for as long as it runs.
    let is_of_terminal = unsafe { (*about).si_code == libc::SI_KERNEL };
    if !is_of_terminal {
        WAITING.fetch_or(1 << (signal - 1), Ordering::SeqCst);
        pass_on_waiting();
    }
}

/// Gives the command what waits for it, if it has begun. Whoever writes the later of the two, its number or the signal, finds the other.
fn pass_on_waiting() {
    let command = COMMAND.load(Ordering::SeqCst);
    if command <= 0 {
        return;
    }
    let waiting = WAITING.swap(0, Ordering::SeqCst);
    for signal in PASSED_ON.into_iter().filter(|signal| waiting >> (signal - 1) & 1 == 1) {
        // SAFETY: kill(2) may be called in a handler, and the number is that of a child that nobody has waited for.
        unsafe { libc::kill(command, signal) };
    }
}

/// The command has ended: what came too late for it is for nobody.
pub(crate) fn pass_on_no_more() {
    COMMAND.store(0, Ordering::SeqCst);
}

/// From now on a file that may not grow (`ulimit -f`) is an error to who writes it, as a full disk is, and not the end of the process.
/// Commands that are begun do not inherit it: no handler outlives an exec.
///
/// # Errors
/// What the system said when the handler was put in place.
pub fn outlive_file_limits() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// A flag for [`crate::record::RecordOptions::stop`] that the next signal to end sets.
///
/// # Errors
/// What the system said when the handler was put in place.
pub fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in end_signals() {
        let is_enough = move || {
            if is_second(&FIRST, now()) {
                // It does not come back, unless the signal is none that ends a process.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        };
        // SAFETY: it does what a handler may: reads a clock, exchanges an atomic, and ends the process.
        unsafe { signal_hook::low_level::register(signal, is_enough)? };
        let number = usize::try_from(signal).unwrap_or_default();
        signal_hook::flag::register_usize(signal, Arc::clone(&CAME), number)?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Nanoseconds of the clock that never goes back, not 0.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()).max(1)
}

/// Whether a signal to end that comes now is another than the first, which it is from now on if there was none.
fn is_second(first: &AtomicU64, now: u64) -> bool {
    let before = first.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    before.is_err_and(|first| now.saturating_sub(first) >= TOGETHER)
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
    fn two_signals_at_once_are_one() {
        let first = AtomicU64::new(0);
        let later = |by: u64| is_second(&first, 7 + by);
        assert!(!later(0) && !later(0) && !later(TOGETHER - 1));
        assert!(later(TOGETHER) && later(u64::MAX - 7));
        assert!(!later(1), "as late as the first");
    }

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
