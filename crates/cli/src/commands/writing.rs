//! A trace into a file: which format its name means, what was written, and what that format does not hold.

use crate::error::CliError;
use crate::outputs;
use crate::ui::Ui;
use forerun_study::human;
pub(crate) use forerun_study::traces::target;
use forerun_trace::{Format, WriteError};
use serde::Serialize;
use std::path::Path;

/// Whether a name means standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses `--json` beside a trace that goes to stdout.
pub(crate) fn check_json(output: &Path, ui: &Ui) -> Result<(), CliError> {
    if is_dash(output) { ui.refuse_json("-", "name a file for the trace") } else { Ok(()) }
}

/// Writes a trace, and says what its format does not hold.
pub(crate) fn write(
    path: &Path,
    to: Option<Format>,
    trace: &forerun_trace::record::Trace,
    ui: &Ui,
) -> Result<Written, CliError> {
    let format = if is_dash(path) { to.unwrap_or(Format::Csv) } else { target(path, to)? };
    let _held = outputs::hold_pipe(path, ui)?;
    let written = if is_dash(path) {
        forerun_trace::write_to(&mut std::io::stdout(), format, trace)
    } else {
        forerun_trace::write(path, format, trace)
    };
    let written = written.map_err(|problem| match problem {
        // Who read it has seen enough.
        WriteError::Io { source, .. } if is_dash(path) => CliError::from(source),
        other @ WriteError::NotWritten { .. } => CliError::usage(&path.display().to_string(), other, ""),
        other => CliError::failure(&path.display().to_string(), other),
    })?;
    ui.say(&format!("{}: {} records written as {format}", path.display(), human::count(written.records)));
    let losses: Vec<String> = written.losses.iter().map(ToString::to_string).collect();
    for loss in &losses {
        ui.say(&format!("  not in it: {loss}"));
    }
    Ok(Written { format: format.to_string(), records: written.records, losses })
}

/// A trace that stands in a file now.
pub(crate) struct Written {
    format: String,
    records: u64,
    losses: Vec<String>,
}

/// With `--json` says what was written; `lost` are events of a recording that nobody could keep.
pub(crate) fn wrote(path: &Path, written: &Written, lost: Option<u64>, ui: &Ui) -> Result<(), CliError> {
    if !ui.json {
        return Ok(());
    }
    let Written { format, records, losses } = written;
    let file = path.display().to_string();
    ui.print_json(&WrittenJson { file: &file, format, records: *records, losses, lost })
}

#[derive(Serialize)]
struct WrittenJson<'a> {
    file: &'a str,
    format: &'a str,
    records: u64,
    /// What the format does not hold, in words.
    losses: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}
