//! Flushes down to the members, where these forget what they have not been told to keep.
//!
//! A flush, or a durable write, is answered when its blocks are on the members *and* a sync that began after that has ended. One
//! sync is under way at a time; who comes meanwhile waits for the next, which then serves all of them. So the log of inputs, a
//! replay and a simulated crash see where a host's promise begins: at the `Ready` behind the `Synced`.

use super::messages::Output;
use super::parts::Parts;
use alloc::vec::Vec;

/// Accesses, by number, whose blocks are on the members and not kept yet.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// They wait for the sync under way; empty when none is.
    running: Vec<u32>,
    next: Vec<u32>,
    /// Of the sync that began last.
    number: u32,
}

impl Syncs {
    /// Puts an access on the list; returns the sync that begins now, if none was under way.
    fn wait(&mut self, access: u32) -> Option<u32> {
        self.next.push(access);
        self.begin()
    }

    fn begin(&mut self) -> Option<u32> {
        if !self.running.is_empty() || self.next.is_empty() {
            return None;
        }
        core::mem::swap(&mut self.running, &mut self.next);
        self.number = self.number.wrapping_add(1);
        Some(self.number)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
}

impl Parts {
    /// The blocks of a durable access are on the members: it is answered, now or when they keep them.
    pub(super) fn settle_durable(&mut self, access: u32) {
        if !self.config.syncs || self.accesses[access].error {
            return self.answer(access);
        }
        if let Some(sync) = self.syncs.wait(access) {
            self.outputs.push_back(Output::Sync { sync });
        }
    }

    /// A sync has ended.
    pub(super) fn synced(&mut self, sync: u32, failed: bool) {
        assert!(!self.syncs.running.is_empty() && sync == self.syncs.number, "a sync under way ends once");
        for access in core::mem::take(&mut self.syncs.running) {
            self.accesses[access].error |= failed;
            self.answer(access);
        }
        if let Some(sync) = self.syncs.begin() {
            self.outputs.push_back(Output::Sync { sync });
        }
    }
}
