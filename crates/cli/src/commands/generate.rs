//! `completions` and `man`: both are generated from the definition that parses the command line (`root`), so they cannot
//! fall behind it.

use crate::error::CliError;
use crate::ui::Ui;
use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use forerun_core::registry::ROWS;
use forerun_disk::preset::Preset;
use std::io;
use std::path::{Path, PathBuf};

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
pub(crate) fn completions(args: &CompletionsArgs, root: Command, ui: &Ui) -> Result<(), CliError> {
    ui.refuse_json("completions", "the script is for a shell")?;
    let mut script = Vec::new();
    let mut root = with_names(root);
    clap_complete::generate(args.shell, &mut root, "forerun", &mut script);
    ui.print(&String::from_utf8_lossy(&script))
}

/// The same with the names that exist, of schemes and of devices, as the values that a shell offers. What is parsed is more than
/// these names (parameters, wholes of parts, files), so only the copy for the generator has them.
fn with_names(command: Command) -> Command {
    let schemes = || ROWS.iter().map(|row| row.name).collect::<Vec<_>>();
    let command = command.mut_args(|arg| match arg.get_id().as_str() {
        "scheme" | "schemes" => arg.value_parser(PossibleValuesParser::new(schemes())),
        "device" => arg.value_parser(PossibleValuesParser::new(Preset::names())),
        _ => arg,
    });
    command.mut_subcommands(with_names)
}

/// Writes `forerun.1`, `forerun-compare.1`, … into the folder, or the first page to stdout.
pub(crate) fn man(args: &ManArgs, root: Command, ui: &Ui) -> Result<(), CliError> {
    ui.refuse_json("man", "pages are for people")?;
    let mut root = root.disable_help_subcommand(true);
    root.build();
    let Some(dir) = &args.dir else {
        return ui.print(&page(&root)?.1);
    };
    if dir.exists() && !dir.is_dir() {
        return Err(CliError::usage(
            &dir.display().to_string(),
            "it is a file, and every page is one",
            "name a folder",
        ));
    }
    std::fs::create_dir_all(dir).map_err(|problem| CliError::file(dir, &problem))?;
    write_pages(&root, dir)?;
    ui.say(&format!("manual pages written to {}", dir.display()));
    Ok(())
}

/// The page of a command and those of its subcommands.
fn write_pages(command: &Command, dir: &Path) -> Result<(), CliError> {
    let (name, text) = page(command)?;
    let path = dir.join(name);
    std::fs::write(&path, text).map_err(|problem| CliError::file(&path, &problem))?;
    command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| write_pages(sub, dir))
}

/// Name and text of a page. Its synopsis is the usage line of `--help`: the generator's own names every option without its
/// value, and one argument where there may be many.
fn page(command: &Command) -> io::Result<(String, String)> {
    let man = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    man.render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut synopsis = false;
    let line = |line: &str| {
        let shown = if synopsis { usage.replace('-', "\\-") } else { line.to_owned() };
        synopsis = line == ".SH SYNOPSIS";
        shown + "\n"
    };
    Ok((man.get_filename(), text.lines().map(line).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synopsis_is_the_usage_line_of_help() {
        let mut root = crate::args::command();
        root.build();
        let serve = root.find_subcommand("serve").expect("a subcommand");
        let (name, text) = page(serve).expect("rendered");
        assert_eq!(name, "forerun-serve.1");
        let synopsis = text.lines().skip_while(|line| *line != ".SH SYNOPSIS").nth(1);
        assert_eq!(synopsis, Some("forerun serve [OPTIONS] [MEMBER]..."));
        assert!(text.contains(".SH OPTIONS"), "{text}");
    }
}
