//! Writes, from the client's bytes to the engine's slots.
//!
//! The bytes of a write lie in intake memory, block by block as they will lie in the volume. Which blocks it covers only in part, what
//! parts it goes to the engine in, and which write must wait for which, is the assembler's to say ([`forerun_core::assemble`]); here the
//! edges are read and the rest of them copied in. Each part's memory is named by `Fill`, its end by `Ready`. How much of
//! the cache writes may hold at once is bounded, so they never crowd out the reads.
//!
//! ```text
//!   new --overlaps one that is not handed over--> waits --> ...
//!    |--partial blocks--> reading edges --> queued --room--> handed over --all parts ready--> (sync) --> answered
//!    `--whole blocks------------------------^
//! ```

use super::blank;
use super::slab::Slab;
use super::{Event, Volume};
use crate::backend::Zeroes;
use crate::nbd::wire::{self, Errno, Request};
use crate::planted::{self, Bug};
use crate::raw::BLOCK;
use crate::ticket::{Id, Tag};
use forerun_core::access::{Access, Context};
use forerun_core::assemble::{Assembler, ByteRange, Outline, PART_BLOCKS};
use forerun_core::engine::Input;
use forerun_core::units::{Extent, Nanos};
use std::collections::VecDeque;

/// One in so many blocks of the cache may be held by writes that are not on the members yet.
const FLYING_ONE_IN: u64 = 4;

/// A write as it comes from a client.
#[derive(Debug)]
pub(crate) struct NewWrite {
    /// Comes back in [`Event::Written`].
    pub(crate) tag: Tag,
    /// Who writes.
    pub(crate) context: Context,
    /// First byte.
    pub(crate) offset: u64,
    /// Bytes, at least one.
    pub(crate) bytes: u64,
    /// One intake block for each block that is touched; the bytes stand where they will stand in the blocks.
    pub(crate) intake: Vec<u32>,
    /// On stable storage before it is answered.
    pub(crate) durable: bool,
    /// It brings zeroes, and has no intake.
    pub(crate) zeroes: Option<Zeroes>,
}

impl NewWrite {
    /// What a WRITE asks for whose data is in `intake`.
    pub(crate) fn of(tag: Tag, context: Context, request: &Request, intake: Vec<u32>) -> Self {
        Self {
            tag,
            context,
            offset: request.offset,
            bytes: u64::from(request.length),
            intake,
            durable: request.flags & wire::request::FUA != 0,
            zeroes: None,
        }
    }
}

#[derive(Debug)]
struct Write {
    new: NewWrite,
    outline: Outline,
    /// What is left of the first and the last block, of a write of zeroes.
    kept: [Option<Box<[u8]>>; 2],
    /// When it came, or a part of its zeroes was on the members.
    since: Nanos,
    /// Its client has an error already.
    given_up: bool,
    /// All of it is in the engine's hands.
    handed: bool,
    /// Parts of it that are in the engine's hands and not on the members.
    parts_left: u32,
    error: Option<Errno>,
}

/// A part in the engine's hands.
#[derive(Clone, Copy, Debug)]
struct Part {
    write: usize,
    extent: Extent,
}

/// All writes that are not answered.
#[derive(Debug)]
pub(super) struct Writes {
    writes: Slab<Write>,
    parts: Slab<Part>,
    /// Those that are not wholly in the engine's hands.
    assembler: Assembler,
    /// Ready to be handed over, waiting for room; in order.
    queued: VecDeque<usize>,
    flying_blocks: u64,
    /// Those of them that are zeroes.
    zeroes_flying: u64,
    flying_max: u64,
}

impl Writes {
    pub(super) fn new(cache_blocks: u64) -> Self {
        Self {
            writes: Slab::default(),
            parts: Slab::default(),
            assembler: Assembler::default(),
            queued: VecDeque::new(),
            flying_blocks: 0,
            zeroes_flying: 0,
            flying_max: (cache_blocks / FLYING_ONE_IN).max(1),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.writes.is_empty()
    }

    fn get(&mut self, at: usize) -> &mut Write {
        self.writes.get(at)
    }

    /// The place in the queue and the number of the write of which a part may be handed over next.
    fn next(&mut self) -> Option<(usize, usize)> {
        let full = self.zeroes_flying >= blank::FLYING_MAX;
        let Self { queued, writes, .. } = self;
        queued.iter().copied().enumerate().find(|&(_, at)| !full || writes.get(at).new.zeroes.is_none())
    }

    /// What writes that are not answered touch of an extent.
    pub(super) fn touching(&mut self, extent: Extent) -> Vec<Extent> {
        let parts = self.writes.iter_mut().map(|write| write.outline.extent.intersect(extent));
        parts.filter(|part| !part.is_empty()).collect()
    }

    /// How zeroes that lie in an extent of the volume may reach a member; nothing where nobody writes zeroes there.
    pub(super) fn zeroes_in(&mut self, extent: Extent) -> Option<Zeroes> {
        if self.zeroes_flying == 0 {
            return None;
        }
        let there = self.writes.iter_mut().filter(|write| !write.outline.extent.intersect(extent).is_empty());
        let all = there.filter_map(|write| write.new.zeroes);
        all.reduce(|one, other| if one == other { one } else { Zeroes::Kept })
    }
}

impl Volume {
    /// Somebody replaces bytes. Answered by [`Event::Written`].
    pub(crate) fn write(&mut self, new: NewWrite) {
        let bytes = ByteRange::new(new.offset, new.bytes);
        // What lies behind the end of the volume is nobody's: zeros.
        let is_end = bytes.end() == self.source.size;
        let outline = Outline::new(bytes, is_end);
        let extent = outline.extent;
        let intake = if new.zeroes.is_some() { 0 } else { extent.blocks };
        self.learn_written(extent);
        if let Some(watch) = &mut self.watch {
            watch.writing(self.now, Id::Read(new.tag, 0).number(), new.context.process());
        }
        assert_eq!(new.intake.len() as u64, intake, "one intake block for each block touched");
        // What is written now could no more be made durable than what was lost; and nobody knows when a member will answer.
        if self.syncs.has_failed() || self.touches_lost(extent, |_| true) {
            self.give_intake(new.intake);
            return self.events.push_back(Event::Written { tag: new.tag, error: Some(Errno::Io) });
        }
        if let (true, Some(&block)) = (is_end, new.intake.last()) {
            let inside = (bytes.end() - (extent.end() - 1) * BLOCK as u64) as usize;
            self.arena.block_mut(block)[inside..].fill(0);
        }
        let write = Write {
            new,
            outline,
            kept: [None, None],
            since: self.now,
            given_up: false,
            handed: false,
            parts_left: 0,
            error: None,
        };
        let at = self.writes.writes.put(write);
        if planted::is(Bug::IntakeGivenBackEarly) {
            let intake = self.writes.get(at).new.intake.clone();
            self.give_intake(intake);
        }
        self.writes.assembler.add(at, outline);
        self.begin();
        self.hand_over();
    }

    /// Reads the edges of the writes that may begin.
    fn begin(&mut self) {
        while let Some(at) = self.writes.assembler.begin() {
            let Write { outline, new: NewWrite { context, .. }, .. } = *self.writes.get(at);
            if outline.edges().next().is_none() || planted::is(Bug::EdgesUnread) {
                self.writes.queued.push_back(at);
                continue;
            }
            for (edge, tail) in [(outline.first(), false), (outline.last(), true)] {
                if let Some(edge) = edge {
                    let mut access = Access::read(context, edge.extent());
                    access.demand = Extent::default();
                    self.want(Id::Edge { write: at as u32, tail }, access);
                }
            }
        }
    }

    /// An edge block is here: what the write leaves of it is copied into the intake.
    pub(super) fn edge_ready(&mut self, at: usize, is_tail: bool, handle: u32, error: bool) {
        if error {
            self.writes.get(at).error = Some(Errno::Io);
        } else {
            let slot = self.engine.slots(handle)[0].0;
            let write = self.writes.get(at);
            let edge = if is_tail { write.outline.last() } else { write.outline.first() };
            let own = edge.expect("only edges are read").own;
            let old = self.arena.block(slot).to_vec();
            if write.new.zeroes.is_some() {
                write.kept[usize::from(is_tail)] = Some(blank::kept(&old, own));
            } else {
                let block = if is_tail { write.new.intake.last() } else { write.new.intake.first() };
                let block = *block.expect("a write touches a block");
                let target = self.arena.block_mut(block);
                let short = if planted::is(Bug::TailOneSectorShort) { 512 } else { 0 };
                let end = (own.end + short).min(BLOCK);
                target[..own.start].copy_from_slice(&old[..own.start]);
                target[end..BLOCK].copy_from_slice(&old[end..]);
            }
        }
        self.inputs.push_back(Input::Release { handle });
        if !self.writes.assembler.edge_here(at) {
            return;
        }
        if self.writes.get(at).error.is_some() {
            self.writes.assembler.forget(at);
            self.begin();
            self.finish(at);
        } else {
            self.writes.queued.push_back(at);
        }
        self.hand_over();
    }

    /// Gives queued writes to the engine while they may hold more of the cache.
    fn hand_over(&mut self) {
        while let Some((place, at)) = self.writes.next() {
            let blocks_max = PART_BLOCKS.min(self.writes.flying_max);
            let extent = self.writes.assembler.next(at, blocks_max);
            if self.writes.flying_blocks + extent.blocks > self.writes.flying_max {
                break;
            }
            self.writes.flying_blocks += extent.blocks;
            let last = self.writes.assembler.handed(at, extent);
            let write = self.writes.get(at);
            let (zeroes, context) = (write.new.zeroes.is_some(), write.new.context);
            write.handed = last;
            write.parts_left += 1;
            if last || zeroes {
                self.writes.queued.remove(place);
            }
            if zeroes {
                self.writes.zeroes_flying += extent.blocks;
            }
            if zeroes && !last {
                // Others come in between: a request may be of gigabytes.
                self.writes.queued.push_back(at);
            }
            let part = self.writes.parts.put(Part { write: at, extent });
            // In this order: what is unblocked below goes to the engine behind this part.
            self.inputs.push_back(Input::Write {
                id: Id::Part(part as u32).number(),
                access: Access::write(context, extent),
                durable: false,
            });
            if last {
                self.begin();
                self.answer_early(at);
            }
        }
        self.run();
    }

    /// The planted bug: it is answered, and not again.
    fn answer_early(&mut self, at: usize) {
        let write = self.writes.get(at);
        if planted::is(Bug::WriteAnsweredEarly) && !write.new.durable && !write.given_up {
            write.given_up = true;
            self.events.push_back(Event::Written { tag: write.new.tag, error: None });
        }
    }

    /// The engine names the memory of a part: the bytes are copied there.
    pub(super) fn fill(&mut self, part: usize, handle: u32) {
        let part = *self.writes.parts.get(part);
        let write = self.writes.writes.get(part.write);
        let alike = planted::is(Bug::PartsAlike);
        let first = if alike { 0 } else { (part.extent.start.0 - write.outline.extent.start.0) as usize };
        if write.new.zeroes.is_some() {
            let last = (write.outline.extent.blocks - 1) as usize;
            for (index, slot) in self.engine.slots(handle).iter().enumerate() {
                let kept = blank::kept_of(&write.kept, first + index, last);
                blank::fill(self.arena.block_mut(slot.0), kept);
            }
            return;
        }
        for (index, slot) in self.engine.slots(handle).iter().enumerate() {
            self.arena.copy(write.new.intake[first + index], slot.0);
        }
    }

    /// A member has refused blocks of the volume for a reason that clients can be told: writes that have them say it.
    pub(super) fn refused_write(&mut self, extent: Extent, error: Errno) {
        for write in self.writes.writes.iter_mut() {
            if !write.outline.extent.intersect(extent).is_empty() && !planted::is(Bug::FailedWriteIsGood) {
                write.error = Some(error);
            }
        }
    }

    /// Clients that have waited too long have an error; the writes go on, since they cannot be taken back.
    pub(super) fn give_up_writes(&mut self, late: impl Fn(Nanos) -> bool) {
        for write in self.writes.writes.iter_mut() {
            if !write.given_up && late(write.since) {
                write.given_up = true;
                self.events.push_back(Event::Written { tag: write.new.tag, error: Some(Errno::Io) });
            }
        }
    }

    /// A part is on the members.
    pub(super) fn part_ready(&mut self, part: usize, handle: u32, error: bool) {
        self.inputs.push_back(Input::Release { handle });
        let Part { write: at, extent } = self.writes.parts.take(part);
        self.writes.flying_blocks -= extent.blocks;
        let now = self.now;
        let write = self.writes.get(at);
        let mut zeroes = 0;
        if write.new.zeroes.is_some() {
            (zeroes, write.since) = (extent.blocks, now);
        }
        write.parts_left -= 1;
        let error = error && !planted::is(Bug::FailedWriteIsGood);
        write.error = write.error.or(error.then_some(Errno::Io));
        let whole = write.parts_left == 0 && write.handed;
        self.writes.zeroes_flying -= zeroes;
        if whole {
            self.finish(at);
        }
        self.hand_over();
    }

    fn finish(&mut self, at: usize) {
        let write = self.writes.writes.take(at);
        if !planted::is(Bug::IntakeGivenBackEarly) {
            self.give_intake(write.new.intake);
        }
        if write.given_up && !planted::is(Bug::GivenUpTwice) {
            return;
        }
        if write.new.durable && !planted::is(Bug::FuaIsIgnored) && write.error.is_none() {
            self.sync_for_write(write.new.tag);
        } else {
            self.events.push_back(Event::Written { tag: write.new.tag, error: write.error });
        }
    }
}
