//! Syncs: what FLUSH and FUA wait for after their writes have reached the members.
//!
//! One sync of all members runs at a time. Whoever asks while it runs needs the next one, since the running one may have
//! begun before their write; all of them share it. A sync that failed while something was written that no sync has covered is
//! never tried again: the kernel may have marked as clean what it could not write, so a second try that succeeds would prove
//! nothing. From then on every flush and every write is answered with an error, until the server is started anew. A sync that failed with nothing to
//! lose (a far server is away, and all that was written was flushed before) is an error to whoever waits for it, and no more:
//! [`Unsynced`](crate::unsynced::Unsynced) knows which it was.

use super::{Event, Volume};
use crate::backend::{Done, Kind, Task, Token};
use crate::nbd::wire::Errno;
use crate::planted::{self, Bug};
use crate::ticket::Tag;
use forerun_core::access::Context;
use forerun_core::units::Nanos;

/// Who waits for a sync.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    who: Who,
    since: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Flush { tag: Tag, error: bool },
    Write { tag: Tag },
}

impl Waiter {
    fn answer(self, failed: bool) -> Event {
        match self.who {
            Who::Flush { tag, error } => {
                Event::Flushed { tag, error: (error || failed).then_some(Errno::Io) }
            }
            Who::Write { tag } => Event::Written { tag, error: failed.then_some(Errno::Io) },
        }
    }
}

/// The running sync, and the next.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    running: Vec<Waiter>,
    next: Vec<Waiter>,
    left: usize,
    /// The running one has failed.
    error: bool,
    /// One has failed that something depended on: for ever.
    failed: bool,
}

impl Syncs {
    /// Whether a sync has failed that something depended on.
    pub(super) const fn has_failed(&self) -> bool {
        self.failed
    }

    pub(super) fn is_idle(&self) -> bool {
        self.left == 0 && self.next.is_empty()
    }
}

impl Volume {
    pub(super) fn sync_for_flush(&mut self, tag: Tag, error: bool) {
        if planted::is(Bug::FlushIsNothing) {
            return self.events.push_back(Event::Flushed { tag, error: error.then_some(Errno::Io) });
        }
        if planted::is(Bug::FlushJoinsRunning) && self.syncs.left > 0 {
            return self.syncs.running.push(Waiter { who: Who::Flush { tag, error }, since: self.now });
        }
        self.sync(Who::Flush { tag, error });
    }

    pub(super) fn sync_for_write(&mut self, tag: Tag) {
        if planted::is(Bug::FuaJoinsRunning) && self.syncs.left > 0 {
            return self.syncs.running.push(Waiter { who: Who::Write { tag }, since: self.now });
        }
        self.sync(Who::Write { tag });
    }

    fn sync(&mut self, who: Who) {
        self.syncs.next.push(Waiter { who, since: self.now });
        if self.syncs.left == 0 {
            self.start_sync();
        }
    }

    fn start_sync(&mut self) {
        std::mem::swap(&mut self.syncs.running, &mut self.syncs.next);
        let members = if planted::is(Bug::FlushOneMember) { 1 } else { self.source.members.len() };
        self.syncs.left = members;
        self.syncs.error = false;
        self.counts.syncs += 1;
        for member in &mut self.source.members[..members] {
            member.unsynced.begin();
            member.syncing = Some(self.now);
        }
        for (index, member) in self.source.members[..members].iter().enumerate() {
            self.in_flight += 1;
            self.backend.submit(
                self.now,
                Task {
                    token: Token::Sync(index as u16),
                    kind: Kind::Sync,
                    member: index as u16,
                    ahead: false,
                    context: Context::default(),
                    file: member.for_sync(),
                    offset: 0,
                    len: 0,
                    lease: None,
                    zeroes: None,
                },
            );
        }
    }

    /// Clients that have waited too long have an error; what becomes of the sync is seen when it ends.
    pub(super) fn give_up_syncs(&mut self, late: impl Fn(Nanos) -> bool) {
        for waiters in [&mut self.syncs.running, &mut self.syncs.next] {
            let given_up = waiters.extract_if(.., |waiter| late(waiter.since));
            self.events.extend(given_up.map(|waiter| waiter.answer(!planted::is(Bug::GivenUpIsGood))));
        }
    }

    /// One member has synced.
    pub(super) fn synced(&mut self, index: usize, done: Done) {
        let who = self.source.who(index);
        let member = &mut self.source.members[index];
        member.syncing = None;
        match done.result {
            Ok(_) => member.unsynced.synced(),
            Err(problem) => {
                self.syncs.error = true;
                // What is in flight to a file may be in the kernel's hands already, and lost there. A far server answers for
                // what it takes: its backend asks again, or says that it was lost.
                let flying = member.writing > 0 && !member.is_far() && !planted::is(Bug::InFlightIsForgotten);
                let at_risk = member.unsynced.any() || flying;
                self.syncs.failed |= at_risk && !planted::is(Bug::FailedSyncIsForgotten);
                let so = if at_risk {
                    "nothing can be made durable any more, so nothing is written any more: start the server anew"
                } else {
                    "nothing was written that it could lose; the next flush tries again"
                };
                self.note(|| format!("{who}: sync: {problem}; {so}"));
            }
        }
        self.syncs.left -= 1;
        if self.syncs.left > 0 {
            return;
        }
        let failed = (self.syncs.error || self.syncs.failed) && !planted::is(Bug::FailedSyncIsGood);
        for waiter in self.syncs.running.drain(..) {
            self.events.push_back(waiter.answer(failed));
        }
        if !self.syncs.next.is_empty() {
            self.start_sync();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::options::Direct;
    use crate::source::{Opening, Source};
    use crate::spec::EngineSpec;
    use crate::volume::NewWrite;
    use forerun_core::units::Nanos;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// A member whose syncs and writes fail while it is away, and its writes while it is full.
    struct Away(Arc<AtomicU8>, Vec<Done>, OwnedFd);

    const AWAY: u8 = 1;
    const FULL: u8 = 2;

    impl Backend for Away {
        fn submit(&mut self, _now: Nanos, task: Task) {
            let fails = self.0.load(Ordering::Relaxed) == AWAY && task.kind != Kind::Read;
            let full = self.0.load(Ordering::Relaxed) == FULL && task.kind == Kind::Write;
            let result = match (fails, full) {
                (_, true) => Err(std::io::Error::from_raw_os_error(libc::ENOSPC)),
                (true, _) => Err(std::io::Error::other("away")),
                _ => Ok(task.len),
            };
            self.1.push(Done { token: task.token, result, lease: task.lease });
        }
        fn launch(&mut self) {}
        fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
            out.append(&mut self.1);
        }
        fn poll_fd(&self) -> BorrowedFd<'_> {
            self.2.as_fd()
        }
    }

    struct Rig(Volume, Arc<AtomicU8>);

    impl Rig {
        fn new() -> Self {
            let disk = tempfile::NamedTempFile::new().expect("a file");
            disk.as_file().set_len(1 << 20).expect("its length");
            let array = "single".parse().expect("an array");
            let how = Opening { read_only: false, direct: Direct::Off, ..Opening::default() };
            let source = Source::over(disk.path(), array, &how).expect("opened");
            let spec = EngineSpec::new("none", 16 << 20, "cheetah-15k4").expect("valid");
            let away = Arc::new(AtomicU8::new(0));
            let told = Arc::clone(&away);
            let backend = |_: &_| {
                let poll = eventfd(0, EventfdFlags::CLOEXEC)?;
                Ok(Box::new(Away(told, Vec::new(), poll)) as Box<dyn Backend>)
            };
            // The file is open; its name is not needed any more.
            Self(Volume::new(spec, source, backend).expect("memory"), away)
        }

        fn away(&self, away: bool) {
            self.1.store(if away { AWAY } else { 0 }, Ordering::Relaxed);
        }

        /// What is wrong with the answer to all that was asked.
        fn error(&mut self) -> Option<Errno> {
            let mut last = None;
            for _ in 0..8 {
                self.0.turn();
                last = self.0.event().or(last);
            }
            match last.expect("it is answered") {
                Event::Written { error, .. } | Event::Flushed { error, .. } => error,
                Event::Read { result, .. } => result.err(),
                Event::Mapped { result, .. } => result.err(),
            }
        }

        fn flush_fails(&mut self) -> bool {
            self.0.flush(Tag::default());
            self.error().is_some()
        }

        fn write_fails(&mut self, durable: bool) -> bool {
            self.write(durable).is_some()
        }

        fn write(&mut self, durable: bool) -> Option<Errno> {
            let intake = self.0.take_intake(1).expect("memory");
            let context = Context(1);
            self.0.write(NewWrite {
                tag: Tag::default(),
                context,
                offset: 0,
                bytes: 4096,
                intake,
                durable,
                zeroes: None,
            });
            self.error()
        }
    }

    #[test]
    fn a_flush_that_fails_with_nothing_written_is_an_error_and_the_next_one_tries_again() {
        let mut rig = Rig::new();
        assert!(!rig.flush_fails());
        rig.away(true);
        assert!(rig.flush_fails(), "nobody says that it is durable");
        rig.away(false);
        assert!(!rig.flush_fails());
        // Written and flushed: again there is nothing to lose.
        assert!(!rig.write_fails(false) && !rig.flush_fails());
        rig.away(true);
        assert!(rig.flush_fails());
        rig.away(false);
        assert!(!rig.flush_fails());
        assert!(!rig.write_fails(true), "nor is a durable write refused");
    }

    #[test]
    fn a_member_without_space_says_so_to_who_writes_and_writes_go_on_when_it_has_some() {
        let mut rig = Rig::new();
        rig.1.store(FULL, Ordering::Relaxed);
        assert_eq!(rig.write(false), Some(Errno::NoSpace));
        rig.away(false);
        assert_eq!(rig.write(true), None);
    }

    #[test]
    fn a_write_that_failed_is_not_lost_by_a_flush() {
        let mut rig = Rig::new();
        rig.away(true);
        rig.away(false);
        assert!(!rig.flush_fails());
        rig.away(true);
        assert!(rig.write_fails(false) && rig.flush_fails());
        rig.away(false);
        // The flush after a write that failed tells of it once (the engine remembers); then all is well.
        rig.flush_fails();
        assert!(!rig.flush_fails());
    }

    #[test]
    fn a_flush_that_fails_after_an_acknowledged_write_is_for_ever() {
        let mut rig = Rig::new();
        assert!(!rig.write_fails(false));
        rig.away(true);
        assert!(rig.flush_fails());
        rig.away(false);
        assert!(rig.flush_fails(), "a second try that succeeds proves nothing");
        assert!(rig.write_fails(true));
        assert!(rig.write_fails(false), "nor is anything taken that could not be made durable");
        let said = rig.0.take_notes().0.join(" ");
        assert!(said.contains("nothing can be made durable any more"), "{said}");
    }

    #[test]
    fn a_first_flush_that_fails_may_have_lost_what_was_written_before_this_process_and_is_for_ever() {
        let mut rig = Rig::new();
        rig.away(true);
        assert!(rig.flush_fails());
        rig.away(false);
        assert!(rig.flush_fails(), "what a process that was killed had acknowledged may be gone");
    }

    #[test]
    fn a_durable_write_whose_sync_fails_is_for_ever_too() {
        let mut rig = Rig::new();
        rig.away(false);
        assert!(!rig.write_fails(false) && !rig.flush_fails());
        assert!(!rig.write_fails(true));
        // The write of the next one succeeds and its sync fails.
        rig.0.source.members[0].unsynced.wrote();
        rig.away(true);
        assert!(rig.flush_fails());
        rig.away(false);
        assert!(rig.flush_fails());
    }
}
