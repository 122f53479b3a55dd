//! A part of a trace: a stretch of time, some processes, or a sample that keeps reuse.
//!
//! A sample takes places, not requests: a stretch of a device or a file is in it with all its requests, or not at all, decided
//! by a hash of where it lies. So what is read again in the trace is read again in the sample after as many of the sample's own
//! bytes, scaled, and a cache of a tenth behaves on a sample of a tenth as the whole one on the whole (SHARDS: Waldspurger,
//! Park, Garthwaite, Ahmad, FAST 2015). The stretch is long enough that sequential reads within it stay sequential.

use crate::record::{COMMAND_NS, Name, Record, Trace};
use forerun_core::units::Nanos;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// Bytes that are in a sample together.
pub const STRETCH: u64 = 1 << 20;

/// What to keep; each condition narrows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cut {
    /// Requests from this time on.
    pub from: Option<Nanos>,
    /// Requests before this time.
    pub until: Option<Nanos>,
    /// Only of these processes, by name.
    pub processes: Vec<String>,
    /// Share of all places, above 0 and at most 1.
    pub sample: Option<f64>,
    /// Another seed takes other places.
    pub seed: u64,
}

/// Whether a place is in a sample.
struct Sample {
    share: f64,
    seed: u64,
    known: BTreeMap<(Name, Name, u64), bool>,
}

impl Sample {
    fn takes(&mut self, trace: &Trace, record: &Record) -> bool {
        let stretch = record.offset / STRETCH;
        let (share, seed) = (self.share, self.seed);
        *self.known.entry((record.device, record.file, stretch)).or_insert_with(|| {
            let mut hash = Sha256::new();
            hash.update(seed.to_le_bytes());
            for name in [record.device, record.file] {
                hash.update(trace.name(name));
                hash.update([0]);
            }
            hash.update(stretch.to_le_bytes());
            let digest = hash.finalize();
            let number = digest.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
            (number as f64) < share * u64::MAX as f64
        })
    }
}

/// The part of a trace; its times begin where the part does.
#[must_use]
pub fn cut(trace: &Trace, what: &Cut) -> Trace {
    let wanted =
        |name: Name| what.processes.is_empty() || what.processes.iter().any(|one| one == trace.name(name));
    let after = |time: Option<Nanos>| what.from.is_none_or(|from| time.is_some_and(|time| time >= from));
    let before = |time: Option<Nanos>| what.until.is_none_or(|until| time.is_some_and(|time| time < until));
    let mut sample = what.sample.map(|share| Sample { share, seed: what.seed, known: BTreeMap::new() });
    let kept = trace.records.iter().filter(|record| {
        wanted(record.process)
            && after(record.time)
            && before(record.time)
            && sample.as_mut().is_none_or(|sample| sample.takes(trace, record))
    });
    let zero = what.from.unwrap_or(Nanos::ZERO);
    let moved = |record: &Record| Record { time: record.time.map(|time| time.since(zero)), ..*record };
    let mut trace = Trace { records: kept.map(moved).collect(), ..trace.clone() }.compacted();
    // How long the command ran says nothing of a part of its reads.
    trace.about.remove(COMMAND_NS);
    trace
}

impl Trace {
    /// The same trace without names and sizes that no record needs: what was cut out is not told.
    #[must_use]
    pub fn compacted(self) -> Self {
        let mut number: BTreeMap<Name, Name> = BTreeMap::from([(Name::ABSENT, Name::ABSENT)]);
        let mut names = vec![String::new()];
        let mut records = self.records;
        for record in &mut records {
            for name in [&mut record.device, &mut record.process, &mut record.file] {
                let next = Name(u32::try_from(names.len()).unwrap_or(u32::MAX));
                let own = *number.entry(*name).or_insert(next);
                if own == next {
                    names.push(self.names.get(name.0 as usize).cloned().unwrap_or_default());
                }
                *name = own;
            }
        }
        let sizes = self.file_sizes.iter();
        let sizes = sizes.filter_map(|((device, file), &size)| {
            let (device, file) = (*number.get(device)?, *number.get(file)?);
            Some(((device, file), size))
        });
        Self { file_sizes: sizes.collect(), names, records, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of 4 KiB, a quarter of them again and again, by two processes, one a microsecond.
    fn trace(count: u64) -> Trace {
        let record = |at: u64| {
            let block =
                if at.is_multiple_of(4) { at % 1_024 } else { at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 46 };
            Record {
                time: Some(Nanos(at * 1_000)),
                device: Name(1),
                process: Name(2 + (at % 2) as u32),
                offset: block * 65_536,
                bytes: 4_096,
                ..Record::BLANK
            }
        };
        let names = ["", "sda", "a", "b", "unused"].map(String::from).to_vec();
        Trace { names, records: (0..count).map(record).collect(), ..Trace::default() }
    }

    /// Share of requests that an LRU cache of so many places holds.
    fn hits(trace: &Trace, places: usize) -> f64 {
        let (mut last, mut order, mut hits) = (BTreeMap::new(), BTreeMap::new(), 0);
        for (now, record) in trace.records.iter().enumerate() {
            if let Some(before) = last.insert(record.offset, now) {
                order.remove(&before);
                hits += 1;
            }
            order.insert(now, record.offset);
            if order.len() > places
                && let Some((_, oldest)) = order.pop_first()
            {
                last.remove(&oldest);
            }
        }
        f64::from(hits) / trace.records.len() as f64
    }

    #[test]
    fn a_window_and_a_process_are_cut_out_and_nothing_else_is_told() {
        let what = Cut {
            from: Some(Nanos(10_000)),
            until: Some(Nanos(20_000)),
            processes: vec!["b".into()],
            ..Cut::default()
        };
        let whole = Trace { about: [(COMMAND_NS.into(), "9000".into())].into(), ..trace(100) };
        let part = cut(&whole, &what);
        assert_eq!((whole.about.len(), part.about.len()), (1, 0), "how long the command ran is of the whole");
        let times: Vec<u64> =
            part.records.iter().filter_map(|record| record.time).map(|time| time.0).collect();
        assert_eq!(times, [1_000, 3_000, 5_000, 7_000, 9_000]);
        assert_eq!(part.names, ["", "sda", "b"]);
    }

    #[test]
    fn a_cache_of_a_quarter_does_on_a_sample_of_a_quarter_what_the_whole_does_on_all() {
        let all = trace(60_000);
        let share = 0.25;
        let part = cut(&all, &Cut { sample: Some(share), ..Cut::default() });
        let kept = part.records.len() as f64 / all.records.len() as f64;
        assert!((kept - share).abs() < 0.07, "{kept}");
        for places in [512, 2_048, 8_192] {
            let (whole, own) = (hits(&all, places), hits(&part, (places as f64 * share) as usize));
            assert!((whole - own).abs() < 0.06, "{places}: {whole} {own}");
        }
    }

    #[test]
    fn a_place_is_in_a_sample_with_all_its_requests_or_not_at_all() {
        let all = trace(5_000);
        let part = cut(&all, &Cut { sample: Some(0.3), ..Cut::default() });
        let times = |trace: &Trace, offset: u64| trace.records.iter().filter(|r| r.offset == offset).count();
        for record in &part.records {
            assert_eq!(times(&part, record.offset), times(&all, record.offset));
        }
        assert_ne!(part, cut(&all, &Cut { sample: Some(0.3), seed: 1, ..Cut::default() }));
    }
}
