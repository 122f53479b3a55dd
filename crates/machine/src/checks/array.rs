//! Arrays of md and devices behind a bcache: whether a window covers the stripe, and whether the cache caches.

use crate::device::{Bcache, BlockDevice};
use crate::evidence;
use crate::finding::{Finding, Severity};

/// Chunks of each member that the stripe cache should hold, as md asks before it reshapes.
const CHUNKS: u64 = 4;
/// A page, and a line of the stripe cache.
const PAGE: u64 = 4_096;

/// What is to be said of an array or a cached device.
#[must_use]
pub fn check(device: &BlockDevice) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        [window(device), stripes(device), degraded(device)].into_iter().flatten().collect();
    if let Some(bcache) = &device.bcache {
        found.extend(cache(device, bcache));
    }
    found
}

/// A window of less than two stripes keeps some of the disks idle when one program reads in order.
fn window(device: &BlockDevice) -> Option<Finding> {
    let (stripe, window) = (device.stripe_bytes()? / 1024, device.read_ahead_kib?);
    let md = device.md.as_ref().filter(|md| md.data_disks > 1)?;
    if !device.decides() || window == 0 || window >= 2 * stripe {
        return None;
    }
    let severity = if window < stripe { Severity::Warning } else { Severity::Note };
    let what = format!(
        "{} reads {window} KiB ahead, less than two stripes of {} chunks ({} KiB)",
        device.name,
        md.data_disks,
        2 * stripe,
    );
    let why = "A single program that reads in order keeps only some of the disks busy: the others wait until the window \
               reaches them."
        .to_owned();
    let finding = Finding::new("read-ahead-below-stripes", severity, &device.name, what, why);
    let rule = format!(
        r#"ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="{}", ATTR{{queue/read_ahead_kb}}="{}""#,
        device.name,
        2 * stripe
    );
    let path = format!("/etc/udev/rules.d/99-forerun-read-ahead-{}.rules", device.name);
    let file = device.queue_file("read_ahead_kb");
    let finding = finding.set(&file, &window.to_string(), &(2 * stripe).to_string()).file(&path, &rule);
    Some(finding.seen(&[evidence::MD_STRIPES]))
}

/// A stripe cache of less than four chunks makes writes of whole stripes rare.
fn stripes(device: &BlockDevice) -> Option<Finding> {
    let md = device.md.as_ref().filter(|md| matches!(md.level.as_str(), "raid4" | "raid5" | "raid6"))?;
    let (pages, chunk) = (md.stripe_cache?, md.chunk_bytes / PAGE);
    let wanted = CHUNKS * chunk;
    if pages >= wanted {
        return None;
    }
    let memory = wanted * PAGE * md.disks / (1 << 20);
    let what = format!(
        "{} keeps {pages} pages of each disk in its stripe cache, less than {CHUNKS} chunks of {} KiB",
        device.name,
        md.chunk_bytes / 1024
    );
    let why = format!(
        "Writes, and reads while a disk is missing, go through this cache. A stripe that does not fit is read again. \
         {wanted} pages take {memory} MiB of memory."
    );
    let finding = Finding::new("stripe-cache-small", Severity::Note, &device.name, what, why);
    let file = format!("/sys/block/{}/md/stripe_cache_size", device.name);
    Some(finding.seen(&[evidence::MD_STRIPES]).set(&file, &pages.to_string(), &wanted.to_string()))
}

fn degraded(device: &BlockDevice) -> Option<Finding> {
    let md = device.md.as_ref().filter(|md| md.degraded > 0)?;
    let what = format!("{} is without {} of its {} disks", device.name, md.degraded, md.disks);
    let why = "With parity, each read of a missing disk is a read of all others; without redundancy left, the next failure \
               loses data. No setting helps: replace the disk."
        .to_owned();
    Some(Finding::new("array-degraded", Severity::Warning, &device.name, what, why))
}

fn cache(device: &BlockDevice, bcache: &Bcache) -> Vec<Finding> {
    let mut found = Vec::new();
    let file = |name: &str| format!("/sys/block/{}/bcache/{name}", device.name);
    if bcache.state == "no cache" {
        let what = format!("{} has no cache attached", device.name);
        let why = "Every read goes to the slow disk.".to_owned();
        let finding = Finding::new("bcache-detached", Severity::Warning, &device.name, what, why);
        let attach = format!("ls /sys/fs/bcache; echo UUID-OF-THE-SET | sudo tee {}", file("attach"));
        found.push(finding.step("attach the set", attach, format!("echo 1 | sudo tee {}", file("detach"))));
    } else if bcache.mode == "none" {
        let what = format!("{} is told to cache nothing (cache_mode none)", device.name);
        let why = "Reads that miss are not kept.".to_owned();
        let finding = Finding::new("bcache-off", Severity::Warning, &device.name, what, why);
        found.push(finding.set(&file("cache_mode"), "none", "writethrough"));
    }
    if let Some(limit) = bcache.congested_read_us.filter(|&limit| limit > 0) {
        let what =
            format!("{} sends reads past its cache when that takes longer than {limit} us", device.name);
        let why = "While the fast disk is busy, reads that it holds still come from it, but what misses is not kept: after \
                   a busy hour the cache is no warmer."
            .to_owned();
        let finding = Finding::new("bcache-congested", Severity::Note, &device.name, what, why);
        let file = file("cache/congested_read_threshold_us");
        found.push(finding.seen(&[evidence::BCACHE_BYPASS]).set(&file, &limit.to_string(), "0"));
    }
    found
}
