//! Why a scheme reads ahead or does not: the turns of its switches, each with the numbers that it looked at.
//!
//! A figure that moves says what happened; only the scheme knows why. A policy that can refuse to prefetch has a
//! [`Switch`] and tells it of its decisions; what differs from the decision before is a turn, and is kept until the host
//! takes it ([`super::Policy::decisions`]). A scheme that decides as a whole asks [`Switch::set`], which compares; one that
//! decides for each file, stream or reader knows by its own records when one turns, and tells [`Switch::turn`] which.
//! Nothing here decides anything, and a run in which nobody asks pays for one comparison.

mod told;

pub use told::{Told, ToldOf};

use crate::access::Context;
use crate::units::{Extent, Nanos};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Turns of one switch that are kept for the host: 32. A host that asks twice a second sees all of a switch that turns 64
/// times a second; of a faster one it sees the newest, and by their numbers how many it did not see.
pub const TURNS_MAX: usize = 32;
/// Most numbers behind one decision.
pub const REASON_NUMBERS: usize = 4;

/// What a decision was made from: names, with units in them, and values. Unused places have an empty name.
pub type Because = [(&'static str, u64); REASON_NUMBERS];

/// The numbers of a decision.
///
/// # Panics
/// If there are more than [`REASON_NUMBERS`].
#[must_use]
pub fn because<const N: usize>(numbers: [(&'static str, u64); N]) -> Because {
    const { assert!(N <= REASON_NUMBERS, "a decision has no room for so many numbers") };
    let mut all = [("", 0); REASON_NUMBERS];
    all[..N].copy_from_slice(&numbers);
    all
}

/// A way for a switch to turn: to which state, and why. Each scheme has a few, as constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// What it turns to, in a word: `on` and `off`, or what the scheme calls it.
    pub to: &'static str,
    /// Whether it prefetches from now on (of a scale: more).
    pub on: bool,
    /// Why, in words that go on after "because".
    pub reason: &'static str,
}

impl Way {
    /// To a state in which it prefetches.
    #[must_use]
    pub const fn on(to: &'static str, reason: &'static str) -> Self {
        Self { to, on: true, reason }
    }
    /// To one in which it does not.
    #[must_use]
    pub const fn off(to: &'static str, reason: &'static str) -> Self {
        Self { to, on: false, reason }
    }
}

/// Which of many a decision is about, where a scheme decides for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What it is: `file`, `stream`, `reader` or `region`.
    pub kind: &'static str,
    /// Its number among those of its kind; that of one which is no more may be used again.
    pub number: u64,
    /// Who reads there.
    pub context: Context,
    /// Where, in blocks of the volume.
    pub extent: Extent,
}

/// A turn of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When, by the host's clock.
    pub at: Nanos,
    /// Which part of the scheme decided.
    pub switch: &'static str,
    /// How often this switch had turned, this turn included.
    pub turn: u64,
    /// What it turned to, in a word.
    pub to: &'static str,
    /// Whether it prefetches from now on.
    pub on: bool,
    /// For which file, stream, reader or region; `None` is all of them.
    pub of: Option<Subject>,
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
    /// A decision of the scheme as a whole. Noted if its direction or its reason differs from the decision before.
    #[inline]
    pub fn set(&mut self, at: Nanos, switch: &'static str, way: &Way, because: impl FnOnce() -> Because) {
        if self.last != Some((way.on, way.reason)) {
            self.last = Some((way.on, way.reason));
            self.turn(at, switch, way, None, because());
        }
    }

    /// A turn, noted in any case: who decides for each of many tells it of turns only.
    #[cold]
    #[inline(never)]
    pub fn turn(
        &mut self,
        at: Nanos,
        switch: &'static str,
        way: &Way,
        of: Option<Subject>,
        because: Because,
    ) {
        self.turns += 1;
        if self.kept.len() == TURNS_MAX {
            self.kept.pop_front();
        } else if self.kept.capacity() == 0 {
            self.kept.reserve_exact(TURNS_MAX);
        }
        let Way { to, on, reason } = *way;
        self.kept.push_back(Decision { at, switch, turn: self.turns, to, on, of, reason, because });
    }

    /// Hands over what was noted since the last call, oldest first.
    pub fn take(&mut self, out: &mut Vec<Decision>) {
        out.extend(self.kept.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYS: Way = Way::on("on", "pays");
    const LOSES: Way = Way::off("off", "does not");

    fn one(n: u64) -> Because {
        because([("n", n)])
    }

    #[test]
    fn only_turns_are_noted_with_the_numbers_of_their_moment() {
        let mut switch = Switch::default();
        for (n, on) in [true, true, false, false, true].into_iter().enumerate() {
            switch.set(Nanos(n as u64), "asp", if on { &PAYS } else { &LOSES }, || one(n as u64));
        }
        let mut seen = Vec::new();
        switch.take(&mut seen);
        let turns: Vec<_> = seen.iter().map(|d| (d.at.0, d.turn, d.to, d.on, d.because[0].1)).collect();
        assert_eq!(turns, [(0, 1, "on", true, 0), (2, 2, "off", false, 2), (4, 3, "on", true, 4)]);
        switch.take(&mut seen);
        assert_eq!(seen.len(), 3, "each is handed over once");
    }

    #[test]
    fn another_reason_for_the_same_decision_is_a_turn() {
        let mut switch = Switch::default();
        switch.set(Nanos(1), "asp", &Way::on("on", "filling"), || one(0));
        switch.set(Nanos(2), "asp", &PAYS, || one(0));
        let mut seen = Vec::new();
        switch.take(&mut seen);
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn turns_of_many_say_whose_they_are_and_are_noted_each() {
        let mut switch = Switch::default();
        let file = |number| Subject {
            kind: "file",
            number,
            context: Context::new(1, number),
            extent: Extent::new(number * 10, 5),
        };
        for number in 0..3 {
            switch.turn(Nanos(number), "rpp", &PAYS, Some(file(number)), one(number));
        }
        let mut seen = Vec::new();
        switch.take(&mut seen);
        let files: Vec<_> = seen.iter().map(|d| d.of.map(|of| of.number)).collect();
        assert_eq!(files, [Some(0), Some(1), Some(2)], "the same way for another file is another turn");
    }

    #[test]
    fn a_switch_that_nobody_asks_keeps_the_newest_turns_and_says_how_many_there_were() {
        let mut switch = Switch::default();
        for n in 0..1000 {
            switch.set(Nanos(n), "msp", if n % 2 == 0 { &PAYS } else { &LOSES }, || one(n));
        }
        let mut seen = Vec::new();
        switch.take(&mut seen);
        assert_eq!(seen.len(), TURNS_MAX);
        assert_eq!(seen.last().map(|d| (d.at.0, d.turn)), Some((999, 1000)));
        assert_eq!(seen.first().map(|d| d.turn), Some(1000 - TURNS_MAX as u64 + 1));
    }
}
