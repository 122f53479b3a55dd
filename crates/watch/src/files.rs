//! Records the reads that programs make of files, whether or not the page cache answers them.
//!
//! The block recorder sees what reaches a disk; this one sees what was asked: of which file, from which byte, how many,
//! by which program, and how long it waited. A command and its children are followed by the kernel itself, as there.
//! Buffered reads come from the page cache's own tracepoints with the calls around them, reads through mappings from its
//! faults (`filemap.rs`); [`forerun_trace::assemble`] puts them together, `names.rs` finds the paths, and
//! [`forerun_trace::chains`] makes processes of short-lived programs.
//!
//! What is not seen: reads past the page cache (`O_DIRECT`), pages of a mapped file that were mapped already, and
//! writes. A fault that finds the pages around it in the cache maps them all at once; they count as read. An inode number
//! that is used again within the recording (temporary files) is one file. Files have the size that they have at the end.

use crate::bio::DeviceNumber;
use crate::device::DiskNames;
use crate::filemap::{self, Tracepoints};
use crate::names::{self, Mounts};
use crate::outcome::{Ended, Progress, RecordError};
use crate::record::unsupported;
use crate::rescue::{Rescue, RescueAt};
use crate::ring::{Beside, Scope};
use crate::sample::{self, Sample, SampleError};
use crate::session::{self, Collect, Plan, Tally};
use crate::sys;
use crate::tracefs::TracefsError;
use forerun_core::units::Nanos;
use forerun_trace::assemble::{Assembler, Event, FileId, FileRead};
use forerun_trace::chains::{Thread, name_processes};
use forerun_trace::record::{Name, Record, Trace, file_name};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Most events that are kept by default. One takes 64 bytes, a read is three of them where its call is traced.
pub const EVENTS_MAX: usize = 50_000_000;
/// Processes whose open files are looked at, at most, each time the rings are empty.
const LOOKS_MAX: usize = 32;
/// What to do on a kernel that cannot.
const OTHER_WAY: &str = "or record with `strace -f -ttt -T -y -o OUT CMD`, which Forerun reads";

/// What to record.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The command: program and arguments; empty: whatever runs, but this process.
    pub command: Vec<OsString>,
    /// Only files of the file systems on these devices, by number; of all where there are none.
    pub devices: BTreeSet<(u32, u32)>,
    /// Only files below these folders; all files where there are none.
    pub folders: Vec<PathBuf>,
    /// End the command with SIGTERM after this long.
    pub duration: Option<Duration>,
    /// End it when somebody sets this.
    pub stop: Option<Arc<AtomicBool>>,
    /// Stop after this many events.
    pub events_max: usize,
    /// Keep the reads in this file while they come: under the names that are known by then.
    pub rescue: Option<RescueAt>,
}

impl FilesOptions {
    /// All that `command` and its children read, with the default bound on memory.
    #[must_use]
    pub const fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            devices: BTreeSet::new(),
            folders: Vec::new(),
            duration: None,
            stop: None,
            events_max: EVENTS_MAX,
            rescue: None,
        }
    }
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct FilesRecording {
    /// The reads in order of time, which starts at 0 with the first: process, device of the file system, path of the
    /// file, its size, first byte, bytes, and how long the program waited.
    pub trace: Trace,
    /// Events that matched and did not fit into the ring. They are not in the trace.
    pub lost: u64,
    /// Calls that were no read of a file: of pipes and terminals, at the end of a file, past the page cache.
    pub idle: u64,
    /// Reads of files that are not below the folders asked for.
    pub outside: u64,
    /// Files without a path: they are called `inode:NUMBER`.
    pub unnamed: u64,
    /// Whether calls were traced: else reads are in whole pages and without a duration.
    pub exact: bool,
    /// Why it ended.
    pub ended: Ended,
    /// How long it took.
    pub elapsed: Duration,
}

/// Records what a command and its children read, until it ends, the time is over, the flag is set or the bound is
/// reached. `progress` is called several times a second.
///
/// # Errors
/// [`RecordError::Unsupported`] (with its remedy) where the kernel or the user's rights do not suffice;
/// [`RecordError::Folder`] for a folder that is not there; the others if the command or reading fails.
pub fn record_files(
    options: &FilesOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<FilesRecording, RecordError> {
    let folders = canonical(&options.folders)?;
    let tracepoints = Tracepoints::load().map_err(cannot)?;
    let ids = tracepoints.ids.clone();
    let everyone = options.command.is_empty();
    let narrow = narrow(&options.devices, &tracepoints);
    let plan = Plan {
        ids: &ids,
        everyone: &[],
        of_everyone: None,
        ring_bytes: [session::RING_BYTES; 2],
        scope: if everyone { Scope::Everyone } else { Scope::StartedByThisThread },
        beside: Beside::Tasks,
        filter: None,
        narrow: &narrow,
        hits: &[],
        argv: (!everyone).then_some(&options.command[..]),
        duration: options.duration,
        stop: options.stop.as_deref(),
        look_every: session::LOOK_EVERY,
    };
    let mut collector = Collector::new(tracepoints, options.events_max);
    collector.not_us = everyone.then(std::process::id);
    collector.lines.rescue = Rescue::begin(options.rescue.as_ref())?;
    collector.lines.folders.clone_from(&folders);
    let mut done = session::run(&plan, collector, progress)
        .map_err(|error| Rescue::unbegun(options.rescue.as_ref(), another_way(error)))?;
    done.collector.write_lines(u64::MAX);
    done.collector.lines.rescue.finish();
    let (exact, lost, ended, elapsed) =
        (done.collector.tracepoints.calls, done.lost, done.ended, done.elapsed);
    let Made { trace, idle, outside, unnamed } = done.collector.into_trace(&folders);
    Ok(FilesRecording { trace, lost, idle, outside, unnamed, exact, ended, elapsed })
}

/// Pages of other devices are dropped by the kernel.
fn narrow(devices: &BTreeSet<(u32, u32)>, tracepoints: &Tracepoints) -> Vec<(usize, String)> {
    let names = devices.iter().map(|(major, minor)| format!("s_dev=={}", filemap::number(*major, *minor)));
    let filter = names.collect::<Vec<_>>().join("||");
    let wanted = |filter: &String| !filter.is_empty();
    let of = |at: usize| Some((at, filter.clone())).filter(|(_, filter)| wanted(filter));
    tracepoints.of_pages.clone().filter_map(of).collect()
}

fn canonical(folders: &[PathBuf]) -> Result<Vec<PathBuf>, RecordError> {
    let one = |folder: &PathBuf| {
        folder.canonicalize().map_err(|source| RecordError::Folder { folder: folder.clone(), source })
    };
    folders.iter().map(one).collect()
}

/// A tracepoint that cannot be looked up, as the error that says what else to do.
fn cannot(error: TracefsError) -> RecordError {
    let is_missing = matches!(error, TracefsError::NoEvent { .. });
    match another_way(unsupported(error)) {
        RecordError::Unsupported { what, .. } if is_missing => RecordError::Unsupported {
            what: format!("{what} (Linux 6.12 has it, 6.1 has not)"),
            remedy: format!("use Linux 6.12 or later, {OTHER_WAY}"),
        },
        other => other,
    }
}

/// A refusal, with the way that always works.
fn another_way(error: RecordError) -> RecordError {
    match error {
        RecordError::Unsupported { what, remedy } => {
            RecordError::Unsupported { what, remedy: format!("{remedy}, {OTHER_WAY}") }
        }
        other => other,
    }
}

/// A thread got a name, or was made by another, which then has its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Life {
    Named(String),
    MadeBy(u32),
}

/// What is written while the command runs: the same reads, put together as far as everything before a time is known. Their
/// programs are numbered by thread, and files without a path yet are called by their inode.
#[derive(Default)]
struct Lines {
    rescue: Rescue,
    folders: Vec<PathBuf>,
    assembler: Assembler,
    /// Events that were put together, and when all before is known.
    taken: usize,
    horizon: u64,
    zero: Option<u64>,
    programs: BTreeMap<u32, String>,
    lives: usize,
    disks: DiskNames,
}

/// Keeps events, names and paths until the command has ended.
struct Collector {
    tracepoints: Tracepoints,
    events_max: usize,
    events: Vec<(u64, u32, Event)>,
    lives: Vec<(u64, u32, Life)>,
    paths: BTreeMap<FileId, String>,
    /// Files without a path yet that a process has just read; each is looked for once.
    looked: BTreeSet<FileId>,
    to_look: BTreeMap<u32, BTreeSet<FileId>>,
    lines: Lines,
    /// Of everybody's reads ours are left out, and programs that ran before are asked for their name.
    not_us: Option<u32>,
    asked: BTreeSet<u32>,
    seen: u64,
    lost: u64,
}

/// A trace, and what is not in it.
struct Made {
    trace: Trace,
    idle: u64,
    outside: u64,
    unnamed: u64,
}

impl Collector {
    fn new(tracepoints: Tracepoints, events_max: usize) -> Self {
        Self {
            tracepoints,
            events_max,
            events: Vec::new(),
            lives: Vec::new(),
            paths: BTreeMap::new(),
            looked: BTreeSet::new(),
            to_look: BTreeMap::new(),
            lines: Lines::default(),
            not_us: None,
            asked: BTreeSet::new(),
            seen: 0,
            lost: 0,
        }
    }

    fn keep(&mut self, process: u32, thread: u32, time: u64, event: Event) {
        if self.not_us.is_some() && matches!(event, Event::Pages { .. }) && self.asked.insert(thread) {
            let name = sys::text(format!("/proc/{process}/task/{thread}/comm"));
            let named = name.map(|name| (0, thread, Life::Named(name.trim_end().to_owned())));
            self.lives.extend(named);
        }
        if let Event::Pages { file, .. } = event
            && !self.paths.contains_key(&file)
            && self.looked.insert(file)
        {
            self.to_look.entry(process).or_default().insert(file);
        }
        self.events.push((time, thread, event));
    }

    /// Writes the reads of which all is known that happened before a time.
    fn write_lines(&mut self, before: u64) {
        let Lines { rescue, folders, assembler, taken, zero, programs, lives, disks, .. } = &mut self.lines;
        if !rescue.is_wanted() {
            return;
        }
        for (_, thread, life) in &self.lives[*lives..] {
            let name = match life {
                Life::Named(name) => name.clone(),
                Life::MadeBy(parent) => programs.get(parent).cloned().unwrap_or_default(),
            };
            programs.insert(*thread, name);
        }
        *lives = self.lives.len();
        // Rings are read one after another: what came out last is in order only among itself.
        self.events[*taken..].sort_by_key(|&(time, ..)| time);
        let due = self.events[*taken..].partition_point(|&(time, ..)| time < before);
        let mut reads = Vec::new();
        for &(time, thread, event) in &self.events[*taken..*taken + due] {
            assembler.take(thread, time, event, &mut |read| reads.push(read));
        }
        *taken += due;
        reads.sort_by_key(|read: &FileRead| read.time);
        for read in reads {
            let zero = *zero.get_or_insert(read.time);
            let device = DeviceNumber::new(read.file.major, read.file.minor).unwrap_or_default();
            let program = programs.get(&read.thread).map_or("", String::as_str);
            let process = format!("{program}#{}", read.thread);
            let file = self.paths.get(&read.file).cloned();
            let inside = |path: &String| folders.iter().any(|folder| Path::new(path).starts_with(folder));
            if !folders.is_empty() && !file.as_ref().is_some_and(inside) {
                continue;
            }
            let file = file.unwrap_or_else(|| format!("inode:{}", read.file.inode));
            let record = Record {
                time: Some(Nanos(read.time.saturating_sub(zero))),
                took: read.took.map(Nanos),
                offset: read.offset,
                bytes: read.bytes,
                ..Record::BLANK
            };
            rescue.note(&record, [disks.get(device), &process, &file]);
        }
        rescue.look();
    }

    /// The program of each thread over time: by thread, when it got which name.
    fn programs(&mut self) -> BTreeMap<u32, Vec<(u64, String)>> {
        self.lives.sort_by_key(|&(time, ..)| time);
        let mut programs: BTreeMap<u32, Vec<(u64, String)>> = BTreeMap::new();
        for (time, thread, life) in std::mem::take(&mut self.lives) {
            let name = match life {
                Life::Named(name) => name,
                Life::MadeBy(parent) => programs
                    .get(&parent)
                    .and_then(|names| names.last())
                    .map_or_else(String::new, |n| n.1.clone()),
            };
            programs.entry(thread).or_default().push((time, name));
        }
        programs
    }

    /// Everything as a trace; with `folders`, only files below them.
    fn into_trace(mut self, folders: &[PathBuf]) -> Made {
        // Rings are read one after another, and a thread moves between processors.
        self.events.sort_by_key(|&(time, ..)| time);
        let mut reads: Vec<FileRead> = Vec::new();
        let mut assembler = Assembler::default();
        for (time, thread, event) in std::mem::take(&mut self.events) {
            assembler.take(thread, time, event, &mut |read| reads.push(read));
        }
        assembler.finish(&mut |read| reads.push(read));
        reads.sort_by_key(|read| read.time);
        let programs = self.programs();
        let files = self.files(&reads, folders);
        let before = reads.len();
        reads.retain(|read| files[&read.file].inside);
        let outside = (before - reads.len()) as u64;
        let inside = reads.iter().map(|read| read.file).collect::<BTreeSet<_>>();
        let unnamed = inside.iter().filter(|file| !files[file].named).count() as u64;
        Made { trace: trace(&reads, &files, &programs), idle: assembler.idle(), outside, unnamed }
    }

    /// Name and size of every file that was read.
    fn files(&self, reads: &[FileRead], folders: &[PathBuf]) -> BTreeMap<FileId, File> {
        let mounts = Mounts::of_this_process();
        let all: BTreeSet<FileId> = reads.iter().map(|read| read.file).collect();
        let wanted: BTreeSet<FileId> = if folders.is_empty() {
            all.iter().filter(|file| !self.paths.contains_key(file)).copied().collect()
        } else {
            all.clone()
        };
        let walked = if wanted.is_empty() { BTreeMap::new() } else { names::walk(folders, &wanted, &mounts) };
        let name = |file: &FileId| {
            let walked = walked.get(file).map(|path| file_name(path.as_os_str().as_bytes()));
            walked.or_else(|| self.paths.get(file).cloned())
        };
        all.iter().map(|file| (*file, File::new(*file, name(file), folders))).collect()
    }
}

/// A file that was read.
struct File {
    name: String,
    named: bool,
    size: Option<u64>,
    /// Below the folders asked for.
    inside: bool,
}

impl File {
    fn new(id: FileId, path: Option<String>, folders: &[PathBuf]) -> Self {
        let inside = folders.is_empty()
            || path
                .as_ref()
                .is_some_and(|path| folders.iter().any(|folder| Path::new(path).starts_with(folder)));
        // A path that is another file's by now says nothing of the size.
        let size = path.as_ref().and_then(|path| {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(path)
                .ok()
                .filter(|data| data.ino() == id.inode && data.is_file())
                .map(|data| data.len())
        });
        let named = path.is_some();
        Self { name: path.unwrap_or_else(|| format!("inode:{}", id.inode)), named, size, inside }
    }
}

/// The reads as records.
fn trace(
    reads: &[FileRead],
    files: &BTreeMap<FileId, File>,
    programs: &BTreeMap<u32, Vec<(u64, String)>>,
) -> Trace {
    let mut names = vec![String::new()];
    let mut index: BTreeMap<String, Name> = BTreeMap::new();
    let mut intern = |text: &str| {
        *index.entry(text.to_owned()).or_insert_with(|| {
            names.push(text.to_owned());
            Name(u32::try_from(names.len() - 1).expect("no memory holds 2^32 files beside their reads"))
        })
    };
    let mut disks = DiskNames::default();
    let zero = reads.first().map_or(0, |read| read.time);
    let mut trace = Trace { format: "recorded".to_owned(), ..Trace::default() };
    let mut threads = Vec::with_capacity(reads.len());
    for read in reads {
        let file = &files[&read.file];
        let device = DeviceNumber::new(read.file.major, read.file.minor).unwrap_or_default();
        let (device, name) = (intern(disks.get(device)), intern(&file.name));
        if let Some(size) = file.size {
            trace.know_size(device, name, size);
        }
        // Pages reach beyond the end of a file, bytes do not.
        let whole = file.size.filter(|&size| read.took.is_none() && size > read.offset);
        let bytes = whole.map_or(read.bytes, |size| read.bytes.min(size - read.offset));
        let (time, took) = (Some(Nanos(read.time - zero)), read.took.map(Nanos));
        trace.records.push(Record {
            time,
            took,
            device,
            file: name,
            offset: read.offset,
            bytes,
            ..Record::BLANK
        });
        let program = programs.get(&read.thread).and_then(|names| {
            let after = names.partition_point(|&(time, _)| time <= read.time);
            names.get(after.saturating_sub(1)).map(|(_, name)| name.clone())
        });
        threads.push(Thread { number: read.thread, program: program.unwrap_or_default() });
    }
    trace.names = names;
    name_processes(&mut trace, &threads.iter().collect::<Vec<_>>());
    trace
}

impl Collect for Collector {
    fn take(&mut self, record: &[u8]) -> Result<(), RecordError> {
        match sample::parse(record)? {
            Sample::Event { pid, thread, time, raw } => {
                self.seen += 1;
                let event = self.tracepoints.read(raw).ok_or(SampleError { kind: 0, size: raw.len() })?;
                if !self.full() && self.not_us != Some(pid) {
                    self.keep(pid, thread, time, event);
                }
            }
            Sample::Named { thread, time, name } => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.lives.push((time, thread, Life::Named(name)));
            }
            Sample::Made { thread, parent, time, .. } => {
                self.lives.push((time, thread, Life::MadeBy(parent)))
            }
            Sample::Mapped { major, minor, inode, path } => {
                if path.starts_with(b"/") && !path.starts_with(b"//") {
                    let path = file_name(path);
                    self.paths.insert(FileId { major, minor, inode }, path);
                }
            }
            Sample::Lost(events) => self.lost += events,
            Sample::Switched { .. } | Sample::Other => {}
        }
        Ok(())
    }

    /// Paths of files that a process has open while it still runs.
    fn look(&mut self) {
        for (process, wanted) in std::mem::take(&mut self.to_look).into_iter().take(LOOKS_MAX) {
            let text = |(file, path): (FileId, PathBuf)| (file, file_name(path.as_os_str().as_bytes()));
            self.paths.extend(names::open_files(process, &wanted).into_iter().map(text));
        }
        let horizon = std::mem::replace(&mut self.lines.horizon, sys::now());
        self.write_lines(horizon);
    }

    fn full(&self) -> bool {
        self.events.len() >= self.events_max
    }

    fn tally(&self) -> Tally {
        let unkept = self.lines.rescue.problem();
        Tally { records: self.events.len() as u64, seen: self.seen, lost: self.lost, unkept }
    }
}

#[cfg(test)]
mod tests;
