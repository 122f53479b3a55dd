//! From a parsed scheme to the objects of one layer.

use super::{Part, SchemeError, SchemeSpec};
use crate::policy::split::Split;
use crate::policy::{Policy, Wants};
use crate::retention::adapter::ByLine;
use crate::retention::contract::Retention;
use crate::retention::lru::Lru;
use crate::row::{Choice, Layer, LayerShape, Make, Role};
use crate::scheme::Scheme;
use crate::share::Share;
use alloc::boxed::Box;
use alloc::string::ToString as _;
use alloc::vec::Vec;

/// A layer's scheme, and the lines that its retention wants.
pub struct BuiltLayer {
    /// What decides there.
    pub scheme: Scheme,
    /// Blocks per line.
    pub line_blocks: u64,
    /// Most prefetched blocks in flight: a quarter of the cache unless the scheme keeps books itself.
    pub ahead_blocks_max: u64,
}

/// One in so many blocks of a cache may be prefetched and in flight.
const AHEAD_ONE_IN: u64 = 4;

/// Which retention stands beside the policies of a layer, if none of them keeps.
enum Keep {
    /// By recency.
    Usual,
    /// This one, of lines of a block.
    Blocks(fn(usize) -> Box<dyn Retention>),
    /// This one, of the usual lines.
    Lines(fn(&LayerShape) -> Box<dyn Retention>),
}

impl SchemeSpec {
    /// Makes the scheme of one layer. A layer without a part does not prefetch and keeps by recency: whole strips in
    /// the array layer, blocks in the host layer (design.md, "Contracts").
    #[must_use]
    pub fn build(&self, layer: Layer, shape: &LayerShape) -> BuiltLayer {
        if let Some(first) = self.first_choice(layer, shape) {
            let scheme = Self::parse(first.scheme).expect("a candidate is a scheme");
            return scheme.build(scheme.only_layer(), shape);
        }
        let (mut policies, mut keep) = (Vec::new(), Keep::Usual);
        for part in self.of(layer) {
            match part.row.make {
                Make::Keep(kept) => keep = Keep::Blocks(kept),
                Make::KeepLines(kept) => keep = Keep::Lines(kept),
                _ => policies.extend(policy(part, shape)),
            }
        }
        BuiltLayer::assemble(policies, &keep, layer, shape)
    }
}

impl BuiltLayer {
    /// A layer in which a policy of the caller's making decides, beside what is usual there.
    #[must_use]
    pub fn under(policy: Box<dyn Policy>, layer: Layer, shape: &LayerShape) -> Self {
        Self::assemble(Vec::from([policy]), &Keep::Usual, layer, shape)
    }

    fn assemble(policies: Vec<Box<dyn Policy>>, keep: &Keep, layer: Layer, shape: &LayerShape) -> Self {
        let strip_lines = layer == Layer::Array && !matches!(keep, Keep::Blocks(_));
        let line_blocks = if strip_lines { shape.strip_blocks } else { 1 };
        let lines = (shape.cache_blocks / line_blocks).max(1) as usize;
        let mut scheme = Scheme::new(policies, || match keep {
            Keep::Blocks(keep) => keep(lines),
            Keep::Lines(keep) => keep(shape),
            Keep::Usual => Box::new(ByLine::new(Lru::new(lines))),
        });
        let wants = scheme.wants();
        Self {
            line_blocks: wants.line_blocks.unwrap_or(line_blocks),
            ahead_blocks_max: wants.ahead_blocks_max.unwrap_or(shape.cache_blocks / AHEAD_ONE_IN),
            scheme,
        }
    }
}

impl SchemeSpec {
    /// What it may turn to in a layer, if it chooses.
    pub fn choices(&self, layer: Layer) -> impl Iterator<Item = &'static Choice> {
        let all: &[Choice] = self.parts().iter().find_map(Part::chooses).unwrap_or_default();
        all.iter().filter(move |choice| choice.layer == layer)
    }

    /// What it begins with there, if it chooses.
    #[must_use]
    pub fn first_choice(&self, layer: Layer, shape: &LayerShape) -> Option<&'static Choice> {
        let members = shape.disks.max(1);
        let begins = |choice: &&Choice| {
            choice.begins_over.is_some_and(|least| least <= members)
                && choice.heads.is_none_or(|heads| heads == shape.heads)
        };
        self.choices(layer).filter(begins).max_by_key(|choice| choice.begins_over)
    }

    /// The layer whose parts decide where there is one layer only: those of the page cache, if there are any.
    #[must_use]
    pub fn only_layer(&self) -> Layer {
        if self.has_host() { Layer::Host } else { Layer::Array }
    }
}

impl Part {
    /// Its candidates, if it is a chooser.
    const fn chooses(&self) -> Option<&'static [Choice]> {
        if let Make::Choose(choices) = self.row.make { Some(choices) } else { None }
    }
}

impl BuiltLayer {
    /// A layer that two schemes share, which have been checked ([`check_split`]): the one that there was, and the one that is tried.
    #[must_use]
    pub fn split(schemes: [&SchemeSpec; 2], layer: Layer, share: Share, shape: &LayerShape) -> Self {
        let arms = schemes.map(|scheme| arm(scheme, layer, shape));
        Self::under(Box::new(Split::new(arms, share)), layer, shape)
    }
}

/// The policies of a scheme, over a cache that is kept by somebody else.
fn arm(scheme: &SchemeSpec, layer: Layer, shape: &LayerShape) -> Scheme {
    let policies = scheme.of(layer).filter_map(|part| policy(part, shape)).collect();
    // Nobody asks it.
    Scheme::new(policies, || Box::new(ByLine::new(Lru::new(1))))
}

/// Why two schemes cannot share a cache.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// The values of one do not go together here.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// One of them keeps or dispatches in a way of its own.
    #[error(
        "{0} decides itself what stays in the cache or leaves when, and here is one cache for two schemes: try it in turns"
    )]
    Keeps(Box<str>),
    /// One of them chooses among others.
    #[error(
        "{0} chooses among schemes itself, by what all readers wait: name one of those, or try it in turns"
    )]
    Chooses(Box<str>),
    /// One of them keeps strips, the other blocks.
    #[error(
        "one of the two keeps whole strips and the other blocks, and here is one cache for both: try them in turns"
    )]
    Layers,
}

/// Whether two schemes can share a layer ([`Split`]).
///
/// # Errors
/// [`SplitError`], with the remedy.
pub fn check_split(schemes: [&SchemeSpec; 2], layer: Layer, shape: &LayerShape) -> Result<(), SplitError> {
    for scheme in schemes {
        let name = || scheme.to_string().into_boxed_str();
        if scheme.choices(layer).next().is_some() {
            return Err(SplitError::Chooses(name()));
        }
        scheme.check(layer, shape)?;
        if scheme.parts().iter().any(|part| part.role() != Role::Neutral && part.layer() != layer) {
            return Err(SplitError::Layers);
        }
        let keeps = |part: &Part| {
            matches!(part.row.make, Make::Keep(_) | Make::KeepLines(_))
                || policy(part, shape).is_some_and(|mut policy| {
                    let owns = policy.own_retention().is_some() || policy.own_dispatch().is_some();
                    owns || policy.wants() != Wants::default()
                })
        };
        if scheme.of(layer).any(keeps) {
            return Err(SplitError::Keeps(name()));
        }
    }
    Ok(())
}

/// The policy of a part, if it makes one; a controller's is over that of its inner part.
fn policy(part: &Part, shape: &LayerShape) -> Option<Box<dyn Policy>> {
    match part.row.make {
        Make::Policy(make) => Some(make(&part.values, shape)),
        Make::Over(make) => Some(make(&part.values, policy(part.inner(), shape)?)),
        Make::Keep(_) | Make::KeepLines(_) | Make::Choose(_) | Make::Nothing => None,
    }
}
