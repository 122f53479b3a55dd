//! A decision as every report has it: in the JSON of `sim` and `compare`, in `/stats.json` of a server, and on its pages.
//!
//! One shape for both hosts, so that whoever reads one reads the other. With the feature `serde` it is read and written;
//! nothing else in this crate is.

use super::{Decision, Subject};
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::string::String;

/// A turn of a switch of the scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct Told {
    /// When, nanoseconds since the run or the server began.
    pub at_ns: u64,
    /// Which part of the scheme.
    pub switch: String,
    /// How often it had turned, this turn included.
    pub turn: u64,
    /// What it turned to, in a word: `on`, `off`, or what the scheme calls it.
    pub to: String,
    /// Whether it prefetches from now on (of a scale: more).
    pub on: bool,
    /// For which file, stream, reader or region; none where the scheme decides for all of them together.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub of: Option<ToldOf>,
    /// Why.
    pub reason: String,
    /// From which numbers; units stand in the names (`_ns`, `_blocks` of 4 KiB, `_bytes`, `_bytes_per_s`, `_percent`).
    pub because: BTreeMap<String, u64>,
}

/// Which of many a decision is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct ToldOf {
    /// `file`, `stream`, `reader` or `region`.
    pub kind: String,
    /// Its number among those of its kind.
    pub number: u64,
    /// Number of the process that reads; of a server, of the client.
    pub process: u64,
    /// Number of the file; 0 where there are no files.
    pub file: u64,
    /// Where it is read, as the first block of the volume.
    pub first_block: u64,
    /// How many blocks.
    pub blocks: u64,
}

impl From<&Decision> for Told {
    fn from(turn: &Decision) -> Self {
        let because = turn.because.iter().filter(|(name, _)| !name.is_empty());
        Self {
            at_ns: turn.at.0,
            switch: turn.switch.to_owned(),
            turn: turn.turn,
            to: turn.to.to_owned(),
            on: turn.on,
            of: turn.of.as_ref().map(ToldOf::from),
            reason: turn.reason.to_owned(),
            because: because.map(|&(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

impl From<&Subject> for ToldOf {
    fn from(of: &Subject) -> Self {
        Self {
            kind: of.kind.to_owned(),
            number: of.number,
            process: of.context.process(),
            file: of.context.file(),
            first_block: of.extent.start.0,
            blocks: of.extent.blocks,
        }
    }
}
