//! `device measure`: a device read for half a minute, and the preset that behaves like it.

use crate::error::{CliError, Kind};
use crate::outputs;
use crate::ui::{Style, Ui};
use clap::Args;
use forerun_disk::preset::Preset;
use forerun_machine::device::{BlockDevice, Loop};
use forerun_machine::traffic::Traffic;
use forerun_machine::{Machine, Root, likeness};
use forerun_measure::device::{DirectFile, TargetError, holes, in_memory};
use forerun_measure::estimate::estimate;
use forerun_measure::found::{Estimate, Value};
use forerun_measure::load::Target;
use forerun_measure::probes::{Point, probe};
use forerun_measure::rows;
use forerun_measure::simulated::Simulated;
use forerun_study::assumed;
use forerun_study::human;
use forerun_study::table::{self, Align};
use serde::Serialize;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

pub(crate) const MEASURE_HELP: &str = "\
Examples:
  sudo forerun device measure /dev/sda -o mine.toml       # then --device mine.toml
  forerun device measure /srv/big.img --check              # a file of 16 MiB or more needs no root
  forerun device measure --model hdd-20tb --check          # how well this finds a device that is known

It only reads, past the page cache, so a mounted device may be measured; what else uses the device is slower meanwhile, and makes
the figures worse, so it says how much that was. Random and sequential reads of several sizes and depths tell a volume from a
flash drive and from platters; on platters also the turn, the arm, the zones and the drive's cache are found. What cannot be
told from outside is listed, and stands in the file.";

/// Between the place and what was found there, in what a measured preset says of itself.
const MEASURED: &str = ", measured: ";
/// What the source of a measured preset begins with.
const SOURCE: &str = "forerun device measure";

/// Options of `device measure`.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// Device, partition or large file to read
    #[arg(required_unless_present = "model", value_name = "PATH")]
    path: Option<PathBuf>,
    /// File to write the preset to [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// About how long to read, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    time: u64,
    /// Then read six other loads, and compare what the preset predicts for them (about 12 s more)
    #[arg(long)]
    check: bool,
    /// Measure a preset in virtual time instead of a device
    #[arg(long, value_name = "PRESET", conflicts_with = "path")]
    model: Option<String>,
}

/// What the others did meanwhile.
#[derive(Clone, Copy, Debug, Serialize)]
struct Others {
    /// Bytes that others read and wrote.
    bytes: u64,
    /// Their share of all bytes.
    share: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    load: &'static str,
    /// Requests a second on the device, and as the preset predicts.
    measured_per_s: f64,
    predicted_per_s: f64,
    error: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    what: &'a str,
    values: &'a [Value],
    unknown: &'a [String],
    /// Mean distance of the preset's probes from the device's.
    distance: f64,
    others: Option<Others>,
    probes: &'a [Point],
    check: &'a [Row],
    preset: &'a forerun_disk::preset::PresetSpec,
}

/// Share of another's bytes above which the figures are not the device's alone.
const OTHERS_MAX: f64 = 0.02;
/// Share of a file without blocks above which its figures are not the disk's.
const HOLLOW_MAX: f64 = 0.02;
/// Requests and seconds of a row of `--check`.
const ROW: (u64, f64) = (60_000, 2.0);
/// The same of a row in virtual time.
const ROW_MODEL: (u64, f64) = (4_000, 20.0);

/// Measures.
pub(crate) fn measure(args: &MeasureArgs, ui: &Ui) -> Result<(), CliError> {
    let read: Vec<PathBuf> =
        args.path.iter().cloned().chain(args.model.as_ref().map(PathBuf::from)).collect();
    outputs::check_is_file("--output", args.output.as_deref())?;
    outputs::check(&[("--output", args.output.as_deref())], &read)?;
    let (mut target, number): (Box<dyn Target>, _) = match (&args.path, &args.model) {
        (Some(path), _) => (Box::new(open(path)?), number(path)),
        (None, name) => {
            let preset = Preset::load(name.as_deref().unwrap_or_default())
                .map_err(|problem| CliError::usage("--model", problem, ""))?;
            let model = Simulated::new(&preset, 5);
            (Box::new(model.map_err(|problem| CliError::failure("device", problem))?), None)
        }
    };
    let place = args
        .path
        .as_ref()
        .map_or_else(|| args.model.clone().unwrap_or_default(), |path| path.display().to_string());
    let traffic = || number.as_ref().and_then(|number| Traffic::of(&Root::host(), number));
    let before = traffic();
    let bar = ui.bars.then(|| indicatif::ProgressBar::new(100));
    let mut asked = 0;
    let seen = {
        let mut counted = Counted { inner: target.as_mut(), bytes: 0 };
        let scale = args.time as f64 / 30.0;
        let seen = probe(&mut counted, scale, &mut |share, what| {
            if let Some(bar) = &bar {
                bar.set_message(what.to_owned());
                bar.set_position((share * 100.0) as u64);
            }
        });
        asked += counted.bytes;
        seen.map_err(|problem| CliError::failure(&place, problem))?
    };
    let others = traffic().zip(before).map(|(now, before)| others(now.since(before), asked));
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    let mut found = estimate(&seen).map_err(|problem| CliError::failure(&place, problem))?;
    if let Some(line) = args.path.as_deref().and_then(hollow) {
        ui.say(&line);
        found.unknown.push(line);
    }
    let rows =
        if args.check { check(target.as_mut(), &found, args.model.is_some(), &place)? } else { Vec::new() };
    show(args, &place, &found, &seen.points, others, &rows, ui)
}

fn open(path: &Path) -> Result<DirectFile, CliError> {
    if path.is_dir() {
        let number = std::fs::metadata(path).ok().map(|about| assumed::number(about.dev()));
        let machine = Machine::read(&Root::host()).ok();
        let device =
            machine.as_ref().and_then(|machine| likeness::device_of_folder(machine, number.as_deref()));
        let remedy = device.map_or_else(
            || "name a device or a large file".to_owned(),
            |device| format!("measure its device, /dev/{}, or a large file in it", device.name),
        );
        return Err(CliError::usage(&path.display().to_string(), "a folder cannot be read", &remedy));
    }
    if let Some(device) = behind(path) {
        looped(path, &device)?;
    }
    DirectFile::open(path).map_err(|problem| match &problem {
        TargetError::Open { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            CliError::new(Kind::Unsupported, "", &problem, "run as root, or measure a large file on it")
        }
        TargetError::Open { .. } => CliError::failure("", &problem),
        TargetError::Cached { .. } | TargetError::Memory { .. } => {
            CliError::new(Kind::Unsupported, "", &problem, "")
        }
        TargetError::Small { .. } => CliError::usage("", &problem, ""),
    })
}

/// The device that a path names.
fn behind(path: &Path) -> Option<BlockDevice> {
    let about = std::fs::metadata(path).ok().filter(|about| about.file_type().is_block_device())?;
    Machine::read(&Root::host()).ok()?.device_of_number(&assumed::number(about.rdev())).cloned()
}

/// Refuses a loop device that answers from memory.
fn looped(path: &Path, device: &BlockDevice) -> Result<(), CliError> {
    let Some(Loop { file, direct_io }) = &device.loop_file else { return Ok(()) };
    let wrong = |what: String, remedy: &str| {
        Err(CliError::new(Kind::Unsupported, &path.display().to_string(), what, remedy))
    };
    if !direct_io {
        let what = format!("it reads {file} through the page cache, so what is measured would be memory");
        return wrong(what, &format!("losetup --direct-io=on /dev/{}", device.name));
    }
    // Of another namespace, or deleted: then nothing is known of it.
    if std::fs::File::open(file).and_then(|file| in_memory(&file)).unwrap_or(false) {
        let what = format!("the file system of {file} lies in memory, so what is measured would be memory");
        return wrong(what, "name a device, or a file on a disk");
    }
    Ok(())
}

/// What is to be said of a file, or the file behind a loop device, that has holes.
fn hollow(path: &Path) -> Option<String> {
    let file = match behind(path) {
        Some(device) => PathBuf::from(device.loop_file?.file),
        None => path.to_owned(),
    };
    let share = holes(&std::fs::File::open(&file).ok()?)?;
    (share > HOLLOW_MAX).then(|| {
        format!(
            "the disk below: {} of {} is holes, which no disk serves; measure a device, or a file that was written throughout",
            human::percent(share),
            file.display()
        )
    })
}

/// What was measured into a preset, as a path; none of a preset that came about otherwise.
pub(super) fn measured_at(preset: &Preset) -> Option<&str> {
    let ours = preset.sources().iter().any(|source| source.starts_with(SOURCE));
    preset.about().split_once(MEASURED).filter(|_| ours).map(|(place, _)| place)
}

/// Number of the device behind a path.
pub(super) fn number(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok()?;
    Some(assumed::number(if about.file_type().is_block_device() { about.rdev() } else { about.dev() }))
}

fn others(all: Traffic, asked: u64) -> Others {
    let bytes = (all.read + all.written).saturating_sub(asked);
    let share = bytes as f64 / (all.read + all.written).max(1) as f64;
    Others { bytes, share }
}

/// A target that knows how much was asked of it.
struct Counted<'a> {
    inner: &'a mut dyn Target,
    bytes: u64,
}

impl Target for Counted<'_> {
    fn sectors(&self) -> u64 {
        self.inner.sectors()
    }
    fn run(
        &mut self,
        load: &forerun_measure::load::Load,
    ) -> std::io::Result<Vec<forerun_measure::load::Done>> {
        let done = self.inner.run(load)?;
        self.bytes += done.iter().map(|done| load.readers[done.reader].bytes).sum::<u64>();
        Ok(done)
    }
    fn rest(&mut self, time: forerun_core::units::Nanos) {
        self.inner.rest(time);
    }
}

/// The rows on the device and on the preset.
fn check(target: &mut dyn Target, found: &Estimate, model: bool, place: &str) -> Result<Vec<Row>, CliError> {
    let wrong = |problem: std::io::Error| CliError::failure(place, problem);
    let (requests, seconds) = if model { ROW_MODEL } else { ROW };
    let real = rows::run(target, requests, seconds).map_err(wrong)?;
    let preset = Preset { name: "measured".into(), spec: found.spec.clone() };
    let mut own = Simulated::new(&preset, 9).map_err(|problem| CliError::failure(place, problem))?;
    let own = rows::run(&mut own, ROW_MODEL.0, ROW_MODEL.1).map_err(wrong)?;
    let row = |((load, real), own): ((&'static str, &Point), &Point)| Row {
        load,
        measured_per_s: real.per_s,
        predicted_per_s: own.per_s,
        error: own.per_s / real.per_s.max(1e-9) - 1.0,
    };
    Ok(rows::ROWS.into_iter().zip(&real).zip(&own).map(row).collect())
}

fn show(
    args: &MeasureArgs,
    place: &str,
    found: &Estimate,
    points: &[Point],
    others: Option<Others>,
    rows: &[Row],
    ui: &Ui,
) -> Result<(), CliError> {
    let about = format!("{place}{MEASURED}a {}", found.what);
    let source = format!("{SOURCE}, {} s of reads", args.time);
    let text = found.to_toml(&about, &source).map_err(|problem| CliError::failure("device", problem))?;
    if let Some(path) = &args.output {
        outputs::write(path, &text)?;
        ui.say(&format!("preset written to {}", path.display()));
    }
    if let Some(others) = others.filter(|others| others.share > OTHERS_MAX) {
        ui.say(&format!(
            "others moved {} on this device meanwhile ({} of all bytes): the figures are not its alone",
            human::bytes(others.bytes as f64),
            human::percent(others.share)
        ));
    }
    if ui.json {
        let Estimate { spec, what, distance, values, unknown } = found;
        return ui.print_json(&Report {
            what,
            values,
            unknown,
            distance: *distance,
            others,
            probes: points,
            check: rows,
            preset: spec,
        });
    }
    let mut out = String::new();
    if args.output.is_some() || args.check {
        out.push_str(&summary(place, found, others, ui));
        out.push_str(&checked(rows));
    } else {
        out.push_str(&text);
    }
    ui.print(&out)
}

fn summary(place: &str, found: &Estimate, others: Option<Others>, ui: &Ui) -> String {
    let mut text = format!("{}\n\n", ui.paint(Style::Bold, &format!("{place}: a {}", found.what)));
    let digits = human::digits;
    for Value { name, value, low, high, unit } in &found.values {
        let (value, low, high) = (digits(*value), digits(*low), digits(*high));
        text.push_str(&format!("  {name}: {value} {unit} ({low} to {high})\n"));
    }
    if let Some(others) = others {
        text.push_str(&format!("  others moved {} meanwhile\n", human::bytes(others.bytes as f64)));
    }
    let apart = human::percent(found.distance.exp() - 1.0);
    text.push_str(&format!("  the model's own probes differ by {apart} on average\n\nNot told apart:\n"));
    for line in &found.unknown {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

fn checked(rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        ("load", Align::Left),
        ("measured/s", Align::Right),
        ("predicted/s", Align::Right),
        ("error", Align::Right),
    ];
    let row = |row: &Row| {
        vec![
            row.load.to_owned(),
            human::digits(row.measured_per_s),
            human::digits(row.predicted_per_s),
            format!("{:+.1}%", row.error * 100.0),
        ]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(row).collect();
    format!("\n{}\n", table::aligned(&header, &lines).join("\n"))
}
