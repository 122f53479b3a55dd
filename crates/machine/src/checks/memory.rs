//! Memory that reads want: swap on their disk, dirty pages in front of them, huge pages, and the prefetcher of ZFS.

use crate::evidence;
use crate::finding::{Finding, Severity};
use crate::machine::Machine;
use crate::modprobe;
use crate::system::System;
use crate::zfs::Zfs;

/// So much dirty memory takes a disk of 200 MB/s over a minute to write.
const DIRTY_BYTES: u64 = 12 << 30;
/// What is suggested instead: some seconds of such a disk.
const DIRTY_SUGGESTED: u64 = 1 << 30;
/// Swap in use that is worth a word: 1/16 of memory.
const SWAP_SHARE: u64 = 16;
/// Default of `zfetch_max_distance` since OpenZFS 2.2.
const ZFS_DISTANCE: u64 = 64 << 20;
/// Below this the distance is what it was a decade ago.
const ZFS_DISTANCE_SMALL: u64 = 16 << 20;

/// What is to be said of the machine as a whole.
#[must_use]
pub fn check(machine: &Machine) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        [dirty(machine), swap(machine), huge_pages(&machine.system)].into_iter().flatten().collect();
    found.extend(machine.system.zfs.iter().flat_map(zfs));
    found
}

fn dirty(machine: &Machine) -> Option<Finding> {
    let limit = machine.system.dirty_limit_bytes;
    let slow = machine
        .devices
        .iter()
        .find(|device| device.rotational && device.decides() && !device.mounts.is_empty())?;
    if limit < DIRTY_BYTES {
        return None;
    }
    let gib = limit >> 30;
    let what = format!("up to {gib} GiB of written data may wait in memory in front of {}", slow.name);
    let why = format!(
        "When they are written out they stand before reads in the device's queue: {} s at 200 MB/s.",
        limit / 200_000_000
    );
    let finding = Finding::new("dirty-memory", Severity::Note, "vm", what, why);
    let (now, back) = (
        format!(
            "sudo sysctl vm.dirty_bytes={DIRTY_SUGGESTED} vm.dirty_background_bytes={}",
            DIRTY_SUGGESTED / 4
        ),
        "sudo sysctl vm.dirty_ratio=20 vm.dirty_background_ratio=10".to_owned(),
    );
    let file = "/etc/sysctl.d/99-forerun-dirty.conf";
    let text =
        format!("vm.dirty_bytes = {DIRTY_SUGGESTED}\nvm.dirty_background_bytes = {}", DIRTY_SUGGESTED / 4);
    Some(
        finding.seen(&[evidence::DIRTY_MEMORY]).step("now, until the next boot", now, back).file(file, &text),
    )
}

/// Swap in use on the disk from which files are read.
fn swap(machine: &Machine) -> Option<Finding> {
    let system = &machine.system;
    let used = system.swap_used_bytes;
    let device = machine
        .devices
        .iter()
        .find(|device| device.swap && device.rotational && !device.mounts.is_empty())?;
    if used == 0 || used < system.memory_bytes / SWAP_SHARE {
        return None;
    }
    let what =
        format!("{} MiB are swapped out to {}, from which files are read too", used >> 20, device.name);
    let why = "What comes back from swap is read at random, between the reads of files; read-ahead that takes memory drives more \
               of it out."
        .to_owned();
    let swappiness = system.swappiness.unwrap_or(60);
    let finding = Finding::new("swap-on-data-disk", Severity::Note, &device.name, what, why);
    let (now, back) = ("sudo sysctl vm.swappiness=10", format!("sudo sysctl vm.swappiness={swappiness}"));
    Some(finding.step("now, until the next boot", now, back))
}

fn huge_pages(system: &System) -> Option<Finding> {
    let always = |word: &Option<String>| word.as_deref() == Some("always");
    if !always(&system.huge_pages) || !always(&system.huge_pages_defrag) {
        return None;
    }
    let what =
        "every program gets huge pages, and waits for them (enabled and defrag are `always`)".to_owned();
    let why = "When the page cache fills memory, which reading ahead makes it do, a fault waits until memory is compacted: \
               readers see it as a slow disk."
        .to_owned();
    let finding = Finding::new("huge-pages-wait", Severity::Note, "memory", what, why);
    let file = "/sys/kernel/mm/transparent_hugepage/defrag";
    Some(finding.seen(&[evidence::HUGE_PAGES]).set(file, "always", "madvise"))
}

fn zfs(zfs: &Zfs) -> Vec<Finding> {
    let parameter = |name: &str| format!("/sys/module/zfs/parameters/{name}");
    let for_good = |finding: Finding, name: &str, value| {
        let (add, take_out) = modprobe::commands("zfs", name, value);
        finding.step("for good", add, take_out)
    };
    let mut found = Vec::new();
    if !zfs.prefetch {
        let what = format!("ZFS {} does not read ahead (zfs_prefetch_disable=1)", zfs.version);
        let why = "Each sequential reader waits for the pool at every record.".to_owned();
        let finding = Finding::new("zfs-prefetch-off", Severity::Warning, "zfs", what, why);
        let finding = finding.seen(&[evidence::ZFS_PARAMETERS, evidence::ZFS_DISTANCE]);
        let finding = finding.set(&parameter("zfs_prefetch_disable"), "1", "0");
        found.push(for_good(finding, "zfs_prefetch_disable", 0));
    }
    if let Some(distance) = zfs.distance_bytes.filter(|&bytes| zfs.prefetch && bytes < ZFS_DISTANCE_SMALL) {
        let what = format!("ZFS {} reads a stream at most {} MiB ahead", zfs.version, distance >> 20);
        let why = "A pool of many disks is not kept busy by one reader.".to_owned();
        let finding = Finding::new("zfs-distance", Severity::Note, "zfs", what, why);
        let to = ZFS_DISTANCE.to_string();
        let finding = finding.set(&parameter("zfetch_max_distance"), &distance.to_string(), &to);
        let finding = finding.seen(&[evidence::ZFS_DISTANCE]);
        found.push(for_good(finding, "zfetch_max_distance", ZFS_DISTANCE));
    }
    found
}
