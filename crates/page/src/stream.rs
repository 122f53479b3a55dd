//! A visitor's connection, by TCP or through a unix socket: read, written and shut the same way.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One of them.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Nothing more is read or written.
    pub(crate) fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        }
    }

    /// Reads what is there, within `left`.
    pub(crate) fn read_within(&self, left: Duration, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(left))?;
                let mut stream = stream;
                stream.read(into)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(left))?;
                let mut stream = stream;
                stream.read(into)
            }
        }
    }

    /// Writes what there is room for, within `left`.
    pub(crate) fn write_within(&self, left: Duration, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => {
                stream.set_write_timeout(Some(left))?;
                let mut stream = stream;
                stream.write(from)
            }
            Self::Unix(stream) => {
                stream.set_write_timeout(Some(left))?;
                let mut stream = stream;
                stream.write(from)
            }
        }
    }
}
