//! File systems of other machines and of programs: the window against the size of one request and the way there.

use crate::evidence;
use crate::finding::{Finding, Severity};
use crate::mounts::Mount;

/// Requests of `rsize` that NFS read ahead until Linux 5.4.
const NFS_REQUESTS: u64 = 15;
/// A window of this and less is short for a way of a millisecond: 128 KiB/ms are 128 MB/s.
const SHORT_KIB: u64 = 128;

/// What is to be said of the mounts; each file system once.
#[must_use]
pub fn check(mounts: &[Mount]) -> Vec<Finding> {
    let mut seen: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for mount in mounts {
        let Some(window) = mount.read_ahead_kib.filter(|_| !seen.contains(&mount.number.as_str())) else {
            continue;
        };
        seen.push(&mount.number);
        found.extend(match mount.kind.as_str() {
            "nfs" | "nfs4" => nfs(mount, window),
            "ceph" | "cifs" | "smb3" | "9p" | "virtiofs" => short(mount, window),
            _ if mount.is_fuse() => short(mount, window),
            // Lustre and the like read ahead by rules of their own.
            _ => None,
        });
    }
    found
}

fn bdi(mount: &Mount) -> String {
    format!("/sys/class/bdi/{}/read_ahead_kb", mount.number)
}

fn nfs(mount: &Mount, window: u64) -> Option<Finding> {
    let request = mount.option("rsize")?.parse::<u64>().ok()? / 1024;
    if window >= 2 * request || request == 0 {
        return None;
    }
    let to = NFS_REQUESTS * request;
    let what = format!(
        "{} ({}) reads {window} KiB ahead, less than two requests of rsize={} KiB",
        mount.place, mount.source, request
    );
    let why = "A program that reads in order has at most one request on its way, often a part of one, and waits for the \
               network between them. Small random reads lose by a long window: it is for mounts of large files."
        .to_owned();
    let finding = Finding::new("read-ahead-nfs", Severity::Warning, &mount.place, what, why);
    let finding = finding.seen(&[evidence::NFS_DEFAULT, evidence::NFS_RATES, evidence::LUSTRE_RULE]).set(
        &bdi(mount),
        &window.to_string(),
        &to.to_string(),
    );
    // nfsrahead, of nfs-utils since 2.6.2, sets it at each mount; it knows mounts by their type only.
    let conf = "/etc/nfs.conf.d/99-forerun-read-ahead.conf";
    let now = format!("printf '[nfsrahead]\\n{}={to}\\n' | sudo tee {conf}", mount.kind);
    Some(finding.step(
        "for good, for all mounts of this type (nfs-utils 2.6.2)",
        now,
        format!("sudo rm {conf}"),
    ))
}

fn short(mount: &Mount, window: u64) -> Option<Finding> {
    if window > SHORT_KIB {
        return None;
    }
    let what = format!("{} ({} of {}) reads {window} KiB ahead", mount.place, mount.kind, mount.source);
    let why = "A window of 128 KiB over a way of one millisecond gives 128 MB/s at most, over ten milliseconds 13 MB/s, to a \
               program that reads in order. Small random reads lose by a longer one."
        .to_owned();
    let finding = Finding::new("read-ahead-remote", Severity::Note, &mount.place, what, why);
    let evidence = if mount.is_fuse() { &[evidence::FUSE_WINDOW][..] } else { &[evidence::LUSTRE_RULE][..] };
    Some(finding.seen(evidence).set(&bdi(mount), &window.to_string(), "4096"))
}
