//! What one client has said and is to be told: its session, without its socket and without a clock.
//!
//! ```text
//!   Negotiating --GO--> Serving --DISC or end of stream--> closing --all answered and taken--> over
//!        |                 |
//!        `--bad bytes------`--bad magic, half an answer--> lost
//! ```
//!
//! Bytes go in where [`Session::room`] says; what the server is to do about them comes out of [`Session::next`], one
//! [`Ask`] at a time; answers go in by the [`Ticket`] of their ask and come out as pieces to be sent, which
//! [`Session::gather`] lists and [`Session::sent`] takes away. What it shares with the other sessions of its export, the
//! credit and the answers that are done with, is lent to it in every call.
//!
//! Heads of requests go through a small inbox; the data of a WRITE goes into memory of its own, where it waits until all of
//! it is here, so a client that leaves in the middle of a write has changed nothing. A session takes no more bytes while it
//! holds as much as it may: requests, credit, memory, or pieces that wait for its client.
//!
//! A READ is asked for in parts of at most 1 MiB, as many as there is credit for, and is answered in the order of the parts:
//! in one chunk or simple reply if it is one part or the client wants it so, else in one chunk a part. An error after the
//! head of such a single reply was sent cannot be said in the protocol, so the session is lost; that takes a member that
//! fails within one long request. Until all of a READ is asked for nothing behind it is looked at. A client may hang up
//! while answers are on their way: its session stays until the last of them is here, and gives back what it holds as they
//! come, so that one who asks, hangs up and comes again has no more than one who stays.

mod asked;
mod outbox;
mod payload;
#[cfg(test)]
mod tests;

use super::credit::{Credit, Held};
use super::handshake::{Export, Handshake, OPTION_BYTES_MAX, Step, Terms, Tls, greeting};
use super::wire::{self, Command, Errno, Limits, Parsed, REQUEST_BYTES, Request, Run, export, parse_request};
use crate::planted::{self, Bug};
use asked::{Asked, Part, Requests};
use forerun_core::assemble::ByteRange;
use forerun_core::units::{BLOCK_BYTES, Extent};
pub use outbox::Blocks;
use outbox::Outbox;
use payload::Payload;
pub use payload::{Memory, Room};
use std::io::IoSlice;

/// Bytes of the inbox: the longest option and its head, or many requests.
const INBOX_BYTES: usize = 2 * OPTION_BYTES_MAX;
/// Requests that a client may have outstanding; it is not read while it has more. Twice what fio or a kernel queues.
pub const REQUESTS_MAX: usize = 256;
/// Pieces of answers that wait for a client to take them before it is not read any more: twice what its requests in flight can
/// make. What is refused or answered at once holds nothing else back.
const WAITING_MAX: usize = 4 * REQUESTS_MAX;
/// The same while it negotiates: it has nothing to be ahead of, answers are long, and it has to take them one by one.
const WAITING_NEGOTIATING_MAX: usize = 2;
/// Answers to BLOCK_STATUS that may be on their way to a client before it is not read any more: they are long and bring no data.
const STATUSES_MAX: usize = 4;
/// Most runs of such an answer: 4 KiB.
pub(crate) const RUNS_MAX: usize = 512;
/// Bytes of long answers that wait for a client to take them before it is not read any more: four such.
const LONG_MAX: usize = 16 << 10;
/// Most blocks of a part, 1 MiB; of a simulated one few, so that small reads have several.
const PART_BLOCKS: u64 = if cfg!(feature = "crash") { 4 } else { 256 };
/// Most parts of one request at once: a request of the advertised size is asked for as a whole.
const PARTS_MAX: usize = 5;

/// Which request of a session, and which part of it. Comes back with the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Its place among the session's requests.
    pub request: u16,
    /// Number of the part.
    pub part: u16,
}

/// What a session wants.
#[derive(Debug, PartialEq, Eq)]
pub enum Ask {
    /// What was said goes out before more is looked at.
    Say,
    /// What was said goes out, then TLS begins.
    StartTls,
    /// The client has an export from now on.
    Begin,
    /// A READ is here. Its parts follow, as there is credit.
    Read(Request),
    /// A part of a READ: blocks, for [`Session::part`].
    Part(Ticket, Extent),
    /// The head of a WRITE is here: memory for its data, for [`Session::grant`].
    Memory(Request),
    /// All data of a WRITE is here, in that memory; for [`Session::acknowledge`].
    Write(Ticket, Request, Vec<u32>),
    /// Everything acknowledged is to be made durable; for [`Session::acknowledge`].
    Flush(Ticket, Request),
    /// Bytes are to become zero, or nobody needs them (TRIM); for [`Session::acknowledge`].
    Zero(Ticket, Request),
    /// Where holes are is to be told; for [`Session::describe`].
    Status(Ticket, Request),
    /// Something will be read; it was acknowledged.
    Hint(Request),
    /// A request was answered.
    Ended(Ended),
}

impl Ask {
    /// Whether a request was taken.
    #[must_use]
    pub const fn is_request(&self) -> bool {
        matches!(
            self,
            Self::Read(_)
                | Self::Memory(_)
                | Self::Flush(..)
                | Self::Zero(..)
                | Self::Status(..)
                | Self::Hint(_)
                | Self::Ended(_)
        )
    }
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What was asked.
    pub request: Request,
    /// With an error.
    pub error: bool,
}

/// What is known of the server around it.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// What clients may choose from.
    pub exports: &'a [Export],
    /// No more clients get an export.
    pub full: bool,
    /// The export of this session answers with errors only.
    pub failed: bool,
}

/// What the sessions of an export share.
#[derive(Debug)]
pub struct Shared<A> {
    /// What they may have in flight.
    pub credit: Credit,
    /// Answers that are done with.
    pub back: Vec<A>,
}

/// Where a session is.
#[derive(Debug)]
enum Phase {
    /// Options are exchanged.
    Negotiating(Handshake),
    /// Requests are served.
    Serving(Terms),
}

/// One client, with answers of the type `A`.
#[derive(Debug)]
pub struct Session<A> {
    phase: Phase,
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    out: Outbox<A>,
    /// The WRITE whose data is on its way in.
    payload: Option<Payload>,
    /// A WRITE that is refused, why, and bytes of its data that are still to come: clients do not look for an answer before they have sent all.
    refused: Option<(Request, Errno, usize)>,
    held: Held,
    asked: Requests<A>,
    /// BLOCK_STATUS among them.
    statuses: usize,
    /// The READ that is not wholly asked for: the last, and there is one at most.
    waiting: Option<u16>,
    /// A reply in one piece that others may come before: it waits for them.
    held_back: Option<u16>,
    /// A reply in one piece has begun of which not all is here: nothing else may be answered before its end.
    alone: Option<u16>,
    /// No more requests are taken.
    closing: bool,
    /// Nothing can be said any more.
    lost: bool,
    /// The client has gone.
    gone: bool,
}

impl<A> Session<A> {
    /// A client that has come in. What it is greeted with is to be sent.
    #[must_use]
    pub fn new(tls: Tls) -> Self {
        let mut out = Outbox::default();
        out.bytes(greeting().to_vec());
        Self {
            phase: Phase::Negotiating(Handshake::new(tls)),
            inbox: Vec::new(),
            start: 0,
            end: 0,
            out,
            payload: None,
            refused: None,
            held: Held::default(),
            asked: Requests::default(),
            statuses: 0,
            waiting: None,
            held_back: None,
            alone: None,
            closing: false,
            lost: false,
            gone: false,
        }
    }

    /// A client that has agreed on everything: it is told nothing before its first answer.
    #[must_use]
    pub fn serving(terms: Terms) -> Self {
        Self { phase: Phase::Serving(terms), out: Outbox::default(), ..Self::new(Tls::Off) }
    }

    /// Whether its next bytes may be looked at.
    #[must_use]
    pub fn may_receive(&self) -> bool {
        !self.closing
            && !self.lost
            && self.outstanding() < REQUESTS_MAX
            && self.waiting.is_none()
            && self.alone.is_none()
            && self.statuses < STATUSES_MAX
            && self.out.pieces() < self.waiting_max()
            && (!self.is_serving() || self.out.long_bytes() < LONG_MAX)
            && !self.wants_memory()
    }

    const fn waiting_max(&self) -> usize {
        match self.phase {
            Phase::Negotiating(_) => WAITING_NEGOTIATING_MAX,
            Phase::Serving(_) => WAITING_MAX,
        }
    }

    /// Requests that are not answered.
    fn outstanding(&self) -> usize {
        self.asked.len() + usize::from(self.payload.is_some()) + usize::from(self.refused.is_some())
    }

    /// Whether everything that will be answered has been, and was sent; or nothing can be. A write whose data will never be
    /// here is not waited for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.lost || (self.closing && self.asked.is_empty() && self.out.is_empty())
    }

    /// Whether nothing can be said any more.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether it has an export.
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving(_))
    }

    /// Number of its export; of one that has none yet, the first, from which it has nothing.
    #[must_use]
    pub const fn export(&self) -> usize {
        match &self.phase {
            Phase::Serving(terms) => terms.export,
            Phase::Negotiating(_) => 0,
        }
    }

    /// Nothing can be said to it, or is to be.
    pub const fn lose(&mut self) {
        self.lost = true;
    }

    /// No more requests are taken; what was asked is answered.
    pub const fn close(&mut self) {
        self.closing = true;
    }

    /// The client has gone. What was asked of others and is not here stays with them until it is; the rest is given back, the
    /// memory of a write as the result.
    pub fn hang_up(&mut self, shared: &mut Shared<A>) -> Option<Vec<u32>> {
        (self.gone, self.lost, self.waiting) = (true, true, None);
        self.out.clear(&mut shared.back);
        // Parts that are here and wait for those before them are not sent any more.
        let mut in_flight = 0;
        for at in self.asked.all() {
            let asked = self.asked.get(at);
            asked.parts.retain_mut(|part| match part.answer.take() {
                Some(answer) => {
                    shared.back.extend(answer.ok());
                    false
                }
                None => true,
            });
            in_flight += asked.parts.iter().map(|part| part.extent.blocks).sum::<u64>();
            if asked.request.command == Command::Read && asked.parts.is_empty() {
                self.asked.remove(at);
            }
        }
        shared.credit.give_but(&mut self.held, in_flight);
        self.payload.take().and_then(Payload::into_memory)
    }

    /// Whether its client has gone and the last answer for it is here.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.gone && self.asked.is_empty()
    }

    /// The bytes that are here and not taken.
    fn input(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// Whether there are any.
    #[must_use]
    pub const fn has_input(&self) -> bool {
        self.start < self.end
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end, "no more is taken than is there");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Where the next bytes of the client go.
    pub fn room(&mut self) -> Room<'_> {
        if self.start == self.end
            && let Some(room) = self.payload.as_ref().and_then(Payload::room)
        {
            return room;
        }
        if self.inbox.is_empty() {
            self.inbox.resize(INBOX_BYTES, 0);
        }
        if self.end == self.inbox.len() {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        assert!(self.end < self.inbox.len(), "the longest message fits the inbox");
        Room::Inbox(&mut self.inbox[self.end..])
    }

    /// So many bytes have come to where [`Session::room`] said.
    pub fn received(&mut self, bytes: usize) {
        match &mut self.payload {
            Some(payload) if self.start == self.end && payload.has_memory() => payload.got(bytes),
            _ => self.end += bytes,
        }
    }

    /// What it wants next. Bytes are taken as long as it may go on.
    pub fn next(
        &mut self,
        world: &World<'_>,
        shared: &mut Shared<A>,
        memory: &mut impl Memory,
    ) -> Option<Ask> {
        if self.lost {
            return None;
        }
        let alone_now = self.outstanding() == 1;
        if let Some(at) = self.held_back.take_if(|_| alone_now)
            && let Some(ended) = self.deliver(at, shared)
        {
            return Some(Ask::Ended(ended));
        }
        if let Some(ask) = self.issue(&mut shared.credit) {
            return Some(ask);
        }
        while !self.closing && !self.lost {
            if self.refused.is_some() {
                return self.take_refused();
            }
            if self.payload.is_some() {
                return self.take_payload(memory);
            }
            if !self.may_receive() {
                return None;
            }
            let Phase::Serving(terms) = self.phase else { return self.negotiate(world) };
            match parse_request(self.input()) {
                Parsed::Short => return None,
                Parsed::BadMagic => self.lost = true,
                Parsed::Request(request) if request.command == Command::Disconnect => self.closing = true,
                Parsed::Request(request) => {
                    self.consume(REQUEST_BYTES);
                    if let Some(ask) = self.request(terms, request, world) {
                        return Some(ask);
                    }
                }
            }
        }
        None
    }

    fn negotiate(&mut self, world: &World<'_>) -> Option<Ask> {
        let Self { phase: Phase::Negotiating(machine), inbox, start, end, .. } = self else {
            unreachable!("only a negotiating client negotiates")
        };
        let mut said = Vec::new();
        let (took, step) = machine.step(&inbox[*start..*end], world.exports, world.full, &mut said);
        self.consume(took);
        self.out.bytes(said);
        match step {
            Step::More => return None,
            Step::Again => {}
            Step::Close => self.closing = true,
            Step::StartTls => return Some(Ask::StartTls),
            Step::Transmission(terms) => {
                self.phase = Phase::Serving(terms);
                return Some(Ask::Begin);
            }
        }
        Some(Ask::Say)
    }

    /// A request's head is here.
    fn request(&mut self, terms: Terms, request: Request, world: &World<'_>) -> Option<Ask> {
        let export = &world.exports[terms.export];
        let limits = Limits {
            size: export.size,
            read_only: export.flags & export::READ_ONLY != 0,
            no_flush: export.flags & export::SEND_FLUSH == 0,
            offered: export.flags,
            told: terms.told,
        };
        let mut checked = request.check(&limits);
        if request.flags & wire::request::DF != 0 && !terms.structured {
            checked = Err(Errno::Inval); // "MUST NOT" be set where chunks were not agreed on
        }
        if request.command == Command::BlockStatus && !terms.allocation {
            checked = Err(Errno::Inval); // "MUST NOT" be sent where no context was agreed on
        }
        let refused = if world.failed { Some(Errno::Io) } else { checked.err() };
        if let Some(error) = refused {
            if request.command == Command::Write {
                self.refused = Some((request, error, request.length as usize));
                return None;
            }
            self.refuse(terms, &request, error);
            return Some(Ask::Ended(Ended { request, error: true }));
        }
        Some(match request.command {
            Command::Read => {
                self.waiting = Some(self.asked.put(request));
                Ask::Read(request)
            }
            Command::Write => {
                self.payload = Some(Payload::new(request));
                Ask::Memory(request)
            }
            Command::Flush => Ask::Flush(self.ticket(request), request),
            Command::Trim | Command::WriteZeroes => Ask::Zero(self.ticket(request), request),
            Command::BlockStatus => {
                self.statuses += 1;
                Ask::Status(self.ticket(request), request)
            }
            Command::Cache => {
                self.out.head(&wire::simple_reply(None, request.cookie));
                Ask::Hint(request)
            }
            Command::Disconnect | Command::Other(_) => unreachable!("dealt with above"),
        })
    }

    /// Data of a refused WRITE is thrown away; it is answered when all of it was here.
    fn take_refused(&mut self) -> Option<Ask> {
        let here = self.end - self.start;
        let (.., left) = self.refused.as_mut()?;
        let skipped = here.min(*left);
        *left -= skipped;
        self.consume(skipped);
        let (request, error, _) = self.refused.take_if(|(.., left)| *left == 0)?;
        self.out.head(&wire::simple_reply(Some(error), request.cookie));
        Some(Ask::Ended(Ended { request, error: true }))
    }

    /// A request that has one answer.
    fn ticket(&mut self, request: Request) -> Ticket {
        Ticket { request: self.asked.put(request), part: 0 }
    }

    /// Memory for the data of a WRITE that has none, blocks.
    #[must_use]
    pub fn memory_wanted(&self) -> Option<usize> {
        self.payload.as_ref().filter(|payload| !payload.has_memory()).map(Payload::blocks)
    }

    fn wants_memory(&self) -> bool {
        self.memory_wanted().is_some()
    }

    /// The data of a WRITE on its way in: all its bytes and those that are here, once it has memory.
    #[must_use]
    pub fn incoming(&self) -> Option<(u64, u64)> {
        self.payload.as_ref().filter(|payload| payload.has_memory()).map(Payload::progress)
    }

    /// Memory for the data of the WRITE, as many blocks as it wanted.
    pub fn grant(&mut self, blocks: Vec<u32>) {
        self.payload.as_mut().expect("asked for a write").grant(blocks);
    }

    /// Moves data of a WRITE from the inbox to its memory; asks for the write when all of it is here.
    fn take_payload(&mut self, memory: &mut impl Memory) -> Option<Ask> {
        let payload = self.payload.as_mut()?;
        let moved = payload.put(&self.inbox[self.start..self.end], memory);
        self.consume(moved);
        let whole = self.payload.take_if(|payload| payload.is_whole())?.into_whole();
        Some(Ask::Write(self.ticket(whole.request), whole.request, whole.memory))
    }

    /// Asks for a part of the READ that waits, if there is credit.
    fn issue(&mut self, credit: &mut Credit) -> Option<Ask> {
        let at = self.waiting?;
        let asked = self.asked.get(at);
        let range = asked.request.range();
        if asked.parts.len() == PARTS_MAX {
            return None;
        }
        let rest = ByteRange::new(range.offset + asked.issued, range.bytes - asked.issued).blocks();
        let granted = credit.take(&mut self.held, rest.blocks.min(PART_BLOCKS));
        if granted == 0 {
            // It has more in flight, or waits for what this client holds.
            return None;
        }
        let extent = Extent { start: rest.start, blocks: granted };
        asked.issued = range.within(extent).end() - asked.request.offset;
        let number = asked.next_part;
        asked.next_part += 1;
        asked.parts.push_back(Part { number, extent, answer: None });
        if asked.issued == range.bytes {
            self.waiting = None;
        }
        Some(Ask::Part(Ticket { request: at, part: number }, extent))
    }

    /// A part of a READ is here, or could not be had. Says when it was the last of it.
    pub fn part(
        &mut self,
        ticket: Ticket,
        answer: Result<A, Errno>,
        shared: &mut Shared<A>,
    ) -> Option<Ended> {
        let asked = self.asked.get(ticket.request);
        let part = asked.parts.iter_mut().find(|part| part.number == ticket.part);
        let part = part.expect("a part stays until it is answered");
        if self.gone {
            shared.credit.give(&mut self.held, part.extent.blocks);
            shared.back.extend(answer.ok());
            asked.parts.retain(|part| part.number != ticket.part);
            if asked.parts.is_empty() {
                self.asked.remove(ticket.request);
            }
            return None;
        }
        part.answer = Some(answer);
        if planted::is(Bug::PartsOutOfOrder)
            && let Some(at) = asked.parts.iter().position(|part| part.number == ticket.part)
        {
            asked.parts.swap(0, at);
        }
        self.deliver(ticket.request, shared)
    }

    /// Makes what is next of a READ and here ready to be sent.
    fn deliver(&mut self, at: u16, shared: &mut Shared<A>) -> Option<Ended> {
        let Phase::Serving(terms) = self.phase else { unreachable!("requests come after negotiation") };
        while self.asked.get(at).is_front_here() && self.may_begin(terms, at) {
            let asked = self.asked.get(at);
            let Some(Part { extent, answer: Some(answer), .. }) = asked.parts.pop_front() else {
                unreachable!("looked at above")
            };
            match answer {
                Ok(answer) if !asked.failed => self.send(terms, at, extent, answer),
                unusable => {
                    shared.credit.give(&mut self.held, extent.blocks);
                    match unusable {
                        Ok(answer) => shared.back.push(answer),
                        Err(error) => self.fail(terms, at, error),
                    }
                }
            }
        }
        self.end_read(at)
    }

    /// A part of a READ cannot be sent: the whole of it is refused, once.
    fn fail(&mut self, terms: Terms, at: u16, error: Errno) {
        let asked = self.asked.get(at);
        if std::mem::replace(&mut asked.failed, true) {
            return;
        }
        // Half an answer cannot be taken back.
        self.lost |= asked.head_sent;
        self.waiting.take_if(|waiting| *waiting == at);
        let request = asked.request;
        self.refuse(terms, &request, error);
    }

    /// A part goes out, behind the head that it needs.
    fn send(&mut self, terms: Terms, at: u16, extent: Extent, answer: A) {
        let asked = self.asked.get(at);
        let Request { length, cookie, .. } = asked.request;
        let ByteRange { offset: begin, bytes } = asked.request.range().within(extent);
        let bytes = bytes as usize;
        let last = asked.is_issued() && asked.parts.is_empty();
        let one_piece = asked.is_one_piece(terms);
        let begun = std::mem::replace(&mut asked.head_sent, one_piece);
        match (one_piece, terms.structured) {
            (true, _) if begun => {}
            (true, false) => self.out.head(&wire::simple_reply(None, cookie)),
            (true, true) => self.out.head(&wire::data_chunk(true, cookie, begin, length)),
            (false, _) => self.out.head(&wire::data_chunk(last, cookie, begin, bytes as u32)),
        }
        self.out.data(answer, extent.blocks, (begin % BLOCK_BYTES) as usize, bytes);
    }

    /// Whether the next part of a READ may be sent. A reply in one piece must not be cut by another: it begins when all of it is
    /// here, or when nothing else of its client can be answered before it ends.
    fn may_begin(&mut self, terms: Terms, at: u16) -> bool {
        let others = self.outstanding() > 1;
        let asked = self.asked.get(at);
        if asked.head_sent || asked.failed || !asked.is_one_piece(terms) {
            return true;
        }
        let whole = asked.is_issued() && asked.parts.iter().all(|part| part.answer.is_some());
        if !whole && others {
            // A read that must be whole is looked at again with each of its parts; the other waits for its memory, too.
            if !asked.is_issued() {
                self.held_back = Some(at);
            }
            return false;
        }
        self.held_back.take_if(|held| *held == at);
        self.alone = (!whole).then_some(at);
        true
    }

    /// Forgets a READ of which nothing is left.
    fn end_read(&mut self, at: u16) -> Option<Ended> {
        let Asked { request, failed, ref parts, .. } = *self.asked.get(at);
        if !parts.is_empty() || !(failed || self.asked.get(at).is_issued()) {
            return None;
        }
        self.asked.remove(at);
        self.alone.take_if(|alone| *alone == at);
        self.held_back.take_if(|held| *held == at);
        Some(Ended { request, error: failed })
    }

    /// A write or a flush has ended.
    pub fn acknowledge(&mut self, ticket: Ticket, error: Option<Errno>) -> Option<Ended> {
        let request = self.asked.remove(ticket.request).request;
        if self.gone {
            return None;
        }
        self.out.head(&wire::simple_reply(error, request.cookie));
        Some(Ended { request, error: error.is_some() })
    }

    /// Where holes are: runs from the first byte that was asked about on, of which at least one comes and at most all that there are.
    pub fn describe(&mut self, ticket: Ticket, runs: Result<&[Run], Errno>) -> Option<Ended> {
        let request = self.asked.remove(ticket.request).request;
        self.statuses -= 1;
        if self.gone {
            return None;
        }
        let Phase::Serving(terms) = self.phase else { unreachable!("requests come after negotiation") };
        match runs {
            Ok(runs) => {
                assert!((1..=RUNS_MAX).contains(&runs.len()), "an answer has runs, and not many");
                self.out.bytes(wire::status_chunk(request.cookie, runs));
            }
            Err(error) => self.refuse(terms, &request, error),
        }
        Some(Ended { request, error: runs.is_err() })
    }

    /// Answers with an error.
    fn refuse(&mut self, terms: Terms, request: &Request, error: Errno) {
        let chunks = matches!(request.command, Command::Read | Command::BlockStatus);
        if terms.structured && chunks {
            self.out.head(&wire::error_chunk(error, request.cookie));
        } else {
            self.out.head(&wire::simple_reply(Some(error), request.cookie));
        }
    }

    /// Whether there is anything to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.out.is_empty() && !self.lost
    }

    /// Whether the head of a long answer should leave before its data: a client of this machine that sleeps wakes up while the
    /// data is copied. With more answers behind it the client has enough to do.
    #[must_use]
    pub fn begins_long_answer(&self) -> bool {
        self.out.begins_long_answer()
    }

    /// The pieces that are to be sent, as many as `slices` takes. Returns how many, and their bytes.
    pub fn gather<'a>(&'a self, blocks: &'a impl Blocks<A>, slices: &mut [IoSlice<'a>]) -> (usize, usize) {
        self.out.gather(blocks, slices)
    }

    /// So many bytes of them were sent. Answers that are wholly sent are done with, and their credit is free.
    pub fn sent(&mut self, bytes: usize, shared: &mut Shared<A>) {
        self.out.sent(bytes, &mut shared.back, |blocks| shared.credit.give(&mut self.held, blocks));
    }
}
