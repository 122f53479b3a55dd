//! How commands read a trace: the options that say what the file does not, and what is said of records passed over.

use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_study::human;
use forerun_trace::{ColumnMapping, Format, Malformed, Opened, ReadOptions};
use std::path::Path;

/// How a trace is read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReadArgs {
    /// Format of the trace [default: found by its content]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Columns of a CSV of your own: time=0:us,offset=3:sectors,bytes=4,op=2
    #[arg(long, value_name = "MAPPING", conflicts_with = "format")]
    pub(crate) columns: Option<ColumnMapping>,
    /// Pass over malformed records and count them
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Stop after N records
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

impl ReadArgs {
    /// As the reader takes them.
    pub(crate) fn options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format,
            skip_bad: self.skip_bad,
            csv_mapping: self.columns.clone(),
            limit: self.limit,
            ..ReadOptions::default()
        }
    }
}

/// Reads a trace; what was passed over is said on stderr.
pub(crate) fn open(path: &Path, args: &ReadArgs, ui: &Ui) -> Result<Opened, CliError> {
    let options = args.options();
    let opened = if path.as_os_str() == "-" {
        forerun_trace::read_from("standard input", std::io::stdin().lock(), &options)
    } else {
        forerun_trace::open(path, &options)
    };
    let opened = opened.map_err(|problem| forerun_study::traces::unreadable(&problem))?;
    say_passed_over(path, opened.trace.skipped, &opened.bad, ui);
    Ok(opened)
}

/// Says on stderr how many records were passed over, and the first of them.
pub(crate) fn say_passed_over(path: &Path, skipped: u64, bad: &[Malformed], ui: &Ui) {
    if skipped > 0 {
        ui.say(&format!("{}: {} bad records passed over", path.display(), human::count(skipped)));
        for bad in bad {
            ui.say(&format!("  {bad}"));
        }
    }
}
