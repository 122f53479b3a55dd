//! Work that goes over all stripes while clients are served: a member is rebuilt, or copies and parity are compared with the data beside them.
//!
//! One stripe at a time, held as an update holds it, so what clients write there waits for it or comes before it. Each begins no earlier than the rate
//! allows, whatever clients do; what they want of other stripes goes on beside it.
//!
//! ```text
//!   stripe held -> read from those who have it -> group of the new member's places -> record stands: the stripe is on it
//!                                                                                         |
//!              now and then: all records kept (a sync) -> superblocks say how far it is <-'
//!   all of them: a sync -> an epoch with the member in
//! ```
//!
//! What the new member gets passes through the journal as every write does, so an older write that goes home late is never the last one there. From then on the
//! member is read and written in that stripe, and in no other. What superblocks say is no more than a power cut leaves, so whoever is stopped goes on
//! there.
//!
//! Where members are compared and differ, nobody knows which of them is right. Who wants them to agree all the same (`mend`) gets what a read returns: copies and
//! parity are made anew of the data, and what a member cannot read is written to it anew, in records as any write.

use super::update::{Ended, Goal, Places, Seen, Update};
use super::{Operation, Raid, What};
use crate::backend::{Backend as _, Kind};
use crate::behind::{ArrayFigures, ArrayOrder, Files, Wanted, WorkFigures};
use crate::planted::{self, Bug};
use crate::sealed::Page;
use forerun_core::array::{Content, DiskSet, Stripe};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Nanos};
use std::collections::BTreeSet;
use std::io;

/// Places of blocks that differ which are told one by one.
const TOLD_MAX: usize = 16;
/// How long whoever was refused a write waits before it tries again.
const AGAIN: Nanos = Nanos::from_secs(1);

/// How long it is before somebody looks whether a stripe that was held is free.
const LOOK: Nanos = Nanos::from_millis(100);
/// How late a stripe may begin without making the next ones begin later.
const LATE_MAX: Nanos = Nanos::from_millis(100);

/// How fast it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Most bytes of each member that it goes through in a second.
    pub(crate) rate: u64,
    /// How often superblocks say how far it is.
    pub(crate) keep: Nanos,
}

/// It.
pub(super) struct Work {
    /// Its number: what the one before it has begun may end now, and says nothing of this one.
    number: u32,
    /// The member that is rebuilt; none where stripes are compared.
    rebuilds: Option<u16>,
    /// What differs is made to agree.
    mends: bool,
    /// The next stripe.
    next: u64,
    /// A stripe is under way.
    runs: bool,
    /// A sync of ours is.
    syncs: bool,
    /// Nothing begins before.
    due: Nanos,
    /// Superblocks are to hear of it from then on.
    keep_at: Nanos,
    /// Why it stands still, if it does.
    paused: Option<String>,
    found: WorkFigures,
}

impl Work {
    fn new(number: u32, rebuilds: Option<u16>, next: u64, (now, pace): (Nanos, Pace)) -> Self {
        let keep_at = now + pace.keep;
        let found = WorkFigures { member: rebuilds, ..WorkFigures::default() };
        Self {
            number,
            rebuilds,
            mends: false,
            next,
            runs: false,
            syncs: false,
            due: now,
            keep_at,
            paused: None,
            found,
        }
    }

    /// A stripe more was compared.
    fn add(&mut self, seen: Seen) {
        let Seen { blocks, differ, unread, mended } = seen;
        let found = &mut self.found;
        found.blocks += blocks;
        found.wrong += differ.len() as u64;
        found.unread += u64::from(unread);
        found.mended += mended;
        let room = TOLD_MAX - found.first.len();
        found.first.extend(differ.into_iter().take(room).map(|(disk, block)| (disk.0, block.0)));
    }
}

impl Raid {
    /// What was under way when the array was last served goes on, as fast as `pace` says.
    pub(crate) fn goes_on(&mut self, pace: Pace) {
        self.pace = pace;
        if self.read_only {
            return;
        }
        if let Some(one) = self.standing.growing() {
            self.begin_work(Some(one.member), one.upto, false);
        }
    }

    /// Nothing is written to members or journal, whatever happens.
    pub(crate) const fn only_reads(&mut self) {
        self.read_only = true;
    }

    /// An order that writes is refused where nothing is written.
    fn may_order(&self, writes: bool) -> Result<(), String> {
        if self.read_only && writes {
            return Err("it is served read-only: start the server without --read-only for that".into());
        }
        Ok(())
    }

    fn no_scrub(&self) -> Result<(), String> {
        if self.work.as_ref().is_some_and(|work| work.rebuilds.is_none()) {
            return Err("a scrub is under way: stop it first (forerun ctl scrub --stop)".into());
        }
        Ok(())
    }

    fn begin_work(&mut self, rebuilds: Option<u16>, next: u64, mends: bool) {
        self.works = self.works.wrapping_add(1);
        let work = Work::new(self.works, rebuilds, next, (self.now, self.pace));
        self.work = Some(Work { mends, ..work });
    }

    /// A new member, blank and held against others, in the place of one that is out.
    pub(crate) fn attach(&mut self, member: u16, files: Files) -> Result<(), String> {
        self.no_scrub()?;
        self.may_order(true)?;
        self.standing.attach(member, files.clone())?;
        if let Some(there) = self.files.get_mut(usize::from(member)) {
            *there = files;
        }
        self.begin_work(Some(member), 0, false);
        Ok(())
    }

    /// The array that it is says so on its members.
    pub(crate) const fn called(&mut self, id: u128) {
        self.id = id;
    }

    /// The member that is out, or the first of several. Whatever speaks against a new one is said here: what is looked at is made blank.
    pub(super) fn wanted(&self) -> Result<Wanted, String> {
        self.may_order(true)?;
        self.no_scrub()?;
        self.standing.may_write()?;
        if let Some((member, _)) = self.standing.rebuilding() {
            return Err(format!("member {member} is being rebuilt: one at a time"));
        }
        let out = self.standing.out().iter().next();
        let member = out.ok_or("no member is out: all of the array is there")?.0;
        self.standing.has_ended(member)?;
        Ok(Wanted { array: self.id, member, blocks: self.array.member_blocks() })
    }

    pub(crate) fn order(&mut self, order: ArrayOrder) -> Result<(), String> {
        self.may_order(matches!(order, ArrayOrder::Scrub { mend: true } | ArrayOrder::GoOn))?;
        let (rebuilds, now) = (self.work.as_ref().map(|work| work.rebuilds.is_some()), self.now);
        match (order, rebuilds) {
            (ArrayOrder::Scrub { mend }, None) => self.begin_work(None, 0, mend),
            (ArrayOrder::Scrub { .. }, Some(true)) => {
                return Err("a member is being rebuilt: scrub when it is in".into());
            }
            (ArrayOrder::GoOn, Some(true)) | (ArrayOrder::Scrub { .. }, Some(false)) => {
                let Some(work) = &mut self.work else { return Ok(()) };
                work.mends = order == ArrayOrder::Scrub { mend: true };
                work.paused = None;
                work.due = now;
            }
            (ArrayOrder::StopScrub, Some(false)) | (ArrayOrder::Pause, Some(true)) => {
                if let Some(work) = &mut self.work {
                    work.paused = Some("an operator has stopped it".into());
                }
            }
            (ArrayOrder::StopScrub, _) => return Err("no scrub is under way".into()),
            (ArrayOrder::GoOn | ArrayOrder::Pause, _) => return Err("no member is being rebuilt".into()),
        }
        Ok(())
    }

    /// How members stand, and what is under way.
    pub(crate) fn array_figures(&self) -> ArrayFigures {
        let stripes = self.array.stripes();
        let work = self.work.as_ref().map(|work| WorkFigures {
            done: work.next,
            all: stripes,
            paused: work.paused.clone(),
            ..work.found.clone()
        });
        let (rebuild, scrub) = match work {
            Some(work) if work.member.is_some() => (Some(work), self.scrubbed.clone()),
            other => (None, other.or_else(|| self.scrubbed.clone())),
        };
        // One that is being rebuilt cannot stand in for another yet.
        let rebuilt = self.standing.rebuilding().map(|(member, _)| member);
        let out: BTreeSet<u16> = self.standing.gone().iter().map(|disk| disk.0).chain(rebuilt).collect();
        ArrayFigures {
            level: self.array.spec().to_string(),
            members: self.array.disks(),
            out: out.into_iter().collect(),
            rebuild,
            scrub,
        }
    }

    /// When the next stripe may begin although nothing happens.
    pub(super) fn work_due(&self) -> Option<Nanos> {
        let work = self.work.as_ref().filter(|work| !work.runs && work.paused.is_none() && !self.leaving)?;
        // What is due and has not begun waits for something that may end without a word.
        Some(if work.due > self.now { work.due } else { self.now + LOOK })
    }

    /// What may begin of it begins.
    pub(super) fn work_on(&mut self) {
        let Some(work) = &mut self.work else { return };
        if work.rebuilds.is_some() {
            let Some(growing) = self.standing.growing() else {
                // It is in, or was put out, and that was said.
                self.work = None;
                return;
            };
            if !growing.known || growing.joins {
                return;
            }
            let whole = work.next == self.array.stripes();
            let late = self.now >= work.keep_at && growing.upto > growing.kept;
            if !work.syncs && !work.runs && (whole || late) && self.now >= work.due {
                let (number, upto) = (work.number, growing.upto);
                work.syncs = true;
                work.keep_at = self.now + self.pace.keep;
                return self.keep(number, upto);
            }
        } else if work.next == self.array.stripes() && !work.runs {
            self.scrubbed =
                self.work.take().map(|work| WorkFigures { done: work.next, all: work.next, ..work.found });
            return self.say_scrubbed();
        }
        self.next_stripe();
    }

    fn say_scrubbed(&mut self) {
        let Some(found) = &self.scrubbed else { return };
        self.said.push(format!("scrub: {}", found.found()));
    }

    /// Superblocks will say that so many stripes are rebuilt, when all records up to now are kept.
    fn keep(&mut self, work: u32, upto: u64) {
        if planted::is(Bug::RebuiltUnsynced) {
            return self.kept(work, upto, Ok(0));
        }
        let number = self.number();
        let sent =
            super::Sent { what: What::Keep { work, upto }, disk: None, start: Block(0), blocks: Vec::new() };
        self.sent.insert(number, sent);
        self.back.submit(self.now, super::task(number, Kind::Sync, 0, 0, None));
    }

    /// They are, or are not.
    pub(super) fn kept(&mut self, of: u32, upto: u64, result: io::Result<u64>) {
        let own = |work: &&mut Work| work.number == of || planted::is(Bug::KeepOfAnother);
        let Some(work) = self.work.as_mut().filter(own) else { return };
        work.syncs = false;
        match result {
            Ok(_) if upto == self.array.stripes() => self.standing.join(),
            Ok(_) => self.standing.keep(upto),
            Err(_) => work.due = self.now + AGAIN,
        }
    }

    /// The next stripe begins, if it may.
    fn next_stripe(&mut self) {
        let may = self.may_write() && !self.leaving && !self.standing.is_stopped();
        let Some(work) = &mut self.work else { return };
        let over = work.next >= self.array.stripes();
        if !may || over || work.runs || work.paused.is_some() || self.now < work.due {
            return;
        }
        let stripe = Stripe(work.next);
        let goal = work.rebuilds.map_or(Goal::Compare, |member| Goal::Rebuild(Disk(member)));
        if self.busy.contains_key(&stripe.0) {
            return;
        }
        let extent = self.array.stripe_extent(stripe);
        let Ok(plan) = self.array.read_plan(extent, &self.not_read(stripe, &DiskSet::EMPTY)) else { return };
        if plan.blocks() > self.free.len() as u64 {
            return;
        }
        let Some(work) = &mut self.work else { return };
        work.runs = true;
        let of = work.number;
        let bytes = self.array.member_blocks() * BLOCK_BYTES / self.array.stripes().max(1);
        let takes = bytes.saturating_mul(1_000_000_000) / self.pace.rate.max(1);
        let slack = Nanos(self.now.0.saturating_sub(LATE_MAX.0));
        work.due = work.due.max(slack) + Nanos(takes);
        let number = self.number();
        if !planted::is(Bug::RebuildUnlocked) {
            self.busy.insert(stripe.0, number);
        }
        let reads = plan.reads().to_vec();
        let update = Update::whole((stripe, of), plan, goal, self.array.stripe_blocks(), extent.blocks);
        self.operations.insert(number, Operation::Update(update));
        reads.iter().for_each(|read| self.send_part(number, read.disk, read.extent));
    }

    /// A stripe of it has ended; one that could not be begun at the time is begun anew.
    pub(super) fn stripe_ended(
        &mut self,
        (stripe, of): (Stripe, u32),
        goal: Goal,
        seen: Seen,
        result: Result<(), Ended>,
    ) {
        let now = self.now;
        let Some(work) = self.work.as_mut().filter(|work| work.number == of) else { return };
        work.runs = false;
        match (goal, result) {
            (_, Err(Ended::Later)) => {}
            (_, Err(Ended::Refused)) => work.due = now + AGAIN,
            (Goal::Rebuild(Disk(member)), Err(Ended::Unread)) => {
                let why = format!("stripe {} cannot be read of those who have it", stripe.0);
                self.said.push(format!("the rebuild of member {member} stands still: {why}; forerun ctl rebuild --go-on tries again"));
                work.paused = Some(why);
            }
            (_, Err(Ended::Unread)) => {
                work.found.unread += 1;
                work.next += 1;
            }
            (_, Ok(())) => {
                work.next += 1;
                work.add(seen);
                if matches!(goal, Goal::Rebuild(_)) {
                    self.standing.grow(stripe.0 + 1);
                }
            }
        }
    }

    /// Which places of a stripe hold something else than they ought to, of those that were read.
    pub(super) fn differ(&self, ought: &Places, got: &super::Got) -> Vec<(Disk, Block)> {
        let is_other = |place, page: &Page| got.get(place).is_some_and(|&is| self.page(is) != page);
        let other = ought.iter().filter(|(place, page)| is_other(place, page));
        other.map(|(&place, _)| place).collect()
    }

    /// Whether what differs is made to agree.
    pub(super) fn mends(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.mends)
    }

    /// Whether what a stripe must hold there says more than was read of it already: copies and parity.
    pub(super) fn is_compared(&self, content: Content) -> bool {
        self.array.copies_per_block() > 1 || !matches!(content, Content::Data(_))
    }
}
