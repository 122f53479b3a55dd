//! The one door to an engine: a layer in typed parts, checked before anything runs.
//!
//! A host says what is its own (scheme, array, memory, write mode, beliefs) and leaves the rest as [`LayerSpec::array_cache`] or
//! [`LayerSpec::page_cache`] set it. [`LayerSpec::build`] gives an engine that owns its cache and [`LayerSpec::observe`] one that
//! watches the kernel's; both check first, and an error says what to change. Scenarios, oracles and tests that bring a scheme of
//! their own hand it to [`LayerSpec::build_with`] instead of the registry's. What an engine keeps of a spec is
//! [`crate::engine::Config`].

use crate::array::{Array, Level};
use crate::cost::CostModel;
use crate::dispatch::{DemandFirst, Dispatch};
use crate::engine::{Config, Engine, Observer, Parts, WriteMode, shape};
use crate::registry::{BuiltLayer, Layer, LayerShape, SchemeError, SchemeSpec};
use alloc::boxed::Box;

/// Blocks of the longest command of a page cache: 512 KiB.
const PAGE_COMMAND_BLOCKS: u64 = 128;
/// Of the memory of a layer that keeps nothing, one block in so many may be read ahead and in flight.
const TRANSIT_AHEAD_ONE_IN: u64 = 4;
/// Stripes for which a layer has staging memory unless said otherwise: one for each destage job that may work at once.
const STAGING_STRIPES: u64 = 8;

/// What a layer is made from.
#[derive(Clone, Debug)]
pub struct LayerSpec {
    /// The scheme, of which the parts of `layer` decide here.
    pub scheme: SchemeSpec,
    /// Whose parts of the scheme decide.
    pub layer: Layer,
    /// What the layer's blocks lie on; `single` under a page cache.
    pub array: Array,
    /// Memory, blocks.
    pub cache_blocks: u64,
    /// Blocks stay after their readers have left. Without it the layer only passes through.
    pub retain: bool,
    /// Fetches are cut at strips and go to the members; otherwise they are cut at `command_blocks_max` only and go to disk 0 as
    /// they are.
    pub strip_aligned: bool,
    /// Most blocks of one fetch.
    pub command_blocks_max: u64,
    /// Most prefetched blocks in flight; none is what the scheme and the memory say.
    pub ahead_blocks_max: Option<u64>,
    /// Most commands outstanding at one disk, prefetches too; none is the depth of a disk, of which half is demand's.
    pub in_flight: Option<u32>,
    /// Memory for parity and rebuilding, blocks, beside the cache.
    pub staging_blocks: u64,
    /// When writes reach the members.
    pub write: WriteMode,
    /// Members forget what they have not been told to keep: flushes are ordered to them.
    pub syncs: bool,
    /// What the policy may believe a read costs.
    pub cost: CostModel,
}

/// Why a layer cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayerError {
    /// The values of the scheme do not go together here.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// No memory at all.
    #[error("a layer needs memory even to pass blocks through: give it at least 1 block of cache")]
    Memory,
    /// Fetches of no block.
    #[error("a command moves at least 1 block: raise the most blocks of a command")]
    Command,
    /// No line at all.
    #[error("a line has at least 1 block: raise the blocks of a line")]
    Line,
    /// An array that can make up for a lost member needs working memory for it.
    #[error(
        "{array} needs at least {least} blocks of staging memory to write or rebuild a stripe, not {has}"
    )]
    Staging {
        /// The array, as written.
        array: Box<str>,
        /// What it needs.
        least: u64,
        /// What it was given.
        has: u64,
    },
}

impl LayerSpec {
    /// The cache of an array: lines and fetches are the strips of its members.
    #[must_use]
    pub fn array_cache(scheme: SchemeSpec, array: Array, cache_blocks: u64) -> Self {
        Self {
            scheme,
            layer: Layer::Array,
            cache_blocks,
            retain: true,
            strip_aligned: true,
            command_blocks_max: array.strip_blocks(),
            ahead_blocks_max: None,
            in_flight: None,
            staging_blocks: STAGING_STRIPES * staging_least(&array),
            write: WriteMode::Through,
            syncs: false,
            cost: CostModel::default(),
            array,
        }
    }

    /// A page cache over a volume, which is one device to it.
    #[must_use]
    pub fn page_cache(scheme: SchemeSpec, volume: Array, cache_blocks: u64) -> Self {
        Self {
            layer: Layer::Host,
            strip_aligned: false,
            command_blocks_max: PAGE_COMMAND_BLOCKS,
            ..Self::array_cache(scheme, volume, cache_blocks)
        }
    }

    /// What the layer offers to its scheme.
    #[must_use]
    pub fn shape(&self) -> LayerShape {
        shape(&self.array, self.cache_blocks, self.retain, &self.cost)
    }

    /// Whether everything goes together.
    ///
    /// # Errors
    /// [`LayerError`], with the remedy.
    pub fn check(&self) -> Result<(), LayerError> {
        self.scheme.check(self.layer, &self.shape())?;
        if self.cache_blocks == 0 {
            return Err(LayerError::Memory);
        }
        if self.command_blocks_max == 0 {
            return Err(LayerError::Command);
        }
        let least = if self.strip_aligned { staging_least(&self.array) } else { 0 };
        if self.staging_blocks < least {
            let array = alloc::format!("{}", self.array.spec()).into();
            return Err(LayerError::Staging { array, least, has: self.staging_blocks });
        }
        Ok(())
    }

    /// The scheme of the layer, as the registry makes it.
    #[must_use]
    pub fn built(&self) -> BuiltLayer {
        let built = self.scheme.build(self.layer, &self.shape());
        if self.retain {
            return built;
        }
        if self.scheme.choices(self.layer).next().is_some() {
            // What keeps nothing has nothing to choose.
            let scheme = SchemeSpec::parse("none").expect("none is a scheme");
            return Self { scheme, ..self.clone() }.built();
        }
        // What only passes through needs no line of a strip: with long strips each would be a large table.
        let decides = self.scheme.of(self.layer).any(|part| part.row.name != "none");
        let line_blocks = if decides { built.line_blocks } else { 1 };
        BuiltLayer { line_blocks, ahead_blocks_max: self.cache_blocks / TRANSIT_AHEAD_ONE_IN, ..built }
    }

    /// An engine that owns its cache.
    ///
    /// # Errors
    /// [`LayerError`], with the remedy.
    pub fn build(&self) -> Result<Engine, LayerError> {
        self.build_with(self.built())
    }

    /// The same under a scheme of the caller's making.
    ///
    /// # Errors
    /// [`LayerError`], with the remedy.
    pub fn build_with(&self, built: BuiltLayer) -> Result<Engine, LayerError> {
        let engine = self.parts(built, self.dispatch()).map(Engine::over)?;
        Ok(engine.choosing(&self.scheme, self.layer))
    }

    /// The same with a dispatch of the caller's making too.
    ///
    /// # Errors
    /// [`LayerError`], with the remedy.
    pub fn build_around(&self, built: BuiltLayer, dispatch: Box<dyn Dispatch>) -> Result<Engine, LayerError> {
        self.parts(built, dispatch).map(Engine::over)
    }

    /// An engine that watches a cache of the kernel's.
    ///
    /// # Errors
    /// [`LayerError`], with the remedy.
    pub fn observe(&self) -> Result<Observer, LayerError> {
        self.observe_with(self.built())
    }

    /// The same under a scheme of the caller's making.
    ///
    /// # Errors
    /// [`LayerError`], with the remedy.
    pub fn observe_with(&self, built: BuiltLayer) -> Result<Observer, LayerError> {
        let dispatch: Box<dyn Dispatch> =
            if self.strip_aligned { self.dispatch() } else { Box::new(DemandFirst::observed()) };
        self.parts(built, dispatch).map(Observer::over)
    }

    fn dispatch(&self) -> Box<dyn Dispatch> {
        let disks = usize::from(if self.strip_aligned { self.array.disks() } else { 1 });
        Box::new(
            self.in_flight.map_or_else(|| DemandFirst::new(disks), |most| DemandFirst::wide(disks, most)),
        )
    }

    fn parts(&self, built: BuiltLayer, dispatch: Box<dyn Dispatch>) -> Result<Parts, LayerError> {
        self.check()?;
        if built.line_blocks == 0 {
            return Err(LayerError::Line);
        }
        let config = Config {
            cache_blocks: self.cache_blocks,
            line_blocks: built.line_blocks,
            strip_aligned: self.strip_aligned,
            retain: self.retain,
            command_blocks_max: self.command_blocks_max,
            ahead_blocks_max: self.ahead_blocks_max.unwrap_or(built.ahead_blocks_max),
            staging_blocks: self.staging_blocks,
            write: self.write,
            syncs: self.syncs,
        };
        Ok(Parts::new(config, self.array, self.cost, built.scheme, dispatch))
    }
}

/// Blocks of staging memory with which every stripe can be written and rebuilt: each member's strip is read at most once,
/// and parity is written beside what was read.
fn staging_least(array: &Array) -> u64 {
    match array.spec().level() {
        Level::Raid5 | Level::Raid6 => u64::from(array.disks() + array.redundancy()) * array.strip_blocks(),
        Level::Single | Level::Raid0 | Level::Raid1 | Level::Raid10 => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> LayerSpec {
        let array = Array::new("raid5:4x16KiB".parse().expect("valid"), 64).expect("holds strips");
        LayerSpec::array_cache(SchemeSpec::parse("none").expect("a scheme"), array, 64)
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_its_remedy_before_anything_runs() {
        let streams = SchemeSpec::parse("streams(R=1MiB,N=4,M=512KiB)").expect("a scheme");
        let wrong = [
            (LayerSpec { cache_blocks: 0, ..spec() }, "at least 1 block of cache"),
            (LayerSpec { command_blocks_max: 0, ..spec() }, "raise the most blocks of a command"),
            (LayerSpec { staging_blocks: 19, ..spec() }, "raid5:4x16KiB needs at least 20 blocks"),
            (LayerSpec { scheme: streams, ..spec() }, "M"),
        ];
        for (spec, remedy) in wrong {
            let why = spec.build().err().expect("refused");
            let text = alloc::format!("{why}");
            assert!(text.contains(remedy), "{text}");
        }
        assert!(spec().build().is_ok() && spec().observe().is_ok());
    }

    #[test]
    fn a_layer_that_keeps_nothing_has_lines_of_a_block_unless_a_part_thinks_in_strips() {
        for (scheme, line) in [("none", 1), ("strip", 4)] {
            let scheme = SchemeSpec::parse(scheme).expect("a scheme");
            let built = LayerSpec { scheme, retain: false, ..spec() }.built();
            assert_eq!((built.line_blocks, built.ahead_blocks_max), (line, 16));
        }
    }
}
