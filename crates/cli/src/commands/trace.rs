//! `trace`: what is in a trace, from one format to another, recorded from the kernel, or made from a workload.

use super::file_system;
use super::part;
use super::patterns;
use super::quieted::{self, Quieted};
use super::reading::{COLUMNS_HELP, ReadArgs, open, through};
use super::recording;
use super::writing::{check_json, is_dash, target, write, wrote};
use crate::error::CliError;
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_machine::device::BlockDevice;
use forerun_machine::{Machine, Root, likeness};
use forerun_sim::workload::Workload;
use forerun_study::assumed;
use forerun_study::human::{self, float};
use forerun_trace::record::Trace;
use forerun_trace::{Format, Tally, TraceInfo};
use forerun_watch::device::Device;
use forerun_watch::files::{self, FilesOptions};
use forerun_watch::outcome::{Ended, Progress, RecordError};
use forerun_watch::record::{self, RecordOptions, Recording, Source};
use forerun_watch::rescue::RescueAt;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

static FORMATS: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::from("Formats (found by content; .gz, .xz and .zst are unpacked):\n");
    for format in Format::all() {
        let written = if format.is_written() { ", written too" } else { "" };
        let _ = writeln!(text, "  {:<15} {}{written}", format.name(), format.what());
    }
    text
});

static INFO_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Examples:\n  forerun trace info trace.csv.gz\n  forerun trace info log.txt --columns \
         'time=0:us,offset=3:sectors,bytes=4,op=2'\n\n{}\n{COLUMNS_HELP}",
        *FORMATS
    )
});

static CONVERT_HELP: LazyLock<String> = LazyLock::new(|| {
    format!(
        "Examples:\n  forerun trace convert trace.blkparse trace.parquet\n  forerun trace convert in.csv.gz \
         out.fio --to fio3\n  \
         zcat in.gz | forerun trace convert - - --to csv | head\n\n`-` is standard input and output, which is CSV without --to. What the target cannot hold is said on stderr.\n\n{}",
        *FORMATS
    )
});

static SYNTH_HELP: LazyLock<String> = LazyLock::new(|| {
    let mut text = String::from(
        "Examples:\n  forerun trace synth 'forward:processes=4,size=2GiB,block=4KiB' -o forward.parquet\n  \
         forerun trace synth 'random:size=1GiB,requests=40000' --seed 7 -o random.csv\n\nShapes:\n",
    );
    for shape in Workload::shapes() {
        let keys: Vec<String> =
            shape.keys.iter().map(|key| format!("{}={}", key.name, key.default)).collect();
        let _ = writeln!(text, "  {:<16} {}\n    {}", shape.name, shape.about, keys.join(","));
    }
    text
});

const RECORD_HELP: &str = "\
Examples:
  forerun trace record -o build.parquet -- make -j4
  forerun trace record -o disk.parquet --device /dev/sda --seconds 60
  forerun trace record --files -o files.parquet -- make -j4
  forerun trace record --files --dir /srv/db -o db.parquet -- ./queries

Needs root and a kernel with block tracepoints, with --files with those of the page cache (Linux 6.12); exit code 4
says which is missing. Block reads are what reaches a device, so what the page cache serves is not there: drop it
first (echo 3 > /proc/sys/vm/drop_caches). With --files, all reads of files are there: path, offset, length, time and
how long each took, whether or not the page cache had it. The exit code is the command's (128+N where signal N ended
it); the trace is written all the same, also when SIGINT, SIGTERM or SIGHUP ends the recording. Where that cannot be had, record with
`strace -f -ttt -T -y -o OUT CMD` and read OUT.";

/// What `trace` does.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// What is in a trace: requests, bytes, footprint, sizes, how sequential it is
    #[command(after_help = INFO_HELP.as_str())]
    Info(InfoArgs),
    /// How it is read: sequential, looping, strided, reverse, random; a picture of offset against time
    #[command(after_help = patterns::HELP)]
    Patterns(patterns::PatternsArgs),
    /// From one format to another
    #[command(after_help = CONVERT_HELP.as_str())]
    Convert(ConvertArgs),
    /// Record the block reads and writes of a device or of a command, or what a command reads of files
    #[command(after_help = RECORD_HELP)]
    Record(RecordArgs),
    /// A part of a trace: a stretch of time, some processes, a sample that keeps reuse
    #[command(after_help = part::CUT_HELP)]
    Cut(part::CutArgs),
    /// A trace that can be shown to others: names hashed under a key, how it reads kept
    #[command(after_help = part::ANONYMIZE_HELP)]
    Anonymize(part::AnonymizeArgs),
    /// Write a workload out as a trace
    #[command(after_help = SYNTH_HELP.as_str())]
    Synth(SynthArgs),
}

/// Options of `trace info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Trace file
    file: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
}

/// Options of `trace convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Trace file, or - for standard input
    input: PathBuf,
    /// File to write, or - for standard output; .gz, .xz and .zst are packed
    output: PathBuf,
    /// Format to write [default: by the ending of the file; parquet]
    #[arg(long, value_name = "FORMAT", value_parser = Format::to_write)]
    to: Option<Format>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Options of `trace record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Everything that reaches this disk or partition
    #[arg(long, value_name = "DEV")]
    device: Option<PathBuf>,
    /// What the command and its children read of files, instead of what reaches a device
    #[arg(long, conflicts_with = "device", requires = "command")]
    files: bool,
    /// With --files: only files below this folder; may be given many times
    #[arg(long, value_name = "DIR", requires = "files")]
    dir: Vec<PathBuf>,
    /// The kernel's read-ahead of the device during the recording: as it is, or off, so that requests are the programs' own. It
    /// is put back at the end, after a SIGKILL by the next recording
    #[arg(long, value_name = "keep|off", default_value = "keep", value_parser = ["keep", "off"])]
    read_ahead: String,
    /// Stop after so many seconds; a command is then ended
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Format to write [default: by the ending of the file; parquet]
    #[arg(long, value_name = "FORMAT", value_parser = Format::to_write)]
    to: Option<Format>,
    /// Command to run; it and its children are recorded
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Options of `trace synth`.
#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// Workload: one line, or a .toml file
    workload: String,
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Seed of every random choice
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Format to write [default: by the ending of the file; parquet]
    #[arg(long, value_name = "FORMAT", value_parser = Format::to_write)]
    to: Option<Format>,
}

/// Runs one of them.
pub(crate) fn run(command: &TraceCommand, ui: &Ui) -> Result<(), CliError> {
    match command {
        TraceCommand::Info(args) => info(args, ui),
        TraceCommand::Patterns(args) => patterns::run(args, ui),
        TraceCommand::Convert(args) => convert(args, ui),
        TraceCommand::Record(args) => record(args, ui),
        TraceCommand::Cut(args) => part::cut(args, ui),
        TraceCommand::Anonymize(args) => part::anonymize(args, ui),
        TraceCommand::Synth(args) => synth(args, ui),
    }
}

fn info(args: &InfoArgs, ui: &Ui) -> Result<(), CliError> {
    let mut tally = Tally::default();
    let opened = through(&args.file, &args.read, ui, &mut |records| tally.take(records))?;
    let info = tally.finish(&opened.trace);
    if ui.json {
        let file = args.file.display().to_string();
        return ui.print_json(&forerun_study::traces::Info { file, sha256: &opened.hash_hex, info: &info });
    }
    let mut text = format!("{}\n", ui.paint(Style::Bold, &args.file.display().to_string()));
    for (name, value) in facts(&info) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "  {name:<14} {value}");
    }
    for (name, value) in &info.about {
        let _ = writeln!(text, "  {name:<14} {value}");
    }
    let _ = writeln!(text, "  {:<14} {}", "sha256", opened.hash_hex);
    text.push_str(&size_bars(&info, ui.columns));
    ui.print(&text)
}

fn facts(info: &TraceInfo) -> Vec<(&'static str, String)> {
    let bytes = |value: u64| human::bytes(float(value));
    vec![
        ("format", info.format.clone()),
        (
            "requests",
            format!(
                "{} ({} reads, {} writes)",
                human::count(info.requests),
                human::count(info.reads),
                human::count(info.writes)
            ),
        ),
        (
            "bytes",
            format!(
                "{} ({} read, {} written)",
                bytes(info.bytes),
                bytes(info.bytes_read),
                bytes(info.bytes_written)
            ),
        ),
        (
            "footprint",
            format!(
                "{} ({} blocks of 4 KiB)",
                bytes(info.footprint_bytes),
                human::count(info.footprint_blocks)
            ),
        ),
        ("duration", info.duration_ns.map_or_else(|| "not recorded".into(), |ns| human::duration(float(ns)))),
        ("devices", human::count(info.devices)),
        ("processes", human::count(info.processes)),
        (
            "files",
            match (info.files, info.files_with_size) {
                (0, 0) => "none named".into(),
                // A recording of a server knows the size of what it exported.
                (0, 1) => "none named; the size of the device known".into(),
                (0, sizes) => format!("none named; the sizes of {} devices known", human::count(sizes)),
                (files, sizes) => {
                    format!("{}, the size of {} known", human::count(files), human::count(sizes))
                }
            },
        ),
        ("durations", format!("known of {} requests", human::count(info.with_duration))),
        ("passed over", format!("{} events that ask for no data", human::count(info.passed_over))),
        (
            "sequential",
            format!("{} of requests begin where the last ended", human::percent(info.sequential_share)),
        ),
        (
            "request size",
            format!(
                "mean {}, half ≤ {}, 95% ≤ {}, largest {}",
                bytes(info.sizes.mean),
                bytes(info.sizes.p50),
                bytes(info.sizes.p95),
                bytes(info.sizes.max)
            ),
        ),
    ]
}

/// A bar per size, 40 characters for the most frequent, or as many as there is room for.
fn size_bars(info: &TraceInfo, columns: Option<usize>) -> String {
    /// Where bars begin.
    const BAR_AT: usize = 32;
    let full = columns.map_or(40, |columns| columns.saturating_sub(BAR_AT).clamp(1, 40) as u64);
    let most = info.sizes.bins.iter().map(|bin| bin.requests).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for bin in &info.sizes.bins {
        let length = usize::try_from(bin.requests.saturating_mul(full).div_ceil(most)).unwrap_or(40);
        let _ = writeln!(
            text,
            "  ≤ {:<12} {:>12}  {}",
            human::bytes(float(bin.up_to_bytes)),
            human::count(bin.requests),
            "█".repeat(length)
        );
    }
    text
}

fn convert(args: &ConvertArgs, ui: &Ui) -> Result<(), CliError> {
    check_json(&args.output, ui)?;
    outputs::check(&[("OUTPUT", Some(&args.output))], std::slice::from_ref(&args.input))?;
    let opened = open(&args.input, &args.read, ui)?;
    wrote(&args.output, &write(&args.output, args.to, &opened.trace, ui)?, None, ui)
}

fn synth(args: &SynthArgs, ui: &Ui) -> Result<(), CliError> {
    check_json(&args.output, ui)?;
    outputs::check(&[("--output", Some(&args.output))], &[PathBuf::from(&args.workload)])?;
    let (parsed, place) = if args.workload.ends_with(".toml") {
        let text = forerun_study::text::read(Path::new(&args.workload))?;
        (Workload::from_toml(&text), args.workload.as_str())
    } else {
        (Workload::parse(&args.workload), "workload")
    };
    let workload = parsed.map_err(|problem| CliError::usage(place, problem, ""))?;
    wrote(&args.output, &write(&args.output, args.to, &workload.to_trace(args.seed), ui)?, None, ui)
}

fn record(args: &RecordArgs, ui: &Ui) -> Result<(), CliError> {
    if args.device.is_none() && args.command.is_empty() {
        let remedy =
            "--device DEV records what reaches a device, `-- CMD` what a command and its children ask";
        return Err(CliError::usage("trace record", "nothing is named to be recorded", remedy));
    }
    if let Some(device) = &args.device {
        // Before the kernel is asked what it can: a device that is not there is not its fault.
        Device::find(device).map_err(|problem| CliError::failure("--device", problem))?;
    }
    // Before anything runs: what cannot be written is not recorded.
    check_json(&args.output, ui)?;
    target(&args.output, args.to)?;
    outputs::check(&[("--output", Some(&args.output))], &[])?;
    let _held = outputs::hold_pipe(&args.output, ui)?;
    quieted::restore(ui);
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let place = Place::of(args);
    let _quieted = match (args.read_ahead.as_str(), place.device()) {
        ("off", Some(device)) => Some(Quieted::device(&device.name)?),
        ("off", None) => {
            return Err(CliError::usage(
                "--read-ahead off",
                "it is not known of which device",
                "name it with --device",
            ));
        }
        _ => None,
    };
    if args.files {
        return record_files(args, &place, stop, ui);
    }
    let source = match (&args.device, args.command.is_empty()) {
        (Some(device), true) => Source::Device(device.clone()),
        (Some(device), false) => Source::DeviceDuring(device.clone(), args.command.clone()),
        (None, _) => Source::Command(args.command.clone()),
    };
    let mut options = RecordOptions::new(source);
    options.duration = args.seconds.map(Duration::from_secs);
    options.stop = Some(stop);
    options.rescue = rescue_at(args, &place)?;
    let lines = options.rescue.as_ref().map(|at| at.path.clone());
    let recording = watched("requests", ui, |progress| record::record(&options, progress))?;
    remarks(&recording, ui);
    if let Some(kib) = place.read_ahead().filter(|kib| *kib > 0 && args.read_ahead == "keep") {
        ui.say(&format!(
            "requests are as the kernel's read-ahead of {kib} KiB made them: where reads of files are compared, record with --files, or \
             with --read-ahead off"
        ));
    }
    let mut trace = Trace { about: place.about(args), ..recording.trace };
    recording::note_command(&mut trace, &recording.ended, recording.elapsed);
    let cut = recording.unkept.is_some() && recording.ended == Ended::Full;
    let ended = (!cut).then_some(recording.ended);
    finish(args, &Done { trace, ended, lost: recording.lost, lines }, ui)
}

/// Where the requests are kept while they come; nowhere for a trace that goes to a pipe.
fn rescue_at(args: &RecordArgs, place: &Place) -> Result<Option<RescueAt>, CliError> {
    let is_file =
        !is_dash(&args.output) && std::fs::metadata(&args.output).map_or(true, |about| about.is_file());
    if !is_file {
        return Ok(None);
    }
    Ok(Some(RescueAt { path: recording::lines_of(&args.output, "--output")?, about: place.about(args) }))
}

/// Records with a spinner that says how much there is.
fn watched<T>(
    what: &str,
    ui: &Ui,
    record: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<T, RecordError>,
) -> Result<T, CliError> {
    let bar = ui.bars.then(indicatif::ProgressBar::new_spinner);
    let mut told = false;
    let recording = record(&mut |progress| {
        if let Some(problem) = progress.unkept.filter(|_| !std::mem::replace(&mut told, true)) {
            ui.say(&format!("{problem}: a kill from here on would lose what comes"));
        }
        if let Some(bar) = &bar {
            bar.set_message(format!("{} {what}, {} lost", human::count(progress.records), progress.lost));
            bar.tick();
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    recording.map_err(|problem| CliError::recording("record", problem))
}

fn record_files(args: &RecordArgs, place: &Place, stop: Arc<AtomicBool>, ui: &Ui) -> Result<(), CliError> {
    let mut options = FilesOptions::new(args.command.clone());
    options.folders.clone_from(&args.dir);
    options.duration = args.seconds.map(Duration::from_secs);
    options.stop = Some(stop);
    options.rescue = rescue_at(args, place)?;
    let lines = options.rescue.as_ref().map(|at| at.path.clone());
    let recording = watched("events", ui, |progress| files::record_files(&options, progress))?;
    let counted = |count: u64, what: &str| {
        if count > 0 {
            ui.say(&format!("{} {what}", human::count(count)));
        }
    };
    counted(recording.lost, "events were lost: the ring was full");
    counted(recording.outside, "reads of files outside the folders asked for are left out");
    counted(recording.unnamed, "files have no path any more and are called by their inode");
    if file_system::folder_is_zfs(&Root::host(), args.dir.first().map(PathBuf::as_path)) {
        ui.say("files of ZFS are not in the page cache, where reads are seen: record them with `strace -f -ttt -T -y -o OUT CMD`");
    }
    if !recording.exact {
        ui.say("this kernel does not trace system calls: reads are in whole pages, without durations");
    }
    let mut trace = Trace { about: place.about(args), ..recording.trace };
    // Of the files themselves, wherever the command was begun.
    file_system::note(&Root::host(), &mut trace);
    recording::note_command(&mut trace, &recording.ended, recording.elapsed);
    finish(args, &Done { trace, ended: Some(recording.ended), lost: recording.lost, lines }, ui)
}

/// The machine, and the device that is recorded.
struct Place {
    machine: Option<Machine>,
    name: Option<String>,
}

impl Place {
    /// The device that is named, else the one that holds the folder that is named, else this folder's.
    fn of(args: &RecordArgs) -> Self {
        let machine = Machine::read(&Root::host()).ok();
        let name = machine.as_ref().and_then(|machine| {
            let folder = args.dir.first().map_or(Path::new("."), PathBuf::as_path);
            let about = std::fs::metadata(args.device.as_deref().unwrap_or(folder)).ok()?;
            let number = if args.device.is_some() { about.rdev() } else { about.dev() };
            let number = assumed::number(number);
            let device = match args.device {
                Some(_) => machine.device_of_number(&number),
                None => likeness::device_of_folder(machine, Some(&number)),
            };
            device.map(|device| device.name.clone())
        });
        Self { machine, name }
    }

    fn device(&self) -> Option<&BlockDevice> {
        self.machine.as_ref()?.device(self.name.as_deref()?)
    }

    fn read_ahead(&self) -> Option<u64> {
        self.device()?.read_ahead_kib
    }

    /// What is known of the machine.
    fn about(&self, args: &RecordArgs) -> BTreeMap<String, String> {
        let Some(machine) = &self.machine else { return BTreeMap::new() };
        let mut about = forerun_machine::recorded::about(&Root::host(), machine, self.device());
        // Of reads of files it is known before the kernel has read ahead.
        let ahead = if args.files { None } else { self.read_ahead() };
        if let Some(kib) = ahead {
            let told = if args.read_ahead == "off" { "off".to_owned() } else { format!("{kib} KiB") };
            about.insert("kernel_read_ahead".into(), told);
        }
        about
    }
}

fn remarks(recording: &Recording, ui: &Ui) {
    if recording.lost > 0 {
        ui.say(&format!("{} events were lost: the ring was full", human::count(recording.lost)));
    }
    if recording.below_stacked > 0 {
        ui.say(&format!(
            "{} requests below a stacked device stand in the trace as that device's",
            human::count(recording.below_stacked)
        ));
    }
}

/// A recording that has ended.
struct Done {
    trace: Trace,
    /// How; without a word the disk was full.
    ended: Option<Ended>,
    lost: u64,
    /// The lines that were written while it was made.
    lines: Option<PathBuf>,
}

/// Writes the trace, whatever became of the command; a command that failed fails us, as it would without us.
fn finish(args: &RecordArgs, done: &Done, ui: &Ui) -> Result<(), CliError> {
    match done.ended {
        Some(Ended::Full) => ui.say("stopped at the largest number of requests that is kept"),
        None => ui.say("stopped because the disk of the recording takes no more"),
        Some(_) => {}
    }
    let written = write(&args.output, args.to, &done.trace, ui).inspect_err(|_| {
        if let Some(lines) = &done.lines {
            ui.say(&format!("what was recorded is in {}, which is a trace too", lines.display()));
        }
    })?;
    if let Some(lines) = &done.lines {
        drop(std::fs::remove_file(lines));
    }
    wrote(&args.output, &written, Some(done.lost), ui)?;
    match done.ended {
        Some(ended) => super::watch::ended("record", ended),
        None => {
            let what = "the recording ended early: its disk was full";
            Err(CliError::failure(&args.output.display().to_string(), what))
        }
    }
}
