//! From a parsed scheme to the objects of one layer.

use super::{Keep, Layer, Made, SchemeSpec};
use crate::policy::Policy;
use crate::policy::none::None as Nothing;
use crate::retention::adapter::ByLine;
use crate::retention::arc::Arc;
use crate::retention::keep::Retention;
use crate::retention::lru::Lru;
use crate::retention::s3fifo::S3Fifo;
use crate::retention::sieve::Sieve;
use crate::scheme::{Joined, Scheme};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a layer offers to its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerShape {
    /// Blocks that the cache holds.
    pub cache_blocks: u64,
    /// Blocks of a strip.
    pub strip_blocks: u64,
    /// Data strips of a stripe.
    pub stripe_strips: u64,
    /// Member disks that commands go to.
    pub disks: u16,
}

/// A layer's scheme, and the lines that its retention wants.
pub struct BuiltLayer {
    /// Policy and retention.
    pub scheme: Box<dyn Scheme>,
    /// Blocks per line.
    pub line_blocks: u64,
    /// Most prefetched blocks in flight: a quarter of the cache unless the scheme keeps books itself.
    pub ahead_blocks_max: u64,
}

/// One in so many blocks of a cache may be prefetched and in flight.
const AHEAD_ONE_IN: u64 = 4;

/// Policy and retention that share nothing, boxed.
struct Pair {
    policy: Box<dyn Policy>,
    retention: Box<dyn Retention>,
}

impl Scheme for Pair {
    fn policy(&mut self) -> &mut dyn Policy {
        &mut *self.policy
    }
    fn retention(&mut self) -> &mut dyn Retention {
        &mut *self.retention
    }
}

impl SchemeSpec {
    /// Makes the scheme of one layer. A layer without a part does not prefetch and keeps by recency: whole strips in
    /// the array layer, blocks in the host layer (design.md, "Contracts").
    #[must_use]
    pub fn build(&self, layer: Layer, shape: &LayerShape) -> BuiltLayer {
        let mut owner: Option<Box<dyn Scheme>> = None;
        let mut policies: Vec<Box<dyn Policy>> = Vec::new();
        let mut keep = None;
        for part in self.of(layer) {
            match part.row.make.map(|make| make(part, shape)) {
                Some(Made::Scheme(scheme)) => owner = Some(scheme),
                Some(Made::Policy(made)) => policies.push(made),
                Some(Made::Keep(kept)) => keep = Some(kept),
                None => {}
            }
        }
        let strip_lines = layer == Layer::Array && keep.is_none();
        let line_blocks = if strip_lines { shape.strip_blocks } else { 1 };
        let mut policies = policies.into_iter();
        let base = owner.unwrap_or_else(|| {
            let lines = (shape.cache_blocks / line_blocks).max(1) as usize;
            let retention = retention(keep.unwrap_or(Keep::Lru), lines);
            Box::new(Pair { policy: policies.next().unwrap_or_else(|| Box::new(Nothing)), retention })
        });
        let scheme: Box<dyn Scheme> = policies.fold(base, |owner, beside| Box::new(Joined { owner, beside }));
        let wants = scheme.wants();
        BuiltLayer {
            line_blocks: wants.line_blocks.unwrap_or(line_blocks),
            ahead_blocks_max: wants.ahead_blocks_max.unwrap_or(shape.cache_blocks / AHEAD_ONE_IN),
            scheme,
        }
    }
}

fn retention(keep: Keep, entries: usize) -> Box<dyn Retention> {
    match keep {
        Keep::Lru => Box::new(ByLine::new(Lru::new(entries))),
        Keep::Arc => Box::new(ByLine::new(Arc::new(entries))),
        Keep::S3Fifo => Box::new(ByLine::new(S3Fifo::new(entries))),
        Keep::Sieve => Box::new(ByLine::new(Sieve::new(entries))),
    }
}
