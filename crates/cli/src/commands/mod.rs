//! One file for each subcommand.

mod applying;
pub(crate) mod array;
pub(crate) mod attempt;
pub(crate) mod compare;
pub(crate) mod config;
pub(crate) mod ctl;
pub(crate) mod device;
pub(crate) mod doctor;
pub(crate) mod explain;
mod file_system;
pub(crate) mod generate;
mod here;
pub(crate) mod load;
pub(crate) mod manifest;
mod measure;
pub(crate) mod mrc;
mod part;
pub(crate) mod patterns;
mod quieted;
mod reading;
mod recording;
mod records;
pub(crate) mod reproduce;
mod schemes;
mod scratch;
pub(crate) mod serve;
pub(crate) mod sweep;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod watch;
mod watch_all;
mod watch_check;
mod writing;

use crate::args::{self, Command};
use crate::error::CliError;
use crate::ui::Ui;
use clap::ArgMatches;

/// Runs the subcommand that was asked for. `matches` tells what was said from what is a default.
pub(crate) fn dispatch(command: Command, matches: &ArgMatches, ui: &Ui) -> Result<(), CliError> {
    match command {
        Command::Doctor(args) => doctor::doctor(&args, ui),
        Command::Try(args) => attempt::attempt(&args, ui),
        Command::Advise(args) => attempt::advise(&args, ui),
        Command::Schemes => schemes::list(ui),
        Command::Explain(args) => explain::explain(&args, ui),
        Command::Device(command) => device::run(&command, ui),
        Command::Trace(command) => trace::run(&command, ui),
        Command::Sim(args) => compare::sim(&args, ui),
        Command::Compare(args) => compare::compare(&args, ui),
        Command::Sweep(args) => sweep::sweep(&args, ui),
        Command::Mrc(args) => mrc::mrc(&args, ui),
        Command::Reproduce(command) => reproduce::run(&command, ui),
        Command::Serve(args) => serve::serve(&args, of_subcommand(matches), ui),
        Command::Array(command) => array::run(&command, ui),
        Command::Ctl(args) => ctl::run(&args, ui),
        Command::Top(args) => top::top(&args, ui),
        Command::Config(command) => config::run(&command, of_subcommand(matches), ui),
        Command::Watch(args) if args.is_of_all() => watch_all::run(&args, ui),
        Command::Watch(args) => watch::run(&args, ui),
        Command::Load(args) => load::run(&args, ui),
        Command::Manifest(command) => manifest::run(&command, ui),
        Command::Completions(said) => generate::completions(&said, args::command(), ui),
        Command::Man(said) => generate::man(&said, args::command(), ui),
    }
}

fn of_subcommand(matches: &ArgMatches) -> Option<&ArgMatches> {
    matches.subcommand().map(|(_, matches)| matches)
}
