//! The other side of the protocol: a session with a server of somebody else, for members that are exports of other machines.
//!
//! ```text
//!   greeting --flags, (STRUCTURED_REPLY, SET_META_CONTEXT,) GO--> answers --EXPORT, BLOCK_SIZE, ACK--> agreed --requests--> replies
//!       | \                 ^   \
//!       |  `--not newstyle--|----`--refused: unknown name, TLS, policy--> an error that says what to do
//!       `--flags, STARTTLS--> ACK: TLS begins, then GO
//! ```
//!
//! Structured replies are asked for by those that want to know where the export has holes ([`Opening::mapping`]), and a server that does not
//! have them is as good as before. What a server sends is taken as hostile like what a client
//! sends: lengths are compared before they are believed, texts are shortened, and a machine that was given nonsense says so
//! and is not used again. Source: proto.md, "Fixed newstyle negotiation", "Simple reply message", and the URI
//! specification (uri.md) for addresses.

use super::handshake::{
    ALLOCATION, FIXED_NEWSTYLE, MAGIC, NO_ZEROES, OPTION_MAGIC, REPLY_MAGIC, info, option,
};
use super::handshake::{option_bytes, reply, split};
use super::wire::{REQUEST_BYTES_MAX, SIMPLE_MAGIC, export};
use crate::shown::shown;
use forerun_core::units::BLOCK_BYTES;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest answer to an option that is looked at, bytes: an error's text, or a few numbers.
pub const ANSWER_BYTES_MAX: usize = 8 << 10;
/// Answers to one GO; a server that sends more never comes to an end.
const ANSWERS_MAX: u32 = 64;
/// Characters of a server's text that are shown.
const TEXT_MAX: usize = 200;
/// Length of a simple reply's head, bytes.
pub const REPLY_BYTES: usize = 16;
/// The port of the protocol.
const PORT: u16 = 10_809;
/// Longest name of an export, bytes ("Values: string").
const NAME_BYTES_MAX: usize = 4096;

/// Where an export is: `nbd://HOST[:PORT]/NAME` or `nbd+unix:///NAME?socket=PATH`, or with `nbds` for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Where its server listens.
    pub server: Endpoint,
    /// Name of the export; may be empty.
    pub export: String,
    /// With TLS, the name that the server's certificate must have: the host's, or what `tls-hostname=` says (as QEMU calls
    /// it); of a unix socket `localhost`.
    pub tls: Option<String>,
    text: String,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Host name or address, and port.
    Tcp(String, u16),
    /// A unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Whether a text is meant as such an address, right or wrong, and not as a path.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"].iter().any(|scheme| text.starts_with(scheme))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let schemes = [
            ("nbd", false, false),
            ("nbds", true, false),
            ("nbd+unix", false, true),
            ("nbds+unix", true, true),
        ];
        let found = text.split_once("://").and_then(|(name, rest)| {
            schemes.iter().find(|scheme| scheme.0 == name).map(|&(_, secure, unix)| (secure, unix, rest))
        });
        // What is wrong is said without what is secret.
        let seen = shown(text.as_ref());
        let Some((secure, unix, rest)) = found else {
            return Err(format!("{seen} is not nbd://HOST[:PORT]/NAME"));
        };
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parameters = Parameters::read(&seen, query)?;
        let (server, export) = if unix {
            let wrong = || format!("{seen} is not nbd+unix:///NAME?socket=PATH");
            let name = before.strip_prefix('/').and_then(name_of).ok_or_else(wrong)?;
            (Endpoint::Unix(parameters.socket.ok_or_else(wrong)?.into()), name)
        } else {
            let wrong = || format!("{seen} is not nbd://HOST[:PORT]/NAME");
            let (authority, name) = before.split_once('/').unwrap_or((before, ""));
            if authority.contains('@') || parameters.socket.is_some() {
                return Err(format!("{seen}: neither users nor sockets belong to a host: leave them out"));
            }
            let (host, port) = host_and_port(authority).ok_or_else(wrong)?;
            (Endpoint::Tcp(host, port), name_of(name).ok_or_else(wrong)?)
        };
        if !secure && parameters.tls_hostname.is_some() {
            return Err(format!("{seen}: tls-hostname= is of TLS: write nbds"));
        }
        let host = match &server {
            Endpoint::Tcp(host, _) => host.clone(),
            Endpoint::Unix(_) => "localhost".into(),
        };
        let tls = secure.then(|| parameters.tls_hostname.unwrap_or(host));
        Ok(Self { server, export, tls, text: text.into() })
    }
}

/// What may stand behind the `?` of an address.
#[derive(Default)]
struct Parameters {
    socket: Option<String>,
    tls_hostname: Option<String>,
}

impl Parameters {
    fn read(text: &str, query: &str) -> Result<Self, String> {
        let mut all = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let place = match name {
                "socket" => &mut all.socket,
                "tls-hostname" => &mut all.tls_hostname,
                other => {
                    return Err(format!(
                        "{text}: the parameter {other} means nothing here, only socket= and tls-hostname= do \
                         (certificates: --member-tls-ca, --member-tls-cert, --member-tls-key)"
                    ));
                }
            };
            *place = decode(value).filter(|value| !value.is_empty());
            if place.is_none() {
                return Err(format!("{text}: {name}= needs a value, as in ?socket=PATH"));
            }
        }
        Ok(all)
    }
}

/// The parts of `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
fn host_and_port(authority: &str) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if port.is_empty() => PORT,
        None => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn name_of(text: &str) -> Option<String> {
    decode(text).filter(|name| name.len() <= NAME_BYTES_MAX)
}

/// Undoes `%41`.
fn decode(text: &str) -> Option<String> {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(out).ok()
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It does not speak the protocol, or an old form of it.
    #[error("no server of the fixed newstyle protocol answers there ({0})")]
    Protocol(&'static str),
    /// It refused the export.
    #[error("the server refused: {why}{text}")]
    Refused {
        /// What its answer means, and the remedy.
        why: &'static str,
        /// What it said itself, in brackets; may be empty.
        text: String,
    },
}

/// What a server has agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Bytes of the export.
    pub size: u64,
    /// See [`super::wire::export`].
    pub flags: u16,
    /// Offsets and lengths of requests are multiples of this many bytes.
    pub block_bytes: u32,
    /// Largest request, bytes.
    pub request_bytes_max: u32,
    /// It answers in chunks.
    pub structured: bool,
    /// The number that it gave to the context in which it tells of holes.
    pub allocation: Option<u32>,
}

impl Agreed {
    /// Whether it is the export that it was: how it answers may be another way.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { structured: self.structured, allocation: self.allocation, ..*other }
    }

    /// Whether the server refuses writes.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.flags & export::READ_ONLY != 0
    }

    /// Whether FLUSH is there.
    #[must_use]
    pub const fn can_flush(&self) -> bool {
        self.flags & export::SEND_FLUSH != 0
    }

    /// Whether bytes can be made zero without being sent.
    #[must_use]
    pub const fn can_zero(&self) -> bool {
        self.flags & export::SEND_WRITE_ZEROES != 0
    }

    /// Whether a write can be asked to be on stable storage before it is answered.
    #[must_use]
    pub const fn can_fua(&self) -> bool {
        self.flags & export::SEND_FUA != 0
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// A message was dealt with; there may be more in the buffer.
    Again,
    /// What is to be sent goes out, then TLS begins, and [`Opening::begin`] goes on under it. Bytes that are here already are
    /// none of it: nobody has asked for them.
    StartTls,
    /// Requests may be sent.
    Agreed(Agreed),
}

/// The state of one negotiation, from the side that asks.
#[derive(Clone, Debug)]
pub struct Opening {
    name: String,
    /// TLS comes before anything else, and has not begun.
    insecure: bool,
    greeted: bool,
    answers: u32,
    size_and_flags: Option<(u64, u16)>,
    block_bytes: u32,
    request_bytes_max: u32,
    /// The option that is answered next.
    asked: u32,
    /// Where there are holes is to be asked.
    maps: bool,
    structured: bool,
    allocation: Option<u32>,
}

impl Opening {
    /// A negotiation for the export `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            insecure: false,
            greeted: false,
            answers: 0,
            size_and_flags: None,
            block_bytes: 1,
            request_bytes_max: REQUEST_BYTES_MAX,
            asked: option::GO,
            maps: false,
            structured: false,
            allocation: None,
        }
    }

    /// The same with structured replies and word of holes, as far as the server has them.
    #[must_use]
    pub fn mapping(self) -> Self {
        Self { maps: true, ..self }
    }

    /// The same with TLS before the export is named.
    #[must_use]
    pub fn secured(name: &str) -> Self {
        Self { insecure: true, ..Self::new(name) }
    }

    /// Takes the next message from the front of `input`. Returns how many bytes it took and how it went on; what is to be
    /// sent is added to `out`.
    ///
    /// # Errors
    /// When the server cannot be used; the machine is of no more use then.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), ClientError> {
        if !self.greeted {
            return self.greeting(input, out);
        }
        let more = Ok((0, Step::More));
        let Some((magic, rest)) = split::<8>(input) else { return more };
        if u64::from_be_bytes(magic) != REPLY_MAGIC {
            return Err(ClientError::Protocol("its answer to GO has another magic"));
        }
        let Some((number, rest)) = split::<4>(rest) else { return more };
        let Some((kind, rest)) = split::<4>(rest) else { return more };
        let Some((length, rest)) = split::<4>(rest) else { return more };
        let length = u32::from_be_bytes(length) as usize;
        let asked = if self.insecure { option::STARTTLS } else { self.asked };
        if u32::from_be_bytes(number) != asked || length > ANSWER_BYTES_MAX {
            return Err(ClientError::Protocol("its answer to an option makes no sense"));
        }
        let Some(data) = rest.get(..length) else { return more };
        if self.insecure {
            return Ok((20 + length, self.starting(u32::from_be_bytes(kind), data)?));
        }
        self.answers += 1;
        if self.answers > ANSWERS_MAX {
            return Err(ClientError::Protocol("its answer to GO has no end"));
        }
        let kind = u32::from_be_bytes(kind);
        let step =
            if asked == option::GO { self.answer(kind, data)? } else { self.prepared(kind, data, out)? };
        Ok((20 + length, step))
    }

    fn greeting(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), ClientError> {
        let more = Ok((0, Step::More));
        let Some((magic, rest)) = split::<8>(input) else { return more };
        if u64::from_be_bytes(magic) != MAGIC {
            return Err(ClientError::Protocol("its greeting is not NBDMAGIC"));
        }
        let Some((magic, rest)) = split::<8>(rest) else { return more };
        let Some((flags, _)) = split::<2>(rest) else { return more };
        let flags = u16::from_be_bytes(flags);
        if u64::from_be_bytes(magic) != OPTION_MAGIC || flags & FIXED_NEWSTYLE == 0 {
            return Err(ClientError::Protocol("it speaks an older form of the protocol"));
        }
        self.greeted = true;
        out.extend_from_slice(&u32::from(flags & (FIXED_NEWSTYLE | NO_ZEROES)).to_be_bytes());
        if self.insecure {
            out.extend(option_bytes(option::STARTTLS, &[]));
        } else {
            self.begin(out);
        }
        Ok((18, Step::Again))
    }

    /// What comes first under TLS, and without it follows the greeting by itself.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.maps {
            self.asked = option::STRUCTURED_REPLY;
            out.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
        } else {
            self.go(out);
        }
    }

    /// What an option before GO was answered with. What a server does not have is done without.
    fn prepared(&mut self, kind: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Step, ClientError> {
        let refused = kind >> 31 == 1;
        match (self.asked, kind) {
            (option::STRUCTURED_REPLY, reply::ACK) => {
                self.structured = true;
                self.asked = option::SET_META_CONTEXT;
                let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
                let data = [text(&self.name), 1_u32.to_be_bytes().to_vec(), text(ALLOCATION)].concat();
                out.extend(option_bytes(option::SET_META_CONTEXT, &data));
            }
            (option::SET_META_CONTEXT, reply::META_CONTEXT) => {
                let (number, name) =
                    split::<4>(data).ok_or(ClientError::Protocol("a context has no number"))?;
                if name == ALLOCATION.as_bytes() {
                    self.allocation = Some(u32::from_be_bytes(number));
                }
            }
            (option::SET_META_CONTEXT, reply::ACK) => self.go(out),
            _ if refused => {
                self.allocation = None;
                self.go(out);
            }
            _ => return Err(ClientError::Protocol("its answer to an option makes no sense")),
        }
        Ok(Step::Again)
    }

    /// Names the export.
    fn go(&mut self, out: &mut Vec<u8>) {
        self.asked = option::GO;
        let mut data = (self.name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(self.name.as_bytes());
        data.extend_from_slice(&1_u16.to_be_bytes());
        data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
        out.extend(option_bytes(option::GO, &data));
    }

    /// What STARTTLS was answered with.
    fn starting(&mut self, kind: u32, data: &[u8]) -> Result<Step, ClientError> {
        match kind {
            reply::ACK if data.is_empty() => {
                self.insecure = false;
                Ok(Step::StartTls)
            }
            reply::ACK => Err(ClientError::Protocol("its answer to STARTTLS has data")),
            reply::UNSUPPORTED | reply::POLICY => {
                let why = "it has no TLS: give it a certificate, or reach it with nbd:// if the network is yours alone";
                Err(ClientError::Refused { why, text: quoted(data) })
            }
            kind => Err(refusal(kind, data)),
        }
    }

    fn answer(&mut self, kind: u32, data: &[u8]) -> Result<Step, ClientError> {
        match kind {
            reply::INFO => {
                self.inform(data)?;
                Ok(Step::Again)
            }
            reply::ACK => {
                let (size, flags) =
                    self.size_and_flags.ok_or(ClientError::Protocol("it did not say the size"))?;
                Ok(Step::Agreed(Agreed {
                    size,
                    flags,
                    block_bytes: self.block_bytes,
                    request_bytes_max: self.request_bytes_max,
                    structured: self.structured,
                    allocation: self.allocation,
                }))
            }
            kind => Err(refusal(kind, data)),
        }
    }

    fn inform(&mut self, data: &[u8]) -> Result<(), ClientError> {
        let short = ClientError::Protocol("an information is too short");
        let (kind, data) = split::<2>(data).ok_or_else(|| short.clone())?;
        match u16::from_be_bytes(kind) {
            info::EXPORT => {
                let (size, rest) = split::<8>(data).ok_or_else(|| short.clone())?;
                let (flags, _) = split::<2>(rest).ok_or(short)?;
                let size = u64::from_be_bytes(size);
                if i64::try_from(size).is_err() {
                    return Err(ClientError::Protocol("its size is beyond 2^63 bytes"));
                }
                self.size_and_flags = Some((size, u16::from_be_bytes(flags)));
            }
            info::BLOCK_SIZE => {
                let (least, rest) = split::<4>(data).ok_or_else(|| short.clone())?;
                let (_, rest) = split::<4>(rest).ok_or_else(|| short.clone())?;
                let (most, _) = split::<4>(rest).ok_or(short)?;
                self.limits(u32::from_be_bytes(least), u32::from_be_bytes(most))?;
            }
            _ => {} // what was not asked for may come, and is passed over
        }
        Ok(())
    }

    fn limits(&mut self, least: u32, most: u32) -> Result<(), ClientError> {
        let block = BLOCK_BYTES as u32;
        if !least.is_power_of_two() || most < least {
            return Err(ClientError::Protocol("its limits of requests make no sense"));
        }
        if least > block || most < block {
            return Err(ClientError::Refused {
                why: "its requests are not those of a member: a member takes blocks of 4 KiB",
                text: String::new(),
            });
        }
        self.block_bytes = least;
        // Whole blocks, so that every part of a request is as aligned as the whole.
        self.request_bytes_max = most.min(REQUEST_BYTES_MAX) / block * block;
        Ok(())
    }
}

fn refusal(kind: u32, data: &[u8]) -> ClientError {
    let why = match kind {
        reply::UNSUPPORTED => "it does not know GO: it is too old",
        reply::POLICY => "it may not serve us",
        reply::TLS_REQUIRED => "it wants TLS: write nbds:// and say whom to trust (--member-tls-ca)",
        reply::UNKNOWN => "it has no export of this name (nbdinfo --list shows those it has)",
        reply::SHUTDOWN => "it is going down",
        reply::BLOCK_SIZE_REQUIRED => "it wants more to be agreed on than there is",
        _ => "it gave an error",
    };
    ClientError::Refused { why, text: quoted(data) }
}

/// A server's text in brackets, short and on one line.
fn quoted(data: &[u8]) -> String {
    let text: String =
        String::from_utf8_lossy(data).chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
    if text.is_empty() { text } else { format!(" ({text})") }
}

/// What the head of a reply says at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Not all of it is here yet.
    Short,
    /// No simple reply starts here: the session is lost.
    BadMagic,
    /// The head of a reply, [`REPLY_BYTES`] long; the data of a READ without error follows.
    Simple {
        /// From the request.
        cookie: u64,
        /// As the protocol numbers it; 0 is success.
        error: u32,
    },
}

/// Reads the head of a reply.
#[must_use]
pub fn parse_reply(bytes: &[u8]) -> Reply {
    let Some((magic, rest)) = split::<4>(bytes) else { return Reply::Short };
    if u32::from_be_bytes(magic) != SIMPLE_MAGIC {
        return Reply::BadMagic;
    }
    let Some((error, rest)) = split::<4>(rest) else { return Reply::Short };
    let Some((cookie, _)) = split::<8>(rest) else { return Reply::Short };
    Reply::Simple { cookie: u64::from_be_bytes(cookie), error: u32::from_be_bytes(error) }
}

#[cfg(test)]
mod tests {
    use super::super::handshake::{Export, Handshake, Step as ServerStep, export_flags, greeting};
    use super::super::wire::simple_reply;
    use super::*;

    /// Our own server's machine against this one, `chunk` bytes at a time.
    fn negotiate(name: &str, flags: u16, chunk: usize) -> Result<Agreed, ClientError> {
        let exports = [Export { name: "disk".into(), description: String::new(), size: 1 << 30, flags }];
        let (mut server, mut client) = (Handshake::default(), Opening::new(name).mapping());
        let (mut to_client, mut to_server) = (greeting().to_vec(), Vec::new());
        let (mut at_client, mut at_server, mut here) = (0, 0, 0);
        loop {
            here = (here + chunk).min(to_client.len());
            loop {
                let (took, step) = client.step(&to_client[at_client..here], &mut to_server)?;
                at_client += took;
                match step {
                    Step::Agreed(agreed) => return Ok(agreed),
                    Step::Again => {}
                    Step::More => break,
                    Step::StartTls => unreachable!("nobody asked for TLS"),
                }
            }
            let (took, step) = server.step(&to_server[at_server..], &exports, false, &mut to_client);
            at_server += took;
            assert_ne!(step, ServerStep::Close, "the server does not hang up");
        }
    }

    #[test]
    fn both_machines_of_this_crate_agree_whatever_the_pieces() {
        for chunk in [1, 2, 7, 19, 1000] {
            let agreed = negotiate("disk", export_flags(true, false), chunk).expect("agreed");
            assert_eq!((agreed.size, agreed.block_bytes, agreed.request_bytes_max), (1 << 30, 1, 4 << 20));
            assert!(agreed.is_read_only() && agreed.can_flush() && agreed.structured);
            assert_eq!(agreed.allocation, Some(super::super::wire::ALLOCATION_ID));
        }
    }

    #[test]
    fn an_export_that_is_not_there_is_named_with_the_servers_own_words() {
        let problem = negotiate("other", export_flags(false, false), 64).expect_err("unknown").to_string();
        assert!(problem.contains("no export of this name") && problem.contains("(there is no"), "{problem}");
    }

    #[test]
    fn addresses_are_read_and_wrong_ones_say_how_they_should_be() {
        let tcp = |text: &str| text.parse::<Address>().map(|a| (a.server, a.export));
        let host = |name: &str, port| Endpoint::Tcp(name.into(), port);
        assert_eq!(tcp("nbd://far"), Ok((host("far", 10809), String::new())));
        assert_eq!(tcp("nbd://far:7/a%20b/c"), Ok((host("far", 7), "a b/c".into())));
        assert_eq!(tcp("nbd://[::1]:7/x"), Ok((host("::1", 7), "x".into())));
        assert_eq!(
            tcp("nbd+unix:///x?socket=/run/a%3fb"),
            Ok((Endpoint::Unix("/run/a?b".into()), "x".into()))
        );
        for (wrong, hint) in [
            ("nbd://", "HOST"),
            ("nbd://far:port/", "HOST"),
            ("nbd://[::1", "HOST"),
            ("nbd://[::1]7", "HOST"),
            ("nbd://far/%4", "HOST"),
            ("nbds:/far/", "HOST"),
            ("nbd://me@far/", "users"),
            ("nbd://far/x?socket=/s", "sockets"),
            ("nbd://far/x?tls-hostname=y", "nbds"),
            ("nbds://far/x?tls-hostname=", "tls-hostname= needs"),
            ("nbds://far/?tls-certificates=/etc", "--member-tls-ca"),
            ("nbd+unix:///x", "socket=PATH"),
            ("nbd+unix:///x?socket=", "socket=PATH"),
        ] {
            let problem = wrong.parse::<Address>().expect_err(wrong);
            assert!(problem.contains(hint) && problem.contains(wrong), "{problem}");
        }
    }

    #[test]
    fn with_tls_the_name_of_the_certificate_is_the_hosts_unless_the_address_says_another() {
        let name = |text: &str| text.parse::<Address>().expect(text).tls;
        assert_eq!(name("nbd://far/x"), None);
        assert_eq!(name("nbds://far:7/x"), Some("far".into()));
        assert_eq!(name("nbds://[::1]/x"), Some("::1".into()));
        assert_eq!(name("nbds://127.0.0.1:7/x?tls-hostname=far"), Some("far".into()));
        assert_eq!(name("nbds+unix:///x?socket=/s"), Some("localhost".into()));
        assert_eq!(name("nbds+unix:///x?socket=/s&tls-hostname=a.b"), Some("a.b".into()));
    }

    #[test]
    fn tls_is_asked_for_before_the_export_is_named_and_what_comes_instead_is_an_error() {
        let answered = |option: u32, kind: u32, data: &[u8]| {
            let (mut client, mut out) = (Opening::secured("secret name"), Vec::new());
            let input = told_of(option, kind, data);
            let (took, step) = client.step(&input, &mut out)?;
            assert_eq!((took, step), (18, Step::Again));
            assert_eq!(out, [&3_u32.to_be_bytes()[..], &option_bytes(option::STARTTLS, &[])].concat());
            let (_, step) = client.step(&input[took..], &mut out)?;
            assert_eq!(out.len(), 20, "nothing more before TLS");
            client.begin(&mut out);
            Ok((step, out.ends_with(&[0, 1, 0, 3]), String::from_utf8_lossy(&out).contains("secret name")))
        };
        assert_eq!(answered(option::STARTTLS, reply::ACK, &[]), Ok((Step::StartTls, true, true)));
        let why = |option, kind, data: &[u8]| -> String {
            let problem: ClientError = answered(option, kind, data).expect_err("refused");
            problem.to_string()
        };
        assert!(why(option::STARTTLS, reply::UNSUPPORTED, b"what?").contains("it has no TLS"));
        assert!(why(option::STARTTLS, reply::ACK, b"x").contains("has data"));
        assert!(why(option::GO, reply::ACK, &[]).contains("makes no sense"));
        assert!(why(option::STARTTLS, reply::SHUTDOWN, &[]).contains("going down"));
    }

    fn told(kind: u32, data: &[u8]) -> Vec<u8> {
        told_of(option::GO, kind, data)
    }

    fn told_of(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = greeting().to_vec();
        bytes.extend(REPLY_MAGIC.to_be_bytes());
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn run(input: &[u8]) -> Result<Step, ClientError> {
        let (mut client, mut at) = (Opening::new(""), 0);
        loop {
            let (took, step) = client.step(&input[at..], &mut Vec::new())?;
            at += took;
            if step != Step::Again {
                return Ok(step);
            }
        }
    }

    #[test]
    fn a_server_that_lacks_chunks_or_contexts_is_used_without() {
        let says = |option: u32, kind: u32, data: &[u8]| told_of(option, kind, data)[18..].to_vec();
        let size = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
        let end = [says(option::GO, reply::INFO, &size), says(option::GO, reply::ACK, &[])].concat();
        let context = [&5_u32.to_be_bytes()[..], b"base:allocation"].concat();
        let set = option::SET_META_CONTEXT;
        let chunks = says(option::STRUCTURED_REPLY, reply::ACK, &[]);
        for (answers, structured, allocation) in [
            (says(option::STRUCTURED_REPLY, reply::UNSUPPORTED, b"what?"), false, None),
            ([chunks.clone(), says(set, reply::UNSUPPORTED, &[])].concat(), true, None),
            ([chunks.clone(), says(set, reply::ACK, &[])].concat(), true, None),
            (
                [chunks, says(set, reply::META_CONTEXT, &context), says(set, reply::ACK, &[])].concat(),
                true,
                Some(5),
            ),
        ] {
            let input = [&greeting()[..], &answers, &end].concat();
            let (mut client, mut at) = (Opening::new("").mapping(), 0);
            let agreed = loop {
                let (took, step) = client.step(&input[at..], &mut Vec::new()).expect("a server");
                at += took;
                if let Step::Agreed(agreed) = step {
                    break agreed;
                }
                assert_eq!(step, Step::Again);
            };
            assert_eq!(
                (agreed.structured, agreed.allocation, agreed.size),
                (structured, allocation, 1 << 16)
            );
        }
        let early = [&greeting()[..], &says(option::STRUCTURED_REPLY, reply::INFO, &size)].concat();
        let mut client = Opening::new("").mapping();
        client.step(&early, &mut Vec::new()).expect("greeted");
        assert!(client.step(&early[18..], &mut Vec::new()).is_err());
    }

    #[test]
    fn nonsense_of_a_server_is_an_error_and_never_believed() {
        let limits = |least: u32, most: u32| {
            let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
            [least, 4096, most].iter().for_each(|n| data.extend(n.to_be_bytes()));
            told(reply::INFO, &data)
        };
        for (name, input) in [
            ("another protocol", b"SSH-2.0-OpenSSH_9.2".to_vec()),
            ("an information of one byte", told(reply::INFO, &[0])),
            ("an export of three bytes", told(reply::INFO, &[0, 0, 1])),
            ("a size beyond every file", told(reply::INFO, &[0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
            ("blocks of three bytes", limits(3, 1 << 20)),
            ("blocks of 64 KiB", limits(64 << 10, 1 << 20)),
            ("requests of 512 bytes", limits(512, 512)),
            ("an end without a size", told(reply::ACK, &[])),
            ("a long answer", told(reply::INFO, &vec![9; ANSWER_BYTES_MAX + 1])),
        ] {
            assert!(run(&input).is_err(), "{name}");
        }
        assert_eq!(run(&limits(512, 5000)), Ok(Step::More));
        let text = "x\u{1b}[2J".repeat(1000);
        let problem = run(&told(reply::POLICY, text.as_bytes())).expect_err("refused").to_string();
        assert!(problem.len() < 300 && !problem.contains('\u{1b}'), "{problem}");
    }

    #[test]
    fn a_reply_is_short_at_every_cut_and_bad_at_its_fourth_byte() {
        let reply = simple_reply(None, 7);
        for cut in 0..REPLY_BYTES {
            assert_eq!(parse_reply(&reply[..cut]), Reply::Short);
        }
        assert_eq!(parse_reply(&reply), Reply::Simple { cookie: 7, error: 0 });
        assert_eq!(parse_reply(&[0; 4]), Reply::BadMagic);
    }
}
