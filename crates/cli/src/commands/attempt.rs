//! `try -- COMMAND` and `advise TRACE`: from a program, or from what was recorded of one, to the one thing to do.
//!
//! `try` records the command (by the kernel's tracepoints, else by strace), and `advise` takes what was recorded before. Both
//! then simulate the reads on the device of this machine, as it is and under each change that could be made.

use super::applying::{self, Applied, Wish};
use super::file_system;
use super::here::{self, Here};
use super::reading::{self, ReadArgs};
use super::recording::note_command;
use super::records::Records;
use super::scratch::Scratch;
use crate::advice::{self, Advice, Ground, Reads, zfs};
use crate::error::{CliError, Kind};
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::Args;
use forerun_core::access::Op;
use forerun_core::units::{BLOCK_BYTES, Nanos};
use forerun_disk::preset::Preset;
use forerun_machine::apply::Change;
use forerun_machine::{Machine, Root, likeness, pools, zfs as arc};
use forerun_sim::host::hardware;
use forerun_sim::report::Comparison;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;
use forerun_study::assumed;
use forerun_study::fit::{Keep, Way, fitted};
use forerun_study::html::{self, Advised};
use forerun_study::human::{self, float};
use forerun_study::table::Align;
use forerun_trace::patterns::{Class, PatternOptions, patterns};
use forerun_trace::record::{Name, Record, Trace};
use forerun_trace::{Format, ReadOptions};
use forerun_watch::files::{self, FilesOptions};
use forerun_watch::outcome::RecordError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Help of `try`.
pub(crate) const TRY_HELP: &str = "\
Examples:
  forerun try -- sqlite3 app.db 'select count(*) from orders where customer = 7'
  sudo forerun try --cold --html try.html -- ./nightly-report

As root the kernel's page cache tells what the command reads (Linux 6.12); else strace does, if it is installed. The reads are
then simulated with an empty page cache on the device of this machine, as it is and under each change: another
read_ahead_kb, advice in the program (of all its files, or of some), `forerun serve` in front, more memory, another disk. What the
kernel does not tell is assumed, and the interval behind each effect spans the assumptions. Nothing is changed.";

/// Help of `advise`.
pub(crate) const ADVISE_HELP: &str = "\
Examples:
  forerun advise day.parquet
  forerun advise day.parquet --html advice.html --json
  sudo forerun advise day.parquet --apply -- ./nightly-report      # measured before and after, kept only if it pays
  sudo forerun advise --undo

Values are chosen on the first half of the trace and judged on all of it; the interval holds the second half alone too, so that
none is praised for what it happened to fit. Where the trace was recorded on this device, how long it took is held against its
simulation, and the interval is wider by what they differ. Traces of files are judged as the page cache reads ahead, of files of ZFS (--file-system zfs, where neither the trace nor this machine
says it) as ZFS does; traces of a device as `forerun serve` in front of it would.";

/// Most records that are simulated; the rest is left out and said.
const RECORDS_MAX: usize = 200_000;
/// Most pieces of reads that are cut at pages.
const PAGES_MAX: usize = 8 * RECORDS_MAX;
/// What stands below each advice for files of ZFS.
const NOT_OF_ZFS: &str = "compression, and how a pool lays files on its devices are not simulated, and nobody has measured such advice on a ZFS yet: \
                          --apply measures it with your program.";
/// Emptied once more, the cache of ZFS gives at least so many bytes, or it is as empty as it gets.
const ARC_STEP: u64 = 16 << 20;
/// Records of a half below which the whole trace is judged on what it was chosen on.
const HALF_MIN: usize = 200;

/// What the table of effects gives up first where there is no room.
const WAY: Way<'_> = Way {
    goes: &["from the device", "takes"],
    cut: &[("", Keep::Beginning)],
    all: "--json and a wider terminal have all",
};

/// Options of `try`.
#[derive(Debug, Args)]
pub(crate) struct TryArgs {
    /// Empty the page cache of the whole machine first, so that what was waited for is what a first run waits (root)
    #[arg(long)]
    cold: bool,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what --json would print to this file when the command has ended, apart from what that prints itself
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Simulate on this preset or preset file (forerun device list, forerun device measure) instead of what is assumed of this
    /// machine's device. A preset, or a file of another machine, is read as a current Linux reads it
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// What the files lie on, instead of what the trace or this machine says: files of ZFS are read ahead by ZFS itself, all others by the
    /// page cache
    #[arg(long, value_name = "KIND", value_parser = file_system::KINDS)]
    file_system: Option<String>,
    /// Keep the recording, as a trace that compare and advise read
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Command to run
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Options of `advise`.
#[derive(Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Trace file
    #[arg(value_name = "TRACE", required_unless_present = "undo")]
    file: Option<PathBuf>,
    /// Apply the advice if it is another read_ahead_kb, or parameters of ZFS: asks, notes what was there, runs the command that is given with the old and the new
    /// value in turns, and keeps the new one only if it pays (root)
    #[arg(long)]
    apply: bool,
    /// With --apply: do not ask
    #[arg(long, requires = "apply")]
    yes: bool,
    /// Take back what was applied, where it is still as it was left
    #[arg(long, conflicts_with_all = ["file", "apply", "device", "file_system", "html", "format", "columns", "skip_bad", "limit"])]
    undo: bool,
    /// Simulate on this preset or preset file (forerun device list, forerun device measure) instead of what is assumed of this
    /// machine's device. A preset, or a file of another machine, is read as a current Linux reads it
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// What the files lie on, instead of what the trace or this machine says: files of ZFS are read ahead by ZFS itself, all others by the
    /// page cache
    #[arg(long, value_name = "KIND", value_parser = file_system::KINDS)]
    file_system: Option<String>,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    /// With --apply: the program to measure with, each time with an empty page cache
    #[arg(last = true, value_name = "CMD", requires = "apply")]
    command: Vec<OsString>,
}

/// Records a command and says what would help it.
pub(crate) fn attempt(args: &TryArgs, ui: &Ui) -> Result<(), CliError> {
    let read: Vec<PathBuf> = args.device.iter().map(PathBuf::from).collect();
    let (html, keep, report) = (args.html.as_deref(), args.keep.as_deref(), args.report.as_deref());
    outputs::check(&[("--html", html), ("--keep", keep), ("--report", report)], &read)?;
    outputs::begin_report(report)?;
    if let Some(kept) = &args.keep {
        super::writing::check_json(kept, ui)?;
        // What cannot be written is not recorded.
        super::writing::target(kept, None)?;
    }
    let _held = args.keep.as_deref().map(|kept| outputs::hold_pipe(kept, ui)).transpose()?;
    let on = args.device.as_deref().map(here::named).transpose()?;
    if args.cold {
        empty_page_cache()?;
    }
    let file_system = args.file_system.as_deref();
    let (trace, how, status) = recorded(&args.command, file_system, ui)?;
    if let Some(path) = &args.keep {
        super::writing::write(path, None, &with_machine(&trace), ui)?;
    }
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let told =
        told(&words.join(" "), &how, &trace, &Manner { on, file_system, halves: false, own: true }, ui)?;
    show(&told, html, ui)?;
    outputs::report(report, &told, ui)?;
    status.map_or(Ok(()), |status| CliError::command("try", status))
}

/// The recording with what is known of the machine and of the current folder's device, as other recordings have it.
fn with_machine(trace: &Trace) -> Trace {
    let root = Root::host();
    let Ok(machine) = Machine::read(&root) else { return trace.clone() };
    let number = std::fs::metadata(".").ok().map(|folder| assumed::number(folder.dev()));
    let device = likeness::device_of_folder(&machine, number.as_deref());
    let mut about = forerun_machine::recorded::about(&root, &machine, device);
    about.extend(trace.about.clone());
    Trace { about, ..trace.clone() }
}

/// Says what would have helped what was recorded.
pub(crate) fn advise(args: &AdviseArgs, ui: &Ui) -> Result<(), CliError> {
    let root = Root::host();
    let Some(file) = args.file.as_ref().filter(|_| !args.undo) else { return applying::undo(&root, ui) };
    let read: Vec<_> = std::iter::once(file.clone()).chain(args.device.as_ref().map(PathBuf::from)).collect();
    outputs::check(&[("--html", args.html.as_deref())], &read)?;
    let on = args.device.as_deref().map(here::named).transpose()?;
    let opened = reading::open(file, &args.read, ui)?;
    let manner = Manner { on, file_system: args.file_system.as_deref(), halves: true, own: false };
    // Without the right to, the advice is still told.
    let held = args.apply.then(|| forerun_machine::apply::hold(&root));
    if let Some(Ok(_)) = held {
        applying::recover(&root, ui)?;
    }
    let mut told = told(&file.display().to_string(), "the trace", &opened.trace, &manner, ui)?;
    let Some(held) = held else { return show(&told, args.html.as_deref(), ui) };
    let changes = changes(&root, &told)?;
    if !ui.json {
        show(&told, args.html.as_deref(), ui)?;
    }
    let cold = if told.zfs { empty_arc } else { empty_page_cache };
    let wish = Wish { yes: args.yes, command: args.command.clone(), cold };
    told.applied = applying::apply(&root, &changes, &wish, held, ui)?;
    if ui.json {
        return show(&told, args.html.as_deref(), ui);
    }
    let lines = told.applied.iter().flat_map(Applied::lines);
    ui.print(&lines.map(|line| format!("{line}\n")).collect::<String>())
}

/// What is to be set for the advice to come true; nothing where it is to leave things as they are.
fn changes(root: &Root, told: &Told) -> Result<Vec<Change>, CliError> {
    let cannot = |what: &str, remedy| Err(CliError::new(Kind::Unsupported, "advise --apply", what, remedy));
    let failed = |problem| CliError::failure("advise --apply", problem);
    if told.foreign {
        let what = "the trace names a device, and does not say that it was recorded on this machine";
        return cannot(what, "record here: forerun trace record --files");
    }
    let Some(pick) = told.advice.pick else { return Ok(Vec::new()) };
    let effect = &told.advice.effects[pick];
    match &effect.change {
        advice::Change::Window(kib) => {
            let machine = Machine::read(root).ok();
            let Some(device) = machine.as_ref().and_then(|machine| machine.device(&told.place)) else {
                let what = "the device that this was simulated on is not one of this machine";
                return cannot(what, "leave out --device, or name what was measured here");
            };
            Change::window(root, device, *kib).map(|change| vec![change]).map_err(failed)
        }
        advice::Change::Zfs(_) if !told.as_set_here => {
            let what = "what was simulated is not the ZFS of this machine";
            cannot(what, "leave out --device, on a machine with the zfs module")
        }
        advice::Change::Zfs(parameters) => {
            let of = |parameter: &zfs::Parameter| {
                Change::parameter(root, zfs::MODULE, parameter.name, parameter.value)
            };
            parameters.iter().map(of).collect::<Result<_, _>>().map_err(failed)
        }
        _ => {
            let what = format!("what is advised is: {}, which is not for a program to set", effect.name);
            cannot(&what, "advise without --apply says how")
        }
    }
}

fn empty_page_cache() -> Result<(), CliError> {
    // What is dirty stays, so it is written first.
    let _ = Command::new("sync").status();
    std::fs::write("/proc/sys/vm/drop_caches", "1").map_err(|problem| {
        let remedy = "run as root, or leave out --cold of try and the command of advise";
        CliError::new(Kind::Unsupported, "the page cache cannot be emptied", problem, remedy)
    })
}

/// Empties the cache of ZFS as far as the kernel can have it emptied, and the page cache with it.
fn empty_arc() -> Result<(), CliError> {
    empty_page_cache()?;
    let root = Root::host();
    let mut left = u64::MAX;
    // Each time it gives a part, which its own limit (zfs_arc_shrinker_limit) makes small.
    while let Some(now) = arc::cached_bytes(&root).filter(|&now| now.saturating_add(ARC_STEP) < left) {
        left = now;
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    }
    Ok(())
}

/// What the command read, by what it was seen, and how the command ended.
fn recorded(
    command: &[OsString],
    file_system: Option<&str>,
    ui: &Ui,
) -> Result<(Trace, String, Option<ExitStatus>), CliError> {
    let is_zfs = |said| said == pools::KIND;
    if file_system.map_or_else(|| file_system::folder_is_zfs(&Root::host(), None), is_zfs) {
        ui.say("reads of ZFS are not in the page cache: recording with strace");
        return by_strace(command);
    }
    let mut options = FilesOptions::new(command.to_vec());
    options.stop = forerun_watch::signals::stop_flag().ok();
    match files::record_files(&options, &mut |_| {}) {
        Ok(recording) => {
            let status = recording.ended.status();
            let mut trace = recording.trace;
            note_command(&mut trace, &recording.ended, recording.elapsed);
            Ok((trace, "the kernel's page cache".into(), status))
        }
        Err(RecordError::Unsupported { what, .. }) => {
            ui.say(&format!("{what}: recording with strace instead"));
            by_strace(command)
        }
        Err(problem) => Err(CliError::recording("try", problem)),
    }
}

fn by_strace(command: &[OsString]) -> Result<(Trace, String, Option<ExitStatus>), CliError> {
    let text = Scratch::new().map_err(|problem| CliError::failure("a temporary file", problem))?;
    let status = Command::new("strace")
        .args(["-f", "-ttt", "-T", "-y", "-o"])
        .arg(text.path())
        .arg("--")
        .args(command)
        .status();
    let status = status.map_err(|problem| {
        let remedy = "run as root on Linux 6.12 or later, or install strace";
        CliError::new(Kind::Unsupported, "strace", problem, remedy)
    })?;
    let opened = forerun_trace::open(text.path(), &ReadOptions::of(Format::Strace))
        .map_err(|problem| CliError::failure("strace", problem))?;
    Ok((opened.trace, "strace, which does not see reads of mapped files".into(), Some(status)))
}

/// Everything that is said.
#[derive(Serialize)]
struct Told {
    what: String,
    /// Reads and bytes, what was waited for, patterns.
    facts: Vec<String>,
    device: String,
    assumed: String,
    advice: Advice,
    #[serde(rename = "do")]
    todo: Vec<String>,
    undo: Vec<String>,
    notes: Vec<String>,
    /// The device here; empty where there is none.
    #[serde(skip)]
    place: String,
    /// Whether the trace names a device of another machine.
    #[serde(skip)]
    foreign: bool,
    /// Whether the files are of ZFS.
    #[serde(skip)]
    zfs: bool,
    /// Whether what was simulated as it is is so on this machine.
    #[serde(skip)]
    as_set_here: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Applied>,
}

/// What the reads are simulated on, and whether values are judged on another part than that on which they were chosen.
struct Manner<'a> {
    /// A preset that was said; else this machine's.
    on: Option<Said<Preset>>,
    /// The file system that was said.
    file_system: Option<&'a str>,
    halves: bool,
    /// Whether it was recorded just now.
    own: bool,
}

impl Manner<'_> {
    /// What the trace is simulated on, with what reads ahead above it.
    fn place(&self, trace: &Trace, of_files: bool, root: &Root, machine: Option<&Machine>) -> Here {
        let mount = file_system::mount(root, trace);
        let here = here::device_of(trace, machine, mount.as_ref(), self.own);
        let here = match self.on.clone() {
            Some(preset) => here.on(preset, machine),
            None => here,
        };
        // A device that was said has what is usual above it, wherever it is said.
        let mount = mount.filter(|_| here.is_here);
        let is_zfs = of_files && file_system::is_zfs(self.file_system, trace, mount.as_ref());
        if is_zfs { here.below_zfs(root) } else { here }
    }
}

/// Why nothing can be said of a command that was recorded just now, or of a trace.
fn nothing_read(what: &str, how: &str, trace: &Trace, own: bool) -> CliError {
    let why = match (own, trace.records.is_empty()) {
        (true, _) => format!("it read nothing of files that {how} could see"),
        (false, true) => "the trace has no requests".to_owned(),
        (false, false) => {
            "the trace has no read that moves a byte, and only reads can be read ahead of".to_owned()
        }
    };
    CliError::failure(what, why)
}

fn told(what: &str, how: &str, trace: &Trace, manner: &Manner<'_>, ui: &Ui) -> Result<Told, CliError> {
    let reads: Vec<_> = trace.records.iter().filter(|record| record.op == Op::Read).collect();
    if reads.iter().all(|record| record.bytes == 0) {
        return Err(nothing_read(what, how, trace, manner.own));
    }
    let of_files = reads.iter().any(|record| record.file != Name::ABSENT);
    let root = Root::host();
    let machine = Machine::read(&root).ok();
    let here = manner.place(trace, of_files, &root, machine.as_ref());
    let records = here.zfs.as_ref().map(|_| Records::of(trace, here.is_here.then_some(&root)));
    let footprint = records.as_ref().map_or_else(|| trace.info().footprint_bytes, Records::footprint);
    let here_as_it_was = here.recorded(trace);
    let Here { likeness, preset, rule, can_serve, zfs, foreign, .. } = here;
    let as_set_here = zfs.as_ref().is_some_and(zfs::Prefetcher::is_loaded);
    let timed = reads.iter().filter(|record| record.took.is_some() && record.time.is_some()).count();
    let available = machine.as_ref().map_or(1 << 30, |machine| machine.system.available_bytes);
    let ground = Ground {
        // More than the reads touch changes nothing.
        memory_bytes: zfs
            .as_ref()
            .map_or(available, |zfs| zfs.memory(available))
            .min(footprint.saturating_mul(2).saturating_add(64 << 20)),
        // A quarter of what nobody uses.
        spare_bytes: available / 4,
        mode: if 2 * timed > reads.len() { "paced" } else { "closed:1" },
        of_files,
        can_serve,
        likeness,
        preset,
        zfs,
    };
    let mut notes = Vec::new();
    let parts = parts(trace, records.as_ref(), manner.halves, &mut notes)?;
    let (choose, judge) = (parts.choose.reads(), parts.judge(here_as_it_was && ground.mode == "paced"));
    let advice = advice::study(what, &choose, &judge, &ground, ui)?;
    notes.extend(advice.as_recorded.map(compared));
    let (fix, undo) = match advice.pick {
        Some(pick) => advice::steps(&advice.effects[pick].change, &ground, rule.as_deref()),
        None => (Vec::new(), Vec::new()),
    };
    if advice.pick.is_some_and(|pick| matches!(advice.effects[pick].change, advice::Change::Window(_))) {
        notes.push("read_ahead_kb counts for all that is read from the device: record the others too before it is set for good.".into());
    }
    notes.extend(ground.zfs.as_ref().map(|_| NOT_OF_ZFS.to_owned()));
    notes.extend(of_the_trace(trace, footprint, &advice.runs[0].spec, foreign));
    if !ground.can_serve && ground.zfs.is_none() {
        notes
            .push(format!("{} holds the system: no server can be put in front of it.", ground.likeness.name));
    }
    let commands = |steps: Vec<forerun_machine::finding::Step>| -> Vec<String> {
        steps.into_iter().map(|step| format!("{}: {}", step.what, step.command)).collect()
    };
    Ok(Told {
        what: what.into(),
        facts: facts(trace, how, &ground),
        device: ground.preset.text().into(),
        assumed: ground.likeness.why.clone(),
        advice,
        todo: commands(fix),
        undo: commands(undo),
        notes,
        place: ground.likeness.name.clone(),
        foreign,
        zfs: ground.zfs.is_some(),
        as_set_here,
        applied: None,
    })
}

/// What is remarked of a trace itself: bad records, that it is too large, that it is of another machine.
fn of_the_trace(trace: &Trace, footprint: u64, spec: &RunSpec, foreign: bool) -> Vec<String> {
    let skipped = (trace.skipped > 0)
        .then(|| format!("{} bad records of the trace were passed over.", human::count(trace.skipped)));
    let foreign = foreign.then(|| {
        "the trace does not say that it was recorded on this machine, so the device that it names is not taken for one of this.".to_owned()
    });
    skipped.into_iter().chain(beyond(trace, footprint, spec)).chain(foreign).collect()
}

/// That a trace is larger than what it is simulated on, where it is.
fn beyond(trace: &Trace, footprint: u64, spec: &RunSpec) -> Option<String> {
    let mut ends: BTreeMap<Name, u64> = BTreeMap::new();
    for record in trace.records.iter().filter(|record| record.file == Name::ABSENT) {
        let end = ends.entry(record.device).or_default();
        *end = (*end).max(record.offset.saturating_add(record.bytes));
    }
    let ends = ends.values().fold(0, |all: u64, &end| all.saturating_add(end));
    // Of files only what is touched counts.
    let spans = ends.max(footprint);
    let holds = hardware(spec).ok()?.array.capacity_blocks().saturating_mul(BLOCK_BYTES);
    (spans > holds).then(|| {
        format!(
            "the trace spans {} and {} holds {}: what lies behind its end was put within it, so reads are not as far apart as they were. --device \
             names a larger one.",
            human::bytes(float(spans)),
            spec.device,
            human::bytes(float(holds))
        )
    })
}

/// How the simulation of what was recorded compares with the recording.
fn compared(as_recorded: f64) -> String {
    let times = human::times(1.0 / as_recorded);
    if (1.0 / advice::APART_MAX..=advice::APART_MAX).contains(&as_recorded) {
        return format!(
            "simulated as it is it takes {times} as long as the recording, which each interval holds."
        );
    }
    format!(
        "simulated as it is it takes {times} as long as the recording: some of it was in the page cache, the machine was busy, or the device is \
         not as described (`forerun device measure`)."
    )
}

/// A part of a trace as files that go when we do.
struct Part {
    whole: Scratch,
    by_pages: Option<Scratch>,
    /// Its share of the time in which the program did not read.
    outside: Nanos,
}

impl Part {
    fn new(records: &[Record], of: &Trace, zfs: Option<&Records>) -> Result<Self, CliError> {
        let sized = zfs.map_or(of, |zfs| &zfs.sized);
        let write = |records: Vec<Record>| {
            let failed = |problem: &dyn std::fmt::Display| CliError::failure("a temporary file", problem);
            let mut scratch = Scratch::new().map_err(|problem| failed(&problem))?;
            let part = Trace { records, ..sized.clone() };
            forerun_trace::write_to(scratch.file(), Format::Parquet, &part)
                .map_err(|problem| failed(&problem))?;
            Ok::<_, CliError>(scratch)
        };
        // Nothing of ZFS is read page by page.
        let pages = if zfs.is_some() { None } else { by_pages(records) };
        let pages = pages.map(write).transpose()?;
        let whole = zfs.map_or_else(|| records.to_vec(), |zfs| zfs.whole(records));
        let (part, all) = (records.len() as u64, of.records.len() as u64);
        let outside = Nanos(of.outside().0 / all.max(1) * part);
        Ok(Self { whole: write(whole)?, by_pages: pages, outside })
    }

    fn reads(&self) -> Reads {
        Reads {
            whole: self.whole.path().display().to_string(),
            by_pages: self.by_pages.as_ref().map(|pages| pages.path().display().to_string()),
            outside_ns: self.outside.0,
            recorded_ns: None,
        }
    }
}

/// What was recorded, as parts to be run.
struct Parts {
    /// On which values are chosen.
    choose: Part,
    /// All of it, where that is more.
    all: Option<Part>,
    /// What no choice has seen.
    held_out: Option<Part>,
    /// From the first read to the end of the last, where every one says.
    span: Option<Nanos>,
}

impl Parts {
    /// All of it, and what no choice has seen.
    fn judge(&self, as_it_was: bool) -> Vec<Reads> {
        let all = self.all.as_ref().unwrap_or(&self.choose).reads();
        let recorded_ns = self.span.filter(|_| as_it_was).map(|span| span.0);
        let all = Reads { recorded_ns, ..all };
        std::iter::once(all).chain(self.held_out.as_ref().map(Part::reads)).collect()
    }
}

/// From the first request to the end of the last.
fn span(records: &[Record]) -> Option<Nanos> {
    let starts: Option<Vec<Nanos>> = records.iter().map(|record| record.time).collect();
    let ends =
        records.iter().zip(starts.as_ref()?).map(|(record, &at)| at + record.took.unwrap_or(Nanos::ZERO));
    Some(ends.max()?.since(*starts.as_ref()?.iter().min()?))
}

/// Reads of files cut at pages, each piece asked for when the one before is here; none of too many.
fn by_pages(records: &[Record]) -> Option<Vec<Record>> {
    let mut pages = Vec::new();
    for record in records {
        let (start, end) = (record.offset, record.offset.saturating_add(record.bytes));
        let count = end.div_ceil(BLOCK_BYTES) - start / BLOCK_BYTES;
        if record.op != Op::Read || count < 2 {
            pages.push(*record);
            continue;
        }
        if count > PAGES_MAX as u64 || pages.len() + count as usize > PAGES_MAX {
            return None;
        }
        // The time that it took, in equal parts without a gap: the program computes behind the last one.
        let share =
            |part: u64| record.took.map(|took| Nanos(took.0 / count * part + took.0 % count * part / count));
        pages.extend((0..count).map(|part| {
            let offset = start.max((start / BLOCK_BYTES + part) * BLOCK_BYTES);
            let until = end.min((start / BLOCK_BYTES + part + 1) * BLOCK_BYTES);
            let (from, to) = (share(part), share(part + 1));
            let time = record.time.map(|time| time + from.unwrap_or(Nanos::ZERO));
            let took = from.zip(to).map(|(from, to)| to.since(from));
            Record { time, took, offset, bytes: until - offset, ..*record }
        }));
    }
    Some(pages)
}

/// The trace as files to be run.
fn parts(
    trace: &Trace,
    zfs: Option<&Records>,
    halves: bool,
    notes: &mut Vec<String>,
) -> Result<Parts, CliError> {
    let kept = trace.records.len().min(RECORDS_MAX);
    if kept < trace.records.len() {
        let (kept, all) = (human::count(kept as u64), human::count(trace.records.len() as u64));
        notes.push(format!("only the first {kept} of {all} requests were simulated."));
    }
    let part = |from: usize, to: usize| Part::new(&trace.records[from..to], trace, zfs);
    let (half, span) = (kept / 2, span(&trace.records[..kept]));
    if halves && half >= HALF_MIN {
        let (choose, all) = (part(0, half)?, part(0, kept)?);
        return Ok(Parts { choose, all: Some(all), held_out: Some(part(half, kept)?), span });
    }
    if halves {
        notes.push(
            "the trace is too short to judge on another part than that on which values were chosen.".into(),
        );
    }
    Ok(Parts { choose: part(0, kept)?, all: None, held_out: None, span })
}

fn facts(trace: &Trace, how: &str, ground: &Ground) -> Vec<String> {
    let info = trace.info();
    let mut facts = vec![format!(
        "{} reads, {} of {} files{}, seen by {how}",
        human::count(info.reads),
        human::bytes(float(info.bytes_read)),
        human::count(info.files),
        info.duration_ns.map_or_else(String::new, |ns| format!(", in {}", human::duration(float(ns)))),
    )];
    if let Ok(found) = patterns(trace, &PatternOptions::default()) {
        let shares = Class::ALL.iter().map(|&class| (found.total.share(class), class.name()));
        let mut shares: Vec<_> = shares.filter(|&(share, _)| share >= 0.01).collect();
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let shares: Vec<String> =
            shares.iter().map(|(share, name)| format!("{} {name}", human::percent(*share))).collect();
        facts.push(format!("it reads {}", shares.join(", ")));
    }
    let waited: u64 = trace.records.iter().filter_map(|record| record.took).map(|took| took.0).sum();
    if ground.mode == "paced" {
        facts.push(format!(
            "this time it waited {} for reads, all processes together",
            human::duration(float(waited))
        ));
    }
    let outside = trace.outside();
    if outside > Nanos::ZERO {
        facts.push(format!(
            "before its first read and after its last one it ran for {}, which stays",
            human::duration(float(outside.0))
        ));
    }
    facts
}

fn show(told: &Told, page: Option<&Path>, ui: &Ui) -> Result<(), CliError> {
    let advice = &told.advice;
    let verdict = match advice.pick {
        Some(_) => format!("Do this: {}.", advice.why),
        None => format!("Leave it: {}.", advice.why),
    };
    let rows: Vec<Vec<String>> = advice.effects.iter().map(row).collect();
    let header = [
        ("", Align::Left),
        ("takes", Align::Right),
        ("faster", Align::Right),
        ("between", Align::Left),
        ("from the device", Align::Right),
    ];
    if let Some(path) = page {
        outputs::write(path, advice_page(told, &verdict, &header.map(|(name, _)| name), &rows))?;
        ui.say(&format!("page written to {}", path.display()));
    }
    if ui.json {
        return ui.print_json(told);
    }
    let mut text = format!("{}\n", ui.paint(Style::Bold, &told.what));
    for fact in &told.facts {
        text.push_str(&format!("  {fact}\n"));
    }
    text.push_str(&format!("  simulated cold on {}: {}\n\n", told.device, told.assumed));
    text.push_str(&fitted(&header, &rows, WAY, ui.columns).text());
    text.push_str(&format!("\n{}\n", ui.paint(Style::Bold, &verdict)));
    for (word, lines) in [("", &told.todo), ("undo, ", &told.undo), ("", &told.notes)] {
        for line in lines {
            text.push_str(&format!("  {word}{line}\n"));
        }
    }
    ui.print(&text)
}

fn advice_page(told: &Told, verdict: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    let undo = told.undo.iter().map(|line| format!("undo, {line}"));
    let steps: Vec<String> =
        told.todo.iter().cloned().chain(undo).chain(told.notes.iter().cloned()).collect();
    let assumed = format!("simulated cold on {}: {}", told.device, told.assumed);
    let facts: Vec<String> = told.facts.iter().cloned().chain([assumed]).collect();
    let advised = Advised { what: &told.what, verdict, steps: &steps, facts: &facts, header, rows };
    html::advice(&advised, &Comparison::of(told.advice.runs.clone()))
}

fn row(effect: &advice::Effect) -> Vec<String> {
    let (low, high) = effect.interval;
    vec![
        effect.name.clone(),
        human::duration(float(effect.elapsed_ns)),
        human::times(effect.factor),
        format!("{} and {}", human::times(low), human::times(high)),
        human::bytes(float(effect.device_bytes)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_cut_at_pages_ask_for_the_same_bytes_one_after_the_other() {
        let read = Record {
            time: Some(Nanos(1_000)),
            took: Some(Nanos(1_000)),
            offset: 5_000,
            bytes: 10_000,
            ..Record::BLANK
        };
        let (write, short) =
            (Record { op: Op::Write, ..read }, Record { offset: 4_096, bytes: 4_096, ..read });
        let pages = by_pages(&[read, write, short]).expect("few");
        let places: Vec<(u64, u64)> = pages.iter().map(|page| (page.offset, page.bytes)).collect();
        assert_eq!(
            places,
            [(5_000, 3_192), (8_192, 4_096), (12_288, 2_712), (5_000, 10_000), (4_096, 4_096)]
        );
        let times: Vec<u64> = pages.iter().filter_map(|page| page.time).map(|time| time.0).collect();
        let took: Vec<u64> = pages.iter().filter_map(|page| page.took).map(|took| took.0).collect();
        assert_eq!((&times[..3], &took[..3]), (&[1_000, 1_333, 1_666][..], &[333, 333, 334][..]));
        assert_eq!(by_pages(&[Record { bytes: u64::MAX, ..read }]), None);
    }

    #[test]
    fn a_trace_is_judged_whole_and_on_what_no_choice_has_seen() {
        let read = |n: u64| Record {
            time: Some(Nanos(n * 1_000)),
            took: Some(Nanos(700)),
            offset: n * 4_096,
            bytes: 4_096,
            ..Record::BLANK
        };
        let trace = Trace { records: (0..500).map(read).collect(), ..Trace::default() };
        let reads = |reads: &Reads| {
            let opened =
                forerun_trace::open(Path::new(&reads.whole), &ReadOptions::default()).expect("a trace");
            (opened.trace.records.len(), reads.recorded_ns)
        };
        let parts = parts(&trace, None, true, &mut Vec::new()).expect("written");
        assert_eq!(reads(&parts.choose.reads()), (250, None));
        let judged: Vec<_> = parts.judge(true).iter().map(reads).collect();
        assert_eq!(judged, [(500, Some(499_700)), (250, None)]);
        assert_eq!(parts.judge(false)[0].recorded_ns, None);
    }
}
