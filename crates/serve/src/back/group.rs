//! Groups: blocks that stand in one record, so that all of them come home after a crash, or none. What an array writes to its members for one of
//! its stripes is one: data and parity, or copies.
//!
//! A group never passes by the journal, whatever that holds. What is below may answer before it gives memory back: a member that is put out has commands
//! in hand that may never end, and nobody waits for them; their memory is nobody's until they do.

use super::format::{BLOCK, EXTENTS_MAX, PAYLOAD_MAX};
use super::log::Taken;
use super::{Flight, WriteBack};
use crate::array::superblock::Epoch;
use crate::backend::{Done, Kind, Token};
use crate::planted::{self, Bug};
use crate::sealed::Page;
use forerun_core::units::Nanos;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks that change together.
pub(crate) struct Group {
    /// Who is answered when all of them are on the journal.
    pub(crate) token: Token,
    /// Runs of them: the first, and what they will hold.
    pub(crate) parts: Vec<(u64, Vec<Box<Page>>)>,
    /// Whoever writes it needs no room for those that are all zero: they may become holes.
    pub(crate) hollow: bool,
}

impl Group {
    /// All of them.
    pub(super) fn blocks(&self) -> usize {
        self.parts.iter().map(|(_, pages)| pages.len()).sum()
    }
}

impl WriteBack {
    /// What is below are members, each with strips of its own; `epoch` is the one that stands, which records and superblocks say from the next on.
    pub(crate) fn over_members(&mut self, epoch: Arc<Mutex<Option<Epoch>>>) {
        self.by_strip = true;
        self.epoch = epoch;
    }

    /// The epoch of the members that stands now.
    pub(super) fn stands(&self) -> Option<Epoch> {
        *self.epoch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The superblock that is written next says the epoch of its members: what they had before the new tail, those of that epoch have.
    pub(super) fn say_epoch(&mut self) {
        if let Some(epoch) = self.stands() {
            self.about.identity = epoch.told();
        }
    }

    /// Takes a group; no other that is not answered has a block of it.
    pub(crate) fn group(&mut self, now: Nanos, group: Group) {
        self.now = now;
        debug_assert!(
            group.blocks() <= PAYLOAD_MAX && group.parts.len() <= EXTENTS_MAX,
            "a group is one record"
        );
        if planted::is(Bug::StripesUnjournalled) {
            return self.write_bare(group);
        }
        self.groups.push_back(group);
    }

    /// Takes groups into the next record, as many as it and memory hold.
    pub(super) fn admit_groups(&mut self) {
        while let Some(group) = self.groups.front() {
            let (blocks, parts) = (group.blocks(), group.parts.len());
            let apart = planted::is(Bug::RecordsApart) && !self.log.batch.is_empty();
            let record = self.log.batch_blocks() + blocks <= PAYLOAD_MAX
                && self.log.batch.len() + parts <= EXTENTS_MAX;
            let fits = record && !apart && self.slots.free() >= blocks;
            if self.refuses().is_none() && !fits {
                return;
            }
            let Some(mut group) = self.groups.pop_front() else { return };
            if let Some(code) = self.refuses() {
                self.end(group.token, Err(io::Error::from_raw_os_error(code)), None);
                continue;
            }
            if planted::is(Bug::RecordsApart) && group.parts.len() > 1 {
                let rest = group.parts.split_off(1);
                self.groups.push_front(Group { token: group.token, parts: rest, hollow: group.hollow });
                self.take_group(None, group.parts, group.hollow);
                return;
            }
            self.take_group(Some(group.token), group.parts, group.hollow);
        }
    }

    fn take_group(&mut self, token: Option<Token>, parts: Vec<(u64, Vec<Box<Page>>)>, hollow: bool) {
        let last = parts.len() - 1;
        for (at, (first, pages)) in parts.into_iter().enumerate() {
            let slots = self.fill(&pages, hollow);
            let token = token.filter(|_| at == last);
            let len = (pages.len() * BLOCK) as u64;
            self.log.batch.push(Taken { token, first, len, slots, lease: None });
        }
    }

    fn fill(&mut self, pages: &[Box<Page>], hollow: bool) -> Vec<u32> {
        let mut slots = Vec::with_capacity(pages.len());
        for page in pages {
            let Some(slot) = self.slots.take() else { unreachable!("memory was looked for") };
            self.slots.bytes_mut(slot).copy_from_slice(&page[..]);
            if hollow && (planted::is(Bug::HollowUnlooked) || page.iter().all(|&byte| byte == 0)) {
                self.slots.hollow(slot);
            }
            slots.push(slot);
        }
        slots
    }

    /// A group goes to where it belongs at once (a planted bug).
    fn write_bare(&mut self, group: Group) {
        self.through_unsynced = true;
        for (first, pages) in group.parts {
            let slots = self.fill(&pages, false);
            slots.iter().for_each(|&slot| self.slots.pin(slot));
            let lease = self.slots.lend(slots.iter().copied());
            let place = (first * BLOCK as u64, lease.bytes());
            self.send(Kind::Write, place, Some(lease), Flight::Bare { token: group.token, slots });
        }
    }

    /// A part of that has ended; the last of them is answered.
    pub(super) fn bare_ended(&mut self, token: Token, slots: &[u32], done: Done) {
        if let Some(lease) = done.lease {
            self.slots.take_back(lease);
            for &slot in slots {
                self.slots.unpin(slot);
                self.slots.give(slot);
            }
        }
        let same = |flight: &Flight| matches!(flight, Flight::Bare { token: other, .. } if *other == token);
        if !self.flights.values().any(|sent| same(&sent.flight)) {
            self.end(token, Ok(0), None);
        }
    }

    /// A command gives memory back for which nobody waits any more.
    pub(super) fn given_back(&mut self, number: u32, done: Done) {
        let Some(slots) = self.kept.remove(&number) else { unreachable!("what was sent ends once") };
        if let Some(lease) = done.lease {
            self.slots.take_back(lease);
        }
        slots.into_iter().for_each(|slot| self.slots.unpin(slot));
    }
}
