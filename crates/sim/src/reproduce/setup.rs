//! Set-ups: the hardware of the ASP paper's section 3.1, once, and what varies between its figures.
//!
//! Five ST373454LC as RAID-5 with strips of 128 KiB behind two Ultra320 adapters, 500 MiB of array cache, 512 MiB
//! of page cache (section 3.3 divides the memory so), the anticipatory scheduler. A [`Setup`] is what one run
//! differs in, ordered so that it can be a key: two claims that need the same set-up share its run.

use crate::spec::{RunSpec, SPEC_VERSION};
use forerun_core::size::format_size;

/// A mebibyte.
pub(super) const MIB: u64 = 1 << 20;
/// Section 3.1: "its own cache memory of 500 MiB".
pub(super) const CACHE: u64 = 500 * MIB;
/// Section 3.3: 512 MiB for the Linux system.
pub(super) const HOST_CACHE: u64 = 512 * MIB;
/// Section 3.1: two Ultra320 host bus adapters, 320 MB/s each.
const BUS_BYTES_PER_S: u64 = 640_000_000;
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
    const fn cache(&self, full: u64) -> u64 {
        let least = 4 * MIB;
        let scaled = self.of(full) / 4096 * 4096;
        if full == 0 || scaled > least { scaled } else { least }
    }
    /// `input` under `scheme` on the paper's machine.
    pub(super) fn setup(&self, input: &str, scheme: &str) -> Setup {
        Setup {
            input: input.into(),
            scheme: scheme.into(),
            cache: self.cache(CACHE),
            host_cache: self.cache(HOST_CACHE),
            readahead: None,
            repeat: 1,
        }
    }
}

/// What one run differs in from the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Setup {
    pub(super) input: String,
    pub(super) scheme: String,
    pub(super) cache: u64,
    pub(super) host_cache: u64,
    pub(super) readahead: Option<bool>,
    pub(super) repeat: u64,
}

impl Setup {
    /// The same with the drives' own read-ahead on or off.
    pub(super) fn readahead(mut self, on: bool) -> Self {
        self.readahead = Some(on);
        self
    }
    /// The same past the page cache with this array cache, repeated (Fig. 6).
    pub(super) fn direct(mut self, scale: &Scale, cache: u64, repeat: u64) -> Self {
        self.cache = scale.cache(cache);
        self.host_cache = 0;
        self.repeat = repeat;
        self
    }
    /// The same under another scheme.
    pub(super) fn under(&self, scheme: &str) -> Self {
        Self { scheme: scheme.into(), ..self.clone() }
    }
    /// Short name: the scheme, and what else is not as usual.
    pub(super) fn label(&self) -> String {
        let name = self.input.rsplit('/').next().unwrap_or(&self.input);
        let mut label = format!("{} on {name}, cache {}", self.scheme, format_size(self.cache));
        if self.host_cache > 0 {
            label += &format!(", host {}", format_size(self.host_cache));
        }
        if let Some(on) = self.readahead {
            label += if on { ", drive_readahead=on" } else { ", drive_readahead=off" };
        }
        if self.repeat > 1 {
            label += &format!(", {} times", self.repeat);
        }
        label
    }
    /// The run.
    pub(super) fn spec(&self) -> RunSpec {
        RunSpec {
            spec_version: SPEC_VERSION,
            forerun: env!("CARGO_PKG_VERSION").into(),
            input: self.input.clone(),
            input_hash: String::new(),
            map: "concat".into(),
            fit: String::new(),
            repeat: self.repeat,
            scheme: self.scheme.clone(),
            array: "raid5:5x128KiB".into(),
            device: "cheetah-15k4".into(),
            drive_readahead: self.readahead,
            scheduler: "anticipatory".into(),
            cache_bytes: self.cache,
            host_cache_bytes: self.host_cache,
            mode: "closed:1".into(),
            seed: 1,
            write: "back(dirty=25%,age=30s)".into(),
            cpu: "xeon-2005".into(),
            bus_bytes_per_s: BUS_BYTES_PER_S,
            failed: Vec::new(),
            skip_bad: false,
        }
    }
}
