//! LIRS block lists: the traces that came with the LIRS paper (Jiang and Zhang, SIGMETRICS 2002), still the common
//! coin of replacement policies.
//!
//! One block number a line; a block is 4 KiB; every reference is a read; there are no times. Some files of the set
//! mark ends of phases by a line with `*`, which is passed over.

use crate::error::Fault;
use crate::field;
use crate::record::Record;
use crate::sink::{BLANK, Sink};
use forerun_core::units::BLOCK_BYTES;

pub(crate) fn line(line: &str, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let text = line.trim();
    if text == "*" {
        return Ok(());
    }
    let block = field::uint(text, "a block number")?;
    let offset =
        block.checked_mul(BLOCK_BYTES).ok_or_else(|| Fault::new("a block number below 2^52", text))?;
    sink.push(Record { offset, bytes: BLOCK_BYTES, ..BLANK })
}
