//! One recording from the first event to the last, whatever is recorded: rings opened, the command run, rings emptied.
//!
//! The block recorder and the file recorder differ in their tracepoints and in what they make of an event
//! ([`Collect`]). What they share is here: a ring per processor, as large as the limit on locked memory allows; the
//! command, which is never left running behind our back; the loop that empties the rings several times before they can
//! be full; the stop flag, the time limit and the bound; and the last count, which finds events that the kernel dropped
//! without another to tell of it.
//!
//! ```text
//!   open rings ─▶ start the command ─▶ empty, look, wait ─▶ … ─▶ switch off ─▶ empty, count
//!                                           └── command ended / stop / time / full ──┘
//! ```

use crate::behind;
use crate::kin;
use crate::outcome::{self, Ended, Progress, RecordError};
use crate::ring::{Beside, Ring, Scope, Wanted};
use crate::signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Data bytes of the ring of each processor where every request of a device may be an event: at a million a second it lasts about 40 ms.
pub(crate) const RING_BYTES: usize = 4 << 20;
/// The same of what we load for a command, as fast as its devices are: at a hundred thousand events a second it lasts about 100 ms. The kernel
/// takes two milliseconds to make 4 MiB, and the command waits for that.
pub(crate) const RING_BYTES_OF_OURS: usize = 1 << 20;
/// Processors that have rings of the whole size. Rings of more are smaller, together as large as these: whoever starts a command waits until they are made, 0.3 ms a MiB
/// here, and the more processors there are, the sooner one of them empties a ring that is a quarter full.
const WHOLE_RINGS: usize = 4;
/// The least part of its size that a ring has on a machine of many processors.
const LEAST_PART: usize = 8;
/// The smallest ring that is tried where the system limits locked memory.
const RING_BYTES_MIN: usize = 64 << 10;
/// Longest sleep of a recorder between two looks at the rings, the command and the stop flag.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while what comes next is wanted at once.
const LOOK_EVERY_URGENT: Duration = Duration::from_micros(200);
/// How long a command has to end by a Ctrl-C of its own before we hand it ours.
const OWN_END: Duration = Duration::from_secs(2);
/// Folders in which a program is looked for at most.
const PATH_MAX: usize = 256;
/// Shortest time between two calls of the progress callback.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// What is made of the records of the rings.
pub(crate) trait Collect {
    /// Takes one record of a ring.
    ///
    /// # Errors
    /// [`RecordError::Sample`] if it is not what its format says.
    fn take(&mut self, record: &[u8]) -> Result<(), RecordError>;
    /// The rings are empty for a moment: time to look at what is still there to be seen.
    fn look(&mut self) {}
    /// Whether what comes next is wanted at once, not when the plan looks again.
    fn urgent(&self) -> bool {
        false
    }
    /// Whether somebody else tells of what the plan's [`Plan::hits`] are about.
    fn is_told_otherwise(&self) -> bool {
        false
    }
    /// Whether nothing more is kept.
    fn full(&self) -> bool;
    /// What it has so far.
    fn tally(&self) -> Tally;
}

/// How much a collector has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Requests that it keeps.
    pub(crate) records: u64,
    /// Events of the plan's own tracepoints that it was handed.
    pub(crate) seen: u64,
    /// Events that the kernel said it dropped.
    pub(crate) lost: u64,
    /// Why nothing more is kept in a file beside, if that is so.
    pub(crate) unkept: Option<io::ErrorKind>,
}

/// What is recorded, and until when.
pub(crate) struct Plan<'a> {
    /// Numbers of the tracepoints.
    pub(crate) ids: &'a [u64],
    /// Further ones, in rings of their own, which are everybody's whatever the scope: answers of devices come while anybody runs.
    pub(crate) everyone: &'a [u64],
    /// Expression by which the kernel drops what does not matter of those.
    pub(crate) of_everyone: Option<&'a str>,
    /// Data bytes of the rings of a processor, powers of two: its own, and those of everybody.
    pub(crate) ring_bytes: [usize; 2],
    pub(crate) scope: Scope,
    pub(crate) beside: Beside,
    /// Expression by which the kernel drops what does not matter.
    pub(crate) filter: Option<&'a str>,
    /// The same for single tracepoints, by their place in `ids`.
    pub(crate) narrow: &'a [(usize, String)],
    /// Those that are switched off once somebody else tells of the same, by their place in `ids`.
    pub(crate) hits: &'a [usize],
    /// The command, if there is one.
    pub(crate) argv: Option<&'a [OsString]>,
    pub(crate) duration: Option<Duration>,
    pub(crate) stop: Option<&'a AtomicBool>,
    /// Longest sleep between two looks at the rings, the command and the stop flag.
    pub(crate) look_every: Duration,
}

/// A recording that has ended.
pub(crate) struct Outcome<C> {
    pub(crate) collector: C,
    /// Events that the kernel counted and the collector was not handed.
    pub(crate) lost: u64,
    pub(crate) ended: Ended,
    pub(crate) elapsed: Duration,
    /// Everybody whose events are taken was found: of a process that somebody else has started, all that it had started by then.
    pub(crate) whole: bool,
}

/// Opens the rings and hands their records to `collector` until the command ends, the time is over, the flag is set or
/// the collector is full.
///
/// # Errors
/// See [`RecordError`]. A command that was started is ended and waited for.
pub(crate) fn run<C: Collect>(
    plan: &Plan<'_>,
    collector: C,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome<C>, RecordError> {
    let [own, everyone] = plan.ring_bytes;
    let mut rings = open_rings(plan.ids, plan.scope, own, plan)?;
    let counted = rings.len();
    let mut whole = true;
    match plan.scope {
        Scope::Everyone => rings.iter().try_for_each(Ring::enable)?,
        Scope::Process(pid) => whole = attach(&mut rings, plan, pid)?,
        _ => {}
    }
    if !plan.everyone.is_empty() {
        let further = open_rings(
            plan.everyone,
            Scope::Everyone,
            everyone,
            &Plan {
                narrow: &[],
                hits: &[],
                beside: Beside::Nothing,
                filter: plan.of_everyone.or(plan.filter),
                ..*plan
            },
        )?;
        further.iter().try_for_each(Ring::enable)?;
        rings.extend(further);
    }
    let start = Instant::now();
    let other = if let Scope::Process(pid) = plan.scope { Some(opened(pid)?) } else { None };
    let mut running = Running { child: plan.argv.map(start_command).transpose()?, other };
    let end = running.readable_at_end()?;
    // While the command runs, so that nobody waits for it when that has ended. A process of others may run for hours.
    let behind = plan.argv.and_then(|_| behind::keep(&rings, Ring::descriptors).ok());
    let mut session =
        Session { rings, behind, counted, end, collector, quiet: false, reported: start, start };
    let ended = session.run(plan, &mut running, progress)?;
    let stopped = is_set(plan.stop);
    let status = if stopped { running.pass_on()? } else { running.end()? };
    let done = session.finish(how(ended, status, stopped), progress)?;
    Ok(Outcome { whole, ..done })
}

/// A process with all that it has started by now; whether all of them were found.
fn attach(rings: &mut [Ring], plan: &Plan<'_>, pid: u32) -> Result<bool, RecordError> {
    let (filter, narrow) = filters(plan)?;
    let wanted = Wanted { ids: plan.ids, beside: plan.beside, filter: filter.as_deref(), narrow: &narrow };
    kin::attach(rings, &wanted, pid).map_err(refused)
}

/// Runs a command and watches nothing of it, until it ends or the flag is set.
///
/// # Errors
/// [`RecordError::Start`], or what the system said of the waiting.
pub(crate) fn run_alone(argv: &[OsString], stop: Option<&AtomicBool>) -> Result<Ended, RecordError> {
    let mut running = Running { child: Some(start_command(argv)?), other: None };
    let end = running.readable_at_end()?;
    while !running.is_over()? && !is_set(stop) {
        let mut fds: Vec<_> = end.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK_EVERY.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
    let stopped = is_set(stop);
    let status = if stopped { running.pass_on()? } else { running.end()? };
    Ok(how(None, status, stopped))
}

fn is_set(stop: Option<&AtomicBool>) -> bool {
    stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// What ended a run. A command that Ctrl-C ended before we looked at the flag was stopped all the same.
fn how(ended: Option<Ended>, status: Option<ExitStatus>, stopped: bool) -> Ended {
    match (ended, status) {
        (None | Some(Ended::Stopped(_)), status) if stopped => Ended::Stopped(status),
        (None, Some(status)) => Ended::Command(status),
        (ended, _) => ended.unwrap_or(Ended::Gone),
    }
}

/// The loop that reads the rings.
struct Session<C> {
    rings: Vec<Ring>,
    /// Keeps the process that closes them, if it was made at the beginning.
    behind: Option<OwnedFd>,
    /// Rings of the plan's own tracepoints, which come first: of everybody's nothing is missed but what they would add.
    counted: usize,
    /// Readable once the command has ended.
    end: Option<OwnedFd>,
    collector: C,
    /// The plan's hits are switched off.
    quiet: bool,
    reported: Instant,
    start: Instant,
}

impl<C: Collect> Session<C> {
    /// Reads until something ends the recording; `None` = the command did, or the process that is watched.
    fn run(
        &mut self,
        plan: &Plan<'_>,
        running: &mut Running,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<Ended>, RecordError> {
        loop {
            let over = running.is_over()?;
            self.drain()?;
            if over {
                return Ok(None);
            }
            if self.collector.full() {
                return Ok(Some(Ended::Full));
            }
            if !self.quiet && self.collector.is_told_otherwise() {
                self.quiet = true;
                self.hush(plan.hits)?;
            }
            if is_set(plan.stop) {
                return Ok(Some(Ended::Stopped(None)));
            }
            if plan.duration.is_some_and(|duration| self.start.elapsed() >= duration) {
                return Ok(Some(Ended::Duration));
            }
            if self.reported.elapsed() >= PROGRESS_EVERY {
                self.reported = Instant::now();
                progress(self.progress());
            }
            let longest = if self.collector.urgent() { LOOK_EVERY_URGENT } else { plan.look_every };
            self.wait(longest)?;
        }
    }

    /// Switches tracepoints off that somebody else tells of.
    fn hush(&self, hits: &[usize]) -> io::Result<()> {
        let all = |ring: &Ring| hits.iter().try_for_each(|&at| ring.switch(at..at + 1, false));
        self.rings[..self.counted].iter().try_for_each(all)
    }

    /// Until a ring is a quarter full, or for a moment.
    fn wait(&self, longest: Duration) -> io::Result<()> {
        let mut fds: Vec<_> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        fds.extend(self.end.iter().map(|end| PollFd::new(end, PollFlags::IN)));
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn drain(&mut self) -> Result<(), RecordError> {
        let collector = &mut self.collector;
        self.rings.iter_mut().try_for_each(|ring| ring.drain(&mut |record| collector.take(record)))?;
        collector.look();
        Ok(())
    }

    fn progress(&self) -> Progress {
        let Tally { records, lost, unkept, .. } = self.collector.tally();
        Progress { records, lost, elapsed: self.start.elapsed(), unkept }
    }

    /// Switches the events off and reads what is left.
    fn finish(mut self, ended: Ended, progress: &mut dyn FnMut(Progress)) -> Result<Outcome<C>, RecordError> {
        self.rings.iter().try_for_each(Ring::disable)?;
        let elapsed = self.start.elapsed();
        self.drain()?;
        let mut counted = 0;
        for ring in &self.rings[..self.counted] {
            counted += ring.count()?;
        }
        // The kernel announces a loss only with the next event that fits; its counter knows of the last ones too.
        let tally = self.collector.tally();
        let lost = tally.lost.max(counted.saturating_sub(tally.seen));
        progress(Progress { lost, ..self.progress() });
        match self.behind {
            Some(behind) => {
                drop(self.rings);
                drop(behind); // it rests, and closes them
            }
            None => behind::close(self.rings, Ring::descriptors),
        }
        Ok(Outcome { collector: self.collector, lost, ended, elapsed, whole: true })
    }
}

/// A process that somebody else started.
fn opened(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::NotFound)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// The command, if there is one, never left running behind our back; or a process that is none of ours.
struct Running {
    child: Option<Child>,
    other: Option<OwnedFd>,
}

impl Running {
    /// What becomes readable when it ends, where the kernel can tell (Linux 5.3); else its end is found within a moment.
    fn readable_at_end(&self) -> io::Result<Option<OwnedFd>> {
        if let Some(other) = &self.other {
            return other.try_clone().map(Some);
        }
        let of_child = |child: &Child| {
            let pid = rustix::process::Pid::from_child(child);
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
        };
        Ok(self.child.as_ref().and_then(of_child))
    }

    /// Whether it has ended.
    fn is_over(&mut self) -> io::Result<bool> {
        if let Some(other) = &self.other {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            return match poll(&mut [PollFd::new(other, PollFlags::IN)], Some(&now)) {
                Ok(ended) => Ok(ended > 0),
                Err(rustix::io::Errno::INTR) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        let Some(child) = &mut self.child else { return Ok(false) };
        let is_over = child.try_wait()?.is_some();
        if is_over {
            signals::pass_on_no_more();
        }
        Ok(is_over)
    }

    /// Asks the command to end, if it has not, and waits for it.
    fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        self.end_by(Signal::TERM)
    }

    /// Hands the signal that we got to the command, and waits for it. Ctrl-C went to the command too: it has time to end by it, as
    /// many programs take a second one as a wish to end in the midst of their tidying.
    fn pass_on(&mut self) -> io::Result<Option<ExitStatus>> {
        let signal = signals::came().unwrap_or(Signal::TERM);
        let since = Instant::now();
        while signal == Signal::INT && since.elapsed() < OWN_END && !self.is_over()? && self.child.is_some() {
            std::thread::sleep(LOOK_EVERY_URGENT);
        }
        self.end_by(signal)
    }

    fn end_by(&mut self, signal: Signal) -> io::Result<Option<ExitStatus>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        if child.try_wait()?.is_none() {
            // Not yet waited for, so the number is still this child's. Losing the race to its own end is fine.
            let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal);
        }
        let ended = child.wait();
        signals::pass_on_no_more();
        ended.map(Some)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only after an error: the error already being reported matters more than a second one.
        let _ = self.end();
    }
}

/// Where a program of that name is.
pub(crate) fn program_path(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).take(PATH_MAX).map(|folder| folder.join(program)).find(is_program)
}

fn start_command(argv: &[OsString]) -> Result<Child, RecordError> {
    let (program, arguments) = argv.split_first().ok_or(RecordError::NoCommand)?;
    signals::wait_for_children();
    signals::keep_for_command();
    let started = match Command::new(program).args(arguments).spawn() {
        // A script without a first line that says for whom it is: execvp(3), and so every shell, gives it to the shell.
        Err(source) if source.raw_os_error() == Some(libc::ENOEXEC) => {
            let script = program_path(Path::new(program)).unwrap_or_else(|| program.into());
            Command::new("/bin/sh").arg(script).args(arguments).spawn()
        }
        started => started,
    };
    let child = started.map_err(|source| {
        let kind = source.kind();
        let is_there = kind == io::ErrorKind::NotFound && Path::new(program).exists();
        let other = || io::Error::new(kind, "the interpreter or loader that it names is not there");
        let source = if is_there { other() } else { source };
        RecordError::Start { program: program.to_string_lossy().into_owned(), source }
    })?;
    signals::pass_on_to(&child);
    Ok(child)
}

/// A refusal of `perf_event_open` or of its mapping.
pub(crate) fn refused(error: io::Error) -> RecordError {
    let remedy = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if outcome::is_root_of_others() => outcome::ROOT_OF_OTHERS,
        Some(libc::EACCES | libc::EPERM) => {
            "run as root (or with CAP_PERFMON, or CAP_SYS_ADMIN where kernel.perf_event_paranoid is 3, as on Debian; CAP_IPC_LOCK; and a readable tracefs)"
        }
        Some(libc::ENOSYS | libc::ENOENT | libc::EINVAL | libc::EOPNOTSUPP) => {
            "use a kernel with CONFIG_PERF_EVENTS, 4.1 or later"
        }
        _ => return RecordError::Ring(error),
    };
    RecordError::Unsupported { what: format!("perf_event_open: {error}"), remedy: remedy.to_owned() }
}

/// Opens tracepoints as a recording of a command would, and closes them again.
///
/// # Errors
/// [`RecordError::Unsupported`] with its remedy.
pub(crate) fn probe(ids: &[u64]) -> Result<(), RecordError> {
    let opened = Ring::open(ids, 0, Scope::StartedByThisThread, Beside::TasksAndSwitches, 1);
    opened.map(drop).map_err(refused)
}

/// The same, of everybody's events.
///
/// # Errors
/// [`RecordError::Unsupported`] with its remedy.
pub(crate) fn probe_everybody(ids: &[u64]) -> Result<(), RecordError> {
    Ring::open(ids, 0, Scope::EveryoneAtOnce { quiet: (0, 0) }, Beside::Nothing, 1).map(drop).map_err(refused)
}

/// One ring of the usual size per processor that is on.
///
/// # Errors
/// [`RecordError::Unsupported`] with its remedy.
pub(crate) fn rings(ids: &[u64], scope: Scope, beside: Beside) -> Result<Vec<Ring>, RecordError> {
    rings_of(ids, scope, beside, RING_BYTES)
}

/// The same, of so many data bytes.
fn rings_of(ids: &[u64], scope: Scope, beside: Beside, bytes: usize) -> Result<Vec<Ring>, RecordError> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut rings: Vec<Ring> = Vec::new();
    let cpus = cpu_list(&online).ok_or_else(no_processors)?;
    let bytes = ring_bytes(bytes, cpus.len());
    for cpu in cpus {
        match open_ring(ids, scope, beside, cpu, bytes) {
            Ok(ring) => rings.push(ring),
            // Switched off since we read the list: nothing runs there.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(rings)
}

/// Bytes of each of so many rings, where few have so many.
fn ring_bytes(whole: usize, cpus: usize) -> usize {
    whole / cpus.div_ceil(WHOLE_RINGS).next_power_of_two().min(LEAST_PART)
}

/// Where there is no `/sys`.
pub(crate) fn no_processors() -> RecordError {
    let what = "/sys/devices/system/cpu/online names no processors".to_owned();
    RecordError::Unsupported { what, remedy: "mount /sys (as root: mount -t sysfs sysfs /sys)".to_owned() }
}

/// Of all tracepoints, and of single ones by their place.
type Filters = (Option<CString>, Vec<(usize, CString)>);

/// Filters of a plan.
fn filters(plan: &Plan<'_>) -> io::Result<Filters> {
    let filter = plan.filter.map(|text| CString::new(text).map_err(io::Error::from)).transpose()?;
    let narrow = plan.narrow.iter().map(|(at, text)| Ok((*at, CString::new(text.as_str())?)));
    Ok((filter, narrow.collect::<io::Result<_>>()?))
}

/// The rings of a plan, with its filters in place.
fn open_rings(ids: &[u64], scope: Scope, bytes: usize, plan: &Plan<'_>) -> Result<Vec<Ring>, RecordError> {
    let rings = rings_of(ids, scope, plan.beside, bytes)?;
    if matches!(scope, Scope::Process(_)) {
        return Ok(rings); // whoever is attached brings them
    }
    let (filter, narrow) = filters(plan)?;
    for ring in &rings {
        filter.iter().try_for_each(|filter| ring.filter(filter)).map_err(refused)?;
        narrow.iter().try_for_each(|(at, text)| ring.filter_one(*at, text)).map_err(refused)?;
    }
    Ok(rings)
}

/// A ring of so many data bytes, or of as many as the limit on locked memory allows.
fn open_ring(ids: &[u64], scope: Scope, beside: Beside, cpu: i32, mut bytes: usize) -> io::Result<Ring> {
    loop {
        match Ring::open(ids, cpu, scope, beside, (bytes / rustix::param::page_size()).max(1)) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && bytes > RING_BYTES_MIN => bytes /= 2,
            other => return other,
        }
    }
}

/// Reads a list of processors as sysfs writes it, e.g. `0-3,6`.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<i32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_many_processors_are_smaller_and_never_less_than_a_part() {
        let sizes = [1, 4, 5, 8, 9, 16, 32, 128].map(|cpus| ring_bytes(RING_BYTES, cpus) >> 10);
        assert_eq!(sizes, [4096, 4096, 2048, 2048, 1024, 1024, 512, 512]);
        assert!((1..=32).all(|cpus| cpus * ring_bytes(RING_BYTES, cpus) <= WHOLE_RINGS * RING_BYTES));
        assert!((1..=256).all(|cpus| ring_bytes(RING_BYTES_OF_OURS, cpus).is_power_of_two()));
    }
}
