//! The requests of a trace in a third of the room that a list of [`Record`]s takes: each field a column, and each column's numbers in as
//! many bytes as the largest of them needs.
//!
//! A comparison keeps its trace for as long as it runs, and every run reads it from its beginning; millions of requests are usual. What
//! a run needs beside it (which request is next of which process) is a list of numbers of records.

use forerun_core::access::Op;
use forerun_core::units::{Nanos, SECTOR_BYTES};
use forerun_trace::record::{Name, Record, Trace};
use std::collections::BTreeMap;

/// Numbers, each in as many bytes as the largest needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
}

impl Default for Column {
    fn default() -> Self {
        Self::Two(Vec::new())
    }
}

impl Column {
    pub(crate) fn push(&mut self, value: u64) {
        match self {
            Self::Two(list) => match u16::try_from(value) {
                Ok(value) => return list.push(value),
                Err(_) => *self = Self::Four(list.iter().map(|&value| value.into()).collect()),
            },
            Self::Four(list) => match u32::try_from(value) {
                Ok(value) => return list.push(value),
                Err(_) => *self = Self::Eight(list.iter().map(|&value| value.into()).collect()),
            },
            Self::Eight(list) => return list.push(value),
        }
        self.push(value);
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Two(list) => list.len(),
            Self::Four(list) => list.len(),
            Self::Eight(list) => list.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        match self {
            Self::Two(list) => list[at].into(),
            Self::Four(list) => list[at].into(),
            Self::Eight(list) => list[at],
        }
    }

    /// How many bytes its numbers take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let each = match self {
            Self::Two(_) => 2,
            Self::Four(_) => 4,
            Self::Eight(_) => 8,
        };
        each * self.len()
    }

    /// Gives back what was taken for growing.
    fn fit(&mut self) {
        match self {
            Self::Two(list) => list.shrink_to_fit(),
            Self::Four(list) => list.shrink_to_fit(),
            Self::Eight(list) => list.shrink_to_fit(),
        }
    }
}

/// Bytes: in sectors as long as all are whole ones.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sizes {
    unit: u64,
    column: Column,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { unit: SECTOR_BYTES, column: Column::default() }
    }
}

impl Sizes {
    fn push(&mut self, bytes: u64, len: usize) {
        if !bytes.is_multiple_of(self.unit) {
            let mut column = Column::default();
            (0..len).for_each(|at| column.push(self.get(at)));
            *self = Self { unit: 1, column };
        }
        self.column.push(bytes / self.unit);
    }

    fn get(&self, at: usize) -> u64 {
        self.column.get(at) * self.unit
    }
}

/// Times that may be missing: 0 is none, and any other one more than it is. The last nanosecond of 584 years is taken for the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Times(Column);

impl Times {
    fn push(&mut self, time: Option<Nanos>) {
        self.0.push(time.map_or(0, |time| time.0.saturating_add(1)));
    }

    fn get(&self, at: usize) -> Option<Nanos> {
        self.0.get(at).checked_sub(1).map(Nanos)
    }
}

/// One bit for each record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// Sets a bit; those that never were are not set.
    pub(crate) fn set(&mut self, at: usize) {
        let word = at / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (at % 64);
    }

    /// Clears those that are set in another list.
    pub(crate) fn clear(&mut self, of: &Self) {
        self.0.iter_mut().zip(&of.0).for_each(|(word, gone)| *word &= !gone);
    }

    /// Whether it is set.
    pub(crate) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

/// A trace to be run: its records in columns, and what else a run asks of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Names of the records.
    pub(crate) names: Vec<String>,
    /// Bytes of each file, by device and file, where known.
    pub(crate) file_sizes: BTreeMap<(Name, Name), u64>,
    /// Device and file of each object, in the order in which they first appear; a device without files is one too.
    pub(crate) objects: Vec<(Name, Name)>,
    numbers: BTreeMap<(Name, Name), u32>,
    time: Times,
    took: Times,
    process: Column,
    object: Column,
    offset: Sizes,
    bytes: Sizes,
    writes: Bits,
    len: usize,
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
    pub(crate) fn take(&mut self, records: &[Record]) {
        for record in records {
            let object = (record.device, record.file);
            // Most are of the same object as the one before.
            let again = self
                .len
                .checked_sub(1)
                .map(|at| self.object.get(at))
                .filter(|&at| self.objects[at as usize] == object);
            let object = again.unwrap_or_else(|| self.number(object));
            let at = self.len;
            self.time.push(record.time);
            self.took.push(record.took);
            self.process.push(record.process.0.into());
            self.object.push(object);
            self.offset.push(record.offset, at);
            self.bytes.push(record.bytes, at);
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
        number.into()
    }

    /// All records were taken.
    pub(crate) fn finish(mut self, names: Vec<String>, file_sizes: BTreeMap<(Name, Name), u64>) -> Self {
        (self.names, self.file_sizes) = (names, file_sizes);
        let columns = [&mut self.process, &mut self.object, &mut self.time.0, &mut self.took.0];
        columns.into_iter().chain([&mut self.offset.column, &mut self.bytes.column]).for_each(Column::fit);
        self
    }

    /// How many records there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The object of a record.
    pub(crate) fn object(&self, at: usize) -> usize {
        // As it was numbered.
        self.object.get(at) as usize
    }

    /// Its time.
    pub(crate) fn time(&self, at: usize) -> Option<Nanos> {
        self.time.get(at)
    }

    /// How long it took.
    pub(crate) fn took(&self, at: usize) -> Option<Nanos> {
        self.took.get(at)
    }

    /// Its process.
    pub(crate) fn process(&self, at: usize) -> Name {
        // It was one when it was taken.
        Name(self.process.get(at) as u32)
    }

    /// Its first byte on the device or in the file, and its length.
    pub(crate) fn range(&self, at: usize) -> (u64, u64) {
        (self.offset.get(at), self.bytes.get(at))
    }

    /// A record.
    pub(crate) fn get(&self, at: usize) -> Record {
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
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> + '_ {
        (0..self.len).map(|at| self.get(at))
    }

    /// The devices of which some request moves a byte, in the order in which these first appear.
    pub(crate) fn moving(&self) -> Vec<Name> {
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
    pub(crate) fn devices(&self) -> Vec<Name> {
        let mut devices: Vec<Name> = Vec::new();
        for &(device, _) in &self.objects {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        devices
    }

    /// As a list of records again.
    pub(crate) fn to_trace(&self) -> Trace {
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
    fn a_read_of_a_disk_takes_some_twenty_bytes() {
        let mut kept = Kept::default();
        let of = |at: u64| Record {
            time: Some(Nanos(at * 200_000)),
            took: Some(Nanos(5_000_000)),
            process: Name(at as u32 % 8),
            offset: at * 77_777 % (1 << 22) * 4_096,
            bytes: 4_096,
            ..Record::BLANK
        };
        (0..100_000).for_each(|at| kept.take(&[of(at)]));
        let columns = [
            &kept.time.0,
            &kept.took.0,
            &kept.process,
            &kept.object,
            &kept.offset.column,
            &kept.bytes.column,
        ];
        assert_eq!(columns.map(|column| column.bytes() / 100_000), [8, 4, 2, 2, 4, 2]);
    }
}
