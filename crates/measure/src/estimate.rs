//! From what was seen to a preset: what turns is a drive with platters, all else a volume or a flash drive.

use crate::found::Estimate;
use crate::probes::Probed;
use crate::{flat, platters};
use forerun_disk::preset::PresetError;

/// The model that fits best.
///
/// # Errors
/// [`PresetError`] where what was seen makes no device at all.
pub fn estimate(seen: &Probed) -> Result<Estimate, PresetError> {
    let estimate = match seen.turn {
        Some(turn) => platters::estimate(seen, turn),
        None => flat::estimate(seen),
    };
    // One that cannot be built is an error here, not in the next run.
    crate::fit::candidate(estimate.spec.clone()).build(&Default::default())?;
    Ok(estimate)
}
