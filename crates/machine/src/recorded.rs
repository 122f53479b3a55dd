//! What a recording says of the machine it was made on, as keys and values, and what a reader makes of them elsewhere.
//!
//! A trace of a disk says little on another machine unless it says what the disk was. So a recording carries its device, queue,
//! scheduler, read-ahead, memory, kernel and file system, and the model that the device was taken for there (`like.…`), which a
//! comparison takes where its command line leaves the hardware out.

use crate::device::BlockDevice;
use crate::likeness::Likeness;
use crate::machine::Machine;
use crate::mounts;
use crate::root::Root;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// Presets that a device may have been likened to.
const DEVICES: [&str; 6] = ["nvme-pcie4", "gp3", "azure-p30", "gce-hyperdisk", "hdd-20tb", "sata-qlc"];
/// Schedulers of the simulator that a kernel's may have been likened to.
const SCHEDULERS: [&str; 3] = ["none", "clook", "anticipatory"];

/// Under which key the file system stands.
pub const FILE_SYSTEM: &str = "file_system";

/// What is known of the machine, and of the device that was recorded.
#[must_use]
pub fn about(root: &Root, machine: &Machine, device: Option<&BlockDevice>) -> BTreeMap<String, String> {
    let mut about = BTreeMap::new();
    let mut say = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            about.insert(key.to_owned(), value);
        }
    };
    say("machine", identity(root));
    say("kernel", Some(machine.system.kernel.clone()));
    say("memory_bytes", Some(machine.system.memory_bytes.to_string()));
    let Some(device) = device else { return about };
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    say("device", Some(device.name.clone()));
    say("device_model", device.model.clone());
    say("device_bytes", Some(device.bytes.to_string()));
    say("rotational", Some(u8::from(device.rotational).to_string()));
    say("scheduler", device.scheduler.clone());
    say("nr_requests", number(device.nr_requests));
    say("read_ahead_kib", number(device.read_ahead_kib));
    say("max_sectors_kib", number(device.max_sectors_kib));
    let place = device.mounts.first();
    let mount = mounts::read(root).into_iter().find(|mount| Some(&mount.place) == place);
    say(FILE_SYSTEM, mount.map(|mount| mount.kind));
    let like = Likeness::of(machine, device);
    say("like.device", Some(like.device.to_owned()));
    say("like.array", Some(like.array));
    say("like.scheduler", Some(like.scheduler.to_owned()));
    about
}

/// What this machine is called in its recordings: a hash, since its number (`/etc/machine-id`) is nobody else's business.
fn identity(root: &Root) -> Option<String> {
    let id = root.text("etc/machine-id").filter(|id| !id.is_empty())?;
    let hash = Sha256::digest(format!("forerun recording {id}"));
    Some(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a recording says that it was made on this machine. One without its name (older ones, and machines without a number) does by
/// memory and device.
#[must_use]
pub fn is_of(about: &BTreeMap<String, String>, root: &Root, machine: &Machine) -> bool {
    let told = |key: &str| about.get(key).map(String::as_str);
    if let Some(name) = told("machine") {
        return identity(root).as_deref() == Some(name);
    }
    let Some(device) = told("device").and_then(|name| machine.device(name)) else { return false };
    let model = device.model.as_deref().filter(|model| !model.is_empty());
    told("memory_bytes") == Some(&machine.system.memory_bytes.to_string())
        && told("device_bytes") == Some(&device.bytes.to_string())
        && told("device_model") == model
}

/// The file system from which most was read of files, by their paths and bytes; none where no path is one of this machine.
#[must_use]
pub fn file_system<'a>(root: &Root, files: impl Iterator<Item = (&'a Path, u64)>) -> Option<String> {
    let mounts = mounts::read(root);
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, read) in files {
        if let Some(mount) = mounts::holding(&mounts, path) {
            *bytes.entry(&mount.kind).or_default() += read;
        }
    }
    bytes.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(kind, _)| kind.to_owned())
}

/// The model of the recorded device; none where the recording does not say it, or says one that is not known here.
#[must_use]
pub fn likeness(about: &BTreeMap<String, String>) -> Option<Likeness> {
    let told = |key: &str| about.get(key).map(String::as_str);
    let known = |key: &str, of: &[&'static str]| of.iter().copied().find(|name| Some(*name) == told(key));
    let name = told("device").unwrap_or("its device").to_owned();
    let model = told("device_model").map_or_else(String::new, |model| format!(", {model}"));
    Some(Likeness {
        device: known("like.device", &DEVICES)?,
        array: told("like.array").unwrap_or("single").to_owned(),
        scheduler: known("like.scheduler", &SCHEDULERS).unwrap_or("none"),
        read_ahead_kib: told("read_ahead_kib").and_then(|text| text.parse().ok()),
        max_sectors_kib: told("max_sectors_kib").and_then(|text| text.parse().ok()),
        guessed: false,
        why: format!("the trace was recorded on {name}{model}, taken for it there"),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_of_files_is_that_of_most_bytes_wherever_the_program_stood() {
        let folder = tempfile::tempdir().expect("a folder");
        let mounts = "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 27 0:40 / /tank rw - zfs tank rw\n";
        std::fs::create_dir_all(folder.path().join("proc/self")).expect("made");
        std::fs::write(folder.path().join("proc/self/mountinfo"), mounts).expect("written");
        let root = Root::at(folder.path());
        let kind = |files: &[(&str, u64)]| {
            file_system(&root, files.iter().map(|&(path, bytes)| (Path::new(path), bytes)))
        };
        assert_eq!(kind(&[("/tank/a", 10), ("/etc/b", 15), ("/tank/c", 6)]).as_deref(), Some("zfs"));
        assert_eq!(kind(&[("/tank/a", 10), ("/etc/b", 15)]).as_deref(), Some("ext4"));
        assert_eq!(kind(&[("inode:7", 10)]), None);
    }

    #[test]
    fn what_a_recording_says_is_what_a_reader_takes() {
        let pairs = [
            ("device", "sdb"),
            ("device_model", "ACME"),
            ("like.device", "hdd-20tb"),
            ("like.array", "raid5:5x64KiB"),
            ("like.scheduler", "clook"),
            ("read_ahead_kib", "8192"),
        ];
        let mut about: BTreeMap<String, String> =
            pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let like = likeness(&about).expect("it says it");
        assert_eq!(
            (like.device, like.array.as_str(), like.scheduler),
            ("hdd-20tb", "raid5:5x64KiB", "clook")
        );
        assert_eq!(like.read_ahead_kib, Some(8192));
        assert!(like.why.contains("sdb, ACME"), "{}", like.why);
        about.insert("like.device".into(), "from-the-future".into());
        assert_eq!(likeness(&about), None);
    }
}
