//! What an operator changes while everything runs: the scheme, and what the cache holds.
//!
//! A new scheme takes the cache over as it is (`memory/relay.rs`). Blocks, their slots, who reads them and what is in flight belong
//! to the engine and stay; what the old policy and retention had learned is forgotten, ghosts included. If one of the two schemes
//! decides itself what leaves when, what is still queued is queued again.
//!
//! Neither waits for anything.

use super::config::shape;
use super::parts::Parts;
use crate::registry::{BuiltLayer, Layer, SchemeSpec, check_split};
use crate::scheme::Scheme;
use crate::share::Share;
use crate::units::Nanos;

impl Parts {
    /// Everything that can leave the cache leaves.
    pub(super) fn drop_cache(&mut self, now: Nanos) {
        self.memory.drop_all();
        self.retry_starved(now);
    }

    /// From now on another scheme decides. The layer gets a dispatch of its own anew where the old scheme or the new one
    /// has one: nobody can take over the queues of another.
    pub(super) fn switch(&mut self, now: Nanos, scheme: &SchemeSpec, layer: Layer) {
        let shape = shape(&self.array, self.config.cache_blocks, self.config.retain, self.memory.cost());
        scheme.check(layer, &shape).expect("a host checks a scheme before it switches to it");
        self.switch_to(now, scheme.build(layer, &shape));
    }

    /// From now on two schemes decide, each for its share.
    pub(super) fn split(&mut self, now: Nanos, schemes: [&SchemeSpec; 2], layer: Layer, share: Share) {
        let shape = shape(&self.array, self.config.cache_blocks, self.config.retain, self.memory.cost());
        check_split(schemes, layer, &shape)
            .expect("a host checks schemes before it splits a layer between them");
        self.switch_to(now, BuiltLayer::split(schemes, layer, share, &shape));
    }

    /// The same with a scheme that has been made; the one before.
    pub(super) fn switch_to(&mut self, now: Nanos, built: BuiltLayer) -> Scheme {
        let BuiltLayer { mut scheme, line_blocks, ahead_blocks_max } = built;
        let dispatches = scheme.dispatch().is_some();
        self.config.line_blocks = line_blocks;
        self.config.ahead_blocks_max = ahead_blocks_max;
        let (before, order) = self.memory.relay(scheme, line_blocks);
        let disks = if self.config.strip_aligned { self.array.disks() } else { 1 };
        self.commands.relay(now, dispatches, usize::from(disks), &mut self.memory);
        self.memory.introduce(&order);
        self.retry_starved(now);
        before
    }
}

#[cfg(test)]
mod tests {
    use crate::access::{Access, Context};
    use crate::array::Array;
    use crate::engine::{Engine, Input, Output, Start, Status};
    use crate::hand::{Hand, answers};
    use crate::registry::{Layer, SchemeSpec};
    use crate::share::Share;
    use crate::spec::LayerSpec;
    use crate::units::{Block, Extent, Nanos};
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const CACHE_BLOCKS: u64 = 256;
    const SCHEMES: &[&str] = &[
        "none",
        "strip",
        "asp",
        "asp+msp",
        "grain",
        "auto",
        "arc+strip",
        "s3fifo",
        "sieve",
        "early",
        "grain+early",
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
    /// Two that can share a cache.
    const PAIRS: &[(&str, &str)] = &[
        ("none", "strip"),
        ("grain", "msp"),
        ("grain+msp", "none"),
        ("linux-6", "regions(linux-6)"),
        ("none", "flashy"),
        ("linux-6+recall", "linux-ondemand"),
        ("rpp(linux-2.4)", "zfetch"),
    ];

    fn array() -> Array {
        Array::new("raid0:4x16KiB".parse().expect("valid"), 1 << 9).expect("holds strips")
    }

    fn layer(scheme: &str) -> LayerSpec {
        let scheme = SchemeSpec::parse(scheme).expect("a scheme");
        let layer = if scheme.has_host() { Layer::Host } else { Layer::Array };
        LayerSpec { layer, ..LayerSpec::array_cache(scheme, array(), CACHE_BLOCKS) }
    }

    fn engine(scheme: &str) -> Engine {
        layer(scheme).build().expect("fits")
    }

    /// Two schemes, and the layer that they share.
    fn pair(before: &str, tried: &str) -> ([SchemeSpec; 2], Layer) {
        let both = [before, tried].map(|scheme| SchemeSpec::parse(scheme).expect("a scheme"));
        let layer = if both.iter().any(SchemeSpec::has_host) { Layer::Host } else { Layer::Array };
        (both, layer)
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
        Split((&'static str, &'static str), Share),
        Drop,
        Wake,
    }

    /// A host that checks what it is answered.
    struct Host {
        hand: Hand,
        asked: BTreeMap<u64, ()>,
        read_blocks: u64,
        said: Vec<Output>,
    }

    impl Host {
        fn new(engine: Engine) -> Self {
            Self { hand: Hand::new(engine), asked: BTreeMap::new(), read_blocks: 0, said: Vec::new() }
        }

        fn feed(&mut self, now: Nanos, input: Input<'_>) {
            self.hand.now = now;
            let said = self.hand.feed(input);
            for (id, ..) in answers(&said) {
                assert!(self.asked.remove(&id).is_some(), "answered once");
            }
            self.said.extend(said);
        }

        fn end(&mut self, now: Nanos, count: usize) {
            for _ in 0..count {
                let Some(&Start { command, .. }) = self.hand.running.front() else { break };
                self.feed(now, Input::Done { command, status: Status::Ok });
            }
        }

        fn release(&mut self, now: Nanos, count: usize) {
            for _ in 0..count {
                let Some(&(_, handle, _)) = self.hand.answered.front() else { break };
                self.feed(now, Input::Release { handle });
            }
        }

        fn step(&mut self, now: Nanos, step: &Step) {
            let id = now.0;
            match *step {
                Step::Read { context, at, blocks } => {
                    self.asked.insert(id, ());
                    self.read_blocks += blocks;
                    let access = Access::read(Context(context), Extent::new(at, blocks));
                    self.feed(now, Input::Read { id, access });
                }
                Step::Write { at, blocks } => {
                    self.asked.insert(id, ());
                    let access = Access::write(Context(9), Extent::new(at, blocks));
                    self.feed(now, Input::Write { id, access, durable: false });
                }
                Step::End(count) => self.end(now, count),
                Step::Release(count) => self.release(now, count),
                Step::Scheme(scheme) => {
                    let before = self.states();
                    let taken = self.hand.engine.cache().slots.taken();
                    let starved = self.hand.engine.accesses.is_any_starved();
                    let LayerSpec { scheme: next, layer, .. } = layer(scheme);
                    self.feed(now, Input::Switch { scheme: &next, layer });
                    // The new scheme may cull what nobody has read, and readers that waited may begin.
                    let culls = ["asp", "tap"].iter().any(|name| scheme.contains(name));
                    if !starved && !culls {
                        assert_eq!(self.states(), before, "every block is as it was");
                        assert_eq!(self.hand.engine.cache().slots.taken(), taken);
                    }
                }
                Step::Split((before, tried), share) => {
                    let ([one, other], layer) = pair(before, tried);
                    self.feed(now, Input::Split { schemes: [&one, &other], layer, share });
                }
                Step::Drop => {
                    self.feed(now, Input::Drop);
                    let lines = (0..self.hand.engine.cache().lines_made() as u32).map(crate::cache::LineId);
                    let left = lines.map(|line| *self.hand.engine.cache().line(line));
                    assert!(
                        left.filter(|line| line.used && !line.is_empty())
                            .all(|line| line.dirty + line.in_flight > 0 || !self.hand.running.is_empty()),
                        "only what is under way stays"
                    );
                }
                Step::Wake => {
                    if self.hand.engine.next_wake().is_some() {
                        self.feed(now, Input::Wake);
                    }
                }
            }
        }

        fn states(&self) -> Vec<(crate::cache::State, bool)> {
            let cache = self.hand.engine.cache();
            (0..array().capacity_blocks())
                .map(Block)
                .map(|block| {
                    (cache.state(block), cache.find(block).is_some_and(|l| cache.cell(l, block).dirty))
                })
                .collect()
        }

        /// Lets everything end, and checks that nothing was lost.
        fn finish(&mut self, now: Nanos) {
            while !self.hand.running.is_empty() || !self.hand.answered.is_empty() {
                self.end(now, usize::MAX);
                self.release(now, usize::MAX);
            }
            assert!(self.asked.is_empty(), "never answered: {:?}", self.asked);
            assert!(self.hand.engine.is_idle());
            let stats = self.hand.engine.stats();
            assert_eq!(stats.program.blocks_read(), self.read_blocks, "each block read has one outcome");
            let (unread, in_flight) = self.hand.engine.unproven_blocks();
            assert!(in_flight == 0 && unread <= CACHE_BLOCKS, "{unread} of {stats:?}");
            self.feed(now, Input::Drop);
            assert_eq!(self.hand.engine.cache().slots.taken(), 0, "no slot is lost");
            let stats = self.hand.engine.stats();
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
            1 => (prop::sample::select(PAIRS), 0_u64..4)
                .prop_map(|(pair, seed)| Step::Split(pair, Share::Clients { seed })),
            1 => prop::sample::select(PAIRS).prop_map(|pair| Step::Split(pair, Share::Regions)),
            1 => Just(Step::Drop),
            1 => Just(Step::Wake),
        ];
        prop::collection::vec(step, 1..300)
    }

    fn run(scheme: &str, steps: &[Step]) -> (Vec<Output>, crate::stats::Stats) {
        let mut host = Host::new(engine(scheme));
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
        let stats = *host.hand.engine.stats();
        (host.said, stats)
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

    /// An engine with a cache of 64 MiB over disks of 16 GiB with long strips.
    fn long_strips(scheme: &str, array: &str) -> Host {
        let array = Array::new(array.parse().expect("valid"), 1 << 22).expect("holds strips");
        let scheme = SchemeSpec::parse(scheme).expect("a scheme");
        let layer = if scheme.has_host() { Layer::Host } else { Layer::Array };
        let spec = LayerSpec {
            layer,
            ahead_blocks_max: Some(1 << 10),
            ..LayerSpec::array_cache(scheme, array, 1 << 14)
        };
        Host::new(spec.build().expect("fits"))
    }

    /// Reads of single blocks all over the volume; the most memory that the table took.
    fn scattered(host: &mut Host, reads: u64, seed: u64) -> u64 {
        let mut most = 0;
        for n in 0..reads {
            let at = (seed + n).wrapping_mul(crate::hash::SPREAD) >> (64 - 24);
            host.step(Nanos(seed + n), &Step::Read { context: 0, at, blocks: 1 });
            host.step(Nanos(seed + n), &Step::End(9));
            host.step(Nanos(seed + n), &Step::Release(9));
            most = most.max(host.hand.engine.cache().table_bytes());
        }
        most
    }

    #[test]
    fn single_blocks_of_long_strips_fill_the_cache_and_not_the_memory_of_the_table() {
        let max = crate::cache::table_bytes_max(1 << 14);
        for (scheme, slots) in [("none", 16_000), ("asp+msp", 8_000)] {
            let mut host = long_strips(scheme, "raid0:4x4MiB");
            let most = scattered(&mut host, 40_000, 0);
            assert!(most < max + (1 << 12), "{scheme}: {most} bytes of {max}");
            let taken = host.hand.engine.cache().slots.taken();
            assert!(taken > slots, "{scheme}: {taken} blocks are cached");
        }
    }

    #[test]
    fn a_scheme_with_long_lines_takes_over_only_what_its_table_has_memory_for() {
        let max = crate::cache::table_bytes_max(1 << 14);
        let mut host = long_strips("linux-6", "raid0:4x256MiB");
        scattered(&mut host, 40_000, 0);
        let none = SchemeSpec::parse("none").expect("a scheme");
        host.feed(Nanos(50_000), Input::Switch { scheme: &none, layer: Layer::Array });
        let cache = host.hand.engine.cache();
        assert!(cache.table_bytes() <= max, "{} bytes of {max}", cache.table_bytes());
        assert!(cache.slots.taken() > 200, "{} blocks stay", cache.slots.taken());
        host.finish(Nanos(60_000));
    }

    #[test]
    fn what_was_to_leave_next_still_is() {
        let mut host = Host::new(engine("none"));
        for at in (0..CACHE_BLOCKS).step_by(4) {
            host.step(Nanos(at), &Step::Read { context: 0, at: 1020 - at, blocks: 4 });
            host.step(Nanos(at), &Step::End(9));
            host.step(Nanos(at), &Step::Release(9));
        }
        let here =
            |host: &Host, at: u64| host.hand.engine.cache().state(Block(at)) == crate::cache::State::Cached;
        // From strips to blocks, and room for four more: the four that were read first go.
        host.step(Nanos(2000), &Step::Scheme("linux-6"));
        assert!(here(&host, 1020) && here(&host, 1016));
        host.step(Nanos(2001), &Step::Read { context: 1, at: 1900, blocks: 4 });
        assert!(!here(&host, 1020) && !here(&host, 1023) && here(&host, 1016) && here(&host, 768));
    }
}
