//! Policies from outside: a run whose policy no registry knows.
//!
//! A caller that has a policy of its own, in another language or in a test, names it and says how it is made; it runs in one
//! layer as the registry's do, with that layer's usual retention and budgets.

use crate::said::Said;
use forerun_core::policy::Policy;
use forerun_core::registry::{BuiltLayer, Layer, LayerShape, SchemeSpec};
use std::fmt;
use std::sync::Arc;

/// How a policy of the caller's is made, for a layer of this shape: once for each run.
pub type Make = Arc<dyn Fn(&LayerShape) -> Box<dyn Policy> + Send + Sync>;

/// A policy of the caller's.
#[derive(Clone)]
pub struct Own {
    /// What reports call it.
    pub name: String,
    /// The layer that it works in: the page cache or the array's.
    pub layer: Layer,
    /// How it is made.
    pub make: Make,
    /// Most commands outstanding at one disk, of both layers and prefetches too; none is the usual depth.
    pub in_flight: Option<u32>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the layer {}", self.name, self.layer.name())
    }
}

impl Own {
    /// As the scheme of a spec: a name that is no scheme of the registry, over layers that do not read ahead.
    #[must_use]
    pub fn scheme(&self) -> Said<SchemeSpec> {
        Said::named(&self.name, SchemeSpec::clone(&Said::of("none")))
    }

    /// Its layer.
    pub(crate) fn built(&self, shape: &LayerShape) -> BuiltLayer {
        BuiltLayer::under((self.make)(shape), self.layer, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::spec::RunSpec;
    use forerun_core::access::{Access, Lookup};
    use forerun_core::policy::{Plan, When, World};
    use forerun_core::units::Extent;
    use forerun_trace::ReadOptions;

    /// Reads so many blocks on behind every read.
    struct Next(u64);

    impl Policy for Next {
        fn on_access(&mut self, access: &Access, _: &Lookup<'_>, _: &World<'_>, plan: &mut Plan) {
            plan.fetch(Extent::new(access.extent.end(), self.0), When::Ahead);
        }
    }

    #[test]
    fn a_policy_from_outside_runs_in_its_layer_under_its_name() {
        let input = Input::load("forward:size=4MiB", &ReadOptions::default()).expect("a workload");
        for (layer, caches) in [(Layer::Host, (0, 16 << 20)), (Layer::Array, (16 << 20, 0))] {
            let own =
                Own { name: "next-8".into(), layer, make: Arc::new(|_| Box::new(Next(8))), in_flight: None };
            let (cache_bytes, host_cache_bytes) = caches;
            let spec = RunSpec { scheme: own.scheme(), cache_bytes, host_cache_bytes, ..RunSpec::default() };
            let run = crate::run::run_own(&input, &spec, &own, &|_| {}).expect("it runs");
            let none = RunSpec { scheme: Said::of("none"), ..spec };
            let none = crate::run::run(&input, &none, &|_| {}).expect("it runs");
            assert_eq!((run.scheme.as_str(), none.counts.prefetched_blocks), ("next-8", 0));
            assert!(run.counts.prefetched_used > 0, "{layer:?}: {:?}", run.counts);
        }
    }

    /// Wishes for so many places ahead of every read, far from each other.
    struct Far(u64);

    impl Policy for Far {
        fn on_access(&mut self, access: &Access, _: &Lookup<'_>, _: &World<'_>, plan: &mut Plan) {
            let place = |n: u64| Extent::new(access.extent.start.0 + n * 64, 1);
            (1..=self.0).for_each(|n| plan.fetch(place(n), When::Ahead));
        }
    }

    #[test]
    fn a_policy_that_says_so_has_more_in_flight_than_a_disk_takes() {
        let input = Input::load("stride:size=256MiB,stride=64,wrap=false", &ReadOptions::default());
        let input = input.expect("a workload");
        let elapsed = |in_flight| {
            let make: Make = Arc::new(|_| Box::new(Far(64)));
            let own = Own { name: "far".into(), layer: Layer::Host, make, in_flight };
            let device = Said::of("object-store");
            let spec =
                RunSpec { scheme: own.scheme(), host_cache_bytes: 64 << 20, device, ..RunSpec::default() };
            crate::run::run_own(&input, &spec, &own, &|_| {}).expect("it runs").elapsed_ns
        };
        let (few, many) = (elapsed(None), elapsed(Some(256)));
        assert!(few > 2 * many, "{few} ns with 16 in flight, {many} with 256");
    }
}
