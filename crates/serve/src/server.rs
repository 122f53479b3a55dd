//! The loop: one thread that owns the engine, the cache, the connections and the clock.
//!
//! A turn: wait until something is ready; tell the volume the time; take what clients have sent; take what members have
//! ended; hand every answer to its connection; send what sockets take; give back what was sent; and look again for those
//! who waited for room. Nothing in a turn blocks, so one client can hold up another only by what it makes the machine do,
//! and that is bounded: bytes per turn, requests, credit, intake memory, and the time that a negotiation may take.
//!
//! Clients that negotiate are not counted as connections: they hold a few bytes, their number is bounded, and when they
//! are too many the one that has been there longest is sent away. So idle sockets can neither fill the places of real
//! clients nor keep new ones out. `requests` is what was asked and not yet answered, `accept` how clients come in.

mod accept;
mod back;
mod control;
mod device;
mod intake;
mod linger;
mod metrics;
mod open;
mod raid;
mod requests;
mod served;
mod show;
mod split;
mod token;
mod ways;

use crate::clock::Clock;
use crate::connection::{Connection, Received, TURN_BYTES_MAX};
use crate::error::{ServeError, system};
use crate::http::Http;
use crate::log::Log;
use crate::messages::{Messages, Priority};
use crate::metrics::Metrics;
use crate::nbd::handshake::{Export, Tls};
use crate::options::{ExportOptions, Options};
use crate::record::Record;
use crate::tls::Validity;
use accept::{Accepting, Listener};
use control::Control;
use device::Device;
use forerun_core::units::Nanos;
use intake::Intake;
use linger::{Awaited, Linger};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use served::Served;
use show::Show;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use token::Token;

/// How often deadlines and members are looked at.
const TICK: Nanos = Nanos::from_secs(1);
/// How long a negotiation may take.
const DEADLINE: Nanos = Nanos::from_secs(10);
/// How long clients may take over their last answers, and members over their last commands, when the server ends: with what comes
/// behind it all is over in ten seconds.
const END: Nanos = Nanos::from_secs(8);
/// How long a turn goes on while there is more to do: then whoever has come meanwhile is looked at. A client's read that finds its
/// blocks waits for two turns at most, and those for no more than one request of each client behind this.
const TURN: Nanos = Nanos::from_millis(2);
/// Requests that are taken from clients in one round of a turn, of all together, and least of one.
const ROUND_REQUESTS: (u32, u32) = (256, 4);
/// Events taken from the kernel in one turn.
const EVENTS: usize = 128;

/// Ends a running server from elsewhere: another thread, or a handler of signals.
#[derive(Clone, Debug)]
pub struct Stop(Arc<UnixStream>);

impl Stop {
    /// The server takes no new requests, answers those it has, and returns.
    pub fn stop(&self) {
        // A pipe that is full has said it already.
        drop((&*self.0).write(&[1]));
    }

    /// The same when one of these signals comes.
    ///
    /// # Errors
    /// When the system refuses the handler.
    pub fn on_signals(&self, signals: &[i32]) -> Result<(), ServeError> {
        for &signal in signals {
            let pipe = self.0.try_clone().map_err(system("signals"))?;
            signal_hook::low_level::pipe::register(signal, pipe).map_err(system("signals"))?;
        }
        Ok(())
    }
}

/// How a server ended.
#[derive(Debug)]
pub struct Ended {
    /// What it did.
    pub metrics: Metrics,
    /// What ended it though nobody has stopped it, and what could not be written to its end: the server has failed with the first.
    pub failures: Vec<ServeError>,
}

/// Where a server is reached and what it serves, once it listens.
pub struct Server {
    /// What is served: the volume of each export.
    served: Vec<Served>,
    /// What clients may choose from; the same order.
    exports: Vec<Export>,
    epoll: OwnedFd,
    timer: OwnedFd,
    timer_at: Option<Nanos>,
    stop: Stop,
    stop_pipe: UnixStream,
    listeners: Vec<Listener>,
    accepting: Accepting,
    /// How long a client may be silent before it is asked whether it is there.
    keep_alive: Duration,
    connections: Vec<Option<Connection>>,
    /// Clients so far.
    clients: u64,
    serving: u32,
    serving_max: u32,
    /// Most clients that there can be: what credit was reckoned with.
    places: u32,
    control: Option<Control>,
    intake: Intake,
    /// Requests that were taken in this turn.
    requests_of_turn: u32,
    /// Requests that members or the engine answered in it.
    answers_of_turn: u32,
    linger: Linger,
    /// The most memory that it takes, bytes.
    memory_bound: u64,
    /// The last turn ended before everything was done.
    unsettled: bool,
    clock: Clock,
    next_tick: Nanos,
    stopping: Option<Nanos>,
    metrics: Metrics,
    tls: Option<Arc<rustls::ServerConfig>>,
    validity: Option<Validity>,
    tls_policy: Tls,
    record: Option<Record>,
    show: Option<Show>,
    /// Exports that are block devices of the kernel.
    devices: Vec<Device>,
    /// Whether the page cache of new members is bypassed.
    direct: crate::options::Direct,
    /// Why it ends though nobody has stopped it.
    failure: Option<ServeError>,
}

/// The clock is the one place of this crate that asks the real time; everything behind it is told.
fn real_time() -> Instant {
    Instant::now()
}

/// What the calendar says, seconds since 1970: only certificates mind it.
fn date() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

fn policy(options: &Options) -> Tls {
    match &options.tls {
        None => Tls::Off,
        Some(tls) if tls.require => Tls::Require,
        Some(_) => Tls::Allow,
    }
}

/// Starts the logs of inputs, once nothing else can fail: an older log is not lost to a server that does not start.
fn start_logs(served: &mut [Served], exports: &[ExportOptions]) -> Result<(), ServeError> {
    for (served, export) in served.iter_mut().zip(exports) {
        if let Some(path) = &export.log_inputs {
            let volume = &mut served.volume;
            let log = Log::create(path, &volume.spec, &volume.source.array);
            volume.keep_log(log.map_err(|problem| ServeError::file(path, problem))?);
        }
    }
    Ok(())
}

/// A server that has opened what it serves and made its caches, which may take its time. Nobody can reach it yet, and nothing
/// of it is in the file system.
pub struct Prepared {
    served: Vec<Served>,
    tls: Option<(Arc<rustls::ServerConfig>, Validity)>,
}

impl Prepared {
    /// Opens what is served and makes the caches.
    ///
    /// # Errors
    /// What does not exist, fit or belong together, as [`ServeError`] says.
    pub fn new(options: &Options) -> Result<Self, ServeError> {
        Server::check(options)?;
        options.check_outputs(&[])?;
        let tls = options.tls.as_ref().map(|tls| crate::tls::config(tls, date())).transpose()?;
        Ok(Self { served: Served::open_all(options)?, tls })
    }

    /// Listens, and begins what is written. Nobody is served before [`Server::run`]. The options are those of before.
    ///
    /// # Errors
    /// A socket or a file that cannot be made.
    pub fn listen(self, options: &Options) -> Result<Server, ServeError> {
        let Self { mut served, tls } = self;
        let (tls, validity) = tls.unzip();
        let show =
            options.http.map(|address| Http::start(address).map(|http| Show::new(http, options, &served)));
        let show = show.transpose()?;
        if show.is_some() {
            served.iter_mut().for_each(|served| served.volume.watch());
        }
        let exports = served.iter().map(Served::describe).collect();
        let listeners = accept::listen(&options.listen)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| system("epoll")(e.into()))?;
        let control = options.control.as_ref().map(|path| Control::open(path, &epoll)).transpose()?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)
            .map_err(|e| system("timer")(e.into()))?;
        let (stop_pipe, stop) = UnixStream::pair().map_err(system("signals"))?;
        stop_pipe.set_nonblocking(true).map_err(system("signals"))?;
        stop.set_nonblocking(true).map_err(system("signals"))?;
        let mut server = Server {
            served,
            exports,
            epoll,
            timer,
            timer_at: None,
            stop: Stop(Arc::new(stop)),
            stop_pipe,
            listeners,
            accepting: Accepting::default(),
            keep_alive: options.keep_alive,
            connections: Vec::new(),
            clients: 0,
            serving: 0,
            serving_max: options.connections,
            places: options.connections,
            control,
            intake: Intake::new(options.connections),
            requests_of_turn: 0,
            answers_of_turn: 0,
            linger: Linger::default(),
            memory_bound: options.memory_bound(),
            unsettled: true,
            clock: Clock::new(real_time()),
            next_tick: TICK,
            stopping: None,
            metrics: Metrics::default(),
            tls,
            validity,
            tls_policy: policy(options),
            record: None,
            show,
            devices: Vec::new(),
            direct: options.direct,
            failure: None,
        };
        server.register().map_err(system("epoll"))?;
        start_logs(&mut server.served, &options.exports)?;
        if let Some(path) = &options.record {
            let sizes = server.served.iter().map(|served| (served.name.clone(), served.volume.source.size));
            let record = Record::create(path, sizes, &options.record_about);
            let record = record.map_err(|problem| ServeError::file(path, problem))?;
            server.record = Some(record);
        }
        // Last of all: a server that does not start makes no device.
        server.open_devices(&options.exports)?;
        // A client that asks at once is told what there is.
        server.look(Nanos::ZERO);
        Ok(server)
    }
}

impl Server {
    /// Whether a server could be made of these options, as far as that is known without opening anything: numbers and names,
    /// and each export's scheme, cache, device, array, and what its members are called.
    ///
    /// # Errors
    /// As [`Server::bind`] would.
    pub fn check(options: &Options) -> Result<(), ServeError> {
        options.check_connections()?;
        accept::check_paths(options)?;
        open::check_exports(&options.exports)?;
        let count = options.exports.len();
        options.exports.iter().try_for_each(|export| {
            open::check_export(export).map_err(|problem| problem.of_export(&export.name, count))
        })
    }

    /// Opens what is served, makes the cache and listens. Nobody is served before [`Server::run`].
    ///
    /// # Errors
    /// What does not exist, fit or belong together, as [`ServeError`] says.
    pub fn bind(options: &Options) -> Result<Self, ServeError> {
        Prepared::new(options)?.listen(options)
    }

    fn register(&self) -> io::Result<()> {
        let add = |file: std::os::fd::BorrowedFd<'_>, token: Token| {
            epoll::add(&self.epoll, file, EventData::new_u64(token.number()), EventFlags::IN)
        };
        add(self.stop_pipe.as_fd(), Token::Stop)?;
        add(self.timer.as_fd(), Token::Timer)?;
        for (index, listener) in self.listeners.iter().enumerate() {
            add(listener.as_fd(), Token::Listener(index as u32))?;
        }
        for (index, served) in self.served.iter().enumerate() {
            for file in served.volume.poll_fds() {
                add(file, Token::Members(index as u32))?;
            }
        }
        Ok(())
    }

    /// What clients of the first export are to be told: `nbd+unix:///NAME?socket=PATH` or `nbd://HOST:PORT/NAME`.
    #[must_use]
    pub fn uri(&self) -> String {
        self.uri_of(0)
    }

    /// The same for an export by its number.
    ///
    /// # Panics
    /// If there is no such export.
    #[must_use]
    pub fn uri_of(&self, export: usize) -> String {
        accept::uri(&self.listeners, &self.exports[export].name, self.tls_policy)
    }

    /// Bytes of an export's volume.
    ///
    /// # Panics
    /// If there is no such export.
    #[must_use]
    pub fn size(&self, export: usize) -> u64 {
        self.served[export].volume.source.size
    }

    /// The geometry of an export, in the grammar of every command.
    ///
    /// # Panics
    /// If there is no such export.
    #[must_use]
    pub fn array(&self, export: usize) -> String {
        self.served[export].volume.source.layout().to_string()
    }

    /// Where the live page is, if there is one.
    #[must_use]
    pub fn page(&self) -> Option<String> {
        self.show.as_ref().map(|show| format!("http://{}/", show.http.address()))
    }

    /// Ends the server from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Serves until it is stopped. `messages` get what a person should know, a line each; they are waited for by nobody.
    ///
    /// # Errors
    /// When the kernel refuses to wait for events. What else went wrong stands in what is returned.
    pub fn run(mut self, messages: &mut Messages) -> Result<Ended, ServeError> {
        let mut events = Vec::with_capacity(EVENTS);
        self.begin_devices()?;
        loop {
            self.arm().map_err(system("timer"))?;
            self.wait(&mut events).map_err(system("epoll"))?;
            let now = self.now();
            if let Some(stood) = self.clock.take_stood() {
                self.say_stood(stood);
            }
            for served in &mut self.served {
                served.volume.at(now);
            }
            for event in &events {
                self.dispatch(now, Token::of(event.data.u64()), event.flags);
            }
            self.settle(now);
            self.look(now);
            if now >= self.next_tick {
                self.next_tick = now + TICK;
                self.tick(now);
                // Clients that were given up hear of it now.
                self.settle(now);
            }
            self.pass_on_notes(now, messages);
            self.speak_of_devices(messages, false);
            if self.is_finished(now) {
                break;
            }
        }
        self.metrics.take(&mut self.served);
        let mut failures: Vec<ServeError> = self.failure.take().into_iter().collect();
        let of_file = |(path, problem): (PathBuf, io::Error)| ServeError::file(&path, problem);
        for served in &mut self.served {
            served.volume.forsake();
            failures.extend(served.volume.finish_log().map_err(of_file).err());
            failures.extend(served.volume.finish_learning().map_err(of_file).err());
            failures.extend(served.volume.why_void().map(|why| ServeError::Changed { why }));
        }
        self.pass_on_notes(self.now(), messages);
        self.speak_of_devices(messages, true);
        failures.extend(self.record.take().map_or(Ok(()), Record::finish).map_err(of_file).err());
        Ok(Ended { metrics: self.metrics, failures })
    }

    /// Says that the server did not run for a while.
    fn say_stood(&mut self, stood: Nanos) {
        let seconds = stood.as_secs_f64();
        if let Some(served) = self.served.first_mut() {
            served.volume.say(format!(
                "the server did not run for {seconds:.1} s (stopped, frozen, or its machine paused): no member and no client is blamed for that"
            ));
        }
    }

    /// Says what the volumes have to say; of several, which of them.
    fn pass_on_notes(&mut self, now: Nanos, messages: &mut Messages) {
        let several = self.served.len() > 1;
        for served in &mut self.served {
            let (notes, left_out) = served.volume.take_notes();
            if left_out > 0 {
                messages.left_out(left_out);
            }
            let of = |note: String| if several { format!("{:?}: {note}", served.name) } else { note };
            for note in notes {
                messages.warn(now, &served.name, &of(note));
            }
            if let Some(words) = served.volume.take_last_words() {
                messages.say_of(&served.name, Priority::Error, &of(words));
            }
        }
        self.metrics.messages_dropped = messages.dropped();
    }

    /// Waits until something is ready: looking again and again for a little while where that pays, then asleep.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        // Answers are on their way, and members at work.
        self.served.iter_mut().for_each(|served| served.volume.catch_up());
        let moved = std::mem::take(&mut self.requests_of_turn).max(std::mem::take(&mut self.answers_of_turn));
        let members = self.served.iter().any(|served| served.volume.waits_for_members());
        let awaited = if members { Awaited::Members } else { Awaited::Clients };
        let (begin, lingering) = (self.now(), self.linger.after(awaited, moved));
        // Bytes that TLS has deciphered and nobody could take yet are announced by no socket, nor is data whose head a device has brought.
        let may_hide = self.tls.is_some() || !self.devices.is_empty();
        let hidden = may_hide && self.receive_unannounced();
        let unannounced = std::mem::take(&mut self.unsettled) || hidden;
        let nap = if unannounced { 0 } else { self.nap().as_nanos() as i64 };
        events.clear();
        loop {
            let linger = lingering.is_some_and(|most| self.now().since(begin) < most);
            let wait = Timespec { tv_sec: 0, tv_nsec: if linger { 0 } else { nap } };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(problem) => return Err(problem.into()),
            }
            let ended = members && self.served.iter_mut().any(|served| served.volume.has_ended());
            if !events.is_empty() || ended || !linger || unannounced {
                break;
            }
        }
        self.linger.waited(awaited, moved, lingering.is_some(), self.now().since(begin));
        Ok(())
    }

    /// Sets the timer to when a volume wants to be looked at.
    fn arm(&mut self) -> io::Result<()> {
        let wake = self.served.iter().filter_map(|served| served.volume.next_wake()).min();
        if wake == self.timer_at {
            return Ok(());
        }
        self.timer_at = wake;
        let left = wake.map_or(0, |at| at.since(self.now()).0.max(1));
        let value =
            Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as i64 };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// A client's socket is ready. Who it was may have made room for another in this very turn.
    fn ready(&mut self, now: Nanos, at: usize, number: u32, flags: EventFlags) {
        let Some(connection) = &mut self.connections[at] else { return };
        if connection.number as u32 != number {
            return;
        }
        // Both directions are gone: whatever it has sent may still be read, but nobody hears an answer.
        let hung_up = flags.contains(EventFlags::HUP) && !connection.session.may_receive();
        if hung_up || flags.contains(EventFlags::ERR) {
            connection.session.lose();
        }
        self.receive(now, at);
        self.send(now, at);
    }

    fn dispatch(&mut self, now: Nanos, token: Token, flags: EventFlags) {
        match token {
            Token::Client { at, number } => self.ready(now, at as usize, number, flags),
            Token::Stop => {
                let mut bytes = [0; 64];
                drop(self.stop_pipe.read(&mut bytes));
                self.begin_stop(now);
            }
            Token::Timer => {
                let mut count = [0; 8];
                let _ = rustix::io::read(&self.timer, &mut count);
                self.timer_at = None;
            }
            Token::Members(export) => self.served[export as usize].volume.woken(),
            Token::Control => self.accept_operator(now),
            Token::Operator(at) => self.operate(now, at as usize),
            Token::Listener(index) => self.accept(now, index as usize),
            Token::Device(index) => self.hear_of_device(index as usize),
        }
    }

    /// Until nothing moves, or the turn is over: members, answers, sockets, and those who waited for room.
    fn settle(&mut self, mut now: Nanos) {
        let begin = self.now();
        loop {
            let mut moved = std::mem::take(&mut self.unsettled);
            for export in 0..self.served.len() {
                // What ends as soon as it leaves has taken its time in here, which schemes that learn from times have to see: the clock is read again.
                self.served[export].volume.launch();
                now = self.now();
                self.served[export].volume.at(now);
                self.served[export].volume.turn();
                while let Some(event) = self.served[export].volume.event() {
                    moved = true;
                    self.answer(event);
                }
            }
            for at in 0..self.connections.len() {
                if self.connections[at].as_ref().is_some_and(Connection::has_output) {
                    moved = true;
                    self.send(now, at);
                }
            }
            moved |= self.served.iter().any(|served| !served.shared.back.is_empty());
            self.give_back(now);
            if !moved {
                break;
            }
            if self.now().since(begin) > TURN {
                self.unsettled = true;
                break;
            }
        }
        for at in 0..self.connections.len() {
            self.settle_connection(at);
        }
    }

    fn send(&mut self, now: Nanos, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        let Served { volume, shared, .. } = &mut self.served[connection.session.export()];
        connection.flush(now, volume, shared);
    }

    /// Gives sent answers back to the engine, and lets those try again who waited.
    fn give_back(&mut self, now: Nanos) {
        self.served.iter_mut().for_each(Served::release);
        if self.intake.is_wanted() {
            self.grant_waiting(now);
        }
        for at in 0..self.connections.len() {
            self.serve(now, at);
        }
    }

    /// Closes a connection that is over, and says what is waited for from the others.
    fn settle_connection(&mut self, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        let Some(socket) = &connection.socket else { return };
        if connection.is_over() {
            self.close(at);
            return;
        }
        let wants = connection.wants();
        if wants != connection.interest {
            let data = EventData::new_u64(Token::of_client(at, connection.number).number());
            if epoll::modify(&self.epoll, socket, data, wants).is_ok() {
                connection.interest = wants;
            } else {
                connection.session.lose();
            }
        }
    }

    /// Takes what a client has sent, as long as it may send and for a fair while.
    fn receive(&mut self, now: Nanos, at: usize) {
        let mut total = 0;
        while total < TURN_BYTES_MAX {
            let Some(connection) = &mut self.connections[at] else { return };
            if !connection.session.may_receive() {
                return;
            }
            match connection.receive(now, &mut self.served[connection.session.export()].volume.arena) {
                Received::Bytes(bytes) => total += bytes,
                Received::Last => total = TURN_BYTES_MAX,
                Received::Nothing => return,
                Received::End => {
                    connection.session.close();
                    if let Some(why) = connection.refused.take() {
                        self.served[0].volume.say(format!(
                            "a client of which --tls-ca wants a certificate was refused: {why}"
                        ));
                    }
                    return;
                }
            }
            self.serve(now, at);
        }
    }

    /// Takes what TLS holds of clients that may be received from again; whether there was anything.
    fn receive_unannounced(&mut self) -> bool {
        let now = self.now();
        let mut any = false;
        for at in 0..self.connections.len() {
            if self.connections[at].as_ref().is_some_and(Connection::has_unannounced) {
                any = true;
                self.receive(now, at);
            }
        }
        any
    }

    /// Deadlines and members.
    fn tick(&mut self, now: Nanos) {
        let stopping = self.stopping.is_some();
        self.served.iter_mut().for_each(|served| served.tick(stopping));
        self.dismiss_operators(now);
        self.resume_accepting();
        let wanted = self.intake.is_wanted();
        for connection in self.connections.iter_mut().flatten() {
            let late = !connection.session.is_serving() && now.since(connection.since) > DEADLINE;
            let hogs = wanted && connection.hoards_intake(now);
            if late || hogs {
                connection.session.lose();
            }
        }
        for at in 0..self.connections.len() {
            self.settle_connection(at);
        }
        if let Some(said) = self.validity.as_mut().and_then(|validity| validity.look(date())) {
            self.served[0].volume.say(said);
        }
        self.metrics.take(&mut self.served);
        if let Some(problem) = self.record.as_mut().and_then(|record| record.tick(now)) {
            self.served[0].volume.say(problem);
        }
    }

    fn begin_stop(&mut self, now: Nanos) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(now);
        for listener in self.listeners.drain(..) {
            let _ = epoll::delete(&self.epoll, listener.as_fd());
        }
        let devices = &self.devices;
        devices.iter().for_each(Device::leave);
        for (at, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            // What its going makes the kernel ask of a device is answered.
            if devices.iter().any(|device| device.holds(at)) {
                continue;
            }
            // What it was let ask is answered. A write that is not wholly here is not begun, nor is what stands behind its limits.
            connection.session.close();
        }
        self.served.iter_mut().for_each(|served| served.volume.go_home());
    }

    fn is_finished(&mut self, now: Nanos) -> bool {
        let Some(since) = self.stopping else { return false };
        let late = now.since(since) > END;
        if late {
            for connection in self.connections.iter_mut().flatten() {
                connection.session.lose();
            }
            self.settle(now);
        }
        let said = late || self.devices.iter().all(Device::is_over);
        let gone = said && self.connections.iter().flatten().all(|connection| connection.socket.is_none());
        let over =
            |served: &Served| (served.volume.is_idle() && served.volume.is_home()) || served.volume.is_hung();
        gone && (late || self.served.iter().all(over))
    }

    /// A client goes. What members still work for keeps its credit and its place.
    fn close(&mut self, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        let Some(mut socket) = connection.socket.take() else { return };
        let _ = epoll::delete(&self.epoll, &socket);
        if !connection.session.is_lost() {
            socket.say_goodbye();
        }
        let served = &mut self.served[connection.session.export()];
        if let Some(memory) = connection.session.hang_up(&mut served.shared) {
            served.volume.give_intake(memory);
        }
        served.release();
        self.intake.forget(at);
        self.leave(at);
        drop(socket);
        self.device_is_gone(at);
        self.resume_accepting();
    }
}
