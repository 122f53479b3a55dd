//! Reads: classify, reserve, ask the policy, serve what is here, fetch what is not.

use super::memory::{Room, Search, Served};
use super::messages::{ACCESS_BLOCKS_MAX, Output};
use super::parts::Parts;
use super::tables::{Pending, Waiter};
use crate::access::{Access, Op};
use crate::policy::{DeviceRead, Event, Lookup, Outcome};
use crate::slots::Slot;
use crate::stats::tally;
use crate::units::{Block, Extent, Nanos};

impl Parts {
    pub(super) fn read(&mut self, now: Nanos, id: u64, access: &Access) {
        if !self.read_short(now, id, access) {
            self.read_long(now, id, access);
        }
    }

    /// A read of any length, of blocks in any state.
    #[inline(never)]
    pub(super) fn read_long(&mut self, now: Nanos, id: u64, access: &Access) {
        let number = self.admit(id, access);
        self.accesses[number].slots.resize(access.extent.blocks as usize, Slot::NONE);
        if !self.starved.is_empty() || !self.start_read(now, number) {
            self.memory.stats.starved += 1;
            self.starved.push_back(number);
        }
    }

    /// Puts an access into the table, with no slot listed yet.
    pub(super) fn admit(&mut self, id: u64, access: &Access) -> u32 {
        let extent = access.extent;
        assert!(!extent.is_empty() && extent.blocks <= ACCESS_BLOCKS_MAX, "a host splits longer requests");
        assert!(extent.end() <= self.blocks(), "an access lies within the volume");
        assert!(
            extent.blocks <= self.config.cache_blocks,
            "an access fits the layer's memory, or it would wait for ever"
        );
        let number = self.accesses.take();
        self.serial += 1;
        let pending = &mut self.accesses[number];
        pending.id = id;
        pending.serial = self.serial;
        pending.access = *access;
        pending.missing = extent.blocks;
        pending.slots.clear();
        pending.error = false;
        pending.ready = false;
        pending.durable = false;
        number
    }

    /// Tries again whoever waits for memory, in order.
    pub(super) fn retry_starved(&mut self, now: Nanos) {
        while let Some(&number) = self.starved.front() {
            let started = match self.accesses[number].access.op {
                Op::Read => self.start_read(now, number),
                Op::Write => self.start_write(now, number),
            };
            if !started {
                break;
            }
            self.starved.pop_front();
        }
    }

    /// Starts a read if memory for its missing blocks can be had; otherwise changes nothing.
    fn start_read(&mut self, now: Nanos, number: u32) -> bool {
        let access = self.accesses[number].access;
        loop {
            let missing = self.memory.classify(access.extent, &mut self.outcomes);
            if self.memory.available() >= missing {
                break;
            }
            if !self.make_room(now, missing) {
                return false;
            }
        }
        let outcomes = core::mem::take(&mut self.outcomes);
        self.tell(now, &Event::Access(&access, Lookup { outcomes: &outcomes }));
        self.count(&access, &outcomes);
        for (block, &outcome) in access.extent.iter().zip(&outcomes) {
            self.serve(number, block, outcome);
        }
        self.outcomes = outcomes;
        self.tell_late_reads(now, &access);
        if self.accesses[number].missing > 0 {
            self.fetch_missing(now, number);
        }
        self.memory.trim();
        self.fulfil_ahead(now, access.context);
        self.ready_if_complete(number);
        true
    }

    /// Makes room for so many slots; what is dirty in the way is told to go to the members. False when it cannot be had now.
    pub(super) fn make_room(&mut self, now: Nanos, need: u64) -> bool {
        let mut search = Search::default();
        loop {
            match self.memory.make_room(need, &mut search) {
                Room::Made => return true,
                Room::Short => return false,
                Room::Dirty(line) => {
                    self.destage_line(now, line);
                    self.memory.stays(line);
                }
            }
        }
    }

    pub(super) fn count(&mut self, access: &Access, outcomes: &[Outcome]) {
        let demand = access.demand;
        for (block, outcome) in access.extent.iter().zip(outcomes) {
            tally(&mut self.memory.stats.all, *outcome);
            if demand.contains(block) {
                tally(&mut self.memory.stats.program, *outcome);
            }
        }
    }

    /// Serves one block if it is here, or joins its fetch if it is in flight.
    fn serve(&mut self, number: u32, block: Block, outcome: Outcome) {
        if outcome.is_miss() {
            return;
        }
        match self.memory.serve(block, outcome) {
            Served::Slot(slot) => self.hand_over(number, block, slot),
            Served::Fetch(fetch) => self.join(number, block, fetch),
        }
    }

    /// Gives one block of an access its memory.
    pub(super) fn hand_over(&mut self, number: u32, block: Block, slot: Slot) {
        let pending = &mut self.accesses[number];
        let at = (block.0 - pending.access.extent.start.0) as usize;
        if !pending.slots[at].is_some() {
            pending.slots[at] = slot;
            pending.missing -= 1;
            self.memory.pin(slot);
        }
    }

    /// Waits for a block of a fetch in flight, and hurries it if nobody had waited.
    fn join(&mut self, number: u32, block: Block, fetch: u32) {
        let serial = self.accesses[number].serial;
        let waiting = &mut self.fetches[fetch];
        match waiting.waiters.last_mut() {
            Some(last) if last.serial == serial && last.extent.end() == block.0 => last.extent.blocks += 1,
            _ => {
                let extent = Extent { start: block, blocks: 1 };
                waiting.waiters.push(Waiter { access: number, serial, extent });
            }
        }
        if waiting.ahead && !waiting.joined {
            waiting.joined = true;
            self.promote(fetch);
        }
    }

    /// Says `Ready` once every block has its memory, and a durable access once the members keep it.
    pub(super) fn ready_if_complete(&mut self, number: u32) {
        let pending = &mut self.accesses[number];
        if pending.missing == 0 && !pending.ready {
            pending.ready = true;
            if pending.durable {
                self.settle_durable(number);
            } else {
                self.answer(number);
            }
        }
    }

    /// Says `Ready`.
    pub(super) fn answer(&mut self, number: u32) {
        let Pending { id, error, .. } = self.accesses[number];
        self.outputs.push_back(Output::Ready { id, handle: number, error });
    }

    /// The host has copied: unpin, and drop what a layer without memory does not keep.
    pub(super) fn release(&mut self, now: Nanos, number: u32) {
        assert!(self.accesses[number].ready, "only an answered access is released");
        let pending = &mut self.accesses[number];
        for &slot in pending.slots.iter().filter(|s| s.is_some()) {
            self.memory.unpin(slot);
        }
        pending.slots.clear();
        let extent = pending.access.extent;
        // Fetches and jobs that still name this access must not take it for one that waits.
        pending.serial = 0;
        self.accesses.give_back(number);
        if !self.config.retain {
            self.memory.drop_unpinned(extent);
        }
        if !self.starved.is_empty() {
            self.retry_starved(now);
        }
    }

    /// Tells the policy which blocks of this access reach a device, in runs: those that waited for a prefetch in flight.
    pub(super) fn tell_late_reads(&mut self, now: Nanos, access: &Access) {
        let mut at = 0;
        while at < self.outcomes.len() {
            let is_late = |o: &Outcome| *o == Outcome::LateHit;
            let run = self.outcomes[at..].iter().take_while(|o| is_late(o)).count();
            if run > 0 {
                let extent = Extent::new(access.extent.start.0 + at as u64, run as u64);
                self.tell_device_read(now, access, extent, true);
            }
            at += run.max(1);
        }
    }

    /// Tells the policy that these blocks of an access reach a device, or wait for a prefetch that does.
    pub(super) fn tell_device_read(
        &mut self,
        now: Nanos,
        access: &Access,
        extent: Extent,
        was_prefetched: bool,
    ) {
        self.tell_device(
            now,
            &DeviceRead { context: access.context, extent, ahead_blocks: 0, was_prefetched },
        );
    }

    /// Tells the policy of a read that reaches a device.
    pub(super) fn tell_device(&mut self, now: Nanos, read: &DeviceRead) {
        self.tell(now, &Event::DeviceRead(read));
    }
}
