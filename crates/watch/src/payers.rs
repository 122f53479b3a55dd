//! Who pays for pages that are read ahead: the daemon's own cgroup, or that of the reader.
//!
//! The kernel charges a page of a file to the cgroup of whoever asks for it first. So that a reader's pages count against the
//! reader's own limit, they are asked for by a process in its cgroup, a *payer*: a copy of this process that has joined the cgroup,
//! has two descriptors, a socket and this process, and does one thing.
//!
//! ```text
//!   worker ─▶ socket: file, stretches ─▶ payer, in the reader's cgroup ─▶ readahead × n ─▶ socket: done ─▶ worker waits for the last page
//!           └▶ socket: where many files are mapped in the daemon ─▶ payer ─▶ process_madvise ─▶ as above
//! ```
//!
//! The kernel charges whoever calls, not whoever has the mapping, so many small files that lie side by side are still one request of the device.
//!
//! A payer lives for a second after what it did last, so that a unit that ends, or a cgroup that is to be removed, does not find one
//! for long; whoever kills it has lost nothing. Between `fork` and its end it calls the kernel alone: other threads may hold any lock of
//! this process. Joining a cgroup is its owner's right or root's; where it is refused, the daemon's cgroup pays, and that is counted.
//! A cgroup of the second generation may be frozen (`docker pause`), and who joins it is frozen with it: a payer that does not answer soon
//! is left to itself, and its cgroup has none for a while. Whoever asks waits for that long once, and nobody else does.
#![expect(unsafe_code, reason = "fork and descriptors in messages have no safe interface")]

use crate::sys::Together;
use crate::{behind, load, memory, sys};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Payers that there are at once; beyond it the daemon's cgroup pays.
pub(crate) const PAYERS_MAX: usize = 64;
/// A payer ends so long after what it did last, milliseconds.
const IDLE_MS: libc::c_int = 1_000;
/// The same in nanoseconds, and until its number is not its own any more.
const IDLE: u64 = 1_000_000_000;
const FORGOTTEN: u64 = 2 * IDLE;
/// An answer that has not come by then does not come: the payer is frozen, or has no processor.
const ANSWER_SECONDS: i64 = 1;
/// So long a cgroup whose payer did not answer has none, nanoseconds.
const SILENT: u64 = 10_000_000_000;
/// Stretches of a message.
const STRETCHES_MAX: usize = 64;

/// Offset and bytes of a part of a file.
pub(crate) type Stretch = (u64, u64);

/// Whose cgroup pays: ours, or where there are payers that of whoever is read ahead of.
#[derive(Clone, Debug, Default)]
pub struct Charge(Option<Arc<Payers>>);

/// What payers did, and what nobody paid for but us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paid {
    /// Requests that a payer made.
    pub requests: u64,
    /// Requests that we made since there was no payer: a cgroup that could not be joined, or too many at once.
    pub unpaid: u64,
    /// Payers that there are now.
    pub payers: usize,
}

/// The account of one reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bill {
    /// Whom to ask, and the cgroup; `None`: we pay.
    to: Option<(Arc<Payers>, PathBuf)>,
}

/// All payers.
#[derive(Debug, Default)]
pub(crate) struct Payers {
    state: Mutex<State>,
    /// How many there are: looked at for each event, without a lock while there are none.
    alive: AtomicUsize,
    requests: AtomicU64,
    unpaid: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Payer>,
    /// When each did something last; `u64::MAX` while it does.
    seen: BTreeMap<u32, u64>,
    /// Those that are being made.
    begun: usize,
    /// Cgroups whose payers did not answer, and until when they have none.
    silent: BTreeMap<PathBuf, u64>,
}

/// What a payer says.
type Answer = io::Result<()>;

/// What a payer is to ask for.
#[derive(Clone, Copy, Debug)]
enum Wish<'a> {
    /// Parts of a file.
    File(BorrowedFd<'a>, &'a [Stretch]),
    /// What is mapped in this process: address and bytes.
    Mapped(Stretch),
}

/// One process.
#[derive(Debug)]
struct Payer {
    socket: OwnedFd,
    pid: u32,
    folder: PathBuf,
    /// When it did something last.
    at: u64,
}

impl Charge {
    /// Ours, or that of readers.
    ///
    /// # Errors
    /// As [`Charge::reader`].
    pub(crate) fn of(reader: bool) -> io::Result<Self> {
        if reader { Self::reader() } else { Ok(Self::default()) }
    }

    /// Readers pay, if this process may join cgroups: tried once, with its own.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn reader() -> io::Result<Self> {
        let own = memory::folder_of(std::process::id()).ok_or(io::ErrorKind::NotFound)?;
        drop(Payer::new(&own)?);
        Ok(Self(Some(Arc::default())))
    }

    /// Whether readers pay.
    pub(crate) const fn is_reader(&self) -> bool {
        self.0.is_some()
    }

    /// The account of a process or thread; one that is gone has none, and we pay.
    pub(crate) fn bill(&self, reader: u32) -> Bill {
        let Some(payers) = &self.0 else { return Bill::default() };
        let folder = memory::folder_of(reader);
        let other = folder.filter(|folder| memory::folder_of(std::process::id()).as_ref() != Some(folder));
        Bill { to: other.map(|folder| (Arc::clone(payers), folder)) }
    }

    /// Pages that may be in flight, or issued and unread, for a reader: a quarter of what the limit of whoever pays leaves.
    pub(crate) fn window_pages(&self, reader: u32) -> u64 {
        match self.0 {
            None => load::window_pages(),
            Some(_) => load::window_within(memory::cgroup_of(reader).map(|(_, limit)| limit)),
        }
    }

    /// Whether a process is one of ours that pays: what it reads is no program's wish.
    pub(crate) fn is_payer(&self, pid: u32) -> bool {
        self.0.as_ref().is_some_and(|all| all.alive.load(Ordering::Relaxed) > 0 && all.has(pid))
    }

    /// What came of it.
    pub(crate) fn paid(&self) -> Paid {
        let Some(payers) = &self.0 else { return Paid::default() };
        Paid {
            requests: payers.requests.load(Ordering::Relaxed),
            unpaid: payers.unpaid.load(Ordering::Relaxed),
            payers: payers.living(),
        }
    }
}

impl Bill {
    /// Whether another cgroup than ours pays.
    pub(crate) const fn is_of_another(&self) -> bool {
        self.to.is_some()
    }

    /// Asks for parts of a file on this account, and does not wait until they are there.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn readahead(&self, file: BorrowedFd<'_>, stretches: &[Stretch]) -> io::Result<()> {
        for some in stretches.chunks(STRETCHES_MAX) {
            self.asked(Wish::File(file, some)).unwrap_or_else(|| ourselves(file, some))?;
        }
        Ok(())
    }

    /// The same of stretches of many files, which are put together first.
    ///
    /// # Errors
    /// What the system said: before Linux 5.10 no other process can ask for them together.
    pub(crate) fn readahead_together(&self, all: &Together) -> io::Result<()> {
        self.asked(Wish::Mapped(all.place())).unwrap_or_else(|| all.readahead())
    }

    /// What a payer said; `None` where it is us who pay.
    fn asked(&self, wish: Wish<'_>) -> Option<Answer> {
        let (payers, folder) = self.to.as_ref()?;
        let answer = payers.ask(folder, wish);
        let count = if answer.is_some() { &payers.requests } else { &payers.unpaid };
        count.fetch_add(1, Ordering::Relaxed);
        answer
    }
}

fn ourselves(file: BorrowedFd<'_>, stretches: &[Stretch]) -> io::Result<()> {
    stretches.iter().try_for_each(|&(offset, bytes)| sys::readahead(file, offset, bytes))
}

impl Payers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that work, or did a moment ago.
    fn living(&self) -> usize {
        let now = sys::now();
        let lives = |at: &&u64| **at == u64::MAX || now.saturating_sub(**at) < IDLE;
        self.lock().seen.values().filter(lives).count()
    }

    fn has(&self, pid: u32) -> bool {
        let seen = self.lock().seen.get(&pid).copied();
        seen.is_some_and(|at| at == u64::MAX || sys::now().saturating_sub(at) < FORGOTTEN)
    }

    /// What a payer of the cgroup answers; `None` where there is none to be had.
    fn ask(&self, folder: &Path, wish: Wish<'_>) -> Option<Answer> {
        // One that ended just now has done nothing: the next one does.
        for _ in 0..2 {
            let mut payer = self.take(folder)?;
            let answer = payer.ask(wish);
            payer.at = sys::now();
            let mut state = self.lock();
            state.seen.insert(payer.pid, payer.at);
            match answer {
                Ok(answer) => {
                    state.idle.push(payer);
                    return Some(answer);
                }
                Err(problem) if problem.kind() == io::ErrorKind::TimedOut => {
                    state.is_silent(folder);
                    return None;
                }
                Err(_) => {}
            }
        }
        None
    }

    /// One that nobody uses, or a new one.
    fn take(&self, folder: &Path) -> Option<Payer> {
        let now = sys::now();
        let mut state = self.lock();
        // Those that have rested for so long have ended, and their numbers may be others' soon.
        state.idle.retain(|payer| now.saturating_sub(payer.at) < IDLE);
        state.seen.retain(|_, at| *at == u64::MAX || now.saturating_sub(*at) < FORGOTTEN);
        state.silent.retain(|_, until| now < *until);
        if state.silent.contains_key(folder) {
            return None;
        }
        let found = state.idle.iter().rposition(|payer| payer.folder == folder);
        let payer = match found {
            Some(at) => state.idle.swap_remove(at),
            None if state.seen.len() + state.begun >= PAYERS_MAX => return None,
            None => {
                state.begun += 1;
                // Without the lock, which is taken for each event: a new one may have to be waited for.
                drop(state);
                let made = Payer::new(folder);
                state = self.lock();
                state.begun -= 1;
                if made.as_ref().is_err_and(|problem| problem.kind() == io::ErrorKind::TimedOut) {
                    state.is_silent(folder);
                }
                made.ok()?
            }
        };
        // What is new is known as ours before it reads anything.
        state.seen.insert(payer.pid, u64::MAX);
        self.alive.store(state.seen.len(), Ordering::Relaxed);
        Some(payer)
    }
}

impl State {
    /// A cgroup does not answer.
    fn is_silent(&mut self, folder: &Path) {
        self.silent.insert(folder.into(), sys::now() + SILENT);
    }
}

impl Payer {
    /// A process in a cgroup.
    fn new(folder: &Path) -> io::Result<Self> {
        let procs = folder.join("cgroup.procs").into_os_string().into_vec();
        let procs = CString::new(procs).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (ours, theirs) = pair()?;
        let us =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty())?;
        let (socket, whose) = (theirs.as_raw_fd(), us.as_raw_fd());
        behind::leave(&mut [socket, whose], || pay(socket, whose, &procs))?;
        drop((theirs, us));
        let mut hello = [0_i32; 2];
        receive(&ours, &mut hello)?;
        match hello {
            [pid, 0] => {
                Ok(Self { socket: ours, pid: pid.unsigned_abs(), folder: folder.into(), at: sys::now() })
            }
            [_, problem] => Err(io::Error::from_raw_os_error(problem)),
        }
    }

    /// Has something asked for.
    ///
    /// # Errors
    /// As [`receive`].
    fn ask(&self, wish: Wish<'_>) -> io::Result<Answer> {
        if !send(&self.socket, wish) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut answer = [0_i32];
        receive(&self.socket, &mut answer)?;
        Ok(match answer[0] {
            0 => Ok(()),
            problem => Err(io::Error::from_raw_os_error(problem)),
        })
    }
}

/// Two ends of a socket that keeps messages apart.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the call fills two descriptors that nobody else has.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just made for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Room for one descriptor beside a message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Beside([u8; 24]);

/// A message, with one descriptor if it is of a file; whether it was sent.
fn send(socket: &OwnedFd, wish: Wish<'_>) -> bool {
    let (file, stretches) = match &wish {
        Wish::File(file, stretches) => (Some(file), *stretches),
        Wish::Mapped(place) => (None, std::slice::from_ref(place)),
    };
    let mut numbers = [[0_u64; 2]; STRETCHES_MAX];
    numbers.iter_mut().zip(stretches).for_each(|(to, &(offset, bytes))| *to = [offset, bytes]);
    let mut part = libc::iovec {
        iov_base: numbers.as_mut_ptr().cast(),
        iov_len: size_of::<[u64; 2]>() * stretches.len().min(STRETCHES_MAX),
    };
    let mut beside = Beside([0; 24]);
    // SAFETY: a message of zeros is one, and every pointer in it is to memory that lives until the call has returned; `beside` has room
    // for a header and one descriptor.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        if let Some(file) = file {
            message.msg_control = (&raw mut beside).cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(file.as_raw_fd());
        }
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) >= 0
    }
}

/// A message of whole numbers. A signal does not end the wait.
///
/// # Errors
/// `TimedOut` where none came soon, something else where none comes any more.
fn receive(socket: &OwnedFd, numbers: &mut [i32]) -> io::Result<()> {
    let soon = Timespec { tv_sec: ANSWER_SECONDS, tv_nsec: 0 };
    let came = rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&soon)))?;
    if came == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let bytes = size_of_val(numbers);
    // SAFETY: the kernel writes at most so many bytes into memory of ours.
    let got =
        unsafe { libc::recv(socket.as_raw_fd(), numbers.as_mut_ptr().cast(), bytes, libc::MSG_DONTWAIT) };
    if usize::try_from(got) == Ok(bytes) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// What a payer does until it is idle for long or nobody is there any more. It calls the kernel alone.
fn pay(socket: RawFd, whose: RawFd, procs: &CString) {
    // SAFETY: calls of the kernel with numbers and memory of our own, in a process of one thread.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"forerun-pays".as_ptr());
        let to = libc::open(procs.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        let joined = to >= 0 && libc::write(to, b"0".as_ptr().cast(), 1) == 1;
        let hello = [libc::getpid(), if joined { 0 } else { *libc::__errno_location() }];
        libc::close(to);
        libc::send(socket, hello.as_ptr().cast(), size_of_val(&hello), libc::MSG_NOSIGNAL);
        if !joined {
            return;
        }
        let mut wait = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
        // A signal ends it, too: whoever stops all that is in the cgroup means it as well.
        while libc::poll(&raw mut wait, 1, IDLE_MS) > 0 {
            let Some(answer) = one(socket, whose) else { return };
            if libc::send(socket, (&raw const answer).cast(), 4, libc::MSG_NOSIGNAL) < 0 {
                return;
            }
        }
    }
}

/// One message: what the system said of the first part that could not be asked for; `None` where nobody sends any more.
unsafe fn one(socket: RawFd, whose: RawFd) -> Option<i32> {
    let mut numbers = [[0_u64; 2]; STRETCHES_MAX];
    let mut part = libc::iovec { iov_base: numbers.as_mut_ptr().cast(), iov_len: size_of_val(&numbers) };
    let mut beside = Beside([0; 24]);
    // SAFETY: as in `send`; what came has a descriptor of ours, which is closed once.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        message.msg_control = (&raw mut beside).cast();
        message.msg_controllen = size_of::<Beside>() as _;
        let got = usize::try_from(libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC)).ok()?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if got == 0 {
            return None;
        }
        if header.is_null() {
            // What is mapped there is asked for by us: the kernel charges who calls.
            let [address, bytes] = numbers[0];
            let place = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes as usize };
            let call = libc::SYS_process_madvise;
            let asked = libc::syscall(call, whose, &raw const place, 1_usize, libc::MADV_WILLNEED, 0_u32);
            return Some(if asked < 0 { *libc::__errno_location() } else { 0 });
        }
        if (*header).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        let file = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
        let mut problem = 0;
        for &[offset, bytes] in &numbers[..got / size_of::<[u64; 2]>()] {
            if problem == 0 && libc::readahead(file, offset as i64, bytes as usize) != 0 {
                problem = *libc::__errno_location();
            }
        }
        libc::close(file);
        Some(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{PidfdFlags, pidfd_open};
    use std::fs;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_payer_asks_for_what_it_is_told_and_ends_when_nobody_asks_any_more() {
        // A file of its own: nobody else reads it.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let path = folder.path().join("data");
        fs::write(&path, vec![1; 1 << 20]).expect("room on disk");
        let file = fs::File::open(&path).expect("just written");
        file.sync_all().expect("synced");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
        let kept = rustix::fs::fstatfs(&file).expect("asked").f_type == libc::TMPFS_MAGIC;
        match sys::cached(file.as_fd(), 0, 1 << 20) {
            Ok(pages) if !kept => assert_eq!(pages, 0, "dropped"),
            _ => return, // a file system that keeps all in memory, or a kernel before 6.5
        }
        let joins = folder.path().join("cgroup.procs");
        fs::write(&joins, "").expect("room on disk");

        let payers = Payers::default();
        let stretches = [(0, 64 << 10), (512 << 10, 64 << 10)];
        let answer = payers.ask(folder.path(), Wish::File(file.as_fd(), &stretches));
        assert!(matches!(answer, Some(Ok(()))), "{answer:?}");
        let there = |at: u64| sys::cached(file.as_fd(), at, 64 << 10);
        assert_eq!(there(0).expect("cachestat"), 16);
        assert_eq!(there(512 << 10).expect("cachestat"), 16);
        assert_eq!(there(256 << 10).expect("cachestat"), 0);
        assert_eq!(fs::read_to_string(&joins).expect("there"), "0", "it has joined");

        let pid = payers.lock().idle[0].pid;
        assert!(payers.has(pid) && pid != std::process::id());
        assert!(matches!(payers.ask(folder.path(), Wish::File(file.as_fd(), &stretches)), Some(Ok(()))));
        let all = Together::of(
            [(file.as_fd(), 256 << 10, 64 << 10), (file.as_fd(), 768 << 10, 64 << 10)].into_iter(),
        );
        let all = all.expect("mapped");
        match payers.ask(folder.path(), Wish::Mapped(all.place())) {
            Some(Ok(())) => {
                let both = [256 << 10, 768 << 10].map(|at| there(at).expect("cachestat"));
                assert_eq!(both, [16, 16], "by another process than that which maps them");
            }
            // Before Linux 5.10, or without the right.
            Some(Err(problem)) => {
                assert!(matches!(problem.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)), "{problem}")
            }
            None => panic!("nobody answers"),
        }
        let idle = payers.lock().idle.len();
        assert_eq!((idle, payers.living()), (1, 1), "the same one again");
        let number = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
        let process = pidfd_open(number, PidfdFlags::empty()).expect("it is there");
        drop(payers);
        let long = Timespec { tv_sec: 5, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&long)).expect("asked");
        assert_eq!(ended, 1, "nobody has the other end");
    }

    #[test]
    fn one_that_was_killed_is_replaced_and_a_cgroup_that_cannot_be_joined_has_none() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("cgroup.procs"), "").expect("room on disk");
        let file = fs::File::open(folder.path().join("cgroup.procs")).expect("just written");
        let payers = Payers::default();
        let ask = || payers.ask(folder.path(), Wish::File(file.as_fd(), &[(0, 4096)]));
        assert!(ask().is_some());
        let pid = payers.lock().idle[0].pid;
        let killed = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).expect("ours");
        assert!(ask().is_some(), "by another");
        assert_ne!(payers.lock().idle[0].pid, pid);
        fs::remove_file(folder.path().join("cgroup.procs")).expect("there");
        payers.lock().idle.clear();
        assert!(ask().is_none());
    }

    #[test]
    fn a_cgroup_that_is_frozen_is_waited_for_once_and_holds_nobody_else_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let frozen = folder.path().join("frozen");
        fs::create_dir(&frozen).expect("room on disk");
        // Who opens it to write waits for somebody who reads: as who joins a cgroup that is frozen does.
        let procs = frozen.join("cgroup.procs");
        rustix::fs::mknodat(rustix::fs::CWD, &procs, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a FIFO");
        let other = folder.path().join("other");
        fs::create_dir(&other).expect("room on disk");
        fs::write(other.join("cgroup.procs"), "").expect("room on disk");
        let file = fs::File::open(other.join("cgroup.procs")).expect("just written");
        let payers = Payers::default();
        let ask = |folder: &Path| payers.ask(folder, Wish::File(file.as_fd(), &[(0, 4096)])).is_some();
        let begun = sys::now();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| ask(&frozen));
            while payers.lock().begun == 0 && !waits.is_finished() {
                std::thread::yield_now();
            }
            assert!(!payers.has(1), "an event is looked at meanwhile");
            assert!(!waits.is_finished(), "and nobody has answered yet");
            assert!(!waits.join().expect("it comes back"), "we pay");
        });
        let took = sys::now() - begun;
        assert!(took < 20_000_000_000, "{took} ns");
        assert!(!ask(&frozen) && payers.lock().begun == 0, "not asked again");
        assert!(ask(&other), "others are");

        // One that is frozen at its work.
        let pid = payers.lock().idle[0].pid;
        let number = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
        rustix::process::kill_process(number, rustix::process::Signal::STOP).expect("ours");
        assert!(!ask(&other), "it does not answer");
        assert!(payers.lock().silent.contains_key(&other));
        rustix::process::kill_process(number, rustix::process::Signal::KILL).expect("ours");
        // Who waits to join is let go.
        drop(fs::File::options().read(true).write(true).open(&procs).expect("both ends"));
    }

    #[test]
    fn who_shares_our_cgroup_or_is_gone_is_read_ahead_of_on_our_account() {
        let charge = Charge(Some(Arc::default()));
        assert!(!charge.bill(std::process::id()).is_of_another());
        assert!(!charge.bill(u32::MAX).is_of_another());
        let own = Charge::default();
        assert!(!own.bill(1).is_of_another() && !own.is_payer(1));
    }
}
