//! Fig. 8c as core nanoseconds per access: the engine alone, without disks, by the caller's clock.
//!
//! The array's engine reads random blocks of a 1 GiB workspace; every command that it starts is answered at once,
//! so that what passes on the clock is the engine's work: look-up, scheme, retention, bookkeeping. The first
//! accesses fill the cache and are not counted. No two runs measure the same, so the result has a field of its own.

use crate::setup::Scale;
use crate::{ReproduceError, Row};
use forerun_core::access::{Access, Context};
use forerun_core::engine::{Engine, Input};
use forerun_core::spec::LayerSpec;
use forerun_core::units::{BLOCK_BYTES, Extent, Nanos};
use forerun_sim::host::{array_layer, hardware};
use forerun_sim::random::Rng;

/// What is measured.
pub(super) const SCHEMES: [&str; 4] = ["none", "strip", "asp", "asp+msp"];
/// Start of the cases of these rows; the scheme follows.
pub(super) const CASE: &str = "core nanoseconds per access, random reads of 4 KiB over 1 GiB: ";
/// Why there is no number.
pub(super) const WITHOUT_CLOCK: &str =
    "measured only where the caller has a clock (field measured_ns_per_access)";
/// The workspace, in blocks.
const WORKSPACE: u64 = (1 << 30) / BLOCK_BYTES;
/// Accesses that fill the cache, and accesses that count.
const ACCESSES: u64 = 400_000;

/// Fills the measured field of the rows of Fig. 8c.
pub(super) fn measure(rows: &mut [Row], clock: fn() -> u64, quick: bool) -> Result<(), ReproduceError> {
    let scale = Scale { quick };
    for row in rows.iter_mut().filter(|row| row.figure == "8c") {
        let Some(scheme) = row.case.strip_prefix(CASE) else { continue };
        let setup = scale.setup("random", scheme);
        let wrong = |error| ReproduceError::Run { case: row.case.clone(), error };
        let hardware = hardware(&setup.spec).map_err(wrong)?;
        let cache_blocks = setup.spec.cache_bytes / BLOCK_BYTES;
        let layer =
            LayerSpec { ahead_blocks_max: Some(cache_blocks / 4), ..array_layer(&hardware, &setup.spec) };
        let mut engine = layer.build().expect("the setups of the paper fit");
        let accesses = scale.of(ACCESSES);
        let mut rng = Rng::new(1);
        read(&mut engine, &mut rng, accesses);
        let start = clock();
        read(&mut engine, &mut rng, accesses);
        let took = clock().saturating_sub(start);
        row.measured_ns_per_access = Some(took as f64 / accesses as f64);
        row.why = "the array's engine alone, no disks, on one core; see measured_ns_per_access".into();
    }
    Ok(())
}

/// Reads random blocks; every command is answered at once.
fn read(engine: &mut Engine, rng: &mut Rng, accesses: u64) {
    for id in 0..accesses {
        let now = Nanos(id);
        let extent = Extent::new(rng.below(WORKSPACE), 1);
        engine.handle(now, Input::Read { id, access: Access::read(Context(0), extent) });
        engine.settle(now, |_| {});
    }
}
