//! The requests of a kernel's block device as a client's stream: what the loop reads are requests of the protocol, and what it
//! sends are their answers.
//!
//! ```text
//!   kernel --tag, description--> Stream --28 bytes--> session       data of a write: from the request's pages to the intake
//!   kernel <--result------------ Stream <--heads----- session       data of a read: from the cache to the request's pages
//! ```
//!
//! So a device is a client like all others, with the same limits, order and errors, and nothing behind the session knows that it
//! is none. Only heads are made and read here; data is copied once, by the kernel, between a request's pages and where
//! the loop has it. The tag of a request is its cookie.

use crate::nbd::replies::{Part, Replies, What};
use crate::nbd::wire::{self, Command, Errno, REQUEST_BYTES, Request, request_bytes};
use crate::raw::ublk::{Came, Description, Queue};
use forerun_core::units::SECTOR_BYTES;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

/// Kinds of requests (`UBLK_IO_OP_*`) and their flags (`UBLK_IO_F_*`).
const KIND: u32 = 0xff;
const FUA: u32 = 1 << 13;
const NO_UNMAP: u32 = 1 << 15;
/// Pieces of one copy: as many as the loop sends at once.
const PIECES: usize = 128;

/// What a request of the kernel is in the protocol, its writes `durable` whether it says so or not; nothing for what was not offered.
fn request_of(tag: u16, about: Description, durable: bool) -> Option<Request> {
    let has = |flag: u32| about.flags & flag != 0;
    let command = match about.flags & KIND {
        0 => Command::Read,
        1 => Command::Write,
        2 => Command::Flush,
        3 => Command::Trim,
        5 => Command::WriteZeroes,
        _ => return None,
    };
    let changes = !matches!(command, Command::Read | Command::Flush);
    let durable = changes && (durable || has(FUA));
    let keep = command == Command::WriteZeroes && has(NO_UNMAP);
    let flags = if durable { wire::request::FUA } else { 0 } | if keep { wire::request::NO_HOLE } else { 0 };
    let (offset, bytes) = match command {
        Command::Flush => (0, 0),
        _ => (about.first.checked_mul(SECTOR_BYTES)?, u64::from(about.sectors) * SECTOR_BYTES),
    };
    Some(Request { flags, command, cookie: u64::from(tag), offset, length: u32::try_from(bytes).ok()? })
}

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
struct Asked {
    request: Request,
    /// Bytes of a read that have come.
    came: u64,
    /// Why it has failed.
    failed: Option<i32>,
}

/// Data that is next in the stream, of a request's pages.
#[derive(Clone, Copy, Debug)]
struct Data {
    tag: u16,
    at: u64,
    left: u64,
    /// Nothing more comes of its answer.
    last: bool,
}

/// Both ends of a device's requests.
#[derive(Debug)]
pub(crate) struct Stream {
    queue: Queue,
    durable: bool,
    asked: Vec<Option<Asked>>,
    /// The head of the request that is next to be read, and how much of it was.
    head: ([u8; REQUEST_BYTES], usize),
    /// Data of a write that follows it.
    incoming: Option<Data>,
    replies: Replies,
    /// Data of a read that follows the head of an answer.
    outgoing: Option<Data>,
    ended: bool,
}

impl Stream {
    /// Of a queue whose requests nobody has begun to take; of `durable` ones every write is.
    pub(crate) fn new(queue: Queue, durable: bool) -> Self {
        Self {
            asked: vec![None; usize::from(queue.depth())],
            queue,
            durable,
            head: ([0; REQUEST_BYTES], REQUEST_BYTES),
            incoming: None,
            replies: Replies::new(true),
            outgoing: None,
            ended: false,
        }
    }

    /// Takes requests from now on, by the thread that answers them.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.queue.begin()
    }

    /// Whether there is something to be read.
    pub(crate) fn has_readable(&self) -> bool {
        self.head.1 < REQUEST_BYTES || self.incoming.is_some() || self.queue.has_come()
    }

    /// Sends the answers that are whole.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        self.queue.push()
    }

    /// The next request; whether there is one.
    fn advance(&mut self) -> bool {
        loop {
            let (tag, about) = match self.queue.next() {
                None => return false,
                Some(Came::End) => {
                    self.ended = true;
                    continue;
                }
                Some(Came::Request(tag, about)) => (tag, about),
            };
            let Some(request) = request_of(tag, about, self.durable) else {
                self.queue.answer(tag, -(Errno::NotSup as i32));
                // What the kernel does not take now it takes with the next answer.
                let _ = self.queue.push();
                continue;
            };
            self.asked[usize::from(tag)] = Some(Asked { request, came: 0, failed: None });
            self.head = (request_bytes(&request), 0);
            let left = if request.command == Command::Write { u64::from(request.length) } else { 0 };
            self.incoming = (left > 0).then_some(Data { tag, at: 0, left, last: true });
            return true;
        }
    }

    /// Data of the write whose head was read.
    fn take(&mut self, mut data: Data, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let took = self.queue.take(data.tag, data.at, into)?;
        if took == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (data.at, data.left) = (data.at + took as u64, data.left.saturating_sub(took as u64));
        self.incoming = (data.left > 0).then_some(data);
        Ok(took)
    }

    /// Heads of requests, as many as there are up to the next data, or that data.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            let (head, at) = &mut self.head;
            let count = (REQUEST_BYTES - *at).min(buffer.len() - filled);
            buffer[filled..filled + count].copy_from_slice(&head[*at..*at + count]);
            (*at, filled) = (*at + count, filled + count);
            if *at < REQUEST_BYTES || (filled > 0 && self.incoming.is_some()) {
                return Ok(filled);
            }
            if let Some(data) = self.incoming {
                let most = buffer.len().min(usize::try_from(data.left).unwrap_or(usize::MAX));
                return self.take(data, &mut [IoSliceMut::new(&mut buffer[..most])]);
            }
            if !self.advance() {
                break;
            }
        }
        match filled {
            // It may have been the tags of answers that are on their way: the session hears of it when all else was read.
            0 if self.ended => Ok(0),
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(filled),
        }
    }

    /// The same into several pieces, which are not longer than the data that is next.
    pub(crate) fn read_vectored(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.incoming {
            Some(data) if self.head.1 == REQUEST_BYTES => self.take(data, pieces),
            _ => pieces.first_mut().map_or(Ok(0), |piece| self.read(piece)),
        }
    }

    /// Takes answers: all of them.
    pub(crate) fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let (mut piece, mut at, mut taken) = (0, 0, 0);
        while piece < pieces.len() {
            if at == pieces[piece].len() {
                (piece, at) = (piece + 1, 0);
                continue;
            }
            let count = if let Some(data) = self.outgoing {
                self.give(data, &pieces[piece..], at)
            } else {
                let room = self.replies.room();
                let count = room.len().min(pieces[piece].len() - at);
                room[..count].copy_from_slice(&pieces[piece][at..at + count]);
                if let Some(part) = self.replies.got(count).map_err(io::Error::other)? {
                    self.part(&part)?;
                }
                count
            };
            taken += count;
            at += count;
            while piece < pieces.len() && at > pieces[piece].len() {
                at -= pieces[piece].len();
                piece += 1;
            }
        }
        Ok(taken)
    }

    /// Data of an answer goes to its request; returns how much of the pieces it was.
    fn give(&mut self, mut data: Data, pieces: &[IoSlice<'_>], first: usize) -> usize {
        let mut list = [IoSlice::new(&[]); PIECES];
        let (mut count, mut bytes, mut from) = (0, 0, first);
        for (slot, piece) in list.iter_mut().zip(pieces) {
            let most = usize::try_from(data.left).unwrap_or(usize::MAX) - bytes;
            let take = (piece.len() - from).min(most);
            if take == 0 {
                break;
            }
            *slot = IoSlice::new(&piece[from..from + take]);
            (count, bytes, from) = (count + 1, bytes + take, 0);
        }
        let gave = self.queue.give(data.tag, data.at, &list[..count]);
        if let Some(asked) = &mut self.asked[usize::from(data.tag)] {
            match gave {
                Ok(gave) if gave == bytes => asked.came += bytes as u64,
                // A device that is being removed has no pages any more.
                _ => asked.failed = Some(Errno::Io as i32),
            }
        }
        (data.at, data.left) = (data.at + bytes as u64, data.left - bytes as u64);
        self.outgoing = (data.left > 0).then_some(data);
        if data.left == 0 && data.last {
            self.end(data.tag);
        }
        bytes
    }

    /// The head of an answer, or of a part of one, is here.
    fn part(&mut self, part: &Part) -> io::Result<()> {
        let tag = u16::try_from(part.cookie).map_err(io::Error::other)?;
        let asked = self.asked.get_mut(usize::from(tag)).and_then(Option::as_mut);
        let asked = asked.ok_or_else(|| io::Error::other("an answer of no request"))?;
        match part.what {
            What::Done => {}
            What::Failed(why) => asked.failed = Some(i32::try_from(why).unwrap_or(Errno::Io as i32)),
            What::Data(first, left) => {
                let at = first.checked_sub(asked.request.offset);
                let at = at.filter(|at| at + left <= u64::from(asked.request.length));
                let at = at.ok_or_else(|| io::Error::other("an answer beyond its request"))?;
                self.outgoing = Some(Data { tag, at, left, last: part.last });
                return Ok(());
            }
            What::All | What::Zeros(..) | What::Runs(..) => {
                return Err(io::Error::other("an answer that nobody asked for"));
            }
        }
        if part.last {
            self.end(tag);
        }
        Ok(())
    }

    /// A request is answered.
    fn end(&mut self, tag: u16) {
        let Some(Asked { request, came, failed }) = self.asked[usize::from(tag)].take() else { return };
        let whole = request.command != Command::Read || came == u64::from(request.length);
        let moved = match request.command {
            Command::Read | Command::Write => request.length as i32,
            _ => 0,
        };
        let failed = failed.or((!whole).then_some(Errno::Io as i32));
        self.queue.answer(tag, failed.map_or(moved, |why| -why));
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_the_kernel_is_one_of_the_protocol() {
        let of =
            |durable, flags, sectors, first| request_of(7, Description { flags, sectors, first }, durable);
        let about = |flags, sectors, first| of(false, flags, sectors, first);
        let request =
            |command, flags, offset, length| Some(Request { flags, command, cookie: 7, offset, length });
        assert_eq!(about(0, 8, 16), request(Command::Read, 0, 8192, 4096));
        assert_eq!(about(1, 1, 0), request(Command::Write, 0, 0, 512));
        assert_eq!(about(1 | FUA, 1, 0), request(Command::Write, wire::request::FUA, 0, 512));
        assert_eq!(about(2, 0, 9), request(Command::Flush, 0, 0, 0), "offset and length of a flush are zero");
        assert_eq!(about(3, 8, 8), request(Command::Trim, 0, 4096, 4096));
        assert_eq!(about(5, 8, 8), request(Command::WriteZeroes, 0, 4096, 4096));
        assert_eq!(
            about(5 | NO_UNMAP, 8, 8),
            request(Command::WriteZeroes, wire::request::NO_HOLE, 4096, 4096)
        );
        assert_eq!(of(true, 1, 1, 0), request(Command::Write, wire::request::FUA, 0, 512));
        assert_eq!(of(true, 2 | FUA, 0, 0), request(Command::Flush, 0, 0, 0), "nothing is written by it");
        assert_eq!(of(true, FUA, 8, 16), request(Command::Read, 0, 8192, 4096));
        assert_eq!(about(4, 8, 8), None, "what was not offered");
        assert_eq!((about(0, u32::MAX, 0), about(0, 1, u64::MAX)), (None, None), "what cannot be");
    }
}
