//! `mrc`: how many blocks of a trace miss in caches of given sizes, under given retentions, without a disk or time; as a table
//! and as a curve.

use super::reading::{self, ReadArgs};
use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_core::retention::Baseline;
use forerun_sim::mrc::MrcRow;
use forerun_sim::replay::Map;
use forerun_study::curve::{self, Curve};
use forerun_study::fit::{Keep, Way, fitted};
use forerun_study::human;
use forerun_study::runner::Unwatched;
use forerun_study::table::Align;
use forerun_study::traces;
use std::collections::BTreeSet;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  forerun mrc trace.csv.gz                                            # the curve up to the whole footprint
  forerun mrc trace.csv.gz --retention lru,arc,s3fifo --cache-blocks 64M,10%,50%
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
    /// Cache sizes: bytes with a unit (10M), blocks of 4 KiB without one, shares of the footprint of all devices together (10%) [default: 1% to 100%]
    #[arg(long, visible_alias = "cache", value_name = "SIZE,…", value_delimiter = ',', value_parser = size)]
    cache_blocks: Vec<Size>,
    /// Which devices of the trace share a cache: concat (all), only:DEV, one-array-each (rows for each device)
    #[arg(long, value_name = "MAP", default_value = "concat", value_parser = traces::map)]
    map: Map,
    #[command(flatten)]
    read: ReadArgs,
}

/// Shares of the footprint that are taken where no size is said: steps of about a half, so that a curve is seen.
const SHARES: [f64; 11] = [0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0];

/// What the table gives up first where there is no room.
const WAY: Way<'_> = Way {
    goes: &["blocks", "cache blocks", "of footprint", "misses"],
    cut: &[("input", Keep::End)],
    all: "a wider terminal has all",
};

/// A cache's size as it is said.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    Blocks(u64),
    /// Of the footprint, 0 to 1.
    Share(f64),
}

impl Size {
    /// At least a block.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a number of blocks is one"
    )]
    fn blocks(self, footprint: u64) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Share(share) => ((human::float(footprint) * share).round() as u64).max(1),
        }
    }
}

fn size(text: &str) -> Result<Size, String> {
    let Some(share) = text.strip_suffix('%') else { return traces::blocks(text).map(Size::Blocks) };
    match share.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1000.0 => Ok(Size::Share(share / 100.0)),
        _ => Err("expected a share of the footprint above 0%, such as 10%".into()),
    }
}

/// Runs all sizes and retentions.
pub(crate) fn mrc(args: &MrcArgs, ui: &Ui) -> Result<(), CliError> {
    reading::say_waits(&args.file, ui);
    let references = traces::references_in(&args.file, &args.read.options(), &args.map, &Unwatched)?;
    reading::say_assumed(&args.file, references.assumed.as_deref(), ui);
    reading::say_passed_over(&args.file, references.skipped, &references.bad, ui);
    let name = args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let place = args.file.display().to_string();
    let footprint = references.footprint;
    let said: &[Size] = &args.cache_blocks;
    let usual = SHARES.map(Size::Share);
    let sizes = if said.is_empty() { &usual } else { said };
    let mut sizes: Vec<u64> = sizes.iter().map(|size| size.blocks(footprint)).collect();
    // Of a small footprint some are the same, and what is named twice is counted once.
    let mut seen = BTreeSet::new();
    sizes.retain(|&blocks| seen.insert(blocks));
    let mut named = BTreeSet::new();
    let kept_by: Vec<_> = args.retention.iter().copied().filter(|row| named.insert(row.name)).collect();
    let misses = traces::misses((&place, &name), &references, &kept_by, &sizes, &Unwatched)?;
    if misses.runs.iter().all(|row| row.requests == 0) {
        return Err(CliError::failure(&place, "the trace has no request that moves a byte"));
    }
    if ui.json {
        return ui.print_json(&misses);
    }
    // Of one input its name and its size stand above the table, which then fits a narrow terminal.
    let several = misses.runs.iter().any(|row| row.input != misses.runs[0].input);
    let mut header = vec![
        ("input", Align::Left),
        ("retention", Align::Left),
        ("cache blocks", Align::Right),
        ("cache", Align::Right),
        ("of footprint", Align::Right),
        ("blocks", Align::Right),
        ("misses", Align::Right),
        ("miss ratio", Align::Right),
    ];
    let mut rows: Vec<Vec<String>> = misses.runs.iter().map(|row| cells(row, footprint)).collect();
    let mut text = String::new();
    if let Some(first) = misses.runs.first().filter(|_| !several) {
        let (blocks, bytes) = (human::count(first.requests), human::bytes(human::float(footprint) * 4096.0));
        text = format!("{}: {blocks} references of blocks, footprint {bytes}\n\n", first.input);
        for row in &mut rows {
            row.remove(5);
            row.remove(0);
        }
        header.remove(5);
        header.remove(0);
    }
    text.push_str(&fitted(&header, &rows, WAY, ui.columns).text());
    let tick = |blocks: f64| human::bytes(blocks * 4096.0);
    let drawn = curve::drawn(&curves(&misses.runs), &tick, ui.columns);
    if !drawn.is_empty() {
        text.push_str(&format!("\nmiss ratio by size of the cache\n{drawn}"));
    }
    ui.print(&text)
}

/// A curve for each cache and retention.
fn curves(rows: &[MrcRow]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    let several = rows.iter().any(|row| row.input != rows[0].input);
    for row in rows {
        let input = if several { format!(", {}", row.input) } else { String::new() };
        let name = format!("{}{input}", row.retention);
        let point = (human::float(row.cache_blocks), forerun_sim::report::ratio(row.misses, row.requests));
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, points: vec![point] }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

fn cells(row: &MrcRow, footprint: u64) -> Vec<String> {
    vec![
        row.input.clone(),
        row.retention.to_owned(),
        human::count(row.cache_blocks),
        human::bytes(human::float(row.cache_blocks) * 4096.0),
        human::percent(forerun_sim::report::ratio(row.cache_blocks, footprint)),
        human::count(row.requests),
        human::count(row.misses),
        human::percent(forerun_sim::report::ratio(row.misses, row.requests)),
    ]
}
