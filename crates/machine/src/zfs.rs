//! ZFS: the settings of its module.
//!
//! Files of ZFS are not in the kernel's page cache and do not obey `read_ahead_kb`: its own prefetcher reads ahead, into a cache of its own (the ARC).
//! What that does is said by parameters of the module. A parameter that a version does not have is absent here, and what stands for it is what
//! that version did.

use crate::root::Root;
use serde::Serialize;

/// Where the parameters of the module are, below the root.
pub const PARAMETERS: &str = "sys/module/zfs/parameters";

/// Settings of ZFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Zfs {
    /// `2.2.4-1`.
    pub version: String,
    /// Whether it reads ahead at all.
    pub prefetch: bool,
    /// Most bytes that a stream is read ahead.
    pub distance_bytes: Option<u64>,
    /// Bytes up to which the distance of a stream doubles; absent in old versions, where it doubles up to the largest.
    pub min_distance_bytes: Option<u64>,
    /// How far from a stream an access may lie and still belong to it; absent in old versions, where none may.
    pub reorder_bytes: Option<u64>,
    /// Most streams of a file.
    pub streams: Option<u64>,
    /// Most memory of its cache.
    pub arc_bytes: Option<u64>,
}

impl Zfs {
    /// What the module says; none where it is not loaded.
    #[must_use]
    pub fn read(root: &Root) -> Option<Self> {
        let setting = |name: &str| root.number(&format!("{PARAMETERS}/{name}"));
        if !root.has("sys/module/zfs") {
            return None;
        }
        Some(Self {
            version: root.text("sys/module/zfs/version").unwrap_or_default(),
            prefetch: setting("zfs_prefetch_disable") != Some(1),
            distance_bytes: setting("zfetch_max_distance"),
            min_distance_bytes: setting("zfetch_min_distance"),
            reorder_bytes: setting("zfetch_max_reorder"),
            streams: setting("zfetch_max_streams"),
            // 0 is a default of the version's own, which the statistics tell.
            arc_bytes: arc(root, "c_max").or_else(|| setting("zfs_arc_max").filter(|&bytes| bytes > 0)),
        })
    }
}

/// Bytes that the cache of ZFS holds at the moment; none where it is not loaded.
#[must_use]
pub fn cached_bytes(root: &Root) -> Option<u64> {
    arc(root, "size")
}

/// `c_max                           4    8589934592`.
fn arc(root: &Root, name: &str) -> Option<u64> {
    let text = root.text("proc/spl/kstat/zfs/arcstats")?;
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_version_does_not_have_is_absent_and_the_statistics_know_the_size_of_the_cache() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let root = Root::at(folder.path());
        assert_eq!((Zfs::read(&root), cached_bytes(&root)), (None, None));
        put("sys/module/zfs/parameters/zfetch_max_streams", "8\n");
        put("sys/module/zfs/parameters/zfs_arc_max", "0\n");
        let old = Zfs::read(&root).expect("loaded");
        let expected = Zfs { prefetch: true, streams: Some(8), ..Zfs::default() };
        assert_eq!(old, expected);
        put("sys/module/zfs/parameters/zfetch_max_reorder", "16777216\n");
        put("sys/module/zfs/parameters/zfs_prefetch_disable", "1\n");
        put(
            "proc/spl/kstat/zfs/arcstats",
            "13 1 0x01 123\nname type data\nsize 4 1000\nc_max 4 8589934592\n",
        );
        let new = Zfs::read(&root).expect("loaded");
        assert_eq!((new.prefetch, new.reorder_bytes, new.arc_bytes), (false, Some(16 << 20), Some(8 << 30)));
        assert_eq!(cached_bytes(&root), Some(1_000));
    }
}
