//! Stand-in for the start of an operating system (ASP paper, section 3.7, Fig. 13, phase 2): runs of reads,
//! partly random, over scattered programs and scripts.
//!
//! The paper gives neither volume nor sizes. The stand-in draws runs of sequential reads with the lengths and
//! distances recorded at a real start of Windows 11 (70,051 requests, of which 67,085 reads in 50,581 runs, counting as one run what a
//! process reads without a gap): [`LENGTHS`] and [`DISTANCES`] are that recording's deciles. The recording
//! had no request outstanding for 10.84 of its 18.68 seconds: 214 us of computing per run. The volume is what a
//! workstation installation of Fedora Core 5 needs by its release notes, 3.0 GB. How many runs there are is an
//! assumption (a tenth of the recording's, rounded) that scales time and no ratio. Phase 1, which the
//! paper calls CPU-bound and gives no number for, has no stand-in.

use super::plan::{Emit, Home, Pace, Plan};
use super::shape::Values;
use super::{Request, Source};
use crate::random::{MILLION, Rng};
use forerun_core::units::BLOCK_BYTES;

/// Blocks of a run and how often in a million a run is at most that long (recorded; one in a thousand is longer
/// than the last, and is cut to it).
const LENGTHS: [(u64, u64); 13] = [
    (1, 350_000),
    (2, 370_000),
    (3, 400_000),
    (4, 600_000),
    (8, 930_000),
    (10, 950_000),
    (19, 970_000),
    (31, 980_000),
    (60, 990_000),
    (120, 995_000),
    (256, 998_000),
    (462, 999_000),
    (1024, MILLION),
];
/// Blocks between the end of a run and the start of the same process's next, and how often in a million the
/// distance is at most that; beyond the last it is anything (recorded).
const DISTANCES: [(u64, u64); 6] =
    [(12, 100_000), (37, 200_000), (126, 300_000), (256, 354_700), (1024, 438_500), (4096, 479_100)];
/// Largest read in blocks: 32 KiB, the most frequent length above one block in the recording.
const READ_BLOCKS: u64 = 8;

/// One process that starts things.
#[derive(Debug)]
struct Boot {
    runs: u64,
    blocks: u64,
    pace: Pace,
}

/// Shape `standin-boot`.
pub(super) fn boot(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let blocks = values.get("size") / BLOCK_BYTES;
    let longest = LENGTHS[LENGTHS.len() - 1].0;
    if blocks < 2 * longest {
        return Err(format!("size: at least {} bytes, two of the longest runs", 2 * longest * BLOCK_BYTES));
    }
    Ok(Box::new(Boot {
        runs: values.get("runs"),
        blocks,
        pace: Pace { think: values.get("think"), per_byte: 0 },
    }))
}

impl Plan for Boot {
    fn processes(&self) -> u64 {
        1
    }
    fn footprint(&self) -> u64 {
        self.blocks * BLOCK_BYTES
    }
    fn files(&self) -> Vec<u64> {
        vec![0]
    }
    fn source(&self, _process: u64, home: Home) -> Box<dyn Source> {
        Box::new(Starter {
            emit: Emit::new(&home, Pace::default()),
            think: self.pace.think,
            blocks: self.blocks,
            runs: self.runs,
            at: 0,
            left: 0,
            rng: home.rng,
        })
    }
}

/// The process of a [`Boot`].
struct Starter {
    emit: Emit,
    /// Computing before each run.
    think: u64,
    blocks: u64,
    /// Runs not begun.
    runs: u64,
    /// Next block of the run under way.
    at: u64,
    /// Its blocks that are not read.
    left: u64,
    rng: Rng,
}

/// A number of blocks from a table of cumulative frequencies, uniform within its row; `None` beyond its end.
fn draw(table: &[(u64, u64)], first: u64, rng: &mut Rng) -> Option<u64> {
    let ticket = rng.below(MILLION);
    let row = table.iter().position(|&(_, upto)| ticket < upto)?;
    let low = if row == 0 { first } else { table[row - 1].0 + 1 };
    Some(low + rng.below(table[row].0 - low + 1))
}

impl Starter {
    /// Chooses the next run; false when all are done.
    fn begin(&mut self) -> bool {
        if self.runs == 0 {
            return false;
        }
        self.runs -= 1;
        self.left = draw(&LENGTHS, 1, &mut self.rng).expect("the table ends at a million");
        let room = self.blocks - self.left;
        let ahead = self.rng.chance(MILLION / 2);
        let near = draw(&DISTANCES, 1, &mut self.rng);
        self.at = match near {
            Some(distance) if ahead => (self.at + distance).min(room),
            Some(distance) => self.at.saturating_sub(distance).min(room),
            None => self.rng.below(room + 1),
        };
        true
    }
}

impl Source for Starter {
    fn next(&mut self) -> Option<Request> {
        let fresh = self.left == 0;
        if fresh && !self.begin() {
            return None;
        }
        let blocks = self.left.min(READ_BLOCKS);
        let mut request = self.emit.read(0, self.at * BLOCK_BYTES, blocks * BLOCK_BYTES);
        if fresh {
            request.think.0 += self.think;
        }
        self.at += blocks;
        self.left -= blocks;
        Some(request)
    }
}
