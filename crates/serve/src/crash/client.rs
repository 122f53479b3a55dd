//! A client of the simulated server: its production session, the bytes that it sends, and what it makes of the answers.

use super::draw::Draw;
use super::stamp::{BLOCK_GRAINS, GRAIN, encode, stamp};
use crate::nbd::handshake::{Tls, option_bytes};
use crate::nbd::session::{Room, Session};
use crate::nbd::wire::{CHUNK_MAGIC, Command, Request, SIMPLE_MAGIC, request, request_bytes};
use crate::raw::Arena;
use crate::volume::Answer;
use forerun_core::units::Nanos;
use std::collections::BTreeMap;

/// Most blocks of a request, and most of a few that are longer.
const BLOCKS_MAX: u64 = 6;
const LONG_BLOCKS_MAX: u64 = 24;

/// What the clients of a run like to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// Shares of reads, writes, flushes and hints.
    shares: [u64; 4],
    /// One in so many writes brings zeroes.
    zeroes: u64,
    /// One in so many requests of a client that may ask it asks where holes are.
    maps: u64,
    /// One in so many writes is durable.
    durable: u64,
    /// Blocks at the beginning to which half of all goes, where it meets others.
    hot_blocks: u64,
}

impl Habits {
    /// Of a run; `careful` is one whose clients make sure of what they write.
    pub(super) fn of(draw: &mut Draw, careful: bool) -> Self {
        let shares = draw.pick(&[[8, 7, 1, 1], [3, 8, 5, 0], [9, 4, 1, 2], [4, 5, 4, 1], [2, 6, 7, 0]]);
        let shares = if careful { [1, 3, 3 + draw.below(5), 0] } else { shares };
        let zeroes = draw.pick(&[3, 10]);
        let maps = draw.pick(&[8, 30]);
        Self { shares, zeroes, maps, durable: draw.pick(&[3, 10]), hot_blocks: draw.pick(&[2, 5, 16]) }
    }

    /// The same, and where holes are is asked four times as often.
    pub(super) const fn of_those_who_look_for_holes(self) -> Self {
        Self { maps: self.maps / 4, ..self }
    }

    fn command(&self, draw: &mut Draw, structured: bool) -> Command {
        if structured && draw.one_in(self.maps) {
            return Command::BlockStatus;
        }
        let mut at = draw.below(self.shares.iter().sum());
        for (share, command) in
            self.shares.iter().zip([Command::Read, Command::Write, Command::Flush, Command::Cache])
        {
            if at < *share {
                return command;
            }
            at -= share;
        }
        Command::Read
    }
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) request: Request,
    /// Version of what a write brings.
    pub(super) version: u32,
    /// When it was sent.
    pub(super) sent: Nanos,
    /// When it arrived, and what was acknowledged then: of a read for its grains, of a flush for all.
    pub(super) arrived: Option<Nanos>,
    pub(super) floors: Vec<u32>,
}

impl Op {
    /// The grains of the volume that it is about.
    pub(super) const fn grains(&self) -> std::ops::Range<usize> {
        let first = self.request.offset as usize / GRAIN;
        first..first + self.request.length as usize / GRAIN
    }

    /// Those that it changes: a TRIM leaves blocks alone of which it covers a part.
    pub(super) const fn changed_grains(&self, all: usize) -> std::ops::Range<usize> {
        let grains = self.grains();
        match self.request.command {
            Command::Trim => {
                let first = grains.start.div_ceil(BLOCK_GRAINS) * BLOCK_GRAINS;
                let end = if grains.end == all { all } else { grains.end / BLOCK_GRAINS * BLOCK_GRAINS };
                first..if end > first { end } else { first }
            }
            _ => grains,
        }
    }

    /// The blocks of the volume that it touches.
    pub(super) const fn blocks(&self) -> std::ops::Range<usize> {
        let grains = self.grains();
        grains.start / BLOCK_GRAINS..grains.end.div_ceil(BLOCK_GRAINS)
    }
}

/// An answer as its client has it.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) cookie: u64,
    pub(super) failed: bool,
    /// Of a read: bytes by their offset, as they came.
    pub(super) data: Vec<(u64, Vec<u8>)>,
    /// Of BLOCK_STATUS: bytes and flags of each run.
    pub(super) runs: Vec<(u32, u32)>,
}

/// What a client says that wants to know where the export `name` has holes.
fn allocation_of(name: &str) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
    [text(name), 1_u32.to_be_bytes().to_vec(), text("base:allocation")].concat()
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) session: Session<Answer>,
    /// Tells it from all others there were.
    pub(super) number: u64,
    /// Memory for a write is wanted.
    pub(super) wants_memory: bool,
    pub(super) ops: BTreeMap<u64, Op>,
    /// When something last went on with what it asked.
    pub(super) heard_of: Nanos,
    structured: bool,
    /// Bytes that it has still to send.
    out: Vec<u8>,
    heard: Vec<u8>,
    /// Data of reads of which not all chunks are here.
    parts: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    next_cookie: u64,
}

impl Client {
    /// One that says hello. The run drives it to its export.
    pub(super) fn new(number: u64, structured: bool, name: &str) -> Self {
        // Fixed newstyle, no zeroes.
        let mut out = 3_u32.to_be_bytes().to_vec();
        if structured {
            out.extend(option_bytes(8, &[]));
            out.extend(option_bytes(10, &allocation_of(name)));
        }
        let mut go = (name.len() as u32).to_be_bytes().to_vec();
        go.extend(name.as_bytes());
        go.extend([0, 0]);
        out.extend(option_bytes(7, &go));
        Self {
            session: Session::new(Tls::Off),
            number,
            wants_memory: false,
            ops: BTreeMap::new(),
            heard_of: Nanos::ZERO,
            structured,
            out,
            heard: Vec::new(),
            parts: BTreeMap::new(),
            next_cookie: 1,
        }
    }

    /// What it wants next, of a volume of so many grains.
    pub(super) fn draw_request(&mut self, draw: &mut Draw, habits: &Habits, grains: u64) -> Request {
        let longest = if draw.one_in(6) { LONG_BLOCKS_MAX } else { BLOCKS_MAX };
        let per_block = BLOCK_GRAINS as u64;
        let (align, len) = match draw.below(4) {
            0 => (1, 1 + draw.below(per_block)),
            1 => (1, 1 + draw.below(longest * per_block)),
            _ => (per_block, per_block * (1 + draw.below(longest))),
        };
        let len = len.min(grains);
        let range =
            if draw.one_in(2) { (habits.hot_blocks * per_block).min(grains).max(len) } else { grains };
        let first = draw.below(range - len + 1) / align * align;
        // A client that comes back after a server was away makes sure of what it had.
        let first_is_flush = self.next_cookie == 1 && draw.one_in(3);
        let command = if first_is_flush { Command::Flush } else { habits.command(draw, self.structured) };
        let flags = u16::from(command == Command::Write && draw.one_in(habits.durable));
        let (command, flags) = match command {
            Command::Write if draw.one_in(habits.zeroes) => {
                if draw.one_in(3) {
                    (Command::Trim, flags)
                } else {
                    (Command::WriteZeroes, flags | draw.pick(&[0, request::NO_HOLE]))
                }
            }
            other => (other, flags),
        };
        let (first, len) = if command == Command::Flush { (0, 0) } else { (first, len) };
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let (offset, length) = (first * GRAIN as u64, (len * GRAIN as u64) as u32);
        Request { flags, command, cookie, offset, length }
    }

    /// Asks.
    pub(super) fn ask(&mut self, request: Request, version: u32, sent: Nanos) {
        self.out.extend(request_bytes(&request));
        let op = Op { request, version, sent, arrived: None, floors: Vec::new() };
        if request.command == Command::Write {
            encode(op.grains().map(|grain| stamp(grain as u32, version)), &mut self.out);
        }
        self.ops.insert(request.cookie, op);
    }

    /// Whether it has something to send.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Sends bytes, as many as the session takes and at most so many. Returns how many.
    pub(super) fn send(&mut self, most: usize, arena: &mut Arena) -> usize {
        if !self.session.may_receive() {
            return 0;
        }
        let mut left = self.out.len().min(most);
        let total = match self.session.room() {
            Room::Inbox(room) => {
                left = left.min(room.len());
                room[..left].copy_from_slice(&self.out[..left]);
                left
            }
            Room::Memory { blocks, first, bytes } => {
                left = left.min(bytes);
                let (mut at, mut within, mut moved) = (0, first, 0);
                while moved < left {
                    let take = (4096 - within).min(left - moved);
                    arena.block_mut(blocks[at])[within..within + take]
                        .copy_from_slice(&self.out[moved..moved + take]);
                    (at, within, moved) = (at + 1, 0, moved + take);
                }
                left
            }
        };
        self.session.received(total);
        self.out.drain(..total);
        total
    }

    /// It has heard bytes.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    /// What it was told while it negotiated is forgotten.
    pub(super) fn forget(&mut self) {
        self.heard.clear();
    }

    /// The next whole answer.
    pub(super) fn reply(&mut self) -> Result<Option<Reply>, String> {
        loop {
            if self.heard.len() < 16 {
                return Ok(None);
            }
            let word = |at: usize| u32::from_be_bytes(self.heard[at..at + 4].try_into().expect("four bytes"));
            let cookie = u64::from_be_bytes(self.heard[8..16].try_into().expect("eight bytes"));
            let request = self.ops.get(&cookie).map(|op| op.request);
            let Some(request) = request else {
                return Err(format!("an answer to {cookie}, which nobody asked"));
            };
            let is_read = request.command == Command::Read;
            if word(0) == SIMPLE_MAGIC {
                let failed = word(4) != 0;
                let length = if is_read && !failed { request.length as usize } else { 0 };
                if self.heard.len() < 16 + length {
                    return Ok(None);
                }
                let data = self.heard[16..16 + length].to_vec();
                self.heard.drain(..16 + length);
                let data = if length > 0 { vec![(request.offset, data)] } else { Vec::new() };
                return Ok(Some(Reply { cookie, failed, data, runs: Vec::new() }));
            }
            let is_map = request.command == Command::BlockStatus;
            if word(0) != CHUNK_MAGIC || !self.structured || !(is_read || is_map) {
                return Err(format!("an answer to {cookie} does not begin as one"));
            }
            if self.heard.len() < 20 || self.heard.len() < 20 + word(16) as usize {
                return Ok(None);
            }
            let (last, kind, length) = (self.heard[5] & 1 == 1, word(4) & 0xffff, word(16) as usize);
            let payload = self.heard[20..20 + length].to_vec();
            self.heard.drain(..20 + length);
            let failed = kind >> 15 == 1;
            if kind == 1 {
                let offset = u64::from_be_bytes(payload[..8].try_into().expect("eight bytes"));
                self.parts.entry(cookie).or_default().push((offset, payload[8..].to_vec()));
            }
            let mut runs = Vec::new();
            if kind == 5 && is_map {
                let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().expect("four"));
                runs.extend((4..length).step_by(8).map(|at| (number(at), number(at + 4))));
            }
            if last {
                let data = self.parts.remove(&cookie).unwrap_or_default();
                return Ok(Some(Reply { cookie, failed, data, runs }));
            }
        }
    }
}
