//! On what a trace is simulated: the device of this machine that it was read from, or one that was said, and what reads ahead above it.

use super::measure;
use crate::advice::zfs;
use crate::error::CliError;
use forerun_core::words::nearest;
use forerun_disk::preset::{Preset, PresetError};
use forerun_machine::likeness::{self, Likeness};
use forerun_machine::mounts::Mount;
use forerun_machine::{Machine, Root, pools, recorded};
use forerun_sim::said::Said;
use forerun_study::assumed;
use forerun_trace::record::{Name, Trace};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What is assumed above a device that was said.
const USUAL: &str = ", with the kernel's default read-ahead";

/// A device of this machine.
pub(super) struct Here {
    pub(super) likeness: Likeness,
    /// The preset that stands for it.
    pub(super) preset: Said<Preset>,
    /// What a udev rule for it matches.
    pub(super) rule: Option<String>,
    /// Whether it could be unmounted and served.
    pub(super) can_serve: bool,
    /// Whether the trace's own device is this one, and what stands for it was not said of another.
    of_trace: bool,
    /// Whether the trace names a device, and does not say that it was recorded here.
    pub(super) foreign: bool,
    /// Whether it is one of this machine, and not what was said in its place.
    pub(super) is_here: bool,
    /// How ZFS reads ahead above it.
    pub(super) zfs: Option<zfs::Prefetcher>,
}

impl Here {
    fn like(likeness: Likeness) -> Self {
        let preset = Said::of(likeness.device);
        Self {
            preset,
            likeness,
            rule: None,
            can_serve: true,
            of_trace: false,
            foreign: false,
            is_here: true,
            zfs: None,
        }
    }

    /// Below ZFS, whose parameters no recording says: what it took is not held against it. Of a device that was said they are the usual ones.
    pub(super) fn below_zfs(self, root: &Root) -> Self {
        let zfs = if self.is_here { zfs::Prefetcher::here(root) } else { zfs::Prefetcher::usual() };
        let why = format!("{}, below {}", self.likeness.why.trim_end_matches(USUAL), zfs.assumed());
        let likeness = Likeness { why, ..self.likeness };
        Self { likeness, of_trace: false, zfs: Some(zfs), ..self }
    }

    /// Whether the trace was recorded on this device with the window that it has now.
    pub(super) fn recorded(&self, trace: &Trace) -> bool {
        let window = trace.about.get("read_ahead_kib").and_then(|text| text.parse().ok());
        self.of_trace && window.is_some() && window == self.likeness.read_ahead_kib
    }

    /// The preset that was said in place of what was assumed. Where it was measured on this very device, the device's own
    /// settings stand; else those that a kernel begins with.
    pub(super) fn on(self, preset: Said<Preset>, machine: Option<&Machine>) -> Self {
        let measured = measure::measured_at(&preset).and_then(|place| measure::number(Path::new(place)));
        let own = measured.zip(machine).is_some_and(|(number, machine)| {
            machine.device_of_number(&number).is_some_and(|device| device.name == self.likeness.name)
        });
        if own {
            let why = "as measured, with the settings that it has here".into();
            return Self { likeness: Likeness { guessed: false, why, ..self.likeness }, preset, ..self };
        }
        let scheduler = if preset.is_mechanical() { "clook" } else { "none" };
        let why = format!("as said{USUAL}");
        let likeness =
            Likeness { scheduler, read_ahead_kib: Some(128), guessed: false, why, ..Likeness::unknown() };
        Self { preset, is_here: false, foreign: self.foreign, ..Self::like(likeness) }
    }
}

/// A preset by its name, or the file of one.
pub(super) fn named(said: &str) -> Result<Said<Preset>, CliError> {
    match Preset::load(said) {
        Ok(preset) => Ok(Said::named(said, preset)),
        Err(PresetError::Unknown { source, .. }) => {
            let near = nearest(said, Preset::names())
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let what = format!("no preset is called {said:?}, and as a file: {source}{near}");
            Err(CliError::usage(
                "--device",
                what,
                "`forerun device list` has all, `forerun device measure` makes one",
            ))
        }
        Err(problem) => Err(CliError::usage("--device", problem, "")),
    }
}

/// The device from which most is read, if this machine has it and the trace is of this machine, else one of the pool, or that of
/// the current folder. A name alone says little: every machine has its `loop0`.
pub(super) fn device_of(
    trace: &Trace,
    machine: Option<&Machine>,
    mount: Option<&Mount>,
    of_here: bool,
) -> Here {
    let unknown = || Here::like(Likeness::unknown());
    let Some(machine) = machine else { return unknown() };
    let mut bytes: BTreeMap<Name, u64> = BTreeMap::new();
    for record in &trace.records {
        *bytes.entry(record.device).or_default() += record.bytes;
    }
    let most = bytes.into_iter().max_by_key(|&(_, bytes)| bytes);
    let most = most.map(|(device, _)| trace.names[device.0 as usize].as_str());
    let of_here = of_here || recorded::is_of(&trace.about, &Root::host(), machine);
    let foreign = !of_here && most.is_some_and(|name| !name.is_empty());
    let named = most.filter(|_| of_here).and_then(|name| machine.device(name.trim_start_matches("/dev/")));
    // Another disk may have the name by now.
    let said = |key: &str| trace.about.get(key);
    let named = named.filter(|device| {
        said("device") != Some(&device.name)
            || said("device_bytes").is_none_or(|bytes| *bytes == device.bytes.to_string())
    });
    let folder = std::fs::metadata(".").ok().map(|folder| assumed::number(folder.dev()));
    let pool = mount.and_then(pools::pool).map(|pool| pools::members(&Root::host(), machine, pool));
    let member = pool.and_then(|members| members.first().copied());
    let device = named.or(member).or_else(|| likeness::device_of_folder(machine, folder.as_deref()));
    device.map_or_else(unknown, |device| Here {
        rule: Some(device.udev_match()),
        can_serve: !device.swap && !device.mounts.iter().any(|place| place == "/"),
        of_trace: named.is_some(),
        foreign,
        ..Here::like(Likeness::of(machine, device))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_disk::preset::PresetSpec;

    fn measured(place: &str) -> Said<Preset> {
        let mut preset = Preset::load("gp3").expect("shipped");
        if let PresetSpec::Cloud { about, sources, .. } = &mut preset.spec {
            *about = format!("{place}, measured: a volume");
            *sources = vec!["forerun device measure, 30 s of reads".into()];
        }
        Said::named("mine.toml", preset)
    }

    #[test]
    fn what_was_measured_here_keeps_the_settings_that_the_device_has_here() {
        let Ok(machine) = Machine::read(&Root::host()) else { return };
        let Some(device) = machine.devices.iter().find(|device| device.read_ahead_kib.is_some()) else {
            return;
        };
        let here = || Here { rule: Some("x".into()), ..Here::like(Likeness::of(&machine, device)) };
        let own = here().on(measured(&format!("/dev/{}", device.name)), Some(&machine));
        if !Path::new("/dev").join(&device.name).exists() {
            return; // A container without its device nodes.
        }
        assert_eq!((own.likeness.read_ahead_kib, own.rule.is_some()), (device.read_ahead_kib, true));
        assert_eq!((own.likeness.guessed, own.preset.text()), (false, "mine.toml"));
        let other = here().on(measured("/dev/of-another-machine"), Some(&machine));
        assert_eq!((other.likeness.read_ahead_kib, other.rule), (Some(128), None));
    }

    #[test]
    fn a_device_in_a_trace_of_another_machine_is_none_of_this_one() {
        let root = Root::host();
        let Ok(machine) = Machine::read(&root) else { return };
        let Some(device) = machine.devices.first() else { return };
        let record = forerun_trace::record::Record {
            device: Name(1),
            bytes: 4_096,
            ..forerun_trace::record::Record::BLANK
        };
        let names = vec![String::new(), device.name.clone()];
        let about = recorded::about(&root, &machine, Some(device));
        let elsewhere = |key: &str| {
            let mut about = about.clone();
            about.insert(key.into(), "0123456789abcdef".into());
            about
        };
        let mut unnamed = about.clone();
        unnamed.remove("machine");
        let tried = [
            (about.clone(), false, true),
            (unnamed, false, true),
            (BTreeMap::new(), false, false),
            (BTreeMap::new(), true, true),
            (elsewhere("machine"), false, false),
        ];
        for (about, own, here) in tried {
            let trace = Trace { names: names.clone(), records: vec![record], about, ..Trace::default() };
            let found = device_of(&trace, Some(&machine), None, own);
            assert_eq!((found.of_trace, found.foreign), (here, !here), "{:?}", trace.about);
        }
        let gone =
            Trace { names, records: vec![record], about: elsewhere("device_bytes"), ..Trace::default() };
        assert!(!device_of(&gone, Some(&machine), None, false).of_trace);
    }

    #[test]
    fn below_zfs_a_device_that_was_said_has_its_defaults_and_no_window_of_the_kernel() {
        let said = Here::like(Likeness::unknown()).on(named("gp3").expect("shipped"), None);
        let said = said.below_zfs(&Root::host());
        assert_eq!(said.zfs, Some(zfs::Prefetcher::usual()));
        let why = &said.likeness.why;
        assert!(why.starts_with("as said, below the defaults of OpenZFS (zfetch_max_streams 8"), "{why}");
        let folder = tempfile::tempdir().expect("a folder");
        let parameters = folder.path().join("sys/module/zfs/parameters");
        std::fs::create_dir_all(&parameters).expect("made");
        std::fs::write(parameters.join("zfetch_max_streams"), "16\n").expect("written");
        let here = Here::like(Likeness::unknown()).below_zfs(&Root::at(folder.path()));
        assert!(here.zfs.is_some_and(|zfs| zfs.is_loaded() && zfs.scheme().contains("max_streams=16")));
    }
}
