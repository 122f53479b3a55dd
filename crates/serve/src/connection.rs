//! One client: its socket, and the session that its bytes make.
//!
//! Bytes of requests go from the socket into the session's inbox, those of a WRITE's data into intake memory. What is to be
//! sent goes from where it lies, in the session or in the cache, to the socket in one call.

use crate::nbd::handshake::{Terms, Tls};
use crate::nbd::session::{Room, Session, Shared};
use crate::raw::{Arena, BLOCK};
use crate::socket::Socket;
use crate::volume::{Answer, Volume};
use forerun_core::units::Nanos;
use rustix::event::epoll::EventFlags;
use std::io::{self, IoSlice, IoSliceMut};

/// Pieces of one send: 64 answers of 4 KiB with their heads.
const SEND_PIECES: usize = 128;
/// How long a client may keep intake memory that others wait for without sending a byte, and how far behind [`SLOWEST_BYTE`] it
/// may be.
const STALL: Nanos = Nanos::from_secs(5);
/// How long it may take over each byte beyond that, so that a byte now and then is not enough: 1 MB/s.
const SLOWEST_BYTE: Nanos = Nanos(1000);
/// Bytes that one client may send in one turn of the loop, so that others come to theirs: 1 MiB.
pub(crate) const TURN_BYTES_MAX: usize = 1 << 20;

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
    /// None when it has gone; then its session waits for the last answers.
    pub(crate) socket: Option<Socket>,
    /// Tells it from all others there ever were; the context of its accesses.
    pub(crate) number: u64,
    pub(crate) session: Session<Answer>,
    pub(crate) since: Nanos,
    /// When its socket last took or gave a byte.
    pub(crate) progress: Nanos,
    /// When the data of its write got memory.
    pub(crate) granted: Nanos,
    pub(crate) interest: EventFlags,
    blocked: bool,
    /// Why its certificate was refused, until somebody has said so.
    pub(crate) refused: Option<String>,
}

impl Connection {
    pub(crate) fn new(socket: Socket, number: u64, tls: Tls, now: Nanos) -> Self {
        Self {
            socket: Some(socket),
            number,
            session: Session::new(tls),
            since: now,
            progress: now,
            granted: now,
            interest: EventFlags::empty(),
            blocked: false,
            refused: None,
        }
    }

    /// A client that has this export already.
    pub(crate) fn serving(socket: Socket, number: u64, terms: Terms, now: Nanos) -> Self {
        Self { session: Session::serving(terms), ..Self::new(socket, number, Tls::Off, now) }
    }

    /// What `epoll` should say of it.
    pub(crate) fn wants(&self) -> EventFlags {
        let mut wants = EventFlags::empty();
        wants.set(EventFlags::IN, self.session.may_receive());
        wants.set(EventFlags::OUT, self.blocked);
        wants
    }

    /// Whether bytes that were taken wait for the socket.
    fn owes(&self) -> bool {
        self.socket.as_ref().is_some_and(Socket::wants_write)
    }

    /// Whether it is done with: everything that will be answered has been.
    pub(crate) fn is_over(&self) -> bool {
        self.session.is_lost() || (self.session.is_over() && !self.owes())
    }

    /// Whether it has memory for data that comes too slowly to let others wait for it.
    pub(crate) fn hoards_intake(&self, now: Nanos) -> bool {
        self.session.incoming().is_some_and(|(_, got)| {
            let behind = now.since(self.granted) > Nanos(STALL.0 + got * SLOWEST_BYTE.0);
            behind || now.since(self.progress.max(self.granted)) > STALL
        })
    }

    /// Whether bytes of it are here that may be looked at and that its socket will not announce.
    pub(crate) fn has_unannounced(&self) -> bool {
        self.socket.as_ref().is_some_and(Socket::has_readable) && self.session.may_receive()
    }

    /// Whether everything was sent.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.session.has_output() && !self.owes()
    }

    pub(crate) fn has_output(&self) -> bool {
        (self.session.has_output() || self.owes()) && !self.blocked && !self.session.is_lost()
    }

    /// Receives once: into intake memory if data of a write is missing, into the inbox otherwise.
    pub(crate) fn receive(&mut self, now: Nanos, arena: &mut Arena) -> Received {
        let Some(socket) = &mut self.socket else { return Received::End };
        let (room, result) = match self.session.room() {
            Room::Inbox(buffer) => (buffer.len(), socket.read(buffer)),
            Room::Memory { blocks, first, bytes } => (bytes, scatter(socket, arena, blocks, first, bytes)),
        };
        match result {
            Ok(0) => Received::End,
            Ok(bytes) => {
                self.session.received(bytes);
                self.progress = now;
                let last = bytes < room && !socket.has_readable();
                if last { Received::Last } else { Received::Bytes(bytes) }
            }
            Err(problem) if is_later(&problem) => Received::Nothing,
            Err(problem) => {
                self.refused = crate::tls::refused_certificate(&problem);
                self.session.lose();
                Received::End
            }
        }
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self, now: Nanos, volume: &Volume, shared: &mut Shared<Answer>) {
        self.blocked = false;
        let Some(socket) = &mut self.socket else { return };
        while self.session.has_output() {
            let mut slices = [IoSlice::new(&[]); SEND_PIECES];
            let ahead = self.session.begins_long_answer() && socket.is_plain_and_local();
            let most = if ahead { 1 } else { SEND_PIECES };
            let (count, bytes) = self.session.gather(volume, &mut slices[..most]);
            match socket.write_vectored(&slices[..count]) {
                Ok(0) => self.session.lose(),
                Ok(sent) => {
                    self.progress = now;
                    self.session.sent(sent, shared);
                    // A socket that took less than it was offered is full; TLS takes it in pieces.
                    if sent < bytes && !socket.is_secure() {
                        self.blocked = true;
                        return;
                    }
                }
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return;
                }
                Err(_) => self.session.lose(),
            }
        }
        match socket.push() {
            Ok(()) => {}
            Err(problem) if is_later(&problem) => self.blocked = true,
            Err(_) => self.session.lose(),
        }
    }
}

fn is_later(problem: &io::Error) -> bool {
    matches!(problem.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Receives up to `bytes` bytes into blocks of the arena, from the byte `first` of the first on.
fn scatter(
    socket: &mut Socket,
    arena: &mut Arena,
    blocks: &[u32],
    mut first: usize,
    mut bytes: usize,
) -> io::Result<usize> {
    let mut slices = Vec::with_capacity(blocks.len());
    for block in arena.blocks_mut(blocks) {
        let take = (BLOCK - first).min(bytes);
        slices.push(IoSliceMut::new(&mut block[first..first + take]));
        bytes -= take;
        first = 0;
    }
    socket.read_vectored(&mut slices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::handshake::{Export, export_flags, option_bytes};
    use crate::nbd::session::{Ask, World};
    use crate::nbd::wire::{Command, Request, request_bytes};
    use crate::socket::Transport;
    use std::io::Write as _;

    #[test]
    fn a_byte_now_and_then_does_not_keep_memory_that_others_wait_for() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut connection = Connection::new(Socket::plain(Transport::Unix(ours)), 1, Tls::Off, Nanos::ZERO);
        let mut arena = Arena::new(0, 1024).expect("memory");
        let mut shared = Shared { credit: crate::nbd::credit::Credit::new(4096, 1), back: Vec::new() };
        let name = String::new();
        let exports =
            [Export { name, description: String::new(), size: 8 << 20, flags: export_flags(false, false) }];
        let world = World { exports: &exports, full: false, failed: false };
        theirs.write_all(&3_u32.to_be_bytes()).expect("sent");
        theirs.write_all(&option_bytes(7, &[0; 6])).expect("sent");
        let request = Request { flags: 0, command: Command::Write, cookie: 1, offset: 0, length: 4 << 20 };
        theirs.write_all(&request_bytes(&request)).expect("sent");
        connection.receive(Nanos::ZERO, &mut arena);
        loop {
            match connection.session.next(&world, &mut shared, &mut arena).expect("a write comes") {
                Ask::Memory(_) => break,
                _ => connection
                    .session
                    .sent(connection.session.gather(&NoAnswers, &mut [IoSlice::new(&[]); 8]).1, &mut shared),
            }
        }
        let at = |connection: &Connection, secs| connection.hoards_intake(Nanos::from_secs(secs));
        assert!(!at(&connection, 1000), "it has none");
        connection.granted = Nanos::from_secs(100);
        connection.session.grant((0..1024).collect());
        assert!(!at(&connection, 105) && at(&connection, 106), "nothing came for five seconds");
        let mut send = |connection: &mut Connection, secs, bytes: usize| {
            theirs.write_all(&vec![7; bytes]).expect("sent");
            assert_eq!(connection.receive(Nanos::from_secs(secs), &mut arena), Received::Last);
        };
        send(&mut connection, 104, 100_000);
        assert!(!at(&connection, 105), "a tenth of a megabyte may take a tenth of a second beyond");
        send(&mut connection, 105, 1);
        assert!(at(&connection, 106), "and no longer, whatever came last");
    }

    /// A session that has no answers.
    struct NoAnswers;
    impl crate::nbd::session::Blocks<Answer> for NoAnswers {
        fn run(&self, _: &Answer, _: usize, _: usize) -> &[u8] {
            &[]
        }
    }
}
