//! What can go wrong before a server runs, and what ends it. Each message names the place and the remedy.

use crate::shown::shown;
use std::io;
use std::path::PathBuf;

/// Why a server does not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file could not be opened, measured or locked.
    #[error("{}: {source}{remedy}", shown(path))]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do, in brackets; may be empty.
        remedy: &'static str,
    },
    /// The options contradict each other or do not fit what they name.
    #[error("{option}: {why}")]
    Option {
        /// Which option.
        option: &'static str,
        /// What is wrong, and the remedy.
        why: String,
    },
    /// The kernel refused something that a server needs.
    #[error("{what}: {source}{}", remedy_of(source))]
    System {
        /// What.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The kernel lacks a feature, or the user a privilege.
    #[error("{what}: {why}")]
    Unsupported {
        /// The option that needs it.
        what: &'static str,
        /// What is missing, and the remedy.
        why: String,
    },
    /// A member has become something else while it was served.
    #[error("{why}: nothing was answered any more")]
    Changed {
        /// What has changed, with its name.
        why: String,
    },
    /// The replay of a log of inputs differs from it.
    #[error("{}: {why}", path.display())]
    Differs {
        /// Which.
        path: PathBuf,
        /// Where, and in what.
        why: String,
    },
    /// A log of inputs is not one.
    #[error("{}: {why}", path.display())]
    Log {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl ServeError {
    /// Whether the user asked for what does not fit, as against a failure of the system.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Option { .. })
    }
    /// Whether the machine cannot do what was asked.
    #[must_use]
    pub const fn is_unsupported(&self) -> bool {
        matches!(self, Self::Unsupported { .. })
    }
    /// Says which of several exports it is about.
    pub(crate) fn of_export(self, name: &str, count: usize) -> Self {
        match self {
            Self::Option { option, why } if count > 1 => {
                Self::Option { option, why: format!("{why} (export {name:?})") }
            }
            Self::File { path, source, remedy } if count > 1 => {
                let source = io::Error::new(source.kind(), format!("{source} (export {name:?})"));
                Self::File { path, source, remedy }
            }
            other => other,
        }
    }
    pub(crate) fn option(option: &'static str, why: impl ToString) -> Self {
        Self::Option { option, why: why.to_string() }
    }
    pub(crate) fn file(path: &std::path::Path, source: impl Into<io::Error>) -> Self {
        Self::File { path: path.into(), source: source.into(), remedy: "" }
    }
}

/// What to do where a limit of the process is in the way, in brackets; empty where none is.
pub(crate) fn remedy_of(problem: &io::Error) -> &'static str {
    match problem.raw_os_error() {
        Some(libc::EMFILE) => " (it may open more files after `ulimit -n`, or with LimitNOFILE= of its unit)",
        Some(libc::ENFILE) => " (the machine may open more files with a larger sysctl fs.file-max)",
        Some(libc::ENOMEM) => {
            " (give less --cache; or more, where `ulimit -v`, LimitAS= or a limit of its cgroup is what is short)"
        }
        _ => "",
    }
}

/// Turns a refusal of the kernel into an error that says what for.
pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> ServeError {
    move |source| ServeError::System { what, source }
}
