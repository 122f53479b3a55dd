//! From options to run specs: every default of a comparison is filled in here, before anything runs.
//!
//! What the hardware is where the line does not say stands in `assumed`.
//!
//! The contracts of the design are kept in this one place: all runs of a comparison have the same two caches;
//! the host's page cache is 512 MiB if any scheme has a host part, else absent; the array's cache is 500 MiB if
//! any scheme has an array part, else absent; and `none`, `bound`, `oracle` and `auto` stand at the top unless
//! `--no-bounds` says otherwise.

use crate::assumed::{Assumed, Hardware};
use crate::error::CliError;
use clap::Args;
use forerun_core::registry::SchemeSpec;
use forerun_core::size::{parse_size, parse_time};
use forerun_core::units::BLOCK_BYTES;
use forerun_core::words::nearest;
use forerun_disk::preset::Preset;
use forerun_machine::likeness::Likeness;
use forerun_machine::recorded;
use forerun_sim::error::RunError;
use forerun_sim::said::Said;
use forerun_sim::spec::{CLUSTER_BLOCKS, RunSpec, SPEC_VERSION};
use forerun_trace::ReadOptions;
use forerun_trace::record::Name;
use std::path::Path;

/// Host cache where a scheme has a host part: 512 MiB (design, "Caches").
const HOST_CACHE_DEFAULT: u64 = 512 << 20;
/// Array cache where a scheme has an array part: 500 MiB, the ASP paper's.
const ARRAY_CACHE_DEFAULT: u64 = 500 << 20;
/// What a comparison adds to the schemes that were asked for, to compare with.
pub(crate) const BASELINES: [&str; 3] = ["none", "bound", "oracle"];
/// And the scheme that needs no choosing: the first line behind them. It works in the caches that the others ask for.
const CHOICE: &str = "auto";

/// A size on the command line. A bare number that holds no block was meant with a unit.
fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|problem| problem.to_string())?;
    if (1..BLOCK_BYTES).contains(&bytes) {
        let bare = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        return Err(format!("{bytes} bytes hold no block of 4 KiB; did you mean {bare}M?"));
    }
    Ok(bytes)
}

/// A device; a name that nothing has is answered with the nearest.
fn device(name: &str) -> Result<Said<Preset>, CliError> {
    Said::read(name).map_err(|problem| {
        let near = if Path::new(name).exists() { None } else { nearest(name, Preset::names()) };
        match near {
            Some(near) => CliError::usage(
                "--device",
                format!("no preset is called {name:?}; did you mean `{near}`?"),
                "`forerun device list` has all",
            ),
            None => problem.into(),
        }
    })
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
    /// Array of member devices: single or single:STRIP, raid0:NxSTRIP, raid1:N, raid5:NxSTRIP, raid6:…, raid10:… [default: of
    /// this machine where --device is, else single]
    #[arg(long, value_name = "ARRAY", help_heading = "Hardware")]
    pub(crate) array: Option<String>,
    /// Member device: a preset of `forerun device list`, or a preset file [default: the nearest to the device that holds this folder]
    #[arg(long, value_name = "PRESET|FILE", help_heading = "Hardware")]
    pub(crate) device: Option<String>,
    /// Cache of the array layer; of several, each has runs of its own [default: 500MiB if a scheme works there, else none]
    #[arg(long, value_name = "SIZE,…", value_parser = size, value_delimiter = ',', help_heading = "Hardware")]
    pub(crate) cache: Vec<u64>,
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
    /// Host's I/O scheduler above each member: none, fcfs, clook, anticipatory [default: the nearest to this machine's, or what a
    /// current Linux puts before such a device]
    #[arg(long, value_name = "NAME", help_heading = "Hardware")]
    pub(crate) scheduler: Option<String>,
    /// Write policy of the array layer: through, or back(dirty=25%,age=30s)
    #[arg(long, value_name = "POLICY", default_value = "back(dirty=25%,age=30s)", help_heading = "Hardware")]
    pub(crate) write: String,
    /// CPU cost preset of the layers
    #[arg(long, value_name = "PRESET", default_value = crate::assumed::CPU, help_heading = "Hardware")]
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

impl SetupArgs {
    /// What stands for the hardware that the line leaves out: what the inputs' recordings say of theirs, else this machine.
    pub(crate) fn assumed(&self, inputs: &[String]) -> Assumed {
        let (device, array, scheduler) = (self.device.clone(), self.array.clone(), self.scheduler.clone());
        let like = if device.is_none() { recorded_on(inputs, self.skip_bad) } else { None };
        Assumed::beside(Hardware { device, array, scheduler }, like)
    }
}

/// Which layers any of the schemes works at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layers {
    host: bool,
    array: bool,
}

/// One spec for each input, cache and scheme, inputs outermost, in the order asked.
pub(crate) fn specs(
    inputs: &[String],
    schemes: &[String],
    setup: &SetupArgs,
    assumed: &Assumed,
    baselines: bool,
) -> Result<Vec<RunSpec>, CliError> {
    let schemes: Vec<Said<SchemeSpec>> = schemes.iter().map(|text| scheme(text)).collect::<Result<_, _>>()?;
    let asked = with_baselines(&schemes, baselines);
    let layers = layers_of(&schemes);
    let common = spec(setup, assumed, layers)?;
    let default = [if layers.array { ARRAY_CACHE_DEFAULT } else { 0 }];
    let caches: &[u64] = if setup.cache.is_empty() { &default } else { &setup.cache };
    let mut specs = Vec::with_capacity(inputs.len() * caches.len() * asked.len());
    for input in inputs {
        for &cache_bytes in caches {
            specs.extend(asked.iter().map(|scheme| RunSpec {
                input: input.clone(),
                scheme: scheme.clone(),
                cache_bytes,
                ..common.clone()
            }));
        }
    }
    Ok(specs)
}

/// Schemes of a comparison that names none, for inputs whose files are known: what a page cache could do. The kernel of this
/// machine stands before them.
const OF_FILES: [&str; 5] = ["linux-6", "linux-6(max=1MiB)", "amp", "zfetch", "regions(linux-6)"];
/// The same for inputs of whole devices, below a page cache: what could stand in front of the device.
const OF_DEVICES: [&str; 4] = ["strip", "asp", "msp", "asp+msp"];

/// A sensible set of schemes where none is named.
pub(crate) fn sensible(inputs: &[String], assumed: &Assumed, skip_bad: bool) -> Vec<String> {
    let set =
        if inputs.iter().all(|input| is_of_files(input, skip_bad)) { &OF_FILES[..] } else { &OF_DEVICES };
    let here = assumed.kernel_scheme().filter(|_| set == OF_FILES);
    // 128 KiB is linux-6 as it stands in the set already.
    let here = here.filter(|scheme| !scheme.starts_with("linux-6(max=128KiB"));
    here.into_iter().chain(set.iter().map(|&name| name.to_owned())).collect()
}

/// Whether an input says which file is read: a workload does, and so do the first records of a trace of files. What cannot be
/// read is told when it is loaded.
fn is_of_files(input: &str, skip_bad: bool) -> bool {
    const LOOKED_AT: u64 = 1_000;
    if !Path::new(input).is_file() {
        return true;
    }
    let options = ReadOptions { limit: Some(LOOKED_AT), skip_bad, ..ReadOptions::default() };
    let Ok(opened) = forerun_trace::open(input, &options) else { return false };
    opened.trace.records.iter().any(|record| record.file != Name::ABSENT)
}

/// The device on which the inputs were recorded, if all say the same.
fn recorded_on(inputs: &[String], skip_bad: bool) -> Option<Likeness> {
    let options = ReadOptions { limit: Some(1), skip_bad, ..ReadOptions::default() };
    let about = |input: &String| {
        // Only our own format says it, and another may be long to read.
        let own = std::fs::File::open(input).is_ok_and(|mut file| {
            let mut head = [0; 4];
            std::io::Read::read_exact(&mut file, &mut head).is_ok() && &head == b"PAR1"
        });
        let opened = own.then(|| forerun_trace::open(input, &options).ok()).flatten()?;
        recorded::likeness(&opened.trace.about)
    };
    let mut all = inputs.iter().map(about);
    let first = all.next()??;
    all.all(|other| other.is_some_and(|other| other == first)).then_some(first)
}

/// The baselines that were not asked for come first; what is asked twice runs once.
fn with_baselines(schemes: &[Said<SchemeSpec>], baselines: bool) -> Vec<Said<SchemeSpec>> {
    let mut all = Vec::new();
    let first = if baselines { &BASELINES[..] } else { &[] };
    let choice = baselines.then_some(&CHOICE);
    for scheme in first.iter().chain(choice).map(|name| Said::of(name)).chain(schemes.iter().cloned()) {
        if !all.contains(&scheme) {
            all.push(scheme);
        }
    }
    all
}

/// What all runs of a command have in common: everything but input and scheme.
fn spec(setup: &SetupArgs, assumed: &Assumed, layers: Layers) -> Result<RunSpec, CliError> {
    let device = device(assumed.device())?;
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
        array: Said::read(assumed.array())?,
        drive_readahead: setup.drive_readahead,
        drive_cache: Said::read(&setup.drive_cache)?,
        drive_write_cache: setup.drive_write_cache,
        scheduler: Said::read(assumed.scheduler(&device))?,
        device,
        cache_bytes: 0,
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

/// What a hand-written spec file leaves out: fixed, so that the file means the same on every machine.
pub(crate) fn default_spec() -> RunSpec {
    RunSpec::default()
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
    let fixed = || schemes.iter().filter(|scheme| scheme.text() != CHOICE);
    let host = fixed().any(|scheme| scheme.has_host());
    let array = fixed().any(|scheme| scheme.has_array());
    // The choice goes where the others go, and has an array's cache where it is alone.
    let alone = !host && !array && schemes.iter().any(|scheme| scheme.text() == CHOICE);
    Layers { host, array: array || alone }
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
        let assumed = setup.assumed(&[]);
        specs(&["forward:size=1MiB".to_owned()], &schemes, &setup, &assumed, baselines)
            .expect("known schemes")
    }

    fn names(specs: &[RunSpec]) -> Vec<&str> {
        specs.iter().map(|spec| spec.scheme.text()).collect()
    }

    #[test]
    fn baselines_come_first_and_nothing_runs_twice() {
        assert_eq!(names(&plan(&["asp", "none", "asp"], true)), ["none", "bound", "oracle", "auto", "asp"]);
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

    #[test]
    fn of_several_caches_each_has_all_the_runs() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            setup: SetupArgs,
        }
        let setup = <Line as clap::Parser>::parse_from(["forerun", "--cache", "16MiB,64MiB"]).setup;
        let assumed = setup.assumed(&[]);
        let inputs = ["forward:size=1MiB".to_owned()];
        let all = specs(&inputs, &["asp".to_owned()], &setup, &assumed, true).expect("known schemes");
        let caches: Vec<u64> = all.iter().map(|spec| spec.cache_bytes >> 20).collect();
        assert_eq!(caches, [16, 16, 16, 16, 16, 64, 64, 64, 64, 64]);
    }

    #[test]
    fn without_a_scheme_a_workload_gets_those_of_a_page_cache_and_every_one_can_be_run() {
        let assumed = Assumed::like(Likeness::unknown());
        let files = sensible(&["forward:size=1MiB".to_owned()], &assumed, false);
        assert_eq!(files, OF_FILES);
        for name in files.iter().map(String::as_str).chain(OF_DEVICES) {
            assert!(scheme(name).is_ok(), "{name}");
        }
    }
}
