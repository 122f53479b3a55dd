//! A row of the registry: what a scheme says of itself, and how it is made.
//!
//! Each scheme's own file holds its row, so that its name, its parameters with their units and defaults, its source and the
//! code that they lead to stand together; the registry is only the list. A parameter's default is a typed value and is said
//! once, here or by the scheme's own configuration: help, canonical text, docs and `make` all take it from the row. Text
//! becomes a [`Value`] at the edge, once, and a row reads its [`Values`] by name and kind; to ask for a parameter that it does
//! not have is a mistake of ours and asserts.

use crate::cost::CostModel;
use crate::policy::Policy;
use crate::retention::contract::Retention;
use crate::size::{format_size, format_time, parse_size, parse_time};
use crate::units::{BLOCK_BYTES, Nanos};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Largest value of a count: anything that is counted here fits 32 bits.
const COUNT_MAX: u64 = 1 << 32;

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
    /// Sizes and triggers for all of its layer, and leaves to others what stays: a companion may stand beside it, and what only keeps.
    Lead,
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
    /// Decides which other scheme decides, in every layer that keeps anything; stands alone.
    Chooser,
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
    /// The same, or 0.
    CountOrNone,
    /// A number from 1, or `auto`: the scheme chooses.
    CountOrAuto,
    /// Bytes, or `auto`: the scheme chooses.
    BytesOrAuto,
    /// A time: `250ms`.
    Duration,
    /// A time, or `auto`: the scheme chooses.
    DurationOrAuto,
}

impl Unit {
    /// As in help texts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes, whole blocks of 4 KiB",
            Self::Switch => "on|off",
            Self::PercentOrAuto => "% of the cache, or auto",
            Self::Count => "a number from 1",
            Self::CountOrNone => "a number from 0",
            Self::CountOrAuto => "a number from 1, or auto",
            Self::BytesOrAuto => "bytes, whole blocks of 4 KiB, or auto",
            Self::Duration => "a time: ns, us, ms, s",
            Self::DurationOrAuto => "a time: ns, us, ms, s, or auto",
        }
    }

    /// The value that a text means; `None` where it means none of this unit.
    fn read(self, text: &str) -> Option<Value> {
        let is_auto = text == "auto";
        match self {
            Self::PercentOrAuto | Self::CountOrAuto | Self::BytesOrAuto | Self::DurationOrAuto if is_auto => {
                Some(Value::Auto)
            }
            Self::Bytes | Self::BytesOrAuto => {
                let bytes = parse_size(text).ok()?;
                (bytes >= BLOCK_BYTES && bytes % BLOCK_BYTES == 0).then_some(Value::Bytes(bytes))
            }
            Self::Switch => match text {
                "on" => Some(Value::Switch(true)),
                "off" => Some(Value::Switch(false)),
                _ => None,
            },
            Self::PercentOrAuto => {
                let percent = text.trim_end_matches('%').parse().ok()?;
                (1..=100).contains(&percent).then_some(Value::Percent(percent))
            }
            Self::Count | Self::CountOrAuto => {
                let count = text.parse().ok()?;
                (1..=COUNT_MAX).contains(&count).then_some(Value::Count(count))
            }
            Self::CountOrNone => {
                let count = text.parse().ok()?;
                (0..=COUNT_MAX).contains(&count).then_some(Value::Count(count))
            }
            Self::Duration | Self::DurationOrAuto => parse_time(text).map(|ns| Value::Time(Nanos(ns))),
        }
    }
}

/// The value of a parameter. It prints in its one canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Whole blocks, at least one.
    Bytes(u64),
    /// On or off.
    Switch(bool),
    /// Of the cache, 1 to 100.
    Percent(u64),
    /// From 1; where the unit says so, from 0.
    Count(u64),
    /// A time.
    Time(Nanos),
    /// The scheme chooses.
    Auto,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes) => f.write_str(&format_size(bytes)),
            Self::Switch(on) => f.write_str(if on { "on" } else { "off" }),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Time(time) => f.write_str(&format_time(time.0)),
            Self::Auto => f.write_str("auto"),
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
    /// What it is unless given.
    pub default: Value,
    /// One sentence.
    pub about: &'static str,
    /// The least and the greatest value, where it has bounds beside those of its unit.
    pub bounds: Option<(Value, Value)>,
}

impl Param {
    const fn new(name: &'static str, unit: Unit, default: Value, about: &'static str) -> Self {
        Self { name, unit, default, about, bounds: None }
    }
    /// Bytes.
    #[must_use]
    pub const fn bytes(name: &'static str, usual: u64, about: &'static str) -> Self {
        Self::new(name, Unit::Bytes, Value::Bytes(usual), about)
    }
    /// Bytes; the scheme chooses unless given.
    #[must_use]
    pub const fn bytes_or_auto(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Unit::BytesOrAuto, Value::Auto, about)
    }
    /// On or off.
    #[must_use]
    pub const fn switch(name: &'static str, usual: bool, about: &'static str) -> Self {
        Self::new(name, Unit::Switch, Value::Switch(usual), about)
    }
    /// A share of the cache; the scheme chooses unless given.
    #[must_use]
    pub const fn percent_or_auto(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Unit::PercentOrAuto, Value::Auto, about)
    }
    /// A number.
    #[must_use]
    pub const fn count(name: &'static str, usual: u64, about: &'static str) -> Self {
        Self::new(name, Unit::Count, Value::Count(usual), about)
    }
    /// A number, of which 0 is none.
    #[must_use]
    pub const fn count_or_none(name: &'static str, usual: u64, about: &'static str) -> Self {
        Self::new(name, Unit::CountOrNone, Value::Count(usual), about)
    }
    /// A number; the scheme chooses unless given.
    #[must_use]
    pub const fn count_or_auto(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Unit::CountOrAuto, Value::Auto, about)
    }
    /// A time.
    #[must_use]
    pub const fn time(name: &'static str, usual: Nanos, about: &'static str) -> Self {
        Self::new(name, Unit::Duration, Value::Time(usual), about)
    }
    /// A time; the scheme chooses unless given.
    #[must_use]
    pub const fn time_or_auto(name: &'static str, about: &'static str) -> Self {
        Self::new(name, Unit::DurationOrAuto, Value::Auto, about)
    }
    /// With bounds.
    #[must_use]
    pub const fn within(self, least: Value, most: Value) -> Self {
        Self { bounds: Some((least, most)), ..self }
    }

    /// The value that a text means.
    ///
    /// # Errors
    /// Why it means none, or one that this parameter cannot have.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = self.unit.read(text).ok_or_else(|| format!("is not a value of {}", self.unit.name()))?;
        let outside = |least, most| match (value, least, most) {
            (Value::Bytes(it), Value::Bytes(least), Value::Bytes(most))
            | (Value::Count(it), Value::Count(least), Value::Count(most)) => it < least || it > most,
            (Value::Time(it), Value::Time(least), Value::Time(most)) => it < least || it > most,
            _ => false,
        };
        match self.bounds {
            Some((least, most)) if outside(least, most) => {
                Err(format!("is out of bounds: from {least} to {most}"))
            }
            _ => Ok(value),
        }
    }
}

/// The values of a row's parameters.
#[derive(Clone, Debug)]
pub struct Values {
    params: &'static [Param],
    values: Vec<Value>,
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Values {
    /// The defaults of a row.
    #[must_use]
    pub fn usual(row: &Row) -> Self {
        Self { params: row.params, values: row.params.iter().map(|param| param.default).collect() }
    }
    /// Another value of the parameter with this number.
    pub(crate) fn set(&mut self, number: usize, value: Value) {
        self.values[number] = value;
    }
    /// Parameters and values, in the row's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Param, Value)> + '_ {
        self.params.iter().zip(self.values.iter().copied())
    }
    fn of(&self, name: &str) -> Value {
        let found = self.iter().find(|(param, _)| param.name == name);
        found.expect("a row asks for its own parameters").1
    }
    /// Bytes; `None` is `auto`.
    ///
    /// # Panics
    /// As all of these, if the row has no such parameter of this kind.
    #[must_use]
    pub fn bytes_or_auto(&self, name: &str) -> Option<u64> {
        match self.of(name) {
            Value::Bytes(bytes) => Some(bytes),
            other => auto(name, other),
        }
    }
    /// Bytes.
    #[must_use]
    pub fn bytes(&self, name: &str) -> u64 {
        self.bytes_or_auto(name).expect("the parameter has a value")
    }
    /// Bytes, in blocks; `None` is `auto`.
    #[must_use]
    pub fn blocks_or_auto(&self, name: &str) -> Option<u64> {
        self.bytes_or_auto(name).map(|bytes| bytes / BLOCK_BYTES)
    }
    /// Bytes, in blocks.
    #[must_use]
    pub fn blocks(&self, name: &str) -> u64 {
        self.bytes(name) / BLOCK_BYTES
    }
    /// Whether it is on.
    #[must_use]
    pub fn switch(&self, name: &str) -> bool {
        matches!(self.of(name), Value::Switch(true))
    }
    /// A share in percent; `None` is `auto`.
    #[must_use]
    pub fn percent_or_auto(&self, name: &str) -> Option<u64> {
        match self.of(name) {
            Value::Percent(percent) => Some(percent),
            other => auto(name, other),
        }
    }
    /// A number; `None` is `auto`.
    #[must_use]
    pub fn count_or_auto(&self, name: &str) -> Option<u64> {
        match self.of(name) {
            Value::Count(count) => Some(count),
            other => auto(name, other),
        }
    }
    /// A number.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.count_or_auto(name).expect("the parameter has a value")
    }
    /// A time; `None` is `auto`.
    #[must_use]
    pub fn time_or_auto(&self, name: &str) -> Option<Nanos> {
        match self.of(name) {
            Value::Time(time) => Some(time),
            other => auto(name, other),
        }
    }
    /// A time.
    #[must_use]
    pub fn time(&self, name: &str) -> Nanos {
        self.time_or_auto(name).expect("the parameter has a value")
    }
}

/// `None` for a value that is left to the scheme.
fn auto<T>(name: &str, value: Value) -> Option<T> {
    assert_eq!(value, Value::Auto, "{name} is of another kind");
    None
}

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
    /// They have heads that must be moved.
    pub heads: bool,
}

/// How a row becomes what decides.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// Nothing: it is computed beside the layers.
    Nothing,
    /// A policy; it keeps, too, where it has a retention of its own. Otherwise its layer's usual one does.
    Policy(fn(&Values, &LayerShape) -> Box<dyn Policy>),
    /// A controller over what its inner part makes.
    Over(fn(&Values, Box<dyn Policy>) -> Box<dyn Policy>),
    /// Only a retention, for a cache of so many lines of one block.
    Keep(fn(usize) -> Box<dyn Retention>),
    /// Only a retention, of the lines that its layer keeps where no part does: strips in the cache of an array.
    KeepLines(fn(&LayerShape) -> Box<dyn Retention>),
    /// One of these, in turn; the first of a layer to begin with.
    Choose(&'static [Choice]),
}

/// A scheme that a chooser may turn to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// In which layer.
    pub layer: Layer,
    /// As written. Its parts decide there whatever layer they are made for.
    pub scheme: &'static str,
    /// It decides first over so many members and more; of several such choices the one that asks for most members.
    pub begins_over: Option<u16>,
    /// And only over members with heads, or without; none is over both.
    pub heads: Option<bool>,
    /// It stands there over so many members, the least and the most.
    pub members: (u16, u16),
    /// It is not turned to in the first second: it begins anew, and what stands there reads ahead as well.
    pub late: bool,
}

impl Choice {
    /// Whether it stands there over so many members.
    #[must_use]
    pub const fn stands_over(&self, members: u16) -> bool {
        self.members.0 <= members && members <= self.members.1
    }
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
    /// It works in the other layer as well: where parts that work in the array layer alone stand beside it, in theirs.
    pub either: bool,
    /// What it answers.
    pub role: Role,
    /// One sentence.
    pub about: &'static str,
    /// Paper and section, or file.
    pub source: &'static str,
    /// Its parameters; the first may be given as `name:VALUE`.
    pub params: &'static [Param],
    /// It is always written `name:VALUE`, even where the value is the usual one.
    pub colon: bool,
    /// Why its values do not go together in a layer of this shape, and what to change, where that can be.
    pub check: Option<fn(&Values, &LayerShape) -> Option<String>>,
    /// Its numbers and the arithmetic that leads to them, where it chooses any.
    pub explain: Option<fn(&Values, &Grounds<'_>) -> Vec<Explained>>,
    /// How it is made.
    pub make: Make,
}

impl Row {
    /// A row that says nothing: for what a row leaves out.
    pub const PLAIN: Self = Self {
        name: "",
        layer: Layer::Host,
        either: false,
        role: Role::Prefetch,
        about: "",
        source: "",
        params: &[],
        colon: false,
        check: None,
        explain: None,
        make: Make::Nothing,
    };

    /// The value that a text means for the parameter of this name: its number and the value.
    ///
    /// # Errors
    /// [`NoParam`].
    pub(crate) fn read(&self, key: &str, text: &str) -> Result<(usize, Value), NoParam> {
        let (at, param) =
            self.params.iter().enumerate().find(|(_, param)| param.name == key).ok_or(NoParam::Name)?;
        let value = param.read(text).map_err(|why| NoParam::Value(param.name, why))?;
        Ok((at, value))
    }
}

/// Why a row cannot take a parameter.
pub(crate) enum NoParam {
    /// It has none of this name.
    Name,
    /// The parameter of this name cannot have the value, and why.
    Value(&'static str, String),
}
