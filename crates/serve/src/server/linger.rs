//! Whether the loop looks again and again for a little while before it sleeps.
//!
//! Waking a sleeping thread takes about as long as serving a request. A client with one request outstanding asks its next some
//! microseconds after it was answered, and a fast device answers within some tens. So where waits have been short, the
//! loop lingers: it asks without waiting, for at most [`LINGER`]. There are two kinds of wait, each with evidence of its own: for
//! clients, when no member has anything in hand, and for members. For clients it lingers after turns of a few requests only,
//! since requests that arrive together are served together; what members hold was asked for, and is waited for at every depth.
//!
//! Evidence is a score: a wait that was short counts for lingering, a sleep that was not and lingering in vain count several
//! times against it. Of a client lingering in vain counts 256 times, or sixteen times if it had paid 64 times before: one
//! that hesitates once in a while is still worth it. So where the client needs the very processor that the loop would burn, or
//! thinks between requests, lingering costs next to nothing: 100 us in 256 requests. A device answers without that processor,
//! and hesitates more often, so of members it counts sixteen times. An idle server sleeps, and disks are waited for asleep.
//! Where it pays it costs what it waits: up to 100 us of processor time a wait, and in vain 100 us in 17 waits at most.

use forerun_core::units::Nanos;

/// Longest wait: what a client on another processor needs to take 128 KiB and ask again, and less than a disk ever takes.
const LINGER: Nanos = Nanos::from_micros(100);
/// Requests of a turn up to which it lingers for clients: above it, letting requests gather costs less for each.
const REQUESTS_MAX: u32 = 2;
/// What a sleep that was long costs, and what lingering in vain costs, when clients are waited for.
const SLEPT: i32 = 16;
const VAIN: i32 = 256;
/// The same when members are.
const MEMBERS_SLEPT: i32 = 4;
const MEMBERS_VAIN: i32 = 16;
/// So often lingering for clients has to have paid since it was last in vain for the next time to cost no more than a sleep.
const PAID: u32 = 64;
/// Bounds of the score: how soon it is tried after it was in vain again and again, and how soon it is given up.
const SCORE_MIN: i32 = -1024;
const SCORE_MAX: i32 = 64;

/// Whom the loop lingers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Only clients can end the wait.
    Clients,
    /// A member has something in hand.
    Members,
}

impl Awaited {
    /// Whether a wait after a turn in which so many requests were taken or answered is one to linger in.
    fn counts(self, requests: u32) -> bool {
        match self {
            Self::Clients => (1..=REQUESTS_MAX).contains(&requests),
            Self::Members => requests > 0,
        }
    }

    /// What a long wait takes from the score.
    const fn cost(self, lingered: bool, paid: u32) -> i32 {
        match (self, lingered) {
            (Self::Clients, true) if paid < PAID => VAIN,
            (Self::Clients, _) => SLEPT,
            (Self::Members, true) => MEMBERS_VAIN,
            (Self::Members, false) => MEMBERS_SLEPT,
        }
    }
}

/// The evidence of one kind of wait.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    score: i32,
    /// Times that lingering paid since it was last in vain.
    paid: u32,
}

/// The evidence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Linger {
    clients: Evidence,
    members: Evidence,
}

impl Linger {
    /// How long to look after a turn in which so many requests were taken or answered.
    pub(super) fn after(&self, awaited: Awaited, requests: u32) -> Option<Nanos> {
        let evidence = match awaited {
            Awaited::Clients => &self.clients,
            Awaited::Members => &self.members,
        };
        (evidence.score >= SCORE_MAX / 2 && awaited.counts(requests)).then_some(LINGER)
    }

    /// The loop had nothing to do for so long after such a turn; whether it lingered.
    pub(super) fn waited(&mut self, awaited: Awaited, requests: u32, lingered: bool, time: Nanos) {
        if !awaited.counts(requests) {
            return;
        }
        let evidence = match awaited {
            Awaited::Clients => &mut self.clients,
            Awaited::Members => &mut self.members,
        };
        let change = match (time <= LINGER, lingered) {
            (true, _) => 1,
            (false, lingered) => -awaited.cost(lingered, evidence.paid),
        };
        if lingered {
            evidence.paid = if time <= LINGER { (evidence.paid + 1).min(PAID) } else { 0 };
        }
        evidence.score = (evidence.score + change).clamp(SCORE_MIN, SCORE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Nanos = Nanos::from_micros(10);
    const LONG: Nanos = Nanos::from_millis(5);
    const BOTH: [Awaited; 2] = [Awaited::Clients, Awaited::Members];

    /// So many waits; returns how often it lingered in them.
    fn waits(linger: &mut Linger, awaited: Awaited, count: usize, time: Nanos) -> usize {
        let wait = |_: &usize| {
            let lingered = linger.after(awaited, 1).is_some();
            linger.waited(awaited, 1, lingered, time);
            lingered
        };
        (0..count).filter(wait).count()
    }

    #[test]
    fn it_lingers_once_waits_have_been_short() {
        for awaited in BOTH {
            let mut linger = Linger::default();
            assert_eq!(linger.after(awaited, 1), None, "not without evidence");
            assert_eq!(waits(&mut linger, awaited, 132, SHORT), 100);
            assert_eq!(linger.after(awaited, 1), Some(LINGER));
            assert_eq!(linger.after(awaited, 0), None, "not for a timer: an idle server sleeps");
        }
    }

    #[test]
    fn requests_of_clients_gather_and_members_are_waited_for_at_every_depth() {
        let mut linger = Linger::default();
        for awaited in BOTH {
            waits(&mut linger, awaited, 132, SHORT);
        }
        assert_eq!(linger.after(Awaited::Clients, 32), None);
        assert_eq!(linger.after(Awaited::Members, 32), Some(LINGER));
    }

    #[test]
    fn what_is_learnt_of_members_is_not_believed_of_clients() {
        let mut linger = Linger::default();
        waits(&mut linger, Awaited::Members, 132, SHORT);
        assert_eq!(linger.after(Awaited::Clients, 1), None);
        waits(&mut linger, Awaited::Clients, 132, SHORT);
        waits(&mut linger, Awaited::Members, 132, LONG);
        assert_eq!(linger.after(Awaited::Members, 1), None, "a disk is waited for asleep");
        assert_eq!(linger.after(Awaited::Clients, 1), Some(LINGER));
    }

    #[test]
    fn a_client_that_begins_to_think_costs_two_waits_and_then_much_is_needed_to_be_believed() {
        let mut linger = Linger::default();
        waits(&mut linger, Awaited::Clients, 1000, SHORT);
        assert_eq!(waits(&mut linger, Awaited::Clients, 1000, LONG), 2);
        assert_eq!(waits(&mut linger, Awaited::Clients, 1000, SHORT), 0);
    }

    #[test]
    fn one_wait_in_a_hundred_that_is_long_does_not_end_it() {
        for awaited in BOTH {
            let mut linger = Linger::default();
            waits(&mut linger, awaited, 200, SHORT);
            for _ in 0..100 {
                assert_eq!(waits(&mut linger, awaited, 99, SHORT), 99);
                assert_eq!(waits(&mut linger, awaited, 1, LONG), 1);
            }
        }
    }

    #[test]
    fn where_only_sleeping_makes_waits_short_it_hardly_ever_lingers() {
        for (awaited, few) in [(Awaited::Clients, 30..=40), (Awaited::Members, 500..=625)] {
            let (mut linger, mut lingered) = (Linger::default(), 0);
            for _ in 0..10_000 {
                let lingers = linger.after(awaited, 1).is_some();
                lingered += u32::from(lingers);
                linger.waited(awaited, 1, lingers, if lingers { LONG } else { SHORT });
            }
            assert!(few.contains(&lingered), "{awaited:?}: {lingered}");
        }
    }
}
