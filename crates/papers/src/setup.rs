//! Set-ups: a run of a study as a value, and how large everything is in it.
//!
//! A [`Setup`] wraps the spec of one run and is ordered, so that it can be a key: two claims that need the same set-up
//! share its run. Each study makes its own from its paper's machine.

use forerun_core::size::format_size;
use forerun_sim::said::Said;
use forerun_sim::spec::RunSpec;

/// A mebibyte.
pub(super) const MIB: u64 = 1 << 20;
/// In a test sizes are one in so many.
const QUICK_SHARE: u64 = 64;

/// How large everything is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scale {
    /// Sizes of a test.
    pub(super) quick: bool,
}

impl Scale {
    /// `full` as it is, or a test's share of it.
    pub(super) const fn of(&self, full: u64) -> u64 {
        if self.quick { full.div_ceil(QUICK_SHARE) } else { full }
    }
    /// A size in mebibytes as a workload writes it; tests keep whole blocks.
    pub(super) fn mib(&self, mib: u64) -> String {
        format_size(self.of(mib * MIB) / 4096 * 4096)
    }
    /// Cache sizes, which have a least.
    pub(super) const fn cache(&self, full: u64) -> u64 {
        let least = 4 * MIB;
        let scaled = self.of(full) / 4096 * 4096;
        if full == 0 || scaled > least { scaled } else { least }
    }
}

/// One run to be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setup {
    /// All of it.
    pub(super) spec: RunSpec,
}

impl Setup {
    /// The same with the drives' own read-ahead on or off.
    pub(super) const fn readahead(mut self, on: bool) -> Self {
        self.spec.drive_readahead = Some(on);
        self
    }
    /// The same under another scheme.
    pub(super) fn under(&self, scheme: &str) -> Self {
        Self { spec: RunSpec { scheme: Said::of(scheme), ..self.spec.clone() } }
    }
    /// The same under another seed.
    pub(super) fn seeded(&self, seed: u64) -> Self {
        Self { spec: RunSpec { seed, ..self.spec.clone() } }
    }
    /// Short name: the scheme, and what else is not as usual.
    pub(super) fn label(&self) -> String {
        let spec = &self.spec;
        let name = spec.input.rsplit('/').next().unwrap_or(&spec.input);
        let mut label = format!("{} on {name}", spec.scheme);
        if spec.device != *"cheetah-15k4" {
            label += &format!(", {}", spec.device);
        }
        if spec.cache_bytes > 0 {
            label += &format!(", cache {}", format_size(spec.cache_bytes));
        }
        if spec.host_cache_bytes > 0 {
            label += &format!(", host {}", format_size(spec.host_cache_bytes));
        }
        if let Some(on) = spec.drive_readahead {
            label += if on { ", drive_readahead=on" } else { ", drive_readahead=off" };
        }
        if spec.repeat > 1 {
            label += &format!(", {} times", spec.repeat);
        }
        label
    }
}
