//! Members that do not answer, and members that are slower than they use to be.
//!
//! Nothing can take a command back from a kernel or a server that has it, and its memory stays lent until it ends. But whoever waits for it
//! need not wait for ever: after the member's time is over, requests that wait are answered with an error although the engine still
//! has them, and what the engine says of them later is for nobody. From then on whatever needs that member is refused at once, so
//! nothing piles up; what is in the cache, and what other members hold, is served. When the member answers after all, everything is
//! as it was.
//!
//! ```text
//!   in flight for 2 s ------> it is said that the member does not answer
//!   in flight for the timeout > waiting requests fail; new ones that need the member fail at once
//!   ended ------------------> late answers are thrown away; all is well
//! ```
//!
//! The volume looks once a second. An id that the engine still knows must not be mistaken for that of a new request in the same
//! place, so ids carry the number of the time that requests were last given up.

use super::{Event, Volume};
use crate::behind::Behind;
use crate::nbd::wire::Errno;
use crate::planted::{self, Bug};
use crate::ticket::{Id, TIMES};
use forerun_core::access::Access;
use forerun_core::cache::State;
use forerun_core::units::{Extent, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// How long a member may owe an answer before it is said: longer than drives that spin up from a nap of theirs take under load.
pub(super) const UNUSUAL: Nanos = Nanos::from_secs(2);
/// How long a member may take unless the options say otherwise.
pub(super) const TIMEOUT: Nanos = Nanos::from_secs(30);
/// A command is slow that takes so many times what all but one in a thousand take.
const SLOW_TIMES: u64 = 8;
/// And at least this: below it nobody minds.
const SLOW_LEAST: Nanos = Nanos::from_millis(10);
/// Commands that a member must have ended before what it uses to take is known.
const PACE_LEAST: u64 = 1000;
/// How long it is said of a member that it was slow.
const SLOW_SAID: Nanos = Nanos::from_secs(10);
/// Steps of the histogram for each doubling of time, as a power of two.
const STEP_BITS: u32 = 2;

/// How long commands of a member take.
#[derive(Debug)]
struct Pace {
    /// Commands by time, in quarters of a doubling.
    counts: [u32; 256],
    ended: u64,
    /// From here on a command is slow; none while too few have ended.
    slow: Option<Nanos>,
    /// The last slow one: when it ended, and what it took.
    last: Option<(Nanos, Nanos)>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { counts: [0; 256], ended: 0, slow: None, last: None }
    }
}

/// The step of a time.
const fn step(took: Nanos) -> usize {
    let ns = if took.0 < 1 << STEP_BITS { 1 << STEP_BITS } else { took.0 };
    let doubling = ns.ilog2();
    ((doubling << STEP_BITS) as u64 + (ns >> (doubling - STEP_BITS) & ((1 << STEP_BITS) - 1))) as usize
}

/// The longest time of a step.
const fn end_of(step: usize) -> Nanos {
    let (doubling, part) = (step as u32 >> STEP_BITS, step as u64 & ((1 << STEP_BITS) - 1));
    Nanos(((1 << STEP_BITS) + part + 1) << (doubling - STEP_BITS))
}

impl Pace {
    fn ended(&mut self, now: Nanos, took: Nanos) {
        self.counts[step(took)] = self.counts[step(took)].saturating_add(1);
        self.ended += 1;
        if self.slow.is_some_and(|slow| took > slow) {
            self.last = Some((now, took));
        }
    }

    /// What all but one in a thousand stay below is reckoned anew.
    fn reckon(&mut self) {
        if self.ended < PACE_LEAST {
            return;
        }
        let (mut above, most) = (0, self.ended / 1000);
        let usual = (0..self.counts.len()).rev().find(|&step| {
            above += u64::from(self.counts[step]);
            above > most
        });
        let usual = usual.map_or(SLOW_LEAST, end_of);
        self.slow = Some(Nanos(usual.0 * SLOW_TIMES).max(SLOW_LEAST));
    }
}

/// Who waits, and for whom.
#[derive(Debug)]
pub(super) struct Patience {
    /// How long a member may take.
    pub(super) timeout: Nanos,
    /// The request that is being asked, while it was not answered.
    asking: Option<u64>,
    /// Requests that were not answered at once, by their id, and when they were asked.
    waiting: BTreeMap<u64, Nanos>,
    /// Requests that were answered before the engine had an answer.
    given_up: BTreeSet<u64>,
    /// How often requests were given up.
    times: u64,
    /// Since when each member owes an answer, as it was seen last.
    pub(super) owes: Vec<Option<Nanos>>,
    paces: Vec<Pace>,
    /// Members of which nothing is waited for.
    lost: Vec<bool>,
}

impl Patience {
    /// How often requests were given up, as ids count it.
    pub(super) const fn times(&self) -> u16 {
        (self.times % TIMES) as u16
    }

    /// Whether nothing is waited for of this one.
    pub(super) fn lost_member(&self, member: usize) -> bool {
        self.lost[member]
    }

    pub(super) fn new(members: usize) -> Self {
        Self {
            timeout: TIMEOUT,
            asking: None,
            waiting: BTreeMap::new(),
            given_up: BTreeSet::new(),
            times: 0,
            owes: vec![None; members],
            paces: (0..members).map(|_| Pace::default()).collect(),
            lost: vec![false; members],
        }
    }

    /// Whether nothing is waited for of some member.
    pub(super) fn has_lost(&self) -> bool {
        self.lost.contains(&true)
    }

    /// The engine has answered `id`. Whether somebody wants to know.
    pub(super) fn answered(&mut self, id: u64) -> bool {
        if self.asking == Some(id) {
            self.asking = None;
            return true;
        }
        self.waiting.remove(&id).is_some() || !self.given_up.remove(&id)
    }

    /// A command of a member has ended.
    pub(super) fn ended(&mut self, member: usize, now: Nanos, since: Nanos) {
        self.paces[member].ended(now, now.since(since));
    }

    /// Members that were slow lately: what the command took, and what is usual.
    pub(super) fn slow(&self, now: Nanos) -> impl Iterator<Item = (usize, Nanos, Nanos)> + '_ {
        self.paces.iter().enumerate().filter_map(move |(member, pace)| {
            let (_, took) = pace.last.filter(|(at, _)| now.since(*at) < SLOW_SAID)?;
            Some((member, took, Nanos(pace.slow?.0 / SLOW_TIMES)))
        })
    }

    /// Members that owe an answer for so long that it is said.
    pub(super) fn hung(&self, now: Nanos) -> impl Iterator<Item = (usize, Nanos)> + '_ {
        let long = move |(member, since): (usize, &Option<Nanos>)| {
            let long = now.since((*since)?);
            (long >= UNUSUAL).then_some((member, long))
        };
        self.owes.iter().enumerate().filter_map(long)
    }
}

impl Volume {
    /// How long a member may owe an answer before whoever waits for it has an error.
    pub(crate) fn set_patience(&mut self, timeout: Nanos) {
        self.patience.timeout = timeout;
    }

    /// Asks the engine for somebody who may lose patience.
    pub(super) fn ask(&mut self, id: Id, access: Access) {
        self.patience.asking = Some(id.number());
        self.want(id, access);
        self.run();
        self.await_answer();
    }

    /// What was asked and not answered at once is waited for.
    pub(super) fn await_answer(&mut self) {
        if let Some(id) = self.patience.asking.take() {
            self.patience.waiting.insert(id, self.now);
        }
    }

    /// A flush goes to the engine.
    pub(super) fn ask_flush(&mut self, id: u64, input: forerun_core::engine::Input<'static>) {
        self.patience.asking = Some(id);
        self.feed(input);
        self.await_answer();
    }

    /// Whether a read needs a member of which nothing is waited for.
    pub(super) fn needs_lost(&self, extent: Extent) -> bool {
        let here = |state| matches!(state, State::Cached | State::Prefetched);
        self.touches_lost(extent, |block| !here(self.engine().cache().state(block)))
    }

    /// Whether blocks of an extent lie on such a member.
    pub(super) fn touches_lost(
        &self,
        extent: Extent,
        mut wanted: impl FnMut(forerun_core::units::Block) -> bool,
    ) -> bool {
        self.patience.has_lost()
            && extent.iter().any(|block| {
                let (disk, at) = self.source.array.locate(block);
                let member = self.source.place(disk, Extent { start: at, blocks: 1 }).member;
                self.patience.lost[member] && wanted(block)
            })
    }

    /// A second has passed: clients that have waited too long for a member that does not answer have an error.
    pub(crate) fn look_at_members(&mut self) {
        self.see_who_owes();
        for pace in &mut self.patience.paces {
            pace.reckon();
        }
        self.give_up_after(self.patience.timeout);
    }

    /// Nobody waits any more for members that do not answer: the server ends.
    pub(crate) fn give_up_hung(&mut self) {
        self.see_who_owes();
        self.give_up_after(UNUSUAL);
    }

    /// The server ends, and what has not ended by now is not waited for.
    pub(crate) fn forsake(&mut self) {
        self.say_what_stays();
        if !self.is_idle() || self.backend.behind().is_some_and(Behind::works) {
            self.backend.forsake();
        }
    }

    /// Whether a member does not answer.
    pub(crate) fn is_hung(&self) -> bool {
        self.patience.hung(self.now).next().is_some()
    }

    fn see_who_owes(&mut self) {
        let mut owes: Vec<Option<Nanos>> = vec![None; self.source.members.len()];
        let mut owe = |member: usize, since: Nanos| {
            let oldest = owes[member].map_or(since, |seen| seen.min(since));
            owes[member] = Some(oldest);
        };
        for flying in self.flying.iter().filter(|flying| flying.alive) {
            owe(flying.member, flying.since);
        }
        for (member, state) in self.source.members.iter().enumerate() {
            for since in [state.syncing, state.looked_at].into_iter().flatten() {
                owe(member, since);
            }
        }
        for (disk, at, since) in self.bad.tried() {
            owe(self.source.place(disk, Extent { start: at, blocks: 1 }).member, since);
        }
        self.patience.owes = owes;
    }

    fn give_up_after(&mut self, patience: Nanos) {
        if planted::is(Bug::NoPatience) {
            return;
        }
        let now = self.now;
        for member in 0..self.patience.owes.len() {
            let lost = self.patience.owes[member].is_some_and(|since| now.since(since) >= patience);
            if lost && !self.patience.lost[member] {
                let who = self.source.who(member);
                self.note(|| format!("{who} does not answer: requests that need it fail until it does"));
            } else if !lost && self.patience.lost[member] {
                self.say(format!("{} answers again", self.source.who(member)));
            }
            self.patience.lost[member] = lost;
        }
        let late = |since: Nanos| now.since(since) >= patience;
        self.give_up_maps(late);
        if !self.patience.has_lost() {
            return;
        }
        let ids: Vec<u64> =
            self.patience.waiting.iter().filter(|(_, since)| late(**since)).map(|(&id, _)| id).collect();
        if !ids.is_empty() {
            self.patience.times += 1;
        }
        for id in ids {
            self.patience.waiting.remove(&id);
            if !planted::is(Bug::LateAnswerIsTaken) {
                self.patience.given_up.insert(id);
            }
            match Id::of(id) {
                Id::Read(tag, _) => {
                    self.answered(tag);
                    self.events.push_back(Event::Read { tag, result: Err(Errno::Io) });
                }
                Id::Flush(tag, _) => {
                    let error = (!planted::is(Bug::GivenUpIsGood)).then_some(Errno::Io);
                    self.events.push_back(Event::Flushed { tag, error });
                }
                id => unreachable!("{id:?}: reads and flushes are waited for"),
            }
        }
        self.give_up_writes(late);
        self.give_up_syncs(late);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rig::Rig;
    use super::*;
    use crate::backend::Kind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A member that takes and never answers while it is asked not to.
    fn rig() -> (Rig, Arc<AtomicBool>) {
        let hung = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&hung);
        let rig = Rig::new("none", move |task| (!told.load(Ordering::Relaxed)).then_some(Ok(task.len)));
        (rig, hung)
    }

    #[test]
    fn who_waits_for_a_member_that_never_answers_has_an_error_and_the_cache_goes_on() {
        let (mut rig, hung) = rig();
        assert_eq!(rig.read(0, 1), [None]);
        hung.store(true, Ordering::Relaxed);
        assert!(
            rig.read(8, 1).is_empty() && rig.write(4096, 4096, false).is_empty() && rig.flush().is_empty()
        );
        rig.at(3);
        rig.0.look_at_members();
        assert!(rig.errors().is_empty(), "it may take longer than is usual");
        assert!(rig.0.is_hung() && rig.0.health().warnings[0].contains("does not answer"));
        rig.at(30);
        rig.0.look_at_members();
        assert_eq!(rig.errors(), [Some(Errno::Io); 3]);
        assert_eq!(rig.read(0, 1), [None], "what is here is served");
        assert_eq!(rig.read(9, 1), [Some(Errno::Io)], "at once");
        assert_eq!(rig.write(0, 4096, false), [Some(Errno::Io)]);
        assert_eq!(rig.flush(), [Some(Errno::Io)]);
    }

    #[test]
    fn answers_that_come_too_late_are_for_nobody_and_all_is_well_again() {
        let (mut rig, hung) = rig();
        hung.store(true, Ordering::Relaxed);
        assert!(
            rig.read(8, 1).is_empty() && rig.write(4096, 4096, true).is_empty() && rig.flush().is_empty()
        );
        rig.at(31);
        rig.0.look_at_members();
        assert_eq!(rig.errors().len(), 3);
        hung.store(false, Ordering::Relaxed);
        assert!(rig.errors().is_empty());
        rig.0.look_at_members();
        assert!(rig.0.health().warnings.is_empty() && rig.0.is_idle());
        assert_eq!(rig.read(8, 1), [None]);
        assert_eq!((rig.write(0, 4096, true), rig.flush()), (vec![None], vec![None]));
    }

    #[test]
    fn a_sync_that_never_ends_is_an_error_to_who_waits_for_it() {
        let mut rig = Rig::new("none", |task| (task.kind != Kind::Sync).then_some(Ok(task.len)));
        assert!(rig.flush().is_empty() && rig.write(0, 4096, true).is_empty());
        rig.at(31);
        rig.0.look_at_members();
        assert_eq!(rig.errors(), [Some(Errno::Io); 2]);
    }

    #[test]
    fn a_member_that_is_slower_than_it_uses_to_be_is_named() {
        let mut pace = Pace::default();
        (0..2000).for_each(|_| pace.ended(Nanos::ZERO, Nanos::from_millis(5)));
        pace.reckon();
        let usual = pace.slow.expect("known").0 / SLOW_TIMES;
        assert!((5_000_000..6_500_000).contains(&usual), "{usual}");
        pace.ended(Nanos::from_secs(1), Nanos::from_millis(30));
        assert_eq!(pace.last, None);
        pace.ended(Nanos::from_secs(1), Nanos::from_millis(60));
        assert!(pace.last.is_some());
        for ns in [0, 1, 4, 5, 7, 1000, u64::MAX / 2] {
            assert!(Nanos(ns) < end_of(step(Nanos(ns))), "{ns}");
        }
    }
}
