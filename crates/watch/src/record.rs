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
//! Nothing is lost silently: the kernel counts every event that matched, and what did not reach us is reported.

use crate::bio::{Action, Bio, BioLayout, DeviceNumber};
use crate::device::{Device, DiskNames, Grounds};
use crate::format::FormatError;
use crate::outcome::{Ended, Progress, RecordError};
use crate::ring::{Beside, Scope};
use crate::sample::{self, Sample, SampleError};
use crate::session::{self, Collect, Plan, Tally};
use crate::tracefs::{self, TracefsError};
use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use forerun_trace::record::{Name, Record, Trace};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Most requests that are kept by default; one takes 32 bytes while recording and 56 in the trace.
pub const RECORDS_MAX: usize = 50_000_000;

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
}

impl RecordOptions {
    /// All of `source`, with the default bound on memory.
    #[must_use]
    pub const fn new(source: Source) -> Self {
        Self { source, duration: None, stop: None, records_max: RECORDS_MAX }
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
    let (device, argv) = match &options.source {
        Source::Device(path) => (Some(Device::find(path)?), None),
        Source::Command(argv) => (None, Some(argv)),
        Source::DeviceDuring(path, argv) => (Some(Device::find(path)?), Some(argv)),
    };
    let scope = if device.is_some() { Scope::Everyone } else { Scope::StartedByThisThread };
    let plan = Plan {
        ids: &[format.id],
        scope,
        beside: Beside::Nothing,
        filter: device.as_ref().map(Device::filter),
        narrow: &[],
        argv: argv.map(Vec::as_slice),
        duration: options.duration,
        stop: options.stop.as_deref(),
        look_every: session::LOOK_EVERY,
    };
    let collector = Collector::new(layout, device, options.records_max);
    let session::Outcome { collector, lost, ended, elapsed } = session::run(&plan, collector, progress)?;
    let (without_data, below_stacked) = (collector.without_data, collector.below_stacked);
    Ok(Recording { trace: collector.into_trace(), lost, without_data, below_stacked, ended, elapsed })
}

/// A tracepoint that cannot be looked up, as the error that carries a remedy.
pub(crate) fn unsupported(error: TracefsError) -> RecordError {
    let remedy = match &error {
        TracefsError::NotMounted => "mount it as root: mount -t tracefs tracefs /sys/kernel/tracing",
        TracefsError::Denied { .. } => "run as root",
        TracefsError::NoEvent { .. } | TracefsError::Read { .. } => {
            "use a kernel with CONFIG_BLK_DEV_IO_TRACE, as those of the large distributions are"
        }
        TracefsError::Format(FormatError::NoField { .. } | FormatError::Line { .. } | FormatError::NoId) => {
            "please report this kernel's version and the tracepoint's format file"
        }
    };
    let what = match &error {
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
    sector: u64,
    sectors: u32,
    device: DeviceNumber,
    process: Name,
    op: Op,
}

/// Turns raw records into requests.
struct Collector {
    layout: BioLayout,
    /// The one device that is recorded; `None` = all.
    device: Option<Device>,
    grounds: Grounds,
    own_pid: u32,
    records_max: usize,
    names: Vec<String>,
    by_name: BTreeMap<String, Name>,
    requests: Vec<Request>,
    seen: u64,
    lost: u64,
    without_data: u64,
    below_stacked: u64,
}

impl Collector {
    fn new(layout: BioLayout, device: Option<Device>, records_max: usize) -> Self {
        let grounds = if device.is_some() { Grounds::default() } else { Grounds::of_this_machine() };
        Self {
            layout,
            device,
            grounds,
            own_pid: std::process::id(),
            records_max,
            names: vec![String::new()],
            by_name: BTreeMap::new(),
            requests: Vec::new(),
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
        let start = self.device.as_ref().map_or(0, |device| device.start);
        let sector = bio.sector.saturating_sub(start);
        self.requests.push(Request { time, sector, sectors: bio.sectors, device: bio.device, process, op });
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
        self.requests.sort_by_key(|request| request.time);
        let zero = self.requests.first().map_or(0, |request| request.time);
        let mut disks = DiskNames::default();
        let requests = std::mem::take(&mut self.requests);
        let only = self.device.as_ref().map(|device| device.name.clone());
        let records = requests
            .into_iter()
            .map(|request| {
                let device = only.clone().unwrap_or_else(|| disks.get(request.device).to_owned());
                Record {
                    time: Some(Nanos(request.time - zero)),
                    took: None,
                    device: self.intern(&device),
                    process: request.process,
                    file: Name::ABSENT,
                    offset: request.sector * SECTOR_BYTES,
                    bytes: u64::from(request.sectors) * SECTOR_BYTES,
                    op: request.op,
                }
            })
            .collect();
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
        self.seen += 1;
        let layout = self.layout.clone();
        let bio = layout.read(raw).ok_or(SampleError { kind: 0, size: raw.len() })?;
        if pid != self.own_pid && !self.full() {
            self.keep(time, &bio);
        }
        Ok(())
    }

    fn full(&self) -> bool {
        self.requests.len() >= self.records_max
    }

    fn tally(&self) -> Tally {
        Tally { records: self.requests.len() as u64, seen: self.seen, lost: self.lost }
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
