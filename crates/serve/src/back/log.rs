//! What is written to the journal: records, syncs and superblocks, one after the other.
//!
//! One command at a time: so records are whole in their order, and what comes meanwhile shares the next one.

use super::format::{BLOCK, Header, SUPERS, Span};
use super::{Flight, WriteBack};
use crate::backend::{Backend, Done, Kind, Task, Token};
use crate::planted::{self, Bug};
use crate::raw::Lease;
use forerun_core::access::Context;
use forerun_core::units::Nanos;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Blocks of memory with a use of their own: a record's header, and a superblock.
pub(super) const FIXED: usize = 2;
const HEADER: u32 = 0;
const SUPER: u32 = 1;

/// A write that is in a record.
pub(super) struct Taken {
    /// Who is answered; none if that was done too early (a planted bug).
    pub(super) token: Option<Token>,
    pub(super) first: u64,
    pub(super) len: u64,
    pub(super) slots: Vec<u32>,
    /// Goes back with the answer.
    pub(super) lease: Option<Lease>,
}

impl Taken {
    fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }
}

/// What the journal is doing.
#[derive(Default)]
pub(super) enum Busy {
    #[default]
    Nothing,
    /// Writes a record.
    Record(u64, Vec<Taken>),
    /// Syncs for those, up to a record; so many parts have not ended, and some have failed.
    Flush {
        tokens: Vec<Token>,
        upto: u64,
        left: u32,
        failed: bool,
    },
    /// Syncs for the checkpoint, up to a record.
    Check(u64),
    /// Writes a superblock, and syncs it.
    Super,
    SuperSync,
}

/// The way to the journal.
pub(super) struct Log {
    pub(super) backend: Box<dyn Backend>,
    file: Option<Arc<File>>,
    pub(super) busy: Busy,
    /// Writes for the next record.
    pub(super) batch: Vec<Taken>,
    /// Who waits for the next sync.
    pub(super) flushes: Vec<Token>,
    /// The last record that a sync has covered.
    pub(super) synced: u64,
    /// When each record in the ring was made.
    pub(super) made: VecDeque<(u64, Nanos)>,
    /// The last thing done was a flush: a record goes before the next.
    flushed: bool,
    /// When the command that is under way left.
    since: Nanos,
}

impl Log {
    pub(super) fn new(backend: Box<dyn Backend>, file: Option<Arc<File>>) -> Self {
        Self {
            backend,
            file,
            busy: Busy::Nothing,
            batch: Vec::new(),
            flushes: Vec::new(),
            synced: 0,
            made: VecDeque::new(),
            flushed: false,
            since: Nanos::ZERO,
        }
    }

    /// For how long a command is under way.
    pub(super) fn since(&self, now: Nanos) -> Option<Nanos> {
        (!self.is_idle()).then(|| now.since(self.since))
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.busy, Busy::Nothing)
    }

    /// Blocks of the next record's payload.
    pub(super) fn batch_blocks(&self) -> usize {
        self.batch.iter().map(|taken| taken.slots.len()).sum()
    }

    /// Whether a record that is not written yet has some of these blocks.
    pub(super) fn touches(&self, first: u64, end: u64) -> bool {
        let writing = if let Busy::Record(_, taken) = &self.busy { taken.as_slice() } else { &[] };
        self.batch.iter().chain(writing).any(|taken| taken.first < end && first < taken.end())
    }

    fn send(&mut self, now: Nanos, kind: Kind, (offset, len): (u64, u64), lease: Option<Lease>) {
        let task = Task {
            token: Token::Command(0),
            kind,
            member: 0,
            ahead: false,
            context: Context::default(),
            file: self.file.clone(),
            offset,
            len,
            lease,
            zeroes: None,
        };
        self.since = now;
        self.backend.submit(now, task);
    }
}

impl WriteBack {
    /// Gives the journal something to do, if there is something and it does nothing.
    pub(super) fn use_log(&mut self) {
        if self.broken {
            self.refuse_flushes();
        }
        if !self.log.is_idle() || self.broken || self.check_uses_log() {
            return;
        }
        let room = self.ring.room(1 + self.log.batch_blocks() as u64);
        let record = room.filter(|_| !self.log.batch.is_empty());
        let turn_of_record = self.log.flushed && record.is_some();
        if !turn_of_record && !self.log.flushes.is_empty() {
            self.start_flush();
        } else if let Some(at) = record {
            self.start_record(at);
        } else if self.check.is_some() && self.is_full() && self.log.synced + 1 < self.ring.next() {
            // Nobody can be answered now, so the journal has time to keep what came since: that goes home with the stripes that are still
            // to go, and not by a way of its own.
            let upto = self.ring.next() - 1;
            self.log.busy = Busy::Flush { tokens: Vec::new(), upto, left: 1, failed: false };
            self.log.send(self.now, Kind::Sync, (0, 0), None);
        }
    }

    fn start_record(&mut self, at: u64) {
        self.log.flushed = false;
        let batch = std::mem::take(&mut self.log.batch);
        let span = |taken: &Taken| Span { first: taken.first, blocks: taken.slots.len() as u32 };
        let slots: Vec<u32> = batch.iter().flat_map(|taken| taken.slots.iter().copied()).collect();
        let mut bytes = crc32fast::Hasher::new();
        slots.iter().for_each(|&slot| bytes.update(self.slots.bytes(slot)));
        let header = Header {
            generation: self.about.generation,
            seq: self.ring.next(),
            synced: self.log.synced,
            sum: bytes.finalize(),
            epoch: self.stands().map_or(0, |epoch| epoch.generation),
            spans: batch.iter().map(span).collect(),
        };
        self.slots.bytes_mut(HEADER).copy_from_slice(&header.encode()[..]);
        let lease = self.slots.lend(std::iter::once(HEADER).chain(slots));
        let (offset, len) = ((SUPERS + at) * BLOCK as u64, header.blocks() * BLOCK as u64);
        self.ring.push(at, header.blocks());
        self.log.made.push_back((header.seq, self.now));
        self.log.busy = Busy::Record(header.seq, batch);
        self.log.send(self.now, Kind::Write, (offset, len), Some(lease));
    }

    /// Syncs of the journal cover all records so far: none is under way.
    fn start_flush(&mut self) {
        self.log.flushed = true;
        let tokens = std::mem::take(&mut self.log.flushes);
        let upto = self.ring.next() - 1;
        if planted::is(Bug::FlushPastJournal) {
            tokens.into_iter().for_each(|token| self.end(token, Ok(0), None));
            return;
        }
        let device = std::mem::take(&mut self.through_unsynced);
        self.log.busy = Busy::Flush { tokens, upto, left: 1 + u32::from(device), failed: false };
        self.log.send(self.now, Kind::Sync, (0, 0), None);
        if device {
            self.send(Kind::Sync, (0, 0), None, Flight::Flush);
        }
    }

    fn refuse_flushes(&mut self) {
        for token in std::mem::take(&mut self.log.flushes) {
            self.end(token, Err(io::Error::from_raw_os_error(libc::EIO)), None);
        }
        for taken in std::mem::take(&mut self.log.batch) {
            self.answer(taken, Err(io::Error::from_raw_os_error(libc::EIO)));
        }
    }

    /// Syncs the journal for the checkpoint.
    pub(super) fn sync_log(&mut self) {
        self.log.busy = Busy::Check(self.ring.next() - 1);
        self.log.send(self.now, Kind::Sync, (0, 0), None);
    }

    /// Writes what `about` says where the older superblock is.
    pub(super) fn write_super(&mut self) {
        self.about.turn += 1;
        self.slots.bytes_mut(SUPER).copy_from_slice(&self.about.encode()[..]);
        let lease = self.slots.lend(std::iter::once(SUPER));
        let place = if planted::is(Bug::SuperInPlace) { 0 } else { self.about.place() };
        self.log.busy = Busy::Super;
        self.log.send(self.now, Kind::Write, (place * BLOCK as u64, BLOCK as u64), Some(lease));
    }

    /// The journal has done something.
    pub(super) fn logged(&mut self, done: Done) {
        let Done { result, lease, .. } = done;
        let len = lease.as_ref().map_or(0, Lease::bytes);
        if let Some(lease) = lease {
            self.slots.take_back(lease);
        }
        let short = || io::Error::other("only a part was written");
        let result = result.and_then(|moved| if moved < len { Err(short()) } else { Ok(()) });
        match std::mem::take(&mut self.log.busy) {
            Busy::Nothing => unreachable!("the journal has ended what it was not asked for"),
            Busy::Record(seq, taken) => self.recorded(seq, taken, result),
            busy @ Busy::Flush { .. } => {
                self.log.busy = busy;
                self.flush_part_ended(result);
            }
            Busy::Check(upto) => {
                self.log.synced = self.log.synced.max(upto);
                self.checked(result);
            }
            Busy::Super => match result {
                Ok(()) => {
                    self.log.busy = Busy::SuperSync;
                    if planted::is(Bug::RoomBeforeSuper) {
                        self.make_room();
                    }
                    self.log.send(self.now, Kind::Sync, (0, 0), None);
                }
                Err(problem) => self.checked(Err(problem)),
            },
            Busy::SuperSync => self.checked(result),
        }
    }

    fn recorded(&mut self, seq: u64, taken: Vec<Taken>, result: io::Result<()>) {
        if let Err(problem) = &result {
            self.fail("writing the journal", problem);
        }
        for taken in taken {
            let answer = match &result {
                Ok(()) => {
                    self.sums.journalled += taken.len;
                    for (block, &slot) in (taken.first..).zip(&taken.slots) {
                        if let Some(old) = self.held.put(block, slot, seq) {
                            self.slots.give(old);
                        }
                    }
                    Ok(taken.len)
                }
                Err(problem) => {
                    taken.slots.iter().for_each(|&slot| self.slots.give(slot));
                    let code = problem.raw_os_error().unwrap_or(libc::EIO);
                    Err(io::Error::from_raw_os_error(code))
                }
            };
            if let Some(token) = taken.token {
                self.end(token, answer, taken.lease);
            }
        }
    }

    /// A write that is in no record is answered.
    fn answer(&mut self, taken: Taken, result: io::Result<u64>) {
        taken.slots.iter().for_each(|&slot| self.slots.give(slot));
        if let Some(token) = taken.token {
            self.end(token, result, taken.lease);
        }
    }

    /// The journal, or the device, has synced for a flush.
    pub(super) fn flush_part_ended(&mut self, result: io::Result<()>) {
        if let Err(problem) = &result {
            self.fail("a sync", problem);
        }
        // The device may have lost with another sync, for a checkpoint, what this one should have covered.
        let lost = self.broken;
        let Busy::Flush { tokens, upto, left, failed } = &mut self.log.busy else {
            unreachable!("a flush is under way until all of it has ended")
        };
        *left -= 1;
        *failed |= result.is_err() || lost;
        if *left > 0 {
            return;
        }
        let (tokens, upto, failed) = (std::mem::take(tokens), *upto, *failed);
        self.log.busy = Busy::Nothing;
        if !failed {
            self.log.synced = self.log.synced.max(upto);
        }
        for token in tokens {
            let result = if failed { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(0) };
            self.end(token, result, None);
        }
    }
}
