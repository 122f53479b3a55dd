//! Which servers of this user run, by their control sockets.
//!
//! A server without a socket of its own choice makes a folder for one, which is found by its name. Of one with `--socket` only the
//! kernel knows: it lists the sockets that are listened on (`/proc/net/unix`), and whose they are stands below `/proc/PID/fd`. Only
//! sockets of a program that is this one are taken, since others may be called `.ctl` too, and only those that answer.

use super::{OWN_SOCKET, SUFFIX, beside};
use crate::error::CliError;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A socket that is listened on, in the flags of `/proc/net/unix` (`__SO_ACCEPTCON`).
const LISTENS: u64 = 1 << 16;
/// What this program's file is called.
const PROGRAM: &str = "forerun";

/// Their control sockets, each once.
pub(super) fn of_this_user() -> Result<Vec<PathBuf>, CliError> {
    let folder = std::env::temp_dir();
    let entries = std::fs::read_dir(&folder).map_err(|problem| CliError::file(&folder, &problem))?;
    let made = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("forerun-"));
    let mut candidates: Vec<PathBuf> = made.map(|entry| beside(&entry.path().join(OWN_SOCKET))).collect();
    candidates.extend(listened_on(Path::new("/proc")));
    let me = std::fs::metadata("/proc/self").map(|about| about.uid()).ok();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for path in candidates {
        let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
        let ours = about.file_type().is_socket() && Some(about.uid()) == me;
        // A socket that a dead server has left behind answers nobody.
        if ours
            && seen.insert((about.dev(), about.ino()))
            && std::os::unix::net::UnixStream::connect(&path).is_ok()
        {
            found.push(path);
        }
    }
    Ok(found)
}

/// Control sockets that processes of this program listen on, as far as this user may see.
fn listened_on(proc: &Path) -> Vec<PathBuf> {
    // A path of somebody's that is no text hides no other.
    let text = std::fs::read(proc.join("net/unix")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let listening: BTreeMap<u64, &str> = text.lines().filter_map(listener).collect();
    if listening.is_empty() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(proc).into_iter().flatten().flatten().map(|entry| entry.path());
    let numbered =
        entries.filter(|path| path.file_name().is_some_and(|name| name.as_bytes()[0].is_ascii_digit()));
    let mut found = Vec::new();
    for process in numbered.filter(|process| is_this_program(process)) {
        for descriptor in std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = std::fs::read_link(descriptor.path()) else { continue };
            let inode = target
                .to_str()
                .and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
            let Some(path) = inode.and_then(|inode: u64| listening.get(&inode)) else { continue };
            // A path that is not whole is seen from the folder that the server runs in.
            found.push(process.join("cwd").canonicalize().unwrap_or_default().join(path));
        }
    }
    found
}

/// Inode and path of a control socket that is listened on, from a line of the kernel's list.
fn listener(line: &str) -> Option<(u64, &str)> {
    let mut fields = line.split_ascii_whitespace();
    let flags = u64::from_str_radix(fields.nth(3)?, 16).ok()?;
    let inode = fields.nth(2)?.parse().ok()?;
    // A path may have blanks in it.
    let path = &line[line.find(fields.next()?)?..];
    (flags & LISTENS != 0 && path.ends_with(SUFFIX)).then_some((inode, path))
}

/// Whether a process runs this program, also one that was replaced on the disk since.
fn is_this_program(process: &Path) -> bool {
    let Ok(program) = std::fs::read_link(process.join("exe")) else { return false };
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let own = std::env::current_exe().is_ok_and(|own| own == program);
    own || name.trim_end_matches(" (deleted)") == PROGRAM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_sockets_that_are_listened_on_are_taken_from_the_kernel_s_list() {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 31337 /run/my disks/md0.sock.ctl";
        assert_eq!(listener(line), Some((31337, "/run/my disks/md0.sock.ctl")));
        for other in [
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "0000000000000000: 00000003 00000000 00000000 0001 03 31338 /run/md0.sock.ctl",
            "0000000000000000: 00000002 00000000 00010000 0001 01 31339 /run/md0.sock",
            "0000000000000000: 00000002 00000000 00010000 0001 01 31340",
        ] {
            assert_eq!(listener(other), None, "{other}");
        }
    }

    #[test]
    fn a_socket_is_a_server_s_only_if_this_program_listens_on_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let proc = folder.path();
        let make = |path: &str| std::fs::create_dir_all(proc.join(path)).expect("made");
        let link = |to: &str, path: &str| std::os::unix::fs::symlink(to, proc.join(path)).expect("linked");
        make("net");
        make("7/fd");
        make("8/fd");
        std::fs::write(
            proc.join("net/unix"),
            "Num\n0: 00000002 00000000 00010000 0001 01 11 s.ctl\n0: 00000002 00000000 00010000 0001 01 12 /run/bird.ctl\n",
        )
        .expect("written");
        link("/usr/bin/forerun (deleted)", "7/exe");
        link("/srv", "7/cwd");
        link("socket:[11]", "7/fd/4");
        link("/dev/null", "7/fd/5");
        link("/usr/sbin/bird", "8/exe");
        link("socket:[12]", "8/fd/3");
        let place = Path::new("/srv").canonicalize().unwrap_or_default();
        assert_eq!(listened_on(proc), [place.join("s.ctl")]);
    }
}
