//! How a member command is executed: a task goes in, its completion comes out, the loop never waits.
//!
//! Two backends answer the same four calls. [`Threads`] is plain `preadv` and `pwritev` on a few threads and works on every
//! kernel and file; the ring of [`crate::raw`] is io_uring. Both take tasks at once or at [`Backend::launch`], and both have a
//! file that is readable while completions wait, so the loop sleeps on one `epoll` for sockets and members alike.

use crate::behind::Behind;
use crate::nbd::wire::Run;
use crate::raw::{Lease, Lend};
use forerun_core::access::Context;
use forerun_core::units::Nanos;
use forerun_disk::device::DeviceStats;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Threads of the plain backend: what keeps a small array of disks busy without becoming a crowd.
const THREADS: usize = 16;

/// The error of a member that is away: asked again for the same request it would be waited for again.
pub(crate) fn away(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, why)
}

/// Whether an error says that the member is away, and so all that it holds.
pub(crate) fn is_away(problem: &io::Error) -> bool {
    problem.kind() == io::ErrorKind::NotConnected
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// From the file into the lease.
    Read,
    /// From the lease into the file.
    Write,
    /// Everything written before is on stable storage (`fdatasync`).
    Sync,
}

/// What a task is for; comes back in [`Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A command of the engine, by its number.
    Command(u32),
    /// The sync of a member.
    Sync(u16),
    /// A part of a command of the engine that is read alone, since the whole could not be.
    Piece {
        /// Number of the command.
        command: u32,
        /// First block of the part, counted from the command's.
        first: u32,
        /// Blocks of the part.
        blocks: u32,
    },
    /// A block that has failed and is tried anew.
    Probe {
        /// Number of the probe.
        probe: u32,
        /// Which of its blocks.
        index: u32,
    },
}

/// One command to one file.
#[derive(Debug)]
pub(crate) struct Task {
    /// What for.
    pub(crate) token: Token,
    /// What to do.
    pub(crate) kind: Kind,
    /// Number of the member, for models of it.
    pub(crate) member: u16,
    /// No program waits for it.
    pub(crate) ahead: bool,
    /// Who caused it.
    pub(crate) context: Context,
    /// With whom; none for the far member of that number.
    pub(crate) file: Option<Arc<File>>,
    /// First byte in the file.
    pub(crate) offset: u64,
    /// Bytes to move, at most those of the lease.
    pub(crate) len: u64,
    /// Where the bytes are; none for a sync.
    pub(crate) lease: Option<Lease>,
    /// The bytes of a write are all zero, and may come to be so in another way than by being written.
    pub(crate) zeroes: Option<Zeroes>,
}

/// How one gets to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Around the page cache.
    pub(crate) direct: bool,
    /// Its file system asks a program or another machine, which may never answer.
    pub(crate) asks: bool,
}

/// How a member can be made zero without being sent zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holes {
    /// It cannot.
    No,
    /// It can, and nobody knows how long that takes.
    Unsure,
    /// At once.
    Fast,
}

/// What zeroes of a client are to leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zeroes {
    /// Room is given back where that can be done.
    Hole,
    /// The room stays taken.
    Kept,
}

impl Zeroes {
    /// How `fallocate` is asked for it: never beyond the end.
    pub(crate) fn flags(self) -> rustix::fs::FallocateFlags {
        use rustix::fs::FallocateFlags as Flags;
        match self {
            Self::Hole => Flags::PUNCH_HOLE | Flags::KEEP_SIZE,
            Self::Kept => Flags::ZERO_RANGE | Flags::KEEP_SIZE,
        }
    }
}

/// A task has ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// From the task.
    pub(crate) token: Token,
    /// Bytes that moved, or why not.
    pub(crate) result: io::Result<u64>,
    /// The task's lease.
    pub(crate) lease: Option<Lease>,
}

/// Where a member has holes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// Comes back in [`Mapped`].
    pub(crate) number: u64,
    /// Number of the member.
    pub(crate) member: u16,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes, at least one.
    pub(crate) len: u64,
}

/// A question was answered.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// Its number.
    pub(crate) question: u64,
    /// What is known from its first byte on; none if nothing is.
    pub(crate) runs: Vec<Run>,
}

/// Executes tasks. All calls return at once.
pub(crate) trait Backend: Send {
    /// Takes a task at `now`.
    fn submit(&mut self, now: Nanos, task: Task);
    /// Everything submitted leaves now.
    fn launch(&mut self);
    /// Takes what has ended until `now`.
    fn reap(&mut self, now: Nanos, out: &mut Vec<Done>);
    /// The file said that something has ended: it may stop saying so.
    fn woken(&mut self) {}
    /// Whether something has ended, as far as that can be seen without a call of the kernel.
    fn has_ended(&mut self) -> bool {
        false
    }
    /// When to reap although the file says nothing.
    fn next_wake(&self) -> Option<Nanos> {
        None
    }
    /// How late completions came that had a time to come at; nothing where they come when they come.
    fn lateness(&self) -> Option<Lateness> {
        None
    }
    /// What the model of an emulated member has counted.
    fn model(&self, member: usize) -> Option<DeviceStats> {
        let _ = member;
        None
    }
    /// Asks where a far member has holes. False where nobody can say.
    fn map(&mut self, now: Nanos, question: Question) -> bool {
        let _ = (now, question);
        false
    }
    /// Takes the answers to that.
    fn mapped(&mut self, out: &mut Vec<Mapped>) {
        let _ = out;
    }
    /// Why what members hold is not what it was, if so.
    fn changed(&mut self) -> Option<String> {
        None
    }
    /// What has not ended is not waited for when this goes: it may never end.
    fn forsake(&mut self) {}
    /// What it does when all tasks have ended, if it does something.
    fn behind(&self) -> Option<&dyn Behind> {
        None
    }
    /// The same, to be told something.
    fn behind_mut(&mut self) -> Option<&mut dyn Behind> {
        None
    }
    /// Readable while something has ended and was not reaped.
    fn poll_fd(&self) -> BorrowedFd<'_>;
}

/// How far an emulated member was behind its model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Commands that the model timed.
    pub commands: u64,
    /// Median of the delay behind the model, in steps of 10 us.
    pub p50: Nanos,
    /// 99th percentile, likewise.
    pub p99: Nanos,
}

/// Shared by the loop and the threads.
#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    ended: Mutex<Vec<Done>>,
    event: OwnedFd,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<Task>,
    stop: bool,
}

/// Plain reads and writes on threads.
#[derive(Debug)]
pub(crate) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    forsaken: bool,
}

/// A panic of another thread leaves the queues whole: every change of them is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Threads {
    /// Starts the threads.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::default()),
            wake: Condvar::new(),
            ended: Mutex::new(Vec::new()),
            event,
        });
        let mut threads = Vec::with_capacity(THREADS);
        for _ in 0..THREADS {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("member".into()).stack_size(128 << 10);
            threads.push(builder.spawn(move || serve(&shared))?);
        }
        Ok(Self { shared, threads, forsaken: false })
    }
}

fn serve(shared: &Shared) {
    loop {
        let task = {
            let mut queue = lock(&shared.queue);
            loop {
                if let Some(task) = queue.tasks.pop_front() {
                    break task;
                }
                if queue.stop {
                    return;
                }
                queue = shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let done = execute(task);
        lock(&shared.ended).push(done);
        // A full counter still wakes the loop, so a refusal means nothing.
        let _ = rustix::io::write(&shared.event, &1_u64.to_ne_bytes());
    }
}

/// Executes a task here and now.
pub(crate) fn execute(task: Task) -> Done {
    let Task { token, kind, file, offset, len, mut lease, zeroes, .. } = task;
    let Some(file) = file else { unreachable!("a task without a file is a far member's") };
    let result = match (kind, &mut lease) {
        (Kind::Read, Some(lease)) => lease.read_from(file.as_fd(), offset, len),
        (Kind::Write, Some(lease)) => {
            match zeroes.map(|how| rustix::fs::fallocate(&*file, how.flags(), offset, len)) {
                Some(Ok(())) => Ok(len),
                // Whatever the reason: what is to be zero is in the lease, and its writing says what is wrong.
                Some(Err(_)) | None => lease.write_to(file.as_fd(), offset, len),
            }
        }
        (Kind::Sync, _) => file.sync_data().map(|()| 0),
        (Kind::Read | Kind::Write, None) => Ok(0),
    };
    Done { token, result, lease }
}

impl Backend for Threads {
    fn submit(&mut self, _now: Nanos, task: Task) {
        lock(&self.shared.queue).tasks.push_back(task);
        self.shared.wake.notify_one();
    }
    fn launch(&mut self) {}
    fn woken(&mut self) {
        let mut count = [0; 8];
        // Nothing to read means that somebody was quicker, which is as good.
        let _ = rustix::io::read(&self.shared.event, &mut count);
    }
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut lock(&self.shared.ended));
    }
    fn forsake(&mut self) {
        self.forsaken = true;
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.shared.queue).stop = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // One that is left to itself has what it needs, and ends with its task or with the process.
            if !self.forsaken {
                drop(thread.join());
            }
        }
    }
}

/// What a task of this kind needs of its lease.
pub(crate) const fn lend_for(kind: Kind) -> Lend {
    match kind {
        Kind::Read => Lend::Fill,
        Kind::Write | Kind::Sync => Lend::Drain,
    }
}
