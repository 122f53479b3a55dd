//! The registry: one row per scheme, and the grammar that composes them.
//!
//! `part[+part…]`, a part being `name[(inner)][(key=value,…)]` or `name:VALUE` for a row whose first parameter may be
//! given that way (`seqp:128KiB`). Each row states its layer and parts sort themselves; a layer without a part does not
//! prefetch. At most one part that sizes and triggers per layer, but for the pair whose rules of living together the
//! ASP paper gives (`asp+msp`, section 2.5) and for daemons that work beside the kernel. A controller takes the part that it
//! controls as its first word: `rpp(amp,threshold=8)`. Adding a scheme adds a row here and touches no `match`.

mod build;
mod parse;
mod rows;

pub use build::{BuiltLayer, LayerShape};
pub use parse::{Part, SchemeError, SchemeSpec};
pub use rows::ROWS;

use crate::cost::CostModel;
use crate::policy::Policy;
use crate::retention::keep::Retention;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Where a part works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The page cache of the host that runs the programs.
    Host,
    /// The cache of the array.
    Array,
    /// No layer: it is computed from the whole input, for comparison.
    Beside,
}

impl Layer {
    /// As in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Array => "array",
            Self::Beside => "beside",
        }
    }
}

/// Which of the five questions a row answers; decides what may stand beside what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sizes and triggers prefetches.
    Prefetch,
    /// Sizes and triggers prefetches and owns retention.
    Owner,
    /// Sizes, triggers, owns retention and decides what leaves when: nothing stands beside it.
    Scheduler,
    /// Sizes and triggers, and may stand beside an owner.
    Companion,
    /// Works beside whatever else reads ahead in its layer, as a daemon beside the kernel.
    Beside,
    /// Permits and clamps what its inner part wishes; layer and role are the inner part's.
    Controller,
    /// Only keeps.
    Keep,
    /// Nothing, or computed beside the layers.
    Neutral,
}

/// Kind and unit of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, written as a size.
    Bytes,
    /// `on` or `off`.
    Switch,
    /// A share of the cache in percent; `auto` lets the scheme adapt.
    PercentOrAuto,
    /// A whole number from 1 to 2^32.
    Count,
    /// The same, or `auto`: the scheme chooses.
    CountOrAuto,
    /// Bytes, or `auto`: the scheme chooses.
    BytesOrAuto,
    /// A time: `250ms`.
    Duration,
    /// A time, or `auto`: the scheme chooses.
    DurationOrAuto,
}

impl Unit {
    /// Whether `auto` is a value.
    #[must_use]
    pub const fn may_be_auto(self) -> bool {
        matches!(self, Self::PercentOrAuto | Self::CountOrAuto | Self::BytesOrAuto | Self::DurationOrAuto)
    }
    /// As in help texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes, whole blocks of 4 KiB",
            Self::Switch => "on|off",
            Self::PercentOrAuto => "% of the cache, or auto",
            Self::Count => "a number from 1",
            Self::CountOrAuto => "a number from 1, or auto",
            Self::BytesOrAuto => "bytes, whole blocks of 4 KiB, or auto",
            Self::Duration => "a time: ns, us, ms, s",
            Self::DurationOrAuto => "a time: ns, us, ms, s, or auto",
        }
    }
}

/// One parameter of a row.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// As written.
    pub name: &'static str,
    /// What values look like.
    pub unit: Unit,
    /// In the notation of the unit.
    pub default: &'static str,
    /// One sentence.
    pub about: &'static str,
}

/// What a row makes.
pub enum Made {
    /// A policy; it keeps, too, where it has a retention of its own. Otherwise its layer's usual one does.
    Policy(Box<dyn Policy>),
    /// Only a retention, for a cache of so many lines of one block.
    Keep(fn(usize) -> Box<dyn Retention>),
}

/// One number that a scheme would use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// What it is called.
    pub name: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// The arithmetic, in words.
    pub why: String,
}

impl Explained {
    pub(crate) const fn new(name: &'static str, value: String, why: String) -> Self {
        Self { name, value, why }
    }
}

/// What is known where a scheme's numbers are explained.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// What the layer offers.
    pub shape: &'a LayerShape,
    /// What is believed of a member.
    pub cost: &'a CostModel,
    /// Blocks of a member.
    pub member_blocks: u64,
    /// Streams that are read at once.
    pub streams: u64,
}

/// One scheme.
#[derive(Debug)]
pub struct Row {
    /// As written in a scheme.
    pub name: &'static str,
    /// Where it works.
    pub layer: Layer,
    /// What it answers.
    pub role: Role,
    /// One sentence.
    pub about: &'static str,
    /// Paper and section, or file.
    pub source: &'static str,
    /// Its parameters; the first may be given as `name:VALUE`.
    pub params: &'static [Param],
    /// Why its values do not go together in a layer of this shape, and what to change, where that can be.
    pub check: Option<fn(&Part, &LayerShape) -> Option<String>>,
    /// Its numbers and the arithmetic that leads to them, where it chooses any.
    pub explain: Option<fn(&Part, &Grounds<'_>) -> Vec<Explained>>,
    /// Makes it for a layer of this shape. `None` for rows that are computed beside the layers.
    pub make: Option<fn(&Part, &LayerShape) -> Made>,
}

/// The row of this name.
#[must_use]
pub fn row(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}
