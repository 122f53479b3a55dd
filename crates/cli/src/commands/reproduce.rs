//! `reproduce PAPER`: the figures of a paper, row by row: what the paper says, what the simulator measured, and whether
//! it holds.

use crate::error::{CliError, Kind};
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_papers::{
    Grid, GridLine, Kind as RowKind, Options, ReproduceError, Reproduction, Row, SEEDS_MAX, Step, Study,
};
use forerun_sim::error::RunError;
use forerun_study::claims::{holds, interval, memory, paper, tally, tells_interval, tells_memory};
use forerun_study::fit::{Fitted, Keep, Way, fitted};
use forerun_study::human;
use forerun_study::options;
use forerun_study::table::Align;
use forerun_study::{csv, html};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const ASP_HELP: &str = "\
Examples:
  forerun reproduce asp --html asp.html
  forerun reproduce asp --figure 9a --figure 9b --json
  forerun reproduce asp --figure 6 --traces ../shared/traces

Fig. 6 replays a desktop trace, block/pcmark_a.csv.gz in the folder of --traces; without it, --demo-trace stands in and
is named as such. Figures: 6, 7, 8a-8d, 9a-9d, 10, 11, 12, 13; a number alone means all its parts.";

const RPP_HELP: &str = "\
Examples:
  forerun reproduce rpp --html rpp.html
  forerun reproduce rpp --figure 1 --figure loss --json
  forerun reproduce rpp --figure table1 --traces ../shared/traces

Runs on the project's own recordings (make record-traces; in traces/), and with --traces also on those of others. Figures:
table1, 1 (random), 2 (sequential), 3 (concurrent), other (traces that the paper has not), loss (pollution and transfer),
threshold (the sweep), short (files no longer than the threshold).";
const FLASHY_HELP: &str = "\
Examples:
  forerun reproduce flashy --traces ../shared/traces --html flashy.html
  forerun reproduce flashy --figure speedup --json

Web search replays block/wsrch_0_30s.csv.gz in the folder of --traces; without it random reads stand in and are named as
such. Figures: drives, speedup, accuracy, cost, rates, scale (the last two are curves over time: --json or --html).";

const STREAMS_HELP: &str = "\
Examples:
  forerun reproduce streams --html streams.html
  forerun reproduce streams --figure 3 --figure 21 --json

Needs no traces. Slides: 3 (the kernel), 10 (the drive's cache), 11 (the controller's), 17 (R), 18 (memory), 19 and 20 (eight
disks behind a controller), 21 (turns on one disk), 22 (waits), 23 (conclusions); flash (SSDs and a cloud volume),
served (media clients served in time, by memory).";

/// What `reproduce` does.
#[derive(Debug, Subcommand)]
pub(crate) enum ReproduceCommand {
    /// Baek and Park, FAST 2008: section 3
    #[command(after_help = ASP_HELP)]
    Asp(StudyArgs),
    /// Lee, Doh, Kim and Noh, IEICE 2009: Table 1 and Figs 1 to 3
    #[command(after_help = RPP_HELP)]
    Rpp(StudyArgs),
    /// Uppal, Chiang and Huang, MSST 2012: the flashy slides
    #[command(after_help = FLASHY_HELP)]
    Flashy(StudyArgs),
    /// Panagiotakis, Flouris and Bilas, ICDCS 2009: slides 3, 10, 11 and 17 to 23
    #[command(after_help = STREAMS_HELP)]
    Streams(StudyArgs),
}

impl ReproduceCommand {
    /// Which study, and how.
    fn study(&self) -> (&'static Study, &StudyArgs) {
        let (name, args) = match self {
            Self::Asp(args) => ("asp", args),
            Self::Rpp(args) => ("rpp", args),
            Self::Flashy(args) => ("flashy", args),
            Self::Streams(args) => ("streams", args),
        };
        (forerun_papers::study(name).expect("every subcommand names a study"), args)
    }
}

/// Options of every study.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// Only this figure; may be given many times
    #[arg(long = "figure", value_name = "N")]
    figures: Vec<String>,
    /// Folder of traces that others recorded; what needs them says so
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Folder of the project's own traces [default: traces, where it exists]
    #[arg(long, value_name = "DIR")]
    own_traces: Option<PathBuf>,
    /// Trace that stands in for one that is missing
    #[arg(long, value_name = "FILE")]
    demo_trace: Option<PathBuf>,
    /// Threads to run on; results are the same whatever N [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = options::threads)]
    threads: usize,
    /// Seeds that each row is run under, where a seed changes it: the table has their mean and its 95% interval, and a row
    /// holds if it does all over the interval
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    seeds: u64,
    /// Small sizes, for a test of the set-up: no row claims to hold
    #[arg(long, hide = true)]
    quick: bool,
    /// Measure core nanoseconds per access too: the only numbers that differ from run to run
    #[arg(long)]
    clock: bool,
    /// The rows as CSV, to FILE or, without one, to stdout in place of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
    /// Write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Nanoseconds since the first call.
fn clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Where the project's own traces may be: in the checkout that one stands in, or beside an installed binary.
fn own_traces() -> Vec<PathBuf> {
    let installed =
        std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("../share/forerun/traces")));
    [Some(PathBuf::from("traces")), installed].into_iter().flatten().collect()
}

/// Refuses a result without any number: its traces were not there.
fn nothing_ran(result: &Reproduction, options: &Options) -> Result<(), CliError> {
    if result.rows.is_empty() || result.rows.iter().any(|row| row.ours.is_some()) {
        return Ok(());
    }
    let looked = options.own_traces.as_ref().map_or_else(own_traces, |folder| vec![folder.clone()]);
    let looked: Vec<String> = looked.iter().map(|folder| folder.display().to_string()).collect();
    let what = format!("nothing could run: the traces are not in {}", looked.join(" nor in "));
    let remedy = "run it in the repository, or give --own-traces DIR, or --traces DIR for those of others";
    Err(CliError::new(Kind::Failure, "reproduce", what, remedy))
}

/// Runs it.
pub(crate) fn run(command: &ReproduceCommand, ui: &Ui) -> Result<(), CliError> {
    let (study, args) = command.study();
    let options = Options {
        figures: args.figures.clone(),
        shared_traces: args.traces.clone(),
        own_traces: args
            .own_traces
            .clone()
            .or_else(|| own_traces().into_iter().find(|folder| folder.is_dir())),
        demo_trace: args.demo_trace.clone(),
        threads: args.threads,
        seeds: args.seeds,
        quick: args.quick,
        clock: args.clock.then_some(clock as fn() -> u64),
    };
    outputs::check_csv(args.csv.as_deref(), ui)?;
    check_outputs(args, &options)?;
    let bar = ui.bars.then(new_bar);
    let round = Mutex::new(Instant::now());
    let result =
        forerun_papers::reproduce(study, &options, &|step: Step| show(&step, &round, bar.as_ref(), ui));
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let result = result.map_err(problem)?;
    if let Some(path) = &args.html {
        outputs::write(path, html::reproduction(study, &result))?;
        ui.say(&format!("report written to {}", path.display()));
    }
    print(study, &result, args, ui)?;
    nothing_ran(&result, &options)
}

/// Refuses to write over a trace: the one that was named, and any in the folders of traces.
fn check_outputs(args: &StudyArgs, options: &Options) -> Result<(), CliError> {
    let outputs = [("--html", args.html.as_deref()), ("--csv", args.csv.as_deref())];
    let folders: Vec<PathBuf> = [&options.shared_traces, &options.own_traces]
        .into_iter()
        .flatten()
        .filter_map(|folder| folder.canonicalize().ok())
        .collect();
    let there = outputs.iter().filter_map(|(_, path)| path.as_ref()?.canonicalize().ok());
    let mut read: Vec<PathBuf> =
        there.filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect();
    read.extend(options.demo_trace.clone());
    outputs::check(&outputs, &read)
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // The template is a constant; a mistake in it falls back to the plain bar.
    match ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Says how far it is, and about how long the rest of the round takes. `round` is when it began.
fn show(step: &Step, round: &Mutex<Instant>, bar: Option<&ProgressBar>, ui: &Ui) {
    let begun = {
        // A thread that panicked while it looked at the clock has not spoiled it.
        let mut begun = round.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if step.done == 0 {
            *begun = Instant::now();
        }
        *begun
    };
    let left = left(begun.elapsed(), step.done, step.total)
        .map_or_else(String::new, |left| format!(", about {} left", human::duration(left)));
    match bar {
        Some(bar) => {
            bar.set_length(step.total as u64);
            bar.set_position(step.done as u64);
            bar.set_message(format!("{}{left}", step.case));
        }
        None if step.done > 0 => ui.say(&format!("[{}/{}] {}{left}", step.done, step.total, step.case)),
        None if step.total > 0 => ui.say(&format!("{} runs", step.total)),
        None => {}
    }
}

/// About how long the rest takes, ns, if it goes on as it went; none at the beginning and at the end.
fn left(elapsed: Duration, done: usize, total: usize) -> Option<f64> {
    let rest = total.saturating_sub(done);
    (done > 0 && rest > 0)
        .then(|| elapsed.as_secs_f64() * 1e9 * human::float(rest as u64) / human::float(done as u64))
}

fn problem(problem: ReproduceError) -> CliError {
    let kind = match &problem {
        ReproduceError::Figure { .. } | ReproduceError::Run { error: RunError::Spec { .. }, .. } => {
            Kind::Usage
        }
        ReproduceError::Run { .. } | ReproduceError::Threads(_) => Kind::Failure,
    };
    CliError::new(kind, "reproduce", problem, "")
}

fn print(study: &Study, result: &Reproduction, args: &StudyArgs, ui: &Ui) -> Result<(), CliError> {
    if let Some(path) = &args.csv {
        let text = rows_as_csv(result);
        if path.as_os_str() != "-" {
            outputs::write(path, &text)?;
            ui.say(&format!("CSV written to {}", path.display()));
        } else {
            return ui.print(&text);
        }
    }
    if ui.json { ui.print_json(result) } else { ui.print(&text(study, result, ui)) }
}

/// Where all columns stand.
const ALL: &str = "--csv, --json and a wider terminal have all";
/// Widest that the paper's words stand in the table.
const PAPER_WIDTH: usize = 32;
const COLUMNS: [&str; 11] = [
    "figure",
    "case",
    "paper",
    "ours",
    "ratio",
    "holds",
    "why",
    "seeds",
    "interval_low",
    "interval_high",
    "changed_after_results",
];

fn rows_as_csv(result: &Reproduction) -> String {
    let memory = tells_memory(result);
    let mut columns = COLUMNS.to_vec();
    columns.extend(memory.then_some("memory_peak_bytes"));
    let cells = |row: &Row| {
        let mut cells = plain_cells(row);
        cells.extend(
            memory.then(|| row.memory_peak_bytes.map_or_else(String::new, |bytes| bytes.to_string())),
        );
        cells
    };
    csv::plain(&columns, &result.rows.iter().map(cells).collect::<Vec<_>>())
}

fn plain_cells(row: &Row) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    vec![
        row.figure.clone(),
        row.case.clone(),
        paper(row),
        number(row.ours),
        number(row.ratio),
        row.holds.map_or_else(String::new, |holds| holds.to_string()),
        row.why.clone(),
        row.seeds.as_ref().map_or(1, |seeds| seeds.values.len()).to_string(),
        number(row.seeds.as_ref().map(|seeds| seeds.interval.0)),
        number(row.seeds.as_ref().map(|seeds| seeds.interval.1)),
        row.changed.clone(),
    ]
}

/// At most [`PAPER_WIDTH`] characters; the other outputs have all of it.
fn short(text: &str) -> String {
    if text.chars().count() <= PAPER_WIDTH {
        return text.to_owned();
    }
    text.chars().take(PAPER_WIDTH - 1).chain(['…']).collect()
}

/// Why a row does not hold, in a line or two, with -v a line for each fact; not once more what the row before has told.
fn because(why: &str, told: &str, ui: &Ui) -> String {
    let why = if why == told { "as the row before" } else { why };
    why.lines().map(|line| ui.paint(Style::Dim, &format!("      {line}")) + "\n").collect()
}

/// A table of numbers, under its title.
fn numbers(grid: &Grid, ui: &Ui) -> String {
    let left = grid.labels.iter().map(|name| (name.as_str(), Align::Left));
    let right = grid.columns.iter().map(|name| (name.as_str(), Align::Right));
    let header: Vec<(&str, Align)> = left.chain(right).collect();
    let cells = |line: &GridLine| {
        line.labels.iter().cloned().chain(line.values.iter().map(|value| human::digits(*value))).collect()
    };
    let rows: Vec<Vec<String>> = grid.lines.iter().map(cells).collect();
    let cut: Vec<(&str, Keep)> = grid.labels.iter().map(|name| (name.as_str(), Keep::Beginning)).collect();
    let goes: Vec<&str> = grid.columns.iter().rev().map(String::as_str).collect();
    let fitted = fitted(&header, &rows, Way { goes: &goes, cut: &cut, all: ALL }, ui.columns);
    let mut lines = fitted.lines.into_iter().chain(fitted.hidden);
    let head = lines.next().map_or_else(String::new, |line| ui.paint(Style::Dim, &line));
    let body: String = lines.map(|line| line + "\n").collect();
    format!("\n{}\n{head}\n{body}", grid.title)
}

/// What was changed after results of some rows had been seen, in the order of the rows: footnotes.
fn changes(result: &Reproduction) -> Vec<&str> {
    let mut changes: Vec<&str> = Vec::new();
    for row in result.rows.iter().filter(|row| !row.changed.is_empty()) {
        if !changes.contains(&row.changed.as_str()) {
            changes.push(&row.changed);
        }
    }
    changes
}

/// The footnote that says what was changed of the row; empty where nothing was.
fn note(changes: &[&str], row: &Row) -> String {
    let at = changes.iter().position(|change| *change == row.changed);
    at.map_or_else(String::new, |at| format!("[{}]", at + 1))
}

/// The rows that are shown, as an aligned table with its header.
fn lines(study: &Study, result: &Reproduction, shown: &[&Row], width: Option<usize>) -> Fitted {
    let word = study.word.to_lowercase();
    let mut header = vec![
        (word.as_str(), Align::Left),
        ("case", Align::Left),
        ("paper", Align::Left),
        ("ours", Align::Right),
    ];
    let (with_interval, with_memory) = (tells_interval(result), tells_memory(result));
    header.extend(with_interval.then_some(("95% interval", Align::Right)));
    header.extend([("ratio", Align::Right), ("holds", Align::Left)]);
    header.extend(with_memory.then_some(("memory", Align::Right)));
    let changes = changes(result);
    header.extend((!changes.is_empty()).then_some(("changed after results", Align::Left)));
    let dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), human::digits);
    let cells = |row: &&Row| {
        let mut cells = vec![row.figure.clone(), row.case.clone(), short(&paper(row)), dash(row.ours)];
        cells.extend(with_interval.then(|| interval(row)));
        cells.extend([dash(row.ratio), holds(row).to_owned()]);
        cells.extend(with_memory.then(|| memory(row)));
        cells.extend((!changes.is_empty()).then(|| note(&changes, row)));
        cells
    };
    let way = Way {
        goes: &["memory", "95% interval", "ratio"],
        cut: &[("case", Keep::Beginning), ("paper", Keep::Beginning)],
        all: ALL,
    };
    fitted(&header, &shown.iter().map(cells).collect::<Vec<_>>(), way, width)
}

fn text(study: &Study, result: &Reproduction, ui: &Ui) -> String {
    // Points of curves have nothing to hold against: they are in JSON, CSV and the page, and here with -v.
    let shown: Vec<&Row> =
        result.rows.iter().filter(|row| ui.verbose > 0 || row.kind != RowKind::Point).collect();
    let Fitted { lines, hidden } = lines(study, result, &shown, ui.columns);
    let mut lines = lines.into_iter();
    let mut text = lines.next().map_or_else(String::new, |line| ui.paint(Style::Dim, &line));
    text.push('\n');
    let mut told = "";
    for (line, row) in lines.zip(shown) {
        let style = match row.holds {
            Some(true) => Some(Style::Good),
            Some(false) => Some(Style::Bad),
            None => None,
        };
        text.push_str(&style.map_or_else(|| line.clone(), |style| ui.paint(style, &line)));
        text.push('\n');
        let why = if ui.verbose > 0 { &row.why } else { &row.brief };
        if holds(row) != "yes" && row.kind != RowKind::Point && !why.is_empty() && !row.brief.is_empty() {
            text.push_str(&because(why, told, ui));
            told = why;
        }
    }
    hidden.iter().for_each(|line| text.push_str(&format!("{}\n", ui.paint(Style::Dim, line))));
    for grid in &result.tables {
        text.push_str(&numbers(grid, ui));
    }
    for (number, what) in changes(result).iter().enumerate() {
        text.push_str(&format!("\n[{}] changed after results: {what}\n", number + 1));
    }
    for note in &result.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text.push_str(&format!("\n{}\n", ui.paint(Style::Bold, &tally(result))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_for_each_run_as_those_that_ended() {
        let ten = Duration::from_secs(10);
        assert_eq!(left(ten, 2, 8), Some(30e9));
        assert_eq!((left(ten, 0, 8), left(ten, 8, 8)), (None, None));
    }

    #[test]
    fn a_row_of_which_something_was_changed_after_results_has_a_footnote_and_a_study_without_has_no_column() {
        let row = |case: &str, changed: &str| Row {
            figure: "1".into(),
            case: case.into(),
            kind: RowKind::Claim,
            paper: None,
            ours: Some(1.0),
            ratio: None,
            holds: Some(true),
            brief: String::new(),
            why: String::new(),
            changed: changed.into(),
            seeds: None,
            measured_ns_per_access: None,
            memory_peak_bytes: None,
        };
        let of = |rows: Vec<Row>| Reproduction { rows, ..Reproduction::default() };
        let study = forerun_papers::STUDIES[0];
        let told = |result: &Reproduction| {
            let shown: Vec<&Row> = result.rows.iter().collect();
            lines(study, result, &shown, None).lines
        };
        let all = told(&of(vec![row("a", ""), row("b", "this"), row("c", "that"), row("d", "this")]));
        assert!(all[0].ends_with("changed after results"), "{all:?}");
        let ends: Vec<&str> = all.iter().filter_map(|line| line.split("yes").nth(1)).map(str::trim).collect();
        assert_eq!(ends, ["", "[1]", "[2]", "[1]"], "{all:?}");
        assert!(!told(&of(vec![row("a", "")]))[0].contains("changed"));
    }
}
