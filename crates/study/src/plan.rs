//! From options to run specs: every default of a comparison is filled in here, before anything runs.
//!
//! What the hardware is where the line does not say stands in `assumed`.
//!
//! The contracts of the design are kept in this one place: all runs of a comparison have the same two caches;
//! the host's page cache is 512 MiB if any scheme has a host part, else absent; the array's cache is 500 MiB if
//! any scheme has an array part, else absent; and `none`, `bound`, `oracle` and `auto` stand at the top unless
//! `--no-bounds` says otherwise.

use crate::assumed::Assumed;
use crate::error::StudyError;
use crate::options::SetupArgs;
use crate::traces;
use forerun_core::registry::{Layer, SchemeSpec};
use forerun_core::words::nearest;
use forerun_disk::preset::Preset;
use forerun_sim::error::RunError;
use forerun_sim::input::is_table;
use forerun_sim::own::Own;
use forerun_sim::said::Said;
use forerun_sim::spec::{RunSpec, SPEC_VERSION};
use forerun_trace::ReadOptions;
use forerun_trace::record::Name;
use std::collections::BTreeSet;
use std::path::Path;

/// Host cache where a scheme has a host part: 512 MiB (design, "Caches").
const HOST_CACHE_DEFAULT: u64 = 512 << 20;
/// Array cache where a scheme has an array part: 500 MiB, the ASP paper's.
const ARRAY_CACHE_DEFAULT: u64 = 500 << 20;
/// What a comparison adds to the schemes that were asked for, to compare with.
pub const BASELINES: [&str; 3] = ["none", "bound", "oracle"];
/// And the scheme that needs no choosing: the first line behind them. It works in the caches that the others ask for.
const CHOICE: &str = "auto";
/// What a host of its own is called, which is no row of the registry.
const WATCH: &str = "watch";

/// A device; a name that nothing has is answered with the nearest.
fn device(name: &str) -> Result<Said<Preset>, StudyError> {
    Said::read(name).map_err(|problem| {
        let near = if Path::new(name).exists() { None } else { nearest(name, Preset::names()) };
        match near {
            Some(near) => StudyError::usage(
                "--device",
                format!("no preset is called {name:?}; did you mean `{near}`?"),
                "`forerun device list` has all",
            ),
            None => problem.into(),
        }
    })
}

/// Which layers any of the schemes works at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layers {
    host: bool,
    array: bool,
}

/// One spec for each input, cache and scheme, inputs outermost, in the order asked.
pub fn specs(
    inputs: &[String],
    schemes: &[String],
    setup: &SetupArgs,
    assumed: &Assumed,
    baselines: bool,
    own: &[Own],
) -> Result<Vec<RunSpec>, StudyError> {
    let scheme = |text: &String| match own.iter().find(|own| own.name == *text) {
        Some(own) => Ok(own.scheme()),
        None => scheme(text),
    };
    // Only what is named says which layers there are.
    let in_layer = |layer| own.iter().any(|own| own.layer == layer && schemes.contains(&own.name));
    let (host, array) = (in_layer(Layer::Host), in_layer(Layer::Array));
    let schemes: Vec<Said<SchemeSpec>> = schemes.iter().map(scheme).collect::<Result<_, _>>()?;
    let asked = with_baselines(&schemes, baselines);
    let mut layers = layers_of(&schemes);
    layers.host |= host;
    layers.array |= array;
    let common = spec(setup, assumed, layers)?;
    let default = [if layers.array { ARRAY_CACHE_DEFAULT } else { 0 }];
    let mut caches = if setup.cache.is_empty() { default.to_vec() } else { setup.cache.clone() };
    let mut seen = BTreeSet::new();
    caches.retain(|&cache| seen.insert(cache));
    let mut specs = Vec::with_capacity(inputs.len() * caches.len() * asked.len());
    for input in inputs {
        for &cache_bytes in &caches {
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
pub fn sensible(inputs: &[String], assumed: &Assumed, skip_bad: bool) -> Vec<String> {
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
    if !Path::new(input).is_file() || is_table(input) {
        return true;
    }
    let options = ReadOptions { limit: Some(LOOKED_AT), skip_bad, ..ReadOptions::default() };
    let Ok(opened) = forerun_trace::open(input, &options) else { return false };
    opened.trace.records.iter().any(|record| record.file != Name::ABSENT)
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
fn spec(setup: &SetupArgs, assumed: &Assumed, layers: Layers) -> Result<RunSpec, StudyError> {
    let device = device(assumed.device())?;
    if let Some(why) = traces::map_names_nothing(&setup.map) {
        return Err(StudyError::usage("--map", why, "write concat, one-array-each or only:DEVICE"));
    }
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
        advise: Said::of(""),
    })
}

/// What a hand-written spec file leaves out: fixed, so that the file means the same on every machine.
pub fn default_spec() -> RunSpec {
    RunSpec::default()
}

/// A scheme on the command line.
fn scheme(text: &str) -> Result<Said<SchemeSpec>, StudyError> {
    if text.trim() == WATCH {
        let remedy = "`forerun compare --scheme watch` plays it in virtual time";
        return Err(StudyError::usage("--scheme", "watch is the daemon and no scheme by itself", remedy));
    }
    Said::read(text).map_err(|problem| {
        let RunError::Spec { why, .. } = problem else { return problem.into() };
        StudyError::usage("--scheme", why, "`forerun schemes` lists all")
    })
}

/// Which layers the parts of the schemes work at.
fn layers_of(schemes: &[Said<SchemeSpec>]) -> Layers {
    let fixed = || schemes.iter().filter(|scheme| scheme.text() != CHOICE);
    let host = fixed().any(|scheme| scheme.has_host());
    let array = fixed().any(|scheme| scheme.has_array());
    // The choice goes where the others go, and has an array's cache where it is alone; so has foresight, which without one has nothing to do.
    let alone = !host && !array && schemes.iter().any(|scheme| [CHOICE, "oracle"].contains(&scheme.text()));
    Layers { host, array: array || alone }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(schemes: &[&str], baselines: bool) -> Vec<RunSpec> {
        plan_with(schemes, baselines, &[])
    }

    fn plan_with(schemes: &[&str], baselines: bool, own: &[Own]) -> Vec<RunSpec> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            setup: SetupArgs,
        }
        let setup = <Line as clap::Parser>::parse_from(["forerun"]).setup;
        let schemes: Vec<String> = schemes.iter().map(|&name| name.to_owned()).collect();
        let assumed = setup.assumed(&[]);
        specs(&["forward:size=1MiB".to_owned()], &schemes, &setup, &assumed, baselines, own)
            .expect("known schemes")
    }

    fn names(specs: &[RunSpec]) -> Vec<&str> {
        specs.iter().map(|spec| spec.scheme.text()).collect()
    }

    #[test]
    fn the_daemon_is_no_scheme_and_its_name_says_where_it_is_played() {
        let told = scheme("watch").expect_err("no scheme").to_string();
        assert!(told.contains("forerun compare --scheme watch"), "{told}");
        assert!(scheme("asp").is_ok());
    }

    #[test]
    fn baselines_come_first_and_nothing_runs_twice() {
        assert_eq!(names(&plan(&["asp", "none", "asp"], true)), ["none", "bound", "oracle", "auto", "asp"]);
        assert_eq!(names(&plan(&["asp", "none"], false)), ["asp", "none"]);
    }

    #[test]
    fn a_policy_of_the_callers_has_its_layer_only_where_it_is_named() {
        let make = || -> forerun_sim::own::Make { std::sync::Arc::new(|_| unreachable!("nothing is run")) };
        let own = [Own { name: "mine".into(), layer: Layer::Host, make: make(), in_flight: None }];
        let host = |schemes: &[&str]| plan_with(schemes, false, &own)[0].host_cache_bytes;
        assert_eq!(host(&["asp"]), 0);
        assert!(host(&["asp", "mine"]) > 0);
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
    fn of_several_caches_each_has_all_the_runs_and_one_that_is_said_twice_has_them_once() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            setup: SetupArgs,
        }
        let setup = <Line as clap::Parser>::parse_from(["forerun", "--cache", "16MiB,64MiB,16384KiB"]).setup;
        let assumed = setup.assumed(&[]);
        let inputs = ["forward:size=1MiB".to_owned()];
        let all = specs(&inputs, &["asp".to_owned()], &setup, &assumed, true, &[]).expect("known schemes");
        let caches: Vec<u64> = all.iter().map(|spec| spec.cache_bytes >> 20).collect();
        assert_eq!(caches, [16, 16, 16, 16, 16, 64, 64, 64, 64, 64]);
    }

    #[test]
    fn without_a_scheme_a_workload_gets_those_of_a_page_cache_and_every_one_can_be_run() {
        let assumed = Assumed::like(forerun_machine::likeness::Likeness::unknown());
        let files = sensible(&["forward:size=1MiB".to_owned()], &assumed, false);
        assert_eq!(files, OF_FILES);
        for name in files.iter().map(String::as_str).chain(OF_DEVICES) {
            assert!(scheme(name).is_ok(), "{name}");
        }
    }
}
