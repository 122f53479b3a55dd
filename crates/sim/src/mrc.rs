//! Cache-only runs: how many references of a trace miss in caches of given sizes, under given retentions.
//!
//! No engine, no device and no time: a [`Sequence`] is a trace cut into 4 KiB blocks, each block interned to a dense
//! number once, and every run is a loop over those numbers (`forerun mrc`). A reference is one block touched by one
//! request, read or write alike; a request over several blocks is as many references. LRU answers all sizes in one
//! pass (stack depths), the others take one pass for each size; passes run in parallel and are
//! put together in the order asked for, so the output does not depend on the number of threads.

use std::collections::BTreeMap;

use forerun_core::retention::{Baseline, Key};
use forerun_core::size::about_size;
use forerun_core::units::Extent;
use forerun_trace::record::{Name, Record, Trace};
use rayon::prelude::*;
use serde::Serialize;

/// Distinct blocks in a sequence: 16 TiB of footprint. Blocks are numbered in 32 bits, a few numbers kept back.
pub const FOOTPRINT_MAX: usize = (u32::MAX - 16) as usize;

/// Longest request. A call of Linux moves 2 GiB at most, an object may be larger; each of its blocks is a number to keep.
pub const REQUEST_BYTES_MAX: u64 = 16 << 30;

/// What a cache-only run refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MrcError {
    /// The sequence has more distinct blocks than numbers.
    #[error("more than {FOOTPRINT_MAX} distinct blocks: cut the trace into parts")]
    TooManyBlocks,
    /// A request that ends where 64 bits cannot address.
    #[error(
        "record {0}: offset and length run past the end of a 64-bit address: it is damaged, or its unit is another"
    )]
    Address(u64),
    /// A request over more blocks than one can be of.
    #[error(
        "record {record}: {} in one request is more than the {} that one can be of: it is damaged, or its unit is another",
        about_size(*bytes), about_size(REQUEST_BYTES_MAX)
    )]
    TooLong {
        /// Number of the record, counted from 1.
        record: u64,
        /// Its length.
        bytes: u64,
    },
    /// A size of zero blocks was asked for.
    #[error("a cache of 0 blocks holds nothing: sizes start at 1")]
    ZeroSize,
    /// Whoever asked wants the rest no more.
    #[error("stopped")]
    Stopped,
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
        let mut blocks = blocks.into_iter();
        sequence.keys.reserve(blocks.size_hint().0);
        let mut group = Vec::with_capacity(GROUP);
        loop {
            group.extend(blocks.by_ref().take(GROUP));
            if group.is_empty() {
                return Ok(sequence);
            }
            table.fetch(&group);
            for block in group.drain(..) {
                sequence.push(&mut table, block)?;
            }
        }
    }

    /// Cuts the requests of `trace` into the 4 KiB blocks that they touch. Each device, and each file on it, is an
    /// address space of its own.
    ///
    /// # Errors
    /// [`MrcError`].
    pub fn from_trace(trace: &Trace) -> Result<Self, MrcError> {
        let mut numbering = Numbering::default();
        numbering.take(&trace.records);
        numbering.finish()
    }

    #[inline]
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

/// Numbers the blocks of requests as they come, so that nobody need keep a trace for its blocks.
#[derive(Clone, Debug, Default)]
pub struct Numbering {
    /// Where the address spaces of a device and file are.
    places: BTreeMap<(Name, Name), usize>,
    tables: Vec<Interner>,
    /// The address space of the last request: the next one is often of the same.
    last: Option<((Name, Name), usize)>,
    sequence: Sequence,
    /// Records so far, where they are not numbered by who hands them over.
    seen: u64,
    refused: Option<MrcError>,
}

impl Numbering {
    /// The next requests.
    pub fn take<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) {
        for record in records {
            self.seen += 1;
            self.take_one(self.seen, record);
        }
    }

    /// The next request, which is the record of this number, from 1. Behind one that is refused none counts.
    pub fn take_one(&mut self, number: u64, record: &Record) {
        if self.refused.is_none() {
            self.refused = self.add(number, record).err();
        }
    }

    fn add(&mut self, number: u64, record: &Record) -> Result<(), MrcError> {
        if record.offset.checked_add(record.bytes).is_none() {
            return Err(MrcError::Address(number));
        }
        if record.bytes > REQUEST_BYTES_MAX {
            return Err(MrcError::TooLong { record: number, bytes: record.bytes });
        }
        let place = (record.device, record.file);
        let at = match self.last {
            Some((last, at)) if last == place => at,
            _ => self.find(place),
        };
        for block in Extent::covering(record.offset, record.bytes).iter() {
            self.sequence.push(&mut self.tables[at], block.0)?;
        }
        Ok(())
    }

    fn find(&mut self, place: (Name, Name)) -> usize {
        let tables = &mut self.tables;
        let at = *self.places.entry(place).or_insert_with(|| {
            tables.push(Interner::default());
            tables.len() - 1
        });
        self.last = Some((place, at));
        at
    }

    /// All that came.
    ///
    /// # Errors
    /// [`MrcError`].
    pub fn finish(self) -> Result<Sequence, MrcError> {
        self.refused.map_or(Ok(self.sequence), Err)
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
    mrc_until(input, sequence, retentions, cache_blocks, &|| false)
}

/// The same, until somebody stops it: no pass begins then, and one that is under way goes on to its end.
///
/// # Errors
/// [`MrcError::ZeroSize`], [`MrcError::Stopped`].
pub fn mrc_until(
    input: &str,
    sequence: &Sequence,
    retentions: &[&'static Baseline],
    cache_blocks: &[u64],
    stops: &(dyn Fn() -> bool + Sync),
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
    let pass = |&(row, part): &(&Baseline, &[usize])| (!stops()).then(|| (row.misses)(&sequence.keys, part));
    let misses: Vec<Vec<u64>> =
        passes.par_iter().map(pass).collect::<Option<_>>().ok_or(MrcError::Stopped)?;
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

/// Number of a free slot of the hash table; no block has it, because numbers end at `FOOTPRINT_MAX`.
const FREE: u32 = u32::MAX;
/// Slots of the hash table at first; a power of two, as all its sizes.
const SLOTS_MIN: usize = 64;
/// 2^64 divided by the golden ratio, odd: spreads consecutive blocks over the high bits.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Blocks whose slots are looked for together: about as many reads of memory as a processor has under way at once.
const GROUP: usize = 16;
/// Places of the plain table for each block that is known, before it is rounded up to a power of two: 64 bytes at most. Where blocks
/// lie farther apart, hashing takes less memory.
const NEAR_PLACES: usize = 8;
/// Places of the plain table, at least: a table that small is there before its blocks are.
const NEAR_MIN: usize = 64;

/// From block numbers to dense numbers. Low block numbers, of which a good part is used, are places in a plain table, which neither
/// hashes nor compares and is a fraction as large; the others are hashed: open addressing, at most two thirds full (a miss of the
/// table costs more than a probe).
#[derive(Clone, Debug)]
struct Interner {
    /// By block, its number and one; 0 for none, which fresh memory holds.
    near: Vec<u32>,
    slots: Vec<(u64, u32)>,
    hashed: usize,
    used: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self { near: Vec::new(), slots: vec![(0, FREE); SLOTS_MIN], hashed: 0, used: 0 }
    }
}

impl Interner {
    /// The number of `block`, which is `fresh` if it had none.
    #[inline]
    fn intern(&mut self, block: u64, fresh: u32) -> u32 {
        let place = usize::try_from(block).ok().and_then(|at| self.near.get_mut(at));
        let Some(place) = place else { return self.far(block, fresh) };
        if *place == 0 {
            *place = fresh + 1;
            self.used += 1;
        }
        *place - 1
    }

    /// The same of a block beyond the plain table, which may grow to hold it.
    #[inline(never)]
    fn far(&mut self, block: u64, fresh: u32) -> u32 {
        if block < (self.used * NEAR_PLACES).max(NEAR_MIN) as u64 {
            self.widen(block);
            return self.intern(block, fresh);
        }
        let at = self.find(block);
        let (_, key) = self.slots[at];
        if key != FREE {
            return key;
        }
        self.slots[at] = (block, fresh);
        self.hashed += 1;
        self.used += 1;
        if self.hashed * 3 > self.slots.len() * 2 {
            self.rehash(self.slots.len() * 2);
        }
        fresh
    }

    /// Brings the slots at which these blocks are looked for first into the processor's caches, all at once: one after the other, each
    /// look-up would wait for memory.
    fn fetch(&self, blocks: &[u64]) {
        let first = |&block: &u64| self.slots[self.home(block)].0;
        std::hint::black_box(blocks.iter().map(first).fold(0, |sum, held| sum ^ held));
    }

    /// Where `block` is looked for first.
    fn home(&self, block: u64) -> usize {
        let mixed = (block ^ block >> 32).wrapping_mul(SPREAD);
        #[expect(clippy::cast_possible_truncation, reason = "fewer bits than the table has slots")]
        let at = (mixed >> (64 - self.slots.len().trailing_zeros())) as usize;
        at
    }

    /// Makes the plain table hold `block`, and what was hashed of such numbers before.
    #[expect(clippy::cast_possible_truncation, reason = "fewer than there are places for")]
    fn widen(&mut self, block: u64) {
        let mut wider = vec![0; (block as usize + 1).next_power_of_two().max(NEAR_MIN)];
        wider[..self.near.len()].copy_from_slice(&self.near);
        self.near = wider;
        self.rehash(self.slots.len());
    }

    /// The slot of `block`, or the free one where it belongs.
    fn find(&self, block: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(block);
        loop {
            let (held, key) = self.slots[at];
            if key == FREE || held == block {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Hashes anew into so many slots what the plain table does not hold.
    fn rehash(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![(0, FREE); slots]);
        self.hashed = 0;
        for (block, key) in old.into_iter().filter(|&(_, key)| key != FREE) {
            match usize::try_from(block).ok().and_then(|at| self.near.get_mut(at)) {
                Some(place) => *place = key + 1,
                None => {
                    let at = self.find(block);
                    self.slots[at] = (block, key);
                    self.hashed += 1;
                }
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
    fn a_request_that_can_be_none_is_refused_with_its_number_and_takes_no_memory() {
        let of = |offset, bytes| {
            let records = vec![record(1, 0, 4096), record(1, offset, bytes)];
            Sequence::from_trace(&Trace { records, ..Trace::default() })
        };
        assert_eq!(of(4096, u64::MAX), Err(MrcError::Address(2)));
        for bytes in [u64::MAX, 464 << 30, REQUEST_BYTES_MAX + 1] {
            assert_eq!(of(0, bytes), Err(MrcError::TooLong { record: 2, bytes }));
        }
        let told = MrcError::TooLong { record: 2, bytes: 464 << 30 }.to_string();
        assert!(
            told.starts_with("record 2: ") && told.contains("464GiB") && told.contains("16GiB"),
            "{told}"
        );
        assert_eq!(of(u64::MAX - 4095, 4095).expect("the last block that there can be").footprint(), 2);
    }

    #[test]
    fn blocks_move_into_the_plain_table_when_enough_are_near_and_far_ones_stay_hashed() {
        let mut table = Interner::default();
        let scattered = [7_000, 1 << 40, 900, 20, 300];
        for (number, block) in (0..).zip(scattered) {
            assert_eq!(table.intern(block, number), number);
        }
        assert_eq!((table.near.len(), table.hashed), (64, 4), "20 is among the first");
        for block in 0..1000 {
            table.intern(block + 1000, u32::try_from(block).expect("few") + 5);
        }
        assert_eq!((table.near.len(), table.hashed), (2048, 2));
        assert!((0..).zip(scattered).all(|(number, block)| table.intern(block, 5000) == number));
        assert_eq!(table.used, 1005);
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
        assert_eq!(mrc_until("t", &empty, &all, &[4], &|| true), Err(MrcError::Stopped));
    }

    proptest! {
        #[test]
        fn interning_numbers_blocks_by_first_use(
            blocks in prop::collection::vec(0_u64..500, 0..2000),
            wide in prop_oneof![0_u64..30, any::<u64>()],
        ) {
            // Beside each other, so that they are in the plain table from the beginning or come into it later; or far apart.
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
