//! What sessions ask for, done: reads, writes, flushes and hints go to the volume, and its answers back to whoever asked.
//!
//! A client's session says what it wants ([`Ask`]); the volume answers by its [`Tag`]. The client of an answer is there, even
//! if it has hung up: its session stays in its place until the last answer is here, so places and credit are not to be had
//! twice by asking and hanging up.

use super::served::Served;
use super::{ROUND_REQUESTS, Server};
use crate::nbd::session::{Ask, Ended, World};
use crate::nbd::wire::{Command, Errno, Request};
use crate::ticket::Tag;
use crate::volume::{Event, NewWrite};
use forerun_core::access::Context;
use forerun_core::units::{Extent, Nanos};

/// Most blocks of a hint; what is beyond is not read ahead, which a hint allows.
const HINT_BLOCKS_MAX: u64 = 1024;

impl Server {
    /// Does what a session wants, as long as it may go on: so many requests, then others come first.
    pub(super) fn serve(&mut self, now: Nanos, at: usize) {
        let (all, least) = ROUND_REQUESTS;
        let mut left = (all / self.serving.max(1)).max(least);
        while left > 0 {
            let Some(connection) = &self.connections[at] else { return };
            // Whoever is served already does not ask.
            let full = !connection.session.is_serving() && self.is_full();
            let Some(connection) = &mut self.connections[at] else { return };
            let Served { volume, shared, changed, .. } = &mut self.served[connection.session.export()];
            let world = World { exports: &self.exports, full, failed: changed.is_some() };
            let Some(ask) = connection.session.next(&world, shared, &mut volume.arena) else { return };
            left -= u32::from(ask.is_request());
            self.fulfil(now, at, ask);
        }
        self.unsettled = true;
    }

    /// Whether all places are taken. Those of clients whose exports' members do not answer do not count against others, up to as many
    /// as there are.
    fn is_full(&self) -> bool {
        let mut hung = 0;
        if self.served.iter().any(|served| served.volume.is_hung()) {
            let waits = |connection: &&crate::connection::Connection| {
                let session = &connection.session;
                session.is_serving() && self.served[session.export()].volume.is_hung()
            };
            hung = (self.connections.iter().flatten().filter(waits).count() as u32).min(self.serving_max);
        }
        self.serving - hung.min(self.serving) >= self.serving_max
    }

    fn fulfil(&mut self, now: Nanos, at: usize, ask: Ask) {
        match ask {
            Ask::Say => self.send(now, at),
            Ask::StartTls => self.start_tls(now, at),
            Ask::Begin => {
                self.serving += 1;
                self.volume_of(at).0.client_came();
                self.send(now, at);
            }
            Ask::Read(request) => self.taken(at, request),
            Ask::Part(ticket, extent) => {
                let (volume, context) = self.volume_of(at);
                volume.read(Tag { client: at as u32, ticket }, context, extent);
            }
            Ask::Memory(request) => {
                self.taken(at, request);
                self.want_memory(now, at);
            }
            Ask::Write(ticket, request, intake) => {
                let (volume, context) = self.volume_of(at);
                let tag = Tag { client: at as u32, ticket };
                volume.write(NewWrite::of(tag, context, &request, intake));
            }
            Ask::Flush(ticket, request) => {
                self.taken(at, request);
                self.volume_of(at).0.flush(Tag { client: at as u32, ticket });
            }
            Ask::Zero(ticket, request) => {
                self.taken(at, request);
                let (volume, context) = self.volume_of(at);
                volume.zero(Tag { client: at as u32, ticket }, context, &request);
            }
            Ask::Status(ticket, request) => {
                self.taken(at, request);
                self.volume_of(at).0.map(Tag { client: at as u32, ticket }, &request);
            }
            Ask::Hint(request) => {
                self.taken(at, request);
                self.hint(at, &request);
                self.ended(at, Ended { request, error: false });
            }
            Ask::Ended(ended) => self.ended(at, ended),
        }
    }

    /// The volume of a client, and who the client is for the schemes.
    fn volume_of(&mut self, at: usize) -> (&mut crate::volume::Volume, Context) {
        let connection = self.connections[at].as_ref().expect("it asks");
        (&mut self.served[connection.session.export()].volume, Context::new(connection.number, 0))
    }

    /// The answer to STARTTLS goes out, and TLS begins. A client waits for that answer, so bytes of it that are here already
    /// are not its own or not of this protocol: they must neither be taken for part of the session nor be forgotten.
    fn start_tls(&mut self, now: Nanos, at: usize) {
        self.send(now, at);
        let Some(connection) = &mut self.connections[at] else { return };
        let clean = !connection.session.has_input() && connection.is_flushed();
        let config = self.tls.as_ref().filter(|_| clean);
        let begun =
            config.zip(connection.socket.as_mut()).is_some_and(|(tls, socket)| socket.secure(tls).is_ok());
        if !begun {
            connection.session.lose();
        }
    }

    /// A request was taken.
    fn taken(&mut self, at: usize, request: Request) {
        self.requests_of_turn += 1;
        let Some(record) = &mut self.record else { return };
        if let (Some(connection), Command::Read | Command::Write) = (&self.connections[at], request.command) {
            let export = connection.session.export();
            let row = crate::record::Recorded {
                client: connection.number,
                cookie: request.cookie,
                export,
                offset: request.offset,
                bytes: request.length,
                write: request.command == Command::Write,
            };
            record.asked(self.served[export].volume.now(), row);
        }
    }

    /// A client says what it will read: the first blocks of it are read ahead, if reading ahead has room for them.
    fn hint(&mut self, at: usize, request: &Request) {
        let (volume, context) = self.volume_of(at);
        let extent = request.range().blocks();
        let room = (volume.spec.cache_blocks / 8).min(HINT_BLOCKS_MAX);
        let flying = volume.hints_in_flight();
        if flying + extent.blocks.min(room) <= room {
            volume.hint(context, Extent { start: extent.start, blocks: extent.blocks.min(room) });
        }
    }

    /// The volume has an answer.
    pub(super) fn answer(&mut self, event: Event) {
        self.answers_of_turn += 1;
        let tag = event.tag();
        let at = tag.client as usize;
        let connection = self.connections[at].as_mut().expect("a client stays until its answers are here");
        let session = &mut connection.session;
        let served = &mut self.served[session.export()];
        let failed = served.changed.is_some();
        let ended = match event {
            Event::Read { result: Ok(answer), .. } if failed => {
                served.volume.release(answer);
                session.part(tag.ticket, Err(Errno::Io), &mut served.shared)
            }
            Event::Read { result, .. } => session.part(tag.ticket, result, &mut served.shared),
            Event::Written { error, .. } | Event::Flushed { error, .. } => {
                session.acknowledge(tag.ticket, error.or(failed.then_some(Errno::Io)))
            }
            Event::Mapped { result, .. } => {
                let runs = result.as_deref().map_err(|&error| error);
                session.describe(tag.ticket, if failed { Err(Errno::Io) } else { runs })
            }
        };
        if let Some(ended) = ended {
            self.ended(at, ended);
        }
        self.leave(at);
    }

    /// A client that has gone leaves its place once its last answer is here.
    pub(super) fn leave(&mut self, at: usize) {
        if let Some(gone) = self.connections[at].take_if(|connection| connection.session.is_done()) {
            self.serving -= u32::from(gone.session.is_serving());
        }
    }

    /// A request was answered: it is counted, and the trace hears of it.
    fn ended(&mut self, at: usize, Ended { request, error }: Ended) {
        let Some(connection) = &self.connections[at] else { return };
        let served = &mut self.served[connection.session.export()];
        if error {
            served.counts.errors += 1;
            return;
        }
        if let (Some(record), Command::Read | Command::Write) = (&mut self.record, request.command) {
            record.answered(served.volume.now(), connection.number, request.cookie);
        }
        let (counts, bytes) = (&mut served.counts, u64::from(request.length));
        match request.command {
            Command::Read => {
                (counts.reads, counts.bytes_read) = (counts.reads + 1, counts.bytes_read + bytes)
            }
            Command::Write => {
                (counts.writes, counts.bytes_written) = (counts.writes + 1, counts.bytes_written + bytes);
            }
            Command::Flush => counts.flushes += 1,
            Command::Trim | Command::WriteZeroes => counts.writes += 1,
            Command::BlockStatus => {}
            _ => counts.hints += 1,
        }
    }
}
