//! What a row of the table of shapes is, and how the function that plans a shape gets the values of its keys.

use super::plan::Plan;
use super::value::Kind;

/// One key of a shape.
#[derive(Debug)]
pub(super) struct Key {
    /// What it is called.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default, as a user would write it.
    pub default: &'static str,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// One line about it.
    pub about: &'static str,
}

/// One shape.
#[derive(Debug)]
pub(super) struct Row {
    /// What it is called.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Where its form and numbers come from.
    pub source: &'static str,
    /// Its keys, in the order in which they are printed.
    pub keys: &'static [Key],
    /// Applies the keys; fails with a reason when they are impossible together.
    pub plan: fn(&Values<'_>) -> Result<Box<dyn Plan>, String>,
}

/// The values of a row's keys.
pub(super) struct Values<'a> {
    row: &'static Row,
    values: &'a [u64],
}

impl Values<'_> {
    /// The value of key `name`, in the unit of its kind.
    ///
    /// # Panics
    /// When the row has no such key: a slip in this table, found by the test that plans every row.
    pub(super) fn get(&self, name: &str) -> u64 {
        let place = self.row.keys.iter().position(|key| key.name == name);
        self.values[place.unwrap_or_else(|| panic!("{} has no key {name}", self.row.name))]
    }

    /// Whether key `name` is true.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.get(name) != 0
    }
}

/// A shape, for help texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeInfo {
    /// What it is called.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Where its form and numbers come from.
    pub source: &'static str,
    /// Its keys.
    pub keys: Vec<KeyInfo>,
}

/// A key of a shape, for help texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// What it is called.
    pub name: &'static str,
    /// Its default, as a user would write it.
    pub default: &'static str,
    /// What it is counted in: `bytes`, `count`, `time`, `per cent`, `number`, `true/false` or `word`.
    pub unit: &'static str,
    /// The words that it takes, when its unit is `word`.
    pub words: &'static [&'static str],
    /// One line about it.
    pub about: &'static str,
}

impl Row {
    /// `values`, one per key, by name.
    pub(super) const fn values<'a>(&'static self, values: &'a [u64]) -> Values<'a> {
        Values { row: self, values }
    }

    /// This row for a help text.
    pub(super) fn info(&self) -> ShapeInfo {
        let key = |key: &Key| KeyInfo {
            name: key.name,
            default: key.default,
            unit: key.kind.unit(),
            words: if let Kind::Word(words) = key.kind { words } else { &[] },
            about: key.about,
        };
        ShapeInfo {
            name: self.name,
            about: self.about,
            source: self.source,
            keys: self.keys.iter().map(key).collect(),
        }
    }
}
