//! Who waits for a sync of the members, and for which: the list alone, without the engine that it belongs to.

use alloc::vec::Vec;

/// Accesses, by number, whose blocks are on the members and not kept yet.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// They wait for the sync under way; empty when none is.
    running: Vec<u32>,
    /// They wait for the one after it.
    next: Vec<u32>,
    /// Of the sync that began last.
    number: u32,
}

impl Syncs {
    /// Puts an access on the list; returns the sync that begins now, if none was under way.
    pub(super) fn wait(&mut self, access: u32) -> Option<u32> {
        self.next.push(access);
        self.begin()
    }

    /// A sync has ended. Returns who waited for it.
    pub(super) fn end(&mut self, sync: u32) -> Vec<u32> {
        assert!(!self.running.is_empty() && sync == self.number, "a sync under way ends once");
        core::mem::take(&mut self.running)
    }

    /// Begins the next sync, if somebody waits for it and none is under way; returns its number.
    pub(super) fn begin(&mut self) -> Option<u32> {
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
