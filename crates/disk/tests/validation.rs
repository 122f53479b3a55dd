//! The drives that were measured, against their imported parameters. Runs where the shared folder is.

use std::path::PathBuf;

use forerun_disk::disksim;
use forerun_disk::preset::{BuildOptions, Preset, PresetSpec};
use forerun_disk::validate;

/// Folder of the measured drives, if it is on this machine.
fn shared_disk() -> Option<PathBuf> {
    let root = std::env::var_os("FORERUN_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    Some(root.join("disk")).filter(|path| path.is_dir())
}

const MEASURED: &[(&str, &str, &str)] = &[
    ("cheetah-9lp", "cheetah9LP.parv", "cheetah9LP.trace.gz"),
    ("atlas-10k", "atlas10k.parv", "atlas10k.trace.gz"),
    ("hp-c2247a", "hp_c2247a.parv", "hp_c2247a.trace.gz"),
];

#[test]
fn the_three_measured_drives_are_met_within_three_percent_in_the_mean_and_five_in_the_demerit() {
    let Some(folder) = shared_disk() else {
        return;
    };
    for (name, _, trace) in MEASURED {
        let path = folder.join(trace);
        let requests = validate::load(&path).expect("reads");
        let preset = Preset::load(name).expect("shipped");
        let mut device = preset.build(&BuildOptions::default()).expect("builds");
        let result = validate::replay(&mut *device, &requests, trace).expect("fits");
        assert!(result.mean_error.abs() <= 0.03, "{name}: mean {:.4}", result.mean_error);
        assert!(result.demerit_share <= 0.05, "{name}: demerit {:.4}", result.demerit_share);
    }
}

#[test]
fn the_shipped_presets_are_what_the_importer_makes() {
    let Some(folder) = shared_disk() else {
        return;
    };
    let more = [("cheetah-15k5", "Seagate-Cheetah15k5.parv", "")];
    for (name, file, _) in MEASURED.iter().chain(&more) {
        let imported = disksim::import(&folder.join(file)).expect("imports");
        let PresetSpec::Mechanical { drive: imported, .. } = imported.spec else {
            panic!("{name} is a mechanical drive");
        };
        let PresetSpec::Mechanical { drive: shipped, .. } = Preset::load(name).expect("shipped").spec else {
            panic!("{name} is a mechanical drive");
        };
        assert!(imported == shipped, "{name} differs from its import");
    }
}

#[test]
fn the_imported_drives_offer_the_sectors_that_their_files_state() {
    for (name, stated) in
        [("cheetah-9lp", 17_783_240), ("atlas-10k", 17_938_986), ("cheetah-15k5", 286_749_487)]
    {
        let device = Preset::load(name).expect("shipped").build(&BuildOptions::default()).expect("builds");
        assert_eq!(device.sectors(), stated, "{name}");
    }
}

#[test]
fn a_missing_or_broken_parameter_file_is_an_error_that_names_it() {
    let folder = std::env::temp_dir().join(format!("forerun-disk-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder");
    let path = folder.join("broken.parv");
    std::fs::write(&path, "disksim_disk D {\n  Model = source nowhere.model\n}\n").expect("writes");
    let error = disksim::import(&path).expect_err("no model").to_string();
    assert!(error.contains("nowhere.model"), "{error}");
    std::fs::write(&path, "disksim_bus B {\n}\n").expect("writes");
    let error = disksim::import(&path).expect_err("no disk").to_string();
    assert!(error.contains("broken.parv") && error.contains("disksim_disk"), "{error}");
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// A model whose zones have few spares and no slips: its own are of whole zones, more than a cylinder or a track has room for.
fn few_spares(model: &str) -> String {
    let (mut text, mut in_slips) = (String::new(), false);
    for line in model.lines() {
        if let Some((before, _)) = line.split_once("Number of spares =") {
            text += &format!("{before}Number of spares = 4,\n");
        } else if let Some((before, rest)) = line.split_once("slips = [") {
            text += &format!("{before}slips = [],\n");
            in_slips = !rest.contains(']');
        } else if in_slips {
            in_slips = !line.contains(']');
        } else {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[test]
fn drives_of_every_sparing_scheme_and_of_links_that_are_never_left_are_imported() {
    let Some(folder) = shared_disk() else {
        return;
    };
    let copy = std::env::temp_dir().join(format!("forerun-sparing-{}", std::process::id()));
    std::fs::create_dir_all(&copy).expect("a folder");
    for name in ["cheetah9LP.parv", "cheetah9LP.diskspecs", "cheetah9LP.model", "cheetah9LP.seek"] {
        std::fs::copy(folder.join(name), copy.join(name)).expect("a file");
    }
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a file");
    let specs = read("cheetah9LP.diskspecs").replace("Never disconnect = 0", "Never disconnect = 1");
    std::fs::write(copy.join("cheetah9LP.diskspecs"), specs).expect("a file");
    for scheme in [0, 1, 2, 3, 7, 8, 9, 10] {
        let model = few_spares(&read("cheetah9LP.model"))
            .replace("Sparing scheme used = 9", &format!("Sparing scheme used = {scheme}"));
        std::fs::write(copy.join("cheetah9LP.model"), model).expect("a file");
        let spec = disksim::import(&copy.join("cheetah9LP.parv"))
            .unwrap_or_else(|problem| panic!("scheme {scheme}: {problem}"))
            .spec;
        let PresetSpec::Mechanical { drive, .. } = &spec else { panic!("a drive") };
        assert_eq!(drive.overheads.first_reselect_us, 0.0);
        let preset = Preset { name: "spared".into(), spec };
        let text = preset.to_toml().expect("a preset file");
        assert_eq!(Preset::parse("spared", &text).expect("its own text").spec, preset.spec);
        let drive = preset
            .build(&BuildOptions::default())
            .unwrap_or_else(|problem| panic!("scheme {scheme}: {problem}"));
        assert!(drive.sectors() > 0, "scheme {scheme}");
    }
    std::fs::remove_dir_all(&copy).expect("our own folder");
}
