//! Closes tracepoints behind a command that has ended, so that whoever waits for it does not wait for them.
//!
//! The last descriptor of a tracepoint takes some 40 ms to close: the kernel waits until nobody can be in the middle of it any more, for one
//! after the other. A command that reads for a quarter of a second would take half as long again. So a process is left behind that has these
//! descriptors and nothing else; it ends some time after ours are closed, and closing is done on its time. Where none can be made, we close
//! and wait.
//!
//! While one process closes tracepoints no other can open any: a command that is run again at once would wait at its start for what it was
//! spared at its end. So what is left behind rests first ([`REST_MS`]). Meanwhile the next run opens tracepoints that are open still, which takes no
//! time, and closing those of the run before is no longer the last descriptor's, which takes none either.
//!
//! A recording of a command makes it while the command runs, since making it takes some milliseconds too.
//!
//! A process has a root, mounts, a program and a cgroup as well. Where these are not those of the machine, as in a container, below `chroot` or
//! `unshare -m`, somebody may want to be rid of them when the command has ended: there none is left, and closing is waited for. The cgroup of the
//! command it leaves for the root of cgroups, where there is one hierarchy (version 2) and it may.
//!
//! It is made twice removed, so that nobody has to wait for it, and between `fork` and its end it calls the kernel alone: other threads may
//! hold any lock of this process.
#![expect(unsafe_code, reason = "fork has no safe interface")]

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

/// How long what is left behind rests before it closes anything, milliseconds: the next run of a loop of short commands begins within it. Nothing
/// is recorded by then; a tracepoint that is on with nobody listening costs whoever comes to it some nanoseconds.
const REST_MS: libc::c_int = 2_000;

/// Where a process says that it belongs to the root of cgroups.
const ROOT_CGROUP: &CStr = c"/sys/fs/cgroup/cgroup.procs";

/// Closes what was opened; returns before that is done.
pub(crate) fn close<T>(opened: Vec<T>, descriptors: impl FnMut(&T) -> Vec<RawFd>) {
    let held = keep(&opened, descriptors);
    drop(opened);
    drop(held); // now it ends
}

/// Leaves a process behind that has open what is open here, until some time after what is returned is dropped: for who knows beforehand that
/// nobody should wait at the end, as making it takes some milliseconds.
///
/// # Errors
/// What the system said, where none can be made, or that none is to be: closing is waited for then.
pub(crate) fn keep<T>(opened: &[T], descriptors: impl FnMut(&T) -> Vec<RawFd>) -> io::Result<OwnedFd> {
    if !is_of_the_machine(Path::new("/proc")) {
        return Err(io::Error::other("it would hold mounts that may be others' to take away"));
    }
    let mut keep: Vec<RawFd> = opened.iter().flat_map(descriptors).collect();
    hold(&mut keep, REST_MS, ROOT_CGROUP)
}

/// Whether root, mounts and program of this process are such as nobody takes away: the mounts that it sees are those that the first process sees
/// (from another root, or in another name space, they are others, or have other numbers), and its program lies on one that those need.
fn is_of_the_machine(proc: &Path) -> bool {
    let mounts = |who: &str| fs::read(proc.join(who).join("mountinfo")).ok();
    let is_same = mounts("self").is_some_and(|own| !own.is_empty() && Some(own) == mounts("1"));
    let mount = |path: &Path| {
        let about = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        Some((about.stx_dev_major, about.stx_dev_minor, about.stx_mnt_id))
    };
    let program = mount(&proc.join("self/exe"));
    let is_needed = [Path::new("/"), &proc.join("1/exe")].into_iter().any(|path| mount(path) == program);
    is_same && program.is_some() && is_needed
}

/// Leaves a process behind that has `keep` open, and of all others none, until `rest` milliseconds after what is returned is dropped. It joins
/// the cgroup of these processes, if it may.
fn hold(keep: &mut Vec<RawFd>, rest: libc::c_int, procs: &CStr) -> io::Result<OwnedFd> {
    let mut pipe = [0; 2];
    // SAFETY: the call fills two descriptors that nobody else has.
    if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just made for us.
    let (end, go) = unsafe { (OwnedFd::from_raw_fd(pipe[0]), OwnedFd::from_raw_fd(pipe[1])) };
    keep.push(end.as_raw_fd());
    leave(keep, || {
        let mut byte = 0_u8;
        // SAFETY: a byte of our own to fill, and no descriptor to wait for; a name that lives for as long as we do.
        unsafe {
            let procs = libc::open(procs.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if procs >= 0 {
                libc::write(procs, c"0".as_ptr().cast(), 1);
                libc::close(procs);
            }
            libc::read(end.as_raw_fd(), (&raw mut byte).cast(), 1);
            libc::poll(std::ptr::null_mut(), 0, rest);
        }
    })?;
    Ok(go)
}

/// Leaves a process behind that has `keep` open, and of all others none, does what it is given and ends. What it does may call the kernel
/// alone: other threads may hold any lock of this process.
///
/// # Errors
/// What the system said, where none can be made.
pub(crate) fn leave(keep: &mut [RawFd], does: impl FnOnce()) -> io::Result<()> {
    keep.sort_unstable();
    let copying = crate::sys::COPYING.write();
    // SAFETY: the child calls the kernel alone and ends by `_exit`.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => left(keep, does),
        child => {
            drop(copying);
            let mut status = 0;
            // SAFETY: a child of ours, which nobody else waits for, and a number to fill.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            Ok(())
        }
    }
}

/// What the processes do that are left: the first lets go of everything else, makes the second and ends, which does its work and ends.
fn left(keep: &[RawFd], does: impl FnOnce()) -> ! {
    // SAFETY: calls of the kernel with numbers; a process that has just been made has one thread.
    unsafe {
        // Nothing is kept from being unmounted, unlocked or seen to end, not even until the second comes to run.
        let mut from = 0;
        for &fd in keep {
            if fd > from && !close_from(from, fd - 1) {
                libc::_exit(1);
            }
            from = fd + 1;
        }
        if !close_from(from, RawFd::MAX) || libc::chdir(c"/".as_ptr()) < 0 {
            libc::_exit(1);
        }
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        does();
        libc::_exit(0)
    }
}

/// Closes descriptors of this process, both ends included; whether the kernel can do that (Linux 5.9).
fn close_from(first: RawFd, last: RawFd) -> bool {
    // SAFETY: numbers alone. Only the process that is left calls it, which has no use for what is closed.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;
    use std::io::Read as _;

    const NONE: &CStr = c"/nowhere/cgroup.procs";

    #[test]
    fn who_is_left_behind_leaves_the_cgroup_of_the_command() {
        let (mut reader, writer) = io::pipe().expect("two descriptors");
        let folder = tempfile::tempdir().expect("a folder");
        let procs = folder.path().join("cgroup.procs");
        File::create(&procs).expect("created");
        let name = std::ffi::CString::new(procs.to_str().expect("UTF-8")).expect("no zero");
        let go = hold(&mut vec![writer.as_raw_fd()], 0, &name).expect("a process is left");
        drop((writer, go));
        assert_eq!(reader.read(&mut [0]).expect("read"), 0, "it has ended");
        assert_eq!(fs::read_to_string(&procs).expect("readable"), "0", "whoever writes 0 joins");
    }

    #[test]
    fn none_is_left_where_others_may_want_to_take_mounts_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |who: &str, mounts: &str, program: &Path| {
            let at = folder.path().join(who);
            drop(fs::remove_dir_all(&at));
            fs::create_dir(&at).expect("a folder of ours");
            fs::write(at.join("mountinfo"), mounts).expect("room on disk");
            std::os::unix::fs::symlink(program, at.join("exe")).expect("a folder of ours");
        };
        let (root, other) = (Path::new("/"), Path::new("/proc/version"));
        make("1", "22 27 0:21 / /proc rw\n27 1 8:1 / / rw\n", root);
        let is = |mounts: &str, program: &Path| {
            make("self", mounts, program);
            is_of_the_machine(folder.path())
        };
        assert!(is("22 27 0:21 / /proc rw\n27 1 8:1 / / rw\n", root));
        assert!(!is("92 97 0:21 / /proc rw\n97 91 8:1 / / rw\n", root), "another name space");
        assert!(!is("22 27 0:21 / /proc rw\n", root), "another root");
        assert!(!is("", root), "no list");
        assert!(!is("22 27 0:21 / /proc rw\n27 1 8:1 / / rw\n", other), "a program on another mount");
        make("1", "22 27 0:21 / /proc rw\n27 1 8:1 / / rw\n", other);
        assert!(
            is("22 27 0:21 / /proc rw\n27 1 8:1 / / rw\n", other),
            "that the first process has open, too"
        );
        assert!(!is_of_the_machine(Path::new("/nowhere")), "nobody tells");
    }

    #[test]
    fn who_is_left_behind_has_what_it_is_to_close_and_nothing_else() {
        let (mut reader, writer) = io::pipe().expect("two descriptors");
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join("lock");
        let held = File::create(&lock).expect("created");
        flock(&held, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");

        let go = hold(&mut vec![writer.as_raw_fd()], 0, NONE).expect("a process is left");
        drop((writer, held));
        let again = File::open(&lock).expect("it is there");
        // What is none of its business was closed before it was left. A child of another test has all of ours for a moment, until it is another program.
        let since = std::time::Instant::now();
        while flock(&again, FlockOperation::NonBlockingLockExclusive).is_err() {
            assert!(since.elapsed().as_secs() < 20, "somebody still has it");
            std::thread::yield_now();
        }
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let ended = poll(&mut [PollFd::new(&reader, PollFlags::HUP)], Some(&moment)).expect("asked");
        assert_eq!(ended, 0, "it holds what it is to close");

        drop(go);
        assert_eq!(reader.read(&mut [0]).expect("read"), 0, "closed on its time");
    }

    #[test]
    fn who_is_left_behind_rests_before_it_closes_so_that_the_next_run_opens_what_is_open() {
        let (mut reader, writer) = io::pipe().expect("two descriptors");
        let go = hold(&mut vec![writer.as_raw_fd()], REST_MS, NONE).expect("a process is left");
        drop((writer, go));
        let moment = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        let ended = poll(&mut [PollFd::new(&reader, PollFlags::HUP)], Some(&moment)).expect("asked");
        assert_eq!(ended, 0, "it still has what it is to close");
        assert_eq!(reader.read(&mut [0]).expect("read"), 0, "and closes it after all");
    }
}
