//! What others measured and wrote down: the figures that findings rest on, each with where it can be looked up.

use crate::finding::Evidence;

/// The kernel's rule for drives that announce no request size.
pub const ROTATIONAL_RULE: Evidence = Evidence {
    says: "since Linux 6.17 a device that is called rotational and announces no request size gets twice max_sectors_kb",
    source: "https://github.com/torvalds/linux/commit/459779d04ae8",
};
/// The same on cloud disks.
pub const AZURE_RUNNERS: Evidence = Evidence {
    says: "128 became 4,096 KiB on virtual disks of Azure; random reads flooded the page cache until it was set back",
    source: "https://github.com/actions/runner-images/pull/13938",
};
/// The same on a virtio disk.
pub const VIRTIO_DISK: Evidence = Evidence {
    says: "128 became 8,192 KiB on a virtio disk; so much more was read that it was set back",
    source: "https://github.com/dfinity/ic/pull/10315",
};
/// 64 MiB announced by the device.
pub const AKS_NODES: Evidence = Evidence {
    says: "with 64 MiB, reads rose from a few MiB/s to the volume's limit of 460 MiB/s, and fell back with 128 KiB",
    source: "https://github.com/Azure/AKS/issues/5743",
};
/// The same, by how much.
pub const AZURE_NVME: Evidence = Evidence {
    says: "random reads 50 to 500 times slower with 64 MiB than with 128 KiB",
    source: "https://github.com/Azure/azure-vm-utils/issues/99",
};
/// A rule that meant too much.
pub const LUSTRE_RULE: Evidence = Evidence {
    says: "a udev rule for NFS that matched every file system made Lustre some 100 times slower: match one thing only",
    source: "https://github.com/Azure/azhpc-images/issues/293",
};
/// NFS lost its old default.
pub const NFS_DEFAULT: Evidence = Evidence {
    says: "128 KiB whatever rsize is, where it was 15 times rsize before; 15,360 KiB was best for rsize=1048576",
    source: "https://learn.microsoft.com/en-us/azure/azure-netapp-files/performance-linux-nfs-read-ahead",
};
/// NFS by figures.
pub const NFS_RATES: Evidence = Evidence {
    says: "sequential reads over 10 Gbit/s: 300 MB/s with 128 KiB, 940 MB/s with 1 MiB",
    source: "https://honnef.co/notes/20230128011632-nfs_sequential_read_performance",
};
/// Requests smaller than the window.
pub const ROCKSDB_CUT: Evidence = Evidence {
    says: "with read-ahead above max_sectors_kb inserts were 13% slower",
    source: "https://github.com/facebook/rocksdb/issues/12038",
};
/// Arrays and volumes have a setting of their own.
pub const STACKED: Evidence = Evidence {
    says: "LVM and software RAID set read-ahead of their own; it is theirs that counts, not the disks'",
    source: "https://github.com/elastic/elasticsearch/pull/88007",
};
/// A loop reads its file through the page cache.
pub const LOOP_TWICE: Evidence = Evidence {
    says: "a loop device without direct I/O keeps its blocks twice: as its own pages and as pages of its file",
    source: "https://man7.org/linux/man-pages/man8/losetup.8.html",
};
/// The cost of a scheduler on fast disks.
pub const NO_SCHEDULER: Evidence = Evidence {
    says: "the kernel's default `none` gives better raw performance than bfq on virtual and NVMe disks",
    source: "https://github.com/microsoft/azurelinux/pull/16512",
};
/// How ZFS gains from distance.
pub const ZFS_DISTANCE: Evidence = Evidence {
    says: "sequential reads of one pool went from 1,650 to 2,750 MB/s with a longer zfetch_max_distance",
    source: "https://github.com/openzfs/zfs/issues/6453",
};
/// What ZFS says itself.
pub const ZFS_PARAMETERS: Evidence = Evidence {
    says: "zfs_prefetch_disable turns file-level prefetch off",
    source: "https://openzfs.github.io/openzfs-docs/Performance%20and%20Tuning/Module%20Parameters.html",
};
/// What bcache says itself.
pub const BCACHE_BYPASS: Evidence = Evidence {
    says: "reads go past the cache when it is congested or when they are in order beyond sequential_cutoff",
    source: "https://docs.kernel.org/admin-guide/bcache.html",
};
/// What md says itself.
pub const MD_STRIPES: Evidence = Evidence {
    says: "md reads ahead two stripes by default; stripe_cache_size may be raised at the price of memory",
    source: "https://docs.kernel.org/admin-guide/md.html",
};
/// What the kernel says of dirty memory.
pub const DIRTY_MEMORY: Evidence = Evidence {
    says: "dirty_ratio is a share of available memory, whatever the disk can write",
    source: "https://docs.kernel.org/admin-guide/sysctl/vm.html",
};
/// What the kernel says of huge pages.
pub const HUGE_PAGES: Evidence = Evidence {
    says: "with defrag=always a fault waits for memory to be compacted and reclaimed",
    source: "https://docs.kernel.org/admin-guide/mm/transhuge.html",
};
/// FUSE asks for 128 KiB unless its program says more.
pub const FUSE_WINDOW: Evidence = Evidence {
    says: "read-ahead of a FUSE mount is what its program asked for at most, 128 KiB unless it asked for more",
    source: "https://docs.kernel.org/filesystems/fuse.html",
};
