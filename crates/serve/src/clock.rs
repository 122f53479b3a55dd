//! The server's clock: the real time, less that in which the server did not run.
//!
//! A process may be stopped, its cgroup frozen, its machine paused. Whatever members have answered meanwhile waits to be heard, and none of them
//! owed anything in that time; nor was a client silent. The server looks at the clock at least once a second, and what members do holds up other
//! threads and the kernel's, not the one that looks; so of a longer time between two looks nothing counts.

use forerun_core::units::Nanos;
use std::cell::Cell;
use std::time::Instant;

/// Between two looks at the clock there is a second at most where the server runs; a machine with much to do may make it two.
const RUNS: Nanos = Nanos::from_secs(2);

/// The time since the server began.
pub(crate) struct Clock {
    begin: Instant,
    /// Real time of the last look.
    seen: Cell<Nanos>,
    /// Time in which it did not run.
    stood: Cell<Nanos>,
    /// Of that, what nobody was told of yet.
    untold: Cell<Nanos>,
}

impl Clock {
    /// It is zero now.
    pub(crate) fn new(begin: Instant) -> Self {
        let [seen, stood, untold] = [const { Cell::new(Nanos::ZERO) }; 3];
        Self { begin, seen, stood, untold }
    }

    /// The time; never earlier than it was.
    pub(crate) fn now(&self) -> Nanos {
        let real = self.begin.elapsed().as_nanos();
        self.look(Nanos(u64::try_from(real).expect("a server runs less than 584 years")))
    }

    /// How long it stood still, once for each time.
    pub(crate) fn take_stood(&self) -> Option<Nanos> {
        Some(self.untold.replace(Nanos::ZERO)).filter(|&stood| stood > Nanos::ZERO)
    }

    fn look(&self, real: Nanos) -> Nanos {
        let since = real.since(self.seen.replace(real));
        if since > RUNS {
            self.stood.set(self.stood.get() + since);
            self.untold.set(self.untold.get() + since);
        }
        real.since(self.stood.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_it_did_not_run_does_not_count_and_is_told_once() {
        let clock = Clock::new(Instant::now());
        let look = |millis| clock.look(Nanos::from_millis(millis)).0 / 1_000_000;
        assert_eq!([500, 1_500, 3_500].map(look), [500, 1_500, 3_500], "it runs, slowly at last");
        assert_eq!(clock.take_stood(), None);
        assert_eq!([35_500, 36_000].map(look), [3_500, 4_000], "for 32 seconds it did not");
        assert_eq!(clock.take_stood(), Some(Nanos::from_secs(32)));
        assert_eq!(clock.take_stood(), None);
        assert_eq!([39_000, 39_000].map(look), [4_000, 4_000]);
    }
}
