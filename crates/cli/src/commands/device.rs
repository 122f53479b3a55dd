//! `device`: the models that runs are made on. Presets are data files; drives that were described for DiskSim are
//! imported, and a trace measured on a real drive says how far model and drive are apart. A device at hand is measured
//! ([`super::measure`]).

use super::measure;
use crate::error::CliError;
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::{Args, Subcommand};
use forerun_disk::disksim;
use forerun_disk::preset::{BuildOptions, DriveCache, Preset, PresetError};
use forerun_disk::validate::{self, Validation};
use forerun_study::fit::flowing;
use forerun_study::human::{self, float};
use forerun_study::listing;
use forerun_study::table::{self, Align};
use serde::Serialize;
use std::path::PathBuf;

const SHOW_HELP: &str = "\
Examples:
  forerun device show cheetah-15k4
  forerun device show cheetah-15k4 > mine.toml    # change it, then --device mine.toml";

const IMPORT_HELP: &str = "\
Examples:
  forerun device import atlas10k.parv -o atlas.toml
  forerun device show atlas.toml

FILE is a DiskSim 4.0 parameter file; the model, seek and layout files that it names are read beside it.";

const VALIDATE_HELP: &str = "\
Examples:
  forerun device validate cheetah-9lp cheetah9LP.trace.gz
  forerun device validate cheetah-9lp cheetah9LP.trace.gz --drive-cache off

Replays a trace measured on a real drive, each request after the one before and its think time, and prints both
means, both distributions and the demerit figure: the rms horizontal distance between the two distributions.
A line of the trace is: R|W FLAG SECTOR SECTORS MEASURED_US THINK_US";

/// What `device` does.
#[derive(Debug, Subcommand)]
pub(crate) enum DeviceCommand {
    /// The presets
    #[command(after_help = "Example:\n  forerun device list")]
    List,
    /// A preset as the file that it is
    #[command(after_help = SHOW_HELP)]
    Show(ShowArgs),
    /// Make a preset of a DiskSim parameter file
    #[command(after_help = IMPORT_HELP)]
    Import(ImportArgs),
    /// Make a preset of a device by reading it for half a minute; nothing is written
    #[command(after_help = measure::MEASURE_HELP)]
    Measure(measure::MeasureArgs),
    /// Compare a model with a trace measured on the real drive
    #[command(after_help = VALIDATE_HELP)]
    Validate(ValidateArgs),
}

/// Options of `device show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Preset or preset file
    preset: String,
}

/// Options of `device import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// DiskSim parameter file (.parv, .diskspecs)
    file: PathBuf,
    /// File to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options of `device validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Preset or preset file
    preset: String,
    /// Measured trace
    trace: PathBuf,
    /// The drive's own cache in place of the preset's: off, or SEGMENTSxSIZE as in 16x512KiB; `,fill` behind it: a miss fills its
    /// segment even if a command waits
    #[arg(long, value_name = "CACHE")]
    drive_cache: Option<DriveCache>,
    /// Whether a write ends in the drive's cache [default: as the preset says]
    #[arg(long, value_name = "on|off", value_parser = forerun_study::options::switch)]
    drive_write_cache: Option<bool>,
}

/// Runs one of them.
pub(crate) fn run(command: &DeviceCommand, ui: &Ui) -> Result<(), CliError> {
    match command {
        DeviceCommand::List => list(ui),
        DeviceCommand::Show(args) => show(args, ui),
        DeviceCommand::Import(args) => import(args, ui),
        DeviceCommand::Measure(args) => measure::measure(args, ui),
        DeviceCommand::Validate(args) => validate(args, ui),
    }
}

fn load(name: &str) -> Result<Preset, CliError> {
    Preset::load(name).map_err(|problem: PresetError| CliError::usage("device", problem, ""))
}

fn list(ui: &Ui) -> Result<(), CliError> {
    let listing = listing::devices()?;
    if ui.json {
        return ui.print_json(&listing);
    }
    let rows: Vec<Vec<String>> = listing
        .devices
        .iter()
        .map(|entry| vec![entry.name.clone(), human::bytes(float(entry.bytes)), entry.about.clone()])
        .collect();
    let header = [("preset", Align::Left), ("size", Align::Right), ("what it is", Align::Left)];
    ui.print(&(flowing(&header, &rows, ui.columns).join("\n") + "\n"))
}

fn show(args: &ShowArgs, ui: &Ui) -> Result<(), CliError> {
    let preset = load(&args.preset)?;
    // What cannot be simulated is told here too, not when a run begins.
    preset.check().map_err(|problem| CliError::usage("device", problem, ""))?;
    if ui.json {
        return ui.print_json(&preset.spec);
    }
    let text = preset.to_toml().map_err(|problem| CliError::failure("device", problem))?;
    ui.print(&text)
}

fn import(args: &ImportArgs, ui: &Ui) -> Result<(), CliError> {
    outputs::check_is_file("--output", args.output.as_deref())?;
    outputs::check(&[("--output", args.output.as_deref())], std::slice::from_ref(&args.file))?;
    let disksim::Imported { spec, files } =
        disksim::import(&args.file).map_err(|problem| CliError::failure("", problem))?; // it names its file
    outputs::check(&[("--output", args.output.as_deref())], &files)?;
    let name = args.file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let preset = Preset { name, spec };
    let text = preset.to_toml().map_err(|problem| CliError::failure("device", problem))?;
    if let Some(path) = &args.output {
        outputs::write(path, &text)?;
        ui.say(&format!("preset written to {}", path.display()));
    }
    match &args.output {
        _ if ui.json => ui.print_json(&preset.spec),
        None => ui.print(&text),
        Some(_) => Ok(()),
    }
}

#[derive(Serialize)]
struct Validated<'a> {
    preset: &'a str,
    trace: String,
    #[serde(flatten)]
    result: &'a Validation,
}

fn validate(args: &ValidateArgs, ui: &Ui) -> Result<(), CliError> {
    let place = args.trace.display().to_string();
    let mut preset = load(&args.preset)?;
    let wrong = |what| move |problem: String| CliError::usage(what, problem, "");
    if let Some(cache) = args.drive_cache {
        preset = preset.with_drive_cache(cache).map_err(wrong("--drive-cache"))?;
    }
    if let Some(on) = args.drive_write_cache {
        preset = preset.with_write_cache(on).map_err(wrong("--drive-write-cache"))?;
    }
    let requests = validate::load(&args.trace).map_err(|problem| CliError::failure("", problem))?;
    let mut device =
        preset.build(&BuildOptions::default()).map_err(|problem| CliError::failure("device", problem))?;
    let result = validate::replay(device.as_mut(), &requests, &place)
        .map_err(|problem| CliError::failure("", problem))?;
    if ui.json {
        return ui.print_json(&Validated { preset: &preset.name, trace: place, result: &result });
    }
    let mut text = format!(
        "{}\n\n  requests  {}\n  mean      {} measured, {} in the model ({:+.2}%)\n  demerit   {} ({} of the measured mean)\n\n",
        ui.paint(Style::Bold, &format!("{} against {place}", preset.name)),
        human::count(result.requests),
        human::duration(result.mean_measured_ns),
        human::duration(result.mean_model_ns),
        result.mean_error * 100.0,
        human::duration(result.demerit_ns),
        human::percent(result.demerit_share),
    );
    let header = [("  share", Align::Right), ("measured", Align::Right), ("model", Align::Right)];
    let rows: Vec<Vec<String>> = result
        .distribution
        .iter()
        .map(|row| {
            vec![
                human::percent(row.share),
                human::duration(float(row.measured_ns)),
                human::duration(float(row.model_ns)),
            ]
        })
        .collect();
    text.push_str(&table::aligned(&header, &rows).join("\n"));
    text.push('\n');
    ui.print(&text)
}
