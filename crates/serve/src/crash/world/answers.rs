//! What the volume and the sessions answer, and whether they may.

use super::World;
use crate::crash::client::{Op, Reply};
use crate::crash::stamp::{GRAIN, ZERO, decode};
use crate::nbd::wire::{Command, Errno, Request, export, request};
use crate::volume::Event;
use std::io::IoSlice;

/// Pieces of one send.
const PIECES: usize = 64;

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Failed,
    /// A member has no space left, as its client is told.
    NoSpace,
}

impl Outcome {
    pub(super) const fn of(error: bool) -> Self {
        if error { Self::Failed } else { Self::Done }
    }
}

impl World {
    /// Answers of the volume go to their sessions.
    pub(super) fn take_events(&mut self) -> Result<(), String> {
        while let Some(event) = self.volume.event() {
            let tag = event.tag();
            let at = tag.client as usize;
            let client = self.clients.get_mut(at).and_then(Option::as_mut);
            let client = client.ok_or("an answer for a client that is not there")?;
            self.tally.answers += 1;
            client.heard_of = self.now;
            let full = matches!(event, Event::Written { error: Some(Errno::NoSpace), .. });
            let ended = match event {
                Event::Read { result, .. } => client.session.part(tag.ticket, result, &mut self.shared),
                Event::Written { error, .. } | Event::Flushed { error, .. } => {
                    client.session.acknowledge(tag.ticket, error)
                }
                Event::Mapped { result, .. } => {
                    client.session.describe(tag.ticket, result.as_deref().map_err(|&error| error))
                }
            };
            if let Some(ended) = ended {
                let outcome = if full { Outcome::NoSpace } else { Outcome::of(ended.error) };
                self.ended(at, ended.request, outcome)?;
            }
            self.leave(at);
        }
        Ok(())
    }

    /// A client that has gone leaves its place once its last answer is here.
    pub(super) fn leave(&mut self, at: usize) {
        drop(self.clients[at].take_if(|client| client.session.is_done()));
    }

    /// Answers that are done with go back to the volume.
    pub(super) fn release(&mut self) {
        for answer in self.shared.back.drain(..) {
            self.volume.release(answer);
        }
    }

    /// A request has its answer, which may not be taken yet. From here on the server has promised.
    pub(super) fn ended(&mut self, at: usize, request: Request, outcome: Outcome) -> Result<(), String> {
        let error = outcome != Outcome::Done;
        self.tally.answers += 1;
        self.tally.errors += u64::from(error);
        let client = self.clients[at].as_ref().expect("it has asked");
        let number = client.number;
        if request.command == Command::Read {
            // Judged when its client has heard it: an error is heard before the last of the parts is here.
            return Ok(());
        }
        let op = client.ops.get(&request.cookie).ok_or("something ended that nobody asked")?;
        if let Some(story) = &mut self.story {
            let time = self.now.0 as f64 / 1e9;
            story.push_back(format!("{time:.6} s: client {number}: {request:?} ends, error: {error}"));
        }
        if error {
            self.may_fail(op, outcome)?;
        } else {
            match request.command {
                Command::Write | Command::WriteZeroes | Command::Trim => {
                    let order = self.arrivals_of(op)?;
                    let all = self.exports[0].size as usize / GRAIN;
                    for grain in op.changed_grains(all) {
                        let at = self.places.there[grain];
                        self.floors.acknowledge(at, order);
                        if request.flags & request::FUA != 0 && !self.weather.lies {
                            self.floors.promise(at, order);
                        }
                    }
                }
                Command::Flush => {
                    self.last_good_flush = op.arrived.unwrap_or(self.now);
                    if !self.weather.lies {
                        self.floors.flushed(&op.floors);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The order of a write.
    fn arrivals_of(&self, op: &Op) -> Result<u32, String> {
        let stamp = crate::crash::stamp::stamp(0, op.version);
        self.wires.disks().order_of(stamp, 0)
    }

    /// Whether an error is no surprise.
    fn may_fail(&self, op: &Op, outcome: Outcome) -> Result<(), String> {
        let disks = self.wires.disks();
        let Request { command, flags, .. } = op.request;
        let refused = self.exports[0].flags & export::SEND_FLUSH == 0
            && (command == Command::Flush || flags & request::FUA != 0);
        // Whoever writes hears of a member that is full, and the next flush of a write that failed.
        let full = outcome == Outcome::NoSpace || command == Command::Flush;
        let behind = self.under.as_ref().is_some_and(|under| under.faulty || under.full && full);
        let written = command != Command::Read && (disks.blame.sync || behind);
        let flushed = command == Command::Flush && disks.blame.write >= self.last_good_flush;
        if refused || written || flushed || disks.is_excused(op.sent, op.blocks()) {
            return Ok(());
        }
        Err(format!("{:?} fails, and no member has failed what it needs", op.request))
    }

    /// A client takes what it was told, so many bytes at most.
    pub(super) fn listen(&mut self, at: usize, most: usize) -> Result<(), String> {
        let mut left = most;
        loop {
            let Some(Some(client)) = self.clients.get_mut(at) else { return Ok(()) };
            if left == 0 || !client.session.has_output() {
                break;
            }
            let mut slices = [IoSlice::new(&[]); PIECES];
            let (count, _) = client.session.gather(&self.volume, &mut slices);
            let mut taken = Vec::new();
            for slice in &slices[..count] {
                let part = slice.len().min(left - taken.len());
                taken.extend_from_slice(&slice[..part]);
                if taken.len() == left {
                    break;
                }
            }
            left -= taken.len();
            client.session.sent(taken.len(), &mut self.shared);
            client.hear(&taken);
            client.heard_of = self.now;
            self.release();
        }
        while let Some(Some(client)) = self.clients.get_mut(at) {
            let Some(reply) = client.reply()? else { break };
            self.hear(at, &reply)?;
        }
        Ok(())
    }

    /// A client has a whole answer.
    fn hear(&mut self, at: usize, reply: &Reply) -> Result<(), String> {
        let client = self.clients[at].as_mut().expect("it listens");
        let op = client.ops.remove(&reply.cookie).ok_or("an answer that nobody waits for")?;
        let number = client.number;
        self.tell(|| format!("client {number} hears of {:?}, failed: {}", op.request, reply.failed));
        match (op.request.command, reply.failed) {
            (Command::Read, false) => self.is_true(&op, reply),
            (Command::Read, true) => self.may_fail(&op, Outcome::Failed),
            (Command::BlockStatus, false) => self.is_empty(&op, reply),
            // Judged when it was answered.
            _ => Ok(()),
        }
    }

    /// Whether what is called a hole may be read as zeros, by the same measure as what is read.
    fn is_empty(&self, op: &Op, reply: &Reply) -> Result<(), String> {
        let disks = self.wires.disks();
        let mut grain = op.grains().start;
        for &(bytes, flags) in &reply.runs {
            let end = grain + bytes as usize / GRAIN;
            if bytes == 0 || end > op.grains().end {
                return Err(format!("{:?} tells of {:?}", op.request, reply.runs));
            }
            for number in (grain..end).filter(|_| flags != 0) {
                let at = self.places.there[number];
                if disks.is_tainted(at) {
                    continue;
                }
                let order = disks.order_of(ZERO, number as u32);
                let order = order.map_err(|why| format!("{:?} tells of a hole: {why}", op.request))?;
                let floor = op.floors[number - op.grains().start];
                if !self.floors.may_be_read(order, floor) {
                    return Err(format!(
                        "{:?} tells of a hole at grain {number}, where write {floor} was acknowledged before it",
                        op.request
                    ));
                }
            }
            grain = end;
        }
        if grain == op.grains().start { Err(format!("{:?} tells nothing", op.request)) } else { Ok(()) }
    }

    /// Whether a read brought all that it asked for, and nothing older than what was acknowledged when it arrived.
    fn is_true(&self, op: &Op, reply: &Reply) -> Result<(), String> {
        let disks = self.wires.disks();
        let mut next = op.request.offset;
        for (offset, bytes) in &reply.data {
            if *offset != next || bytes.len() % GRAIN != 0 {
                return Err(format!("{:?}: a part begins at {offset}, not at {next}", op.request));
            }
            for grain in bytes.chunks_exact(GRAIN) {
                let number = (next / GRAIN as u64) as usize;
                next += GRAIN as u64;
                let at = self.places.there[number];
                if disks.is_tainted(at) {
                    continue;
                }
                let order = disks.order_of(decode(grain), number as u32);
                let order = order.map_err(|why| format!("{:?} brings wrong bytes: {why}", op.request))?;
                let floor = op.floors[number - op.grains().start];
                if !self.floors.may_be_read(order, floor) {
                    return Err(format!(
                        "{:?} brings write {order} of grain {number}, and write {floor} was acknowledged before it",
                        op.request
                    ));
                }
            }
        }
        if next == op.request.offset + u64::from(op.request.length) {
            return Ok(());
        }
        Err(format!("{:?} brings {} bytes", op.request, next - op.request.offset))
    }
}
