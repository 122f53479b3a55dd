//! How much proof a stream needs before it begins: more where the last ones that began have not paid.
//!
//! The slides begin a stream with a run of four units. Reads at random that come in short runs look so too, and each
//! such run would have megabytes read ahead that nobody asks for. So a stream whose first turn is over is in debt until its
//! reader has asked for a part of what one request of R brought, and where too many are in debt at once, a run must be
//! longer before the next one begins. Meanwhile nothing more is read ahead for it; where all of it leaves before it pays, it was
//! none. A reader that goes on pays within a request or two, so where all readers are streams
//! nothing changes. Debts of readers that are gone are forgiven slowly.

use super::classifier::RUN_UNITS;
use crate::units::Nanos;

/// Units of a run that begins a stream where too many are in debt: 1 MiB in the usual unit.
pub(super) const RUN_UNITS_LONG: u32 = 16;
/// Streams that may be in debt: so many requests of R, a second of a disk, are risked.
pub(super) const DEBTORS: u32 = 32;
/// One part in so many of R has to be asked for: N = auto goes four times as far as a stream has come.
pub(super) const PAYS_ONE_IN: u64 = 4;
/// A debt is forgiven in such a time, so that what a disk loses by it is one part in a hundred.
pub(super) const FORGIVEN_IN: Nanos = Nanos::from_secs(4);

/// Who is in debt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    debtors: u32,
    /// Since when nothing has been forgiven.
    since: Nanos,
}

impl Proof {
    /// A stream's first turn is over, and nobody has asked for what it brought. More than can be forgiven in half a
    /// minute are not remembered.
    pub(super) fn owes(&mut self, now: Nanos) {
        if self.debtors == 0 {
            self.since = now;
        }
        self.debtors = (self.debtors + 1).min(DEBTORS + DEBTORS / 4);
    }
    /// It has paid.
    pub(super) const fn paid(&mut self) {
        self.debtors = self.debtors.saturating_sub(1);
    }
    /// Units of a run that begins a stream now.
    pub(super) fn run(&mut self, now: Nanos) -> u32 {
        let forgiven = now.since(self.since).0 / FORGIVEN_IN.0;
        if forgiven > 0 {
            self.since = now;
            self.debtors = self.debtors.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX));
        }
        if self.debtors < DEBTORS { RUN_UNITS } else { RUN_UNITS_LONG }
    }
    /// Streams that are in debt.
    pub(super) const fn debtors(&self) -> u32 {
        self.debtors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_too_many_streams_are_in_debt_a_run_is_longer_until_some_have_paid_or_time_has_passed() {
        let mut proof = Proof::default();
        let now = Nanos::from_secs(100);
        for _ in 1..DEBTORS {
            proof.owes(now);
        }
        assert_eq!(proof.run(now), RUN_UNITS);
        proof.owes(now);
        assert_eq!(proof.run(now), RUN_UNITS_LONG);
        proof.paid();
        assert_eq!(proof.run(now), RUN_UNITS);
        for _ in 0..1000 {
            proof.owes(now);
        }
        assert_eq!(proof.run(now + Nanos::from_secs(31)), RUN_UNITS_LONG);
        assert_eq!(proof.run(now + Nanos::from_secs(35)), RUN_UNITS_LONG, "one more is forgiven");
        assert_eq!(proof.run(now + Nanos::from_secs(80)), RUN_UNITS);
    }
}
