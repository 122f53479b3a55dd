//! The command of `--run`: it begins when clients may come, and the server ends with it.
//!
//! A signal to end is handed on to it, and to what it has started, and it is served until it ends: a program may have something to write
//! home. But nobody waits for it for long.
//!
//! ```text
//!   SIGTERM, SIGHUP ------> handed on at once ----------------------------> 5 s ---> killed
//!   Ctrl-C ---------------> has reached it already: handed on after 2 s --> 5 s ---> killed
//!   the server has ended -> 5 s to find out by itself --> SIGTERM --------> 5 s ---> killed
//!   another signal -------> killed at once
//! ```

use super::from_serve;
use crate::error::CliError;
use forerun_serve::Server;
use forerun_serve::error::ServeError;
use forerun_serve::messages::{Priority, Speaker};
use forerun_serve::options::{Listen, Options};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long Ctrl-C, which went to the command too, is left to it: many programs take a second one as a wish to end in the midst of
/// their tidying.
const OWN_END: Duration = Duration::from_secs(2);
/// How long it may take to end when it was asked to, and to find out that the server has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one that was killed may take: what the kernel has in hand for it must end.
const GONE: Duration = Duration::from_secs(2);
/// A signal that comes within this time is the same wish: a terminal that closes says so twice.
const SAME_WISH: Duration = Duration::from_secs(1);
/// How often it is looked at where the kernel does not tell of its end (before Linux 5.3).
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is to become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nobody wants it to end.
    Free,
    /// It has time to end by itself, and is then sent this.
    Waited(Signal),
    /// It was sent this.
    Asked(Signal),
    Killed,
}

/// A command that runs.
pub(super) struct Running {
    thread: JoinHandle<Result<(), CliError>>,
    over: UnixStream,
}

impl Running {
    /// The server has ended, and so must the command; how that has ended.
    pub(super) fn end(self) -> Result<(), CliError> {
        drop(self.over);
        self.thread.join().unwrap_or_else(|_| Err(CliError::failure("--run", "was lost")))
    }
}

/// What becomes readable when a signal to end comes.
pub(super) fn signals() -> Result<UnixStream, CliError> {
    let told = |source| from_serve(&ServeError::System { what: "signals", source });
    forerun_watch::signals::announced().map_err(told)
}

/// Starts it; the server stops when it ends.
pub(super) fn start(
    command: &str,
    options: &Options,
    server: &Server,
    signals: UnixStream,
    speaker: Speaker,
) -> Result<Running, CliError> {
    let failed = |problem| CliError::failure("--run", problem);
    let mut child = Command::new("sh");
    child.arg("-c").arg(command).env("uri", server.uri()).env("export", &options.exports[0].name);
    if let Listen::Unix(path) = &options.listen {
        child.env("unixsocket", path);
    }
    if let Some(page) = server.page() {
        child.env("page", page);
    }
    let (over, ended) = UnixStream::pair().map_err(failed)?;
    let child = child.spawn().map_err(failed)?;
    let watched = Watched {
        told: pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok(),
        child,
        signals,
        server: Some(ended),
        speaker,
        phase: Phase::Free,
        since: Instant::now(),
        until: None,
    };
    let stop = server.stopper();
    let thread = std::thread::spawn(move || {
        let ended = watched.until_it_ends();
        stop.stop();
        ended
    });
    Ok(Running { thread, over })
}

/// The same as its thread has it.
struct Watched {
    child: Child,
    /// Becomes readable when it ends, where the kernel can tell.
    told: Option<OwnedFd>,
    signals: UnixStream,
    /// Ends with the server.
    server: Option<UnixStream>,
    speaker: Speaker,
    phase: Phase,
    /// Since when it is in that phase, and how long it may be.
    since: Instant,
    until: Option<Instant>,
}

impl Watched {
    fn until_it_ends(mut self) -> Result<(), CliError> {
        let failed = |problem| CliError::failure("--run", problem);
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                return CliError::command("--run", status);
            }
            if self.until.is_some_and(|until| until <= Instant::now()) {
                self.go_on()?;
            }
            self.wait().map_err(failed)?;
        }
    }

    fn turn(&mut self, phase: Phase, most: Duration) {
        (self.phase, self.since) = (phase, Instant::now());
        self.until = Some(self.since + most);
    }

    /// Its time is over.
    fn go_on(&mut self) -> Result<(), CliError> {
        match self.phase {
            Phase::Free => {}
            Phase::Waited(signal) => {
                let (name, most) = (name_of(signal), PATIENCE.as_secs());
                let line = format!(
                    "{name} goes to the command of --run, which is killed if it runs for {most} s more"
                );
                self.speaker.say(Priority::Info, &line);
                self.send(signal);
                self.turn(Phase::Asked(signal), PATIENCE);
            }
            Phase::Asked(signal) => {
                let after = self.since.elapsed().as_secs();
                self.kill(&format!("{after} s after {}", name_of(signal)));
            }
            Phase::Killed => {
                return Err(CliError::failure(
                    "--run",
                    "the command was killed, and has not ended all the same",
                ));
            }
        }
        Ok(())
    }

    /// A signal to end has come.
    fn heard(&mut self) {
        let signal = forerun_watch::signals::came().unwrap_or(Signal::TERM);
        match self.phase {
            Phase::Free => {
                let own = if signal == Signal::INT { OWN_END } else { Duration::ZERO };
                self.turn(Phase::Waited(signal), own);
            }
            Phase::Waited(_) | Phase::Asked(_) if self.since.elapsed() >= SAME_WISH => {
                self.kill("when another signal came");
            }
            _ => {}
        }
    }

    fn kill(&mut self, when: &str) {
        self.speaker.say(Priority::Warning, &format!("the command of --run still ran {when}: it was killed"));
        self.send(Signal::KILL);
        self.turn(Phase::Killed, GONE);
    }

    /// Sends it a signal, and then what it has started, or a shell would go on with what comes next: of one that waits for a program each has to
    /// know. It was not waited for yet, so its number is its own; losing the race to its end is fine.
    fn send(&self, signal: Signal) {
        let first = self.child.id();
        let started = started_by(first, &parents());
        for process in std::iter::once(first).chain(started) {
            let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
    }

    /// Until something happens.
    fn wait(&mut self) -> std::io::Result<()> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let most = if self.told.is_none() { Some(LOOK_EVERY) } else { None };
        let timeout = [left, most].into_iter().flatten().min();
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_nanos()),
        });
        let mut files = vec![PollFd::new(&self.signals, PollFlags::IN)];
        files.extend(self.server.iter().map(|server| PollFd::new(server, PollFlags::IN)));
        files.extend(self.told.iter().map(|told| PollFd::new(told, PollFlags::IN)));
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(problem) => return Err(problem.into()),
        }
        let told = |at: usize| !files[at].revents().is_empty();
        let (signal, server) = (told(0), self.server.is_some() && told(1));
        if signal {
            // What is read is a wish, however often it was said.
            drop(self.signals.read(&mut [0; 64]));
            self.heard();
        }
        if server {
            self.server = None;
            if self.phase == Phase::Free {
                self.turn(Phase::Waited(Signal::TERM), PATIENCE);
            }
        }
        Ok(())
    }
}

/// As everybody calls it.
fn name_of(signal: Signal) -> &'static str {
    match signal {
        Signal::INT => "SIGINT",
        Signal::HUP => "SIGHUP",
        _ => "SIGTERM",
    }
}

/// Every process that is to be seen, with who has started it.
fn parents() -> Vec<(u32, u32)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parent = |entry: std::fs::DirEntry| {
        let process = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        parent_in(&String::from_utf8_lossy(&stat)).map(|parent| (process, parent))
    };
    processes.filter_map(parent).collect()
}

/// The parent by a `/proc/PID/stat`: the second number behind the name, which may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// What a process has started, and what that has.
fn started_by(first: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        let new = parents.iter().filter(|(process, by)| *by == parent && !found.contains(process));
        let new: Vec<u32> = new.map(|(process, _)| *process).collect();
        found.extend(new);
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_has_started_is_found_however_deep_and_whatever_it_is_called() {
        assert_eq!(parent_in("77 (a) b) S 5 6 7 0 -1"), Some(5));
        assert_eq!(parent_in("77 (sh"), None);
        let parents = [(4, 2), (2, 1), (3, 2), (9, 8), (5, 4), (1, 1)];
        assert_eq!(started_by(2, &parents), [4, 3, 5]);
        assert_eq!(started_by(9, &parents), [0; 0]);
        assert!(self::parents().iter().any(|(process, _)| *process == std::process::id()));
    }
}
