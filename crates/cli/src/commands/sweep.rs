//! `sweep`: a study of many cells, run in pieces and put together.

use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_core::size::parse_size;
use forerun_study::human;
use forerun_study::options;
use forerun_study::sweep::local::{Options, SoFar, Sweep};
use forerun_study::sweep::results::{RESULTS, Shard};
use forerun_study::sweep::study::Study;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Text behind `--help`.
pub(crate) const HELP: &str = "\
Examples:
  forerun sweep study.toml
  forerun sweep study.toml --dry-run
  forerun sweep study.toml -o /shared/study --shard 2/8
  forerun sweep study.toml --memory 8GiB --threads 4 --json

A study file:
  [fixed]
  device = \"wd-7200\"
  [matrix]
  input = [\"day.parquet\", \"random:size=1GiB,requests=40000\"]
  scheme = [\"none\", \"asp\"]
  cache = [\"64MiB\", \"256MiB\"]
  [[exclude]]
  scheme = \"none\"
  cache = \"256MiB\"

Keys are input, scheme and the options of `forerun compare`. A sweep that was stopped, however it was, goes on where it was when it
is started again. When every cell is done, by this sweep or by all shards of it in one folder, results.parquet has a row for each.";

/// Options of `sweep`.
#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Study file
    #[arg(value_name = "STUDY.toml")]
    study: PathBuf,
    /// Folder of lines and results [default: the study's name with .sweep]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Run only the cells of part I of N; all parts may write into one folder
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    shard: Option<Shard>,
    /// Cells at a time [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = options::threads)]
    threads: usize,
    /// Memory that cells may take at once, estimated [default: no bound]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Say how many cells there are and how many are done, and run none
    #[arg(long)]
    dry_run: bool,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|problem| problem.to_string())
}

#[derive(Serialize)]
struct Told {
    folder: String,
    cells: usize,
    run: usize,
    left: usize,
    results: Option<String>,
    /// Nothing was to be run.
    #[serde(skip)]
    dry: bool,
}

/// Runs what is left of a study.
pub(crate) fn sweep(args: &SweepArgs, ui: &Ui) -> Result<(), CliError> {
    let study = Study::read(&args.study)?;
    let folder = args.output.clone().unwrap_or_else(|| args.study.with_extension("sweep"));
    let options = Options {
        folder: folder.clone(),
        shard: args.shard.unwrap_or(Shard::WHOLE),
        threads: args.threads,
        memory: args.memory,
    };
    let sweep = Sweep::new(&study, options)?;
    let (cells, left) = sweep.counts();
    if left > 0 && folder.join(RESULTS).exists() {
        ui.say(&format!(
            "{}: it is of this study as it was before, until all cells are done",
            folder.join(RESULTS).display()
        ));
    }
    let folder = folder.display().to_string();
    if args.dry_run {
        let path = Path::new(&folder).join(RESULTS);
        let results = (left == 0 && path.is_file()).then(|| path.display().to_string());
        return tell(&Told { folder, cells, run: 0, left, results, dry: true }, ui);
    }
    let bar = ui.bars.then(|| bar(cells, cells - left));
    let swept = sweep.run(&|so_far| show(so_far, bar.as_ref(), ui));
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let swept = swept?;
    let results = swept.results.map(|path| path.display().to_string());
    tell(&Told { folder, cells: swept.cells, run: swept.run, left: 0, results, dry: false }, ui)
}

fn tell(told: &Told, ui: &Ui) -> Result<(), CliError> {
    if ui.json {
        return ui.print_json(told);
    }
    let end = match (&told.results, told.left) {
        (Some(path), _) => format!("results in {path}"),
        (None, 0) if told.dry => "none left".into(),
        (None, 0) => "other shards have cells left, so there are no results yet".into(),
        (None, left) => format!("{} left", human::count(left as u64)),
    };
    let (cells, run) = (human::count(told.cells as u64), human::count(told.run as u64));
    ui.print(&format!("{cells} cells in {}, {run} run now; {end}\n", told.folder))
}

fn bar(cells: usize, done: usize) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64).with_position(done as u64);
    // The template is a constant; a mistake in it falls back to the plain bar.
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(so_far: &SoFar<'_>, bar: Option<&ProgressBar>, ui: &Ui) {
    let told = |time: Duration| human::duration(time.as_secs_f64() * 1e9);
    let left = format!("{} left, {} of one core", told(so_far.left), told(so_far.cost));
    match bar {
        Some(bar) => {
            bar.set_position(so_far.done as u64);
            bar.set_message(left);
        }
        None => {
            let at: Vec<&str> = so_far.cell.at.iter().map(|(_, word)| word.as_str()).collect();
            let (took, place) = (told(so_far.took), at.join(" "));
            ui.say(&format!("[{}/{}] {place}: {took} so far, {left}", so_far.done, so_far.all));
        }
    }
}
