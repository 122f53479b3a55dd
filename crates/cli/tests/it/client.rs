//! A server that a test has started, and a client of it, as far as its handshake: what it asks then is the test's.

use forerun_serve::nbd::handshake::option_bytes;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// A server, which ends with whoever holds it: also where a judge panics.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended; and nothing can be done about what cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Longest wait for an answer: a server that gives none fails the test, and does not hang it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to an export of this name, with simple replies.
pub(super) fn connect(socket: &Path, export: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.read_exact(&mut [0; 18]).expect("greeted");
    stream.write_all(&3_u32.to_be_bytes()).expect("sent");
    let words = [&(export.len() as u32).to_be_bytes(), export.as_bytes(), &[0; 2]].concat();
    stream.write_all(&option_bytes(7, &words)).expect("sent");
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).expect("answered");
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        stream.read_exact(&mut vec![0; word(16) as usize]).expect("answered");
        if word(12) == 1 {
            return stream;
        }
    }
}
