//! Reads: classify, reserve, ask the policy, serve what is here, fetch what is not.

use super::accesses::Complete;
use super::memory::{Room, Search, Served};
use super::messages::ACCESS_BLOCKS_MAX;
use super::parts::Parts;
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
        let number = self.admit(id, access, false);
        if self.accesses.is_any_starved() || !self.start_read(now, number) {
            self.starve(number);
        }
    }

    /// Puts an access into the table.
    pub(super) fn admit(&mut self, id: u64, access: &Access, durable: bool) -> u32 {
        let extent = access.extent;
        assert!(!extent.is_empty() && extent.blocks <= ACCESS_BLOCKS_MAX, "a host splits longer requests");
        assert!(extent.end() <= self.blocks(), "an access lies within the volume");
        assert!(
            extent.blocks <= self.config.cache_blocks,
            "an access fits the layer's memory, or it would wait for ever"
        );
        self.accesses.admit(id, access, durable)
    }

    /// An access waits for memory.
    pub(super) fn starve(&mut self, number: u32) {
        self.memory.stats.starved += 1;
        self.accesses.starve(number);
    }

    /// Tries again whoever waits for memory, in order.
    pub(super) fn retry_starved(&mut self, now: Nanos) {
        while let Some((number, op)) = self.accesses.first_starved() {
            let started = match op {
                Op::Read => self.start_read(now, number),
                Op::Write => self.start_write(now, number),
            };
            if !started {
                break;
            }
            self.accesses.feed();
        }
    }

    /// Starts a read if memory for its missing blocks can be had; otherwise changes nothing.
    fn start_read(&mut self, now: Nanos, number: u32) -> bool {
        let access = *self.accesses.access(number);
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
        if self.accesses.is_missing_some(number) {
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
        if self.accesses.hand_over(number, block, slot) {
            self.memory.pin(slot);
        }
    }

    /// Waits for a block of a fetch in flight, and hurries it if nobody had waited.
    fn join(&mut self, number: u32, block: Block, fetch: u32) {
        if self.fetches.join(fetch, self.accesses.waiter(number), block) {
            self.promote(fetch);
        }
    }

    /// Says `Ready` once every block has its memory, and a durable access once the members keep it.
    pub(super) fn ready_if_complete(&mut self, number: u32) {
        match self.accesses.complete(number) {
            Complete::No => {}
            Complete::Yes => self.answer(number),
            Complete::Durable => self.settle_durable(number),
        }
    }

    /// Says `Ready`.
    pub(super) fn answer(&mut self, number: u32) {
        self.outputs.push_back(self.accesses.answer(number));
    }

    /// The host has copied: unpin, and drop what a layer without memory does not keep.
    pub(super) fn release(&mut self, now: Nanos, number: u32) {
        let extent = self.accesses.release(number, &mut self.memory);
        if !self.config.retain {
            self.memory.drop_unpinned(extent);
        }
        if self.accesses.is_any_starved() {
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
        self.memory.at(now);
        self.memory.tell_device(read);
    }
}
