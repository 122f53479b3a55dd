//! The loop's side of the control socket: who asks, and what is done about it.

use super::accept::{Listener, is_exhausted, listen_unix};
use super::token::Token;
use super::{DEADLINE, Server};
use crate::behind::ArrayOrder;
use crate::control::{Answer, ArrayState, ExportState, Order, REQUEST_BYTES_MAX, Stats};
use crate::error::{ServeError, system};
use crate::spec::Change;
use forerun_core::registry::SchemeSpec;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use rustix::event::epoll::{self, EventData, EventFlags};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Most operators at once; one more sends the longest there away.
pub(super) const OPERATORS_MAX: usize = 8;

/// The socket and those who ask.
#[derive(Debug)]
pub(super) struct Control {
    listener: Listener,
    operators: [Option<Operator>; OPERATORS_MAX],
    /// A file number for an operator when there is no other left: whoever has to mend that must come in.
    spare: Option<OwnedFd>,
}

/// An operator.
#[derive(Debug)]
struct Operator {
    stream: UnixStream,
    since: Nanos,
    inbox: Vec<u8>,
    /// The answer, once there is one, and how much of it was sent.
    outbox: Vec<u8>,
    sent: usize,
}

impl Control {
    /// Listens, for the owner of the process alone.
    pub(super) fn open(path: &Path, epoll: &OwnedFd) -> Result<Self, ServeError> {
        let listener = listen_unix(path, "--control")?;
        let data = EventData::new_u64(Token::Control.number());
        epoll::add(epoll, listener.as_fd(), data, EventFlags::IN).map_err(|e| system("epoll")(e.into()))?;
        let mut control = Self { listener, operators: Default::default(), spare: None };
        control.restock();
        Ok(control)
    }

    /// Keeps a file number for the next operator.
    fn restock(&mut self) {
        if self.spare.is_none() {
            // The next time, then.
            self.spare = self.listener.as_fd().try_clone_to_owned().ok();
        }
    }

    /// The next who wants to come in. Where the system has nothing to make a stream of, the spare number is given up, then the
    /// operator who has been there longest.
    fn next(&mut self) -> Option<UnixStream> {
        loop {
            match self.listener.accept_unix()? {
                Ok(stream) => return Some(stream),
                Err(problem) if is_exhausted(&problem) => {
                    let gave = self.spare.take().is_some() || self.send_longest_away();
                    if !gave {
                        return None;
                    }
                }
                Err(_) => return None,
            }
        }
    }

    fn send_longest_away(&mut self) -> bool {
        let there = (0..OPERATORS_MAX).filter(|&at| self.operators[at].is_some());
        let longest = there.min_by_key(|&at| self.operators[at].as_ref().map(|operator| operator.since));
        longest.and_then(|at| self.operators[at].take()).is_some()
    }

    fn accept(&mut self, now: Nanos, epoll: &OwnedFd) {
        let Some(stream) = self.next() else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let longest = (0..OPERATORS_MAX).min_by_key(|&at| self.operators[at].as_ref().map(|o| o.since));
        let at = longest.expect("there are places");
        let data = EventData::new_u64(Token::Operator(at as u32).number());
        // The one who leaves closes its socket, which takes it out of the set.
        self.operators[at] = None;
        if epoll::add(epoll, &stream, data, EventFlags::IN).is_ok() {
            let (inbox, outbox) = (Vec::new(), Vec::new());
            self.operators[at] = Some(Operator { stream, since: now, inbox, outbox, sent: 0 });
        }
    }
}

impl Operator {
    /// Takes what came; the request's line once it is whole. An error is the end.
    fn receive(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut piece = [0; 4096];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.inbox.extend_from_slice(&piece[..bytes]),
                Err(problem) if problem.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                Err(problem) => return Err(problem),
            }
            if let Some(end) = self.inbox.iter().position(|&byte| byte == b'\n') {
                self.inbox.truncate(end);
                return Ok(Some(std::mem::take(&mut self.inbox)));
            }
            if self.inbox.len() > REQUEST_BYTES_MAX {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
        }
    }

    /// Sends what is left of the answer; whether all of it is gone.
    fn send(&mut self) -> std::io::Result<bool> {
        while self.sent < self.outbox.len() {
            match self.stream.write(&self.outbox[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(problem) if problem.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                Err(problem) => return Err(problem),
            }
        }
        Ok(true)
    }
}

impl Server {
    /// Somebody wants to ask.
    pub(super) fn accept_operator(&mut self, now: Nanos) {
        if let Some(control) = &mut self.control {
            control.accept(now, &self.epoll);
        }
    }

    /// Somebody asks, or takes more of an answer.
    pub(super) fn operate(&mut self, now: Nanos, at: usize) {
        let operator = |server: &mut Self| server.control.as_mut().and_then(|c| c.operators[at].take());
        let Some(mut operator) = operator(self) else { return };
        if operator.outbox.is_empty() {
            let line = match operator.receive() {
                Ok(Some(line)) => line,
                Ok(None) => return self.keep(at, operator),
                Err(_) => return,
            };
            let answer = match self.obey(now, &line) {
                Ok(value) => Answer::Ok(value),
                Err(why) => Answer::Error(why),
            };
            operator.outbox = serde_json::to_vec(&answer).unwrap_or_default();
            operator.outbox.push(b'\n');
            let data = EventData::new_u64(Token::Operator(at as u32).number());
            if epoll::modify(&self.epoll, &operator.stream, data, EventFlags::OUT).is_err() {
                return;
            }
        }
        if matches!(operator.send(), Ok(false)) {
            return self.keep(at, operator);
        }
        drop(operator);
        if let Some(control) = &mut self.control {
            control.restock();
        }
    }

    fn keep(&mut self, at: usize, operator: Operator) {
        if let Some(control) = &mut self.control {
            control.operators[at] = Some(operator);
        }
    }

    /// Lets those go who take too long.
    pub(super) fn dismiss_operators(&mut self, now: Nanos) {
        let Some(control) = &mut self.control else { return };
        for operator in &mut control.operators {
            operator.take_if(|operator| now.since(operator.since) > DEADLINE);
        }
        control.restock();
    }

    /// Does what is asked.
    fn obey(&mut self, now: Nanos, line: &[u8]) -> Result<Value, String> {
        let request: Order =
            serde_json::from_slice(line).map_err(|problem| format!("not a request: {problem}"))?;
        match request {
            Order::Stats => {
                self.metrics.take(&mut self.served);
                let stats =
                    Stats::new(now.0, (self.serving, self.serving_max), self.memory_bound, &self.metrics);
                serde_json::to_value(stats).map_err(|problem| problem.to_string())
            }
            Order::Exports => Ok((0..self.served.len()).map(|export| json!(self.state(export))).collect()),
            Order::Set { export, key, value, .. } if key == "connections" && export.is_none() => {
                self.set_connections(&value)
            }
            Order::Set { export, key, value, trial } => {
                let export = self.the_export(export.as_deref())?;
                self.set(export, (&key, &value), trial)
            }
            Order::Trial { export, number, scheme, seconds } => {
                let export = self.the_export(export.as_deref())?;
                if seconds > 0 {
                    // Before the first turn, and before the present scheme loses what it knows.
                    self.served[export].volume.spec_of(&scheme)?;
                }
                self.served[export].try_scheme(now, number, &scheme, seconds)?;
                Ok(Value::Null)
            }
            Order::Split { export, scheme, by } => {
                let export = self.the_export(export.as_deref())?;
                self.split(export, &scheme, by)?;
                Ok(json!(self.state(export)))
            }
            Order::Watch { export } => {
                let export = self.the_export(export.as_deref())?;
                self.served[export].volume.watch();
                Ok(Value::Null)
            }
            Order::Array { export } => self.array_state(export.as_deref()),
            Order::Rebuild { export, new, force, pause } => {
                let at = self.the_export(export.as_deref())?;
                let (volume, direct) = (&mut self.served[at].volume, self.direct);
                match new {
                    Some(path) => volume.look_for_member(path, force, direct)?,
                    None => volume.order(if pause { ArrayOrder::Pause } else { ArrayOrder::GoOn })?,
                }
                self.array_state(export.as_deref())
            }
            Order::Scrub { export, stop, mend } => {
                let at = self.the_export(export.as_deref())?;
                let order = if stop { ArrayOrder::StopScrub } else { ArrayOrder::Scrub { mend } };
                self.served[at].volume.order(order)?;
                self.array_state(export.as_deref())
            }
            Order::Drop { export } => self.drop_kept(export.as_deref()),
            Order::Stop => {
                self.begin_stop(now);
                Ok(Value::Null)
            }
        }
    }

    /// Sets the scheme of an export or a parameter of it; a trial does so as long as it goes on, and whoever else does ends it.
    fn set(
        &mut self,
        export: usize,
        (key, value): (&str, &str),
        trial: Option<u64>,
    ) -> Result<Value, String> {
        trial.map_or(Ok(()), |trial| self.served[export].goes_on(trial))?;
        self.set_scheme(export, key, value)?;
        if trial.is_none() {
            self.served[export].end_trial();
        }
        Ok(json!(self.state(export)))
    }

    /// Empties the cache of an export, or of all.
    fn drop_kept(&mut self, export: Option<&str>) -> Result<Value, String> {
        let wanted = match export {
            Some(name) => {
                let one = self.the_export(Some(name))?;
                one..one + 1
            }
            None => 0..self.served.len(),
        };
        let taken = |server: &Self| -> u64 {
            wanted.clone().map(|at| server.served[at].volume.engine().cache().slots.taken()).sum()
        };
        let before = taken(self);
        for at in wanted.clone() {
            self.served[at].volume.change(Change::Drop);
        }
        Ok(json!({ "dropped_blocks": before.saturating_sub(taken(self)) }))
    }

    fn the_export(&self, name: Option<&str>) -> Result<usize, String> {
        let names = || {
            let named = |name: &str| {
                if name.is_empty() {
                    "the one without a name (--export '')".into()
                } else {
                    format!("{name:?}")
                }
            };
            let names: Vec<String> = self.exports.iter().map(|export| named(&export.name)).collect();
            names.join(", ")
        };
        match name {
            None if self.served.len() == 1 => Ok(0),
            None => Err(format!("which export? There are: {}", names())),
            Some(name) => self
                .exports
                .iter()
                .position(|export| export.name == name)
                .ok_or_else(|| format!("no export is called {name:?}; there are: {}", names())),
        }
    }

    /// How an array of our own stands.
    fn array_state(&mut self, export: Option<&str>) -> Result<Value, String> {
        let at = self.the_export(export)?;
        let volume = &mut self.served[at].volume;
        volume.see_new_member();
        let array = volume.array().ok_or("it is no array with redundancy of our own (--assemble)")?;
        let (looking, refused) = volume.new_member();
        let state = ArrayState { array, looking, refused: refused.map(str::to_owned) };
        serde_json::to_value(state).map_err(|problem| problem.to_string())
    }

    fn set_connections(&mut self, value: &str) -> Result<Value, String> {
        let wanted: u32 = value.parse().map_err(|_| format!("`{value}` is not a number of clients"))?;
        if !(1..=self.places).contains(&wanted) {
            let places = self.places;
            return Err(format!(
                "1 to {places} clients can be served, as the server was started (--connections)"
            ));
        }
        self.serving_max = wanted;
        Ok(json!({ "connections": wanted }))
    }

    /// Another scheme, or another value of a parameter: `asp.ghosts`.
    fn set_scheme(&mut self, export: usize, key: &str, value: &str) -> Result<(), String> {
        let volume = &mut self.served[export].volume;
        let text = match key.split_once('.') {
            _ if key == "scheme" => value.to_owned(),
            _ if volume.spec.share().is_some() => {
                return Err("two schemes are tried side by side, which `scheme` ends: set that first".into());
            }
            Some((part, parameter)) => {
                let parsed = SchemeSpec::parse(&volume.spec.scheme).map_err(|why| why.to_string())?;
                parsed.with_param(part, parameter, value).map_err(|why| why.to_string())?.to_string()
            }
            None => {
                return Err(format!(
                    "`{key}` cannot be set: there are scheme, PART.PARAMETER of the scheme (asp.ghosts), and connections"
                ));
            }
        };
        let spec = volume.spec_of(&text)?;
        let said = format!("the scheme is {text} now, it was {}", volume.spec.scheme);
        volume.change(Change::Scheme(spec));
        volume.say(said);
        self.exports[export] = self.served[export].describe();
        Ok(())
    }

    fn state(&self, export: usize) -> ExportState {
        let served = &self.served[export];
        ExportState {
            name: served.name.clone(),
            uri: self.uri_of(export),
            scheme: served.volume.spec.scheme.clone(),
            array: self.array(export),
            size_bytes: self.size(export),
            cache_bytes: served.volume.spec.cache_blocks * BLOCK_BYTES,
            read_only: served.read_only,
            changed: served.changed.clone(),
            warnings: served.volume.health().warnings,
        }
    }
}
