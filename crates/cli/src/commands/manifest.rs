//! `forerun manifest`: what was read, as a file: made, shown, judged, combined, read ahead.

use super::load::{beyond_limit, in_full};
use super::watch;
use crate::error::{CliError, Kind};
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_core::size::parse_size;
use forerun_manifest::run::pages;
use forerun_manifest::{File, Key, Manifest};
use forerun_study::human;
use forerun_watch::follow::{self, FollowOptions};
use forerun_watch::replay::{self, Alone, Replayed};
use forerun_watch::snapshot::{self, Verdict};
use forerun_watch::store;
use forerun_watch::unnamed::Unnamed;
use forerun_watch::volumes::Volumes;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const PAGE: u64 = 4096;
/// Entries that `show` and `verify` list without `-v`.
const LISTED: usize = 10;

/// What to do with manifests.
#[derive(Debug, Subcommand)]
pub(crate) enum ManifestCommand {
    /// Run a command and record what it loads and touches (root, Linux 6.12)
    #[command(
        after_help = "Example:\n  sudo forerun manifest record -o boot.manifest --name image:db -- ./start-db"
    )]
    Record(RecordArgs),
    /// What is in a manifest
    #[command(after_help = "Example:\n  forerun manifest show git.manifest")]
    Show(ShowArgs),
    /// Which entries no longer speak of the files that are there; exit code 3 if any
    #[command(after_help = "Example:\n  forerun manifest verify git.manifest || forerun manifest record …")]
    Verify(ShowArgs),
    /// Combine recordings, the oldest first
    #[command(
        after_help = "Example:\n  forerun manifest merge -o both.manifest monday.manifest tuesday.manifest"
    )]
    Merge(MergeArgs),
    /// Read ahead what a manifest names, and wait until it is in memory
    #[command(
        after_help = "Example:\n  forerun manifest replay --budget 2G db.manifest\n\nAs root files are found by their inode \
        and metadata is read first; without privilege files are found by path."
    )]
    Replay(ReplayArgs),
    /// Write down what of files and folders is in memory now, to be read ahead after a restart
    #[command(after_help = "Example:\n  forerun manifest snapshot -o db.manifest /var/lib/postgresql")]
    Snapshot(SnapshotArgs),
}

/// Options of `record`.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Kind and name of what is recorded [default: the program, its folder and its arguments]
    #[arg(long, value_name = "KIND:NAME", value_parser = named)]
    name: Option<Key>,
    /// Command to run
    #[arg(last = true, value_name = "CMD", required = true)]
    command: Vec<OsString>,
}

/// A manifest.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Manifest to read
    manifest: PathBuf,
}

/// Options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Combine manifests of different things too, under the key of the first
    #[arg(long)]
    any_key: bool,
    /// The manifests, the oldest first
    #[arg(required = true, num_args = 2..)]
    manifests: Vec<PathBuf>,
}

/// Options of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Most bytes to load, of what was touched first; what is stale or in memory already does not count, metadata is at most half
    /// of it where not all fits [default: half of what memory is available]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,
    /// Manifest to read
    manifest: PathBuf,
}

/// Options of `snapshot`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Name of the snapshot
    #[arg(long, default_value = "memory")]
    name: String,
    /// Files and folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|problem| problem.to_string())
}

fn named(text: &str) -> Result<Key, String> {
    match text.split_once(':') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => {
            Ok(Key::Named { kind: kind.into(), name: name.into() })
        }
        _ => Err("a kind and a name are wanted, as in unit:postgresql".into()),
    }
}

/// Runs one of them.
pub(crate) fn run(command: &ManifestCommand, ui: &Ui) -> Result<(), CliError> {
    match command {
        ManifestCommand::Record(args) => record(args, ui),
        ManifestCommand::Show(args) => show(args, ui),
        ManifestCommand::Verify(args) => verify(args, ui),
        ManifestCommand::Merge(args) => merge(args, ui),
        ManifestCommand::Replay(args) => replay(args, ui),
        ManifestCommand::Snapshot(args) => take_snapshot(args, ui),
    }
}

fn open(path: &Path) -> Result<Manifest, CliError> {
    store::read(path).map_err(|problem| {
        let folder = store::default_folder();
        let give =
            || format!("give the file of a manifest: those of forerun watch are in {}", folder.display());
        let remedy = if problem.is_nothing_there() { give() } else { String::new() };
        CliError::new(Kind::Failure, "", problem, &remedy)
    })
}

/// A manifest of files: what is known of an export are places of a device, which nothing here can look at.
fn open_of_files(path: &Path) -> Result<Manifest, CliError> {
    let manifest = open(path)?;
    if manifest.files.is_empty() && !manifest.exports.is_empty() {
        let what = "it is of an export of a server and names no file";
        let remedy = "`forerun serve --manifest` reads it ahead, `forerun manifest show` says what is in it";
        return Err(CliError::usage(&path.display().to_string(), what, remedy));
    }
    Ok(manifest)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn bytes(pages: u64) -> String {
    human::bytes((pages * PAGE) as f64)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn nanos(nanos: u64) -> String {
    human::duration(nanos as f64)
}

#[derive(Serialize)]
struct WrittenJson {
    file: String,
    bytes: u64,
    files: u64,
    file_pages: u64,
    metadata_pages: u64,
    /// Of a recording: what was loaded from file systems that are not read ahead of, and which those are.
    #[serde(skip_serializing_if = "Option::is_none")]
    unnamed_pages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unnamed: Option<Vec<String>>,
}

/// Writes a manifest and says so.
fn wrote(path: &Path, manifest: &Manifest, ui: &Ui) -> Result<(), CliError> {
    wrote_with(path, manifest, None, ui)
}

/// The same of a recording, with what is not in it.
fn wrote_with(
    path: &Path,
    manifest: &Manifest,
    unnamed: Option<&[Unnamed]>,
    ui: &Ui,
) -> Result<(), CliError> {
    let size = store::write(path, manifest).map_err(|problem| CliError::failure("", problem))?;
    let json = WrittenJson {
        file: path.display().to_string(),
        bytes: size,
        files: manifest.files.len() as u64,
        file_pages: manifest.file_pages(),
        metadata_pages: manifest.metadata_pages(),
        unnamed_pages: unnamed.map(|all| all.iter().map(|one| one.pages).sum()),
        unnamed: unnamed.map(|all| all.iter().map(|one| one.what.clone()).collect()),
    };
    if ui.json {
        // A recording stands behind what the command printed.
        return if unnamed.is_some() { ui.print_json_line(&json) } else { ui.print_json(&json) };
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let written = human::bytes(size as f64);
    ui.say(&format!(
        "{}: {} files, {} + {} of metadata, in {written}",
        json.file,
        human::count(json.files),
        bytes(json.file_pages),
        bytes(json.metadata_pages)
    ));
    Ok(())
}

fn record(args: &RecordArgs, ui: &Ui) -> Result<(), CliError> {
    outputs::check_is_file("--output", Some(&args.output))?;
    outputs::check(&[("--output", Some(&args.output))], &[])?;
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let options = FollowOptions {
        command: args.command.clone(),
        process: None,
        gate: std::sync::Arc::default(),
        charge: forerun_watch::payers::Charge::default(),
        store: None,
        key: args.name.clone(),
        given: None,
        replay: false,
        bpf: true,
        scheme: None,
        patterns: false,
        stop: Some(stop),
    };
    let report =
        follow::follow(&options, &mut |_| {}).map_err(|error| watch::problem("manifest record", error))?;
    watch::remarks(&report, ui);
    wrote_with(&args.output, &report.manifest, Some(&report.unnamed), ui)?;
    if !ui.json {
        watch::unnamed(&report).iter().for_each(|line| ui.say(line));
    }
    watch::ended("record", report.ended)
}

#[derive(Serialize)]
struct ShowJson {
    key: String,
    recordings: u16,
    file_pages: u64,
    metadata_pages: u64,
    history: Vec<HistoryJson>,
    file_systems: Vec<SystemJson>,
    files: Vec<FileJson>,
    exports: Vec<ExportJson>,
}

#[derive(Serialize)]
struct HistoryJson {
    replayed: bool,
    elapsed_ns: u64,
    waited_ns: u64,
    without_ns: u64,
    loaded_pages: u64,
    used_pages: u64,
}

#[derive(Serialize)]
struct SystemJson {
    kind: String,
    uuid: String,
    mount: String,
    metadata: Vec<RunJson>,
}

#[derive(Serialize)]
struct FileJson {
    file_system: u32,
    inode: u64,
    generation: u32,
    size: u64,
    ctime_s: i64,
    ctime_ns: u32,
    path: String,
    runs: Vec<RunJson>,
}

#[derive(Serialize)]
struct ExportJson {
    name: String,
    bytes: u64,
    runs: Vec<RunJson>,
    samples: usize,
    /// When each of so many equal parts of it had been wanted.
    pace_ms: Vec<u32>,
}

#[derive(Serialize)]
struct RunJson {
    first: u64,
    pages: u64,
    rank: u32,
    seen: u16,
}

fn runs(runs: &[forerun_manifest::Run]) -> Vec<RunJson> {
    let json = |run: &forerun_manifest::Run| RunJson {
        first: run.first,
        pages: run.pages,
        rank: run.rank,
        seen: run.seen,
    };
    runs.iter().map(json).collect()
}

fn hex(uuid: [u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ShowJson {
    fn of(manifest: &Manifest) -> Self {
        let history = manifest.history.iter().map(|run| HistoryJson {
            replayed: run.replayed,
            elapsed_ns: run.elapsed,
            waited_ns: run.waited,
            without_ns: run.without,
            loaded_pages: run.loaded,
            used_pages: run.used,
        });
        let systems = manifest.file_systems.iter().map(|fs| SystemJson {
            kind: fs.kind.clone(),
            uuid: hex(fs.uuid),
            mount: fs.mount.display().to_string(),
            metadata: runs(&fs.metadata),
        });
        let files = manifest.files.iter().map(|file| FileJson {
            file_system: file.file_system,
            inode: file.inode,
            generation: file.state.generation,
            size: file.state.size,
            ctime_s: file.state.ctime,
            ctime_ns: file.state.ctime_nanos,
            path: file.path.display().to_string(),
            runs: runs(&file.runs),
        });
        let exports = manifest.exports.iter().map(|export| ExportJson {
            name: export.name.clone(),
            bytes: export.bytes,
            runs: runs(&export.runs),
            samples: export.samples.len(),
            pace_ms: export.pace.clone(),
        });
        Self {
            key: manifest.key.to_string(),
            recordings: manifest.recordings,
            file_pages: manifest.file_pages(),
            metadata_pages: manifest.metadata_pages(),
            history: history.collect(),
            file_systems: systems.collect(),
            files: files.collect(),
            exports: exports.collect(),
        }
    }
}

fn show(args: &ShowArgs, ui: &Ui) -> Result<(), CliError> {
    let manifest = open(&args.manifest)?;
    if ui.json {
        return ui.print_json(&ShowJson::of(&manifest));
    }
    let mut text = format!("{}\n", ui.paint(Style::Bold, &human::plain(&manifest.key.to_string())));
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "  recordings  {}", manifest.recordings);
    if manifest.exports.is_empty() || !manifest.files.is_empty() {
        let files = human::count(manifest.files.len() as u64);
        let _ = writeln!(text, "  files       {files}, {}", bytes(manifest.file_pages()));
        let _ = writeln!(text, "  metadata    {}", bytes(manifest.metadata_pages()));
    }
    for fs in &manifest.file_systems {
        let (kind, at) = (human::plain(&fs.kind), fs.mount.to_string_lossy());
        let _ = writeln!(text, "  on          {kind} at {} ({})", human::plain(&at), hex(fs.uuid));
    }
    for export in &manifest.exports {
        let (here, runs) = (bytes(pages(&export.runs)), export.runs.len());
        let name = if export.name.is_empty() { "(the default)".into() } else { human::plain(&export.name) };
        let _ = write!(text, "  export      {name}, {}: {here} in {runs} runs", bytes(export.bytes / PAGE));
        if let (Some(&half), Some(&all)) = (export.pace.get(export.pace.len() / 2), export.pace.last()) {
            let [half, all] = [half, all].map(|ms| nanos(u64::from(ms) * 1_000_000));
            let _ = write!(text, ", half of it wanted within {half} of a client's arrival, all within {all}");
        }
        text.push('\n');
    }
    for run in &manifest.history {
        let how = if run.replayed { "read ahead of" } else { "recorded" };
        let _ = write!(text, "  run         {how}: {}", nanos(run.elapsed));
        if manifest.exports.is_empty() {
            let _ = write!(text, ", waited {}", nanos(run.waited));
        } else if run.replayed {
            let _ = write!(text, ", {} read ahead, of it {} used", bytes(run.loaded), bytes(run.used));
        }
        if run.without > 0 {
            let _ = write!(text, ", without {} (estimated)", nanos(run.without));
        }
        text.push('\n');
    }
    text.push_str(&listing(&manifest, if ui.verbose > 0 { usize::MAX } else { LISTED }));
    ui.print(&text)
}

/// The files in the order of first touch.
fn listing(manifest: &Manifest, most: usize) -> String {
    let mut files: Vec<_> = manifest.files.iter().collect();
    files.sort_by_key(|file| file.runs.iter().map(|run| run.rank).min());
    let mut text = String::new();
    for file in files.iter().take(most) {
        let name = if file.path.as_os_str().is_empty() {
            format!("inode {}", file.inode)
        } else {
            human::plain(&file.path.to_string_lossy()).into_owned()
        };
        let (here, runs) = (bytes(pages(&file.runs)), file.runs.len());
        let _ = writeln!(text, "  {here:>10} in {runs:>4} runs  {name}");
    }
    if files.len() > most {
        let _ = writeln!(
            text,
            "  … and {} files more (-v lists them)",
            human::count((files.len() - most) as u64)
        );
    }
    text
}

#[derive(Serialize)]
struct VerifyJson {
    files: u64,
    fresh: u64,
    not_mounted: u64,
    stale: Vec<StaleJson>,
    /// Those of which this user cannot tell.
    refused: Vec<StaleJson>,
}

#[derive(Serialize)]
struct StaleJson {
    path: String,
    inode: u64,
    reason: &'static str,
}

fn verify(args: &ShowArgs, ui: &Ui) -> Result<(), CliError> {
    let manifest = open_of_files(&args.manifest)?;
    let verdicts = snapshot::verify(&manifest);
    let count = |wanted: &Verdict| verdicts.iter().filter(|(_, verdict)| verdict == wanted).count() as u64;
    let because = |is_change: bool| {
        let of = verdicts.iter().filter_map(|(file, verdict)| match verdict {
            Verdict::Stale(reason) if reason.is_change() == is_change => Some(StaleJson {
                path: file.path.display().to_string(),
                inode: file.inode,
                reason: reason.word(),
            }),
            _ => None,
        });
        of.collect::<Vec<_>>()
    };
    let json = VerifyJson {
        files: verdicts.len() as u64,
        fresh: count(&Verdict::Fresh),
        not_mounted: count(&Verdict::NotMounted),
        stale: because(true),
        refused: because(false),
    };
    if ui.json {
        ui.print_json(&json)?;
    } else {
        ui.print(&verified(&json, if ui.verbose > 0 { usize::MAX } else { LISTED }))?;
    }
    judged(&json, &args.manifest.display().to_string())
}

/// What is told of all entries, with so many that are not as they were.
fn verified(json: &VerifyJson, most: usize) -> String {
    let (fresh, files) = (human::count(json.fresh), human::count(json.files));
    let mut text = format!("{fresh} of {files} files are as they were recorded\n");
    for all in [&json.stale, &json.refused] {
        let width = all.iter().map(|one| one.reason.len()).max().unwrap_or(0).max(12);
        for StaleJson { path, inode, reason } in all.iter().take(most) {
            let name =
                if path.is_empty() { format!("inode {inode}") } else { human::plain(path).into_owned() };
            let _ = writeln!(text, "  {reason:<width$}  {name}");
        }
        if all.len() > most {
            let _ = writeln!(text, "  … and {} more (-v lists them)", all.len() - most);
        }
    }
    if json.not_mounted > 0 {
        let _ = writeln!(text, "  {} on file systems that are not mounted", human::count(json.not_mounted));
    }
    text
}

/// The end of a judgement: an error where not all is as it was, or cannot be told.
fn judged(json: &VerifyJson, place: &str) -> Result<(), CliError> {
    if json.not_mounted == json.files && json.files > 0 {
        let what = format!("none of {} entries is on a file system that is mounted", json.files);
        return Err(CliError::new(Kind::Finding, place, what, "mount it, or record again"));
    }
    let (stale, refused) = (json.stale.len(), json.refused.len());
    if stale + refused == 0 {
        return Ok(());
    }
    let mut what = match stale {
        0 => format!("{refused} of {} entries cannot be opened by this user", json.files),
        _ => format!("{stale} of {} entries are stale", json.files),
    };
    if stale > 0 && refused > 0 {
        let _ = write!(what, ", {refused} cannot be opened by this user");
    }
    if json.not_mounted > 0 {
        let _ = write!(what, ", {} on file systems that are not mounted", json.not_mounted);
    }
    // Of what cannot be opened nobody knows that it has changed.
    let remedy = if stale > 0 { "record again" } else { "verify as root, or as a user who may read them" };
    Err(CliError::new(Kind::Finding, place, what, remedy))
}

fn merge(args: &MergeArgs, ui: &Ui) -> Result<(), CliError> {
    outputs::check_is_file("--output", Some(&args.output))?;
    outputs::check(&[("--output", Some(&args.output))], &args.manifests)?;
    let (first, rest) = args.manifests.split_first().expect("clap wants two");
    let mut merged = open(first)?;
    for path in rest {
        let newer = open(path)?;
        if args.any_key {
            merged.take_in(newer);
        } else {
            merged.merge(newer).map_err(|problem| {
                CliError::usage(&path.display().to_string(), problem, "--any-key combines them all the same")
            })?;
        }
    }
    wrote(&args.output, &merged, ui)
}

#[derive(Serialize)]
struct ReplayedJson {
    files: u64,
    stale_files: u64,
    /// Of which this user cannot tell whether they are what was recorded.
    refused_files: u64,
    pages: u64,
    metadata_pages: u64,
    here_pages: u64,
    /// Asked for, and in memory already or not: the kernel does not tell.
    untold_pages: u64,
    requests: u64,
    /// Files whose file system is not mounted.
    not_mounted: u64,
    /// What the budget leaves out.
    beyond_budget_bytes: u64,
    elapsed_ns: u64,
    /// A signal cut it off.
    interrupted: bool,
}

fn replay(args: &ReplayArgs, ui: &Ui) -> Result<(), CliError> {
    let manifest = open_of_files(&args.manifest)?;
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let budget = args.budget.unwrap_or_else(|| forerun_watch::memory::available() / 2) / PAGE;
    let all = (manifest.file_pages() + manifest.metadata_pages()).min(budget);
    let bar = ui.bars.then(|| indicatif::ProgressBar::new(all * PAGE));
    let start = std::time::Instant::now();
    let volumes = Volumes::now();
    let alone = replay::replay(&manifest, &volumes, budget, &stop, &mut |done: &Replayed| {
        if let Some(bar) = &bar {
            bar.set_position((done.pages + done.here).min(all) * PAGE);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let is_away = |file: &&File| {
        let system = manifest.file_systems.get(file.file_system as usize);
        system.is_none_or(|system| volumes.meant(system).is_none())
    };
    let not_mounted = manifest.files.iter().filter(is_away).count() as u64;
    say_replayed(&alone, not_mounted, elapsed_ns, ui)?;
    in_full("replay", &alone)
}

fn say_replayed(alone: &Alone, not_mounted: u64, elapsed_ns: u64, ui: &Ui) -> Result<(), CliError> {
    let done = &alone.done;
    let limit = forerun_watch::memory::cgroup().map(|of| of.limit);
    if let Some(remark) = beyond_limit(done.pages * PAGE, limit) {
        ui.say(&remark);
    }
    if ui.json {
        return ui.print_json(&ReplayedJson {
            files: done.files,
            stale_files: done.stale_files(),
            refused_files: done.refused,
            pages: done.pages,
            metadata_pages: done.metadata_pages,
            here_pages: done.here,
            untold_pages: done.untold,
            requests: done.requests,
            not_mounted,
            beyond_budget_bytes: alone.beyond * PAGE,
            elapsed_ns,
            interrupted: alone.interrupted,
        });
    }
    // Of what the kernel does not tell us it may be all.
    let here = match (done.here, done.untold) {
        (0, 1..) => String::new(),
        (here, _) => format!("; {} in memory already", bytes(here)),
    };
    let mut line = format!(
        "{} files: {} {} in {}, {} of it metadata{}{}",
        human::count(done.files),
        bytes(done.pages),
        if done.untold > 0 { "asked for" } else { "loaded" },
        nanos(elapsed_ns),
        bytes(done.metadata_pages),
        here,
        watch::skipped(done)
    );
    if done.untold > 0 {
        let _ = write!(line, "; {}", super::load::untold(done));
    }
    if not_mounted > 0 {
        let _ = write!(line, "; {} on file systems that are not mounted", human::count(not_mounted));
    }
    if alone.beyond > 0 {
        let _ = write!(line, "; {} beyond the budget", bytes(alone.beyond));
    }
    line.push('\n');
    ui.print(&line)
}

/// A file below one of the folders is not written over, unless it is the manifest of a time before.
fn check_is_older_snapshot(args: &SnapshotArgs) -> Result<(), CliError> {
    let Ok(output) = args.output.canonicalize() else { return Ok(()) };
    let is_below = |path: &PathBuf| path.canonicalize().is_ok_and(|folder| output.starts_with(folder));
    let is_filled = || std::fs::metadata(&output).is_ok_and(|about| about.is_file() && about.len() > 0);
    let holds_other = || is_filled() && store::read(&output).is_err();
    if !args.paths.iter().any(is_below) || !holds_other() {
        return Ok(());
    }
    let what = "it is one of the files that are looked at, and would be written over";
    Err(CliError::usage(&format!("--output {}", args.output.display()), what, "name another file"))
}

fn take_snapshot(args: &SnapshotArgs, ui: &Ui) -> Result<(), CliError> {
    outputs::check_is_file("--output", Some(&args.output))?;
    outputs::check(&[("--output", Some(&args.output))], &args.paths)?;
    check_is_older_snapshot(args)?;
    let taken = snapshot::snapshot(&args.paths, &args.name, &args.output).map_err(|problem| {
        let is_none = problem.kind() == std::io::ErrorKind::NotFound;
        let is_wrong = problem.kind() == std::io::ErrorKind::Other;
        let remedy = match (is_none, is_wrong) {
            (true, _) => "give files and folders that are there",
            (_, true) => "give files and folders of a disk",
            _ => "",
        };
        CliError::new(Kind::Failure, "snapshot", problem, remedy)
    })?;
    if taken.not_ours > 0 {
        ui.say(&format!(
            "{} files of others are left out: the kernel tells only owners what is in memory",
            human::count(taken.not_ours)
        ));
    }
    if taken.elsewhere > 0 {
        ui.say(&format!(
            "{} files are left out: they are on no file system of a device (memory, overlay, network)",
            human::count(taken.elsewhere)
        ));
    }
    if let Some(first) = &taken.first_unreached {
        ui.say(&format!(
            "left out with what is below them: {} files and folders, of which the first is {first}",
            human::count(taken.unreached)
        ));
    }
    if taken.manifest.files.is_empty() && taken.not_ours + taken.elsewhere + taken.unreached > 0 {
        return Err(CliError::new(
            Kind::Failure,
            "snapshot",
            "all files are left out: nothing was written",
            "give files of a disk of this machine that are yours, or run it as root",
        ));
    }
    wrote(&args.output, &taken.manifest, ui)
}
