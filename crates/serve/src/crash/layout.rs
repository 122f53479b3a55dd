//! What is served in one run: geometry, size, cache and scheme, drawn from its seed.

use super::draw::Draw;
use super::stamp::{BLOCK_GRAINS, GRAIN};
use super::weather::Weather;
use crate::source::Source;
use crate::spec::EngineSpec;
use forerun_core::array::{Array, ArraySpec};
use forerun_core::units::{BLOCK_BYTES, Block, Extent};
use std::sync::LazyLock;

/// Schemes that are served, each with its array: over one member, or striped over several.
const SCHEMES: &[&str] = &["none", "strip", "asp+msp", "linux-6", "seqp:64K", "amp"];

static SPECS: LazyLock<Vec<EngineSpec>> = LazyLock::new(|| {
    let spec = |scheme: &&str| EngineSpec::new(scheme, 16 << 20, "cheetah-15k4").expect("it is served");
    SCHEMES.iter().map(spec).collect()
});

/// One that has been drawn.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    array: ArraySpec,
    /// Bytes of each member.
    sizes: Vec<u64>,
    over: bool,
    /// The array with redundancy that they are, as one.
    redundant: Option<Array>,
    cache_blocks: u64,
    scheme: usize,
}

impl Layout {
    /// Over one member, or over one or two.
    pub(super) fn of(draw: &mut Draw, one: bool) -> Self {
        let strip = draw.pick(&[4, 8, 16]) * BLOCK_BYTES;
        let over = !draw.one_in(2) || one;
        let disks = if over { draw.pick(&[1, 1, 3]) } else { 2 };
        let text = if disks == 1 { format!("single:{strip}") } else { format!("raid0:{disks}x{strip}") };
        let array: ArraySpec = text.parse().expect("an array");
        let blocks = 64 + 16 * draw.below(4);
        // A file may end within a strip, and within a block.
        let tail = if over { draw.pick(&[0, 0, 512, 1536, 3 * BLOCK_BYTES + 1024]) } else { 0 };
        let sizes =
            if over { vec![blocks * BLOCK_BYTES + tail] } else { vec![blocks / 32 * 16 * BLOCK_BYTES; 2] };
        let scheme = draw.index(SCHEMES.len());
        Self { array, sizes, over, redundant: None, cache_blocks: draw.pick(&[32, 48, 64]), scheme }
    }

    /// Over an array with redundancy.
    pub(super) fn over_array(draw: &mut Draw, array: Array) -> Self {
        let scheme = draw.index(SCHEMES.len());
        Self {
            array: *array.spec(),
            sizes: Vec::new(),
            over: true,
            redundant: Some(array),
            cache_blocks: draw.pick(&[32, 48, 64]),
            scheme,
        }
    }

    /// That array, if it is one.
    pub(super) const fn redundant(&self) -> Option<Array> {
        self.redundant
    }

    /// The members, as they would have been opened.
    pub(super) fn source(&self, weather: &Weather) -> Source {
        if let Some(array) = &self.redundant {
            return Source::simulated_before(array).expect("it fits");
        }
        let no_flush = weather.no_flush;
        Source::simulated(self.array, &self.sizes, self.over, weather.far, no_flush).expect("it fits")
    }

    /// What the engine is made of.
    pub(super) fn spec(&self) -> EngineSpec {
        SPECS[self.scheme].clone().with_cache(self.cache_blocks)
    }

    /// The same with another scheme.
    pub(super) fn other_spec(&mut self, draw: &mut Draw) -> EngineSpec {
        self.scheme = draw.index(SCHEMES.len());
        self.spec()
    }

    pub(super) const fn cache_blocks(&self) -> u64 {
        self.cache_blocks
    }
}

/// Where the grains of a volume lie on its members, and back.
#[derive(Debug)]
pub(super) struct Places {
    /// First grain of each member, and the end of the last.
    pub(super) firsts: Vec<usize>,
    /// Grain of the members by grain of the volume.
    pub(super) there: Vec<usize>,
    /// And back.
    pub(super) home: Vec<u32>,
    pub(super) stripe_blocks: usize,
}

impl Places {
    pub(super) fn of(source: &Source) -> Self {
        let mut firsts = vec![0];
        for member in &source.members {
            firsts.push(firsts[firsts.len() - 1] + member.size as usize / GRAIN);
        }
        let grains = source.size as usize / GRAIN;
        let mut home = vec![0; firsts[firsts.len() - 1]];
        let mut there = Vec::with_capacity(grains);
        for grain in 0..grains {
            let (disk, at) = source.array.locate(Block((grain / BLOCK_GRAINS) as u64));
            let place = source.place(disk, Extent { start: at, blocks: 1 });
            let at = firsts[place.member] + place.offset as usize / GRAIN + grain % BLOCK_GRAINS;
            home[at] = grain as u32;
            there.push(at);
        }
        let stripe = source.array.stripe_extent(source.array.stripe_of(Block(0)));
        Self { firsts, there, home, stripe_blocks: stripe.blocks as usize }
    }
}
