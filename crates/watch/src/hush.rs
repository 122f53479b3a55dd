//! Whether the daemon is woken for each event, or looks for them.
//!
//! To be woken is to know at once; but the interrupt that the kernel sends itself for that costs whoever misses ten times what the event does,
//! before its read goes out, and there are two or three events a miss. So the tracepoints that are always on are open twice: once to wake, once not to.
//!
//! ```text
//!   each wakes ──8 events in one look──▶ none does, they are looked for ──0.1 s without──▶ each wakes
//! ```
//!
//! Each pair is on together for a moment, so that none is missed; what comes twice then is taken once.

use crate::reads::Sight;
use std::time::Duration;

/// Events in one look after which they are looked for: there is a miss a millisecond or more.
const EVENTS: usize = 8;
/// How long after the last the next wakes again, nanoseconds.
const REST: u64 = 100_000_000;
/// After events more are waited for: no decision is urgent, and to be woken for each costs a busy reader. The first after a pause is taken at once, so that a program that
/// begins is known where little else happens, and those after it so much later, nanoseconds: a reader whose third miss tells its pattern does not wait.
const MOMENT_FIRST: u64 = 500_000;
/// Twice as late each time while there are some, and no later than this.
const MOMENT_MAX: u64 = 10_000_000;
/// The same event of both of a pair comes within so many nanoseconds.
const TWICE: u64 = 50_000;

/// Which of each pair is on.
#[derive(Debug, Default)]
pub(crate) struct Hush {
    on: bool,
    /// When the last event came.
    last: u64,
    /// It has just changed.
    changed: bool,
    /// The moment that was waited last.
    moment: u64,
}

impl Hush {
    /// Events are looked for now.
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// It has changed since the last look: what came before the change wakes nobody after it.
    pub(crate) const fn has_changed(&self) -> bool {
        self.changed
    }

    /// So many came since the last look; whether that is to change, and to what.
    pub(crate) fn turn(&mut self, events: usize, now: u64) -> Option<bool> {
        if events > 0 {
            self.last = now;
        } else {
            self.moment = 0;
        }
        let wanted = if self.on { now.saturating_sub(self.last) < REST } else { events >= EVENTS };
        self.changed |= wanted != self.on;
        (wanted != self.on).then(|| {
            self.on = wanted;
            wanted
        })
    }

    /// How long more events are waited for after some.
    pub(crate) fn moment(&mut self) -> Duration {
        self.moment = (self.moment * 2).clamp(MOMENT_FIRST, MOMENT_MAX);
        Duration::from_nanos(self.moment)
    }

    /// Takes out what came twice, of events in the order of time.
    pub(crate) fn once(&mut self, batch: &mut Vec<(u64, u32, Sight)>) {
        if std::mem::take(&mut self.changed) {
            let mut once: Vec<(u64, u32, Sight)> = Vec::with_capacity(batch.len());
            for event in batch.drain(..) {
                // Between the two may be what came on other processors.
                let near = once.iter().rev().take_while(|other| event.0.saturating_sub(other.0) < TWICE);
                if !near.into_iter().any(|other| (other.1, &other.2) == (event.1, &event.2)) {
                    once.push(event);
                }
            }
            *batch = once;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_trace::assemble::FileId;

    #[test]
    fn what_follows_the_first_event_is_looked_for_soon_and_then_ever_later_until_there_is_none() {
        let mut hush = Hush::default();
        let mut look = |events| {
            hush.turn(events, 0);
            hush.moment().as_micros()
        };
        assert_eq!([1, 2, 3, 4, 5, 6, 7].map(&mut look), [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!([0, 1].map(&mut look), [500, 1_000]);
    }

    #[test]
    fn many_events_are_looked_for_and_after_a_rest_the_first_wakes_again() {
        let mut hush = Hush::default();
        assert_eq!((hush.turn(0, 5), hush.turn(EVENTS - 1, 10)), (None, None), "few may wake");
        assert_eq!((hush.turn(EVENTS, 20), hush.is_on()), (Some(true), true));
        assert_eq!((hush.turn(1, 30), hush.turn(0, 30 + REST - 1)), (None, None), "one is enough to go on");
        assert_eq!((hush.turn(0, 30 + REST), hush.is_on()), (Some(false), false));
    }

    #[test]
    fn what_comes_twice_while_both_are_on_is_taken_once_and_only_then() {
        let fault = |page| Sight::Fault { file: FileId { major: 7, minor: 0, inode: 1 }, page };
        let batch = vec![
            (10, 1, fault(5)),
            (900, 1, fault(5)),
            (1_000, 2, fault(5)),
            (2_000, 2, fault(6)),
            (2_000 + TWICE, 2, fault(6)),
        ];
        let mut hush = Hush::default();
        let mut all = batch.clone();
        hush.once(&mut all);
        assert_eq!(all.len(), 5);
        hush.turn(EVENTS, 20);
        hush.once(&mut all);
        assert_eq!(all.iter().map(|of| of.0).collect::<Vec<_>>(), [10, 1_000, 2_000, 2_000 + TWICE]);
        let mut all = batch;
        hush.once(&mut all);
        assert_eq!(all.len(), 5, "the change is over");
    }
}
