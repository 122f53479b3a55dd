//! What stays in memory: replacement policies, and the offline floor under them.
//!
//! [`replacement`] is the contract; [`lru`], [`arc`], [`s3fifo`] and [`sieve`] have a file each, over intrusive lists
//! that they share. [`belady`] and [`depth`] are not policies but whole-sequence computations: MIN, and
//! LRU for all sizes at once. A row of [`BASELINES`] names each of them for the command line; adding a baseline
//! is a file and a row. All of them see only dense keys ([`Key`]): whole-trace runs intern blocks once and then neither
//! hash nor allocate, and the engine's cache hands in its line numbers.

use alloc::boxed::Box;
use alloc::vec::Vec;

pub mod adapter;
pub mod arc;
pub mod belady;
pub mod contract;
pub mod depth;
pub mod early;
pub mod list;
pub mod lru;
pub mod replacement;
pub mod s3fifo;
pub mod sieve;

pub use replacement::{Arrival, Evicted, Key, Replacement};

/// One baseline by name.
#[derive(Clone, Copy)]
pub struct Baseline {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Builds it for a cache of so many entries; `None` for offline baselines, which no cache can run.
    pub build: Option<fn(usize) -> Box<dyn Replacement>>,
    /// Misses (first references included) of caches of the given sizes over a sequence; one result for each size.
    pub misses: fn(&[Key], &[usize]) -> Vec<u64>,
    /// Whether `misses` answers many sizes in one pass; otherwise sizes may as well be run apart, in parallel.
    pub one_pass: bool,
}

impl core::fmt::Debug for Baseline {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Baseline").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All baselines, in the order in which tables show them.
pub const BASELINES: &[Baseline] = &[
    Baseline {
        name: "lru",
        about: "least recently used: every use moves to the young end, the oldest leaves",
        source: "Mattson et al. 1970",
        build: Some(|capacity| Box::new(lru::Lru::new(capacity))),
        misses: lru_misses,
        one_pass: true,
    },
    Baseline {
        name: "arc",
        about: "recency and frequency lists with a border that ghosts move",
        source: "Megiddo and Modha, FAST 2003, Fig. 4",
        build: Some(|capacity| Box::new(arc::Arc::new(capacity))),
        misses: |keys, sizes| each_size(keys, sizes, arc::Arc::new),
        one_pass: false,
    },
    Baseline {
        name: "s3fifo",
        about: "a small probation queue, a main queue with two-bit counters, ghosts",
        source: "Yang et al., SOSP 2023; sizes as in libCacheSim",
        build: Some(|capacity| Box::new(s3fifo::S3Fifo::new(capacity))),
        misses: |keys, sizes| each_size(keys, sizes, s3fifo::S3Fifo::new),
        one_pass: false,
    },
    Baseline {
        name: "sieve",
        about: "a queue in order of insertion, a bit per entry, and a hand that keeps its place",
        source: "Zhang et al., NSDI 2024",
        build: Some(|capacity| Box::new(sieve::Sieve::new(capacity))),
        misses: |keys, sizes| each_size(keys, sizes, sieve::Sieve::new),
        one_pass: false,
    },
    Baseline {
        name: "belady",
        about: "MIN, which knows the future: the floor that no policy of the same size goes below",
        source: "Belady, IBM Systems Journal 1966",
        build: None,
        misses: |keys, sizes| sizes.iter().map(|&size| belady::min_loads(keys, size).count()).collect(),
        one_pass: false,
    },
];

/// No baseline has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such retention; there are: lru, arc, s3fifo, sieve, belady")]
pub struct UnknownBaseline;

/// The baseline called `name`.
///
/// # Errors
/// [`UnknownBaseline`] when there is none.
pub fn by_name(name: &str) -> Result<&'static Baseline, UnknownBaseline> {
    BASELINES.iter().find(|row| row.name == name).ok_or(UnknownBaseline)
}

/// Runs a policy over a whole sequence of demanded keys, cache only; the number of misses, first references
/// included. Compiled for each policy, so that its steps are inlined.
pub fn count_misses<P: Replacement>(policy: &mut P, keys: &[Key]) -> u64 {
    let capacity = policy.capacity();
    let mut misses = 0;
    for &key in keys {
        if policy.is_resident(key) {
            policy.hit(key);
            continue;
        }
        misses += 1;
        policy.admit(key, Arrival::Demand);
        if policy.len() >= capacity {
            policy.evict(Some(key));
        }
        policy.insert(key);
    }
    misses
}

fn each_size<P: Replacement>(keys: &[Key], sizes: &[usize], build: fn(usize) -> P) -> Vec<u64> {
    let footprint = keys.iter().map(|key| key.index() + 1).max().unwrap_or(0);
    let run = |&size: &usize| {
        let mut policy = build(size);
        policy.reserve(footprint);
        count_misses(&mut policy, keys)
    };
    sizes.iter().map(run).collect()
}

fn lru_misses(keys: &[Key], sizes: &[usize]) -> Vec<u64> {
    if let [_] = sizes {
        return each_size(keys, sizes, lru::Lru::new);
    }
    let depths = depth::Depths::of(keys);
    sizes.iter().map(|&size| depths.misses(size)).collect()
}

#[cfg(test)]
mod tests;
