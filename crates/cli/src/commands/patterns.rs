//! `trace patterns`: how a trace is read, by the classes of the RPP paper and two more, as a table, JSON or a page with
//! the picture of offset against time.

use super::reading::{ReadArgs, open};
use crate::error::CliError;
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::{Args, ValueEnum};
use forerun_study::html;
use forerun_study::human;
use forerun_study::traces::Classes;
use forerun_trace::patterns::{Class, GroupBy, PatternOptions, Patterns, THRESHOLD_MAX, patterns};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Points of the picture: enough to see every stream, few enough for a page of half a megabyte.
const POINTS_MAX: usize = 16_000;
/// Rows of the table on a terminal; JSON has all.
const ROWS_MAX: usize = 24;

/// Text behind `--help`.
pub(crate) const HELP: &str = "\
Examples:
  forerun trace patterns trace.parquet
  forerun trace patterns trace.csv.gz --by process --html patterns.html

A run of consecutive blocks of a file that is longer than the threshold is sequential; read again from its start it is
looping. All else is random to the RPP paper; here, equally spaced reads are told apart as strided or reverse.";

/// What the rows are.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Process,
    File,
}

/// Options of `trace patterns`.
#[derive(Debug, Args)]
pub(crate) struct PatternsArgs {
    /// Trace file
    file: PathBuf,
    /// A row for each process or file
    #[arg(long)]
    by: Option<By>,
    /// Blocks of 4 KiB that a run must exceed
    #[arg(long, value_name = "N", default_value_t = forerun_core::pattern::THRESHOLD_DEFAULT,
          value_parser = clap::value_parser!(u64).range(1..=THRESHOLD_MAX))]
    threshold: u64,
    /// Write a page with the picture of offset against time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs it.
pub(crate) fn run(args: &PatternsArgs, ui: &Ui) -> Result<(), CliError> {
    outputs::check(&[("--html", args.html.as_deref())], std::slice::from_ref(&args.file))?;
    let opened = open(&args.file, &args.read, ui)?;
    let by = args.by.map(|by| match by {
        By::Process => GroupBy::Process,
        By::File => GroupBy::File,
    });
    // The page always has rows.
    let options = PatternOptions {
        threshold: args.threshold,
        by: by.or_else(|| args.html.as_ref().map(|_| GroupBy::File)),
        points_max: if args.html.is_some() { POINTS_MAX } else { 0 },
    };
    let name = args.file.display().to_string();
    let found = patterns(&opened.trace, &options).map_err(|problem| CliError::failure(&name, problem))?;
    if let Some(path) = &args.html {
        let title = args.file.file_name().map_or_else(|| name.clone(), |f| f.to_string_lossy().into_owned());
        outputs::write(path, html::patterns(&title, options.by, &found))?;
        ui.say(&format!("{}: page written", path.display()));
    }
    if ui.json {
        return ui.print_json(&Classes::new(name, &opened.hash_hex, by, &found));
    }
    ui.print(&text(&name, by, &found, ui))
}

fn text(name: &str, by: Option<GroupBy>, found: &Patterns, ui: &Ui) -> String {
    let total = &found.total;
    let mut text = format!("{}\n", ui.paint(Style::Bold, name));
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "  {} references (blocks read); a run of more than {} is proven\n",
        human::count(total.references),
        found.threshold
    );
    for class in Class::ALL {
        let share = total.share(class);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 40 characters")]
        let bar = "█".repeat((share * 40.0).round() as usize);
        let _ = writeln!(
            text,
            "  {:<11} {:>12} {:>7}  {bar}",
            class.name(),
            human::count(total.of(class)),
            human::percent(share)
        );
    }
    let _ = writeln!(
        text,
        "\n  % of seq {} (sequential and looping, of all), % of loop {} (looping, of these);\n  {} were read before \
         their run was proven",
        human::percent(total.seq_share()),
        human::percent(total.loop_share()),
        human::count(total.before_proof)
    );
    if by.is_some() {
        text.push_str(&rows(found));
    }
    text
}

fn rows(found: &Patterns) -> String {
    let mut text = format!("\n  {:>12} {:>8} {:>8}", "references", "% of seq", "% of loop");
    for class in Class::ALL {
        let _ = write!(text, " {:>10}", class.name());
    }
    text.push('\n');
    for group in found.groups.iter().take(ROWS_MAX) {
        let _ = write!(
            text,
            "  {:>12} {:>8} {:>9}",
            human::count(group.shares.references),
            human::percent(group.shares.seq_share()),
            human::percent(group.shares.loop_share())
        );
        for class in Class::ALL {
            let _ = write!(text, " {:>10}", human::percent(group.shares.share(class)));
        }
        let _ = writeln!(text, "  {}", human::shown(&group.name));
    }
    if found.groups.len() > ROWS_MAX {
        let _ = writeln!(
            text,
            "  … and {} more (--json has all)",
            human::count((found.groups.len() - ROWS_MAX) as u64)
        );
    }
    text
}
