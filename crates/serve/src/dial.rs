//! Reaching the server of a member: a stream that is connected and through its negotiation, within a deadline.
//!
//! It blocks, so the loop lets a thread do it when a connection was lost; before the loop runs it is done in place.

use crate::nbd::client::{ANSWER_BYTES_MAX, Address, Agreed, ClientError, Endpoint, Opening, Step};
use crate::socket::Stream;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How long reaching a server and agreeing with it may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a server that refused a connection is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long data may lie unacknowledged on the network before the connection counts as lost, milliseconds.
const UNACKNOWLEDGED_MS: u32 = 30_000;

/// Why a member's server was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("{0}")]
    Network(#[from] io::Error),
    #[error("{0}")]
    Protocol(#[from] ClientError),
}

impl DialError {
    /// The same as what the system would have said.
    pub(crate) fn into_io(self) -> io::Error {
        match self {
            Self::Network(problem) => problem,
            Self::Protocol(problem) => io::Error::other(problem),
        }
    }
}

/// One try.
pub(crate) fn dial(address: &Address) -> Result<(Stream, Agreed), DialError> {
    let deadline = Instant::now() + PATIENCE;
    let mut socket = connect(&address.server, deadline)?;
    let agreed = negotiate(&mut socket, &address.export, deadline)?;
    match &socket {
        Stream::Unix(stream) => {
            stream.set_read_timeout(None)?;
            stream.set_nonblocking(true)?;
        }
        Stream::Tcp(stream) => {
            stream.set_read_timeout(None)?;
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            rustix::net::sockopt::set_socket_keepalive(stream, true).map_err(io::Error::from)?;
            rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS).map_err(io::Error::from)?;
        }
    }
    Ok((socket, agreed))
}

/// Tries again and again until the deadline: a server that is started anew is away for a moment.
pub(crate) fn redial(address: &Address) -> Result<(Stream, Agreed), DialError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match dial(address) {
            Err(DialError::Network(_)) if Instant::now() + PAUSE < deadline => std::thread::sleep(PAUSE),
            result => return result,
        }
    }
}

fn connect(server: &Endpoint, deadline: Instant) -> io::Result<Stream> {
    match server {
        Endpoint::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
        Endpoint::Tcp(host, port) => {
            let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name of the host has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, left(deadline)?) {
                    Ok(stream) => return Ok(Stream::Tcp(stream)),
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

fn negotiate(socket: &mut Stream, export: &str, deadline: Instant) -> Result<Agreed, DialError> {
    let mut machine = Opening::new(export);
    // The longest answer with its head; the machine takes it before more is read.
    let (mut buffer, mut end) = (vec![0; 20 + ANSWER_BYTES_MAX], 0);
    loop {
        let mut start = 0;
        loop {
            let mut out = Vec::new();
            let (took, step) = machine.step(&buffer[start..end], &mut out)?;
            start += took;
            match socket {
                Stream::Unix(stream) => stream.write_all(&out)?,
                Stream::Tcp(stream) => stream.write_all(&out)?,
            }
            match step {
                Step::Again => {}
                Step::More => break,
                Step::Agreed(_) if start < end => {
                    return Err(ClientError::Protocol("it sends replies that nobody asked for").into());
                }
                Step::Agreed(agreed) => return Ok(agreed),
            }
        }
        buffer.copy_within(start..end, 0);
        end -= start;
        let wait = Some(left(deadline)?);
        let got = match socket {
            Stream::Unix(stream) => {
                stream.set_read_timeout(wait)?;
                stream.read(&mut buffer[end..])
            }
            Stream::Tcp(stream) => {
                stream.set_read_timeout(wait)?;
                stream.read(&mut buffer[end..])
            }
        };
        match got {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(bytes) => end += bytes,
            Err(problem) if problem.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            Err(problem) => return Err(problem.into()),
        }
    }
}
