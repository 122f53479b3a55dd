//! The negotiation of a session (proto.md, "Fixed newstyle negotiation"): bytes in, bytes out, and at the end an export.
//!
//! ```text
//!   greeting sent --client flags--> options --GO / EXPORT_NAME--> transmission
//!                        \             |  ^
//!                         \            v  | LIST, INFO, STRUCTURED_REPLY, LIST/SET_META_CONTEXT, STARTTLS, anything unknown
//!                          `--bad--> closed <--ABORT-- options
//! ```
//!
//! A client that wants to know where an export has holes names the context `base:allocation` for it; that is the only one there is.
//!
//! STARTTLS ends the machine's trust in what it has heard: what was agreed on is forgotten, and the caller must not take a
//! byte that came before the first record. Where TLS is required nothing but STARTTLS and ABORT is answered before.
//!
//! The machine holds nothing of what it was sent but how much of a refused option is still to come, so a client cannot make
//! it grow: an option is answered when all of it is in the caller's buffer, and one that is longer than
//! [`OPTION_BYTES_MAX`] is refused at once and passed over as it arrives. It never panics on what a client sends.

use super::wire::{ADVERTISED_BYTES_MAX, export};
use forerun_core::units::BLOCK_BYTES;

/// Longest option that is looked at, bytes: a name (4096), some information requests, and room to spare.
pub const OPTION_BYTES_MAX: usize = 8 << 10;
/// Longest name of an export, bytes ("Values: string").
pub(crate) const NAME_BYTES_MAX: usize = 4096;
/// Options of one session before it is closed: no client needs more than a handful.
const OPTIONS_MAX: u32 = 64;

/// `NBDMAGIC`.
pub(super) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
/// Magic of an option's reply.
pub(super) const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// `NBD_FLAG_FIXED_NEWSTYLE` and `NBD_FLAG_C_FIXED_NEWSTYLE`.
pub(super) const FIXED_NEWSTYLE: u16 = 1;
/// `NBD_FLAG_NO_ZEROES` and `NBD_FLAG_C_NO_ZEROES`.
pub(super) const NO_ZEROES: u16 = 1 << 1;

/// Options, by number.
pub(super) mod option {
    pub(in crate::nbd) const EXPORT_NAME: u32 = 1;
    pub(in crate::nbd) const ABORT: u32 = 2;
    pub(in crate::nbd) const LIST: u32 = 3;
    pub(in crate::nbd) const STARTTLS: u32 = 5;
    pub(in crate::nbd) const INFO: u32 = 6;
    pub(in crate::nbd) const GO: u32 = 7;
    pub(in crate::nbd) const STRUCTURED_REPLY: u32 = 8;
    pub(in crate::nbd) const LIST_META_CONTEXT: u32 = 9;
    pub(in crate::nbd) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options, by number.
pub(super) mod reply {
    pub(in crate::nbd) const ACK: u32 = 1;
    pub(in crate::nbd) const SERVER: u32 = 2;
    pub(in crate::nbd) const INFO: u32 = 3;
    pub(in crate::nbd) const META_CONTEXT: u32 = 4;
    pub(in crate::nbd) const UNSUPPORTED: u32 = (1 << 31) + 1;
    pub(in crate::nbd) const POLICY: u32 = (1 << 31) + 2;
    pub(in crate::nbd) const INVALID: u32 = (1 << 31) + 3;
    pub(in crate::nbd) const TLS_REQUIRED: u32 = (1 << 31) + 5;
    pub(in crate::nbd) const UNKNOWN: u32 = (1 << 31) + 6;
    pub(in crate::nbd) const SHUTDOWN: u32 = (1 << 31) + 7;
    pub(in crate::nbd) const BLOCK_SIZE_REQUIRED: u32 = (1 << 31) + 8;
    pub(in crate::nbd) const TOO_BIG: u32 = (1 << 31) + 9;
}

/// The context that says where an export has holes, and the namespace that it is in.
pub(super) const ALLOCATION: &str = "base:allocation";
const NAMESPACE: &str = "base:";

/// Information items, by number.
pub(super) mod info {
    pub(in crate::nbd) const EXPORT: u16 = 0;
    pub(in crate::nbd) const NAME: u16 = 1;
    pub(in crate::nbd) const DESCRIPTION: u16 = 2;
    pub(in crate::nbd) const BLOCK_SIZE: u16 = 3;
}

/// What clients may choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name means the export that has it, else the first.
    pub name: String,
    /// For people.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// See [`super::wire::export`].
    pub flags: u16,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// An option was dealt with; there may be more in the buffer.
    Again,
    /// What has been said is to be sent, then TLS begins. Bytes that are here already are none of it: a client that sends ahead of
    /// the answer is no client of this protocol, or somebody between it and us.
    StartTls,
    /// Requests follow.
    Transmission(Terms),
    /// Send what there is and close.
    Close,
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Number of the export.
    pub export: usize,
    /// READ is answered in chunks.
    pub structured: bool,
    /// The client was told the largest request.
    pub told: bool,
    /// BLOCK_STATUS is answered, for `base:allocation`.
    pub allocation: bool,
}

/// What a server does about TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    /// It has no certificate.
    #[default]
    Off,
    /// Clients that ask for it get it.
    Allow,
    /// Clients that do not ask for it get nothing.
    Require,
}

/// The state of one negotiation.
#[derive(Clone, Debug, Default)]
pub struct Handshake {
    greeted: bool,
    no_zeroes: bool,
    structured: bool,
    told: bool,
    /// The export of which the client wants to know where it has holes.
    allocation: Option<usize>,
    tls: Tls,
    /// TLS has begun.
    secure: bool,
    /// Bytes of a refused option that are still to come.
    skip: u64,
    options: u32,
}

/// What the server says first.
#[must_use]
pub fn greeting() -> [u8; 18] {
    let mut out = [0; 18];
    out[..8].copy_from_slice(&MAGIC.to_be_bytes());
    out[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    out[16..].copy_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    out
}

/// A number of `N` bytes at the front, and what is behind it.
pub(super) fn split<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    bytes.split_first_chunk::<N>().map(|(head, rest)| (*head, rest))
}

impl Handshake {
    /// The beginning of a session.
    #[must_use]
    pub fn new(tls: Tls) -> Self {
        Self { tls, ..Self::default() }
    }

    /// Takes the next message from the front of `input`. Returns how many bytes it took and how it went on; answers are
    /// added to `out`. `full` refuses new sessions: every client of the export is served by somebody else's place.
    pub fn step(&mut self, input: &[u8], exports: &[Export], full: bool, out: &mut Vec<u8>) -> (usize, Step) {
        if !self.greeted {
            return self.client_flags(input);
        }
        if self.skip > 0 {
            let take = (input.len() as u64).min(self.skip);
            self.skip -= take;
            let step = if take == 0 { Step::More } else { Step::Again };
            return (take as usize, step);
        }
        let Some((magic, rest)) = split::<8>(input) else { return (0, Step::More) };
        if u64::from_be_bytes(magic) != OPTION_MAGIC {
            return (0, Step::Close);
        }
        let Some((number, rest)) = split::<4>(rest) else { return (0, Step::More) };
        let Some((length, rest)) = split::<4>(rest) else { return (0, Step::More) };
        let (number, length) = (u32::from_be_bytes(number), u32::from_be_bytes(length) as usize);
        if length > OPTION_BYTES_MAX {
            return self.refuse_long(number, length, out);
        }
        let Some(data) = rest.get(..length) else { return (0, Step::More) };
        self.options += 1;
        let step = if self.options > OPTIONS_MAX {
            Step::Close
        } else {
            self.option(number, data, exports, full, out)
        };
        (16 + length, step)
    }

    fn client_flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some((flags, _)) = split::<4>(input) else { return (0, Step::More) };
        let flags = u32::from_be_bytes(flags);
        // "the server MUST drop the connection" on flags that it does not know.
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return (4, Step::Close);
        }
        self.greeted = true;
        self.no_zeroes = flags & u32::from(NO_ZEROES) != 0;
        (4, Step::Again)
    }

    /// An option too long to be looked at: an answer, and its data is passed over as it comes.
    fn refuse_long(&mut self, number: u32, length: usize, out: &mut Vec<u8>) -> (usize, Step) {
        if number == option::EXPORT_NAME {
            return (16, Step::Close); // it has no way to be answered with an error
        }
        self.options += 1;
        self.skip = length as u64;
        if self.is_closed_to(number) {
            answer(out, number, reply::TLS_REQUIRED, b"this server wants TLS: send STARTTLS first");
        } else {
            answer(out, number, reply::TOO_BIG, b"the option is too long");
        }
        (16, if self.options > OPTIONS_MAX { Step::Close } else { Step::Again })
    }

    /// Whether an option must wait for TLS.
    fn is_closed_to(&self, number: u32) -> bool {
        let open = matches!(number, option::STARTTLS | option::ABORT);
        self.tls == Tls::Require && !self.secure && !open
    }

    /// `NBD_OPT_STARTTLS`: everything that was agreed on without it is forgotten.
    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let number = option::STARTTLS;
        match (self.tls, self.secure) {
            _ if !data.is_empty() => answer(out, number, reply::INVALID, b"STARTTLS takes no data"),
            (Tls::Off, _) => answer(out, number, reply::UNSUPPORTED, b"this server has no certificate"),
            (_, true) => answer(out, number, reply::INVALID, b"TLS has begun already"),
            (_, false) => {
                answer(out, number, reply::ACK, &[]);
                let Self { greeted, no_zeroes, tls, options, .. } = *self;
                *self = Self { greeted, no_zeroes, tls, options, secure: true, ..Self::default() };
                return Step::StartTls;
            }
        }
        Step::Again
    }

    fn option(
        &mut self,
        number: u32,
        data: &[u8],
        exports: &[Export],
        full: bool,
        out: &mut Vec<u8>,
    ) -> Step {
        if self.is_closed_to(number) {
            if number == option::EXPORT_NAME {
                return Step::Close; // it has no way to be answered with an error
            }
            answer(out, number, reply::TLS_REQUIRED, b"this server wants TLS: send STARTTLS first");
            return Step::Again;
        }
        match number {
            option::STARTTLS => return self.start_tls(data, out),
            option::EXPORT_NAME => return self.export_name(data, exports, full, out),
            option::ABORT => {
                answer(out, number, reply::ACK, &[]);
                return Step::Close;
            }
            option::LIST if !data.is_empty() => answer(out, number, reply::INVALID, b"LIST takes no data"),
            option::LIST => {
                for export in exports {
                    let mut item = (export.name.len() as u32).to_be_bytes().to_vec();
                    item.extend_from_slice(export.name.as_bytes());
                    item.extend_from_slice(export.description.as_bytes());
                    answer(out, number, reply::SERVER, &item);
                }
                answer(out, number, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if !data.is_empty() => {
                answer(out, number, reply::INVALID, b"STRUCTURED_REPLY takes no data");
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                answer(out, number, reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(number, data, exports, out),
            option::INFO | option::GO => return self.info(number, data, exports, full, out),
            _ => answer(out, number, reply::UNSUPPORTED, b"this server does not have that option"),
        }
        Step::Again
    }

    /// `NBD_OPT_EXPORT_NAME`: the name is all there is, and an error can only be said by closing.
    fn export_name(&self, data: &[u8], exports: &[Export], full: bool, out: &mut Vec<u8>) -> Step {
        let Some(export) = find(data, exports).filter(|_| !full) else { return Step::Close };
        out.extend_from_slice(&exports[export].size.to_be_bytes());
        out.extend_from_slice(&self.flags_of(&exports[export]).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
        Step::Transmission(self.terms(export))
    }

    fn terms(&self, export: usize) -> Terms {
        let allocation = self.allocation == Some(export);
        Terms { export, structured: self.structured, told: self.told, allocation }
    }

    /// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`: a name and what the client would like to know of that export. What was
    /// chosen before is forgotten, whatever comes of it.
    fn contexts(&mut self, number: u32, data: &[u8], exports: &[Export], out: &mut Vec<u8>) {
        let set = number == option::SET_META_CONTEXT;
        if set {
            self.allocation = None;
        }
        if !self.structured {
            return answer(
                out,
                number,
                reply::INVALID,
                b"contexts need structured replies: agree on them first",
            );
        }
        let Some((name, queries)) = parse_contexts(data) else {
            return answer(out, number, reply::INVALID, b"lengths within the option contradict each other");
        };
        let Some(export) = find(name, exports) else {
            return answer(out, number, reply::UNKNOWN, b"there is no export of this name");
        };
        let all = !set && queries.is_empty();
        let asked =
            |query: &&[u8]| *query == ALLOCATION.as_bytes() || (!set && *query == NAMESPACE.as_bytes());
        if all || queries.iter().any(asked) {
            // The number is of no meaning in a list.
            let mut item = u32::from(set).to_be_bytes().to_vec();
            item.extend_from_slice(ALLOCATION.as_bytes());
            answer(out, number, reply::META_CONTEXT, &item);
            self.allocation = if set { Some(export) } else { self.allocation };
        }
        answer(out, number, reply::ACK, &[]);
    }

    /// What an export can do for this client: chunks of a READ are only spoken of where chunks were agreed on ("MUST leave
    /// this flag clear if structured replies have not been negotiated").
    const fn flags_of(&self, export: &Export) -> u16 {
        if self.structured { export.flags } else { export.flags & !export::SEND_DF }
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`: a name and the numbers of what the client would like to be told.
    fn info(&mut self, number: u32, data: &[u8], exports: &[Export], full: bool, out: &mut Vec<u8>) -> Step {
        let Some((name, wanted)) = parse_info(data) else {
            answer(out, number, reply::INVALID, b"lengths within the option contradict each other");
            return Step::Again;
        };
        let Some(export) = find(name, exports) else {
            answer(out, number, reply::UNKNOWN, b"there is no export of this name");
            return Step::Again;
        };
        if full && number == option::GO {
            answer(out, number, reply::POLICY, b"too many clients: try again later");
            return Step::Again;
        }
        let found = &exports[export];
        let mut item = info::EXPORT.to_be_bytes().to_vec();
        item.extend_from_slice(&found.size.to_be_bytes());
        item.extend_from_slice(&self.flags_of(found).to_be_bytes());
        answer(out, number, reply::INFO, &item);
        for kind in wanted.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])) {
            self.tell(number, kind, found, out);
        }
        answer(out, number, reply::ACK, &[]);
        if number == option::INFO {
            return Step::Again;
        }
        Step::Transmission(self.terms(export))
    }

    fn tell(&mut self, number: u32, kind: u16, export: &Export, out: &mut Vec<u8>) {
        let mut item = kind.to_be_bytes().to_vec();
        match kind {
            info::NAME => item.extend_from_slice(export.name.as_bytes()),
            info::DESCRIPTION => item.extend_from_slice(export.description.as_bytes()),
            info::BLOCK_SIZE => {
                self.told = true;
                item.extend_from_slice(&1_u32.to_be_bytes());
                item.extend_from_slice(&(BLOCK_BYTES as u32).to_be_bytes());
                item.extend_from_slice(&ADVERTISED_BYTES_MAX.to_be_bytes());
            }
            _ => return, // "MUST ignore" what it does not know
        }
        answer(out, number, reply::INFO, &item);
    }
}

/// Name and wanted items of INFO and GO, or nothing if the lengths do not add up.
fn parse_info(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = split::<4>(data)?;
    let length = u32::from_be_bytes(length) as usize;
    let name = rest.get(..length)?;
    let (count, wanted) = split::<2>(&rest[length..])?;
    (wanted.len() == 2 * usize::from(u16::from_be_bytes(count))).then_some((name, wanted))
}

/// Name and queries of LIST_META_CONTEXT and SET_META_CONTEXT, or nothing if the lengths do not add up.
fn parse_contexts(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let text = |data| -> Option<(&[u8], &[u8])> {
        let (length, rest) = split::<4>(data)?;
        rest.split_at_checked(u32::from_be_bytes(length) as usize)
    };
    let (name, rest) = text(data)?;
    let (count, mut rest) = split::<4>(rest)?;
    let mut queries = Vec::new();
    for _ in 0..u32::from_be_bytes(count) {
        // Each takes four bytes at least, so a wrong count ends where the option does.
        let (query, behind) = text(rest)?;
        queries.push(query);
        rest = behind;
    }
    rest.is_empty().then_some((name, queries))
}

/// The export of a name; the empty name, where no export has it, is the first.
fn find(name: &[u8], exports: &[Export]) -> Option<usize> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let found = exports.iter().position(|export| export.name.as_bytes() == name);
    found.or_else(|| (name.is_empty() && !exports.is_empty()).then_some(0))
}

fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// The flags of an export of this server.
#[must_use]
pub const fn export_flags(read_only: bool, rotational: bool) -> u16 {
    let mut flags = export::HAS_FLAGS
        | export::SEND_FLUSH
        | export::SEND_FUA
        | export::SEND_DF
        | export::CAN_MULTI_CONN
        | export::SEND_CACHE;
    if read_only {
        flags |= export::READ_ONLY;
    }
    if rotational {
        flags |= export::ROTATIONAL;
    }
    flags
}

/// What a client sends: an option with its data. For tests, fuzzing and measurements.
#[must_use]
pub fn option_bytes(number: u32, data: &[u8]) -> Vec<u8> {
    let mut out = OPTION_MAGIC.to_be_bytes().to_vec();
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exports() -> Vec<Export> {
        let export = |name: &str| Export {
            name: name.into(),
            description: "disk".into(),
            size: 1 << 20,
            flags: export_flags(false, false),
        };
        vec![export("a"), export("b")]
    }

    /// Feeds a whole session at once; returns what was answered and how it ended.
    fn run(input: &[u8]) -> (Vec<u8>, Step) {
        let (mut machine, mut out, mut at) = (Handshake::default(), Vec::new(), 0);
        loop {
            let (took, step) = machine.step(&input[at..], &exports(), false, &mut out);
            at += took;
            if step != Step::Again {
                return (out, step);
            }
        }
    }

    fn go(name: &[u8], wanted: &[u16]) -> Vec<u8> {
        go_like(option::GO, name, wanted)
    }

    fn go_like(number: u32, name: &[u8], wanted: &[u16]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
        wanted.iter().for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
        option_bytes(number, &data)
    }

    fn kinds(mut answers: &[u8]) -> Vec<u32> {
        let mut kinds = Vec::new();
        while answers.len() >= 20 {
            kinds.push(u32::from_be_bytes([answers[12], answers[13], answers[14], answers[15]]));
            let length = u32::from_be_bytes([answers[16], answers[17], answers[18], answers[19]]) as usize;
            answers = &answers[20 + length..];
        }
        assert!(answers.is_empty(), "answers end where they say");
        kinds
    }

    #[test]
    fn go_names_size_and_limits_and_starts_the_session() {
        let mut input = 3_u32.to_be_bytes().to_vec();
        input.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
        input.extend(go(b"b", &[info::BLOCK_SIZE, 77]));
        let (out, step) = run(&input);
        let terms = Terms { export: 1, structured: true, told: true, allocation: false };
        assert_eq!(step, Step::Transmission(terms));
        assert_eq!(kinds(&out), [reply::ACK, reply::INFO, reply::INFO, reply::ACK]);
    }

    /// Feeds options to a machine; returns the kinds of what was answered and how it ended.
    fn feed(machine: &mut Handshake, input: &[u8]) -> (Vec<u32>, Step) {
        let (mut out, mut at) = (Vec::new(), 0);
        loop {
            let (took, step) = machine.step(&input[at..], &exports(), false, &mut out);
            at += took;
            if step != Step::Again {
                return (kinds(&out), step);
            }
        }
    }

    fn greeted(tls: Tls) -> Handshake {
        let mut machine = Handshake::new(tls);
        assert_eq!(feed(&mut machine, &3_u32.to_be_bytes()), (vec![], Step::More));
        machine
    }

    #[test]
    fn where_tls_is_required_nothing_but_starttls_and_abort_is_answered_before_it() {
        let mut machine = greeted(Tls::Require);
        for number in (0..20).chain([1 << 31, u32::MAX]) {
            if matches!(number, option::EXPORT_NAME | option::ABORT | option::STARTTLS) {
                continue;
            }
            for data in [&[][..], &[0, 0, 0, 1, b'a', 0, 0]] {
                let answered = feed(&mut machine, &option_bytes(number, data));
                assert_eq!(answered, (vec![reply::TLS_REQUIRED], Step::More), "option {number}");
            }
        }
        let mut long = option_bytes(option::GO, &[]);
        long[12..16].copy_from_slice(&(1_u32 << 20).to_be_bytes());
        assert_eq!(feed(&mut greeted(Tls::Require), &long), (vec![reply::TLS_REQUIRED], Step::More));
        let name = option_bytes(option::EXPORT_NAME, b"a");
        assert_eq!(feed(&mut greeted(Tls::Require), &name), (vec![], Step::Close));
        let abort = option_bytes(option::ABORT, &[]);
        assert_eq!(feed(&mut greeted(Tls::Require), &abort), (vec![reply::ACK], Step::Close));
        let started = feed(&mut machine, &option_bytes(option::STARTTLS, &[]));
        assert_eq!(started, (vec![reply::ACK], Step::StartTls));
        assert!(matches!(feed(&mut machine, &go(b"a", &[])).1, Step::Transmission(_)), "then all is open");
    }

    #[test]
    fn starttls_forgets_what_was_agreed_on_and_comes_once() {
        let mut machine = greeted(Tls::Allow);
        let agreed =
            [option_bytes(option::STRUCTURED_REPLY, &[]), go_like(option::INFO, b"b", &[info::BLOCK_SIZE])];
        assert_eq!(feed(&mut machine, &agreed.concat()).1, Step::More);
        assert_eq!(feed(&mut machine, &option_bytes(option::STARTTLS, &[9])).0, [reply::INVALID]);
        assert_eq!(feed(&mut machine, &option_bytes(option::STARTTLS, &[])).1, Step::StartTls);
        assert_eq!(feed(&mut machine, &option_bytes(option::STARTTLS, &[])).0, [reply::INVALID], "once");
        let (_, step) = feed(&mut machine, &go(b"b", &[]));
        let terms = Terms { export: 1, structured: false, told: false, allocation: false };
        assert_eq!(step, Step::Transmission(terms));
        let unsupported = feed(&mut greeted(Tls::Off), &option_bytes(option::STARTTLS, &[]));
        assert_eq!(unsupported, (vec![reply::UNSUPPORTED], Step::More));
    }

    #[test]
    fn chunks_are_spoken_of_only_where_they_were_agreed_on() {
        for structured in [false, true] {
            let mut input = 3_u32.to_be_bytes().to_vec();
            if structured {
                input.extend(option_bytes(option::STRUCTURED_REPLY, &[]));
            }
            input.extend(option_bytes(option::EXPORT_NAME, b"a"));
            let (out, _) = run(&input);
            let flags = u16::from_be_bytes([out[out.len() - 2], out[out.len() - 1]]);
            assert_eq!(flags & export::SEND_DF != 0, structured);
            assert_eq!(flags & export::HAS_FLAGS, export::HAS_FLAGS);
        }
    }

    /// The data of an option about contexts.
    fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let count = (queries.len() as u32).to_be_bytes().to_vec();
        [text(name), count, queries.iter().flat_map(|query| text(query)).collect()].concat()
    }

    #[test]
    fn a_context_holds_for_the_export_it_was_chosen_for_and_only_with_structured_replies() {
        let structured = option_bytes(option::STRUCTURED_REPLY, &[]);
        let set = |name, all: &[&str]| option_bytes(option::SET_META_CONTEXT, &queries(name, all));
        let list = |all: &[&str]| option_bytes(option::LIST_META_CONTEXT, &queries("b", all));
        let (context, ack) = (reply::META_CONTEXT, reply::ACK);
        let mut machine = greeted(Tls::Off);
        let mut says = |option: &[u8], answered: &[u32]| assert_eq!(feed(&mut machine, option).0, answered);
        says(&set("b", &["base:allocation"]), &[reply::INVALID]);
        says(&structured, &[ack]);
        says(&list(&[]), &[context, ack]);
        says(&list(&["base:"]), &[context, ack]);
        says(&list(&["qemu:dirty-bitmap:x"]), &[ack]);
        says(&set("b", &["base:"]), &[ack]);
        says(&set("c", &["base:allocation"]), &[reply::UNKNOWN]);
        says(&set("b", &["x", "base:allocation", "base:allocation"]), &[context, ack]);
        let chosen = |machine: &Handshake, name: &[u8]| match feed(&mut machine.clone(), &go(name, &[])).1 {
            Step::Transmission(terms) => terms.allocation,
            other => panic!("{other:?}"),
        };
        assert!(chosen(&machine, b"b") && !chosen(&machine, b"a"), "of this export alone");
        let mut forgets = machine.clone();
        assert_eq!(feed(&mut forgets, &set("c", &["base:allocation"])).0, [reply::UNKNOWN]);
        assert!(!chosen(&forgets, b"b"), "what was chosen before is forgotten");
    }

    #[test]
    fn lengths_within_a_context_option_are_checked_against_the_option() {
        let good = queries("b", &["base:allocation"]);
        for at in [0, 5, 9] {
            for number in [1, 16, 4096, 1 << 31, u32::MAX] {
                let mut data = good.clone();
                data[at..at + 4].copy_from_slice(&u32::to_be_bytes(number));
                let mut machine = greeted(Tls::Off);
                feed(&mut machine, &option_bytes(option::STRUCTURED_REPLY, &[]));
                let answered = feed(&mut machine, &option_bytes(option::SET_META_CONTEXT, &data)).0;
                let wrong = data != good;
                assert_eq!(answered.last() == Some(&reply::ACK), !wrong, "{number} at {at}: {answered:?}");
            }
        }
    }

    #[test]
    fn unknown_client_flags_end_the_session() {
        assert_eq!(run(&7_u32.to_be_bytes()).1, Step::Close);
    }

    #[test]
    fn lengths_at_every_boundary_are_answered_or_wait_and_never_panic() {
        for number in 0..16 {
            for length in [0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 1 << 31, u32::MAX - 1, u32::MAX] {
                let mut input = 1_u32.to_be_bytes().to_vec();
                input.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
                input.extend_from_slice(&u32::to_be_bytes(number));
                input.extend_from_slice(&u32::to_be_bytes(length));
                input.extend(std::iter::repeat_n(0xff, (length as usize).min(9000)));
                let (out, step) = run(&input);
                assert!(out.len() < 4096, "an answer stays short: option {number}, length {length}");
                if number == option::EXPORT_NAME && length > 0 {
                    assert_eq!(step, Step::Close);
                }
            }
        }
    }

    #[test]
    fn name_lengths_within_go_are_checked_against_the_option() {
        for name_length in [1, 4095, 4096, 4097, 1 << 31, u32::MAX] {
            let mut data = u32::to_be_bytes(name_length).to_vec();
            data.extend_from_slice(&[0, 0]);
            let mut input = 1_u32.to_be_bytes().to_vec();
            input.extend(option_bytes(option::GO, &data));
            let (out, _) = run(&input);
            assert_eq!(kinds(&out), [reply::INVALID], "name of {name_length}");
        }
    }

    #[test]
    fn a_refused_option_is_passed_over_and_the_session_goes_on() {
        let mut input = 1_u32.to_be_bytes().to_vec();
        input.extend(option_bytes(9, &vec![0; OPTION_BYTES_MAX + 1]));
        input.extend(go(b"", &[]));
        let (out, step) = run(&input);
        assert!(matches!(step, Step::Transmission(_)));
        assert_eq!(kinds(&out), [reply::TOO_BIG, reply::INFO, reply::ACK]);
    }

    #[test]
    fn a_session_cut_at_every_byte_waits_for_more() {
        let mut input = 1_u32.to_be_bytes().to_vec();
        input.extend(option_bytes(option::LIST, &[]));
        input.extend(go(b"a", &[info::NAME]));
        for cut in 0..input.len() {
            assert_eq!(run(&input[..cut]).1, Step::More, "cut at {cut}");
        }
    }

    #[test]
    fn endless_options_end_the_session() {
        let mut input = 1_u32.to_be_bytes().to_vec();
        for _ in 0..=OPTIONS_MAX {
            input.extend(option_bytes(option::LIST, &[]));
        }
        assert_eq!(run(&input).1, Step::Close);
    }
}
