//! Fetches: from missing blocks and wishes to member commands, and back when they are done.
//!
//! The missing blocks of an access and the wishes that go with it are gathered strip by strip. One command reads the
//! smallest span that covers them when at most a quarter of it is already here, otherwise each run has its own
//! (algorithms.md 1.1): a second positioning costs more than a few blocks read over.

use super::messages::{Output, Status};
use super::parts::Parts;
use super::tables::{Command, Fetch, Owner, Waiter};
use crate::access::{Access, Context, Op};
use crate::array::DiskSet;
use crate::dispatch::{Class, Queued};
use crate::policy::{DeviceRead, Event, Fetched, When, Wish};
use crate::slots::Slot;
use crate::units::{Block, Disk, Extent, Nanos};

/// A span may be read over blocks that are here if they are at most one in this many.
const HOLES_ONE_IN: u64 = 4;

impl Parts {
    /// Fetches the missing blocks of an access, widened by the wishes that go with it.
    pub(super) fn fetch_missing(&mut self, now: Nanos, number: u32) {
        let access = self.accesses[number].access;
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

    /// One fetch for a span: those of its blocks that wait are read into their slots.
    fn fetch(&mut self, now: Nanos, span: Extent, access: Option<u32>) {
        let number = self.fetches.take();
        let asked = access.map(|a| self.accesses[a].access);
        let demand = asked.map_or(Extent::default(), |a| a.extent.intersect(span));
        let program = asked.map_or(Extent::default(), |a| a.demand.intersect(span));
        let mut slots = core::mem::take(&mut self.fetches[number].slots);
        slots.clear();
        // At once for the longest: the list of a table's place grows no more.
        slots.reserve(self.config.command_blocks_max.max(span.blocks) as usize);
        self.memory.assign(span, number, &mut slots);
        let serial = access.map_or(0, |a| self.accesses[a].serial);
        let waiter = Waiter { access: access.unwrap_or(0), serial, extent: brought(&slots, span, demand) };
        let fetch = &mut self.fetches[number];
        fetch.slots = slots;
        fetch.context = asked.map_or(self.ahead_context, |a| a.context);
        fetch.extent = span;
        fetch.demand = program;
        fetch.issued = now;
        fetch.ahead = waiter.extent.is_empty();
        fetch.joined = false;
        fetch.bad = (0, 0);
        fetch.holes.clear();
        fetch.rebuilt = false;
        fetch.avoid = DiskSet::EMPTY;
        fetch.read_ahead = program.is_empty();
        fetch.waiters.clear();
        fetch.waiters.reserve(1); // at the first use of the entry, not at its first reader
        if !waiter.extent.is_empty() {
            fetch.waiters.push(waiter);
        }
        if asked.is_some() || !self.ahead_by_timer {
            let (context, ahead_blocks) = (self.fetches[number].context, span.blocks - demand.blocks);
            let extent = if demand.is_empty() { Extent::new(span.start.0, 0) } else { demand };
            self.tell_device(now, &DeviceRead { context, extent, ahead_blocks, was_prefetched: false });
        }
        self.send_fetch(now, number);
    }

    /// Member commands of a fetch: one where all is well, several and a combine step where a member is out.
    fn send_fetch(&mut self, now: Nanos, number: u32) {
        let extent = self.fetches[number].extent;
        self.fetches[number].commands.clear();
        self.fetches[number].commands_left = 0;
        if !self.config.strip_aligned {
            self.send(now, number, Owner::Fetch(number, 0), Disk(0), extent);
            return;
        }
        let direct = self.array.direct(extent).expect("a fetch lies within one strip of the volume");
        if self.failed.contains(direct.disk) {
            self.send_rebuild(now, number);
        } else {
            self.send(now, number, Owner::Fetch(number, 0), direct.disk, direct.extent);
        }
    }

    /// One member command of a fetch.
    pub(super) fn send(&mut self, now: Nanos, fetch: u32, owner: Owner, disk: Disk, extent: Extent) {
        let hurried = !self.fetches[fetch].ahead || self.fetches[fetch].joined;
        let class = if hurried { Class::Demand } else { Class::Prefetch };
        let (context, read_ahead) = (self.fetches[fetch].context, self.fetches[fetch].read_ahead);
        let command =
            Command { owner, disk, extent, op: Op::Read, class, context, read_ahead, ..Command::default() };
        let number = self.enqueue(now, command);
        let fetch = &mut self.fetches[fetch];
        fetch.commands.push(number);
        fetch.commands_left += 1;
        self.memory.stats.member_blocks_read += extent.blocks;
    }

    /// Hands a member command to the dispatch.
    pub(super) fn enqueue(&mut self, now: Nanos, command: Command) -> u32 {
        let number = self.commands.take();
        self.commands[number] = command;
        let queued = self.queued(number);
        self.dispatch().enqueue(now, queued);
        number
    }

    /// A member command as a dispatch knows it.
    pub(super) fn queued(&self, number: u32) -> Queued {
        let command = &self.commands[number];
        let (disk, class, context, blocks) =
            (command.disk, command.class, command.context, command.extent.blocks);
        let volume = match command.owner {
            Owner::Fetch(fetch, offset) => {
                let within = Extent::new(self.fetches[fetch].extent.start.0 + offset, blocks);
                within.intersect(self.fetches[fetch].extent)
            }
            Owner::Staged(_) | Owner::Destage(_) => Extent::default(),
        };
        Queued { command: number, disk, class, context, blocks, volume }
    }

    /// A reader has caught up with a prefetch.
    pub(super) fn promote(&mut self, fetch: u32) {
        for index in 0..self.fetches[fetch].commands.len() {
            let number = self.fetches[fetch].commands[index];
            let command = &mut self.commands[number];
            if !matches!(command.owner, Owner::Fetch(f, _) | Owner::Staged(f) if f == fetch) {
                continue; // one of several has ended, and its number serves somebody else
            }
            command.class = Class::Demand;
            command.read_ahead = false;
            let disk = command.disk;
            if command.left {
                self.outputs.push_back(Output::Promote { command: number });
            } else {
                self.dispatch().promote(number, disk);
            }
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
        let (owner, disk, blocks) = {
            let command = &self.commands[number];
            assert!(command.left, "only a command that left can end");
            (command.owner, command.disk, command.extent.blocks)
        };
        if !self.commands[number].of_another_dispatch {
            self.dispatch().complete(now, disk, number);
        }
        self.commands[number].left = false;
        let good = match status {
            Status::Ok | Status::Unknown => blocks,
            Status::Short { good } => good.min(blocks),
        };
        match owner {
            Owner::Fetch(fetch, offset) => {
                if good < blocks {
                    self.fetches[fetch].bad = (offset + good, offset + blocks);
                    self.fetches[fetch].bad_disk = disk;
                }
                self.member_done(now, fetch);
            }
            Owner::Staged(fetch) => {
                if good < blocks {
                    self.fetches[fetch].bad = (0, self.fetches[fetch].extent.blocks);
                    self.fetches[fetch].bad_disk = disk;
                }
                self.member_done(now, fetch);
            }
            Owner::Destage(job) => self.destage_done(now, job, number, good == blocks),
        }
        self.commands.give_back(number);
        self.resume_background(now);
        self.retry_starved(now);
    }

    /// Blocks of a command that is under way could not be read.
    pub(super) fn hole(&mut self, command: u32, extent: Extent) {
        let Owner::Fetch(fetch, offset) = self.commands[command].owner else {
            unreachable!("only a read of what a fetch wants has holes")
        };
        assert!(self.array.redundancy() == 0, "an array with redundancy rebuilds what a member cannot give");
        self.fetches[fetch].holes.push(Extent::new(offset + extent.start.0, extent.blocks));
    }

    fn member_done(&mut self, now: Nanos, fetch: u32) {
        self.fetches[fetch].commands_left -= 1;
        if self.fetches[fetch].commands_left > 0 {
            return;
        }
        if self.fetches[fetch].bad.0 < self.fetches[fetch].bad.1 && self.rebuild_bad(now, fetch) {
            return;
        }
        if self.fetches[fetch].rebuilt {
            self.finish_rebuild(fetch);
        }
        self.arrive(now, fetch);
    }

    /// Everything that a fetch brought is put where it belongs.
    pub(super) fn arrive(&mut self, now: Nanos, number: u32) {
        let (extent, bad) = (self.fetches[number].extent, self.fetches[number].bad);
        let waiting = !self.fetches[number].waiters.is_empty();
        let Fetch { slots, holes, .. } = &self.fetches[number];
        self.memory.land(number, extent, slots, (bad, holes));
        self.answer_waiters(number);
        let fetch = &self.fetches[number];
        let fetched = Fetched {
            context: fetch.context,
            extent,
            took: now.since(fetch.issued),
            was_prefetch: fetch.ahead,
            reader_waiting: waiting,
        };
        self.fetches.give_back(number);
        self.tell(now, &Event::Fetched(&fetched));
        self.fulfil_ahead(now, fetched.context);
        if !self.config.retain {
            self.memory.drop_unpinned(extent);
        }
    }

    /// Hands the blocks to their readers; an access with a block that could not be read is answered with an error.
    fn answer_waiters(&mut self, fetch: u32) {
        let mut waiters = core::mem::take(&mut self.fetches[fetch].waiters);
        for waiter in &waiters {
            if self.accesses[waiter.access].serial != waiter.serial {
                continue; // a write answered it
            }
            for block in waiter.extent.iter() {
                let within = (block.0 - self.fetches[fetch].extent.start.0) as usize;
                if !self.fetches[fetch].slots[within].is_some() {
                    continue; // read over: it was here, or another fetch brings it
                }
                match self.memory.here(block) {
                    Some(here) => self.hand_over(waiter.access, block, here.slot),
                    None => self.fail_block(waiter.access, block),
                }
            }
            self.ready_if_complete(waiter.access);
        }
        waiters.clear();
        self.fetches[fetch].waiters = waiters;
    }

    /// A block of an access cannot be had.
    fn fail_block(&mut self, number: u32, block: Block) {
        let pending = &mut self.accesses[number];
        let at = (block.0 - pending.access.extent.start.0) as usize;
        if !pending.slots[at].is_some() {
            pending.error = true;
            pending.missing -= 1;
        }
    }
}

/// From the first to the last block of `demand` that a fetch of `span` brings.
fn brought(slots: &[Slot], span: Extent, demand: Extent) -> Extent {
    let is_brought = |block: &u64| slots[(block - span.start.0) as usize].is_some();
    let first = (demand.start.0..demand.end()).find(is_brought);
    let last = (demand.start.0..demand.end()).rev().find(is_brought);
    match (first, last) {
        (Some(first), Some(last)) => Extent::new(first, last - first + 1),
        _ => Extent::default(),
    }
}
