//! One layer without input or output: an engine under a scheme of the registry, and what it decides, as text.
//!
//! The scheme is wrapped in a [`Tap`] that notes what the engine tells it and what it answers; fetches are seen as the
//! engine's outputs, and what leaves is seen by comparing the cells before and after. Fetches end at once, in the
//! order in which they left, or, with `fetches: held`, when a step says `done`.

use forerun_core::access::{Access, Context, Op};
use forerun_core::array::{Array, Role};
use forerun_core::cache::{Cache, LineId, State};
use forerun_core::dispatch::Class;
use forerun_core::engine::{Engine, Input, Limits, Output, Start, Status, WriteMode};
use forerun_core::policy::{Event, Fate, Outcome, Plan, Policy, When, World};
use forerun_core::registry::{BuiltLayer, Layer, SchemeSpec};
use forerun_core::retention::contract::{Afterlife, Retention, Victim};
use forerun_core::scheme::Scheme;
use forerun_core::size::parse_size;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{Block, Extent, Nanos};
use forerun_scenario::{Settings, range, ranges};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What a scheme was told and said during one step.
#[derive(Default)]
struct Log {
    outcomes: Vec<(u64, Outcome)>,
    wishes: Vec<String>,
    culled: BTreeSet<u64>,
    remembered: BTreeSet<u64>,
    forgotten: BTreeSet<u64>,
    wasted: BTreeSet<u64>,
}

/// A scheme that is listened to.
struct Tap {
    inner: Scheme,
    log: Arc<Mutex<Log>>,
    emptied: BTreeMap<LineId, Extent>,
}

impl Tap {
    fn note(&self, what: impl FnOnce(&mut Log)) {
        what(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }
    fn note_wishes(&self, plan: &Plan, before: usize) {
        for wish in &plan.wishes()[before..] {
            let blocks = ranges(wish.extent.iter().map(|b| b.0));
            let how = match (wish.when, wish.mass) {
                (When::WithDemand, _) => "with demand",
                (When::Ahead, false) => "ahead",
                (When::Ahead, true) => "ahead, whole stripes",
            };
            self.note(|log| log.wishes.push(format!("wish {blocks} {how}")));
        }
    }
    fn note_victim(&self, victim: Option<Victim>, cache: &Cache) {
        if let Some(Victim::Unread(line)) = victim {
            let extent = cache.line_extent(cache.line(line).number);
            self.note(|log| log.culled.extend(extent.iter().map(|b| b.0)));
        }
    }
}

impl Policy for Tap {
    fn inner(&mut self) -> Option<&mut dyn Policy> {
        Some(&mut self.inner)
    }
    fn own_retention(&mut self) -> Option<&mut dyn Retention> {
        Some(self)
    }
    fn hears_left(&mut self) -> bool {
        true
    }
    fn tell(&mut self, event: &Event<'_>, world: &World<'_>, plan: &mut Plan) {
        match event {
            Event::Access(access, lookup) => {
                let outcomes = access.extent.iter().map(|b| b.0).zip(lookup.outcomes.iter().copied());
                self.note(|log| log.outcomes.extend(outcomes));
            }
            Event::Left(extent, Fate::Wasted) => {
                self.note(|log| log.wasted.extend(extent.iter().map(|b| b.0)));
            }
            _ => {}
        }
        let before = plan.wishes().len();
        self.inner.tell(event, world, plan);
        self.note_wishes(plan, before);
    }
}

impl Retention for Tap {
    fn on_insert(&mut self, line: LineId, ahead: bool, cache: &Cache) {
        self.inner.retention().on_insert(line, ahead, cache);
    }
    fn hears_reads(&mut self) -> bool {
        self.inner.retention().hears_reads()
    }
    fn on_read(&mut self, line: LineId, block: Block, first: bool, cache: &Cache) {
        self.inner.retention().on_read(line, block, first, cache);
    }
    fn on_hit(&mut self, line: LineId, outcome: Outcome, cache: &Cache) {
        self.inner.retention().on_hit(line, outcome, cache);
    }
    fn on_counts(&mut self, line: LineId, cached: i32, unread: i32) {
        self.inner.retention().on_counts(line, cached, unread);
    }
    fn victim(&mut self, cache: &Cache) -> Option<Victim> {
        let victim = self.inner.retention().victim(cache);
        self.note_victim(victim, cache);
        victim
    }
    fn trim(&mut self, cache: &Cache) -> Option<Victim> {
        let victim = self.inner.retention().trim(cache);
        self.note_victim(victim, cache);
        victim
    }
    fn second_chance(&mut self, line: LineId) {
        self.inner.retention().second_chance(line);
    }
    fn on_emptied(&mut self, line: LineId, cache: &Cache) -> Afterlife {
        let afterlife = self.inner.retention().on_emptied(line, cache);
        if afterlife == Afterlife::Ghost {
            let extent = cache.line_extent(cache.line(line).number);
            self.emptied.insert(line, extent);
            self.note(|log| log.remembered.extend(extent.iter().map(|b| b.0)));
        }
        afterlife
    }
    fn forgotten(&mut self) -> Option<LineId> {
        let line = self.inner.retention().forgotten()?;
        if let Some(extent) = self.emptied.remove(&line) {
            self.note(|log| log.forgotten.extend(extent.iter().map(|b| b.0)));
        }
        Some(line)
    }
}

/// A fetch that has left and not ended.
struct Flying {
    command: u32,
    first: u64,
    blocks: String,
}

/// A layer and what it has said during a step.
pub(crate) struct Rig {
    engine: Engine,
    log: Arc<Mutex<Log>>,
    is_host: bool,
    held: bool,
    flying: Vec<Flying>,
    /// Blocks that were ever touched, with the state in which the last step left them.
    known: BTreeMap<u64, State>,
    asked: BTreeMap<u64, String>,
    /// First block and line.
    fetches: Vec<(u64, String)>,
    hurried: Vec<(u64, String)>,
    answers: Vec<String>,
    /// A sync of the members that has not ended, and whether a step has said so.
    syncing: Option<u32>,
    said_sync: bool,
    limits: Limits,
    now: Nanos,
}

impl Rig {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let scheme = SchemeSpec::parse(settings.get("scheme")?).map_err(|e| e.to_string())?;
        let is_host = scheme.has_host();
        let name = settings.or("array", "single:16KiB").parse();
        let name = name.map_err(|e: forerun_core::array::ArraySpecError| e.to_string())?;
        let array = Array::new(name, settings.number("member", "1024")?).map_err(|e| e.to_string())?;
        let cache_blocks = settings.number("cache", "64")?;
        let usual = if is_host {
            LayerSpec::page_cache(scheme, array, cache_blocks)
        } else {
            LayerSpec::array_cache(scheme, array, cache_blocks)
        };
        let layer = LayerSpec {
            ahead_blocks_max: Some(cache_blocks),
            write: WriteMode::Back { dirty_percent: 90, age: Nanos::from_secs(1_000_000) },
            syncs: settings.has("syncs"),
            ..usual
        };
        let log = Arc::new(Mutex::new(Log::default()));
        let built = layer.built();
        let tap = Tap { inner: built.scheme, log: Arc::clone(&log), emptied: BTreeMap::new() };
        let built = BuiltLayer { scheme: Scheme::of(tap), ..built };
        let held = match settings.or("fetches", "at once") {
            "at once" => false,
            "held" => true,
            other => return Err(format!("`fetches: {other}` is neither `at once` nor `held`")),
        };
        Ok(Self {
            engine: layer.build_with(built).map_err(|e| e.to_string())?,
            log,
            is_host,
            held,
            flying: Vec::new(),
            known: BTreeMap::new(),
            asked: BTreeMap::new(),
            fetches: Vec::new(),
            hurried: Vec::new(),
            answers: Vec::new(),
            syncing: None,
            said_sync: false,
            limits: Limits::default(),
            now: Nanos::ZERO,
        })
    }

    /// Takes one step and says everything that came of it.
    pub(crate) fn step(&mut self, step: &str) -> Result<Vec<String>, String> {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words[..] {
            ["read", blocks, ref rest @ ..] => self.access(Op::Read, blocks, rest)?,
            ["write", blocks, ref rest @ ..] => self.access(Op::Write, blocks, rest)?,
            ["done", blocks] => {
                let place = self.flying.iter().position(|f| f.blocks == blocks);
                let place = place.ok_or_else(|| format!("no fetch of {blocks} is in flight"))?;
                let command = self.flying.remove(place).command;
                self.feed(Input::Done { command, status: Status::Ok });
            }
            ["wait"] => {
                let at = self.engine.next_wake().ok_or("nobody has asked to be woken")?;
                self.now = self.now.max(at);
                self.feed(Input::Wake);
            }
            ["show", blocks] => return Ok(vec![self.show(blocks)?]),
            ["gauge", name] => return self.gauge(name),
            _ => self.change(&words)?,
        }
        Ok(self.report())
    }

    /// The inputs that come seldom.
    fn change(&mut self, words: &[&str]) -> Result<(), String> {
        match words[..] {
            ["flush"] => {
                let id = self.asked.len() as u64;
                self.asked.insert(id, "flush".into());
                self.feed(Input::Flush { id });
            }
            ["synced"] => {
                let sync = self.syncing.take().ok_or("nothing is being synced")?;
                self.said_sync = false;
                self.feed(Input::Synced { sync, failed: false });
            }
            ["gone", blocks] => {
                let (start, count) = range(blocks)?;
                self.feed(Input::Gone { extent: Extent::new(start, count) });
            }
            ["limit", what, most] => {
                let most = parse_size(most).map_err(|e| e.to_string())?;
                let limit = match what {
                    "memory" => &mut self.limits.memory_blocks,
                    "ahead" => &mut self.limits.ahead_blocks,
                    "rate" => &mut self.limits.ahead_bytes_per_s,
                    _ => return Err("limits are memory and ahead (blocks) and rate (bytes a second)".into()),
                };
                *limit = Some(most);
                self.feed(Input::Limits(self.limits));
            }
            ["switch", scheme] => {
                let scheme = SchemeSpec::parse(scheme).map_err(|e| e.to_string())?;
                let layer = if self.is_host { Layer::Host } else { Layer::Array };
                self.feed(Input::Switch { scheme: &scheme, layer });
            }
            ["drop"] => self.feed(Input::Drop),
            ["later", time] => {
                let ms: u64 =
                    time.strip_suffix("ms").and_then(|n| n.parse().ok()).ok_or("`later` takes ms")?;
                self.now += Nanos::from_millis(ms);
            }
            _ => {
                return Err(
                    "the steps are read, write, done, wait, later, show, gauge, flush, synced, gone, limit, \
                            switch and drop"
                        .into(),
                );
            }
        }
        Ok(())
    }

    fn access(&mut self, op: Op, blocks: &str, rest: &[&str]) -> Result<(), String> {
        let (start, count) = range(blocks)?;
        let extent = Extent::new(start, count);
        let mut access = match op {
            Op::Read => Access::read(Context(1), extent),
            Op::Write => Access::write(Context(1), extent),
        };
        for pair in rest.chunks(2) {
            match pair {
                ["by", context] => {
                    access.context =
                        Context(context.parse().map_err(|_| format!("`by {context}` is no number"))?);
                }
                ["of", file] => {
                    let (start, count) = range(file)?;
                    access.within = Extent::new(start, count);
                }
                _ => return Err("after the blocks stand `by READER` and `of FIRST-LAST`".into()),
            }
        }
        let id = self.asked.len() as u64;
        self.asked.insert(id, blocks.to_owned());
        self.touch(extent);
        self.feed(match op {
            Op::Read => Input::Read { id, access },
            Op::Write => Input::Write { id, access, durable: false },
        });
        Ok(())
    }

    fn touch(&mut self, extent: Extent) {
        for block in extent.iter() {
            self.known.entry(block.0).or_insert(State::Empty);
        }
    }

    /// Hands in one input and executes outputs; fetches end at once unless they are held.
    fn feed(&mut self, input: Input<'_>) {
        let mut inputs = vec![input];
        loop {
            for input in std::mem::take(&mut inputs) {
                self.now += Nanos(1_000);
                self.engine.handle(self.now, input);
            }
            while let Some(output) = self.engine.poll() {
                match output {
                    Output::Start(start) => self.started(&start),
                    Output::Ready { id, handle, .. } => {
                        if self.held {
                            self.answers.push(format!("answer {}", self.asked[&id]));
                        }
                        inputs.push(Input::Release { handle });
                    }
                    Output::Promote { command } => {
                        let hurried = self.flying.iter().filter(|f| f.command == command);
                        self.hurried.extend(hurried.map(|f| (f.first, format!("hurry {}", f.blocks))));
                    }
                    Output::Sync { sync } if self.held => self.syncing = Some(sync),
                    Output::Sync { sync } => inputs.push(Input::Synced { sync, failed: false }),
                    Output::Fill { .. } | Output::Combine { .. } => {}
                }
            }
            if !self.held {
                let ended = self.flying.drain(..);
                inputs.extend(ended.map(|f| Input::Done { command: f.command, status: Status::Ok }));
            }
            if inputs.is_empty() {
                return;
            }
        }
    }

    fn started(&mut self, start: &Start) {
        let extent = self.volume_extent(start);
        let blocks = ranges(extent.iter().map(|b| b.0));
        let place = if self.is_host { String::new() } else { format!(" on disk {}", start.disk.0) };
        if start.op == Op::Read {
            self.touch(extent);
            let class = if start.class == Class::Demand { "for demand" } else { "ahead" };
            self.fetches.push((extent.start.0, format!("fetch {blocks}{place} {class}")));
        } else {
            self.fetches.push((extent.start.0, format!("store {blocks}{place}")));
        }
        self.flying.push(Flying { command: start.command, first: extent.start.0, blocks });
    }

    /// The blocks of the volume that a member command moves.
    fn volume_extent(&self, start: &Start) -> Extent {
        if self.is_host {
            return start.extent;
        }
        match self.engine.array().logical(start.disk, start.extent.start) {
            Role::Data(first) => Extent { start: first, blocks: start.extent.blocks },
            other => panic!("a scenario has no parity to read and writes nothing back: {other:?}"),
        }
    }

    /// What happened since the last report, in one order for all scenarios.
    fn report(&mut self) -> Vec<String> {
        let log = std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner));
        let mut lines = Vec::new();
        for (kind, name) in OUTCOMES {
            let of = log.outcomes.iter().filter(|(_, outcome)| outcome == kind).map(|(block, _)| *block);
            push(&mut lines, name, of);
        }
        lines.extend(log.wishes);
        let mut gone = BTreeSet::new();
        for (&block, before) in &mut self.known {
            let after = self.engine.cache().state(Block(block));
            if *before != State::Empty && after == State::Empty {
                gone.insert(block);
            }
            *before = after;
        }
        push(&mut lines, "cull", gone.iter().copied().filter(|b| log.culled.contains(b)));
        push(&mut lines, "evict", gone.iter().copied().filter(|b| !log.culled.contains(b)));
        push(&mut lines, "wasted", log.wasted);
        push(&mut lines, "remember", log.remembered);
        push(&mut lines, "forget", log.forgotten);
        for commands in [&mut self.fetches, &mut self.hurried] {
            commands.sort();
            lines.extend(commands.drain(..).map(|(_, line)| line));
        }
        if self.syncing.is_some() && !std::mem::replace(&mut self.said_sync, true) {
            lines.push("sync".into());
        }
        lines.append(&mut self.answers);
        lines
    }

    /// One letter for each block.
    fn show(&self, blocks: &str) -> Result<String, String> {
        let (start, count) = range(blocks)?;
        let letter = |block: Block| match self.engine.cache().state(block) {
            State::Empty => '.',
            State::FetchDemand => 'd',
            State::FetchPrefetch => 'f',
            State::Prefetched => 'p',
            State::Cached => 'c',
        };
        Ok(Extent::new(start, count).iter().map(letter).collect())
    }

    fn gauge(&mut self, name: &str) -> Result<Vec<String>, String> {
        let mut gauges = Vec::new();
        self.engine.gauges(&mut gauges);
        let known = || gauges.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = gauges.iter().find(|(other, _)| *other == name);
        let (_, value) = found.ok_or_else(|| format!("the gauges of this scheme are: {}", known()))?;
        Ok(vec![value.to_string()])
    }
}

const OUTCOMES: &[(Outcome, &str)] = &[
    (Outcome::Miss, "miss"),
    (Outcome::MergedMiss, "merged miss"),
    (Outcome::LateHit, "late hit"),
    (Outcome::PrefetchHit, "prefetch hit"),
    (Outcome::CacheHit, "cache hit"),
];

fn push(lines: &mut Vec<String>, name: &str, blocks: impl IntoIterator<Item = u64>) {
    let blocks = ranges(blocks);
    if !blocks.is_empty() {
        lines.push(format!("{name} {blocks}"));
    }
}
