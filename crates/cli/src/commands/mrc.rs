//! `mrc`: how many blocks of a trace miss in caches of given sizes, under given retentions, without a disk or time.

use super::reading::{self, ReadArgs};
use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_core::retention::Baseline;
use forerun_sim::mrc::MrcRow;
use forerun_sim::replay::Map;
use forerun_study::human;
use forerun_study::table::{self, Align};
use forerun_study::traces;
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
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "lru", value_parser = traces::kept_by)]
    retention: Vec<&'static Baseline>,
    /// Cache sizes: blocks of 4 KiB, or with a unit bytes (10M)
    #[arg(long, value_name = "N,…", value_delimiter = ',', required = true, value_parser = traces::blocks)]
    cache_blocks: Vec<u64>,
    /// Which devices of the trace share a cache: concat (all), only:DEV, one-array-each (rows for each device)
    #[arg(long, value_name = "MAP", default_value = "concat")]
    map: Map,
    #[command(flatten)]
    read: ReadArgs,
}

/// Runs all sizes and retentions.
pub(crate) fn mrc(args: &MrcArgs, ui: &Ui) -> Result<(), CliError> {
    let opened = reading::open(&args.file, &args.read, ui)?;
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let place = args.file.display().to_string();
    let misses =
        traces::misses((&place, &name), &opened.trace, &args.map, &args.retention, &args.cache_blocks)?;
    if ui.json {
        return ui.print_json(&misses);
    }
    let header = [
        ("input", Align::Left),
        ("retention", Align::Left),
        ("cache blocks", Align::Right),
        ("cache", Align::Right),
        ("blocks", Align::Right),
        ("misses", Align::Right),
        ("miss ratio", Align::Right),
    ];
    let rows: Vec<Vec<String>> = misses.runs.iter().map(cells).collect();
    ui.print(&(table::aligned(&header, &rows).join("\n") + "\n"))
}

fn cells(row: &MrcRow) -> Vec<String> {
    vec![
        row.input.clone(),
        row.retention.to_owned(),
        human::count(row.cache_blocks),
        human::bytes(human::float(row.cache_blocks) * 4096.0),
        human::count(row.requests),
        human::count(row.misses),
        human::percent(forerun_sim::report::ratio(row.misses, row.requests)),
    ]
}
