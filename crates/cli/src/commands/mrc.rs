//! `mrc`: how many blocks of a trace miss in caches of given sizes, under given retentions, without a disk or time.

use crate::commands::trace::{self, ReadArgs};
use crate::error::CliError;
use crate::human;
use crate::table::{self, Align};
use crate::ui::Ui;
use clap::Args;
use forerun_core::retention::{self, BASELINES, Baseline};
use forerun_sim::mrc::{MrcRow, Sequence};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  forerun mrc trace.csv.gz --retention lru,arc,s3fifo --cache-blocks 500,1000,2000
  forerun mrc blocks.lirs.gz --retention lru,arc --cache-blocks 1000 --json

A block is 4 KiB; a request over several blocks counts as many. lru answers all sizes in one pass.";

/// Options of `mrc`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MrcArgs {
    /// Trace file
    file: PathBuf,
    /// Retentions: lru, arc, s3fifo, sieve, belady
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "lru", value_parser = retention)]
    retention: Vec<&'static Baseline>,
    /// Cache sizes in blocks of 4 KiB
    #[arg(long, value_name = "N,…", value_delimiter = ',', required = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    cache_blocks: Vec<u64>,
    #[command(flatten)]
    read: ReadArgs,
}

fn retention(name: &str) -> Result<&'static Baseline, String> {
    retention::by_name(name).map_err(|_| {
        let known: Vec<&str> = BASELINES.iter().map(|row| row.name).collect();
        format!("there are: {}", known.join(", "))
    })
}

#[derive(Serialize)]
struct Runs {
    runs: Vec<MrcRow>,
}

/// Runs all sizes and retentions.
pub(crate) fn mrc(args: &MrcArgs, ui: &Ui) -> Result<(), CliError> {
    let opened = trace::open(&args.file, &args.read, ui)?;
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let place = args.file.display().to_string();
    let sequence =
        Sequence::from_trace(&opened.trace).map_err(|problem| CliError::failure(&place, problem))?;
    drop(opened);
    let runs = forerun_sim::mrc::mrc(&name, &sequence, &args.retention, &args.cache_blocks)
        .map_err(|problem| CliError::failure(&place, problem))?;
    if ui.json {
        return ui.print_json(&Runs { runs });
    }
    let header = [
        ("retention", Align::Left),
        ("cache blocks", Align::Right),
        ("cache", Align::Right),
        ("requests", Align::Right),
        ("misses", Align::Right),
        ("miss ratio", Align::Right),
    ];
    let rows: Vec<Vec<String>> = runs.iter().map(cells).collect();
    ui.print(&(table::aligned(&header, &rows).join("\n") + "\n"))
}

fn cells(row: &MrcRow) -> Vec<String> {
    vec![
        row.retention.to_owned(),
        human::count(row.cache_blocks),
        human::bytes(human::float(row.cache_blocks) * 4096.0),
        human::count(row.requests),
        human::count(row.misses),
        human::percent(forerun_sim::report::ratio(row.misses, row.requests)),
    ]
}
