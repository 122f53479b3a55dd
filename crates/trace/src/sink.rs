//! Where every reader puts its records: the one place that interns names, checks addresses and counts faults.
//!
//! A reader knows a format; it does not know whether a bad record ends the reading, how many records were asked
//! for, or how a name becomes a number. Those decisions are here, so that they are the same for all formats: an
//! address range that would leave 64 bits is a fault, names are interned in the order in which they first appear
//! (a table, never iterated by hash), and with `skip_bad` the first [`BAD_KEPT_MAX`] faults are kept for the
//! report while the rest are counted.

use crate::chains::{Renaming, Thread, Threads, name_numbered};
use crate::error::{Fault, Malformed, Place, TraceError};
use crate::format::Format;
use crate::kept::Kept;
use crate::options::ReadOptions;
use crate::record::{Name, Record, Trace};
use forerun_core::units::{Nanos, SECTOR_BYTES};
use std::collections::HashMap;

/// Faults kept word for word when bad records are passed over; the rest are only counted.
pub(crate) const BAD_KEPT_MAX: usize = 16;

/// What stands for the remedy of a bad record that was passed over.
const PASSED_OVER: &str = "it was passed over";

/// Records that are handed on at once where nobody keeps them: so many stay in the cache of a core.
const PART: usize = 256;

/// Who takes records as they are read.
pub(crate) type Taker<'a> = &'a mut dyn FnMut(&[Record]);

/// Collects the records of one trace, or hands them on.
pub(crate) struct Sink<'a> {
    /// Options of the caller.
    pub(crate) options: &'a ReadOptions,
    taker: Option<Taker<'a>>,
    /// Records of a format that says only at its end what they are, until they can be handed on.
    late: Option<Kept>,
    /// Records that were handed on, and the last of them.
    handed: u64,
    last: Record,
    file: String,
    format: Format,
    trace: Trace,
    index: HashMap<String, Name>,
    bad: Vec<Malformed>,
    limit: u64,
    /// Who issued records, in formats that leave naming processes to the sink: records have a number of these for a process until then.
    threads: Threads,
    /// The source turned out to have no times.
    timeless: bool,
}

impl<'a> Sink<'a> {
    /// An empty trace that will say it came from `file` in `format`.
    pub(crate) fn new(file: &str, format: Format, options: &'a ReadOptions) -> Self {
        let trace =
            Trace { names: vec![String::new()], format: format.name().to_owned(), ..Trace::default() };
        Self {
            options,
            taker: None,
            late: None,
            handed: 0,
            last: BLANK,
            file: file.to_owned(),
            format,
            trace,
            index: HashMap::new(),
            bad: Vec::new(),
            limit: options.limit.unwrap_or(u64::MAX),
            threads: Threads::default(),
            timeless: false,
        }
    }
    /// The same, which keeps no record: all go to `taker`, in order, and the trace at the end has none.
    pub(crate) fn handing_on(self, taker: Taker<'a>) -> Self {
        Self { taker: Some(taker), ..self }
    }
    /// The same for a format that says only at its end what its records are: they are kept until then, in few bytes.
    pub(crate) fn handing_on_at_the_end(self, taker: Taker<'a>) -> Self {
        Self { taker: Some(taker), late: Some(Kept::default()), ..self }
    }
    /// Number of a name; the empty string is [`Name::ABSENT`].
    pub(crate) fn name(&mut self, text: &str) -> Result<Name, Fault> {
        if text.is_empty() {
            return Ok(Name::ABSENT);
        }
        if let Some(&name) = self.index.get(text) {
            return Ok(name);
        }
        let number = u32::try_from(self.trace.names.len())
            .map_err(|_| Fault::told("at most 2^32 distinct names", "one more"))?;
        self.trace.names.push(text.to_owned());
        self.index.insert(text.to_owned(), Name(number));
        Ok(Name(number))
    }
    /// As [`Sink::name`], quick where `text` is likely the name of `guess`, as in long runs of one device.
    pub(crate) fn name_like(&mut self, guess: Name, text: &str) -> Result<Name, Fault> {
        match self.trace.names.get(guess.0 as usize) {
            Some(known) if known == text => Ok(guess),
            _ => self.name(text),
        }
    }
    /// The string of a name.
    pub(crate) fn text(&self, name: Name) -> &str {
        self.trace.name(name)
    }
    /// The record before this one, or an empty one.
    pub(crate) fn last(&self) -> Record {
        self.trace.records.last().copied().unwrap_or(self.last)
    }
    /// Takes one record.
    pub(crate) fn push(&mut self, record: Record) -> Result<(), Fault> {
        if record.offset.checked_add(record.bytes).is_none() {
            return Err(past_the_end(record.offset, record.bytes));
        }
        if !self.full() {
            self.trace.records.push(record);
            self.pushed();
        }
        Ok(())
    }
    /// Takes a read of which nothing but time and place is known. It is written where it is kept: a record that is made elsewhere and
    /// moved costs a processor more than all else that a binary format does with it.
    #[inline]
    pub(crate) fn push_read(&mut self, time: Nanos, offset: u64, bytes: u64) -> Result<(), Fault> {
        if offset.checked_add(bytes).is_none() {
            return Err(past_the_end(offset, bytes));
        }
        if !self.full() {
            self.trace.records.push(BLANK);
            if let Some(record) = self.trace.records.last_mut() {
                record.time = Some(time);
                record.offset = offset;
                record.bytes = bytes;
            }
            self.pushed();
        }
        Ok(())
    }
    #[inline]
    fn pushed(&mut self) {
        if self.trace.records.len() >= PART && self.taker.is_some() {
            self.hand_on();
        }
    }
    /// Gives what was collected to whoever takes it.
    #[inline(never)]
    fn hand_on(&mut self) {
        if let Some(taker) = &mut self.taker {
            match &mut self.late {
                Some(late) => late.take(&self.trace.records),
                None => taker(&self.trace.records),
            }
            self.last = self.last();
            self.handed += self.trace.records.len() as u64;
            self.trace.records.clear();
        }
    }
    /// Whether the caller's limit is reached.
    #[inline]
    pub(crate) fn full(&self) -> bool {
        self.handed + self.trace.records.len() as u64 >= self.limit
    }
    /// Whether no record was taken yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.handed == 0 && self.trace.records.is_empty()
    }
    /// Takes one record of a thread, which becomes a process when all are known (see [`crate::chains`]). Either all
    /// records of a trace come this way, in order of time, or none.
    pub(crate) fn push_of(&mut self, thread: &Thread, record: Record) -> Result<(), Fault> {
        // Who takes records as they come is not told their processes.
        let told = self.taker.is_none() || self.late.is_some();
        let process = if told && !self.full() { Name(self.threads.number(thread)) } else { Name::ABSENT };
        self.push(Record { process, ..record })
    }
    /// Counts events that are well formed and no request for data.
    pub(crate) fn pass_over(&mut self, events: u64) {
        self.trace.passed_over += events;
    }
    /// Notes that a file has at least `bytes`.
    pub(crate) fn know_size(&mut self, device: Name, file: Name, bytes: u64) {
        self.trace.know_size(device, file, bytes);
    }
    /// Notes what the source says of its machine.
    pub(crate) fn say_about(&mut self, key: &str, value: &str) {
        self.trace.about.insert(key.to_owned(), value.to_owned());
    }
    /// The source turned out to have no times.
    pub(crate) fn forget_times(&mut self) {
        self.timeless = true;
        for record in &mut self.trace.records {
            record.time = None;
        }
    }
    /// A bad record: ends the reading, or is counted.
    pub(crate) fn bad(&mut self, place: Place, fault: Fault) -> Result<(), TraceError> {
        if !self.options.skip_bad {
            return Err(self.fatal(place, fault));
        }
        self.skip(place, fault);
        Ok(())
    }
    /// A bad record that is passed over.
    pub(crate) fn skip(&mut self, place: Place, fault: Fault) {
        self.trace.skipped += 1;
        if self.bad.len() < BAD_KEPT_MAX {
            let fault = fault.or_remedy(PASSED_OVER);
            self.bad.push(fault.at(&self.file, self.format.name(), place));
        }
    }
    /// A fault that no skipping heals.
    pub(crate) fn fatal(&self, place: Place, fault: Fault) -> TraceError {
        // Who passes over records already is told of no other way.
        let fault = if self.options.skip_bad { fault.or_remedy("repair it") } else { fault };
        fault.at(&self.file, self.format.name(), place).into()
    }
    /// The trace and the faults kept. With `rebase`, the earliest time becomes zero (formats that record an
    /// absolute clock). A file of nothing but bad records is malformed even when bad records are passed over.
    pub(crate) fn finish(mut self, rebase: bool) -> Result<(Trace, Vec<Malformed>), TraceError> {
        if self.is_empty()
            && let Some(first) = self.bad.first()
        {
            let mut first = first.clone();
            if first.remedy == PASSED_OVER {
                first.remedy = "no record of the file is whole: repair it, or name its format".to_owned();
            }
            return Err(first.into());
        }
        self.hand_on();
        if let (Some(late), Some(taker)) = (self.late.take(), &mut self.taker) {
            hand_on_late(&late, &mut self.trace, &self.threads, self.timeless, taker);
        } else if !self.threads.is_empty() {
            name_numbered(&mut self.trace, &self.threads);
        }
        if rebase {
            let zero = self.trace.records.iter().filter_map(|r| r.time).min().unwrap_or(Nanos::ZERO);
            for record in &mut self.trace.records {
                record.time = record.time.map(|t| t.since(zero));
            }
        }
        Ok((self.trace, self.bad))
    }
}

/// Hands on what was kept to the end, as it is now known to be.
fn hand_on_late(
    late: &Kept,
    trace: &mut Trace,
    threads: &Threads,
    timeless: bool,
    taker: &mut dyn FnMut(&[Record]),
) {
    let mut renaming = (!threads.is_empty()).then(|| {
        let issued = late.records().map(|record| record.process.0);
        Renaming::new(std::mem::take(&mut trace.names), threads.chains(issued))
    });
    let mut part = Vec::with_capacity(PART);
    for (number, mut record) in (1..).zip(late.records()) {
        if timeless {
            record.time = None;
        }
        if let Some(renaming) = &mut renaming {
            renaming.record(&mut record);
        }
        part.push(record);
        if part.len() == PART || number == late.len() {
            taker(&part);
            part.clear();
        }
    }
    if let Some(renaming) = renaming {
        renaming.finish(trace);
    }
}

#[cold]
fn past_the_end(offset: u64, bytes: u64) -> Fault {
    let found = format!("offset {offset} with length {bytes}");
    Fault::told("a range that ends below 2^64 bytes", found)
}

/// A record of nothing, to fill in.
pub(crate) const BLANK: Record = Record::BLANK;

/// Sectors as bytes.
pub(crate) fn sectors_to_bytes(sectors: u64, what: &str) -> Result<u64, Fault> {
    sectors
        .checked_mul(SECTOR_BYTES)
        .ok_or_else(|| Fault::told(format!("{what} below 2^64 bytes in sectors of 512"), sectors.to_string()))
}
