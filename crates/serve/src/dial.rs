//! Reaching the server of a member: a stream that is connected, under TLS if the address says so, and through its
//! negotiation, within a deadline.
//!
//! It blocks, so the loop lets a thread do it when a connection was lost; before the loop runs it is done in place.

use crate::member_tls;
use crate::nbd::client::{ANSWER_BYTES_MAX, Address, Agreed, ClientError, Endpoint, Opening, Step};
use crate::socket::{Socket, Transport};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long reaching a server and agreeing with it may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a server that refused a connection is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// What a server may mean that hangs up as TLS begins.
const HUNG_UP: &str = "its server hung up as TLS began: if it wants a certificate of ours, give --member-tls-cert and \
                       --member-tls-key of its authority; its log says why";

/// Whom to reach, and how to know it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// For an address with TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// Why a member's server was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ClientError),
    /// The two sides do not trust each other; it will not be better in a moment.
    #[error("{0}")]
    Trust(String),
}

impl DialError {
    /// The same as what the system would have said.
    pub(crate) fn into_io(self) -> io::Error {
        match self {
            Self::Network(problem) => problem,
            other => io::Error::other(other.to_string()),
        }
    }

    /// A failure before anything was agreed on. Servers by GnuTLS end TLS 1.3 without a word when they miss a certificate, after
    /// both sides have finished.
    fn of_beginning(socket: &Socket, problem: io::Error) -> Self {
        let ended = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        if socket.is_secure() && ended.contains(&problem.kind()) {
            return Self::Network(io::Error::new(problem.kind(), HUNG_UP));
        }
        Self::of_stream(problem)
    }

    /// A failure of a stream, which may be one of TLS.
    fn of_stream(problem: io::Error) -> Self {
        match (member_tls::explain(&problem), problem.kind()) {
            (Some(why), _) => Self::Trust(why),
            (None, io::ErrorKind::WouldBlock) => Self::Network(io::ErrorKind::TimedOut.into()),
            (None, _) => Self::Network(problem),
        }
    }
}

/// One try.
pub(crate) fn dial(target: &Target) -> Result<(Socket, Agreed), DialError> {
    let deadline = Instant::now() + PATIENCE;
    let mut socket = Socket::plain(connect(&target.address.server, deadline)?);
    let agreed = negotiate(&mut socket, target, deadline)?;
    let stream = socket.stream();
    stream.wait_at_most(None)?;
    stream.prepare(None)?;
    Ok((socket, agreed))
}

/// Tries again and again until the deadline: a server that is started anew is away for a moment.
pub(crate) fn redial(target: &Target) -> Result<(Socket, Agreed), DialError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match dial(target) {
            Err(DialError::Network(_)) if Instant::now() + PAUSE < deadline => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn connect(server: &Endpoint, deadline: Instant) -> io::Result<Transport> {
    match server {
        Endpoint::Unix(path) => UnixStream::connect(path).map(Transport::Unix),
        Endpoint::Tcp(host, port) => {
            let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name of the host has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, left(deadline)?) {
                    Ok(stream) => return Ok(Transport::Tcp(stream)),
                    Err(why) => problem = why,
                }
            }
            Err(problem)
        }
    }
}

/// The time that is left; an error when there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn write_all(socket: &mut Socket, mut bytes: &[u8]) -> Result<(), DialError> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(took) => bytes = &bytes[took..],
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(problem) => return Err(DialError::of_beginning(socket, problem)),
        }
    }
    Ok(())
}

/// Puts TLS under what follows: both sides agree, and the server is who the address says.
fn secure(socket: &mut Socket, target: &Target, deadline: Instant) -> Result<(), DialError> {
    let name = target.address.tls.clone().unwrap_or_default();
    let trust =
        |why: &dyn std::fmt::Display| DialError::Trust(format!("{name:?} is no name of a server: {why}"));
    let Some(config) = &target.tls else { return Err(trust(&"nobody said whom to trust")) };
    let server = ServerName::try_from(name.clone()).map_err(|why| trust(&why))?;
    socket.secure_to(config, server).map_err(|why| trust(&why))?;
    while socket.is_handshaking() {
        socket.push().map_err(DialError::of_stream)?;
        socket.stream().wait_at_most(Some(left(deadline)?))?;
        match socket.take_records() {
            Err(problem) if problem.kind() != io::ErrorKind::Interrupted => {
                return Err(DialError::of_beginning(socket, problem));
            }
            _ => {}
        }
    }
    socket.push().map_err(DialError::of_stream)
}

fn negotiate(socket: &mut Socket, target: &Target, deadline: Instant) -> Result<Agreed, DialError> {
    let export = &target.address.export;
    let machine = if target.address.tls.is_some() { Opening::secured(export) } else { Opening::new(export) };
    let mut machine = machine.mapping();
    // The longest answer with its head; the machine takes it before more is read.
    let (mut buffer, mut end) = (vec![0; 20 + ANSWER_BYTES_MAX], 0);
    loop {
        let mut start = 0;
        loop {
            let mut out = Vec::new();
            let (took, step) = machine.step(&buffer[start..end], &mut out)?;
            start += took;
            write_all(socket, &out)?;
            match step {
                Step::Again => {}
                Step::More => break,
                // Whoever is on the way could have put them there, to be taken for the server's words under TLS.
                Step::StartTls | Step::Agreed(_) if start < end => {
                    return Err(ClientError::Protocol("it sends what nobody asked for").into());
                }
                Step::StartTls => {
                    secure(socket, target, deadline)?;
                    let mut out = Vec::new();
                    machine.begin(&mut out);
                    write_all(socket, &out)?;
                }
                Step::Agreed(agreed) => return Ok(agreed),
            }
        }
        buffer.copy_within(start..end, 0);
        end -= start;
        socket.stream().wait_at_most(Some(left(deadline)?))?;
        match socket.read(&mut buffer[end..]) {
            Ok(0) => return Err(DialError::of_beginning(socket, io::ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => end += bytes,
            // Of TLS there may have been records without a byte in them; the deadline holds all the same.
            Err(problem) if socket.is_secure() && problem.kind() == io::ErrorKind::WouldBlock => {}
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => {}
            Err(problem) => return Err(DialError::of_beginning(socket, problem)),
        }
    }
}
