//! Everything that determines a run, as typed data: written into every report, read back from a `.toml` file.
//!
//! The same spec and the same input give the same bytes of output, so a spec names its input by content hash and
//! carries no path-dependent default: what a command line leaves out is filled in here before the run.

use crate::advised::Advised;
use crate::cpu::Cpu;
use crate::layout::LayoutSpec;
use crate::replay::{Fit, Map, Mode};
use crate::said::{FileSizes, Said};
use forerun_core::array::ArraySpec;
use forerun_core::engine::WriteMode;
use forerun_core::registry::SchemeSpec;
use forerun_disk::host_queue::HostPolicy;
use forerun_disk::preset::{DriveCache, Preset};
use serde::{Deserialize, Serialize};

/// Version of the spec's layout; a reader refuses a later one and says so.
pub const SPEC_VERSION: u32 = 1;

/// One run: an input under one scheme on one set of hardware.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// [`SPEC_VERSION`] of the writer.
    pub spec_version: u32,
    /// Version of Forerun that wrote it.
    pub forerun: String,
    /// A trace file's path, that of a `.toml` file with a workload, or a one-line workload, as given.
    pub input: String,
    /// Hash of the trace file's bytes, or of the canonical workload line; empty in a hand-written spec.
    #[serde(default)]
    pub input_hash: String,
    /// How the devices of a trace are laid onto the array: `concat`, `one-array-each`, `only:DEV`.
    #[serde(default = "default_map")]
    pub map: Said<Map>,
    /// `modulo` wraps a footprint beyond capacity; empty refuses it.
    #[serde(default = "default_fit")]
    pub fit: Said<Fit>,
    /// How often the input is replayed, one after the other.
    #[serde(default = "one")]
    pub repeat: u64,
    /// The scheme, in the grammar of the registry: `asp+msp`, `seqp:128KiB`.
    pub scheme: Said<SchemeSpec>,
    /// The array: `raid5:5x128KiB`.
    pub array: Said<ArraySpec>,
    /// Preset name or file of the member device.
    pub device: Said<Preset>,
    /// Whether a mechanical drive reads ahead into its own cache; the preset's word where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_readahead: Option<bool>,
    /// Segments of a mechanical drive's own cache, `16x512KiB` or `16x512KiB,fill`, or `off`; the preset's where empty.
    #[serde(default = "of_the_preset", skip_serializing_if = "is_of_the_preset")]
    pub drive_cache: Said<Option<DriveCache>>,
    /// Whether a write ends in the drive's own cache (`true`) or on its medium; the preset's word where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_write_cache: Option<bool>,
    /// Scheduler of the host's queue above each member: `fcfs`, `clook`, `anticipatory`.
    pub scheduler: Said<Option<HostPolicy>>,
    /// Bytes of the array layer's cache; 0 for none.
    pub cache_bytes: u64,
    /// Bytes of the host's page cache; 0 for none.
    pub host_cache_bytes: u64,
    /// Replay mode: `open`, `closed:N`, `paced`.
    pub mode: Said<Mode>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Write policy of the array layer: `back(dirty=25%,age=30s)` or `through`.
    pub write: Said<WriteMode>,
    /// CPU preset: cost per request and copy bandwidth of each layer.
    pub cpu: Said<Cpu>,
    /// Bytes per second of the array controller's bus, shared by all members; 0 = unlimited.
    #[serde(default)]
    pub bus_bytes_per_s: u64,
    /// Time, in ns, that the array controller takes for each buffer that it holds, whenever one of them passes: a buffer
    /// is a command that has left for a member and whose data has not passed yet. 0 = none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub buffer_cost_ns: u64,
    /// Numbers of failed members.
    #[serde(default)]
    pub failed: Vec<u16>,
    /// Whether malformed records of a trace are passed over (and counted) instead of being an error.
    #[serde(default)]
    pub skip_bad: bool,
    /// How files lie on the volume: `contiguous`, or `fragmented(extent=64KiB,spread=1)`.
    #[serde(default = "default_layout", skip_serializing_if = "is_default_layout")]
    pub layout: Said<LayoutSpec>,
    /// `known`: read-ahead stops at the end of a file. `unknown`: it may run past it, as in the RPP paper's model.
    #[serde(default = "default_file_sizes", skip_serializing_if = "is_default_file_sizes")]
    pub file_sizes: Said<FileSizes>,
    /// Most blocks of one command of the host layer, and of adjacent commands that the scheduler merges.
    #[serde(default = "default_cluster", skip_serializing_if = "is_default_cluster")]
    pub cluster_blocks: u64,
    /// What programs say of single files of a trace (`posix_fadvise`), by their names: `random:/srv/*.idx,sequential:/srv/data.bin`.
    #[serde(default = "nothing_advised", skip_serializing_if = "is_nothing_advised")]
    pub advise: Said<Advised>,
}

/// Longest command of the host layer where a spec does not say, in blocks: 512 KiB, the block layer's `max_sectors_kb`.
pub const CLUSTER_BLOCKS: u64 = 128;

impl Default for RunSpec {
    /// No input under no scheme on one disk without caches: what a caller does not care to say.
    fn default() -> Self {
        Self {
            spec_version: SPEC_VERSION,
            forerun: env!("CARGO_PKG_VERSION").into(),
            input: String::new(),
            input_hash: String::new(),
            map: default_map(),
            fit: default_fit(),
            repeat: 1,
            scheme: Said::of("none"),
            array: Said::of("single"),
            device: Said::of("cheetah-15k4"),
            drive_readahead: None,
            drive_cache: of_the_preset(),
            drive_write_cache: None,
            scheduler: Said::of("anticipatory"),
            cache_bytes: 0,
            host_cache_bytes: 0,
            mode: Said::of("closed:1"),
            seed: 1,
            write: Said::of("back(dirty=25%,age=30s)"),
            cpu: Said::of("xeon-2005"),
            bus_bytes_per_s: 0,
            buffer_cost_ns: 0,
            failed: Vec::new(),
            skip_bad: false,
            layout: default_layout(),
            file_sizes: default_file_sizes(),
            cluster_blocks: CLUSTER_BLOCKS,
            advise: nothing_advised(),
        }
    }
}

impl RunSpec {
    /// Whether a request moves the sectors that it names: where no layer keeps anything, nobody has use for the rest of a block.
    #[must_use]
    pub const fn moves_sectors(&self) -> bool {
        self.cache_bytes == 0 && self.host_cache_bytes == 0 && self.failed.is_empty()
    }

    /// Whether a scheduler that waits for a reader's next request is left out: that pays where a head stays near for it, and
    /// above a device without one there is no scheduler then.
    #[must_use]
    pub fn waits_in_vain(&self) -> bool {
        *self.scheduler == Some(HostPolicy::Anticipatory) && !self.device.is_mechanical()
    }

    /// The scheduler in words, and where another one is used than was said, which.
    #[must_use]
    pub fn scheduler_in_words(&self) -> String {
        if self.waits_in_vain() {
            return format!("none ({} is for devices with a head)", self.scheduler);
        }
        self.scheduler.text().to_owned()
    }
}

// What is at its default is not written, so that a spec of an earlier version comes out as it went in.
fn default_layout() -> Said<LayoutSpec> {
    Said::of("contiguous")
}

fn is_default_layout(layout: &Said<LayoutSpec>) -> bool {
    *layout == *"contiguous"
}

fn default_file_sizes() -> Said<FileSizes> {
    Said::of("known")
}

fn is_default_file_sizes(file_sizes: &Said<FileSizes>) -> bool {
    *file_sizes == *"known"
}

fn of_the_preset() -> Said<Option<DriveCache>> {
    Said::of("")
}

fn is_of_the_preset(cache: &Said<Option<DriveCache>>) -> bool {
    cache.is_none()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) const fn is_zero(number: &u64) -> bool {
    *number == 0
}

const fn default_cluster() -> u64 {
    CLUSTER_BLOCKS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_default_cluster(blocks: &u64) -> bool {
    *blocks == CLUSTER_BLOCKS
}

fn nothing_advised() -> Said<Advised> {
    Said::of("")
}

fn is_nothing_advised(advise: &Said<Advised>) -> bool {
    advise.is_empty()
}

fn default_map() -> Said<Map> {
    Said::of("concat")
}

fn default_fit() -> Said<Fit> {
    Said::of("")
}

const fn one() -> u64 {
    1
}
