//! Choosing: which of several schemes decides, by what each would have done.
//!
//! Beside the layer stand shadows ([`shadow`]), one for each candidate, that are given the same accesses and whose disks take
//! the times that the real ones have been seen to take ([`disk`]). What readers wait is summed over batches of accesses,
//! the same ones in every shadow, so that candidates are compared pair by pair and chance cancels out ([`judge`]). The
//! chooser only listens and, now and then, names another scheme; the engine turns to it as if an operator had said so, and
//! drops nothing that is cached.
//!
//! It is the engine's and not a policy's, because a shadow is an engine, and because a scheme that keeps or dispatches in a way of
//! its own can be chosen too. Everything it knows came as an input, so a log of inputs replays its choices.

mod claim;
mod disk;
mod judge;
mod shadow;
mod trial;
mod waits;

use super::Parts;
use super::config::{Config, shape};
use super::messages::{Input, Output};
use crate::access::{Access, Op};
use crate::cost::times::Times;
use crate::dispatch::DemandFirst;
use crate::hash::{NumberHasher, SPREAD};
use crate::pattern::Recent;
use crate::policy::Policy as _;
use crate::policy::auto;
use crate::policy::decisions::{Decision, Switch};
use crate::registry::{BuiltLayer, Choice, Layer, SchemeSpec};
use crate::scheme::Scheme;
use crate::units::Nanos;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use disk::Real;
use judge::{Judge, Verdict, Why};
use shadow::{BATCH, BATCHES, RING, Shadow};
use waits::Waits;

/// Accesses between the last one of a batch and its judgement: those that shadows hold back, rounded up to a batch.
const LAG: u64 = 64;
/// Most blocks of a shadow's cache, 512 MiB: of a larger cache shadows see a share of the regions and have a share of the memory.
const SHADOW_BLOCKS_MAX: u64 = 1 << 17;
/// And least, for a longest access or two: 8 MiB. Regions are seen by a share only as long as that share of the memory is as much: with
/// more memory for each region than it really has, all would seem well kept.
const SHADOW_BLOCKS_MIN: u64 = 1 << 11;
/// Blocks of a region that is seen as a whole or not at all: 16 MiB.
const REGION_BLOCKS: u64 = 4_096;
/// Accesses that shadows are given in these times at most: 32,000 a second; and 8,000 a second of what lasts, where commands are [`QUICK`].
/// Of a faster layer they see half of the regions, and half again.
const BUSY: [(Nanos, u64); 2] = [(Nanos::from_millis(100), 3_200), (Nanos::from_secs(1), 8_000)];
/// Commands that take no longer in the mean: beside them what shadows cost is much.
const QUICK: Nanos = Nanos::from_micros(500);
/// One region in so many is seen at least.
const ONE_IN_MAX: u64 = 256;
/// Processes whose last access is remembered.
const PROCESSES_MAX: usize = 4_096;

/// What an access comes after.
#[derive(Clone, Copy, Debug)]
struct After {
    /// Number of another access.
    access: u64,
    /// After it was answered, or after it was asked.
    answered: bool,
    /// So long after.
    gap: Nanos,
}

/// An access that shadows are given.
#[derive(Clone, Copy, Debug)]
struct Entry {
    access: Access,
    came: Nanos,
    after: Option<After>,
}

/// The last accesses, by number.
struct Ring {
    entries: Vec<Entry>,
    /// How many there have been.
    count: u64,
}

impl Ring {
    fn push(&mut self, entry: Entry) {
        if self.entries.len() < RING as usize {
            self.entries.push(entry);
        } else {
            self.entries[(self.count % RING) as usize] = entry;
        }
        self.count += 1;
    }
    fn entry(&self, number: u64) -> &Entry {
        &self.entries[(number % RING) as usize]
    }
    /// Number of the last one.
    const fn newest(&self) -> u64 {
        self.count - 1
    }
}

/// The last that was seen of a process: an access of its was asked, or answered.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Number of the access, from 1; 0 is none.
    access: u64,
    answered: bool,
    at: Nanos,
}

/// An access under way: what is to be known of it when it ends, however many came meanwhile.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    came: Nanos,
    access: Access,
}

/// By the host's id and where they begin: what a program asks for at once may lie in several places, and has one id then.
type Flights = hashbrown::HashMap<(u64, u64), Flight, BuildHasherDefault<NumberHasher>>;

/// A scheme that may be chosen.
struct Candidate {
    name: &'static str,
    scheme: SchemeSpec,
    /// The layer whose parts of it decide.
    parts_of: Layer,
    shadow: Shadow,
    /// It is not turned to in the beginning.
    late: bool,
}

/// Shadows, and what they came to.
pub(super) struct Chooser {
    layer: Layer,
    candidates: Vec<Candidate>,
    live: usize,
    /// Who decided before, and where shadows see a share only, what it knew: no shadow knows as much.
    before: usize,
    kept: Option<Scheme>,
    /// Which of them is `none`.
    none: usize,
    disks: Real,
    ring: Ring,
    /// The accesses under way.
    flights: Flights,
    processes: Recent<Last>,
    open: Waits,
    /// What real readers waited in each batch, ns; and of each of the last accesses, whether it was answered at once.
    waits: [u64; BATCHES],
    at_once: [bool; RING as usize],
    /// What readers waited for accesses that outlasted the ring, ns: it is told, and compared with nothing.
    outlasted: u64,
    /// The newest access has not been given to the shadows yet.
    owed: bool,
    /// Number of the first access of the batches that have not been judged.
    judged: u64,
    judge: Judge,
    switch: Switch,
    /// One region in so many is seen.
    one_in: u64,
    one_in_max: u64,
    /// For each time of [`BUSY`] when it began, and the accesses since then; and whether they were too many.
    busy: [(Nanos, u64); 2],
    too_busy: bool,
}

impl Chooser {
    /// For a layer whose scheme chooses; none where it does not, or where nothing is kept.
    pub(super) fn new(scheme: &SchemeSpec, layer: Layer, parts: &Parts, now: Nanos) -> Option<Box<Self>> {
        if !parts.config.retain {
            return None;
        }
        let one_in = parts.config.cache_blocks.div_ceil(SHADOW_BLOCKS_MAX).next_power_of_two();
        let disks = usize::from(parts.array.disks());
        let made = |choice: &'static Choice| {
            let scheme = SchemeSpec::parse(choice.scheme).expect("a candidate is a scheme");
            let parts_of = scheme.only_layer();
            let shadow = Shadow::new(shadow_parts(&scheme, parts_of, parts, one_in)?, layer, now);
            Some(Candidate { name: choice.scheme, scheme, parts_of, shadow, late: choice.late })
        };
        let stands = |choice: &&Choice| choice.stands_over(parts.array.disks());
        let candidates: Vec<Candidate> = scheme.choices(layer).filter(stands).filter_map(made).collect();
        if candidates.len() < 2 {
            return None;
        }
        let first = scheme.first_choice(
            layer,
            &shape(&parts.array, parts.config.cache_blocks, true, parts.memory.cost()),
        )?;
        let live = candidates.iter().position(|candidate| candidate.name == first.scheme)?;
        Some(Box::new(Self {
            layer,
            live,
            before: live,
            kept: None,
            none: candidates.iter().position(|candidate| candidate.name == "none")?,
            disks: Real::new(Times::new(*parts.memory.cost(), disks), disks),
            ring: Ring { entries: Vec::new(), count: 0 },
            flights: Flights::default(),
            processes: Recent::new(PROCESSES_MAX),
            open: Waits::new(layer),
            waits: [0; BATCHES],
            at_once: [false; RING as usize],
            outlasted: 0,
            owed: false,
            judged: 0,
            // What a drive reads ahead by itself no shadow learns. Below a page cache lies a layer of ours.
            judge: Judge::new(candidates.len(), layer == Layer::Array, now)
                .with_late(candidates.iter().map(|it| it.late).collect()),
            switch: Switch::default(),
            candidates,
            one_in,
            one_in_max: ONE_IN_MAX.min(parts.config.cache_blocks / SHADOW_BLOCKS_MIN),
            busy: [(now, 0); 2],
            too_busy: false,
        }))
    }

    /// An input comes, before the engine handles it.
    pub(super) fn hear(&mut self, now: Nanos, input: &Input<'_>) {
        self.catch_up();
        match *input {
            Input::Read { id, access } | Input::Write { id, access, .. } => self.access(now, id, access),
            Input::Done { command, .. } => self.disks.ended(now, command),
            Input::Member { disk, failed } => {
                let Self { candidates, ring, disks, .. } = self;
                candidates
                    .iter_mut()
                    .for_each(|it| it.shadow.same(Input::Member { disk, failed }, ring, &disks.times));
            }
            Input::Gone { extent } => {
                let Self { candidates, ring, disks, .. } = self;
                candidates
                    .iter_mut()
                    .for_each(|it| it.shadow.same(Input::Gone { extent }, ring, &disks.times));
            }
            Input::Drop => {
                let Self { candidates, ring, disks, .. } = self;
                candidates.iter_mut().for_each(|it| it.shadow.same(Input::Drop, ring, &disks.times));
            }
            Input::Flush { .. }
            | Input::Hole { .. }
            | Input::Release { .. }
            | Input::Wake
            | Input::Synced { .. }
            | Input::Ahead { .. }
            | Input::Limits(_)
            | Input::Switch { .. }
            | Input::Split { .. } => {}
        }
    }

    fn access(&mut self, now: Nanos, id: u64, access: Access) {
        let region = (access.extent.start.0 / REGION_BLOCKS).wrapping_mul(SPREAD) >> 32;
        if !region.is_multiple_of(self.one_in) {
            return;
        }
        self.look_whether_busy(now);
        let number = self.ring.count;
        let last = self.processes.or_default(access.context.process());
        // What it came after must still be in the ring when it is given to the shadows.
        let known = last.access > 0 && last.access + RING > number + 1;
        let after = if known {
            Some(After { access: last.access - 1, answered: last.answered, gap: now.since(last.at) })
        } else if number > 0 {
            let before = self.ring.entry(number - 1).came;
            Some(After { access: number - 1, answered: false, gap: now.since(before) })
        } else {
            None
        };
        *last = Last { access: number + 1, answered: false, at: now };
        self.flights.insert((id, access.extent.start.0), Flight { number, came: now, access });
        if access.op == Op::Read {
            self.open.begins(now, &access);
        }
        self.at_once[(number % RING) as usize] = false;
        self.ring.push(Entry { access, came: now, after });
        self.owed = true;
        if number >= LAG + BATCH && (number + 1).is_multiple_of(BATCH) {
            self.catch_up();
            self.judge_batch(now, number - LAG);
        }
    }

    /// One access more.
    fn look_whether_busy(&mut self, now: Nanos) {
        let may_see_less = 2 * self.one_in <= self.one_in_max;
        for (at, (span, most)) in BUSY.into_iter().enumerate() {
            let (since, count) = &mut self.busy[at];
            *count += 1;
            if now.since(*since) >= span {
                let is_quick = at == 0 || self.disks.mean_lately() <= QUICK;
                self.too_busy |= *count > most && is_quick && may_see_less;
                (*since, *count) = (now, 0);
            }
        }
    }

    /// Gives the newest access to the shadows. That may be done later, but before the next input: what that one teaches must not reach them first. So
    /// nothing depends on when a host asks for it.
    pub(super) fn catch_up(&mut self) {
        if core::mem::take(&mut self.owed) {
            let Self { candidates, ring, disks, .. } = self;
            candidates.iter_mut().for_each(|candidate| candidate.shadow.admit(ring, &disks.times));
        }
    }

    /// The batch that ends with this access is over in all shadows.
    fn judge_batch(&mut self, now: Nanos, last: u64) {
        let place = (last / BATCH) as usize % BATCHES;
        let real = core::mem::take(&mut self.waits[place]);
        self.judged = last + 1;
        let Self { candidates, ring, disks, judge, live, at_once, .. } = self;
        judge.begin(real, *live);
        for (at, candidate) in candidates.iter_mut().enumerate() {
            let waited = candidate.shadow.waited(last, ring, &disks.times);
            judge.waited(at, waited, core::mem::take(&mut candidate.shadow.busy));
            if at == *live {
                // What was here though its shadow had to wait for it is owed to the scheme before.
                let owed = |&number: &u64| at_once[(number % RING) as usize];
                let inherited: u64 =
                    (last + 1 - BATCH..=last).filter(owed).map(|it| candidate.shadow.wait_of(it, ring)).sum();
                judge.inherited(inherited);
            }
        }
        let reads = (last + 1 - BATCH..=last).filter(|&at| ring.entry(at).access.op == Op::Read).count();
        judge.end(now, reads as u64);
    }

    /// The engine says something.
    pub(super) fn saw(&mut self, now: Nanos, output: &Output, parts: &Parts) {
        match output {
            Output::Start(start) => self.disks.left(now, start),
            Output::Ready { id, handle, .. } => {
                let begins = parts.extent(*handle).start.0;
                if let Some(flight) = self.flights.remove(&(*id, begins)) {
                    self.ended(now, flight);
                }
            }
            Output::Promote { .. } | Output::Fill { .. } | Output::Sync { .. } | Output::Combine { .. } => {}
        }
    }

    /// An access is answered.
    fn ended(&mut self, now: Nanos, Flight { number, came, access }: Flight) {
        let op = access.op;
        let waited = if op == Op::Read { self.open.ends(now, came, &access) } else { 0 };
        // An access that took longer than the ring lasts is no measure of anything but of what its reader waited.
        if number + RING <= self.ring.count {
            self.outlasted += waited;
            return;
        }
        let process = self.ring.entry(number).access.context.process();
        *self.processes.or_default(process) = Last { access: number + 1, answered: true, at: now };
        if op == Op::Read {
            self.at_once[(number % RING) as usize] = now == came;
            self.waits[(number / BATCH) as usize % BATCHES] += waited;
        }
    }

    /// What readers waited who had their answers after their batch was judged, and of which no later batch says it yet, ns.
    fn late(&self) -> u64 {
        let open = self.judged / BATCH..self.ring.count.div_ceil(BATCH);
        let is_open = |place: usize| open.clone().any(|batch| batch as usize % BATCHES == place);
        (0..BATCHES).filter(|&place| !is_open(place)).map(|place| self.waits[place]).sum()
    }

    /// Whether another batch has been judged since the last decision.
    pub(super) const fn has_news(&self) -> bool {
        self.judge.is_fresh() || self.too_busy
    }

    /// Shadows see half of the regions that they have seen, and begin anew with half of the memory.
    fn see_less(&mut self, now: Nanos, parts: &Parts) {
        self.too_busy = false;
        self.busy = [(now, 0); 2];
        let one_in = self.one_in * 2;
        let of = |it: &Candidate| {
            let mut parts = shadow_parts(&it.scheme, it.parts_of, parts, one_in)?;
            // Their caches are empty; what they have learned of the readers is not forgotten.
            parts.memory.scheme_mut().inherit_from(it.shadow.scheme());
            Some(Shadow::new(parts, self.layer, now))
        };
        let shadows: Option<Vec<Shadow>> = self.candidates.iter().map(of).collect();
        // A scheme that does not fit into so little memory cannot be judged by it.
        let Some(shadows) = shadows else { return };
        self.one_in = one_in;
        self.judge.anew();
        for (candidate, shadow) in self.candidates.iter_mut().zip(shadows) {
            candidate.shadow = shadow;
        }
        self.outlasted += self.late();
        (self.judged, self.owed) = (0, false);
        self.ring = Ring { entries: Vec::new(), count: 0 };
        self.flights.clear();
        self.processes = Recent::new(PROCESSES_MAX);
        self.open = Waits::new(self.layer);
        self.waits = [0; BATCHES];
    }

    /// What is to decide from now on, if it is something else. The present scheme may say that it loses before it gains.
    pub(super) fn decide(&mut self, now: Nanos, parts: &mut Parts) -> Option<BuiltLayer> {
        if self.too_busy {
            self.see_less(now, parts);
            return None;
        }
        let invests = parts.memory.scheme_mut().invests();
        let Verdict { candidate, why, because } = self.judge.verdict(self.live, self.none, invests)?;
        self.before = core::mem::replace(&mut self.live, candidate);
        let name = self.candidates[candidate].name;
        let reason = match why {
            Why::Steady => auto::WAITS_LESS,
            Why::Lately => auto::WAITS_MUCH_LESS,
            Why::Unearned => auto::HARDLY_LONGER,
            Why::Trial => auto::TRIED,
            Why::HeldOut => auto::HELD_OUT,
            Why::Back => auto::WAITED_MORE,
            Why::Luck => auto::CHANCE,
            Why::Broken => auto::NOT_KEPT,
        };
        self.switch.turn(now, "auto", &auto::way(name, reason), None, because);
        Some(self.built(candidate, parts))
    }

    /// A candidate that is to decide: it knows what its shadow knows of the readers, and rather what was kept and what the present scheme knows.
    fn built(&self, candidate: usize, parts: &Parts) -> BuiltLayer {
        let Candidate { scheme, parts_of, shadow, .. } = &self.candidates[candidate];
        let shape = shape(&parts.array, parts.config.cache_blocks, true, parts.memory.cost());
        let mut built = scheme.build(*parts_of, &shape);
        built.scheme.inherit_from(shadow.scheme());
        self.kept.iter().for_each(|kept| built.scheme.inherit_from(kept));
        built.scheme.inherit_from(parts.memory.scheme());
        built
    }

    /// A scheme has decided until now. After a trial it may decide again, and should not have forgotten what it has learned.
    pub(super) fn keep(&mut self, scheme: Scheme) {
        if self.one_in > 1 && self.before != self.none {
            self.kept = Some(scheme);
        }
    }

    /// Numbers for a report.
    pub(super) fn gauges(&self, out: &mut Vec<(&'static str, f64)>) {
        self.judge.gauges(self.none, out);
        #[expect(clippy::cast_precision_loss, reason = "gauges for a report")]
        out.extend([
            ("auto_wait_ns", (self.judge.waited_really() + self.outlasted + self.late()) as f64),
            ("auto_candidates", self.candidates.len() as f64),
            ("auto_scheme", self.live as f64),
            ("auto_regions_one_in", self.one_in as f64),
        ]);
    }

    pub(super) fn decisions(&mut self, out: &mut Vec<Decision>) {
        self.switch.take(out);
    }
}

/// The parts of a shadow: those of the real layer with another scheme and, of a large cache, a share of the memory. None if
/// the scheme does not fit there.
fn shadow_parts(scheme: &SchemeSpec, layer: Layer, parts: &Parts, one_in: u64) -> Option<Parts> {
    let cache_blocks = parts.config.cache_blocks / one_in;
    let shape = shape(&parts.array, cache_blocks, true, parts.memory.cost());
    scheme.check(layer, &shape).ok()?;
    let BuiltLayer { scheme, line_blocks, ahead_blocks_max } = scheme.build(layer, &shape);
    let config = Config { cache_blocks, line_blocks, ahead_blocks_max, syncs: false, ..parts.config };
    let disks = if config.strip_aligned { parts.array.disks() } else { 1 };
    let dispatch = Box::new(DemandFirst::new(usize::from(disks)));
    Some(Parts::new(config, parts.array, *parts.memory.cost(), scheme, dispatch))
}

#[cfg(test)]
mod tests {
    use super::shape;
    use crate::access::{Access, Context};
    use crate::array::Array;
    use crate::engine::{Engine, Input, Output, Status};
    use crate::policy::Policy as _;
    use crate::policy::decisions::Decision;
    use crate::policy::recall::Recall;
    use crate::registry::{Layer, SchemeSpec};
    use crate::scheme::Scheme;
    use crate::spec::LayerSpec;
    use crate::units::{Extent, Nanos};
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    /// Two parts of a request, whose places are far apart, are read under one id; each command takes a millisecond. What readers waited.
    fn ask(engine: &mut Engine, now: &mut Nanos, places: [u64; 2]) -> u64 {
        let (came, mut waited, mut commands) = (*now, 0, Vec::new());
        for at in places {
            let access = Access::read(Context::new(1, 1), Extent::new(at, 1));
            engine.handle(*now, Input::Read { id: 7, access });
        }
        loop {
            while let Some(output) = engine.poll() {
                match output {
                    Output::Start(start) => commands.push(start.command),
                    Output::Ready { handle, .. } => {
                        waited += now.since(came).0;
                        engine.handle(*now, Input::Release { handle });
                    }
                    _ => {}
                }
            }
            let Some(command) = commands.pop() else { return waited };
            *now += Nanos::from_millis(1);
            engine.handle(*now, Input::Done { command, status: Status::Ok });
        }
    }

    fn engine(blocks: u64) -> Engine {
        let array = Array::new("single:128KiB".parse().expect("valid"), 1 << 20).expect("holds strips");
        let spec = LayerSpec::array_cache(SchemeSpec::parse("auto").expect("a scheme"), array, blocks);
        spec.build().expect("fits")
    }

    fn gauge(engine: &mut Engine, name: &str) -> f64 {
        let mut gauges = Vec::new();
        engine.gauges(&mut gauges);
        gauges.iter().find(|(known, _)| *known == name).expect("a gauge").1
    }

    type Told = (Vec<Decision>, Vec<u64>, Vec<(&'static str, u64)>);

    /// So many reads in order with a jump now and then, and how long each command takes: all that was decided, read and told. The host does what was put
    /// off now and then.
    fn decided(reads: u64, command_takes: Nanos, catches_up: impl Fn(u64) -> bool) -> Told {
        let (mut engine, mut now) = (engine(4_096), Nanos(0));
        let (mut decisions, mut commands, mut said) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..reads {
            let at = if number % 50 < 40 { number } else { number * 7_919 % (1 << 19) };
            let access = Access::read(Context::new(1, 1), Extent::new(at, 1));
            engine.handle(now, Input::Read { id: number, access });
            loop {
                while let Some(output) = engine.poll() {
                    match output {
                        Output::Start(start) => {
                            said.push(start.extent.start.0 << 16 | start.extent.blocks);
                            commands.push(start.command);
                        }
                        Output::Ready { handle, .. } => engine.handle(now, Input::Release { handle }),
                        _ => {}
                    }
                }
                if catches_up(number) {
                    engine.catch_up();
                }
                let Some(command) = commands.pop() else { break };
                now += command_takes;
                engine.handle(now, Input::Done { command, status: Status::Ok });
            }
            engine.decisions(&mut decisions);
        }
        let mut gauges = Vec::new();
        engine.gauges(&mut gauges);
        (decisions, said, gauges.into_iter().map(|(name, value)| (name, value.to_bits())).collect())
    }

    #[test]
    fn nothing_depends_on_when_shadows_are_given_what_was_put_off() {
        // In both shadows see less after a while, and begin anew.
        for (reads, command_takes) in [(6_000, Nanos::from_micros(100)), (150_000, Nanos::from_micros(30))] {
            let never = decided(reads, command_takes, |_| false);
            assert!(!never.0.is_empty() && never.1.len() > 100, "{:?}", never.0);
            let sees_less = never.2.contains(&("auto_regions_one_in", 2.0_f64.to_bits()));
            assert!(sees_less, "{:?}", never.2);
            assert!(decided(reads, command_takes, |_| true) == never);
            assert!(decided(reads, command_takes, |number| number % 3 == 0) == never);
        }
    }

    /// One region in so many that shadows see of reads that come every 50 µs for so many of them, then none for half a second and one more; each
    /// command takes `takes` ns.
    fn seen(reads: u64, takes: u64) -> f64 {
        let (mut engine, mut under_way) = (engine(1 << 14), VecDeque::new());
        let come = (0..reads).map(|number| number * 50_000).chain([reads * 50_000 + 500_000_000]);
        for (number, now) in (0_u64..).zip(come) {
            while let Some((end, command)) = under_way.pop_front_if(|&mut (end, _)| end <= now) {
                engine.handle(Nanos(end), Input::Done { command, status: Status::Ok });
                drain(&mut engine, end, takes, &mut under_way);
            }
            let access = Access::read(Context::new(1, 1), Extent::new(number * 7_919 % (1 << 20), 1));
            engine.handle(Nanos(now), Input::Read { id: number, access });
            drain(&mut engine, now, takes, &mut under_way);
        }
        gauge(&mut engine, "auto_regions_one_in")
    }

    /// What the engine says: commands that will have taken as long, and slots that go back at once.
    fn drain(engine: &mut Engine, now: u64, takes: u64, under_way: &mut VecDeque<(u64, u32)>) {
        while let Some(output) = engine.poll() {
            match output {
                Output::Start(start) => under_way.push_back((now + takes, start.command)),
                Output::Ready { handle, .. } => engine.handle(Nanos(now), Input::Release { handle }),
                _ => {}
            }
        }
    }

    #[test]
    fn of_a_quick_layer_that_is_busy_for_long_shadows_see_a_share() {
        assert!(seen(30_000, 40_000) > 1.0);
        assert!(seen(6_000, 40_000) < 2.0, "of a burst all");
        assert!(seen(30_000, 600_000) < 2.0, "and where commands take longer than shadows by far");
    }

    fn page_cache(scheme: &str) -> Engine {
        let volume = Array::new("single:128KiB".parse().expect("valid"), 1 << 20).expect("holds strips");
        let scheme = SchemeSpec::parse(scheme).expect("a scheme");
        LayerSpec::page_cache(scheme, volume, 1 << 13).build().expect("fits")
    }

    /// Runs that a scheme with `recall` knows.
    fn recalled(scheme: &Scheme) -> f64 {
        let mut gauges = Vec::new();
        scheme.part::<Recall>().expect("one of its parts").gauges(&mut gauges);
        gauges.iter().find(|(name, _)| *name == "recall_runs").expect("a gauge").1
    }

    #[test]
    fn shadows_that_see_less_know_what_those_before_had_learned() {
        let (mut auto, mut now) = (page_cache("auto"), Nanos(0));
        for number in 0..1_000_u64 {
            ask(&mut auto, &mut now, [number * 7_919 % (1 << 19), (1 << 19) + number * 104_729 % (1 << 19)]);
        }
        let mut chooser = auto.chooser.take().expect("it chooses");
        let recalls =
            chooser.candidates.iter().position(|it| it.name == "linux-6+recall").expect("one of them");
        let before = recalled(chooser.candidates[recalls].shadow.scheme());
        chooser.see_less(now, &auto.parts);
        assert_eq!(chooser.one_in, 2);
        let after = recalled(chooser.candidates[recalls].shadow.scheme());
        // Half of the memory has room for half of it at least.
        assert!(before > 100.0 && after * 2.0 >= before, "{after} of {before}");
    }

    #[test]
    fn what_was_learned_before_a_trial_is_known_after_it_where_shadows_see_a_share() {
        let (mut taught, mut now) = (page_cache("linux-6+recall"), Nanos(0));
        for number in 0..1_000_u64 {
            ask(
                &mut taught,
                &mut now,
                [number * 7_919 % (1 << 19), (1 << 19) + number * 104_729 % (1 << 19)],
            );
        }
        let learned = gauge(&mut taught, "recall_runs");
        let mut auto = page_cache("auto");
        let mut chooser = auto.chooser.take().expect("it chooses");
        let recalls =
            chooser.candidates.iter().position(|it| it.name == "linux-6+recall").expect("one of them");
        let mut known = |kept: bool, one_in| {
            chooser.one_in = one_in;
            chooser.kept = None;
            if kept {
                let none = SchemeSpec::parse("none").expect("a scheme");
                let other = none.build(
                    Layer::Host,
                    &shape(&taught.parts.array, 1 << 13, true, taught.parts.memory.cost()),
                );
                chooser.keep(taught.parts.switch_to(now, other));
            }
            recalled(&chooser.built(recalls, &auto.parts).scheme)
        };
        assert!(learned > 100.0 && known(false, 2) < 1.0, "nobody knows anything");
        assert!(known(true, 2) >= learned, "who decided before the trial does");
        assert!(known(true, 1) < 1.0, "where shadows see all they know as much, and nothing is kept");
    }

    #[test]
    fn each_part_of_a_request_in_several_places_is_followed() {
        let mut engine = engine(4_096);
        let mut now = Nanos(0);
        let places = (0..1_000_u64).map(|n| [n * 7_919 % (1 << 19), (1 << 19) + n * 104_729 % (1 << 19)]);
        let waited: u64 = places.map(|places| ask(&mut engine, &mut now, places)).sum();

        let told = gauge(&mut engine, "auto_wait_ns");
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = told / waited as f64;
        // All but the last accesses, which are not judged yet.
        assert!((0.9..1.01).contains(&share), "{told} told, {waited} waited");
    }
}
