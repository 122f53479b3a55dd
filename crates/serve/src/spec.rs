//! What an engine of this host is made from: enough to make the same one again, when a log of its inputs is replayed or its
//! scheme is changed, and the changes that there are.

use crate::error::ServeError;
use forerun_core::array::Array;
use forerun_core::cost::CostModel;
use forerun_core::engine::{Engine, Input};
use forerun_core::registry::{Layer, Role, SchemeSpec, check_split};
use forerun_core::share::Share;
use forerun_core::size::format_size;
use forerun_core::spec::LayerSpec;
use forerun_core::units::BLOCK_BYTES;
use forerun_disk::preset::Preset;

/// Smallest cache, bytes: 64 connections must each find room in it for a read (see `credit`).
pub(crate) const CACHE_BYTES_MIN: u64 = 16 << 20;
/// Largest cache, bytes: slots are numbered in 32 bits, beside staging and intake memory. 8 TiB.
pub(crate) const CACHE_BYTES_MAX: u64 = 8 << 40;

/// The engine of a volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EngineSpec {
    /// As in the scheme grammar.
    pub(crate) scheme: String,
    /// Budget of the cache, blocks.
    pub(crate) cache_blocks: u64,
    /// Preset whose costs the policies believe in.
    pub(crate) device: String,
    parsed: SchemeSpec,
    /// Another scheme beside it, for its share of clients or regions.
    beside: Option<Box<(SchemeSpec, Share)>>,
    layer: Layer,
    cost: CostModel,
    /// Blocks that may be read ahead at once; none is what the scheme and the cache say.
    ahead_blocks_max: Option<u64>,
}

impl EngineSpec {
    /// Checks scheme, device and cache.
    pub(crate) fn new(scheme: &str, cache_bytes: u64, device: &str) -> Result<Self, ServeError> {
        let parsed = SchemeSpec::parse(scheme).map_err(|why| ServeError::option("--scheme", why))?;
        if let Some(name) = parsed.beside() {
            let why = format!(
                "{name} knows what will be read, which nobody knows of clients: it is a line of `forerun compare`; \
                 `forerun schemes` lists those that can be served"
            );
            return Err(ServeError::option("--scheme", why));
        }
        let layer = layer_of(&parsed)?;
        if !(CACHE_BYTES_MIN..=CACHE_BYTES_MAX).contains(&cache_bytes) {
            let (least, most) = (format_size(CACHE_BYTES_MIN), format_size(CACHE_BYTES_MAX));
            return Err(ServeError::option("--cache", format!("a cache holds {least} to {most}")));
        }
        let preset = Preset::load(device).map_err(|why| ServeError::option("--device", why))?;
        let believed = preset.cost_params().map_err(|why| ServeError::option("--device", why))?;
        let cache_blocks = cache_bytes / BLOCK_BYTES;
        Ok(Self {
            scheme: scheme.into(),
            cache_blocks,
            device: device.into(),
            parsed,
            beside: None,
            layer,
            cost: believed.into(),
            ahead_blocks_max: None,
        })
    }

    /// The layer over `array`. A scheme of either layer works on the strips of the members here.
    fn layer(&self, array: Array) -> LayerSpec {
        LayerSpec {
            layer: self.layer,
            ahead_blocks_max: self.ahead_blocks_max,
            cost: self.cost,
            ..LayerSpec::array_cache(self.parsed.clone(), array, self.cache_blocks)
        }
    }

    /// Whether the scheme's values fit this cache and array.
    pub(crate) fn check(&self, array: &Array) -> Result<(), ServeError> {
        self.layer(*array).check().map_err(|why| ServeError::option("--scheme", why))
    }

    /// What gives an engine that was built of another spec, for the same cache and device, the scheme of this one.
    pub(crate) fn switch(&self) -> Input<'_> {
        match self.beside.as_deref() {
            None => Input::Switch { scheme: &self.parsed, layer: self.layer },
            Some((tried, share)) => {
                Input::Split { schemes: [&self.parsed, tried], layer: self.layer, share: *share }
            }
        }
    }

    /// The same with another scheme beside it, which has its share.
    pub(crate) fn split(&self, tried: &Self, share: Share, array: &Array) -> Result<Self, ServeError> {
        let decides = |spec: &Self| spec.parsed.parts().iter().any(|part| part.role() != Role::Neutral);
        let layer = if decides(self) { self.layer } else { tried.layer };
        check_split([&self.parsed, &tried.parsed], layer, &self.layer(*array).shape())
            .map_err(|why| ServeError::option("--scheme", why))?;
        Ok(Self {
            scheme: format!("{} | {} by {}", self.scheme, tried.scheme, by(share)),
            beside: Some(Box::new((tried.parsed.clone(), share))),
            layer,
            ..self.clone()
        })
    }

    /// Who is whose, where two schemes are tried side by side.
    pub(crate) fn share(&self) -> Option<Share> {
        self.beside.as_ref().map(|beside| beside.1)
    }

    /// Whether its parts are of the array layer.
    #[cfg(test)]
    pub(crate) fn is_array(&self) -> bool {
        self.layer == Layer::Array
    }

    /// The same with the cache and the beliefs of a page of `scenarios/`.
    #[cfg(test)]
    pub(crate) fn of_a_page(self, cache_blocks: u64) -> Self {
        Self { cache_blocks, cost: CostModel::default(), ahead_blocks_max: Some(cache_blocks), ..self }
    }

    /// The same with a cache of so few blocks that everything leaves it now and then.
    #[cfg(feature = "crash")]
    pub(crate) fn with_cache(self, cache_blocks: u64) -> Self {
        Self { cache_blocks, ..self }
    }

    /// The engine over `array`.
    pub(crate) fn build(&self, array: Array) -> Result<Engine, ServeError> {
        self.layer(array).build().map_err(|why| ServeError::option("--scheme", why))
    }
}

/// What is shared out, in a word.
pub(crate) const fn by(share: Share) -> &'static str {
    match share {
        Share::Clients { .. } => "clients",
        Share::Regions => "regions",
    }
}

/// What an operator may change while clients are served.
pub(crate) enum Change {
    /// Another scheme; everything else of the spec is as it was.
    Scheme(EngineSpec),
    /// Everything that can leave the cache leaves.
    Drop,
}

/// The layer whose parts a scheme has; a server has one cache, so it cannot have both.
fn layer_of(scheme: &SchemeSpec) -> Result<Layer, ServeError> {
    let has = |layer| scheme.of(layer).any(|part| part.row.name != "none");
    match (has(Layer::Host), has(Layer::Array)) {
        (true, true) => Err(ServeError::option(
            "--scheme",
            "a server has one cache: name parts of the array layer or of the host layer, not of both",
        )),
        (true, false) => Ok(Layer::Host),
        (false, _) => Ok(Layer::Array),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_of_either_layer_is_served_and_one_of_both_is_not() {
        for scheme in ["none", "asp+msp", "seqp:512K", "strip"] {
            assert!(EngineSpec::new(scheme, 64 << 20, "cheetah-15k4").is_ok(), "{scheme}");
        }
        let both = EngineSpec::new("asp+seqp:128K", 64 << 20, "cheetah-15k4").expect_err("two layers");
        assert!(both.to_string().contains("one cache"), "{both}");
    }

    #[test]
    fn schemes_that_keep_in_ways_of_their_own_or_choose_are_not_tried_side_by_side() {
        let spec = |scheme: &str| EngineSpec::new(scheme, 64 << 20, "cheetah-15k4").expect("a scheme");
        let array = Array::new("raid0:2x64KiB".parse().expect("a geometry"), 1 << 14).expect("strips");
        let both = |before: &str, tried: &str, share| spec(before).split(&spec(tried), share, &array);
        for (before, tried) in
            [("none", "strip"), ("linux-6", "none"), ("grain+msp", "none"), ("regions(linux-6)", "linux-6")]
        {
            let spec = both(before, tried, Share::Regions).expect("they share a cache");
            assert_eq!(spec.scheme, format!("{before} | {tried} by regions"));
        }
        for (before, tried, why) in [
            ("none", "asp", "asp decides itself what stays"),
            ("arc+strip", "none", "decides itself"),
            ("none", "cadence", "decides itself"),
            ("auto", "none", "auto chooses among schemes"),
            ("strip", "linux-6", "whole strips and the other blocks"),
        ] {
            let said = both(before, tried, Share::Clients { seed: 1 }).expect_err("refused").to_string();
            assert!(said.contains(why) && said.contains("in turns"), "{said}");
        }
    }

    #[test]
    fn lines_that_need_the_future_are_no_schemes_of_a_server() {
        for scheme in ["oracle", "bound"] {
            let why = EngineSpec::new(scheme, 64 << 20, "cheetah-15k4").expect_err(scheme).to_string();
            assert!(why.starts_with("--scheme: ") && why.contains("knows what will be read"), "{why}");
        }
    }

    #[test]
    fn sizes_and_devices_that_do_not_exist_are_refused_by_name() {
        assert!(EngineSpec::new("none", 1 << 20, "cheetah-15k4").is_err());
        let device = EngineSpec::new("none", 64 << 20, "floppy").expect_err("no such device");
        assert!(device.to_string().starts_with("--device"), "{device}");
    }
}
