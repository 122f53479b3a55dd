//! `forerun load`: whole files into the page cache, in windows.

use super::watch;
use crate::error::{CliError, Kind};
use crate::ui::Ui;
use clap::Args;
use forerun_core::size::parse_size;
use forerun_study::human;
use forerun_watch::follow::{self, FollowOptions};
use forerun_watch::load::{self, Files, LoadError};
use forerun_watch::memory;
use forerun_watch::replay::{self, Alone, Replayed, Unread};
use serde::Serialize;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Instant;

/// The closing paragraphs of the help.
pub(crate) const HELP: &str = "\
Examples:
  forerun load model-*.safetensors                     # needs no privilege
  forerun load --budget 2G model-*.safetensors
  sudo forerun load model.gguf -- ./server model.gguf  # stays just ahead of the reader, also where memory is small

Requests are as large as one command of the device, as many are in flight as fill it, and each is waited for. What is in
flight never exceeds a quarter of the memory that the cgroup's limit leaves. With a command (root, Linux 6.12) its reads are
followed, and no more than that, or 32 MiB, is loaded and not yet read; then the exit code is the command's.";

const PAGE: u64 = 4096;

/// Options of `load`.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Most bytes to load, in the order of the files; what is in memory already counts [default: half of what memory is available; with a command, all]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget: Option<u64>,
    /// Files to load, in this order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Command that will read them
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|problem| problem.to_string())
}

#[derive(Serialize)]
struct LoadedJson {
    /// Of which something is in memory now.
    files: u64,
    bytes: u64,
    loaded_bytes: u64,
    here_bytes: u64,
    /// Asked for, and in memory already or not: the kernel does not tell.
    untold_bytes: u64,
    beyond_budget_bytes: u64,
    requests: u64,
    elapsed_ns: u64,
    /// A signal cut it off.
    interrupted: bool,
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn bytes(pages: u64) -> String {
    human::bytes((pages * PAGE) as f64)
}

/// Runs it.
pub(crate) fn run(args: &LoadArgs, ui: &Ui) -> Result<(), CliError> {
    watch::check_dashes(&args.command, "load")?;
    let default = if args.command.is_empty() { memory::available() / 2 } else { u64::MAX };
    let budget = args.budget.unwrap_or(default) / PAGE;
    let files = load::files(&args.files, budget).map_err(|problem| not_begun(&problem))?;
    if !args.command.is_empty() {
        return beside(args, files, ui);
    }
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let all = files.manifest.file_pages();
    let bar = ui.bars.then(|| bar(all * PAGE));
    let start = Instant::now();
    let alone = replay::replay(&files.manifest, &files.volumes, u64::MAX, &stop, &mut |done: &Replayed| {
        if let Some(bar) = &bar {
            bar.set_position((done.pages + done.here).min(all) * PAGE);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    say(&files, &alone, start, ui)?;
    in_full("load", &alone)
}

/// One of the files is none that can be loaded.
fn not_begun(problem: &LoadError) -> CliError {
    let remedy = match problem.source.kind() {
        ErrorKind::NotFound => "give files that are there",
        ErrorKind::PermissionDenied => "give files that you may read",
        // It says so itself.
        _ => "",
    };
    CliError::new(Kind::Failure, "load", format!("{problem}; nothing was loaded"), remedy)
}

/// Whether all is in memory that was to be, and if not, why.
pub(crate) fn in_full(place: &str, alone: &Alone) -> Result<(), CliError> {
    if let Some(unread) = &alone.unread {
        return Err(not_read(place, unread));
    }
    if !alone.interrupted {
        return Ok(());
    }
    Err(CliError::interrupted(place, "run it again: what is loaded stays"))
}

/// Not all is in memory: a device did not read it.
fn not_read(place: &str, unread: &Unread) -> CliError {
    let rest = format!("{unread}; {} in all could not be read", bytes(unread.pages));
    CliError::new(Kind::Failure, place, rest, "the kernel's log (dmesg) says more of the device")
}

fn bar(bytes: u64) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template(
        "{bar:40} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}",
    );
    // The template is right: the tests would say so.
    indicatif::ProgressBar::new(bytes).with_style(style.expect("a valid template"))
}

fn say(files: &Files, alone: &Alone, start: Instant, ui: &Ui) -> Result<(), CliError> {
    let (elapsed, done) = (start.elapsed(), &alone.done);
    let limit = memory::cgroup().map(|of| of.limit);
    if let Some(remark) = beyond_limit(done.pages * PAGE, limit) {
        ui.say(&remark);
    }
    if ui.json {
        return ui.print_json(&LoadedJson {
            files: done.files,
            bytes: files.pages * PAGE,
            loaded_bytes: done.pages * PAGE,
            here_bytes: done.here * PAGE,
            untold_bytes: done.untold * PAGE,
            beyond_budget_bytes: files.beyond * PAGE,
            requests: done.requests,
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            interrupted: alone.interrupted,
        });
    }
    let seconds = elapsed.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let rate = human::rate((done.pages * PAGE) as f64 / seconds.max(1e-9));
    let took = human::duration(seconds * 1e9);
    let mut line = if done.untold > 0 {
        format!("asked for {} in {took}; {}", bytes(done.pages), untold(done))
    } else {
        format!("loaded {} in {took}, {rate}", bytes(done.pages))
    };
    if done.here > 0 {
        line.push_str(&format!("; {} in memory already", bytes(done.here)));
    }
    if files.beyond > 0 {
        line.push_str(&format!("; {} beyond the budget", bytes(files.beyond)));
    }
    line.push('\n');
    ui.print(&line)
}

/// That not all can still be there, where a budget is larger than the limit of the cgroup.
#[expect(clippy::cast_precision_loss, reason = "for people")]
pub(crate) fn beyond_limit(loaded: u64, limit: Option<u64>) -> Option<String> {
    let limit = limit.filter(|&limit| loaded > limit)?;
    let [loaded, limit] = [loaded, limit].map(|bytes| human::bytes(bytes as f64));
    Some(format!(
        "forerun: {loaded} was loaded where its cgroup may have {limit}: what came first was pushed out; --budget less loads what fits"
    ))
}

/// That it may have been in memory, and how fast it was says nothing of the device.
pub(crate) fn untold(done: &Replayed) -> String {
    format!("of {} the kernel does not tell us whether it was in memory already", bytes(done.untold))
}

/// Beside a command that reads the files.
fn beside(args: &LoadArgs, files: Files, ui: &Ui) -> Result<(), CliError> {
    let stop =
        forerun_watch::signals::stop_flag().map_err(|problem| CliError::failure("signals", problem))?;
    let options = FollowOptions {
        command: args.command.clone(),
        process: None,
        gate: std::sync::Arc::default(),
        charge: forerun_watch::payers::Charge::default(),
        store: None,
        key: Some(files.manifest.key.clone()),
        given: Some((files.manifest, files.volumes)),
        replay: true,
        bpf: true,
        scheme: None,
        patterns: false,
        stop: Some(stop),
    };
    let report = follow::follow(&options, &mut |_| {}).map_err(|error| watch::problem("load", error))?;
    watch::tell(&report, ui)?;
    watch::ended("load", report.ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_limit_of_the_cgroup_is_not_said_to_be_in_memory() {
        let said = beyond_limit(300 << 20, Some(64 << 20)).expect("it cannot be");
        assert!(said.contains("300 MiB") && said.contains("64.0 MiB"), "{said}");
        assert_eq!([beyond_limit(1, Some(1)), beyond_limit(1 << 40, None)], [None, None]);
    }

    #[test]
    fn the_bar_can_be_drawn() {
        bar(1 << 20).finish_and_clear();
    }
}
