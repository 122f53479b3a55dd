//! What there is to choose from: schemes and device presets, as plain data. Nothing is known here that the registry and the
//! presets do not say.

use crate::error::StudyError;
use forerun_core::registry::{ROWS, Row};
use forerun_disk::preset::{BuildOptions, Preset};
use serde::Serialize;

/// All schemes.
#[derive(Debug, Serialize)]
pub struct Schemes {
    /// In the registry's order.
    pub schemes: Vec<Scheme>,
}

/// A scheme.
#[derive(Debug, Serialize)]
pub struct Scheme {
    name: &'static str,
    layer: &'static str,
    about: &'static str,
    source: &'static str,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Serialize)]
struct Parameter {
    name: &'static str,
    unit: &'static str,
    default: String,
    /// The least and the greatest value, where it has bounds beside those of its unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<(String, String)>,
    about: &'static str,
}

/// The registry.
#[must_use]
pub fn schemes() -> Schemes {
    Schemes { schemes: ROWS.iter().map(|row| scheme(row)).collect() }
}

fn scheme(row: &Row) -> Scheme {
    Scheme {
        name: row.name,
        layer: row.layer.name(),
        about: row.about,
        source: row.source,
        parameters: row
            .params
            .iter()
            .map(|param| Parameter {
                name: param.name,
                unit: param.unit.name(),
                default: param.default.to_string(),
                bounds: param.bounds.map(|(least, most)| (least.to_string(), most.to_string())),
                about: param.about,
            })
            .collect(),
    }
}

/// All presets.
#[derive(Debug, Serialize)]
pub struct Devices {
    /// In the order in which they are listed.
    pub devices: Vec<Device>,
}

/// A preset.
#[derive(Debug, Serialize)]
pub struct Device {
    /// As `--device` takes it.
    pub name: String,
    /// One sentence.
    pub about: String,
    sources: Vec<String>,
    /// Capacity.
    pub bytes: u64,
}

/// The presets.
///
/// # Errors
/// [`StudyError`] for a preset that cannot be built, which would be a mistake of ours.
pub fn devices() -> Result<Devices, StudyError> {
    let device = |name: &str| {
        let preset = Preset::load(name).map_err(|problem| StudyError::usage("", problem, ""))?;
        let device = preset
            .build(&BuildOptions::default())
            .map_err(|problem| StudyError::failure("device", problem))?;
        Ok(Device {
            name: name.to_owned(),
            about: preset.about().to_owned(),
            sources: preset.sources().to_vec(),
            bytes: device.sectors() * 512,
        })
    };
    Ok(Devices { devices: Preset::names().map(device).collect::<Result<_, StudyError>>()? })
}
