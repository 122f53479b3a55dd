//! Between the page cache and the device: the I/O scheduler, and requests smaller or fewer than a window of read-ahead.

use crate::device::{BlockDevice, Kind};
use crate::evidence;
use crate::finding::{Finding, Severity};

/// Requests of a window from which on it is worth a word.
const CUT: u64 = 4;

/// What is to be said of the queue of one device.
#[must_use]
pub fn check(device: &BlockDevice) -> Vec<Finding> {
    [scheduler(device), cut(device), short(device)].into_iter().flatten().collect()
}

fn scheduler(device: &BlockDevice) -> Option<Finding> {
    let scheduler = device.scheduler.as_deref()?;
    let file = device.queue_file("scheduler");
    let rule = |to: &str| {
        format!(r#"ACTION=="add|change", {}, ATTR{{queue/scheduler}}="{to}""#, device.udev_match())
    };
    let path = format!("/etc/udev/rules.d/99-forerun-scheduler-{}.rules", device.name);
    if device.kind == Kind::Nvme && !device.rotational && scheduler == "bfq" {
        let what = format!("{} is an NVMe drive behind the I/O scheduler bfq", device.name);
        let why = "bfq takes a lock and sorts each request to save seeks that this drive does not make; at many requests a \
                   second it is the processor that reads wait for."
            .to_owned();
        let finding = Finding::new("scheduler-nvme", Severity::Warning, &device.name, what, why);
        return Some(
            finding.seen(&[evidence::NO_SCHEDULER]).set(&file, scheduler, "none").file(&path, &rule("none")),
        );
    }
    let platters = device.rotational && !device.is_virtual && device.kind == Kind::Scsi;
    if platters && scheduler == "none" {
        let what = format!("{} has platters and no I/O scheduler", device.name);
        let why = "Reads of several programs go to the drive as they come, and its head travels between them. mq-deadline \
                   sorts them and lets none wait too long."
            .to_owned();
        let finding = Finding::new("scheduler-rotational", Severity::Note, &device.name, what, why);
        return Some(finding.set(&file, scheduler, "mq-deadline").file(&path, &rule("mq-deadline")));
    }
    None
}

/// A window that leaves in several requests although the hardware would take larger ones.
fn cut(device: &BlockDevice) -> Option<Finding> {
    let (window, request) = (device.read_ahead_kib?, device.max_sectors_kib.filter(|&kib| kib > 0)?);
    let hardware = device.max_hw_sectors_kib.unwrap_or(request);
    let whole = window.min(hardware);
    // The kernel's own rule makes a window of two requests.
    if device.md.is_some()
        || !device.decides()
        || !device.rotational
        || device.is_virtual
        || whole <= request
        || window < CUT * request
    {
        return None;
    }
    let what = format!("{} reads {window} KiB ahead in requests of at most {request} KiB", device.name);
    let why = format!(
        "Each window leaves as {} requests, between which those of others are served and the head moves. The hardware takes \
         {hardware} KiB.",
        window.div_ceil(request)
    );
    let finding = Finding::new("requests-cut", Severity::Note, &device.name, what, why);
    let file = device.queue_file("max_sectors_kb");
    Some(finding.seen(&[evidence::ROCKSDB_CUT]).set(&file, &request.to_string(), &whole.to_string()))
}

/// A queue that cannot hold one window.
fn short(device: &BlockDevice) -> Option<Finding> {
    let (window, request) = (device.read_ahead_kib?, device.max_sectors_kib.filter(|&kib| kib > 0)?);
    let queue = device.nr_requests.filter(|&requests| requests > 0)?;
    let needed = window.div_ceil(request);
    if !device.decides() || queue >= needed {
        return None;
    }
    let what = format!("{} queues {queue} requests; a window of {window} KiB is {needed}", device.name);
    let why = "A program that reads ahead is put to sleep before its window has left, and with it the read it waits for."
        .to_owned();
    let finding = Finding::new("queue-short", Severity::Warning, &device.name, what, why);
    let to = (2 * needed).next_power_of_two().max(64).to_string();
    Some(finding.set(&device.queue_file("nr_requests"), &queue.to_string(), &to))
}
