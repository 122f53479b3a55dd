//! A member that is an export of another machine (`nbd://HOST/NAME`, with TLS `nbds://`): tasks become requests, several in flight.
//!
//! ```text
//!   task --cut at the server's limit--> asks --waiting--> sent --reply, data into the lease--> all answered: done
//!                                          ^                |
//!                                          `--- connection lost, reached again: the same export? asked once more
//! ```
//!
//! What is received goes from the socket into the lease, what is sent comes from it; under TLS by way of a buffer. Nothing here waits: the socket does
//! not block, and a thread reaches for the server again when the connection was lost. Tasks wait for it at most as long as
//! reaching it may take, then they fail, and the next one tries again. A request on which the server hangs up fails at the third.
//!
//! The export is declared ours alone: the protocol has no lock, so that nobody else writes it is the user's word. What can
//! be checked is checked: when the server is reached again, size and flags must be what they were. A connection that is lost
//! while acknowledged writes were not flushed ends everything, since the server may have lost them and the cache has them.

use crate::backend::{Backend, Done, Kind, Mapped, Question, Task, Zeroes, away};
use crate::dial::{DialError, Target, dial, redial};
use crate::nbd::client::Agreed;
use crate::nbd::replies::{Got, Part, Replies, What};
use crate::nbd::wire::{Command, Request, Run, request, request_bytes};
use crate::socket::Socket;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Requests that one server is asked at once; more wait here. What keeps a network of some milliseconds busy, and below
/// what servers take from one client before they stop reading.
const SENT_MAX: usize = 64;
/// How often one request is asked. A server that hangs up on it each time will not answer it, and others wait for the connection.
const TRIES_MAX: u8 = 3;

/// Bytes that are deciphered, or are to be enciphered, at once: four records of TLS.
const BOUNCE_BYTES: usize = 64 << 10;
/// What a hole brings.
static ZEROS: [u8; BOUNCE_BYTES] = [0; BOUNCE_BYTES];

/// A task and what is left of it.
#[derive(Debug)]
struct Flight {
    task: Task,
    left: u32,
    error: Option<io::Error>,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// A part of a task.
    Task(Kind),
    /// A question about holes.
    Map,
}

/// A part of a task that is one request, or a question.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// Number of the task or of the question.
    flight: usize,
    kind: For,
    /// First byte in the task.
    skip: u64,
    len: u64,
    /// Connections that were lost while it was asked.
    lost: u8,
}

/// What has come of the answer to an ask.
#[derive(Debug, Default)]
struct Progress {
    got: Got,
    error: Option<u32>,
    runs: Vec<Run>,
}

/// Data of a read that comes now.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    cookie: usize,
    /// Where in the ask the next byte goes, and how many are still to come.
    at: u64,
    left: u64,
    /// Nothing comes behind it.
    last: bool,
}

/// The connection.
enum Link {
    Up(Socket),
    /// A thread reaches for the server.
    Reaching(Receiver<Result<(Socket, Agreed), DialError>>),
    /// It was not reached; the next task tries again.
    Down,
}

/// One far member.
pub(crate) struct Remote {
    target: Target,
    agreed: Agreed,
    link: Link,
    epoll: OwnedFd,
    /// Readable when the thread has ended.
    reached: Arc<OwnedFd>,
    flights: Vec<Option<Flight>>,
    questions: Vec<Option<Question>>,
    mapped: Vec<Mapped>,
    /// Asks by cookie, from the time that their head is written until their reply is read.
    asked: Vec<Option<Ask>>,
    /// What has come for them, by cookie.
    progress: Vec<Progress>,
    sent: usize,
    waiting: VecDeque<Ask>,
    /// Heads that are written and not sent.
    outbox: Vec<u8>,
    /// The write whose data follows the outbox, by cookie, and how much of it is sent.
    sending: Option<(usize, u64)>,
    /// Between TLS and the leases, whose memory is no plain slice; empty without TLS.
    bounce: Vec<u8>,
    replies: Replies,
    incoming: Option<Incoming>,
    blocked: bool,
    /// Writes that were acknowledged; how many of them the flush on its way covers; how many are flushed.
    acknowledged: u64,
    covered: u64,
    flushed: u64,
    ended: Vec<Done>,
    /// It is not what it was, and why.
    changed: Option<String>,
}

fn put<T>(table: &mut Vec<Option<T>>, value: T) -> usize {
    let at = table.iter().position(Option::is_none).unwrap_or_else(|| {
        table.push(None);
        table.len() - 1
    });
    table[at] = Some(value);
    at
}

impl Remote {
    /// Reaches the export.
    pub(crate) fn open(target: Target) -> Result<Self, DialError> {
        let (socket, agreed) = dial(&target)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let reached = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).map_err(io::Error::from)?;
        epoll::add(&epoll, &reached, EventData::new_u64(0), EventFlags::IN).map_err(io::Error::from)?;
        epoll::add(&epoll, &socket, EventData::new_u64(0), EventFlags::IN).map_err(io::Error::from)?;
        Ok(Self {
            bounce: if target.tls.is_some() { vec![0; BOUNCE_BYTES] } else { Vec::new() },
            target,
            agreed,
            link: Link::Up(socket),
            epoll,
            reached: Arc::new(reached),
            flights: Vec::new(),
            questions: Vec::new(),
            mapped: Vec::new(),
            asked: Vec::new(),
            progress: Vec::new(),
            sent: 0,
            waiting: VecDeque::new(),
            outbox: Vec::new(),
            sending: None,
            replies: Replies::new(agreed.structured),
            incoming: None,
            blocked: false,
            acknowledged: 0,
            covered: 0,
            flushed: 0,
            ended: Vec::new(),
            changed: None,
        })
    }

    /// What the server has agreed to.
    pub(crate) const fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Whether each write is asked to be durable, for lack of a FLUSH.
    const fn each_is_durable(&self) -> bool {
        self.agreed.can_fua() && !self.agreed.can_flush()
    }

    /// An ask is over.
    fn answered(&mut self, ask: Ask, error: Option<io::Error>) {
        if ask.kind == For::Map {
            return self.told(ask, Vec::new());
        }
        let entry = &mut self.flights[ask.flight];
        let flight = entry.as_mut().expect("a task stays until its last request is answered");
        flight.error = flight.error.take().or(error);
        flight.left -= 1;
        if flight.left > 0 {
            return;
        }
        if let Some(Flight { task, error, .. }) = entry.take() {
            let result = error.map_or(Ok(task.len), Err);
            match (task.kind, &result) {
                (Kind::Write, Ok(_)) => self.acknowledged += 1,
                (Kind::Sync, Ok(_)) => self.flushed = self.covered,
                _ => {}
            }
            self.ended.push(Done { token: task.token, result, lease: task.lease });
        }
    }

    /// A question is over: what is known of its bytes, which begin within those that were asked about.
    fn told(&mut self, ask: Ask, mut runs: Vec<Run>) {
        let Some(question) = self.questions[ask.flight].take() else { return };
        let mut before = question.offset - ask.skip;
        for run in &mut runs {
            let cut = before.min(u64::from(run.bytes));
            run.bytes -= cut as u32;
            before -= cut;
        }
        self.mapped.push(Mapped { question: question.number, runs });
    }

    /// Ends everything that is not answered.
    fn fail_all(&mut self, why: &str) {
        let asked: Vec<Ask> = self.asked.iter_mut().filter_map(Option::take).collect();
        self.sent = 0;
        for ask in asked.into_iter().chain(std::mem::take(&mut self.waiting)) {
            self.answered(ask, Some(away(why)));
        }
    }

    /// The connection is of no use any more: everything that was asked and not answered is to be asked once more.
    fn lost(&mut self, why: &str) {
        let Link::Up(socket) = &self.link else { return };
        // The file goes with its stream if not by this.
        let _ = epoll::delete(&self.epoll, socket);
        self.link = Link::Down;
        self.outbox.clear();
        (self.sending, self.incoming, self.blocked) = (None, None, false);
        if self.acknowledged > self.flushed && !self.each_is_durable() {
            self.change(format!("{why} before everything acknowledged was flushed"));
            return;
        }
        let mut again: Vec<Ask> = self.asked.iter_mut().filter_map(Option::take).collect();
        self.sent = 0;
        again.iter_mut().for_each(|ask| ask.lost += 1);
        for ask in again.extract_if(.., |ask| ask.lost == TRIES_MAX).collect::<Vec<_>>() {
            let why = format!("{}: asked {TRIES_MAX} times, each time {why}", self.target.address);
            self.answered(ask, Some(io::Error::other(why)));
        }
        again.sort_by_key(|ask| ask.kind == For::Task(Kind::Sync));
        for ask in again.into_iter().rev() {
            self.waiting.push_front(ask);
        }
        if !self.waiting.is_empty() {
            self.reach();
        }
    }

    fn change(&mut self, what: String) {
        let what = format!("{}: {what}", self.target.address);
        self.fail_all(&what);
        self.changed.get_or_insert(what);
    }

    /// Lets a thread reach for the server.
    fn reach(&mut self) {
        let (target, event) = (self.target.clone(), Arc::clone(&self.reached));
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name("reach".into()).stack_size(256 << 10).spawn(move || {
                // Nobody listens any more when the server has stopped.
                drop(sender.send(redial(&target)));
                let _ = rustix::io::write(&*event, &1_u64.to_ne_bytes());
            });
        match thread {
            Ok(_) => self.link = Link::Reaching(receiver),
            Err(problem) => self.fail_all(&format!("{}: {problem}", self.target.address)),
        }
    }

    /// The thread has ended.
    fn reached(&mut self) {
        let Link::Reaching(receiver) = &self.link else { return };
        let Ok(result) = receiver.try_recv() else { return };
        self.link = Link::Down;
        match result {
            Ok((_, agreed)) if !agreed.is_same(&self.agreed) => {
                self.change(format!(
                    "its server came back with another export ({} bytes instead of {})",
                    agreed.size, self.agreed.size
                ));
            }
            Ok((socket, agreed)) => {
                (self.agreed, self.replies) = (agreed, Replies::new(agreed.structured));
                let added = epoll::add(&self.epoll, &socket, EventData::new_u64(0), EventFlags::IN);
                self.link = Link::Up(socket);
                match added {
                    Ok(()) => self.send(),
                    Err(problem) => self.lost(&problem.to_string()),
                }
            }
            Err(problem) => self.fail_all(&format!("{}: not reached: {problem}", self.target.address)),
        }
    }

    /// Writes heads for as many asks as may be on their way, up to the first write, whose data comes next. What was asked when a
    /// connection was lost goes alone, so that only the one on which the server hangs up is asked in vain again.
    fn write_heads(&mut self) {
        while self.sending.is_none() {
            let most = if self.waiting.front().is_some_and(|ask| ask.lost > 0) { 1 } else { SENT_MAX };
            let alone = self.asked.iter().flatten().any(|ask| ask.lost > 0);
            if self.sent >= most || alone {
                return;
            }
            let Some(ask) = self.waiting.pop_front() else { return };
            let task = if ask.kind == For::Map { None } else { self.flights[ask.flight].as_ref() };
            let task = task.map(|flight| &flight.task);
            let zeroes = task.and_then(|task| task.zeroes).filter(|_| self.agreed.can_zero());
            let offset = task.map_or(0, |task| task.offset) + ask.skip;
            let (command, offset) = match ask.kind {
                For::Task(Kind::Write) if zeroes.is_some() => (Command::WriteZeroes, offset),
                For::Task(Kind::Read) => (Command::Read, offset),
                For::Task(Kind::Write) => (Command::Write, offset),
                For::Task(Kind::Sync) => (Command::Flush, 0),
                For::Map => (Command::BlockStatus, offset),
            };
            let cookie = self.put_ask(ask);
            self.sent += 1;
            let length = u32::try_from(ask.len).expect("an ask is at most what the server takes");
            // A server that has no other way makes each write durable, so there is nothing left to flush.
            let writes = ask.kind == For::Task(Kind::Write);
            let mut flags = if writes && self.each_is_durable() { request::FUA } else { 0 };
            flags |= if zeroes == Some(Zeroes::Kept) { request::NO_HOLE } else { 0 };
            let request = Request { flags, command, cookie: cookie as u64, offset, length };
            self.outbox.extend_from_slice(&request_bytes(&request));
            match ask.kind {
                For::Task(Kind::Read) | For::Map => {}
                For::Task(Kind::Write) if zeroes.is_some() => {}
                For::Task(Kind::Write) => self.sending = Some((cookie, 0)),
                // One at a time: the volume sees to that.
                For::Task(Kind::Sync) => self.covered = self.acknowledged,
            }
        }
    }

    /// Gives an ask its cookie.
    fn put_ask(&mut self, ask: Ask) -> usize {
        let cookie = put(&mut self.asked, ask);
        if self.progress.len() <= cookie {
            self.progress.resize_with(cookie + 1, Progress::default);
        }
        self.progress[cookie] = Progress::default();
        cookie
    }

    /// Sends what the socket takes.
    fn send(&mut self) {
        loop {
            self.write_heads();
            let Link::Up(socket) = &mut self.link else { return };
            let result = if self.outbox.is_empty() {
                let Some((cookie, done)) = self.sending else { break };
                let ask = self.asked[cookie].expect("what is being sent was asked");
                let flight = self.flights[ask.flight].as_ref().expect("a task stays until it is answered");
                let lease = flight.task.lease.as_ref().expect("a write has a lease");
                let (skip, len) = (ask.skip + done, ask.len - done);
                if socket.is_secure() {
                    let take = lease.copy_to(skip, &mut self.bounce[..len.min(BOUNCE_BYTES as u64) as usize]);
                    socket.write(&self.bounce[..take as usize]).map(|bytes| bytes as u64)
                } else {
                    lease.send(socket.as_fd(), skip, len)
                }
            } else {
                socket.write(&self.outbox).map(|bytes| bytes as u64)
            };
            match result {
                Ok(moved) => self.moved(moved),
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {
                    self.listen(true);
                    return;
                }
                Err(problem) => {
                    self.lost(&problem.to_string());
                    return;
                }
            }
        }
        // What TLS has taken may wait for the stream.
        match self.push() {
            Ok(waits) => self.listen(waits),
            Err(problem) => self.lost(&problem.to_string()),
        }
    }

    /// Sends the records that wait, if there is TLS. True when the stream does not take them all.
    fn push(&mut self) -> io::Result<bool> {
        let Link::Up(socket) = &mut self.link else { return Ok(false) };
        match socket.push() {
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => Ok(true),
            result => result.map(|()| false),
        }
    }

    fn moved(&mut self, bytes: u64) {
        if !self.outbox.is_empty() {
            self.outbox.drain(..bytes as usize);
            return;
        }
        if let Some((cookie, done)) = self.sending {
            let whole = self.asked[cookie].is_none_or(|ask| ask.len == done + bytes);
            self.sending = if whole { None } else { Some((cookie, done + bytes)) };
        }
    }

    /// Says whether the socket is to tell when it takes more.
    fn listen(&mut self, blocked: bool) {
        let Link::Up(socket) = &self.link else { return };
        if self.blocked == blocked {
            return;
        }
        let wants = if blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        match epoll::modify(&self.epoll, socket, EventData::new_u64(0), wants) {
            Ok(()) => self.blocked = blocked,
            Err(problem) => self.lost(&problem.to_string()),
        }
    }

    /// Receives what is here.
    fn receive(&mut self) {
        loop {
            let Link::Up(socket) = &mut self.link else { return };
            let result = match self.incoming {
                None => socket.read(self.replies.room()),
                Some(Incoming { cookie, at, left, .. }) => {
                    let ask = self.asked[cookie].expect("its reply is being read");
                    let flight =
                        self.flights[ask.flight].as_mut().expect("a task stays until it is answered");
                    let lease = flight.task.lease.as_mut().expect("a read has a lease");
                    let skip = ask.skip + at;
                    if socket.is_secure() {
                        let bounce = &mut self.bounce[..left.min(BOUNCE_BYTES as u64) as usize];
                        socket.read(bounce).inspect(|&bytes| {
                            lease.copy_from(skip, &bounce[..bytes]);
                        })
                    } else {
                        let rest = self.replies.room();
                        lease.receive(socket.as_fd(), skip, left, rest).map(|bytes| bytes as usize)
                    }
                }
            };
            match result {
                Ok(0) => return self.lost("its server closed the connection"),
                Ok(bytes) => {
                    if let Err(why) = self.take(bytes) {
                        return self.lost(why);
                    }
                }
                Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
                Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => return,
                // Under TLS the end of the stream is an error if the server has not said goodbye.
                Err(problem) if problem.kind() == io::ErrorKind::UnexpectedEof => {
                    return self.lost("its server closed the connection");
                }
                Err(problem) => return self.lost(&problem.to_string()),
            }
        }
    }

    /// So many bytes came: data of the read that comes, then what is next of an answer.
    fn take(&mut self, bytes: usize) -> Result<(), &'static str> {
        let mut bytes = bytes;
        if let Some(mut incoming) = self.incoming.take() {
            let data = (bytes as u64).min(incoming.left);
            bytes -= data as usize;
            (incoming.at, incoming.left) = (incoming.at + data, incoming.left - data);
            if incoming.left > 0 {
                self.incoming = Some(incoming);
                return Ok(());
            }
            if incoming.last {
                self.end(incoming.cookie)?;
            }
        }
        match self.replies.got(bytes)? {
            Some(part) => self.part(part),
            None => Ok(()),
        }
    }

    /// A part of an answer is here.
    fn part(&mut self, part: Part) -> Result<(), &'static str> {
        let known =
            usize::try_from(part.cookie).ok().filter(|&at| self.asked.get(at).is_some_and(Option::is_some));
        let Some(cookie) = known else { return Err("its server answered what nobody asked") };
        let ask = self.asked[cookie].expect("looked at above");
        if self.sending.is_some_and(|(sending, _)| sending == cookie) {
            return Err("its server answered a write before it had its data");
        }
        let reads = ask.kind == For::Task(Kind::Read);
        let progress = &mut self.progress[cookie];
        match part.what {
            What::All if reads => {
                progress.got.take(0, ask.len, ask.len)?;
                self.incoming = Some(Incoming { cookie, at: 0, left: ask.len, last: true });
                return Ok(());
            }
            What::Data(first, bytes) if reads => {
                let at = self.within(ask, first)?;
                self.progress[cookie].got.take(at, bytes, ask.len)?;
                self.incoming = Some(Incoming { cookie, at, left: bytes, last: part.last });
                return Ok(());
            }
            What::Zeros(first, bytes) if reads => {
                let at = self.within(ask, first)?;
                self.progress[cookie].got.take(at, bytes, ask.len)?;
                self.clear(ask, at, bytes);
            }
            What::Runs(context, runs) if ask.kind == For::Map => {
                if self.agreed.allocation == Some(context) {
                    progress.runs = runs;
                }
            }
            What::Failed(error) => progress.error = Some(error.max(1)),
            What::Done | What::All => {}
            What::Data(..) | What::Zeros(..) | What::Runs(..) => {
                return Err("its server answered with what was not asked for");
            }
        }
        if part.last { self.end(cookie) } else { Ok(()) }
    }

    /// Where in an ask a byte of the export is.
    fn within(&self, ask: Ask, first: u64) -> Result<u64, &'static str> {
        let flight = self.flights[ask.flight].as_ref().expect("a task stays until it is answered");
        first.checked_sub(flight.task.offset + ask.skip).ok_or("its server sent bytes that nobody asked for")
    }

    /// Bytes of a read are zeros.
    fn clear(&mut self, ask: Ask, at: u64, bytes: u64) {
        let flight = self.flights[ask.flight].as_mut().expect("a task stays until it is answered");
        let lease = flight.task.lease.as_mut().expect("a read has a lease");
        for from in (0..bytes).step_by(ZEROS.len()) {
            let take = (bytes - from).min(ZEROS.len() as u64) as usize;
            lease.copy_from(ask.skip + at + from, &ZEROS[..take]);
        }
    }

    /// The last of an answer is here.
    fn end(&mut self, cookie: usize) -> Result<(), &'static str> {
        let ask = self.asked[cookie].expect("its answer has ended");
        let progress = std::mem::take(&mut self.progress[cookie]);
        let error = progress.error.map(|error| i32::try_from(error).unwrap_or(libc::EIO));
        if ask.kind == For::Map {
            self.asked[cookie] = None;
            self.sent -= 1;
            self.told(ask, if error.is_some() { Vec::new() } else { progress.runs });
            return Ok(());
        }
        let reads = ask.kind == For::Task(Kind::Read);
        if reads && error.is_none() && !progress.got.is_whole(ask.len) {
            return Err("its server left out a part of what was asked for");
        }
        self.over(cookie, error.map(io::Error::from_raw_os_error));
        Ok(())
    }

    fn over(&mut self, cookie: usize, error: Option<io::Error>) {
        if let Some(ask) = self.asked[cookie].take() {
            self.sent -= 1;
            self.answered(ask, error);
        }
    }
}

impl Backend for Remote {
    fn submit(&mut self, _now: Nanos, task: Task) {
        if let Some(why) = &self.changed {
            self.ended.push(Done { token: task.token, result: Err(away(why)), lease: task.lease });
            return;
        }
        if task.kind == Kind::Sync && !self.agreed.can_flush() {
            self.ended.push(Done { token: task.token, result: Ok(0), lease: task.lease });
            return;
        }
        let (kind, len) = (task.kind, task.len);
        let most = u64::from(self.agreed.request_bytes_max);
        let left = len.div_ceil(most).max(1) as u32;
        let flight = put(&mut self.flights, Flight { task, left, error: None });
        for part in 0..u64::from(left) {
            let skip = part * most;
            let kind = For::Task(kind);
            self.waiting.push_back(Ask { flight, kind, skip, len: (len - skip).min(most), lost: 0 });
        }
        if matches!(self.link, Link::Down) {
            self.reach();
        }
    }

    fn map(&mut self, _now: Nanos, question: Question) -> bool {
        if self.changed.is_some() || self.agreed.allocation.is_none() {
            return false;
        }
        // What a server takes is whole blocks, or the end of the export.
        let skip = question.offset / BLOCK_BYTES * BLOCK_BYTES;
        let end = (question.offset + question.len).next_multiple_of(BLOCK_BYTES).min(self.agreed.size);
        let len = (end - skip).min(u64::from(u32::MAX) / BLOCK_BYTES * BLOCK_BYTES);
        let flight = put(&mut self.questions, question);
        self.waiting.push_back(Ask { flight, kind: For::Map, skip, len, lost: 0 });
        if matches!(self.link, Link::Down) {
            self.reach();
        }
        self.launch();
        true
    }

    fn mapped(&mut self, out: &mut Vec<Mapped>) {
        out.append(&mut self.mapped);
    }

    fn launch(&mut self) {
        if !self.waiting.is_empty() && !self.blocked {
            self.send();
        }
    }

    fn reap(&mut self, _now: Nanos, out: &mut Vec<Done>) {
        out.append(&mut self.ended);
    }

    fn woken(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.reached, &mut count);
        self.reached();
        self.receive();
        let records = matches!(&self.link, Link::Up(socket) if socket.wants_write());
        if self.blocked || records || !self.waiting.is_empty() {
            self.send();
        }
    }

    fn changed(&mut self) -> Option<String> {
        self.changed.clone()
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let Link::Up(socket) = &mut self.link {
            let request = Request { flags: 0, command: Command::Disconnect, cookie: 0, offset: 0, length: 0 };
            // A courtesy: a server that is gone needs none.
            drop(socket.write(&request_bytes(&request)));
            socket.say_goodbye();
        }
    }
}
