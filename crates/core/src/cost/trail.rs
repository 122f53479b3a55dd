//! Where the commands of a disk ended lately, and how far the next one is from there.
//!
//! A drive keeps a segment of its own memory for each of some streams and reads on behind what was asked, so a command
//! that goes on where an earlier one ended may take a tenth of a millisecond though the head is far away by now:
//!
//! ```text
//!   commands    A0   B0   C0   A1   B1   C1        each far from the one before,
//!                └─────────────▶┘                  and A1 goes on behind A0
//! ```
//!
//! How many streams a drive remembers is not known here: what goes on is a class of its own, and its times are
//! learned like those of any distance.

use alloc::vec::Vec;

/// Classes of distance from the end of the command before, by its least number of blocks: adjacent; what may pass under a head or
/// lie in a drive's own read-ahead; within a few cylinders (16 MiB); within a GiB; farther.
pub(super) const NEAR_MIN: [u64; CLASSES - 1] = [0, 1, 129, 4_097, 262_145];
/// The last class: far from the command before, but behind another one.
pub(super) const CLASSES: usize = 6;
pub(super) const ADJACENT: usize = 0;
pub(super) const FAR: usize = CLASSES - 2;
pub(super) const GOES_ON: usize = CLASSES - 1;
/// Commands that one may go on behind: as many as the segments of a large drive.
const ENDS: usize = 64;

/// The ends of the last commands that do not go on behind each other, the last one last.
#[derive(Clone, Debug, Default)]
pub struct Trail(Vec<u64>);

impl Trail {
    /// Behind the last command.
    #[must_use]
    pub fn head(&self) -> Option<u64> {
        self.0.last().copied()
    }
    /// The earlier command behind which one at `at` goes on.
    fn behind(&self, at: u64) -> Option<usize> {
        self.0.iter().rposition(|&end| at >= end && at - end < NEAR_MIN[2])
    }
    /// The class of a command at `at`.
    pub(super) fn class(&self, at: u64) -> usize {
        let Some(head) = self.head() else { return FAR };
        let distance = if at >= head { at - head } else { (head - at).max(NEAR_MIN[2]) };
        let class = NEAR_MIN.iter().rposition(|&least| distance >= least).unwrap_or(ADJACENT);
        if distance >= NEAR_MIN[2] && self.behind(at).is_some() { GOES_ON } else { class }
    }
    /// A command of so many blocks was at `at`.
    pub fn note(&mut self, at: u64, blocks: u64) {
        if let Some(place) = self.behind(at) {
            self.0.remove(place);
        } else if self.0.len() == ENDS {
            self.0.remove(0);
        }
        self.0.push(at + blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_behind_an_earlier_command_is_a_class_of_its_own() {
        let mut trail = Trail::default();
        assert_eq!(trail.class(5), FAR, "nothing is known");
        for stream in 0..ENDS as u64 {
            trail.note(stream * 1_000_000, 8);
        }
        assert_eq!(trail.class(8), GOES_ON);
        assert_eq!(trail.class(8 + 128), GOES_ON, "a little later, too");
        assert_eq!(trail.class(7), FAR, "before it, not");
        assert_eq!(trail.class((ENDS as u64 - 1) * 1_000_000 + 8), ADJACENT);
        trail.note(8, 8);
        assert_eq!((trail.class(8), trail.class(16), trail.0.len()), (2, ADJACENT, ENDS));
        trail.note(500, 1);
        trail.note(99_000_000, 1);
        assert_eq!(trail.class(1_000_008), FAR, "the oldest is forgotten");
    }
}
