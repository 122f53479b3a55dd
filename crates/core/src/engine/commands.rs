//! Commands to members, from when they are made until they have ended, and the dispatch that says which leaves when.
//!
//! The dispatch is the layer's own, unless the scheme comes with one that shares its state.

use super::memory::Memory;
use super::messages::Start;
use super::slab::Slab;
use crate::access::{Context, Op};
use crate::dispatch::{Class, DemandFirst, Dispatch, Queued};
use crate::units::{Disk, Extent, Nanos};
use alloc::boxed::Box;

/// Whose command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Data of a fetch, from its first block on.
    Fetch(u32),
    /// Data of a fetch that is only input of a combine step.
    Staged(u32),
    /// Reads or writes of a destage job.
    Destage(u32),
}

/// One command to one member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) owner: Owner,
    pub(super) disk: Disk,
    pub(super) extent: Extent,
    /// The part of it that some program asked for, for a layer below that keeps them apart.
    pub(super) demand: Extent,
    /// The blocks of the volume that it reads for somebody; empty for a write and for input of parity.
    pub(super) volume: Extent,
    pub(super) op: Op,
    pub(super) class: Class,
    pub(super) context: Context,
    pub(super) read_ahead: bool,
}

#[derive(Debug)]
struct Entry {
    command: Command,
    left: bool,
    /// It left by a dispatch that decides no more.
    of_another_dispatch: bool,
}

impl Default for Entry {
    fn default() -> Self {
        let command = Command {
            owner: Owner::Staged(0),
            disk: Disk(0),
            extent: Extent::default(),
            demand: Extent::default(),
            volume: Extent::default(),
            op: Op::Read,
            class: Class::Demand,
            context: Context(0),
            read_ahead: false,
        };
        Self { command, left: false, of_another_dispatch: false }
    }
}

/// All commands that have not ended.
pub(super) struct Commands {
    table: Slab<Entry>,
    dispatch: Box<dyn Dispatch>,
    /// The scheme sends commands in an order of its own.
    scheme_dispatches: bool,
}

impl Commands {
    pub(super) fn new(dispatch: Box<dyn Dispatch>, scheme_dispatches: bool) -> Self {
        Self { table: Slab::default(), dispatch, scheme_dispatches }
    }
    pub(super) fn next_wake(&self) -> Option<Nanos> {
        self.dispatch.next_wake()
    }
    pub(super) fn command(&self, number: u32) -> &Command {
        &self.table[number].command
    }

    /// Who decides what leaves when: the scheme if it wants to, otherwise the layer's own dispatch.
    #[inline]
    fn dispatch<'a>(&'a mut self, memory: &'a mut Memory) -> &'a mut dyn Dispatch {
        if self.scheme_dispatches {
            return memory.scheme_mut().dispatch().expect("a scheme that dispatches does so always");
        }
        &mut *self.dispatch
    }

    /// Hands a command to the dispatch.
    pub(super) fn enqueue(&mut self, now: Nanos, command: Command, memory: &mut Memory) -> u32 {
        let number = self.table.take();
        self.table[number] = Entry { command, left: false, of_another_dispatch: false };
        self.dispatch(memory).enqueue(now, command.queued(number));
        number
    }
    /// The next command that the dispatch lets go.
    #[inline]
    pub(super) fn pick(&mut self, now: Nanos, memory: &mut Memory) -> Option<u32> {
        self.dispatch(memory).pick(now)
    }
    /// A command leaves.
    pub(super) fn start(&mut self, number: u32) -> Start {
        self.table[number].left = true;
        let Command { disk, extent, demand, op, class, context, read_ahead, .. } = self.table[number].command;
        Start { command: number, disk, extent, demand, op, class, context, read_ahead }
    }
    /// A reader has caught up with a command of a fetch. Returns whether it has left already, so that only the host can
    /// hurry it.
    pub(super) fn promote(&mut self, number: u32, fetch: u32, memory: &mut Memory) -> bool {
        let Entry { command, left, .. } = &mut self.table[number];
        if !matches!(command.owner, Owner::Fetch(f) | Owner::Staged(f) if f == fetch) {
            return false; // one of several has ended, and its number serves somebody else
        }
        command.class = Class::Demand;
        command.read_ahead = false;
        let disk = command.disk;
        if !*left {
            self.dispatch(memory).promote(number, disk);
            return false;
        }
        true
    }
    /// A command has ended; its number is its own until it is given back.
    pub(super) fn end(&mut self, now: Nanos, number: u32, memory: &mut Memory) -> (Owner, Disk, u64) {
        let Entry { command, left, of_another_dispatch } = &mut self.table[number];
        assert!(*left, "only a command that left can end");
        *left = false;
        let (owner, disk, blocks) = (command.owner, command.disk, command.extent.blocks);
        if !*of_another_dispatch {
            self.dispatch(memory).complete(now, disk, number);
        }
        (owner, disk, blocks)
    }
    pub(super) fn give_back(&mut self, number: u32) {
        self.table.give_back(number);
    }

    /// Another scheme decides, which dispatches or does not. Where the old one or the new one does, the layer gets a dispatch of its
    /// own anew, for nobody can take over the queues of another: what has not left is queued again, and of what has left the one that
    /// decides now is told nothing.
    pub(super) fn relay(&mut self, now: Nanos, scheme_dispatches: bool, disks: usize, memory: &mut Memory) {
        if !(core::mem::replace(&mut self.scheme_dispatches, scheme_dispatches) || scheme_dispatches) {
            return;
        }
        self.dispatch = Box::new(DemandFirst::new(disks));
        for number in self.table.alive() {
            let Entry { command, left, of_another_dispatch } = &mut self.table[number];
            if *left {
                *of_another_dispatch = true;
            } else {
                let queued = command.queued(number);
                self.dispatch(memory).enqueue(now, queued);
            }
        }
    }
}

impl Command {
    /// It as a dispatch knows it.
    const fn queued(&self, number: u32) -> Queued {
        let Self { disk, class, context, volume, .. } = *self;
        Queued { command: number, disk, class, context, blocks: self.extent.blocks, volume }
    }
}
