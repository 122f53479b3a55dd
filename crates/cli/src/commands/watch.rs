//! `forerun watch`: a command, read ahead of by what its last runs taught; without one, all programs (`watch_all.rs`).

use crate::duration::time;
use crate::error::{CliError, Kind};
use crate::outputs;
use crate::ui::Ui;
use clap::Args;
use forerun_core::registry::SchemeSpec;
use forerun_study::human;
use forerun_watch::follow::{self, Decision, FollowError, FollowOptions, Report};
use forerun_watch::inputs::{self, LogError, Verified};
use forerun_watch::outcome::Ended;
use forerun_watch::replay::Replayed;
use forerun_watch::store::{self, Store};
use forerun_watch::unit::{UNITS_MAX, Unit};
use serde::Serialize;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The closing paragraphs of the help.
pub(crate) const HELP: &str = "\
Examples:
  sudo forerun watch -- git grep unsafe      # the first run is recorded, from the second on it is read ahead of
  sudo forerun watch --no-replay -- make     # only records
  forerun watch --check                      # what works here, and why not
  sudo forerun watch --observe               # all programs: what would be decided; nothing is changed
  sudo forerun watch --only /srv             # all programs, on the file system that holds /srv
  sudo forerun watch --scheme 'flashy(poll=250ms)'   # all programs, as this scheme decides alone
  sudo forerun watch --unit postgresql       # all programs, and each start of that unit as one thing
  sudo forerun watch --boot                  # all programs, and the boot as one thing
  sudo forerun watch --http 8000             # and show what it does: a page, /metrics, and for `forerun top`
  forerun manifest show /var/lib/forerun/manifests/git-*.manifest

A run is known by its program, its arguments and the folder it is started in. What it loaded, in which order, is kept as a
manifest (docs/manifest.md) in /var/lib/forerun/manifests, for users in ~/.local/state/forerun/manifests. Files that have
changed since are skipped. Nothing is written beside the manifest and nothing evicted. One run in twenty is not read ahead of, so
that the estimate of what the others earned does not grow old; where three in a row earned nothing, reading ahead stops. What is not faster
by it, by the time from start to end, is left alone, and rarely tried again.

Without a command all programs are watched until Ctrl-C: open files get windows of the kernel's own read-ahead that were tried and
measured on their reader, and programs that were recorded once (watch -- CMD) are read ahead of whenever they start. Of a --unit the first start
is recorded by itself. A line tells each decision. All of it is taken back at the end, and after a kill by the next run.

Needs root. Linux 6.18 tells most; on older kernels (6.12, 6.1) programs in the kernel tell the daemon what it does not, and --check says what works. The exit code is the command's.";

/// Options of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Folder of the manifests [default: /var/lib/forerun/manifests, for users ~/.local/state/forerun/manifests]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Record, but do not read ahead
    #[arg(long, requires = "command")]
    no_replay: bool,
    /// With a command: write what --json would print to this file when the command has ended, apart from what that prints itself
    #[arg(long, value_name = "FILE", requires = "command")]
    report: Option<PathBuf>,
    /// With a command: the scheme of a page cache that reads ahead by pattern besides, or none [default: stride, in runs that
    /// are not replayed]. All programs: the scheme that decides alone [default: auto]
    #[arg(long, value_name = "SCHEME", value_parser = scheme)]
    pub(crate) scheme: Option<SchemeSpec>,
    /// All programs: write every input and output of the scheme's engine to a file, for --replay-log
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) log_inputs: Option<PathBuf>,
    /// All programs: write what they read of files, with how long each read took, as a trace that compare replays
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) record: Option<PathBuf>,
    /// Replay a log of inputs: the engine must give the same outputs, byte for byte
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "state", "no_replay", "scheme", "check", "observe", "no_bpf", "only", "charge", "unit", "cgroup", "boot", "http", "log_inputs", "record"])]
    replay_log: Option<PathBuf>,
    /// Say what works here and what is missing, and run nothing; exit code 4 if nothing works
    #[arg(long, conflicts_with_all = ["command", "state", "no_replay", "scheme", "observe", "no_bpf", "only", "charge", "unit", "cgroup", "boot", "http", "log_inputs", "record"])]
    check: bool,
    /// All programs: decide and say so, but change nothing
    #[arg(long, conflicts_with = "command")]
    pub(crate) observe: bool,
    /// No programs in the kernel (BPF): perf events, which cost more, tell what a command touches, and all programs' reads that are read ahead of;
    /// before Linux 6.18 the windows of open files are then left as they are
    #[arg(long)]
    pub(crate) no_bpf: bool,
    /// All programs: whose cgroup what is read ahead counts against: Forerun's own, whose limit is then the budget, or that of whoever is
    /// read ahead of, whose limit then holds for it too (root)
    #[arg(long, value_name = "own|reader", value_enum, default_value_t, hide_possible_values = true, conflicts_with_all = ["command", "observe"])]
    pub(crate) charge: ChargeTo,
    /// All programs: only files of the file system that holds PATH; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    pub(crate) only: Vec<PathBuf>,
    /// All programs: a unit of the service manager, as postgresql.service; may be repeated. Its first start is recorded, later ones are
    /// read ahead of, whatever programs and arguments it has; a name without a kind is a service
    #[arg(long, value_name = "NAME", value_parser = unit, conflicts_with = "command")]
    unit: Vec<Unit>,
    /// All programs: the same of a cgroup by its path below the root of cgroups, and of what is below it; may be repeated
    #[arg(long, value_name = "PATH", value_parser = cgroup, conflicts_with = "command")]
    cgroup: Vec<Unit>,
    /// All programs: the boot as one thing, which is what the machine's first process starts in its first TIME, 2s to a day [default: 2m]. For a
    /// daemon that starts early (docs/watch.md); one that starts when that time is over does all the rest
    #[arg(long, value_name = "TIME", value_parser = boot, num_args = 0..=1, require_equals = true, default_missing_value = "2m", conflicts_with = "command")]
    boot: Option<Unit>,
    /// All programs: a live page, its figures as JSON and for Prometheus, and what `forerun top` shows; HOST:PORT, a port of
    /// 127.0.0.1, or the path of a unix socket (with a slash), which is its owner's alone
    #[arg(long, value_name = "PLACE", conflicts_with = "command")]
    pub(crate) http: Option<forerun_page::place::Place>,
    /// Command to run; without one, all programs are watched
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Whose cgroup pays for what is read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ChargeTo {
    #[default]
    Own,
    Reader,
}

impl WatchArgs {
    /// Whether all programs are to be watched.
    pub(crate) fn is_of_all(&self) -> bool {
        self.command.is_empty() && !self.check && self.replay_log.is_none()
    }

    /// Units and cgroups whose starts are known by their names, and the boot.
    pub(crate) fn units(&self) -> Result<Vec<Unit>, CliError> {
        let mut units: Vec<Unit> = self.unit.iter().chain(&self.cgroup).cloned().collect();
        if units.len() > UNITS_MAX {
            let what = format!("{} units and cgroups are named", units.len());
            return Err(CliError::usage("--unit", &what, &format!("{UNITS_MAX} can be told apart")));
        }
        units.extend(self.boot.clone());
        Ok(units)
    }
}

fn unit(text: &str) -> Result<Unit, String> {
    Unit::named(text).ok_or_else(|| "a name of a unit is wanted, as in postgresql.service".into())
}

fn cgroup(text: &str) -> Result<Unit, String> {
    let what = "a path below the root of cgroups is wanted, as in system.slice/postgresql.service";
    Unit::cgroup(text).ok_or_else(|| what.into())
}

fn boot(text: &str) -> Result<Unit, String> {
    time(text).map(Unit::Boot)
}

fn is_none(scheme: &SchemeSpec) -> bool {
    scheme.to_string() == "none"
}

fn scheme(text: &str) -> Result<SchemeSpec, String> {
    SchemeSpec::parse(text).map_err(|problem| problem.to_string())
}

/// The trouble of following a command as the command line's, which `place` names.
pub(crate) fn problem(place: &str, error: FollowError) -> CliError {
    match error {
        FollowError::Record(problem) => CliError::recording(place, problem),
        FollowError::Scheme(_) => CliError::new(Kind::Usage, place, error, ""),
    }
}

/// Refuses a `--` behind which no command stands: what was to stand there was an empty variable, and what is done without a command is another thing.
pub(crate) fn check_dashes(command: &[OsString], place: &str) -> Result<(), CliError> {
    if command.is_empty() && std::env::args_os().next_back().is_some_and(|last| last == "--") {
        return Err(CliError::usage(place, "no command stands behind --", "name one, or leave -- out"));
    }
    Ok(())
}

/// Runs it.
pub(crate) fn run(args: &WatchArgs, ui: &Ui) -> Result<(), CliError> {
    if args.check {
        return super::watch_check::run(ui);
    }
    if let Some(log) = &args.replay_log {
        return replay(log, ui);
    }
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let folder = args.state.clone().unwrap_or_else(store::default_folder);
    outputs::begin_report(args.report.as_deref())?;
    let options = FollowOptions {
        command: args.command.clone(),
        process: None,
        gate: std::sync::Arc::default(),
        charge: forerun_watch::payers::Charge::default(),
        store: Some(Store::new(folder)),
        key: None,
        given: None,
        replay: !args.no_replay,
        bpf: !args.no_bpf,
        scheme: args.scheme.clone().filter(|scheme| !is_none(scheme)),
        patterns: args.scheme.is_none(),
        stop: Some(stop),
    };
    let report = follow::follow(&options, &mut |_| {}).map_err(|error| problem("watch", error))?;
    tell(&report, ui)?;
    outputs::report(args.report.as_deref(), &RunJson::of(&report), ui)?;
    ended("watch", report.ended)
}

/// Feeds a log of inputs to an engine and says what came of it. Only another output is a finding; what is no log is a failure.
fn replay(log: &Path, ui: &Ui) -> Result<(), CliError> {
    let found = inputs::verify(log).map_err(|problem| match problem {
        LogError::Differs { .. } => CliError::new(Kind::Finding, "", problem, ""),
        other => CliError::new(Kind::Failure, "", other, ""),
    })?;
    let Verified { inputs, outputs, cut } = found;
    if ui.json {
        return ui.print_json_line(&ReplayedLog { inputs, outputs, same: true, cut });
    }
    let cut = cut.map(|line| format!("; the log is cut at line {line}, as by a watch that was killed"));
    ui.print(&format!("{inputs} inputs, {outputs} outputs, all the same{}\n", cut.unwrap_or_default()))
}

/// What a replay of a log found.
#[derive(Serialize)]
struct ReplayedLog {
    inputs: u64,
    outputs: u64,
    /// Every output; where one is not, the exit code says it.
    same: bool,
    cut: Option<u64>,
}

/// How a run went, behind the command's own output.
pub(crate) fn tell(report: &Report, ui: &Ui) -> Result<(), CliError> {
    remarks(report, ui);
    if ui.json {
        return ui.print_json_line(&RunJson::of(report));
    }
    summary(report).iter().for_each(|line| ui.say(line));
    if let Some(wished) = &report.wished {
        ui.say(&format!(
            "forerun: by patterns {} read ahead, {} of them used",
            pages(wished.pages),
            of(wished.used, wished.pages)
        ));
    }
    if let Some(dense) = &report.dense {
        let strips = human::count(dense.strips);
        ui.say(&format!("forerun: {strips} MiB read whole, where most of each MiB was wanted"));
    }
    if let Some(beside) = &report.beside {
        ui.say(&format!(
            "forerun: {} small files beside those that it read were looked for; {} of those left out were read",
            human::count(beside.files),
            of(beside.marks_hit, beside.marks)
        ));
    }
    Ok(())
}

/// The command's own end as ours.
pub(crate) fn ended(place: &str, ended: Ended) -> Result<(), CliError> {
    ended.status().map_or(Ok(()), |status| CliError::command(place, status))
}

/// What a person has to know beside the figures.
pub(crate) fn remarks(report: &Report, ui: &Ui) {
    if let Some(damaged) = &report.damaged {
        ui.say(&format!("forerun: {damaged}; this run was recorded anew"));
    }
    if let Some(problem) = &report.unkept {
        ui.say(&format!("forerun: what was learnt is not kept ({problem}): give --state a folder with room that may be written to"));
    }
    if report.lost > 0 {
        ui.say(&format!("forerun: {} events were lost: the ring was full", human::count(report.lost)));
    }
    if !report.touches && !report.looked_for && report.replayed.pages > 0 {
        ui.say("forerun: this kernel tells what is loaded and not what is touched (Linux 6.12 does): of a run 32 MiB are read ahead at most");
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn pages(pages: u64) -> String {
    human::bytes(pages as f64 * 4096.0)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn nanos(nanos: u64) -> String {
    human::duration(nanos as f64)
}

fn of(part: u64, all: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let share = part as f64 / all as f64;
    human::percent(share)
}

/// From so many pages on it is said of which file systems they are: 256 KiB.
const UNNAMED_LEAST: u64 = 64;

/// What was loaded and can never be read ahead of, in a line.
pub(crate) fn unnamed(report: &Report) -> Option<String> {
    let all = report.unnamed.iter().map(|unnamed| unnamed.pages).sum::<u64>();
    let which: Vec<&str> = report.unnamed.iter().map(|unnamed| unnamed.what.as_str()).collect();
    let say = || {
        format!(
            "forerun: {} were loaded from file systems that Forerun cannot name ({}): not read ahead of",
            pages(all),
            which.join("; ")
        )
    };
    (all >= UNNAMED_LEAST).then(say)
}

/// The lines behind a run.
pub(crate) fn summary(report: &Report) -> Vec<String> {
    let mut lines = decided(report);
    if !report.all_followed {
        let what = "forerun: not all that it had started before could be followed: what that waited for and used is not known";
        lines.push(what.to_owned());
    }
    lines.extend(unnamed(report));
    lines
}

fn decided(report: &Report) -> Vec<String> {
    let (run, did) = (&report.run, &report.replayed);
    let more = if report.all_followed { "" } else { " or more" };
    let waited = format!("waited {}{more} for reads", nanos(run.waited));
    let cpu = format!("{} CPU", nanos(report.cpu));
    let knows = format!(
        "{} files, {} + {} of metadata",
        human::count(report.manifest.files.len() as u64),
        pages(report.manifest.file_pages()),
        pages(report.manifest.metadata_pages())
    );
    match report.decision {
        Decision::Record => vec![format!("forerun: recorded {knows}; {waited} · {cpu}")],
        Decision::NotAsked => {
            vec![format!("forerun: recorded, not read ahead of; {knows}; {waited} · {cpu}")]
        }
        Decision::HoldOut => {
            vec![format!("forerun: held out, to have a run to compare with; {waited} · {cpu}")]
        }
        Decision::Off => vec![format!("forerun: off: the last replays earned nothing; {waited} · {cpu}")],
        Decision::Alone | Decision::Slower { .. } | Decision::Cheaper { .. } | Decision::Here => {
            vec![format!("forerun: {}; took {} · {cpu}", left_alone(report.decision), nanos(run.elapsed))]
        }
        Decision::Replay if did.pages == 0 => vec![format!("forerun: {}; {waited} · {cpu}", nothing(did))],
        Decision::Replay => vec![replayed(did, report.rotating), earned(report, &waited, &cpu)],
    }
}

/// Why a run was left wholly alone.
fn left_alone(decision: Decision) -> String {
    match decision {
        Decision::Slower { ahead, alone, retry } => format!(
            "left alone: takes {} read ahead of and {} alone; one run in {retry} tries again",
            nanos(ahead),
            nanos(alone)
        ),
        Decision::Cheaper { waited, costs } => {
            format!("left alone: waits {} for reads, and reading ahead costs {}", nanos(waited), nanos(costs))
        }
        Decision::Here => "left alone: what is known of it is in memory already".to_owned(),
        _ => "left alone, to have a run to compare with".to_owned(),
    }
}

/// Why nothing was read ahead, as far as that is known.
fn nothing(did: &Replayed) -> String {
    let here = if did.here > 0 { "what is known of it was in memory already, " } else { "" };
    format!("{here}nothing was read ahead{}", skipped(did))
}

/// What was known and not read ahead, and why.
pub(crate) fn skipped(did: &Replayed) -> String {
    let some = |files: u64, what: &str| match files {
        0 => String::new(),
        files => format!("; {} {what}", human::count(files)),
    };
    let refused = some(did.refused, "files skipped that this user cannot open");
    some(did.stale_files(), "changed files skipped") + &refused
}

fn replayed(did: &Replayed, rotating: bool) -> String {
    let order = if rotating { "disk order" } else { "the order of first touch" };
    let mut line = format!(
        "forerun: {} files, {} + {} of metadata in {} reads, replayed in {order}",
        human::count(did.files),
        pages(did.pages - did.metadata_pages),
        pages(did.metadata_pages),
        human::count(did.requests),
    );
    line.push_str(&skipped(did));
    line
}

fn earned(report: &Report, waited: &str, cpu: &str) -> String {
    let (run, did) = (&report.run, &report.replayed);
    let without = match report.estimated {
        true => format!("{} without (estimated)", nanos(run.without)),
        false => "no run to compare with".to_owned(),
    };
    let data = did.pages - did.metadata_pages;
    let mut line = format!("forerun: {waited}; {without}");
    if report.touches && report.all_followed {
        line.push_str(&format!(" · used {}", of(did.used, data)));
        line.push_str(&format!(" · wasted {}", pages(data.saturating_sub(did.used))));
    }
    line.push_str(&format!(" · {cpu}"));
    if did.paced {
        line.push_str(" · held back while too much was unread");
    }
    line
}

/// One run as JSON.
#[derive(Serialize)]
pub(crate) struct RunJson {
    decision: &'static str,
    files: u64,
    file_pages: u64,
    metadata_pages: u64,
    manifest_bytes: Option<u64>,
    /// Why the manifest could not be kept.
    manifest_problem: Option<String>,
    elapsed_ns: u64,
    waited_ns: u64,
    /// Estimated, by what the last run waited that was not read ahead of; at most what whole runs took that were left alone.
    without_ns: Option<u64>,
    cpu_ns: u64,
    replayed_files: u64,
    replayed_pages: u64,
    replayed_metadata_pages: u64,
    requests: u64,
    /// Where the kernel tells, and all was followed.
    used_pages: Option<u64>,
    here_pages: u64,
    stale_files: u64,
    /// Of which this user cannot tell whether they are what was recorded.
    refused_files: u64,
    paced: bool,
    wished_pages: Option<u64>,
    wished_used_pages: Option<u64>,
    /// MiB that were read whole.
    dense_strips: Option<u64>,
    /// Numbers of small files that were looked for, those of them that were left out, and how many of these the command read.
    beside_files: Option<u64>,
    beside_marks: Option<u64>,
    beside_marks_hit: Option<u64>,
    /// Loaded from file systems that are not read ahead of, and which those are.
    unnamed_pages: u64,
    unnamed: Vec<String>,
    /// All that a process had started before it was followed is in these figures.
    all_followed: bool,
    lost_events: u64,
    /// Programs in the kernel told of its touches in the end.
    bpf: bool,
}

impl RunJson {
    /// Of a report.
    pub(crate) fn of(report: &Report) -> Self {
        let (run, did) = (&report.run, &report.replayed);
        Self {
            decision: match report.decision {
                Decision::Record => "record",
                Decision::Replay => "replay",
                Decision::HoldOut => "hold-out",
                Decision::Off => "off",
                Decision::NotAsked => "not-asked",
                Decision::Alone => "alone",
                Decision::Slower { .. } => "slower",
                Decision::Cheaper { .. } => "cheaper",
                Decision::Here => "here",
            },
            files: report.manifest.files.len() as u64,
            file_pages: report.manifest.file_pages(),
            metadata_pages: report.manifest.metadata_pages(),
            manifest_bytes: report.kept,
            manifest_problem: report.unkept.clone(),
            elapsed_ns: run.elapsed,
            waited_ns: run.waited,
            without_ns: report.estimated.then_some(run.without),
            cpu_ns: report.cpu,
            replayed_files: did.files,
            replayed_pages: did.pages,
            replayed_metadata_pages: did.metadata_pages,
            requests: did.requests,
            used_pages: (report.touches && report.all_followed).then_some(did.used),
            here_pages: did.here,
            stale_files: did.stale_files(),
            refused_files: did.refused,
            paced: did.paced,
            wished_pages: report.wished.map(|wished| wished.pages),
            wished_used_pages: report.wished.map(|wished| wished.used),
            dense_strips: report.dense.map(|dense| dense.strips),
            beside_files: report.beside.map(|beside| beside.files),
            beside_marks: report.beside.map(|beside| beside.marks),
            beside_marks_hit: report.beside.map(|beside| beside.marks_hit),
            unnamed_pages: report.unnamed.iter().map(|unnamed| unnamed.pages).sum(),
            unnamed: report.unnamed.iter().map(|unnamed| unnamed.what.clone()).collect(),
            all_followed: report.all_followed,
            lost_events: report.lost,
            bpf: report.bpf,
        }
    }
}
