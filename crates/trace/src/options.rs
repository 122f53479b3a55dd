//! What a caller may say about a trace file before it is read.
//!
//! Nothing here is needed for an ordinary file: the format is found by content and the units follow from the
//! format. The options exist for what no content can tell: which of a request's events counts (it is queued,
//! issued and completed), how large an object id of a cache trace is, in which unit a converter wrote its times,
//! and which column of somebody's CSV is what.

use crate::columns::ColumnMapping;
use crate::error::UnknownWord;
use crate::format::Format;
use crate::time_unit::TimeUnit;
use std::str::FromStr;

/// Which event of a request's life becomes the record (blkparse and blktrace).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlkEvent {
    /// `Q`: a program's request enters the block layer. The only one that carries its process reliably.
    #[default]
    Queue,
    /// `D`: the driver gets it, after merging and scheduling.
    Issue,
    /// `C`: the device has answered; no process is known.
    Complete,
}

impl BlkEvent {
    /// The letter that blkparse prints.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Queue => "Q",
            Self::Issue => "D",
            Self::Complete => "C",
        }
    }
}

impl FromStr for BlkEvent {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "Q" | "q" => Ok(Self::Queue),
            "D" | "d" => Ok(Self::Issue),
            "C" | "c" => Ok(Self::Complete),
            _ => {
                Err(UnknownWord { what: "block event", found: text.to_owned(), known: "Q, D, C".to_owned() })
            }
        }
    }
}

/// How to read a trace. `ReadOptions::default()` reads every format that is found by content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format, where content must not decide.
    pub format: Option<Format>,
    /// Pass over malformed records and count them instead of failing at the first.
    pub skip_bad: bool,
    /// Columns of a CSV of the caller's own; where given and no format is named, the format is
    /// [`Format::Columns`].
    pub csv_mapping: Option<ColumnMapping>,
    /// Stop after so many records.
    pub limit: Option<u64>,
    /// Event that becomes the record in blkparse and blktrace.
    pub event: BlkEvent,
    /// Unit of the time stamps of a fio iolog version 3. fio itself writes microseconds (the default), some
    /// converters write milliseconds.
    pub fio_time: Option<TimeUnit>,
    /// Bytes that one object id of oracleGeneral stands for: an id is multiplied by it to give an offset.
    /// Default 4096 (ids are block numbers); 512 for ids that are sectors, 1 for ids that are hashes.
    pub object_bytes: Option<u64>,
}

impl ReadOptions {
    /// The defaults with a format that overrides detection.
    #[must_use]
    pub fn of(format: Format) -> Self {
        Self { format: Some(format), ..Self::default() }
    }
}
