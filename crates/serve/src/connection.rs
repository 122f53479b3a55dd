//! One client: its socket, what came of its bytes so far, and what it is still to be sent.
//!
//! ```text
//!   Negotiating --GO--> Serving --DISC or end of stream--> closing --all answered and taken--> gone
//!        |                 |
//!        `--bad bytes------`--bad magic, broken socket--> broken --> gone
//! ```
//!
//! Heads of requests go through a small inbox; the data of a WRITE goes from the socket into intake memory, where it
//! waits until all of it is here, so a client that leaves in the middle of a write has changed nothing. What is to be sent
//! is a queue of segments: heads, which are a few bytes, and the blocks of answers, which are sent from where they lie in
//! the cache. A connection stops being read while it holds as much as it may: requests, credit, or intake memory.

use crate::credit::Held;
use crate::nbd::handshake::{Handshake, OPTION_BYTES_MAX, Session, Tls, greeting};
use crate::nbd::wire::Request;
use crate::raw::{Arena, BLOCK};
use crate::socket::Socket;
use crate::volume::{Answer, Volume};
use forerun_core::units::Nanos;
use rustix::event::epoll::EventFlags;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

/// Bytes of the inbox: the longest option and its head, or many requests.
const INBOX_BYTES: usize = 2 * OPTION_BYTES_MAX;
/// Requests that a client may have outstanding; it is not read while it has more. Twice what fio or a kernel queues.
pub(crate) const REQUESTS_MAX: u32 = 256;
/// Pieces of answers that wait for a client to take them before it is not read any more: twice what its requests in flight can
/// make. What is refused or answered at once holds nothing else back.
const WAITING_MAX: usize = 4 * REQUESTS_MAX as usize;
/// Pieces of one send: 64 answers of 4 KiB with their heads.
const SEND_PIECES: usize = 128;
/// Bytes from which on copying an answer takes as long as waking who waits for it: 32 KiB.
const LONG_ANSWER: usize = 32 << 10;
/// Blocks of one receive into intake memory: 1 MiB.
const RECEIVE_BLOCKS: usize = 256;
/// How long a client may hold intake memory that others wait for without sending a byte.
const STALL: Nanos = Nanos::from_secs(10);
/// And how long beyond that for each byte it has announced, so that a byte now and then is not enough: 1 MB/s.
const SLOWEST_BYTE: Nanos = Nanos(1000);
/// Bytes that one client may send in one turn of the loop, so that others come to theirs: 1 MiB.
pub(crate) const TURN_BYTES_MAX: usize = 1 << 20;

/// Where a session is.
#[derive(Debug)]
pub(crate) enum Phase {
    /// Options are exchanged.
    Negotiating(Handshake),
    /// Requests are served.
    Serving(Session),
}

/// The data of a WRITE on its way in.
#[derive(Debug)]
pub(crate) struct Payload {
    /// The write.
    pub(crate) request: Request,
    /// Where it goes; none until memory is free.
    pub(crate) intake: Option<Vec<u32>>,
    /// Bytes that are here.
    pub(crate) got: usize,
    /// When it was asked for, or got its memory if that was later.
    pub(crate) since: Nanos,
}

impl Payload {
    /// Intake blocks that it needs.
    pub(crate) fn blocks(&self) -> usize {
        let within = self.request.offset as usize % BLOCK;
        (within + self.request.length as usize).div_ceil(BLOCK)
    }
    fn missing(&self) -> usize {
        self.request.length as usize - self.got
    }
    /// Block (by index) and byte in it where the next byte goes.
    fn position(&self) -> (usize, usize) {
        let at = self.request.offset as usize % BLOCK + self.got;
        (at / BLOCK, at % BLOCK)
    }
}

/// Something to be sent.
#[derive(Debug)]
enum Segment {
    Head { bytes: [u8; 28], len: usize },
    Long(Vec<u8>),
    Data { answer: Answer, credit: u64, skip: usize, len: usize },
}

impl Segment {
    const fn len(&self) -> usize {
        match self {
            Self::Head { len, .. } | Self::Data { len, .. } => *len,
            Self::Long(bytes) => bytes.len(),
        }
    }
}

/// What receiving came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Some bytes, and no more are here: there was room for them.
    Last,
    /// None now.
    Nothing,
    /// No more, ever.
    End,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    /// Tells it from all others there ever were; the context of its accesses.
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    out: VecDeque<Segment>,
    /// Bytes of the first segment that are sent.
    sent: usize,
    pub(crate) payload: Option<Payload>,
    /// Bytes of a refused write that are still to come.
    pub(crate) skip: usize,
    pub(crate) held: Held,
    /// Requests that are not wholly in `out` yet.
    pub(crate) outstanding: u32,
    /// Requests that wait for credit, in order.
    pub(crate) waiting: VecDeque<usize>,
    /// A reply in one piece that others may come before: it waits for them.
    pub(crate) held_back: Option<usize>,
    /// A reply in one piece has begun of which not all is here: nothing else may be answered before its end.
    pub(crate) alone: Option<usize>,
    /// No more requests will be read.
    pub(crate) closing: bool,
    /// Nothing can be sent any more.
    pub(crate) broken: bool,
    pub(crate) since: Nanos,
    /// When its socket last took or gave a byte.
    pub(crate) progress: Nanos,
    pub(crate) interest: EventFlags,
    blocked: bool,
}

impl Connection {
    pub(crate) fn new(socket: Socket, number: u64, tls: Tls, now: Nanos) -> Self {
        let mut out = VecDeque::new();
        out.push_back(Segment::Long(greeting().to_vec()));
        Self {
            socket,
            number,
            phase: Phase::Negotiating(Handshake::new(tls)),
            inbox: Vec::new(),
            start: 0,
            end: 0,
            out,
            sent: 0,
            payload: None,
            skip: 0,
            held: Held::default(),
            outstanding: 0,
            waiting: VecDeque::new(),
            held_back: None,
            alone: None,
            closing: false,
            broken: false,
            since: now,
            progress: now,
            interest: EventFlags::empty(),
            blocked: false,
        }
    }

    /// Whether its next bytes may be looked at.
    pub(crate) fn may_receive(&self) -> bool {
        !self.closing
            && !self.broken
            && self.outstanding < REQUESTS_MAX
            && self.waiting.is_empty()
            && self.alone.is_none()
            && self.out.len() < self.waiting_max()
            && self.payload.as_ref().is_none_or(|payload| payload.intake.is_some())
    }

    /// Pieces of answers that may wait. A client that negotiates has nothing to be ahead of: its answers are long, and it has
    /// to take them one by one.
    const fn waiting_max(&self) -> usize {
        match self.phase {
            Phase::Negotiating(_) => 2,
            Phase::Serving(_) => WAITING_MAX,
        }
    }

    /// What `epoll` should say of it.
    pub(crate) fn wants(&self) -> EventFlags {
        let mut wants = EventFlags::empty();
        wants.set(EventFlags::IN, self.may_receive());
        wants.set(EventFlags::OUT, self.blocked);
        wants
    }

    /// Whether it is done with: everything that will be answered has been.
    pub(crate) fn is_over(&self) -> bool {
        // A write whose data will never be here is not waited for.
        let awaited = self.outstanding - u32::from(self.payload.is_some());
        self.broken || (self.closing && awaited == 0 && self.out.is_empty() && !self.socket.wants_write())
    }

    /// Whether it has an export.
    pub(crate) const fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving(_))
    }

    /// Number of its export; of one that has none yet, the first, from which it has nothing.
    pub(crate) const fn export(&self) -> usize {
        match &self.phase {
            Phase::Serving(session) => session.export,
            Phase::Negotiating(_) => 0,
        }
    }

    /// Whether a write of it waits for memory.
    pub(crate) fn waits_for_intake(&self) -> bool {
        self.payload.as_ref().is_some_and(|payload| payload.intake.is_none())
    }

    /// Whether it has memory for data that comes too slowly to let others wait for it.
    pub(crate) fn hoards_intake(&self, now: Nanos) -> bool {
        let payload = self.payload.as_ref().filter(|payload| payload.intake.is_some());
        payload.is_some_and(|payload| {
            let whole = STALL.0 + u64::from(payload.request.length) * SLOWEST_BYTE.0;
            now.since(self.progress) > STALL || now.since(payload.since) > Nanos(whole)
        })
    }

    /// Whether bytes of it are here that may be looked at and that its socket will not announce.
    pub(crate) fn has_unannounced(&self) -> bool {
        self.socket.has_readable() && self.may_receive()
    }

    /// Whether everything was sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.out.is_empty() && !self.socket.wants_write()
    }

    pub(crate) fn has_output(&self) -> bool {
        (!self.out.is_empty() || self.socket.wants_write()) && !self.blocked && !self.broken
    }

    /// The bytes that are here and not taken.
    pub(crate) fn input(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// Takes bytes from the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end, "no more is taken than is there");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receives once: into the intake if data of a write is missing, into the inbox otherwise.
    pub(crate) fn receive(&mut self, now: Nanos, arena: &mut Arena) -> Received {
        let result = if self.input().is_empty() && self.payload.is_some() {
            self.receive_payload(arena)
        } else {
            self.receive_input()
        };
        match result {
            Ok((0, _)) => Received::End,
            Ok((bytes, room)) => {
                self.progress = now;
                if bytes < room { Received::Last } else { Received::Bytes(bytes) }
            }
            Err(problem) if is_later(&problem) => Received::Nothing,
            Err(_) => {
                self.broken = true;
                Received::End
            }
        }
    }

    /// Returns how many bytes came, and for how many there was room.
    fn receive_input(&mut self) -> io::Result<(usize, usize)> {
        if self.inbox.is_empty() {
            self.inbox.resize(INBOX_BYTES, 0);
        }
        if self.end == self.inbox.len() {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        assert!(self.end < self.inbox.len(), "the longest message fits the inbox");
        let room = self.inbox.len() - self.end;
        let bytes = self.socket.read(&mut self.inbox[self.end..])?;
        self.end += bytes;
        Ok((bytes, room))
    }

    fn receive_payload(&mut self, arena: &mut Arena) -> io::Result<(usize, usize)> {
        let payload = self.payload.as_mut().expect("asked while data is missing");
        let intake = payload.intake.as_ref().expect("received once there is memory");
        let (index, within) = payload.position();
        let missing = payload.missing();
        let until = (index + RECEIVE_BLOCKS).min(intake.len());
        let mut left = missing;
        let mut first = within;
        let mut slices = Vec::with_capacity(until - index);
        for block in arena.blocks_mut(&intake[index..until]) {
            let take = (BLOCK - first).min(left);
            slices.push(IoSliceMut::new(&mut block[first..first + take]));
            left -= take;
            first = 0;
        }
        let room = missing - left;
        let bytes = self.socket.read_vectored(&mut slices)?;
        payload.got += bytes;
        Ok((bytes, room))
    }

    /// Moves data of a write from the inbox to the intake. Returns the write when all of it is here.
    pub(crate) fn take_payload(&mut self, arena: &mut Arena) -> Option<Payload> {
        let mut moved = 0;
        let (start, end) = (self.start, self.end);
        let payload = self.payload.as_mut()?;
        let intake = payload.intake.as_ref()?;
        while payload.missing() > 0 && start + moved < end {
            let (index, within) = payload.position();
            let take = (BLOCK - within).min(payload.missing()).min(end - start - moved);
            let from = &self.inbox[start + moved..start + moved + take];
            arena.block_mut(intake[index])[within..within + take].copy_from_slice(from);
            payload.got += take;
            moved += take;
        }
        let complete = payload.missing() == 0;
        self.consume(moved);
        if complete { self.payload.take() } else { None }
    }

    /// A head is to be sent.
    pub(crate) fn send_head(&mut self, head: &[u8]) {
        let mut bytes = [0; 28];
        bytes[..head.len()].copy_from_slice(head);
        self.out.push_back(Segment::Head { bytes, len: head.len() });
    }

    /// Bytes of the negotiation are to be sent.
    pub(crate) fn send_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.out.push_back(Segment::Long(bytes));
        }
    }

    /// `len` bytes of an answer, from the byte `skip` of its first block, are to be sent.
    pub(crate) fn send_data(&mut self, answer: Answer, credit: u64, skip: usize, len: usize) {
        self.out.push_back(Segment::Data { answer, credit, skip, len });
    }

    /// Sends what the socket takes. Answers that are wholly sent are added to `finished`, with their credit.
    pub(crate) fn flush(&mut self, now: Nanos, volume: &Volume, finished: &mut Vec<(Answer, u64)>) {
        self.blocked = false;
        while !self.out.is_empty() && !self.broken {
            let mut slices = [IoSlice::new(&[]); SEND_PIECES];
            let most = if self.head_goes_ahead() { 1 } else { SEND_PIECES };
            let (count, bytes) = gather(&self.out, self.sent, volume, &mut slices[..most]);
            match self.socket.write_vectored(&slices[..count]) {
                Ok(0) => self.broken = true,
                Ok(sent) => {
                    self.progress = now;
                    self.advance(sent, finished);
                    // A socket that took less than it was offered is full; TLS takes it in pieces.
                    if sent < bytes && !self.socket.is_secure() {
                        self.blocked = true;
                        return;
                    }
                }
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return;
                }
                Err(_) => self.broken = true,
            }
        }
        match self.socket.push() {
            Ok(()) => {}
            Err(problem) if is_later(&problem) => self.blocked = true,
            Err(_) => self.broken = true,
        }
    }

    /// Whether the head of a long answer leaves before its data: a client of this machine that sleeps wakes up while the data is
    /// copied. With more answers behind it the client has enough to do.
    fn head_goes_ahead(&self) -> bool {
        let [Some(Segment::Head { .. }), Some(Segment::Data { len, .. }), None] =
            [self.out.front(), self.out.get(1), self.out.get(2)]
        else {
            return false;
        };
        self.sent == 0 && *len >= LONG_ANSWER && self.socket.is_plain_and_local()
    }

    fn advance(&mut self, sent: usize, finished: &mut Vec<(Answer, u64)>) {
        self.sent += sent;
        while let Some(first) = self.out.front() {
            let len = first.len();
            if self.sent < len {
                break;
            }
            self.sent -= len;
            if let Some(Segment::Data { answer, credit, .. }) = self.out.pop_front() {
                finished.push((answer, credit));
            }
        }
    }

    /// Gives up everything that is held: answers go to `finished`, the intake is returned.
    pub(crate) fn dismantle(&mut self, finished: &mut Vec<(Answer, u64)>) -> Option<Vec<u32>> {
        for segment in self.out.drain(..) {
            if let Segment::Data { answer, credit, .. } = segment {
                finished.push((answer, credit));
            }
        }
        self.payload.take().and_then(|payload| payload.intake)
    }
}

fn is_later(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Pieces of the segments from `sent` on, as many as fit one send. Returns how many, and their bytes.
fn gather<'a>(
    out: &'a VecDeque<Segment>,
    sent: usize,
    volume: &'a Volume,
    slices: &mut [IoSlice<'a>],
) -> (usize, usize) {
    let (mut count, mut bytes, mut skip) = (0, 0, sent);
    let slices_max = slices.len();
    let mut put = |piece: &'a [u8], count: &mut usize| {
        slices[*count] = IoSlice::new(piece);
        *count += 1;
        bytes += piece.len();
    };
    for segment in out {
        if count == slices_max {
            break;
        }
        match segment {
            Segment::Head { bytes, len } => put(&bytes[skip..*len], &mut count),
            Segment::Long(bytes) => put(&bytes[skip..], &mut count),
            Segment::Data { answer, skip: first, len, .. } => {
                let (mut at, end) = (first + skip, first + len);
                while at < end && count < slices_max {
                    let (from, blocks) = contiguous(volume, answer, at / BLOCK, end.div_ceil(BLOCK));
                    let run = volume.arena.run(from, blocks);
                    let take = (run.len() - at % BLOCK).min(end - at);
                    put(&run[at % BLOCK..at % BLOCK + take], &mut count);
                    at += take;
                }
            }
        }
        skip = 0;
    }
    (count, bytes)
}

/// The longest run of blocks from `index` on that lie one behind the other in memory.
fn contiguous(volume: &Volume, answer: &Answer, index: usize, end: usize) -> (u32, u32) {
    let from = volume.block_at(answer, index);
    let mut blocks = 1;
    while index + (blocks as usize) < end && volume.block_at(answer, index + blocks as usize) == from + blocks
    {
        blocks += 1;
    }
    (from, blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::wire::Command;
    use crate::socket::Stream;

    #[test]
    fn a_byte_now_and_then_does_not_keep_memory_that_others_wait_for() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut connection = Connection::new(Socket::plain(Stream::Unix(ours)), 1, Tls::Off, Nanos::ZERO);
        let request = Request { flags: 0, command: Command::Write, cookie: 1, offset: 0, length: 4 << 20 };
        let payload = Payload { request, intake: None, got: 0, since: Nanos::from_secs(100) };
        connection.payload = Some(payload);
        connection.progress = Nanos::from_secs(100);
        let at = |connection: &Connection, secs| connection.hoards_intake(Nanos::from_secs(secs));
        assert!(!at(&connection, 1000), "it has none");
        connection.payload.as_mut().expect("set").intake = Some((0..1024).collect());
        assert!(!at(&connection, 110) && at(&connection, 111), "nothing came for ten seconds");
        connection.progress = Nanos::from_secs(114);
        assert!(!at(&connection, 114), "4 MiB may take 14 s");
        connection.progress = Nanos::from_secs(115);
        assert!(at(&connection, 115), "and no longer, whatever came last");
    }
}
