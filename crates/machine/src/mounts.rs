//! Which file systems are mounted, and where: the lines of `/proc/self/mountinfo`.
//!
//! A file system on a device is found by the device's number. One that has no device (NFS, Ceph, FUSE) has a number of its
//! own, under which `/sys/class/bdi` keeps its read-ahead.

use crate::root::Root;
use serde::Serialize;
use std::path::Path;

/// Most mounts kept; a machine of many containers repeats few file systems.
const MOUNTS_MAX: usize = 65_536;

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// `8:1` of the device, or the number of a file system without one.
    pub number: String,
    /// Where it is.
    pub place: String,
    /// Type of the file system: `ext4`, `nfs4`, `fuse.sshfs`.
    pub kind: String,
    /// What is mounted: `/dev/sda1`, `server:/export`.
    pub source: String,
    /// Options of the file system, `rsize=1048576` among them.
    pub options: Vec<String>,
    /// `read_ahead_kb` of the file system itself, where it has one apart from a device's.
    pub read_ahead_kib: Option<u64>,
}

impl Mount {
    /// The value of an option `name=value`.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }
    /// Whether its files are on other machines, or come from a program.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        const KINDS: [&str; 11] = [
            "nfs",
            "nfs4",
            "ceph",
            "cifs",
            "smb3",
            "lustre",
            "9p",
            "virtiofs",
            "glusterfs",
            "beegfs",
            "gpfs",
        ];
        KINDS.contains(&self.kind.as_str()) || self.is_fuse()
    }
    /// Whether a program serves it.
    #[must_use]
    pub fn is_fuse(&self) -> bool {
        const QUIET: [&str; 4] = ["fuse.portal", "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.snapfuse"];
        let served = self.kind == "fuse" || self.kind.starts_with("fuse.");
        served && !QUIET.contains(&self.kind.as_str())
    }
}

/// All mounts of storage, in order of mounting; a file system that is mounted twice stands twice.
#[must_use]
pub fn read(root: &Root) -> Vec<Mount> {
    let text = root.text("proc/self/mountinfo").unwrap_or_default();
    let mounts = text.lines().filter_map(line).take(MOUNTS_MAX);
    mounts
        .map(|mut mount| {
            if mount.number.starts_with("0:") {
                let file = format!("sys/class/bdi/{}/read_ahead_kb", mount.number);
                mount.read_ahead_kib = root.number(&file);
            }
            mount
        })
        .collect()
}

/// The mount that holds a path: the deepest, and of those that lie over one another the last.
#[must_use]
pub fn holding<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let holds = mounts.iter().filter(|mount| path.is_absolute() && path.starts_with(&mount.place));
    holds.max_by_key(|mount| Path::new(&mount.place).components().count())
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn line(text: &str) -> Option<Mount> {
    let (front, back) = text.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let back: Vec<&str> = back.split(' ').collect();
    let (number, place) = (front.get(2)?, front.get(4)?);
    let (kind, source) = (back.first()?, back.get(1)?);
    let options = back.get(2).copied().unwrap_or_default();
    Some(Mount {
        number: (*number).to_owned(),
        place: unescaped(place),
        kind: (*kind).to_owned(),
        source: unescaped(source),
        options: options.split(',').map(str::to_owned).collect(),
        read_ahead_kib: None,
    })
}

/// The kernel writes blanks, tabs, line ends and backslashes of names as `\040` and so on.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|octal| u8::from_str_radix(octal, 8).ok());
        let (byte, used) = code.map_or(('\\', 1), |code| (char::from(code), 4));
        out.push(byte);
        rest = &rest[at + used..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_optional_fields_and_its_escapes() {
        let mount = line(
            r"36 35 0:52 / /mnt/my\040files rw shared:1 master:2 - nfs4 server:/a\134b rw,rsize=1048576",
        )
        .expect("complete");
        assert_eq!((mount.number.as_str(), mount.place.as_str()), ("0:52", "/mnt/my files"));
        assert_eq!((mount.source.as_str(), mount.option("rsize")), (r"server:/a\b", Some("1048576")));
        assert!(mount.is_remote() && !mount.is_fuse());
        assert_eq!(line("36 35 98:0"), None);
    }

    #[test]
    fn a_path_is_held_by_the_deepest_mount_and_the_one_on_top() {
        let mount =
            |place: &str, kind: &str| line(&format!("1 2 8:1 / {place} rw - {kind} x rw")).expect("complete");
        let mounts =
            [mount("/", "ext4"), mount("/srv", "xfs"), mount("/srv/db", "ext4"), mount("/srv/db", "zfs")];
        let kind = |path: &str| holding(&mounts, Path::new(path)).map(|mount| mount.kind.as_str());
        assert_eq!(
            (kind("/srv/db/a"), kind("/srv/db2/a"), kind("/etc/a")),
            (Some("zfs"), Some("xfs"), Some("ext4"))
        );
        assert_eq!(kind("inode:7"), None);
    }

    #[test]
    fn an_escape_that_is_none_stays() {
        assert_eq!(unescaped(r"a\04"), r"a\04");
        assert_eq!(unescaped(r"\"), r"\");
        assert_eq!(unescaped("a\\\u{e9}\u{e9}"), "a\\\u{e9}\u{e9}");
    }
}
