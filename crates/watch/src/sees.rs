//! What the daemon is told on this kernel: of windows and misses, of what is loaded, or only of programs that are started.

use crate::frames::Frames;
use crate::outcome::RecordError;
use crate::probes::Probes;
use crate::reads::ReadPoints;
use crate::record::unsupported;
use crate::session;
use crate::tracefs::TracefsError;
use std::io;

/// What a kernel tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Where the kernel reads ahead and what is missed, and programs that are started (Linux 6.18; before that by programs in the kernel).
    Reads,
    /// What is loaded, which tells of misses but not of windows, and programs that are started (where there are neither).
    Loads,
    /// Programs that are started, and nothing else: those that are known are read ahead of, and nobody is helped without a history.
    Programs,
}

/// What tells the daemon of reads on this machine.
pub(crate) struct Eyes {
    pub(crate) points: ReadPoints,
    /// Programs in the kernel, in the place of tracepoints that it has not.
    pub(crate) probes: Option<Probes>,
    pub(crate) sees: Sees,
}

/// Those of this machine: tracepoints that tell of reads, programs in the kernel that do (`bpf`), or tracepoints of what is loaded; where the kernel has none of
/// them and `programs` are of use, of programs. Touches as events only if they are to be `followed` so.
pub(crate) fn eyes(programs: bool, followed: bool, bpf: bool) -> Result<Eyes, RecordError> {
    match ReadPoints::load(followed) {
        Ok(points) => return Ok(Eyes { points, probes: None, sees: Sees::Reads }),
        Err(TracefsError::NoEvent { .. }) => {}
        Err(error) => return Err(needs(unsupported(error))),
    }
    if let Some(eyes) = bpf.then(|| by_probes(followed)).and_then(Result::ok) {
        return Ok(eyes);
    }
    let eyes = |points, sees| Eyes { points, probes: None, sees };
    match ReadPoints::by_loads(followed) {
        // Without touches memory has to be asked, or nobody knows where a reader is that misses nothing.
        Ok(points) if points.touches || Frames::open().is_ok() => Ok(eyes(points, Sees::Loads)),
        Ok(_) | Err(TracefsError::NoEvent { .. }) if programs => {
            Ok(eyes(ReadPoints::of_programs().map_err(unsupported)?, Sees::Programs))
        }
        Ok(_) => Err(RecordError::Unsupported {
            what: "this kernel tells of no touches, and /proc/kpageflags is not to be read".into(),
            remedy: "run as root, or without --scheme, which does for programs that are known".into(),
        }),
        Err(error) => Err(needs(unsupported(error))),
    }
}

/// By programs in the kernel in the place of the tracepoints of read-ahead.
///
/// # Errors
/// What the system said; [`io::ErrorKind::Unsupported`] where too little would be seen so.
pub(crate) fn by_probes(followed: bool) -> io::Result<Eyes> {
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    // Who does without these tracepoints is to see what such a kernel tells by itself.
    if ReadPoints::is_without() {
        return Err(unsupported());
    }
    let probes = Probes::new(!ReadPoints::tells_faults())?;
    let points = ReadPoints::by_probes(followed, probes.tells_faults()).map_err(io::Error::other)?;
    let seen = !followed || points.touches || Frames::open().is_ok();
    seen.then_some(Eyes { points, probes: Some(probes), sees: Sees::Reads }).ok_or_else(unsupported)
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
    let Eyes { points, sees, .. } = eyes(true, true, true)?;
    session::probe_everybody(&points.ids).map(|()| sees)
}
