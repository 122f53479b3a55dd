//! Fetches: from missing blocks and wishes to member commands, and back when they are done.
//!
//! The missing blocks of an access and the wishes that go with it are gathered strip by strip. One command reads the
//! smallest span that covers them when at most a quarter of it is already here, otherwise each run has its own
//! (algorithms.md 1.1): a second positioning costs more than a few blocks read over.

use super::commands::{Command, Owner};
use super::fetches::{Ended, Order};
use super::messages::{Output, Status};
use super::parts::Parts;
use crate::access::{Access, Context};
use crate::array::MemberExtent;
use crate::policy::{DeviceRead, Event, When, Wish};
use crate::units::{Block, Disk, Extent, Nanos};

/// A span may be read over blocks that are here if they are at most one in this many.
const HOLES_ONE_IN: u64 = 4;

impl Parts {
    /// Fetches the missing blocks of an access, widened by the wishes that go with it.
    pub(super) fn fetch_missing(&mut self, now: Nanos, number: u32) {
        let access = *self.accesses.access(number);
        if !self.take_demand_slots(&access) {
            return;
        }
        let hull = self.hull(&access);
        let mut at = hull.start.0;
        while at < hull.end() {
            let piece = self.segment(at, hull.end());
            at = piece.end();
            self.take_wished_slots(now, &access, piece);
            self.fetch_piece(now, piece, Some(number));
        }
    }

    /// Memory for every missing block first, so that no wish can starve the access it belongs to.
    /// Returns whether anything is missing.
    fn take_demand_slots(&mut self, access: &Access) -> bool {
        if !self.outcomes.iter().any(|outcome| outcome.is_miss()) {
            return false;
        }
        // Nothing was evicted since the blocks were looked up: what is empty is what is missing.
        self.memory.fill_demand(access.extent);
        true
    }

    /// The smallest extent that holds the access and its with-demand wishes that lie in the same strips.
    fn hull(&self, access: &Access) -> Extent {
        let (mut start, mut end) = (access.extent.start.0, access.extent.end());
        for wish in self.memory.plan.wishes() {
            if wish.when == When::WithDemand {
                start = start.min(wish.extent.start.0);
                end = end.max(wish.extent.end());
            }
        }
        Extent::new(start, end.min(self.blocks()).saturating_sub(start))
    }

    /// From `at`, what one member command may cover: a strip's rest, or the longest command.
    fn segment(&self, at: u64, end: u64) -> Extent {
        let longest = self.config.command_blocks_max.min(end - at);
        if !self.config.strip_aligned {
            return Extent::new(at, longest);
        }
        let strip = self.array.strip_blocks();
        Extent::new(at, longest.min(strip - at % strip))
    }

    /// Memory for what the policy wished along with demand; what cannot be had is dropped.
    fn take_wished_slots(&mut self, now: Nanos, access: &Access, piece: Extent) {
        for index in 0..self.memory.plan.wishes.len() {
            let Wish { extent, when, mass, .. } = self.memory.plan.wishes[index];
            if when == When::WithDemand {
                let wanted = extent.intersect(piece);
                // A strip that no missing block lies in is not in the same command.
                let beside = access.extent.intersect(piece).is_empty() && self.config.strip_aligned;
                if !wanted.is_empty() && !beside {
                    self.take_ahead_slots(now, wanted, mass);
                }
            }
        }
    }

    /// Marks the empty blocks of `extent` as being prefetched. Stops at the first for which no memory can be had.
    fn take_ahead_slots(&mut self, now: Nanos, extent: Extent, mass: bool) -> bool {
        let mut at = extent.start.0;
        while at < extent.end() {
            let (range, empty) = self.memory.empty_from(at, extent.end());
            at = range.end();
            if empty == 0 {
                continue;
            }
            let want = empty.min(self.ahead_budget(now));
            if self.memory.available() < want {
                self.make_room(now, want);
            }
            let want = want.min(self.memory.available());
            if want > 0 {
                self.memory.fill_ahead(range, want, mass);
                self.spend_ahead(now, want);
            }
            if want < empty {
                self.memory.stats.wishes_dropped += 1;
                return false;
            }
        }
        true
    }

    /// Makes fetches for the cells of one piece that wait for one.
    fn fetch_piece(&mut self, now: Nanos, piece: Extent, access: Option<u32>) {
        let (span, wanted) = self.memory.waiting_in(piece);
        if wanted == 0 {
            return;
        }
        // Only a strip has a positioning to save; a layer above another reads just what it lacks.
        let holes = span.blocks - wanted;
        if holes == 0 || (self.config.strip_aligned && holes * HOLES_ONE_IN <= span.blocks) {
            self.fetch(now, span, access);
            return;
        }
        let mut at = span.start.0;
        while at < span.end() {
            let run = (at..span.end()).take_while(|&b| self.memory.is_waiting(Block(b))).count() as u64;
            if run > 0 {
                self.fetch(now, Extent::new(at, run), access);
            }
            at += run.max(1);
        }
    }

    /// One fetch for a span.
    fn fetch(&mut self, now: Nanos, span: Extent, access: Option<u32>) {
        let order = match access {
            Some(number) => {
                let &Access { context, extent, demand, .. } = self.accesses.access(number);
                let (demand, program) = (extent.intersect(span), demand.intersect(span));
                Order { span, context, demand, program, waiter: self.accesses.waiter(number) }
            }
            None => Order { span, context: self.ahead_context, ..Order::default() },
        };
        let number = self.fetches.begin(now, &order, self.config.command_blocks_max, &mut self.memory);
        if access.is_some() || !self.ahead_by_timer {
            let Order { context, demand, .. } = order;
            let ahead_blocks = span.blocks - demand.blocks;
            let extent = if demand.is_empty() { Extent::new(span.start.0, 0) } else { demand };
            self.tell_device(now, &DeviceRead { context, extent, ahead_blocks, was_prefetched: false });
        }
        self.send_fetch(now, number);
    }

    /// Member commands of a fetch: one where all is well, several and a combine step where a member is out.
    fn send_fetch(&mut self, now: Nanos, number: u32) {
        let extent = self.fetches.extent(number);
        if !self.config.strip_aligned {
            let command = self.fetches.direct(number, Disk(0), extent, true);
            return self.send(now, number, command);
        }
        let MemberExtent { disk, extent } =
            self.array.direct(extent).expect("a fetch lies within one strip of the volume");
        if self.failed.contains(disk) {
            self.send_rebuild(now, number);
        } else {
            let command = self.fetches.direct(number, disk, extent, false);
            self.send(now, number, command);
        }
    }

    /// One member command of a fetch.
    pub(super) fn send(&mut self, now: Nanos, fetch: u32, command: Command) {
        let number = self.commands.enqueue(now, command, &mut self.memory);
        self.fetches.sent(fetch, number);
        self.memory.stats.member_blocks_read += command.extent.blocks;
    }

    /// A reader has caught up with a prefetch.
    pub(super) fn promote(&mut self, fetch: u32) {
        let mut index = 0;
        while let Some(command) = self.fetches.sent_at(fetch, index) {
            if self.commands.promote(command, fetch, &mut self.memory) {
                self.outputs.push_back(Output::Promote { command });
            }
            index += 1;
        }
    }

    /// Executes the wishes that go on their own, and empties the plan.
    #[inline]
    pub(super) fn fulfil_ahead(&mut self, now: Nanos, context: Context) {
        if !self.memory.plan.wishes.is_empty() {
            self.fulfil_wishes(now, context);
        }
    }

    #[inline(never)]
    fn fulfil_wishes(&mut self, now: Nanos, context: Context) {
        let mut index = 0;
        while index < self.memory.plan.wishes.len() {
            let Wish { extent, when, mass, context: of } = self.memory.plan.wishes[index];
            self.ahead_context = of.unwrap_or(context);
            self.ahead_by_timer = of.is_some();
            index += 1;
            if when == When::WithDemand {
                continue;
            }
            let end = extent.end().min(self.blocks());
            let mut at = extent.start.0;
            while at < end {
                let piece = self.segment(at, end);
                at = piece.end();
                let all = self.take_ahead_slots(now, piece, mass);
                self.fetch_piece(now, piece, None);
                if !all {
                    break;
                }
            }
        }
        self.memory.plan.clear();
        self.memory.trim();
    }

    /// A member command has ended.
    pub(super) fn done(&mut self, now: Nanos, number: u32, status: Status) {
        let (owner, disk, blocks) = self.commands.end(now, number, &mut self.memory);
        let good = match status {
            Status::Ok | Status::Unknown => blocks,
            Status::Short { good } => good.min(blocks),
        };
        match owner {
            Owner::Fetch(fetch) | Owner::Staged(fetch) => {
                if good < blocks {
                    // Of an input of a sum a part is of no use.
                    let good = if owner == Owner::Fetch(fetch) { good } else { 0 };
                    self.fetches.came_short(fetch, good, disk);
                }
                self.member_done(now, fetch);
            }
            Owner::Destage(job) => self.destage_done(now, job, disk, good == blocks),
        }
        self.commands.give_back(number);
        self.resume_background(now);
        self.retry_starved(now);
    }

    /// Blocks of a command that is under way could not be read.
    pub(super) fn hole(&mut self, command: u32, extent: Extent) {
        let Owner::Fetch(fetch) = self.commands.command(command).owner else {
            unreachable!("only a read of what a fetch wants has holes")
        };
        assert!(self.array.redundancy() == 0, "an array with redundancy rebuilds what a member cannot give");
        self.fetches.hole(fetch, extent);
    }

    fn member_done(&mut self, now: Nanos, fetch: u32) {
        match self.fetches.ended(fetch) {
            Ended::Waits => return,
            Ended::Short if self.rebuild_bad(now, fetch) => return,
            Ended::Short | Ended::Came => {}
        }
        if self.fetches.is_rebuilt(fetch) {
            self.finish_rebuild(fetch);
        }
        self.arrive(now, fetch);
    }

    /// Everything that a fetch brought is put where it belongs.
    pub(super) fn arrive(&mut self, now: Nanos, number: u32) {
        self.fetches.land(number, &mut self.memory);
        self.answer_waiters(number);
        let fetched = self.fetches.end(now, number);
        self.tell(now, &Event::Fetched(&fetched));
        self.fulfil_ahead(now, fetched.context);
        if !self.config.retain {
            self.memory.drop_unpinned(fetched.extent);
        }
    }

    /// All of a fetch is lost, and known to be while wishes are being fulfilled. What the scheme wishes for because of it is dropped:
    /// that would be lost as soon as it is asked for, and wished for again.
    pub(super) fn arrive_lost(&mut self, now: Nanos, number: u32) {
        self.fetches.land(number, &mut self.memory);
        self.answer_waiters(number);
        let fetched = self.fetches.end(now, number);
        let wished = self.memory.plan.wishes.len();
        self.tell(now, &Event::Fetched(&fetched));
        self.memory.plan.wishes.truncate(wished);
        if !self.config.retain {
            self.memory.drop_unpinned(fetched.extent);
        }
    }

    /// Hands the blocks to their readers; an access with a block that could not be read is answered with an error.
    fn answer_waiters(&mut self, fetch: u32) {
        let mut index = 0;
        while let Some((waiter, extent)) = self.fetches.waiter_at(fetch, index) {
            index += 1;
            if !self.accesses.is_waiting(waiter) {
                continue; // a write answered it
            }
            for block in extent.iter() {
                if !self.fetches.brings(fetch, block) {
                    continue;
                }
                match self.memory.here(block) {
                    Some(here) => self.hand_over(waiter.access, block, here.slot),
                    None => self.accesses.fail_block(waiter.access, block),
                }
            }
            self.ready_if_complete(waiter.access);
        }
    }
}
