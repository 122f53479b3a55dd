//! `regions(X)`: `rpp` for files in which several things happen at once; keeps a pattern for each stream, not for each file.
//!
//! The reference-pattern controller has one pattern for a file, so that an index read at random beside a table that is
//! scanned, two processes in one file, or a scan with look-ups in between are all random to it. Here each reader of a file
//! (process and file) has up to [`STREAMS_MAX`] streams. A request belongs to the stream that it continues; to a proven one
//! whose start it comes back to (a loop); or it founds a stream of its own, in the place of the candidate not read for
//! longest, so that reads at random push out candidates and not what is proven:
//!
//! ```text
//!   request ──▶ goes on behind a stream's last block? ──▶ that stream: as in rpp
//!      │──────▶ start of a proven stream? ──────────────▶ that stream: a loop
//!      │──────▶ just behind a proven stream's end? ─────▶ that stream, if it was read on often enough: a hole (pages
//!      │                                                  mapped around a fault, skipped records)
//!      └──────▶ none of these ──────────────────────────▶ a candidate; are the last candidates equally far apart?
//!                                                          ──▶ strided or reverse: their successors are read
//! ```
//!
//! One request proves nothing by its length: a volume that is read at random in pieces of 32 KiB has no streams.
//! A proven stream is shown to X as `rpp` shows a proven run, and clamped at a loop's end alike. Two things are added. A
//! process that keeps reading files from their beginning need not prove each of them: after a few, a file's first block is
//! proof ([`Habit`]). And where a reader's jumps are all equally long, forwards or backwards, the next few targets are
//! wished, as many again each time, up to [`STEPS_MAX`]: X knows no strides.
//!
//! It does nothing for single reads at random. No paper: this is what the RPP letter leaves open (docs/schemes/regions.md).

use super::decisions::{Decision, Subject, Switch, Way, because};
use super::rpp::{self, NOWHERE, Shown, THRESHOLD};
use super::{DeviceRead, Event, Fetched, Lookup, Outcome, Plan, Policy, When, World};
use crate::access::{Access, Context, Op};
use crate::cache::State;
use crate::pattern::{FILES_MAX, Pattern, Reading, Recent, Runs};
use crate::row::{Layer, Make, Role, Row};
use crate::units::{Block, Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Streams of one reader in one file: a database scans and probes a handful of places at a time.
const STREAMS_MAX: usize = 16;
/// Streams of these that may be candidates before one must make room: reads at random need no memory of their past.
const CANDIDATES_MAX: usize = 6;
/// Readers followed at once; the one that was silent for longest is forgotten.
const READERS_MAX: usize = FILES_MAX / 4;
/// Processes whose habits are known.
const PROCESSES_MAX: usize = 1_024;
/// Blocks behind a proven stream's last one that still are its continuation: 16, what Linux maps around a page fault.
const HOLE_MAX: u64 = 16;
/// Targets of a stride that are read ahead at most.
const STEPS_MAX: u64 = 8;
/// Steps up to this many blocks are read in one extent, the blocks between included: skipping them costs as much.
const DENSE_MAX: u64 = 8;
/// Longest request that a stride is looked for in, in blocks.
const STRIDE_REQUEST_MAX: u64 = 32;
/// How often in a row a process must read files from their start before that is its habit.
const HABIT: u8 = 3;
/// Strongest habit: so many files read otherwise until it is given up.
const HABIT_MAX: u8 = 6;
/// How streams and readers turn, beside the ways of `rpp`, and why.
const HABITUAL: Way =
    Way::on("sequential", "this process reads files from their beginning: the file's first block is proof");
const CROWDED: Way = Way::off(
    "forgotten",
    "its reader has proven more streams than are followed, and read this one longest ago",
);
const SCATTERED: Way = Way::off("random", "its reader's requests go on behind none of its last ones");
const FORWARDS: Way = Way::on("strided", "its reader's jumps are equally long: the next targets are read");
const BACKWARDS: Way =
    Way::on("reverse", "its reader's jumps back are equally long: the next targets are read");
const UNEVEN: Way = Way::off("random", "its reader's jumps are no longer equally long");

/// How a process treats files that it opens.
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    /// Files read from their start, minus twice the others; not below none.
    strength: u8,
}

impl Habit {
    const fn is_reader_of_files(self) -> bool {
        self.strength >= HABIT
    }
    fn note(&mut self, read_on: bool) {
        self.strength =
            if read_on { (self.strength + 1).min(HABIT_MAX) } else { self.strength.saturating_sub(2) };
    }
}

#[derive(Debug, Default)]
struct Stream {
    runs: Runs,
    shown: Shown,
    /// Number of the reader's request that used it last.
    used: u64,
    /// Requests that went on in it, or came back to its start.
    went_on: u64,
}

/// Equal steps between the candidates of a reader.
#[derive(Debug, Default)]
struct Stride {
    /// First block and length of the last candidate's first request.
    last: Option<Extent>,
    step: i64,
    /// Steps in a row that were this long.
    count: u64,
    /// Targets wished ahead of the last candidate.
    ahead: u64,
    /// Targets are being wished.
    steady: bool,
}

/// A process in a file.
#[derive(Debug, Default)]
struct Reader {
    streams: Vec<Stream>,
    stride: Stride,
    requests: u64,
    /// It began with the file's first block, and whether it reads on is not known yet.
    undecided: bool,
    /// It has been noted that its requests are scattered, and no stream has been proven since.
    scattered: bool,
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "regions",
    layer: Layer::Host,
    role: Role::Controller,
    about: "rpp for each stream within a file and reader, with strides and habits: regions(linux-2.6).",
    source: "beyond the RPP paper: what its section 3 leaves open",
    params: &[THRESHOLD],
    make: Make::Over(|values, inner| Box::new(Regions::new(inner, values.count("threshold")))),
    ..Row::PLAIN
};

/// The controller.
pub struct Regions {
    inner: Box<dyn Policy>,
    threshold: u64,
    readers: Recent<Reader>,
    habits: Recent<Habit>,
    outcomes: Vec<Outcome>,
    runs: u64,
    strided: u64,
    switch: Switch,
}

/// How a request came to its stream.
enum Joined {
    Goes(usize),
    Hole(usize),
    /// A new stream, and the runs of the one that made room for it.
    New(usize, Option<Runs>),
}

impl Reader {
    fn place(&mut self, extent: Extent, threshold: u64) -> Joined {
        let (first, end) = (extent.start.0, extent.end());
        let proven = |s: &Stream| s.runs.pattern() != Pattern::Random;
        let next = |s: &Stream| s.runs.next();
        let goes_on = |s: &Stream| next(s) == Some(first) || next(s) == Some(first + 1);
        if let Some(at) = self.streams.iter().position(goes_on) {
            return Joined::Goes(at);
        }
        if let Some(at) = self.streams.iter().position(|s| proven(s) && s.runs.start() == first) {
            return Joined::Goes(at);
        }
        // Overlaps what comes next, or leaves a hole before it. A stream that has hardly been read on has no such habit.
        let near = |s: &Stream| {
            next(s).is_some_and(|next| next < end && next <= first + HOLE_MAX && first <= next + HOLE_MAX)
        };
        let used_to = |s: &Stream| proven(s) && s.went_on >= threshold;
        if let Some(at) = self.streams.iter().position(|s| used_to(s) && near(s)) {
            return Joined::Hole(at);
        }
        let (at, gone) = self.room();
        Joined::New(at, gone)
    }

    /// A place for a new stream, and what was there.
    fn room(&mut self) -> (usize, Option<Runs>) {
        let candidate = |s: &Stream| s.runs.pattern() == Pattern::Random;
        let candidates = self.streams.iter().filter(|s| candidate(s)).count();
        if self.streams.len() < STREAMS_MAX && candidates < CANDIDATES_MAX {
            self.streams.push(Stream::default());
            return (self.streams.len() - 1, None);
        }
        let only = candidates >= CANDIDATES_MAX;
        let oldest = (0..self.streams.len())
            .filter(|&at| !only || candidate(&self.streams[at]))
            .min_by_key(|&at| self.streams[at].used)
            .expect("a full table has streams, and candidates if there are too many");
        (oldest, Some(core::mem::take(&mut self.streams[oldest]).runs))
    }

    /// The stream that a block most likely belongs to: the proven one that begins last before it.
    fn stream_of(&mut self, block: Block) -> Option<&mut Stream> {
        self.streams
            .iter_mut()
            .filter(|s| s.shown.within.contains(block))
            .max_by_key(|s| s.shown.within.start)
    }
}

impl Stride {
    /// A candidate begins: what to wish, if its distance from the last one is the usual one.
    fn jump(&mut self, extent: Extent, within: Extent, threshold: u64, plan: &mut Plan) -> u64 {
        let last = self.last.replace(extent);
        let step =
            last.map_or(0, |last| extent.start.0.cast_signed().wrapping_sub(last.start.0.cast_signed()));
        if step == 0 || step != self.step || extent.blocks > STRIDE_REQUEST_MAX {
            (self.step, self.count, self.ahead) = (step, u64::from(step != 0), 0);
            self.steady = false;
            return 0;
        }
        self.count += 1;
        self.ahead = self.ahead.saturating_sub(1);
        let depth = self.count.saturating_sub(threshold.saturating_sub(1)).min(STEPS_MAX);
        self.steady = depth > 0;
        // The next targets are wished when half of the last ones have been reached.
        if depth == 0 || self.ahead > depth / 2 {
            return 0;
        }
        let from = core::mem::replace(&mut self.ahead, depth) + 1;
        self.wish(extent, from, depth, within, plan)
    }

    /// Wishes the targets `from..=to` steps away from `extent`; how many blocks.
    fn wish(&self, extent: Extent, from: u64, to: u64, within: Extent, plan: &mut Plan) -> u64 {
        let target = |k: u64| {
            let offset = self.step.checked_mul(k.cast_signed())?;
            let start = extent.start.0.checked_add_signed(offset)?;
            Some(Extent::new(start, extent.blocks.min(u64::MAX - start)))
        };
        let first = plan.wishes().len();
        if self.step.unsigned_abs() <= DENSE_MAX.max(extent.blocks) {
            let ends = [from, to].map(target);
            if let [Some(a), Some(b)] = ends {
                let start = a.start.min(b.start).0;
                plan.fetch(Extent::new(start, a.end().max(b.end()) - start), When::Ahead);
            }
        } else {
            (from..=to).filter_map(target).for_each(|extent| plan.fetch(extent, When::Ahead));
        }
        plan.clamp_from(first, within);
        plan.wishes()[first..].iter().map(|wish| wish.extent.blocks).sum()
    }
}

impl Regions {
    /// Over `inner`, with a run proven when it is longer than `threshold` blocks.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, threshold: u64) -> Self {
        Self {
            inner,
            threshold,
            readers: Recent::new(READERS_MAX),
            habits: Recent::new(PROCESSES_MAX),
            outcomes: Vec::new(),
            runs: 0,
            strided: 0,
            switch: Switch::default(),
        }
    }

    /// What X is shown of a read, if it belongs to a proven stream, and that stream.
    fn show_run(
        &mut self,
        access: &Access,
        held: When,
        now: Nanos,
        plan: &mut Plan,
    ) -> Option<(Access, usize)> {
        let habit = self.habits.or_default(access.context.process());
        let reader = self.readers.or_default(access.context.0);
        reader.requests += 1;
        let (requests, file_begins) = (reader.requests, access.extent.start == access.within.start);
        let mut extent = access.extent;
        let (at, mut threshold) = match reader.place(extent, self.threshold) {
            Joined::Goes(at) => {
                reader.streams[at].went_on += 1;
                (at, self.threshold)
            }
            Joined::Hole(at) => {
                // X sees no hole: the stream goes on at its next block.
                let next = reader.streams[at].runs.next().expect("a proven stream has been read");
                extent = Extent::new(next, extent.end() - next);
                (at, self.threshold)
            }
            Joined::New(at, gone) => {
                let was = reader.stride.steady;
                self.strided += reader.stride.jump(extent, access.within, self.threshold, plan);
                let told = |runs: &Runs| reader.scattered && runs.pattern() == Pattern::Random;
                if reader.stride.steady != was || gone.as_ref().is_some_and(|runs| !told(runs)) {
                    let turns = Turns { switch: &mut self.switch, now, access };
                    turns.began(reader, at, gone, was, self.threshold);
                }
                // However long one request is, it does not say that another will go on behind it.
                (at, self.threshold.max(extent.blocks))
            }
        };
        if requests == 1 {
            reader.undecided = file_begins && access.within.blocks > extent.blocks;
            if file_begins && habit.is_reader_of_files() {
                threshold = 0;
                reader.streams[at].went_on = self.threshold; // pages may be mapped around its first fault already
            }
        } else if core::mem::take(&mut reader.undecided) {
            habit.note(at == 0);
        }
        let stream = &mut reader.streams[at];
        stream.used = requests;
        let was = stream.runs.pattern();
        let reading = stream.runs.read(extent, threshold);
        if reading.pattern != was {
            reader.scattered = false;
            let turns = Turns { switch: &mut self.switch, now, access };
            turns.proved(at, &stream.runs, &reading, threshold);
        }
        let shown = stream.shown.show(access, &reading, &mut self.runs);
        if shown.is_some() && reading.loop_end.is_none() {
            plan.fetch(core::mem::take(&mut stream.shown.held), held);
        }
        shown.map(|shown| (shown, at))
    }

    /// Tells X of an event at a block of a reader, and clamps what it wishes to the stream there.
    fn tell_at(
        &mut self,
        context: Context,
        block: Block,
        plan: &mut Plan,
        event: impl FnOnce(&mut dyn Policy, Context, &mut Plan),
    ) {
        let first = plan.wishes().len();
        let stream = self.readers.peek_mut(context.0).and_then(|reader| reader.stream_of(block));
        event(&mut *self.inner, stream.as_ref().map_or(context, |stream| stream.shown.context), plan);
        match stream {
            Some(stream) => stream.shown.clamp(plan, first),
            None => plan.clamp_from(first, NOWHERE),
        }
    }

    /// A read: X is told of it where its stream is proven.
    fn read(&mut self, access: &Access, lookup: Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let held = if lookup.any_miss() { When::WithDemand } else { When::Ahead };
        let Some((shown, at)) = self.show_run(access, held, world.now, plan) else { return };
        self.outcomes.clear();
        for block in shown.extent.iter() {
            let place = block
                .0
                .checked_sub(access.extent.start.0)
                .map_or(usize::MAX, |k| usize::try_from(k).unwrap_or(usize::MAX));
            // A block of a hole: as it lies in memory.
            let state =
                || if world.cache.state(block) == State::Empty { Outcome::Miss } else { Outcome::CacheHit };
            self.outcomes.push(lookup.outcomes.get(place).copied().unwrap_or_else(state));
        }
        let first = plan.wishes().len();
        self.inner.tell(&Event::Access(&shown, Lookup { outcomes: &self.outcomes }), world, plan);
        if let Some(reader) = self.readers.peek_mut(access.context.0) {
            reader.streams[at].shown.clamp(plan, first);
        }
    }
}

/// Where turns are noted, and of which request.
struct Turns<'a> {
    switch: &'a mut Switch,
    now: Nanos,
    access: &'a Access,
}

impl Turns<'_> {
    fn stream(&self, at: usize, extent: Extent) -> Subject {
        Subject { kind: "stream", number: at as u64, context: self.access.context, extent }
    }

    /// The pattern of the stream at a place is another.
    #[cold]
    fn proved(self, at: usize, runs: &Runs, reading: &Reading, threshold: u64) {
        let of = self.stream(at, runs.run());
        let (way, numbers) = rpp::way(Extent::default(), None, runs, threshold);
        let way = if threshold == 0 && reading.pattern == Pattern::Sequential { &HABITUAL } else { way };
        self.switch.turn(self.now, "regions", way, Some(of), numbers);
    }

    /// A new stream begins at a place: `gone` made room for it, and the reader's jumps were steady or not.
    #[cold]
    fn began(self, reader: &mut Reader, at: usize, gone: Option<Runs>, was_steady: bool, threshold: u64) {
        let Access { context, extent, .. } = *self.access;
        let whole = Subject { kind: "reader", number: context.file(), context, extent };
        let Stride { step, count, steady, .. } = reader.stride;
        let limit = ("threshold_blocks", threshold);
        if steady != was_steady {
            let way = match (steady, step > 0) {
                (false, _) => &UNEVEN,
                (true, true) => &FORWARDS,
                (true, false) => &BACKWARDS,
            };
            let numbers = because([("step_blocks", step.unsigned_abs()), ("equal_jumps", count)]);
            return self.switch.turn(self.now, "regions", way, Some(whole), numbers);
        }
        let Some(runs) = gone else { return };
        if runs.pattern() != Pattern::Random {
            let of = self.stream(at, runs.run());
            let numbers = because([("streams_max", STREAMS_MAX as u64)]);
            return self.switch.turn(self.now, "regions", &CROWDED, Some(of), numbers);
        }
        let any = reader.streams.iter().any(|stream| stream.runs.pattern() != Pattern::Random);
        if !(steady || any || core::mem::replace(&mut reader.scattered, true)) {
            let numbers = because([("last_requests", CANDIDATES_MAX as u64), limit]);
            self.switch.turn(self.now, "regions", &SCATTERED, Some(whole), numbers);
        }
    }
}

impl Policy for Regions {
    fn inner(&mut self) -> Option<&mut dyn Policy> {
        Some(&mut *self.inner)
    }
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        match *event {
            Event::Access(access, lookup) if access.op == Op::Read => self.read(access, lookup, world, plan),
            Event::Fetched(of) => self.tell_at(of.context, of.extent.start, plan, |inner, context, plan| {
                inner.tell(&Event::Fetched(&Fetched { context, ..*of }), world, plan);
            }),
            Event::DeviceRead(of) => {
                self.tell_at(of.context, of.extent.start, plan, |inner, context, plan| {
                    inner.tell(&Event::DeviceRead(&DeviceRead { context, ..*of }), world, plan);
                })
            }
            Event::Access(..) | Event::Left(..) | Event::Wake(_) => {
                let first = plan.wishes().len();
                self.inner.tell(event, world, plan);
                plan.clamp_from(first, NOWHERE);
            }
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        let [runs, strided] = [self.runs, self.strided].map(|count| count as f64);
        out.push(("regions_runs", runs));
        out.push(("regions_strided_blocks", strided));
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}
