//! Flushes down to the members, where these forget what they have not been told to keep.
//!
//! A flush, or a durable write, is answered when its blocks are on the members *and* a sync that began after that has ended. One
//! sync is under way at a time; whoever comes meanwhile waits for the next, which then serves all of them. So the log of inputs, a
//! replay and a simulated crash see where a host's promise begins: at the `Ready` behind the `Synced`.

use super::messages::Output;
use super::parts::Parts;

impl Parts {
    /// The blocks of a durable access are on the members: it is answered, now or when they keep them.
    pub(super) fn settle_durable(&mut self, access: u32) {
        if !self.config.syncs || self.accesses.has_failed(access) {
            return self.answer(access);
        }
        if let Some(sync) = self.syncs.wait(access) {
            self.outputs.push_back(Output::Sync { sync });
        }
    }

    /// A sync has ended.
    pub(super) fn synced(&mut self, sync: u32, failed: bool) {
        for access in self.syncs.end(sync) {
            self.accesses.blame(access, failed);
            self.answer(access);
        }
        if let Some(sync) = self.syncs.begin() {
            self.outputs.push_back(Output::Sync { sync });
        }
    }
}
