//! Messages of the transmission phase: requests as they are parsed, replies as they are written.
//!
//! All numbers are big-endian. A request is 28 bytes, and a WRITE is followed by its data. A simple reply is 16 bytes and
//! a READ's data; a structured reply is chunks of 20 bytes and a payload, the last of them marked done. What BLOCK_STATUS
//! answers is runs of bytes, each with what is known of it. Source: proto.md,
//! "Transmission phase", "Structured reply chunk message".

use forerun_core::assemble::ByteRange;

/// Magic of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic of a simple reply.
pub const SIMPLE_MAGIC: u32 = 0x6744_6698;
/// Magic of a structured reply's chunk.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// Length of a request's head, bytes.
pub const REQUEST_BYTES: usize = 28;

/// Largest request that is advertised (`NBD_INFO_BLOCK_SIZE`), bytes: 4 MiB, the engine's largest access.
pub const ADVERTISED_BYTES_MAX: u32 = 4 << 20;
/// Largest request that is served: what every server must accept from a client that was told no limit, 32 MiB.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// What is wrong, as the protocol numbers it ("Error values").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: a write to a read-only export.
    Perm = 1,
    /// The member failed.
    Io = 5,
    /// The request makes no sense.
    Inval = 22,
    /// A write beyond the end.
    NoSpace = 28,
    /// Too long for one chunk, or for the limits that were told.
    Overflow = 75,
    /// A command that this server does not have.
    NotSup = 95,
    /// The server is going down.
    Shutdown = 108,
}

/// Flags of an export ("Transmission flags").
pub mod export {
    /// The field is valid.
    pub const HAS_FLAGS: u16 = 1;
    /// Writes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// FLUSH is there.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is there.
    pub const SEND_FUA: u16 = 1 << 3;
    /// The device is rotational.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// TRIM is there.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// WRITE_ZEROES is there.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// "Do not fragment" is understood.
    pub const SEND_DF: u16 = 1 << 7;
    /// All connections see one cache.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    /// CACHE is there.
    pub const SEND_CACHE: u16 = 1 << 10;
    /// A WRITE_ZEROES may be asked to be refused if it is no faster than a WRITE.
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
    /// All that there is of zeroes.
    pub const ZEROES: u16 = SEND_TRIM | SEND_WRITE_ZEROES | SEND_FAST_ZERO;
}

/// Flags of a request.
pub mod request {
    /// On stable storage before the reply.
    pub const FUA: u16 = 1;
    /// Zeroes are to take room.
    pub const NO_HOLE: u16 = 1 << 1;
    /// The reply's data in one chunk.
    pub const DF: u16 = 1 << 2;
    /// One run and no more.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Refused if it is no faster than a WRITE.
    pub const FAST_ZERO: u16 = 1 << 4;
    /// All that are defined for the commands here.
    pub const KNOWN: u16 = FUA | NO_HOLE | DF | REQ_ONE | FAST_ZERO;
}

/// The number of `base:allocation` in answers to BLOCK_STATUS.
pub const ALLOCATION_ID: u32 = 1;

/// What is known of a run of bytes in the context `base:allocation`.
pub mod allocation {
    /// They take no room.
    pub const HOLE: u32 = 1;
    /// They read as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// Bytes that follow each other, of which the same is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub bytes: u32,
    /// See [`allocation`].
    pub flags: u32,
}

/// What a request asks for ("Request types").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bytes.
    Read,
    /// Bytes follow.
    Write,
    /// End of the session.
    Disconnect,
    /// Everything acknowledged is on stable storage.
    Flush,
    /// Nobody needs what is there: it may be anything, here zeros.
    Trim,
    /// A hint: these bytes will be read.
    Cache,
    /// Bytes become zero.
    WriteZeroes,
    /// Where there are holes.
    BlockStatus,
    /// Anything else, by its number.
    Other(u16),
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags as sent.
    pub flags: u16,
    /// What.
    pub command: Command,
    /// Comes back in the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

impl Request {
    /// The bytes that it is about. They have been judged to lie within the export.
    #[must_use]
    pub const fn range(&self) -> ByteRange {
        ByteRange::new(self.offset, self.length as u64)
    }
}

/// What a head says at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Not all of it is here yet.
    Short,
    /// No request starts here: the session is lost.
    BadMagic,
    /// A request; its head is [`REQUEST_BYTES`] long.
    Request(Request),
}

/// Big-endian bytes at `at`; the caller has checked the length.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Reads the head of a request.
#[must_use]
pub fn parse_request(bytes: &[u8]) -> Parsed {
    if bytes.len() >= 4 && u32::from_be_bytes(field(bytes, 0)) != REQUEST_MAGIC {
        return Parsed::BadMagic;
    }
    if bytes.len() < REQUEST_BYTES {
        return Parsed::Short;
    }
    let command = match u16::from_be_bytes(field(bytes, 6)) {
        0 => Command::Read,
        1 => Command::Write,
        2 => Command::Disconnect,
        3 => Command::Flush,
        4 => Command::Trim,
        5 => Command::Cache,
        6 => Command::WriteZeroes,
        7 => Command::BlockStatus,
        other => Command::Other(other),
    };
    Parsed::Request(Request {
        flags: u16::from_be_bytes(field(bytes, 4)),
        command,
        cookie: u64::from_be_bytes(field(bytes, 8)),
        offset: u64::from_be_bytes(field(bytes, 16)),
        length: u32::from_be_bytes(field(bytes, 24)),
    })
}

/// What an export allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the export.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// FLUSH and FUA were not offered: nothing could keep what they promise.
    pub no_flush: bool,
    /// What the export offers ([`export`]): commands that it does not are not there.
    pub offered: u16,
    /// The client was told [`ADVERTISED_BYTES_MAX`].
    pub told: bool,
}

impl Request {
    /// Why a request is refused, if it is. The caller keeps the session in step: the data of a refused WRITE is read and
    /// thrown away.
    ///
    /// # Errors
    /// As the protocol says for each command: EPERM before anything else on a read-only export, then limits.
    pub fn check(&self, limits: &Limits) -> Result<(), Errno> {
        if self.flags & !request::KNOWN != 0 {
            return Err(Errno::Inval);
        }
        if limits.no_flush && (self.command == Command::Flush || self.flags & request::FUA != 0) {
            return Err(Errno::Inval);
        }
        match self.command {
            Command::Disconnect => return Ok(()),
            Command::Flush => {
                // "offset and length MUST be zero": anything else is reserved.
                return if self.offset == 0 && self.length == 0 { Ok(()) } else { Err(Errno::Inval) };
            }
            Command::Other(_) => return Err(Errno::NotSup),
            Command::Write | Command::Trim | Command::WriteZeroes if limits.read_only => {
                return Err(Errno::Perm);
            }
            Command::Trim if limits.offered & export::SEND_TRIM == 0 => return Err(Errno::NotSup),
            Command::WriteZeroes if limits.offered & export::SEND_WRITE_ZEROES == 0 => {
                return Err(Errno::NotSup);
            }
            Command::Read | Command::Write | Command::Cache => {}
            Command::Trim | Command::WriteZeroes | Command::BlockStatus => {}
        }
        self.check_flags(limits)?;
        let fills = matches!(self.command, Command::Write | Command::WriteZeroes);
        let beyond = if fills { Errno::NoSpace } else { Errno::Inval };
        let end = self.offset.checked_add(u64::from(self.length)).ok_or(beyond)?;
        if self.length == 0 {
            return Err(Errno::Inval);
        }
        if end > limits.size {
            return Err(beyond);
        }
        let longest = if limits.told { ADVERTISED_BYTES_MAX } else { REQUEST_BYTES_MAX };
        // The others bring no data and take none.
        if self.length > longest && matches!(self.command, Command::Read | Command::Write) {
            return Err(Errno::Overflow);
        }
        Ok(())
    }

    /// Flags that belong to one command alone.
    fn check_flags(&self, limits: &Limits) -> Result<(), Errno> {
        let has = |flag: u16| self.flags & flag != 0;
        let zeroes = self.command == Command::WriteZeroes;
        let fast = zeroes && limits.offered & export::SEND_FAST_ZERO != 0;
        let wrong = (has(request::DF) && self.command != Command::Read)
            || (has(request::NO_HOLE) && !zeroes)
            || (has(request::REQ_ONE) && self.command != Command::BlockStatus)
            || (has(request::FAST_ZERO) && !fast);
        if wrong { Err(Errno::Inval) } else { Ok(()) }
    }
}

/// Head of a simple reply.
#[must_use]
pub fn simple_reply(error: Option<Errno>, cookie: u64) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&SIMPLE_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.map_or(0, |e| e as u32).to_be_bytes());
    out[8..].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// Head of a chunk with `bytes` of data from `offset` (`NBD_REPLY_TYPE_OFFSET_DATA`).
#[must_use]
pub fn data_chunk(done: bool, cookie: u64, offset: u64, bytes: u32) -> [u8; 28] {
    let mut out = [0; 28];
    out[..20].copy_from_slice(&chunk(done, 1, cookie, bytes + 8));
    out[20..].copy_from_slice(&offset.to_be_bytes());
    out
}

/// A whole answer to BLOCK_STATUS (`NBD_REPLY_TYPE_BLOCK_STATUS`).
#[must_use]
pub fn status_chunk(cookie: u64, runs: &[Run]) -> Vec<u8> {
    let mut out = chunk(true, 5, cookie, 4 + 8 * runs.len() as u32).to_vec();
    out.extend_from_slice(&ALLOCATION_ID.to_be_bytes());
    for run in runs {
        out.extend_from_slice(&run.bytes.to_be_bytes());
        out.extend_from_slice(&run.flags.to_be_bytes());
    }
    out
}

/// A last chunk that says an error (`NBD_REPLY_TYPE_ERROR`), without a text.
#[must_use]
pub fn error_chunk(error: Errno, cookie: u64) -> [u8; 26] {
    let mut out = [0; 26];
    out[..20].copy_from_slice(&chunk(true, (1 << 15) + 1, cookie, 6));
    out[20..24].copy_from_slice(&(error as u32).to_be_bytes());
    out
}

fn chunk(done: bool, kind: u16, cookie: u64, length: u32) -> [u8; 20] {
    let mut out = [0; 20];
    out[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&u16::from(done).to_be_bytes());
    out[6..8].copy_from_slice(&kind.to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..].copy_from_slice(&length.to_be_bytes());
    out
}

/// A request as a client sends it: for tests and measurements.
#[must_use]
pub fn request_bytes(request: &Request) -> [u8; REQUEST_BYTES] {
    let mut out = [0; REQUEST_BYTES];
    let command = match request.command {
        Command::Read => 0,
        Command::Write => 1,
        Command::Disconnect => 2,
        Command::Flush => 3,
        Command::Trim => 4,
        Command::Cache => 5,
        Command::WriteZeroes => 6,
        Command::BlockStatus => 7,
        Command::Other(number) => number,
    };
    out[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&request.flags.to_be_bytes());
    out[6..8].copy_from_slice(&command.to_be_bytes());
    out[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    out[16..24].copy_from_slice(&request.offset.to_be_bytes());
    out[24..].copy_from_slice(&request.length.to_be_bytes());
    out
}

/// What must hold of requests, for any numbers in them: the tests below go through all boundaries, and a verifier proves it.
#[cfg(any(test, kani))]
mod properties {
    use super::*;

    pub(super) const LIMITS: Limits =
        Limits { size: 1 << 30, read_only: false, no_flush: false, offered: export::ZEROES, told: true };

    /// Commands with an extent.
    pub(super) const COMMANDS: [Command; 6] = [
        Command::Read,
        Command::Write,
        Command::Cache,
        Command::Trim,
        Command::WriteZeroes,
        Command::BlockStatus,
    ];

    pub(super) fn request(command: Command, offset: u64, length: u32) -> Request {
        Request { flags: 0, command, cookie: 7, offset, length }
    }

    /// A request is taken if its bytes lie in an export of `size` bytes, are some, and are no more than was told, by arithmetic that cannot
    /// wrap; and the blocks that it touches are those that its first and its last byte lie in.
    pub(super) fn what_is_taken_lies_within(size: u64, command: Command, offset: u64, length: u32) {
        let end = u128::from(offset) + u128::from(length);
        let is_data = matches!(command, Command::Read | Command::Write);
        let right = length > 0 && end <= u128::from(size) && (!is_data || length <= ADVERTISED_BYTES_MAX);
        let request = request(command, offset, length);
        assert_eq!(request.check(&Limits { size, ..LIMITS }).is_ok(), right, "{request:?} of {size}");
        if right {
            let blocks = request.range().blocks();
            let (first, last) = (u128::from(offset) / 4096, (end - 1) / 4096);
            assert_eq!((u128::from(blocks.start.0), u128::from(blocks.end())), (first, last + 1));
        }
    }

    /// The bytes of a request say what it says.
    pub(super) fn what_is_sent_is_understood(request: Request) {
        assert_eq!(parse_request(&request_bytes(&request)), Parsed::Request(request));
    }
}

#[cfg(kani)]
mod proofs {
    use super::properties::*;
    use super::*;
    use kani::any;

    fn any_command() -> Command {
        COMMANDS[usize::from(any::<u8>()) % COMMANDS.len()]
    }

    #[kani::proof]
    fn extents() {
        what_is_taken_lies_within(any(), any_command(), any(), any());
    }

    #[kani::proof]
    fn heads() {
        let (flags, cookie, offset, length) = (any(), any(), any(), any());
        what_is_sent_is_understood(Request { flags, command: any_command(), cookie, offset, length });
    }
}

#[cfg(test)]
mod tests {
    use super::properties::*;
    use super::*;

    #[test]
    fn a_request_survives_its_own_bytes_and_is_short_at_every_cut() {
        let sent =
            Request { flags: 1, command: Command::Write, cookie: u64::MAX, offset: 1 << 40, length: 9 };
        what_is_sent_is_understood(sent);
        let bytes = request_bytes(&sent);
        for cut in 0..REQUEST_BYTES {
            assert_eq!(parse_request(&bytes[..cut]), Parsed::Short);
        }
    }

    #[test]
    fn another_magic_is_seen_at_its_fourth_byte() {
        assert_eq!(parse_request(&[0x25, 0x60, 0x95]), Parsed::Short);
        assert_eq!(parse_request(&[0x25, 0x60, 0x95, 0x14]), Parsed::BadMagic);
    }

    #[test]
    fn lengths_and_offsets_at_every_boundary_are_judged_without_wrapping() {
        let size = LIMITS.size;
        for (command, offset, length, expected) in [
            (Command::Read, 0, 1, Ok(())),
            (Command::Read, size - 1, 1, Ok(())),
            (Command::Read, size - 1, 2, Err(Errno::Inval)),
            (Command::Read, size, 1, Err(Errno::Inval)),
            (Command::Read, u64::MAX, 1, Err(Errno::Inval)),
            (Command::Read, u64::MAX - 1, u32::MAX, Err(Errno::Inval)),
            (Command::Read, 0, 0, Err(Errno::Inval)),
            (Command::Read, 0, ADVERTISED_BYTES_MAX, Ok(())),
            (Command::Read, 0, ADVERTISED_BYTES_MAX + 1, Err(Errno::Overflow)),
            (Command::Write, size, 1, Err(Errno::NoSpace)),
            (Command::Write, u64::MAX, u32::MAX, Err(Errno::NoSpace)),
            (Command::Write, size - 5, 5, Ok(())),
            (Command::Cache, 0, 1 << 29, Ok(())),
            (Command::Flush, 1, 0, Err(Errno::Inval)),
            (Command::Flush, 0, 0, Ok(())),
            (Command::Other(99), 0, 1, Err(Errno::NotSup)),
            (Command::Trim, 0, 1 << 29, Ok(())),
            (Command::Trim, size, 1, Err(Errno::Inval)),
            (Command::BlockStatus, 0, 1 << 30, Ok(())),
            (Command::BlockStatus, 0, 0, Err(Errno::Inval)),
            (Command::BlockStatus, 1, 1 << 30, Err(Errno::Inval)),
            (Command::WriteZeroes, 0, 1 << 30, Ok(())),
            (Command::WriteZeroes, 1, 1 << 30, Err(Errno::NoSpace)),
            (Command::WriteZeroes, u64::MAX, u32::MAX, Err(Errno::NoSpace)),
        ] {
            assert_eq!(
                request(command, offset, length).check(&LIMITS),
                expected,
                "{command:?} {offset} {length}"
            );
        }
    }

    /// What is taken lies in the export and in blocks of it, by arithmetic that cannot wrap: every offset and length of exports of a
    /// few bytes, and all that lie within three of a boundary in larger ones.
    #[test]
    fn every_extent_that_is_taken_lies_within_the_export() {
        let near = |boundaries: &[u64]| -> Vec<u64> {
            let three = |&at: &u64| at.saturating_sub(3)..=at.saturating_add(3);
            boundaries.iter().flat_map(three).collect()
        };
        let few: Vec<u64> = (0..14).collect();
        let small = (1..12).map(|size| (size, few.clone(), few.clone()));
        let sizes = [4096, 10_000, 1 << 30, u64::MAX - 4096];
        let large = sizes.into_iter().map(|size| {
            let offsets = near(&[0, 4096, size / 2 / 4096 * 4096, size, u64::MAX - 3]);
            (size, offsets, near(&[0, 4096, u64::from(ADVERTISED_BYTES_MAX), u64::from(u32::MAX) - 3]))
        });
        for (size, offsets, lengths) in small.chain(large) {
            for (&offset, &length) in offsets.iter().flat_map(|at| lengths.iter().map(move |len| (at, len))) {
                for command in COMMANDS {
                    what_is_taken_lies_within(size, command, offset, length as u32);
                }
            }
        }
    }

    #[test]
    fn a_client_that_was_told_no_limit_may_ask_for_32_mib() {
        let untold = Limits { told: false, ..LIMITS };
        assert_eq!(request(Command::Read, 0, REQUEST_BYTES_MAX).check(&untold), Ok(()));
        assert_eq!(request(Command::Read, 0, REQUEST_BYTES_MAX + 1).check(&untold), Err(Errno::Overflow));
    }

    #[test]
    fn a_read_only_export_refuses_writes_before_it_looks_at_them() {
        let limits = Limits { read_only: true, ..LIMITS };
        assert_eq!(request(Command::Write, u64::MAX, 0).check(&limits), Err(Errno::Perm));
    }

    #[test]
    fn zeroes_are_there_where_they_are_offered_and_their_flags_with_them_alone() {
        let none = Limits { offered: 0, ..LIMITS };
        let read_only = Limits { read_only: true, ..LIMITS };
        for command in [Command::Trim, Command::WriteZeroes] {
            assert_eq!(request(command, 0, 1).check(&none), Err(Errno::NotSup));
            assert_eq!(request(command, 0, 1).check(&read_only), Err(Errno::Perm));
        }
        let slow = Limits { offered: export::SEND_WRITE_ZEROES, ..LIMITS };
        let with = |flags, command| Request { flags, ..request(command, 0, 1) };
        assert_eq!(with(request::FAST_ZERO | request::NO_HOLE, Command::WriteZeroes).check(&LIMITS), Ok(()));
        assert_eq!(with(request::FAST_ZERO, Command::WriteZeroes).check(&slow), Err(Errno::Inval));
        assert_eq!(with(request::REQ_ONE, Command::BlockStatus).check(&LIMITS), Ok(()));
        for command in [Command::Read, Command::Write, Command::Trim] {
            assert_eq!(with(request::REQ_ONE, command).check(&LIMITS), Err(Errno::Inval), "{command:?}");
            assert_eq!(with(request::NO_HOLE, command).check(&LIMITS), Err(Errno::Inval), "{command:?}");
            assert_eq!(with(request::FAST_ZERO, command).check(&LIMITS), Err(Errno::Inval), "{command:?}");
        }
    }

    #[test]
    fn unknown_flags_are_refused() {
        let mut odd = request(Command::Read, 0, 1);
        odd.flags = 1 << 9;
        assert_eq!(odd.check(&LIMITS), Err(Errno::Inval));
    }
}
