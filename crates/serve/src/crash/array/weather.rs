//! How new members of an array fare in a run, and of which array it is.

use super::LAYOUTS;
use crate::crash::draw::Draw;
use forerun_core::units::Nanos;

/// Layouts that can do without two members.
const FOR_TWO: &[&str] = &["raid6:4x4096", "raid1:3x8192", "raid6:5x8192"];

/// How new members fare in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::crash) enum Mood {
    /// One comes now and then, and mostly stays.
    Usual,
    /// They fail soon, while superblocks are written all the time, and what is on the journal goes home early.
    Frail,
    /// And the next comes at once, while the journal takes its time: what one that has failed has begun meets it.
    Restless,
}

impl Mood {
    pub(in crate::crash) const fn of(seed: u64) -> Self {
        match seed % 3 {
            0 => Self::Usual,
            1 => Self::Frail,
            _ => Self::Restless,
        }
    }

    /// How old a record may become.
    pub(super) fn age(self, draw: &mut Draw) -> Nanos {
        let drawn = draw.pick(&[5, 50, 5000]);
        Nanos::from_millis(if self == Self::Frail { 5 } else { drawn })
    }

    /// The layout of a run: where the next one comes at once, two may be out.
    pub(in crate::crash) fn layout(self, seed: u64) -> &'static str {
        let number = seed as usize;
        if self == Self::Restless {
            FOR_TWO[number / 3 % FOR_TWO.len()]
        } else {
            LAYOUTS[number % LAYOUTS.len()]
        }
    }

    /// One step in so many brings a new member, and below which of a hundred a step ends a command of the journal.
    pub(in crate::crash) const fn steps(self) -> (u64, u64) {
        match self {
            Self::Usual => (40, 65),
            Self::Frail => (25, 65),
            Self::Restless => (2, 45),
        }
    }
}
