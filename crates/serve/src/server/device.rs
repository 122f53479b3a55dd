//! Exports that are block devices of the kernel: clients that are there from the start, and go last.
//!
//! A device has a place among the clients as long as the server runs, and counts as one of them. When the server ends the device is
//! to go too, and to that end the kernel writes and reads it: so its requests are taken until its keeper has said what became of it.

use super::Server;
use super::token::Token;
use crate::connection::Connection;
use crate::error::{ServeError, system};
use crate::messages::{Messages, Priority};
use crate::nbd::handshake::Terms;
use crate::options::{ExportOptions, What};
use crate::socket::{Socket, Transport};
use crate::source::Member;
use crate::ublk::keeper::{Keeper, Said};
use crate::ublk::{self, Wanted};
use forerun_core::units::Nanos;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// One device.
pub(super) struct Device {
    keeper: Keeper,
    /// Its place among the clients.
    at: usize,
    /// Nothing more is asked of it.
    ended: bool,
    /// What is to be said of it.
    words: Option<String>,
}

impl Device {
    /// It is to go.
    pub(super) fn leave(&self) {
        self.keeper.leave();
    }

    /// It was to go, and does not.
    fn stays(&self, why: &str) -> String {
        let path = self.keeper.path();
        format!("{path} stays ({why}): its requests wait until the same command takes it up again")
    }

    /// Whether what became of it in the end was said.
    pub(super) const fn is_over(&self) -> bool {
        self.ended
    }

    /// Whether it has this place, and its requests are to be taken.
    pub(super) fn holds(&self, at: usize) -> bool {
        self.at == at && !self.ended
    }
}

/// What tells an export from others: its name, and where its members are.
fn mark(export: &ExportOptions) -> u64 {
    let strip = if let What::Stripe { strip_bytes, .. } = &export.what { *strip_bytes } else { 0 };
    let place = |path: &PathBuf| path.canonicalize().unwrap_or_else(|_| path.clone());
    let mut places: Vec<PathBuf> = export.what.members().iter().map(|member| place(&member.path)).collect();
    if matches!(export.what, What::Array { .. }) {
        places.sort(); // in whatever order it is put together
    }
    let strip = strip.to_be_bytes();
    let head = [export.name.as_bytes(), &strip];
    ublk::mark_of(head.into_iter().chain(places.iter().map(|place| place.as_os_str().as_bytes())))
}

impl Server {
    /// Makes the devices that were asked for, or takes up those that are left.
    pub(super) fn open_devices(&mut self, exports: &[ExportOptions]) -> Result<(), ServeError> {
        for (number, export) in exports.iter().enumerate() {
            let Some(id) = export.ublk else { continue };
            let about = &self.exports[number];
            let source = &self.served[number].volume.source;
            let durable = !source.no_flush() && source.members.iter().any(Member::is_far);
            let wanted = Wanted { id, bytes: about.size, flags: about.flags, durable, mark: mark(export) };
            let (stream, opened) = ublk::open(&wanted)?;
            let socket = Socket::plain(Transport::Device(Box::new(stream)));
            let at = self.connections.len();
            let data = EventData::new_u64(Token::of_client(at, self.clients + 1).number());
            let add = |file, data| epoll::add(&self.epoll, file, data, EventFlags::IN);
            add(socket.as_fd(), data).map_err(|why| system("epoll")(why.into()))?;
            let keeper = Keeper::start(opened).map_err(system("--ublk: a thread"))?;
            let token = Token::Device(self.devices.len() as u32);
            let told = add(keeper.as_fd(), EventData::new_u64(token.number()));
            told.map_err(|why| system("epoll")(why.into()))?;
            self.clients += 1;
            // Any length is taken, and reads are answered in chunks: an error in the middle of one can be said.
            let terms = Terms { export: number, structured: true, told: false, allocation: false };
            let mut connection = Connection::serving(socket, self.clients, terms, Nanos::ZERO);
            connection.interest = EventFlags::IN;
            self.connections.push(Some(connection));
            self.serving += 1;
            self.metrics.clients += 1;
            self.served[number].volume.client_came();
            self.devices.push(Device { keeper, at, ended: false, words: None });
        }
        Ok(())
    }

    /// Requests of devices are taken from now on, by this thread.
    pub(super) fn begin_devices(&mut self) -> Result<(), ServeError> {
        for device in &self.devices {
            let connection = self.connections[device.at].as_mut().and_then(|client| client.socket.as_mut());
            connection.map_or(Ok(()), Socket::begin).map_err(system("--ublk: requests"))?;
        }
        Ok(())
    }

    /// Its keeper has something to say.
    pub(super) fn hear_of_device(&mut self, index: usize) {
        let device = &mut self.devices[index];
        let path = device.keeper.path();
        for said in device.keeper.said() {
            device.ended = !matches!(said, Said::Ready);
            device.words = match said {
                Said::Ready if device.keeper.was_left() => {
                    Some(format!("{path} was left by a server, and goes on"))
                }
                Said::Ready => Some(format!("{path} is there")),
                Said::Removed => Some(format!("{path} is removed")),
                Said::Stays(why) => Some(device.stays(&why)),
                Said::Failed(why) => {
                    self.failure.get_or_insert(system("--ublk: the start of a device")(why));
                    None
                }
            };
            if let (true, Some(connection)) = (device.ended, &mut self.connections[device.at]) {
                connection.session.close();
            }
        }
        if self.failure.is_some() {
            self.begin_stop(self.now());
        }
    }

    /// The client in this place has gone: if it was a device that was not to go, somebody has removed it, and the server ends.
    pub(super) fn device_is_gone(&mut self, at: usize) {
        let Some(device) = self.devices.iter_mut().find(|device| device.holds(at)) else { return };
        // While the server ends, its keeper still says that it was removed.
        if self.stopping.is_none() {
            device.ended = true;
            let why = format!("{} was removed by somebody else", device.keeper.path());
            self.failure.get_or_insert(system("--ublk")(std::io::Error::other(why)));
            self.begin_stop(self.now());
        }
    }

    /// Says what has become of devices; at the `end` of those, too, whose keeper has not come back.
    pub(super) fn speak_of_devices(&mut self, messages: &Messages, end: bool) {
        for device in self.devices.iter_mut().filter(|device| end && !device.ended) {
            let why = "what was written through it takes long to come home";
            device.words = Some(device.stays(why));
        }
        for words in self.devices.iter_mut().filter_map(|device| device.words.take()) {
            messages.say(Priority::Info, &words);
        }
    }
}
