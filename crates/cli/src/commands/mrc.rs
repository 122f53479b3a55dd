//! `mrc`: how many blocks of a trace miss in caches of given sizes, under given retentions, without a disk or time.

use super::reading::{self, ReadArgs};
use crate::error::CliError;
use crate::human;
use crate::table::{self, Align};
use crate::ui::Ui;
use clap::Args;
use forerun_core::retention::{self, BASELINES, Baseline};
use forerun_core::size::parse_size;
use forerun_core::units::BLOCK_BYTES;
use forerun_sim::mrc::{MrcRow, Sequence};
use forerun_sim::replay::Map;
use forerun_trace::record::{Name, Trace};
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
    /// Cache sizes: blocks of 4 KiB, or with a unit bytes (10M)
    #[arg(long, value_name = "N,…", value_delimiter = ',', required = true, value_parser = blocks)]
    cache_blocks: Vec<u64>,
    /// Which devices of the trace share a cache: concat (all), only:DEV, one-array-each (rows for each device)
    #[arg(long, value_name = "MAP", default_value = "concat")]
    map: Map,
    #[command(flatten)]
    read: ReadArgs,
}

/// A number of blocks; with a unit, so many bytes in blocks.
fn blocks(text: &str) -> Result<u64, String> {
    let wrong = || "expected blocks (1000) or a size of at least a block (10M)".to_owned();
    let blocks = match text.parse() {
        Ok(blocks) => blocks,
        Err(_) => parse_size(text).map_err(|_| wrong())? / BLOCK_BYTES,
    };
    if blocks == 0 { Err(wrong()) } else { Ok(blocks) }
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
    let opened = reading::open(&args.file, &args.read, ui)?;
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let place = args.file.display().to_string();
    let mut runs = Vec::new();
    for (device, sequence) in sequences(&opened.trace, &args.map, &place)? {
        let input = if device.is_empty() { name.clone() } else { format!("{name}, device {device}") };
        let rows = forerun_sim::mrc::mrc(&input, &sequence, &args.retention, &args.cache_blocks);
        runs.extend(rows.map_err(|problem| CliError::failure(&place, problem))?);
    }
    if ui.json {
        return ui.print_json(&Runs { runs });
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
    let rows: Vec<Vec<String>> = runs.iter().map(cells).collect();
    ui.print(&(table::aligned(&header, &rows).join("\n") + "\n"))
}

/// The references of each cache, with the device that it serves; no device for a cache that serves all.
fn sequences(trace: &Trace, map: &Map, place: &str) -> Result<Vec<(String, Sequence)>, CliError> {
    let name = |device: Name| trace.names[device.0 as usize].clone();
    let devices: Vec<Name> = match map {
        Map::Concat => {
            let all = Sequence::from_trace(trace).map_err(|problem| CliError::failure(place, problem))?;
            return Ok(vec![(String::new(), all)]);
        }
        Map::OneArrayEach => trace.devices(),
        Map::Only(wanted) => trace.devices().into_iter().filter(|&device| name(device) == *wanted).collect(),
    };
    if devices.is_empty() {
        let known: Vec<String> = trace.devices().into_iter().map(name).collect();
        let what = format!("no request on such a device moves a byte; devices: {}", known.join(", "));
        return Err(CliError::usage("--map", what, "use concat, one-array-each or only:DEV"));
    }
    let of = |device| Sequence::from_device(trace, device).map(|sequence| (name(device), sequence));
    devices.into_iter().map(of).collect::<Result<_, _>>().map_err(|problem| CliError::failure(place, problem))
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
