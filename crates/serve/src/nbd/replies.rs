//! What a server answers requests with, as bytes come: simple replies, and structured ones where those were agreed on.
//!
//! ```text
//!   16 bytes --simple--------------------------> Data (all of it), Failed, Done
//!      `--chunk: 20 bytes --none---------------> Done
//!                         |--offset and data---> Data: the caller receives it where it belongs
//!                         |--a hole------------> Zeros
//!                         |--status------------> Runs
//!                         `--error-------------> Failed
//! ```
//!
//! Only heads and short payloads are kept here; data goes past. The machine does not know what was asked: that an answer
//! belongs to a request, lies in it and is not longer is for the caller to see. Lengths are compared before they are believed, and what
//! is longer than anybody wants is read and thrown away. Source: proto.md, "Structured reply chunk message", "Structured reply types".

use super::client::{REPLY_BYTES, Reply as Head, parse_reply};
use super::wire::{CHUNK_MAGIC, Run};

/// Runs of one answer that are kept; a server may tell of a million.
const RUNS_MAX: usize = 1024;
/// Bytes of a chunk's head.
const CHUNK_BYTES: usize = 20;
/// Longest part of an answer that is kept.
const KEPT_MAX: usize = CHUNK_BYTES + 4 + 8 * RUNS_MAX;
/// Bytes that are thrown away at once.
const THROWN: usize = 4096;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// From the request.
    pub cookie: u64,
    /// What it brings.
    pub what: What,
    /// Nothing more comes of this answer.
    pub last: bool,
}

/// What a part brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// So it is.
    Done,
    /// Of a READ all data follows. (Of any other request nothing does.)
    All,
    /// So many bytes follow, from this one of the export on.
    Data(u64, u64),
    /// So many zeros are there, from this byte of the export on. Nothing follows.
    Zeros(u64, u64),
    /// What is known of a context, by its number, from the first byte on that was asked about.
    Runs(u32, Vec<Run>),
    /// It has failed; the number of the protocol.
    Failed(u32),
}

/// The machine.
#[derive(Clone, Debug)]
pub struct Replies {
    structured: bool,
    kept: Vec<u8>,
    /// Bytes of `kept` that are here, and that are needed to go on.
    here: usize,
    need: usize,
    /// Bytes to be thrown away before `held` is a part.
    throw: u64,
    held: Option<Part>,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl Replies {
    /// Of a session with structured replies or without.
    #[must_use]
    pub fn new(structured: bool) -> Self {
        let kept = vec![0; KEPT_MAX.max(THROWN)];
        Self { structured, kept, here: 0, need: REPLY_BYTES, throw: 0, held: None }
    }

    /// Where the next bytes go: never more than belong to this part.
    pub fn room(&mut self) -> &mut [u8] {
        if self.throw > 0 {
            let most = self.throw.min(THROWN as u64) as usize;
            return &mut self.kept[..most];
        }
        &mut self.kept[self.here..self.need]
    }

    /// So many bytes have come there, and made a part whole or not.
    ///
    /// # Errors
    /// What is no answer: nothing that follows makes sense.
    pub fn got(&mut self, bytes: usize) -> Result<Option<Part>, &'static str> {
        if self.throw > 0 {
            self.throw -= bytes as u64;
            return Ok(if self.throw == 0 { self.held.take() } else { None });
        }
        self.here += bytes;
        debug_assert!(self.here <= self.need, "no more comes than there is room for");
        loop {
            if self.here < self.need {
                return Ok(None);
            }
            let magic = u32::from_be_bytes(number(&self.kept, 0));
            if magic != CHUNK_MAGIC || !self.structured {
                return self.simple().map(Some);
            }
            let need = self.chunk_bytes()?;
            if need > self.here {
                self.need = need;
                continue;
            }
            let part = self.chunk();
            (self.here, self.need) = (0, REPLY_BYTES);
            if self.throw > 0 {
                self.held = Some(part);
                return Ok(None);
            }
            return Ok(Some(part));
        }
    }

    fn simple(&mut self) -> Result<Part, &'static str> {
        let Head::Simple { cookie, error } = parse_reply(&self.kept[..REPLY_BYTES]) else {
            return Err("its server sent what is no reply");
        };
        self.here = 0;
        let what = match error {
            0 if self.structured => What::Done,
            0 => What::All,
            error => What::Failed(error),
        };
        Ok(Part { cookie, what, last: true })
    }

    fn kind_and_length(&self) -> (u16, u64) {
        let length = u32::from_be_bytes(number(&self.kept, 16));
        (u16::from_be_bytes(number(&self.kept, 6)), u64::from(length))
    }

    /// Bytes of a chunk that are kept, as far as that is known; the rest of it is to be thrown away.
    fn chunk_bytes(&mut self) -> Result<usize, &'static str> {
        if self.here < CHUNK_BYTES {
            return Ok(CHUNK_BYTES);
        }
        let (kind, length) = self.kind_and_length();
        let kept = match kind {
            0 if length == 0 && self.is_last() => 0,
            1 if length > 8 => return Ok(CHUNK_BYTES + 8),
            2 if length == 12 => 12,
            5 if length >= 12 && (length - 4).is_multiple_of(8) => length.min((4 + 8 * RUNS_MAX) as u64),
            _ if kind >> 15 == 1 && length >= 6 => 4,
            _ => return Err("its server sent a chunk that makes no sense"),
        };
        self.throw = length - kept;
        let need = CHUNK_BYTES + kept as usize;
        if need > self.here {
            self.throw = 0;
        }
        Ok(need)
    }

    fn is_last(&self) -> bool {
        self.kept[5] & 1 == 1
    }

    /// The chunk whose kept bytes are all here.
    fn chunk(&self) -> Part {
        let (kind, length) = self.kind_and_length();
        let at = |at: usize| u64::from_be_bytes(number(&self.kept, CHUNK_BYTES + at));
        let word = |at: usize| u32::from_be_bytes(number(&self.kept, CHUNK_BYTES + at));
        let what = match kind {
            0 => What::Done,
            1 => What::Data(at(0), length - 8),
            2 => What::Zeros(at(0), u64::from(word(8))),
            5 => {
                let runs = (4..self.here - CHUNK_BYTES).step_by(8);
                What::Runs(word(0), runs.map(|at| Run { bytes: word(at), flags: word(at + 4) }).collect())
            }
            _ => What::Failed(word(0)),
        };
        Part { cookie: u64::from_be_bytes(number(&self.kept, 8)), what, last: self.is_last() }
    }
}

/// Which bytes of a READ are here, by runs that follow each other. A server may send them in any order, each once.
#[derive(Clone, Debug, Default)]
pub struct Got(Vec<(u64, u64)>);

/// Most runs of bytes of one READ that do not follow each other: servers send them in order.
const GOT_MAX: usize = 256;

impl Got {
    /// `bytes` come, from the byte `first` of the request on, which has `all`.
    ///
    /// # Errors
    /// When they lie outside, are here already, or come in too many pieces.
    pub fn take(&mut self, first: u64, bytes: u64, all: u64) -> Result<(), &'static str> {
        let end = first.checked_add(bytes).filter(|&end| end <= all && bytes > 0);
        let end = end.ok_or("its server sent bytes that nobody asked for")?;
        let at = self.0.partition_point(|run| run.1 <= first);
        if self.0.get(at).is_some_and(|run| run.0 < end) {
            return Err("its server sent the same bytes twice");
        }
        if at > 0 && self.0[at - 1].1 == first {
            self.0[at - 1].1 = end;
        } else if self.0.len() == GOT_MAX {
            return Err("its server sent an answer in pieces without end");
        } else {
            self.0.insert(at, (first, end));
        }
        Ok(())
    }

    /// Whether all bytes are here.
    #[must_use]
    pub fn is_whole(&self, all: u64) -> bool {
        let mut next = 0;
        self.0.iter().all(|run| std::mem::replace(&mut next, run.1) == run.0) && next == all
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Errno, data_chunk, error_chunk, simple_reply, status_chunk};
    use super::*;

    /// All parts of an answer that comes in pieces of so many bytes; data is passed over.
    fn parts(bytes: &[u8], piece: usize) -> Result<Vec<Part>, &'static str> {
        let (mut machine, mut at, mut parts) = (Replies::new(true), 0, Vec::new());
        while at < bytes.len() {
            let room = machine.room();
            let take = room.len().min(piece).min(bytes.len() - at);
            room[..take].copy_from_slice(&bytes[at..at + take]);
            at += take;
            if let Some(part) = machine.got(take)? {
                if let What::Data(_, bytes) = part.what {
                    at += bytes as usize;
                }
                parts.push(part);
            }
        }
        Ok(parts)
    }

    fn chunk(kind: u16, last: bool, payload: &[u8]) -> Vec<u8> {
        let mut bytes = CHUNK_MAGIC.to_be_bytes().to_vec();
        bytes.extend(u16::from(last).to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(7_u64.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn all_kinds_of_answers_are_read_whatever_the_pieces() {
        let run = |bytes| Run { bytes, flags: 3 };
        let hole = [&9_u64.to_be_bytes()[..], &5_u32.to_be_bytes()].concat();
        let error = [&[0, 0, 0, 5, 0, 3][..], b"bad"].concat();
        let many: Vec<Run> = (1..3000).map(run).collect();
        let bytes = [
            data_chunk(false, 7, 4096, 3).to_vec(),
            vec![1, 2, 3],
            chunk(2, true, &hole),
            chunk(0, true, &[]),
            status_chunk(7, &[run(1), run(2)]),
            chunk((1 << 15) + 1, true, &error),
            error_chunk(Errno::Io, 7).to_vec(),
            simple_reply(None, 7).to_vec(),
            simple_reply(Some(Errno::Inval), 7).to_vec(),
            status_chunk(7, &many),
            chunk(0, true, &[]),
        ];
        for piece in [1, 3, 20, 1 << 20] {
            let told = parts(&bytes.concat(), piece).expect("good");
            let last: Vec<bool> = told.iter().map(|part| part.last).collect();
            let what: Vec<What> = told.into_iter().map(|part| part.what).collect();
            let (kept, rest) = (many[..RUNS_MAX].to_vec(), [What::Failed(5), What::Failed(5)]);
            let first =
                [What::Data(4096, 3), What::Zeros(9, 5), What::Done, What::Runs(1, vec![run(1), run(2)])];
            let end = [What::Done, What::Failed(22), What::Runs(1, kept), What::Done];
            assert_eq!(what, [&first[..], &rest, &end].concat(), "{piece}");
            assert_eq!(last, [&[false][..], &[true; 9]].concat());
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for wrong in [
            chunk(0, false, &[]),
            chunk(0, true, &[1]),
            chunk(1, true, &[0; 8]),
            chunk(2, true, &[0; 13]),
            chunk(5, true, &[0; 4]),
            chunk(5, true, &[0; 15]),
            chunk(9, true, &[0; 15]),
            chunk(1 << 15, true, &[0; 5]),
            vec![9; 16],
        ] {
            assert!(parts(&wrong, 64).is_err(), "{wrong:?}");
        }
        let mut plain = Replies::new(false);
        plain.room().copy_from_slice(&data_chunk(true, 7, 0, 5)[..16]);
        assert!(plain.got(16).is_err(), "no chunks where they were not agreed on");
    }

    #[test]
    fn bytes_of_a_read_come_once_each_and_are_missed_otherwise() {
        let mut got = Got::default();
        assert!(!got.is_whole(10));
        for (first, bytes, good) in [
            (6, 4, true),
            (0, 2, true),
            (1, 2, false),
            (2, 3, true),
            (5, 2, false),
            (5, 0, false),
            (9, 2, false),
        ] {
            assert_eq!(got.take(first, bytes, 10).is_ok(), good, "{bytes} at {first}");
        }
        assert!(!got.is_whole(10) && got.take(u64::MAX, 2, 10).is_err());
        got.take(5, 1, 10).expect("the last");
        assert!(got.is_whole(10));
    }
}
