//! The door of the simulator: an input and a spec go in, a report comes out.

use crate::clairvoyant;
use crate::error::RunError;
use crate::input::Input;
use crate::own::Own;
use crate::progress::Progress;
use crate::report::RunReport;
use crate::spec::RunSpec;
use forerun_core::units::{BLOCK_BYTES, Extent};
use forerun_trace::ReadOptions;

/// The numbers that the scheme of `spec` chooses on its hardware, with so many streams at once, and the arithmetic.
///
/// # Errors
/// See [`RunError`]: what does not fit is refused as in a run.
pub fn explain(spec: &RunSpec, streams: u64) -> Result<Vec<forerun_core::registry::Explained>, RunError> {
    crate::host::explain(spec, streams)
}

/// Whether the parts of a spec fit together, as far as that can be known without its input.
///
/// # Errors
/// See [`RunError`].
pub fn check(spec: &RunSpec) -> Result<(), RunError> {
    crate::host::hardware(spec).map(drop)
}

/// Runs `spec` over a loaded input to its end in virtual time. `progress` is told now and then, and asked nothing.
/// The clairvoyant rows (`bound`, `oracle`) are runs like any other.
///
/// A debug build also asserts that no run is faster than its [`clairvoyant::bound`].
///
/// # Errors
/// See [`RunError`].
pub fn run(
    input: &Input,
    spec: &RunSpec,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    let report = match spec.scheme.beside() {
        Some("bound") => return clairvoyant::bound(input, spec),
        Some(_) => clairvoyant::run_oracle(input, spec, progress)?,
        None => crate::host::run(input, spec, progress)?,
    };
    if cfg!(debug_assertions) {
        let bound = clairvoyant::bound(input, spec)?;
        clairvoyant::assert_bound(&[bound, report.clone()]);
    }
    Ok(report)
}

/// [`run`] of a scheme that begins with what was learned before, and what it has learned in the end: runs of blocks in the
/// order in which they are read.
///
/// # Errors
/// See [`RunError`]; a scheme that learns nothing is refused.
pub fn run_learned(
    input: &Input,
    spec: &RunSpec,
    before: &[Extent],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(RunReport, Vec<Extent>), RunError> {
    let (report, after) = crate::host::run_learned(input, spec, before, progress)?;
    let Some(after) = after else {
        let why = format!("{} learns nothing; name a scheme with recall", spec.scheme.text());
        return Err(RunError::Spec { field: "scheme", why });
    };
    Ok((report, after))
}

/// [`run`] under a policy of the caller's making, in one layer; the other has none. The spec's scheme is
/// [its name](Own::scheme).
///
/// # Errors
/// See [`RunError`].
pub fn run_own(
    input: &Input,
    spec: &RunSpec,
    own: &Own,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<RunReport, RunError> {
    crate::host::run_own(input, spec, own, progress)
}

/// Bytes that the programs of a spec can address.
///
/// # Errors
/// See [`RunError`].
pub fn volume_bytes(spec: &RunSpec) -> Result<u64, RunError> {
    Ok(crate::host::hardware(spec)?.array.capacity_blocks() * BLOCK_BYTES)
}

/// Loads the input that a spec names, checks that it is the one that the spec was written for, and runs it.
///
/// # Errors
/// See [`RunError`]; an input that has changed since is an error that names both hashes.
pub fn run_spec(spec: &RunSpec, progress: &(dyn Fn(Progress) + Sync)) -> Result<RunReport, RunError> {
    let input = load(spec)?;
    run(&input, spec, progress)
}

/// Loads the input of a spec.
///
/// # Errors
/// See [`RunError`].
pub fn load(spec: &RunSpec) -> Result<Input, RunError> {
    let options = ReadOptions { skip_bad: spec.skip_bad, ..ReadOptions::default() };
    let input = Input::load(&spec.input, &options)?;
    if !spec.input_hash.is_empty() && spec.input_hash != input.hash {
        let why = format!(
            "its content has changed: the spec was written for {}, this is {}; remove input_hash to run it all the same",
            spec.input_hash, input.hash
        );
        return Err(RunError::Input { input: spec.input.clone(), why });
    }
    Ok(input)
}
