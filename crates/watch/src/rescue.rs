//! What keeps a recording safe while it is made: its requests as lines of a file, once a second.
//!
//! A recorder is killed, or its disk becomes full, and what was recorded up to then should still be there. The lines are a trace of their
//! own ([`forerun_trace::journal`]); when the recording has ended in order, whoever asked for them has the whole trace and removes
//! them.

use crate::outcome::RecordError;
use forerun_trace::Journal;
use forerun_trace::record::Record;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longest time that a line is in memory alone.
const SEND_EVERY: Duration = Duration::from_millis(500);

/// Where the lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescueAt {
    /// The file; what was there is replaced.
    pub path: PathBuf,
    /// What is said of the machine at its beginning.
    pub about: BTreeMap<String, String>,
}

/// The lines that are being written; nothing happens where none were asked for.
#[derive(Debug, Default)]
pub(crate) struct Rescue {
    journal: Option<Journal>,
    sent: Option<Instant>,
}

impl Rescue {
    /// Begins the file.
    ///
    /// # Errors
    /// [`RecordError::Rescue`] if it cannot be written.
    pub(crate) fn begin(at: Option<&RescueAt>) -> Result<Self, RecordError> {
        let begun = |at: &RescueAt| {
            Journal::create(&at.path, &at.about)
                .map_err(|source| RecordError::Rescue { path: at.path.clone(), source })
        };
        Ok(Self { journal: at.map(begun).transpose()?, sent: None })
    }

    /// A recording that could not begin: a file without a request is no use to anybody, and would be in the way of the next.
    pub(crate) fn unbegun(at: Option<&RescueAt>, error: RecordError) -> RecordError {
        let none_ran = matches!(
            error,
            RecordError::Start { .. } | RecordError::NoCommand | RecordError::Unsupported { .. }
        );
        if let Some(at) = at.filter(|at| none_ran && at.path.is_file()) {
            drop(std::fs::remove_file(&at.path));
        }
        error
    }

    /// Whether lines were asked for.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.journal.is_some()
    }

    /// A request of a device, a process and a file.
    pub(crate) fn note(&mut self, record: &Record, names: [&str; 3]) {
        if let Some(journal) = &mut self.journal {
            journal.note(record, names, None);
        }
    }

    /// Called again and again: what is old enough goes to the file.
    pub(crate) fn look(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        if self.sent.is_none_or(|sent| sent.elapsed() >= SEND_EVERY) {
            journal.send();
            self.sent = Some(Instant::now());
        }
    }

    /// Why no more lines are written, if that is so.
    pub(crate) fn problem(&self) -> Option<ErrorKind> {
        self.journal.as_ref().and_then(Journal::problem).map(std::io::Error::kind)
    }

    /// The recording has ended in order.
    pub(crate) fn finish(&mut self) -> Option<ErrorKind> {
        let finished = self.journal.take()?.finish();
        finished.err().map(|problem| problem.kind())
    }
}
