//! Which model of a device is nearest to one of this machine, in the words of the simulator's presets and options.
//!
//! A likeness is an assumption and says so: the kernel tells that an NVMe drive is one, not how fast it is, and of a virtual
//! disk it tells nothing of what stands behind it. There the clouds' own names help, and else the time that its reads have
//! taken since the machine started.

use crate::device::{BlockDevice, Kind, Md};
use crate::machine::Machine;
use serde::Serialize;

/// Below this mean a virtual disk is no volume behind a network, us.
const LOCAL_US: u64 = 400;
/// Above this mean it stands on platters, us.
const PLATTERS_US: u64 = 4_000;
/// What is assumed where nothing is known.
const UNKNOWN: &str = "nvme-pcie4";

/// The nearest model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Likeness {
    /// Name of the device here; empty where there is none.
    pub name: String,
    /// Preset of the simulator.
    pub device: &'static str,
    /// Array in the simulator's grammar.
    pub array: String,
    /// I/O scheduler of the simulator.
    pub scheduler: &'static str,
    /// Largest window of read-ahead here, KiB.
    pub read_ahead_kib: Option<u64>,
    /// Largest request here, KiB.
    pub max_sectors_kib: Option<u64>,
    /// Whether the preset was guessed, not recognized.
    pub guessed: bool,
    /// Why this preset.
    pub why: String,
}

impl Likeness {
    /// What is assumed on a machine of which nothing is known.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            name: String::new(),
            device: UNKNOWN,
            array: "single".into(),
            scheduler: "none",
            read_ahead_kib: None,
            max_sectors_kib: None,
            guessed: true,
            why: "a current NVMe drive, since this machine's own is not known".into(),
        }
    }

    /// Of a device of the machine.
    #[must_use]
    pub fn of(machine: &Machine, device: &BlockDevice) -> Self {
        let leaf = leaf(machine, device);
        let (preset, guessed, why) = model(machine, leaf);
        Self {
            name: device.name.clone(),
            device: preset,
            array: array(machine, device),
            scheduler: scheduler(leaf.scheduler.as_deref().unwrap_or("none")),
            read_ahead_kib: device.read_ahead_kib,
            max_sectors_kib: device.max_sectors_kib,
            guessed,
            why,
        }
    }
}

/// The device that holds a folder's files: by the folder's device number, else the one at `/`, else the largest.
#[must_use]
pub fn device_of_folder<'a>(machine: &'a Machine, number: Option<&str>) -> Option<&'a BlockDevice> {
    let by_number = number.and_then(|number| machine.device_of_number(number));
    let largest = || {
        let real =
            |device: &&BlockDevice| device.decides() && !matches!(device.kind, Kind::Loop | Kind::Memory);
        machine.devices.iter().filter(real).max_by_key(|device| device.bytes)
    };
    by_number.or_else(|| machine.device_of_mount("/")).or_else(largest)
}

/// The first disk at the bottom.
fn leaf<'a>(machine: &'a Machine, device: &'a BlockDevice) -> &'a BlockDevice {
    let mut at = device;
    // As deep as devices are stacked at most; a circle, which no kernel makes, ends too.
    for _ in 0..machine.devices.len() {
        let below = at.slaves.first().and_then(|slave| {
            let named = |device: &&BlockDevice| {
                device.name == *slave || device.partitions.iter().any(|partition| partition.name == *slave)
            };
            machine.devices.iter().find(named)
        });
        let Some(below) = below else { break };
        at = below;
    }
    at
}

/// The preset, whether it was guessed, and why.
fn model(machine: &Machine, disk: &BlockDevice) -> (&'static str, bool, String) {
    let system = &machine.system;
    let words: Vec<&str> = [&disk.model, &disk.vendor].into_iter().flatten().map(String::as_str).collect();
    let says = |word: &str| words.iter().any(|text| text.contains(word));
    let made_by =
        |word: &str| system.maker.as_ref().is_some_and(|maker| maker.contains(word)) && disk.is_virtual;
    let name = &disk.name;
    let own = disk.model.as_deref().unwrap_or("its model");
    if says("Instance Storage") {
        ("nvme-pcie4", false, format!("{name} is local flash of a cloud ({own})"))
    } else if says("Elastic Block Store") || made_by("Amazon") {
        ("gp3", true, format!("{name} is a volume of Amazon's; gp3 at its baseline is assumed"))
    } else if says("MSFT NVMe Accelerator") || says("Msft") || made_by("Microsoft") {
        ("azure-p30", true, format!("{name} is a disk of Azure; a P30 is assumed"))
    } else if says("nvme_card") || says("PersistentDisk") || made_by("Google") {
        (
            "gce-hyperdisk",
            true,
            format!("{name} is a disk of Google's; Hyperdisk Balanced at its baseline is assumed"),
        )
    } else if disk.is_virtual || matches!(disk.kind, Kind::Remote | Kind::Other) {
        unknown_virtual(disk)
    } else if disk.kind == Kind::Nvme {
        ("nvme-pcie4", false, format!("{name} is an NVMe drive ({own})"))
    } else if disk.rotational {
        ("hdd-20tb", false, format!("{name} has platters ({own})"))
    } else {
        ("sata-qlc", false, format!("{name} is a flash drive of SATA or SAS ({own})"))
    }
}

fn unknown_virtual(disk: &BlockDevice) -> (&'static str, bool, String) {
    let name = &disk.name;
    let hidden = format!("what stands behind the virtual disk {name} is not told");
    let Some(mean) = disk.mean_read_us else {
        return (UNKNOWN, true, format!("{hidden}; a current NVMe drive is assumed"));
    };
    let milliseconds = format!("{}.{:02} ms", mean / 1_000, mean % 1_000 / 10);
    let (preset, like) = if mean < LOCAL_US {
        (UNKNOWN, "local flash")
    } else if mean < PLATTERS_US {
        ("gp3", "a network volume")
    } else {
        ("hdd-20tb", "platters")
    };
    (preset, true, format!("{hidden}; its reads took {milliseconds} on average, as those of {like}"))
}

fn array(machine: &Machine, device: &BlockDevice) -> String {
    // A logical volume on an array is read as the array.
    let mut at = device;
    for _ in 0..machine.devices.len() {
        if let Some(text) = at.md.as_ref().and_then(md) {
            return text;
        }
        let [only] = at.slaves.as_slice() else { break };
        let Some(below) = machine.device(only) else { break };
        at = below;
    }
    "single".into()
}

fn md(md: &Md) -> Option<String> {
    let chunk = md.chunk_bytes / 1024;
    match md.level.as_str() {
        "raid1" => Some(format!("raid1:{}", md.disks)),
        level @ ("raid0" | "raid5" | "raid6" | "raid10") if chunk > 0 => {
            Some(format!("{level}:{}x{chunk}KiB", md.disks))
        }
        _ => None,
    }
}

/// The simulator's scheduler that is nearest to the kernel's.
const fn scheduler(kernel: &str) -> &'static str {
    match kernel.as_bytes() {
        b"mq-deadline" | b"deadline" => "clook",
        b"bfq" | b"cfq" => "anticipatory",
        _ => "none",
    }
}
