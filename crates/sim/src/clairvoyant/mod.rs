//! The two clairvoyant lines of every comparison: `bound`, which no scheme can beat, and `oracle`, which one may.
//!
//! Both know what the programs are going to read. `bound` ([`mod@bound`]) asks only how little time that can take: the
//! programs' own computing, or the bare transfer of what Belady's MIN must load, whichever is longer; nothing is
//! simulated, so seeks, rotation and queueing cost it nothing. `oracle` ([`run_oracle`]) is a scheme like any other,
//! run by the same engine on the same devices, except that its policy has read the future: a first run without
//! prefetching records the order in which reads reach the layer that has the cache, a second one reads ahead in that
//! order as aggressively as memory allows. It says what prefetching could give here; a careful scheme may be better,
//! because the true optimum with seeks is out of reach (algorithms.md 7.12).

mod ahead;
mod bound;
mod future;
mod kept;
mod oracle;
mod record;
#[cfg(test)]
mod tests;

pub use bound::{assert_bound, bound};

use crate::error::RunError;
use crate::host::{self, Layers};
use crate::input::Input;
use crate::progress::Progress;
use crate::report::RunReport;
use crate::spec::RunSpec;
use forerun_core::registry::BuiltLayer;
use forerun_core::scheme::Scheme;
use future::Future;
use oracle::Oracle;
use record::{Log, Recorder};

/// Runs `spec` under aggressive clairvoyant prefetching, after a run without any that tells it the future.
///
/// It works in the array layer, or in the host layer where only that has a cache; where no layer has one there is
/// nothing to prefetch into, and the row equals `none`. `progress` is told of the second run only.
///
/// # Errors
/// See [`RunError`].
pub fn run_oracle(
    input: &Input,
    spec: &RunSpec,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    let hardware = host::hardware(spec)?;
    // `oracle` names no part of either layer: both are those of `none`.
    let plain = || Layers::new(&hardware, spec);
    let in_array = spec.cache_bytes > 0;
    if !in_array && spec.host_cache_bytes == 0 {
        return host::run_layers(input, spec, &hardware, plain(), progress);
    }
    let log = Log::default();
    let listening = replaced(plain(), in_array, |built| {
        let scheme = Scheme::of(Recorder::around(built.scheme, &log));
        BuiltLayer { scheme, ..built }
    });
    host::run_layers(input, spec, &hardware, listening, &|_| {})?;
    let future = Future::of(&log.take());
    let layer = if in_array { host::array_layer(&hardware, spec) } else { host::host_layer(&hardware, spec) };
    let oracle = Oracle::new(future, hardware.array, layer.cache_blocks);
    let knowing = replaced(plain(), in_array, |built| BuiltLayer {
        scheme: Scheme::of(oracle),
        line_blocks: 1,
        ..built
    });
    host::run_layers(input, spec, &hardware, knowing, progress)
}

/// `layers` with the array's one or the host's one changed.
fn replaced(layers: Layers, in_array: bool, change: impl FnOnce(BuiltLayer) -> BuiltLayer) -> Layers {
    let Layers { host, array } = layers;
    if in_array { Layers { host, array: change(array) } } else { Layers { host: change(host), array } }
}
