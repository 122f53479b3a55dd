//! What a recording of a server says of what stands behind it: the machine, each export as it is served, and each member.
//!
//! A comparison takes the recorded device where its command line names none, so the first member's model is said as `trace record`
//! says it, with the geometry that was served. What is emulated, far away or an object is no device of this machine, and
//! nothing is said for it but its address.

use forerun_machine::device::BlockDevice;
use forerun_machine::mounts::Mount;
use forerun_machine::{Machine, Root, likeness, mounts, recorded};
use forerun_serve::options::{ExportOptions, MemberSpec, Options, What};
use forerun_study::assumed;
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// What is known before anybody is served.
pub(super) fn about(options: &Options) -> BTreeMap<String, String> {
    let machine = Machine::read(&Root::host()).ok();
    let first = options.exports.first().and_then(|export| members(export).first());
    let first = machine.as_ref().and_then(|machine| device(machine, first?));
    let mut about =
        machine.as_ref().map_or_else(BTreeMap::new, |machine| recorded::about(&Root::host(), machine, first));
    if about.contains_key("like.array")
        && let Some(array) = options.exports.first().and_then(served_array)
    {
        about.insert("like.array".into(), array);
    }
    for (number, export) in options.exports.iter().enumerate() {
        let key = |what: &str| format!("export.{number}.{what}");
        let mut say = |what: &str, value: String| {
            if !value.is_empty() {
                about.insert(key(what), value);
            }
        };
        say("name", export.name.clone());
        say("scheme", export.scheme.clone());
        say("cache_bytes", export.cache_bytes.to_string());
        say("array", served_array(export).unwrap_or_default());
        for (nth, member) in members(export).iter().enumerate() {
            let emulate =
                member.emulate.as_ref().map_or_else(String::new, |preset| format!("emulate({preset}):"));
            say(&format!("member.{nth}"), format!("{emulate}{}", forerun_serve::shown(&member.path)));
            let behind = machine.as_ref().and_then(|machine| device(machine, member));
            say(
                &format!("member.{nth}.device"),
                behind.map_or_else(String::new, |device| device.name.clone()),
            );
        }
    }
    about
}

const fn members(export: &ExportOptions) -> &[MemberSpec] {
    export.what.members()
}

/// The geometry as it was said; none where the kernel is asked for it, whose words stand in the machine's already.
fn served_array(export: &ExportOptions) -> Option<String> {
    match &export.what {
        What::Over { array, .. } => array.clone(),
        What::Stripe { strip_bytes, members } => {
            Some(format!("raid0:{}x{}KiB", members.len(), strip_bytes >> 10))
        }
        What::Array { members } => {
            let paths: Vec<_> = members.iter().map(|member| member.path.clone()).collect();
            forerun_serve::array::status(&paths).ok()?.array
        }
    }
}

/// The device of this machine that a member is, or on which its bytes lie.
fn device<'a>(machine: &'a Machine, member: &MemberSpec) -> Option<&'a BlockDevice> {
    if member.emulate.is_some() { None } else { device_of(machine, &member.path) }
}

/// The same of a path.
pub(super) fn device_of<'a>(machine: &'a Machine, path: &Path) -> Option<&'a BlockDevice> {
    let found = std::fs::metadata(path).ok()?;
    if found.file_type().is_block_device() {
        return machine.device_of_number(&assumed::number(found.rdev()));
    }
    let by_number = machine.device_of_number(&assumed::number(found.dev()));
    by_number.or_else(|| device_below(machine, &mount_of(path)?))
}

/// Of a file system that has a number of its own: it is of many devices, over another one, of another machine or of none.
fn device_below<'a>(machine: &'a Machine, mount: &Mount) -> Option<&'a BlockDevice> {
    match mount.kind.as_str() {
        "overlay" => likeness::device_of_folder(machine, None),
        _ => machine.device_of_mount(&mount.place),
    }
}

/// Where the file system is mounted that holds a path.
pub(super) fn mount_of(path: &Path) -> Option<Mount> {
    let whole = std::fs::canonicalize(path).ok()?;
    mounts::holding(&mounts::read(&Root::host()), &whole).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_export_and_member_is_said_and_what_is_emulated_is_no_device_of_this_machine() {
        let mut options = Options::over("/", "/nowhere.sock");
        let emulated = MemberSpec { path: "/".into(), emulate: Some("gp3".into()) };
        let what = What::Stripe { strip_bytes: 128 << 10, members: vec![emulated.clone(), emulated] };
        options.exports.push(ExportOptions { what, ..ExportOptions::over("second", "/") });
        let about = about(&options);
        assert_eq!(about["export.0.member.0"], "/");
        assert_eq!((&*about["export.1.name"], &*about["export.1.array"]), ("second", "raid0:2x128KiB"));
        assert_eq!(about["export.1.member.1"], "emulate(gp3):/");
        assert!(!about.contains_key("export.1.member.1.device"));
        let known = Machine::read(&Root::host()).is_ok();
        assert_eq!(about.contains_key("kernel"), known);
    }
    #[test]
    fn a_file_in_memory_or_of_another_machine_lies_on_no_device_of_this_one() {
        let Ok(machine) = Machine::read(&Root::host()) else { return };
        let mount = |kind: &str, source: &str| Mount {
            number: "0:99".into(),
            place: "/nowhere".into(),
            kind: kind.into(),
            source: source.into(),
            options: Vec::new(),
            read_ahead_kib: None,
        };
        for other in [mount("tmpfs", "tmpfs"), mount("nfs4", "server:/export")] {
            assert_eq!(device_below(&machine, &other), None, "{}", other.kind);
        }
        let below = device_below(&machine, &mount("overlay", "overlay"));
        assert_eq!(
            below,
            likeness::device_of_folder(&machine, None),
            "a container's lie on the machine's own"
        );
    }
}
