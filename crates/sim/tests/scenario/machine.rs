//! A whole simulated machine, for the schemes that are computed from the whole input: one run in virtual time and its sums.

use forerun_core::size::parse_size;
use forerun_core::units::BLOCK_BYTES;
use forerun_disk::preset::Preset;
use forerun_scenario::Settings;
use forerun_sim::input::Input;
use forerun_sim::report::RunReport;
use forerun_sim::run::run;
use forerun_sim::said::{Part, Said};
use forerun_sim::spec::{RunSpec, SPEC_VERSION};
use forerun_sim::workload::Workload;

/// Hardware on which workloads are run.
pub(crate) struct Machine {
    spec: RunSpec,
    /// Transfer of one block where the device is fastest, ns.
    block_ns: u64,
}

/// A part of the spec in the words of a page.
fn said<T: Part>(text: &str) -> Result<Said<T>, String> {
    Said::read(text).map_err(|error| error.to_string())
}

impl Machine {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let device = settings.get("device")?;
        let cost = Preset::load(device).and_then(|preset| preset.cost_params()).map_err(|e| e.to_string())?;
        let size = |key| parse_size(settings.or(key, "0")).map_err(|e| e.to_string());
        let spec = RunSpec {
            spec_version: SPEC_VERSION,
            forerun: "scenario".into(),
            input: String::new(),
            input_hash: String::new(),
            map: Said::of("concat"),
            fit: Said::of(""),
            repeat: 1,
            scheme: Said::of("none"),
            array: said(settings.or("array", "single"))?,
            device: said(device)?,
            drive_readahead: None,
            scheduler: Said::of("none"),
            cache_bytes: size("cache")?,
            host_cache_bytes: size("host-cache")?,
            mode: said(settings.or("mode", "closed:1"))?,
            seed: 1,
            write: Said::of("back"),
            cpu: said(settings.or("cpu", "none"))?,
            bus_bytes_per_s: 0,
            failed: Vec::new(),
            skip_bad: false,
            ..RunSpec::default()
        };
        Ok(Self { spec, block_ns: cost.outer_ns_per_block })
    }

    /// `run SCHEME WORKLOAD`.
    pub(crate) fn step(&self, step: &str) -> Result<Vec<String>, String> {
        let words: Vec<&str> = step.split_whitespace().collect();
        let ["run", scheme, line] = words[..] else {
            return Err("the step of a machine is `run SCHEME WORKLOAD`".into());
        };
        let workload = Workload::parse(line).map_err(|e| e.to_string())?;
        let spec = RunSpec { scheme: said(scheme)?, input: line.into(), ..self.spec.clone() };
        let report = run(&Input::of_workload(line, workload), &spec, &|_| {}).map_err(|e| e.to_string())?;
        Ok(if scheme == "bound" { self.floor(&report) } else { sums(&report) })
    }

    /// What `bound` says: loads of each disk, and what the time is the time of.
    fn floor(&self, report: &RunReport) -> Vec<String> {
        let loads: Vec<u64> = report.devices.iter().map(|device| device.bytes / BLOCK_BYTES).collect();
        let most = loads.iter().copied().max().unwrap_or(0);
        let mut lines: Vec<String> = loads
            .iter()
            .enumerate()
            .map(|(disk, blocks)| format!("disk {disk} loads {blocks} blocks"))
            .collect();
        lines.push(if report.elapsed_ns == most * self.block_ns {
            format!("takes the transfer of {most} blocks")
        } else {
            format!("takes {} ns", report.elapsed_ns)
        });
        lines
    }
}

/// What a run did, in numbers that do not depend on how long a command takes.
fn sums(report: &RunReport) -> Vec<String> {
    let counts = &report.counts;
    let prefetched = counts.prefetch_hits + counts.late_hits;
    vec![
        format!(
            "reads {} blocks: {} missed, {prefetched} prefetched, {} cached",
            counts.blocks_read, counts.misses, counts.cache_hits
        ),
        format!("prefetches {} blocks, {} wasted", counts.prefetched_blocks, counts.prefetched_wasted),
        format!("loads {} blocks", report.bytes_from_devices / BLOCK_BYTES),
    ]
}
