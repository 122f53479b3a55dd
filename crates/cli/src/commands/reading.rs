//! How commands read a trace: the options that say what the file does not, and what is said of records passed over.

use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_study::human;
use forerun_trace::record::Record;
use forerun_trace::{ColumnMapping, Format, Malformed, Opened, ReadOptions, TraceError};
use std::path::Path;

/// The keys of `--columns`, for a help text.
pub(crate) const COLUMNS_HELP: &str = "\
Keys of --columns (column numbers count from 0; KEY=Heading names a column by the first line, as in offset=Offset):
  offset=N[:UNIT]    first byte; bytes (the default), sectors, blocks, KiB or MiB
  bytes=N[:UNIT]     length, in the same units; or size=BYTES, the same for all
  time=N[:UNIT]      when it was asked for: ns, 100ns, us, ms or s (the default)
  took=N[:UNIT]      how long it took, in the same units
  op=N               read or write: words that begin with R or W; without it all are reads
  read=WORD          what op holds for a read; write=WORD for a write
  device=N           its device; process=N its process, file=N its file
  filesize=N[:UNIT]  size of the file, in the units of offset; may be empty
  sep=WORD           what separates columns: comma (the default), tab, space, semicolon or pipe
  header=LINES       lines to pass over at the beginning; 1 where a heading names a column, else 0
  zero=WORD          first (the default: the earliest request is time zero) or file (times as they are)
";

/// How a trace is read.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReadArgs {
    /// Format of the trace [default: found by its content]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Columns of a text of your own: time=0:us,offset=3:sectors,bytes=4,op=2 (`forerun trace info --help` lists all keys)
    #[arg(long, value_name = "MAPPING", conflicts_with = "format")]
    pub(crate) columns: Option<ColumnMapping>,
    /// Pass over malformed records and count them
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Stop after N records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
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
    read(path, ui, || {
        if path.as_os_str() == "-" {
            forerun_trace::read_from(STDIN, std::io::stdin().lock(), &options)
        } else {
            forerun_trace::open(path, &options)
        }
    })
}

/// Reads a trace through, of which nothing is kept: its records are handed on as they come, with another zero of times. What was passed over is
/// said on stderr.
pub(crate) fn through(
    path: &Path,
    args: &ReadArgs,
    ui: &Ui,
    take: &mut dyn FnMut(&[Record]),
) -> Result<Opened, CliError> {
    let options = args.options();
    read(path, ui, || {
        if path.as_os_str() == "-" {
            forerun_trace::through_from(STDIN, std::io::stdin().lock(), &options, take)
        } else {
            forerun_trace::through(path, &options, take)
        }
    })
}

/// What stands for `-` in messages.
const STDIN: &str = "standard input";

fn read(path: &Path, ui: &Ui, read: impl FnOnce() -> Result<Opened, TraceError>) -> Result<Opened, CliError> {
    say_waits(path, ui);
    let opened = read().map_err(|problem| forerun_study::traces::unreadable(&problem))?;
    say_assumed(path, opened.trace.assumed.as_deref(), ui);
    say_passed_over(path, opened.trace.skipped, &opened.bad, ui);
    Ok(opened)
}

/// Says that a named pipe is waited for: to open it takes until somebody opens its other end, which may be never. What the shell hands
/// over (`<(…)`) has no name and a writer.
pub(crate) fn say_waits(path: &Path, ui: &Ui) {
    use std::os::unix::fs::FileTypeExt as _;
    let named = path.canonicalize().and_then(|path| path.metadata());
    if named.is_ok_and(|metadata| metadata.file_type().is_fifo()) {
        ui.say(&format!("{} is a pipe: waiting for somebody to write into it", path.display()));
    }
}

/// Says on stderr in which units the numbers of a trace were taken to be, where it does not say so itself.
pub(crate) fn say_assumed(path: &Path, assumed: Option<&str>, ui: &Ui) {
    if let Some(assumed) = assumed {
        ui.say(&format!("{}: {assumed}", path.display()));
    }
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
