//! What every shape is made of: a plan lays out its data and hands out one source per process.
//!
//! A [`Plan`] is immutable and shared; whatever a source may need to look up on the way (the table of a file
//! tree) sits behind an `Arc` in the plan, so that making a request allocates nothing. Everything in a plan is
//! relative to the start of its region; the [`Emit`] of a source adds where the region lies, who asks, and how
//! long the process computed on what it read before.

use super::{PROCESS_SHIFT, Request, Source};
use crate::random::Rng;
use forerun_core::access::{Context, Op};
use forerun_core::units::{BLOCK_BYTES, Nanos};

/// A shape with its keys applied.
pub(super) trait Plan: core::fmt::Debug + Send + Sync {
    /// How many processes run it, at least one.
    fn processes(&self) -> u64;
    /// Bytes of its region.
    fn footprint(&self) -> u64;
    /// First byte of each of its files, ascending from 0.
    fn files(&self) -> Vec<u64>;
    /// The requests of process `process`, which is below [`Plan::processes`].
    fn source(&self, process: u64, home: Home) -> Box<dyn Source>;
}

/// What a source is given: where its region starts, whose requests they are, and its own randomness.
#[derive(Clone)]
pub(super) struct Home {
    /// First byte of the region in the volume.
    pub base: u64,
    /// Context of file 0 of the process.
    pub context: u64,
    /// Randomness of the process in this phase.
    pub rng: Rng,
    /// Randomness of the phase: the same for all its processes.
    pub common: Rng,
}

/// How long a process computes between two requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// Nanoseconds before each request but the first.
    pub think: u64,
    /// Nanoseconds for each byte of the previous request.
    pub per_byte: u64,
}

/// Makes requests out of offsets in the region.
#[derive(Clone, Debug)]
pub(super) struct Emit {
    base: u64,
    context: u64,
    pace: Pace,
    /// Think time of the next request.
    owed: u64,
}

impl Emit {
    /// For a process at `home` that computes at `pace`.
    pub(super) const fn new(home: &Home, pace: Pace) -> Self {
        Self { base: home.base, context: home.context, pace, owed: 0 }
    }

    /// The request of `bytes` at `offset` of the region, in file `file` of the plan.
    pub(super) const fn request(&mut self, op: Op, file: u64, offset: u64, bytes: u64) -> Request {
        debug_assert!(file < 1 << PROCESS_SHIFT && bytes > 0);
        let think = Nanos(self.owed);
        self.owed = self.pace.think + bytes * self.pace.per_byte;
        Request {
            think,
            context: Context(self.context + file),
            op,
            offset: self.base + offset,
            bytes,
            due: Nanos::ZERO,
            deadline: None,
            overlap: 0,
            appends: false,
            fresh: false,
        }
    }

    /// The same, of bytes that nothing is computed on: entries, inodes, results.
    pub(super) const fn plain(&mut self, op: Op, file: u64, offset: u64, bytes: u64) -> Request {
        let request = self.request(op, file, offset, bytes);
        self.owed = self.pace.think;
        request
    }

    /// A read: see [`Emit::request`].
    pub(super) const fn read(&mut self, file: u64, offset: u64, bytes: u64) -> Request {
        self.request(Op::Read, file, offset, bytes)
    }
}

/// One source after the other.
pub(super) struct Chain {
    /// In reverse order: the one in use is last.
    rest: Vec<Box<dyn Source>>,
}

impl Chain {
    /// The requests of all `phases`, in order.
    pub(super) fn over(mut phases: Vec<Box<dyn Source>>) -> Box<dyn Source> {
        phases.reverse();
        match phases.len() {
            1 => phases.swap_remove(0),
            _ => Box::new(Self { rest: phases }),
        }
    }
}

impl Source for Chain {
    fn next(&mut self) -> Option<Request> {
        while let Some(current) = self.rest.last_mut() {
            if let Some(request) = current.next() {
                return Some(request);
            }
            self.rest.pop();
        }
        None
    }
}

/// The `i`-th of `shares` contiguous shares of `total` things: where it starts and how many it has. Shares
/// differ by at most one, the larger ones first.
pub(super) const fn share(total: u64, shares: u64, i: u64) -> (u64, u64) {
    let (each, extra) = (total / shares, total % shares);
    let before = if i < extra { i } else { extra };
    (i * each + before, each + if i < extra { 1 } else { 0 })
}

/// `bytes` up to the next whole block.
pub(super) const fn whole_blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::share;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_lie_end_to_end_and_cover_everything_once(total in 0_u64..10_000, shares in 1_u64..100) {
            let mut at = 0;
            for i in 0..shares {
                let (start, count) = share(total, shares, i);
                prop_assert_eq!(start, at);
                at += count;
            }
            prop_assert_eq!(at, total);
        }
    }
}
