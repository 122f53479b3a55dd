//! Stand-in for Dbench (ASP paper, section 3.3): clients of a file server, each with small files of its own.
//!
//! Dbench replays what a `NetBench` client asks of a Samba server, from a recorded load file. The stand-in draws
//! sessions (open, some reads or writes, close) in the proportions of that file and over files of its sizes. All
//! numbers below were counted in `client.txt` of Debian's dbench 4.0-2.1 (458,217 operations: 27.1% reads, 8.6%
//! writes, 17.3% opens, 15.7% path queries), which comes of the same recording as the paper's version 3.04:
//!
//! * one client touches 114 files of 24.3 MB in all: [`SIZES`]; reads come to 1,472 MB, writes to 1,016 MB;
//! * 58,200 opens are closed again: 13,999 read a single block somewhere in a large file (*peek*), 7,486 read a file from its start
//!   in pieces of 4 and 60 KiB by turns (*scan*), 7,355 read and write (*update*: one in five reads 4 KiB and
//!   then writes 64 KiB at each of 2, 4 or 8 places in a row, the others rewrite single blocks), 5,088 create a
//!   file and write it in pieces of 64 KiB (*create*), 2,452 write 2 KiB at the start of a file (*touch*), and
//!   21,820 do neither (*look*).
//!
//! Every session starts with a read of the file's inode, 128 bytes each in the client's directory. A file is
//! written where it lay; unlinking frees nothing. Which file a session takes is uniform (recorded: the 48 files
//! of 254 KiB share most sessions about evenly); a created file has at most 254 KiB, as recorded. So a created
//! or scanned file is somewhat larger than recorded (means of 131 and 213 KB here, 95 and 174 KB there). The load file
//! has no pauses, and neither has the stand-in. The paper ran each case for ten minutes; virtual runs end after
//! `sessions` per client.

use super::plan::{Emit, Home, Pace, Plan, whole_blocks};
use super::shape::Values;
use super::{Request, Source};
use crate::random::Rng;
use forerun_core::access::Op;
use forerun_core::units::BLOCK_BYTES;
use std::sync::Arc;

/// Sizes of one client's files and how many there are of each, ascending; near sizes are taken together.
const SIZES: [(u64, u64); 11] = [
    (4_096, 26),
    (8_192, 3),
    (15_360, 9),
    (42_388, 8),
    (77_076, 7),
    (130_386, 1),
    (260_096, 48),
    (308_224, 2),
    (592_662, 3),
    (1_048_576, 6),
    (1_867_776, 1),
];
/// Files of one client.
const FILES: u64 = 114;
/// Files that may be created anew: those up to 254 KiB.
const CREATED: u64 = 102;
/// First of the large files, in which single blocks are read: those from 254 KiB.
const LARGE: u64 = 54;
/// Sessions of each kind in the load file.
const KINDS: [(Kind, u64); 6] = [
    (Kind::Peek, 13_999),
    (Kind::Scan, 7_486),
    (Kind::Update, 7_355),
    (Kind::Create, 5_088),
    (Kind::Touch, 2_452),
    (Kind::Look, 21_820),
];
/// All of them.
const SESSIONS: u64 = 58_200;
/// Updates that go through a file in large pieces, in a million: 1,548 of 7,355.
const STEPPED: u64 = 210_469;
/// Pieces in which files are scanned, by turns.
const SCAN_PIECES: [u64; 2] = [4_096, 61_440];
/// Piece of a large write.
const WRITE_PIECE: u64 = 65_536;
/// Bytes of a small write.
const TOUCH_BYTES: u64 = 2_048;
/// Inodes in a block.
const INODES_PER_BLOCK: u64 = BLOCK_BYTES / 128;

/// What a session does after the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Peek,
    Scan,
    Update,
    Create,
    Touch,
    Look,
}

/// Clients of a file server.
#[derive(Debug)]
struct Dbench {
    clients: u64,
    sessions: u64,
    directory: Arc<Directory>,
}

/// The files of one client, from the start of its directory.
#[derive(Debug)]
struct Directory {
    /// First byte and size of each file.
    files: Vec<(u64, u64)>,
    bytes: u64,
}

impl Directory {
    fn new() -> Self {
        // A block of entries, then the inodes, then the files: the large ones among the small ones, as they
        // would lie after many creations.
        let mut bytes = BLOCK_BYTES * (1 + FILES.div_ceil(INODES_PER_BLOCK));
        let sizes = SIZES.iter().flat_map(|&(size, count)| (0..count).map(move |_| size));
        let sizes: Vec<u64> = sizes.collect();
        let mut files = vec![(0, 0); sizes.len()];
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        Rng::new(FILES).shuffle(&mut order);
        for file in order {
            files[file] = (bytes, sizes[file]);
            bytes += whole_blocks(sizes[file]);
        }
        Self { files, bytes }
    }
}

/// Shape `standin-dbench`.
pub(super) fn dbench(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    Ok(Box::new(Dbench {
        clients: values.get("clients"),
        sessions: values.get("sessions"),
        directory: Arc::new(Directory::new()),
    }))
}

impl Plan for Dbench {
    fn processes(&self) -> u64 {
        self.clients
    }
    fn footprint(&self) -> u64 {
        self.clients * self.directory.bytes
    }
    fn files(&self) -> Vec<u64> {
        let mut local: Vec<u64> = self.directory.files.iter().map(|f| f.0).collect();
        local.push(0);
        local.sort_unstable();
        let clients = (0..self.clients).map(|client| client * self.directory.bytes);
        clients.flat_map(|base| local.iter().map(move |at| base + at)).collect()
    }
    fn source(&self, process: u64, home: Home) -> Box<dyn Source> {
        let base = home.base + process * self.directory.bytes;
        Box::new(Client {
            emit: Emit::new(&Home { base, ..home.clone() }, Pace::default()),
            directory: Arc::clone(&self.directory),
            left: self.sessions,
            step: Step::Open,
            rng: home.rng,
        })
    }
}

/// What a client does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Opens the file of a new session.
    Open,
    /// Reads one block of the file.
    Peek { file: u64 },
    /// Reads on from here; `piece` alternates between the two sizes.
    Scan { file: u64, from: u64, piece: usize },
    /// Reads the head of a place, and then writes a piece there, as often as `places` says.
    HeadRead { file: u64, from: u64, places: u64 },
    /// The write that belongs to it.
    HeadWrite { file: u64, from: u64, places: u64 },
    /// Rewrites a block after having read it.
    Rewrite { file: u64, block: Option<u64> },
    /// Writes on from here to the end.
    Create { file: u64, from: u64 },
    /// A small write at the start.
    Touch { file: u64 },
}

/// One client.
struct Client {
    emit: Emit,
    directory: Arc<Directory>,
    left: u64,
    step: Step,
    rng: Rng,
}

impl Client {
    /// A kind of session, as often as the load file has it.
    fn draw_kind(&mut self) -> Kind {
        let mut ticket = self.rng.below(SESSIONS);
        for (kind, count) in KINDS {
            if ticket < count {
                return kind;
            }
            ticket -= count;
        }
        Kind::Look
    }

    /// Begins a session: what comes after the read of the inode.
    fn open(&mut self) -> Request {
        self.left -= 1;
        let kind = self.draw_kind();
        let file = match kind {
            Kind::Peek => LARGE + self.rng.below(FILES - LARGE),
            Kind::Create => self.rng.below(CREATED),
            _ => self.rng.below(FILES),
        };
        self.step = match kind {
            Kind::Peek => Step::Peek { file },
            Kind::Scan => Step::Scan { file, from: 0, piece: 0 },
            Kind::Update if self.rng.chance(STEPPED) => {
                Step::HeadRead { file, from: 0, places: 2 << self.rng.below(3) }
            }
            Kind::Update => Step::Rewrite { file, block: None },
            Kind::Create => Step::Create { file, from: 0 },
            Kind::Touch => Step::Touch { file },
            Kind::Look => Step::Open,
        };
        self.emit.read(0, BLOCK_BYTES * (1 + file / INODES_PER_BLOCK), BLOCK_BYTES)
    }

    /// `bytes` of `file` from `from`, cut at its end. Context 0 is the directory.
    fn piece(&mut self, op: Op, file: u64, from: u64, bytes: u64) -> Request {
        let (start, size) = self.directory.files[file as usize];
        self.emit.request(op, 1 + file, start + from, bytes.min(size - from))
    }

    /// `next` as long as `from` lies in `file`; a new session after that.
    fn within(&self, file: u64, from: u64, next: Step) -> Step {
        if from < self.directory.files[file as usize].1 { next } else { Step::Open }
    }

    /// A block of `file`, each equally likely.
    fn draw_block(&mut self, file: u64) -> u64 {
        let size = self.directory.files[file as usize].1;
        self.rng.below(size.div_ceil(BLOCK_BYTES))
    }
}

impl Source for Client {
    fn next(&mut self) -> Option<Request> {
        Some(match self.step {
            Step::Open if self.left == 0 => return None,
            Step::Open => self.open(),
            Step::Peek { file } => {
                self.step = Step::Open;
                let block = self.draw_block(file);
                self.piece(Op::Read, file, block * BLOCK_BYTES, BLOCK_BYTES)
            }
            Step::Scan { file, from, piece } => {
                let after = from + SCAN_PIECES[piece];
                self.step = self.within(file, after, Step::Scan { file, from: after, piece: 1 - piece });
                self.piece(Op::Read, file, from, SCAN_PIECES[piece])
            }
            Step::HeadRead { file, from, places } => {
                self.step = Step::HeadWrite { file, from, places };
                self.piece(Op::Read, file, from, BLOCK_BYTES)
            }
            Step::HeadWrite { file, from, places } => {
                let after = from + WRITE_PIECE;
                let next = Step::HeadRead { file, from: after, places: places - 1 };
                self.step = if places > 1 { self.within(file, after, next) } else { Step::Open };
                self.piece(Op::Write, file, from, WRITE_PIECE)
            }
            Step::Rewrite { file, block: None } => {
                let block = self.draw_block(file);
                self.step = Step::Rewrite { file, block: Some(block) };
                self.piece(Op::Read, file, block * BLOCK_BYTES, BLOCK_BYTES)
            }
            Step::Rewrite { file, block: Some(block) } => {
                self.step = Step::Open;
                self.piece(Op::Write, file, block * BLOCK_BYTES, BLOCK_BYTES)
            }
            Step::Create { file, from } => {
                let after = from + WRITE_PIECE;
                self.step = self.within(file, after, Step::Create { file, from: after });
                self.piece(Op::Write, file, from, WRITE_PIECE)
            }
            Step::Touch { file } => {
                self.step = Step::Open;
                self.piece(Op::Write, file, 0, TOUCH_BYTES)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_add_up_to_the_load_file() {
        assert_eq!(SIZES.iter().map(|s| s.1).sum::<u64>(), FILES);
        assert_eq!(SIZES.iter().filter(|s| s.0 <= 260_096).map(|s| s.1).sum::<u64>(), CREATED);
        assert_eq!(SIZES.iter().filter(|s| s.0 < 260_096).map(|s| s.1).sum::<u64>(), LARGE);
        assert_eq!(KINDS.iter().map(|k| k.1).sum::<u64>(), SESSIONS);
        let bytes: u64 = SIZES.iter().map(|s| s.0 * s.1).sum();
        assert!((24_000_000..25_000_000).contains(&bytes), "recorded 24.27 MB, here {bytes}");
    }
}
