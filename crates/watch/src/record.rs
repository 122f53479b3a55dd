//! Records real block reads and writes as a trace.
//!
//! What is recorded is what programs and file systems hand to a block device, below the page cache: a read that
//! the cache answers is not there. Three sources: everything that reaches a device; what one command and its
//! children ask of all devices; or everything that reaches a device while a command runs. For a command the
//! kernel itself follows the children (the event is inherited at fork and wakes at exec), so nothing is missed
//! between a fork and our noticing it, and no process number is ever confused with an older one.
//!
//! What a command's record leaves out, because the kernel does it in threads of its own: buffered writes that
//! are written back later, the journal of the file system, work that other servers do on the command's behalf,
//! and the disk below a loop device. Record the device instead ([`Source::DeviceDuring`]) to see all of it. Of
//! stacked devices (LVM, md, dm-crypt) a command's record keeps the topmost. A process that outlives the
//! command is followed until the command ends. The recorder's own requests are never in the record.
//!
//! A request took from being handed over to its last sector's answer, so waiting in the kernel's queues is in it; answers
//! come while anybody runs, and [`answers`] finds whose they are. What is known of no request is said of none: of arrays that hand
//! a request on under another device's name, and of requests under way when the recording ends.
//!
//! Nothing is lost silently: the kernel counts every event that matched, and what did not reach us is reported. With
//! [`RecordOptions::rescue`] requests go to a file while they come, so that a recorder that is killed leaves them.

mod answers;

use crate::bio::{Action, AnswerLayout, Bio, BioLayout, DeviceNumber};
use crate::device::{Device, DiskNames, Grounds};
use crate::format::FormatError;
use crate::outcome::{self, Ended, Progress, RecordError};
use crate::rescue::{Rescue, RescueAt};
use crate::ring::{Beside, Scope};
use crate::sample::{self, Sample, SampleError};
use crate::session::{self, Collect, Plan, Tally};
use crate::sys;
use crate::tracefs::{self, TracefsError};
use answers::Answers;
use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use forerun_trace::record::{Name, Record, Trace};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Most requests that are kept by default; one takes 48 bytes while recording and 56 in the trace.
pub const RECORDS_MAX: usize = 50_000_000;
/// How long a request waits for its answer before its line is written without.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// Whose requests are recorded, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Everything that reaches a device (a disk or a partition, by path or name) until the recording is stopped.
    Device(PathBuf),
    /// What a command (program and arguments) and its children ask of all devices, until it ends.
    Command(Vec<OsString>),
    /// Everything that reaches a device, from whomever, while a command runs.
    DeviceDuring(PathBuf, Vec<OsString>),
}

/// What to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Whose requests.
    pub source: Source,
    /// Stop after this long. A command is then ended with SIGTERM.
    pub duration: Option<Duration>,
    /// Stop when somebody sets this, e.g. [`crate::signals::stop_flag`]. A command is then ended with SIGTERM.
    pub stop: Option<Arc<AtomicBool>>,
    /// Stop after this many requests.
    pub records_max: usize,
    /// Keep the requests in this file while they come.
    pub rescue: Option<RescueAt>,
}

impl RecordOptions {
    /// All of `source`, with the default bound on memory.
    #[must_use]
    pub const fn new(source: Source) -> Self {
        Self { source, duration: None, stop: None, records_max: RECORDS_MAX, rescue: None }
    }
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The requests in order of time, which starts at 0 with the first; `device` and `process` are set, `file` is
    /// not (a block request does not say), offsets are bytes from the start of the device.
    pub trace: Trace,
    /// Events that matched and did not fit into the ring. They are not in the trace.
    pub lost: u64,
    /// Flushes, discards and the like, which move no data and are not in the trace.
    pub without_data: u64,
    /// Requests to a disk below a stacked device, which are in the trace as that device's.
    pub below_stacked: u64,
    /// Why it ended.
    pub ended: Ended,
    /// How long it took.
    pub elapsed: Duration,
    /// Why the file that kept the requests while they came ends early, if it does.
    pub unkept: Option<ErrorKind>,
}

/// Records until the command ends, the time is over, the flag is set or the bound is reached. `progress` is called
/// several times a second.
///
/// # Errors
/// [`RecordError::Unsupported`] (with its remedy) where the kernel or the user's rights do not suffice; the others
/// if the device, the command or reading fails. A command that was started is ended and waited for.
pub fn record(options: &RecordOptions, progress: &mut dyn FnMut(Progress)) -> Result<Recording, RecordError> {
    let format = tracefs::load(BioLayout::EVENT).map_err(unsupported)?;
    let layout = BioLayout::new(&format).map_err(|error| unsupported(error.into()))?;
    let points = Points { layout, answers: answer_layouts() };
    let (device, argv) = match &options.source {
        Source::Device(path) => (Some(Device::find(path)?), None),
        Source::Command(argv) => (None, Some(argv)),
        Source::DeviceDuring(path, argv) => (Some(Device::find(path)?), Some(argv)),
    };
    let filter = device.as_ref().map(Device::filter);
    let everyone: Vec<u64> = points.answers.keys().map(|&id| u64::from(id)).collect();
    let scope = if device.is_some() { Scope::Everyone } else { Scope::StartedByThisThread };
    let plan = Plan {
        ids: &[format.id],
        everyone: &everyone,
        of_everyone: None,
        ring_bytes: [session::RING_BYTES; 2],
        scope,
        beside: Beside::Nothing,
        filter: filter.as_deref(),
        narrow: &[],
        hits: &[],
        argv: argv.map(Vec::as_slice),
        duration: options.duration,
        stop: options.stop.as_deref(),
        look_every: session::LOOK_EVERY,
    };
    let mut collector = Collector::new(points, device, options.records_max);
    collector.rescue = Rescue::begin(options.rescue.as_ref())?;
    collector.for_command = argv.is_some();
    let done = session::run(&plan, collector, progress)
        .map_err(|error| Rescue::unbegun(options.rescue.as_ref(), error))?;
    let session::Outcome { mut collector, lost, ended, elapsed, .. } = done;
    let unkept = collector.finish();
    let (without_data, below_stacked) = (collector.without_data, collector.below_stacked);
    Ok(Recording { trace: collector.into_trace(), lost, without_data, below_stacked, ended, elapsed, unkept })
}

/// The tracepoints of answers that this kernel has, by number. Without them nobody knows how long requests took, and they are
/// recorded all the same.
fn answer_layouts() -> BTreeMap<u16, AnswerLayout> {
    let found = AnswerLayout::EVENTS.iter().filter_map(|event| {
        let format = tracefs::load(event).ok()?;
        // `common_type`, by which records are told apart, has 16 bits.
        Some((u16::try_from(format.id).ok()?, AnswerLayout::new(&format).ok()?))
    });
    found.collect()
}

/// A tracepoint that cannot be looked up, as the error that carries a remedy.
pub(crate) fn unsupported(error: TracefsError) -> RecordError {
    unsupported_to(&error, outcome::is_root_of_others())
}

fn unsupported_to(error: &TracefsError, is_root_of_others: bool) -> RecordError {
    let remedy = match error {
        TracefsError::NotMounted | TracefsError::Denied { .. } if is_root_of_others => {
            outcome::ROOT_OF_OTHERS
        }
        TracefsError::NoProc => "as root: mount -t proc proc /proc",
        TracefsError::NotMounted => {
            "run as root (root needs no mount of it; for others: mount -t tracefs tracefs /sys/kernel/tracing)"
        }
        TracefsError::Denied { .. } => "run as root",
        TracefsError::NoEvent { event } if !event.starts_with("block/") => {
            "use a kernel with CONFIG_EVENT_TRACING, as those of the large distributions are; `forerun watch --check` says what works here"
        }
        TracefsError::NoEvent { .. } | TracefsError::Read { .. } => {
            "use a kernel with CONFIG_BLK_DEV_IO_TRACE, as those of the large distributions are"
        }
        TracefsError::Format(FormatError::NoField { .. } | FormatError::Line { .. } | FormatError::NoId) => {
            "please report this kernel's version and the tracepoint's format file"
        }
    };
    let what = match error {
        TracefsError::NoProc => "/proc is not mounted".to_owned(),
        TracefsError::NotMounted => "tracefs is not mounted".to_owned(),
        TracefsError::Denied { path } => format!("no permission to read {}", path.display()),
        other => other.to_string(),
    };
    RecordError::Unsupported { what, remedy: remedy.to_owned() }
}

/// One request while recording.
#[derive(Clone, Copy, Debug)]
struct Request {
    time: u64,
    took: Option<u64>,
    sector: u64,
    sectors: u32,
    device: DeviceNumber,
    process: Name,
    op: Op,
}

/// What happened, until all that happened before is known.
#[derive(Clone, Copy, Debug)]
enum Happened {
    Asked(Request),
    Answered { device: DeviceNumber, op: Op, sector: u64, sectors: u32 },
}

/// Where the fields of the tracepoints are.
#[derive(Clone, Debug)]
struct Points {
    layout: BioLayout,
    /// Those of answers, by number.
    answers: BTreeMap<u16, AnswerLayout>,
}

/// Turns raw records into requests.
struct Collector {
    points: Points,
    /// The one device that is recorded; `None` = all.
    device: Option<Device>,
    grounds: Grounds,
    own_pid: u32,
    records_max: usize,
    names: Vec<String>,
    by_name: BTreeMap<String, Name>,
    /// What came out of the rings and is not in order yet: each processor has a ring of its own.
    pending: Vec<(u64, Happened)>,
    /// Requests among them.
    asked: usize,
    /// Everything before this time has come out of the rings.
    horizon: u64,
    requests: Vec<Request>,
    answers: Answers,
    rescue: Rescue,
    /// Requests whose lines were written.
    kept: usize,
    disks: DiskNames,
    /// Whether a command runs, which is not ended because a disk is full.
    for_command: bool,
    seen: u64,
    lost: u64,
    without_data: u64,
    below_stacked: u64,
}

impl Collector {
    fn new(points: Points, device: Option<Device>, records_max: usize) -> Self {
        let grounds = if device.is_some() { Grounds::default() } else { Grounds::of_this_machine() };
        Self {
            points,
            device,
            grounds,
            own_pid: std::process::id(),
            records_max,
            names: vec![String::new()],
            by_name: BTreeMap::new(),
            pending: Vec::new(),
            asked: 0,
            horizon: 0,
            requests: Vec::new(),
            answers: Answers::default(),
            rescue: Rescue::default(),
            kept: 0,
            disks: DiskNames::default(),
            for_command: false,
            seen: 0,
            lost: 0,
            without_data: 0,
            below_stacked: 0,
        }
    }

    fn keep(&mut self, time: u64, bio: &Bio<'_>) {
        let Action::Data(op) = bio.action else {
            self.without_data += 1;
            return;
        };
        if self.grounds.contain(bio.device, bio.sector) {
            self.below_stacked += 1;
            return;
        }
        let process = self.intern(process_name(&String::from_utf8_lossy(bio.comm)));
        let Bio { sector, sectors, device, .. } = *bio;
        let request = Request { time, took: None, sector, sectors, device, process, op };
        self.pending.push((time, Happened::Asked(request)));
        self.asked += 1;
    }

    /// Takes up all that happened before a time, in order.
    fn settle(&mut self, before: u64) {
        let mut due: Vec<_> = self.pending.extract_if(.., |&mut (time, _)| time < before).collect();
        due.sort_by_key(|&(time, _)| time);
        let range = |sector: u64, sectors: u32| sector..sector.saturating_add(u64::from(sectors));
        for (time, happened) in due {
            match happened {
                Happened::Asked(request) => {
                    let (number, sectors) = (self.requests.len(), range(request.sector, request.sectors));
                    self.answers.asked(request.device, request.op, sectors, number);
                    self.requests.push(request);
                    self.asked -= 1;
                }
                Happened::Answered { device, op, sector, sectors } => {
                    let requests = &mut self.requests;
                    self.answers.answered(device, op, range(sector, sectors), &mut |number| {
                        let asked = requests[number].time;
                        requests[number].took = Some(time.saturating_sub(asked));
                    });
                }
            }
        }
    }

    /// Writes the lines of requests that are answered, or have waited long enough, in their order.
    fn write_lines(&mut self, now: u64) {
        while let Some(&request) = self.requests.get(self.kept)
            && (request.took.is_some() || now.saturating_sub(request.time) > PATIENCE.0)
        {
            let record = self.record(&request, self.requests[0].time);
            let device = match &self.device {
                Some(device) => device.name.as_str(),
                None => self.disks.get(request.device),
            };
            let process = &self.names[request.process.0 as usize];
            self.rescue.note(&record, [device, process, ""]);
            self.kept += 1;
        }
        self.rescue.look();
    }

    /// A request as a record, without the name of its device.
    fn record(&self, request: &Request, zero: u64) -> Record {
        let start = self.device.as_ref().map_or(0, |device| device.start);
        Record {
            time: Some(Nanos(request.time.saturating_sub(zero))),
            took: request.took.map(Nanos),
            process: request.process,
            offset: request.sector.saturating_sub(start) * SECTOR_BYTES,
            bytes: u64::from(request.sectors) * SECTOR_BYTES,
            op: request.op,
            ..Record::BLANK
        }
    }

    /// What is left is taken up, and the lines end. Says why they end early, if they do.
    fn finish(&mut self) -> Option<ErrorKind> {
        self.settle(u64::MAX);
        if !self.rescue.is_wanted() {
            return None;
        }
        self.write_lines(u64::MAX);
        let problem = self.rescue.problem();
        self.rescue.finish().or(problem)
    }

    fn intern(&mut self, name: &str) -> Name {
        if name.is_empty() {
            return Name::ABSENT;
        }
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let number = u32::try_from(self.names.len()).unwrap_or_else(|_| {
            unreachable!(
                "each name came with a request, and no memory holds 2^32 of those beside their names"
            )
        });
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), Name(number));
        Name(number)
    }

    /// The requests of all processors in order of time, as a trace.
    fn into_trace(mut self) -> Trace {
        self.settle(u64::MAX);
        let mut requests = std::mem::take(&mut self.requests);
        requests.sort_by_key(|request| request.time);
        let zero = requests.first().map_or(0, |request| request.time);
        let only = self.device.as_ref().map(|device| device.name.clone());
        let mut records = Vec::with_capacity(requests.len());
        for request in requests {
            let device = only.clone().unwrap_or_else(|| self.disks.get(request.device).to_owned());
            records.push(Record { device: self.intern(&device), ..self.record(&request, zero) });
        }
        Trace { names: self.names, records, format: "recorded".to_owned(), ..Trace::default() }
    }
}

impl Collect for Collector {
    /// Takes one perf record.
    fn take(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let (pid, time, raw) = match sample::parse(record)? {
            Sample::Event { pid, time, raw, .. } => (pid, time, raw),
            Sample::Lost(events) => {
                self.lost += events;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let short = || SampleError { kind: 0, size: raw.len() };
        let id = raw.first_chunk::<2>().map(|id| u16::from_ne_bytes(*id));
        if let Some(layout) = id.and_then(|id| self.points.answers.get(&id)) {
            // Answers come in whatever context the interrupt met: their process is nobody's.
            let answer = layout.read(raw).ok_or_else(short)?;
            if let Action::Data(op) = answer.action {
                let crate::bio::Answer { device, sector, sectors, .. } = answer;
                self.pending.push((time, Happened::Answered { device, op, sector, sectors }));
            }
            return Ok(());
        }
        self.seen += 1;
        let layout = self.points.layout.clone();
        let bio = layout.read(raw).ok_or_else(short)?;
        if pid != self.own_pid && !self.full() {
            self.keep(time, &bio);
        }
        Ok(())
    }

    /// The rings were emptied since the last look, so all that happened before it is known.
    fn look(&mut self) {
        let now = sys::now();
        self.settle(self.horizon);
        self.horizon = now;
        if self.rescue.is_wanted() {
            self.write_lines(now);
        }
    }

    fn full(&self) -> bool {
        let ends = self.rescue.problem().is_some() && !self.for_command;
        ends || self.requests.len() + self.asked >= self.records_max
    }

    fn tally(&self) -> Tally {
        let records = (self.requests.len() + self.asked) as u64;
        Tally { records, seen: self.seen, lost: self.lost, unkept: self.rescue.problem() }
    }
}

/// The name under which a thread's requests are kept. The kernel's workers are one pool: which of them did a
/// piece of work says nothing, so `kworker/u8:3-wb` becomes `kworker`; and the device of `jbd2/sda2-8` is known.
fn process_name(comm: &str) -> &str {
    match comm.split_once('/') {
        Some((pool @ ("kworker" | "jbd2"), _)) => pool,
        _ => comm,
    }
}

#[cfg(test)]
mod tests;
