//! What an operator changes while everything runs: the scheme, and what the cache holds.
//!
//! A new scheme takes the cache over as it is. Blocks, their slots, who reads them and what is in flight belong to the
//! engine and stay; policy and retention are made anew, so what the old ones had learned is forgotten, ghosts included. If
//! the new retention keeps lines of another size, the table is laid out again; if one of the two schemes decides itself what
//! leaves when, what is still queued is queued again. Lines are handed to it in the order in which
//! the old one would have given them up, as far as it says so, so that what is to leave next is about what was.
//!
//! Neither call waits for anything, and both are inputs as far as replaying is concerned: at the same place among the same
//! inputs they have the same effects.

use super::Engine;
use crate::cache::{Cache, Cell, LineId, State};
use crate::dispatch::Dispatch;
use crate::hash::NumberMap;
use crate::policy::Policy as _;
use crate::registry::BuiltLayer;
use crate::retention::keep::Victim;
use crate::units::{Block, Nanos};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl Engine {
    /// Everything that can leave the cache leaves: what is in flight, or written and not on the members yet, stays. Blocks
    /// that a host still copies from are gone from the cache, and their memory is free when they are released.
    pub fn drop_cache(&mut self, now: Nanos) {
        self.now = now;
        for index in 0..self.cache.lines_made() {
            let line = LineId(u32::try_from(index).expect("lines are numbered in 32 bits"));
            let state = *self.cache.line(line);
            if state.used && !state.is_hollow() && state.dirty == 0 && state.in_flight == 0 {
                self.evict(line);
            }
        }
        self.retry_starved(now);
        self.pump(now);
    }

    /// From now on another scheme decides. The cache keeps what it holds. `dispatch` becomes the layer's own where the old
    /// scheme or the new one has one of its own, in the place of which nobody can step.
    ///
    /// # Panics
    /// If a line has no block.
    pub fn set_scheme(&mut self, now: Nanos, next: BuiltLayer, dispatch: Box<dyn Dispatch>) {
        self.now = now;
        let BuiltLayer { mut scheme, line_blocks, ahead_blocks_max } = next;
        let mut order = self.leaving_order();
        self.thin_for(line_blocks, &mut order);
        let own_dispatch = scheme.dispatch().is_some();
        let other_dispatch = self.own_dispatch || own_dispatch;
        self.cache.lay_out(line_blocks);
        self.config.line_blocks = line_blocks;
        self.config.ahead_blocks_max = ahead_blocks_max;
        self.own_dispatch = own_dispatch;
        self.hears_left = scheme.hears_left();
        self.scheme = scheme;
        if other_dispatch {
            self.dispatch = dispatch;
            self.queue_again(now);
        }
        self.plan.clear();
        self.wakes.clear();
        // A line of several old ones is as young as the youngest of them.
        let mut told = Vec::new();
        told.resize(self.cache.lines_made(), false);
        let mut lines = Vec::with_capacity(self.cache.lines_made());
        for block in order.iter().rev() {
            let line = self.cache.find(*block).expect("what the old table held the new one holds");
            if !core::mem::replace(&mut told[line.index()], true) {
                lines.push(line);
            }
        }
        for line in lines.into_iter().rev() {
            let state = *self.cache.line(line);
            self.scheme.retention().on_counts(line, state.cached as i32, state.unread as i32);
            self.scheme.retention().on_insert(line, state.cached == 0, &self.cache);
        }
        self.trim();
        self.retry_starved(now);
        self.pump(now);
    }

    /// Of the blocks in `order`, the first to leave first, those leave now for which lines of `line_blocks` would cost more
    /// memory than the table may have, as far as they can.
    fn thin_for(&mut self, line_blocks: u64, order: &mut Vec<Block>) {
        let most = Cache::new(line_blocks, self.config.cache_blocks).sparse_lines_max();
        let mut stay: NumberMap<()> = NumberMap::default();
        for block in order.iter().rev() {
            if stay.len() as u64 == most {
                break;
            }
            stay.insert(block.0 / line_blocks, ());
        }
        if (stay.len() as u64) < most {
            return;
        }
        for block in order.iter() {
            let Some(line) = self.cache.find(*block) else { continue };
            let state = *self.cache.line(line);
            let extent = self.cache.line_extent(state.number);
            let new = extent.start.0 / line_blocks..=(extent.end() - 1) / line_blocks;
            let stays = new.into_iter().any(|number| stay.contains_key(&number));
            if !stays && !state.is_hollow() && state.dirty == 0 && state.in_flight == 0 {
                self.evict(line);
            }
        }
        order.retain(|&block| self.cache.state(block) != State::Empty);
    }

    /// Commands that have not left go to the dispatch that decides now; of those that have left it is told nothing.
    fn queue_again(&mut self, now: Nanos) {
        for number in self.commands.alive() {
            if self.commands[number].left {
                self.commands[number].of_another_dispatch = true;
            } else {
                let queued = self.queued(number);
                self.dispatch().enqueue(now, queued);
            }
        }
    }

    /// The blocks of the cache, those first that the retention would give up first. Lines that it does not name before it
    /// begins again come last.
    fn leaving_order(&mut self) -> Vec<Block> {
        let all = (0..self.cache.lines_made() as u32).map(LineId);
        let alive: Vec<LineId> =
            all.filter(|&line| self.cache.line(line).used && !self.cache.line(line).is_hollow()).collect();
        let mut named = Vec::new();
        named.resize(self.cache.lines_made(), false);
        let mut lines = Vec::with_capacity(alive.len());
        for _ in 0..alive.len() {
            let Some(victim) = self.scheme.retention().victim(&self.cache) else { break };
            let (Victim::Whole(line) | Victim::Unread(line)) = victim;
            self.scheme.retention().second_chance(line);
            if core::mem::replace(&mut named[line.index()], true) {
                break;
            }
            lines.push(line);
        }
        lines.extend(alive.into_iter().filter(|line| !named[line.index()]));
        let blocks = |line: &LineId| {
            let extent = self.cache.line_extent(self.cache.line(*line).number);
            let cells = self.cache.cells(*line);
            let held: Vec<Block> = extent
                .iter()
                .zip(cells)
                .filter(|(_, cell)| cell.state != State::Empty)
                .map(|(b, _)| b)
                .collect();
            held
        };
        lines.iter().flat_map(blocks).collect()
    }
}

impl Cache {
    /// The same blocks, in the same states and the same memory, in lines of another size; without any memory of the past.
    fn lay_out(&mut self, line_blocks: u64) {
        let mut moved = Vec::with_capacity(usize::try_from(self.slots.taken()).expect("slots are memory"));
        for index in 0..self.lines_made() as u32 {
            let line = *self.line(LineId(index));
            if !line.used {
                continue;
            }
            for (block, cell) in self.line_extent(line.number).iter().zip(self.cells(LineId(index))) {
                if cell.state == State::Empty {
                    continue;
                }
                moved.push((block, Cell { past: false, mass: false, ..*cell }));
            }
        }
        // The old table goes before the new one comes: there is memory for one.
        let slots = core::mem::replace(&mut self.slots, crate::slots::Slots::new(0));
        *self = Self::new(line_blocks, 0);
        self.slots = slots;
        for (block, cell) in moved {
            let id = self.ensure(block).0;
            self.set(id, block, |here| *here = cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::access::{Access, Context};
    use crate::array::Array;
    use crate::cost::CostModel;
    use crate::dispatch::DemandFirst;
    use crate::engine::{Config, Engine, Input, Output, Residency, Status, WriteMode};
    use crate::registry::{BuiltLayer, Layer, LayerShape, SchemeSpec};
    use crate::units::{Block, Extent, Nanos};
    use alloc::boxed::Box;
    use alloc::collections::{BTreeMap, VecDeque};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const CACHE_BLOCKS: u64 = 256;
    const SCHEMES: &[&str] = &[
        "none",
        "strip",
        "asp",
        "asp+msp",
        "arc+strip",
        "s3fifo",
        "sieve",
        "linux-2.4",
        "linux-2.6",
        "linux-ondemand",
        "linux-6",
        "amp",
        "sarc",
        "tap(degree=16KiB)",
        "zfetch",
        "flashy",
        "rpp(linux-2.4)",
        "rpp(amp)",
        "streams",
        "streams(D=1,R=32KiB,N=4,M=512KiB)",
    ];

    fn array() -> Array {
        Array::new("raid0:4x16KiB".parse().expect("valid"), 1 << 9).expect("holds strips")
    }

    fn built(scheme: &str) -> BuiltLayer {
        let shape = LayerShape { cache_blocks: CACHE_BLOCKS, strip_blocks: 4, stripe_strips: 4, disks: 4 };
        let spec = SchemeSpec::parse(scheme).expect("a scheme");
        spec.build(if spec.has_host() { Layer::Host } else { Layer::Array }, &shape)
    }

    fn engine(scheme: &str) -> Engine {
        let built = built(scheme);
        let config = Config {
            residency: Residency::Owned,
            cache_blocks: CACHE_BLOCKS,
            line_blocks: built.line_blocks,
            strip_aligned: true,
            retain: true,
            command_blocks_max: 4,
            ahead_blocks_max: built.ahead_blocks_max,
            staging_blocks: 0,
            write: WriteMode::Through,
        };
        Engine::new(config, array(), CostModel::default(), built.scheme, Box::new(DemandFirst::new(4)))
    }

    /// What a host does in a test.
    #[derive(Clone, Debug)]
    enum Step {
        Read {
            context: u64,
            at: u64,
            blocks: u64,
        },
        Write {
            at: u64,
            blocks: u64,
        },
        /// So many member commands end.
        End(usize),
        /// So many answers are given back.
        Release(usize),
        Scheme(&'static str),
        Drop,
        Wake,
    }

    /// An engine with what is in flight and what was answered.
    struct Host {
        engine: Engine,
        running: VecDeque<u32>,
        answered: VecDeque<u32>,
        asked: BTreeMap<u64, ()>,
        read_blocks: u64,
        said: Vec<Output>,
    }

    impl Host {
        fn new(scheme: &str) -> Self {
            Self {
                engine: engine(scheme),
                running: VecDeque::new(),
                answered: VecDeque::new(),
                asked: BTreeMap::new(),
                read_blocks: 0,
                said: Vec::new(),
            }
        }

        fn drain(&mut self) {
            while let Some(output) = self.engine.poll() {
                self.said.push(output);
                match output {
                    Output::Start(start) => self.running.push_back(start.command),
                    Output::Ready { id, handle, .. } => {
                        assert!(self.asked.remove(&id).is_some(), "answered once");
                        self.answered.push_back(handle);
                    }
                    _ => {}
                }
            }
        }

        fn end(&mut self, now: Nanos, count: usize) {
            for _ in 0..count {
                let Some(command) = self.running.pop_front() else { break };
                self.engine.handle(now, Input::Done { command, status: Status::Ok });
                self.drain();
            }
        }

        fn release(&mut self, now: Nanos, count: usize) {
            for _ in 0..count {
                let Some(handle) = self.answered.pop_front() else { break };
                self.engine.handle(now, Input::Release { handle });
                self.drain();
            }
        }

        fn step(&mut self, now: Nanos, step: &Step) {
            let id = now.0;
            match *step {
                Step::Read { context, at, blocks } => {
                    self.asked.insert(id, ());
                    self.read_blocks += blocks;
                    let access = Access::read(Context(context), Extent::new(at, blocks));
                    self.engine.handle(now, Input::Read { id, access });
                }
                Step::Write { at, blocks } => {
                    self.asked.insert(id, ());
                    let access = Access::write(Context(9), Extent::new(at, blocks));
                    self.engine.handle(now, Input::Write { id, access, durable: false });
                }
                Step::End(count) => self.end(now, count),
                Step::Release(count) => self.release(now, count),
                Step::Scheme(scheme) => {
                    let before = self.states();
                    let taken = self.engine.cache().slots.taken();
                    let built = built(scheme);
                    let starved = !self.engine.starved.is_empty();
                    self.engine.set_scheme(now, built, Box::new(DemandFirst::new(4)));
                    // The new scheme may cull what nobody has read, and readers that waited may begin.
                    let culls = ["asp", "tap"].iter().any(|name| scheme.contains(name));
                    if !starved && !culls {
                        assert_eq!(self.states(), before, "every block is as it was");
                        assert_eq!(self.engine.cache().slots.taken(), taken);
                    }
                }
                Step::Drop => {
                    self.engine.drop_cache(now);
                    let lines = (0..self.engine.cache().lines_made() as u32).map(crate::cache::LineId);
                    let left = lines.map(|line| *self.engine.cache().line(line));
                    assert!(
                        left.filter(|line| line.used && !line.is_hollow())
                            .all(|line| line.dirty + line.in_flight > 0 || !self.running.is_empty()),
                        "only what is under way stays"
                    );
                }
                Step::Wake => {
                    if self.engine.next_wake().is_some() {
                        self.engine.handle(now, Input::Wake);
                    }
                }
            }
            self.drain();
        }

        fn states(&self) -> Vec<(crate::cache::State, bool)> {
            let cache = self.engine.cache();
            (0..array().capacity_blocks())
                .map(Block)
                .map(|block| {
                    (cache.state(block), cache.find(block).is_some_and(|l| cache.cell(l, block).dirty))
                })
                .collect()
        }

        /// Lets everything end, and checks that nothing was lost.
        fn finish(&mut self, now: Nanos) {
            while !self.running.is_empty() || !self.answered.is_empty() {
                self.end(now, usize::MAX);
                self.release(now, usize::MAX);
            }
            assert!(self.asked.is_empty(), "never answered: {:?}", self.asked);
            assert!(self.engine.is_idle());
            let stats = self.engine.stats();
            assert_eq!(stats.program.blocks_read(), self.read_blocks, "each block read has one outcome");
            let (unread, in_flight) = self.engine.unproven_blocks();
            assert!(in_flight == 0 && unread <= CACHE_BLOCKS, "{unread} of {stats:?}");
            self.engine.drop_cache(now);
            assert_eq!(self.engine.cache().slots.taken(), 0, "no slot is lost");
            let stats = self.engine.stats();
            assert_eq!(stats.prefetched, stats.used + stats.wasted, "every prefetch has one end");
        }
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0_u64..3, 0_u64..1900, 1_u64..40).prop_map(|(context, at, blocks)| Step::Read { context, at, blocks }),
            // Three runs forward, so that there is something to prefetch and to hit.
            12 => (0_u64..3).prop_map(|context| Step::Read { context, at: u64::MAX, blocks: 2 }),
            3 => (0_u64..1900, 1_u64..40).prop_map(|(at, blocks)| Step::Write { at, blocks }),
            8 => (1_usize..6).prop_map(Step::End),
            8 => (1_usize..6).prop_map(Step::Release),
            2 => prop::sample::select(SCHEMES).prop_map(Step::Scheme),
            1 => Just(Step::Drop),
            1 => Just(Step::Wake),
        ];
        prop::collection::vec(step, 1..300)
    }

    fn run(scheme: &str, steps: &[Step]) -> (Vec<Output>, crate::stats::Stats) {
        let mut host = Host::new(scheme);
        let mut heads = [0_u64, 700, 1400];
        let mut now = Nanos(0);
        for step in steps {
            now = Nanos(now.0 + 1_000);
            let mut step = step.clone();
            if let Step::Read { context, at, blocks } = &mut step
                && *at == u64::MAX
            {
                let head = &mut heads[*context as usize];
                *at = *head;
                *head = (*head + *blocks) % 1900;
            }
            host.step(now, &step);
        }
        host.finish(Nanos(now.0 + 1));
        (host.said, *host.engine.stats())
    }

    proptest! {
        #[test]
        fn schemes_may_change_and_caches_be_dropped_at_any_moment(
            first in prop::sample::select(SCHEMES),
            steps in steps(),
        ) {
            let once = run(first, &steps);
            prop_assert!(once == run(first, &steps), "the same inputs give the same outputs");
        }
    }

    /// An engine with a cache of 64 MiB over disks of 4 GiB with strips of 4 MiB.
    fn long_strips(scheme: &str) -> Host {
        let array = Array::new("raid0:4x4MiB".parse().expect("valid"), 1 << 22).expect("holds strips");
        let shape = LayerShape { cache_blocks: 1 << 14, strip_blocks: 1 << 10, stripe_strips: 4, disks: 4 };
        let spec = SchemeSpec::parse(scheme).expect("a scheme");
        let built = spec.build(if spec.has_host() { Layer::Host } else { Layer::Array }, &shape);
        let config = Config {
            residency: Residency::Owned,
            cache_blocks: shape.cache_blocks,
            line_blocks: built.line_blocks,
            strip_aligned: true,
            retain: true,
            command_blocks_max: 1 << 10,
            ahead_blocks_max: 1 << 10,
            staging_blocks: 0,
            write: WriteMode::Through,
        };
        let dispatch = Box::new(DemandFirst::new(4));
        let engine = Engine::new(config, array, CostModel::default(), built.scheme, dispatch);
        Host { engine, ..Host::new("none") }
    }

    /// Reads of single blocks all over the volume; the most memory that the table took.
    fn scattered(host: &mut Host, reads: u64, seed: u64) -> u64 {
        let mut most = 0;
        for n in 0..reads {
            let at = (seed + n).wrapping_mul(crate::hash::SPREAD) >> (64 - 24);
            host.step(Nanos(seed + n), &Step::Read { context: 0, at, blocks: 1 });
            host.step(Nanos(seed + n), &Step::End(9));
            host.step(Nanos(seed + n), &Step::Release(9));
            most = most.max(host.engine.cache().table_bytes());
        }
        most
    }

    #[test]
    fn single_blocks_of_long_strips_fill_the_cache_and_not_the_memory_of_the_table() {
        let max = crate::cache::table_bytes_max(1 << 14);
        for (scheme, slots) in [("none", 16_000), ("asp+msp", 8_000)] {
            let mut host = long_strips(scheme);
            let most = scattered(&mut host, 40_000, 0);
            assert!(most < max + (1 << 12), "{scheme}: {most} bytes of {max}");
            let taken = host.engine.cache().slots.taken();
            assert!(taken > slots, "{scheme}: {taken} blocks are cached");
        }
    }

    #[test]
    fn a_scheme_with_long_lines_takes_over_only_what_its_table_has_memory_for() {
        let max = crate::cache::table_bytes_max(1 << 14);
        let mut host = long_strips("linux-6");
        scattered(&mut host, 40_000, 0);
        let shape = LayerShape { cache_blocks: 1 << 14, strip_blocks: 1 << 16, stripe_strips: 4, disks: 4 };
        let built = SchemeSpec::parse("none").expect("a scheme").build(Layer::Array, &shape);
        host.engine.set_scheme(Nanos(50_000), built, Box::new(DemandFirst::new(4)));
        host.drain();
        let cache = host.engine.cache();
        assert!(cache.table_bytes() <= max, "{} bytes of {max}", cache.table_bytes());
        assert!(cache.slots.taken() > 200, "{} blocks stay", cache.slots.taken());
        host.finish(Nanos(60_000));
    }

    #[test]
    fn what_was_to_leave_next_still_is() {
        let mut host = Host::new("none");
        for at in (0..CACHE_BLOCKS).step_by(4) {
            host.step(Nanos(at), &Step::Read { context: 0, at: 1020 - at, blocks: 4 });
            host.step(Nanos(at), &Step::End(9));
            host.step(Nanos(at), &Step::Release(9));
        }
        let here = |host: &Host, at: u64| host.engine.cache().state(Block(at)) == crate::cache::State::Cached;
        // From strips to blocks, and room for four more: the four that were read first go.
        host.step(Nanos(2000), &Step::Scheme("linux-6"));
        assert!(here(&host, 1020) && here(&host, 1016));
        host.step(Nanos(2001), &Step::Read { context: 1, at: 1900, blocks: 4 });
        assert!(!here(&host, 1020) && !here(&host, 1023) && here(&host, 1016) && here(&host, 768));
    }
}
