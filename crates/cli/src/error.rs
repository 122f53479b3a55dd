//! What can go wrong on a command line, and the exit code that says which kind it was.
//!
//! Every error is one line: `forerun: <place>: <what> (<remedy>)`. The libraries' errors already name place and
//! remedy, so most are wrapped as they are; the kind decides the exit code and nothing else.

use forerun_study::human;
use forerun_watch::outcome::RecordError;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;

/// Which family of trouble: one exit code each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something that should have worked did not: 1.
    Failure,
    /// The command line or a spec asks for what does not exist or does not fit: 2.
    Usage,
    /// A threshold of `--fail-if` was met, or a check found something: 3.
    Finding,
    /// The kernel lacks a feature or the user a privilege: 4.
    Unsupported,
    /// Whoever read our output has gone; not worth a word.
    ClosedPipe,
    /// All is said on stdout already; the code alone tells a monitor.
    Told(u8),
    /// A command that we ran for the user could not be started: 126 and 127.
    Command(u8),
    /// A signal ended our work before all was done: 128 + its number.
    Interrupted(u8),
    /// The user's command failed: its own status, 128 + N where signal N ended it. It has said why, so to `--quiet` nothing is added.
    Ended(u8),
}

/// One line for a person, one code for a script.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CliError {
    kind: Kind,
    message: String,
}

impl CliError {
    /// `place: what (remedy)`; an empty remedy is left out, and so is an empty place.
    pub(crate) fn new(kind: Kind, place: &str, what: impl std::fmt::Display, remedy: &str) -> Self {
        let mut message = if place.is_empty() { what.to_string() } else { format!("{place}: {what}") };
        if !remedy.is_empty() {
            message.push_str(&format!(" ({remedy})"));
        }
        let message = human::plain(&message.replace('\n', " ")).into_owned();
        Self { kind, message }
    }
    /// Something that should have worked did not.
    pub(crate) fn failure(place: &str, what: impl std::fmt::Display) -> Self {
        Self::new(Kind::Failure, place, what, "")
    }
    /// The words do not fit.
    pub(crate) fn usage(place: &str, what: impl std::fmt::Display, remedy: &str) -> Self {
        Self::new(Kind::Usage, place, what, remedy)
    }
    /// A command that we ran for the user ended like this; fine if it says so.
    pub(crate) fn command(place: &str, status: ExitStatus) -> Result<(), Self> {
        let code = match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(()),
            (Some(code), _) => code,
            (None, signal) => 128 + signal.unwrap_or(0),
        };
        let kind = u8::try_from(code).map_or(Kind::Failure, Kind::Ended);
        Err(Self::new(kind, place, format!("the command failed: {status}"), ""))
    }
    /// A signal cut our own work off; the exit code is as of who dies of it.
    pub(crate) fn interrupted(place: &str, remedy: &str) -> Self {
        let signal = forerun_watch::signals::came().unwrap_or(rustix::process::Signal::TERM);
        let name = match signal {
            rustix::process::Signal::INT => "SIGINT",
            rustix::process::Signal::HUP => "SIGHUP",
            _ => "SIGTERM",
        };
        let kind = u8::try_from(128 + signal.as_raw()).map_or(Kind::Failure, Kind::Interrupted);
        Self::new(kind, place, format!("cut off by {name} before all was loaded"), remedy)
    }
    /// A recording did not come about. That a command could not be started has the codes that shells, env(1) and timeout(1) give it.
    pub(crate) fn recording(place: &str, problem: RecordError) -> Self {
        let kind = match &problem {
            RecordError::Unsupported { .. } => Kind::Unsupported,
            RecordError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Kind::Command(127)
            }
            RecordError::Start { .. } => Kind::Command(126),
            _ => Kind::Failure,
        };
        Self::new(kind, place, problem, "")
    }
    /// A file could not be read or written.
    pub(crate) fn file(path: &Path, problem: &std::io::Error) -> Self {
        Self::failure(&path.display().to_string(), problem)
    }
    /// The exit code of this kind.
    pub(crate) const fn code(&self) -> u8 {
        match self.kind {
            Kind::ClosedPipe => 0,
            Kind::Failure => 1,
            Kind::Usage => 2,
            Kind::Finding => 3,
            Kind::Unsupported => 4,
            Kind::Command(code) | Kind::Interrupted(code) | Kind::Ended(code) | Kind::Told(code) => code,
        }
    }
    /// Whether there is nothing to say on stderr: the reader of stdout has gone (`forerun … | head`), or was told there.
    pub(crate) const fn is_silent(&self) -> bool {
        matches!(self.kind, Kind::ClosedPipe | Kind::Told(_))
    }
    /// Whether it is that the user's own command failed.
    pub(crate) const fn is_of_command(&self) -> bool {
        matches!(self.kind, Kind::Ended(_))
    }
}

/// An I/O error on stdout.
impl From<std::io::Error> for CliError {
    fn from(problem: std::io::Error) -> Self {
        let kind = match problem.kind() {
            std::io::ErrorKind::BrokenPipe => Kind::ClosedPipe,
            _ => Kind::Failure,
        };
        Self::new(kind, "output", problem, "")
    }
}

impl From<forerun_sim::error::RunError> for CliError {
    fn from(problem: forerun_sim::error::RunError) -> Self {
        use forerun_sim::error::RunError;
        let kind = match problem {
            RunError::Spec { .. } => Kind::Usage,
            RunError::Input { .. } => Kind::Failure,
        };
        Self::new(kind, "", problem, "")
    }
}

impl From<forerun_study::StudyError> for CliError {
    fn from(problem: forerun_study::StudyError) -> Self {
        use forerun_study::Fault;
        let kind = match problem.fault {
            Fault::Words => Kind::Usage,
            Fault::Input | Fault::Failure | Fault::Own | Fault::Stopped => Kind::Failure,
        };
        Self::new(kind, "", problem, "")
    }
}
