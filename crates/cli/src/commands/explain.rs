//! `explain`: the numbers that a scheme chooses for a device, an array and a cache, with the arithmetic. Nothing is computed
//! here: the registry's row asks what a run would ask.

use crate::error::CliError;
use crate::ui::Ui;
use clap::Args;
use forerun_core::registry::{Explained, SchemeSpec};
use forerun_study::fit::flowing;
use forerun_study::human;
use forerun_study::options::{self, SetupArgs};
use forerun_study::plan;
use forerun_study::table::Align;
use serde::Serialize;

/// Shown under `explain --help`.
pub(crate) const HELP: &str = "\
Examples:
  forerun explain streams --device wd-7200 --cache 128M
  forerun explain 'streams(R=512KiB,N=128)' --device wd-7200 --array raid0:8x128K --cache 1G --streams 800
  forerun explain 'cadence(wait=1s,rate=512KiB)' --device wd-7200 --cache 256M --streams 80

A value is followed by where it comes from: as given, or the arithmetic. What is believed of the device is what a scheme may
believe in a run, not the model that the run is made on.";

/// Options of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Scheme whose numbers are explained, in the grammar of `forerun schemes`
    scheme: String,
    /// Streams that are read at once
    #[arg(long, value_name = "S", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    streams: u64,
    /// Array of member devices, as of `forerun compare` [default: of this machine where --device is, else single]
    #[arg(long, value_name = "ARRAY")]
    array: Option<String>,
    /// Member device: a preset of `forerun device list`, or a preset file [default: the nearest to the device that holds this folder]
    #[arg(long, value_name = "PRESET|FILE")]
    device: Option<String>,
    /// Cache of the array layer [default: 500MiB]
    #[arg(long, value_name = "SIZE", value_parser = options::size)]
    cache: Option<u64>,
}

impl ExplainArgs {
    /// What stays of the options of a run: on the others no number depends.
    fn setup(&self) -> Result<SetupArgs, CliError> {
        let (array, device) = (self.array.clone(), self.device.clone());
        Ok(SetupArgs { array, device, cache: self.cache.into_iter().collect(), ..SetupArgs::parse(&[])? })
    }
}

#[derive(Serialize)]
struct Explanation {
    scheme: String,
    array: String,
    device: String,
    cache_bytes: u64,
    streams: u64,
    numbers: Vec<Number>,
}

#[derive(Serialize)]
struct Number {
    name: &'static str,
    value: String,
    why: String,
}

/// Prints the numbers of a scheme.
pub(crate) fn explain(args: &ExplainArgs, ui: &Ui) -> Result<(), CliError> {
    // What is wrong with it would be told of `--scheme`, which is no word of this line.
    SchemeSpec::parse(&args.scheme)
        .map_err(|why| CliError::usage("SCHEME", why, "`forerun schemes` lists all"))?;
    let setup = args.setup()?;
    let assumed = setup.assumed(&[]);
    let specs =
        plan::specs(&[String::new()], std::slice::from_ref(&args.scheme), &setup, &assumed, false, &[])?;
    let spec = &specs[0];
    let explained = forerun_sim::run::explain(spec, args.streams)?;
    if explained.is_empty() {
        let remedy = "`forerun explain streams` and `forerun explain cadence` have numbers to explain";
        let problem = format!("{} chooses no number from a device", args.scheme);
        return Err(CliError::usage("SCHEME", problem, remedy));
    }
    if let Some(sentence) = assumed.of_device(&spec.device.to_string()) {
        ui.say(&sentence);
    }
    if ui.json {
        let numbers =
            explained.into_iter().map(|e| Number { name: e.name, value: e.value, why: e.why }).collect();
        return ui.print_json(&Explanation {
            scheme: spec.scheme.to_string(),
            array: spec.array.to_string(),
            device: spec.device.to_string(),
            cache_bytes: spec.cache_bytes,
            streams: args.streams,
            numbers,
        });
    }
    let header = [("number", Align::Left), ("value", Align::Right), ("because", Align::Left)];
    let row = |e: Explained| vec![e.name.to_owned(), human::readable(&e.value), human::readable(&e.why)];
    let rows: Vec<Vec<String>> = explained.into_iter().map(row).collect();
    ui.print(&(flowing(&header, &rows, ui.columns).join("\n") + "\n"))
}
