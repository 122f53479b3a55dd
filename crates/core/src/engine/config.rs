//! Shape and budgets of a layer, as they stand once they have been checked: what [`crate::spec::LayerSpec`] comes to.

use crate::array::Array;
use crate::cost::CostModel;
use crate::registry::LayerShape;
use crate::units::Nanos;

/// Shape and budgets of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Budget of the cache, blocks.
    pub cache_blocks: u64,
    /// Blocks of a line: a strip in the array layer, 1 in the page cache.
    pub line_blocks: u64,
    /// Fetches are cut at strips of the array; otherwise only at `command_blocks_max`, and go to disk 0 as they are.
    pub strip_aligned: bool,
    /// Blocks stay after their readers have left. Without it the layer only passes through.
    pub retain: bool,
    /// Most blocks of one fetch.
    pub command_blocks_max: u64,
    /// Most prefetched blocks in flight.
    pub ahead_blocks_max: u64,
    /// Memory for parity and rebuilding, blocks, beside the cache.
    pub staging_blocks: u64,
    /// When writes reach the members.
    pub write: WriteMode,
    /// Members forget what they have not been told to keep: a flush and a durable write are answered behind an
    /// [`crate::engine::Output::Sync`].
    pub syncs: bool,
}

/// When writes reach the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Acknowledged from memory; destaged when too much is dirty or too old.
    Back {
        /// Share of the cache that may be dirty, in percent.
        dirty_percent: u64,
        /// Age at which a dirty stripe is destaged.
        age: Nanos,
    },
    /// Acknowledged when on the members.
    Through,
}

/// What a layer offers to its scheme. To a scheme a layer that keeps nothing is one of a single block.
pub(crate) fn shape(array: &Array, cache_blocks: u64, retain: bool, cost: &CostModel) -> LayerShape {
    LayerShape {
        cache_blocks: if retain { cache_blocks.max(1) } else { 1 },
        strip_blocks: array.strip_blocks(),
        stripe_strips: array.stripe_strips(),
        disks: array.disks(),
        heads: cost.has_heads(),
    }
}
