//! Reads here and there: uniformly over a workspace, by Zipf's law, and Tiobench's random reads.
//!
//! `requests` is the total; each process makes its share. As everywhere each process has its own file, a share
//! of the workspace, unless `shared` makes the whole workspace one file of all. Draws are with replacement, as
//! programs do. A Zipf rank is sent to a block by a fixed bijection, so that the popular blocks lie spread
//! over the file and popularity says nothing about place. Tiobench 0.3.3 in the ASP paper's section 3.4: four
//! threads, 40,000 random reads of 4 KiB in all, over a workspace of 0.6 to 2 GiB.

use super::linear::blocks_of;
use super::plan::{Emit, Home, Pace, Plan, share};
use super::shape::Values;
use super::{Request, Source};
use crate::random::{Rng, Zipf};
use forerun_core::access::Op;

/// Processes that jump about.
#[derive(Debug)]
struct Scatter {
    processes: u64,
    block: u64,
    blocks: u64,
    requests: u64,
    /// Exponent in thousandths; `None` is uniform.
    theta: Option<u64>,
    shared: bool,
    writes: u64,
    pace: Pace,
}

fn scatter(values: &Values<'_>, theta: Option<u64>) -> Result<Box<dyn Plan>, String> {
    let processes = values.get("processes");
    Ok(Box::new(Scatter {
        processes,
        block: values.get("block"),
        blocks: blocks_of(values, processes)?,
        requests: values.get("requests"),
        theta,
        shared: values.flag("shared"),
        writes: values.get("writes"),
        pace: Pace { think: values.get("think"), per_byte: 0 },
    }))
}

/// Shape `random`.
pub(super) fn random(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    scatter(values, None)
}

/// Shape `zipf`.
pub(super) fn zipf(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    scatter(values, Some(values.get("theta")))
}

/// Shape `tiobench`.
pub(super) fn tiobench(values: &Values<'_>) -> Result<Box<dyn Plan>, String> {
    let threads = values.get("threads");
    Ok(Box::new(Scatter {
        processes: threads,
        block: values.get("block"),
        blocks: blocks_of(values, threads)?,
        requests: values.get("requests"),
        theta: None,
        shared: false,
        writes: 0,
        pace: Pace::default(),
    }))
}

impl Plan for Scatter {
    fn processes(&self) -> u64 {
        self.processes
    }
    fn footprint(&self) -> u64 {
        self.blocks * self.block
    }
    fn files(&self) -> Vec<u64> {
        let files = if self.shared { 1 } else { self.processes };
        (0..files).map(|i| share(self.blocks, files, i).0 * self.block).collect()
    }
    fn source(&self, process: u64, home: Home) -> Box<dyn Source> {
        let (first, blocks) =
            if self.shared { (0, self.blocks) } else { share(self.blocks, self.processes, process) };
        Box::new(Jumps {
            emit: Emit::new(&home, self.pace),
            block: self.block,
            first,
            pick: self.theta.map_or(Pick::Uniform { blocks }, |theta| Pick::zipf(blocks, theta)),
            left: share(self.requests, self.processes, process).1,
            writes: self.writes,
            rng: home.rng,
        })
    }
}

/// How the next block is found.
pub(super) enum Pick {
    Uniform { blocks: u64 },
    Zipf { law: Zipf, blocks: u64, step: u64 },
}

/// Greatest common divisor.
const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Pick {
    /// Rank r lies at block r · step mod blocks: a bijection, because step has no divisor in common with blocks.
    pub(super) fn zipf(blocks: u64, theta_milli: u64) -> Self {
        // Starting at the golden section spreads neighbouring ranks as evenly as a step can.
        let mut step = (u128::from(blocks) * 618_033_988 / 1_000_000_000) as u64;
        step = step.max(1);
        while gcd(step, blocks) != 1 {
            step += 1;
        }
        Self::Zipf { law: Zipf::new(blocks, theta_milli), blocks, step }
    }

    /// The next block.
    pub(super) fn block(&self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform { blocks } => rng.below(*blocks),
            Self::Zipf { law, blocks, step } => {
                (u128::from(law.draw(rng)) * u128::from(*step) % u128::from(*blocks)) as u64
            }
        }
    }
}

/// One process of a [`Scatter`].
struct Jumps {
    emit: Emit,
    block: u64,
    first: u64,
    pick: Pick,
    left: u64,
    writes: u64,
    rng: Rng,
}

impl Source for Jumps {
    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let block = self.first + self.pick.block(&mut self.rng);
        let op = if self.rng.chance(self.writes) { Op::Write } else { Op::Read };
        Some(self.emit.request(op, 0, block * self.block, self.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zipf_rank_has_a_block_of_its_own() {
        for blocks in [1_u64, 2, 6, 1000, 1024] {
            let Pick::Zipf { step, .. } = Pick::zipf(blocks, 990) else { panic!("asked for zipf") };
            let mut seen: Vec<u64> = (0..blocks).map(|rank| rank * step % blocks).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..blocks).collect::<Vec<_>>());
        }
    }
}
