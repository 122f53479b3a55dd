//! Feeds mutated sessions to the server's side of a session, from the first byte of the negotiation to the last request, and to
//! the client's side of the negotiation and of replies: seeded, on the stable toolchain.
//!
//! `cargo run --release -p forerun-serve --example fuzz -- --executions 1000000 [--seed 1]`
//!
//! Each execution takes a legal session, changes it (flips, overwrites, inserts, deletes, repeats, numbers at a boundary),
//! and feeds it in pieces of random size, as a socket would. A panic ends the program with the bytes that caused it. What
//! is answered must stay short, what is asked for must lie inside, and what was lent must come back.
#![expect(clippy::print_stdout, reason = "a program that reports to a person")]

use forerun_core::units::Extent;
use forerun_serve::nbd::client::{Opening, Step as ClientStep};
use forerun_serve::nbd::credit::Credit;
use forerun_serve::nbd::handshake::{Export, Tls, export_flags, greeting, option_bytes};
use forerun_serve::nbd::replies::{Got, Replies, What};
use forerun_serve::nbd::session::{self, Ask, Blocks, Room, Session, Shared, World};
use forerun_serve::nbd::wire::{
    Command, Errno, Request, Run, data_chunk, error_chunk, request_bytes, simple_reply, status_chunk,
};
use std::io::IoSlice;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Most bytes that one session may be answered with: 64 options, each with a few short replies.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of the volume.
const SIZE: u64 = 1 << 21;
const BLOCK: usize = 4096;
const NUMBERS: [u32; 10] = [0, 1, 4095, 4096, 4097, 8192, 8193, 1 << 31, u32::MAX - 1, u32::MAX];

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

fn legal(rng: &mut Rng) -> Vec<u8> {
    let mut session = (rng.below(4) as u32).to_be_bytes().to_vec();
    for _ in 0..rng.below(5) {
        let number = rng.below(13) as u32;
        let name = vec![b'a'; rng.below(5)];
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend(&name);
        let wanted = rng.below(4);
        data.extend((wanted as u16).to_be_bytes());
        (0..wanted).for_each(|kind| data.extend((kind as u16).to_be_bytes()));
        if matches!(number, 9 | 10) {
            // Structured replies come first, and the queries are in the place of what is wanted.
            session.extend(option_bytes(8, &[]));
            data.truncate(4 + name.len());
            let queries = [&b"base:allocation"[..], b"base:", b"", b"x-context:"];
            let queries = &queries[..rng.below(5)];
            data.extend((queries.len() as u32).to_be_bytes());
            for query in queries {
                data.extend((query.len() as u32).to_be_bytes());
                data.extend_from_slice(query);
            }
        }
        session.extend(option_bytes(number, if rng.below(3) == 0 { &[] } else { &data }));
    }
    for _ in 0..rng.below(4) {
        let command = [
            Command::Read,
            Command::Write,
            Command::Flush,
            Command::Trim,
            Command::Cache,
            Command::WriteZeroes,
            Command::BlockStatus,
            Command::Other(9),
        ][rng.below(8)];
        let request =
            Request { flags: 0, command, cookie: 1, offset: rng.below(1 << 21) as u64, length: 4096 };
        session.extend(request_bytes(&request));
        if command == Command::Write {
            session.extend([7; 4096]);
        }
    }
    session
}

fn mutate(rng: &mut Rng, session: &mut Vec<u8>) {
    for _ in 0..rng.below(5) {
        let at = rng.below(session.len());
        if session.is_empty() {
            return;
        }
        match rng.below(6) {
            0 => session[at] = rng.below(256) as u8,
            1 => session[at] ^= 1 << rng.below(8),
            2 => session.truncate(at),
            3 => {
                let copy = session[at..(at + 24).min(session.len())].to_vec();
                session.splice(at..at, copy);
            }
            4 => {
                session.drain(at..(at + 1 + rng.below(8)).min(session.len()));
            }
            _ => {
                let number = NUMBERS[rng.below(NUMBERS.len())].to_be_bytes();
                let end = (at + 4).min(session.len());
                session[at..end].copy_from_slice(&number[..end - at]);
            }
        }
    }
}

/// A server around a session: it has a volume of zeros and does what it is asked at once.
struct Around {
    session: Session<Extent>,
    shared: Shared<Extent>,
    exports: [Export; 1],
    memory: Memory,
    tls: Tls,
    secure: bool,
    said: usize,
}

/// Memory for the data of one write, and the blocks of all answers.
struct Memory(Vec<[u8; BLOCK]>);

impl session::Memory for Memory {
    fn block_mut(&mut self, at: u32) -> &mut [u8] {
        &mut self.0[at as usize]
    }
}

impl Blocks<Extent> for Memory {
    fn run(&self, _: &Extent, _: usize, _: usize) -> &[u8] {
        &self.0[0]
    }
}

impl Around {
    fn new(tls: Tls) -> Self {
        let flags = export_flags(false, false) | forerun_serve::nbd::wire::export::ZEROES;
        let exports = [Export { name: "a".into(), description: "x".into(), size: SIZE, flags }];
        let shared = Shared { credit: Credit::new(4096, 4), back: Vec::new() };
        let memory = Memory(vec![[0; BLOCK]]);
        Self { session: Session::new(tls), shared, exports, memory, tls, secure: false, said: 0 }
    }

    /// Receives from the front of `bytes`; returns how many.
    fn receive(&mut self, bytes: &[u8]) -> usize {
        let took = match self.session.room() {
            Room::Inbox(room) => {
                let take = bytes.len().min(room.len());
                room[..take].copy_from_slice(&bytes[..take]);
                take
            }
            Room::Memory { blocks, first, bytes: room } => {
                assert!(first < BLOCK && room <= blocks.len() * BLOCK, "data stays in its memory");
                bytes.len().min(room)
            }
        };
        self.session.received(took);
        took
    }

    /// Does what the session wants until it wants nothing, `full` of other clients or not.
    fn serve(&mut self, full: bool) {
        loop {
            let world = World { exports: &self.exports, full, failed: false };
            let Some(ask) = self.session.next(&world, &mut self.shared, &mut self.memory) else { return };
            match ask {
                Ask::Part(ticket, extent) => {
                    assert!(extent.end() <= SIZE / BLOCK as u64, "what is accepted lies inside");
                    let answer = if extent.start.0.is_multiple_of(5) { Err(Errno::Io) } else { Ok(extent) };
                    self.session.part(ticket, answer, &mut self.shared);
                }
                Ask::Memory(request) => {
                    assert!(
                        request.offset + u64::from(request.length) <= SIZE,
                        "what is accepted lies inside"
                    );
                    let blocks = self.session.memory_wanted().expect("it asks for some");
                    self.memory.0.resize(blocks.max(self.memory.0.len()), [0; BLOCK]);
                    self.session.grant((0..blocks as u32).collect());
                }
                Ask::Write(ticket, ..) | Ask::Flush(ticket, _) | Ask::Zero(ticket, _) => {
                    self.session.acknowledge(ticket, None);
                }
                Ask::Status(ticket, request) => {
                    assert!(
                        request.offset + u64::from(request.length) <= SIZE,
                        "what is accepted lies inside"
                    );
                    let run = Run { bytes: request.length, flags: 0 };
                    let result =
                        if request.offset.is_multiple_of(5) { Err(Errno::Io) } else { Ok(&[run; 3][..]) };
                    self.session.describe(ticket, result);
                }
                Ask::StartTls => {
                    assert!(
                        self.tls != Tls::Off && !self.secure,
                        "TLS begins once, where there is a certificate"
                    );
                    self.secure = true;
                }
                Ask::Begin => assert!(
                    !full && (self.secure || self.tls != Tls::Require),
                    "nobody gets in without TLS where it is required, or without a place"
                ),
                Ask::Say | Ask::Read(_) | Ask::Hint(_) | Ask::Ended(_) => {}
            }
            self.send();
        }
    }

    /// The client takes all that is said.
    fn send(&mut self) {
        while self.session.has_output() {
            let mut slices = [IoSlice::new(&[]); 8];
            let (_, bytes) = self.session.gather(&self.memory, &mut slices);
            self.said += if self.session.is_serving() { 0 } else { bytes };
            assert!(bytes > 0 && self.said <= ANSWER_BYTES_MAX, "answers of the negotiation stay short");
            self.session.sent(bytes, &mut self.shared);
        }
    }
}

/// One session, fed in pieces. Returns whether it came to requests.
fn run(rng: &mut Rng, bytes: &[u8]) -> bool {
    let mut around = Around::new([Tls::Off, Tls::Allow, Tls::Require][rng.below(3)]);
    let untouched = format!("{:?}", around.shared.credit);
    let mut at = 0;
    around.send();
    while at < bytes.len() && around.session.may_receive() {
        let end = (at + 1 + rng.below(64)).min(bytes.len());
        at += around.receive(&bytes[at..end]);
        around.serve(rng.below(50) == 0);
        around.send();
    }
    let served = around.session.is_serving();
    around.session.hang_up(&mut around.shared);
    assert!(around.session.is_done(), "nothing is in anybody's hands");
    assert_eq!(format!("{:?}", around.shared.credit), untouched, "everything comes back");
    served
}

/// What a server might answer requests with.
fn replies(rng: &mut Rng) -> Vec<u8> {
    let mut session = Vec::new();
    for cookie in 0..rng.below(4) as u64 {
        let runs: Vec<Run> = (0..rng.below(4)).map(|n| Run { bytes: 4096 << n, flags: n as u32 }).collect();
        match rng.below(5) {
            0 => session.extend(error_chunk(Errno::Io, cookie)),
            1 if !runs.is_empty() => session.extend(status_chunk(cookie, &runs)),
            2 => {
                let bytes = rng.below(600) as u32;
                session.extend(data_chunk(rng.below(2) == 0, cookie, rng.below(1000) as u64, bytes));
                session.extend(vec![7; bytes as usize]);
            }
            _ => session.extend(simple_reply(None, cookie)),
        }
    }
    session
}

/// What a server might answer: a greeting, answers to GO, replies.
fn answers(rng: &mut Rng) -> Vec<u8> {
    let mut session = greeting().to_vec();
    for _ in 0..rng.below(5) {
        let kind = [1_u32, 3, 3, 3, (1 << 31) + 6][rng.below(5)];
        let mut data = vec![0, [0_u8, 3, 9][rng.below(3)]];
        let words = rng.below(5);
        (0..words).for_each(|_| data.extend(NUMBERS[rng.below(NUMBERS.len())].to_be_bytes()));
        session.extend(0x0003_e889_0455_65a9_u64.to_be_bytes());
        let option = [5, 8, 10, 7, 7, 7, 7][rng.below(7)];
        let (mut kind, context) = (kind, option == 10 && rng.below(2) == 0);
        if option != 7 && !context && rng.below(2) == 0 {
            (data, kind) = (Vec::new(), 1);
        } else if context {
            kind = 4;
            data = [&[0, 0, 0, 9][..], b"base:allocation"].concat();
        }
        session.extend([option, kind, data.len() as u32].iter().flat_map(|n| n.to_be_bytes()));
        session.extend(data);
    }
    session.extend(replies(rng));
    session
}

/// What a server answers requests of 1000 bytes with, fed to the side that asks.
fn replied(rng: &mut Rng, structured: bool, mut bytes: &[u8]) {
    let (mut machine, mut got) = (Replies::new(structured), Got::default());
    while !bytes.is_empty() {
        let room = machine.room();
        let take = room.len().min(1 + rng.below(64)).min(bytes.len());
        room[..take].copy_from_slice(&bytes[..take]);
        bytes = &bytes[take..];
        let Ok(part) = machine.got(take) else { return };
        match part.map(|part| part.what) {
            Some(What::Data(at, length)) => {
                if got.take(at, length, 1000).is_err() {
                    return;
                }
                assert!(at + length <= 1000, "what is taken lies inside");
                bytes = &bytes[(length as usize).min(bytes.len())..];
            }
            Some(What::Zeros(at, length)) => drop(got.take(at, length, 1000)),
            Some(What::Runs(_, runs)) => assert!((1..=1024).contains(&runs.len()), "some runs, and not many"),
            _ => {}
        }
    }
    let whole = got.is_whole(1000);
    assert!(!whole || got.take(0, 1, 1000).is_err(), "nothing comes twice");
}

/// A server's session, fed to the side that asks. Returns whether they came to agree.
fn ask(rng: &mut Rng, session: &[u8]) -> bool {
    let secured = rng.below(4) == 0;
    let mut secure = false;
    let machine = if secured { Opening::secured("a") } else { Opening::new("a") };
    let mut machine = if rng.below(2) == 0 { machine.mapping() } else { machine };
    let (mut out, mut start, mut end) = (Vec::new(), 0, 0);
    loop {
        let Ok((took, step)) = machine.step(&session[start..end], &mut out) else { return false };
        assert!(took <= end - start && out.len() < 200, "it takes what is there and asks once");
        start += took;
        match step {
            ClientStep::Again => {}
            ClientStep::StartTls => {
                assert!(
                    secured && out.len() == 20 && !std::mem::replace(&mut secure, true),
                    "TLS begins where it was asked for, before the export is named"
                );
                machine.begin(&mut out);
            }
            ClientStep::More if end == session.len() => return false,
            ClientStep::More => end = (end + 1 + rng.below(64)).min(session.len()),
            ClientStep::Agreed(agreed) => {
                assert!(agreed.request_bytes_max >= 4096 && agreed.block_bytes <= 4096, "{agreed:?}");
                replied(rng, agreed.structured, &session[start..]);
                return true;
            }
        }
    }
}

fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn main() -> ExitCode {
    let (executions, mut rng) = (argument("--executions", 1_000_000), Rng(argument("--seed", 1)));
    let mut opened = [0_u64; 2];
    for turn in 0..executions {
        let asks = turn % 2 == 1;
        let mut session = if asks { answers(&mut rng) } else { legal(&mut rng) };
        mutate(&mut rng, &mut session);
        let mut answers = replies(&mut rng);
        mutate(&mut rng, &mut answers);
        let feed = |rng: &mut Rng| {
            replied(rng, turn % 8 > 1, &answers);
            if asks { ask(rng, &session) } else { run(rng, &session) }
        };
        match catch_unwind(AssertUnwindSafe(|| feed(&mut rng))) {
            Ok(came_to_requests) => opened[usize::from(asks)] += u64::from(came_to_requests),
            Err(_) => {
                println!("nbd: panics on {session:02x?} or {answers:02x?}");
                return ExitCode::FAILURE;
            }
        }
    }
    let [served, asked] = opened;
    println!(
        "nbd: {executions} sessions, {served} of clients and {asked} of servers came to requests, no panic"
    );
    ExitCode::SUCCESS
}
