//! The words of the command line: the list of subcommands, and how clap's answers are printed.
//!
//! Each subcommand's own options stand in its file under `commands/`, and those that all share in `ui.rs`.

use crate::commands::attempt;
use crate::commands::{
    array, compare, config, ctl, device, doctor, explain, generate, load, manifest, mrc, reproduce, serve,
    sweep, top, trace, watch,
};
use crate::error::CliError;
use crate::ui::Global;
use clap::{CommandFactory as _, Parser, Subcommand};
use forerun_study::error::one_line;
use std::ffi::OsStr;
use std::process::ExitCode;

const ABOUT: &str =
    "Forerun reads storage ahead of the programs that will ask for it, and shows whether that pays.";

const AFTER_HELP: &str = "\
Examples:
  forerun doctor
  forerun try -- ./my-program
  forerun compare 'forward:processes=4,size=2GiB,block=4KiB' --array raid5:5x128KiB \\
      --scheme asp --scheme asp+msp --scheme seqp:512KiB --html report.html
  forerun compare trace.csv.gz --array raid5:5x128KiB --cache 500MiB --scheme asp \\
      --fail-if 'speedup(asp) < 1.2'
  forerun schemes

Sizes: K, M, G and KiB, MiB, GiB are powers of 1024; kB, MB, GB of 1000.

Exit codes: 0 fine, 1 failure, 2 misuse, 3 a --fail-if threshold was met, a check found something or a replayed log differs,
4 kernel or privilege missing. What runs a command of yours ends with its exit code, 128+N where signal N ended it, 127 or 126 where it cannot be started;
`load` and `manifest replay` that signal N cuts off with 128+N.";

/// The version, with its commit where the build was told it (scripts/version.sh).
const VERSION: &str = match option_env!("FORERUN_VERSION") {
    Some(told) => told,
    None => env!("CARGO_PKG_VERSION"),
};

/// Forerun reads storage ahead of the programs that will ask for it, and shows whether that pays.
#[derive(Debug, Parser)]
#[command(name = "forerun", version = VERSION, about = ABOUT, after_help = AFTER_HELP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What of this machine's settings stands in the way of reads; changes nothing, needs no root
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::DoctorArgs),
    /// Run a command, and say what would make its reads faster here, by how much, or that nothing would
    #[command(after_help = attempt::TRY_HELP)]
    Try(attempt::TryArgs),
    /// From a trace to the one setting that pays: predicted effect with its interval, commands and their undo
    #[command(after_help = attempt::ADVISE_HELP)]
    Advise(attempt::AdviseArgs),
    /// List the schemes: what they do, their parameters, where they come from
    #[command(after_help = "Examples:\n  forerun schemes\n  forerun schemes --json\n\n\
        A scheme is one or more parts joined by +, each with its parameters: asp+seqp:128KiB, asp(ghosts=off).")]
    Schemes,
    /// The numbers that a scheme chooses for a device, an array and a cache, and why
    #[command(after_help = explain::HELP)]
    Explain(explain::ExplainArgs),
    /// Device models: list, show, import and validate them
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Traces: what is in one, from format to format, recorded, made from a workload
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// One run: an input under one scheme
    Sim(compare::SimArgs),
    /// Many runs: inputs under several schemes, beside no prefetching and two bounds
    Compare(compare::CompareArgs),
    /// A study of many runs: a matrix of inputs, schemes and options, resumable, in shards
    #[command(after_help = sweep::HELP)]
    Sweep(sweep::SweepArgs),
    /// Cache-only runs: misses under each retention at each size, counted exactly
    Mrc(mrc::MrcArgs),
    /// Run the figures of a paper and say which of its claims hold
    #[command(subcommand)]
    Reproduce(reproduce::ReproduceCommand),
    /// Serve a file, a device or striped members over NBD, through a prefetching cache
    #[command(after_help = serve::HELP)]
    Serve(Box<serve::ServeArgs>),
    /// Arrays of several members that serve puts together: make one, look at one (experimental; md is what to trust)
    #[command(subcommand)]
    Array(array::ArrayCommand),
    /// Ask a running server, and change its scheme, or empty its cache
    #[command(after_help = ctl::HELP)]
    Ctl(ctl::CtlArgs),
    /// Watch a running server in the terminal: hits, waits, members, and why it reads ahead or does not
    #[command(after_help = top::HELP)]
    Top(top::TopArgs),
    /// Run a command and read ahead of it what its last runs loaded; without one, watch all programs
    #[command(after_help = watch::HELP)]
    Watch(watch::WatchArgs),
    /// Load whole files into the page cache, in windows, for any program that reads them
    #[command(after_help = load::HELP)]
    Load(load::LoadArgs),
    /// What was read, as a file: record, show, verify, merge, replay, snapshot
    #[command(subcommand)]
    Manifest(manifest::ManifestCommand),
    /// The configuration of serve: what is set, and where
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the completion script of a shell
    Completions(generate::CompletionsArgs),
    /// Write the manual pages
    Man(generate::ManArgs),
}

/// The command line's definition. Closing paragraphs of help are lines of any length, which the terminal wraps.
pub(crate) fn command() -> clap::Command {
    flowing(Cli::command())
}

fn flowing(mut command: clap::Command) -> clap::Command {
    if let Some(text) = command.get_after_help() {
        let text = flow(&text.to_string());
        command = command.after_help(text);
    }
    command.mut_subcommands(flowing)
}

/// Joins the lines of each paragraph. What is indented (examples, tables) keeps its lines.
fn flow(text: &str) -> String {
    let mut out = String::new();
    let mut prose = false;
    for line in text.lines() {
        let joins = prose && !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            out.push(if joins { ' ' } else { '\n' });
        }
        out.push_str(line);
        prose = !line.is_empty() && !line.starts_with(' ');
    }
    out
}

/// Prints help and version as clap does, and every misuse as our one line; returns the exit code.
pub(crate) fn report_problem(problem: &clap::Error) -> ExitCode {
    if !problem.use_stderr() {
        let Err(problem) = problem.print() else { return ExitCode::SUCCESS };
        let problem = CliError::from(problem);
        if !problem.is_silent() {
            tell(&problem.to_string());
        }
        return ExitCode::from(problem.code());
    }
    if problem.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        drop(problem.print());
        return ExitCode::from(2);
    }
    match std::env::args_os().find(|word| word.to_str().is_none()) {
        Some(word) if problem.kind() == clap::error::ErrorKind::InvalidUtf8 => tell(&no_text(&word)),
        _ => tell(&one_line(&problem.to_string())),
    }
    ExitCode::from(2)
}

fn tell(problem: &str) {
    use std::io::Write as _;
    let line = crate::journal::last_line(&forerun_study::human::plain(problem));
    drop(std::io::stderr().lock().write_all(line.as_bytes()));
}

/// Of a word whose bytes are no text: a spec, a report and JSON hold the names of inputs, so these are texts.
fn no_text(word: &OsStr) -> String {
    let shown = word.as_encoded_bytes().escape_ascii();
    format!(
        "command line: \"{shown}\" is not UTF-8, and here a name of text is wanted (give the file another name, or a link: ln -s FILE input)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn paragraphs_of_help_flow_and_examples_keep_their_lines() {
        let text = "Examples:\n  a \\\n      b\n  c\n\nOne\ntwo.\n\nTable:\n  x  1\nThree\nfour";
        assert_eq!(flow(text), "Examples:\n  a \\\n      b\n  c\n\nOne two.\n\nTable:\n  x  1\nThree four");
        let reproduce = command().find_subcommand("reproduce").expect("there").clone();
        let help =
            reproduce.find_subcommand("rpp").expect("there").get_after_help().expect("help").to_string();
        assert!(help.lines().last().expect("lines").len() > 150, "a subcommand's too: {help}");
    }

    #[test]
    fn a_misuse_is_one_line_with_its_remedy() {
        let problem = Cli::try_parse_from(["forerun", "compare", "x", "--sheme", "asp"]).expect_err("a typo");
        let line = one_line(&problem.to_string());
        assert!(!line.contains('\n'));
        assert!(line.starts_with("command line: unexpected argument '--sheme' found"), "{line}");
        assert!(line.contains("--scheme"), "{line}");
    }
}
