//! A small client that sends exactly what a test wants, and a server in a thread of the test.

use forerun_serve::error::ServeError;
use forerun_serve::messages::Messages;
use forerun_serve::nbd::handshake::option_bytes;
use forerun_serve::nbd::wire::{CHUNK_MAGIC, Command, Request, SIMPLE_MAGIC, request, request_bytes};
use forerun_serve::options::{Listen, Options};
use forerun_serve::{Ended, Metrics, Server, Stop};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a test waits for an answer that should come: far above what a loaded machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server in a thread, and the folder of its socket and files.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    pub(crate) uri: String,
    /// Address of the live page, if it has one.
    pub(crate) page: Option<SocketAddr>,
    stop: Stop,
    thread: Option<JoinHandle<(Metrics, Vec<String>)>>,
}

impl Running {
    pub(crate) fn start(options: &Options) -> Self {
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&said);
        let messages = Messages::start(move |said| lines.lock().expect("whole").push(said.text.clone()));
        Self::start_with(options, messages.expect("a thread"), said)
    }

    /// With other messages; what of them is in `said` comes back from [`Self::stop`].
    pub(crate) fn start_with(
        options: &Options,
        mut messages: Messages,
        said: Arc<Mutex<Vec<String>>>,
    ) -> Self {
        let server = Server::bind(options).expect("the server starts");
        let (uri, stop) = (server.uri(), server.stopper());
        let page = server.page().and_then(|page| page.trim_matches(['h', 't', 'p', ':', '/']).parse().ok());
        let socket = match &options.listen {
            Listen::Unix(socket) => socket.clone(),
            Listen::Tcp(_) | Listen::Inherited => PathBuf::new(),
        };
        let thread = std::thread::spawn(move || {
            let Ended { metrics, failures } = server.run(&mut messages).expect("the server runs");
            let is_changed = |failure: &ServeError| matches!(failure, ServeError::Changed { .. });
            assert!(failures.iter().all(is_changed), "{failures:?}");
            // A server that does not listen is not waited for.
            let _ = messages.finish(Duration::from_secs(1));
            let mut said = std::mem::take(&mut *said.lock().expect("whole"));
            said.extend(failures.iter().map(ServeError::to_string));
            (metrics, said)
        });
        Self { socket, uri, page, stop, thread: Some(thread) }
    }

    /// Stops it, and returns what it counted and said.
    pub(crate) fn stop(mut self) -> (Metrics, Vec<String>) {
        self.stop.stop();
        self.thread.take().expect("stopped once").join().expect("the server does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            // A test that fails already has its reason.
            drop(thread.join());
        }
    }
}

/// A file of `bytes` bytes with known content.
pub(crate) fn image(folder: &Path, bytes: usize) -> (PathBuf, Vec<u8>) {
    let path = folder.join("disk.img");
    let content: Vec<u8> = (0..bytes as u64).map(|at| mix(at / 8).to_le_bytes()[(at % 8) as usize]).collect();
    std::fs::write(&path, &content).expect("the image is written");
    (path, content)
}

/// SplitMix64 of a counter.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The bytes that open a session up to transmission: client flags, structured replies if wanted, GO.
pub(crate) fn opening(structured: bool, told: bool) -> Vec<u8> {
    opening_of("", structured, told)
}

/// The same for the export of this name.
pub(crate) fn opening_of(name: &str, structured: bool, told: bool) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    if structured {
        bytes.extend(option_bytes(8, &[]));
    }
    let mut go = (name.len() as u32).to_be_bytes().to_vec();
    go.extend_from_slice(name.as_bytes());
    go.extend_from_slice(&u16::from(told).to_be_bytes());
    if told {
        go.extend_from_slice(&3_u16.to_be_bytes());
    }
    bytes.extend(option_bytes(7, &go));
    bytes
}

/// What a request was answered with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) data: Vec<u8>,
}

/// One client.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    structured: bool,
    pub(crate) size: u64,
    pub(crate) flags: u16,
    cookie: u64,
    /// Reads by cookie: offset and length, to put chunks where they belong.
    reads: BTreeMap<u64, (u64, Vec<u8>)>,
}

impl Client {
    pub(crate) fn connect(socket: &Path, structured: bool) -> Self {
        Self::connect_as(socket, structured, true)
    }

    pub(crate) fn connect_as(socket: &Path, structured: bool, told: bool) -> Self {
        Self::connect_to(socket, "", structured, told)
    }

    pub(crate) fn connect_to(socket: &Path, name: &str, structured: bool, told: bool) -> Self {
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_write_timeout(Some(PATIENCE)).expect("a deadline");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("greeted");
        stream.write_all(&opening_of(name, structured, told)).expect("sent");
        let mut client = Self { stream, structured, size: 0, flags: 0, cookie: 0, reads: BTreeMap::new() };
        client.finish_options(if structured { 2 } else { 1 });
        client
    }

    /// One that may ask where the first export has holes.
    pub(crate) fn connect_mapping(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("greeted");
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option_bytes(8, &[]));
        // Of the export without a name, one query.
        bytes.extend(option_bytes(10, &[&[0; 7][..], &[1, 0, 0, 0, 15], b"base:allocation"].concat()));
        bytes.extend(option_bytes(7, &[0; 6]));
        stream.write_all(&bytes).expect("sent");
        let mut client =
            Self { stream, structured: true, size: 0, flags: 0, cookie: 0, reads: BTreeMap::new() };
        client.finish_options(3);
        client
    }

    /// What is told of holes: bytes and flags of each run, or the error.
    pub(crate) fn map(&mut self, offset: u64, bytes: u32, one: bool) -> Result<Vec<(u32, u32)>, u32> {
        let flags = if one { request::REQ_ONE } else { 0 };
        let cookie = self.send(Command::BlockStatus, flags, offset, bytes, &[]);
        let head: [u8; 20] = self.take();
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(
            (word(0), u64::from_be_bytes(head[8..16].try_into().expect("eight"))),
            (CHUNK_MAGIC, cookie)
        );
        let mut payload = vec![0; word(16) as usize];
        self.stream.read_exact(&mut payload).expect("a chunk's data");
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes"));
        if word(4) & 0x8000 != 0 {
            return Err(number(0));
        }
        assert_eq!((word(4), number(0)), (1 << 16 | 5, 1), "the last chunk, of the one context");
        Ok((4..payload.len()).step_by(8).map(|at| (number(at), number(at + 4))).collect())
    }

    /// Whether a client that asks for the export gets a place. It hangs up at once.
    pub(crate) fn is_welcome(socket: &Path) -> bool {
        let mut stream = UnixStream::connect(socket).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        let mut head = [0; 18 + 20];
        stream.write_all(&opening(false, true)).expect("sent");
        stream.read_exact(&mut head).expect("an answer to the option");
        head[18 + 12] & 0x80 == 0
    }

    /// Reads option replies until the last option is acknowledged.
    fn finish_options(&mut self, mut acks: u32) {
        while acks > 0 {
            let head: [u8; 20] = self.take();
            let kind = u32::from_be_bytes([head[12], head[13], head[14], head[15]]);
            let length = u32::from_be_bytes([head[16], head[17], head[18], head[19]]) as usize;
            let mut data = vec![0; length];
            self.stream.read_exact(&mut data).expect("an option's reply");
            assert!(kind < 1 << 31, "refused: {}", String::from_utf8_lossy(&data));
            if kind == 3 && data[..2] == [0, 0] {
                self.size = u64::from_be_bytes(data[2..10].try_into().expect("eight bytes"));
                self.flags = u16::from_be_bytes([data[10], data[11]]);
            }
            acks -= u32::from(kind == 1);
        }
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("an answer comes");
        bytes
    }

    /// Sends a request; returns its cookie.
    pub(crate) fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> u64 {
        self.cookie += 1;
        let asked = Request { flags, command, cookie: self.cookie, offset, length };
        let mut bytes = request_bytes(&asked).to_vec();
        bytes.extend_from_slice(data);
        self.stream.write_all(&bytes).expect("sent");
        if command == Command::Read {
            self.reads.insert(self.cookie, (offset, vec![0; length as usize]));
        }
        self.cookie
    }

    /// The next whole answer, of whatever request.
    pub(crate) fn receive(&mut self) -> Reply {
        loop {
            let magic = u32::from_be_bytes(self.take());
            if magic == SIMPLE_MAGIC {
                let error = u32::from_be_bytes(self.take());
                let cookie = u64::from_be_bytes(self.take());
                let (_, mut data) = self.reads.remove(&cookie).unwrap_or_default();
                if error != 0 {
                    data.clear();
                }
                self.stream.read_exact(&mut data).expect("data follows");
                return Reply { cookie, error, data };
            }
            assert_eq!(magic, CHUNK_MAGIC, "the session is in step");
            if let Some(reply) = self.chunk() {
                return reply;
            }
        }
    }

    fn chunk(&mut self) -> Option<Reply> {
        assert!(self.structured, "chunks only where they were agreed on");
        let head: [u8; 16] = self.take();
        let done = head[1] & 1 == 1;
        let kind = u16::from_be_bytes([head[2], head[3]]);
        let cookie = u64::from_be_bytes(head[4..12].try_into().expect("eight bytes"));
        let length = u32::from_be_bytes(head[12..].try_into().expect("four bytes")) as usize;
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).expect("a chunk's data");
        let (start, data) = self.reads.get_mut(&cookie).expect("an answer to a read");
        let mut error = 0;
        if kind == 1 {
            let offset = u64::from_be_bytes(payload[..8].try_into().expect("eight bytes"));
            let at = (offset - *start) as usize;
            data[at..at + length - 8].copy_from_slice(&payload[8..]);
        } else if kind & (1 << 15) != 0 {
            error = u32::from_be_bytes(payload[..4].try_into().expect("four bytes"));
        }
        if !done {
            return None;
        }
        let (_, mut data) = self.reads.remove(&cookie).expect("ended once");
        if error != 0 {
            data.clear();
        }
        Some(Reply { cookie, error, data })
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Reply {
        self.send(Command::Read, 0, offset, length, &[]);
        self.receive()
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8], flags: u16) -> u32 {
        self.send(Command::Write, flags, offset, data.len() as u32, data);
        self.receive().error
    }

    pub(crate) fn flush(&mut self) -> u32 {
        self.send(Command::Flush, 0, 0, 0, &[]);
        self.receive().error
    }
}
