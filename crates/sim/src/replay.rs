//! Replay: a recorded trace turned into requests against one volume, in one of three modes.
//!
//! First the trace is *mapped*: its devices, and within a device its files, are laid end to end on the volume in
//! the order in which they first appear, each as large as the farthest byte asked of it (whole blocks). Then a
//! [`Mode`] says what drives it. `open` keeps the recorded times, whatever the storage does. `closed:N` keeps N
//! requests outstanding for each process of the trace, or N in all where it names none, and ignores the times.
//! `paced` lets each process wait for its previous request and then compute as long as it did when it was
//! recorded: from the answer to the next request where the trace says how long a request took, as AccuSim does (Butt,
//! Gniady and Hu, SIGMETRICS 2005). AccuSim's processes have one request outstanding. A client of a server or a process
//! of several threads had more, and keeps them: a request that was recorded while K earlier ones of its process were
//! without an answer is issued as soon as no more than K are, and after the time that passed between the answer that
//! left K and the request; requests keep their order. With K = 0 that is AccuSim's rule. Where the trace has issue times
//! only, nothing is known to overlap, and computing is taken as the whole time from one issue
//! to the next: an upper approximation, too long by the recorded response time. A process starts when it was recorded
//! to. The event loop is not here; it pulls from what [`Mapped::drive`] returns.

use crate::advised::Advised;
use crate::placed::{Ends, List, Placing, Recorded};
pub use crate::placed::{Timed, TimedRequest};
use crate::workload::Source;
use forerun_core::access::Advice;
use forerun_core::size::about_size;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use forerun_core::words::{did_you_mean, nearest};
use forerun_trace::kept::Kept;
use forerun_trace::record::Name;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most requests that `closed:N` keeps outstanding: each takes a place in the event queue.
pub const OUTSTANDING_MAX: u64 = 1 << 20;
/// Words of modes and maps, as they are meant when one is misspelt.
const MODES: [&str; 3] = ["open", "closed:1", "paced"];
const MAPS: [&str; 3] = ["concat", "one-array-each", "only:"];

/// `; did you mean …?` of one of these words, or nothing.
fn near(text: &str, known: &[&str]) -> String {
    did_you_mean(nearest(text, known.iter().copied()))
}

/// Why a trace cannot be replayed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Not a mode.
    #[error(
        "`{text}` is not a replay mode: write open, closed:N (N from 1 to {OUTSTANDING_MAX}) or paced{}", near(text, &MODES)
    )]
    Mode {
        /// What was written.
        text: String,
    },
    /// Not a way to lay devices.
    #[error("`{text}` is not a map: write concat, one-array-each or only:DEVICE{}", near(text, &MAPS))]
    Map {
        /// What was written.
        text: String,
    },
    /// Not a way to fit.
    #[error("`{text}` is not a fit: write modulo, or leave it out{}", near(text, &["modulo"]))]
    Fit {
        /// What was written.
        text: String,
    },
    /// `only:` names a device that is not in the trace.
    #[error("the trace has no device `{device}`; {known}")]
    Device {
        /// What was asked for.
        device: String,
        /// What it has.
        known: String,
    },
    /// The mode needs times.
    #[error("{mode} replay needs the time of every request, and record {record} has none; use closed:N")]
    NoTime {
        /// `open` or `paced`.
        mode: Mode,
        /// Number of the first record without a time, counted from 1 over the mapped requests.
        record: usize,
    },
    /// More bytes than the volume has.
    #[error(
        "the trace spans {} and the volume holds {}: use larger or more disks, or --fit modulo",
        about_size(*footprint), about_size(*capacity)
    )]
    Footprint {
        /// Bytes that the trace needs.
        footprint: u64,
        /// Bytes that there are.
        capacity: u64,
    },
    /// One request of more bytes than the volume has, however offsets are wrapped.
    #[error(
        "record {record}: one request of {} does not fit into the volume of {}: use larger or more disks",
        about_size(*bytes), about_size(*capacity)
    )]
    TooLong {
        /// Number of the record, counted from 1.
        record: usize,
        /// Its length.
        bytes: u64,
        /// Bytes that there are.
        capacity: u64,
    },
    /// Devices and files that 64 bits cannot address once they are laid end to end.
    #[error(
        "the trace's devices and files, laid end to end, span more than 64-bit addresses: use only:DEVICE"
    )]
    Span,
    /// A request that ends where 64 bits cannot address.
    #[error(
        "record {record}: offset and length run past the end of a 64-bit address: it is damaged, or its unit is another"
    )]
    Address {
        /// Number of the record, counted from 1.
        record: usize,
    },
}

/// What drives a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The recorded times.
    Open,
    /// The next request when one completes.
    Closed {
        /// Requests outstanding per process, or in all where the trace names no process.
        outstanding: u64,
    },
    /// The recorded computing between a completion and the next request.
    Paced,
}

impl Mode {
    /// Reads `open`, `closed:N` or `paced`.
    ///
    /// # Errors
    /// [`ReplayError::Mode`].
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        let wrong = || ReplayError::Mode { text: text.into() };
        match text {
            "open" => Ok(Self::Open),
            "paced" => Ok(Self::Paced),
            _ => {
                let number = text.strip_prefix("closed:").ok_or_else(wrong)?;
                let outstanding = number.parse().map_err(|_| wrong())?;
                let possible = (1..=OUTSTANDING_MAX).contains(&outstanding);
                if possible { Ok(Self::Closed { outstanding }) } else { Err(wrong()) }
            }
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed { outstanding } => write!(f, "closed:{outstanding}"),
            Self::Paced => f.write_str("paced"),
        }
    }
}

impl FromStr for Mode {
    type Err = ReplayError;
    fn from_str(text: &str) -> Result<Self, ReplayError> {
        Self::parse(text)
    }
}

/// How the devices of a trace are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Map {
    /// End to end on one volume.
    Concat,
    /// Each on a volume of its own.
    OneArrayEach,
    /// One of them; the others are left out.
    Only(String),
}

impl Map {
    /// Reads `concat`, `one-array-each` or `only:DEVICE`.
    ///
    /// # Errors
    /// [`ReplayError::Map`].
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        match (text, text.strip_prefix("only:")) {
            ("concat", _) => Ok(Self::Concat),
            ("one-array-each", _) => Ok(Self::OneArrayEach),
            (_, Some(device)) => Ok(Self::Only(device.into())),
            _ => Err(ReplayError::Map { text: text.into() }),
        }
    }
}

impl FromStr for Map {
    type Err = ReplayError;
    fn from_str(text: &str) -> Result<Self, ReplayError> {
        Self::parse(text)
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Concat => f.write_str("concat"),
            Self::OneArrayEach => f.write_str("one-array-each"),
            Self::Only(device) => write!(f, "only:{device}"),
        }
    }
}

/// What to do with a trace that spans more than the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Fail, and name both sizes.
    #[default]
    Refuse,
    /// Take offsets modulo the volume's size; a request that would cross the end starts in its first block.
    Modulo,
}

impl Fit {
    /// Reads `modulo`, or the empty text for [`Fit::Refuse`].
    ///
    /// # Errors
    /// [`ReplayError::Fit`].
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        match text {
            "" => Ok(Self::Refuse),
            "modulo" => Ok(Self::Modulo),
            _ => Err(ReplayError::Fit { text: text.into() }),
        }
    }
}

/// The requests of a trace that go to one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The device, with [`Map::OneArrayEach`] and [`Map::Only`]; empty otherwise.
    pub device: String,
    /// Bytes that the trace spans, before any fitting.
    pub footprint_bytes: u64,
    /// Requests of no bytes, which were left out.
    pub empty: u64,
    /// First byte of each device or file, ascending. Meaningless, and left as it is, where offsets were fitted.
    pub files: Vec<u64>,
    /// End of the last of them, where the trace knows its size; whole blocks.
    pub files_end: Option<u64>,
    placing: Arc<Placing>,
    /// Those of its records.
    which: List,
}

/// What an event loop pulls requests from.
pub enum Drive {
    /// One source per process; each keeps `outstanding` requests in flight.
    Sources {
        /// In the order in which the processes first appear in the trace.
        sources: Vec<Box<dyn Source>>,
        /// Requests in flight per source.
        outstanding: u64,
    },
    /// Requests at given times, ascending.
    Timed(Timed),
}

/// Lays `trace` onto volumes of `capacity` bytes: one volume, or one per device with [`Map::OneArrayEach`].
///
/// # Errors
/// [`ReplayError`] when a device is unknown or a volume too small.
pub fn map_trace(trace: &Arc<Kept>, map: &Map, capacity: u64, fit: Fit) -> Result<Vec<Mapped>, ReplayError> {
    let devices = trace.devices();
    let name = |device: Name| trace.names[device.0 as usize].clone();
    let groups: Vec<(String, Option<Name>)> = match map {
        Map::Concat => vec![(String::new(), None)],
        Map::OneArrayEach => devices.iter().map(|&device| (name(device), Some(device))).collect(),
        Map::Only(wanted) => {
            let device = devices.iter().copied().find(|&d| name(d) == *wanted).ok_or_else(|| {
                let known: Vec<String> =
                    devices.iter().map(|&d| name(d)).filter(|name| !name.is_empty()).collect();
                let known = match known.as_slice() {
                    [] => "it names none: leave --map out".into(),
                    names => {
                        let hint = did_you_mean(nearest(wanted, names.iter().map(String::as_str)));
                        format!("it has: {}{hint}", names.join(", "))
                    }
                };
                ReplayError::Device { device: wanted.clone(), known }
            })?;
            vec![(wanted.clone(), Some(device))]
        }
    };
    groups.into_iter().map(|(device, only)| place(trace, device, only, capacity, fit)).collect()
}

/// Where each device or file of a volume starts.
struct Layout {
    /// Number of each object of the trace, in order of appearance among those of the volume.
    numbers: Vec<Option<u32>>,
    /// First byte of each, by that number.
    starts: Vec<u64>,
    /// End of the last in address order, where its size is known.
    end: Option<u64>,
}

impl Layout {
    /// Measures every device, or every file of it; then lays them in the order of devices and of appearance.
    ///
    /// A file of known size takes all of it, also where nothing asks for its end.
    fn of(trace: &Kept, only: Option<Name>) -> Result<(Self, u64), ReplayError> {
        let mut bytes: Vec<u64> = Vec::with_capacity(trace.objects.len());
        let mut known: Vec<bool> = Vec::with_capacity(trace.objects.len());
        for object in &trace.objects {
            let size = trace.file_sizes.get(object).copied();
            bytes.push(size.unwrap_or(0).div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES));
            known.push(size.is_some());
        }
        let is_ours = |object: usize| only.is_none_or(|device| trace.objects[object].0 == device);
        for at in (0..trace.len()).filter(|&at| is_ours(trace.object(at))) {
            let too_far = || ReplayError::Address { record: at + 1 };
            let (offset, length) = trace.range(at);
            let end = offset.checked_add(length).ok_or_else(too_far)?;
            let end = end.checked_next_multiple_of(BLOCK_BYTES).ok_or_else(too_far)?;
            bytes[trace.object(at)] = bytes[trace.object(at)].max(end);
        }
        let ours: Vec<usize> = (0..trace.objects.len()).filter(|&object| is_ours(object)).collect();
        let mut layout =
            Self { numbers: vec![None; trace.objects.len()], starts: vec![0; ours.len()], end: None };
        for (number, &object) in ours.iter().enumerate() {
            layout.numbers[object] = u32::try_from(number).ok();
        }
        // Files of a device lie together, in the order in which they and their devices appear.
        let devices = trace.devices();
        let place = |device: Name| devices.iter().position(|&known| known == device);
        let mut order: Vec<(Option<usize>, usize)> = ours
            .iter()
            .enumerate()
            .map(|(number, &object)| (place(trace.objects[object].0), number))
            .collect();
        order.sort_unstable();
        let mut at = 0_u64;
        for (_, number) in order {
            layout.starts[number] = at;
            at = at.checked_add(bytes[ours[number]]).ok_or(ReplayError::Span)?;
            layout.end = known[ours[number]].then_some(at);
        }
        Ok((layout, at))
    }
}

/// The requests of `only`, or of all devices, on one volume.
fn place(
    trace: &Arc<Kept>,
    device: String,
    only: Option<Name>,
    capacity: u64,
    fit: Fit,
) -> Result<Mapped, ReplayError> {
    let (layout, footprint) = Layout::of(trace, only)?;
    if footprint > capacity && fit == Fit::Refuse {
        return Err(ReplayError::Footprint { footprint, capacity });
    }
    let mut files = layout.starts.clone();
    files.sort_unstable();
    let files_end = layout.end.filter(|_| footprint <= capacity);
    let room = (footprint > capacity).then_some(capacity / BLOCK_BYTES * BLOCK_BYTES);
    let mut placing = Placing::new(trace, layout.numbers, layout.starts, room);
    let (mut which, mut empty) = (List::default(), 0);
    let mut ends = Ends::default();
    for at in 0..trace.len() {
        let Some(object) = placing.object(at) else { continue };
        let bytes = trace.range(at).1;
        if bytes == 0 {
            empty += 1;
            continue;
        }
        if !placing.fits(at) {
            return Err(ReplayError::TooLong { record: at + 1, bytes, capacity });
        }
        ends.note(&mut placing, at, object);
        which.push(at);
    }
    let which = which.finish();
    Ok(Mapped {
        device,
        footprint_bytes: footprint,
        empty,
        files,
        files_end,
        placing: Arc::new(placing),
        which,
    })
}

impl Mapped {
    /// How many requests one replay makes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.which.len() as u64
    }

    /// What is said of each of its files, by number; nothing where no rule is for any.
    #[must_use]
    pub fn advice(&self, advised: &Advised) -> Vec<Advice> {
        if advised.is_empty() { Vec::new() } else { self.placing.each_name(|name| advised.of(name)) }
    }

    /// What drives `repeat` replays, one after the other, in `mode`. A paced process starts at its recorded time
    /// and repeats without a pause; an open replay repeats a nanosecond after its last request.
    ///
    /// # Errors
    /// [`ReplayError::NoTime`] when the mode needs times that the trace does not have.
    pub fn drive(&self, mode: Mode, repeat: u64) -> Result<Drive, ReplayError> {
        Ok(match mode {
            Mode::Open => Drive::Timed(Timed::new(&self.placing, &self.which, self.start(mode)?, repeat)),
            Mode::Closed { outstanding } => {
                Drive::Sources { sources: self.by_process(None, repeat), outstanding }
            }
            Mode::Paced => {
                Drive::Sources { sources: self.by_process(Some(self.start(mode)?), repeat), outstanding: 1 }
            }
        })
    }

    /// The time of the earliest request; all of them have one.
    fn start(&self, mode: Mode) -> Result<Nanos, ReplayError> {
        let mut start = None;
        for (place, number) in self.which.iter().enumerate() {
            let time = self.placing.time(number).ok_or(ReplayError::NoTime { mode, record: place + 1 })?;
            start = Some(start.map_or(time, |start: Nanos| start.min(time)));
        }
        Ok(start.unwrap_or(Nanos::ZERO))
    }

    /// One source per process, in order of appearance. With the time of the start a process thinks from one to the next.
    fn by_process(&self, start: Option<Nanos>, repeat: u64) -> Vec<Box<dyn Source>> {
        let lists = self.placing.by_process(&self.which);
        let source = |list| Box::new(Recorded::new(&self.placing, list, start, repeat)) as Box<dyn Source>;
        lists.into_iter().map(source).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Request, Workload};
    use forerun_core::access::Op;
    use forerun_trace::record::{Record, Trace};
    use std::cmp::Reverse;

    type Row = (Option<u64>, u32, u32, u32, u64, u64);

    /// A trace of (time in ns, device, process, file, offset, bytes); names are 1 = `a`, 2 = `b`.
    fn trace(rows: &[Row]) -> Trace {
        let record =
            |&(time, device, process, file, offset, bytes): &(Option<u64>, u32, u32, u32, u64, u64)| Record {
                time: time.map(Nanos),
                took: None,
                device: Name(device),
                process: Name(process),
                file: Name(file),
                offset,
                bytes,
                op: Op::Read,
            };
        Trace {
            names: vec![String::new(), "a".into(), "b".into()],
            records: rows.iter().map(record).collect(),
            format: "test".into(),
            ..Trace::default()
        }
    }

    fn one(trace: &Trace) -> Mapped {
        mapped(trace, &Map::Concat, 1 << 40, Fit::Refuse).expect("fits").remove(0)
    }

    fn mapped(trace: &Trace, map: &Map, capacity: u64, fit: Fit) -> Result<Vec<Mapped>, ReplayError> {
        map_trace(&Arc::new(Kept::of(trace)), map, capacity, fit)
    }

    /// Its requests in the order of the trace.
    fn placed(mapped: &Mapped) -> Vec<Request> {
        mapped.which.iter().map(|at| mapped.placing.request(at, Nanos::ZERO, 0)).collect()
    }

    fn pull(drive: Drive) -> (Vec<Vec<Request>>, u64) {
        let Drive::Sources { mut sources, outstanding } = drive else { panic!("not timed") };
        let all = |s: &mut Box<dyn Source>| std::iter::from_fn(|| s.next()).collect();
        (sources.iter_mut().map(all).collect(), outstanding)
    }

    #[test]
    fn modes_maps_and_fits_are_read_as_they_are_printed() {
        for text in ["open", "closed:1", "closed:64", "paced"] {
            assert_eq!(Mode::parse(text).expect(text).to_string(), text);
        }
        for text in ["concat", "one-array-each", "only:a"] {
            assert_eq!(Map::parse(text).expect(text).to_string(), text);
        }
        for text in ["closed", "closed:0", "closed:x", "fast", ""] {
            assert!(Mode::parse(text).expect_err(text).to_string().contains("closed:N"));
        }
        assert!(Map::parse("x").is_err() && Fit::parse("x").is_err());
        assert_eq!(Fit::parse("modulo"), Ok(Fit::Modulo));
    }

    #[test]
    fn devices_lie_end_to_end_with_their_files_together() {
        let t = trace(&[(None, 1, 0, 1, 0, 100), (None, 2, 0, 0, 8192, 4096), (None, 1, 0, 2, 4096, 1)]);
        let mapped = one(&t);
        let offsets: Vec<u64> = placed(&mapped).iter().map(|p| p.offset).collect();
        assert_eq!(offsets, [0, 12288 + 8192, 4096 + 4096]);
        assert_eq!(mapped.footprint_bytes, 12288 + 12288);
    }

    #[test]
    fn one_array_each_and_only_keep_devices_apart() {
        let t = trace(&[(None, 1, 0, 0, 0, 4096), (None, 2, 0, 0, 8192, 4096)]);
        let each = mapped(&t, &Map::OneArrayEach, 1 << 20, Fit::Refuse).expect("fits");
        assert_eq!(each.iter().map(|m| &*m.device).collect::<Vec<_>>(), ["a", "b"]);
        let only = mapped(&t, &Map::Only("b".into()), 1 << 20, Fit::Refuse).expect("there");
        assert_eq!((only[0].requests(), placed(&only[0])[0].offset), (1, 8192));
        let told = mapped(&t, &Map::Only("c".into()), 1 << 20, Fit::Refuse).expect_err("absent").to_string();
        assert!(told.contains("a, b"), "{told}");
    }

    /// Of requests of files (file, operation, offset, bytes), which append and which are to blocks that hold nothing.
    fn ends(requests: &[(u32, Op, u64, u64)], sizes: &[(u32, u64)]) -> Vec<(bool, bool)> {
        let mut t = Trace { names: ["", "log", "db"].map(String::from).into(), ..Trace::default() };
        t.records = requests
            .iter()
            .map(|&(file, op, offset, bytes)| Record { file: Name(file), op, offset, bytes, ..Record::BLANK })
            .collect();
        sizes.iter().for_each(|&(file, bytes)| t.know_size(Name(0), Name(file), bytes));
        placed(&one(&t)).iter().map(|request| (request.appends, request.fresh)).collect()
    }

    #[test]
    fn a_write_that_goes_on_where_its_file_ends_appends_and_one_of_a_device_does_not() {
        let found = ends(
            &[
                (1, Op::Write, 0, 1000),
                (1, Op::Write, 1000, 500),
                (1, Op::Write, 200, 100),
                (1, Op::Read, 0, 8000),
                (1, Op::Write, 1500, 100),
                (1, Op::Write, 8000, 100),
                (0, Op::Write, 0, 1000),
            ],
            &[],
        );
        let appends: Vec<bool> = found.iter().map(|&(appends, _)| appends).collect();
        assert_eq!(appends, [true, true, false, false, false, true, false]);
        assert_eq!(
            found.iter().filter(|(_, fresh)| *fresh).count(),
            1,
            "the first: all else lies in its block"
        );
    }

    #[test]
    fn a_file_that_was_made_in_the_trace_holds_nothing_behind_what_was_asked_of_it() {
        // Over the end, behind it in its block, behind it in another, in a hole that was left.
        let found = ends(
            &[
                (1, Op::Write, 0, 1000),
                (1, Op::Write, 900, 200),
                (1, Op::Write, 2000, 100),
                (1, Op::Write, 9000, 100),
                (1, Op::Write, 5000, 100),
            ],
            &[],
        );
        assert_eq!(found, [(true, true), (true, false), (true, false), (true, true), (false, false)]);
        // One that was there before may have been longer.
        let found = ends(&[(1, Op::Read, 0, 1000), (1, Op::Write, 900, 200), (1, Op::Write, 9000, 100)], &[]);
        assert_eq!(found, [(false, false); 3]);
    }

    #[test]
    fn a_file_whose_size_was_recorded_holds_nothing_behind_that() {
        let requests = [(1, Op::Read, 0, 500), (2, Op::Write, 9000, 100), (2, Op::Write, 9900, 100)];
        assert_eq!(ends(&requests, &[(2, 10_000)]), [(false, false), (false, false), (true, false)]);
        assert_eq!(ends(&requests, &[(2, 8192)])[1..], [(true, true), (true, false)]);
        assert_eq!(ends(&requests, &[]), [(false, false); 3]);
    }

    #[test]
    fn a_footprint_beyond_capacity_is_refused_with_both_sizes_or_wrapped() {
        let t = trace(&[(None, 1, 0, 0, 1 << 30, 8192), (None, 1, 0, 0, (1 << 20) - 4096, 8192)]);
        let told = mapped(&t, &Map::Concat, 1 << 20, Fit::Refuse).expect_err("too small").to_string();
        assert!(told.contains("1MiB") && told.contains("1.0GiB"), "{told}");
        let wrapped = mapped(&t, &Map::Concat, 1 << 20, Fit::Modulo).expect("wrapped");
        assert!(placed(&wrapped[0]).iter().all(|p| p.offset == 0));
        let told =
            mapped(&t, &Map::Concat, 4096, Fit::Modulo).expect_err("one request is larger").to_string();
        assert!(told.starts_with("record 1: one request of 8KiB") && !told.contains("--fit"), "{told}");
        assert!(mapped(&t, &Map::Concat, 0, Fit::Modulo).is_err());
    }

    #[test]
    fn an_address_past_64_bits_is_an_error() {
        let t = trace(&[(None, 1, 0, 0, u64::MAX - 10, 4096)]);
        assert_eq!(mapped(&t, &Map::Concat, 1, Fit::Refuse), Err(ReplayError::Address { record: 1 }));
    }

    #[test]
    fn closed_replay_keeps_n_per_process_or_n_in_all() {
        let with = one(&trace(&[(None, 1, 1, 0, 0, 1), (None, 1, 2, 0, 1, 1), (None, 1, 1, 0, 2, 1)]));
        let (lists, outstanding) =
            pull(with.drive(Mode::Closed { outstanding: 4 }, 2).expect("no times needed"));
        assert_eq!((lists.iter().map(Vec::len).collect::<Vec<_>>(), outstanding), (vec![4, 2], 4));
        let without = one(&trace(&[(None, 1, 0, 0, 0, 1), (None, 2, 0, 0, 1, 1)]));
        assert_eq!(pull(without.drive(Mode::Closed { outstanding: 4 }, 1).expect("closed")).0.len(), 1);
    }

    #[test]
    fn paced_replay_thinks_from_one_issue_to_the_next_per_process() {
        let t = trace(&[(Some(100), 1, 1, 0, 0, 1), (Some(130), 1, 2, 0, 1, 1), (Some(150), 1, 1, 0, 2, 1)]);
        let (lists, outstanding) = pull(one(&t).drive(Mode::Paced, 2).expect("timed"));
        let thinks = |list: &[Request]| list.iter().map(|r| r.think.0).collect::<Vec<_>>();
        assert_eq!((thinks(&lists[0]), thinks(&lists[1])), (vec![0, 50, 0, 50], vec![30, 0]));
        assert_eq!(outstanding, 1);
    }

    #[test]
    fn paced_replay_keeps_as_many_requests_outstanding_as_were_recorded() {
        // (issue, took) in us: two at once, one more beside the slower, then alone, then touching by a tick.
        let rows = [(0, 30), (0, 100), (35, 10), (150, 50), (199, 10)];
        let mut t = trace(&rows.map(|(at, _)| (Some(at * 1_000), 1, 1, 0, at, 1)));
        for (record, (_, took)) in t.records.iter_mut().zip(rows) {
            record.took = Some(Nanos::from_micros(took));
        }
        let (lists, outstanding) = pull(one(&t).drive(Mode::Paced, 1).expect("timed"));
        let paces: Vec<(u64, u64)> = lists[0].iter().map(|r| (r.think.0 / 1_000, r.overlap)).collect();
        assert_eq!(paces, [(0, 0), (0, 1), (5, 1), (50, 0), (0, 0)]);
        assert_eq!(outstanding, 1);
        let (lists, _) = pull(one(&t).drive(Mode::Closed { outstanding: 1 }, 1).expect("closed"));
        assert!(lists[0].iter().all(|r| r.overlap == 0), "a closed replay ignores the times");
    }

    #[test]
    fn open_replay_is_sorted_from_zero_and_needs_times() {
        let t = trace(&[(Some(150), 1, 1, 0, 0, 1), (Some(100), 1, 2, 0, 1, 1)]);
        let Drive::Timed(timed) = one(&t).drive(Mode::Open, 2).expect("timed") else {
            panic!("open is timed")
        };
        assert_eq!(timed.iter().map(|r| r.at.0).collect::<Vec<_>>(), [0, 50, 51, 101]);
        let t = trace(&[(Some(150), 1, 1, 0, 0, 1), (None, 1, 2, 0, 1, 1)]);
        let told = one(&t).drive(Mode::Open, 1).err().expect("a time is missing").to_string();
        assert!(told.contains("record 2") && told.contains("closed:N"), "{told}");
    }

    #[test]
    fn a_request_of_no_bytes_is_counted_and_left_out() {
        let mapped = one(&trace(&[(None, 1, 0, 0, 0, 0), (None, 1, 0, 0, 0, 1)]));
        assert_eq!((mapped.empty, mapped.requests()), (1, 1));
    }

    #[test]
    fn a_workload_written_as_a_trace_replays_the_same_requests() {
        let w = Workload::parse("reverse:processes=3,size=96KiB").expect("a shape");
        let (lists, _) = pull(one(&w.to_trace(1)).drive(Mode::Closed { outstanding: 1 }, 1).expect("closed"));
        let sizes: Vec<usize> = lists.iter().map(Vec::len).collect();
        assert_eq!(sizes, [8, 8, 8]);
        assert!(lists.iter().all(|list| list.is_sorted_by_key(|r| Reverse(r.offset))));
    }
}
