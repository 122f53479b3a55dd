//! What can be wrong with a trace file, said once and in one shape.
//!
//! A trace comes from somebody else's tool, so every reader meets lines that it did not expect. All of them
//! answer with the same [`Malformed`]: which file, where in it, what the format's specification wants there,
//! what stood there instead, and what the user can do about it. The readers themselves only know the last
//! three (a [`Fault`]); the driver adds the file and the place. Everything else that can fail is the operating
//! system saying no.

use forerun_core::words::{did_you_mean, nearest};
use std::fmt;
use std::io;

/// Longest excerpt of the input in a message, in characters: a message stays one line.
const EXCERPT_CHARS_MAX: usize = 60;

/// Where in a file a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Line of a text format, from 1.
    Line(u64),
    /// Byte offset of a binary record in the decompressed stream, from 0.
    Byte(u64),
    /// Row of a columnar file, from 0.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(n) => write!(f, "line {n}"),
            Self::Byte(n) => write!(f, "byte {n}"),
            Self::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// One record that does not follow its format's specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place} ({format}): expected {expected}, found {found}; {remedy}")]
pub struct Malformed {
    /// Path or name of the input, as the caller gave it.
    pub file: String,
    /// Where in it.
    pub place: Place,
    /// Name of the format that was being read, or `unknown`.
    pub format: &'static str,
    /// What the specification wants there.
    pub expected: String,
    /// What stood there.
    pub found: String,
    /// What the user can do.
    pub remedy: String,
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("cannot read {file}: {source}")]
    Io {
        /// Path of the file.
        file: String,
        /// What it said.
        source: io::Error,
    },
    /// The content is not what its format says.
    #[error(transparent)]
    Malformed(Box<Malformed>),
}

impl From<Malformed> for TraceError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(Box::new(malformed))
    }
}

/// A word that names none of the values of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {found:?} is not known; one of: {known}{}", did_you_mean(nearest(found, known.split(", "))))]
pub struct UnknownWord {
    /// What was asked for.
    pub what: &'static str,
    /// What was given.
    pub found: String,
    /// What there is.
    pub known: String,
}

/// What a reader knows about a bad record; the driver adds the file and the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// What the specification wants.
    pub(crate) expected: String,
    /// What stood there.
    pub(crate) found: String,
    /// What to do, where it is more than passing over the record.
    pub(crate) remedy: Option<String>,
}

impl Fault {
    /// `expected`, but `found` (an excerpt of the input) stood there.
    pub(crate) fn new(expected: impl Into<String>, found: &str) -> Self {
        Self { expected: expected.into(), found: excerpt(found), remedy: None }
    }
    /// As [`Fault::new`], with a finding in our own words instead of an excerpt.
    pub(crate) fn told(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into(), remedy: None }
    }
    /// The same with a remedy of its own.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
    /// The same with this remedy where it has none of its own.
    pub(crate) fn or_remedy(self, remedy: &str) -> Self {
        if self.remedy.is_some() { self } else { self.remedy(remedy) }
    }
    /// The same fault, placed.
    pub(crate) fn at(self, file: &str, format: &'static str, place: Place) -> Malformed {
        Malformed {
            file: file.to_owned(),
            place,
            format,
            expected: self.expected,
            found: self.found,
            remedy: self
                .remedy
                .unwrap_or_else(|| "repair it, or pass over such records with --skip-bad".to_owned()),
        }
    }
}

/// A short, printable, quoted excerpt of the input.
pub(crate) fn excerpt(text: &str) -> String {
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(EXCERPT_CHARS_MAX).collect();
    let more = if chars.next().is_some() { "…" } else { "" };
    format!("{head:?}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_file_place_expectation_finding_and_remedy() {
        let bad = Fault::new("a sector number", "12x").at("a.spc", "spc", Place::Line(7));
        assert_eq!(
            bad.to_string(),
            "a.spc: line 7 (spc): expected a sector number, found \"12x\"; repair it, or pass over such records with --skip-bad"
        );
    }

    #[test]
    fn a_long_finding_is_cut_and_control_characters_are_escaped() {
        assert_eq!(excerpt("\u{7}"), "\"\\u{7}\"");
        assert_eq!(excerpt(&"x".repeat(99)), format!("\"{}\"…", "x".repeat(60)));
    }
}
