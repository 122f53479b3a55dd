//! How far a candidate is from what was seen: its own probes beside the device's.

use crate::probes::{Point, Probe, run_plan};
use crate::simulated::Simulated;
use forerun_disk::preset::{Preset, PresetSpec};

/// A candidate under a name of no meaning.
pub(crate) fn candidate(spec: PresetSpec) -> Preset {
    Preset { name: "candidate".into(), spec }
}

/// Mean distance of the logarithms of the rates: 0.1 is about 10% a row. A model that cannot be built is infinitely far.
pub(crate) fn distance(preset: &Preset, plan: &[Probe], seen: &[Point]) -> f64 {
    let Ok(mut model) = Simulated::new(preset, 3) else { return f64::INFINITY };
    let Ok((points, _)) = run_plan(&mut model, plan, &mut |_, _| {}) else { return f64::INFINITY };
    apart(&points, seen)
}

fn apart(points: &[Point], seen: &[Point]) -> f64 {
    let mut sum = 0.0;
    let mut count = 0;
    for point in points {
        if let Some(other) = seen.iter().find(|other| other.name == point.name) {
            sum += (point.per_s.max(1e-9) / other.per_s.max(1e-9)).ln().abs();
            count += 1;
        }
    }
    if count == 0 { f64::INFINITY } else { sum / f64::from(count) }
}
