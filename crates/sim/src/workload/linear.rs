//! Reads in a straight line: forward, reverse, and with a stride; and IOzone, which is made of them.
//!
//! Each process has its contiguous share of the aggregate size as its own file and goes through it block by
//! block. A stride of d reads every d-th block; with `wrap` the process starts again from the next offset until
//! it has read all blocks, so that a strided run moves the same bytes as a forward one. The ASP paper's section
//! 3.5 used IOzone 3.283 with 2 GiB in all, 4 KiB blocks and 1 to 16 processes, each with a file of its own; it
//! does not say what happens at the end of the file, and `iozone` wraps there (design, "Workload words").
//!
//! `standin-blast` is a scan too: query processes (one for each core of the flashy slides' Core 2 Quad) that go once
//! through a volume each of a packed nucleotide database. Volumes of 1 GB are what formatdb cuts databases into. The
//! computing was measured: `blastn` 2.12 with a random query of 568 bases took 0.176 s of user time over 50.0 MB of packed
//! random sequences of 5,000 bases on an AMD EPYC server, 3.5 ns a byte; the slides' 2.33 GHz Core 2 is taken as half
//! as fast, 7 ns. BLAST maps its database, so pages are touched one after the other: requests of 4 KiB.

use super::plan::{Emit, Home, Pace, Plan, share};
use super::shape::Values;
use super::{Request, Source};
use crate::random::Rng;
use forerun_core::access::Op;

/// Which way a process goes through its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    Forward,
    Reverse,
    Stride { step: u64, wrap: bool },
}

/// Processes in a straight line, each over its own file.
#[derive(Debug)]
struct Linear {
    walk: Walk,
    processes: u64,
    block: u64,
    /// Blocks of all files.
    blocks: u64,
    passes: u64,
    writes: u64,
    pace: Pace,
}

/// Whole blocks of `size`, enough to give each process one.
pub(super) fn blocks_of(values: &Values<'_>, processes: u64) -> Result<u64, String> {
    let (size, block) = (values.get("size"), values.get("block"));
    let blocks = size / block;
    if blocks < processes {
        return Err(format!(
            "size={size} is {blocks} blocks of {block} bytes: too little for {processes} processes; raise size or lower \
             processes"
        ));
    }
    Ok(blocks)
}

fn linear(values: &Values<'_>, walk: Walk) -> Result<Box<dyn Plan>, String> {
    let processes = values.get("processes");
    Ok(Box::new(Linear {
        walk,
        processes,
        block: values.get("block"),
        blocks: blocks_of(values, processes)?,
        passes: values.get("passes"),
        writes: values.get("writes"),
        pace: Pace { think: values.get("think"), per_byte: 0 },
    }))
}

/// Shape `forward`.
pub(super) fn forward(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    linear(values, Walk::Forward)
}

/// Shape `reverse`.
pub(super) fn reverse(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    linear(values, Walk::Reverse)
}

/// Shape `stride`.
pub(super) fn stride(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    linear(values, Walk::Stride { step: values.get("stride"), wrap: values.flag("wrap") })
}

/// What `iozone` can be asked to do.
pub(super) const IOZONE_TESTS: &[&str] = &["forward", "reverse", "stride"];

/// Shape `iozone`.
pub(super) fn iozone(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let processes = values.get("processes");
    let walk = match values.get("test") {
        0 => Walk::Forward,
        1 => Walk::Reverse,
        _ => Walk::Stride { step: values.get("stride"), wrap: true },
    };
    Ok(Box::new(Linear {
        walk,
        processes,
        block: values.get("block"),
        blocks: blocks_of(values, processes)?,
        passes: 1,
        writes: 0,
        pace: Pace::default(),
    }))
}

/// Shape `standin-blast`.
pub(super) fn blast(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let processes = values.get("processes");
    Ok(Box::new(Linear {
        walk: Walk::Forward,
        processes,
        block: values.get("block"),
        blocks: blocks_of(values, processes)?,
        passes: 1,
        writes: 0,
        pace: Pace { think: 0, per_byte: values.get("cpu") },
    }))
}

impl Plan for Linear {
    fn processes(&self) -> u64 {
        self.processes
    }
    fn footprint(&self) -> u64 {
        self.blocks * self.block
    }
    fn files(&self) -> Vec<u64> {
        (0..self.processes).map(|i| share(self.blocks, self.processes, i).0 * self.block).collect()
    }
    fn source(&self, process: u64, home: Home) -> Box<dyn Source> {
        let (first, blocks) = share(self.blocks, self.processes, process);
        let mut line = Line {
            emit: Emit::new(&home, self.pace),
            walk: self.walk,
            block: self.block,
            first,
            blocks,
            at: None,
            passes: self.passes,
            writes: self.writes,
            rng: home.rng,
        };
        line.rewind();
        Box::new(line)
    }
}

/// One process of a [`Linear`].
struct Line {
    emit: Emit,
    walk: Walk,
    block: u64,
    /// First block of the share in the region.
    first: u64,
    /// Blocks of the share, at least one.
    blocks: u64,
    /// Block of the share that is next; `None` at the end.
    at: Option<u64>,
    /// Passes left, with the one under way.
    passes: u64,
    writes: u64,
    rng: Rng,
}

impl Line {
    /// To the start of the next pass, or to the end.
    fn rewind(&mut self) {
        self.at = (self.passes > 0).then(|| if self.walk == Walk::Reverse { self.blocks - 1 } else { 0 });
    }

    /// The block after `at` in this pass.
    const fn after(&self, at: u64) -> Option<u64> {
        match self.walk {
            Walk::Forward if at + 1 < self.blocks => Some(at + 1),
            Walk::Forward => None,
            Walk::Reverse => at.checked_sub(1),
            Walk::Stride { step, .. } if step < self.blocks - at => Some(at + step),
            Walk::Stride { step, wrap } => {
                let phase = at % step + 1;
                if wrap && phase < step && phase < self.blocks { Some(phase) } else { None }
            }
        }
    }
}

impl Source for Line {
    fn next(&mut self) -> Option<Request> {
        let at = self.at?;
        self.at = self.after(at);
        if self.at.is_none() {
            self.passes -= 1;
            self.rewind();
        }
        let op = if self.rng.chance(self.writes) { Op::Write } else { Op::Read };
        Some(self.emit.request(op, 0, (self.first + at) * self.block, self.block))
    }
}
