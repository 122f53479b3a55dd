//! A connection to a far member that a test makes up: the handshake of its one export, and its requests one by one. Shared with
//! the tests of the command.

use forerun_serve::nbd::handshake::{Export, Handshake, Step, Tls, greeting};
use forerun_serve::nbd::wire::{Command, Parsed, REQUEST_BYTES, Request, parse_request};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// A client that has shaken hands.
pub(crate) struct Shaken {
    pub(crate) stream: UnixStream,
    /// It takes structured replies.
    pub(crate) structured: bool,
}

impl Shaken {
    /// Offers an export of `size` bytes with these flags; `None` if the client leaves before it is taken.
    pub(crate) fn hands(mut stream: UnixStream, size: u64, flags: u16) -> Option<Self> {
        let exports = [Export { name: String::new(), description: String::new(), size, flags }];
        let (mut machine, mut input) = (Handshake::new(Tls::Off), Vec::new());
        stream.write_all(&greeting()).ok()?;
        loop {
            let mut out = Vec::new();
            let (took, step) = machine.step(&input, &exports, false, &mut out);
            input.drain(..took);
            stream.write_all(&out).ok()?;
            match step {
                Step::More => {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).ok()?;
                    input.extend(byte);
                }
                Step::Again => {}
                Step::Transmission(terms) => return Some(Self { stream, structured: terms.structured }),
                _ => return None,
            }
        }
    }

    /// The next request, with what it writes.
    pub(crate) fn request(&mut self) -> Option<(Request, Vec<u8>)> {
        let mut head = [0; REQUEST_BYTES];
        self.stream.read_exact(&mut head).ok()?;
        let Parsed::Request(request) = parse_request(&head) else { return None };
        let written = if request.command == Command::Write { request.length as usize } else { 0 };
        let mut data = vec![0; written];
        self.stream.read_exact(&mut data).ok()?;
        Some((request, data))
    }

    pub(crate) fn answer(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }
}
