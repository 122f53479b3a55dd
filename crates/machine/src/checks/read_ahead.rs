//! How far ahead files are read, and who decided that.
//!
//! The kernel's default is 128 KiB. Since Linux 6.17 a device that is called rotational and announces no request size gets
//! twice its largest request instead: right for a drive with platters, dear for a virtual disk that only carries the flag.
//! A device that announces a request size has always got twice that, which is megabytes on some clouds. What else stands
//! there was set by an administrator, a udev rule or tuned, and is theirs.

use crate::device::{BlockDevice, Kind};
use crate::evidence;
use crate::finding::{Finding, Severity};
use crate::machine::Machine;
use crate::system::System;

/// The kernel's default, KiB.
pub const DEFAULT_KIB: u64 = 128;
/// From here on a window by the rule for rotational devices is worth a warning on a virtual disk: eight times the default.
const VIRTUAL_KIB: u64 = 1_024;
/// From here on a window that the device announced is worth a warning.
const ANNOUNCED_KIB: u64 = 4_096;
/// From here on a window that somebody set is worth a note.
const SET_KIB: u64 = 4_096;
/// Most devices named in one finding.
const NAMES_MAX: usize = 8;

/// Why a device reads ahead as far as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel's default.
    Default,
    /// Twice the request size that the device announces.
    Announced,
    /// Twice the largest request, as Linux 6.17 does for rotational devices.
    Rotational,
    /// None of these: it was set.
    Set,
}

/// Why this device reads ahead as far as it does.
#[must_use]
pub fn cause(device: &BlockDevice, system: &System) -> Cause {
    let window = device.read_ahead_kib.unwrap_or(DEFAULT_KIB);
    let announced = device.optimal_io_bytes / 1024 * 2;
    let largest = device.max_sectors_kib.unwrap_or(0) * 2;
    if announced > DEFAULT_KIB && window == announced {
        Cause::Announced
    } else if announced == 0 && device.rotational && window == largest && system.kernel_is_at_least(6, 17) {
        Cause::Rotational
    } else if window == DEFAULT_KIB {
        Cause::Default
    } else {
        Cause::Set
    }
}

/// What is to be said of one device, loops apart.
#[must_use]
pub fn check(device: &BlockDevice, system: &System) -> Vec<Finding> {
    let silent = matches!(device.kind, Kind::Loop | Kind::Memory | Kind::Zvol);
    let Some(window) = device.read_ahead_kib.filter(|_| device.decides() && !silent) else {
        return Vec::new();
    };
    if window == 0 {
        return vec![off(device)];
    }
    match cause(device, system) {
        Cause::Rotational if device.is_virtual && window >= VIRTUAL_KIB => vec![rotational(device, window)],
        Cause::Announced
            if device.stripe_bytes().is_none() && device.slaves.is_empty() && window >= ANNOUNCED_KIB =>
        {
            vec![announced(device, window)]
        }
        Cause::Set if window >= SET_KIB => vec![set(device, window)],
        _ => Vec::new(),
    }
}

/// How the device is called in a sentence.
fn called(device: &BlockDevice) -> String {
    let own =
        device.dm.as_ref().map_or_else(|| device.name.clone(), |dm| format!("{} ({})", device.name, dm.name));
    device.mounts.first().map_or(own.clone(), |mount| format!("{own} at {mount}"))
}

fn rotational(device: &BlockDevice, window: u64) -> Finding {
    let what = format!(
        "{} reads {window} KiB ahead, {} times the usual {DEFAULT_KIB}: the kernel takes this virtual disk for a drive with platters \
         (rotational=1) and doubles its largest request of {} KiB",
        called(device),
        window / DEFAULT_KIB,
        device.max_sectors_kib.unwrap_or(0),
    );
    let finding =
        Finding::new("read-ahead-virtual-rotational", Severity::Warning, &device.name, what, why_large());
    let evidence = [evidence::ROTATIONAL_RULE, evidence::VIRTIO_DISK, evidence::AZURE_RUNNERS];
    to_default(finding.seen(&evidence), device, window)
}

fn announced(device: &BlockDevice, window: u64) -> Finding {
    let what = format!(
        "{} reads {window} KiB ahead, {} times the usual {DEFAULT_KIB}: the device announces requests of {} KiB (optimal_io_size), \
         and the kernel doubles that",
        called(device),
        window / DEFAULT_KIB,
        device.optimal_io_bytes / 1024,
    );
    let finding = Finding::new("read-ahead-announced", Severity::Warning, &device.name, what, why_large());
    to_default(finding.seen(&[evidence::AKS_NODES, evidence::AZURE_NVME]), device, window)
}

fn set(device: &BlockDevice, window: u64) -> Finding {
    let what = format!(
        "{} reads {window} KiB ahead, which is no default of the kernel: a udev rule, tuned, LVM or somebody set it",
        called(device),
    );
    let finding = Finding::new("read-ahead-set", Severity::Note, &device.name, what, why_large());
    to_default(finding.seen(&[evidence::AZURE_NVME, evidence::STACKED]), device, window)
}

fn off(device: &BlockDevice) -> Finding {
    let what = format!("{} does not read ahead (read_ahead_kb is 0)", called(device));
    to_default(is_off(&device.name, what), device, 0)
}

fn is_off(first: &str, what: String) -> Finding {
    let why = "A program that reads in order waits for the device at each request. Programs that read at random lose \
               nothing by a window: the kernel opens it only for reads in order."
        .to_owned();
    Finding::new("read-ahead-off", Severity::Warning, first, what, why)
}

fn why_large() -> String {
    "A random read through a mapping, and the start of a file, bring up to a whole window from the device: memory fills with \
     pages that nobody uses, and the volume's bandwidth with them. What reads large files in order may gain by a large \
     window: record it and let `forerun advise` say."
        .to_owned()
}

/// Sets the default for this device, now and for good.
fn to_default(finding: Finding, device: &BlockDevice, window: u64) -> Finding {
    let rule = format!(
        r#"ACTION=="add|change", {}, ATTR{{queue/read_ahead_kb}}="{DEFAULT_KIB}""#,
        device.udev_match()
    );
    let path = format!("/etc/udev/rules.d/99-forerun-read-ahead-{}.rules", device.name.replace('!', "-"));
    let file = device.queue_file("read_ahead_kb");
    finding.set(&file, &window.to_string(), &DEFAULT_KIB.to_string()).file(&path, &rule)
}

/// Files as devices: many of them have the same trouble, which is said once.
#[must_use]
pub fn loops(machine: &Machine) -> Vec<Finding> {
    let loops = || machine.devices.iter().filter(|device| device.kind == Kind::Loop && device.decides());
    let far = |device: &&BlockDevice| device.read_ahead_kib.is_some_and(|window| window >= VIRTUAL_KIB);
    let twice = |device: &&BlockDevice| device.loop_file.as_ref().is_some_and(|file| !file.direct_io);
    let mut found = Vec::new();
    let devices: Vec<&BlockDevice> = loops().filter(far).collect();
    if let Some(first) = devices.first() {
        let window = first.read_ahead_kib.unwrap_or(0);
        let read = each(&devices, "reads", "read");
        let what = format!("{} {read} {window} KiB ahead of files that lie on another disk", named(&devices));
        let why = "A loop takes rotational and the largest request from the disk of its file, and the rule of Linux 6.17 with \
                   it; what it reads ahead is read ahead once more below."
            .to_owned();
        let finding = Finding::new("read-ahead-loop", Severity::Warning, &first.name, what, why);
        found.push(set_default(finding.seen(&[evidence::ROTATIONAL_RULE]), &devices));
    }
    let devices: Vec<&BlockDevice> = loops().filter(|device| device.read_ahead_kib == Some(0)).collect();
    if let Some(first) = devices.first() {
        let do_not = each(&devices, "does not", "do not");
        let what = format!("{} {do_not} read ahead (read_ahead_kb is 0)", named(&devices));
        found.push(set_default(is_off(&first.name, what), &devices));
    }
    let devices: Vec<&BlockDevice> = loops().filter(twice).collect();
    if let Some(first) = devices.first() {
        let keep = each(&devices, "keeps its", "keep their");
        let what = format!("{} {keep} blocks in memory twice (no direct I/O)", named(&devices));
        let why = "Each block read is a page of the file system on the loop and a page of the file below it, and both read \
                   ahead. With direct I/O there is one of each."
            .to_owned();
        let mut finding = Finding::new("loop-cached-twice", Severity::Note, &first.name, what, why);
        finding = finding.seen(&[evidence::LOOP_TWICE]);
        for device in devices.iter().take(NAMES_MAX) {
            let of = |on: &str| format!("sudo losetup --direct-io={on} /dev/{}", device.name);
            finding = finding.step("now, until the next boot", of("on"), of("off"));
        }
        found.push(finding);
    }
    found
}

/// Sets the default for each of them until the next boot: the next of their names may be of another file.
fn set_default(mut finding: Finding, devices: &[&BlockDevice]) -> Finding {
    for device in devices.iter().take(NAMES_MAX) {
        let window = device.read_ahead_kib.unwrap_or(0).to_string();
        finding = finding.set(&device.queue_file("read_ahead_kb"), &window, &DEFAULT_KIB.to_string());
    }
    finding
}

/// What one does, or several do.
const fn each<'a>(devices: &[&BlockDevice], one: &'a str, several: &'a str) -> &'a str {
    if devices.len() == 1 { one } else { several }
}

fn named(devices: &[&BlockDevice]) -> String {
    let names: Vec<&str> = devices.iter().take(NAMES_MAX).map(|device| device.name.as_str()).collect();
    let more = devices.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}
