//! Recorded requests at their places on a volume, made when they are asked for: what a replay pulls from.
//!
//! Nothing is copied out of the trace but numbers of records. A request's place, think time and overlap follow from its record and from
//! those before it of its process, which each source goes through once for each replay.

use crate::workload::{PROCESS_SHIFT, Request, Source};
use forerun_core::access::{Context, Op};
use forerun_core::units::{BLOCK_BYTES, Nanos};
use forerun_trace::kept::Kept;
use forerun_trace::packed::{Bits, Packed};
use forerun_trace::record::Name;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// Overlap that is taken for none: times and durations of many formats are microseconds, each rounded by itself.
const TICKS: Nanos = Nanos::from_micros(2);

/// Numbers of records, ascending or in another order: all from the first on, or these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum List {
    First(usize),
    These(Packed),
}

impl Default for List {
    fn default() -> Self {
        Self::First(0)
    }
}

impl List {
    /// One more.
    pub(crate) fn push(&mut self, number: usize) {
        match self {
            Self::First(count) if *count == number => *count += 1,
            Self::First(count) => {
                let before = *count;
                *self = Self::these(0..before);
                self.push(number);
            }
            Self::These(list) => list.push(number as u64),
        }
    }

    /// No more come.
    pub(crate) fn finish(mut self) -> Self {
        if let Self::These(list) = &mut self {
            list.fit();
        }
        self
    }

    fn these(numbers: impl Iterator<Item = usize>) -> Self {
        let mut list = Packed::default();
        numbers.for_each(|number| list.push(number as u64));
        Self::These(list)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::First(count) => *count,
            Self::These(list) => list.len(),
        }
    }

    fn get(&self, at: usize) -> usize {
        match self {
            Self::First(_) => at,
            // As it was when it was pushed.
            Self::These(list) => list.get(at) as usize,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// Numbers of records are kept in 32 bits: a trace of more is beyond any memory this would leave.
fn short(number: usize) -> u32 {
    u32::try_from(number).expect("a trace of fewer than 2^32 records")
}

/// A trace's records on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placing {
    trace: Arc<Kept>,
    /// Number of each object of the trace on this volume; `None`: it is not there.
    numbers: Vec<Option<u32>>,
    /// First byte of each, by that number.
    starts: Vec<u64>,
    /// Bytes of the volume where offsets are taken modulo these.
    room: Option<u64>,
    /// Writes behind whose end their file holds nothing.
    appends: Bits,
    /// Writes to blocks in which their file holds nothing.
    fresh: Bits,
}

impl Placing {
    pub(crate) fn new(
        trace: &Arc<Kept>,
        numbers: Vec<Option<u32>>,
        starts: Vec<u64>,
        room: Option<u64>,
    ) -> Self {
        let (appends, fresh) = (Bits::default(), Bits::default());
        Self { trace: Arc::clone(trace), numbers, starts, room, appends, fresh }
    }

    /// The object of a record, by its number on the volume.
    pub(crate) fn object(&self, at: usize) -> Option<u32> {
        self.numbers[self.trace.object(at)]
    }

    /// Something of each object's name, in the order of their numbers; a device without files has none.
    pub(crate) fn each_name<T: Clone + Default>(&self, of: impl Fn(&str) -> T) -> Vec<T> {
        let mut each = vec![T::default(); self.starts.len()];
        for (&(_, file), number) in self.trace.objects.iter().zip(&self.numbers) {
            if let Some(number) = number.filter(|_| file != Name::ABSENT) {
                each[number as usize] = of(&self.trace.names[file.0 as usize]);
            }
        }
        each
    }

    pub(crate) fn time(&self, at: usize) -> Option<Nanos> {
        self.trace.time(at)
    }

    /// First byte of a record; `None` where the volume is too small for it.
    fn offset(&self, at: usize, object: u32) -> Option<u64> {
        let (offset, bytes) = self.trace.range(at);
        let offset = self.starts[object as usize] + offset;
        let Some(room) = self.room else { return Some(offset) };
        let offset = offset.checked_rem(room).unwrap_or(0);
        let offset = if bytes > room - offset { offset % BLOCK_BYTES } else { offset };
        (bytes <= room.saturating_sub(offset)).then_some(offset)
    }

    /// Whether a record of the volume has room on it.
    pub(crate) fn fits(&self, at: usize) -> bool {
        self.object(at).is_some_and(|object| self.offset(at, object).is_some())
    }

    /// A record of the volume as a request after `think`, with `overlap` earlier ones of its process under way.
    pub(crate) fn request(&self, at: usize, think: Nanos, overlap: u64) -> Request {
        // Only records that are on the volume and fit are listed.
        let object = self.object(at).unwrap_or_default();
        let record = self.trace.get(at);
        Request {
            think,
            context: Context((u64::from(record.process.0) << PROCESS_SHIFT) + u64::from(object)),
            op: record.op,
            offset: self.offset(at, object).unwrap_or_default(),
            bytes: record.bytes,
            due: Nanos::ZERO,
            deadline: None,
            overlap,
            appends: self.appends.has(at),
            fresh: self.fresh.has(at),
        }
    }

    /// The records of each process, in the order in which the processes first appear.
    pub(crate) fn by_process(&self, which: &List) -> Vec<List> {
        let mut numbers: BTreeMap<Name, usize> = BTreeMap::new();
        let mut lists: Vec<List> = Vec::new();
        let mut last = None;
        for at in which.iter() {
            let process = self.trace.process(at);
            let number = match last {
                Some((of, number)) if of == process => number,
                _ => *numbers.entry(process).or_insert_with(|| {
                    lists.push(List::default());
                    lists.len() - 1
                }),
            };
            last = Some((process, number));
            lists[number].push(at);
        }
        lists.into_iter().map(List::finish).collect()
    }
}

/// What is known of a file while its requests are gone through.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The farthest byte asked for so far.
    end: u64,
    /// It was written from its beginning on before anything else was asked of it: so far it ends where the requests do.
    made_here: bool,
    /// It never ends behind this.
    never_behind: Option<u64>,
    asked: bool,
}

impl Known {
    /// From where on it holds nothing when a write at `offset` comes; `None` where nobody can tell.
    fn holds_nothing_from(&self, offset: u64) -> Option<u64> {
        // What was asked for behind that size has made it longer.
        let recorded = self.never_behind.map(|size| size.max(self.end));
        if self.made_here || offset == self.end { Some(self.end) } else { recorded }
    }
}

/// Where the files of a trace end, as far as it says so or its requests have shown.
///
/// A recording does not say how long a file was when a request came. But a file that is written from its beginning before anything else
/// is asked of it ends where the requests so far do; one whose size is recorded never ends behind that; and a write
/// that begins just where the requests so far end is taken for one that goes on there.
#[derive(Default)]
pub(crate) struct Ends(Vec<Known>);

impl Ends {
    /// Notes of a write what of its blocks need not be read, since the file holds nothing there. A device has no end.
    pub(crate) fn note(&mut self, placing: &mut Placing, at: usize, object: u32) {
        let object = object as usize;
        if self.0.len() <= object {
            self.0.resize(object + 1, Known::default());
        }
        let record = placing.trace.get(at);
        if record.file == Name::ABSENT {
            return;
        }
        let file = &mut self.0[object];
        let end = record.offset.saturating_add(record.bytes);
        let writes = record.op == Op::Write;
        if !file.asked {
            file.made_here = writes && record.offset == 0;
            file.never_behind = placing.trace.file_sizes.get(&(record.device, record.file)).copied();
            file.asked = true;
        }
        if let Some(nothing) = file.holds_nothing_from(record.offset).filter(|_| writes) {
            if end >= nothing {
                placing.appends.set(at);
            }
            if record.offset / BLOCK_BYTES * BLOCK_BYTES >= nothing {
                placing.fresh.set(at);
            }
        }
        file.end = file.end.max(end);
    }
}

/// A request with its recorded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedRequest {
    /// When it is issued, from the start of the replay.
    pub at: Nanos,
    /// The request; its think time is zero.
    pub request: Request,
}

/// Requests at given times.
#[derive(Debug)]
pub struct Timed {
    placing: Arc<Placing>,
    /// In order of time.
    order: List,
    start: Nanos,
    /// From the start of one replay to that of the next.
    span: u64,
    repeats: usize,
}

impl Timed {
    /// Those of `which`, all of which have a time; the earliest is `start`.
    pub(crate) fn new(placing: &Arc<Placing>, which: &List, start: Nanos, repeats: u64) -> Self {
        let time = |number: usize| placing.time(number).unwrap_or(start);
        let is_sorted = which.iter().map(time).is_sorted();
        let order = if is_sorted {
            which.clone()
        } else {
            let mut order: Vec<u32> = which.iter().map(short).collect();
            order.sort_by_key(|&number| time(number as usize));
            List::these(order.into_iter().map(|number| number as usize)).finish()
        };
        let last = order.iter().last().map_or(Nanos::ZERO, |number| time(number).since(start));
        let repeats = usize::try_from(repeats).unwrap_or(usize::MAX);
        Self { placing: Arc::clone(placing), order, start, span: last.0.saturating_add(1), repeats }
    }

    /// How many, all replays together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len().saturating_mul(self.repeats)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them, in order of time.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<TimedRequest> {
        if at >= self.len() {
            return None;
        }
        let (replay, place) = (at / self.order.len(), at % self.order.len());
        let number = self.order.get(place);
        let begun = Nanos(self.span.saturating_mul(replay as u64));
        let time = self.placing.time(number).unwrap_or(self.start).since(self.start);
        Some(TimedRequest { at: begun + time, request: self.placing.request(number, Nanos::ZERO, 0) })
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = TimedRequest> + '_ {
        (0..self.len()).map_while(|at| self.get(at))
    }
}

/// A process as it was recorded: what it was waiting for, and since when it was not.
#[derive(Default)]
struct Pace {
    /// When its latest request was issued.
    issued: Nanos,
    /// Answers that had not come then, earliest first; as many as it had requests outstanding.
    waiting: BinaryHeap<Reverse<Nanos>>,
    /// Its last answer before that, or the start.
    answered: Nanos,
}

impl Pace {
    /// Its next request, issued at `now` and answered after `took`: how long it computed before, and how many earlier
    /// requests were without an answer. A request whose `took` nobody knows is taken as answered at once.
    fn next(&mut self, now: Nanos, took: Option<Nanos>) -> (Nanos, u64) {
        self.issued = self.issued.max(now);
        while let Some(&Reverse(answer)) = self.waiting.peek()
            && answer <= self.issued + TICKS
        {
            self.waiting.pop();
            self.answered = self.answered.max(answer);
        }
        let of_this = (self.issued.since(self.answered), self.waiting.len() as u64);
        self.waiting.push(Reverse(self.issued + took.unwrap_or(Nanos::ZERO)));
        of_this
    }
}

/// The recorded requests of one process.
pub(crate) struct Recorded {
    placing: Arc<Placing>,
    list: List,
    at: usize,
    /// Replays left, with the one under way; the first of a later replay follows at once.
    repeats: u64,
    /// The first replay is over.
    again: bool,
    /// When the replay starts in the trace's time, and how the process goes on; `None`: it does not think.
    pace: Option<(Nanos, Pace)>,
}

impl Recorded {
    /// Those of a list. With the time of the start the process thinks as it was recorded.
    pub(crate) fn new(placing: &Arc<Placing>, list: List, start: Option<Nanos>, repeats: u64) -> Self {
        let pace = start.map(|start| (start, Pace::default()));
        Self { placing: Arc::clone(placing), list, at: 0, repeats, again: false, pace }
    }
}

impl Source for Recorded {
    fn next(&mut self) -> Option<Request> {
        if self.repeats == 0 {
            return None;
        }
        let number = self.list.get(self.at);
        let (mut think, mut overlap) = (Nanos::ZERO, 0);
        if let Some((start, pace)) = &mut self.pace {
            let issued = self.placing.time(number).map_or(Nanos::ZERO, |time| time.since(*start));
            (think, overlap) = pace.next(issued, self.placing.trace.took(number));
        }
        if self.again && self.at == 0 {
            think = Nanos::ZERO; // Its overlap is zero: nothing was before it.
        }
        self.at += 1;
        if self.at == self.list.len() {
            (self.at, self.again) = (0, true);
            self.repeats -= 1;
            if let Some((_, pace)) = &mut self.pace {
                *pace = Pace::default();
            }
        }
        Some(self.placing.request(number, think, overlap))
    }
}
