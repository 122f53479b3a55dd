//! What clients have asked for and was not answered yet, from a request's head to its last byte.
//!
//! A READ goes to the volume in parts of at most 1 MiB, as many as its connection has credit for, and is answered in the
//! order of the parts: in one chunk or simple reply if it is one part or the client wants it so, else in one chunk a part.
//! An error after the head of such a single reply was sent cannot be said in the protocol, so the connection is closed; that
//! takes a member that fails within one long request. Parts of a client that has gone are waited for and thrown away.

use super::served::take_intake;
use super::{ROUND_REQUESTS, Server};
use crate::connection::{Payload, Phase};
use crate::nbd::handshake::{Session, Step};
use crate::nbd::wire::{self, Command, Errno, Limits, Parsed, REQUEST_BYTES, Request, export};
use crate::volume::{Answer, NewWrite};
use forerun_core::access::Context;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use std::collections::VecDeque;

/// Most blocks of a part, 1 MiB.
const PART_BLOCKS: u64 = 256;
/// Most parts of one request at once: a request of the advertised size is asked for as a whole.
const PARTS_MAX: usize = 5;
/// Bits of a tag that number the part.
const PART_BITS: u32 = 16;
/// Most blocks of a hint; what is beyond is not read ahead, which a hint allows.
const HINT_BLOCKS_MAX: u64 = 1024;

/// A part of a READ in the volume's hands, or answered and waiting for those before it.
#[derive(Debug)]
struct Part {
    number: u16,
    extent: Extent,
    answer: Option<Result<Answer, Errno>>,
}

/// One request.
#[derive(Debug)]
struct Asked {
    /// Number of the connection; none when it has gone.
    connection: Option<usize>,
    /// Then its number among those who have gone.
    departed: usize,
    /// Who it is for the schemes.
    context: Context,
    session: Session,
    request: Request,
    /// Bytes that parts were made of.
    issued: u64,
    parts: VecDeque<Part>,
    next_part: u16,
    /// The head of a single reply was sent.
    head_sent: bool,
    /// An error was answered: what still comes is thrown away.
    failed: bool,
}

/// All requests.
#[derive(Debug, Default)]
pub(super) struct Requests {
    table: Vec<Option<Asked>>,
    free: Vec<usize>,
}

impl Requests {
    fn put(&mut self, asked: Asked) -> usize {
        if let Some(at) = self.free.pop() {
            self.table[at] = Some(asked);
            return at;
        }
        self.table.push(Some(asked));
        self.table.len() - 1
    }

    fn get(&mut self, at: usize) -> &mut Asked {
        self.table[at].as_mut().expect("a request stays until it is answered")
    }

    fn remove(&mut self, at: usize) -> Option<Asked> {
        self.free.push(at);
        self.table[at].take()
    }

    /// A connection has gone, and is the `departed`th of those. Returns how many of its requests members still work for, and
    /// the blocks that its reads hold.
    pub(super) fn forget(&mut self, connection: usize, departed: usize) -> (usize, u64) {
        let (mut left, mut blocks) = (0, 0);
        for at in 0..self.table.len() {
            let Some(asked) = &mut self.table[at] else { continue };
            if asked.connection != Some(connection) {
                continue;
            }
            (asked.connection, asked.departed) = (None, departed);
            // A READ of which nothing is in flight has nobody to end it.
            if asked.request.command == Command::Read && asked.parts.is_empty() {
                self.remove(at);
                continue;
            }
            left += 1;
            blocks += asked.parts.iter().map(|part| part.extent.blocks).sum::<u64>();
        }
        (left, blocks)
    }
}

impl Server {
    /// Takes messages from the front of a client's inbox, as long as it may go on.
    pub(super) fn consume(&mut self, now: Nanos, at: usize) {
        let (all, least) = ROUND_REQUESTS;
        let mut left = (all / self.serving.max(1)).max(least);
        loop {
            if left == 0 {
                // Others come first.
                self.unsettled = true;
                return;
            }
            let Some(connection) = &mut self.connections[at] else { return };
            if connection.broken || connection.closing {
                return;
            }
            if connection.skip > 0 {
                let take = connection.skip.min(connection.input().len());
                connection.skip -= take;
                connection.consume(take);
                if connection.skip > 0 {
                    return;
                }
            }
            if connection.payload.is_some() {
                let Some(payload) =
                    connection.take_payload(&mut self.served[connection.export()].volume.arena)
                else {
                    return;
                };
                self.write(at, payload);
                continue;
            }
            let session = match &mut connection.phase {
                Phase::Negotiating(_) => {
                    if !connection.may_receive() || !self.negotiate(now, at) {
                        return;
                    }
                    self.send(now, at);
                    continue;
                }
                Phase::Serving(session) => *session,
            };
            if !connection.may_receive() {
                return;
            }
            match wire::parse_request(connection.input()) {
                Parsed::Short => return,
                Parsed::BadMagic => {
                    connection.broken = true;
                    return;
                }
                Parsed::Request(request) => {
                    connection.consume(REQUEST_BYTES);
                    left -= 1;
                    self.request(at, session, request);
                }
            }
        }
    }

    /// Clients of exports whose members do not answer: their places do not count against others, up to as many as there are.
    fn serving_hung(&self) -> u32 {
        if !self.served.iter().any(|served| served.volume.is_hung()) {
            return 0;
        }
        let hung = |connection: &&crate::connection::Connection| {
            connection.is_serving() && self.served[connection.export()].volume.is_hung()
        };
        (self.connections.iter().flatten().filter(hung).count() as u32).min(self.serving_max)
    }

    /// One step of a negotiation; whether there may be another.
    fn negotiate(&mut self, now: Nanos, at: usize) -> bool {
        let full = self.serving - self.serving_hung() >= self.serving_max;
        let Some(connection) = &mut self.connections[at] else { return false };
        let Phase::Negotiating(mut machine) = std::mem::replace(
            &mut connection.phase,
            Phase::Negotiating(crate::nbd::handshake::Handshake::default()),
        ) else {
            unreachable!("only a negotiating client negotiates")
        };
        self.scratch.clear();
        let (took, step) = machine.step(connection.input(), &self.exports, full, &mut self.scratch);
        connection.consume(took);
        connection.send_bytes(self.scratch.clone());
        connection.phase = Phase::Negotiating(machine);
        match step {
            Step::More => return false,
            Step::Again => {}
            Step::Close => connection.closing = true,
            Step::StartTls => self.start_tls(now, at),
            Step::Transmission(session) => {
                connection.phase = Phase::Serving(session);
                connection.progress = now;
                self.serving += 1;
            }
        }
        true
    }

    /// The answer to STARTTLS goes out, and TLS begins. A client waits for that answer, so bytes of it that are here already
    /// are not its own or not of this protocol: they must neither be taken for part of the session nor be forgotten.
    fn start_tls(&mut self, now: Nanos, at: usize) {
        self.send(now, at);
        let Some(connection) = &mut self.connections[at] else { return };
        let clean = connection.input().is_empty() && connection.is_flushed();
        let begun = clean && self.tls.as_ref().is_some_and(|config| connection.socket.secure(config).is_ok());
        connection.broken |= !begun;
    }

    /// A request's head is here.
    fn request(&mut self, at: usize, session: Session, request: Request) {
        let export = &self.exports[session.export];
        let limits = Limits {
            size: export.size,
            read_only: export.flags & export::READ_ONLY != 0,
            no_flush: export.flags & export::SEND_FLUSH == 0,
            told: session.told,
        };
        let mut checked = request.check(&limits);
        if request.flags & wire::request::DF != 0 && !session.structured {
            checked = Err(Errno::Inval); // "MUST NOT" be set where chunks were not agreed on
        }
        let served = &mut self.served[session.export];
        let Some(connection) = &mut self.connections[at] else { return };
        if request.command == Command::Disconnect {
            connection.closing = true;
            return;
        }
        let refused = if served.changed.is_some() { Some(Errno::Io) } else { checked.err() };
        if let Some(error) = refused {
            if request.command == Command::Write {
                connection.skip = request.length as usize;
            }
            self.refuse(at, session, &request, error);
            return;
        }
        connection.outstanding += 1;
        self.requests_of_turn += 1;
        if let (Some(record), Command::Read | Command::Write) = (&mut self.record, request.command) {
            let row = crate::record::Request {
                client: connection.number,
                cookie: request.cookie,
                export: session.export,
                offset: request.offset,
                bytes: request.length,
                write: request.command == Command::Write,
            };
            record.asked(served.volume.now(), row);
        }
        let context = Context::new(connection.number, 0);
        match request.command {
            Command::Read => {
                let index = self.ask(at, context, session, request);
                self.issue(index);
            }
            Command::Write => {
                let mut payload = Payload { request, intake: None, got: 0, since: served.volume.now() };
                payload.intake = take_intake(&mut self.served, session.export, payload.blocks());
                connection.payload = Some(payload);
            }
            Command::Flush => {
                let index = self.ask(at, context, session, request);
                self.served[session.export].volume.flush((index as u64) << PART_BITS);
            }
            Command::Cache => {
                self.hint(session.export, context, &request);
                let index = self.ask(at, context, session, request);
                self.acknowledge((index as u64) << PART_BITS, None);
            }
            Command::Disconnect | Command::Other(_) => unreachable!("answered above"),
        }
    }

    fn ask(&mut self, at: usize, context: Context, session: Session, request: Request) -> usize {
        self.requests.put(Asked {
            connection: Some(at),
            departed: 0,
            context,
            session,
            request,
            issued: 0,
            parts: VecDeque::new(),
            next_part: 0,
            head_sent: false,
            failed: false,
        })
    }

    /// All bytes of a write are here.
    fn write(&mut self, at: usize, payload: Payload) {
        let Some(connection) = &self.connections[at] else { return };
        let Phase::Serving(session) = connection.phase else { unreachable!("writes come after negotiation") };
        let context = Context::new(connection.number, 0);
        let request = payload.request;
        let index = self.ask(at, context, session, request);
        self.served[session.export].volume.write(NewWrite {
            tag: (index as u64) << PART_BITS,
            context,
            offset: request.offset,
            bytes: u64::from(request.length),
            intake: payload.intake.expect("data was received into memory"),
            durable: request.flags & wire::request::FUA != 0,
        });
    }

    /// A client says what it will read: the first blocks of it are read ahead, if reading ahead has room for them.
    fn hint(&mut self, export: usize, context: Context, request: &Request) {
        let volume = &mut self.served[export].volume;
        let extent = Extent::covering(request.offset, u64::from(request.length));
        let room = (volume.spec.cache_blocks / 8).min(HINT_BLOCKS_MAX);
        let flying = volume.hints_in_flight();
        if flying + extent.blocks.min(room) <= room {
            volume.hint(context, Extent { start: extent.start, blocks: extent.blocks.min(room) });
        }
    }

    /// Makes parts of a READ while its connection has credit.
    fn issue(&mut self, index: usize) {
        loop {
            let asked = self.requests.get(index);
            let Some(at) = asked.connection else { return };
            let length = u64::from(asked.request.length);
            if asked.failed || asked.issued == length {
                return;
            }
            let full = asked.parts.len() == PARTS_MAX;
            let rest = Extent::covering(asked.request.offset + asked.issued, length - asked.issued);
            let want = rest.blocks.min(PART_BLOCKS);
            let Some(connection) = &mut self.connections[at] else { return };
            let served = &mut self.served[asked.session.export];
            let granted = if full { 0 } else { served.credit.take(&mut connection.held, want) };
            if granted == 0 {
                // It has more in flight, or waits for what this connection holds. Until all of it is asked for nothing
                // behind it is looked at: at most one request of a connection is not wholly asked for, and it is the last.
                if !connection.waiting.contains(&index) {
                    connection.waiting.push_back(index);
                }
                return;
            }
            let extent = Extent { start: rest.start, blocks: granted };
            let end = (extent.end() * BLOCK_BYTES).min(asked.request.offset + length);
            asked.issued = end - asked.request.offset;
            let number = asked.next_part;
            asked.next_part += 1;
            asked.parts.push_back(Part { number, extent, answer: None });
            let context = asked.context;
            served.volume.read((index as u64) << PART_BITS | u64::from(number), context, extent);
        }
    }

    /// A part of a READ is here, or could not be had.
    pub(super) fn part_read(&mut self, _now: Nanos, tag: u64, result: Result<Answer, Errno>) {
        let index = (tag >> PART_BITS) as usize;
        let number = (tag & ((1 << PART_BITS) - 1)) as u16;
        let asked = self.requests.get(index);
        let part = asked.parts.iter_mut().find(|part| part.number == number);
        part.expect("a part stays until it is answered").answer = Some(result);
        self.deliver(index);
        self.issue_if_there(index);
    }

    fn issue_if_there(&mut self, index: usize) {
        if self.requests.table[index].is_some() {
            self.issue(index);
        }
    }

    /// Sends the parts of a READ that are next and here.
    fn deliver(&mut self, index: usize) {
        loop {
            let asked = self.requests.get(index);
            if asked.parts.front().is_none_or(|part| part.answer.is_none()) {
                break;
            }
            if !self.may_begin(index) {
                break;
            }
            let asked = self.requests.get(index);
            let Some(Part { extent, answer: Some(result), .. }) = asked.parts.pop_front() else {
                break;
            };
            let served = &mut self.served[asked.session.export];
            let Some(at) = asked.connection else {
                self.departed.give(asked.departed, &mut served.credit, extent.blocks);
                if let Ok(answer) = result {
                    served.volume.release(answer);
                }
                continue;
            };
            let Some(connection) = &mut self.connections[at] else {
                unreachable!("it is forgotten when it goes")
            };
            let unwanted = asked.failed || served.changed.is_some();
            let answer = match result {
                Ok(answer) if !unwanted => answer,
                unusable => {
                    served.credit.give(&mut connection.held, extent.blocks);
                    let error = unusable.map(|answer| served.volume.release(answer)).err();
                    self.fail(at, index, error.unwrap_or(Errno::Io));
                    continue;
                }
            };
            let begin = (extent.start.0 * BLOCK_BYTES).max(asked.request.offset);
            let end =
                (extent.end() * BLOCK_BYTES).min(asked.request.offset + u64::from(asked.request.length));
            let whole = asked.request.length;
            let last = asked.issued == u64::from(whole) && asked.parts.is_empty();
            let single = asked.request.flags & wire::request::DF != 0;
            let (cookie, bytes) = (asked.request.cookie, (end - begin) as usize);
            if !asked.session.structured {
                if !asked.head_sent {
                    connection.send_head(&wire::simple_reply(None, cookie));
                }
                asked.head_sent = true;
            } else if single {
                if !asked.head_sent {
                    connection.send_head(&wire::data_chunk(true, cookie, begin, whole));
                }
                asked.head_sent = true;
            } else {
                connection.send_head(&wire::data_chunk(last, cookie, begin, bytes as u32));
            }
            connection.send_data(answer, extent.blocks, (begin % BLOCK_BYTES) as usize, bytes);
        }
        self.end_read(index);
    }

    /// A part of a READ cannot be sent: the whole of it is refused, once.
    fn fail(&mut self, at: usize, index: usize, error: Errno) {
        let asked = self.requests.get(index);
        let first = !std::mem::replace(&mut asked.failed, true);
        let (session, request, begun) = (asked.session, asked.request, asked.head_sent);
        if let Some(connection) = &mut self.connections[at] {
            // Half an answer cannot be taken back.
            connection.broken |= begun;
        }
        if first {
            self.refuse(at, session, &request, error);
        }
    }

    /// Whether the next part of a READ may be sent. A reply in one piece must not be cut by another: it begins when all of it is
    /// here, or when nothing else of its connection can be answered before it ends.
    fn may_begin(&mut self, index: usize) -> bool {
        let asked = self.requests.get(index);
        let one_piece = !asked.session.structured || asked.request.flags & wire::request::DF != 0;
        if asked.head_sent || asked.failed || !one_piece {
            return true;
        }
        let issued = asked.issued == u64::from(asked.request.length);
        let whole = issued && asked.parts.iter().all(|part| part.answer.is_some());
        let Some(connection) = asked.connection.and_then(|at| self.connections[at].as_mut()) else {
            return true; // it has gone
        };
        if !whole && connection.outstanding > 1 {
            // Who is asked for as a whole comes back with each of its parts; the other waits for its memory, too.
            if !issued {
                connection.held_back = Some(index);
            }
            return false;
        }
        connection.held_back.take_if(|held| *held == index);
        connection.alone = (!whole).then_some(index);
        true
    }

    /// Forgets a READ of which nothing is left.
    fn end_read(&mut self, index: usize) {
        let asked = self.requests.get(index);
        let done =
            asked.issued == u64::from(asked.request.length) || asked.failed || asked.connection.is_none();
        if !asked.parts.is_empty() || !done {
            return;
        }
        let Some(asked) = self.requests.remove(index) else { return };
        if asked.connection.is_none() {
            self.ended_late(asked.departed);
        }
        if let Some(connection) = asked.connection.and_then(|at| self.connections[at].as_mut()) {
            connection.outstanding -= 1;
            connection.alone.take_if(|alone| *alone == index);
            connection.held_back.take_if(|held| *held == index);
        }
        if asked.failed {
            return; // counted when it was refused
        }
        self.recorded(&asked);
        let counts = &mut self.served[asked.session.export].counts;
        counts.reads += 1;
        counts.bytes_read += u64::from(asked.request.length);
    }

    /// A write or a flush has ended, or a hint was taken.
    pub(super) fn acknowledge(&mut self, tag: u64, error: Option<Errno>) {
        let Some(asked) = self.requests.remove((tag >> PART_BITS) as usize) else { return };
        let served = &mut self.served[asked.session.export];
        let failed = error.or(served.changed.is_some().then_some(Errno::Io));
        let Some(at) = asked.connection else {
            self.ended_late(asked.departed);
            return;
        };
        let Some(connection) = &mut self.connections[at] else { return };
        connection.outstanding -= 1;
        if failed.is_some() {
            connection.send_head(&wire::simple_reply(failed, asked.request.cookie));
            served.counts.errors += 1;
            return;
        }
        connection.send_head(&wire::simple_reply(None, asked.request.cookie));
        self.recorded(&asked);
        let served = &mut self.served[asked.session.export];
        match asked.request.command {
            Command::Write => {
                served.counts.writes += 1;
                served.counts.bytes_written += u64::from(asked.request.length);
            }
            Command::Flush => served.counts.flushes += 1,
            _ => served.counts.hints += 1,
        }
    }

    /// A request of a client that has gone has ended.
    fn ended_late(&mut self, departed: usize) {
        if self.departed.ended(departed) {
            self.serving -= 1;
        }
    }

    /// The trace hears that a request was answered.
    fn recorded(&mut self, asked: &Asked) {
        let (command, cookie) = (asked.request.command, asked.request.cookie);
        if let (Some(record), Some(at)) = (&mut self.record, asked.connection)
            && let Some(connection) = &self.connections[at]
            && matches!(command, Command::Read | Command::Write)
        {
            record.answered(self.served[asked.session.export].volume.now(), connection.number, cookie);
        }
    }

    /// Answers with an error.
    fn refuse(&mut self, at: usize, session: Session, request: &Request, error: Errno) {
        let Some(connection) = &mut self.connections[at] else { return };
        if session.structured && request.command == Command::Read {
            connection.send_head(&wire::error_chunk(error, request.cookie));
        } else {
            connection.send_head(&wire::simple_reply(Some(error), request.cookie));
        }
        self.served[session.export].counts.errors += 1;
    }

    /// Lets a client go on that waited for credit or for intake memory.
    pub(super) fn resume(&mut self, now: Nanos, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        let mut moved = false;
        let export = connection.export();
        if let Some(payload) = connection.payload.as_mut().filter(|payload| payload.intake.is_none()) {
            payload.intake = take_intake(&mut self.served, export, payload.blocks());
            payload.since = now;
            moved |= payload.intake.is_some();
        }
        let alone = |c: &mut crate::connection::Connection| c.held_back.take_if(|_| c.outstanding == 1);
        if let Some(index) = self.connections[at].as_mut().and_then(alone) {
            moved = true;
            self.deliver(index);
        }
        while let Some(index) = self.connections[at].as_mut().and_then(|c| c.waiting.pop_front()) {
            self.issue_if_there(index);
            let waits = self.connections[at].as_ref().is_some_and(|c| c.waiting.back() == Some(&index));
            if waits {
                // Back to the front: those behind it came later.
                if let Some(connection) = &mut self.connections[at] {
                    connection.waiting.rotate_right(1);
                }
                break;
            }
            moved = true;
        }
        let idle = self.connections[at].as_ref().is_some_and(|c| !c.input().is_empty() && c.may_receive());
        if moved || idle {
            self.consume(now, at);
        }
    }
}
