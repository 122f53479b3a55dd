//! What an operator changes while clients are served: the scheme, and what the cache holds.
//!
//! Both go to the engine between two inputs and into its log at that place, so a replay makes them too. The engine keeps
//! every block, every slot and everything in flight (see `forerun_core::engine`), so no byte moves and no client waits for
//! more than the moment that the table takes.

use super::Volume;
use crate::spec::Change;

impl Volume {
    /// Makes a change now.
    pub(crate) fn change(&mut self, change: Change) {
        debug_assert!(!self.running, "a change comes between two inputs");
        if let Some(log) = &mut self.log {
            log.change(self.now, &change);
        }
        match change {
            Change::Scheme(spec) => {
                spec.reshape(self.now, &mut self.engine);
                self.spec = spec;
            }
            Change::Drop => self.engine.drop_cache(self.now),
        }
        self.running = true;
        self.drain();
        self.running = false;
        self.run();
    }
}
