//! `rpp(X)`: the reference-pattern controller; lets X read ahead only in proven runs, and in a loop only up to its end.
//!
//! Three rules, by what [`crate::pattern`] says that the file is being read as (RPP paper, section 3.3):
//!
//! ```text
//!   RANDOM      X is not told, and nothing is wished
//!   SEQUENTIAL  X runs as it is, from its own first window, from the block that proved the run
//!   LOOPING     the same, but what X wishes beyond the loop's end is cut off; back at the start, X begins at once
//! ```
//!
//! X needs to know nothing of this. A proven run is shown to it as a file of its own: a context that it has not seen, in
//! an address range that begins at the proof (or at the loop's start). Whatever X does for the first block of a file, it
//! does at the proof. In a loop its wishes are cut at the loop's end, which X is not told: its window stays as large as
//! it was, and the part that was held back is wished at once if the loop goes on beyond its old end.
//!
//! It does nothing in files no longer than the threshold, in strided and reverse reads, and where several readers of
//! one file interleave: all of these are random to it. Source: RPP paper (Lee, Doh, Kim and Noh, IEICE E92-D, 2009),
//! section 3; rules that the letter leaves open are listed in docs/schemes/rpp.md.

use super::decisions::{Because, Decision, Subject, Switch, Way, because};
use super::{DeviceRead, Event, Fetched, Lookup, Plan, Policy, When, World};
use crate::access::{Access, Context, FILE_BITS, Op};
use crate::pattern::{FILES_MAX, Pattern, REMEMBERED_MAX, Reading, Recent, Runs, THRESHOLD_DEFAULT};
use crate::row::{Layer, Make, Param, Role, Row, Value};
use crate::units::{Extent, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// File numbers with this bit are runs that X is shown as files; hosts number real files from 0.
const RUN_FILES: u64 = 1 << (FILE_BITS - 1);
/// Nothing may be wished.
pub(super) const NOWHERE: Extent = Extent::new(0, 0);
/// How a file's pattern turns, and why.
const PROVEN: Way = Way::on("sequential", "a run of it grew longer than the threshold");
const RETURNED: Way = Way::on(
    "looping",
    "its reader came back to where a proven run began: it is read ahead up to that run's end",
);
const JUMPED: Way = Way::off("random", "its reader jumped out of a proven run");
const SHORT: Way = Way::off("random", "its reader jumps before a run is longer than the threshold");

/// How a file stands.
#[derive(Debug, Default)]
struct File {
    runs: Runs,
    shown: Shown,
    /// The pattern that was noted last; none before the file's first jump or proof.
    noted: Option<Pattern>,
}

/// The way to the pattern of a request, from the run before it, and the numbers behind it.
pub(super) fn way(
    before: Extent,
    was: Option<Pattern>,
    runs: &Runs,
    threshold: u64,
) -> (&'static Way, Because) {
    let (run, limit) = (runs.run(), ("threshold_blocks", threshold));
    match (runs.pattern(), was) {
        (Pattern::Sequential, _) => (&PROVEN, because([("run_blocks", run.blocks), limit])),
        (Pattern::Looping, _) => (&RETURNED, because([("loop_blocks", runs.reach().blocks), limit])),
        (Pattern::Random, was) => {
            let way = if was.is_some() { &JUMPED } else { &SHORT };
            let jump = run.start.0.abs_diff(before.end());
            (way, because([("run_blocks", before.blocks), ("jump_blocks", jump), limit]))
        }
    }
}

/// The run that X is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// The context that stands for it.
    pub(super) context: Context,
    /// Its address range, up to the file's end; empty while there is none.
    pub(super) within: Extent,
    /// What of it may be wished: in a loop, up to the loop's end.
    permitted: Extent,
    /// What X wished behind the loop's end and has not got.
    pub(super) held: Extent,
}

impl Shown {
    /// The access that X is shown of a request that was `reading`; `None` while nothing is proven. `runs` counts the runs
    /// shown so far.
    pub(super) fn show(&mut self, access: &Access, reading: &Reading, runs: &mut u64) -> Option<Access> {
        if reading.proven.is_empty() {
            *self = Self::default();
            return None;
        }
        if reading.begins {
            *runs += 1;
            let number = RUN_FILES | (*runs & (RUN_FILES - 1));
            let context = Context::new(access.context.process(), number);
            *self = Self { context, ..Self::default() };
            self.within.start = reading.proven.start;
        }
        self.range(access, reading);
        let (extent, demand) = (reading.proven, access.demand.intersect(reading.proven));
        Some(Access { context: self.context, extent, demand, within: self.within, ..*access })
    }
    /// From its start to the file's end, and, inside a loop, "only up until the end of the loop" (section 3.3).
    fn range(&mut self, access: &Access, reading: &Reading) {
        let start = self.within.start.0;
        let file_end = access.within.end().max(reading.proven.end());
        let end = reading.loop_end.map_or(file_end, |end| end.min(file_end));
        self.within = Extent::new(start, file_end - start);
        self.permitted = Extent::new(start, end - start);
    }
    /// Clamps the wishes from number `first` on, and remembers how far they went.
    pub(super) fn clamp(&mut self, plan: &mut Plan, first: usize) {
        let end = plan.wishes()[first..].iter().map(|wish| wish.extent.end()).max().unwrap_or(0);
        let end = end.min(self.within.end()).max(self.held.end());
        let from = self.permitted.end();
        self.held = if end > from { Extent::new(from, end - from) } else { NOWHERE };
        plan.clamp_from(first, self.permitted);
    }
}

/// How it is listed, and made.
pub static ROW: Row = Row {
    name: "rpp",
    layer: Layer::Host,
    role: Role::Controller,
    about: "Lets another scheme read ahead only in proven runs, and in a loop only up to its end: rpp(linux-2.6).",
    source: "RPP paper (Lee, Doh, Kim and Noh, IEICE E92-D, 2009), section 3",
    params: &[THRESHOLD, REMEMBER],
    make: Make::Over(|values, inner| {
        Box::new(Rpp::new(inner, values.count("threshold")).remembering(values.count("remember")))
    }),
    ..Row::PLAIN
};

/// What a run must exceed to be proven, of all controllers.
pub(super) const THRESHOLD: Param =
    Param::count("threshold", THRESHOLD_DEFAULT, "Blocks that a run must exceed before it is read ahead in.");

/// How many proven runs a file remembers: the letter's own rule is 0.
const REMEMBER: Param = Param::count_or_none(
    "remember",
    REMEMBERED_MAX as u64,
    "Proven runs of a file that are a loop when their start comes back later, up to 32; the letter remembers none.",
)
.within(Value::Count(0), Value::Count(REMEMBERED_MAX as u64));

/// The controller.
pub struct Rpp {
    inner: Box<dyn Policy>,
    threshold: u64,
    remember: usize,
    files: Recent<File>,
    /// Runs shown so far.
    runs: u64,
    blocks: [u64; 3],
    switch: Switch,
}

impl Rpp {
    /// Over `inner`, with a run proven when it is longer than `threshold` blocks.
    #[must_use]
    pub fn new(inner: Box<dyn Policy>, threshold: u64) -> Self {
        let (files, switch) = (Recent::new(FILES_MAX), Switch::default());
        Self { inner, threshold, remember: REMEMBERED_MAX, files, runs: 0, blocks: [0; 3], switch }
    }

    /// The same with at most so many proven runs remembered in a file.
    #[must_use]
    pub fn remembering(mut self, most: u64) -> Self {
        self.remember = usize::try_from(most).unwrap_or(REMEMBERED_MAX).min(REMEMBERED_MAX);
        self
    }

    /// The pattern of a file as it stands; random where it is not known.
    #[must_use]
    pub fn pattern(&self, file: u64) -> Pattern {
        self.files.peek(file).map_or(Pattern::Random, |file| file.runs.pattern())
    }

    /// What X is shown of an access; `None` in a file read at random. What was held back in a loop that has just gone on
    /// is wished as `held` says.
    fn show_run(&mut self, access: &Access, held: When, now: Nanos, plan: &mut Plan) -> Option<Access> {
        let file = self.files.or_default(access.context.file());
        let before = file.runs.run();
        let reading = file.runs.read(access.extent, self.threshold);
        file.runs.remember_at_most(self.remember);
        // The first jump of a file that is random anyhow is said once: its reader sees why nothing happens.
        let jumped = reading.jumped && !before.is_empty();
        if file.noted != Some(reading.pattern) && (reading.pattern != Pattern::Random || jumped) {
            let was = file.noted.replace(reading.pattern);
            let (way, numbers) = way(before, was, &file.runs, self.threshold);
            let (context, extent) = (access.context, file.runs.run());
            let of = Subject { kind: "file", number: context.file(), context, extent };
            self.switch.turn(now, "rpp", way, Some(of), numbers);
        }
        self.blocks[Pattern::Random as usize] += reading.unproven(access.extent);
        self.blocks[reading.pattern as usize] += reading.proven_references();
        let shown = file.shown.show(access, &reading, &mut self.runs)?;
        if reading.loop_end.is_none() {
            plan.fetch(core::mem::take(&mut file.shown.held), held);
        }
        Some(shown)
    }

    /// A read: X is told of it where it is proven.
    fn read(&mut self, access: &Access, lookup: Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        let held = if lookup.any_miss() { When::WithDemand } else { When::Ahead };
        let Some(shown) = self.show_run(access, held, world.now, plan) else { return };
        let behind = shown.extent.start.0 - access.extent.start.0;
        #[expect(clippy::cast_possible_truncation, reason = "an index into the outcomes")]
        let outcomes = &lookup.outcomes[behind as usize..];
        self.tell_in(access.context, plan, |inner, _, plan| {
            inner.tell(&Event::Access(&shown, Lookup { outcomes }), world, plan);
        });
    }

    /// Tells X of an event in a file, in the context in which X knows it, and clamps what it wishes to the proven run.
    fn tell_in(
        &mut self,
        context: Context,
        plan: &mut Plan,
        event: impl FnOnce(&mut dyn Policy, Context, &mut Plan),
    ) {
        let first = plan.wishes().len();
        let known = self.files.peek_mut(context.file()).filter(|file| !file.shown.within.is_empty());
        event(&mut *self.inner, known.as_ref().map_or(context, |file| file.shown.context), plan);
        match known {
            Some(file) => file.shown.clamp(plan, first),
            None => plan.clamp_from(first, NOWHERE),
        }
    }
}

impl Policy for Rpp {
    fn inner(&mut self) -> Option<&mut dyn Policy> {
        Some(&mut *self.inner)
    }
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        match *event {
            Event::Access(access, lookup) if access.op == Op::Read => self.read(access, lookup, world, plan),
            Event::Fetched(fetched) => self.tell_in(fetched.context, plan, |inner, context, plan| {
                inner.tell(&Event::Fetched(&Fetched { context, ..*fetched }), world, plan);
            }),
            Event::DeviceRead(read) if self.pattern(read.context.file()) == Pattern::Random => {}
            Event::DeviceRead(read) => self.tell_in(read.context, plan, |inner, context, plan| {
                inner.tell(&Event::DeviceRead(&DeviceRead { context, ..*read }), world, plan);
            }),
            // Writes neither train the detector nor prove anything (X may keep books on them), and a wake-up belongs to no
            // access: there is no proof for what is wished then.
            Event::Access(..) | Event::Left(..) | Event::Wake(_) => {
                let first = plan.wishes().len();
                self.inner.tell(event, world, plan);
                plan.clamp_from(first, NOWHERE);
            }
        }
    }
    fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        let [random, sequential, looping] = self.blocks.map(|blocks| blocks as f64);
        out.push(("rpp_random_blocks", random));
        out.push(("rpp_sequential_blocks", sequential));
        out.push(("rpp_looping_blocks", looping));
    }
    fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}
