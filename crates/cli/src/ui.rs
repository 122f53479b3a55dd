//! How the command line speaks: results to stdout, everything else to stderr, colour only where it is wanted.

use crate::error::CliError;
use crate::journal;
use clap::{Args, ValueEnum};
use forerun_study::human;
use forerun_study::paint::Paint;
pub(crate) use forerun_study::paint::Style;
use std::io::{IsTerminal as _, Write as _};

/// Options that every subcommand takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print JSON to stdout instead of text: one object, of serve one when it is ready and one at its end
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no remarks on stderr; errors are still printed, but not that a command under us failed
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more on stderr
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Colour in text output; NO_COLOR is honoured by `auto`
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What the global options and the terminal allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    /// Print JSON instead of a table.
    pub(crate) json: bool,
    /// No progress and no remarks.
    pub(crate) quiet: bool,
    /// How many `-v`.
    pub(crate) verbose: u8,
    /// Escape sequences on stdout.
    pub(crate) color: bool,
    /// Progress bars on stderr: a terminal, and not quiet.
    pub(crate) bars: bool,
    /// Characters of a line of stdout: COLUMNS, else the terminal's; none where lines go into a file or a pipe.
    pub(crate) columns: Option<usize>,
}

/// How long a line of stdout may be.
fn columns() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || {
        let size = std::io::stdout().is_terminal().then(|| ratatui::crossterm::terminal::size().ok());
        size.flatten().map(|(columns, _)| usize::from(columns))
    };
    said.or_else(terminal).filter(|&columns| columns > 0)
}

impl Ui {
    /// Reads the environment: `NO_COLOR` set and not empty turns colour off unless `--color always`.
    pub(crate) fn new(global: &Global) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let color = match global.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => std::io::stdout().is_terminal() && !no_color && !dumb,
        };
        Self {
            json: global.json,
            quiet: global.quiet,
            verbose: global.verbose,
            color,
            bars: std::io::stderr().is_terminal() && !global.quiet,
            columns: columns(),
        }
    }
    /// Refuses `--json` beside something else that would stand on stdout.
    pub(crate) fn refuse_json(&self, beside: &str, remedy: &str) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        let what = format!("'--json' cannot be used with '{beside}': both have stdout");
        Err(CliError::usage("command line", what, remedy))
    }
    /// Text to stdout, as it is.
    pub(crate) fn print(&self, text: &str) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }
    /// One value as JSON to stdout, indented, with a line end.
    pub(crate) fn print_json(&self, value: &impl serde::Serialize) -> Result<(), CliError> {
        let mut text =
            serde_json::to_string_pretty(value).map_err(|problem| CliError::failure("output", problem))?;
        text.push('\n');
        self.print(&text)
    }
    /// One value as JSON to stdout, in one line: for commands that print several, one after another.
    pub(crate) fn print_json_line(&self, value: &impl serde::Serialize) -> Result<(), CliError> {
        let mut text =
            serde_json::to_string(value).map_err(|problem| CliError::failure("output", problem))?;
        text.push('\n');
        self.print(&text)
    }
    /// A remark on stderr, one line, in which names of files do not steer a terminal; silent with `--quiet`. A stderr that is gone is no
    /// reason to fail.
    pub(crate) fn say(&self, line: &str) {
        if !self.quiet {
            drop(writeln!(std::io::stderr().lock(), "{}", human::plain(line)));
        }
    }
    /// An error on stderr: one line. That a command under us failed is a remark: it has said why.
    pub(crate) fn problem(&self, problem: &CliError) {
        if problem.is_of_command() && self.quiet {
            return;
        }
        let line = journal::last_line(&problem.to_string());
        drop(std::io::stderr().lock().write_all(line.as_bytes()));
    }
    /// `text` in the given style when colour is on.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        self.ink().paint(style, text)
    }
    /// Whether tables may be coloured.
    pub(crate) const fn ink(&self) -> Paint {
        Paint { color: self.color }
    }
}
