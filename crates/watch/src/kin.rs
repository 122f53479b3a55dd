//! A process that somebody else has started, and all that it has started by now, are attached to rings.
//!
//! An event of a thread is handed on to whatever that starts from then on, and not to what is there already: of `sh -c 'cat d/* | md5sum'` both
//! children are there before anybody has heard that the shell began. So each of them is attached by itself, and their children. Nobody is attached
//! twice, or it would be told of twice: a process is looked at before its events are opened and again before they are switched on, and where it
//! has started somebody in between others are opened. Those stay as they are, switched off: to close the last event of a tracepoint takes long.
//!
//! ```text
//!   look ─▶ open events of all its threads ─▶ look again ─▶ the same? ─yes─▶ switch on ─▶ the same of each child
//!     ▲                                                       │ no
//!     └─────────────────── leave them off ◀───────────────────┘
//! ```

use crate::ring::{Ring, Wanted};
use crate::sys;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// Threads that are attached at most: each has an event for each tracepoint and processor.
const THREADS_MAX: usize = 64;
/// Times that a process is tried which starts others meanwhile.
const TRIES_MAX: usize = 16;

/// Who belongs to a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kin {
    threads: BTreeSet<u32>,
    children: BTreeSet<u32>,
}

impl Kin {
    /// As it is now: nobody of a process that is no more.
    fn of(process: u32) -> Self {
        let tasks = PathBuf::from(format!("/proc/{process}/task"));
        let names = fs::read_dir(&tasks).into_iter().flatten().flatten();
        let threads: BTreeSet<u32> =
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let mut children = BTreeSet::new();
        for thread in &threads {
            match fs::read_to_string(tasks.join(format!("{thread}/children"))) {
                Ok(list) => {
                    children.extend(list.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()))
                }
                // A kernel that lists none, or a thread that has just ended.
                Err(_) => children.extend(children_by_parent(process)),
            }
        }
        Self { threads, children }
    }

    /// Whether nobody is there who was not before.
    fn is_within(&self, before: &Self) -> bool {
        self.threads.is_subset(&before.threads) && self.children.is_subset(&before.children)
    }
}

/// The same by asking each process for its parent.
fn children_by_parent(parent: u32) -> BTreeSet<u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let status = sys::text(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        of == Some(parent)
    };
    all.filter(is_child).collect()
}

/// Attaches a process with all that it has started by now, and switches their events on; whether all of them are.
///
/// # Errors
/// What the system said of the process itself.
pub(crate) fn attach(rings: &mut [Ring], wanted: &Wanted<'_>, process: u32) -> io::Result<bool> {
    let mut left = vec![process];
    let (mut room, mut all) = (THREADS_MAX, true);
    while let Some(pid) = left.pop() {
        // What we load for it is told elsewhere.
        if pid == std::process::id() && pid != process {
            continue;
        }
        match attach_one(rings, wanted, pid, &mut room) {
            Ok(Some(children)) => left.extend(children),
            // A child that has ended needs nobody.
            Err(error) if pid != process && error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) if pid == process => return Err(error),
            Ok(None) | Err(_) => all = false,
        }
    }
    Ok(all)
}

/// One process with its threads: its children, none of which is attached by that; `None` where there are too many threads, or more came all the
/// time: then those that there is room for are attached, and whose the children are is not known.
fn attach_one(
    rings: &mut [Ring],
    wanted: &Wanted<'_>,
    process: u32,
    room: &mut usize,
) -> io::Result<Option<BTreeSet<u32>>> {
    for left in (0..TRIES_MAX).rev() {
        let begun: Vec<usize> = rings.iter().map(Ring::len).collect();
        let before = Kin::of(process);
        let threads: BTreeSet<u32> = before.threads.iter().take(*room).copied().collect();
        if threads.is_empty() && !before.threads.is_empty() {
            return Ok(None);
        }
        *room -= threads.len();
        if let Err(error) = open(rings, wanted, &threads) {
            rings.iter_mut().zip(&begun).for_each(|(ring, &first)| ring.close_behind(first));
            return Err(error);
        }
        let is_whole = threads == before.threads && Kin::of(process).is_within(&before);
        if is_whole || left == 0 || *room == 0 {
            for (ring, &first) in rings.iter().zip(&begun) {
                ring.switch(first..ring.len(), true)?;
            }
            return Ok(is_whole.then_some(before.children));
        }
    }
    Ok(None)
}

/// Opens the events of threads, those that have ended left out.
fn open(rings: &mut [Ring], wanted: &Wanted<'_>, threads: &BTreeSet<u32>) -> io::Result<()> {
    let mut any = false;
    for &thread in threads {
        match rings.iter_mut().try_for_each(|ring| ring.attach(wanted, thread)) {
            Ok(()) => any = true,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    if any { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{Beside, Scope};
    use crate::sample::{Sample, parse};
    use crate::tracefs;
    use std::io::Write as _;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    /// A shell of which a child waits for a line of its input and then starts a program and becomes another.
    fn shell() -> (Child, u32) {
        let script = "{ read line; true; /bin/true; exec /bin/true; } | cat";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell is everywhere");
        let begun = Instant::now();
        let pid = shell.id();
        let is_cat = |pid: u32| fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"cat\n");
        // One waits, and the other is a program by then.
        while Kin::of(pid).children.len() < 2 || !Kin::of(pid).children.into_iter().any(is_cat) {
            if begun.elapsed() > Duration::from_secs(20) {
                shell.kill().expect("ours");
                panic!("its children never came");
            }
            std::thread::yield_now();
        }
        (shell, pid)
    }

    /// Starts of programs that were told, by thread, once the child was let go.
    fn told(attach: impl Fn(&mut [Ring], &Wanted<'_>, u32) -> io::Result<bool>) -> Option<(bool, Vec<u32>)> {
        let exec = tracefs::load("sched/sched_process_exec").ok()?;
        let wanted = Wanted { ids: &[exec.id], beside: Beside::Nothing, filter: None, narrow: &[] };
        let (mut shell, pid) = shell();
        let mut rings =
            crate::session::rings(&[exec.id], Scope::Process(pid), Beside::Nothing).expect("as was loaded");
        let all = attach(&mut rings, &wanted, pid).expect("ours");
        shell.stdin.take().expect("piped").write_all(b"go\n").expect("it waits");
        shell.wait().expect("ours");
        let mut threads = Vec::new();
        for ring in &mut rings {
            ring.drain::<io::Error>(&mut |record| {
                if let Ok(Sample::Event { thread, .. }) = parse(record) {
                    threads.push(thread);
                }
                Ok(())
            })
            .expect("whole records");
        }
        Some((all, threads))
    }

    #[test]
    fn children_that_are_there_already_are_told_of_once_and_so_is_what_they_start() {
        let Some((all, threads)) = told(attach) else { return };
        assert!(all);
        assert_eq!(threads.len(), 2, "{threads:?}");
        let of_process_alone = |rings: &mut [Ring], wanted: &Wanted<'_>, pid: u32| {
            attach_one(rings, wanted, pid, &mut 64).map(|children| children.is_some())
        };
        assert_eq!(told(of_process_alone), Some((true, Vec::new())), "an event is not handed on to them");
    }

    #[test]
    fn a_process_that_is_no_more_is_not_attached_and_one_beyond_the_room_is_said() {
        let Ok(exec) = tracefs::load("sched/sched_process_exec") else { return };
        let wanted = Wanted { ids: &[exec.id], beside: Beside::Nothing, filter: None, narrow: &[] };
        let mut child = Command::new("true").spawn().expect("a program");
        let pid = child.id();
        child.wait().expect("ours");
        let mut rings = crate::session::rings(&[exec.id], Scope::Process(pid), Beside::Nothing)
            .expect("a ring needs no process");
        let refused = attach(&mut rings, &wanted, pid).expect_err("it is no more");
        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
        let (mut shell, pid) = shell();
        assert!(attach_one(&mut rings, &wanted, pid, &mut 0).is_ok_and(|children| children.is_none()));
        assert!(rings.iter().all(|ring| ring.len() == 1), "nothing is left open");
        shell.kill().and_then(|()| shell.wait()).expect("ours");
    }

    #[test]
    fn children_are_found_by_their_parent_where_the_kernel_lists_none() {
        let (mut shell, pid) = shell();
        assert_eq!(children_by_parent(pid), Kin::of(pid).children);
        assert!(Kin::of(pid).threads.contains(&pid));
        assert_eq!(Kin::of(u32::MAX), Kin::default());
        shell.kill().and_then(|()| shell.wait()).expect("ours");
    }
}
