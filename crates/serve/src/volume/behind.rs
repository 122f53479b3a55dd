//! What the way to the members does behind the volume's back, as write-back does: it writes when nobody asks, holds what the members
//! lack, and wants its time at the end.

use super::Volume;
use crate::behind::{BackFigures, Behind};
use forerun_core::size::format_size;
use forerun_core::units::Extent;

impl Volume {
    /// Writes behind the volume's back are ours: the member's time of change says nothing then.
    pub(super) fn see_behind(&mut self) {
        if self.backend.behind_mut().is_some_and(Behind::wrote) {
            self.source.wrote_behind();
        }
    }

    /// Of which blocks something else is known than the member says.
    pub(super) fn held_behind(&self, extent: Extent) -> Vec<Extent> {
        self.backend.behind().map_or_else(Vec::new, |behind| behind.held(extent))
    }

    /// How write-back stands, where there is some.
    pub(crate) fn behind(&self) -> Option<BackFigures> {
        self.backend.behind().map(Behind::figures)
    }

    /// The server ends: what is held back goes home.
    pub(crate) fn go_home(&mut self) {
        if let Some(behind) = self.backend.behind_mut() {
            behind.go_home();
        }
        self.backend.launch();
    }

    /// Whether nothing is held back, as far as that can be had.
    pub(crate) fn is_home(&self) -> bool {
        self.backend.behind().is_none_or(Behind::is_home)
    }

    /// Says what is left behind, where something is.
    pub(super) fn say_what_stays(&mut self) {
        let Some(behind) = self.backend.behind().filter(|behind| behind.works()) else { return };
        let stays = format_size(behind.figures().dirty_bytes);
        self.say(format!(
            "write-back: up to {stays} stay on the journal, since the member has not taken them in time: nothing is lost, and the next \
             start brings them home. Until then use the member through --journal alone"
        ));
    }
}
