//! `--learn` and `--manifest`: what a scheme has learned of a volume, kept in a manifest for the next run.
//!
//! The manifest has one export, which stands for the volume: another size is another volume, and is refused. How the file looks
//! says docs/manifest.md.

use crate::error::CliError;
use crate::outputs;
use forerun_core::units::Extent;
use forerun_manifest::{Export, Key, Manifest, Run, run};
use std::path::Path;

/// Name of the export that stands for a simulated volume.
const VOLUME: &str = "volume";

/// Runs of blocks in the order in which they are read, of a volume of so many bytes.
pub(crate) fn read(path: &Path, volume_bytes: u64) -> Result<Vec<Extent>, CliError> {
    let file = |problem: String, remedy: &str| {
        CliError::failure(&format!("--manifest {}", path.display()), format!("{problem}; {remedy}"))
    };
    let bytes = forerun_watch::store::bytes(path).map_err(|problem| CliError::file(path, &problem))?;
    let manifest = Manifest::decode(&bytes)
        .map_err(|problem| file(problem.to_string(), "write one with `forerun sim … --learn FILE`"))?;
    let Some(export) = manifest.exports.iter().find(|export| export.name == VOLUME) else {
        return Err(file("it says nothing of a volume".into(), "it was made by something else than --learn"));
    };
    if export.bytes != volume_bytes {
        let problem =
            format!("it was learned on a volume of {} bytes, this one has {volume_bytes}", export.bytes);
        return Err(file(problem, "use the array and device that it was learned on"));
    }
    let mut runs = export.runs.clone();
    runs.sort_by_key(|run| run.rank);
    Ok(runs.iter().map(|run| Extent::new(run.first, run.pages)).collect())
}

/// Writes what was learned of a volume of so many bytes.
pub(crate) fn write(path: &Path, volume_bytes: u64, way: &[Extent]) -> Result<(), CliError> {
    let ranked = way.iter().zip(0_u32..);
    let runs =
        ranked.map(|(extent, rank)| Run { first: extent.start.0, pages: extent.blocks, rank, seen: 1 });
    let mut manifest = Manifest::new(Key::Named { kind: "export".into(), name: VOLUME.into() });
    manifest.exports.push(Export {
        name: VOLUME.into(),
        bytes: volume_bytes,
        runs: run::in_order(runs.collect()),
        ..Export::default()
    });
    manifest.recordings = 1;
    manifest.tidy();
    outputs::write(path, manifest.encode())
}
