//! Which disk stands behind a name: the kernel's number of it, which no other disk of the same boot has.
//!
//! `loop0` and `sda` name places. Where one disk goes and another comes, name and device number are the same and only
//! `diskseq` (Linux 5.15) differs; it begins anew at each boot. A loop device gets another with each file.

use crate::root::Root;
use serde::{Deserialize, Serialize};

/// When a disk came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// The boot.
    pub boot: String,
    /// The kernel's number of the disk.
    pub diskseq: u64,
}

impl Arrival {
    /// Of the disk that has the name now; none where the kernel does not tell, or there is no such disk.
    #[must_use]
    pub fn of(root: &Root, device: &str) -> Option<Self> {
        let diskseq = root.number(&format!("sys/block/{}/diskseq", device.replace('/', "!")))?;
        Some(Self { boot: root.text("proc/sys/kernel/random/boot_id")?, diskseq })
    }

    /// Whether another disk is known to have the name now. Of another boot nothing is known.
    #[must_use]
    pub fn is_past(&self, root: &Root, device: &str) -> bool {
        Self::of(root, device).is_some_and(|now| now.boot == self.boot && now.diskseq != self.diskseq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_number_of_the_same_boot_is_another_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::at(folder.path());
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        put("sys/block/cciss!c0d0/size", "8\n");
        put("proc/sys/kernel/random/boot_id", "a-b\n");
        assert_eq!(Arrival::of(&root, "cciss/c0d0"), None, "an old kernel");
        put("sys/block/cciss!c0d0/diskseq", "7\n");
        let first = Arrival::of(&root, "cciss/c0d0").expect("the kernel tells");
        assert_eq!(first, Arrival { boot: "a-b".into(), diskseq: 7 });
        assert!(!first.is_past(&root, "cciss/c0d0"));
        put("sys/block/cciss!c0d0/diskseq", "9\n");
        assert!(first.is_past(&root, "cciss/c0d0"));
        assert!(!first.is_past(&root, "sda"), "nothing is there");
        put("proc/sys/kernel/random/boot_id", "c-d\n");
        assert!(!first.is_past(&root, "cciss/c0d0"), "numbers begin anew with a boot");
    }
}
