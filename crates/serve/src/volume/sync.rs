//! Syncs: what FLUSH and FUA wait for after their writes have reached the members.
//!
//! One sync of all members runs at a time. Whoever asks while it runs needs the next one, since the running one may have
//! begun before their write; all of them share it. A sync that failed is never tried again: the kernel may have marked as
//! clean what it could not write, so a second try that succeeds would prove nothing. From then on every flush and every
//! durable write is answered with an error.

use super::{Event, SYNC_TOKEN, Volume};
use crate::backend::{Done, Kind, Task};
use forerun_core::access::Context;

/// Who waits for a sync.
#[derive(Clone, Copy, Debug)]
enum Waiter {
    Flush { tag: u64, error: bool },
    Write { tag: u64 },
}

/// The running sync, and the next.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    running: Vec<Waiter>,
    next: Vec<Waiter>,
    left: usize,
    failed: bool,
}

impl Syncs {
    pub(super) fn is_idle(&self) -> bool {
        self.left == 0 && self.next.is_empty()
    }
}

impl Volume {
    pub(super) fn sync_for_flush(&mut self, tag: u64, error: bool) {
        self.sync(Waiter::Flush { tag, error });
    }

    pub(super) fn sync_for_write(&mut self, tag: u64) {
        self.sync(Waiter::Write { tag });
    }

    fn sync(&mut self, waiter: Waiter) {
        self.syncs.next.push(waiter);
        if self.syncs.left == 0 {
            self.start_sync();
        }
    }

    fn start_sync(&mut self) {
        std::mem::swap(&mut self.syncs.running, &mut self.syncs.next);
        self.syncs.left = self.source.members.len();
        self.counts.syncs += 1;
        for (index, member) in self.source.members.iter().enumerate() {
            self.in_flight += 1;
            self.backend.submit(
                self.now,
                Task {
                    token: SYNC_TOKEN | index as u64,
                    kind: Kind::Sync,
                    member: index as u16,
                    ahead: false,
                    context: Context::default(),
                    file: member.for_sync(),
                    offset: 0,
                    len: 0,
                    lease: None,
                },
            );
        }
    }

    /// One member has synced.
    pub(super) fn synced(&mut self, done: Done) {
        if let Err(problem) = done.result {
            self.syncs.failed = true;
            let member = done.token & !SYNC_TOKEN;
            self.note(|| format!("member {member}: sync: {problem}; nothing can be made durable any more"));
        }
        self.syncs.left -= 1;
        if self.syncs.left > 0 {
            return;
        }
        let failed = self.syncs.failed;
        for waiter in self.syncs.running.drain(..) {
            self.events.push_back(match waiter {
                Waiter::Flush { tag, error } => Event::Flushed { tag, error: error || failed },
                Waiter::Write { tag } => Event::Written { tag, error: failed },
            });
        }
        if !self.syncs.next.is_empty() {
            self.start_sync();
        }
    }
}
