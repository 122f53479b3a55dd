//! The mapping by which any separated text is read: `time=0:us,offset=3:sectors,bytes=4,op=2`.
//!
//! The mapping is a list of `key=value`. `time`, `offset`, `bytes`, `op`, `device`, `process`, `file`, `took` (how long
//! the request took) and `filesize` (size of the file) name a column by number (from 0) or, when the text has a heading
//! line, by its heading; `:unit` may follow for `time` and `took` (ns, 100ns, us, ms, s; default s) and for `offset`,
//! `bytes` and `filesize` (bytes, sectors, blocks, KiB, MiB; default bytes). `size=N` gives every request the same
//! length instead of a column; `read=WORD` and `write=WORD` say what the operation column holds where it is not a word
//! that begins with R or W; without an `op` column all are reads. `sep=comma|tab|space|semicolon|pipe`, `header=N`
//! lines to pass over, and `zero=first|file`: whether the earliest request is time zero (default) or times are kept.

use crate::field::{self, Fields};
use crate::time_unit::TimeUnit;
use forerun_core::units::{BLOCK_BYTES, SECTOR_BYTES};
use forerun_core::words::{did_you_mean, nearest};
use std::str::FromStr;

/// The keys of a mapping.
pub const KEYS: [&str; 15] = [
    "time", "offset", "bytes", "size", "op", "read", "write", "device", "process", "file", "took",
    "filesize", "sep", "header", "zero",
];

/// Where a column is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By its number, from 0.
    Number(usize),
    /// By its heading in the first line.
    Heading(String),
}

/// A column of lengths or addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sized {
    /// Where it is.
    pub column: Column,
    /// Bytes in one unit of it.
    pub unit: u64,
}

/// What separates the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Separator {
    /// `,`
    #[default]
    Comma,
    /// A tabulator.
    Tab,
    /// Runs of blanks.
    Blanks,
    /// `;`
    Semicolon,
    /// `|`
    Pipe,
}

impl Separator {
    /// All, those first that stand in a text for nothing else.
    const ALL: [Self; 5] = [Self::Tab, Self::Semicolon, Self::Pipe, Self::Comma, Self::Blanks];

    /// Its word in a mapping.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Comma => "comma",
            Self::Tab => "tab",
            Self::Blanks => "space",
            Self::Semicolon => "semicolon",
            Self::Pipe => "pipe",
        }
    }
    /// What this line is cut at, where it is not at this.
    pub(crate) fn other(self, line: &str) -> Option<Self> {
        let cuts = |other: &Self| other.cut(line).len() > 1;
        if cuts(&self) { None } else { Self::ALL.into_iter().find(cuts) }
    }
    pub(crate) fn cut(self, line: &str) -> Fields<'_> {
        match self {
            Self::Comma => Fields::quoted(line, ','),
            Self::Tab => Fields::quoted(line, '\t'),
            Self::Blanks => Fields::blank_separated(line),
            Self::Semicolon => Fields::quoted(line, ';'),
            Self::Pipe => Fields::quoted(line, '|'),
        }
    }
}

/// How long a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Length {
    /// Given by a column.
    Column(Sized),
    /// The same for all, in bytes.
    Constant(u64),
}

/// Which column of a text is what. Made from its one-line form by `parse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMapping {
    /// When the request was issued, and in which unit; none: no times.
    pub time: Option<(Column, TimeUnit)>,
    /// First byte.
    pub offset: Sized,
    /// How many bytes.
    pub length: Length,
    /// Read or write; none: all are reads.
    pub op: Option<Column>,
    /// Word that means a read.
    pub read: Option<String>,
    /// Word that means a write.
    pub write: Option<String>,
    /// Device.
    pub device: Option<Column>,
    /// Process.
    pub process: Option<Column>,
    /// File.
    pub file: Option<Column>,
    /// How long the request took, and in which unit.
    pub took: Option<(Column, TimeUnit)>,
    /// Size of the file; a cell may be empty.
    pub file_size: Option<Sized>,
    /// What separates columns.
    pub separator: Separator,
    /// Lines to pass over at the beginning. At least 1 where a column is named by its heading.
    pub header_lines: u64,
    /// Whether the earliest request is time zero.
    pub rebase: bool,
}

/// Why a mapping cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// A part that is not `key=value`, or a value that does not fit its key.
    #[error("column mapping: {key}: expected {expected}, found {found:?}")]
    Value {
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// A key that there is not.
    #[error("column mapping: key: expected {known}, found {found:?}{}", did_you_mean(nearest(found, KEYS)))]
    Key {
        /// Those that there are.
        known: String,
        /// What was given.
        found: String,
    },
    /// A column that every mapping needs is not there.
    #[error("column mapping: {0} is missing; an example: time=0:us,offset=3:sectors,bytes=4,op=2")]
    Missing(&'static str),
}

fn wrong(key: &str, expected: &'static str, found: &str) -> MappingError {
    MappingError::Value { key: key.to_owned(), expected, found: found.to_owned() }
}

fn column(key: &str, text: &str) -> Result<Column, MappingError> {
    if text.is_empty() {
        return Err(wrong(key, "a column number from 0 or a heading", text));
    }
    if !field::is_uint(text) {
        return Ok(Column::Heading(text.to_owned()));
    }
    match text.parse() {
        Ok(number) if number < field::FIELDS_MAX => Ok(Column::Number(number)),
        _ => Err(wrong(key, "a column number below 32", text)),
    }
}

fn sized(key: &str, text: &str) -> Result<Sized, MappingError> {
    let (at, unit) = text.rsplit_once(':').unwrap_or((text, "bytes"));
    let unit = match unit {
        "bytes" | "B" => 1,
        "sectors" => SECTOR_BYTES,
        "blocks" => BLOCK_BYTES,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err(wrong(key, "a unit: bytes, sectors, blocks, KiB, MiB", unit)),
    };
    Ok(Sized { column: column(key, at)?, unit })
}

fn timed(key: &str, text: &str) -> Result<(Column, TimeUnit), MappingError> {
    let (at, unit) = text.rsplit_once(':').unwrap_or((text, "s"));
    let unit = unit.parse().map_err(|_| wrong(key, "a unit: ns, 100ns, us, ms, s", unit))?;
    Ok((column(key, at)?, unit))
}

fn separator(key: &str, text: &str) -> Result<Separator, MappingError> {
    match text {
        "comma" => Ok(Separator::Comma),
        "tab" => Ok(Separator::Tab),
        "space" | "blanks" => Ok(Separator::Blanks),
        "semicolon" => Ok(Separator::Semicolon),
        "pipe" => Ok(Separator::Pipe),
        _ => Err(wrong(key, "comma, tab, space, semicolon or pipe", text)),
    }
}

fn number(key: &str, text: &str) -> Result<u64, MappingError> {
    text.parse().map_err(|_| wrong(key, "a number", text))
}

/// A mapping while it is read.
#[derive(Default)]
struct Draft {
    time: Option<(Column, TimeUnit)>,
    offset: Option<Sized>,
    length: Option<Length>,
    op: Option<Column>,
    read: Option<String>,
    write: Option<String>,
    device: Option<Column>,
    process: Option<Column>,
    file: Option<Column>,
    took: Option<(Column, TimeUnit)>,
    file_size: Option<Sized>,
    separator: Separator,
    header_lines: u64,
    keep_times: bool,
}

impl Draft {
    fn set(&mut self, key: &str, value: &str) -> Result<(), MappingError> {
        match key {
            "time" => self.time = Some(timed(key, value)?),
            "offset" => self.offset = Some(sized(key, value)?),
            "bytes" => self.length = Some(Length::Column(sized(key, value)?)),
            "size" => self.length = Some(Length::Constant(number(key, value)?)),
            "op" => self.op = Some(column(key, value)?),
            "read" => self.read = Some(value.to_owned()),
            "write" => self.write = Some(value.to_owned()),
            "device" => self.device = Some(column(key, value)?),
            "process" => self.process = Some(column(key, value)?),
            "file" => self.file = Some(column(key, value)?),
            "took" => self.took = Some(timed(key, value)?),
            "filesize" => self.file_size = Some(sized(key, value)?),
            "sep" => self.separator = separator(key, value)?,
            "header" => self.header_lines = number(key, value)?,
            "zero" => match value {
                "first" => self.keep_times = false,
                "file" => self.keep_times = true,
                _ => return Err(wrong(key, "first or file", value)),
            },
            _ => return Err(MappingError::Key { known: KEYS.join(", "), found: key.to_owned() }),
        }
        Ok(())
    }
    fn by_heading(&self) -> bool {
        let length = match &self.length {
            Some(Length::Column(sized)) => Some(&sized.column),
            _ => None,
        };
        let columns = [
            self.time.as_ref().map(|(column, _)| column),
            self.offset.as_ref().map(|sized| &sized.column),
            length,
            self.op.as_ref(),
            self.device.as_ref(),
            self.process.as_ref(),
            self.file.as_ref(),
            self.took.as_ref().map(|(column, _)| column),
            self.file_size.as_ref().map(|sized| &sized.column),
        ];
        columns.into_iter().flatten().any(|c| matches!(c, Column::Heading(_)))
    }
}

impl FromStr for ColumnMapping {
    type Err = MappingError;
    fn from_str(text: &str) -> Result<Self, MappingError> {
        let (mut draft, mut said) = (Draft::default(), Vec::new());
        for part in text.split(',').map(str::trim) {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("part", "key=value", part))?;
            // Both say how long a request is.
            let of = if key == "size" { "bytes" } else { key };
            if said.contains(&of) {
                return Err(wrong(key, "each key once, and bytes or size", value));
            }
            said.push(of);
            draft.set(key, value)?;
        }
        let header_lines = draft.header_lines.max(u64::from(draft.by_heading()));
        Ok(Self {
            time: draft.time,
            offset: draft.offset.ok_or(MappingError::Missing("offset"))?,
            length: draft.length.ok_or(MappingError::Missing("bytes (or size)"))?,
            op: draft.op,
            read: draft.read,
            write: draft.write,
            device: draft.device,
            process: draft.process,
            file: draft.file,
            took: draft.took,
            file_size: draft.file_size,
            separator: draft.separator,
            header_lines,
            rebase: !draft.keep_times,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_line_form_is_read_with_units_and_defaults() {
        let mapping: ColumnMapping = "time=0:us,offset=3:sectors,bytes=4,op=2".parse().unwrap();
        assert_eq!(mapping.time, Some((Column::Number(0), TimeUnit::Micros)));
        assert_eq!(mapping.offset, Sized { column: Column::Number(3), unit: 512 });
        assert_eq!(mapping.length, Length::Column(Sized { column: Column::Number(4), unit: 1 }));
        assert_eq!((mapping.header_lines, mapping.rebase, mapping.separator), (0, true, Separator::Comma));
    }

    #[test]
    fn a_mapping_without_an_offset_or_with_an_unknown_key_says_so() {
        let missing = "bytes=4".parse::<ColumnMapping>().unwrap_err();
        assert_eq!(missing, MappingError::Missing("offset"));
        let unknown = "ofset=4".parse::<ColumnMapping>().unwrap_err().to_string();
        assert!(unknown.contains("\"ofset\"") && unknown.contains("offset"), "{unknown}");
    }

    #[test]
    fn a_heading_needs_a_heading_line() {
        let mapping: ColumnMapping = "offset=Off,size=4096".parse().unwrap();
        assert_eq!(mapping.header_lines, 1);
    }
}
