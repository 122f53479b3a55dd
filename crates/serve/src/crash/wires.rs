//! The way of a volume to the simulated members: the production trait, over members that are shared with the run.

use super::disks::Disks;
use crate::backend::{Backend, Done, Mapped, Question, Task};
use forerun_core::units::Nanos;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Members that a run and its volume share. One thread uses them.
#[derive(Clone, Debug)]
pub(super) struct Wires {
    disks: Arc<Mutex<Disks>>,
    poll: Arc<OwnedFd>,
}

impl Wires {
    /// To these members; `poll` is never readable.
    pub(super) fn new(disks: Disks, poll: Arc<OwnedFd>) -> Self {
        Self { disks: Arc::new(Mutex::new(disks)), poll }
    }

    /// The members.
    pub(super) fn disks(&self) -> MutexGuard<'_, Disks> {
        self.disks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Wires {
    fn submit(&mut self, now: Nanos, task: Task) {
        self.disks().take(now, task);
    }
    fn launch(&mut self) {}
    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        self.disks().reap(out);
    }
    fn map(&mut self, now: Nanos, question: Question) -> bool {
        self.disks().ask_map(now, question);
        true
    }
    fn mapped(&mut self, out: &mut Vec<Mapped>) {
        self.disks().tell_maps(out);
    }
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}
