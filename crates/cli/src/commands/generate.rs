//! `completions` and `man`: both are generated from the same definition that parses the command line, so they
//! cannot fall behind it.

use crate::args::Cli;
use crate::error::CliError;
use crate::ui::Ui;
use clap::{Args, CommandFactory as _};
use std::path::PathBuf;

/// Options of `completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  forerun completions bash > ~/.local/share/bash-completion/completions/forerun"
)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  forerun man | man -l -\n  forerun man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Folder for one page per subcommand; without it the first page goes to stdout
    dir: Option<PathBuf>,
}

/// Prints the script.
pub(crate) fn completions(args: &CompletionsArgs, ui: &Ui) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "forerun", &mut script);
    ui.print(&String::from_utf8_lossy(&script))
}

/// Writes `forerun.1`, `forerun-compare.1`, … into the folder, or the first page to stdout.
pub(crate) fn man(args: &ManArgs, ui: &Ui) -> Result<(), CliError> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page)?;
        return ui.print(&String::from_utf8_lossy(&page));
    };
    std::fs::create_dir_all(dir).map_err(|problem| CliError::file(dir, &problem))?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(|problem| CliError::file(dir, &problem))?;
    ui.say(&format!("manual pages written to {}", dir.display()));
    Ok(())
}
