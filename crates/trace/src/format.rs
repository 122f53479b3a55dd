//! The names of the formats: one row each, with what it is and whether Forerun writes it as well.

use crate::error::UnknownWord;
use std::fmt;
use std::str::FromStr;

/// A trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Forerun's own: Parquet with zstd and a versioned schema. Nothing is lost.
    Parquet,
    /// `t,dev,off,bytes,op,pid,file` with that header. Nothing is lost.
    Csv,
    /// Any separated text, by a [`ColumnMapping`](crate::columns::ColumnMapping).
    Columns,
    /// Text of blkparse in its default `-f` layout.
    Blkparse,
    /// Binary records of blktrace, version 7, either byte order.
    Blktrace,
    /// fio iolog version 2.
    FioV2,
    /// fio iolog version 3.
    FioV3,
    /// MSR Cambridge CSV.
    Msr,
    /// Storage Performance Council, ASCII.
    Spc,
    /// `CloudPhysics` vscsiStats binary, versions 1 and 2.
    Vscsi,
    /// libCacheSim oracleGeneral.
    OracleGeneral,
    /// `DiskSim` ASCII.
    Disksim,
    /// `MQSim` ASCII.
    Mqsim,
    /// Block list of the LIRS paper.
    Lirs,
    /// `.lis` of the ARC paper.
    Arc,
    /// Alibaba block traces CSV.
    Alibaba,
    /// Tencent CBS CSV.
    Tencent,
    /// Text of strace.
    Strace,
    /// Text of perf script: tracepoints of the page cache.
    Perf,
}

/// What is known about a format.
struct Row {
    format: Format,
    name: &'static str,
    what: &'static str,
    binary: bool,
    written: bool,
}

const fn row(format: Format, name: &'static str, what: &'static str, binary: bool, written: bool) -> Row {
    Row { format, name, what, binary, written }
}

/// One row per format, in the order of the enumeration.
const ROWS: [Row; 19] = [
    row(Format::Parquet, "parquet", "Forerun's own: Parquet, zstd, versioned schema", true, true),
    row(Format::Csv, "csv", "t,dev,off,bytes,op,pid,file[,took][,size]", false, true),
    row(Format::Columns, "columns", "any separated text, by a column mapping", false, false),
    row(Format::Blkparse, "blkparse", "text of blkparse, default layout", false, false),
    row(Format::Blktrace, "blktrace", "binary records of blktrace", true, false),
    row(Format::FioV2, "fio2", "fio iolog version 2", false, true),
    row(Format::FioV3, "fio3", "fio iolog version 3", false, true),
    row(Format::Msr, "msr", "MSR Cambridge CSV", false, true),
    row(Format::Spc, "spc", "Storage Performance Council ASCII", false, true),
    row(Format::Vscsi, "vscsi", "CloudPhysics vscsiStats binary, v1 and v2", true, false),
    row(Format::OracleGeneral, "oracle-general", "libCacheSim oracleGeneral binary", true, true),
    row(Format::Disksim, "disksim", "DiskSim ASCII", false, false),
    row(Format::Mqsim, "mqsim", "MQSim ASCII", false, false),
    row(Format::Lirs, "lirs", "one 4 KiB block number a line", false, true),
    row(Format::Arc, "arc", "ARC paper .lis: start, count, 0, number", false, false),
    row(Format::Alibaba, "alibaba", "Alibaba block traces CSV", false, false),
    row(Format::Tencent, "tencent", "Tencent CBS CSV", false, false),
    row(Format::Strace, "strace", "text of strace -f -ttt -T -y: reads of files", false, false),
    row(Format::Perf, "perf", "text of perf script: page-cache tracepoints", false, false),
];

impl Format {
    /// Every format, in a fixed order.
    #[must_use]
    pub fn all() -> [Self; ROWS.len()] {
        ROWS.each_ref().map(|row| row.format)
    }
    /// The word for it in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ROWS[self as usize].name
    }
    /// One line about it.
    #[must_use]
    pub const fn what(self) -> &'static str {
        ROWS[self as usize].what
    }
    /// Whether it is binary rather than lines of text.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        ROWS[self as usize].binary
    }
    /// Whether [`write`](crate::write::write) writes it.
    #[must_use]
    pub const fn is_written(self) -> bool {
        ROWS[self as usize].written
    }
    /// One to write, by its word.
    ///
    /// # Errors
    /// [`UnknownWord`], with the words of those that are written. One that is only read is told where it is written.
    pub fn to_write(text: &str) -> Result<Self, UnknownWord> {
        let written =
            || ROWS.iter().filter(|row| row.written).map(|row| row.name).collect::<Vec<_>>().join(", ");
        text.parse().map_err(|unknown| UnknownWord { known: written(), ..unknown })
    }
    /// All names, for messages.
    pub(crate) fn names() -> String {
        ROWS.each_ref().map(|row| row.name).join(", ")
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownWord;
    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        ROWS.iter().find(|row| row.name == text).map(|row| row.format).ok_or_else(|| UnknownWord {
            what: "trace format",
            found: text.to_owned(),
            known: Self::names(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_the_enumeration() {
        for (i, row) in ROWS.iter().enumerate() {
            assert_eq!(row.format as usize, i);
            assert_eq!(row.name.parse(), Ok(row.format));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_names() {
        let said = "mrs".parse::<Format>().unwrap_err().to_string();
        assert!(said.contains("\"mrs\"") && said.contains("msr"), "{said}");
        let said = Format::to_write("mrs").unwrap_err().to_string();
        assert!(said.contains("msr") && !said.contains("perf"), "only those that are written: {said}");
        assert_eq!(Format::to_write("perf"), Ok(Format::Perf));
    }
}
