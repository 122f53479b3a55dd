//! One engine with the bytes behind it: the second host of design.md, without its sockets.
//!
//! Requests come in as blocks and tags, answers go out as events. Between them stands the whole of a host: inputs are
//! handled one by one, after each the outputs are executed in order until none is left, completions of the backend
//! become inputs, and the loop that owns the volume sleeps until [`Volume::next_wake`]. Nothing here waits.
//!
//! ```text
//!   read ----> Input::Read -----> Ready --------------------> Event::Read (slots pinned) --> release
//!   write --edges read--> Input::Write --Fill: copied in--> Ready --FUA: sync--> Event::Written
//!   flush ---> Input::Flush ----> Ready --sync of members--> Event::Flushed
//!   hint ----> Input::Read -----> Ready, released
//!   status --> members are asked, not the engine -----------> Event::Mapped
//! ```
//!
//! A member command that fails is read once more, block by block, before a client hears of it: an error in a block that only a
//! prefetch wanted must not reach whoever asked for its neighbour (`bad`). A write that a
//! member refuses is an error to its client and to the next flush; a sync that fails with something to lose is for ever,
//! because the kernel may have dropped what it could not write.

mod ahead;
mod bad;
mod behind;
mod blank;
mod change;
mod health;
#[cfg(test)]
mod held;
mod learn;
pub(crate) mod map;
mod patience;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod scenarios;
mod slab;
mod sync;
mod watched;
mod write;
mod zeroes;

pub(crate) use write::NewWrite;

use crate::backend::{Backend, Done, Kind, Lateness, Task, Token, is_away, lend_for};
use crate::behind::Behind;
use crate::live::Watch;
use crate::log::Log;
use crate::mapper::Mapper;
use crate::nbd::session::Blocks;
use crate::nbd::wire::{Errno, Run};
use crate::planted::{self, Bug};
use crate::raw::Arena;
use crate::source::Source;
use crate::spec::EngineSpec;
use crate::ticket::{Id, Tag};
use ahead::Ahead;
use bad::BadBlocks;
use forerun_core::access::{Access, Context, Op};
use forerun_core::array::Role;
use forerun_core::engine::{Buffer, Engine, Input, Output, Start, Status};
use forerun_core::units::{BLOCK_BYTES, Block, Disk, Extent, Nanos};
use learn::Learn;
use map::Maps;
use patience::Patience;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use sync::Syncs;
use write::Writes;

/// Memory for data of writes on their way in that only short ones may take, of each client's share, blocks: 4 MiB, which is 64
/// KiB for each of 64 clients, and of the most that there can be a write of 4 KiB however it lies.
pub(crate) const SHARES_BLOCKS: u32 = 1024;
/// Memory for data of writes on their way in, blocks: 32 MiB, one request of the largest size, one block because it may begin
/// within one, and the shares.
pub(crate) const INTAKE_BLOCKS: u32 = 8193 + SHARES_BLOCKS;
/// Messages about members that are kept until somebody asks; more are counted only.
const NOTES_MAX: usize = 64;

/// What a volume answers.
#[derive(Debug)]
pub(crate) enum Event {
    /// A read: its blocks stay where they are until [`Volume::release`].
    Read { tag: Tag, result: Result<Answer, Errno> },
    /// A write, and why it failed if it did.
    Written { tag: Tag, error: Option<Errno> },
    /// A flush, likewise.
    Flushed { tag: Tag, error: Option<Errno> },
    /// Where holes are: runs from the first byte on that was asked about, at least one.
    Mapped { tag: Tag, result: Result<Vec<Run>, Errno> },
}

impl Event {
    /// Who is answered.
    pub(crate) const fn tag(&self) -> Tag {
        let (Self::Read { tag, .. }
        | Self::Written { tag, .. }
        | Self::Flushed { tag, .. }
        | Self::Mapped { tag, .. }) = self;
        *tag
    }
}

/// Blocks that are held for a reader.
#[derive(Debug)]
pub(crate) struct Answer {
    handle: u32,
}

/// What is known of a member command in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Flying {
    /// First block of the disk.
    first: Block,
    blocks: u64,
    inside: u64,
    disk: Disk,
    /// Number of the file.
    member: usize,
    write: bool,
    /// When it left.
    since: Nanos,
    /// It has not ended.
    alive: bool,
}

/// Sums of what the host itself saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) member_reads: u64,
    pub(crate) member_writes: u64,
    pub(crate) member_errors: u64,
    pub(crate) rescued: u64,
    pub(crate) syncs: u64,
}

/// Engine, bytes, members.
pub(crate) struct Volume {
    pub(crate) spec: EngineSpec,
    engine: Engine,
    pub(crate) arena: Arena,
    backend: Box<dyn Backend>,
    pub(crate) source: Source,
    now: Nanos,
    inputs: VecDeque<Input<'static>>,
    /// Inputs are being handled.
    running: bool,
    events: VecDeque<Event>,
    flying: Vec<Flying>,
    /// Tasks in the backend's hands.
    in_flight: usize,
    /// Blocks of hints that are not answered.
    hinted: u64,
    buffers: Vec<Buffer>,
    done: Vec<Done>,
    bad: BadBlocks,
    patience: Patience,
    intake: Vec<u32>,
    /// Fewest free blocks of the intake since memory was last given back: those below were touched.
    intake_low: usize,
    writes: Writes,
    syncs: Syncs,
    maps: Maps,
    mapper: Mapper,
    /// Learns what clients read.
    learn: Option<Box<Learn>>,
    /// Reads ahead what it was told that they read.
    ahead: Option<Box<Ahead>>,
    log: Option<Log>,
    notes: Vec<String>,
    /// Messages beyond [`NOTES_MAX`].
    notes_left_out: u64,
    /// What is to be a new member of an array, while somebody looks at it.
    looking: Option<behind::Looking>,
    /// Why the last one was refused.
    refused: Option<String>,
    /// Why what members hold is not what it was: nothing is answered any more.
    spoiled: Option<String>,
    /// And that has not been said yet.
    last_words: Option<String>,
    pub(crate) counts: Counts,
    /// Sees what passes, for the live page.
    watch: Option<Box<Watch>>,
}

impl Blocks<Answer> for Volume {
    fn run(&self, answer: &Answer, index: usize, end: usize) -> &[u8] {
        let from = self.block_at(answer, index);
        let mut blocks = 1;
        while index + (blocks as usize) < end
            && self.block_at(answer, index + blocks as usize) == from + blocks
        {
            blocks += 1;
        }
        self.arena.run(from, blocks)
    }
}

fn arena_index(buffer: Buffer, cache_blocks: u32) -> Option<u32> {
    match buffer {
        Buffer::Cache(slot) => Some(slot.0),
        Buffer::Staging(slot) => Some(cache_blocks + slot.0),
        Buffer::Discard => None,
    }
}

/// Why a member refuses a write, where the protocol has a word for it that says more than EIO.
fn refusal(problem: &io::Error) -> Option<Errno> {
    matches!(problem.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)).then_some(Errno::NoSpace)
}

impl Volume {
    /// The volume of a spec. `backend` makes the backend for the arena.
    pub(crate) fn new(
        spec: EngineSpec,
        source: Source,
        backend: impl FnOnce(&Arena) -> io::Result<Box<dyn Backend>>,
    ) -> io::Result<Self> {
        let engine = spec.build(source.array).map_err(io::Error::other)?;
        let members = source.members.len();
        let cache = spec.cache_blocks as u32;
        let staging = engine.config().staging_blocks as u32;
        let first_intake = cache + staging;
        let arena = Arena::new(first_intake as usize, INTAKE_BLOCKS as usize)?;
        let backend = backend(&arena)?;
        Ok(Self {
            writes: Writes::new(spec.cache_blocks),
            spec,
            engine,
            arena,
            backend,
            source,
            now: Nanos::ZERO,
            inputs: VecDeque::new(),
            running: false,
            events: VecDeque::new(),
            flying: Vec::new(),
            in_flight: 0,
            hinted: 0,
            buffers: Vec::new(),
            done: Vec::new(),
            bad: BadBlocks::default(),
            patience: Patience::new(members),
            intake: (first_intake..first_intake + INTAKE_BLOCKS).rev().collect(),
            intake_low: INTAKE_BLOCKS as usize,
            syncs: Syncs::default(),
            maps: Maps::default(),
            mapper: Mapper::new()?,
            learn: None,
            ahead: None,
            log: None,
            notes: Vec::new(),
            notes_left_out: 0,
            looking: None,
            refused: None,
            spoiled: None,
            last_words: None,
            counts: Counts::default(),
            watch: None,
        })
    }

    /// From now on every input and output is written to a log. Nothing has been asked yet.
    pub(crate) fn keep_log(&mut self, log: Log) {
        debug_assert!(self.is_idle() && self.now == Nanos::ZERO, "a log begins where the engine begins");
        self.log = Some(log);
    }

    /// The time at which everything until the next call happens. It never runs backwards.
    pub(crate) fn at(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        if self.engine.next_wake().is_some_and(|at| at <= self.now) {
            self.feed(Input::Wake);
        }
    }

    /// The time as the volume was told it.
    pub(crate) const fn now(&self) -> Nanos {
        self.now
    }

    /// When the volume wants to be looked at again.
    pub(crate) fn next_wake(&self) -> Option<Nanos> {
        [self.engine.next_wake(), self.backend.next_wake()].into_iter().flatten().min()
    }

    /// Somebody wants blocks. Answered by [`Event::Read`] with the tag.
    pub(crate) fn read(&mut self, tag: Tag, context: Context, extent: Extent) {
        self.learn_wanted(extent);
        self.ahead_read(extent);
        if self.needs_lost(extent) {
            return self.events.push_back(Event::Read { tag, result: Err(Errno::Io) });
        }
        let Some(watch) = &mut self.watch else {
            return self.ask(Id::Read(tag, self.patience.times()), Access::read(context, extent));
        };
        watch.asking(Id::Read(tag, 0).number(), extent);
        self.read_watched(tag, context, extent);
    }

    /// Somebody will want blocks: they are read with nobody waiting.
    pub(crate) fn hint(&mut self, context: Context, extent: Extent) {
        let mut access = Access::read(context, extent);
        access.demand = Extent::default();
        self.hinted += extent.blocks;
        self.feed(Input::Read { id: Id::Hint.number(), access });
    }

    /// Everything acknowledged is to be on stable storage. Answered by [`Event::Flushed`].
    pub(crate) fn flush(&mut self, tag: Tag) {
        if self.patience.has_lost() {
            return self.events.push_back(Event::Flushed { tag, error: Some(Errno::Io) });
        }
        let id = Id::Flush(tag, self.patience.times()).number();
        self.ask_flush(id, Input::Flush { id });
    }

    /// The blocks of an answer have been copied.
    pub(crate) fn release(&mut self, answer: Answer) {
        self.feed(Input::Release { handle: answer.handle });
    }

    /// Where in the arena the block `index` of an answer is.
    fn block_at(&self, answer: &Answer, index: usize) -> u32 {
        let slot = self.engine.slots(answer.handle)[index];
        assert!(slot.is_some(), "an answer without error has all its blocks");
        slot.0
    }

    /// Memory for data that arrives; `None` when it is all in use.
    pub(crate) fn take_intake(&mut self, blocks: usize) -> Option<Vec<u32>> {
        let from = self.intake.len().checked_sub(blocks)?;
        self.intake_low = self.intake_low.min(from);
        Some(self.intake.split_off(from))
    }

    /// Blocks of the intake that are in use.
    pub(crate) fn intake_taken(&self) -> usize {
        INTAKE_BLOCKS as usize - self.intake.len()
    }

    /// Blocks of the intake that hold memory, in use or not.
    pub(crate) fn intake_touched(&self) -> usize {
        INTAKE_BLOCKS as usize - self.intake_low
    }

    /// Gives the memory of intake blocks that are free back to the system.
    pub(crate) fn trim_intake(&mut self) {
        self.intake.sort_unstable_by(|a, b| b.cmp(a));
        for run in self.intake.chunk_by(|a, b| *a == *b + 1) {
            self.arena.discard(run[run.len() - 1], run.len() as u32);
        }
        self.intake_low = self.intake.len();
    }

    /// It was not needed after all.
    pub(crate) fn give_intake(&mut self, blocks: Vec<u32>) {
        self.intake.extend(blocks);
    }

    /// The next answer.
    pub(crate) fn event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let (Some(watch), Event::Written { tag, .. }) = (&mut self.watch, &event) {
            watch.written(self.now, Id::Read(*tag, 0).number());
        }
        if self.spoiled.is_none() {
            return Some(event);
        }
        Some(match event {
            Event::Read { tag, result } => {
                let none = result.map(|answer| self.release(answer)).and(Err(Errno::Io));
                Event::Read { tag, result: none }
            }
            Event::Written { tag, .. } => Event::Written { tag, error: Some(Errno::Io) },
            Event::Flushed { tag, .. } => Event::Flushed { tag, error: Some(Errno::Io) },
            Event::Mapped { tag, .. } => Event::Mapped { tag, result: Err(Errno::Io) },
        })
    }

    /// A file of [`Volume::poll_fds`] said that something has ended.
    pub(crate) fn woken(&mut self) {
        self.mapper.woken();
        self.backend.woken();
    }

    /// Sends what was started.
    pub(crate) fn launch(&mut self) {
        self.backend.launch();
    }

    /// Sends what was started, and takes what has ended.
    pub(crate) fn turn(&mut self) {
        self.backend.launch();
        self.take_maps();
        self.go_ahead();
        if self.in_flight == 0 && !self.backend.behind().is_some_and(Behind::wants_turns) {
            return;
        }
        let mut done = std::mem::take(&mut self.done);
        self.backend.reap(self.now, &mut done);
        if !done.is_empty() {
            // Before anything is answered of what members have done meanwhile.
            self.is_void();
        }
        for end in done.drain(..) {
            self.in_flight -= 1;
            self.ended(end);
        }
        self.done = done;
        self.go_ahead();
        self.backend.launch();
    }

    /// What the engine has put off, while nobody waits for anything else.
    pub(crate) fn catch_up(&mut self) {
        self.engine.catch_up();
    }

    /// Whether members have something in hand.
    pub(crate) const fn waits_for_members(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether [`Volume::turn`] would find that something has ended, as far as that can be seen without a call of the kernel.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.in_flight > 0 && self.backend.has_ended()
    }

    /// What the loop polls for completions.
    pub(crate) fn poll_fds(&self) -> [std::os::fd::BorrowedFd<'_>; 2] {
        [self.backend.poll_fd(), self.mapper.poll_fd()]
    }

    /// The engine, for reports.
    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Names and numbers that the scheme shows.
    pub(crate) fn gauges(&mut self, out: &mut Vec<(&'static str, f64)>) {
        self.engine.gauges(out);
    }

    /// Whether nothing is in flight: no request, no member command, no sync.
    pub(crate) fn is_idle(&self) -> bool {
        self.engine.is_idle()
            && self.bad.is_idle()
            && self.syncs.is_idle()
            && self.writes.is_idle()
            && self.maps.is_idle()
            && self.inputs.is_empty()
    }

    /// Whether the members are what they were; why not, otherwise.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.bad.age(self.now);
        self.see_behind();
        self.forgo();
        if self.spoiled.is_none() {
            let seen = self.source.check(self.now).and_then(|()| self.backend.changed().map_or(Ok(()), Err));
            seen.unwrap_or_else(|why| self.spoil(why));
        }
        self.spoiled.clone().map_or(Ok(()), Err)
    }

    /// Members of which something was seen since the last look owe nothing for it.
    pub(crate) fn take_looks(&mut self) {
        if self.spoiled.is_none() {
            self.source.take_looks().unwrap_or_else(|why| self.spoil(why));
        }
    }

    /// The engine under another scheme, if there is one of that name that fits.
    pub(crate) fn spec_of(&self, scheme: &str) -> Result<EngineSpec, String> {
        let bytes = self.spec.cache_blocks * BLOCK_BYTES;
        let spec = EngineSpec::new(scheme, bytes, &self.spec.device).map_err(|why| why.to_string())?;
        spec.check(&self.source.array).map_err(|why| why.to_string())?;
        Ok(spec)
    }

    /// Whether members are not what they were, as far as is known at once: what they hold is of no use, and to ask for each block of it by itself none either.
    fn is_void(&mut self) -> bool {
        if self.spoiled.is_none()
            && let Some(why) = self.source.is_spoiled().or_else(|| self.backend.changed())
        {
            self.spoil(why);
        }
        self.spoiled.is_some()
    }

    /// Members are not what they were: from now on nothing is answered but errors.
    fn spoil(&mut self, why: String) {
        self.last_words = Some(format!("{why}: nothing is answered any more; start the server anew"));
        // Nobody takes up what the thread that looks sees from now on: that is no member that does not answer.
        self.source.members.iter_mut().for_each(|member| member.looked_at = None);
        self.spoiled = Some(why);
    }

    /// Why nothing was answered any more, if that is so.
    pub(crate) fn why_void(&self) -> Option<String> {
        self.spoiled.clone()
    }

    /// That nothing is answered any more, once: however much else there is to say.
    pub(crate) const fn take_last_words(&mut self) -> Option<String> {
        self.last_words.take()
    }

    /// Messages about members since the last call, and how many more there were.
    pub(crate) fn take_notes(&mut self) -> (Vec<String>, u64) {
        if let Some(behind) = self.backend.behind_mut() {
            self.notes.extend(behind.take_said());
        }
        (std::mem::take(&mut self.notes), std::mem::take(&mut self.notes_left_out))
    }

    /// Blocks of hints that are being read.
    pub(crate) const fn hints_in_flight(&self) -> u64 {
        self.hinted
    }

    /// Something that a person should know.
    pub(crate) fn say(&mut self, text: String) {
        self.notes.push(text);
    }

    /// A member has failed. What many commands have to say of one cause is said once.
    fn note(&mut self, text: impl FnOnce() -> String) {
        self.counts.member_errors += 1;
        let text = text();
        if self.notes.contains(&text) {
            return;
        }
        if self.notes.len() < NOTES_MAX {
            self.notes.push(text);
        } else {
            self.notes_left_out += 1;
        }
    }

    /// A second has passed: the log goes to its file.
    pub(crate) fn tick_log(&mut self) {
        if let Some(said) = self.log.as_mut().and_then(Log::tick) {
            self.say(said);
        }
    }

    /// Ends the log.
    pub(crate) fn finish_log(&mut self) -> Result<(), (PathBuf, io::Error)> {
        self.log.as_mut().map_or(Ok(()), Log::finish)
    }

    /// How late emulated members were.
    pub(crate) fn lateness(&self) -> Option<Lateness> {
        self.backend.lateness()
    }

    /// One input, behind those that wait, and everything that follows at once.
    fn feed(&mut self, input: Input<'static>) {
        self.inputs.push_back(input);
        self.run();
    }

    /// Handles the inputs that wait, and those that come of them. Called from within, it leaves them to the caller above.
    fn run(&mut self) {
        if std::mem::replace(&mut self.running, true) {
            return;
        }
        while let Some(input) = self.inputs.pop_front() {
            self.take(input);
        }
        self.running = false;
    }

    /// Handles one input and executes what comes of it.
    fn take(&mut self, input: Input<'_>) {
        if let Some(log) = &mut self.log {
            log.input(self.now, &input);
        }
        self.engine.handle(self.now, input);
        self.drain();
    }

    /// Executes what the engine says, in its order.
    fn drain(&mut self) {
        while let Some(output) = self.engine.poll() {
            if let Some(log) = &mut self.log {
                log.output(&output);
            }
            self.execute(output);
        }
    }

    fn execute(&mut self, output: Output) {
        match output {
            Output::Start(start) => self.start(&start),
            // A command that has left is in the kernel's hands, where nothing overtakes.
            Output::Promote { .. } => {}
            Output::Fill { id, handle } => match Id::of(id) {
                Id::Part(part) => self.fill(part as usize, handle),
                id => unreachable!("{id:?} brings no bytes"),
            },
            Output::Combine { job } => unreachable!("job {job}: no geometry that is served keeps parity"),
            Output::Sync { sync } => unreachable!("sync {sync}: members are synced below the engine"),
            Output::Ready { id, handle, error } => self.ready(id, handle, error),
        }
    }

    /// A member command leaves.
    fn start(&mut self, start: &Start) {
        let write = start.op == Op::Write;
        let place = self.source.place(start.disk, start.extent);
        let number = start.command as usize;
        if self.flying.len() <= number {
            self.flying.resize(number + 1, Flying::default());
        }
        self.flying[number] = Flying {
            first: start.extent.start,
            blocks: start.extent.blocks,
            inside: place.inside,
            disk: start.disk,
            member: place.member,
            write,
            since: self.now,
            alive: place.inside > 0,
        };
        self.engine.buffers(start.command, &mut self.buffers);
        let zeroes = if write { self.zeroes_of(start) } else { None };
        let cache = self.spec.cache_blocks as u32;
        let kind = if write { Kind::Write } else { Kind::Read };
        let blocks = self.buffers.iter().map(|&buffer| arena_index(buffer, cache));
        let mut lease = self.arena.lend(blocks, lend_for(kind));
        if place.inside == 0 {
            // Behind the end of the file: nothing to read, nothing to write.
            if !write {
                lease.clear_from(0);
            }
            self.arena.take_back(lease);
            self.inputs.push_back(Input::Done { command: start.command, status: Status::Ok });
            return;
        }
        if let Some(watch) = &mut self.watch {
            watch.started(self.now, start, write, &self.source.array);
        }
        if !write && self.goes_round(start.disk, start.extent) {
            self.arena.take_back(lease);
            return self.read_round(start.command);
        }
        let member = &mut self.source.members[place.member];
        let (file, len) = if write {
            member.writing += 1;
            self.counts.member_writes += 1;
            (member.for_write(place.inside), place.inside)
        } else {
            self.counts.member_reads += 1;
            member.for_read(place.inside)
        };
        self.in_flight += 1;
        self.backend.submit(
            self.now,
            Task {
                token: Token::Command(start.command),
                kind,
                member: place.member as u16,
                ahead: start.read_ahead,
                context: start.context,
                file,
                offset: place.offset,
                len,
                lease: Some(lease),
                zeroes,
            },
        );
    }

    /// The blocks of the volume that lie on blocks of a disk, within one strip.
    fn volume_extent(&self, disk: Disk, first: Block, blocks: u64) -> Extent {
        let Role::Data(start) = self.source.array.logical(disk, first) else {
            unreachable!("what is served holds nothing but data")
        };
        Extent { start, blocks }
    }

    /// The backend has ended something.
    fn ended(&mut self, done: Done) {
        match done.token {
            Token::Command(number) => self.command_ended(number, done),
            Token::Sync(member) => self.synced(usize::from(member), done),
            Token::Piece { command, first, blocks } => {
                self.piece_ended(command, Extent::new(u64::from(first), u64::from(blocks)), done);
            }
            Token::Probe { probe, index } => self.probed(probe as usize, index as usize, done),
        }
    }

    fn command_ended(&mut self, number: u32, done: Done) {
        let Flying { first, blocks, inside, disk, member, write, .. } = self.flying[number as usize];
        let mut lease = done.lease.expect("a member command has a lease");
        let short_is_whole = write && planted::is(Bug::ShortWriteIsWhole);
        let whole = matches!(done.result, Ok(moved) if moved >= inside || short_is_whole);
        if whole && !write {
            lease.clear_from(inside);
        }
        self.arena.take_back(lease);
        if write {
            self.source.members[member].wrote();
        }
        match done.result {
            Ok(_) if whole && write => {
                self.source.members[member].unsynced.wrote();
                self.bad.healed(disk, Extent { start: first, blocks });
            }
            Ok(_) if whole => {}
            _ if !write && self.is_void() => {}
            // Each block alone would be waited for once more.
            Err(problem) if !write && is_away(&problem) => self.say_away(disk, &problem),
            _ if !write && blocks > 1 && !planted::is(Bug::PrefetchFailsNeighbours) => {
                return self.read_blockwise(number);
            }
            Err(problem) if !write => self.cannot_read(disk, first, &problem),
            Err(problem) => {
                let mut remedy = "";
                if let Some(error) = refusal(&problem) {
                    self.refused_write(self.volume_extent(disk, first, blocks), error);
                    remedy = "; clients are told so, and write again once there is room where it lies";
                }
                let who = self.source.who(disk.0);
                self.note(|| format!("{who}: write: {problem}{remedy}"));
            }
            Ok(moved) => {
                let who = self.source.who(disk.0);
                self.note(|| format!("{who}: only {moved} of {inside} bytes moved"));
            }
        }
        self.command_over(number, if whole { blocks } else { 0 });
        if write && !whole {
            // The engine takes a member out that failed a write. Here the member is the volume, and a full file system is no
            // reason to refuse reads: the client has its error, and so has the next flush.
            self.feed(Input::Member { disk, failed: false });
        }
    }

    /// A member command is over, of which so many blocks moved: none, or those that are no holes.
    fn command_over(&mut self, command: u32, moved: u64) {
        let flying = &mut self.flying[command as usize];
        flying.alive = false;
        let Flying { inside, disk, member, write, since, .. } = *flying;
        self.patience.ended(member, self.now, since);
        if let Some(watch) = &mut self.watch {
            watch.ended(self.now, usize::from(disk.0), since, inside.min(moved * BLOCK_BYTES), write);
        }
        let status = if moved > 0 { Status::Ok } else { Status::Short { good: 0 } };
        self.feed(Input::Done { command, status });
    }

    fn ready(&mut self, id: u64, handle: u32, error: bool) {
        match Id::of(id) {
            Id::Read(tag, _) => {
                if !self.patience.answered(id) {
                    return self.inputs.push_back(Input::Release { handle });
                }
                self.answered(tag);
                let result = if error { Err(Errno::Io) } else { Ok(Answer { handle }) };
                if let Ok(answer) = &result {
                    self.learn_answered(answer);
                }
                if error {
                    self.inputs.push_back(Input::Release { handle });
                }
                self.events.push_back(Event::Read { tag, result });
            }
            Id::Part(part) => self.part_ready(part as usize, handle, error),
            Id::Edge { write, tail } => self.edge_ready(write as usize, tail, handle, error),
            Id::Hint => {
                self.hinted -= self.engine.extent(handle).blocks;
                self.inputs.push_back(Input::Release { handle });
            }
            Id::Flush(tag, _) => {
                self.inputs.push_back(Input::Release { handle });
                if self.patience.answered(id) {
                    self.sync_for_flush(tag, error);
                }
            }
        }
    }
}
