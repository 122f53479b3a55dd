//! The requests of a trace in a fifth of the room that a list of [`Record`]s takes: each field a column, and each column's numbers packed
//! ([`Packed`]).
//!
//! A comparison keeps its trace for as long as it runs, and every run reads it from its beginning; millions of requests are usual. What
//! a run needs beside it (which request is next of which process) is a list of numbers of records.

use crate::packed::{Bits, Packed};
use crate::record::{Name, Record, Trace};
use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Bytes: in sectors as long as all are whole ones.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes {
    unit: u64,
    column: Packed,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { unit: SECTOR_BYTES, column: Packed::default() }
    }
}

impl Sizes {
    fn push(&mut self, bytes: u64) {
        if !bytes.is_multiple_of(self.unit) {
            let mut column = Packed::default();
            self.column.iter().for_each(|sectors| column.push(sectors * self.unit));
            *self = Self { unit: 1, column };
        }
        self.column.push(bytes / self.unit);
    }

    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.column.get(at) * self.unit
    }
}

/// Nanoseconds of a microsecond: of so many are the times of many formats.
const MICRO: u64 = 1_000;

/// Times that may be missing, in microseconds as long as all are whole ones: 0 is none, and any other one more than it is. The last
/// nanosecond of 584 years is taken for the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Times {
    unit: u64,
    column: Packed,
}

impl Default for Times {
    fn default() -> Self {
        Self { unit: MICRO, column: Packed::default() }
    }
}

impl Times {
    fn push(&mut self, time: Option<Nanos>) {
        if time.is_some_and(|time| !time.0.is_multiple_of(self.unit)) {
            let mut column = Packed::default();
            (0..self.column.len()).for_each(|at| column.push(self.get(at).map_or(0, |time| time.0 + 1)));
            *self = Self { unit: 1, column };
        }
        self.column.push(time.map_or(0, |time| (time.0 / self.unit).saturating_add(1)));
    }

    #[inline]
    fn get(&self, at: usize) -> Option<Nanos> {
        self.column.get(at).checked_sub(1).map(|time| Nanos(time * self.unit))
    }
}

/// The records of a trace in columns, and what else a run asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Names of the records.
    pub names: Vec<String>,
    /// Bytes of each file, by device and file, where known.
    pub file_sizes: BTreeMap<(Name, Name), u64>,
    /// Device and file of each object, in the order in which they first appear; a device without files is one too.
    pub objects: Vec<(Name, Name)>,
    numbers: BTreeMap<(Name, Name), u32>,
    time: Times,
    took: Times,
    process: Packed,
    object: Packed,
    offset: Sizes,
    bytes: Sizes,
    writes: Bits,
    len: usize,
    /// Device and file of the last record, and their number.
    last: Option<((Name, Name), u64)>,
}

impl Kept {
    /// The same records.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut kept = Self::default();
        kept.take(&trace.records);
        kept.finish(trace.names.clone(), trace.file_sizes.clone())
    }

    /// Takes more records, in order.
    ///
    /// # Panics
    /// At 2³² objects: their names would not be numbered either.
    pub fn take(&mut self, records: &[Record]) {
        for record in records {
            let object = (record.device, record.file);
            // Most are of the same object as the one before.
            let object = match self.last {
                Some((last, number)) if last == object => number,
                _ => self.number(object),
            };
            let at = self.len;
            self.time.push(record.time);
            self.took.push(record.took);
            self.process.push(record.process.0.into());
            self.object.push(object);
            self.offset.push(record.offset);
            self.bytes.push(record.bytes);
            if record.op == Op::Write {
                self.writes.set(at);
            }
            self.len += 1;
        }
    }

    fn number(&mut self, object: (Name, Name)) -> u64 {
        let next = self.objects.len();
        let number = *self
            .numbers
            .entry(object)
            .or_insert_with(|| u32::try_from(next).expect("names are numbered by 32 bits"));
        if number as usize == next {
            self.objects.push(object);
        }
        self.last = Some((object, number.into()));
        number.into()
    }

    /// All records were taken.
    #[must_use]
    pub fn finish(mut self, names: Vec<String>, file_sizes: BTreeMap<(Name, Name), u64>) -> Self {
        (self.names, self.file_sizes) = (names, file_sizes);
        self.numbers = BTreeMap::new();
        let columns = [&mut self.process, &mut self.object, &mut self.time.column, &mut self.took.column];
        columns.into_iter().chain([&mut self.offset.column, &mut self.bytes.column]).for_each(Packed::fit);
        self
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The object of a record.
    #[must_use]
    #[inline]
    pub fn object(&self, at: usize) -> usize {
        // As it was numbered.
        self.object.get(at) as usize
    }

    /// Its time.
    #[must_use]
    #[inline]
    pub fn time(&self, at: usize) -> Option<Nanos> {
        self.time.get(at)
    }

    /// How long it took.
    #[must_use]
    #[inline]
    pub fn took(&self, at: usize) -> Option<Nanos> {
        self.took.get(at)
    }

    /// Its process.
    #[must_use]
    #[inline]
    pub fn process(&self, at: usize) -> Name {
        // It was one when it was taken.
        Name(self.process.get(at) as u32)
    }

    /// Its first byte on the device or in the file, and its length.
    #[must_use]
    #[inline]
    pub fn range(&self, at: usize) -> (u64, u64) {
        (self.offset.get(at), self.bytes.get(at))
    }

    /// A record.
    #[must_use]
    #[inline]
    pub fn get(&self, at: usize) -> Record {
        let (device, file) = self.objects[self.object(at)];
        Record {
            time: self.time.get(at),
            took: self.took.get(at),
            device,
            process: self.process(at),
            file,
            offset: self.offset.get(at),
            bytes: self.bytes.get(at),
            op: if self.writes.has(at) { Op::Write } else { Op::Read },
        }
    }

    /// All of them.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (0..self.len).map(|at| self.get(at))
    }

    /// The numbers of the records in order of time, of those of one time in their own.
    pub fn in_order_of_time(&self) -> impl Iterator<Item = usize> + use<> {
        let mut order: Vec<u32> = (0..u32::try_from(self.len).expect("fewer than 2^32 records")).collect();
        order.sort_by_key(|&at| self.time(at as usize));
        order.into_iter().map(|at| at as usize)
    }

    /// The devices of which some request moves a byte, in the order in which these first appear.
    #[must_use]
    pub fn moving(&self) -> Vec<Name> {
        let mut seen = vec![false; self.objects.len()];
        let mut devices: Vec<Name> = Vec::new();
        for at in (0..self.len).filter(|&at| self.bytes.get(at) > 0) {
            if !std::mem::replace(&mut seen[self.object(at)], true) {
                let device = self.objects[self.object(at)].0;
                if !devices.contains(&device) {
                    devices.push(device);
                }
            }
        }
        devices
    }

    /// The devices, in the order in which they first appear.
    #[must_use]
    pub fn devices(&self) -> Vec<Name> {
        let mut devices: Vec<Name> = Vec::new();
        for &(device, _) in &self.objects {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        devices
    }

    /// As a list of records again.
    #[must_use]
    pub fn to_trace(&self) -> Trace {
        Trace {
            names: self.names.clone(),
            file_sizes: self.file_sizes.clone(),
            records: self.records().collect(),
            ..Trace::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small_or_any() -> impl Strategy<Value = u64> {
        prop_oneof![0..70_000_u64, (0..1_u64 << 34).prop_map(|value| value * 512), any::<u64>()]
    }

    fn time() -> impl Strategy<Value = Option<Nanos>> {
        proptest::option::of(prop_oneof![0..70_000_u64, 0..u64::MAX].prop_map(Nanos))
    }

    prop_compose! {
        fn record()(time in time(), took in time(), names in (0..3_u32, 0..70_000_u32, 0..4_u32),
                    offset in small_or_any(), bytes in small_or_any(), write in any::<bool>()) -> Record {
            Record {
                time, took, device: Name(names.0), process: Name(names.1), file: Name(names.2), offset, bytes,
                op: if write { Op::Write } else { Op::Read },
            }
        }
    }

    proptest! {
        #[test]
        fn records_come_out_as_they_went_in(records in proptest::collection::vec(record(), 0..60)) {
            let trace = Trace { names: vec![String::new()], records, ..Trace::default() };
            let kept = Kept::of(&trace);
            prop_assert_eq!(kept.to_trace(), trace.clone());
            prop_assert_eq!(kept.len(), trace.records.len());
            // In whatever parts they are taken.
            let mut parts = Kept::default();
            trace.records.chunks(7).for_each(|part| parts.take(part));
            prop_assert_eq!(parts.finish(trace.names.clone(), BTreeMap::new()), kept);
        }
    }

    #[test]
    fn a_read_of_a_disk_takes_a_dozen_bytes() {
        let mut kept = Kept::default();
        let of = |at: u64| Record {
            time: Some(Nanos(at * 200_000)),
            took: Some(Nanos(5_000_000 + at * 77_777 % 200_000)),
            process: Name(at as u32 % 8),
            offset: at * 77_777 % (1 << 22) * 4_096,
            bytes: 4_096,
            ..Record::BLANK
        };
        (0..100_000).for_each(|at| kept.take(&[of(at)]));
        let columns = [
            &kept.time.column,
            &kept.took.column,
            &kept.process,
            &kept.object,
            &kept.offset.column,
            &kept.bytes.column,
        ];
        assert_eq!(columns.map(|column| column.held() / 100_000), [2, 3, 1, 0, 4, 0]);
    }
}
