//! `forerun`: the one binary, and nothing but a front.
//!
//! Each subcommand is a file in `commands/` that turns words into plain data, calls a library, and prints what
//! comes back. No figure is computed here that a library could compute: the table, the CSV, the JSON and the
//! HTML page show the same report. Results go to stdout, everything else to stderr, and the exit code tells a
//! script what happened: 0 fine, 1 failure, 2 misuse, 3 a threshold of `--fail-if` was met or a check found something, 4 the kernel or a
//! privilege is missing.

mod advice;
mod args;
mod commands;
mod duration;
mod error;
mod fail_if;
mod journal;
mod learned;
mod outputs;
mod progress;
mod ui;

use args::Cli;
use clap::FromArgMatches as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed =
        args::command().try_get_matches().and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(problem) => return args::report_problem(&problem),
    };
    // Where the system refuses it, such a file ends the program, as it does others.
    drop(forerun_watch::signals::outlive_file_limits());
    let ui = ui::Ui::new(&cli.global);
    match commands::dispatch(cli.command, &matches, &ui) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            if !problem.is_silent() {
                ui.problem(&problem);
            }
            ExitCode::from(problem.code())
        }
    }
}
