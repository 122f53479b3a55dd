//! Cache-only runs: how many references of a trace miss in caches of given sizes, under given retentions.
//!
//! No engine, no device and no time: a [`Sequence`] is a trace cut into 4 KiB blocks, each block interned to a dense
//! number once, and every run is a loop over those numbers (`forerun mrc`). A reference is one block touched by one
//! request, read or write alike; a request over several blocks is as many references. LRU answers all sizes in one
//! pass (stack depths), the others take one pass for each size; passes run in parallel and are
//! put together in the order asked for, so the output does not depend on the number of threads.

use std::collections::BTreeMap;

use forerun_core::retention::{Baseline, Key};
use forerun_core::units::Extent;
use forerun_trace::record::{Name, Record, Trace};
use rayon::prelude::*;
use serde::Serialize;

/// Distinct blocks in a sequence: 16 TiB of footprint. Blocks are numbered in 32 bits, a few numbers kept back.
pub const FOOTPRINT_MAX: usize = (u32::MAX - 16) as usize;

/// What a cache-only run refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MrcError {
    /// The sequence has more distinct blocks than numbers.
    #[error("more than {FOOTPRINT_MAX} distinct blocks: cut the trace into parts")]
    TooManyBlocks,
    /// A size of zero blocks was asked for.
    #[error("a cache of 0 blocks holds nothing: sizes start at 1")]
    ZeroSize,
}

/// A trace as dense block numbers, in the order of reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    keys: Vec<Key>,
    footprint: usize,
}

impl Sequence {
    /// Interns block numbers of one address space.
    ///
    /// # Errors
    /// [`MrcError::TooManyBlocks`].
    pub fn from_blocks(blocks: impl IntoIterator<Item = u64>) -> Result<Self, MrcError> {
        let mut table = Interner::default();
        let mut sequence = Self::default();
        let blocks = blocks.into_iter();
        sequence.keys.reserve(blocks.size_hint().0);
        for block in blocks {
            sequence.push(&mut table, block)?;
        }
        Ok(sequence)
    }

    /// Cuts the requests of `trace` into the 4 KiB blocks that they touch. Each device, and each file on it, is an
    /// address space of its own.
    ///
    /// # Errors
    /// [`MrcError::TooManyBlocks`].
    pub fn from_trace(trace: &Trace) -> Result<Self, MrcError> {
        Self::from_records(&trace.records)
    }

    /// The same of one device alone.
    ///
    /// # Errors
    /// [`MrcError::TooManyBlocks`].
    pub fn from_device(trace: &Trace, device: Name) -> Result<Self, MrcError> {
        Self::from_records(trace.records.iter().filter(|record| record.device == device))
    }

    fn from_records<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<Self, MrcError> {
        let mut tables: BTreeMap<(Name, Name), Interner> = BTreeMap::new();
        let mut sequence = Self::default();
        for record in records {
            let table = tables.entry((record.device, record.file)).or_default();
            for block in Extent::covering(record.offset, record.bytes).iter() {
                sequence.push(table, block.0)?;
            }
        }
        Ok(sequence)
    }

    fn push(&mut self, table: &mut Interner, block: u64) -> Result<(), MrcError> {
        let fresh = u32::try_from(self.footprint).map_err(|_| MrcError::TooManyBlocks)?;
        let key = table.intern(block, fresh);
        if key == fresh {
            if self.footprint == FOOTPRINT_MAX {
                return Err(MrcError::TooManyBlocks);
            }
            self.footprint += 1;
        }
        self.keys.push(Key(key));
        Ok(())
    }

    /// The references, numbered densely in the order of first use.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }
    /// How many distinct blocks there are.
    #[must_use]
    pub const fn footprint(&self) -> usize {
        self.footprint
    }
}

/// One cache-only run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MrcRow {
    /// The trace, as the caller names it.
    pub input: String,
    /// Name of the retention.
    pub retention: &'static str,
    /// Size of the cache in blocks of 4 KiB.
    pub cache_blocks: u64,
    /// References: blocks touched.
    pub requests: u64,
    /// References that missed, first references included.
    pub misses: u64,
}

/// Runs every retention of `retentions` at every size of `cache_blocks` (4 KiB blocks) over `sequence`, in parallel;
/// rows come retention by retention, sizes within, in the orders given. `input` is copied into each row.
///
/// # Errors
/// [`MrcError::ZeroSize`].
pub fn mrc(
    input: &str,
    sequence: &Sequence,
    retentions: &[&'static Baseline],
    cache_blocks: &[u64],
) -> Result<Vec<MrcRow>, MrcError> {
    if cache_blocks.contains(&0) {
        return Err(MrcError::ZeroSize);
    }
    // Beyond the footprint nothing is ever evicted, so that a larger size behaves as the largest that is counted.
    let sizes: Vec<usize> = cache_blocks
        .iter()
        .map(|&blocks| usize::try_from(blocks).map_or(FOOTPRINT_MAX, |n| n.min(FOOTPRINT_MAX)))
        .collect();
    let passes: Vec<(&Baseline, &[usize])> = retentions
        .iter()
        .flat_map(|&row| {
            sizes.chunks(if row.one_pass { sizes.len().max(1) } else { 1 }).map(move |part| (row, part))
        })
        .collect();
    let misses: Vec<Vec<u64>> =
        passes.par_iter().map(|(row, part)| (row.misses)(&sequence.keys, part)).collect();
    let asked = retentions.iter().flat_map(|row| cache_blocks.iter().map(move |&blocks| (row.name, blocks)));
    let rows = asked.zip(misses.into_iter().flatten()).map(|((retention, cache_blocks), misses)| MrcRow {
        input: input.to_owned(),
        retention,
        cache_blocks,
        requests: sequence.keys.len() as u64,
        misses,
    });
    Ok(rows.collect())
}

/// Number of a free slot of the table; no block has it, because numbers end at `FOOTPRINT_MAX`.
const FREE: u32 = u32::MAX;
/// Slots of the table at first; a power of two, as all its sizes.
const SLOTS_MIN: usize = 64;
/// 2^64 divided by the golden ratio, odd: spreads consecutive blocks over the high bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// From block numbers to dense numbers: open addressing, at most two thirds full (a miss of the table costs more than a probe).
#[derive(Clone, Debug)]
struct Interner {
    slots: Vec<(u64, u32)>,
    used: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self { slots: vec![(0, FREE); SLOTS_MIN], used: 0 }
    }
}

impl Interner {
    /// The number of `block`, which is `fresh` if it had none.
    fn intern(&mut self, block: u64, fresh: u32) -> u32 {
        let at = self.find(block);
        let (_, key) = self.slots[at];
        if key != FREE {
            return key;
        }
        self.slots[at] = (block, fresh);
        self.used += 1;
        if self.used * 3 > self.slots.len() * 2 {
            self.grow();
        }
        fresh
    }

    /// The slot of `block`, or the free one where it belongs.
    fn find(&self, block: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mixed = (block ^ block >> 32).wrapping_mul(SPREAD);
        #[expect(clippy::cast_possible_truncation, reason = "fewer bits than the table has slots")]
        let mut at = (mixed >> (64 - self.slots.len().trailing_zeros())) as usize;
        loop {
            let (held, key) = self.slots[at];
            if key == FREE || held == block {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let doubled = vec![(0, FREE); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, doubled);
        for (block, key) in old {
            if key != FREE {
                let at = self.find(block);
                self.slots[at] = (block, key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forerun_core::retention::{BASELINES, by_name};
    use forerun_trace::record::Record;
    use proptest::prelude::*;

    fn record(device: u32, offset: u64, bytes: u64) -> Record {
        Record { device: Name(device), offset, bytes, ..Record::BLANK }
    }

    #[test]
    fn requests_are_cut_into_the_blocks_they_touch_and_devices_stay_apart() {
        let records = vec![record(1, 4095, 2), record(2, 0, 4096), record(1, 0, 512), record(1, 8192, 0)];
        let trace = Trace { records, ..Trace::default() };
        let sequence = Sequence::from_trace(&trace).expect("three blocks");
        assert_eq!(sequence.keys(), [Key(0), Key(1), Key(2), Key(0)]);
        assert_eq!(sequence.footprint(), 3);
    }

    #[test]
    fn rows_come_in_the_order_asked_for_whatever_runs_first() {
        let sequence = Sequence::from_blocks((0..4000).map(|i| i * 5 % 301)).expect("301 blocks");
        let retentions = [by_name("sieve").expect("known"), by_name("lru").expect("known")];
        let rows = mrc("t", &sequence, &retentions, &[300, 20, 301, u64::MAX]).expect("sizes are not zero");
        let shape: Vec<_> = rows.iter().map(|row| (row.retention, row.cache_blocks)).collect();
        assert_eq!(shape[..3], [("sieve", 300), ("sieve", 20), ("sieve", 301)]);
        assert_eq!(shape[4..], [("lru", 300), ("lru", 20), ("lru", 301), ("lru", u64::MAX)]);
        assert_eq!(rows[4..].iter().map(|row| row.misses).collect::<Vec<_>>(), [4000, 4000, 301, 301]);
        assert_eq!(rows[0].requests, 4000);
    }

    #[test]
    fn a_cache_of_no_blocks_is_refused_and_an_empty_trace_misses_nothing() {
        let empty = Sequence::default();
        let all: Vec<&Baseline> = BASELINES.iter().collect();
        assert_eq!(mrc("t", &empty, &all, &[4, 0]), Err(MrcError::ZeroSize));
        let rows = mrc("t", &empty, &all, &[4]).expect("no zero");
        assert!(rows.len() == all.len() && rows.iter().all(|row| row.misses == 0));
        assert_eq!(mrc("t", &empty, &all, &[]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn interning_numbers_blocks_by_first_use(blocks in prop::collection::vec(0_u64..500, 0..2000), wide in any::<u64>()) {
            let blocks: Vec<u64> = blocks.iter().map(|block| block.wrapping_mul(wide | 1)).collect();
            let sequence = Sequence::from_blocks(blocks.iter().copied()).expect("few blocks");
            let mut seen = Vec::new();
            for (block, key) in blocks.iter().zip(sequence.keys()) {
                let at = seen.iter().position(|held| held == block).unwrap_or_else(|| { seen.push(*block); seen.len() - 1 });
                prop_assert_eq!(at, key.index());
            }
            prop_assert_eq!(sequence.footprint(), seen.len());
        }
    }
}
