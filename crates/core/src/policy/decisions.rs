//! Why a scheme reads ahead or does not: the turns of its switches, each with the numbers that it looked at.
//!
//! A figure that moves says what happened; only the scheme knows why. A policy that can refuse to prefetch has a
//! [`Switch`] and tells it of every decision; what differs from the decision before is a turn, and is kept until the host
//! takes it ([`super::Policy::decisions`]). Nothing here decides anything, and who never asks pays for one comparison.

use crate::units::Nanos;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Turns of one switch that are kept for the host: 32. A host that asks twice a second sees all of a switch that turns 64
/// times a second; of a faster one it sees the newest, and by their numbers how many it did not see.
pub const TURNS_MAX: usize = 32;
/// Most numbers behind one decision.
pub const REASON_NUMBERS: usize = 3;

/// What a decision was made from: names, with units in them, and values. Unused places have an empty name.
pub type Because = [(&'static str, u64); REASON_NUMBERS];

/// A turn of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When, by the host's clock.
    pub at: Nanos,
    /// Which part of the scheme decided.
    pub switch: &'static str,
    /// How often this switch had turned, this turn included.
    pub turn: u64,
    /// Whether it prefetches from now on.
    pub on: bool,
    /// Why, in words.
    pub reason: &'static str,
    /// And in numbers.
    pub because: Because,
}

/// Remembers the last decision of one part of a scheme, and the turns that the host has not taken.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    last: Option<(bool, &'static str)>,
    turns: u64,
    kept: VecDeque<Decision>,
}

impl Switch {
    /// A decision: on or off, for a reason. Noted if either differs from the decision before.
    #[inline]
    pub fn set(
        &mut self,
        at: Nanos,
        switch: &'static str,
        on: bool,
        reason: &'static str,
        because: impl FnOnce() -> Because,
    ) {
        if self.last != Some((on, reason)) {
            self.last = Some((on, reason));
            self.note(at, switch, on, reason, because());
        }
    }

    #[inline(never)]
    fn note(&mut self, at: Nanos, switch: &'static str, on: bool, reason: &'static str, because: Because) {
        self.turns += 1;
        if self.kept.len() == TURNS_MAX {
            self.kept.pop_front();
        } else if self.kept.capacity() == 0 {
            self.kept.reserve_exact(TURNS_MAX);
        }
        self.kept.push_back(Decision { at, switch, turn: self.turns, on, reason, because });
    }

    /// Hands over what was noted since the last call, oldest first.
    pub fn take(&mut self, out: &mut Vec<Decision>) {
        out.extend(self.kept.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn because(n: u64) -> Because {
        [("n", n), ("", 0), ("", 0)]
    }

    #[test]
    fn only_turns_are_noted_with_the_numbers_of_their_moment() {
        let mut switch = Switch::default();
        for (n, on) in [true, true, false, false, true].into_iter().enumerate() {
            let reason = if on { "pays" } else { "does not" };
            switch.set(Nanos(n as u64), "asp", on, reason, || because(n as u64));
        }
        let mut seen = Vec::new();
        switch.take(&mut seen);
        let turns: Vec<_> = seen.iter().map(|d| (d.at.0, d.turn, d.on, d.because[0].1)).collect();
        assert_eq!(turns, [(0, 1, true, 0), (2, 2, false, 2), (4, 3, true, 4)]);
        switch.take(&mut seen);
        assert_eq!(seen.len(), 3, "each is handed over once");
    }

    #[test]
    fn another_reason_for_the_same_decision_is_a_turn() {
        let mut switch = Switch::default();
        switch.set(Nanos(1), "asp", true, "filling", || because(0));
        switch.set(Nanos(2), "asp", true, "pays", || because(0));
        let mut seen = Vec::new();
        switch.take(&mut seen);
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn a_switch_that_nobody_asks_keeps_the_newest_turns_and_says_how_many_there_were() {
        let mut switch = Switch::default();
        for n in 0..1000 {
            switch.set(Nanos(n), "msp", n % 2 == 0, "x", || because(n));
        }
        let mut seen = Vec::new();
        switch.take(&mut seen);
        assert_eq!(seen.len(), TURNS_MAX);
        assert_eq!(seen.last().map(|d| (d.at.0, d.turn)), Some((999, 1000)));
        assert_eq!(seen.first().map(|d| d.turn), Some(1000 - TURNS_MAX as u64 + 1));
    }
}
