//! `forerun watch --record`: what all programs read of files while they are watched, as a trace that `compare` replays.
//!
//! The recorder of `trace record --files` runs beside the daemon, in a thread and with rings of its own: it sees hits too, which the daemon
//! has no use for.

use super::super::{recording, writing};
use crate::error::CliError;
use crate::ui::Ui;
use forerun_machine::machine::Machine;
use forerun_machine::recorded;
use forerun_machine::root::Root;
use forerun_study::human;
use forerun_trace::record::Trace;
use forerun_watch::daemon;
use forerun_watch::files::{self, FilesOptions, FilesRecording};
use forerun_watch::outcome::{Ended, RecordError};
use forerun_watch::rescue::RescueAt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

/// A recording under way.
pub(super) struct Reads {
    path: PathBuf,
    /// Where its lines go while it is made.
    lines: PathBuf,
    about: BTreeMap<String, String>,
    thread: JoinHandle<Result<FilesRecording, RecordError>>,
}

impl Reads {
    /// Begins one that ends with the flag; only of files of the file systems that hold `only`.
    ///
    /// # Errors
    /// Where it could not be written, or nothing can be recorded.
    pub(super) fn start(path: &Path, only: &[PathBuf], stop: &Arc<AtomicBool>) -> Result<Self, CliError> {
        let _ = writing::target(path, None)?;
        let lines = recording::lines_of(path, "--record")?;
        let machine = Machine::read(&Root::host()).ok();
        let about = machine.map(|machine| recorded::about(&Root::host(), &machine, None)).unwrap_or_default();
        let mut options = FilesOptions::new(Vec::new());
        options.devices = daemon::devices(only).map_err(super::problem)?;
        options.stop = Some(Arc::clone(stop));
        options.rescue = Some(RescueAt { path: lines.clone(), about: about.clone() });
        let named = std::thread::Builder::new().name("forerun-record".into());
        let thread = named
            .spawn(move || files::record_files(&options, &mut |_| {}))
            .map_err(|error| CliError::failure("--record", error))?;
        Ok(Self { path: path.to_owned(), lines, about, thread })
    }

    /// The flag is set: the trace is written.
    ///
    /// # Errors
    /// Where it cannot be; the lines stay.
    pub(super) fn finish(self, ui: &Ui) -> Result<(), CliError> {
        let recording = self.thread.join().map_err(|_| {
            CliError::failure("--record", "the recorder has broken; its lines stay beside the file")
        })?;
        let recording = recording.map_err(|problem| CliError::recording("--record", problem))?;
        if recording.lost > 0 {
            ui.say(&format!("{} events were lost: the ring was full", human::count(recording.lost)));
        }
        if recording.ended == Ended::Full {
            ui.say("--record stopped at the largest number of events that is kept");
        }
        let trace = Trace { about: self.about, ..recording.trace };
        let written = writing::write(&self.path, None, &trace, ui)?;
        std::fs::remove_file(&self.lines).map_err(|problem| CliError::file(&self.lines, &problem))?;
        writing::wrote(&self.path, &written, Some(recording.lost), ui)
    }
}
