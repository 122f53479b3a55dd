//! What an operator changes while clients are served: the scheme, and what the cache holds.
//!
//! Both go to the engine between two inputs and into its log at that place, so a replay makes them too. The engine keeps
//! every block, every slot and everything in flight (see `forerun_core::engine`), so no byte moves and no client waits for
//! more than the moment that the table takes.

use super::Volume;
use crate::spec::Change;
use forerun_core::engine::Input;

impl Volume {
    /// Makes a change now.
    pub(crate) fn change(&mut self, change: Change) {
        debug_assert!(!self.running, "a change comes between two inputs");
        match change {
            Change::Scheme(spec) => {
                debug_assert_eq!(spec.cache_blocks, self.spec.cache_blocks, "a cache keeps its size");
                self.running = true;
                self.take(spec.switch());
                self.running = false;
                let share = spec.share();
                self.spec = spec;
                self.run();
                if share.is_some() {
                    self.watch();
                }
                if let Some(watch) = &mut self.watch {
                    watch.split(share);
                }
            }
            Change::Drop => self.feed(Input::Drop),
        }
    }
}
