//! Fetches: from missing blocks and wishes to member commands, and back when they are done.
//!
//! The missing blocks of an access and the wishes that go with it are gathered strip by strip. One command reads the
//! smallest span that covers them when at most a quarter of it is already here, otherwise each run has its own
//! (algorithms.md 1.1): a second positioning costs more than a few blocks read over.

use super::tables::{Command, Owner, Waiter};
use super::{Engine, Output, Status};
use crate::access::{Access, Context, Op};
use crate::array::DiskSet;
use crate::cache::{Cell, LineId, NO_FETCH, State};
use crate::dispatch::{Class, Queued};
use crate::planted::{self, Bug};
use crate::policy::{DeviceRead, Event, Fetched, When, Wish};
use crate::slots::Slot;
use crate::units::{Block, Disk, Extent, Nanos};

/// A span may be read over blocks that are here if they are at most one in this many.
const HOLES_ONE_IN: u64 = 4;

impl Engine {
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
        let (mut at, end) = (access.extent.start.0, access.extent.end());
        while at < end {
            // Nothing was evicted since the blocks were looked up: what is empty is what is missing.
            let range = self.cache.chunk(at, end).1;
            at = range.end();
            let empty = |cell: &Cell| cell.state == State::Empty;
            if self.cache.find(range.start).is_none_or(|line| self.cache.cells_of(line, range).any(empty)) {
                let line = self.cache.ensure(range.start).0;
                let filled = self.cache.fill(line, range, range.blocks, State::FetchDemand, false);
                self.scheme.retention().on_counts(line, filled as i32, 0);
                self.scheme.retention().on_insert(line, false, &self.cache);
            }
        }
        true
    }

    /// The smallest extent that holds the access and its with-demand wishes that lie in the same strips.
    fn hull(&self, access: &Access) -> Extent {
        let (mut start, mut end) = (access.extent.start.0, access.extent.end());
        for wish in self.plan.wishes() {
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
        for index in 0..self.plan.wishes.len() {
            let Wish { extent, when, mass, .. } = self.plan.wishes[index];
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
            let range = self.cache.chunk(at, extent.end()).1;
            at = range.end();
            let empty = self.empty_in(range);
            if empty == 0 {
                continue;
            }
            let budget = self.config.ahead_blocks_max.saturating_sub(self.stats.ahead_in_flight);
            let want = empty.min(budget);
            if self.cache.slots.available() < want {
                self.make_room(now, want);
            }
            let want = want.min(self.cache.slots.available());
            if want > 0 {
                let line = self.cache.ensure(range.start).0;
                let filled = self.cache.fill(line, range, want, State::FetchPrefetch, mass);
                self.stats.prefetched += u64::from(filled);
                self.stats.ahead_in_flight += u64::from(filled);
                self.stats.ahead_in_flight_peak =
                    self.stats.ahead_in_flight_peak.max(self.stats.ahead_in_flight);
                self.scheme.retention().on_counts(line, 0, filled as i32);
                self.scheme.retention().on_insert(line, true, &self.cache);
            }
            if want < empty {
                self.stats.wishes_dropped += 1;
                return false;
            }
        }
        true
    }

    /// Empty blocks of a range that lies in one line.
    fn empty_in(&self, range: Extent) -> u64 {
        let Some(line) = self.cache.find(range.start) else { return range.blocks };
        let empty = |cells: &[Cell]| cells.iter().filter(|cell| cell.state == State::Empty).count();
        self.cache.runs_of(line, range).map(empty).sum::<usize>() as u64
    }

    /// Gives an empty cell memory; its fetch is set when the command is made.
    pub(super) fn fill_cell(&mut self, block: Block, slot: Slot, state: State, mass: bool) -> LineId {
        let (line, _) = self.cache.ensure(block);
        let (cached, unread) = self.cache.set(line, block, |cell| {
            cell.slot = slot;
            cell.state = state;
            cell.fetch = NO_FETCH;
            cell.mass = mass;
            cell.unproven = state == State::FetchPrefetch;
        });
        self.scheme.retention().on_counts(line, cached, unread);
        line
    }

    /// Whether a block has memory and still needs a fetch.
    fn is_waiting(&self, block: Block) -> bool {
        self.cache.find(block).is_some_and(|line| self.cache.cell(line, block).is_waiting())
    }

    /// The span from the first to the last block of `piece` that waits for a fetch, and how many in it do.
    fn waiting_in(&self, piece: Extent) -> (Extent, u64) {
        let (mut first, mut last, mut wanted) = (None, 0, 0);
        let mut at = piece.start.0;
        while at < piece.end() {
            let range = self.cache.chunk(at, piece.end()).1;
            at = range.end();
            let Some(line) = self.cache.find(range.start) else { continue };
            for (block, cell) in (range.start.0..).zip(self.cache.cells_of(line, range)) {
                if cell.is_waiting() {
                    first = first.or(Some(block));
                    last = block;
                    wanted += 1;
                }
            }
        }
        let span = first.map_or(Extent::default(), |first| Extent::new(first, last - first + 1));
        (span, wanted)
    }

    /// Makes fetches for the cells of one piece that wait for one.
    fn fetch_piece(&mut self, now: Nanos, piece: Extent, access: Option<u32>) {
        let (span, wanted) = self.waiting_in(piece);
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
            let run = (at..span.end()).take_while(|&b| self.is_waiting(Block(b))).count() as u64;
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
        let mut at = span.start.0;
        while at < span.end() {
            let range = self.cache.chunk(at, span.end()).1;
            at = range.end();
            match self.cache.find(range.start) {
                Some(line) => self.cache.assign(line, range, number, &mut slots),
                None => slots.resize(slots.len() + range.blocks as usize, Slot::NONE),
            }
        }
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
        self.stats.member_blocks_read += extent.blocks;
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
        if !self.plan.wishes.is_empty() {
            self.fulfil_wishes(now, context);
        }
    }

    #[inline(never)]
    fn fulfil_wishes(&mut self, now: Nanos, context: Context) {
        let mut index = 0;
        while index < self.plan.wishes.len() {
            let Wish { extent, when, mass, context: of } = self.plan.wishes[index];
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
        self.plan.clear();
        self.trim();
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
        let whole = bad.0 == bad.1 && self.fetches[number].holes.is_empty();
        if !whole || !self.land(number, extent) {
            for (index, block) in extent.iter().enumerate() {
                let slot = self.fetches[number].slots[index];
                if slot.is_some() {
                    let at = Block(index as u64);
                    let hole = self.fetches[number].holes.iter().any(|hole| hole.contains(at));
                    let good = !(hole || (bad.0..bad.1).contains(&at.0));
                    self.arrive_block(number, block, slot, good);
                }
            }
        }
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
            self.drop_unpinned(extent);
        }
    }

    /// The plain case: all blocks of a fetch came and no write overtook any. False, and nothing done, otherwise.
    fn land(&mut self, fetch: u32, extent: Extent) -> bool {
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            let slots = &self.fetches[fetch].slots[(at - extent.start.0) as usize..][..range.blocks as usize];
            at = range.end();
            let current = match self.cache.find(range.start) {
                Some(line) => {
                    let mut left = slots;
                    self.cache.runs_of(line, range).all(|cells| {
                        let (these, rest) = left.split_at(cells.len());
                        left = rest;
                        these.iter().zip(cells).all(|(slot, cell)| !slot.is_some() || cell.fetch == fetch)
                    })
                }
                None => slots.iter().all(|slot| !slot.is_some()),
            };
            if !current {
                return false;
            }
        }
        let mut at = extent.start.0;
        while at < extent.end() {
            let range = self.cache.chunk(at, extent.end()).1;
            at = range.end();
            if let Some(line) = self.cache.find(range.start) {
                self.stats.ahead_in_flight -= u64::from(self.cache.land(line, range, fetch));
            }
        }
        true
    }

    /// One block of a fetch: it fills its cell, unless a write has overtaken it or it failed.
    fn arrive_block(&mut self, fetch: u32, block: Block, slot: Slot, good: bool) {
        let line = self.cache.find(block).filter(|&line| self.cache.cell(line, block).fetch == fetch);
        let Some(line) = line else {
            // A write replaced the cell while this was in flight: what came is stale and enters nothing.
            self.stats.stale_blocks += 1;
            if planted::is(Bug::KeepStale) && self.keep_stale(block, slot) {
                return;
            }
            self.cache.slots.disown(slot);
            return;
        };
        if !good {
            self.stats.blocks_failed += 1;
            self.empty_cell(line, block);
            if self.cache.line(line).is_hollow() {
                self.hollow(line);
            }
            return;
        }
        let prefetched = self.cache.cell(line, block).state == State::FetchPrefetch;
        self.cache.set(line, block, |cell| {
            cell.state = if prefetched { State::Prefetched } else { State::Cached };
            cell.fetch = NO_FETCH;
        });
        if prefetched {
            self.stats.ahead_in_flight -= 1;
        }
    }

    /// The planted bug: what is stale replaces a clean block that is here.
    fn keep_stale(&mut self, block: Block, slot: Slot) -> bool {
        let Some(line) = self.cache.find(block) else { return false };
        let cell = *self.cache.cell(line, block);
        let here = cell.state == State::Cached && !self.cache.slots.is_pinned(cell.slot);
        if here {
            self.cache.slots.disown(cell.slot);
            self.cache.set(line, block, |cell| cell.slot = slot);
        }
        here
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
                let here = self.cache.find(block).map(|line| *self.cache.cell(line, block));
                match here.filter(|cell| matches!(cell.state, State::Cached | State::Prefetched)) {
                    Some(cell) => self.hand_over(waiter.access, block, cell.slot),
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
