//! What is not a device: the kernel's version, memory and how it is given back, file systems with settings of their own.

use crate::root::Root;
use crate::zfs::Zfs;
use serde::Serialize;

/// Kernel, memory and virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct System {
    /// `6.18.44-fc`.
    pub kernel: String,
    /// Who made the machine, as its firmware says.
    pub maker: Option<String>,
    /// What it calls itself.
    pub product: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Memory that may be used without swapping.
    pub available_bytes: u64,
    /// Swap in bytes, and how much of it is used.
    pub swap_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
    /// Devices and files that are swap.
    pub swaps: Vec<String>,
    /// `vm.swappiness`.
    pub swappiness: Option<u64>,
    /// Most bytes that may wait to be written before writers are held up.
    pub dirty_limit_bytes: u64,
    /// `transparent_hugepage/enabled`.
    pub huge_pages: Option<String>,
    /// `transparent_hugepage/defrag`.
    pub huge_pages_defrag: Option<String>,
    /// Settings of ZFS, where it is loaded.
    pub zfs: Option<Zfs>,
}

impl System {
    /// Reads all that is told.
    #[must_use]
    pub fn read(root: &Root) -> Self {
        let meminfo = root.text("proc/meminfo").unwrap_or_default();
        let memory = |name: &str| kib(&meminfo, name).unwrap_or(0).saturating_mul(1024);
        let vm = |name: &str| root.number(&format!("proc/sys/vm/{name}"));
        let available = memory("MemAvailable");
        let ratio = vm("dirty_ratio").unwrap_or(20);
        let bytes = vm("dirty_bytes").filter(|&bytes| bytes > 0);
        let swaps = root.text("proc/swaps").unwrap_or_default();
        let huge = |name: &str| {
            let text = root.text(&format!("sys/kernel/mm/transparent_hugepage/{name}"))?;
            Some(text.split('[').nth(1)?.split(']').next()?.to_owned())
        };
        Self {
            kernel: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            maker: root.text("sys/class/dmi/id/sys_vendor"),
            product: root.text("sys/class/dmi/id/product_name"),
            memory_bytes: memory("MemTotal"),
            available_bytes: available,
            swap_bytes: memory("SwapTotal"),
            swap_used_bytes: memory("SwapTotal").saturating_sub(memory("SwapFree")),
            swaps: swaps
                .lines()
                .skip(1)
                .filter_map(|line| line.split_whitespace().next())
                .map(str::to_owned)
                .collect(),
            swappiness: vm("swappiness"),
            dirty_limit_bytes: bytes.unwrap_or(available / 100 * ratio),
            huge_pages: huge("enabled"),
            huge_pages_defrag: huge("defrag"),
            zfs: Zfs::read(root),
        }
    }

    /// Whether the kernel is of this version or a later one.
    #[must_use]
    pub fn kernel_is_at_least(&self, major: u64, minor: u64) -> bool {
        version(&self.kernel).is_some_and(|version| version >= (major, minor))
    }
}

/// `6.18.44-fc` is 6 and 18.
fn version(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// `MemTotal:  1024 kB`.
fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_kernels_are_compared_as_numbers() {
        let of = |kernel: &str| System { kernel: kernel.into(), ..System::default() };
        assert!(of("6.18.44-fc-v669").kernel_is_at_least(6, 17));
        assert!(of("7.0-rc1").kernel_is_at_least(6, 17));
        assert!(!of("6.8.0-azure").kernel_is_at_least(6, 17));
        assert!(!of("strange").kernel_is_at_least(2, 6));
    }
}
