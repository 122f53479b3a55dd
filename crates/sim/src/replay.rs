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

use crate::workload::{PROCESS_SHIFT, Request, Source};
use forerun_core::access::{Context, Op};
use forerun_core::size::about_size;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use forerun_core::words::{did_you_mean, nearest};
use forerun_trace::record::{Name, Record, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::str::FromStr;

/// Most requests that `closed:N` keeps outstanding: each takes a place in the event queue.
pub const OUTSTANDING_MAX: u64 = 1 << 20;
/// Overlap that is taken for none: times and durations of many formats are microseconds, each rounded by itself.
const TICKS: Nanos = Nanos::from_micros(2);

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
    /// Devices and files that 64 bits cannot address once they are laid end to end.
    #[error(
        "the trace's devices and files, laid end to end, span more than 64-bit addresses: use only:DEVICE"
    )]
    Span,
    /// A request that ends where 64 bits cannot address.
    #[error("record {record}: offset and length run past the end of a 64-bit address")]
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

/// One recorded request at its place on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    time: Option<Nanos>,
    took: Option<Nanos>,
    process: Name,
    context: Context,
    op: Op,
    offset: u64,
    bytes: u64,
    /// A write that goes on where its file ends.
    appends: bool,
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
    placed: Vec<Placed>,
}

/// A request with its recorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRequest {
    /// When it is issued, from the start of the replay.
    pub at: Nanos,
    /// The request; its think time is zero.
    pub request: Request,
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
    Timed(Vec<TimedRequest>),
}

/// Lays `trace` onto volumes of `capacity` bytes: one volume, or one per device with [`Map::OneArrayEach`].
///
/// # Errors
/// [`ReplayError`] when a device is unknown or a volume too small.
pub fn map_trace(trace: &Trace, map: &Map, capacity: u64, fit: Fit) -> Result<Vec<Mapped>, ReplayError> {
    let mut devices: Vec<Name> = Vec::new();
    let mut seen = BTreeMap::new();
    for record in &trace.records {
        seen.entry(record.device).or_insert_with(|| devices.push(record.device));
    }
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
#[derive(Default)]
struct Layout {
    /// Number, in order of appearance.
    numbers: BTreeMap<(Name, Name), usize>,
    /// Bytes, then first byte.
    starts: Vec<u64>,
    /// End of the last in address order, where its size is known.
    end: Option<u64>,
}

impl Layout {
    /// Measures every device, or every file of it; then lays them in the order of devices and of appearance.
    ///
    /// A file of known size takes all of it, also where nothing asks for its end.
    fn of<'a>(
        records: impl Iterator<Item = (usize, &'a Record)>,
        sizes: &BTreeMap<(Name, Name), u64>,
    ) -> Result<(Self, u64), ReplayError> {
        let mut layout = Self::default();
        let mut order: Vec<(usize, usize)> = Vec::new();
        let mut known: Vec<bool> = Vec::new();
        let mut devices: BTreeMap<Name, usize> = BTreeMap::new();
        for (number, record) in records {
            let too_far = || ReplayError::Address { record: number + 1 };
            let end = record.offset.checked_add(record.bytes).ok_or_else(too_far)?;
            let end = end.checked_next_multiple_of(BLOCK_BYTES).ok_or_else(too_far)?;
            let next = devices.len();
            let device = *devices.entry(record.device).or_insert(next);
            let object = *layout.numbers.entry((record.device, record.file)).or_insert_with(|| {
                order.push((device, order.len()));
                let size = sizes.get(&(record.device, record.file)).copied();
                layout.starts.push(size.unwrap_or(0).div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES));
                known.push(size.is_some());
                layout.starts.len() - 1
            });
            layout.starts[object] = layout.starts[object].max(end);
        }
        order.sort_unstable();
        let mut at = 0_u64;
        for (_, object) in order {
            let bytes = std::mem::replace(&mut layout.starts[object], at);
            at = at.checked_add(bytes).ok_or(ReplayError::Span)?;
            layout.end = known[object].then_some(at);
        }
        Ok((layout, at))
    }
}

/// The requests of `only`, or of all devices, on one volume.
fn place(
    trace: &Trace,
    device: String,
    only: Option<Name>,
    capacity: u64,
    fit: Fit,
) -> Result<Mapped, ReplayError> {
    let records = || trace.records.iter().enumerate().filter(|(_, r)| only.is_none_or(|d| r.device == d));
    let (layout, footprint) = Layout::of(records(), &trace.file_sizes)?;
    let too_small = ReplayError::Footprint { footprint, capacity };
    if footprint > capacity && fit == Fit::Refuse {
        return Err(too_small);
    }
    let mut files = layout.starts.clone();
    files.sort_unstable();
    let files_end = layout.end.filter(|_| footprint <= capacity);
    let mut mapped =
        Mapped { device, footprint_bytes: footprint, empty: 0, files, files_end, placed: Vec::new() };
    let room = capacity / BLOCK_BYTES * BLOCK_BYTES;
    let mut ends = Ends::default();
    for (_, record) in records() {
        if record.bytes == 0 {
            mapped.empty += 1;
            continue;
        }
        let object = layout.numbers[&(record.device, record.file)];
        let mut offset = layout.starts[object] + record.offset;
        if footprint > capacity {
            offset = if room == 0 { 0 } else { offset % room };
            if record.bytes > room - offset {
                offset %= BLOCK_BYTES;
            }
            if record.bytes > room.saturating_sub(offset) {
                return Err(too_small);
            }
        }
        mapped.placed.push(Placed {
            time: record.time,
            took: record.took,
            process: record.process,
            context: Context((u64::from(record.process.0) << PROCESS_SHIFT) + object as u64),
            op: record.op,
            offset,
            bytes: record.bytes,
            appends: ends.appends(object, record),
        });
    }
    Ok(mapped)
}

/// Where the files of a trace end, as far as its requests have shown.
#[derive(Default)]
struct Ends(Vec<u64>);

impl Ends {
    /// Whether a request is a write that goes on where its file ends so far; a file that nothing was asked of ends at its
    /// beginning. A device has no end.
    fn appends(&mut self, object: usize, record: &Record) -> bool {
        if self.0.len() <= object {
            self.0.resize(object + 1, 0);
        }
        let end = &mut self.0[object];
        let goes_on = record.op == Op::Write && record.offset == *end && record.file != Name(0);
        *end = (*end).max(record.offset.saturating_add(record.bytes));
        goes_on
    }
}

impl Placed {
    /// As a request after `think`, with `overlap` earlier ones of its process under way.
    const fn request(&self, think: Nanos, overlap: u64) -> Request {
        Request {
            think,
            context: self.context,
            op: self.op,
            offset: self.offset,
            bytes: self.bytes,
            due: Nanos::ZERO,
            deadline: None,
            overlap,
            appends: self.appends,
        }
    }
}

impl Mapped {
    /// How many requests one replay makes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.placed.len() as u64
    }

    /// What drives `repeat` replays, one after the other, in `mode`. A paced process starts at its recorded time
    /// and repeats without a pause; an open replay repeats a nanosecond after its last request.
    ///
    /// # Errors
    /// [`ReplayError::NoTime`] when the mode needs times that the trace does not have.
    pub fn drive(&self, mode: Mode, repeat: u64) -> Result<Drive, ReplayError> {
        match mode {
            Mode::Open => Ok(Drive::Timed(self.timed(repeat)?)),
            Mode::Closed { outstanding } => {
                Ok(Drive::Sources { sources: self.by_process(None, repeat), outstanding })
            }
            Mode::Paced => {
                let times = self.times(mode)?;
                Ok(Drive::Sources { sources: self.by_process(Some(&times), repeat), outstanding: 1 })
            }
        }
    }

    /// The time of every request, from the earliest one.
    fn times(&self, mode: Mode) -> Result<Vec<Nanos>, ReplayError> {
        let times = self
            .placed
            .iter()
            .enumerate()
            .map(|(i, placed)| placed.time.ok_or(ReplayError::NoTime { mode, record: i + 1 }));
        let mut times = times.collect::<Result<Vec<Nanos>, _>>()?;
        let start = times.iter().copied().min().unwrap_or(Nanos::ZERO);
        times.iter_mut().for_each(|time| *time = time.since(start));
        Ok(times)
    }

    fn timed(&self, repeat: u64) -> Result<Vec<TimedRequest>, ReplayError> {
        let times = self.times(Mode::Open)?;
        let span = times.iter().copied().max().unwrap_or(Nanos::ZERO) + Nanos(1);
        let mut order: Vec<usize> = (0..times.len()).collect();
        order.sort_by_key(|&i| times[i]);
        let replay = |k: u64| {
            let start = Nanos(span.0.saturating_mul(k));
            let (placed, times) = (&self.placed, &times);
            order.iter().map(move |&i| TimedRequest {
                at: start + times[i],
                request: placed[i].request(Nanos::ZERO, 0),
            })
        };
        Ok((0..repeat).flat_map(replay).collect())
    }

    /// One source per process, in order of appearance. With times a process thinks from one to the next.
    fn by_process(&self, times: Option<&[Nanos]>, repeat: u64) -> Vec<Box<dyn Source>> {
        let mut numbers: BTreeMap<Name, usize> = BTreeMap::new();
        let mut lists: Vec<(Vec<Request>, Pace)> = Vec::new();
        for (i, placed) in self.placed.iter().enumerate() {
            let number = *numbers.entry(placed.process).or_insert_with(|| {
                lists.push((Vec::new(), Pace::default()));
                lists.len() - 1
            });
            let (list, pace) = &mut lists[number];
            let (think, overlap) = times.map_or((Nanos::ZERO, 0), |times| pace.next(times[i], placed.took));
            list.push(placed.request(think, overlap));
        }
        let source =
            |(requests, _)| Box::new(Recorded { requests, at: 0, repeats: repeat }) as Box<dyn Source>;
        lists.into_iter().map(source).collect()
    }
}

/// A process as it was recorded: what it was waiting for, and since when it was not.
#[derive(Default)]
struct Pace {
    /// When its latest request was issued.
    issued: Nanos,
    /// Answers that had not come then, earliest first; as many as it had requests outstanding.
    waiting: BinaryHeap<Reverse<Nanos>>,
    /// Its last answer before that, or the start.
    answered: Nanos,
}

impl Pace {
    /// Its next request, issued at `now` and answered after `took`: how long it computed before, and how many earlier
    /// requests were without an answer. A request whose `took` nobody knows is taken as answered at once.
    fn next(&mut self, now: Nanos, took: Option<Nanos>) -> (Nanos, u64) {
        self.issued = self.issued.max(now);
        while let Some(&Reverse(answer)) = self.waiting.peek()
            && answer <= self.issued + TICKS
        {
            self.waiting.pop();
            self.answered = self.answered.max(answer);
        }
        let of_this = (self.issued.since(self.answered), self.waiting.len() as u64);
        self.waiting.push(Reverse(self.issued + took.unwrap_or(Nanos::ZERO)));
        of_this
    }
}

/// The recorded requests of one process.
struct Recorded {
    requests: Vec<Request>,
    at: usize,
    /// Replays left, with the one under way; the first of a later replay follows at once.
    repeats: u64,
}

impl Source for Recorded {
    fn next(&mut self) -> Option<Request> {
        if self.repeats == 0 {
            return None;
        }
        let request = self.requests[self.at];
        self.at += 1;
        if self.at == self.requests.len() {
            self.at = 0;
            self.repeats -= 1;
            self.requests[0].think = Nanos::ZERO; // Its overlap is zero: nothing was before it.
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

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
        map_trace(trace, &Map::Concat, 1 << 40, Fit::Refuse).expect("fits").remove(0)
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
        let offsets: Vec<u64> = mapped.placed.iter().map(|p| p.offset).collect();
        assert_eq!(offsets, [0, 12288 + 8192, 4096 + 4096]);
        assert_eq!(mapped.footprint_bytes, 12288 + 12288);
    }

    #[test]
    fn one_array_each_and_only_keep_devices_apart() {
        let t = trace(&[(None, 1, 0, 0, 0, 4096), (None, 2, 0, 0, 8192, 4096)]);
        let each = map_trace(&t, &Map::OneArrayEach, 1 << 20, Fit::Refuse).expect("fits");
        assert_eq!(each.iter().map(|m| &*m.device).collect::<Vec<_>>(), ["a", "b"]);
        let only = map_trace(&t, &Map::Only("b".into()), 1 << 20, Fit::Refuse).expect("there");
        assert_eq!((only[0].requests(), only[0].placed[0].offset), (1, 8192));
        let told =
            map_trace(&t, &Map::Only("c".into()), 1 << 20, Fit::Refuse).expect_err("absent").to_string();
        assert!(told.contains("a, b"), "{told}");
    }

    #[test]
    fn a_write_that_goes_on_where_its_file_ends_appends_and_one_of_a_device_does_not() {
        let mut t = Trace { names: vec![String::new(), "log".into()], ..Trace::default() };
        let of = |file: u32, op: Op, offset: u64, bytes: u64| Record {
            file: Name(file),
            op,
            offset,
            bytes,
            ..Record::BLANK
        };
        t.records = vec![
            of(1, Op::Write, 0, 1000),
            of(1, Op::Write, 1000, 500),
            of(1, Op::Write, 200, 100),
            of(1, Op::Read, 0, 8000),
            of(1, Op::Write, 1500, 100),
            of(1, Op::Write, 8000, 100),
            of(0, Op::Write, 0, 1000),
        ];
        let mapped = map_trace(&t, &Map::Concat, 1 << 20, Fit::Refuse).expect("fits");
        let appends: Vec<bool> = mapped[0].placed.iter().map(|placed| placed.appends).collect();
        assert_eq!(appends, [true, true, false, false, false, true, false]);
    }

    #[test]
    fn a_footprint_beyond_capacity_is_refused_with_both_sizes_or_wrapped() {
        let t = trace(&[(None, 1, 0, 0, 1 << 30, 8192), (None, 1, 0, 0, (1 << 20) - 4096, 8192)]);
        let told = map_trace(&t, &Map::Concat, 1 << 20, Fit::Refuse).expect_err("too small").to_string();
        assert!(told.contains("1MiB") && told.contains("1.0GiB"), "{told}");
        let wrapped = map_trace(&t, &Map::Concat, 1 << 20, Fit::Modulo).expect("wrapped");
        assert!(wrapped[0].placed.iter().all(|p| p.offset == 0));
        assert!(map_trace(&t, &Map::Concat, 4096, Fit::Modulo).is_err(), "one request is larger");
        assert!(map_trace(&t, &Map::Concat, 0, Fit::Modulo).is_err());
    }

    #[test]
    fn an_address_past_64_bits_is_an_error() {
        let t = trace(&[(None, 1, 0, 0, u64::MAX - 10, 4096)]);
        assert_eq!(map_trace(&t, &Map::Concat, 1, Fit::Refuse), Err(ReplayError::Address { record: 1 }));
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
