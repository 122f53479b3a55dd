//! What a member would lose if a sync of it failed now: the writes that have ended and that no sync has covered.
//!
//! It decides what a failed sync means (see `volume/sync.rs`). Each member has one.

use crate::planted::{self, Bug};

/// Which writes of a member a failed sync would lose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsynced {
    /// Some have ended well since the last sync began.
    fresh: bool,
    /// Some had ended well before that one began, and no sync before it that succeeded.
    covered: bool,
}

impl Unsynced {
    /// Of a member that has just been opened: what another process wrote to it, or this one before it was killed, may not be durable
    /// yet, and nobody knows. So the first sync has something to lose.
    pub(crate) fn unknown() -> Self {
        Self { fresh: !planted::is(Bug::FirstSyncIsHarmless), covered: false }
    }

    /// A write has ended well.
    pub(crate) const fn wrote(&mut self) {
        self.fresh = true;
    }

    /// A sync begins.
    pub(crate) fn begin(&mut self) {
        self.covered |= self.fresh && !planted::is(Bug::CoveredIsForgotten);
        self.fresh = false;
    }

    /// A sync has ended well: all that had ended when it began is safe.
    pub(crate) fn synced(&mut self) {
        self.covered = false;
        self.fresh &= !planted::is(Bug::FreshIsForgotten);
    }

    /// Whether a sync that fails now would lose something.
    pub(crate) const fn any(self) -> bool {
        self.fresh || self.covered
    }
}
