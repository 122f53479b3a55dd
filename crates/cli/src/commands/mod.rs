//! One file for each subcommand.

pub(crate) mod compare;
pub(crate) mod generate;

use crate::args::Command;
use crate::error::CliError;
use crate::ui::Ui;

/// Runs the subcommand that was asked for.
pub(crate) fn dispatch(command: Command, ui: &Ui) -> Result<(), CliError> {
    match command {
        Command::Sim(args) => compare::sim(&args, ui),
        Command::Compare(args) => compare::compare(&args, ui),
        Command::Completions(args) => generate::completions(&args, ui),
        Command::Man(args) => generate::man(&args, ui),
    }
}
