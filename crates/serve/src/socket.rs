//! A stream of bytes to one client, or to the server of a member: within the machine or over a network, plain or under TLS.

use crate::tls::Session;
use crate::ublk::stream::Stream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// How long data or a probe may lie unacknowledged on the network before the connection counts as lost, milliseconds.
const UNACKNOWLEDGED_MS: u32 = 30_000;

/// How long it takes from a probe that was not answered to the next.
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// The kinds of stream.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Within the machine.
    Unix(UnixStream),
    /// Over a network.
    Tcp(TcpStream),
    /// The requests of a block device of the kernel.
    Device(Box<Stream>),
}

impl Transport {
    /// Makes it ready for the loop: no call waits, small answers leave at once, and a far side that is gone without a word
    /// is found out: when something lies unacknowledged, and, if it is silent for `keep_alive`, by probes of the kernel (two hours
    /// unless something else is said, `net.ipv4.tcp_keepalive_time`).
    pub(crate) fn prepare(&self, keep_alive: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Device(_) => Ok(()),
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(stream, true)?;
                if let Some(time) = keep_alive {
                    rustix::net::sockopt::set_tcp_keepidle(stream, time)?;
                    rustix::net::sockopt::set_tcp_keepintvl(stream, time.min(PROBE_EVERY))?;
                }
                Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS)?)
            }
        }
    }

    /// How long a read waits; `None` is for ever.
    pub(crate) fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(time),
            Self::Tcp(stream) => stream.set_read_timeout(time),
            Self::Device(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
            Self::Device(stream) => stream.read(buffer),
        }
    }
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read_vectored(buffers),
            Self::Tcp(stream) => stream.read_vectored(buffers),
            Self::Device(stream) => stream.read_vectored(buffers),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
            Self::Device(stream) => stream.write_vectored(&[IoSlice::new(buffer)]),
        }
    }
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(buffers),
            Self::Tcp(stream) => stream.write_vectored(buffers),
            Self::Device(stream) => stream.write_vectored(buffers),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(_) | Self::Tcp(_) => Ok(()),
            Self::Device(stream) => stream.push(),
        }
    }
}

/// A stream, and the TLS over it once that was agreed on.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Transport,
    tls: Option<Box<Session>>,
}

impl Socket {
    pub(crate) const fn plain(stream: Transport) -> Self {
        Self { stream, tls: None }
    }

    /// From now on every byte goes through TLS.
    pub(crate) fn secure(&mut self, config: &Arc<ServerConfig>) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(Session::new(config)?));
        Ok(())
    }

    /// The same, as the client of a server of this name.
    pub(crate) fn secure_to(
        &mut self,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(Session::to_server(config, name)?));
        Ok(())
    }

    /// Whether the two sides of TLS have not agreed yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Receives records once; an error when the stream has ended.
    pub(crate) fn take_records(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        if tls.take_records(&mut self.stream)? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// What lies below.
    pub(crate) const fn stream(&self) -> &Transport {
        &self.stream
    }

    pub(crate) const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether a call hands its bytes to a program of this machine as they are.
    pub(crate) const fn is_plain_and_local(&self) -> bool {
        self.tls.is_none() && matches!(self.stream, Transport::Unix(_))
    }

    /// Whether bytes are here that `epoll` does not know of.
    pub(crate) fn has_readable(&self) -> bool {
        match &self.stream {
            Transport::Device(stream) => stream.has_readable(),
            Transport::Unix(_) | Transport::Tcp(_) => self.tls.as_ref().is_some_and(|tls| tls.has_readable()),
        }
    }

    /// Whether bytes that were taken wait for the stream.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(buffer),
            Some(tls) => tls.read(&mut self.stream, buffer),
        }
    }

    pub(crate) fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read_vectored(buffers),
            Some(tls) => tls.read_vectored(&mut self.stream, buffers),
        }
    }

    /// Takes bytes of `buffer` to be sent, at least one of a buffer that has some.
    pub(crate) fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)])
    }

    pub(crate) fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.stream.write_vectored(buffers),
            Some(tls) => tls.write_vectored(&mut self.stream, buffers),
        }
    }

    /// Sends what was taken and waits. `WouldBlock` when the stream does not take it all.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.flush(),
            Some(tls) => tls.push(&mut self.stream),
        }
    }

    /// Requests are taken from now on by this thread, where that has to be said.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Transport::Device(stream) => stream.begin(),
            Transport::Unix(_) | Transport::Tcp(_) => Ok(()),
        }
    }

    /// Nothing will follow.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.say_goodbye(&mut self.stream);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Device(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_client_that_is_gone_without_a_word_is_found_out() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let _client = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let stream = listener.accept().expect("one comes").0;
        Transport::Tcp(stream.try_clone().expect("a copy"))
            .prepare(Some(Duration::from_secs(60)))
            .expect("prepared");
        assert!(rustix::net::sockopt::socket_keepalive(&stream).expect("told"));
        let timeout = rustix::net::sockopt::tcp_user_timeout(&stream).expect("told");
        assert_eq!(timeout, UNACKNOWLEDGED_MS);
    }
}
