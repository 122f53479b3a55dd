//! ARC `.lis`: the traces of the ARC paper (Megiddo and Modha, FAST 2003), as its authors distributed them.
//!
//! One request a line, four columns: first block, number of blocks, a column that is not used, and the number of
//! the request. Blocks are of 512 bytes (the workstation traces P1 to P14 address sectors). Every request is a
//! read; there are no times.

use crate::error::Fault;
use crate::field::{self, Fields};
use crate::record::Record;
use crate::sink::{BLANK, Sink, sectors_to_bytes};

const EXPECTED: &str = "start count ignored number";

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let fields = Fields::blank_separated(line).at_least(4, EXPECTED, line)?;
    let offset = sectors_to_bytes(field::uint(fields.get(0), "a first block")?, "a first block")?;
    let bytes = sectors_to_bytes(field::uint(fields.get(1), "a number of blocks")?, "a size")?;
    sink.push(Record { offset, bytes, ..BLANK })
}
