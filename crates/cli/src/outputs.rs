//! Files that commands write: asked about before any work is done, so that none is written over what it is made of.

use crate::error::CliError;
use std::path::{Path, PathBuf};

/// Refuses outputs (option and path, `-` and none being no file) that are files that are read, block devices, or each other.
pub(crate) fn check(outputs: &[(&'static str, Option<&Path>)], read: &[PathBuf]) -> Result<(), CliError> {
    let files: Vec<_> = outputs
        .iter()
        .filter_map(|&(option, path)| Some((option, path?)))
        .filter(|(_, path)| path.as_os_str() != "-")
        .collect();
    forerun_serve::output::check(&files, read).map_err(|problem| CliError::usage("", problem, ""))
}

/// Writes a text to a file that was checked.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|problem| CliError::file(path, &problem))
}
