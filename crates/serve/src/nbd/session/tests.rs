//! A session against a naive model of one: whatever the pieces in which bytes come, the order in which answers come and the
//! pace at which the client takes them, every request is answered once, with what was written or lies there, and everything
//! that was lent comes back.

use super::*;
use crate::nbd::handshake::{export_flags, option_bytes};
use crate::nbd::wire::{SIMPLE_MAGIC, request_bytes};
use std::collections::BTreeMap;

const SIZE: u64 = 8 << 20;

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

/// Memory for writes: the block `n` of what was granted is the block `n` here.
#[derive(Default)]
struct Intake(BTreeMap<u32, Vec<u8>>, u32);

impl Memory for Intake {
    fn block_mut(&mut self, at: u32) -> &mut [u8] {
        self.0.get_mut(&at).expect("only what was granted is written to")
    }
}

impl Intake {
    fn take(&mut self, blocks: usize) -> Vec<u32> {
        let first = self.1;
        self.1 += blocks as u32;
        (first..self.1).inspect(|&at| drop(self.0.insert(at, vec![0; 4096]))).collect()
    }
    fn give(&mut self, blocks: &[u32]) -> Vec<u8> {
        blocks.iter().flat_map(|at| self.0.remove(at).expect("granted once")).collect()
    }
}

/// The answer of a part: its blocks. The byte `at` of the volume is a function of `at`.
type Answered = Extent;

struct Volume;

fn byte(at: u64) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

static BYTES: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| (0..SIZE).map(byte).collect());

impl Blocks<Answered> for Volume {
    fn run(&self, answer: &Answered, index: usize, end: usize) -> &[u8] {
        // Sometimes the blocks of an answer do not follow in memory.
        let end = if index.is_multiple_of(3) { index + 1 } else { end };
        let first = answer.start.0 as usize;
        &BYTES[(first + index) * 4096..(first + end) * 4096]
    }
}

/// What a client asks for, and what it must hear.
struct Model {
    structured: bool,
    /// Requests by cookie that are not answered.
    open: BTreeMap<u64, Request>,
    /// Data of reads by cookie as it came, by offset.
    data: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    heard: Vec<u8>,
    /// Bytes that the client has sent, and by cookie those behind which all data of a write was.
    sent: usize,
    ends: BTreeMap<u64, usize>,
}

impl Model {
    /// Takes whole replies from what was heard.
    fn parse(&mut self) {
        loop {
            let word = |at: usize| u32::from_be_bytes(self.heard[at..at + 4].try_into().expect("four"));
            if self.heard.len() < 20 && (self.heard.len() < 16 || word(0) != SIMPLE_MAGIC) {
                return;
            }
            let cookie = u64::from_be_bytes(self.heard[8..16].try_into().expect("eight"));
            let request = self.open[&cookie];
            if word(0) == SIMPLE_MAGIC {
                let error = word(4);
                let read = request.command == Command::Read && error == 0;
                assert!(
                    !(self.structured && request.command == Command::Read),
                    "a READ is answered in chunks"
                );
                let length = if read { request.length as usize } else { 0 };
                if self.heard.len() < 16 + length {
                    return;
                }
                let data = self.heard[16..16 + length].to_vec();
                self.heard.drain(..16 + length);
                if read {
                    self.data.entry(cookie).or_default().push((request.offset, data));
                }
                self.close(cookie, error == 0);
                continue;
            }
            assert_eq!(word(0), wire::CHUNK_MAGIC, "a reply begins where the last one ended");
            let (flags, kind) = (self.heard[5], word(4) & 0xffff);
            let length = word(16) as usize;
            if self.heard.len() < 20 + length {
                return;
            }
            let payload = self.heard[20..20 + length].to_vec();
            self.heard.drain(..20 + length);
            if kind == 1 {
                let offset = u64::from_be_bytes(payload[..8].try_into().expect("eight"));
                self.data.entry(cookie).or_default().push((offset, payload[8..].to_vec()));
            }
            if kind == 5 {
                assert_eq!(payload, wire::status_chunk(cookie, &runs(&request))[20..], "what was told");
            }
            if flags & 1 == 1 {
                self.close(cookie, kind == 1 || kind == 5);
            }
        }
    }

    /// A request is answered: a good READ brought all its bytes, each where it belongs.
    fn close(&mut self, cookie: u64, good: bool) {
        let request = self.open.remove(&cookie).expect("answered once");
        let data_sent = self.ends.get(&cookie).is_none_or(|&end| end <= self.sent);
        assert!(data_sent, "no write is answered before its data is here: {request:?}");
        let data = self.data.remove(&cookie).unwrap_or_default();
        let legal = request.length > 0 && request.offset + u64::from(request.length) <= SIZE;
        let legal = legal && (self.structured || request.command != Command::BlockStatus);
        assert!(
            good || !legal || request.cookie.is_multiple_of(7),
            "only what is refused or fails is an error: {request:?}"
        );
        if good && request.command == Command::Read {
            let mut at = request.offset;
            for (offset, bytes) in data {
                assert_eq!(offset, at, "parts come in order");
                assert_eq!(bytes, BYTES[at as usize..at as usize + bytes.len()]);
                at += bytes.len() as u64;
            }
            assert_eq!(at, request.offset + u64::from(request.length), "all of it");
        }
    }
}

/// Everything of one run.
struct Run {
    rng: Rng,
    session: Session<Answered>,
    shared: Shared<Answered>,
    intake: Intake,
    exports: [Export; 1],
    model: Model,
    /// Bytes of the client, and how many are received.
    wire: Vec<u8>,
    received: usize,
    /// Bytes that the negotiation says, once all are said.
    negotiation: Option<usize>,
    parts: Vec<(Ticket, Extent)>,
    acks: Vec<(Ticket, Request, Vec<u32>)>,
    maps: Vec<(Ticket, Request)>,
    wants_memory: bool,
    lent: usize,
}

/// What a request is told of holes.
fn runs(request: &Request) -> Vec<wire::Run> {
    let one = wire::Run { bytes: request.length, flags: request.cookie as u32 };
    vec![one; 1 + request.cookie as usize % RUNS_MAX]
}

/// The byte `n` of the data of a write.
fn written(cookie: u64, n: usize) -> u8 {
    (cookie as usize * 31 + n) as u8
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let structured = rng.below(2) == 0;
        let mut wire = 3_u32.to_be_bytes().to_vec();
        if structured {
            wire.extend(option_bytes(8, &[]));
            // Of the export without a name, one query.
            let allocation = [&[0; 7][..], &[1, 0, 0, 0, 15], b"base:allocation"].concat();
            wire.extend(option_bytes(10, &allocation));
        }
        wire.extend(option_bytes(7, &[0; 6]));
        let (mut open, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for cookie in 1..=rng.below(40) as u64 {
            let command = [
                Command::Read,
                Command::Read,
                Command::Write,
                Command::Flush,
                Command::Cache,
                Command::WriteZeroes,
                Command::Trim,
                Command::BlockStatus,
            ][rng.below(8)];
            let longest =
                if command == Command::Write { 70_000 } else { [4096, 70_000, 3 << 20][rng.below(3)] };
            let (mut offset, mut length) =
                (rng.below(SIZE as usize + 8192) as u64, rng.below(longest) as u32);
            if command == Command::Flush {
                (offset, length) = (0, 0);
            }
            let flags = if command == Command::Read && structured && rng.below(4) == 0 {
                wire::request::DF
            } else {
                0
            };
            let request = Request { flags, command, cookie, offset, length };
            wire.extend(request_bytes(&request));
            if command == Command::Write {
                wire.extend((0..length as usize).map(|n| written(cookie, n)));
                ends.insert(cookie, wire.len());
            }
            open.insert(cookie, request);
        }
        let name = String::new();
        let exports = [Export {
            name,
            description: String::new(),
            size: SIZE,
            flags: export_flags(false, false) | export::ZEROES,
        }];
        let (data, heard) = (BTreeMap::new(), Vec::new());
        let model = Model { structured, open, data, heard, sent: 0, ends };
        let credit = Credit::new([4096, 300][rng.below(2)], 1 + rng.below(4) as u64);
        Self {
            rng,
            session: Session::new(Tls::Off),
            shared: Shared { credit, back: Vec::new() },
            intake: Intake::default(),
            exports,
            model,
            wire,
            received: 0,
            negotiation: None,
            parts: Vec::new(),
            acks: Vec::new(),
            maps: Vec::new(),
            wants_memory: false,
            lent: 0,
        }
    }

    fn receive(&mut self) {
        let wire = &self.wire[self.received..];
        if !self.session.may_receive() || wire.is_empty() {
            return;
        }
        let most = 1 + self.rng.below([50, 5000, 1 << 20][self.rng.0 as usize % 3]).min(wire.len() - 1);
        let took = match self.session.room() {
            Room::Inbox(room) => {
                let take = most.min(room.len());
                room[..take].copy_from_slice(&wire[..take]);
                take
            }
            Room::Memory { blocks, first, bytes } => {
                let take = most.min(bytes);
                for (n, &byte) in wire[..take].iter().enumerate() {
                    let at = first + n;
                    self.intake.block_mut(blocks[at / 4096])[at % 4096] = byte;
                }
                take
            }
        };
        self.received += took;
        self.model.sent = self.received;
        self.session.received(took);
    }

    /// Does what the session wants, later.
    fn serve(&mut self) {
        loop {
            let world = World { exports: &self.exports, full: false, failed: false };
            let Some(ask) = self.session.next(&world, &mut self.shared, &mut self.intake) else { return };
            match ask {
                Ask::Part(ticket, extent) => {
                    self.lent += 1;
                    self.parts.push((ticket, extent));
                }
                Ask::Memory(_) => self.wants_memory = true,
                Ask::Write(ticket, request, memory) => {
                    let bytes = self.intake.give(&memory);
                    let from = request.offset as usize % 4096;
                    for n in 0..request.length as usize {
                        assert_eq!(bytes[from + n], written(request.cookie, n), "byte {n} of {request:?}");
                    }
                    self.acks.push((ticket, request, memory));
                }
                Ask::Flush(ticket, request) | Ask::Zero(ticket, request) => {
                    self.acks.push((ticket, request, Vec::new()))
                }
                Ask::Status(ticket, request) => self.maps.push((ticket, request)),
                Ask::Begin => {
                    let said = self.session.gather(&Volume, &mut [IoSlice::new(&[]); 4]).1;
                    self.negotiation = Some(self.model.heard.len() + said);
                }
                Ask::Say | Ask::Read(_) | Ask::Hint(_) | Ask::Ended(_) => {}
                Ask::StartTls => unreachable!("there is no certificate"),
            }
        }
    }

    /// One of those who work for the session is ready.
    fn answer(&mut self) {
        if self.wants_memory && self.rng.below(3) == 0 {
            self.wants_memory = false;
            let blocks = self.session.memory_wanted().expect("it said so");
            let memory = self.intake.take(blocks);
            self.session.grant(memory);
        }
        if !self.acks.is_empty() && self.rng.below(2) == 0 {
            let (ticket, request, _) = self.acks.swap_remove(self.rng.below(self.acks.len()));
            let error = (request.cookie.is_multiple_of(7) && self.rng.below(2) == 0).then_some(Errno::Io);
            self.session.acknowledge(ticket, error);
        }
        if !self.maps.is_empty() && self.rng.below(2) == 0 {
            let (ticket, request) = self.maps.swap_remove(self.rng.below(self.maps.len()));
            let fails = request.cookie.is_multiple_of(7) && self.rng.below(2) == 0;
            let runs = runs(&request);
            self.session.describe(ticket, if fails { Err(Errno::Io) } else { Ok(&runs) });
        }
        if !self.parts.is_empty() {
            let (ticket, extent) = self.parts.swap_remove(self.rng.below(self.parts.len()));
            self.session.part(ticket, Ok(extent), &mut self.shared);
        }
    }

    fn send(&mut self) {
        let mut slices = [IoSlice::new(&[]); 4];
        let (count, bytes) = self.session.gather(&Volume, &mut slices);
        let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(all.len(), bytes);
        let most = self.rng.below(bytes + 1);
        self.model.heard.extend(&all[..most]);
        self.session.sent(most, &mut self.shared);
        self.lent -= self.shared.back.drain(..).count();
    }

    fn turn(&mut self) {
        self.receive();
        self.serve();
        if self.rng.below(2) == 0 {
            self.answer();
        }
        self.send();
        self.serve();
    }
}

#[test]
fn every_request_is_answered_once_with_its_bytes_and_everything_lent_comes_back() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        let untouched = format!("{:?}", run.shared.credit);
        let mut negotiating = true;
        for turn in 0.. {
            run.turn();
            if let Some(bytes) =
                run.negotiation.filter(|&bytes| negotiating && run.model.heard.len() >= bytes)
            {
                // What was said before is none of the replies.
                negotiating = false;
                run.model.heard.drain(..bytes);
            }
            if !negotiating {
                run.model.parse();
                if run.model.open.is_empty() && run.received == run.wire.len() {
                    break;
                }
            }
            assert!(!run.session.is_lost(), "seed {seed}: nothing was wrong");
            assert!(turn < 200_000, "seed {seed}: {:?} are not answered", run.model.open);
        }
        assert_eq!((run.lent, run.intake.0.len()), (0, 0), "seed {seed}");
        assert_eq!(format!("{:?}", run.shared.credit), untouched, "seed {seed}");
    }
}

#[test]
fn whenever_a_client_hangs_up_everything_lent_comes_back() {
    for seed in 0..100 {
        let mut run = Run::new(seed);
        let untouched = format!("{:?}", run.shared.credit);
        for _ in 0..run.rng.below(1000) {
            run.turn();
        }
        if let Some(memory) = run.session.hang_up(&mut run.shared) {
            run.intake.give(&memory);
        }
        run.serve();
        while let Some((ticket, extent)) = run.parts.pop() {
            assert!(!run.session.is_done(), "seed {seed}: it stays until the last answer");
            run.session.part(ticket, Ok(extent), &mut run.shared);
        }
        while let Some((ticket, _)) = run.maps.pop() {
            assert!(!run.session.is_done(), "seed {seed}: it stays until the last answer");
            run.session.describe(ticket, Err(Errno::Io));
        }
        while let Some((ticket, ..)) = run.acks.pop() {
            run.session.acknowledge(ticket, None);
        }
        run.lent -= run.shared.back.drain(..).count();
        assert!(run.session.is_done(), "seed {seed}");
        assert_eq!((run.lent, run.intake.0.len()), (0, 0), "seed {seed}");
        assert_eq!(format!("{:?}", run.shared.credit), untouched, "seed {seed}");
    }
}
