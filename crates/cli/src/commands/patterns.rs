//! `trace patterns`: how a trace is read, by the classes of the RPP paper and two more, as a table, JSON or a page with
//! the picture of offset against time.

use super::reading::{ReadArgs, through};
use crate::error::CliError;
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::{Args, ValueEnum};
use forerun_study::fit::{Keep, Way, fitted, wrapped};
use forerun_study::html;
use forerun_study::human;
use forerun_study::table::Align;
use forerun_study::traces::Classes;
use forerun_trace::kept::Kept;
use forerun_trace::mapping::MapError;
use forerun_trace::patterns::{
    Class, Finder, Group, GroupBy, PatternOptions, Patterns, THRESHOLD_MAX, patterns_in,
};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Points of the picture: enough to see every stream, few enough for a page of half a megabyte.
const POINTS_MAX: usize = 16_000;
/// Rows of the table on a terminal; JSON has all.
const ROWS_MAX: usize = 24;

/// Columns of prose where no terminal says how many there are, and the fewest that are kept to.
const COLUMNS: usize = 92;
const COLUMNS_LEAST: usize = 40;
/// Characters of a full bar, and where bars begin.
const BAR: usize = 40;
const BAR_AT: usize = 36;

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
    let (found, hash) = find(args, &options, ui)?;
    let found = found.map_err(|problem| CliError::failure(&name, problem))?;
    if let Some(path) = &args.html {
        let title = args.file.file_name().map_or_else(|| name.clone(), |f| f.to_string_lossy().into_owned());
        outputs::write(path, html::patterns(&title, options.by, &found))?;
        ui.say(&format!("{}: page written", path.display()));
    }
    if ui.json {
        return ui.print_json(&Classes::new(name, &hash, by, &found));
    }
    ui.print(&text(&name, args.by, &found, ui))
}

/// The patterns of the file, and its hash. Where no picture is wanted nothing is kept of it; the points of one lie among all reads, which
/// have to be counted first. Where times begin changes nothing of a picture.
fn find(
    args: &PatternsArgs,
    options: &PatternOptions,
    ui: &Ui,
) -> Result<(Result<Patterns, MapError>, String), CliError> {
    if options.points_max > 0 {
        let mut kept = Kept::default();
        let opened = through(&args.file, &args.read, ui, &mut |records| kept.take(records))?;
        return Ok((patterns_in(&kept, &opened.trace, options), opened.hash_hex));
    }
    let mut finder = Finder::new(options, 0);
    let opened = through(&args.file, &args.read, ui, &mut |records| finder.take(records))?;
    Ok((finder.finish(&opened.trace), opened.hash_hex))
}

fn text(name: &str, by: Option<By>, found: &Patterns, ui: &Ui) -> String {
    let total = &found.total;
    let mut text = format!("{}\n", ui.paint(Style::Bold, name));
    let columns = ui.columns.unwrap_or(COLUMNS).max(COLUMNS_LEAST);
    let total_said = format!(
        "{} references (blocks read); a run of more than {} is proven",
        human::count(total.references),
        found.threshold
    );
    text.push_str(&prose(&total_said, columns));
    text.push('\n');
    let full = (columns - BAR_AT).min(BAR) as f64;
    for class in Class::ALL {
        let share = total.share(class);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 40 characters")]
        let bar = "█".repeat((share * full).round() as usize);
        let _ = writeln!(
            text,
            "  {:<11} {:>12} {:>7}  {bar}",
            class.name(),
            human::count(total.of(class)),
            human::percent(share)
        );
    }
    let sums = format!(
        "% of seq {} (sequential and looping, of all), % of loop {} (looping, of these); {} were read before their run was proven",
        human::percent(total.seq_share()),
        human::percent(total.loop_share()),
        human::count(total.before_proof)
    );
    text.push('\n');
    text.push_str(&prose(&sums, columns));
    if let Some(by) = by {
        text.push_str(&rows(by, found, ui));
    }
    text
}

/// Words in lines of so many columns, behind a margin.
fn prose(words: &str, columns: usize) -> String {
    wrapped(words, columns.saturating_sub(2)).iter().map(|line| format!("  {line}\n")).collect()
}

/// A row for each process or file.
fn rows(by: By, found: &Patterns, ui: &Ui) -> String {
    let name = match by {
        By::Process => "process",
        By::File => "file",
    };
    let mut header =
        vec![("references", Align::Right), ("% of seq", Align::Right), ("% of loop", Align::Right)];
    header.extend(Class::ALL.map(|class| (class.name(), Align::Right)));
    header.push((name, Align::Left));
    let cells = |group: &Group| {
        let Group { name, shares } = group;
        let mut cells = vec![
            human::count(shares.references),
            human::percent(shares.seq_share()),
            human::percent(shares.loop_share()),
        ];
        cells.extend(Class::ALL.map(|class| human::percent(shares.share(class))));
        cells.push(human::shown(name).to_owned());
        cells
    };
    let rows: Vec<Vec<String>> = found.groups.iter().take(ROWS_MAX).map(cells).collect();
    let way = Way {
        goes: &["reverse", "strided", "% of loop", "% of seq", "looping"],
        cut: &[("process", Keep::Beginning), ("file", Keep::End)],
        all: "--json and a wider terminal have all",
    };
    let fitted = fitted(&header, &rows, way, ui.columns.map(|columns| columns.saturating_sub(2)));
    let mut lines: Vec<String> = fitted.lines;
    if found.groups.len() > ROWS_MAX {
        let more = human::count((found.groups.len() - ROWS_MAX) as u64);
        lines.push(format!("… and {more} more (--json has all)"));
    }
    lines.extend(fitted.hidden);
    lines.iter().fold("\n".to_owned(), |text, line| text + "  " + line + "\n")
}
