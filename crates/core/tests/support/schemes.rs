//! Layers to test: every scheme by name, with the line size and alignment that it needs, and one scheme that wishes wildly.

use super::Rng;
use forerun_core::access::Access;
use forerun_core::array::Array;
use forerun_core::engine::{Engine, WriteMode};
use forerun_core::policy::asp::{Asp, AspConfig};
use forerun_core::policy::linux26::Linux26;
use forerun_core::policy::msp::Msp;
use forerun_core::policy::none::None as NoPrefetch;
use forerun_core::policy::strip::Strip;
use forerun_core::policy::{Lookup, Plan, Policy, When, World};
use forerun_core::registry::{BuiltLayer, Layer, LayerShape, SchemeSpec};
use forerun_core::retention::adapter::ByLine;
use forerun_core::retention::arc::Arc;
use forerun_core::retention::lru::Lru;
use forerun_core::retention::s3fifo::S3Fifo;
use forerun_core::retention::sieve::Sieve;
use forerun_core::scheme::Scheme;
use forerun_core::spec::LayerSpec;
use forerun_core::units::{Extent, Nanos};

/// Every scheme of the swarm.
pub(crate) const SCHEMES: &[&str] = &[
    "none",
    "none/block",
    "strip",
    "asp",
    "asp/no-ghosts",
    "asp/no-cull",
    "asp/no-test",
    "asp/fixed",
    "msp",
    "asp+msp",
    "array:grain",
    "array:grain(trust=off)+msp",
    // Turns, memory for few of them, and none at all.
    "array:streams(unit=4KiB)",
    "array:streams(D=1,R=16KiB,N=2,unit=4KiB)",
    "array:streams(D=2,R=8KiB,N=3,M=48KiB,unit=4KiB)",
    "array:cadence(wait=20ms,unit=4KiB)",
    "array:cadence(wait=20ms,rate=400KiB,R=16KiB,M=64KiB,unit=4KiB)",
    "array:streams(D=4096,R=32KiB,N=1,unit=4KiB)",
    "linux-2.6",
    // Of the page cache, by the registry.
    "host:seqp:16KiB",
    "host:linux-2.4(max=16KiB)",
    "host:linux-ondemand(max=32KiB)",
    "host:linux-ondemand(max=16KiB,context=off)",
    "host:linux-6(max=16KiB,io=64KiB)",
    "host:linux-6(max=32KiB,align=on)",
    "host:rpp(seqp:16KiB)",
    "host:regions(seqp:16KiB)",
    "host:rpp(amp,threshold=2)",
    "host:amp",
    "host:amp(apt=1,p_max=12,k=2)",
    "host:sarc(track=16KiB,degree=2)",
    "host:sarc(track=8KiB,degree=3,threshold=1,whole=on)",
    "host:tap(degree=8KiB)",
    "host:tap(degree=16KiB,entries=3,size=20%)",
    "host:rpp(tap(degree=8KiB),threshold=1)",
    "host:zfetch",
    "host:zfetch(min_distance=16KiB,max_distance=32KiB,max_reorder=32KiB)",
    // A poll as short as the swarm's steps, and patterns that are believed at once.
    "host:flashy(poll=2us,max_rate=1024GiB,sequential=1,strided=1,reverse=1)",
    "host:linux-ondemand(max=32KiB)+flashy(poll=2us,max_rate=1024GiB,sequential=1,strided=1,reverse=1)",
    "arc",
    "s3fifo",
    "sieve",
    "array:strip+early",
    "array:grain+msp+early",
    "wild",
    "asp+wild",
    "wild/arc",
    "wild/s3fifo",
];

/// Wishes for anything at any time, and asks to be woken: what no real policy would do, the engine must survive.
pub(crate) struct Wild(pub(crate) Rng);

impl Wild {
    fn wish(&mut self, near: u64, world: &World<'_>, plan: &mut Plan) {
        for _ in 0..self.0.below(4) {
            let anywhere = self.0.below(world.blocks + 4);
            let start = if self.0.percent(60) { near.saturating_sub(self.0.below(12)) } else { anywhere };
            let extent = Extent::new(start, self.0.below(20));
            match self.0.below(3) {
                0 => plan.fetch(extent, When::WithDemand),
                1 => plan.fetch(extent, When::Ahead),
                _ => plan.fetch_mass(extent),
            }
        }
        if self.0.percent(10) {
            plan.wake_at(world.now + Nanos(self.0.below(5_000)), self.0.next());
        }
    }
}

impl Policy for Wild {
    fn on_access(&mut self, access: &Access, _lookup: &Lookup<'_>, world: &World<'_>, plan: &mut Plan) {
        self.wish(access.extent.start.0, world, plan);
    }
    fn on_fetched(&mut self, fetched: &forerun_core::policy::Fetched, world: &World<'_>, plan: &mut Plan) {
        if self.0.percent(10) {
            self.wish(fetched.extent.end(), world, plan);
        }
    }
    fn on_wake(&mut self, _token: u64, world: &World<'_>, plan: &mut Plan) {
        let near = self.0.below(world.blocks);
        self.wish(near, world, plan);
    }
}

/// Shape of a layer, as a test asks for it.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) array: &'static str,
    pub(crate) member_blocks: u64,
    pub(crate) scheme: &'static str,
    pub(crate) cache_blocks: u64,
    pub(crate) ahead_blocks_max: u64,
    pub(crate) command_blocks_max: u64,
    pub(crate) retain: bool,
    pub(crate) write: WriteMode,
}

/// Whether a scheme of the swarm works in the page cache.
pub(crate) fn is_host(scheme: &str) -> bool {
    scheme == "linux-2.6" || scheme.starts_with("host:")
}

/// Strips of this many blocks.
pub(crate) const STRIP: u64 = 4;

pub(crate) fn array(name: &str, member_blocks: u64) -> Array {
    Array::new(name.parse().expect("a valid name"), member_blocks).expect("holds a strip")
}

impl Layout {
    /// Layers of the page cache are not aligned to strips.
    pub(crate) fn is_host(&self) -> bool {
        is_host(self.scheme)
    }
    /// Blocks of a line: a strip where the scheme thinks in strips.
    pub(crate) fn line_blocks(&self) -> u64 {
        match self.scheme {
            _ if self.is_host() => 1,
            "none/block" | "arc" | "s3fifo" | "sieve" | "wild/arc" | "wild/s3fifo" => 1,
            _ => STRIP,
        }
    }
    pub(crate) fn engine(&self, seed: u64) -> Engine {
        let array = array(self.array, self.member_blocks);
        self.engine_with(build(self.scheme, self.cache_blocks, &array, seed))
    }
    /// With a scheme of the test's own.
    pub(crate) fn engine_with(&self, scheme: Scheme) -> Engine {
        let array = array(self.array, self.member_blocks);
        let spec = LayerSpec {
            strip_aligned: !self.is_host(),
            retain: self.retain,
            command_blocks_max: self.command_blocks_max,
            staging_blocks: u64::from(array.disks() + 2) * STRIP * 2,
            write: self.write,
            syncs: self.cache_blocks.is_multiple_of(16), // half of the layers of the swarm
            ..LayerSpec::array_cache(none(), array, self.cache_blocks)
        };
        spec.build_with(lines(scheme, self.line_blocks(), self.ahead_blocks_max)).expect("fits")
    }
}

/// The scheme of a spec whose engine is built with one of the test's own.
pub(crate) fn none() -> SchemeSpec {
    SchemeSpec::parse("none").expect("a scheme")
}

/// A scheme of the test's own, in lines of its choice.
pub(crate) fn lines(scheme: Scheme, line_blocks: u64, ahead_blocks_max: u64) -> BuiltLayer {
    BuiltLayer { scheme, line_blocks, ahead_blocks_max }
}

/// A scheme by its name in [`SCHEMES`].
pub(crate) fn build(name: &str, cache_blocks: u64, array: &Array, seed: u64) -> Scheme {
    let blocks = cache_blocks as usize;
    let lru = || ByLine::new(Lru::new(blocks));
    let asp = |change: fn(&mut AspConfig)| {
        let mut config = AspConfig::new(cache_blocks / STRIP);
        change(&mut config);
        Scheme::of(Asp::new(config, array.stripe_strips()))
    };
    let wild = || Wild(Rng::new(seed ^ 0xABCD));
    let layer = if name.starts_with("array:") { Layer::Array } else { Layer::Host };
    if let Some(scheme) = name.strip_prefix("host:").or(name.strip_prefix("array:")) {
        let shape = LayerShape {
            cache_blocks,
            strip_blocks: STRIP,
            stripe_strips: array.stripe_strips(),
            disks: array.disks(),
            heads: true,
        };
        return SchemeSpec::parse(scheme).expect("a scheme").build(layer, &shape).scheme;
    }
    match name {
        "none" | "none/block" => Scheme::split(NoPrefetch, lru()),
        "strip" => Scheme::split(Strip, lru()),
        "asp" => asp(|_| {}),
        "asp/no-ghosts" => asp(|config| config.ghosts = false),
        "asp/no-cull" => asp(|config| config.cull = false),
        "asp/no-test" => asp(|config| config.cost_test = false),
        "asp/fixed" => asp(|config| config.fixed_upstream = Some(2)),
        "msp" => Scheme::split(Msp::new(), lru()),
        "asp+msp" => asp(|_| {}).with(Msp::new()),
        "linux-2.6" => Scheme::split(Linux26::new(8), lru()),
        "arc" => Scheme::split(NoPrefetch, ByLine::new(Arc::new(blocks))),
        "s3fifo" => Scheme::split(NoPrefetch, ByLine::new(S3Fifo::new(blocks))),
        "sieve" => Scheme::split(Strip, ByLine::new(Sieve::new(blocks))),
        "wild" => Scheme::split(wild(), lru()),
        "asp+wild" => asp(|_| {}).with(wild()),
        "wild/arc" => Scheme::split(wild(), ByLine::new(Arc::new(blocks))),
        "wild/s3fifo" => Scheme::split(wild(), ByLine::new(S3Fifo::new(blocks))),
        other => panic!("no scheme {other}"),
    }
}
