//! What the daemon is told on this kernel: of windows and misses, of what is loaded, or only of programs that are started.

use crate::frames::Frames;
use crate::outcome::RecordError;
use crate::reads::ReadPoints;
use crate::record::unsupported;
use crate::session;
use crate::tracefs::TracefsError;

/// What a kernel tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Where the kernel reads ahead and what is missed, and programs that are started (Linux 6.18).
    Reads,
    /// What is loaded, which tells of misses but not of windows, and programs that are started (before Linux 6.18).
    Loads,
    /// Programs that are started, and nothing else: those that are known are read ahead of, and nobody is helped without a history.
    Programs,
}

/// The tracepoints of this machine: those that tell of reads, or of what is loaded; where the kernel has none of them and `programs` are of use, of programs.
pub(crate) fn points(programs: bool, followed: bool) -> Result<(ReadPoints, Sees), RecordError> {
    match ReadPoints::load(followed) {
        Ok(points) => return Ok((points, Sees::Reads)),
        Err(TracefsError::NoEvent { .. }) => {}
        Err(error) => return Err(needs(unsupported(error))),
    }
    match ReadPoints::by_loads(followed) {
        // Without touches memory has to be asked, or nobody knows where a reader is that misses nothing.
        Ok(points) if points.touches || Frames::open().is_ok() => Ok((points, Sees::Loads)),
        Ok(_) | Err(TracefsError::NoEvent { .. }) if programs => {
            Ok((ReadPoints::of_programs().map_err(unsupported)?, Sees::Programs))
        }
        Ok(_) => Err(RecordError::Unsupported {
            what: "this kernel tells of no touches, and /proc/kpageflags is not to be read".into(),
            remedy: "run as root, or without --scheme, which does for programs that are known".into(),
        }),
        Err(error) => Err(needs(unsupported(error))),
    }
}

/// The same refusal, with the kernel that has what is missing.
fn needs(error: RecordError) -> RecordError {
    match error {
        RecordError::Unsupported { what, .. } if what.contains("filemap/") => RecordError::Unsupported {
            what,
            remedy: "use a kernel with it; without --scheme others do for programs that are known".into(),
        },
        other => other,
    }
}

/// What [`crate::daemon::run`] would see with this kernel, and as this user.
///
/// # Errors
/// What is missing, as that says it.
pub fn would_see() -> Result<Sees, RecordError> {
    let (points, sees) = points(true, true)?;
    session::probe_everybody(&points.ids).map(|()| sees)
}
