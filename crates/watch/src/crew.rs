//! The workers of a replay: each does one job at a time and waits for its end, as many at once as fill the device (`pace.rs`).
//!
//! ```text
//!   feeder ─▶ push: no more unread than may be, no more in flight than fills the device ─▶ queue ─▶ worker ─▶ device
//!     ▲                                                                                               │
//!     └────────────────────────────────────────── ended ──────────────────────────────────────────────┘
//! ```
//!
//! A job of several files that lie side by side is one request of the device, and counts as one. On a disk that turns a job may be several commands, each
//! at another place: there commands are bounded too, or the disk would be given hundreds to choose from and a reader who comes meanwhile would wait for its turn among them.

use crate::pace::Depth;
use crate::sys;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What workers are called, by which the kernel tells what they load.
pub(crate) const WORKER: &str = "forerun-read";
/// Stack of a worker: it holds a few paths.
const STACK_BYTES: usize = 256 << 10;
/// Commands in flight at a disk that turns: four times what one sorts. With hundreds a reader who comes meanwhile waits among them.
const COMMANDS_MAX: u32 = 128;
/// Requests in flight from which on several may be one job: as many of those as a device has of single ones at first.
const DEEP: u32 = 32;
/// Longest wait for a reader before it is looked again whether the run has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What is done, and when no more.
pub(crate) trait Work: Send + Sync + 'static {
    /// What one worker does at a time.
    type Job: Send;
    /// Whether nothing more is begun.
    fn stopped(&self) -> bool;
    /// Pages that were asked for and that nobody has come to.
    fn unread(&self) -> u64;
    /// It is held back because of these.
    fn held_back(&self);
    /// How many commands of a disk that turns a job is; 0 for other devices, where jobs are counted alone.
    fn commands(&self, job: &Self::Job) -> u32;
    /// As how many requests of the usual size a job counts.
    fn requests(&self, job: &Self::Job) -> u32;
    /// Does a job; the pages that were asked of the device.
    fn work(&self, job: Self::Job) -> u64;
}

/// The workers of one feeder.
pub(crate) struct Crew<W: Work> {
    inner: Arc<Inner<W>>,
}

struct Inner<W: Work> {
    does: W,
    state: Mutex<State<W::Job>>,
    /// There is something to do for one worker, or nothing any more for all.
    work: Condvar,
    /// A job has ended, which only the feeder waits for.
    ended: Condvar,
}

struct State<Job> {
    queue: VecDeque<Job>,
    depth: Depth,
    /// Requests.
    in_flight: u32,
    /// Of a disk that turns: commands that these jobs are.
    commands: u32,
    idle: usize,
    over: bool,
}

impl<Job> State<Job> {
    /// Whether the device may have one more job, of so many requests and commands.
    fn may_have(&self, requests: u32, commands: u32) -> bool {
        let fits = self.commands == 0 || self.commands + commands <= COMMANDS_MAX;
        fits && (self.in_flight == 0 || self.in_flight + requests <= self.depth.limit())
    }
}

impl<W: Work> Inner<W> {
    fn lock(&self) -> MutexGuard<'_, State<W::Job>> {
        // A worker that panicked has lost one request, which is a later miss of its reader.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until a job has ended, or for a moment: readers and the end of the run are not told.
    fn wait<'a>(&self, state: MutexGuard<'a, State<W::Job>>) -> MutexGuard<'a, State<W::Job>> {
        let waited = self.ended.wait_timeout(state, LOOK_AGAIN);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn work(&self) {
        let mut state = self.lock();
        while !state.over && !self.does.stopped() {
            let Some(job) = state.queue.pop_front() else {
                state.idle += 1;
                // The feeder looks at the clock, and tells all when it ends.
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            let (begun, requests, commands) =
                (sys::now(), self.does.requests(&job), self.does.commands(&job));
            let pages = self.does.work(job);
            let now = sys::now();
            state = self.lock();
            (state.in_flight, state.commands) = (state.in_flight - requests, state.commands - commands);
            // What was here already says nothing of the device.
            if pages > 0 {
                state.depth.done(now, now - begun, requests);
            }
            self.ended.notify_one();
        }
    }
}

impl<W: Work> Crew<W> {
    pub(crate) fn new(does: W, depth: Depth) -> Self {
        let state = State { queue: VecDeque::new(), depth, in_flight: 0, commands: 0, idle: 0, over: false };
        let (state, work, ended) = (Mutex::new(state), Condvar::new(), Condvar::new());
        Self { inner: Arc::new(Inner { does, state, work, ended }) }
    }

    /// Hands a job to a worker as soon as the device may have one more and no more than `ahead` pages are unread.
    pub(crate) fn push(&self, job: W::Job, ahead: u64) {
        let inner = &self.inner;
        let (requests, commands) = (inner.does.requests(&job), inner.does.commands(&job));
        let mut state = inner.lock();
        while !inner.does.stopped() {
            if inner.does.unread() >= ahead {
                state.depth.idle();
                inner.does.held_back();
            } else if state.may_have(requests, commands) {
                break;
            } else {
                state.depth.pressed();
            }
            state = inner.wait(state);
        }
        if inner.does.stopped() {
            return;
        }
        state.queue.push_back(job);
        (state.in_flight, state.commands) = (state.in_flight + requests, state.commands + commands);
        // One that was woken for the job before may not have come to it yet.
        if state.idle < state.queue.len() {
            let inner = Arc::clone(inner);
            let named = std::thread::Builder::new().name(WORKER.into()).stack_size(STACK_BYTES);
            // Without a worker more, those that there are do it later.
            drop(named.spawn(move || inner.work()));
        }
        drop(state);
        inner.work.notify_one();
    }

    /// Whether the device may have so many requests that several are better asked for at once.
    pub(crate) fn is_deep(&self) -> bool {
        self.inner.lock().depth.limit() >= DEEP
    }

    /// Waits until everything handed out is done.
    pub(crate) fn drain(&self) {
        let mut state = self.inner.lock();
        while state.in_flight > 0 && !self.inner.does.stopped() {
            state = self.inner.wait(state);
        }
        state.depth.idle();
    }
}

impl<W: Work> Drop for Crew<W> {
    fn drop(&mut self) {
        self.inner.lock().over = true;
        self.inner.work.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_has_few_jobs_or_few_commands_and_one_job_always() {
        let depth = Depth::new(16, true, 0);
        let state = |in_flight, commands| State::<()> {
            queue: VecDeque::new(),
            depth: depth.clone(),
            in_flight,
            commands,
            idle: 0,
            over: false,
        };
        assert!(
            state(15, 15).may_have(1, 1) && !state(16, 16).may_have(1, 1),
            "as many jobs as the device may have"
        );
        assert!(
            state(3, 96).may_have(1, 32) && !state(4, 128).may_have(1, 32) && !state(4, 120).may_have(1, 32)
        );
        assert!(state(0, 0).may_have(1, COMMANDS_MAX + 1), "else it would never be read");
        assert!(state(15, 0).may_have(1, 0), "of others requests are counted alone");
        assert!(
            state(12, 0).may_have(4, 0) && !state(13, 0).may_have(4, 0),
            "a large one takes the place of four"
        );
        assert!(state(0, 0).may_have(17, 0), "else it would never be read");
    }
}
