//! What a device was found to be: a preset, what stands behind each number, and what could not be told.

use forerun_disk::preset::{Preset, PresetError, PresetSpec};
use serde::Serialize;
use std::fmt::Write as _;

/// A number with its 95% interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Value {
    /// What it is.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// What a device was found to be.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// The model.
    pub spec: PresetSpec,
    /// What kind of device, in words.
    pub what: &'static str,
    /// Mean distance between its probes and the model's, as logarithm: 0.05 is about 5%.
    pub distance: f64,
    /// Numbers with intervals.
    pub values: Vec<Value>,
    /// What could not be told.
    pub unknown: Vec<String>,
}

impl Estimate {
    /// The preset as a file, under `name`: its head says how it was found and what is not known.
    ///
    /// # Errors
    /// [`PresetError`] if it cannot be written as TOML.
    pub fn to_toml(&self, about: &str, source: &str) -> Result<String, PresetError> {
        let mut spec = self.spec.clone();
        match &mut spec {
            PresetSpec::Mechanical { about: a, sources: s, .. }
            | PresetSpec::Ssd { about: a, sources: s, .. }
            | PresetSpec::Cloud { about: a, sources: s, .. } => {
                (*a, *s) = (about.to_owned(), vec![source.to_owned()]);
            }
        }
        let mut text = String::from("# Measured with `forerun device measure`, read-only. 95% intervals:\n");
        for value in &self.values {
            let Value { name, value, low, high, unit } = value;
            let places = usize::from(*value < 1_000.0) + usize::from(*value < 10.0);
            let _ = writeln!(text, "#   {name}: {value:.places$} {unit} ({low:.places$} to {high:.places$})");
        }
        let _ = writeln!(
            text,
            "# The model's own probes differ from the device's by {:.1}% on average. Not told apart:",
            (self.distance.exp() - 1.0) * 100.0
        );
        for line in &self.unknown {
            let _ = writeln!(text, "#   {line}");
        }
        Ok(text + &Preset { name: "measured".into(), spec }.to_toml()?)
    }
}
