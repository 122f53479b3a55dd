//! Whether the loop looks again and again for a little while before it sleeps.
//!
//! A client with one request outstanding asks its next some microseconds after it was answered, and waking a sleeping
//! thread takes about as long as serving the request. So where sleeps have been short, the loop lingers: it asks the
//! kernel without waiting, for at most [`LINGER`]. A turn of many requests never lingers, since requests that arrive
//! together are served together. Evidence is a score: a wait that was short counts for lingering, a sleep that was not counts
//! sixteen times against it, and lingering in vain 256 times. So where the client needs the very processor that the loop
//! would burn, or thinks between requests, lingering costs next to nothing: 100 us in 256 requests.

use forerun_core::units::Nanos;

/// Longest wait: what a client on another processor needs to take 128 KiB and ask again, and less than a disk ever takes.
const LINGER: Nanos = Nanos::from_micros(100);
/// Requests of a turn up to which it lingers: above it, letting requests gather costs less for each.
const REQUESTS_MAX: u32 = 2;
/// What a sleep that was long costs, and what lingering in vain costs.
const SLEPT: i32 = 16;
const VAIN: i32 = 256;
/// Bounds of the score: how soon it is tried after it was in vain again and again, and how soon it is given up.
const SCORE_MIN: i32 = -1024;
const SCORE_MAX: i32 = 64;

/// The evidence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Linger {
    score: i32,
}

impl Linger {
    /// How long to look after a turn that took so many requests.
    pub(super) fn after(&self, requests: u32) -> Option<Nanos> {
        (self.score >= SCORE_MAX / 2 && (1..=REQUESTS_MAX).contains(&requests)).then_some(LINGER)
    }

    /// The loop had nothing to do for so long after a turn that took so many requests; whether it lingered.
    pub(super) fn waited(&mut self, requests: u32, lingered: bool, time: Nanos) {
        if !(1..=REQUESTS_MAX).contains(&requests) {
            return;
        }
        let change = match (time <= LINGER, lingered) {
            (true, _) => 1,
            (false, true) => -VAIN,
            (false, false) => -SLEPT,
        };
        self.score = (self.score + change).clamp(SCORE_MIN, SCORE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_micros(10);
    const LONG: Nanos = Nanos::from_millis(5);

    /// So many waits; returns how often it lingered in them.
    fn waits(linger: &mut Linger, count: usize, time: Nanos) -> usize {
        let wait = |_: &usize| {
            let lingered = linger.after(1).is_some();
            linger.waited(1, lingered, time);
            lingered
        };
        (0..count).filter(wait).count()
    }

    #[test]
    fn it_lingers_once_waits_have_been_short() {
        let mut linger = Linger::default();
        assert_eq!(linger.after(1), None, "not without evidence");
        assert_eq!(waits(&mut linger, 132, SHORT), 100);
        assert_eq!(linger.after(1), Some(LINGER));
        assert_eq!(linger.after(0), None, "not for a timer");
        assert_eq!(linger.after(32), None, "not when requests gather");
    }

    #[test]
    fn a_client_that_begins_to_think_costs_one_wait_and_then_much_is_needed_to_be_believed() {
        let mut linger = Linger::default();
        waits(&mut linger, 1000, SHORT);
        assert_eq!(waits(&mut linger, 1000, LONG), 1);
        assert_eq!(waits(&mut linger, 1000, SHORT), 0);
    }

    #[test]
    fn where_only_sleeping_makes_waits_short_it_hardly_ever_lingers() {
        let (mut linger, mut lingered) = (Linger::default(), 0);
        for _ in 0..10_000 {
            let lingers = linger.after(1).is_some();
            lingered += u32::from(lingers);
            linger.waited(1, lingers, if lingers { LONG } else { SHORT });
        }
        assert!((30..=40).contains(&lingered), "{lingered}");
    }
}
