//! A block device as sysfs describes it: what it is, how it is read ahead, and what it is made of.
//!
//! Files read through a file system obey the settings of the device on which that lies. The disks below an array or a
//! logical volume have settings too, which nobody's files see; [`BlockDevice::decides`] tells the two apart.

use crate::root::Root;
use serde::Serialize;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A disk of the SCSI layer: SATA, SAS, USB, or a virtual one.
    Scsi,
    /// An NVMe namespace.
    Nvme,
    /// A virtual disk of virtio.
    Virtio,
    /// A virtual disk of Xen.
    Xen,
    /// A file as a device.
    Loop,
    /// An array of md.
    Md,
    /// A device of the device mapper: LVM, encryption, multipath.
    Dm,
    /// A device behind a bcache.
    Bcache,
    /// A volume of ZFS.
    Zvol,
    /// A device of another machine: NBD, RBD, DRBD, ublk.
    Remote,
    /// Memory as a device.
    Memory,
    /// Something else.
    Other,
}

/// An array of md.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Md {
    /// `raid5`.
    pub level: String,
    /// Members.
    pub disks: u64,
    /// Those of them that hold data of a stripe.
    pub data_disks: u64,
    /// Bytes of a chunk; 0 where there is none.
    pub chunk_bytes: u64,
    /// Pages of each member that the stripe cache holds at least.
    pub stripe_cache: Option<u64>,
    /// Members that are missing.
    pub degraded: u64,
}

/// A device of the device mapper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dm {
    /// `vg-root`.
    pub name: String,
    /// What made it: `LVM`, `CRYPT`, `mpath`; empty where it does not say.
    pub maker: String,
}

/// A file as a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// The file.
    pub file: String,
    /// Whether it is read past the page cache.
    pub direct_io: bool,
}

/// A device behind a bcache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bcache {
    /// `writethrough`, `writeback`, `writearound`, `none`.
    pub mode: String,
    /// `no cache`, `clean`, `dirty`, `inconsistent`.
    pub state: String,
    /// Reads in order beyond so many bytes go past the cache.
    pub sequential_cutoff: Option<String>,
    /// Reads that took longer than this let others go past the cache; 0 is off.
    pub congested_read_us: Option<u64>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// `sda1`.
    pub name: String,
    /// `8:1`.
    pub number: String,
    /// Devices that are made of it.
    pub holders: Vec<String>,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockDevice {
    /// `sda`.
    pub name: String,
    /// `8:0`.
    pub number: String,
    /// What it is.
    pub kind: Kind,
    /// Its size.
    pub bytes: u64,
    /// Whether the kernel takes it for a drive with platters.
    pub rotational: bool,
    /// Whether it, or all that it is made of, is a device of a virtual machine or a loop.
    pub is_virtual: bool,
    /// What it calls itself.
    pub model: Option<String>,
    /// Who made it.
    pub vendor: Option<String>,
    /// Its serial number, where users may see it.
    pub serial: Option<String>,
    /// Largest read-ahead window, KiB.
    pub read_ahead_kib: Option<u64>,
    /// Largest request, KiB.
    pub max_sectors_kib: Option<u64>,
    /// Largest request that the hardware takes, KiB.
    pub max_hw_sectors_kib: Option<u64>,
    /// Request size that the device asks for; 0 if for none.
    pub optimal_io_bytes: u64,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// Requests that its queue holds.
    pub nr_requests: Option<u64>,
    /// Queues of the hardware.
    pub hardware_queues: u64,
    /// Devices that it is made of.
    pub slaves: Vec<String>,
    /// Devices that are made of it, partitions' too.
    pub holders: Vec<String>,
    /// Its partitions.
    pub partitions: Vec<Partition>,
    /// How long its reads took on average since it is there, us; absent where too few were made to say.
    pub mean_read_us: Option<u64>,
    /// Where its file systems are mounted, partitions' too.
    pub mounts: Vec<String>,
    /// Whether memory is swapped out to it.
    pub swap: bool,
    /// If it is an array of md.
    pub md: Option<Md>,
    /// If it is of the device mapper.
    pub dm: Option<Dm>,
    /// If it is a file.
    #[serde(rename = "loop")]
    pub loop_file: Option<Loop>,
    /// If it is behind a bcache.
    pub bcache: Option<Bcache>,
}

/// Models and vendors of disks that a hypervisor or a cloud makes up.
const VIRTUAL: [&str; 12] = [
    "QEMU",
    "VMware",
    "Msft",
    "MSFT",
    "Virtual",
    "VBOX",
    "Google",
    "PersistentDisk",
    "nvme_card",
    "Elastic Block Store",
    "Amazon",
    "Xen",
];

impl BlockDevice {
    /// Reads one; none if it holds nothing (a loop without a file, an empty reader of cards).
    #[must_use]
    pub fn read(root: &Root, name: &str) -> Option<Self> {
        let at = format!("sys/block/{name}");
        let bytes = root.number(&format!("{at}/size"))?.saturating_mul(512);
        if bytes == 0 {
            return None;
        }
        let queue = |file: &str| root.number(&format!("{at}/queue/{file}"));
        let word = |file: &str| root.text(&format!("{at}/device/{file}"));
        let kind = kind(root, name, &at);
        let (model, vendor) = (word("model"), word("vendor").filter(|vendor| !vendor.starts_with("0x")));
        let made_up = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| VIRTUAL.iter().any(|word| text.contains(word)))
        };
        let partitions = partitions(root, name, &at);
        let mut holders = root.names(&format!("{at}/holders"));
        holders.extend(partitions.iter().flat_map(|partition| partition.holders.clone()));
        Some(Self {
            number: root.text(&format!("{at}/dev")).unwrap_or_default(),
            kind,
            bytes,
            rotational: queue("rotational") == Some(1),
            is_virtual: matches!(kind, Kind::Virtio | Kind::Xen | Kind::Loop)
                || made_up(&model)
                || made_up(&vendor),
            serial: root.text(&format!("{at}/serial")).or_else(|| word("serial")),
            model,
            vendor,
            read_ahead_kib: queue("read_ahead_kb")
                .or_else(|| root.number(&format!("{at}/bdi/read_ahead_kb"))),
            max_sectors_kib: queue("max_sectors_kb"),
            max_hw_sectors_kib: queue("max_hw_sectors_kb"),
            optimal_io_bytes: queue("optimal_io_size").unwrap_or(0),
            scheduler: root.text(&format!("{at}/queue/scheduler")).and_then(|text| chosen(&text)),
            nr_requests: queue("nr_requests"),
            hardware_queues: root.names(&format!("{at}/mq")).len() as u64,
            slaves: root.names(&format!("{at}/slaves")),
            holders,
            partitions,
            mean_read_us: root.text(&format!("{at}/stat")).and_then(|text| mean_read_us(&text)),
            mounts: Vec::new(),
            swap: false,
            md: md(root, &at),
            dm: dm(root, &at),
            loop_file: loop_file(root, &at),
            bcache: bcache(root, &at),
            name: name.to_owned(),
        })
    }

    /// Whether files are read by this device's settings: it is mounted, or nothing else is made of it.
    #[must_use]
    pub fn decides(&self) -> bool {
        !self.mounts.is_empty() || self.holders.is_empty()
    }

    /// The file of a setting of its queue.
    #[must_use]
    pub fn queue_file(&self, setting: &str) -> String {
        format!("/sys/block/{}/queue/{setting}", self.name)
    }

    /// Bytes of a stripe's data, where it is an array with chunks.
    #[must_use]
    pub fn stripe_bytes(&self) -> Option<u64> {
        let md = self.md.as_ref()?;
        (md.chunk_bytes > 0).then_some(md.chunk_bytes * md.data_disks)
    }

    /// What a udev rule matches so that it means this device and no other.
    #[must_use]
    pub fn udev_match(&self) -> String {
        let own = r#"SUBSYSTEM=="block", ENV{DEVTYPE}=="disk""#;
        // What a rule cannot quote is left out of it.
        let plain = |text: &&String| text.chars().all(|c| c.is_ascii_alphanumeric() || " ._-:+/".contains(c));
        if let Some(dm) = self.dm.as_ref().filter(|dm| plain(&&dm.name)) {
            return format!(r#"{own}, ENV{{DM_NAME}}=="{}""#, dm.name);
        }
        if let Some(model) =
            self.model.as_ref().filter(plain).filter(|_| matches!(self.kind, Kind::Scsi | Kind::Nvme))
        {
            let kernel = if self.kind == Kind::Nvme { "nvme*n*" } else { "sd*" };
            return format!(r#"{own}, KERNEL=="{kernel}", ATTRS{{model}}=="{model}*""#);
        }
        match self.serial.as_ref().filter(plain) {
            Some(serial) => format!(r#"{own}, KERNEL=="{}", ATTR{{serial}}=="{serial}""#, self.name),
            None => format!(r#"{own}, KERNEL=="{}""#, self.name),
        }
    }
}

fn kind(root: &Root, name: &str, at: &str) -> Kind {
    let starts = |heads: &[&str]| heads.iter().any(|head| name.starts_with(head));
    if root.has(&format!("{at}/md")) {
        Kind::Md
    } else if root.has(&format!("{at}/dm")) {
        Kind::Dm
    } else if starts(&["nvme"]) {
        Kind::Nvme
    } else if starts(&["vd"])
        || root.link_name(&format!("{at}/device/driver")).as_deref() == Some("virtio_blk")
    {
        Kind::Virtio
    } else if starts(&["xvd"]) {
        Kind::Xen
    } else if starts(&["loop"]) {
        Kind::Loop
    } else if starts(&["bcache"]) {
        Kind::Bcache
    } else if starts(&["zd"]) {
        Kind::Zvol
    } else if starts(&["nbd", "rbd", "drbd", "ublkb"]) {
        Kind::Remote
    } else if starts(&["ram", "zram", "pmem"]) {
        Kind::Memory
    } else if starts(&["sd"]) {
        Kind::Scsi
    } else {
        Kind::Other
    }
}

/// Reads below which a mean says nothing.
const READS_MIN: u64 = 1_000;

/// Time of reads over their number: the fourth and the first number of `stat`.
fn mean_read_us(stat: &str) -> Option<u64> {
    let mut numbers = stat.split_whitespace().map(str::parse::<u64>);
    let reads = numbers.next()?.ok()?;
    let milliseconds = numbers.nth(2)?.ok()?;
    (reads >= READS_MIN).then(|| milliseconds.saturating_mul(1_000) / reads)
}

/// `none [mq-deadline] kyber` is `mq-deadline`; `none` alone is itself.
fn chosen(text: &str) -> Option<String> {
    let bracketed = text.split('[').nth(1).and_then(|rest| rest.split(']').next());
    let only = || text.split_whitespace().next();
    Some(bracketed.or_else(only)?.to_owned())
}

fn partitions(root: &Root, name: &str, at: &str) -> Vec<Partition> {
    let names = root.names(at).into_iter();
    names
        .filter(|part| part.starts_with(name) && root.has(&format!("{at}/{part}/partition")))
        .map(|part| Partition {
            number: root.text(&format!("{at}/{part}/dev")).unwrap_or_default(),
            holders: root.names(&format!("{at}/{part}/holders")),
            name: part,
        })
        .collect()
}

fn md(root: &Root, at: &str) -> Option<Md> {
    let level = root.text(&format!("{at}/md/level"))?;
    let number = |file: &str| root.number(&format!("{at}/md/{file}"));
    let disks = number("raid_disks").unwrap_or(0);
    let data_disks = match level.as_str() {
        "raid4" | "raid5" => disks.saturating_sub(1),
        "raid6" => disks.saturating_sub(2),
        "raid10" => disks / 2,
        "raid1" => 1,
        _ => disks,
    };
    Some(Md {
        disks,
        data_disks: data_disks.max(1),
        chunk_bytes: number("chunk_size").unwrap_or(0),
        stripe_cache: number("stripe_cache_size"),
        degraded: number("degraded").unwrap_or(0),
        level,
    })
}

fn dm(root: &Root, at: &str) -> Option<Dm> {
    let name = root.text(&format!("{at}/dm/name"))?;
    let uuid = root.text(&format!("{at}/dm/uuid")).unwrap_or_default();
    Some(Dm { name, maker: uuid.split('-').next().unwrap_or_default().to_owned() })
}

fn loop_file(root: &Root, at: &str) -> Option<Loop> {
    let file = root.text(&format!("{at}/loop/backing_file"))?;
    Some(Loop { file, direct_io: root.number(&format!("{at}/loop/dio")) == Some(1) })
}

fn bcache(root: &Root, at: &str) -> Option<Bcache> {
    let state = root.text(&format!("{at}/bcache/state"))?;
    let mode = root.text(&format!("{at}/bcache/cache_mode")).and_then(|text| chosen(&text));
    Some(Bcache {
        mode: mode.unwrap_or_default(),
        state,
        sequential_cutoff: root.text(&format!("{at}/bcache/sequential_cutoff")),
        congested_read_us: root.number(&format!("{at}/bcache/cache/congested_read_threshold_us")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_brackets_is_the_one_in_use() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq").as_deref(), Some("mq-deadline"));
        assert_eq!(chosen("none").as_deref(), Some("none"));
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn the_mean_of_reads_is_their_time_over_their_number_where_there_are_enough() {
        assert_eq!(mean_read_us("2000 5 16000 3000 1 1 1 1"), Some(1_500));
        assert_eq!(mean_read_us("999 5 16000 3000 1 1 1 1"), None);
        assert_eq!(mean_read_us("2000 5"), None);
    }
}
