//! Inputs: a trace file or a workload line becomes requests of programs on one volume.
//!
//! Loading is apart from running, so that a comparison reads its input once and every run starts from the same one.

use crate::error::RunError;
use crate::replay::{Drive, Map, Mapped, Mode, ReplayError, map_trace};
use crate::said::Said;
use crate::spec::RunSpec;
use crate::workload::Workload;
use forerun_core::access::Advice;
use forerun_trace::TraceError;
use forerun_trace::kept::Kept;
use forerun_trace::options::ReadOptions;
use forerun_trace::record::{Name, Trace};
use sha2::{Digest, Sha256};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// How a file gets in whose format does not say itself: a run has no options for it.
const CONVERT: &str =
    "make a trace of it with `forerun trace convert FILE OUT.parquet` and --format NAME or --columns MAPPING";

fn is_of_no_known_format(error: &TraceError) -> bool {
    matches!(error, TraceError::Malformed(bad) if bad.format == "unknown")
}

/// Without the file, which is named beside it, and the remedy of who reads with options.
fn in_short(error: &TraceError) -> String {
    match error {
        TraceError::Malformed(bad) => format!("expected {}, found {}", bad.expected, bad.found),
        other => other.to_string(),
    }
}

/// Most bytes of a file with a workload in it.
const TABLE_BYTES_MAX: u64 = 1 << 20;

/// Whether a name is that of a file with a `[workload]` in it, and of no trace.
#[must_use]
pub fn is_table(given: &str) -> bool {
    given.ends_with(".toml") && Path::new(given).is_file()
}

/// The workload that a file states.
fn of_table(given: &str) -> Result<Workload, RunError> {
    let mut text = String::new();
    std::fs::File::open(given)
        .and_then(|file| file.take(TABLE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|problem| RunError::Input { input: given.into(), why: problem.to_string() })?;
    Workload::from_toml(&text)
        .map_err(|problem| RunError::Spec { field: "input", why: format!("{given}: {problem}") })
}

/// What a name stands for that is there and no file.
fn no_file(path: &Path) -> Option<&'static str> {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = path.metadata().ok()?.file_type();
    Some(if kind.is_dir() {
        "it is a folder"
    } else if kind.is_block_device() || kind.is_char_device() {
        "it is a device"
    } else if kind.is_fifo() {
        "it is a pipe, which can be read only once"
    } else {
        "it is no file"
    })
}

/// What kind of input it is.
#[derive(Clone, Debug)]
enum Kind {
    Trace(Arc<Kept>),
    Workload(Arc<Workload>),
}

/// An input, loaded once and shared by all runs of a comparison.
#[derive(Clone, Debug)]
pub struct Input {
    /// As given: a path or a workload line.
    pub given: String,
    /// Short name for reports: the file's name, or the canonical workload line.
    pub name: String,
    /// Hash of the file's bytes, or of the canonical workload line.
    pub hash: String,
    /// Malformed records that were passed over.
    pub skipped: u64,
    /// In which units its numbers were taken to be, where nothing in the file says so.
    pub assumed: Option<String>,
    kind: Kind,
}

/// The programs of a run, ready to go.
pub struct Programs {
    /// What the event loop pulls requests from.
    pub drive: Drive,
    /// Starts of files in the volume, bytes, ascending; read-ahead stays within a file.
    pub files: Vec<u64>,
    /// End of the last file, bytes, where its size is known.
    pub files_end: Option<u64>,
    /// Requests in all, where known beforehand.
    pub requests: Option<u64>,
    /// Bytes of the volume that are used.
    pub footprint_bytes: u64,
    /// The order of requests does not depend on how fast they are served.
    pub fixed_order: bool,
    /// What programs say of their files, by number; of those beyond the end nothing.
    pub advice: Vec<Advice>,
    /// Each source is a stream that is worth a measure of its own.
    pub of_streams: bool,
}

impl Input {
    /// Loads a trace file or the `[workload]` of a `.toml` file, or parses a workload line if no file has that name.
    ///
    /// # Errors
    /// [`RunError::Input`] with the place and the remedy; [`RunError::Spec`] for what can only be meant as a workload.
    pub fn load(given: &str, options: &ReadOptions) -> Result<Self, RunError> {
        let wrong = |why: String| RunError::Input { input: given.into(), why };
        if given == "-" {
            let why = "`-`: an input is read more than once, and standard input is not: name a trace file (`forerun trace convert - FILE` \
                       makes one; `trace info` and `trace patterns` read -)";
            return Err(RunError::Spec { field: "input", why: why.into() });
        }
        if is_table(given) {
            return Ok(Self::of_workload(given, of_table(given)?));
        }
        if Path::new(given).is_file() {
            let mut kept = Kept::default();
            let opened = forerun_trace::through(given, options, &mut |records| kept.take(records)).map_err(
                |error| {
                    if is_of_no_known_format(&error) {
                        return wrong(format!("{}; {CONVERT}", in_short(&error)));
                    }
                    // Both name the file; once is enough.
                    let why = error.to_string();
                    wrong(
                        why.strip_prefix(given)
                            .and_then(|why| why.strip_prefix(": "))
                            .map_or(why.clone(), Into::into),
                    )
                },
            )?;
            let name =
                Path::new(given).file_name().map_or(given.into(), |n| n.to_string_lossy().into_owned());
            return Ok(Self {
                given: given.into(),
                name,
                hash: opened.hash_hex,
                skipped: opened.trace.skipped,
                assumed: opened.trace.assumed,
                kind: Kind::Trace(Arc::new(kept.finish(opened.trace.names, opened.trace.file_sizes))),
            });
        }
        let workload = if given.trim_start().starts_with('[') {
            Workload::from_toml(given)
        } else {
            Workload::parse(given)
        };
        let workload = workload.map_err(|error| {
            if let Some(what) = no_file(Path::new(given)) {
                return wrong(format!("{what}: name a trace file in its place"));
            }
            let why = format!("there is no such file, and it is no workload either: {error}");
            // A name with keys behind it is a workload with a mistake, a bare word a file that is missing.
            let meant = given.trim_start().starts_with('[') || given.contains([':', '=']);
            if meant { RunError::Spec { field: "input", why: format!("{given}: {why}") } } else { wrong(why) }
        })?;
        Ok(Self::of_workload(given, workload))
    }

    /// A workload that has been parsed already.
    #[must_use]
    pub fn of_workload(given: &str, workload: Workload) -> Self {
        let name = workload.to_string();
        let hash = hex(&Sha256::digest(name.as_bytes()));
        let kind = Kind::Workload(Arc::new(workload));
        Self { given: given.into(), name, hash, skipped: 0, assumed: None, kind }
    }

    /// A trace in memory, under a name.
    #[must_use]
    pub fn of_trace(name: &str, hash: &str, trace: Trace) -> Self {
        Self::of_shared(name, hash, &trace)
    }

    /// A trace in memory that others hold.
    #[must_use]
    pub fn of_shared(name: &str, hash: &str, trace: &Trace) -> Self {
        let (skipped, kind) = (trace.skipped, Kind::Trace(Arc::new(Kept::of(trace))));
        let assumed = trace.assumed.clone();
        Self { given: name.into(), name: name.into(), hash: hash.into(), skipped, assumed, kind }
    }

    /// The trace with its records as a list, if it is one.
    #[must_use]
    pub fn trace(&self) -> Option<Trace> {
        self.kept().map(Kept::to_trace)
    }

    fn kept(&self) -> Option<&Kept> {
        match &self.kind {
            Kind::Trace(trace) => Some(trace),
            Kind::Workload(_) => None,
        }
    }

    /// Whether another seed makes another input: no trace does.
    #[must_use]
    pub fn follows_seed(&self) -> bool {
        matches!(&self.kind, Kind::Workload(workload) if workload.follows_seed())
    }

    /// What a report calls it: its name, and the device where the spec keeps only one of a trace.
    #[must_use]
    pub fn name_under(&self, spec: &RunSpec) -> String {
        match (self.kept(), &*spec.map) {
            (Some(_), Map::Only(device)) if !device.is_empty() => format!("{}, device {device}", self.name),
            _ => self.name.clone(),
        }
    }

    /// That a field of the spec does not fit this input, with its name: there may be several.
    fn unfit(&self, field: &'static str, why: impl std::fmt::Display) -> RunError {
        RunError::Spec { field, why: format!("{}: {why}", self.given) }
    }

    /// That there is nothing to run: no fault of the spec.
    fn nothing(&self) -> RunError {
        RunError::Input {
            input: self.given.clone(),
            why: "the trace has no request that moves a byte".into(),
        }
    }

    /// The same of a trace that cannot be placed or replayed; what is damaged is no fault of the spec.
    fn refused(&self, problem: &ReplayError, field: &'static str) -> RunError {
        match problem {
            ReplayError::Address { .. } => {
                RunError::Input { input: self.given.clone(), why: problem.to_string() }
            }
            ReplayError::Device { .. } => self.unfit("map", problem),
            _ => self.unfit(field, problem),
        }
    }

    /// The runs that a spec stands for: with `one-array-each` one for each device of a trace, in the order in which
    /// they first appear, each on an array of its own; otherwise the spec as it is.
    ///
    /// # Errors
    /// [`RunError::Spec`] for a trace of which no request moves a byte.
    pub fn each_device(&self, spec: &RunSpec) -> Result<Vec<RunSpec>, RunError> {
        let Some(trace) = self.kept().filter(|_| *spec.map == Map::OneArrayEach) else {
            return Ok(vec![spec.clone()]);
        };
        let devices = trace.moving();
        if devices.is_empty() {
            return Err(self.nothing());
        }
        let only = |device: Name| {
            let map = Map::Only(trace.names[device.0 as usize].clone());
            Said::of(&map.to_string())
        };
        Ok(devices.into_iter().map(|device| RunSpec { map: only(device), ..spec.clone() }).collect())
    }

    /// The programs of a run on a volume of `capacity` bytes.
    ///
    /// # Errors
    /// [`RunError`] when the mode or the map does not fit the input, or the volume is too small.
    pub fn programs(&self, spec: &RunSpec, capacity: u64) -> Result<Programs, RunError> {
        let of = |field: &'static str| move |why: String| RunError::Spec { field, why };
        match &self.kind {
            Kind::Workload(workload) => self.of_shape(workload, spec, capacity),
            Kind::Trace(trace) => {
                if *spec.map == Map::OneArrayEach {
                    let why = "one-array-each makes one run per device (Input::each_device); a single run takes concat or only:DEVICE";
                    return Err(of("map")(why.into()));
                }
                let mapped = map_trace(trace, &spec.map, capacity, *spec.fit)
                    .map_err(|e| self.refused(&e, "input"))?;
                let mapped: &Mapped = mapped.first().ok_or_else(|| self.nothing())?;
                if mapped.requests() == 0 {
                    return Err(self.nothing());
                }
                let drive = mapped.drive(*spec.mode, spec.repeat).map_err(|e| self.refused(&e, "mode"))?;
                let alone = match &drive {
                    Drive::Timed(_) => true,
                    Drive::Sources { sources, .. } => sources.len() == 1,
                };
                Ok(Programs {
                    drive,
                    files: mapped.files.clone(),
                    files_end: mapped.files_end,
                    requests: Some(mapped.requests() * spec.repeat),
                    footprint_bytes: mapped.footprint_bytes.min(capacity),
                    fixed_order: alone,
                    advice: mapped.advice(&spec.advise),
                    of_streams: false,
                })
            }
        }
    }

    fn of_shape(&self, workload: &Workload, spec: &RunSpec, capacity: u64) -> Result<Programs, RunError> {
        if !spec.advise.is_empty() {
            let why = "files of a workload have no names: give a trace of files";
            return Err(RunError::Spec { field: "advise", why: why.into() });
        }
        if matches!(*spec.map, Map::Only(_)) {
            let why = "a workload has no devices: leave --map out, or give a trace";
            return Err(RunError::Spec { field: "map", why: why.into() });
        }
        let outstanding = match *spec.mode {
            Mode::Closed { outstanding } => outstanding,
            Mode::Paced => 1,
            Mode::Open => {
                let why = "a workload has no recorded times: use closed:N, or paced for its own think times";
                return Err(RunError::Spec { field: "mode", why: why.into() });
            }
        };
        if spec.repeat != 1 {
            let why = "a workload is not repeated; give it more requests, or phases joined by then";
            return Err(RunError::Spec { field: "repeat", why: why.into() });
        }
        let footprint = workload.footprint_bytes();
        if footprint > capacity {
            let (f, c) =
                (forerun_core::size::about_size(footprint), forerun_core::size::about_size(capacity));
            let why =
                format!("the workload spans {f}, the array holds {c}: use a larger array or a smaller size=");
            return Err(self.unfit("input", why));
        }
        Ok(Programs {
            drive: Drive::Sources { sources: workload.sources(spec.seed), outstanding },
            files: workload.files(),
            files_end: None,
            requests: None,
            footprint_bytes: footprint,
            fixed_order: workload.processes() == 1,
            advice: Vec::new(),
            of_streams: workload.is_of_streams(),
        })
    }
}

/// Lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
