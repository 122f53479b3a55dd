//! `compare` and `sim`: the main job. Inputs under schemes on one set of hardware, side by side.

use crate::error::CliError;
use crate::fail_if::{self, Expr, Zero};
use crate::progress::Bars;
use crate::ui::{Style, Ui};
use crate::{learned, outputs};
use clap::Args;
use forerun_core::registry::Layer;
use forerun_sim::input::Input;
use forerun_sim::own::Own;
use forerun_sim::report::{Comparison, RunReport};
use forerun_sim::spec::RunSpec;
use forerun_study::compare::{Asked, Outcome, Planned};
use forerun_study::options::{self, SetupArgs};
use forerun_study::plan;
use forerun_study::runner::{self, Brought};
use forerun_study::{csv, html, reasons, spec_file, table, words};
use forerun_trace::ReadOptions;
use forerun_watch::foretell::{self, Foretell};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SIM_EXAMPLES: &str = "\
Examples:
  forerun sim 'forward:processes=4,size=2GiB,block=4KiB' --scheme asp --array raid5:5x128KiB
  forerun sim trace.csv.gz --scheme linux-2.6 --mode paced --json
  forerun sim trace.csv.gz --scheme asp --array raid5:5x128KiB --map one-array-each

INPUT is a trace file in any format of `forerun trace info --help`, or a workload such as
'random:size=1GiB,requests=40000' or a .toml file with a [workload]; `forerun trace synth --help` lists the shapes.";

/// What every command that runs prints or writes besides the table.
#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// One row per run as CSV, to FILE or, without one, to stdout in place of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = false,
          help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Exit with code 3 if this condition over the runs is true (see below)
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) fail_if: Option<String>,
    /// Write the runs' specs, to be run again with --spec
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) save_spec: Option<PathBuf>,
}

/// Options of `sim`.
#[derive(Debug, Args)]
#[command(after_help = SIM_EXAMPLES)]
pub(crate) struct SimArgs {
    /// Trace file, or workload such as random:size=1GiB,requests=2000
    #[arg(value_name = "INPUT", required_unless_present = "spec")]
    input: Option<String>,
    /// Scheme, in the grammar of `forerun schemes`
    #[arg(long, value_name = "SCHEME", default_value = "none")]
    scheme: String,
    /// Write what the scheme has learned in the end, a manifest for --manifest; for schemes with recall
    #[arg(long, value_name = "FILE")]
    learn: Option<PathBuf>,
    /// Begin with what was learned before on this volume
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Run what a spec file says; it determines everything, so no INPUT and no hardware is given beside it
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["input", "scheme"], conflicts_with_all = options::IDS)]
    spec: Option<PathBuf>,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Options of `compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_HELP.as_str())]
pub(crate) struct CompareArgs {
    /// Trace files, or workloads such as random:size=1GiB,requests=2000
    #[arg(value_name = "INPUT", required_unless_present = "spec")]
    inputs: Vec<String>,
    /// Scheme to compare, in the grammar of `forerun schemes`, or watch; may be given many times [default: a sensible set]
    #[arg(long = "scheme", value_name = "SCHEME")]
    schemes: Vec<String>,
    /// Do not add `none`, `bound`, `oracle` and `auto`: run exactly the schemes asked for
    #[arg(long)]
    no_bounds: bool,
    /// Run what a spec file says; it determines everything, so no INPUT and no hardware is given beside it
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["inputs", "schemes", "no_bounds"], conflicts_with_all = options::IDS)]
    spec: Option<PathBuf>,
    /// Threads to run on; results are the same whatever N [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = options::threads)]
    threads: usize,
    #[command(flatten)]
    setup: SetupArgs,
    #[command(flatten)]
    output: OutputArgs,
}

static COMPARE_HELP: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    format!(
        "\
Examples:
  forerun compare mine.parquet
  forerun compare mine.parquet --cache 64MiB,256MiB,1GiB --scheme asp --scheme asp+msp
  forerun compare trace.csv.gz --array raid5:5x128KiB --cache 500MiB \\
      --scheme seqp:128KiB --scheme strip --scheme asp --scheme asp+msp --html report.html
  forerun compare 'random:size=1GiB,requests=40000' --array raid5:5x128KiB --scheme asp --json
  forerun compare a.csv b.csv --scheme asp --csv runs.csv --fail-if 'speedup(asp) < 0.98'
  forerun compare a.csv --scheme asp --save-spec again.toml; forerun compare --spec again.toml

Without --device, --array and --scheduler they are taken from this machine, which is said under the table, and so is a
scheduler or device with which another scheme would win. Without --scheme a set of schemes is run: for traces of files and
workloads those of a page cache, this machine's first; for traces of devices those of an array. The scheme `watch` is what
`forerun watch` would do for the same readers: linux-6 with windows of 128 KiB, and the daemon's own decisions beside it.

Every comparison also runs `none` (no prefetching), `bound` (what nothing can beat), `oracle` (the best
that is found offline, by a clairvoyant or by one of the schemes) and `auto` (which chooses among schemes
while it runs), unless --no-bounds is given.

{}
  example: --fail-if 'asp.hit_ratio < none.hit_ratio || asp.latency_ns.p99 > 50ms'",
        fail_if::GRAMMAR
    )
});

/// One run, or one for each device of a trace.
pub(crate) fn sim(args: &SimArgs, ui: &Ui) -> Result<(), CliError> {
    if args.setup.cache.len() > 1 {
        return Err(CliError::usage("--cache", "one run has one cache", "`forerun compare` takes a list"));
    }
    let mut left_out = None;
    let (specs, assumed) = match (&args.spec, &args.input) {
        (Some(path), _) => {
            let file = spec_file::read(path, &[])?;
            left_out = file.assumed;
            (file.specs, None)
        }
        (None, Some(input)) => {
            let assumed = args.setup.assumed(std::slice::from_ref(input));
            let (inputs, schemes) = (std::slice::from_ref(input), std::slice::from_ref(&args.scheme));
            (plan::specs(inputs, schemes, &args.setup, &assumed, false, &[])?, Some(assumed))
        }
        (None, None) => (Vec::new(), None), // clap requires one of the two
    };
    if specs.len() != 1 {
        return Err(CliError::usage("spec", "holds more than one run", "use `forerun compare --spec`"));
    }
    let files = args.spec.iter().chain(&args.manifest).map(PathBuf::as_path).collect();
    let planned = Planned { specs, assumed };
    let plan = Plan { planned, left_out, files, threads: 1, brought: Brought::default() };
    execute(&plan, &args.output, ui, |specs| match (&args.learn, &args.manifest) {
        (None, None) => Ok(runner::run_all(specs, 1, Brought::default(), &Bars::new(ui))?),
        (learn, manifest) => Ok(vec![learning(&specs[0], learn.as_deref(), manifest.as_deref(), ui)?]),
    })
}

/// One run that begins with what was learned before, or leaves what it learned.
fn learning(
    spec: &RunSpec,
    learn: Option<&Path>,
    manifest: Option<&Path>,
    ui: &Ui,
) -> Result<RunReport, CliError> {
    outputs::check(&[("--learn", learn)], &[PathBuf::from(&spec.input), PathBuf::from(spec.device.text())])?;
    let bytes = forerun_sim::run::volume_bytes(spec)?;
    let before = manifest.map(|path| learned::read(path, bytes)).transpose()?.unwrap_or_default();
    let (report, after) = runner::run_learned(spec, &before, &Bars::new(ui))?;
    if let Some(path) = learn {
        learned::write(path, bytes, &after)?;
        ui.say(&format!("{} runs of blocks learned, written to {}", after.len(), path.display()));
    }
    Ok(report)
}

/// What `forerun watch` would do: no scheme of the registry, since it is the daemon's own.
fn watched() -> Own {
    Own {
        name: foretell::NAME.into(),
        layer: Layer::Host,
        make: Arc::new(|shape| Box::new(Foretell::new(shape))),
        in_flight: Some(foretell::IN_FLIGHT),
    }
}

/// Many runs.
pub(crate) fn compare(args: &CompareArgs, ui: &Ui) -> Result<(), CliError> {
    let own = [watched()];
    let mut left_out = None;
    let planned = match &args.spec {
        Some(path) => {
            let file = spec_file::read(path, &own)?;
            left_out = file.assumed;
            Planned { specs: file.specs, assumed: None }
        }
        None => {
            let (inputs, schemes) = (args.inputs.clone(), args.schemes.clone());
            Asked { inputs, schemes, bounds: !args.no_bounds, setup: args.setup.clone() }.plan(&own)?
        }
    };
    let files = args.spec.iter().map(PathBuf::as_path).collect();
    let brought = Brought { own: &own, ..Brought::default() };
    let plan = Plan { planned, left_out, files, threads: args.threads, brought };
    execute(&plan, &args.output, ui, |specs| {
        Ok(runner::run_all(specs, args.threads, brought, &Bars::new(ui))?)
    })
}

/// What is to be run, and where it comes from.
struct Plan<'a> {
    planned: Planned,
    /// What a file of specs does not say.
    left_out: Option<String>,
    /// What is read beside inputs and presets: the file of specs, what was learned before.
    files: Vec<&'a Path>,
    threads: usize,
    brought: Brought<'a>,
}

/// Refuses to write over a trace, a preset, the file of specs or a manifest.
fn check_outputs(specs: &[RunSpec], files: &[&Path], output: &OutputArgs) -> Result<(), CliError> {
    // A workload or the name of a preset is the path of no file, as a rule; if it is of one, that is spared too.
    let mut read: Vec<PathBuf> =
        specs.iter().flat_map(|spec| [spec.input.as_str(), spec.device.text()]).map(PathBuf::from).collect();
    read.extend(files.iter().map(|path| path.to_path_buf()));
    read.sort_unstable();
    read.dedup();
    let outputs = [
        ("--save-spec", output.save_spec.as_deref()),
        ("--html", output.html.as_deref()),
        ("--csv", output.csv.as_deref()),
    ];
    outputs::check(&outputs, &read)
}

fn execute(
    plan: &Plan<'_>,
    output: &OutputArgs,
    ui: &Ui,
    run: impl FnOnce(&[RunSpec]) -> Result<Vec<RunReport>, CliError>,
) -> Result<(), CliError> {
    let specs = &plan.planned.specs;
    outputs::check_csv(output.csv.as_deref(), ui)?;
    check_outputs(specs, &plan.files, output)?;
    plan.planned.check()?;
    let condition = output.fail_if.as_deref().map(|text| read_condition(text, specs)).transpose()?;
    let runs = run(specs)?;
    let outcome = plan.planned.outcome(runs, plan.threads, plan.brought, &Bars::new(ui))?;
    let Outcome { comparison, mut remarks } = outcome;
    remarks.extend(plan.left_out.clone());
    let pipes = [&output.save_spec, &output.html, &output.csv].into_iter().flatten();
    let _held = pipes.map(|path| outputs::hold_pipe(path, ui)).collect::<Result<Vec<_>, _>>()?;
    if let Some(path) = &output.save_spec {
        let specs: Vec<RunSpec> = comparison.runs.iter().map(|run| run.spec.clone()).collect();
        outputs::write(path, spec_file::print(&specs)?)?;
        ui.say(&format!("spec written to {}", path.display()));
    }
    if let Some(path) = &output.html {
        outputs::write(path, html::comparison(&comparison, &remarks))?;
        ui.say(&format!("report written to {}", path.display()));
    }
    print(&comparison, &remarks, output.csv.as_deref(), ui)?;
    match condition {
        Some((text, condition)) => check(&text, &condition, &comparison.runs),
        None => Ok(()),
    }
}

fn print(
    comparison: &Comparison,
    remarks: &[String],
    csv_to: Option<&Path>,
    ui: &Ui,
) -> Result<(), CliError> {
    if let Some(path) = csv_to {
        let text = csv::table(&comparison.runs)?;
        if path != Path::new("-") {
            outputs::write(path, &text)?;
            ui.say(&format!("CSV written to {}", path.display()));
        } else {
            return ui.print(&text);
        }
    }
    if ui.json {
        // A spec that is saved runs again to the same bytes, so that they hold nothing of this machine.
        remarks.iter().for_each(|line| ui.say(line));
        return ui.print_json(comparison);
    }
    let figures = table::comparison(comparison, ui.ink(), ui.columns);
    let remarks: String = remarks.iter().map(|line| ui.paint(Style::Dim, line) + "\n").collect();
    // A single run has room for its reasons; a page has it for those of many.
    let why = if let [run] = &comparison.runs[..] { reasons::text(run) } else { String::new() };
    ui.print(&(figures + &why + &remarks))
}

fn read_condition(text: &str, specs: &[RunSpec]) -> Result<(String, Expr), CliError> {
    let mut schemes: Vec<String> = Vec::new();
    for spec in specs {
        let scheme = spec.scheme.to_string();
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    let condition = fail_if::condition(text, &schemes)
        .map_err(|what| CliError::usage("--fail-if", what, "`forerun compare --help` shows the grammar"))?;
    check_fields(&condition, specs)?;
    Ok((text.to_owned(), condition))
}

/// Looks for the fields of a condition in reports of the same schemes over next to nothing, so that a wrong one is
/// refused before hours of runs and not behind them. A spec that cannot run says so by itself.
fn check_fields(condition: &Expr, specs: &[RunSpec]) -> Result<(), CliError> {
    let Ok(input) = Input::load(PROBE, &ReadOptions::default()) else {
        unreachable!("the probe is a workload")
    };
    let mut reports: Vec<RunReport> = Vec::new();
    for scheme in fail_if::schemes(condition) {
        let Some(spec) = specs.iter().find(|spec| spec.scheme == *scheme) else { continue };
        let defaults = RunSpec::default();
        let spec = RunSpec {
            input: PROBE.into(),
            input_hash: String::new(),
            map: defaults.map,
            repeat: defaults.repeat,
            mode: defaults.mode,
            failed: Vec::new(),
            ..spec.clone()
        };
        let Ok(mut report) = forerun_sim::run::run(&input, &spec, &|_| {}) else { return Ok(()) };
        // Parts of a report that only some inputs have.
        report.time = Some(report.time.unwrap_or_default());
        report.streams = Some(report.streams.unwrap_or_default());
        if report.scheme != "bound" && specs.iter().any(|spec| spec.scheme == *"oracle") {
            report.share_of_clairvoyant = Some(1.0);
        }
        reports.push(report);
    }
    fail_if::evaluate(condition, &reports.iter().collect::<Vec<_>>(), Zero::OfRuns)
        .map(drop)
        .map_err(|what| CliError::usage("--fail-if", what, "`forerun compare --help` shows the grammar"))
}

/// What [`check_fields`] runs: the least that gives a report.
const PROBE: &str = "forward:size=64KiB";

fn check(text: &str, condition: &Expr, runs: &[RunReport]) -> Result<(), CliError> {
    for group in words::by_input(runs) {
        let value = fail_if::evaluate(condition, &group, Zero::Refused).map_err(|what| {
            CliError::usage("--fail-if", what, "`forerun compare --help` shows the grammar")
        })?;
        if value != 0.0 {
            return Err(CliError::new(
                crate::error::Kind::Finding,
                "--fail-if",
                format!("`{text}` is true on {}", group[0].input),
                "",
            ));
        }
    }
    Ok(())
}
