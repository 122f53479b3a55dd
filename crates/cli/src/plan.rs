//! From options to run specs: every default of a comparison is filled in here, before anything runs.
//!
//! The contracts of the design are kept in this one place: all runs of a comparison have the same two caches;
//! the host's page cache is 512 MiB if any scheme has a host part, else absent; the array's cache is 500 MiB if
//! any scheme has an array part, else absent; and `none`, `bound` and `oracle` stand at the top unless
//! `--no-bounds` says otherwise.

use crate::error::CliError;
use clap::Args;
use forerun_core::registry::SchemeSpec;
use forerun_core::size::{parse_size, parse_time};
use forerun_sim::error::RunError;
use forerun_sim::said::Said;
use forerun_sim::spec::{CLUSTER_BLOCKS, RunSpec, SPEC_VERSION};

/// Host cache where a scheme has a host part: 512 MiB (design, "Caches").
const HOST_CACHE_DEFAULT: u64 = 512 << 20;
/// Array cache where a scheme has an array part: 500 MiB, the ASP paper's.
const ARRAY_CACHE_DEFAULT: u64 = 500 << 20;
/// What a comparison adds to the schemes that were asked for.
pub(crate) const BASELINES: [&str; 3] = ["none", "bound", "oracle"];

/// A size on the command line.
fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|problem| problem.to_string())
}

/// A time on the command line, in nanoseconds: at most a second.
fn time(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let wanted = "a time with its unit of at most a second, such as 400ns or 50us";
    parse_time(text).filter(|&ns| ns <= 1_000_000_000).ok_or_else(|| format!("expected {wanted}"))
}

/// `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}

/// The hardware and the replay, the same for all runs of one command.
#[derive(Clone, Debug, Args)]
pub(crate) struct SetupArgs {
    /// Array of member devices: single or single:STRIP, raid0:NxSTRIP, raid1:N, raid5:NxSTRIP, raid6:…, raid10:…
    #[arg(long, value_name = "ARRAY", help_heading = "Hardware")]
    pub(crate) array: Option<String>,
    /// Member device: a preset of `forerun device list`, or a preset file
    #[arg(long, value_name = "PRESET|FILE", default_value = "cheetah-15k4", help_heading = "Hardware")]
    pub(crate) device: String,
    /// Cache of the array layer [default: 500MiB if a scheme works there, else none]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Hardware")]
    pub(crate) cache: Option<u64>,
    /// Page cache of the host [default: 512MiB if a scheme works there, else none]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Hardware")]
    pub(crate) host_cache: Option<u64>,
    /// Whether mechanical drives read ahead into their own cache [default: as the preset says]
    #[arg(long, value_name = "on|off", value_parser = switch, help_heading = "Hardware")]
    pub(crate) drive_readahead: Option<bool>,
    /// A mechanical drive's own cache, off or SEGMENTSxSIZE as in 16x512KiB; `,fill` behind it: a miss fills its segment even if a
    /// command waits [default: as the preset says]
    #[arg(
        long,
        value_name = "CACHE",
        default_value = "",
        hide_default_value = true,
        help_heading = "Hardware"
    )]
    pub(crate) drive_cache: String,
    /// Whether a write ends in the drive's own cache, or on its medium [default: as the preset says]
    #[arg(long, value_name = "on|off", value_parser = switch, help_heading = "Hardware")]
    pub(crate) drive_write_cache: Option<bool>,
    /// Host's I/O scheduler above each member: none, fcfs, clook, anticipatory
    #[arg(long, value_name = "NAME", default_value = "anticipatory", help_heading = "Hardware")]
    pub(crate) scheduler: String,
    /// Write policy of the array layer: through, or back(dirty=25%,age=30s)
    #[arg(long, value_name = "POLICY", default_value = "back(dirty=25%,age=30s)", help_heading = "Hardware")]
    pub(crate) write: String,
    /// CPU cost preset of the layers
    #[arg(long, value_name = "PRESET", default_value = "xeon-2005", help_heading = "Hardware")]
    pub(crate) cpu: String,
    /// Bytes per second of the controller's bus that all members share, such as 450MB; 0 is unlimited
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", help_heading = "Hardware")]
    pub(crate) bus: u64,
    /// Time that the controller takes for each buffer that it holds whenever one of them passes, such as 400ns
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0", help_heading = "Hardware")]
    pub(crate) buffer_cost: u64,
    /// Members that have failed: their blocks are rebuilt from the others
    #[arg(long, value_name = "DISK,…", value_delimiter = ',', help_heading = "Hardware")]
    pub(crate) failed: Vec<u16>,
    /// Replay: open (recorded times), closed:N (N outstanding), paced (recorded think times)
    #[arg(long, value_name = "MODE", default_value = "closed:1", help_heading = "Replay")]
    pub(crate) mode: String,
    /// Seed of every random choice
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Replay")]
    pub(crate) seed: u64,
    /// How a trace's devices are laid out: concat (end to end), only:DEV, one-array-each (a run for each device)
    #[arg(long, value_name = "MAP", default_value = "concat", help_heading = "Replay")]
    pub(crate) map: String,
    /// What to do with a footprint beyond the array's capacity: modulo wraps it [default: an error]
    #[arg(long, value_name = "HOW", value_parser = ["modulo"], help_heading = "Replay")]
    pub(crate) fit: Option<String>,
    /// Replay the input N times, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Replay",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) repeat: u64,
    /// Pass over malformed records of a trace and count them
    #[arg(long, help_heading = "Replay")]
    pub(crate) skip_bad: bool,
    /// How files lie on the volume: contiguous, or fragmented(extent=64KiB,spread=1): pieces scattered over spread
    /// times their room
    #[arg(long, value_name = "LAYOUT", default_value = "contiguous", help_heading = "Replay")]
    pub(crate) layout: String,
    /// Whether read-ahead knows where a file ends: known, or unknown (it may run past the end)
    #[arg(long, value_name = "known|unknown", default_value = "known", help_heading = "Replay")]
    pub(crate) file_sizes: String,
    /// Most blocks of one command of the page cache, merged ones included; the RPP paper's model has 32
    #[arg(long, value_name = "BLOCKS", default_value_t = CLUSTER_BLOCKS, help_heading = "Hardware")]
    pub(crate) cluster: u64,
}

/// Which layers any of the schemes works at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layers {
    host: bool,
    array: bool,
}

/// One spec for each input and scheme, inputs outermost, in the order asked.
pub(crate) fn specs(
    inputs: &[String],
    schemes: &[String],
    setup: &SetupArgs,
    baselines: bool,
) -> Result<Vec<RunSpec>, CliError> {
    let schemes: Vec<Said<SchemeSpec>> = schemes.iter().map(|text| scheme(text)).collect::<Result<_, _>>()?;
    let asked = with_baselines(&schemes, baselines);
    let common = spec(setup, layers_of(&schemes))?;
    let with = |input: &String, scheme: &Said<SchemeSpec>| RunSpec {
        input: input.clone(),
        scheme: scheme.clone(),
        ..common.clone()
    };
    Ok(inputs.iter().flat_map(|input| asked.iter().map(move |scheme| with(input, scheme))).collect())
}

/// The baselines that were not asked for come first; what is asked twice runs once.
fn with_baselines(schemes: &[Said<SchemeSpec>], baselines: bool) -> Vec<Said<SchemeSpec>> {
    let mut all = Vec::new();
    let first = if baselines { &BASELINES[..] } else { &[] };
    for scheme in first.iter().map(|name| Said::of(name)).chain(schemes.iter().cloned()) {
        if !all.contains(&scheme) {
            all.push(scheme);
        }
    }
    all
}

/// What all runs of a command have in common: everything but input and scheme.
fn spec(setup: &SetupArgs, layers: Layers) -> Result<RunSpec, CliError> {
    let cache = setup.cache.unwrap_or(if layers.array { ARRAY_CACHE_DEFAULT } else { 0 });
    let host = setup.host_cache.unwrap_or(if layers.host { HOST_CACHE_DEFAULT } else { 0 });
    Ok(RunSpec {
        spec_version: SPEC_VERSION,
        forerun: env!("CARGO_PKG_VERSION").into(),
        input: String::new(),
        input_hash: String::new(),
        map: Said::read(&setup.map)?,
        fit: Said::read(setup.fit.as_deref().unwrap_or_default())?,
        repeat: setup.repeat,
        scheme: Said::of("none"),
        array: Said::read(setup.array.as_deref().unwrap_or("single"))?,
        device: Said::read(&setup.device)?,
        drive_readahead: setup.drive_readahead,
        drive_cache: Said::read(&setup.drive_cache)?,
        drive_write_cache: setup.drive_write_cache,
        scheduler: Said::read(&setup.scheduler)?,
        cache_bytes: cache,
        host_cache_bytes: host,
        mode: Said::read(&setup.mode)?,
        seed: setup.seed,
        write: Said::read(&setup.write)?,
        cpu: Said::read(&setup.cpu)?,
        bus_bytes_per_s: setup.bus,
        buffer_cost_ns: setup.buffer_cost,
        failed: setup.failed.clone(),
        skip_bad: setup.skip_bad,
        layout: Said::read(&setup.layout)?,
        file_sizes: Said::read(&setup.file_sizes)?,
        cluster_blocks: setup.cluster,
    })
}

/// What a hand-written spec file leaves out: the same defaults as the command line's.
pub(crate) fn default_spec() -> RunSpec {
    #[derive(clap::Parser)]
    struct Defaults {
        #[command(flatten)]
        setup: SetupArgs,
    }
    let defaults = <Defaults as clap::Parser>::parse_from(["forerun"]);
    spec(&defaults.setup, Layers::default()).unwrap_or_else(|error| unreachable!("our own defaults: {error}"))
}

/// A scheme on the command line.
fn scheme(text: &str) -> Result<Said<SchemeSpec>, CliError> {
    Said::read(text).map_err(|problem| {
        let RunError::Spec { why, .. } = problem else { return problem.into() };
        CliError::usage("--scheme", why, "`forerun schemes` lists all")
    })
}

/// Which layers the parts of the schemes work at.
fn layers_of(schemes: &[Said<SchemeSpec>]) -> Layers {
    Layers {
        host: schemes.iter().any(|scheme| scheme.has_host()),
        array: schemes.iter().any(|scheme| scheme.has_array()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(schemes: &[&str], baselines: bool) -> Vec<RunSpec> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            setup: SetupArgs,
        }
        let setup = <Line as clap::Parser>::parse_from(["forerun"]).setup;
        let schemes: Vec<String> = schemes.iter().map(|&name| name.to_owned()).collect();
        specs(&["forward:size=1MiB".to_owned()], &schemes, &setup, baselines).expect("known schemes")
    }

    fn names(specs: &[RunSpec]) -> Vec<&str> {
        specs.iter().map(|spec| spec.scheme.text()).collect()
    }

    #[test]
    fn baselines_come_first_and_nothing_runs_twice() {
        assert_eq!(names(&plan(&["asp", "none", "asp"], true)), ["none", "bound", "oracle", "asp"]);
        assert_eq!(names(&plan(&["asp", "none"], false)), ["asp", "none"]);
    }

    #[test]
    fn all_runs_have_the_caches_that_any_scheme_needs() {
        let caches = |specs: &[RunSpec]| {
            let first = (specs[0].cache_bytes, specs[0].host_cache_bytes);
            assert!(specs.iter().all(|spec| (spec.cache_bytes, spec.host_cache_bytes) == first));
            first
        };
        assert_eq!(caches(&plan(&["none"], true)), (0, 0));
        assert_eq!(caches(&plan(&["asp"], true)), (500 << 20, 0));
        assert_eq!(caches(&plan(&["seqp:32KiB"], true)), (0, 512 << 20));
        assert_eq!(caches(&plan(&["asp", "seqp:32KiB"], true)), (500 << 20, 512 << 20));
    }
}
