//! When the daemon looks at what it was told, in virtual time.
//!
//! It is the loop of `daemon.rs` without its work: who sleeps is woken by a miss and looks, waits a moment for more, and looks again. While
//! somebody is followed, whose reads wake nobody, it looks by itself.

use crate::daemon::{FLOOD, MOMENT_FLOOD, MOMENT_URGENT, PAUSE_MAX, PAUSE_MIN};
use crate::hush::Hush;

/// Waking a thread until it works: measured on a virtual machine of two processors (DECISIONS.md).
pub(super) const WAKES: u64 = 50_000;

/// When it looked, and looks next.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    hush: Hush,
    /// Until then it sleeps, whatever happens.
    busy: u64,
    /// Its next look, if it is known.
    next: Option<u64>,
    /// Longest sleep while somebody is followed.
    pause: u64,
    looks: u64,
}

impl Rhythm {
    /// Something was told; when it looks at that, if it did not know that it would look so soon.
    pub(super) fn told(&mut self, now: u64, wakes: bool) -> Option<u64> {
        if !wakes || self.hush.is_on() {
            return None; // it looks by itself
        }
        let at = (now + WAKES).max(self.busy);
        self.next_at(at)
    }

    fn next_at(&mut self, at: u64) -> Option<u64> {
        let sooner = self.next.is_none_or(|next| at < next);
        if sooner {
            self.next = Some(at);
        }
        sooner.then_some(at)
    }

    /// Whether it looks now.
    pub(super) fn is_time(&mut self, now: u64) -> bool {
        self.next.take_if(|next| *next <= now).is_some()
    }

    /// It has looked at so many events, somebody waits for what comes next or not, and is followed or not; when it looks again by itself.
    pub(super) fn looked(&mut self, now: u64, events: usize, urgent: bool, follows: bool) -> Option<u64> {
        self.looks += 1;
        let _ = self.hush.turn(events, now);
        let looks = follows || self.hush.is_on();
        if events == 0 {
            self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            return if looks { self.next_at(now + self.pause) } else { None };
        }
        let moment = if events >= FLOOD { MOMENT_FLOOD } else { self.hush.moment() };
        let moment = if urgent { MOMENT_URGENT } else { moment };
        self.pause = 0;
        self.busy = now + moment.as_nanos() as u64 + WAKES;
        if looks { self.next_at(self.busy) } else { None }
    }

    /// How often it looked.
    pub(super) const fn looks(&self) -> u64 {
        self.looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_woken_by_a_miss_and_waits_a_moment_for_more() {
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.told(0, false), None, "a read of a followed file wakes nobody");
        assert_eq!(rhythm.told(0, true), Some(WAKES));
        assert_eq!(rhythm.told(1, true), None, "it looks already");
        assert!(!rhythm.is_time(WAKES - 1) && rhythm.is_time(WAKES));
        assert_eq!(rhythm.looked(WAKES, 2, true, false), None, "nobody is followed");
        let moment = MOMENT_URGENT.as_nanos() as u64;
        assert_eq!(rhythm.told(WAKES + 1, true), Some(2 * WAKES + moment), "it sleeps, whatever happens");
    }

    #[test]
    fn while_somebody_is_followed_it_looks_by_itself_and_ever_later() {
        let mut rhythm = Rhythm::default();
        let mut at = rhythm.looked(0, 1, true, true).expect("it looks again");
        assert_eq!(at, MOMENT_URGENT.as_nanos() as u64 + WAKES);
        let pauses = [0; 8].map(|_| {
            assert!(rhythm.is_time(at));
            let next = rhythm.looked(at, 0, true, true).expect("it looks again");
            next - std::mem::replace(&mut at, next)
        });
        assert_eq!((pauses[0], pauses[1], pauses[7]), (PAUSE_MIN, 2 * PAUSE_MIN, PAUSE_MAX));
    }
}
