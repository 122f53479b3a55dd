//! Member commands through a ring of the kernel (io_uring): submitted together, reaped together, no thread between.
//!
//! One ring, used by the loop alone. What is in flight lies in a table with its lease, its file and its list of pieces, so
//! everything that the kernel was told the address of stays where it is until the completion has come; dropping the ring
//! waits for all of it. With direct I/O the arena is registered once and a command whose blocks lie one behind the other
//! needs no list and no look-up of pages (`READ_FIXED`). The ring's file is readable when completions wait, so the loop
//! polls it like a socket. A completion that says EINTR or EAGAIN is sent again.
//!
//! The kernel tries each command at once, in our call. A file system that asks a program or another machine (FUSE, NFS) may wait for its
//! answer there, and hold up all exports: commands to such members are given to threads of the kernel, as many as there are commands.
//!
//! Where the kernel can (Linux 5.19), an end does not interrupt the loop while that runs: the kernel raises a flag in shared memory and
//! finishes the command at the loop's next call, so one that looks for ends makes none.

use super::{Arena, BLOCK, Lend};
use crate::backend::{Backend, Done, Kind, Reach, Task};
use forerun_core::units::Nanos;
use io_uring::{Builder, IoUring, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Entries of the submission queue; more commands than this wait in a list of ours.
const ENTRIES: u32 = 256;
/// Entries of the completion queue: above all that 64 members hold at once (dispatch: 32 each) and their syncs.
const COMPLETIONS: u32 = 4096;
/// Largest registered buffer, a bound of the kernel: 1 GiB, in blocks.
const REGISTERED_BLOCKS: u32 = 262_144;

/// Most threads of the kernel for commands that may wait: all that 32 members which ask others hold at once (dispatch: 32 each). They are
/// made as they are wanted. With fewer, a member that does not answer would hold them all, and syncs of others wait for one.
const WORKERS_MAX: u32 = 1024;

/// A command that the kernel works on, or that waits to be submitted.
struct Flight {
    task: Task,
    /// Bytes of a write that the kernel has taken already: it may take less than it is given, and says why at the next.
    moved: u64,
    pieces: Vec<libc::iovec>,
}

/// The ring and what is in flight on it.
pub(crate) struct Ring {
    ring: IoUring,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    waiting: VecDeque<usize>,
    /// Entries that were pushed and whose completion was not reaped: at most as many as completions have places, or the kernel
    /// would keep some aside until it is asked for them.
    in_kernel: usize,
    completions: usize,
    unsubmitted: bool,
    registered: bool,
    /// Commands go to threads of the kernel.
    asks: bool,
    forsaken: bool,
}

// SAFETY: the raw pointers in `Flight::pieces` point into the mapping that the flight's lease keeps alive.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring; for direct I/O the firm memory of the arena is pinned, where the kernel allows it.
    pub(crate) fn new(arena: &Arena, Reach { direct, asks }: Reach) -> io::Result<Self> {
        let ring = patient().or_else(|_| builder().build(ENTRIES))?;
        let registered = direct && register_arena(&ring, arena);
        if asks {
            // An older kernel (before 5.15) has four for each processor.
            let _ = ring.submitter().register_iowq_max_workers(&mut [WORKERS_MAX, 0]);
        }
        Ok(Self {
            completions: ring.params().cq_entries() as usize,
            ring,
            flights: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            in_kernel: 0,
            unsubmitted: false,
            registered,
            asks,
            forsaken: false,
        })
    }

    fn push(&mut self, at: usize) -> bool {
        if self.in_kernel >= self.completions {
            return false;
        }
        let entry = self.entry(at);
        // SAFETY: the entry names a file, a list and memory that the flight keeps until its completion is reaped.
        let pushed = unsafe { self.ring.submission().push(&entry).is_ok() };
        self.unsubmitted |= pushed;
        self.in_kernel += usize::from(pushed);
        pushed
    }

    fn entry(&mut self, at: usize) -> squeue::Entry {
        let registered = self.registered;
        let Some(flight) = self.flights[at].as_mut() else {
            unreachable!("only what is in flight is submitted")
        };
        let Some(file) = &flight.task.file else { unreachable!("a task without a file is a far member's") };
        let fd = types::Fd(file.as_raw_fd());
        if let Some(zeroes) = flight.task.zeroes {
            let (offset, len) = (flight.task.offset, flight.task.len);
            let mode = zeroes.flags().bits() as i32;
            return opcode::Fallocate::new(fd, len).offset(offset).mode(mode).build().user_data(at as u64);
        }
        let (offset, len) = (flight.task.offset + flight.moved, flight.task.len - flight.moved);
        if let Some(lease) = &flight.task.lease {
            lease.pieces(flight.moved, len, &mut flight.pieces);
        }
        let fixed = fixed_index(flight).filter(|_| registered);
        let (list, count) = (flight.pieces.as_ptr(), flight.pieces.len() as u32);
        let entry = match (flight.task.kind, fixed) {
            (Kind::Sync, _) => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            (Kind::Read, Some(index)) => {
                opcode::ReadFixed::new(fd, flight.pieces[0].iov_base.cast(), len as u32, index)
                    .offset(offset)
                    .build()
            }
            (Kind::Write, Some(index)) => {
                opcode::WriteFixed::new(fd, flight.pieces[0].iov_base.cast(), len as u32, index)
                    .offset(offset)
                    .build()
            }
            (Kind::Read, None) => opcode::Readv::new(fd, list, count).offset(offset).build(),
            (Kind::Write, None) => opcode::Writev::new(fd, list, count).offset(offset).build(),
        };
        let entry = if self.asks { entry.flags(squeue::Flags::ASYNC) } else { entry };
        entry.user_data(at as u64)
    }

    fn push_waiting(&mut self) {
        while let Some(&at) = self.waiting.front() {
            if !self.push(at) {
                break;
            }
            self.waiting.pop_front();
        }
    }
}

fn builder() -> Builder {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_cqsize(COMPLETIONS);
    builder
}

/// A ring whose ends wait for the loop's next call.
fn patient() -> io::Result<IoUring> {
    builder().setup_coop_taskrun().setup_taskrun_flag().build(ENTRIES)
}

/// The registered buffer in which the whole transfer lies, if there is one.
fn fixed_index(flight: &Flight) -> Option<u16> {
    let lease = flight.task.lease.as_ref()?;
    let [run] = lease.runs[..] else { return None };
    let last = run.first + run.blocks - 1;
    if last as usize >= lease.map.firm_blocks {
        return None; // loose blocks, and the one where unwanted data goes, are not registered
    }
    let index = run.first / REGISTERED_BLOCKS;
    (index == last / REGISTERED_BLOCKS && flight.pieces.len() == 1).then_some(index as u16)
}

fn register_arena(ring: &IoUring, arena: &Arena) -> bool {
    let blocks = arena.map.firm_blocks;
    let buffers: Vec<libc::iovec> = (0..blocks)
        .step_by(REGISTERED_BLOCKS as usize)
        .map(|first| {
            let count = (blocks - first).min(REGISTERED_BLOCKS as usize);
            // SAFETY: within the mapping.
            let base = unsafe { arena.map.base.as_ptr().add(first * BLOCK) };
            libc::iovec { iov_base: base.cast(), iov_len: count * BLOCK }
        })
        .collect();
    // SAFETY: the kernel pins the pages; they are unmapped only when no lease and no arena is left, and pinned pages live
    // on in the kernel even then.
    unsafe { ring.submitter().register_buffers(&buffers).is_ok() }
}

impl Backend for Ring {
    fn submit(&mut self, _now: Nanos, task: Task) {
        debug_assert!(
            task.lease.as_ref().is_none_or(|l| (l.how == Lend::Fill) == (task.kind == Kind::Read)),
            "a read fills and a write drains"
        );
        let flight = Some(Flight { task, moved: 0, pieces: Vec::new() });
        let at = match self.free.pop() {
            Some(at) => {
                self.flights[at] = flight;
                at
            }
            None => {
                self.flights.push(flight);
                self.flights.len() - 1
            }
        };
        if !self.waiting.is_empty() || !self.push(at) {
            self.waiting.push_back(at);
        }
    }

    fn launch(&mut self) {
        self.push_waiting();
        while self.unsubmitted {
            match self.ring.submit() {
                Ok(_) => self.unsubmitted = false,
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                // The kernel is short of memory or the completions are many: reaping them comes first.
                Err(_) => break,
            }
            self.push_waiting();
        }
    }

    fn has_ended(&mut self) -> bool {
        !self.ring.completion().is_empty() || self.ring.submission().taskrun()
    }

    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        let mut again = Vec::new();
        if self.ring.submission().taskrun() {
            // What is finished by this call is reaped below; what it refuses to do is done by the next.
            let _ = self.ring.submit();
        }
        for completion in self.ring.completion() {
            let at = completion.user_data() as usize;
            let result = completion.result();
            self.in_kernel -= 1;
            if result == -libc::EINTR || result == -libc::EAGAIN {
                again.push(at);
                continue;
            }
            let Some(flight) = &mut self.flights[at] else { continue };
            if flight.task.zeroes.take().is_some() {
                if result == 0 {
                    flight.moved = flight.task.len;
                } else {
                    // Whatever the reason: what is to be zero is in the lease, and its writing says what is wrong.
                    again.push(at);
                    continue;
                }
            }
            if result > 0 && flight.task.kind == Kind::Write {
                flight.moved += u64::from(result as u32);
                if flight.moved < flight.task.len {
                    again.push(at);
                    continue;
                }
            }
            let Some(flight) = self.flights[at].take() else { continue };
            self.free.push(at);
            let result = match (result, flight.task.kind) {
                (..0, _) => Err(io::Error::from_raw_os_error(-result)),
                (_, Kind::Write) => Ok(flight.moved),
                _ => Ok(u64::from(result as u32)),
            };
            out.push(Done { token: flight.task.token, result, lease: flight.task.lease });
        }
        self.waiting.extend(again);
    }

    fn forsake(&mut self) {
        self.forsaken = true;
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring's file is open as long as `self` is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write into leased memory: it is waited for. What was never submitted is simply dropped.
        let mut ended = Vec::new();
        while self.in_kernel > 0 && !self.forsaken && self.ring.submit_and_wait(1).is_ok() {
            self.reap(Nanos::ZERO, &mut ended);
        }
        if self.in_kernel > 0 {
            // The kernel does not answer: memory that it may write stays mapped for ever.
            std::mem::forget(std::mem::take(&mut self.flights));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Token;
    use std::sync::Arc;

    #[test]
    fn no_more_is_in_the_kernel_than_completions_have_places_and_all_of_it_ends() {
        let arena = Arena::new(1, 0).expect("memory");
        // Where the kernel has no rings there is nothing to hold back.
        let Ok(mut ring) = Ring::new(&arena, Reach::default()) else { return };
        ring.completions = 3;
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        for token in 0..10 {
            let file = Some(Arc::clone(&file));
            let context = forerun_core::access::Context(0);
            let task = Task {
                token: Token::Sync(token),
                kind: Kind::Sync,
                member: 0,
                ahead: false,
                context,
                file,
                offset: 0,
                len: 0,
                lease: None,
                zeroes: None,
            };
            ring.submit(Nanos::ZERO, task);
        }
        let mut ended = Vec::new();
        while ended.len() < 10 {
            assert!(ring.in_kernel <= 3, "{} are in the kernel", ring.in_kernel);
            ring.launch();
            ring.ring.submit_and_wait(1).expect("it ends");
            ring.reap(Nanos::ZERO, &mut ended);
        }
        assert!(ended.iter().all(|done| done.result.is_ok()) && ring.in_kernel == 0);
    }
}
